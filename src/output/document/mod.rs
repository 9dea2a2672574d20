//! A report as a document: what it says, apart from how HTML and Markdown say it.

mod html;
mod markdown;

use super::plot::Plot;

/// A piece of a line, or a cell of a table.
#[derive(Clone, Debug)]
pub(crate) enum Span {
    Text(String),
    Number(String),
    /// An address or a path.
    Code(String),
    /// A checksum, which may be broken over lines.
    Digest(String),
    /// A byte that differs.
    Strong(String),
    /// A word that carries a judgement, and its class: `good`, `doubt`, `bad` or `faint`.
    Mark(String, &'static str),
    /// A link within the document: text and id.
    Link(String, String),
}

impl Span {
    pub(crate) fn text(text: impl ToString) -> Self {
        Self::Text(text.to_string())
    }

    pub(crate) fn code(code: impl ToString) -> Self {
        Self::Code(code.to_string())
    }

    pub(crate) fn number(number: impl ToString) -> Self {
        Self::Number(number.to_string())
    }

    /// A number, or a dash without one.
    pub(crate) fn number_or_dash(number: Option<impl ToString>) -> Self {
        Self::Number(number.map_or_else(|| "-".to_owned(), |number| number.to_string()))
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text) | Self::Code(text) | Self::Digest(text) | Self::Strong(text) => text,
            Self::Mark(text, _) | Self::Link(text, _) => text,
        }
    }
}

/// Text in one line, or a paragraph.
#[derive(Clone, Debug)]
pub(crate) struct Line(Vec<Span>);

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self(vec![Span::text(text)])
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self(vec![Span::Text(text)])
    }
}

impl From<Vec<Span>> for Line {
    fn from(spans: Vec<Span>) -> Self {
        Self(spans)
    }
}

impl<const N: usize> From<[Span; N]> for Line {
    fn from(spans: [Span; N]) -> Self {
        Self(spans.into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Bullets,
    Numbers,
    /// Steps of a proof: what each does for it, and a sentence.
    Proof,
}

#[derive(Clone, Debug)]
enum Block {
    Section {
        id: String,
        heading: String,
        content: Blocks,
    },
    /// A box that cannot be missed, with its class.
    StrongBox {
        class: &'static str,
        heading: String,
        content: Blocks,
    },
    Subheading(String),
    Paragraph(Line),
    /// Explanation of a table or plot.
    Note(Line),
    /// Labels with their values; one without a label continues the one before it.
    Facts(Vec<(String, Line)>),
    /// Items, each with what stands below it.
    List(ListKind, Vec<(Line, Blocks)>),
    Lines(Vec<Line>),
    Table {
        caption: String,
        headings: Vec<&'static str>,
        rows: Vec<Vec<Span>>,
    },
    /// A plot, with its numbers below it.
    Figure(Plot, Blocks),
}

/// Blocks below each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks(Vec<Block>);

impl Blocks {
    pub(crate) fn of(write: impl FnOnce(&mut Self)) -> Self {
        let mut blocks = Self::default();
        write(&mut blocks);
        blocks
    }

    pub(crate) fn section(&mut self, id: impl ToString, heading: impl ToString, write: impl FnOnce(&mut Self)) {
        self.0.push(Block::Section { id: id.to_string(), heading: heading.to_string(), content: Self::of(write) });
    }

    pub(crate) fn strong_box(&mut self, class: &'static str, heading: &str, write: impl FnOnce(&mut Self)) {
        self.0.push(Block::StrongBox { class, heading: heading.to_owned(), content: Self::of(write) });
    }

    pub(crate) fn subheading(&mut self, heading: String) {
        self.0.push(Block::Subheading(heading));
    }

    pub(crate) fn paragraph(&mut self, text: impl Into<Line>) {
        self.0.push(Block::Paragraph(text.into()));
    }

    pub(crate) fn note(&mut self, text: impl Into<Line>) {
        self.0.push(Block::Note(text.into()));
    }

    pub(crate) fn facts<L: Into<String>, V: Into<Line>>(&mut self, facts: impl IntoIterator<Item = (L, V)>) {
        self.0.push(Block::Facts(facts.into_iter().map(|(label, value)| (label.into(), value.into())).collect()));
    }

    pub(crate) fn list(&mut self, texts: impl IntoIterator<Item = String>) {
        self.items(ListKind::Bullets, texts.into_iter().map(|text| (text.into(), Self::default())));
    }

    pub(crate) fn items(&mut self, kind: ListKind, items: impl IntoIterator<Item = (Line, Self)>) {
        self.0.push(Block::List(kind, items.into_iter().collect()));
    }

    /// Lines that are copied as they are.
    pub(crate) fn commands(&mut self, text: &str) {
        if !text.is_empty() {
            self.lines(text.lines().map(Line::from).collect());
        }
    }

    pub(crate) fn lines(&mut self, lines: Vec<Line>) {
        self.0.push(Block::Lines(lines));
    }

    pub(crate) fn table<const N: usize>(
        &mut self,
        caption: impl Into<String>,
        headings: [&'static str; N],
        rows: impl IntoIterator<Item = [Span; N]>,
    ) {
        let rows = rows.into_iter().map(Vec::from).collect();
        self.0.push(Block::Table { caption: caption.into(), headings: headings.into(), rows });
    }

    pub(crate) fn figure(&mut self, plot: Plot, write: impl FnOnce(&mut Self)) {
        self.0.push(Block::Figure(plot, Self::of(write)));
    }

    fn plots(&self) -> Vec<&Plot> {
        let mut plots = Vec::new();
        for block in &self.0 {
            match block {
                Block::Section { content, .. } => plots.extend(content.plots()),
                Block::Figure(plot, _) => plots.push(plot),
                _ => {}
            }
        }
        plots
    }
}

/// A report. HTML and Markdown are made of it.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// Title in the browser.
    pub title: String,
    pub program: &'static str,
    pub heading: &'static str,
    /// Lines below the heading.
    pub lead: Vec<Line>,
    pub body: Blocks,
}

impl Document {
    /// The plots of its sections, in order.
    pub(crate) fn plots(&self) -> Vec<&Plot> {
        self.body.plots()
    }
}
