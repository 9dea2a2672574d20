//! What every report has: what was not examined, findings, and where it comes from.

use super::Provenance;
use super::parts::{Cell, Table, commands, facts, list, paragraph, section, strong_box, table};
use crate::analysis::verdict::answer::Answer;
use crate::output::closing::{Closing, VERSION};
use crate::output::json::{FindingJson, SkippedJson};
use crate::output::markup::Markup;

/// Things that were not examined that are listed one by one.
const MAX_SKIPPED: usize = 200;

/// Findings that are listed one by one.
const MAX_FINDINGS: usize = 200;

/// A box with what was not examined, if there is anything. `meaning`: what that does to the report; `command`: the one that
/// lists all.
pub(super) fn skipped_box(main: &mut Markup, closing: &Closing, meaning: &str, command: &str) {
    let skipped = &closing.skipped;
    if skipped.is_empty() {
        return;
    }
    let things = if skipped.len() == 1 { "1 thing".to_owned() } else { format!("{} things", skipped.len()) };
    strong_box(main, "bad", &format!("Not examined: {things}"), |inner| {
        paragraph(inner, meaning);
        let line = |skipped: &SkippedJson| format!("{}: {}", skipped.what, skipped.reason);
        list(inner, skipped.iter().take(MAX_SKIPPED).map(line));
        more(inner, skipped.len(), MAX_SKIPPED, command);
    });
}

/// The findings, what they mean, and where.
pub(super) fn findings_section(main: &mut Markup, closing: &Closing, command: &str) {
    section(main, "findings", "Findings", |inner| {
        let findings = &closing.findings;
        if findings.is_empty() {
            return paragraph(inner, "None.");
        }
        let row = |finding: &FindingJson| {
            let class = if finding.severity == "problem" { "bad" } else { "doubt" };
            let file = finding.file.clone().unwrap_or_default();
            let at = finding.offset.as_ref().map_or_else(String::new, |offset| format!(" at {offset}"));
            vec![
                Cell::Mark(finding.severity.to_string(), class),
                Cell::Text(format!("{}. {}", finding.what, finding.why)),
                Cell::Code(format!("{file}{at}")),
            ]
        };
        let rows = findings.iter().take(MAX_FINDINGS).map(row).collect();
        let headings = vec!["", "what was found, and why it matters", "where"];
        table(inner, &Table { caption: String::new(), headings, rows });
        more(inner, findings.len(), MAX_FINDINGS, command);
    });
}

/// Who made the report, when and how, and what it answers.
pub(super) fn origin(parent: &mut Markup, made: &Provenance, program: &str, answer: Answer) {
    let known = [
        ("made by", format!("{program} {VERSION}")),
        ("at", made.time.clone()),
        ("exit status", answer.status().to_string()),
    ];
    facts(parent, &known);
    commands(parent, &made.command_line);
}

/// Says how many of a list were left out. `command`: the one that lists them all.
pub(super) fn more(parent: &mut Markup, all: usize, shown: usize, command: &str) {
    if all > shown {
        let rest = all - shown;
        let text = format!("And {rest} more, which are not shown here: {command} --format json lists all {all}.");
        paragraph(parent, &text);
    }
}
