//! Which segments of `pg_wal` a server keeps, for whom, and what goes when that is released.
//!
//! A checkpoint removes the segments before the oldest that anything needs: recovery, slots, `wal_keep_size`, summaries.
//! Segments that wait for the archiver stay, too.
//!
//! Source: `KeepLogSeg`, `RemoveOldXlogFiles` and `XLogArchiveCheckDone`, `src/backend/access/transam`.

use std::collections::BTreeSet;

use strum::IntoStaticStr;

use crate::cluster::wal_keepers::{PgWalFile, WalKeepers};
use crate::types::Lsn;

/// Who needs segments.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Keeper {
    /// Recovery from the last checkpoint.
    Checkpoint,
    Slot {
        name: String,
        is_logical: bool,
        is_temporary: bool,
        /// It holds nothing any more.
        is_invalidated: bool,
    },
    Archiver,
    /// `wal_keep_size`, `wal_keep_segments` up to 12.
    #[strum(serialize = "wal_keep_size")]
    KeepSize,
    Summarizer,
    /// Old files under new names, to be written later.
    Recycled,
    /// Nothing: the next checkpoint removes or recycles them.
    Nothing,
    /// Nothing that was read; what could not be read may need them.
    Unknown,
}

impl Keeper {
    /// The word for JSON.
    pub(crate) fn code(&self) -> &'static str {
        self.into()
    }
}

/// What one of them keeps.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) keeper: Keeper,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    /// Those of them that nothing else keeps: releasing this one and a checkpoint remove them.
    pub(crate) alone_segments: u64,
    pub(crate) alone_bytes: u64,
    /// The oldest segment that it keeps.
    pub(crate) oldest: Option<String>,
    /// The oldest WAL that it needs, where it says so, and how far that is before the end of WAL.
    pub(crate) from_lsn: Option<Lsn>,
    pub(crate) back_bytes: Option<u64>,
}

/// Everything in `pg_wal`.
#[derive(Clone, Debug)]
pub(crate) struct KeptWal {
    /// All that keeps a segment, or could; those that keep most alone first.
    pub(crate) rows: Vec<Kept>,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    /// Name of the segment that was written last.
    pub(crate) last: Option<String>,
}

/// Whether one of them keeps the segment of this number.
type Keeps<'a> = Box<dyn Fn(u64) -> bool + 'a>;

