//! Journals finished or undone.

use std::path::{Path, PathBuf};

use super::Written;
use super::session::guarded;
use crate::cluster::page_source::RelationPaths;
use crate::inspect::dwb_source::protected_of;
use crate::inspect::error::{InspectError, Unfinished};
use crate::inspect::page_name::PageName;
use crate::repair::apply::{self, Applied, Cluster, Direction, Order, Stopped};
use crate::repair::blocker::{Overrides, guard_directory};
use crate::repair::journal::Journal;
use crate::types::PageId;

/// A journal, and what is done with it.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    /// Data directory of a stopped server.
    pub data_dir: PathBuf,
    /// Directory of the journal.
    pub journal: PathBuf,
    /// Which way.
    pub direction: Direction,
    /// Only these pages, if there are any.
    pub pages: Vec<PageName>,
    /// Leave pages as they are that somebody else has changed since, or whose bytes the journal has lost.
    pub skip_changed: bool,
    /// Use a journal of the first format, which proves nothing about servers that were started since.
    pub allow_old_journal: bool,
    /// Blockers that are overridden.
    pub overrides: Overrides,
}

impl ReplayRequest {
    /// The old bytes of every page of a journal are put back.
    pub fn undo(data_dir: PathBuf, journal: PathBuf, overrides: Overrides) -> Self {
        let direction = Direction::Back;
        Self {
            data_dir,
            journal,
            direction,
            pages: Vec::new(),
            skip_changed: false,
            allow_old_journal: false,
            overrides,
        }
    }
}

/// Locks the data directory and runs the journal, forward or back.
///
/// # Errors
/// When something forbids writing, the journal cannot be believed, or writing fails; the message says what was written.
pub fn replay(request: &ReplayRequest) -> Result<Written, InspectError> {
    with_journal(request, |cluster, journal, order| apply::carry_out(cluster, journal, order, |_| true))
}

/// Everything that [`replay`] does before its first write, without writing: `applied` is what would be done.
///
/// # Errors
/// When running the journal would be refused.
pub fn rehearse(request: &ReplayRequest) -> Result<Written, InspectError> {
    with_journal(request, apply::rehearse)
}

fn with_journal(
    request: &ReplayRequest,
    work: impl FnOnce(Cluster<'_>, &Journal, &Order) -> Result<Applied, Box<Stopped>>,
) -> Result<Written, InspectError> {
    let (lock, directory) = guarded(&request.data_dir, request.overrides)?;
    let control = directory.control().trusted().ok_or(InspectError::ControlUntrusted)?;
    let owners = lock.journal_owners(request.overrides)?;
    let journal = Journal::open(&request.journal, &owners)?;
    journal.demand_outside(&protected_of(&directory)?)?;
    let manifest = journal.manifest();
    // A journal of another cluster is refused when it runs.
    if manifest.system_identifier == control.prefix.system_identifier.to_string()
        && let Some(blocker) = guard_directory(&manifest.directory, &lock, request.overrides)?
    {
        return Err(InspectError::Refused(vec![blocker]));
    }
    let (catalog, blocks) = (control.prefix.catalog_version_no, control.geometry.rel_segment_blocks);
    let paths = RelationPaths::new(directory.major(), catalog, blocks);
    let only = (!request.pages.is_empty()).then(|| find_pages(&request.pages, &journal, &paths)).transpose()?;
    let order = Order {
        direction: request.direction,
        only,
        skip_changed: request.skip_changed,
        allow_old_journal: request.allow_old_journal,
    };
    let cluster = Cluster {
        lock: &lock,
        system_identifier: control.prefix.system_identifier,
        block_size: usize::try_from(control.geometry.block_size).unwrap_or_default(),
        paths: &paths,
    };
    match work(cluster, &journal, &order) {
        Ok(applied) => Ok(Written { journal, applied }),
        Err(stopped) => Err(unfinished(stopped, directory.root(), &journal, request.overrides)),
    }
}

fn find_pages(names: &[PageName], journal: &Journal, paths: &RelationPaths) -> Result<Vec<PageId>, InspectError> {
    let pages: Vec<PageId> = journal.manifest().entries.iter().filter_map(|entry| entry.page.page_id()).collect();
    let find = |name: &PageName| {
        let found: Vec<PageId> = pages.iter().copied().filter(|page| name.matches(*page, paths, None)).collect();
        match found[..] {
            [page] => Ok(page),
            [] => Err(InspectError::NotInJournal(name.clone())),
            _ => Err(InspectError::SeveralPages(name.clone())),
        }
    };
    names.iter().map(find).collect()
}

/// Not all pages were written.
pub(super) fn unfinished(stopped: Box<Stopped>, root: &Path, journal: &Journal, overrides: Overrides) -> InspectError {
    let (data_dir, journal) = (root.to_owned(), journal.directory().to_owned());
    InspectError::Unfinished(Box::new(Unfinished { stopped: *stopped, data_dir, journal, overrides }))
}
