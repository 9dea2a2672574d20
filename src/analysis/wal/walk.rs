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
#[derive(Debug)]
pub struct WalkEnd {
    /// How reading ended; `None` when the visitor broke it off or the end of the plan was reached.
    pub end: Option<EndOfWal>,
    /// Why bytes could not be read.
    pub error: Option<WalReadError>,
    /// Bytes that were read.
    pub bytes_read: u64,
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
    let mut result = WalkEnd { end: None, error: None, bytes_read: 0 };
    if range.is_empty() {
        return Ok(result);
    }
    let geometry = set.geometry();
    let page = u64::from(geometry.wal_block_size).max(1);
    let file_start = set.segments()[range.start].start_lsn;
    let first = Lsn(file_start.0.max(plan.start_lsn.0 - plan.start_lsn.0 % page));
    let mut options = reader_options(set);
    options.resynchronise = resynchronise;
    let mut reader = WalReader::new(options, first).map_err(WalReadError::Sizes)?;
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
                if let Event::Record(record) = &event {
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
        if delivered < u64::from(geometry.wal_segment_size) || reader.is_stopped() || failed(&result) {
            break;
        }
    }
    result.end = Some(reader.finish());
    Ok(result)
}
