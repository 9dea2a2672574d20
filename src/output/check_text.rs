//! What a check says to people: the state, what a start would bring, what to do, then page by page.

use std::io::{self, Write};

use super::json::page::outcome_name;
#[cfg(feature = "tables")]
use super::table::{plain_table, write_table};
use super::text::{Layout, wrapped, write_fact};
use crate::analysis::verdict::backup::BackupEnd;
use crate::analysis::verdict::candidate::{ImageSource, Judged};
use crate::analysis::verdict::compare::Comparison;
use crate::analysis::verdict::doubt::Doubt;
use crate::analysis::verdict::evidence::Weight;
use crate::analysis::verdict::judge::{OnStart, Verdict};
use crate::analysis::verdict::outlook::{Obstacle, Outlook, Start};
use crate::analysis::verdict::replay::{Recovery, Replay};
use crate::analysis::verdict::sectors::TearMap;
use crate::analysis::verdict::slots::SlotRef;
use crate::analysis::verdict::survey::PageReport;
use crate::output::colour::Paint;
use crate::output::escape::printable;
use crate::parsers::dwb::patch::short_name;
use crate::types::{ForkNumber, Lsn, PageId};

/// Pages that are named one by one in a sentence.
const MAX_PAGES_IN_WORDS: usize = 3;

/// How a page is called: by name where there is one.
pub(crate) type Label<'a> = &'a dyn Fn(PageId) -> String;

/// `fork block`, the fork left out where it is the main one.
pub(crate) fn block_label(page: PageId) -> String {
    match page.fork {
        ForkNumber::Main => page.block.to_string(),
        fork => format!("{fork} {}", page.block),
    }
}

/// A page in a sentence: what its relation is called, the fork where it is not the main one, and the block.
pub(crate) fn page_title(called: &str, page: PageId) -> String {
    match page.fork {
        ForkNumber::Main => format!("{called} block {}", page.block),
        fork => format!("{called} {fork} block {}", page.block),
    }
}

/// Where replay begins and ends, and what a start brings.
pub(crate) fn write_outlook(
    out: &mut dyn Write,
    layout: Layout,
    replay: &Replay,
    outlook: &Outlook,
    pages: &[PageReport],
    label: Label<'_>,
) -> io::Result<()> {
    if let Some(words) = replay_words(replay) {
        write_fact(out, layout, "replay", &words)?;
    }
    write_fact(out, layout, "if started now", &start_sentence(replay, outlook, pages, label))?;
    write_fact(out, layout, "settings", "not examined (the server checks them when it starts)")?;
    for doubt in &replay.doubts {
        write_fact(out, layout, "doubt", &doubt.to_string())?;
    }
    Ok(())
}

/// Where replay begins and ends; `None` when not even the beginning is known.
pub(crate) fn replay_words(replay: &Replay) -> Option<String> {
    let redo = replay.redo_lsn?;
    Some(match replay.end_lsn {
        _ if !replay.recovery.replays() && replay.recovery != Recovery::Unknown => {
            format!("none: the server continues from the last checkpoint, at {redo}")
        }
        Some(end) => format!("from {redo} to {end}, the end of valid WAL"),
        None => format!("from {redo}; the end of WAL is unknown"),
    })
}

/// Where a base backup becomes consistent, if WAL reaches that far.
fn backup_end(replay: &Replay) -> Option<Lsn> {
    match replay.backup.as_ref()?.end {
        BackupEnd::Reached { lsn } => Some(lsn),
        BackupEnd::Unknown | BackupEnd::Missing => None,
    }
}

