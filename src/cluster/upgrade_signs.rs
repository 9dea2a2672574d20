//! Traces of `pg_upgrade --link` in the old data directory.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::relation_walk::RelationFile;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpgradeSigns {
    /// `global/pg_control.old` is there.
    pub has_old_control: bool,
    /// Files of relations that another directory holds too, by their link counts.
    pub linked_files: u64,
}

impl UpgradeSigns {
    /// Looks for them.
    ///
    /// Source: `disable_old_cluster`, `src/bin/pg_upgrade/controldata.c`.
    pub fn of(data_dir: &Path, files: &[RelationFile]) -> Self {
        let is_linked = |file: &&RelationFile| {
            data_dir.join(&file.path).symlink_metadata().is_ok_and(|found| found.is_file() && found.nlink() > 1)
        };
        Self {
            has_old_control: data_dir.join("global/pg_control.old").symlink_metadata().is_ok(),
            linked_files: files.iter().filter(is_linked).count() as u64,
        }
    }
}
