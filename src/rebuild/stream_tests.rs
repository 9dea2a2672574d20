use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;

use super::*;
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::reader::{ReadStep, ReaderOptions, WalReader};
use crate::parsers::wal::records::RecordKind;
use crate::parsers::wal::version::Major;
use crate::types::TimelineId;

const SYSTEM: u64 = 0x1122_3344_5566_7788;

#[derive(Debug, Default)]
struct Memory {
    segments: BTreeMap<u64, BTreeMap<u64, Vec<u8>>>,
}

impl SegmentSink for Memory {
    fn write(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.segments.entry(segment).or_default().insert(offset, bytes.to_vec());
        Ok(())
    }
}

impl Memory {
    /// A segment as the file would read. What was written last stands above the rest: the checkpoint at 40 is.
    fn segment(&self, number: u64, size: u32) -> Vec<u8> {
        let mut bytes = vec![0; size as usize];
        for (offset, piece) in self.segments.get(&number).into_iter().flatten() {
            let at = *offset as usize;
            bytes[at..at + piece.len()].copy_from_slice(piece);
        }
        bytes
    }
}

fn geometry(wal_block_size: u32, wal_segment_size: u32) -> Geometry {
    Geometry { wal_block_size, wal_segment_size, ..Geometry::USUAL }
}

fn format(geometry: Geometry) -> StreamFormat {
    StreamFormat { geometry, magic: Major::V15.magic(), system_identifier: SYSTEM, checkpoint_bytes: 88 }
}

/// A record of Heap of this length with main data, link and checksum of another place.
fn record(length: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; 24];
    let data = match length {
        ..=24 => 0,
        25..=281 => length.saturating_sub(26).max(1),
        _ => length - 29,
    };
    match data {
        0 => {}
        1..=255 => bytes.extend([255, data as u8]),
        _ => {
            bytes.push(254);
            bytes.extend((data as u32).to_le_bytes());
        }
    }
    bytes.extend((0..data).map(|i| (i as u8).wrapping_mul(31) ^ seed));
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..8].copy_from_slice(&700_u32.to_le_bytes());
    bytes[8..16].fill(0xEE);
    (bytes[16], bytes[17]) = (0x20 | CHECK_CONSISTENCY, 10);
    bytes[20..24].fill(0xCC);
    bytes
}

/// Counts bytes of records from `from` to `to`, one word after the other.
fn slow_usable(geometry: Geometry, from: u64, to: u64) -> u64 {
    let header = |at: u64| geometry.wal_header_bytes(Lsn(at - at % u64::from(geometry.wal_block_size)));
    (from..to).step_by(8).filter(|at| at % u64::from(geometry.wal_block_size) >= header(*at)).count() as u64 * 8
}

struct ReadBack {
    /// Start, bytes and link of records that are not fillers.
    records: Vec<(Lsn, Vec<u8>, Lsn)>,
    fillers: usize,
    end: EndOfWal,
}

/// Reads all segments with the project's own reader.
fn read_back(memory: &Memory, geometry: Geometry, first: u64, last: u64) -> ReadBack {
    let mut options = ReaderOptions::new(geometry);
    (options.major, options.system_identifier) = (Some(Major::V15), Some(SYSTEM));
    options.timelines = vec![TimelineId(1)];
    let start = Lsn(first * u64::from(geometry.wal_segment_size));
    let mut reader = WalReader::new(options, start).unwrap();
    let mut found = (Vec::new(), 0);
    for number in first..=last + 1 {
        let bytes = memory.segment(number, geometry.wal_segment_size);
        let mut input = bytes.as_slice();
        let step = reader.read(&mut input, |record| {
            let is_filler = matches!(record.kind(), RecordKind::XlogNoop | RecordKind::XlogSwitch);
            match is_filler {
                true => found.1 += 1,
                false => found.0.push((record.start_lsn, record.bytes.to_vec(), record.header.prev)),
            }
            ControlFlow::Continue(())
        });
        if let ReadStep::End(_) = step {
            break;
        }
    }
    ReadBack { records: found.0, fillers: found.1, end: reader.finish() }
}

