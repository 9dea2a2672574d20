//! `pg_walfpi list`: every image.

use std::io::{self, Write};

use clap::Args;

use super::images::{IMAGE_COLUMNS, ImageFilter, each_image, image_row};
use super::names::Names;
use super::source::{CommonArgs, Source};
use crate::cli::context::Closing;
use crate::cli::exit::{Outcome, Stop};
use crate::output::escape::printable;
use crate::output::json::Item;
use crate::output::json::wal::Row;
use crate::output::sink::{CsvShape, Sink};
use crate::output::text::Layout;

/// List the full-page images, one line each
///
/// Shows the LSN and type of the record, the block, the size as stored and of the page, the hole, the compression,
/// whether redo applies the image, and why it was written.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub struct ListArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    filter: ImageFilter,
}

enum Target<'a> {
    Machine(Sink<'a>),
    Text(Layout, &'a mut dyn Write),
}

pub(super) fn run(args: &ListArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let names = Names::open(&args.common.names)?;
    let mut source = Source::open(&args.common.source)?;
    source.add_name_notes(&names);
    let layout = args.common.output.layout();
    let mut target = match args.common.output.machine() {
        Some(format) => {
            let shape = CsvShape::Rows { plural: "images", columns: IMAGE_COLUMNS };
            Target::Machine(source.begin(format, shape, out, "list")?)
        }
        None => {
            write_heading(out, layout)?;
            Target::Text(layout, out)
        }
    };
    let mut shown = 0;
    each_image(&mut source, &Source::plan(&args.common.source), &args.filter, |_, found| {
        shown += 1;
        let row = image_row(found, &names);
        match &mut target {
            Target::Machine(sink) => sink.item(&Item::Image(row)),
            Target::Text(layout, out) => write_image(*out, *layout, &row),
        }
    })?;
    let closing = Closing::new(std::mem::take(&mut source.findings), &source.coverage);
    match target {
        Target::Machine(sink) => closing.end(sink, shown, Row::new()),
        Target::Text(layout, out) => {
            writeln!(out, "\n{shown} images in {} records", source.coverage.examined)?;
            closing.end_text(out, layout)
        }
    }
}

fn write_heading(out: &mut dyn Write, layout: Layout) -> io::Result<()> {
    let heading = format!(
        "{:<11} {:<21} {:<15} {:<4} {:>6} {:>6} {:<4} cause",
        "lsn", "record", "relation", "fork", "block", "stored", "how"
    );
    writeln!(out, "{}", layout.paint.heading(&heading))
}

/// Writes one image.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_image(out: &mut dyn Write, layout: Layout, row: &Row) -> io::Result<()> {
    let text = |name: &str| match row.get(name) {
        Some(serde_json::Value::String(text)) => printable(text),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let relation = match row.get("relation").and_then(serde_json::Value::as_str) {
        Some(name) => printable(name),
        None => format!("{}/{}/{}", text("spc_oid"), text("db_oid"), text("rel_number")),
    };
    let record = format!("{}/{}", text("rmgr"), text("record"));
    let record = if layout.width < 100 { record.chars().take(21).collect() } else { record };
    writeln!(
        out,
        "{:<11} {record:<21} {relation:<15} {:<4} {:>6} {:>6} {:<4} {}",
        text("lsn"),
        text("fork"),
        text("block"),
        text("stored_bytes"),
        text("compression"),
        text("cause")
    )
}
