//! Changes of a page by one record, as text.

use std::io::{self, Write};
use std::ops::Range;

use crate::analysis::page_diff::{FieldChange, ItemChange, ItemState, PageDiff, RowState};
use crate::parsers::page::LinePointerState;
use crate::types::Lsn;

/// Ranges of bytes that are listed.
const MAX_RANGES: usize = 12;

/// Writes what changed.
pub(crate) fn write_change(out: &mut dyn Write, diff: &PageDiff) -> io::Result<()> {
    if diff.differing == 0 {
        return writeln!(out, "    nothing");
    }
    for change in &diff.fields {
        writeln!(out, "    {}: {} -> {}", change.field, field(change, change.before), field(change, change.after))?;
    }
    for change in &diff.items {
        writeln!(out, "    {}", item_words(change))?;
    }
    let shown: Vec<String> = diff.bytes.iter().take(MAX_RANGES).map(range_words).collect();
    let more = match diff.bytes.len().saturating_sub(MAX_RANGES) {
        0 => String::new(),
        more => format!(" and {more} more ranges"),
    };
    writeln!(out, "    bytes: {} differ, in {}{more}", diff.differing, shown.join(", "))
}

fn field(change: &FieldChange, value: u64) -> String {
    match change.field {
        "pd_lsn" => Lsn(value).to_string(),
        "pd_checksum" | "pd_flags" => format!("{value:#06x}"),
        _ => value.to_string(),
    }
}

fn range_words(range: &Range<usize>) -> String {
    match range.len() {
        1 => range.start.to_string(),
        _ => format!("{}-{}", range.start, range.end - 1),
    }
}

fn item_words(change: &ItemChange) -> String {
    let item = change.item;
    match (&change.before, &change.after) {
        (None, Some(after)) => format!("item {item} added: {}{}", pointer(after), row_words(after.row)),
        (Some(before), None) => format!("item {item} removed: {}{}", pointer(before), row_words(before.row)),
        (Some(before), Some(after)) => format!("item {item} changed: {}", differences(before, after).join(", ")),
        (None, None) => format!("item {item}"),
    }
}

fn pointer(state: &ItemState) -> String {
    match state.state {
        LinePointerState::Redirect => format!("redirect to item {}", state.offset),
        other => format!("offset {} length {} {}", state.offset, state.length, other.name()),
    }
}

fn row_words(row: Option<RowState>) -> String {
    row.map_or_else(String::new, |row| {
        let RowState { xmin, xmax, ctid: (block, item), infomask, infomask2 } = row;
        format!(", xmin {xmin} xmax {xmax} ctid ({block},{item}) infomask {infomask:#06x} infomask2 {infomask2:#06x}")
    })
}

/// Differences between two states of an item.
fn differences(before: &ItemState, after: &ItemState) -> Vec<String> {
    let mut words = Vec::new();
    let pointers = |state: &ItemState| (state.offset, state.length, state.state);
    if pointers(before) != pointers(after) {
        words.push(format!("{} -> {}", pointer(before), pointer(after)));
    }
    match (before.row, after.row) {
        (Some(before), Some(after)) => {
            let mut compare = |name: &str, before: String, after: String| {
                if before != after {
                    words.push(format!("{name} {before} -> {after}"));
                }
            };
            compare("xmin", before.xmin.to_string(), after.xmin.to_string());
            compare("xmax", before.xmax.to_string(), after.xmax.to_string());
            let ctid = |row: RowState| format!("({},{})", row.ctid.0, row.ctid.1);
            compare("ctid", ctid(before), ctid(after));
            let mask = |mask: u16| format!("{mask:#06x}");
            compare("infomask", mask(before.infomask), mask(after.infomask));
            compare("infomask2", mask(before.infomask2), mask(after.infomask2));
        }
        (None, Some(row)) => words.push(format!("a row:{}", row_words(Some(row)).trim_start_matches(','))),
        _ => {}
    }
    words
}
