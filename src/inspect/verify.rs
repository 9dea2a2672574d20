//! Every page of every relation file, judged by itself; and, where that is asked for, what replay makes of the damaged ones.

mod plan;
mod replay;
pub(crate) mod rules;
mod tar;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use self::replay::ReplaySummary;

use self::plan::{LazyNames, link_findings, paths_of};
use self::replay::{HeldPage, MAX_DAMAGED, ReplayCluster, ReplayWal, beyond_room};
use super::error::{InspectError, open_data_dir};
use super::file_filter::{FileFilter, Selection};
use crate::analysis::changes::provable::PageHeads;
use crate::analysis::pages::checksum_witness::ChecksumWitness;
use crate::analysis::pages::other_kind::KindWitness;
use crate::analysis::pages::page_check::{PageCondition, PageDamage};
use crate::analysis::pages::page_scan::{PageCounts, PageScan, ScanOptions, scan_pages};
use crate::analysis::pages::relation_files::{ChecksumRule, PageRules};
use crate::analysis::pages::segment_check::segment_findings;
use crate::analysis::pages::table_links::TableLinkInput;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::analysis::start::belonging::{Belonging, BelongingInput, CounterWitness};
use crate::analysis::start::cluster_condition::{ClusterCondition, inspect_directory, is_replayed, is_settled};
use crate::analysis::start::replay::Replay;
use crate::analysis::start::server_files;
use crate::analysis::start::server_files::ServerFilesInput;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::fate::ReplayFate;
use crate::cluster::backup_files::{MANIFEST_NAME, RecoverySigns};
use crate::cluster::control_file::has_checkpoint;
use crate::cluster::data_dir::{DataDir, encryption_keys};
use crate::cluster::names::RelationNames;
use crate::cluster::page_source::RelationPages;
use crate::cluster::relation_walk::{RelationFile, relations_of};
use crate::cluster::running::ServerSign;
use crate::cluster::tar_backup::TarBackup;
use crate::parsers::control::{ChecksumState, ControlFile, DbState};
use crate::report::Finding;
use crate::types::{ForkNumber, Lsn, PageId, RelFileLocator};

/// Whose pages are judged.
#[derive(Clone, Debug)]
pub struct VerifyRequest {
    /// Data directory.
    pub data_dir: PathBuf,
    /// Which of its files.
    pub files: FileFilter,
    /// Threads that read.
    pub jobs: usize,
    /// Say of each damaged page what replay makes of it, by the WAL of the data directory and that in these paths.
    pub replay: Option<Vec<PathBuf>>,
}

/// Told the bytes that are done and those in all, from all threads; breaks reading off.
pub(crate) type WatchBytes<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// Shown each damaged page, file by file; breaks reading off.
pub(crate) type VisitDamaged<'a> = &'a mut dyn FnMut(&DamagedPage<'_>) -> ControlFlow<()>;

/// A damaged page.
#[derive(Debug)]
pub struct DamagedPage<'a> {
    /// Which page it is.
    pub page: PageId,
    /// Its file, relative to the data directory.
    pub path: &'a str,
    /// Where it starts in the file.
    pub offset: u64,
    /// The damage.
    pub damage: &'a PageDamage,
    /// Name of its relation, where it is known.
    pub relation: Option<String>,
    /// Name of its database, where it is known.
    pub database: Option<String>,
    /// The relation is unlogged: recovery after a crash empties it.
    pub is_unlogged: bool,
    /// Bytes that are there of a page that its file ends inside of.
    pub have_bytes: Option<usize>,
    /// Its fate in recovery, if requested.
    pub fate: Option<&'a ReplayFate>,
}

