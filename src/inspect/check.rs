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
use self::prove::{ProofInput, prove};
use self::ring::{of_ring, start_writes};
use self::scan::{RelationFiles, Scanned, scan};
use super::cluster_wal::{WalSources, follow_timelines, open_donors, refuse_without_wal};
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
use crate::analysis::pages::page_links::BrokenLink;
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::analysis::start::backup::Backup;
use crate::analysis::start::belonging::{Belonging, BelongingInput};
use crate::analysis::start::cluster_condition::{
    CONTROL_CRC, CONTROL_SIZES, ClusterCondition, Obstacle, is_replayed, is_settled,
};
use crate::analysis::start::doubt::{Doubt, LsnWitness, NotRead};
use crate::analysis::start::replay::Replay;
use crate::analysis::start::server_files;
use crate::analysis::start::server_files::ServerFilesInput;
use crate::analysis::verdict::answer::needs_something;
use crate::analysis::verdict::check::{
    CheckInput, CheckReport, ClusterInput, DwbInput, NameInput, ScanInput, WalInput, Witnesses, check as judge_cluster,
};
use crate::analysis::verdict::judge::Reason;
use crate::analysis::verdict::rebuilt_proof::Proofs;
use crate::analysis::verdict::symptom::ImpossibleLinks;
use crate::analysis::wal::last_checkpoint::LastCheckpoint;
use crate::cluster::backup_files::{MANIFEST_NAME, RecoverySigns};
use crate::cluster::data_dir::DataDir;
use crate::cluster::donor::Donor;
use crate::cluster::dwb_files::DwbFile;
use crate::cluster::names::{RelationName, RelationNames};
use crate::cluster::page_source::{PageSource, RelationPages};
use crate::cluster::running::ServerSign;
use crate::cluster::wal::WalSet;
use crate::cluster::wal::notes::CONTROL;
use crate::inspect::verify::rules::{DAMAGED_PAGES, NAMES_INCOMPLETE};
use crate::output::escape::quoted;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::TimelineHistory;
use crate::repair::blocker::{Overrides, find_blockers};
use crate::report::{Finding, Severity};
use crate::types::{PageId, RelFileLocator};

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

struct Told {
    findings: Vec<Finding>,
    coverage: Coverage,
}

