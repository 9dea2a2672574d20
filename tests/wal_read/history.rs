//! What WAL says of pages, gathered from several segments at a time, compared with a slow reading record by record.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::unpack;
use crate::common::wal::{Fixture, geometry_of};
use pgforensics::analysis::changes::events::{BlockEvent, Touch};
use pgforensics::analysis::changes::history::{Interest, WalHistory};
use pgforensics::cluster::wal::{WalSet, WalSetOptions};
use pgforensics::parsers::image::BlockImage;
use pgforensics::parsers::wal::payload::XlogPayload;
use pgforensics::parsers::wal::reader::{Event, ReaderOptions, WalReader};
use pgforensics::types::{ForkNumber, Lsn, PageId};

/// A record that touches a page: where it starts and ends, who wrote it, the index of the page in it, and what it does.
type Touched = (Lsn, Lsn, u32, u8, u8, u8, &'static str);

/// What there is of each page, all checkpoints, and where the first record starts and the last ends.
#[derive(Default)]
struct Slow {
    pages: BTreeMap<PageId, Vec<Touched>>,
    checkpoints: Vec<(Lsn, Lsn)>,
    extent: Option<(Lsn, Lsn)>,
}

fn slow(major: u32) -> Slow {
    let fixture = Fixture::load(major);
    let (geometry, first) = geometry_of(&fixture);
    let bytes: Vec<u8> = fixture.segments.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    let mut reader = WalReader::new(ReaderOptions::new(geometry), first).unwrap();
    let (mut input, mut slow) = (bytes.as_slice(), Slow::default());
    while let Some(event) = reader.next(&mut input) {
        let Event::Record(record) = event else { continue };
        let header = record.header;
        for block in record.blocks() {
            let is_hint = header.rmgr_id == 0 && header.info & 0xF0 == 0xA0;
            let what = match block.image.filter(BlockImage::applies) {
                Some(_) => "image",
                None if block.will_init() => "init",
                None if is_hint => "hint",
                None => "change",
            };
            let touched =
                (record.start_lsn, record.end_lsn, header.xid, header.rmgr_id, header.info, block.block_id, what);
            slow.pages.entry(block.page_id().unwrap()).or_default().push(touched);
        }
        if let Ok(Some(XlogPayload::CheckpointShutdown(checkpoint) | XlogPayload::CheckpointOnline(checkpoint))) =
            XlogPayload::of(&record)
        {
            slow.checkpoints.push((record.start_lsn, checkpoint.redo_lsn));
        }
        let from = slow.extent.map_or(record.start_lsn, |(from, _)| from);
        slow.extent = Some((from, record.end_lsn));
    }
    slow
}

fn told(event: &BlockEvent) -> Option<Touched> {
    let what = match event.touch {
        Touch::Image { .. } => "image",
        Touch::Init => "init",
        Touch::Hint => "hint",
        Touch::Change => "change",
        Touch::MapBits => return None,
    };
    Some((event.start_lsn, event.end_lsn, event.xid, event.record.rmgr_id, event.record.info, event.block_id, what))
}

fn open(major: u32) -> WalSet {
    let data = unpack::data_dir(&format!("wal/pg{major}")).unwrap();
    WalSet::open(&[data], WalSetOptions::new(&|| panic!("nothing here is unpacked"))).unwrap()
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn threads_gather_what_a_slow_reading_finds() {
    for major in 10..=19 {
        let (slow, set) = (slow(major), open(major));
        let run = set.runs().remove(0);
        let (from, to) = slow.extent.unwrap();
        let mut interest = Interest::default();
        let places: Vec<(PageId, usize)> = slow.pages.keys().map(|page| (*page, interest.add(*page))).collect();
        let mut first = None;
        for (jobs, room) in [(1, 50_000), (4, 50_000), (1, 1), (3, 700)] {
            let mut history = WalHistory::new(&interest).with_room(room);
            let read = AtomicU64::new(0);
            let watch = |bytes| {
                read.fetch_add(bytes, Ordering::Relaxed);
                ControlFlow::Continue(())
            };
            let walked = history.read(&set, &run, (Lsn(0), Lsn(u64::MAX)), &interest, jobs, &watch).unwrap();
            assert_eq!((walked.extent.first_lsn, walked.extent.last_end_lsn), (Some(from), Some(to)), "{major}");
            assert!(history.covers(from, to) && history.stretches().len() == 1, "{major} {:?}", history.stretches());
            assert!(read.into_inner() >= to.bytes_since(from).unwrap(), "{major}");
            for (page, place) in &places {
                let found: Vec<Touched> = history.events(*place).iter().filter_map(told).collect();
                assert_eq!(found, slow.pages[page], "{major} {page:?}, {jobs} threads, room for {room}");
            }
            for (start_lsn, redo_lsn) in &slow.checkpoints {
                assert!(history.has_checkpoint(*start_lsn, *redo_lsn), "{major}");
            }
            // Images, partners, bits of visibility maps and transactions too are the same however it is read.
            let all: Vec<_> = places.iter().map(|(_, place)| history.events(*place).to_vec()).collect();
            let first = first.get_or_insert_with(|| (all.clone(), history.newest_xid));
            assert!(*first == (all, history.newest_xid), "{major}, {jobs} threads, room for {room}");
        }
        assert!(places.iter().any(|(page, _)| page.fork == ForkNumber::Vm) || major < 10);
    }
}

#[test]
fn broken_off_anywhere_it_says_so_and_covers_no_more_than_was_read() {
    let (slow, set) = (slow(16), open(16));
    let run = set.runs().remove(0);
    let (from, to) = slow.extent.unwrap();
    let mut interest = Interest::default();
    slow.pages.keys().for_each(|page| {
        interest.add(*page);
    });
    for (jobs, room) in [(1, 50_000), (4, 50_000), (2, 10)] {
        let calls = AtomicU64::new(0);
        let count = |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        let mut whole = WalHistory::new(&interest).with_room(room);
        whole.read(&set, &run, (Lsn(0), Lsn(u64::MAX)), &interest, jobs, &count).unwrap();
        for last in 0..calls.into_inner() {
            let calls = AtomicU64::new(0);
            let watch = |_| match calls.fetch_add(1, Ordering::Relaxed) < last {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            };
            let mut history = WalHistory::new(&interest).with_room(room);
            let walked = history.read(&set, &run, (Lsn(0), Lsn(u64::MAX)), &interest, jobs, &watch).unwrap();
            // Threads ask in no order, so the last call may be one that nobody needed any more.
            let is_whole = walked.end.is_some();
            assert!(walked.interrupted != is_whole, "{jobs} threads, broken off at {last}");
            assert!(history.covers(from, to) || !is_whole, "{jobs} threads, broken off at {last}");
            for place in 0..interest.pages().len() {
                assert!(whole.events(place).starts_with(history.events(place)));
                let covered = history.stretches().last().map_or(from, |stretch| stretch.end);
                let due = whole.events(place).iter().filter(|event| event.end_lsn <= covered).count();
                assert!(history.events(place).len() >= due, "{jobs} threads, broken off at {last}");
            }
        }
    }
}
