//! A document as one file of HTML that loads nothing, runs nothing, and can be read on a screen, light or dark, and on paper.
//! It is valid as HTML and as XML.

use super::{Block, Blocks, Document, Line, ListKind, Span};
use crate::output::closing::VERSION;
use crate::output::markup::Markup;
use crate::output::plot::PLOT_STYLE;

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
                body.element("main", &[], |main| write_blocks(main, &self.body, false));
            });
        });
        page.finish()
    }
}

/// `is_inside`: in a section.
fn write_blocks(parent: &mut Markup, blocks: &Blocks, is_inside: bool) {
    for block in &blocks.0 {
        write_block(parent, block, is_inside);
    }
}

fn write_block(parent: &mut Markup, block: &Block, is_inside: bool) {
    match block {
        Block::Section { id, heading, content } => {
            let attributes = [("id", id.as_str()), ("class", "sheet")];
            let (attributes, title) = if is_inside { (&attributes[..], "h3") } else { (&attributes[..1], "h2") };
            parent.element("section", attributes, |section| {
                section.leaf(title, &[], heading);
                write_blocks(section, content, true);
            });
        }
        Block::StrongBox { class, heading, content } => {
            parent.element("section", &[("class", &format!("box {class}"))], |inner| {
                inner.leaf("h2", &[], heading);
                write_blocks(inner, content, true);
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
                        write_blocks(item, below, true);
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
            write_blocks(figure, below, true);
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
