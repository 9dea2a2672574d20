//! The screen for MySQL and MariaDB: a list of damaged pages, and everything about each. It shows, and writes nothing.
#![allow(missing_docs, reason = "a comment explains what a name does not")]

use std::sync::Arc;

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Paragraph;

use super::body::{Body, highlight, progress_line};
use super::export::text_of;
use super::facts::Progress;
use super::frame::{self, fact};
use super::keymap::{Binding, Key, PromptKey, bind, char_key, idle_in, key_of};
use super::list_moves::moved;
use super::look::{Look, columns, pages};
use super::outdated::Outdated;
use super::run::{Happened, Model, Outside};
use super::state::Message;
use super::view::key_lines;
use crate::analysis::innodb::judge::{HeldImage, InnodbPage};
use crate::analysis::verdict::answer::Answer;
use crate::inspect::innodb::check::InnodbExamination;
use crate::output::closing::Closing;
use crate::output::colour::Paint;
use crate::output::innodb_text::{InnodbStep, NOT_PREDICTED, innodb_steps, write_innodb_page};
use crate::output::shell::quoted;
use crate::output::text::{Layout, wrapped};

/// Rows from which on every step has room above the list.
const STEPS_FROM: u16 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnodbView {
    Pages,
    Page,
    Findings,
}

impl InnodbView {
    const ALL: [Self; 3] = [Self::Pages, Self::Page, Self::Findings];

    const fn name(self) -> &'static str {
        match self {
            Self::Pages => "Pages",
            Self::Page => "Page",
            Self::Findings => "Findings",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnodbCommand {
    Quit,
    Help,
    Open,
    Findings,
    Back,
    Lines(isize),
    Screens(isize),
    Pages(isize),
    Filter,
    Copy,
    Reload,
    Suspend,
    Redraw,
}

use InnodbCommand as Command;
use InnodbView as View;

/// Every key: dispatch, help and hints are made from this table. Keys mean what they mean on the other screens.
pub const INNODB_KEYS: &[Binding<Command, View>] = &[
    bind(&[char_key('?'), Key::Plain(KeyCode::F(1))], Command::Help, &[], "?", "this help", "help"),
    bind(&[char_key('q'), Key::Control('c')], Command::Quit, &[], "q", "quit", "quit"),
    bind(&[Key::Plain(KeyCode::Enter)], Command::Open, &[View::Pages], "enter", "open the page", "open"),
    bind(&[Key::Plain(KeyCode::Esc)], Command::Back, &[], "esc", "close or go back", "back"),
    bind(&[Key::Plain(KeyCode::Up), char_key('k')], Command::Lines(-1), &[], "up, k", "one line up", ""),
    bind(&[Key::Plain(KeyCode::Down), char_key('j')], Command::Lines(1), &[], "down, j", "one line down", ""),
    bind(&[Key::Plain(KeyCode::PageUp)], Command::Screens(-1), &[], "page up", "one screen up", ""),
    bind(
        &[Key::Plain(KeyCode::PageDown), char_key(' ')],
        Command::Screens(1),
        &[],
        "page down, space",
        "one screen down",
        "",
    ),
    bind(&[Key::Plain(KeyCode::Home)], Command::Lines(isize::MIN), &[], "home", "first line", ""),
    bind(&[Key::Plain(KeyCode::End), char_key('G')], Command::Lines(isize::MAX), &[], "end, G", "last line", ""),
    bind(&[char_key('}')], Command::Pages(1), &[View::Page], "}", "next page of the list", "next"),
    bind(&[char_key('{')], Command::Pages(-1), &[View::Page], "{", "page before", ""),
    bind(&[char_key('/')], Command::Filter, &[View::Pages], "/", "filter while typing: words of lines", "filter"),
    bind(&[char_key('F')], Command::Findings, &[View::Pages], "F", "findings, skipped parts, every step", "findings"),
    bind(&[char_key('y')], Command::Copy, &[], "y", "copy the command that shows the same", "copy"),
    bind(&[char_key('r')], Command::Reload, &[], "r", "read everything again", ""),
    bind(&[Key::Control('z')], Command::Suspend, &[], "ctrl-z", "suspend", ""),
    bind(&[Key::Control('l')], Command::Redraw, &[], "ctrl-l", "redraw", ""),
];

fn applies(binding: &Binding<Command, View>, view: View) -> bool {
    binding.views.is_empty() || binding.views.contains(&view)
}

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
            let (disk, held) = (page.disk.name(), page.held.name());
            format!("{} {} {disk} {held}", page.path, page.page.page_no).to_lowercase()
        };
        let mut lines: Vec<_> = examined.pages.iter().map(words).enumerate().collect();
        let rank = |page: &InnodbPage| (!page.state.is_damaged(), page.held.is_whole());
        lines.sort_by_key(|(at, _)| examined.pages.get(*at).map(rank));
        Self { examined, answer, steps, lines }
    }

    /// How many pages fail their checks; the others listed are of zeros, or newer than the log.
    pub fn damaged(&self) -> usize {
        self.examined.pages.iter().filter(|page| page.state.is_damaged()).count()
    }
}

