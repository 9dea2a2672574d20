//! A report as a document: what it says, apart from how HTML and Markdown say it.
//! Written as Markdown (with tables; plots are left out) or as HTML.

use super::plot::{PLOT_STYLE, Plot};
use crate::output::closing::VERSION;
use crate::output::escape::printable;
use crate::output::markup::Markup;

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

impl Document {
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        let lead = self.lead.iter().map(|line| words(line) + "\n\n");
        out.extend(std::iter::once(format!("# {}\n\n", escaped(self.heading))).chain(lead));
        write_blocks(&mut out, &self.body, "##");
        out
    }
}

/// `heading`: what stands before the heading of a section.
fn write_blocks(out: &mut String, blocks: &Blocks, heading: &str) {
    for block in &blocks.0 {
        write_block(out, block, heading);
    }
}

/// Each block is followed by an empty line.
fn write_block(out: &mut String, block: &Block, lead: &str) {
    match block {
        Block::Section { heading, content, .. } => {
            out.push_str(&format!("{lead} {}\n\n", escaped(heading)));
            return write_blocks(out, content, &format!("{lead}#"));
        }
        Block::StrongBox { heading, content, .. } => {
            out.push_str(&format!("**{}**\n\n", escaped(heading)));
            return write_blocks(out, content, lead);
        }
        Block::Figure(_, below) => return write_blocks(out, below, lead),
        Block::Subheading(text) => out.push_str(&format!("{lead} {}\n", escaped(text))),
        Block::Paragraph(line) | Block::Note(line) => out.push_str(&(words(line) + "\n")),
        Block::Facts(facts) => {
            for (label, value) in facts {
                let label = if label.is_empty() { "  - ".to_owned() } else { format!("- **{}**: ", escaped(label)) };
                out.push_str(&format!("{label}{}\n", words(value)));
            }
        }
        Block::List(_, items) => {
            for (line, below) in items {
                out.push_str(&format!("- {}\n", words(line)));
                let mut inside = String::new();
                write_blocks(&mut inside, below, lead);
                for line in inside.trim_end().lines() {
                    out.push_str(format!("  {line}").trim_end());
                    out.push('\n');
                }
            }
        }
        Block::Lines(lines) => {
            let plain: Vec<String> =
                lines.iter().map(|Line(spans)| spans.iter().map(|span| printable(span.as_str())).collect()).collect();
            let text = plain.join("\n");
            let fence = "`".repeat(longest_run(&text).max(2) + 1);
            out.push_str(&format!("{fence}\n{text}\n{fence}\n"));
        }
        Block::Table { caption, headings, rows } => {
            if !caption.is_empty() {
                out.push_str(&format!("*{}*\n\n", escaped(caption)));
            }
            let headings: Vec<String> = headings.iter().map(|heading| escaped(heading)).collect();
            out.push_str(&format!("| {} |\n|{}\n", headings.join(" | "), " --- |".repeat(headings.len())));
            for row in rows {
                out.push_str(&format!("| {} |\n", row.iter().map(inline).collect::<Vec<_>>().join(" | ")));
            }
        }
    }
    out.push('\n');
}

fn words(Line(spans): &Line) -> String {
    spans.iter().map(inline).collect()
}

fn inline(span: &Span) -> String {
    match span {
        Span::Code(text) | Span::Digest(text) => code(&printable(text)),
        Span::Strong(text) | Span::Mark(text, _) => format!("**{}**", escaped(text)),
        Span::Text(text) | Span::Number(text) | Span::Link(text, _) => escaped(text),
    }
}

/// A code span that its text cannot end; in a table a bar would end the cell.
fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{}{pad}{fence}", text.replace('|', "\\|"))
}

/// The most backticks that follow each other.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Text in which nothing means something to Markdown, nor to the HTML that Markdown may hold.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' | '!') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Content policy of a page: only the embedded style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const STYLE: &str = include_str!("page.css");

/// Rows of a table that is not broken over pages of paper.
const MAX_SHORT: usize = 15;

