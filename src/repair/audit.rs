//! The log of a journal: what was written when, a JSON object a line.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde_json::{Value, json};

use crate::cluster::open::{AccessError, Links, kind_of, read_small};

/// Name of the log in a journal's directory.
pub(super) const AUDIT: &str = "audit.ndjson";

/// Event that begins a repair; it stands in the log before the first page is overwritten.
const REPAIR_BEGINS: &str = "repair_begins";

/// Longest log that is read, in bytes.
const AUDIT_LIMIT_BYTES: u64 = 512 << 20;

/// Adds a line to the log and waits until it is on disk. Never blocks on a FIFO, never writes through a link.
///
/// # Errors
/// When the log is no regular file, or the system refuses.
pub(super) fn append(directory: &Path, event: &str, details: Value) -> Result<(), AccessError> {
    let path = directory.join(AUDIT);
    let fail = |operation, source| AccessError::io(operation, &path, source);
    let regular = |kind: std::fs::FileType| match kind_of(kind) {
        None => Ok(()),
        Some(kind) => Err(AccessError::NotRegular { path: path.clone(), kind }),
    };
    // Before it is opened: to open a device can have effects.
    match path.symlink_metadata() {
        Ok(metadata) => regular(metadata.file_type())?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(fail("look at", error)),
    }
    let mut line = json!({"time": jiff::Timestamp::now().to_string(), "event": event});
    if let (Some(line), Value::Object(details)) = (line.as_object_mut(), details) {
        line.extend(details);
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(&path);
    let mut file = opened.map_err(|source| fail("open", source))?;
    let metadata = file.metadata().map_err(|source| fail("look at", source))?;
    regular(metadata.file_type())?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(|source| fail("write", source))?;
    file.sync_data().map_err(|source| fail("sync", source))
}

/// What the log tells of the pages of its journal, in words; `None` when there is no log, which is made before the first
/// page is overwritten.
///
/// # Errors
/// When the log is there but cannot be read.
pub(super) fn told(directory: &Path) -> Result<Option<String>, AccessError> {
    let bytes = match read_small(&directory.join(AUDIT), Links::Refuse, AUDIT_LIMIT_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let (mut begun, mut overwritten, mut put_back) = (false, BTreeSet::new(), 0_usize);
    // A line that was cut off says nothing; those before it do.
    for line in String::from_utf8_lossy(&bytes).lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
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
