//! A whole check of a cluster, stage by stage: open, read the double write buffer, find files and names, open WAL, scan,
//! judge, and say what was found.

pub(super) mod commits;
mod links;
pub(super) mod made_in_replay;
mod prove;
mod ring;
mod scan;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

pub use crate::analysis::verdict::check::{Scope, Stage};

use self::links::{impossible_namers, link_findings, named_but_absent, settle};
use self::made_in_replay::settle_made;
use self::prove::{Prover, prove};
use self::ring::{of_ring, start_writes, wal_bytes};
use self::scan::{Scanned, scan};
use super::cluster_wal::{follow_timelines, open_donors, refuse_without_wal};
use super::dwb_source::DwbSource;
use super::error::{InspectError, open_data_dir};
use super::examination::Examination;
use super::next::not_a_crash_tear;
use super::rebuild::{BuiltPages, ReplayOptions, build};
use crate::analysis::changes::provable::PageHeads;
use crate::analysis::dwb::report::DwbReport;
use crate::analysis::dwb::slot_facts::{SlotRow, fill_in_verdicts};
use crate::analysis::dwb::slots::SlotRef;
use crate::analysis::error_words::ErrorWords;
use crate::analysis::in_order::all_cores;
use crate::analysis::pages::relation_files::RelationFiles;
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::analysis::start::backup::Backup;
use crate::analysis::start::belonging::{Belonging, BelongingInput};
use crate::analysis::start::cluster_condition::{
    CONTROL_CRC, CONTROL_SIZES, ClusterCondition, Obstacle, is_replayed, is_settled,
};
use crate::analysis::start::doubt::{Doubt, LsnWitness, NotRead};
use crate::analysis::start::replay::Replay;
use crate::analysis::start::server_files;
use crate::analysis::start::server_files::{ServerFiles, ServerFilesInput};
use crate::analysis::verdict::answer::needs_something;
use crate::analysis::verdict::case::Case;
use crate::analysis::verdict::check::{CheckReport, Found, Witnesses, check as judge_pages};
use crate::analysis::verdict::judge::Reason;
use crate::analysis::wal::last_checkpoint::LastCheckpoint;
use crate::cluster::backup_files::{MANIFEST_NAME, RecoverySigns};
use crate::cluster::data_dir::DataDir;
use crate::cluster::donor::Donor;
use crate::cluster::dwb_files::DwbFile;
use crate::cluster::names::RelationNames;
use crate::cluster::page_source::{PageSource, RelationPages};
use crate::cluster::wal::notes::CONTROL;
use crate::cluster::wal::{WalSet, WalSources};
use crate::inspect::verify::rules::{DAMAGED_PAGES, NAMES_INCOMPLETE};
use crate::output::escape::quoted;
use crate::repair::blocker::{Overrides, find_blockers};
use crate::report::{Finding, Severity};
use crate::types::{Lsn, PageId};

/// Which cluster is examined, and how much of it.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    /// Data directory of a stopped server.
    pub data_dir: PathBuf,
    /// Which pages are judged.
    pub scope: Scope,
    /// WAL from elsewhere: directories, segments, archives, patterns.
    pub wal: Vec<PathBuf>,
    /// Older copies of the cluster: base backups, snapshots, stopped standbys.
    pub donors: Vec<PathBuf>,
    /// Threads that read.
    pub jobs: usize,
    /// Keep a row for every slot, used or not.
    pub keep_slots: bool,
    /// Without checksums: build each page that can be built by replay, up to its own LSN, with this server, and compare it
    /// with the disk.
    pub prove: Option<ReplayOptions>,
    /// Build pages without a proven image by replay, with this server in a sandbox; nothing is started when `None`.
    pub rebuild: Option<ReplayOptions>,
}

impl CheckRequest {
    /// All pages of a cluster, with the WAL of its data directory and a thread for every core.
    pub fn of(data_dir: impl Into<PathBuf>) -> Self {
        let (data_dir, jobs) = (data_dir.into(), all_cores());
        let (wal, donors) = (Vec::new(), Vec::new());
        Self { data_dir, scope: Scope::All, wal, donors, jobs, keep_slots: false, prove: None, rebuild: None }
    }
}

/// Receiver of the progress of a check, which can interrupt it.
pub trait Watch: Sync {
    /// `done` of about `total` of this stage are done; 0 in all: not known.
    fn at(&self, stage: Stage, done: u64, total: u64) -> ControlFlow<()>;

