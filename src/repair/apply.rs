//! Runs a journal, forward or back. Repair, resume and undo are the same walk: every page must be the old or the
//! new version before anything is written, and each is written, synced and read back through one handle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::blocker::{RepairLock, server_words};
use super::journal::{Journal, JournalError};
use super::manifest::{JournalEntry, Proof};
use super::target::TargetFile;
use super::witness::{StartSign, newer_files, old_contradicted_by};
use crate::analysis::changes::sectors::SECTOR_BYTES;
use crate::cluster::open::AccessError;
use crate::cluster::relation_path::RelationPaths;
use crate::cluster::running::{look_at_pid_file, look_for_server};
use crate::repair::plan::crc_text;
use crate::types::PageId;

/// Time after which all processes of the machine are asked again whether they are a server of the directory.
const BETWEEN_SEARCHES: Duration = Duration::from_millis(500);

/// Most pages that a message names; the journal's log has them all.
const MAX_NAMED_PAGES: usize = 200;

/// Direction in which a journal runs.
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

/// A moment of the walk, for tests that cut it off or change something there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// All pages were examined, none was written.
    Checked,
    /// This entry is about to be written.
    Before(usize),
    /// This entry was written and read back.
    Written(usize),
}

/// The cluster that a journal runs on.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Its data directory, locked.
    pub lock: &'a RepairLock,
    /// Its number.
    pub system_identifier: u64,
    /// Bytes of its pages.
    pub block_size: usize,
    /// Where its pages are.
    pub paths: &'a RelationPaths,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Order {
    /// Which way.
    pub direction: Direction,
    /// Only these pages of it.
    pub only: Option<Vec<PageId>>,
    /// Leave pages that something else changed, or whose bytes the journal has lost, and continue.
    pub skip_changed: bool,
    /// Use a journal that cannot tell whether a server was started since.
    pub allow_old_journal: bool,
}

impl Order {
    /// The whole journal.
    pub const fn whole(direction: Direction) -> Self {
        Self { direction, only: None, skip_changed: false, allow_old_journal: false }
    }
}

/// Reason why a journal was not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A page or file cannot be read or written.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The journal fails.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Pages are neither the old nor the new version.
    #[error("changed since by something else: {}", name_pages(.0))]
    Changed(Vec<String>),
    /// An entry names a path or an offset that its page does not have.
    #[error("entry {0} of the journal has a path or an offset that its page does not have")]
    WrongPath(usize),
    /// A page that was asked for is not part of the journal.
    #[error("the journal holds no block {} of {}", .0.block, .0.rel)]
    NotInJournal(PageId),
    /// A server was started since the repair began.
    #[error(
        "refused: a server was started after the repair began ({0}). Its pages are newer; the bytes in the journal \
            would destroy them"
    )]
    ServerWasStarted(StartSign),
    /// A server appeared.
    #[error("a server was started while pages were being written: {0}")]
    ServerAppeared(String),
    /// A journal of the first format proves nothing.
    #[error(
        "this journal was made by an earlier version of the program and cannot show whether a server was started since the repair. If one was, its pages are newer, and bytes of the journal would destroy them. If you know that none was, use --allow-old-journal"
    )]
    OldJournal,
    /// The journal belongs to another cluster.
    #[error("the journal belongs to the cluster with system identifier {journal}, this one has {here}")]
    OtherSystem {
        /// In the journal.
        journal: String,
        /// Here.
        here: String,
    },
    /// The journal belongs to a cluster with other pages.
    #[error("the journal has pages of {journal} bytes, this cluster has pages of {here}")]
    OtherBlockSize {
        /// In the journal.
        journal: usize,
        /// Here.
        here: usize,
    },
    /// The path of the data directory now leads to another directory.
    #[error("{} is no longer the directory that was checked", .0.display())]
    Moved(PathBuf),
    /// A test cut the walk off.
    #[error("cut off")]
    CutOff,
}

/// A page that was left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Index in the journal.
    pub index: usize,
    /// Why.
    pub why: LeftWhy,
}

/// Why a page was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftWhy {
    /// It is neither the old nor the new version.
    Changed,
    /// The journal has lost its bytes.
    NoBytes(String),
    /// It cannot be opened or read.
    Unreadable(String),
}

