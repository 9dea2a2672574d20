//! One page: where its sectors come from, the verdict, bytes side by side, header, records in WAL.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::triage::{meaning, style_of};
use super::{Body, waiting};
use crate::analysis::slot_facts::SECTOR_BYTES;
use crate::output::escape::ascii_or_dot;
use crate::output::page_text::part_at;
use crate::tui::facts::PageSheet;
use crate::tui::look::Look;
use crate::tui::state::{Part, State};

/// Width from which on 16 bytes stand on each side.
const WIDE: usize = 138;

/// Images that the legend names.
const MOST_LEGEND: usize = 4;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let Some(sheet) = state.sheet.as_deref() else {
        let words = match state.page {
            Some(_) => "reading the page and its images",
            None => "No page is open: select one in Triage or Slots and press enter.",
        };
        let mut lines = vec![Line::default(), Line::raw(words)];
        if state.survey.is_none() {
            lines.extend(waiting(state));
        }
        return Body::text(lines, Vec::new(), 0);
    };
    let mut head = vec![title(state, sheet)];
    head.extend(sector_map(look, sheet));
    let legend = sheet.legend.iter().take(MOST_LEGEND);
    head.extend(legend.map(|words| Line::raw(look.cut(words, state.columns()))));
    if sheet.legend.len() > MOST_LEGEND {
        head.push(Line::styled(format!("and {} more images", sheet.legend.len() - MOST_LEGEND), look.faint()));
    }
    head.push(parts(state));
    let text = |lines: &[String]| lines.iter().flat_map(|line| styled(look, line, state.columns())).collect();
    match state.part {
        Part::Verdict => Body::text(head, text(&sheet.evidence), state.page_top),
        Part::Header => Body::text(head, text(&sheet.headers), state.page_top),
        Part::Wal => Body::text(head, text(&sheet.history), state.page_top),
        Part::Bytes => bytes(state, sheet, head),
    }
}

fn title(state: &State, sheet: &PageSheet) -> Line<'static> {
    let look = state.look;
    let mark = if state.marks.contains(&sheet.page) { " *marked*" } else { "" };
    let mut spans = vec![Span::styled(look.plain(&format!("{}{mark}  ", sheet.title)), look.heading())];
    match sheet.verdict {
        Some(verdict) => {
            let words = format!("{}: {}", verdict.name(), meaning(verdict));
            spans.push(Span::styled(words, style_of(look, verdict)));
        }
        None => spans.push(Span::styled("nothing is wrong with it", look.good())),
    }
    Line::from(spans)
}

/// Sectors of the page on disk, each with the letters of the images that it equals.
fn sector_map(look: Look, sheet: &PageSheet) -> Vec<Line<'static>> {
    const CELLS: usize = 16;
    let mut lines = Vec::new();
    for (row, sectors) in sheet.sectors.chunks(CELLS).enumerate() {
        let first = row * CELLS;
        let ruler: String = (0..sectors.len()).map(|at| look.fit(&format!("{}", first + at), 4)).collect();
        lines.push(Line::styled(format!("{}{ruler}", look.fit("sector", 12)), look.faint()));
        let mut spans = vec![Span::styled(look.fit("on disk", 12), look.heading())];
        for letters in sectors {
            let style = match letters.as_str() {
                "." => look.bad(),
                "0" => look.faint(),
                _ if letters.starts_with('A') => look.good(),
                _ => look.doubt(),
            };
            spans.push(Span::styled(look.fit(letters, 3), style));
            spans.push(Span::raw(" "));
        }
        lines.push(Line::from(spans));
    }
    let words = format!("{:12}letters: images that this sector of {SECTOR_BYTES} bytes equals; 0 all zero; . none", "");
    lines.push(Line::styled(words, look.faint()));
    lines
}

fn parts(state: &State) -> Line<'static> {
    let look = state.look;
    let mut spans = Vec::new();
    for part in Part::ALL {
        let style = if part == state.part { look.selected() } else { look.heading() };
        spans.push(Span::styled(format!(" {} ", part.name()), style));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

/// A line of evidence, painted by the mark in front of it.
fn styled(look: Look, line: &str, width: usize) -> Vec<Line<'static>> {
    let style = match line.trim_start().get(..2) {
        Some("+ ") => look.good(),
        Some("? ") => look.doubt(),
        Some("- ") if line.starts_with("    ") => look.bad(),
        _ if !line.starts_with(' ') => look.heading(),
        _ => Style::new(),
    };
    vec![Line::styled(look.cut(line, width), style)]
}

fn bytes<'a>(state: &'a State, sheet: &'a PageSheet, mut head: Vec<Line<'static>>) -> Body<'a> {
    let look = state.look;
    let row_bytes = if state.columns() >= WIDE { 16 } else { 8 };
    let Some(disk) = sheet.versions.first() else { return Body::text(head, Vec::new(), 0) };
    let image = sheet.versions.get(state.image + 1);
    let count = disk.bytes.len().div_ceil(row_bytes);
    let side = row_bytes * 4;
    let right = image.map_or_else(|| "no image".to_owned(), |image| format!("image {}", image.title));
    head.push(Line::styled(
        format!("      {}   {right}{}", look.fit("disk", side), if image.is_some() { "  (bytes that differ: marked, and ! in front)" } else { "" }),
        look.heading(),
    ));
    let line = move |at: usize| {
        let start = at * row_bytes;
        let range = start..(start + row_bytes).min(disk.bytes.len());
        hex_line(look, start, disk.bytes.get(range.clone()), image.and_then(|image| image.bytes.get(range)), side)
    };
    let mut body = Body::text(head, Vec::new(), state.page_top);
    body.count = count;
    body.line = Box::new(line);
    // What stands in the first row, in the words of the format.
    let rows = state.body_rows();
    body.foot = vec![Line::default()];
    let first = body.top(rows) * row_bytes;
    let what = part_at(&disk.bytes, sheet.page, first..first + row_bytes);
    let words = format!("{first:#06x} in sector {}: {what}", first / SECTOR_BYTES);
    body.foot = vec![Line::styled(look.cut(&words, state.columns()), look.heading())];
    body
}

fn hex_line(look: Look, start: usize, left: Option<&[u8]>, right: Option<&[u8]>, side: usize) -> Line<'static> {
    let left = left.unwrap_or_default();
    let differs = |at: usize| right.is_some_and(|right| right.get(at) != left.get(at));
    let mark = if (0..left.len()).any(differs) { '!' } else { ' ' };
    let mut spans = vec![Span::styled(format!("{start:04x}{mark} "), if mark == '!' { look.bad() } else { look.faint() })];
    let show = |bytes: &[u8], style: Style, spans: &mut Vec<Span<'static>>| {
        for (at, byte) in bytes.iter().enumerate() {
            let style = if differs(at) { style } else { Style::new() };
            spans.push(Span::styled(format!("{byte:02x}"), style));
            spans.push(Span::raw(" "));
        }
        let text: String = bytes.iter().map(|byte| ascii_or_dot(*byte)).collect();
        spans.push(Span::styled(look.fit(&text, side - bytes.len() * 3), look.faint()));
    };
    show(left, look.selected().patch(look.bad()), &mut spans);
    if let Some(right) = right {
        spans.push(Span::raw(" | "));
        show(right, look.selected().patch(look.good()), &mut spans);
    }
    Line::from(spans)
}