/// Writes records and checks that exactly they come back.
fn check(geometry: Geometry, records: &[(Lsn, Vec<u8>)]) -> (StreamSummary, ReadBack) {
    let mut writer = StreamWriter::new(format(geometry), Memory::default());
    for (lsn, bytes) in records {
        writer.put(*lsn, bytes).unwrap();
    }
    let payload = vec![0x5A; 88];
    let (summary, memory) = writer.finish(|_| payload.clone()).unwrap();
    let summary = summary.unwrap();
    let size = u64::from(geometry.wal_segment_size);
    let (first, last) = (summary.checkpoint_lsn.0 / size, summary.end_lsn.0 / size);
    let found = read_back(&memory, geometry, first, last);
    let (checkpoint, kept) = found.records.split_first().unwrap();
    assert_eq!((checkpoint.0, checkpoint.0.0 % size, checkpoint.2), (summary.checkpoint_lsn, 40, Lsn(0)));
    assert_eq!(checkpoint.1[24..], [&[255, 88][..], &payload].concat());
    assert_eq!(kept.len(), records.len());
    for ((lsn, bytes), (found_lsn, found_bytes, _)) in records.iter().zip(kept) {
        assert_eq!(found_lsn, lsn);
        assert_eq!(found_bytes[..8], bytes[..8]);
        assert_eq!((found_bytes[16], found_bytes[17]), (0x20, 10));
        assert_eq!(found_bytes[24..], bytes[24..]);
    }
    let (last_lsn, last_bytes) = records.last().unwrap();
    assert_eq!(summary.last_lsn, *last_lsn);
    assert_eq!(summary.end_lsn, geometry.wal_record_end(*last_lsn, last_bytes.len() as u64));
    assert_eq!(found.end.last_record, Some(*last_lsn));
    assert_eq!(found.end.end_of_last, Some(summary.end_lsn));
    (summary, found)
}

#[test]
fn records_stand_where_they_stood() {
    let geometry = geometry(8192, 1 << 20);
    let records =
        [(Lsn(0x30_0100), record(200, 1)), (Lsn(0x30_0200), record(9000, 2)), (Lsn(0x70_4000 + 24), record(24, 3))];
    let (summary, found) = check(geometry, &records);
    assert_eq!(summary.checkpoint_lsn, Lsn(0x20_0028));
    // Segment 2, with the checkpoint, is cut short, as are 3 after the second record, and 4, 5 and 6. Before the first record
    // and the second there is space for one, and 7 has two pages before the third.
    assert_eq!(found.fillers, 5 + 2 + 2);
}

#[test]
fn segment_without_records_takes_one_page() {
    let geometry = geometry(8192, 16 << 20);
    let mut writer = StreamWriter::new(format(geometry), Memory::default());
    writer.put(Lsn(0x500_0028), &record(100, 1)).unwrap();
    writer.put(Lsn(0xA00_0028), &record(100, 2)).unwrap();
    let (summary, memory) = writer.finish(|_| vec![0; 88]).unwrap();
    assert_eq!(memory.segments.len(), 7);
    assert_eq!(summary.unwrap().bytes, 7 * 8192);
}

#[test]
fn first_segments_of_a_cluster_have_the_checkpoint_in_them() {
    let geometry = geometry(8192, 1 << 20);
    // The record of a checkpoint of 88 bytes ends 120 bytes after its start.
    for offset in [160, 184, 8192 + 24, 0xF_FFF0] {
        for segment in [0, 1] {
            let (summary, _) = check(geometry, &[(Lsn((segment << 20) + offset), record(3000, 7))]);
            assert_eq!(summary.checkpoint_lsn, Lsn((segment << 20) + 40));
        }
    }
    for offset in [40, 152, 168, 176] {
        let mut writer = StreamWriter::new(format(geometry), Memory::default());
        let refused = writer.put(Lsn((1 << 20) + offset), &record(100, 1));
        assert!(matches!(refused, Err(StreamError::Fault(StreamFault::NoRoomBefore { .. }))), "{offset}");
    }
}

#[test]
fn record_that_cannot_stand_there_is_refused() {
    let geometry = geometry(8192, 1 << 20);
    // After the first, which ends at 0x30_0100 + 200: no room, 8 bytes, not aligned, inside a page header, on one.
    for second in [0x30_0100, 0x30_01C0, 0x30_01D0, 0x30_01F4, 0x30_2008, 0x30_2000] {
        let mut writer = StreamWriter::new(format(geometry), Memory::default());
        writer.put(Lsn(0x30_0100), &record(200, 1)).unwrap();
        let refused = writer.put(Lsn(second), &record(100, 1));
        assert!(matches!(refused, Err(StreamError::Fault(StreamFault::NoRecordFits { .. }))), "{second:X}");
    }
}

