//! Names beside segments that show how far WAL had been written and synced, whether the segments are there or not.
//! Also here: what in a data directory says which segments of `pg_wal` a server keeps: slots, marks of the archiver,
//! settings, summaries.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

use super::data_dir::DataDir;
use super::open::{AccessError, Links, list, open_inside, read_small};
use super::settings::{Settings, is_true};
use crate::parsers::decode::u64_at;
use crate::parsers::state_files::{MAX_STATE_BYTES, SlotState, StateFault};
use crate::parsers::wal::timeline::WalSegment;
use crate::parsers::wal::version::Major;
use crate::types::{Lsn, TimelineId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalMarkKind {
    /// `NAME.ready` in `archive_status`: the segment was written and synced to its end, and waits for the archiver.
    ///
    /// Source: `XLogWrite`, `src/backend/access/transam/xlog.c`.
    Ready,
    /// `NAME.done` in `archive_status`: the segment was there. Backups come with such a mark of a segment whose rest is
    /// written later.
    ///
    /// Sources: `XLogArchiveForceDone`, `src/backend/access/transam/xlogarchive.c`; `mark_file_as_archived`,
    /// `src/bin/pg_basebackup/receivelog.c`.
    Done,
    /// A file in `summaries`: WAL was summarized up to there, which begins once it is synced.
    ///
    /// Source: `src/backend/postmaster/walsummarizer.c`.
    Summary,
}

/// A name that shows that WAL had been written up to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalMark {
    pub kind: WalMarkKind,
    /// The file, relative to the data directory.
    pub file: PathBuf,
    /// Every byte of WAL before it had been written and synced.
    pub reaches: Lsn,
}

impl WalMark {
    /// Reads a file name in `archive_status`.
    fn of_archive_status(name: &str, timeline: TimelineId, segment_size: u32) -> Option<Self> {
        let (kind, digits) = match name.split_once('.')? {
            (digits, "ready") => (WalMarkKind::Ready, digits),
            (digits, "done") => (WalMarkKind::Done, digits),
            _ => return None,
        };
        let segment = WalSegment::from_file_name(digits, segment_size).filter(|segment| segment.tli == timeline)?;
        let number = if kind == WalMarkKind::Ready { segment.number.checked_add(1)? } else { segment.number };
        let reaches = WalSegment { tli: timeline, number }.start_lsn(segment_size)?;
        Some(Self { kind, file: Path::new(ARCHIVE_STATUS).join(name), reaches })
    }

    /// Reads a file name in `summaries`: timeline, start and end, each of the latter in two parts of 8 hexadecimal digits.
    ///
    /// Source: `GetWalSummaries`, `src/backend/backup/walsummary.c`.
    fn of_summary(name: &str, timeline: TimelineId) -> Option<Self> {
        let digits = name.strip_suffix(".summary").filter(|digits| digits.len() == 40 && digits.is_ascii())?;
        let tli = u32::from_str_radix(digits.get(..8)?, 16).ok()?;
        let end = u64::from_str_radix(digits.get(24..)?, 16).ok()?;
        let file = Path::new(SUMMARIES).join(name);
        (tli == timeline.0).then_some(Self { kind: WalMarkKind::Summary, file, reaches: Lsn(end) })
    }
}

/// Names of segments with what the archiver did with them.
const ARCHIVE_STATUS: &str = "pg_wal/archive_status";

/// Summaries of WAL for incremental backups, since 17.
const SUMMARIES: &str = "pg_wal/summaries";

/// Facts about WAL from names in the data directory.
#[derive(Debug, Default)]
pub struct WalMarks {
    pub marks: Vec<WalMark>,
    /// Numbers of the segments that `pg_wal` has a file for, whatever it holds: such as wait to be written again count too.
    pub segments: BTreeSet<u64>,
    /// A server stopped while it made a segment (`xlogtemp.N`). A start removes such files.
    ///
    /// Source: `XLogFileInitInternal`, `RemoveTempXlogFiles`, `src/backend/access/transam/xlog.c`.
    pub has_unfinished_segment: bool,
    /// Directories that cannot be listed, relative to the data directory.
    pub errors: Vec<(&'static str, AccessError)>,
}

impl WalMarks {
    /// Those in the data directory `root`, of a timeline.
    pub fn read(root: &Path, timeline: TimelineId, segment_size: u32) -> Self {
        let mut found = Self::default();
        for directory in ["pg_wal", ARCHIVE_STATUS, SUMMARIES] {
            let path = root.join(directory);
            let listed = fs::read_dir(&path).and_then(|mut entries| {
                entries.try_for_each(|entry| {
                    let entry = entry?;
                    let name = entry.file_name();
                    let name = name.to_string_lossy();
                    match directory {
                        ARCHIVE_STATUS => found.add(WalMark::of_archive_status(&name, timeline, segment_size)),
                        SUMMARIES => found.add(WalMark::of_summary(&name, timeline)),
                        _ => {
                            let is_unfinished = name.starts_with("xlogtemp.");
                            found.has_unfinished_segment |=
                                is_unfinished && entry.file_type().is_ok_and(|kind| kind.is_file());
                            let segment = WalSegment::from_file_name(&name, segment_size);
                            found.segments.extend(segment.map(|segment| segment.number));
                        }
                    }
                    Ok(())
                })
            });
            match listed {
                // Not every server has them.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => found.errors.push((directory, AccessError::io("list", &path, error))),
                Ok(()) => {}
            }
        }
        found
    }

