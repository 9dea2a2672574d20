//! Everything that WAL says of one page: the WAL of the data directory, and what was given besides.

use std::path::PathBuf;

use super::error::{InspectError, open_data_dir};
use super::wal::request::WalRequest;
use super::wal::source::WalSource;
use super::wal::watch::WatchWal;
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::in_order::all_cores;
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::analysis::verdict::events::{BlockEvent, FileEvent};
use crate::analysis::verdict::history::WalHistory;
use crate::analysis::verdict::interest::Interest;
use crate::analysis::verdict::missing_wal::WalNames;
use crate::analysis::verdict::page_history::{HistoryRow, Mark, WalGap, history_rows};
use crate::analysis::verdict::replay::Replay;
use crate::analysis::verdict::xact_ends::{XactEnds, XactOutcome};
use crate::cluster::names::RelationNames;
use crate::cluster::page_source::{PageRead, PageSource, RelationPages};
use crate::cluster::relation_path::RelationPaths;
use crate::parsers::wal::version::Major;
use crate::types::{Geometry, Lsn, PageId};

/// Which page, and where WAL is.
#[derive(Clone, Debug)]
pub struct HistoryRequest {
    /// Data directory of a stopped server.
    pub data_dir: PathBuf,
    /// The page.
    pub page: PageId,
    /// WAL from elsewhere: directories, segments, archives, patterns.
    pub wal: Vec<PathBuf>,
    /// Threads that read.
    pub jobs: usize,
}

impl HistoryRequest {
    /// A page of a cluster, with the WAL of its data directory and a thread for every core.
    #[must_use]
    pub fn of(data_dir: impl Into<PathBuf>, page: PageId) -> Self {
        Self { data_dir: data_dir.into(), page, wal: Vec::new(), jobs: all_cores() }
    }
}

/// What WAL says of a page.
#[derive(Debug)]
pub struct PageHistory {
    /// The page.
    pub page: PageId,
    /// Name of its relation, or its numbers.
    pub called: String,
    /// Path of its file, relative to the data directory.
    pub path: String,
    /// Version of the WAL.
    pub major: Option<Major>,
    /// Stretches of WAL that were not read.
    pub gaps: Vec<WalGap>,
    /// Where replay begins, and the last checkpoint.
    pub marks: Vec<(Mark, Lsn)>,
    /// What was odd about WAL.
    pub findings: Vec<Finding>,
    /// What was not read.
    pub coverage: Coverage,
    history: WalHistory,
}

impl PageHistory {
    /// Everything in the order of WAL.
    #[must_use]
    pub fn rows(&self) -> Vec<HistoryRow<'_>> {
        history_rows(&self.history, (0, self.page), &self.gaps, &self.marks)
    }

    /// The records that touch the page, by LSN.
    #[must_use]
    pub fn events(&self) -> &[BlockEvent] {
        self.history.events(0)
    }

    /// How the transaction of a record ended, if WAL says so.
    #[must_use]
    pub fn outcome(&self, event: &BlockEvent) -> Option<&XactOutcome> {
        self.history.ends.as_ref()?.of(event)
    }
}

/// Reads all WAL and gathers what it says of the page.
///
/// # Errors
/// When the path is not a data directory, there is no WAL, or neither WAL nor a file knows of the page.
pub fn page_history(request: &HistoryRequest, watch: WatchWal<'_>) -> Result<PageHistory, InspectError> {
    let page = request.page;
    let directory = open_data_dir(&request.data_dir)?;
    let control = directory.control().trusted();
    let mut wal = WalRequest::of_cluster(request.data_dir.clone(), &request.wal);
    wal.timeline = control.map(Replay::timeline);
    let mut source = WalSource::open(&wal)?;

    let mut interest = Interest::default();
    interest.add(page);
    let mut history = WalHistory::new(&interest);
    history.ends = Some(XactEnds::default());
    source.each_history(&mut history, &interest, request.jobs, watch);
    let WalSource { set, findings, mut coverage, .. } = source;
    coverage.examined = history.events(0).len() as u64;
    if let Some(from) = history.full_from() {
        coverage.skip(SkippedPart::RestOfWal, SkipReason::NoRoomForRecords { from });
    }

    let geometry = control.map_or(Geometry::USUAL, |control| control.geometry);
    let catalog = control.map_or(0, |control| control.prefix.catalog_version_no);
    let paths = RelationPaths::new(directory.major(), catalog, geometry.rel_segment_blocks);
    let path = paths.path_and_block(page).0.display().to_string();
    let (names, _) = RelationNames::read(&directory);
    let called = names.full_name(page.rel).unwrap_or_else(|| page.rel.to_string());
    let is_of_relation = |event: &FileEvent| !event.what.is_of_database();
    if history.events(0).is_empty() && !history.file_events(page).any(is_of_relation) {
        let mut bytes = vec![0; usize::try_from(geometry.block_size).unwrap_or_default()];
        let read = RelationPages::new(directory.root(), paths).read_page(page, &mut bytes);
        if let Ok(absent @ (PageRead::BeyondEnd | PageRead::NoFile)) = read {
            let title = format!("{called} ({path})");
            return Err(InspectError::PageNowhere { title, page, has_file: matches!(absent, PageRead::BeyondEnd) });
        }
    }
    let replay = Replay::of(directory.control(), &directory.recovery_signs());
    let marks = [
        replay.redo_lsn.map(|lsn| (Mark::Redo, lsn)),
        control.map(|control| (Mark::Checkpoint, control.checkpoint_lsn)),
    ];
    let marks = marks.into_iter().flatten().collect();
    let gaps = WalGap::between(&history, &WalNames::of(&set));
    Ok(PageHistory { page, called, path, major: history.major, gaps, marks, findings, coverage, history })
}
