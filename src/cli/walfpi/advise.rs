//! `pg_walfpi advise`: one screen about some WAL.

use std::io::Write;

use clap::Args;
use serde_json::{Map, Value, json};

use super::PROGRAM;
use super::args::{CommonArgs, Sample, path_texts};
use crate::analysis::wal::curve::Overview;
use crate::analysis::wal::group_key::{GroupBy, Key};
use crate::analysis::wal::since_redo::SPAN_STARTS_S;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::inspect::wal::advise::{AdviseRequest, AdvisedRelation, WalAdvice, advise};
use crate::inspect::wal::source::ReadWal;
use crate::output::advise_text::{
    RelationLine, write_advice, write_bill, write_overview, write_relations, write_savings, write_since_redo,
};
use crate::output::closing::{Closing, begin};
use crate::output::json::savings::{BillJson, SAVING_COLUMNS, SavingJson};
use crate::output::json::wal::{Naming, group_row};
use crate::output::json::{Item, lsn_text, time_text};
use crate::output::kept_words::{keeper_words, kept_sentence, most};
use crate::output::sink::CsvShape;
use crate::output::text::wrapped;
use crate::output::wal_columns::put_tally;
use crate::output::wal_text::name_of;
use crate::parsers::wal::version::Major;

/// Show on one screen what images cost, what would have saved some, whose they are and when they come
///
/// Each line has a figure and its confidence. The figures are those of this WAL under another setting: the same records and
/// the same blocks. A server under another setting may do other work at other times.
///
/// The first table has every byte of the WAL, from its first to its last: images, records, old rows of tables with REPLICA
/// IDENTITY FULL, space that is unused after segment switches, page headers, padding. Rates are those of the WAL over the
/// time between its records. The second table lists relations, and records without one, in order of size: "mostly" is the
/// most frequent type of record.
///
/// max_wal_size and checkpoint_timeout are the smallest values tried that make checkpoints twice and four times as far
/// apart, both set at once. Their price is what crash recovery has to read. "wal_compression" compresses a sample of the
/// images again; --no-compression leaves that out, which is quicker. A double write buffer (a patch for 19 or a fork of
/// 18) is listed for these versions: an ordinary change needs no image, but pages are written twice. "wal_log_hints = off, no
/// data checksums" needs no images of pages on which only hint bits changed in their checkpoint interval. "At
/// least": with less WAL there are also fewer checkpoints, unless they come by time.
///
/// With a data directory, relations are shown by name without --names.
///
/// Savings do not add up. More of each: whatif, dwb-size, stats --by relation, stats --by
/// since-redo.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct AdviseArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Show so many relations
    #[arg(long, value_name = "N", default_value_t = 8)]
    top: usize,
    /// Images to compress again: a number, or all
    #[arg(long, value_name = "N|all", default_value_t = Sample::default())]
    sample: Sample,
    /// Compress no image again
    #[arg(long, conflicts_with = "sample")]
    no_compression: bool,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
}

pub(super) fn run(args: &AdviseArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let sample = (!args.no_compression).then_some(args.sample.0);
    let request = AdviseRequest { wal: args.common.request(args.jobs)?, sample, completion_target: None };
    let bar = ByteBar::new(args.progress);
    let advice = advise(&request, &|done, total| bar.at(done, total))?;
    drop(bar);
    let WalAdvice { overview, bill, savings, relations, kept, what_if, wal, .. } = advice;
    let ReadWal { origin, names, findings, coverage } = wal;
    let naming = Naming::new(&origin, names.known());
    let shown = relations.get(..args.top.min(relations.len())).unwrap_or_default();
    let closing = Closing::new(findings, &coverage);
    if let Some(format) = args.common.output.machine() {
        let shape = CsvShape::Rows { plural: "savings", columns: SAVING_COLUMNS };
        let mut sink = begin(format, shape, out, (PROGRAM, "advise"), path_texts(&request.wal))?;
        let bill_rows = bill.iter().flat_map(|bill| &bill.rows);
        let items = bill_rows.map(|row| Item::Bill(BillJson::new(row, &overview)));
        let savings = savings.rows.iter().map(|saving| Item::Saving(Box::new(SavingJson::new(saving, &overview))));
        let groups = shown.iter().map(|one| Item::Group(relation_row(one, &naming)));
        let mut number = 0;
        for item in items.chain(savings).chain(groups) {
            sink.item(&item)?;
            number += 1;
        }
        let mostly = kept.as_ref().and_then(most);
        let mut totals = figures(&overview);
        for (name, value) in [
            ("pg_wal_bytes", json!(kept.as_ref().map(|kept| kept.bytes))),
            ("pg_wal_mostly_kept_by", json!(mostly.map(|row| keeper_words(&row.keeper)))),
            ("pg_wal_kept_alone_bytes", json!(mostly.map(|row| row.alone_bytes))),
            ("relations_in_all", json!(relations.len())),
            ("replayed_from", json!(what_if.replayed_from.map(lsn_text))),
            ("major", json!(origin.major.map(Major::number))),
            ("system_identifier", json!(origin.system_identifier.map(|id| id.to_string()))),
        ] {
            totals.insert(name.to_owned(), value);
        }
        return Ok(closing.end(sink, number, totals)?.into());
    }
    let layout = args.common.output.layout();
    let lines: Vec<RelationLine<'_>> = shown.iter().map(|one| relation_line(one, &naming)).collect();
    if overview.range.is_some() {
        write_advice(out, layout, &overview, &savings.rows, &lines)?;
    }
    write_overview(out, layout, &overview)?;
    if overview.range.is_some() {
        if let Some(kept) = &kept {
            wrapped(out, layout, "", 0, &format!("{}. pg_walfpi kept shows all", kept_sentence(kept)))?;
        }
        if let Some(bill) = &bill {
            write_bill(out, layout, bill, &overview)?;
        }
        let others = relations.get(shown.len()..).unwrap_or_default();
        let other_bytes = others.iter().map(|one| one.row.tally.combined_bytes()).sum();
        write_relations(out, layout, &lines, overview.wal_bytes, (others.len(), other_bytes))?;
        write_savings(out, layout, &savings, &overview, origin.geometry.block_size)?;
        write_since_redo(out, layout, &overview.since_redo)?;
    }
    Ok(closing.end_text(out, layout)?.into())
}

