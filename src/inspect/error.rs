//! Why an inspection could not be made. What is wrong with the data is a finding; this says that nobody could look.

use std::path::{Path, PathBuf};

use crate::analysis::verdict::fetch::FetchError;
use crate::cluster::data_dir::{DataDir, NotADataDir};
use crate::cluster::names::RelationNames;
use crate::cluster::open::AccessError;
use crate::cluster::tar_backup::TarBackup;
use crate::cluster::wal::WalSetError;
use crate::output::tar_text::tar_backup_words;
use crate::types::RelFileLocator;

/// Relations that a message names one by one.
const MAX_NAMED: usize = 12;

/// The input is not what the work needs, or the system refused it.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The path is not a data directory.
    #[error(transparent)]
    NotADataDir(#[from] NotADataDir),
    /// The path holds a base backup in tar format.
    #[error("{}", tar_backup_words(.0))]
    TarBackup(Box<TarBackup>),
    /// A directory stands among several paths.
    #[error("{} is a directory: several paths must all be files", .0.display())]
    DirectoryAmongFiles(PathBuf),
    /// A file whose header and slots are not those of a double write buffer.
    #[error("{} is not a DWB file: neither header nor slots are those of a double write buffer", .0.display())]
    NotADwbFile(PathBuf),
    /// A directory with neither `PG_VERSION` nor DWB files.
    #[error("{} is neither a data directory (it has no PG_VERSION) nor does it hold double write buffer files", .0.display())]
    NothingToInspect(PathBuf),
    /// The WAL that was named cannot be opened, or is not of this cluster.
    #[error(transparent)]
    Wal(#[from] WalSetError),
    /// Which directories belong to the cluster is unknown, so nothing may be written anywhere.
    #[error("what belongs to the cluster is unknown: {0}")]
    OwnDirectories(#[source] AccessError),
    /// The system refused.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// An image that was there before cannot be read.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Names of relations were given, and there is no catalog to look them up in.
    #[error("names are known only in a data directory: give \"{0}\" as numbers (REL, DB/REL or SPC/DB/REL)")]
    NamesUnknown(String),
    /// No relation has this name.
    #[error("no relation is called \"{0}\"")]
    NoSuchRelation(String),
    /// Several relations have this name.
    #[error("\"{text}\" stands for {} relations; say which:{}", found.len(), lines_of(found))]
    AmbiguousRelation {
        /// What was given.
        text: String,
        /// Each relation, and its full name where that is known.
        found: Vec<(RelFileLocator, Option<String>)>,
    },
    /// `--relation` names something of which no file exists.
    #[error("--relation {0}: no file of such a relation is there")]
    NoFileOfRelation(String),
    /// A saved plan lacks what was selected of it.
    #[error("the plan has no step for {0}")]
    NotInPlan(String),
}

impl InspectError {
    /// Several relations are called `text`.
    #[must_use]
    pub fn ambiguous(text: &str, found: &[RelFileLocator], names: &RelationNames) -> Self {
        let found = found.iter().map(|rel| (*rel, names.full_name(*rel))).collect();
        Self::AmbiguousRelation { text: text.to_owned(), found }
    }

    /// `path` is not a data directory; a backup in tar format is recognised as such.
    #[must_use]
    pub fn not_a_data_dir(path: &Path, error: NotADataDir) -> Self {
        let backup = TarBackup::find(path).filter(|_| matches!(error, NotADataDir::NoVersion(_)));
        backup.map_or(Self::NotADataDir(error), |backup| Self::TarBackup(Box::new(backup)))
    }
}

/// Opens a data directory.
///
/// # Errors
/// When the path is not a data directory.
pub fn open_data_dir(path: &Path) -> Result<DataDir, InspectError> {
    DataDir::open(path).map_err(|error| InspectError::not_a_data_dir(path, error))
}

fn lines_of(found: &[(RelFileLocator, Option<String>)]) -> String {
    let line = |(rel, name): &(RelFileLocator, Option<String>)| match name {
        Some(name) => format!("\n  {name} ({rel})"),
        None => format!("\n  {rel}"),
    };
    let list: String = found.iter().take(MAX_NAMED).map(line).collect();
    match found.len().saturating_sub(MAX_NAMED) {
        0 => list,
        more => format!("{list}\n  and {more} more"),
    }
}