#[derive(Clone)]
pub enum InnodbAction {
    Key(KeyEvent),
    Happened(Happened),
    Progressed(Progress),
    Surveyed(Arc<InnodbSurvey>),
    SurveyFailed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InnodbEffect {
    Quit,
    Fail(String),
    Suspend,
    Redraw,
    Copy(String),
    Survey,
}

use InnodbEffect as Effect;

#[derive(Clone)]
pub struct InnodbState {
    pub look: Look,
    pub size: (u16, u16),
    pub path: String,
    pub arguments: String,
    pub view: InnodbView,
    pub is_helping: bool,
    pub top: usize,
    pub survey: Option<Arc<InnodbSurvey>>,
    pub listed: Vec<usize>,
    pub selected: usize,
    pub filter: String,
    pub is_typing: bool,
    pub is_reading: bool,
    pub progress: Option<Progress>,
    pub has_changed: bool,
    pub failed: Option<String>,
    pub message: Option<Message>,
}

impl InnodbState {
    /// Before anything is read. `path`: as it was given, and as arguments of a command with what else was given.
    pub fn new(path: (String, String), look: Look, size: (u16, u16)) -> Self {
        Self {
            look,
            size,
            path: path.0,
            arguments: path.1,
            view: View::Pages,
            is_helping: false,
            top: 0,
            survey: None,
            listed: Vec::new(),
            selected: 0,
            filter: String::new(),
            is_typing: false,
            is_reading: false,
            progress: None,
            has_changed: false,
            failed: None,
            message: None,
        }
    }

    /// Why the survey may not be so any more.
    pub fn outdated(&self) -> Option<Outdated<'_>> {
        Outdated::of(self.is_reading, self.failed.as_deref(), self.has_changed)
    }

    fn columns(&self) -> usize {
        usize::from(self.size.0)
    }

    fn rows(&self) -> usize {
        usize::from(self.size.1).saturating_sub(3)
    }

    fn page(&self, line: usize) -> Option<&InnodbPage> {
        self.survey.as_deref()?.examined.pages.get(*self.listed.get(line)?)
    }

    fn tell(&mut self, words: impl Into<String>) {
        self.message = Some(Message { is_bad: false, words: words.into() });
    }

    /// Lists the pages that have all words.
    fn list(&mut self) {
        let filter = self.filter.to_lowercase();
        let words: Vec<&str> = filter.split_whitespace().collect();
        let lines = self.survey.iter().flat_map(|survey| &survey.lines);
        self.listed =
            lines.filter(|(_, text)| words.iter().all(|word| text.contains(word))).map(|(at, _)| *at).collect();
        self.selected = self.selected.min(self.listed.len().saturating_sub(1));
    }

    fn open(&mut self, view: View) {
        (self.view, self.top, self.is_helping) = (view, 0, false);
    }

    fn move_by(&mut self, by: isize) {
        let range = self.body().scroll_range(self.rows());
        let is_list = self.view == View::Pages && !self.is_helping;
        let (at, count) = if is_list { (&mut self.selected, self.listed.len()) } else { (&mut self.top, range) };
        *at = moved(*at, by, count);
    }

    fn type_key(&mut self, key: KeyEvent) -> Option<Effect> {
        match PromptKey::of(key_of(key))? {
            PromptKey::Type(c) => self.filter.push(c),
            PromptKey::Erase => self.is_typing = self.filter.pop().is_some(),
            PromptKey::Enter => self.is_typing = false,
            PromptKey::Leave => (self.is_typing, self.filter) = (false, String::new()),
            PromptKey::Up => self.move_by(-1),
            PromptKey::Down => self.move_by(1),
            PromptKey::Suspend => return Some(Effect::Suspend),
        }
        self.list();
        None
    }

