//! The DWB files of one directory, each with counts, and what looks wrong about them.

use std::ops::ControlFlow;

use super::finding::{Coverage, Finding, Severity};
use super::finding_kind::{FindingKind, Unrecognized};
use super::skipped::{Lacking, SkipReason, SkippedPart};
use super::slot_facts::SlotFacts;
use super::staleness::{BatchVerdict, Staleness};
use super::trace::{ClusterFacts, SlotCounts, trace_file};
use crate::cluster::dwb_files::{DwbFile, DwbSet};
use crate::parsers::dwb::MAX_SLOTS_PER_FILE;

/// One file and its counts.
#[derive(Debug)]
pub struct FileReport {
    /// Index in the set.
    pub file: usize,
    /// Counts by condition.
    pub counts: SlotCounts,
    /// Slots by batch verdict: current, undecided, stale.
    pub current: u64,
    /// See `current`.
    pub undecided: u64,
    /// See `current`.
    pub stale: u64,
}

/// All files, the judgement of their batches, and findings.
#[derive(Debug)]
pub struct DwbReport {
    /// One entry a file, in the order of the set.
    pub files: Vec<FileReport>,
    /// Judgement of every slot.
    pub staleness: Staleness,
    /// What looks wrong or is worth knowing.
    pub findings: Vec<Finding>,
    /// What was examined and what was not.
    pub coverage: Coverage,
}

