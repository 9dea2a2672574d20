//! `pg_dwbinspect page --history`: what WAL says of one block, record by record.

use std::io::Write;
use std::path::Path;

use super::PROGRAM;
use super::bars::Bars;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::page_history::HistoryRow;
use crate::cli::context::RunArgs;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::ByteBar;
use crate::inspect::page_at::PagesAtRequest;
use crate::inspect::page_changes::{PageChanges, PageStep, page_changes};
use crate::inspect::page_history::{HistoryRequest, PageHistory, page_history};
use crate::output::check_text::page_and_path;
use crate::output::closing::{Closing, begin};
use crate::output::escape::printable;
use crate::output::history_text::write_rows;
use crate::output::json::Item;
use crate::output::json::history::{HISTORY_COLUMNS, HistoryJson};
use crate::output::json::page_change::{ChangedBy, PageChangeJson};
use crate::output::json::wal::Row;
use crate::output::page_change_text::write_change;
use crate::output::sink::CsvShape;
use crate::output::words::page_action::event_words;
use crate::types::PageId;

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