/// The result apart from the list of pages.
#[derive(Debug)]
pub struct VerifyReport {
    /// Data directory as given.
    pub data_dir: PathBuf,
    /// Condition of the cluster.
    pub condition: ClusterCondition,
    /// State of data checksums; `None` without a control file to trust.
    pub checksums: Option<ChecksumState>,
    /// Files that were selected.
    pub files: u64,
    /// Files with damaged pages.
    pub damaged_files: u64,
    /// Counts; wrong checksums that are not judged do not count as damage here.
    pub counts: PageCounts,
    /// Pages with a wrong checksum where that is not judged.
    pub checksums_not_judged: Option<u64>,
    /// Files that end inside a page.
    pub partial_pages: u64,
    /// Damaged pages of unlogged relations.
    pub unlogged: u64,
    /// Fate of damaged pages in recovery, if requested.
    pub replay: Option<ReplaySummary>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// Coverage.
    pub coverage: Coverage,
    /// The answer from findings and coverage; pages that are written while they are read prove nothing about later.
    pub answer: Answer,
}

struct Plan<'a> {
    kinds: Option<&'a KindWitness<'a>>,
    checksum_witness: Option<&'a ChecksumWitness>,
    jobs: usize,
    files: &'a [RelationFile],
    page_rules: &'a PageRules,
    read_again: bool,
    unlogged: &'a HashSet<RelFileLocator>,
    links_at: Option<Lsn>,
    /// Bytes of WAL that are read afterwards.
    wal_bytes: u64,
}

enum Subject {
    Directory(DataDir, LazyNames),
    Archives(TarBackup),
}

/// A data directory, or a base backup in tar format, whose files are about to be read.
pub struct Verification<'a> {
    request: &'a VerifyRequest,
    subject: Subject,
}

impl<'a> Verification<'a> {
    /// Opens what was named, and refuses names that match no relation or several.
    ///
    /// # Errors
    /// When the path is neither a data directory nor a base backup, or a requested part is missing.
    pub fn open(request: &'a VerifyRequest) -> Result<Self, InspectError> {
        let path = &request.data_dir;
        let subject = match open_data_dir(path) {
            Ok(directory) => {
                let mut names = LazyNames::default();
                if request.files.needs_names() {
                    request.files.confirm(names.read(&directory))?;
                }
                Subject::Directory(directory, names)
            }
            Err(InspectError::TarBackup(backup)) => Subject::Archives(*backup),
            Err(error) => Subject::Archives(TarBackup::of_file(path).ok_or(error)?),
        };
        Ok(Self { request, subject })
    }

    /// Reads and judges everything that is asked for.
    ///
    /// # Errors
    /// When a name matches no relation or several, or an archive holds no data directory.
    pub fn run(self, watch: WatchBytes<'_>, visit: VisitDamaged<'_>) -> Result<VerifyReport, InspectError> {
        let mut report = match self.subject {
            Subject::Directory(directory, names) => {
                DirectoryVerification { request: self.request, directory, names }.read(watch, visit)?
            }
            Subject::Archives(backup) => tar::read(self.request, &backup, watch, visit)?,
        };
        report.answer = report.answer.max(Answer::of_findings(&report.findings, &report.coverage));
        Ok(report)
    }
}

/// A data directory whose files are about to be read.
struct DirectoryVerification<'a> {
    request: &'a VerifyRequest,
    directory: DataDir,
    names: LazyNames,
}

