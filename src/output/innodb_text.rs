//! Text about MySQL and MariaDB for people.

use std::io::{self, Write};

use serde_json::Value;
use strum::VariantArray;

use super::check_text::{letter, sector_signs};
use super::escape::printable;
use super::figures::size;
use super::json::innodb::SlotSetting;
use super::json::wal::Row;
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped, write_fact};
use crate::analysis::innodb::candidates::SlotCounts;
use crate::analysis::innodb::judge::{HeldImage, InnodbPage};
use crate::analysis::innodb::scan::PageCounts;
use crate::analysis::verdict::sectors::TearDirection;
use crate::cluster::innodb::doublewrite::{Doublewrite, DoublewriteLayout};
use crate::cluster::innodb::redo_end::RedoEnd;
use crate::cluster::innodb::redo_log::{Family, RedoLog};
use crate::cluster::innodb::tablespace::Tablespaces;
use crate::parsers::innodb::page_check::PageState;

/// Pages that are described one by one.
const MAX_PAGES: usize = 50;

/// The limit of every answer about pages.
pub const NOT_PREDICTED: &str = "What the server does at startup is not predicted: its redo log is not replayed here.";

/// What an instance is, and its doublewrite buffer.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_instance(
    out: &mut dyn Write,
    layout: Layout,
    path: &str,
    (family, log): (Family, &RedoLog),
    (doublewrite, counts): (&Doublewrite, &[SlotCounts]),
    spaces: &Tablespaces,
) -> io::Result<()> {
    writeln!(out, "{}", layout.paint.heading("Instance"))?;
    write_fact(out, layout, "data directory", path)?;
    let made = log.creator.as_ref().map_or_else(|| family.to_string(), |made| format!("{made} (rules of {family})"));
    write_fact(out, layout, "server", &made)?;
    write_fact(out, layout, "page size", &format!("{} bytes", doublewrite.page_bytes))?;
    let checkpoint = log.checkpoint.as_ref();
    let checkpoint =
        checkpoint.map_or_else(|| "unknown".to_owned(), |(found, file)| format!("LSN {} (in {file})", found.lsn));
    write_fact(out, layout, "checkpoint", &checkpoint)?;
    let files = spaces.all.iter().flat_map(|space| &space.files).map(|file| file.size_bytes);
    let bytes = files.fold(0_u64, u64::saturating_add);
    write_fact(out, layout, "tablespaces", &format!("{}, {}", spaces.all.len(), size(bytes)))?;
    let place = match doublewrite.layout {
        DoublewriteLayout::Files => format!("{} files", doublewrite.files.len()),
        DoublewriteLayout::Legacy(header) => {
            format!("in the system tablespace, from its pages {} and {} on", header.blocks.0, header.blocks.1)
        }
        DoublewriteLayout::Elsewhere => "not found: its files are elsewhere, or lost".to_owned(),
        DoublewriteLayout::Missing => "none".to_owned(),
    };
    write_fact(out, layout, "doublewrite buffer", &place)?;
    if !doublewrite.entries.is_empty() {
        write_fact(out, layout, "entries without images", &format!("{} files", doublewrite.entries.len()))?;
    }
    if counts.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let header = ["file", "slots", "batch part", "empty", "good", "bad", "not testable", "current"];
    let mut table = plain_table(&header);
    for (file, counts) in doublewrite.files.iter().zip(counts) {
        let batch = file.batch_slots.map_or_else(|| "-".to_owned(), |slots| slots.to_string());
        let numbers = [counts.empty, counts.sound, counts.damaged, counts.unverifiable, counts.since_checkpoint];
        let mut cells = vec![printable(&file.name), file.slots.to_string(), batch];
        cells.extend(numbers.map(|number| number.to_string()));
        table.add_row(cells);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..8))
}

/// Tablespaces, a line each.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_tablespaces(out: &mut dyn Write, layout: Layout, spaces: &Tablespaces) -> io::Result<()> {
    writeln!(out, "\n{}", layout.paint.heading("Tablespaces"))?;
    let mut table = plain_table(&["tablespace", "id", "pages", "page size", "flags", "kind"]);
    for space in &spaces.all {
        let flags = &space.flags;
        let mut kind = Vec::new();
        kind.extend(flags.is_full_crc32.then_some("full_crc32"));
        kind.extend(flags.zip_bytes.map(|_| "ROW_FORMAT=COMPRESSED"));
        kind.extend(flags.has_page_compression.then_some("page compression"));
        kind.extend(flags.is_mysql_encrypted.then_some("encrypted"));
        kind.extend(space.has_rival.then_some("claimed by two files"));
        table.add_row(vec![
            printable(&space.name()),
            space.id.to_string(),
            space.pages().to_string(),
            flags.physical_bytes().to_string(),
            format!("{:#x}", flags.raw),
            kind.join(", "),
        ]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..4).words(5))
}

/// The text of a field; `-` where it is null.
fn field(row: &Row, name: &str) -> String {
    match row.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => printable(text),
        Some(other) => other.to_string(),
    }
}