impl std::fmt::Display for LeftWhy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Changed => f.write_str("changed since by something else"),
            Self::NoBytes(why) | Self::Unreadable(why) => f.write_str(why),
        }
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Entries that were written, by their index in the journal.
    pub written: Vec<usize>,
    /// Entries that were there already.
    pub already: usize,
    /// Entries that were left as they are, because the user allowed that.
    pub left: Vec<Left>,
    /// An entry whose writing failed: the page may be half old and half new.
    pub half_written: Option<usize>,
    /// Reason why the journal's log lacks lines: an undo continues anyway.
    pub unlogged: Option<String>,
    /// Files that a start of a server writes and that are newer than the repair: a hint.
    pub newer_files: Vec<PathBuf>,
}

/// An incomplete run, with its result so far.
#[derive(Debug)]
pub struct Stopped {
    /// Why.
    pub error: ApplyError,
    /// The result so far.
    pub done: Applied,
    written: Vec<String>,
    half_written: Option<String>,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.error)?;
        if let Some(page) = &self.half_written {
            write!(f, "\nthis page may be only half written: {page}")?;
        }
        match self.written.len() {
            0 if self.half_written.is_none() => f.write_str("\nno page was written"),
            0 => f.write_str("\nno other page was written"),
            1 => write!(f, "\n1 page was written before that: {}", name_pages(&self.written)),
            count => write!(f, "\n{count} pages were written before that: {}", name_pages(&self.written)),
        }
    }
}

impl std::error::Error for Stopped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

