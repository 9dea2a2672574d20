//! Bars: standing ones stacked of several series, and lying ones ranked by size.

use super::axis::{Axis, Unit};
use super::frame::{Frame, HEIGHT, WIDTH, draw_legend, series_class, shortened};
use super::{Plot, label, rectangle};
use crate::output::markup::Markup;

/// One bar that stands.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What stands below it.
    pub label: String,
    /// Its parts from below, one for each series.
    pub values: Vec<f64>,
}

/// Bars that stand in a row.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What the plot shows, in a few words.
    pub title: String,
    /// What it shows, in a sentence.
    pub description: String,
    /// Names of the series, the lowest first.
    pub series: Vec<String>,
    /// The bars from left to right.
    pub bars: Vec<Bar>,
    /// What the numbers are.
    pub unit: Unit,
    /// Words for the left axis.
    pub left: String,
    /// Words for the lower axis.
    pub below: String,
}

impl Bars {
    /// Draws them.
    #[must_use]
    pub fn draw(self) -> Plot {
        let Self { title, description, series, bars, unit, left, below } = self;
        let frame = Frame::USUAL;
        let most = bars.iter().map(|bar| bar.values.iter().sum::<f64>()).fold(0.0, f64::max);
        let axis = Axis::up_to(most, unit);
        let mut marks = Markup::new();
        frame.draw_left_axis(&mut marks, &axis);
        let slot = frame.width / bars.len().max(1) as f64;
        let width = (slot * 0.8).clamp(slot.min(1.0), 64.0);
        for (index, bar) in bars.iter().enumerate() {
            let x = (index as f64 + 0.5).mul_add(slot, frame.left) - width / 2.0;
            let mut below = 0.0;
            for (at, (value, name)) in bar.values.iter().zip(&series).enumerate() {
                let (from, to) = (frame.y(axis.at(below)), frame.y(axis.at(below + value)));
                below += value;
                if from - to > 0.0 {
                    let tooltip = format!("{}, {name}: {}", bar.label, unit.text(*value));
                    let class = format!("area {}", series_class(at));
                    rectangle(&mut marks, &class, [x, to, width, from - to], &tooltip);
                }
            }
        }
        let labels: Vec<(f64, String)> = bars
            .iter()
            .enumerate()
            .map(|(index, bar)| ((index as f64 + 0.5) / bars.len() as f64, bar.label.clone()))
            .collect();
        frame.draw_labels(&mut marks, &labels);
        frame.draw_titles(&mut marks, &left, &below);
        draw_legend(&mut marks, &series, false);
        Plot { size: (WIDTH, HEIGHT), title, description, marks }
    }
}

/// One bar that lies.
#[derive(Clone, Debug)]
pub struct RankedBar {
    /// What stands on its left.
    pub label: String,
    /// Its length.
    pub value: f64,
    /// What stands on its right.
    pub figure: String,
}

/// Height of a lying bar with the space to the next.
const ROW: f64 = 24.0;

const LABELS: f64 = 270.0;

const FIGURES: f64 = 120.0;

/// Characters of the label that have room.
const MAX_LABEL: usize = 34;

/// Bars that lie one below the other, as they are given.
#[must_use]
pub fn ranked(title: &str, description: &str, bars: &[RankedBar]) -> Plot {
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let mut marks = Markup::new();
    for (index, bar) in bars.iter().enumerate() {
        let top = (index as f64).mul_add(ROW, 6.0);
        let share = if most > 0.0 { bar.value / most } else { 0.0 };
        let width = (WIDTH - LABELS - FIGURES) * share.clamp(0.0, 1.0);
        let tooltip = format!("{}: {}", bar.label, bar.figure);
        label(&mut marks, "name", (LABELS - 10.0, top + 15.0), "end", &shortened(&bar.label, MAX_LABEL));
        rectangle(&mut marks, "area s0", [LABELS, top + 3.0, width.max(1.0), ROW - 7.0], &tooltip);
        label(&mut marks, "tick", (LABELS + width + 8.0, top + 15.0), "start", &bar.figure);
    }
    let height = (bars.len() as f64).mul_add(ROW, 12.0);
    Plot { size: (WIDTH, height), title: title.to_owned(), description: description.to_owned(), marks }
}
