//! Mini-transactions in the redo log of MariaDB 10.8 and later.

use crate::parsers::crc::crc32c;
use crate::parsers::decode::be_u32_at;

/// Offset of the first mini-transaction in `ib_logfile0`.
pub const MTR_LOG_START: u64 = 12288;

/// Longest mini-transaction.
pub const MAX_MTR_BYTES: usize = 1 << 20;

/// Bytes after the records: one that ends them, and a checksum.
pub const MTR_TRAILER_BYTES: usize = 5;

/// High half of the first byte of a record that tells of the deletion of a file.
const FILE_DELETE: u8 = 0x90;

/// The same of one that makes a page.
const INIT_PAGE: u8 = 0x10;

/// The same of one that writes bytes, one that fills, and one that moves them.
const WRITE: u8 = 0x30;
const MEMSET: u8 = 0x40;
const MEMMOVE: u8 = 0x50;

/// Offset of the type of a page.
const TYPE_AT: u32 = 24;

/// Bit of the first byte: after a record of a page, this one is of the same page, which it does not name.
const SAME_PAGE: u8 = 0x80;

/// What stands at a place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mtr {
    /// A mini-transaction with a right checksum.
    Whole {
        /// Bytes of its records.
        record_bytes: usize,
        /// The bit that ends the records: it changes with each turn of the log over its file.
        sequence_bit: u8,
    },
    /// No record begins here: a server ends its log so.
    End,
    /// Records that do not end, or with a wrong checksum.
    Broken,
}

impl Mtr {
    /// Examines the bytes at a place, as many as there are, and at most those of the longest mini-transaction.
    ///
    /// Each record begins with a byte whose low half is the count of bytes that follow, or 0 where a number of 1 to 4 bytes
    /// gives that count less 15. A byte of 0 or 1 ends them; the checksum is the CRC-32C of all bytes before it.
    ///
    /// Source: `recv_sys_t::parse`, `storage/innobase/log/log0recv.cc` of MariaDB.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let mut at: usize = 0;
        while at <= MAX_MTR_BYTES {
            match step(bytes, at) {
                Some(Step::Record { next }) => at = next,
                Some(Step::Ends { sequence_bit }) => return Self::ended(bytes, at, sequence_bit),
                None => break,
            }
        }
        Self::Broken
    }

    /// The same for bytes of which it is known that the records end after `record_bytes`, with this bit.
    fn ended(bytes: &[u8], record_bytes: usize, sequence_bit: u8) -> Self {
        if record_bytes == 0 {
            return Self::End;
        }
        let records = bytes.get(..record_bytes).unwrap_or_default();
        let stored = be_u32_at(bytes, record_bytes.saturating_add(1));
        if stored == Some(crc32c(records)) { Self::Whole { record_bytes, sequence_bit } } else { Self::Broken }
    }
}

/// What a byte between two records says.
enum Step {
    /// A record begins, and another byte of this kind is after it.
    Record { next: usize },
    /// The records end.
    Ends { sequence_bit: u8 },
}

/// The byte at an offset; `None` where bytes end, or no record has it.
fn step(bytes: &[u8], at: usize) -> Option<Step> {
    let first = bytes.get(at).copied()?;
    if first <= 1 {
        return Some(Step::Ends { sequence_bit: first });
    }
    let after = at.checked_add(1)?;
    let length = match first & 0x0F {
        0 => extended(bytes.get(after..)?)?,
        length => usize::from(length),
    };
    Some(Step::Record { next: after.checked_add(length)? })
}

/// Mini-transactions in bytes in which nobody knows where one begins, by every offset at which one could: it ends, and its
/// checksum fits. Stops with `None` when checksums of more than `max_summed` bytes were computed.
pub fn search(bytes: &[u8], max_summed: u64) -> impl Iterator<Item = Option<(usize, Mtr)>> {
    // From the end on, so that no record is passed over twice.
    let mut ends: Vec<Option<usize>> = vec![None; bytes.len()];
    for at in (0..bytes.len()).rev() {
        let end = match step(bytes, at) {
            Some(Step::Ends { .. }) => Some(at),
            Some(Step::Record { next }) => ends.get(next).copied().flatten(),
            None => None,
        };
        if let Some(place) = ends.get_mut(at) {
            *place = end;
        }
    }
    let mut summed: u64 = 0;
    ends.into_iter().enumerate().filter_map(move |(at, end)| {
        let end = end.filter(|end| *end > at)?;
        let record_bytes = end.saturating_sub(at);
        summed = summed.saturating_add(record_bytes as u64);
        if summed > max_summed {
            return Some(None);
        }
        let found = Mtr::ended(bytes.get(at..)?, record_bytes, *bytes.get(end)?);
        matches!(found, Mtr::Whole { .. }).then_some(Some((at, found)))
    })
}

