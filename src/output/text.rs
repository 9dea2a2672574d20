//! Text for people: slot lines, facts, findings.
//! Also here: colours for words that carry a judgement. Never the only carrier of a meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::escape::printable;
use super::json::{BatchJson, FindingJson, SkippedJson, SlotJson};
use crate::analysis::dwb::format::{RingFact, RingSummary};
use crate::analysis::verdict::facts::Tone;
use crate::cluster::dwb_files::DwbSet;
use crate::parsers::dwb::patch::short_name;

/// Width from which on a slot line shows its image's header too.
const WIDE: u16 = 120;

/// Problems of one kind that text lists one by one.
const MAX_PROBLEMS: usize = 4;

/// Skipped things that text lists one by one.
const MAX_SKIPPED: usize = 10;

/// Notes of one kind that text lists one by one.
pub(crate) const MAX_NOTES: usize = 2;

/// How text is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Columns of the terminal.
    pub width: u16,
    /// Colours.
    pub paint: Paint,
}

/// Writes slot lines as they come; nothing is kept but the run of empty slots.
#[derive(Debug)]
pub(crate) struct SlotLines {
    layout: Layout,
    several_files: bool,
    relation_columns: usize,
    empty: Option<(String, u64, u64)>,
}

impl SlotLines {
    /// Starts a listing. `several_files`: slots are named `file:slot`; `relation_columns`: those of the widest name.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn begin(
        out: &mut dyn Write,
        layout: Layout,
        several_files: bool,
        relation_columns: usize,
    ) -> io::Result<Self> {
        let wide = relation_columns.max(15);
        let mut heading = format!(
            "{:<8} {:<wide$} {:<4} {:>7} {:>10} {:>10} {:<4} {:<5} {:<9}",
            "slot", "relation", "fork", "block", "slot lsn", "page lsn", "crc", "image", "batch"
        );
        if layout.width >= WIDE {
            heading.push_str(&format!(" {:<10} {:<13} {:>5} {:>17}", "page", "lower-upper", "items", "written by"));
        }
        writeln!(out, "{}", layout.paint.heading(heading.trim_end()))?;
        Ok(Self { layout, several_files, relation_columns: wide, empty: None })
    }

    /// Writes one slot, or keeps it when it is one of a run of empty ones.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn slot(&mut self, out: &mut dyn Write, slot: &SlotJson) -> io::Result<()> {
        if slot.state == "empty" {
            match &mut self.empty {
                Some((file, _, last)) if *file == slot.file && *last + 1 == slot.slot_index => *last += 1,
                _ => {
                    self.end_of_run(out)?;
                    self.empty = Some((slot.file.clone(), slot.slot_index, slot.slot_index));
                }
            }
            return Ok(());
        }
        self.end_of_run(out)?;
        let paint = self.layout.paint;
        let numbers = || format!("{}/{}/{}", slot.spc_oid, slot.db_oid, slot.rel_number);
        let relation = slot.relation.as_deref().map_or_else(numbers, printable);
        let wide = self.relation_columns;
        let crc = match slot.crc {
            Some("good") => paint.good("good"),
            Some("bad") => paint.bad("bad "),
            _ => paint.doubt("none"),
        };
        let image = slot.page_checksum.unwrap_or("-");
        let batch = match slot.batch {
            Some("current") => paint.good("current  "),
            Some("stale") => paint.faint("stale    "),
            Some(_) => paint.doubt("undecided"),
            None => "-        ".to_owned(),
        };
        let mut line = format!(
            "{:<8} {relation:<wide$} {:<4} {:>7} {:>10} {:>10} {crc} {image:<5} {batch}",
            self.name(&slot.file, slot.slot_index),
            slot.fork.as_deref().unwrap_or("-"),
            slot.block,
            slot.slot_lsn,
            slot.page_lsn,
        );
        if self.layout.width >= WIDE {
            let space = format!("{}-{}", slot.pd_lower, slot.pd_upper);
            let by = slot.written_by.unwrap_or("-");
            let kind = slot.page_kind.unwrap_or("-");
            line.push_str(&format!(" {kind:<10} {space:<13} {:>5} {by:>17}", slot.line_pointers));
        }
        writeln!(out, "{}", line.trim_end())?;
        for fault in &slot.faults {
            writeln!(out, "          {}", paint.bad(&printable(fault)))?;
        }
        Ok(())
    }

    /// Ends the listing.
    pub(crate) fn end_of_run(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Some((file, first, last)) = self.empty.take() {
            let slots =
                if first == last { self.name(&file, first) } else { format!("{}-{last}", self.name(&file, first)) };
            writeln!(out, "{slots:<16} {}", self.layout.paint.faint(&format!("never written ({})", last - first + 1)))?;
        }
        Ok(())
    }

    fn name(&self, file: &str, index: u64) -> String {
        if self.several_files { format!("{}:{index}", printable(short_name(file))) } else { index.to_string() }
    }
}

