//! The LSNs that a page had, record by record. A full-page image holds the page as it was before its record, with the LSN of
//! the record before: where that is another one, a change of the page is missing in what was read.
//! Also here: changes of pages by records, kept record by record: rows of a page without checksum are
//! compared with them.

pub use crate::parsers::decode::{u16_at, u32_at};

use super::events::{BlockEvent, Touch};
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::RecordKind;
use crate::parsers::wal::version::Major;
use crate::types::Lsn;

/// LSNs that a page may have at one moment, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PossibleLsns(Vec<Lsn>);

impl PossibleLsns {
    /// The page has this one.
    pub fn only(lsn: Lsn) -> Self {
        Self(vec![lsn])
    }

    /// Applies this record.
    pub(crate) fn pass(&mut self, event: &BlockEvent, major: Option<Major>) {
        match moves(event, major) {
            Moves::Surely => *self = Self::only(event.end_lsn),
            Moves::Perhaps => self.0.push(event.end_lsn),
            Moves::Never => {}
        }
    }

    /// True when the page may have this LSN.
    pub fn allow(&self, lsn: Lsn) -> bool {
        self.0.contains(&lsn)
    }

    /// The newest of them; `None` when nothing is known of the page.
    pub fn newest(&self) -> Option<Lsn> {
        self.0.last().copied()
    }
}

/// Whether a record sets the LSN of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    Surely,
    /// It depends on settings, or on whether the page was changed at all.
    Perhaps,
    Never,
}

/// Source: `log_heap_visible` and `log_heap_prune_and_freeze`, `src/backend/access/heap/`; `_hash_freeovflpage`,
/// `_hash_squeezebucket` and `hashbucketcleanup`, `src/backend/access/hash/`; `XLogSaveBufferForHint`,
/// `src/backend/access/transam/xloginsert.c`.
fn moves(event: &BlockEvent, major: Option<Major>) -> Moves {
    match event.touch {
        Touch::MapBits => Moves::Never,
        // The page gets the LSN when the hint bits are set; redo without an image does nothing.
        Touch::Hint => Moves::Perhaps,
        Touch::Image { .. } | Touch::Init => Moves::Surely,
        Touch::Change => {
            let is_perhaps = match event.record.kind {
                RecordKind::Heap2Visible => event.block_id == 1,
                // From 19 on these set bits of the map too, with nothing to be done to the heap page.
                kind if kind.is_prune_and_freeze() => major.is_none_or(|major| major.facts().prunes_set_map_bits),
                // A page of the bucket is named for its lock alone.
                RecordKind::HashMovePageContents | RecordKind::HashDelete => event.block_id == 0,
                RecordKind::HashSqueezePage => event.block_id <= 1,
                _ => false,
            };
            if is_perhaps { Moves::Perhaps } else { Moves::Surely }
        }
    }
}

/// An image that has another LSN inside than the records before it leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerLsn {
    /// Start of the record with the image.
    pub record_lsn: Lsn,
    /// The LSN inside it.
    pub found: Lsn,
    /// End of the last record before it that sets the LSN of the page.
    pub expected: Lsn,
}

/// The first of these records of one page, which follow each other without a gap, whose image shows that a record before it
/// is not among them. `is_new`: between the two records the page was removed, so that nothing is known of it.
pub fn broken_at<'a>(
    events: impl IntoIterator<Item = &'a BlockEvent>,
    major: Option<Major>,
    is_new: &dyn Fn(Lsn, Lsn) -> bool,
) -> Option<InnerLsn> {
    let mut known: Option<(Lsn, PossibleLsns)> = None;
    for event in events {
        let before = known.take().filter(|(start, _)| !is_new(*start, event.start_lsn)).map(|(_, lsns)| lsns);
        if let (Some(lsns), Touch::Image { prior_lsn, .. }) = (&before, &event.touch)
            && let Some(expected) = lsns.newest()
            // One that was built in memory has none.
            && *prior_lsn != Lsn::INVALID
            && !lsns.allow(*prior_lsn)
        {
            return Some(InnerLsn { record_lsn: event.start_lsn, found: *prior_lsn, expected });
        }
        let mut lsns = before.unwrap_or_default();
        lsns.pass(event, major);
        known = Some((event.start_lsn, lsns));
    }
    None
}

/// Bytes of records that are kept in all. From there on rows are not compared with WAL.
const MAX_BYTES: usize = 256 << 20;

/// Bytes of what belongs to no page that are kept of one record: more than any has that is looked into. A record may have
/// nearly 1 GiB, and name 33 pages.
const MAIN_BYTES: usize = 64 << 10;

