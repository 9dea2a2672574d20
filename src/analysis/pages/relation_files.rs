//! The relation files of a cluster, and the rules of their pages: page size, segment size, and whether they carry checksums.

use std::collections::BTreeMap;

use crate::analysis::pages::checksum_witness::CHECKSUMS_OFF;
use crate::analysis::pages::page_check::page_size_by_headers;
use crate::analysis::skipped::{ControlDoubt, Coverage, NoPageSize, SkipReason, SkippedPart};
use crate::cluster::control_file::ControlRead;
use crate::cluster::data_dir::DataDir;
use crate::cluster::page_source::RelationPaths;
use crate::cluster::relation_walk::{RelationFile, RelationWalk, relations_of};
use crate::parsers::control::{ChecksumState, ControlFile};
use crate::report::{Finding, rules};
use crate::types::{ForkNumber, Geometry, PageId, RelFileLocator};

/// Meaning of a wrong checksum of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChecksumRule {
    Off,
    Damage,
    /// Not known, or not every page has one: it is counted and no more.
    Counted,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRules {
    pub geometry: Geometry,
    pub by_control: bool,
    pub checksums: ChecksumRule,
}

impl PageRules {
    /// Finds out by the control file, or, where it cannot be trusted, what the pages themselves tell. What is not known
    /// is added to `coverage`. `None`: not even the page size is known.
    pub fn of(
        directory: &DataDir,
        files: &[RelationFile],
        coverage: &mut Coverage,
        findings: &mut Vec<Finding>,
    ) -> Option<Self> {
        let headers = || page_size_by_headers(directory.root(), files);
        Self::with_headers(directory, headers, coverage, findings)
    }

    /// Like [`Self::of`]; `headers` returns the page size in the headers of pages.
    pub(crate) fn with_headers(
        directory: &DataDir,
        headers: impl FnOnce() -> Result<(u32, u64), NoPageSize>,
        coverage: &mut Coverage,
        findings: &mut Vec<Finding>,
    ) -> Option<Self> {
        let control = directory.control().trusted();
        if let Some(control) = control {
            let checksums = rule_of(control, coverage, findings);
            return Some(Self { geometry: control.geometry, by_control: true, checksums });
        }
        let doubt = match directory.control() {
            ControlRead::WrongSizes(..) => ControlDoubt::WrongSizes,
            ControlRead::UnknownVersion { .. } => ControlDoubt::UnknownVersion,
            _ => ControlDoubt::NotTrusted,
        };
        match headers() {
            Ok((block_size, files)) => {
                let reason = SkipReason::SizesByHeaders { control: doubt, block_size, files };
                coverage.skip(SkippedPart::DataChecksumsAndSegments, reason);
                let geometry = Geometry::usual_with(block_size);
                Some(Self { geometry, by_control: false, checksums: ChecksumRule::Counted })
            }
            Err(headers) => {
                coverage.skip(SkippedPart::RelationFiles, SkipReason::NoPageSize { control: doubt, headers });
                None
            }
        }
    }
}

fn rule_of(control: &ControlFile, coverage: &mut Coverage, findings: &mut Vec<Finding>) -> ChecksumRule {
    let state = control.checksums;
    match state {
        ChecksumState::On => ChecksumRule::Damage,
        ChecksumState::Off => {
            findings.push(CHECKSUMS_OFF.note("data checksums are off"));
            ChecksumRule::Off
        }
        ChecksumState::TurningOn | ChecksumState::TurningOff => {
            findings.push(CHECKSUMS_CHANGING.note(format!("data checksums are {state}")));
            ChecksumRule::Counted
        }
        ChecksumState::Unknown(_) => {
            coverage.skip(SkippedPart::DataChecksums, SkipReason::UnknownChecksumState(state));
            ChecksumRule::Counted
        }
    }
}

/// The relation files of a cluster, and what their pages are judged by.
#[derive(Debug)]
pub(crate) struct RelationFiles {
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
    pub(crate) fn find(directory: &DataDir, coverage: &mut Coverage, findings: &mut Vec<Finding>) -> Self {
        let walk = relations_of(directory);
        let rules = PageRules::of(directory, &walk.files, coverage, findings);
        let geometry = rules.map_or(Geometry::USUAL, |rules| rules.geometry);
        let block_size = usize::try_from(geometry.block_size).unwrap_or_default();
        let catalog = directory.control().trusted().map_or(0, |control| control.prefix.catalog_version_no);
        let paths = RelationPaths::new(directory.major(), catalog, geometry.rel_segment_blocks);
        Self { walk, rules, geometry, block_size, paths }
    }

    pub(crate) fn only(&self, takes: impl Fn(RelFileLocator) -> bool) -> Self {
        let files = self.walk.files.iter().filter(|file| takes(file.rel)).cloned().collect();
        let walk = RelationWalk { files, skipped: Vec::new() };
        Self { walk, paths: self.paths.clone(), ..*self }
    }

    /// Blocks of a fork, by the sizes of its files when they were listed.
    pub(crate) fn blocks_of(&self, rel: RelFileLocator, fork: ForkNumber) -> u64 {
        let files = &self.walk.files;
        let first = files.partition_point(|file| (file.rel, file.name.fork) < (rel, fork));
        let of_fork = files.iter().skip(first).take_while(|file| (file.rel, file.name.fork) == (rel, fork));
        of_fork.map(|file| file.size_bytes.div_ceil(u64::from(self.geometry.block_size).max(1))).sum()
    }

    pub(crate) fn blocks(&self) -> BTreeMap<(RelFileLocator, ForkNumber), u64> {
        let mut blocks = BTreeMap::new();
        for file in &self.walk.files {
            let of_file = file.size_bytes.div_ceil(u64::from(self.geometry.block_size).max(1));
            let blocks = blocks.entry((file.rel, file.name.fork)).or_insert(0_u64);
            *blocks = blocks.saturating_add(of_file);
        }
        blocks
    }

    /// Path of the file that holds a page, and where in it the page begins.
    pub(crate) fn locate(&self, page: PageId) -> (String, u64) {
        let (path, index) = self.paths.path_and_block(page);
        (path.display().to_string(), u64::from(index).saturating_mul(u64::from(self.geometry.block_size)))
    }
}

rules! {
    CHECKSUMS_CHANGING: Pages "checksums_changing",
        why: "some pages may have none: wrong checksums are counted, not judged",
        means: "Checksums are being turned on or off",
        action: "Wrong ones are counted, not judged";
}