/// What a start of the server brings, in a sentence.
pub(crate) fn start_sentence(replay: &Replay, outlook: &Outlook, pages: &[PageReport], label: Label<'_>) -> String {
    let mut sentences = Vec::new();
    if let Some(pid) = outlook.refused_by {
        sentences.push(format!(
            "the server refuses to start while process {pid} lives, whose number is in postmaster.pid (\"lock file \
             already exists\"); once it has ended"
        ));
    }
    let page_at = |index: &usize| pages.get(*index).map_or_else(String::new, |report| label(report.page));
    sentences.push(match &outlook.start {
        Start::Running => "a server may be running: nothing here is certain".to_owned(),
        Start::NotAllRead => "unknown: something that replay may meet was not examined".to_owned(),
        Start::SomePagesOnly => {
            "unknown: only some pages were examined, and a damaged one of the others may stop replay".to_owned()
        }
        Start::Unknown if replay.doubts.contains(&Doubt::ControlOfOtherByteOrder) => {
            "unknown: pg_control was written by a machine with the other byte order".to_owned()
        }
        Start::Unknown => "unknown, because it is unknown where replay begins".to_owned(),
        Start::UnknownControl { version } => {
            format!("unknown: pg_control is of version {version}, which this program does not know")
        }
        Start::UnknownWal { magic } => format!(
            "unknown: the WAL that a start needs is there, of an unknown version that this program cannot read ({magic})"
        ),
        Start::UnusualBuild => "unknown: only a server that was built with the values in pg_control starts, and the usual ones were not (see the \
            problems)"
            .to_owned(),
        Start::ClosedToReplay => "unknown: the server starts or not by what it comes to on the way: a file that it cannot open, that is missing or that is none, or more than a setting allows (see the problems)"
            .to_owned(),
        Start::EndsAtTarget => "unknown: recovery ends where a setting says, not where WAL ends (see the problems)".to_owned(),
        Start::WalDenied => {
            "unknown: WAL that a start may need is there, and this user may not open it".to_owned()
        }
        Start::WalFromElsewhere => {
            "unknown: WAL from the redo point on is not in pg_wal, and a signal file has the server fetch it from an archive or \
             from another server"
                .to_owned()
        }
        Start::CannotBegin => match replay.recovery {
            Recovery::None | Recovery::AfterReset => "the server will not start: the WAL with its last checkpoint is \
                missing",
            _ => "the server will not start: WAL from the redo point on is missing",
        }
        .to_owned(),
        Start::Refused => "the server will NOT start: a directory or file that it needs is missing, damaged or closed to it, or \
            pg_control is not as it demands (see the problems)"
            .to_owned(),
        Start::NotUsable { obstacle: Obstacle::Checkpoints } => {
            "the server starts, but no checkpoint ends, since a directory is missing (see the problems)".to_owned()
        }
        Start::NotUsable { obstacle: Obstacle::Commits } => {
            "the server starts, but takes committed transactions for undone, since files of pg_xact are missing or damaged"
                .to_owned()
        }
        Start::NotUsable { obstacle: Obstacle::Contents } => {
            "the server starts, but recovery empties permanent relations, beside which init forks lie (see the problems)"
                .to_owned()
        }
        Start::NotUsable { obstacle: Obstacle::Belonging } => {
            "do not start: the files do not belong together, and rows that the server shows would be wrong or missing (see the problems)"
                .to_owned()
        }
        Start::NotUsable { .. } => "the server starts, but connections fail, since files of its catalogs are missing or \
            damaged (see the problems)"
            .to_owned(),
        Start::BackupIncomplete => match &replay.backup {
            Some(backup) if backup.is_incremental => {
                "the server will NOT start: this is an incremental backup, which pg_combinebackup has to complete".to_owned()
            }
            _ => "the server will NOT start with the WAL that is in pg_wal: it ends before the end of the backup \
                (\"WAL ends before end of online backup\")"
                .to_owned(),
        },
        Start::Stops { page, lsn, may_stop_before } => match pages.get(*page).map(|report| &report.verdict.on_start) {
            Some(OnStart::Dies { record, .. }) => format!(
                "the server will NOT start: at {lsn} ({record}) {}replay crashes with a segmentation fault, since it \
                 expects {} to be there",
                if *may_stop_before { "at the latest " } else { "" },
                page_at(page)
            ),
            _ => format!(
                "the server will NOT start: replay stops at {lsn}{}, where it reads {}",
                if *may_stop_before { " at the latest" } else { "" },
                page_at(page)
            ),
        },
        Start::InvalidPages { page } => format!(
            "the server will NOT start: replay skips records of {}, which is not there, and for that stops with \"WAL \
             contains references to invalid pages\" at the point of consistency",
            page_at(page)
        ),
        Start::DependsOnDwb => "not certain: replay needs images of the server's own double write buffer, which the \
            start itself overwrites, and stops where one is gone"
            .to_owned(),
        Start::WithoutReplay => "the server starts without replay".to_owned(),
        Start::MayStop { page, lsn } => format!(
            "the server may NOT start: replay changes torn pages without noticing, the first at {lsn} ({}), and \
             stops where a record does not fit what it finds there",
            page_at(page)
        ),
        Start::Completes if replay.doubts.is_empty() && !outlook.given.checksums => {
            "as far as is visible without data checksums, replay completes and the server starts".to_owned()
        }
        Start::Completes if backup_end(replay).is_some() => format!(
            "the backup is recovered: replay runs past the end of the backup at {} and the server starts; recovery needs \
             backup_label, do not remove it",
            backup_end(replay).unwrap_or_default()
        ),
        Start::Completes if replay.doubts.is_empty() => "replay completes and the server starts".to_owned(),
        Start::Completes => "replay runs to the end of the WAL that is there".to_owned(),
    });
    // Which pages replay comes to is unknown too.
    if outlook.start == Start::WalDenied {
        return sentences.join("; ");
    }
    let list = |indexes: &[usize]| {
        let named: Vec<String> = indexes.iter().take(MAX_PAGES_IN_WORDS).map(page_at).collect();
        let more = if indexes.len() > MAX_PAGES_IN_WORDS { " …" } else { "" };
        format!("{}{more}", named.join(", "))
    };
    let mut say = |indexes: &[usize], one: &str, many: &str| {
        if !indexes.is_empty() {
            let verb = if indexes.len() == 1 { one } else { many };
            sentences.push(format!("{} {verb} ({})", indexes.len(), list(indexes)));
        }
    };
    let (one, many) = if outlook.given.applies_first {
        ("page is repaired by the server before replay", "pages are repaired by the server before replay")
    } else {
        (
            "page is repaired by the server if the image is still there then",
            "pages are repaired by the server if the images are still there then",
        )
    };
    say(&outlook.server_restores, one, many);
    say(
        &outlook.server_loses,
        "page gets an OLDER image from the server: what was committed on it since is silently lost",
        "pages get OLDER images from the server: what was committed on them since is silently lost",
    );
    say(
        &outlook.server_guesses,
        "page gets an image from the server that is NOT proven to be the right one",
        "pages get images from the server that are NOT proven to be the right ones",
    );
    say(
        &outlook.passed_over,
        "page is missing or all zero: replay skips its changes, which are silently lost",
        "pages are missing or all zero: replay skips their changes, which are silently lost",
    );
    say(
        &outlook.unnoticed,
        "torn page is changed by replay, which does not notice the damage",
        "torn pages are changed by replay, which does not notice the damage",
    );
    say(
        &outlook.maps,
        "damaged page of a map is treated as empty, which loses nothing, but base backups fail and pg_checksums reports it",
        "damaged pages of maps are treated as empty, which loses nothing, but base backups fail and pg_checksums reports \
         them",
    );
    say(
        &outlook.stay,
        "damaged page is not touched by replay, and fails or gives wrong rows when it is read",
        "damaged pages are not touched by replay, and fail or give wrong rows when they are read",
    );
    sentences.join("; ")
}

