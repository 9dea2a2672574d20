//! A plan saved as a new file.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::journal::JournalError;
use super::plan::Plan;
use crate::cluster::open::AccessError;

/// Writes a plan into a new file outside `protected`.
///
/// # Errors
/// When the file exists, lies inside a protected directory, or the system refuses.
pub fn save(path: &Path, plan: &Plan, protected: &[PathBuf]) -> Result<(), JournalError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = fs::canonicalize(parent).map_err(|source| AccessError::io("find", parent, source))?;
    for protected in protected.iter().filter_map(|path| fs::canonicalize(path).ok()) {
        if real.starts_with(&protected) {
            return Err(JournalError::Inside { directory: path.to_owned(), protected });
        }
    }
    let fail = |operation, source| AccessError::io(operation, path, source);
    let text = serde_json::to_string_pretty(plan).map_err(|error| fail("write", error.into()))?;
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = opened.map_err(|source| fail("create", source))?;
    file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(|source| fail("write", source))?;
    file.sync_all().map_err(|source| fail("sync", source))?;
    Ok(())
}