fn name_pages(pages: &[String]) -> String {
    let named = pages.iter().take(MAX_NAMED_PAGES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match pages.len().saturating_sub(MAX_NAMED_PAGES) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Runs a journal. `watch` may interrupt it.
///
/// # Errors
/// See [`ApplyError`]. Pages written until then stay; the journal can run again, in both directions.
pub fn carry_out(
    cluster: Cluster<'_>,
    journal: &Journal,
    order: &Order,
    mut watch: impl FnMut(Moment) -> bool,
) -> Result<Applied, Box<Stopped>> {
    walk(cluster, journal, order, |walk| walk.run(&mut watch))
}

/// Everything that comes before the first write of [`carry_out`], without writing: what would be written, what has its
/// bytes already, and what would be left.
///
/// # Errors
/// Those of a run before its first write.
pub fn rehearse(cluster: Cluster<'_>, journal: &Journal, order: &Order) -> Result<Applied, Box<Stopped>> {
    walk(cluster, journal, order, |walk| walk.rehearse())
}

fn walk(
    cluster: Cluster<'_>,
    journal: &Journal,
    order: &Order,
    work: impl FnOnce(&mut Walk<'_>) -> Result<(), ApplyError>,
) -> Result<Applied, Box<Stopped>> {
    let mut walk = Walk { cluster, journal, order, done: Applied::default(), asked: None, began: None };
    match work(&mut walk) {
        Ok(()) => Ok(walk.done),
        Err(error) => {
            let name = |index: &usize| journal.manifest().entries.get(*index).map(ToString::to_string);
            let written = walk.done.written.iter().filter_map(name).collect();
            let half_written = walk.done.half_written.as_ref().and_then(name);
            Err(Box::new(Stopped { error, done: walk.done, written, half_written }))
        }
    }
}

struct Walk<'a> {
    cluster: Cluster<'a>,
    journal: &'a Journal,
    order: &'a Order,
    done: Applied,
    asked: Option<Instant>,
    /// When the repair began.
    began: Option<Timestamp>,
}

impl Walk<'_> {
    /// All pages that can be written, when nothing forbids it.
    fn examine(&mut self) -> Result<Vec<(usize, JournalEntry)>, ApplyError> {
        self.demand_same_cluster()?;
        let chosen = self.choose()?;
        self.demand_no_start()?;
        self.look_at_all(chosen)
    }

    fn rehearse(&mut self) -> Result<(), ApplyError> {
        let chosen = self.examine()?;
        self.demand_stillness()?;
        for (index, entry) in &chosen {
            match self.look(*index, entry) {
                Ok((_, _, true)) => self.done.already += 1,
                Ok((_, _, false)) => self.done.written.push(*index),
                Err(error) => self.leave(*index, error)?,
            }
        }
        Ok(())
    }

    fn run(&mut self, watch: &mut dyn FnMut(Moment) -> bool) -> Result<(), ApplyError> {
        let chosen = self.examine()?;
        let word = self.order.direction.word();
        if self.order.direction == Direction::Forward {
            // One that was cut off while it was made may be whole in memory only.
            self.journal.sync()?;
        }
        self.log(&format!("{word}_begins"), json!({"pages": chosen.len(), "left": self.done.left.len()}))?;
        let go_on = |go_on: bool| if go_on { Ok(()) } else { Err(ApplyError::CutOff) };
        go_on(watch(Moment::Checked))?;
        for (index, entry) in &chosen {
            let index = *index;
            go_on(watch(Moment::Before(index)))?;
            self.demand_stillness()?;
            self.put(index, entry)?;
            go_on(watch(Moment::Written(index)))?;
        }
        // A server that came during the last page was not seen before it.
        self.asked = None;
        self.demand_stillness()?;
        let (written, left) = (self.done.written.len(), self.done.left.len());
        let counts = json!({"written": written, "already": self.done.already, "left": left});
        self.log(&format!("{word}_done"), counts)
    }

    fn demand_same_cluster(&self) -> Result<(), ApplyError> {
        let (manifest, here) = (self.journal.manifest(), self.cluster.system_identifier.to_string());
        if manifest.system_identifier != here {
            return Err(ApplyError::OtherSystem { journal: manifest.system_identifier.clone(), here });
        }
        if manifest.block_size != self.cluster.block_size {
            return Err(ApplyError::OtherBlockSize { journal: manifest.block_size, here: self.cluster.block_size });
        }
        Ok(())
    }

    /// The entries that were asked for. Every entry of the journal must name the path and offset that its page has, also one that
    /// was not asked for: a journal in which one is wrong was not made by this program.
    fn choose(&self) -> Result<Vec<(usize, JournalEntry)>, ApplyError> {
        let manifest = self.journal.manifest();
        let mut by_page = BTreeMap::new();
        for (index, entry) in manifest.entries.iter().enumerate() {
            let page = entry.page.page_id().ok_or(ApplyError::WrongPath(index))?;
            let (path, at) = self.cluster.paths.path_and_block(page);
            let offset = u64::from(at).saturating_mul(manifest.block_size as u64);
            if path != Path::new(&entry.path) || offset != entry.offset {
                return Err(ApplyError::WrongPath(index));
            }
            by_page.insert(page, index);
        }
        let chosen = |index: usize| manifest.entries.get(index).map(|entry| (index, entry.clone()));
        let Some(only) = &self.order.only else { return Ok((0..manifest.entries.len()).filter_map(chosen).collect()) };
        let find = |page: &PageId| by_page.get(page).copied().ok_or(ApplyError::NotInJournal(*page));
        let indexes = only.iter().map(find).collect::<Result<std::collections::BTreeSet<_>, _>>()?;
        Ok(indexes.into_iter().filter_map(chosen).collect())
    }

    /// Refuses when a server was started since the journal was made, as far as it can tell.
    fn demand_no_start(&mut self) -> Result<(), ApplyError> {
        let root = self.cluster.lock.root();
        let sign = match &self.journal.manifest().proof {
            Proof::Witness(witness) => {
                self.began = witness.taken.parse().ok();
                witness.contradicted_by(root)?
            }
            Proof::OldCrc(crc) => {
                self.began = self.journal.began()?;
                let sign = old_contradicted_by(root, crc, self.began)?;
                if sign.is_none() && !self.order.allow_old_journal {
                    return Err(ApplyError::OldJournal);
                }
                sign
            }
        };
        if let Some(sign) = sign {
            return Err(ApplyError::ServerWasStarted(sign));
        }
        self.done.newer_files = self.began.map_or_else(Vec::new, |began| newer_files(root, began));
        Ok(())
    }

    /// Checks that must hold before each page: no server, the same directory, the same `pg_control`, and a journal.
    fn demand_stillness(&mut self) -> Result<(), ApplyError> {
        let root = self.cluster.lock.root();
        // Asking every process is too dear for every page.
        let sign = match self.asked.is_some_and(|asked| asked.elapsed() < BETWEEN_SEARCHES) {
            true => look_at_pid_file(root.path()),
            false => {
                self.asked = Some(Instant::now());
                look_for_server(root.path())
            }
        };
        if let Some(words) = server_words(&sign) {
            return Err(ApplyError::ServerAppeared(words));
        }
        if !root.held().is_in_place()? {
            return Err(ApplyError::Moved(root.path().to_owned()));
        }
        let sign = match &self.journal.manifest().proof {
            Proof::Witness(witness) => witness.control_contradicted_by(root)?,
            Proof::OldCrc(crc) => old_contradicted_by(root, crc, self.began)?,
        };
        if let Some(sign) = sign {
            return Err(ApplyError::ServerAppeared(sign.to_string()));
        }
        // To put bytes back takes nothing away, and to stop half way for want of a journal would leave nothing to finish
        // it with.
        match self.order.direction {
            Direction::Forward => Ok(self.journal.demand_in_place()?),
            Direction::Back => Ok(()),
        }
    }

    /// Looks at all pages before any is written; gives those that can be.
    fn look_at_all(&mut self, chosen: Vec<(usize, JournalEntry)>) -> Result<Vec<(usize, JournalEntry)>, ApplyError> {
        let (mut usable, mut changed) = (Vec::new(), Vec::new());
        for (index, entry) in chosen {
            match self.look(index, &entry) {
                Ok(_) => usable.push((index, entry)),
                Err(ApplyError::Changed(page)) if !self.order.skip_changed => changed.extend(page),
                Err(error) => self.leave(index, error)?,
            }
        }
        if changed.is_empty() { Ok(usable) } else { Err(ApplyError::Changed(changed)) }
    }

    /// Opens the file of a page and reads it; the bytes that it should have, and whether it has them.
    fn look(&self, index: usize, entry: &JournalEntry) -> Result<(TargetFile, Vec<u8>, bool), ApplyError> {
        let target = TargetFile::open(self.cluster.lock.root(), Path::new(&entry.path))?;
        let current = target.read_page(entry.offset, self.cluster.block_size)?;
        let old = self.journal.before(index)?;
        let new = match (self.journal.after(index), self.order.direction) {
            (Ok(new), _) => Some(new),
            (Err(_), Direction::Back) => None,
            (Err(error), Direction::Forward) => return Err(error.into()),
        };
        let is_ours = current.as_ref().is_some_and(|current| match &new {
            Some(new) => is_mix(current, &old, new),
            // Without the new bytes, half of a page cannot be distinguished from a page that something else wrote.
            None => *current == old || crc_text(current) == entry.after_crc,
        });
        if !is_ours {
            return Err(ApplyError::Changed(vec![entry.to_string()]));
        }
        let wanted = match (self.order.direction, new) {
            (Direction::Forward, Some(new)) => new,
            _ => old,
        };
        let has_it = current.as_ref() == Some(&wanted);
        Ok((target, wanted, has_it))
    }

    /// Looks at the page again, through the handle that it is written with, and writes it.
    fn put(&mut self, index: usize, entry: &JournalEntry) -> Result<(), ApplyError> {
        match self.look(index, entry) {
            // Bytes that are there are written again: after a sync that failed or never came they may stand in memory
            // only, and the system does not try again by itself.
            Ok((target, bytes, has_it)) => {
                self.done.half_written = Some(index);
                target.write_page(entry.offset, &bytes)?;
                target.sync_directory()?;
                self.done.half_written = None;
                match has_it {
                    true => self.done.already += 1,
                    false => self.done.written.push(index),
                }
            }
            Err(error) => return self.leave(index, error),
        }
        self.log("page", entry_json(entry, self.order.direction))
    }

    /// Leaves a page as it is, if the user allows that.
    fn leave(&mut self, index: usize, error: ApplyError) -> Result<(), ApplyError> {
        let why = match error {
            error if !self.order.skip_changed => return Err(error),
            ApplyError::Changed(_) => LeftWhy::Changed,
            ApplyError::Access(error) => LeftWhy::Unreadable(error.to_string()),
            ApplyError::Journal(error @ JournalError::Damaged { .. }) => LeftWhy::NoBytes(error.to_string()),
            error => return Err(error),
        };
        self.done.left.push(Left { index, why });
        Ok(())
    }

    /// Adds a line to the journal's log. Overwriting without a log is refused. To put bytes back takes nothing away that
    /// is not in the journal, and a medium that is full or read-only must not stand in the way of it.
    fn log(&mut self, event: &str, details: Value) -> Result<(), ApplyError> {
        match self.journal.audit(event, details) {
            Err(error) if self.order.direction == Direction::Back => {
                self.done.unlogged.get_or_insert(error.to_string());
                Ok(())
            }
            logged => Ok(logged?),
        }
    }
}

fn entry_json(entry: &JournalEntry, direction: Direction) -> Value {
    let crc = if direction == Direction::Forward { &entry.after_crc } else { &entry.before_crc };
    json!({"path": entry.path, "offset": entry.offset, "block": entry.page.block, "crc": crc, "what": direction.word()})
}

/// True when every sector is that of the old or of the new version: the page was not touched, was written, or its
/// writing was cut off.
fn is_mix(current: &[u8], old: &[u8], new: &[u8]) -> bool {
    let versions = old.chunks(SECTOR_BYTES).zip(new.chunks(SECTOR_BYTES));
    current.len() == old.len()
        && current.chunks(SECTOR_BYTES).zip(versions).all(|(now, (old, new))| now == old || now == new)
}

#[cfg(test)]
#[path = "test_case.rs"]
mod test_case;

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "journal_tests.rs"]
mod journal_tests;
