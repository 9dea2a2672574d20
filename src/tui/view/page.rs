//! One page: where its sectors come from, the verdict, bytes side by side, header, records in WAL.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::triage::{meaning, style_of};
use super::{Body, columns, waiting};
use crate::analysis::slot_facts::SECTOR_BYTES;
use crate::output::escape::ascii_or_dot;
use crate::output::page_parts::part_at;
use crate::tui::facts::PageSheet;
use crate::tui::look::Look;
use crate::tui::state::{PagePart, State};

/// Width from which on 16 bytes stand on each side.
const WIDE: usize = 138;

/// Images that the legend names.
const MAX_LEGEND: usize = 4;

/// Columns that further lines of a sentence of evidence are moved in.
const INDENT: usize = 27;

/// The same behind the mark of a proof's step.
const STEP_INDENT: usize = 6;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let Some(sheet) = state.page.sheet.as_deref() else {
        let words = match state.page.wanted {
            Some(_) => "reading the page and its images",
            None => "No page is open: select one in Triage or Slots and press enter.",
        };
        let mut lines = vec![Line::default(), Line::raw(words)];
        if state.cluster.survey.is_none() {
            lines.extend(waiting(state));
        }
        return Body::text(lines, Vec::new(), 0);
    };
    let width = state.columns();
    let mut head = vec![title(state, sheet)];
    head.extend(sector_map(look, sheet));
    let legend = sheet.legend.iter().take(MAX_LEGEND).enumerate();
    head.extend(legend.map(|(at, words)| Line::styled(look.cut(words, width), look.number(at))));
    if sheet.legend.len() > MAX_LEGEND {
        head.push(Line::styled(format!("and {} more images", sheet.legend.len() - MAX_LEGEND), look.faint()));
    }
    head.push(parts(state));
    let table = |lines: &[String]| lines.iter().map(|line| cut_left(look, line, state.page.left, width)).collect();
    match state.page.part {
        PagePart::Verdict => {
            let lines = sheet.evidence.iter().flat_map(|line| evidence(look, line, width)).collect();
            Body::text(head, lines, state.page.top)
        }
        PagePart::Header => Body::text(head, table(&sheet.headers), state.page.top),
        PagePart::Wal => Body::text(head, table(&sheet.history), state.page.top),
        PagePart::Bytes => bytes(state, sheet, head),
    }
}

/// Bytes in a row on each side.
pub(super) fn row_bytes(state: &State) -> usize {
    if state.columns() >= WIDE { 16 } else { 8 }
}

/// How far tables can be moved to the left.
pub(super) fn widest(state: &State) -> usize {
    let Some(sheet) = state.page.sheet.as_deref() else { return 0 };
    let lines = match state.page.part {
        PagePart::Header => &sheet.headers,
        PagePart::Wal => &sheet.history,
        PagePart::Verdict | PagePart::Bytes => return 0,
    };
    lines.iter().map(|line| columns(line)).max().unwrap_or(0).saturating_sub(state.columns())
}

fn title(state: &State, sheet: &PageSheet) -> Line<'static> {
    let look = state.look;
    let mark = if state.plan.marks.contains(&sheet.page) { " *marked*" } else { "" };
    let mut spans = vec![Span::styled(look.plain(&format!("{}{mark}  ", sheet.title)), look.heading())];
    match sheet.verdict {
        Some(verdict) => {
            let words = format!("{}: {}", verdict.name(), meaning(verdict));
            spans.push(Span::styled(words, style_of(look, verdict)));
        }
        None if sheet.is_proven => spans.push(Span::styled("nothing is wrong with it", look.good())),
        None => spans.push(Span::styled("nothing found, but not proven whole", look.doubt())),
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
                _ => look.number(image_number(letters)),
            };
            spans.push(Span::styled(look.fit(letters, 3), style));
            spans.push(Span::raw(" "));
        }
        lines.push(Line::from(spans));
    }
    let words = format!("{:12}letters: images with the same {SECTOR_BYTES} bytes; 0 all zero; . none", "");
    lines.push(Line::styled(words, look.faint()));
    lines
}

/// Number of the image by its letter.
fn image_number(letters: &str) -> usize {
    letters.bytes().next().map_or(0, |byte| usize::from(byte.saturating_sub(b'A')))
}

