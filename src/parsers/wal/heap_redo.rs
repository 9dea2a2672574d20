//! Records that change pages of tables and sequences, applied as recovery applies them.

use super::heap_row::{PruneLists, RowWrite};
use super::record::Record;
use super::records::RecordKind;
use super::version::Major;
use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::heap::TupleHeader;
use crate::parsers::image::ImageDecoder;
use crate::parsers::page::{LAYOUT_VERSION, LinePointer, LinePointerState, PageHeader, line_pointers};
use crate::types::{BlockNumber, Lsn};

/// Bits of `t_infomask` and `t_infomask2` that tell of a deleter or locker.
///
/// Source: `HEAP_XMAX_BITS`, `HEAP_MOVED`, `HEAP_KEYS_UPDATED`, `HEAP_HOT_UPDATED`, `src/include/access/htup_details.h`.
const XMAX_BITS: u16 = 0xDCD0;
const KEYS_UPDATED: u16 = 0x2000;
const HOT_UPDATED: u16 = 0x4000;

/// Flags of `xl_heap_delete`, `src/include/access/heapam_xlog.h`: of a speculative row, and to another partition.
const DELETE_IS_SUPER: u8 = 1 << 3;
const DELETE_MOVES: u8 = 1 << 4;

/// `t_ctid` of a row that went to another partition.
const MOVED_PARTITIONS: (BlockNumber, u16) = (BlockNumber::MAX, 0xFFFD);

/// Special space of the page of a sequence (`SEQ_MAGIC`), 8 bytes long.
const SEQUENCE_MAGIC: u64 = 0x1717;

/// Bytes of `xl_seq_rec` before the tuple.
const SEQUENCE_HEAD: usize = 12;

/// Bytes of `xl_multi_insert_tuple`: length, `t_infomask2`, `t_infomask`, `t_hoff`.
const MULTI_HEAD: usize = 7;

/// Bytes of what belongs to no page: more than any record has that changes rows. One may have nearly 1 GiB, and name 33 pages.
const MAX_MAIN_BYTES: usize = 64 << 10;

/// Most items of a page of 32 kB.
const MAX_ITEM: u16 = 8191;

/// A record that changes rows, as far as it changes one page.
#[derive(Clone, Debug)]
pub(crate) struct RowRecord {
    pub end_lsn: Lsn,
    pub(super) kind: RecordKind,
    major: Major,
    xid: u32,
    block: BlockNumber,
    /// The page of the new row of an update.
    new_block: BlockNumber,
    /// The old row of an update is on this page.
    has_old: bool,
    /// It does not read the page that was there.
    pub(super) starts_over: bool,
    pub(super) image: Option<Vec<u8>>,
    row: Option<RowWrite>,
    main: Vec<u8>,
    data: Vec<u8>,
}

impl RowRecord {
    /// The changes of a record, by the pages of main forks that it names. `None` for a record that is not of a
    /// table or sequence, or cannot be applied.
    pub fn all_of(record: &Record<'_>) -> Option<Vec<(crate::types::PageId, Self)>> {
        if !record.kind().writes_rows() {
            return None;
        }
        let size = usize::try_from(record.block_size).ok()?;
        if record.main_data().len() > MAX_MAIN_BYTES {
            return None;
        }
        let row = RowWrite::of(record);
        let new_block = record.block_heads().next().map_or(0, |(_, head)| head.block);
        let has_one = record.block_heads().count() == 1;
        let mut changes = Vec::new();
        for block in record.blocks().filter(|block| block.fork_code() == 0) {
            let page_id = block.page_id()?;
            let image = match block.image.filter(|image| image.applies()) {
                Some(image) => {
                    let mut page = vec![0; size];
                    ImageDecoder::new().restore(&image, &mut page).ok()?;
                    Some(page)
                }
                None => None,
            };
            let is_new = block.block_id == 0;
            let is_image = image.is_some();
            changes.push((
                page_id,
                Self {
                    end_lsn: record.end_lsn,
                    kind: record.kind(),
                    major: record.major,
                    xid: record.header.xid,
                    block: block.block,
                    new_block,
                    has_old: has_one || !is_new,
                    starts_over: is_image || block.will_init(),
                    row: row.clone().filter(|_| is_new && !is_image),
                    main: if is_image { Vec::new() } else { record.main_data().to_vec() },
                    data: if is_image { Vec::new() } else { block.data.to_vec() },
                    image,
                },
            ));
        }
        Some(changes)
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        let image = self.image.as_ref().map_or(0, Vec::len);
        size_of::<Self>().saturating_add(image).saturating_add(self.main.len()).saturating_add(self.data.len())
    }