    fn press(&mut self, key: KeyEvent) -> Option<Effect> {
        let name = key_of(key);
        self.message = None;
        let binding = INNODB_KEYS.iter().find(|one| one.keys.contains(&name) && applies(one, self.view));
        let Some(binding) = binding else {
            self.tell(idle_in(key, INNODB_KEYS, self.view, &View::ALL, &applies, View::name));
            return None;
        };
        match binding.command {
            Command::Quit | Command::Help | Command::Back if self.is_helping => {
                (self.is_helping, self.top) = (false, 0)
            }
            Command::Quit => return Some(Effect::Quit),
            Command::Suspend => return Some(Effect::Suspend),
            Command::Redraw => return Some(Effect::Redraw),
            Command::Help => (self.is_helping, self.top) = (true, 0),
            Command::Open if self.page(self.selected).is_some() => self.open(View::Page),
            Command::Open => self.tell("no page is selected"),
            Command::Findings => self.open(View::Findings),
            Command::Back if self.view != View::Pages => self.open(View::Pages),
            Command::Back if self.filter.is_empty() => self.tell("there is nothing to go back to: q leaves"),
            Command::Back => {
                self.filter.clear();
                self.list();
            }
            Command::Lines(by) => self.move_by(by),
            Command::Screens(by) => self.move_by(by.saturating_mul(self.rows().saturating_sub(4).cast_signed().max(1))),
            Command::Pages(by) => (self.selected, self.top) = (moved(self.selected, by, self.listed.len()), 0),
            Command::Filter => (self.is_typing, self.is_helping) = (true, false),
            Command::Copy => {
                let command = match self.page(self.selected).filter(|_| self.view == View::Page) {
                    Some(page) => format!("page {} {} {}", self.arguments, quoted(&page.path), page.page.page_no),
                    None => format!("check --explain {}", self.arguments),
                };
                let command = format!("pg_dwbinspect innodb {command}");
                self.tell(format!("copied: {command}"));
                return Some(Effect::Copy(command));
            }
            Command::Reload if self.is_reading => self.tell("it is being read already"),
            Command::Reload => {
                (self.is_reading, self.has_changed, self.failed) = (true, false, None);
                return Some(Effect::Survey);
            }
        }
        None
    }

    fn click(&mut self, row: u16) {
        let line = self.body().line_at(self.rows(), row);
        match line.filter(|_| !self.is_typing) {
            Some(line) if line == self.selected => self.open(View::Page),
            Some(line) => self.selected = line,
            None => {}
        }
    }

