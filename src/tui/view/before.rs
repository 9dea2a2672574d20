//! Views before a plan is applied and before a repair is taken back: possible losses, requirements, and the confirmation;
//! and journals next to the data directory.

use std::path::Path;

use super::plan::{KINDS, kind_words};
use super::{Body, Facts, Line, State, Style, Survey, pages};
use crate::inspect::repair::readiness::{BeforeRepair, GuardState, Readiness};
use crate::output::figures::size;
use crate::repair::journal_seen::JournalSeen;
use crate::repair::plan::StepKind;
use crate::tui::command_line::command_line;
use crate::tui::facts::{BeforeSheet, PlanSheet, UndoFacts};
use crate::tui::update::{UNDO_WORD, apply_word};

const MAX_FILES: usize = 5;

/// Pages whose reasons are shown; the plan has all.
const MAX_REASONS: usize = 50;

/// Rows of the screen from which on guards that passed are named one by one.
const ALL_GUARDS: usize = 18;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let mut facts = Facts::new(look, state.columns());
    let Some(sheet) = state.plan.sheet.as_deref() else {
        facts.add("plan", "the plan is being made again", Style::new());
        return Body::text(Vec::new(), facts.lines, 0);
    };
    if let Some(failure) = &state.plan.failure {
        facts.add("failed", failure, look.bad());
    }
    add_counts(&mut facts, sheet);
    let before = state.plan.before.as_deref();
    match before.map(|before| (before, &before.found)) {
        None => facts.add("needed", "journal, files and guards are being checked", look.faint()),
        Some((_, Err(why))) => facts.add("refused", why, look.bad()),
        Some((before, Ok(found))) => add_found(&mut facts, state, before, found),
    }
    let dry_run = match state.plan.rehearsed {
        Some(count) => (format!("passed: {} could be written", pages(count)), look.good()),
        None if state.plan.is_rehearsing => ("running".to_owned(), look.faint()),
        None => ("d: run all checks, write nothing".to_owned(), look.faint()),
    };
    let mut foot = Facts::new(look, state.columns());
    foot.add("dry run", &dry_run.0, dry_run.1);
    let word = apply_word(sheet.may_lose());
    let to_do = match before {
        Some(before) if before.is_ready() => format!("a, then type: {word}"),
        Some(_) => "blocked: resolve the red lines first".to_owned(),
        None => String::new(),
    };
    if !to_do.is_empty() {
        foot.add("to write", &to_do, look.heading());
    }
    if facts.lines.len() + foot.lines.len() <= state.body_rows() {
        facts.lines.append(&mut foot.lines);
    }
    // What to press is in view, however long the rest is.
    Body { foot: foot.lines, ..Body::text(Vec::new(), facts.lines, state.plan.before_top) }
}

fn add_counts(facts: &mut Facts, sheet: &PlanSheet) {
    let look = facts.look;
    let count = sheet.plan.steps.len();
    facts.add("write", &format!("{} would be overwritten", pages(count)), Style::new());
    for (kind, of_kind) in KINDS.into_iter().map(|kind| (kind, sheet.count(kind))).filter(|(_, count)| *count > 0) {
        let style = match kind {
            StepKind::LosesChanges => look.bad(),
            StepKind::Unproven => look.doubt(),
            _ => look.good(),
        };
        facts.add("", &format!("{of_kind} {}", kind_words(kind).1), style);
    }
    let risky = sheet.plan.steps.iter().zip(&sheet.facts).filter(|(_, facts)| facts.kind.may_lose());
    for (step, known) in risky.clone().take(MAX_REASONS) {
        let name = format!("{} block {}", step.path, step.page.block);
        facts.add("may be lost", &format!("? {name}: {}", known.reasons.join("; ")), look.doubt());
    }
    let more = risky.count().saturating_sub(MAX_REASONS);
    if more > 0 {
        facts.add("", &format!("and {} more, with their reasons in the plan", pages(more)), look.doubt());
    }
    if !sheet.plan.left.is_empty() {
        facts.add("left", &format!("{} as before: see the plan", pages(sheet.plan.left.len())), look.faint());
    }
}