    /// A page is damaged, which is known long before it is judged. Whether anything can be done about it is not known yet.
    fn found(&self, _: &KnownDamage<'_>) {}
}

/// A page that is damaged and not judged yet.
pub struct KnownDamage<'a> {
    /// Which page.
    pub page: PageId,
    /// Names of relations.
    pub names: &'a RelationNames,
    /// Blocks of its fork, damaged or not.
    pub blocks: u64,
}

impl Watch for () {
    fn at(&self, _: Stage, _: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Findings so far, and parts that could not be read.
struct Remarks {
    findings: Vec<Finding>,
    coverage: Coverage,
}

/// Opens and judges a data directory.
///
/// # Errors
/// When the path is not a data directory, or WAL that was named cannot be used.
pub fn check(request: &CheckRequest, watch: &dyn Watch) -> Result<Examination, InspectError> {
    let source = DwbSource::of_data_dir(open_data_dir(&request.data_dir)?);
    let Opened { mut case, mut slots, mut rows, mut donors, mut server_files, mut remarks } =
        open(&source, request, watch)?;
    let mut scanned = scan(&mut case, &mut slots, watch, &mut remarks);
    let belonging = belongs(&case, &mut scanned, &mut remarks);

    let options = request.prove.as_ref();
    let before = (remarks.findings.len(), remarks.coverage.clone());
    let (mut proofs, mut proof) = prove(&case, &slots, options, watch, &mut remarks);
    if let Some(cause) = proofs.diverged.take() {
        remarks.findings.truncate(before.0);
        remarks.coverage = before.1;
        remarks.findings.push(cause.rule().problem(cause.to_string()));
        scanned.incomplete.push(Doubt::NotOneCluster { cause: Box::new(cause) });
        (case.wal.all, case.wal.has_archive) = (None, false);
        (proofs, proof) = prove(&case, &slots, options, watch, &mut remarks);
    }
    settle(&Prover::new(&case, &slots, watch), &mut server_files, &mut scanned.links.broken, &mut remarks);
    let mut of_strangers = None;
    if let Some(cause) = proofs.strangers.take() {
        of_strangers = Some(Obstacle::Belonging);
        remarks.findings.push(cause.finding(&|page| case.files.locate(page), None));
        scanned.incomplete.push(Doubt::NotOneCluster { cause: Box::new(cause) });
    }
    remarks.findings.append(&mut server_files.findings);
    scanned.take_proofs(&proofs);

    let last_checkpoint = last_checkpoint(&case, &scanned, watch, &mut remarks.coverage);
    let newest_page = scanned.newest.map(|(lsn, _)| lsn);
    let (links, scanned_files) = (std::mem::take(&mut scanned.links), scanned.files);
    let unchecked = case.lacks_checksums();
    let named = named_but_absent(&links, unchecked, &|rel| case.names.has(rel));
    let impossible = if unchecked { impossible_namers(&links, &|rel| case.names.has(rel)) } else { BTreeMap::new() };
    let (found, cause) = start_writes(&case, watch, &mut remarks.coverage);
    remarks.findings.extend(found);
    let of_ring_strangers = cause.as_ref().map(|_| Obstacle::Belonging);
    scanned.incomplete.extend(cause.map(|cause| Doubt::NotOneCluster { cause: Box::new(cause) }));
    let obstacle = of_ring(&source, &case.dwb.staleness)
        .max(of_ring_strangers)
        .max(server_files.obstacle)
        .max(proofs.obstacle)
        .max(belonging.obstacle())
        .max(of_strangers);
    links::suspect_named(&named, &impossible, &mut scanned.suspects);
    let ask_all = || doubts_of_all(request, watch);
    let found = Found {
        witnesses: witnesses(&case, scanned.newest, scanned.files.is_some(), scanned.incomplete, &ask_all),
        suspects: scanned.suspects,
        zeroed: scanned.zeroed,
        named: &named,
        impossible: &impossible,
        proofs: &proofs,
        slots,
        obstacle,
        of_pages: &server_files.of_pages,
        coverage: remarks.coverage,
    };
    let mut report = judge(&case, &mut donors, found, watch);
    let made = settle_made(case.directory, &source.settings, (&case.names, &case.files.paths), &mut report);
    report.outlook.refused_by = case.server.refuses_start();

    let mut findings = remarks.findings;
    findings.extend(made);
    let (exists, locate) = (|rel| case.names.has(rel), |page| case.files.locate(page));
    findings.extend(link_findings(&links, &named, &report, unchecked, &exists, &locate));
    findings.extend(cluster_findings(&case, &report));
    if findings.iter().any(|finding| finding.is(&CONTROL_CRC) || finding.is(&CONTROL_SIZES)) {
        let own = case.directory.control_path().display().to_string();
        findings.retain(|finding| !(finding.is(&CONTROL) && finding.file.as_deref() == Some(&own)));
    }
    point_to_findings(&mut report, &findings, &case.files);
    let coverage = std::mem::take(&mut report.coverage);
    fill_in_verdicts(&mut rows, &case.dwb.staleness, &report.slots);
    let state = ClusterCondition::of(case.control, &case.server, &case.signs);
    let blockers = find_blockers(case.directory, Overrides::default());
    let links = case.directory.links().ok();
    let Case { names, files, wal, dwb, .. } = case;
    let mut examined = Examination {
        names,
        blocks: files.blocks(),
        block_size: files.block_size,
        paths: files.paths,
        wal,
        donors,
        evidence: evidence_of(request),
        report,
        dwb,
        rows,
        findings,
        coverage,
        state,
        links,
        blockers,
        scanned: scanned_files,
        proof,
        built: BuiltPages::default(),
        lacks_images: proofs.lacks_images,
        newest_page,
        last_checkpoint,
        source,
    };
    if let Some(options) = &request.rebuild {
        build(&mut examined, options, request, watch);
    }
    Ok(examined)
}

/// An opened cluster, and facts known before its pages are read.
struct Opened<'a> {
    case: Case<'a>,
    slots: Vec<SlotRef>,
    /// Every slot, if that was asked for.
    rows: Vec<SlotRow>,
    donors: Vec<Donor>,
    server_files: ServerFiles,
    remarks: Remarks,
}

/// Opens everything that a check reads, and reads what is small.
fn open<'a>(source: &'a DwbSource, request: &CheckRequest, watch: &dyn Watch) -> Result<Opened<'a>, InspectError> {
    let directory = source.directory.as_ref().ok_or(InspectError::NoDataDirectory)?;
    let (buffer, mut remarks) = read_buffer(source, request, watch);
    let BufferRead { dwb, slots, rows } = buffer;
    let files = RelationFiles::find(directory, &mut remarks.coverage, &mut remarks.findings);
    let names = read_names(directory, &mut remarks.findings);
    let control = directory.control().trusted();
    let (server, signs) = (directory.server_sign(), directory.recovery_signs());
    let replay = prediction(directory, &signs, source.set.is_of_built_server());
    let input = ServerFilesInput {
        directory,
        names: &names,
        paths: &files.paths,
        relations: &files.walk.files,
        replays: replay.recovery.replays(),
        is_settled: is_settled(control, &signs, &server),
        is_replayed: is_replayed(control, &signs, &server),
        signs: &signs,
    };
    let server_files = server_files::examine(input, &mut remarks.coverage);
    let mut donors = open_donors(&request.donors, directory, control)?;
    refuse_without_wal(&request.wal)?;
    let elsewhere: Vec<PathBuf> =
        request.wal.iter().cloned().chain(donors.iter().filter_map(Donor::wal_path)).collect();
    let copies = |done, total| watch.at(Stage::Wal, done, total);
    let of_cluster = (request.data_dir.as_path(), control, replay.redo_lsn);
    let told = (&mut remarks.findings, &mut remarks.coverage);
    let mut wal = WalSources::open(of_cluster, &elsewhere, told, &copies)?;
    wal.has_archive = !request.wal.is_empty();
    follow_timelines(&mut donors, control, &wal)?;
    let pages = RelationPages::new(directory.root(), files.paths.clone());
    let case = Case {
        scope: request.scope,
        jobs: request.jobs,
        will_rebuild: request.rebuild.is_some(),
        directory,
        control,
        server,
        signs,
        replay,
        has_checksums: control.is_some_and(|control| control.checksums.is_enforced()),
        lowest_wal_lsn: source.facts.lowest_wal_lsn,
        heads: PageHeads::new(pages.another(), files.block_size),
        files,
        pages,
        names,
        wal,
        dwb_set: &source.set,
        uses_dwb: source.uses_dwb(),
        applies_first: source.is_in_double_writes() && dwb.staleness.applies_first(),
        dwb,
    };
    Ok(Opened { case, slots, rows, donors, server_files, remarks })
}