    fn body(&self) -> Body<'_> {
        let (look, width) = (self.look, self.columns());
        if self.is_helping {
            let bindings = INNODB_KEYS.iter().filter(|binding| applies(binding, self.view));
            let mut lines = key_lines(look, width, &bindings.map(|one| (one.label, one.help)).collect::<Vec<_>>());
            lines.push(Line::raw("Nothing is written, and no page is repaired."));
            let title = format!("Keys in {} (? or esc closes this)", self.view.name());
            return Body::text(vec![Line::styled(title, look.heading()), Line::default()], lines, self.top);
        }
        let Some(survey) = self.survey.as_deref() else {
            let words = "The directory is being read; what is known appears here.";
            return Body::text(vec![Line::default(), Line::styled(words, look.faint())], Vec::new(), 0);
        };
        match (self.view, self.page(self.selected)) {
            (View::Pages, _) => self.pages(survey),
            (View::Page, Some(page)) => Body::text(Vec::new(), self.page_text(survey, page), self.top),
            (View::Page | View::Findings, _) => Body::text(Vec::new(), self.findings(survey), self.top),
        }
    }

    fn layout(&self) -> Layout {
        Layout { width: self.size.0, paint: Paint::new(false) }
    }

    fn lines(&self, text: &str) -> Vec<Line<'static>> {
        text.lines().map(|line| Line::raw(self.look.plain(line))).collect()
    }

    /// Output of `page`.
    fn page_text(&self, survey: &InnodbSurvey, page: &InnodbPage) -> Vec<Line<'static>> {
        let (layout, setting) = (self.layout(), survey.examined.source.setting());
        self.lines(&text_of(|out| {
            write_innodb_page(out, layout, setting, page)?;
            wrapped(out, layout, "  ", 2, NOT_PREDICTED)
        }))
    }

    fn findings(&self, survey: &InnodbSurvey) -> Vec<Line<'static>> {
        let closing = Closing::new(survey.examined.findings.clone(), &survey.examined.coverage);
        let mut lines = self.lines(&text_of(|out| closing.write_text(out, self.layout())));
        if lines.is_empty() {
            lines.push(Line::raw("There are no findings."));
        }
        lines.push(Line::styled("What to do", self.look.heading()));
        let words = survey.steps.iter().flat_map(|step| [Some(&step.words), step.command.as_ref()]).flatten();
        let words = words.flat_map(|words| self.look.wrap(words, self.columns().saturating_sub(3)));
        lines.extend(words.map(|words| Line::raw(format!("  {words}"))));
        lines
    }

    /// Damage, next steps, and the list.
    fn pages<'a>(&'a self, survey: &'a InnodbSurvey) -> Body<'a> {
        let look = self.look;
        let mut head = self.triage(survey);
        // Columns of the number of a page, of the word for it, and of what the buffer holds.
        let [number, word, held] = [10; 3];
        let name = self.columns().saturating_sub(number + word + held + 6);
        let cells = move |pointer: &str, [path, page, disk, holds]: [&str; 4]| {
            let (path, page) = (look.fit_end(path, name), look.fit_right(page, number));
            [format!("{pointer} {path} {page} {} ", look.fit(disk, word)), look.fit(holds, held)]
        };
        head.push(Line::styled(cells(" ", ["file", "page", "disk", "holds"]).concat(), look.heading()));
        let line = move |at: usize| {
            let Some(page) = self.page(at) else { return Line::default() };
            let is_selected = at == self.selected;
            let pointer = if is_selected { look.pointer() } else { " " };
            let number = page.page.page_no.to_string();
            let [front, holds] = cells(pointer, [&page.path, &number, page.disk.name(), page.held.name()]);
            let style = match page.held {
                HeldImage::Missing | HeldImage::Unreadable => look.bad(),
                _ => look.doubt(),
            };
            highlight(look, is_selected, Line::from(vec![Span::raw(front), Span::styled(holds, style)]))
        };
        Body::list(head, self.listed.len(), self.selected, line)
    }

    fn triage(&self, survey: &InnodbSurvey) -> Vec<Line<'static>> {
        let (look, width, examined) = (self.look, self.columns(), &survey.examined);
        let mut head = fact(look, width, "startup", NOT_PREDICTED, look.faint());
        let damaged = survey.damaged();
        let (other, skipped) = (examined.pages.len().saturating_sub(damaged), examined.coverage.skipped.len());
        let mut counts = format!("{} damaged", pages(damaged));
        if other > 0 {
            counts.push_str(&format!(", {other} zero-filled or newer than the log"));
        }
        counts
            .push_str(&format!("; {} read", pages(usize::try_from(examined.scan.counts.pages).unwrap_or(usize::MAX))));
        if skipped > 0 {
            counts.push_str(&format!("; {skipped} not checked (F)"));
        }
        let style = match (examined.pages.iter().any(InnodbPage::is_wrong), skipped, examined.is_shut_down()) {
            (false, 0, Some(true)) => look.good(),
            (false, ..) => look.doubt(),
            _ => look.bad(),
        };
        head.extend(fact(look, width, "pages", &counts, style));
        let has_room = self.size.1 >= STEPS_FROM;
        for (at, step) in survey.steps.iter().enumerate().take(if has_room { usize::MAX } else { 1 }) {
            head.extend(fact(look, width, if at == 0 { "next step" } else { "then" }, &step.words, Style::new()));
            if let Some(command) = step.command.as_ref().filter(|_| has_room) {
                head.extend(fact(look, width, "", command, look.heading()));
            }
        }
        head.push(Line::default());
        head
    }

    fn status(&self, width: usize) -> Line<'static> {
        let look = self.look;
        let all = self.survey.as_ref().map_or(0, |survey| survey.lines.len());
        let matching = format!("{} of {all} match", self.listed.len());
        if self.is_typing {
            let lead = "filter (esc: show all): ";
            let text = look.fit_end(
                &self.filter,
                columns(&self.filter).min(width.saturating_sub(columns(lead) + columns(&matching) + 3)),
            );
            let cursor = Span::styled(" ", look.selected());
            return Line::from(vec![
                Span::styled(lead, look.heading()),
                Span::raw(text),
                cursor,
                Span::raw(format!(" {matching}")),
            ]);
        }
        if let Some(Message { is_bad, words }) = &self.message {
            return Line::styled(look.cut(words, width), if *is_bad { look.bad() } else { look.heading() });
        }
        if let Some(progress) = self.progress.as_ref() {
            return progress_line(look, progress, width);
        }
        if let Some(words) = self.outdated().and_then(Outdated::status) {
            return Line::styled(look.cut(&words, width), look.bad());
        }
        let words = format!("filter: {}  {matching} (/: change, esc: show all)", self.filter);
        let words = if self.filter.is_empty() { String::new() } else { look.cut(&words, width) };
        Line::styled(words, look.faint())
    }
}

