//! Images one by one: filters, order, and their row.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::names::Names;
use super::source::{Notes, WalSource, heard, note_interruption};
use crate::analysis::wal::cause::{Cause, CauseClassifier, OldLsns};
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::partial::{Counter, ScanPlan};
use crate::analysis::wal::segment::{Visitor, read_segment};
use crate::cli::context::{Closing, OutputArgs};
use crate::cli::exit::{Outcome, Stop};
use crate::cli::values::{PageFilter, Span};
use crate::cli::work::{JobsArg, interrupt_flag};
use crate::cluster::wal::WalSet;
use crate::output::escape::printable;
use crate::output::json::wal::{Row, fork_name};
use crate::output::json::{Item, lsn_text};
use crate::output::sink::{CsvShape, Sink};
use crate::output::text::Layout;
use crate::parsers::image::{BlockImage, Compression};
use crate::parsers::wal::block::{BlockRef, Keep};
use crate::parsers::wal::names::rmgr_name;
use crate::parsers::wal::record::Record;
use crate::types::Lsn;

/// Which images are shown.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Filters")]
pub struct ImageFilter {
    #[command(flatten)]
    page: PageFilter,
    /// LSN of the record: FIRST-LAST, FIRST- or -LAST
    #[arg(long, value_name = "RANGE")]
    lsn: Option<Span<Lsn>>,
    /// Why the image was written
    #[arg(long, value_enum, value_delimiter = ',')]
    cause: Vec<CauseFilter>,
    /// Go on behind damage, at the next page that starts a record
    #[arg(long)]
    pub resync: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CauseFilter {
    FirstTouch,
    FirstTouchInBackup,
    HintBit,
    NewPage,
    Forced,
    ConsistencyCheck,
    Repeated,
    Unreadable,
}

impl CauseFilter {
    const fn takes(self, cause: Cause) -> bool {
        match self {
            Self::FirstTouch => matches!(cause, Cause::FirstTouch),
            Self::FirstTouchInBackup => matches!(cause, Cause::FirstTouchInBackup),
            Self::HintBit => matches!(cause, Cause::HintBit),
            Self::NewPage => matches!(cause, Cause::NewPage),
            Self::Forced => matches!(cause, Cause::Forced),
            Self::ConsistencyCheck => matches!(cause, Cause::ConsistencyCheck),
            Self::Repeated => {
                matches!(
                    cause,
                    Cause::RepeatedForced
                        | Cause::RepeatedNewPage
                        | Cause::RepeatedReinitialised
                        | Cause::RepeatedUnknown
                )
            }
            Self::Unreadable => matches!(cause, Cause::Unreadable),
        }
    }
}

impl ImageFilter {
    /// The filter with its relations found.
    ///
    /// # Errors
    /// When a name stands for no relation, or for several.
    pub fn resolved(&self, names: &Names) -> Result<Self, Stop> {
        Ok(Self { page: self.page.resolved(names.known())?, ..self.clone() })
    }

    fn takes(&self, record: &Record<'_>, block: &BlockRef<'_>, cause: Cause) -> bool {
        self.page.takes(block.rel, block.fork(), block.block)
            && self.lsn.is_none_or(|span| span.contains(&record.start_lsn))
            && (self.cause.is_empty() || self.cause.iter().any(|filter| filter.takes(cause)))
    }
}

/// One image in its record.
pub struct FoundImage<'a> {
    /// The record.
    pub record: &'a Record<'a>,
    /// The block reference.
    pub block: &'a BlockRef<'a>,
    /// The image; without its bytes where they were not asked for.
    pub image: &'a BlockImage<'a>,
    /// Bytes of the image as stored.
    pub stored_bytes: usize,
    /// Why it was written.
    pub cause: Cause,
}

