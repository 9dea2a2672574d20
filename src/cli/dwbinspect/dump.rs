//! `pg_dwbinspect dump`: every slot.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::PROGRAM;
use crate::analysis::dwb::report::DwbReport;
use crate::analysis::dwb::slot_facts::{Condition, SlotFacts};
use crate::analysis::dwb::staleness::{BatchReason, BatchVerdict};
use crate::analysis::error_words::ErrorWords;
use crate::analysis::in_order::all_cores;
use crate::analysis::skipped::{Lacking, SkipReason, SkippedPart};
use crate::cli::context::OutputArgs;
use crate::cli::data_dir_arg::PgData;
use crate::cli::exit::{EXIT_STATUS, Outcome, Stop};
use crate::cli::usage::UsageError;
use crate::cli::values::{PageFilter, Span, image_file_name};
use crate::cli::work::until_interrupted;
use crate::cluster::dwb_files::DwbFile;
use crate::cluster::names::RelationNames;
use crate::cluster::relation_path::RelationPaths;
use crate::inspect::dwb_source::{DwbSource, SeenSlot};
use crate::inspect::error::InspectError;
use crate::output::closing::{Closing, begin};
use crate::output::hexdump::{write_field, write_page};
use crate::output::json::{FileJson, Item, SLOT_COLUMNS, SlotJson};
use crate::output::sink::{CsvShape, Sink};
use crate::output::text::{Layout, SlotLines, write_described};
use crate::parsers::dwb::{CrcVerdict, Slot};
use crate::repair::export::ExportDir;
use crate::types::{Lsn, RelFileLocator};

