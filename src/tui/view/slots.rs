//! Every slot of the double write buffer, sorted and searched. Only lines on the screen are made.

use ratatui::style::Style;
use ratatui::text::Line;

use super::{Body, highlight, waiting};
use crate::analysis::slot_facts::Condition;
use crate::analysis::slot_row::SlotRow;
use crate::parsers::dwb::patch::short_name;
use crate::tui::facts::Survey;
use crate::tui::look::Look;
use crate::tui::query::slot_words;
use crate::tui::state::{Column, State};
use crate::types::ForkNumber;

/// Width from which on writer and number have columns.
const WIDE: usize = 110;

/// Width from which on the batch has a column.
const WITH_BATCH: usize = 90;

/// Width from which on the LSN has a column.
const WITH_LSN: usize = 76;

/// Least columns of a relation.
const NAME: usize = 16;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let Some(survey) = state.survey() else { return Body::text(waiting(state), Vec::new(), 0) };
    if survey.slots().is_empty() {
        let words = "This cluster has no double write buffer, or it holds no slots.";
        return Body::text(vec![Line::default(), Line::raw(words)], Vec::new(), 0);
    }
    let list = &state.slots;
    let mut title = format!("{} of {} slots", list.order.len(), survey.slots().len());
    if let Some(batch) = list.batch {
        title.push_str(&format!(", of batch {} (esc: back)", super::ring::batch_letter(batch)));
    }
    if list.only {
        title.push_str(&format!(" match \"{}\" (f: all)", state.query.text()));
    }
    let line = if list.order.is_empty() { 0 } else { list.selected + 1 };
    title.push_str(&format!(", line {line}"));
    let names = ["slot", "relation", "block", "page lsn", "crc", "batch", "disk"].map(str::to_owned);
    let order = if list.descending { "-" } else { "+" };
    let mut names = names;
    // Relation and block are one column of the order.
    let sorted = match list.column {
        Column::Slot => 0,
        Column::Page => 1,
        Column::PageLsn => 3,
        Column::Condition => 4,
        Column::Batch => 5,
        Column::Disk => 6,
    };
    if let Some(name) = names.get_mut(sorted) {
        name.push_str(order);
    }
    let heading = cells(state, " ", &names, ["by", "id"].map(str::to_owned));
    let head = vec![Line::raw(look.cut(&title, state.columns())), Line::styled(heading, look.heading())];
    Body::list(head, list.order.len(), list.selected, move |at| slot_line(state, survey, at))
}

/// The cells of a row. Where the screen is narrow, columns are left out; the relation is as wide as the longest name, where
/// there is room.
fn cells(state: &State, lead: &str, cells: &[String; 7], more: [String; 2]) -> String {
    let (look, width) = (state.look, state.columns());
    let [slot, relation, block, lsn, crc, batch, disk] = cells;
    let (has_lsn, has_batch, wide) = (width >= WITH_LSN, width >= WITH_BATCH, width >= WIDE);
    let fixed = 2 + 9 + 1 + 9 + 1 + 6 + 14 + if has_lsn { 12 } else { 0 } + if has_batch { 10 } else { 0 };
    let fixed = fixed + if wide { 22 } else { 0 };
    let relation_columns = state.slots.name_columns.max(NAME).min(width.saturating_sub(fixed));
    let mut text = format!(
        "{}{}{} {} ",
        look.fit(lead, 2),
        look.fit(slot, 9),
        look.fit_name(relation, relation_columns),
        look.fit_right(block, 9)
    );
    if has_lsn {
        text.push_str(&look.fit_right(lsn, 11));
        text.push(' ');
    }
    text.push_str(&look.fit(crc, 6));
    if has_batch {
        text.push_str(&look.fit(batch, 10));
    }
    text.push_str(&look.fit(disk, 14));
    if wide {
        let [by, id] = more;
        text.push_str(&look.fit(&by, 12));
        text.push_str(&look.fit_right(&id, 10));
    }
    text
}

fn slot_line(state: &State, survey: &Survey, at: usize) -> Line<'static> {
    let look = state.look;
    let Some(row) = state.slots.order.get(at).and_then(|index| survey.slots().get(*index)) else {
        return Line::default();
    };
    let is_selected = at == state.slots.selected;
    let mark = row.page.map_or(" ", |page| state.mark_sign(page));
    let lead = format!("{}{}", if is_selected { look.pointer() } else { " " }, mark);
    let [crc, batch, disk, by, _] = slot_words(row);
    let is_empty = row.condition == Condition::Empty;
    let known = |text: String| if is_empty { String::new() } else { text };
    let block = match row.fork {
        Some(ForkNumber::Main) => row.block.to_string(),
        Some(fork) => format!("{fork} {}", row.block),
        None => format!("? {}", row.block),
    };
    let words = [
        slot_name(survey, row),
        known(survey.relation(row.rel)),
        known(block),
        known(row.page_lsn.to_string()),
        crc.to_owned(),
        known(batch.to_owned()),
        known(disk.to_owned()),
    ];
    let more = [known(by.to_owned()), known(row.slot_id.to_string())];
    let text = cells(state, &lead, &words, more);
    highlight(look, is_selected, Line::styled(text, style_of(look, survey, row)))
}

/// `file:slot`, the file by its number; the slot alone where there is one file.
fn slot_name(survey: &Survey, row: &SlotRow) -> String {
    if survey.files.len() < 2 {
        return row.index.to_string();
    }
    let file = survey.file_name(row.file).unwrap_or("?");
    format!("{}:{}", short_name(file), row.index)
}

/// As triage paints the page; a slot that fails its CRC stands out as well.
fn style_of(look: Look, survey: &Survey, row: &SlotRow) -> Style {
    if let Some(report) = row.page.and_then(|page| survey.damaged(page)) {
        return look.verdict(report.verdict.verdict);
    }
    match row.condition {
        Condition::Empty => look.faint(),
        Condition::Torn | Condition::Damaged => look.bad(),
        Condition::Unverifiable | Condition::Aborted => look.doubt(),
        Condition::Sound => Style::new(),
    }
}
