//! Owners and modes of files and directories: whether a server, run by the owner of the cluster, can open what it needs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, FileType, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::config_files::ConfigFaults;
use super::data_dir::DataDir;
use super::history_file::history_path;
use super::open::list;
use super::relation_walk::RelationFile;
use super::server_settings::ServerSettings;
use super::slru_files::is_numbered;
use super::state_files::{is_prepared, prepared_xacts};
use super::xact_files::{continues_page_of_members, files_of_start};
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::WalSegment;
use crate::types::{RelFileLocator, TimelineId};

/// Directories that a server lists, and for what.
const DIRECTORIES: [(&str, OpenedBy); 15] = [
    ("global", OpenedBy::Start),
    ("pg_commit_ts", OpenedBy::Start),
    ("pg_logical", OpenedBy::Start),
    ("pg_logical/mappings", OpenedBy::Checkpoints),
    ("pg_logical/snapshots", OpenedBy::Checkpoints),
    ("pg_multixact", OpenedBy::Start),
    ("pg_multixact/members", OpenedBy::Later),
    ("pg_multixact/offsets", OpenedBy::Start),
    ("pg_notify", OpenedBy::Start),
    ("pg_replslot", OpenedBy::Start),
    ("pg_subtrans", OpenedBy::Checkpoints),
    ("pg_tblspc", OpenedBy::Start),
    ("pg_twophase", OpenedBy::Start),
    ("pg_wal", OpenedBy::Start),
    ("pg_xact", OpenedBy::Start),
];

/// Directories whose numbered files a server opens.
const WITH_FILES: [&str; 6] =
    ["pg_commit_ts", "pg_multixact/members", "pg_multixact/offsets", "pg_subtrans", "pg_wal", "pg_xact"];

/// Files: for what a server reads them, and for what it writes them.
const FILES: [(&str, OpenedBy, Option<OpenedBy>); 10] = [
    ("PG_VERSION", OpenedBy::Start, None),
    ("backup_label", OpenedBy::Start, None),
    ("global/pg_control", OpenedBy::Start, Some(OpenedBy::Start)),
    ("pg_logical/replorigin_checkpoint", OpenedBy::Start, Some(OpenedBy::Checkpoints)),
    ("postmaster.opts", OpenedBy::Start, Some(OpenedBy::Start)),
    ("postmaster.pid", OpenedBy::Start, None),
    ("recovery.conf", OpenedBy::Start, None),
    ("recovery.signal", OpenedBy::Start, None),
    ("standby.signal", OpenedBy::Start, None),
    ("tablespace_map", OpenedBy::Start, None),
];

/// Configuration, which may be kept elsewhere: then what is here is of no use.
const MAIN: &str = "postgresql.conf";
const HBA: &str = "pg_hba.conf";

/// Those whose owners are asked who the owner of the cluster is.
const VOTERS: [&str; 6] = ["", "global", "base", "pg_wal", "pg_xact", "global/pg_control"];

/// Permissions: to list a directory and to go into it, to go into it alone, to read a file, to write either.
const LIST: u32 = 5;
const ENTER: u32 = 1;
const READ: u32 = 4;
const WRITE: u32 = 2;

/// What does not work when a server cannot open a file or directory. The most important comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenedBy {
    /// Nothing at once.
    Later,
    /// Whoever reads a relation, and replay that comes to it.
    Relations,
    /// Replay, if it comes to it.
    Replay,
    /// Every connection to a database.
    Connections,
    /// Checkpoints, also the one at the end of replay.
    Checkpoints,
    /// A start.
    Start,
}

/// Files that the server cannot open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedFiles {
    /// The first such path, relative to the data directory.
    pub first: PathBuf,
    /// Its owner.
    pub uid: u32,
    /// Its permissions.
    pub mode: u32,
    /// How many there are in all.
    pub count: u64,
}

/// What keeps the owner of the cluster from working in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessModes {
    /// The owner of the cluster: of most of its directories.
    pub owner: u32,
    /// Permissions of the data directory with which no server starts.
    pub open_to_others: Option<u32>,
    /// What the owner cannot open.
    pub closed: BTreeMap<OpenedBy, ClosedFiles>,
}

