//! Rows of the dictionary that name files of tablespaces.

use super::index_page::{IndexPage, IndexRecord};
use crate::parsers::decode::{be_u32_at, be_u64_at};

/// Page of the system tablespace with the roots of the dictionary's tables, but for MySQL 8 and later.
pub const DICTIONARY_HEADER_PAGE: u32 = 7;

/// Type of that page.
const SYSTEM_PAGE: u16 = 6;

/// Flag of a table that is temporary, and of one whose tablespace was discarded.
const TEMPORARY_OR_DISCARDED: u32 = 0x01 | 0x20;

/// All flags that a table can have.
///
/// Source: `DICT_TF2_BITS`, `storage/innobase/include/dict0mem.h`.
const KNOWN_FLAGS: u32 = 0x7F;

/// The number that the dictionary of MySQL 8 and later gives to the system tablespace; its own is 1.
const SYSTEM_NUMBER: u64 = 2;

/// The tablespace of temporary tables in MySQL 8 and later, which a start makes anew.
const TEMPORARY_SPACE: u32 = 0xFFFF_FFFD;

/// A file that the dictionary names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Path as the server has it, relative to the data directory or not.
    pub path: String,
    /// Tablespace that is in it; `None` where only another table of the dictionary says so.
    pub space_id: Option<u32>,
}

/// Page of the root of `SYS_TABLES`, from the page with the roots.
///
/// Source: `DICT_HDR_TABLES`, `storage/innobase/include/dict0boot.h`.
#[must_use]
pub fn tables_root(header_page: &[u8]) -> Option<u32> {
    let is_it = crate::parsers::decode::be_u16_at(header_page, 24) == Some(SYSTEM_PAGE);
    be_u32_at(header_page, 70).filter(|root| is_it && *root > DICTIONARY_HEADER_PAGE)
}

/// A row of `SYS_TABLES`, or of a page above its leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TablesRow {
    /// The page below.
    Child(u32),
    /// A table in a file of its own.
    File(NamedFile),
    /// A table in the system tablespace, a temporary or a discarded one, or a row that is deleted.
    Other,
}

impl TablesRow {
    /// Reads a row; `None` when its bytes are none.
    ///
    /// Fields: name, transaction, undo pointer, id, columns, type, 8 bytes that are not used, flags, cluster, tablespace.
    ///
    /// Source: `dict_boot`, `storage/innobase/dict/dict0boot.cc`.
    #[must_use]
    pub fn decode(page: &IndexPage<'_>, record: IndexRecord) -> Option<Self> {
        let fields = page.redundant_fields(record)?;
        let field = |index: usize| fields.get(index).copied().flatten();
        if page.level > 0 {
            return Some(Self::Child(be_u32_at(field(fields.len().checked_sub(1)?)?, 0)?));
        }
        let (name, space_id) = (field(0)?, be_u32_at(field(9)?, 0)?);
        // Old servers left anything in the flags of tables that are not compact.
        let is_compact = field(4).and_then(|columns| be_u32_at(columns, 0)).is_some_and(|columns| columns >> 31 == 1);
        let flags = field(7).and_then(|flags| be_u32_at(flags, 0));
        let flags = flags.filter(|flags| is_compact || *flags <= KNOWN_FLAGS).unwrap_or_default();
        if record.is_deleted || space_id == 0 || flags & TEMPORARY_OR_DISCARDED != 0 {
            return Some(Self::Other);
        }
        let path = format!("{}.ibd", std::str::from_utf8(name).ok()?);
        Some(Self::File(NamedFile { path, space_id: Some(space_id) }))
    }
}

/// A row of `mysql.tablespace_files` of MySQL 8 and later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilesRow {
    /// A file.
    File(NamedFile),
    /// The first row of every server, which names the dictionary's own file.
    Dictionary,
    /// A file of the system tablespace or of temporary tables, or a row that is deleted.
    Other,
}