fn add_found(facts: &mut Facts, state: &State, before: &BeforeSheet, found: &BeforeRepair) {
    let look = facts.look;
    match &found.ready {
        Err(error) => facts.add("refused", &error.to_string(), look.bad()),
        Ok(ready) => add_ready(facts, ready),
    }
    let is_low = state.body_rows() < ALL_GUARDS;
    if is_low {
        let passed = found.guards.iter().filter(|guard| guard.state == GuardState::Passed).count();
        let words =
            format!("{passed} of {} passed: server, lock, pg_control, version, standby, owner", found.guards.len());
        facts.add("guards", &words, look.faint());
    }
    let told = found.guards.iter().filter(|guard| !is_low || guard.state != GuardState::Passed);
    for (at, guard) in told.enumerate() {
        let label = if at == 0 && !is_low { "guards" } else { "" };
        match &guard.state {
            GuardState::Passed => facts.add(label, &format!("passed: {}", passed_words(guard.kind)), look.faint()),
            GuardState::Allowed(blocker) => {
                let flag = blocker.flag.unwrap_or_default();
                facts.add(label, &format!("allowed by {flag}: {}", blocker.what), look.doubt());
            }
            GuardState::Refused(blocker) => {
                let how = match blocker.flag {
                    Some(flag) => format!("; {flag} allows it: o, then type it"),
                    None => "; no flag allows it".to_owned(),
                };
                facts.add(label, &format!("REFUSED: {}; {}{how}", blocker.what, blocker.advice), look.bad());
            }
        }
    }
    let version = format!("PostgreSQL {}: only a server of this version starts the cluster", before.version);
    facts.add("version", &version, Style::new());
    let unproven = state.plan.sheet.as_ref().is_some_and(|sheet| sheet.may_lose());
    let condition = if unproven { "If the unproven images are right: " } else { "" };
    facts.add("afterwards", &format!("{condition}{}", before.start_after), Style::new());
}

fn add_ready(facts: &mut Facts, ready: &Readiness) {
    let look = facts.look;
    let journal = ready.journal.display();
    match &ready.site {
        Ok(free) => {
            facts.add("journal", &format!("{journal}: new, writable (c: another directory)"), look.good());
            let words = format!(
                "the journal needs {}, {} are free; pages are overwritten",
                size(ready.needed_bytes),
                size(*free)
            );
            facts.add("space", &words, Style::new());
        }
        Err(error) => facts.add("journal", &format!("NOT USABLE: {error} (c: another directory)"), look.bad()),
    }
    match ready.closed.len() {
        0 => facts.add("files", &format!("{} can be opened for writing", ready.files), look.good()),
        count => {
            facts.add("files", &format!("{count} of {} CANNOT be opened for writing", ready.files), look.bad());
            for error in ready.closed.iter().take(MAX_REASONS) {
                facts.add("", &error.to_string(), look.bad());
            }
        }
    }
}

fn passed_words(kind: &str) -> &'static str {
    match kind {
        "locked" => "no other repair is running",
        "server_running" => "no server runs on this directory",
        "control" => "pg_control can be trusted",
        "version" => "PG_VERSION and pg_control are of one version",
        "shut_down" => "the cluster was not shut down cleanly",
        "standby" => "not a standby, not in archive recovery",
        "recovery_signal" => "no signal file of another recovery",
        "backup_label" => "no backup_label",
        _ => "the data directory belongs to this user",
    }
}

pub(super) fn undo_body(state: &State) -> Body<'_> {
    Body::text(Vec::new(), undo_lines(state, state.columns()), state.plan.before_top)
}