/// Shows every image that the filter takes, in order. An error of `visit` ends the walk.
///
/// # Errors
/// What `visit` says.
pub fn each_image<E>(
    source: &mut WalSource,
    plan: &ScanPlan,
    filter: &ImageFilter,
    jobs: JobsArg,
    mut visit: impl FnMut(&mut Notes<'_>, &FoundImage<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let interrupted = interrupt_flag();
    let redo = redo_points(&source.set, plan, jobs.count(), &interrupted);
    let mut classifier = CauseClassifier::new(redo, source.set.geometry().block_size);
    let mut causes = Vec::new();
    let mut failed = None;
    source.each_record(plan, filter.resync, &interrupted, |notes, record| {
        notes.coverage.examined += 1;
        classifier.causes(record, &mut causes);
        let with_image = record.blocks().filter(|block| block.image.is_some());
        for (block, cause) in with_image.zip(&causes) {
            let Some(image) = block.image.filter(|_| filter.takes(record, &block, *cause)) else { continue };
            let stored_bytes = image.bytes.len();
            let found = FoundImage { record, block: &block, image: &image, stored_bytes, cause: *cause };
            if let Err(error) = visit(notes, &found) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    failed.map_or(Ok(()), Err)
}

/// As [`each_image`], without the images' bytes, and read by several threads: what `visit` sees is the same.
///
/// # Errors
/// What `visit` says.
pub fn each_image_head<E>(
    source: &mut WalSource,
    plan: &ScanPlan,
    filter: &ImageFilter,
    jobs: JobsArg,
    mut visit: impl FnMut(&FoundImage<'_>) -> Result<(), E>,
) -> Result<(), E> {
    // Behind damage the place to go on is only known in order.
    if filter.resync {
        return each_image(source, plan, filter, jobs, |_, found| visit(found));
    }
    let interrupted = interrupt_flag();
    let redo = redo_points(&source.set, plan, jobs.count(), &interrupted);
    let block_size = source.set.geometry().block_size;
    let mut classifier = CauseClassifier::new(redo, block_size);
    let progress = source.progress();
    let (mut failed, stopped) = (None, AtomicBool::new(false));
    let mut show = |head: &ImageHead| {
        let ImageHead { record, block, image, stored_bytes, old_lsn } = head;
        let cause = classifier.cause(record, block, image, *old_lsn);
        if failed.is_none() && filter.takes(record, block, cause) {
            failed = visit(&FoundImage { record, block, image, stored_bytes: *stored_bytes, cause }).err();
            stopped.store(failed.is_some(), Ordering::Relaxed);
        }
    };
    source.begin_runs();
    while let Some(run) = source.next_run() {
        let WalSource { set, coverage, .. } = source;
        let stretch = plan.stretch(set, &run, Keep::Blocks);
        let watch = |bytes| match stopped.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => heard(&interrupted, Some(&progress), bytes),
        };
        let read = collect_run(
            &stretch,
            jobs.count(),
            &watch,
            |_| ImageHeads::new(block_size),
            |part| {
                coverage.examined = coverage.examined.saturating_add(part.found.records);
                if part.found.is_incomplete {
                    let quiet = |_| watch(0);
                    let directly = DirectHeads { old_lsns: OldLsns::new(block_size), show: &mut show };
                    read_segment(&stretch, part.index, part.from, directly, &quiet, &mut Vec::new())?;
                }
                part.found.heads.iter().for_each(&mut show);
                Ok(())
            },
        );
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        match read {
            Ok(read) => drop(source.judge_walk(&run, read)),
            Err(error) => source.note_unread(&run, error),
        }
        if interrupted.load(Ordering::Relaxed) {
            note_interruption(&mut source.coverage);
            break;
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Images of one segment that are kept until those before them were shown; with more, the segment is read again.
const MAX_HEADS: usize = if cfg!(test) { 5 } else { 10_000 };

/// All about an image but its bytes.
struct ImageHead {
    record: Record<'static>,
    block: BlockRef<'static>,
    image: BlockImage<'static>,
    stored_bytes: usize,
    old_lsn: Option<Lsn>,
}

/// The images of a record.
fn heads_of<'r>(record: &'r Record<'_>, old_lsns: &'r mut OldLsns) -> impl Iterator<Item = ImageHead> + 'r {
    record.blocks().filter_map(|block| block.image.map(|image| (block, image))).map(|(block, image)| ImageHead {
        record: Record { bytes: &[], ..*record },
        block: BlockRef { data: &[], image: None, ..block },
        image: BlockImage { bytes: &[], ..image },
        stored_bytes: image.bytes.len(),
        old_lsn: old_lsns.of(&image),
    })
}

/// Keeps the images of a segment.
struct ImageHeads {
    heads: Vec<ImageHead>,
    records: u64,
    old_lsns: OldLsns,
    /// There were too many.
    is_incomplete: bool,
}

impl ImageHeads {
    fn new(block_size: u32) -> Self {
        Self { heads: Vec::new(), records: 0, old_lsns: OldLsns::new(block_size), is_incomplete: false }
    }
}

impl Visitor for ImageHeads {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.records = self.records.saturating_add(1);
        if record.layout.image_count == 0 || self.is_incomplete {
            return;
        }
        self.heads.extend(heads_of(record, &mut self.old_lsns));
        if self.heads.len() > MAX_HEADS {
            self.is_incomplete = true;
            self.heads = Vec::new();
        }
    }
}

/// Shows images as they come.
struct DirectHeads<S> {
    old_lsns: OldLsns,
    show: S,
}

impl<S: FnMut(&ImageHead)> Visitor for DirectHeads<S> {
    fn record(&mut self, record: &Record<'_>) {
        heads_of(record, &mut self.old_lsns).for_each(|head| (self.show)(&head));
    }
}

/// Redo points of all checkpoints from the plan's start on, those whose record lies behind its end included.
#[must_use]
pub fn redo_points(set: &WalSet, plan: &ScanPlan, jobs: usize, interrupted: &AtomicBool) -> Vec<Lsn> {
    let plan = ScanPlan { start_lsn: plan.start_lsn, ..ScanPlan::totals() };
    let mut points = Vec::new();
    for run in set.runs() {
        let begin = |index| Counter::new(set, index, &plan, &[]);
        let watch = |_| heard(interrupted, None, 0);
        let read = collect_run(&plan.stretch(set, &run, Keep::Heads), jobs, &watch, begin, |part| {
            let counts = &part.found.counts;
            points.extend(counts.checkpoints.iter().map(|seen| seen.redo_lsn));
            // Redo points that records mark where they stand, whether or not their checkpoint finished.
            points.extend(counts.slices.iter().skip(1).map(|slice| slice.start_lsn));
            Ok(())
        });
        // The walk that follows meets the same errors, and tells them.
        drop(read);
    }
    points
}

/// Fields of an image, in order; the last only where it was written to a file.
const COLUMNS: &[&str] = &[
    "lsn",
    "end_lsn",
    "timeline",
    "xid",
    "rmgr",
    "record",
    "block_id",
    "spc_oid",
    "db_oid",
    "rel_number",
    "relation",
    "fork",
    "block",
    "stored_bytes",
    "raw_bytes",
    "hole_offset",
    "hole_bytes",
    "compression",
    "applied",
    "cause",
    "file",
];

/// Where images are shown.
pub enum Target<'a> {
    /// A machine format.
    Machine(Sink<'a>),
    /// Lines of text.
    Text(Layout, &'a mut dyn Write),
}

impl<'a> Target<'a> {
    /// Starts the output of `command`; `with_file`: images carry the name of their file.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn begin(
        source: &WalSource,
        output: &OutputArgs,
        out: &'a mut dyn Write,
        command: &'static str,
        with_file: bool,
    ) -> io::Result<Self> {
        let columns = if with_file { COLUMNS } else { COLUMNS.split_last().map_or(COLUMNS, |(_, rest)| rest) };
        let layout = output.layout();
        match output.machine() {
            Some(format) => {
                let shape = CsvShape::Rows { plural: "images", columns };
                Ok(Self::Machine(source.begin(format, shape, out, command)?))
            }
            None => {
                write_heading(out, layout)?;
                Ok(Self::Text(layout, out))
            }
        }
    }

    /// Shows one image, and the file that it was written to.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn image(&mut self, found: &FoundImage<'_>, names: &Names, file: Option<&str>) -> io::Result<()> {
        match self {
            Self::Machine(sink) => {
                let mut row = image_row(found, names);
                if let Some(file) = file {
                    row.insert("file".to_owned(), json!(file));
                }
                sink.item(&Item::Image(row))
            }
            Self::Text(layout, out) => write_image(*out, *layout, found, names),
        }
    }

    /// Ends the output; `sentence` is for text.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn end(self, mut source: WalSource, shown: u64, sentence: &str) -> Result<Outcome, Stop> {
        let closing = Closing::new(std::mem::take(&mut source.findings), &source.coverage);
        match self {
            Self::Machine(sink) => closing.end(sink, shown, Row::new()),
            Self::Text(layout, out) => {
                writeln!(out, "\n{sentence}")?;
                closing.end_text(out, layout)
            }
        }
    }
}

/// An image as a row.
fn image_row(found: &FoundImage<'_>, names: &Names) -> Row {
    let FoundImage { record, block, image, stored_bytes, cause } = found;
    let mut row = Row::new();
    for (name, value) in [
        ("lsn", json!(lsn_text(record.start_lsn))),
        ("end_lsn", json!(lsn_text(record.end_lsn))),
        ("timeline", json!(record.tli.0)),
        ("xid", json!(record.header.xid)),
        ("rmgr", json!(rmgr_name(record.header.rmgr_id).to_string())),
        ("record", json!(record.type_name().to_string())),
        ("block_id", json!(block.block_id)),
        ("spc_oid", json!(block.rel.spc_oid)),
        ("db_oid", json!(block.rel.db_oid)),
        ("rel_number", json!(block.rel.rel_number)),
        ("relation", json!(names.relation(block.rel))),
        ("fork", json!(fork_name(block.fork_code()))),
        ("block", json!(block.block)),
        ("stored_bytes", json!(stored_bytes)),
        ("raw_bytes", json!(record.block_size)),
        ("hole_offset", json!(image.hole_offset)),
        ("hole_bytes", json!(image.hole_length)),
        ("compression", json!(image.compression().map_or("none", Compression::name))),
        ("applied", json!(image.applies())),
        ("cause", json!(cause.name())),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}

fn write_heading(out: &mut dyn Write, layout: Layout) -> io::Result<()> {
    let heading = format!(
        "{:<10} {:<17} {:<13} {:<4} {:>6} {:>6} {:<4} cause",
        "lsn", "record", "relation", "fork", "block", "stored", "how"
    );
    writeln!(out, "{}", layout.paint.heading(&heading))
}

/// Writes one image, without the row that machines get: there may be millions.
fn write_image(out: &mut dyn Write, layout: Layout, found: &FoundImage<'_>, names: &Names) -> io::Result<()> {
    let FoundImage { record, block, image, stored_bytes, cause } = found;
    let relation = match names.relation(block.rel) {
        Some(name) => printable(&name),
        None => format!("{}/{}/{}", block.rel.spc_oid, block.rel.db_oid, block.rel.rel_number),
    };
    let mut name = format!("{}/{}", printable(&rmgr_name(record.header.rmgr_id).to_string()), record.type_name());
    if layout.width < 100
        && let Some((end, _)) = name.char_indices().nth(17)
    {
        name.truncate(end);
    }
    writeln!(
        out,
        "{:<10} {name:<17} {relation:<13} {:<4} {:>6} {:>6} {:<4} {}",
        lsn_text(record.start_lsn),
        fork_name(block.fork_code()),
        block.block,
        stored_bytes,
        image.compression().map_or("none", Compression::name),
        cause.name()
    )
}

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;
