//! What a check is given in addition to the case.
//! Also here: progress and interruption of a check.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};

use strum::EnumIter;

use crate::analysis::changes::needed::Suspicion;
use crate::analysis::dwb::slots::SlotRef;
use crate::analysis::pages::page_links::BrokenLink;
use crate::analysis::skipped::Coverage;
use crate::analysis::start::cluster_condition::Obstacle;
use crate::analysis::start::doubt::{Doubt, LsnWitness};
use crate::analysis::verdict::rebuilt_proof::Proofs;
use crate::analysis::verdict::symptom::ImpossibleLinks;
use crate::types::{BlockNumber, Lsn, PageId, RelFileLocator};

/// Results of earlier stages.
pub(crate) struct Found<'a> {
    /// Pages that look wrong.
    pub suspects: BTreeMap<PageId, Suspicion>,
    /// Blocks of main forks of logged relations that are all zero.
    pub zeroed: Vec<(RelFileLocator, Range<BlockNumber>)>,
    /// Pages that other pages of their index name, and that are all zero or not there, with all who name them.
    pub named: &'a BTreeMap<PageId, Vec<BrokenLink>>,
    /// Pages of a cluster without checksums that name pages of their index that cannot have been.
    pub impossible: &'a BTreeMap<PageId, ImpossibleLinks>,
    /// Evidence from all pages about the end of WAL.
    pub witnesses: Witnesses<'a>,
    /// Proofs by replay of pages without checksums.
    pub proofs: &'a Proofs,
    /// All usable slots, sorted. Those compared before are not compared again.
    pub slots: Vec<SlotRef>,
    /// Function that fails without files other than those with pages and WAL.
    pub obstacle: Option<Obstacle>,
    /// Functions that fail without these pages.
    pub of_pages: &'a [(PageId, Obstacle)],
    /// Skipped parts so far; the report has those that the check adds.
    pub coverage: Coverage,
}

/// Evidence from the whole cluster about the end of WAL.
pub(crate) enum Witnesses<'a> {
    /// All pages were read.
    Known {
        /// The newest LSN of a sound page of a logged relation, and which page.
        newest: Option<(Lsn, LsnWitness)>,
        /// More doubts about the relation files.
        doubts: Vec<Doubt>,
    },
    /// Only some pages are judged. Before an image is called safe, the whole cluster is searched for objections,
    /// as a check of all of it would: a page from past the end of WAL shows that WAL is missing, whoever asks.
    Ask(&'a dyn Fn() -> (Vec<Doubt>, Coverage)),
}

/// Stages of a check, for progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter)]
pub enum Stage {
    /// The double write buffer is read and judged by itself; bytes of images.
    Read,
    /// Every page of every relation is read; bytes.
    Scan,
    /// Slots are compared with their pages; bytes of images.
    Slots,
    /// WAL is read; bytes.
    Wal,
    /// WAL is read to prove pages by replay; bytes.
    Proof,
    /// Damaged pages are judged; pages.
    Pages,
    /// WAL is read again to build pages; bytes.
    Replay,
}

/// Is given the stage and how far it is; breaks the check off. Called from all threads.
pub(crate) type StageWatch<'a> = &'a (dyn Fn(Stage, u64) -> ControlFlow<()> + Sync);

/// Reports the progress and remembers an interruption: after one at any stage the result is partial.
pub(super) struct CheckProgress<'a> {
    watch: StageWatch<'a>,
    broken_off: AtomicBool,
}

impl<'a> CheckProgress<'a> {
    /// `broken_off`: an earlier part of the work was interrupted.
    pub(super) const fn new(watch: StageWatch<'a>, broken_off: bool) -> Self {
        Self { watch, broken_off: AtomicBool::new(broken_off) }
    }

    /// `done` of this stage are done.
    pub(super) fn at(&self, stage: Stage, done: u64) -> ControlFlow<()> {
        let flow = (self.watch)(stage, done);
        self.broken_off.fetch_or(flow.is_break(), Ordering::Relaxed);
        flow
    }

    pub(super) fn is_broken_off(&self) -> bool {
        self.broken_off.load(Ordering::Relaxed)
    }
}
