//! JSON of the history of a page.

use serde_json::{Map, Value, json};

use super::page::put_page;
use super::wal::Row;
use super::{fill_up, lsn_text, time_text};
use crate::analysis::verdict::events::BlockEvent;
use crate::analysis::verdict::page_history::HistoryRow;
use crate::analysis::verdict::xact_ends::XactOutcome;
use crate::analysis::wal::page_action::{ActionKind, Counted};
use crate::output::words::page_action::{event_words, file_words, mark_words};
use crate::parsers::wal::version::Major;
use crate::types::PageId;

/// Fields of a row, in the order of CSV.
pub(crate) const HISTORY_COLUMNS: &[&str] = &[
    "kind",
    "number",
    "lsn",
    "end_lsn",
    "xid",
    "outcome",
    "ended_at",
    "record",
    "touch",
    "action",
    "items",
    "counts",
    "what",
    "missing_segments",
    "missing_count",
    "spc_oid",
    "db_oid",
    "rel_number",
    "fork",
    "block",
];

/// A row of the history. `outcome`: how the transaction of a record ended.
pub(crate) fn history_row(
    page: PageId,
    row: HistoryRow<'_>,
    major: Option<Major>,
    outcome: Option<&XactOutcome>,
) -> Row {
    let mut object = match row {
        HistoryRow::Record(number, event) => record(number, event, major, outcome),
        HistoryRow::File(event) => object(json!({
            "kind": "file",
            "lsn": lsn_text(event.start_lsn),
            "end_lsn": lsn_text(event.end_lsn),
            "action": event.what.code(),
            "what": file_words(&event.what),
        })),
        HistoryRow::Gap(gap) => object(json!({
            "kind": "gap",
            "lsn": lsn_text(gap.range.start),
            "end_lsn": lsn_text(gap.range.end),
            "what": gap.to_string(),
            "missing_segments": gap.missing.names,
            "missing_count": gap.missing.more.saturating_add(gap.missing.names.len() as u64),
        })),
        HistoryRow::Mark(mark, lsn) => object(json!({
            "kind": "mark",
            "lsn": lsn_text(lsn),
            "action": mark.code(),
            "what": mark_words(mark),
        })),
    };
    put_page(&mut object, page);
    fill_up(&mut object, HISTORY_COLUMNS);
    object
}

fn object(value: Value) -> Row {
    match value {
        Value::Object(object) => object,
        _ => Row::new(),
    }
}

fn record(number: usize, event: &BlockEvent, major: Option<Major>, outcome: Option<&XactOutcome>) -> Row {
    let action = event.action.as_deref();
    let counts = action.map(|action| {
        let count = |(counted, count): &(Counted, u32)| (counted.code().to_owned(), json!(count));
        action.counts.iter().map(count).collect::<Map<_, _>>()
    });
    object(json!({
        "kind": "record",
        "number": number,
        "lsn": lsn_text(event.start_lsn),
        "end_lsn": lsn_text(event.end_lsn),
        "xid": event.xid,
        "outcome": outcome.map(|outcome| if outcome.committed { "committed" } else { "aborted" }),
        "ended_at": outcome.map(|outcome| time_text(outcome.time.unix_seconds())),
        "record": event.name(major),
        "touch": event.touch.code(),
        "action": action.map(|action| ActionKind::code(action.kind)),
        "items": action.map(|action| action.items().collect::<Vec<_>>()),
        "counts": counts,
        "what": event_words(event),
    }))
}