impl Model for InnodbState {
    type Action = InnodbAction;
    type Effect = InnodbEffect;

    fn begin(&mut self) -> Vec<Effect> {
        self.is_reading = true;
        vec![Effect::Survey]
    }

    fn update(&mut self, action: InnodbAction) -> Vec<Effect> {
        let mut effect = None;
        match action {
            InnodbAction::Key(key) if self.is_typing => effect = self.type_key(key),
            InnodbAction::Key(key) => effect = self.press(key),
            InnodbAction::Happened(what) => match what {
                Happened::Resized(columns, rows) => self.size = (columns, rows),
                Happened::Clicked(_, row) => self.click(row),
                Happened::Scrolled(lines) => self.move_by(lines),
                Happened::FilesChanged => self.has_changed = !self.is_reading,
                Happened::Terminated => effect = Some(Effect::Quit),
                Happened::Ticked => {}
            },
            InnodbAction::Progressed(progress) => self.progress = Some(progress),
            InnodbAction::Surveyed(survey) => {
                (self.progress, self.is_reading, self.has_changed, self.failed) = (None, false, false, None);
                self.survey = Some(survey);
                self.list();
            }
            InnodbAction::SurveyFailed(why) if self.survey.is_none() => effect = Some(Effect::Fail(why)),
            InnodbAction::SurveyFailed(why) => {
                (self.progress, self.is_reading, self.failed, self.message) = (None, false, Some(why), None);
            }
        }
        effect.into_iter().collect()
    }

    fn action_of(&self, key: KeyEvent) -> Option<InnodbAction> {
        Some(InnodbAction::Key(key))
    }

    fn happened(what: Happened) -> InnodbAction {
        InnodbAction::Happened(what)
    }

    fn is_typing(&self) -> bool {
        self.is_typing
    }

    fn size(&self) -> (u16, u16) {
        self.size
    }

    fn outside(effect: Effect) -> Outside<Effect> {
        match effect {
            Effect::Quit => Outside::Quit,
            Effect::Fail(why) => Outside::Fail(why),
            Effect::Suspend => Outside::Suspend,
            Effect::Redraw => Outside::Redraw,
            Effect::Copy(text) => Outside::Copy(text),
            Effect::Survey => Outside::Work(effect),
        }
    }

    fn draw(&self, out: &mut Frame<'_>) {
        let (look, width, area) = (self.look, self.columns(), out.area());
        if let Some(words) = frame::too_small(area.width, area.height) {
            out.render_widget(Paragraph::new(words), area);
        } else if self.size == (area.width, area.height) {
            let open = View::ALL.iter().position(|view| *view == self.view).filter(|_| !self.is_helping);
            let labels = View::ALL.map(|view| format!(" {} ", view.name()));
            let mut lines = vec![frame::tabs(look, width, &labels, open, &self.path)];
            let body = self.body();
            lines.extend(body.lines(self.rows(), look, width));
            let range = body.shown_range(self.rows());
            lines.push(frame::status(look, width, &range, |width| self.status(width)));
            let bindings = INNODB_KEYS.iter().filter(|binding| applies(binding, self.view));
            lines.push(frame::hints(look, width, bindings.map(|binding| (binding.label, binding.hint))));
            out.render_widget(Paragraph::new(Text::from(lines)), area);
        }
    }
}
