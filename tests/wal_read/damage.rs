//! Damage to copies of real WAL: every one is found, located, and bounded.

use std::collections::BTreeMap;

use crate::common::wal::{Fixture, geometry_of, read_all};
use pgforensics::parsers::crc::crc32c;
use pgforensics::parsers::wal::end::{EndKind, EndOfWal, EndReason};
use pgforensics::parsers::wal::reader::{Event, ReaderOptions, WalReader};
use pgforensics::types::Lsn;
use proptest::prelude::*;

/// Where the record's bytes lie, and their checksum.
type Known = BTreeMap<Lsn, (Lsn, u32)>;

struct Found {
    records: Vec<(Lsn, u32, bool)>,
    damage: Vec<EndOfWal>,
    end: EndOfWal,
}

fn read(bytes: &[u8], first: Lsn, options: ReaderOptions) -> Found {
    let mut reader = WalReader::new(options, first).unwrap();
    let (mut records, mut damage) = (Vec::new(), Vec::new());
    for mut piece in bytes.chunks(1 << 16) {
        while let Some(event) = reader.next(&mut piece) {
            match event {
                Event::Record(record) => records.push((record.start_lsn, crc32c(record.bytes), record.recovered)),
                Event::Damage(end) => damage.push(end),
                Event::Aborted(aborted) => panic!("{aborted:?}"),
                Event::End(_) => {}
            }
        }
    }
    Found { records, damage, end: reader.finish() }
}

/// The first MiB of 18's WAL, and its records.
fn sample() -> (Vec<u8>, Lsn, ReaderOptions, Known) {
    let fixture = Fixture::load(18);
    let (geometry, first) = geometry_of(&fixture);
    let mut known = Known::new();
    read_all(&fixture, 1 << 20, |record| {
        known.insert(record.start_lsn, (record.data_end_lsn, crc32c(record.bytes)));
    });
    let bytes = fixture.segments[..2].iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    (bytes, first, ReaderOptions::new(geometry), known)
}

#[test]
fn damage_is_found_and_bounded() {
    let (sound, first, options, known) = sample();
    let resync = ReaderOptions { resynchronise: true, ..options.clone() };
    let last = first.advanced_by(sound.len() as u64);
    let all = read(&sound, first, options.clone()).records;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(100));
    let damage = (0..sound.len(), 0_u8..8, prop::sample::select(vec![0_usize, 0, 1, 100, 8192, 50_000]));
    runner
        .run(&damage, |(place, bit, zeros)| {
            let mut bytes = sound.clone();
            // A flipped bit, or a stretch of zeros.
            bytes[place] ^= 1 << bit;
            let end_of_damage = (place + zeros.max(1)).min(bytes.len());
            bytes[place..end_of_damage].iter_mut().take(zeros).for_each(|byte| *byte = 0);
            let (from, to) = (first.advanced_by(place as u64), first.advanced_by(end_of_damage as u64));
            // The rest of the page after the damage is given up, and the record that leaves it.
            let page_end = Lsn(to.0.next_multiple_of(8192) + 16384);
            let changed = bytes != sound;

            let strict = read(&bytes, first, options.clone());
            prop_assert!(all.starts_with(&strict.records));
            let lenient = read(&bytes, first, resync.clone());
            for (start, crc, _) in strict.records.iter().chain(&lenient.records) {
                prop_assert_eq!(known.get(start).map(|known| known.1), Some(*crc), "{}", start);
            }
            for end in lenient.damage.iter().chain([&strict.end, &lenient.end]) {
                prop_assert!(end.at >= first && end.at <= last, "{}", end);
            }
            let hit = all.iter().any(|(start, ..)| *start < to && known[start].0 > from);
            let in_header = place % 8192 < 40;
            if changed && hit && !in_header && zeros == 0 {
                // Bits in padding and in page headers inside the record's stretch are not under its checksum.
                let lost = all.len() - lenient.records.len();
                prop_assert!(lost > 0, "bit {} of byte {:#x}", bit, place);
                prop_assert!(strict.end.reason.kind() != EndKind::Complete);
            }
            let far: Vec<_> = all.iter().filter(|record| record.0 > page_end).map(|record| record.0).collect();
            let again: Vec<_> =
                lenient.records.iter().filter(|record| record.0 > page_end).map(|record| record.0).collect();
            prop_assert_eq!(far, again, "records far after the damage come back");
            Ok(())
        })
        .unwrap();
}

/// A page with a timeline too high is taken for sound by itself; it must not rule out every page after it.
#[test]
fn wrong_timeline_on_one_page_costs_only_its_neighbourhood() {
    let (mut bytes, first, options, _) = sample();
    let all = read(&bytes, first, options.clone()).records;
    bytes[679_940] ^= 2;
    let found = read(&bytes, first, ReaderOptions { resynchronise: true, ..options });
    assert!(all.len() - found.records.len() < 100, "{} of {} records", found.records.len(), all.len());
    assert_eq!(found.records.last().map(|record| record.0), all.last().map(|record| record.0));
}

#[test]
fn a_cut_segment_ends_where_it_is_cut() {
    let (sound, first, options, known) = sample();
    for cut in [0, 1, 23, 24, 39, 40, 41, 8191, 8192, 8193, 8216, 100_000, 524_288, 1_048_575, 1_048_576, 1_048_577] {
        let found = read(&sound[..cut], first, options.clone());
        let at = first.advanced_by(cut as u64);
        let expected = known.values().filter(|known| known.0 <= at).count();
        assert_eq!(found.records.len(), expected, "{cut}");
        assert!(matches!(found.end.reason, EndReason::InputEnds | EndReason::CutShort { .. }), "{}", found.end);
        assert!(found.end.at <= at);
    }
}

#[test]
fn stale_pages_of_recycled_files_are_told_from_damage() {
    for number in 11..=19 {
        let fixture = Fixture::load(number);
        let (geometry, first) = geometry_of(&fixture);
        let end = read_all(&fixture, 1 << 20, |_| {}).at;
        // From the first page past the end of WAL on, each page that was ever written is of an older segment.
        let from = Lsn(end.0.next_multiple_of(8192));
        let all: Vec<u8> = fixture.segments.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let tail = &all[usize::try_from(from.0 - first.0).unwrap()..];
        let mut recycled = 0;
        for (index, page) in tail.chunks(8192).enumerate() {
            let at = from.advanced_by(8192 * index as u64);
            let found = read(page, at, ReaderOptions::new(geometry));
            assert_eq!(found.end.at, at, "{number}");
            match found.end.reason {
                EndReason::Recycled { found } => {
                    assert!(found < at);
                    recycled += 1;
                }
                EndReason::NeverWritten => {}
                other => panic!("{number}: {other}"),
            }
        }
        assert!(recycled > 0, "{number}");
    }
}
