//! The history of one page, row by row: what WAL says of it and of its files, where WAL is missing, and where replay would
//! begin.

use std::ops::Range;

use strum::IntoStaticStr;

use crate::analysis::changes::events::{BlockEvent, FileEvent};
use crate::analysis::changes::history::WalHistory;
use crate::analysis::start::missing_wal::{MissingSegments, WalNames};
use crate::types::{Lsn, PageId};

/// An address that divides the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Mark {
    /// Replay begins here.
    Redo,
    /// The last checkpoint that `pg_control` knows.
    Checkpoint,
}

impl Mark {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// WAL that was not read: nothing is known of the page there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalGap {
    /// From the end of the last record before it to the start of the first one after it.
    pub range: Range<Lsn>,
    /// The segments that are missing; none where they are there and cannot be read to their end.
    pub missing: MissingSegments,
}

impl WalGap {
    /// The gaps between the stretches of WAL that were read.
    pub fn between(history: &WalHistory, names: &WalNames) -> Vec<Self> {
        let pairs = history.stretches().iter().zip(history.stretches().iter().skip(1));
        let gap = |range: Range<Lsn>| Self { missing: names.missing(range.start, range.end), range };
        pairs.map(|(before, after)| gap(before.end..after.start)).collect()
    }
}

/// A row of the history.
#[derive(Clone, Copy, Debug)]
pub enum HistoryRow<'a> {
    /// A record that touches the page, with its number from 1.
    Record(usize, &'a BlockEvent),
    /// The files that hold the page come, go or shrink.
    File(&'a FileEvent),
    /// WAL that was not read.
    Gap(&'a WalGap),
    /// An address that divides the history.
    Mark(Mark, Lsn),
}

impl HistoryRow<'_> {
    /// Where it stands; at the same address marks come first.
    fn order(&self) -> (Lsn, u8) {
        match self {
            Self::Record(_, event) => (event.start_lsn, 3),
            Self::File(event) => (event.start_lsn, 2),
            Self::Gap(gap) => (gap.range.start, 1),
            Self::Mark(_, lsn) => (*lsn, 0),
        }
    }
}

/// The history of the page at `index`, by LSN.
pub(crate) fn history_rows<'a>(
    history: &'a WalHistory,
    (index, page): (usize, PageId),
    gaps: &'a [WalGap],
    marks: &[(Mark, Lsn)],
) -> Vec<HistoryRow<'a>> {
    let records = history.events(index).iter().zip(1..).map(|(event, number)| HistoryRow::Record(number, event));
    let files = history.file_events(page).map(HistoryRow::File);
    let marks = marks.iter().map(|(mark, lsn)| HistoryRow::Mark(*mark, *lsn));
    let mut rows: Vec<HistoryRow<'_>> =
        marks.chain(gaps.iter().map(HistoryRow::Gap)).chain(files).chain(records).collect();
    rows.sort_by_key(HistoryRow::order);
    rows
}
