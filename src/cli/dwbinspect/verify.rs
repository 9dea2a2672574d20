//! `pg_dwbinspect verify`: every page of every relation file, judged by itself.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::{Map, Value, json};

use super::PROGRAM;
use super::verify_select::{SelectArgs, Selection};
use super::verify_text::{Listing, write_summary};
use crate::analysis::cluster_condition::ClusterCondition;
use crate::analysis::cluster_report::inspect_directory;
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::finding_kind::{DamagedPages, FindingKind};
use crate::analysis::page_check::{PageCondition, PageDamage};
use crate::analysis::page_links::LinkReport;
use crate::analysis::page_scan::{PageCounts, PageScan, ScanOptions, scan_pages};
use crate::analysis::segment_check::segment_findings;
use crate::analysis::skipped::SkippedPart;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::replay::Replay;
use crate::cli::context::{OutputArgs, QuietArg};
use crate::cli::data_dir_arg::PgData;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{JobsArg, ProgressArg, interrupt_flag};
use crate::cluster::data_dir::DataDir;
use crate::cluster::name_gaps::NameGap;
use crate::cluster::names::{RelationName, RelationNames};
use crate::cluster::relation_path::{RelationPaths, tablespace_version_directory};
use crate::cluster::relation_walk::{RelationFile, walk_relations};
use crate::inspect::error::open_data_dir;
use crate::inspect::page_rules::{ChecksumRule, PageRules};
use crate::output::closing::{Closing, begin};
use crate::output::json::{BAD_PAGE_COLUMNS, Item, bad_page_row};
use crate::output::progress::Progress;
use crate::output::sink::CsvShape;
use crate::parsers::control::DbState;
use crate::types::{ForkNumber, Geometry, Lsn, PageId, RelFileLocator};

/// Check every page of every relation file
///
/// Checks the checksum of each page if the cluster has them, its header, its line pointers, and that a page without
/// header is all zero. Where no checksum vouches for a heap page, its tuples are looked at too. Also checks that files
/// end with a whole page and that no segment is missing or short, and that pages of an index which name each other (siblings
/// and children of B-trees, right links of GIN and GiST, chains of hash buckets) are there and agree. The cluster need not have been shut down cleanly:
/// then pages count as damaged that recovery may still repair. Files of temporary relations are not read; a server
/// removes them when it starts.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub struct VerifyArgs {
    /// Data directory
    #[arg(value_name = "DATADIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pgdata: PgData,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  pg_dwbinspect verify /var/lib/pgsql/data
  pg_dwbinspect verify --database shop --fork main DATADIR
  pg_dwbinspect verify --path 'base/5/16384*' --path global DATADIR
  pg_dwbinspect verify --format csv DATADIR > damaged.csv

What pg_checksums --check finds is found here too. It looks at checksums alone, passes
pages without header that are not all zero, and refuses a cluster that crashed.
";

/// A damaged page as it is shown.
pub(super) struct Damaged<'a> {
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
pub(super) struct Summary {
    /// Data directory as given.
    pub path: String,
    /// State of the cluster in one sentence; `None` without a control file to trust.
    pub state: Option<String>,
    /// State of data checksums, in words.
    pub checksums: String,
    /// Files that were selected.
    pub files: u64,
    /// Files with damaged pages.
    pub damaged_files: u64,
    /// Counts; wrong checksums that are not judged are no damage here.
    pub counts: PageCounts,
    /// Pages with a wrong checksum where that is not judged.
    pub checksums_not_judged: Option<u64>,
    /// Files that end inside a page.
    pub partial_pages: u64,
    /// Damaged pages of unlogged relations.
    pub unlogged: u64,
}

pub(super) fn run(args: &VerifyArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let mut nowhere = io::sink();
    let out = args.quiet.output(out, &mut nowhere);
    let data_dir = args.pgdata.choose(args.data_dir.as_deref())?;
    let directory = open_data_dir(&data_dir)?;
    let mut check = Check::new(&directory);
    let Some(format) = args.output.machine() else {
        let mut listing = Listing::default();
        let summary = check.run(args, &mut |page| {
            listing.add(page);
            Ok(())
        })?;
        let layout = args.output.layout();
        write_summary(out, layout, &summary)?;
        listing.write(out, layout)?;
        let closing = Closing::new(check.findings, &check.coverage).answering(check.answer);
        return Ok(closing.end_text(out, layout)?.into());
    };
    // Before anything is printed.
    check.confirm_names(args)?;
    let shape = CsvShape::Rows { plural: "damaged_pages", columns: BAD_PAGE_COLUMNS };
    let mut sink = begin(format, shape, out, (PROGRAM, "verify"), vec![data_dir.display().to_string()])?;
    let summary = check.run(args, &mut |page| {
        let mut row = bad_page_row(page.page, page.damage, page.relation.as_deref(), page.path, page.offset);
        row.insert("unlogged".to_owned(), json!(page.is_unlogged));
        sink.item(&Item::DamagedPage(row))
    })?;
    let closing = Closing::new(check.findings, &check.coverage).answering(check.answer);
    Ok(closing.end(sink, summary.counts.damaged, summary.fields())?.into())
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
    progress: bool,
}

