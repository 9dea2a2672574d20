//! Text of a check: the state, the prediction of startup, the next steps, then each page.

use std::io::{self, Write};

use super::json::page::outcome_name;
#[cfg(feature = "tables")]
use super::table::{plain_table, write_table};
use super::text::{Layout, wrapped, write_fact};
use crate::analysis::changes::needed::OnStart;
use crate::analysis::changes::sectors::TearMap;
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::dwb::slots::SlotRef;
use crate::analysis::start::replay::{Recovery, Replay};
use crate::analysis::verdict::candidate::{ImageSource, Judged};
use crate::analysis::verdict::evidence::Weight;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::survey::PageReport;
use crate::output::escape::printable;
use crate::output::text::Paint;
use crate::parsers::dwb::patch::short_name;
use crate::types::{BlockNumber, ForkNumber, PageId};

pub(crate) type Label<'a> = &'a dyn Fn(PageId) -> String;

/// `fork block`, the fork left out where it is the main one.
pub(crate) fn block_label(page: PageId) -> String {
    match page.fork {
        ForkNumber::Main => page.block.to_string(),
        fork => format!("{fork} {}", page.block),
    }
}

/// A run of blocks, the fork in front where it is not the main one.
pub(crate) fn block_words(fork: ForkNumber, first: BlockNumber, last: BlockNumber) -> String {
    let blocks = if first == last { first.to_string() } else { format!("{first}-{last}") };
    match fork {
        ForkNumber::Main => blocks,
        fork => format!("{fork} {blocks}"),
    }
}

/// A page in a sentence: what its relation is called, the fork where it is not the main one, and the block.
pub(crate) fn page_title(called: &str, page: PageId) -> String {
    match page.fork {
        ForkNumber::Main => format!("{called} block {}", page.block),
        fork => format!("{called} {fork} block {}", page.block),
    }
}

/// Where replay begins and ends; `None` when not even the beginning is known.
pub(crate) fn replay_words(replay: &Replay) -> Option<String> {
    let redo = replay.redo_lsn?;
    Some(match replay.end_lsn {
        _ if !replay.recovery.replays() && replay.recovery != Recovery::Unknown => {
            format!("none needed: the server continues from the checkpoint at {redo}")
        }
        Some(end) => format!("{redo} to {end}, end of WAL"),
        None => format!("from {redo}; the end of WAL is unknown"),
    })
}

/// Which half of a page was written, and the byte at which it is torn.
pub(crate) fn tear_words(report: &PageReport) -> String {
    report.tear.as_ref().map_or_else(|| "-".to_owned(), |tear| format!("{} {}", tear.direction.name(), tear.break_at()))
}

/// Where an image comes from, in a few characters.
pub(crate) fn image_words(judged: &Judged) -> String {
    let lsn = judged.candidate.page_lsn;
    match &judged.candidate.source {
        ImageSource::Dwb { file, slot_index, .. } => {
            format!("slot {}:{slot_index} {lsn}", short_name(file))
        }
        ImageSource::Wal { .. } => format!("WAL {lsn}"),
        ImageSource::Donor { .. } => format!("donor {lsn}"),
        ImageSource::Rebuilt(_) => format!("rebuilt {lsn}"),
    }
}

/// A verdict, painted by its tone.
pub(crate) fn verdict_word(paint: Paint, verdict: Verdict) -> String {
    paint.tone(verdict.facts().tone, verdict.facts().label)
}

/// One piece of evidence about a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvidencePart {
    /// A label, empty where the one before continues, and a value.
    Fact(&'static str, String),
    /// The verdict, and where the chosen image comes from.
    Verdict(Verdict, Option<String>),
    /// An image.
    Image(String),
    /// A step of the proof for that image.
    Step(Weight, String),
}

