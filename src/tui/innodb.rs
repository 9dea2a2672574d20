//! The views of MySQL and MariaDB: a list of damaged pages, everything about each, and findings. Nothing is written.

use std::io::{self, Write};
use std::sync::Arc;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use serde_json::{Value, json};

use super::body::{Body, fact, highlight};
use super::export::text_of;
use super::look::Look;
use super::state::{State, View};
use super::view;
use crate::analysis::innodb::judge::{HeldImage, InnodbPage};
use crate::analysis::verdict::answer::Answer;
use crate::inspect::innodb::check::InnodbExamination;
use crate::output::closing::{Closing, Headline};
use crate::output::colour::Paint;
use crate::output::escape::quoted;
use crate::output::innodb_text::{
    InnodbStep, NOT_PREDICTED, innodb_headline, innodb_steps, write_innodb_page, write_innodb_steps,
};
use crate::output::json::Item;
use crate::output::text::{Layout, wrapped};

/// Rows from which on every step has room above the list.
const STEPS_FROM: u16 = 20;

#[derive(Debug)]
pub struct InnodbSurvey {
    pub examined: InnodbExamination,
    pub answer: Answer,
    pub steps: Vec<InnodbStep>,
    /// Indexes of the pages, damaged ones without an image first, each with the words of its line in lower case.
    lines: Vec<(usize, String)>,
}

impl InnodbSurvey {
    /// Gathers what the screen shows. `arguments`: the directory as arguments of a command.
    pub fn new(examined: InnodbExamination, arguments: &str) -> Self {
        let answer = Closing::new(examined.findings.clone(), &examined.coverage).answer();
        let steps = innodb_steps(&examined.pages, examined.coverage.skipped.is_empty(), arguments);
        let words = |page: &InnodbPage| {
            let (disk, held) = (page.disk.name(), page.held.name().replace('_', " "));
            format!("{} {} {disk} {held}", page.path, page.page.page_no).to_lowercase()
        };
        let mut lines: Vec<_> = examined.pages.iter().map(words).enumerate().collect();
        let rank = |page: &InnodbPage| (!page.state.is_damaged(), page.held.is_whole());
        lines.sort_by_key(|(at, _)| examined.pages.get(*at).map(rank));
        Self { examined, answer, steps, lines }
    }

    pub fn page(&self, line: usize) -> Option<&InnodbPage> {
        self.examined.pages.get(self.lines.get(line)?.0)
    }

    /// The words of every line, in lower case.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &str> {
        self.lines.iter().map(|(_, words)| words.as_str())
    }
}

/// The open page or list.
#[derive(Clone, Debug, Default)]
pub struct InnodbState {
    pub survey: Option<Arc<InnodbSurvey>>,
    /// Index of the selected line among all.
    pub selected: usize,
    pub top: usize,
}

pub(super) fn command(state: &State) -> String {
    let arguments = &state.subject.arguments;
    let page = state.innodb.survey.as_ref().and_then(|survey| survey.page(state.innodb.selected));
    let command = match page.filter(|_| state.view == View::InnodbPage) {
        Some(page) => format!("page {arguments} {} {}", quoted(&page.path), page.page.page_no),
        None => format!("check --explain {arguments}"),
    };
    format!("pg_dwbinspect innodb {command}")
}

pub(super) fn body<'a>(state: &'a State, survey: &'a InnodbSurvey) -> Body<'a> {
    let lines = match (state.view, survey.page(state.innodb.selected)) {
        (View::Pages, _) => return list(state, survey),
        (View::InnodbPage, Some(page)) => page_text(state, survey, page, state.size.0),
        _ => findings(state, survey),
    };
    Body::text(Vec::new(), lines, state.innodb.top)
}

/// The open view as its commands print it.
pub(super) fn write_view(out: &mut dyn Write, state: &State, survey: &InnodbSurvey, layout: Layout) -> io::Result<()> {
    let examined = &survey.examined;
    if state.view != View::InnodbFindings {
        shown(state, survey).try_for_each(|page| write_innodb_page(out, layout, examined.source.setting(), page))?;
    }
    if state.view != View::InnodbPage {
        Closing::new(examined.findings.clone(), &examined.coverage).write_text(out, layout)?;
        write_innodb_steps(out, layout, &survey.steps)?;
    }
    wrapped(out, layout, "  ", 2, NOT_PREDICTED)
}

/// Pages of the open view as JSON, as `check` and `page` have them.
pub(super) fn page_rows(state: &State) -> Value {
    let Some(survey) = state.innodb.survey.as_deref() else { return json!({}) };
    let setting = survey.examined.source.setting();
    let rows = shown(state, survey).map(|page| json!(Item::InnodbPage(setting.page_row(page))));
    json!({"pages": rows.collect::<Vec<_>>()})
}