    /// Applies it to a page; `None` where it does not fit.
    pub(super) fn apply(&self, page: &mut Vec<u8>) -> Option<()> {
        if let Some(image) = &self.image {
            page.clone_from(image);
        } else {
            if self.starts_over {
                let special = if self.kind == RecordKind::SeqLog { 8 } else { 0 };
                start_page(page, special)?;
            }
            self.change(page)?;
        }
        put(page, 0, &u32::try_from(self.end_lsn.0 >> 32).ok()?.to_le_bytes())?;
        put(page, 4, &u32::try_from(self.end_lsn.0 & u64::from(u32::MAX)).ok()?.to_le_bytes())
    }

    fn change(&self, page: &mut [u8]) -> Option<()> {
        let main = self.main.as_slice();
        let (xid, item) = (u32_at(main, 0), u16_at(main, 4));
        match self.kind {
            RecordKind::HeapInsert => self.insert(page, None),
            RecordKind::HeapUpdate | RecordKind::HeapHotUpdate => {
                let new_item = u16_at(main, 12)?;
                let is_hot = self.kind == RecordKind::HeapHotUpdate;
                // The row that begins or ends alike stands on this page, before it is marked.
                let old = item.and_then(|item| tuple_at(page, item)).map(<[u8]>::to_vec);
                if self.has_old {
                    let place = (self.new_block, new_item);
                    mark(page, item?, Marks { xmax: xid?, bits: *main.get(6)?, hot: Some(is_hot), ctid: Some(place) })?;
                }
                if self.block == self.new_block { self.insert(page, old.as_deref()) } else { Some(()) }
            }
            RecordKind::HeapDelete => {
                let (item, flags) = (item?, *main.get(7)?);
                let to = if flags & DELETE_MOVES != 0 { MOVED_PARTITIONS } else { (self.block, item) };
                mark(page, item, Marks { xmax: xid?, bits: *main.get(6)?, hot: Some(false), ctid: Some(to) })?;
                if flags & DELETE_IS_SUPER != 0 {
                    let at = tuple_range(page, item)?.start;
                    put(page, at, &[0; 4])?;
                }
                Some(())
            }
            RecordKind::HeapLock => {
                let (item, bits) = (item?, *main.get(6)?);
                let is_lock = bits & 2 != 0;
                let ctid = is_lock.then_some((self.block, item));
                mark(page, item, Marks { xmax: xid?, bits, hot: is_lock.then_some(false), ctid })
            }
            RecordKind::Heap2LockUpdated => {
                mark(page, item?, Marks { xmax: xid?, bits: *main.get(6)?, hot: None, ctid: None })
            }
            RecordKind::Heap2MultiInsert => self.multi_insert(page),
            RecordKind::HeapHeapConfirm => {
                let item = u16_at(main, 0)?;
                let at = tuple_range(page, item)?.start;
                put(page, at.checked_add(12)?, &ctid_bytes((self.block, item)))
            }
            RecordKind::HeapInplace => {
                let range = tuple_range(page, u16_at(main, 0)?)?;
                let offset = usize::from(*page.get(range.start.checked_add(22)?)?);
                let at = range.start.checked_add(offset)?;
                (at.checked_add(self.data.len())? == range.end).then_some(())?;
                put(page, at, &self.data)
            }
            RecordKind::SeqLog => add_item(page, 1, self.main.get(SEQUENCE_HEAD..)?),
            RecordKind::Heap2Visible | RecordKind::Heap2FreezePage => Some(()),
            _ => {
                let lists = PruneLists::of(self.major, self.kind, main, &self.data)?;
                for [from, to] in lists.redirected {
                    set_pointer(page, from, u32::from(to) | 2 << 15)?;
                }
                for item in lists.dead {
                    set_pointer(page, item, 3 << 15)?;
                }
                lists.unused.into_iter().try_for_each(|item| set_pointer(page, item, 0))
            }
        }
    }

