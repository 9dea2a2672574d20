//! Reports: what a crash report and a report on WAL say.
//! Also here: parts of every report: skipped parts, findings, and its origin.

pub(crate) mod crash;
pub(crate) mod innodb;
pub mod wal;

use crate::analysis::verdict::answer::Answer;
use crate::output::closing::{Closing, VERSION};
use crate::output::document::{Blocks, Span};
use crate::output::json::{FindingJson, SkippedJson};
use crash::Pressed;

/// Who made the report, when, and how.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// The command line.
    pub command_line: String,
    /// When the report was made, ISO 8601 in UTC.
    pub time: String,
}

/// Things that were not examined, or findings, that are listed one by one.
const MAX_LISTED: usize = 200;

/// A box with what was not examined, if there is anything. `meaning`: what that does to the report; `command`: the one that
/// lists all.
fn skipped_box(main: &mut Blocks, closing: &Closing, meaning: &str, command: &str) {
    let skipped = &closing.skipped;
    if skipped.is_empty() {
        return;
    }
    let things = if skipped.len() == 1 { "1 thing".to_owned() } else { format!("{} things", skipped.len()) };
    main.strong_box("bad", &format!("Not checked: {things}"), |inner| {
        inner.paragraph(meaning);
        let line = |skipped: &SkippedJson| format!("{}: {}", skipped.what, skipped.reason);
        inner.list(skipped.iter().take(MAX_LISTED).map(line));
        more(inner, skipped.len(), MAX_LISTED, command);
    });
}

/// The findings, what they mean, and where.
fn findings_section(main: &mut Blocks, closing: &Closing, command: &str) {
    main.section("findings", "Findings", |inner| {
        let findings = &closing.findings;
        if findings.is_empty() {
            return inner.paragraph("None.");
        }
        let row = |finding: &FindingJson| {
            let class = if finding.severity == "problem" { "bad" } else { "doubt" };
            let file = finding.file.clone().unwrap_or_default();
            let at = finding.offset.as_ref().map_or_else(String::new, |offset| format!(" at {offset}"));
            [
                Span::Mark(finding.severity.to_string(), class),
                Span::Text(format!("{}. {}", finding.what, finding.why)),
                Span::Code(format!("{file}{at}")),
            ]
        };
        let headings = ["", "finding, and why it matters", "where"];
        inner.table("", headings, findings.iter().take(MAX_LISTED).map(row));
        more(inner, findings.len(), MAX_LISTED, command);
    });
}

/// Who made the report, when and how, and what it answers.
fn origin(parent: &mut Blocks, made: &Provenance, program: &str, answer: Answer) {
    parent.facts([
        ("made by", format!("{program} {VERSION}")),
        ("at", made.time.clone()),
        ("exit status", answer.status().to_string()),
    ]);
    parent.commands(&made.command_line);
}

/// Keys that were pressed in the terminal UI.
fn pressed_section(main: &mut Blocks, pressed: &[Pressed]) {
    main.section("pressed", "Actions in the terminal UI", |inner| {
        if pressed.is_empty() {
            return inner.paragraph("The report was made by a command, without the terminal UI.");
        }
        let row = |pressed: &Pressed| [Span::text(&pressed.time), Span::text(pressed.view), Span::code(&pressed.key)];
        let caption = "Keys, in the order in which they were pressed";
        inner.table(caption, ["time (UTC)", "view", "key"], pressed.iter().map(row));
    });
}

/// Says how many of a list were left out. `command`: the one that lists them all.
fn more(parent: &mut Blocks, all: usize, shown: usize, command: &str) {
    if all > shown {
        let rest = all - shown;
        parent
            .paragraph(format!("And {rest} more, which are not shown here: {command} --format json lists all {all}."));
    }
}
