//! `pg_dwbinspect verify`: every page of every relation file, judged by itself.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use super::PROGRAM;
use super::verify_select::SelectArgs;
use super::verify_text::{Listing, write_report};
use crate::analysis::verdict::backup::BackupEnd;
use crate::cli::context::{OutputArgs, QuietArg};
use crate::cli::data_dir_arg::PgData;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::inspect::verify::{Verification, VerifyReport, VerifyRequest};
use crate::output::closing::{Closing, begin};
use crate::output::json::bad_page::{BAD_PAGE_COLUMNS, BadPageJson, BadPageLocation};
use crate::output::json::page::PageLocation;
use crate::output::json::{Item, lsn_text};
use crate::output::sink::CsvShape;
use crate::output::words::cluster::checksum_words;

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
