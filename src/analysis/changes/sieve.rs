//! Sorts out, of the pages that replay touches and no checksum protects, those that nothing contradicts: no two images make up their sectors, and
//! their rows fit all records. What is held of a page is let go as soon as it is settled.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};

use super::content::names_xid_from;
use super::packed::{LONG_BYTES, PackedChanges};
use super::page_chain::PageChange;
use super::rows::{Fit, against_records};
use super::sectors::{SECTOR_BYTES, same_at_ends};
use crate::analysis::pages::page_check::PageCondition;
use crate::cluster::page_source::{PageRead, PageSource};
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::record::Record;
use crate::types::{ForkNumber, Lsn, PageId, is_newer_xid};

/// The largest page, all zero.
static ZEROS: [u8; 32 << 10] = [0; 32 << 10];

/// Bytes of changes that are held at once. Pages that there is no room for wait until WAL is read again.
const MAX_BYTES: usize = 64 << 20;

#[derive(Clone, Debug)]
pub(crate) struct PageOnDisk {
    pub page: PageId,
    pub lsn: Lsn,
    /// Sectors of zeros at its start and at its end.
    zeros: (usize, usize),
    /// It shows a transaction of which WAL has every record.
    pub is_late: bool,
    /// A record that builds the page makes those before it needless.
    is_heap: bool,
    /// Start of the newest record up to the LSN that builds it, if that is known.
    built_lsn: Option<Lsn>,
}

impl PageOnDisk {
    /// The page with its newest record up to the LSN that builds it.
    pub fn built_at(self, bases: &FxHashMap<PageId, Lsn>) -> Self {
        Self { built_lsn: bases.get(&self.page).copied(), ..self }
    }

    /// The record that builds it, if that makes those before it needless.
    fn base_lsn(&self) -> Option<Lsn> {
        self.built_lsn.filter(|_| self.is_heap)
    }

    /// A record up to its LSN builds it after this one: nothing before that is left in it.
    pub fn is_built_after(&self, lsn: Lsn) -> bool {
        self.built_lsn.is_some_and(|built| built > lsn)
    }

    /// `None` when its header cannot be read. `next_xid`: the first transaction of which WAL has every record.
    pub fn of(page: PageId, bytes: &[u8], next_xid: u32) -> Option<Self> {
        let header = PageHeader::decode(0, bytes).ok()?;
        let zeros = same_at_ends(bytes, ZEROS.get(..bytes.len()).unwrap_or(&ZEROS));
        let is_heap = PageKind::of(&header, bytes, ForkNumber::Main) == PageKind::Heap;
        Some(Self {
            page,
            lsn: header.lsn,
            zeros,
            is_late: names_xid_from(bytes, page.fork, next_xid),
            is_heap,
            built_lsn: None,
        })
    }
}

/// Reads the pages again, for one thread.
struct Disk {
    source: Mutex<Box<dyn PageSource + Send>>,
    bytes: Vec<u8>,
    /// The page in `bytes`.
    page: Option<PageId>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("page", &self.page).finish_non_exhaustive()
    }
}

impl Disk {
    /// The page; `None` where it is no longer what it was.
    fn read(&mut self, own: &PageOnDisk) -> Option<&[u8]> {
        if self.page != Some(own.page) {
            let source = self.source.get_mut().unwrap_or_else(PoisonError::into_inner);
            let read = source.read_page(own.page, &mut self.bytes);
            self.page = matches!(read, Ok(PageRead::Whole)).then_some(own.page);
        }
        let is_same =
            self.page.is_some() && PageHeader::decode(0, &self.bytes).is_ok_and(|header| header.lsn == own.lsn);
        is_same.then_some(self.bytes.as_slice())
    }
}

/// The pages to sort out, by index, for all threads.
pub(crate) struct SievedPages {
    pages: Vec<PageOnDisk>,
    redo_lsn: Lsn,
    block_size: usize,
    source: Mutex<Box<dyn PageSource + Send>>,
}

impl fmt::Debug for SievedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SievedPages").field("pages", &self.pages).finish_non_exhaustive()
    }
}

impl SievedPages {
    pub(crate) fn pages(&self) -> &[PageOnDisk] {
        &self.pages
    }

    fn sectors(&self) -> usize {
        self.block_size.div_ceil(SECTOR_BYTES)
    }

