//! Reports: what a crash report and a report on WAL say.
//! Also here: parts of every report: skipped parts, findings, and its origin.
//! Also here: the crash report on a directory of MySQL or MariaDB: the answer, what to do, and every listed page with
//! its images.

pub(crate) mod crash;
pub mod wal;

use self::crash::{Pressed, tone_class};
use super::closing::{Closing, VERSION};
use super::document::{Blocks, Document, Line, ListKind, Span};
use super::innodb_text::{InnodbStep, innodb_headline, write_innodb_page};
use super::json::innodb::SlotSetting;
use super::json::{FindingJson, SkippedJson};
use super::text::{Layout, Paint};
use crate::analysis::innodb::judge::InnodbPage;
use crate::analysis::innodb::scan::PageCounts;
use crate::analysis::verdict::answer::Answer;

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

/// Columns of the text about a page.
const COLUMNS: u16 = 120;

/// Pages that are shown in full.
const MAX_SHEETS: usize = 100;

pub(crate) struct InnodbReport<'a> {
    pub made: &'a Provenance,
    pub program: &'static str,
    pub data_dir: String,
    pub setting: SlotSetting<'a>,
    pub pages: &'a [InnodbPage],
    pub counts: &'a PageCounts,
    pub closing: &'a Closing,
    pub steps: &'a [InnodbStep],
    pub pressed: &'a [Pressed],
}

impl InnodbReport<'_> {
    pub fn document(&self) -> Document {
        let Self { data_dir, closing, .. } = self;
        let directory = [Span::text("Data directory "), Span::code(data_dir)].into();
        let lead = vec![directory, format!("Checked {}", self.made.time).into()];
        let body = Blocks::of(|main| {
            let meaning = "Nothing in this report says anything about them, and no answer is certain without them.";
            skipped_box(main, closing, meaning, "innodb check");
            let headline = innodb_headline(self.pages, self.counts, closing.answer());
            main.section("answer", "Answer", |inner| {
                inner.strong_box(tone_class(headline.tone), headline.badge, |answer| {
                    headline.sentences.iter().for_each(|sentence| answer.paragraph(format!("{sentence}.")));
                });
            });
            self.write_steps(main);
            self.write_pages(main);
            findings_section(main, closing, "innodb check");
            pressed_section(main, self.pressed);
            main.section("origin", "Origin", |inner| {
                origin(inner, self.made, self.program, closing.answer());
                inner
                    .note("The same for programs: innodb check --format json. Nothing was written into the directory.");
            });
        });
        let title = format!("Crash report: {data_dir}");
        Document { title, program: self.program, heading: "Crash report", lead, body }
    }

    fn write_steps(&self, main: &mut Blocks) {
        main.section("steps", "What to do", |inner| {
            let step = |step: &InnodbStep| {
                let command = step.command.as_deref();
                let blocks = Blocks::of(|inner| command.into_iter().for_each(|command| inner.commands(command)));
                (Line::from(step.words.as_str()), blocks)
            };
            inner.items(ListKind::Numbers, self.steps.iter().map(step));
        });
    }

    fn write_pages(&self, main: &mut Blocks) {
        let mut pages: Vec<&InnodbPage> = self.pages.iter().collect();
        pages.sort_by_key(|page| (!page.is_damaged(), page.held));
        main.section("pages", "Pages", |inner| {
            let row = |page: &&InnodbPage| {
                let class = if page.held.is_whole() { "doubt" } else { "bad" };
                [
                    Span::code(&page.path),
                    Span::number(page.page.page_no),
                    Span::text(page.disk.name()),
                    Span::Mark(page.held.to_string(), class),
                ]
            };
            inner.table("", ["file", "page", "on disk", "the buffer holds"], pages.iter().map(row));
            let layout = Layout { width: COLUMNS, paint: Paint::new(false) };
            for page in pages.iter().take(MAX_SHEETS) {
                let mut text = Vec::new();
                match write_innodb_page(&mut text, layout, self.setting, page) {
                    Ok(()) => inner.commands(String::from_utf8_lossy(&text).trim_matches('\n')),
                    Err(error) => inner.paragraph(error.to_string()),
                }
            }
            more(inner, pages.len(), MAX_SHEETS, "innodb check");
        });
    }
}
