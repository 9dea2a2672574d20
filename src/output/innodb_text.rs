//! Text about MySQL and MariaDB for people.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::check_text::{letter, sector_signs};
use super::closing::Headline;
use super::escape::printable;
use super::figures::{size, size_words};
use super::json::innodb::{SlotSetting, named, tablespace_row};
use super::json::wal::Row;
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped, write_fact, write_short_fact};
use crate::analysis::changes::sectors::TearDirection;
use crate::analysis::innodb::candidates::SlotCounts;
use crate::analysis::innodb::judge::{HeldImage, InnodbPage};
use crate::analysis::innodb::scan::PageCounts;
use crate::analysis::innodb::slot::SlotFacts;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::facts::Tone;
use crate::analysis::verdict::next_step::runs;
use crate::cluster::innodb::doublewrite::DoublewriteLayout;
use crate::cluster::innodb::redo_log::RedoEnd;
use crate::cluster::innodb::tablespace::Tablespaces;
use crate::parsers::innodb::page_check::PageState;

/// Lines of pages that are alike, and runs of pages in each.
const MAX_LINES: usize = 20;
const RUNS_A_LINE: usize = 8;

/// Pages that are described one by one.
const MAX_PAGES: usize = 50;

/// The limit of every answer about pages.
pub(crate) const NOT_PREDICTED: &str = "Startup is not predicted: the redo log is not replayed here.";

/// Facts about an instance and its doublewrite buffer.
pub(crate) fn write_instance(
    out: &mut dyn Write,
    layout: Layout,
    path: &str,
    setting: SlotSetting<'_>,
    counts: &[SlotCounts],
) -> io::Result<()> {
    let SlotSetting { log, doublewrite, spaces, .. } = setting;
    writeln!(out, "{}", layout.paint.heading("Instance"))?;
    let checkpoint = log.checkpoint.as_ref();
    let checkpoint =
        checkpoint.map_or_else(|| "unknown".to_owned(), |(found, file)| format!("LSN {} (in {file})", found.lsn));
    for (name, value) in [
        ("data directory", path),
        ("server", &server_words(setting)),
        ("page size", &format!("{} bytes", doublewrite.page_bytes)),
        ("checkpoint", &checkpoint),
        ("tablespaces", &format!("{}, {}", spaces.all.len(), size(spaces.bytes()))),
        ("doublewrite buffer", &buffer_words(setting)),
    ] {
        write_fact(out, layout, name, value)?;
    }
    if !doublewrite.entries.is_empty() {
        write_fact(out, layout, "entries without images", &format!("{} files", doublewrite.entries.len()))?;
    }
    if counts.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let columns = "file, slots, batch part=batch_slots, empty, good, bad, not testable=unverifiable, current";
    write_rows(out, layout, columns, setting.file_rows(counts), &Fit::default().numbers(1..8))
}

pub(crate) fn write_tablespaces(out: &mut dyn Write, layout: Layout, spaces: &Tablespaces) -> io::Result<()> {
    writeln!(out, "\n{}", layout.paint.heading("Tablespaces"))?;
    let columns = "tablespace, id=space_id, pages, page size=page_bytes, flags, kind";
    let rows = spaces.all.iter().map(|space| {
        let flags = &space.flags;
        let kinds = [
            (flags.is_full_crc32, "full_crc32"),
            (flags.zip_bytes.is_some(), "ROW_FORMAT=COMPRESSED"),
            (flags.has_page_compression, "page compression"),
            (flags.is_mysql_encrypted, "encrypted"),
            (space.has_rival, "claimed by two files"),
        ];
        let kinds: Vec<&str> = kinds.into_iter().filter_map(|(is_so, kind)| is_so.then_some(kind)).collect();
        let mut row = tablespace_row(space);
        row.extend(named([("kind", json!(kinds.join(", ")))]));
        row
    });
    write_rows(out, layout, columns, rows, &Fit::default().numbers(1..4).words(5))
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
pub(crate) struct InnodbSlotLines {
    empty: Option<(String, u64, u64)>,
}

impl InnodbSlotLines {
    pub fn begin(out: &mut dyn Write, layout: Layout) -> io::Result<Self> {
        let heading = format!(
            "{:<22} {:>10} {:>9} {:>14} {:<12} {:<9} {:<10}",
            "slot", "space", "page", "lsn", "checksum", "batch", "disk"
        );
        writeln!(out, "{}", layout.paint.heading(heading.trim_end()))?;
        Ok(Self::default())
    }

    /// Writes one slot, or keeps it when it is one of a run of empty ones.
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

    pub(crate) fn end_of_run(&mut self, out: &mut dyn Write, layout: Layout) -> io::Result<()> {
        if let Some((file, first, last)) = self.empty.take() {
            let slots = if first == last { format!("{file}:{first}") } else { format!("{file}:{first}-{last}") };
            let count = last.saturating_sub(first).saturating_add(1);
            writeln!(out, "{slots:<22} {}", layout.paint.faint(&format!("never written ({count})")))?;
        }
        Ok(())
    }
}

/// Rows as a table. `columns`: what stands above each, and after `=` the field that is in it, where that has another name.
fn write_rows(
    out: &mut dyn Write,
    layout: Layout,
    columns: &str,
    rows: impl IntoIterator<Item = Row>,
    fit: &Fit,
) -> io::Result<()> {
    let columns = columns.split(", ").map(|column| column.split_once('=').unwrap_or((column, column)));
    let (header, names): (Vec<&str>, Vec<&str>) = columns.unzip();
    let mut table = plain_table(&header);
    for row in rows {
        table.add_row(names.iter().map(|name| field(&row, name)));
    }
    write_fitted(out, layout, table, fit)
}

/// Entries without images, a line each.
pub(crate) fn write_entries(out: &mut dyn Write, layout: Layout, rows: Vec<Row>) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading("Entries without images"))?;
    let columns = "file, block=block_index, entry=entry_index, space=space_id, page=page_no, lsn=page_lsn, checksum=block_checksum, disk";
    write_rows(out, layout, columns, rows, &Fit::default().numbers(1..6))
}

