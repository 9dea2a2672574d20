//! Colours for words that carry a judgement. Never the only carrier of a meaning.

use crate::analysis::verdict::facts::Tone;

/// Paints words, or leaves them plain.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// `on`: whether colours are written at all.
    pub const fn new(on: bool) -> Self {
        Self { on }
    }

    /// A word that is fine.
    pub fn good(self, text: &str) -> String {
        self.styled(text, "\x1b[32m")
    }

    /// A word that wants attention.
    pub fn doubt(self, text: &str) -> String {
        self.styled(text, "\x1b[33m")
    }

    /// A word that means damage.
    pub fn bad(self, text: &str) -> String {
        self.styled(text, "\x1b[1m\x1b[31m")
    }

    /// A heading.
    pub fn heading(self, text: &str) -> String {
        self.styled(text, "\x1b[1m")
    }

    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Quiet => text.to_owned(),
            Tone::Good => self.good(text),
            Tone::Doubt => self.doubt(text),
            Tone::Loss => self.styled(text, "\x1b[1m\x1b[35m"),
            Tone::Bad => self.bad(text),
        }
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.styled(text, "\x1b[2m")
    }

    fn styled(self, text: &str, style: &str) -> String {
        if self.on { format!("{style}{text}\x1b[0m") } else { text.to_owned() }
    }
}