/// A run of the command.
struct Check<'a> {
    directory: &'a DataDir,
    findings: Vec<Finding>,
    coverage: Coverage,
    names: LazyNames,
    /// Pages that are written while they are read say nothing of the next moment.
    answer: Answer,
}

impl<'a> Check<'a> {
    fn new(directory: &'a DataDir) -> Self {
        Self {
            directory,
            findings: Vec::new(),
            coverage: Coverage::default(),
            names: LazyNames::default(),
            answer: Answer::Fine,
        }
    }

    /// Reads and judges everything that is asked for.
    fn run(
        &mut self,
        args: &VerifyArgs,
        visit: &mut dyn FnMut(&Damaged<'_>) -> io::Result<()>,
    ) -> Result<Summary, Stop> {
        let directory = self.directory;
        let (server, signs) = (directory.server_sign(), directory.recovery_signs());
        if server.may_be_running() {
            self.answer = Answer::Uncertain;
        }
        self.findings = inspect_directory(directory, &server, &signs, &mut self.coverage);
        let control = directory.control().trusted();
        let catalog = control.map_or(0, |control| control.prefix.catalog_version_no);
        let walk = walk_relations(directory.root(), &tablespace_version_directory(directory.major(), catalog));
        for error in &walk.skipped {
            self.coverage.skip(SkippedPart::RelationFiles, error);
        }
        let selection = self.select(args, &walk.files)?;
        let files: Vec<RelationFile> = walk.files.iter().filter(|file| selection.takes(file)).cloned().collect();
        let mut summary = Summary {
            path: directory.root().display().to_string(),
            state: Some(ClusterCondition::of(control, &server, &signs))
                .filter(ClusterCondition::is_known)
                .map(|state| state.to_string()),
            checksums: "not known".to_owned(),
            files: files.len() as u64,
            damaged_files: 0,
            counts: PageCounts::default(),
            checksums_not_judged: None,
            partial_pages: 0,
            unlogged: 0,
        };
        let Some(page_rules) = PageRules::of(directory, &walk.files, &mut self.coverage, &mut self.findings) else {
            return Ok(summary);
        };
        if let Some(control) = control.filter(|_| page_rules.by_control) {
            summary.checksums = control.checksums.to_string();
        }
        let clean = |state| [DbState::SHUT_DOWN, DbState::SHUT_DOWN_IN_RECOVERY].contains(&state);
        let is_clean = signs.backup_label.is_none() && control.is_some_and(|control| clean(control.prefix.state));
        if !is_clean && control.is_some() && !server.may_be_running() {
            self.findings.push(Finding::note(FindingKind::NotShutDown));
        }
        if page_rules.by_control {
            self.findings.extend(segment_findings(&walk.files, page_rules.geometry, |file| selection.takes(file)));
        }
        // Only unlogged relations have such a fork.
        let init = |file: &&RelationFile| file.name.fork == ForkNumber::Init;
        let unlogged: HashSet<RelFileLocator> = walk.files.iter().filter(init).map(|file| file.rel).collect();
        let plan = Plan {
            jobs: args.jobs.count(),
            files: &files,
            page_rules: &page_rules,
            read_again: server.may_be_running(),
            unlogged: &unlogged,
            links_at: Replay::of(control, &signs).redo_lsn.filter(|_| !server.may_be_running()),
            progress: args.progress.progress,
        };
        let scan = self.scan(&plan, visit, &mut summary)?;
        self.links(&scan, page_rules.geometry);
        self.conclude(&scan, &files, &summary, is_clean);
        Ok(summary)
    }

    /// Refuses names that stand for no relation, or for several.
    fn confirm_names(&mut self, args: &VerifyArgs) -> Result<(), Stop> {
        if Selection::needs_names(&args.select) {
            args.select.confirm(self.names.read(self.directory))?;
        }
        Ok(())
    }

    fn select<'b>(&mut self, args: &'b VerifyArgs, files: &[RelationFile]) -> Result<Selection<'b>, Stop> {
        let directory = self.directory;
        if !Selection::needs_names(&args.select) {
            return Selection::new(&args.select, directory.root(), files, None, &mut self.coverage);
        }
        let names = self.names.read(directory);
        Selection::new(&args.select, directory.root(), files, Some(names), &mut self.coverage)
    }

    fn scan(
        &mut self,
        plan: &Plan<'_>,
        visit: &mut dyn FnMut(&Damaged<'_>) -> io::Result<()>,
        summary: &mut Summary,
    ) -> io::Result<PageScan> {
        let &Plan { jobs, files, page_rules, read_again, unlogged, links_at, progress } = plan;
        let interrupted = interrupt_flag();
        let progress = Progress::bytes(files.iter().map(|file| file.size_bytes).sum(), progress);
        let options = ScanOptions {
            jobs,
            checksums: page_rules.checksums != ChecksumRule::Off,
            geometry: page_rules.geometry,
            read_again,
            interrupted: &interrupted,
            notable: &|_, _| false,
            links_at,
            progress: &|bytes| progress.advance(bytes),
        };
        let counted = page_rules.checksums == ChecksumRule::Counted;
        let (directory, names) = (self.directory, &mut self.names);
        let (mut failed, mut last_file) = (None, None);
        let (mut structural, mut rejected) = (0, 0);
        let scan = scan_pages(directory.root(), files, &options, &mut self.coverage, |bad| {
            if failed.is_some() {
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
                summary.damaged_files += 1;
            }
            let path = files[bad.file].path.display().to_string();
            let relation = names.of(directory, bad.page.rel);
            let is_unlogged = unlogged.contains(&bad.page.rel) && bad.page.fork != ForkNumber::Init;
            summary.unlogged += u64::from(is_unlogged);
            let page = Damaged { page: bad.page, path: &path, offset: bad.offset, damage, relation, is_unlogged };
            if let Err(error) = visit(&page) {
                failed = Some(error);
                interrupted.store(true, Ordering::Relaxed);
            }
        });
        drop(progress);
        if let Some(error) = failed {
            return Err(error);
        }
        summary.counts = scan.counts;
        summary.partial_pages = scan.partial_pages.len() as u64;
        if counted {
            let counts = &mut summary.counts;
            summary.checksums_not_judged = Some(counts.checksum_failures);
            counts.sound += counts.damaged - structural;
            (counts.damaged, counts.rejected, counts.checksum_failures) = (structural, rejected, 0);
        }
        Ok(scan)
    }

    /// Findings about what pages of indexes say of each other. Where replay follows, only what holds before it.
    fn links(&mut self, scan: &PageScan, geometry: Geometry) {
        if scan.links == LinkReport::default() {
            return;
        }
        let directory = self.directory;
        let catalog = directory.control().trusted().map_or(0, |control| control.prefix.catalog_version_no);
        let paths = RelationPaths::new(directory.major(), catalog, geometry.rel_segment_blocks);
        let names = self.names.read(directory);
        let exists = |rel| names.get(rel).is_some_and(RelationName::is_certain);
        let locate = |page: PageId| {
            let (path, at) = paths.place(page);
            (path.display().to_string(), u64::from(at) * u64::from(geometry.block_size))
        };
        self.findings.extend(scan.links.findings(&|link| link.is_settled, &exists, &locate));
    }

    /// Findings about what was scanned.
    fn conclude(&mut self, scan: &PageScan, files: &[RelationFile], summary: &Summary, is_clean: bool) {
        for partial in &scan.partial_pages {
            let kind = FindingKind::PartialPage { have_bytes: partial.have_bytes, block: partial.page.block };
            let path = files[partial.file].path.display().to_string();
            self.findings.push(Finding::problem(kind).in_file(&path).at(partial.offset));
        }
        let counts = &summary.counts;
        if counts.damaged > 0 {
            let pages = DamagedPages::Scanned { count: counts.damaged, pages: counts.pages, is_clean };
            self.findings.push(Finding::problem(FindingKind::DamagedPages(pages)));
        }
        if summary.unlogged > 0 && !is_clean {
            self.findings.push(Finding::note(FindingKind::Unlogged { count: summary.unlogged }));
        }
        for gap in self.names.gaps() {
            self.findings.push(Finding::note(FindingKind::Names(gap.into())));
        }
    }
}

impl Summary {
    /// Fields of the last line of machine formats.
    fn fields(&self) -> Map<String, Value> {
        let counts = &self.counts;
        [
            ("state_in_words", json!(self.state)),
            ("checksums", json!(self.checksums)),
            ("files", json!(self.files)),
            ("bytes", json!(counts.bytes)),
            ("pages", json!(counts.pages)),
            ("sound", json!(counts.sound)),
            ("zeroed", json!(counts.zeroed)),
            ("holes_bytes", json!(counts.holes_bytes)),
            ("damaged", json!(counts.damaged)),
            ("damaged_files", json!(self.damaged_files)),
            ("checksum_failures", json!(counts.checksum_failures)),
            ("checksums_not_judged", json!(self.checksums_not_judged)),
            ("rejected", json!(counts.rejected)),
            ("new_not_zero", json!(counts.new_not_zero)),
            ("unlogged", json!(self.unlogged)),
            ("partial_pages", json!(self.partial_pages)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}
