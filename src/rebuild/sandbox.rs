//! A temporary directory for one server: made for its user alone, removed whatever happens.
//! Its relation files are as long as records need them, with the wanted pages and stand-ins for others in them, and
//! holes everywhere else.
#![allow(clippy::disallowed_methods, reason = "writes below its own temporary directory alone")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::{getegid, geteuid};
use tempfile::TempDir;

use super::RebuildError;
use super::control::ClusterControl;
use super::stream::{STREAM_TIMELINE, SegmentSink};
use crate::cluster::open::{AccessError, Links, ReadFile, real_directories};
use crate::cluster::page_source::RelationPaths;
use crate::cluster::server_files;
use crate::parsers::image::{ready_page, set_checksum};
use crate::parsers::page::{LAYOUT_VERSION, PageHeader};
use crate::parsers::wal::timeline::WalSegment;
use crate::parsers::wal::version::Major;
use crate::repair::outside::check_outside;
use crate::types::{BlockNumber, ForkNumber, Geometry, Lsn, PageId, RelFileLocator, TimelineId};

/// How the names of sandboxes begin: what a killed program leaves can be told by it.
pub const SANDBOX_PREFIX: &str = "pgforensics-rebuild-";

/// Accounts that a server is run as where the data directory belongs to root, whom it refuses.
const ACCOUNTS: [&str; 2] = ["postgres", "nobody"];

/// Pages in one file of `pg_multixact`.
///
/// Source: `SLRU_PAGES_PER_SEGMENT`, `src/include/access/slru.h`.
const SLRU_PAGES: u64 = 32;

/// Directories of a data directory. Which of them a server misses depends on its major.
const DIRECTORIES: [&str; 22] = [
    "base",
    "base/1",
    "global",
    "pg_commit_ts",
    "pg_dynshmem",
    "pg_logical",
    "pg_logical/mappings",
    "pg_logical/snapshots",
    "pg_multixact",
    "pg_multixact/members",
    "pg_multixact/offsets",
    "pg_notify",
    "pg_replslot",
    "pg_serial",
    "pg_snapshots",
    "pg_stat",
    "pg_stat_tmp",
    "pg_subtrans",
    "pg_tblspc",
    "pg_twophase",
    "pg_wal",
    "pg_xact",
];

/// Directories of newer majors, and those that come and go.
const MORE_DIRECTORIES: [&str; 2] = ["pg_wal/archive_status", "pg_wal/summaries"];

/// Settings that every major has. Nothing is synced: what a crash loses is made again.
const SETTINGS: [(&str, &str); 17] = [
    ("autovacuum", "off"),
    ("checkpoint_timeout", "1d"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("huge_pages", "off"),
    ("lc_messages", "'C'"),
    ("listen_addresses", "''"),
    ("log_destination", "'stderr'"),
    ("logging_collector", "off"),
    ("max_connections", "10"),
    ("max_prepared_transactions", "0"),
    ("max_wal_senders", "0"),
    ("max_wal_size", "'100GB'"),
    ("shared_buffers", "'32MB'"),
    ("shared_preload_libraries", "''"),
    ("synchronous_commit", "off"),
    ("wal_level", "minimal"),
];

/// Whose a data directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Owner {
    /// Whose this directory is; that of the user who runs this where it cannot be found out.
    pub fn of(data_dir: &Path) -> Self {
        match fs::metadata(data_dir) {
            Ok(found) => Self { uid: found.uid(), gid: found.gid() },
            Err(_) => Self { uid: geteuid().as_raw(), gid: getegid().as_raw() },
        }
    }

    /// User and group that a server is run as, when that is not the one who runs this: root runs it as the owner of the
    /// data directory, or as another account where that is root too.
    pub(crate) fn to_become(self) -> Option<(u32, u32)> {
        if !geteuid().is_root() {
            return None;
        }
        if self.uid != 0 {
            return Some((self.uid, self.gid));
        }
        server_files::first_of(&ACCOUNTS)
    }
}

/// Location of a sandbox, and whether it is kept.
#[derive(Clone, Debug)]
pub struct SandboxOptions {
    /// Directory in which it is made; that for temporary files when `None`.
    pub parent: Option<PathBuf>,
    /// It is left there at the end.
    pub keep: bool,
    /// Whose the data directory is.
    pub owner: Owner,
    /// Directories that nothing is written into, in addition to every data directory.
    pub protected: Vec<PathBuf>,
}

