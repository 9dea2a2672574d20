//! Any bytes as the start of a WAL segment, at the address and with the sizes that its first page names: records lie inside
//! it, in order; reading in pieces gives what reading at once gives; images restore to a whole page or say why not. A record
//! whose CRC alone is wrong is signed again, so that what is read only after that check is reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::analysis::wal::page_action::PageAction;
use pgforensics::analysis::wal::record_sheet::RecordSheet;
use pgforensics::parsers::image::ImageDecoder;
use pgforensics::parsers::wal::end::EndReason;
use pgforensics::parsers::wal::heap_row::RowWrite;
use pgforensics::parsers::wal::lifecycle::{LifeCycle, SubXacts, XactEnd, record_time};
use pgforensics::parsers::wal::payload::XlogPayload;
use pgforensics::parsers::wal::reader::{Event, ReaderOptions, WalReader};
use pgforensics::parsers::wal::record::Record;
use pgforensics::types::{Geometry, Lsn};

/// How often records are signed and read again: after one there can be more.
const ROUNDS: usize = 4;

/// Bytes of a record header before its CRC.
const CRC_AT: u64 = 20;

/// Sizes and address by the long header of the first page; those of the first segment where it has none that can be.
fn geometry_of(data: &[u8]) -> (Geometry, Lsn) {
    let u32_at = |at: usize| data.get(at..at + 4).and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)));
    let address = data.get(8..16).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    let power = |bytes: u32, least: u32, most: u32| bytes.is_power_of_two() && (least..=most).contains(&bytes);
    let segment = u32_at(32).filter(|bytes| power(*bytes, 1 << 20, 1 << 30)).unwrap_or(1 << 20);
    let page = u32_at(36).filter(|bytes| power(*bytes, 1 << 10, 1 << 16)).unwrap_or(8192);
    let first = address.filter(|address| address % u64::from(page) == 0 && address >> 62 == 0).unwrap_or(1 << 20);
    let geometry =
        Geometry { block_size: 8192, rel_segment_blocks: 131_072, wal_block_size: page, wal_segment_size: segment };
    (geometry, Lsn(first))
}

/// Records, and where a CRC is wrong: what it should be.
struct Found {
    records: Vec<(Lsn, u32)>,
    unsigned: Vec<(Lsn, u32)>,
}

fn read(data: &[u8], piece: usize, resynchronise: bool) -> Found {
    let (geometry, first) = geometry_of(data);
    let options = ReaderOptions { resynchronise, ..ReaderOptions::new(geometry) };
    let mut found = Found { records: Vec::new(), unsigned: Vec::new() };
    let Ok(mut reader) = WalReader::new(options, first) else { return found };
    let mut decoder = ImageDecoder::new();
    let mut page = vec![0; 8192];
    for piece in data.chunks(piece) {
        let mut input = piece;
        while let Some(event) = reader.next(&mut input) {
            match event {
                Event::Record(record) => {
                    assert!(found.records.last().is_none_or(|(last, _)| *last < record.start_lsn));
                    assert!(record.start_lsn >= first && record.data_end_lsn.0 - first.0 <= data.len() as u64);
                    found.records.push((record.start_lsn, record.header.tot_len));
                    understand(&record);
                    for image in record.blocks().filter_map(|block| block.image) {
                        drop(decoder.restore(&image, &mut page));
                    }
                }
                Event::Damage(end) | Event::End(end) => {
                    if let EndReason::Checksum { computed, .. } = end.reason {
                        found.unsigned.push((end.at, computed));
                    }
                }
                Event::Aborted(_) => {}
            }
        }
    }
    found
}

/// Reads what a record means. Where that cannot be, the error lies inside the record.
fn understand(record: &Record<'_>) {
    let main_data = record.main_data_lsn().0..=record.main_data_lsn().0 + record.main_data().len() as u64;
    let errors = [
        XlogPayload::of(record).err(),
        XactEnd::of(record).err(),
        SubXacts::of(record).err(),
        LifeCycle::of(record).err(),
    ];
    for error in errors.into_iter().flatten() {
        assert!(main_data.contains(&error.offset), "{error:?}");
    }
    let _ = (record_time(record), RowWrite::of(record));
    for block in record.blocks() {
        let _ = PageAction::of(record, &block);
    }
    let sheet = RecordSheet::of(record, &[]);
    assert!(sheet.bytes.len() as u64 <= u64::from(record.header.tot_len));
}

fn signed(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for _ in 0..ROUNDS {
        let (geometry, first) = geometry_of(&data);
        let unsigned = read(&data, usize::MAX, true).unsigned;
        let mut changed = false;
        for (lsn, crc) in unsigned {
            let at = lsn.0 - first.0 + CRC_AT;
            // Where the header goes on in the next page, it stays as it is.
            let is_in_page =
                lsn.0 / u64::from(geometry.wal_block_size) == (lsn.0 + CRC_AT + 3) / u64::from(geometry.wal_block_size);
            let place = usize::try_from(at).ok().and_then(|at| data.get_mut(at..at + 4)).filter(|_| is_in_page);
            if let Some(place) = place {
                changed |= *place != crc.to_le_bytes();
                place.copy_from_slice(&crc.to_le_bytes());
            }
        }
        if !changed {
            break;
        }
    }
    data
}

fuzz_target!(|data: &[u8]| {
    let data = signed(data);
    for resynchronise in [false, true] {
        let whole = read(&data, usize::MAX, resynchronise).records;
        for piece in [977, 8192] {
            assert_eq!(whole, read(&data, piece, resynchronise).records);
        }
    }
});
