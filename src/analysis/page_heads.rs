//! LSNs of pages as they are on disk: each is read once, however many records name the page.

use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use rustc_hash::{FxHashMap, FxHasher};

use crate::cluster::page_source::{PageRead, PageSource};
use crate::parsers::page::PageHeader;
use crate::types::{Lsn, PageId};

/// Parts of the table, each with a lock of its own.
const PARTS: usize = 64;

/// Pages that are kept in a part; those beyond are read again.
const MAX_PAGES: usize = 65_536;

/// State on disk of the page of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageHead {
    Lsn(Lsn),
    /// The file ends before it.
    BeyondEnd,
    /// No file, a part of a page, or something that cannot be read, which is reported where all pages are read.
    Nothing,
}

/// The table of a cluster, for all threads.
pub(crate) struct PageHeads {
    pages: Mutex<Box<dyn PageSource + Send>>,
    block_size: usize,
    parts: [Mutex<FxHashMap<PageId, PageHead>>; PARTS],
}

impl PageHeads {
    /// An empty table of pages of `block_size` bytes.
    pub fn new(pages: Box<dyn PageSource + Send>, block_size: usize) -> Self {
        Self { pages: Mutex::new(pages), block_size, parts: std::array::from_fn(|_| Mutex::default()) }
    }

    pub fn reader(&self) -> HeadReader<'_> {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner).another();
        HeadReader { heads: self, pages, buffer: vec![0; self.block_size] }
    }

    fn part(&self, page: PageId) -> Option<&Mutex<FxHashMap<PageId, PageHead>>> {
        let mut hasher = FxHasher::default();
        page.hash(&mut hasher);
        let bits = usize::try_from(hasher.finish() >> 58).unwrap_or_default();
        self.parts.get(bits % PARTS)
    }
}

pub(crate) struct HeadReader<'a> {
    heads: &'a PageHeads,
    pages: Box<dyn PageSource + Send>,
    buffer: Vec<u8>,
}

impl HeadReader<'_> {
    /// State of `page` on disk.
    pub fn head(&mut self, page: PageId) -> PageHead {
        let part = self.heads.part(page);
        let locked = || part.and_then(|part| part.lock().ok());
        if let Some(head) = locked().and_then(|known| known.get(&page).copied()) {
            return head;
        }
        let head = match self.pages.read_page(page, &mut self.buffer) {
            Ok(PageRead::Whole) => {
                PageHeader::decode(0, &self.buffer).map_or(PageHead::Nothing, |header| PageHead::Lsn(header.lsn))
            }
            Ok(PageRead::BeyondEnd) => PageHead::BeyondEnd,
            Ok(PageRead::Partial { .. } | PageRead::NoFile) | Err(_) => PageHead::Nothing,
        };
        if let Some(mut known) = locked().filter(|known| known.len() < MAX_PAGES) {
            known.insert(page, head);
        }
        head
    }
}