/// What a record tells of a tablespace as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceChange {
    /// Its file is deleted.
    Deleted(u32),
    /// Its page 0 is made, whatever the file holds there.
    Made(u32),
    /// Its size is written to page 0.
    Sized(u32),
}

/// Calls `met` with what the records of a mini-transaction tell of tablespaces as a whole.
///
/// The high half of the first byte is 9 for the deletion of a file, where no record of a page is before it: else its high bit says that the
/// page is the same as before. It is 1 for a page that is made, 3 for bytes that are written, and 4 and 5 for bytes that are filled or moved.
///
/// Source: `mrec_type_t`, `mfile_type_t`, `storage/innobase/include/mtr0types.h`; `recv_sys_t::parse`, `storage/innobase/log/log0recv.cc` of
/// MariaDB.
pub fn space_changes(records: &[u8], met: &mut dyn FnMut(SpaceChange)) {
    let mut at: usize = 0;
    let mut last: Option<Record<'_>> = None;
    while let Some(Step::Record { next }) = step(records, at) {
        let record = records.get(at..next).and_then(|record| Record::read(record, last));
        at = next;
        let Some(record) = record else { continue };
        let is_first = record.page_no == 0;
        match record.kind {
            FILE_DELETE => met(SpaceChange::Deleted(record.space_id)),
            INIT_PAGE if is_first => met(SpaceChange::Made(record.space_id)),
            WRITE if is_first && record.written.is_some_and(covers_size) => met(SpaceChange::Sized(record.space_id)),
            _ => {}
        }
        last = (record.kind < SAME_PAGE).then_some(record).or(last);
    }
}

/// Offset in page 0 of the size of a tablespace, 4 bytes.
const SIZE_AT: u32 = 46;

/// True for bytes of a page among which the size is: from, and up to.
const fn covers_size((from, to): (u32, u32)) -> bool {
    from <= SIZE_AT && to >= SIZE_AT + 4
}

/// A record, as far as it is unpacked.
#[derive(Clone, Copy)]
struct Record<'a> {
    /// High half of the first byte, without the bit of the same page.
    kind: u8,
    space_id: u32,
    page_no: u32,
    /// Bytes of the page that it is of: from, and up to.
    written: Option<(u32, u32)>,
    /// What follows the page, or the offset.
    rest: &'a [u8],
}

impl<'a> Record<'a> {
    /// Unpacks one; `last`: the record of a page before it in the same mini-transaction.
    fn read(record: &'a [u8], last: Option<Self>) -> Option<Self> {
        let first = *record.first()?;
        let after = record.get(1..)?;
        let length_bytes = if first & 0x0F == 0 { varint(after)?.1 } else { 0 };
        let fields = after.get(length_bytes..)?;
        let same = last.filter(|_| first & SAME_PAGE != 0);
        let mut read = match same {
            Some(same) => Self { kind: first & 0x70, rest: fields, ..same },
            None => {
                let (space_id, bytes) = varint(fields)?;
                let fields = fields.get(bytes..)?;
                let (page_no, bytes) = varint(fields)?;
                Self { kind: first & 0xF0, space_id, page_no, written: None, rest: fields.get(bytes..)? }
            }
        };
        let (WRITE | MEMSET | MEMMOVE) = read.kind else {
            // What is written to a page that was made counts from its type on.
            read.written = (read.kind == INIT_PAGE).then_some((TYPE_AT, TYPE_AT)).or(read.written);
            return Some(read);
        };
        let (offset, bytes) = varint(read.rest)?;
        read.rest = read.rest.get(bytes..)?;
        let from = same.and_then(|same| same.written).map_or(0, |(_, to)| to).checked_add(offset)?;
        let length = if read.kind == WRITE { u32::try_from(read.rest.len()).ok()? } else { varint(read.rest)?.0 };
        read.written = Some((from, from.checked_add(length)?));
        Some(read)
    }
}

/// Bytes of a record after its first byte, where that does not tell: the number of variable length included.
fn extended(bytes: &[u8]) -> Option<usize> {
    let (number, _) = varint(bytes)?;
    usize::try_from(number).ok()?.checked_add(15)
}

