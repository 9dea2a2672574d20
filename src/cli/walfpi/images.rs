//! Images one by one: filters, order, and their row.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::names::Names;
use super::source::{Source, interrupt_flag, note_interruption};
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::wal::cause::{Cause, CauseTeller};
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::walk::walk_run;
use crate::cli::values::{RelationPattern, Span};
use crate::cluster::wal::WalSet;
use crate::output::json::lsn_text;
use crate::output::json::wal::{Row, fork_name};
use crate::output::progress::Progress;
use crate::parsers::image::{BlockImage, Compression};
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::names::rmgr_name;
use crate::parsers::wal::reader::Event;
use crate::parsers::wal::record::Record;
use crate::types::{BlockNumber, ForkNumber, Lsn};

/// Which images are shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub struct ImageFilter {
    /// Relations: REL, DB/REL or SPC/DB/REL as numbers
    #[arg(long, value_name = "REL", value_delimiter = ',')]
    relation: Vec<RelationPattern>,
    /// Forks: main, fsm, vm, init
    #[arg(long, value_name = "FORK", value_delimiter = ',')]
    fork: Vec<ForkNumber>,
    /// Blocks: N, FIRST-LAST, FIRST- or -LAST
    #[arg(long, value_name = "RANGE")]
    block: Option<Span<BlockNumber>>,
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
                matches!(cause, Cause::RepeatedForced | Cause::RepeatedNewPage | Cause::RepeatedUnknown)
            }
            Self::Unreadable => matches!(cause, Cause::Unreadable),
        }
    }
}

impl ImageFilter {
    fn takes(&self, record: &Record<'_>, block: &BlockRef<'_>, cause: Cause) -> bool {
        (self.relation.is_empty() || self.relation.iter().any(|pattern| pattern.matches(block.rel)))
            && (self.fork.is_empty() || self.fork.iter().any(|fork| Some(*fork) == block.fork()))
            && self.block.is_none_or(|span| span.contains(&block.block))
            && self.lsn.is_none_or(|span| span.contains(&record.start_lsn))
            && (self.cause.is_empty() || self.cause.iter().any(|filter| filter.takes(cause)))
    }
}

/// One image in its record.
pub struct Found<'a> {
    /// The record.
    pub record: &'a Record<'a>,
    /// The block reference.
    pub block: &'a BlockRef<'a>,
    /// The image.
    pub image: &'a BlockImage<'a>,
    /// Why it was written.
    pub cause: Cause,
}

/// Where a visitor says what is wrong.
pub struct Notes<'a> {
    /// Findings.
    pub findings: &'a mut Vec<Finding>,
    /// What was not looked at.
    pub coverage: &'a mut Coverage,
}

/// Shows every image that the filter takes, in order. An error of `visit` ends the walk.
///
/// # Errors
/// What `visit` says.
pub fn each_image<E>(
    source: &mut Source,
    plan: &ScanPlan,
    filter: &ImageFilter,
    mut visit: impl FnMut(&mut Notes<'_>, &Found<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let interrupted = interrupt_flag();
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let redo = redo_points(&source.set, jobs, &interrupted);
    let mut teller = CauseTeller::new(redo, source.set.geometry().block_size);
    let mut causes = Vec::new();
    let progress = Progress::bytes(source.total_bytes());
    let mut before = 0;
    for run in source.set.runs() {
        let mut failed = None;
        let mut notes = Notes { findings: &mut source.findings, coverage: &mut source.coverage };
        let walked = walk_run(&source.set, &run, plan, filter.resync, |event, bytes_read| {
            progress.done(before + bytes_read);
            if let Event::Record(record) = event {
                notes.coverage.examined += 1;
                teller.causes(record, &mut causes);
                let with_image = record.blocks().filter(|block| block.image.is_some());
                for (block, cause) in with_image.zip(&causes) {
                    let Some(image) = block.image.filter(|_| filter.takes(record, &block, *cause)) else { continue };
                    let found = Found { record, block: &block, image: &image, cause: *cause };
                    if let Err(error) = visit(&mut notes, &found) {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            match interrupted.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        match walked {
            Ok(walked) => {
                before += walked.bytes_read;
                source.judge_end(&run, walked.end.as_ref(), walked.error);
            }
            Err(error) => source.coverage.skip("WAL", error),
        }
        if interrupted.load(Ordering::Relaxed) {
            note_interruption(&mut source.coverage);
            break;
        }
    }
    Ok(())
}

/// Redo points of all checkpoints of the set.
#[must_use]
pub fn redo_points(set: &WalSet, jobs: usize, interrupted: &AtomicBool) -> Vec<Lsn> {
    let mut points = Vec::new();
    for run in set.runs() {
        collect_run(set, &run, &ScanPlan::totals(), jobs, interrupted, |part| {
            points.extend(part.checkpoints.iter().map(|seen| seen.redo_lsn));
            // Redo points that records mark where they stand, whether or not their checkpoint finished.
            points.extend(part.slices.iter().skip(1).map(|slice| slice.start_lsn));
            Ok(())
        });
    }
    points
}

/// Fields of an image, in order.
pub const IMAGE_COLUMNS: &[&str] = &[
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
];

/// Fields of an image that was written to a file, in order.
pub const EXTRACT_COLUMNS: &[&str] = &[
    "file",
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
];

/// An image as a row.
#[must_use]
pub fn image_row(found: &Found<'_>, names: &Names) -> Row {
    let Found { record, block, image, cause } = found;
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
        ("stored_bytes", json!(image.bytes.len())),
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
