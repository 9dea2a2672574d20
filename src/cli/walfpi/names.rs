//! Names in place of numbers.

use std::path::PathBuf;

use clap::Args;

use crate::cli::exit::Stop;
use crate::types::RelFileLocator;

/// Names that replace numbers.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// Show names of relations: from a stopped data directory, or from a file (see --help)
    ///
    /// A file is a JSON array of objects with spc_oid, db_oid, rel_number, database, schema and relation. The query
    /// that makes it is printed by `pg_walfpi names-query`; run it in each database and join the arrays.
    #[arg(long, value_name = "DATADIR|FILE")]
    pub names: Option<PathBuf>,
}

/// What is known of names.
#[derive(Debug, Default)]
pub struct Names {}

impl Names {
    /// Reads the names that were asked for.
    ///
    /// # Errors
    /// When they cannot be read at all.
    pub fn open(_args: &NameArgs) -> Result<Self, Stop> {
        Ok(Self {})
    }

    /// `database.schema.relation`, where known.
    #[must_use]
    pub fn relation(&self, _rel: RelFileLocator) -> Option<String> {
        None
    }

    /// Name of a database, where known.
    #[must_use]
    pub fn database(&self, _oid: u32) -> Option<String> {
        None
    }

    /// What could not be read.
    pub fn skipped(&self) -> impl Iterator<Item = (String, String)> + '_ {
        std::iter::empty()
    }
}
