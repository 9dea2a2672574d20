//! Facts about the files before they are read.
//! Also here: names of relations, read when the first one is needed; links between pages of indexes, as findings.

use super::replay::HeldPage;
use super::{ChecksumRule, Plan};
use crate::analysis::pages::page_check::{PageCondition, PageDamage};
use crate::analysis::pages::page_links::LinkReport;
use crate::analysis::pages::page_scan::{PageScan, PartialPage};
use crate::analysis::start::doubt::LsnWitness;
use crate::cluster::data_dir::DataDir;
use crate::cluster::name_gaps::NameGap;
use crate::cluster::names::RelationNames;
use crate::cluster::page_source::RelationPaths;
use crate::cluster::relation_walk::RelationFile;
use crate::report::Finding;
use crate::types::{ForkNumber, Geometry, PageId, RelFileLocator};

impl Plan<'_> {
    pub(super) fn path_of(&self, file: usize) -> String {
        self.files.get(file).map_or_else(String::new, |file| file.path.display().to_string())
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.file_bytes().saturating_add(self.wal_bytes)
    }

    pub(super) fn is_unlogged(&self, page: PageId) -> bool {
        self.unlogged.contains(&page.rel) && page.fork != ForkNumber::Init
    }

    /// True where a wrong checksum proves nothing.
    pub(super) fn is_counted(&self) -> bool {
        self.page_rules.checksums == ChecksumRule::Counted
    }

    /// A page of a file as a witness for the end of WAL.
    pub(super) fn witness(&self, page: PageId) -> LsnWitness {
        let rel_segment = page.block.checked_div(self.page_rules.geometry.rel_segment_blocks).unwrap_or_default();
        let holds = |file: &&RelationFile| {
            (file.rel, file.name.fork, file.name.rel_segment) == (page.rel, page.fork, rel_segment)
        };
        let path = self.files.iter().find(holds).map_or_else(String::new, |file| file.path.display().to_string());
        LsnWitness::InFile { path, block: page.block }
    }

    /// File of a page, and its offset there.
    pub(super) fn locate(&self, page: PageId) -> (String, u64) {
        let geometry = self.page_rules.geometry;
        let block = page.block.checked_rem(geometry.rel_segment_blocks).unwrap_or_default();
        let LsnWitness::InFile { path, .. } = self.witness(page) else { return (String::new(), 0) };
        (path, u64::from(block).saturating_mul(u64::from(geometry.block_size)))
    }

    /// The page that a file ends inside of.
    pub(super) fn cut_page(&self, partial: &PartialPage) -> HeldPage {
        let mut bytes = partial.bytes.clone();
        bytes.resize(self.page_rules.geometry.block_size as usize, 0);
        let checksums = self.page_rules.checksums == ChecksumRule::Damage;
        let condition = PageCondition::of(&bytes, partial.page.fork, partial.page.block, checksums);
        let none = PageDamage { checksum: None, faults: Vec::new(), tuple_fault: None, server_rejects: false };
        HeldPage {
            file: partial.file,
            page: partial.page,
            offset: partial.offset,
            damage: condition.damage().cloned().unwrap_or(none),
            have_bytes: Some(partial.have_bytes),
            lsn: HeldPage::lsn_in(&bytes),
            is_zero: condition == PageCondition::Zeroed,
            is_unlogged: self.is_unlogged(partial.page),
        }
    }
}

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
    let exists = |rel| names.has(rel);
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
