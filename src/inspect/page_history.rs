//! History of chosen pages: in the WAL of the data directory, and in other WAL that was given.

use std::path::PathBuf;

use super::cluster_wal::open_donors;
use super::error::{InspectError, open_data_dir};
use super::wal::request::{WalRequest, WatchWal};
use super::wal::source::WalSource;
use crate::analysis::changes::events::{BlockEvent, FileEvent};
use crate::analysis::changes::history::{Interest, WalHistory};
use crate::analysis::changes::prepared_xacts::{XactEnds, XactOutcome};
use crate::analysis::in_order::all_cores;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::analysis::start::missing_wal::WalNames;
use crate::analysis::start::replay::Replay;
use crate::analysis::verdict::page_history::{HistoryRow, Mark, WalGap, history_rows};
use crate::cluster::data_dir::DataDir;
use crate::cluster::donor::Donor;
use crate::cluster::names::RelationNames;
use crate::cluster::page_source::{PageRead, PageSource, RelationPages, RelationPaths};
use crate::cluster::wal::WalSet;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::version::Major;
use crate::report::Finding;
use crate::types::{Geometry, Lsn, PageId, TimelineId};

/// Which pages, and where WAL is.
#[derive(Clone, Debug)]
pub struct HistoryRequest {
    /// Data directory of a stopped server.
    pub data_dir: PathBuf,
    /// The pages.
    pub pages: Vec<PageId>,
    /// WAL from elsewhere: directories, segments, archives, patterns.
    pub wal: Vec<PathBuf>,
    /// Older copies of the cluster, whose WAL is read too.
    pub donors: Vec<PathBuf>,
    /// Threads that read.
    pub jobs: usize,
}

impl HistoryRequest {
    /// A page of a cluster, with the WAL of its data directory and a thread for every core.
    pub fn of(data_dir: impl Into<PathBuf>, page: PageId) -> Self {
        let (data_dir, pages) = (data_dir.into(), vec![page]);
        Self { data_dir, pages, wal: Vec::new(), donors: Vec::new(), jobs: all_cores() }
    }
}

/// History of some pages.
pub struct PageHistory {
    /// The pages.
    pub pages: Vec<PageId>,
    /// Version of the WAL.
    pub major: Option<Major>,
    /// Stretches of WAL that were not read.
    pub gaps: Vec<WalGap>,
    /// Where replay begins, and the last checkpoint.
    pub marks: Vec<(Mark, Lsn)>,
    /// Findings about WAL.
    pub findings: Vec<Finding>,
    /// Coverage.
    pub coverage: Coverage,
    pub(super) directory: DataDir,
    pub(super) set: WalSet,
    pub(super) history: WalHistory,
    geometry: Geometry,
    paths: RelationPaths,
    names: RelationNames,
}

