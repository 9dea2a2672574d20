//! Content of a window of WAL: relations, causes, and settings that would have saved images; as tabs of `pg_walfpi`, too.

use super::{Body, Line, Look, Span, State, Style, View, breadcrumb, clock, columns, image_counts, led};
use crate::analysis::plan::savings::NotFigured;
use crate::analysis::wal::group_key::GroupBy;
use crate::analysis::wal::tally::{Certainty, Tally};
use crate::output::advise_text::why;
use crate::output::closing::Closing;
use crate::output::figures::{percent, remedy_words, signed_size, size};
use crate::output::json::time_text;
use crate::output::relation_columns::{kind_words, likely_cause_words};
use crate::output::text::{Layout, Paint};
use crate::output::wal_text::write_kept;
use crate::output::words::cluster::ForSameWork;
use crate::tui::export::text_of;
use crate::tui::facts::{WalSurvey, WindowSheet};

/// Columns of the figures of a row.
const FIGURES: usize = 46;

/// Width from which on relations and causes stand side by side.
const SIDE_BY_SIDE: usize = 76;

/// Width from which on names have a bar after them.
const WITH_BARS: usize = 50;

/// Where the window lies, in one line, and what it holds, in another.
pub(super) fn title(look: Look, wal: &WalSurvey, sheet: &WindowSheet, width: usize, name: &str) -> Vec<Line<'static>> {
    let window = &sheet.window;
    let Some((start, end)) = window.range else { return vec![Line::raw(format!("{name}: no record"))] };
    let times = match window.times.map(|(from, to)| (clock(from.unix_seconds()), clock(to.unix_seconds()))) {
        Some((from, to)) if from != to => format!(", {from} to {to}"),
        Some((from, _)) => format!(", {from}"),
        None => String::new(),
    };
    let counts = format!("{}, {}", image_counts(&window.tally, ["images,", ""]), wal.certainty());
    let place = format!("{name}: {start} to {end}{times}");
    vec![Line::styled(look.cut(&place, width), look.heading()), Line::raw(look.cut(&counts, width))]
}

/// Relations or causes with their share of the image bytes, below a title.
fn share_lines(look: Look, sheet: &WindowSheet, by: GroupBy, (width, most): (usize, usize)) -> Vec<String> {
    let all = sheet.window.tally.fpi_bytes.max(1) as f64;
    let line = |(name, tally): (&str, &Tally)| {
        let share = tally.fpi_bytes as f64 / all;
        let bar = if width >= WITH_BARS { format!(" {}", look.bar(share, 6)) } else { String::new() };
        let figures = format!(" {:>7} {:>5}%{bar}", size(tally.fpi_bytes), percent(share));
        format!("{}{figures}", look.fit_end(name, width.saturating_sub(columns(&figures) + 1)))
    };
    let title = if by == GroupBy::Cause { "why images were written" } else { "relations with most image bytes" };
    let rows = sheet.rows(by).into_iter().filter(|(_, tally)| tally.fpi_bytes > 0);
    std::iter::once(title.to_owned()).chain(rows.take(most).map(line)).collect()
}

/// All of it below a list: relations and causes side by side, then likely causes where there is room.
pub(super) fn foot(
    look: Look,
    wal: &WalSurvey,
    sheet: &WindowSheet,
    (width, most): (usize, usize),
    name: &str,
) -> Vec<Line<'static>> {
    let mut lines = title(look, wal, sheet, width, name);
    if width < SIDE_BY_SIDE {
        lines.extend(headed(look, share_lines(look, sheet, GroupBy::Relation, (width, most))));
        lines.extend(headed(look, share_lines(look, sheet, GroupBy::Cause, (width, most))));
    } else {
        let half = width / 2;
        let left = share_lines(look, sheet, GroupBy::Relation, (half.saturating_sub(2), most));
        let right = share_lines(look, sheet, GroupBy::Cause, (half, most));
        let rows = (0..left.len().max(right.len())).map(|at| {
            let cell = |column: &[String], width: usize| look.fit(column.get(at).map_or("", String::as_str), width);
            format!("{}  {}", cell(&left, half.saturating_sub(2)), cell(&right, half))
        });
        lines.extend(headed(look, rows.collect()));
    }
    lines.extend(likely(look, sheet, width));
    lines
}

