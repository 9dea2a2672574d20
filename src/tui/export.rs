//! The open view as JSON, and as text: what its command prints, with nothing cut off.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::facts::{PageSheet, Survey, WalSurvey, WindowSheet};
use super::query::slot_words;
use super::state::{PagePart, State, View};
use super::view::{kept_text, wal_notes};
use crate::analysis::dwb::slot_facts::{Condition, SlotRow};
use crate::analysis::skipped::Coverage;
use crate::analysis::wal::group_key::GroupBy;
use crate::analysis::wal::interval::Interval;
use crate::analysis::wal::interval_rows::IntervalRow;
use crate::analysis::wal::tally::Tally;
use crate::inspect::next::{check_text, closing_of_text, judged_cluster};
use crate::output::check_document::Shown;
use crate::output::check_text::page_and_path;
use crate::output::closing::{Closing, VERSION};
use crate::output::escape::printable;
use crate::output::figures::size;
use crate::output::json::wal::{KeptJson, Row};
use crate::output::json::{BatchJson, SCHEMA, lsn_text};
use crate::output::page_text::write_page_text;
use crate::output::plan_text::write_plan_text;
use crate::output::sink::Machine;
use crate::output::table::{plain_table, write_table};
use crate::output::text::{Layout, Paint, write_batches, write_described};
use crate::output::wal_columns::{interval_row, put_tally};
use crate::output::wal_text::write_intervals;
use crate::types::RelFileLocator;

/// Text for a file: no colours, and every column.
const LAYOUT: Layout = Layout { width: 160, paint: Paint::new(false) };

const SLOT_CELLS: usize = 11;

/// The open view as a JSON document. Triage and Page are the documents of `check` and `page`.
pub fn json_text(state: &State) -> String {
    let survey = state.survey();
    let items = match state.view {
        View::Triage | View::Findings | View::Steps | View::Map | View::Pages | View::InnodbPage => {
            match (survey, state.innodb.survey.as_deref()) {
                (Some(survey), _) => return check_document(state, survey),
                (None, Some(survey)) => super::innodb::page_rows(state, survey),
                (None, None) => json!({}),
            }
        }
        View::Page => match state.page.sheet.as_deref() {
            Some(sheet) => return page_document(state, sheet),
            None => json!({}),
        },
        View::Batches => {
            let batches = survey.map_or_else(Vec::new, |survey| {
                let files = &survey.examined.source.set.files;
                let name = |rel| survey.examined.relation_name(rel);
                survey.batches.iter().map(|listed| BatchJson::new(&listed.batch, files, &name)).collect()
            });
            json!({"batches": batches})
        }
        View::Slots => {
            let rows = survey.map_or_else(Vec::new, |survey| {
                let listed = state.slots.order.iter().filter_map(|index| survey.slots().get(*index));
                listed.map(|row| slot_value(survey, row)).collect()
            });
            json!({"slots": rows})
        }
        View::Wal | View::Relations | View::Causes | View::WhatIf | View::Kept => wal_value(state),
        View::Undo => json!({
            "journal": state.journal_in_force().map(|journal| journal.display().to_string()),
            "refused": state.plan.undo.as_ref().and_then(|sheet| sheet.found.as_ref().err()),
            "pages": state.plan.undo.as_ref().and_then(|sheet| sheet.found.as_ref().ok()).map(|found| found.back),
        }),
        View::Plan | View::Apply => json!({
            "plan": state.plan.sheet.as_ref().map(|sheet| json!(sheet.plan)),
            "blockers": state.plan.sheet.as_ref().map(|sheet| {
                sheet.blockers.iter().map(ToString::to_string).collect::<Vec<_>>()
            }),
        }),
    };
    let document = json!({
        "tool": state.subject.program,
        "version": VERSION,
        "schema": SCHEMA,
        "command": super::command_line::command_line(state),
        "path": state.subject.path,
        "view": state.view.name().to_lowercase(),
        "shown": items,
    });
    format!("{document:#}\n")
}

fn check_document(state: &State, survey: &Survey) -> String {
    let examined = &survey.examined;
    let closing = Closing::new(examined.findings.clone(), &examined.coverage).answering(examined.answer());
    let cluster = judged_cluster(examined, state.subject.program, &state.subject.path);
    text_of(|out| cluster.write_check(out, Machine::Json, &survey.steps, false, closing))
}

