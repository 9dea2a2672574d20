//! The triage: the next step and damaged pages.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::facts::{InnodbSurvey, SlotLine};
use super::state::InnodbState as State;
use super::triage_rows::{Group, GroupKey, Grouping, Row};
use super::view::{layout, style_of, waiting};
use crate::analysis::innodb::judge::{HeldImage, InnodbPage};
use crate::cluster::innodb::tablespace::Tablespace;
use crate::output::check_text::letter as letter_of;
use crate::output::innodb_text::{NOT_PREDICTED, write_innodb_page};
use crate::tui::body::{Body, highlight};
use crate::tui::export::text_of;
use crate::tui::frame::fact;
use crate::tui::look::{Look, columns, pages};

/// Columns of the name of an image.
const HELD: usize = 12;

/// What the buffer holds, or the word for not yet known.
fn name_of(held: Option<HeldImage>) -> &'static str {
    held.map_or("pending", HeldImage::name)
}

/// How it is painted.
fn style(look: Look, held: Option<HeldImage>) -> Style {
    held.map_or(look.doubt(), |held| style_of(look, held))
}

/// Its letter in a strip.
const fn letter(held: Option<HeldImage>) -> char {
    match held {
        Some(HeldImage::Newer) => 'N',
        Some(HeldImage::Same) => 'S',
        Some(HeldImage::Older) => 'O',
        Some(HeldImage::Encrypted) => 'E',
        Some(HeldImage::Unreadable) => 'U',
        Some(HeldImage::Missing) => '-',
        Some(HeldImage::Unknown) | None => '?',
    }
}

/// A few words for it: its sentence is in the evidence of each page.
const fn short(held: Option<HeldImage>) -> &'static str {
    match held {
        Some(HeldImage::Newer) => "newer image",
        Some(HeldImage::Same) => "image, same LSN",
        Some(HeldImage::Older) => "older image",
        Some(HeldImage::Encrypted) => "encrypted image",
        Some(HeldImage::Unreadable) => "unreadable image",
        Some(HeldImage::Missing) => "no image",
        Some(HeldImage::Unknown) => "image unknown",
        None => "not judged yet",
    }
}

fn triage_head(state: &State, survey: &InnodbSurvey) -> Vec<Line<'static>> {
    let look = state.look;
    let examined = &survey.examined;
    let mut head = fact(look, state.columns(), "startup", NOT_PREDICTED, look.faint());
    let damaged = survey.damaged;
    let other = examined.pages.len().saturating_sub(damaged);
    let wrong = examined.pages.iter().filter(|page| page.is_wrong()).count();
    let mut counts = format!("{} damaged", pages(damaged));
    if other > 0 {
        counts.push_str(&format!(", {other} zero-filled or newer than the log"));
    }
    let skipped = examined.coverage.skipped.len();
    counts.push_str(&format!("; {} read", pages(usize::try_from(examined.scan.counts.pages).unwrap_or(usize::MAX))));
    if skipped > 0 {
        counts.push_str(&format!("; {skipped} not examined (F)"));
    }
    let style = match (wrong, skipped, examined.is_shut_down()) {
        (0, 0, Some(true)) => look.good(),
        (0, ..) => look.doubt(),
        _ => look.bad(),
    };
    head.extend(fact(look, state.columns(), "pages", &counts, style));
    let kept = if state.size.1 < 20 { 1 } else { survey.steps.len() };
    for (at, step) in survey.steps.iter().enumerate().take(kept) {
        let label = if at == 0 { "next step" } else { "then" };
        head.extend(fact(look, state.columns(), label, &step.words, Style::new()));
        // A command is copied whole: it is never cut.
        if let Some(command) = step.command.as_ref().filter(|_| state.size.1 >= 20) {
            head.extend(fact(look, state.columns(), "", command, look.heading()));
        }
    }
    head.push(Line::default());
    head
}

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let survey = state.survey.as_deref();
    let mut head = match survey {
        Some(survey) => triage_head(state, survey),
        None if state.triage.pending.is_empty() => return Body::text(waiting(state), Vec::new(), 0),
        None => pending_head(state),
    };
    let rows = &state.triage.rows;
    if survey.is_some_and(|survey| survey.examined.pages.is_empty()) {
        let further: Vec<Line<'static>> = state.findings.iter().cloned().map(Line::raw).collect();
        return Body::text(head, further, 0);
    }
    let name = name_columns(state);
    let by = format!("by {}{}", state.triage.grouping.name(), if state.triage.is_reversed { "-" } else { "+" });
    let count = count_columns(state);
    let rest = state.list_columns().saturating_sub(3 + name + 1 + count + 1 + HELD);
    let last = match state.triage.grouping {
        Grouping::Tablespace if survey.is_none() => "first to last: ? damaged",
        Grouping::Tablespace if rest >= 59 => "first to last: N newer, S same, O older, E encrypted, - none",
        Grouping::Tablespace if rest >= 22 => "N newer, - no image",
        Grouping::Tablespace => "pages",
        Grouping::Held => "share",
        Grouping::Page if survey.is_none() => "",
        Grouping::Page => "image",
    };
    let heading = format!(
        "   {} {} {}{}",
        look.fit(&by, name),
        look.fit_right("page", count),
        look.fit("holds", HELD),
        look.cut(last, rest)
    );
    head.push(Line::styled(heading, look.heading()));
    let line =
        move |at: usize| highlight(look, at == state.triage.selected, triage_line(state, at, [name, count, rest]));
    let mut body = Body::list(head, rows.rows.len(), state.triage.selected, line);
    if let Some(survey) = survey.filter(|_| state.detail_columns() > 0) {
        body.detail = detail(state, survey);
    }
    body
}

