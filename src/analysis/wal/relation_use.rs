//! What WAL says was done with each relation: changes, images, and the work that they came from.

use strum::IntoStaticStr;

use rustc_hash::FxHashMap;

use super::block_set::{BlockSet, RecentBlocks};
use crate::parsers::page_kind::access_method_name;
use crate::parsers::wal::heap_row::OldRow;
use crate::parsers::wal::names::{
    RM_BRIN, RM_BTREE, RM_GIN, RM_GIST, RM_HASH, RM_HEAP, RM_HEAP2, RM_SEQUENCE, RM_SPGIST,
};
use crate::parsers::wal::prune::freezes;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::Work;
use crate::types::{BlockNumber, Oid, RelFileLocator};

/// Counts over the records that refer to a relation's blocks, in all its forks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelationUse {
    /// Block references of ordinary records: all but those that are nothing but images.
    pub changes: u64,
    pub images: u64,
    /// Their bytes as stored.
    pub image_bytes: u64,
    /// Images that were written for hint bits (`FPI_FOR_HINT`).
    pub hint_images: u64,
    /// Images of pages that were logged as a whole (`FPI`), as a build of an index does.
    pub whole_page_images: u64,
    /// Images in records of vacuum: freezing, dead rows, the visibility map, deletions from an index.
    pub vacuum_images: u64,
    pub vacuum_records: u64,
    /// Those of them that are known to freeze rows, and those that are known not to.
    pub freeze_records: u64,
    pub other_vacuum_records: u64,
    /// Those of `changes` that hit another block than the change before.
    pub jumps: u64,
    pub(crate) last_block: Option<BlockNumber>,
    pub inserts: u64,
    /// Records that insert many rows at once, as `COPY` does.
    pub multi_inserts: u64,
    /// Updates that needed new entries in indexes: all that are not HOT.
    pub updates: u64,
    /// Those of them whose new row went to another page, for want of room in its own.
    pub moved_updates: u64,
    /// Updates within a page that no index had to know of (HOT).
    pub hot_updates: u64,
    pub deletes: u64,
    /// Block references of ordinary records that build their page from scratch.
    pub new_pages: u64,
    /// Records that hold the whole old row (`REPLICA IDENTITY FULL`), and bytes of these rows.
    pub old_rows: u64,
    pub old_row_bytes: u64,
    /// Bytes of the columns of a key that records hold of old rows.
    pub old_key_bytes: u64,
    /// Records with an old row or a key of it, whose end was not kept, and bytes of these.
    pub(crate) unsure_old_rows: u64,
    pub(crate) unsure_old_bytes: u64,
    /// Resource managers whose records touched it: a bit for each of the built-in ones.
    pub(crate) rmgrs: u32,
}

/// What a relation is, as far as resource managers of records tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StorageKind {
    /// Rows: a table, a TOAST table, a materialized view or a catalog.
    Heap,
    Index(IndexMethod),
    Sequence,
}

/// The access method of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum IndexMethod {
    Btree,
    Hash,
    Gin,
    Gist,
    SpGist,
    Brin,
}

impl IndexMethod {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The one with this OID, if it is built in.
    pub(crate) fn of_oid(oid: Oid) -> Option<Self> {
        let name = access_method_name(oid)?;
        [Self::Btree, Self::Hash, Self::Gin, Self::Gist, Self::SpGist, Self::Brin]
            .into_iter()
            .find(|method| method.name() == name)
    }
}

/// Resource managers that write to one kind of relation alone.
const KINDS: [(u8, StorageKind); 9] = [
    (RM_HEAP, StorageKind::Heap),
    (RM_HEAP2, StorageKind::Heap),
    (RM_BTREE, StorageKind::Index(IndexMethod::Btree)),
    (RM_HASH, StorageKind::Index(IndexMethod::Hash)),
    (RM_GIN, StorageKind::Index(IndexMethod::Gin)),
    (RM_GIST, StorageKind::Index(IndexMethod::Gist)),
    (RM_SPGIST, StorageKind::Index(IndexMethod::SpGist)),
    (RM_BRIN, StorageKind::Index(IndexMethod::Brin)),
    (RM_SEQUENCE, StorageKind::Sequence),
];

