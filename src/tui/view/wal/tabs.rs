//! The tabs of `pg_walfpi`: relations and causes of the window, and what other settings would have saved.

use super::{Body, Line, Span, State, Style, View, breadcrumb, columns, window};
use crate::analysis::wal::group_key::GroupBy;
use crate::output::closing::Closing;
use crate::output::colour::Paint;
use crate::output::figures::{percent, size};
use crate::output::json::time_text;
use crate::output::relation_columns::{kind_words, likely_cause_words};
use crate::output::text::Layout;
use crate::output::wal_text::write_kept;
use crate::tui::export::text_of;
use crate::tui::facts::{WalSurvey, WindowSheet};

/// Columns of the figures of a row.
const FIGURES: usize = 46;

/// Relations, causes or savings; `None` while they are counted.
pub(super) fn body<'a>(state: &'a State, wal: &'a WalSurvey) -> Option<Body<'a>> {
    if state.view == View::Wal {
        return None;
    }
    let (look, width) = (state.look, state.columns());
    if state.view == View::WhatIf {
        return Some(Body::text(Vec::new(), window::savings(look, wal, width), state.wal.top));
    }
    if state.view == View::Kept {
        let text = kept_text(wal, Layout { width: state.size.0, paint: Paint::new(false) });
        let lines = text.lines().map(|line| Line::raw(look.plain(line))).collect();
        return Some(Body::text(Vec::new(), lines, state.wal.top));
    }
    let Some(sheet) = state.wal.window.as_deref() else {
        return Some(Body::text(vec![Line::raw("relations and causes: being counted")], Vec::new(), 0));
    };
    let mut head = window::title(look, wal, sheet, width, "window");
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
    body.foot = likely(state, wal, sheet, selected);
    Some(body)
}

/// The likely cause of the images of the selected relation, and how many relations are not listed.
fn likely(state: &State, wal: &WalSurvey, sheet: &WindowSheet, selected: usize) -> Vec<Line<'static>> {
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
