//! Files that a server needs in addition to pages, WAL and `pg_control`: directories, maps of file numbers, and the
//! version of each database.
//! Also here: entries with the name of a file of the server that are not files.
//! Also here: files that a server reads whole at its start: prepared transactions, replication slots,
//! replication origins.
//! Also here: owners and modes of files that differ from the rest, which a server may not be able to open; accounts of this machine; free
//! space of the volumes that a start writes to.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, FileType};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::data_dir::{DataDir, VERSION_LIMIT_BYTES};
use super::open::{AccessError, Links, ReadFile, linked_directory, list, read_small, real_directories};
use super::relation_walk::RelationFile;
use super::xact_files::{SLRU_PAGES_PER_SEGMENT, XactLog, is_numbered};
use crate::parsers::control::ControlFile;
use crate::parsers::decode::ParseError;
use crate::parsers::filenode_map::{FilenodeMap, FilenodeMapFault};
use crate::parsers::state_files::{MAX_STATE_BYTES, StateFault, check_origins, check_slot, check_twophase};
use crate::parsers::wal::timeline::HistoryError;

/// Longest `pg_filenode.map` that is read, in bytes.
const MAP_LIMIT_BYTES: u64 = 4096;

/// Something is wrong with a file that a server needs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileFault {
    #[error("{}", .0.without_path())]
    Access(#[from] AccessError),
    #[error(transparent)]
    Map(FilenodeMapFault),
    #[error(transparent)]
    Short(ParseError),
    #[error("{found} bytes, this major version reads {expected}")]
    Length {
        /// Bytes of the file.
        found: usize,
        /// Bytes that are read.
        expected: usize,
    },
    /// It ends before the state of a transaction that a table may name.
    #[error("it ends before offset {offset} is complete, where the ends of transactions up to {last_xid} stand")]
    XactsCut {
        last_xid: u64,
        /// Offset of the page in the file.
        offset: u64,
    },
    /// A page of it says of no transaction how it ended.
    #[error("only zeros at offset {offset}, where the outcomes of transactions from {first_xid} should be")]
    XactsZero {
        first_xid: u64,
        /// Offset of the page in the file.
        offset: u64,
    },
    /// It ends before a page that something may be looked up in.
    #[error("it ends before the page at offset {offset} is complete")]
    PageCut {
        /// Offset of the page in the file.
        offset: u64,
    },
    #[error("only zeros at offset {offset}")]
    PageZero {
        /// Offset of the page in the file.
        offset: u64,
    },
    /// It cannot be read as the history of a timeline.
    #[error(transparent)]
    History(HistoryError),
    /// Nothing says how the transaction ended that it is of.
    #[error("of transaction {xid}, for which pg_xact has no file")]
    XactUnknown { xid: u32 },
    #[error(transparent)]
    State(StateFault),
    #[error("says {found:?}, but the cluster has major version {expected}")]
    Version { found: String, expected: &'static str },
}

impl FileFault {
    /// True when the system does not let this user open what is there: then nothing is known of it.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Access(error) if error.is_denied())
    }
}

/// The bytes of the map in a directory, relative to the data directory.
pub(super) fn read_map_bytes(root: &Path, directory: &Path) -> Result<Vec<u8>, AccessError> {
    let relative = directory.join("pg_filenode.map");
    real_directories(root, &relative)?;
    read_small(&root.join(&relative), Links::Refuse, MAP_LIMIT_BYTES)
}

/// The map in a directory as a server of this major takes it.
pub(crate) fn usable_map(directory: &DataDir, of: &Path) -> Result<FilenodeMap, FileFault> {
    let bytes = read_map_bytes(directory.root(), of)?;
    let expected = directory.major().facts().filenode_map.file_size();
    let Some(read) = bytes.get(..expected) else {
        return Err(FileFault::Length { found: bytes.len(), expected });
    };
    let map = FilenodeMap::decode(0, read).map_err(FileFault::Short)?;
    match map.faults().first() {
        Some(fault) => Err(FileFault::Map(*fault)),
        None => Ok(map),
    }
}