    fn disk(&self) -> Disk {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).another();
        Disk { source: Mutex::new(source), bytes: vec![0; self.block_size], page: None }
    }
}

/// What one stretch of WAL says of the pages, in the order of the records.
#[derive(Debug)]
pub(crate) struct Sifted {
    wanted: Arc<SievedPages>,
    disk: Disk,
    /// The pages that the changes are of, by index.
    changed: Vec<usize>,
    changes: PackedChanges,
    /// Sectors at the start and at the end that an image shares with the page.
    shared: Vec<(usize, (usize, usize))>,
    /// Pages that a record after their LSN rebuilds: later records show nothing about them.
    remade: FxHashSet<usize>,
    unclear: Vec<usize>,
    /// End of the last record.
    end_lsn: Lsn,
}

impl Sifted {
    /// Empty.
    pub(crate) fn new(wanted: Arc<SievedPages>) -> Self {
        Self {
            disk: wanted.disk(),
            wanted,
            changed: Vec::new(),
            changes: PackedChanges::default(),
            shared: Vec::new(),
            remade: FxHashSet::default(),
            unclear: Vec::new(),
            end_lsn: Lsn::INVALID,
        }
    }

    /// Empty, for the records after these.
    pub(crate) fn next(&self) -> Self {
        Self { remade: self.remade.clone(), end_lsn: self.end_lsn, ..Self::new(Arc::clone(&self.wanted)) }
    }

    /// Adds what a record does to the page, if the page is compared with it: one up to its LSN, or one that recovery applies to it as it is.
    /// `image`: what redo makes of the image, if there is one.
    pub(crate) fn add(&mut self, index: usize, record: &Record<'_>, block: &BlockRef<'_>, image: Option<&[u8]>) {
        let Some(own) = self.wanted.pages.get(index) else { return };
        self.end_lsn = record.end_lsn;
        let is_before = record.end_lsn <= own.lsn;
        if !is_before {
            if record.start_lsn < self.wanted.redo_lsn || self.remade.contains(&index) {
                return;
            }
            if block.will_init() || image.is_some() {
                self.remade.insert(index);
            }
        }
        if own.base_lsn().is_some_and(|base| record.start_lsn < base) {
            return;
        }
        // An image after the LSN of the page says nothing of it.
        let kept = if is_before { image } else { image.map(|_| &[][..]) };
        let is_long = is_before && (image.is_some() || block.data.len() >= LONG_BYTES);
        if let Some(change) = PageChange::of(record, block, kept) {
            let page = if is_long { self.disk.read(own) } else { None };
            self.changed.push(index);
            self.changes.pack(change, page);
        }
    }

    /// Bytes of memory that the changes take.
    pub(crate) fn bytes(&self) -> usize {
        self.changes.bytes()
    }

    /// Compares the sectors of the page with those of an image of it.
    pub(crate) fn add_image(&mut self, index: usize, image: &[u8]) {
        match self.wanted.pages.get(index).and_then(|own| self.disk.read(own)) {
            Some(page) => self.shared.push((index, same_at_ends(page, image))),
            None => self.unclear.push(index),
        }
    }

    /// Notes that an image of the page cannot be unpacked.
    pub(crate) fn add_unclear(&mut self, index: usize) {
        self.unclear.push(index);
    }
}

/// State of one page.
#[derive(Clone, Debug, Default)]
struct State {
    before: PackedChanges,
    after: PackedChanges,
    /// Most sectors at the start and at the end that are those of an image, but not all.
    shared: (usize, usize),
    /// The record that builds it was seen.
    has_base: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Records up to its LSN are awaited.
    #[default]
    Before,
    /// It fits those; records after it are awaited.
    After,
    /// It fits all records.
    Fits,
    Contradicted,
    /// There was no room.
    Waits,
}

pub(crate) struct Sieve {
    wanted: Arc<SievedPages>,
    states: Vec<State>,
    /// Indexes of the pages by LSN, and how many of them have been compared with the records up to it.
    by_lsn: Vec<usize>,
    passed: usize,
    disk: Disk,
    /// The first transaction of which WAL has every record.
    next_xid: u32,
    /// Bytes of changes that are held, and at most.
    held: usize,
    room: usize,
}

impl fmt::Debug for Sieve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sieve").field("wanted", &self.wanted).field("held", &self.held).finish_non_exhaustive()
    }
}

