//! Reports as pages: one file that loads nothing, runs nothing, and can be read on a screen, light or dark, and on paper.

mod closing;
pub mod crash;
mod parts;
pub mod wal;

pub use parts::{Cell, Table, commands, facts, figure, list, note, paragraph, section, strong_box, table};

use super::closing::VERSION;
use super::markup::Markup;
use super::plot::PLOT_STYLE;

/// What browsers may load and run for such a page: nothing but the style that is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const STYLE: &str = include_str!("page.css");

/// Who made the report, when, and how.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// The command line.
    pub command_line: String,
    /// When the report was made, ISO 8601 in UTC.
    pub time: String,
}

/// A page: valid as HTML and as XML. `contents`: the id and the heading of each section.
#[must_use]
pub fn page(
    title: &str,
    program: &str,
    contents: &[(&'static str, &'static str)],
    head: impl FnOnce(&mut Markup),
    body: impl FnOnce(&mut Markup),
) -> String {
    let mut page = Markup::new();
    page.constant("<!DOCTYPE html>\n");
    let root = [("xmlns", "http://www.w3.org/1999/xhtml"), ("lang", "en"), ("xml:lang", "en")];
    page.element("html", &root, |html| {
        html.element("head", &[], |head| {
            head.empty("meta", &[("charset", "utf-8")]);
            head.empty("meta", &[("http-equiv", "Content-Security-Policy"), ("content", POLICY)]);
            head.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
            head.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
            head.empty("meta", &[("name", "referrer"), ("content", "no-referrer")]);
            head.empty("meta", &[("name", "generator"), ("content", &format!("{program} {VERSION}"))]);
            head.leaf("title", &[], title);
            head.element("style", &[], |style| {
                style.constant(STYLE);
                style.constant(PLOT_STYLE);
            });
        });
        html.element("body", &[], |inner| {
            inner.element("header", &[], head);
            inner.element("nav", &[("aria-label", "Contents")], |nav| {
                nav.element("ul", &[], |list| {
                    for (id, heading) in contents {
                        list.element("li", &[], |item| item.leaf("a", &[("href", &format!("#{id}"))], heading));
                    }
                });
            });
            inner.element("main", &[], body);
        });
    });
    page.finish()
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
        let text = page(
            "a < b",
            "pg_test",
            &[("one", "One")],
            |_| {},
            |main| {
                section(main, "one", "One", |one| paragraph(one, "x & y"));
            },
        );
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
        let parsed = roxmltree::Document::parse_with_options(&text, options).unwrap();
        let policy = parsed.descendants().find(|node| node.attribute("http-equiv").is_some()).unwrap();
        assert!(policy.attribute("content").unwrap().starts_with("default-src 'none'"));
        assert_eq!(parsed.descendants().find(|node| node.has_tag_name("title")).unwrap().text(), Some("a < b"));
    }
}
