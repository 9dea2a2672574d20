//! Text of `verify`: the summary, and damaged pages by file.

use std::io::{self, Write};

use crate::analysis::verdict::backup::BackupEnd;
use crate::analysis::verdict::fate::ReplayFate;
use crate::analysis::verdict::replay::Recovery;
use crate::inspect::verify::{DamagedPage, ReplaySummary, VerifyReport};
use crate::output::escape::printable;
use crate::output::text::{Layout, wrapped, write_fact};
use crate::output::words::cluster::checksum_words;

/// Pages of one file that are listed.
const MAX_PAGES: usize = 20;

/// Files that are listed.
const MAX_FILES: usize = 200;

/// Writes the report.
pub(crate) fn write_summary(out: &mut dyn Write, layout: Layout, report: &VerifyReport) -> io::Result<()> {
    writeln!(out, "{}", layout.paint.heading("Pages"))?;
    let mut fact = |label: &str, value: &str| write_fact(out, layout, label, value);
    fact("data directory", &report.data_dir.display().to_string())?;
    let happened = if report.condition.is_known() {
        report.condition.to_string()
    } else {
        "unknown: pg_control cannot be trusted".to_owned()
    };
    fact("what happened", &happened)?;
    fact("data checksums", &checksum_words(report.checksums))?;
    let counts = &report.counts;
    fact("checked", &format!("{} in {}, {} bytes", pages(counts.pages), files(report.files), counts.bytes))?;
    let damaged = match counts.damaged {
        0 => "none".to_owned(),
        count => format!(
            "{} in {}: {} with a wrong checksum, {} that a server refuses",
            pages(count),
            files(report.damaged_files),
            counts.checksum_failures,
            counts.rejected
        ),
    };
    fact("damaged", &damaged)?;
    let holes = match counts.holes_bytes {
        0 => String::new(),
        bytes => format!("; {bytes} bytes are holes of their files, which hold zeros and were not read"),
    };
    fact("zero-filled", &format!("{}{holes}", pages(counts.zeroed)))?;
    if let Some(replay) = &report.replay {
        fact("replay", &replay_words(replay))?;
        if counts.damaged.saturating_add(report.partial_pages) > 0 {
            fact("among the damaged", &fates_words(replay))?;
        }
    }
    if let Some(count) = report.checksums_not_judged {
        fact("checksum differs", &format!("{}, which is not judged", pages(count)))?;
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

/// Fate of damaged pages, in one line.
fn fates_words(replay: &ReplaySummary) -> String {
    match replay {
        ReplaySummary { healed, real_damage: 0, unknown: 0, .. } => format!("all {healed} healed in replay"),
        ReplaySummary { healed, real_damage, unknown, .. } => {
            format!("{healed} healed in replay, {real_damage} real damage, {unknown} unknown")
        }
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

fn pages(count: u64) -> String {
    if count == 1 { "1 page".to_owned() } else { format!("{count} pages") }
}

fn files(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
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
                writeln!(out, "    and {} more; --format json lists all", pages(file.further))?;
            }
        }
        if self.further_pages > 0 {
            writeln!(out, "  and {} in more files; --format json lists all", pages(self.further_pages))?;
        }
        Ok(())
    }
}
