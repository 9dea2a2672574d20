//! Plots as SVG: values in, one picture out. Pure: no file, no clock, no font and nothing else from elsewhere. Every mark
//! has a tooltip, and what a plot shows is told by shape or words too, never by colour alone.
//! Strips of cells, bars that stand, and lines in steps.
//! Strips of cells, bars that stand, and lines in steps.

use super::markup::Markup;
use crate::output::figures::size;

/// Style of every plot: the page that holds it has it once, a plot in a file of its own too. Colours are those of Okabe
/// and Ito, which people with any kind of colour vision can tell from one another.
pub(crate) const PLOT_STYLE: &str = include_str!("plot.css");

/// A plot, drawn.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Name of its file, without the ending; empty for one that has none.
    pub(crate) name: &'static str,
    /// Width and height in units of the picture.
    pub size: (f64, f64),
    /// Title, in a few words.
    pub title: String,
    /// Description, in a sentence.
    pub description: String,
    marks: Markup,
}

impl Plot {
    /// The plot as a part of a page that has `PLOT_STYLE`.
    pub fn part(&self) -> Markup {
        self.svg(false)
    }

    /// The plot as a file of its own.
    pub fn file(&self) -> String {
        let mut file = self.svg(true).finish();
        file.insert_str(0, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        file
    }

    fn svg(&self, is_file: bool) -> Markup {
        let Self { size: (width, height), title, description, marks, .. } = self;
        let (width, height) = (*width, *height);
        let (view, width, height) =
            (format!("0 0 {} {}", number(width), number(height)), number(width), number(height));
        let mut svg = Markup::new();
        let attributes = [
            ("xmlns", "http://www.w3.org/2000/svg"),
            ("class", if is_file { "plot alone" } else { "plot" }),
            ("viewBox", view.as_str()),
            ("role", "img"),
            ("width", width.as_str()),
            ("height", height.as_str()),
        ];
        let attributes = if is_file { &attributes[..] } else { &attributes[..4] };
        svg.element("svg", attributes, |svg| {
            svg.leaf("title", &[], title);
            svg.leaf("desc", &[], description);
            if is_file {
                svg.element("style", &[], |style| style.constant(PLOT_STYLE));
                svg.empty("rect", &[("class", "paper"), ("width", &width), ("height", &height)]);
            }
            svg.piece(marks);
        });
        svg
    }
}

/// A number of a picture: at most one decimal.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// Text at a point. `anchor`: `start`, `middle` or `end`.
pub(super) fn label(marks: &mut Markup, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
    let (x, y) = (number(x), number(y));
    marks.leaf("text", &[("class", class), ("x", &x), ("y", &y), ("text-anchor", anchor)], text);
}

pub(super) fn rectangle(marks: &mut Markup, class: &str, [x, y, width, height]: [f64; 4], tooltip: &str) {
    let [x, y, width, height] = [x, y, width, height].map(number);
    let attributes = [("class", class), ("x", &*x), ("y", &*y), ("width", &*width), ("height", &*height)];
    marks.element("rect", &attributes, |rect| {
        if !tooltip.is_empty() {
            rect.leaf("title", &[], tooltip);
        }
    });
}

pub(super) fn rule(marks: &mut Markup, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
    let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(number);
    marks.empty("line", &[("class", class), ("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2)]);
}

/// One cell.
#[derive(Clone, Debug)]
pub struct StripCell {
    /// Text in it.
    pub text: String,
    /// Class that gives it its colour: `new`, `old`, `zero`, `none`, `other`.
    pub class: &'static str,
    /// Tooltip.
    pub tooltip: String,
}

const STRIP_WIDTH: f64 = 640.0;

const STRIP_HEIGHT: f64 = 34.0;

/// Where the cells begin.
const STRIP_TOP: f64 = 4.0;

/// Room below for what stands at the marks.
const BELOW: f64 = 22.0;

/// Room on both sides, for half a number.
const SIDE: f64 = 20.0;

/// A strip of cells of equal width. `marks_at`: marks below it, each at its share of the width.
pub fn strip(title: String, description: &str, cells: &[StripCell], marks_at: &[(f64, String)]) -> Plot {
    let mut marks = Markup::new();
    let width = (STRIP_WIDTH - 2.0 * SIDE) / cells.len().max(1) as f64;
    for (index, cell) in cells.iter().enumerate() {
        let x = (index as f64).mul_add(width, SIDE);
        rectangle(&mut marks, &format!("cell {}", cell.class), [x, STRIP_TOP, width, STRIP_HEIGHT], &cell.tooltip);
        label(&mut marks, &format!("letter {}", cell.class), (x + width / 2.0, STRIP_TOP + 22.0), "middle", &cell.text);
    }
    for (share, text) in marks_at {
        let x = (STRIP_WIDTH - 2.0 * SIDE).mul_add(*share, SIDE);
        rule(&mut marks, "axis", [x, STRIP_TOP + STRIP_HEIGHT, x, STRIP_TOP + STRIP_HEIGHT + 5.0]);
        label(&mut marks, "tick", (x, STRIP_TOP + STRIP_HEIGHT + BELOW - 3.0), "middle", text);
    }
    let size = (STRIP_WIDTH, STRIP_TOP + STRIP_HEIGHT + BELOW);
    Plot { name: "", size, title, description: description.to_owned(), marks }
}

/// Points of a line that get a mark of their own; on a longer one they would hide it.
const MAX_MARKED: usize = 60;

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// Name of its file, without the ending.
    pub name: &'static str,
    /// Title, in a few words.
    pub title: &'a str,
    /// Description, in a sentence.
    pub description: &'a str,
    /// Unit of the numbers.
    pub unit: Unit,
    /// Words for the left axis.
    pub left: &'a str,
    /// Words for the lower axis.
    pub below: &'a str,
    /// Label below each place, from left to right.
    pub places: Vec<String>,
    /// Names, and a value for each place where there is one. Bars stack them, the first one lowest.
    pub series: Vec<(&'a str, Vec<Option<f64>>)>,
}

impl Chart<'_> {
    /// Draws a bar at each place.
    pub fn bars(&self) -> Plot {
        let values = |place: usize| self.series.iter().map(move |(_, values)| values.get(place).copied().flatten());
        let most = (0..self.places.len()).map(|place| values(place).flatten().sum::<f64>()).fold(0.0, f64::max);
        self.draw(most, false, |marks, frame, axis| {
            let slot = frame.width / self.places.len().max(1) as f64;
            let width = (slot * 0.8).clamp(slot.min(1.0), 64.0);
            for (index, place) in self.places.iter().enumerate() {
                let x = (index as f64 + 0.5).mul_add(slot, frame.left) - width / 2.0;
                let mut below = 0.0;
                for (at, (value, (name, _))) in values(index).zip(&self.series).enumerate() {
                    let value = value.unwrap_or(0.0);
                    let (from, to) = (frame.y(axis.at(below)), frame.y(axis.at(below + value)));
                    below += value;
                    if from - to > 0.0 {
                        let tooltip = format!("{place}, {name}: {}", self.unit.text(value));
                        let class = format!("area {}", series_class(at));
                        rectangle(marks, &class, [x, to, width, from - to], &tooltip);
                    }
                }
            }
        })
    }

    /// Draws a line for each series: a value holds until the next place. A missing value interrupts the line.
    pub fn steps(&self) -> Plot {
        let most = self.series.iter().flat_map(|(_, values)| values.iter().flatten()).copied().fold(0.0, f64::max);
        self.draw(most, true, |marks, frame, axis| {
            let count = self.places.len().max(1) as f64;
            let x = |place: f64| frame.x(place / count);
            for (series, (name, values)) in self.series.iter().enumerate() {
                let mut path = String::new();
                let mut before = None;
                for (index, value) in values.iter().enumerate() {
                    if let Some(value) = value {
                        let (from, y) = (number(x(index as f64)), number(frame.y(axis.at(*value))));
                        let to = number(x(index as f64 + 1.0));
                        path.push_str(&match before {
                            Some(()) => format!("H{from}V{y}H{to}"),
                            None => format!("M{from} {y}H{to}"),
                        });
                    }
                    before = value.map(|_| ());
                }
                let class = format!("line {}", series_class(series));
                marks.empty("path", &[("class", &class), ("d", &path)]);
                if values.len() > MAX_MARKED {
                    continue;
                }
                for (index, (value, place)) in values.iter().zip(&self.places).enumerate() {
                    let Some(value) = value else { continue };
                    let tooltip = format!("{place}, {name}: {}", self.unit.text(*value));
                    marker(marks, series, (x(index as f64 + 0.5), frame.y(axis.at(*value))), &tooltip);
                }
            }
        })
    }

    /// Draws what stands around the marks, and these.
    fn draw(&self, most: f64, is_lines: bool, draw_marks: impl FnOnce(&mut Markup, &Frame, &Axis)) -> Plot {
        let (frame, axis) = (Frame::USUAL, Axis::up_to(most, self.unit));
        let mut marks = Markup::new();
        frame.draw_left_axis(&mut marks, &axis);
        draw_marks(&mut marks, &frame, &axis);
        frame.draw_labels(&mut marks, &self.places);
        frame.draw_titles(&mut marks, self.left, self.below);
        let names: Vec<&str> = self.series.iter().map(|(name, _)| *name).collect();
        draw_legend(&mut marks, &names, is_lines);
        let (title, description) = (self.title.to_owned(), self.description.to_owned());
        Plot { name: self.name, size: (WIDTH, HEIGHT), title, description, marks }
    }
}

const WIDTH: f64 = 720.0;

const HEIGHT: f64 = 300.0;

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

fn series_class(index: usize) -> &'static str {
    SERIES.get(index % SERIES.len()).copied().unwrap_or("s0")
}

/// The rectangle in which marks are drawn.
#[derive(Clone, Copy, Debug)]
struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl Frame {
    const USUAL: Self = Self { left: LEFT, top: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };

    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Where a share of the width is.
    fn x(&self, share: f64) -> f64 {
        self.left + self.width * share
    }

    /// Where a share of the height is, from below.
    fn y(&self, share: f64) -> f64 {
        self.bottom() - self.height * share
    }

    /// The axis on the left, with a line through the picture at every tick.
    fn draw_left_axis(&self, marks: &mut Markup, axis: &Axis) {
        for tick in &axis.ticks {
            let y = self.y(axis.at(*tick));
            let class = if *tick == 0.0 { "axis" } else { "grid" };
            rule(marks, class, [self.left, y, self.left + self.width, y]);
            label(marks, "tick", (self.left - 8.0, y + 4.0), "end", &axis.text(*tick));
        }
    }

    /// Labels below, at equal distances: as many as have room, the first and the last among them.
    fn draw_labels(&self, marks: &mut Markup, labels: &[String]) {
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
    fn draw_titles(&self, marks: &mut Markup, left: &str, below: &str) {
        label(marks, "title", (2.0, self.top - 18.0), "start", left);
        label(marks, "title", (self.x(0.5), self.bottom() + 40.0), "middle", below);
    }
}

/// The legend above a plot, from the right, for more than one series.
fn draw_legend(marks: &mut Markup, names: &[&str], is_lines: bool) {
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
fn marker(marks: &mut Markup, series: usize, (x, y): (f64, f64), tooltip: &str) {
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
struct Axis {
    unit: Unit,
    /// Where it ends.
    pub most: f64,
    /// Where the ticks stand, 0 among them.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// An axis on which `most` has room.
    fn up_to(most: f64, unit: Unit) -> Self {
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
    fn at(&self, value: f64) -> f64 {
        (value / self.most).clamp(0.0, 1.0)
    }

    fn text(&self, tick: f64) -> String {
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
