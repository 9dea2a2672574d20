//! What records and images are counted by.

use rustc_hash::FxHashMap;

use super::cause::Cause;
use super::tally::Tally;
use crate::parsers::image::Compression;
use crate::parsers::wal::block::BlockHead;
use crate::parsers::wal::names::type_key;
use crate::parsers::wal::record::Record;
use crate::types::{BlockNumber, Oid, RelFileLocator, TimelineId};

/// A way to group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// Resource manager.
    Rmgr,
    /// Resource manager and record type.
    Record,
    /// Relation.
    Relation,
    /// Fork.
    Fork,
    /// Single block.
    Block,
    /// Database.
    Database,
    /// Tablespace.
    Tablespace,
    /// How images are compressed.
    Compression,
    /// Segment file.
    Segment,
    /// Why images were written.
    Cause,
}

/// One group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Resource manager.
    Rmgr(u8),
    /// Resource manager and the bits that give the type.
    Record(u8, u8),
    /// Relation.
    Relation(RelFileLocator),
    /// Code of the fork.
    Fork(u8),
    /// Relation, fork and block.
    Block(RelFileLocator, u8, BlockNumber),
    /// Database.
    Database(Oid),
    /// Tablespace.
    Tablespace(Oid),
    /// Images with a compression, or without any (`None`).
    Compression(Option<Compression>),
    /// Timeline and number of the segment.
    Segment(TimelineId, u64),
    /// Why an image was written.
    Cause(Cause),
    /// Records without a block or image to group them by.
    None,
}

/// Tallies by group.
///
/// Where records are grouped by their blocks, the bytes of a block reference's data go to its block, header and main
/// data go to the first block, and a record counts once in each group that it touches. The byte columns of all groups
/// sum up to the total; the record column does not.
#[derive(Clone, Debug)]
pub struct Groups {
    by: GroupBy,
    /// By resource manager and type: `rmgr_id * 16 + key / 16`; empty when records are grouped otherwise.
    dense: Vec<Tally>,
    sparse: FxHashMap<Key, Tally>,
    /// All records that are not in `dense`.
    others: Tally,
    segment_size: u64,
}

impl Groups {
    /// No records yet.
    #[must_use]
    pub fn new(by: GroupBy, segment_size: u32) -> Self {
        let is_dense = matches!(by, GroupBy::Rmgr | GroupBy::Record);
        let dense = if is_dense { vec![Tally::default(); 4096] } else { Vec::new() };
        let segment_size = u64::from(segment_size).max(1);
        Self { by, dense, sparse: FxHashMap::default(), others: Tally::default(), segment_size }
    }

    /// Counts a record. Causes are not known here: see [`Self::add_cause`].
    #[inline(always)]
    pub fn add(&mut self, record: &Record<'_>) {
        let key = type_key(record.header.rmgr_id, record.header.info);
        match self
            .dense
            .get_mut(usize::from(record.header.rmgr_id).saturating_mul(16).saturating_add(usize::from(key >> 4)))
        {
            Some(tally) => tally.add_record(record),
            // A copy, so that the record itself need not be in memory where this is not taken.
            None => self.add_sparse(&{ *record }),
        }
    }

    #[inline(never)]
    fn add_sparse(&mut self, record: &Record<'_>) {
        self.others.add_record(record);
        match self.by {
            GroupBy::Rmgr | GroupBy::Record => {}
            GroupBy::Segment => {
                let key =
                    Key::Segment(record.tli, record.start_lsn.0.checked_div(self.segment_size).unwrap_or_default());
                self.sparse.entry(key).or_default().add_record(record);
            }
            GroupBy::Compression => self.add_images(record, |block| {
                block.image.map(|image| Key::Compression(record.major.image_compression(image.bimg_info)))
            }),
            GroupBy::Relation => self.add_blocks(record, |block| Key::Relation(block.rel)),
            GroupBy::Fork => self.add_blocks(record, |block| Key::Fork(block.fork_code())),
            GroupBy::Block => self.add_blocks(record, |block| Key::Block(block.rel, block.fork_code(), block.block)),
            GroupBy::Database => self.add_blocks(record, |block| Key::Database(block.rel.db_oid)),
            GroupBy::Tablespace => self.add_blocks(record, |block| Key::Tablespace(block.rel.spc_oid)),
            GroupBy::Cause => {}
        }
    }

