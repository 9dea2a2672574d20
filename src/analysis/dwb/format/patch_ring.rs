//! Which slots were written since the last completed checkpoint. No slot says so itself: nothing invalidates old slots
//! at a reset, so the answer comes from LSNs, positions and file headers together.
//!
//! Positions are handed out in order from 0 after every reset. Slots whose LSN is higher than that of the last checkpoint
//! ("candidates") were written after it; so was every slot at a position below them, unless the candidates belong to
//! the short window between the checkpoint record and the reset, in which case they stand alone at a high position.

use super::Horizon;
use crate::analysis::dwb::staleness::{BatchReason, BatchVerdict, ControlFacts};
use crate::analysis::dwb::trace::{FileTrace, SlotClass, SlotTrace};
use crate::parsers::control::DbState;
use crate::parsers::dwb::SlotIdRule;
use crate::types::Lsn;

/// Slots without proof that may lie between two candidates of one batch before the upper one counts as a window
/// slot. Twice the candidates seen so far are allowed if that is more.
const GAP_ALLOWANCE: u64 = 16;

/// How a file header's LSN stands to `pg_control`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderAge {
    Same,
    /// Older: the reset was cut off or did not reach the disk, or the DWB was off since.
    Older,
    Newer,
}

/// Judgement of all slots of a set of files.
#[derive(Debug)]
pub(crate) struct PatchRing {
    files: Vec<FileTrace>,
    uses: Vec<FileUse>,
    /// The line between before and after, if there is one.
    pub horizon: Option<Horizon>,
    pub header_lsn: Option<Lsn>,
    /// That LSN against `pg_control`.
    pub header_age: Option<HeaderAge>,
    /// Slots per file of the ring in use, where known.
    pub ring_slots_per_file: u64,
    blanket: Option<(BatchVerdict, BatchReason)>,
    /// Highest position in write order that belongs to the current batch.
    frontier: Option<u64>,
    /// Lowest position in write order whose LSN is higher than that of the checkpoint.
    first_candidate: Option<u64>,
    lowest_order: u64,
    ring_slots: Option<u64>,
    /// The ring's size is known from newer slots, not by the length of the files alone.
    ring_is_proven: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileUse {
    InUse,
    OneResetOld,
    NotInUse,
}

impl PatchRing {
    /// Judges a set of files, by what their bytes and `pg_control` say; configuration files prove nothing.
    pub fn judge(files: Vec<FileTrace>, control: Option<ControlFacts>) -> Self {
        let header_lsn = files.iter().filter_map(|file| file.checkpoint_lsn).filter(|lsn| lsn.is_valid()).max();
        let header_age = control.zip(header_lsn).map(|(control, lsn)| control.age_of(lsn));
        let horizon = horizon_of(header_lsn, header_age, control);
        let uses = uses_of(&files, header_lsn);
        let blanket = match (control, header_age, horizon) {
            (Some(control), ..) if control.is_backup => Some((BatchVerdict::Undecided, BatchReason::Backup)),
            (Some(control), ..) if control.wal_was_reset => Some((BatchVerdict::Undecided, BatchReason::WalWasReset)),
            (_, Some(HeaderAge::Newer), _) => Some((BatchVerdict::Undecided, BatchReason::ForeignControl)),
            (Some(control), ..) if control.state == DbState::SHUT_DOWN => {
                Some((BatchVerdict::Stale, BatchReason::ShutDown))
            }
            (Some(control), ..) if control.in_archive_recovery => Some((BatchVerdict::Undecided, BatchReason::Standby)),
            (.., None) => Some((BatchVerdict::Undecided, BatchReason::NoCheckpointKnown)),
            (None, ..) => Some((BatchVerdict::Undecided, BatchReason::HeaderOnly)),
            _ => None,
        };
        let mut judged = Self {
            ring_slots_per_file: ring_slots_per_file(&files, &uses, horizon),
            files,
            uses,
            horizon,
            header_lsn,
            header_age,
            blanket,
            frontier: None,
            first_candidate: None,
            lowest_order: u64::MAX,
            ring_slots: None,
            ring_is_proven: false,
        };
        judged.ring_slots = judged.find_ring_slots();
        judged.ring_is_proven = judged.ring_slots.is_some() && judged.is_ring_shown_by_newer_slots();
        judged.walk();
        judged
    }

