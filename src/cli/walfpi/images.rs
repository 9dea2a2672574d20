//! Images one by one: filters, order, and their row.
//! `pg_walfpi list` shows all of them.

use std::io::{self, Write};

use clap::{Args, ValueEnum};

use super::PROGRAM;
use super::args::{CommonArgs, path_texts};
use crate::analysis::wal::cause::Cause;
use crate::cli::context::OutputArgs;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::values::{PageFilter, PageSelection, Span};
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::cluster::names::RelationNames;
use crate::inspect::error::InspectError;
use crate::inspect::wal::images::{FoundImage, ImageSelection};
use crate::inspect::wal::names::NameLookup;
use crate::inspect::wal::request::{WalRequest, WatchWal};
use crate::inspect::wal::source::WalSource;
use crate::output::closing::{Closing, begin};
use crate::output::escape::printable;
use crate::output::json::wal::{ImageJson, Row, fork_name};
use crate::output::json::{Item, lsn_text};
use crate::output::sink::{CsvShape, Sink};
use crate::output::text::Layout;
use crate::parsers::image::Compression;
use crate::parsers::wal::names::rmgr_name;
use crate::types::Lsn;

/// How images are read, and which are shown.
#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    pub progress: ProgressArg,
    #[command(flatten)]
    filter: ImageFilter,
}

/// Opened WAL and the selection of its images.
pub(crate) struct ImageWork {
    /// Which WAL.
    pub request: WalRequest,
    /// What its relations are called.
    pub names: NameLookup,
    /// Which of its images.
    pub selection: ImageSelection,
    /// The segments.
    pub source: WalSource,
}

impl ImageArgs {
    /// The pages that are asked for. `names`: those of the cluster.
    ///
    /// # Errors
    /// When a name matches no relation, or several.
    pub fn pages(&self, names: &RelationNames) -> Result<PageSelection, InspectError> {
        self.filter.page.selection(Some(names))
    }

    /// How many threads read.
    pub(crate) const fn jobs_arg(&self) -> JobsArg {
        self.jobs
    }

    /// Opens the WAL, after all that can be wrong with the filter.
    ///
    /// # Errors
    /// When there is no such WAL, or a name matches no relation or several.
    pub fn open(&self, common: &CommonArgs, watch: WatchWal<'_>) -> Result<ImageWork, Stop> {
        let request = common.request(self.jobs)?;
        let mut names = NameLookup::open(request.names.as_deref())?;
        let mut source = WalSource::open_watched(&request, watch)?;
        source.take_names(&names)?;
        source.find_names(&mut names, request.jobs);
        let selection = self.filter.selection(&names)?;
        Ok(ImageWork { request, names, selection, source })
    }
}

/// Which images are shown.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Filters")]
struct ImageFilter {
    #[command(flatten)]
    page: PageFilter,
    /// LSN of the record: FIRST-LAST, FIRST- or -LAST
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    lsn: Option<Span<Lsn>>,
    /// Why the image was written
    ///
    /// hint, repeated and unknown include all causes of their kind.
    #[arg(long, value_enum, value_delimiter = ',')]
    cause: Vec<CauseFilter>,
    /// Continue after damage, at the next page on which a record starts
    #[arg(long)]
    resync: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CauseFilter {
    FirstTouch,
    FirstTouchInBackup,
    #[value(alias = "hint-bit")]
    Hint,
    HintOnly,
    HintThenChanged,
    HintInBackup,
    NewPage,
    MapTruncation,
    Forced,
    ConsistencyCheck,
    Repeated,
    Unknown,
    Unreadable,
}

impl CauseFilter {
    const fn causes(self) -> &'static [Cause] {
        match self {
            Self::FirstTouch => &[Cause::FirstTouch],
            Self::FirstTouchInBackup => &[Cause::FirstTouchInBackup],
            Self::Hint => &[Cause::HintOnly, Cause::HintThenChanged, Cause::HintInBackup, Cause::RepeatedHint],
            Self::HintOnly => &[Cause::HintOnly],
            Self::HintThenChanged => &[Cause::HintThenChanged],
            Self::HintInBackup => &[Cause::HintInBackup],
            Self::NewPage => &[Cause::NewPage],
            Self::MapTruncation => &[Cause::MapTruncation],
            Self::Forced => &[Cause::Forced],
            Self::ConsistencyCheck => &[Cause::ConsistencyCheck],
            Self::Repeated => &[
                Cause::RepeatedForced,
                Cause::RepeatedNewPage,
                Cause::RepeatedReinitialised,
                Cause::RepeatedHint,
                Cause::RepeatedUnknown,
            ],
            Self::Unknown => &[Cause::UnknownBeforeStart, Cause::Unknown],
            Self::Unreadable => &[Cause::Unreadable],
        }
    }
}

