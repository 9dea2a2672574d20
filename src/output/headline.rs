//! The answer that an output begins with, and repeats at its end where the beginning is out of view.

use std::io::{self, Write};

use super::escape::printable;
use super::start_words::StartWords;
use super::text::{Layout, wrapped};
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::facts::Tone;

/// Lines of output that fit on a screen together with the prompt.
const SCREEN_LINES: usize = 24;

/// Columns of the longest badge that shares its line.
const SHORT_BADGE: usize = 16;

/// A badge, and the sentence that matters most.
#[derive(Clone, Debug)]
pub(crate) struct Headline {
    badge: &'static str,
    tone: Tone,
    sentences: Vec<String>,
    answer: Answer,
}

impl Headline {
    /// A good badge is one of doubt where the answer is not good.
    pub(crate) fn new(badge: &'static str, tone: Tone, sentences: Vec<String>, answer: Answer) -> Self {
        let tone = match (tone, answer) {
            (Tone::Good, Answer::Wrong | Answer::Uncertain) => Tone::Doubt,
            (tone, _) => tone,
        };
        Self { badge, tone, sentences, answer }
    }

    /// No damaged page was found: by the answer, something else was, or something was not checked.
    pub(crate) fn undamaged(sentences: Vec<String>, answer: Answer) -> Self {
        let (badge, tone) = match answer {
            Answer::Fine => ("NO DAMAGE FOUND", Tone::Good),
            Answer::Wrong => ("PROBLEMS FOUND", Tone::Doubt),
            Answer::Uncertain => ("INCOMPLETE", Tone::Doubt),
        };
        Self::new(badge, tone, sentences, answer)
    }

    pub(crate) fn of_start(start: &StartWords, answer: Answer) -> Self {
        Self::new(start.badge.label(), start.badge.tone(), start.sentences.clone(), answer)
    }

    /// The badge with the first sentence, the others below.
    pub(crate) fn write(&self, out: &mut dyn Write, layout: Layout) -> io::Result<()> {
        let painted = layout.paint.tone(self.tone, self.badge);
        let [first, rest @ ..] = self.sentences.as_slice() else { return writeln!(out, "{painted}") };
        if self.badge.len() > SHORT_BADGE {
            writeln!(out, "{painted}")?;
            wrapped(out, layout, "    ", 4, &printable(first))?;
        } else {
            wrapped(out, layout, &format!("{painted}   "), self.badge.len() + 3, &printable(first))?;
        }
        rest.iter().try_for_each(|sentence| wrapped(out, layout, "  ", 2, &printable(sentence)))
    }

    /// Writes the answer, then `rest`, then the exit status in words, after the badge where that is out of view.
    pub(crate) fn write_around(
        &self,
        out: &mut dyn Write,
        layout: Layout,
        rest: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut counted = CountedLines { out, lines: 0 };
        self.write(&mut counted, layout)?;
        rest(&mut counted)?;
        let lines = counted.lines;
        self.write_end(out, layout, lines)
    }

    /// The exit status in words, after the badge where `lines` came between.
    pub(crate) fn write_end(&self, out: &mut dyn Write, layout: Layout, lines: usize) -> io::Result<()> {
        let words = match self.answer {
            Answer::Fine => "no problem found",
            Answer::Wrong => "problems found",
            Answer::Uncertain => "something was not checked or is uncertain",
        };
        let badge = match lines > SCREEN_LINES {
            true => format!("{}   ", layout.paint.tone(self.tone, self.badge)),
            false => String::new(),
        };
        writeln!(out, "\n{badge}exit status {}: {words}", self.answer.status())
    }
}

/// Counts the lines that it passes on.
struct CountedLines<'a> {
    out: &'a mut dyn Write,
    lines: usize,
}

impl Write for CountedLines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        let newlines = bytes.iter().take(written).filter(|byte| **byte == b'\n').count();
        self.lines = self.lines.saturating_add(newlines);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
