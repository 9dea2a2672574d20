//! `pg_walfpi verify`: where WAL ends and why.

use std::io::Write;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;

use clap::Args;
use serde_json::json;

use super::source::{SourceArgs, WalSource, heard, note_interruption};
use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::FindingKind;
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::segment::{Extent, Visitor};
use crate::analysis::wal::tail::Tail;
use crate::analysis::wal::walk::{Damage, walk_run};
use crate::cli::context::{Closing, OutputArgs, QuietArg};
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::{JobsArg, ProgressArg, interrupt_flag};
use crate::output::json::wal::Row;
use crate::output::json::{Item, lsn_text};
use crate::output::sink::CsvShape;
use crate::output::text::write_fact;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::end::{EndKind, EndOfWal};
use crate::parsers::wal::record::Record;
use crate::types::TimelineId;

/// Check the chain of WAL records, and say where it ends and why
///
/// Checks every page header, every record's CRC, every link to the record before. An end is damage when sound records
/// of the same stream follow after it or pg_control knows of later WAL; all other ends are what a running or crashed
/// server leaves. Where a server is at work, the end is read again before it is called damage. Bytes
/// that no server looks at are not checked: padding, and the rest of a segment behind a switch.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub struct VerifyArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Go on behind damage, at the next page that starts a record
    #[arg(long)]
    resync: bool,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    output: OutputArgs,
}

/// What was met in one run of segments.
#[derive(Default)]
struct Checked {
    records: u64,
    recovered: u64,
    timelines: Vec<TimelineId>,
}

pub(super) fn run(args: &VerifyArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let mut nowhere = std::io::sink();
    let out = args.quiet.output(out, &mut nowhere);
    let mut source = WalSource::open(&args.source)?.telling(args.progress);
    let plan = source.plan();
    let interrupted = interrupt_flag();
    let progress = source.progress();
    let (mut runs, mut damage) = (Vec::new(), Vec::new());
    source.begin_runs();
    while let Some(run) = source.next_run() {
        let mut checked = Checked::default();
        let stretch = plan.stretch(&source.set, &run, Keep::Heads);
        let watch = |bytes| heard(&interrupted, Some(&progress), bytes);
        // Behind damage the place to go on is only known in order.
        let walked = if args.resync {
            walk_run(&stretch, true, &mut { watch }, |record| {
                checked.record(record);
                ControlFlow::Continue(())
            })
        } else {
            collect_run(
                &stretch,
                args.jobs.count(),
                &watch,
                |_| Checked::default(),
                |part| {
                    checked.append(&part.found);
                    Ok(())
                },
            )
        };
        match walked {
            Ok(walked) => {
                source
                    .findings
                    .extend(walked.aborted.iter().map(|aborted| Finding::note(FindingKind::AbortedRecord(*aborted))));
                damage.extend(walked.damage.iter().map(damage_row));
                source.coverage.examined += checked.records;
                let (extent, end, damaged) = (walked.extent, walked.end.clone(), !walked.damage.is_empty());
                let tail = source.judge_walk(&run, walked);
                runs.push(run_row(&source, &run, &checked, &extent, end.as_ref(), tail.as_ref(), damaged));
            }
            Err(error) => source.note_unread(&run, error),
        }
        if interrupted.load(Ordering::Relaxed) {
            note_interruption(&mut source.coverage);
            break;
        }
    }
    drop(progress);
    source.note_empty_range();
    let closing = Closing::new(std::mem::take(&mut source.findings), &source.coverage);
    if let Some(format) = args.output.machine() {
        let shape = CsvShape::Rows { plural: "runs", columns: RUN_COLUMNS };
        let mut sink = source.begin(format, shape, out, "verify")?;
        let shown = runs.len() as u64;
        for row in runs {
            sink.item(&Item::Run(row))?;
        }
        for row in damage {
            sink.item(&Item::Damage(row))?;
        }
        return closing.end(sink, shown, Row::new());
    }
    let layout = args.output.layout();
    for row in &runs {
        for column in RUN_COLUMNS {
            match row.get(*column) {
                Some(serde_json::Value::String(text)) => write_fact(out, layout, &column.replace('_', " "), text)?,
                Some(value) if !value.is_null() => {
                    write_fact(out, layout, &column.replace('_', " "), &value.to_string())?;
                }
                _ => {}
            }
        }
        writeln!(out)?;
    }
    closing.end_text(out, layout)
}

