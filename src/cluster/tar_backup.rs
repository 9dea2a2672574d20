//! A base backup in tar format: a directory of archives, recognised by their names.

use std::path::{Path, PathBuf};

use super::tar_members::is_archive;
use crate::types::Oid;

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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TarArchive {
    /// Content: `base`, `pg_wal`, or the OID of a tablespace.
    pub stem: String,
    pub name: String,
    pub compression: TarCompression,
}

/// Output of `pg_basebackup --format=tar`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarBackup {
    pub directory: PathBuf,
    /// The data directory without tablespaces.
    pub base: TarArchive,
    /// The WAL of the backup, if it was streamed into an archive of its own.
    pub wal: Option<TarArchive>,
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
