//! The open view as text and as JSON, as the commands print it, and the command that shows the same.

use std::io::{self, Write};

use serde_json::Map;

use super::facts::{InnodbSurvey, SlotLine};
use super::state::{InnodbState as State, InnodbSubject, InnodbView as View};
use super::view::layout;
use crate::analysis::finding::Coverage;
use crate::analysis::innodb::compare::InnodbComparison;
use crate::inspect::innodb::document::{write_check, write_check_text};
use crate::output::closing::{Closing, VERSION, begin};
use crate::output::escape::printable;
use crate::output::innodb_text::{
    InnodbSlotLines, NOT_PREDICTED, write_entries, write_innodb_batches, write_innodb_page, write_tablespaces,
};
use crate::output::json::Item;
use crate::output::json::innodb::{INNODB_BATCH_COLUMNS, INNODB_PAGE_COLUMNS, INNODB_SLOT_COLUMNS};
use crate::output::json::wal::Row;
use crate::output::shell::quoted;
use crate::output::sink::{CsvShape, Machine};
use crate::output::text::{wrapped, write_fact};
use crate::tui::export::text_of;

/// Columns of text for a file.
const WIDTH: usize = 160;

/// The command line of the open view.
#[must_use]
pub fn command_line(state: &State) -> String {
    let program = state.subject.program;
    let all = &state.subject.arguments;
    match (state.view, state.page.wanted) {
        (View::Batches, _) => format!("{program} innodb batches {all}"),
        (View::Slots, _) => format!("{program} innodb dump {all}"),
        (View::Page, Some(target)) => {
            let space = match &state.page.sheet {
                Some(sheet) if sheet.page.is_some() => quoted(&sheet.space),
                _ => target.page.space_id.to_string(),
            };
            format!("{program} innodb page {all} {space} {}", target.page.page_no)
        }
        (View::Triage | View::Findings | View::Page, _) => format!("{program} innodb check --explain {all}"),
    }
}

/// What the open view shows, as text.
#[must_use]
pub fn whole_text(state: &State) -> String {
    text_of(|out| write_text(out, state))
}

/// What the open view shows, as the JSON document of its command.
#[must_use]
pub fn json_text(state: &State) -> String {
    text_of(|out| write_json(out, state))
}

/// The crash report as text: who made it of what and when, what to do, and all that `check --explain` says.
#[must_use]
pub fn report_text(subject: &InnodbSubject, survey: &InnodbSurvey) -> String {
    text_of(|out| write_report(out, subject, survey))
}

/// The crash report as JSON: the document of `check`.
#[must_use]
pub fn report_json(subject: &InnodbSubject, survey: &InnodbSurvey) -> String {
    text_of(|out| {
        let named = (subject.program, subject.path.as_str());
        write_check(out, Machine::Json, named, &survey.examined, survey.closing()).map(drop)
    })
}

fn write_report(out: &mut dyn Write, subject: &InnodbSubject, survey: &InnodbSurvey) -> io::Result<()> {
    let layout = layout(WIDTH);
    writeln!(out, "Crash report")?;
    let (program, arguments) = (subject.program, printable(&subject.arguments));
    write_fact(out, layout, "made by", &format!("{program} {VERSION}"))?;
    write_fact(out, layout, "read from", &survey.time)?;
    write_fact(out, layout, "the same answer", &format!("{program} innodb check --explain {arguments}"))?;
    writeln!(out, "\nWhat to do")?;
    for (step, number) in survey.steps.iter().zip(1..) {
        wrapped(out, layout, &format!("  {number}. "), 5, &step.words)?;
        if let Some(command) = &step.command {
            writeln!(out, "     {}", printable(command))?;
        }
    }
    writeln!(out)?;
    write_check_text(out, layout, &subject.path, &survey.examined, true, &survey.closing())?;
    write_tablespaces(out, layout, &survey.examined.source.spaces)
}