/// The evidence for one page, in the order in which it is read.
pub fn evidence_parts(report: &PageReport) -> Vec<EvidencePart> {
    use EvidencePart::{Fact, Verdict};
    let disk = report.disk.name();
    let on_disk = if report.is_wrong { format!("{disk} ({})", report.strength.name()) } else { disk.to_owned() };
    let mut parts = vec![Fact("on disk", on_disk)];
    parts.extend(report.damage.iter().map(|what| Fact("", what.to_string())));
    if let Some(lsn) = report.disk_lsn {
        parts.push(Fact("LSN on disk", lsn.to_string()));
    }
    if let Some(tear) = &report.tear {
        let line = sector_line(report);
        parts.push(Fact("sectors of 512 bytes", format!("{line}  (letter: image, 0: zero, .: none)")));
        let (first, last) = (tear.boundary.start, tear.boundary.end);
        let at = if first == last { format!("at byte {first}") } else { format!("between bytes {first} and {last}") };
        parts.push(Fact("tear", format!("{} written, torn {at}", tear.direction.name())));
    }
    if report.is_wrong {
        parts.push(Fact("without repair", on_start_words(report)));
    }
    let verdict = &report.verdict;
    let chosen = verdict.chosen.and_then(|index| verdict.candidates.get(index));
    parts.push(Verdict(verdict.verdict, chosen.map(|judged| judged.candidate.source.to_string())));
    if verdict.chosen.is_none() {
        let own = verdict.reasons.iter().filter(|reason| !reason.is_of_rebuild());
        parts.extend(own.map(|reason| Fact("", reason.to_string())));
    }
    if let Some(rebuild) = &report.rebuild {
        let words = rebuild.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        parts.push(Fact("rebuild", words));
    }
    if let Some(failure) = &report.build_failure {
        parts.push(Fact("not rebuilt", failure.to_string()));
    }
    for (index, judged) in verdict.candidates.iter().enumerate() {
        parts.push(EvidencePart::Image(candidate_line(judged, index, verdict.chosen == Some(index))));
        parts.extend(judged.steps.iter().map(|step| EvidencePart::Step(step.weight, step.statement.to_string())));
    }
    parts
}

fn candidate_line(judged: &Judged, index: usize, is_chosen: bool) -> String {
    let candidate = &judged.candidate;
    let (count, all) = (candidate.sectors_matching, candidate.marks.len());
    format!(
        "{} {}: LSN {}, {count} of {all} sectors as on disk, {}{}",
        letter(index),
        candidate.source,
        candidate.page_lsn,
        outcome_name(judged.outcome),
        if is_chosen { ", chosen" } else { "" },
    )
}

/// The mark in front of a step of a proof.
pub(crate) const fn weight_mark(weight: Weight) -> char {
    match weight {
        Weight::Supports => '+',
        Weight::Notes => '.',
        Weight::Missing => '?',
        Weight::Loses | Weight::Against => '-',
    }
}

pub(crate) fn write_evidence(out: &mut dyn Write, layout: Layout, report: &PageReport, title: &str) -> io::Result<()> {
    let paint = layout.paint;
    writeln!(out, "\n{}", paint.heading(&printable(title)))?;
    for part in evidence_parts(report) {
        match part {
            EvidencePart::Fact(label, value) => write_fact(out, layout, label, &value)?,
            EvidencePart::Verdict(verdict, source) => {
                let source = source.map_or_else(String::new, |source| format!(": {}", printable(&source)));
                writeln!(out, "  {:<24} {}{source}", "verdict", verdict_word(paint, verdict))?;
            }
            EvidencePart::Image(words) => writeln!(out, "  {}", printable(&words))?,
            EvidencePart::Step(weight, words) => {
                let mark = weight_mark(weight).to_string();
                let mark = match weight {
                    Weight::Supports => paint.good(&mark),
                    Weight::Notes => paint.faint(&mark),
                    Weight::Missing => paint.doubt(&mark),
                    Weight::Loses | Weight::Against => paint.bad(&mark),
                };
                wrapped(out, layout, &format!("    {mark} "), 6, &printable(&words))?;
            }
        }
    }
    Ok(())
}

/// Letter by which an image is called in the sector map.
pub fn letter(index: usize) -> char {
    const LETTERS: &[u8; 26] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    LETTERS.get(index).map_or('*', |byte| char::from(*byte))
}

/// One character a sector: the letter of the image that it equals, the newer first; `0` all zero, `.` of none.
pub(crate) fn sector_line(report: &PageReport) -> String {
    let Some(tear) = &report.tear else { return String::new() };
    let count = report.verdict.candidates.len();
    sector_signs(tear, |index| if index < count { letter(index) } else { '0' })
}