    /// Counts a record whose images have these causes, in the order of the block references that have one.
    pub fn add_cause(&mut self, record: &Record<'_>, causes: &[Cause]) {
        let mut causes = causes.iter();
        self.add_images(record, |block| block.image.and_then(|_| causes.next()).map(|cause| Key::Cause(*cause)));
    }

    /// Adds the groups of another part.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.dense.iter_mut().zip(&other.dense).filter(|(_, other)| other.records > 0) {
            own.add(other);
        }
        for (key, tally) in &other.sparse {
            self.sparse.entry(*key).or_default().add(tally);
        }
        self.others.add(&other.others);
    }

    /// All records that [`Self::add`] counted, whatever their group.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total = self.others;
        self.dense.iter().for_each(|tally| total.add(tally));
        total
    }

    /// Every group with something in it; by resource manager, every one that is built in.
    #[must_use]
    pub fn rows(&self) -> Vec<(Key, Tally)> {
        let mut rows: Vec<(Key, Tally)> = self.sparse.iter().map(|(key, tally)| (*key, *tally)).collect();
        for (rmgr_id, types) in (0_u8..=255).zip(self.dense.chunks(16)) {
            match self.by {
                GroupBy::Rmgr => {
                    let mut sum = Tally::default();
                    types.iter().for_each(|tally| sum.add(tally));
                    if sum.records > 0 || rmgr_id < 22 {
                        rows.push((Key::Rmgr(rmgr_id), sum));
                    }
                }
                _ => rows.extend(
                    (0_u8..16)
                        .zip(types)
                        .filter(|(_, tally)| tally.records > 0)
                        .map(|(key, tally)| (Key::Record(rmgr_id, key << 4), *tally)),
                ),
            }
        }
        rows.sort_unstable_by_key(|(key, _)| *key);
        rows
    }

    /// By blocks: see the type's description.
    fn add_blocks(&mut self, record: &Record<'_>, key_of: impl Fn(&BlockHead) -> Key) {
        let mut rest = u64::from(record.length_without_images());
        let mut first = None;
        let mut seen: Vec<Key> = Vec::new();
        for (_, block) in record.block_heads() {
            let key = key_of(&block);
            first.get_or_insert(key);
            let tally = self.sparse.entry(key).or_default();
            let data = u64::from(block.data_length);
            rest = rest.saturating_sub(data);
            tally.record_bytes = tally.record_bytes.saturating_add(data);
            if let Some(image) = block.image {
                tally.add_image(image.length, record.block_size);
            }
            if !seen.contains(&key) {
                seen.push(key);
                tally.records = tally.records.saturating_add(1);
            }
        }
        let tally = self.sparse.entry(first.unwrap_or(Key::None)).or_default();
        tally.record_bytes = tally.record_bytes.saturating_add(rest);
        tally.records = tally.records.saturating_add(u64::from(first.is_none()));
    }

    /// By images: only images and the records that have them; all else goes to `Key::None`.
    fn add_images(&mut self, record: &Record<'_>, mut key_of: impl FnMut(&BlockHead) -> Option<Key>) {
        let rest = u64::from(record.length_without_images());
        let mut seen: Vec<Key> = Vec::new();
        if record.layout.image_count > 0 {
            for (_, block) in record.block_heads() {
                let (Some(key), Some(image)) = (key_of(&block), block.image) else { continue };
                let tally = self.sparse.entry(key).or_default();
                tally.add_image(image.length, record.block_size);
                if !seen.contains(&key) {
                    seen.push(key);
                    tally.records = tally.records.saturating_add(1);
                }
            }
        }
        let tally = self.sparse.entry(seen.first().copied().unwrap_or(Key::None)).or_default();
        tally.record_bytes = tally.record_bytes.saturating_add(rest);
        tally.records = tally.records.saturating_add(u64::from(seen.is_empty()));
    }
}