/// Counts by verdict, one fact each.
pub(crate) fn write_counts(out: &mut dyn Write, layout: Layout, pages: &[PageReport]) -> io::Result<()> {
    if pages.is_empty() {
        return write_fact(out, layout, "damaged pages", "none");
    }
    let mut parts = Vec::new();
    for verdict in Verdict::ALL {
        let count = pages.iter().filter(|page| page.verdict.verdict == verdict).count();
        if count > 0 {
            parts.push(format!("{count} {}", verdict.name()));
        }
    }
    write_fact(out, layout, "damaged pages", &format!("{}: {}", pages.len(), parts.join(", ")))
}

/// Damaged pages as a table.
#[cfg(feature = "tables")]
pub(crate) fn write_pages(
    out: &mut dyn Write,
    layout: Layout,
    pages: &[PageReport],
    name: Label<'_>,
) -> io::Result<()> {
    if pages.is_empty() {
        return Ok(());
    }
    let paint = layout.paint;
    writeln!(out, "\n{}", paint.heading("Damaged pages"))?;
    let mut table = plain_table(&["relation", "block", "disk", "sure", "tear", "verdict", "image"]);
    for report in pages {
        let image = report.verdict.chosen.and_then(|index| report.verdict.candidates.get(index));
        table.add_row([
            printable(&name(report.page)),
            block_label(report.page),
            paint.bad(report.disk.name()),
            report.strength.name().to_owned(),
            tear_words(report),
            verdict_word(paint, report.verdict.verdict),
            image.map_or_else(|| "-".to_owned(), image_words),
        ]);
    }
    write_table(out, &table)
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

/// One thing that is said as evidence about a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvidencePart {
    /// A label, empty where the one before goes on, and a value.
    Fact(&'static str, String),
    /// The verdict, and where the chosen image comes from.
    Verdict(Verdict, Option<String>),
    /// An image.
    Image(String),
    /// A step of the proof for that image.
    Step(Weight, String),
}

/// The evidence for one page, in the order in which it is read.
#[must_use]
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

/// The evidence for one page.
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
#[must_use]
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
            "before replay a server in mode double_writes writes its newest image over the page, older or not"
                .to_owned()
        }
        OnStart::Harmless => "harmless: nothing reads the page before it is overwritten, removed or reset".to_owned(),
        OnStart::Read { lsn } if report.server_takes.is_some() => {
            format!("replay reads it at {lsn} and stops, unless the server has an image of its own")
        }
        OnStart::Read { lsn } => format!("replay reads it at {lsn} and stops"),
        OnStart::Unnoticed { lsn } => format!("replay changes it at {lsn} without noticing the damage"),
        OnStart::PassedOver { lsn } => format!(
            "replay finds no page to change at {lsn} and skips this and all later changes of it, which are lost; \
             a standby or the recovery of a backup stops there instead"
        ),
        OnStart::Dies { lsn, record, .. } => {
            format!("at {lsn} ({record}) replay expects the page to be there, and the server crashes")
        }
        OnStart::TakenForEmpty => {
            "replay does not touch it; a server that reads it treats it as empty, but it stays damaged on disk \
                                   until it is rewritten"
                .to_owned()
        }
        OnStart::Later => "replay does not touch it; it fails, or gives wrong rows, when it is read".to_owned(),
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

/// How many images compare with their pages in which way.
pub(crate) fn write_slot_counts(out: &mut dyn Write, layout: Layout, slots: &[SlotRef]) -> io::Result<()> {
    match compared_words(slots) {
        Some(words) => write_fact(out, layout, "images and pages", &words),
        None => Ok(()),
    }
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