impl<'a> DirectoryVerification<'a> {
    fn read(mut self, watch: WatchBytes<'_>, visit: VisitDamaged<'_>) -> Result<VerifyReport, InspectError> {
        let directory = &self.directory;
        let (server, signs) = (directory.server_sign(), directory.recovery_signs());
        let mut coverage = Coverage::default();
        let mut findings = inspect_directory(directory, &server, &signs, &mut coverage);
        let walk = relations_of(directory);
        for error in &walk.skipped {
            coverage.skip(SkippedPart::RelationFiles, error);
        }
        if let Some(keys) = encryption_keys(directory) {
            coverage.skip(SkippedPart::RelationFiles, SkipReason::MayBeEncrypted { keys });
        }
        let selection = self.select(&walk.files, &mut coverage)?;
        let directory = &self.directory;
        let control = directory.control().trusted();
        let files: Vec<RelationFile> = walk.files.iter().filter(|file| selection.takes(file)).cloned().collect();
        let page_rules = PageRules::of(directory, &walk.files, &mut coverage, &mut findings);
        let mut report = VerifyReport::begin(directory, &server, &signs, findings, coverage);
        report.files = files.len() as u64;
        let Some(page_rules) = page_rules else { return Ok(report) };
        let is_clean = is_clean(directory, &signs);
        let more_wal = self.request.replay.as_deref();
        if !is_clean && control.is_some() && !server.may_be_running() && more_wal.is_none() {
            report.findings.push(rules::NOT_SHUT_DOWN.note("the cluster was not shut down cleanly"));
        }
        if page_rules.by_control {
            report.findings.extend(segment_findings(&walk.files, page_rules.geometry, |file| selection.takes(file)));
        }
        let unlogged = unlogged(&walk.files);
        let redo_lsn = Replay::of(directory.control(), &signs).redo_lsn;
        let mut cluster = ReplayCluster {
            control: directory.control(),
            signs: &signs,
            may_be_running: server.may_be_running(),
            newest: None,
            jobs: self.request.jobs,
            is_archived: false,
        };
        let own = [self.request.data_dir.clone()];
        let open = |more: &[PathBuf], cluster: &ReplayCluster<'_>, report: &mut VerifyReport| {
            ReplayWal::open(&own, more, cluster, &mut report.findings, &mut report.coverage)
        };
        let wal = more_wal.map(|more| open(more, &cluster, &mut report)).transpose()?;
        let witness = ChecksumWitness::of(control, directory.major(), is_settled(control, &signs, &server));
        // Of a running server the files may be older than its catalogs.
        let names = if server.may_be_running() { RelationNames::default() } else { RelationNames::read(directory).0 };
        let kinds = KindWitness::new(&names);
        // Without checksums a page may be torn, which replay heals.
        let is_whole = page_rules.checksums == ChecksumRule::Damage || is_clean;
        let plan = Plan {
            kinds: is_whole.then_some(&kinds),
            checksum_witness: witness.as_ref(),
            jobs: self.request.jobs,
            files: &files,
            page_rules: &page_rules,
            read_again: server.may_be_running(),
            unlogged: &unlogged,
            links_at: redo_lsn.filter(|_| !server.may_be_running()),
            wal_bytes: wal.as_ref().map_or(0, |wal| wal.bytes_from(redo_lsn)),
        };
        let mut held = Held { pages: wal.is_some().then(Vec::new), beyond: 0 };
        let mut shown = Shown { directory, names: &mut self.names, plan: &plan, visit };
        let counters = control.filter(|_| !server.may_be_running() && signs.backup_label.is_none());
        let counters = CounterWitness::of(directory, counters, &names, is_whole);
        let mut scan = scan(directory, watch, &mut shown, &counters, &mut held, &mut report);
        report.findings.extend(witness.as_ref().and_then(ChecksumWitness::finding));
        cluster.newest = scan.counts.newest.map(|(lsn, page)| (lsn, plan.witness(page)));
        let healed_cuts = show_held(&mut shown, held, &scan, wal.as_ref().zip(Some(&cluster)), watch, &mut report);
        if let Some(control) = control.filter(|_| self.request.files.takes_all()) {
            let input = BelongingInput {
                directory,
                control,
                signs: &signs,
                server: &server,
                names: shown.names.read(directory),
                files: &walk.files,
                archived: &[],
                newest: scan.counts.newest,
                counters: counters.finish(),
            };
            let belonging = Belonging::examine(&input, &|page| plan.locate(page));
            report.findings.extend(belonging.findings);
            if let Some(error) = belonging.unread {
                report.coverage.skip(SkippedPart::file(MANIFEST_NAME), error);
            }
            let is_asked = signs.backup_label.is_none() && !server.may_be_running();
            if is_asked && has_checkpoint(directory.root(), control) == Some(false) {
                report.findings.push(
                    rules::CHECKPOINT_MISSING
                        .problem(format!(
                            "the checkpoint that pg_control refers to, at {}, is missing",
                            control.checkpoint_lsn
                        ))
                        .in_file("pg_wal"),
                );
            }
        }
        if let Some(redo_lsn) = plan.links_at.filter(|_| !scan.reach.is_empty()) {
            let input = TableLinkInput {
                root: directory.root(),
                files: &walk.files,
                geometry: page_rules.geometry,
                checksums: page_rules.checksums == ChecksumRule::Damage,
                names: self.names.read(directory),
                redo_lsn,
                is_settled: is_clean,
                only_marks: !is_clean,
                was_stopped: control.is_some_and(ControlFile::was_shut_down),
            };
            input.add_to(&mut scan, &mut report.coverage);
        }
        let found = link_findings(directory, &mut self.names, &scan, page_rules.geometry);
        report.findings.extend(found);
        if !server.may_be_running() && self.request.files.takes_all() {
            let names = self.names.read(directory);
            let paths = paths_of(directory, page_rules.geometry);
            let input = ServerFilesInput {
                directory,
                names,
                paths: &paths,
                relations: &walk.files,
                replays: !is_clean,
                is_settled: is_settled(control, &signs, &server),
                is_replayed: is_replayed(control, &signs, &server),
                signs: &signs,
            };
            let mut found = server_files::examine(input, &mut report.coverage);
            if let Some(first) = found.unless_removed.first() {
                let path = paths.path_and_block(first.page).0.display().to_string();
                let count = found.unless_removed.len();
                let pages = RelationPages::new(directory.root(), paths.clone());
                let heads = PageHeads::new(Box::new(pages), page_rules.geometry.block_size as usize);
                let own_wal = wal.is_none().then(|| open(&[], &cluster, &mut report)).transpose()?;
                let known = wal.as_ref().or(own_wal.as_ref()).zip(redo_lsn);
                let watched = (watch, plan.total_bytes());
                let is_settled = known.is_some_and(|(wal, redo_lsn)| {
                    wal.settle(&mut found, &cluster, (redo_lsn, &heads), watched, &mut report.coverage)
                });
                if !is_settled {
                    report.coverage.skip(SkippedPart::file(path), SkipReason::UnlessWalRemoves { count });
                }
            }
            report.findings.extend(found.findings);
        }
        report.findings.extend(kinds.findings(|page| plan.locate(page)));
        report.conclude(&scan, &plan, &healed_cuts, is_clean);
        let gaps = self.names.gaps().iter().map(|gap| rules::NAMES.note(gap.to_string()));
        report.findings.extend(gaps);
        Ok(report)
    }

    fn select(&mut self, files: &[RelationFile], coverage: &mut Coverage) -> Result<Selection<'a>, InspectError> {
        let filter = &self.request.files;
        let names = filter.needs_names().then(|| self.names.read(&self.directory));
        Selection::new(filter, self.directory.root(), files, names, coverage)
    }
}

