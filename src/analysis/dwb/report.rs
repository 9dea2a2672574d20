//! The DWB files of one directory, each with counts, and what looks wrong about them.

use std::ops::ControlFlow;

use super::slot_facts::SlotFacts;
use super::staleness::{BatchVerdict, Staleness};
use super::trace::{ClusterFacts, SlotCounts, trace_file};
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::cluster::dwb_files::{DwbFile, DwbSet};
use crate::parsers::dwb::MAX_SLOTS_PER_FILE;
use crate::report::{Finding, Severity, rules};

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
    /// Findings.
    pub findings: Vec<Finding>,
    /// Coverage.
    pub coverage: Coverage,
}

/// Reads every slot of every file once with `jobs` threads, judges the set, and shows each slot in order, with the index of
/// its file in the set. `visit` can interrupt: then the report says so, and contains nothing of the part that was read.
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
        findings.push(UNRECOGNIZED.problem(format!("{} is not a double write buffer file", path.display())));
    }
    if set.further_unrecognized > 0 {
        let what = format!("{} more entries are not double write buffer files", set.further_unrecognized);
        let further = UNRECOGNIZED.problem(what);
        findings.push(further.because("the server makes no such files there; they were not read"));
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
        let is_of_slots = finding.is(&BAD_SLOTS) || finding.is(&HEADER_FAULT);
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
        add(ALL_ZERO.problem("the file holds nothing but zeros"));
        return;
    }
    match &detection.header {
        Err(error) if file.size_bytes() > 0 => skip(error.into()),
        Err(_) => {}
        Ok(_) => {
            for fault in detection.header_faults() {
                add(HEADER_FAULT.problem(fault.to_string()).at(0));
            }
        }
    }
    let proven = detection.evidence.header_crc || detection.evidence.verified_slots > 0;
    if !proven && detection.evidence.plausible_slots == 0 && counts.used() > 0 {
        skip(SkipReason::NotADwb);
    } else if !proven && counts.used() > 0 {
        add(LAYOUT_GUESSED
            .problem(format!("layout {} is a guess: neither header nor slot CRCs verify", detection.layout.name())));
    }
    if let Some(header) = detection.sound_header().filter(|header| header.block_size != detection.block_size) {
        let (header, slots) = (header.block_size, detection.block_size);
        add(HEADER_BLOCK_SIZE.problem(format!("header says pages of {header} bytes, slots verify at {slots}")));
    }
    if let Some(block_size) = facts.block_size.filter(|size| *size != detection.block_size) {
        add(BLOCK_SIZE
            .problem(format!("pages of {} bytes; the cluster has pages of {block_size}", detection.block_size)));
    }
    if proven && counts.used() > 0 && !detection.layout.is_read_in_recovery() {
        add(NEVER_READ.note(format!("a server of layout {} never reads its buffer", detection.layout.name())));
    }
    if detection.missing_slots > 0 {
        let (size_bytes, missing_slots) = (file.size_bytes(), detection.missing_slots);
        skip(SkipReason::CutShort { size_bytes, missing_slots });
        add(CUT_SHORT
            .problem(format!("ends at {size_bytes:#X}, {missing_slots} slots before the end that its header gives"))
            .at(size_bytes));
    }
    if detection.excess_slots > 0 {
        skip(SkipReason::TooManySlots { excess: detection.excess_slots, max: MAX_SLOTS_PER_FILE });
    }
    if detection.trailing_bytes > 0 {
        let offset = file.size_bytes().saturating_sub(detection.trailing_bytes);
        add(TRAILING_BYTES
            .problem(format!("{} bytes after the last complete slot", detection.trailing_bytes))
            .at(offset));
    }
    if detection.longer_than_header {
        add(LONGER_THAN_HEADER.problem("holds more slots than its header says"));
    }
    if counts.bad() > 0 {
        add(BAD_SLOTS.problem(format!("{} of {} used slots fail their CRC", counts.bad(), counts.used())));
    }
    if counts.implausible_images > 0 {
        add(IMPLAUSIBLE_IMAGES.problem(format!(
            "{} images break rules of pages although their slot CRC is right",
            counts.implausible_images
        )));
    }
    if counts.implausible_headers > 0 {
        add(IMPLAUSIBLE_HEADERS.problem(format!(
            "{} slots break rules of slot headers although their CRC is right",
            counts.implausible_headers
        )));
    }
    if counts.lsn_mismatches > 0 {
        add(LSN_MISMATCH.problem(format!("{} slot headers have another LSN than their image", counts.lsn_mismatches)));
    }
}

rules! {
    UNRECOGNIZED: DoubleWriteBuffer "stranger",
        why: "the server creates no such file there; it was not read",
        means: "An entry that is not a file of the buffer",
        action: "Find out who created it";
    ALL_ZERO: DoubleWriteBuffer "all_zero",
        why: "its header is zeroed; no slot was ever written",
        means: "A zero-filled file",
        action: "Its images are lost";
    HEADER_FAULT: DoubleWriteBuffer "header_fault",
        why: "the server ignores a file with such a header; slots are read in the layout that fits them",
        means: "The header of a file breaks a rule; the server ignores the file",
        action: "Use the images with `repair`, if `check` proves them";
    LAYOUT_GUESSED: DoubleWriteBuffer "layout_guessed",
        why: "everything shown of this file may be meaningless",
        means: "Nothing proves the layout of a file",
        action: "Rely on nothing that is shown of it";
    HEADER_BLOCK_SIZE: DoubleWriteBuffer "header_block_size",
        why: "the slots were written under another header",
        means: "Header and slots have different page sizes",
        action: "The header was replaced: do not start the server yet";
    BLOCK_SIZE: DoubleWriteBuffer "block_size",
        why: "the file does not belong to this cluster in its present state",
        means: "A file has another page size than the cluster",
        action: "The file is from another cluster";
    NEVER_READ: DoubleWriteBuffer "never_read",
        why: "startup does not restore these images, only a repair does",
        means: "A server of this layout never reads its buffer",
        action: "Repair before startup";
    CUT_SHORT: DoubleWriteBuffer "cut_short",
        why: "images that the server wrote are lost",
        means: "A file ends before its slots do",
        action: "Find a complete copy";
    TRAILING_BYTES: DoubleWriteBuffer "trailing_bytes",
        why: "the file was cut, or has another layout",
        means: "Bytes after the last complete slot",
        action: "The file was cut, or another layout wrote it";
    LONGER_THAN_HEADER: DoubleWriteBuffer "longer_than_header",
        why: "the server reads only as many as the header says",
        means: "More slots than the header says",
        action: "The server does not read the rest";
    BAD_SLOTS: DoubleWriteBuffer "bad_slots",
        why: "their images cannot be used; older images in these slots are lost too",
        means: "Slots that fail their CRC",
        action: "Their images cannot be used";
    IMPLAUSIBLE_IMAGES: DoubleWriteBuffer "implausible_images",
        why: "they may have been copied in the middle of a change",
        means: "Valid slots whose images break page rules",
        action: "They are not used as proof";
    IMPLAUSIBLE_HEADERS: DoubleWriteBuffer "implausible_headers",
        why: "no server writes such headers: the page of each slot is unknown",
        means: "Valid slots with headers that no server writes",
        action: "They are not used";
    LSN_MISMATCH: DoubleWriteBuffer "lsn_mismatch",
        why: "the page changed while it was copied; such an image is doubtful",
        means: "Slots with another LSN than their image",
        action: "Such an image is doubtful";
}
