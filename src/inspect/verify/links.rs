//! Links between pages of indexes, as findings.

use super::names::LazyNames;
use crate::analysis::page_links::LinkReport;
use crate::analysis::page_scan::PageScan;
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationName;
use crate::cluster::relation_path::RelationPaths;
use crate::report::Finding;
use crate::types::{Geometry, PageId};

/// Findings about what pages of indexes say of each other. Where replay follows, only what holds before it.
pub(super) fn link_findings(
    directory: &DataDir,
    names: &mut LazyNames,
    scan: &PageScan,
    geometry: Geometry,
) -> Vec<Finding> {
    if scan.links == LinkReport::default() {
        return Vec::new();
    }
    let paths = paths_of(directory, geometry);
    let names = names.read(directory);
    let exists = |rel| names.get(rel).is_some_and(RelationName::is_certain);
    let locate = |page: PageId| {
        let (path, at) = paths.path_and_block(page);
        (path.display().to_string(), u64::from(at) * u64::from(geometry.block_size))
    };
    scan.links.findings(&|link| link.is_settled, &exists, &locate)
}

pub(super) fn paths_of(directory: &DataDir, geometry: Geometry) -> RelationPaths {
    let catalog = directory.control().trusted().map_or(0, |control| control.prefix.catalog_version_no);
    RelationPaths::new(directory.major(), catalog, geometry.rel_segment_blocks)
}