impl Sieve {
    /// `redo_lsn`: where replay begins; `next_xid`: the next transaction there.
    pub fn new(
        wanted: Vec<PageOnDisk>,
        source: &dyn PageSource,
        block_size: usize,
        (redo_lsn, next_xid): (Lsn, u32),
    ) -> Self {
        let state = |own: &PageOnDisk| State { shared: own.zeros, ..State::default() };
        let states = wanted.iter().map(state).collect();
        let mut by_lsn: Vec<usize> = (0..wanted.len()).collect();
        by_lsn.sort_unstable_by_key(|index| wanted.get(*index).map(|own| own.lsn));
        let wanted =
            Arc::new(SievedPages { pages: wanted, redo_lsn, block_size, source: Mutex::new(source.another()) });
        let disk = wanted.disk();
        Self { wanted, states, by_lsn, passed: 0, disk, next_xid, held: 0, room: MAX_BYTES }
    }

    /// The pages, for those who gather what WAL says of them.
    pub(crate) fn wanted(&self) -> Arc<SievedPages> {
        Arc::clone(&self.wanted)
    }

    /// Adds what the next records say.
    pub(crate) fn add(&mut self, sifted: Sifted) {
        let wanted = Arc::clone(&self.wanted);
        for (index, change) in sifted.changed.into_iter().zip(sifted.changes.iter()) {
            let Some((own, state)) = wanted.pages.get(index).zip(self.states.get_mut(index)) else { continue };
            if !matches!(state.stage, Stage::Before | Stage::After) {
                continue;
            }
            let is_before = change.end_lsn <= own.lsn;
            let builds = change.image.is_some() || change.is_init;
            state.has_base |= builds && own.base_lsn() == Some(change.start_lsn);
            let list = if is_before { &mut state.before } else { &mut state.after };
            let bytes = list.bytes();
            if builds && is_before && own.is_heap {
                list.clear();
            }
            list.push(change);
            self.held = self.held.saturating_sub(bytes).saturating_add(list.bytes());
            if builds && !is_before {
                self.settle(index, true);
            } else if self.held > self.room {
                self.leave(index, Stage::Waits);
            }
        }
        let count = wanted.sectors();
        for (index, (first, last)) in sifted.shared {
            if let Some(state) = self.states.get_mut(index) {
                let part = |known: usize, found: usize| if found < count { known.max(found) } else { known };
                state.shared = (part(state.shared.0, first), part(state.shared.1, last));
            }
        }
        for index in sifted.unclear {
            self.leave(index, Stage::Contradicted);
        }
        while let Some(index) = self.by_lsn.get(self.passed).copied() {
            if wanted.pages.get(index).is_none_or(|own| own.lsn > sifted.end_lsn) {
                break;
            }
            self.passed = self.passed.saturating_add(1);
            self.settle(index, false);
        }
    }

    /// The pages, whatever was found.
    pub fn into_pages(self) -> Vec<PageOnDisk> {
        let Self { wanted, .. } = self;
        Arc::try_unwrap(wanted).map_or_else(|shared| shared.pages.clone(), |own| own.pages)
    }

    /// Settles the rest: the pages to be judged, and those that there was no room for.
    pub fn finish(mut self) -> (Vec<PageId>, Vec<PageOnDisk>) {
        let (mut found, mut waiting) = (Vec::new(), Vec::new());
        for index in 0..self.states.len() {
            self.settle(index, true);
            let Some((own, state)) = self.wanted.pages.get(index).zip(self.states.get(index)) else { continue };
            let may_be_torn = state.shared.0 > 0
                && state.shared.1 > 0
                && state.shared.0.saturating_add(state.shared.1) >= self.wanted.sectors();
            if state.stage == Stage::Contradicted || may_be_torn {
                found.push(own.page);
            } else if state.stage == Stage::Waits {
                waiting.push(own.clone());
            }
        }
        (found, waiting)
    }

