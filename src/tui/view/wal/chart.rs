//! WAL over time, or by address where records tell no times: bytes and images, checkpoints, damage, the window.

use super::{Line, Look, Span, State, Style, clock, columns, joined};
use crate::analysis::wal::interval::{Interval, IntervalKind};
use crate::analysis::wal::tally::Tally;
use crate::inspect::wal::rules::DAMAGE;
use crate::output::figures::size;
use crate::parsers::wal::payload::PgTimestamp;
use crate::report::Finding;
use crate::tui::facts::WalSurvey;
use crate::tui::look::Colours;
use crate::tui::state::Scale;
use crate::types::Lsn;

/// Shortest time that is drawn as such.
const MIN_TIME_US: i64 = 2_000_000;

struct Piece {
    start_lsn: Lsn,
    end_lsn: Lsn,
    times: Option<(PgTimestamp, PgTimestamp)>,
    bytes: u64,
    image_bytes: u64,
}

enum Axis {
    Time(PgTimestamp, i64),
    Addresses(Lsn, u64),
}

/// Everything that is drawn, with where it lies.
struct Chart {
    pieces: Vec<Piece>,
    axis: Axis,
    is_all: bool,
}

/// Columns left of the chart, for its axis.
const GUTTER: usize = 10;

/// The chart in so many rows, the marks below it, the window, and what the axis and the colours stand for.
pub(super) fn lines(state: &State, wal: &WalSurvey, rows: usize) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.columns().saturating_sub(GUTTER + 1);
    let Some(chart) = Chart::of(state, wal) else { return Vec::new() };
    let columns = chart.columns(width);
    let heights = Heights::of(&chart, &columns, state.wal.scale);
    let mut lines: Vec<Line<'static>> = (0..rows)
        .map(|row| {
            let from_bottom = rows - 1 - row;
            let cells = columns.iter().map(|column| draw_cell(look, heights.cell(*column, rows, from_bottom)));
            let label = Span::styled(look.fit_right(&heights.label(row, rows), GUTTER - 1), look.faint());
            let bar = Span::styled(if look.ascii { "|" } else { "┤" }, look.faint());
            Line::from_iter([label, bar].into_iter().chain(joined(cells)))
        })
        .collect();
    let shifted = |line: Line<'static>| Line::from_iter([Span::raw(" ".repeat(GUTTER))].into_iter().chain(line.spans));
    lines.push(shifted(marks(state, wal, &chart, width)));
    lines.push(shifted(window(state, &chart, width)));
    lines.push(legend(state, wal, &chart));
    lines
}

/// Meaning of heights: a rate over time, the share of images by address.
struct Heights {
    /// Bytes of a column that is as high as the chart; `None`: each column is, and shows shares.
    peak: Option<f64>,
    column_s: f64,
    scale: Scale,
}

impl Heights {
    fn of(chart: &Chart, columns: &[(f64, f64)], scale: Scale) -> Self {
        let peak = columns.iter().map(|(bytes, _)| *bytes).fold(0.0, f64::max);
        match chart.axis {
            Axis::Time(_, length) => {
                Self { peak: Some(peak), column_s: length as f64 / 1e6 / columns.len().max(1) as f64, scale }
            }
            Axis::Addresses(..) => Self { peak: None, column_s: 0.0, scale: Scale::Linear },
        }
    }

    /// Eighths of a row that images, and all WAL, fill in this row.
    fn cell(&self, (bytes, images): (f64, f64), rows: usize, from_bottom: usize) -> (usize, usize) {
        let peak = self.peak.unwrap_or(bytes);
        let eighths = |amount: f64| {
            let share = if peak > 0.0 { self.scale.height(amount / peak) } else { 0.0 };
            let all = ((share * (rows * 8) as f64).round() as usize).max(usize::from(amount > 0.0));
            all.saturating_sub(from_bottom * 8).min(8)
        };
        (eighths(images), eighths(bytes))
    }