    /// Answer for slot `index` of the file at `file` in the set; `None` for an empty slot.
    pub fn verdict_of(&self, file: usize, index: u64) -> Option<(BatchVerdict, BatchReason)> {
        use BatchReason as R;
        use BatchVerdict::{Current, Stale, Undecided};
        let trace = self.files.get(file)?;
        let slot = trace.slots.get(usize::try_from(index).ok()?)?;
        match slot.class {
            SlotClass::Empty => return None,
            SlotClass::Unreliable => return Some((Undecided, R::Unreliable)),
            SlotClass::Usable => {}
        }
        let candidate = self.is_candidate(slot);
        let other_geometry = self.is_other_geometry(trace, index, slot);
        if other_geometry && !candidate && self.ring_is_proven {
            return Some((Stale, R::OtherGeometry));
        }
        if self.blanket.is_some() {
            return self.blanket;
        }
        if other_geometry && !candidate {
            return Some((Undecided, R::OtherGeometry));
        }
        if other_geometry {
            return Some((Current, R::NewerThanCheckpoint));
        }
        let order = self.order(trace, index, slot);
        let Some(order) = order.filter(|_| self.uses.get(file) == Some(&FileUse::InUse)) else {
            return Some(match self.uses.get(file) {
                _ if candidate => (Current, R::NewerThanCheckpoint),
                Some(FileUse::NotInUse) => (Stale, R::FileNotInUse),
                Some(FileUse::OneResetOld) => (Undecided, R::HeaderOneResetOld),
                _ => (Undecided, R::NoEvidence),
            });
        };
        if !trace.restarts_at_checkpoint {
            return Some(match self.first_candidate {
                _ if candidate => (Current, R::NewerThanCheckpoint),
                Some(first) if order > first => (Current, R::AfterNewer),
                _ => (Undecided, R::NoEvidence),
            });
        }
        let in_batch = self.frontier.is_some_and(|frontier| order <= frontier);
        let earlier_round = trace.slot_id_rule == SlotIdRule::Sequence
            && self.ring_is_proven
            && self.ring_slots.is_some_and(|slots| self.lowest_order.saturating_add(slots) <= order);
        Some(match (in_batch, candidate) {
            (true, true) => (Current, R::NewerThanCheckpoint),
            (true, false) => (Current, R::BelowNewer),
            (false, true) => (Undecided, R::PossibleWindow),
            (false, false) if earlier_round => (Stale, R::EarlierRound),
            (false, false) => (Undecided, R::NoEvidence),
        })
    }

    /// The slots that were judged, file by file.
    pub(crate) fn traces(&self) -> &[FileTrace] {
        &self.files
    }

    /// True when candidates reach from the start to the last position of the ring: earlier images of this batch have very
    /// probably been overwritten.
    pub(crate) fn has_wrapped(&self) -> bool {
        let numbers: Vec<Option<u32>> = self.in_use().map(|file| file.number).collect();
        let whole = numbers.iter().copied().eq((0..).map(Some).take(numbers.len()));
        let full = self.in_use().all(|file| file.slots.iter().all(|slot| slot.class != SlotClass::Empty));
        if self.blanket.is_some() || !whole || !full {
            return false;
        }
        let last = self.in_use().filter_map(|file| {
            let at = u64::try_from(file.slots.len()).unwrap_or(u64::MAX).min(self.ring_slots_per_file);
            Some(u64::from(file.number?).saturating_mul(self.ring_slots_per_file).saturating_add(at.checked_sub(1)?))
        });
        self.frontier.zip(last.max()).is_some_and(|(frontier, last)| frontier >= last)
    }

    fn in_use(&self) -> impl Iterator<Item = &FileTrace> {
        self.files.iter().zip(&self.uses).filter(|(_, used)| **used == FileUse::InUse).map(|(file, _)| file)
    }

