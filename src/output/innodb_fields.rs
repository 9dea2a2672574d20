//! Fields of a page of MySQL or MariaDB, for a table and for the byte under a cursor.

use crate::parsers::innodb::page::{PageHeader, PageTrailer};

/// Number of a page for "there is none".
const NO_PAGE: u32 = u32::MAX;

/// Fields of header and trailer, with their values as they are stored.
#[must_use]
pub fn page_fields(page: &[u8], is_full_crc32: bool) -> Vec<(&'static str, String)> {
    let Ok(header) = PageHeader::decode(0, page) else { return Vec::new() };
    let neighbour = |number: u32| if number == NO_PAGE { "none".to_owned() } else { number.to_string() };
    let page_type = header.page_type;
    let mut fields = vec![
        (name_at(0, page.len(), is_full_crc32), format!("{:#010x}", header.checksum)),
        ("page number", header.page_no.to_string()),
        ("previous page", neighbour(header.previous)),
        ("next page", neighbour(header.next)),
        ("LSN", header.lsn.to_string()),
        ("page type", format!("{} ({})", page_type.0, page_type.name())),
        ("flush LSN or key", format!("{:#x}", header.flush_lsn)),
        ("space id", header.space_id.to_string()),
    ];
    if let Some(trailer) = PageTrailer::of(page) {
        let end = page.len().saturating_sub(PageTrailer::SIZE);
        for (at, value) in [(end, trailer.first), (end.saturating_add(4), trailer.second)] {
            fields.push((name_at(at, page.len(), is_full_crc32), format!("{value:#010x}")));
        }
    }
    fields
}

/// What the byte at this offset of a page belongs to.
#[must_use]
pub const fn name_at(at: usize, length: usize, is_full_crc32: bool) -> &'static str {
    let left = length.saturating_sub(at);
    match (at, left) {
        (_, 1..=4) if is_full_crc32 => "trailer: checksum",
        (_, 1..=4) => "trailer: low LSN",
        (_, 5..=8) if is_full_crc32 => "trailer: low LSN",
        (_, 5..=8) => "trailer: checksum",
        (0..=3, _) if is_full_crc32 => "key version",
        (0..=3, _) => "checksum",
        (4..=7, _) => "page number",
        (8..=11, _) => "previous page",
        (12..=15, _) => "next page",
        (16..=23, _) => "LSN",
        (24..=25, _) => "page type",
        (26..=33, _) => "flush LSN or key",
        (34..=37, _) => "space id",
        _ => "content",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_the_name_of_its_bytes() {
        let mut page = vec![0; 4096];
        page[8..12].fill(0xFF);
        page[23] = 9;
        page[24..26].copy_from_slice(&17855_u16.to_be_bytes());
        page[4095] = 5;
        let fields = page_fields(&page, false);
        let offsets = [0, 4, 8, 12, 16, 24, 26, 34, 4088, 4092];
        assert_eq!(fields.len(), offsets.len());
        for ((name, _), at) in fields.iter().zip(offsets) {
            assert_eq!(*name, name_at(at, page.len(), false));
        }
        let value = |name: &str| fields.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_str());
        assert_eq!(value("previous page"), Some("none"));
        assert_eq!(value("LSN"), Some("9"));
        assert_eq!(value("page type"), Some("17855 (index)"));
        assert_eq!(value("trailer: low LSN"), Some("0x00000005"));
        assert_eq!(name_at(4092, 4096, true), "trailer: checksum");
        assert_eq!(name_at(0, 4096, true), "key version");
        assert_eq!(page_fields(&page[..20], false), []);
    }
}
