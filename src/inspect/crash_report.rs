//! The crash report of a cluster: what a check found, with all that identifies the evidence.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::check::{CheckRequest, Stage, Watch, check};
use super::error::InspectError;
use super::examination::Examination;
use super::next::{judged_cluster, steps_of};
use super::page_rows::page_versions;
use super::repair::readiness::{disk_reader, journals_of};
use super::repair::{RepairRequest, plan_for};
use crate::analysis::dwb::report::find_batches;
use crate::analysis::skipped::Coverage;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::check::Scope;
use crate::analysis::verdict::images::{VersionOf, fetch_image};
use crate::analysis::verdict::survey::PageReport;
use crate::cluster::control_file::CONTROL_PATH;
use crate::cluster::open::{FileDigest, Links, digest_file};
use crate::output::check_document::write_stand_ins;
use crate::output::check_text::{compared_words, letter, page_title};
use crate::output::closing::Closing;
use crate::output::control_fields::control_facts;
use crate::output::document::Document;
use crate::output::json::{BatchJson, FileJson};
use crate::output::next_step_text::work_dir;
use crate::output::report::Provenance;
use crate::output::report::crash::{
    BufferShown, CrashReport, Excerpt, PageSheet, PlanShown, PlannedBytes, Pressed, WalRun,
};
use crate::output::text::{Layout, Paint};
use crate::output::words::cluster::checksum_words;
use crate::parsers::crc::sha256_text;
use crate::repair::plan::{Plan, PlanSource, PlanStep};
use crate::repair::prepare::final_bytes;
use crate::types::PageId;

/// Damaged pages that are shown in full unless the user says otherwise.
pub(crate) const USUAL_SHEETS: usize = 50;

/// Steps of a plan whose bytes are computed.
const MAX_PLANNED: usize = 1000;

/// Columns of commands: they are never broken.
const COMMAND_COLUMNS: u16 = 100;