fn page_document(state: &State, sheet: &PageSheet) -> String {
    let closing = Closing::new(Vec::new(), &Coverage::default());
    let cluster = judged_cluster(&sheet.examined, state.subject.program, &state.subject.path);
    let with_rows = state.page.part == PagePart::Rows;
    let rows = if with_rows { sheet.rows.json(sheet.report.page, &sheet.versions) } else { Vec::new() };
    text_of(|out| cluster.write_pages(out, Machine::Json, &[&sheet.report], rows, closing))
}

pub(super) fn text_of<T>(write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> String {
    let mut text = Vec::new();
    match write(&mut text) {
        Ok(_) => String::from_utf8_lossy(&text).into_owned(),
        // Memory takes everything; if it ever does not, the file says why it is not what it should be.
        Err(error) => error.to_string(),
    }
}

fn slot_value(survey: &Survey, row: &SlotRow) -> Value {
    let [crc, batch, disk, by, fork] = slot_words(row);
    json!({
        "file": survey.file_name(row.file),
        "slot_index": row.index,
        "slot_id": row.slot_id,
        "spc_oid": row.rel.spc_oid,
        "db_oid": row.rel.db_oid,
        "rel_number": row.rel.rel_number,
        "relation": survey.names.get(&row.rel),
        "fork": fork,
        "block": row.block,
        "slot_lsn": lsn_text(row.slot_lsn),
        "page_lsn": lsn_text(row.page_lsn),
        "crc": crc,
        "batch": batch,
        "disk": disk,
        "written_by": by,
    })
}

fn wal_value(state: &State) -> Value {
    let Some(wal) = state.wal.survey.as_deref() else { return json!({}) };
    let row = |name: &str, tally: &Tally| {
        let mut row = Row::new();
        row.insert("name".to_owned(), json!(name));
        put_tally(&mut row, tally);
        row
    };
    let whole = wal.whole.iter();
    let relations = whole.clone().flat_map(|whole| whole.rows(GroupBy::Relation));
    let causes = whole.flat_map(|whole| &whole.window.causes);
    let mut total = Row::new();
    put_tally(&mut total, &wal.total);
    json!({
        "intervals": wal.intervals.iter().map(interval_row).collect::<Vec<_>>(),
        "total": total,
        "relations": relations.map(|(name, tally)| row(name, tally)).collect::<Vec<_>>(),
        "causes": causes.map(|(key, tally)| row(&wal.names.name_of(GroupBy::Cause, key), tally)).collect::<Vec<_>>(),
        "kept": wal.kept.iter().flatten().flat_map(|kept| &kept.wal.rows).map(KeptJson::from).collect::<Vec<_>>(),
        "notes": wal_notes(wal),
    })
}

/// The open view as text, as its command prints it, if one exists.
pub fn whole_text(state: &State) -> String {
    text_of(|out| write_view(out, state))
}

fn write_view(out: &mut dyn Write, state: &State) -> io::Result<()> {
    writeln!(out, "{}: {}", state.view.name(), printable(&super::command_line::command_line(state)))?;
    if state.view == View::Slots && state.slots.only {
        writeln!(out, "Only slots that match: {}", printable(state.query.text()))?;
    }
    writeln!(out)?;
    if let Some(survey) = state.innodb.survey.as_deref() {
        return super::innodb::write_view(out, state, survey, LAYOUT);
    }
    match (state.view, state.survey()) {
        (View::Kept, _) => match state.wal.survey.as_deref() {
            Some(wal) => out.write_all(kept_text(wal, LAYOUT).as_bytes()),
            None => not_read(out),
        },
        (View::Wal | View::Relations | View::Causes | View::WhatIf, _) => match state.wal.survey.as_deref() {
            Some(wal) => write_wal(out, wal, state.wal.window.as_deref()),
            None => not_read(out),
        },
        (View::Pages | View::InnodbPage, _) | (_, None) => not_read(out),
        (View::Triage | View::Findings | View::Steps | View::Map, Some(survey)) => write_check(out, state, survey),
        (View::Batches, Some(survey)) => {
            let (set, name) = (&survey.examined.source.set, |rel| survey.examined.relation_name(rel));
            let rows: Vec<BatchJson> =
                survey.batches.iter().map(|listed| BatchJson::new(&listed.batch, &set.files, &name)).collect();
            write_described(out, set)?;
            write_batches(out, LAYOUT, &rows)
        }
        (View::Slots, Some(survey)) => write_slots(out, state, survey),
        (View::Page, Some(_)) => match state.page.sheet.as_deref() {
            Some(sheet) => write_page(out, state, sheet),
            None => not_read(out),
        },
        (View::Undo, Some(_)) => crate::tui::view::undo_text(state).iter().try_for_each(|line| writeln!(out, "{line}")),
        (View::Plan | View::Apply, Some(_)) => match &state.plan.sheet {
            Some(sheet) => write_plan_text(out, LAYOUT, &sheet.plan, &sheet.blockers),
            None => not_read(out),
        },
    }
}

fn not_read(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "nothing was read yet")
}

