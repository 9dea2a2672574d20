//! One record of WAL in words: header, block references, main data.
//! Also here: the history of a page as a table for people, written as it comes: there may be very many records.

use std::fmt;
use std::io::{self, Write};

use super::escape::printable;
use super::json::wal::fork_name;
use super::json::{time_text, time_words};
use super::text::Layout;
use super::words::rows::{event_words, file_words, mark_words};
use crate::analysis::changes::events::BlockEvent;
use crate::analysis::changes::prepared_xacts::XactOutcome;
use crate::analysis::verdict::page_history::HistoryRow;
use crate::analysis::wal::record_sheet::{MainData, RecordLine, RecordSheet, SheetBlock, StoppedAt};
use crate::parsers::wal::names::rmgr_name;
use crate::parsers::wal::payload::{PgTimestamp, XlogPayload};
use crate::parsers::wal::records::record_type_name;
use crate::parsers::wal::version::Major;
use crate::types::RelFileLocator;

impl fmt::Display for StoppedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End(end) => end.fmt(f),
            Self::NoSegment { at } => write!(f, "no segment holds {at}"),
            Self::NoRecord { at } => write!(f, "no record starts at {at}"),
            Self::Unreadable(error) => error.fmt(f),
        }
    }
}

/// A label and what it stands before.
pub type Fact = (String, String);

/// Resource manager and type of a record, as `pg_waldump` prints them.
pub fn type_words(major: Major, rmgr_id: u8, info: u8) -> String {
    format!("{}/{}", rmgr_name(rmgr_id), record_type_name(major, rmgr_id, info))
}

/// The page of a block reference: relation, fork where it is not the main one, block.
pub(crate) fn block_words(relation: &str, fork_code: u8, block: u32) -> String {
    match fork_code {
        0 => format!("{relation} block {block}"),
        code => format!("{relation} ({}) block {block}", fork_name(code)),
    }
}

/// Blocks of a record in a list: the first one, and how many more there are.
pub(crate) fn blocks_of_line(line: &RecordLine, name: &dyn Fn(RelFileLocator) -> String) -> String {
    let Some((rel, fork_code, block)) = line.first else { return String::new() };
    let more = match line.blocks {
        0 | 1 => String::new(),
        count => format!(" +{}", count - 1),
    };
    let fork = if fork_code == 0 { String::new() } else { format!(" ({})", fork_name(fork_code)) };
    format!("{}{fork}:{block}{more}", name(rel))
}

pub(crate) fn header_facts(sheet: &RecordSheet) -> Vec<Fact> {
    let header = &sheet.header;
    let mut facts = vec![
        fact("starts at", sheet.start_lsn),
        fact("ends at", sheet.end_lsn),
        fact("type", type_words(sheet.major, header.rmgr_id, header.info)),
        fact("length", format!("{} bytes", header.tot_len)),
        fact("transaction", if header.xid == 0 { "none".to_owned() } else { header.xid.to_string() }),
    ];
    facts.extend(sheet.top_xid.map(|xid| fact("part of", format!("transaction {xid}"))));
    facts.push(fact("record before", header.prev));
    facts.push(fact("info", format!("{:#04x}", header.info)));
    facts.push(fact("CRC", format!("{:#010x}, right", header.crc)));
    facts
}

pub(crate) fn block_facts(block: &SheetBlock) -> Vec<Fact> {
    let mut facts = Vec::new();
    facts.extend(block.action.as_ref().map(|action| fact("does", action)));
    if block.will_init {
        facts.push(fact("page", "redo recreates it"));
    }
    if let Some(image) = &block.image {
        let how = image.compression.map_or_else(String::new, |method| format!(", {}", method.name()));
        let hole = match image.hole_length {
            0 => "no hole".to_owned(),
            length => format!("a hole of {length} bytes at {}", image.hole_offset),
        };
        let applied = if image.is_applied { "" } else { "; redo does not apply it" };
        facts.push(fact("image", format!("{} bytes{how}, {hole}{applied}", image.stored_bytes)));
        facts.extend(image.cause.map(|cause| fact("cause", cause)));
    }
    if block.data_bytes > 0 {
        facts.push(fact("data", format!("{} bytes", block.data_bytes)));
    }
    facts
}

/// Content of the main data of a record.
pub(crate) fn main_facts(sheet: &RecordSheet) -> Vec<Fact> {
    let length = || fact("length", format!("{} bytes", sheet.main_bytes));
    let time = |time: PgTimestamp| fact("time", time_words(time));
    let mut facts = match &sheet.main {
        MainData::Checkpoint(checkpoint, is_shutdown) => vec![
            fact("checkpoint", if *is_shutdown { "at shutdown or at the end of recovery" } else { "online" }),
            fact("redo point", checkpoint.redo_lsn),
            fact("began", time_words(PgTimestamp::from_unix_us(checkpoint.time_s.saturating_mul(1_000_000)))),
            fact("timeline", format!("{}, before it {}", checkpoint.tli.0, checkpoint.prev_tli.0)),
            fact("page writes", if checkpoint.full_page_writes == 0 { "off" } else { "on" }),
            fact("next xid", checkpoint.next_full_xid),
            fact("next OID", checkpoint.next_oid),
            fact("oldest xid", format!("{} in database {}", checkpoint.oldest_xid, checkpoint.oldest_xid_db)),
            fact("active from", format!("transaction {}", checkpoint.oldest_active_xid)),
        ],
        MainData::Xlog(payload) => xlog_facts(payload),
        MainData::XactEnd(end) => {
            let mut facts = vec![fact("ends", if end.committed { "commit" } else { "abort" }), time(end.time)];
            facts.extend(end.xid.map(|xid| fact("transaction", xid)));
            if !end.subxids.is_empty() {
                facts.push(fact("with", format!("{} subtransactions", end.subxids.len())));
            }
            facts
        }
        MainData::Files(what) => vec![fact("files", file_words(what))],
        MainData::Pages => Vec::new(),
        MainData::Wrong(error) => vec![fact("wrong", error)],
        MainData::Other => Vec::new(),
    };
    facts.push(length());
    facts
}

