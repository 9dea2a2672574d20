//! Everything that `check`, `page` and what builds on them start with: the data directory opened, read and judged.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::cluster_wal::WalSources;
use super::dwb_source::DwbSource;
use super::error::{InspectError, open_data_dir};
use super::next::not_a_crash_tear;
use super::page_rules::{ChecksumRule, PageRules};
use crate::analysis::cluster_report::state_in_words;
use crate::analysis::dwb_report::DwbReport;
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::finding_kind::{DamagedPages, FindingKind};
use crate::analysis::page_check::PageCondition;
use crate::analysis::page_links::{BrokenLink, LinkFault, LinkReport};
use crate::analysis::page_scan::{ScanOptions, scan_pages};
use crate::analysis::segment_check::segment_findings;
use crate::analysis::skipped::{Lacking, SkipReason, SkippedPart};
use crate::analysis::slot_row::{SlotRow, fill_in_verdicts};
use crate::analysis::verdict::answer::{Answer, needs_something};
use crate::analysis::verdict::backup::Backup;
use crate::analysis::verdict::check::{
    CheckInput, CheckReport, ClusterInput, DwbInput, NameInput, ScanInput, Scope, Stage, WalInput, Witnesses, check,
};
use crate::analysis::verdict::doubt::Doubt;
use crate::analysis::verdict::outlook::{Outlook, Start};
use crate::analysis::verdict::replay::Replay;
use crate::analysis::verdict::slots::{SlotRef, Suspicion, Unchanged};
use crate::analysis::verdict::survey::PageReport;
use crate::analysis::verdict::unchecked::shows_late_transaction;
use crate::cluster::data_dir::{DataDir, NotADataDir};
use crate::cluster::dwb_files::DwbFile;
use crate::cluster::names::{RelationName, RelationNames};
use crate::cluster::page_source::RelationPages;
use crate::cluster::relation_path::{RelationPaths, tablespace_version_directory};
use crate::cluster::relation_walk::{Walk, walk_relations};
use crate::types::{Geometry, Lsn, PageId, RelFileLocator};

/// Sizes of servers as they are delivered; taken where nothing says otherwise.
const USUAL_GEOMETRY: Geometry =
    Geometry { block_size: 8192, rel_segment_blocks: 131_072, wal_block_size: 8192, wal_segment_size: 1 << 24 };

/// What is looked at.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Judge only pages that the double write buffer holds; of the others LSNs are looked at where an image would be safe.
    pub dwb_only: bool,
    /// Only this page.
    pub page: Option<PageId>,
    /// WAL from elsewhere.
    pub wal: Vec<PathBuf>,
    /// Threads for the page scan.
    pub jobs: usize,
    /// Keep a row for every slot, used or not.
    pub keep_slots: bool,
}

impl Request {
    /// Everything is looked at.
    const fn is_all(&self) -> bool {
        !self.dwb_only && self.page.is_none()
    }
}

/// A data directory, read and judged.
pub struct Examination {
    /// The directory and its double write buffer.
    pub source: DwbSource,
    /// Names of relations.
    pub names: RelationNames,
    /// Where pages are.
    pub paths: RelationPaths,
    /// WAL.
    pub wal: WalSources,
    /// The verdicts.
    pub report: CheckReport,
    /// The double write buffer by itself.
    pub dwb: DwbReport,
    /// Every slot, if that was asked for.
    pub rows: Vec<SlotRow>,
    /// Findings about everything.
    pub findings: Vec<Finding>,
    /// What was not looked at.
    pub coverage: Coverage,
    /// Bytes of a page.
    pub block_size: usize,
    /// What happened to the cluster, in a sentence.
    pub state: String,
    /// Pages that nothing proves to be whole, for want of checksums, if all pages were read.
    pub unproven_pages: Option<u64>,
    /// What the page scan looked at, in words, if it ran.
    pub scanned: Option<String>,
}

/// Somebody who is told how far an examination is, and can break it off.
pub trait Watch: Sync {
    /// `done` of about `total` of this stage are done; 0 in all: not known.
    fn at(&self, stage: Stage, done: u64, total: u64) -> ControlFlow<()>;
}

/// What the relation files told.
#[derive(Default)]
struct Scanned {
    suspects: BTreeMap<PageId, Suspicion>,
    newest: Option<(Lsn, PageId)>,
    words: Option<String>,
    late: Vec<PageId>,
    sound: u64,
    links: LinkReport,
}