    /// The label of a row: at the top, in the middle and at the bottom.
    fn label(&self, row: usize, rows: usize) -> String {
        let share = match row {
            0 => 1.0,
            _ if row + 1 == rows => return "0".to_owned(),
            _ if rows > 4 && row == rows / 2 => self.scale.share_at(1.0 - row as f64 / rows as f64),
            _ => return String::new(),
        };
        match self.peak {
            Some(peak) => format!("{}/s", size((peak * share / self.column_s.max(1e-6)) as u64)),
            None => format!("{:.0}%", share * 100.0),
        }
    }
}

/// One character of the chart, filled from below: images, then other WAL.
fn draw_cell(look: Look, (images, all): (usize, usize)) -> (char, Style) {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let has_colour = look.colours != Colours::None;
    let eighths = |count: usize| EIGHTHS.get(count).copied().unwrap_or('█');
    let [image, other] = [look.doubt(), look.heading()];
    let (on, off) = signs(look);
    match (images, all) {
        (_, 0) => (' ', Style::new()),
        _ if look.ascii && (images * 2 >= all) => (on, image),
        _ if look.ascii => (off, other),
        (0, _) if !has_colour => (off, other),
        (0, all) => (eighths(all), other),
        (1..=7, 8) if has_colour => (eighths(images), other.fg.map_or(image, |back| image.bg(back))),
        (images, _) => (eighths(images), image),
    }
}

/// The signs of images and of other WAL in the legend.
const fn signs(look: Look) -> (char, char) {
    match (look.ascii, look.colours) {
        (true, _) => ('#', ':'),
        (false, Colours::None) => ('█', '░'),
        (false, _) => ('█', '█'),
    }
}

impl Chart {
    fn of(state: &State, wal: &WalSurvey) -> Option<Self> {
        let piece = |start_lsn: Lsn, end_lsn: Lsn, times: (Option<PgTimestamp>, Option<PgTimestamp>), tally: &Tally| {
            let (bytes, image_bytes) = (tally.combined_bytes(), tally.fpi_bytes);
            Piece { start_lsn, end_lsn, times: times.0.zip(times.1), bytes, image_bytes }
        };
        let pieces: Vec<Piece> = match &wal.timeline {
            Some(timeline) => {
                let cells = timeline.cells.get(state.wal.zoom.last().cloned().unwrap_or(0..timeline.cells.len()))?;
                let of =
                    cells.iter().map(|one| piece(one.start_lsn, one.end_lsn, (one.from_time, one.to_time), &one.tally));
                of.collect()
            }
            None => {
                let of = wal.intervals.iter();
                of.map(|one| piece(one.start_lsn, one.end_lsn, (one.start_time, one.end_time), &one.tally)).collect()
            }
        };
        let (first, last) = (pieces.first()?, pieces.last()?);
        let start = pieces.iter().find_map(|piece| piece.times).map(|(from, _)| from);
        let end = pieces.iter().rev().find_map(|piece| piece.times).map(|(_, to)| to);
        let axis = match start.zip(end).filter(|_| !state.wal.by_address) {
            Some((start, end)) if end.us_since(start) >= MIN_TIME_US => Axis::Time(start, end.us_since(start)),
            _ => Axis::Addresses(first.start_lsn, last.end_lsn.bytes_since(first.start_lsn)?.max(1)),
        };
        Some(Self { pieces, axis, is_all: state.wal.zoom.is_empty() })
    }

    /// Where a piece begins and ends, 0 to 1.
    fn extent(&self, piece: &Piece) -> (f64, f64) {
        match self.axis {
            Axis::Time(start, length) => {
                let at = |time: PgTimestamp| time.us_since(start) as f64 / length as f64;
                piece.times.map_or((0.0, 0.0), |(from, to)| (at(from), at(to)))
            }
            Axis::Addresses(start, length) => {
                let at = |lsn: Lsn| lsn.bytes_since(start).unwrap_or(0) as f64 / length as f64;
                (at(piece.start_lsn), at(piece.end_lsn))
            }
        }
    }

