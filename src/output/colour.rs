//! Colours for words that carry a judgement. Never the only carrier of a meaning.

use anstyle::{AnsiColor, Style};

/// Paints words, or leaves them plain.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// `on`: whether colours are written at all.
    #[must_use]
    pub const fn new(on: bool) -> Self {
        Self { on }
    }

    /// A word that is fine.
    #[must_use]
    pub fn good(self, text: &str) -> String {
        self.styled(text, AnsiColor::Green.on_default())
    }

    /// A word that wants attention.
    #[must_use]
    pub fn doubt(self, text: &str) -> String {
        self.styled(text, AnsiColor::Yellow.on_default())
    }

    /// A word that means damage.
    #[must_use]
    pub fn bad(self, text: &str) -> String {
        self.styled(text, AnsiColor::Red.on_default().bold())
    }

    /// A heading.
    #[must_use]
    pub fn heading(self, text: &str) -> String {
        self.styled(text, Style::new().bold())
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.styled(text, Style::new().dimmed())
    }

    fn styled(self, text: &str, style: Style) -> String {
        if self.on { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}
