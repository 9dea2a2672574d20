//! Any bytes as a double write buffer file: the layout is always told, and every slot lies inside the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::parsers::dwb::detect::detect;
use pgforensics::parsers::dwb::{MAX_SLOTS_PER_FILE, Slot};

fuzz_target!(|data: &[u8]| {
    let part = |offset: u64, length: usize| {
        let start = usize::try_from(offset).ok()?;
        data.get(start..start.checked_add(length)?)
    };
    let found = detect(data.len() as u64, None, &mut |offset, length| part(offset, length).map(<[u8]>::to_vec));
    assert!(found.slot_count <= MAX_SLOTS_PER_FILE);
    for index in 0..found.slot_count {
        let place = found.layout.slot_place(found.block_size, index);
        let header = part(place.header.start, (place.header.end - place.header.start) as usize).expect("inside");
        let image = part(place.image.start, (place.image.end - place.image.start) as usize).expect("inside");
        let slot = Slot::decode(found.layout, index, &place, header, image).expect("long enough");
        drop(slot.header.faults());
    }
});
