//! Drawing: from the state alone, and without changing it.
//!
//! Each view is a `Body`: lines that stay, lines of a list of which only those on the screen are made, and lines below.

mod batches;
mod before;
mod body;
pub(super) mod damage_map;
mod findings;
mod help;
mod innodb;
pub(super) mod map;
mod page;
mod page_bytes;
mod page_records;
mod page_rows;
mod plan;
mod ring;
mod slots;
mod steps;
mod triage;
mod triage_detail;
mod wal;

use body::{Body, Facts, MIN_LIST, fact, highlight, joined, led, progress_line};
pub(super) use page::widest;
use page_bytes::ByteSides;
pub use triage::start_words;
pub use wal::notes as wal_notes;
pub(super) use wal::window::kept_text;

use ratatui::Frame;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Paragraph;

use super::action::Command;
use super::facts::Survey;
use super::keymap::{Binding, KEYS};
use super::look::{Look, columns, pages};
use super::query::Query;
use super::ring::Grid;
use super::state::{Message, Outdated, PagePart, Prompt, PromptKind, State, View, WalLevel};

/// Columns and rows that a terminal must have.
const MIN_SIZE: (u16, u16) = (60, 16);

fn body(state: &State) -> Body<'_> {
    let body = whole_body(state);
    // The plan leaves out pages, of which each has several lines, by itself.
    let Some(shown) = state.shown_lines().filter(|_| body.has_selection) else { return body };
    let Body { line, at, .. } = body;
    Body {
        count: shown.len(),
        at: shown.binary_search(&at).unwrap_or_else(|next| next).min(shown.len().saturating_sub(1)),
        line: Box::new(move |index| shown.get(index).map_or_else(Line::default, |at| line(*at))),
        ..body
    }
}

/// The text of every line of the open list, with nothing cut off.
pub(crate) fn list_lines(state: &State) -> Vec<String> {
    const ENDLESS: u16 = 2000;
    let mut wide = state.clone();
    wide.size.0 = ENDLESS;
    wide.prompt = None;
    if wide.view == View::Plan {
        return plan::texts(&wide);
    }
    if let (View::Pages, Some(survey)) = (wide.view, &wide.innodb.survey) {
        return survey.words().map(str::to_owned).collect();
    }
    let body = whole_body(&wide);
    (0..body.count).filter(|_| body.has_selection).map(|at| (body.line)(at).to_string()).collect()
}

fn whole_body(state: &State) -> Body<'_> {
    if let Some(items) = super::picker::items(state) {
        return help::picker(state, items);
    }
    if state.help.is_open {
        return help::body(state);
    }
    match state.view {
        View::Triage => triage::body(state),
        View::Findings => findings::body(state),
        View::Map => map::body(state),
        View::Steps => steps::body(state),
        View::Batches => batches::body(state),
        View::Slots => slots::body(state),
        View::Page => page::body(state),
        View::Wal | View::Relations | View::Causes | View::WhatIf | View::Kept => wal::body(state),
        View::Plan => plan::body(state),
        View::Apply => before::body(state),
        View::Undo => before::undo_body(state),
        View::Pages | View::InnodbPage => innodb::body(state),
    }
}

pub fn view(state: &State, out: &mut Frame<'_>) {
    let area = out.area();
    let (columns, rows) = MIN_SIZE;
    if area.width < columns || area.height < rows {
        let words = format!("{} by {} is too small: at least {columns} by {rows} is needed", area.width, area.height);
        out.render_widget(Paragraph::new(words), area);
        return;
    }
    if state.size.0 != area.width || state.size.1 != area.height {
        // The terminal was resized and the state does not know yet: redrawn immediately.
        return;
    }
    out.render_widget(Paragraph::new(Text::from(picture(state))), area);
}

