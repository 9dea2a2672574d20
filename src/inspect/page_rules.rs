//! Rules that `verify` uses: page size, segment size, and whether pages carry checksums.

use crate::analysis::pages::checksum_witness::CHECKSUMS_OFF;
use crate::analysis::pages::page_size::page_size_by_headers;
use crate::analysis::skipped::{ControlDoubt, Coverage, NoPageSize, SkipReason, SkippedPart};
use crate::cluster::control_file::ControlRead;
use crate::cluster::data_dir::DataDir;
use crate::cluster::relation_walk::RelationFile;
use crate::parsers::control::{ChecksumState, ControlFile};
use crate::report::{Finding, rules};
use crate::types::Geometry;

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
    pub(super) fn with_headers(
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

rules! {
    CHECKSUMS_CHANGING: Pages "checksums_changing",
        why: "some pages may have none: wrong checksums are counted, not judged",
        means: "Checksums are being turned on or off",
        action: "Wrong ones are counted, not judged";
}
