//! What is wrong, what a start would bring, what to do.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Body, fact, highlight, waiting};
use crate::analysis::verdict::judge::Verdict;
use crate::tui::facts::{PageLine, Survey};
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
    if let Some(words) = &state.cluster.opened {
        head.extend(fact(look, width, "state", words, Style::new()));
    }
    let Some(survey) = state.survey() else {
        head.extend(waiting(state));
        return Body::text(head, Vec::new(), 0);
    };
    let needs_care = |page: &PageLine| !matches!(page.verdict, Verdict::HealsInReplay | Verdict::Leave);
    let style = match survey.exit_status {
        _ if survey.pages.iter().any(needs_care) => look.bad(),
        0 => look.good(),
        _ => look.doubt(),
    };
    head.extend(fact(look, width, "if started", &survey.start, style));
    for doubt in &survey.doubts {
        head.extend(fact(look, width, "doubt", doubt, look.doubt()));
    }
    head.extend(fact(look, width, "next step", &survey.next, Style::new()));
    if survey.pages.iter().any(|page| matches!(page.verdict, Verdict::Restore | Verdict::RestoreUnproven)) {
        let words = "enter: why, page by page; 6: the repair plan";
        head.extend(fact(look, width, "here", words, Style::new()));
    }
    if state.body_rows() > 30 {
        head.extend(fact(look, width, "replay", &survey.replay, Style::new()));
        head.extend(fact(look, width, "checksums", &survey.checksums, Style::new()));
        if let Some(compared) = &survey.compared {
            head.extend(fact(look, width, "images", compared, Style::new()));
        }
        if let Some(scanned) = &survey.scanned {
            head.extend(fact(look, width, "pages", scanned, Style::new()));
        }
    }
    head.push(Line::default());
    if survey.pages.is_empty() {
        let words = if survey.exit_status == 2 {
            "no damaged page was found, but not everything could be looked at"
        } else {
            "no damaged page"
        };
        head.push(Line::styled(words, if survey.exit_status == 2 { look.doubt() } else { look.good() }));
    } else {
        head.extend(counts(look, width, survey));
        head.push(Line::styled(row(look, width, " ", &heading(survey.pages.len())), look.heading()));
    }
    let line = move |at: usize| page_line(state, survey, at);
    let mut body = Body::list(head, survey.pages.len(), state.triage.selected, line);
    body.foot = findings(look, width, survey, state.body_rows() / 7);
    body
}

/// Counts by verdict, as bars with numbers.
fn counts(look: Look, width: usize, survey: &Survey) -> Vec<Line<'static>> {
    let all = survey.pages.len();
    let room = width.saturating_sub(VERDICT + 8 + 34).min(60);
    let of = |verdict: Verdict| survey.pages.iter().filter(|page| page.verdict == verdict).count();
    let shown = Verdict::ALL.into_iter().map(|verdict| (verdict, of(verdict))).filter(|(_, count)| *count > 0);
    let lines = shown.map(|(verdict, count)| {
        Line::from(vec![
            Span::styled(look.fit(verdict.name(), VERDICT + 1), style_of(look, verdict)),
            Span::raw(format!("{count:>6} ")),
            Span::styled(look.bar(count as f64 / all as f64, room), style_of(look, verdict)),
            Span::styled(format!(" {}", meaning(verdict)), look.faint()),
        ])
    });
    lines.collect()
}

/// A verdict in a few words.
pub(super) const fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Restore => "an image loses nothing",
        Verdict::RestoreUnproven => "an image; proof has a gap",
        Verdict::LosesChanges => "images lack changes",
        Verdict::NoImage => "nothing to put back",
        Verdict::HealsInReplay => "recovery overwrites it",
        Verdict::Leave => "better left alone",
    }
}

/// How a verdict is painted.
pub(super) fn style_of(look: Look, verdict: Verdict) -> Style {
    match verdict {
        Verdict::Restore | Verdict::HealsInReplay => look.good(),
        Verdict::RestoreUnproven => look.doubt(),
        Verdict::LosesChanges | Verdict::NoImage => look.bad(),
        Verdict::Leave => look.faint(),
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
    let Some(page) = survey.pages.get(at) else { return Line::default() };
    let is_selected = at == state.triage.selected;
    let mark = if state.plan.marks.contains(&page.page) { "*" } else { " " };
    let lead = format!("{}{mark}", if is_selected { look.pointer() } else { " " });
    let PageLine { relation, block, disk, strength, tear, verdict, image, .. } = page;
    let cells = [
        relation.clone(),
        block.clone(),
        (*disk).to_owned(),
        (*strength).to_owned(),
        tear.clone(),
        verdict.name().to_owned(),
        image.clone(),
    ];
    highlight(look, is_selected, Line::styled(row(look, state.columns(), &lead, &cells), style_of(look, *verdict)))
}

/// Problems first, then what was not looked at, then notes, as many as there is room for.
fn findings(look: Look, width: usize, survey: &Survey, rows: usize) -> Vec<Line<'static>> {
    let problems = survey.findings.iter().filter(|(is_problem, _)| *is_problem);
    let notes = survey.findings.iter().filter(|(is_problem, _)| !*is_problem);
    let skipped = survey.skipped.iter();
    let mut all: Vec<(Style, String)> = Vec::new();
    all.extend(problems.map(|(_, words)| (look.bad(), format!("problem  {words}"))));
    all.extend(skipped.map(|words| (look.doubt(), format!("skipped  {words}"))));
    all.extend(notes.map(|(_, words)| (look.faint(), format!("note     {words}"))));
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
