//! The end of the redo log: blocks or mini-transactions are counted from the checkpoint on, and none is unpacked.

use std::ops::ControlFlow;
use std::path::Path;

use super::files::InnodbFiles;
use super::redo_log::RedoLog;
use super::redo_map::RedoMap;
use crate::cluster::open::AccessError;
use crate::parsers::innodb::InnodbLsn;
use crate::parsers::innodb::redo::RedoFormat;
use crate::parsers::innodb::redo_records::{
    MAX_MTR_BYTES, MTR_TRAILER_BYTES, REDO_BLOCK_BYTES, RedoBlock, block_end, block_number, block_records, block_start,
    mini_transaction,
};

/// Bytes read in one step.
const WINDOW_BYTES: usize = 4 << 20;

/// The high bit of the format word of MariaDB: the log is encrypted.
const ENCRYPTED: u32 = 1 << 31;

/// Longest record that names a checkpoint, as a whole mini-transaction.
const MAX_CHECKPOINT_RECORD: u64 = 16;

/// Why the end of the log is unknown.
#[derive(Debug)]
pub enum NoEnd {
    /// It is encrypted, has no checksums, or its start is unknown.
    NotTestable,
    /// It continues in a file that is missing or too short.
    Missing,
    /// The user interrupted the search.
    Interrupted,
    /// A file cannot be read.
    Unreadable(AccessError),
}

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedoEnd {
    /// LSN after the last byte of the log.
    pub lsn: InnodbLsn,
    /// The log has nothing after the checkpoint, except for the record of the checkpoint itself.
    pub is_clean: bool,
}

impl RedoEnd {
    /// Finds the end of a log with a checkpoint; `None` without one. `watch` interrupts it.
    #[must_use]
    pub fn find(
        data_dir: &Path,
        files: &InnodbFiles,
        log: &RedoLog,
        watch: &dyn Fn() -> ControlFlow<()>,
    ) -> Option<Result<Self, NoEnd>> {
        let (checkpoint, _) = log.checkpoint.as_ref()?;
        let is_physical = log.format == Some(RedoFormat::MariadbPhysical);
        if is_physical && log.format_word & ENCRYPTED != 0 {
            return Some(Err(NoEnd::NotTestable));
        }
        let map = match RedoMap::open(data_dir, files, log) {
            Ok(Some(map)) => map,
            Ok(None) => return Some(Err(NoEnd::NotTestable)),
            Err(error) => return Some(Err(NoEnd::Unreadable(error))),
        };
        let walk = Walk { map: &map, first: checkpoint.lsn, watch };
        let found = if is_physical { walk.mini_transactions() } else { walk.blocks() };
        Some(found.and_then(|(lsn, is_clean)| match checkpoint.end_lsn {
            Some(needed) if lsn < needed => Err(NoEnd::Missing),
            _ => Ok(Self { lsn, is_clean }),
        }))
    }
}

/// A log that is being read.
struct Walk<'a> {
    map: &'a RedoMap,
    /// The checkpoint.
    first: InnodbLsn,
    watch: &'a dyn Fn() -> ControlFlow<()>,
}

