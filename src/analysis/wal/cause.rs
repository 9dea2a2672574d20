//! Why an image was written, judged from the record, the page's LSN before it, and the redo point in force.

use super::block_set::BlockSet;
use crate::parsers::image::{BlockImage, ImageDecoder};
use crate::parsers::page::PageHeader;
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::names::{RM_XLOG, XLOG_FPI, XLOG_FPI_FOR_HINT, type_key};
use crate::parsers::wal::record::Record;
use crate::types::Lsn;

/// Why an image was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// First change of the page after the redo point.
    FirstTouch,
    /// The same while a base backup was running.
    FirstTouchInBackup,
    /// Hint bits were set on a page not changed since the redo point (`FPI_FOR_HINT`).
    HintBit,
    /// A page that was built anew or copied as a whole (`FPI`).
    NewPage,
    /// The resource manager demands an image for this change, though the page had been changed since the redo point.
    Forced,
    /// Not applied by redo: for `wal_consistency_checking`.
    ConsistencyCheck,
    /// The block already had an image since the redo point; written anew because the resource manager demands it.
    RepeatedForced,
    /// The block already had an image since the redo point; logged again as a whole (`FPI`).
    RepeatedNewPage,
    /// The block already had an image since the redo point and was initialised anew since, which makes its LSN 0.
    RepeatedReinitialised,
    /// The block already had an image since the redo point; why is not known.
    RepeatedUnknown,
    /// The image could not be restored, so the page's LSN before the change is not known.
    Unreadable,
}

impl Cause {
    /// The word for reports, JSON and filters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstTouch => "first_touch",
            Self::FirstTouchInBackup => "first_touch_in_backup",
            Self::HintBit => "hint_bit",
            Self::NewPage => "new_page",
            Self::Forced => "forced",
            Self::ConsistencyCheck => "consistency_check",
            Self::RepeatedForced => "repeated_forced",
            Self::RepeatedNewPage => "repeated_new_page",
            Self::RepeatedReinitialised => "repeated_reinitialised",
            Self::RepeatedUnknown => "repeated_unknown",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Finds causes; records must come in order.
#[derive(Debug)]
pub struct CauseClassifier {
    /// Redo points, ascending.
    redo_points: Vec<Lsn>,
    /// Redo points at or before the current record.
    passed: usize,
    imaged: BlockSet,
    old_lsns: OldLsns,
}

/// Finds the LSN that a page had before the record that holds its image.
#[derive(Debug)]
pub struct OldLsns {
    decoder: ImageDecoder,
    page: Vec<u8>,
}

impl CauseClassifier {
    /// `redo_points`: of all checkpoints of the range, those whose record appears later included.
    #[must_use]
    pub fn new(mut redo_points: Vec<Lsn>, block_size: u32) -> Self {
        redo_points.sort_unstable();
        redo_points.dedup();
        Self { redo_points, passed: 0, imaged: BlockSet::default(), old_lsns: OldLsns::new(block_size) }
    }

    /// Causes of a record's images, in the order of their block references.
    pub fn causes(&mut self, record: &Record<'_>, causes: &mut Vec<Cause>) {
        causes.clear();
        self.pass(record.start_lsn);
        if record.layout.image_count == 0 {
            return;
        }
        for block in record.blocks() {
            if let Some(image) = block.image {
                causes.push(self.cause_of(record, &block, &image, |old_lsns| old_lsns.of(&image)));
            }
        }
    }

    /// Cause of one image. Images must come in order; `old_lsn` as [`OldLsns::of`] gives it, asked where it is needed.
    pub fn cause(
        &mut self,
        record: &Record<'_>,
        block: &BlockRef<'_>,
        image: &BlockImage<'_>,
        old_lsn: Option<Lsn>,
    ) -> Cause {
        self.pass(record.start_lsn);
        self.cause_of(record, block, image, |_| old_lsn)
    }

    /// Notes the redo points at or before a record.
    fn pass(&mut self, start_lsn: Lsn) {
        while self.redo_points.get(self.passed).is_some_and(|redo| *redo <= start_lsn) {
            self.passed = self.passed.saturating_add(1);
            self.imaged = BlockSet::default();
        }
    }

    fn cause_of(
        &mut self,
        record: &Record<'_>,
        block: &BlockRef<'_>,
        image: &BlockImage<'_>,
        old_lsn: impl FnOnce(&mut OldLsns) -> Option<Lsn>,
    ) -> Cause {
        if !image.applies() {
            return Cause::ConsistencyCheck;
        }
        let repeated = !self.imaged.insert(block.rel, block.fork_code(), block.block);
        let xlog_type = (record.header.rmgr_id == RM_XLOG).then(|| type_key(record.header.rmgr_id, record.header.info));
        match (xlog_type, repeated) {
            (Some(XLOG_FPI), false) => return Cause::NewPage,
            (Some(XLOG_FPI), true) => return Cause::RepeatedNewPage,
            (Some(XLOG_FPI_FOR_HINT), false) => return Cause::HintBit,
            _ => {}
        }
        let Some(old) = old_lsn(&mut self.old_lsns) else { return Cause::Unreadable };
        let redo = self.passed.checked_sub(1).and_then(|index| self.redo_points.get(index)).copied();
        // Without a checkpoint in the range the redo point is not known; every image but a forced one is a first touch.
        let forced = redo.is_some_and(|redo| old > redo);
        match (forced, repeated) {
            (true, true) => Cause::RepeatedForced,
            (true, false) => Cause::Forced,
            (false, true) if !old.is_valid() => Cause::RepeatedReinitialised,
            (false, true) => Cause::RepeatedUnknown,
            (false, false) if record.during_backup() => Cause::FirstTouchInBackup,
            (false, false) => Cause::FirstTouch,
        }
    }
}

impl OldLsns {
    /// `block_size`: bytes of a page.
    #[must_use]
    pub fn new(block_size: u32) -> Self {
        Self { decoder: ImageDecoder::new(), page: vec![0; usize::try_from(block_size).unwrap_or_default()] }
    }

    /// The page's LSN before the record; `None` when the image cannot be restored.
    pub fn of(&mut self, image: &BlockImage<'_>) -> Option<Lsn> {
        let header = match image.compression() {
            None => PageHeader::decode(0, image.bytes.get(..PageHeader::SIZE)?),
            Some(_) => {
                self.decoder.restore(image, &mut self.page).ok()?;
                PageHeader::decode(0, &self.page)
            }
        };
        header.ok().map(|header| header.lsn)
    }
}