/// Slots and entries that are listed, as rows of `dump`.
fn slot_rows(state: &State, survey: &InnodbSurvey) -> (Vec<Row>, Vec<Row>) {
    let setting = survey.examined.source.setting();
    let (mut slots, mut entries) = (Vec::new(), Vec::new());
    for at in &state.slots.order {
        let disk = state.compared.as_ref().and_then(|sheet| sheet.words.get(*at)).copied();
        match survey.slot_line(*at) {
            Some(SlotLine::Slot(facts)) => slots.push(setting.slot_row(facts.slot, Some(facts), disk)),
            Some(SlotLine::Entry(entry)) => {
                let unknown = (InnodbComparison::Unknown, None);
                entries.push(setting.entry_row(entry, disk.unwrap_or(unknown)));
            }
            None => {}
        }
    }
    (slots, entries)
}

fn write_text(out: &mut dyn Write, state: &State) -> io::Result<()> {
    writeln!(out, "{}: {}", state.view.name(), printable(&command_line(state)))?;
    if !state.filter().is_empty() {
        writeln!(out, "Only what matches: {}", printable(state.filter()))?;
    }
    writeln!(out)?;
    let layout = layout(WIDTH);
    let Some(survey) = state.survey.as_deref() else { return writeln!(out, "The directory has not been read yet.") };
    let setting = survey.examined.source.setting();
    match state.view {
        View::Triage | View::Findings => {
            write_check_text(out, layout, &state.subject.path, &survey.examined, true, &survey.closing())
        }
        View::Batches => {
            let rows = state.batches.order.iter().filter_map(|at| survey.batches.get(*at));
            write_innodb_batches(out, layout, &rows.map(|batch| setting.batch_row(batch)).collect::<Vec<_>>())
        }
        View::Slots => {
            let (slots, entries) = slot_rows(state, survey);
            let mut lines = InnodbSlotLines::begin(out, layout)?;
            for row in &slots {
                lines.slot(out, layout, row)?;
            }
            lines.end_of_run(out, layout)?;
            write_entries(out, layout, &entries)
        }
        View::Page => match state.page.sheet.as_ref().and_then(|sheet| sheet.page.as_ref()) {
            Some(page) => {
                write_innodb_page(out, layout, setting, page)?;
                wrapped(out, layout, "  ", 2, NOT_PREDICTED)
            }
            None => writeln!(out, "There is no such page, or it has not been read yet."),
        },
    }
}

fn write_json(out: &mut dyn Write, state: &State) -> io::Result<()> {
    let program = state.subject.program;
    let Some(survey) = state.survey.as_deref() else { return writeln!(out, "{{}}") };
    let setting = survey.examined.source.setting();
    let paths = vec![state.subject.path.clone()];
    let closing = || Closing::new(Vec::new(), &Coverage::default());
    match state.view {
        View::Triage | View::Findings => out.write_all(report_json(&state.subject, survey).as_bytes())?,
        View::Batches => {
            let shape = CsvShape::Rows { plural: "batches", columns: INNODB_BATCH_COLUMNS };
            let mut sink = begin(Machine::Json, shape, out, (program, "innodb batches"), paths)?;
            let shown: Vec<_> = state.batches.order.iter().filter_map(|at| survey.batches.get(*at)).collect();
            for batch in &shown {
                sink.item(&Item::InnodbBatch(setting.batch_row(batch)))?;
            }
            closing().end(sink, shown.len() as u64, Map::new())?;
        }
        View::Slots => {
            let shape = CsvShape::Rows { plural: "slots", columns: INNODB_SLOT_COLUMNS };
            let mut sink = begin(Machine::Json, shape, out, (program, "innodb dump"), paths)?;
            let (slots, entries) = slot_rows(state, survey);
            let shown = (slots.len() + entries.len()) as u64;
            for row in slots {
                sink.item(&Item::InnodbSlot(row))?;
            }
            for row in entries {
                sink.item(&Item::Entry(row))?;
            }
            closing().end(sink, shown, Map::new())?;
        }
        View::Page => {
            let shape = CsvShape::Rows { plural: "pages", columns: INNODB_PAGE_COLUMNS };
            let mut sink = begin(Machine::Json, shape, out, (program, "innodb page"), paths)?;
            let page = state.page.sheet.as_ref().and_then(|sheet| sheet.page.as_ref());
            if let Some(page) = page {
                sink.item(&Item::Page(setting.page_row(page)))?;
            }
            closing().end(sink, u64::from(page.is_some()), Map::new())?;
        }
    }
    Ok(())
}