pub fn picture(state: &State) -> Vec<Line<'static>> {
    let mut lines = vec![tabs(state)];
    let body = body(state);
    lines.extend(body.lines(state.body_rows(), state.look, state.list_columns()));
    lines.extend(super::guide::lines(state));
    lines.push(status(state, &body.shown_range(state.body_rows())));
    lines.push(hints(state));
    lines
}

/// The line above the keys; at its end the range of lines that is shown of a long list.
fn status(state: &State, range: &str) -> Line<'static> {
    let room = state.columns().saturating_sub(columns(range) + 1);
    let mut line = status_words(state, room);
    if !range.is_empty() {
        line.push_span(Span::raw(" ".repeat((room + 1).saturating_sub(line.width()))));
        line.push_span(Span::styled(range.to_owned(), state.look.faint()));
    }
    line
}

/// Lines of the open list, none of a text; and how many positions scrolling has.
pub(crate) fn extent(state: &State) -> (usize, usize) {
    let body = body(state);
    (if body.has_selection { body.count } else { 0 }, body.scroll_range(state.body_rows()))
}

/// How many lines of the list are on the screen above and below the selected one.
pub(crate) fn lines_around(state: &State) -> Option<(isize, isize)> {
    let (body, rows) = (body(state), state.body_rows());
    let (top, list) = (body.top(rows), body.split(rows).1);
    let last = (top + list).min(body.count).checked_sub(1)?;
    body.has_selection.then(|| (body.at.saturating_sub(top) as isize, last.saturating_sub(body.at) as isize))
}

pub(crate) fn line_at(state: &State, row: u16) -> Option<usize> {
    let body = body(state);
    let at = body.line_at(state.body_rows(), row)?;
    state.shown_lines().map_or(Some(at), |shown| shown.get(at).copied())
}

/// How the ring is laid out; `None` without a buffer.
pub(crate) fn ring_grid(state: &State) -> Option<Grid> {
    state.survey().map(|survey| ring::grid(state, survey))
}

/// The slot of the ring at this column and row of the screen.
pub fn slot_at(state: &State, column: u16, row: u16) -> Option<usize> {
    ring::slot_at(state, state.survey()?, usize::from(column), usize::from(row).checked_sub(1)?)
}

pub(crate) fn undo_text(state: &State) -> Vec<String> {
    before::undo_lines(state, usize::from(u16::MAX)).iter().map(ToString::to_string).collect()
}

/// Everything about the selected row of a page, where that is what the view is about.
pub(super) fn row_text(state: &State) -> Option<Vec<String>> {
    let sheet = state.page.sheet.as_deref().filter(|_| state.view == View::Page)?;
    page_rows::text(state, sheet)
}

pub(super) fn byte_sides(state: &State) -> Option<ByteSides<'_>> {
    state.page.sheet.as_deref().map(|sheet| page_bytes::sides(state, sheet))
}

/// The first line: tabs, of which one may be open, and the end of the path, which says more than its beginning.
fn tabs(state: &State) -> Line<'static> {
    let (look, (views, labels)) = (state.look, tab_labels(state));
    let used: usize = labels.iter().map(|label| columns(label)).sum();
    let room = state.columns().saturating_sub(used + 1);
    let mut line = Line::default();
    for (view, label) in views.iter().zip(labels) {
        let is_open = *view == state.view.tab(views) && !state.help.is_open;
        let style = if is_open { look.selected().add_modifier(Modifier::BOLD) } else { Style::new() };
        line.push_span(Span::styled(label, style));
    }
    let path = &state.subject.path;
    let path = look.fit_end(path, columns(&look.plain(path)).min(room.saturating_sub(1)));
    line.push_span(Span::styled(look.fit_right(&path, room), look.faint()));
    line
}

fn tab_labels(state: &State) -> (&[View], Vec<String>) {
    let views = state.subject.views.as_slice();
    let all = View::tabs_of(views);
    let label = |view: View| if view == View::Wal && !views.contains(&View::Triage) { "Timeline" } else { view.name() };
    let number = |view: View| all.iter().position(|one| *one == view).unwrap_or(0) + 1;
    (views, views.iter().map(|view| format!(" {} {} ", number(*view), label(*view))).collect())
}

