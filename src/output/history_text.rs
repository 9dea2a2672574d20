//! The history of a page as a table for people, written as it comes: there may be very many records.

use std::io::{self, Write};

use super::escape::printable;
use super::json::time_text;
use super::text::Layout;
use super::words::page_action::{event_words, file_words, mark_words};
use crate::analysis::verdict::events::BlockEvent;
use crate::analysis::verdict::page_history::HistoryRow;
use crate::analysis::verdict::xact_ends::XactOutcome;
use crate::parsers::wal::version::Major;

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
