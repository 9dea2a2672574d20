//! Plots as SVG: values in, one picture out. Pure: no file, no clock, no font and nothing else from elsewhere. Every mark
//! has a tooltip, and what a plot shows is told by shape or words too, never by colour alone.
//! Strips of cells, bars that stand, and lines in steps.

mod frame;

pub use frame::{Unit, grouped};

use super::markup::Markup;
use crate::output::plot::frame::{Axis, Frame, HEIGHT, WIDTH, draw_legend, marker, series_class};

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
const TOP: f64 = 4.0;

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
        rectangle(&mut marks, &format!("cell {}", cell.class), [x, TOP, width, STRIP_HEIGHT], &cell.tooltip);
        label(&mut marks, &format!("letter {}", cell.class), (x + width / 2.0, TOP + 22.0), "middle", &cell.text);
    }
    for (share, text) in marks_at {
        let x = (STRIP_WIDTH - 2.0 * SIDE).mul_add(*share, SIDE);
        rule(&mut marks, "axis", [x, TOP + STRIP_HEIGHT, x, TOP + STRIP_HEIGHT + 5.0]);
        label(&mut marks, "tick", (x, TOP + STRIP_HEIGHT + BELOW - 3.0), "middle", text);
    }
    let size = (STRIP_WIDTH, TOP + STRIP_HEIGHT + BELOW);
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