/// Opens and judges a data directory.
///
/// # Errors
/// When the path is not a data directory, or WAL that was named cannot be used.
pub fn check(request: &CheckRequest, watch: &dyn Watch) -> Result<Examination, InspectError> {
    let source = DwbSource::of_data_dir(open_data_dir(&request.data_dir)?);
    let directory = source.directory.as_ref().ok_or(InspectError::NoDataDirectory)?;
    let (buffer, mut told) = read_buffer(&source, request, watch);
    let BufferRead { dwb, mut slots, mut rows } = buffer;
    let files = RelationFiles::find(directory, &mut told.coverage, &mut told.findings);
    let names = read_names(directory, &mut told.findings);
    let mut cluster = Cluster::look_at(directory, source.set.is_of_built_server());
    let input = ServerFilesInput {
        directory,
        names: &names,
        paths: &files.paths,
        relations: &files.walk.files,
        replays: cluster.replay.recovery.replays(),
        is_settled: cluster.is_settled(),
        is_replayed: is_replayed(cluster.control, &cluster.signs, &cluster.server),
        signs: &cluster.signs,
    };
    let mut server_files = server_files::examine(input, &mut told.coverage);
    let Told { findings, coverage } = &mut told;
    let redo_lsn = cluster.replay.redo_lsn;
    let mut donors = open_donors(&request.donors, directory, cluster.control)?;
    refuse_without_wal(&request.wal)?;
    let elsewhere: Vec<PathBuf> =
        request.wal.iter().cloned().chain(donors.iter().filter_map(Donor::wal_path)).collect();
    let copies = |done, total| watch.at(Stage::Wal, done, total);
    let of_cluster = (request.data_dir.as_path(), cluster.control, redo_lsn);
    let mut wal = WalSources::open(of_cluster, &elsewhere, (findings, coverage), &copies)?;
    wal.has_archive = !request.wal.is_empty();
    follow_timelines(&mut donors, cluster.control, &wal)?;
    let pages = RelationPages::new(directory.root(), files.paths.clone());
    let heads = PageHeads::new(pages.another(), files.block_size);
    let mut scanned = scan(&mut cluster, (&files, &names, &heads), &mut slots, request, watch, &mut told);

    let later = wal.all.as_ref().map_or(&[][..], WalSet::later_histories);
    let belonging = belongs(&cluster, (&files, &names), &scanned, later);
    if cluster.signs.fetches_histories && !wal.has_archive {
        scanned.incomplete.push(Doubt::HistoriesElsewhere);
    }
    told.findings.extend(belonging.findings.iter().cloned());
    if let Some(error) = &belonging.unread {
        told.coverage.skip(SkippedPart::file(MANIFEST_NAME), error);
    }
    let causes = belonging.contradictions.iter().cloned().map(Box::new);
    scanned.incomplete.extend(causes.map(|cause| Doubt::NotOneCluster { cause }));

    let mut input = ProofInput {
        cluster: &cluster,
        files: &files,
        heads: &heads,
        names: &names,
        wal: &wal,
        own_only: false,
        dwb: &source.set,
        slots: &slots,
        scope: request.scope,
        options: request.prove.as_ref(),
        jobs: request.jobs,
        watch,
    };
    let before = (told.findings.len(), told.coverage.clone());
    let (mut proofs, mut proof) = prove(&input, &mut told);
    if let Some(cause) = proofs.diverged.take() {
        told.findings.truncate(before.0);
        told.coverage = before.1;
        told.findings.push(cause.rule().problem(cause.to_string()));
        scanned.incomplete.push(Doubt::NotOneCluster { cause: Box::new(cause) });
        input.own_only = true;
        (proofs, proof) = prove(&input, &mut told);
    }
    settle(&input, &mut server_files, &mut scanned.links.broken, &mut told);
    let mut of_strangers = None;
    if let Some(cause) = proofs.strangers.take() {
        of_strangers = Some(Obstacle::Belonging);
        told.findings.push(cause.finding(&|page| files.locate(page), None));
        scanned.incomplete.push(Doubt::NotOneCluster { cause: Box::new(cause) });
    }
    if input.own_only {
        (wal.all, wal.has_archive) = (None, false);
    }
    told.findings.append(&mut server_files.findings);
    scanned.take_proofs(&proofs);

    let watched = (request.jobs, watch);
    let last_checkpoint = last_checkpoint(&cluster, wal.own.as_ref(), &scanned, watched, &mut told.coverage);
    let newest_page = scanned.newest.map(|(lsn, _)| lsn);
    let (links, scanned_files) = (std::mem::take(&mut scanned.links), scanned.files);
    let has_name = |rel| names.get(rel).is_some_and(RelationName::is_certain);
    let unchecked = cluster.lacks_checksums();
    let named = named_but_absent(&links, unchecked, &has_name);
    let impossible = if unchecked { impossible_namers(&links, &has_name) } else { BTreeMap::new() };
    let (found, cause) = start_writes(
        cluster.replay.redo_lsn,
        (&pages, files.block_size),
        &dwb.staleness,
        wal.own.as_ref(),
        watched,
        &mut told.coverage,
    );
    told.findings.extend(found);
    let of_ring_strangers = cause.as_ref().map(|_| Obstacle::Belonging);
    scanned.incomplete.extend(cause.map(|cause| Doubt::NotOneCluster { cause: Box::new(cause) }));
    let view = JudgedView {
        pages: &pages,
        source: &source,
        dwb: &dwb,
        wal: &wal,
        names: &names,
        files: &files,
        named: &named,
        impossible: &impossible,
        proofs: &proofs,
        obstacle: of_ring(&source, &dwb.staleness)
            .max(of_ring_strangers)
            .max(server_files.obstacle)
            .max(proofs.obstacle)
            .max(belonging.obstacle())
            .max(of_strangers),
        of_pages: &server_files.of_pages,
    };
    let mut report = judge(&cluster, &view, scanned, slots, &mut donors, told.coverage, request, watch);
    let made = settle_made(directory, &source.settings, (&names, &files.paths), &mut report);
    report.outlook.refused_by = cluster.server.refuses_start();

    let mut findings = told.findings;
    findings.extend(made);
    findings.extend(link_findings(&links, &named, &report, unchecked, &has_name, &|page| files.locate(page)));
    findings.extend(cluster_findings(&cluster, &report, &source));
    if findings.iter().any(|finding| finding.is(&CONTROL_CRC) || finding.is(&CONTROL_SIZES)) {
        let own = directory.control_path().display().to_string();
        findings.retain(|finding| !(finding.is(&CONTROL) && finding.file.as_deref() == Some(&own)));
    }
    point_to_findings(&mut report, &findings, &files);
    let coverage = std::mem::take(&mut report.coverage);
    fill_in_verdicts(&mut rows, &dwb.staleness, &report.slots);
    let state = ClusterCondition::of(cluster.control, &cluster.server, &cluster.signs);
    let blocks = files.blocks();
    let (paths, block_size) = (files.paths, files.block_size);
    let scanned = scanned_files;
    let blockers = find_blockers(directory, Overrides::default());
    let links = directory.links().ok();
    let mut examined = Examination {
        source,
        names,
        paths,
        wal,
        donors,
        evidence: evidence_of(request),
        report,
        dwb,
        rows,
        findings,
        coverage,
        block_size,
        state,
        links,
        blockers,
        blocks,
        scanned,
        proof,
        built: BuiltPages::default(),
        lacks_images: proofs.lacks_images,
        newest_page,
        last_checkpoint,
    };
    if let Some(options) = &request.rebuild {
        build(&mut examined, options, request, watch);
    }
    Ok(examined)
}

