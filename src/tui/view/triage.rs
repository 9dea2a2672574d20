//! Damage, predicted startup, next steps.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::damage_map::{heading, row_line};
use super::triage_detail::{below, beside};
use super::{Body, fact, findings, waiting};
use crate::analysis::verdict::answer::{Answer, needs_something};
use crate::analysis::verdict::judge::Verdict;
use crate::inspect::next::step_context;
use crate::output::check_text::{compared_words, page_title, replay_words};
use crate::output::next_step_text::{all_words, steps_sentence};
use crate::output::start_words::StartWords;
use crate::output::words::cluster::checksum_words;
use crate::tui::body::MIN_LIST;
use crate::tui::facts::Survey;
use crate::tui::finding_list::{FindingLine, finding_lines};
use crate::tui::look::{Look, columns, pages};
use crate::tui::state::State;

const VERDICT: usize = 16;

/// Rows that leave room for more facts and for bars.
const TALL: usize = 30;

/// Rows up to which counts by verdict give way to sentences.
const LOW: usize = 16;

const LABEL: usize = 12;

pub(super) fn body(state: &State) -> Body<'_> {
    let map = &state.triage.map;
    let mut head = head(state);
    let rows = map.rows.len();
    if rows > 0 {
        head.push(heading(state));
    }
    let room = state.body_rows().saturating_sub(head.len());
    let line = move |at: usize| row_line(state, at);
    let mut body = Body::list(head, rows, state.triage.selected, line);
    let Some(survey) = state.survey() else { return body };
    if state.detail_columns() > 0 {
        body.detail = beside(state, survey);
        // Findings have what the list leaves, and a part of it where it leaves little.
        let rows_left = room.saturating_sub(rows).max(room / 5).max(2);
        let width = if body.detail.is_empty() { state.columns() } else { state.list_columns() };
        body.foot = finding_foot(state.look, width, survey, rows_left);
    } else {
        let foot = room.saturating_sub(rows.min((room * 3 / 5).max(MIN_LIST)));
        let detail = if foot > 3 { below(state, survey, foot - 2) } else { Vec::new() };
        let left = foot.saturating_sub(detail.len());
        body.foot = detail;
        let is_all_listed = rows + foot <= room;
        let rows_left = if is_all_listed { left } else { left.min(state.body_rows() / 7) };
        body.foot.extend(finding_foot(state.look, state.columns(), survey, rows_left.max(1)));
    }
    body
}

/// Some lines, and how many of them stay on the smallest screen.
struct Section {
    lines: Vec<Line<'static>>,
    least: usize,
}

impl Section {
    const fn new(lines: Vec<Line<'static>>, least: usize) -> Self {
        Self { lines, least }
    }

    /// Takes lines away from the end while there are too many; what was cut off is marked.
    fn shorten(&mut self, look: Look, too_many: &mut usize) {
        let mut is_cut = false;
        while *too_many > 0 && self.lines.len() > self.least {
            self.lines.pop();
            *too_many -= 1;
            is_cut = true;
        }
        if let Some(span) = self.lines.last_mut().filter(|_| is_cut).and_then(|line| line.spans.last_mut()) {
            span.content = format!("{}{}", span.content, look.ellipsis()).into();
        }
    }
}

