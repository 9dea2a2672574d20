//! What a check works on, grouped by where it comes from.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::analysis::coverage::Coverage;
use crate::analysis::page_links::BrokenLink;
use crate::analysis::staleness::Staleness;
use crate::analysis::verdict::doubt::{Doubt, LsnWitness};
use crate::analysis::verdict::outlook::Obstacle;
use crate::analysis::verdict::proof::Proofs;
use crate::analysis::verdict::replay::Replay;
use crate::analysis::verdict::slots::{SlotRef, Suspicion};
use crate::analysis::verdict::symptom::ImpossibleLinks;
use crate::cluster::donor::Donor;
use crate::cluster::dwb_files::DwbSet;
use crate::cluster::page_source::PageSource;
use crate::cluster::wal::{DeniedFile, UnknownVersionSegment, WalSet};
use crate::cluster::wal_marks::WalMarks;
use crate::parsers::control::ControlFile;
use crate::types::{BlockNumber, Lsn, Oid, PageId, RelFileLocator};

/// What the check works on.
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
    /// What a scan of the relation files found.
    pub scan: ScanInput<'a>,
    /// What is known of relations by name.
    pub names: NameInput<'a>,
    /// Pages that can be built will be: what speaks against that is looked for, as for an image that is safe.
    pub will_rebuild: bool,
    /// What was not examined until now; what the check adds to it is in the report.
    pub coverage: Coverage,
}

/// Which pages are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All, also those that replay needs and that are not there.
    All,
    /// Those that the double write buffer holds.
    DwbPages,
    /// This one, even when it turns out to be in order; slots of others show how far WAL had been written, no more.
    Page(PageId),
}

impl Scope {
    /// True when this page is judged if something speaks against it.
    #[must_use]
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
    /// What recovery will do, as far as it is known before WAL is read.
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
    /// What does not work for want of other files than those with pages and WAL.
    pub obstacle: Option<Obstacle>,
    /// What does not work for want of these pages.
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
    /// What recovery will read: that of `pg_wal`.
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

/// What a scan of the relation files found.
pub struct ScanInput<'a> {
    /// Pages that look wrong.
    pub suspects: BTreeMap<PageId, Suspicion>,
    /// Heap pages of a cluster without checksums that show a transaction from after the redo point.
    pub late_pages: Vec<PageId>,
    /// Blocks of main forks of logged relations that are all zero.
    pub zeroed: Vec<(RelFileLocator, Range<BlockNumber>)>,
    /// Pages that other pages of their index name, and that are all zero or not there, with all who name them.
    pub named: &'a BTreeMap<PageId, Vec<BrokenLink>>,
    /// Pages of a cluster without checksums that name pages of their index that cannot have been.
    pub impossible: &'a BTreeMap<PageId, ImpossibleLinks>,
    /// What all pages say about the end of WAL.
    pub witnesses: Witnesses<'a>,
    /// What replay proves of pages without checksums.
    pub proofs: &'a Proofs,
}

/// What the cluster as a whole says about where WAL ends.
pub enum Witnesses<'a> {
    /// All pages were read.
    Known {
        /// The newest LSN of a sound page of a logged relation, and which page.
        newest: Option<(Lsn, LsnWitness)>,
        /// What else is doubtful about the relation files.
        doubts: Vec<Doubt>,
    },
    /// Only some pages are judged. When an image would be called safe, the whole cluster is asked what speaks against that,
    /// as a check of all of it would: a page from past the end of WAL shows that WAL is missing, whoever asks.
    Ask(&'a dyn Fn() -> (Vec<Doubt>, Coverage)),
}

/// What is known of relations by name.
#[derive(Clone, Copy)]
pub struct NameInput<'a> {
    /// Whether the catalog has a relation with these files, beyond doubt.
    pub exists: &'a dyn Fn(RelFileLocator) -> bool,
    /// What a relation is called: its name, or numbers where it has none.
    pub called: &'a dyn Fn(RelFileLocator) -> String,
    /// OID of the table that a relation is, or that an index or a TOAST table belongs to; `None` where it is not known.
    pub table_of: &'a dyn Fn(RelFileLocator) -> Option<Oid>,
}
