//! WAL over time, or by address where records tell no times: bytes and images, checkpoints, damage, the window.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::inspect::wal::rules::DAMAGE;
use crate::output::figures::size;
use crate::output::json::time_text;
use crate::parsers::wal::payload::PgTimestamp;
use crate::report::Finding;
use crate::tui::facts::WalSurvey;
use crate::tui::look::Look;
use crate::tui::state::State;
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
    /// From this time, so many microseconds.
    Time(PgTimestamp, i64),
    /// From this address, so many bytes.
    Addresses(Lsn, u64),
}

/// Everything that is drawn, with where it lies.
struct Chart {
    pieces: Vec<Piece>,
    axis: Axis,
}

/// The chart in so many rows, the marks below it, and the window.
pub(super) fn lines(state: &State, wal: &WalSurvey, rows: usize) -> Vec<Line<'static>> {
    let look = state.look;
    let width = state.columns().saturating_sub(1);
    let Some(chart) = Chart::of(wal) else { return Vec::new() };
    let per = if look.ascii { 1 } else { 2 };
    let columns = chart.columns(width * per);
    let peak = columns.iter().map(|(bytes, _)| *bytes).fold(0.0, f64::max);
    let mut lines: Vec<Line<'static>> = (0..rows)
        .map(|row| {
            let cells = columns.chunks(per).map(|cell| draw_cell(look, cell, peak, rows, rows - 1 - row));
            Line::from_iter(joined(cells))
        })
        .collect();
    lines.push(marks(state, wal, &chart, width));
    lines.push(window(state, &chart, width));
    if rows > 2 {
        lines.push(legend(state, wal, &chart, (peak, width)));
    }
    lines
}

/// Neighbours of one style become one span.
fn joined(cells: impl Iterator<Item = (char, Style)>) -> Vec<Span<'static>> {
    let mut spans: Vec<(String, Style)> = Vec::new();
    for (c, style) in cells {
        match spans.last_mut().filter(|(_, last)| *last == style) {
            Some((text, _)) => text.push(c),
            None => spans.push((c.to_string(), style)),
        }
    }
    spans.into_iter().map(|(text, style)| Span::styled(text, style)).collect()
}