    fn insert(&self, page: &mut [u8], old: Option<&[u8]>) -> Option<()> {
        let row = self.row.as_ref()?;
        let mut tuple = row.tuple(old)?;
        if self.kind != RecordKind::HeapInsert {
            put(&mut tuple, 4, self.main.get(8..12)?)?;
        }
        put(&mut tuple, 12, &ctid_bytes((self.block, row.at.item)))?;
        add_item(page, row.at.item, &tuple)
    }

    fn multi_insert(&self, page: &mut [u8]) -> Option<()> {
        let count = u16_at(&self.main, 2)?;
        let mut at = 0_usize;
        for index in 0..count {
            at = at.checked_next_multiple_of(2)?;
            let item = match self.starts_over {
                true => index.checked_add(1)?,
                false => u16_at(&self.main, usize::from(index).checked_mul(2)?.checked_add(4)?)?,
            };
            let length = usize::from(u16_at(&self.data, at)?);
            let head = self.data.get(at.checked_add(2)?..at.checked_add(MULTI_HEAD)?)?;
            at = at.checked_add(MULTI_HEAD)?;
            let rest = self.data.get(at..at.checked_add(length)?)?;
            at = at.checked_add(length)?;
            let mut tuple = self.xid.to_le_bytes().to_vec();
            tuple.resize(12, 0);
            tuple.extend(ctid_bytes((self.block, item)));
            tuple.extend_from_slice(head);
            tuple.extend_from_slice(rest);
            add_item(page, item, &tuple)?;
        }
        Some(())
    }
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) -> Option<()> {
    bytes.get_mut(at..at.checked_add(new.len())?)?.copy_from_slice(new);
    Some(())
}

fn ctid_bytes((block, item): (BlockNumber, u16)) -> Vec<u8> {
    let [b0, b1, b2, b3] = block.to_le_bytes();
    let [i0, i1] = item.to_le_bytes();
    vec![b2, b3, b0, b1, i0, i1]
}

/// A page without rows.
fn start_page(page: &mut [u8], special: u16) -> Option<()> {
    let size = u16::try_from(page.len()).ok()?;
    let upper = size.checked_sub(special)?;
    page.fill(0);
    let head = [u16::try_from(PageHeader::SIZE).ok()?, upper, upper, size | LAYOUT_VERSION];
    put(page, 12, &head.map(u16::to_le_bytes).concat())?;
    if special > 0 { put(page, usize::from(upper), &SEQUENCE_MAGIC.to_le_bytes()) } else { Some(()) }
}

fn pointer_at(item: u16) -> Option<usize> {
    let index = usize::from(item.checked_sub(1).filter(|_| item <= MAX_ITEM)?);
    index.checked_mul(LinePointer::SIZE)?.checked_add(PageHeader::SIZE)
}

fn set_pointer(page: &mut [u8], item: u16, pointer: u32) -> Option<()> {
    let at = pointer_at(item).filter(|at| u16_at(page, 12).is_some_and(|lower| *at < usize::from(lower)))?;
    put(page, at, &pointer.to_le_bytes())
}

fn tuple_range(page: &[u8], item: u16) -> Option<std::ops::Range<usize>> {
    let header = PageHeader::decode(0, page).ok()?;
    let pointer = line_pointers(&header, page).nth(usize::from(item.checked_sub(1)?))?;
    let start = usize::from(pointer.offset());
    let end = start.checked_add(usize::from(pointer.length()))?;
    let is_tuple = pointer.state() == LinePointerState::Normal && usize::from(pointer.length()) >= TupleHeader::SIZE;
    (is_tuple && end <= page.len()).then_some(start..end)
}

fn tuple_at(page: &[u8], item: u16) -> Option<&[u8]> {
    page.get(tuple_range(page, item)?)
}

/// Fields of a tuple that a deletion, an update or a lock writes.
struct Marks {
    xmax: u32,
    /// `infobits_set` of the record.
    bits: u8,
    hot: Option<bool>,
    ctid: Option<(BlockNumber, u16)>,
}