/// Checks that a database has the major version of the cluster, by the number that its `PG_VERSION` begins with.
pub(crate) fn database_version(directory: &DataDir, of: &Path) -> Result<(), FileFault> {
    let relative = of.join("PG_VERSION");
    real_directories(directory.root(), &relative)?;
    let bytes = read_small(&directory.root().join(&relative), Links::Refuse, VERSION_LIMIT_BYTES)?;
    let found = String::from_utf8_lossy(&bytes).trim().to_owned();
    let digits = found.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    match digits.parse() == Ok(directory.major().number()) {
        true => Ok(()),
        false => Err(FileFault::Version { found, expected: directory.major().facts().name }),
    }
}

/// Makes sure that a directory of the server is there, itself or by a link.
pub(crate) fn server_directory(directory: &DataDir, name: impl AsRef<Path>) -> Result<(), FileFault> {
    Ok(linked_directory(&directory.root().join(name))?)
}

/// True when nothing at all has this path, relative to the data directory, or a link on the way to it is dangling.
pub fn is_missing(directory: &DataDir, relative: &Path) -> bool {
    let metadata = directory.root().join(relative).symlink_metadata();
    metadata.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

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

/// Files that a server recreates, renames or removes, whatever is in them.
const REMADE_FILES: [&str; 7] = [
    "backup_label.old",
    "global/pg_internal.init",
    "pg_logical/replorigin_checkpoint.tmp",
    "pg_wal/RECOVERYHISTORY",
    "pg_wal/RECOVERYXLOG",
    "recovery.done",
    "tablespace_map.old",
];

/// Directories that a server creates if they are missing, and cannot create over a dangling symlink.
const REMADE_DIRECTORIES: [&str; 2] = ["pg_wal/archive_status", "pg_wal/summaries"];

/// An entry with the name of a file of the server that is not a file: a directory, a device, a dangling symlink.
#[derive(Debug)]
pub(crate) struct NotAFile {
    /// Its path, relative to the data directory.
    pub path: PathBuf,
    pub fault: FileFault,
    /// Startup fails when it reaches the entry; otherwise only later work fails.
    pub stops_start: bool,
}

#[derive(Debug, Default)]
pub(crate) struct NotFiles {
    pub found: Vec<NotAFile>,
    /// Directories that cannot be listed, relative to the data directory.
    pub skipped: Vec<(PathBuf, AccessError)>,
}

/// Looks for them. A server fails when it writes such a file, for most at the end of a checkpoint at the latest.
///
/// Sources: `SlruPhysicalWritePage`, `src/backend/access/transam/slru.c`; `CheckPointReplicationOrigin`,
/// `src/backend/replication/logical/origin.c`; servers of 10 to 18 that were started so.
pub(crate) fn not_files(directory: &DataDir, replays: bool) -> NotFiles {
    let root = directory.root();
    // Replay opens each segment of WAL in its turn, and the next one if WAL continues.
    let numbered =
        SLRU_DIRECTORIES.map(|of| (of, &SLRU_NAME_LENGTHS[..])).into_iter().chain([("pg_wal", &[WAL_NAME_LENGTH][..])]);
    let (mut paths, mut skipped) = (Vec::new(), Vec::new());
    let mut entries = |of: &str| match list(&root.join(of)) {
        Ok(entries) => entries,
        Err(error) => {
            // Whether a directory has to be there is examined elsewhere.
            if !error.is_not_found() && !error.is_no_directory() {
                skipped.push((PathBuf::from(of), error));
            }
            Vec::new()
        }
    };
    for (of, lengths) in numbered {
        let is_wanted =
            |(name, kind): &(OsString, FileType)| !kind.is_file() && is_numbered(name) && lengths.contains(&name.len());
        paths.extend(entries(of).into_iter().filter(is_wanted).map(|(name, _)| Path::new(of).join(name)));
    }
    paths.retain(|path| !root.join(path).metadata().is_ok_and(|found| found.is_file()));
    // A dangling symlink among these is removed with its name.
    let slots =
        entries("pg_replslot").into_iter().map(|(name, _)| Path::new("pg_replslot").join(name).join("state.tmp"));
    let remade = REMADE_FILES.map(PathBuf::from).into_iter().chain(slots);
    paths.extend(remade.filter(|path| root.join(path).symlink_metadata().is_ok_and(|found| found.is_dir())));
    let is_broken = |path: &&str| root.join(path).is_symlink() && !root.join(path).exists();
    paths.extend(REMADE_DIRECTORIES.into_iter().filter(is_broken).map(PathBuf::from));
    paths.sort_unstable();
    let not_a_file = |path: PathBuf| {
        let fault = ReadFile::open(&root.join(&path), Links::Follow).err()?.into();
        // After a clean shutdown it is not used.
        let stops_start = replays || !path.ends_with("pg_internal.init");
        Some(NotAFile { path, fault, stops_start })
    };
    NotFiles { found: paths.into_iter().filter_map(not_a_file).collect(), skipped }
}

/// Entries in `base` under the name of a database or in `pg_tblspc` that are neither a directory nor a link to one, with their
/// path relative to the data directory. A tablespace whose link is dangling is skipped.
pub(crate) fn not_databases(directory: &DataDir) -> Vec<(PathBuf, FileFault)> {
    let root = directory.root();
    // The search for relations reports a directory that cannot be listed.
    let entries = |of: &str| {
        let of = Path::new(of);
        let listed = list(&root.join(of)).unwrap_or_default();
        listed.into_iter().filter(|(_, kind)| !kind.is_dir()).map(|(name, _)| of.join(name)).collect::<Vec<PathBuf>>()
    };
    let is_oid =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit));
    let databases = entries("base").into_iter().filter(is_oid);
    let paths = databases.chain(entries("pg_tblspc").into_iter().filter(|path| root.join(path).exists()));
    paths.filter_map(|path| server_directory(directory, &path).err().map(|fault| (path, fault))).collect()
}