/// The last checkpoint in `pg_wal`, if `pg_control` is unusable.
fn last_checkpoint(
    cluster: &Cluster<'_>,
    own: Option<&WalSet>,
    scanned: &Scanned,
    (jobs, watch): (usize, &dyn Watch),
    coverage: &mut Coverage,
) -> Option<LastCheckpoint> {
    // A file with an unknown version, or from another machine, must not be recreated.
    let is_lost = cluster.control.is_none() && cluster.replay.doubts.contains(&Doubt::ControlNotTrusted);
    let set = own.filter(|_| is_lost && cluster.signs.backup_label.is_none())?;
    let newest = scanned.newest.map(|(lsn, _)| lsn);
    LastCheckpoint::read(set, newest, jobs, &|_| watch.at(Stage::Wal, 0, 0)).unwrap_or_else(|error| {
        coverage.skip_once(SkippedPart::PgWal, error);
        None
    })
}

/// Whether the files belong together, as far as the control file can be trusted.
fn belongs(
    cluster: &Cluster<'_>,
    (files, names): (&RelationFiles, &RelationNames),
    scanned: &Scanned,
    archived: &[TimelineHistory],
) -> Belonging {
    let Some(control) = cluster.control else { return Belonging::default() };
    let input = BelongingInput {
        directory: cluster.directory,
        control,
        signs: &cluster.signs,
        server: &cluster.server,
        names,
        files: &files.walk.files,
        archived,
        newest: scanned.newest,
        counters: scanned.counters.clone(),
    };
    Belonging::examine(&input, &|page| files.locate(page))
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

fn read_buffer(source: &DwbSource, request: &CheckRequest, watch: &dyn Watch) -> (BufferRead, Told) {
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
    (BufferRead { dwb, slots, rows }, Told { findings, coverage })
}

fn read_names(directory: &DataDir, findings: &mut Vec<Finding>) -> RelationNames {
    let (names, gaps) = RelationNames::read(directory);
    if let Some(first) = gaps.first() {
        findings
            .push(NAMES_INCOMPLETE.note(format!("gaps in the names of relations: {}, the first: {first}", gaps.len())));
    }
    names
}

/// The state of the cluster, as it is found before its pages are read.
struct Cluster<'a> {
    directory: &'a DataDir,
    /// The control file, if it can be trusted.
    control: Option<&'a ControlFile>,
    server: ServerSign,
    signs: RecoverySigns,
    /// Prediction of recovery, as far as it is known before WAL is read.
    replay: Replay,
    /// Pages have checksums that are enforced, by `pg_control` or by the pages themselves.
    has_checksums: bool,
}

impl<'a> Cluster<'a> {
    /// `has_ring`: it has a double write buffer of the kind whose servers have to be built.
    fn look_at(directory: &'a DataDir, has_ring: bool) -> Self {
        let control = directory.control().trusted();
        let (server, signs) = (directory.server_sign(), directory.recovery_signs());
        let mut replay = Replay::of(directory.control(), &signs);
        if has_ring && !directory.major().facts().keeps_ring && !replay.doubts.contains(&Doubt::LayoutNotSeen) {
            // A start may write slots into data files first, by rules that were never compared with a server.
            replay.doubts.push(Doubt::LayoutNotSeen);
        }
        let has_checksums = control.is_some_and(|control| control.checksums.is_enforced());
        Self { directory, control, server, signs, replay, has_checksums }
    }

