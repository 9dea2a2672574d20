//! Full-page images in WAL: their share by checkpoint interval, and of what and why.

use ratatui::text::{Line, Span};

use super::{Body, columns, highlight, progress_line};
use crate::analysis::wal::tally::Tally;
use crate::output::figures::{percent, size};
use crate::output::json::time_text;
use crate::tui::facts::WalSurvey;
use crate::tui::look::Look;
use crate::tui::state::State;

/// Relations and causes that are named.
const MAX_NAMED: usize = 5;

/// Width from which on names have a bar after them.
const WIDE: usize = 50;

/// The same on a high screen.
const MAX_NAMED_HIGH: usize = 12;

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let width = state.columns();
    let Some(wal) = state.wal.survey.as_deref() else {
        let mut lines = vec![Line::default()];
        match (&state.wal.error, &state.wal.progress) {
            (Some(why), _) => {
                lines.push(Line::styled("WAL cannot be read:", look.bad()));
                lines.extend(look.wrap(why, width).into_iter().map(Line::raw));
            }
            (None, Some(progress)) => lines.push(progress_line(look, progress, width)),
            (None, None) => lines.push(Line::raw("WAL is being opened")),
        }
        return Body::text(lines, Vec::new(), 0);
    };
    let total = &wal.total;
    let words = format!(
        "{} records, {} full-page images: {} of {} bytes of records ({}%), {} before compression and hole removal",
        total.records,
        total.fpi_count,
        size(total.fpi_bytes),
        size(total.combined_bytes()),
        percent(total.fpi_share()),
        size(total.fpi_raw_bytes)
    );
    let mut head: Vec<Line<'static>> = look.wrap(&words, width).into_iter().map(Line::raw).collect();
    for note in notes(wal).iter().take(2) {
        head.push(Line::styled(look.cut(note, width), look.doubt()));
    }
    head.push(Line::default());
    let heading = format!(
        "  {:>11} {:<9}{:>7} {:>8} {:>6}  {} decay",
        "redo point",
        "time",
        "WAL",
        "images",
        "%",
        look.fit("share of images", bar_room(width))
    );
    head.push(Line::styled(look.cut(&heading, width), look.heading()));
    let mut body = Body::list(head, wal.intervals.len(), state.wal.selected, move |at| interval_line(state, wal, at));
    body.foot = foot(state, wal);
    body
}

/// What is to be said of WAL besides its counts: problems first, then what was not examined.
#[must_use]
pub fn notes(wal: &WalSurvey) -> Vec<String> {
    let problems = wal.problems.iter().map(|finding| format!("problem: {}; {}", finding.kind, finding.kind.why()));
    let skipped = wal.skipped.iter().map(|skipped| format!("not examined: {skipped}"));
    problems.chain(skipped).collect()
}

/// Columns of the bars.
fn bar_room(width: usize) -> usize {
    width.saturating_sub(52 + 10).min(60)
}

fn interval_line(state: &State, wal: &WalSurvey, at: usize) -> Line<'static> {
    let look = state.look;
    let Some(interval) = wal.intervals.get(at) else { return Line::default() };
    let is_selected = at == state.wal.selected;
    let redo = interval.redo_lsn.map_or_else(|| format!("<{}", interval.start_lsn), |lsn| lsn.to_string());
    let time = interval.checkpoint.map(|seen| time_text(seen.time_s));
    let time = time.as_deref().and_then(|time| time.get(11..19)).unwrap_or("-").to_owned();
    let bytes = interval.end_lsn.bytes_since(interval.start_lsn).unwrap_or(0);
    let share = interval.tally.fpi_share();
    let text = format!(
        "{} {redo:>11} {time:<9}{:>7} {:>8} {:>6}  ",
        if is_selected { look.pointer() } else { " " },
        size(bytes),
        interval.tally.fpi_count,
        percent(share)
    );
    let decay: String = interval.decay().iter().map(|share| look.level(*share)).collect();
    let room = bar_room(state.columns());
    let line = Line::from(vec![
        Span::raw(text),
        Span::styled(look.bar(share, room), look.doubt()),
        Span::raw(format!(" {decay}")),
    ]);
    highlight(look, is_selected, line)
}

/// Decay inside the selected interval, then relations and causes.
fn foot(state: &State, wal: &WalSurvey) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.columns();
    let mut lines = vec![Line::default()];
    if let Some(interval) = wal.intervals.get(state.wal.selected) {
        let parts: Vec<String> = interval
            .decay()
            .iter()
            .map(|share| {
                share
                    .map_or_else(|| "-".to_owned(), |share| format!("{}{:.0}%", look.level(Some(share)), share * 100.0))
            })
            .collect();
        let words = format!("decay of the selected interval: {}", parts.join(" "));
        lines.push(Line::raw(look.cut(&words, width)));
        let words =
            format!("{} distinct blocks; kind of checkpoint: {}", interval.distinct_blocks, interval.kind.name());
        lines.push(Line::raw(look.cut(&words, width)));
    }
    let most = if state.body_rows() > 30 { MAX_NAMED_HIGH } else { MAX_NAMED };
    let half = width / 2;
    let all = wal.total.fpi_bytes.max(1) as f64;
    let left =
        named(look, "relations with most image bytes", wal.relations.as_deref(), half.saturating_sub(2), most, all);
    let right = named(look, "why images were written", wal.causes.as_deref(), half, most, all);
    for at in 0..left.len().max(right.len()) {
        let cell = |column: &[String], width: usize| look.fit(column.get(at).map_or("", String::as_str), width);
        let text = format!("{}  {}", cell(&left, half.saturating_sub(2)), cell(&right, half));
        lines.push(if at == 0 { Line::styled(text, look.heading()) } else { Line::raw(text) });
    }
    lines
}

fn named(
    look: Look,
    title: &str,
    rows: Option<&[(String, Tally)]>,
    width: usize,
    most: usize,
    all: f64,
) -> Vec<String> {
    let mut lines = vec![title.to_owned()];
    let Some(rows) = rows else {
        lines.push("being counted".to_owned());
        return lines;
    };
    for (name, tally) in rows.iter().filter(|(_, tally)| tally.fpi_bytes > 0).take(most) {
        let share = tally.fpi_bytes as f64 / all;
        let bar = if width >= WIDE { format!(" {}", look.bar(share, 6)) } else { String::new() };
        let figures = format!(" {:>7} {:>5}%{bar}", size(tally.fpi_bytes), percent(share));
        lines.push(format!("{}{figures}", look.fit_end(name, width.saturating_sub(columns(&figures) + 1))));
    }
    lines
}