/// Adds a note if the buffer belongs to a kind of server that must be built.
pub(crate) fn write_described(out: &mut dyn Write, set: &DwbSet) -> io::Result<()> {
    if set.is_of_built_server() {
        writeln!(out, "This layout was seen on a server built from its published source.\n")?;
    }
    Ok(())
}

/// Facts about a buffer as a whole, a line each.
pub(crate) fn write_rings(out: &mut dyn Write, layout: Layout, summaries: &[RingSummary]) -> io::Result<()> {
    for summary in summaries {
        writeln!(out, "{}", layout.paint.heading(&format!("Double write buffer {}", summary.format)))?;
        for (name, fact) in &summary.facts {
            let value = match fact {
                RingFact::Number(number) => number.to_string(),
                RingFact::Flag(true) => "yes".to_owned(),
                RingFact::Flag(false) => "no".to_owned(),
                RingFact::Code(code) => code.replace('_', " "),
                RingFact::Unknown => "unknown".to_owned(),
            };
            write_fact(out, layout, &name.replace('_', " "), &value)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Batches, two lines each.
pub(crate) fn write_batches(out: &mut dyn Write, layout: Layout, batches: &[BatchJson]) -> io::Result<()> {
    let paint = layout.paint;
    let heading = format!(
        "{:<9} {:<8} {:>6}  {:<9} {:<9} {:>11} {:>11}",
        "batch", "confidence", "slots", "first", "last", "lowest lsn", "highest lsn"
    );
    writeln!(out, "{}", paint.heading(&heading))?;
    for batch in batches {
        let name = format!("{:<9}", batch.batch);
        let name = match batch.batch {
            "current" => paint.good(&name),
            "stale" => paint.faint(&name),
            _ => paint.doubt(&name),
        };
        writeln!(
            out,
            "{name} {:<8} {:>6}  {:<9} {:<9} {:>11} {:>11}",
            batch.confidence,
            batch.slots,
            short_slot(&batch.first_slot),
            short_slot(&batch.last_slot),
            batch.lowest_lsn,
            batch.highest_lsn,
        )?;
        let more = if batch.relations > batch.top_relations.len() { ", …" } else { "" };
        let by = match batch.written_by {
            "mixed" => format!("checkpoint {}, eviction {}", batch.from_checkpoint, batch.from_eviction),
            other => other.to_owned(),
        };
        let noun = if batch.relations == 1 { "relation" } else { "relations" };
        let named: Vec<String> = batch.top_names.iter().map(|name| printable(name)).collect();
        let relations = format!("{} {noun}: {}{more}", batch.relations, named.join(", "));
        wrapped(out, layout, "          ", 10, &relations)?;
        let by = match batch.written_by {
            "unknown" => format!("writer unknown, longest ascending run {}", batch.longest_ascending_run),
            _ => format!("written by {by} (according to page checksums)"),
        };
        wrapped(out, layout, "          ", 10, &by)?;
    }
    Ok(())
}

fn short_slot(slot: &str) -> String {
    printable(short_name(slot))
}

/// Findings and what was skipped.
pub(crate) fn write_findings(
    out: &mut dyn Write,
    layout: Layout,
    findings: &[FindingJson],
    skipped: &[SkippedJson],
) -> io::Result<()> {
    write_problems(out, layout, "Problems", findings)?;
    let notes = findings.iter().filter(|finding| finding.severity != "problem");
    write_listed(out, layout, "Notes", notes, MAX_NOTES)?;
    write_skips(out, layout, skipped)
}

/// Notes among the evidence, without their reasons unless `explain`.
pub(crate) fn write_note_facts<'a>(
    out: &mut dyn Write,
    layout: Layout,
    findings: impl IntoIterator<Item = &'a FindingJson>,
    explain: bool,
) -> io::Result<()> {
    let mut fact = |label: &str, words: &str| write_short_fact(out, layout, label, words);
    let notes = findings.into_iter().filter(|finding| finding.severity != "problem");
    let (shown, further) = first_of_each_kind(notes, MAX_NOTES);
    for note in shown {
        fact("note", &format!("{}{}", location_words(note), note.what))?;
        if explain {
            fact("", &note.why)?;
        }
    }
    further.iter().try_for_each(|(kind, count)| fact("note", &further_words(kind, *count)))
}

/// A fact of the evidence: a short label and its value.
pub(crate) fn write_short_fact(out: &mut dyn Write, layout: Layout, label: &str, words: &str) -> io::Result<()> {
    wrapped(out, layout, &format!("  {label:<11}"), 13, &printable(words))
}

/// Problems below a heading; nothing if the list is empty.
pub(crate) fn write_problems(
    out: &mut dyn Write,
    layout: Layout,
    heading: &str,
    findings: &[FindingJson],
) -> io::Result<()> {
    let problems = findings.iter().filter(|finding| finding.severity == "problem");
    write_listed(out, layout, heading, problems, MAX_PROBLEMS)
}

/// Findings below a heading, at most so many of a kind.
fn write_listed<'a>(
    out: &mut dyn Write,
    layout: Layout,
    heading: &str,
    findings: impl Iterator<Item = &'a FindingJson>,
    most: usize,
) -> io::Result<()> {
    let (shown, further) = first_of_each_kind(findings, most);
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading(heading))?;
    let mut explained = BTreeSet::new();
    for finding in shown {
        write_finding(out, layout, finding, explained.insert((finding.kind.as_ref(), finding.why.as_ref())))?;
    }
    further.iter().try_for_each(|(kind, count)| write_further(out, layout, kind, *count))
}

