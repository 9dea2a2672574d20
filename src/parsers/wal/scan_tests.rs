use proptest::prelude::*;

use super::*;
use crate::parsers::wal::testing::{PAGE, SEGMENT, WalWriter};

const FIRST: u64 = 5 << 20;

fn options() -> ReaderOptions {
    ReaderOptions::new(Geometry {
        block_size: 8192,
        rel_segment_blocks: 131_072,
        wal_block_size: PAGE as u32,
        wal_segment_size: SEGMENT as u32,
    })
}

/// Starts of the records in one stretch, and the summary.
fn scan(writer: &WalWriter, from: u64, to: u64) -> (Vec<u64>, ScanSummary) {
    let mut scan = SegmentScan::new(options(), Lsn(from), Lsn(to)).unwrap();
    let mut starts = Vec::new();
    for mut piece in writer.bytes[(from - writer.first) as usize..].chunks(700) {
        while let Some(event) = scan.next(&mut piece) {
            if let Event::Record(record) = event {
                starts.push(record.start_lsn.0);
            }
        }
        if scan.is_finished() {
            break;
        }
    }
    (starts, scan.finish())
}

fn stretches(writer: &WalWriter, length: u64) -> Vec<(Vec<u64>, ScanSummary)> {
    let end = writer.lsn();
    let ends = (writer.first..end).step_by(length as usize);
    ends.map(|from| scan(writer, from, from + length)).collect()
}

fn starts(writer: &WalWriter) -> Vec<u64> {
    writer.records.iter().map(|record| record.0).collect()
}

fn joined(parts: &[(Vec<u64>, ScanSummary)]) -> Result<Vec<u64>, JoinFault> {
    let mut joiner = Joiner::new();
    let mut all = Vec::new();
    for (starts, summary) in parts {
        joiner.push(summary)?;
        all.extend(starts);
    }
    Ok(all)
}

fn sample() -> WalWriter {
    let mut writer = WalWriter::new(FIRST);
    for length in [100, 9000, 0, 255, 4000, 900, 12000, 8, 60, 3000] {
        writer.heap(length);
    }
    writer
}

#[test]
fn parts_of_any_length_add_up() {
    let writer = sample();
    for pages in [1, 2, 3, 5, 16] {
        assert_eq!(joined(&stretches(&writer, pages * PAGE as u64)), Ok(starts(&writer)), "{pages}");
    }
}

#[test]
fn timelines_of_pages_after_the_limit_belong_to_the_next_part() {
    let mut writer = sample();
    // The second record goes through the first ten pages.
    for (page, tli) in
        [(5, 2), (6, 2), (7, 3)].into_iter().chain((8..writer.bytes.len().div_ceil(PAGE)).map(|p| (p, 4)))
    {
        writer.bytes[page * PAGE + 4] = tli;
    }
    assert_eq!(joined(&stretches(&writer, PAGE as u64)), Ok(starts(&writer)));
    writer.bytes[7 * PAGE + 4] = 1;
    assert!(joined(&stretches(&writer, PAGE as u64)).is_err());
}

#[test]
fn a_record_longer_than_a_segment_leaves_a_part_without_records() {
    let mut writer = WalWriter::new(FIRST);
    writer.heap(500);
    writer.heap(2 * SEGMENT + 5000);
    writer.heap(10);
    let parts = stretches(&writer, SEGMENT as u64);
    assert_eq!(parts.iter().map(|(starts, _)| starts.len()).collect::<Vec<_>>(), [2, 0, 1]);
    assert_eq!(joined(&parts), Ok(starts(&writer)));
}

#[test]
fn a_switch_is_followed_by_the_next_segment() {
    let mut writer = sample();
    writer.record(0, 0x40, &[]);
    writer.bytes.resize(SEGMENT, 0);
    writer.heap(10);
    let parts = stretches(&writer, SEGMENT as u64);
    assert_eq!(joined(&parts), Ok(starts(&writer)));
    assert_eq!(parts[0].1.next_position, Some(Lsn(FIRST + SEGMENT as u64 + 40)));
}