/// The prediction of recovery before WAL is read. `has_ring`: there is a double write buffer of the kind whose servers have
/// to be built.
fn prediction(directory: &DataDir, signs: &RecoverySigns, has_ring: bool) -> Replay {
    let mut replay = Replay::of(directory.control(), signs);
    if has_ring && !directory.major().facts().keeps_ring && !replay.doubts.contains(&Doubt::LayoutNotSeen) {
        // A start may write slots into data files first, by rules that were never compared with a server.
        replay.doubts.push(Doubt::LayoutNotSeen);
    }
    replay
}

/// The last checkpoint in `pg_wal`, if `pg_control` is unusable.
fn last_checkpoint(
    case: &Case<'_>,
    scanned: &Scanned,
    watch: &dyn Watch,
    coverage: &mut Coverage,
) -> Option<LastCheckpoint> {
    // A file with an unknown version, or from another machine, must not be recreated.
    let is_lost = case.control.is_none() && case.replay.doubts.contains(&Doubt::ControlNotTrusted);
    let set = case.wal.own.as_ref().filter(|_| is_lost && case.signs.backup_label.is_none())?;
    let newest = scanned.newest.map(|(lsn, _)| lsn);
    LastCheckpoint::read(set, newest, case.jobs, &|_| watch.at(Stage::Wal, 0, 0)).unwrap_or_else(|error| {
        coverage.skip_once(SkippedPart::PgWal, error);
        None
    })
}