/// Damaged pages that are known while the check goes on.
fn pending_head(state: &State) -> Vec<Line<'static>> {
    let look = state.look;
    let found = pages(state.triage.pending.len());
    let words = format!("{found} found so far; their images are compared when the check has ended");
    let mut lines = fact(look, state.columns(), "pending", &words, look.doubt());
    lines.push(Line::default());
    lines
}

/// Columns of a name, as wide as the list allows.
fn name_columns(state: &State) -> usize {
    (state.list_columns() / 3).clamp(18, 44)
}

/// Columns of the number of a page, or of how many pages a group has.
fn count_columns(state: &State) -> usize {
    let groups = state.triage.rows.groups.iter().filter(|group| group.pages.len() > 1);
    groups.map(|group| columns(&pages(group.pages.len()))).max().unwrap_or_default().max(9)
}

/// A line, whose name, number and last words have so many columns.
fn triage_line(state: &State, at: usize, widths: [usize; 3]) -> Line<'static> {
    match state.triage.rows.rows.get(at) {
        Some(Row::Group(index)) => group_line(state, at, *index, widths),
        Some(Row::Page(index)) => page_line(state, at, *index, widths),
        None => Line::default(),
    }
}

/// Sign of the selected row.
fn pointer(state: &State, at: usize) -> &'static str {
    if at == state.triage.selected { state.look.pointer() } else { " " }
}

/// How a tablespace is called, and how many pages it has.
fn space_facts(state: &State, space: usize) -> (String, u64) {
    let of_survey = |survey: &InnodbSurvey| survey.examined.source.spaces.all.get(space).map(of_space);
    let pending = || state.triage.pending.iter().find(|page| page.space == space);
    let known =
        state.survey.as_deref().map_or_else(|| pending().map(|page| (page.called.to_string(), page.pages)), of_survey);
    known.unwrap_or_default()
}

fn of_space(space: &Tablespace) -> (String, u64) {
    (space.name(), space.pages())
}

/// Number of the page with this index.
fn page_no(state: &State, at: usize) -> Option<u32> {
    match state.survey.as_deref() {
        Some(survey) => survey.examined.pages.get(at).map(|page| page.page.page_no),
        None => state.triage.pending.get(at).map(|page| page.page_no),
    }
}

fn group_line(state: &State, at: usize, index: usize, [name, room, rest]: [usize; 3]) -> Line<'static> {
    let look = state.look;
    let Some(group) = state.triage.rows.groups.get(index) else { return Line::default() };
    let sign = match (group.pages.len(), state.triage.rows.is_open(index)) {
        (1, false) => " ",
        (_, true) => "-",
        (_, false) => "+",
    };
    let style = style(look, group.worst);
    let (called, strip) = match group.key {
        GroupKey::Space(space) => {
            let (called, all) = space_facts(state, space);
            (called, strip(state, group, all, rest))
        }
        GroupKey::Held(held) => {
            let share = group.pages.len() as f64 / state.triage.rows.shown().max(1) as f64;
            let bar = Span::styled(look.bar(share, rest.min(60)), style);
            (short(held).to_owned(), vec![bar])
        }
    };
    let only = group.pages.first().filter(|_| group.pages.len() == 1);
    let number = only.and_then(|at| page_no(state, *at));
    let count = number.map_or_else(|| pages(group.pages.len()), |number| number.to_string());
    let mut spans = vec![
        Span::raw(format!("{}{sign} ", pointer(state, at))),
        Span::styled(look.fit_end(&called, name), style),
        Span::raw(format!(" {} ", look.fit_right(&count, room))),
        Span::styled(look.fit(name_of(group.worst), HELD), style),
    ];
    spans.extend(strip);
    Line::from(spans)
}

