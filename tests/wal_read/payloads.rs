//! What records of real WAL say, compared with the descriptions that pg_waldump of the same major prints.

use std::collections::BTreeMap;

use crate::common::wal::{Fixture, read_all};
use pgforensics::parsers::wal::checkpoint::CheckPoint;
use pgforensics::parsers::wal::lifecycle::{LifeCycle, record_time};
use pgforensics::parsers::wal::names::RM_XACT;
use pgforensics::parsers::wal::payload::{ParameterChange, XlogPayload};
use pgforensics::parsers::wal::version::Major;
use pgforensics::types::{Lsn, RelFileLocator};

fn level(number: i32) -> &'static str {
    ["minimal", "replica", "logical"][usize::try_from(number).unwrap()]
}

fn checkpoint_words(c: &CheckPoint, kind: &str) -> String {
    let wal_level = c.wal_level.map_or(String::new(), |number| format!(" wal_level {};", level(number)));
    let decoding = c.logical_decoding_enabled.map_or(String::new(), |on| format!(" logical decoding {};", on == 1));
    let (epoch, xid) = (c.next_full_xid >> 32, c.next_full_xid & 0xFFFF_FFFF);
    format!(
        "redo {}; tli {}; prev tli {}; fpw {};{wal_level}{decoding} xid {epoch}:{xid}; oid {}; multi {}; offset {}; \
         oldest xid {} in DB {}; oldest multi {} in DB {}; oldest/newest commit timestamp xid: {}/{}; \
         oldest running xid {}; {kind}",
        c.redo_lsn,
        c.tli,
        c.prev_tli,
        c.full_page_writes == 1,
        c.next_oid,
        c.next_multi,
        c.next_multi_offset,
        c.oldest_xid,
        c.oldest_xid_db,
        c.oldest_multi,
        c.oldest_multi_db,
        c.oldest_commit_ts_xid,
        c.newest_commit_ts_xid,
        c.oldest_active_xid,
    )
}

fn parameter_words(c: &ParameterChange) -> String {
    let on = |byte: u8| if byte == 1 { "on" } else { "off" };
    let senders = c.max_wal_senders.map_or(String::new(), |number| format!(" max_wal_senders={number}"));
    format!(
        "max_connections={} max_worker_processes={}{senders} max_prepared_xacts={} max_locks_per_xact={} wal_level={} \
         wal_log_hints={} track_commit_timestamp={}",
        c.max_connections,
        c.max_worker_processes,
        c.max_prepared_xacts,
        c.max_locks_per_xact,
        level(c.wal_level),
        on(c.wal_log_hints),
        on(c.track_commit_timestamp)
    )
}

fn payload_words(payload: &XlogPayload) -> Option<String> {
    Some(match payload {
        XlogPayload::CheckpointShutdown(checkpoint) => checkpoint_words(checkpoint, "shutdown"),
        XlogPayload::CheckpointOnline(checkpoint) => checkpoint_words(checkpoint, "online"),
        XlogPayload::NextOid(oid) => oid.to_string(),
        XlogPayload::ParameterChange(change) => parameter_words(change),
        XlogPayload::RestorePoint { name, .. } => String::from_utf8(name.clone()).unwrap(),
        XlogPayload::FullPageWritesChange(on) => (*on == 1).to_string(),
        XlogPayload::CheckpointRedo { wal_level } => format!("wal_level {}", level(*wal_level)),
        XlogPayload::LogicalDecodingStatusChange(on) => (*on == 1).to_string(),
        _ => return None,
    })
}

fn path(rel: &RelFileLocator) -> String {
    match rel.spc_oid {
        1664 => format!("global/{}", rel.rel_number),
        _ => format!("base/{}/{}", rel.db_oid, rel.rel_number),
    }
}

/// The words of the description that come from files, if any.
fn life_words(life: &LifeCycle, major: Major) -> String {
    match life {
        LifeCycle::Created { rel, fork_code: 0 } => path(rel),
        LifeCycle::Created { rel, fork_code } => {
            format!("{}_{}", path(rel), ["", "fsm", "vm", "init"][usize::try_from(*fork_code).unwrap()])
        }
        LifeCycle::Truncated { rel, keeps_blocks, flags } => {
            format!("{} to {keeps_blocks} blocks flags {flags}", path(rel))
        }
        LifeCycle::Dropped { rels, .. } => {
            format!("rels: {}", rels.iter().map(path).collect::<Vec<_>>().join(" "))
        }
        LifeCycle::DatabaseCreated { db_oid, spc_oid, copied_from: Some((from_db, from_spc)) } => {
            // Before 12 pg_waldump prints the database first.
            let pair =
                |spc: u32, db: u32| if major < Major::V12 { format!("{db}/{spc}") } else { format!("{spc}/{db}") };
            format!("copy dir {} to {}", pair(*from_spc, *from_db), pair(*spc_oid, *db_oid))
        }
        other => panic!("{other:?}"),
    }
}

