//! The rows of the damage map: a relation with its blocks as a strip, a verdict with its share, a page with its image.

use super::{Line, Look, Modifier, Span, State, Style, joined};
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::survey::PageReport;
use crate::output::check_text::{block_label, image_words, tear_words};
use crate::tui::damage_map::{Group, GroupKey, Grouping, MapPage, Row, StripCell, strip_of, verdict_name, with_fork};
use crate::types::{ForkNumber, RelFileLocator};

const VERDICT: usize = 17;

/// Columns of the block, or of the number of pages.
const BLOCK: usize = 10;

/// Least columns of a name, and of the strip.
const LEAST: (usize, usize) = (26, 12);

/// Most columns of a strip.
pub(in crate::tui) const STRIP: usize = 64;

/// Columns of a row other than those of name and strip.
pub(in crate::tui) const FIXED: usize = 3 + 1 + BLOCK + 1 + VERDICT + 1;

const IMAGE: usize = 48;

/// Columns from which on the verdict is written out.
const WIDE: usize = 72;

struct Widths {
    name: usize,
    verdict: usize,
    rest: usize,
}

fn widths(state: &State) -> Widths {
    let width = state.list_columns();
    let verdict = if width >= WIDE { VERDICT + 1 } else { 0 };
    // An image with its LSN takes more room than a strip has to have.
    let is_single = state.triage.order.grouping == Grouping::Block && width >= WIDE;
    let least = if is_single { IMAGE.min(width / 4) } else { LEAST.1 };
    let room = width.saturating_sub(3 + 1 + BLOCK + 1 + verdict + least);
    let name = state.triage.map.name_columns.max(LEAST.0).min(room);
    // What a strip does not need goes to the names.
    let most = if verdict > 0 { STRIP } else { LEAST.1 };
    let name = if is_single { name } else { name.max(room.saturating_sub(most - LEAST.1)) };
    Widths { name, verdict, rest: width.saturating_sub(3 + name + 1 + BLOCK + 1 + verdict) }
}

/// Style of a verdict; a missing one is doubtful.
pub(super) fn style_of(look: Look, verdict: Option<Verdict>) -> Style {
    verdict.map_or(look.doubt(), |verdict| look.verdict(verdict))
}

/// Style of the letter of a cell; on its colour where most of the blocks are damaged.
pub(super) fn cell_style(look: Look, letter: char, worst: Option<Verdict>) -> Style {
    let style = style_of(look, worst).add_modifier(Modifier::BOLD);
    if letter.is_ascii_uppercase() { style.add_modifier(Modifier::REVERSED) } else { style }
}

/// The line above the rows: how many pages are listed, and what they are gathered by.
pub(super) fn heading(state: &State) -> Line<'static> {
    let look = state.look;
    let map = &state.triage.map;
    let widths = widths(state);
    let listed = map.pages.len();
    let count =
        if listed == map.total { format!("{listed} damaged") } else { format!("{listed} of {} match", map.total) };
    let turned = if state.triage.order.is_reversed { "-" } else { "+" };
    let grouping = state.triage.order.grouping;
    let by = format!("{count}, by {}{turned}", grouping.name());
    let last = match grouping {
        Grouping::Relation if widths.rest < 26 => "its blocks",
        Grouping::Relation if widths.rest < 60 => "its blocks, first to last",
        Grouping::Relation => "its blocks, first to last; small letter: less than half damaged",
        Grouping::Verdict => "share",
        Grouping::Block => "image",
    };
    let block = if grouping == Grouping::Verdict { "pages" } else { "block" };
    let verdict = if widths.verdict > 0 { look.fit("verdict", widths.verdict) } else { String::new() };
    let text = format!(
        "   {} {} {verdict}{}",
        look.fit(&by, widths.name),
        look.fit_right(block, BLOCK),
        look.cut(last, widths.rest)
    );
    Line::styled(text, look.heading())
}

pub(super) fn row_line(state: &State, at: usize) -> Line<'static> {
    let map = &state.triage.map;
    match map.rows.get(at) {
        Some(Row::Group(index)) => map.groups.get(*index).map(|group| group_line(state, group)).unwrap_or_default(),
        Some(Row::Page(index)) => map.pages.get(*index).map(|one| page_line(state, *one)).unwrap_or_default(),
        None => Line::default(),
    }
}

fn called(state: &State, rel: RelFileLocator, fork: ForkNumber) -> String {
    let name = state.survey().map_or_else(|| state.triage.called(rel), |survey| survey.relation(rel));
    with_fork(&name, fork)
}