    fn add(&mut self, mark: Option<WalMark>) {
        let Some(mark) = mark else { return };
        match self.marks.iter_mut().find(|known| known.kind == mark.kind) {
            Some(known) if known.reaches < mark.reaches => *known = mark,
            Some(_) => {}
            None => self.marks.push(mark),
        }
    }
}

/// A segment file in `pg_wal`.
#[derive(Clone, Debug)]
pub(crate) struct PgWalFile {
    pub(crate) name: String,
    pub(crate) number: u64,
    pub(crate) size_bytes: u64,
    /// Its first page has its own address: it was written since it got this name.
    pub(crate) is_written: bool,
}

/// A replication slot.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) state: SlotState,
}

/// Settings that keep segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeepSettings {
    /// `wal_keep_size`, or `wal_keep_segments` up to 12, in bytes.
    pub(crate) wal_keep_bytes: u64,
    /// `max_slot_wal_keep_size`; `None`: no limit.
    pub(crate) max_slot_bytes: Option<u64>,
    /// All files that may hold settings were read.
    pub(crate) are_complete: bool,
}

/// Why something was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeeperError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("{0}")]
    State(StateFault),
}

#[derive(Debug, Default)]
pub(crate) struct WalKeepers {
    pub(crate) segments: Vec<PgWalFile>,
    pub(crate) slots: Vec<Slot>,
    /// Numbers of segments that wait for the archiver.
    pub(crate) ready: Vec<u64>,
    /// When the first of them was marked, Unix seconds.
    pub(crate) ready_since_s: Option<i64>,
    pub(crate) is_summarized: bool,
    /// Where the last summary ends, if one was written.
    pub(crate) summarized_to: Option<Lsn>,
    pub(crate) settings: KeepSettings,
    /// Files and directories that could not be read, relative to the data directory.
    pub(crate) unread: Vec<(PathBuf, KeeperError)>,
}

const PG_WAL: &str = "pg_wal";
const SLOTS: &str = "pg_replslot";

impl WalKeepers {
    pub(crate) fn read(directory: &DataDir, segment_size: u32) -> Self {
        let mut found = Self::default();
        let (root, major) = (directory.root(), directory.major());
        found.read_segments(root, segment_size);
        found.read_ready(root, segment_size);
        found.read_slots(root, major);
        let settings = Settings::read(root);
        found.settings = KeepSettings::of(&settings, segment_size);
        if settings.get("summarize_wal").is_some_and(is_true) {
            found.is_summarized = true;
            found.read_summaries(root);
        }
        found
    }

    /// Names in a directory of the data directory; none where there is no such directory.
    fn names(&mut self, root: &Path, of: &str) -> Vec<String> {
        match list(&root.join(of)) {
            Ok(entries) => entries.into_iter().filter_map(|(name, _)| name.into_string().ok()).collect(),
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => {
                self.unread.push((of.into(), error.into()));
                Vec::new()
            }
        }
    }

    fn read_segments(&mut self, root: &Path, segment_size: u32) {
        const PAGE_ADDRESS: u64 = 8;
        for name in self.names(root, PG_WAL) {
            let Some(segment) = WalSegment::from_file_name(&name, segment_size) else { continue };
            let path = root.join(PG_WAL).join(&name);
            let read = ReadAddress::of(&path, PAGE_ADDRESS);
            match read {
                Ok(ReadAddress { size_bytes, address }) => self.segments.push(PgWalFile {
                    is_written: address.is_some() && address == segment.start_lsn(segment_size),
                    number: segment.number,
                    size_bytes,
                    name,
                }),
                // A running server has renamed or removed it.
                Err(error) if error.is_not_found() => {}
                Err(error) => self.unread.push((Path::new(PG_WAL).join(name), error.into())),
            }
        }
    }

    fn read_ready(&mut self, root: &Path, segment_size: u32) {
        for name in self.names(root, ARCHIVE_STATUS) {
            let digits = name.strip_suffix(".ready").unwrap_or_default();
            let Some(segment) = WalSegment::from_file_name(digits, segment_size) else { continue };
            let metadata = root.join(ARCHIVE_STATUS).join(&name).symlink_metadata();
            let modified = metadata.and_then(|metadata| metadata.modified()).ok();
            let since = modified.and_then(|time| i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok());
            self.ready_since_s = [self.ready_since_s, since].into_iter().flatten().min();
            self.ready.push(segment.number);
        }
    }

