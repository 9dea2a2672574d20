//! Names beside segments that show how far WAL had been written and synced, whether the segments are there or not.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::open::AccessError;
use crate::parsers::wal::timeline::WalSegment;
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
}
