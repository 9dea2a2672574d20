//! `pg_dwbinspect verify`: every page of every relation file, judged by itself.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use super::PROGRAM;
use crate::analysis::start::backup::BackupEnd;
use crate::analysis::start::replay::Recovery;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::facts::Tone;
use crate::analysis::verdict::fate::ReplayFate;
use crate::cli::context::{OutputArgs, QuietArg};
use crate::cli::data_dir_arg::PgData;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::inspect::file_filter::{FileFilter, PathPattern};
use crate::inspect::page_target::RelationChoice;
use crate::inspect::verify::rules::DAMAGED_PAGES;
use crate::inspect::verify::{DamagedPage, ReplaySummary, Verification, VerifyReport, VerifyRequest};
use crate::output::closing::{Closing, begin};
use crate::output::escape::{printable, quoted};
use crate::output::figures::{many, size_words};
use crate::output::headline::Headline;
use crate::output::json::bad_page::{BAD_PAGE_COLUMNS, BadPageJson, BadPageLocation};
use crate::output::json::page::PageLocation;
use crate::output::json::{Item, lsn_text};
use crate::output::sink::CsvShape;
use crate::output::text::{Layout, wrapped, write_fact};
use crate::output::words::cluster::checksum_words;
use crate::parsers::control::ChecksumState;
use crate::report::{Finding, Severity};
use crate::types::ForkNumber;

/// Check every page of every relation file
///
/// Checks the checksum of each page if the cluster has checksums, its header, its line pointers, and that a page without
/// a header is zero-filled; on heap pages without a checksum also the tuples. Checks that files end with a whole page, that
/// no segment is missing or short, and that index pages that refer to each other (siblings and children of B-trees, children
/// and right links of GIN and GiST, children of SP-GiST, maps of BRIN, chains of hash buckets) exist and agree. After a crash, and in a base backup, pages that recovery
/// will repair count as damaged too: --replay and --wal distinguish them from real damage. In a whole cluster that was shut
/// down cleanly, visibility maps are compared with their tables, and other files are checked too, as by
/// check: relations and databases that are missing, transaction status, files that startup needs. Files of temporary relations
/// are not read; a server removes them when it
/// starts. The archives of a base backup in tar format are read as they are, plain or compressed; there, relations
/// have no names, and each page is checked in isolation: neither its kind, nor links, rows and other files are compared.
///
/// check examines everything that contains data, and its use by recovery. Settings, authentication, TLS, sockets, libraries
/// and limits are
/// left to the server: a server that refuses one says so immediately and changes nothing. verify examines the same data
/// without WAL and startup; without --replay it reads WAL only to find out whether it removes a missing file.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct VerifyArgs {
    /// Data directory, or a base backup in tar format: the directory of its archives, or base.tar
    #[arg(value_name = "DATADIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    pgdata: PgData,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
    /// Show the fate of each damaged page in recovery, according to the WAL in DATADIR
    ///
    /// A page of a base backup or of a crashed server is fixed by recovery if its first record overwrites it
    /// without reading it, or if recovery removes it first. WAL must exist from the redo point to that record.
    /// The exit status is 0 with fixed pages only, 1 with real damage, and 2 if WAL does not decide.
    #[arg(long)]
    replay: bool,
    /// As --replay, with more WAL: archive directory, segments, tar archives, patterns; plain or compressed
    #[arg(long, value_name = "PATH")]
    wal: Vec<PathBuf>,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "Examples:
  pg_dwbinspect verify /var/lib/pgsql/data
  pg_dwbinspect verify --database shop --fork main DATADIR
  pg_dwbinspect verify --path 'base/5/16384*' --path global DATADIR
  pg_dwbinspect verify --format csv DATADIR > damaged.csv
  pg_dwbinspect verify --replay BACKUP
  pg_dwbinspect verify --wal /archive/wal BACKUP
  pg_dwbinspect verify --replay /backups/monday/base.tar.gz

This finds everything that pg_checksums --check finds. pg_checksums compares checksums
only, accepts pages with content but no header, and refuses a cluster that
crashed.
";

