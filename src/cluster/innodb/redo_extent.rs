//! How far the redo log reaches from its checkpoint on, and what its end looks like: what a start can replay.

use std::ops::ControlFlow;
use std::path::Path;

use super::files::InnodbFiles;
use super::redo_changes::RedoChanges;
use super::redo_log::RedoLog;
use super::redo_map::{RedoMap, RedoPlace};
use crate::cluster::open::AccessError;
use crate::parsers::innodb::InnodbLsn;
use crate::parsers::innodb::redo::RedoFormat;
use crate::parsers::innodb::redo_block::{REDO_BLOCK_BYTES, RedoBlock, block_end, block_number, block_start};
use crate::parsers::innodb::redo_mtr::{MAX_MTR_BYTES, MTR_TRAILER_BYTES, Mtr, search};

/// Bytes that are read at once.
const WINDOW_BYTES: usize = 4 << 20;

/// Bytes after the end that are searched for more of the log, in blocks.
const BLOCK_SEARCH_BYTES: u64 = 64 << 20;

/// The same in mini-transactions, which may begin at any byte.
const MTR_SEARCH_BYTES: usize = 1 << 20;

/// Bytes that servers write at once, as many or fewer: those after the end, up to a multiple of it, are what the buffer of the
/// server held before.
const WRITE_BYTES: u64 = 4096;

/// Bytes that they write at once at least.
const LEAST_WRITE_BYTES: u64 = 512;

/// Bytes of writes before the end among which what the buffer held before is looked for: it is not long ago that it was written.
const LEFT_OVER_SEARCH_BYTES: u64 = 4 << 20;

/// Bytes after the end that are enough to be no chance when they are those of an earlier write.
const LEAST_LEFT_OVER_BYTES: u64 = 16;

/// Bytes of which such a search computes checksums, one and the same counted as often as it is part of one.
const MAX_SUMMED_BYTES: u64 = 4 << 30;

/// The high bit of the format word of MariaDB: the log is encrypted.
const ENCRYPTED: u32 = 1 << 31;

/// Why the log is not followed further.
#[derive(Debug)]
pub enum RedoStop {
    /// It ends as servers end it.
    Ended,
    /// It ends so, or with bytes that no server wrote, and more of it follows.
    GoesOn,
    /// It ends with bytes that no server wrote.
    Damaged,
    /// It goes on in a file that is missing or too short.
    Missing,
    /// It has no checksums, is encrypted, or nothing tells where it begins.
    NotTestable,
    /// It was broken off.
    Interrupted,
    /// A file cannot be read.
    Unreadable(AccessError),
}

/// What of the log is there.
#[derive(Debug)]
pub struct RedoExtent {
    /// The checkpoint.
    pub start: InnodbLsn,
    /// LSN of the first byte that a start cannot replay.
    pub end: InnodbLsn,
    /// Why.
    pub stop: RedoStop,
    /// Where that is, if a file has it.
    pub place: Option<RedoPlace>,
    /// What it was seen to do.
    pub changes: RedoChanges,
}

impl RedoExtent {
    /// Follows the log from its checkpoint; `None` where none is known. `watch` breaks it off.
    #[must_use]
    pub fn follow(
        data_dir: &Path,
        files: &InnodbFiles,
        log: &RedoLog,
        watch: &dyn Fn() -> ControlFlow<()>,
    ) -> Option<Self> {
        let (checkpoint, _) = log.checkpoint.as_ref()?;
        let nothing = |stop| Self {
            start: checkpoint.lsn,
            end: checkpoint.lsn,
            stop,
            place: None,
            changes: RedoChanges::default(),
        };
        let is_physical = log.format == Some(RedoFormat::MariadbPhysical);
        if is_physical && log.format_word & ENCRYPTED != 0 {
            return Some(nothing(RedoStop::NotTestable));
        }
        let map = match RedoMap::open(data_dir, files, log) {
            Ok(Some(map)) => map,
            Ok(None) => return Some(nothing(RedoStop::NotTestable)),
            Err(error) => return Some(nothing(RedoStop::Unreadable(error))),
        };
        let walk = Walk { map: &map, first: checkpoint.lsn, watch };
        let mut changes = RedoChanges::default();
        let found = if is_physical { walk.mini_transactions(&mut changes) } else { walk.blocks(&mut changes) };
        changes.search();
        let (end, mut stop) = found.unwrap_or_else(|error| (checkpoint.lsn, RedoStop::Unreadable(error)));
        if matches!(stop, RedoStop::Ended) && checkpoint.end_lsn.is_some_and(|needed| end < needed) {
            stop = RedoStop::Damaged;
        }
        Some(Self { start: checkpoint.lsn, end, stop, place: map.place(end), changes })
    }

    /// True when all that the server wrote is there, as far as the log itself tells.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        matches!(self.stop, RedoStop::Ended)
    }
}

/// A log that is being followed.
struct Walk<'a> {
    map: &'a RedoMap,
    /// The checkpoint.
    first: InnodbLsn,
    watch: &'a dyn Fn() -> ControlFlow<()>,
}