    /// Slots in the whole ring by the files that are there.
    fn apparent_ring_slots(&self) -> Option<u64> {
        let files = self.in_use().filter_map(|file| file.number).max()?;
        self.ring_slots_per_file.checked_mul(u64::from(files) + 1).filter(|slots| *slots > 0)
    }

    /// True when there are newer slots whose number depends on the ring's size: any in a sequence, those of a file other
    /// than the first by position.
    fn is_ring_shown_by_newer_slots(&self) -> bool {
        self.in_use().any(|file| {
            let depends = file.slot_id_rule == SlotIdRule::Sequence || file.number.is_some_and(|number| number > 0);
            depends && file.slots.iter().any(|slot| self.is_candidate(slot))
        })
    }

    /// The number of slots in the ring that the newer slots' sequence numbers bear out; `None` when one of them does
    /// not stand where it should, as when a file is missing.
    fn find_ring_slots(&self) -> Option<u64> {
        let slots = self.apparent_ring_slots()?;
        let fits = |file: &FileTrace| {
            let base = u64::from(file.number.unwrap_or(0)).saturating_mul(self.ring_slots_per_file);
            (base..)
                .zip(&file.slots)
                .filter(|(_, slot)| self.is_candidate(slot))
                .all(|(position, slot)| u64::from(slot.slot_id).checked_rem(slots).unwrap_or_default() == position)
        };
        self.in_use().filter(|file| file.slot_id_rule == SlotIdRule::Sequence).all(fits).then_some(slots)
    }

    fn is_candidate(&self, slot: &SlotTrace) -> bool {
        slot.class == SlotClass::Usable && self.horizon.is_some_and(|horizon| slot.lsn > horizon.lsn)
    }

    fn is_other_geometry(&self, file: &FileTrace, index: u64, slot: &SlotTrace) -> bool {
        let Some(number) = file.number else { return false };
        let position = u64::from(number).checked_mul(self.ring_slots_per_file).and_then(|base| base.checked_add(index));
        let stored = match file.slot_id_rule {
            SlotIdRule::Position => Some(u64::from(slot.slot_id)),
            SlotIdRule::NotStored => None,
            SlotIdRule::Sequence => {
                self.ring_slots.map(|slots| u64::from(slot.slot_id).checked_rem(slots).unwrap_or_default())
            }
        };
        stored.is_some_and(|stored| Some(stored) != position)
    }

    /// Position of a slot in the order in which slots are written after a reset.
    fn order(&self, file: &FileTrace, index: u64, slot: &SlotTrace) -> Option<u64> {
        match file.slot_id_rule {
            SlotIdRule::Sequence => Some(u64::from(slot.slot_id)),
            SlotIdRule::Position | SlotIdRule::NotStored => {
                u64::from(file.number.unwrap_or(0)).checked_mul(self.ring_slots_per_file)?.checked_add(index)
            }
        }
    }

    /// Positions in write order that can be examined without a missing file in between.
    fn reach(&self) -> u64 {
        let mut numbers: Vec<u32> = self.in_use().filter_map(|file| file.number).collect();
        numbers.sort_unstable();
        let by_position = self.in_use().all(|file| file.slot_id_rule == SlotIdRule::Position && file.number.is_some());
        let whole = (0_u64..).zip(&numbers).take_while(|(expected, number)| *expected == u64::from(**number)).count();
        if by_position { (whole as u64).saturating_mul(self.ring_slots_per_file) } else { u64::MAX }
    }

