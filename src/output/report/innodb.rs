//! The crash report on a directory of MySQL or MariaDB: the answer, what to do, and every listed page with its images.

use super::crash::{Pressed, tone_class};
use super::{Provenance, findings_section, more, origin, pressed_section, skipped_box};
use crate::analysis::innodb::judge::InnodbPage;
use crate::analysis::innodb::scan::PageCounts;
use crate::output::closing::Closing;
use crate::output::colour::Paint;
use crate::output::document::{Blocks, Document, Line, ListKind, Span};
use crate::output::innodb_text::{InnodbStep, innodb_headline, write_innodb_page};
use crate::output::json::innodb::SlotSetting;
use crate::output::text::Layout;

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
