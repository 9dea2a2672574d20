//! The DWB files of one place, each with counts, and what looks wrong about them.

use super::finding::{Coverage, Finding};
use super::slot_facts::SlotFacts;
use super::staleness::{BatchReason, BatchVerdict, HeaderAge, Staleness};
use super::trace::{ClusterFacts, SlotCounts, trace_file};
use crate::cluster::dwb_files::{DwbFile, DwbSet};
use crate::parsers::dwb::{MAX_SLOTS_PER_FILE, Ring};

/// One file and its counts.
#[derive(Debug)]
pub struct FileReport {
    /// Place in the set.
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

/// Reads every slot of every file once with `jobs` threads, judges the set, and shows each slot in order, with the place of
/// its file in the set.
#[must_use]
pub fn examine_slots(
    set: &DwbSet,
    facts: &ClusterFacts,
    jobs: usize,
    mut visit: impl FnMut(usize, &SlotFacts),
) -> DwbReport {
    let mut coverage = Coverage::default();
    let mut findings = Vec::new();
    for error in &set.skipped {
        coverage.skip("double write buffer", error);
    }
    for stranger in &set.unrecognized {
        let what = format!("{} is no double write buffer file", stranger.display());
        findings.push(Finding::problem("stranger", what, "the server makes no such file there; it was not read"));
    }
    if set.further_strangers > 0 {
        let what = format!("{} further entries are no double write buffer files", set.further_strangers);
        findings.push(Finding::problem("stranger", what, "the server makes no such files there; they were not read"));
    }
    let mut traces = Vec::new();
    let mut counted = Vec::new();
    for (place, file) in set.files.iter().enumerate() {
        let (trace, counts) = trace_file(file, facts, jobs, &mut coverage, |slot| visit(place, slot));
        inspect_file(file, facts, &counts, &mut findings, &mut coverage);
        traces.push(trace);
        counted.push(counts);
    }
    let ring = set.files.first().zip(facts.setting_mb).map(|(file, mb)| ring_of(file, mb));
    let staleness = Staleness::judge(traces, facts.control);
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
    inspect_set(set, &staleness, facts, ring, &mut findings);
    DwbReport { files, staleness, findings, coverage }
}

fn ring_of(file: &DwbFile, setting_mb: u32) -> Ring {
    file.detection.layout.ring(setting_mb, file.detection.block_size)
}

/// Findings about one file.
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
    if file.size_bytes() == 0 {
        coverage.skip(name, "the file is empty");
    }
    if counts.total > 0 && counts.used() == 0 && detection.sound_header().is_none() {
        add(Finding::problem(
            "all_zero",
            "the file holds nothing but zeros".to_owned(),
            "its header is gone; no slot was ever written",
        ));
        return;
    }
    match &detection.header {
        Err(error) if file.size_bytes() > 0 => coverage.skip(name, error),
        Err(_) => {}
        Ok(_) => {
            for fault in detection.header_faults() {
                let why = "the server ignores a file with such a header; slots are read at the layout they fit";
                add(Finding::problem("header_fault", fault.to_string(), why).at(0));
            }
        }
    }
    let proven = detection.evidence.header_crc || detection.evidence.verified_slots > 0;
    if !proven && detection.evidence.plausible_slots == 0 && counts.used() > 0 {
        coverage.skip(
            name,
            "neither header nor slots are those of a double write buffer: what is shown is not its content",
        );
    } else if !proven && counts.used() > 0 {
        let what = format!("layout {} is a guess: neither header nor slot CRCs verify", detection.layout.name());
        add(Finding::problem("layout_guessed", what, "what is shown of this file may be meaningless"));
    }
    if let Some(header) = detection.sound_header().filter(|header| header.block_size != detection.block_size) {
        let what =
            format!("header says pages of {} bytes, slots verify at {}", header.block_size, detection.block_size);
        add(Finding::problem("header_block_size", what, "the header is not the one that the slots were written under"));
    }
    if let Some(block_size) = facts.block_size.filter(|size| *size != detection.block_size) {
        let what = format!("pages of {} bytes, the cluster has {block_size}", detection.block_size);
        add(Finding::problem("block_size", what, "the file does not belong to this cluster as it is"));
    }
    if proven && counts.used() > 0 && !detection.layout.is_read_in_recovery() {
        let what = format!("a server of layout {} never reads its buffer", detection.layout.name());
        add(Finding::note("never_read", what, "only a repair puts these images back"));
    }
    if detection.missing_slots > 0 {
        let what =
            format!("ends at {:#X}, its header announces {} slots more", file.size_bytes(), detection.missing_slots);
        coverage.skip(name, format!("file {what}"));
        add(Finding::problem("cut_short", what, "images that the server wrote are gone").at(file.size_bytes()));
    }
    if detection.excess_slots > 0 {
        coverage.skip(
            name,
            format!(
                "{} slots behind the first {MAX_SLOTS_PER_FILE}: no server makes such a file",
                detection.excess_slots
            ),
        );
    }
    if detection.trailing_bytes > 0 {
        let offset = file.size_bytes().saturating_sub(detection.trailing_bytes);
        let what = format!("{} bytes behind the last whole slot", detection.trailing_bytes);
        add(Finding::problem("trailing_bytes", what, "the file was cut or another layout wrote it").at(offset));
    }
    if detection.longer_than_header {
        let what = "holds more slots than its header says".to_owned();
        add(Finding::problem("longer_than_header", what, "the server reads only as many as the header says"));
    }
    if counts.bad() > 0 {
        let what = format!("{} of {} used slots fail their CRC", counts.bad(), counts.used());
        add(Finding::problem("bad_slots", what, "their images cannot be used; what stood there before is lost too"));
    }
    if counts.implausible_images > 0 {
        let what = format!("{} images with a right slot CRC break rules of pages", counts.implausible_images);
        add(Finding::problem("implausible_images", what, "they may have been copied while being changed"));
    }
    if counts.implausible_headers > 0 {
        let what = format!("{} slots with a right slot CRC break rules of slot headers", counts.implausible_headers);
        add(Finding::problem("implausible_headers", what, "no server writes them: which page they hold is not known"));
    }
    if counts.lsn_mismatches > 0 {
        let what = format!("{} slots carry another LSN than their image", counts.lsn_mismatches);
        add(Finding::problem("lsn_mismatch", what, "the page changed while it was copied; such an image is doubtful"));
    }
}

