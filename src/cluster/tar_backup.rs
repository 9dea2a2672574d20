//! A base backup in tar format: a directory of archives, recognised by their names.
//! Also here: its relation files, and the small files that describe the backup; members of a tar archive, plain or
//! compressed, are read in order and never unpacked.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

use super::backup_files::{BackupLabel, LABEL_LIMIT_BYTES, RecoverySigns, is_without_content, signal_named};
use super::control_file::{CONTROL_PATH, ControlRead, control_of_bytes};
use super::data_dir::{DataDir, NotADataDir, VERSION_LIMIT_BYTES};
use super::open::{AccessError, Links, ReadFile};
use super::relation_path::RelationFileName;
use super::relation_walk::RelationFile;
use super::wal::DEFAULT_WINDOW_BYTES;
use super::wal::bytes::StoredWindow;
use super::wal::codec::peel;
use super::wal::tar::{Counted, Member, MemberKind, TarError, TarSource, TarWalk, is_tar};
use crate::parsers::control::CONTROL_FILE_SIZE;
use crate::types::{DEFAULT_TABLESPACE_OID, GLOBAL_TABLESPACE_OID, Oid, RelFileLocator};

/// Names that are kept, at most: a directory with more archives of tablespaces is not a backup that anybody made.
const MAX_ARCHIVES: usize = 10_000;

/// How an archive is compressed, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TarCompression {
    /// `.tar`
    None,
    /// `.tar.gz`
    Gzip,
    /// `.tar.lz4`
    Lz4,
    /// `.tar.zst`
    Zstd,
}

/// One archive of the backup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TarArchive {
    /// Content: `base`, `pg_wal`, or the OID of a tablespace.
    pub stem: String,
    /// Its file name.
    pub name: String,
    /// Its compression.
    pub compression: TarCompression,
}

/// Output of `pg_basebackup --format=tar`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarBackup {
    /// The directory of the archives.
    pub directory: PathBuf,
    /// The data directory without tablespaces.
    pub base: TarArchive,
    /// The WAL of the backup, if it was streamed into an archive of its own.
    pub wal: Option<TarArchive>,
    /// Archives of tablespaces.
    pub tablespaces: Vec<TarArchive>,
}

impl TarArchive {
    fn parse(name: &str) -> Option<Self> {
        let (stem, rest) = name.split_once('.')?;
        let compression = match rest {
            "tar" => TarCompression::None,
            "tar.gz" => TarCompression::Gzip,
            "tar.lz4" => TarCompression::Lz4,
            "tar.zst" => TarCompression::Zstd,
            _ => return None,
        };
        let is_oid = stem.bytes().all(|byte| byte.is_ascii_digit()) && stem.parse::<Oid>().is_ok_and(|oid| oid > 0);
        (is_oid || ["base", "pg_wal"].contains(&stem)).then(|| Self {
            stem: stem.to_owned(),
            name: name.to_owned(),
            compression,
        })
    }
}

impl TarBackup {
    /// Looks for the archives in a directory; `None` when there is no `base.tar` in it, it cannot be listed to its end, or it
    /// has too many: commands that leave out a tablespace are worse than none.
    pub fn find(directory: &Path) -> Option<Self> {
        let mut archives = Vec::new();
        for entry in std::fs::read_dir(directory).ok()? {
            archives.extend(entry.ok()?.file_name().to_str().and_then(TarArchive::parse));
            if archives.len() > MAX_ARCHIVES {
                return None;
            }
        }
        Self::of(directory, archives)
    }

