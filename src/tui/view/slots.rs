//! Every slot of the double write buffer, sorted and searched. Only lines on the screen are made.

use super::{Body, Facts, Line, Look, Span, State, Style, Survey, waiting};
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::dwb::slot_facts::{Condition, SlotRow};
use crate::parsers::dwb::patch::short_name;
use crate::tui::query::slot_words;
use crate::tui::state::Column;
use crate::types::ForkNumber;

/// Width from which on writer and number have columns.
const WIDE: usize = 110;

/// Width from which on the batch has a column.
const WITH_BATCH: usize = 90;

/// Width from which on the LSN has a column.
const WITH_LSN: usize = 76;

const NAME: usize = 16;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let Some(survey) = state.survey() else { return Body::text(waiting(state), Vec::new(), 0) };
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
    let mut names = ["slot", "relation", "block", "page LSN", "crc", "batch", "disk", "by", "id"].map(str::to_owned);
    let order = if list.descending { "-" } else { "+" };
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
    let widths = Widths::of(state);
    match list.column {
        Column::PageLsn if widths.lsn == 0 => title.push_str(", sorted by page LSN"),
        Column::Batch if widths.batch == 0 => title.push_str(", sorted by batch"),
        _ => {}
    }
    let heading = cells(look, widths, "  ", &names).concat();
    let head = vec![Line::raw(look.cut(&title, state.columns())), Line::styled(heading, look.heading())];
    let line = move |at| slot_line(state, survey, widths, at);
    let mut body = Body::rows(look, head, list.order.len(), list.selected, line);
    if state.detail_columns() > 0 {
        let row = list.order.get(list.selected).and_then(|index| survey.slots().get(*index));
        body.detail = row.map_or_else(Vec::new, |row| details(look, survey, row, state.detail_columns()));
    }
    body
}

/// Columns that a list of this width has; what has no room is in the detail, or on a wider screen.
#[derive(Clone, Copy)]
struct Widths {
    slot: usize,
    relation: usize,
    block: usize,
    lsn: usize,
    batch: usize,
    by: usize,
    id: usize,
}

/// Columns of CRC and of how the page on disk compares.
const CRC: usize = 6;
const DISK: usize = 16;

impl Widths {
    fn of(state: &State) -> Self {
        let width = state.list_columns();
        let (slot, block) = if width >= WIDE { (10, 10) } else { (8, 8) };
        let lsn = if width >= WITH_LSN { 12 } else { 0 };
        let batch = if width >= WITH_BATCH { 10 } else { 0 };
        let (by, id) = if width >= WIDE { (11, 8) } else { (0, 0) };
        let fixed = 2 + slot + block + lsn + CRC + batch + DISK + by + id;
        // As wide as its names, so that a line can be read in one look.
        let longest = state.slots.name_columns.max(NAME) + 1;
        Self { slot, relation: longest.min(width.saturating_sub(fixed + 1)), block, lsn, batch, by, id }
    }
}

fn cells(look: Look, widths: Widths, lead: &str, words: &[String; 9]) -> [String; 3] {
    let [slot, relation, block, lsn, crc, batch, disk, by, id] = words;
    let right = |text: &str, width: usize| if width == 0 { String::new() } else { look.fit_right(text, width) };
    let before = format!(
        "{}{}{}{}{}{}{}",
        lead,
        look.fit(slot, widths.slot),
        look.fit_name(relation, widths.relation),
        right(block, widths.block),
        right(lsn, widths.lsn),
        look.fit(&format!(" {crc}"), CRC),
        look.fit(batch, widths.batch),
    );
    let after = format!("{}{}", look.fit(by, widths.by), right(id, widths.id));
    [before, look.fit(disk, DISK), after]
}

fn slot_line(state: &State, survey: &Survey, widths: Widths, at: usize) -> Line<'static> {
    let look = state.look;
    let Some(row) = state.slots.order.get(at).and_then(|index| survey.slots().get(*index)) else {
        return Line::default();
    };
    let mark = row.page.map_or(" ", |page| state.mark_sign(page));
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
        known(by.to_owned()),
        known(row.slot_id.to_string()),
    ];
    let [before, disk, after] = cells(look, widths, mark, &words);
    let style = style_of(look, survey, row);
    // A page that can be restored is damaged nevertheless.
    let disk_style = match row.comparison {
        Some(Comparison::Torn | Comparison::Damaged) => look.bad(),
        _ => style,
    };
    Line::from(vec![Span::styled(before, style), Span::styled(disk, disk_style), Span::styled(after, style)])
}

fn details(look: Look, survey: &Survey, row: &SlotRow, width: usize) -> Vec<Line<'static>> {
    let [crc, batch, disk, by, fork] = slot_words(row);
    let mut facts = Facts::new(look, width);
    let name = survey.slot_name(row.file, row.index);
    facts.add("slot", &format!("{name}, stored number {}", row.slot_id), look.heading());
    facts.add("crc", crc, Style::new());
    if row.condition == Condition::Empty {
        return facts.lines;
    }
    facts.add("relation", &format!("{} ({})", survey.relation(row.rel), row.rel), Style::new());
    facts.add("block", &format!("{} of the {fork} fork", row.block), Style::new());
    facts.add(
        "LSN",
        &format!("{} in the image, {} in the header of the slot", row.page_lsn, row.slot_lsn),
        Style::new(),
    );
    let reason = row.batch.map_or_else(String::new, |(_, reason)| format!(" ({})", reason.name()));
    facts.add("batch", &format!("{batch}{reason}"), Style::new());
    facts.add("written by", by, Style::new());
    facts.add("on disk", disk, Style::new());
    if let Some(report) = row.page.and_then(|page| survey.damaged(page)) {
        let verdict = report.verdict.verdict;
        facts.add("page", &format!("{}: {}", verdict.facts().label, verdict.facts().meaning), look.verdict(verdict));
        for reason in &report.verdict.reasons {
            facts.add("", &reason.to_string(), Style::new());
        }
        facts.add("", "enter: the page and its images", look.faint());
    }
    facts.lines
}

/// `file:slot`, the file by its number; the slot alone where there is one file.
fn slot_name(survey: &Survey, row: &SlotRow) -> String {
    if survey.files.len() < 2 {
        return row.index.to_string();
    }
    short_name(&survey.slot_name(row.file, row.index)).to_owned()
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
