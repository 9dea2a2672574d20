//! A plan saved as a new file.

use std::path::{Path, PathBuf};

use super::new_file::NewFile;
use super::outside::OutsideError;
use super::plan::{PLAN_LIMIT_BYTES, Plan};
use crate::cluster::open::AccessError;

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
    use super::*;
    use crate::repair::plan::{LeftPage, PLAN_SCHEMA, PlanPage};

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
