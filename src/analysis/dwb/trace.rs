//! First pass over a DWB file: the few bytes of each slot that the judgement of whole batches needs.

use std::ops::ControlFlow;

use super::slot_facts::{Condition, PageChecksum, SlotFacts, WritePath};
use super::staleness::ControlFacts;
use crate::analysis::in_order::in_order;
use crate::analysis::skipped::{Coverage, SkippedPart};
use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::dwb_files::DwbFile;
use crate::parsers::control::ControlFile;
use crate::parsers::control_layout::ControlLayout;
use crate::parsers::dwb::SlotIdRule;
use crate::types::{Lsn, MIN_WAL_SEGMENT_SIZE, PageId};

/// Trace of a slot that distinguishes batches: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTrace {
    /// The newer of the slot's two LSNs; 0 when it has none (free space maps, unlogged relations).
    pub lsn: Lsn,
    /// Stored `slot_id`.
    pub slot_id: u32,
    /// Use of the slot.
    pub class: SlotClass,
}

/// Use of a slot as evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotClass {
    /// Never written.
    Empty,
    /// Written, but its content cannot be trusted.
    Unreliable,
    /// Written and trusted.
    Usable,
}

/// A DWB file as evidence.
#[derive(Clone, Debug)]
pub struct FileTrace {
    /// Number in the name.
    pub number: Option<u32>,
    /// Meaning of `slot_id`.
    pub slot_id_rule: SlotIdRule,
    /// Whether the server starts again at slot 0 after each checkpoint.
    pub restarts_at_checkpoint: bool,
    /// Whether a server that recovers looks for images here.
    pub is_read_in_recovery: bool,
    /// Whether the file header is sound.
    pub header_is_sound: bool,
    /// Resets since server start, of a sound header that has it.
    pub batch_id: Option<u64>,
    /// LSN of the last reset, of a sound header that has it.
    pub checkpoint_lsn: Option<Lsn>,
    /// Slots, in file order.
    pub slots: Vec<SlotTrace>,
    /// Runs of the slots, for a layout that stores the server run which wrote each; empty for others.
    pub runs: Vec<RunTrace>,
}

/// Facts that distinguish a slot from others of the same page, in a layout that stores server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTrace {
    /// The page, of a slot that can be trusted.
    pub page: Option<PageId>,
    /// LSN in the slot header.
    pub slot_lsn: Lsn,
    /// Number of the server run.
    pub generation: u64,
    /// Result of checking the image's checksum.
    pub page_checksum: Option<PageChecksum>,
}

/// Counts over the slots of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Slots that were examined.
    pub total: u64,
    /// Never written.
    pub empty: u64,
    /// CRC right.
    pub good: u64,
    /// CRC wrong under a header that makes sense.
    pub torn: u64,
    /// CRC wrong and header without sense.
    pub damaged: u64,
    /// CRC that proves nothing.
    pub unverifiable: u64,
    /// Given up by their writers: no image.
    pub aborted: u64,
    /// Images with a right page checksum.
    pub from_eviction: u64,
    /// Images that a checkpoint copied.
    pub from_checkpoint: u64,
    /// Images that break a rule of pages.
    pub implausible_images: u64,
    /// Slots with a right CRC whose header breaks a rule.
    pub implausible_headers: u64,
    /// Slots whose own LSN is not that of their image.
    pub lsn_mismatches: u64,
}

impl SlotCounts {
    /// Written slots.
    pub const fn used(&self) -> u64 {
        self.total.saturating_sub(self.empty)
    }

    /// Slots that fail their CRC.
    pub const fn bad(&self) -> u64 {
        self.torn.saturating_add(self.damaged)
    }

    fn add(&mut self, facts: &SlotFacts) {
        self.total = self.total.saturating_add(1);
        match facts.condition {
            Condition::Empty => self.empty = self.empty.saturating_add(1),
            Condition::Sound => self.good = self.good.saturating_add(1),
            Condition::Torn => self.torn = self.torn.saturating_add(1),
            Condition::Damaged => self.damaged = self.damaged.saturating_add(1),
            Condition::Unverifiable => self.unverifiable = self.unverifiable.saturating_add(1),
            Condition::Aborted => self.aborted = self.aborted.saturating_add(1),
        }
        if facts.is_usable() {
            match facts.path {
                Some(WritePath::Eviction) => self.from_eviction = self.from_eviction.saturating_add(1),
                Some(WritePath::Checkpoint) => self.from_checkpoint = self.from_checkpoint.saturating_add(1),
                Some(WritePath::Locked) | None => {}
            }
            self.implausible_images = self.implausible_images.saturating_add(u64::from(!facts.page_faults.is_empty()));
            self.implausible_headers =
                self.implausible_headers.saturating_add(u64::from(!facts.slot_faults.is_empty()));
            self.lsn_mismatches = self.lsn_mismatches.saturating_add(u64::from(facts.header.lsn != facts.page.lsn));
        }
    }
}