/// Slots, a line each; what was never written is counted.
#[derive(Debug, Default)]
pub struct InnodbSlotLines {
    empty: Option<(String, u64, u64)>,
}

impl InnodbSlotLines {
    /// Starts a listing.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn begin(out: &mut dyn Write, layout: Layout) -> io::Result<Self> {
        let heading = format!(
            "{:<22} {:>10} {:>9} {:>14} {:<12} {:<9} {:<10}",
            "slot", "space", "page", "lsn", "checksum", "batch", "disk"
        );
        writeln!(out, "{}", layout.paint.heading(heading.trim_end()))?;
        Ok(Self::default())
    }

    /// Writes one slot, or keeps it when it is one of a run of empty ones.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn slot(&mut self, out: &mut dyn Write, layout: Layout, row: &Row) -> io::Result<()> {
        let file = field(row, "file");
        let index = row.get("slot_index").and_then(Value::as_u64).unwrap_or_default();
        if field(row, "state") == "empty" {
            match &mut self.empty {
                Some((known, _, last)) if *known == file && last.saturating_add(1) == index => *last = index,
                _ => {
                    self.end_of_run(out, layout)?;
                    self.empty = Some((file, index, index));
                }
            }
            return Ok(());
        }
        self.end_of_run(out, layout)?;
        let slot = format!("{file}:{index}");
        let line = format!(
            "{slot:<22} {:>10} {:>9} {:>14} {:<12} {:<9} {:<10}",
            field(row, "space_id"),
            field(row, "page_no"),
            field(row, "page_lsn"),
            field(row, "page_checksum"),
            field(row, "batch"),
            field(row, "disk"),
        );
        writeln!(out, "{}", line.trim_end())
    }

    /// Ends the listing.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn end_of_run(&mut self, out: &mut dyn Write, layout: Layout) -> io::Result<()> {
        if let Some((file, first, last)) = self.empty.take() {
            let slots = if first == last { format!("{file}:{first}") } else { format!("{file}:{first}-{last}") };
            let count = last.saturating_sub(first).saturating_add(1);
            writeln!(out, "{slots:<22} {}", layout.paint.faint(&format!("never written ({count})")))?;
        }
        Ok(())
    }
}

/// Entries without images, a line each.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_entries(out: &mut dyn Write, layout: Layout, rows: &[Row]) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading("Entries without images"))?;
    let columns = ["file", "block_index", "entry_index", "space_id", "page_no", "page_lsn", "block_checksum", "disk"];
    let mut table = plain_table(&["file", "block", "entry", "space", "page", "lsn", "checksum", "disk"]);
    for row in rows {
        table.add_row(columns.map(|name| field(row, name)));
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..6))
}

/// Groups of slots, a line each.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_innodb_batches(out: &mut dyn Write, layout: Layout, rows: &[Row]) -> io::Result<()> {
    let columns = ["file", "part", "batch", "slots", "runs", "first_slot", "last_slot", "lowest_lsn", "highest_lsn"];
    let header = ["file", "part", "batch", "slots", "runs", "first", "last", "lowest lsn", "highest lsn"];
    let mut table = plain_table(&header);
    for row in rows {
        table.add_row(columns.map(|name| field(row, name)));
    }
    write_fitted(out, layout, table, &Fit::default().numbers(3..9))
}

/// What a scan read, in facts.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_scanned(out: &mut dyn Write, layout: Layout, counts: &PageCounts) -> io::Result<()> {
    let pages = format!("{} ({})", counts.pages, size(counts.bytes));
    write_fact(out, layout, "pages checked", &pages)?;
    let algorithms: Vec<String> =
        counts.algorithms.iter().map(|(algorithm, count)| format!("{} {count}", algorithm.name())).collect();
    let whole = match algorithms.is_empty() {
        true => counts.sound.to_string(),
        false => format!("{} ({})", counts.sound, algorithms.join(", ")),
    };
    write_fact(out, layout, "whole", &whole)?;
    write_fact(out, layout, "all zero", &counts.empty.to_string())?;
    write_fact(out, layout, "damaged", &counts.damaged.to_string())
}

/// Pages of a scan by their types.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_page_types(out: &mut dyn Write, layout: Layout, counts: &PageCounts) -> io::Result<()> {
    let types: Vec<String> = counts.by_type_name().iter().map(|(name, count)| format!("{name} {count}")).collect();
    if types.is_empty() { Ok(()) } else { write_fact(out, layout, "by type", &types.join(", ")) }
}

/// Pages of a scan that fail their checks.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_bad_pages(out: &mut dyn Write, layout: Layout, rows: &[Row]) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading("Damaged pages"))?;
    let mut table = plain_table(&["tablespace", "page", "offset", "lsn", "damage"]);
    for row in rows.iter().take(MAX_PAGES) {
        table.add_row(["path", "page_no", "offset", "page_lsn", "damage"].map(|name| field(row, name)));
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..4).words(4))?;
    write_more(out, layout, rows.len())
}

