//! `page --history`: the records of a page, compared with what pg_waldump of the same major prints of the same WAL.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::common::{Ran, arg, cluster, copy_tree, dwbinspect, unpack};
use pgforensics::analysis::changes::events::{BlockEvent, Touch};
use pgforensics::analysis::wal::page_action::{ActionKind, Counted, PageAction};
use pgforensics::inspect::page_history::{HistoryRequest, PageHistory, page_history};
use pgforensics::inspect::wal::request::unwatched;
use pgforensics::types::{ForkNumber, Lsn, PageId, RelFileLocator};

/// A record as pg_waldump printed it, with the index of the page in it.
#[derive(Clone, Debug)]
struct Printed {
    start_lsn: Lsn,
    xid: u32,
    rmgr: String,
    name: String,
    /// What follows the name.
    words: String,
    block_id: u8,
    /// Pages that it names.
    blocks: usize,
}

/// Everything that pg_waldump printed of a fixture.
#[derive(Default)]
struct Waldump {
    pages: BTreeMap<PageId, Vec<Printed>>,
    /// Ends of transactions: transaction, start of the record, committed, time.
    ends: Vec<(u32, Lsn, bool, String)>,
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = line.split_once(name)?.1.trim_start();
    Some(rest.split([',', ';', ' ']).next().unwrap_or(rest))
}

