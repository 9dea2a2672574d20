//! The kinds of double write buffers, each with its own rules: which files belong together, which slots are left over
//! from before, what a server that starts would take. A kind is one file here and one below `parsers::dwb`, and one line
//! in `FORMATS`.

pub(crate) mod patch;
mod patch_ring;
mod ring;
pub mod ring_finding;

use std::path::Path;

use super::staleness::{BatchReason, BatchVerdict, Confidence};
use super::trace::{ClusterFacts, FileTrace};
use crate::analysis::skipped::Coverage;
use crate::analysis::start::doubt::Doubt;
use crate::cluster::dwb_files::{ControlPart, DwbFile, DwbSet};
use crate::cluster::page_source::PageSource;
use crate::parsers::dwb::{DwbDirectory, Knowledge};
use crate::report::Finding;
use crate::types::{Lsn, PageId};

/// Every kind that can be read, the most likely first.
pub(crate) static FORMATS: [&dyn DwbFormat; 2] = [&patch::PatchFormat, &ring::RingFormat];

/// One kind of double write buffer: directory, files and rules.
pub(crate) trait DwbFormat: Sync + std::fmt::Debug {
    fn directory(&self) -> &'static dyn DwbDirectory;

    fn judge(&self, input: RingInput<'_>) -> Box<dyn RingJudgement>;
}

#[derive(Debug)]
pub(crate) struct RingInput<'a> {
    pub files: &'a [&'a DwbFile],
    pub traces: Vec<FileTrace>,
    /// Its control file, where the directory was read.
    pub control: Option<&'a ControlPart>,
    pub is_unread: bool,
    pub facts: &'a ClusterFacts,
}

/// Judgement of the slots of one buffer. Files are counted within it, from 0.
pub(crate) trait RingJudgement: std::fmt::Debug + Send + Sync {
    /// Answer for slot `index` of a file, of a slot that was written and can be trusted.
    fn verdict(&self, file: usize, index: u64) -> Option<(BatchVerdict, BatchReason)>;

    /// Part that each slot of each file belongs to.
    fn split(&self) -> Vec<Vec<BatchPart>>;

    /// The line between before and after the last completed checkpoint, if slots are distinguished by one.
    fn horizon(&self) -> Option<Horizon>;

    /// Doubts about every image of the buffer.
    fn doubts(&self) -> Vec<Doubt>;

    /// The slot that startup chooses for a page, among all slots with the page: its index in `held`.
    fn server_choice(&self, held: &[HeldSlot]) -> Option<usize>;

    /// A server that starts in mode `double_writes` writes its images before it replays anything, over every page that fails its checks.
    fn applies_first(&self) -> bool {
        false
    }

    /// A server does not start, in mode `double_writes` or another.
    fn fails_at_start(&self, _double_writes: bool) -> bool {
        false
    }

    /// So few files are unfinished that a crash can have left them so, and no page needs them.
    fn is_unfinished(&self) -> bool {
        false
    }

    /// Findings about the buffer as a whole.
    fn findings(&self, files: &[&DwbFile], facts: &ClusterFacts) -> Vec<Finding>;

    /// Facts about the buffer as a whole that its files do not show one by one.
    fn summary(&self) -> Option<RingSummary>;

    /// Writes of startup into data files before recovery, for a kind that does so. Pages of
    /// `page_bytes` are read; unreadable ones goes to `coverage`.
    fn start_writes(&self, _pages: &dyn PageSource, _page_bytes: usize, _coverage: &mut Coverage) -> StartWrites {
        StartWrites::default()
    }
}

/// Writes of startup into data files.
#[derive(Debug, Default)]
pub struct StartWrites {
    /// How many pages, and which.
    pub finding: Option<Finding>,
    /// Whole pages over which it writes a newer image, with the LSN of that.
    pub newer: Vec<(PageId, Lsn)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldSlot {
    /// Index of its file.
    pub file: usize,
    /// Index of the slot in the file.
    pub index: u64,
    pub slot_lsn: Lsn,
    pub slot_id: u32,
    pub is_sound: bool,
}

/// Part of the slots with one verdict, and how sure its borders are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPart {
    /// Number of the part.
    pub number: usize,
    /// How sure it is that these slots were written together.
    pub confidence: Confidence,
}

impl Default for BatchPart {
    fn default() -> Self {
        Self { number: 0, confidence: Confidence::Proven }
    }
}

/// The line between before and after the last completed checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// Slots with a higher LSN were written after it.
    pub lsn: Lsn,
    /// Taken from `pg_control` rather than from a file header.
    pub from_control: bool,
}

/// Facts about a buffer as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingSummary {
    /// Which kind it is.
    pub format: &'static str,
    /// Where its description comes from.
    pub knowledge: Knowledge,
    /// The facts by name, in the order of reports.
    pub facts: Vec<(&'static str, RingFact)>,
}

/// The value of one fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingFact {
    /// A count or a number that stands on disk.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// A stable name.
    Code(&'static str),
    /// Not known.
    Unknown,
}

/// The directories of all kinds.
pub fn directories() -> Vec<&'static dyn DwbDirectory> {
    FORMATS.into_iter().map(DwbFormat::directory).collect()
}

/// Opens the DWB files of a data directory: empty without files.
pub fn open_buffer(data_dir: &Path, block_size_hint: Option<u32>) -> DwbSet {
    DwbSet::of_data_dir(data_dir, &directories(), block_size_hint)
}
