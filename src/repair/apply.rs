//! Carries a journal out, forward or back. Repair, resume and undo are the same walk: every page must be the old or the
//! new version before anything is written, and each is written, synced and read back through one handle.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::journal::{Journal, JournalEntry, JournalError};
use super::target::TargetFile;
use crate::analysis::slot_facts::SECTOR_BYTES;
use crate::cluster::control_file::CONTROL_PATH;
use crate::cluster::open::{AccessError, Links, read_small};
use crate::cluster::relation_path::RelationPaths;
use crate::cluster::running::{look_at_pid_file, look_for_server};
use crate::parsers::control::CONTROL_FILE_SIZE;

/// Time after which all processes of the machine are asked again whether they are a server of the directory.
const BETWEEN_SEARCHES: Duration = Duration::from_millis(500);

/// Which way a journal is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The new bytes are written.
    Forward,
    /// The old bytes are put back.
    Back,
}

impl Direction {
    const fn word(self) -> &'static str {
        match self {
            Self::Forward => "repair",
            Self::Back => "undo",
        }
    }
}

/// A moment of the walk, for tests that cut it off there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// All pages were looked at, none was written.
    Checked,
    /// This entry is about to be written.
    Before(usize),
    /// This entry was written and read back.
    Written(usize),
}

/// Why a journal was not carried out, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A page or file cannot be read or written.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The journal fails.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Pages are neither the old nor the new version: nothing was written.
    #[error("{}: {} have changed since; nothing was written", first.display(), if *count == 1 { "a page".to_owned() } else { format!("{count} pages") })]
    Changed {
        /// File of the first such page.
        first: PathBuf,
        /// How many.
        count: usize,
    },
    /// An entry names a place that its page does not have.
    #[error("the journal's entry {0} names a place that its page does not have; nothing was written")]
    WrongPlace(usize),
    /// `pg_control` is not what it was.
    #[error("pg_control has changed since the repair began: a server was started; nothing was written")]
    ServerWasStarted,
    /// A server appeared.
    #[error("a server was started while pages were being written: {0}")]
    ServerAppeared(String),
    /// The journal is of another cluster.
    #[error("the journal is of system {journal}, this one is {here}; nothing was written")]
    OtherSystem {
        /// In the journal.
        journal: String,
        /// Here.
        here: String,
    },
    /// A test cut the walk off.
    #[error("cut off")]
    CutOff,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Pages that were written.
    pub written: usize,
    /// Pages that were there already.
    pub already: usize,
    /// Why the journal's log lacks lines of it: only bytes that are put back are written all the same.
    pub unlogged: Option<String>,
}

impl Applied {
    /// Adds a line to the journal's log. Overwriting without a log is refused. To put bytes back takes nothing away that
    /// is not in the journal, and a medium that is full or read-only must not stand in the way of it.
    fn log(&mut self, journal: &Journal, direction: Direction, event: &str, details: Value) -> Result<(), ApplyError> {
        match journal.audit(event, details) {
            Err(error) if direction == Direction::Back => {
                self.unlogged.get_or_insert(error.to_string());
                Ok(())
            }
            logged => Ok(logged?),
        }
    }
}

/// CRC-32C of `pg_control`, as text: whether a server was started in between shows in it.
///
/// # Errors
/// When the file cannot be read.
pub fn control_crc(root: &Path) -> Result<String, AccessError> {
    let bytes = read_small(&root.join(CONTROL_PATH), Links::Refuse, CONTROL_FILE_SIZE as u64 * 2)?;
    Ok(super::plan::crc_text(&bytes))
}

