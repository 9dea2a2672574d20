//! Facts for showing the rows of a page: the columns of its relation, and its items on disk against those of each image.
//! Also here: the bytes of one page: as it is on disk, and as every image has it.

use std::path::Path;

use super::examination::Examination;
use crate::analysis::pages::page_rows::PageRows;
use crate::analysis::verdict::fetch::{PageVersion, VersionOf, fetch_image};
use crate::analysis::verdict::survey::PageReport;
use crate::cluster::columns::{NoColumns, RelationColumns};
use crate::cluster::data_dir::DataDir;
use crate::cluster::page_source::{PageRead, PageSource, RelationPages};
use crate::output::json::page_at::PageRowJson;
use crate::output::page_rows::RowsOf;
use crate::types::PageId;

fn columns_of(examined: &Examination, page: PageId) -> Result<RelationColumns, NoColumns> {
    let directory = examined.source.directory.as_ref().ok_or(NoColumns::NoCatalog)?;
    RelationColumns::read(directory, &examined.names, page.rel)
}

/// The version on disk, where there is one, and the others.
pub(crate) fn disk_and_images(versions: &[PageVersion]) -> (Option<&PageVersion>, &[PageVersion]) {
    match versions.split_first() {
        Some((first, images)) if first.of == VersionOf::Disk => (Some(first), images),
        _ => (None, versions),
    }
}

/// The rows of a page: what it takes to show them.
pub struct RowSets {
    columns: Result<RelationColumns, NoColumns>,
    /// Its items, on disk against each image; on disk alone where there is no image.
    sets: Vec<PageRows>,
}

impl RowSets {
    /// Compares the versions of a page, and reads the columns of its relation where there is something to show of them.
    pub fn of(examined: &Examination, page: PageId, versions: &[PageVersion]) -> Self {
        let (disk, images) = disk_and_images(versions);
        let disk = disk.map(|disk| disk.bytes.as_slice());
        let sets: Vec<PageRows> = if images.is_empty() {
            disk.map(|disk| PageRows::compare(page, Some(disk), None)).into_iter().collect()
        } else {
            // A missing page has no rows: all rows of the image are restored.
            let disk = Some(disk.unwrap_or_default());
            images.iter().map(|image| PageRows::compare(page, disk, Some(&image.bytes))).collect()
        };
        let has_items = sets.iter().any(|set| !set.pairs.is_empty());
        let columns = if has_items { columns_of(examined, page) } else { Err(NoColumns::NoRows) };
        Self { columns, sets }
    }

    /// The rows of the page on disk against those of the image with this index. `versions` are those that were compared.
    pub fn get<'a>(&'a self, versions: &'a [PageVersion], image: usize) -> Option<RowsOf<'a>> {
        let (disk, images) = disk_and_images(versions);
        Some(RowsOf {
            rows: self.sets.get(image)?,
            disk: disk.map_or(&[][..], |disk| &disk.bytes),
            image: images.get(image).map_or(&[][..], |image| &image.bytes),
            columns: &self.columns,
        })
    }

    /// The rows for each image; for the page on disk alone without an image.
    pub fn each<'a>(&'a self, versions: &'a [PageVersion]) -> impl Iterator<Item = RowsOf<'a>> {
        (0..self.sets.len()).filter_map(|image| self.get(versions, image))
    }

    pub(crate) fn json(&self, page: PageId, versions: &[PageVersion]) -> Vec<PageRowJson> {
        let images = disk_and_images(versions).1;
        let mut rows = Vec::new();
        for set in 0..self.sets.len() {
            let Some(of) = self.get(versions, set) else { continue };
            let candidate = images.get(set).and_then(|image| match image.of {
                VersionOf::Image(index) => Some(index),
                VersionOf::Disk | VersionOf::Then(_) => None,
            });
            rows.extend((0..of.rows.pairs.len()).map(|index| PageRowJson::new(page, &of, candidate, index)));
        }
        rows
    }
}

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