/// A relation, and the type of record that most of its bytes are in.
fn relation_row(one: &AdvisedRelation, naming: &Naming<'_>) -> Map<String, Value> {
    let mut row = group_row(GroupBy::Relation.into(), &one.row, naming);
    row.insert("main_record".to_owned(), json!(one.main_record.map(|(key, _)| record_words(&key, naming))));
    row.insert("main_record_bytes".to_owned(), json!(one.main_record.map(|(_, bytes)| bytes)));
    if let Some((bytes, certainty)) = one.gain {
        row.insert("cure_saves_bytes".to_owned(), json!(bytes));
        row.insert("cure_certainty".to_owned(), json!(certainty.code()));
    }
    row
}

fn relation_line<'a>(one: &'a AdvisedRelation, naming: &Naming<'_>) -> RelationLine<'a> {
    RelationLine {
        name: name_of(GroupBy::Relation, &one.row.key.first, naming),
        row: &one.row,
        record: one.main_record.map(|(key, _)| record_words(&key, naming)).unwrap_or_default(),
        gain: one.gain,
    }
}

fn record_words(record: &Key, naming: &Naming<'_>) -> String {
    name_of(GroupBy::Record, record, naming)
}

/// Totals of the summary.
fn figures(overview: &Overview) -> Map<String, Value> {
    let mut totals = Map::new();
    put_tally(&mut totals, &overview.total);
    let time = |time: crate::parsers::wal::payload::PgTimestamp| time_text(time.unix_seconds());
    let peak = overview.peak.zip(overview.peak_bytes_per_s());
    let spans = SPAN_STARTS_S.iter().zip(&overview.since_redo.spans).map(|(start, span)| {
        json!({
            "from_s": start,
            "fpi_count": span.fpi_count,
            "fpi_bytes": span.fpi_bytes,
            "observed_s": span.observed_us as f64 / 1e6,
        })
    });
    for (name, value) in [
        ("wal_bytes", json!(overview.wal_bytes)),
        ("start_lsn", json!(overview.range.map(|(from, _)| lsn_text(from)))),
        ("end_lsn", json!(overview.range.map(|(_, to)| lsn_text(to)))),
        ("first_time", json!(overview.times.map(|(first, _)| time(first)))),
        ("last_time", json!(overview.times.map(|(_, last)| time(last)))),
        ("duration_s", json!(overview.seconds())),
        ("peak_bytes_per_s", json!(peak.map(|(_, bytes_per_s)| bytes_per_s.round()))),
        ("peak_time", json!(peak.map(|(peak, _)| time(peak.start)))),
        ("bytes_per_s", json!(overview.bytes_per_s.map(f64::round))),
        ("checkpoints", json!(overview.checkpoints)),
        ("fpi_bytes_within_60_s", json!(overview.since_redo.fpi_bytes_within_60_s())),
        ("since_redo_left_out_images", json!(overview.since_redo.left_out_images)),
        ("since_redo_left_out_bytes", json!(overview.since_redo.left_out_bytes)),
        ("since_redo", json!(spans.collect::<Vec<_>>())),
    ] {
        totals.insert(name.to_owned(), value);
    }
    totals
}
