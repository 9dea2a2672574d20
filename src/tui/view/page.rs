//! One page: where its sectors come from, the verdict, bytes side by side, header, records in WAL.

use super::{
    Body, Line, Look, PagePart, Span, State, Style, columns, led, page_bytes, page_records, page_rows, waiting,
};
use crate::analysis::changes::sectors::{SECTOR_BYTES, SectorMarks};
use crate::analysis::dwb::staleness::Confidence;
use crate::analysis::verdict::evidence::Weight;
use crate::analysis::verdict::images::{PageVersion, VersionOf};
use crate::output::check_text::{EvidencePart, evidence_parts, letter, page_and_path, weight_mark};
use crate::output::page_text::{write_header_difference, write_items};
use crate::output::text::{Layout, Paint};
use crate::tui::export::text_of;
use crate::tui::facts::PageSheet;

/// Rows from which on the map of sectors is shown.
const LOW: usize = 24;

/// Width from which on 16 bytes stand on each side.
const WIDE: usize = 138;

const MAX_LEGEND: usize = 4;

/// Lines as long as they are: the screen cuts them.
const ENDLESS: Layout = Layout { width: u16::MAX, paint: Paint::new(false) };

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let Some(sheet) = state.page.sheet.as_deref() else {
        let words = match state.page.wanted {
            Some(_) => "The page and its images are being read.",
            None => "No page is open: select one in Triage or Slots and press enter.",
        };
        let mut lines = vec![Line::default(), Line::raw(words)];
        if state.cluster.survey.is_none() {
            lines.extend(waiting(state));
        }
        return Body::text(lines, Vec::new(), 0);
    };
    let width = state.columns();
    let mut head = title(state, sheet);
    // On a low screen the parts and their lines get the room.
    if usize::from(state.size.1) >= LOW {
        head.extend(sector_map(look, sheet, width));
        head.extend(legend(look, sheet, width));
    }
    head.push(parts(state));
    let lines = match state.page.part {
        PagePart::Verdict => {
            let parts = evidence_parts(&sheet.report);
            parts.iter().flat_map(|part| evidence(look, part, width)).collect()
        }
        PagePart::Header => {
            let lines = header_lines(sheet);
            lines.iter().map(|line| cut_left(look, line, state.page.left, width)).collect()
        }
        PagePart::Bytes => return page_bytes::body(state, sheet, head),
        PagePart::Rows => return page_rows::body(state, sheet, head),
        PagePart::Wal => return page_records::body(state, sheet, head),
    };
    Body::text(head, lines, state.page.top)
}

pub(super) fn row_bytes(state: &State) -> usize {
    if state.columns() >= WIDE { 16 } else { 8 }
}

/// How far the open part can be moved to the left.
pub(in crate::tui) fn widest(state: &State) -> usize {
    let sheet = state.page.sheet.as_deref().filter(|_| state.page.part == PagePart::Header);
    let lines = sheet.map_or_else(Vec::new, header_lines);
    lines.iter().map(|line| columns(line)).max().unwrap_or(0).saturating_sub(state.columns())
}

/// The header and the items, as `page` prints them.
fn header_lines(sheet: &PageSheet) -> Vec<String> {
    let (page, versions) = (sheet.report.page, &sheet.versions);
    if versions.is_empty() {
        return Vec::new();
    }
    let text = text_of(|out| {
        write_header_difference(out, ENDLESS, page, versions)?;
        write_items(out, ENDLESS, page, versions)
    });
    text.lines().skip(1).map(str::to_owned).collect()
}

fn legend(look: Look, sheet: &PageSheet, width: usize) -> Vec<Line<'static>> {
    let verdict = &sheet.report.verdict;
    let images = verdict.candidates.iter().enumerate();
    let mut lines: Vec<Line<'static>> = images
        .take(MAX_LEGEND)
        .map(|(index, judged)| {
            let mark = if verdict.chosen == Some(index) { ", chosen" } else { "" };
            let image = &judged.candidate;
            let words = format!("{}  {}, LSN {}{mark}", letter(index), image.source, image.page_lsn);
            Line::styled(look.cut(&words, width), look.number(index))
        })
        .collect();
    if let more @ 1.. = verdict.candidates.len().saturating_sub(MAX_LEGEND) {
        lines.push(Line::styled(format!("and {more} more images"), look.faint()));
    }
    lines
}

/// The page and its verdict, on one line where both fit.
fn title(state: &State, sheet: &PageSheet) -> Vec<Line<'static>> {
    let look = state.look;
    let report = &sheet.report;
    let page = report.page;
    let mark = match state.mark_sign(page) {
        "*" => " *marked*",
        "?" => " ?marked, unproven?",
        _ => "",
    };
    let name = page_and_path(&sheet.examined.called(page), page, &sheet.examined.path_of(page));
    let verdict = report.verdict.verdict;
    let (words, style) = if report.is_wrong {
        let key = if verdict.is_writable() { " (6: plan)" } else { "" };
        (format!("{}: {}{key}", verdict.facts().label, verdict.facts().meaning), look.verdict(verdict))
    } else if report.strength == Confidence::Proven {
        ("nothing is wrong with it".to_owned(), look.good())
    } else {
        ("no fault was found, but it is not proven intact".to_owned(), look.doubt())
    };
    let name = format!("{name}{mark}");
    if columns(&look.plain(&name)) + columns(&words) + 2 <= state.columns() {
        let name = format!("{}  ", look.plain(&name));
        return vec![Line::from(vec![Span::styled(name, look.heading()), Span::styled(words, style)])];
    }
    // The end of a long name says more than its beginning: file and block.
    let name = look.fit_end(&name, state.columns());
    let mut lines = vec![Line::styled(name, look.heading())];
    lines.extend(look.lines(&words, state.columns(), style));
    lines
}