    /// Where an address lies, 0 to 1.
    fn at(&self, lsn: Lsn) -> f64 {
        let after = self.pieces.partition_point(|piece| piece.start_lsn <= lsn);
        let Some(piece) = self.pieces.get(after.saturating_sub(1)) else { return 0.0 };
        let (from, to) = self.extent(piece);
        let length = piece.end_lsn.bytes_since(piece.start_lsn).unwrap_or(0).max(1) as f64;
        let share = lsn.bytes_since(piece.start_lsn).unwrap_or(0) as f64 / length;
        from + (to - from) * share.min(1.0)
    }

    fn has(&self, lsn: Lsn) -> bool {
        let within = self.pieces.first().zip(self.pieces.last());
        self.is_all || within.is_some_and(|(first, last)| first.start_lsn <= lsn && lsn <= last.end_lsn)
    }

    /// Bytes of records and of their images in each of so many columns.
    fn columns(&self, count: usize) -> Vec<(f64, f64)> {
        let mut columns = vec![(0.0, 0.0); count];
        for piece in &self.pieces {
            let (from, to) = self.extent(piece);
            let (from, to) = (from * count as f64, to * count as f64);
            let at = |column: f64| (column as usize).min(count.saturating_sub(1));
            let (first, last) = (at(from), at(to));
            for (at, column) in columns.iter_mut().enumerate().take(last + 1).skip(first) {
                // Of what lies in several columns, each has as much as it covers.
                let covered = to.min((at + 1) as f64) - from.max(at as f64);
                let share = if first == last { 1.0 } else { covered / (to - from) };
                column.0 += piece.bytes as f64 * share;
                column.1 += piece.image_bytes as f64 * share;
            }
        }
        columns
    }

    fn column(&self, lsn: Lsn, width: usize) -> usize {
        ((self.at(lsn) * width as f64) as usize).min(width.saturating_sub(1))
    }
}

/// Where damage lies that a finding is about.
pub(super) fn damage_at(finding: &Finding) -> Option<Lsn> {
    finding.lsns.filter(|_| finding.is(&DAMAGE)).map(|(at, _)| at)
}

/// Places where WAL is missing between segments.
pub(super) fn gaps(wal: &WalSurvey) -> Vec<Lsn> {
    let Some(timeline) = &wal.timeline else { return Vec::new() };
    let segment = u64::from(wal.names.geometry.wal_segment_size);
    let is_gap = |pair: &[crate::analysis::wal::timeline::TimelineCell]| match pair {
        [before, after] => {
            (after.start_lsn.bytes_since(before.end_lsn).unwrap_or(0) > segment).then_some(before.end_lsn)
        }
        _ => None,
    };
    timeline.cells.windows(2).filter_map(is_gap).collect()
}

fn marks(state: &State, wal: &WalSurvey, chart: &Chart, width: usize) -> Line<'static> {
    let look = state.look;
    let mut row: Vec<(char, Style)> = vec![(if look.ascii { '-' } else { '─' }, look.faint()); width];
    // What matters more comes later and stays.
    let shown = |lsn: &Lsn| chart.has(*lsn);
    for interval in &wal.intervals {
        // A checkpoint runs from its redo point to its record.
        if let Some(seen) = interval.checkpoint.filter(|seen| chart.has(seen.redo_lsn) && chart.has(seen.lsn)) {
            let (first, last) = (chart.column(seen.redo_lsn, width), chart.column(seen.lsn, width));
            for cell in row.iter_mut().take(last + 1).skip(first) {
                *cell = (if look.ascii { '=' } else { '═' }, look.good());
            }
        }
    }
    let mut put = |lsn: Lsn, c: char, style: Style| {
        if let Some(cell) = row.get_mut(chart.column(lsn, width)) {
            *cell = (c, style);
        }
    };
    for interval in &wal.intervals {
        let sign = if interval.kind == IntervalKind::Shutdown { 'S' } else { 'C' };
        if let Some(at) = interval.checkpoint.map(|checkpoint| checkpoint.lsn).filter(shown) {
            put(at, sign, look.good());
        }
    }
    for redo in wal.intervals.iter().filter_map(|interval| interval.redo_lsn).filter(shown) {
        put(redo, '^', look.good());
    }
    for hidden in wal.hidden.iter().map(|hidden| hidden.before).filter(shown) {
        put(hidden, '?', look.doubt());
    }
    for at in wal.problems.iter().filter_map(damage_at).chain(gaps(wal)).filter(shown) {
        put(at, '!', look.bad());
    }
    Line::from_iter(joined(row.into_iter()))
}