    /// A single archive that a user named, whatever its name is: with the archives beside it when it is the `base` of a backup.
    pub fn of_file(path: &Path) -> Option<Self> {
        if !is_archive(path) {
            return None;
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name()?.to_str()?;
        if let Some(backup) = Self::find(directory).filter(|backup| backup.base.name == name) {
            return Some(backup);
        }
        let compression = TarArchive::parse(name).map_or(TarCompression::None, |archive| archive.compression);
        let base = TarArchive { stem: name.to_owned(), name: name.to_owned(), compression };
        Some(Self { directory: directory.to_owned(), base, wal: None, tablespaces: Vec::new() })
    }

    /// The archives with relation files: the path of each, and the tablespace that it is of.
    pub fn archives(&self) -> impl Iterator<Item = (PathBuf, Option<Oid>)> {
        let tablespaces = self.tablespaces.iter().map(|archive| (archive, archive.stem.parse().ok()));
        [(&self.base, None)]
            .into_iter()
            .chain(tablespaces)
            .map(|(archive, tablespace)| (self.directory.join(&archive.name), tablespace))
    }

    fn of(directory: &Path, mut archives: Vec<TarArchive>) -> Option<Self> {
        archives.sort_by_key(|archive| (archive.stem.parse::<Oid>().ok(), archive.clone()));
        let mut take = |stem: &str| {
            let at = archives.iter().position(|archive| archive.stem == stem)?;
            Some(archives.remove(at))
        };
        let (base, wal) = (take("base")?, take("pg_wal"));
        archives.retain(|archive| archive.stem.parse::<Oid>().is_ok());
        Some(Self { directory: directory.to_owned(), base, wal, tablespaces: archives })
    }
}

/// Longest `tablespace_map` that is read, in bytes.
const MAP_LIMIT_BYTES: u64 = 1 << 20;

/// Largest size of a member that is believed, in bytes: sums of sizes stay below 64 bits.
const MAX_MEMBER_BYTES: u64 = 1 << 50;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberRole {
    Relation(RelationFile),
    Other,
    LeadsOut,
}

impl MemberRole {
    /// Kind of a member of the archive of `tablespace`, or of the base without one.
    pub fn of(name: &str, tablespace: Option<Oid>, size_bytes: u64) -> Self {
        let mut relative = tablespace.map_or_else(PathBuf::new, |oid| Path::new("pg_tblspc").join(oid.to_string()));
        for part in Path::new(name).components() {
            match part {
                Component::Normal(part) => relative.push(part),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Self::LeadsOut,
            }
        }
        relation_at(&relative, size_bytes.min(MAX_MEMBER_BYTES)).map_or(Self::Other, Self::Relation)
    }
}

/// The relation file at a path below the data directory, if it is one.
fn relation_at(relative: &Path, size_bytes: u64) -> Option<RelationFile> {
    let parts: Vec<&str> = relative.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
    let (spc_oid, db_oid, name) = match parts[..] {
        ["global", name] => (GLOBAL_TABLESPACE_OID, 0, name),
        ["base", database, name] => (DEFAULT_TABLESPACE_OID, database.parse().ok()?, name),
        ["pg_tblspc", tablespace, version, database, name] if version.starts_with("PG_") => {
            (tablespace.parse().ok()?, database.parse().ok()?, name)
        }
        _ => return None,
    };
    let name = RelationFileName::parse(name)?;
    let rel = RelFileLocator { spc_oid, db_oid, rel_number: name.rel_number };
    Some(RelationFile { path: relative.to_owned(), rel, name, size_bytes })
}

/// The small files of a backup, as they came.
#[derive(Debug, Default)]
pub(crate) struct TarFacts {
    version: Option<Vec<u8>>,
    control: Option<Vec<u8>>,
    label: Option<Result<Vec<u8>, u64>>,
    map: Option<Vec<u8>>,
    signals: BTreeSet<&'static str>,
    pub has_wal: bool,
}

impl TarFacts {
    /// Takes a member of the archive of the base, if it is one of these files.
    ///
    /// # Errors
    /// When the archive cannot be read, or ends inside the member.
    pub fn take(&mut self, member: &mut TarMember<'_>) -> io::Result<()> {
        self.has_wal |= member.is_file && member.name.starts_with("pg_wal/");
        if !member.is_file {
            return Ok(());
        }
        match member.name {
            "PG_VERSION" => self.version = member.read_small(VERSION_LIMIT_BYTES)?,
            // Each database has one of its own, where an archive ends early.
            name if self.version.is_none() && name.starts_with("base/") && name.ends_with("/PG_VERSION") => {
                self.version = member.read_small(VERSION_LIMIT_BYTES)?;
            }
            CONTROL_PATH => self.control = member.read_small(CONTROL_FILE_SIZE as u64)?,
            "backup_label" => {
                self.label = Some(member.read_small(LABEL_LIMIT_BYTES)?.ok_or(member.size_bytes));
            }
            "tablespace_map" => self.map = member.read_small(MAP_LIMIT_BYTES)?,
            _ => {}
        }
        self.signals.extend(signal_named(member.name).filter(|name| !is_without_content(name, member.size_bytes)));
        Ok(())
    }