/// All that stands above the list. It leaves room for the heading and some lines of the list; a command is never cut.
fn head(state: &State) -> Vec<Line<'static>> {
    let look = state.look;
    // One column less than there are: where a sentence is cut off there stands a mark.
    let width = state.columns().saturating_sub(1);
    let rows = state.body_rows();
    let budget = rows.saturating_sub(1 + MIN_LIST).min((rows * 3 / 5).max(8));
    let mut opened = Section::new(Vec::new(), 1);
    if let Some(condition) = &state.cluster.opened {
        opened.lines = fact(look, width, "state", &condition.to_string(), Style::new());
    }
    let Some(survey) = state.survey() else {
        let mut lines = opened.lines;
        lines.extend(if state.triage.map.total == 0 { waiting(state) } else { pending(state) });
        return lines;
    };
    if let Some(words) = outdated_words(state) {
        return opened.lines.into_iter().chain(fact(look, width, "on startup", words, look.doubt())).collect();
    }
    let style = match survey.answer {
        _ if survey.pages().iter().any(needs_something) => look.bad(),
        Answer::Fine => look.good(),
        Answer::Wrong | Answer::Uncertain => look.doubt(),
    };
    let report = &survey.examined.report;
    let mut start = Section::new(fact(look, width, "on startup", &start_words(survey), style), 1);
    let doubts = report.replay.doubts.iter();
    let mut doubts = Section::new(
        doubts.flat_map(|doubt| fact(look, width, "doubt", &doubt.to_string(), look.doubt())).collect(),
        usize::from(!report.replay.doubts.is_empty()),
    );
    let repaired = super::undo::in_force_words(survey);
    let repaired = repaired.map_or_else(Vec::new, |words| fact(look, width, "repaired", &words, look.good()));
    let mut repaired = Section { least: repaired.len().min(1), lines: repaired };
    let mut here = Section::new(here(state, survey, width), 0);
    let mut known = Section::new(if state.body_rows() > TALL { known(state, survey) } else { Vec::new() }, 0);
    // On the lowest screens the heading of the list has the number, and its rows have the verdicts.
    let least = usize::from(survey.pages().is_empty() || state.body_rows() > LOW);
    let mut counts = Section::new(counts(state, survey), least);
    let others =
        |cut: usize| opened.lines.len().min(cut) + start.lines.len().min(cut + 1) + doubts.lines.len().min(cut);
    let taken = others(if state.body_rows() > TALL { 6 } else { 1 }) + counts.lines.len() + repaired.least;
    let next = next_lines(look, width, survey, &state.subject.path, budget.saturating_sub(taken));
    let mut gap = Section::new(vec![Line::default()], 0);
    let all = [&opened, &start, &doubts, &repaired, &here, &known, &counts, &gap];
    let sum: usize = all.map(|one| one.lines.len()).iter().sum();
    let mut too_many = (sum + next.len()).saturating_sub(budget);
    // The predicted startup is complete as long as anything else can be shorter.
    for section in [&mut known, &mut here, &mut gap, &mut counts, &mut repaired, &mut opened, &mut doubts, &mut start] {
        section.shorten(look, &mut too_many);
    }
    let mut lines = opened.lines;
    lines.extend(start.lines.into_iter().chain(doubts.lines).chain(next).chain(repaired.lines).chain(here.lines));
    lines.extend(known.lines.into_iter().chain(gap.lines).chain(counts.lines));
    lines
}

/// Text instead of an answer from before pages were written.
pub(super) fn outdated_words(state: &State) -> Option<&'static str> {
    state.cluster.is_outdated.then_some(if state.cluster.is_reading {
        "outdated: pages were written since. The cluster is being checked again"
    } else {
        "outdated: pages were written since. r checks again"
    })
}

/// Where else to look.
fn here(state: &State, survey: &Survey, width: usize) -> Vec<Line<'static>> {
    if !survey.pages().iter().any(|page| page.verdict.verdict.is_writable()) {
        return Vec::new();
    }
    let flags = step_context(&survey.examined, "").flags();
    let words = match flags.as_str() {
        "" => "enter: why, page by page; 6: the repair plan".to_owned(),
        _ => format!("enter: why, page by page; 6: the repair plan, for which a, then o there, allows{flags}"),
    };
    fact(state.look, width, "here", &words, Style::new())
}

/// More facts, if they fit.
fn known(state: &State, survey: &Survey) -> Vec<Line<'static>> {
    let (look, width) = (state.look, state.columns());
    let report = &survey.examined.report;
    let replay = replay_words(&report.replay).unwrap_or_else(|| "the redo point is unknown".to_owned());
    let mut lines = fact(look, width, "replay", &replay, Style::new());
    lines.extend(fact(look, width, "checksums", &checksum_words(survey.examined.checksums()), Style::new()));
    if let Some(compared) = compared_words(&report.slots) {
        lines.extend(fact(look, width, "images", &compared, Style::new()));
    }
    if let Some(scanned) = &survey.examined.scanned {
        lines.extend(fact(look, width, "pages", &scanned.to_string(), Style::new()));
    }
    lines
}

/// Damaged pages that are known while the check runs.
fn pending(state: &State) -> Vec<Line<'static>> {
    let (look, width) = (state.look, state.columns());
    let words = format!("{} so far; verdicts follow when the check is complete", pages(state.triage.map.total));
    let mut lines = fact(look, width, "pending", &words, look.doubt());
    lines.push(Line::default());
    lines
}

/// The predicted startup.
#[must_use]
pub fn start_words(survey: &Survey) -> String {
    let report = &survey.examined.report;
    let label = |page| page_title(&survey.examined.called(page), page);
    StartWords::of(&report.replay, &report.outlook, &report.pages, &label).line()
}

/// Next steps. `data_dir`: as given.
#[must_use]
pub fn next_words(survey: &Survey, data_dir: &str) -> String {
    steps_sentence(&survey.steps, step_context(&survey.examined, data_dir))
}