/// Compares owners and modes. `is_catalog`: no connection works without this relation; `replays`: a start replays WAL. Nothing is
/// said where all has another owner than on the server: such is a copy.
///
/// Sources: `checkDataDir`, `src/backend/utils/init/miscinit.c`; for the rest servers of 10, 15 and 18 that were started so.
#[must_use]
pub fn access_modes(
    directory: &DataDir,
    relations: &[RelationFile],
    replays: bool,
    is_catalog: &dyn Fn(RelFileLocator) -> bool,
) -> AccessModes {
    let root = directory.root();
    let Ok(own) = fs::metadata(root) else { return AccessModes::default() };
    let mut votes: BTreeMap<u32, usize> = BTreeMap::new();
    for metadata in VOTERS.iter().filter_map(|name| fs::metadata(root.join(name)).ok()) {
        let count = votes.entry(metadata.uid()).or_default();
        *count = count.saturating_add(1);
    }
    let owner = votes.iter().max_by_key(|(_, count)| **count).map_or(own.uid(), |(uid, _)| *uid);
    let mut look = Look { root, group: own.gid(), found: AccessModes { owner, ..AccessModes::default() } };
    if own.uid() == owner {
        // Its first act is to make `postmaster.pid`.
        look.at(Path::new(""), (LIST, OpenedBy::Start), Some(OpenedBy::Start));
    } else {
        // Whatever its group may do, a server starts in a directory of its own alone.
        look.close(Path::new(""), &own, OpenedBy::Start);
    }
    for (name, by) in DIRECTORIES {
        // Where nothing can be made anew, it takes a while until that is missed.
        let written_by = match name {
            "pg_logical" => OpenedBy::Checkpoints,
            // After replay each transaction that is still prepared gets a file; replay writes maps anew in the other.
            "pg_twophase" => OpenedBy::Replay,
            "global" if replays => OpenedBy::Replay,
            _ => OpenedBy::Later,
        };
        look.at(Path::new(name), (LIST, by), Some(written_by));
    }
    if replays && directory.major().facts().resets_stats_files {
        for name in ["pg_stat", "pg_stat_tmp"] {
            look.at(Path::new(name), (LIST, OpenedBy::Start), None);
        }
    }
    let control = directory.control().trusted();
    let numbered = Numbered::new(directory, control, replays);
    for name in WITH_FILES {
        for path in
            look.entries(name, FileType::is_file).iter().filter(|path| path.file_name().is_some_and(is_numbered))
        {
            let (read_by, written_by) = numbered.opened_by(name, path);
            look.at(path, (READ, read_by), Some(written_by));
        }
    }
    let is_removed = directory.major().facts().removes_bad_prepared;
    for path in look.entries("pg_twophase", FileType::is_file) {
        let name = path.file_name().and_then(OsStr::to_str);
        if name.is_some_and(|name| is_prepared(directory, control, name)) {
            look.at(&path, (READ, if is_removed { OpenedBy::Later } else { OpenedBy::Start }), None);
        }
    }
    // What a crash left of a slot that was being made or dropped is removed first.
    let is_whole = |slot: &PathBuf| slot.extension() != Some(OsStr::new("tmp"));
    for slot in look.entries("pg_replslot", FileType::is_dir).into_iter().filter(is_whole) {
        look.at(&slot, (LIST, OpenedBy::Start), Some(OpenedBy::Later));
        look.at(&slot.join("state"), (READ | WRITE, OpenedBy::Start), None);
    }
    // What is wrong in the settings is said elsewhere.
    let settings = ServerSettings::read(root, &mut ConfigFaults::default());
    let is_used = |name: &&str| !settings.may_have_main && (*name != HBA || settings.get("hba_file").is_none());
    let configuration = [MAIN, HBA].into_iter().filter(is_used).map(|name| (name, OpenedBy::Start, None));
    for (name, read_by, written_by) in FILES.into_iter().chain(configuration) {
        look.at(Path::new(name), (READ, read_by), written_by);
    }
    if let Some(control) = control.filter(|control| control.timeline() > TimelineId(1)) {
        look.at(&history_path(control.timeline()), (READ, OpenedBy::Start), None);
    }
    // Recovery lists them, since unlogged relations are emptied.
    let of_base = if replays { OpenedBy::Start } else { OpenedBy::Connections };
    look.at(Path::new("base"), (LIST, of_base), Some(OpenedBy::Later));
    let are_listed = directory.major().facts().recovery_lists_databases;
    let of_databases = if are_listed { of_base } else { OpenedBy::Connections };
    // Files of unlogged relations are removed in it and made anew, and those of dropped ones removed.
    let written_by = if replays { OpenedBy::Replay } else { OpenedBy::Later };
    for database in look.entries("base", FileType::is_dir) {
        look.database(&database, of_databases, written_by);
    }
    look.tablespaces(written_by, if replays && are_listed { OpenedBy::Start } else { OpenedBy::Relations });
    look.at(Path::new("global/pg_filenode.map"), (READ, OpenedBy::Connections), None);
    for file in relations {
        let by = if is_catalog(file.rel) { OpenedBy::Connections } else { OpenedBy::Relations };
        look.at(&file.path, (READ | WRITE, by), None);
    }
    let refused = own.mode() & if directory.major().facts().opens_to_group { 0o027 } else { 0o077 };
    look.found.open_to_others = (refused != 0).then_some(own.mode() & 0o7777);
    look.found
}