#[test]
fn a_record_given_up_at_the_seam_is_checked_by_the_joiner() {
    let seam = FIRST + 4 * PAGE as u64;
    let with = |named: u64| {
        let mut writer = WalWriter::new(FIRST);
        writer.heap(3000);
        let last = writer.prev;
        let lost_record = writer.built(10, 0, &[0; 3000]);
        let lost = writer.raw(&lost_record);
        writer.bytes.truncate(4 * PAGE);
        writer.prev = last;
        writer.header(0, 0x08);
        writer.record(0, 0xD0, &[&[255, 16][..], &(lost + named).to_le_bytes(), &[0; 8]].concat());
        writer.heap(10);
        let parts = [scan(&writer, FIRST, seam), scan(&writer, seam, seam + 4 * PAGE as u64)];
        assert_eq!(parts[0].1.aborted, Some(Lsn(lost)));
        (joined(&parts), starts(&writer), lost)
    };
    let (found, expected, _) = with(0);
    assert_eq!(found, Ok(expected));
    let (found, _, lost) = with(8);
    assert_eq!(found, Err(JoinFault::Overwritten { expected: Lsn(lost) }));
}

#[test]
fn parts_that_do_not_follow_each_other_are_refused() {
    let writer = sample();
    let parts = stretches(&writer, 4 * PAGE as u64);
    let with = |change: fn(&mut ScanSummary)| {
        let mut changed = parts.clone();
        // The first part with a record in it, after the first one.
        let part = changed[1..].iter_mut().find(|part| part.1.first_record.is_some()).unwrap();
        change(&mut part.1);
        joined(&changed).unwrap_err()
    };
    let at = |summary: &mut ScanSummary| summary.first_record.as_mut().unwrap().start_lsn = Lsn(8);
    assert!(matches!(with(at), JoinFault::Position { found: Lsn(8), .. }));
    let prev = |summary: &mut ScanSummary| summary.first_record.as_mut().unwrap().prev = Lsn(8);
    assert!(matches!(with(prev), JoinFault::PrevLink { found: Lsn(8), .. }));
    assert!(matches!(with(|summary| summary.start_lsn = Lsn(8)), JoinFault::Gap { found: Lsn(8), .. }));
    assert_eq!(with(|summary| summary.major = Some(Major::V15)), JoinFault::Foreign);
    assert_eq!(with(|summary| summary.timelines = Some((TimelineId(0), TimelineId(0)))), JoinFault::Foreign);
    assert_eq!(with(|summary| summary.end.reason = EndReason::ZeroLength), JoinFault::Ended);
}

proptest! {
    #[test]
    fn parts_add_up_or_the_joiner_objects(
        lengths in prop::collection::vec(0_usize..3500, 1..15), pages in 1_u64..6,
        offset in any::<usize>(), bit in 0_u8..8, damage in any::<bool>(),
    ) {
        let mut writer = WalWriter::new(FIRST);
        for length in lengths {
            writer.heap(length);
        }
        if damage {
            let offset = offset % writer.bytes.len();
            writer.bytes[offset] ^= 1 << bit;
        }
        let (in_order, whole) = scan(&writer, FIRST, writer.lsn().next_multiple_of(PAGE as u64));
        let parts = stretches(&writer, pages * PAGE as u64);
        let mut joiner = Joiner::new();
        let mut apart = Vec::new();
        let mut complete = true;
        for (starts, summary) in &parts {
            if joiner.push(summary).is_err() {
                complete = false;
                break;
            }
            apart.extend(starts);
        }
        // What was joined is always right; only damage keeps parts from joining.
        prop_assert!(in_order.starts_with(&apart), "{:?} {:?}", in_order, apart);
        if complete {
            prop_assert_eq!(&apart, &in_order);
        }
        prop_assert!(complete || damage);
        prop_assert!(damage || whole.end.reason != EndReason::ZeroLength);
    }
}

/// Only together with the part before it shows that no record continues.
#[test]
fn a_page_that_continues_nothing_is_refused() {
    let mut writer = WalWriter::new(FIRST);
    // A record that ends with its page.
    writer.heap(PAGE - 40 - 24 - 5);
    let seam = writer.lsn();
    assert_eq!(seam, FIRST + PAGE as u64);
    writer.heap(100);
    let parts = |writer: &WalWriter| [scan(writer, FIRST, seam), scan(writer, seam, seam + PAGE as u64)];
    assert_eq!(joined(&parts(&writer)), Ok(starts(&writer)));
    writer.bytes[PAGE + 2] |= 1;
    let (in_order, whole) = scan(&writer, FIRST, seam + PAGE as u64);
    assert_eq!((in_order.len(), whole.end.at), (starts(&writer).len() - 1, Lsn(seam)));
    assert_eq!(joined(&parts(&writer)), Err(JoinFault::Continuation { found: Lsn(seam + 24) }));
}