/// Bytes that are free for this user in a directory.
pub(crate) fn free_bytes(directory: &Path) -> Result<u64, AccessError> {
    let room = rustix::fs::statvfs(directory).map_err(|error| AccessError::io("examine", directory, error.into()))?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// A sandbox. Removed when it is dropped, unless it is kept.
#[derive(Debug)]
pub(crate) struct Sandbox {
    directory: TempDir,
    user: Option<(u32, u32)>,
    runs: u32,
}

impl Sandbox {
    /// Makes the directory, which nobody but this user can enter.
    ///
    /// # Errors
    /// When it would lie inside data that is examined, or the system refuses.
    pub fn create(options: &SandboxOptions) -> Result<Self, RebuildError> {
        let parent = options.parent.clone().unwrap_or_else(std::env::temp_dir);
        let parent = fs::canonicalize(&parent).map_err(|source| AccessError::io("open", &parent, source))?;
        check_outside(&parent, &options.protected).map_err(RebuildError::Outside)?;
        let mut builder = tempfile::Builder::new();
        let prefix = format!("{SANDBOX_PREFIX}{}-", std::process::id());
        builder.prefix(&prefix).permissions(fs::Permissions::from_mode(0o700)).disable_cleanup(options.keep);
        let directory =
            builder.tempdir_in(&parent).map_err(|source| AccessError::io("make a directory in", &parent, source))?;
        Ok(Self { directory, user: options.owner.to_become(), runs: 0 })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Bytes that are free for this user.
    pub(crate) fn free_bytes(&self) -> Result<u64, AccessError> {
        free_bytes(self.path())
    }

    /// Makes the data directory of one more server.
    pub(crate) fn begin_run(&mut self, major: Major) -> Result<SandboxRun, AccessError> {
        self.runs = self.runs.saturating_add(1);
        let path = self.path().join(format!("run-{}", self.runs));
        make_directory(&path)?;
        let run = SandboxRun { data: path.join("data"), path, made: BTreeSet::new() };
        make_directory(&run.data)?;
        for name in DIRECTORIES.iter().chain(&MORE_DIRECTORIES) {
            make_directory(&run.data.join(name))?;
        }
        run.write_new(Path::new("PG_VERSION"), format!("{}\n", major.number()).as_bytes())?;
        Ok(run)
    }

    /// Makes a directory of one more run, in which a program of the server makes the data directory.
    pub(crate) fn begin_bare_run(&mut self) -> Result<SandboxRun, AccessError> {
        self.runs = self.runs.saturating_add(1);
        let path = self.path().join(format!("run-{}", self.runs));
        make_directory(&path)?;
        make_directory(&path.join("out"))?;
        Ok(SandboxRun { data: path.join("data"), path, made: BTreeSet::new() })
    }

    /// The first directory above that the server's user may not enter, as far as its permissions say.
    pub(crate) fn not_reachable(&self) -> Option<(PathBuf, u32)> {
        let (uid, gid) = self.user?;
        let above: Vec<&Path> = self.path().ancestors().skip(1).collect();
        let is_closed = |path: &&Path| {
            path.metadata().is_ok_and(|found| {
                let needed = match (found.uid() == uid, found.gid() == gid) {
                    (true, _) => 0o100,
                    (false, true) => 0o010,
                    (false, false) => 0o001,
                };
                found.mode() & needed == 0
            })
        };
        above.into_iter().rev().find(is_closed).map(|path| (path.to_owned(), uid))
    }

    /// Gives all to the user that the server is run as.
    pub(crate) fn hand_over(&self, run: &SandboxRun) -> Result<(), AccessError> {
        let Some(user) = self.user else { return Ok(()) };
        give(&run.path, user)?;
        change_owner(self.path(), user)
    }

    /// Takes the directory back, so that nobody else can put anything into it.
    pub(crate) fn take_back(&self) -> Result<(), AccessError> {
        if self.user.is_none() {
            return Ok(());
        }
        change_owner(self.path(), (geteuid().as_raw(), getegid().as_raw()))
    }

    /// Removes the sandbox, or says where it is left.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn close(self, keep: bool) -> Result<Option<PathBuf>, AccessError> {
        let path = self.path().to_owned();
        if keep {
            return Ok(Some(self.directory.keep()));
        }
        self.directory.close().map_err(|source| AccessError::io("remove", &path, source))?;
        Ok(None)
    }
}

#[derive(Debug)]
pub(crate) struct SandboxRun {
    path: PathBuf,
    data: PathBuf,
    made: BTreeSet<PathBuf>,
}

impl SandboxRun {
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Where the server's messages go.
    pub fn log(&self) -> PathBuf {
        self.path.join("server.log")
    }

    /// Where a server of a bare run writes what it is asked for.
    pub(crate) fn out(&self) -> PathBuf {
        self.path.join("out")
    }

    /// A new file beside the data directory with this content.
    pub(crate) fn write_beside(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, AccessError> {
        let path = self.path.join(name);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = opened.map_err(|source| AccessError::io("create", &path, source))?;
        file.write_all(bytes).map_err(|source| AccessError::io("write", &path, source))?;
        Ok(path)
    }

    /// Opens a file of the data directory to write at its end. Returns its length, too.
    pub(crate) fn extend(&self, relative: &Path) -> Result<(SandboxFile, u64), AccessError> {
        real_directories(&self.data, relative)?;
        let path = self.data.join(relative);
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path);
        let file = opened.map_err(|source| AccessError::io("open", &path, source))?;
        let length = file.metadata().map_err(|source| AccessError::io("examine", &path, source))?.len();
        Ok((SandboxFile { file, path }, length))
    }

    /// Removes a file that the server was asked for.
    pub(crate) fn remove_out(&self, name: &str) -> Result<(), AccessError> {
        let path = self.out().join(name);
        fs::remove_file(&path).map_err(|source| AccessError::io("remove", &path, source))
    }

    /// Writes `pg_control`, the configuration and what else a server reads as it starts.
    pub(crate) fn write_settings(
        &self,
        control: &ClusterControl,
        file: &[u8],
        major: Major,
    ) -> Result<(), AccessError> {
        self.write_new(Path::new("global/pg_control"), file)?;
        let hints = if control.file.wal_log_hints { "on" } else { "off" };
        let hints = ("wal_log_hints", hints);
        let own = SETTINGS.iter().chain(major.facts().replay_settings).chain(std::iter::once(&hints));
        let text: String = own.flat_map(|(name, value)| [name, " = ", value, "\n"]).collect();
        self.write_new(Path::new("postgresql.conf"), text.as_bytes())?;
        let slru_bytes = SLRU_PAGES.saturating_mul(u64::from(control.file.geometry.block_size));
        for name in ["pg_multixact/members/0000", "pg_multixact/offsets/0000"] {
            self.create(Path::new(name), slru_bytes)?;
        }
        Ok(())
    }

    /// Makes a file of this length that reads as zeros, and its directory.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn create(&self, relative: &Path, length: u64) -> Result<SandboxFile, AccessError> {
        let path = self.data.join(relative);
        let opened = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = opened.map_err(|source| AccessError::io("create", &path, source))?;
        file.set_len(length).map_err(|source| AccessError::io("extend", &path, source))?;
        Ok(SandboxFile { file, path })
    }

    /// Makes a directory with those above it, unless it is there.
    pub(crate) fn make_directory(&mut self, relative: &Path) -> Result<(), AccessError> {
        let above: Vec<&Path> = relative.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
        for path in above.into_iter().rev() {
            let full = self.data.join(path);
            if self.made.insert(path.to_owned()) && !full.is_dir() {
                make_directory(&full)?;
            }
        }
        Ok(())
    }

    /// Removes what was written as WAL.
    pub(crate) fn remove_wal(&self) -> Result<(), AccessError> {
        let directory = self.data.join("pg_wal");
        let failed = |source| AccessError::io("list", &directory, source);
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_file() {
                fs::remove_file(&path).map_err(|source| AccessError::io("remove", &path, source))?;
            }
        }
        Ok(())
    }

    /// Opens what the server left.
    ///
    /// # Errors
    /// When it is missing or the system refuses.
    pub fn open(&self, relative: &Path) -> Result<ReadFile, AccessError> {
        ReadFile::open(&self.data.join(relative), Links::Refuse)
    }

    /// Removes the directory before another is made.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(self) -> Result<(), AccessError> {
        fs::remove_dir_all(&self.path).map_err(|source| AccessError::io("remove", &self.path, source))
    }

    fn write_new(&self, relative: &Path, bytes: &[u8]) -> Result<(), AccessError> {
        let SandboxFile { mut file, path } = self.create(relative, 0)?;
        file.write_all(bytes).map_err(|source| AccessError::io("write", &path, source))
    }
}

