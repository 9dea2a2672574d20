//! Members of a base backup in tar format: relation files, and the small files that describe the backup.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::backup_files::{BackupLabel, LABEL_LIMIT_BYTES, RecoverySigns, is_without_content, signal_named};
use super::control_file::{CONTROL_PATH, ControlRead, control_of_bytes};
use super::data_dir::{DataDir, NotADataDir, VERSION_LIMIT_BYTES};
use super::open::AccessError;
use super::relation_path::RelationFileName;
use super::relation_walk::RelationFile;
use super::tar_members::TarMember;
use crate::parsers::control::CONTROL_FILE_SIZE;
use crate::types::{DEFAULT_TABLESPACE_OID, GLOBAL_TABLESPACE_OID, Oid, RelFileLocator};

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
