//! The crash report: all that a check says of a cluster, with the proofs, the plan, and what identifies every piece of
//! evidence. What was not examined stands first.
//! Also here: where images come from: the double write buffer, and WAL; planned and earlier writes of
//! repairs.

mod damaged;

pub use damaged::{Excerpt, PageSheet};

use super::{Provenance, findings_section, more, origin, pressed_section, skipped_box};
use crate::analysis::dwb::format::{RingFact, RingSummary};
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::facts::Tone;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::next_step::NextStep;
use crate::cluster::open::FileDigest;
use crate::output::check_text::{page_title, replay_words};
use crate::output::closing::Closing;
use crate::output::document::{Blocks, Document, ListKind, Span};
use crate::output::documents::JudgedCluster;
use crate::output::json::{BatchJson, FileJson};
use crate::output::next_step_text::{Words, all_words};
use crate::output::start_words::StartWords;
use crate::repair::blocker::Blocker;
use crate::repair::journal_seen::{FoundJournals, JournalState};
use crate::repair::plan::{LeftPage, Plan, PlanPage, PlanStep};
use crate::types::PageId;

/// A key that was pressed on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pressed {
    /// When: ISO 8601 in UTC.
    pub time: String,
    /// The view that was open.
    pub view: &'static str,
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
pub(super) const fn tone_class(tone: Tone) -> &'static str {
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
            pressed_section(main, self.pressed);
            self.write_evidence(main);
        });
        let title = format!("Crash report: {data_dir}");
        Document { title, program: self.cluster.program, heading: "Crash report", lead, body }
    }

    fn called(&self, page: PageId) -> String {
        self.cluster.names.called(page.rel)
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
                let start = StartWords::of(&report.replay, &report.outlook, &report.pages, &label);
                answer.paragraph(start.with(self.cluster.problems).line());
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

/// Files of the buffer that are listed.
const MAX_FILES: usize = 200;

const MAX_BATCHES: usize = 100;

const MAX_RUNS: usize = 100;

/// The double write buffer.
#[derive(Debug, Default)]
pub struct BufferShown {
    pub rings: Vec<RingSummary>,
    pub files: Vec<FileJson>,
    /// Its batches; `None`: unknown, because reading was interrupted.
    pub batches: Option<Vec<BatchJson>>,
    /// How images compare with their pages.
    pub compared: Option<String>,
}

/// WAL segments that follow each other without a gap.
#[derive(Clone, Debug)]
pub struct WalRun {
    /// Name of the first segment.
    pub first: String,
    pub last: String,
    pub segments: usize,
    /// Where the first one begins.
    pub from: String,
    /// Where the last one ends.
    pub to: String,
    /// Where the first one is.
    pub found_at: String,
}

impl CrashReport<'_> {
    fn write_buffer(&self, main: &mut Blocks) {
        let BufferShown { rings, files, batches, compared } = &self.buffer;
        main.section("buffer", "Double write buffer", |inner| {
            if files.is_empty() {
                return inner.paragraph("There are no files of one that could be read.");
            }
            let sum = |of: fn(&FileJson) -> u64| files.iter().map(of).sum::<u64>();
            let mut known = vec![
                ("slots", format!("{}, of which {} were ever written", sum(|file| file.slots), sum(|file| file.used))),
                (
                    "slot CRC",
                    format!(
                        "{} good, {} bad, {} unverifiable",
                        sum(|file| file.good),
                        sum(|file| file.bad),
                        sum(|file| file.unverifiable)
                    ),
                ),
                (
                    "batch",
                    format!(
                        "{} current, {} stale, {} undecided",
                        sum(|file| file.current),
                        sum(|file| file.stale),
                        sum(|file| file.undecided)
                    ),
                ),
            ];
            known.extend(compared.clone().map(|words| ("images and pages", words)));
            inner.facts(known);
            for ring in rings {
                let value = |fact: &RingFact| match fact {
                    RingFact::Number(number) => number.to_string(),
                    RingFact::Flag(true) => "yes".to_owned(),
                    RingFact::Flag(false) => "no".to_owned(),
                    RingFact::Code(code) => code.replace('_', " "),
                    RingFact::Unknown => "unknown".to_owned(),
                };
                inner.facts(ring.facts.iter().map(|(name, fact)| (name.replace('_', " "), value(fact))));
            }
            write_files(inner, files);
            more(inner, files.len(), MAX_FILES, "info");
            match batches {
                Some(batches) if !batches.is_empty() => {
                    write_batches(inner, batches);
                    more(inner, batches.len(), MAX_BATCHES, "batches");
                }
                Some(_) => {}
                None => inner.paragraph("Batches were not determined: reading was interrupted."),
            }
        });
    }

    fn write_wal(&self, main: &mut Blocks) {
        let replay = &self.cluster.report.replay;
        main.section("wal", "WAL", |inner| {
            let unknown = || "unknown".to_owned();
            let known = [
                ("recovery", replay.recovery.name().replace('_', " ")),
                ("recovery begins at", replay.redo_lsn.map_or_else(unknown, |lsn| lsn.to_string())),
                ("valid WAL ends at", replay.end_lsn.map_or_else(unknown, |lsn| lsn.to_string())),
            ];
            inner.facts(known);
            if self.wal.is_empty() {
                return inner.paragraph("No WAL could be read.");
            }
            let row = |run: &WalRun| {
                [
                    Span::code(&run.first),
                    Span::code(&run.last),
                    Span::number(run.segments),
                    Span::code(&run.from),
                    Span::code(&run.to),
                    Span::code(&run.found_at),
                ]
            };
            let caption = match self.wal.len() {
                1 => "Existing segments, without a gap",
                _ => "Existing segments; between two rows some are missing",
            };
            let headings = ["first segment", "last segment", "segments", "from", "to", "the first one is"];
            inner.table(caption, headings, self.wal.iter().take(MAX_RUNS).map(row));
            more(inner, self.wal.len(), MAX_RUNS, "pg_walfpi verify");
        });
    }
}