pub(super) fn run(args: &VerifyArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let mut nowhere = io::sink();
    let out = args.quiet.output(out, &mut nowhere);
    let data_dir = args.pgdata.choose(args.data_dir.as_deref())?;
    let shown = data_dir.display().to_string();
    let replay = (args.replay || !args.wal.is_empty()).then(|| args.wal.clone());
    let request = VerifyRequest { data_dir, files: args.select.filter(), jobs: args.jobs.count(), replay };
    let verification = Verification::open(&request)?;
    let bar = ByteBar::new(args.progress);
    let Some(format) = args.output.machine() else {
        let mut listing = Listing::default();
        let report = verification.run(&|done, total| bar.at(done, total), &mut |page| {
            listing.add(page);
            ControlFlow::Continue(())
        })?;
        drop(bar);
        let layout = args.output.layout();
        return Ok(write_report(out, layout, report, &listing)?.into());
    };
    let shape = CsvShape::Rows { plural: "damaged_pages", columns: BAD_PAGE_COLUMNS };
    let mut sink = begin(format, shape, out, (PROGRAM, "verify"), vec![shown])?;
    let mut written = Ok(());
    let report = verification.run(&|done, total| bar.at(done, total), &mut |page| {
        let location = BadPageLocation {
            page: page.page,
            place: PageLocation {
                path: page.path,
                relation: page.relation.as_deref(),
                database: page.database.as_deref(),
            },
            offset: page.offset,
            is_cut: page.have_bytes.is_some(),
            is_unlogged: page.is_unlogged,
        };
        written = sink.item(&Item::DamagedPage(Box::new(BadPageJson::new(&location, page.damage, page.fate))));
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    drop(bar);
    written?;
    let partial = if report.replay.is_some() { report.partial_pages } else { 0 };
    let (damaged, fields) = (report.counts.damaged.saturating_add(partial), fields(&report));
    let closing = Closing::new(report.findings, &report.coverage).answering(report.answer);
    Ok(closing.end(sink, damaged, fields)?.into())
}

/// Fields of the last line of machine formats.
fn fields(report: &VerifyReport) -> Map<String, Value> {
    let (counts, replay) = (&report.counts, report.replay.as_ref());
    let state = Some(report.condition.to_string()).filter(|_| report.condition.is_known());
    [
        ("state_in_words", json!(state)),
        ("state_code", json!(report.condition.code())),
        ("checksums", json!(checksum_words(report.checksums))),
        ("files", json!(report.files)),
        ("bytes", json!(counts.bytes)),
        ("pages", json!(counts.pages)),
        ("sound", json!(counts.sound)),
        ("zeroed", json!(counts.zeroed)),
        ("holes_bytes", json!(counts.holes_bytes)),
        ("damaged", json!(counts.damaged)),
        ("damaged_files", json!(report.damaged_files)),
        ("checksum_failures", json!(counts.checksum_failures)),
        ("checksums_not_judged", json!(report.checksums_not_judged)),
        ("rejected", json!(counts.rejected)),
        ("new_not_zero", json!(counts.new_not_zero)),
        ("unlogged", json!(report.unlogged)),
        ("partial_pages", json!(report.partial_pages)),
        ("recovery", json!(replay.map(|replay| replay.recovery.name()))),
        ("redo_lsn", json!(replay.and_then(|replay| replay.redo_lsn).map(lsn_text))),
        ("wal_end_lsn", json!(replay.and_then(|replay| replay.end_lsn).map(lsn_text))),
        ("backup_end", json!(replay.and_then(|replay| replay.backup_end).map(BackupEnd::name))),
        ("healed", json!(replay.map(|replay| replay.healed))),
        ("real_damage", json!(replay.map(|replay| replay.real_damage))),
        ("unknown", json!(replay.map(|replay| replay.unknown))),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Filters. If several kinds are given, all must match.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct SelectArgs {
    /// Databases by OID or name; 0 means the shared catalogs
    #[arg(long, value_name = "OID|NAME", value_delimiter = ',')]
    database: Vec<String>,
    /// Relations by name (relation, schema.relation, database.schema.relation) or numbers (REL, DB/REL, SPC/DB/REL)
    #[arg(long, value_name = "REL", value_delimiter = ',')]
    relation: Vec<RelationChoice>,
    /// Forks: main, fsm, vm, init
    #[arg(long, value_name = "FORK", value_delimiter = ',')]
    fork: Vec<ForkNumber>,
    /// Files or directories below DATADIR, or a pattern in quotes
    #[arg(long, value_name = "PATH")]
    path: Vec<PathPattern>,
}

impl SelectArgs {
    /// The filter.
    pub fn filter(&self) -> FileFilter {
        FileFilter {
            databases: self.database.clone(),
            relations: self.relation.clone(),
            forks: self.fork.clone(),
            paths: self.path.clone(),
        }
    }
}

/// Pages of one file that are listed.
const MAX_PAGES: usize = 20;

/// Files that are listed.
const MAX_FILES: usize = 200;

/// Writes the report: the answer, the damaged pages, problems, and what was read.
pub(crate) fn write_report(
    out: &mut dyn Write,
    layout: Layout,
    mut report: VerifyReport,
    listing: &Listing,
) -> io::Result<Answer> {
    let (summary, others) =
        std::mem::take(&mut report.findings).into_iter().partition(|finding: &Finding| finding.is(&DAMAGED_PAGES));
    let closing = Closing::new(others, &report.coverage).answering(report.answer);
    // Archives have to be unpacked for it.
    let can_be_checked = report.data_dir.join("PG_VERSION").is_file();
    let rest = &mut |out: &mut dyn Write| {
        if report.counts.damaged > 0 && report.replay.is_none() && can_be_checked {
            writeln!(out, "\n{}", layout.paint.heading("What to do"))?;
            wrapped(
                out,
                layout,
                "  ",
                2,
                "See what recovery fixes, and which image to restore. check also compares images and WAL, so it may count more or fewer pages:",
            )?;
            writeln!(out, "       pg_dwbinspect check {}", printable(&quoted(&report.data_dir.display().to_string())))?;
        }
        listing.write(out, layout)?;
        closing.write_text(out, layout)?;
        write_facts(out, layout, &report)
    };
    headline(&report, &summary, closing.answer()).write_around(out, layout, rest)?;
    out.flush()?;
    Ok(closing.answer())
}

/// The answer. `summary`: the finding that counts damaged pages, if there are any.
fn headline(report: &VerifyReport, summary: &[Finding], answer: Answer) -> Headline {
    let counts = &report.counts;
    let mut sentences: Vec<String> =
        summary.iter().flat_map(|finding| [finding.to_string(), finding.why.to_owned()]).collect();
    let (badge, tone) = match summary.first().map(|finding| finding.severity) {
        Some(Severity::Problem) => ("DAMAGED", Tone::Bad),
        Some(Severity::Note) => ("HEALED BY REPLAY", Tone::Good),
        None => {
            let unseen = match report.checksums {
                Some(ChecksumState::Off) => "; without data checksums most damage is invisible",
                _ => "",
            };
            sentences.push(format!(
                "no damaged page among {} in {}{unseen}",
                many(counts.pages, "page"),
                many(report.files, "file")
            ));
            return Headline::undamaged(sentences, answer);
        }
    };
    Headline::new(badge, tone, sentences, answer)
}

/// Facts about the run.
fn write_facts(out: &mut dyn Write, layout: Layout, report: &VerifyReport) -> io::Result<()> {
    writeln!(out, "\n{}", layout.paint.heading("Evidence"))?;
    let mut fact = |label: &str, value: &str| write_fact(out, layout, label, value);
    fact("cluster", &report.condition.to_string())?;
    fact("data checksums", &checksum_words(report.checksums))?;
    let counts = &report.counts;
    fact(
        "checked",
        &format!("{} in {}, {}", many(counts.pages, "page"), many(report.files, "file"), size_words(counts.bytes)),
    )?;
    if counts.damaged > 0 {
        let damaged = format!(
            "{} in {}: {} with a wrong checksum, {} that the server refuses",
            many(counts.damaged, "page"),
            many(report.damaged_files, "file"),
            counts.checksum_failures,
            counts.rejected
        );
        fact("damaged", &damaged)?;
    }
    let holes = match counts.holes_bytes {
        0 => String::new(),
        bytes => format!("; {} are holes of their files, which hold zeros and were not read", size_words(bytes)),
    };
    fact("zero-filled", &format!("{}{holes}", many(counts.zeroed, "page")))?;
    if let Some(replay) = &report.replay {
        fact("replay", &replay_words(replay))?;
    }
    if let Some(count) = report.checksums_not_judged {
        fact("checksum differs", &format!("{}, which is not judged", many(count, "page")))?;
    }
    Ok(())
}

/// The available WAL, and its end.
fn replay_words(replay: &ReplaySummary) -> String {
    if matches!(replay.recovery, Recovery::None | Recovery::AfterReset) {
        return "none: startup replays no WAL".to_owned();
    }
    let from = replay.redo_lsn.map_or_else(|| "an unknown LSN".to_owned(), |lsn| lsn.to_string());
    let reached = match replay.backup_end {
        Some(BackupEnd::Reached { lsn }) => format!("; the end of the base backup is at {lsn}"),
        Some(BackupEnd::Missing) => "; the end of the base backup is not reached".to_owned(),
        Some(BackupEnd::Unknown) | None => String::new(),
    };
    match replay.end_lsn {
        Some(end) => format!("from {from} to the end of WAL at {end}{reached}"),
        None => format!("from {from}{reached}"),
    }
}

/// Text about one page.
fn page_words(page: &DamagedPage<'_>) -> String {
    let damage = match page.have_bytes {
        Some(have) => format!("the file ends after {have} bytes of the page"),
        None => page.damage.to_string(),
    };
    match page.fate {
        Some(fate) => format!("{damage}; {}: {fate}", heading_of(fate)),
        None => damage,
    }
}

/// Heading of a fate.
const fn heading_of(fate: &ReplayFate) -> &'static str {
    match fate {
        ReplayFate::Healed(_) => "healed in replay",
        ReplayFate::RealDamage(_) => "real damage",
        ReplayFate::Unknown(_) => "unknown",
    }
}

/// Damaged pages, by file, as far as people read lists.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    files: Vec<ListedFile>,
    further_pages: u64,
}

#[derive(Debug)]
struct ListedFile {
    path: String,
    relation: Option<String>,
    is_unlogged: bool,
    pages: Vec<(u32, u64, String)>,
    further: u64,
}

impl Listing {
    /// Adds a page; those of one file follow each other.
    pub fn add(&mut self, page: &DamagedPage<'_>) {
        if self.files.last().is_none_or(|file| file.path != page.path) {
            if self.files.len() >= MAX_FILES {
                self.further_pages += 1;
                return;
            }
            self.files.push(ListedFile {
                path: page.path.to_owned(),
                relation: page.relation.clone(),
                is_unlogged: page.is_unlogged,
                pages: Vec::new(),
                further: 0,
            });
        }
        let Some(file) = self.files.last_mut() else { return };
        if file.pages.len() < MAX_PAGES {
            file.pages.push((page.page.block, page.offset, page_words(page)));
        } else {
            file.further += 1;
        }
    }

    /// Writes the list; nothing when it is empty.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn write(&self, out: &mut dyn Write, layout: Layout) -> io::Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let paint = layout.paint;
        writeln!(out, "\n{}", paint.heading("Damaged pages"))?;
        for file in &self.files {
            let name = file.relation.as_ref().map_or_else(String::new, |name| format!(", {}", printable(name)));
            let unlogged = if file.is_unlogged { ", unlogged" } else { "" };
            writeln!(out, "  {}{name}{unlogged}", printable(&file.path))?;
            for (block, offset, words) in &file.pages {
                wrapped(out, layout, "    ", 6, &format!("block {block} at {offset:#X}: {words}"))?;
            }
            if file.further > 0 {
                writeln!(out, "    and {} more; --format json lists all", many(file.further, "page"))?;
            }
        }
        if self.further_pages > 0 {
            writeln!(out, "  and {} in more files; --format json lists all", many(self.further_pages, "page"))?;
        }
        Ok(())
    }
}