/// Sectors of the page on disk, each with the letters of the images that it equals.
fn sector_map(look: Look, sheet: &PageSheet, width: usize) -> Vec<Line<'static>> {
    const LABEL: usize = 12;
    const CELL: usize = 4;
    let cells = if width >= LABEL + 16 * CELL { 16 } else { 8 };
    let mut lines = Vec::new();
    let sectors = sectors_of(&sheet.versions);
    for (first, cells) in (0..).step_by(cells).zip(sectors.chunks(cells)) {
        let ruler: String = (0..cells.len()).map(|at| look.fit(&format!("{}", first + at), CELL)).collect();
        lines.push(Line::styled(format!("{}{ruler}", look.fit("sector", LABEL)), look.faint()));
        let mut spans = vec![Span::styled(look.fit("on disk", LABEL), look.heading())];
        for Sector { images, is_zero } in cells {
            let letters: String = images.iter().map(|index| letter(*index)).collect();
            let (letters, style) = match images.first() {
                Some(first) => (letters.as_str(), look.number(*first)),
                None if *is_zero => ("0", look.faint()),
                None => (".", look.bad()),
            };
            spans.push(Span::styled(look.fit(letters, 3), style));
            spans.push(Span::raw(" "));
        }
        lines.push(Line::from(spans));
    }
    let words = format!("{:12}letter: equal to image; 0: zero; .: neither", "");
    lines.push(Line::styled(look.cut(&words, width), look.faint()));
    lines
}

struct Sector {
    images: Vec<usize>,
    is_zero: bool,
}

fn index_of(version: &PageVersion) -> Option<usize> {
    if let VersionOf::Image(index) = version.of { Some(index) } else { None }
}

fn sectors_of(versions: &[PageVersion]) -> Vec<Sector> {
    let Some((disk, images)) = versions.split_first().filter(|(disk, _)| disk.of == VersionOf::Disk) else {
        return Vec::new();
    };
    let marks = SectorMarks::of(&disk.bytes);
    let images: Vec<(usize, SectorMarks)> =
        images.iter().filter_map(|image| Some((index_of(image)?, SectorMarks::of(&image.bytes)))).collect();
    let sector = |at: usize| {
        let equal = images.iter().filter(|(_, image)| marks.same(image, at)).map(|(index, _)| *index);
        Sector { images: equal.collect(), is_zero: marks.is_zero(at) }
    };
    (0..disk.bytes.len().div_ceil(SECTOR_BYTES)).map(sector).collect()
}

fn parts(state: &State) -> Line<'static> {
    let part = |part: PagePart| {
        let style = if part == state.page.part { state.look.selected() } else { state.look.heading() };
        [Span::styled(format!(" {} ", part.name()), style), Span::raw(" ")]
    };
    PagePart::ALL.into_iter().flat_map(part).collect()
}

/// A piece of evidence, broken where the screen ends.
pub(super) fn evidence(look: Look, part: &EvidencePart, width: usize) -> Vec<Line<'static>> {
    let labelled = |label: &str, value: &str| {
        led(look, Span::raw(format!("  {label:<24} ")), value, width.saturating_sub(28), Style::new())
    };
    match part {
        EvidencePart::Fact(label, value) => labelled(label, value),
        EvidencePart::Verdict(verdict, source) => {
            let source = source.as_ref().map_or_else(String::new, |source| format!(": {source}"));
            labelled("verdict", &format!("{}{source}", verdict.facts().label))
        }
        EvidencePart::Image(words) => led(look, Span::raw("  "), words, width.saturating_sub(3), Style::new()),
        EvidencePart::Step(weight, words) => {
            let style = match weight {
                Weight::Supports => look.good(),
                Weight::Notes => Style::new(),
                Weight::Missing => look.doubt(),
                Weight::Loses | Weight::Against => look.bad(),
            };
            let lead = Span::styled(format!("    {} ", weight_mark(*weight)), style);
            let room = width.saturating_sub(lead.width() + 1);
            led(look, lead, words, room, style)
        }
    }
}

/// A line of a table, without its first columns.
fn cut_left(look: Look, line: &str, left: usize, width: usize) -> Line<'static> {
    let style = match line.trim_start().starts_with("! ") {
        true => look.bad(),
        false if line.starts_with(' ') => Style::new(),
        false => look.heading(),
    };
    let rest: String = line.chars().skip(left).collect();
    Line::styled(look.cut(&rest, width), style)
}
