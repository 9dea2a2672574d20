//! Manifest of a journal: the text file that makes it valid.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::{PlanPage, crc_text};
use super::target::DataRoot;
use super::witness::Witness;
use crate::cluster::open::AccessError;

/// Number of the journal's format. The first format kept a CRC-32C of `pg_control` instead of a witness.
pub(crate) const JOURNAL_SCHEMA: u32 = 2;

/// The first format, which is still read.
const FIRST_SCHEMA: u32 = 1;

/// One page of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Which page.
    #[serde(flatten)]
    pub page: PlanPage,
    /// Its file, relative to the data directory.
    pub path: String,
    /// Its offset in the file.
    pub offset: u64,
    /// CRC-32C of the old bytes.
    pub before_crc: String,
    /// CRC-32C of the new bytes.
    pub after_crc: String,
}

impl std::fmt::Display for JournalEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} block {}", self.path, self.page.block)
    }
}

/// Proof in a journal that no server was started since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Files that startup would change.
    Witness(Witness),
    /// CRC-32C of `pg_control`, in the first format: the same for every sound file, so no proof.
    OldCrc(String),
}

/// Which file of its system a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// Identity of a data directory among copies of the same cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryMark {
    /// Its real path; in journals of earlier versions as it was named.
    pub path: String,
    /// Its number; journals of earlier versions have none.
    pub id: Option<DirectoryId>,
}

impl DirectoryMark {
    /// That of a directory that is held open.
    ///
    /// # Errors
    /// When the system does not tell where or what it is.
    pub fn of(root: &DataRoot) -> Result<Self, AccessError> {
        let path = root.path();
        let real = path.canonicalize().map_err(|source| AccessError::io("find", path, source))?;
        Ok(Self { path: real.display().to_string(), id: Some(root.id()?) })
    }

    /// True when this is known to be the directory `here`. A mark without a number has a path as somebody named it, which tells nothing where
    /// it is relative.
    pub fn is_of(&self, here: &Self) -> bool {
        match self.id {
            Some(_) => self == here,
            None => {
                let path = Path::new(&self.path);
                path.is_absolute() && path.canonicalize().is_ok_and(|real| real == Path::new(&here.path))
            }
        }
    }

    /// Like [`Self::is_of`], but the directory may have been renamed: its number alone decides if it is known.
    pub(crate) fn is_of_wherever_it_lies(&self, here: &Self) -> bool {
        if self.id.is_some() { self.id == here.id } else { self.is_of(here) }
    }
}

/// Manifest of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The data directory.
    pub directory: DirectoryMark,
    /// The cluster.
    pub system_identifier: String,
    /// Proof that no server was started since.
    pub proof: Proof,
    /// Bytes of a page.
    pub block_size: usize,
    /// The pages, in the order of the page files.
    pub entries: Vec<JournalEntry>,
}

#[derive(Serialize, Deserialize)]
struct OnDisk {
    schema: u32,
    data_dir: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<DirectoryId>,
    system_identifier: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    control_crc: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    witness: Option<Witness>,
    block_size: usize,
    entries: Vec<JournalEntry>,
}

impl Manifest {
    /// A manifest without pages.
    pub fn new(directory: DirectoryMark, system_identifier: u64, witness: Witness, block_size: usize) -> Self {
        Self {
            directory,
            system_identifier: system_identifier.to_string(),
            proof: Proof::Witness(witness),
            block_size,
            entries: Vec::new(),
        }
    }

    /// The text of the file: one line of JSON, and its CRC-32C.
    pub(super) fn to_text(&self) -> Result<String, serde_json::Error> {
        let (schema, control_crc, witness) = match self.proof.clone() {
            Proof::Witness(witness) => (JOURNAL_SCHEMA, None, Some(witness)),
            Proof::OldCrc(crc) => (FIRST_SCHEMA, Some(crc), None),
        };
        let body = serde_json::to_string(&OnDisk {
            schema,
            data_dir: self.directory.path.clone(),
            directory: self.directory.id,
            system_identifier: self.system_identifier.clone(),
            control_crc,
            witness,
            block_size: self.block_size,
            entries: self.entries.clone(),
        })?;
        let crc = crc_text(body.as_bytes());
        Ok(format!("{body}\n{crc}\n"))
    }

    /// Reads the text of the file.
    pub(super) fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let text = String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
        let mut lines = text.lines();
        let (body, crc) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        if crc_text(body.as_bytes()) != crc {
            return Err("its CRC is not that of its content".to_owned());
        }
        let manifest: OnDisk = serde_json::from_str(body).map_err(|error| format!("not a manifest: {error}"))?;
        let OnDisk {
            schema,
            data_dir: path,
            directory: id,
            system_identifier,
            control_crc,
            witness,
            block_size,
            entries,
        } = manifest;
        let directory = DirectoryMark { path, id };
        let proof = match (schema, witness, control_crc) {
            (JOURNAL_SCHEMA, Some(witness), None) => Proof::Witness(witness),
            (FIRST_SCHEMA, None, Some(crc)) => Proof::OldCrc(crc),
            (JOURNAL_SCHEMA | FIRST_SCHEMA, ..) => return Err("a part that its format requires is missing".to_owned()),
            _ => return Err("made by another version of this program".to_owned()),
        };
        if !u32::try_from(block_size).is_ok_and(crate::types::is_block_size) {
            return Err("its page size is not that of any server".to_owned());
        }
        let (mut pages, mut positions) = (BTreeSet::new(), BTreeSet::new());
        for entry in &entries {
            if !pages.insert(&entry.page) || !positions.insert((PathBuf::from(&entry.path), entry.offset)) {
                return Err(format!("it names {entry} twice"));
            }
        }
        Ok(Self { directory, system_identifier, proof, block_size, entries })
    }
}