impl Examination {
    /// Opens and judges a data directory.
    ///
    /// # Errors
    /// When the path is no data directory, or WAL that was named is none.
    pub fn run(data_dir: &Path, request: &Request, watch: &dyn Watch) -> Result<Self, InspectError> {
        let directory = open_data_dir(data_dir)?;
        let source = DwbSource::of_data_dir(directory);
        let Some(directory) = source.directory.as_ref() else {
            return Err(NotADataDir::NoVersion(data_dir.to_owned()).into());
        };
        let (mut slots, mut rows) = (Vec::new(), Vec::new());
        let dwb_bytes: u64 = source.set.files.iter().map(DwbFile::size_bytes).sum();
        let (mut read_bytes, mut is_wanted) = (0, true);
        let (mut dwb, mut findings) = source.examine_slots(request.jobs, |file, facts| {
            read_bytes += source.set.files.get(file).map_or(0, |file| u64::from(file.detection.block_size));
            is_wanted &= watch.at(Stage::Read, read_bytes, dwb_bytes).is_continue();
            if !is_wanted {
                return;
            }
            if request.keep_slots {
                rows.push(SlotRow::of(file, facts));
            }
            slots.extend(SlotRef::of(file, facts));
        });
        slots.sort_unstable();
        let mut coverage = std::mem::take(&mut dwb.coverage);
        if !is_wanted {
            coverage.skip(SkippedPart::RestOfDoubleWriteBuffer, SkipReason::Interrupted(Lacking::Images));
        }
        let control = directory.control().trusted();
        let catalog = control.map_or(0, |control| control.prefix.catalog_version_no);
        let walk = walk_relations(directory.root(), &tablespace_version_directory(directory.major(), catalog));
        let page_rules = PageRules::of(directory, &walk.files, &mut coverage, &mut findings);
        let geometry = page_rules.map_or(USUAL_GEOMETRY, |page_rules| page_rules.geometry);
        let block_size = usize::try_from(geometry.block_size).unwrap_or_default();
        let paths = RelationPaths::new(directory.major(), catalog, geometry.rel_segment_blocks);
        let (names, gaps) = RelationNames::read(directory);
        if let Some(first) = gaps.first() {
            let kind = FindingKind::NamesIncomplete { gaps: gaps.len(), first: first.into() };
            findings.push(Finding::note(kind));
        }
        let server = directory.server_sign();
        let signs = directory.recovery_signs();
        let replay = Replay::of(control, &signs);
        let wal = WalSources::open(data_dir, control, replay.redo_lsn, &request.wal, &mut findings, &mut coverage)?;
        let pages = RelationPages::new(directory.root(), paths.clone());
        let mut scanned = Scanned::default();
        let unchecked = control.filter(|control| !control.checksums.is_enforced());
        // On pages without checksums the transactions themselves tell.
        let late_from =
            unchecked.and_then(|control| u32::try_from(control.checkpoint.next_full_xid & 0xFFFF_FFFF).ok());
        for error in &walk.skipped {
            coverage.skip(SkippedPart::RelationFiles, error);
        }
        let mut incomplete = Vec::new();
        if let Some(page) = request.page {
            scanned.suspects.insert(page, Suspicion::Differs);
        } else {
            if let Some(page_rules) = page_rules.filter(|_| !request.dwb_only) {
                let unchanged = Unchanged::new(&slots);
                let looks = |page, bytes: &[u8]| {
                    unchanged.look(page, bytes);
                    late_from.is_some_and(|next| shows_late_transaction(bytes, page.fork, next))
                };
                let rules = ScanRules {
                    jobs: request.jobs,
                    notable: &looks,
                    read_again: server.may_be_running(),
                    links_at: replay.redo_lsn.filter(|_| !server.may_be_running()),
                };
                scanned = scan(directory, &walk, &page_rules, &rules, watch, &mut coverage);
                let is_same = unchanged.finish();
                Unchanged::note(&mut slots, &is_same);
                if page_rules.by_control {
                    let found = segment_findings(&walk.files, geometry, |_| true);
                    incomplete.extend(doubt_of_segments(&found));
                    findings.extend(found);
                }
            }
        }
        let exists = |rel| names.get(rel).is_some_and(RelationName::is_certain);
        let called = |rel: RelFileLocator| names.full_name(rel).unwrap_or_else(|| rel.to_string());
        let named = named_but_absent(&scanned, &exists);
        for (page, links) in &named {
            let is_zero = links.iter().any(|link| link.fault == LinkFault::Zeroed);
            let suspicion = if is_zero { Suspicion::Zeroed } else { Suspicion::BeyondEnd };
            scanned.suspects.entry(*page).or_insert(suspicion);
        }
        let state = control.map_or_else(
            || "pg_control cannot be trusted, so it is not known what state the cluster is in.".to_owned(),
            |control| state_in_words(control, &server, &signs),
        );
        let path_of = |page: PageId| format!("{} block {}", paths.place(page).0.display(), page.block);
        findings.extend(dwb.staleness.start_findings(&pages, block_size, &mut coverage));
        let slot_bytes = (slots.len() * block_size) as u64;
        let look = || Self::ask_all(data_dir, request, watch);
        let input = CheckInput {
            jobs: request.jobs,
            scope: match request.page {
                Some(page) => Scope::Page(page),
                None if request.dwb_only => Scope::DwbPages,
                None => Scope::All,
            },
            cluster: ClusterInput {
                control,
                replay: &replay,
                lowest_wal_lsn: source.facts.lowest_wal_lsn,
                pages: &pages,
                block_size,
                may_be_running: server.may_be_running(),
                uses_dwb: uses_dwb(&source),
            },
            dwb: DwbInput { set: &source.set, staleness: &dwb.staleness, slots },
            wal: WalInput { own: wal.own.as_ref(), all: wal.all.as_ref() },
            scan: ScanInput {
                suspects: scanned.suspects,
                late_pages: scanned.late,
                named: &named,
                witnesses: if scanned.words.is_some() {
                    let newest = scanned.newest.map(|(lsn, page)| (lsn, path_of(page)));
                    Witnesses::Known { newest, doubts: incomplete }
                } else if request.is_all() {
                    let why = "where they are is not known".to_owned();
                    Witnesses::Known { newest: None, doubts: vec![Doubt::PagesNotRead { why }] }
                } else {
                    Witnesses::Ask(&look)
                },
            },
            names: NameInput { exists: &exists, called: &called },
            coverage,
        };
        let wal_bytes =
            wal.own.as_ref().map_or(0, |set| set.segments().len() as u64 * u64::from(set.geometry().wal_segment_size));
        let mut report = check(input, &|stage, done| {
            let total = match stage {
                Stage::Slots => slot_bytes,
                Stage::Wal => wal_bytes,
                Stage::Read | Stage::Scan | Stage::Pages => 0,
            };
            watch.at(stage, done, total)
        });
        findings.extend(link_findings(&scanned.links, &named, &report, unchecked.is_some(), &exists, &|page| {
            let (path, at) = paths.place(page);
            (path.display().to_string(), u64::from(at) * u64::from(geometry.block_size))
        }));
        findings.extend(report.replay.backup.as_ref().map(Backup::findings).unwrap_or_default());
        report.outlook.refused_by = server.refuses_start();
        // A page that was asked for is reported even when it is in order.
        let damaged = report.pages.iter().filter(|page| page.is_wrong).count();
        if damaged > 0 {
            findings.push(if report.pages.iter().any(needs_something) {
                Finding::problem(FindingKind::DamagedPages(DamagedPages::Judged { count: damaged }))
            } else {
                Finding::note(FindingKind::DamagedPages(DamagedPages::Harmless { count: damaged }))
            });
        }
        findings.extend(control.and_then(|control| {
            not_a_crash_tear(control, &report.replay, &report.pages, !source.set.files.is_empty())
        }));
        let coverage = std::mem::take(&mut report.coverage);
        let unproven_pages = unchecked.filter(|_| scanned.words.is_some()).map(|_| scanned.sound);
        let scanned = scanned.words.map(|words| match unproven_pages {
            Some(count) => format!("{words}; without checksums nothing proves {count} of them whole"),
            None => words,
        });
        fill_in_verdicts(&mut rows, &dwb.staleness, &report.slots);
        Ok(Self {
            source,
            names,
            paths,
            wal,
            report,
            dwb,
            rows,
            findings,
            coverage,
            block_size,
            state,
            unproven_pages,
            scanned,
        })
    }