/// A file of a sandbox that is being written.
#[derive(Debug)]
pub(crate) struct SandboxFile {
    file: File,
    path: PathBuf,
}

impl SandboxFile {
    /// Writes bytes somewhere in the file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.file.write_all_at(bytes, offset).map_err(|source| AccessError::io("write", &self.path, source))
    }
}

fn make_directory(path: &Path) -> Result<(), AccessError> {
    fs::DirBuilder::new().mode(0o700).create(path).map_err(|source| AccessError::io("make directory", path, source))
}

fn change_owner(path: &Path, (uid, gid): (u32, u32)) -> Result<(), AccessError> {
    lchown(path, Some(uid), Some(gid)).map_err(|source| AccessError::io("give away", path, source))
}

/// Gives a file, or a directory with all in it. Nobody else could make anything there so far.
fn give(path: &Path, user: (u32, u32)) -> Result<(), AccessError> {
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let failed = |source| AccessError::io("list", &path, source);
        if path.symlink_metadata().map_err(failed)?.is_dir() {
            for entry in fs::read_dir(&path).map_err(failed)? {
                left.push(entry.map_err(failed)?.path());
            }
        }
        change_owner(&path, user)?;
    }
    Ok(())
}

/// Highest block of each fork that records name.
pub(crate) type Extents = BTreeMap<(RelFileLocator, ForkNumber), BlockNumber>;

