//! The bytes of one page: as it is on disk, and as every image has it.

use std::path::Path;

use super::examination::Examination;
use crate::analysis::verdict::fetch::{PageVersion, VersionOf, fetch_image};
use crate::analysis::verdict::survey::PageReport;
use crate::cluster::data_dir::DataDir;
use crate::cluster::page_source::{PageRead, PageSource, RelationPages};

/// The page on disk, where there is one, then every image that can be read.
pub(crate) fn page_versions(examined: &Examination, found: &PageReport) -> Vec<PageVersion> {
    let page = found.page;
    let mut versions = Vec::new();
    let mut bytes = vec![0; examined.block_size];
    let root = examined.source.directory.as_ref().map_or(Path::new("."), DataDir::root);
    let pages = RelationPages::new(root, examined.paths.clone());
    if matches!(pages.read_page(page, &mut bytes), Ok(PageRead::Whole | PageRead::Partial { .. })) {
        versions.push(PageVersion { of: VersionOf::Disk, bytes });
    }
    let files = examined.image_files();
    for (index, judged) in found.verdict.candidates.iter().enumerate() {
        let source = &judged.candidate.source;
        if let Ok(bytes) = fetch_image(source, page, &files) {
            versions.push(PageVersion { of: VersionOf::Image(index), bytes });
        }
    }
    versions
}
