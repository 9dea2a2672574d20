//! Values over places at equal distances: as bars that stand, or as lines in steps.

use super::axis::{Axis, Unit};
use super::frame::{Frame, HEIGHT, WIDTH, draw_legend, marker, series_class};
use super::{Plot, number, rectangle};
use crate::output::markup::Markup;

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
