//! The crash report: all that a check says of a cluster, with the proofs, the plan, and what identifies every piece of
//! evidence. What was not examined stands first.

mod damaged;
mod evidence;
mod repair;

pub use damaged::{Excerpt, ExcerptRow, PageSheet};
pub use evidence::{BufferShown, WalRun};
pub use repair::{PlanShown, PlannedBytes};

use super::{Provenance, findings_section, origin, skipped_box};
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::facts::Tone;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::next_step::NextStep;
use crate::cluster::open::FileDigest;
use crate::output::check_text::{page_title, replay_words};
use crate::output::closing::Closing;
use crate::output::document::{Blocks, Document, ListKind, Span};
use crate::output::documents::JudgedCluster;
use crate::output::next_step_text::{Words, all_words};
use crate::output::start_words::StartWords;
use crate::repair::journal_seen::FoundJournals;
use crate::types::PageId;

/// A key that was pressed on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pressed {
    /// When: ISO 8601 in UTC.
    pub time: String,
    /// The view that was open.
    pub view: &'static str,
    /// The key.
    pub key: String,
}

pub(crate) struct CrashReport<'a> {
    pub made: &'a Provenance,
    pub cluster: JudgedCluster<'a>,
    /// The answer, as in the exit status.
    pub answer: Answer,
    /// Only pages that the double write buffer holds were judged.
    pub is_partial: bool,
    pub state: Vec<(&'static str, String)>,
    pub closing: &'a Closing,
    pub steps: &'a [NextStep],
    pub stand_ins: String,
    /// Damaged pages that are shown in full: the first of them.
    pub sheets: Vec<PageSheet>,
    pub buffer: BufferShown,
    pub wal: Vec<WalRun>,
    /// Plan of a repair, or the reason why none exists.
    pub plan: Result<PlanShown, String>,
    pub journals: FoundJournals,
    /// Files that the answers rest on, each with what identifies it or why it could not be read.
    pub digests: Vec<(String, Result<FileDigest, String>)>,
    /// Keys pressed in the terminal UI before the report was made.
    pub pressed: &'a [Pressed],
}

/// The class of the style of a tone.
const fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Doubt => "doubt",
        Tone::Loss | Tone::Bad => "bad",
        Tone::Quiet => "faint",
    }
}

impl CrashReport<'_> {
    pub fn document(&self) -> Document {
        let data_dir = self.cluster.context.data_dir;
        let directory = [Span::text("Data directory "), Span::code(data_dir)].into();
        let lead = vec![directory, format!("Checked {}", self.made.time).into()];
        let body = Blocks::of(|main| {
            self.write_skipped(main);
            self.write_start(main);
            self.write_steps(main);
            main.section("state", "State of the cluster", |inner| inner.facts(self.state.iter().cloned()));
            self.write_pages(main);
            findings_section(main, self.closing, "check");
            self.write_buffer(main);
            self.write_wal(main);
            self.write_plan(main);
            self.write_journals(main);
            self.write_pressed(main);
            self.write_evidence(main);
        });
        let title = format!("Crash report: {data_dir}");
        Document { title, program: self.cluster.program, heading: "Crash report", lead, body }
    }

    fn called(&self, page: PageId) -> String {
        self.cluster.names.full_name(page.rel).unwrap_or_else(|| page.rel.to_string())
    }

    fn titled(&self, page: PageId) -> String {
        page_title(&self.called(page), page)
    }

    fn write_skipped(&self, main: &mut Blocks) {
        if self.is_partial {
            main.strong_box("bad", "Not checked: most pages", |inner| {
                inner.paragraph("Only pages that the double write buffer holds were judged (--dwb-only).");
            });
        }
        let meaning = "Nothing in this report says anything about them, and no answer is certain without them.";
        skipped_box(main, self.closing, meaning, "check");
    }

    fn write_start(&self, main: &mut Blocks) {
        let report = self.cluster.report;
        let label = |page| self.titled(page);
        main.section("start", "If the server is started now", |inner| {
            let (class, heading) = match self.answer {
                Answer::Fine => ("good", "Recovery loses no data"),
                Answer::Wrong => ("bad", "Problems found"),
                Answer::Uncertain => ("doubt", "Something was not checked or is uncertain"),
            };
            inner.strong_box(class, heading, |answer| {
                answer.paragraph(StartWords::of(&report.replay, &report.outlook, &report.pages, &label).line());
                answer.note(format!("Exit status {}.", self.answer.status()));
            });
            let mut known = Vec::new();
            known.extend(replay_words(&report.replay).map(|words| ("replay", words)));
            for (index, doubt) in report.replay.doubts.iter().enumerate() {
                known.push((if index == 0 { "doubts" } else { "" }, doubt.to_string()));
            }
            if !known.is_empty() {
                inner.facts(known);
            }
            let count = |verdict: Verdict| report.pages.iter().filter(|page| page.verdict.verdict == verdict).count();
            let found =
                Verdict::ALL.into_iter().map(|verdict| (verdict, count(verdict))).filter(|(_, count)| *count > 0);
            let rows = found.map(|(verdict, count)| {
                let facts = verdict.facts();
                let mark = Span::Mark(facts.label.to_owned(), tone_class(facts.tone));
                [mark, Span::number(count), Span::text(facts.meaning)]
            });
            if report.pages.is_empty() {
                inner.paragraph("No damaged page was found among those that were checked.");
            } else {
                let caption = format!("Damaged pages by verdict: {} in all", report.pages.len());
                inner.table(caption, ["verdict", "pages", "meaning"], rows);
            }
        });
    }

    fn write_steps(&self, main: &mut Blocks) {
        main.section("next", "What to do next", |inner| {
            let item = |words: Words| {
                let sentence = words.sentence();
                let below = Blocks::of(|below| {
                    if !words.items.is_empty() {
                        below.list(words.items);
                    }
                    below.commands(&words.commands.join("\n"));
                });
                (sentence.into(), below)
            };
            inner.items(ListKind::Numbers, all_words(self.steps, self.cluster.context).into_iter().map(item));
            inner.commands(&self.stand_ins);
        });
    }

    fn write_pressed(&self, main: &mut Blocks) {
        main.section("pressed", "Actions in the terminal UI", |inner| {
            if self.pressed.is_empty() {
                return inner.paragraph("The report was made by a command, without the terminal UI.");
            }
            let row =
                |pressed: &Pressed| [Span::text(&pressed.time), Span::text(pressed.view), Span::code(&pressed.key)];
            let caption = "Keys, in the order in which they were pressed";
            inner.table(caption, ["time (UTC)", "view", "key"], self.pressed.iter().map(row));
        });
    }

    fn write_evidence(&self, main: &mut Blocks) {
        main.section("evidence", "Evidence and origin", |inner| {
            let row = |(name, digest): &(String, Result<FileDigest, String>)| match digest {
                Ok(digest) => [Span::code(name), Span::number(digest.size_bytes), Span::Digest(digest.sha256.clone())],
                Err(why) => [Span::code(name), Span::number("-"), Span::text(why)],
            };
            if !self.digests.is_empty() {
                let caption = "Files that the answers rest on, as they were when the report was made";
                inner.table(caption, ["file", "bytes", "SHA-256"], self.digests.iter().map(row));
            }
            origin(inner, self.made, self.cluster.program, self.answer);
            inner.note("The same answers for programs: check --format json. Nothing was written into the cluster.");
        });
    }
}