/// Findings about the files together and against the control file.
fn inspect_set(
    set: &DwbSet,
    staleness: &Staleness,
    facts: &ClusterFacts,
    ring: Option<Ring>,
    findings: &mut Vec<Finding>,
) {
    let header_lsn = staleness.header_lsn.unwrap_or_default();
    let expected = facts.control.map(|control| control.expected_header_lsn()).unwrap_or_default();
    match staleness.header_age {
        Some(HeaderAge::Older) => findings.push(Finding::problem(
            "header_older_than_control",
            format!("newest header says {header_lsn}, pg_control expects {expected}"),
            "the reset after the last checkpoint was cut off or the buffer was off since: slots may be older than redo",
        )),
        Some(HeaderAge::Newer) => findings.push(Finding::problem(
            "header_newer_than_control",
            format!("newest header says {header_lsn}, pg_control expects {expected}"),
            "the buffer and this data directory do not belong together: no image is safe to use",
        )),
        Some(HeaderAge::Same) | None => {}
    }
    let mut numbers: Vec<u32> = set.files.iter().filter_map(|file| file.number).collect();
    numbers.sort_unstable();
    let of_directory = facts.control.is_some();
    for missing in (0..numbers.last().copied().unwrap_or(0)).filter(|number| of_directory && !numbers.contains(number))
    {
        let what = format!("file {missing} of the buffer is missing, file {} is there", numbers.last().unwrap_or(&0));
        findings.push(Finding::problem("missing_file", what, "its slots were not seen; batches are judged with care"));
    }
    for (index, file) in set.files.iter().enumerate() {
        let Some(header) = file.detection.sound_header() else { continue };
        let (Some(batch), Some(lsn)) = (header.batch_id, header.checkpoint_lsn) else { continue };
        if !lsn.is_valid() && file.detection.layout.restarts_at_checkpoint() {
            let what = "no checkpoint has ended since this file was created or grown".to_owned();
            let why = "its header cannot tell old slots from new; pg_control's checkpoint is used instead";
            findings.push(Finding::note("never_reset", what, why).in_file(&file.name));
        } else if Some(lsn) < staleness.header_lsn {
            let what = format!("batch {batch} at {lsn}, the newest header says {header_lsn}");
            let why = "the file is left over from a larger setting, or the last reset did not reach it";
            findings.push(Finding::problem("header_behind", what, why).in_file(&file.name));
        }
        let other = set.files.iter().take(index).find(|other| {
            other.detection.layout.name() != file.detection.layout.name()
                || other.detection.block_size != file.detection.block_size
        });
        if let Some(other) = other {
            let what = format!("another layout or page size than {}", other.name);
            let why = "the files were not made by the same server; batches are judged with care";
            findings.push(Finding::problem("mixed_layouts", what, why).in_file(&file.name));
        }
    }
    let mut geometry = std::collections::BTreeMap::<&str, u64>::new();
    for (index, file) in set.files.iter().enumerate() {
        let other = (0..file.detection.slot_count)
            .filter(|slot| matches!(staleness.verdict(index, *slot), Some((_, BatchReason::OtherGeometry))));
        let count = u64::try_from(other.count()).unwrap_or(u64::MAX);
        if count > 0 {
            geometry.insert(&file.name, count);
        }
    }
    for (name, count) in geometry {
        let what = format!(
            "{count} slots belong to another number of slots than the {} in use",
            staleness.ring_slots_per_file
        );
        let first = set.files.iter().any(|file| file.name == name && file.number == Some(0));
        let finding = if first {
            // In the first file the place is the same under every setting.
            Finding::problem("slot_id", what, "no server writes such numbers into the first file")
        } else {
            let why = "left over from another setting, though the server's recovery still reads them";
            Finding::note("other_geometry", what, why)
        };
        findings.push(finding.in_file(name));
    }
    if let Some(ring) = ring.filter(|ring| {
        let files = u64::try_from(set.files.len()).unwrap_or(u64::MAX);
        ring.files != files || set.files.iter().any(|file| file.detection.slot_count != ring.slots_per_file)
    }) {
        let what = format!(
            "the configured size gives {} files of {} slots, which is not what is there",
            ring.files, ring.slots_per_file
        );
        let why = "the size was changed, or the setting is not the one that was in force: leftover slots look valid";
        findings.push(Finding::note("other_size", what, why));
    }
    if staleness.has_wrapped() {
        let what = "the current batch fills the whole ring".to_owned();
        let why = "earlier images of this batch have very probably been overwritten before their pages were safe";
        findings.push(Finding::note("wrapped", what, why));
    }
}
