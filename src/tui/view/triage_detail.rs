//! All about the selected row of the damage map: a page with its proof, or a relation with what is damaged of it.

use super::damage_map::style_of;
use super::page::evidence;
use super::{Line, Look, Span, State, Style, Survey, columns, fact};
use crate::analysis::verdict::evidence::Weight;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::next_step::{NamedRelation, NextStep, Owner};
use crate::analysis::verdict::survey::PageReport;
use crate::output::check_text::{EvidencePart, evidence_parts, page_title};
use crate::output::figures::size;
use crate::output::sql::most_items;
use crate::tui::checklist::{next_task, tasks};
use crate::tui::damage_map::{Group, GroupKey, verdict_name, with_fork};
use crate::tui::look::pages as page_count;
use crate::types::{ForkNumber, PageId};

/// Runs of damaged blocks that are named one by one.
const MAX_RUNS: usize = 40;

/// Rows from which on there is room for all of the evidence below the list.
const ALL_BELOW: usize = 12;

pub(super) fn whole(state: &State, survey: &Survey, width: usize) -> Vec<Line<'static>> {
    let look = state.look;
    let map = &state.triage.map;
    let at = state.triage.selected;
    match (map.page(at).and_then(|one| survey.damaged(one.page)), map.group(at)) {
        (Some(report), _) => {
            let mut lines = title(look, width, survey, report);
            lines.extend(evidence_parts(report).iter().flat_map(|part| evidence(look, part, width)));
            lines
        }
        (None, Some(group)) => {
            let mut lines = group_lines(state, survey, group, width);
            let worst = map.worst_page(at).and_then(|page| survey.damaged(page));
            lines.extend(worst.into_iter().flat_map(|report| brief(look, width, survey, report)));
            lines
        }
        (None, None) => Vec::new(),
    }
}

/// Below the list, in so many lines.
pub(super) fn below(state: &State, survey: &Survey, rows: usize) -> Vec<Line<'static>> {
    let (look, width) = (state.look, state.columns());
    let one = state.triage.map.page(state.triage.selected).and_then(|one| survey.damaged(one.page));
    let mut lines = match one.filter(|_| rows < ALL_BELOW) {
        Some(report) => brief(look, width, survey, report),
        None => whole(state, survey, width),
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

/// The fate of a page, and the basis of its verdict.
fn brief(look: Look, width: usize, survey: &Survey, report: &PageReport) -> Vec<Line<'static>> {
    let mut lines = title(look, width, survey, report);
    let parts = evidence_parts(report);
    let fact_of = |wanted: &str| {
        parts.iter().find_map(|part| match part {
            EvidencePart::Fact(label, value) if *label == wanted => Some(value.clone()),
            _ => None,
        })
    };
    let sectors = fact_of("sectors of 512 bytes").zip(fact_of("tear")).map(|(map, tear)| format!("{map}; {tear}"));
    for (label, value) in [("sectors", sectors), ("replay", fact_of("without repair")), ("proof", proof(&parts))] {
        lines.extend(value.into_iter().flat_map(|value| fact(look, width, label, &value, Style::new())));
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
    let mut lines = look.lines(&name, width, look.heading());
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
            lines.extend(look.lines(&name, width, look.heading()));
            let file = survey.examined.path_of(PageId { block: 0, ..*first });
            let total = survey.examined.blocks.get(&(rel, fork)).copied();
            let bytes = total.map(|blocks| blocks.saturating_mul(survey.examined.block_size as u64));
            let file = bytes.map_or(file.clone(), |bytes| format!("{file}, {}", size(bytes)));
            let blocks = total.map_or_else(String::new, |blocks| format!(" of {blocks} blocks"));
            let subject = survey.damaged_relations.get(&rel);
            let lost = |at: &&usize| map.pages.get(**at).is_some_and(|one| one.verdict.is_none_or(may_lose_rows));
            let lost = group.pages.iter().filter(lost).count();
            let risk = rows_at_risk(subject, fork, lost, survey.examined.block_size);
            let step = step_of(state, survey, subject, &pages);
            let damaged = format!("{}{blocks}: {}", pages.len(), runs(&pages));
            let facts = [
                ("kind", subject.map(kind_words)),
                ("damaged", Some(damaged)),
                ("rows lost", Some(risk)),
                ("step", step),
                ("file", Some(file)),
            ];
            for (label, value) in facts.into_iter().filter_map(|(label, value)| Some((label, value?))) {
                lines.extend(fact(look, width, label, &value, Style::new()));
            }
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
    let keys = "enter: the worst page; right: all of them; m: mark those with a proven image";
    lines.extend(look.lines(keys, width, look.faint()));
    lines
}

/// Rows of a page with this verdict may be gone for good.
const fn may_lose_rows(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::NoImage | Verdict::LosesChanges | Verdict::RestoreUnproven)
}

/// The kind of a relation, and the table that it belongs to.
pub(super) fn kind_words(subject: &NamedRelation) -> String {
    let (kind, table) = match &subject.owner {
        Owner::Table => ("table".to_owned(), None),
        Owner::Toast { table } => ("TOAST table".to_owned(), table.as_deref()),
        Owner::MaterializedView => ("materialized view".to_owned(), None),
        Owner::Sequence => ("sequence".to_owned(), None),
        Owner::Index { method, table } => (format!("{} index", method.unwrap_or("other")), table.as_deref()),
        Owner::Unknown => ("unknown: the catalogs do not say".to_owned(), None),
    };
    let catalog = if subject.is_catalog { ", system catalog" } else { "" };
    table.map_or_else(|| format!("{kind}{catalog}"), |table| format!("{kind} of {table}{catalog}"))
}

/// Rows that may be lost with `lost` pages.
fn rows_at_risk(subject: Option<&NamedRelation>, fork: ForkNumber, lost: usize, block_size: usize) -> String {
    match subject.map(|subject| &subject.owner) {
        _ if fork != ForkNumber::Main => "none: this fork holds no rows".to_owned(),
        Some(Owner::Index { .. }) => "none: REINDEX makes the index from its table".to_owned(),
        Some(Owner::MaterializedView) => "none: REFRESH makes the view again".to_owned(),
        _ if lost == 0 => "none by this damage, if the repair or replay succeeds".to_owned(),
        Some(Owner::Sequence) => "the last value of the sequence".to_owned(),
        _ => format!("those of {}, at most {}", page_count(lost), lost * most_items(block_size)),
    }
}

/// The first step that is about these pages, as numbered in the checklist.
fn step_of(state: &State, survey: &Survey, subject: Option<&NamedRelation>, pages: &[PageId]) -> Option<String> {
    let is_writable =
        |page: &PageId| survey.damaged(*page).is_some_and(|report| report.verdict.verdict == Verdict::Restore);
    let is_about = |step: &&NextStep| match step {
        NextStep::Repair { .. } => pages.iter().any(is_writable),
        NextStep::Decide { pages: others } | NextStep::RebuildDoubtful { pages: others } => {
            others.iter().any(|page| pages.contains(page))
        }
        NextStep::Rebuild { relations, .. } | NextStep::Salvage { relations, .. } => {
            relations.iter().any(|one| Some(&one.subject) == subject)
        }
        _ => false,
    };
    let at = survey.steps.iter().position(|step| is_about(&step))?;
    let all = tasks(state);
    let at = state.checklist.past.len() + at;
    // The next step is above.
    let is_next = next_task(state).is_some_and(|(next, _)| next == at);
    let sentence = all.get(at).filter(|_| !is_next).map_or_else(String::new, |task| format!(": {}", task.sentence));
    Some(format!("{} of {} (N){sentence}", at + 1, all.len()))
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
