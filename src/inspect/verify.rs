//! Every page of every relation file, judged by itself.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::error::{InspectError, open_data_dir};
use super::file_filter::{FileFilter, Selection};
use super::page_rules::{ChecksumRule, PageRules};
use crate::analysis::cluster_condition::ClusterCondition;
use crate::analysis::cluster_report::inspect_directory;
use crate::analysis::error_words::ErrorWords;
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::finding_kind::{DamagedPages, FindingKind};
use crate::analysis::page_check::{PageCondition, PageDamage};
use crate::analysis::page_links::LinkReport;
use crate::analysis::page_scan::{PageCounts, PageScan, ScanOptions, scan_pages};
use crate::analysis::segment_check::segment_findings;
use crate::analysis::skipped::SkippedPart;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::replay::Replay;
use crate::cluster::data_dir::DataDir;
use crate::cluster::name_gaps::NameGap;
use crate::cluster::names::{RelationName, RelationNames};
use crate::cluster::relation_path::RelationPaths;
use crate::cluster::relation_walk::{RelationFile, relations_of};
use crate::parsers::control::{ChecksumState, DbState};
use crate::types::{ForkNumber, Geometry, Lsn, PageId, RelFileLocator};

/// Whose pages are judged.
#[derive(Clone, Debug)]
pub struct VerifyRequest {
    /// Data directory.
    pub data_dir: PathBuf,
    /// Which of its files.
    pub files: FileFilter,
    /// Threads that read.
    pub jobs: usize,
}

/// Told the bytes that are done and those in all, from all threads; breaks reading off.
pub type WatchBytes<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// Shown each damaged page, file by file; breaks reading off.
pub type VisitDamaged<'a> = &'a mut dyn FnMut(&DamagedPage<'_>) -> ControlFlow<()>;

/// A damaged page.
#[derive(Debug)]
pub struct DamagedPage<'a> {
    /// Which page it is.
    pub page: PageId,
    /// Its file, relative to the data directory.
    pub path: &'a str,
    /// Where it starts in the file.
    pub offset: u64,
    /// What is wrong.
    pub damage: &'a PageDamage,
    /// Name of its relation, where it is known.
    pub relation: Option<String>,
    /// The relation is unlogged: recovery after a crash empties it.
    pub is_unlogged: bool,
}

/// The result apart from the list of pages.
#[derive(Debug)]
pub struct VerifyReport {
    /// Data directory as given.
    pub data_dir: PathBuf,
    /// What happened to the cluster.
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
    /// What was found.
    pub findings: Vec<Finding>,
    /// What was not examined.
    pub coverage: Coverage,
    /// What the findings and the coverage say; pages that are written while they are read say nothing of the next moment.
    pub answer: Answer,
}

/// Names of relations, read when the first is needed.
#[derive(Default)]
struct LazyNames(Option<(RelationNames, Vec<NameGap>)>);

impl LazyNames {
    fn read(&mut self, directory: &DataDir) -> &RelationNames {
        &self.0.get_or_insert_with(|| RelationNames::read(directory)).0
    }

    /// A question mark follows a name that may be wrong.
    fn of(&mut self, directory: &DataDir, rel: RelFileLocator) -> Option<String> {
        self.read(directory).full_name(rel)
    }

    fn gaps(&self) -> &[NameGap] {
        self.0.as_ref().map_or(&[], |(_, gaps)| gaps)
    }
}

/// What is scanned and how.
struct Plan<'a> {
    jobs: usize,
    files: &'a [RelationFile],
    page_rules: &'a PageRules,
    read_again: bool,
    unlogged: &'a HashSet<RelFileLocator>,
    links_at: Option<Lsn>,
}

/// A data directory whose files are about to be read.
pub struct Verification<'a> {
    request: &'a VerifyRequest,
    directory: DataDir,
    names: LazyNames,
}

impl<'a> Verification<'a> {
    /// Opens the directory, and refuses names that match no relation or several.
    ///
    /// # Errors
    /// When the path is not a data directory, or what was asked for is not there.
    pub fn open(request: &'a VerifyRequest) -> Result<Self, InspectError> {
        let directory = open_data_dir(&request.data_dir)?;
        let mut names = LazyNames::default();
        if request.files.needs_names() {
            request.files.confirm(names.read(&directory))?;
        }
        Ok(Self { request, directory, names })
    }