impl Walk<'_> {
    /// Where a log of blocks ends, and why.
    fn blocks(&self, changes: &mut RedoChanges) -> Result<(InnodbLsn, RedoStop), AccessError> {
        if !self.map.has_even_files() {
            return Ok((self.first, RedoStop::Missing));
        }
        let mut start = block_start(self.first);
        let mut end = start;
        let mut is_tested = true;
        let mut buf = vec![0; WINDOW_BYTES];
        let stop = 'log: loop {
            if (self.watch)().is_break() {
                break RedoStop::Interrupted;
            }
            let filled = self.map.read(start, &mut buf)?;
            if filled < REDO_BLOCK_BYTES {
                break RedoStop::Missing;
            }
            for block in buf.get(..filled).unwrap_or_default().chunks_exact(REDO_BLOCK_BYTES) {
                match RedoBlock::decode(block) {
                    RedoBlock::Whole { number, length, first_group, is_encrypted, is_tested: has_sum }
                        if number == block_number(start) =>
                    {
                        is_tested &= has_sum;
                        let before = usize::try_from(self.first.0.saturating_sub(start.0)).unwrap_or(usize::MAX);
                        if !is_encrypted {
                            changes.meet_block(block, length, first_group, before);
                        }
                        end = block_end(start, length);
                        start = next_block(start);
                        if length < REDO_BLOCK_BYTES as u64 {
                            break 'log RedoStop::Ended;
                        }
                    }
                    RedoBlock::Whole { number, .. } if is_older(number, block_number(start)) => {
                        break 'log RedoStop::Ended;
                    }
                    RedoBlock::Empty => break 'log RedoStop::Ended,
                    RedoBlock::Whole { .. } | RedoBlock::Damaged => break 'log RedoStop::Damaged,
                }
            }
        };
        // The block of the checkpoint was written before the checkpoint was.
        Ok(match stop {
            RedoStop::Ended | RedoStop::Damaged if end < self.first => (self.first, RedoStop::Damaged),
            RedoStop::Ended | RedoStop::Damaged if self.blocks_follow(start)? => (end, RedoStop::GoesOn),
            // It is not probable that a log ends just where it starts over: files that followed are missing.
            RedoStop::Ended if self.map.starts_over(start) => (end, RedoStop::Missing),
            RedoStop::Ended if !is_tested => (end, RedoStop::NotTestable),
            stop => (end.max(self.first), stop),
        })
    }

    /// True when a block of the log is there after one where it seems to end.
    fn blocks_follow(&self, end: InnodbLsn) -> Result<bool, AccessError> {
        let mut buf = vec![0; WINDOW_BYTES];
        let mut start = end;
        let room = self.map.capacity().min(BLOCK_SEARCH_BYTES);
        while start.0.saturating_sub(end.0) < room {
            let filled = self.map.read(start, &mut buf)?;
            if filled < REDO_BLOCK_BYTES || (self.watch)().is_break() {
                break;
            }
            for block in buf.get(..filled).unwrap_or_default().chunks_exact(REDO_BLOCK_BYTES) {
                let number = block_number(start);
                if matches!(RedoBlock::decode(block), RedoBlock::Whole { number: found, .. } if found == number) {
                    return Ok(true);
                }
                start = next_block(start);
            }
        }
        Ok(false)
    }

    /// Where a log of mini-transactions ends, and why.
    fn mini_transactions(&self, changes: &mut RedoChanges) -> Result<(InnodbLsn, RedoStop), AccessError> {
        let capacity = self.map.capacity();
        let mut lsn = self.first;
        let mut buf = vec![0; window(capacity)];
        loop {
            if (self.watch)().is_break() {
                return Ok((lsn, RedoStop::Interrupted));
            }
            let filled = self.map.read(lsn, &mut buf)?;
            if filled < buf.len() {
                return Ok((lsn, RedoStop::Missing));
            }
            let mut at: usize = 0;
            // The longest one must fit in what is left.
            while at == 0 || buf.len().saturating_sub(at) > MAX_MTR_BYTES.saturating_add(MTR_TRAILER_BYTES) {
                let stop = match Mtr::read(buf.get(at..).unwrap_or_default()) {
                    Mtr::Whole { record_bytes, sequence_bit } => {
                        if self.is_of_this_turn(lsn, record_bytes, sequence_bit) {
                            changes
                                .meet_mtr(buf.get(at..).and_then(|rest| rest.get(..record_bytes)).unwrap_or_default());
                            let length = record_bytes.saturating_add(MTR_TRAILER_BYTES);
                            at = at.saturating_add(length);
                            lsn = InnodbLsn(lsn.0.saturating_add(length as u64));
                            // The log would be longer than its file.
                            if lsn.0.saturating_sub(self.first.0) > capacity {
                                return Ok((lsn, RedoStop::Damaged));
                            }
                            continue;
                        }
                        RedoStop::Ended
                    }
                    Mtr::End => RedoStop::Ended,
                    Mtr::Broken => RedoStop::Damaged,
                };
                let stop = match (stop, self.following(lsn)?) {
                    (_, Following::ThisTurn) => RedoStop::GoesOn,
                    (_, Following::Unknown) => RedoStop::Damaged,
                    // All of what was written is full of records, and older ones follow.
                    (RedoStop::Damaged, Following::TurnBefore) if self.is_end_of_write(lsn) => RedoStop::Ended,
                    (RedoStop::Damaged, _) if self.is_left_over(lsn)? => RedoStop::Ended,
                    (stop, Following::TurnBefore | Following::Nothing) => stop,
                };
                return Ok((lsn, stop));
            }
        }
    }

    /// True for one that was written in the turn of the log over its file that its LSN is of.
    fn is_of_this_turn(&self, lsn: InnodbLsn, record_bytes: usize, sequence_bit: u8) -> bool {
        let at = InnodbLsn(lsn.0.saturating_add(record_bytes as u64));
        self.map.turn(at).is_some_and(|turn| turn & 1 == u64::from(sequence_bit == 0))
    }

    /// True for a place at which a write can have ended.
    fn is_end_of_write(&self, end: InnodbLsn) -> bool {
        self.map.place(end).is_some_and(|place| place.offset.is_multiple_of(LEAST_WRITE_BYTES))
    }

    /// True when what follows the end, up to the end of a write, is what an earlier write had at the same place: a server that does not put a
    /// byte of zero after its records leaves there what its buffer held before, so there never was a record.
    fn is_left_over(&self, end: InnodbLsn) -> Result<bool, AccessError> {
        let Some(place) = self.map.place(end) else { return Ok(false) };
        let least_end = place.offset.saturating_add(LEAST_LEFT_OVER_BYTES);
        let rest = least_end.next_multiple_of(LEAST_WRITE_BYTES).saturating_sub(place.offset);
        let mut after = vec![0; usize::try_from(rest).unwrap_or_default()];
        if self.map.read(end, &mut after)? < after.len() {
            return Ok(false);
        }
        let mut earlier = vec![0; after.len()];
        let furthest = self.map.capacity().min(LEFT_OVER_SEARCH_BYTES);
        let mut distance = LEAST_WRITE_BYTES;
        while distance < furthest {
            let Some(start) = end.0.checked_sub(distance) else { break };
            if self.map.read(InnodbLsn(start), &mut earlier)? < earlier.len() {
                break;
            }
            if earlier == after {
                return Ok(true);
            }
            distance = distance.saturating_add(LEAST_WRITE_BYTES);
        }
        Ok(false)
    }

    /// What follows the place where the log seems to end.
    fn following(&self, end: InnodbLsn) -> Result<Following, AccessError> {
        let Some(place) = self.map.place(end) else { return Ok(Following::Nothing) };
        // Up to there may stand what the buffer of the server held before.
        let written = place.offset.next_multiple_of(WRITE_BYTES).saturating_sub(place.offset);
        let mut buf = vec![0; window(self.map.capacity()).min(MTR_SEARCH_BYTES)];
        let filled = self.map.read(end, &mut buf)?;
        let bytes = buf.get(..filled).unwrap_or_default();
        let is_of_this_turn = |at: usize, found: Mtr| match found {
            Mtr::Whole { record_bytes, sequence_bit } => {
                let lsn = InnodbLsn(end.0.saturating_add(at as u64));
                let next = at.saturating_add(record_bytes).saturating_add(MTR_TRAILER_BYTES);
                Some((self.is_of_this_turn(lsn, record_bytes, sequence_bit), next))
            }
            Mtr::End | Mtr::Broken => None,
        };
        for found in search(bytes, MAX_SUMMED_BYTES) {
            let Some((at, found)) = found else { return Ok(Following::Unknown) };
            let Some((is_new, next)) = is_of_this_turn(at, found) else { continue };
            // One alone may be so by chance.
            let after = Mtr::read(bytes.get(next..).unwrap_or_default());
            let is_chain = after == Mtr::End || is_of_this_turn(next, after).is_some_and(|(other, _)| other == is_new);
            if is_chain && !is_new {
                return Ok(Following::TurnBefore);
            }
            if is_chain && at as u64 >= written {
                return Ok(Following::ThisTurn);
            }
        }
        Ok(Following::Nothing)
    }
}

/// What follows the place where a log of mini-transactions seems to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Following {
    /// More of the log.
    ThisTurn,
    /// What was written when the log was here the last time.
    TurnBefore,
    /// Neither.
    Nothing,
    /// The search was given up.
    Unknown,
}

/// True for the number of a block that was written before another. Numbers begin anew after 2^30.
const fn is_older(number: u32, than: u32) -> bool {
    let distance = than.wrapping_sub(number) & 0x3FFF_FFFF;
    distance > 0 && distance < 1 << 29
}

/// Bytes of a log of mini-transactions that are read at once: never more than there are.
fn window(capacity: u64) -> usize {
    usize::try_from(capacity).unwrap_or(usize::MAX).min(WINDOW_BYTES)
}

const fn next_block(start: InnodbLsn) -> InnodbLsn {
    InnodbLsn(start.0.saturating_add(REDO_BLOCK_BYTES as u64))
}
