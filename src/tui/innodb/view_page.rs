//! One page: the verdict, its bytes beside an image, and the fields of header and trailer.

use std::collections::BTreeMap;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::facts::InnodbPageSheet;
use super::state::{InnodbPart, InnodbState as State};
use super::view::style_of;
use crate::analysis::slot_facts::SECTOR_BYTES;
use crate::output::innodb_fields::{name_at, page_fields};
use crate::tui::body::Body;
use crate::tui::byte_list::{ByteSides, byte_list, cursor_lead};
use crate::tui::frame;
use crate::tui::look::{Look, columns};

/// Columns of the name of a field.
const FIELD: usize = 20;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let Some(target) = state.page.wanted else {
        let words = "Open a page in Triage or Slots, or type g and a page.";
        return Body::text(vec![Line::default(), Line::raw(words)], Vec::new(), 0);
    };
    let Some(sheet) = state.page.sheet.as_deref() else {
        let words = format!("page {} of space {} is being read", target.page.page_no, target.page.space_id);
        return Body::text(vec![Line::default(), Line::styled(words, look.faint())], Vec::new(), 0);
    };
    let mut head = vec![title(state, sheet), parts(state)];
    match state.page.part {
        InnodbPart::Verdict => {
            head.extend(sector_map(look, sheet, state.page.image, state.columns()));
            let mut lines: Vec<Line<'static>> = state.page.text.iter().cloned().map(Line::raw).collect();
            if sheet.page.is_none() {
                lines.push(Line::raw("There is no such page on disk, or it could not be read."));
            }
            if sheet.further_images > 0 {
                let words = format!("{} further images are not read here", sheet.further_images);
                lines.push(Line::styled(words, look.faint()));
            }
            let skipped = sheet.skipped.iter().flat_map(|words| look.wrap(words, state.columns() - 1));
            lines.extend(skipped.map(|words| Line::styled(words, look.bad())));
            Body::text(head, lines, state.page.top)
        }
        InnodbPart::Bytes => bytes(state, sheet, head),
        InnodbPart::Header => {
            let (heading, lines) = header(state, sheet);
            head.push(heading);
            Body::text(head, lines, state.page.top)
        }
    }
}

fn title(state: &State, sheet: &InnodbPageSheet) -> Line<'static> {
    let look = state.look;
    let page = sheet.target.page;
    let held = sheet.page.as_ref().map(|page| page.held);
    let words = held.map_or("no such page", |held| held.name());
    let room = state.columns().saturating_sub(words.len() + 2);
    let name = format!("{} page {} (space {})", sheet.space, page.page_no, page.space_id);
    Line::from(vec![
        Span::styled(look.fit(&name, room), look.heading()),
        Span::styled(format!("  {words}"), held.map_or(look.bad(), |held| style_of(look, held))),
    ])
}

fn parts(state: &State) -> Line<'static> {
    frame::parts(state.look, InnodbPart::ALL.into_iter().map(|part| (part.name(), part == state.page.part)))
}

/// `image A (#ib_16384_0.dblwr:3 at 12345)`.
fn image_title(sheet: &InnodbPageSheet, at: usize) -> Option<String> {
    let image = sheet.images.get(at)?;
    let first = if image.is_chosen { ", first" } else { "" };
    Some(format!("image {} ({}{first})", image.letter, image.title))
}

/// The same, or its letter alone where it has no room.
fn short_title(sheet: &InnodbPageSheet, at: usize, room: usize) -> Option<String> {
    let title = image_title(sheet, at)?;
    let letter = sheet.images.get(at)?.letter;
    Some(if columns(&title) <= room { title } else { format!("image {letter}") })
}

