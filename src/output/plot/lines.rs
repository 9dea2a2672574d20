//! Lines over a number or over named points.

use super::axis::{Axis, Unit};
use super::frame::{Frame, HEIGHT, WIDTH, draw_legend, marker, series_class};
use super::{Plot, number};
use crate::output::markup::Markup;

/// Points of a line that get a mark of their own; on a longer one they would hide it.
const MAX_MARKED: usize = 60;

/// How points are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineShape {
    /// By straight lines.
    Straight,
    /// A value holds until the next one begins.
    Steps,
}

/// One line: a value for each place, where there is one.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its values; where there is none the line is interrupted.
    pub values: Vec<Option<f64>>,
}

/// Lines over the same places.
#[derive(Clone, Debug)]
pub struct Lines {
    /// What the plot shows, in a few words.
    pub title: String,
    /// What it shows, in a sentence.
    pub description: String,
    /// The places from left to right, by what stands below them. They stand at equal distances.
    pub places: Vec<String>,
    /// The lines.
    pub lines: Vec<Line>,
    /// How points are joined.
    pub shape: LineShape,
    /// What the numbers are.
    pub unit: Unit,
    /// Words for the left axis.
    pub left: String,
    /// Words for the lower axis.
    pub below: String,
}

impl Lines {
    /// Draws them.
    #[must_use]
    pub fn draw(self) -> Plot {
        let Self { title, description, places, lines, shape, unit, left, below } = self;
        let frame = Frame::USUAL;
        let most = lines.iter().flat_map(|line| line.values.iter().flatten()).copied().fold(0.0, f64::max);
        let axis = Axis::up_to(most, unit);
        let mut marks = Markup::new();
        frame.draw_left_axis(&mut marks, &axis);
        // A step needs room for its last value; a line ends at its last point.
        let count = places.len() as f64 - if shape == LineShape::Straight { 1.0 } else { 0.0 };
        let share = |index: usize| if count > 0.0 { index as f64 / count } else { 0.5 };
        let middle = if shape == LineShape::Steps { 0.5 / count.max(1.0) } else { 0.0 };
        for (series, line) in lines.iter().enumerate() {
            let path = path_of(&frame, &axis, line, shape, &share);
            let class = format!("line {}", series_class(series));
            marks.empty("path", &[("class", &class), ("d", &path)]);
            if line.values.len() > MAX_MARKED {
                continue;
            }
            for (index, (value, place)) in line.values.iter().zip(&places).enumerate() {
                let Some(value) = value else { continue };
                let tooltip = format!("{place}, {}: {}", line.name, unit.text(*value));
                let at = (frame.x(share(index) + middle), frame.y(axis.at(*value)));
                marker(&mut marks, series, at, &tooltip);
            }
        }
        let labels: Vec<(f64, String)> =
            places.iter().enumerate().map(|(index, place)| (share(index) + middle, place.clone())).collect();
        frame.draw_labels(&mut marks, &labels);
        frame.draw_titles(&mut marks, &left, &below);
        let names: Vec<String> = lines.into_iter().map(|line| line.name).collect();
        draw_legend(&mut marks, &names, true);
        Plot { size: (WIDTH, HEIGHT), title, description, marks }
    }
}

fn path_of(frame: &Frame, axis: &Axis, line: &Line, shape: LineShape, share: &dyn Fn(usize) -> f64) -> String {
    let mut path = String::new();
    let mut is_drawing = false;
    for (index, value) in line.values.iter().enumerate() {
        let Some(value) = value else {
            is_drawing = false;
            continue;
        };
        let (x, y) = (number(frame.x(share(index))), number(frame.y(axis.at(*value))));
        match (is_drawing, shape) {
            (false, _) => path.push_str(&format!("M{x} {y}")),
            (true, LineShape::Straight) => path.push_str(&format!("L{x} {y}")),
            (true, LineShape::Steps) => path.push_str(&format!("H{x}V{y}")),
        }
        if shape == LineShape::Steps {
            path.push_str(&format!("H{}", number(frame.x(share(index + 1)))));
        }
        is_drawing = true;
    }
    path
}
