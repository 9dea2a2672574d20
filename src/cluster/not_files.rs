//! What stands where a server writes a file and is none.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::data_dir::DataDir;
use super::open::{Links, ReadFile};
use super::server_files::{FileFault, server_directory};
use super::slru_files::is_numbered;

/// Directories whose files are numbered by a counter that comes round.
const SLRU_DIRECTORIES: [&str; 7] = [
    "pg_commit_ts",
    "pg_multixact/members",
    "pg_multixact/offsets",
    "pg_notify",
    "pg_serial",
    "pg_subtrans",
    "pg_xact",
];

/// Lengths of the names of such files.
///
/// Source: `SlruFileName` and `SlruCorrectSegmentFilenameLength`, `src/backend/access/transam/slru.c`.
const SLRU_NAME_LENGTHS: [usize; 4] = [4, 5, 6, 15];

/// Length of the name of a WAL segment.
///
/// Source: `XLOG_FNAME_LEN`, `src/include/access/xlog_internal.h`.
const WAL_NAME_LENGTH: usize = 24;

/// Files that a server makes anew or removes, whatever is in them.
const REMADE_FILES: [&str; 2] = ["global/pg_internal.init", "pg_logical/replorigin_checkpoint.tmp"];

/// Something that has the name of a file of the server and is none: a directory, a device, a link that leads nowhere.
#[derive(Debug)]
pub struct NotAFile {
    /// Its path, relative to the data directory.
    pub path: PathBuf,
    /// What it is.
    pub fault: FileFault,
    /// A start fails that comes to it, else only what is done later.
    pub stops_start: bool,
}

/// Looks for them. Where a server comes to write such a file it fails, which for most is at the latest when a checkpoint ends.
///
/// Sources: `SlruPhysicalWritePage`, `src/backend/access/transam/slru.c`; `CheckPointReplicationOrigin`,
/// `src/backend/replication/logical/origin.c`; servers of 10 to 18 that were started so.
#[must_use]
pub fn not_files(directory: &DataDir) -> Vec<NotAFile> {
    let root = directory.root();
    // Replay opens each segment of WAL in its turn, and the next one when WAL goes on.
    let numbered =
        SLRU_DIRECTORIES.map(|of| (of, &SLRU_NAME_LENGTHS[..])).into_iter().chain([("pg_wal", &[WAL_NAME_LENGTH][..])]);
    let mut paths = Vec::new();
    for (of, lengths) in numbered {
        let names = names_in(root, Path::new(of)).filter(|name| is_numbered(name) && lengths.contains(&name.len()));
        paths.extend(names.map(|name| Path::new(of).join(name)));
    }
    paths.retain(|path| !root.join(path).metadata().is_ok_and(|found| found.is_file()));
    // Of these a link that leads nowhere is removed with its name.
    let slots =
        names_in(root, Path::new("pg_replslot")).map(|name| Path::new("pg_replslot").join(name).join("state.tmp"));
    let remade = REMADE_FILES.map(PathBuf::from).into_iter().chain(slots);
    paths.extend(remade.filter(|path| root.join(path).symlink_metadata().is_ok_and(|found| found.is_dir())));
    paths.sort_unstable();
    let not_a_file = |path: PathBuf| {
        let fault = ReadFile::open(&root.join(&path), Links::Follow).err()?.into();
        let stops_start = !path.ends_with("pg_internal.init");
        Some(NotAFile { path, fault, stops_start })
    };
    paths.into_iter().filter_map(not_a_file).collect()
}

/// Names of the entries of a directory, relative to the data directory, as far as it can be listed.
fn names_in(root: &Path, of: &Path) -> impl Iterator<Item = OsString> + use<> {
    fs::read_dir(root.join(of)).into_iter().flatten().flatten().map(|entry| entry.file_name())
}

/// What is in `base` under the name of a database or in `pg_tblspc`, and is neither a directory nor a link to one, with its path relative to
/// the data directory. A tablespace whose link leads nowhere is passed over.
#[must_use]
pub fn not_databases(directory: &DataDir) -> Vec<(PathBuf, FileFault)> {
    let root = directory.root();
    let is_oid = |name: &OsString| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let databases = names_in(root, Path::new("base")).filter(is_oid).map(|name| Path::new("base").join(name));
    let tablespaces = names_in(root, Path::new("pg_tblspc")).map(|name| Path::new("pg_tblspc").join(name));
    let mut paths: Vec<PathBuf> = databases.chain(tablespaces.filter(|path| root.join(path).exists())).collect();
    paths.sort_unstable();
    paths.into_iter().filter_map(|path| server_directory(directory, &path).err().map(|fault| (path, fault))).collect()
}
