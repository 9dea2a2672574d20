//! Reads a run of segments in order and shows every event: for listings, where order matters more than speed.

use std::ops::{ControlFlow, Range};

use super::collect::touched;
use super::partial::{ScanPlan, reader_options};
use crate::cluster::wal::WalReadError;
use crate::cluster::wal::WalSet;
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::reader::{Event, WalReader};
use crate::types::Lsn;

/// How a walk ended.
#[derive(Debug, Default)]
pub struct WalkEnd {
    /// How reading ended; `None` when the visitor broke it off or the end of the plan was reached.
    pub end: Option<EndOfWal>,
    /// Why bytes could not be read.
    pub error: Option<WalReadError>,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Damage that reading went on behind, the first thousand places of it.
    pub damage: Vec<Damage>,
    /// Further damage, only counted.
    pub further_damage: u64,
}

/// Places of damage that are kept one by one.
const MAX_DAMAGE: usize = 1000;

/// A place where reading failed and behind which it went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The place that failed.
    pub at: Lsn,
    /// End of the last good record before it.
    pub from: Lsn,
    /// The first good record behind it; `None` when there was none.
    pub resumed: Option<Lsn>,
    /// What was found.
    pub reason: String,
}

impl WalkEnd {
    fn add_damage(&mut self, at: Lsn, from: Option<Lsn>, reason: String) {
        // While nothing good was found, it is the same damage.
        if self.damage.last().is_some_and(|last| last.resumed.is_none()) {
            return;
        }
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(Damage { at, from: from.unwrap_or(at), resumed: None, reason });
        } else {
            self.further_damage += 1;
        }
    }

    fn resume(&mut self, at: Lsn) {
        if let Some(open) = self.damage.last_mut().filter(|last| last.resumed.is_none()) {
            open.resumed = Some(at);
        }
    }
}

/// True when bytes of a segment are missing.
fn failed(result: &WalkEnd) -> bool {
    result.error.as_ref().is_some_and(|error| !error.is_behind_the_segment())
}

/// Reads the records of `plan` in order. Records before its start are read but not shown; the first record that ends
/// behind its end stops the walk. `resynchronise` goes on behind damage.
///
/// # Errors
/// When the first segment cannot be opened.
pub fn walk_run(
    set: &WalSet,
    run: &Range<usize>,
    plan: &ScanPlan,
    resynchronise: bool,
    mut visit: impl FnMut(&Event<'_>, u64) -> ControlFlow<()>,
) -> Result<WalkEnd, WalReadError> {
    let range = touched(set, run, plan);
    let mut result = WalkEnd::default();
    if range.is_empty() {
        return Ok(result);
    }
    let geometry = set.geometry();
    let page = u64::from(geometry.wal_block_size).max(1);
    let file_start = set.segments()[range.start].start_lsn;
    let first = Lsn(file_start.0.max(plan.start_lsn.0 - plan.start_lsn.0 % page));
    let mut options = reader_options(set);
    options.resynchronise = resynchronise;
    let mut reader = WalReader::new(options.clone(), first).map_err(WalReadError::Sizes)?;
    let mut last_end = None;
    let mut open: Option<EndOfWal> = None;
    let mut skip = first.0 - file_start.0;
    // A record may reach over the last touched segment.
    for index in range.start..run.end {
        let mut bytes = match set.reader(index) {
            Ok(bytes) => bytes,
            Err(error) if index == range.start => return Err(error),
            Err(error) => {
                result.error = Some(error);
                break;
            }
        };
        let mut delivered = 0;
        loop {
            let piece = match bytes.next_piece() {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(error) if error.is_short() => break,
                Err(error) => {
                    result.error = Some(error);
                    break;
                }
            };
            delivered += piece.len() as u64;
            result.bytes_read += piece.len() as u64;
            let passed = skip.min(piece.len() as u64);
            skip -= passed;
            let mut input = &piece[usize::try_from(passed).unwrap_or(piece.len())..];
            while let Some(event) = reader.next(&mut input) {
                if let Event::Damage(end) = &event {
                    open.get_or_insert_with(|| end.clone());
                    result.add_damage(end.at, end.end_of_last.or(last_end), end.reason.to_string());
                }
                if let Event::Record(record) = &event {
                    result.resume(record.start_lsn);
                    open = None;
                    last_end = Some(record.end_lsn);
                    if record.start_lsn < plan.start_lsn {
                        continue;
                    }
                    if record.data_end_lsn > plan.end_lsn {
                        return Ok(result);
                    }
                }
                if visit(&event, result.bytes_read).is_break() {
                    return Ok(result);
                }
            }
        }
        let short = delivered < u64::from(geometry.wal_segment_size);
        if short && resynchronise && index + 1 < run.end {
            let next = set.segments()[index + 1].start_lsn;
            let reason = match result.error.take() {
                Some(error) => error.to_string(),
                None => format!("{} ends early", set.segments()[index].label),
            };
            result.add_damage(reader.position(), last_end, reason);
            reader = WalReader::new(options.clone(), next).map_err(WalReadError::Sizes)?;
            skip = 0;
            continue;
        }
        if short || reader.is_stopped() || failed(&result) {
            break;
        }
    }
    // A failure behind which nothing good came is where this WAL ends; whether that is damage is judged like any end.
    result.end = match open.filter(|_| result.damage.last().is_some_and(|last| last.resumed.is_none())) {
        Some(mut end) => {
            result.damage.pop();
            end.end_of_last = end.end_of_last.or(last_end);
            Some(end)
        }
        None => Some(reader.finish()),
    };
    Ok(result)
}
