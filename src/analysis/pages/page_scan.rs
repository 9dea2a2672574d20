//! Reads every page of relation files with several threads and judges each by itself.
//!
//! The files are cut into pieces of at most 512 KiB, and these put together to portions of about 2 MiB, which threads
//! take and whose results are handed over in order: memory depends on the number of threads and files alone.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use roaring::RoaringBitmap;
use rustc_hash::FxHashSet;

use super::page_check::{PageCondition, PageDamage};
use super::page_links::{LinkCheck, LinkReport};
use super::page_read::{PieceReader, PortionDone, judge_stored};
use crate::analysis::in_order::in_order;
use crate::analysis::skipped::{ByteRange, Coverage, Lacking, SkipReason, SkippedPart};
use crate::cluster::relation_walk::RelationFile;
use crate::types::{BlockNumber, ForkNumber, Geometry, Lsn, PageId, RelFileLocator};

/// Most bytes of one piece: a multiple of every block size.
pub(crate) const PIECE_BYTES: u64 = 512 * 1024;

/// Bytes from which on a portion is full. Handing over wakes a thread, which is worth the reading of about a page.
const PORTION_BYTES: u64 = 4 * PIECE_BYTES;

/// How files are read and pages judged.
pub struct ScanOptions<'a> {
    /// Threads; at least one is used.
    pub jobs: usize,
    /// Whether pages carry checksums.
    pub checksums: bool,
    /// Block and segment size.
    pub geometry: Geometry,
    /// A server may be writing at this moment: a page that fails is read again before that is believed.
    pub read_again: bool,
    /// Set by the user to interrupt.
    pub interrupted: &'a AtomicBool,
    /// Shown each sound page of a logged relation where a server looks for it, from any thread.
    pub look: &'a (dyn Fn(PageId, &[u8]) + Sync),
    /// Follow what pages of an index say of each other, on a cluster whose replay begins here or that had its last
    /// checkpoint here.
    pub links_at: Option<Lsn>,
    /// Given how many bytes more are done, from any thread.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// A page with something wrong, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPage {
    /// Index of its file in the list.
    pub file: usize,
    /// Which page it is, by the file and offset that it was read from.
    pub page: PageId,
    /// Where it starts in the file.
    pub offset: u64,
    /// The damage.
    pub damage: PageDamage,
    /// The page.
    pub bytes: Vec<u8>,
}

/// The end of a file whose length is not a multiple of the block size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialPage {
    /// Index of its file in the list.
    pub file: usize,
    /// Which page it would be.
    pub page: PageId,
    /// Where it starts in the file.
    pub offset: u64,
    /// Bytes that are there, fewer than a page.
    pub have_bytes: usize,
    /// These bytes.
    pub bytes: Vec<u8>,
}

/// Counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Whole pages that were read: the sum of the next three.
    pub pages: u64,
    /// Nothing wrong.
    pub sound: u64,
    /// All zero.
    pub zeroed: u64,
    /// Something wrong.
    pub damaged: u64,
    /// Damaged pages whose checksum is wrong.
    pub checksum_failures: u64,
    /// Damaged pages that a server refuses.
    pub rejected: u64,
    /// Damaged pages without header that are not all zero.
    pub new_not_zero: u64,
    /// Bytes that were read, partial pages and holes included.
    pub bytes: u64,
    /// Bytes of these that are holes of their files: zero without reading.
    pub holes_bytes: u64,
    /// Newest LSN of a sound page of a logged relation, and which page.
    pub newest: Option<(Lsn, PageId)>,
}

/// How much of a cluster a scan has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedFiles {
    /// Whole pages.
    pub pages: u64,
    /// Files.
    pub files: usize,
    /// Pages of these that are all zero.
    pub zeroed: u64,
    /// Pages of these that nothing proves to be whole, for want of checksums; `None` where pages have them.
    pub unproven: Option<u64>,
}

impl PageCounts {
    /// Counts a page that is not damaged; a damaged one by [`Self::add_damage`].
    pub(crate) fn add(&mut self, condition: &PageCondition) {
        match condition {
            PageCondition::Sound => self.sound = self.sound.saturating_add(1),
            PageCondition::Zeroed => self.zeroed = self.zeroed.saturating_add(1),
            PageCondition::Damaged(damage) => return self.add_damage(damage),
        }
        self.pages = self.pages.saturating_add(1);
    }

