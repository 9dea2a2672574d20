//! The crash report: all that a check says of a cluster, with the proofs, the plan, and what identifies every piece of
//! evidence. What was not examined stands first.

mod damaged;
mod evidence;
mod repair;

pub use damaged::{Excerpt, ExcerptRow, PageSheet};
pub use evidence::{BufferShown, WalRun};
pub use repair::{PlanShown, PlannedBytes};

use super::closing::{findings_section, origin, skipped_box};
use super::parts::{Cell, Table, commands, facts, list, note, paragraph, section, strong_box, table};
use super::{Provenance, page};
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::next_step::NextStep;
use crate::cluster::file_digest::FileDigest;
use crate::output::check_text::{page_title, replay_words, start_sentence};
use crate::output::closing::Closing;
use crate::output::documents::JudgedCluster;
use crate::output::markup::Markup;
use crate::output::next_step_text::words_of;
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
    /// What is answered: the exit status says the same.
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
    /// What a repair would do, or why there is no plan.
    pub plan: Result<PlanShown, String>,
    pub journals: FoundJournals,
    /// Files that the answers rest on, each with what identifies it or why it could not be read.
    pub digests: Vec<(String, Result<FileDigest, String>)>,
    /// What was pressed on the screen before the report was made.
    pub pressed: &'a [Pressed],
}

const CONTENTS: [(&str, &str); 11] = [
    ("start", "If the server is started now"),
    ("next", "What to do next"),
    ("state", "State of the cluster"),
    ("pages", "Damaged pages"),
    ("findings", "Findings"),
    ("buffer", "Double write buffer"),
    ("wal", "WAL"),
    ("plan", "Repair plan"),
    ("journals", "Journals of repairs"),
    ("pressed", "What was done on the screen"),
    ("evidence", "Evidence and origin"),
];

/// The class of a verdict: what colour its word has.
const fn verdict_class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Restore | Verdict::Rebuild | Verdict::HealsInReplay => "good",
        Verdict::RestoreUnproven => "doubt",
        Verdict::LosesChanges | Verdict::NoImage => "bad",
        Verdict::Leave => "faint",
    }
}