fn write_more(out: &mut dyn Write, layout: Layout, count: usize) -> io::Result<()> {
    match count.saturating_sub(MAX_PAGES) {
        0 => Ok(()),
        more => wrapped(out, layout, "  ", 2, &format!("and {more} more; --format json lists them all")),
    }
}

/// Pages with their images, a line each.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_judged(
    out: &mut dyn Write,
    layout: Layout,
    setting: SlotSetting<'_>,
    pages: &[&InnodbPage],
) -> io::Result<()> {
    if pages.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading("Pages"))?;
    let mut table = plain_table(&["tablespace", "page", "disk", "buffer holds", "first for the server"]);
    for page in pages.iter().take(MAX_PAGES) {
        let chosen = page.chosen().and_then(|chosen| page.candidates.get(chosen));
        let image = chosen.map_or_else(
            || "-".to_owned(),
            |chosen| {
                format!("{}:{} at {}", slot_file(setting, chosen.facts.slot.0), chosen.facts.slot.1, chosen.facts.lsn)
            },
        );
        table.add_row(vec![
            printable(&page.path),
            page.page.page_no.to_string(),
            page.disk.name().to_owned(),
            page.held.name().to_owned(),
            image,
        ]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..2))?;
    write_more(out, layout, pages.len())
}

fn slot_file(setting: SlotSetting<'_>, file: usize) -> String {
    setting.doublewrite.files.get(file).map_or_else(String::new, |file| printable(&file.name))
}

/// Everything about a page.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_innodb_page(
    out: &mut dyn Write,
    layout: Layout,
    setting: SlotSetting<'_>,
    page: &InnodbPage,
) -> io::Result<()> {
    let title = format!("{} page {} (space {})", printable(&page.path), page.page.page_no, page.page.space_id);
    writeln!(out, "\n{}", layout.paint.heading(&title))?;
    write_fact(out, layout, "offset", &format!("{:#X}", page.offset))?;
    let state = match page.state {
        PageState::Damaged(fault) => fault.to_string(),
        PageState::Sound(algorithm) => format!("whole ({})", algorithm.name()),
        PageState::Empty => "all zero".to_owned(),
        PageState::Unverifiable(_) => "cannot be tested: encrypted, or compressed in an unknown way".to_owned(),
    };
    write_fact(out, layout, "page on disk", &state)?;
    write_fact(out, layout, "LSN in its header", &page.disk_lsn.to_string())?;
    let chosen = page.chosen();
    for (index, candidate) in page.candidates.iter().enumerate() {
        let facts = &candidate.facts;
        let age = match candidate.since_checkpoint {
            Some(true) => "not older than the checkpoint",
            Some(false) => "older than the checkpoint",
            None => "checkpoint unknown",
        };
        let taken = if chosen == Some(index) { "; first in the order of the server" } else { "" };
        let words = format!(
            "{}:{}, LSN {}, {}, {age}; disk: {}{taken}",
            slot_file(setting, facts.slot.0),
            facts.slot.1,
            facts.lsn,
            facts.state.name(),
            candidate.comparison.name(),
        );
        write_fact(out, layout, &format!("image {}", letter(index)), &words)?;
    }
    for lsn in &page.entries {
        write_fact(out, layout, "entry without image", &format!("LSN {lsn}"))?;
    }
    if let Some(tear) = &page.tear {
        let signs = sector_signs(tear, |at| page.mapped.get(at).map_or('?', |index| letter(*index)));
        let words = match tear.direction {
            TearDirection::Scattered => tear.direction.name().to_owned(),
            _ => format!("{}, break at byte {}", tear.direction.name(), tear.break_at()),
        };
        write_fact(out, layout, "tear", &words)?;
        write_fact(out, layout, "sectors of 512 bytes", &format!("{signs}  (.: of none)"))?;
    }
    if page.is_newer_than_log {
        write_fact(out, layout, "redo log", "the page is newer than the end of the redo log")?;
    }
    write_fact(out, layout, "buffer holds", &format!("{}: {}", page.held.name(), page.held))
}

/// What the buffer holds of how many pages, the state of the redo log, and the limit of all answers.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_held(
    out: &mut dyn Write,
    layout: Layout,
    pages: &[&InnodbPage],
    (end, is_shut_down): (Option<RedoEnd>, Option<bool>),
) -> io::Result<()> {
    writeln!(out, "\n{}", layout.paint.heading("Summary"))?;
    let end = end.map_or_else(|| "unknown".to_owned(), |end| format!("LSN {}", end.lsn));
    write_fact(out, layout, "end of redo log", &end)?;
    let shut_down = match is_shut_down {
        Some(true) => "yes: the redo log ends at its checkpoint",
        Some(false) => "no",
        None => "unknown",
    };
    write_fact(out, layout, "shut down cleanly", shut_down)?;
    for held in HeldImage::VARIANTS {
        let count = pages.iter().filter(|page| page.held == *held).count();
        if count > 0 {
            write_fact(out, layout, held.name(), &format!("{count}: {held}"))?;
        }
    }
    wrapped(out, layout, "  ", 2, NOT_PREDICTED)
}
