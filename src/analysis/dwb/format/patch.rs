//! The buffer of the PostgreSQL patch: `pg_dwbuf`, its rules and what looks wrong about it.
//! Also here: batches of the patch's buffer, as far as they can be distinguished: by sequence numbers, or by LSNs
//! alone.

use super::patch_ring::{HeaderAge, PatchRing};
use super::{BatchPart, DwbFormat, HeldSlot, Horizon, RingInput, RingJudgement, RingSummary};
use crate::analysis::dwb::staleness::{BatchReason, BatchVerdict, Confidence};
use crate::analysis::dwb::trace::{ClusterFacts, FileTrace, SlotClass};
use crate::analysis::start::doubt::Doubt;
use crate::cluster::dwb_files::DwbFile;
use crate::parsers::dwb::patch::PatchDirectory;
use crate::parsers::dwb::{DwbDirectory, Ring, SlotIdRule};
use crate::report::{Finding, rules};
use crate::types::Lsn;

#[derive(Debug)]
pub(crate) struct PatchFormat;

impl DwbFormat for PatchFormat {
    fn directory(&self) -> &'static dyn DwbDirectory {
        &PatchDirectory
    }

    fn judge(&self, input: RingInput<'_>) -> Box<dyn RingJudgement> {
        Box::new(PatchRing::judge(input.traces, input.facts.control))
    }
}

impl RingJudgement for PatchRing {
    fn verdict(&self, file: usize, index: u64) -> Option<(BatchVerdict, BatchReason)> {
        self.verdict_of(file, index)
    }

    fn split(&self) -> Vec<Vec<BatchPart>> {
        split_parts(self)
    }

    fn horizon(&self) -> Option<Horizon> {
        self.horizon
    }

    fn doubts(&self) -> Vec<Doubt> {
        let foreign = self.header_age == Some(HeaderAge::Newer);
        foreign.then_some(Doubt::DwbNewerThanControl).into_iter().collect()
    }

    /// The patched server remembers the largest slot LSN; of equals the first that it reads, or with sequence numbers the
    /// last written. It does not use an image that it considers damaged.
    fn server_choice(&self, held: &[HeldSlot]) -> Option<usize> {
        let trace = |slot: &HeldSlot| self.traces().get(slot.file);
        let key = |slot: &HeldSlot| {
            let is_sequence = trace(slot).is_some_and(|file| file.slot_id_rule == SlotIdRule::Sequence);
            let order =
                if is_sequence { (u64::from(slot.slot_id), 0) } else { (0, u64::MAX.saturating_sub(slot.index)) };
            (slot.slot_lsn, order, usize::MAX.saturating_sub(slot.file))
        };
        let is_read = |slot: &HeldSlot| trace(slot).is_some_and(|file| file.is_read_in_recovery);
        let known = held.iter().enumerate().filter(|(_, slot)| is_read(slot));
        let chosen = known.max_by_key(|(_, slot)| key(slot));
        chosen.filter(|(_, slot)| slot.is_sound).map(|(index, _)| index)
    }

    fn findings(&self, files: &[&DwbFile], facts: &ClusterFacts) -> Vec<Finding> {
        let mut findings = Vec::new();
        inspect_ring(files, self, facts, &mut findings);
        findings
    }

    fn summary(&self) -> Option<RingSummary> {
        None
    }
}

