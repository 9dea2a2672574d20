//! Any bytes as a WAL file in each way that an archive names one, plain and packed: every segment that is chosen can be read
//! to its end or says why not, and gives no more bytes than a segment has.
#![no_main]

use std::fs::{self, File};

use libfuzzer_sys::fuzz_target;
use pgforensics::cluster::wal::{WalSet, WalSetOptions};

const NAMES: [&str; 6] = [
    "000000010000000000000001",
    "000000010000000000000001.partial",
    "000000010000000000000001.gz",
    "000000010000000000000001-6e4c9d3c8a1b2f0e7d5c4b3a29181706f5e4d3c2.zst",
    "00000002.history",
    "wal.tar",
];

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let path = pgforensics_fuzz::file(NAMES[usize::from(*choice) % NAMES.len()], bytes);
    let scratch = || File::create_new(pgforensics_fuzz::directory().join("scratch"));
    if let Ok(set) = WalSet::open(&[path.clone()], WalSetOptions::new(&scratch)) {
        let size = u64::from(set.geometry().wal_segment_size);
        for index in 0..set.segments().len() {
            let Ok(mut segment) = set.reader(index) else { continue };
            let mut read = 0;
            while let Ok(Some(piece)) = segment.next_piece() {
                read += piece.len() as u64;
            }
            assert!(read <= size);
        }
    }
    let _ = (fs::remove_file(path), fs::remove_file(pgforensics_fuzz::directory().join("scratch")));
});
