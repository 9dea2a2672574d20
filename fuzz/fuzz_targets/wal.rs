//! Any bytes as a WAL segment: records lie inside it, in order; reading in pieces gives what reading at once gives;
//! images restore to a whole page or say why not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::parsers::image::ImageDecoder;
use pgforensics::parsers::wal::reader::{Event, ReaderOptions, WalReader};
use pgforensics::types::{Geometry, Lsn};

const GEOMETRY: Geometry =
    Geometry { block_size: 8192, rel_segment_blocks: 131_072, wal_block_size: 8192, wal_segment_size: 1 << 20 };

fn records(data: &[u8], piece: usize) -> Vec<(Lsn, u32)> {
    let first = Lsn(0x10_0000);
    let mut reader = WalReader::new(ReaderOptions::new(GEOMETRY), first).expect("a page boundary");
    let mut decoder = ImageDecoder::new();
    let mut page = vec![0; 8192];
    let mut found: Vec<(Lsn, u32)> = Vec::new();
    for piece in data.chunks(piece) {
        let mut input = piece;
        while let Some(event) = reader.next(&mut input) {
            if let Event::Record(record) = event {
                assert!(found.last().is_none_or(|(last, _)| *last < record.start_lsn));
                assert!(record.data_end_lsn.0 - first.0 <= data.len() as u64);
                found.push((record.start_lsn, record.header.tot_len));
                for image in record.blocks().filter_map(|block| block.image) {
                    drop(decoder.restore(&image, &mut page));
                }
            }
        }
    }
    found
}

fuzz_target!(|data: &[u8]| {
    assert_eq!(records(data, usize::MAX), records(data, 977));
});