/// Source: `fix_infomask_from_infobits`, `src/backend/access/heap/heapam.c`.
fn mark(page: &mut [u8], item: u16, marks: Marks) -> Option<()> {
    let range = tuple_range(page, item)?;
    let tuple = page.get_mut(range)?;
    let (mut mask2, mut mask) = (u16_at(tuple, 18)? & !KEYS_UPDATED, u16_at(tuple, 20)? & !XMAX_BITS);
    for (bit, set) in [(1, 0x1000), (2, 0x0080), (4, 0x0040), (8, 0x0010)] {
        mask |= if marks.bits & bit != 0 { set } else { 0 };
    }
    mask2 |= if marks.bits & 0x10 != 0 { KEYS_UPDATED } else { 0 };
    match marks.hot {
        Some(true) => mask2 |= HOT_UPDATED,
        Some(false) => mask2 &= !HOT_UPDATED,
        None => {}
    }
    put(tuple, 4, &marks.xmax.to_le_bytes())?;
    put(tuple, 18, &mask2.to_le_bytes())?;
    put(tuple, 20, &mask.to_le_bytes())?;
    marks.ctid.map_or(Some(()), |ctid| put(tuple, 12, &ctid_bytes(ctid)))
}

/// Adds a tuple under an item number; tuples move together where there is no room.
///
/// Source: `PageAddItemExtended`, `src/backend/storage/page/bufpage.c`.
fn add_item(page: &mut [u8], item: u16, tuple: &[u8]) -> Option<()> {
    let header = PageHeader::decode(0, page).ok()?;
    let pointer_at = pointer_at(item)?;
    let lower = usize::from(header.lower).max(pointer_at.checked_add(LinePointer::SIZE)?);
    let length = tuple.len().checked_next_multiple_of(8)?;
    let fits = |upper: u16| usize::from(upper).checked_sub(length).filter(|start| *start >= lower);
    let start = match fits(header.upper) {
        Some(start) => start,
        None => fits(compact(page, &header, item)?)?,
    };
    let old_lower = usize::from(header.lower);
    page.get_mut(old_lower..lower.max(old_lower))?.fill(0);
    let pointer = u32::try_from(start).ok()? | 1 << 15 | u32::try_from(tuple.len()).ok()? << 17;
    put(page, pointer_at, &pointer.to_le_bytes())?;
    put(page, start, tuple)?;
    put(page, 12, &u16::try_from(lower).ok()?.to_le_bytes())?;
    put(page, 14, &u16::try_from(start).ok()?.to_le_bytes())
}