/// What a start does with files of which there is one after another.
struct Numbered<'a> {
    control: Option<&'a ControlFile>,
    replays: bool,
    /// Those of `pg_xact` and `pg_multixact/offsets` that a start reads, where that is known.
    read_by_start: Option<Vec<PathBuf>>,
}

impl<'a> Numbered<'a> {
    fn new(directory: &DataDir, control: Option<&'a ControlFile>, replays: bool) -> Self {
        // It also asks how each prepared transaction ended.
        let control_alone = control.filter(|_| prepared_xacts(directory, control) == 0);
        let read_by_start = control_alone.map(|control| files_of_start(directory, control));
        Self { control, replays, read_by_start }
    }

    /// For what a server reads a file in this directory, and for what it writes it.
    ///
    /// Sources: `TrimCLOG`, `src/backend/access/transam/clog.c`; `TrimMultiXact`, `src/backend/access/transam/multixact.c`;
    /// `XLogFileRead`, `src/backend/access/transam/xlogrecovery.c`.
    fn opened_by(&self, directory: &str, path: &Path) -> (OpenedBy, OpenedBy) {
        match directory {
            "pg_multixact/members" if self.control.is_none_or(continues_page_of_members) => {
                (OpenedBy::Start, OpenedBy::Replay)
            }
            "pg_multixact/members" => (OpenedBy::Replay, OpenedBy::Replay),
            // Whether commits have times is a setting, or WAL says it.
            "pg_commit_ts" if self.replays => (OpenedBy::Replay, OpenedBy::Replay),
            "pg_commit_ts" if self.control.is_none_or(|control| control.track_commit_timestamp) => {
                (OpenedBy::Start, OpenedBy::Checkpoints)
            }
            "pg_commit_ts" => (OpenedBy::Later, OpenedBy::Later),
            "pg_subtrans" => (OpenedBy::Checkpoints, OpenedBy::Checkpoints),
            "pg_wal" => self.wal(path),
            // Of the others, those that ask how a transaction ended.
            _ => match &self.read_by_start {
                Some(read) if !read.iter().any(|file| file == path) => (OpenedBy::Relations, OpenedBy::Relations),
                _ => (OpenedBy::Start, OpenedBy::Start),
            },
        }
    }