/// One character of the chart: dots up to the height of its one or two columns.
fn draw_cell(look: Look, cell: &[(f64, f64)], peak: f64, rows: usize, from_bottom: usize) -> (char, Style) {
    const DOTS: [[u32; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
    let per_row = if look.ascii { 1 } else { 4 };
    let height = |amount: f64| {
        let exact = if peak > 0.0 { amount / peak * (rows * per_row) as f64 } else { 0.0 };
        (exact.round() as usize).max(usize::from(amount > 0.0))
    };
    let mut bits = 0;
    let (mut has_images, mut has_any) = (false, false);
    for ((bytes, images), dots) in cell.iter().zip(DOTS) {
        for (dot, bit) in dots.iter().take(per_row).enumerate() {
            let level = from_bottom * per_row + dot;
            if level < height(*bytes) {
                bits |= bit;
                has_any = true;
            }
            has_images |= level < height(*images);
        }
    }
    let style = if has_images { look.doubt() } else { look.heading() };
    let c = match (look.ascii, has_images, has_any) {
        (_, _, false) => return (' ', Style::new()),
        (true, true, _) => '#',
        (true, false, _) => ':',
        (false, ..) => char::from_u32(0x2800 + bits).unwrap_or(' '),
    };
    (c, style)
}

impl Chart {
    fn of(wal: &WalSurvey) -> Option<Self> {
        let pieces: Vec<Piece> = match &wal.timeline {
            Some(timeline) => timeline
                .cells
                .iter()
                .map(|cell| Piece {
                    start_lsn: cell.start_lsn,
                    end_lsn: cell.end_lsn,
                    times: cell.from_time.zip(cell.to_time),
                    bytes: cell.tally.combined_bytes(),
                    image_bytes: cell.tally.fpi_bytes,
                })
                .collect(),
            None => wal
                .intervals
                .iter()
                .map(|interval| Piece {
                    start_lsn: interval.start_lsn,
                    end_lsn: interval.end_lsn,
                    times: interval.start_time.zip(interval.end_time),
                    bytes: interval.tally.combined_bytes(),
                    image_bytes: interval.tally.fpi_bytes,
                })
                .collect(),
        };
        let (first, last) = (pieces.first()?, pieces.last()?);
        let start = pieces.iter().find_map(|piece| piece.times).map(|(from, _)| from);
        let end = pieces.iter().rev().find_map(|piece| piece.times).map(|(_, to)| to);
        let axis = match start.zip(end) {
            Some((start, end)) if end.us_since(start) >= MIN_TIME_US => Axis::Time(start, end.us_since(start)),
            _ => Axis::Addresses(first.start_lsn, last.end_lsn.bytes_since(first.start_lsn)?.max(1)),
        };
        Some(Self { pieces, axis })
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
    let mut put = |lsn: Lsn, c: char, style: Style| {
        if let Some(cell) = row.get_mut(chart.column(lsn, width)) {
            *cell = (c, style);
        }
    };
    // What matters more comes later and stays.
    for interval in &wal.intervals {
        if let Some(checkpoint) = &interval.checkpoint {
            put(checkpoint.lsn, 'C', look.good());
        }
    }
    for redo in wal.intervals.iter().filter_map(|interval| interval.redo_lsn) {
        put(redo, '^', look.good());
    }
    for hidden in &wal.hidden {
        put(hidden.before, '?', look.doubt());
    }
    for at in wal.problems.iter().filter_map(damage_at).chain(gaps(wal)) {
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

/// Where the axis begins and ends, what its columns stand for, and what the marks are.
fn legend(state: &State, wal: &WalSurvey, chart: &Chart, (peak, width): (f64, usize)) -> Line<'static> {
    let look = state.look;
    let clock = |time: PgTimestamp| {
        let text = time_text(time.unix_seconds());
        text.get(11..19).unwrap_or(&text).to_owned()
    };
    let per_column = if look.ascii { 1 } else { 2 };
    let (start, end, unit) = match chart.axis {
        Axis::Time(start, length) => {
            let end = PgTimestamp(start.0.saturating_add(length));
            (clock(start), clock(end), format!("peak {} a column", size(peak as u64)))
        }
        Axis::Addresses(start, length) => {
            let step = size(length / (width * per_column).max(1) as u64);
            (start.to_string(), start.advanced_by(length).to_string(), format!("by address, {step} each"))
        }
    };
    let has_damage = !gaps(wal).is_empty() || wal.problems.iter().any(|finding| damage_at(finding).is_some());
    let kinds = if look.ascii { "# images : other WAL" } else { "" };
    let mut words = vec![unit, kinds.to_owned(), "^ redo point  C checkpoint".to_owned()];
    words.extend((!wal.hidden.is_empty()).then(|| "? hidden redo point".to_owned()));
    words.extend(has_damage.then(|| "! damage".to_owned()));
    words.retain(|words| !words.is_empty());
    let room = width.saturating_sub(start.len() + end.len() + 2);
    let middle = look.cut(&words.join("  "), room);
    let pad = room.saturating_sub(super::columns(&middle));
    let mut line = Line::styled(
        format!("{start} {}{middle}{} {end}", " ".repeat(pad / 2), " ".repeat(pad - pad / 2)),
        look.faint(),
    );
    line.style = look.faint();
    line
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
        let chart = Chart { pieces: (0..1957).map(piece).collect(), axis: Axis::Addresses(Lsn(0), 1957 * 8192) };
        for count in [57, 279, 1957, 5000] {
            let columns = chart.columns(count);
            let each = 1957.0 * 8000.0 / count as f64;
            let is_near =
                |(bytes, images): &(f64, f64)| (bytes / each - 1.0).abs() < 0.01 && (images * 2.0 - bytes).abs() < 1.0;
            assert!(columns.iter().all(is_near), "{count}: {columns:?}");
        }
    }
}