    /// Finds how far the current batch reaches.
    fn walk(&mut self) {
        let mut slots: Vec<(u64, bool, bool)> = Vec::new();
        for file in self.in_use() {
            for (index, slot) in (0..).zip(&file.slots) {
                if slot.class == SlotClass::Usable
                    && !self.is_other_geometry(file, index, slot)
                    && let Some(order) = self.order(file, index, slot)
                {
                    slots.push((order, self.is_candidate(slot), slot.lsn.is_valid()));
                }
            }
        }
        slots.sort_unstable();
        self.lowest_order = slots.first().map_or(u64::MAX, |(order, ..)| *order);
        self.first_candidate = slots.iter().find(|(_, candidate, _)| *candidate).map(|(order, ..)| *order);
        let reach = self.reach();
        let (mut accepted, mut gap) = (0_u64, 0_u64);
        for (order, candidate, has_lsn) in slots.into_iter().take_while(|(order, ..)| *order < reach) {
            if !candidate {
                gap = gap.saturating_add(u64::from(has_lsn));
            } else if gap <= GAP_ALLOWANCE.max(accepted.saturating_mul(2)) {
                accepted = accepted.saturating_add(1);
                gap = 0;
                self.frontier = Some(order);
            } else {
                break;
            }
        }
    }
}

impl ControlFacts {
    /// The LSN that a reset after the checkpoint of `pg_control` writes into the file headers.
    pub(crate) const fn expected_header_lsn(&self) -> Lsn {
        if self.in_archive_recovery { self.redo_lsn } else { self.checkpoint_end_lsn }
    }

    fn age_of(&self, header_lsn: Lsn) -> HeaderAge {
        // A standby has the header of its primary, copied with the base backup, until its first restartpoint.
        if header_lsn == self.checkpoint_end_lsn {
            return HeaderAge::Same;
        }
        match header_lsn.cmp(&self.expected_header_lsn()) {
            std::cmp::Ordering::Less => HeaderAge::Older,
            std::cmp::Ordering::Equal => HeaderAge::Same,
            std::cmp::Ordering::Greater => HeaderAge::Newer,
        }
    }
}

fn horizon_of(
    header_lsn: Option<Lsn>,
    header_age: Option<HeaderAge>,
    control: Option<ControlFacts>,
) -> Option<Horizon> {
    let by_control = control.map(|control| Horizon { lsn: control.expected_header_lsn(), from_control: true });
    match (header_lsn, header_age) {
        (Some(lsn), Some(HeaderAge::Same | HeaderAge::Newer) | None) => Some(Horizon { lsn, from_control: false }),
        _ => by_control,
    }
}

/// Which files take part in the ring: those with the newest header, those created or grown since the last reset, and
/// those whose header is gone.
fn uses_of(files: &[FileTrace], header_lsn: Option<Lsn>) -> Vec<FileUse> {
    let newest_batch =
        files.iter().filter(|file| file.checkpoint_lsn == header_lsn).filter_map(|file| file.batch_id).max();
    let judge = |file: &FileTrace| match file.checkpoint_lsn {
        Some(lsn) if lsn.is_valid() && Some(lsn) < header_lsn => {
            let is_one_reset_old =
                file.batch_id.zip(newest_batch).is_some_and(|(own, newest)| own.checked_add(1) == Some(newest));
            if is_one_reset_old { FileUse::OneResetOld } else { FileUse::NotInUse }
        }
        _ => FileUse::InUse,
    };
    files.iter().map(judge).collect()
}

/// Slots per file that the ring in use has: known from the `slot_id` of newer slots in a file other than the first, else by
/// the files' length.
fn ring_slots_per_file(files: &[FileTrace], uses: &[FileUse], horizon: Option<Horizon>) -> u64 {
    let line = horizon.map_or(Lsn(u64::MAX), |horizon| horizon.lsn);
    let in_use = || files.iter().zip(uses).filter(|(_, used)| **used == FileUse::InUse).map(|(file, _)| file);
    let length = in_use().map(|file| u64::try_from(file.slots.len()).unwrap_or(u64::MAX)).max().unwrap_or(0);
    let newer = |slot: &SlotTrace| slot.class == SlotClass::Usable && slot.lsn > line;
    for file in in_use().filter(|file| file.slot_id_rule == SlotIdRule::Position) {
        let Some(number) = file.number.filter(|number| *number > 0) else { continue };
        for (index, slot) in (0_u64..).zip(&file.slots).filter(|(_, slot)| newer(slot)) {
            if let Some(base) = u64::from(slot.slot_id).checked_sub(index)
                && base.is_multiple_of(u64::from(number))
                && base > 0
            {
                return base.checked_div(u64::from(number)).unwrap_or_default();
            }
        }
    }
    length
}