/// Carries out `journal` on the data directory `root`. `watch` may cut it off.
///
/// # Errors
/// See [`ApplyError`]. What was written until then stays; the journal can be carried out again, either way.
pub fn carry_out(
    root: &Path,
    system_identifier: u64,
    paths: &RelationPaths,
    journal: &Journal,
    direction: Direction,
    mut watch: impl FnMut(Moment) -> bool,
) -> Result<Applied, ApplyError> {
    let manifest = journal.manifest();
    let here = system_identifier.to_string();
    if manifest.system_identifier != here {
        return Err(ApplyError::OtherSystem { journal: manifest.system_identifier.clone(), here });
    }
    if control_crc(root)? != manifest.control_crc {
        return Err(ApplyError::ServerWasStarted);
    }
    check_all(root, paths, journal)?;
    let mut applied = Applied::default();
    let pages = json!({"pages": manifest.entries.len()});
    applied.log(journal, direction, &format!("{}_begins", direction.word()), pages)?;
    if !watch(Moment::Checked) {
        return Err(ApplyError::CutOff);
    }
    let mut asked = None::<Instant>;
    for (place, entry) in manifest.entries.iter().enumerate() {
        if !watch(Moment::Before(place)) {
            return Err(ApplyError::CutOff);
        }
        // Asking every process is too dear for every page.
        let sign = match asked.is_some_and(|asked| asked.elapsed() < BETWEEN_SEARCHES) {
            true => look_at_pid_file(root),
            false => {
                asked = Some(Instant::now());
                look_for_server(root)
            }
        };
        if sign.may_be_running() {
            return Err(ApplyError::ServerAppeared(format!("{sign:?}")));
        }
        let (old, new) = (journal.before(place)?, journal.after(place)?);
        let wanted = if direction == Direction::Forward { &new } else { &old };
        let target = TargetFile::open(root, Path::new(&entry.path))?;
        // Read again through the handle that it is written with.
        let current = target.read_page(entry.offset, manifest.block_size)?;
        if !current.as_deref().is_some_and(|current| is_mix(current, &old, &new)) {
            return Err(ApplyError::Changed { first: target.path().to_owned(), count: 1 });
        }
        if current.as_ref() == Some(wanted) {
            applied.already += 1;
        } else {
            target.write_page(entry.offset, wanted)?;
            target.sync_directory()?;
            applied.written += 1;
        }
        applied.log(journal, direction, "page", entry_json(entry, direction))?;
        if !watch(Moment::Written(place)) {
            return Err(ApplyError::CutOff);
        }
    }
    let counts = json!({"written": applied.written, "already": applied.already});
    applied.log(journal, direction, &format!("{}_done", direction.word()), counts)?;
    Ok(applied)
}

fn entry_json(entry: &JournalEntry, direction: Direction) -> Value {
    let crc = if direction == Direction::Forward { &entry.after_crc } else { &entry.before_crc };
    json!({"path": entry.path, "offset": entry.offset, "block": entry.page.block, "crc": crc, "what": direction.word()})
}

/// Looks at all pages before any is written.
fn check_all(root: &Path, paths: &RelationPaths, journal: &Journal) -> Result<(), ApplyError> {
    let manifest = journal.manifest();
    let (mut first, mut count) = (None, 0);
    for (place, entry) in manifest.entries.iter().enumerate() {
        let page = entry.page.page_id().ok_or(ApplyError::WrongPlace(place))?;
        let (path, at) = paths.place(page);
        let offset = u64::from(at).saturating_mul(manifest.block_size as u64);
        if path != Path::new(&entry.path) || offset != entry.offset {
            return Err(ApplyError::WrongPlace(place));
        }
        let target = TargetFile::open(root, &path)?;
        let current = target.read_page(offset, manifest.block_size)?;
        let (old, new) = (journal.before(place)?, journal.after(place)?);
        if !current.is_some_and(|current| is_mix(&current, &old, &new)) {
            count += 1;
            first.get_or_insert(target.path().to_owned());
        }
    }
    first.map_or(Ok(()), |first| Err(ApplyError::Changed { first, count }))
}

/// True when every sector is that of the old or of the new version: the page was not touched, was written, or its
/// writing was cut off.
fn is_mix(current: &[u8], old: &[u8], new: &[u8]) -> bool {
    let versions = old.chunks(SECTOR_BYTES).zip(new.chunks(SECTOR_BYTES));
    current.len() == old.len()
        && current.chunks(SECTOR_BYTES).zip(versions).all(|(now, (old, new))| now == old || now == new)
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
