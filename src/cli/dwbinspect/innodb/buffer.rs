//! `pg_dwbinspect innodb info`, `batches` and `dump`: the doublewrite buffer.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::Map;

use super::{DirectoryArgs, PROGRAM};
use crate::analysis::error_words::ErrorWords;
use crate::analysis::innodb::scan::ScanReport;
use crate::analysis::innodb::slot::SlotFacts;
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::cli::context::OutputArgs;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::work::until_interrupted;
use crate::cluster::innodb::doublewrite::SlotFile;
use crate::cluster::innodb::tablespace::PageReader;
use crate::inspect::error::InspectError;
use crate::inspect::innodb::source::InnodbSource;
use crate::output::closing::{Closing, begin};
use crate::output::innodb_text::{
    InnodbSlotLines, write_entries, write_innodb_batches, write_instance, write_tablespaces,
};
use crate::output::json::Item;
use crate::output::json::innodb::{INNODB_BATCH_COLUMNS, INNODB_SLOT_COLUMNS, tablespace_row};
use crate::output::sink::{CsvShape, Sink};
use crate::output::text::Layout;
use crate::repair::export::ExportDir;

/// Show server, checkpoint, doublewrite buffer and tablespaces
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn info(args: &InfoArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let request = args.directory.request();
    let (source, findings, mut coverage) = InnodbSource::open(&request)?;
    let content = source.read_buffer(request.jobs, &mut coverage, &until_interrupted())?;
    let (shown, setting) = (args.directory.shown(), source.setting());
    let closing = Closing::new(findings, &coverage);
    if let Some(format) = args.output.machine() {
        let files = setting.file_rows(&content.counts).into_iter().map(Item::InnodbFile);
        let rows = std::iter::once(Item::Instance(setting.instance_row(&shown))).chain(files);
        let rows = rows.chain(source.spaces.all.iter().map(tablespace_row).map(Item::Tablespace));
        let closing = (closing, Map::new());
        return args.directory.write_rows(out, (format, CsvShape::Pairs), "innodb info", rows, closing);
    }
    let layout = args.output.layout();
    write_instance(out, layout, &shown, setting, &content.counts)?;
    write_tablespaces(out, layout, &source.spaces)?;
    Ok(closing.end_text(out, layout)?.into())
}

/// List the groups of slots that can be distinguished
///
/// InnoDB marks neither the beginning nor the end of a batch. Slots are separated by file, by part of the file (pages written
/// together or one by one, where the sizes of the files show it), and by the checkpoint: "current" are images that are not older,
/// "stale" those that are, "undecided" damaged ones.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub(crate) struct BatchesArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn batches(args: &BatchesArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let request = args.directory.request();
    let (source, findings, mut coverage) = InnodbSource::open(&request)?;
    let content = source.read_buffer(request.jobs, &mut coverage, &until_interrupted())?;
    let batches = content.batches(source.checkpoint());
    let rows = batches.iter().map(|batch| source.setting().batch_row(batch));
    let closing = Closing::new(findings, &coverage);
    if let Some(format) = args.output.machine() {
        let shape = CsvShape::Rows { plural: "batches", columns: INNODB_BATCH_COLUMNS };
        let (rows, closing) = (rows.map(Item::InnodbBatch), (closing, Map::new()));
        return args.directory.write_rows(out, (format, shape), "innodb batches", rows, closing);
    }
    let layout = args.output.layout();
    write_innodb_batches(out, layout, rows)?;
    Ok(closing.end_text(out, layout)?.into())
}

/// Show every slot of the doublewrite buffer, and every entry without an image
///
/// One line per slot: the page that it holds, its LSN, whether the image is whole, whether it is current (not older than the
/// checkpoint of the redo log), and how it compares with the page in the data file. Nothing marks a slot as finished: old images
/// stay until they are overwritten.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES_OF_DUMP}\n{EXIT_STATUS}"))]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Write each image as a new file into this directory
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES_OF_DUMP: &str = "\
Examples:
  pg_dwbinspect innodb dump /var/lib/mysql
  pg_dwbinspect innodb dump --format ndjson DATADIR | jq 'select(.disk == \"torn\")'
  pg_dwbinspect innodb dump --images /tmp/images DATADIR

