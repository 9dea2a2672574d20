//! Records of the redo log in blocks, of MySQL 5.7 and later: which tablespace one is of, and which files are deleted.

use crate::parsers::decode::{be_u16_at, be_u32_at};

/// Set in the type of a record that is all of its mini-transaction.
const SINGLE: u8 = 0x80;

/// Tablespace of the page that a record changes; `None` where it is of no page, or bytes end.
///
/// A record begins with its type, 1 byte, and where that is of a page, the numbers of the tablespace and of the page follow, packed.
///
/// Source: `mlog_parse_initial_log_record`, `storage/innobase/mtr/mtr0log.cc`; `mlog_id_t`, `storage/innobase/include/mtr0types.h`.
#[must_use]
pub fn changed_space(record: &[u8]) -> Option<u32> {
    // Others tell of files, of counters, or that several records end.
    let of_page = matches!(record.first()? & !SINGLE, 1..=30 | 36..=46 | 48..=53 | 57..=60 | 67..=76);
    let (space_id, length) = packed(record.get(1..)?).filter(|_| of_page)?;
    packed(record.get(length.checked_add(1)?..)?)?;
    Some(space_id)
}

/// Type of a record that tells of the deletion of a file.
const FILE_DELETE: u8 = 35;

/// Longest path in such a record, with the byte 0 that ends it.
const MAX_PATH_BYTES: usize = 4096;

/// Longest record of the deletion of a file.
pub const MAX_FILE_DELETE_BYTES: usize = 1 + 5 + 5 + 2 + MAX_PATH_BYTES;

/// Tablespace whose file a record deletes; `None` for any other bytes.
///
/// After the type, 1 byte, come the numbers of the tablespace and of a page, which is 0, both packed, 2 bytes with the length of the path,
/// and the path of a file with the ending of a tablespace, ended by a byte 0. That is enough to tell such a record from others where nobody
/// knows where one begins.
///
/// Source: `fil_op_write_log`, `storage/innobase/fil/fil0fil.cc`.
#[must_use]
pub fn deleted_space(record: &[u8]) -> Option<u32> {
    if record.first()? & !SINGLE != FILE_DELETE {
        return None;
    }
    let mut at: usize = 1;
    let (space_id, bytes) = packed(record.get(at..)?)?;
    at = at.checked_add(bytes)?;
    let (page_no, bytes) = packed(record.get(at..)?)?;
    at = at.checked_add(bytes)?;
    let length = usize::from(be_u16_at(record, at)?);
    let start = at.checked_add(2)?;
    let path = record.get(start..start.checked_add(length)?)?;
    let is_path = [".ibd\0", ".ibu\0"].iter().any(|ending| path.ends_with(ending.as_bytes()))
        && path.iter().filter(|byte| **byte < b' ').count() == 1;
    (page_no == 0 && length <= MAX_PATH_BYTES && is_path).then_some(space_id)
}

/// A number of 1 to 5 bytes, and how many it has: the high bits of the first byte tell, and small numbers and those close to 2^32 are short.
///
/// Source: `mach_parse_compressed`, `storage/innobase/mach/mach0data.cc`.
fn packed(bytes: &[u8]) -> Option<(u32, usize)> {
    let first = u32::from(*bytes.first()?);
    let (length, mask, high) = match first {
        0..=0x7F => (1, 0x7F, 0),
        0x80..=0xBF => (2, 0x3FFF, 0),
        0xC0..=0xDF => (3, 0x001F_FFFF, 0),
        0xE0..=0xEF => (4, 0x0FFF_FFFF, 0),
        0xF0..=0xF7 => return Some((be_u32_at(bytes, 1)?, 5)),
        0xF8..=0xFB => (2, 0x3FF, 0xFFFF_FC00),
        0xFC..=0xFD => (3, 0x0001_FFFF, 0xFFFE_0000),
        _ => (4, 0x00FF_FFFF, 0xFF00_0000),
    };
    let number = bytes.get(..length)?.iter().fold(0, |number: u32, byte| number << 8 | u32::from(*byte));
    Some((number & mask | high, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids of MySQL 9.7.4: `mysql.ibd` 0xFFFFFFFE, `undo_001` 0xFFFFFFEF.
    #[test]
    fn tablespace_of_a_record() {
        let cases: [(&[u8], Option<u32>); 12] = [
            (&[0xC6, 0x02, 0x85, 0x10, 0, 0], Some(2)),
            (&[0x08, 0xFB, 0xFE, 0x05], Some(0xFFFF_FFFE)),
            (&[0x94, 0xFB, 0xEF, 0x80, 0x90], Some(0xFFFF_FFEF)),
            (&[1, 0xC1, 2, 3, 7], Some(0x0001_0203)),
            (&[1, 0xE1, 2, 3, 4, 7], Some(0x0102_0304)),
            (&[1, 0xF0, 0x80, 0, 0, 1, 7], Some(0x8000_0001)),
            (&[1, 0xFD, 0, 1, 7], Some(0xFFFF_0001)),
            (&[1, 0xFE, 0, 0, 1, 7], Some(0xFF00_0001)),
            // Of no page: several records end, a file is made, a counter, none.
            (&[31, 2, 3], None),
            (&[33, 2, 3], None),
            (&[62, 2, 3], None),
            (&[0, 2, 3], None),
        ];
        for (record, wanted) in cases {
            assert_eq!(changed_space(record), wanted, "{record:02X?}");
            if wanted.is_some() {
                assert_eq!(changed_space(&record[..2]), None, "{record:02X?}");
            }
        }
        assert_eq!(changed_space(&[]), None);
    }

    /// As MySQL 9.7.4 wrote it for `drop table w.d74719`, whose tablespace was 100, and the same where other bytes are.
    #[test]
    fn tablespace_whose_file_is_deleted() {
        let path = b"./w/d74719.ibd\0";
        let record = [&[0xA3, 100, 0, 0, 15][..], path].concat();
        assert_eq!(deleted_space(&record), Some(100));
        assert_eq!(deleted_space(&[&record[..], &[7; 9]].concat()), Some(100));
        for length in 0..record.len() {
            assert_eq!(deleted_space(&record[..length]), None, "{length}");
        }
        for (at, byte) in [(0, 0xA1), (2, 1), (3, 1), (4, 14), (8, 0), (18, b'i')] {
            let mut other = record.clone();
            other[at] = byte;
            assert_eq!(deleted_space(&other), None, "{at}");
        }
    }
}