#[derive(Clone, Debug)]
pub struct CrashReportRequest {
    pub check: CheckRequest,
    /// Damaged pages that are shown in full; the others stand in a table.
    pub sheets: usize,
    /// Program that makes the report.
    pub program: &'static str,
    /// Who makes it.
    pub made: Provenance,
    /// Keys pressed in the terminal UI, with times, in order; empty without it.
    pub pressed: Vec<Pressed>,
    /// Journals that need not lie beside the data directory.
    pub journals: Vec<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct MadeReport {
    pub(crate) document: Document,
    pub answer: Answer,
}

/// Examines a cluster and reports on it.
///
/// # Errors
/// As [`check`].
pub fn crash_report(request: &CrashReportRequest, watch: &dyn Watch) -> Result<MadeReport, InspectError> {
    Ok(report_on(&check(&request.check, watch)?, request, watch))
}

/// Reports on a cluster that was examined.
pub(crate) fn report_on(examined: &Examination, request: &CrashReportRequest, watch: &dyn Watch) -> MadeReport {
    let answer = examined.answer();
    let closing = Closing::new(examined.findings.clone(), &examined.coverage).answering(answer);
    let shown = request.check.data_dir.display().to_string();
    let steps = steps_of(examined);
    let pages = &examined.report.pages;
    let report = CrashReport {
        made: &request.made,
        cluster: judged_cluster(examined, request.program, &shown),
        answer: closing.answer(),
        is_partial: request.check.scope != Scope::All,
        state: state_of(examined, &shown),
        closing: &closing,
        steps: &steps,
        stand_ins: stand_ins_of(examined, Path::new(work_dir(&steps, &shown))),
        sheets: pages.iter().take(request.sheets).map(|page| sheet_of(examined, page)).collect(),
        buffer: buffer_of(examined, request.check.jobs, watch),
        wal: wal_of(examined),
        plan: plan_of(request, examined),
        journals: journals_of(examined, &request.journals),
        digests: digests_of(examined, watch),
        pressed: &request.pressed,
    };
    MadeReport { document: report.document(), answer: report.answer }
}

/// The state of the cluster, as `check` and `info` tell it.
fn state_of(examined: &Examination, data_dir: &str) -> Vec<(&'static str, String)> {
    let mut state = vec![("data directory", data_dir.to_owned())];
    if let Some(directory) = &examined.source.directory {
        state.push(("version", directory.version().to_owned()));
    }
    state.push(("what happened", examined.state.to_string()));
    match examined.source.directory.as_ref().and_then(|directory| directory.control().known()) {
        Some(control) => state.extend(control_facts(control)),
        None => state.push(("data checksums", checksum_words(examined.checksums()))),
    }
    state.extend(examined.scanned.as_ref().map(|scanned| ("pages checked", scanned.to_string())));
    state.extend(examined.proof.as_ref().map(|proof| ("proven by replay", proof.to_string())));
    state
}

fn stand_ins_of(examined: &Examination, data_dir: &Path) -> String {
    let title = |page: PageId| page_title(&examined.called(page), page);
    let location_of = |page: PageId| {
        let (path, block) = examined.paths.path_and_block(page);
        (data_dir.join(path), block)
    };
    let layout = Layout { width: COMMAND_COLUMNS, paint: Paint::new(false) };
    let mut text = Vec::new();
    match write_stand_ins(&mut text, layout, &examined.report.pages, &title, &location_of) {
        Ok(()) => String::from_utf8_lossy(&text).trim().to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Identity of the versions of a page, and differences between the disk and the image of the verdict or the tear.
fn sheet_of(examined: &Examination, page: &PageReport) -> PageSheet {
    let versions = page_versions(examined, page);
    let name = |of: &VersionOf| match of {
        VersionOf::Disk => "on disk".to_owned(),
        VersionOf::Image(index) => format!("image {}", letter(*index)),
        VersionOf::Then(lsn) => format!("at {lsn}"),
    };
    let digests = versions.iter().map(|version| (name(&version.of), sha256_text(&version.bytes))).collect();
    let tear = page.tear.as_ref().and_then(|tear| tear.newer.or(tear.older));
    let compared = page.verdict.chosen.or(tear).unwrap_or(0);
    let find = |wanted: VersionOf| versions.iter().find(|version| version.of == wanted);
    let image = find(VersionOf::Image(compared)).map(|version| (letter(compared), version.bytes.as_slice()));
    let excerpt = find(VersionOf::Disk).map(|disk| Excerpt::of(&disk.bytes, image));
    PageSheet { digests, excerpt }
}

fn buffer_of(examined: &Examination, jobs: usize, watch: &dyn Watch) -> BufferShown {
    let (source, report) = (&examined.source, &examined.dwb);
    let files = source.set.files.iter().zip(&report.files).map(|(file, counts)| FileJson::new(file, counts)).collect();
    let name = |rel| examined.relation_name(rel);
    // What cannot be read was told by the check.
    let go_on = || watch.at(Stage::Read, 0, 0);
    let batches = find_batches(&source.set, &report.staleness, &source.facts, jobs, &mut Coverage::default(), &go_on);
    BufferShown {
        rings: report.staleness.summaries(),
        files,
        batches: batches
            .map(|found| found.iter().map(|batch| BatchJson::new(batch, &source.set.files, &name)).collect()),
        compared: compared_words(&examined.report.slots),
    }
}

fn wal_of(examined: &Examination) -> Vec<WalRun> {
    let Some(set) = examined.wal.most() else { return Vec::new() };
    let segment_size = set.geometry().wal_segment_size;
    let run = |range: std::ops::Range<usize>| {
        let segments = set.segments().get(range)?;
        let (first, last) = (segments.first()?, segments.last()?);
        Some(WalRun {
            first: first.segment.file_name(segment_size)?,
            last: last.segment.file_name(segment_size)?,
            segments: segments.len(),
            from: first.start_lsn.to_string(),
            to: last.start_lsn.advanced_by(u64::from(segment_size)).to_string(),
            found_at: first.label.clone(),
        })
    };
    set.runs().into_iter().filter_map(run).collect()
}

fn plan_of(request: &CrashReportRequest, examined: &Examination) -> Result<PlanShown, String> {
    if examined.interrupted() {
        return Err("the check was interrupted.".to_owned());
    }
    let (data_dir, jobs) = (request.check.data_dir.clone(), request.check.jobs);
    let wanted = RepairRequest { data_dir, jobs, ..RepairRequest::default() };
    let (plan, blockers) = plan_for(&wanted, examined).map_err(|error| error.to_string())?;
    let bytes = planned_bytes(examined, &plan);
    Ok(PlanShown { plan, blockers, bytes })
}

fn planned_bytes(examined: &Examination, plan: &Plan) -> Vec<PlannedBytes> {
    let mut disk = disk_reader(examined);
    let checksums = examined.writes_checksums();
    let mut of_step = |step: &PlanStep| {
        let before = step.page.page_id().and_then(&mut disk).ok_or("the page cannot be read");
        let before = before.map(|bytes| sha256_text(&bytes)).map_err(str::to_owned);
        PlannedBytes { before, after: bytes_after(examined, step, checksums).map(|bytes| sha256_text(&bytes)) }
    };
    plan.steps.iter().take(MAX_PLANNED).map(&mut of_step).collect()
}

/// The bytes that a step would write, fetched as a repair does it.
fn bytes_after(examined: &Examination, step: &PlanStep, checksums: bool) -> Result<Vec<u8>, String> {
    if step.image == PlanSource::Blank {
        return Ok(vec![0; examined.block_size]);
    }
    let gone = || "the image no longer exists".to_owned();
    let page = step.page.page_id().ok_or_else(gone)?;
    let report = examined.report.pages.iter().find(|report| report.page == page).ok_or_else(gone)?;
    let of_step = |source: &&crate::analysis::verdict::candidate::ImageSource| PlanSource::of(source) == step.image;
    let mut sources = report.verdict.candidates.iter().map(|judged| &judged.candidate.source);
    let source = sources.find(of_step).ok_or_else(gone)?;
    let image = fetch_image(source, page, &examined.image_files()).map_err(|error| error.to_string())?;
    Ok(final_bytes(image, page.block, checksums))
}

/// `pg_control`, `backup_label` where there is one, and the files of the double write buffer.
fn digests_of(examined: &Examination, watch: &dyn Watch) -> Vec<(String, Result<FileDigest, String>)> {
    let Some(directory) = &examined.source.directory else { return Vec::new() };
    let root = directory.root();
    let named = |path: PathBuf| {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        (name, path)
    };
    let label = Some(root.join("backup_label")).filter(|path| path.symlink_metadata().is_ok());
    let buffer = examined.source.set.files.iter().map(|file| file.path().to_owned());
    let files = std::iter::once(root.join(CONTROL_PATH)).chain(label).chain(buffer).map(named);
    let total: u64 = examined.source.set.files.iter().map(crate::cluster::dwb_files::DwbFile::size_bytes).sum();
    let done = std::cell::Cell::new(0_u64);
    let go_on = |bytes: u64| -> ControlFlow<()> {
        done.set(done.get().saturating_add(bytes));
        watch.at(Stage::Read, done.get(), total)
    };
    files
        .map(|(name, path)| {
            let digest = match digest_file(&path, Links::Refuse, &go_on) {
                Ok(Some(digest)) => Ok(digest),
                Ok(None) => Err("not checked: reading was interrupted".to_owned()),
                Err(error) => Err(format!("not checked: {error}")),
            };
            (name, digest)
        })
        .collect()
}
