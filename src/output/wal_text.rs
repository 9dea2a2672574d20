//! Statistics as tables.
//! Also here: what keeps the segments of `pg_wal`, as a table, a line, and metrics of Prometheus.

use std::io::{self, Write};

use serde_json::Value;

use super::advise_text::bill_words;
use super::escape::printable;
use super::figures::{percent, size, size_words};
use super::json::wal::{Naming, group_by_name, key_columns, key_row};
use super::kept_words::{drop_command, keeper_words, kept_sentence, release_words};
use super::prometheus::{family, label_set};
use super::relation_columns;
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped, wrapping};
use super::wal_columns::{COUNTS, GroupCell, INTERVAL_COLUMNS, IntervalCell, Screens};
use crate::analysis::plan::kept::{Keeper, Kept, KeptWal};
use crate::analysis::wal::bill::{BillPart, BillRow, WalBill};
use crate::analysis::wal::group::{GroupRow, RelationFigures};
use crate::analysis::wal::group_key::{GroupBy, Grouping, Key};
use crate::analysis::wal::interval_rows::IntervalRow;
use crate::analysis::wal::tally::{Certainty, Tally};

/// Width from which on a checkpoint row shows everything.
const WIDE: u16 = 130;

/// Width from which on groups show all shares.
const WIDE_GROUPS: u16 = 110;

/// The column of rows that hold several intervals.
static INTERVALS_IN_ROW: IntervalCell<IntervalRow> = intervals_in_row("intervals");

/// The same on a screen that is not wide.
static INTERVALS_IN_NARROW_ROW: IntervalCell<IntervalRow> = intervals_in_row("n");

const fn intervals_in_row(heading: &'static str) -> IntervalCell<IntervalRow> {
    IntervalCell { heading, screens: Screens::All, text: |row| row.intervals.to_string(), is_number: true }
}

/// Writes checkpoint intervals and their total, and how many there are where rows hold several.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_intervals(
    out: &mut dyn Write,
    layout: Layout,
    rows: &[IntervalRow],
    (total, wal_bytes): (&Tally, u64),
) -> io::Result<()> {
    let is_wide = layout.width >= WIDE;
    let own = |follows: bool| {
        let columns = INTERVAL_COLUMNS.iter().filter(move |column| column.follows_counts == follows);
        columns.flat_map(|column| column.cells).filter(|cell| cell.screens.include(is_wide)).collect::<Vec<_>>()
    };
    let (mut before, after) = (own(false), own(true));
    let is_summed = rows.iter().any(|row| row.intervals > 1);
    if is_summed {
        before.insert(1, if is_wide { &INTERVALS_IN_ROW } else { &INTERVALS_IN_NARROW_ROW });
    }
    let counts =
        || COUNTS.iter().filter_map(|column| column.interval.as_ref()).filter(|cell| cell.screens.include(is_wide));
    let headings = before.iter().map(|cell| (cell.heading, cell.is_number));
    let headings = headings.chain(counts().map(|cell| (cell.heading, cell.is_number)));
    let headings: Vec<_> = headings.chain(after.iter().map(|cell| (cell.heading, cell.is_number))).collect();
    let mut table = plain_table(&headings.iter().map(|(heading, _)| *heading).collect::<Vec<_>>());
    for row in rows {
        let cells = before.iter().map(|cell| (cell.text)(row));
        let cells = cells.chain(counts().map(|cell| (cell.text)(&row.tally)));
        table.add_row(cells.chain(after.iter().map(|cell| (cell.text)(row))).collect::<Vec<_>>());
    }
    let intervals: u64 = rows.iter().map(|row| row.intervals).sum();
    let of_total = |heading: &str| match heading {
        "redo" => "total".to_owned(),
        "WAL" => size(wal_bytes),
        heading if [INTERVALS_IN_ROW.heading, INTERVALS_IN_NARROW_ROW.heading].contains(&heading) => {
            intervals.to_string()
        }
        _ => String::new(),
    };
    let sum = before.iter().map(|cell| of_total(cell.heading));
    table.add_row(sum.chain(counts().map(|cell| (cell.text)(total))).collect::<Vec<_>>());
    let numbers = (0..).zip(&headings).filter(|(_, (_, is_number))| *is_number);
    let fit = numbers.fold(Fit::default(), |fit, (index, _)| fit.numbers(index..index + 1));
    write_fitted(out, layout, table, &fit)?;
    if rows.iter().any(|row| row.begins_before) {
        writeln!(out)?;
        let words = "<: the interval began before this WAL, or in a gap of it; what is counted is a part of it";
        wrapped(out, layout, "", 0, words)?;
    }
    if is_summed {
        let heading = if is_wide { String::new() } else { format!(" ({})", INTERVALS_IN_NARROW_ROW.heading) };
        writeln!(out)?;
        let words = format!("rows hold several checkpoint intervals{heading}, their blocks added up; --all shows each");
        wrapped(out, layout, "", 0, &words)?;
    }
    Ok(())
}

