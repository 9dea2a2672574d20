//! What is wrong, what a start would bring, what to do.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Body, fact, highlight, waiting};
use crate::analysis::finding::{Finding, Severity};
use crate::analysis::verdict::answer::{Answer, needs_something};
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::survey::PageReport;
use crate::inspect::next::step_context;
use crate::output::check_text::{
    block_label, compared_words, image_words, page_title, replay_words, start_sentence, tear_words,
};
use crate::output::next_step_text::steps_sentence;
use crate::output::words::cluster::checksum_words;
use crate::tui::facts::Survey;
use crate::tui::look::Look;
use crate::tui::state::State;

/// Columns of a verdict's name.
const VERDICT: usize = 16;

/// Width from which on how sure a verdict is has a column.
const WIDE: usize = 100;

/// Width from which on the image has a column.
const WIDER: usize = 120;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let width = state.columns();
    let mut head = Vec::new();
    if let Some(opened) = &state.cluster.opened {
        head.extend(fact(look, width, "state", &opened.to_string(), Style::new()));
    }
    let Some(survey) = state.survey() else {
        head.extend(waiting(state));
        return Body::text(head, Vec::new(), 0);
    };
    let style = match survey.answer {
        _ if survey.pages().iter().any(needs_something) => look.bad(),
        Answer::Fine => look.good(),
        Answer::Wrong | Answer::Uncertain => look.doubt(),
    };
    let report = &survey.examined.report;
    head.extend(fact(look, width, "if started", &start_words(survey), style));
    for doubt in &report.replay.doubts {
        head.extend(fact(look, width, "doubt", &doubt.to_string(), look.doubt()));
    }
    head.extend(fact(look, width, "next step", &next_words(survey, &state.subject.path), Style::new()));
    if let Some(words) = super::undo::in_force_words(survey) {
        head.extend(fact(look, width, "repaired", &words, look.good()));
    }
    let can_be_restored = |page: &PageReport| {
        matches!(page.verdict.verdict, Verdict::Restore | Verdict::Rebuild | Verdict::RestoreUnproven)
    };
    if survey.pages().iter().any(can_be_restored) {
        let flags = step_context(&survey.examined, "").flags();
        let words = match flags.as_str() {
            "" => "enter: why, page by page; 6: the repair plan".to_owned(),
            _ => {
                format!("enter: why, page by page; 6: the repair plan, for which a, then o there, allows{flags}")
            }
        };
        head.extend(fact(look, width, "here", &words, Style::new()));
    }
    if state.body_rows() > 30 {
        let replay = replay_words(&report.replay).unwrap_or_else(|| "where replay begins is unknown".to_owned());
        head.extend(fact(look, width, "replay", &replay, Style::new()));
        head.extend(fact(look, width, "checksums", &checksum_words(survey.examined.checksums()), Style::new()));
        if let Some(compared) = compared_words(&report.slots) {
            head.extend(fact(look, width, "images", &compared, Style::new()));
        }
        if let Some(scanned) = &survey.examined.scanned {
            head.extend(fact(look, width, "pages", &scanned.to_string(), Style::new()));
        }
    }
    head.push(Line::default());
    if survey.pages().is_empty() {
        head.push(match survey.answer {
            Answer::Uncertain => {
                Line::styled("no damaged page was found, but not everything was examined or is certain", look.doubt())
            }
            Answer::Fine | Answer::Wrong => Line::styled("no damaged page", look.good()),
        });
    } else {
        head.extend(counts(look, width, survey));
        head.push(Line::styled(row(look, width, " ", &heading(survey.pages().len())), look.heading()));
    }
    let line = move |at: usize| page_line(state, survey, at);
    let mut body = Body::list(head, survey.pages().len(), state.triage.selected, line);
    body.foot = findings(look, width, survey, state.body_rows() / 7);
    body
}

/// What a start of the server brings.
#[must_use]
pub fn start_words(survey: &Survey) -> String {
    let report = &survey.examined.report;
    let label = |page| page_title(&survey.examined.called(page), page);
    start_sentence(&report.replay, &report.outlook, &report.pages, &label)
}

/// What to do next. `data_dir`: as it was named.
#[must_use]
pub fn next_words(survey: &Survey, data_dir: &str) -> String {
    steps_sentence(&survey.steps, step_context(&survey.examined, data_dir))
}

