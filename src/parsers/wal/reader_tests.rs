use proptest::prelude::*;

use super::*;
use crate::parsers::wal::end::EndKind;
use crate::parsers::wal::page::PageFault;
use crate::parsers::wal::record::RecordHeaderFault;
use crate::parsers::wal::testing::{PAGE, SEGMENT, SYSTEM, WalWriter};

const FIRST: u64 = 5 << 20;

fn options() -> ReaderOptions {
    ReaderOptions::new(Geometry {
        block_size: 8192,
        rel_segment_blocks: 131_072,
        wal_block_size: PAGE as u32,
        wal_segment_size: SEGMENT as u32,
    })
}

/// Result of reading, with records as start, end and bytes.
#[derive(Debug, Default, PartialEq)]
struct Read {
    records: Vec<(u64, u64, Vec<u8>)>,
    recovered: Vec<bool>,
    aborted: Vec<Aborted>,
    damage: Vec<EndOfWal>,
    end: Option<EndOfWal>,
    longest_buffer: usize,
}

fn read_with(options: ReaderOptions, first: u64, bytes: &[u8], chunk: usize) -> Read {
    let mut reader = WalReader::new(options, Lsn(first)).unwrap();
    let mut read = Read::default();
    for mut piece in bytes.chunks(chunk) {
        while let Some(event) = reader.next(&mut piece) {
            match event {
                Event::Record(record) => {
                    read.recovered.push(record.recovered);
                    read.records.push((record.start_lsn.0, record.end_lsn.0, record.bytes.to_vec()));
                }
                Event::Aborted(aborted) => read.aborted.push(aborted),
                Event::Damage(end) => read.damage.push(end),
                Event::End(end) => read.end = Some(end),
            }
        }
        read.longest_buffer = read.longest_buffer.max(reader.buffer.capacity());
    }
    let end = reader.finish();
    assert!(read.end.is_none() || read.end.as_ref() == Some(&end));
    read.end = Some(end);
    read
}

fn read(writer: &WalWriter) -> Read {
    let whole = read_with(options(), writer.first, &writer.bytes, usize::MAX);
    assert_eq!(read_with(options(), writer.first, &writer.bytes, 1).records, whole.records);
    whole
}

fn end_of(writer: &WalWriter) -> EndOfWal {
    read(writer).end.unwrap()
}

/// A few records; some cross pages, one of them with its header.
fn sample() -> WalWriter {
    let mut writer = WalWriter::new(FIRST);
    for length in [100, 0, 1, 255, 256, 900, 300, 3000, 8, 60] {
        writer.heap(length);
    }
    writer
}

/// A writer whose next record starts `left` bytes before the end of its page.
fn near_page_end(left: usize) -> WalWriter {
    let mut writer = WalWriter::new(FIRST);
    writer.heap(100);
    let at = writer.bytes.len() % PAGE;
    writer.heap(PAGE - at - left - 24 - 5);
    assert_eq!((writer.bytes.len() + left) % PAGE, 0);
    writer
}

#[test]
fn records_come_back_as_written() {
    let writer = sample();
    let read = read(&writer);
    assert_eq!(read.records, writer.records);
    assert_eq!(read.end.unwrap().reason, EndReason::InputEnds);
    assert!(read.recovered.iter().all(|recovered| !recovered));
}

#[test]
fn a_header_split_by_a_page_is_joined() {
    for left in [8, 16, 24, 32] {
        let mut writer = near_page_end(left);
        writer.heap(50);
        writer.heap(50);
        let read = read(&writer);
        assert_eq!(read.records, writer.records, "{left}");
    }
}

#[test]
fn zeros_end_wal_with_the_last_record_named() {
    let mut writer = sample();
    let (at, last) = (writer.lsn(), writer.prev);
    writer.fill_page();
    let end = end_of(&writer);
    assert_eq!((end.reason, end.at), (EndReason::ZeroLength, Lsn(at)));
    assert_eq!((end.last_record, end.end_of_last, end.unfinished), (Some(Lsn(last)), Some(Lsn(at)), None));
}