/// Moves all tuples except one to the end of the page; where the first begins.
fn compact(page: &mut [u8], header: &PageHeader, except: u16) -> Option<u16> {
    let items = u16::try_from(line_pointers(header, page).count()).ok()?;
    let kept: Vec<(u16, Vec<u8>)> = (1..=items)
        .filter(|item| *item != except)
        .filter_map(|item| Some((item, tuple_at(page, item)?.to_vec())))
        .collect();
    let mut upper = usize::from(header.special);
    for (item, tuple) in kept {
        upper = upper
            .checked_sub(tuple.len().checked_next_multiple_of(8)?)
            .filter(|at| *at >= usize::from(header.lower))?;
        put(page, upper, &tuple)?;
        let pointer = u32::try_from(upper).ok()? | 1 << 15 | u32::try_from(tuple.len()).ok()? << 17;
        set_pointer(page, item, pointer)?;
    }
    let upper = u16::try_from(upper).ok()?;
    put(page, 14, &upper.to_le_bytes())?;
    Some(upper)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parsers::wal::page_log::PageLog;
    use crate::parsers::wal::reader::{Event, ReaderOptions, WalReader};
    use crate::parsers::wal::testing::{PAGE, SEGMENT, WalWriter};
    use crate::types::Geometry;

    fn tuple(text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 24];
        bytes[22] = 24;
        bytes.extend_from_slice(text);
        bytes
    }

    fn empty() -> Vec<u8> {
        let mut page = vec![0; 8192];
        start_page(&mut page, 0).unwrap();
        page
    }

    #[test]
    fn tuples_move_together_where_a_page_has_no_room() {
        let mut page = empty();
        for item in 1..=4 {
            add_item(&mut page, item, &tuple(&[u8::try_from(item).unwrap(); 1900])).unwrap();
        }
        assert_eq!(add_item(&mut page, 5, &tuple(&[5; 1900])), None, "nothing is free");
        set_pointer(&mut page, 2, 0).unwrap();
        add_item(&mut page, 5, &tuple(&[5; 1900])).unwrap();
        let texts = [1, 3, 4, 5].map(|item| tuple_at(&page, item).unwrap()[24..].to_vec());
        assert_eq!(texts, [1, 3, 4, 5].map(|byte| vec![byte; 1900]));
        assert_eq!(tuple_at(&page, 2), None);
    }

    #[test]
    fn deletion_and_lock_change_the_header_alone() {
        let mut page = empty();
        add_item(&mut page, 1, &tuple(b"row")).unwrap();
        mark(&mut page, 1, Marks { xmax: 900, bits: 0x10, hot: Some(true), ctid: Some((7, 2)) }).unwrap();
        let header = TupleHeader::decode(0, tuple_at(&page, 1).unwrap()).unwrap();
        assert_eq!((header.xmax, header.ctid_block, header.ctid_item, header.infomask2), (900, 7, 2, 0x6000));
        assert!(!header.was_never_deleted());
        mark(&mut page, 1, Marks { xmax: 901, bits: 2 | 8, hot: None, ctid: None }).unwrap();
        let header = TupleHeader::decode(0, tuple_at(&page, 1).unwrap()).unwrap();
        assert!(header.was_never_deleted() && header.xmax == 901 && header.ctid_block == 7);
        assert_eq!(&tuple_at(&page, 1).unwrap()[24..], b"row");
    }

    fn change(kind: RecordKind, (starts_over, major): (bool, Major), main: Vec<u8>, data: Vec<u8>) -> RowRecord {
        let (end_lsn, xid, block, new_block) = (Lsn(0x100), 700, 3, 3);
        let has_old = true;
        RowRecord {
            end_lsn,
            kind,
            major,
            xid,
            block,
            new_block,
            has_old,
            starts_over,
            image: None,
            row: None,
            main,
            data,
        }
    }

    /// One record may name 33 pages and have nearly 1 GiB: what it holds for each is bounded.
    #[test]
    fn record_with_more_than_any_server_writes_changes_nothing() {
        let changes = |length: u32| {
            let mut writer = WalWriter::new(5 << 20);
            // Block 0: main fork without data, in relation 1663/5/16400, block 3. Then the head of long main data.
            let block = [[0, 0, 0, 0].to_vec(), [1663_u32, 5, 16_400, 3].map(u32::to_le_bytes).concat()].concat();
            let body = [block, vec![254], length.to_le_bytes().to_vec(), vec![0; length as usize]].concat();
            writer.record(10, 0x10, &body);
            writer.fill_page();
            let geometry = Geometry {
                block_size: 8192,
                rel_segment_blocks: 131_072,
                wal_block_size: u32::try_from(PAGE).unwrap(),
                wal_segment_size: u32::try_from(SEGMENT).unwrap(),
            };
            let mut reader = WalReader::new(ReaderOptions::new(geometry), Lsn(5 << 20)).unwrap();
            let mut bytes = writer.bytes.as_slice();
            match reader.next(&mut bytes) {
                Some(Event::Record(record)) => RowRecord::all_of(&record).map(|all| all.len()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((changes(8), changes(64 << 10), changes((64 << 10) + 1)), (Some(1), Some(1), None));
    }

    proptest! {
        #[test]
        fn any_record_leaves_a_whole_page_or_none(
            kind in prop::sample::select(vec![
                RecordKind::HeapUpdate, RecordKind::HeapDelete, RecordKind::HeapLock, RecordKind::Heap2LockUpdated,
                RecordKind::Heap2MultiInsert, RecordKind::HeapHeapConfirm, RecordKind::HeapInplace, RecordKind::SeqLog,
                RecordKind::Heap2Prune, RecordKind::Heap2Vacuum, RecordKind::Heap2PruneVacuumScan,
            ]),
            starts_over in any::<bool>(),
            major in prop::sample::select(vec![Major::V13, Major::V16, Major::V18]),
            main in proptest::collection::vec(any::<u8>(), 0..60),
            data in proptest::collection::vec(any::<u8>(), 0..300),
            page in proptest::collection::vec(any::<u8>(), 1024..1025),
        ) {
            let mut log = PageLog::default();
            log.push(change(kind, (starts_over, major), main, data), Lsn(0xC0));
            if let Some(after) = log.page(Some(&page), page.len()) {
                prop_assert_eq!(after.len(), page.len());
            }
        }
    }
}