impl Checked {
    /// Adds what the next segment has.
    fn append(&mut self, next: &Self) {
        self.records += next.records;
        self.recovered += next.recovered;
        let goes_on = self.timelines.last() == next.timelines.first();
        self.timelines.extend(next.timelines.iter().skip(usize::from(goes_on)));
    }
}

impl Visitor for Checked {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.records += 1;
        self.recovered += u64::from(record.recovered);
        if self.timelines.last() != Some(&record.tli) {
            self.timelines.push(record.tli);
        }
    }
}

/// Fields of a run, in order.
const RUN_COLUMNS: &[&str] = &[
    "first_segment",
    "last_segment",
    "segments",
    "start_lsn",
    "end_lsn",
    "records",
    "recovered_records",
    "timelines",
    "end_kind",
    "end_reason",
    "end_at",
    "verdict",
];

fn run_row(
    source: &WalSource,
    run: &Range<usize>,
    checked: &Checked,
    extent: &Extent,
    end: Option<&EndOfWal>,
    tail: Option<&Tail>,
    damaged: bool,
) -> Row {
    let size = source.set.geometry().wal_segment_size;
    let name = |index: Option<usize>| index.and_then(|index| source.set.segments()[index].segment.file_name(size));
    let timelines: Vec<u32> = checked.timelines.iter().map(|tli| tli.0).collect();
    let verdict = match tail {
        _ if damaged => "damage",
        Some(Tail::Complete) => "all that is there was read",
        Some(Tail::EndOfWal) => "the end that a running or crashed server leaves",
        Some(Tail::Changing { .. }) => "being written while it was read",
        Some(Tail::Gap) => "cut off by a gap",
        Some(Tail::RecordsFollow { .. } | Tail::BeforeKnownEnd { .. }) => "damage",
        None => "not judged",
    };
    let mut row = Row::new();
    for (column, value) in [
        ("first_segment", json!(name(run.clone().next()))),
        ("last_segment", json!(name(run.clone().next_back()))),
        ("segments", json!(run.len())),
        ("start_lsn", json!(extent.first_lsn.map(lsn_text))),
        ("end_lsn", json!(extent.last_end_lsn.map(lsn_text))),
        ("records", json!(checked.records)),
        ("recovered_records", json!(checked.recovered)),
        ("timelines", json!(timelines)),
        ("end_kind", json!(end.map(|end| kind_name(end.reason.kind())))),
        ("end_reason", json!(end.map(|end| end.reason.to_string()))),
        ("end_at", json!(end.map(|end| lsn_text(end.at)))),
        ("verdict", json!(verdict)),
    ] {
        row.insert(column.to_owned(), value);
    }
    row
}

fn damage_row(damage: &Damage) -> Row {
    let mut row = Row::new();
    for (name, value) in [
        ("lsn", json!(lsn_text(damage.at))),
        ("from_lsn", json!(lsn_text(damage.from))),
        ("to_lsn", json!(damage.resumed.map(lsn_text))),
        ("bytes", json!(damage.resumed.map(|to| to.bytes_since(damage.from).unwrap_or(0)))),
        ("reason", json!(damage.reason.to_string())),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}

/// The word for reports and JSON.
const fn kind_name(kind: EndKind) -> &'static str {
    match kind {
        EndKind::Complete => "complete",
        EndKind::Unwritten => "unwritten",
        EndKind::Stale => "stale",
        EndKind::Torn => "torn",
        EndKind::Damaged => "damaged",
    }
}