fn xlog_facts(payload: &XlogPayload) -> Vec<Fact> {
    let time = |time: &PgTimestamp| fact("time", time_words(*time));
    match payload {
        // With their own words.
        XlogPayload::CheckpointShutdown(_) | XlogPayload::CheckpointOnline(_) => Vec::new(),
        XlogPayload::Noop => vec![fact("says", "nothing")],
        XlogPayload::NextOid(oid) => vec![fact("OIDs", format!("up to {oid} may be in use"))],
        XlogPayload::Switch => vec![fact("segment", "the rest of it is empty")],
        XlogPayload::BackupEnd { start_lsn } => {
            vec![fact("backup", format!("ends here; it is replayed from {start_lsn}"))]
        }
        XlogPayload::ParameterChange(change) => {
            vec![
                fact("wal_level", change.wal_level),
                fact("hints", if change.wal_log_hints == 0 { "wal_log_hints off" } else { "wal_log_hints on" }),
            ]
        }
        XlogPayload::RestorePoint { time: at, name } => {
            vec![fact("name", String::from_utf8_lossy(name)), time(at)]
        }
        XlogPayload::FullPageWritesChange(on) => {
            vec![fact("page writes", if *on == 0 { "off after this" } else { "on after this" })]
        }
        XlogPayload::EndOfRecovery { time: at, tli, prev_tli, .. } => {
            vec![fact("recovery", format!("ends; timeline {} follows {}", tli.0, prev_tli.0)), time(at)]
        }
        XlogPayload::FpiForHint => vec![fact("images", "of pages of which only hint bits changed")],
        XlogPayload::Fpi => vec![fact("images", "only of full pages")],
        XlogPayload::OverwriteContrecord { overwritten_lsn, time: at } => {
            vec![fact("replaces", format!("the record at {overwritten_lsn}, which a crash cut off")), time(at)]
        }
        XlogPayload::CheckpointRedo { .. } => vec![fact("redo point", "that of the checkpoint that follows")],
        XlogPayload::LogicalDecodingStatusChange(on) => {
            vec![fact("decoding", if *on == 0 { "off after this" } else { "on after this" })]
        }
        XlogPayload::Unknown(info) => vec![fact("type", format!("unknown: {info:#04x}"))],
    }
}

fn fact(label: &str, text: impl fmt::Display) -> Fact {
    (label.to_owned(), text.to_string())
}

/// Columns before the last one.
const HEADINGS: [&str; 6] = ["number", "record", "ends at", "type", "xid", "ended"];

/// How the transaction of a record ended.
pub(crate) type OutcomeOf<'a> = &'a dyn Fn(&BlockEvent) -> Option<XactOutcome>;

/// Cells of a row, and the words that come last.
fn cells(row: &HistoryRow<'_>, major: Option<Major>, outcome_of: OutcomeOf<'_>) -> ([String; 6], String) {
    let between = |lsn: String, end_lsn: String, words: String| {
        (["".to_owned(), lsn, end_lsn, String::new(), String::new(), String::new()], words)
    };
    match row {
        HistoryRow::Record(number, event) => {
            let ended = outcome_of(event).map_or_else(String::new, |outcome| {
                let time = time_text(outcome.time.unix_seconds());
                if outcome.committed { time } else { format!("aborted {time}") }
            });
            let name = printable(&event.name(major));
            let (start, end) = (event.start_lsn.to_string(), event.end_lsn.to_string());
            ([number.to_string(), start, end, name, event.xid.to_string(), ended], event_words(event))
        }
        HistoryRow::File(event) => between(
            event.start_lsn.to_string(),
            event.end_lsn.to_string(),
            format!("-- {} --", file_words(&event.what)),
        ),
        HistoryRow::Gap(gap) => between(
            gap.range.start.to_string(),
            gap.range.end.to_string(),
            format!("-- {} --", printable(&gap.to_string())),
        ),
        HistoryRow::Mark(mark, lsn) => between(lsn.to_string(), String::new(), format!("-- {} --", mark_words(*mark))),
    }
}

pub(crate) fn write_rows(
    out: &mut dyn Write,
    layout: Layout,
    rows: &[HistoryRow<'_>],
    major: Option<Major>,
    outcome_of: OutcomeOf<'_>,
) -> io::Result<()> {
    let mut widths = HEADINGS.map(str::len);
    for row in rows {
        let (cells, _) = cells(row, major, outcome_of);
        for (width, cell) in widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String; 6], words: &str| {
        let columns: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("  {} {words}", columns.join(" ")).trim_end().to_owned()
    };
    writeln!(out, "{}", layout.paint.heading(&line(&HEADINGS.map(str::to_owned), "change")))?;
    for row in rows {
        let (cells, words) = cells(row, major, outcome_of);
        let line = line(&cells, &words);
        match row {
            HistoryRow::Record(..) => writeln!(out, "{line}")?,
            HistoryRow::Gap(_) => writeln!(out, "{}", layout.paint.bad(&line))?,
            HistoryRow::File(_) | HistoryRow::Mark(..) => writeln!(out, "{}", layout.paint.doubt(&line))?,
        }
    }
    Ok(())
}
