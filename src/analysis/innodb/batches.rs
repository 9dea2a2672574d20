//! Groups of slots: nothing marks where a batch of InnoDB begins, so that slots are separated by file, part, and whether they
//! are older than the checkpoint.

use std::collections::BTreeMap;

use super::candidates::BufferContent;
use crate::parsers::innodb::InnodbLsn;
use crate::parsers::innodb::layout::SlotPart;

/// How a group of slots stands to the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SlotAge {
    /// Not older: written since, so that recovery may need them.
    Current,
    /// Older: their pages were safely in the data files at the checkpoint.
    Stale,
    /// The image is damaged, or the checkpoint is unknown.
    Undecided,
}

impl SlotAge {
    /// Stable name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The age of an image.
    #[must_use]
    pub fn of(lsn: InnodbLsn, is_sound: bool, checkpoint: Option<InnodbLsn>) -> Self {
        match checkpoint {
            Some(checkpoint) if is_sound => {
                if lsn >= checkpoint {
                    Self::Current
                } else {
                    Self::Stale
                }
            }
            _ => Self::Undecided,
        }
    }
}

/// Used slots of one file, part and age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnodbBatch {
    /// Index of the file.
    pub file: usize,
    /// Part of it.
    pub part: SlotPart,
    /// Age.
    pub age: SlotAge,
    /// First slot.
    pub first: u64,
    /// Last slot.
    pub last: u64,
    /// Slots.
    pub slots: u64,
    /// Runs of slots next to each other.
    pub runs: u64,
    /// Lowest LSN.
    pub lowest_lsn: InnodbLsn,
    /// Highest LSN.
    pub highest_lsn: InnodbLsn,
    /// Tablespaces, with slots of each.
    pub spaces: BTreeMap<u32, u64>,
}

/// Groups the used slots.
#[must_use]
pub fn batches(content: &BufferContent, checkpoint: Option<InnodbLsn>) -> Vec<InnodbBatch> {
    let mut groups: BTreeMap<(usize, SlotPart, SlotAge), InnodbBatch> = BTreeMap::new();
    for facts in &content.slots {
        let (file, index) = facts.slot;
        let age = SlotAge::of(facts.lsn, facts.state.is_sound(), checkpoint);
        let batch = groups.entry((file, facts.part, age)).or_insert_with(|| InnodbBatch {
            file,
            part: facts.part,
            age,
            first: index,
            last: index,
            slots: 0,
            runs: 1,
            lowest_lsn: facts.lsn,
            highest_lsn: facts.lsn,
            spaces: BTreeMap::new(),
        });
        batch.runs = batch.runs.saturating_add(u64::from(index > batch.last.saturating_add(1)));
        batch.last = index;
        batch.slots = batch.slots.saturating_add(1);
        batch.lowest_lsn = batch.lowest_lsn.min(facts.lsn);
        batch.highest_lsn = batch.highest_lsn.max(facts.lsn);
        if let Some(space) = facts.space_id {
            let count = batch.spaces.entry(space).or_default();
            *count = count.saturating_add(1);
        }
    }
    groups.into_values().collect()
}