/// Reads every slot of every file once with `jobs` threads, judges the set, and shows each slot in order, with the index of
/// its file in the set. `visit` can break it off: then the report says so, and nothing of a part that was read.
#[must_use]
pub fn examine_slots(
    set: &DwbSet,
    facts: &ClusterFacts,
    jobs: usize,
    mut visit: impl FnMut(usize, &SlotFacts) -> ControlFlow<()>,
) -> DwbReport {
    let mut coverage = Coverage::default();
    let mut findings = Vec::new();
    for error in &set.skipped {
        coverage.skip(SkippedPart::DoubleWriteBuffer, error);
    }
    for error in set.controls.iter().filter_map(|control| control.content.as_ref().err()) {
        coverage.skip(SkippedPart::DoubleWriteBuffer, error);
    }
    for path in &set.unrecognized {
        let entry = Unrecognized::Entry(path.display().to_string());
        findings.push(Finding::problem(FindingKind::Unrecognized(entry)));
    }
    if set.further_unrecognized > 0 {
        let further = Unrecognized::Further(set.further_unrecognized);
        findings.push(Finding::problem(FindingKind::Unrecognized(further)));
    }
    let mut traces = Vec::new();
    let mut counted = Vec::new();
    let mut is_wanted = true;
    for (index, file) in set.files.iter().enumerate() {
        let (trace, counts) = trace_file(file, facts, jobs, &mut coverage, |slot| {
            is_wanted = is_wanted && visit(index, slot).is_continue();
            if is_wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if is_wanted {
            inspect_file(file, facts, &counts, &mut findings, &mut coverage);
        }
        traces.push(trace);
        counted.push(counts);
    }
    let staleness = Staleness::judge(set, traces, facts);
    for finding in &mut findings {
        let of_file = set.files.iter().position(|file| finding.file.as_deref() == Some(&*file.name));
        let is_of_slots = matches!(finding.kind, FindingKind::BadSlots { .. } | FindingKind::HeaderFault(_));
        if is_of_slots && of_file.is_some_and(|file| staleness.is_unfinished(file)) {
            finding.severity = Severity::Note;
        }
    }
    let mut files = Vec::new();
    for (file, counts) in counted.into_iter().enumerate() {
        let mut report = FileReport { file, counts, current: 0, undecided: 0, stale: 0 };
        for index in 0..counts.total {
            match staleness.verdict(file, index) {
                Some((BatchVerdict::Current, _)) => report.current = report.current.saturating_add(1),
                Some((BatchVerdict::Undecided, _)) => report.undecided = report.undecided.saturating_add(1),
                Some((BatchVerdict::Stale, _)) => report.stale = report.stale.saturating_add(1),
                None => {}
            }
        }
        files.push(report);
    }
    if is_wanted {
        findings.extend(staleness.findings(set, facts));
    } else {
        coverage.skip(SkippedPart::RestOfDoubleWriteBuffer, SkipReason::Interrupted(Lacking::Images));
    }
    DwbReport { files, staleness, findings, coverage }
}

fn inspect_file(
    file: &DwbFile,
    facts: &ClusterFacts,
    counts: &SlotCounts,
    findings: &mut Vec<Finding>,
    coverage: &mut Coverage,
) {
    let detection = &file.detection;
    let name = file.name.as_str();
    let mut add = |finding: Finding| findings.push(finding.in_file(name));
    let mut skip = |reason: SkipReason| coverage.skip(SkippedPart::file(name), reason);
    if file.size_bytes() == 0 {
        skip(SkipReason::FileEmpty);
    }
    if counts.total > 0 && counts.used() == 0 && detection.sound_header().is_none() {
        add(Finding::problem(FindingKind::AllZero));
        return;
    }
    match &detection.header {
        Err(error) if file.size_bytes() > 0 => skip(error.into()),
        Err(_) => {}
        Ok(_) => {
            for fault in detection.header_faults() {
                add(Finding::problem(FindingKind::HeaderFault(fault.clone())).at(0));
            }
        }
    }
    let proven = detection.evidence.header_crc || detection.evidence.verified_slots > 0;
    if !proven && detection.evidence.plausible_slots == 0 && counts.used() > 0 {
        skip(SkipReason::NotADwb);
    } else if !proven && counts.used() > 0 {
        add(Finding::problem(FindingKind::LayoutGuessed { layout: detection.layout.name() }));
    }
    if let Some(header) = detection.sound_header().filter(|header| header.block_size != detection.block_size) {
        let (header, slots) = (header.block_size, detection.block_size);
        add(Finding::problem(FindingKind::HeaderBlockSize { header, slots }));
    }
    if let Some(block_size) = facts.block_size.filter(|size| *size != detection.block_size) {
        add(Finding::problem(FindingKind::BlockSize { file: detection.block_size, cluster: block_size }));
    }
    if proven && counts.used() > 0 && !detection.layout.is_read_in_recovery() {
        add(Finding::note(FindingKind::NeverRead { layout: detection.layout.name() }));
    }
    if detection.missing_slots > 0 {
        let (size_bytes, missing_slots) = (file.size_bytes(), detection.missing_slots);
        skip(SkipReason::CutShort { size_bytes, missing_slots });
        add(Finding::problem(FindingKind::CutShort { size_bytes, missing_slots }).at(size_bytes));
    }
    if detection.excess_slots > 0 {
        skip(SkipReason::TooManySlots { excess: detection.excess_slots, max: MAX_SLOTS_PER_FILE });
    }
    if detection.trailing_bytes > 0 {
        let offset = file.size_bytes().saturating_sub(detection.trailing_bytes);
        add(Finding::problem(FindingKind::TrailingBytes { bytes: detection.trailing_bytes }).at(offset));
    }
    if detection.longer_than_header {
        add(Finding::problem(FindingKind::LongerThanHeader));
    }
    if counts.bad() > 0 {
        add(Finding::problem(FindingKind::BadSlots { bad: counts.bad(), used: counts.used() }));
    }
    if counts.implausible_images > 0 {
        add(Finding::problem(FindingKind::ImplausibleImages { count: counts.implausible_images }));
    }
    if counts.implausible_headers > 0 {
        add(Finding::problem(FindingKind::ImplausibleHeaders { count: counts.implausible_headers }));
    }
    if counts.lsn_mismatches > 0 {
        add(Finding::problem(FindingKind::LsnMismatch { slots: counts.lsn_mismatches }));
    }
}