fn page_line(state: &State, at: usize, index: usize, [name, room, rest]: [usize; 3]) -> Line<'static> {
    let look = state.look;
    let is_below = state.triage.grouping == Grouping::Tablespace;
    let judged = state.survey.as_deref().and_then(|survey| Some((survey, survey.examined.pages.get(index)?)));
    let held = judged.map(|(_, page)| page.held);
    let called = match (judged, state.triage.pending.get(index)) {
        (Some((_, page)), _) if is_below => format!("  {}", page.disk.name()),
        (Some((_, page)), _) => page.path.clone(),
        (None, Some(_)) if is_below => "  damaged".to_owned(),
        (None, Some(page)) => page.called.to_string(),
        (None, None) => return Line::default(),
    };
    let called = if is_below { look.fit(&called, name) } else { look.fit_end(&called, name) };
    let words = judged.map_or_else(String::new, |(survey, page)| {
        let words = image_words(survey, page);
        let has_room = columns(&words) <= rest;
        if has_room { words } else { page.chosen().map_or_else(String::new, |at| letter_of(at).to_string()) }
    });
    let number = page_no(state, index).map_or_else(String::new, |number| number.to_string());
    let style = style(look, held);
    Line::from(vec![
        Span::raw(format!("{}  ", pointer(state, at))),
        Span::styled(called, style),
        Span::raw(format!(" {} ", look.fit_right(&number, room))),
        Span::styled(look.fit(name_of(held), HELD), style),
        Span::raw(look.cut(&words, rest)),
    ])
}

/// The image that is first in the order of the server.
fn image_words(survey: &InnodbSurvey, page: &InnodbPage) -> String {
    let chosen = page.chosen().and_then(|chosen| page.candidates.get(chosen));
    match chosen {
        Some(chosen) => format!("{} at {}", survey.slot_name(SlotLine::Slot(&chosen.facts)), chosen.facts.lsn),
        None if page.candidates.is_empty() => "no image".to_owned(),
        None => format!("other images: {}", page.candidates.len()),
    }
}

/// The pages of a tablespace, of which there are `all`, from the first to the last; a letter where damage lies.
fn strip(state: &State, group: &Group, all: u64, width: usize) -> Vec<Span<'static>> {
    let look = state.look;
    let all = all.max(1);
    let count = usize::try_from(all).unwrap_or(usize::MAX).min(width).max(1);
    // The worst of each cell that has one.
    let mut cells: Vec<Option<Option<HeldImage>>> = vec![None; count];
    for index in &group.pages {
        let Some(number) = page_no(state, *index) else { continue };
        let held = state.survey.as_deref().and_then(|survey| Some(survey.examined.pages.get(*index)?.held));
        let at = u128::from(number) * count as u128 / u128::from(all);
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(count - 1);
        cells[at] = Some(cells[at].map_or(held, |known| known.min(held)));
    }
    let span = |cell: &[Option<Option<HeldImage>>]| match cell.first().copied().flatten() {
        Some(held) => {
            let letters = letter(held).to_string().repeat(cell.len());
            Span::styled(letters, style(look, held).add_modifier(Modifier::BOLD))
        }
        None => Span::styled(look.dot().to_string().repeat(cell.len()), look.faint()),
    };
    cells.chunk_by(|one, other| one == other).map(span).collect()
}

/// All about the selected page.
pub(super) fn detail(state: &State, survey: &InnodbSurvey) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.detail_columns();
    let listed = state.selected_page().and_then(|target| target.listed);
    let Some(page) = listed.and_then(|at| survey.examined.pages.get(at)) else {
        let words = "enter opens what is selected; beside a damaged page its evidence stands here";
        return look.wrap(words, width).into_iter().map(|words| Line::styled(words, look.faint())).collect();
    };
    let layout = layout(width);
    let text = text_of(|out| write_innodb_page(out, layout, survey.examined.source.setting(), page));
    let fitted = text.lines().skip(1).take(state.body_rows()).map(|line| Line::raw(look.cut(line, width)));
    fitted.collect()
}
