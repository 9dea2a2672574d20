//! Output of `repair` and `undo`.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::PROGRAM;
use crate::analysis::skipped::Coverage;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::outlook::{Outlook, StartConditions};
use crate::cli::context::OutputArgs;
use crate::cli::exit::{Outcome, Stop};
use crate::inspect::next::{step_context, steps_for};
use crate::inspect::repair::{Repair, Written};
use crate::output::check_text::page_title;
use crate::output::closing::begin;
use crate::output::escape::printable;
use crate::output::headline::Headline;
use crate::output::json::{Item, SkippedJson, SummaryJson};
use crate::output::next_step_text;
use crate::output::plan_text::{stays_damaged, write_left, write_plan_text, write_steps};
use crate::output::shell::quoted;
use crate::output::sink::CsvShape;
use crate::output::start_words::StartWords;
use crate::output::text::{wrapped, write_command, write_fact, write_findings};
use crate::repair::apply::{Applied, Direction, Left, LeftWhy};
use crate::repair::blocker::{Blocker, Overrides};
use crate::repair::journal::Journal;
use crate::repair::plan::{Plan, PlanStep};

/// Columns of a step in CSV.
const STEP_COLUMNS: &[&str] = &[
    "spc_oid",
    "db_oid",
    "rel_number",
    "fork",
    "block",
    "relation",
    "path",
    "source",
    "file",
    "slot_index",
    "lsn",
    "donor",
    "redo_lsn",
    "page_lsn",
    "verdict",
    "before_crc",
    "after_crc",
    "warnings",
    "warning_codes",
    "base",
    "base_lsn",
    "records",
    "as_of",
    "server",
];

fn row(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(row)) => row,
        _ => Map::new(),
    }
}

/// A step as one flat row: the image's fields next to the page's.
fn step_row(step: &PlanStep) -> Map<String, Value> {
    let mut flat = row(step);
    if let Some(Value::Object(image)) = flat.remove("image") {
        flat.extend(image);
    }
    flat
}

/// How a repair ends: what the check before it could not examine, and the exit status.
pub(super) struct Ending {
    skipped: Vec<SkippedJson>,
    answer: Answer,
    /// The exit status; what was not examined may need a repair as well.
    pub outcome: Outcome,
}

impl Ending {
    /// `answer`: that of the cluster as the repair leaves it.
    pub(super) fn new(answer: Answer, coverage: &Coverage) -> Self {
        Self { skipped: coverage.skipped.iter().map(SkippedJson::from).collect(), answer, outcome: answer.into() }
    }
}

/// Steps and pages left alone in a machine format; `None` for text.
fn machine(
    out: &mut dyn Write,
    output: &OutputArgs,
    command: &'static str,
    plan: &Plan,
    counts: Value,
    ending: &Ending,
) -> Result<bool, Stop> {
    let Some(format) = output.machine() else { return Ok(false) };
    let shape = CsvShape::Rows { plural: "steps", columns: STEP_COLUMNS };
    let mut sink = begin(format, shape, out, (PROGRAM, command), Vec::new())?;
    for step in &plan.steps {
        sink.item(&Item::Step(step_row(step)))?;
    }
    for left in &plan.left {
        sink.item(&Item::Left(row(left)))?;
    }
    for skipped in &ending.skipped {
        sink.item(&Item::Skipped(skipped.clone()))?;
    }
    let counts = counts.as_object().cloned().unwrap_or_default();
    let shown = plan.steps.len() as u64;
    sink.end(&SummaryJson {
        examined: shown + plan.left.len() as u64,
        shown,
        skipped: ending.skipped.len(),
        exit_status: ending.outcome.status(),
        counts,
        ..SummaryJson::default()
    })?;
    Ok(true)
}

