//! The rule about LSNs inside full-page images gives no false alarm on WAL of servers, and finds a record that is missing.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use pgforensics::analysis::changes::events::{BlockEvent, Touch};
use pgforensics::analysis::changes::history::{Interest, WalHistory};
use pgforensics::analysis::changes::page_chain::broken_at;
use pgforensics::cluster::wal::{WalSet, WalSetOptions};
use pgforensics::parsers::wal::reader::{Event, ReaderOptions, WalReader};
use pgforensics::types::{Lsn, PageId};

use crate::common::unpack;

/// Every page that WAL names.
fn pages_of(set: &WalSet) -> BTreeSet<PageId> {
    let mut pages = BTreeSet::new();
    for run in set.runs() {
        let mut options = ReaderOptions::new(set.geometry());
        options.timelines = set.history().map_or_else(Vec::new, |history| history.timelines());
        let mut reader = WalReader::new(options, set.segments()[run.start].start_lsn).unwrap();
        for index in run {
            let (mut bytes, mut segment) = (Vec::new(), set.reader(index).unwrap());
            while let Some(piece) = segment.next_piece().unwrap() {
                bytes.extend_from_slice(piece);
            }
            let mut input = bytes.as_slice();
            while let Some(event) = reader.next(&mut input) {
                match event {
                    Event::Record(record) => pages.extend(record.blocks().filter_map(|block| block.page_id())),
                    Event::End(_) => break,
                    _ => {}
                }
            }
        }
    }
    pages
}

/// All that WAL says of all pages.
fn history_of(paths: &[PathBuf]) -> (Interest, WalHistory) {
    let set = WalSet::open(paths, WalSetOptions::new(&|| panic!("nothing here is unpacked"))).unwrap();
    let mut interest = Interest::default();
    for page in pages_of(&set) {
        interest.add(page);
    }
    let mut history = WalHistory::new(&interest);
    for run in set.runs() {
        let all = (Lsn::INVALID, Lsn(u64::MAX));
        history.read(&set, &run, all, &interest, 2, &|_| ControlFlow::Continue(())).unwrap();
    }
    (interest, history)
}

/// Images that have a record before them, and those of them that the rule objects to.
fn judged(interest: &Interest, history: &WalHistory) -> (usize, Vec<String>) {
    let (mut images, mut alarms) = (0, Vec::new());
    for (index, page) in interest.pages().iter().enumerate() {
        for stretch in history.stretches() {
            let inside = |event: &&BlockEvent| event.start_lsn >= stretch.start && event.end_lsn <= stretch.end;
            let events: Vec<&BlockEvent> = history.events(index).iter().filter(inside).collect();
            images += events.iter().skip(1).filter(|event| matches!(event.touch, Touch::Image { .. })).count();
            let is_new = |after: Lsn, before: Lsn| {
                history.file_events(*page).any(|event| after < event.start_lsn && event.start_lsn < before)
            };
            if let Some(inner) = broken_at(events.iter().copied(), history.major, &is_new) {
                let at = events.iter().position(|event| event.start_lsn == inner.record_lsn).unwrap();
                let name = |event: &&BlockEvent| format!("{} {}", event.name(history.major), event.end_lsn);
                let before: Vec<String> = events[at.saturating_sub(4)..=at].iter().map(name).collect();
                alarms.push(format!("{page:?} {inner:?}: {before:?}"));
            }
        }
    }
    (images, alarms)
}

/// WAL of all majors, and two archives of a busy server, with and without full-page images.
fn sets() -> Vec<Vec<PathBuf>> {
    let majors = (10..=19).map(|major| unpack::data_dir(&format!("wal/pg{major}")).unwrap());
    let archives = ["pg15_fpwoff", "pg15_fpwon_gap"];
    let archives = archives.map(|name| unpack::data_dir(&format!("rebuild/{name}")).unwrap().join("archive"));
    majors.chain(archives).map(|path| vec![path]).collect()
}

#[test]
fn wal_of_servers_gives_no_false_alarm() {
    let mut checked = 0;
    for paths in sets() {
        let (interest, history) = history_of(&paths);
        let (images, alarms) = judged(&interest, &history);
        assert!(alarms.is_empty(), "{paths:?}: {images} images, {} alarms: {alarms:#?}", alarms.len());
        checked += images;
    }
    assert!(checked > 3_000, "{checked} images with a record before them");
}

/// Takes the record before an image away: the rule must object, but where nothing in memory had an LSN yet, or the record
/// need not have set one.
#[test]
fn a_record_that_is_missing_before_an_image_is_found() {
    let (mut found, mut missed) = (0, 0);
    for paths in sets() {
        let (interest, history) = history_of(&paths);
        for index in 0..interest.pages().len() {
            let events = history.events(index);
            for (first, two) in events.windows(3).enumerate() {
                let follow =
                    two.iter().skip(1).zip(two).all(|(next, last)| history.covers(last.start_lsn, next.end_lsn));
                if matches!(two[2].touch, Touch::Image { .. }) && follow {
                    let left: Vec<&BlockEvent> = [&events[first], &events[first + 2]].to_vec();
                    let is_found = broken_at(left, history.major, &|_, _| false).is_some();
                    (found, missed) = (found + usize::from(is_found), missed + usize::from(!is_found));
                }
            }
        }
    }
    assert!(found > 1_000 && missed * 10 < found, "{found} found, {missed} missed");
}