    pub(crate) fn add_damage(&mut self, damage: &PageDamage) {
        self.pages = self.pages.saturating_add(1);
        self.damaged = self.damaged.saturating_add(1);
        self.checksum_failures = self.checksum_failures.saturating_add(u64::from(damage.checksum.is_some()));
        self.rejected = self.rejected.saturating_add(u64::from(damage.server_rejects));
        self.new_not_zero = self.new_not_zero.saturating_add(u64::from(damage.is_new_not_zero()));
    }

    fn merge(&mut self, other: &Self) {
        self.pages = self.pages.saturating_add(other.pages);
        self.sound = self.sound.saturating_add(other.sound);
        self.zeroed = self.zeroed.saturating_add(other.zeroed);
        self.damaged = self.damaged.saturating_add(other.damaged);
        self.checksum_failures = self.checksum_failures.saturating_add(other.checksum_failures);
        self.rejected = self.rejected.saturating_add(other.rejected);
        self.new_not_zero = self.new_not_zero.saturating_add(other.new_not_zero);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.holes_bytes = self.holes_bytes.saturating_add(other.holes_bytes);
        self.newest = self.newest.max(other.newest);
    }
}

/// Results of a scan in addition to the damaged pages.
#[derive(Debug, Default)]
pub struct PageScan {
    /// Counts.
    pub counts: PageCounts,
    /// Ends of files that are not a whole page, in the order of the files.
    pub partial_pages: Vec<PartialPage>,
    /// Blocks of main forks of logged relations that are all zero, where links are followed.
    pub zeroed: Vec<(RelFileLocator, Range<BlockNumber>)>,
    /// References between pages of indexes.
    pub links: LinkReport,
    /// The highest block of its table that the pages of each fork refer to: of an index, or of a visibility map.
    pub reach: BTreeMap<(RelFileLocator, ForkNumber), BlockNumber>,
    /// Sound pages of tables that are not marked all-visible, where links are followed.
    pub unmarked: BTreeMap<RelFileLocator, RoaringBitmap>,
    /// The user interrupted: counts and list cover a part of the files only.
    pub interrupted: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Index of the file in the list.
    pub file: usize,
    /// Where it starts.
    pub offset: u64,
    /// Its length, not 0.
    pub length: u64,
    pub block: BlockNumber,
}

/// Bytes that could not be examined, and why.
#[derive(Debug)]
pub(crate) struct Gap {
    /// Index of the file in the list.
    pub file: usize,
    /// First byte.
    pub from: u64,
    /// The byte after the last.
    pub to: u64,
    pub reason: SkipReason,
}

/// Reads all pages of `files`, whose paths are relative to `root`, and hands every damaged one to `found`, in the order
/// of the files and of the blocks. What could not be read is added to `coverage`; pages are counted as examined.
///
/// A file is read as far as it reached when the directory was listed. A file that is longer or shorter by now is
/// reported, since then a server or somebody else changes it.
pub fn scan_pages(
    root: &Path,
    files: &[RelationFile],
    options: &ScanOptions<'_>,
    coverage: &mut Coverage,
    mut found: impl FnMut(BadPage),
) -> PageScan {
    let mut scan = PageScan::default();
    let geometry = options.geometry;
    if !geometry.is_possible() {
        let (block, segment) = (geometry.block_size, geometry.rel_segment_blocks);
        let reason = SkipReason::ImpossibleSizes { block_size: block, segment_blocks: segment };
        coverage.skip(SkippedPart::RelationFiles, reason);
        return scan;
    }
    let jobs = options.jobs.clamp(1, 1024);
    let mut gaps = Gaps { files, open: None, coverage };
    gaps.add_ends(geometry);
    gaps.flush();
    let pauses = AtomicU32::new(0);
    // LSNs of unlogged relations count their own changes.
    let is_init = |file: &&RelationFile| file.name.fork == ForkNumber::Init;
    let unlogged: FxHashSet<RelFileLocator> = files.iter().filter(is_init).map(|file| file.rel).collect();
    let worker = || {
        let mut reader = PieceReader::new(root, files, options, &pauses, &unlogged);
        move |portion| read_portion(&mut reader, portion, options)
    };
    let mut links = options.links_at.map(|redo_lsn| LinkCheck::new(redo_lsn, geometry.rel_segment_blocks));
    in_order(portions(files, geometry), (0..jobs).map(|_| worker()).collect(), |done| {
        let Some(done) = done else {
            scan.interrupted = true;
            return ControlFlow::Break(());
        };
        scan.counts.merge(&done.counts);
        scan.partial_pages.extend(done.partial_pages);
        scan.zeroed.extend(done.zeroed);
        for (rel, blocks) in done.unmarked {
            scan.unmarked.entry(rel).or_default().insert_range(blocks);
        }
        for (rel, fork, highest) in done.reach {
            let known = scan.reach.entry((rel, fork)).or_default();
            *known = highest.max(*known);
        }
        if let Some(links) = &mut links {
            for (file, seen) in done.links {
                let rel = files[file].rel;
                links.begin(rel, || end_of_fork(files, file, geometry));
                links.add(seen);
            }
        }
        done.gaps.into_iter().for_each(|gap| gaps.add(gap));
        done.bad.into_iter().for_each(&mut found);
        ControlFlow::Continue(())
    });
    gaps.flush();
    if let Some(mut links) = links.filter(|_| !scan.interrupted) {
        links.finish();
        scan.links = links.report;
    }
    coverage.examined = coverage.examined.saturating_add(scan.counts.pages);
    if scan.interrupted {
        coverage.skip(SkippedPart::RestOfRelationFiles, SkipReason::Interrupted(Lacking::Counts));
    }
    scan
}

