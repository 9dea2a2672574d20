//! One page and its images side by side: headers, line pointers, bytes that differ, and the records of WAL.
//! Also here: changes of a page by one record, and everything about one page for the command and for exports of the
//! terminal UI.

use std::io::{self, Write};
use std::ops::Range;

use super::check_text::{letter, write_evidence};
use super::documents::{JudgedCluster, events_of};
use super::escape::{ascii_or_dot, printable};
use super::page_rows::{RowsOf, write_rows};
use super::table::{plain_table, write_table};
use super::text::Layout;
use super::words::cluster::touch_words;
use crate::analysis::changes::events::BlockEvent;
use crate::analysis::changes::sectors::SECTOR_BYTES;
use crate::analysis::pages::page_diff::{FieldChange, ItemChange, ItemState, PageDiff, RowState};
use crate::analysis::verdict::images::{PageVersion, VersionOf};
use crate::analysis::verdict::survey::PageReport;
use crate::parsers::checksum::page_checksum;
use crate::parsers::page::{LinePointer, LinePointerState, PageHeader, line_pointers};
use crate::parsers::page_kind::PageKind;
use crate::parsers::wal::version::Major;
use crate::types::{Lsn, PageId};

/// Bytes in a row of the comparison.
const ROW_BYTES: usize = 8;

/// Records that are shown from either end of a long history.
const MAX_RECORDS: usize = 20;

/// Name of a version: `disk`, the letter of an image, or when it was.
pub(crate) fn version_title(version: &PageVersion) -> String {
    match version.of {
        VersionOf::Disk => "disk".to_owned(),
        VersionOf::Image(index) => letter(index).to_string(),
        VersionOf::Then(lsn) => format!("at {lsn}"),
    }
}

/// Titles of a table with a column for each version.
fn titles(first: &str, versions: &[PageVersion]) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(versions.iter().map(version_title)).collect()
}

/// Header fields, a column for each version.
pub(crate) fn write_headers(
    out: &mut dyn Write,
    layout: Layout,
    page: PageId,
    versions: &[PageVersion],
) -> io::Result<()> {
    writeln!(out, "\n{}", layout.paint.heading("Page header"))?;
    let mut table = plain_table(&titles("", versions));
    table.add_rows(header_fields(page, &bytes_of(versions)));
    write_table(out, &table)
}

/// Header fields that differ, marked, and below them those that do not. All fields where there is nothing to compare.
pub(crate) fn write_header_difference(
    out: &mut dyn Write,
    layout: Layout,
    page: PageId,
    versions: &[PageVersion],
) -> io::Result<()> {
    let is_same = |row: &Vec<String>| row.iter().skip(2).all(|cell| row.get(1) == Some(cell));
    let (same, differing): (Vec<_>, Vec<_>) = header_fields(page, &bytes_of(versions)).into_iter().partition(is_same);
    if versions.len() < 2 {
        return write_headers(out, layout, page, versions);
    }
    writeln!(out, "\n{}", layout.paint.heading("Page header"))?;
    let mut table = plain_table(&titles("", versions));
    for mut row in differing {
        if let Some(name) = row.first_mut() {
            name.insert_str(0, "! ");
        }
        table.add_row(row);
    }
    write_table(out, &table)?;
    let same: Vec<String> = same.iter().filter_map(|row| Some(format!("{} {}", row.first()?, row.get(1)?))).collect();
    if same.is_empty() { Ok(()) } else { writeln!(out, "  the same in all versions: {}", same.join("; ")) }
}

fn bytes_of(versions: &[PageVersion]) -> Vec<&[u8]> {
    versions.iter().map(|version| version.bytes.as_slice()).collect()
}