pub(super) fn undo_lines(state: &State, width: usize) -> Vec<Line<'static>> {
    let look = state.look;
    let mut facts = Facts::new(look, width);
    if let Some(failure) = &state.plan.failure {
        facts.add("failed", failure, look.bad());
    }
    if let Some(journal) = state.journal_in_force() {
        facts.add("journal", &journal.display().to_string(), Style::new());
    }
    match state.plan.undo.as_deref().map(|sheet| &sheet.found) {
        None => facts.add("rehearsal", "running: all checks, nothing is written", look.faint()),
        Some(Err(why)) => {
            let why: Vec<&str> = why.lines().map(|line| line.strip_prefix("refused: ").unwrap_or(line)).collect();
            facts.add("refused", &why.join("\n"), look.bad());
            let flags = state.plan.undo.as_ref().map_or_else(Vec::new, |sheet| sheet.flags.clone());
            if !flags.is_empty() {
                facts.add("", &format!("{} allows it: o, then type it", flags.join(" or ")), look.bad());
            }
        }
        Some(Ok(found)) => add_rehearsal(&mut facts, found),
    }
    facts.add("command", &command_line(state), look.faint());
    facts.lines
}

fn add_rehearsal(facts: &mut Facts, found: &UndoFacts) {
    let look = facts.look;
    facts.add("rehearsal", &format!("passed: {} would get the old bytes back", pages(found.back)), look.good());
    if found.already > 0 {
        facts.add("", &format!("{} have them already", pages(found.already)), look.faint());
    }
    let named: Vec<String> = found.newer_files.iter().take(MAX_FILES).map(|file| file.display().to_string()).collect();
    if !named.is_empty() {
        let more = if found.newer_files.len() > MAX_FILES { ", and more" } else { "" };
        let words = format!("newer than the repair, as after a server was started: {}{more}", named.join(", "));
        facts.add("look at", &words, look.doubt());
    }
    facts.add(
        "guards",
        "passed: no server was started since the repair, and nothing else has changed its pages",
        look.faint(),
    );
    let after =
        "the pages are as damaged as they were before the repair; the journal stays, and the cluster is checked again";
    facts.add("afterwards", after, Style::new());
    facts.add("to undo", &format!("u, then type: {UNDO_WORD}"), look.heading());
}

/// The newest journal whose pages are as its repair wrote them, in a sentence.
pub(super) fn in_force_words(survey: &Survey) -> Option<String> {
    let seen = survey.journals.in_force()?;
    let state = seen.state.as_ref().ok()?;
    let when = state.began.as_ref().map_or_else(String::new, |began| format!(", begun {began}"));
    let rest =
        if state.new == state.pages { "they are as it wrote them".to_owned() } else { format!("among these, {state}") };
    Some(format!("u in Plan takes back a repair of {}{when}; {rest}", pages(state.pages)))
}

/// Journals of this cluster beside the data directory, and what could not be examined of them: label, words, colour.
pub(super) fn journal_facts(state: &State) -> Vec<(&'static str, String, Style)> {
    let Some(survey) = state.survey() else { return Vec::new() };
    let look = state.look;
    // That of the last repair, or undo, is named above.
    let shown = state.plan.applied.as_ref().map(|applied| applied.journal.as_path());
    let shown = shown.or(state.plan.undone.as_ref().map(|undone| undone.journal.as_path()));
    let mut facts = Vec::new();
    let journals = match &survey.journals.journals {
        Ok(journals) => &journals[..],
        Err(why) => {
            facts.push(("journals", format!("not checked: {why}"), look.doubt()));
            &[]
        }
    };
    // Of several whose pages are as they wrote them, only the newest is undone.
    let is_next = |directory: &Path| state.journal_in_force() == Some(directory);
    for JournalSeen { directory, state: found } in
        journals.iter().filter(|seen| Some(seen.directory.as_path()) != shown)
    {
        let path = directory.display();
        match found {
            Ok(found) if !found.is_of_cluster() => {}
            Ok(found) if found.is_in_force() && is_next(directory) => {
                facts.push(("journal", format!("{path}: {found}; u undoes it"), look.good()));
            }
            Ok(found) => facts.push(("journal", format!("{path}: {found}"), look.faint())),
            Err(why) => facts.push(("journal", format!("{path}: not checked: {why}"), look.doubt())),
        }
    }
    if survey.journals.more > 0 {
        facts.push(("", format!("{} older ones were not checked", survey.journals.more), look.faint()));
    }
    facts
}
