//! A plan saved as a new file.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::io::Write;
use std::path::{Path, PathBuf};

use super::outside::{OutsideError, open_parent};
use super::plan::Plan;
use crate::cluster::open::AccessError;

/// Writes a plan into a new file outside `protected`.
///
/// # Errors
/// When the file exists, lies inside a protected directory or that cannot be found out, or the system refuses.
pub fn save(path: &Path, plan: &Plan, protected: &[PathBuf]) -> Result<(), OutsideError> {
    let fail = |operation, source| AccessError::io(operation, path, source);
    let text = serde_json::to_string_pretty(plan).map_err(|error| fail("write", error.into()))?;
    let (directory, name) = open_parent(path, protected)?;
    let mut file = directory.create_file(name)?;
    file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(|source| fail("write", source))?;
    file.sync_all().map_err(|source| fail("sync", source))?;
    directory.sync()?;
    Ok(())
}
