//! `pg_dwbinspect innodb check`: every damaged page with a verdict.

use std::io::{self, Write};

use clap::Args;
use serde_json::{Map, Value, json};

use super::PROGRAM;
use super::args::DirectoryArgs;
use super::verify::scan_fields;
use crate::analysis::innodb::compare::InnodbComparison;
use crate::analysis::innodb::judge::{InnodbPage, InnodbVerdict};
use crate::cli::context::{OutputArgs, QuietArg};
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::{ByteBar, ProgressArg};
use crate::inspect::innodb::check::{InnodbExamination, innodb_check};
use crate::output::closing::{Closing, begin};
use crate::output::innodb_text::{write_innodb_page, write_instance, write_judged, write_scanned, write_verdicts};
use crate::output::json::Item;
use crate::output::json::innodb::{INNODB_PAGE_COLUMNS, SlotSetting, innodb_lsn_text};
use crate::output::sink::CsvShape;

/// Find torn pages of MySQL or MariaDB, and say what the doublewrite buffer can give back
///
/// Reads every page of every tablespace and every slot of the doublewrite buffer. Each damaged page, and each page of zeros that has
/// an image, gets a verdict, and what the next start of the server does with it by the rules of its family. Nothing is ever
/// proven: which version of a page is right is known only after replay of the redo log, which this does not do.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub struct CheckArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Show the evidence for every verdict: all images, and where the sectors of a torn page come from
    #[arg(long)]
    explain: bool,
    /// Show also pages that are whole and that the doublewrite buffer holds
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  pg_dwbinspect innodb check /var/lib/mysql
  pg_dwbinspect innodb check --explain /var/lib/mysql
  pg_dwbinspect innodb check --format ndjson DATADIR | jq 'select(.type == \"page\")'

Verdicts:
  server_restores   by its own rule the server writes an image over the page; the image is whole
                    and not older than the checkpoint
  restore_unproven  a whole image is there; the server does not use it, or it may be outdated
  no_image          no whole image is there
  whole             the page is whole (with --all)

Work on a copy: a start of the server overwrites slots.
";

pub(super) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let mut nowhere = io::sink();
    let out = args.quiet.output(out, &mut nowhere);
    let bar = ByteBar::new(args.progress);
    let mut examined = innodb_check(&args.directory.request(), args.all, &|done, total| bar.at(done, total))?;
    drop(bar);
    let closing = Closing::new(std::mem::take(&mut examined.findings), &examined.coverage);
    let shown = args.directory.shown();
    let pages: Vec<&InnodbPage> = examined.pages.iter().chain(&examined.whole).collect();
    let source = &examined.source;
    let setting =
        SlotSetting { doublewrite: &source.doublewrite, spaces: &source.spaces, checkpoint: source.checkpoint() };
    if let Some(format) = args.output.machine() {
        let shape = CsvShape::Rows { plural: "pages", columns: INNODB_PAGE_COLUMNS };
        let mut sink = begin(format, shape, out, (PROGRAM, "innodb check"), vec![shown])?;
        for page in &pages {
            sink.item(&Item::Page(setting.page_row(page)))?;
        }
        return Ok(closing.end(sink, pages.len() as u64, fields(&examined))?.into());
    }
    let layout = args.output.layout();
    let buffer = (&source.doublewrite, examined.content.counts.as_slice());
    write_instance(out, layout, &shown, (source.family, &source.log), buffer, &source.spaces)?;
    writeln!(out)?;
    write_scanned(out, layout, &examined.scan.counts)?;
    write_judged(out, layout, setting, &pages)?;
    if args.explain {
        for page in &pages {
            write_innodb_page(out, layout, setting, page)?;
        }
    }
    closing.write_text(out, layout)?;
    write_verdicts(out, layout, &pages, &examined.start.to_string())?;
    out.flush()?;
    Ok(closing.answer().into())
}

/// Fields of the last line of machine formats.
fn fields(examined: &InnodbExamination) -> Map<String, Value> {
    let verdicts: Map<String, Value> =
        InnodbVerdict::ALL.iter().map(|verdict| (verdict.name().to_owned(), json!(examined.count(*verdict)))).collect();
    let by_word = |word: InnodbComparison| {
        let all = examined.pages.iter().chain(&examined.whole);
        all.filter(|page| page.disk == word).count()
    };
    let words: Map<String, Value> =
        InnodbComparison::ALL.into_iter().map(|word| (word.name().to_owned(), json!(by_word(word)))).collect();
    let source = &examined.source;
    let mut fields = scan_fields(&examined.scan);
    for (name, value) in [
        ("family", json!(source.family.name())),
        ("checkpoint_lsn", json!(source.checkpoint().map(innodb_lsn_text))),
        ("verdicts", Value::Object(verdicts)),
        ("disk", Value::Object(words)),
        ("start", json!(examined.start.name())),
    ] {
        fields.insert(name.to_owned(), value);
    }
    fields
}
