//! The map of the cluster: tiles of forks with their blocks, or the blocks of one fork.

use super::damage_map::{cell_style, style_of};
use super::triage::outdated_words;
use super::{Body, Line, Look, Modifier, Span, State, Style, Survey, columns, fact, joined, pages, waiting};
use crate::analysis::verdict::judge::Verdict;
use crate::tui::cluster_map::{Area, Fork, Tile, blocks_of_cell, cells_of, tiles};
use crate::tui::damage_map::{StripCell, with_fork};
use crate::types::PageId;

/// Lines above the map.
pub(in crate::tui) const HEAD: usize = 1;

/// Lines below it.
const FOOT: usize = 2;

/// Where the map is, counted from the line after the head.
pub(in crate::tui) fn area(state: &State) -> Area {
    Area { x: 0, y: 0, width: state.columns(), height: state.body_rows().saturating_sub(HEAD + FOOT) }
}

/// The cells of the selected fork when it is open.
pub(in crate::tui) fn cells(state: &State, survey: &Survey) -> Vec<StripCell> {
    let Area { width, height, .. } = area(state);
    let fork = survey.forks.get(state.map.selected);
    fork.map_or_else(Vec::new, |fork| cells_of(survey, fork, width * height.saturating_sub(1)))
}

/// The page of the cell under the cursor: the first damaged one, else the first.
pub(in crate::tui) fn page(state: &State, survey: &Survey) -> Option<PageId> {
    let fork = survey.forks.get(state.map.selected)?;
    let (first, end) = blocks_of_cell(fork.blocks, cells(state, survey).len(), state.map.cell);
    let is_here =
        |page: &PageId| (page.rel, page.fork) == (fork.rel, fork.fork) && (first..end).contains(&u64::from(page.block));
    let damaged = survey.pages().iter().map(|report| report.page).find(is_here);
    let whole = || Some(PageId { rel: fork.rel, fork: fork.fork, block: u32::try_from(first).ok()? });
    damaged.or_else(whole)
}

pub(super) fn body(state: &State) -> Body<'_> {
    let Some(survey) = state.survey() else { return Body::text(Vec::new(), waiting(state), 0) };
    let (look, width) = (state.look, state.columns());
    let selected = survey.forks.get(state.map.selected);
    let lines = if let Some(fork) = selected.filter(|_| state.map.is_open) {
        let mut canvas = Canvas::new(look, area(state));
        let cells = cells(state, survey);
        canvas.title(area(state), &title(survey, fork, 1), false, fork.worst);
        for (at, cell) in cells.iter().enumerate() {
            let style = if at == state.map.cell { look.selected() } else { Style::new() };
            canvas.cell(at % width, 1 + at / width, cell, style);
        }
        canvas.lines()
    } else {
        picture(look, survey, area(state), Some(state.map.selected))
    };
    let mut body = Body::text(vec![head(state, survey)], lines, 0);
    body.foot = foot(state, survey);
    body
}

/// The whole cluster: a tile for each fork, the worst first.
pub(super) fn picture(look: Look, survey: &Survey, area: Area, selected: Option<usize>) -> Vec<Line<'static>> {
    let mut canvas = Canvas::new(look, area);
    for tile in tiles(&survey.forks, area) {
        canvas.tile(survey, &tile, Some(tile.first) == selected);
    }
    canvas.lines()
}

fn head(state: &State, survey: &Survey) -> Line<'static> {
    let look = state.look;
    if let Some(words) = outdated_words(state) {
        return Line::styled(look.cut(words, state.columns()), look.doubt());
    }
    let all: u64 = survey.forks.iter().map(|fork| fork.blocks).sum();
    let damaged = survey.forks.iter().filter(|fork| fork.worst.is_some()).count();
    let words =
        format!("{all} pages in {} relation forks, {} damaged in {damaged}", survey.forks.len(), survey.pages().len());
    let mut spans = vec![Span::styled(words, look.heading())];
    for verdict in
        Verdict::ALL.into_iter().filter(|verdict| survey.forks.iter().any(|fork| fork.worst >= Some(*verdict)))
    {
        if survey.pages().iter().any(|report| report.verdict.verdict == verdict) {
            let style = look.verdict(verdict).add_modifier(Modifier::BOLD);
            spans.push(Span::styled(format!("  {}", verdict.facts().letter), style));
            spans.push(Span::raw(format!(" {}", verdict.facts().label)));
        }
    }
    Line::from(spans)
}

