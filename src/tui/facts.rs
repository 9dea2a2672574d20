//! What workers hand over: finished facts, ready to be shown.

use std::collections::BTreeMap;

use crate::analysis::slot_row::SlotRow;
use crate::analysis::staleness::{BatchReason, BatchVerdict};
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::wal::interval::Interval;
use crate::analysis::wal::tally::Tally;
use crate::output::json::BatchJson;
use crate::output::page_text::Version;
use crate::repair::plan::Plan;
use crate::types::{PageId, RelFileLocator};

/// Everything that a check of the cluster told.
#[derive(Debug, Default)]
pub struct Survey {
    /// What happened to the cluster, in a sentence.
    pub state: String,
    /// Whether pages carry checksums, in words.
    pub checksums: String,
    /// Where replay begins and ends, in words.
    pub replay: String,
    /// What a start of the server brings.
    pub start: String,
    /// What keeps that from being certain.
    pub doubts: Vec<String>,
    /// What to do next.
    pub next: String,
    /// What the page scan looked at, if it ran.
    pub scanned: Option<String>,
    /// Damaged pages, by identity.
    pub pages: Vec<PageLine>,
    /// Problems and notes, in words, and whether each is a problem.
    pub findings: Vec<(bool, String)>,
    /// What was not looked at, in words.
    pub skipped: Vec<String>,
    /// Names of the relations that slots and pages are of.
    pub names: BTreeMap<RelFileLocator, String>,
    /// Names of the files of the double write buffer.
    pub files: Vec<String>,
    /// Every slot, by file and place.
    pub slots: Vec<SlotRow>,
    /// Batches of the double write buffer.
    pub batches: Vec<BatchLine>,
    /// How many images stand in which relation to their pages, in words.
    pub compared: Option<String>,
    /// Exit status that `check` would have.
    pub exit_status: u8,
    /// The document that `check --format json` would print.
    pub json: String,
}

/// A batch as a line of a list.
#[derive(Clone, Debug)]
pub struct BatchLine {
    /// What `batches` says about it.
    pub json: BatchJson,
    /// Verdict of its slots.
    pub verdict: BatchVerdict,
    /// First slot: file (place in the set) and index.
    pub first: (usize, u64),
    /// Last slot.
    pub last: (usize, u64),
}

impl BatchLine {
    /// Whether a slot belongs to it. Batches of one verdict do not overlap.
    #[must_use]
    pub fn holds(&self, row: &SlotRow) -> bool {
        let place = (row.file, row.index);
        row.batch.is_some_and(|(verdict, reason)| verdict == self.verdict && reason != BatchReason::Unreliable)
            && self.first <= place
            && place <= self.last
    }
}

impl Survey {
    /// The name of a relation, else its numbers.
    #[must_use]
    pub fn relation(&self, rel: RelFileLocator) -> String {
        self.names.get(&rel).cloned().unwrap_or_else(|| rel.to_string())
    }

    /// The damaged page with this identity.
    #[must_use]
    pub fn damaged(&self, page: PageId) -> Option<&PageLine> {
        self.pages.binary_search_by_key(&page, |line| line.page).ok().and_then(|at| self.pages.get(at))
    }
}

/// A damaged page as a line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLine {
    /// The page.
    pub page: PageId,
    /// Its relation.
    pub relation: String,
    /// Fork and block.
    pub block: String,
    /// What it is on disk.
    pub disk: &'static str,
    /// How sure that is.
    pub strength: &'static str,
    /// How it was torn.
    pub tear: String,
    /// What to do about it.
    pub verdict: Verdict,
    /// The image that would be put back.
    pub image: String,
    /// How the command line calls it: path of the file, a colon, the block.
    pub argument: String,
}

/// One page with all its images.
pub struct PageSheet {
    /// The page.
    pub page: PageId,
    /// How it is called.
    pub title: String,
    /// How the command line calls it.
    pub argument: String,
    /// The verdict in words; `None` for a page that was not judged, because nothing is wrong with it.
    pub verdict: Option<Verdict>,
    /// With no verdict: that nothing is wrong is proven.
    pub is_proven: bool,
    /// For each sector: letters of the images that it equals.
    pub sectors: Vec<String>,
    /// The disk first, then the images.
    pub versions: Vec<Version>,
    /// What each image is, by its letter.
    pub legend: Vec<String>,
    /// Evidence and verdict, in lines.
    pub evidence: Vec<String>,
    /// Header fields and line pointers side by side, in lines.
    pub headers: Vec<String>,
    /// Records of the page in WAL, in lines.
    pub history: Vec<String>,
    /// The document that `page --format json` would print.
    pub json: String,
}

/// Full-page images in WAL.
#[derive(Clone, Debug, Default)]
pub struct WalSurvey {
    /// Checkpoint intervals in order.
    pub intervals: Vec<Interval>,
    /// All of it.
    pub total: Tally,
    /// Relations with the most image bytes, as soon as they are counted.
    pub relations: Option<Vec<(String, Tally)>>,
    /// Why images were written, as soon as that is counted.
    pub causes: Option<Vec<(String, Tally)>>,
    /// Problems and what was not looked at.
    pub notes: Vec<WalNote>,
}

/// Something to be said of WAL besides its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalNote {
    /// Something is wrong.
    Problem(String),
    /// Something was not looked at.
    NotExamined(String),
}

impl std::fmt::Display for WalNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Problem(words) => write!(f, "problem: {words}"),
            Self::NotExamined(words) => write!(f, "not looked at: {words}"),
        }
    }
}

/// A repair plan and what stands in its way.
#[derive(Debug)]
pub struct PlanSheet {
    /// The pages that it was asked for; none: every proven one.
    pub pages: Vec<PageId>,
    /// The plan.
    pub plan: Plan,
    /// Reasons not to write.
    pub blockers: Vec<String>,
    /// The command that shows the same.
    pub command: String,
}

/// What was written, and how to take it back.
#[derive(Debug)]
pub struct AppliedSheet {
    /// Pages that were written.
    pub written: usize,
    /// Directory of the journal.
    pub journal: String,
    /// The command that takes it back.
    pub undo: String,
}

/// How far some work is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub what: &'static str,
    /// Bytes done.
    pub done: u64,
    /// Bytes in all; 0: not known.
    pub total: u64,
}
