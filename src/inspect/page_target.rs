//! The page that a user asks for: its relation and fork, and whether it exists.
//! Also here: how a user names relations: by number or by name.

use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr;

use super::error::{InspectError, open_data_dir};
use super::examination::Examination;
use super::page_name::PageName;
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::pages::select::{PageSelection, RelationPattern, TermError};
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

/// One value of `--relation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelationChoice {
    /// `REL`, `DB/REL` or `SPC/DB/REL`.
    Numbers(RelationPattern),
    /// `relation`, `schema.relation` or `database.schema.relation`.
    Name(String),
}

impl FromStr for RelationChoice {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(pattern) = RelationPattern::of_path(text) {
            return Ok(Self::Numbers(pattern));
        }
        if text.chars().all(|c| c.is_ascii_digit() || c == '/') {
            return text.parse().map(Self::Numbers);
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl std::fmt::Display for RelationChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Numbers(pattern) => pattern.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl RelationChoice {
    /// True when names of relations have to be known.
    pub(crate) fn needs_names(wanted: &[Self]) -> bool {
        wanted.iter().any(|one| matches!(one, Self::Name(_)))
    }

    /// Resolves it. `names`: those of the cluster, if one is given.
    pub(crate) fn resolve(&self, names: Option<&RelationNames>) -> Result<RelationPattern, InspectError> {
        let name = match self {
            Self::Numbers(pattern) => return Ok(*pattern),
            Self::Name(name) => name,
        };
        let Some(names) = names else {
            return Err(InspectError::NamesUnknown(name.clone()));
        };
        match names.find(name)[..] {
            [rel] => Ok(RelationPattern::of(rel)),
            [] => Err(InspectError::NoSuchRelation(name.clone())),
            ref several => Err(InspectError::ambiguous(name, several, names)),
        }
    }

    /// Each with the files that it stands for: those of every relation with one full name, as before and after a rewrite, and
    /// those of a relation whose OID was given where no relation with a name has files of that number.
    ///
    /// # Errors
    /// When a name is that of no relation, or of several with other full names.
    pub fn files_of(
        wanted: &[Self],
        names: Option<&RelationNames>,
    ) -> Result<Vec<(String, Vec<RelationPattern>)>, InspectError> {
        let mut files = Vec::new();
        for one in wanted {
            let of_one: Vec<RelFileLocator> = match (one, names) {
                (Self::Name(name), None) => return Err(InspectError::NamesNotGiven(name.clone())),
                (Self::Name(name), Some(names)) => {
                    let found = names.find(name);
                    let full: BTreeSet<String> =
                        found.iter().filter_map(|rel| names.get(*rel)).map(ToString::to_string).collect();
                    if full.len() == 1 { found } else { Vec::new() }
                }
                (Self::Numbers(pattern), Some(names)) if !names.iter().any(|(rel, _)| pattern.matches(rel)) => {
                    pattern.number_alone().map(|oid| names.of_oid(oid)).unwrap_or_default()
                }
                _ => Vec::new(),
            };
            let patterns = match of_one[..] {
                [] => vec![one.resolve(names)?],
                ref several => several.iter().map(|rel| RelationPattern::of(*rel)).collect(),
            };
            files.push((one.to_string(), patterns));
        }
        Ok(files)
    }

    pub(crate) fn resolve_all(
        wanted: &[Self],
        names: Option<&RelationNames>,
    ) -> Result<Vec<RelationPattern>, InspectError> {
        wanted.iter().map(|one| one.resolve(names)).collect()
    }
}