impl ImageFilter {
    /// The images that are asked for.
    fn selection(&self, names: &NameLookup) -> Result<ImageSelection, InspectError> {
        let pages = self.page.selection(names.known()).map_err(|error| match error {
            // Here names can be given.
            InspectError::NamesUnknown(name) => InspectError::NamesNotGiven(name),
            error => error,
        })?;
        Ok(ImageSelection {
            pages,
            lsn: self.lsn,
            causes: self.cause.iter().flat_map(|filter| filter.causes()).copied().collect(),
            resynchronise: self.resync,
        })
    }
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
        request: &WalRequest,
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
                Ok(Self::Machine(begin(format, shape, out, (PROGRAM, command), path_texts(request))?))
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
    pub fn image(&mut self, found: &FoundImage<'_>, names: &NameLookup, file: Option<&str>) -> io::Result<()> {
        match self {
            Self::Machine(sink) => sink.item(&Item::Image(Box::new(image_json(found, names, file)))),
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
            Self::Machine(sink) => Ok(closing.end(sink, shown, Row::new())?.into()),
            Self::Text(layout, out) => {
                writeln!(out, "\n{sentence}")?;
                Ok(closing.end_text(out, layout)?.into())
            }
        }
    }
}

fn image_json(found: &FoundImage<'_>, names: &NameLookup, file: Option<&str>) -> ImageJson {
    let FoundImage { record, block, image, stored_bytes, cause, .. } = found;
    ImageJson {
        lsn: record.start_lsn.into(),
        end_lsn: record.end_lsn.into(),
        timeline: record.tli.0,
        xid: record.header.xid,
        rmgr: rmgr_name(record.header.rmgr_id).to_string(),
        record: record.type_name().to_string(),
        block_id: block.block_id,
        spc_oid: block.rel.spc_oid,
        db_oid: block.rel.db_oid,
        rel_number: block.rel.rel_number,
        relation: names.relation(block.rel),
        fork: fork_name(block.fork_code()),
        block: block.block,
        stored_bytes: *stored_bytes,
        raw_bytes: record.block_size,
        hole_offset: image.hole_offset,
        hole_bytes: image.hole_length,
        compression: image.compression().map_or("none", Compression::name).into(),
        applied: image.applies(),
        cause: cause.name().into(),
        file: file.map(str::to_owned),
    }
}

fn write_heading(out: &mut dyn Write, layout: Layout) -> io::Result<()> {
    let heading = format!(
        "{:<10} {:<17} {:<13} {:<4} {:>6} {:>6} {:<4} cause",
        "lsn", "record", "relation", "fork", "block", "stored", "how"
    );
    writeln!(out, "{}", layout.paint.heading(&heading))
}

/// Writes one image, without the row that machines get: there may be millions.
fn write_image(out: &mut dyn Write, layout: Layout, found: &FoundImage<'_>, names: &NameLookup) -> io::Result<()> {
    let FoundImage { record, block, image, stored_bytes, cause, .. } = found;
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

/// List the full-page images, one line each
///
/// Shows the LSN and type of the record, the block, the size as stored and before compression, the hole, the
/// compression, whether redo applies the image, and why it was written.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    images: ImageArgs,
}

pub(super) fn run(args: &ListArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let bar = ByteBar::new(args.images.progress);
    let watch = |done, total| bar.at(done, total);
    let ImageWork { request, names, selection, mut source } = args.images.open(&args.common, &watch)?;
    let mut target = Target::begin(&request, &args.common.output, out, "list", false)?;
    let mut shown = 0;
    source.each_image_head(&selection, request.jobs, &watch, |found| {
        shown += 1;
        target.image(found, &names, None)
    })?;
    drop(bar);
    source.note_range_without_wal();
    let sentence = format!("{shown} images in {} records", source.coverage.examined);
    target.end(source, shown, &sentence)
}
