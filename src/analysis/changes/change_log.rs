//! Changes of pages by records, kept record by record: rows of a page without checksum are compared with them.

pub use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::RecordKind;
use crate::parsers::wal::version::Major;
use crate::types::Lsn;

/// Bytes of records that are kept in all. From there on rows are not compared with WAL.
const MAX_BYTES: usize = 256 << 20;

/// Bytes of what belongs to no page that are kept of one record: more than any has that is looked into. A record may have
/// nearly 1 GiB, and name 33 pages.
const MAIN_BYTES: usize = 64 << 10;

#[derive(Clone, Debug)]
pub struct PageChange {
    pub start_lsn: Lsn,
    pub end_lsn: Lsn,
    pub xid: u32,
    pub major: Major,
    pub kind: RecordKind,
    /// Index of the page in the record.
    pub block_id: u8,
    pub is_alone: bool,
    pub block_count: u8,
    pub is_init: bool,
    pub image: Option<Box<[u8]>>,
    pub data: Box<[u8]>,
    /// The data that belongs to no page, at most its first 64 KiB.
    pub main: Box<[u8]>,
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

impl PageChange {
    /// The change of one block by a record, with the image that redo puts there; `None` when it only sets hint bits.
    pub(crate) fn of(record: &Record<'_>, block: &BlockRef<'_>, image: Option<&[u8]>) -> Option<Self> {
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
            image: image.map(Box::from),
            data: block.data.into(),
            main: main.get(..MAIN_BYTES).unwrap_or(main).into(),
        })
    }

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
