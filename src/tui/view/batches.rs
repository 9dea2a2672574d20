//! Batches between completed checkpoints, and their position in the buffer.

use super::{Body, Line, Look, Span, State, Style, Survey, fact, ring, waiting};
use crate::analysis::dwb::report::{Batch, BatchWriter};
use crate::analysis::dwb::staleness::BatchVerdict;
use crate::analysis::wal::partial::CheckpointSeen;
use crate::output::json::time_text;
use crate::parsers::dwb::patch::short_name;
use crate::tui::facts::ListedBatch;

/// Columns of the letter.
const LEAD: usize = 3;

/// Width from which on the writer has a column.
const WITH_WRITER: usize = 70;

/// Width from which on first and last slot have columns.
const WIDE: usize = 110;

/// Width from which on the time has a column.
const WIDER: usize = 165;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let width = state.columns();
    let Some(survey) = state.survey() else { return Body::text(waiting(state), Vec::new(), 0) };
    let mut head = ring::lines(state, survey);
    head.push(Line::default());
    let names = [
        "",
        "batch",
        "confidence",
        "slots",
        "LSN from",
        "to",
        "by",
        "first slot",
        "last slot",
        "time (UTC)",
        "relations",
    ];
    let heading = cells(look, width, &names.map(str::to_owned));
    head.push(Line::styled(format!(" {heading}"), look.heading()));
    if survey.batches.is_empty() {
        head.push(Line::raw("no slot of the buffer is in use"));
    }
    let line = move |at: usize| batch_line(state, survey, at);
    let mut body = Body::rows(look, head, survey.batches.len(), state.batches.selected, line);
    body.foot = foot(state, survey);
    body
}

fn cells(look: Look, width: usize, cells: &[String; 11]) -> String {
    let [lead, batch, sure, slots, low, high, by, first, last, time, relations] = cells;
    let mut text = look.cells(&[(lead, LEAD as isize), (batch, 10), (sure, 11), (slots, -6), (low, -12), (high, -12)]);
    if width >= WITH_WRITER {
        text.push_str(&look.cells(&[("", 1), (by, 11)]));
    }
    if width >= WIDE {
        text.push_str(&look.cells(&[("", 1), (first, 12), ("", 1), (last, 12)]));
    }
    if width >= WIDER {
        text.push_str(&look.cells(&[("", 1), (time, 33)]));
    }
    let room = width.saturating_sub(super::columns(&text) + 2);
    format!("{text} {}", look.cut(relations, room))
}

fn relations(survey: &Survey, listed: &ListedBatch) -> String {
    let named: Vec<String> = listed.top_relations.iter().map(|rel| survey.relation(*rel)).collect();
    let count = listed.batch.relations.len();
    let more = if count > named.len() { ", and more" } else { "" };
    format!("{count}: {}{more}", named.join(", "))
}

fn batch_line(state: &State, survey: &Survey, at: usize) -> Line<'static> {
    let look = state.look;
    let Some(listed) = survey.batches.get(at) else { return Line::default() };
    let batch = &listed.batch;
    let style = match batch.verdict {
        BatchVerdict::Current => look.good(),
        BatchVerdict::Stale => look.faint(),
        BatchVerdict::Undecided => look.doubt(),
    };
    let short = |(file, index)| short_name(&survey.slot_name(file, index)).to_owned();
    let words = [
        format!(" {}", ring::batch_letter(at)),
        batch.verdict.name().to_owned(),
        batch.confidence.name().to_owned(),
        batch.slots.to_string(),
        batch.lowest_lsn.to_string(),
        batch.highest_lsn.to_string(),
        batch.writer().name().to_owned(),
        short(batch.first),
        short(batch.last),
        time_of(state, batch),
        relations(survey, listed),
    ];
    // The letter has the colour of the batch in the ring.
    let text = cells(look, state.columns(), &words);
    let after_lead = text.char_indices().nth(LEAD).map_or(text.len(), |(index, _)| index);
    let (lead, rest) = text.split_at(after_lead);
    Line::from(vec![Span::styled(lead.to_owned(), look.number(at)), Span::styled(rest.to_owned(), style)])
}

fn foot(state: &State, survey: &Survey) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.columns();
    let Some(listed) = survey.batches.get(state.batches.selected) else { return Vec::new() };
    let batch = &listed.batch;
    let by = match batch.writer() {
        BatchWriter::Unknown => {
            "unknown: images without checksums do not show whether a checkpoint or an eviction wrote them".to_owned()
        }
        BatchWriter::Checkpoint | BatchWriter::Eviction | BatchWriter::Mixed => {
            format!("checkpoint {}, eviction {}", batch.from_checkpoint, batch.from_eviction)
        }
    };
    let [first, last] = [batch.first, batch.last].map(|(file, index)| survey.slot_name(file, index));
    let slots = format!("{first} to {last}");
    let mut lines = vec![Line::default()];
    for (label, words) in [
        ("slots", slots),
        ("written by", by),
        ("time", time_of(state, batch)),
        ("relations", relations(survey, listed)),
    ] {
        lines.extend(fact(look, width, label, &words, Style::new()));
    }
    lines
}

/// When the images of a batch were made, as far as checkpoints in WAL tell.
fn time_of(state: &State, batch: &Batch) -> String {
    let is_known = batch.lowest_lsn.is_valid() && batch.highest_lsn.is_valid();
    let range = is_known.then_some((batch.lowest_lsn, batch.highest_lsn));
    let Some(((low, high), wal)) = range.zip(state.wal.survey.as_deref()) else {
        return if state.wal.is_reading { "WAL is being read" } else { "unknown" }.to_owned();
    };
    // The time in a checkpoint record is that of its redo point.
    let seen = || wal.intervals.iter().filter_map(|interval| interval.checkpoint);
    let time = |checkpoint: CheckpointSeen| checkpoint.time_s.map_or_else(|| "an unknown time".to_owned(), time_text);
    let oldest = seen().rfind(|checkpoint| checkpoint.redo_lsn <= low).map(time);
    let newest = seen().rfind(|checkpoint| checkpoint.redo_lsn <= high).map(time);
    let end = seen().find(|checkpoint| checkpoint.redo_lsn > high).map(time);
    match (oldest, newest, end) {
        (Some(oldest), _, Some(end)) => format!("{oldest} to {end}"),
        (Some(oldest), _, None) => format!("after {oldest}"),
        (None, Some(newest), None) => format!("newest after {newest}"),
        (None, Some(newest), Some(end)) => format!("newest {newest} to {end}"),
        (None, None, Some(end)) => format!("before {end}"),
        (None, None, None) => "unknown: no checkpoint in WAL is near".to_owned(),
    }
}