/// How far replication origins came, relative to the data directory.
const ORIGINS_PATH: &str = "pg_logical/replorigin_checkpoint";

/// Kind of file that stops startup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateFile {
    /// A transaction that was prepared for a commit in two phases.
    Prepared,
    /// One of a transaction for which `pg_xact` has no file.
    PreparedUnknown,
    Slot,
    Origins,
}

/// Something is wrong with one of them.
#[derive(Debug)]
pub(crate) struct StateFileFault {
    /// The file, relative to the data directory.
    pub file: PathBuf,
    pub of: StateFile,
    pub fault: FileFault,
}

/// Examines all of them. A missing directory is not a fault here. `replays`: startup replays WAL.
pub(crate) fn state_faults(directory: &DataDir, control: Option<&ControlFile>, replays: bool) -> Vec<StateFileFault> {
    let mut faults = Vec::new();
    let root = directory.root();
    let mut check = |file: PathBuf, of: StateFile, check: fn(&[u8]) -> Result<(), StateFault>| {
        let read = read_small(&root.join(&file), Links::Refuse, MAX_STATE_BYTES).map_err(FileFault::from);
        if let Err(fault) = read.and_then(|bytes| check(&bytes).map_err(FileFault::State)) {
            faults.push(StateFileFault { file, of, fault });
        }
    };
    let (mut failed, mut unknown) = (Vec::new(), Vec::new());
    for name in entries(root, Path::new("pg_twophase"), &mut failed) {
        let is_read = is_prepared(directory, control, &name);
        let file = Path::new("pg_twophase").join(&name);
        if let Some(xid) = unknown_xact(directory, control, &name, replays) {
            unknown.push(StateFileFault {
                file,
                of: StateFile::PreparedUnknown,
                fault: FileFault::XactUnknown { xid },
            });
        } else if is_read {
            check(file, StateFile::Prepared, check_twophase);
        }
    }
    for name in entries(root, Path::new("pg_replslot"), &mut failed) {
        let slot = Path::new("pg_replslot").join(&name);
        let is_directory = root.join(&slot).symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        // What a crash left of a slot that was being made or dropped is removed first.
        if is_directory && !name.ends_with(".tmp") {
            check(slot.join("state"), StateFile::Slot, check_slot);
        }
    }
    let origins = Path::new(ORIGINS_PATH);
    if root.join(origins).symlink_metadata().is_ok() {
        check(origins.to_owned(), StateFile::Origins, check_origins);
    }
    faults.extend(unknown);
    faults.extend(failed.into_iter().map(|(file, of, error)| StateFileFault { file, of, fault: error.into() }));
    faults
}

