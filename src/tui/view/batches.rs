//! What was written between completed checkpoints, and where in the buffer it stands.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Body, waiting};
use crate::analysis::slot_facts::Condition;
use crate::analysis::slot_row::SlotRow;
use crate::analysis::staleness::BatchVerdict;
use crate::output::json::{BatchJson, time_text};
use crate::output::text::short_lsn;
use crate::tui::facts::Survey;
use crate::tui::look::Look;
use crate::tui::state::State;
use crate::types::Lsn;

/// Columns in front of the strip.
const LEAD: usize = 8;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let width = state.columns();
    let Some(survey) = state.survey.as_deref() else { return Body::text(waiting(state), Vec::new(), 0) };
    if survey.slots.is_empty() {
        let words = "This cluster has no double write buffer, or it holds no slots.";
        return Body::text(vec![Line::default(), Line::raw(words)], Vec::new(), 0);
    }
    let mut head = strip(look, width, survey);
    head.push(Line::default());
    let columns = format!(
        "{:<9} {:<8} {:>7}  {:<13} {:<13} {:>11} {:>11}",
        "batch", "sure", "slots", "first", "last", "lowest lsn", "highest lsn"
    );
    head.push(Line::styled(look.cut(&columns, width), look.heading()));
    let mut lines = Vec::new();
    for batch in &survey.batches {
        lines.extend(describe(state, survey, batch));
    }
    if survey.batches.is_empty() {
        lines.push(Line::raw("no slot of the buffer is in use"));
    }
    Body::text(head, lines, state.batches_top)
}

/// The whole buffer in one line, by batch and by what is wrong.
fn strip(look: Look, width: usize, survey: &Survey) -> Vec<Line<'static>> {
    let room = width.saturating_sub(LEAD + 1).max(1);
    let count = survey.slots.len();
    let cells = room.min(count.max(1));
    let slots_of = |cell: usize| survey.slots.get(cell * count / cells..(cell + 1) * count / cells).unwrap_or_default();
    let mut batch = vec![Span::styled(look.fit("batch", LEAD), look.heading())];
    let mut pages = vec![Span::styled(look.fit("pages", LEAD), look.heading())];
    for cell in 0..cells {
        let (letter, style) = batch_of(look, slots_of(cell));
        batch.push(Span::styled(letter.to_string(), style));
        let (letter, style) = worst_of(look, survey, slots_of(cell));
        pages.push(Span::styled(letter.to_string(), style));
    }
    let per = count.div_ceil(cells.max(1));
    let scale = format!("{count} slots in the order of their places, up to {per} to a column");
    vec![
        Line::styled(look.cut(&scale, width), look.faint()),
        Line::from(batch),
        Line::from(pages),
        Line::styled(
            look.cut("C current  s stale  u undecided  . never written;  ! its page is damaged  x slot fails its CRC", width),
            look.faint(),
        ),
    ]
}

/// The most frequent batch of some slots; a current one is never hidden.
fn batch_of(look: Look, slots: &[SlotRow]) -> (char, Style) {
    let of = |verdict| slots.iter().filter(|row| row.batch.is_some_and(|(batch, _)| batch == verdict)).count();
    let (current, undecided, stale) =
        (of(BatchVerdict::Current), of(BatchVerdict::Undecided), of(BatchVerdict::Stale));
    match () {
        () if current > 0 => ('C', look.good()),
        () if undecided > 0 && undecided >= stale => ('u', look.doubt()),
        () if stale > 0 => ('s', look.faint()),
        () => ('.', look.faint()),
    }
}

/// The worst that is known of some slots and their pages.
fn worst_of(look: Look, survey: &Survey, slots: &[SlotRow]) -> (char, Style) {
    let damaged = |row: &SlotRow| row.page.is_some_and(|page| survey.damaged(page).is_some());
    if slots.iter().any(damaged) {
        ('!', look.bad())
    } else if slots.iter().any(|row| matches!(row.condition, Condition::Torn | Condition::Damaged)) {
        ('x', look.bad())
    } else {
        ('-', look.faint())
    }
}

fn describe(state: &State, survey: &Survey, batch: &BatchJson) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.columns();
    let style = match batch.batch {
        "current" => look.good(),
        "stale" => look.faint(),
        _ => look.doubt(),
    };
    let place = |slot: &str| look.cut(slot.strip_prefix("dwbuf_").unwrap_or(slot), 13);
    let row = format!(
        "{:<9} {:<8} {:>7}  {:<13} {:<13} {:>11} {:>11}",
        batch.batch,
        batch.confidence,
        batch.slots,
        place(&batch.first_slot),
        place(&batch.last_slot),
        short_lsn(&batch.lowest_lsn),
        short_lsn(&batch.highest_lsn)
    );
    let mut lines = vec![Line::styled(look.cut(&row, width), style)];
    let by = match batch.written_by {
        "mixed" => format!("checkpoint {} and eviction {}", batch.from_checkpoint, batch.from_eviction),
        "unknown" => "nobody knows whom: images carry no checksums".to_owned(),
        other => other.to_owned(),
    };
    let relations: Vec<String> = batch
        .top_relations
        .iter()
        .map(|numbers| survey.names.iter().find(|(rel, _)| rel.to_string() == *numbers).map_or(numbers, |(_, name)| name))
        .cloned()
        .collect();
    let more = if batch.relations > relations.len() { ", and more" } else { "" };
    let mut words = format!("written by {by}; {} relations: {}{more}", batch.relations, relations.join(", "));
    if let Some(time) = time_of(state, batch) {
        words.push_str(&format!("; {time}"));
    }
    for line in look.wrap(&words, width.saturating_sub(11)) {
        lines.push(Line::raw(format!("          {line}")));
    }
    lines
}

/// When the newest image of a batch was made, as far as checkpoints in WAL tell.
fn time_of(state: &State, batch: &BatchJson) -> Option<String> {
    let highest: Lsn = batch.highest_lsn.parse().ok()?;
    let wal = state.wal.as_ref()?;
    let began = wal.intervals.iter().rev().find(|interval| interval.start_lsn <= highest)?;
    began.checkpoint.map(|seen| format!("newest after the redo point of the checkpoint of {}", time_text(seen.time_s)))
}