fn foot(state: &State, survey: &Survey) -> Vec<Line<'static>> {
    let (look, width) = (state.look, state.columns());
    let Some(fork) = survey.forks.get(state.map.selected) else { return Vec::new() };
    let words = if state.map.is_open {
        let cells = cells(state, survey);
        let (first, end) = blocks_of_cell(fork.blocks, cells.len(), state.map.cell);
        let cell = cells.get(state.map.cell).copied().unwrap_or_default();
        let range = if end == first + 1 { format!("block {first}") } else { format!("blocks {first} to {}", end - 1) };
        let worst = cell.worst.flatten().map_or_else(String::new, |verdict| {
            format!(": {} damaged, the worst: {} ({})", cell.damaged, verdict.facts().label, verdict.facts().meaning)
        });
        format!("{range}{worst}")
    } else {
        let file = survey.examined.path_of(PageId { rel: fork.rel, fork: fork.fork, block: 0 });
        format!("{file}: {} of {} damaged", fork.damaged, pages(usize::try_from(fork.blocks).unwrap_or(usize::MAX)))
    };
    let name = Line::styled(look.cut(&title(survey, fork, 1), width), look.heading());
    let mut lines = vec![name];
    lines.extend(
        fact(look, width, if state.map.is_open { "cell" } else { "file" }, &words, Style::new()).into_iter().take(1),
    );
    lines
}

fn title(survey: &Survey, fork: &Fork, count: usize) -> String {
    if count > 1 {
        return format!("{count} more");
    }
    with_fork(&survey.examined.called(PageId { rel: fork.rel, fork: fork.fork, block: 0 }), fork.fork)
}

/// Characters and styles of the map.
struct Canvas {
    rows: Vec<Vec<(char, Style)>>,
    look: Look,
}

impl Canvas {
    fn new(look: Look, Area { width, height, .. }: Area) -> Self {
        Self { rows: vec![vec![(' ', Style::new()); width]; height], look }
    }

    fn lines(self) -> Vec<Line<'static>> {
        self.rows.into_iter().map(|row| Line::from_iter(joined(row.into_iter()))).collect()
    }

    fn put(&mut self, x: usize, y: usize, c: char, style: Style) {
        if let Some(place) = self.rows.get_mut(y).and_then(|row| row.get_mut(x)) {
            *place = (c, style);
        }
    }

    /// The name on the first line of an area. A name of wide characters is cut before it reaches the next tile.
    fn title(&mut self, Area { x, y, width, .. }: Area, name: &str, is_selected: bool, worst: Option<Verdict>) {
        let style = match (is_selected, worst) {
            (true, _) => self.look.selected().add_modifier(Modifier::BOLD),
            (false, Some(_)) => style_of(self.look, worst).add_modifier(Modifier::BOLD),
            (false, None) => self.look.faint(),
        };
        let name = self.look.fit(name, width);
        // Every character of the canvas is one column.
        let name: String =
            name.chars().map(|c| if columns(c.encode_utf8(&mut [0; 4])) == 1 { c } else { '?' }).take(width).collect();
        for (at, c) in name.chars().enumerate() {
            self.put(x + at, y, c, style);
        }
    }

    /// A cell: its letter, on its colour where most of it is damaged.
    fn cell(&mut self, x: usize, y: usize, cell: &StripCell, more: Style) {
        let look = self.look;
        let (c, style) = match cell.letter().zip(cell.worst) {
            Some((letter, verdict)) => (letter, cell_style(look, letter, verdict)),
            None => (look.sound(), look.faint()),
        };
        // The cursor on a cell that is reversed already is the letter as it is.
        let is_twice = more != Style::new() && style.add_modifier.contains(Modifier::REVERSED);
        let style = if is_twice {
            style.remove_modifier(Modifier::REVERSED).add_modifier(Modifier::UNDERLINED)
        } else {
            style.patch(more)
        };
        self.put(x, y, if more == Style::new() || c != look.sound() { c } else { look.dot() }, style);
    }

    fn tile(&mut self, survey: &Survey, tile: &Tile, is_selected: bool) {
        let Some(fork) = survey.forks.get(tile.first) else { return };
        let width = tile.area.width.saturating_sub(1);
        let area = Area { width, ..tile.area };
        let name = title(survey, fork, tile.count);
        // All of it stands below the map when it is selected.
        let short = name.rsplit('.').next().unwrap_or(&name);
        self.title(area, short, is_selected, fork.worst);
        // Where tiles are high, a blank line is between them.
        let height = tile.area.height.saturating_sub(if tile.area.height > 3 { 2 } else { 1 });
        if tile.count > 1 {
            return;
        }
        let cells = cells_of(survey, fork, width * height);
        for (at, cell) in cells.iter().enumerate() {
            self.cell(area.x + at % width.max(1), area.y + 1 + at / width.max(1), cell, Style::new());
        }
    }
}
