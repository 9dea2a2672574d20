//! The relation files of a cluster, and what their pages are judged by.

use std::collections::BTreeMap;

use crate::analysis::skipped::Coverage;
use crate::cluster::data_dir::DataDir;
use crate::cluster::relation_path::RelationPaths;
use crate::cluster::relation_walk::{RelationWalk, relations_of};
use crate::inspect::page_rules::PageRules;
use crate::report::Finding;
use crate::types::{ForkNumber, Geometry, PageId, RelFileLocator};

/// Where pages are, and how they are read.
pub(super) struct RelationFiles {
    pub walk: RelationWalk,
    /// Rules of pages; `None` when not even their size is known.
    pub rules: Option<PageRules>,
    /// Sizes; the usual ones where they are unknown.
    pub geometry: Geometry,
    /// Bytes of a page.
    pub block_size: usize,
    pub paths: RelationPaths,
}

impl RelationFiles {
    /// Walks through the directory. What is unknown about the pages is added to `coverage`.
    pub(super) fn find(directory: &DataDir, coverage: &mut Coverage, findings: &mut Vec<Finding>) -> Self {
        let walk = relations_of(directory);
        let rules = PageRules::of(directory, &walk.files, coverage, findings);
        let geometry = rules.map_or(Geometry::USUAL, |rules| rules.geometry);
        let block_size = usize::try_from(geometry.block_size).unwrap_or_default();
        let catalog = directory.control().trusted().map_or(0, |control| control.prefix.catalog_version_no);
        let paths = RelationPaths::new(directory.major(), catalog, geometry.rel_segment_blocks);
        Self { walk, rules, geometry, block_size, paths }
    }

    pub(super) fn only(&self, takes: impl Fn(RelFileLocator) -> bool) -> Self {
        let files = self.walk.files.iter().filter(|file| takes(file.rel)).cloned().collect();
        let walk = RelationWalk { files, skipped: Vec::new() };
        Self { walk, paths: self.paths.clone(), ..*self }
    }

    /// Blocks of a fork, by the sizes of its files when they were listed.
    pub(super) fn blocks_of(&self, rel: RelFileLocator, fork: ForkNumber) -> u64 {
        let files = &self.walk.files;
        let first = files.partition_point(|file| (file.rel, file.name.fork) < (rel, fork));
        let of_fork = files.iter().skip(first).take_while(|file| (file.rel, file.name.fork) == (rel, fork));
        of_fork.map(|file| file.size_bytes.div_ceil(u64::from(self.geometry.block_size).max(1))).sum()
    }

    pub(super) fn blocks(&self) -> BTreeMap<(RelFileLocator, ForkNumber), u64> {
        let mut blocks = BTreeMap::new();
        for file in &self.walk.files {
            let of_file = file.size_bytes.div_ceil(u64::from(self.geometry.block_size).max(1));
            *blocks.entry((file.rel, file.name.fork)).or_insert(0) += of_file;
        }
        blocks
    }

    /// Path of the file that holds a page, and where in it the page begins.
    pub(super) fn locate(&self, page: PageId) -> (String, u64) {
        let (path, index) = self.paths.path_and_block(page);
        (path.display().to_string(), u64::from(index) * u64::from(self.geometry.block_size))
    }
}
