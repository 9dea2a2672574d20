//! Input of a check, grouped by source.
//! Also here: progress and interruption of a check.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};

use strum::EnumIter;

use crate::analysis::changes::needed::Suspicion;
use crate::analysis::dwb::slots::SlotRef;
use crate::analysis::dwb::staleness::Staleness;
use crate::analysis::pages::page_links::BrokenLink;
use crate::analysis::skipped::Coverage;
use crate::analysis::start::cluster_condition::Obstacle;
use crate::analysis::start::doubt::{Doubt, LsnWitness};
use crate::analysis::start::replay::Replay;
use crate::analysis::verdict::proof::Proofs;
use crate::analysis::verdict::symptom::ImpossibleLinks;
use crate::cluster::donor::Donor;
use crate::cluster::dwb_files::DwbSet;
use crate::cluster::page_source::PageSource;
use crate::cluster::wal::{DeniedFile, UnknownVersionSegment, WalSet};
use crate::cluster::wal_marks::WalMarks;
use crate::parsers::control::ControlFile;
use crate::types::{BlockNumber, Lsn, Oid, PageId, RelFileLocator};

/// Input of a check.
pub struct CheckInput<'a> {
    /// Threads.
    pub jobs: usize,
    /// Which pages are judged.
    pub scope: Scope,
    /// The cluster as a whole.
    pub cluster: ClusterInput<'a>,
    /// The double write buffer.
    pub dwb: DwbInput<'a>,
    /// WAL.
    pub wal: WalInput<'a>,
    /// Older copies of the cluster.
    pub donors: &'a mut [Donor],
    /// Result of scanning the relation files.
    pub scan: ScanInput<'a>,
    /// Names of relations.
    pub names: NameInput<'a>,
    /// Pages that can be rebuilt will be: objections are looked for, as for an image that is safe.
    pub will_rebuild: bool,
    /// Skipped parts so far; the report has those that the check adds.
    pub coverage: Coverage,
}

/// Which pages are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All, also missing ones that recovery needs.
    All,
    /// Those that the double write buffer holds.
    DwbPages,
    /// This one, even when it turns out to be in order; slots of others show how far WAL had been written, no more.
    Page(PageId),
}

impl Scope {
    /// True when this page is judged if it is a suspect.
    pub fn takes(self, page: PageId) -> bool {
        match self {
            Self::All | Self::DwbPages => true,
            Self::Page(only) => only == page,
        }
    }
}

/// The cluster as a whole.
#[derive(Clone, Copy)]
pub struct ClusterInput<'a> {
    /// The control file, if its CRC is right.
    pub control: Option<&'a ControlFile>,
    /// Pages have checksums that are enforced.
    pub has_checksums: bool,
    /// The prediction of recovery, as far as it is known before WAL is read.
    pub replay: &'a Replay,
    /// Lowest number that can be a WAL address.
    pub lowest_wal_lsn: Lsn,
    /// The pages.
    pub pages: &'a dyn PageSource,
    /// Bytes of a page.
    pub block_size: usize,
    /// A server may be running on the directory.
    pub may_be_running: bool,
    /// The configuration says that the double write buffer is used.
    pub uses_dwb: bool,
    /// It writes images over damaged pages before it replays anything.
    pub applies_first: bool,
    /// Function that fails without files other than those with pages and WAL.
    pub obstacle: Option<Obstacle>,
    /// Functions that fail without these pages.
    pub of_pages: &'a [(PageId, Obstacle)],
}

/// The double write buffer.
pub struct DwbInput<'a> {
    /// Its files.
    pub set: &'a DwbSet,
    /// Judgement of its batches.
    pub staleness: &'a Staleness,
    /// All usable slots, sorted. Those compared before are not compared again.
    pub slots: Vec<SlotRef>,
}

/// WAL.
#[derive(Clone, Copy)]
pub struct WalInput<'a> {
    /// WAL that recovery will read: that of `pg_wal`.
    pub own: Option<&'a WalSet>,
    /// Segments of `pg_wal` in versions that are not read here.
    pub unknown_versions: &'a [UnknownVersionSegment],
    /// Files of `pg_wal` that the system does not let this user open.
    pub denied: &'a [DeniedFile],
    /// Names that show how far WAL had been written.
    pub marks: &'a WalMarks,
    /// WAL from elsewhere, together with it.
    pub all: Option<&'a WalSet>,
}

/// Result of scanning the relation files.
pub struct ScanInput<'a> {
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
}

/// Evidence from the whole cluster about the end of WAL.
pub enum Witnesses<'a> {
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

/// Names of relations.
#[derive(Clone, Copy)]
pub struct NameInput<'a> {
    /// Whether the catalog has a relation with these files, beyond doubt.
    pub exists: &'a dyn Fn(RelFileLocator) -> bool,
    /// Label of a relation: its name, or numbers without one.
    pub called: &'a dyn Fn(RelFileLocator) -> String,
    /// OID of the table that a relation is, or that an index or a TOAST table belongs to; `None` where it is not known.
    pub table_of: &'a dyn Fn(RelFileLocator) -> Option<Oid>,
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
pub type StageWatch<'a> = &'a (dyn Fn(Stage, u64) -> ControlFlow<()> + Sync);

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