/// Facts about the cluster of the files for judging slots.
#[derive(Clone, Copy, Debug)]
pub struct ClusterFacts {
    /// From a control file whose CRC is right.
    pub control: Option<ControlFacts>,
    /// Whether the server sets page checksums.
    pub checksums_written: Option<bool>,
    /// Page size of the cluster.
    pub block_size: Option<u32>,
    /// `double_write_buffer_size` in MB, from the configuration; for hints only.
    pub setting_mb: Option<u32>,
    /// Lowest number that can be a WAL address: the start of the first segment.
    pub lowest_wal_lsn: Lsn,
}

impl Default for ClusterFacts {
    fn default() -> Self {
        Self {
            control: None,
            checksums_written: None,
            block_size: None,
            setting_mb: None,
            lowest_wal_lsn: Lsn(u64::from(MIN_WAL_SEGMENT_SIZE)),
        }
    }
}

impl ClusterFacts {
    /// The facts of a control file whose CRC is right.
    pub fn of(control: &ControlFile, setting_mb: Option<u32>, signs: &RecoverySigns) -> Self {
        let record_bytes = ControlLayout::of_version(control.prefix.pg_control_version)
            .map_or(0, ControlLayout::checkpoint_record_bytes);
        Self {
            control: Some(ControlFacts {
                state: control.prefix.state,
                redo_lsn: control.checkpoint.redo_lsn,
                checkpoint_end_lsn: control.geometry.wal_record_end(control.checkpoint_lsn, record_bytes),
                in_archive_recovery: control.is_in_archive_recovery(),
                is_backup: signs.backup_label.is_some() || control.backup_start_lsn.is_valid(),
                wal_was_reset: signs.wal_was_reset,
            }),
            checksums_written: Some(control.checksums.is_written()),
            block_size: Some(control.geometry.block_size),
            setting_mb,
            lowest_wal_lsn: Lsn(u64::from(control.geometry.wal_segment_size)),
        }
    }
}

const PORTION_SLOTS: u64 = 256;

/// Reads all slots of a file with `jobs` threads, hands each to `visit` in file order until that interrupts, and keeps the
/// trace. Unreadable slots go to `coverage`; the caller reports an interruption.
pub(crate) fn trace_file(
    file: &DwbFile,
    facts: &ClusterFacts,
    jobs: usize,
    coverage: &mut Coverage,
    mut visit: impl FnMut(&SlotFacts) -> ControlFlow<()>,
) -> (FileTrace, SlotCounts) {
    let mut slots = Vec::new();
    let mut runs = Vec::new();
    let mut counts = SlotCounts::default();
    let worker = || {
        let mut scan = file.slots();
        move |first: u64| {
            let mut read = Vec::new();
            scan.go_to(first..first.saturating_add(PORTION_SLOTS));
            while let Some(slot) = scan.next_slot() {
                read.push(slot.map(|slot| SlotFacts::of(&slot, facts.checksums_written)));
            }
            read
        }
    };
    let portions = file.detection.slot_count.div_ceil(PORTION_SLOTS);
    let jobs = jobs.clamp(1, usize::try_from(portions).unwrap_or(usize::MAX).clamp(1, 1024));
    in_order(
        (0..portions).map(|portion| portion.saturating_mul(PORTION_SLOTS)),
        (0..jobs).map(|_| worker()).collect(),
        |portion| {
            for slot in portion {
                match slot {
                    Ok(slot_facts) => {
                        counts.add(&slot_facts);
                        coverage.examined = coverage.examined.saturating_add(1);
                        slots.push(trace_of(&slot_facts, facts.lowest_wal_lsn));
                        runs.extend(run_of(&slot_facts));
                        if visit(&slot_facts).is_break() {
                            return ControlFlow::Break(());
                        }
                    }
                    Err(error) => {
                        // The portions after it cannot be read either, and indexes in the trace must be those in the file.
                        coverage.skip(SkippedPart::file(&file.name), error);
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        },
    );
    let header = file.detection.sound_header();
    let trace = FileTrace {
        number: file.number,
        slot_id_rule: file.detection.layout.slot_id_rule(),
        restarts_at_checkpoint: file.detection.layout.restarts_at_checkpoint(),
        is_read_in_recovery: file.detection.layout.is_read_in_recovery(),
        header_is_sound: header.is_some(),
        batch_id: header.and_then(|header| header.batch_id),
        checkpoint_lsn: header.and_then(|header| header.checkpoint_lsn),
        slots,
        runs,
    };
    (trace, counts)
}

fn run_of(facts: &SlotFacts) -> Option<RunTrace> {
    let page = facts.header.page_id().filter(|_| facts.is_usable());
    let generation = facts.header.generation?;
    Some(RunTrace { page, slot_lsn: facts.header.lsn, generation, page_checksum: facts.page_checksum })
}

fn trace_of(facts: &SlotFacts, lowest_wal_lsn: Lsn) -> SlotTrace {
    let class = match facts.condition {
        Condition::Empty => SlotClass::Empty,
        _ if facts.is_usable() => SlotClass::Usable,
        _ => SlotClass::Unreliable,
    };
    // Below the first segment nothing is a WAL address: such a number counts changes of an unlogged relation.
    let lsn = Some(facts.newest_lsn()).filter(|lsn| *lsn >= lowest_wal_lsn).unwrap_or_default();
    SlotTrace { lsn, slot_id: facts.header.slot_id, class }
}