#[test]
fn unwritten_recycled_and_repeated_pages_are_distinguished() {
    let mut writer = near_page_end(0);
    let at = writer.lsn();
    let written = writer.bytes.clone();
    writer.bytes.extend([0; PAGE]);
    let end = end_of(&writer);
    assert_eq!((end.reason, end.at), (EndReason::NeverWritten, Lsn(at)));
    let mut stale = |page_addr: u64| {
        writer.bytes.clone_from(&written);
        writer.header(0, 0);
        let header = written.len();
        writer.bytes[header + 8..header + 16].copy_from_slice(&page_addr.to_le_bytes());
        writer.fill_page();
        end_of(&writer)
    };
    let end = stale(at - 3 * SEGMENT as u64);
    assert_eq!(end.reason, EndReason::Recycled { found: Lsn(at - 3 * SEGMENT as u64) });
    assert_eq!((end.reason.kind(), end.at), (EndKind::Stale, Lsn(at)));
    assert_eq!(stale(FIRST).reason, EndReason::RepeatedPage { found: Lsn(FIRST) });
    let damaged = stale(at ^ 1 << 40);
    assert!(matches!(damaged.reason, EndReason::Page(PageFault::Address { .. })));
    assert_eq!(damaged.reason.kind(), EndKind::Damaged);
}

#[test]
fn broken_record_headers_end_wal_at_the_record() {
    type Case<'a> = (usize, &'a [u8], fn(&EndReason) -> bool);
    let cases: [Case<'_>; 5] = [
        (0, &23_u32.to_le_bytes(), |r| *r == EndReason::Header(RecordHeaderFault::TooShort { found: 23 })),
        (0, &u32::MAX.to_le_bytes(), |r| matches!(r, EndReason::Header(RecordHeaderFault::TooLong { .. }))),
        (8, &[9], |r| matches!(r, EndReason::Header(RecordHeaderFault::PrevLink { .. }))),
        (17, &[99], |r| *r == EndReason::Header(RecordHeaderFault::RmgrId { found: 99 })),
        (30, &[0xEE], |r| matches!(r, EndReason::Checksum { .. })),
    ];
    for (offset, bytes, fits) in cases {
        // In the middle of a page, and with the header split by one.
        for left in [8, 600] {
            let mut writer = near_page_end(left);
            let good = writer.prev;
            let mut record = writer.built(10, 0, &[255, 5, 1, 2, 3, 4, 5]);
            record[offset..offset + bytes.len()].copy_from_slice(bytes);
            let at = writer.raw(&record);
            writer.heap(40);
            let end = end_of(&writer);
            assert!(fits(&end.reason), "{end}");
            assert_eq!((end.at, end.last_record, end.unfinished), (Lsn(at), Some(Lsn(good)), None), "{end}");
        }
    }
}

#[test]
fn a_body_that_breaks_the_grammar_is_found_under_a_good_checksum() {
    let mut writer = sample();
    let at = writer.record(10, 0, &[40, 1, 2, 3]);
    let end = end_of(&writer);
    assert!(matches!(&end.reason, EndReason::Body(error) if error.offset == at + 24), "{end}");
    assert_eq!(end.at, Lsn(at));
}

