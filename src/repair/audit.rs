//! The log of a journal: what was written when, a JSON object a line.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::collections::BTreeSet;
use std::io::Write;

use jiff::Timestamp;
use rustix::fs::OFlags;
use serde_json::{Value, json};

use super::journal::JournalError;
use super::journal_dir::JournalDir;
use crate::cluster::open::AccessError;

/// Name of the log in a journal's directory.
pub(super) const AUDIT: &str = "audit.ndjson";

/// Event that begins a repair; it stands in the log before the first page is overwritten.
const REPAIR_BEGINS: &str = "repair_begins";

/// Longest log that is read, in bytes.
const AUDIT_LIMIT_BYTES: u64 = 512 << 20;

/// Adds a line to the log and waits until it is on disk. Never blocks on a FIFO, never writes through a link, nor into a
/// file that has another name too.
///
/// # Errors
/// When the log is not a file of this journal alone, or the system refuses.
pub(super) fn append(directory: &JournalDir, event: &str, details: Value) -> Result<(), JournalError> {
    let path = directory.path_of(AUDIT);
    let mut line = json!({"time": Timestamp::now().to_string(), "event": event});
    if let (Some(line), Value::Object(details)) = (line.as_object_mut(), details) {
        line.extend(details);
    }
    let (mut file, _) = directory.open(AUDIT, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(|source| AccessError::io("write", &path, source))?;
    file.sync_data().map_err(|source| AccessError::io("sync", &path, source))?;
    Ok(())
}

/// Lines of the log; `None` when there is no log. A line that was cut off says nothing; those before it do.
fn lines(directory: &JournalDir) -> Result<Option<Vec<Value>>, JournalError> {
    let bytes = match directory.open_to_read(AUDIT) {
        Ok(file) => file.read_small(AUDIT_LIMIT_BYTES)?,
        Err(JournalError::Access(error)) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(String::from_utf8_lossy(&bytes).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()))
}

/// When the first repair with this journal began, by its log; `None` when the log does not say.
///
/// # Errors
/// When the log is there but cannot be read.
pub(super) fn began(directory: &JournalDir) -> Result<Option<Timestamp>, JournalError> {
    let lines = lines(directory)?.unwrap_or_default();
    let first = lines.iter().find(|line| line["event"] == REPAIR_BEGINS);
    Ok(first.and_then(|line| line["time"].as_str()?.parse().ok()))
}

/// What the log tells of the pages of its journal, in words; `None` when there is no log, which is made before the first
/// page is overwritten.
///
/// # Errors
/// When the log is there but cannot be read.
pub(super) fn told(directory: &JournalDir) -> Result<Option<String>, JournalError> {
    let Some(lines) = lines(directory)? else { return Ok(None) };
    let (mut begun, mut overwritten, mut put_back) = (false, BTreeSet::new(), 0_usize);
    for line in lines {
        begun |= line["event"] == REPAIR_BEGINS;
        let place = (line["path"].to_string(), line["offset"].as_u64());
        match line["what"].as_str() {
            Some("repair") => {
                overwritten.insert(place);
            }
            Some("undo") => put_back += usize::from(overwritten.remove(&place)),
            _ => {}
        }
    }
    Ok(Some(match (overwritten.len(), put_back) {
        (0, 0) if !begun => "its log tells of no repair".to_owned(),
        (0, 0) => "by its log a repair began: the first page may have been overwritten".to_owned(),
        (0, back) => format!("by its log all {back} pages that were overwritten were put back"),
        (1, _) => "by its log 1 page was overwritten and not put back".to_owned(),
        (count, _) => format!("by its log {count} pages were overwritten and not put back"),
    }))
}