/// The number after a name, with or without a colon.
fn number(words: &str, name: &str) -> Option<u32> {
    let at = words.find(name)?;
    let rest = words[at + name.len()..].trim_start_matches([':', ' ']);
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// The number before a name.
fn number_before(words: &str, name: &str) -> Option<u32> {
    words.split_once(name)?.0.trim_end().rsplit(' ').next()?.parse().ok()
}

/// Numbers of a list in brackets.
fn list(words: &str, name: &str) -> Option<Vec<u16>> {
    let inside = words.split_once(&format!("{name}: ["))?.1.split_once(']')?.0;
    if inside.is_empty() {
        return Some(Vec::new());
    }
    inside.split(", ").map(|item| item.parse().ok()).collect()
}

impl Waldump {
    fn read(data: &Path) -> Self {
        let text = std::fs::read_to_string(data.parent().unwrap().join("expected/records.txt")).unwrap();
        let mut found = Self::default();
        let (mut open, mut blocks): (Option<Printed>, Vec<(u8, PageId)>) = (None, Vec::new());
        let mut close = |open: &mut Option<Printed>, blocks: &mut Vec<(u8, PageId)>| {
            let Some(printed) = open.take() else { return };
            for (block_id, page) in blocks.iter() {
                let own = Printed { block_id: *block_id, blocks: blocks.len(), ..printed.clone() };
                found.pages.entry(*page).or_default().push(own);
            }
            if printed.rmgr == "Transaction" {
                found.ends.extend(ends_of(&printed));
            }
            blocks.clear();
        };
        for line in text.lines() {
            if let Some(block) = line.trim_start().strip_prefix("blkref #") {
                let numbers: Vec<u32> =
                    field(block, "rel ").unwrap().split('/').map(|part| part.parse().unwrap()).collect();
                let rel = RelFileLocator { spc_oid: numbers[0], db_oid: numbers[1], rel_number: numbers[2] };
                let fork: ForkNumber = field(block, "fork ").unwrap().parse().unwrap();
                let page = PageId { rel, fork, block: field(block, "blk ").unwrap().parse().unwrap() };
                blocks.push((block.split(':').next().unwrap().parse().unwrap(), page));
            } else if line.starts_with("rmgr: ") {
                close(&mut open, &mut blocks);
                let words = line.split_once("desc: ").unwrap().1;
                let (name, words) = words.split_once(' ').unwrap_or((words, ""));
                open = Some(Printed {
                    start_lsn: field(line, "lsn: ").unwrap().parse().unwrap(),
                    xid: field(line, "tx: ").unwrap().parse().unwrap(),
                    rmgr: field(line, "rmgr: ").unwrap().to_owned(),
                    name: name.to_owned(),
                    words: words.to_owned(),
                    block_id: 0,
                    blocks: 0,
                });
            }
        }
        close(&mut open, &mut blocks);
        found
    }
}

/// The transactions whose end a record tells.
fn ends_of(printed: &Printed) -> Vec<(u32, Lsn, bool, String)> {
    let committed = printed.name.starts_with("COMMIT");
    if !committed && !printed.name.starts_with("ABORT") {
        return Vec::new();
    }
    // The transaction that was prepared stands before the time.
    let prepared = printed.name.ends_with("PREPARED").then(|| printed.words.split(':').next().unwrap());
    let xid = prepared.map_or(printed.xid, |xid| xid.parse().unwrap());
    let time = match prepared {
        Some(_) => printed.words.split_once(": ").unwrap().1,
        None => &printed.words,
    };
    let subxids = printed.words.split_once("subxacts: ").map(|(_, rest)| rest.split(';').next().unwrap());
    let subxids = subxids.into_iter().flat_map(str::split_whitespace).map(|xid| xid.parse().unwrap());
    let time = format!("{}T{}Z", &time[..10], &time[11..19]);
    std::iter::once(xid).chain(subxids).map(|xid| (xid, printed.start_lsn, committed, time.clone())).collect()
}

fn history(data: &Path, page: PageId) -> PageHistory {
    page_history(&HistoryRequest { jobs: 2, ..HistoryRequest::of(data, page) }, &unwatched).unwrap()
}

fn items(action: &PageAction) -> Vec<u32> {
    action.items().map(u32::from).collect()
}

fn count(action: &PageAction, wanted: Counted) -> u32 {
    action.counts.iter().find(|(counted, _)| *counted == wanted).map_or(0, |(_, count)| *count)
}

/// Compares what a record does inside a page with the words of pg_waldump; what they say of it.
fn compare(event: &BlockEvent, printed: &Printed) -> Option<&'static str> {
    let action = event.action.as_deref()?;
    let context = format!("{printed:?}: {action:?}");
    let words = &printed.words;
    // From 19 on records of tables name the page of the map too.
    if action.kind == ActionKind::SetMapBits {
        return None;
    }
    let off = number(words, "off");
    let one = |found: Option<u32>| assert_eq!(items(action), [found.unwrap()], "{context}");
    match (printed.rmgr.as_str(), printed.name.trim_end_matches("+INIT")) {
        ("Heap", "INSERT") => one(off),
        ("Heap", "DELETE" | "LOCK" | "INPLACE" | "HEAP_CONFIRM") | ("Heap2", "LOCK_UPDATED") => one(off),
        ("Heap", "UPDATE" | "HOT_UPDATE") => {
            let new = number(words, "new_off").or_else(|| number(words, "new off")).unwrap();
            let old = number(words, "old_off").or(off).unwrap();
            match (printed.block_id, printed.blocks) {
                (0, 1) => assert_eq!(items(action), [old, new], "{context}"),
                (0, _) => assert_eq!(items(action), [new], "{context}"),
                _ => assert_eq!(items(action), [old], "{context}"),
            }
        }
        ("Heap2", "MULTI_INSERT") => {
            let rows = number(words, "ntuples").or_else(|| number_before(words, "tuples")).unwrap();
            assert_eq!(items(action).len(), rows as usize, "{context}");
            if let Some(offsets) = list(words, "offsets") {
                assert_eq!(action.items().collect::<Vec<_>>(), offsets, "{context}");
            }
        }
        ("Heap2", "PRUNE" | "PRUNE_ON_ACCESS" | "PRUNE_VACUUM_SCAN") => {
            for (name, counted) in
                [("nredirected", Counted::Redirected), ("ndead", Counted::Dead), ("nunused", Counted::Unused)]
            {
                if let Some(expected) = number(words, name) {
                    assert_eq!(count(action, counted), expected, "{context}");
                }
            }
        }
        ("Heap2", "VACUUM" | "PRUNE_VACUUM_CLEANUP") => {
            let expected = number(words, "nunused").unwrap_or_default();
            assert_eq!(count(action, Counted::Unused), expected, "{context}");
            if let Some(unused) = list(words, "unused") {
                assert_eq!(action.items().collect::<Vec<_>>(), unused, "{context}");
            }
        }
        ("Heap2", "FREEZE_PAGE") => {
            let rows = words.match_indices("ntuples").map(|(at, _)| number(&words[at..], "ntuples").unwrap());
            // In 16 the plans are printed only where the page's image is not in the record.
            if number(words, "nplans").is_none_or(|_| words.contains("plans: [")) {
                assert_eq!(count(action, Counted::Frozen), rows.sum::<u32>(), "{context}");
            }
        }
        ("Btree", "INSERT_LEAF" | "INSERT_UPPER" | "INSERT_META" | "INSERT_POST") if printed.block_id == 0 => one(off),
        ("Btree", "SPLIT_L" | "SPLIT_R" | "SPLIT_L_ROOT" | "SPLIT_R_ROOT") if printed.block_id == 0 => {
            one(number(words, "firstrightoff").or_else(|| number(words, "firstright")));
        }
        ("Btree", "DEDUP") => assert_eq!(Some(count(action, Counted::Runs)), number(words, "nintervals"), "{context}"),
        ("Btree", "VACUUM" | "DELETE") if number(words, "ndeleted").is_some() => {
            assert_eq!(Some(count(action, Counted::Deleted)), number(words, "ndeleted"), "{context}");
            assert_eq!(count(action, Counted::Updated), number(words, "nupdated").unwrap_or(0), "{context}");
            if let Some(deleted) = list(words, "deleted") {
                assert_eq!(action.items().collect::<Vec<_>>(), deleted, "{context}");
            }
        }
        ("Btree", "DELETE") => {
            assert_eq!(Some(count(action, Counted::Deleted)), number_before(words, "items"), "{context}");
        }
        ("Hash", "INSERT") if printed.block_id == 0 => one(off),
        ("SPGist", "ADD_LEAF") if printed.block_id == 0 => one(off),
        ("BRIN", "SAMEPAGE_UPDATE" | "INSERT") if printed.block_id == 0 => one(number(words, "offnum")),
        _ => return None,
    }
    Some(action.kind.code())
}

