//! Any bytes as a double write buffer file of each kind: the layout is always told, and every slot lies inside the file.
//! The same bytes serve as the control file of the kind that has one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::parsers::dwb::patch::PatchDirectory;
use pgforensics::parsers::dwb::ring::RingDirectory;
use pgforensics::parsers::dwb::ring_control::RingControl;
use pgforensics::parsers::dwb::{DwbDirectory, MAX_SLOTS_PER_FILE, Slot};

fuzz_target!(|data: &[u8]| {
    if let Ok(control) = RingControl::decode(data) {
        assert!(control.is_whole() || !control.faults().is_empty());
    }
    for (kind, control) in [
        (&PatchDirectory as &dyn DwbDirectory, None),
        (&RingDirectory, None),
        (&RingDirectory, Some(&data[..data.len().min(RingControl::SIZE)])),
    ] {
        read_as(kind, control, data);
    }
});

fn read_as(kind: &dyn DwbDirectory, control: Option<&[u8]>, data: &[u8]) {
    let part = |offset: u64, length: usize| {
        let start = usize::try_from(offset).ok()?;
        data.get(start..start.checked_add(length)?)
    };
    let found =
        kind.detect(data.len() as u64, None, control, &mut |offset, length| part(offset, length).map(<[u8]>::to_vec));
    assert!(found.slot_count <= MAX_SLOTS_PER_FILE);
    for index in 0..found.slot_count {
        let ranges = found.layout.slot_ranges(found.block_size, index);
        let header = part(ranges.header.start, (ranges.header.end - ranges.header.start) as usize).expect("inside");
        let image = part(ranges.image.start, (ranges.image.end - ranges.image.start) as usize).expect("inside");
        let slot = Slot::decode(found.layout, index, &ranges, header, image).expect("long enough");
        drop(found.layout.slot_faults(&slot.header));
    }
}
