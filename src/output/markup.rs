//! XML as it is written: every element is closed, and every text is escaped, so that nothing that comes from a disk can be
//! anything but text. What is made of it is HTML and XML at once.

use super::escape::printable;

/// Attributes of an element: name and value.
pub(crate) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// Elements that have no content in HTML; all others are closed by a tag of their own.
const VOID: [&str; 3] = ["meta", "br", "hr"];

/// Elements after which a line ends, so that the source can be read.
const LINES: [&str; 20] = [
    "meta", "title", "style", "head", "header", "nav", "section", "h1", "h2", "h3", "p", "dl", "dd", "table", "tr",
    "ul", "li", "figure", "svg", "pre",
];

/// A piece of a document that is being written.
#[derive(Clone, Debug, Default)]
pub struct Markup {
    text: String,
}

impl Markup {
    pub const fn new() -> Self {
        Self { text: String::new() }
    }

    pub fn finish(self) -> String {
        self.text
    }

    /// An element with what `content` writes in it.
    pub(crate) fn element(&mut self, name: &'static str, attributes: Attributes<'_>, content: impl FnOnce(&mut Self)) {
        self.begin(name, attributes);
        if VOID.contains(&name) {
            self.text.push_str("/>");
        } else {
            self.text.push('>');
            content(self);
            self.text.push_str("</");
            self.text.push_str(name);
            self.text.push('>');
        }
        if LINES.contains(&name) {
            self.text.push('\n');
        }
    }

    pub(crate) fn leaf(&mut self, name: &'static str, attributes: Attributes<'_>, text: &str) {
        self.element(name, attributes, |inner| inner.text(text));
    }

    /// An element without content.
    pub fn empty(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.element(name, attributes, |_| {});
    }

    /// Text. Characters that control something or mislead are written as escapes.
    pub fn text(&mut self, text: &str) {
        self.escaped(text);
    }

    pub fn piece(&mut self, piece: &Self) {
        self.text.push_str(&piece.text);
    }

    /// A constant of this program, as it is: a style sheet, the first line of a document.
    pub(crate) fn constant(&mut self, text: &'static str) {
        self.text.push_str(text);
    }

    fn begin(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.text.push('<');
        self.text.push_str(name);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.escaped(value);
            self.text.push('"');
        }
    }

    fn escaped(&mut self, text: &str) {
        for c in printable(text).chars() {
            match c {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\'' => self.text.push_str("&#39;"),
                // No character of XML.
                '\u{fffe}' | '\u{ffff}' => self.text.extend(c.escape_default()),
                c => self.text.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_stays_text() {
        let hostile = "<script>alert(1)</script>\"&'\u{1b}[2J\u{0}\u{ffff}\u{202e}\n]]>";
        let mut markup = Markup::new();
        markup.element("p", &[("title", hostile)], |inner| inner.text(hostile));
        let text = markup.finish();
        let parsed = roxmltree::Document::parse(&text).unwrap();
        let shown = "<script>alert(1)</script>\"&'\\u{1b}[2J\\u{0}\\u{ffff}\\u{202e}\\n]]>";
        let root = parsed.root_element();
        assert_eq!((root.text(), root.attribute("title")), (Some(shown), Some(shown)));
        assert_eq!(root.descendants().filter(roxmltree::Node::is_element).count(), 1);
    }

    #[test]
    fn elements_are_those_of_html_and_of_xml() {
        let mut markup = Markup::new();
        markup.element("td", &[], |inner| {
            inner.empty("br", &[]);
            inner.empty("td", &[("class", "x")]);
            inner.text("a b");
        });
        assert_eq!(markup.finish(), "<td><br/><td class=\"x\"></td>a b</td>");
    }
}
