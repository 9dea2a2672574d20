//! Whether files have changed since they were read.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Size, time of the last change, and number of a file; `None` if it is missing.
type Stamp = Option<(u64, i64, i64, u64)>;

#[derive(Debug, Default)]
pub(crate) struct FileStamps(Vec<(PathBuf, Stamp)>);

fn stamp(path: &Path) -> Stamp {
    let of = |metadata: Metadata| (metadata.size(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino());
    path.metadata().ok().map(of)
}

impl FileStamps {
    pub fn of(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(paths.into_iter().map(|path| (path.clone(), stamp(&path))).collect())
    }

    pub(crate) fn have_changed(&self) -> bool {
        self.0.iter().any(|(path, before)| stamp(path) != *before)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn changed_new_and_lost_files_are_seen() {
        let temporary = tempfile::tempdir().unwrap();
        let make = || tempfile::Builder::new().prefix("one").rand_bytes(0).tempfile_in(temporary.path()).unwrap();
        let look = || FileStamps::of([temporary.path().join("one")]);
        let before = look();
        assert!(!before.have_changed());
        let mut file = make();
        assert!(before.have_changed(), "new");
        let before = look();
        assert!(!before.have_changed());
        file.write_all(b"1").unwrap();
        assert!(before.have_changed(), "changed");
        let before = look();
        drop(file);
        assert!(before.have_changed(), "lost");
    }
}
