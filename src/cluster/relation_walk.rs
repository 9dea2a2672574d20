//! Every relation file of a data directory. Links are followed for tablespaces only.
//! Also here: traces of `pg_upgrade --link` in the old data directory.

use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::data_dir::DataDir;
use super::open::{AccessError, kind_of, real_directory};
use super::relation_path::{RelationFileName, tablespace_version_directory};
use crate::types::{DEFAULT_TABLESPACE_OID, GLOBAL_TABLESPACE_OID, Oid, RelFileLocator};

/// One segment file of one fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationFile {
    /// Path relative to the data directory.
    pub path: PathBuf,
    /// Relation that it belongs to.
    pub rel: RelFileLocator,
    /// Fork and segment.
    pub name: RelationFileName,
    /// Size in bytes when the directory was listed.
    pub size_bytes: u64,
}

/// Result of a walk: what is there, and what could not be examined.
#[derive(Debug, Default)]
pub struct RelationWalk {
    /// Relation files, ordered by tablespace, database, relation, fork and segment.
    pub files: Vec<RelationFile>,
    /// Directories and files that could not be examined.
    pub skipped: Vec<AccessError>,
}

/// Lists all relation files of a data directory.
pub fn relations_of(directory: &DataDir) -> RelationWalk {
    let catalog = directory.control().trusted().map_or(0, |control| control.prefix.catalog_version_no);
    walk_relations(directory.root(), &tablespace_version_directory(directory.major(), catalog))
}

/// Lists all relation files. `version_directory` is the name that this server uses inside tablespaces.
pub fn walk_relations(data_dir: &Path, version_directory: &str) -> RelationWalk {
    let mut walk = RelationWalk::default();
    walk.database(data_dir, Path::new("global"), GLOBAL_TABLESPACE_OID, 0);
    walk.databases(data_dir, Path::new("base"), DEFAULT_TABLESPACE_OID);
    for (name, entry) in walk.entries(data_dir, Path::new("pg_tblspc")) {
        let Ok(spc_oid) = name.parse::<Oid>() else { continue };
        // A tablespace is a link, or a plain directory where the server was told to allow that.
        let relative = Path::new("pg_tblspc").join(&name).join(version_directory);
        match fs::metadata(data_dir.join(&relative)) {
            Ok(_) => walk.databases(data_dir, &relative, spc_oid),
            Err(source) => walk.skipped.push(AccessError::io("follow tablespace", &entry.path(), source)),
        }
    }
    walk.files.sort_by_key(|file| (file.rel, file.name));
    walk
}

impl RelationWalk {
    fn databases(&mut self, data_dir: &Path, relative: &Path, spc_oid: Oid) {
        for (name, entry) in self.entries(data_dir, relative) {
            let Ok(db_oid) = name.parse::<Oid>() else { continue };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.database(data_dir, &relative.join(&name), spc_oid, db_oid),
                Ok(kind) => {
                    let kind = kind_of(kind).unwrap_or("file");
                    self.skipped.push(AccessError::NotRegular { path: entry.path(), kind });
                }
                Err(source) => self.skipped.push(AccessError::io("examine", &entry.path(), source)),
            }
        }
    }

    fn database(&mut self, data_dir: &Path, relative: &Path, spc_oid: Oid, db_oid: Oid) {
        for (text, entry) in self.entries(data_dir, relative) {
            let Some(name) = RelationFileName::parse(&text) else { continue };
            match entry.metadata() {
                Ok(metadata) => match kind_of(metadata.file_type()) {
                    Some(kind) => self.skipped.push(AccessError::NotRegular { path: entry.path(), kind }),
                    None => self.files.push(RelationFile {
                        path: relative.join(&text),
                        rel: RelFileLocator { spc_oid, db_oid, rel_number: name.rel_number },
                        name,
                        size_bytes: metadata.len(),
                    }),
                },
                Err(source) => self.skipped.push(AccessError::io("examine", &entry.path(), source)),
            }
        }
    }

    /// Entries with a name in UTF-8; the server gives no others to what is looked for here.
    fn entries(&mut self, data_dir: &Path, relative: &Path) -> Vec<(String, DirEntry)> {
        let path = data_dir.join(relative);
        if let Err(error) = real_directory(&path) {
            self.skipped.push(error);
            return Vec::new();
        }
        let listing = match fs::read_dir(&path) {
            Ok(listing) => listing,
            Err(source) => {
                self.skipped.push(AccessError::io("list", &path, source));
                return Vec::new();
            }
        };
        let mut entries = Vec::new();
        for entry in listing {
            match entry {
                Ok(entry) => entries.extend(entry.file_name().into_string().ok().map(|name| (name, entry))),
                Err(source) => self.skipped.push(AccessError::io("list", &path, source)),
            }
        }
        entries
    }
}

/// Traces of `pg_upgrade --link`.
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