impl RelationUse {
    /// What it is; `None` where nothing tells, or records contradict each other: a file number was used twice.
    pub fn kind(&self) -> Option<StorageKind> {
        let mut kinds = KINDS.iter().filter(|(rmgr_id, _)| self.rmgrs & bit_of(*rmgr_id) != 0).map(|(_, kind)| *kind);
        let first = kinds.next()?;
        kinds.all(|kind| kind == first).then_some(first)
    }

    /// Images for each thousand changes; `None` without changes.
    pub(crate) fn images_per_1000_changes(&self) -> Option<f64> {
        (self.changes > 0).then(|| self.images as f64 * 1000.0 / self.changes as f64)
    }

    /// Part of the updates that are HOT, 0 to 1; `None` without updates.
    pub(crate) fn hot_share(&self) -> Option<f64> {
        let all = self.hot_updates.saturating_add(self.updates);
        (all > 0).then(|| self.hot_updates as f64 / all as f64)
    }

    pub fn add(&mut self, other: &Self) {
        for (own, other) in [
            (&mut self.changes, other.changes),
            (&mut self.images, other.images),
            (&mut self.image_bytes, other.image_bytes),
            (&mut self.hint_images, other.hint_images),
            (&mut self.whole_page_images, other.whole_page_images),
            (&mut self.vacuum_images, other.vacuum_images),
            (&mut self.vacuum_records, other.vacuum_records),
            (&mut self.freeze_records, other.freeze_records),
            (&mut self.other_vacuum_records, other.other_vacuum_records),
            (&mut self.jumps, other.jumps),
            (&mut self.inserts, other.inserts),
            (&mut self.multi_inserts, other.multi_inserts),
            (&mut self.updates, other.updates),
            (&mut self.moved_updates, other.moved_updates),
            (&mut self.hot_updates, other.hot_updates),
            (&mut self.deletes, other.deletes),
            (&mut self.new_pages, other.new_pages),
            (&mut self.old_rows, other.old_rows),
            (&mut self.old_row_bytes, other.old_row_bytes),
            (&mut self.old_key_bytes, other.old_key_bytes),
            (&mut self.unsure_old_rows, other.unsure_old_rows),
            (&mut self.unsure_old_bytes, other.unsure_old_bytes),
        ] {
            *own = own.saturating_add(other);
        }
        self.rmgrs |= other.rmgrs;
    }

    /// Records with a whole old row, and bytes of these rows. One whose end was not kept is as the others of its relation.
    pub(crate) fn all_old_rows(&self) -> (u64, u64) {
        if self.old_rows == 0 && self.old_key_bytes > 0 {
            return (0, 0);
        }
        let records = self.old_rows.saturating_add(self.unsure_old_rows);
        (records, self.old_row_bytes.saturating_add(self.unsure_old_bytes))
    }

    #[inline(never)]
    fn add_old_row(&mut self, old: OldRow) {
        let bytes = u64::from(old.bytes);
        let (records, sum) = match old.is_whole {
            Some(true) => (Some(&mut self.old_rows), &mut self.old_row_bytes),
            Some(false) => (None, &mut self.old_key_bytes),
            None => (Some(&mut self.unsure_old_rows), &mut self.unsure_old_bytes),
        };
        *sum = sum.saturating_add(bytes);
        records.into_iter().for_each(|records| *records = records.saturating_add(1));
    }

    /// Counts what a record did; once for each relation that it touches.
    fn add_work(&mut self, work: Work, is_moved: bool) {
        let count = match work {
            Work::Insert => &mut self.inserts,
            Work::MultiInsert => &mut self.multi_inserts,
            Work::Update => {
                self.moved_updates = self.moved_updates.saturating_add(u64::from(is_moved));
                &mut self.updates
            }
            Work::HotUpdate => &mut self.hot_updates,
            Work::Delete => &mut self.deletes,
            Work::Vacuum => &mut self.vacuum_records,
            Work::HintImage | Work::WholePages | Work::Other => return,
        };
        *count = count.saturating_add(1);
    }
}

