//! A strip of cells: the parts of one thing in a row, each with a letter that says what it is.

use super::{Plot, label, rectangle, rule};
use crate::output::markup::Markup;

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

const WIDTH: f64 = 640.0;

const HEIGHT: f64 = 34.0;

/// Where the cells begin.
const TOP: f64 = 4.0;

/// Room below for what stands at the marks.
const BELOW: f64 = 22.0;

/// Room on both sides, for half a number.
const SIDE: f64 = 20.0;

/// A strip of cells of equal width. `marks_at`: marks below it, each at its share of the width.
pub fn strip(title: String, description: &str, cells: &[StripCell], marks_at: &[(f64, String)]) -> Plot {
    let mut marks = Markup::new();
    let width = (WIDTH - 2.0 * SIDE) / cells.len().max(1) as f64;
    for (index, cell) in cells.iter().enumerate() {
        let x = (index as f64).mul_add(width, SIDE);
        rectangle(&mut marks, &format!("cell {}", cell.class), [x, TOP, width, HEIGHT], &cell.tooltip);
        label(&mut marks, &format!("letter {}", cell.class), (x + width / 2.0, TOP + 22.0), "middle", &cell.text);
    }
    for (share, text) in marks_at {
        let x = (WIDTH - 2.0 * SIDE).mul_add(*share, SIDE);
        rule(&mut marks, "axis", [x, TOP + HEIGHT, x, TOP + HEIGHT + 5.0]);
        label(&mut marks, "tick", (x, TOP + HEIGHT + BELOW - 3.0), "middle", text);
    }
    let size = (WIDTH, TOP + HEIGHT + BELOW);
    Plot { name: "", size, title, description: description.to_owned(), marks }
}
