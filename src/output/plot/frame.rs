//! Frame around the marks of a plot: axes with ticks, labels below, and the legend.

use super::axis::Axis;
use super::{label, number, rectangle, rule};
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
