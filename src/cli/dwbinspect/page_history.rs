//! `pg_dwbinspect page --history`: what WAL says of one block, record by record.

use std::io::Write;

use super::PROGRAM;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::page_history::HistoryRow;
use crate::cli::context::RunArgs;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::ByteBar;
use crate::inspect::page_history::{HistoryRequest, page_history};
use crate::output::check_text::page_and_path;
use crate::output::closing::{Closing, begin};
use crate::output::history_text::write_rows;
use crate::output::json::Item;
use crate::output::json::history::{HISTORY_COLUMNS, history_row};
use crate::output::json::wal::Row;
use crate::output::sink::CsvShape;

/// Shows what WAL says of the page, record by record.
pub(super) fn show_history(request: &HistoryRequest, run: &RunArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let bar = ByteBar::new(run.progress);
    let mut found = page_history(request, &|done, total| bar.at(done, total))?;
    drop(bar);
    let Some(page) = found.pages.first().copied() else { return Ok(Answer::Fine.into()) };
    let closing = Closing::new(std::mem::take(&mut found.findings), &found.coverage);
    let rows = found.rows(0);
    if let Some(format) = run.output.machine() {
        let shape = CsvShape::Rows { plural: "history", columns: HISTORY_COLUMNS };
        let shown = request.data_dir.display().to_string();
        let mut sink = begin(format, shape, out, (PROGRAM, "page"), vec![shown])?;
        for row in &rows {
            let outcome = match row {
                HistoryRow::Record(_, event) => found.outcome(event),
                _ => None,
            };
            sink.item(&Item::History(history_row(page, *row, found.major, outcome)))?;
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
    Ok(closing.end_text(out, layout)?.into())
}
