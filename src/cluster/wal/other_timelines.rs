//! Segments of other timelines than the one that is read: those that certainly are not part of it, and those that may be.

use std::collections::BTreeMap;

use super::notes::{NoteKind, NoteLevel, SetNote};
use crate::parsers::wal::timeline::{TimelineHistory, WalSegment};
use crate::types::{Lsn, TimelineId};

/// Why segments of another timeline are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    NotInHistory,
    /// The history says that the timeline was left before.
    LeftBefore,
    /// Without a history: the timeline that is read has a segment of the same number or an earlier one, or is older.
    Covered,
    /// Without a history: whether they come before the timeline that is read is unknown.
    NoHistory,
    /// They hold WAL up to the switch to a timeline whose own segment in that place is missing.
    UpToSwitch,
}

impl Why {
    /// True when there may be WAL of the timeline that is read in them.
    const fn may_belong(self) -> bool {
        matches!(self, Self::NoHistory | Self::UpToSwitch)
    }
}

/// Segments that are left out for the same reason.
struct Group {
    count: u64,
    first: WalSegment,
    last: WalSegment,
}

/// Facts about the timeline that is read.
pub(super) struct OtherTimelines<'a> {
    pub target: TimelineId,
    pub history: Option<&'a TimelineHistory>,
    pub size: u32,
}

impl OtherTimelines<'_> {
    /// Says of all segments that were left out how many there are of each timeline, and why. `first_used`: number of the
    /// first segment that is read; `is_used`: whether one of this number is.
    pub(super) fn notes(
        &self,
        left_out: &[WalSegment],
        first_used: u64,
        is_used: impl Fn(u64) -> bool,
    ) -> Vec<SetNote> {
        let mut groups: BTreeMap<(TimelineId, Why), Group> = BTreeMap::new();
        for segment in left_out {
            let why = self.why(*segment, first_used, &is_used);
            let group = groups.entry((segment.tli, why)).or_insert(Group { count: 0, first: *segment, last: *segment });
            group.count = group.count.saturating_add(1);
            group.first = group.first.min(*segment);
            group.last = group.last.max(*segment);
        }
        groups.into_iter().map(|((tli, why), group)| self.note(tli, why, &group)).collect()
    }

    fn why(&self, segment: WalSegment, first_used: u64, is_used: impl Fn(u64) -> bool) -> Why {
        match self.history {
            Some(history) if !history.timelines().contains(&segment.tli) => Why::NotInHistory,
            Some(history) => {
                let start = segment.start_lsn(self.size);
                let is_part = start.is_some_and(|start| history.tli_at(start) == segment.tli);
                if is_part && !is_used(segment.number) { Why::UpToSwitch } else { Why::LeftBefore }
            }
            // The first segment of a timeline begins with what its ancestor had written of it.
            None if segment.tli < self.target && segment.number < first_used => Why::NoHistory,
            None => Why::Covered,
        }
    }

    fn note(&self, tli: TimelineId, why: Why, group: &Group) -> SetNote {
        let target = self.target;
        let name = |segment: &WalSegment| segment.file_name(self.size).unwrap_or_default();
        let which = match group.count {
            1 => format!("1 segment ({})", name(&group.first)),
            count => format!("{count} segments ({} to {})", name(&group.first), name(&group.last)),
        };
        let what = match why {
            Why::NotInHistory => {
                format!("{which} left out: timeline {tli} is not in the history of timeline {target}")
            }
            Why::LeftBefore => format!(
                "{which} left out: not part of the history of timeline {target}, which left timeline {tli} before their end"
            ),
            Why::Covered => format!("{which} left out: timeline {tli} is not the one that is read, {target}"),
            Why::NoHistory => format!(
                "{which} not checked: whether timeline {target} continues timeline {tli} is unknown without {}",
                TimelineHistory::file_name(target)
            ),
            Why::UpToSwitch => format!(
                "{which} not checked: the history of timeline {target} leaves timeline {tli} inside, and the segment \
                 of the next timeline, which is read instead, is missing"
            ),
        };
        let level = if why.may_belong() { NoteLevel::Skipped } else { NoteLevel::Note };
        let note = SetNote::new(NoteKind::OtherTimeline, level, None, what);
        SetNote { wal_end: self.end_of(group.last).filter(|_| why.may_belong()), ..note }
    }

    fn end_of(&self, segment: WalSegment) -> Option<Lsn> {
        segment.start_lsn(self.size).map(|start| start.advanced_by(u64::from(self.size)))
    }
}
