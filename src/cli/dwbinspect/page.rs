//! `pg_dwbinspect page`: everything about one block.
//! With `--at` the block as it was; with `--history` what WAL says of it, record by record.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::PROGRAM;
use super::check::Bars;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::images::{PageVersion, VersionOf};
use crate::analysis::verdict::page_history::HistoryRow;
use crate::analysis::verdict::survey::PageReport;
use crate::cli::context::RunArgs;
use crate::cli::exit::{Outcome, Stop, UsageError};
use crate::cli::values::{PgData, page_file_name};
use crate::cli::work::{ByteBar, DonorArgs, RebuildArg, ServerArgs};
use crate::inspect::check::{CheckRequest, Scope, check};
use crate::inspect::error::InspectError;
use crate::inspect::examination::Examination;
use crate::inspect::next::{judged_cluster, step_context, steps_for};
use crate::inspect::page_at::{Moment, PageAt, PageChanges, PageStep, PagesAt, PagesAtRequest, page_changes, pages_at};
use crate::inspect::page_history::{HistoryRequest, PageHistory, page_history};
use crate::inspect::page_name::PageName;
use crate::inspect::page_rows::{RowSets, page_versions};
use crate::inspect::page_target::{demand_page, find_page};
use crate::output::check_text::page_and_path;
use crate::output::closing::{Closing, begin};
use crate::output::escape::printable;
use crate::output::hexdump::write_page;
use crate::output::json::Item;
use crate::output::json::page::PageLocation;
use crate::output::json::page_at::{
    ChangedBy, HISTORY_COLUMNS, HistoryJson, PAGE_AT_COLUMNS, PageAtJson, PageChangeJson, PageThen,
};
use crate::output::json::wal::Row;
use crate::output::next_step_text::write_steps;
use crate::output::page_text::{write_change, write_difference, write_headers, write_items, write_page_text};
use crate::output::record_text::write_rows;
use crate::output::sink::CsvShape;
use crate::output::text::Layout;
use crate::output::words::rows::event_words;
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::rebuild::ServerProgram;
use crate::repair::export::ExportDir;
use crate::types::{ForkNumber, Lsn, MAX_BLOCK_NUMBER, PageId};

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

/// How the page is shown.
pub(super) struct PageAtView<'a> {
    pub run: &'a RunArgs,
    /// With its bytes.
    pub hex: bool,
    /// Directory that it is written into.
    pub images: Option<&'a Path>,
}

/// Builds the only page of `request` and shows it.
pub(super) fn show_page_at(
    request: &PagesAtRequest,
    view: &PageAtView<'_>,
    out: &mut dyn Write,
) -> Result<Outcome, Stop> {
    let bars = Bars::new(view.run.progress);
    let PagesAt { pages, mut history, server, sandbox, .. } = pages_at(request, &bars)?;
    drop(bars);
    let mut then = Vec::new();
    for (page, _, result) in pages {
        let title = || format!("{} ({})", history.called(page), history.path_of(page));
        then.push(result.map_err(|why| InspectError::NotThen { title: title(), why: Box::new(why) })?);
    }
    let (Some(at), Some(server)) = (then.first(), server) else { return Err(InspectError::ReplayBrokenOff.into()) };
    let file = view.images.map(|directory| export(directory, at, &history)).transpose()?;
    let closing = Closing::new(std::mem::take(&mut history.findings), &history.coverage);
    let page = at.page;
    if let Some(format) = view.run.output.machine() {
        let shape = CsvShape::Rows { plural: "pages_at", columns: PAGE_AT_COLUMNS };
        let shown = request.data_dir.display().to_string();
        let mut sink = begin(format, shape, out, (PROGRAM, "page"), vec![shown])?;
        let (path, relation) = (history.path_of(page), history.relation_name(page));
        let location =
            PageLocation { path: &path, relation: relation.as_deref(), database: history.database_name(page) };
        let row = PageThen {
            lsn: at.lsn,
            plan: &at.plan,
            built: &at.built,
            server: &server.version,
            sandbox: sandbox.as_deref(),
        };
        sink.item(&Item::PageAt(Box::new(PageAtJson::new(&row, &location, file.as_deref()))))?;
        return Ok(closing.end(sink, 1, Row::new())?.into());
    }
    write_page_then(out, view, at, &history, (&server, sandbox.as_deref()))?;
    if let Some(file) = file {
        writeln!(out, "\nwritten to {}", printable(&file))?;
    }
    Ok(closing.end_text(out, view.run.output.layout())?.into())
}

/// Writes the page into a new file; its path.
fn export(directory: &Path, at: &PageAt, history: &PageHistory) -> Result<String, InspectError> {
    let protected = history.own_directories()?;
    let export = ExportDir::create(directory, &protected)?;
    let (rel, block, fork) = (at.page.rel, at.page.block, at.page.fork.to_string());
    let name = page_file_name(history.timeline_at(at.lsn), at.lsn, rel, block, &fork);
    Ok(export.write_new(&name, &at.built.bytes)?.display().to_string())
}

