//! View before an undo; and journals next to the data directory.

use super::{Body, Line, State, Style, Survey, pages};
use std::path::Path;

use super::before::Facts;
use crate::repair::journal_seen::JournalSeen;
use crate::tui::command_line::command_line;
use crate::tui::facts::UndoFacts;
use crate::tui::update::UNDO_WORD;

const MAX_FILES: usize = 5;

pub(super) fn body(state: &State) -> Body<'_> {
    Body::text(Vec::new(), lines(state, state.columns()), state.plan.before_top)
}

pub(super) fn lines(state: &State, width: usize) -> Vec<Line<'static>> {
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
        Some(Ok(found)) => add_found(&mut facts, found),
    }
    facts.add("command", &command_line(state), look.faint());
    facts.lines
}

fn add_found(facts: &mut Facts, found: &UndoFacts) {
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
