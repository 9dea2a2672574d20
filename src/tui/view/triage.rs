//! Damage, predicted startup, next steps.

use super::damage_map::{heading, row_line};
use super::findings::{FindingLine, finding_lines};
use super::triage_detail::{below, whole};
use super::{
    Body, Facts, Line, Look, MIN_LIST, Modifier, Span, State, Style, Survey, columns, fact, findings, led, map, pages,
    waiting,
};
use crate::analysis::skipped::Coverage;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::facts::Badge;
use crate::analysis::verdict::judge::Verdict;
use crate::inspect::next::other_problems;
use crate::inspect::verify::rules::DAMAGED_PAGES;
use crate::output::check_text::{compared_words, page_title, replay_words};
use crate::output::start_words::StartWords;
use crate::output::words::cluster::checksum_words;
use crate::report::Rule;
use crate::tui::cluster_map::Area;

const VERDICT: usize = 16;

/// Rows that leave room for more facts and for bars.
pub(super) const TALL: usize = 30;

/// Fewer free rows show no picture of the cluster.
const MIN_PICTURE: usize = 6;

pub(super) fn body(state: &State) -> Body<'_> {
    let damage = &state.triage.map;
    let mut head = head(state);
    let rows = damage.rows.len();
    if rows > 0 {
        head.push(heading(state));
    }
    if rows == 0 && damage.total > 0 {
        let words = format!("no page matches {} (esc: all {})", state.query.text(), damage.total);
        head.push(Line::styled(state.look.cut(&words, state.columns()), state.look.doubt()));
    }
    let room = state.body_rows().saturating_sub(head.len());
    let line = move |at: usize| row_line(state, at);
    let mut body = Body::rows(state.look, head, rows, state.triage.selected, line);
    let Some(survey) = state.survey() else { return body };
    if state.detail_columns() > 0 {
        body.detail = whole(state, survey, state.detail_columns());
    } else if let foot @ 4.. = rows_below(room, rows) {
        body.foot = below(state, survey, foot - 2);
    }
    let width = if body.detail.is_empty() { state.columns() } else { state.list_columns() };
    let findings = finding_foot(state, &DAMAGED_PAGES, width, (room, rows, body.foot.len()));
    body.foot.extend(findings);
    // The picture of the cluster has what is left.
    let free = room.saturating_sub(rows.max(usize::from(damage.total > 0)) + body.foot.len());
    if free > MIN_PICTURE {
        // Above the first line there is a gap already.
        let gap = usize::from(rows > 0);
        let mut picture = vec![Line::default(); gap];
        picture.extend(map::picture(state.look, survey, Area { x: 0, y: 0, width, height: free - gap }, None));
        body.foot.splice(0..0, picture);
    }
    body
}

/// Rows below a list of so many lines, which keeps three fifths of the room.
fn rows_below(room: usize, listed: usize) -> usize {
    room.saturating_sub(listed.min((room * 3 / 5).max(MIN_LIST)))
}

/// Rows for all above a list, of so many between the tabs and the bottom lines.
pub(super) fn head_rows(rows: usize) -> usize {
    rows.saturating_sub(1 + MIN_LIST).min((rows * 3 / 5).max(8))
}

/// Some lines, and how many of them stay on the smallest screen.
pub(super) struct Section {
    pub(super) lines: Vec<Line<'static>>,
    least: usize,
}

impl Section {
    pub(super) const fn new(lines: Vec<Line<'static>>, least: usize) -> Self {
        Self { lines, least }
    }

    /// Takes lines away from the end while there are too many; what was cut off is marked.
    pub(super) fn shorten(&mut self, look: Look, too_many: &mut usize) {
        let mut is_cut = false;
        while *too_many > 0 && self.lines.len() > self.least {
            self.lines.pop();
            *too_many -= 1;
            is_cut = true;
        }
        if is_cut {
            look.mark_cut(&mut self.lines);
        }
    }
}