/// Says who keeps which segment. `needed_from`: the redo point of the last checkpoint; in 10 that of the one before.
pub(crate) fn kept_wal(found: &WalKeepers, needed_from: Lsn, segment_size: u32) -> KeptWal {
    let size = u64::from(segment_size).max(1);
    let in_segments = |bytes: u64| bytes.checked_div(size).unwrap_or_default();
    let segment_of = |lsn: Lsn| in_segments(lsn.0);
    let last = found.segments.iter().filter(|file| file.is_written).max_by_key(|file| file.number);
    let end = last.map_or_else(|| segment_of(needed_from), |last| last.number.max(segment_of(needed_from)));
    let ready: BTreeSet<u64> = found.ready.iter().copied().collect();
    let mut wants: Vec<(Keeper, Option<Lsn>, Keeps<'_>)> = Vec::new();
    let redo = segment_of(needed_from);
    wants.push((Keeper::Checkpoint, Some(needed_from), Box::new(move |number| number >= redo)));
    for slot in &found.slots {
        let state = slot.state;
        let from = state.restart_lsn.filter(|_| !state.is_invalidated);
        // No slot keeps more than this.
        let limit = found.settings.max_slot_bytes.map_or(0, |bytes| end.saturating_sub(in_segments(bytes)));
        let first = from.map(|lsn| segment_of(lsn).max(limit));
        let keeper = Keeper::Slot {
            name: slot.name.clone(),
            is_logical: state.is_logical,
            is_temporary: state.is_temporary,
            is_invalidated: state.is_invalidated,
        };
        wants.push((keeper, from, Box::new(move |number| first.is_some_and(|first| number >= first))));
    }
    if !ready.is_empty() {
        wants.push((Keeper::Archiver, None, Box::new(|number| ready.contains(&number))));
    }
    let keep_segments = in_segments(found.settings.wal_keep_bytes);
    if keep_segments > 0 {
        let first = end.saturating_sub(keep_segments);
        wants.push((Keeper::KeepSize, None, Box::new(move |number| number >= first)));
    }
    if found.is_summarized {
        // Without a summary all WAL waits for the first one.
        let first = found.summarized_to.map_or(0, segment_of);
        wants.push((Keeper::Summarizer, found.summarized_to, Box::new(move |number| number >= first)));
    }
    let old: Vec<&PgWalFile> = found.segments.iter().filter(|file| file.number <= end).collect();
    let keepers_of = |number: u64| wants.iter().filter(|(_, _, keeps)| keeps(number)).count();
    let sum = |files: &[&PgWalFile]| (files.len() as u64, files.iter().map(|file| file.size_bytes).sum::<u64>());
    let row = |keeper: Keeper, from_lsn: Option<Lsn>, files: &[&PgWalFile], alone: &[&PgWalFile]| {
        let ((segments, bytes), (alone_segments, alone_bytes)) = (sum(files), sum(alone));
        let oldest = files.iter().min_by_key(|file| file.number).map(|file| file.name.clone());
        let end_lsn = Lsn(end.saturating_add(1).saturating_mul(size));
        let back_bytes = from_lsn.and_then(|lsn| end_lsn.bytes_since(lsn));
        Kept { keeper, segments, bytes, alone_segments, alone_bytes, oldest, from_lsn, back_bytes }
    };
    let mut rows: Vec<Kept> = Vec::new();
    for (keeper, from_lsn, keeps) in &wants {
        let files: Vec<&PgWalFile> = old.iter().copied().filter(|file| keeps(file.number)).collect();
        let alone: Vec<&PgWalFile> = files.iter().copied().filter(|file| keepers_of(file.number) == 1).collect();
        rows.push(row(keeper.clone(), *from_lsn, &files, &alone));
    }
    let nobody: Vec<&PgWalFile> = old.iter().copied().filter(|file| keepers_of(file.number) == 0).collect();
    let later: Vec<&PgWalFile> = found.segments.iter().filter(|file| file.number > end).collect();
    let unclaimed = if found.unread.is_empty() { Keeper::Nothing } else { Keeper::Unknown };
    for (keeper, files) in [(unclaimed, nobody), (Keeper::Recycled, later)] {
        if !files.is_empty() {
            rows.push(row(keeper, None, &files, &files));
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse((row.alone_bytes, row.bytes)));
    let (segments, bytes) = sum(&found.segments.iter().collect::<Vec<_>>());
    KeptWal { rows, segments, bytes, last: last.map(|last| last.name.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::open::AccessError;
    use crate::cluster::wal_keepers::{KeepSettings, Slot};
    use crate::parsers::state_files::SlotState;

    const SIZE: u32 = 1 << 20;

    /// Segments 1 to 12, of which 11 and 12 were never written; a slot at 3, one that waits for the archiver.
    fn found(settings: KeepSettings) -> WalKeepers {
        let file = |number: u64| PgWalFile {
            name: number.to_string(),
            number,
            size_bytes: SIZE.into(),
            is_written: number <= 10,
        };
        let state =
            SlotState { is_logical: true, is_temporary: false, restart_lsn: Some(Lsn(3 << 20)), is_invalidated: false };
        WalKeepers {
            segments: (1..=12).map(file).collect(),
            slots: vec![Slot { name: "s".to_owned(), state }],
            ready: vec![2, 4],
            settings,
            ..WalKeepers::default()
        }
    }

    fn rows(found: &WalKeepers) -> Vec<(&'static str, u64, u64)> {
        let kept = kept_wal(found, Lsn(9 << 20), SIZE);
        let mut rows: Vec<_> =
            kept.rows.iter().map(|row| (row.keeper.code(), row.segments, row.alone_segments)).collect();
        rows.sort_unstable();
        rows
    }

    #[test]
    fn what_only_one_keeps_goes_when_it_is_released() {
        let all = rows(&found(KeepSettings::default()));
        let wanted = [("archiver", 2, 1), ("checkpoint", 2, 0), ("nothing", 1, 1), ("recycled", 2, 2), ("slot", 8, 5)];
        assert_eq!(all, wanted);
    }

    #[test]
    fn what_a_slot_that_cannot_be_read_may_keep_is_kept_by_nobody_known() {
        let unread = AccessError::io(
            "open",
            std::path::Path::new("pg_replslot/s/state"),
            std::io::ErrorKind::PermissionDenied.into(),
        );
        let found = WalKeepers {
            unread: vec![("pg_replslot/s/state".into(), unread.into())],
            ..found(KeepSettings::default())
        };
        let all = rows(&found);
        assert!(all.contains(&("unknown", 1, 1)) && !all.iter().any(|(code, ..)| *code == "nothing"), "{all:?}");
    }

    #[test]
    fn without_a_summary_all_waits_for_the_first() {
        let found = WalKeepers { is_summarized: true, ..found(KeepSettings::default()) };
        let all = rows(&found);
        assert!(all.contains(&("summarizer", 10, 1)) && !all.iter().any(|(code, ..)| *code == "nothing"), "{all:?}");
    }

    #[test]
    fn limit_of_slots_and_kept_size_count_from_the_end() {
        let limited = KeepSettings { max_slot_bytes: Some(4 << 20), ..KeepSettings::default() };
        assert!(rows(&found(limited)).contains(&("slot", 5, 3)));
        let kept = KeepSettings { wal_keep_bytes: 6 << 20, ..KeepSettings::default() };
        let all = rows(&found(kept));
        assert!(all.contains(&("wal_keep_size", 7, 0)) && all.contains(&("slot", 8, 1)), "{all:?}");
    }
}