/// A plan that was not applied.
pub(super) fn write_plan(
    out: &mut dyn Write,
    output: &OutputArgs,
    (plan, root): (&Plan, &Path),
    blockers: &[Blocker],
    saved: Option<&Path>,
    apply: Option<&str>,
    ending: &Ending,
) -> Result<(), Stop> {
    let blocker_list: Vec<Value> =
        blockers.iter().map(|blocker| json!({"kind": blocker.kind, "what": blocker.to_string()})).collect();
    let counts = json!({
        "steps": plan.steps.len(),
        "left": plan.left.len(),
        "blockers": blocker_list,
        "applied": false,
        "written": 0,
        "journal": null,
    });
    if machine(out, output, "repair", plan, counts, ending)? {
        return Ok(());
    }
    let layout = output.layout();
    write_plan_text(out, layout, plan, blockers)?;
    if let Some(path) = saved {
        writeln!(out, "\nThe plan was saved as {}.", printable(&path.display().to_string()))?;
    }
    write_findings(out, layout, &[], &ending.skipped)?;
    // Last, where they stay in view.
    let steps = plan_steps(plan, root, !blockers.is_empty(), apply);
    if !steps.is_empty() {
        writeln!(out, "\n{}", layout.paint.heading("What to do"))?;
    }
    for (index, (what, command)) in steps.iter().enumerate() {
        let lead = if steps.len() > 1 { format!("  {}. ", index + 1) } else { "  ".to_owned() };
        wrapped(out, layout, &lead, lead.len(), what)?;
        writeln!(out, "       {}", printable(command))?;
    }
    out.flush()?;
    Ok(())
}

/// Steps from a plan to a startup, each with its command.
fn plan_steps(plan: &Plan, root: &Path, is_blocked: bool, apply: Option<&str>) -> Vec<(String, String)> {
    let root = quoted(&root.display().to_string());
    let mut steps = Vec::new();
    if let Some(apply) = apply.filter(|_| !plan.steps.is_empty()) {
        let condition = if is_blocked { "If you accept the risk of what blocks it, apply" } else { "Apply" };
        steps.push(("Copy the data directory first:".to_owned(), format!("cp -a {root} COPY")));
        steps.push((format!("{condition} the plan (the old bytes are kept in a journal):"), apply.to_owned()));
    }
    let left = plan.left.iter().filter(|left| stays_damaged(&left.verdict)).count();
    let then = "Start the server only if the answer is WILL START:";
    let what = match left {
        0 if plan.steps.is_empty() => return steps,
        0 => format!("Check again. {then}"),
        1 => format!("Check again: it says what to do about 1 page that stays damaged (see Not changed). {then}"),
        left => {
            format!("Check again: it says what to do about {left} pages that stay damaged (see Not changed). {then}")
        }
    };
    steps.push((what, format!("{PROGRAM} check {root}")));
    steps
}

/// A plan that was applied.
pub(super) fn write_applied(
    out: &mut dyn Write,
    output: &OutputArgs,
    repair: &Repair,
    written: &Written,
    ending: &Ending,
    overrides: Overrides,
) -> Result<(), Stop> {
    let (examined, plan, Written { journal, applied }) = (&repair.examined, &repair.plan, written);
    let directory = journal.directory().display().to_string();
    let counts = json!({
        "steps": plan.steps.len(),
        "left": plan.left.len(),
        "blockers": [],
        "applied": true,
        "written": applied.written.len(),
        "journal": directory,
    });
    if machine(out, output, "repair", plan, counts, ending)? {
        return Ok(());
    }
    let layout = output.layout();
    let root = examined.source.directory.as_ref().map_or_else(String::new, |dir| dir.root().display().to_string());
    let remaining: Vec<_> =
        examined.report.pages.iter().filter(|page| !repair.has_repaired(page.page)).cloned().collect();
    let given = StartConditions { may_be_running: false, ..examined.report.outlook.given.clone() };
    let outlook = Outlook::of(&remaining, &examined.report.replay, given);
    let label = |page: crate::types::PageId| page_title(&examined.called(page), page);
    let start = StartWords::of(&examined.report.replay, &outlook, &remaining, &label);
    let head = Headline::of_start(&start, ending.answer);
    head.write(out, layout)?;
    next_step_text::write_steps(
        out,
        layout,
        &steps_for(examined, &remaining, &outlook),
        step_context(examined, &root),
    )?;
    writeln!(out, "\n{}", layout.paint.heading("Repaired"))?;
    write_fact(out, layout, "pages written", &applied.written.len().to_string())?;
    write_fact(out, layout, "old bytes", &directory)?;
    let undo = format!("{PROGRAM} undo {} {}{}", quoted(&root), quoted(&directory), overrides.arguments());
    write_command(out, "to undo it", &undo)?;
    write_steps(out, layout, plan)?;
    write_left(out, layout, plan)?;
    write_findings(out, layout, &[], &ending.skipped)?;
    head.write_end(out, layout, 0)?;
    out.flush()?;
    Ok(())
}