/// The open page, else all.
fn shown<'a>(state: &State, survey: &'a InnodbSurvey) -> impl Iterator<Item = &'a InnodbPage> {
    let open = (state.view == View::InnodbPage).then_some(state.innodb.selected);
    let lines = open.map_or(0..survey.lines.len(), |at| at..at.saturating_add(1));
    lines.filter_map(|line| survey.page(line))
}

fn text_lines(look: Look, text: &str) -> Vec<Line<'static>> {
    text.lines().map(|line| Line::raw(look.plain(line))).collect()
}

const fn layout(state: &State) -> Layout {
    Layout { width: state.size.0, paint: Paint::new(false) }
}

/// Output of `page`.
fn page_text(state: &State, survey: &InnodbSurvey, page: &InnodbPage, width: u16) -> Vec<Line<'static>> {
    let (layout, setting) = (Layout { width, ..layout(state) }, survey.examined.source.setting());
    let text = text_of(|out| write_innodb_page(out, layout, setting, page));
    text_lines(state.look, text.trim_start_matches('\n'))
}

fn findings(state: &State, survey: &InnodbSurvey) -> Vec<Line<'static>> {
    let look = state.look;
    let closing = Closing::new(survey.examined.findings.clone(), &survey.examined.coverage);
    let mut lines = text_lines(look, &text_of(|out| closing.write_text(out, layout(state))));
    if lines.is_empty() {
        lines.push(Line::raw("There are no findings."));
    }
    lines.push(Line::styled("What to do", look.heading()));
    let words = survey.steps.iter().flat_map(|step| [Some(&step.words), step.command.as_ref()]).flatten();
    let words = words.flat_map(|words| look.wrap(words, state.columns().saturating_sub(3)));
    lines.extend(words.map(|words| Line::raw(format!("  {words}"))));
    lines
}

fn list<'a>(state: &'a State, survey: &'a InnodbSurvey) -> Body<'a> {
    let (look, selected) = (state.look, state.innodb.selected);
    let mut head = triage(state, survey);
    // Columns of the number of a page, of the word for it, and of what the buffer holds.
    let [number, word, held] = [10; 3];
    let name = state.list_columns().saturating_sub(number + word + held + 6);
    let cells = move |pointer: &str, [path, page, disk, holds]: [&str; 4]| {
        let (path, page) = (look.fit_end(path, name), look.fit_right(page, number));
        [format!("{pointer} {path} {page} {} ", look.fit(disk, word)), look.fit(holds, held)]
    };
    head.push(Line::styled(cells(" ", ["file", "page", "disk", "holds"]).concat(), look.heading()));
    let line = move |at: usize| {
        let Some(page) = survey.page(at) else { return Line::default() };
        let pointer = if at == selected { look.pointer() } else { " " };
        let number = page.page.page_no.to_string();
        let holds = page.held.name().replace('_', " ");
        let [front, holds] = cells(pointer, [&page.path, &number, page.disk.name(), &holds]);
        let style = match page.held {
            HeldImage::Missing | HeldImage::Unreadable => look.bad(),
            _ => look.doubt(),
        };
        highlight(look, at == selected, Line::from(vec![Span::raw(front), Span::styled(holds, style)]))
    };
    let width = u16::try_from(state.detail_columns()).unwrap_or(u16::MAX);
    let open = survey.page(selected).filter(|_| width > 0);
    let detail = open.map_or_else(Vec::new, |page| page_text(state, survey, page, width));
    Body { detail, ..Body::list(head, survey.lines.len(), selected, line) }
}

fn triage(state: &State, survey: &InnodbSurvey) -> Vec<Line<'static>> {
    let (look, width, examined) = (state.look, state.columns(), &survey.examined);
    let Headline { badge, tone, sentences, .. } =
        innodb_headline(&examined.pages, &examined.scan.counts, survey.answer);
    let mut first = Line::from(look.badge(badge, tone));
    if let skipped @ 1.. = examined.coverage.skipped.len() {
        first.push_span(Span::styled(format!("  {skipped} not checked (F)"), look.doubt()));
    }
    let mut head = vec![first];
    head.extend(look.lines(&view::triage_sentences(&sentences), width.saturating_sub(1), Style::new()));
    let has_room = state.size.1 >= STEPS_FROM;
    for (at, step) in survey.steps.iter().enumerate().take(if has_room { usize::MAX } else { 1 }) {
        head.extend(fact(look, width, if at == 0 { "next step" } else { "then" }, &step.words, Style::new()));
        if let Some(command) = &step.command {
            head.extend(fact(look, width, "", command, look.heading()));
        }
    }
    head.extend(has_room.then(Line::default));
    head
}
