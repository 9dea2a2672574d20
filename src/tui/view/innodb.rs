//! MySQL and MariaDB: the damaged pages with the next step above them, and all about one page.

use strum::VariantArray as _;

use super::steps::next_lines;
use super::triage::{Section, TALL, badge_line, bars, finding_foot, head_rows, sentences};
use super::{Body, Line, Modifier, Span, State, Style, View, waiting};
use crate::analysis::innodb::judge::{HeldImage, InnodbPage};
use crate::analysis::innodb::rules::DAMAGED_PAGES;
use crate::output::closing::Headline;
use crate::output::innodb_text::{innodb_headline, write_innodb_page};
use crate::output::text::{Layout, Paint};
use crate::tui::export::text_of;
use crate::tui::innodb::InnodbSurvey;
use crate::tui::look::Look;

/// Columns of the number of a page, of the word for it, and of what the buffer holds.
const NUMBER: usize = 10;
const WORD: usize = 10;
const HELD: usize = 10;

pub(super) fn body(state: &State) -> Body<'_> {
    let Some(survey) = state.innodb.survey.as_deref() else { return Body::text(waiting(state), Vec::new(), 0) };
    if state.view == View::Pages {
        return list(state, survey);
    }
    let lines = match survey.page(state.innodb.selected) {
        Some(page) => page_text(state, survey, page, state.size.0),
        None => vec![Line::raw("No page is damaged.")],
    };
    Body::text(Vec::new(), lines, state.innodb.top)
}

/// Output of `page`.
fn page_text(state: &State, survey: &InnodbSurvey, page: &InnodbPage, width: u16) -> Vec<Line<'static>> {
    let layout = Layout { width, paint: Paint::new(false) };
    let text = text_of(|out| write_innodb_page(out, layout, survey.examined.source.setting(), page));
    text.trim_start_matches('\n').lines().map(|line| Line::raw(state.look.plain(line))).collect()
}

fn style_of(look: Look, held: HeldImage) -> Style {
    match held {
        HeldImage::Missing | HeldImage::Unreadable => look.bad(),
        _ => look.doubt(),
    }
}

fn label(held: HeldImage) -> String {
    held.name().replace('_', " ")
}

fn list<'a>(state: &'a State, survey: &'a InnodbSurvey) -> Body<'a> {
    let (look, selected, count) = (state.look, state.innodb.selected, survey.words().len());
    let mut head = head(state, survey);
    let name = state.list_columns().saturating_sub(NUMBER + WORD + HELD + 6);
    let cells = move |[path, page, disk, holds]: [&str; 4]| {
        let (path, page) = (look.fit_end(path, name), look.fit_right(page, NUMBER));
        [format!(" {path} {page} {} ", look.fit(disk, WORD)), look.fit(holds, HELD)]
    };
    let heading = cells(["file", "page", "disk", "holds"]).concat();
    head.push(Line::styled(format!(" {heading}"), look.heading()));
    let line = move |at: usize| {
        let Some(page) = survey.page(at) else { return Line::default() };
        let number = page.page.page_no.to_string();
        let [front, holds] = cells([&page.path, &number, page.disk.name(), &label(page.held)]);
        Line::from(vec![Span::raw(front), Span::styled(holds, style_of(look, page.held))])
    };
    let room = state.body_rows().saturating_sub(head.len());
    let mut body = Body::rows(look, head, count, selected, line);
    let width = u16::try_from(state.detail_columns()).unwrap_or(u16::MAX);
    let open = survey.page(selected).filter(|_| width > 0);
    body.detail = open.map_or_else(Vec::new, |page| page_text(state, survey, page, width));
    body.foot = finding_foot(state, &DAMAGED_PAGES, state.list_columns(), (room, count, 0));
    body
}

/// All above the list: the badge with the figures, the answer, the next step, then bars where there is room.
fn head(state: &State, survey: &InnodbSurvey) -> Vec<Line<'static>> {
    let (look, width, rows) = (state.look, state.columns().saturating_sub(1), state.body_rows());
    let examined = &survey.examined;
    let Headline { badge, tone, sentences: words, .. } =
        innodb_headline(&examined.pages, &examined.scan.counts, survey.answer);
    let count = |held: HeldImage| examined.pages.iter().filter(|page| page.held == held).count();
    let counts = HeldImage::VARIANTS.iter().map(|held| (*held, count(*held))).filter(|(_, count)| *count > 0);
    let counts: Vec<(HeldImage, usize)> = counts.collect();
    let mut figures = vec![(format!("{} listed", examined.pages.len()), Style::new().add_modifier(Modifier::BOLD))];
    figures.extend(counts.iter().map(|(held, count)| (format!("{count} {}", label(*held)), style_of(look, *held))));
    let mut answer = Section::new(look.lines(&sentences(&words), width, Style::new()), 1);
    let next = next_lines(state, width, head_rows(rows).saturating_sub(1 + answer.lines.len().min(2)));
    let names: Vec<String> = counts.iter().map(|(held, _)| label(*held)).collect();
    let of_held = counts.iter().zip(&names);
    let of_held = of_held.map(|((held, count), name)| (name.as_str(), *count, held.to_string(), style_of(look, *held)));
    let bars = if rows > TALL { bars(look, state.columns(), of_held.collect()) } else { Vec::new() };
    let (mut bars, mut gap) = (Section::new(bars, 0), Section::new(vec![Line::default()], 0));
    let sum = 1 + next.len() + answer.lines.len() + bars.lines.len() + gap.lines.len();
    let mut too_many = sum.saturating_sub(head_rows(rows));
    for section in [&mut gap, &mut bars, &mut answer] {
        section.shorten(look, &mut too_many);
    }
    let mut lines = vec![badge_line(look, width, look.badge(badge, tone), figures, &examined.coverage)];
    lines.extend(answer.lines.into_iter().chain(next).chain(bars.lines).chain(gap.lines));
    lines
}