#[test]
fn nothing_is_written_without_a_record() {
    let writer = StreamWriter::new(format(Geometry::USUAL), Memory::default());
    let (summary, memory) = writer.finish(|_| vec![0; 88]).unwrap();
    assert!(summary.is_none() && memory.segments.is_empty());
}

/// The space before a record.
#[derive(Clone, Copy, Debug)]
enum Gap {
    None,
    /// So many bytes of records.
    Bytes(u64),
    /// The record starts so many bytes before the end of the page so many pages on.
    BeforePage(u64, u64),
    BeforeSegment(u64, u64),
    /// The record starts so many bytes after the first that can stand in the segment so many segments on.
    InSegment(u64, u64),
}

fn gaps() -> impl Strategy<Value = Gap> {
    let near = (0_u64..9).prop_map(|words| words * 8);
    prop_oneof![
        Just(Gap::None),
        (3_u64..9).prop_map(|words| Gap::Bytes(words * 8)),
        (3_u64..4000).prop_map(|words| Gap::Bytes(words * 8)),
        (0_u64..4, near.clone()).prop_map(|(pages, before)| Gap::BeforePage(pages, before)),
        (0_u64..3, near.clone()).prop_map(|(segments, before)| Gap::BeforeSegment(segments, before)),
        (1_u64..4, near).prop_map(|(segments, after)| Gap::InSegment(segments, after)),
    ]
}

/// The address, or the first after the page header that it lies in.
fn after_header(geometry: Geometry, lsn: Lsn) -> Lsn {
    let in_page = lsn.0 % u64::from(geometry.wal_block_size);
    let page = Lsn(lsn.0 - in_page);
    Lsn(lsn.0.max(page.0 + geometry.wal_header_bytes(page)))
}

/// Where the record stands: as the gap says, or the next place at which a record can follow one that ends at `end`.
fn start_after(geometry: Geometry, end: Lsn, gap: Gap) -> Lsn {
    let (page, segment) = (u64::from(geometry.wal_block_size), u64::from(geometry.wal_segment_size));
    let here = record_position(geometry, end);
    let mut at = match gap {
        Gap::None => return here,
        Gap::Bytes(bytes) => here.0 + bytes,
        Gap::BeforePage(pages, before) => (here.0 / page + 1 + pages) * page - before,
        Gap::BeforeSegment(segments, before) => (here.0 / segment + 1 + segments) * segment - before,
        Gap::InSegment(segments, after) => (here.0 / segment + segments) * segment + 40 + after,
    };
    loop {
        let start = record_position(geometry, Lsn(at - at % 8));
        if start >= here && start == after_header(geometry, start) {
            let usable = if start.0 - here.0 > 4 * page { page } else { slow_usable(geometry, here.0, start.0) };
            if usable == 0 || usable >= 24 {
                return start;
            }
        }
        at += 8;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_records_come_back_at_their_own_addresses(
        segment in prop_oneof![3 => Just(1_u32 << 20), 1 => Just(16 << 20)],
        page in prop_oneof![3 => Just(8192_u32), 1 => Just(1024), 1 => Just(65_536)],
        first in (2_u64..5, 0_u64..40_000),
        pieces in proptest::collection::vec((gaps(), prop_oneof![24_usize..80, 24_usize..9000, 24_usize..70_000]), 1..12),
    ) {
        let geometry = geometry(page, segment);
        let in_segment = (40 + 120 + 24 + first.1) / 8 * 8;
        let begin = after_header(geometry, Lsn(first.0 * u64::from(segment) + in_segment));
        let mut end = begin;
        let mut records = Vec::new();
        for (index, (gap, length)) in pieces.into_iter().enumerate() {
            let start = start_after(geometry, end, gap);
            let bytes = record(length, index as u8);
            end = geometry.wal_record_end(start, bytes.len() as u64);
            records.push((start, bytes));
        }
        check(geometry, &records);
    }
}