/// Next steps, in about `room` lines: as many steps as there is room for, the first in any case. Each command begins on
/// a line of its own and is never cut.
fn next_lines(look: Look, width: usize, survey: &Survey, data_dir: &str, room: usize) -> Vec<Line<'static>> {
    let context = step_context(&survey.examined, data_dir);
    let count = survey.steps.len();
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (at, words) in all_words(&survey.steps, context).iter().enumerate() {
        let label = if at == 0 { "next step" } else { "then" };
        let text = if words.items.is_empty() {
            words.sentence()
        } else {
            format!("{}: {}", words.sentence().trim_end_matches(['.', ':']), words.items.join(", "))
        };
        let mut said = fact(look, width, label, &text, Style::new());
        let commands: Vec<Line<'static>> =
            words.commands.iter().take(1).flat_map(|command| command_lines(look, width, command)).collect();
        let more = usize::from(at + 1 < count);
        let left = room.saturating_sub(lines.len() + more);
        if at > 0 && said.len() + commands.len() > left {
            let words = match count - at {
                1 => "1 more step (printed by `check` and on quit)".to_owned(),
                steps => format!("{steps} more steps (printed by `check` and on quit)"),
            };
            lines.push(Line::from(vec![
                Span::styled(look.fit("then", LABEL), look.heading()),
                Span::styled(look.cut(&words, width.saturating_sub(LABEL)), look.faint()),
            ]));
            break;
        }
        let mut section = Section::new(std::mem::take(&mut said), 1);
        section.shorten(look, &mut (section.lines.len() + commands.len()).saturating_sub(left));
        lines.extend(section.lines);
        lines.extend(commands);
    }
    lines
}

/// A command, below its sentence if it fits there, else on lines as wide as the screen.
fn command_lines(look: Look, width: usize, command: &str) -> Vec<Line<'static>> {
    let indent = if columns(&look.plain(command)) + LABEL <= width { LABEL } else { 2 };
    let lines = look.wrap(command, width.saturating_sub(indent));
    let lead = " ".repeat(indent);
    lines.into_iter().map(|words| Line::styled(format!("{lead}{words}"), look.heading())).collect()
}

/// Counts by verdict: bars with numbers, or one line where rows are few.
fn counts(state: &State, survey: &Survey) -> Vec<Line<'static>> {
    let (look, width) = (state.look, state.columns());
    let all = survey.pages().len();
    if all == 0 {
        return vec![match survey.answer {
            Answer::Uncertain => {
                let words = "no damaged page was found, but not everything was checked or is certain";
                Line::styled(look.cut(words, width), look.doubt())
            }
            Answer::Fine | Answer::Wrong => Line::styled("no damaged page", look.good()),
        }];
    }
    let of = |verdict: Verdict| survey.pages().iter().filter(|page| page.verdict.verdict == verdict).count();
    let shown = Verdict::ALL.into_iter().map(|verdict| (verdict, of(verdict))).filter(|(_, count)| *count > 0);
    if state.body_rows() <= TALL {
        let mut spans = vec![Span::styled(look.fit("damaged", LABEL), look.heading()), Span::raw(format!("{all}: "))];
        for (at, (verdict, count)) in shown.enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            spans.push(Span::raw(comma));
            spans.push(Span::styled(format!("{count} {}", verdict.facts().label), look.verdict(verdict)));
        }
        return vec![Line::from(spans)];
    }
    let room = width.saturating_sub(VERDICT + 8 + 34).min(60);
    let lines = shown.map(|(verdict, count)| {
        Line::from(vec![
            Span::styled(look.fit(verdict.facts().label, VERDICT + 1), look.verdict(verdict)),
            Span::raw(format!("{count:>6} ")),
            Span::styled(look.bar(count as f64 / all as f64, room), look.verdict(verdict)),
            Span::styled(format!(" {}", verdict.facts().meaning), look.faint()),
        ])
    });
    lines.collect()
}

/// Problems first, then what was not examined, then notes, as many as there is room for.
fn finding_foot(look: Look, width: usize, survey: &Survey, rows: usize) -> Vec<Line<'static>> {
    let all = finding_lines(survey);
    let count = all.len();
    // Whole ones, as many as there is room for; where there are too many, one line says so.
    let wrap = |one: FindingLine<'_>| -> Vec<Line<'static>> {
        let lines = look.wrap(&one.words(), width.saturating_sub(findings::LABEL)).into_iter().enumerate();
        let lead = |at: usize| look.fit(if at == 0 { one.label() } else { "" }, findings::LABEL);
        lines.map(|(at, words)| Line::styled(format!("{}{words}", lead(at)), findings::style(look, one))).collect()
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
