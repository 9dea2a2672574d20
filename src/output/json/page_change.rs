//! JSON of what one record changed in a page.

use serde_json::{Value, json};

use super::lsn_text;
use super::page::put_page;
use super::wal::Row;
use crate::analysis::page_diff::{FieldChange, ItemChange, ItemState, PageDiff};
use crate::analysis::verdict::events::BlockEvent;
use crate::parsers::wal::version::Major;
use crate::types::{Lsn, PageId};

#[derive(Clone, Copy)]
pub(crate) struct ChangedBy<'a> {
    pub page: PageId,
    /// Number of the record in the history of the page.
    pub number: u64,
    pub event: &'a BlockEvent,
    pub major: Option<Major>,
}

/// What a record changed; or why that is unknown, as a code and in words.
pub(crate) fn page_change_row(by: &ChangedBy<'_>, diff: Result<&PageDiff, (&str, String)>) -> Row {
    let mut row = Row::new();
    put_page(&mut row, by.page);
    let (diff, why) = match diff {
        Ok(diff) => (Some(diff), None),
        Err(why) => (None, Some(why)),
    };
    let (code, reason) = why.unzip();
    for (name, value) in [
        ("number", json!(by.number)),
        ("lsn", json!(lsn_text(by.event.start_lsn))),
        ("end_lsn", json!(lsn_text(by.event.end_lsn))),
        ("record", json!(by.event.name(by.major))),
        ("fields", json!(diff.iter().flat_map(|diff| &diff.fields).map(field_value).collect::<Vec<_>>())),
        ("items", json!(diff.iter().flat_map(|diff| &diff.items).map(item_value).collect::<Vec<_>>())),
        ("bytes", json!(diff.iter().flat_map(|diff| &diff.bytes).map(|at| [at.start, at.end]).collect::<Vec<_>>())),
        ("differing", json!(diff.map(|diff| diff.differing))),
        ("reason", json!(reason)),
        ("reason_code", json!(code)),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}

fn field_value(change: &FieldChange) -> Value {
    let value = |value: u64| if change.field == "pd_lsn" { json!(lsn_text(Lsn(value))) } else { json!(value) };
    json!({"field": change.field, "before": value(change.before), "after": value(change.after)})
}

fn item_value(change: &ItemChange) -> Value {
    json!({
        "item": change.item,
        "change": change.code(),
        "before": change.before.as_ref().map(state_value),
        "after": change.after.as_ref().map(state_value),
    })
}

fn state_value(state: &ItemState) -> Value {
    let row = state.row.as_ref();
    json!({
        "offset": state.offset,
        "length": state.length,
        "state": state.state.name(),
        "xmin": row.map(|row| row.xmin),
        "xmax": row.map(|row| row.xmax),
        "ctid_block": row.map(|row| row.ctid.0),
        "ctid_item": row.map(|row| row.ctid.1),
        "infomask": row.map(|row| row.infomask),
        "infomask2": row.map(|row| row.infomask2),
    })
}