    /// A server was stopped in it or crashed; no recovery, standby or backup, whose catalogs may be older than its files.
    fn is_settled(&self) -> bool {
        is_settled(self.control, &self.signs, &self.server)
    }

    /// Pages that look sound are whole: without checksums a page may be torn, which replay heals.
    fn has_whole_pages(&self) -> bool {
        self.has_checksums || !self.replay.recovery.replays()
    }

    /// Pages carry no checksums that are enforced.
    fn lacks_checksums(&self) -> bool {
        self.control.is_some() && !self.has_checksums
    }
}

/// Facts read before the pages are judged.
struct JudgedView<'a> {
    pages: &'a RelationPages,
    source: &'a DwbSource,
    dwb: &'a DwbReport,
    wal: &'a WalSources,
    names: &'a RelationNames,
    files: &'a RelationFiles,
    named: &'a BTreeMap<PageId, Vec<BrokenLink>>,
    impossible: &'a BTreeMap<PageId, ImpossibleLinks>,
    proofs: &'a Proofs,
    obstacle: Option<Obstacle>,
    of_pages: &'a [(PageId, Obstacle)],
}

#[allow(clippy::too_many_arguments, reason = "the results of the earlier stages, combined only here")]
fn judge(
    cluster: &Cluster<'_>,
    view: &JudgedView<'_>,
    scanned: Scanned,
    slots: Vec<SlotRef>,
    donors: &mut [Donor],
    coverage: Coverage,
    request: &CheckRequest,
    watch: &dyn Watch,
) -> CheckReport {
    let &JudgedView { pages, source, dwb, wal, names, files, named, impossible, proofs, obstacle, of_pages } = view;
    let exists = |rel| names.get(rel).is_some_and(RelationName::is_certain);
    let called = |rel: RelFileLocator| names.full_name(rel).unwrap_or_else(|| rel.to_string());
    let witness_of = |page: PageId| LsnWitness::InFile {
        path: files.paths.path_and_block(page).0.display().to_string(),
        block: page.block,
    };
    let ask_all = || doubts_of_all(request, watch);
    let slot_bytes = (slots.len() * files.block_size) as u64;
    let wal_bytes =
        wal.own.as_ref().map_or(0, |set| set.segments().len() as u64 * u64::from(set.geometry().wal_segment_size));
    let witnesses = if scanned.files.is_some() {
        let newest = scanned.newest.map(|(lsn, page)| (lsn, witness_of(page)));
        Witnesses::Known { newest, doubts: scanned.incomplete }
    } else if request.scope == Scope::All {
        Witnesses::Known { newest: None, doubts: vec![Doubt::PagesNotRead { why: NotRead::PathsUnknown }] }
    } else {
        Witnesses::Ask(&ask_all)
    };
    let mut suspects = scanned.suspects;
    links::suspect_named(named, impossible, &mut suspects);
    let input = CheckInput {
        jobs: request.jobs,
        scope: request.scope,
        cluster: ClusterInput {
            control: cluster.control,
            has_checksums: cluster.has_checksums,
            replay: &cluster.replay,
            lowest_wal_lsn: source.facts.lowest_wal_lsn,
            pages,
            block_size: files.block_size,
            may_be_running: cluster.server.may_be_running(),
            uses_dwb: source.uses_dwb(),
            applies_first: source.is_in_double_writes() && dwb.staleness.applies_first(),
            obstacle,
            of_pages,
        },
        dwb: DwbInput { set: &source.set, staleness: &dwb.staleness, slots },
        wal: WalInput {
            own: wal.own.as_ref(),
            unknown_versions: &wal.unknown_versions,
            denied: &wal.denied,
            marks: &wal.marks,
            all: wal.all.as_ref(),
        },
        donors,
        scan: ScanInput { suspects, zeroed: scanned.zeroed, named, impossible, witnesses, proofs },
        names: NameInput { exists: &exists, called: &called, table_of: &|rel| names.table_of(rel) },
        will_rebuild: request.rebuild.is_some(),
        coverage,
    };
    judge_cluster(input, &|stage, done| {
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
fn cluster_findings(cluster: &Cluster<'_>, report: &CheckReport, source: &DwbSource) -> Vec<Finding> {
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
    let has_dwb = !source.set.files.is_empty();
    let not_torn =
        cluster.control.and_then(|control| not_a_crash_tear(control, &report.replay, &report.pages, has_dwb));
    findings.extend(not_torn);
    findings
}