/// Counts by verdict, as bars with numbers.
fn counts(look: Look, width: usize, survey: &Survey) -> Vec<Line<'static>> {
    let all = survey.pages().len();
    let room = width.saturating_sub(VERDICT + 8 + 34).min(60);
    let of = |verdict: Verdict| survey.pages().iter().filter(|page| page.verdict.verdict == verdict).count();
    let shown = Verdict::ALL.into_iter().map(|verdict| (verdict, of(verdict))).filter(|(_, count)| *count > 0);
    let lines = shown.map(|(verdict, count)| {
        Line::from(vec![
            Span::styled(look.fit(verdict.name(), VERDICT + 1), look.verdict(verdict)),
            Span::raw(format!("{count:>6} ")),
            Span::styled(look.bar(count as f64 / all as f64, room), look.verdict(verdict)),
            Span::styled(format!(" {}", meaning(verdict)), look.faint()),
        ])
    });
    lines.collect()
}

/// A verdict in a few words.
pub(super) const fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Restore => "a proven image",
        Verdict::Rebuild => "rebuilt by replay, proven",
        Verdict::RestoreUnproven => "an image; its proof has a gap",
        Verdict::LosesChanges => "every image lacks changes",
        Verdict::NoImage => "no usable image",
        Verdict::HealsInReplay => "replay overwrites it",
        Verdict::Leave => "leave it as it is",
    }
}

fn heading(count: usize) -> [String; 7] {
    let pages = format!("{count} damaged");
    [&pages, "block", "on disk", "sure", "tear", "verdict", "image"].map(str::to_owned)
}

/// One row; columns that a narrow screen has no room for are left out.
fn row(look: Look, width: usize, lead: &str, cells: &[String; 7]) -> String {
    let [relation, block, disk, sure, tear, verdict, image] = cells;
    let (sure_width, image_width) = (if width >= WIDE { 10 } else { 0 }, if width >= WIDER { 26 } else { 0 });
    let fixed = 3 + 10 + 10 + sure_width + 15 + VERDICT + 1 + image_width;
    let mut text = format!(
        "{}{} {} {}",
        look.fit(lead, 3),
        look.fit_end(relation, width.saturating_sub(fixed + 1)),
        look.fit_right(block, 8),
        look.fit(&format!(" {disk}"), 11)
    );
    if sure_width > 0 {
        text.push_str(&look.fit(sure, sure_width));
    }
    text.push_str(&look.fit(tear, 15));
    text.push_str(&look.fit(verdict, VERDICT));
    if image_width > 0 {
        text.push_str(&look.fit(&format!(" {image}"), image_width));
    }
    text
}

fn page_line(state: &State, survey: &Survey, at: usize) -> Line<'static> {
    let look = state.look;
    let Some(report) = survey.pages().get(at) else { return Line::default() };
    let is_selected = at == state.triage.selected;
    let mark = state.mark_sign(report.page);
    let lead = format!("{}{mark}", if is_selected { look.pointer() } else { " " });
    let verdict = report.verdict.verdict;
    let chosen = report.verdict.chosen.and_then(|index| report.verdict.candidates.get(index));
    let cells = [
        survey.relation(report.page.rel),
        block_label(report.page),
        report.disk.name().to_owned(),
        report.strength.name().to_owned(),
        tear_words(report),
        verdict.name().to_owned(),
        chosen.map_or_else(|| "-".to_owned(), image_words),
    ];
    highlight(look, is_selected, Line::styled(row(look, state.columns(), &lead, &cells), look.verdict(verdict)))
}

/// Problems first, then what was not examined, then notes, as many as there is room for.
fn findings(look: Look, width: usize, survey: &Survey, rows: usize) -> Vec<Line<'static>> {
    let of = |severity: Severity| survey.examined.findings.iter().filter(move |finding| finding.severity == severity);
    let skipped = &survey.examined.coverage.skipped;
    let problems = of(Severity::Problem).map(|finding| (look.bad(), format!("problem  {}", finding_words(finding))));
    let skipped = skipped.iter().map(|one| (look.doubt(), format!("skipped  {one}")));
    let notes = of(Severity::Note).map(|finding| (look.faint(), format!("note     {}", finding_words(finding))));
    let all: Vec<(Style, String)> = problems.chain(skipped).chain(notes).collect();
    let rows = rows.max(2);
    let count = all.len();
    let shown = if count > rows { rows - 1 } else { count };
    let mut lines: Vec<Line<'static>> =
        all.into_iter().take(shown).map(|(style, words)| Line::styled(look.cut(&words, width), style)).collect();
    if shown < count {
        lines.push(Line::styled(format!("and {} more; `check` lists them all", count - shown), look.faint()));
    }
    lines
}

fn finding_words(finding: &Finding) -> String {
    let file = finding.file.as_ref().map_or_else(String::new, |file| format!("{file}: "));
    format!("{file}{}; {}", finding.kind, finding.kind.why())
}
