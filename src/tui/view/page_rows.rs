//! The rows of a page, or the entries of an index: what comes back and what is lost when an image is put back.

use super::{Body, Line, Look, Span, State, Style, columns, highlight};
use crate::analysis::pages::page_rows::{RowFate, is_of_rows};
use crate::output::page_rows::{RowCells, RowDetail, RowsOf};
use crate::output::page_text::version_title;
use crate::tui::body::led;
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
    head.push(Line::styled(layout.text(look, "  ", &titles).join(""), look.heading()));
    let count = of.rows.pairs.len();
    let line = move |at: usize| {
        let pointer = if at == selected { format!("{} ", look.pointer()) } else { "  ".to_owned() };
        let [before, fate, after] = layout.text(look, &pointer, &of.cells(at));
        let style = of.rows.pairs.get(at).map_or(Style::new(), |pair| fate_style(look, pair.fate));
        highlight(
            look,
            at == selected,
            Line::from(vec![Span::raw(before), Span::styled(fate, style), Span::raw(after)]),
        )
    };
    let mut body = Body::list(head, count, selected, line);
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

    fn text(self, look: Look, pointer: &str, cells: &RowCells) -> [String; 3] {
        let cell = |text: &str, width: usize| {
            if width == 0 { String::new() } else { format!("{} ", look.fit(text, width - 1)) }
        };
        let before = format!("{pointer}{}", cell(&cells.item, Self::ITEM));
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
    for detail in of.details(selected) {
        match (&detail.disk, &detail.image) {
            (Some(disk), Some(in_image)) if disk == in_image => {
                lines.extend(labelled(look, &detail.name, disk, width, Style::new()));
            }
            (disk, in_image) => {
                let mut name = detail.name.as_str();
                let mark = if detail.differs() { "! " } else { "" };
                for (lead, value, style) in [("disk", disk, look.bad()), (image, in_image, look.good())] {
                    let Some(value) = value else { continue };
                    let lead = if lead == "disk" { "disk: ".to_owned() } else { format!("image {lead}: ") };
                    let lead = if both { lead } else { String::new() };
                    let style = if detail.differs() { style } else { Style::new() };
                    let label = if name.is_empty() { String::new() } else { format!("{mark}{name}") };
                    lines.extend(labelled(look, &label, &format!("{lead}{value}"), width, style));
                    name = "";
                }
            }
        }
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