/// Writes which bytes of the WAL are not of records.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_rest(out: &mut dyn Write, layout: Layout, bill: &WalBill, wal_bytes: u64) -> io::Result<()> {
    let is_rest = |row: &&BillRow| !matches!(row.part, BillPart::Images | BillPart::Records | BillPart::OldRows);
    let parts: Vec<String> = bill
        .rows
        .iter()
        .filter(is_rest)
        .map(|row| format!("{} {}", size_words(row.bytes), bill_words(row, bill.rhythm)))
        .collect();
    let records: u64 = bill.rows.iter().filter(|row| !is_rest(row)).map(|row| row.bytes).sum();
    let list = std::iter::once(format!("{} of records", size_words(records))).chain(parts).collect::<Vec<_>>();
    wrapped(out, layout, "", 0, &format!("{} WAL: {}", size_words(wal_bytes), list.join("; ")))
}

/// A line of intervals that are printed as they end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IntervalLines<'a> {
    Heading,
    Row(&'a IntervalRow, Certainty, bool),
    /// All of them: counts, and bytes of WAL.
    Total(&'a Tally, u64),
}

/// Least width of a column, as rows that come later are not known.
const LINE_CELL: usize = 8;

/// Writes one line, in columns that are as wide in every line.
pub(crate) fn write_interval_lines(out: &mut dyn Write, layout: Layout, what: IntervalLines<'_>) -> io::Result<()> {
    let is_wide = layout.width >= WIDE;
    let own = |follows: bool| {
        let columns = INTERVAL_COLUMNS.iter().filter(move |column| column.follows_counts == follows);
        columns.flat_map(|column| column.cells).filter(move |cell| cell.screens.include(is_wide))
    };
    let counts = COUNTS.iter().filter_map(|column| column.interval.as_ref());
    let counts = counts.filter(|cell| cell.screens.include(is_wide));
    let of_interval = |cell: &IntervalCell<IntervalRow>| match what {
        IntervalLines::Heading => cell.heading.to_owned(),
        IntervalLines::Row(interval, ..) => (cell.text)(interval),
        IntervalLines::Total(_, wal_bytes) => match cell.heading {
            "redo" => "total".to_owned(),
            "WAL" => size(wal_bytes),
            _ => String::new(),
        },
    };
    let cells = own(false).map(|cell| (cell.heading, cell.is_number, of_interval(cell)));
    let cells = cells.chain(counts.map(|cell| {
        let text = match what {
            IntervalLines::Heading => cell.heading.to_owned(),
            IntervalLines::Row(interval, ..) => (cell.text)(&interval.tally),
            IntervalLines::Total(total, _) => (cell.text)(total),
        };
        (cell.heading, cell.is_number, text)
    }));
    let mut line = String::new();
    for (heading, is_number, text) in
        cells.chain(own(true).map(|cell| (cell.heading, cell.is_number, of_interval(cell))))
    {
        let width = LINE_CELL.max(heading.len()).max(if heading == "redo" { 17 } else { 0 });
        line += &if is_number { format!("  {text:>width$}") } else { format!("  {text:<width$}") };
    }
    let (certainty, is_over) = match what {
        IntervalLines::Row(_, certainty, is_over) => (certainty, is_over),
        IntervalLines::Heading | IntervalLines::Total(..) => (Certainty::Exact, true),
    };
    writeln!(out, "{}{}", line.trim_end(), unsure(certainty, is_over))
}

/// What stands after the numbers of a line that are not exact, or not all.
pub const fn unsure(certainty: Certainty, is_over: bool) -> &'static str {
    match (certainty, is_over) {
        (Certainty::AtLeast, true) => "  (at least)",
        (Certainty::AtLeast, false) => "  (at least; not over)",
        (_, true) => "",
        (_, false) => "  (not over)",
    }
}

/// Writes groups and their total.
pub(crate) fn write_groups(
    out: &mut dyn Write,
    layout: Layout,
    by: Grouping,
    rows: &[GroupRow],
    total: &Tally,
    naming: &Naming<'_>,
) -> io::Result<()> {
    // On a narrow screen names need the room of the shares.
    let is_wide = layout.width >= WIDE_GROUPS;
    let shows_share = |cell: &GroupCell| cell.share.is_some_and(|screens| screens.include(is_wide));
    let cells = || COUNTS.iter().filter_map(|column| column.group.as_ref());
    let mut header: Vec<&str> = std::iter::once(by.first).chain(by.second).map(group_by_name).collect();
    let keys = header.len();
    for cell in cells() {
        header.push(cell.heading);
        header.extend(shows_share(cell).then_some("%"));
    }
    let mut numbers = header.len();
    let shows_relations = by.is_of_relations() && layout.width >= WIDE;
    if shows_relations {
        header.extend(relation_columns::HEADINGS);
        numbers += relation_columns::NUMBERS;
    }
    let mut table = plain_table(&header);
    let mut add = |mut row: Vec<String>, tally: &Tally, figures: Option<&RelationFigures>| {
        for cell in cells() {
            let (part, whole) = ((cell.number)(tally), (cell.number)(total));
            row.push(part.to_string());
            let share = || percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 });
            row.extend(shows_share(cell).then(share));
        }
        if shows_relations {
            row.extend(relation_columns::cells(figures));
        }
        table.add_row(row);
    };
    for GroupRow { key, tally, figures } in rows {
        let first = name_of(by.first, &key.first, naming);
        let second = by.second.zip(key.second).map(|(by, key)| name_of(by, &key, naming));
        add(std::iter::once(first).chain(second).collect(), tally, figures.as_ref());
    }
    let mut sum = vec!["total".to_owned()];
    sum.resize(keys, String::new());
    add(sum, total, None);
    write_fitted(out, layout, table, &Fit::default().numbers(keys..numbers))
}