    /// Reads and judges everything that is asked for.
    ///
    /// # Errors
    /// When a name matches no relation or several.
    pub fn run(self, watch: WatchBytes<'_>, visit: VisitDamaged<'_>) -> Result<VerifyReport, InspectError> {
        let mut report = self.read(watch, visit)?;
        report.answer = report.answer.max(Answer::of_findings(&report.findings, &report.coverage));
        Ok(report)
    }

    fn read(mut self, watch: WatchBytes<'_>, visit: VisitDamaged<'_>) -> Result<VerifyReport, InspectError> {
        let directory = &self.directory;
        let (server, signs) = (directory.server_sign(), directory.recovery_signs());
        let mut coverage = Coverage::default();
        let mut findings = inspect_directory(directory, &server, &signs, &mut coverage);
        let walk = relations_of(directory);
        for error in &walk.skipped {
            coverage.skip(SkippedPart::RelationFiles, error);
        }
        let selection = self.select(&walk.files, &mut coverage)?;
        let directory = &self.directory;
        let control = directory.control().trusted();
        let files: Vec<RelationFile> = walk.files.iter().filter(|file| selection.takes(file)).cloned().collect();
        let page_rules = PageRules::of(directory, &walk.files, &mut coverage, &mut findings);
        let mut report = VerifyReport {
            data_dir: directory.root().to_owned(),
            condition: ClusterCondition::of(control, &server, &signs),
            checksums: control.map(|control| control.checksums),
            files: files.len() as u64,
            damaged_files: 0,
            counts: PageCounts::default(),
            checksums_not_judged: None,
            partial_pages: 0,
            unlogged: 0,
            findings,
            coverage,
            answer: if server.may_be_running() { Answer::Uncertain } else { Answer::Fine },
        };
        let Some(page_rules) = page_rules else { return Ok(report) };
        let clean = |state| [DbState::SHUT_DOWN, DbState::SHUT_DOWN_IN_RECOVERY].contains(&state);
        let is_clean = signs.backup_label.is_none() && control.is_some_and(|control| clean(control.prefix.state));
        if !is_clean && control.is_some() && !server.may_be_running() {
            report.findings.push(Finding::note(FindingKind::NotShutDown));
        }
        if page_rules.by_control {
            report.findings.extend(segment_findings(&walk.files, page_rules.geometry, |file| selection.takes(file)));
        }
        // Only unlogged relations have such a fork.
        let init = |file: &&RelationFile| file.name.fork == ForkNumber::Init;
        let unlogged: HashSet<RelFileLocator> = walk.files.iter().filter(init).map(|file| file.rel).collect();
        let plan = Plan {
            jobs: self.request.jobs,
            files: &files,
            page_rules: &page_rules,
            read_again: server.may_be_running(),
            unlogged: &unlogged,
            links_at: Replay::of(directory.control(), &signs).redo_lsn.filter(|_| !server.may_be_running()),
        };
        let scan = self.scan(&plan, watch, visit, &mut report);
        report.findings.extend(self.link_findings(&scan, page_rules.geometry));
        report.conclude(&scan, &files, is_clean, self.names.gaps());
        Ok(report)
    }