pub(crate) fn write_innodb_batches(
    out: &mut dyn Write,
    layout: Layout,
    rows: impl Iterator<Item = Row>,
) -> io::Result<()> {
    let columns = "file, part, batch, slots, runs, first=first_slot, last=last_slot, lowest lsn=lowest_lsn, highest lsn=highest_lsn";
    write_rows(out, layout, columns, rows, &Fit::default().numbers(3..9))
}

pub(crate) fn write_scanned(out: &mut dyn Write, layout: Layout, counts: &PageCounts) -> io::Result<()> {
    let pages = format!("{} ({})", counts.pages, size(counts.bytes));
    write_fact(out, layout, "pages checked", &pages)?;
    let algorithms: Vec<String> =
        counts.algorithms.iter().map(|(algorithm, count)| format!("{} {count}", algorithm.name())).collect();
    let whole = match algorithms.is_empty() {
        true => counts.sound.to_string(),
        false => format!("{} ({})", counts.sound, algorithms.join(", ")),
    };
    write_fact(out, layout, "whole", &whole)?;
    write_fact(out, layout, "zero-filled", &counts.empty.to_string())?;
    write_fact(out, layout, "damaged", &counts.damaged.to_string())
}

pub(crate) fn write_page_types(out: &mut dyn Write, layout: Layout, counts: &PageCounts) -> io::Result<()> {
    let types: Vec<String> = counts.by_type_name().iter().map(|(name, count)| format!("{name} {count}")).collect();
    if types.is_empty() { Ok(()) } else { write_fact(out, layout, "by type", &types.join(", ")) }
}

/// Pages of a scan that fail their checks.
pub(crate) fn write_bad_pages(out: &mut dyn Write, layout: Layout, rows: Vec<Row>) -> io::Result<()> {
    let count = rows.len();
    if count == 0 {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading("Damaged pages"))?;
    let columns = "tablespace=path, page=page_no, offset, lsn=page_lsn, damage";
    let rows = rows.into_iter().take(MAX_PAGES);
    write_rows(out, layout, columns, rows, &Fit::default().numbers(1..4).words(4))?;
    write_more(out, layout, count)
}

fn write_more(out: &mut dyn Write, layout: Layout, count: usize) -> io::Result<()> {
    match count.saturating_sub(MAX_PAGES) {
        0 => Ok(()),
        more => wrapped(out, layout, "  ", 2, &format!("and {more} more; --format json lists them all")),
    }
}

/// Pages, and the images of them in the buffer; pages of a tablespace that are alike share a line.
pub(crate) fn write_judged(
    out: &mut dyn Write,
    layout: Layout,
    heading: &str,
    pages: &[&InnodbPage],
) -> io::Result<()> {
    if pages.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading(heading))?;
    let mut groups: Vec<(&str, &str, &str, Vec<u32>)> = Vec::new();
    for page in pages {
        let (path, disk, held) = (page.path.as_str(), page.disk.name(), page.held.name());
        match groups.iter_mut().find(|group| (group.0, group.1, group.2) == (path, disk, held)) {
            Some(group) => group.3.push(page.page.page_no),
            None => groups.push((path, disk, held, vec![page.page.page_no])),
        }
    }
    let mut table = plain_table(&["tablespace", "page", "disk", "buffer holds"]);
    let mut rows = 0;
    for (path, disk, held, numbers) in &groups {
        let word =
            |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
        let words: Vec<String> = runs(numbers.iter().copied()).iter().map(word).collect();
        for line in words.chunks(RUNS_A_LINE) {
            if rows < MAX_LINES {
                table.add_row([printable(path), line.join(", "), disk.replace('_', " "), held.replace('_', " ")]);
            }
            rows += 1;
        }
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..2))?;
    match rows.saturating_sub(MAX_LINES) {
        0 => Ok(()),
        more => wrapped(out, layout, "  ", 2, &format!("and {more} more lines (--format json lists all pages)")),
    }
}

