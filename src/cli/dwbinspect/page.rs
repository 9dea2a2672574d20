//! `pg_dwbinspect page`: everything about one block.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::PROGRAM;
use super::bars::Bars;
use super::page_at::{PageAtView, show_page_at};
use super::page_history::{show_changes, show_history};
use crate::analysis::verdict::survey::PageReport;
use crate::cli::context::RunArgs;
use crate::cli::data_dir_arg::PgData;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::usage::UsageError;
use crate::cli::work::{DonorArgs, RebuildArg, ServerArgs};
use crate::inspect::check::{CheckRequest, Scope, check};
use crate::inspect::error::InspectError;
use crate::inspect::examination::Examination;
use crate::inspect::next::{judged_cluster, step_context, steps_for};
use crate::inspect::page_at::{Moment, PagesAtRequest};
use crate::inspect::page_history::HistoryRequest;
use crate::inspect::page_name::PageName;
use crate::inspect::page_rows::RowSets;
use crate::inspect::page_target::{demand_page, find_page};
use crate::inspect::page_versions::page_versions;
use crate::output::check_text::page_and_path;
use crate::output::closing::Closing;
use crate::output::next_step_text::write_steps;
use crate::output::page_document::write_page_text;
use crate::output::text::Layout;
use crate::types::{ForkNumber, Lsn, MAX_BLOCK_NUMBER};

/// Show everything about one block: disk and images side by side, its WAL records, the verdict and its proof
///
/// RELATION is a name (table, schema.table or database.schema.table), numbers (REL, DB/REL or SPC/DB/REL), or the path
/// of a relation file below the data directory, such as base/5/1259 or base/5/1259_vm. BLOCK counts from the start of the
/// fork, also for a file that is not the first segment. RELATION:BLOCK may also be a quoted line of the server log, as in
/// 'invalid page in block 7 of relation base/5/16408'.
#[derive(Debug, Args)]
#[command(
    after_help = crate::cli::exit::EXIT_STATUS,
    override_usage = "pg_dwbinspect page [OPTIONS] DATADIR RELATION BLOCK\n       pg_dwbinspect page [OPTIONS] DATADIR RELATION:BLOCK\n       pg_dwbinspect page [OPTIONS] -D DATADIR RELATION BLOCK"
)]
pub(crate) struct PageArgs {
    /// Data directory of a stopped server; omit it with -D or PGDATA
    #[arg(value_name = "DATADIR")]
    first: OsString,
    /// The relation
    #[arg(value_name = "RELATION")]
    second: Option<OsString>,
    /// The block, within the fork
    #[arg(value_name = "BLOCK")]
    third: Option<OsString>,
    #[command(flatten)]
    pgdata: PgData,
    /// Show the bytes that differ between disk and images, in hex
    #[arg(long)]
    hex: bool,
    /// Show the rows, or entries of an index, that are restored, lost or changed if an image is restored, with their
    /// columns; with --format json all of them
    #[arg(long)]
    rows: bool,
    /// List all WAL records of the page with their changes, instead
    #[arg(long, conflicts_with_all = ["hex", "rows"])]
    history: bool,
    /// With --history: the changes by the last 20 records, found by replay in a sandbox
    #[arg(long, requires = "history")]
    diff: bool,
    /// Show the page after the last record that ends at or before LSN, rebuilt in a sandbox
    #[arg(long, value_name = "LSN", conflicts_with = "history", group = "moment", help_heading = "The page as it was")]
    at: Option<Lsn>,
    /// Show the page after record N of its --history
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "history",
        group = "moment",
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "The page as it was"
    )]
    at_record: Option<u64>,
    /// Also write it into this directory, as a file of one page
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "history",
        requires = "moment",
        help_heading = "The page as it was"
    )]
    images: Option<PathBuf>,
    #[command(flatten)]
    replay: ServerArgs,
    /// Fork: main, fsm, vm or init [default: main, or the one in the path]
    #[arg(long, value_name = "FORK")]
    fork: Option<ForkNumber>,
    /// More WAL: archive directory, segments, tar archives, patterns; plain or compressed
    #[arg(long, value_name = "PATH")]
    wal: Vec<PathBuf>,
    #[command(flatten)]
    donor: DonorArgs,
    #[command(flatten)]
    rebuild: RebuildArg,
    #[command(flatten)]
    run: RunArgs,
}

