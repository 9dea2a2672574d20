//! One piece of a relation file: read, cut into pages, each judged.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustc_hash::FxHashSet;

use super::page_check::PageCondition;
use super::page_links::Seen;
use super::page_scan::{
    BadPage, Gap, PIECE_BYTES, PageCounts, PartialPage, Piece, ScanOptions, StoredPiece, first_block,
};
use crate::analysis::skipped::SkipReason;
use crate::cluster::open::{AccessError, ReadFile, open_inside};
use crate::cluster::relation_walk::RelationFile;
use crate::parsers::checksum::page_checksums;
use crate::parsers::page::PageHeader;
use crate::parsers::table_pointers::for_each_table_block;
use crate::types::{BlockNumber, ForkNumber, PageId, RelFileLocator};

/// How often a page that fails is read again while a server may be writing it.
const READS_AGAIN: u32 = 4;

/// Pause before pages are read again: far longer than the write of a page takes.
const PAUSE: Duration = Duration::from_millis(25);

/// Pauses in all. A cluster with so much damage is not torn by reading; without an end to the pauses it would take hours.
const MAX_PAUSES: u32 = 400;

/// Pages whose checksums are computed before they are judged.
const PAGES_TOGETHER: usize = 4;

/// Results of the pieces of one portion, in order.
#[derive(Debug, Default)]
pub(crate) struct PortionDone {
    pub counts: PageCounts,
    pub bad: Vec<BadPage>,
    pub partial_pages: Vec<PartialPage>,
    /// Blocks of main forks of logged relations that are all zero, where links are followed.
    pub zeroed: Vec<(RelFileLocator, Range<BlockNumber>)>,
    /// References between pages of main forks, with the index of the file, if requested.
    pub links: Vec<(usize, Seen)>,
    /// The highest block of its table that each fork refers to, if requested.
    pub reach: Vec<(RelFileLocator, ForkNumber, BlockNumber)>,
    /// Sound pages of main forks without index that are not marked all-visible, if links were asked for.
    pub unmarked: Vec<(RelFileLocator, Range<BlockNumber>)>,
    pub gaps: Vec<Gap>,
}

impl PortionDone {
    fn note_reach(&mut self, page: PageId, highest: BlockNumber) {
        match self.reach.last_mut().filter(|(rel, fork, _)| (*rel, *fork) == (page.rel, page.fork)) {
            Some((.., before)) => *before = highest.max(*before),
            None => self.reach.push((page.rel, page.fork, highest)),
        }
    }

    fn note_zeroed(&mut self, rel: RelFileLocator, blocks: Range<BlockNumber>) {
        extend(&mut self.zeroed, rel, blocks);
    }

    /// Adds what the next pages of a file say of each other.
    fn note_links(&mut self, file: usize, seen: Seen) {
        let own = self.links.last_mut().filter(|(last, _)| *last == file);
        if !own.is_some_and(|(_, last)| last.join(&seen)) {
            self.links.push((file, seen));
        }
    }
}

/// Adds blocks to those before.
fn extend(ranges: &mut Vec<(RelFileLocator, Range<BlockNumber>)>, rel: RelFileLocator, blocks: Range<BlockNumber>) {
    match ranges.last_mut().filter(|(last, before)| *last == rel && before.end == blocks.start) {
        Some((_, before)) => before.end = blocks.end,
        None => ranges.push((rel, blocks)),
    }
}

/// Reads the pieces of one thread into one buffer.
pub(crate) struct PieceReader<'a> {
    root: &'a Path,
    files: &'a [RelationFile],
    options: &'a ScanOptions<'a>,
    pauses: &'a AtomicU32,
    unlogged: &'a FxHashSet<RelFileLocator>,
    open: Option<(usize, Result<ReadFile, SkipReason>)>,
    buf: Vec<u8>,
}

