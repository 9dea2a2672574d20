//! Plots as SVG: values in, one picture out. Pure: no file, no clock, no font and nothing else from elsewhere. Every mark
//! has a tooltip, and what a plot shows is told by shape or words too, never by colour alone.

mod axis;
mod chart;
mod frame;
mod strip;

pub use axis::{Unit, grouped};
pub use chart::Chart;
pub use strip::{StripCell, strip};

use super::markup::Markup;

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