    /// What is answered about the cluster once the pages that `is_repaired` names are in order.
    #[must_use]
    pub fn answer_without(&self, is_repaired: impl Fn(PageId) -> bool) -> Answer {
        let report = &self.report;
        let left: Vec<PageReport> = report.pages.iter().filter(|page| !is_repaired(page.page)).cloned().collect();
        let is_running = report.outlook.start == Start::Running;
        let mut outlook = Outlook::of(&left, &report.replay, is_running, self.uses_dwb(), report.outlook.checksums);
        outlook.refused_by = report.outlook.refused_by;
        Answer::of(&left, &report.replay.doubts, Some(&outlook), self.has_unseen_tears())
    }

    /// What is answered about the cluster as it is.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let report = &self.report;
        Answer::of(&report.pages, &report.replay.doubts, Some(&report.outlook), self.has_unseen_tears())
    }

    /// What is answered about the pages that were asked for; others may keep a start from working.
    #[must_use]
    pub fn answer_of_pages(&self) -> Answer {
        Answer::of(&self.report.pages, &self.report.replay.doubts, None, false)
    }

    /// A crash can have torn pages that show no sign of it: they have no checksums, and WAL has no image of each page that
    /// was changed since the redo point. A server with a double write buffer writes none.
    fn has_unseen_tears(&self) -> bool {
        let control = self.source.directory.as_ref().and_then(|directory| directory.control().trusted());
        let has_images = !self.uses_dwb() && control.is_some_and(|control| control.checkpoint.full_page_writes != 0);
        self.unproven_pages.is_some_and(|pages| pages > 0) && !has_images && self.report.replay.recovery.replays()
    }

    /// What a check of the whole cluster finds doubtful, for one that looks at a part only.
    fn ask_all(data_dir: &Path, request: &Request, watch: &dyn Watch) -> (Vec<Doubt>, Coverage) {
        let all = Request { dwb_only: false, page: None, keep_slots: false, ..request.clone() };
        match Self::run(data_dir, &all, watch) {
            Ok(examined) => (examined.report.replay.doubts, examined.coverage),
            Err(error) => (vec![Doubt::PagesNotRead { why: error.to_string() }], Coverage::default()),
        }
    }

    /// `database.schema.relation`, where known; a question mark follows a name that may be wrong.
    #[must_use]
    pub fn relation_name(&self, rel: RelFileLocator) -> Option<String> {
        self.names.full_name(rel)
    }

    /// The user broke it off: the result is partial.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.coverage.is_interrupted()
    }

    /// How a page's relation is called: by name where there is one, else by its numbers.
    #[must_use]
    pub fn called(&self, page: PageId) -> String {
        self.relation_name(page.rel).unwrap_or_else(|| page.rel.to_string())
    }

    /// Name of a file of the double write buffer.
    #[must_use]
    pub fn file_name(&self, file: usize) -> String {
        self.source.set.files.get(file).map_or_else(String::new, |file| file.name.clone())
    }

    /// Whether pages carry checksums, in words.
    #[must_use]
    pub fn checksums(&self) -> String {
        let control = self.source.directory.as_ref().and_then(|directory| directory.control().trusted());
        control.map_or_else(|| "not known".to_owned(), |control| control.checksums.to_string())
    }

    /// The configuration says that the server uses a double write buffer.
    #[must_use]
    pub fn uses_dwb(&self) -> bool {
        uses_dwb(&self.source)
    }

    /// Path of the file that holds a page, relative to the data directory.
    #[must_use]
    pub fn path_of(&self, page: PageId) -> String {
        self.paths.place(page).0.display().to_string()
    }
}

