//! Part of a page that a byte belongs to, in words.

use crate::parsers::page::{LinePointer, LinePointerState, PageHeader, line_pointers};
use crate::parsers::page_kind::PageKind;
use crate::types::PageId;

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
