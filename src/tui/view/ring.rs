//! The double write buffer as a map: rows of cells with batches, damaged pages, the next write and a cursor.

use super::{Line, Look, Modifier, Span, State, Style, Survey, columns, fact, pages};
use crate::analysis::dwb::staleness::BatchVerdict;
use crate::analysis::verdict::judge::Verdict;
use crate::output::check_text::{letter, page_title};
use crate::tui::damage_map::verdict_letter;
use crate::tui::ring::{Grid, Mark};

/// Columns in front of the map: number of the first slot of the row.
const LEAD: usize = 8;

const MAX_ROWS: usize = 24;

/// Damaged pages of a cell that are named.
const MAX_NAMED: usize = 3;

/// The row of the screen body in which the map begins.
pub(super) const FIRST_ROW: usize = 1;

pub(super) fn grid(state: &State, survey: &Survey) -> Grid {
    let columns = state.columns().saturating_sub(LEAD + 1);
    Grid::fit(survey.ring.count(), columns, (state.body_rows() * 2 / 5).clamp(2, MAX_ROWS))
}

/// The slot at this column and row of the body; `None` beside the map.
pub(super) fn slot_at(state: &State, survey: &Survey, column: usize, row: usize) -> Option<usize> {
    let grid = grid(state, survey);
    let (row, column) = (row.checked_sub(FIRST_ROW)?, column.checked_sub(LEAD)?);
    let cell = grid.cell(row, column);
    Some(cell.start).filter(|_| row < grid.rows && column < grid.columns && !cell.is_empty())
}

/// The letter of a batch: small, since large ones are verdicts.
pub(super) fn batch_letter(at: usize) -> char {
    letter(at).to_ascii_lowercase()
}

/// The map, what its letters mean, and what is under the cursor.
pub(super) fn lines(state: &State, survey: &Survey) -> Vec<Line<'static>> {
    let (look, width, grid) = (state.look, state.columns(), grid(state, survey));
    let each = if grid.per_cell == 1 { "1 slot".to_owned() } else { format!("{} slots", grid.per_cell) };
    let scale = match state.batches.played {
        Some(played) => {
            format!(
                "as it was written, the oldest first: {played} of {} slots (any key stops)",
                survey.ring.order.len()
            )
        }
        None => format!("{} slots in file order, {each} a cell", grid.slots),
    };
    let mut lines = vec![Line::styled(look.cut(&scale, width), look.faint())];
    for row in 0..grid.rows {
        let first = grid.cell(row, 0).start;
        let mut spans = vec![Span::styled(format!("{first:>width$} ", width = LEAD - 1), look.faint())];
        spans.extend((0..grid.columns).filter_map(|column| cell(state, survey, grid.cell(row, column))));
        lines.push(Line::from(spans));
    }
    lines.extend(filled(&legend(state, survey), width).into_iter().map(|words| Line::styled(words, look.faint())));
    lines.extend(fact(look, width, "cursor", &cursor_words(state, survey, &grid), Style::new()));
    lines
}

/// One cell; `None` past the end of the buffer.
fn cell(state: &State, survey: &Survey, slots: std::ops::Range<usize>) -> Option<Span<'static>> {
    let (look, ring) = (state.look, &survey.ring);
    let marks = ring.marks.get(slots.clone()).filter(|marks| !marks.is_empty())?;
    let is_shown = |slot: usize| match state.batches.played {
        Some(played) => ring.ranks.get(slot).copied().flatten().is_some_and(|rank| rank < played),
        None => true,
    };
    let worst = slots.clone().zip(marks).filter(|(slot, _)| is_shown(*slot)).map(|(_, mark)| *mark).max();
    let begins = slots.start > 0 && ring.batch(slots.start) != ring.batch(slots.start - 1);
    let (symbol, mut style) = match worst.unwrap_or(Mark::Empty) {
        Mark::Damaged(verdict) => (verdict_letter(Some(verdict)), look.verdict(verdict).add_modifier(Modifier::BOLD)),
        Mark::Fails => ('x', look.bad()),
        Mark::Sound => {
            let is_named = begins || slots.start == 0 || slots.contains(&state.batches.cursor);
            batch_cell(look, survey, slots.clone().filter(|slot| is_shown(*slot)), is_named)
        }
        Mark::Empty => ('.', look.faint()),
    };
    let ends = ring.current_end.is_some_and(|next| slots.contains(&next)) && state.batches.played.is_none();
    let symbol = if ends && !matches!(worst, Some(Mark::Damaged(_))) { '>' } else { symbol };
    if begins || ends {
        style = style.add_modifier(Modifier::UNDERLINED);
    }
    if slots.contains(&state.batches.cursor) {
        style = style.patch(look.selected());
    }
    Some(Span::styled(symbol.to_string(), style))
}