/// Pages that are not there, or all zero, although another page of an index that the catalog has names them.
fn named_but_absent(scanned: &Scanned, exists: &dyn Fn(RelFileLocator) -> bool) -> BTreeMap<PageId, Vec<BrokenLink>> {
    let is_absent = |link: &&BrokenLink| matches!(link.fault, LinkFault::Zeroed | LinkFault::BeyondEnd);
    let mut named: BTreeMap<PageId, Vec<BrokenLink>> = BTreeMap::new();
    for link in scanned.links.broken.iter().filter(is_absent).filter(|link| exists(link.page.rel)) {
        named.entry(link.page).or_default().push(*link);
    }
    named
}

/// Findings about links between pages that are not reported as such. Where no checksum vouches for the pages, a link from
/// or to a damaged one says nothing but that: `unchecked`.
fn link_findings(
    links: &LinkReport,
    named: &BTreeMap<PageId, Vec<BrokenLink>>,
    report: &CheckReport,
    unchecked: bool,
    exists: &dyn Fn(RelFileLocator) -> bool,
    locate: &dyn Fn(PageId) -> (String, u64),
) -> Vec<Finding> {
    let wrong: HashSet<PageId> = report.pages.iter().filter(|page| page.is_wrong).map(|page| page.page).collect();
    let is_of_damaged = |link: &BrokenLink| unchecked && (wrong.contains(&link.namer()) || wrong.contains(&link.page));
    let is_told = |link: &BrokenLink| link.is_settled && !named.contains_key(&link.page) && !is_of_damaged(link);
    let mut findings = links.findings(&is_told, exists, locate);
    let of_damaged = |link: &&BrokenLink| {
        unchecked && exists(link.page.rel) && !wrong.contains(&link.page) && wrong.contains(&link.namer())
    };
    let unheard: BTreeSet<PageId> = links.broken.iter().filter(of_damaged).map(|link| link.page).collect();
    if !unheard.is_empty() {
        findings.push(Finding::note(FindingKind::LinksOfDamagedPages { count: unheard.len() }));
    }
    findings
}

