//! The rows of a page, or the entries of an index: what comes back and what is lost when an image is put back.

use super::{Body, Line, Look, PagePart, Span, State, Style, columns, led};
use crate::analysis::pages::page_rows::{RowFate, is_of_rows};
use crate::output::page_rows::{RowCells, RowDetail, RowsOf};
use crate::output::page_text::version_title;
use crate::tui::facts::PageSheet;

/// Columns from which on the transaction that deleted a row and the ctid have columns.
const WITH_XMAX: usize = 72;

const NAME: usize = 26;

/// Lines of the foot that say what differs.
const MAX_FOOT: usize = 3;

pub(super) fn body<'a>(state: &'a State, sheet: &'a PageSheet, mut head: Vec<Line<'static>>) -> Body<'a> {
    let look = state.look;
    let width = state.columns();
    let image = sheet.images().get(state.page.image).map(version_title);
    let Some(of) = sheet.rows(state.page.image) else {
        return Body::text(head, vec![Line::raw("There is neither a page on disk nor an image.")], 0);
    };
    let versions = match (sheet.disk(), &image) {
        (Some(_), Some(image)) => format!("disk and image {image}"),
        (None, Some(image)) => format!("image {image}; there is no page on disk"),
        (_, None) => "disk; there is no image".to_owned(),
    };
    let folded = match (state.filtered_list(), state.shown_lines()) {
        (None, Some(shown)) if shown.len() < of.rows.pairs.len() => "; z shows the same ones",
        _ => "",
    };
    let words = format!("{versions}: {}{}{folded}", of.summary(), of.summary_of_return());
    head.extend(look.lines(&words, width, Style::new()));
    if let Some(note) = of.note().filter(|_| !of.rows.pairs.is_empty()) {
        head.extend(look.lines(&note, width, look.doubt()));
    }
    let image = image.unwrap_or_default();
    let selected = state.page.row.min(of.rows.pairs.len().saturating_sub(1));
    if state.page.is_open {
        let mut lines = details(look, &of, selected, &image, width);
        lines.push(Line::styled("esc: back to the list", look.faint()));
        return Body::text(head, lines, state.page.top);
    }
    let layout = Columns::of(state.list_columns(), is_of_rows(of.rows.kind));
    let titles = RowCells {
        item: "item".to_owned(),
        fate: "after restore",
        life: "row",
        xmin: "xmin".to_owned(),
        xmax: "xmax".to_owned(),
        ctid: if layout.is_of_rows { "ctid" } else { "leads to" }.to_owned(),
        values: if layout.is_of_rows { "columns" } else { "key" }.to_owned(),
    };
    let heading = layout.text(look, &titles).concat();
    head.push(Line::styled(format!(" {heading}"), look.heading()));
    let count = of.rows.pairs.len();
    let line = move |at: usize| {
        let [before, fate, after] = layout.text(look, &of.cells(at));
        let style = of.rows.pairs.get(at).map_or(Style::new(), |pair| fate_style(look, pair.fate));
        Line::from(vec![Span::raw(before), Span::styled(fate, style), Span::raw(after)])
    };
    let mut body = Body::rows(look, head, count, selected, line);
    if count == 0 {
        return body;
    }
    if state.detail_columns() > 0 {
        body.detail = details(look, &of, selected, &image, state.detail_columns());
    } else {
        body.foot = foot(look, &of, selected, width);
    }
    body
}

/// Everything about the selected row.
pub(super) fn text(state: &State, sheet: &PageSheet) -> Option<Vec<String>> {
    const ENDLESS: usize = 10_000;
    let of = sheet.rows(state.page.image).filter(|_| state.page.part == PagePart::Rows)?;
    let image = sheet.images().get(state.page.image).map(version_title).unwrap_or_default();
    let lines = details(state.look, &of, state.page.row, &image, ENDLESS);
    (!lines.is_empty()).then(|| lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect())
}

fn fate_style(look: Look, fate: RowFate) -> Style {
    match fate {
        RowFate::Same => look.faint(),
        RowFate::Alone => Style::new(),
        RowFate::ComesBack => look.good(),
        RowFate::Changed | RowFate::OtherRow => look.doubt(),
        RowFate::IsLost | RowFate::Unreadable => look.bad(),
    }
}

/// Widths of the columns of the list; 0: left out.
#[derive(Clone, Copy)]
struct Columns {
    life: usize,
    xmin: usize,
    xmax: usize,
    ctid: usize,
    values: usize,
    is_of_rows: bool,
}

impl Columns {
    const ITEM: usize = 5;
    const FATE: usize = 14;