Images are saved byte for byte as they are in the slot. Their names are tablespace, page and LSN,
followed by file and slot.
";

pub(super) fn dump(args: &DumpArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let request = args.directory.request();
    let (source, findings, mut coverage) = InnodbSource::open(&request)?;
    let export = match &args.images {
        Some(path) => Some(ExportDir::create(path, &request.protected()?).map_err(InspectError::from)?),
        None => None,
    };
    let watch = until_interrupted();
    let content = source.read_buffer(request.jobs, &mut coverage, &watch)?;
    let setting = source.setting();
    let context = source.context(&content, &ScanReport::default(), None);
    let mut reader = PageReader::new(&source.root);
    let mut words = BTreeMap::new();
    let mut buf = Vec::new();
    let mut shown = 0_u64;
    let mut target = match args.output.machine() {
        Some(format) => {
            let shape = CsvShape::Rows { plural: "slots", columns: INNODB_SLOT_COLUMNS };
            Target::Machine(begin(format, shape, out, (PROGRAM, "innodb dump"), vec![args.directory.shown()])?)
        }
        None => {
            let layout = args.output.layout();
            Target::Lines(InnodbSlotLines::begin(out, layout)?, layout, out)
        }
    };
    for (number, file) in source.doublewrite.files.iter().enumerate() {
        for index in 0..file.slots {
            if watch().is_break() {
                coverage.skip(SkippedPart::RestOfDoubleWriteBuffer, SkipReason::Interrupted(Lacking::Images));
                break;
            }
            let slot = (number, index);
            let found = content.slots.binary_search_by_key(&slot, |facts| facts.slot).ok();
            let facts = found.and_then(|at| content.slots.get(at));
            if let Some(facts) = facts {
                if !words.contains_key(&slot) {
                    words.extend(source.compare_slots(facts, &context, &mut reader, &mut coverage));
                }
                save(export.as_ref(), facts, file, &mut buf, &mut coverage);
            }
            let row = setting.slot_row(slot, facts, words.remove(&slot));
            shown += 1;
            match &mut target {
                Target::Machine(sink) => sink.item(&Item::InnodbSlot(row))?,
                Target::Lines(lines, layout, out) => lines.slot(*out, *layout, &row)?,
            }
        }
    }
    let mut entries = Vec::new();
    for entry in &content.entries {
        let disk = source.compare_entry((entry.page, entry.lsn), &mut reader, &mut coverage);
        entries.push(setting.entry_row(entry, disk));
    }
    shown += entries.len() as u64;
    let closing = Closing::new(findings, &coverage);
    match target {
        Target::Machine(mut sink) => {
            for row in entries {
                sink.item(&Item::Entry(row))?;
            }
            Ok(closing.end(sink, shown, Map::new())?.into())
        }
        Target::Lines(mut lines, layout, out) => {
            lines.end_of_run(out, layout)?;
            write_entries(out, layout, entries)?;
            Ok(closing.end_text(out, layout)?.into())
        }
    }
}

/// Where rows go.
enum Target<'a> {
    Machine(Sink<'a>),
    Lines(InnodbSlotLines, Layout, &'a mut dyn Write),
}

/// Writes an image as a new file, if that was asked for.
fn save(export: Option<&ExportDir>, facts: &SlotFacts, file: &SlotFile, buf: &mut Vec<u8>, coverage: &mut Coverage) {
    let Some(export) = export else { return };
    let Ok(Some(image)) = file.slot(facts.slot.1, buf) else { return };
    let space = facts.space_id.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
    let slot_file = file.name.trim_start_matches('#');
    let name = format!("{space}.{}.{}_{slot_file}.{}", facts.page_no, facts.lsn, facts.slot.1);
    let image = image.get(..facts.length).unwrap_or(image);
    if let Err(error) = export.write_new(&name, image) {
        coverage.skip(SkippedPart::File(name), SkipReason::NotWritten(ErrorWords::of_other(&error)));
    }
}
