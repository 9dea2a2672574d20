//! Any bytes as `pg_filenode.map`: entries are those that it has room for, and a map without faults has one CRC that fits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::parsers::filenode_map::FilenodeMap;

fuzz_target!(|data: &[u8]| {
    let Ok(map) = FilenodeMap::decode(0, data) else {
        assert!(data.len() < 524);
        return;
    };
    assert!(map.entries.len() <= map.layout.max_entries());
    if map.faults().is_empty() {
        assert_eq!(map.crc, crc32c(&data[..map.layout.crc_offset()]));
        for entry in &map.entries {
            // The first of two counts; file 0 is none.
            let first = map.entries.iter().find(|other| other.oid == entry.oid).expect("itself at least");
            assert_eq!(map.rel_number(entry.oid), Some(first.rel_number).filter(|number| *number > 0));
        }
    }
});

/// Bit by bit: not the code that is tested.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 & 0u32.wrapping_sub(crc & 1)))
    })
}
