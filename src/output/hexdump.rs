//! Annotated hex dump of a page: header field by field, line pointers, free space, tuples, special space.
//! Also here: part of a page that a byte belongs to, in words.

use std::io::{self, Write};

use super::escape::ascii_or_dot;
use super::text::Paint;
use crate::parsers::page::{LinePointer, LinePointerState, PageHeader, is_all_zero, line_pointers};
use crate::parsers::page_kind::PageKind;
use crate::types::PageId;

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

/// A field: first byte, end, name.
type Field = (usize, usize, &'static str);

/// Fields of `PageHeaderData`, `src/include/storage/bufpage.h`.
const HEADER_FIELDS: [Field; 8] = [
    (0, 8, "pd_lsn"),
    (8, 10, "pd_checksum"),
    (10, 12, "pd_flags"),
    (12, 14, "pd_lower"),
    (14, 16, "pd_upper"),
    (16, 18, "pd_special"),
    (18, 20, "pd_pagesize_version"),
    (20, 24, "pd_prune_xid"),
];

/// Fields of `HeapTupleHeaderData`, `src/include/access/htup_details.h`.
const HEAP_FIELDS: [Field; 7] = [
    (0, 4, "t_xmin"),
    (4, 8, "t_xmax"),
    (8, 12, "t_cid"),
    (12, 18, "t_ctid"),
    (18, 20, "t_infomask2"),
    (20, 22, "t_infomask"),
    (22, 23, "t_hoff"),
];

/// Fields of `IndexTupleData`, `src/include/access/itup.h`.
const INDEX_FIELDS: [Field; 2] = [(0, 6, "t_tid"), (6, 8, "t_info")];

/// Part of a page that the byte `at` belongs to: a field with its value, a line pointer, a tuple, free or special space.
pub(crate) fn part_at(bytes: &[u8], page: PageId, at: usize) -> String {
    let Ok(header) = PageHeader::decode(0, bytes) else { return "the page ends here".to_owned() };
    if let Some((first, end, name)) = field_at(&HEADER_FIELDS, at) {
        return format!("{name} = {}", header_value(&header, name).unwrap_or_else(|| hex(bytes, first..end)));
    }
    if header.is_new() {
        return "no header: never initialised".to_owned();
    }
    let kind = PageKind::of(&header, bytes, page.fork);
    if at >= usize::from(header.special) {
        return format!("special space, byte {} ({})", at - usize::from(header.special), kind.name());
    }
    if !kind.has_line_pointers() {
        return format!("content ({})", kind.name());
    }
    let item = (at - PageHeader::SIZE) / LinePointer::SIZE;
    if at < usize::from(header.lower)
        && let Some(pointer) = line_pointers(&header, bytes).nth(item)
    {
        return format!("line pointer {}: {}", item + 1, pointer_words(pointer));
    }
    let holds = |pointer: &LinePointer| {
        let (start, length) = (usize::from(pointer.offset()), usize::from(pointer.length()));
        pointer.state() != LinePointerState::Redirect && (start..start + length).contains(&at)
    };
    if let Some((item, pointer)) = line_pointers(&header, bytes).enumerate().find(|(_, pointer)| holds(pointer)) {
        let start = usize::from(pointer.offset());
        let fields: &[Field] = if kind == PageKind::Heap { &HEAP_FIELDS } else { &INDEX_FIELDS };
        return match field_at(fields, at - start) {
            Some((first, end, name)) => {
                format!("tuple {}, {name} = {}", item + 1, value(bytes, start + first, start + end))
            }
            None => format!("tuple {}, byte {} of {}", item + 1, at - start, pointer.length()),
        };
    }
    if (usize::from(header.lower)..usize::from(header.upper)).contains(&at) {
        return "free space".to_owned();
    }
    "between tuples".to_owned()
}

fn field_at(fields: &[Field], at: usize) -> Option<Field> {
    fields.iter().find(|(first, end, _)| (*first..*end).contains(&at)).copied()
}

fn header_value(header: &PageHeader, name: &str) -> Option<String> {
    Some(match name {
        "pd_lsn" => header.lsn.to_string(),
        "pd_checksum" => format!("{:#06x}", header.checksum),
        "pd_flags" => format!("{:#06x}", header.flags),
        "pd_lower" => header.lower.to_string(),
        "pd_upper" => header.upper.to_string(),
        "pd_special" => header.special.to_string(),
        "pd_pagesize_version" => format!("{}, version {}", header.page_size(), header.layout_version()),
        "pd_prune_xid" => header.prune_xid.to_string(),
        _ => return None,
    })
}

fn pointer_words(pointer: LinePointer) -> String {
    format!("offset {} length {} {}", pointer.offset(), pointer.length(), pointer.state().name())
}

/// A little-endian number; hexadecimal where the field is not a plain number.
fn value(bytes: &[u8], first: usize, end: usize) -> String {
    match bytes.get(first..end) {
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]).to_string(),
        Some(&[a, b]) => format!("{:#06x}", u16::from_le_bytes([a, b])),
        Some(&[a]) => a.to_string(),
        // A block number in two halves, then an item.
        Some(&[a, b, c, d, e, f]) => {
            let (high, low) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
            format!("({},{})", u32::from(high) << 16 | u32::from(low), u16::from_le_bytes([e, f]))
        }
        _ => hex(bytes, first..end),
    }
}

fn hex(bytes: &[u8], range: std::ops::Range<usize>) -> String {
    bytes.get(range).unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ForkNumber, RelFileLocator};

    /// A heap page with one tuple of 32 bytes at its end.
    fn heap_page() -> Vec<u8> {
        let mut page = vec![0; 8192];
        page[0..8].copy_from_slice(&[0, 0, 0, 0, 0x10, 0, 0, 0]);
        page[12..14].copy_from_slice(&28_u16.to_le_bytes());
        page[14..16].copy_from_slice(&8160_u16.to_le_bytes());
        page[16..18].copy_from_slice(&8192_u16.to_le_bytes());
        page[18..20].copy_from_slice(&(8192_u16 | 4).to_le_bytes());
        page[24..28].copy_from_slice(&(8160_u32 | 1 << 15 | 32 << 17).to_le_bytes());
        page[8160..8164].copy_from_slice(&777_u32.to_le_bytes());
        page[8172..8178].copy_from_slice(&[0, 0, 5, 0, 2, 0]);
        page
    }

    #[test]
    fn every_byte_has_a_name() {
        let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 1259 };
        let page = PageId { rel, fork: ForkNumber::Main, block: 0 };
        for (at, words) in [
            (3, "pd_lsn = 0/00000010"),
            (12, "pd_lower = 28"),
            (26, "line pointer 1: offset 8160 length 32 normal"),
            (28, "free space"),
            (8161, "tuple 1, t_xmin = 777"),
            (8175, "tuple 1, t_ctid = (5,2)"),
            (8190, "tuple 1, byte 30 of 32"),
        ] {
            assert_eq!(part_at(&heap_page(), page, at), words, "{at}");
        }
        assert_eq!(part_at(&[], page, 0), "the page ends here");
        for at in 0..8192 {
            assert!(!part_at(&vec![0xFF; 8192], page, at).is_empty());
        }
    }
}