pub(crate) fn tab_at(state: &State, column: u16) -> Option<View> {
    let (views, labels) = tab_labels(state);
    let mut end = 0;
    let at = labels.iter().position(|label| {
        end += columns(label);
        usize::from(column) < end
    })?;
    views.get(at).copied()
}

fn status_words(state: &State, width: usize) -> Line<'static> {
    let look = state.look;
    if let Some(Prompt { kind, text }) = &state.prompt {
        let lead = match kind {
            // On a narrow screen what is typed has the room.
            PromptKind::Search if width < 70 => "filter: ",
            PromptKind::Search => "filter (enter: keep it, esc: show all): ",
            PromptKind::Journal => "directory of the journal: ",
            PromptKind::Allow => "accept the risk? type the flag: ",
            PromptKind::Undo => "write the old bytes back? type undo, then enter: ",
            PromptKind::Apply if state.plan.sheet.as_ref().is_some_and(|sheet| sheet.may_lose()) => {
                "changes may be lost! type apply unproven, then enter: "
            }
            PromptKind::GoTo => "go to (a log line, relation:block, slot 123, LSN): ",
            PromptKind::Relation => "relation: ",
            PromptKind::Palette => "command: ",
            PromptKind::Bookmarks => "kept: ",
            PromptKind::Apply => "write these pages? type apply, then enter: ",
        };
        let told = match kind {
            PromptKind::Search if state.help.is_open => String::new(),
            PromptKind::Search if state.list_kind().is_some() => list_matches(state),
            PromptKind::Search => matches(state, text),
            _ => String::new(),
        };
        let refused = state.message.as_ref().filter(|message| message.is_bad && *kind == PromptKind::GoTo);
        let (lead, told, style) = match refused {
            Some(message) => ("go to: ", format!("  {}", message.words), look.bad()),
            None => (lead, told, look.faint()),
        };
        // A long text is continued at its end.
        let room = width.saturating_sub(columns(lead) + 1 + columns(&told).min(width / 2));
        let text = look.fit_end(text, columns(&look.plain(text)).min(room));
        let rest = width.saturating_sub(columns(lead) + columns(&text) + 1);
        return Line::from(vec![
            Span::styled(lead, look.heading()),
            Span::raw(text),
            Span::styled(" ", look.selected()),
            Span::styled(look.cut(&told, rest), style),
        ]);
    }
    if let Some(progress) =
        state.cluster.progress.as_ref().filter(|_| state.plan.is_applying || state.plan.is_rehearsing)
    {
        return progress_line(look, progress, width);
    }
    if let Some(Message { is_bad, words }) = &state.message {
        return Line::styled(look.cut(words, width), if *is_bad { look.bad() } else { look.heading() });
    }
    if let Some(progress) = state.cluster.progress.as_ref().filter(|_| state.cluster.is_reading) {
        return progress_line(look, progress, width);
    }
    if let Some(words) = state.cluster.outdated().and_then(Outdated::status) {
        return Line::styled(look.cut(&words, width), look.bad());
    }
    // Views of WAL have the bar in their middle until something is known.
    let is_in_body = View::OF_WAL.contains(&state.view) && state.wal.survey.is_none();
    if let Some(progress) = state.wal.progress.as_ref().filter(|_| !is_in_body) {
        return progress_line(look, progress, width);
    }
    let mut words = Vec::new();
    if let Some((_, text)) = state.filtered_list() {
        words.push(format!("filter: {text}{} (/: change, esc: show all)", list_matches(state)));
    } else if !state.query.is_empty() && matches!(state.view, View::Triage | View::Slots) {
        words.push(match state.view {
            View::Triage => format!("filter: {}{} (/: change, esc: show all)", state.query.text(), matches(state, "")),
            _ => format!("search: {} (n: next, esc: clear)", state.query.text()),
        });
    }
    if state.wal.is_following {
        let last = state.wal.survey.as_ref().map_or(0, |wal| wal.intervals.len());
        words.push(
            match (state.wal.level, state.wal.selected + 1 < last) {
                (WalLevel::Timeline, false) => "following (f: pause)",
                (WalLevel::Timeline, true) => "following, an earlier interval selected (end: newest, f: pause)",
                _ => "following waits (esc goes back up)",
            }
            .to_owned(),
        );
    }
    if !state.plan.marks.is_empty() {
        words.push(match state.marked_counts() {
            (count, 0) => format!("{count} marked"),
            (count, unproven) => format!("{count} marked, {unproven} of them unproven (?)"),
        });
    }
    Line::styled(look.cut(&words.join("; "), width), look.faint())
}