    fn of(width: usize, is_of_rows: bool) -> Self {
        let (life, xmin, xmax, ctid) = match is_of_rows {
            true if width >= WITH_XMAX => (5, 10, 10, 11),
            true => (5, 10, 0, 0),
            false => (0, 0, 0, 16),
        };
        let used = 2 + Self::ITEM + Self::FATE + life + xmin + xmax + ctid;
        Self { life, xmin, xmax, ctid, values: width.saturating_sub(used), is_of_rows }
    }

    fn text(self, look: Look, cells: &RowCells) -> [String; 3] {
        let cell = |text: &str, width: usize| {
            if width == 0 { String::new() } else { format!("{} ", look.fit(text, width - 1)) }
        };
        let before = format!(" {}", cell(&cells.item, Self::ITEM));
        let after = [
            cell(cells.life, self.life),
            cell(&cells.xmin, self.xmin),
            cell(&cells.xmax, self.xmax),
            cell(&cells.ctid, self.ctid),
            look.cut(&cells.values, self.values),
        ];
        [before, cell(cells.fate, Self::FATE), after.concat()]
    }
}

/// The selected item in a few lines, where there is no room beside the list.
fn foot(look: Look, of: &RowsOf<'_>, selected: usize, width: usize) -> Vec<Line<'static>> {
    let Some(pair) = of.rows.pairs.get(selected) else { return Vec::new() };
    let differing: Vec<RowDetail> = of.details(selected).into_iter().filter(RowDetail::differs).collect();
    let mut lines = Vec::new();
    for detail in differing.iter().take(MAX_FOOT) {
        let words = format!("{}: disk {}, image {}", detail.name, side(&detail.disk), side(&detail.image));
        lines.push(Line::styled(look.cut(&words, width), look.doubt()));
    }
    let more = match differing.len().saturating_sub(MAX_FOOT) {
        0 => String::new(),
        more => format!("{more} more differ; "),
    };
    let words = if differing.is_empty() { pair.fate.meaning() } else { "" };
    let meaning = if words.is_empty() { String::new() } else { format!("{words}; ") };
    let text = format!("{meaning}{more}enter shows all of item {}", pair.number());
    lines.extend(look.lines(&text, width, look.heading()));
    lines
}

fn side(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("-")
}

pub(super) fn details(look: Look, of: &RowsOf<'_>, selected: usize, image: &str, width: usize) -> Vec<Line<'static>> {
    let Some(pair) = of.rows.pairs.get(selected) else { return Vec::new() };
    let fate = pair.fate;
    let title = if fate == RowFate::Alone {
        format!("item {}", pair.number())
    } else {
        format!("item {}: {fate}", pair.number())
    };
    let mut lines = vec![Line::styled(title, fate_style(look, fate).patch(look.heading()))];
    lines.extend(look.lines(fate.meaning(), width, look.faint()));
    let both = pair.disk.is_some() && pair.image.is_some();
    let image = if both { image } else { "" };
    lines.extend(of.details(selected).iter().flat_map(|detail| detail_lines(look, detail, image, width)));
    lines
}

/// A field in one line, or, where disk and image differ, in one for each. `image`: its name; empty: only one of both has the row.
pub(super) fn detail_lines(look: Look, detail: &RowDetail, image: &str, width: usize) -> Vec<Line<'static>> {
    if let (Some(disk), Some(in_image)) = (&detail.disk, &detail.image)
        && disk == in_image
    {
        return labelled(look, &detail.name, disk, width, Style::new());
    }
    let mut label = format!("{}{}", if detail.differs() { "! " } else { "" }, detail.name);
    let sides =
        [("disk: ".to_owned(), &detail.disk, look.bad()), (format!("image {image}: "), &detail.image, look.good())];
    let mut lines = Vec::new();
    for (lead, value, style) in sides {
        let Some(value) = value else { continue };
        let lead = if image.is_empty() { "" } else { &lead };
        let style = if detail.differs() { style } else { Style::new() };
        lines.extend(labelled(look, &std::mem::take(&mut label), &format!("{lead}{value}"), width, style));
    }
    lines
}

/// A name and what it stands for, wrapped beside it; below it where the name is long.
pub(super) fn labelled(look: Look, name: &str, value: &str, width: usize, style: Style) -> Vec<Line<'static>> {
    let name = look.plain(name);
    let is_long = columns(&name) >= NAME;
    let mut lines: Vec<Line<'static>> =
        is_long.then(|| Line::styled(look.cut(&name, width), look.heading())).into_iter().collect();
    let lead = Span::styled(look.fit(if is_long { "" } else { &name }, NAME), look.heading());
    lines.extend(led(look, lead, value, width.saturating_sub(NAME), style));
    lines
}
