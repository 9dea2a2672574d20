//! `pg_dwbinspect innodb page`: everything about one page.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::PROGRAM;
use super::args::BufferArgs;
use crate::cli::context::OutputArgs;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{ByteBar, ProgressArg};
use crate::inspect::innodb::check::innodb_page;
use crate::output::closing::{Closing, begin};
use crate::output::innodb_text::{NOT_PREDICTED, write_innodb_page};
use crate::output::json::Item;
use crate::output::json::innodb::INNODB_PAGE_COLUMNS;
use crate::output::sink::CsvShape;
use crate::output::text::wrapped;

/// Show everything about one page: disk, images and sectors
///
/// TABLESPACE is its number, or the path of its file in the data directory, such as shop/orders.ibd. The tablespace is read as
/// a whole: its newest LSN shows whether the doublewrite buffer was in use.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub struct PageArgs {
    /// Data directory of a stopped server: the one with ibdata1
    #[arg(value_name = "DATADIR")]
    data_dir: PathBuf,
    /// The tablespace
    #[arg(value_name = "TABLESPACE")]
    tablespace: String,
    /// Number of the page in it
    #[arg(value_name = "PAGE")]
    page_no: u32,
    #[command(flatten)]
    of_buffer: BufferArgs,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &PageArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let bar = ByteBar::new(args.progress);
    let request = args.of_buffer.request(args.data_dir.clone());
    let mut examined = innodb_page(&request, &args.tablespace, args.page_no, &|done, total| bar.at(done, total))?;
    drop(bar);
    let closing = Closing::new(std::mem::take(&mut examined.findings), &examined.coverage);
    let source = &examined.source;
    let setting = source.setting();
    if let Some(format) = args.output.machine() {
        let shape = CsvShape::Rows { plural: "pages", columns: INNODB_PAGE_COLUMNS };
        let paths = vec![args.data_dir.display().to_string()];
        let mut sink = begin(format, shape, out, (PROGRAM, "innodb page"), paths)?;
        for page in &examined.pages {
            sink.item(&Item::Page(setting.page_row(page)))?;
        }
        return Ok(closing.end(sink, examined.pages.len() as u64, serde_json::Map::new())?.into());
    }
    let layout = args.output.layout();
    for page in &examined.pages {
        write_innodb_page(out, layout, setting, page)?;
    }
    wrapped(out, layout, "  ", 2, NOT_PREDICTED)?;
    Ok(closing.end_text(out, layout)?.into())
}
