//! Names of relations, read when the first one is needed.

use crate::cluster::data_dir::DataDir;
use crate::cluster::name_gaps::NameGap;
use crate::cluster::names::RelationNames;
use crate::types::RelFileLocator;

/// Names of relations, read when the first is needed.
#[derive(Default)]
pub(super) struct LazyNames(Option<(RelationNames, Vec<NameGap>)>);

impl LazyNames {
    pub(super) fn read(&mut self, directory: &DataDir) -> &RelationNames {
        &self.0.get_or_insert_with(|| RelationNames::read(directory)).0
    }

    /// A question mark follows a name that may be wrong.
    pub(super) fn of(&mut self, directory: &DataDir, rel: RelFileLocator) -> Option<String> {
        self.read(directory).full_name(rel)
    }

    pub(super) fn database_of(&mut self, directory: &DataDir, rel: RelFileLocator) -> Option<String> {
        self.read(directory).database_of(rel).map(str::to_owned)
    }

    /// None are known.
    pub(super) fn none() -> Self {
        Self(Some((RelationNames::default(), Vec::new())))
    }

    pub(super) fn gaps(&self) -> &[NameGap] {
        self.0.as_ref().map_or(&[], |(_, gaps)| gaps)
    }
}