    fn select(&mut self, files: &[RelationFile], coverage: &mut Coverage) -> Result<Selection<'a>, InspectError> {
        let filter = &self.request.files;
        let names = filter.needs_names().then(|| self.names.read(&self.directory));
        Selection::new(filter, self.directory.root(), files, names, coverage)
    }

    fn scan(
        &mut self,
        plan: &Plan<'_>,
        watch: WatchBytes<'_>,
        visit: VisitDamaged<'_>,
        report: &mut VerifyReport,
    ) -> PageScan {
        let &Plan { jobs, files, page_rules, read_again, unlogged, links_at } = plan;
        let (done, interrupted) = (AtomicU64::new(0), AtomicBool::new(false));
        let total: u64 = files.iter().map(|file| file.size_bytes).sum();
        let options = ScanOptions {
            jobs,
            checksums: page_rules.checksums != ChecksumRule::Off,
            geometry: page_rules.geometry,
            read_again,
            interrupted: &interrupted,
            notable: &|_, _| false,
            links_at,
            progress: &|bytes| {
                let before = done.fetch_add(bytes, Ordering::Relaxed);
                if watch(before.saturating_add(bytes), total).is_break() {
                    interrupted.store(true, Ordering::Relaxed);
                }
            },
        };
        let counted = page_rules.checksums == ChecksumRule::Counted;
        let (directory, names) = (&self.directory, &mut self.names);
        let (mut is_wanted, mut last_file) = (true, None);
        let (mut structural, mut rejected) = (0, 0);
        let (mut damaged_files, mut unlogged_pages) = (0, 0);
        let scan = scan_pages(directory.root(), files, &options, &mut report.coverage, |bad| {
            if !is_wanted {
                return;
            }
            // Judged again as if there were no checksums, where a wrong one proves nothing.
            let judged = counted.then(|| PageCondition::of(&bad.bytes, bad.page.fork, bad.page.block, false));
            let damage = match &judged {
                None => &bad.damage,
                Some(PageCondition::Damaged(damage)) => damage,
                Some(_) => return,
            };
            structural += 1;
            rejected += u64::from(damage.server_rejects);
            if last_file.replace(bad.file) != Some(bad.file) {
                damaged_files += 1;
            }
            let path = path_of(files, bad.file);
            let relation = names.of(directory, bad.page.rel);
            let is_unlogged = unlogged.contains(&bad.page.rel) && bad.page.fork != ForkNumber::Init;
            unlogged_pages += u64::from(is_unlogged);
            let page = DamagedPage { page: bad.page, path: &path, offset: bad.offset, damage, relation, is_unlogged };
            if visit(&page).is_break() {
                is_wanted = false;
                interrupted.store(true, Ordering::Relaxed);
            }
        });
        (report.damaged_files, report.unlogged) = (damaged_files, unlogged_pages);
        report.counts = scan.counts;
        report.partial_pages = scan.partial_pages.len() as u64;
        if counted {
            let counts = &mut report.counts;
            report.checksums_not_judged = Some(counts.checksum_failures);
            counts.sound += counts.damaged - structural;
            (counts.damaged, counts.rejected, counts.checksum_failures) = (structural, rejected, 0);
        }
        scan
    }

    /// Findings about what pages of indexes say of each other. Where replay follows, only what holds before it.
    fn link_findings(&mut self, scan: &PageScan, geometry: Geometry) -> Vec<Finding> {
        if scan.links == LinkReport::default() {
            return Vec::new();
        }
        let directory = &self.directory;
        let catalog = directory.control().trusted().map_or(0, |control| control.prefix.catalog_version_no);
        let paths = RelationPaths::new(directory.major(), catalog, geometry.rel_segment_blocks);
        let names = self.names.read(directory);
        let exists = |rel| names.get(rel).is_some_and(RelationName::is_certain);
        let locate = |page: PageId| {
            let (path, at) = paths.path_and_block(page);
            (path.display().to_string(), u64::from(at) * u64::from(geometry.block_size))
        };
        scan.links.findings(&|link| link.is_settled, &exists, &locate)
    }
}

fn path_of(files: &[RelationFile], file: usize) -> String {
    files.get(file).map_or_else(String::new, |file| file.path.display().to_string())
}

impl VerifyReport {
    /// Findings about what was scanned.
    fn conclude(&mut self, scan: &PageScan, files: &[RelationFile], is_clean: bool, gaps: &[NameGap]) {
        for partial in &scan.partial_pages {
            let kind = FindingKind::PartialPage { have_bytes: partial.have_bytes, block: partial.page.block };
            let path = path_of(files, partial.file);
            self.findings.push(Finding::problem(kind).in_file(&path).at(partial.offset));
        }
        let counts = &self.counts;
        if counts.damaged > 0 {
            let pages = DamagedPages::Scanned { count: counts.damaged, pages: counts.pages, is_clean };
            self.findings.push(Finding::problem(FindingKind::DamagedPages(pages)));
        }
        if self.unlogged > 0 && !is_clean {
            self.findings.push(Finding::note(FindingKind::Unlogged { count: self.unlogged }));
        }
        for gap in gaps {
            self.findings.push(Finding::note(FindingKind::Names(ErrorWords::of_other(gap))));
        }
    }
}
