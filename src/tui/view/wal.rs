//! WAL: a timeline with a window, checkpoint intervals, what is in the window, and down from there to single records.

mod chart;
mod records;
pub(super) mod window;

use super::{Body, Line, Look, Span, State, Style, View, columns, highlight, joined, led, progress_line};
use crate::analysis::wal::tally::Tally;
use crate::output::figures::{percent, size};
use crate::output::json::time_text;
use crate::tui::facts::WalSurvey;

const SHARE: &str = "share of images";

pub(super) fn body(state: &State) -> Body<'_> {
    let look = state.look;
    let width = state.columns();
    let Some(wal) = state.wal.survey.as_deref() else {
        let mut lines = vec![Line::default()];
        match (&state.wal.error, &state.wal.progress) {
            (Some(why), _) => {
                lines.push(Line::styled("WAL cannot be read:", look.bad()));
                lines.extend(look.lines(why, width, Style::new()));
            }
            (None, Some(progress)) => lines.push(progress_line(look, progress, width)),
            (None, None) => lines.push(Line::raw("WAL is being opened")),
        }
        return Body::text(lines, Vec::new(), 0);
    };
    if let Some(body) = window::body(state, wal) {
        return body;
    }
    if let Some(body) = records::body(state, wal) {
        return body;
    }
    let total = &wal.total;
    let counts = image_counts(total, ["full-page images:", " bytes of records"]);
    let words = format!("{counts}, {} before compression and hole removal", size(total.fpi_raw_bytes));
    let mut head: Vec<Line<'static>> = look.lines(&words, width, Style::new());
    head.extend(note_lines(state, wal));
    head.extend(breadcrumb(state, wal));
    head.extend(chart::lines(state, wal, chart_rows(state.body_rows())));
    let width = state.list_columns();
    let heading = format!(
        "  {:>11} {:<9}{:>7} {:>8} {:>6}  {} to next",
        "redo point",
        "time",
        "WAL",
        "images",
        "%",
        look.fit(if bar_room(width) < columns(SHARE) { "share" } else { SHARE }, bar_room(width))
    );
    head.push(Line::styled(look.cut(&heading, width), look.heading()));
    let mut body =
        Body::rows(look, head, wal.intervals.len(), state.wal.selected, move |at| interval_line(state, wal, at));
    match state.detail_columns() {
        0 => body.foot = foot(state, wal),
        detail => {
            body.detail = match state.wal.window.as_deref() {
                Some(sheet) => {
                    let mut lines = window::detail(look, wal, sheet, (detail, state.body_rows()), "window");
                    lines.push(Line::default());
                    lines.extend(window::savings(look, wal, detail));
                    lines
                }
                None => vec![Line::raw("relations and causes: being counted")],
            };
            body.detail.insert(0, interval_words(state, wal));
        }
    }
    body
}

/// Notes on WAL in addition to its counts: problems first, then skipped parts.
pub fn notes(wal: &WalSurvey) -> Vec<String> {
    let problems = wal.problems.iter().map(|finding| format!("problem: {}; {}", finding, finding.why));
    let skipped = wal.skipped.iter().map(|skipped| format!("not checked: {skipped}"));
    problems.chain(skipped).collect()
}

/// The first notes, whole where there is room for that; how many more there are.
fn note_lines(state: &State, wal: &WalSurvey) -> Vec<Line<'static>> {
    let (look, width) = (state.look, state.columns());
    let room = (state.body_rows() / 4).max(2);
    let all = notes(wal);
    let (mut lines, mut shown): (Vec<String>, usize) = (Vec::new(), 0);
    for note in &all {
        let words = look.wrap(note, width);
        // The first is shown in any case, as far as there is room.
        if shown > 0 && lines.len() + words.len() > room {
            break;
        }
        shown += 1;
        let is_cut = words.len() > room;
        lines.extend(words.into_iter().take(room));
        if is_cut {
            lines.push(format!("{}; e exports all of it", look.ellipsis()));
        }
    }
    if let more @ 1.. = all.len() - shown {
        lines.push(format!("{more} more: e exports them"));
    }
    lines.into_iter().map(|words| Line::styled(words, look.doubt())).collect()
}

