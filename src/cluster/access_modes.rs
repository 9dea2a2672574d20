//! Owners and modes of files and directories that a server keeps: those that differ from the rest, which a server may not be able to
//! open.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::data_dir::DataDir;
use super::open::list;
use super::relation_walk::RelationFile;

/// Directories of a server, whose files are looked at, too.
const DIRECTORIES: [&str; 8] = [
    "global",
    "pg_commit_ts",
    "pg_multixact/members",
    "pg_multixact/offsets",
    "pg_subtrans",
    "pg_twophase",
    "pg_wal",
    "pg_xact",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OddModes {
    /// The first such path, relative to the data directory.
    pub first: PathBuf,
    pub found: (u32, u32),
    pub usual: (u32, u32),
    pub count: usize,
}

/// Compares owners and permissions of files with each other, and those of directories.
pub(crate) fn odd_modes(directory: &DataDir, relations: &[RelationFile]) -> Option<OddModes> {
    let root = directory.root();
    let mut seen: [BTreeMap<(u32, u32), (usize, PathBuf)>; 2] = Default::default();
    let mut look = |path: &Path| {
        let Ok(found) = fs::metadata(root.join(path)) else { return };
        let [files, directories] = &mut seen;
        let of_kind = if found.is_dir() { directories } else { files };
        let (count, _) = of_kind.entry((found.uid(), found.mode() & 0o7777)).or_insert((0, path.to_owned()));
        *count = count.saturating_add(1);
    };
    look(Path::new(""));
    for name in DIRECTORIES {
        look(Path::new(name));
        let listed = list(&root.join(name)).unwrap_or_default();
        listed.iter().filter(|(_, kind)| kind.is_file()).for_each(|(file, _)| look(&Path::new(name).join(file)));
    }
    for file in relations {
        look(&file.path);
    }
    seen.into_iter().find_map(odd_of)
}

fn odd_of(seen: BTreeMap<(u32, u32), (usize, PathBuf)>) -> Option<OddModes> {
    let (usual, _) = seen.iter().max_by_key(|(_, (count, _))| *count).map(|(of, found)| (*of, found))?;
    let odd = seen.into_iter().filter(|(of, _)| *of != usual);
    let odd: Vec<((u32, u32), (usize, PathBuf))> = odd.collect();
    let count = odd.iter().map(|(_, (count, _))| count).sum();
    let (found, (_, first)) = odd.into_iter().next()?;
    Some(OddModes { first, found, usual, count })
}
