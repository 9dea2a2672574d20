//! Text of `verify`: the summary, and damaged pages by file.

use std::io::{self, Write};

use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::backup::BackupEnd;
use crate::analysis::verdict::facts::Tone;
use crate::analysis::verdict::fate::ReplayFate;
use crate::analysis::verdict::replay::Recovery;
use crate::inspect::verify::rules::DAMAGED_PAGES;
use crate::inspect::verify::{DamagedPage, ReplaySummary, VerifyReport};
use crate::output::closing::Closing;
use crate::output::escape::printable;
use crate::output::figures::{many, size_words};
use crate::output::headline::Headline;
use crate::output::shell::quoted;
use crate::output::text::{Layout, wrapped, write_fact};
use crate::output::words::cluster::checksum_words;
use crate::parsers::control::ChecksumState;
use crate::report::{Finding, Severity};

/// Pages of one file that are listed.
const MAX_PAGES: usize = 20;

/// Files that are listed.
const MAX_FILES: usize = 200;

/// Writes the report: the answer, the damaged pages, problems, and what was read.
pub(crate) fn write_report(
    out: &mut dyn Write,
    layout: Layout,
    mut report: VerifyReport,
    listing: &Listing,
) -> io::Result<Answer> {
    let (summary, others) =
        std::mem::take(&mut report.findings).into_iter().partition(|finding: &Finding| finding.is(&DAMAGED_PAGES));
    let closing = Closing::new(others, &report.coverage).answering(report.answer);
    // Archives have to be unpacked for it.
    let can_be_checked = report.data_dir.join("PG_VERSION").is_file();
    let rest = &mut |out: &mut dyn Write| {
        if report.counts.damaged > 0 && report.replay.is_none() && can_be_checked {
            writeln!(out, "\n{}", layout.paint.heading("What to do"))?;
            wrapped(
                out,
                layout,
                "  ",
                2,
                "See what recovery fixes, and which image to restore. check also compares images and WAL, so it may count more or fewer pages:",
            )?;
            writeln!(out, "       pg_dwbinspect check {}", printable(&quoted(&report.data_dir.display().to_string())))?;
        }
        listing.write(out, layout)?;
        closing.write_text(out, layout)?;
        write_facts(out, layout, &report)
    };
    headline(&report, &summary, closing.answer()).write_around(out, layout, rest)?;
    out.flush()?;
    Ok(closing.answer())
}

/// The answer. `summary`: the finding that counts damaged pages, if there are any.
fn headline(report: &VerifyReport, summary: &[Finding], answer: Answer) -> Headline {
    let counts = &report.counts;
    let mut sentences: Vec<String> =
        summary.iter().flat_map(|finding| [finding.to_string(), finding.why.to_owned()]).collect();
    let (badge, tone) = match summary.first().map(|finding| finding.severity) {
        Some(Severity::Problem) => ("DAMAGED", Tone::Bad),
        Some(Severity::Note) => ("HEALED BY REPLAY", Tone::Good),
        None => {
            let unseen = match report.checksums {
                Some(ChecksumState::Off) => "; without data checksums most damage is invisible",
                _ => "",
            };
            sentences.push(format!(
                "no damaged page among {} in {}{unseen}",
                many(counts.pages, "page"),
                many(report.files, "file")
            ));
            return Headline::undamaged(sentences, answer);
        }
    };
    Headline::new(badge, tone, sentences, answer)
}

/// Facts about the run.
fn write_facts(out: &mut dyn Write, layout: Layout, report: &VerifyReport) -> io::Result<()> {
    writeln!(out, "\n{}", layout.paint.heading("Evidence"))?;
    let mut fact = |label: &str, value: &str| write_fact(out, layout, label, value);
    fact("cluster", &report.condition.to_string())?;
    fact("data checksums", &checksum_words(report.checksums))?;
    let counts = &report.counts;
    fact(
        "checked",
        &format!("{} in {}, {}", many(counts.pages, "page"), many(report.files, "file"), size_words(counts.bytes)),
    )?;
    if counts.damaged > 0 {
        let damaged = format!(
            "{} in {}: {} with a wrong checksum, {} that the server refuses",
            many(counts.damaged, "page"),
            many(report.damaged_files, "file"),
            counts.checksum_failures,
            counts.rejected
        );
        fact("damaged", &damaged)?;
    }
    let holes = match counts.holes_bytes {
        0 => String::new(),
        bytes => format!("; {} are holes of their files, which hold zeros and were not read", size_words(bytes)),
    };
    fact("zero-filled", &format!("{}{holes}", many(counts.zeroed, "page")))?;
    if let Some(replay) = &report.replay {
        fact("replay", &replay_words(replay))?;
    }
    if let Some(count) = report.checksums_not_judged {
        fact("checksum differs", &format!("{}, which is not judged", many(count, "page")))?;
    }
    Ok(())
}

