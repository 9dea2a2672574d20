//! Which pages and relations WAL is asked about.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::types::{BlockNumber, ForkNumber, Lsn, Oid, PageId, RelFileLocator};

/// The pages and relations that a history is wanted of.
#[derive(Debug, Default)]
pub struct Interest {
    pages: FxHashMap<PageId, usize>,
    list: Vec<PageId>,
    rels: FxHashSet<RelFileLocator>,
    /// By index of the page: LSNs of images that were copied without a lock.
    copied: Vec<Vec<Lsn>>,
    maps: FxHashMap<RelFileLocator, Vec<(BlockNumber, usize)>>,
}

impl Interest {
    /// Adds a page; returns its index in the history.
    pub fn add(&mut self, page: PageId) -> usize {
        let next = self.list.len();
        let index = *self.pages.entry(page).or_insert(next);
        if index == next {
            self.list.push(page);
            self.copied.push(Vec::new());
            self.rels.insert(page.rel);
            if page.fork == ForkNumber::Vm {
                self.maps.entry(page.rel).or_default().push((page.block, index));
            }
        }
        index
    }

    /// Adds a relation of which only creation, truncation and removal matter.
    pub(crate) fn add_relation(&mut self, rel: RelFileLocator) {
        self.rels.insert(rel);
    }

    /// Asks for what the first change after `lsn` puts into the page at `index`: an image with that LSN which was
    /// copied without a lock must not hold it yet.
    pub fn watch(&mut self, index: usize, lsn: Lsn) {
        if let Some(list) = self.copied.get_mut(index).filter(|list| !list.contains(&lsn)) {
            list.push(lsn);
        }
    }

    /// Index of a page, if it was added.
    pub fn index_of(&self, page: PageId) -> Option<usize> {
        self.pages.get(&page).copied()
    }

    /// The pages, in the order in which they were added.
    pub fn pages(&self) -> &[PageId] {
        &self.list
    }

    /// True when nothing is wanted of any page or relation.
    pub fn is_empty(&self) -> bool {
        self.rels.is_empty()
    }

    /// True for a relation of a page, or one that was added by itself.
    #[inline]
    pub(super) fn has_relation(&self, rel: RelFileLocator) -> bool {
        self.rels.contains(&rel)
    }

    /// True when one of the relations belongs to the database.
    pub(super) fn has_database(&self, db_oid: Oid) -> bool {
        self.rels.iter().any(|rel| rel.db_oid == db_oid)
    }

    /// LSNs of images of the page at `index` that were copied without a lock.
    pub(super) fn watched(&self, index: usize) -> &[Lsn] {
        self.copied.get(index).map_or(&[], Vec::as_slice)
    }

    /// Index of a page of the visibility map, if it was added.
    pub(super) fn map_index(&self, rel: RelFileLocator, block: BlockNumber) -> Option<usize> {
        self.maps.get(&rel)?.iter().find_map(|(map, index)| (*map == block).then_some(*index))
    }
}