/// All above the list: the badge with the figures, the prediction, the next step, then facts. Where there is little room, facts
/// give way first, then the ends of sentences; a command is never cut.
fn head(state: &State) -> Vec<Line<'static>> {
    let look = state.look;
    // One column less than there are: where a sentence is cut off there stands a mark.
    let width = state.columns().saturating_sub(1);
    let rows = state.body_rows();
    let budget = head_rows(rows);
    let opened = state.cluster.opened.as_ref().map(ToString::to_string);
    let opened = opened.map_or_else(Vec::new, |words| fact(look, width, "state", &words, Style::new()));
    let Some(survey) = state.survey() else {
        let mut lines = opened;
        lines.extend(if state.triage.map.total == 0 { waiting(state) } else { pending(state) });
        return lines;
    };
    if let Some(words) = outdated_words(state) {
        return opened.into_iter().chain(fact(look, width, "on startup", words, look.doubt())).collect();
    }
    let report = &survey.examined.report;
    let start = start_of(survey);
    let words = look.lines(&sentences(&start.sentences), width, Style::new());
    let mut start_words = Section::new(words, 1);
    let doubts = report.replay.doubts.iter();
    let doubts = doubts.flat_map(|doubt| fact(look, width, "doubt", &doubt.to_string(), look.doubt())).collect();
    let mut doubts = Section::new(doubts, usize::from(!report.replay.doubts.is_empty()));
    let repaired = super::before::in_force_words(survey);
    let repaired = repaired.map_or_else(Vec::new, |words| fact(look, width, "repaired", &words, look.good()));
    let mut repaired = Section { least: repaired.len().min(1), lines: repaired };
    // The badge says that a server runs.
    let mut opened = Section::new(if start.badge == Badge::Running { Vec::new() } else { opened }, 0);
    let has_room = rows > TALL || survey.pages().is_empty();
    let mut known = Section::new(if has_room { known(state, survey) } else { Vec::new() }, 0);
    let counts = || {
        by_verdict(survey)
            .map(|(one, count)| (one.facts().label, count, one.facts().meaning.to_owned(), look.verdict(one)))
    };
    let mut bars =
        Section::new(if rows > TALL { bars(look, state.columns(), counts().collect()) } else { Vec::new() }, 0);
    let taken = 1 + start_words.lines.len().min(2) + doubts.least + repaired.least;
    let next = super::steps::next_lines(state, width, budget.saturating_sub(taken));
    let mut gap = Section::new(vec![Line::default()], 0);
    let all = [&start_words, &doubts, &repaired, &opened, &known, &bars, &gap];
    let sum: usize = all.map(|one| one.lines.len()).iter().sum();
    let mut too_many = (1 + sum + next.len()).saturating_sub(budget);
    for section in [&mut known, &mut opened, &mut gap, &mut bars, &mut doubts, &mut start_words, &mut repaired] {
        section.shorten(look, &mut too_many);
    }
    let badge = look.badge(start.badge.label(), start.badge.tone());
    let mut lines = vec![badge_line(look, width, badge, figures(look, survey), &survey.examined.coverage)];
    lines.extend(start_words.lines.into_iter().chain(next).chain(doubts.lines).chain(repaired.lines));
    lines.extend(opened.lines.into_iter().chain(known.lines).chain(bars.lines).chain(gap.lines));
    lines
}

/// How many pages are damaged, what can be done about them, and what was not checked.
fn figures(look: Look, survey: &Survey) -> Vec<(String, Style)> {
    let mut figures = match (survey.pages().len(), survey.answer) {
        (0, Answer::Uncertain) => vec![("no damage found, not all checked".to_owned(), look.doubt())],
        (0, _) => vec![("no damaged page".to_owned(), look.good())],
        (all, _) => vec![(format!("{all} damaged"), Style::new().add_modifier(Modifier::BOLD))],
    };
    figures.extend(
        by_verdict(survey)
            .map(|(verdict, count)| (format!("{count} {}", verdict.facts().label), look.verdict(verdict))),
    );
    figures
}

/// The badge of the answer, then figures as far as there is room, the last of them what was not checked.
pub(super) fn badge_line(
    look: Look,
    width: usize,
    badge: Span<'static>,
    mut figures: Vec<(String, Style)>,
    coverage: &Coverage,
) -> Line<'static> {
    if let skipped @ 1.. = coverage.skipped.len() {
        figures.push((format!("{skipped} not checked"), look.doubt()));
    }
    let mut room = width.saturating_sub(badge.width());
    let mut spans = vec![badge];
    for (words, style) in figures {
        if columns(&words) + 2 > room {
            spans.push(Span::raw(look.cut("  and more", room)));
            break;
        }
        room -= columns(&words) + 2;
        spans.extend([Span::raw("  "), Span::styled(words, style)]);
    }
    Line::from(spans)
}

/// Damaged pages by verdict, the worst first.
fn by_verdict(survey: &Survey) -> impl Iterator<Item = (Verdict, usize)> {
    let of = |verdict: Verdict| survey.pages().iter().filter(|page| page.verdict.verdict == verdict).count();
    Verdict::ALL.into_iter().map(move |verdict| (verdict, of(verdict))).filter(|(_, count)| *count > 0)
}

/// Text instead of an answer from before pages were written.
pub(super) fn outdated_words(state: &State) -> Option<&'static str> {
    state.cluster.is_outdated.then_some(if state.cluster.is_reading {
        "outdated: pages were written since. The cluster is being checked again"
    } else {
        "outdated: pages were written since. r checks again"
    })
}