/// Files that lack pages, as a doubt about what those pages would have told.
fn doubt_of_segments(findings: &[Finding]) -> Option<Doubt> {
    let mut short = findings.iter().filter(|finding| matches!(finding.kind, FindingKind::MissingPages(_)));
    let first = short.next()?;
    let file = first.file.clone().unwrap_or_default();
    Some(Doubt::RelationIncomplete { file, what: first.kind.to_string(), more: short.count() })
}

/// How relation files are read.
struct ScanRules<'a> {
    jobs: usize,
    /// Shown each sound page of a logged relation; true for those to be listed.
    notable: &'a (dyn Fn(PageId, &[u8]) -> bool + Sync),
    /// A server may be writing.
    read_again: bool,
    /// See [`ScanOptions::links_at`].
    links_at: Option<Lsn>,
}

/// Reads every page of every relation file.
fn scan(
    directory: &DataDir,
    walk: &Walk,
    page_rules: &PageRules,
    &ScanRules { jobs, notable, read_again, links_at }: &ScanRules<'_>,
    watch: &dyn Watch,
    coverage: &mut Coverage,
) -> Scanned {
    let total: u64 = walk.files.iter().map(|file| file.size_bytes).sum();
    let (done, interrupted) = (AtomicU64::new(0), AtomicBool::new(false));
    let options = ScanOptions {
        jobs,
        checksums: page_rules.checksums != ChecksumRule::Off,
        geometry: page_rules.geometry,
        read_again,
        interrupted: &interrupted,
        notable,
        links_at,
        progress: &|bytes| {
            let before = done.fetch_add(bytes, Ordering::Relaxed);
            if watch.at(Stage::Scan, before + bytes, total).is_break() {
                interrupted.store(true, Ordering::Relaxed);
            }
        },
    };
    let mut scanned = Scanned::default();
    let counted = page_rules.checksums == ChecksumRule::Counted;
    let found = scan_pages(directory.root(), &walk.files, &options, coverage, |bad| {
        // Where a wrong checksum proves nothing, the page is judged as if there were none.
        let judged = counted.then(|| PageCondition::of(&bad.bytes, bad.page.fork, bad.page.block, false));
        if judged.is_none_or(|judged| judged.damage().is_some()) {
            scanned.suspects.insert(bad.page, Suspicion::Damaged);
        }
    });
    scanned.suspects.extend(found.partial_pages.iter().map(|partial| (partial.page, Suspicion::Cut)));
    scanned.newest = found.counts.newest;
    scanned.late = found.notable;
    scanned.links = found.links;
    let counts = &found.counts;
    scanned.sound = counts.sound;
    if interrupted.load(Ordering::Relaxed) && !found.interrupted {
        // Broken off with the last piece: what follows must hear of it.
        coverage.skip(SkippedPart::RestOfCheck, SkipReason::Interrupted(Lacking::Pages));
    }
    scanned.words = Some(format!("{} in {} files, {} of them all zero", counts.pages, walk.files.len(), counts.zeroed));
    scanned
}

/// The configuration says that the server writes pages into the double write buffer first.
fn uses_dwb(source: &DwbSource) -> bool {
    let is_on = |name| {
        let value = source.settings.get(name).unwrap_or_default();
        ["on", "true", "yes", "1", "double_writes"].contains(&value)
    };
    !source.set.files.is_empty() && (is_on("double_write_buffer") || is_on("io_torn_pages_protection"))
}