/// Shows damaged pages to the caller, with the names of their relations.
struct Shown<'a> {
    directory: &'a DataDir,
    names: &'a mut LazyNames,
    plan: &'a Plan<'a>,
    visit: VisitDamaged<'a>,
}

impl Shown<'_> {
    fn show(&mut self, held: &HeldPage, fate: Option<&ReplayFate>) -> ControlFlow<()> {
        let path = self.plan.path_of(held.file);
        let relation = self.names.of(self.directory, held.page.rel);
        let database = self.names.database_of(self.directory, held.page.rel);
        (self.visit)(&DamagedPage {
            page: held.page,
            path: &path,
            offset: held.offset,
            damage: &held.damage,
            relation,
            database,
            is_unlogged: held.is_unlogged,
            have_bytes: held.have_bytes,
            fate,
        })
    }
}

/// Results of a scan for the comparison with WAL.
struct Held {
    /// Damaged pages, if they are kept.
    pages: Option<Vec<HeldPage>>,
    /// Pages that were shown at once, since there was no more room.
    beyond: u64,
}

/// Reads and counts; shows each damaged page, or holds it.
fn scan(
    directory: &DataDir,
    watch: WatchBytes<'_>,
    shown: &mut Shown<'_>,
    counters: &CounterWitness,
    held: &mut Held,
    report: &mut VerifyReport,
) -> PageScan {
    let plan = shown.plan;
    let (done, interrupted) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = plan.total_bytes();
    let options = ScanOptions {
        jobs: plan.jobs,
        checksums: plan.page_rules.checksums != ChecksumRule::Off,
        geometry: plan.page_rules.geometry,
        read_again: plan.read_again,
        interrupted: &interrupted,
        look: &|page, bytes| {
            plan.kinds.inspect(|kinds| kinds.look(page, bytes));
            plan.checksum_witness.inspect(|witness| witness.look(page.block, bytes));
            counters.look(page, bytes);
        },
        links_at: plan.links_at,
        progress: &|bytes| {
            let before = done.fetch_add(bytes, Ordering::Relaxed);
            if watch(before.saturating_add(bytes), total).is_break() {
                interrupted.store(true, Ordering::Relaxed);
            }
        },
    };
    let counted = plan.is_counted();
    let (mut is_wanted, mut last_file) = (true, None);
    let (mut structural, mut rejected) = (0, 0);
    let (mut damaged_files, mut unlogged_pages) = (0, 0);
    let scan = scan_pages(directory.root(), plan.files, &options, &mut report.coverage, |bad| {
        if !is_wanted {
            return;
        }
        // Judged again as if there were no checksums, where a wrong one proves nothing.
        let damage = if counted {
            match PageCondition::of(&bad.bytes, bad.page.fork, bad.page.block, false) {
                PageCondition::Damaged(damage) => *damage,
                PageCondition::Sound | PageCondition::Zeroed => return,
            }
        } else {
            bad.damage
        };
        structural += 1;
        rejected += u64::from(damage.server_rejects);
        if last_file.replace(bad.file) != Some(bad.file) {
            damaged_files += 1;
        }
        let page = HeldPage {
            file: bad.file,
            page: bad.page,
            offset: bad.offset,
            damage,
            have_bytes: None,
            lsn: HeldPage::lsn_in(&bad.bytes),
            is_zero: false,
            is_unlogged: plan.is_unlogged(bad.page),
        };
        unlogged_pages += u64::from(page.is_unlogged);
        let beyond = match &mut held.pages {
            Some(pages) if pages.len() < MAX_DAMAGED => return pages.push(page),
            Some(_) => Some(beyond_room()),
            None => None,
        };
        held.beyond += u64::from(beyond.is_some());
        if shown.show(&page, beyond.as_ref()).is_break() {
            is_wanted = false;
            interrupted.store(true, Ordering::Relaxed);
        }
    });
    (report.damaged_files, report.unlogged) = (damaged_files, unlogged_pages);
    report.count(&scan, counted.then_some((structural, rejected)));
    scan
}