fn known(state: &State, survey: &Survey) -> Vec<Line<'static>> {
    let report = &survey.examined.report;
    let mut facts = Facts::new(state.look, state.columns());
    let replay = replay_words(&report.replay).unwrap_or_else(|| "the redo point is unknown".to_owned());
    facts.add("replay", &replay, Style::new());
    facts.add("checksums", &checksum_words(survey.examined.checksums()), Style::new());
    facts.add("images", &compared_words(&report.slots).unwrap_or_default().replace('_', " "), Style::new());
    let scanned = survey.examined.scanned.as_ref().map(ToString::to_string);
    facts.add("pages", &scanned.unwrap_or_default(), Style::new());
    facts.lines
}

fn pending(state: &State) -> Vec<Line<'static>> {
    let (look, width) = (state.look, state.columns());
    let words = format!("{} so far; verdicts follow when the check is complete", pages(state.triage.map.total));
    let mut lines = fact(look, width, "pending", &words, look.doubt());
    lines.push(Line::default());
    lines
}

fn start_of(survey: &Survey) -> StartWords {
    let report = &survey.examined.report;
    let label = |page| page_title(&survey.examined.called(page), page);
    StartWords::of(&report.replay, &report.outlook, &report.pages, &label).with(other_problems(&survey.examined))
}

pub fn start_words(survey: &Survey) -> String {
    start_of(survey).line()
}

pub(super) fn sentences(all: &[String]) -> String {
    let whole = |words: &String| {
        let mut chars = words.trim_end_matches('.').chars();
        let capital = chars.next().map_or_else(String::new, |first| first.to_uppercase().collect());
        format!("{capital}{}.", chars.as_str())
    };
    all.iter().map(whole).collect::<Vec<_>>().join(" ")
}

/// Counts as bars: label, number, meaning and style of each.
pub(super) fn bars(look: Look, width: usize, counts: Vec<(&str, usize, String, Style)>) -> Vec<Line<'static>> {
    let all: usize = counts.iter().map(|(_, count, ..)| count).sum();
    let room = width.saturating_sub(VERDICT + 8 + 34).min(60);
    let bar = |(label, count, meaning, style): (&str, usize, String, Style)| {
        let meaning = look.cut(&format!(" {meaning}"), width.saturating_sub(VERDICT + 8 + room));
        Line::from(vec![
            Span::styled(look.fit(label, VERDICT + 1), style),
            Span::raw(format!("{count:>6} ")),
            Span::styled(look.bar(count as f64 / all as f64, room), style),
            Span::styled(meaning, look.faint()),
        ])
    };
    counts.into_iter().map(bar).collect()
}

/// Problems first, then what was not examined, then notes: those that fit below a list. Each page of `damage` has its line in the list.
/// `rows`: the room for both, the lines of the list, and those below it already.
pub(super) fn finding_foot(
    state: &State,
    damage: &'static Rule,
    width: usize,
    (room, listed, taken): (usize, usize, usize),
) -> Vec<Line<'static>> {
    let look = state.look;
    let rows = if state.detail_columns() > 0 {
        room.saturating_sub(listed).max(room / 5).max(2)
    } else {
        let below = rows_below(room, listed);
        let left = below.saturating_sub(taken);
        // A list that is longer than the screen has the rest.
        let most = if listed + below <= room { left } else { left.min(state.body_rows() / 7) };
        most.max(1)
    };
    let mut all = finding_lines(state).unwrap_or_default();
    all.retain(|one| !matches!(one, FindingLine::Problem(finding) if finding.is(damage)));
    let count = all.len();
    // Whole ones, as many as there is room for; where there are too many, one line says so.
    let wrap = |one: FindingLine<'_>| -> Vec<Line<'static>> {
        let style = findings::style(look, one);
        let lead = Span::styled(look.fit(one.label(), findings::LABEL), style);
        led(look, lead, &one.words(), width.saturating_sub(findings::LABEL), style)
    };
    let wrapped: Vec<Vec<Line<'static>>> = all.into_iter().take(rows + 1).map(wrap).collect();
    let needed: usize = wrapped.iter().map(Vec::len).sum();
    let room = if needed > rows { rows.saturating_sub(1) } else { rows };
    let (mut lines, mut shown): (Vec<Line<'static>>, usize) = (Vec::new(), 0);
    for one in wrapped {
        if lines.len() + one.len() > room {
            break;
        }
        shown += 1;
        lines.extend(one);
    }
    if shown < count {
        let more = if shown == 0 { format!("{count} findings") } else { format!("and {} more", count - shown) };
        lines.push(Line::styled(format!("{more}: F lists them all"), look.faint()));
    }
    lines
}