fn parts(state: &State) -> Line<'static> {
    let look = state.look;
    let mut spans = Vec::new();
    for part in PagePart::ALL {
        let style = if part == state.page.part { look.selected() } else { look.heading() };
        spans.push(Span::styled(format!(" {} ", part.name()), style));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

/// A line of evidence, painted by the mark in front of it, broken where the screen ends.
fn evidence(look: Look, line: &str, width: usize) -> Vec<Line<'static>> {
    let is_step = line.starts_with("    ");
    let style = match line.trim_start().get(..2) {
        Some("+ ") if is_step => look.good(),
        Some("? ") if is_step => look.doubt(),
        Some("- ") if is_step => look.bad(),
        _ if !line.starts_with(' ') => look.heading(),
        _ => Style::new(),
    };
    let lead = match line.get(..INDENT) {
        _ if is_step => line.get(..STEP_INDENT).unwrap_or_default(),
        Some(lead) if line.starts_with("  ") && lead.ends_with(' ') => lead,
        _ => return wrapped(look, "", line, width, style),
    };
    wrapped(look, lead, line.get(lead.len()..).unwrap_or_default(), width, style)
}

fn wrapped(look: Look, lead: &str, text: &str, width: usize, style: Style) -> Vec<Line<'static>> {
    let blank = " ".repeat(lead.len());
    let start = text.len() - text.trim_start().len();
    let margin = text.get(..start).unwrap_or_default();
    let lines = look.wrap(text.trim_start(), width.saturating_sub(lead.len() + margin.len() + 1));
    let numbered = lines.into_iter().enumerate();
    numbered
        .map(|(at, words)| {
            let lead = if at == 0 { lead } else { &blank };
            Line::styled(format!("{lead}{margin}{words}"), style)
        })
        .collect()
}

/// A line of a table, without its first columns.
fn cut_left(look: Look, line: &str, left: usize, width: usize) -> Line<'static> {
    let style = if line.starts_with(' ') { Style::new() } else { look.heading() };
    let rest: String = line.chars().skip(left).collect();
    Line::styled(look.cut(&rest, width), style)
}

fn bytes<'a>(state: &'a State, sheet: &'a PageSheet, mut head: Vec<Line<'static>>) -> Body<'a> {
    let look = state.look;
    let row_bytes = row_bytes(state);
    let Some(disk) = sheet.versions.first() else { return Body::text(head, Vec::new(), 0) };
    let image = sheet.versions.get(state.page.image + 1);
    let side = row_bytes * 4;
    let right = image.map_or_else(|| "no image".to_owned(), |image| format!("image {}", image.title));
    let words = if image.is_some() { "  (! and marked: they differ)" } else { "" };
    let heading = format!("      {}   {right}{words}", look.fit(&disk.title, side));
    head.push(Line::styled(look.cut(&heading, state.columns()), look.heading()));
    let line = move |at: usize| {
        let start = at * row_bytes;
        let range = start..(start + row_bytes).min(disk.bytes.len());
        let left = disk.bytes.get(range.clone()).unwrap_or_default();
        let right = image.and_then(|image| image.bytes.get(range));
        hex_line(look, start, left, right, side, state.page.cursor)
    };
    let mut body = Body::list(head, disk.bytes.len().div_ceil(row_bytes), state.page.cursor / row_bytes, line);
    let at = state.page.cursor;
    let what = |bytes: &[u8]| part_at(bytes, sheet.page, at);
    let (on_disk, in_image) = (what(&disk.bytes), image.map(|image| what(&image.bytes)));
    let mut words = format!("{at:#06x} in sector {}: {on_disk}", at / SECTOR_BYTES);
    body.foot = match in_image {
        Some(in_image) if in_image != on_disk => {
            words.push_str(" on disk");
            let indent = " ".repeat(8);
            vec![words, format!("{indent}in image {}: {in_image}", right.trim_start_matches("image "))]
        }
        _ => vec![words],
    }
    .into_iter()
    .map(|words| Line::styled(look.cut(&words, state.columns()), look.heading()))
    .collect();
    body
}

fn hex_line(look: Look, start: usize, left: &[u8], right: Option<&[u8]>, side: usize, cursor: usize) -> Line<'static> {
    let differs = |at: usize| right.is_some_and(|right| right.get(at) != left.get(at));
    let any = (0..left.len()).any(differs);
    let mark = if any { '!' } else { ' ' };
    let mut spans = vec![Span::styled(format!("{start:04x}{mark} "), if any { look.bad() } else { look.faint() })];
    let show = |bytes: &[u8], style: Style, spans: &mut Vec<Span<'static>>| {
        for (at, byte) in bytes.iter().enumerate() {
            let style =
                if differs(at) { style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED) } else { Style::new() };
            let is_here = start + at == cursor;
            let style = if is_here { style.patch(look.selected()) } else { style };
            spans.push(Span::styled(format!("{byte:02x}"), style));
            spans.push(Span::raw(" "));
        }
        let text: String = bytes.iter().map(|byte| ascii_or_dot(*byte)).collect();
        spans.push(Span::styled(look.fit(&text, side - bytes.len() * 3), look.faint()));
    };
    show(left, look.bad(), &mut spans);
    if let Some(right) = right {
        spans.push(Span::raw(" | "));
        show(right, look.good(), &mut spans);
    }
    Line::from(spans)
}