/// An empty page that a record up to `lsn` leaves alone: redo takes it for one that has the record's change already.
///
/// Some redo functions use a page that a record names without asking whether it is there, and die where it is not.
pub(crate) fn placeholder(geometry: Geometry, lsn: Lsn, block: BlockNumber, checksums: bool) -> Vec<u8> {
    let size = usize::try_from(geometry.block_size).unwrap_or_default();
    let mut page = vec![0; size];
    let end = u16::try_from(size).unwrap_or_default();
    let version = end | LAYOUT_VERSION;
    let lower = u16::try_from(PageHeader::SIZE).unwrap_or_default();
    for (offset, value) in [(12, lower), (14, end), (16, end), (18, version)] {
        if let Some(field) = page.get_mut(offset..offset + 2) {
            field.copy_from_slice(&value.to_le_bytes());
        }
    }
    ready_page(&mut page, lsn, block, checksums);
    page
}

/// A page as it is put into the sandbox: with the checksum that the server requires there.
pub(crate) fn base_page(bytes: &[u8], block: BlockNumber, checksums: bool) -> Vec<u8> {
    let mut page = bytes.to_vec();
    let is_new = PageHeader::decode(0, &page).is_ok_and(|header| header.is_new());
    if checksums && !is_new {
        set_checksum(&mut page, block);
    }
    page
}

/// Makes the files of all forks and writes pages into them, which come in order.
pub(crate) fn write_relations(
    run: &mut SandboxRun,
    paths: &RelationPaths,
    geometry: Geometry,
    extents: &Extents,
    pages: impl Iterator<Item = (PageId, Vec<u8>)>,
) -> Result<(), RebuildError> {
    let block_bytes = u64::from(geometry.block_size);
    let segment_blocks = u64::from(geometry.rel_segment_blocks.max(1));
    let mut pages = pages.peekable();
    for ((rel, fork), last) in extents {
        run.make_directory(&paths.directory(rel.spc_oid, rel.db_oid))?;
        let blocks = u64::from(*last) + 1;
        let segments = blocks.div_ceil(segment_blocks);
        for number in 0..segments {
            let rel_segment = u32::try_from(number).unwrap_or(u32::MAX);
            let path = paths.segment_file(*rel, *fork, rel_segment);
            // A server looks into the next file only when one is full.
            let length = (blocks - number * segment_blocks).min(segment_blocks) * block_bytes;
            let file = run.create(&path, length)?;
            let end = (number + 1) * segment_blocks;
            let own = |page: PageId| page.rel == *rel && page.fork == *fork && u64::from(page.block) < end;
            while let Some((page, bytes)) = pages.next_if(|(page, _)| own(*page)) {
                file.write_at((u64::from(page.block) - number * segment_blocks) * block_bytes, &bytes)?;
            }
        }
    }
    Ok(())
}