/// Descriptions by start of the record, without the name of the type, and with LSNs padded as here.
fn descriptions(text: &str) -> BTreeMap<Lsn, String> {
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("rmgr: ")) {
        let lsn = line.split_once("lsn: ").unwrap().1.split(',').next().unwrap();
        let desc = line.split_once("desc: ").unwrap().1;
        let words = desc.split_once(' ').map_or("", |(_, words)| words).trim();
        let words = match words.strip_prefix("redo ").and_then(|rest| rest.split_once(';')) {
            Some((redo, rest)) => format!("redo {};{rest}", redo.parse::<Lsn>().unwrap()),
            None => words.to_owned(),
        };
        found.insert(lsn.parse().unwrap(), words);
    }
    found
}

#[test]
fn payloads_say_what_pg_waldump_prints() {
    for number in 10..=19 {
        let fixture = Fixture::load(number);
        let expected = descriptions(&fixture.expected("records.txt"));
        let mut kinds = BTreeMap::<&str, u32>::new();
        read_all(&fixture, 1 << 20, |record| {
            let words = &expected[&record.start_lsn];
            if let Some(said) = XlogPayload::of(record).unwrap().as_ref().and_then(payload_words) {
                assert_eq!(&said, words, "{number}");
                *kinds.entry("xlog").or_default() += 1;
            }
            match LifeCycle::of(record).unwrap() {
                Some(life) => {
                    let said = life_words(&life, record.major);
                    let dropped = matches!(life, LifeCycle::Dropped { .. });
                    if dropped {
                        assert!(words.contains(&format!("; {said};")), "{number}: {said} in {words}");
                    } else {
                        assert_eq!(&said, words, "{number}");
                    }
                    *kinds.entry(if dropped { "dropped" } else { "created" }).or_default() += 1;
                }
                None => assert!(!words.contains("; rels: "), "{number}: {words}"),
            }
        });
        assert!(kinds["xlog"] > 5 && kinds["created"] > 5 && kinds["dropped"] == 3, "{kinds:?}");
    }
}

#[test]
fn the_last_checkpoint_is_the_one_in_pg_control() {
    for number in 10..=19 {
        let fixture = Fixture::load(number);
        let control = fixture.control();
        let word = |at: usize| u64::from_le_bytes(control[at..at + 8].try_into().unwrap());
        let mut last = None;
        read_all(&fixture, 1 << 20, |record| {
            if let Some(XlogPayload::CheckpointShutdown(checkpoint)) = XlogPayload::of(record).unwrap() {
                last = Some((record.start_lsn, record.main_data().to_vec(), checkpoint));
            }
        });
        let (lsn, bytes, checkpoint) = last.unwrap();
        // The checkpoint's LSN at 32; its copy after it, in 10 after the LSN of the one before.
        let copy = if number == 10 { 48 } else { 40 };
        assert_eq!(lsn, Lsn(word(32)), "{number}");
        assert_eq!(bytes, control[copy..copy + bytes.len()], "{number}");
        assert_eq!(checkpoint.redo_lsn, lsn, "{number}");
    }
}

/// `COMMIT 2026-11-21 14:00:00.123456 UTC; …` as microseconds since 2000.
fn time_in(words: &str) -> Option<i64> {
    let (_, rest) = words.split_once("desc: COMMIT ").or_else(|| words.split_once("desc: ABORT "))?;
    let (date, rest) = rest.split_once(' ')?;
    let (clock, rest) = rest.split_once(' ')?;
    assert!(rest.starts_with("UTC"), "{words}");
    let time: jiff::Timestamp = format!("{date}T{clock}Z").parse().unwrap();
    Some(time.as_microsecond() - 946_684_800_000_000)
}

#[test]
fn records_tell_the_time_that_pg_waldump_prints() {
    for major in 10..=19 {
        let fixture = Fixture::load(major);
        let records = fixture.expected("records.txt");
        let expected: Vec<i64> = records.lines().filter_map(time_in).collect();
        assert!(expected.len() > 20, "{major}: {}", expected.len());
        let (mut found, mut others) = (Vec::new(), 0);
        read_all(&fixture, 1 << 20, |record| {
            let time = record_time(record);
            match record.type_name().to_string().as_str() {
                "COMMIT" | "ABORT" if record.header.rmgr_id == RM_XACT => found.extend(time),
                _ => others += usize::from(time.is_some()),
            }
        });
        let times: Vec<i64> = found.iter().map(|time| time.0).collect();
        assert_eq!(times, expected, "{major}");
        assert!(others > 0, "{major}: a restore point and two-phase commits tell it too");
    }
}