fn batch_cell(look: Look, survey: &Survey, slots: impl Iterator<Item = usize>, is_named: bool) -> (char, Style) {
    let mut counts: Vec<(usize, usize)> = Vec::new();
    for batch in slots.filter_map(|slot| survey.ring.batch(slot)) {
        match counts.iter_mut().find(|(one, _)| *one == batch) {
            Some((_, count)) => *count += 1,
            None => counts.push((batch, 1)),
        }
    }
    match counts.iter().max_by_key(|(batch, count)| (*count, std::cmp::Reverse(*batch))) {
        Some((batch, _)) => {
            let listed = survey.batches.get(*batch);
            let is_current = listed.is_some_and(|listed| listed.batch.verdict == BatchVerdict::Current);
            let symbol = if is_named { batch_letter(*batch) } else { shade(look, is_current) };
            (symbol, look.number(*batch))
        }
        None => ('?', look.doubt()),
    }
}

/// A cell of a batch after its first one.
const fn shade(look: Look, is_current: bool) -> char {
    match (look.ascii, is_current) {
        (true, true) => '=',
        (true, false) => '-',
        (false, true) => '▓',
        (false, false) => '░',
    }
}

/// Items side by side, none of them broken at the end of a line.
fn filled(items: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if columns(line) + columns(item) + 2 < width => line.extend(["; ", item]),
            _ => lines.push(item.clone()),
        }
    }
    lines
}

/// Meaning of the characters on the map.
fn legend(state: &State, survey: &Survey) -> Vec<String> {
    let marks = &survey.ring.seen;
    let [current, older] = [true, false].map(|is_current| shade(state.look, is_current));
    let mut words = vec![format!("small letter: a batch begins; {current} current, {older} older")];
    if survey.ring.current_end.is_some() {
        words.push("> after the current batch".to_owned());
    }
    if marks.contains(&Mark::Empty) || state.batches.played.is_some() {
        words.push(". never written".to_owned());
    }
    if marks.contains(&Mark::Fails) {
        words.push("x slot fails its CRC".to_owned());
    }
    for verdict in Verdict::ALL {
        if marks.contains(&Mark::Damaged(verdict)) {
            words.push(format!("{} {}", verdict_letter(Some(verdict)), verdict.facts().label));
        }
    }
    words
}

fn cursor_words(state: &State, survey: &Survey, grid: &Grid) -> String {
    let ring = &survey.ring;
    let slots = grid.cell_of(state.batches.cursor);
    let name = |slot: usize| {
        let row = survey.slots().get(slot);
        row.map_or_else(String::new, |row| survey.slot_name(row.file, row.index))
    };
    let mut words = match slots.len() {
        0 => return "there are no slots".to_owned(),
        1 => vec![format!("slot {}", name(slots.start))],
        _ => vec![format!("slots {} to {}", name(slots.start), name(slots.end - 1))],
    };
    let mut batches: Vec<usize> = slots.clone().filter_map(|slot| ring.batch(slot)).collect();
    batches.dedup();
    batches.sort_unstable();
    batches.dedup();
    for batch in batches {
        let verdict = survey.batches.get(batch).map_or("?", |listed| listed.batch.verdict.name());
        words.push(format!("batch {} ({verdict})", batch_letter(batch)));
    }
    let marks = ring.marks.get(slots.clone()).unwrap_or_default();
    let failing = marks.iter().filter(|mark| **mark == Mark::Fails).count();
    if failing > 0 {
        words.push(format!("{failing} not usable: CRC"));
    }
    if ring.current_end.is_some_and(|next| slots.contains(&next)) {
        words.push("the current batch ends before it".to_owned());
    }
    let mut damaged: Vec<_> = survey.slots().get(slots).unwrap_or_default().iter().filter_map(|row| row.page).collect();
    damaged.retain(|page| survey.damaged(*page).is_some());
    damaged.sort_unstable();
    damaged.dedup();
    if !damaged.is_empty() {
        let named = damaged.iter().take(MAX_NAMED).map(|page| {
            let verdict = survey.damaged(*page).map_or("?", |report| report.verdict.verdict.facts().label);
            format!("{} ({verdict})", page_title(&survey.relation(page.rel), *page))
        });
        let named: Vec<String> = named.collect();
        let more = if damaged.len() > MAX_NAMED { ", and more" } else { "" };
        words.push(format!("{} damaged: {}{more}", pages(damaged.len()), named.join(", ")));
    }
    words.join("; ")
}