    /// The data directory that the archives at `root` hold. `named`: how many page headers name which page size.
    ///
    /// # Errors
    /// When they hold none, or one of a version that is not known here.
    pub fn data_dir(&self, root: &Path, named: &BTreeMap<u32, u64>) -> Result<DataDir, NotADataDir> {
        let version = self.version.as_ref().ok_or_else(|| NotADataDir::NoVersion(root.to_owned()))?;
        let missing = || {
            let error = io::Error::new(io::ErrorKind::NotFound, "not in the archive");
            ControlRead::Unreadable(AccessError::io("read", Path::new(CONTROL_PATH), error))
        };
        let control = self.control.as_ref().map_or_else(missing, |bytes| control_of_bytes(bytes, named));
        DataDir::in_archives(root, &String::from_utf8_lossy(version), control)
    }

    /// Files that change where recovery begins or how it works.
    pub fn signs(&self, control: &ControlRead) -> RecoverySigns {
        let label = self.label.as_ref().map(|label| match label {
            Ok(bytes) => Ok(BackupLabel::parse(&String::from_utf8_lossy(bytes))),
            Err(size_bytes) => {
                let path = PathBuf::from("backup_label");
                Err(AccessError::TooLong { path, size_bytes: *size_bytes, limit_bytes: LABEL_LIMIT_BYTES })
            }
        });
        // Whether a server wrote such a file is in WAL, which is not read here: the worse is believed.
        let wal_was_reset = label.is_none() && control.trusted().is_some_and(|control| control.looks_reset());
        RecoverySigns {
            backup_label: label,
            signals: self.signals.iter().copied().collect(),
            wal_was_reset,
            has_later_history: false,
            newest_history: None,
            fetches_histories: false,
        }
    }

    /// Tablespaces that `tablespace_map` names.
    pub(crate) fn mapped_tablespaces(&self) -> impl Iterator<Item = Oid> {
        let text = String::from_utf8_lossy(self.map.as_deref().unwrap_or_default()).into_owned();
        let oids: Vec<Oid> = text.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
        oids.into_iter()
    }
}

/// Bytes that are enough to recognise an archive.
const HEAD_BYTES: usize = 512;

/// Plain bytes of one archive that are skipped or read: more counts as a decompression bomb.
const MAX_ARCHIVE_BYTES: u64 = 64 << 40;

/// One member, and its bytes.
pub struct TarMember<'m> {
    /// Its name in the archive, without `./` in front.
    pub name: &'m str,
    /// True for a file whose bytes are stored as they are.
    pub is_file: bool,
    /// True for a directory.
    pub is_directory: bool,
    /// Bytes that it has by its header.
    pub size_bytes: u64,
    /// The bytes. What is not read is passed over.
    pub bytes: &'m mut dyn Read,
}