    fn read_slots(&mut self, root: &Path, major: Major) {
        // A crash leaves NAME.tmp of a slot that was being made or dropped.
        for name in self.names(root, SLOTS).into_iter().filter(|name| !name.ends_with(".tmp")) {
            let file = Path::new(SLOTS).join(&name).join("state");
            let read = open_inside(root, &file)
                .and_then(|_| read_small(&root.join(&file), Links::Refuse, MAX_STATE_BYTES))
                .map_err(KeeperError::from);
            match read.and_then(|bytes| SlotState::decode(&bytes, major).map_err(KeeperError::State)) {
                Ok(state) => self.slots.push(Slot { name, state }),
                Err(error) => self.unread.push((file, error)),
            }
        }
    }

    fn read_summaries(&mut self, root: &Path) {
        for name in self.names(root, SUMMARIES) {
            let digits = name.strip_suffix(".summary").filter(|digits| digits.len() == 40 && digits.is_ascii());
            let end = digits.and_then(|digits| u64::from_str_radix(digits.get(24..)?, 16).ok()).map(Lsn);
            self.summarized_to = self.summarized_to.max(end);
        }
    }
}

/// What a segment file begins with.
struct ReadAddress {
    size_bytes: u64,
    address: Option<Lsn>,
}

impl ReadAddress {
    fn of(path: &Path, at: u64) -> Result<Self, AccessError> {
        let file = super::open::ReadFile::open(path, Links::Refuse)?;
        let bytes = file.bytes_at(at, 8)?.unwrap_or_default();
        Ok(Self { size_bytes: file.size_bytes(), address: u64_at(&bytes, 0).map(Lsn) })
    }
}

impl KeepSettings {
    fn of(settings: &Settings, segment_size: u32) -> Self {
        const MB: u64 = 1 << 20;
        let segments = settings.get("wal_keep_segments").and_then(|text| text.trim().parse::<u64>().ok());
        let by_segments = segments.map(|segments| segments.saturating_mul(u64::from(segment_size)));
        let by_size = settings.get("wal_keep_size").and_then(|text| size_of(text, MB));
        let is_unclear = ["wal_keep_size", "max_slot_wal_keep_size"]
            .into_iter()
            .filter_map(|name| settings.get(name))
            .any(|text| size_of(text, MB).is_none() && text.trim() != "-1");
        Self {
            wal_keep_bytes: by_size.or(by_segments).unwrap_or_default(),
            max_slot_bytes: settings.get("max_slot_wal_keep_size").and_then(|text| size_of(text, MB)),
            are_complete: settings.is_complete() && !is_unclear,
        }
    }
}

/// Bytes of a size as a setting has it, without a unit in units of `usual`; `None` for -1 and other texts.
fn size_of(text: &str, usual: u64) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit.trim() {
        "" => usual,
        "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u32 = 1 << 20;

    #[test]
    fn names_of_the_archiver_are_read() {
        let mark = |name: &str| {
            let found = WalMark::of_archive_status(name, TimelineId(1), 16 * MIB)?;
            Some((found.kind, found.reaches))
        };
        assert_eq!(mark("000000010000000100000002.ready"), Some((WalMarkKind::Ready, Lsn(0x1_0300_0000))));
        assert_eq!(mark("000000010000000100000002.done"), Some((WalMarkKind::Done, Lsn(0x1_0200_0000))));
        for name in [
            "000000020000000100000002.ready",
            "000000010000000100000002.00000028.backup.done",
            "000000010000000100000002.partial.ready",
            "00000002.history.ready",
            "0000000100000001000001FF.ready",
            ".ready",
            "",
        ] {
            assert_eq!(mark(name), None, "{name}");
        }
    }

    #[test]
    fn names_of_summaries_are_read() {
        let reaches = |name: &str| WalMark::of_summary(name, TimelineId(1)).map(|mark| mark.reaches);
        assert_eq!(reaches("0000000100000000010000280000000001A2B3C8.summary"), Some(Lsn(0x01A2_B3C8)));
        assert_eq!(reaches("0000000200000000010000280000000001A2B3C8.summary"), None);
        assert_eq!(reaches("0000000100000000010000280000000001A2B3C.summary"), None);
        assert_eq!(reaches("temp.summary"), None);
    }

    #[test]
    fn sizes_are_those_of_settings() {
        let mb = |text| size_of(text, 1 << 20).map(|bytes| bytes >> 20);
        assert_eq!(["16", "1GB", "512 MB", "2048kB"].map(mb), [Some(16), Some(1024), Some(512), Some(2)]);
        assert_eq!(["-1", "", "GB", "1e3"].map(mb), [None; 4]);
    }
}
