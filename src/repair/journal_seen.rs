//! Journals that lie beside a data directory, and what they say of its pages as they are now. Nothing is written.

use std::path::{Path, PathBuf};

use super::journal::{JOURNAL_PREFIX, Journal, JournalError};
use super::manifest::DirectoryMark;
use super::plan::crc_text;
use super::target::DataRoot;
use crate::cluster::open::AccessError;
use crate::types::PageId;

/// Pages of a journal that are compared with the disk; of a longer one the first.
const MAX_COMPARED: usize = 10_000;

/// Journals that are opened; of more the newest.
const MAX_JOURNALS: usize = 20;

#[derive(Debug)]
pub struct JournalSeen {
    pub directory: PathBuf,
    /// Its state, or why that is unknown.
    pub state: Result<JournalState, JournalError>,
}

/// Journals that lie beside the data directory.
#[derive(Debug)]
pub struct FoundJournals {
    /// Those that were opened, the newest first; or why none could be looked for.
    pub journals: Result<Vec<JournalSeen>, String>,
    pub more: usize,
}

impl FoundJournals {
    /// The newest of this cluster with pages that are as its repair wrote them.
    pub(crate) fn in_force(&self) -> Option<&JournalSeen> {
        let journals = self.journals.as_ref().ok()?;
        journals.iter().find(|seen| seen.state.as_ref().is_ok_and(JournalState::is_in_force))
    }
}

/// A journal compared with the pages as they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalState {
    pub system_identifier: String,
    /// When the repair began, where its log says so.
    pub began: Option<String>,
    pub pages: usize,
    /// Number of these that were compared; 0 if it belongs to another cluster or directory.
    pub compared: usize,
    /// They have the new bytes.
    pub new: usize,
    /// They have the old bytes.
    pub old: usize,
    /// They have other bytes.
    pub other: usize,
    pub unread: usize,
}

impl JournalState {
    /// It belongs to this cluster, and pages are as its repair wrote them.
    pub(crate) const fn is_in_force(&self) -> bool {
        self.new > 0
    }

    /// It certainly belongs to this cluster: its pages were compared, or it has none.
    pub(crate) const fn is_of_cluster(&self) -> bool {
        self.compared > 0
    }
}

/// Directories beside a data directory that are called as journals are, the newest first, and how many more there are.
pub(crate) fn journals_beside(root: &Path) -> Result<(Vec<PathBuf>, usize), AccessError> {
    let real = root.canonicalize().map_err(|source| AccessError::io("find", root, source))?;
    let Some(parent) = real.parent() else { return Ok((Vec::new(), 0)) };
    let failed = |source| AccessError::io("list", parent, source);
    let mut found = Vec::new();
    for entry in parent.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(JOURNAL_PREFIX) && entry.path().is_dir() {
            found.push(entry.path());
        }
    }
    // The time is in the name.
    found.sort_unstable_by(|one, other| other.cmp(one));
    let more = found.len().saturating_sub(MAX_JOURNALS);
    found.truncate(MAX_JOURNALS);
    Ok((found, more))
}

/// The newest repair first; journals of which that is unknown come after them, in their order.
pub(crate) fn newest_first(mut journals: Vec<JournalSeen>) -> Vec<JournalSeen> {
    let began = |seen: &JournalSeen| seen.state.as_ref().ok().and_then(|state| state.began.clone());
    journals.sort_by_cached_key(|seen| std::cmp::Reverse(began(seen)));
    journals
}

/// True when a journal lies where [`journals_beside`] finds it.
pub fn is_found_beside(root: &Path, journal: &Path) -> bool {
    let named = journal.file_name().is_some_and(|name| name.to_string_lossy().starts_with(JOURNAL_PREFIX));
    let parent = |path: &Path| path.parent().and_then(|parent| parent.canonicalize().ok());
    let beside = root.canonicalize().ok().and_then(|root| parent(&root));
    named && beside.is_some() && parent(journal) == beside
}

/// True where no journal is yet: nothing of that name, or an empty directory.
pub(crate) fn is_free(directory: &Path) -> bool {
    match directory.read_dir() {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Looks at a journal of one of the users `owners`. It is compared with the pages of `root` alone if it belongs to that
/// directory, and not to another copy of the cluster. `page`: the bytes of a page as they are now, where it can be read.
pub(crate) fn look_at(
    directory: PathBuf,
    root: &Path,
    owners: &[u32],
    system_identifier: Option<u64>,
    page: &mut dyn FnMut(PageId) -> Option<Vec<u8>>,
) -> JournalSeen {
    let state = Journal::open(&directory, owners).and_then(|journal| {
        let manifest = journal.manifest();
        let mut state = JournalState {
            system_identifier: manifest.system_identifier.clone(),
            began: journal.began()?.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            pages: manifest.entries.len(),
            compared: 0,
            new: 0,
            old: 0,
            other: 0,
            unread: 0,
        };
        let here = DataRoot::open(root).and_then(|root| DirectoryMark::of(&root));
        let is_here = here.is_ok_and(|here| manifest.directory.is_of_wherever_it_lies(&here));
        if is_here && system_identifier.is_some_and(|own| own.to_string() == state.system_identifier) {
            for entry in manifest.entries.iter().take(MAX_COMPARED) {
                let crc = entry.page.page_id().and_then(&mut *page).map(|bytes| crc_text(&bytes));
                let count = match crc {
                    None => &mut state.unread,
                    Some(crc) if crc == entry.after_crc => &mut state.new,
                    Some(crc) if crc == entry.before_crc => &mut state.old,
                    Some(_) => &mut state.other,
                };
                *count += 1;
                state.compared += 1;
            }
        }
        Ok(state)
    });
    JournalSeen { directory, state }
}
