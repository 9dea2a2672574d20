//! The LSNs that a page had, record by record. A full-page image holds the page as it was before its record, with the LSN of
//! the record before: where that is another one, a change of the page is missing in what was read.

use super::events::{BlockEvent, Touch};
use crate::parsers::wal::records::RecordKind;
use crate::parsers::wal::version::Major;
use crate::types::Lsn;

/// LSNs that a page may have at one moment, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PossibleLsns(Vec<Lsn>);

impl PossibleLsns {
    /// The page has this one.
    pub fn only(lsn: Lsn) -> Self {
        Self(vec![lsn])
    }

    /// Applies this record.
    pub(crate) fn pass(&mut self, event: &BlockEvent, major: Option<Major>) {
        match moves(event, major) {
            Moves::Surely => *self = Self::only(event.end_lsn),
            Moves::Perhaps => self.0.push(event.end_lsn),
            Moves::Never => {}
        }
    }

    /// True when the page may have this LSN.
    pub fn allow(&self, lsn: Lsn) -> bool {
        self.0.contains(&lsn)
    }

    /// The newest of them; `None` when nothing is known of the page.
    pub fn newest(&self) -> Option<Lsn> {
        self.0.last().copied()
    }
}

/// Whether a record sets the LSN of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    Surely,
    /// It depends on settings, or on whether the page was changed at all.
    Perhaps,
    Never,
}

/// Source: `log_heap_visible` and `log_heap_prune_and_freeze`, `src/backend/access/heap/`; `_hash_freeovflpage`,
/// `_hash_squeezebucket` and `hashbucketcleanup`, `src/backend/access/hash/`; `XLogSaveBufferForHint`,
/// `src/backend/access/transam/xloginsert.c`.
fn moves(event: &BlockEvent, major: Option<Major>) -> Moves {
    match event.touch {
        Touch::MapBits => Moves::Never,
        // The page gets the LSN when the hint bits are set; redo without an image does nothing.
        Touch::Hint => Moves::Perhaps,
        Touch::Image { .. } | Touch::Init => Moves::Surely,
        Touch::Change => {
            let is_perhaps = match event.record.kind {
                RecordKind::Heap2Visible => event.block_id == 1,
                // From 19 on these set bits of the map too, with nothing to be done to the heap page.
                kind if kind.is_prune_and_freeze() => major.is_none_or(|major| major.facts().prunes_set_map_bits),
                // A page of the bucket is named for its lock alone.
                RecordKind::HashMovePageContents | RecordKind::HashDelete => event.block_id == 0,
                RecordKind::HashSqueezePage => event.block_id <= 1,
                _ => false,
            };
            if is_perhaps { Moves::Perhaps } else { Moves::Surely }
        }
    }
}

/// An image that has another LSN inside than the records before it leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerLsn {
    /// Start of the record with the image.
    pub record_lsn: Lsn,
    /// The LSN inside it.
    pub found: Lsn,
    /// End of the last record before it that sets the LSN of the page.
    pub expected: Lsn,
}

/// The first of these records of one page, which follow each other without a gap, whose image shows that a record before it
/// is not among them. `is_new`: between the two records the page was removed, so that nothing is known of it.
pub fn broken_at<'a>(
    events: impl IntoIterator<Item = &'a BlockEvent>,
    major: Option<Major>,
    is_new: &dyn Fn(Lsn, Lsn) -> bool,
) -> Option<InnerLsn> {
    let mut known: Option<(Lsn, PossibleLsns)> = None;
    for event in events {
        let before = known.take().filter(|(start, _)| !is_new(*start, event.start_lsn)).map(|(_, lsns)| lsns);
        if let (Some(lsns), Touch::Image { prior_lsn, .. }) = (&before, &event.touch)
            && let Some(expected) = lsns.newest()
            // One that was built in memory has none.
            && *prior_lsn != Lsn::INVALID
            && !lsns.allow(*prior_lsn)
        {
            return Some(InnerLsn { record_lsn: event.start_lsn, found: *prior_lsn, expected });
        }
        let mut lsns = before.unwrap_or_default();
        lsns.pass(event, major);
        known = Some((event.start_lsn, lsns));
    }
    None
}