/// Fields of the page header: the name of each, then its value in each version.
pub(crate) fn header_fields(page: PageId, versions: &[&[u8]]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let headers: Vec<Option<PageHeader>> = versions.iter().map(|bytes| PageHeader::decode(0, bytes).ok()).collect();
    let mut row = |name: &str, cell: &dyn Fn(&PageHeader, &[u8]) -> String| {
        let cells = headers
            .iter()
            .zip(versions)
            .map(|(header, bytes)| header.as_ref().map_or_else(|| "-".to_owned(), |header| cell(header, bytes)));
        rows.push([name.to_owned()].into_iter().chain(cells).collect());
    };
    row("pd_lsn", &|header, _| header.lsn.to_string());
    row("pd_checksum", &|header, _| format!("{:#06x}", header.checksum));
    row("computed", &|_, bytes| format!("{:#06x}", page_checksum(bytes, page.block)));
    row("pd_flags", &|header, _| format!("{:#06x}", header.flags));
    row("pd_lower", &|header, _| header.lower.to_string());
    row("pd_upper", &|header, _| header.upper.to_string());
    row("pd_special", &|header, _| header.special.to_string());
    row("size, version", &|header, _| format!("{}, {}", header.page_size(), header.layout_version()));
    row("pd_prune_xid", &|header, _| header.prune_xid.to_string());
    row("kind", &|header, bytes| PageKind::of(header, bytes, page.fork).name().to_owned());
    row("items", &|header, bytes| {
        pointers_of(header, bytes, page).map_or_else(|| "-".to_owned(), |list| list.len().to_string())
    });
    rows
}

fn pointers_of(header: &PageHeader, bytes: &[u8], page: PageId) -> Option<Vec<LinePointer>> {
    PageKind::of(header, bytes, page.fork).has_line_pointers().then(|| line_pointers(header, bytes).collect())
}

/// Line pointers in which the versions differ.
pub(crate) fn write_items(
    out: &mut dyn Write,
    layout: Layout,
    page: PageId,
    versions: &[PageVersion],
) -> io::Result<()> {
    let lists: Vec<Vec<LinePointer>> = versions
        .iter()
        .map(|version| {
            let header = PageHeader::decode(0, &version.bytes).ok();
            header.and_then(|header| pointers_of(&header, &version.bytes, page)).unwrap_or_default()
        })
        .collect();
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    if longest == 0 {
        return Ok(());
    }
    let differs =
        |item: &usize| lists.iter().any(|list| list.get(*item) != lists.first().and_then(|first| first.get(*item)));
    let shown: Vec<usize> = (0..longest).filter(|item| versions.len() == 1 || differs(item)).collect();
    let equal = longest - shown.len();
    writeln!(out, "\n{}", layout.paint.heading("Line pointers (offset, length, state)"))?;
    let mut table = plain_table(&titles("item", versions));
    for item in &shown {
        let cells =
            lists.iter().map(|list| list.get(*item).map_or_else(|| "-".to_owned(), |pointer| pointer_words(*pointer)));
        table.add_row([(item + 1).to_string()].into_iter().chain(cells));
    }
    if !shown.is_empty() {
        write_table(out, &table)?;
    }
    if versions.len() > 1 {
        writeln!(out, "  {equal} of {longest} are the same in all versions")?;
    }
    Ok(())
}

fn pointer_words(pointer: LinePointer) -> String {
    format!("{} {} {}", pointer.offset(), pointer.length(), pointer.state().name())
}