fn write_check(out: &mut dyn Write, state: &State, survey: &Survey) -> io::Result<()> {
    let examined = &survey.examined;
    let text = check_text(examined, state.subject.program, &state.subject.path);
    text.write(out, LAYOUT, Shown { explain: true, all: false }, &closing_of_text(examined), &survey.steps)
}

fn write_page(out: &mut dyn Write, state: &State, sheet: &PageSheet) -> io::Result<()> {
    let (examined, page) = (&sheet.examined, sheet.report.page);
    let title = page_and_path(&examined.called(page), page, &examined.path_of(page));
    let cluster = judged_cluster(examined, state.subject.program, &state.subject.path);
    let is_of_rows = state.page.part == PagePart::Rows;
    let rows: Vec<_> = sheet.rows.each(&sheet.versions).take_while(|_| is_of_rows).collect();
    write_page_text(out, LAYOUT, (cluster, &title), &sheet.report, &sheet.versions, &rows, true)
}

/// The listed slots with all that is known of each: `dump` does not compare them with the pages on disk.
fn write_slots(out: &mut dyn Write, state: &State, survey: &Survey) -> io::Result<()> {
    // Of many slots few relations: each is named once.
    let names: BTreeMap<RelFileLocator, String> =
        survey.names.iter().map(|(rel, name)| (*rel, printable(name))).collect();
    let heading =
        ["file", "slot", "relation", "fork", "block", "slot lsn", "page lsn", "crc", "batch", "disk", "written by"];
    let row = |index: &usize| -> Option<[String; SLOT_CELLS]> {
        let row = survey.slots().get(*index)?;
        let file = printable(survey.file_name(row.file).unwrap_or("?"));
        let [crc, batch, disk, by, fork] = slot_words(row).map(str::to_owned);
        if row.condition == Condition::Empty {
            let mut empty: [String; SLOT_CELLS] = Default::default();
            (empty[0], empty[1], empty[7]) = (file, row.index.to_string(), crc);
            return Some(empty);
        }
        let relation = names.get(&row.rel).cloned().unwrap_or_else(|| row.rel.to_string());
        let (block, slot_lsn, page_lsn) = (row.block.to_string(), row.slot_lsn.to_string(), row.page_lsn.to_string());
        Some([file, row.index.to_string(), relation, fork, block, slot_lsn, page_lsn, crc, batch, disk, by])
    };
    let rows: Vec<[String; SLOT_CELLS]> = state.slots.order.iter().filter_map(row).collect();
    let mut widths = heading.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[&str]| -> String {
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}  ")).collect::<String>()
    };
    writeln!(out, "{}", line(&heading).trim_end())?;
    for row in &rows {
        writeln!(out, "{}", line(&row.each_ref().map(String::as_str)).trim_end())?;
    }
    writeln!(out, "\n{} of {} slots shown", rows.len(), survey.slots().len())
}

fn write_wal(out: &mut dyn Write, wal: &WalSurvey, sheet: Option<&WindowSheet>) -> io::Result<()> {
    let bytes = wal.intervals.iter().map(Interval::wal_bytes).sum();
    write_intervals(out, LAYOUT, &IntervalRow::of(&wal.intervals, wal.intervals.len()), (&wal.total, bytes))?;
    if let Some((sheet, (start, end))) = sheet.and_then(|sheet| Some((sheet, sheet.window.range?))) {
        writeln!(out, "\nwindow from {start} to {end}:")?;
        for (what, by) in [("relation", GroupBy::Relation), ("cause", GroupBy::Cause)] {
            let mut table = plain_table(&[what, "images", "image bytes"]);
            for (name, tally) in sheet.rows(by) {
                table.add_row([printable(name), tally.fpi_count.to_string(), size(tally.fpi_bytes)]);
            }
            writeln!(out)?;
            write_table(out, &table)?;
        }
    }
    for note in wal_notes(wal) {
        writeln!(out, "\n{}", printable(&note))?;
    }
    Ok(())
}
