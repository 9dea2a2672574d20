//! When a record was written, where it says so.

use super::payload::PgTimestamp;
use super::record::Record;
use super::records::RecordKind;

/// Bytes before `prepared_at` in the state of a prepared transaction: magic, length, transaction, database.
///
/// Source: `TwoPhaseFileHeader`, `src/backend/access/transam/twophase.c` (`src/include/access/xact.h` before).
const PREPARED_AT: usize = 16;

/// The clock of the server as it wrote a record; `None` for a record that tells no time, or is too short to.
///
/// Commits, aborts, prepared transactions, restore points and the end of recovery tell it. Those of checkpoints are left
/// out: they tell when the checkpoint began, in whole seconds, which is long before their record.
///
/// Clocks can be set back: a later record may tell an earlier time.
#[inline]
pub fn record_time(record: &Record<'_>) -> Option<PgTimestamp> {
    let at = match record.kind() {
        RecordKind::XactPrepare => PREPARED_AT,
        RecordKind::XlogRestorePoint | RecordKind::XlogEndOfRecovery => 0,
        kind if kind.ends_xact() => 0,
        _ => return None,
    };
    let bytes = record.main_data().get(at..)?.first_chunk()?;
    Some(PgTimestamp(i64::from_le_bytes(*bytes)))
}