/// A change of a page by a record. `B`: its bytes, or what stands for them.
#[derive(Clone, Debug)]
pub struct PageChange<B = Box<[u8]>> {
    /// Start of the record.
    pub start_lsn: Lsn,
    /// Its end, which is the LSN of the page then.
    pub end_lsn: Lsn,
    /// Its transaction; 0: none.
    pub xid: u32,
    /// The version that wrote it.
    pub major: Major,
    /// Its type.
    pub kind: RecordKind,
    /// Index of the page in the record.
    pub block_id: u8,
    /// It names no other page of a main fork.
    pub is_alone: bool,
    /// Blocks that it names.
    pub block_count: u8,
    /// It initialises the page.
    pub is_init: bool,
    /// The image, if it has one that is restored.
    pub image: Option<B>,
    /// The data of the page.
    pub data: B,
    /// The data that belongs to no page, at most its first 64 KiB.
    pub main: B,
}

/// Changes of chosen pages, by their index in the interest.
#[derive(Debug, Default)]
pub struct ChangeLog {
    by_page: Vec<Vec<PageChange>>,
    bytes: usize,
    /// Where room ran out.
    cut: Option<Lsn>,
}

impl ChangeLog {
    /// An empty log of that many pages.
    pub fn of(pages: usize) -> Self {
        Self { by_page: vec![Vec::new(); pages], ..Self::default() }
    }

    /// Changes of the page at this index, by LSN.
    pub fn changes(&self, index: usize) -> &[PageChange] {
        self.by_page.get(index).map_or(&[], Vec::as_slice)
    }

    /// Start of the first record that there was no room for.
    pub const fn cut(&self) -> Option<Lsn> {
        self.cut
    }

    /// Adds a change of the page at this index, after those of lower addresses.
    pub(crate) fn push(&mut self, index: usize, change: PageChange) {
        if self.cut.is_some() {
            return;
        }
        self.bytes = self.bytes.saturating_add(change.bytes());
        if self.bytes > MAX_BYTES {
            self.cut = Some(change.start_lsn);
        } else if let Some(list) = self.by_page.get_mut(index) {
            list.push(change);
        }
    }
}

impl<'a> PageChange<&'a [u8]> {
    /// An insertion into a heap of item 1: two attributes, no nulls, data from byte 24 on.
    #[cfg(test)]
    pub(crate) fn insertion(end_lsn: u64) -> Self {
        Self {
            start_lsn: Lsn(end_lsn.saturating_sub(0x40)),
            end_lsn: Lsn(end_lsn),
            xid: 690,
            major: Major::V15,
            kind: RecordKind::HeapInsert,
            block_id: 0,
            is_alone: true,
            block_count: 1,
            is_init: false,
            image: None,
            data: &[2, 0, 0, 0, 24, 0, b'x'],
            main: &[1, 0, 0],
        }
    }

    /// The change of one block by a record, with the image that redo puts there; `None` when it only sets hint bits.
    pub(crate) fn of(record: &'a Record<'_>, block: &'a BlockRef<'_>, image: Option<&'a [u8]>) -> Option<Self> {
        let main = record.main_data();
        if record.kind().is_hint() && image.is_none() {
            return None;
        }
        Some(Self {
            start_lsn: record.start_lsn,
            end_lsn: record.end_lsn,
            xid: record.header.xid,
            major: record.major,
            kind: record.kind(),
            block_id: block.block_id,
            is_alone: !record.blocks().any(|other| other.block_id != block.block_id && other.fork_code() == 0),
            block_count: record.layout.block_count,
            is_init: block.will_init(),
            image,
            data: block.data,
            main: main.get(..MAIN_BYTES).unwrap_or(main),
        })
    }
}

impl<B> PageChange<B> {
    /// The same with other bytes, or with what stands for them: first the image, then the data, then what belongs to no page.
    pub(crate) fn map<T>(self, mut into: impl FnMut(B) -> T) -> PageChange<T> {
        let Self { start_lsn, end_lsn, xid, major, kind, block_id, is_alone, block_count, is_init, .. } = self;
        let (image, data, main) = (self.image.map(&mut into), into(self.data), into(self.main));
        PageChange { start_lsn, end_lsn, xid, major, kind, block_id, is_alone, block_count, is_init, image, data, main }
    }
}

impl PageChange {
    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            .saturating_add(self.data.len())
            .saturating_add(self.main.len())
            .saturating_add(self.image.as_ref().map_or(0, |image| image.len()))
    }
}

impl PageChange {
    /// Two bytes of what the record puts into the page.
    pub(crate) fn data_u16(&self, at: usize) -> Option<u16> {
        u16_at(&self.data, at)
    }

    /// Two bytes of what belongs to no page.
    pub(crate) fn main_u16(&self, at: usize) -> Option<u16> {
        u16_at(&self.main, at)
    }

    /// Four bytes of what belongs to no page.
    pub(crate) fn main_u32(&self, at: usize) -> Option<u32> {
        u32_at(&self.main, at)
    }
}