fn window(state: &State, chart: &Chart, width: usize) -> Line<'static> {
    let look = state.look;
    let Some((start, end)) = state.wal.window.as_ref().and_then(|window| window.window.range) else {
        return Line::default();
    };
    let (first, last) = (chart.column(start, width), chart.column(end, width));
    let bar = if look.ascii { "=" } else { "━" };
    Line::from(vec![
        Span::raw(" ".repeat(first)),
        Span::styled(bar.repeat(last.saturating_sub(first) + 1), look.number(1)),
    ])
}

/// Where the axis begins and ends, what the colours and marks are, and the scale.
fn legend(state: &State, wal: &WalSurvey, chart: &Chart) -> Line<'static> {
    let (look, width) = (state.look, state.columns().saturating_sub(1));
    let (start, end, scale) = match chart.axis {
        Axis::Time(start, length) => {
            let end = PgTimestamp(start.0.saturating_add(length));
            let scale = format!("{} scale", state.wal.scale.name(look.ascii));
            (clock(start.unix_seconds()), clock(end.unix_seconds()), scale)
        }
        Axis::Addresses(start, length) => {
            (start.to_string(), start.advanced_by(length).to_string(), "share by address".to_owned())
        }
    };
    let has_damage = !gaps(wal).is_empty() || wal.problems.iter().any(|finding| damage_at(finding).is_some());
    let (images, other) = signs(look);
    let plain = look.faint();
    let mut parts = vec![
        (images.to_string(), look.doubt(), " images"),
        (other.to_string(), look.heading(), " other WAL"),
        ("^".to_owned(), look.good(), " redo point"),
        ("C".to_owned(), look.good(), " checkpoint"),
    ];
    let is_shutdown = |interval: &Interval| interval.kind == IntervalKind::Shutdown;
    parts.extend(wal.intervals.iter().any(is_shutdown).then(|| ("S".to_owned(), look.good(), " at shutdown")));
    parts.extend((!wal.hidden.is_empty()).then(|| ("?".to_owned(), look.doubt(), " hidden redo point")));
    parts.extend(has_damage.then(|| ("!".to_owned(), look.bad(), " damage")));
    parts.push((scale, plain, ""));
    let room = width.saturating_sub(GUTTER + start.len() + end.len() + 4);
    let (mut spans, mut used) = (Vec::new(), 0);
    for (sign, style, words) in parts {
        let own = columns(&sign) + words.len() + 2;
        if used + own > room + 2 {
            continue;
        }
        used += own;
        spans.extend([Span::styled(sign, style), Span::styled(format!("{words}  "), plain)]);
    }
    let pad = (room + 2).saturating_sub(used);
    let lead = Span::styled(format!("{}{start}  {}", " ".repeat(GUTTER), " ".repeat(pad / 2)), plain);
    spans.insert(0, lead);
    spans.push(Span::styled(format!("{}{end}", " ".repeat(pad - pad / 2)), plain));
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WAL at one rate is as high everywhere, however many stretches fall on a column.
    #[test]
    fn columns_are_as_high_as_what_they_cover() {
        let piece = |at: u64| Piece {
            start_lsn: Lsn(at * 8192),
            end_lsn: Lsn((at + 1) * 8192),
            times: None,
            bytes: 8000,
            image_bytes: 4000,
        };
        let axis = Axis::Addresses(Lsn(0), 1957 * 8192);
        let chart = Chart { pieces: (0..1957).map(piece).collect(), axis, is_all: true };
        for count in [57, 279, 1957, 5000] {
            let columns = chart.columns(count);
            let each = 1957.0 * 8000.0 / count as f64;
            let is_near =
                |(bytes, images): &(f64, f64)| (bytes / each - 1.0).abs() < 0.01 && (images * 2.0 - bytes).abs() < 1.0;
            assert!(columns.iter().all(is_near), "{count}: {columns:?}");
        }
    }
}
