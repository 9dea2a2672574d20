//! The beginning and the end of every output: program and subject, then findings, skipped parts, and the answer.
//! Also here: the answer that an output begins with, and repeats at its end where the beginning is out of
//! view.

use std::io::{self, Write};

use super::escape::printable;
use super::json::{BeginJson, FindingJson, Item, SCHEMA, SkippedJson, SummaryJson};
use super::sink::{CsvShape, Machine, Sink};
use super::start_words::StartWords;
use super::text::{Layout, wrapped, write_findings};
use crate::analysis::skipped::Coverage;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::facts::Tone;
use crate::report::{Finding, Severity};

/// Version of the programs, with the commit that they were built from.
pub(crate) const VERSION: &str = env!("PGFORENSICS_VERSION");

/// Starts a machine output.
///
/// # Errors
/// When the output cannot be written to.
pub fn begin<'a>(
    format: Machine,
    shape: CsvShape<'a>,
    out: &'a mut dyn Write,
    (tool, command): (&'static str, &'static str),
    paths: Vec<String>,
) -> io::Result<Sink<'a>> {
    let begin = BeginJson { tool, version: VERSION, schema: SCHEMA, command, paths };
    Sink::begin(format, shape, out, &begin)
}

/// Findings and coverage in the form that is printed.
#[derive(Debug)]
pub struct Closing {
    pub findings: Vec<FindingJson>,
    pub skipped: Vec<SkippedJson>,
    examined: u64,
    problems: usize,
    /// Things that were not examined and are not listed again.
    skipped_before: usize,
    answer: Answer,
}

impl Closing {
    /// Gathers what every output ends with.
    pub fn new(mut findings: Vec<Finding>, coverage: &Coverage) -> Self {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity == Severity::Problem));
        Self {
            problems: findings.iter().filter(|finding| finding.severity == Severity::Problem).count(),
            findings: findings.iter().map(FindingJson::from).collect(),
            skipped: coverage.skipped.iter().map(SkippedJson::from).collect(),
            examined: coverage.examined,
            skipped_before: 0,
            answer: Answer::of_findings(&findings, coverage),
        }
    }

    /// Continues after problems and skipped parts that were shown already.
    pub fn after(mut self, (problems, skipped): (usize, usize)) -> Self {
        self.problems = self.problems.saturating_add(problems);
        self.skipped_before = self.skipped_before.saturating_add(skipped);
        self.answering(Answer::of_counts(problems, skipped))
    }

    /// One for several inputs, each of which has a name that what belongs to it is shown with.
    pub(crate) fn of_several(parts: Vec<(String, Self)>) -> Self {
        let mut whole = Self::new(Vec::new(), &Coverage::default());
        for (name, part) in parts {
            let in_part =
                |file: Option<String>| Some(file.map_or_else(|| name.clone(), |file| format!("{name}: {file}")));
            let findings = part.findings.into_iter();
            whole.findings.extend(findings.map(|finding| FindingJson { file: in_part(finding.file), ..finding }));
            let skipped = part.skipped.into_iter();
            whole.skipped.extend(skipped.map(|skip| SkippedJson { what: format!("{name}: {}", skip.what), ..skip }));
            whole.examined = whole.examined.saturating_add(part.examined);
            whole.problems += part.problems;
            whole.skipped_before += part.skipped_before;
            whole.answer = whole.answer.max(part.answer);
        }
        whole.findings.sort_by_key(|finding| finding.severity != "problem");
        whole
    }

    /// Sets the answer of a run that depends on more than its findings.
    pub(crate) fn answering(self, answer: Answer) -> Self {
        Self { answer: self.answer.max(answer), ..self }
    }

    /// The answer, with findings and what was not examined counted in.
    pub const fn answer(&self) -> Answer {
        self.answer
    }

    pub const fn problems(&self) -> usize {
        self.problems
    }

    /// Ends a machine output: findings, skipped, summary.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn end(
        self,
        mut sink: Sink<'_>,
        shown: u64,
        counts: serde_json::Map<String, serde_json::Value>,
    ) -> io::Result<Answer> {
        let answer = self.answer();
        let (problems, skipped, examined) = (self.problems, self.skipped.len() + self.skipped_before, self.examined);
        for finding in self.findings {
            sink.item(&Item::Finding(finding))?;
        }
        for skipped in self.skipped {
            sink.item(&Item::Skipped(skipped))?;
        }
        sink.end(&SummaryJson { examined, shown, skipped, problems, exit_status: answer.status(), counts })?;
        Ok(answer)
    }

    /// Writes findings and what was not examined.
    pub(crate) fn write_text(&self, out: &mut dyn Write, layout: Layout) -> io::Result<()> {
        write_findings(out, layout, &self.findings, &self.skipped)
    }

    pub(crate) fn end_text(self, out: &mut dyn Write, layout: Layout) -> io::Result<Answer> {
        self.write_text(out, layout)?;
        out.flush()?;
        Ok(self.answer())
    }
}

/// Lines of output that fit on a screen together with the prompt.
const SCREEN_LINES: usize = 24;

/// Columns of the longest badge that shares its line.
const SHORT_BADGE: usize = 16;

/// A badge, and the sentence that matters most.
#[derive(Clone, Debug)]
pub(crate) struct Headline {
    pub(crate) badge: &'static str,
    pub(crate) tone: Tone,
    pub(crate) sentences: Vec<String>,
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