impl<'a> PieceReader<'a> {
    /// A reader of files below `root`; all readers share one count of pauses.
    pub(crate) fn new(
        root: &'a Path,
        files: &'a [RelationFile],
        options: &'a ScanOptions<'a>,
        pauses: &'a AtomicU32,
        unlogged: &'a FxHashSet<RelFileLocator>,
    ) -> Self {
        let length = usize::try_from(PIECE_BYTES).unwrap_or(usize::MAX);
        Self { root, files, options, pauses, unlogged, open: None, buf: vec![0; length] }
    }

    /// Reads and judges a piece; adds what it gave to `done`.
    pub(crate) fn read(&mut self, piece: Piece, done: &mut PortionDone) {
        let (root, files) = (self.root, self.files);
        let relation = &files[piece.file];
        if self.open.as_ref().is_none_or(|(file, _)| *file != piece.file) {
            let opened = open_inside(root, &relation.path);
            self.open = Some((piece.file, opened.map_err(SkipReason::from)));
        }
        let end = piece.offset.saturating_add(piece.length);
        match &self.open {
            Some((_, Ok(file))) => {
                let read = |buf: &mut [u8], offset| file.read_at(buf, offset);
                let is_logged = !self.unlogged.contains(&relation.rel);
                let judge =
                    Judge { piece, relation, options: self.options, pauses: self.pauses, read: &read, is_logged };
                if judge.is_whole() && file.is_hole(piece.offset, end) {
                    judge.hole(done);
                } else {
                    judge.judge(&mut self.buf, done);
                }
                if end == relation.size_bytes && file.size_bytes() > end {
                    let reason = SkipReason::FileGrown;
                    done.gaps.push(Gap { file: piece.file, from: end, to: file.size_bytes(), reason });
                }
            }
            Some((_, Err(reason))) => {
                done.gaps.push(Gap { file: piece.file, from: piece.offset, to: end, reason: reason.clone() });
            }
            None => {}
        }
    }
}

/// Fills the buffer from an offset of the file as far as the file reaches.
type Read<'a> = &'a dyn Fn(&mut [u8], u64) -> Result<usize, AccessError>;

struct Judge<'a> {
    piece: Piece,
    relation: &'a RelationFile,
    options: &'a ScanOptions<'a>,
    pauses: &'a AtomicU32,
    read: Read<'a>,
    is_logged: bool,
}

/// Judges a piece whose bytes were read already.
pub(crate) fn judge_stored(stored: &StoredPiece, options: &ScanOptions<'_>) -> PortionDone {
    let mut done = PortionDone::default();
    let relation: &RelationFile = &stored.relation;
    let geometry = options.geometry;
    let index = stored.offset.checked_div(u64::from(geometry.block_size)).unwrap_or_default();
    let block = u32::try_from(first_block(relation, geometry).saturating_add(index)).unwrap_or(u32::MAX);
    let piece = Piece { file: stored.file, offset: stored.offset, length: stored.length, block };
    // Nothing is read again: nobody writes to an archive.
    let (pauses, read) = (AtomicU32::new(0), |_: &mut [u8], _: u64| Ok(0));
    let judge = Judge { piece, relation, options, pauses: &pauses, read: &read, is_logged: true };
    judge.pages(&stored.bytes, 0, &mut done);
    for page in &done.bad {
        done.counts.add_damage(&page.damage);
    }
    let (have, length) = (stored.bytes.len(), usize::try_from(stored.length).unwrap_or(usize::MAX));
    match &stored.failed {
        Some(reason) if have < length => {
            let whole = have.saturating_sub(have.checked_rem(judge.block_size()).unwrap_or_default());
            done.gaps.push(judge.gap(whole, length, reason.clone()));
        }
        _ => judge.note_missing(0, have, length, &mut done),
    }
    done
}