/// The figures of the window, its first relation and its first cause, where there is room for no more.
pub(super) fn brief(look: Look, wal: &WalSurvey, sheet: &WindowSheet, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = title(look, wal, sheet, width, "window").into_iter().skip(1).collect();
    let firsts =
        [share_lines(look, sheet, GroupBy::Relation, (width, 1)), share_lines(look, sheet, GroupBy::Cause, (width, 1))];
    lines.extend(firsts.into_iter().flat_map(|lines| lines.into_iter().skip(1)).map(Line::raw));
    lines
}

pub(super) fn detail(
    look: Look,
    wal: &WalSurvey,
    sheet: &WindowSheet,
    (width, rows): (usize, usize),
    name: &str,
) -> Vec<Line<'static>> {
    let most = (rows / 4).max(3);
    let mut lines = title(look, wal, sheet, width, name);
    lines.push(Line::default());
    lines.extend(headed(look, share_lines(look, sheet, GroupBy::Relation, (width, most))));
    lines.push(Line::default());
    lines.extend(headed(look, share_lines(look, sheet, GroupBy::Cause, (width, most))));
    lines.push(Line::default());
    lines.extend(likely(look, sheet, width));
    lines
}

fn headed(look: Look, lines: Vec<String>) -> Vec<Line<'static>> {
    let style = |at: usize| if at == 0 { look.heading() } else { Style::new() };
    lines.into_iter().enumerate().map(|(at, line)| Line::styled(line, style(at))).collect()
}

fn likely(look: Look, sheet: &WindowSheet, width: usize) -> Vec<Line<'static>> {
    const MAX_LIKELY: usize = 4;
    let rows = sheet.window.relations.iter().zip(&sheet.relations);
    let told = rows.filter_map(|(row, name)| {
        let cause = row.likely_cause?;
        Some(format!("  {name} ({}): {}", kind_words(row.kind), likely_cause_words(&cause)))
    });
    let mut lines: Vec<_> = told.take(MAX_LIKELY).flat_map(|words| look.lines(&words, width, Style::new())).collect();
    if !lines.is_empty() {
        lines.insert(0, Line::styled(format!("likely cause ({})", Certainty::Estimate), look.heading()));
    }
    lines
}

pub(super) fn savings(look: Look, wal: &WalSurvey, width: usize) -> Vec<Line<'static>> {
    let Some(savings) = &wal.savings else {
        let words = if wal.is_complete { "" } else { "what would have saved images: being replayed" };
        return vec![Line::styled(words, look.faint())];
    };
    let mut lines =
        vec![Line::styled(look.cut("what would have saved images, of all this WAL", width), look.heading())];
    let block_size = wal.names.geometry.block_size;
    for saving in &savings.rows {
        let words = format!(
            "{} saves {} ({}): {}",
            remedy_words(&saving.remedy),
            signed_size(saving.image_bytes),
            ForSameWork(saving.certainty),
            why(saving, block_size)
        );
        lines.extend(led(look, Span::raw("- "), &words, width.saturating_sub(2), Style::new()));
    }
    for left_out in &savings.left_out {
        let words = match left_out {
            NotFigured::NoRedoPoint => "checkpoints farther apart: this WAL contains no redo point",
            NotFigured::NotCompressed => "wal_compression: pg_walfpi advise compresses images again",
        };
        lines.push(Line::styled(look.cut(words, width), look.faint()));
    }
    lines
}

