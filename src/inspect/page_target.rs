//! The page that a user asks for: its relation and fork, and whether it exists.

use std::path::Path;

use super::error::{InspectError, open_data_dir};
use super::examination::Examination;
use super::page_name::PageName;
use super::relation_name::RelationChoice;
use crate::analysis::select::PageSelection;
use crate::analysis::verdict::compare::Comparison;
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationNames;
use crate::cluster::relation_walk::relations_of;
use crate::types::{ForkNumber, Geometry, PageId, RelFileLocator};

/// Refuses a missing page that nothing refers to.
pub(crate) fn demand_page(examined: &Examination, page: PageId) -> Result<(), InspectError> {
    let Some(found) = examined.report.pages.first() else { return Ok(()) };
    let is_absent = matches!(found.disk, Comparison::BeyondEnd | Comparison::MissingFile);
    if !is_absent || found.is_wrong || !found.verdict.candidates.is_empty() {
        return Ok(());
    }
    let title = format!("{} ({})", examined.called(page), examined.path_of(page));
    Err(InspectError::PageNowhere { title, page, has_file: found.disk != Comparison::MissingFile })
}

/// Pages that are built at once, at most.
const MAX_PAGES_AT: u64 = 10_000;

/// The pages that a selection names one by one. A fork that is not named is the main one.
pub(crate) fn named_pages(directory: &DataDir, selection: &PageSelection) -> Result<Vec<PageId>, InspectError> {
    let blocks = selection.blocks.and_then(|blocks| blocks.bounds());
    let (Some((first, last)), false) = (blocks, selection.relations.is_empty()) else {
        return Err(InspectError::AtNeedsPages);
    };
    let files = relations_of(directory).files;
    let mut rels: Vec<RelFileLocator> = Vec::new();
    for pattern in &selection.relations {
        let found = files.iter().map(|file| file.rel).filter(|rel| pattern.matches(*rel));
        let found: Vec<RelFileLocator> = found.chain(pattern.exact()).collect();
        if found.is_empty() {
            let (text, data_dir) = (pattern.to_string(), directory.root().to_owned());
            return Err(InspectError::NoRelationInCluster { text, data_dir });
        }
        rels.extend(found);
    }
    rels.sort_unstable();
    rels.dedup();
    let forks = if selection.forks.is_empty() { &[ForkNumber::Main][..] } else { &selection.forks };
    let blocks = u64::from(last - first) + 1;
    let pages = blocks * (rels.len() * forks.len()) as u64;
    if pages > MAX_PAGES_AT {
        return Err(InspectError::TooManyPagesAt { pages, limit: MAX_PAGES_AT });
    }
    let of_fork = |rel: RelFileLocator, fork: ForkNumber| (first..=last).map(move |block| PageId { rel, fork, block });
    let of_rel = |rel: RelFileLocator| forks.iter().flat_map(move |fork| of_fork(rel, *fork));
    Ok(rels.into_iter().flat_map(of_rel).collect())
}

/// Finds a page by its name. `fork`: instead of that of the name.
///
/// # Errors
/// When the name matches no relation or several, or no page of a relation.
pub fn find_page(data_dir: &Path, name: &PageName, fork: Option<ForkNumber>) -> Result<PageId, InspectError> {
    let directory = open_data_dir(data_dir)?;
    let geometry = directory.control().trusted().map_or(Geometry::USUAL, |control| control.geometry);
    let block = name.block(geometry.rel_segment_blocks).ok_or_else(|| InspectError::NotOnePage(name.clone()))?;
    let rel = find_relation(&directory, data_dir, name)?;
    Ok(PageId { rel, fork: fork.unwrap_or(name.fork()), block })
}

fn find_relation(directory: &DataDir, data_dir: &Path, name: &PageName) -> Result<RelFileLocator, InspectError> {
    let names = || RelationNames::read(directory).0;
    let mut found: Vec<RelFileLocator> = Vec::new();
    match name.relation() {
        Some(RelationChoice::Numbers(pattern)) => {
            let files = relations_of(directory).files;
            found.extend(files.iter().map(|file| file.rel).filter(|rel| pattern.matches(*rel)));
            if found.is_empty() {
                found.extend(pattern.exact());
            }
        }
        Some(wanted @ RelationChoice::Name(_)) => found.extend(wanted.resolve(Some(&names()))?.exact()),
        None => {}
    }
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [one] => Ok(one),
        [] => Err(InspectError::NoRelationInCluster { text: name.text().to_owned(), data_dir: data_dir.to_owned() }),
        _ => Err(InspectError::ambiguous(name.text(), &found, &names())),
    }
}
