//! Colours and characters. Sixteen colours at most, and none carries a meaning alone.

use std::borrow::Cow;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use crate::output::escape::printable;
use crate::output::text::wrapping;

/// How things are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Colours are used.
    pub colour: bool,
    /// Only ASCII characters are used.
    pub ascii: bool,
}

impl Look {
    fn coloured(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// What is right.
    #[must_use]
    pub fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    /// What is not certain.
    #[must_use]
    pub fn doubt(self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// What is wrong.
    #[must_use]
    pub fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What matters little.
    #[must_use]
    pub fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// A heading.
    #[must_use]
    pub fn heading(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// The image or batch with this number: neighbours differ. Its letter says which it is.
    #[must_use]
    pub fn number(self, at: usize) -> Style {
        const COLOURS: [Color; 5] = [Color::Cyan, Color::Magenta, Color::Yellow, Color::Blue, Color::Green];
        COLOURS.get(at % COLOURS.len()).map_or(Style::new(), |colour| self.coloured(*colour))
    }

    /// The selected line.
    #[must_use]
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A bar of `width` columns, filled by `share`; anything above zero is at least one column.
    #[must_use]
    pub fn bar(self, share: f64, width: usize) -> String {
        let full = ((share.clamp(0.0, 1.0) * width as f64).round() as usize).max(usize::from(share > 0.0)).min(width);
        let (on, off) = if self.ascii { ('#', '.') } else { ('█', '░') };
        std::iter::repeat_n(on, full).chain(std::iter::repeat_n(off, width - full)).collect()
    }

    /// One character that shows a share.
    #[must_use]
    pub fn level(self, share: Option<f64>) -> char {
        const FINE: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let Some(share) = share else { return ' ' };
        let at = |count: usize| ((share.clamp(0.0, 1.0) * count as f64) as usize).min(count - 1);
        if self.ascii { char::from(b'0' + u8::try_from(at(10)).unwrap_or(9)) } else { FINE[at(8)] }
    }

    /// The mark of the selected line.
    #[must_use]
    pub const fn pointer(self) -> &'static str {
        if self.ascii { ">" } else { "▶" }
    }

    /// What stands for text that was cut off.
    #[must_use]
    pub const fn ellipsis(self) -> char {
        if self.ascii { '~' } else { '…' }
    }

    /// Text that may come from disk, cut to `width` columns and harmless.
    #[must_use]
    pub fn cut(self, text: &str, width: usize) -> String {
        let text = self.plain(text);
        if columns(&text) <= width {
            return text;
        }
        let mut cut = String::new();
        let mut used = 0;
        for c in text.chars() {
            let wide = columns(c.encode_utf8(&mut [0; 4]));
            if used + wide + 1 > width {
                break;
            }
            cut.push(c);
            used += wide;
        }
        if width > 0 {
            cut.push(self.ellipsis());
        }
        cut
    }

    /// The same, filled with blanks.
    #[must_use]
    pub fn fit(self, text: &str, width: usize) -> String {
        let mut text = self.cut(text, width);
        text.extend(std::iter::repeat_n(' ', width.saturating_sub(columns(&text))));
        text
    }

    /// The same, at the right.
    #[must_use]
    pub fn fit_right(self, text: &str, width: usize) -> String {
        let text = self.cut(text, width);
        format!("{}{text}", " ".repeat(width.saturating_sub(columns(&text))))
    }

    /// The end of a text, filled with blanks: the end of a long name says more than its beginning.
    #[must_use]
    pub fn fit_end(self, text: &str, width: usize) -> String {
        let text = self.plain(text);
        if columns(&text) <= width {
            return self.fit(&text, width);
        }
        let mut skip = 1;
        while columns(&text.chars().skip(skip).collect::<String>()) + 1 > width && skip < text.len() {
            skip += 1;
        }
        self.fit(&format!("{}{}", self.ellipsis(), text.chars().skip(skip).collect::<String>()), width)
    }

    /// Harmless text; ASCII only where that is wanted.
    #[must_use]
    pub fn plain(self, text: &str) -> String {
        let text = printable(text);
        if !self.ascii || text.is_ascii() {
            return text;
        }
        text.chars().map(|c| if c.is_ascii() { c } else { ascii_for(c) }).collect()
    }

    /// Text broken into lines of at most `width` columns.
    #[must_use]
    pub fn wrap(self, text: &str, width: usize) -> Vec<String> {
        // A word longer than the line is broken: paths are.
        let text = self.plain(text);
        textwrap::wrap(&text, wrapping(width.max(8))).into_iter().map(Cow::into_owned).collect()
    }
}

fn ascii_for(c: char) -> char {
    match c {
        '█' => '#',
        '░' => '.',
        '…' => '~',
        '▁'..='▇' => '=',
        _ => '?',
    }
}

/// `1 page`, `2 pages`.
#[must_use]
pub fn pages(count: usize) -> String {
    if count == 1 { "1 page".to_owned() } else { format!("{count} pages") }
}

/// Columns that a text takes.
#[must_use]
pub fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Look = Look { colour: false, ascii: true };
    const FINE: Look = Look { colour: true, ascii: false };

    #[test]
    fn text_is_cut_by_columns_and_disarmed() {
        assert_eq!(FINE.fit("abc", 5), "abc  ");
        assert_eq!(FINE.cut("abcdef", 4), "abc…");
        assert_eq!(PLAIN.cut("abcdef", 4), "abc~");
        assert_eq!(FINE.fit_end("abcdef", 4), "…def");
        assert_eq!(FINE.fit_end("abc", 4), "abc ");
        assert_eq!(columns(&FINE.fit_end("日本語の表", 4)), 4);
        assert_eq!(columns(&FINE.fit("日本語の表", 7)), 7);
        assert_eq!(FINE.cut("a\u{1b}[2J", 20), "a\\u{1b}[2J");
        assert_eq!(PLAIN.cut("日本", 4), "??");
    }

    #[test]
    fn lines_never_exceed_the_width() {
        let text = "one two /a/very/long/path/that/does/not/fit three";
        for width in 8..40 {
            let lines = FINE.wrap(text, width);
            assert!(lines.iter().all(|line| columns(line) <= width), "{width}: {lines:?}");
            assert_eq!(lines.join("").replace(' ', ""), text.replace(' ', ""));
        }
    }

    #[test]
    fn bars_show_that_little_is_not_nothing() {
        assert_eq!(PLAIN.bar(0.0, 4), "....");
        assert_eq!(PLAIN.bar(0.001, 4), "#...");
        assert_eq!(PLAIN.bar(1.0, 4), "####");
    }
}