fn write_files(parent: &mut Blocks, files: &[FileJson]) {
    let row = |file: &FileJson| {
        let unknown = if file.header == "good" { "-" } else { "header bad" };
        [
            Span::code(&file.file),
            Span::text(if file.layout_by == "guess" { format!("{}?", file.layout) } else { file.layout.to_owned() }),
            Span::text(file.batch_id.as_deref().unwrap_or("-")),
            Span::code(file.checkpoint_lsn.as_deref().unwrap_or(unknown)),
            Span::number(file.slots),
            Span::number(file.used),
            Span::number(if file.unverifiable > 0 { "?".to_owned() } else { file.bad.to_string() }),
            Span::number(file.current),
            Span::number(file.stale),
            Span::number(file.undecided),
        ]
    };
    let headings = ["file", "layout", "batch", "reset at", "slots", "used", "bad", "current", "stale", "undecided"];
    parent.table("Files", headings, files.iter().take(MAX_FILES).map(row));
}

fn write_batches(parent: &mut Blocks, batches: &[BatchJson]) {
    let row = |batch: &BatchJson| {
        let class = match batch.batch {
            "current" => "good",
            "stale" => "faint",
            _ => "doubt",
        };
        let rest = if batch.relations > batch.top_relations.len() { ", …" } else { "" };
        [
            Span::Mark(batch.batch.to_owned(), class),
            Span::text(batch.confidence),
            Span::number(batch.slots),
            Span::code(&batch.first_slot),
            Span::code(&batch.last_slot),
            Span::code(&batch.lowest_lsn),
            Span::code(&batch.highest_lsn),
            Span::text(format!("{}{rest}", batch.top_names.join(", "))),
        ]
    };
    parent.table(
        "Batches: what was written between two resets of the buffer",
        ["batch", "confidence", "slots", "first", "last", "lowest LSN", "highest LSN", "relations"],
        batches.iter().take(MAX_BATCHES).map(row),
    );
}

const MAX_STEPS: usize = 1000;

/// Pages that are left as they are and named one by one.
const MAX_LEFT: usize = 1000;

/// A plan that was not applied.
#[derive(Debug)]
pub struct PlanShown {
    pub plan: Plan,
    pub blockers: Vec<Blocker>,
    /// Bytes of each step, as far as they were computed.
    pub bytes: Vec<PlannedBytes>,
}

/// Identity of the bytes of a page before and after a step.
#[derive(Clone, Debug)]
pub struct PlannedBytes {
    /// SHA-256 of the page as it is, or why it is not known.
    pub before: Result<String, String>,
    /// SHA-256 of the page as it would be written, or why it is not known.
    pub after: Result<String, String>,
}