/// Where the disk and one image differ, by sector; with `hex` the bytes too.
pub(crate) fn write_difference(
    out: &mut dyn Write,
    layout: Layout,
    disk: &PageVersion,
    image: &PageVersion,
    hex: bool,
) -> io::Result<()> {
    let paint = layout.paint;
    writeln!(out, "\n{}", paint.heading(&format!("Bytes on disk compared with {}", version_title(image))))?;
    let mut same = true;
    let sectors = disk.bytes.chunks(SECTOR_BYTES).zip(image.bytes.chunks(SECTOR_BYTES)).enumerate();
    for (sector, (on_disk, in_image)) in sectors {
        let count = on_disk.iter().zip(in_image).filter(|(one, other)| one != other).count();
        if count == 0 {
            continue;
        }
        same = false;
        let start = sector * SECTOR_BYTES;
        writeln!(out, "  sector {sector}, bytes {start} to {}: {count} differ", start + on_disk.len())?;
        if !hex {
            continue;
        }
        let rows = on_disk.chunks(ROW_BYTES).zip(in_image.chunks(ROW_BYTES)).enumerate();
        for (row, (left, right)) in rows.filter(|(_, (left, right))| left != right) {
            let at = start + row * ROW_BYTES;
            let differs: Vec<bool> = left.iter().zip(right).map(|(one, other)| one != other).collect();
            let side = |bytes: &[u8], painted: &dyn Fn(&str) -> String| {
                let cells = bytes.iter().zip(&differs);
                let hex: Vec<String> = cells
                    .map(|(byte, differs)| {
                        let text = format!("{byte:02x}");
                        if *differs { painted(&text) } else { text }
                    })
                    .collect();
                format!("{} {}", hex.join(" "), bytes.iter().map(|byte| ascii_or_dot(*byte)).collect::<String>())
            };
            let marks: String = differs.iter().map(|differs| if *differs { '*' } else { '.' }).collect();
            let left = side(left, &|text| paint.bad(text));
            let right = side(right, &|text| paint.good(text));
            writeln!(out, "  {at:04x}  {left}  {marks}  {right}")?;
        }
    }
    if same {
        writeln!(out, "  no byte differs")?;
    }
    Ok(())
}

/// Records that touch the page, with the redo point between them.
pub(crate) fn write_history(
    out: &mut dyn Write,
    layout: Layout,
    events: &[BlockEvent],
    major: Option<Major>,
    redo_lsn: Option<Lsn>,
) -> io::Result<()> {
    writeln!(out, "\n{}", layout.paint.heading("Records of this page in WAL"))?;
    if events.is_empty() {
        return writeln!(out, "  none in the WAL that was read");
    }
    let mut table = plain_table(&["record", "ends at", "type", "xid", "effect"]);
    let long = events.len() > 2 * MAX_RECORDS;
    let mut redo_shown = false;
    for (index, event) in events.iter().enumerate() {
        if let Some(redo) = redo_lsn.filter(|redo| !redo_shown && event.start_lsn >= *redo) {
            redo_shown = true;
            table.add_row([redo.to_string(), String::new(), "-- recovery begins here --".to_owned()]);
        }
        if long && index == MAX_RECORDS {
            let left_out = events.len() - 2 * MAX_RECORDS;
            table.add_row(["…".to_owned(), String::new(), format!("{left_out} records left out")]);
        }
        if long && (MAX_RECORDS..events.len() - MAX_RECORDS).contains(&index) {
            continue;
        }
        table.add_row([
            event.start_lsn.to_string(),
            event.end_lsn.to_string(),
            printable(&event.name(major)),
            event.xid.to_string(),
            touch_words(&event.touch).to_owned(),
        ]);
    }
    write_table(out, &table)
}

/// Ranges of bytes that are listed.
const MAX_RANGES: usize = 12;

pub(crate) fn write_change(out: &mut dyn Write, diff: &PageDiff) -> io::Result<()> {
    if diff.differing == 0 {
        return writeln!(out, "    nothing");
    }
    for change in &diff.fields {
        writeln!(out, "    {}: {} -> {}", change.field, field(change, change.before), field(change, change.after))?;
    }
    for change in &diff.items {
        writeln!(out, "    {}", item_words(change))?;
    }
    let shown: Vec<String> = diff.bytes.iter().take(MAX_RANGES).map(range_words).collect();
    let more = match diff.bytes.len().saturating_sub(MAX_RANGES) {
        0 => String::new(),
        more => format!(" and {more} more ranges"),
    };
    writeln!(out, "    bytes: {} differ, in {}{more}", diff.differing, shown.join(", "))
}

fn field(change: &FieldChange, value: u64) -> String {
    match change.field {
        "pd_lsn" => Lsn(value).to_string(),
        "pd_checksum" | "pd_flags" => format!("{value:#06x}"),
        _ => value.to_string(),
    }
}

