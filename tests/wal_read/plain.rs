//! The fast path through WAL pages, compared with the full one: on real WAL of every major, sound and damaged, in pieces
//! of many sizes, with records kept whole and with only their heads.

use std::ops::ControlFlow;

use crate::common::wal::{Fixture, geometry_of};
use pgforensics::parsers::crc::crc32c;
use pgforensics::parsers::wal::block::{BlockHead, BodyLayout, Keep};
use pgforensics::parsers::wal::end::EndOfWal;
use pgforensics::parsers::wal::reader::{Event, HEAD_RECORD_BYTES, ReadStep, ReaderOptions, WalReader};
use pgforensics::parsers::wal::record::{Record, RecordHeader};
use pgforensics::types::Lsn;
use proptest::prelude::*;

/// All about a record; of its bytes those that are kept in any case.
#[derive(Debug, PartialEq)]
struct Seen {
    range: (Lsn, Lsn, Lsn),
    header: RecordHeader,
    layout: BodyLayout,
    first_bytes: u32,
    all_bytes: Option<u32>,
    blocks: Vec<(u8, BlockHead)>,
    page: (u32, u16, bool),
}

fn seen(record: &Record<'_>, keep: Keep) -> Seen {
    let first = &record.bytes[..record.bytes.len().min(HEAD_RECORD_BYTES)];
    Seen {
        range: (record.start_lsn, record.end_lsn, record.data_end_lsn),
        header: record.header,
        layout: record.layout,
        first_bytes: crc32c(first),
        all_bytes: (keep == Keep::Blocks).then(|| crc32c(record.bytes)),
        blocks: record.block_heads().collect(),
        page: (record.tli.0, record.page_info, record.recovered),
    }
}

/// What was read: records, damage, the end, and how many records took the fast path inside a page and across pages.
type Outcome = (Vec<Seen>, Vec<EndOfWal>, EndOfWal, [u64; 2]);

fn read(bytes: &[u8], first: Lsn, options: &ReaderOptions, piece_bytes: usize, fast: bool) -> Outcome {
    let keep = options.keep;
    let mut reader = WalReader::new(options.clone(), first).unwrap();
    let (mut records, mut damage) = (Vec::new(), Vec::new());
    for mut piece in bytes.chunks(piece_bytes) {
        let mut has_more = fast;
        while has_more {
            let step = reader.read(&mut piece, |record| {
                records.push(seen(record, keep));
                // Broken off now and then, it goes on where it was.
                if record.start_lsn.0.is_multiple_of(40) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            match step {
                ReadStep::Damage(end) => damage.push(end),
                ReadStep::NeedMore => has_more = false,
                ReadStep::BrokenOff => {
                    assert!(records.last().is_some_and(|last: &Seen| last.range.0.0.is_multiple_of(40)));
                }
                ReadStep::Aborted(_) | ReadStep::End(_) => {}
            }
        }
        while let Some(event) = reader.next(&mut piece) {
            assert!(!fast, "something was left to the full path: {event:?}");
            match event {
                Event::Record(record) => records.push(seen(&record, keep)),
                Event::Damage(end) => damage.push(end),
                Event::Aborted(_) | Event::End(_) => {}
            }
        }
    }
    let count = reader.fast_count();
    (records, damage, reader.finish(), [count.inside, count.single])
}

/// The two paths must give the same, however the bytes come.
fn assert_same(bytes: &[u8], first: Lsn, options: &ReaderOptions, piece_bytes: usize) -> [u64; 2] {
    let full = read(bytes, first, options, 1 << 20, false);
    let fast = read(bytes, first, options, piece_bytes, true);
    assert_eq!(fast.0.len(), full.0.len(), "pieces of {piece_bytes}: {}; full: {}", fast.2, full.2);
    for (fast, full) in fast.0.iter().zip(&full.0) {
        assert_eq!(fast, full);
    }
    assert_eq!((fast.1, fast.2), (full.1, full.2));
    fast.3
}

fn wal_of(major: u32) -> (Vec<u8>, Lsn, ReaderOptions) {
    let fixture = Fixture::load(major);
    let (geometry, first) = geometry_of(&fixture);
    let bytes = fixture.segments.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    (bytes, first, ReaderOptions::new(geometry))
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn both_paths_read_the_same_records_of_every_major() {
    for major in 10..=19 {
        let (bytes, first, whole) = wal_of(major);
        let heads = ReaderOptions { keep: Keep::Heads, ..whole.clone() };
        for piece_bytes in [1 << 20, 256 << 10, 8192, 5000, 56] {
            for options in [&whole, &heads] {
                let [inside, crossing] = assert_same(&bytes, first, options, piece_bytes);
                assert!(inside > 0 || piece_bytes < 8192, "{major}: the fast path was never taken");
                assert!(crossing > 0 || piece_bytes <= 8192, "{major}: the fast path across pages was never taken");
            }
        }
        // Only what is asked for is kept, and nothing but that differs.
        let (all, head) = (read(&bytes, first, &whole, 1 << 20, true), read(&bytes, first, &heads, 1 << 20, true));
        let told = |seen: &Seen| (seen.range, seen.header, seen.layout, seen.first_bytes, seen.blocks.clone());
        assert!(all.0.iter().map(told).eq(head.0.iter().map(told)), "{major}");
        assert_eq!(all.2, head.2);
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn both_paths_find_the_same_damage() {
    let (sound, first, options) = wal_of(17);
    let sound = &sound[..2 << 20];
    let damage = (0..sound.len(), 0_u8..8, 0_usize..4, prop::sample::select(vec![256_usize << 10, 8192, 777]));
    proptest!(ProptestConfig::with_cases(150), |((at, bit, kind, piece_bytes) in damage)| {
        let mut bytes = sound.to_vec();
        match kind {
            0 => bytes[at] ^= 1 << bit,
            1 => bytes.truncate(at),
            2 => bytes[at..].iter_mut().take(600).for_each(|byte| *byte = 0),
            _ => bytes.copy_within(0..(sound.len() - at).min(9000), at),
        }
        for resynchronise in [false, true] {
            for keep in [Keep::Blocks, Keep::Heads] {
                let limit = (bit == 0).then(|| first.advanced_by(1 << 20));
                let options = ReaderOptions { resynchronise, keep, limit, ..options.clone() };
                assert_same(&bytes, first, &options, piece_bytes);
            }
        }
    });
}

/// No checksum covers the headers of pages, which a record that crosses into the page relies on.
#[test]
fn both_paths_judge_page_headers_alike() {
    let (sound, first, options) = wal_of(17);
    let sound = &sound[..20 * 8192];
    let mut crossing = 0;
    for page in 1..18 {
        for bit in 0..24 * 8 {
            let mut bytes = sound.to_vec();
            bytes[page * 8192 + bit / 8] ^= 1 << (bit % 8);
            for (resynchronise, keep) in [(false, Keep::Heads), (true, Keep::Blocks)] {
                let options = ReaderOptions { resynchronise, keep, ..options.clone() };
                crossing += assert_same(&bytes, first, &options, 1 << 20)[1];
            }
        }
    }
    assert!(crossing > 0);
    // A record is begun anew after a crash: the page says so, and which record it was.
    for flags in [0_u16, 1, 4, 5, 8, 9, 13] {
        let mut bytes = sound.to_vec();
        bytes[5 * 8192 + 2..5 * 8192 + 4].copy_from_slice(&flags.to_le_bytes());
        assert_same(&bytes, first, &options, 1 << 20);
    }
}