const fn bit_of(rmgr_id: u8) -> u32 {
    if rmgr_id < 32 { 1 << rmgr_id } else { 0 }
}

#[derive(Clone, Debug, Default)]
pub struct RelationUses {
    uses: FxHashMap<RelFileLocator, RelationUse>,
    touched: BlockSet,
}

impl RelationUses {
    /// Counts a record. `recent`: blocks that were met since the last [`RecentBlocks::clear`], for this one alone.
    pub fn add(&mut self, record: &Record<'_>, recent: &mut RecentBlocks) {
        if record.layout.block_count == 0 {
            return;
        }
        let work = record.kind().work();
        // Block 1 is the old page; 2 and 3 are pages of the map (heap_xlog_update).
        let is_moved = work == Work::Update && record.block_heads().any(|(id, _)| id == 1);
        let freezes = if work == Work::Vacuum { freezes(record) } else { None };
        let is_ordinary = !record.header.is_images();
        let mut before: Option<RelFileLocator> = None;
        for (_, block) in record.block_heads() {
            let of = self.uses.entry(block.rel).or_default();
            of.rmgrs |= bit_of(record.header.rmgr_id);
            // References to one relation follow each other, but for records of two relations, which are images alone.
            if before != Some(block.rel) {
                of.add_work(work, is_moved);
                if matches!(work, Work::Update | Work::HotUpdate | Work::Delete)
                    && let Some(old) = OldRow::of(record)
                {
                    of.add_old_row(old);
                }
                match freezes {
                    Some(true) => of.freeze_records = of.freeze_records.saturating_add(1),
                    Some(false) => of.other_vacuum_records = of.other_vacuum_records.saturating_add(1),
                    None => {}
                }
                before = Some(block.rel);
            }
            if is_ordinary {
                of.changes = of.changes.saturating_add(1);
                let is_jump = of.last_block.replace(block.block) != Some(block.block);
                of.jumps = of.jumps.saturating_add(u64::from(is_jump));
                of.new_pages = of.new_pages.saturating_add(u64::from(block.will_init()));
            }
            if let Some(image) = block.image {
                of.images = of.images.saturating_add(1);
                of.image_bytes = of.image_bytes.saturating_add(u64::from(image.length));
                let count = match work {
                    Work::HintImage => Some(&mut of.hint_images),
                    Work::WholePages => Some(&mut of.whole_page_images),
                    Work::Vacuum => Some(&mut of.vacuum_images),
                    _ => None,
                };
                if let Some(count) = count {
                    *count = count.saturating_add(1);
                }
            }
            if recent.is_new(block.rel, block.fork_code(), block.block) {
                self.touched.insert(block.rel, block.fork_code(), block.block);
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (rel, other) in &other.uses {
            self.uses.entry(*rel).or_default().add(other);
        }
        self.touched.union_with(&other.touched);
    }

    /// What was done with a relation; nothing where no record refers to it.
    pub fn of(&self, rel: RelFileLocator) -> RelationUse {
        self.uses.get(&rel).copied().unwrap_or_default()
    }

    /// Records with a whole old row, and bytes of these rows, of all relations.
    pub(crate) fn old_rows(&self) -> (u64, u64) {
        self.uses
            .values()
            .map(RelationUse::all_old_rows)
            .fold((0, 0), |sum, own| (u64::saturating_add(sum.0, own.0), u64::saturating_add(sum.1, own.1)))
    }

    /// Distinct blocks of each relation, in all its forks.
    pub fn distinct_blocks(&self) -> FxHashMap<RelFileLocator, u64> {
        let mut blocks = FxHashMap::default();
        for (rel, _, count) in self.touched.forks() {
            let sum: &mut u64 = blocks.entry(rel).or_default();
            *sum = sum.saturating_add(count);
        }
        blocks
    }
}