/// A part of a relation file whose bytes were read already, as from an archive.
#[derive(Debug)]
pub(crate) struct StoredPiece {
    /// Index of the file among those that come.
    pub file: usize,
    pub relation: Arc<RelationFile>,
    /// Where in the file it starts: a multiple of [`STORED_PIECE_BYTES`].
    pub offset: u64,
    /// Bytes that it should have.
    pub length: u64,
    pub bytes: Vec<u8>,
    pub failed: Option<SkipReason>,
}

/// Most bytes of a [`StoredPiece`].
pub(crate) const STORED_PIECE_BYTES: u64 = PIECE_BYTES;

#[derive(Debug, Default)]
pub(crate) struct StoredScan {
    /// Counts and partial pages. Nothing is known of links, and nothing of what is unlogged.
    pub scan: PageScan,
    pub newest: BTreeMap<usize, (Lsn, PageId)>,
    gaps: Vec<Gap>,
}

/// Judges pieces as they come, with several threads, and hands every damaged page to `found` in their order.
pub(crate) fn scan_stored(
    pieces: impl Iterator<Item = StoredPiece> + Send,
    options: &ScanOptions<'_>,
    mut found: impl FnMut(BadPage),
) -> StoredScan {
    let mut stored = StoredScan::default();
    if !options.geometry.is_possible() {
        return stored;
    }
    let worker = || {
        |piece: StoredPiece| {
            let is_wanted = !options.interrupted.load(Ordering::Relaxed);
            (piece.file, is_wanted.then(|| judge_stored(&piece, options)))
        }
    };
    let jobs = options.jobs.clamp(1, 1024);
    in_order(pieces, (0..jobs).map(|_| worker()).collect(), |(file, done)| {
        let Some(done) = done else {
            stored.scan.interrupted = true;
            return ControlFlow::Break(());
        };
        if let Some(newest) = done.counts.newest {
            let known = stored.newest.entry(file).or_insert(newest);
            *known = newest.max(*known);
        }
        stored.scan.counts.merge(&done.counts);
        stored.scan.partial_pages.extend(done.partial_pages);
        stored.gaps.extend(done.gaps);
        done.bad.into_iter().for_each(&mut found);
        ControlFlow::Continue(())
    });
    stored
}

impl StoredScan {
    /// Adds what could not be read of `files`, those that came, to `coverage`, and counts pages as examined.
    pub(crate) fn cover(&mut self, files: &[RelationFile], geometry: Geometry, coverage: &mut Coverage) {
        let mut gaps = Gaps { files, open: None, coverage };
        gaps.add_ends(geometry);
        self.gaps.drain(..).for_each(|gap| gaps.add(gap));
        gaps.flush();
        coverage.examined = coverage.examined.saturating_add(self.scan.counts.pages);
        if self.scan.interrupted {
            coverage.skip(SkippedPart::RestOfRelationFiles, SkipReason::Interrupted(Lacking::Counts));
        }
    }
}

/// Reads the pieces of a portion; `None` when the user interrupts.
fn read_portion(reader: &mut PieceReader<'_>, portion: Vec<Piece>, options: &ScanOptions<'_>) -> Option<PortionDone> {
    let mut done = PortionDone::default();
    for piece in portion {
        if options.interrupted.load(Ordering::Relaxed) {
            return None;
        }
        reader.read(piece, &mut done);
        (options.progress)(piece.length);
    }
    Some(done)
}