/// Whether the files belong together, as far as the control file can be trusted. What contradicts that is a doubt about all
/// pages.
fn belongs(case: &Case<'_>, scanned: &mut Scanned, remarks: &mut Remarks) -> Belonging {
    let belonging = case.control.map_or_else(Belonging::default, |control| {
        let input = BelongingInput {
            directory: case.directory,
            control,
            signs: &case.signs,
            server: &case.server,
            names: &case.names,
            files: &case.files.walk.files,
            archived: case.wal.all.as_ref().map_or(&[][..], WalSet::later_histories),
            newest: scanned.newest,
            counters: scanned.counters.clone(),
        };
        Belonging::examine(&input, &|page| case.files.locate(page))
    });
    if case.signs.fetches_histories && !case.wal.has_archive {
        scanned.incomplete.push(Doubt::HistoriesElsewhere);
    }
    remarks.findings.extend(belonging.findings.iter().cloned());
    if let Some(error) = &belonging.unread {
        remarks.coverage.skip(SkippedPart::file(MANIFEST_NAME), error);
    }
    let causes = belonging.contradictions.iter().cloned().map(Box::new);
    scanned.incomplete.extend(causes.map(|cause| Doubt::NotOneCluster { cause }));
    belonging
}

/// Additional evidence of a request, as arguments of a command.
fn evidence_of(request: &CheckRequest) -> String {
    let wal = request.wal.iter().map(|path| ("--wal", path));
    let donors = request.donors.iter().map(|path| ("--donor", path));
    let argument = |(option, path): (&str, &PathBuf)| format!(" {option} {}", quoted(&path.display().to_string()));
    let rebuild = request.rebuild.as_ref().map_or_else(String::new, ReplayOptions::rebuild_arguments);
    wal.chain(donors).map(argument).chain([rebuild]).collect()
}

/// The double write buffer, read slot by slot.
struct BufferRead {
    dwb: DwbReport,
    slots: Vec<SlotRef>,
    /// Every slot, if that was asked for.
    rows: Vec<SlotRow>,
}

fn read_buffer(source: &DwbSource, request: &CheckRequest, watch: &dyn Watch) -> (BufferRead, Remarks) {
    let (mut slots, mut rows) = (Vec::new(), Vec::new());
    let total_bytes: u64 = source.set.files.iter().map(DwbFile::size_bytes).sum();
    let (mut read_bytes, mut is_wanted) = (0, true);
    let (mut dwb, findings) = source.examine_slots(request.jobs, |file, facts| {
        read_bytes += source.set.files.get(file).map_or(0, |file| u64::from(file.detection.block_size));
        is_wanted &= watch.at(Stage::Read, read_bytes, total_bytes).is_continue();
        if is_wanted {
            if request.keep_slots {
                rows.push(SlotRow::of(file, facts));
            }
            slots.extend(SlotRef::of(file, facts));
        }
        // The buffer is judged as a whole also when the following part is interrupted.
        ControlFlow::Continue(())
    });
    slots.sort_unstable();
    let mut coverage = std::mem::take(&mut dwb.coverage);
    if !is_wanted {
        coverage.skip(SkippedPart::RestOfDoubleWriteBuffer, SkipReason::Interrupted(Lacking::Images));
    }
    (BufferRead { dwb, slots, rows }, Remarks { findings, coverage })
}

