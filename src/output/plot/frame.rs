//! Frame around the marks of a plot: axes with ticks, labels below, and the legend.

use super::{label, number, rectangle, rule};
use crate::output::figures::size;
use crate::output::markup::Markup;

pub(super) const WIDTH: f64 = 720.0;

pub(super) const HEIGHT: f64 = 300.0;

/// Room on the left for what is written at ticks.
const LEFT: f64 = 64.0;

/// Room on the right, for half a label.
const RIGHT: f64 = 24.0;

const TOP: f64 = 36.0;

/// Room below, for labels and the title of the axis.
const BOTTOM: f64 = 52.0;

/// Width of a character of a label, about.
const CHARACTER: f64 = 7.0;

/// Characters of a label below the axis; longer ones are cut.
const MAX_LABEL: usize = 22;

/// How a series is drawn; the same number has the same colour and pattern everywhere.
const SERIES: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s5"];

pub(super) fn series_class(index: usize) -> &'static str {
    SERIES.get(index % SERIES.len()).copied().unwrap_or("s0")
}

/// The rectangle in which marks are drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl Frame {
    pub(super) const USUAL: Self =
        Self { left: LEFT, top: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Where a share of the width is.
    pub(super) fn x(&self, share: f64) -> f64 {
        self.left + self.width * share
    }

    /// Where a share of the height is, from below.
    pub(super) fn y(&self, share: f64) -> f64 {
        self.bottom() - self.height * share
    }

    /// The axis on the left, with a line through the picture at every tick.
    pub(super) fn draw_left_axis(&self, marks: &mut Markup, axis: &Axis) {
        for tick in &axis.ticks {
            let y = self.y(axis.at(*tick));
            let class = if *tick == 0.0 { "axis" } else { "grid" };
            rule(marks, class, [self.left, y, self.left + self.width, y]);
            label(marks, "tick", (self.left - 8.0, y + 4.0), "end", &axis.text(*tick));
        }
    }

    /// Labels below, at equal distances: as many as have room, the first and the last among them.
    pub(super) fn draw_labels(&self, marks: &mut Markup, labels: &[String]) {
        let cut: Vec<String> = labels.iter().map(|text| shortened(text, MAX_LABEL)).collect();
        let longest = cut.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        let room = (longest as f64).mul_add(CHARACTER, 12.0);
        let most = (self.width / room).floor().max(2.0) as usize;
        let step = cut.len().div_ceil(most).max(1);
        let last = cut.len().saturating_sub(1);
        for (index, text) in cut.iter().enumerate() {
            let is_shown = index == last || index.is_multiple_of(step) && index + step <= last;
            if !is_shown {
                continue;
            }
            let x = self.x((index as f64 + 0.5) / cut.len() as f64);
            rule(marks, "axis", [x, self.bottom(), x, self.bottom() + 4.0]);
            let half = text.chars().count() as f64 * CHARACTER / 2.0;
            let (x, anchor) = if x + half > WIDTH - 2.0 { (WIDTH - 2.0, "end") } else { (x, "middle") };
            label(marks, "tick", (x, self.bottom() + 18.0), anchor, text);
        }
    }

    /// Titles of the axes: the left one above it, the lower one below it.
    pub(super) fn draw_titles(&self, marks: &mut Markup, left: &str, below: &str) {
        label(marks, "title", (2.0, self.top - 18.0), "start", left);
        label(marks, "title", (self.x(0.5), self.bottom() + 40.0), "middle", below);
    }
}

/// The legend above a plot, from the right, for more than one series.
pub(super) fn draw_legend(marks: &mut Markup, names: &[&str], is_lines: bool) {
    if names.len() < 2 {
        return;
    }
    let widths: Vec<f64> = names.iter().map(|name| (name.chars().count() as f64).mul_add(CHARACTER, 34.0)).collect();
    let mut x = WIDTH - RIGHT - widths.iter().sum::<f64>();
    for (index, (name, width)) in names.iter().zip(&widths).enumerate() {
        let class = series_class(index);
        if is_lines {
            rule(marks, &format!("line {class}"), [x, 13.0, x + 20.0, 13.0]);
            marker(marks, index, (x + 10.0, 13.0), "");
        } else {
            rectangle(marks, &format!("area {class}"), [x + 6.0, 7.0, 12.0, 12.0], "");
        }
        label(marks, "legend", (x + 25.0, 17.0), "start", name);
        x += width;
    }
}