/// A number of variable length, and how many bytes it has.
///
/// Source: `mlog_decode_varint`, `storage/innobase/include/mtr0log.h` of MariaDB.
fn varint(bytes: &[u8]) -> Option<(u32, usize)> {
    const MIN_2: u32 = 1 << 7;
    const MIN_3: u32 = MIN_2 + (1 << 14);
    const MIN_4: u32 = MIN_3 + (1 << 21);
    let byte = |at: usize| bytes.get(at).copied().map(u32::from);
    let first = byte(0)?;
    Some(match first {
        0..0x80 => (first, 1),
        0x80..0xC0 => (MIN_2.saturating_add((first & 0x3F) << 8 | byte(1)?), 2),
        0xC0..0xE0 => (MIN_3.saturating_add((first & 0x1F) << 16 | byte(1)? << 8 | byte(2)?), 3),
        0xE0..0xF0 => (MIN_4.saturating_add((first & 0x0F) << 24 | byte(1)? << 16 | byte(2)? << 8 | byte(3)?), 4),
        0xF0 => (be_u32_at(bytes, 1)?, 5),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mtr(records: &[u8], bit: u8) -> Vec<u8> {
        let mut bytes = records.to_vec();
        bytes.push(bit);
        bytes.extend(crc32c(records).to_be_bytes());
        bytes
    }

    #[test]
    fn mini_transactions_end_at_a_bit_and_a_checksum() {
        let mut records = vec![0x35, 1, 2, 3, 4, 5, 0x42, 0, 1];
        records.push(0x30);
        records.push(0x03);
        records.extend([0; 17]);
        let whole = mtr(&records, 1);
        assert_eq!(Mtr::read(&whole), Mtr::Whole { record_bytes: records.len(), sequence_bit: 1 });
        let mut long = vec![0x30, 0x81, 0x10];
        long.extend(vec![9; 0x110 + 128 + 15 - 2]);
        assert_eq!(Mtr::read(&mtr(&long, 0)), Mtr::Whole { record_bytes: long.len(), sequence_bit: 0 });
        for length in 0..whole.len() {
            assert_eq!(Mtr::read(&whole[..length]), Mtr::Broken, "{length}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            assert!(!matches!(Mtr::read(&changed), Mtr::Whole { .. }), "{at}");
        }
        let mut among = vec![0xFF; 100];
        among.extend(&whole);
        among.push(0);
        let found: Vec<_> = search(&among, u64::MAX).collect();
        assert!(found.contains(&Some((100, Mtr::read(&whole)))), "{found:?}");
        // At each byte a record of two bytes could begin.
        let mut dense = vec![0x21; 4000];
        dense.extend([1, 0, 0, 0, 0]);
        assert_eq!(search(&dense, 10_000).filter(Option::is_none).count(), 3998);
        assert_eq!(Mtr::read(&[0, 0x9C]), Mtr::End);
        assert_eq!(Mtr::read(&vec![0x3F; MAX_MTR_BYTES + 100]), Mtr::Broken);
    }

    /// A record of a deletion tells of a file only where no page is before it: after one, its high bit says that the page is the same.
    #[test]
    fn what_happens_to_tablespaces() {
        use SpaceChange::{Deleted, Made, Sized};
        let changes = |records: &[u8]| {
            let mut changes = Vec::new();
            space_changes(records, &mut |change| changes.push(change));
            changes
        };
        // 8 bytes follow the first: tablespace 9, page 0, a path.
        let short = [&[0x98, 9, 0][..], b"w/a.ib"].concat();
        // 19 bytes, 4 more than 15, so that a number of its own tells.
        let long = [&[0x90, 4, 0x81, 0x10, 0][..], b"w/another.ibd##"].concat();
        let other = 128 + 0x110;
        assert_eq!(changes(&short), [Deleted(9)]);
        assert_eq!(changes(&long), [Deleted(other)]);
        assert_eq!(changes(&[&short[..], &long].concat()), [Deleted(9), Deleted(other)]);
        let page = [0x34, 9, 1, 2, 3];
        assert_eq!(changes(&[&page[..], &short].concat()), []);
        assert_eq!(changes(&[&short[..], &page].concat()), [Deleted(9)]);
        // Pages 0 and 1 are made; a byte of the latter is written.
        assert_eq!(changes(&[0x12, 9, 0, 0x12, 9, 1, 0xB2, 9, 0]), [Made(9)]);
        assert_eq!(changes(&[0x13, 0x81, 0x10, 0]), [Made(other)]);
        for length in 0..short.len() {
            assert_eq!(changes(&short[..length]), [], "{length}");
        }
        // The size is at bytes 46 to 50 of page 0. Of the same page, offsets count from the end of the last bytes.
        assert_eq!(changes(&[0x37, 9, 0, 46, 0, 0, 0, 8]), [Sized(9)]);
        assert_eq!(changes(&[0x37, 9, 1, 46, 0, 0, 0, 8]), []);
        assert_eq!(changes(&[0x37, 9, 0, 47, 0, 0, 0, 8]), []);
        assert_eq!(changes(&[0x36, 9, 0, 46, 0, 0, 0]), []);
        assert_eq!(changes(&[0x34, 9, 0, 40, 7, 0xB5, 5, 0, 0, 0, 8]), [Sized(9)]);
        assert_eq!(changes(&[0x34, 9, 0, 40, 7, 0xB5, 4, 0, 0, 0, 8]), []);
        assert_eq!(changes(&[0x12, 9, 0, 0xB5, 22, 0, 0, 0, 8]), [Made(9), Sized(9)]);
        assert_eq!(changes(&[0x45, 9, 0, 30, 6, 0, 0xB5, 10, 0, 0, 0, 8]), [Sized(9)]);
    }
}
