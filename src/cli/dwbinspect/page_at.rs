//! `pg_dwbinspect page --at`: one block as it was.

use std::io::Write;
use std::path::Path;

use super::PROGRAM;
use super::bars::Bars;
use crate::analysis::verdict::fetch::{PageVersion, VersionOf};
use crate::cli::context::RunArgs;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::values::page_file_name;
use crate::inspect::error::InspectError;
use crate::inspect::page_at::{PageAt, PagesAt, PagesAtRequest, pages_at};
use crate::inspect::page_history::PageHistory;
use crate::output::check_text::page_and_path;
use crate::output::closing::{Closing, begin};
use crate::output::escape::printable;
use crate::output::hexdump::write_page;
use crate::output::json::Item;
use crate::output::json::page::PageLocation;
use crate::output::json::page_at::{PAGE_AT_COLUMNS, PageAtJson, PageThen};
use crate::output::json::wal::Row;
use crate::output::page_text::{write_difference, write_headers, write_items};
use crate::output::sink::CsvShape;
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::rebuild::ServerProgram;
use crate::repair::export::ExportDir;

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
    write_text(out, view, at, &history, (&server, sandbox.as_deref()))?;
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

fn write_text(
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