pub(super) fn run(args: &PageArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let mut nowhere = std::io::sink();
    let out = args.run.quiet.output(out, &mut nowhere);
    let (data_dir, name) = args.named()?;
    let page = find_page(&data_dir, &name, args.fork)?;
    if args.history && !args.diff {
        let (wal, donors) = (args.wal.clone(), args.donor.donors.clone());
        let request = HistoryRequest { data_dir, pages: vec![page], wal, donors, jobs: args.run.jobs.count() };
        return show_history(&request, &args.run, out);
    }
    if args.diff || args.moment().is_some() {
        let request = PagesAtRequest {
            data_dir,
            wal: args.wal.clone(),
            donors: args.donor.donors.clone(),
            jobs: args.run.jobs.count(),
            server: args.replay.options(),
            wanted: args.moment().map(|moment| (page, moment)).into_iter().collect(),
        };
        if args.diff {
            return show_changes(&request, page, &args.run, out);
        }
        let view = PageAtView { run: &args.run, hex: args.hex, images: args.images.as_deref() };
        return show_page_at(&request, &view, out);
    }
    let request = CheckRequest {
        scope: Scope::Page(page),
        wal: args.wal.clone(),
        donors: args.donor.donors.clone(),
        jobs: args.run.jobs.count(),
        rebuild: args.rebuild.with(&args.replay, (false, "--rebuild, --diff, --at or --at-record"))?,
        ..CheckRequest::of(&data_dir)
    };
    let examined = check(&request, &Bars::new(args.run.progress))?;
    demand_page(&examined, page)?;
    let answer = examined.answer_of_pages();
    let closing = Closing::new(examined.findings.clone(), &examined.coverage).answering(answer);
    if let Some(format) = args.run.output.machine() {
        let found: Vec<&PageReport> = examined.report.pages.iter().collect();
        let shown = data_dir.display().to_string();
        let mut rows = Vec::new();
        for report in found.iter().filter(|_| args.rows) {
            let versions = page_versions(&examined, report);
            rows.extend(RowSets::of(&examined, report.page, &versions).json(report.page, &versions));
        }
        return Ok(judged_cluster(&examined, PROGRAM, &shown).write_pages(out, format, &found, rows, closing)?.into());
    }
    let layout = args.run.output.layout();
    if let Some(found) = examined.report.pages.first() {
        write_text(out, layout, found, &examined, args)?;
    }
    closing.write_text(out, layout)?;
    if let Some(found) = examined.report.pages.first().filter(|found| found.is_wrong) {
        let steps = steps_for(&examined, std::slice::from_ref(found), &examined.report.outlook);
        let shown = data_dir.display().to_string();
        write_steps(out, layout, &steps, step_context(&examined, &shown))?;
    }
    out.flush()?;
    Ok(closing.answer().into())
}

impl PageArgs {
    /// The point in time at which the page is shown.
    fn moment(&self) -> Option<Moment> {
        self.at.map(Moment::At).or(self.at_record.map(Moment::AfterRecord))
    }

    /// Data directory and page.
    fn named(&self) -> Result<(PathBuf, PageName), Stop> {
        let directory = Some(Path::new(&self.first));
        let is_number = |text: &OsString| text.to_string_lossy().parse::<u64>().is_ok();
        let (data_dir, relation, block) = match (&self.second, &self.third) {
            (Some(relation), Some(block)) => (directory, relation, Some(block)),
            (Some(block), None) if is_number(block) => (None, &self.first, Some(block)),
            (Some(page), None) => (directory, page, None),
            (None, _) => (None, &self.first, None),
        };
        let relation = relation.to_string_lossy();
        let name = match block.map(|block| block.to_string_lossy()) {
            Some(block) => {
                let number = block.parse().ok().filter(|number| *number <= MAX_BLOCK_NUMBER);
                let number = number.ok_or_else(|| UsageError::NotABlock(block.into_owned()))?;
                PageName::of_relation(&relation, Some(number)).map_err(InspectError::from)?
            }
            None => relation.parse().map_err(UsageError::NotAPage)?,
        };
        Ok((self.pgdata.choose(data_dir)?, name))
    }
}

fn write_text(
    out: &mut dyn Write,
    layout: Layout,
    found: &PageReport,
    examined: &Examination,
    args: &PageArgs,
) -> Result<(), Stop> {
    let page = found.page;
    let title = page_and_path(&examined.called(page), page, &examined.path_of(page));
    let versions = page_versions(examined, found);
    let sets = args.rows.then(|| RowSets::of(examined, page, &versions));
    let rows: Vec<_> = sets.iter().flat_map(|sets| sets.each(&versions)).collect();
    let cluster = judged_cluster(examined, PROGRAM, "");
    Ok(write_page_text(out, layout, (cluster, &title), found, &versions, &rows, args.hex)?)
}
