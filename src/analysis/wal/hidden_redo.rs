//! Redo points without a record: their checkpoint did not end, or its record was not read.
//!
//! An image shows one when its page had an LSN after the last known redo point and its type of record never forces images:
//! a later redo point required it. That LSN is the earliest address of the redo point, and the image the latest.
//!
//! At most 16 are searched. If the beginning of the image was read, it holds the LSN of the page. For other images it is
//! noted whether their block was seen before, as is true of each that shows a redo point. Only segments with such images
//! are read again.

use super::block_set::BlockSet;
use super::cause::{OldLsns, never_forced};
use super::segment::Visitor;
use crate::parsers::page::PageHeader;
use crate::parsers::wal::block::BlockHead;
use crate::parsers::wal::record::Record;
use crate::types::Lsn;
use std::ops::Range;

/// A redo point that no record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiddenRedo {
    /// The earliest that it can be.
    pub after: Lsn,
    /// The latest: start of the first record that shows it. Counting takes it to be here.
    pub before: Lsn,
}

/// Most hidden redo points that are kept.
const MAX_HIDDEN: usize = 100;

/// Between which addresses a redo point lies; the same twice where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RedoInForce {
    /// The latest that it can be: counting takes it to be there.
    pub latest: Lsn,
    /// The earliest.
    pub earliest: Lsn,
}

impl From<HiddenRedo> for RedoInForce {
    fn from(HiddenRedo { after, before }: HiddenRedo) -> Self {
        Self { latest: before, earliest: after }
    }
}

/// What an image says of the redo point in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Nothing new.
    Nothing,
    /// It lies later than it could have so far.
    Narrower,
    /// It is another one than that which was known.
    Another,
}

impl RedoInForce {
    /// One that is known.
    pub const fn known(lsn: Lsn) -> Self {
        Self { earliest: lsn, latest: lsn }
    }

    /// Between which addresses it lies, where no record names it.
    pub fn hidden(self) -> Option<HiddenRedo> {
        let Self { latest: before, earliest: after } = self;
        (before != after).then_some(HiddenRedo { after, before })
    }

    /// Where it is known to be.
    pub fn lsn(self) -> Option<Lsn> {
        (self.latest == self.earliest).then_some(self.latest)
    }

    /// Takes an image that its record never forces, of a page whose LSN was `old`.
    pub fn judge(&mut self, old: Lsn, start_lsn: Lsn) -> Shows {
        if old > self.earliest && old <= self.latest {
            self.earliest = old;
            return Shows::Narrower;
        }
        // This server did not write a page that is newer than this record.
        if old <= self.latest || old > start_lsn {
            return Shows::Nothing;
        }
        *self = Self { earliest: old, latest: start_lsn };
        Shows::Another
    }
}

/// Hidden redo points in order.
#[derive(Clone, Debug, Default)]
pub struct HiddenRedos {
    /// The first of them, if there are very many.
    pub points: Vec<HiddenRedo>,
}

impl HiddenRedos {
    /// Notes what an image showed of the redo point that is in force now.
    pub fn note(&mut self, shows: Shows, redo: RedoInForce) {
        match shows {
            Shows::Nothing => {}
            Shows::Narrower => {
                if let Some(hidden) = self.points.last_mut().filter(|hidden| hidden.before == redo.latest) {
                    hidden.after = redo.earliest;
                }
            }
            Shows::Another if self.points.len() < MAX_HIDDEN => {
                self.points.push(HiddenRedo { after: redo.earliest, before: redo.latest });
            }
            Shows::Another => {}
        }
    }
}

/// What the images of a stretch of WAL tell without being restored.
#[derive(Clone, Debug, Default)]
pub struct ImageHints {
    /// No page had a later LSN than this before its image; the start of the record where that is unknown and the block
    /// was met before in the stretch.
    newest_old: Lsn,
    /// Blocks of unknown LSN whose first image this is.
    firsts: BlockSet,
}

