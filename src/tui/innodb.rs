//! A checked directory of MySQL or MariaDB, and its views as their commands print them. Nothing is written.

use std::io::{self, Write};
use std::sync::Arc;

use serde_json::{Value, json};

use super::state::{State, View};
use crate::analysis::innodb::judge::InnodbPage;
use crate::analysis::verdict::answer::Answer;
use crate::inspect::innodb::check::InnodbExamination;
use crate::output::closing::Closing;
use crate::output::escape::quoted;
use crate::output::innodb_text::{InnodbStep, NOT_PREDICTED, innodb_steps, write_innodb_page, write_innodb_steps};
use crate::output::json::Item;
use crate::output::text::{Layout, wrapped};

#[derive(Debug)]
pub struct InnodbSurvey {
    pub examined: InnodbExamination,
    pub answer: Answer,
    pub steps: Vec<InnodbStep>,
    /// Indexes of the pages, the worst first, each with the words of its line in lower case.
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
        let rank = |page: &InnodbPage| (!page.state.is_damaged(), page.held);
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
    /// A page was opened.
    pub is_compared: bool,
}

pub(super) fn page_command(state: &State) -> String {
    let page = state.innodb.survey.as_ref().and_then(|survey| survey.page(state.innodb.selected));
    let of_page = page.map(|page| format!(" {} {}", quoted(&page.path), page.page.page_no));
    let command = if of_page.is_some() { "page" } else { "check --explain" };
    format!("{} innodb {command} {}{}", state.subject.program, state.subject.arguments, of_page.unwrap_or_default())
}

/// The open view as its commands print it.
pub(super) fn write_view(out: &mut dyn Write, state: &State, survey: &InnodbSurvey, layout: Layout) -> io::Result<()> {
    let examined = &survey.examined;
    if matches!(state.view, View::Pages | View::InnodbPage) {
        shown(state, survey).try_for_each(|page| write_innodb_page(out, layout, examined.source.setting(), page))?;
    }
    if state.view != View::InnodbPage {
        Closing::new(examined.findings.clone(), &examined.coverage).write_text(out, layout)?;
        write_innodb_steps(out, layout, &survey.steps)?;
    }
    wrapped(out, layout, "  ", 2, NOT_PREDICTED)
}

/// Pages of the open view as JSON, as `check` and `page` have them.
pub(super) fn page_rows(state: &State, survey: &InnodbSurvey) -> Value {
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