impl CrashReport<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let data_dir = self.cluster.context.data_dir;
        let title = format!("Crash report: {data_dir}");
        let head = |header: &mut Markup| {
            header.leaf("h1", &[], "Crash report");
            header.element("p", &[], |line| {
                line.text("Data directory ");
                line.leaf("code", &[], data_dir);
            });
            paragraph(header, &format!("Examined {}", self.made.time));
        };
        page(&title, self.cluster.program, &CONTENTS, head, |main| {
            self.write_skipped(main);
            self.write_start(main);
            self.write_steps(main);
            section(main, "state", "State of the cluster", |inner| facts(inner, &self.state));
            self.write_pages(main);
            findings_section(main, self.closing, "check");
            self.write_buffer(main);
            self.write_wal(main);
            self.write_plan(main);
            self.write_journals(main);
            self.write_pressed(main);
            self.write_evidence(main);
        })
    }

    fn called(&self, page: PageId) -> String {
        self.cluster.names.full_name(page.rel).unwrap_or_else(|| page.rel.to_string())
    }

    fn titled(&self, page: PageId) -> String {
        page_title(&self.called(page), page)
    }

    fn write_skipped(&self, main: &mut Markup) {
        if self.is_partial {
            strong_box(main, "bad", "Not examined: most pages", |inner| {
                paragraph(inner, "Only pages that the double write buffer holds were judged (--dwb-only).");
            });
        }
        let meaning = "Nothing in this report says anything about them, and no answer is certain without them.";
        skipped_box(main, self.closing, meaning, "check");
    }

    fn write_start(&self, main: &mut Markup) {
        let report = self.cluster.report;
        let label = |page| self.titled(page);
        section(main, "start", "If the server is started now", |inner| {
            let (class, heading) = match self.answer {
                Answer::Fine => ("good", "A start works and loses nothing"),
                Answer::Wrong => ("bad", "Something is wrong, and it is known what"),
                Answer::Uncertain => ("doubt", "Something was not examined or is not certain"),
            };
            strong_box(inner, class, heading, |answer| {
                paragraph(answer, &start_sentence(&report.replay, &report.outlook, &report.pages, &label));
                note(answer, &format!("Exit status {}.", self.answer.status()));
            });
            let mut known = Vec::new();
            known.extend(replay_words(&report.replay).map(|words| ("replay", words)));
            for (index, doubt) in report.replay.doubts.iter().enumerate() {
                known.push((if index == 0 { "doubts" } else { "" }, doubt.to_string()));
            }
            if !known.is_empty() {
                facts(inner, &known);
            }
            let count = |verdict: Verdict| report.pages.iter().filter(|page| page.verdict.verdict == verdict).count();
            let found =
                Verdict::ALL.into_iter().map(|verdict| (verdict, count(verdict))).filter(|(_, count)| *count > 0);
            let rows: Vec<Vec<Cell>> = found
                .map(|(verdict, count)| {
                    vec![
                        Cell::Mark(verdict.name().to_owned(), verdict_class(verdict)),
                        Cell::number(count),
                        Cell::text(verdict_words(verdict)),
                    ]
                })
                .collect();
            if rows.is_empty() {
                paragraph(inner, "No damaged page was found among those that were examined.");
            } else {
                let caption = format!("Damaged pages by verdict: {} in all", report.pages.len());
                table(inner, &Table { caption, headings: vec!["verdict", "pages", "meaning"], rows });
            }
        });
    }

    fn write_steps(&self, main: &mut Markup) {
        section(main, "next", "What to do next", |inner| {
            inner.element("ol", &[], |steps| {
                for step in self.steps {
                    let words = words_of(step, self.cluster.context);
                    steps.element("li", &[], |item| {
                        item.text(&words.sentence);
                        if !words.items.is_empty() {
                            list(item, words.items.iter().cloned());
                        }
                        commands(item, &words.commands.join("\n"));
                    });
                }
            });
            commands(inner, &self.stand_ins);
        });
    }

    fn write_pressed(&self, main: &mut Markup) {
        section(main, "pressed", "What was done on the screen", |inner| {
            if self.pressed.is_empty() {
                return paragraph(inner, "The report was made by a command, without the screen.");
            }
            let row =
                |pressed: &Pressed| vec![Cell::text(&pressed.time), Cell::text(pressed.view), Cell::code(&pressed.key)];
            let caption = "Keys, in the order in which they were pressed".to_owned();
            let rows = self.pressed.iter().map(row).collect();
            table(inner, &Table { caption, headings: vec!["time (UTC)", "view", "key"], rows });
        });
    }

    fn write_evidence(&self, main: &mut Markup) {
        section(main, "evidence", "Evidence and origin", |inner| {
            let row = |(name, digest): &(String, Result<FileDigest, String>)| match digest {
                Ok(digest) => {
                    vec![Cell::code(name), Cell::number(digest.size_bytes), Cell::Digest(digest.sha256.clone())]
                }
                Err(why) => vec![Cell::code(name), Cell::number("-"), Cell::text(why)],
            };
            if !self.digests.is_empty() {
                let caption = "Files that the answers rest on, as they were when the report was made".to_owned();
                let rows = self.digests.iter().map(row).collect();
                table(inner, &Table { caption, headings: vec!["file", "bytes", "SHA-256"], rows });
            }
            origin(inner, self.made, self.cluster.program, self.answer);
            note(inner, "The same answers for programs: check --format json. Nothing was written into the cluster.");
        });
    }
}

/// What a verdict means, in a few words.
const fn verdict_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Restore => "an image can be put back; nothing is lost",
        Verdict::Rebuild => "a page rebuilt by replay can be put there; nothing is lost",
        Verdict::RestoreUnproven => "an image could be put back; a part of the proof is missing",
        Verdict::LosesChanges => "every image lacks committed changes",
        Verdict::NoImage => "no usable image exists",
        Verdict::HealsInReplay => "recovery overwrites the page; nothing to do",
        Verdict::Leave => "unlogged, about to be removed, or a map page that servers take for empty",
    }
}
