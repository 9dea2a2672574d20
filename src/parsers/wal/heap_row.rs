//! Rows that records of a heap write: the tuple as it stands in the page afterwards, or what is stored of it.

use super::record::Record;
use super::records::RecordKind;
use crate::parsers::decode::u16_at;
use crate::parsers::heap::TupleHeader;
use crate::types::{BlockNumber, RelFileLocator};

/// Bytes of `xl_heap_header`: `t_infomask2`, `t_infomask`, `t_hoff`.
///
/// Source: `xl_heap_header`, `src/include/access/heapam_xlog.h`.
const STORED_HEADER: usize = 5;

/// Flags of `xl_heap_update`: the row begins, or ends, like the old one; those bytes are left out.
const PREFIX_FROM_OLD: u8 = 1 << 5;
const SUFFIX_FROM_OLD: u8 = 1 << 6;

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowPlace {
    /// The relation.
    pub rel: RelFileLocator,
    /// The block of its main fork.
    pub block: BlockNumber,
    /// Item number, from 1.
    pub item: u16,
}

/// A row that a record writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowWrite {
    /// Where it stands from now on.
    pub at: RowPlace,
    /// Where the row stood that it replaces, with the bytes at its beginning and its end that are those of that row; `None`
    /// where all is stored.
    pub like: Option<(RowPlace, usize, usize)>,
    /// The tuple: its header, then what is stored; the bytes that are those of the old row are missing in between.
    tuple: Vec<u8>,
}

impl RowWrite {
    /// The row that `record` writes into a page without an image: `INSERT`, `UPDATE` or `HOT_UPDATE` of one row. `None` for any
    /// other record, and for what does not fit its type.
    pub fn of(record: &Record<'_>) -> Option<Self> {
        let is_update = match record.kind() {
            RecordKind::HeapInsert => false,
            RecordKind::HeapUpdate | RecordKind::HeapHotUpdate => true,
            _ => return None,
        };
        let main = record.main_data();
        let mut blocks = record.blocks();
        let new =
            blocks.next().filter(|block| block.block_id == 0 && block.image.is_none() && block.fork_code() == 0)?;
        let place = |block, item| RowPlace { rel: new.rel, block, item };
        let mut data = new.data;
        let (item, like) = if is_update {
            // old_xmax, old_offnum, old_infobits_set, flags, new_xmax, new_offnum.
            let (old_item, flags, item) = (u16_at(main, 4)?, *main.get(7)?, u16_at(main, 12)?);
            let mut length = |flag: u8| -> Option<usize> {
                if flags & flag == 0 {
                    return Some(0);
                }
                let length = u16_at(data, 0)?;
                data = data.get(2..)?;
                Some(usize::from(length))
            };
            let (prefix, suffix) = (length(PREFIX_FROM_OLD)?, length(SUFFIX_FROM_OLD)?);
            let old_block = blocks.next().map_or(new.block, |old| old.block);
            let like = (prefix > 0 || suffix > 0).then(|| (place(old_block, old_item), prefix, suffix));
            (item, like)
        } else {
            (u16_at(main, 0)?, None)
        };
        let (header, rest) = data.split_at_checked(STORED_HEADER)?;
        let mut tuple = record.header.xid.to_le_bytes().to_vec();
        tuple.resize(18, 0);
        tuple.extend_from_slice(header);
        tuple.extend_from_slice(rest);
        Some(Self { at: place(new.block, item), like, tuple })
    }

    /// The whole tuple. `old`: the tuple that stood at the place that [`Self::like`] names; without it what is incomplete
    /// stays so, and no other one follows.
    ///
    /// Source: `heap_xlog_update`, `src/backend/access/heap/heapam.c`.
    pub fn tuple(&self, old: Option<&[u8]>) -> Option<Vec<u8>> {
        let Some((_, prefix, suffix)) = self.like else { return Some(self.tuple.clone()) };
        let old = old?;
        let old_data = old.get(usize::from(TupleHeader::decode(0, old).ok()?.data_offset)..)?;
        let data_offset = usize::from(TupleHeader::decode(0, &self.tuple).ok()?.data_offset);
        let (header, stored) = self.tuple.split_at_checked(data_offset)?;
        let mut whole = header.to_vec();
        whole.extend_from_slice(old_data.get(..prefix)?);
        whole.extend_from_slice(stored);
        whole.extend_from_slice(old_data.get(old_data.len().checked_sub(suffix)?..)?);
        Some(whole)
    }
}

/// The row that an UPDATE or DELETE replaced, where the record holds it for logical decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OldRow {
    /// Bytes of it in the record.
    pub(crate) bytes: u32,
    /// All its columns (`REPLICA IDENTITY FULL`), not those of a key alone; `None` where the end of the record was not kept.
    pub(crate) is_whole: Option<bool>,
}

impl OldRow {
    /// That of a record, if it has one.
    ///
    /// Source: `xl_heap_update`, `xl_heap_delete`, `src/include/access/heapam_xlog.h`.
    pub(crate) fn of(record: &Record<'_>) -> Option<Self> {
        const FLAGS: usize = 7;
        let (fixed_bytes, whole_flag) = match record.kind() {
            RecordKind::HeapUpdate | RecordKind::HeapHotUpdate => (14, 1 << 2),
            RecordKind::HeapDelete => (8, 1 << 1),
            _ => return None,
        };
        let bytes = record.main_data_length().checked_sub(fixed_bytes).filter(|bytes| *bytes > 0)?;
        let is_whole = record.main_data().get(FLAGS).map(|flags| flags & whole_flag != 0);
        Some(Self { bytes, is_whole })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: RowPlace =
        RowPlace { rel: RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 1259 }, block: 3, item: 7 };

    /// A header of 24 bytes, `t_hoff` included, then `data`.
    fn tuple(data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 24];
        bytes[22] = 24;
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn what_is_left_out_comes_from_the_old_row() {
        let write = RowWrite { at: PLACE, like: Some((PLACE, 3, 2)), tuple: tuple(b"NEW") };
        assert_eq!(write.tuple(Some(&tuple(b"abcdefgh"))), Some(tuple(b"abcNEWgh")));
        assert_eq!(write.tuple(None), None, "never a guess");
        assert_eq!(write.tuple(Some(&tuple(b"ab"))), None, "the old row is too short to be that one");
        let whole = RowWrite { like: None, ..write };
        assert_eq!(whole.tuple(None), Some(tuple(b"NEW")));
    }
}