impl Document {
    pub(crate) fn html(&self) -> String {
        let mut page = Markup::new();
        page.constant("<!DOCTYPE html>\n");
        let root = [("xmlns", "http://www.w3.org/1999/xhtml"), ("lang", "en"), ("xml:lang", "en")];
        page.element("html", &root, |html| {
            html.element("head", &[], |head| {
                head.empty("meta", &[("charset", "utf-8")]);
                head.empty("meta", &[("http-equiv", "Content-Security-Policy"), ("content", POLICY)]);
                let made_by = format!("{} {VERSION}", self.program);
                for (name, content) in [
                    ("viewport", "width=device-width, initial-scale=1"),
                    ("color-scheme", "light dark"),
                    ("referrer", "no-referrer"),
                    ("generator", &made_by),
                ] {
                    head.empty("meta", &[("name", name), ("content", content)]);
                }
                head.leaf("title", &[], &self.title);
                head.element("style", &[], |style| {
                    style.constant(STYLE);
                    style.constant(PLOT_STYLE);
                });
            });
            html.element("body", &[], |body| {
                body.element("header", &[], |header| {
                    header.leaf("h1", &[], self.heading);
                    self.lead.iter().for_each(|line| write_line(header, "p", "", line));
                });
                body.element("nav", &[("aria-label", "Contents")], |nav| {
                    nav.element("ul", &[], |list| {
                        for block in &self.body.0 {
                            let Block::Section { id, heading, .. } = block else { continue };
                            list.element("li", &[], |item| write_link(item, id, heading));
                        }
                    });
                });
                body.element("main", &[], |main| mark_blocks(main, &self.body, false));
            });
        });
        page.finish()
    }
}

/// `is_inside`: in a section.
fn mark_blocks(parent: &mut Markup, blocks: &Blocks, is_inside: bool) {
    for block in &blocks.0 {
        mark_block(parent, block, is_inside);
    }
}

fn mark_block(parent: &mut Markup, block: &Block, is_inside: bool) {
    match block {
        Block::Section { id, heading, content } => {
            let attributes = [("id", id.as_str()), ("class", "sheet")];
            let (attributes, title) = if is_inside { (&attributes[..], "h3") } else { (&attributes[..1], "h2") };
            parent.element("section", attributes, |section| {
                section.leaf(title, &[], heading);
                mark_blocks(section, content, true);
            });
        }
        Block::StrongBox { class, heading, content } => {
            parent.element("section", &[("class", &format!("box {class}"))], |inner| {
                inner.leaf("h2", &[], heading);
                mark_blocks(inner, content, true);
            });
        }
        Block::Subheading(text) => parent.leaf("h4", &[], text),
        Block::Paragraph(line) => write_line(parent, "p", "", line),
        Block::Note(line) => write_line(parent, "p", "note", line),
        Block::Facts(facts) => parent.element("dl", &[], |list| {
            for (label, value) in facts {
                if !label.is_empty() {
                    list.leaf("dt", &[], label);
                }
                write_line(list, "dd", "", value);
            }
        }),
        Block::List(kind, items) => {
            let name = if *kind == ListKind::Numbers { "ol" } else { "ul" };
            let class = if *kind == ListKind::Proof { "proof" } else { "" };
            with_class(parent, name, class, |list| {
                for (Line(spans), below) in items {
                    list.element("li", &[], |item| {
                        spans.iter().for_each(|span| write_span(item, span));
                        mark_blocks(item, below, true);
                    });
                }
            });
        }
        Block::Lines(lines) => parent.element("pre", &[], |pre| {
            pre.element("code", &[], |code| {
                for (index, Line(spans)) in lines.iter().enumerate() {
                    code.constant(if index > 0 { "\n" } else { "" });
                    spans.iter().for_each(|span| write_span(code, span));
                }
            });
        }),
        Block::Table { caption, headings, rows } => write_table(parent, caption, headings, rows),
        Block::Figure(plot, below) => parent.element("figure", &[], |figure| {
            figure.leaf("figcaption", &[], &plot.title);
            with_class(figure, "div", "wide", |wide| wide.piece(&plot.part()));
            mark_blocks(figure, below, true);
        }),
    }
}

/// Columns up to which a table has room between them in a window of 1,000 pixels.
const MAX_ROOMY: usize = 8;

