//! A new file outside the data: where it may stand is found out first, and it is written when its content is known.
//! Also here: a plan saved as a new file.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::path::{Path, PathBuf};

use super::held::HeldDir;
use super::outside::{OutsideError, open_parent};
use super::plan::{PLAN_LIMIT_BYTES, Plan};
use crate::cluster::open::AccessError;

/// A file that does not exist yet, in a directory that is held.
#[derive(Debug)]
pub(crate) struct NewFile {
    directory: HeldDir,
    name: PathBuf,
}

impl NewFile {
    /// Makes sure that a file can be made there: outside of `protected` and of every data directory, and that nothing of
    /// that name is there. Makes nothing yet.
    ///
    /// # Errors
    /// When something is there, it lies inside a protected directory or that cannot be found out, or the system refuses.
    pub fn at(path: &Path, protected: &[PathBuf]) -> Result<Self, OutsideError> {
        let (directory, name) = open_parent(path, protected)?;
        match directory.stat_of(name) {
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(OutsideError::Exists(path.to_owned())),
        }
        let name = name.to_owned();
        Ok(Self { directory, name })
    }

    /// Makes the file, writes it, and waits until it is on disk. Where it cannot be written whole, nothing of it stays.
    ///
    /// # Errors
    /// When something of that name is there by now, or the system refuses.
    pub fn write(&self, bytes: &[u8]) -> Result<(), AccessError> {
        self.directory.write_new(&self.name, bytes, true)?;
        self.directory.sync()
    }
}

/// Writes a plan into a new file outside `protected`.
///
/// # Errors
/// When the plan is longer than what is read back, the file exists, lies inside a protected directory or that cannot be found out, or the system refuses.
pub fn save(path: &Path, plan: &Plan, protected: &[PathBuf]) -> Result<(), OutsideError> {
    let text = serde_json::to_string_pretty(plan).map_err(|error| AccessError::io("write", path, error.into()))?;
    let (size_bytes, limit_bytes) = (text.len() as u64 + 1, PLAN_LIMIT_BYTES);
    if size_bytes > limit_bytes {
        return Err(AccessError::TooLong { path: path.to_owned(), size_bytes, limit_bytes }.into());
    }
    Ok(NewFile::at(path, protected)?.write(format!("{text}\n").as_bytes())?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::repair::plan::{LeftPage, PLAN_SCHEMA, PlanPage};

    #[test]
    fn nothing_is_overwritten_and_nothing_goes_into_the_data() {
        let temporary = tempfile::tempdir().unwrap();
        let data = temporary.path().join("data");
        fs::create_dir(&data).unwrap();
        let protected = std::slice::from_ref(&data);
        assert!(matches!(NewFile::at(&data.join("x"), protected), Err(OutsideError::Inside { .. })));
        let path = temporary.path().join("new");
        let (first, second) = (NewFile::at(&path, protected).unwrap(), NewFile::at(&path, protected).unwrap());
        assert!(!path.exists());
        first.write(b"first").unwrap();
        assert!(second.write(b"second").is_err());
        assert!(NewFile::at(&path, protected).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    }

    #[test]
    fn plan_that_would_not_be_read_back_is_not_saved() {
        let page = PlanPage { spc_oid: 1663, db_oid: 5, rel_number: 1259, fork: "main".to_owned(), block: 0 };
        let reasons = vec!["x".repeat(usize::try_from(PLAN_LIMIT_BYTES).unwrap())];
        let left = LeftPage { page, relation: None, verdict: "leave".to_owned(), reasons, reason_codes: Vec::new() };
        let mut plan = Plan {
            schema: PLAN_SCHEMA,
            system_identifier: "1".to_owned(),
            redo_lsn: "0/0".to_owned(),
            steps: Vec::new(),
            left: vec![left],
        };
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("plan.json");
        let refused = save(&path, &plan, &[]);
        assert!(matches!(refused, Err(OutsideError::Access(AccessError::TooLong { .. }))), "{refused:?}");
        assert!(!path.exists());
        plan.left.clear();
        save(&path, &plan, &[]).unwrap();
    }
}