/// Pages of all kinds, the busiest among them.
fn some_pages(waldump: &Waldump) -> BTreeSet<PageId> {
    let mut by_records: Vec<(&PageId, &Vec<Printed>)> = waldump.pages.iter().collect();
    by_records.sort_by_key(|(page, records)| (std::cmp::Reverse(records.len()), **page));
    let busiest = by_records.iter().take(12).map(|(page, _)| **page);
    let mut chosen: BTreeSet<PageId> = busiest.chain(waldump.pages.keys().step_by(60).copied()).collect();
    // A page for each type of record.
    let mut seen = BTreeSet::new();
    for (page, records) in &by_records {
        for printed in *records {
            if seen.insert((printed.rmgr.clone(), printed.name.clone(), printed.block_id)) {
                chosen.insert(**page);
            }
        }
    }
    chosen
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn records_are_those_of_pg_waldump() {
    let mut compared: BTreeMap<&'static str, usize> = BTreeMap::new();
    let (mut pages, mut ended) = (0, 0);
    for major in 10..=19 {
        let data = unpack::data_dir(&format!("wal/pg{major}")).unwrap();
        let waldump = Waldump::read(&data);
        for page in some_pages(&waldump) {
            pages += 1;
            let expected = &waldump.pages[&page];
            let found = history(&data, page);
            assert!(found.coverage.skipped.is_empty() && found.gaps.is_empty(), "{major} {page:?}");
            // pg_waldump does not know that records clear bits of the map without naming its page.
            let own: Vec<&BlockEvent> = found.events(0).iter().filter(|event| event.touch != Touch::MapBits).collect();
            let names = |name: String, start: Lsn, xid: u32| (start, xid, name);
            let shown: Vec<_> =
                own.iter().map(|event| names(event.name(found.major), event.start_lsn, event.xid)).collect();
            let wanted: Vec<_> = expected
                .iter()
                .map(|printed| names(format!("{}/{}", printed.rmgr, printed.name), printed.start_lsn, printed.xid))
                .collect();
            assert_eq!(shown, wanted, "{major} {page:?}");
            for (event, printed) in own.iter().zip(expected) {
                assert_eq!(event.block_id, printed.block_id);
                if let Some(kind) = compare(event, printed) {
                    *compared.entry(kind).or_default() += 1;
                }
                let outcome = found.outcome(event).map(|outcome| (outcome.start_lsn, outcome.committed));
                let end = waldump.ends.iter().find(|(xid, lsn, ..)| *xid == event.xid && *lsn > event.start_lsn);
                assert_eq!(outcome, end.map(|(_, lsn, committed, _)| (*lsn, *committed)), "{major} {printed:?}");
                ended += usize::from(end.is_some());
            }
        }
    }
    assert!(pages > 500 && ended > 50_000, "{pages} pages, {ended} records of transactions that ended");
    for kind in [
        ActionKind::Insert,
        ActionKind::Delete,
        ActionKind::Update,
        ActionKind::HotUpdate,
        ActionKind::UpdateOld,
        ActionKind::UpdateNew,
        ActionKind::Lock,
        ActionKind::Overwrite,
        ActionKind::Prune,
        ActionKind::FreeItems,
        ActionKind::Freeze,
        ActionKind::InsertEntry,
        ActionKind::SplitPosting,
        ActionKind::Split,
        ActionKind::Deduplicate,
        ActionKind::RemoveEntries,
        ActionKind::OverwriteEntry,
    ] {
        assert!(compared.get(kind.code()).is_some_and(|times| *times > 5), "{kind:?} was not compared: {compared:?}");
    }
}

fn shown(data: &Path, args: &[&str]) -> Ran {
    let mut all = vec!["page", "--history", "--format", "ndjson", arg(data)];
    all.extend(args);
    dwbinspect(&all)
}

#[test]
fn times_are_those_of_pg_waldump() {
    let data = unpack::data_dir("wal/pg16").unwrap();
    let waldump = Waldump::read(&data);
    let outcomes: BTreeMap<u32, (bool, &str)> =
        waldump.ends.iter().map(|(xid, _, committed, time)| (*xid, (*committed, time.as_str()))).collect();
    let (mut committed, mut aborted) = (0, 0);
    let is_aborted = |printed: &Printed| outcomes.get(&printed.xid).is_some_and(|(committed, _)| !committed);
    let of_aborted = waldump.pages.iter().filter(|(_, records)| records.iter().any(is_aborted)).map(|(page, _)| *page);
    let pages = some_pages(&waldump).into_iter().step_by(9).chain(of_aborted.take(5));
    for page in pages.filter(|page| page.fork == ForkNumber::Main) {
        let (rel, block) = (page.rel.to_string(), page.block.to_string());
        for row in shown(&data, &[&rel, &block]).of_type("history").iter().filter(|row| row["kind"] == "record") {
            let xid = u32::try_from(row["xid"].as_u64().unwrap()).unwrap();
            let expected = outcomes.get(&xid).copied();
            let word = expected.map(|(committed, _)| if committed { "committed" } else { "aborted" });
            assert_eq!(row["outcome"].as_str(), word, "{row}");
            assert_eq!(row["ended_at"].as_str(), expected.map(|(_, time)| time), "{row}");
            committed += usize::from(word == Some("committed"));
            aborted += usize::from(word == Some("aborted"));
        }
    }
    assert!(committed > 100 && aborted > 0, "{committed} {aborted}");
}

#[test]
fn changes_of_files_stand_between_the_records() {
    let data = unpack::data_dir("wal/pg16").unwrap();
    let text = std::fs::read_to_string(data.parent().unwrap().join("expected/records.txt")).unwrap();
    let lsn_of = |line: &str| -> Lsn { field(line, "lsn: ").unwrap().parse().unwrap() };
    let waldump = Waldump::read(&data);
    // A file that a transaction drops and that records touched, and all that WAL says of its coming and going.
    let drops = text.lines().filter_map(|line| line.split_once("; rels: base/"));
    let mut paths = drops.map(|(_, dropped)| dropped.split([' ', ';']).next().unwrap());
    let is_touched = |path: &&str| {
        waldump.pages.keys().any(|page| page.rel.to_string() == format!("1663/{path}") && page.block == 0)
    };
    let path = paths.find(is_touched).unwrap();
    let (created, dropped) = (format!("desc: CREATE base/{path}"), format!("base/{path}"));
    let expected: Vec<(&str, Lsn)> = text
        .lines()
        .filter_map(|line| {
            let is_dropped = |list: &str| list.split([' ', ';']).any(|rel| rel == dropped);
            match line.split_once("; rels: ") {
                Some((_, list)) if is_dropped(list) => Some(("dropped", lsn_of(line))),
                _ => line.ends_with(&created).then(|| ("created", lsn_of(line))),
            }
        })
        .collect();
    assert!(!expected.is_empty());
    let rows = shown(&data, &[&format!("1663/{path}"), "0"]).of_type("history");
    let lsn = |row: &serde_json::Value| row["lsn"].as_str().unwrap().parse::<Lsn>().unwrap();
    let files: Vec<(&str, Lsn)> = rows
        .iter()
        .filter(|row| row["kind"] == "file" && row["action"] != "database_created")
        .map(|row| (row["action"].as_str().unwrap(), lsn(row)))
        .collect();
    assert_eq!(files, expected);
    // Numbers count records alone, and rows ascend.
    let own: Vec<u64> = rows.iter().filter_map(|row| row["number"].as_u64()).collect();
    assert_eq!(own, (1..=own.len() as u64).collect::<Vec<_>>());
    assert!(!own.is_empty() && rows.iter().map(lsn).is_sorted());
}

#[test]
fn missing_segments_are_named() {
    let (_kept, data) = unpacked_copy("wal/pg16");
    let page = "1663/5/16437";
    let all = shown(&data, &[page, "0"]).of_type("history");
    let names = ["000000010000000000000009", "00000001000000000000000A"];
    for name in names {
        std::fs::rename(data.join("pg_wal").join(name), data.join(name)).unwrap();
    }
    let ran = shown(&data, &[page, "0"]);
    assert_ne!(ran.status, 0, "{}", ran.stderr);
    let rows = ran.of_type("history");
    let gaps: Vec<_> = rows.iter().filter(|row| row["kind"] == "gap").collect();
    assert_eq!(gaps.len(), 1, "{rows:?}");
    assert_eq!(gaps[0]["missing_segments"], serde_json::json!(names));
    assert_eq!(gaps[0]["missing_count"], 2);
    let of = |rows: &[serde_json::Value]| -> BTreeSet<String> {
        rows.iter().filter(|row| row["kind"] == "record").map(|row| row["lsn"].as_str().unwrap().to_owned()).collect()
    };
    let lsn = |text: &str| text.parse::<Lsn>().unwrap();
    let (from, to) = (lsn(gaps[0]["lsn"].as_str().unwrap()), lsn(gaps[0]["end_lsn"].as_str().unwrap()));
    let expected: BTreeSet<String> = of(&all).into_iter().filter(|at| lsn(at) < from || lsn(at) >= to).collect();
    assert_eq!(of(&rows), expected);
    assert!(expected.len() < of(&all).len());
    // Given from elsewhere, they fill the gap.
    let archive = data.parent().unwrap().join("archive");
    std::fs::create_dir(&archive).unwrap();
    for name in names {
        std::fs::rename(data.join(name), archive.join(name)).unwrap();
    }
    let rows = shown(&data, &[page, "0", "--wal", arg(&archive)]).of_type("history");
    assert_eq!(rows, all);
}

fn unpacked_copy(name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let kept = tempfile::tempdir().unwrap();
    let data = kept.path().join("data");
    copy_tree(&unpack::data_dir(name).unwrap(), &data);
    (kept, data)
}

#[test]
fn damaged_wal_is_a_gap_without_missing_segments() {
    let (_kept, data) = unpacked_copy("wal/pg16");
    let path = data.join("pg_wal/000000010000000000000009");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[300_000..300_100].fill(0xA5);
    std::fs::write(&path, bytes).unwrap();
    std::fs::rename(data.join("pg_wal/00000001000000000000000A"), data.join("A")).unwrap();
    let ran = shown(&data, &["1663/5/16437", "0"]);
    assert_ne!(ran.status, 0);
    let gaps: Vec<_> = ran.of_type("history").into_iter().filter(|row| row["kind"] == "gap").collect();
    // From the damage on nothing is read, up to the run after the segment that is missing.
    assert_eq!(gaps.len(), 1);
    assert_eq!(gaps[0]["missing_segments"], serde_json::json!(["00000001000000000000000A"]));
    let from: Lsn = gaps[0]["lsn"].as_str().unwrap().parse().unwrap();
    assert!(from < Lsn(0x90_0000 + 300_100) && from > Lsn(0x90_0000), "{from}");
}

#[test]
fn text_marks_where_replay_begins() {
    let data = unpack::data_dir("wal/pg16").unwrap();
    let ran = dwbinspect(&["page", "--history", arg(&data), "1663/1/1259", "12"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let rows: Vec<&str> = ran.stdout.lines().skip(3).take(8).map(str::trim).collect();
    assert_eq!(rows[0], "1      0/00803100 0/008031F8 Heap/INPLACE 0         overwrite item 23 in place");
    assert!(rows[6].starts_with("0/00B4B9B0") && rows[6].ends_with("-- recovery begins here --"), "{}", rows[6]);
    let csv = dwbinspect(&["page", "--history", "--format", "csv", arg(&data), "1663/1/1259", "12"]);
    let lines: Vec<&str> = csv.stdout.lines().collect();
    assert!(lines[0].starts_with("kind,number,lsn,end_lsn,xid,"));
    assert!(
        lines[1].starts_with("record,1,0/00803100,0/008031F8,0,,,Heap/INPLACE,change,overwrite,23,"),
        "{}",
        lines[1]
    );
    assert_eq!(lines.len(), 1 + 6 + 2);
}

#[test]
fn what_is_not_there_is_refused() {
    let data = cluster("checkpoint");
    for (args, words) in [
        (&["no_such_table", "0"][..], "no relation named \"no_such_table\""),
        (&["base/5/1259", "9999999"], "has no such block (9999999), and neither an image nor WAL knows of it"),
        (&["1663/5/77777", "0"], "has no such file (0), and neither an image nor WAL knows of it"),
    ] {
        let ran = shown(&data, args);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    }
    // One that exists and that no record touches.
    let ran = dwbinspect(&["page", "--history", "--hex", arg(&data), "base/5/1259", "0"]);
    assert_eq!(ran.status, 2);
}