/// A point of a line: each series has a shape of its own.
pub(super) fn marker(marks: &mut Markup, series: usize, (x, y): (f64, f64), tooltip: &str) {
    let path = match series % 4 {
        0 => format!("M{0} {1}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z", number(x - 3.5), number(y)),
        1 => format!("M{0} {1}h6v6h-6z", number(x - 3.0), number(y - 3.0)),
        2 => format!("M{0} {1}l4 7h-8z", number(x), number(y - 4.0)),
        _ => format!("M{0} {1}l4 4l-4 4l-4 -4z", number(x), number(y - 4.0)),
    };
    let class = format!("point {}", series_class(series));
    marks.element("path", &[("class", &class), ("d", &path)], |point| {
        if !tooltip.is_empty() {
            point.leaf("title", &[], tooltip);
        }
    });
}

/// Text of at most so many characters; an ellipsis stands for the middle, since names differ at their ends.
fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let tail = most.saturating_sub(1) * 2 / 3;
    let head = most.saturating_sub(1) - tail;
    let first: String = text.chars().take(head).collect();
    let last: String = text.chars().skip(count - tail).collect();
    format!("{first}…{last}")
}

const TICKS: f64 = 5.0;

/// Unit of the numbers of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Plain numbers.
    Count,
    /// Bytes: ticks stand at round numbers of KB, MB, GB of 1024 each.
    Bytes,
    /// Bytes in a second.
    BytesPerSecond,
    /// Shares, 0 to 1, written in percent.
    Share,
}

impl Unit {
    /// A number as it is written at a tick.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Count => plain(value),
            Self::Bytes => size(value.max(0.0).round() as u64).replace(".0", ""),
            Self::BytesPerSecond => format!("{}/s", Self::Bytes.text(value)),
            Self::Share => format!("{} %", plain(value * 100.0)),
        }
    }

    /// Base of round steps.
    fn base(self, most: f64) -> f64 {
        match self {
            Self::Count => 1.0,
            Self::Share => 0.01,
            Self::Bytes | Self::BytesPerSecond => {
                let mut base = 1.0;
                while most / base >= 999.5 {
                    base *= 1024.0;
                }
                base
            }
        }
    }
}

/// Large numbers in groups of three digits; small ones with a decimal where that matters.
fn plain(value: f64) -> String {
    if value.fract().abs() > 1e-9 && value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    grouped(value.abs().round() as u64)
}

/// A number with a thin space between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// An axis from zero to a round number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    unit: Unit,
    /// Where it ends.
    pub most: f64,
    /// Where the ticks stand, 0 among them.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// An axis on which `most` has room.
    pub(super) fn up_to(most: f64, unit: Unit) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { unit.base(1.0) };
        let base = unit.base(most);
        let raw = most / base / TICKS;
        let power = 10.0_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= raw * 0.999).unwrap_or(10.0) * power;
        // Counts and bytes have no halves.
        let step = if base > 0.5 && unit == Unit::Count { step.max(1.0) } else { step } * base;
        let count = (most / step * 0.999_999).ceil().max(1.0);
        let ticks = (0..=count as u32).map(|index| f64::from(index) * step).collect();
        Self { unit, most: count * step, ticks }
    }

    /// Where a value stands, 0 to 1.
    pub(super) fn at(&self, value: f64) -> f64 {
        (value / self.most).clamp(0.0, 1.0)
    }

    pub(super) fn text(&self, tick: f64) -> String {
        self.unit.text(tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_over_the_largest_value() {
        let texts = |most, unit| {
            let axis = Axis::up_to(most, unit);
            assert!(axis.most >= most && axis.ticks.len() <= 8, "{axis:?}");
            axis.ticks.iter().map(|tick| axis.text(*tick)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(texts(1.0, Unit::Share), "0 % 20 % 40 % 60 % 80 % 100 %");
        assert_eq!(texts(0.034, Unit::Share), "0 % 1 % 2 % 3 % 4 %");
        assert_eq!(texts(7.0, Unit::Count), "0 2 4 6 8");
        assert_eq!(texts(9100.0, Unit::Count), "0 2\u{202f}000 4\u{202f}000 6\u{202f}000 8\u{202f}000 10\u{202f}000");
        assert_eq!(texts(1.0, Unit::Count), "0 1");
        assert_eq!(texts(190.0 * 1024.0 * 1024.0, Unit::Bytes), "0 50M 100M 150M 200M");
        assert_eq!(texts(3000.0, Unit::BytesPerSecond), "0/s 1K/s 2K/s 3K/s");
    }

    #[test]
    fn axis_of_nothing_is_an_axis_still() {
        for most in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Axis::up_to(most, Unit::Count).ticks, [0.0, 1.0]);
        }
    }
}