/// File and index of a slot.
fn slot_name(setting: SlotSetting<'_>, facts: &SlotFacts) -> String {
    let file = setting.doublewrite.files.get(facts.slot.0).map_or("", |file| file.name.as_str());
    format!("{file}:{}", facts.slot.1)
}

pub(crate) fn write_innodb_page(
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
        PageState::Sound(algorithm) => format!("intact ({})", algorithm.name()),
        PageState::Empty => "zero-filled".to_owned(),
        PageState::Unverifiable(_) => "cannot be tested: encrypted, or compressed in an unknown way".to_owned(),
    };
    write_fact(out, layout, "page on disk", &state)?;
    write_fact(out, layout, "LSN in its header", &page.disk_lsn.to_string())?;
    for (index, candidate) in page.candidates.iter().enumerate() {
        let facts = &candidate.facts;
        let age = match candidate.since_checkpoint {
            Some(true) => "not older than the checkpoint",
            Some(false) => "older than the checkpoint",
            None => "checkpoint unknown",
        };
        let taken = if page.chosen == Some(index) { "; first in the order of the server" } else { "" };
        let words = format!(
            "{}, LSN {}, {}, {age}; disk: {}{taken}",
            printable(&slot_name(setting, facts)),
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
    write_fact(out, layout, "buffer holds", &page.held.to_string())
}

/// The answer: how many pages are wrong, and what the buffer holds of them.
pub(crate) fn innodb_headline(pages: &[InnodbPage], counts: &PageCounts, answer: Answer) -> Headline {
    let wrong: Vec<&InnodbPage> = pages.iter().filter(|page| page.is_wrong()).collect();
    let scanned = format!("{} pages", counts.pages);
    if wrong.is_empty() {
        let words = format!("no damaged page among {scanned}");
        return Headline::undamaged(vec![words, NOT_PREDICTED.to_owned()], answer);
    }
    let (newer, damaged): (Vec<&InnodbPage>, Vec<_>) = wrong.into_iter().partition(|page| !page.is_damaged());
    let mut sentences = Vec::new();
    if !damaged.is_empty() {
        let whole = damaged.iter().filter(|page| page.held.is_whole()).count();
        let of = format!("{} of {scanned}", damaged.len());
        sentences.push(format!("{of}; the doublewrite buffer holds a whole image of {whole}"));
    }
    if !newer.is_empty() {
        sentences.push(format!("{} of {scanned} are intact but newer than the redo log", newer.len()));
    }
    sentences.push(NOT_PREDICTED.to_owned());
    let badge = if damaged.is_empty() { "AT RISK" } else { "DAMAGED" };
    Headline::new(badge, Tone::Bad, sentences, answer)
}

/// The steps, numbered.
pub(crate) fn write_innodb_steps(out: &mut dyn Write, layout: Layout, steps: &[InnodbStep]) -> io::Result<()> {
    writeln!(out, "\n{}", layout.paint.heading("What to do"))?;
    for (index, step) in steps.iter().enumerate() {
        let lead = if steps.len() > 1 { format!("  {}. ", index + 1) } else { "  ".to_owned() };
        wrapped(out, layout, &lead, lead.len(), &printable(&step.words))?;
        if let Some(command) = &step.command {
            writeln!(out, "       {}", printable(command))?;
        }
    }
    Ok(())
}

/// Evidence for the answer, in a few lines.
pub(crate) fn write_basis(
    out: &mut dyn Write,
    layout: Layout,
    setting: SlotSetting<'_>,
    counts: &[SlotCounts],
    (end, is_shut_down): (Option<RedoEnd>, Option<bool>),
    scanned: &PageCounts,
) -> io::Result<()> {
    let SlotSetting { log, doublewrite, spaces, .. } = setting;
    writeln!(out, "\n{}", layout.paint.heading("Evidence"))?;
    let mut fact = |label: &str, words: &str| write_short_fact(out, layout, label, words);
    let kilobytes = doublewrite.page_bytes / 1024;
    fact("server", &format!("{}; {} tablespaces, pages of {kilobytes} kB", server_words(setting), spaces.all.len()))?;
    let lsn = |lsn: Option<String>| lsn.unwrap_or_else(|| "unknown".to_owned());
    let checkpoint = lsn(log.checkpoint.as_ref().map(|(found, _)| found.lsn.to_string()));
    let end = lsn(end.map(|end| end.lsn.to_string()));
    match is_shut_down {
        // A problem says it.
        Some(false) => {}
        Some(true) => fact("redo log", &format!("ends at its checkpoint, LSN {checkpoint}: shut down cleanly"))?,
        None => fact("redo log", &format!("checkpoint at LSN {checkpoint}, end at {end}; shutdown unknown"))?,
    }
    let sum = |of: fn(&SlotCounts) -> u64| counts.iter().map(of).sum::<u64>();
    let slots = [
        (sum(|one| one.sound), "good"),
        (sum(|one| one.damaged), "bad"),
        (sum(|one| one.unverifiable), "not testable"),
        (sum(|one| one.empty), "empty"),
    ];
    let slots: Vec<String> =
        slots.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let buffer = buffer_words(setting);
    match slots.is_empty() {
        true => fact("buffer", &buffer)?,
        false => fact("buffer", &format!("{buffer}: {} slots", slots.join(", ")))?,
    }
    let (pages, bytes) = (scanned.pages, size_words(scanned.bytes));
    let (sound, empty, damaged) = (scanned.sound, scanned.empty, scanned.damaged);
    fact("checked", &format!("{pages} pages, {bytes}: {sound} whole, {empty} zero-filled, {damaged} damaged"))
}

fn server_words(setting: SlotSetting<'_>) -> String {
    let SlotSetting { family, log, .. } = setting;
    log.creator.as_ref().map_or_else(|| family.to_string(), |made| format!("{made} (rules of {family})"))
}

/// Location of the doublewrite buffer.
fn buffer_words(setting: SlotSetting<'_>) -> String {
    match setting.doublewrite.layout {
        DoublewriteLayout::Files => format!("{} files", setting.doublewrite.files.len()),
        DoublewriteLayout::Legacy(header) => {
            format!("in the system tablespace, from its pages {} and {} on", header.blocks.0, header.blocks.1)
        }
        DoublewriteLayout::Elsewhere => "not found: its files are elsewhere, or lost".to_owned(),
        DoublewriteLayout::Missing => "none".to_owned(),
    }
}

/// A next step; with a command where a command does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnodbStep {
    /// Stable name.
    pub code: &'static str,
    pub words: String,
    pub command: Option<String>,
}

