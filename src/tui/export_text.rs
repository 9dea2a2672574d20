//! The open view as text: what its command prints, with nothing cut off.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::export::text_of;
use super::facts::{PageSheet, Survey, WalSurvey, WindowSheet};
use super::query::slot_words;
use super::state::{PagePart, State, View};
use super::view::{kept_text, wal_notes};
use crate::analysis::dwb::slot_facts::Condition;
use crate::analysis::wal::group_key::GroupBy;
use crate::analysis::wal::interval::Interval;
use crate::analysis::wal::interval_rows::IntervalRow;
use crate::inspect::next::{check_text, closing_of_text, judged_cluster};
use crate::output::check_document::Shown;
use crate::output::check_text::page_and_path;
use crate::output::colour::Paint;
use crate::output::escape::printable;
use crate::output::figures::size;
use crate::output::json::BatchJson;
use crate::output::page_text::write_page_text;
use crate::output::plan_text::write_plan_text;
use crate::output::table::{plain_table, write_table};
use crate::output::text::{Layout, write_batches, write_described};
use crate::output::wal_text::write_intervals;
use crate::types::RelFileLocator;

/// Text for a file: no colours, and every column.
const LAYOUT: Layout = Layout { width: 160, paint: Paint::new(false) };

const SLOT_CELLS: usize = 11;

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
