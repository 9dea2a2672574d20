//! Annotated hex dump of a page: header field by field, line pointers, free space, tuples, special space.

use std::io::{self, Write};

use super::colour::Paint;
use super::escape::ascii_or_dot;
use crate::parsers::page::{LinePointer, LinePointerState, PageHeader, is_all_zero, line_pointers};
use crate::parsers::page_kind::PageKind;

/// Bytes in one line of the dump.
const LINE_BYTES: usize = 16;

/// Writes a page with its parts named. `base` is the offset of the page in its file.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_page(out: &mut dyn Write, paint: Paint, base: u64, page: &[u8], kind: PageKind) -> io::Result<()> {
    let Ok(header) = PageHeader::decode(base, page) else {
        return write_part(out, paint, base, "page cut short", page, 0..page.len());
    };
    write_header(out, paint, base, page, &header)?;
    let mut at = PageHeader::SIZE.min(page.len());
    if header.is_new() {
        return write_part(out, paint, base, "rest of a page that was never initialised", page, at..page.len());
    }
    let in_page = |offset: u16| usize::from(offset).clamp(PageHeader::SIZE.min(page.len()), page.len());
    let (lower, upper, special) = (in_page(header.lower), in_page(header.upper), in_page(header.special));
    if kind.has_line_pointers() {
        write_line_pointers(out, paint, base, page, &header)?;
        at = lower;
    } else if lower > at {
        write_part(out, paint, base, "content", page, at..lower)?;
        at = lower;
    }
    if upper > at {
        write_part(out, paint, base, "free space", page, at..upper)?;
        at = upper;
    }
    if special > at {
        if kind.has_line_pointers() {
            write_tuples(out, paint, base, page, &header, at..special)?;
        } else {
            write_part(out, paint, base, "content", page, at..special)?;
        }
        at = special;
    }
    if page.len() > at {
        write_part(out, paint, base, "special space", page, at..page.len())?;
    }
    Ok(())
}

fn write_header(out: &mut dyn Write, paint: Paint, base: u64, page: &[u8], header: &PageHeader) -> io::Result<()> {
    writeln!(out, "  {}", paint.heading("page header"))?;
    let fields = [
        ("pd_lsn", 0..8, header.lsn.to_string()),
        ("pd_checksum", 8..10, format!("{:#06x}", header.checksum)),
        ("pd_flags", 10..12, format!("{:#06x}", header.flags)),
        ("pd_lower", 12..14, header.lower.to_string()),
        ("pd_upper", 14..16, header.upper.to_string()),
        ("pd_special", 16..18, header.special.to_string()),
        ("pd_pagesize_version", 18..20, format!("{} | {}", header.page_size(), header.layout_version())),
        ("pd_prune_xid", 20..24, header.prune_xid.to_string()),
    ];
    for (name, range, value) in fields {
        let bytes = page.get(range.clone()).unwrap_or_default();
        write_field(out, base + range.start as u64, bytes, name, &value)?;
    }
    Ok(())
}

fn write_line_pointers(
    out: &mut dyn Write,
    paint: Paint,
    base: u64,
    page: &[u8],
    header: &PageHeader,
) -> io::Result<()> {
    let count = header.line_pointer_count();
    writeln!(out, "  {}", paint.heading(&format!("line pointers ({count})")))?;
    for (index, pointer) in line_pointers(header, page).enumerate() {
        let at = PageHeader::SIZE + index * LinePointer::SIZE;
        let hex = hex_of(page.get(at..at + LinePointer::SIZE).unwrap_or_default());
        let words = match pointer.state() {
            LinePointerState::Unused => "unused".to_owned(),
            LinePointerState::Normal => format!("offset {} length {}", pointer.offset(), pointer.length()),
            LinePointerState::Redirect => format!("redirect to item {}", pointer.offset()),
            LinePointerState::Dead => format!("dead, offset {} length {}", pointer.offset(), pointer.length()),
        };
        writeln!(out, "  {:08x}  {hex:<24} item {}: {words}", base + at as u64, index + 1)?;
    }
    Ok(())
}

/// The tuples, each under the number of its item; bytes that no line pointer claims under their own heading.
fn write_tuples(
    out: &mut dyn Write,
    paint: Paint,
    base: u64,
    page: &[u8],
    header: &PageHeader,
    area: std::ops::Range<usize>,
) -> io::Result<()> {
    let mut tuples: Vec<(usize, usize, usize)> = line_pointers(header, page)
        .enumerate()
        .filter(|(_, pointer)| pointer.length() > 0 && pointer.state() != LinePointerState::Redirect)
        .map(|(index, pointer)| {
            let start = usize::from(pointer.offset());
            (start, start + usize::from(pointer.length()), index + 1)
        })
        .filter(|(start, end, _)| *start >= area.start && *end <= area.end)
        .collect();
    tuples.sort_unstable();
    let mut at = area.start;
    for (start, end, item) in tuples {
        if start < at {
            continue;
        }
        if start > at && !is_all_zero(page.get(at..start).unwrap_or_default()) {
            write_part(out, paint, base, "between tuples", page, at..start)?;
        }
        write_part(out, paint, base, &format!("tuple of item {item}"), page, start..end)?;
        at = end;
    }
    if at < area.end && !is_all_zero(page.get(at..area.end).unwrap_or_default()) {
        write_part(out, paint, base, "after the last tuple", page, at..area.end)?;
    }
    Ok(())
}

/// One named part in lines of 16 bytes; runs of equal zero lines are shown once.
fn write_part(
    out: &mut dyn Write,
    paint: Paint,
    base: u64,
    name: &str,
    page: &[u8],
    range: std::ops::Range<usize>,
) -> io::Result<()> {
    let title = format!("{name} ({} bytes)", range.len());
    writeln!(out, "  {}", paint.heading(&title))?;
    let bytes = page.get(range.clone()).unwrap_or_default();
    let mut zeros = false;
    for (index, line) in bytes.chunks(LINE_BYTES).enumerate() {
        let zero = is_all_zero(line) && line.len() == LINE_BYTES;
        if zero && zeros {
            continue;
        }
        if zero && bytes.len() > (index + 1) * LINE_BYTES && is_all_zero(&bytes[index * LINE_BYTES..]) {
            let rest = bytes.len() - index * LINE_BYTES;
            let at = base + (range.start + index * LINE_BYTES) as u64;
            return writeln!(out, "  {at:08x}  {}", paint.faint(&format!("{rest} zero bytes")));
        }
        write_hex_line(out, base + (range.start + index * LINE_BYTES) as u64, line)?;
        if zero {
            writeln!(out, "  {}", paint.faint("*"))?;
        }
        zeros = zero;
    }
    Ok(())
}

/// One field of a header: offset, bytes, name and value.
pub(crate) fn write_field(out: &mut dyn Write, offset: u64, bytes: &[u8], name: &str, value: &str) -> io::Result<()> {
    writeln!(out, "  {offset:08x}  {:<24} {name} = {value}", hex_of(bytes))
}

/// One line: offset, hex, text.
fn write_hex_line(out: &mut dyn Write, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let text: String = bytes.iter().map(|byte| ascii_or_dot(*byte)).collect();
    writeln!(out, "  {offset:08x}  {:<48} {text}", hex_of(bytes))
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