/// Findings about the files together and against the control file.
fn inspect_ring(files: &[&DwbFile], staleness: &PatchRing, facts: &ClusterFacts, findings: &mut Vec<Finding>) {
    let ring = files.first().zip(facts.setting_mb).and_then(|(file, mb)| ring_of(file, mb));
    let newest_lsn = staleness.header_lsn.unwrap_or_default();
    let expected_lsn = facts.control.map(|control| control.expected_header_lsn()).unwrap_or_default();
    match staleness.header_age {
        Some(HeaderAge::Older) => {
            findings.push(
                HEADER_OLDER_THAN_CONTROL
                    .problem(format!("the newest file header says {newest_lsn}, pg_control says {expected_lsn}")),
            );
        }
        Some(HeaderAge::Newer) => {
            findings.push(
                HEADER_NEWER_THAN_CONTROL
                    .problem(format!("the newest file header says {newest_lsn}, pg_control says {expected_lsn}")),
            );
        }
        Some(HeaderAge::Same) | None => {}
    }
    let mut numbers: Vec<u32> = files.iter().filter_map(|file| file.number).collect();
    numbers.sort_unstable();
    let of_directory = facts.control.is_some();
    for missing in (0..numbers.last().copied().unwrap_or(0)).filter(|number| of_directory && !numbers.contains(number))
    {
        let last = numbers.last().copied().unwrap_or_default();
        findings
            .push(MISSING_FILE.problem(format!("file {missing} of the buffer is missing, but file {last} is there")));
    }
    for (index, file) in files.iter().enumerate() {
        let Some(header) = file.detection.sound_header() else { continue };
        let (Some(batch), Some(lsn)) = (header.batch_id, header.checkpoint_lsn) else { continue };
        if !lsn.is_valid() && file.detection.layout.restarts_at_checkpoint() {
            let never = NEVER_RESET.note("no checkpoint has completed since this file was created or extended");
            let never = if facts.control.is_some() { never } else { never.because(CHECKPOINT_UNKNOWN) };
            findings.push(never.in_file(&file.name));
        } else if Some(lsn) < staleness.header_lsn {
            findings.push(
                HEADER_OUTDATED
                    .problem(format!("its header says batch {batch} at {lsn}, the newest header {newest_lsn}"))
                    .in_file(&file.name),
            );
        }
        let other = files.iter().take(index).find(|other| {
            other.detection.layout.name() != file.detection.layout.name()
                || other.detection.block_size != file.detection.block_size
        });
        if let Some(other) = other {
            findings.push(
                MIXED_LAYOUTS.problem(format!("another layout or page size than {}", other.name)).in_file(&file.name),
            );
        }
    }
    let mut geometry = std::collections::BTreeMap::<&str, u64>::new();
    for (index, file) in files.iter().enumerate() {
        let other = (0..file.detection.slot_count)
            .filter(|slot| matches!(staleness.verdict_of(index, *slot), Some((_, BatchReason::OtherGeometry))));
        let count = u64::try_from(other.count()).unwrap_or(u64::MAX);
        if count > 0 {
            geometry.insert(&file.name, count);
        }
    }
    for (name, count) in geometry {
        let slots_per_file = staleness.ring_slots_per_file;
        let first = files.iter().any(|file| file.name == name && file.number == Some(0));
        let finding = if first {
            // In the first file the position is the same under every setting.
            SLOT_ID.problem(format!("{count} slots belong to another number of slots than the {slots_per_file} in use"))
        } else {
            OTHER_GEOMETRY
                .note(format!("{count} slots belong to another number of slots than the {slots_per_file} in use"))
        };
        findings.push(finding.in_file(name));
    }
    if let Some(ring) = ring.filter(|ring| {
        let count = u64::try_from(files.len()).unwrap_or(u64::MAX);
        ring.files != count || files.iter().any(|file| file.detection.slot_count != ring.slots_per_file)
    }) {
        let (files, slots_per_file) = (ring.files, ring.slots_per_file);
        findings.push(
            OTHER_SIZE
                .note(format!("the configured size gives {files} files of {slots_per_file} slots, but others exist")),
        );
    }
    if staleness.has_wrapped() {
        findings.push(WRAPPED.note("the current batch fills the whole buffer"));
    }
}

fn ring_of(file: &DwbFile, setting_mb: u32) -> Option<Ring> {
    file.detection.layout.ring(setting_mb, file.detection.block_size)
}

const CHECKPOINT_UNKNOWN: &str =
    "its header does not separate old slots from new ones, and the checkpoint of pg_control is unknown";

rules! {
    HEADER_OLDER_THAN_CONTROL: DoubleWriteBuffer "header_older_than_control",
        why: "the reset after the last checkpoint was interrupted, or the buffer has been off since then: slots may \
            be from before the redo point",
        means: "The newest header is older than `pg_control`",
        action: "Slots may be older than the redo point: treat them as stale";
    HEADER_NEWER_THAN_CONTROL: DoubleWriteBuffer "header_newer_than_control",
        why: "the buffer and this data directory do not belong together: no image is safe to use",
        means: "The newest header is newer than `pg_control`",
        action: "Buffer and cluster do not belong together";
    HEADER_OUTDATED: DoubleWriteBuffer "header_behind",
        why: "the file is left over from a larger setting, or the last reset did not reach it",
        means: "The header of a file is older than that of others",
        action: "The file is left over, or the last reset did not reach it";
    MISSING_FILE: DoubleWriteBuffer "missing_file",
        why: "its slots were not read; batches are judged cautiously",
        means: "A file is missing before other files",
        action: "Look for it";
    NEVER_RESET: DoubleWriteBuffer "never_reset",
        why: "its header does not separate old slots from new ones; the checkpoint in pg_control is used",
        means: "No checkpoint has completed since a file was created or extended",
        action: "Nothing";
    MIXED_LAYOUTS: DoubleWriteBuffer "mixed_layouts",
        why: "the files were not written by the same server; batches are judged cautiously",
        means: "Files of different layouts or page sizes",
        action: "Files of two servers were mixed";
    SLOT_ID: DoubleWriteBuffer "slot_id",
        why: "no server writes such numbers into the first file",
        means: "Slot numbers that no server writes into the first file",
        action: "Treat the slots as damaged";
    OTHER_GEOMETRY: DoubleWriteBuffer "other_geometry",
        why: "left over from another setting, though recovery still reads them",
        means: "Slots of another setting",
        action: "They are stale, though the server still reads them";
    OTHER_SIZE: DoubleWriteBuffer "other_size",
        why: "the size was changed, or the setting was not in effect: leftover slots look valid",
        means: "The configured size does not match the existing files",
        action: "Leftover slots look valid";
    WRAPPED: DoubleWriteBuffer "wrapped",
        why: "older images of this batch were probably overwritten before their pages were on disk",
        means: "The current batch fills the whole buffer",
        action: "Older images were probably overwritten";
}

/// Slots with an LSN that must lie on each side of a boundary found by LSNs alone.
const BOUNDARY_SLOTS: usize = 8;

/// Splits the slots that are not current. Leftovers of an older batch stand after those of a newer one, so where all
/// LSNs before an index are higher than all after it, a batch ends; in layouts with a sequence number, a batch ends
/// where the number does not continue. Returns a part for each slot of each file.
pub(crate) fn split_parts(staleness: &PatchRing) -> Vec<Vec<BatchPart>> {
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