fn list_matches(state: &State) -> String {
    state.shown_counts().map_or_else(String::new, |(count, total)| format!("  {count} of {total} match"))
}

/// How many of the damaged pages, or of the slots, are listed, else why what was typed cannot be understood.
fn matches(state: &State, typed: &str) -> String {
    let map = &state.triage.map;
    match Query::parse(typed) {
        Ok(_) if state.view == View::Slots => {
            let total = state.survey().map_or(0, |survey| survey.slots().len());
            format!("  {} of {total} slots match", state.slots.order.len())
        }
        Ok(_) => format!("  {} of {} match", map.pages.len(), pages(map.total)),
        Err(why) => format!("  {why}"),
    }
}

/// The last line: keys, and a word for what each does, as many as there is room for.
fn hints(state: &State) -> Line<'static> {
    let (mut line, mut used) = (Line::default(), 0);
    for binding in hinted(state) {
        let (label, words) = (state.keys.label(binding), format!(" {}  ", binding.hint));
        used += columns(&label) + columns(&words);
        if used > state.columns() {
            break;
        }
        line.push_span(Span::styled(label, state.look.heading()));
        line.push_span(Span::raw(words));
    }
    line
}

/// Keys with a word in the bottom line: the next one by the guide, help and the way out, a repair, this view, others.
fn hinted(state: &State) -> Vec<&'static Binding> {
    let next = super::guide::next_key(state).key;
    let can_plan = super::guide::can_put_back(state) && state.view.tab(&state.subject.views) != View::Plan;
    let rank = |one: &&Binding| match one.command {
        Command::Help | Command::Quit => 1,
        _ if one.names().any(|name| name == next) => 0,
        Command::Show(View::Plan) if can_plan => 2,
        Command::DryRun | Command::Apply | Command::Undo => 2,
        _ if one.views.is_empty() => 4,
        _ => 3,
    };
    let is_open = |one: &Binding| one.command == Command::Show(state.view);
    let all = KEYS.iter().filter(|one| one.applies(state.view, &state.subject.views) && !is_open(one));
    let mut all: Vec<&Binding> = all.filter(|one| !one.hint.is_empty()).collect();
    all.sort_by_key(rank);
    all
}

/// The command of the key at this column of the bottom line.
pub(crate) fn hint_at(state: &State, column: u16) -> Option<Command> {
    let mut end = 0;
    let at = hinted(state).into_iter().find(|binding| {
        end += columns(&state.keys.label(binding)) + columns(binding.hint) + 3;
        usize::from(column) < end
    });
    at.filter(|_| end <= state.columns()).map(|binding| binding.command)
}

/// Lines while the check is running; the status line has the progress.
fn waiting(state: &State) -> Vec<Line<'static>> {
    let words = match state.subject.views.contains(&View::Wal) {
        true => "The cluster is being read; what is known appears here. WAL (5) and exports work meanwhile.",
        false => "The directory is being read; what is known appears here.",
    };
    let mut lines = vec![Line::default()];
    lines.extend(state.look.lines(words, state.columns(), state.look.faint()));
    lines
}