fn write_page_then(
    out: &mut dyn Write,
    view: &PageAtView<'_>,
    at: &PageAt,
    history: &PageHistory,
    (server, sandbox): (&ServerProgram, Option<&Path>),
) -> Result<(), Stop> {
    let layout = view.run.output.layout();
    let page = at.page;
    let title = page_and_path(&history.called(page), page, &history.path_of(page));
    writeln!(out, "{}", layout.paint.heading(&format!("{title}, as it was at {}", at.lsn)))?;
    writeln!(out, "  base     {}", at.plan.base)?;
    let records = match (at.built.first_lsn, at.built.last_lsn) {
        (Some(first), Some(last)) if first != last => format!("{}, from {first} to {last}", at.built.records),
        (Some(only), _) => format!("{}, at {only}", at.built.records),
        _ => at.built.records.to_string(),
    };
    writeln!(out, "  records  {records}")?;
    writeln!(out, "  server   {} ({})", server.version, printable(&server.path.display().to_string()))?;
    if let Some(sandbox) = sandbox {
        writeln!(out, "  sandbox  {}, kept", printable(&sandbox.display().to_string()))?;
    }
    let then = PageVersion { of: VersionOf::Then(at.lsn), bytes: at.built.bytes.clone() };
    let disk = history.on_disk(page).ok().map(|bytes| PageVersion { of: VersionOf::Disk, bytes });
    let versions: Vec<PageVersion> = [Some(then.clone()), disk.clone()].into_iter().flatten().collect();
    write_headers(out, layout, page, &versions)?;
    write_items(out, layout, page, std::slice::from_ref(&then))?;
    if let Some(disk) = disk {
        write_difference(out, layout, &disk, &then, view.hex)?;
    }
    if view.hex {
        writeln!(out, "\n{}", layout.paint.heading(&format!("The page at {}", at.lsn)))?;
        let header = PageHeader::decode(0, &then.bytes).ok();
        let kind = header.map_or(PageKind::Unknown, |header| PageKind::of(&header, &then.bytes, page.fork));
        write_page(out, layout.paint, 0, &then.bytes, kind)?;
    }
    Ok(())
}

/// Shows what WAL says of the page, record by record.
pub(super) fn show_history(request: &HistoryRequest, run: &RunArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let bar = ByteBar::new(run.progress);
    let found = page_history(request, &|done, total| bar.at(done, total))?;
    drop(bar);
    show(found, None, &request.data_dir, run, out)
}

/// Prints the history, and the changes by the last records.
pub(super) fn show_changes(
    request: &PagesAtRequest,
    page: PageId,
    run: &RunArgs,
    out: &mut dyn Write,
) -> Result<Outcome, Stop> {
    let bars = Bars::new(run.progress);
    let PageChanges { history, steps } = page_changes(request, page, &bars)?;
    drop(bars);
    show(history, Some(&steps), &request.data_dir, run, out)
}

fn show(
    mut found: PageHistory,
    steps: Option<&[PageStep]>,
    data_dir: &Path,
    run: &RunArgs,
    out: &mut dyn Write,
) -> Result<Outcome, Stop> {
    let Some(page) = found.pages.first().copied() else { return Ok(Answer::Fine.into()) };
    let closing = Closing::new(std::mem::take(&mut found.findings), &found.coverage);
    let rows = found.rows(0);
    if let Some(format) = run.output.machine() {
        let shape = CsvShape::Rows { plural: "history", columns: HISTORY_COLUMNS };
        let mut sink = begin(format, shape, out, (PROGRAM, "page"), vec![data_dir.display().to_string()])?;
        for row in &rows {
            let outcome = match row {
                HistoryRow::Record(_, event) => found.outcome(event),
                _ => None,
            };
            sink.item(&Item::History(Box::new(HistoryJson::new(page, *row, found.major, outcome))))?;
        }
        for step in steps.unwrap_or_default() {
            let by = ChangedBy { page, number: step.number, event: &step.event, major: found.major };
            let diff = step.diff.as_ref().map_err(|why| (why.code(), why.to_string()));
            sink.item(&Item::PageChange(Box::new(PageChangeJson::new(&by, diff))))?;
        }
        return Ok(closing.end(sink, rows.len() as u64, Row::new())?.into());
    }
    let layout = run.output.layout();
    let title = page_and_path(&found.called(page), page, &found.path_of(page));
    writeln!(out, "{}\n", layout.paint.heading(&title))?;
    if found.events(0).is_empty() {
        writeln!(out, "  no record in the WAL that was read touches this page\n")?;
    }
    write_rows(out, layout, &rows, found.major, &|event| found.outcome(event).copied())?;
    if let Some(steps) = steps {
        let all = found.events(0).len();
        let which = if steps.len() < all { format!(", the last {} of {all}", steps.len()) } else { String::new() };
        writeln!(out, "\n{}", layout.paint.heading(&format!("Changes by these records{which}")))?;
        for PageStep { number, event, diff } in steps {
            let name = printable(&event.name(found.major));
            writeln!(out, "  {number} at {}, {name}: {}", event.start_lsn, event_words(event))?;
            match diff {
                Ok(diff) => write_change(out, diff)?,
                Err(why) => writeln!(out, "    unknown: {}", printable(&why.to_string()))?,
            }
        }
    }
    Ok(closing.end_text(out, layout)?.into())
}
