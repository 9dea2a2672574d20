//! Names instead of numbers.

use std::ops::ControlFlow;
use std::path::Path;

use crate::analysis::wal::catalog_rows::{CatalogFileNumbers, CatalogRowReader, CatalogRows};
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::unreadable::UnreadableImages;
use crate::cluster::name_gaps::NameGap;
use crate::cluster::names::RelationNames;
use crate::cluster::wal::WalSet;
use crate::inspect::error::{InspectError, open_data_dir};
use crate::parsers::wal::block::Keep;
use crate::report::Finding;
use crate::types::RelFileLocator;

/// What is known of names of relations and databases.
#[derive(Debug, Default)]
pub struct NameLookup {
    known: Option<RelationNames>,
    gaps: Vec<NameGap>,
    /// There is nothing but the WAL to take names from.
    of_wal_alone: bool,
}

/// What stands for the WAL itself as the source of names.
pub(crate) const NAMES_OF_WAL: &str = "wal";

impl NameLookup {
    /// Reads the names of a data directory, or those in a file; no path: none are known.
    ///
    /// # Errors
    /// When they cannot be read at all.
    pub fn open(path: Option<&Path>) -> Result<Self, InspectError> {
        let Some(path) = path else { return Ok(Self::default()) };
        if path == Path::new(NAMES_OF_WAL) {
            return Ok(Self { known: Some(RelationNames::default()), gaps: Vec::new(), of_wal_alone: true });
        }
        let (known, gaps) =
            if path.is_dir() { RelationNames::read(&open_data_dir(path)?) } else { RelationNames::from_json(path)? };
        Ok(Self { known: Some(known), gaps, of_wal_alone: false })
    }

    /// The names of the data directory that the WAL is of, as far as they can be read: nobody asked for them.
    pub(super) fn unasked(data_dir: &Path) -> Self {
        Self::open(Some(data_dir)).map_or_else(|_| Self::default(), |names| Self { gaps: Vec::new(), ..names })
    }

    /// No catalog that names come from was missing or damaged.
    pub(crate) const fn is_whole(&self) -> bool {
        self.gaps.is_empty()
    }

    /// `database.schema.relation`, where known; a question mark follows a name that may be wrong.
    pub fn relation(&self, rel: RelFileLocator) -> Option<String> {
        self.known.as_ref().and_then(|known| known.full_name(rel))
    }

    /// True when names come from the WAL alone, so they belong to its cluster.
    pub(crate) const fn is_of_wal_alone(&self) -> bool {
        self.of_wal_alone
    }

    /// Adds names that rows of catalogs in the WAL tell, doubtful ones, where names were asked for. The WAL is read once for
    /// it, as a whole: what a range leaves out may name what lies in it. Images of catalogs that cannot be restored are
    /// findings: names may be missing. Whoever reads the WAL tells what else is wrong with it.
    pub(super) fn add_from_wal(&mut self, set: &WalSet, jobs: usize) -> Vec<Finding> {
        let (Some(known), Some(major)) = (&mut self.known, set.major()) else { return Vec::new() };
        let files = CatalogFileNumbers::of(known);
        let mut rows = CatalogRows::new(major.facts().catalog, files.clone());
        let (block_size, mut unreadable) = (set.geometry().block_size, UnreadableImages::default());
        for run in set.runs() {
            let stretch = ScanPlan::totals().stretch(set, &run, Keep::Blocks);
            let begin = |_| CatalogRowReader::new(&files, block_size);
            let read = collect_run(&stretch, jobs, &|_| ControlFlow::Continue(()), begin, |part| {
                unreadable.append(std::mem::take(&mut part.found.unreadable));
                rows.push(&mut part.found);
                Ok(())
            });
            // The counts that belong to these names meet the same errors, and tell them.
            drop(read);
        }
        rows.name(known);
        unreadable.findings()
    }

    /// The names, if any were asked for.
    pub const fn known(&self) -> Option<&RelationNames> {
        self.known.as_ref()
    }

    /// What could not be read.
    pub fn gaps(&self) -> &[NameGap] {
        &self.gaps
    }
}
