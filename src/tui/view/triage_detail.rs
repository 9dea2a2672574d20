//! All about the selected row of the damage map: a page with its proof, or a relation with what is damaged of it.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::damage_map::style_of;
use super::fact;
use super::page::evidence;
use crate::analysis::verdict::evidence::Weight;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::survey::PageReport;
use crate::output::check_text::{EvidencePart, evidence_parts, page_title};
use crate::tui::damage_map::{Group, GroupKey, verdict_name, with_fork};
use crate::tui::facts::Survey;
use crate::tui::look::{Look, columns};
use crate::tui::state::State;
use crate::types::PageId;

/// Runs of damaged blocks that are named one by one.
const MAX_RUNS: usize = 40;

/// Rows from which on there is room for all of the evidence below the list.
const ALL_BELOW: usize = 12;

/// All about the selected row in so many columns.
pub(super) fn whole(state: &State, survey: &Survey, width: usize) -> Vec<Line<'static>> {
    let look = state.look;
    let map = &state.triage.map;
    let at = state.triage.selected;
    match (map.page(at).and_then(|one| survey.damaged(one.page)), map.group(at)) {
        (Some(report), _) => {
            let mut lines = title(look, width, survey, report);
            let parts = evidence_parts(report);
            lines.extend(parts.iter().flat_map(|part| evidence(look, part, width)));
            lines
        }
        (None, Some(group)) => group_lines(state, survey, group, width),
        (None, None) => Vec::new(),
    }
}

/// Below the list, in a few lines: the fate of the page, and the basis of its verdict.
pub(super) fn below(state: &State, survey: &Survey, rows: usize) -> Vec<Line<'static>> {
    let (look, width) = (state.look, state.columns());
    let map = &state.triage.map;
    let at = state.triage.selected;
    let mut lines = match (map.page(at).and_then(|one| survey.damaged(one.page)), map.group(at)) {
        (Some(_), _) if rows >= ALL_BELOW => whole(state, survey, width),
        (Some(report), _) => {
            let mut lines = title(look, width, survey, report);
            let parts = evidence_parts(report);
            let fact_of = |wanted: &str| {
                parts.iter().find_map(|part| match part {
                    EvidencePart::Fact(label, value) if *label == wanted => Some(value.clone()),
                    _ => None,
                })
            };
            for (label, value) in [
                (
                    "sectors",
                    fact_of("sectors of 512 bytes").zip(fact_of("tear")).map(|(map, tear)| format!("{map}; {tear}")),
                ),
                ("replay", fact_of("without repair")),
                ("proof", proof(&parts)),
            ] {
                if let Some(value) = value {
                    lines.extend(fact(look, width, label, &value, Style::new()));
                }
            }
            lines
        }
        (None, Some(group)) => group_lines(state, survey, group, width),
        (None, None) => Vec::new(),
    };
    if lines.len() > rows {
        lines.truncate(rows);
        if rows > 3 {
            lines.pop();
            lines.push(Line::styled("enter: more of it", look.faint()));
        }
    }
    lines
}

/// Evidence against the image, else the last evidence for it.
fn proof(parts: &[EvidencePart]) -> Option<String> {
    let of = |wanted: fn(Weight) -> bool| {
        parts.iter().rev().filter_map(move |part| match part {
            EvidencePart::Step(weight, words) if wanted(*weight) => Some(words.clone()),
            _ => None,
        })
    };
    let speaks_against = |weight: Weight| matches!(weight, Weight::Missing | Weight::Loses | Weight::Against);
    let source = parts.iter().find_map(|part| match part {
        EvidencePart::Verdict(_, source) => source.clone(),
        _ => None,
    });
    let image = source.map_or_else(String::new, |source| format!("{source}: "));
    if let Some(against) = of(speaks_against).next() {
        return Some(format!("{image}{against}"));
    }
    let last = of(|weight| weight == Weight::Supports).next()?;
    Some(format!("{image}{last}"))
}

/// Which page it is, where it lies, and the verdict.
fn title(look: Look, width: usize, survey: &Survey, report: &PageReport) -> Vec<Line<'static>> {
    let page = report.page;
    let verdict = report.verdict.verdict;
    let name = page_title(&survey.examined.called(page), page);
    let words = format!("{}: {}", verdict.facts().label, verdict.facts().meaning);
    if columns(&look.plain(&name)) + 2 + columns(&words) <= width {
        let name = format!("{}  ", look.plain(&name));
        return vec![Line::from(vec![Span::styled(name, look.heading()), Span::styled(words, look.verdict(verdict))])];
    }
    let mut lines: Vec<Line<'static>> =
        look.wrap(&name, width).into_iter().map(|words| Line::styled(words, look.heading())).collect();
    lines.push(Line::styled(look.cut(&words, width), look.verdict(verdict)));
    lines
}

fn group_lines(state: &State, survey: &Survey, group: &Group, width: usize) -> Vec<Line<'static>> {
    let look = state.look;
    let map = &state.triage.map;
    let pages: Vec<PageId> = group.pages.iter().filter_map(|at| map.pages.get(*at)).map(|one| one.page).collect();
    let Some(first) = pages.first() else { return Vec::new() };
    let mut lines = Vec::new();
    match group.key {
        GroupKey::Relation(rel, fork) => {
            let name = with_fork(&survey.relation(rel), fork);
            lines.extend(look.wrap(&name, width).into_iter().map(|words| Line::styled(words, look.heading())));
            let file = survey.examined.path_of(PageId { block: 0, ..*first });
            lines.extend(fact(look, width, "file", &file, Style::new()));
            let blocks =
                survey.blocks.get(&(rel, fork)).map_or_else(String::new, |blocks| format!(" of {blocks} blocks"));
            let damaged = format!("{}{blocks}: {}", pages.len(), runs(&pages));
            lines.extend(fact(look, width, "damaged", &damaged, Style::new()));
        }
        GroupKey::Verdict(verdict) => {
            lines.push(Line::styled(verdict_name(verdict), style_of(look, verdict)));
            let meant = verdict.map_or("not judged yet", |verdict| verdict.facts().meaning);
            lines.extend(fact(look, width, "means", meant, Style::new()));
        }
    }
    let of = |wanted: Verdict| {
        group.pages.iter().filter_map(|at| map.pages.get(*at)).filter(|one| one.verdict == Some(wanted)).count()
    };
    for verdict in Verdict::ALL {
        if let count @ 1.. = of(verdict) {
            let words = format!("{count} {}: {}", verdict.facts().label, verdict.facts().meaning);
            lines.extend(fact(look, width, "", &words, look.verdict(verdict)));
        }
    }
    let keys = look.wrap("enter: its pages, one by one; m: mark those with a proven image", width);
    lines.extend(keys.into_iter().map(|words| Line::styled(words, look.faint())));
    lines
}

/// Blocks, runs of neighbours as one: `4, 7-9`.
fn runs(pages: &[PageId]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((_, last)) if page.block == last.saturating_add(1) => *last = page.block,
            _ => runs.push((page.block, page.block)),
        }
    }
    let one = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let named: Vec<String> = runs.iter().take(MAX_RUNS).map(one).collect();
    let more = if runs.len() > MAX_RUNS { " and more" } else { "" };
    format!("{}{more}", named.join(", "))
}