#[test]
fn a_length_of_4_gib_takes_no_memory() {
    let mut writer = WalWriter::new(FIRST);
    writer.heap(10);
    // The longest believable length, and pages that keep agreeing with it as long as there are any.
    let mut record = writer.built(10, 0, &[0; 5000]);
    record[..4].copy_from_slice(&(1020_u32 << 20).to_le_bytes());
    writer.raw(&record);
    let found = read_with(options(), FIRST, &writer.bytes, 100);
    assert!(found.longest_buffer < 20_000, "{}", found.longest_buffer);
    assert!(matches!(found.end.unwrap().reason, EndReason::ContinuationLength { .. }));
    record[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut writer = WalWriter::new(FIRST);
    writer.raw(&record);
    let found = read_with(options(), FIRST, &writer.bytes, usize::MAX);
    assert!(found.longest_buffer < 100);
}

#[test]
fn input_that_ends_inside_something_says_so() {
    let mut writer = near_page_end(16);
    let (good, at) = (writer.prev, writer.lsn());
    writer.heap(2000);
    let cut = |length: usize| {
        let end = read_with(options(), FIRST, &writer.bytes[..length], 33).end.unwrap();
        assert_eq!(end.last_record, Some(Lsn(good)));
        end
    };
    let end = cut(PAGE);
    assert_eq!((end.reason, end.at), (EndReason::CutShort { structure: "record", have: 16 }, Lsn(at)));
    let end = cut(PAGE + 24 + 10);
    assert_eq!(end.reason, EndReason::CutShort { structure: "record", have: 26 });
    assert_eq!(cut(PAGE - 16).reason, EndReason::InputEnds);
    let writer = near_page_end(0);
    let end = read_with(options(), FIRST, &[&writer.bytes[..], &[0x18, 0xD1]].concat(), 33).end.unwrap();
    assert_eq!(end.reason, EndReason::CutShort { structure: "page header", have: 2 });
    assert_eq!(end.at, Lsn(FIRST + PAGE as u64));
}

#[test]
fn pages_of_another_server_end_wal() {
    let end_with = |offset: usize, bytes: &[u8], options: ReaderOptions| {
        let mut writer = sample();
        let at = 3 * PAGE + offset;
        writer.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        read_with(options, FIRST, &writer.bytes, 100).end.unwrap()
    };
    let end = end_with(0, &0xD116_u16.to_le_bytes(), options());
    let fault = PageFault::ForeignMagic { found: Major::V17, expected: Major::V18 };
    assert_eq!((end.reason, end.at), (EndReason::Page(fault), Lsn(FIRST + 3 * PAGE as u64)));
    assert!(end.unfinished.is_some());
    assert!(matches!(end_with(2, &[0xF5], options()).reason, EndReason::Page(PageFault::UnknownFlags { .. })));
    let end = end_with(4, &[0], options());
    assert!(matches!(end.reason, EndReason::Page(PageFault::TimelineBackwards { .. })));
    let end = end_with(4, &[3], ReaderOptions { timelines: vec![TimelineId(1), TimelineId(2)], ..options() });
    assert_eq!(end.reason, EndReason::Page(PageFault::ForeignTimeline { found: TimelineId(3) }));
    let foreign = ReaderOptions { system_identifier: Some(1), ..options() };
    let end = end_with(20, &[0], foreign);
    assert_eq!(end.reason, EndReason::Page(PageFault::ForeignSystem { found: SYSTEM, expected: 1 }));
    assert_eq!((end.at, end.last_record), (Lsn(FIRST), None));
    let end = end_with(20, &[0], ReaderOptions { major: Some(Major::V15), ..options() });
    assert!(matches!(end.reason, EndReason::Page(PageFault::ForeignMagic { .. })));
}

#[test]
fn broken_continuations_end_wal_at_the_page() {
    let with_page = |flags: u8, rem_len: u32| {
        let mut writer = near_page_end(16);
        let at = writer.heap(300);
        writer.bytes[PAGE + 2] = flags;
        writer.bytes[PAGE + 16..PAGE + 20].copy_from_slice(&rem_len.to_le_bytes());
        let end = end_of(&writer);
        assert_eq!((end.at, end.unfinished), (Lsn(FIRST + PAGE as u64), Some(Lsn(at))));
        end.reason
    };
    assert_eq!(with_page(0x04, 0), EndReason::ContinuationMissing);
    assert_eq!(with_page(0x05, 0), EndReason::ContinuationLength { found: 0, expected: 313 });
    assert_eq!(with_page(0x05, 312), EndReason::ContinuationLength { found: 312, expected: 313 });
    let mut writer = near_page_end(0);
    writer.header(0, 0x01);
    writer.heap(10);
    let end = end_of(&writer);
    assert_eq!(end.reason, EndReason::UnexpectedContinuation { rem_len: 0 });
}

#[test]
fn a_switch_goes_on_in_the_next_segment() {
    for page_headers_kept in [false, true] {
        let mut writer = sample();
        let switch = writer.record(0, 0x40, &[]);
        let end = FIRST + SEGMENT as u64;
        if page_headers_kept {
            writer.fill_page();
            while writer.lsn() < end {
                writer.header(0, 0);
                writer.fill_page();
            }
        }
        writer.bytes.resize(SEGMENT, 0);
        writer.records.last_mut().unwrap().1 = end;
        writer.heap(10);
        let read = read_with(options(), FIRST, &writer.bytes, 100_000);
        assert_eq!(read.records, writer.records);
        assert_eq!(read.records[read.records.len() - 2].0, switch);
        assert_eq!(read.records.last().map(|record| record.0), Some(end + 40));
    }
}

/// A record that loses its rest, and what replaces it, naming `named` as the one that was lost.
fn aborted(named: impl Fn(u64) -> u64) -> (WalWriter, u64) {
    let mut writer = near_page_end(16);
    let (last, missing) = (writer.prev, FIRST + 2 * PAGE as u64);
    let lost_record = writer.built(10, 0, &[0; 3000]);
    let lost = writer.raw(&lost_record);
    writer.bytes.truncate(2 * PAGE);
    writer.prev = last;
    writer.header(0, 0x08);
    let payload = [&[255, 16][..], &named(lost).to_le_bytes(), &[0; 8]].concat();
    assert_eq!(writer.record(0, 0xD0, &payload), missing + 24);
    writer.heap(100);
    (writer, lost)
}

#[test]
fn a_record_given_up_by_the_server_is_reported_and_passed() {
    let (mut writer, lost) = aborted(|lost| lost);
    // Only the first record after the gap must name what was lost.
    writer.record(0, 0xD0, &[&[255, 16][..], &8_u64.to_le_bytes(), &[0; 8]].concat());
    let read = read(&writer);
    assert_eq!(read.records, writer.records);
    let missing_lsn = Lsn(FIRST + 2 * PAGE as u64);
    let expected = Aborted { start_lsn: Lsn(lost), missing_lsn, have: 16 + 1000, tot_len: 3024 };
    assert_eq!(read.aborted, [expected]);
    let (writer, lost) = aborted(|lost| lost + 8);
    let end = end_of(&writer);
    assert_eq!(end.reason, EndReason::Overwritten { found: Lsn(lost + 8), expected: Lsn(lost) });
}

#[test]
fn reading_can_start_at_any_page() {
    let writer = sample();
    for page in 0..writer.bytes.len() / PAGE {
        let from = page * PAGE;
        let read = read_with(options(), FIRST + from as u64, &writer.bytes[from..], 500);
        let expected: Vec<_> =
            writer.records.iter().filter(|record| record.0 >= FIRST + from as u64).cloned().collect();
        assert_eq!(read.records, expected, "page {page}");
    }
}

#[test]
fn the_limit_ends_reading_after_the_last_record_before_it() {
    let writer = sample();
    for limit in (0..writer.bytes.len() as u64).step_by(8) {
        let limited = ReaderOptions { limit: Some(Lsn(FIRST + limit)), ..options() };
        let read = read_with(limited, FIRST, &writer.bytes, 77);
        let expected: Vec<_> = writer.records.iter().filter(|record| record.0 < FIRST + limit).cloned().collect();
        assert_eq!(read.records, expected, "limit {limit}");
        assert_eq!(read.end.unwrap().reason, EndReason::Limit);
    }
}

#[test]
fn after_damage_reading_goes_on_where_a_page_starts_a_record() {
    let resync = ReaderOptions { resynchronise: true, ..options() };
    let mut writer = WalWriter::new(FIRST);
    for _ in 0..60 {
        writer.heap(100);
    }
    // A flipped bit in the third record: the rest of its page is lost, and the record that crosses its end.
    let victim = writer.records[2].clone();
    let at = (victim.0 - FIRST) as usize + 40;
    writer.bytes[at] ^= 1;
    let found = read_with(resync.clone(), FIRST, &writer.bytes, 100);
    let next_page = FIRST + PAGE as u64;
    let expected: Vec<_> =
        writer.records.iter().filter(|record| record.0 < victim.0 || record.0 > next_page).cloned().collect();
    assert_eq!(found.records, expected);
    assert_eq!(found.damage.len(), 1);
    assert!(matches!(found.damage[0].reason, EndReason::Checksum { .. }));
    assert_eq!(found.recovered.iter().filter(|recovered| !**recovered).count(), 2);
    // Three pages without a sound header are one damage.
    writer.bytes[at] ^= 1;
    writer.bytes[2 * PAGE..5 * PAGE].fill(0);
    let found = read_with(resync, FIRST, &writer.bytes, 100);
    assert_eq!(found.damage.len(), 1);
    assert_eq!(found.damage[0].at, Lsn(FIRST + 2 * PAGE as u64));
    assert!(found.records.last() == writer.records.last());
    assert_eq!(found.end.unwrap().reason, EndReason::InputEnds);
}

#[test]
fn impossible_sizes_are_refused() {
    let with = |wal_block_size, wal_segment_size, first| {
        let geometry = Geometry { wal_block_size, wal_segment_size, ..options().geometry };
        WalReader::new(ReaderOptions::new(geometry), Lsn(first)).err()
    };
    assert_eq!(with(8192, 1 << 24, 0x2000), None);
    for size in [0, 512, 8191, 131_072] {
        assert_eq!(with(size, 1 << 24, 0), Some(ReaderError::BlockSize(size)));
    }
    for size in [0, 1 << 19, (1 << 20) + 1, 1 << 31] {
        assert_eq!(with(8192, size, 0), Some(ReaderError::SegmentSize(size)));
    }
    assert_eq!(with(8192, 1 << 24, 24), Some(ReaderError::Unaligned(Lsn(24))));
}

/// Which bytes lie under a record's checksum or are its header: the rest is page headers and padding.
fn covered(writer: &WalWriter, offset: usize) -> Option<usize> {
    if (offset % PAGE) < 24 || offset < 40 {
        return None;
    }
    let lsn = FIRST + offset as u64;
    writer.records.iter().position(|record| {
        let length = Lsn(record.0).0 + record.2.len() as u64;
        let crosses = record.0 / PAGE as u64 != record.1 / PAGE as u64;
        (record.0..if crosses { record.1 - 7 } else { length }).contains(&lsn)
    })
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same(
        lengths in prop::collection::vec(0_usize..2500, 1..12), chunk in 1_usize..3000, cut in 0_usize..4000,
    ) {
        let mut writer = WalWriter::new(FIRST);
        for length in lengths {
            writer.heap(length);
        }
        let bytes = &writer.bytes[..writer.bytes.len().saturating_sub(cut)];
        let whole = read_with(options(), FIRST, bytes, usize::MAX);
        prop_assert!(writer.records.starts_with(&whole.records));
        let pieces = read_with(options(), FIRST, bytes, chunk);
        prop_assert_eq!(&pieces.records, &whole.records);
        prop_assert_eq!(pieces.end, whole.end);
    }

    #[test]
    fn one_flipped_bit_never_changes_a_record(offset in 0_usize..5000, bit in 0_u8..8, resynchronise in any::<bool>()) {
        let mut writer = sample();
        let offset = offset % writer.bytes.len();
        writer.bytes[offset] ^= 1 << bit;
        let read = read_with(ReaderOptions { resynchronise, ..options() }, FIRST, &writer.bytes, 1000);
        for record in &read.records {
            prop_assert!(writer.records.contains(record));
        }
        if let Some(victim) = covered(&writer, offset) {
            prop_assert!(!read.records.contains(&writer.records[victim]), "bit {} of byte {}", bit, offset);
            prop_assert!(!resynchronise || !read.damage.is_empty());
        }
        if !resynchronise {
            prop_assert!(writer.records.starts_with(&read.records));
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..5000), flips in prop::collection::vec((0_usize..5000, any::<u8>()), 0..40),
        resynchronise in any::<bool>(), chunk in 1_usize..2000, random in any::<bool>(),
    ) {
        let mut damaged = if random { bytes } else { sample().bytes };
        for (offset, value) in flips {
            if let Some(byte) = damaged.get_mut(offset) {
                *byte = value;
            }
        }
        let read = read_with(ReaderOptions { resynchronise, ..options() }, FIRST, &damaged, chunk);
        let end = FIRST + damaged.len() as u64;
        for found in read.damage.iter().chain(&read.end) {
            prop_assert!((FIRST..=end).contains(&found.at.0), "{}", found);
        }
    }
}

#[path = "long_record_tests.rs"]
mod long_records;
