//! The history of a timeline, as `pg_wal` of a data directory has it.

use std::path::{Path, PathBuf};

use super::data_dir::DataDir;
use super::open::{AccessError, Links, read_small};
use super::server_files::FileFault;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::TimelineHistory;
use crate::types::TimelineId;

/// Longest history file that is read, in bytes: room for a thousand timelines.
pub(super) const HISTORY_LIMIT_BYTES: usize = 128 * 1024;

/// The file with the history of a timeline, relative to the data directory.
pub(super) fn history_path(tli: TimelineId) -> PathBuf {
    Path::new("pg_wal").join(TimelineHistory::file_name(tli))
}

/// Reads it; `None` if it is missing, which a server treats as a timeline without ancestors.
pub(super) fn read_history(root: &Path, tli: TimelineId) -> Result<Option<TimelineHistory>, FileFault> {
    match read_small(&root.join(history_path(tli)), Links::Refuse, HISTORY_LIMIT_BYTES as u64) {
        Ok(bytes) => {
            let history = TimelineHistory::parse(tli, &String::from_utf8_lossy(&bytes));
            history.map(Some).map_err(FileFault::History)
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The history that every start reads, with its file, where a server cannot: that of the timeline of `pg_control`, of which the first has none.
/// A link is for the server to follow.
///
/// Source: `readTimeLineHistory`, `src/backend/access/transam/timeline.c`; servers of 10 to 19 that were started so.
pub(crate) fn history_fault(directory: &DataDir, control: &ControlFile) -> Option<(PathBuf, FileFault)> {
    let tli = control.timeline();
    if tli <= TimelineId(1) {
        return None;
    }
    let fault = read_history(directory.root(), tli).err()?;
    let is_link = matches!(&fault, FileFault::Access(AccessError::NotRegular { path, .. }) if path.is_symlink());
    (!is_link).then(|| (history_path(tli), fault))
}