impl Judge<'_> {
    fn judge(&self, buf: &mut [u8], done: &mut PortionDone) {
        let Some(buf) = usize::try_from(self.piece.length).ok().and_then(|length| buf.get_mut(..length)) else {
            return;
        };
        let (first_bad, first_gap) = (done.bad.len(), done.gaps.len());
        match (self.read)(buf, self.piece.offset) {
            Ok(filled) => {
                self.pages(buf.get(..filled).unwrap_or_default(), 0, done);
                self.note_missing(0, filled, buf.len(), done);
            }
            // Somewhere in the piece: page by page, so that only what cannot be read is left out.
            Err(_) => {
                for (index, page) in buf.chunks_mut(self.block_size()).enumerate() {
                    let at = index.saturating_mul(self.block_size());
                    match (self.read)(page, self.piece.offset.saturating_add(at as u64)) {
                        Ok(filled) => {
                            self.pages(page.get(..filled).unwrap_or_default(), at, done);
                            self.note_missing(at, filled, page.len(), done);
                        }
                        Err(error) => done.gaps.push(self.gap(at, at.saturating_add(page.len()), error)),
                    }
                }
            }
        }
        if self.options.read_again && done.bad.len() > first_bad {
            let mut failed = done.bad.split_off(first_bad);
            self.read_again(&mut failed, done);
            done.bad.append(&mut failed);
        }
        for page in done.bad.iter().skip(first_bad) {
            done.counts.add_damage(&page.damage);
        }
        if let Some(gaps) = done.gaps.get_mut(first_gap..) {
            gaps.sort_by_key(|gap| gap.from);
        }
    }

    /// True when the piece ends with a page.
    fn is_whole(&self) -> bool {
        self.piece.length.is_multiple_of(u64::from(self.options.geometry.block_size))
    }

    /// Counts the pages of a piece that is a hole of its file: all zero, and not read.
    fn hole(&self, done: &mut PortionDone) {
        let length = self.piece.length;
        let pages = length.checked_div(u64::from(self.options.geometry.block_size)).unwrap_or_default();
        done.counts.pages = done.counts.pages.saturating_add(pages);
        done.counts.zeroed = done.counts.zeroed.saturating_add(pages);
        done.counts.bytes = done.counts.bytes.saturating_add(length);
        done.counts.holes_bytes = done.counts.holes_bytes.saturating_add(length);
        let first = self.page_id(0);
        if self.follows_links(first) {
            let end = first.block.saturating_add(u32::try_from(pages).unwrap_or(u32::MAX));
            done.note_zeroed(first.rel, first.block..end);
            done.note_links(self.piece.file, Seen::Zeroed(first.block..end));
        }
    }

    fn block_size(&self) -> usize {
        usize::try_from(self.options.geometry.block_size).unwrap_or(usize::MAX)
    }

    /// A gap from one offset in the piece to another.
    fn gap(&self, from: usize, to: usize, reason: impl Into<SkipReason>) -> Gap {
        let at = |offset: usize| self.piece.offset.saturating_add(offset as u64);
        Gap { file: self.piece.file, from: at(from), to: at(to), reason: reason.into() }
    }

    /// Says so when fewer bytes came than the file had. The start of a page that is cut off now counts as missing.
    fn note_missing(&self, at: usize, filled: usize, asked: usize, done: &mut PortionDone) {
        if filled < asked {
            done.gaps.push(self.gap(
                at.saturating_add(
                    filled.checked_div(self.block_size()).unwrap_or_default().saturating_mul(self.block_size()),
                ),
                at.saturating_add(asked),
                SkipReason::FileShorter,
            ));
        }
    }

    fn page_id(&self, at: usize) -> PageId {
        let index = u32::try_from(at.checked_div(self.block_size()).unwrap_or_default()).unwrap_or(u32::MAX);
        let block = self.piece.block.saturating_add(index);
        PageId { rel: self.relation.rel, fork: self.relation.name.fork, block }
    }

    /// False past the end of a segment in a file that is too long: no server looks for the block there.
    fn is_in_reach(&self, page: PageId) -> bool {
        let segment = page.block.checked_div(self.options.geometry.rel_segment_blocks);
        segment == Some(self.relation.name.rel_segment)
    }

    /// Judges bytes that start at a page, `at` bytes into the piece.
    fn pages(&self, bytes: &[u8], at: usize, done: &mut PortionDone) {
        done.counts.bytes = done.counts.bytes.saturating_add(bytes.len() as u64);
        let whole = bytes.len().saturating_sub(bytes.len().checked_rem(self.block_size()).unwrap_or_default());
        let (pages, rest) = bytes.split_at(whole);
        let mut sums = Vec::new();
        // A few at a time: they are still in the first cache when they are examined.
        for (index, few) in pages.chunks(PAGES_TOGETHER.saturating_mul(self.block_size())).enumerate() {
            let at = at.saturating_add(index.saturating_mul(PAGES_TOGETHER).saturating_mul(self.block_size()));
            sums.clear();
            if self.options.checksums {
                page_checksums(few, self.block_size(), self.page_id(at).block, &mut sums);
            }
            self.judge_pages(few, at, &sums, done);
        }
        let at = at.saturating_add(whole);
        let offset = self.piece.offset.saturating_add(at as u64);
        if !rest.is_empty() && offset.saturating_add(rest.len() as u64) == self.relation.size_bytes {
            let page = self.page_id(at);
            let (have_bytes, bytes) = (rest.len(), rest.to_vec());
            done.partial_pages.push(PartialPage { file: self.piece.file, page, offset, have_bytes, bytes });
        }
    }

    /// Judges whole pages with these checksums.
    fn judge_pages(&self, pages: &[u8], at: usize, sums: &[u16], done: &mut PortionDone) {
        for (index, bytes) in pages.chunks_exact(self.block_size()).enumerate() {
            let at = at.saturating_add(index.saturating_mul(self.block_size()));
            let page = self.page_id(at);
            match PageCondition::with_checksum(bytes, page.fork, || sums.get(index).copied()) {
                PageCondition::Damaged(damage) => done.bad.push(BadPage {
                    file: self.piece.file,
                    page,
                    offset: self.piece.offset.saturating_add(at as u64),
                    damage: *damage,
                    bytes: bytes.to_vec(),
                }),
                condition => {
                    done.counts.add(&condition);
                    let header = PageHeader::decode(0, bytes).ok().filter(|_| self.is_logged);
                    done.counts.newest = done.counts.newest.max(header.map(|header| (header.lsn, page)));
                    let is_shown = self.is_logged && condition == PageCondition::Sound && self.is_in_reach(page);
                    if is_shown {
                        (self.options.look)(page, bytes);
                    }
                    if condition == PageCondition::Zeroed && self.follows_links(page) {
                        done.note_zeroed(page.rel, page.block..page.block.saturating_add(1));
                    }
                    let redo_lsn = self.options.links_at.filter(|_| is_shown);
                    if let Some((header, redo_lsn)) = header.zip(redo_lsn) {
                        let mut highest = None;
                        for_each_table_block(&header, bytes, page.fork, page.block, &mut |block| {
                            highest = highest.max(Some(block));
                        });
                        highest.into_iter().for_each(|highest| done.note_reach(page, highest));
                        if page.fork == ForkNumber::Main
                            && usize::from(header.special) == bytes.len()
                            && !header.is_all_visible()
                            && header.lsn <= redo_lsn
                        {
                            extend(&mut done.unmarked, page.rel, page.block..page.block.saturating_add(1));
                        }
                    }
                    if self.follows_links(page)
                        && let Some(seen) = Seen::of(bytes, page.block)
                    {
                        done.note_links(self.piece.file, seen);
                    }
                }
            }
        }
    }

    /// True where links of a page are followed. Unlogged relations count changes of their own, so nothing shows which of
    /// their pages are from the same point in time.
    fn follows_links(&self, page: PageId) -> bool {
        self.options.links_at.is_some() && page.fork == ForkNumber::Main && self.is_logged && self.is_in_reach(page)
    }

    /// Reads the pages that failed a few times more; those that are sound in the end were being written.
    fn read_again(&self, failed: &mut Vec<BadPage>, done: &mut PortionDone) {
        for _ in 0..READS_AGAIN {
            if failed.is_empty() || self.options.interrupted.load(Ordering::Relaxed) {
                return;
            }
            if self.pauses.fetch_add(1, Ordering::Relaxed) < MAX_PAUSES {
                std::thread::sleep(PAUSE);
            }
            failed.retain_mut(|page| {
                let reason = match (self.read)(&mut page.bytes, page.offset) {
                    Ok(filled) if filled == page.bytes.len() => {
                        let PageId { fork, block, .. } = page.page;
                        return match PageCondition::of(&page.bytes, fork, block, self.options.checksums) {
                            PageCondition::Damaged(damage) => {
                                page.damage = *damage;
                                true
                            }
                            condition => {
                                done.counts.add(&condition);
                                false
                            }
                        };
                    }
                    Ok(_) => SkipReason::FileShorter,
                    Err(error) => SkipReason::from(error),
                };
                let to = page.offset.saturating_add(page.bytes.len() as u64);
                done.gaps.push(Gap { file: page.file, from: page.offset, to, reason });
                false
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;
    use std::ops::Range;
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::cluster::relation_path::RelationFileName;
    use crate::types::{Geometry, RelFileLocator};

    const PAGE: usize = 1024;
    const GEOMETRY: Geometry =
        Geometry { block_size: 1024, rel_segment_blocks: 100, wal_block_size: 8192, wal_segment_size: 1 << 20 };

    /// Judges a file of all-zero pages in its second segment, read by `read`, listed with `listed` bytes.
    fn judged(listed: usize, read_again: bool, read: Read<'_>) -> PortionDone {
        judged_with(listed, read_again, true, read)
    }

    fn judged_with(listed: usize, read_again: bool, checksums: bool, read: Read<'_>) -> PortionDone {
        shown_with(listed, read_again, checksums, read).0
    }

    /// Findings, and the pages that are shown.
    fn shown_with(listed: usize, read_again: bool, checksums: bool, read: Read<'_>) -> (PortionDone, Vec<PageId>) {
        let shown = Mutex::new(Vec::new());
        let name = RelationFileName::parse("16384.1").unwrap();
        let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: name.rel_number };
        let relation = RelationFile { path: PathBuf::from("16384.1"), rel, name, size_bytes: listed as u64 };
        let interrupted = AtomicBool::new(false);
        let options = ScanOptions {
            jobs: 1,
            checksums,
            geometry: GEOMETRY,
            read_again,
            interrupted: &interrupted,
            look: &|page, _| shown.lock().unwrap().push(page),
            links_at: None,
            progress: &|_| {},
        };
        let piece = Piece { file: 3, offset: 0, length: listed as u64, block: 100 };
        let mut done = PortionDone::default();
        let pauses = AtomicU32::new(0);
        let judge = Judge { piece, relation: &relation, options: &options, pauses: &pauses, read, is_logged: true };
        judge.judge(&mut vec![7; listed], &mut done);
        (done, shown.into_inner().unwrap())
    }

    /// Reads zeros up to `size`; fails where a read touches `broken`.
    fn zeros(size: usize, broken: Range<u64>) -> impl Fn(&mut [u8], u64) -> Result<usize, AccessError> {
        move |buf, offset| {
            if offset < broken.end && offset + buf.len() as u64 > broken.start {
                return Err(AccessError::io("read", Path::new("16384.1"), io::Error::from_raw_os_error(5)));
            }
            let filled = buf.len().min(size.saturating_sub(offset as usize));
            buf[..filled].fill(0);
            Ok(filled)
        }
    }

    fn gaps(done: &PortionDone) -> Vec<(u64, u64)> {
        done.gaps.iter().map(|gap| (gap.from, gap.to)).collect()
    }

    #[test]
    fn only_pages_that_cannot_be_read_are_left_out() {
        let done = judged(8 * PAGE + 5, false, &zeros(8 * PAGE + 5, 3000..3001));
        assert_eq!((done.counts.pages, done.counts.zeroed), (7, 7));
        assert_eq!(gaps(&done), [(2048, 3072)]);
        assert!(matches!(done.gaps[0].reason, SkipReason::Unreadable(_)), "{:?}", done.gaps);
        assert_eq!((done.partial_pages[0].page.block, done.partial_pages[0].have_bytes), (108, 5));
        assert_eq!(done.counts.bytes, 7 * PAGE as u64 + 5);
    }

    #[test]
    fn file_that_became_shorter_is_a_gap_and_has_no_partial_page() {
        let done = judged(8 * PAGE, false, &zeros(5 * PAGE + 100, 0..0));
        assert_eq!((done.counts.pages, done.partial_pages.len()), (5, 0));
        assert_eq!(gaps(&done), [(5 * 1024, 8 * 1024)]);
        // The same where it has to be read page by page.
        let done = judged(8 * PAGE, false, &zeros(5 * PAGE + 100, 0..1));
        assert_eq!((done.counts.pages, done.partial_pages.len()), (4, 0));
        assert_eq!(gaps(&done), [(0, 1024), (5 * 1024, 6 * 1024), (6 * 1024, 7 * 1024), (7 * 1024, 8 * 1024)]);
    }

    /// Page 2 is torn in the first `times` reads of it.
    fn torn(times: usize, seen: &Cell<usize>) -> impl Fn(&mut [u8], u64) -> Result<usize, AccessError> + '_ {
        move |buf, offset| {
            buf.fill(0);
            let start = (2 * PAGE as u64).checked_sub(offset).map(|at| at as usize).filter(|at| *at < buf.len());
            if let Some(at) = start {
                seen.set(seen.get() + 1);
                buf[at] = u8::from(seen.get() <= times);
            }
            Ok(buf.len())
        }
    }

    #[test]
    fn page_that_is_being_written_is_read_again() {
        let seen = Cell::new(0);
        let done = judged(4 * PAGE, true, &torn(3, &seen));
        assert_eq!((done.counts.zeroed, done.counts.damaged, seen.get()), (4, 0, 4));
        let seen = Cell::new(0);
        let done = judged(4 * PAGE, true, &torn(usize::MAX, &seen));
        assert_eq!((done.counts.pages, done.counts.damaged, seen.get()), (4, 1, 5));
        assert_eq!((done.bad[0].page.block, done.bad[0].offset, done.bad[0].file), (102, 2048, 3));
        let seen = Cell::new(0);
        let done = judged(4 * PAGE, false, &torn(1, &seen));
        assert_eq!((done.counts.damaged, seen.get()), (1, 1), "no one writes: once is enough");
    }

    #[test]
    fn page_past_the_end_of_its_segment_is_judged_and_not_shown() {
        let mut page = [0; PAGE];
        page[12..20].copy_from_slice(&[24, 0, 0, 4, 0, 4, 4, 4]);
        let read = |buf: &mut [u8], _| {
            buf.chunks_mut(PAGE).for_each(|chunk| chunk.copy_from_slice(&page));
            Ok(buf.len())
        };
        let (done, shown) = shown_with(103 * PAGE, false, false, &read);
        assert_eq!((done.counts.sound, shown.len()), (103, 100), "{:?}", done.bad.first());
        assert_eq!(shown.last().map(|page| page.block), Some(199));
    }

    #[test]
    fn page_that_is_gone_when_read_again_is_a_gap() {
        let reads = Cell::new(0);
        let done = judged(4 * PAGE, true, &|buf, _| {
            reads.set(reads.get() + 1);
            buf.fill(0);
            buf[0] = 1;
            Ok(if reads.get() == 1 { buf.len() } else { 0 })
        });
        assert_eq!((done.counts.pages, done.counts.damaged), (3, 0));
        assert_eq!(gaps(&done), [(0, 1024)]);
    }
}