/// Words of a group: what its row says, joined.
pub(crate) fn name_of(by: GroupBy, key: &Key, naming: &Naming<'_>) -> String {
    if *key == Key::None {
        return match by {
            GroupBy::Cause | GroupBy::Compression => "(no image)".to_owned(),
            GroupBy::Xid => "(no transaction)".to_owned(),
            _ => "(no block)".to_owned(),
        };
    }
    match key {
        Key::Checkpoint(None) => return "(before the first)".to_owned(),
        Key::Checkpoint(Some(redo)) if redo.hidden().is_some() => return format!("<{}", redo.latest),
        Key::Kind(kind) => return relation_columns::kind_words(*kind),
        _ => {}
    }
    let row = key_row(key, naming);
    let named = ["relation", "database"].into_iter().find(|name| row.get(*name).is_some_and(Value::is_string));
    let text = |column: &&str| {
        let hidden = match named {
            Some("relation") => ["spc_oid", "db_oid", "rel_number"].contains(column),
            Some(_) => *column == "db_oid",
            None => *column == "relation" || *column == "database",
        };
        match row.get(*column) {
            Some(Value::String(text)) if !hidden => Some(printable(text)),
            Some(value) if !hidden && !value.is_null() => Some(value.to_string()),
            _ => None,
        }
    };
    let keys = key_columns(by).iter().filter(|column| **column != "timeline");
    keys.filter_map(text).collect::<Vec<_>>().join("/")
}

/// Writes all that keeps segments. `ready_since`: when the archiver stopped, in words.
pub(crate) fn write_kept(
    out: &mut dyn Write,
    layout: Layout,
    wal: &KeptWal,
    ready_since: Option<&str>,
) -> io::Result<()> {
    for line in textwrap::wrap(&kept_sentence(wal), wrapping(usize::from(layout.width))) {
        writeln!(out, "{}", layout.paint.heading(&line))?;
    }
    if let Some(last) = &wal.last {
        writeln!(out, "  written up to {last}")?;
    }
    writeln!(out)?;
    let mut table = plain_table(&["kept by", "keeps", "alone", "back", "oldest segment"]);
    for row in &wal.rows {
        let mut who = keeper_words(&row.keeper);
        if row.keeper == Keeper::Archiver {
            who.push_str(&format!(", {} segments{}", row.segments, since(ready_since)));
        }
        table.add_row([
            who,
            size(row.bytes),
            size(row.alone_bytes),
            row.back_bytes.map(size).unwrap_or_default(),
            row.oldest.clone().unwrap_or_default(),
        ]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..4))?;
    let words =
        "alone: what nothing else keeps. back: from the oldest WAL that is needed to the end of the last segment";
    wrapped(out, layout, "  ", 2, words)?;
    writeln!(out, "\n{}", layout.paint.heading("To release it"))?;
    for row in &wal.rows {
        wrapped(out, layout, "  ", 4, &format!("{}: {}", keeper_words(&row.keeper), release_words(&row.keeper)))?;
        if let Keeper::Slot { name, is_temporary: false, .. } = &row.keeper {
            writeln!(out, "    {}", drop_command(name))?;
        }
    }
    Ok(())
}

fn since(ready_since: Option<&str>) -> String {
    ready_since.map_or_else(String::new, |time| format!(" since {time}"))
}

/// Writes metrics for Prometheus.
pub(crate) fn write_kept_metrics(out: &mut dyn Write, wal: &KeptWal) -> io::Result<()> {
    let labels = |row: &Kept| match &row.keeper {
        Keeper::Slot { name, .. } => label_set(&[("keeper", "slot".into()), ("slot", name.as_str().into())]),
        other => label_set(&[("keeper", other.code().into())]),
    };
    let of = |value: &dyn Fn(&Kept) -> Option<u64>| -> Vec<(String, String)> {
        wal.rows.iter().filter_map(|row| Some((labels(row), value(row)?.to_string()))).collect()
    };
    family(out, "pg_wal_bytes", "Bytes of segment files in pg_wal", &[(String::new(), wal.bytes.to_string())])?;
    family(out, "kept_bytes", "Bytes of segment files that this keeps", &of(&|row| Some(row.bytes)))?;
    let alone = of(&|row| Some(row.alone_bytes));
    family(out, "kept_alone_bytes", "Bytes of segment files that nothing else keeps", &alone)?;
    let back = of(&|row| row.back_bytes);
    family(out, "kept_back_bytes", "Bytes from the oldest WAL that this needs to the end of the last segment", &back)
}
