//! What the redo log does after its checkpoint, as far as it is seen without unpacking every record.

use std::collections::BTreeSet;

use crate::parsers::innodb::redo_block::block_records;
use crate::parsers::innodb::redo_mtr::{SpaceChange, space_changes};
use crate::parsers::innodb::redo_record::{MAX_FILE_DELETE_BYTES, changed_space, deleted_space};

/// Tablespaces that are remembered of each kind.
const MAX_SPACES: usize = 1 << 20;

/// Bytes of records that are searched at once.
const SEARCHED_BYTES: usize = 1 << 20;

/// Tablespaces that a log changes.
#[derive(Debug, Default)]
pub struct RedoChanges {
    /// Those whose pages it changes, of a log in blocks: the first mini-transaction of each block was looked at.
    pub changed: BTreeSet<u32>,
    /// Those whose files it deletes.
    pub deleted: BTreeSet<u32>,
    /// Those whose page 0 it makes, of a log of mini-transactions: their files may be empty.
    pub made: BTreeSet<u32>,
    /// Those whose size it writes, of a log of mini-transactions.
    pub sized: BTreeSet<u32>,
    /// Records of blocks that were not searched yet.
    records: Vec<u8>,
}

impl RedoChanges {
    /// Takes a whole block of this length, and of it what is not before the offset `from`. `first_group`: as in [`RedoBlock::Whole`].
    ///
    /// [`RedoBlock::Whole`]: crate::parsers::innodb::redo_block::RedoBlock::Whole
    pub fn meet_block(&mut self, block: &[u8], length: u64, first_group: usize, from: usize) {
        if first_group > 0 && first_group >= from && self.changed.len() < MAX_SPACES {
            self.changed.extend(changed_space(block_records(block, length, first_group)));
        }
        self.records.extend_from_slice(block_records(block, length, from));
        if self.records.len() >= SEARCHED_BYTES {
            self.search();
        }
    }

    /// Takes the records of a mini-transaction of MariaDB 10.8 and later.
    pub fn meet_mtr(&mut self, records: &[u8]) {
        space_changes(records, &mut |change| {
            let (spaces, space_id) = match change {
                SpaceChange::Deleted(space_id) => (&mut self.deleted, space_id),
                SpaceChange::Made(space_id) => (&mut self.made, space_id),
                SpaceChange::Sized(space_id) => (&mut self.sized, space_id),
            };
            if spaces.len() < MAX_SPACES {
                spaces.insert(space_id);
            }
        });
    }

    /// Looks through the records of the blocks so far. What may be the begin of one is kept.
    pub fn search(&mut self) {
        let found = (0..self.records.len()).filter_map(|at| deleted_space(self.records.get(at..)?));
        self.deleted.extend(found.take(MAX_SPACES.saturating_sub(self.deleted.len())));
        let searched = self.records.len().saturating_sub(MAX_FILE_DELETE_BYTES);
        self.records.drain(..searched);
    }
}