    /// Replay reads segments from the redo point on, and writes the one in which WAL ends, which is not known yet.
    fn wal(&self, path: &Path) -> (OpenedBy, OpenedBy) {
        let number = |control: &ControlFile| {
            let size = control.geometry.wal_segment_size;
            let redo = WalSegment::holding(control.checkpoint.tli, control.checkpoint.redo_lsn, size)?;
            let own = WalSegment::from_file_name(path.file_name()?.to_str()?, size)?;
            Some((own.number, redo.number))
        };
        match self.control.and_then(number) {
            Some((segment, redo)) if segment < redo => (OpenedBy::Later, OpenedBy::Later),
            Some((segment, redo)) if self.replays && segment > redo => (OpenedBy::Replay, OpenedBy::Replay),
            Some((segment, redo)) if segment > redo => (OpenedBy::Later, OpenedBy::Later),
            Some(_) if self.replays => (OpenedBy::Start, OpenedBy::Replay),
            Some(_) => (OpenedBy::Start, OpenedBy::Checkpoints),
            None => (OpenedBy::Start, if self.replays { OpenedBy::Start } else { OpenedBy::Checkpoints }),
        }
    }
}

struct Look<'a> {
    root: &'a Path,
    group: u32,
    found: AccessModes,
}

impl Look<'_> {
    /// What is in a directory, as far as it can be listed: what cannot is said elsewhere.
    fn entries(&self, directory: impl AsRef<Path>, is_wanted: fn(&FileType) -> bool) -> Vec<PathBuf> {
        let directory = directory.as_ref();
        let listed = list(&self.root.join(directory)).unwrap_or_default();
        listed.into_iter().filter(|(_, kind)| is_wanted(kind)).map(|(name, _)| directory.join(name)).collect()
    }

    /// What is not there is a finding of its own, if it is one. `written_by`: for what it is written besides.
    fn at(&mut self, path: &Path, (needed, by): (u32, OpenedBy), written_by: Option<OpenedBy>) {
        let Ok(metadata) = fs::metadata(self.root.join(path)) else { return };
        let by = match written_by {
            _ if !self.allows(&metadata, needed) => by,
            Some(by) if !self.allows(&metadata, WRITE) => by,
            _ => return,
        };
        self.close(path, &metadata, by);
    }

    /// A directory of a database, and what a connection reads in it.
    fn database(&mut self, database: &Path, listed_by: OpenedBy, written_by: OpenedBy) {
        self.at(database, (LIST, listed_by), Some(written_by));
        for name in ["PG_VERSION", "pg_filenode.map"] {
            self.at(&database.join(name), (READ, OpenedBy::Connections), None);
        }
    }

    /// The directory of each tablespace, which may lie elsewhere, those of majors in it, and those of databases in these.
    fn tablespaces(&mut self, written_by: OpenedBy, listed_by: OpenedBy) {
        for tablespace in self.entries("pg_tblspc", |kind| kind.is_symlink() || kind.is_dir()) {
            self.at(&tablespace, (ENTER, listed_by), None);
            let majors = self.entries(&tablespace, FileType::is_dir).into_iter();
            let is_of_server =
                |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"PG_"));
            for of_major in majors.filter(is_of_server) {
                self.at(&of_major, (LIST, listed_by), Some(OpenedBy::Later));
                for database in self.entries(&of_major, FileType::is_dir) {
                    self.database(&database, listed_by, written_by);
                }
            }
        }
    }

    fn close(&mut self, path: &Path, metadata: &Metadata, by: OpenedBy) {
        let (uid, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        let new = || ClosedFiles { first: path.to_owned(), uid, mode, count: 0 };
        let closed = self.found.closed.entry(by).or_insert_with(new);
        closed.count = closed.count.saturating_add(1);
    }

    /// The owner of the cluster may do what is needed; in doubt, by the group of the data directory too.
    fn allows(&self, metadata: &Metadata, needed: u32) -> bool {
        let mode = metadata.mode();
        let given = if self.found.owner == metadata.uid() {
            mode >> 6
        } else if metadata.gid() == self.group {
            mode >> 3 | mode
        } else {
            mode
        };
        given & needed == needed
    }
}