fn range_words(range: &Range<usize>) -> String {
    match range.len() {
        1 => range.start.to_string(),
        _ => format!("{}-{}", range.start, range.end - 1),
    }
}

fn item_words(change: &ItemChange) -> String {
    let item = change.item;
    match (&change.before, &change.after) {
        (None, Some(after)) => format!("item {item} added: {}{}", pointer(after), row_words(after.row)),
        (Some(before), None) => format!("item {item} removed: {}{}", pointer(before), row_words(before.row)),
        (Some(before), Some(after)) => format!("item {item} changed: {}", differences(before, after).join(", ")),
        (None, None) => format!("item {item}"),
    }
}

fn pointer(state: &ItemState) -> String {
    match state.state {
        LinePointerState::Redirect => format!("redirect to item {}", state.offset),
        other => format!("offset {} length {} {}", state.offset, state.length, other.name()),
    }
}

fn row_words(row: Option<RowState>) -> String {
    row.map_or_else(String::new, |row| {
        let RowState { xmin, xmax, ctid: (block, item), infomask, infomask2 } = row;
        format!(", xmin {xmin} xmax {xmax} ctid ({block},{item}) infomask {infomask:#06x} infomask2 {infomask2:#06x}")
    })
}

/// Differences between two states of an item.
fn differences(before: &ItemState, after: &ItemState) -> Vec<String> {
    let mut words = Vec::new();
    let pointers = |state: &ItemState| (state.offset, state.length, state.state);
    if pointers(before) != pointers(after) {
        words.push(format!("{} -> {}", pointer(before), pointer(after)));
    }
    match (before.row, after.row) {
        (Some(before), Some(after)) => {
            let mut compare = |name: &str, before: String, after: String| {
                if before != after {
                    words.push(format!("{name} {before} -> {after}"));
                }
            };
            compare("xmin", before.xmin.to_string(), after.xmin.to_string());
            compare("xmax", before.xmax.to_string(), after.xmax.to_string());
            let ctid = |row: RowState| format!("({},{})", row.ctid.0, row.ctid.1);
            compare("ctid", ctid(before), ctid(after));
            let mask = |mask: u16| format!("{mask:#06x}");
            compare("infomask", mask(before.infomask), mask(after.infomask));
            compare("infomask2", mask(before.infomask2), mask(after.infomask2));
        }
        (None, Some(row)) => words.push(format!("a row:{}", row_words(Some(row)).trim_start_matches(','))),
        _ => {}
    }
    words
}

/// Writes evidence and verdict, the page on disk beside its images, its rows against those of each image where they are
/// given, and its records in WAL. `hex`: also the bytes that differ.
pub(crate) fn write_page_text(
    out: &mut dyn Write,
    layout: Layout,
    (cluster, title): (JudgedCluster<'_>, &str),
    found: &PageReport,
    versions: &[PageVersion],
    rows: &[RowsOf<'_>],
    hex: bool,
) -> io::Result<()> {
    let page = found.page;
    write_evidence(out, layout, found, title)?;
    if !versions.is_empty() {
        write_headers(out, layout, page, versions)?;
        write_items(out, layout, page, versions)?;
    }
    let disk_first = versions.split_first().filter(|(first, _)| first.of == VersionOf::Disk);
    for (index, of) in rows.iter().enumerate() {
        let title = match disk_first {
            Some((_, images)) => images.get(index).map_or("Rows on disk".to_owned(), |image| {
                format!("Rows on disk compared with {}", version_title(image))
            }),
            None => versions.get(index).map_or_else(String::new, |image| format!("Rows of {}", version_title(image))),
        };
        write_rows(out, layout, &title, of)?;
    }
    if let Some((disk, images)) = disk_first {
        for image in images {
            write_difference(out, layout, disk, image, hex)?;
        }
    }
    let report = cluster.report;
    write_history(out, layout, events_of(report, page), report.history.major, report.replay.redo_lsn)
}