/// It scrolls by itself where it is wider than the page.
fn write_table(parent: &mut Markup, caption: &str, headings: &[&str], rows: &[Vec<Span>]) {
    let class = match (rows.len() <= MAX_SHORT, headings.len() > MAX_ROOMY) {
        (true, true) => "short dense",
        (true, false) => "short",
        (false, true) => "dense",
        (false, false) => "",
    };
    with_class(parent, "div", "wide", |wide| {
        with_class(wide, "table", class, |table| {
            if !caption.is_empty() {
                table.leaf("caption", &[], caption);
            }
            let class = |cell: &Span| match cell {
                Span::Number(_) => "number",
                Span::Digest(_) => "digest",
                _ => "",
            };
            table.element("thead", &[], |head| {
                head.element("tr", &[], |row| {
                    for (column, heading) in headings.iter().enumerate() {
                        let first = rows.first().and_then(|row| row.get(column));
                        with_class(row, "th", first.map_or("", class), |cell| cell.text(heading));
                    }
                });
            });
            table.element("tbody", &[], |body| {
                for cells in rows {
                    body.element("tr", &[], |row| {
                        for cell in cells {
                            with_class(row, "td", class(cell), |inner| write_span(inner, cell));
                        }
                    });
                }
            });
        });
    });
}

fn with_class(parent: &mut Markup, name: &'static str, class: &str, content: impl FnOnce(&mut Markup)) {
    let attributes = [("class", class)];
    parent.element(name, if class.is_empty() { &[] } else { &attributes }, content);
}

fn write_line(parent: &mut Markup, name: &'static str, class: &str, Line(spans): &Line) {
    with_class(parent, name, class, |inner| spans.iter().for_each(|span| write_span(inner, span)));
}

fn write_link(parent: &mut Markup, id: &str, text: &str) {
    parent.leaf("a", &[("href", &format!("#{id}"))], text);
}

fn write_span(parent: &mut Markup, span: &Span) {
    match span {
        Span::Text(text) | Span::Number(text) => parent.text(text),
        Span::Code(text) | Span::Digest(text) => parent.leaf("code", &[], text),
        Span::Strong(text) => parent.leaf("b", &[], text),
        Span::Mark(text, class) => parent.leaf("span", &[("class", &format!("mark {class}"))], text),
        Span::Link(text, id) => write_link(parent, id, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_document_is_there_and_nothing_of_it_is_markup() {
        let hostile = "a|b*c_d`e<script>&[x](y)\n# no";
        let body = Blocks::of(|body| {
            body.section("one", "One", |one| {
                one.paragraph(hostile);
                one.facts([("label", hostile)]);
                one.list([hostile.to_owned()]);
                one.commands("ls `x`\n```\nend");
                one.table("c", ["h", "n"], [[Span::code(hostile), Span::number(3)]]);
            });
        });
        let document = Document { title: "t".to_owned(), program: "p", heading: "Title", lead: Vec::new(), body };
        // A line break in a name is shown as an escape.
        let safe = "a\\|b\\*c\\_d\\`e\\<script\\>\\&\\[x\\](y)\\\\n\\# no";
        let code = "``a\\|b*c_d`e<script>&[x](y)\\n# no``";
        let expected = format!(
            "# Title\n\n## One\n\n{safe}\n\n- **label**: {safe}\n\n- {safe}\n\n````\nls `x`\n```\nend\n````\n\n*c*\n\n\
             | h | n |\n| --- | --- |\n| {code} | 3 |\n\n"
        );
        assert_eq!(document.markdown(), expected);
    }

    #[test]
    fn styles_hold_nothing_that_would_end_or_load_something() {
        for style in [STYLE, PLOT_STYLE] {
            // In XML a style is text, in HTML it is not: what means the same in both has none of these.
            assert!(!style.contains(['<', '>', '&']), "{style}");
            assert!(!style.contains("url(") && !style.contains("@import"), "{style}");
        }
    }

    #[test]
    fn page_is_xml_and_forbids_every_load() {
        let body = Blocks::of(|body| body.section("one", "One", |one| one.paragraph("x & y")));
        let document = Document { title: "a < b".to_owned(), program: "t", heading: "h", lead: Vec::new(), body };
        let text = document.html();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
        let parsed = roxmltree::Document::parse_with_options(&text, options).unwrap();
        let policy = parsed.descendants().find(|node| node.attribute("http-equiv").is_some()).unwrap();
        assert!(policy.attribute("content").unwrap().starts_with("default-src 'none'"));
        assert_eq!(parsed.descendants().find(|node| node.has_tag_name("title")).unwrap().text(), Some("a < b"));
    }
}
