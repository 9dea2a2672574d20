//! Names in place of numbers.

use std::path::Path;

use crate::cluster::name_gaps::NameGap;
use crate::cluster::names::RelationNames;
use crate::inspect::error::{InspectError, open_data_dir};
use crate::types::RelFileLocator;

/// What is known of names of relations and databases.
#[derive(Debug, Default)]
pub struct NameLookup {
    known: Option<RelationNames>,
    gaps: Vec<NameGap>,
}

impl NameLookup {
    /// Reads the names of a data directory, or those in a file; no path: none are known.
    ///
    /// # Errors
    /// When they cannot be read at all.
    pub fn open(path: Option<&Path>) -> Result<Self, InspectError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let (known, gaps) =
            if path.is_dir() { RelationNames::read(&open_data_dir(path)?) } else { RelationNames::from_json(path)? };
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
    #[must_use]
    pub fn gaps(&self) -> &[NameGap] {
        &self.gaps
    }
}