impl FilesRow {
    /// Reads a row of a leaf; `None` when its bytes are of another table.
    ///
    /// Fields: number of the tablespace in the dictionary (8 bytes), of the file in it (4), transaction (6), undo pointer (7), path, and
    /// `id=` with the tablespace, which may be null.
    #[must_use]
    pub fn decode(page: &IndexPage<'_>, record: IndexRecord) -> Option<Self> {
        const PATH_AT: usize = 8 + 4 + 6 + 7;
        let data = page.data(record);
        let (number, file) = (be_u64_at(data, 0)?, be_u32_at(data, 8)?);
        let is_id_null = page.before(record, 0)? & 1 != 0;
        let first = page.before(record, 1)?;
        // Long lengths take two bytes.
        let (length, length_bytes): (usize, usize) = match first & 0x80 {
            0 => (usize::from(first), 1),
            _ => (usize::from(first & 0x3F) << 8 | usize::from(page.before(record, 2)?), 2),
        };
        let path = std::str::from_utf8(data.get(PATH_AT..PATH_AT.checked_add(length)?)?).ok()?;
        if path.is_empty() || path.contains(|letter: char| letter.is_control()) {
            return None;
        }
        if is_id_null {
            // Of general tablespaces, and of undo logs that a user made.
            let named = || Self::File(NamedFile { path: path.to_owned(), space_id: None });
            return Some(match (number, file, path) {
                (1, 1, "mysql.ibd") => Self::Dictionary,
                _ if record.is_deleted || number <= SYSTEM_NUMBER => Self::Other,
                _ => named(),
            });
        }
        let id_bytes = usize::from(page.before(record, length_bytes.checked_add(1)?)?);
        let id_at = PATH_AT.checked_add(length)?;
        let id = std::str::from_utf8(data.get(id_at..id_at.checked_add(id_bytes)?)?).ok()?;
        let space_id = id.split(';').find_map(|pair| pair.strip_prefix("id=")?.parse().ok())?;
        if record.is_deleted || space_id == TEMPORARY_SPACE || space_id == 0 {
            return Some(Self::Other);
        }
        Some(Self::File(NamedFile { path: path.to_owned(), space_id: Some(space_id) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that MySQL 9.7.4 wrote: of the system tablespace, of `CREATE TABLESPACE gts1 ADD DATAFILE 'gts1.ibd'`, and of a table.
    #[test]
    fn general_tablespaces_are_named_without_their_number() {
        let rows: [(&[u8], u8, &str, Option<FilesRow>); 3] = [
            (&[0x07, 0x01], 2, "ibdata1", Some(FilesRow::Other)),
            (
                &[0x08, 0x01],
                7,
                "gts1.ibd",
                Some(FilesRow::File(NamedFile { path: "gts1.ibd".to_owned(), space_id: None })),
            ),
            (
                &[0x05, 0x0D, 0x00],
                9,
                "./w/plain.ibdid=3;",
                Some(FilesRow::File(NamedFile { path: "./w/plain.ibd".to_owned(), space_id: Some(3) })),
            ),
        ];
        for (before, number, text, expected) in rows {
            let mut page = vec![0; 200];
            page[24..26].copy_from_slice(&17855_u16.to_be_bytes());
            page[42] = 0x80;
            page.extend(before);
            page.extend([0; 5]);
            let record = IndexRecord { origin: page.len(), is_deleted: false };
            page.extend([0, 0, 0, 0, 0, 0, 0, number, 0, 0, 0, 1]);
            page.extend([0; 13]);
            page.extend(text.as_bytes());
            assert_eq!(FilesRow::decode(&IndexPage::of(&page).unwrap(), record), expected, "{text}");
            let dropped = FilesRow::decode(&IndexPage::of(&page).unwrap(), IndexRecord { is_deleted: true, ..record });
            assert_eq!(dropped, Some(FilesRow::Other), "{text}");
        }
    }
}