impl Walk<'_> {
    fn read(&self, lsn: InnodbLsn, buf: &mut [u8]) -> Result<usize, NoEnd> {
        if (self.watch)().is_break() {
            return Err(NoEnd::Interrupted);
        }
        self.map.read(lsn, buf).map_err(NoEnd::Unreadable)
    }

    /// The end of a log of blocks, and whether nothing is after the checkpoint.
    fn blocks(&self) -> Result<(InnodbLsn, bool), NoEnd> {
        if !self.map.has_even_files() {
            return Err(NoEnd::Missing);
        }
        let mut start = block_start(self.first);
        let (mut end, mut is_tested, mut is_clean) = (start, true, false);
        let mut buf = vec![0; WINDOW_BYTES];
        'log: loop {
            let filled = self.read(start, &mut buf)?;
            if filled < REDO_BLOCK_BYTES {
                return Err(NoEnd::Missing);
            }
            for block in buf.get(..filled).unwrap_or_default().chunks_exact(REDO_BLOCK_BYTES) {
                let whole = RedoBlock::decode(block).filter(|block| block.number == block_number(start));
                let Some(RedoBlock { length, is_tested: has_sum, .. }) = whole else { break 'log };
                is_tested &= has_sum;
                if start == block_start(self.first) {
                    let from = usize::try_from(self.first.0.saturating_sub(start.0)).unwrap_or(usize::MAX);
                    is_clean = is_checkpoint_record(block_records(block, length, from), self.first);
                }
                end = block_end(start, length);
                start = next_block(start);
                if length < REDO_BLOCK_BYTES as u64 {
                    break 'log;
                }
            }
        }
        // The server wrote the block of the checkpoint before the checkpoint. A log seldom ends where its files start over.
        if end < self.first || self.map.starts_over(start) {
            return Err(NoEnd::Missing);
        }
        if !is_tested {
            return Err(NoEnd::NotTestable);
        }
        let is_short = end.0.saturating_sub(self.first.0) <= MAX_CHECKPOINT_RECORD;
        Ok((end, end == self.first || (is_short && is_clean)))
    }

    /// The end of a log of mini-transactions, and whether nothing is after the checkpoint.
    fn mini_transactions(&self) -> Result<(InnodbLsn, bool), NoEnd> {
        let capacity = self.map.capacity();
        let (mut lsn, mut is_clean) = (self.first, true);
        let mut buf = vec![0; usize::try_from(capacity).unwrap_or(usize::MAX).min(WINDOW_BYTES)];
        loop {
            let filled = self.read(lsn, &mut buf)?;
            if filled < buf.len() || buf.is_empty() {
                return Err(NoEnd::Missing);
            }
            let mut at: usize = 0;
            // The longest one must fit in what is left.
            while at == 0 || buf.len().saturating_sub(at) > MAX_MTR_BYTES.saturating_add(MTR_TRAILER_BYTES) {
                let rest = buf.get(at..).unwrap_or_default();
                let whole = mini_transaction(rest).filter(|(bytes, bit)| self.is_of_this_turn(lsn, *bytes, *bit));
                let Some((record_bytes, _)) = whole else { return Ok((lsn, is_clean)) };
                is_clean &= is_checkpoint_record(rest.get(..record_bytes).unwrap_or_default(), self.first);
                let length = record_bytes.saturating_add(MTR_TRAILER_BYTES);
                at = at.saturating_add(length);
                lsn = InnodbLsn(lsn.0.saturating_add(length as u64));
                // The log would be longer than its file.
                if lsn.0.saturating_sub(self.first.0) > capacity {
                    return Err(NoEnd::Missing);
                }
            }
        }
    }

    /// True for one that was written in the turn of the log over its file to which its LSN belongs.
    fn is_of_this_turn(&self, lsn: InnodbLsn, record_bytes: usize, sequence_bit: u8) -> bool {
        let at = InnodbLsn(lsn.0.saturating_add(record_bytes as u64));
        self.map.turn(at).is_some_and(|turn| turn & 1 == u64::from(sequence_bit == 0))
    }
}

/// True for the record with which a server names its checkpoint: `FILE_CHECKPOINT` of MariaDB 10.5 and later (first 3 bytes), or
/// `MLOG_CHECKPOINT` (1 byte), each with the LSN in 8 bytes, and the byte that ends records in blocks.
///
/// Source: `fil_names_clear`, `storage/innobase/fil/fil0fil.cc`.
fn is_checkpoint_record(records: &[u8], checkpoint: InnodbLsn) -> bool {
    let lsn = checkpoint.0.to_be_bytes();
    let named = [[0xFA, 0, 0].as_slice(), &[0x38]].into_iter().find_map(|head| records.strip_prefix(head));
    named.and_then(|rest| rest.strip_prefix(&lsn)).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
}

const fn next_block(start: InnodbLsn) -> InnodbLsn {
    InnodbLsn(start.0.saturating_add(REDO_BLOCK_BYTES as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_of_a_checkpoint_names_its_lsn() {
        let lsn = InnodbLsn(0x0168_B630);
        let of = |head: &[u8], tail: &[u8]| [head, &lsn.0.to_be_bytes(), tail].concat();
        assert!(is_checkpoint_record(&of(&[0xFA, 0, 0], &[]), lsn));
        assert!(is_checkpoint_record(&of(&[0x38], &[]), lsn));
        assert!(!is_checkpoint_record(&of(&[0x38], &[1]), lsn));
        assert!(!is_checkpoint_record(&of(&[0x38], &[]), InnodbLsn(1)));
        assert!(!is_checkpoint_record(&of(&[0x39], &[]), lsn));
        assert!(!is_checkpoint_record(&[], lsn));
    }
}