/// Records and images, and their share. `words`: what images are called, and what follows the bytes.
fn image_counts(tally: &Tally, [images, of_bytes]: [&str; 2]) -> String {
    let (stored, combined) = (size(tally.fpi_bytes), size(tally.combined_bytes()));
    let share = percent(tally.fpi_share());
    format!("{} records, {} {images} {stored} of {combined}{of_bytes} ({share}%)", tally.records, tally.fpi_count)
}

fn breadcrumb(state: &State, wal: &WalSurvey) -> Option<Line<'static>> {
    let timeline = wal.timeline.as_ref().filter(|_| !state.wal.zoom.is_empty())?;
    let part = |range: &std::ops::Range<usize>| {
        let cells = timeline.cells.get(range.clone())?;
        Some(format!("{} to {}", cells.first()?.start_lsn, cells.last()?.end_lsn))
    };
    let arrow = format!(" {} ", state.look.pointer());
    let parts: Vec<String> = state.wal.zoom.iter().filter_map(part).collect();
    let words = format!("all WAL{arrow}{}   (esc: back)", parts.join(&arrow));
    Some(Line::styled(state.look.cut(&words, state.columns()), state.look.heading()))
}

/// The time of day, `19:29:48`.
fn clock(unix_seconds: i64) -> String {
    time_text(unix_seconds).get(11..19).unwrap_or_default().to_owned()
}

fn bar_room(width: usize) -> usize {
    width.saturating_sub(52 + 10).min(40)
}

fn interval_line(state: &State, wal: &WalSurvey, at: usize) -> Line<'static> {
    let look = state.look;
    let Some(interval) = wal.intervals.get(at) else { return Line::default() };
    let redo = interval.redo_lsn.map_or_else(|| format!("<{}", interval.start_lsn), |lsn| lsn.to_string());
    let time = interval.checkpoint.and_then(|seen| seen.time_s).map_or_else(|| "-".to_owned(), clock);
    let bytes = interval.end_lsn.bytes_since(interval.start_lsn).unwrap_or(0);
    let share = interval.tally.fpi_share();
    let text =
        format!(" {redo:>11} {time:<9}{:>7} {:>8} {:>6}  ", size(bytes), interval.tally.fpi_count, percent(share));
    let level = |share: &Option<f64>| share.map_or(look.dot(), |share| look.level(Some(share)));
    let decay: String = interval.decay().iter().map(level).collect();
    let [on, off] = look.meter(share, bar_room(state.list_columns()));
    Line::from(vec![
        Span::raw(text),
        Span::styled(on, look.doubt()),
        Span::styled(off, look.faint()),
        Span::styled(format!(" {decay}"), look.faint()),
    ])
}

fn foot(state: &State, wal: &WalSurvey) -> Vec<Line<'static>> {
    let Some(sheet) = state.wal.window.as_deref() else {
        return vec![Line::raw("relations and causes: being counted")];
    };
    if state.body_rows() < 16 {
        return window::brief(state.look, wal, sheet, state.columns());
    }
    let most = (state.body_rows() / 5).clamp(3, 10);
    let mut lines = vec![interval_words(state, wal)];
    lines.extend(window::foot(state.look, wal, sheet, (state.columns(), most), "window"));
    lines.extend(window::savings(state.look, wal, state.columns()));
    lines
}

/// Facts about the selected interval in addition to its counts.
fn interval_words(state: &State, wal: &WalSurvey) -> Line<'static> {
    let look = state.look;
    let Some(interval) = wal.intervals.get(state.wal.selected) else { return Line::default() };
    let words =
        format!("interval: {} distinct blocks; kind of checkpoint: {}", interval.distinct_blocks, interval.kind.name());
    Line::raw(look.cut(&words, state.columns()))
}

/// Rows of the chart on a screen with so many rows between tabs and bottom lines.
const fn chart_rows(rows: usize) -> usize {
    match rows {
        0..=15 => 1,
        16..=24 => 3,
        25..=40 => 6,
        _ => 12,
    }
}
