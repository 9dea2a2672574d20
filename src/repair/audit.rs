//! The log of a journal: what was written when, a JSON object a line.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;

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

/// Bytes of a log that are read, from its beginning on. A log becomes longer with each resume and undo, and nothing that is
/// put back depends on it.
const AUDIT_LIMIT_BYTES: u64 = 64 << 20;

/// Longest line that is read, in bytes; a longer one says nothing.
const LINE_LIMIT_BYTES: u64 = 64 << 10;

/// Adds a line to the log and waits until it is on disk. Never blocks on a FIFO, never writes through a link, nor into a
/// file that has another name too.
pub(super) fn append(directory: &JournalDir, event: &str, details: Value) -> Result<(), JournalError> {
    let path = directory.path_of(AUDIT);
    let mut line = json!({"time": Timestamp::now().to_string(), "event": event});
    if let (Some(line), Value::Object(details)) = (line.as_object_mut(), details) {
        line.extend(details);
    }
    let (mut file, size_bytes) = directory.open(AUDIT, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)?;
    // A line that was cut off must not take the next one with it.
    let mut last = *b"\n";
    if let Some(at) = size_bytes.checked_sub(1) {
        file.read_exact_at(&mut last, at).map_err(|source| AccessError::io("read", &path, source))?;
    }
    let begin = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{begin}{line}\n").as_bytes()).map_err(|source| AccessError::io("write", &path, source))?;
    file.sync_data().map_err(|source| AccessError::io("sync", &path, source))?;
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogRead {
    /// No log exists.
    Missing,
    Whole,
    Part,
}

/// Shows the lines of the log one after the other, as long as `visit` wants more. A line that was cut off, is damaged or too
/// long says nothing and is `None`; the others do.
fn read_lines(directory: &JournalDir, mut visit: impl FnMut(Option<&Value>) -> bool) -> Result<LogRead, JournalError> {
    let (file, size_bytes) = match directory.open(AUDIT, OFlags::RDONLY) {
        Ok(opened) => opened,
        Err(JournalError::Access(error)) if error.is_not_found() => return Ok(LogRead::Missing),
        Err(error) => return Err(error),
    };
    let failed = |source: io::Error| AccessError::io("read", &directory.path_of(AUDIT), source);
    let mut reader = BufReader::new(file.take(AUDIT_LIMIT_BYTES));
    let (mut line, mut is_rest) = (Vec::new(), false);
    loop {
        line.clear();
        if reader.by_ref().take(LINE_LIMIT_BYTES).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        let is_end = line.ends_with(b"\n");
        if !is_rest && !visit(serde_json::from_slice(&line).ok().as_ref()) {
            return Ok(LogRead::Whole);
        }
        is_rest = !is_end;
    }
    Ok(if size_bytes > AUDIT_LIMIT_BYTES { LogRead::Part } else { LogRead::Whole })
}

/// When the first repair with this journal began, by its log; `None` when the log does not say.
pub(super) fn began(directory: &JournalDir) -> Result<Option<Timestamp>, JournalError> {
    let mut began = None;
    let read = read_lines(directory, |line| {
        let Some(line) = line.filter(|line| line["event"] == REPAIR_BEGINS) else { return true };
        began = line["time"].as_str().and_then(|time| time.parse().ok());
        false
    })?;
    match read {
        LogRead::Part => Err(JournalError::Damaged {
            path: directory.path_of(AUDIT),
            what: format!("no repair begins in its first {AUDIT_LIMIT_BYTES} bytes"),
        }),
        LogRead::Missing | LogRead::Whole => Ok(began),
    }
}

/// State of the pages according to the log, in words; `None` without a log, which is created before the first
/// page is overwritten.
pub(super) fn told(directory: &JournalDir) -> Result<Option<String>, JournalError> {
    let (mut begun, mut overwritten, mut put_back) = (false, BTreeSet::new(), 0_usize);
    let mut unreadable = 0_usize;
    let read = read_lines(directory, |line| {
        let Some(line) = line else {
            unreadable = unreadable.saturating_add(1);
            return true;
        };
        begun |= line["event"] == REPAIR_BEGINS;
        let position = (line["path"].to_string(), line["offset"].as_u64());
        match line["what"].as_str() {
            Some("repair") => {
                overwritten.insert(position);
            }
            Some("undo") => put_back += usize::from(overwritten.remove(&position)),
            _ => {}
        }
        true
    })?;
    match read {
        LogRead::Missing => return Ok(None),
        LogRead::Part => {
            return Ok(Some(format!("its log is longer than the {AUDIT_LIMIT_BYTES} bytes that are read")));
        }
        LogRead::Whole => {}
    }
    let told = match (overwritten.len(), put_back) {
        (0, 0) if !begun => "its log records no repair".to_owned(),
        (0, 0) => "its log shows that a repair began; the first page may have been overwritten".to_owned(),
        (0, back) => format!("its log shows that all {back} overwritten pages were undone"),
        (1, _) => "its log shows 1 page that was overwritten and not undone".to_owned(),
        (count, _) => format!("its log shows {count} pages that were overwritten and not undone"),
    };
    Ok(Some(match unreadable {
        0 => told,
        1 => format!("{told}; 1 line of it cannot be read, so there may be more"),
        count => format!("{told}; {count} lines of it cannot be read, so there may be more"),
    }))
}
