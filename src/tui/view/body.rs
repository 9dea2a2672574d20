//! What all views share: labelled lines, and the area between tabs and bottom lines, which is lines that stay, a list of which
//! only visible lines are made, and lines below.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::output::figures::size;
use crate::tui::facts::Progress;
use crate::tui::look::{Look, columns};
use crate::tui::state::list_top;

/// Lines of a list that are shown however much stands above it.
pub(super) const MIN_LIST: usize = 4;

pub(super) type MakeLine<'a> = Box<dyn Fn(usize) -> Line<'static> + 'a>;

/// The area between the tabs and the bottom lines.
pub(super) struct Body<'a> {
    pub(super) head: Vec<Line<'static>>,
    pub(super) count: usize,
    pub(super) line: MakeLine<'a>,
    pub(super) foot: Vec<Line<'static>>,
    /// All about the selected line, right of list and foot where [`State::detail_columns`] gives it room. Empty: the list
    /// has the whole width.
    pub(super) detail: Vec<Line<'static>>,
    /// The selected line of the list, else the first that is shown.
    pub(super) at: usize,
    pub(super) has_selection: bool,
}

impl<'a> Body<'a> {
    pub(super) fn text(head: Vec<Line<'static>>, lines: Vec<Line<'static>>, top: usize) -> Self {
        let count = lines.len();
        let line = move |at: usize| lines.get(at).cloned().unwrap_or_default();
        Self { head, count, line: Box::new(line), foot: Vec::new(), detail: Vec::new(), at: top, has_selection: false }
    }

    pub(super) fn list(
        head: Vec<Line<'static>>,
        count: usize,
        at: usize,
        line: impl Fn(usize) -> Line<'static> + 'a,
    ) -> Self {
        Self { head, count, line: Box::new(line), foot: Vec::new(), detail: Vec::new(), at, has_selection: true }
    }

    /// A list whose lines begin with the column of the pointer, which they leave out.
    pub(super) fn rows(
        look: Look,
        head: Vec<Line<'static>>,
        count: usize,
        at: usize,
        line: impl Fn(usize) -> Line<'static> + 'a,
    ) -> Self {
        Self::list(head, count, at, move |index| {
            let mut line = line(index);
            line.spans.insert(0, Span::raw(if index == at { look.pointer() } else { " " }));
            highlight(look, index == at, line)
        })
    }

    /// Rows that head, list and foot get of `rows`.
    pub(super) fn split(&self, rows: usize) -> (usize, usize, usize) {
        let least = MIN_LIST.min(self.count);
        let head = self.head.len().min(rows.saturating_sub(least));
        let foot = self.foot.len().min(rows.saturating_sub(head + least));
        (head, rows - head - foot, foot)
    }

    pub(super) fn top(&self, rows: usize) -> usize {
        let list = self.split(rows).1;
        if self.has_selection {
            list_top(self.at, self.count, list)
        } else {
            self.at.min(self.count.saturating_sub(list))
        }
    }

    pub(super) fn scroll_range(&self, rows: usize) -> usize {
        self.count.saturating_sub(self.split(rows).1) + 1
    }

    /// The line of the list that is drawn in this row of the screen.
    pub(super) fn line_at(&self, rows: usize, row: u16) -> Option<usize> {
        let (head, list, _) = self.split(rows);
        let in_list = usize::from(row).checked_sub(1 + head).filter(|at| *at < list)?;
        Some(self.top(rows) + in_list).filter(|at| self.has_selection && *at < self.count)
    }

    /// Which lines are shown of how many; nothing when all are.
    pub(super) fn shown_range(&self, rows: usize) -> String {
        let list = self.split(rows).1;
        if self.count <= list {
            return String::new();
        }
        let top = self.top(rows);
        format!("{}-{} of {}", top + 1, (top + list).min(self.count), self.count)
    }

