//! Which relation files `verify` reads, as arguments.

use clap::Args;

use crate::inspect::file_filter::{FileFilter, PathPattern};
use crate::inspect::relation_name::RelationChoice;
use crate::types::ForkNumber;

/// Filters. If several kinds are given, all must match.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct SelectArgs {
    /// Databases by OID or name; 0 means the shared catalogs
    #[arg(long, value_name = "OID|NAME", value_delimiter = ',')]
    database: Vec<String>,
    /// Relations by name (relation, schema.relation, database.schema.relation) or numbers (REL, DB/REL, SPC/DB/REL)
    #[arg(long, value_name = "REL", value_delimiter = ',')]
    relation: Vec<RelationChoice>,
    /// Forks: main, fsm, vm, init
    #[arg(long, value_name = "FORK", value_delimiter = ',')]
    fork: Vec<ForkNumber>,
    /// Files or directories below DATADIR, or a pattern in quotes
    #[arg(long, value_name = "PATH")]
    path: Vec<PathPattern>,
}

impl SelectArgs {
    /// The filter.
    pub fn filter(&self) -> FileFilter {
        FileFilter {
            databases: self.database.clone(),
            relations: self.relation.clone(),
            forks: self.fork.clone(),
            paths: self.path.clone(),
        }
    }
}