fn group_line(state: &State, group: &Group) -> Line<'static> {
    let look = state.look;
    let map = &state.triage.map;
    let widths = widths(state);
    let count = group.pages.len();
    let is_open = state.triage.order.opened.contains(&group.key);
    let sign = match (group.is_page(), is_open) {
        (true, _) => " ",
        (false, true) => "-",
        (false, false) => "+",
    };
    // A group whose pages are all marked; what is not proven of it shows.
    let mut signs = group.pages.iter().filter_map(|at| map.pages.get(*at)).map(|one| state.mark_sign(one.page));
    let marked = if signs.clone().any(|sign| sign == "?") { "?" } else { "*" };
    let sign = if signs.any(|sign| sign == " ") { sign } else { marked };
    let style = style_of(look, group.worst);
    let block = match (group.pages.first().and_then(|at| map.pages.get(*at)), group.is_page()) {
        (Some(one), true) => one.page.block.to_string(),
        _ if matches!(group.key, GroupKey::Verdict(_)) => count.to_string(),
        _ => format!("{count} pages"),
    };
    let name = match group.key {
        GroupKey::Relation(rel, fork) => called(state, rel, fork),
        GroupKey::Verdict(Some(verdict)) if widths.verdict > 0 => verdict.facts().meaning.to_owned(),
        GroupKey::Verdict(verdict) => verdict_name(verdict).to_owned(),
    };
    let mut spans = vec![
        Span::raw(format!("{sign} ")),
        Span::styled(look.fit_name(&name, widths.name), style),
        Span::raw(format!(" {} ", look.fit_right(&block, BLOCK))),
    ];
    if widths.verdict > 0 {
        spans.push(Span::styled(look.fit(verdict_name(group.worst), widths.verdict), style));
    }
    match group.key {
        GroupKey::Relation(rel, fork) => spans.extend(strip_spans(state, group, rel, fork, widths.rest)),
        GroupKey::Verdict(_) => {
            let share = count as f64 / map.pages.len().max(1) as f64;
            spans.push(Span::styled(look.bar(share, widths.rest.min(60)), style));
        }
    }
    Line::from(spans)
}

/// The blocks of a fork from the first to the last, a letter where damage lies.
fn strip_spans(
    state: &State,
    group: &Group,
    rel: RelFileLocator,
    fork: ForkNumber,
    width: usize,
) -> Vec<Span<'static>> {
    let look = state.look;
    let map = &state.triage.map;
    let last = group.pages.last().and_then(|at| map.pages.get(*at)).map_or(0, |one| u64::from(one.page.block) + 1);
    let known = match state.survey() {
        Some(survey) => survey.examined.blocks.get(&(rel, fork)).copied(),
        None => {
            group.pages.first().and_then(|at| state.triage.found.get(&map.pages.get(*at)?.page)).map(|one| one.blocks)
        }
    };
    let blocks = known.unwrap_or(0).max(last);
    let cells = usize::try_from(blocks).unwrap_or(usize::MAX).min(width);
    let drawn = |cell: StripCell| match cell.letter().zip(cell.worst) {
        Some((letter, verdict)) => (letter, cell_style(look, letter, verdict)),
        None => (look.dot(), look.faint()),
    };
    let pages = group.pages.iter().filter_map(|at| map.pages.get(*at)).copied();
    joined(strip_of(pages, blocks, cells).into_iter().map(drawn))
}

fn page_line(state: &State, one: MapPage) -> Line<'static> {
    let look = state.look;
    let widths = widths(state);
    let report = state.survey().and_then(|survey| survey.damaged(one.page));
    let style = style_of(look, one.verdict);
    let is_below = state.triage.order.grouping == Grouping::Relation;
    let tear = report.map_or_else(String::new, tear_of);
    let name = if is_below { format!("  {tear}") } else { called(state, one.page.rel, one.page.fork) };
    let image = report.map_or_else(String::new, image_of);
    let rest = if is_below || report.is_none() { image } else { format!("{image}  {tear}") };
    let block = if is_below { one.page.block.to_string() } else { block_label(one.page) };
    let name = if is_below { look.fit(&name, widths.name) } else { look.fit_name(&name, widths.name) };
    let mut spans = vec![
        Span::raw(format!("{} ", state.mark_sign(one.page))),
        Span::styled(name, style),
        Span::raw(format!(" {} ", look.fit_right(&block, BLOCK))),
    ];
    if widths.verdict > 0 {
        spans.push(Span::styled(look.fit(verdict_name(one.verdict), widths.verdict), style));
    }
    spans.push(Span::raw(look.cut(&rest, widths.rest)));
    Line::from(spans)
}

/// `torn head 3584, proven`.
pub(super) fn tear_of(report: &PageReport) -> String {
    let tear = tear_words(report);
    let tear = if tear == "-" { String::new() } else { format!(" {tear}") };
    format!("{}{tear}, {}", report.disk.name(), report.strength.name())
}

fn image_of(report: &PageReport) -> String {
    let chosen = report.verdict.chosen.and_then(|index| report.verdict.candidates.get(index));
    chosen.map_or_else(|| "no image chosen".to_owned(), image_words)
}