/// Names of entries, sorted; none where there is no such directory.
fn entries(root: &Path, of: &Path, failed: &mut Vec<(PathBuf, StateFile, AccessError)>) -> Vec<String> {
    let path = root.join(of);
    let kind = if of.ends_with("pg_twophase") { StateFile::Prepared } else { StateFile::Slot };
    match list(&path) {
        Ok(entries) => entries.into_iter().filter_map(|(name, _)| name.into_string().ok()).collect(),
        Err(error) => {
            if !error.is_not_found() {
                failed.push((of.to_owned(), kind, error));
            }
            Vec::new()
        }
    }
}

/// The file of a prepared transaction, relative to the data directory.
///
/// Source: `TwoPhaseFilePath`, `src/backend/access/transam/twophase.c`.
pub(crate) fn prepared_file(directory: &DataDir, control: &ControlFile, xid: u32) -> PathBuf {
    let next = control.checkpoint.next_full_xid;
    let low = next & u64::from(u32::MAX);
    let epoch = (next >> 32).saturating_sub(u64::from(u64::from(xid) >= low));
    let name = if directory.major().facts().prepares_by_full_xid {
        format!("{:016X}", epoch << 32 | u64::from(xid))
    } else {
        format!("{xid:08X}")
    };
    Path::new("pg_twophase").join(name)
}

/// The transaction of a file in `pg_twophase`, sound or not, for which `pg_xact` has no file. Startup looks up its outcome
/// there before it tests whether it is a future one.
///
/// Source: `ProcessTwoPhaseBuffer`, `src/backend/access/transam/twophase.c`.
fn unknown_xact(directory: &DataDir, control: Option<&ControlFile>, name: &str, replays: bool) -> Option<u32> {
    let (control, xid) = (control?, prepared_xid(directory, name)?);
    let needs_no_file = replays && directory.major().facts().prepares_without_xact_file;
    if needs_no_file && !is_prepared(directory, Some(control), name) {
        return None;
    }
    let xid = u32::try_from(xid & u64::from(u32::MAX)).ok()?;
    let pages = control.slru_pages_per_segment.unwrap_or(SLRU_PAGES_PER_SEGMENT);
    let file = XactLog::new(directory.root(), control.geometry.block_size, pages).file_of(xid);
    is_missing(directory, &file).then_some(xid)
}

/// The number that the name of a file in `pg_twophase` is.
fn prepared_xid(directory: &DataDir, name: &str) -> Option<u64> {
    let digits = if directory.major().facts().prepares_by_full_xid { 16 } else { 8 };
    let is_name = name.len() == digits && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
    u64::from_str_radix(name, 16).ok().filter(|_| is_name)
}