    /// Compares a page with the records that are held of it. `is_whole`: no others follow that say something of it.
    fn settle(&mut self, index: usize, is_whole: bool) {
        let Some((own, state)) = self.wanted.pages.get(index).zip(self.states.get_mut(index)) else { return };
        let is_first = match state.stage {
            Stage::Before => true,
            Stage::After if is_whole => false,
            _ => return,
        };
        let before = std::mem::take(&mut state.before);
        self.held = self.held.saturating_sub(before.bytes());
        let after = if is_whole { &state.after } else { &PackedChanges::default() };
        let is_new = |xid| !is_newer_xid(self.next_xid, xid);
        let is_new = (is_first && own.is_late).then_some(&is_new as &dyn Fn(u32) -> bool);
        let is_needless = before.is_empty() && is_new.is_none() && !after.begins_with_a_change();
        let is_sound =
            |page: &&[u8]| PageCondition::of(page, own.page.fork, own.page.block, false) == PageCondition::Sound;
        let agrees = |page: &[u8]| {
            let all = before.unpacked(page).zip(after.unpacked(page));
            all.is_some_and(|(before, after)| against_records(page, &before, &after, is_new) == Fit::Fits)
        };
        let lacks_base = own.base_lsn().is_some() && !state.has_base;
        let fits = is_needless && !lacks_base
            || own.page.fork != ForkNumber::Main
            || !lacks_base && self.disk.read(own).filter(is_sound).is_some_and(agrees);
        match (fits, is_whole) {
            (false, _) => self.leave(index, Stage::Contradicted),
            (true, true) => self.leave(index, Stage::Fits),
            (true, false) => state.stage = Stage::After,
        }
    }