/// Relations, causes or savings; `None` while they are counted.
pub(super) fn body<'a>(state: &'a State, wal: &'a WalSurvey) -> Option<Body<'a>> {
    if state.view == View::Wal {
        return None;
    }
    let (look, width) = (state.look, state.columns());
    if state.view == View::WhatIf {
        return Some(Body::text(Vec::new(), savings(look, wal, width), state.wal.top));
    }
    if state.view == View::Kept {
        let text = kept_text(wal, Layout { width: state.size.0, paint: Paint::new(false) });
        let lines = text.lines().map(|line| Line::raw(look.plain(line))).collect();
        return Some(Body::text(Vec::new(), lines, state.wal.top));
    }
    let Some(sheet) = state.wal.window.as_deref() else {
        return Some(Body::text(vec![Line::raw("relations and causes: being counted")], Vec::new(), 0));
    };
    let mut head = title(look, wal, sheet, width, "window");
    head.extend(breadcrumb(state, wal));
    let name = width.saturating_sub(FIGURES + 3);
    let what = if state.view == View::Causes { "why images were written" } else { "relation" };
    let heading = format!("  {} {:>9} {:>8} {:>8} {:>6}  share", look.fit(what, name), "WAL", "images", "bytes", "%");
    head.push(Line::styled(look.cut(&heading, width), look.heading()));
    let by = if state.view == View::Causes { GroupBy::Cause } else { GroupBy::Relation };
    let rows = sheet.rows(by);
    let count = rows.len();
    let selected = state.wal.row.min(count.saturating_sub(1));
    let all = sheet.window.tally.fpi_bytes.max(1) as f64;
    let line = move |at: usize| {
        let Some((called, tally)) = rows.get(at) else { return Line::default() };
        let share = tally.fpi_bytes as f64 / all;
        let text = format!(
            " {} {:>9} {:>8} {:>8} {:>6}  ",
            look.fit_end(called, name),
            size(tally.combined_bytes()),
            tally.fpi_count,
            size(tally.fpi_bytes),
            percent(share)
        );
        let [on, off] = look.meter(share, width.saturating_sub(columns(&text) + 2));
        Line::from(vec![Span::raw(text), Span::styled(on, look.doubt()), Span::styled(off, look.faint())])
    };
    let mut body = Body::rows(look, head, count, selected, line);
    body.foot = likely_of_selected(state, wal, sheet, selected);
    Some(body)
}

/// The likely cause of the images of the selected relation, and how many relations are not listed.
fn likely_of_selected(state: &State, wal: &WalSurvey, sheet: &WindowSheet, selected: usize) -> Vec<Line<'static>> {
    let (look, width) = (state.look, state.columns());
    let mut lines = Vec::new();
    let relation = sheet.window.relations.get(selected).filter(|_| state.view == View::Relations);
    if let Some((relation, cause)) = relation.and_then(|row| Some((row, row.likely_cause?))) {
        let words = format!("likely cause ({}): {}", kind_words(relation.kind), likely_cause_words(&cause));
        lines.extend(look.lines(&words, width, Style::new()));
    }
    if wal.names.lookup.known().is_none() && state.view == View::Relations {
        let words = "numbers, not names: --names DATADIR adds the names that the catalogs of this directory give";
        lines.extend(look.lines(words, width, look.faint()));
    }
    let more = sheet.window.relations.len().saturating_sub(sheet.relations.len());
    if more > 0 && state.view == View::Relations {
        lines.push(Line::styled(format!("{more} more: pg_walfpi stats --by relation lists them"), look.faint()));
    }
    lines
}

/// Output of `kept`.
pub(in crate::tui) fn kept_text(wal: &WalSurvey, layout: Layout) -> String {
    match &wal.kept {
        Some(Ok(report)) => text_of(|out| {
            write_kept(out, layout, &report.wal, report.ready_since_s.map(time_text).as_deref())?;
            Closing::new(report.findings.clone(), &report.coverage).write_text(out, layout)
        }),
        Some(Err(why)) => why.clone(),
        None => String::new(),
    }
}