/// Show every slot of the double write buffer
///
/// One line per slot: the page it holds, its LSNs, whether its CRC and its page checksum are valid, and whether it is
/// current: written after the last completed checkpoint (pg_dwbuf), or used by the next startup (pg_dwb). Page
/// checksums "stale" and "zero" are normal in pg_dwbuf: a checkpoint copies pages without setting them. A slot is shown
/// when it matches all filters.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{EXAMPLES}\n{EXIT_STATUS}"))]
pub(crate) struct DumpArgs {
    /// Data directory; also a double write buffer directory (pg_dwbuf or pg_dwb), or single files of one
    #[arg(value_name = "DATADIR")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    pgdata: PgData,
    /// Write each shown image as a new file into this directory
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Show each slot as an annotated hex dump (text format only)
    #[arg(long)]
    hex: bool,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  pg_dwbinspect dump /var/lib/pgsql/data
  pg_dwbinspect dump --relation 5/16384 --batch current --format ndjson DATADIR
  pg_dwbinspect dump --slots 12 --hex DATADIR/pg_dwbuf/dwbuf_000
  pg_dwbinspect dump --state bad --images /tmp/images DATADIR

Images are saved byte for byte as they are in the slot. Their names begin as
pg_waldump names pages: timeline of the last checkpoint, LSN, tablespace,
database, relation, block, fork. File and slot follow.
";

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Filters")]
struct Filter {
    /// Files by number or name
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    file: Vec<String>,
    /// Slots by index in their file, from 0: N, FIRST-LAST, FIRST- or -LAST
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    slots: Option<Span<u64>>,
    #[command(flatten)]
    page: PageFilter,
    /// LSN of slot or image: N, FIRST-LAST, FIRST- or -LAST
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    lsn: Option<Span<Lsn>>,
    /// State of the slot
    #[arg(long, value_enum, value_delimiter = ',')]
    state: Vec<StateFilter>,
    /// Batch of the slot
    #[arg(long, value_enum, value_delimiter = ',')]
    batch: Vec<BatchFilter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StateFilter {
    /// Never written
    Empty,
    /// Written
    Used,
    /// Slot CRC is valid
    Good,
    /// Slot CRC is invalid
    Bad,
    /// Slot CRC proves nothing
    Unverifiable,
    /// Slot CRC is invalid, but the header is plausible
    Torn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BatchFilter {
    Current,
    Stale,
    Undecided,
}

impl Filter {
    fn takes_file(&self, index: usize, file: &DwbFile) -> bool {
        self.file.is_empty() || self.file.iter().any(|wanted| Self::names_file(wanted, index, file))
    }

    /// True for the name or number of a file.
    fn names_file(wanted: &str, index: usize, file: &DwbFile) -> bool {
        let number = file.number.map_or(index as u64, u64::from);
        wanted == file.name || wanted.parse() == Ok(number)
    }

    fn takes_slot(&self, facts: &SlotFacts, batch: Option<(BatchVerdict, BatchReason)>) -> bool {
        let header = &facts.header;
        let state = |state: &StateFilter| match state {
            StateFilter::Empty => facts.condition == Condition::Empty,
            StateFilter::Used => facts.condition != Condition::Empty,
            StateFilter::Good => facts.crc == Some(CrcVerdict::Good),
            StateFilter::Bad => facts.crc == Some(CrcVerdict::Bad),
            StateFilter::Unverifiable => facts.crc == Some(CrcVerdict::Unverifiable),
            StateFilter::Torn => facts.condition == Condition::Torn,
        };
        let in_batch = |wanted: &BatchFilter| {
            let verdict = batch.map(|(verdict, _)| verdict);
            verdict
                == Some(match wanted {
                    BatchFilter::Current => BatchVerdict::Current,
                    BatchFilter::Stale => BatchVerdict::Stale,
                    BatchFilter::Undecided => BatchVerdict::Undecided,
                })
        };
        let by_page = self.page.is_set() || self.lsn.is_some();
        (self.state.is_empty() || self.state.iter().any(state))
            && (self.batch.is_empty() || self.batch.iter().any(in_batch))
            && self.slots.is_none_or(|span| span.contains(&facts.index))
            && !(by_page && facts.condition == Condition::Empty)
            && self.page.takes(header.rel, header.fork(), header.block)
            && self.lsn.is_none_or(|span| span.contains(&header.lsn) || span.contains(&facts.page.lsn))
    }
}

/// Where shown slots go.
enum Target<'a> {
    Machine(Sink<'a>),
    Lines(SlotLines, &'a mut dyn Write),
    Hex(Layout, &'a mut dyn Write),
}

pub(super) fn run(args: &DumpArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    if args.hex && args.output.machine().is_some() {
        return Err(UsageError::HexIsText.into());
    }
    let paths = args.pgdata.choose_all(&args.paths)?;
    let source = DwbSource::open(&paths)?;
    let names = source.directory.as_ref().map(|directory| RelationNames::read(directory).0);
    let filter = Filter { page: args.filter.page.resolved(names.as_ref())?, ..args.filter.clone() };
    let export = match &args.images {
        Some(path) => {
            let directory = ExportDir::create(path, &source.protected()?);
            Some(directory.map_err(InspectError::from)?)
        }
        None => None,
    };
    let watch = until_interrupted();
    let mut found: BTreeSet<RelFileLocator> = BTreeSet::new();
    let (mut report, findings) = source.examine_slots(all_cores(), |_, facts| {
        if facts.condition != Condition::Empty {
            found.insert(facts.header.rel);
        }
        watch()
    });
    if report.coverage.is_interrupted() {
        return Err(InspectError::BufferInterrupted.into());
    }
    confirm_relations(&filter.page, &source, &found)?;
    let layout = args.output.layout();
    let mut target = match args.output.machine() {
        Some(format) => {
            let paths = paths.iter().map(|path| path.display().to_string()).collect();
            let shape = CsvShape::Rows { plural: "slots", columns: SLOT_COLUMNS };
            let mut sink = begin(format, shape, out, (PROGRAM, "dump"), paths)?;
            for (file, counts) in source.set.files.iter().zip(&report.files) {
                sink.item(&Item::File(FileJson::new(file, counts)))?;
            }
            Target::Machine(sink)
        }
        None if args.hex => {
            write_described(out, &source.set)?;
            Target::Hex(layout, out)
        }
        None => {
            write_described(out, &source.set)?;
            let several = source.set.files.len() > 1;
            Target::Lines(SlotLines::begin(out, layout, several, relation_columns(&found, names.as_ref()))?, out)
        }
    };
    for wanted in &filter.file {
        let known = |(index, file): (usize, &DwbFile)| Filter::names_file(wanted, index, file);
        if !source.set.files.iter().enumerate().any(known) {
            let what = SkippedPart::Argument { option: "--file", value: wanted.clone() };
            report.coverage.skip(what, SkipReason::NoSuchDwbFile);
        }
    }
    let shown = show_slots(&filter, &source, names.as_ref(), &mut report, export.as_ref(), &mut target, &watch)?;
    let closing = Closing::new(findings, &report.coverage);
    match target {
        Target::Machine(sink) => Ok(closing.end(sink, shown, serde_json::Map::new())?.into()),
        Target::Lines(mut lines, out) => {
            lines.end_of_run(out)?;
            writeln!(out, "\n{shown} of {} slots shown", report.coverage.examined)?;
            Ok(closing.end_text(out, layout)?.into())
        }
        Target::Hex(layout, out) => Ok(closing.end_text(out, layout)?.into()),
    }
}

/// Columns that the widest name needs; those of numbers when there are no names.
fn relation_columns(found: &BTreeSet<RelFileLocator>, names: Option<&RelationNames>) -> usize {
    let named = |rel: &RelFileLocator| names.and_then(|names| names.full_name(*rel)).map(|name| name.chars().count());
    found.iter().filter_map(named).max().unwrap_or_default()
}

/// Refuses a relation of which neither a slot nor a file is there: a mistyped one would be shown as "nothing found".
fn confirm_relations(filter: &PageFilter, source: &DwbSource, found: &BTreeSet<RelFileLocator>) -> Result<(), Stop> {
    for (wanted, pattern) in filter.relations() {
        if !found.iter().any(|rel| pattern.matches(*rel)) && !source.has_file_of(&pattern) {
            return Err(InspectError::NoSlotOfRelation(wanted.to_string()).into());
        }
    }
    Ok(())
}

/// Shows the slots that match the filters, until `watch` interrupts.
fn show_slots(
    filter: &Filter,
    source: &DwbSource,
    names: Option<&RelationNames>,
    report: &mut DwbReport,
    export: Option<&ExportDir>,
    target: &mut Target<'_>,
    watch: &dyn Fn() -> ControlFlow<()>,
) -> Result<u64, Stop> {
    let paths = source.relation_paths();
    let timeline = source
        .directory
        .as_ref()
        .and_then(|directory| directory.control().trusted())
        .map_or(0, |control| control.checkpoint.tli.0);
    let mut shown = 0;
    // The only reason to stop is an interruption.
    let visited = source.visit_slots(
        report,
        |index, file| filter.takes_file(index, file),
        |seen, coverage| {
            let SeenSlot { file, slot, facts, batch } = seen;
            if watch().is_break() {
                return Err(None);
            }
            if !filter.takes_slot(facts, *batch) {
                return Ok(());
            }
            shown += 1;
            let names = names.filter(|_| facts.condition != Condition::Empty);
            let relation = names.and_then(|names| names.full_name(facts.header.rel));
            let database = names.and_then(|names| names.database_of(facts.header.rel)).map(str::to_owned);
            let json = SlotJson::new(file, facts, *batch, page_path(paths.as_ref(), facts), relation, database);
            show(target, slot, facts, json).map_err(Some)?;
            if let Some(export) = export.filter(|_| has_image(facts)) {
                let name = image_file_name(timeline, facts.page.lsn, &file.name, slot);
                if let Err(error) = export.write_new(&name, slot.image) {
                    coverage.skip(SkippedPart::File(name), SkipReason::NotWritten(ErrorWords::of_other(&error)));
                }
            }
            Ok::<(), Option<Stop>>(())
        },
    );
    match visited {
        Err(Some(stop)) => return Err(stop),
        Err(None) => {
            report.coverage.skip(SkippedPart::RestOfDoubleWriteBuffer, SkipReason::Interrupted(Lacking::Images));
        }
        Ok(()) => {}
    }
    Ok(shown)
}

/// True when the bytes after the slot header are an image of the page that it names.
const fn has_image(facts: &SlotFacts) -> bool {
    !matches!(facts.condition, Condition::Empty | Condition::Aborted)
}

fn page_path(paths: Option<&RelationPaths>, facts: &SlotFacts) -> Option<String> {
    let page = facts.header.page_id().filter(|_| facts.is_usable())?;
    Some(paths?.path_and_block(page).0.display().to_string())
}

fn show(target: &mut Target<'_>, slot: &Slot<'_>, facts: &SlotFacts, json: SlotJson) -> Result<(), Stop> {
    match target {
        Target::Machine(sink) => sink.item(&Item::Slot(Box::new(json)))?,
        Target::Lines(lines, out) => lines.slot(*out, &json)?,
        Target::Hex(layout, out) => {
            let columns = json.relation.as_ref().map_or(0, |name| name.chars().count());
            let mut lines = SlotLines::begin(*out, *layout, true, columns)?;
            lines.slot(*out, &json)?;
            lines.end_of_run(*out)?;
            if facts.condition != Condition::Empty {
                write_hex(*out, *layout, slot, facts)?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

fn write_hex(out: &mut dyn Write, layout: Layout, slot: &Slot<'_>, facts: &SlotFacts) -> std::io::Result<()> {
    let header = &facts.header;
    writeln!(out, "  {}", layout.paint.heading("slot header"))?;
    for (name, first, end) in slot.layout.slot_fields() {
        let value = match *name {
            "crc" => format!("{:#010x}", header.crc),
            "spcOid" => header.rel.spc_oid.to_string(),
            "dbOid" => header.rel.db_oid.to_string(),
            "relNumber" => header.rel.rel_number.to_string(),
            "forknum" => header.fork_code.to_string(),
            "blkno" => header.block.to_string(),
            "lsn" => header.lsn.to_string(),
            "slot_id" => header.slot_id.to_string(),
            "generation" => header.generation.map(|generation| generation.to_string()).unwrap_or_default(),
            "image_crc" => facts.image_crc.map(|crc| format!("{:#010x}", crc.stored)).unwrap_or_default(),
            "flags" => format!("{:#06x}", header.flags),
            "checksum" => format!("{:#06x}", header.checksum),
            _ => String::new(),
        };
        let bytes = slot.header_bytes.get(*first..*end).unwrap_or_default();
        write_field(out, slot.offset + *first as u64, bytes, name, &value)?;
    }
    if !has_image(facts) {
        return Ok(());
    }
    write_page(out, layout.paint, slot.image_offset, slot.image, facts.page_kind)
}
