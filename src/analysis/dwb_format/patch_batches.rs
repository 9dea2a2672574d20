//! Batches of the patch's buffer, as far as they can be distinguished: by sequence numbers, or by LSNs alone.

use super::BatchPart;
use super::patch_ring::PatchRing;
use crate::analysis::staleness::{BatchVerdict, Confidence};
use crate::analysis::trace::{FileTrace, SlotClass};
use crate::parsers::dwb::SlotIdRule;
use crate::types::Lsn;

/// Slots with an LSN that must lie on each side of a boundary found by LSNs alone.
const BOUNDARY_SLOTS: usize = 8;

/// Splits the slots that are not current. Leftovers of an older batch stand after those of a newer one, so where all
/// LSNs before an index are higher than all after it, a batch ends; in layouts with a sequence number, a batch ends
/// where the number does not continue. Returns a part for each slot of each file.
pub(super) fn split_parts(staleness: &PatchRing) -> Vec<Vec<BatchPart>> {
    let traces = staleness.traces();
    let mut parts: Vec<Vec<BatchPart>> =
        traces.iter().map(|trace| vec![BatchPart::default(); trace.slots.len()]).collect();
    let mut number = 0_usize;
    for (file, trace) in traces.iter().enumerate() {
        let leftover: Vec<usize> = (0..trace.slots.len())
            .filter(|index| {
                let verdict = staleness.verdict_of(file, u64::try_from(*index).unwrap_or(u64::MAX));
                verdict.is_some_and(|(verdict, _)| verdict != BatchVerdict::Current)
            })
            .collect();
        let borders = match trace.slot_id_rule {
            SlotIdRule::Sequence => sequence_borders(trace, &leftover),
            SlotIdRule::Position | SlotIdRule::NotStored => lsn_borders(trace, &leftover),
        };
        let confidence = match trace.slot_id_rule {
            SlotIdRule::Sequence => Confidence::Likely,
            SlotIdRule::Position | SlotIdRule::NotStored => Confidence::Possible,
        };
        let own_file = trace.checkpoint_lsn.is_some() && trace.checkpoint_lsn != staleness.header_lsn;
        if own_file || trace.slot_id_rule == SlotIdRule::Sequence {
            number = number.saturating_add(1);
        }
        for (at, index) in leftover.iter().enumerate() {
            if borders.contains(&at) {
                number = number.saturating_add(1);
            }
            if let Some(part) = parts.get_mut(file).and_then(|parts| parts.get_mut(*index)) {
                *part = BatchPart { number, confidence };
            }
        }
    }
    parts
}

/// Indexes in `leftover` where the sequence number does not follow the one before.
fn sequence_borders(trace: &FileTrace, leftover: &[usize]) -> Vec<usize> {
    let id = |at: usize| leftover.get(at).and_then(|index| trace.slots.get(*index)).map(|slot| slot.slot_id);
    (1..leftover.len())
        .filter(|at| id(*at) != id(at.saturating_sub(1)).and_then(|before| before.checked_add(1)))
        .collect()
}

/// Indexes in `leftover` before which every LSN is higher than every LSN from there on.
fn lsn_borders(trace: &FileTrace, leftover: &[usize]) -> Vec<usize> {
    let with_lsn: Vec<(usize, Lsn)> = (0..)
        .zip(leftover)
        .filter_map(|(at, index)| Some((at, trace.slots.get(*index)?)))
        .filter(|(_, slot)| slot.class == SlotClass::Usable && slot.lsn.is_valid())
        .map(|(at, slot)| (at, slot.lsn))
        .collect();
    let mut highest_after = vec![Lsn::INVALID; with_lsn.len().saturating_add(1)];
    for (at, (_, lsn)) in with_lsn.iter().enumerate().rev() {
        highest_after[at] = highest_after[at.saturating_add(1)].max(*lsn);
    }
    let mut borders = Vec::new();
    let (mut lowest_before, mut since_border) = (Lsn(u64::MAX), 0);
    for (at, (index, lsn)) in with_lsn.iter().enumerate() {
        let long_enough = since_border >= BOUNDARY_SLOTS && with_lsn.len().saturating_sub(at) >= BOUNDARY_SLOTS;
        if long_enough && lowest_before > highest_after[at] {
            borders.push(*index);
            (lowest_before, since_border) = (Lsn(u64::MAX), 0);
        }
        lowest_before = lowest_before.min(*lsn);
        since_border = since_border.saturating_add(1);
    }
    borders
}