/// Bytes of a file in which a server looks for blocks: less than its size only for names and lengths that no server
/// makes.
pub(crate) fn readable_bytes(file: &RelationFile, geometry: Geometry) -> u64 {
    // The highest number, 0xFFFFFFFF, means "none".
    let blocks = u64::from(BlockNumber::MAX).saturating_sub(first_block(file, geometry));
    let blocks = blocks.min(u64::from(geometry.rel_segment_blocks));
    file.size_bytes.min(blocks.saturating_mul(u64::from(geometry.block_size)))
}

/// Block at which the fork of a file ends; `None` when its last file in the list is full, so that another may follow that
/// is not in the list.
fn end_of_fork(files: &[RelationFile], index: usize, geometry: Geometry) -> Option<u64> {
    let own = files.get(index)?;
    let same = |file: &&RelationFile| file.rel == own.rel && file.name.fork == own.name.fork && file.size_bytes > 0;
    let last = files.get(index..)?.iter().take_while(|file| file.rel == own.rel).filter(same).last()?;
    let blocks = last.size_bytes.checked_div(u64::from(geometry.block_size)).unwrap_or_default();
    (blocks < u64::from(geometry.rel_segment_blocks)).then(|| first_block(last, geometry).saturating_add(blocks))
}

/// Number of a file's first block, as far as it goes.
pub fn first_block(file: &RelationFile, geometry: Geometry) -> u64 {
    u64::from(file.name.rel_segment).saturating_mul(u64::from(geometry.rel_segment_blocks))
}

fn pieces(files: &[RelationFile], geometry: Geometry) -> impl Iterator<Item = Piece> {
    let block_size = u64::from(geometry.block_size);
    files.iter().enumerate().flat_map(move |(index, file)| {
        let (size, first) = (readable_bytes(file, geometry), first_block(file, geometry));
        (0..size.div_ceil(PIECE_BYTES)).map(move |number| {
            let offset = number.saturating_mul(PIECE_BYTES);
            Piece {
                file: index,
                offset,
                length: PIECE_BYTES.min(size.saturating_sub(offset)),
                block: u32::try_from(first.saturating_add(offset.checked_div(block_size).unwrap_or_default()))
                    .unwrap_or(BlockNumber::MAX),
            }
        })
    })
}

/// The pieces put together to portions.
fn portions(files: &[RelationFile], geometry: Geometry) -> impl Iterator<Item = Vec<Piece>> {
    let mut pieces = pieces(files, geometry);
    std::iter::from_fn(move || {
        let (mut portion, mut bytes) = (Vec::new(), 0);
        while bytes < PORTION_BYTES {
            let Some(piece) = pieces.next() else { break };
            bytes = bytes.saturating_add(piece.length);
            portion.push(piece);
        }
        (!portion.is_empty()).then_some(portion)
    })
}

/// Joins gaps that follow each other for the same reason, so that a file which cannot be read is reported once.
struct Gaps<'a> {
    files: &'a [RelationFile],
    open: Option<Gap>,
    coverage: &'a mut Coverage,
}

impl Gaps<'_> {
    /// Adds the ends of files that are longer than a segment.
    fn add_ends(&mut self, geometry: Geometry) {
        for (index, file) in self.files.iter().enumerate() {
            let readable = readable_bytes(file, geometry);
            if readable < file.size_bytes {
                let reason = SkipReason::PastSegmentEnd;
                self.add(Gap { file: index, from: readable, to: file.size_bytes, reason });
            }
        }
    }

    fn add(&mut self, gap: Gap) {
        match &mut self.open {
            Some(open) if open.file == gap.file && open.to == gap.from && open.reason == gap.reason => open.to = gap.to,
            _ => {
                self.flush();
                self.open = Some(gap);
            }
        }
    }

    fn flush(&mut self) {
        let Some(gap) = self.open.take() else { return };
        let file = &self.files[gap.file];
        let what = SkippedPart::file(file.path.display().to_string());
        match (gap.from, gap.to) {
            (0, to) if to >= file.size_bytes => self.coverage.skip(what, gap.reason),
            (offset, to) => {
                self.coverage.skip_bytes(what, ByteRange { offset, length: to.saturating_sub(offset) }, gap.reason);
            }
        }
    }
}