/// Pages that were left as they are, and why.
fn named_left(journal: &Journal, applied: &Applied) -> Vec<(String, String)> {
    let entries = &journal.manifest().entries;
    let named = |left: &Left| Some((entries.get(left.index)?.to_string(), left.why.to_string()));
    applied.left.iter().filter_map(named).collect()
}

fn left_rows(journal: &Journal, applied: &Applied) -> Vec<Value> {
    let entries = &journal.manifest().entries;
    let row = |left: &Left| {
        let entry = entries.get(left.index)?;
        let kind = match left.why {
            LeftWhy::Changed => "changed",
            LeftWhy::NoBytes(_) => "no_bytes",
            LeftWhy::Unreadable(_) => "unreadable",
        };
        Some(json!({"path": entry.path, "block": entry.page.block, "kind": kind, "why": left.why.to_string()}))
    };
    applied.left.iter().filter_map(row).collect()
}

/// A journal that was finished or undone.
pub(super) fn write_undone(
    out: &mut dyn Write,
    output: &OutputArgs,
    journal: &Journal,
    applied: &Applied,
    direction: Direction,
) -> Result<(), Stop> {
    let (command, title) = match direction {
        Direction::Forward => ("repair", "Repair finished"),
        Direction::Back => ("undo", "Repair undone"),
    };
    let directory = journal.directory().display().to_string();
    if let Some(format) = output.machine() {
        let sink = begin(format, CsvShape::Pairs, out, (PROGRAM, command), Vec::new())?;
        let counts = json!({
            "written": applied.written.len(),
            "already": applied.already,
            "journal": directory,
            "unlogged": applied.unlogged,
            "left_unchanged": left_rows(journal, applied),
            "newer_files": applied.newer_files,
        });
        let counts = counts.as_object().cloned().unwrap_or_default();
        let shown = (applied.written.len() + applied.already) as u64;
        let (examined, exit_status) = (shown + applied.left.len() as u64, Outcome::of(applied.left.len(), 0).status());
        sink.end(&SummaryJson { examined, shown, exit_status, counts, ..SummaryJson::default() })?;
        return Ok(());
    }
    let layout = output.layout();
    writeln!(out, "{}", layout.paint.heading(title))?;
    write_fact(out, layout, "pages written", &applied.written.len().to_string())?;
    if applied.already > 0 {
        write_fact(out, layout, "no change needed", &applied.already.to_string())?;
    }
    write_fact(out, layout, "journal", &directory)?;
    if let Some(why) = &applied.unlogged {
        write_fact(out, layout, "not in the log", why)?;
    }
    if !applied.newer_files.is_empty() {
        let files: Vec<String> = applied.newer_files.iter().map(|file| file.display().to_string()).collect();
        let what = "written after the repair began, although pg_control shows that no server was started; copying the \
                    data directory also changes these times";
        write_fact(out, layout, "check", &format!("{}: {what}", files.join(", ")))?;
    }
    if !applied.left.is_empty() {
        writeln!(out, "\n{}", layout.paint.heading("Pages that were left as they are"))?;
        for (name, why) in named_left(journal, applied) {
            write_fact(out, layout, &name, &why)?;
        }
    }
    out.flush()?;
    Ok(())
}