impl TarMember<'_> {
    /// The whole of a small file; `None` when it is longer than `limit_bytes`.
    pub(crate) fn read_small(&mut self, limit_bytes: u64) -> io::Result<Option<Vec<u8>>> {
        if self.size_bytes > limit_bytes {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.bytes.take(limit_bytes).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < self.size_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(bytes))
    }
}

/// Shows each member of the archive at `path`, until `visit` stops.
///
/// # Errors
/// When the file cannot be read, is not a tar archive or ends early; all members before that were shown.
pub fn read_members(
    path: &Path,
    mut visit: impl FnMut(TarMember<'_>) -> io::Result<ControlFlow<()>>,
) -> Result<(), AccessError> {
    let failed = |source| AccessError::io("read archive", path, source);
    let open = || ReadFile::open(path, Links::Follow).map(StoredWindow::whole);
    let peeled = peel(Box::new(open()?), HEAD_BYTES, DEFAULT_WINDOW_BYTES).map_err(failed)?;
    if !is_tar(&peeled.head) {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "not a tar archive")));
    }
    let mut walk = TarWalk::default();
    if peeled.codecs.is_empty() {
        // Members that nobody wants are not even read.
        let mut window = open()?;
        while let Some(member) = next(&mut walk, &mut window).map_err(failed)? {
            let available = member.size_bytes.min(window.end().saturating_sub(member.offset));
            let mut part = window.part(member.offset, available);
            if show(&member, &mut part, &mut visit).map_err(failed)?.is_break() {
                return Ok(());
            }
        }
        return Ok(());
    }
    let mut source = Counted { source: peeled.stream.take(MAX_ARCHIVE_BYTES), position: 0 };
    while let Some(member) = next(&mut walk, &mut source).map_err(failed)? {
        let mut part = (&mut source).take(member.size_bytes);
        if show(&member, &mut part, &mut visit).map_err(failed)?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// True for a file that begins like a tar archive, once its compression is taken off.
pub fn is_archive(path: &Path) -> bool {
    let Ok(file) = ReadFile::open(path, Links::Follow) else { return false };
    peel(Box::new(StoredWindow::whole(file)), HEAD_BYTES, DEFAULT_WINDOW_BYTES).is_ok_and(|peeled| is_tar(&peeled.head))
}

fn next(walk: &mut TarWalk, source: &mut dyn TarSource) -> io::Result<Option<Member>> {
    walk.next(source).map_err(|error| match error {
        TarError::Read(error) | TarError::Header(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    })
}

fn show(
    member: &Member,
    bytes: &mut dyn Read,
    visit: &mut dyn FnMut(TarMember<'_>) -> io::Result<ControlFlow<()>>,
) -> io::Result<ControlFlow<()>> {
    let (is_file, is_directory) = (member.kind == MemberKind::File, member.kind == MemberKind::Directory);
    let name = member.name.trim_start_matches("./");
    visit(TarMember { name, is_file, is_directory, size_bytes: member.size_bytes, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_known_by_their_names() {
        let archives = |names: &[&str]| names.iter().filter_map(|name| TarArchive::parse(name)).collect::<Vec<_>>();
        let others =
            ["16385.tar.zst", "pg_wal.tar", "2000.tar.lz4", "backup_manifest", "notes.tar", "0.tar", "x.tar.gz"];
        assert_eq!(TarBackup::of(Path::new("/b"), archives(&others)), None, "no base.tar");
        let found = TarBackup::of(Path::new("/b"), archives(&[&others[..], &["base.tar.gz"]].concat())).unwrap();
        assert_eq!((found.base.name.as_str(), found.base.compression), ("base.tar.gz", TarCompression::Gzip));
        assert_eq!(found.wal.map(|wal| wal.compression), Some(TarCompression::None));
        let tablespaces: Vec<_> = found.tablespaces.iter().map(|one| (one.stem.as_str(), one.compression)).collect();
        assert_eq!(tablespaces, [("2000", TarCompression::Lz4), ("16385", TarCompression::Zstd)]);
    }
}