impl ImageHints {
    /// Takes a block reference that was met before in the stretch or not. `offset`: where its image begins in the body.
    pub fn add(&mut self, record: &Record<'_>, (block_id, block): (u8, &BlockHead), offset: usize, is_repeated: bool) {
        if !block.has_image_to_apply(record.major) || !never_forced(record.major, record.kind(), block_id) {
            return;
        }
        match lsn_at_hand(record, block, offset) {
            Some(old) if old > record.start_lsn => {}
            Some(old) => self.newest_old = self.newest_old.max(old),
            // What changed it before may not have been read.
            None if is_repeated || record.recovered => self.newest_old = self.newest_old.max(record.start_lsn),
            None => {
                self.firsts.insert(block.rel, block.fork_code(), block.block);
            }
        }
    }

    /// Adds those of the stretch that follows one with the blocks `touched`.
    pub fn append(&mut self, next: &Self, touched: &BlockSet) {
        self.newest_old = self.newest_old.max(next.newest_old);
        if next.firsts.intersects(touched) {
            self.newest_old = Lsn(u64::MAX);
        }
        self.firsts.union_with_others(&next.firsts, touched);
    }

    /// True when an image may show a redo point after `known`. `touched`: blocks met since that and before the stretch;
    /// `None`: some of them are not known.
    pub(crate) fn may_show(&self, known: Lsn, touched: Option<&BlockSet>) -> bool {
        let is_met = || touched.is_none_or(|touched| self.firsts.intersects(touched));
        self.newest_old > known || (!self.firsts.is_empty() && is_met())
    }

    /// True when the blocks met before the stretch matter.
    pub(crate) const fn needs_blocks(&self) -> bool {
        !self.firsts.is_empty()
    }

    /// Memory that they take, in bytes, by a cautious guess.
    pub(crate) const fn approximate_bytes(&self) -> u64 {
        self.firsts.approximate_bytes()
    }
}

/// The block references of a record, each with the offset in the body at which its image begins.
pub(crate) fn heads_with_offsets<'r>(record: &Record<'r>) -> impl Iterator<Item = (u8, BlockHead, usize)> + use<'r> {
    let mut next = usize::try_from(record.layout.headers_length()).unwrap_or(usize::MAX);
    record.block_heads().map(move |(block_id, block)| {
        let image_bytes = block.image.map_or(0, |image| usize::from(image.length));
        let after = next.saturating_add(image_bytes).saturating_add(usize::from(block.data_length));
        (block_id, block, std::mem::replace(&mut next, after))
    })
}

/// The LSN at the beginning of an image, where that is not compressed and was kept.
pub(crate) fn lsn_at_hand(record: &Record<'_>, block: &BlockHead, offset: usize) -> Option<Lsn> {
    let image = block.image.filter(|image| record.major.image_compression(image.bimg_info).is_none())?;
    let start = record.body().get(offset..)?;
    let start = start.get(..usize::from(image.length).min(start.len()))?;
    PageHeader::decode(0, start).ok().map(|header| header.lsn)
}

/// An image of a page that had an LSN after some address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewerImage {
    pub start_lsn: Lsn,
    /// The LSN that the page had before.
    pub old: Lsn,
}

/// Gathers the images in a segment that its records never force, of pages that had an LSN after some address.
#[derive(Debug)]
pub(crate) struct NewerImages {
    range: Range<Lsn>,
    known: Lsn,
    old_lsns: OldLsns,
    pub images: Vec<NewerImage>,
}

impl NewerImages {
    /// Of records that start in `range`, of pages that had an LSN after `known`.
    pub fn new(range: Range<Lsn>, known: Lsn, block_size: u32) -> Self {
        Self { range, known, old_lsns: OldLsns::new(block_size), images: Vec::new() }
    }
}

impl Visitor for NewerImages {
    fn record(&mut self, record: &Record<'_>) {
        if record.layout.image_count == 0 || !self.range.contains(&record.start_lsn) {
            return;
        }
        let kind = record.kind();
        for block in record.blocks() {
            let Some(image) = block.image.filter(|image| image.applies()) else { continue };
            if !never_forced(record.major, kind, block.block_id) {
                continue;
            }
            // An image that cannot be restored shows nothing.
            let old = self.old_lsns.of(&image).ok().filter(|old| *old > self.known);
            self.images.extend(old.map(|old| NewerImage { start_lsn: record.start_lsn, old }));
        }
    }
}
