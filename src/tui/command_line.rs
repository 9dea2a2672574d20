//! The commands that show, do and undo what the screen does.

use std::path::Path;

use super::checklist::{next_task, tasks};
use super::facts::Survey;
use super::state::{Column, PagePart, State, View, WalLevel};
use crate::analysis::dwb::slot_facts::SlotRow;
use crate::analysis::verdict::judge::Verdict;
use crate::inspect::next::step_context;
use crate::output::escape::quoted;
use crate::types::PageId;

/// The program that looks at clusters.
pub(crate) const DWBINSPECT: &str = "pg_dwbinspect";

pub(crate) const WALFPI: &str = "pg_walfpi";

/// How a sentence begins that says that no command shows what the screen does.
pub(crate) const NO_COMMAND: &str = "no command shows";

pub fn command_line(state: &State) -> String {
    let program = state.subject.program;
    let path = quoted(&state.subject.path);
    let all = &state.subject.arguments;
    match state.view {
        View::Triage | View::Findings | View::Steps | View::Map | View::Pages => {
            let of_step = match state.view {
                View::Triage | View::Pages => next_task(state).map(|(_, task)| task),
                View::Steps => tasks(state).into_iter().nth(state.checklist.selected),
                _ => None,
            };
            let command = of_step.and_then(|task| task.commands.into_iter().next());
            let engine = if state.subject.views.contains(&View::Pages) { " innodb" } else { "" };
            command.unwrap_or_else(|| format!("{program}{engine} check --explain {all}"))
        }
        View::InnodbPage => super::innodb::page_command(state),
        View::Batches => format!("{program} batches {path}"),
        View::Slots if state.slots.batch.is_some() => {
            format!("{program} dump{} {path}", batch_arguments(state).unwrap_or_default())
        }
        View::Slots => match state.query.arguments().filter(|_| state.slots.only) {
            Some(arguments) => format!("{program} dump{arguments} {path}"),
            None => format!("{program} dump {path}"),
        },
        View::Page => match &state.page.sheet {
            Some(sheet) => {
                let page = sheet.report.page;
                let rows = if state.page.part == PagePart::Rows { " --rows" } else { "" };
                format!("{program} page{rows} {all} {} {}", quoted(&sheet.examined.path_of(page)), page.block)
            }
            None => format!("{program} check --all {all}"),
        },
        View::Wal | View::Relations => wal_command(state),
        View::Causes => wal_command(state).replace("--by relation", "--by cause"),
        View::Kept => format!("{program} kept {path}"),
        View::WhatIf => format!("{WALFPI} advise {}", state.subject.wal_arguments),
        View::Undo => match state.journal_in_force() {
            Some(journal) => undo_command(state, journal),
            None => format!("{program} undo {path} JOURNAL_DIR"),
        },
        View::Plan | View::Apply => {
            let pages = state.plan.sheet.as_ref().map_or(&[][..], |sheet| &sheet.pages);
            let selection = state.survey().map_or_else(String::new, |survey| repair_selection(survey, pages));
            // Without them the command would be refused.
            let flags = state.survey().map_or_else(String::new, |survey| step_context(&survey.examined, "").flags());
            format!("{program} repair {all}{selection}{flags}")
        }
    }
}

/// The arguments of `dump` that take the slots of the batch that is listed; `None` where no arguments do.
fn batch_arguments(state: &State) -> Option<String> {
    let survey = state.survey()?;
    let batch = &survey.batches.get(state.slots.batch?)?.batch;
    let ((file, first), (last_file, last)) = (batch.first, batch.last);
    let is_of = |row: &&SlotRow| {
        let is_here = row.file == file && (first..=last).contains(&row.index);
        is_here && row.batch.is_some_and(|(verdict, _)| verdict == batch.verdict)
    };
    let count = survey.slots().iter().filter(is_of).count() as u64;
    let name = quoted(survey.file_name(file)?);
    let arguments = format!(" --file {name} --slots {first}-{last} --batch {}", batch.verdict.name());
    (file == last_file && count == batch.slots && !state.slots.only).then_some(arguments)
}

/// Difference between the command line of the open view and the view, if any.
pub fn differs(state: &State) -> Option<String> {
    match state.view {
        View::Slots if state.slots.batch.is_some() && batch_arguments(state).is_none() => {
            Some(format!("{NO_COMMAND} just these slots of the batch; e exports them"))
        }
        View::Slots if state.slots.only && state.query.arguments().is_none() => {
            Some(format!("{NO_COMMAND} these slots: dump has no option for \"{}\"; e exports them", state.query.text()))
        }
        View::Slots if state.slots.column != Column::Slot || state.slots.descending => Some("in file order".to_owned()),
        _ if state.filtered_list().is_some() => Some("all lines, not only those that match".to_owned()),
        _ => None,
    }
}

/// The command that counts, or lists, what is in the open window.
fn wal_command(state: &State) -> String {
    let arguments = &state.subject.wal_arguments;
    let wal = &state.wal;
    let all =
        wal.survey.as_ref().and_then(|survey| survey.timeline.as_ref()).map_or(0, |timeline| timeline.cells.len());
    let sheet = if wal.level == WalLevel::Timeline { &wal.window } else { &wal.stretch };
    let part = sheet.as_ref().filter(|sheet| sheet.cells != (0..all));
    let Some((start, end)) = part.and_then(|sheet| sheet.window.range) else {
        return format!("{WALFPI} stats {arguments}");
    };
    // A window lies inside of the range that was asked for.
    let arguments = without(&without(arguments, " --start "), " --end ");
    match wal.level {
        WalLevel::Timeline | WalLevel::Stretches => {
            format!("{WALFPI} stats --by relation --start {start} --end {end} {arguments}")
        }
        WalLevel::Records | WalLevel::Record => format!("{WALFPI} list --start {start} --end {end} {arguments}"),
    }
}

/// Arguments without this flag and its value, an LSN.
fn without(arguments: &str, flag: &str) -> String {
    match arguments.split_once(flag) {
        Some((before, after)) => {
            let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
            format!("{before} {rest}").trim_end().to_owned()
        }
        None => arguments.to_owned(),
    }
}

/// The arguments of `repair` that select these pages.
fn repair_selection(survey: &Survey, pages: &[PageId]) -> String {
    let mut arguments = String::new();
    for page in pages {
        let name = quoted(&format!("{}:{}", survey.examined.path_of(*page), page.block));
        arguments.push_str(&format!(" --page {name}"));
        if survey.damaged(*page).is_some_and(|report| report.verdict.verdict == Verdict::RestoreUnproven) {
            arguments.push_str(&format!(" --allow-unproven {name}"));
        }
    }
    arguments
}

/// The command that opens the screen again, with a journal that does not lie beside the data directory.
pub(crate) fn tui_command(state: &State, journal: &Path) -> String {
    let journal = quoted(&journal.display().to_string());
    format!("{} tui {} --journal {journal}", state.subject.program, state.subject.arguments)
}

pub fn undo_command(state: &State, journal: &Path) -> String {
    let data_dir =
        state.survey().map_or(Path::new(&state.subject.path), |survey| &survey.data_dir).display().to_string();
    let flags = state.survey().map_or_else(String::new, |survey| step_context(&survey.examined, "").flags());
    format!("{} undo {} {}{flags}", state.subject.program, quoted(&data_dir), quoted(&journal.display().to_string()))
}