/// True for a file that a start reads: of a transaction from before the checkpoint. It removes those of later ones.
///
/// Source: `restoreTwoPhaseData` and `ProcessTwoPhaseBuffer`, `src/backend/access/transam/twophase.c`.
pub(super) fn is_prepared(directory: &DataDir, control: Option<&ControlFile>, name: &str) -> bool {
    let Some(xid) = prepared_xid(directory, name) else { return false };
    control.is_none_or(|control| {
        let next = control.checkpoint.next_full_xid;
        let low = |value: u64| u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default();
        if directory.major().facts().prepares_by_full_xid {
            xid < next
        } else {
            low(xid).wrapping_sub(low(next)).cast_signed() < 0
        }
    })
}

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

/// The file, and the most bytes of it that are read.
const PASSWD: (&str, u64) = ("/etc/passwd", 4 << 20);

fn passwd() -> String {
    let text = read_small(Path::new(PASSWD.0), Links::Follow, PASSWD.1).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// The first of these accounts that exists and is not root: user and group.
pub(crate) fn first_of(accounts: &[&str]) -> Option<(u32, u32)> {
    let text = passwd();
    accounts.iter().find_map(|account| account_of(&text, account))
}

/// A user as `sudo -u` takes it in a shell: the name, or `'#101'` if the number has none.
pub(crate) fn sudo_name(uid: u32) -> String {
    name_of(&passwd(), uid).unwrap_or_else(|| format!("'#{uid}'"))
}

/// A user in a sentence: `postgres (uid 101)`, or `uid 101`.
pub(crate) fn user_words(uid: u32) -> String {
    name_of(&passwd(), uid).map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

fn account_of(text: &str, account: &str) -> Option<(u32, u32)> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
        let found = *fields.first()? == account;
        found.then(|| Some((number(2)?, number(3)?)))?.filter(|(uid, _)| *uid != 0)
    })
}

fn name_of(text: &str, uid: u32) -> Option<String> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let found = fields.get(2)?.parse::<u32>().ok()? == uid;
        fields.first().filter(|name| found && !name.is_empty()).map(|name| (*name).to_owned())
    })
}

/// Directories of a data directory whose volumes have no room for one more segment of WAL, each with its free bytes and the bytes that a start
/// needs at least.
///
/// Source: `XLogFileInitInternal`, `src/backend/access/transam/xlog.c`.
pub(crate) fn lacking_room(root: &Path, control: &ControlFile) -> Vec<(&'static str, u64, u64)> {
    let needed_bytes = u64::from(control.geometry.wal_segment_size);
    let free = |name: &'static str| {
        let room = rustix::fs::statvfs(root.join(name)).ok()?;
        let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
        (free_bytes < needed_bytes).then_some((name, free_bytes, needed_bytes))
    };
    let volume = |name: &str| root.join(name).metadata().map(|found| found.dev()).ok();
    let is_one_volume = volume("pg_wal") == volume(".");
    let names = if is_one_volume { &["pg_wal"][..] } else { &["pg_wal", "."] };
    names.iter().copied().filter_map(free).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "root:x:0:0:root:/root:/bin/sh\npostgresql:x:7:7::/:\npostgres:x:105:110:,,,:/var/lib/postgresql:/bin/bash\n";

    #[test]
    fn account_is_found_by_its_whole_name_and_is_never_root() {
        assert_eq!(account_of(TEXT, "postgres"), Some((105, 110)));
        assert_eq!(account_of(TEXT, "root"), None);
        assert_eq!(account_of("nobody:x:0:0::/:\n", "nobody"), None);
        assert_eq!(account_of("nobody:x\npostgres\n:::\n", "postgres"), None);
        assert_eq!(account_of("", "postgres"), None);
    }

    #[test]
    fn user_without_a_name_goes_by_the_number() {
        assert_eq!((name_of(TEXT, 105).as_deref(), name_of(TEXT, 0).as_deref()), (Some("postgres"), Some("root")));
        assert_eq!((name_of(TEXT, 10), name_of(":x:9:9:\nshort", 9)), (None, None));
        assert_eq!(
            (sudo_name(u32::MAX - 7), user_words(u32::MAX - 7)),
            ("'#4294967288'".to_owned(), "uid 4294967288".to_owned())
        );
    }
}