    /// `left`: columns of list and foot where the detail is beside them.
    pub(super) fn lines(&self, rows: usize, look: Look, left: usize) -> Vec<Line<'static>> {
        let (head, list, foot) = self.split(rows);
        let top = self.top(rows);
        let mut lines: Vec<Line<'static>> = self.head.iter().take(head).cloned().collect();
        lines.extend((top..self.count.min(top + list)).map(|at| (self.line)(at)));
        lines.resize(head + list, Line::default());
        lines.extend(self.foot.iter().take(foot).cloned());
        if !self.detail.is_empty() {
            lines.resize(rows.max(lines.len()), Line::default());
            for (at, line) in lines.iter_mut().skip(head).enumerate() {
                let pad = left.saturating_sub(line.width());
                let (style, mut spans) = (line.style, std::mem::take(&mut line.spans));
                spans.iter_mut().for_each(|span| span.style = style.patch(span.style));
                spans.push(Span::raw(" ".repeat(pad)));
                spans.push(Span::styled(look.divider(), look.faint()));
                let beside = self.detail.get(at).cloned().unwrap_or_default();
                spans.extend(
                    beside.spans.into_iter().map(|span| Span::styled(span.content, beside.style.patch(span.style))),
                );
                *line = Line::from(spans);
            }
        }
        lines
    }
}

pub(super) fn joined(cells: impl Iterator<Item = (char, Style)>) -> Vec<Span<'static>> {
    let mut spans: Vec<(String, Style)> = Vec::new();
    for (c, style) in cells {
        match spans.last_mut().filter(|(_, last)| *last == style) {
            Some((text, _)) => text.push(c),
            None => spans.push((c.to_string(), style)),
        }
    }
    spans.into_iter().map(|(text, style)| Span::styled(text, style)).collect()
}

/// The line when it is selected, else as it is.
pub(super) fn highlight(look: Look, is_selected: bool, line: Line<'static>) -> Line<'static> {
    if !is_selected {
        return line;
    }
    let Line { style, spans, .. } = line;
    Line::from_iter(spans.into_iter().map(|span| {
        let own = style.patch(span.style);
        span.style(look.selected_line().patch(own).remove_modifier(Modifier::DIM))
    }))
}

pub(super) fn progress_line(look: Look, progress: &Progress, width: usize) -> Line<'static> {
    let step = progress.step.map_or_else(String::new, |(at, of)| format!("{at} of {of}: "));
    let lead = format!("{step}{} ", progress.what);
    if progress.total == 0 {
        return Line::from(vec![Span::raw(lead), Span::raw(look.ellipsis().to_string())]);
    }
    let share = progress.done as f64 / progress.total as f64;
    let left = progress.left_s.map_or_else(String::new, |seconds| format!(", {} left", time_left(seconds)));
    let tail = format!(" {:>3.0}% {} of {}{left}", share.min(1.0) * 100.0, size(progress.done), size(progress.total));
    let room = width.saturating_sub(columns(&lead) + columns(&tail) + 1);
    Line::from(vec![Span::raw(lead), Span::styled(look.bar(share, room), look.good()), Span::raw(tail)])
}

/// `40 s`, `3 min`, `2 h`: an estimate is not more exact.
fn time_left(seconds: u64) -> String {
    match seconds {
        0..=99 => format!("{} s", seconds.max(1)),
        100..=5999 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h", (seconds + 1800) / 3600),
    }
}

/// Words after a lead, in lines of so many columns of words; further lines begin below them.
pub(super) fn led(look: Look, mut lead: Span<'static>, text: &str, room: usize, style: Style) -> Vec<Line<'static>> {
    let blank = Span::styled(" ".repeat(lead.width()), lead.style);
    let lines = look.wrap(text, room).into_iter();
    lines
        .map(|words| Line::from(vec![std::mem::replace(&mut lead, blank.clone()), Span::styled(words, style)]))
        .collect()
}

pub(super) fn fact(look: Look, width: usize, label: &str, text: &str, style: Style) -> Vec<Line<'static>> {
    const LABEL: usize = 12;
    led(look, Span::styled(look.fit(label, LABEL), look.heading()), text, width.saturating_sub(LABEL + 1), style)
}

/// Facts in lines of one width.
pub(super) struct Facts {
    pub(super) look: Look,
    width: usize,
    pub(super) lines: Vec<Line<'static>>,
}

impl Facts {
    pub(super) const fn new(look: Look, width: usize) -> Self {
        Self { look, width, lines: Vec::new() }
    }

    /// A fact in lines; none without words.
    pub(super) fn add(&mut self, label: &str, text: &str, style: Style) {
        for (at, line) in text.lines().enumerate() {
            self.lines.extend(fact(self.look, self.width, if at == 0 { label } else { "" }, line, style));
        }
    }
}