fn read_names(directory: &DataDir, findings: &mut Vec<Finding>) -> RelationNames {
    let (names, gaps) = RelationNames::read(directory);
    if let Some(first) = gaps.first() {
        findings
            .push(NAMES_INCOMPLETE.note(format!("gaps in the names of relations: {}, the first: {first}", gaps.len())));
    }
    names
}

/// Evidence about the end of WAL, from all pages or from whoever asks for them.
fn witnesses<'a>(
    case: &Case<'_>,
    newest: Option<(Lsn, PageId)>,
    all_read: bool,
    incomplete: Vec<Doubt>,
    ask_all: &'a dyn Fn() -> (Vec<Doubt>, Coverage),
) -> Witnesses<'a> {
    let witness_of = |page: PageId| LsnWitness::InFile {
        path: case.files.paths.path_and_block(page).0.display().to_string(),
        block: page.block,
    };
    if all_read {
        Witnesses::Known { newest: newest.map(|(lsn, page)| (lsn, witness_of(page))), doubts: incomplete }
    } else if case.scope == Scope::All {
        Witnesses::Known { newest: None, doubts: vec![Doubt::PagesNotRead { why: NotRead::PathsUnknown }] }
    } else {
        Witnesses::Ask(ask_all)
    }
}

fn judge(case: &Case<'_>, donors: &mut [Donor], found: Found<'_>, watch: &dyn Watch) -> CheckReport {
    let slot_bytes = (found.slots.len() * case.files.block_size) as u64;
    let wal_bytes = case.wal.own.as_ref().map_or(0, wal_bytes);
    judge_pages(case, donors, found, &|stage, done| {
        let total = match stage {
            Stage::Slots => slot_bytes,
            Stage::Wal => wal_bytes,
            Stage::Read | Stage::Scan | Stage::Proof | Stage::Pages | Stage::Replay => 0,
        };
        watch.at(stage, done, total)
    })
}

/// Doubts of a check of the whole cluster, for a check of a part.
fn doubts_of_all(request: &CheckRequest, watch: &dyn Watch) -> (Vec<Doubt>, Coverage) {
    // What an older copy has says nothing of the cluster.
    let (scope, donors, prove, rebuild) = (Scope::All, Vec::new(), None, None);
    let all = CheckRequest { scope, donors, prove, rebuild, keep_slots: false, ..request.clone() };
    match check(&all, watch) {
        Ok(examined) => (examined.report.replay.doubts, examined.coverage),
        Err(error) => {
            let why = NotRead::CheckFailed(ErrorWords::of_other(&error));
            (vec![Doubt::PagesNotRead { why }], Coverage::default())
        }
    }
}

/// Has pages that nothing is wrong with by themselves say so where a finding is about them.
fn point_to_findings(report: &mut CheckReport, findings: &[Finding], files: &RelationFiles) {
    for found in report.pages.iter_mut().filter(|found| !found.is_wrong) {
        let (file, offset) = files.locate(found.page);
        let is_of_page = |finding: &Finding| {
            finding.severity == Severity::Problem
                && finding.file.as_ref() == Some(&file)
                && finding.offset == Some(offset)
        };
        if findings.iter().any(is_of_page) {
            found.verdict.settle_in_order(Reason::SoundByItself);
        }
    }
}

/// Findings about the cluster in the whole, once its pages are judged.
fn cluster_findings(case: &Case<'_>, report: &CheckReport) -> Vec<Finding> {
    let mut findings = report.replay.backup.as_ref().map(Backup::findings).unwrap_or_default();
    // A page that was asked for is reported even when it is sound.
    let count = report.pages.iter().filter(|page| page.is_wrong).count();
    if count > 0 {
        let what = format!("damaged pages: {count}");
        findings.push(if report.pages.iter().any(needs_something) {
            DAMAGED_PAGES.problem(what)
        } else {
            DAMAGED_PAGES.note(what).because("replay or the server itself repairs them")
        });
    }
    let has_dwb = !case.dwb_set.files.is_empty();
    let not_torn = case.control.and_then(|control| not_a_crash_tear(control, &report.replay, &report.pages, has_dwb));
    findings.extend(not_torn);
    findings
}