/// The findings to show, kind by kind, at most so many of each, and how many more there are of which kind.
fn first_of_each_kind<'a>(
    findings: impl Iterator<Item = &'a FindingJson>,
    most: usize,
) -> (Vec<&'a FindingJson>, Vec<(&'a str, usize)>) {
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut shown = Vec::new();
    for finding in findings {
        let count = counts.entry(finding.kind.as_ref()).or_default();
        *count += 1;
        if *count <= most {
            shown.push(finding);
        }
    }
    let mut first_seen = BTreeMap::<&str, usize>::new();
    for (at, finding) in shown.iter().enumerate() {
        first_seen.entry(finding.kind.as_ref()).or_insert(at);
    }
    shown.sort_by_key(|finding| first_seen.get(finding.kind.as_ref()).copied());
    let further = counts.into_iter().filter(|(_, count)| *count > most).map(|(kind, count)| (kind, count - most));
    (shown, further.collect())
}

/// Where a finding is, to stand before it.
pub(crate) fn location_words(finding: &FindingJson) -> String {
    match (&finding.file, &finding.offset) {
        (Some(file), Some(offset)) => format!("{} at {offset}: ", printable(file)),
        (Some(file), None) => format!("{}: ", printable(file)),
        (None, _) => String::new(),
    }
}

pub(crate) fn further_words(kind: &str, rest: usize) -> String {
    format!("and {rest} more of kind {kind} (--format json lists them all)")
}

/// Files and pages that were not checked, below a heading; nothing if the list is empty.
pub(crate) fn write_skips(out: &mut dyn Write, layout: Layout, skipped: &[SkippedJson]) -> io::Result<()> {
    if skipped.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading("Not checked"))?;
    if skipped.len() > MAX_SKIPPED {
        writeln!(out, "  {} in all; the first {MAX_SKIPPED}:", skipped.len())?;
    }
    for skipped in skipped.iter().take(MAX_SKIPPED) {
        wrapped(out, layout, "  ", 2, &format!("{}: {}", printable(&skipped.what), printable(&skipped.reason)))?;
    }
    Ok(())
}

/// Writes that there are more findings of a kind than were listed.
pub(crate) fn write_further(out: &mut dyn Write, layout: Layout, kind: &str, rest: usize) -> io::Result<()> {
    wrapped(out, layout, "  ", 2, &further_words(kind, rest))
}

/// Writes one finding, with its severity as the colour of its mark, and its reason if `explains`.
pub(crate) fn write_finding(
    out: &mut dyn Write,
    layout: Layout,
    finding: &FindingJson,
    explains: bool,
) -> io::Result<()> {
    let paint = layout.paint;
    let mark = if finding.severity == "problem" { paint.bad("-") } else { paint.doubt("-") };
    wrapped(
        out,
        layout,
        &format!("  {mark} "),
        4,
        &format!("{}{}", location_words(finding), printable(&finding.what)),
    )?;
    if explains { wrapped(out, layout, "    ", 4, &finding.why) } else { Ok(()) }
}

/// Writes one thing that was not examined, among other lines.
pub(crate) fn write_skipped(out: &mut dyn Write, layout: Layout, skipped: &SkippedJson) -> io::Result<()> {
    let lead = format!("  {}  ", layout.paint.doubt("not examined"));
    wrapped(out, layout, &lead, 16, &format!("{}: {}", printable(&skipped.what), printable(&skipped.reason)))
}

pub(crate) fn write_fact(out: &mut dyn Write, layout: Layout, label: &str, value: &str) -> io::Result<()> {
    wrapped(out, layout, &format!("  {label:<24} "), 27, &printable(value))
}

/// A label and a command, which is never broken over lines: it is there to be copied.
pub(crate) fn write_command(out: &mut dyn Write, label: &str, command: &str) -> io::Result<()> {
    writeln!(out, "  {label:<24} {}", printable(command))
}

/// Writes words after `lead`, broken at the width, further lines indented.
///
/// # Errors
/// When the output cannot be written to.
pub fn wrapped(out: &mut dyn Write, layout: Layout, lead: &str, indent: usize, text: &str) -> io::Result<()> {
    let room = usize::from(layout.width).saturating_sub(indent).max(20);
    // A path or a name that is broken could not be copied.
    let lines = textwrap::wrap(text, wrapping(room).break_words(false));
    writeln!(out, "{lead}{}", lines.join(&format!("\n{:indent$}", "")))
}

/// How words are broken over lines of at most `width` columns: at spaces alone.
pub(crate) fn wrapping(width: usize) -> textwrap::Options<'static> {
    textwrap::Options::new(width).word_splitter(textwrap::WordSplitter::NoHyphenation)
}

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