#[derive(Debug)]
pub(crate) struct SegmentFiles<'r> {
    run: &'r SandboxRun,
    segment_bytes: u32,
    open: Option<(u64, SandboxFile)>,
    first: Option<(u64, SandboxFile)>,
}

impl<'r> SegmentFiles<'r> {
    /// None yet.
    pub const fn new(run: &'r SandboxRun, segment_bytes: u32) -> Self {
        Self { run, segment_bytes, open: None, first: None }
    }
}

/// Path of a segment of a sandbox, relative to its data directory.
pub(crate) fn segment_path(number: u64, segment_bytes: u32) -> PathBuf {
    let segment = WalSegment { tli: TimelineId(STREAM_TIMELINE), number };
    // Numbers that have no name lie past the end of all addresses.
    PathBuf::from("pg_wal").join(segment.file_name(segment_bytes).unwrap_or_default())
}

impl SegmentSink for SegmentFiles<'_> {
    fn write(&mut self, segment: u64, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        // The first one is written again at the end.
        let known = [&self.first, &self.open].into_iter().flatten().find(|(number, _)| *number == segment);
        if let Some((_, file)) = known {
            return file.write_at(offset, bytes);
        }
        let path = segment_path(segment, self.segment_bytes);
        let file = self.run.create(&path, u64::from(self.segment_bytes))?;
        file.write_at(offset, bytes)?;
        let slot = if self.first.is_none() { &mut self.first } else { &mut self.open };
        *slot = Some((segment, file));
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(crate) struct CountBytes {
    pub bytes: u64,
}

impl SegmentSink for CountBytes {
    fn write(&mut self, _segment: u64, _offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_becomes_the_owner_or_an_account_that_is_not_root() {
        let become_of = |uid| Owner { uid, gid: uid }.to_become();
        if geteuid().is_root() {
            assert_eq!(become_of(70), Some((70, 70)));
            assert!(become_of(0).is_none_or(|(uid, _)| uid != 0));
        } else {
            assert_eq!([become_of(70), become_of(0)], [None, None]);
        }
    }

    #[test]
    fn sandbox_is_closed_to_others_and_goes_away() {
        let parent = tempfile::tempdir().unwrap();
        let options = |keep| SandboxOptions {
            parent: Some(parent.path().to_owned()),
            keep,
            owner: Owner { uid: geteuid().as_raw(), gid: getegid().as_raw() },
            protected: Vec::new(),
        };
        let mut sandbox = Sandbox::create(&options(false)).unwrap();
        assert_eq!(sandbox.path().metadata().unwrap().mode() & 0o7777, 0o700);
        let mut run = sandbox.begin_run(Major::NEWEST).unwrap();
        run.make_directory(Path::new("pg_tblspc/1/PG_1_1/5")).unwrap();
        run.make_directory(Path::new("pg_tblspc/1/PG_1_1/6")).unwrap();
        run.create(Path::new("pg_tblspc/1/PG_1_1/5/7"), 1 << 30).unwrap().write_at(8192, &[1; 8192]).unwrap();
        assert!(run.create(Path::new("pg_tblspc/1/PG_1_1/5/7"), 0).is_err(), "no existing file is opened");
        let bytes = run.open(Path::new("pg_tblspc/1/PG_1_1/5/7")).unwrap().bytes_at(8191, 2).unwrap();
        assert_eq!(bytes, Some(vec![0, 1]));
        assert!(run.data().join("pg_logical/snapshots").is_dir());
        drop(sandbox);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        let kept = Sandbox::create(&options(true)).unwrap().close(true).unwrap().unwrap();
        assert!(kept.is_dir());
    }

    #[test]
    fn directory_that_is_closed_to_the_server_is_named() {
        let parent = tempfile::tempdir().unwrap();
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let owner = Owner { uid: 70, gid: 70 };
        let options =
            SandboxOptions { parent: Some(parent.path().to_owned()), keep: false, owner, protected: Vec::new() };
        let sandbox = Sandbox::create(&options).unwrap();
        let expected = geteuid().is_root().then(|| (fs::canonicalize(parent.path()).unwrap(), 70));
        assert_eq!(sandbox.not_reachable(), expected);
    }
}