/// The next steps, in order. `arguments`: the directory as arguments of a command. `is_complete`: everything was checked.
pub(crate) fn innodb_steps(pages: &[InnodbPage], is_complete: bool, arguments: &str) -> Vec<InnodbStep> {
    let wrong: Vec<&InnodbPage> = pages.iter().filter(|page| page.is_wrong()).collect();
    let step = |code, words: String, command: Option<String>| InnodbStep { code, words, command };
    if wrong.is_empty() {
        let words = match is_complete {
            false => "No damaged page was found, but something was not checked (see below).",
            true => "Every page passes its checks. See the problems, if there are any, before you start the server.",
        };
        return vec![step("start", words.to_owned(), None)];
    }
    let dump = format!("pg_dwbinspect innodb dump --images NEW_DIR {arguments}");
    let words = "Before any startup, copy the directory and save the images:";
    let mut steps = vec![step("save_images", words.to_owned(), Some(dump))];
    let count = |helds: &[HeldImage]| wrong.iter().filter(|page| helds.contains(&page.held)).count();
    let groups: [(&str, &[HeldImage], &str); 4] = [
        (
            "compare",
            &[HeldImage::Newer, HeldImage::Same, HeldImage::Older],
            "the buffer has an intact image; compare it with a backup",
        ),
        ("decrypt", &[HeldImage::Encrypted], "the image is encrypted; only a server with the key can read it"),
        (
            "find_backup",
            &[HeldImage::Missing, HeldImage::Unreadable],
            "no usable image; only a backup may have the contents",
        ),
        (
            "find_buffer",
            &[HeldImage::Unknown],
            "images are unknown; find the doublewrite buffer (--doublewrite-dir, --my-cnf)",
        ),
    ];
    for (code, helds, words) in groups {
        let count = count(helds);
        if count > 0 {
            let pages = if count == 1 { "page" } else { "pages" };
            steps.push(step(code, format!("{count} {pages}: {words}."), None));
        }
    }
    steps.push(step(
        "verify_copy",
        "Start a server only on the copy. Verify the copy after a clean shutdown.".to_owned(),
        Some("pg_dwbinspect innodb verify COPY".to_owned()),
    ));
    steps
}