impl CrashReport<'_> {
    fn write_plan(&self, main: &mut Blocks) {
        main.section("plan", "Repair plan", |inner| {
            let PlanShown { plan, blockers, bytes } = match &self.plan {
                Ok(shown) => shown,
                Err(why) => return inner.paragraph(format!("There is no plan: {why}")),
            };
            inner.paragraph("The plan of the command repair. Nothing was written.");
            if !blockers.is_empty() {
                inner.facts(blockers.iter().map(|blocker| ("blocked now by", blocker.to_string())));
            }
            if plan.steps.is_empty() {
                inner.paragraph("Nothing would be written.");
            } else {
                write_step_table(inner, &plan.steps, bytes);
                more(inner, plan.steps.len(), MAX_STEPS, "repair");
                if bytes.len() < plan.steps.len() {
                    let (known, all) = (bytes.len(), plan.steps.len());
                    inner.note(format!("SHA-256 of the first {known} of {all} pages; the plan has a CRC-32C of each."));
                }
            }
            for step in plan.steps.iter().take(MAX_STEPS).filter(|step| !step.warnings.is_empty()) {
                let label = page_label(&step.page, step.relation.as_deref());
                inner.note(format!("{label} may be wrong or lose something: {}", step.warnings.join("; ")));
            }
            if !plan.left.is_empty() {
                let row = |left: &LeftPage| {
                    [
                        Span::Text(page_label(&left.page, left.relation.as_deref())),
                        Span::text(&left.verdict),
                        Span::Text(left.reasons.join("; ")),
                    ]
                };
                let caption = "Damaged pages that would be left as they are";
                inner.table(caption, ["page", "verdict", "why"], plan.left.iter().take(MAX_LEFT).map(row));
                more(inner, plan.left.len(), MAX_LEFT, "repair");
            }
        });
    }

    fn write_journals(&self, main: &mut Blocks) {
        main.section("journals", "Journals of repairs", |inner| {
            let journals = match &self.journals.journals {
                Ok(journals) => journals,
                Err(why) => return inner.paragraph(format!("Not checked: {why}")),
            };
            if journals.is_empty() {
                return inner
                    .paragraph("No journal is next to the data directory. Journals elsewhere are unknown here.");
            }
            for seen in journals {
                let directory = seen.directory.display().to_string();
                let mut known = vec![("journal", directory)];
                match &seen.state {
                    Ok(state) => known.extend(self.journal_facts(state)),
                    Err(why) => known.push(("not checked", why.to_string())),
                }
                inner.facts(known);
            }
            if self.journals.more > 0 {
                inner.paragraph(format!("{} older ones exist and were not checked.", self.journals.more));
            }
        });
    }

    fn journal_facts(&self, state: &JournalState) -> Vec<(&'static str, String)> {
        let JournalState { system_identifier, began, pages, compared, .. } = state;
        let began = began.clone().unwrap_or_else(|| "unknown".to_owned());
        let mut known = vec![("repair began", began), ("pages in it", pages.to_string())];
        if *compared == 0 && *pages > 0 {
            known.push((
                "pages now",
                format!(
                    "not compared: it belongs to another directory or cluster (its system identifier is \
                     {system_identifier}), or the identity of this cluster is unknown"
                ),
            ));
            return known;
        }
        known.push(("pages now", state.to_string()));
        known
    }
}

fn page_label(page: &PlanPage, relation: Option<&str>) -> String {
    let fork = if page.fork == "main" { String::new() } else { format!(" {}", page.fork) };
    let rel = relation.map_or_else(|| format!("{}/{}/{}", page.spc_oid, page.db_oid, page.rel_number), str::to_owned);
    format!("{rel}{fork} block {}", page.block)
}

fn write_step_table(parent: &mut Blocks, steps: &[PlanStep], bytes: &[PlannedBytes]) {
    let digest = |digest: Option<&Result<String, String>>, crc: &str| match digest {
        Some(Ok(sum)) => Span::Digest(sum.clone()),
        Some(Err(why)) => Span::text(why),
        None => Span::Code(format!("CRC-32C {crc}")),
    };
    let row = |(index, step): (usize, &PlanStep)| {
        let planned = bytes.get(index);
        [
            Span::Text(page_label(&step.page, step.relation.as_deref())),
            Span::Text(step.image.to_string()),
            Span::code(&step.page_lsn),
            digest(planned.map(|planned| &planned.before), &step.before_crc),
            digest(planned.map(|planned| &planned.after), &step.after_crc),
        ]
    };
    parent.table(
        format!("Pages that would be written: {}", steps.len()),
        ["page", "image", "LSN", "SHA-256 as it is", "SHA-256 as it would be"],
        steps.iter().take(MAX_STEPS).enumerate().map(row),
    );
}