    /// Ends the work on a page.
    fn leave(&mut self, index: usize, stage: Stage) {
        let Some(state) = self.states.get_mut(index) else { return };
        state.stage = stage;
        for list in [&mut state.before, &mut state.after] {
            self.held = self.held.saturating_sub(list.bytes());
            list.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::open::AccessError;
    use crate::parsers::wal::records::RecordKind;
    use crate::types::RelFileLocator;

    const REDO: Lsn = Lsn(0x100);
    const PAGE_LSN: u64 = 0x200;

    /// Every page is this one.
    struct Pages(Vec<u8>);

    fn empty_page() -> Vec<u8> {
        let mut page = vec![0; 8192];
        page[4..8].copy_from_slice(&u32::try_from(PAGE_LSN).unwrap().to_le_bytes());
        for (at, value) in [(12, 24_u16), (14, 8192), (16, 8192), (18, 0x2004)] {
            page[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        page
    }

    impl PageSource for Pages {
        fn read_page(&self, _: PageId, buf: &mut [u8]) -> Result<PageRead, AccessError> {
            buf.copy_from_slice(&self.0);
            Ok(PageRead::Whole)
        }

        fn has_fork(&self, _: RelFileLocator, _: ForkNumber) -> Result<bool, AccessError> {
            Ok(true)
        }

        fn another(&self) -> Box<dyn PageSource + Send> {
            Box::new(Self(self.0.clone()))
        }
    }

    /// A heap page with one row of transaction `xmin`: two attributes, and one byte of data.
    fn page_with_row(xmin: u32) -> Vec<u8> {
        let mut page = empty_page();
        for (at, value) in [(12, 28_u16), (14, 8160)] {
            page[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        page[24..28].copy_from_slice(&(8160_u32 | 1 << 15 | 25 << 17).to_le_bytes());
        page[8160..8164].copy_from_slice(&xmin.to_le_bytes());
        page[8178..8180].copy_from_slice(&2_u16.to_le_bytes());
        page[8182] = 24;
        page[8184] = b'x';
        page
    }

    fn sieve(pages: u32) -> Sieve {
        sieve_of(pages, &empty_page())
    }

    fn sieve_of(pages: u32, bytes: &[u8]) -> Sieve {
        let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16_400 };
        let page = |block| PageId { rel, fork: ForkNumber::Main, block };
        let wanted = (0..pages).map(|block| PageOnDisk::of(page(block), bytes, 700).unwrap()).collect();
        Sieve::new(wanted, &Pages(bytes.to_vec()), 8192, (REDO, 700))
    }

    fn after(mut sieve: Sieve, changes: Vec<(usize, PageChange<&[u8]>)>) -> (Vec<u32>, Vec<u32>) {
        let mut sifted = Sifted::new(sieve.wanted());
        for (index, change) in changes {
            sifted.changed.push(index);
            sifted.changes.pack(change, None);
        }
        sieve.add(sifted);
        let (found, waiting) = sieve.finish();
        (found.iter().map(|page| page.block).collect(), waiting.iter().map(|own| own.page.block).collect())
    }

    /// The row of a record up to the LSN of the page must be there; that of a later one need not.
    #[test]
    fn page_that_lacks_the_row_of_a_record_is_kept() {
        let changes = vec![(1, PageChange::insertion(PAGE_LSN)), (2, PageChange::insertion(PAGE_LSN + 0x100))];
        assert_eq!(after(sieve(3), changes), (vec![1], vec![]));
    }

    /// Rows of an image up to the LSN of the page must be there.
    #[test]
    fn page_that_lacks_the_row_of_an_image_is_kept() {
        let found = |disk: &[u8], image: &[u8]| {
            let change = PageChange { image: Some(image), data: &[], main: &[], ..PageChange::insertion(PAGE_LSN) };
            after(sieve_of(1, disk), vec![(0, change)])
        };
        let (empty, row) = (empty_page(), page_with_row(690));
        assert_eq!(found(&empty, &row), (vec![0], vec![]));
        assert_eq!(found(&row, &row), (vec![], vec![]));
        assert_eq!(found(&row, &empty), (vec![0], vec![]));
    }

    /// A record that is not followed may have brought the transaction that the page shows, or not.
    #[test]
    fn page_that_shows_what_no_followed_record_brought_is_kept() {
        let row = page_with_row(705);
        let unknown = PageChange { kind: RecordKind::Heap2CleanupInfo, ..PageChange::insertion(PAGE_LSN) };
        assert_eq!(after(sieve_of(1, &row), vec![(0, unknown.clone())]), (vec![0], vec![]));
        assert_eq!(after(sieve_of(1, &page_with_row(690)), vec![(0, unknown)]), (vec![], vec![]), "an old one");
        assert_eq!(
            after(sieve_of(1, &row), vec![(0, PageChange { xid: 705, ..PageChange::insertion(PAGE_LSN) })]),
            (vec![], vec![])
        );
    }

    /// A page is kept if the image that builds it is missing: earlier records are left out.
    #[test]
    fn page_whose_newest_image_does_not_come_is_kept() {
        let row = page_with_row(690);
        let found = |base_lsn: Lsn| {
            let mut sieve = sieve_of(1, &row);
            let mut pages = std::mem::take(&mut Arc::get_mut(&mut sieve.wanted).unwrap().pages);
            let bases = FxHashMap::from_iter([(pages[0].page, base_lsn)]);
            pages = pages.into_iter().map(|own| own.built_at(&bases)).collect();
            sieve.wanted = Arc::new(SievedPages {
                pages,
                redo_lsn: REDO,
                block_size: 8192,
                source: Mutex::new(Box::new(Pages(row.clone()))),
            });
            let change =
                PageChange { image: Some(row.as_slice()), data: &[], main: &[], ..PageChange::insertion(PAGE_LSN) };
            after(sieve, vec![(0, change)])
        };
        assert_eq!(found(Lsn(PAGE_LSN - 0x40)), (vec![], vec![]));
        assert_eq!(found(Lsn(PAGE_LSN - 0x80)), (vec![0], vec![]));
    }

    #[test]
    fn pages_without_room_wait() {
        let one = sieve(3);
        let mut alone = PackedChanges::default();
        alone.pack(PageChange::insertion(PAGE_LSN), None);
        let room = alone.bytes();
        let changes = vec![(1, PageChange::insertion(PAGE_LSN)), (2, PageChange::insertion(PAGE_LSN))];
        assert_eq!(after(Sieve { room, ..one }, changes), (vec![1], vec![2]));
    }

    #[test]
    fn image_that_cannot_be_unpacked_keeps_its_page() {
        let mut sieve = sieve(2);
        let mut sifted = Sifted::new(sieve.wanted());
        sifted.add_unclear(1);
        sieve.add(sifted);
        let (found, waiting) = sieve.finish();
        assert_eq!((found.len(), found[0].block, waiting.len()), (1, 1, 0));
    }

    /// The front of one image and the back of another make up the page.
    #[test]
    fn page_of_two_images_is_kept() {
        let mut sieve = sieve(1);
        let mut sifted = Sifted::new(sieve.wanted());
        let (mut front, mut back) = (empty_page(), empty_page());
        front[5000] = 1;
        back[300] = 1;
        sifted.add_image(0, &front);
        sieve.add(sifted);
        assert_eq!(sieve.states[0].shared.0, 9);
        let mut sifted = Sifted::new(sieve.wanted());
        sifted.add_image(0, &back);
        sieve.add(sifted);
        assert_eq!(sieve.finish().0.len(), 1);
    }
}