/// Sectors of the page on disk, each with the letter of an image that it equals: of the selected one where it does.
fn sector_map(look: Look, sheet: &InnodbPageSheet, image: usize, width: usize) -> Vec<Line<'static>> {
    let Some(disk) = &sheet.disk else { return Vec::new() };
    if sheet.images.is_empty() {
        return Vec::new();
    }
    let order = std::iter::once(image).chain((0..sheet.images.len()).filter(|at| *at != image));
    let order: Vec<usize> = order.collect();
    let mut spans = Vec::new();
    for (at, sector) in disk.chunks(SECTOR_BYTES).enumerate() {
        let range = at * SECTOR_BYTES..at * SECTOR_BYTES + sector.len();
        let same = |index: &usize| {
            let image = sheet.images.get(*index)?;
            (image.bytes.get(range.clone()) == Some(sector)).then(|| (image.letter, look.number(*index)))
        };
        let (sign, style) = match order.iter().find_map(same) {
            Some(called) => called,
            None if sector.iter().all(|byte| *byte == 0) => ('0', look.faint()),
            None => ('.', look.bad()),
        };
        spans.push(Span::styled(sign.to_string(), style));
    }
    const LEAD: usize = 9;
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (at, row) in spans.chunks(width.saturating_sub(LEAD + 1).max(1)).enumerate() {
        let lead = if at == 0 { "sectors" } else { "" };
        let mut line = vec![Span::styled(look.fit(lead, LEAD), look.heading())];
        line.extend(row.iter().cloned());
        lines.push(Line::from(line));
    }
    let title = image_title(sheet, image).unwrap_or_default();
    let words = format!("{title}; letter: equal to that image; 0: zero; .: of none");
    lines.extend(look.wrap(&words, width - 1).into_iter().map(|words| Line::styled(words, look.faint())));
    lines
}

fn bytes<'a>(state: &'a State, sheet: &'a InnodbPageSheet, head: Vec<Line<'static>>) -> Body<'a> {
    let look = state.look;
    let sides = sides(state, sheet);
    // Beside the offset, the divider and the words that follow.
    const REST: usize = 22;
    let room = (state.columns() / 2).saturating_sub(REST);
    let titles = (sheet.disk.is_some().then(|| "disk".to_owned()), short_title(sheet, state.page.image, room));
    let mut body = byte_list(look, state.columns(), sides, titles, head);
    let name = name_at(sides.cursor, sides.left.len(), sheet.is_full_crc32);
    let words = format!("{}{name}", cursor_lead(sides.cursor));
    body.foot.push(Line::styled(look.cut(&words, state.columns()), look.heading()));
    body
}

/// The bytes of the open page.
pub(super) fn sides<'a>(state: &State, sheet: &'a InnodbPageSheet) -> ByteSides<'a> {
    let (left, right) = sheet.sides(state.page.image);
    let (is_unfolded, cursor) = (state.page.is_unfolded, state.page.cursor);
    ByteSides { left, right, row_bytes: state.row_bytes(), is_unfolded, cursor }
}

/// Fields of both sides; those that differ are marked.
fn header(state: &State, sheet: &InnodbPageSheet) -> (Line<'static>, Vec<Line<'static>>) {
    let look = state.look;
    let (left, right) = sheet.sides(state.page.image);
    let side = (state.columns().saturating_sub(FIELD + 4) / 2).min(48);
    let image = short_title(sheet, state.page.image, side).unwrap_or_else(|| "no image".to_owned());
    let (first, second) = if sheet.disk.is_some() { ("disk".to_owned(), image) } else { (image, String::new()) };
    let heading = format!("  {}{} {}", look.fit("field", FIELD), look.fit(&first, side), look.cut(&second, side));
    let fields = |bytes: &[u8]| page_fields(bytes, sheet.is_full_crc32);
    let on_right: BTreeMap<&str, String> = right.map(fields).unwrap_or_default().into_iter().collect();
    let line = |(name, value): (&'static str, String)| {
        let other = on_right.get(name);
        let differs = right.is_some() && other != Some(&value);
        let style = if differs { look.bad() } else { Style::new() };
        let mark = if differs { "!" } else { " " };
        Line::from(vec![
            Span::styled(format!("{mark} "), style),
            Span::styled(look.fit(name, FIELD), look.heading()),
            Span::styled(format!("{} ", look.fit(&value, side)), style),
            Span::styled(look.cut(other.map_or("", String::as_str), side), if differs { look.good() } else { style }),
        ])
    };
    let mut lines: Vec<Line<'static>> = fields(left).into_iter().map(line).collect();
    if lines.is_empty() {
        lines.push(Line::raw("Nothing of the page could be read."));
    }
    (Line::styled(look.cut(&heading, state.columns()), look.heading()), lines)
}