/// Shows what was held, with what WAL says of it where that was asked for, and counts. Gives the files whose cut page is
/// healed.
fn show_held(
    shown: &mut Shown<'_>,
    held: Held,
    scan: &PageScan,
    wal: Option<(&ReplayWal, &ReplayCluster<'_>)>,
    watch: WatchBytes<'_>,
    report: &mut VerifyReport,
) -> HashSet<usize> {
    let plan = shown.plan;
    let mut healed_cuts = HashSet::new();
    let Some(mut pages) = held.pages else { return healed_cuts };
    if wal.is_some() {
        pages.extend(scan.partial_pages.iter().map(|partial| plan.cut_page(partial)));
    }
    pages.sort_by_key(|page| (page.file, page.offset));
    let Some((wal, cluster)) = wal else {
        for page in &pages {
            if shown.show(page, None).is_break() {
                break;
            }
        }
        return healed_cuts;
    };
    let bytes = (plan.file_bytes(), plan.total_bytes());
    let judged = wal.judge(cluster, &pages, &|file| plan.path_of(file), bytes, watch, &mut report.coverage);
    let mut summary = ReplaySummary::of(&judged.replay);
    summary.unknown = held.beyond;
    let mut is_wanted = true;
    for (page, fate) in pages.iter().zip(&judged.fates) {
        summary.add(fate);
        if page.have_bytes.is_some() && matches!(fate, ReplayFate::Healed(_)) {
            healed_cuts.insert(page.file);
        }
        is_wanted = is_wanted && shown.show(page, Some(fate)).is_continue();
    }
    report.findings.extend(judged.findings());
    if summary.unknown > 0 {
        report.answer = report.answer.max(Answer::Uncertain);
    }
    report.replay = Some(summary);
    healed_cuts
}

/// Unlogged relations: only they have an init fork.
fn unlogged(files: &[RelationFile]) -> HashSet<RelFileLocator> {
    let init = |file: &&RelationFile| file.name.fork == ForkNumber::Init;
    files.iter().filter(init).map(|file| file.rel).collect()
}

/// True after a clean shutdown.
fn is_clean(directory: &DataDir, signs: &RecoverySigns) -> bool {
    let clean =
        |control: &ControlFile| control.was_shut_down() || control.prefix.state == DbState::SHUT_DOWN_IN_RECOVERY;
    signs.backup_label.is_none() && directory.control().trusted().is_some_and(clean)
}

impl VerifyReport {
    fn begin(
        directory: &DataDir,
        server: &ServerSign,
        signs: &RecoverySigns,
        findings: Vec<Finding>,
        coverage: Coverage,
    ) -> Self {
        let control = directory.control().trusted();
        Self {
            data_dir: directory.root().to_owned(),
            condition: ClusterCondition::of(control, server, signs),
            checksums: control.map(|control| control.checksums),
            files: 0,
            damaged_files: 0,
            counts: PageCounts::default(),
            checksums_not_judged: None,
            partial_pages: 0,
            unlogged: 0,
            replay: None,
            findings,
            coverage,
            answer: if server.may_be_running() { Answer::Uncertain } else { Answer::Fine },
        }
    }

    /// Takes over counts. `structural` and `rejected`: damaged pages, and those that a server refuses, where a wrong checksum
    /// proves nothing.
    fn count(&mut self, scan: &PageScan, counted: Option<(u64, u64)>) {
        self.counts = scan.counts;
        self.partial_pages = scan.partial_pages.len() as u64;
        if let Some((structural, rejected)) = counted {
            let counts = &mut self.counts;
            self.checksums_not_judged = Some(counts.checksum_failures);
            counts.sound += counts.damaged - structural;
            (counts.damaged, counts.rejected, counts.checksum_failures) = (structural, rejected, 0);
        }
    }

    /// Findings about what was scanned. `healed_cuts`: files that end inside a page which replay replaces.
    fn conclude(&mut self, scan: &PageScan, plan: &Plan<'_>, healed_cuts: &HashSet<usize>, is_clean: bool) {
        for partial in &scan.partial_pages {
            let is_healed = healed_cuts.contains(&partial.file);
            let what = format!("ends with {} bytes of block {}", partial.have_bytes, partial.page.block);
            let finding = if is_healed { rules::PARTIAL_PAGE.note(what) } else { rules::PARTIAL_PAGE.problem(what) };
            self.findings.push(finding.in_file(&plan.path_of(partial.file)).at(partial.offset));
        }
        let has_checksums = self.checksums != Some(ChecksumState::Off);
        let known = (is_clean, has_checksums);
        self.findings.extend(replay::damaged_pages(self.replay.as_ref(), &self.counts, known));
        if self.unlogged > 0 && !is_clean {
            self.findings.push(
                rules::UNLOGGED.note(format!("{} of the damaged pages belong to unlogged relations", self.unlogged)),
            );
        }
    }
}