/// The available WAL, and its end.
fn replay_words(replay: &ReplaySummary) -> String {
    if matches!(replay.recovery, Recovery::None | Recovery::AfterReset) {
        return "none: startup replays no WAL".to_owned();
    }
    let from = replay.redo_lsn.map_or_else(|| "an unknown LSN".to_owned(), |lsn| lsn.to_string());
    let reached = match replay.backup_end {
        Some(BackupEnd::Reached { lsn }) => format!("; the end of the base backup is at {lsn}"),
        Some(BackupEnd::Missing) => "; the end of the base backup is not reached".to_owned(),
        Some(BackupEnd::Unknown) | None => String::new(),
    };
    match replay.end_lsn {
        Some(end) => format!("from {from} to the end of WAL at {end}{reached}"),
        None => format!("from {from}{reached}"),
    }
}

/// Text about one page.
fn page_words(page: &DamagedPage<'_>) -> String {
    let damage = match page.have_bytes {
        Some(have) => format!("the file ends after {have} bytes of the page"),
        None => page.damage.to_string(),
    };
    match page.fate {
        Some(fate) => format!("{damage}; {}: {fate}", heading_of(fate)),
        None => damage,
    }
}

/// Heading of a fate.
const fn heading_of(fate: &ReplayFate) -> &'static str {
    match fate {
        ReplayFate::Healed(_) => "healed in replay",
        ReplayFate::RealDamage(_) => "real damage",
        ReplayFate::Unknown(_) => "unknown",
    }
}

/// Damaged pages, by file, as far as people read lists.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    files: Vec<ListedFile>,
    further_pages: u64,
}

#[derive(Debug)]
struct ListedFile {
    path: String,
    relation: Option<String>,
    is_unlogged: bool,
    pages: Vec<(u32, u64, String)>,
    further: u64,
}

impl Listing {
    /// Adds a page; those of one file follow each other.
    pub fn add(&mut self, page: &DamagedPage<'_>) {
        if self.files.last().is_none_or(|file| file.path != page.path) {
            if self.files.len() >= MAX_FILES {
                self.further_pages += 1;
                return;
            }
            self.files.push(ListedFile {
                path: page.path.to_owned(),
                relation: page.relation.clone(),
                is_unlogged: page.is_unlogged,
                pages: Vec::new(),
                further: 0,
            });
        }
        let Some(file) = self.files.last_mut() else { return };
        if file.pages.len() < MAX_PAGES {
            file.pages.push((page.page.block, page.offset, page_words(page)));
        } else {
            file.further += 1;
        }
    }

    /// Writes the list; nothing when it is empty.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn write(&self, out: &mut dyn Write, layout: Layout) -> io::Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let paint = layout.paint;
        writeln!(out, "\n{}", paint.heading("Damaged pages"))?;
        for file in &self.files {
            let name = file.relation.as_ref().map_or_else(String::new, |name| format!(", {}", printable(name)));
            let unlogged = if file.is_unlogged { ", unlogged" } else { "" };
            writeln!(out, "  {}{name}{unlogged}", printable(&file.path))?;
            for (block, offset, words) in &file.pages {
                wrapped(out, layout, "    ", 6, &format!("block {block} at {offset:#X}: {words}"))?;
            }
            if file.further > 0 {
                writeln!(out, "    and {} more; --format json lists all", many(file.further, "page"))?;
            }
        }
        if self.further_pages > 0 {
            writeln!(out, "  and {} in more files; --format json lists all", many(self.further_pages, "page"))?;
        }
        Ok(())
    }
}