/// One character a sector: the sign of the image that it equals, the newer first; `.` of none.
pub(crate) fn sector_signs(tear: &TearMap, sign: impl Fn(usize) -> char) -> String {
    let best = |list: &Vec<usize>| {
        let preferred = [tear.newer, tear.older].into_iter().flatten().find(|index| list.contains(index));
        preferred.or(list.first().copied()).map_or('.', &sign)
    };
    tear.sources.iter().map(best).collect()
}

fn on_start_words(report: &PageReport) -> String {
    match &report.verdict.on_start {
        _ if report.is_overwritten => {
            "before recovery, a server in mode double_writes overwrites the page with its newest image, even an older one"
                .to_owned()
        }
        OnStart::Harmless => "harmless: nothing reads the page before it is overwritten, removed or reset".to_owned(),
        OnStart::Read { lsn } if report.server_takes.is_some() => {
            format!("recovery reads it at {lsn} and stops, unless the double write buffer has an image")
        }
        OnStart::Read { lsn } => format!("recovery reads it at {lsn} and stops"),
        OnStart::Unnoticed { lsn } => format!("recovery changes it at {lsn} without noticing the damage"),
        OnStart::PassedOver { lsn } => format!(
            "recovery finds no page at {lsn} and skips this and all later changes: they are lost; a standby or the \
             recovery of a backup stops there instead"
        ),
        OnStart::Dies { lsn, record, .. } => {
            format!("at {lsn} ({record}) recovery expects the page to exist, and the server crashes")
        }
        OnStart::TakenForEmpty => {
            "recovery does not touch it; the server treats it as empty, but it stays damaged on disk until it is rewritten"
                .to_owned()
        }
        OnStart::Later => "recovery does not touch it; queries that read it fail or return wrong rows".to_owned(),
        OnStart::Unknown => "unknown".to_owned(),
    }
}

/// How many images compare with their pages in which way, and how many pages that is: a buffer may hold several of one;
/// `None` when there are no slots.
pub(crate) fn compared_words(slots: &[SlotRef]) -> Option<String> {
    let mut counts = [(0_usize, 0_usize); Comparison::ALL.len()];
    // Slots of one page follow each other.
    for of_page in slots.chunk_by(|one, other| one.page == other.page) {
        for ((images, pages), word) in counts.iter_mut().zip(Comparison::ALL) {
            let count = of_page.iter().filter(|slot| slot.comparison == Some(word)).count();
            *images += count;
            *pages += usize::from(count > 0);
        }
    }
    let words = |(word, (images, pages)): (Comparison, (usize, usize))| match (images, pages) {
        (0, _) => None,
        (images, pages) if images == pages => Some(format!("{images} {}", word.name())),
        (images, 1) => Some(format!("{images} {} (of 1 page)", word.name())),
        (images, pages) => Some(format!("{images} {} (of {pages} pages)", word.name())),
    };
    let parts: Vec<String> = Comparison::ALL.into_iter().zip(counts).filter_map(words).collect();
    (!slots.is_empty()).then(|| parts.join(", "))
}

pub(crate) fn page_and_path(called: &str, page: PageId, path: &str) -> String {
    format!("{} ({path})", page_title(called, page)).trim_start().to_owned()
}

/// Every compared slot, one line each.
#[cfg(feature = "tables")]
pub(crate) fn write_slots(
    out: &mut dyn Write,
    layout: Layout,
    slots: &[SlotRef],
    name: Label<'_>,
    file_name: &dyn Fn(usize) -> String,
) -> io::Result<()> {
    if slots.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading("Images compared with pages"))?;
    let mut table = plain_table(&["relation", "block", "slot", "LSN", "disk"]);
    for slot in slots {
        let file = file_name(slot.file);
        table.add_row([
            printable(&name(slot.page)),
            block_label(slot.page),
            format!("{}:{}", short_name(&file), slot.index),
            slot.page_lsn.to_string(),
            slot.comparison.map_or("not compared", Comparison::name).to_owned(),
        ]);
    }
    write_table(out, &table)
}
