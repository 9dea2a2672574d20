//! What pages are made of: sections, facts, tables, boxes, figures.

use crate::output::markup::Markup;
use crate::output::plot::Plot;

/// A section with its heading.
pub fn section(parent: &mut Markup, id: &str, heading: &str, content: impl FnOnce(&mut Markup)) {
    parent.element("section", &[("id", id)], |inner| {
        inner.leaf("h2", &[], heading);
        content(inner);
    });
}

/// A paragraph.
pub fn paragraph(parent: &mut Markup, text: &str) {
    parent.leaf("p", &[], text);
}

/// A paragraph that says how something is to be read.
pub fn note(parent: &mut Markup, text: &str) {
    parent.leaf("p", &[("class", "note")], text);
}

/// A box that cannot be missed. `class`: `good`, `doubt` or `bad`.
pub fn strong_box(parent: &mut Markup, class: &str, heading: &str, content: impl FnOnce(&mut Markup)) {
    parent.element("section", &[("class", &format!("box {class}"))], |inner| {
        inner.leaf("h2", &[], heading);
        content(inner);
    });
}

/// Labels with their values.
pub fn facts<L: AsRef<str>, V: AsRef<str>>(parent: &mut Markup, facts: &[(L, V)]) {
    parent.element("dl", &[], |inner| {
        for (name, value) in facts {
            // What has no label goes on with the fact before it.
            if !name.as_ref().is_empty() {
                inner.leaf("dt", &[], name.as_ref());
            }
            inner.leaf("dd", &[], value.as_ref());
        }
    });
}

/// Texts one below the other.
pub fn list(parent: &mut Markup, texts: impl IntoIterator<Item = String>) {
    parent.element("ul", &[], |inner| {
        for text in texts {
            inner.leaf("li", &[], &text);
        }
    });
}

/// Lines that are copied as they are.
pub fn commands(parent: &mut Markup, text: &str) {
    if !text.is_empty() {
        parent.element("pre", &[], |inner| inner.element("code", &[], |code| code.lines(text)));
    }
}

/// A plot with its numbers below it.
pub fn figure(parent: &mut Markup, plot: &Plot, numbers: impl FnOnce(&mut Markup)) {
    parent.element("figure", &[], |inner| {
        inner.leaf("figcaption", &[], &plot.title);
        inner.element("div", &[("class", "wide")], |wide| wide.piece(&plot.part()));
        numbers(inner);
    });
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, set to the right.
    Number(String),
    /// An address or a path.
    Code(String),
    /// A checksum, which may be broken over lines.
    Digest(String),
    /// A word that carries a judgement, and its class.
    Mark(String, &'static str),
    /// A link within the page: text and id.
    Link(String, String),
}

impl Cell {
    /// Words.
    #[must_use]
    pub fn text(text: impl ToString) -> Self {
        Self::Text(text.to_string())
    }

    /// A number.
    #[must_use]
    pub fn number(number: impl ToString) -> Self {
        Self::Number(number.to_string())
    }

    /// An address or a path.
    #[must_use]
    pub fn code(code: impl ToString) -> Self {
        Self::Code(code.to_string())
    }

    const fn class(&self) -> &'static str {
        match self {
            Self::Number(_) => "number",
            Self::Digest(_) => "digest",
            _ => "",
        }
    }

    fn write(&self, cell: &mut Markup) {
        match self {
            Self::Text(text) | Self::Number(text) => cell.text(text),
            Self::Code(text) | Self::Digest(text) => cell.leaf("code", &[], text),
            Self::Mark(text, class) => cell.leaf("span", &[("class", &format!("mark {class}"))], text),
            Self::Link(text, id) => cell.leaf("a", &[("href", &format!("#{id}"))], text),
        }
    }
}

/// Rows of a table that is not broken over pages of paper.
const MAX_SHORT: usize = 15;

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it holds, in a few words; stands above it.
    pub caption: String,
    /// Headings.
    pub headings: Vec<&'static str>,
    /// Rows.
    pub rows: Vec<Vec<Cell>>,
}

/// Writes a table. It scrolls by itself where it is wider than the page.
pub fn table(parent: &mut Markup, table: &Table) {
    parent.element("div", &[("class", "wide")], |wide| {
        let class = [("class", "short")];
        let attributes = if table.rows.len() <= MAX_SHORT { &class[..] } else { &[] };
        wide.element("table", attributes, |inner| {
            if !table.caption.is_empty() {
                inner.leaf("caption", &[], &table.caption);
            }
            inner.element("thead", &[], |head| {
                head.element("tr", &[], |row| {
                    for (column, heading) in table.headings.iter().enumerate() {
                        let first = table.rows.first().and_then(|row| row.get(column));
                        write_cell(row, "th", first.map_or("", Cell::class), |cell| cell.text(heading));
                    }
                });
            });
            inner.element("tbody", &[], |body| {
                for cells in &table.rows {
                    body.element("tr", &[], |row| {
                        for cell in cells {
                            write_cell(row, "td", cell.class(), |inner| cell.write(inner));
                        }
                    });
                }
            });
        });
    });
}

fn write_cell(row: &mut Markup, name: &'static str, class: &str, content: impl FnOnce(&mut Markup)) {
    let attributes = [("class", class)];
    row.element(name, if class.is_empty() { &[] } else { &attributes }, content);
}