impl PageHistory {
    /// Everything about the page at `index` in the order of WAL.
    pub fn rows(&self, index: usize) -> Vec<HistoryRow<'_>> {
        let page = self.pages.get(index);
        page.map_or_else(Vec::new, |page| history_rows(&self.history, (index, *page), &self.gaps, &self.marks))
    }

    /// The records that touch the page at `index`, by LSN.
    pub fn events(&self, index: usize) -> &[BlockEvent] {
        self.history.events(index)
    }

    /// True when all records between the two addresses are known and none changes the files that hold the page.
    pub(crate) fn is_quiet_between(&self, page: PageId, from: Lsn, to: Lsn) -> bool {
        let is_between = |event: &FileEvent| event.end_lsn > from && event.start_lsn < to;
        self.history.covers(from, to) && !self.history.file_events(page).any(is_between)
    }

    /// How the transaction of a record ended, if WAL says so.
    pub fn outcome(&self, event: &BlockEvent) -> Option<&XactOutcome> {
        self.history.ends.as_ref()?.of(event)
    }

    /// How a page's relation is called: by name where there is one, else by its numbers.
    pub fn called(&self, page: PageId) -> String {
        self.names.called(page.rel)
    }

    /// Name of a page's relation, where it is known.
    pub(crate) fn relation_name(&self, page: PageId) -> Option<String> {
        self.names.full_name(page.rel)
    }

    /// Name of the database of a page, where it is known.
    pub(crate) fn database_name(&self, page: PageId) -> Option<&str> {
        self.names.database_of(page.rel)
    }

    /// The timeline that wrote the WAL at `lsn`.
    pub(crate) fn timeline_at(&self, lsn: Lsn) -> TimelineId {
        self.set.history().map_or(self.set.timeline(), |history| history.tli_at(lsn))
    }

    /// All directories of the cluster.
    pub(crate) fn own_directories(&self) -> Result<Vec<PathBuf>, InspectError> {
        self.directory.own_directories().map_err(InspectError::OwnDirectories)
    }

    /// Path of the file that holds a page, relative to the data directory.
    pub fn path_of(&self, page: PageId) -> String {
        self.paths.path_and_block(page).0.display().to_string()
    }

    /// The page on disk, or what there is where it should be.
    ///
    /// # Errors
    /// The error if the page cannot be read.
    pub fn on_disk(&self, page: PageId) -> Result<Vec<u8>, PageRead> {
        let mut bytes = vec![0; self.block_size()];
        let pages = RelationPages::new(self.directory.root(), self.paths.clone());
        match pages.read_page(page, &mut bytes) {
            Ok(PageRead::Whole) => Ok(bytes),
            Ok(absent) => Err(absent),
            // One that cannot be read is there.
            Err(_) => Err(PageRead::Partial { have_bytes: 0 }),
        }
    }

    /// Bytes of a page.
    pub fn block_size(&self) -> usize {
        usize::try_from(self.geometry.block_size).unwrap_or_default()
    }

    /// Refuses a page that neither WAL nor a file knows of.
    fn demand(&self, index: usize, page: PageId) -> Result<(), InspectError> {
        let is_of_relation = |event: &FileEvent| !event.what.is_of_database();
        if !self.events(index).is_empty() || self.history.file_events(page).any(is_of_relation) {
            return Ok(());
        }
        match self.on_disk(page) {
            Err(absent @ (PageRead::BeyondEnd | PageRead::NoFile)) => {
                let title = format!("{} ({})", self.called(page), self.path_of(page));
                Err(InspectError::PageNowhere { title, page, has_file: absent == PageRead::BeyondEnd })
            }
            _ => Ok(()),
        }
    }
}

/// Reads all WAL and gathers what it says of the pages.
///
/// # Errors
/// When the path is not a data directory, there is no WAL, or neither WAL nor a file knows of the only page.
pub fn page_history(request: &HistoryRequest, watch: WatchWal<'_>) -> Result<PageHistory, InspectError> {
    let directory = open_data_dir(&request.data_dir)?;
    let control = directory.control().trusted();
    let donors = open_donors(&request.donors, &directory, control)?;
    let elsewhere: Vec<PathBuf> =
        request.wal.iter().cloned().chain(donors.iter().filter_map(Donor::wal_path)).collect();
    let mut wal = WalRequest::of_cluster(request.data_dir.clone(), &elsewhere);
    wal.timeline = control.map(ControlFile::timeline);
    let mut source = WalSource::open(&wal)?;

    let mut interest = Interest::default();
    for page in &request.pages {
        interest.add(*page);
    }
    let mut history = WalHistory::new(&interest);
    history.ends = Some(XactEnds::default());
    source.each_history(&mut history, &interest, request.jobs, watch);
    let WalSource { set, findings, mut coverage, .. } = source;
    let pages = interest.pages().to_vec();
    coverage.examined = (0..pages.len()).map(|index| history.events(index).len() as u64).sum();
    if let Some(from) = history.full_from() {
        coverage.skip(SkippedPart::RestOfWal, SkipReason::NoRoomForRecords { from });
    }

    let geometry = control.map_or(Geometry::USUAL, |control| control.geometry);
    let catalog = control.map_or(0, |control| control.prefix.catalog_version_no);
    let paths = RelationPaths::new(directory.major(), catalog, geometry.rel_segment_blocks);
    let (names, _) = RelationNames::read(&directory);
    let replay = Replay::of(directory.control(), &directory.recovery_signs());
    let marks = [
        replay.redo_lsn.map(|lsn| (Mark::Redo, lsn)),
        control.map(|control| (Mark::Checkpoint, control.checkpoint_lsn)),
    ];
    let marks = marks.into_iter().flatten().collect();
    let gaps = WalGap::between(&history, &WalNames::of(&set));
    let major = history.major;
    let found =
        PageHistory { pages, major, gaps, marks, findings, coverage, directory, set, history, geometry, paths, names };
    // Of many pages some may be past the end.
    if let [page] = found.pages[..] {
        found.demand(0, page)?;
    }
    Ok(found)
}
