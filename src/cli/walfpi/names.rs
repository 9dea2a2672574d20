//! Names in place of numbers.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::exit::Stop;
use crate::cluster::name_gaps::NameGap;
use crate::cluster::names::RelationNames;
use crate::inspect::error::open_data_dir;
use crate::types::RelFileLocator;

/// Names that replace numbers.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// Show names of relations: from a stopped data directory, or from a file (see --help)
    ///
    /// A file is a JSON array of objects with spc_oid, db_oid, rel_number, database, schema and relation. `pg_walfpi
    /// names-query` prints the query that makes it; run it in each database and put the outputs one behind the other.
    #[arg(long, value_name = "DATADIR|FILE")]
    pub names: Option<PathBuf>,
}

/// What is known of names.
#[derive(Debug, Default)]
pub struct Names {
    known: Option<RelationNames>,
    gaps: Vec<NameGap>,
}

impl Names {
    /// Reads the names that were asked for.
    ///
    /// # Errors
    /// When they cannot be read at all.
    pub fn open(args: &NameArgs) -> Result<Self, Stop> {
        match &args.names {
            None => Ok(Self::default()),
            Some(path) => Self::read(path),
        }
    }

    fn read(path: &Path) -> Result<Self, Stop> {
        let (known, gaps) = if path.is_dir() {
            let directory = open_data_dir(path)?;
            RelationNames::read(&directory)
        } else {
            RelationNames::from_json(path).map_err(|error| Stop::Input(error.to_string()))?
        };
        Ok(Self { known: Some(known), gaps })
    }

    /// `database.schema.relation`, where known; a question mark follows a name that may be wrong.
    #[must_use]
    pub fn relation(&self, rel: RelFileLocator) -> Option<String> {
        self.known.as_ref()?.full_name(rel)
    }

    /// The names, if any were asked for.
    #[must_use]
    pub const fn known(&self) -> Option<&RelationNames> {
        self.known.as_ref()
    }

    /// Name of a database, where known.
    #[must_use]
    pub fn database(&self, oid: u32) -> Option<String> {
        self.known.as_ref()?.database(oid).map(str::to_owned)
    }

    /// What could not be read.
    pub fn gaps(&self) -> impl Iterator<Item = String> + '_ {
        self.gaps.iter().map(ToString::to_string)
    }
}
