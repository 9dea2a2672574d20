//! Why an image was written, judged from the record, the page's LSN before it, the redo point in force, and what
//! [`super::cause_facts`] found out.
//!
//! A redo point that no record names is found by its images, see [`super::hidden_redo`].
//! Also here: which block references have an image whatever the page's LSN, and which only because of it. The table of
//! record types says how their pages are registered.

use strum::{EnumIter, IntoEnumIterator, IntoStaticStr};

use super::block_set::BlockSet;
use super::cause_facts::{CauseFacts, RunStart};
use super::hidden_redo::{HiddenRedos, RedoInForce, Shows};
use super::unreadable::{UnreadableImage, UnreadableImages};
use crate::parsers::decode::ParseError;
use crate::parsers::image::{BlockImage, ImageDecoder, ImageError};
use crate::parsers::page::PageHeader;
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::{Images, RecordKind};
use crate::parsers::wal::version::Major;
use crate::types::{ForkNumber, Lsn};

/// Why an image was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Cause {
    /// First change of the page after the redo point.
    FirstTouch,
    /// The same without full-page writes, which only a base backup that was running forced.
    FirstTouchInBackup,
    /// Hint bits were set on a page not changed since the redo point (`FPI_FOR_HINT`), and nothing else changed the page
    /// until the next one: without checksums and hint logging there would be no image.
    HintOnly,
    /// The same, but the page was changed later in the interval: that change would have had the image otherwise.
    HintThenChanged,
    /// Hint bits, without full-page writes, which only a base backup that was running forced.
    HintInBackup,
    /// A page that was rebuilt or copied as a whole (`FPI`).
    NewPage,
    /// A page of a map (`FPI`) whose relation was about to be cut short.
    MapTruncation,
    /// Records of this type have an image whatever the page's LSN.
    Forced,
    /// Not applied by redo: for `wal_consistency_checking`.
    ConsistencyCheck,
    /// The block already had an image since the redo point; repeated because records of this type always have one.
    RepeatedForced,
    /// The block already had an image since the redo point; logged again as a whole (`FPI`).
    RepeatedNewPage,
    /// The block already had an image since the redo point and was initialised again since, which makes its LSN 0.
    RepeatedReinitialised,
    /// The block already had an image since the redo point, for the same hint bits: two backends wrote one at once.
    RepeatedHint,
    /// The block already had an image since the redo point; why is not known.
    RepeatedUnknown,
    /// Written before the first redo point that is known, without which this image cannot be judged.
    UnknownBeforeStart,
    /// What is known allows more than one cause.
    Unknown,
    /// The image could not be restored, so the page's LSN before the change is not known.
    Unreadable,
}

impl Cause {
    /// The word for reports, JSON and filters.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// All causes.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::iter()
    }
}

/// What the causes that were found leave open.
#[derive(Clone, Debug, Default)]
pub struct OpenCauses {
    /// Redo points that no record names.
    pub hidden: HiddenRedos,
    /// Images that could not be judged for want of a redo point before them.
    pub before_start: u64,
    /// Images called [`Cause::HintOnly`] whose interval continues after what was read.
    pub hints_so_far: u64,
    /// Images that could not be restored, of those that had to be.
    pub unreadable: UnreadableImages,
}

/// Finds causes; records must come in order.
#[derive(Debug)]
pub struct CauseClassifier {
    facts: CauseFacts,
    /// Redo points at or before the current record.
    passed: usize,
    redo: Option<RedoInForce>,
    /// Runs that begin at or before the current record.
    runs_begun: usize,
    run: Option<RunStart>,
    imaged: BlockSet,
    /// [`Cause::HintOnly`] of this interval so far.
    hints_only: u64,
    open: OpenCauses,
    old_lsns: OldLsns,
}

/// Finds the LSN that a page had before the record that holds its image.
#[derive(Debug)]
pub(crate) struct OldLsns {
    decoder: ImageDecoder,
    page: Vec<u8>,
}

impl CauseClassifier {
    /// `facts`: of all WAL from the first record on, of records that follow the last one, too.
    pub fn new(facts: CauseFacts, block_size: u32) -> Self {
        Self {
            facts,
            passed: 0,
            redo: None,
            runs_begun: 0,
            run: None,
            imaged: BlockSet::default(),
            hints_only: 0,
            open: OpenCauses::default(),
            old_lsns: OldLsns::new(block_size),
        }
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
                let cause = self.cause_of(record, &block, &image, |old_lsns| old_lsns.of(&image).map_err(Some));
                causes.push(cause);
            }
        }
    }

    /// Cause of one image. Images must come in order; `old_lsn` as `OldLsns::of` gives it, asked where it is needed.
    pub fn cause(
        &mut self,
        record: &Record<'_>,
        block: &BlockRef<'_>,
        image: &BlockImage<'_>,
        old_lsn: Option<Lsn>,
    ) -> Cause {
        self.pass(record.start_lsn);
        self.cause_of(record, block, image, |_| old_lsn.ok_or(None))
    }

    /// Records that are not valid records of their type, so that a redo point may be missing.
    pub(crate) fn undecoded(&self) -> &[ParseError] {
        &self.facts.undecoded
    }

    /// Notes an image that could not be restored, of which the cause is asked with [`Self::cause`].
    pub(crate) fn note_unreadable(&mut self, image: UnreadableImage) {
        self.open.unreadable.push(image);
    }

    /// What is left open by the images so far.
    pub fn open(&self) -> OpenCauses {
        let mut open = self.open.clone();
        if self.facts.redo_points.len() == self.passed {
            open.hints_so_far = open.hints_so_far.saturating_add(self.hints_only);
        }
        open
    }

    /// Notes the redo points at or before a record: needed where records without images are not shown.
    pub(crate) fn pass(&mut self, start_lsn: Lsn) {
        while let Some(run) = self.facts.runs.get(self.runs_begun).filter(|run| run.first <= start_lsn) {
            self.runs_begun = self.runs_begun.saturating_add(1);
            self.run = Some(*run);
            self.redo = None;
            self.imaged = BlockSet::default();
            self.open.hints_so_far = self.open.hints_so_far.saturating_add(std::mem::take(&mut self.hints_only));
        }
        while let Some(redo) = self.facts.redo_points.get(self.passed).copied().filter(|redo| *redo <= start_lsn) {
            self.passed = self.passed.saturating_add(1);
            // One that is known from the run before need not be the last before this one.
            if self.run.and_then(|run| run.last_before).is_none_or(|last| redo > last) {
                self.begin_interval(RedoInForce::known(redo));
            }
        }
    }

    fn begin_interval(&mut self, redo: RedoInForce) {
        self.redo = Some(redo);
        self.imaged = BlockSet::default();
        self.hints_only = 0;
    }

    fn cause_of(
        &mut self,
        record: &Record<'_>,
        block: &BlockRef<'_>,
        image: &BlockImage<'_>,
        old_lsn: impl FnOnce(&mut OldLsns) -> Result<Lsn, Option<ImageError>>,
    ) -> Cause {
        if !image.applies() {
            return Cause::ConsistencyCheck;
        }
        let (major, kind, rmgr_id) = (record.major, record.kind(), record.header.rmgr_id);
        let mut repeated = !self.imaged.insert(block.rel, block.fork_code(), block.block);
        if always_images(kind, block.block_id) {
            return match (rmgr_id, repeated) {
                (RM_XLOG, _) if self.facts.is_map_truncation(record.start_lsn) => Cause::MapTruncation,
                (_, false) if self.may_be_repeated(rmgr_id, |this| old_lsn(&mut this.old_lsns).ok()) => self.unknown(),
                (RM_XLOG, false) => Cause::NewPage,
                (RM_XLOG, true) => Cause::RepeatedNewPage,
                (_, false) => Cause::Forced,
                (_, true) => Cause::RepeatedForced,
            };
        }
        let is_hint = kind.is_hint();
        // Of hint bits it matters only where a redo point may be hidden.
        let old = if !is_hint || repeated || !major.facts().marks_redo_points {
            match old_lsn(&mut self.old_lsns) {
                Ok(old) => old,
                Err(error) => {
                    let (block, record_lsn) = (block.block, record.start_lsn);
                    let unreadable = error.map(|error| UnreadableImage { block, record_lsn, error });
                    unreadable.into_iter().for_each(|image| self.note_unreadable(image));
                    return if is_hint { self.hint(record, None, repeated) } else { Cause::Unreadable };
                }
            }
        } else {
            Lsn::INVALID
        };
        if never_forced(major, kind, block.block_id) && self.shows_redo(old, record.start_lsn) {
            self.imaged.insert(block.rel, block.fork_code(), block.block);
            repeated = false;
        }
        if is_hint {
            return self.hint(record, Some(old), repeated);
        }
        if never_forced(major, kind, block.block_id) {
            // It may have been initialised again after an image that is missing here; map pages are not.
            if self.redo.is_none() && !repeated && !old.is_valid() && block.fork() == Some(ForkNumber::Main) {
                return self.unknown();
            }
            self.first_touch(record, old, repeated)
        } else {
            self.maybe_forced(record, old, repeated)
        }
    }

    /// Takes an image that proves a redo point before it and not before `old`; true when that is one not known so far.
    fn shows_redo(&mut self, old: Lsn, start_lsn: Lsn) -> bool {
        let begins = || self.run.map_or(start_lsn, |run| run.first);
        let mut redo = self.redo.unwrap_or_else(|| RedoInForce::known(begins()));
        let shows = redo.judge(old, start_lsn);
        self.open.hidden.note(shows, redo);
        match shows {
            Shows::Nothing => {}
            Shows::Narrower => self.redo = Some(redo),
            Shows::Another => self.begin_interval(redo),
        }
        shows == Shows::Another
    }

    fn hint(&mut self, record: &Record<'_>, old: Option<Lsn>, repeated: bool) -> Cause {
        let writes = self.facts.page_writes.at(record.start_lsn);
        if writes == Some(false) && hints_need_page_writes(record.major) {
            return if record.during_backup() == Some(true) { Cause::HintInBackup } else { Cause::Unknown };
        }
        if repeated {
            // Up to 14 the page may have got its LSN from the other image, or from a change after a hidden redo point.
            let is_old = old.zip(self.redo).is_some_and(|(old, redo)| old <= redo.latest);
            return if is_old || self.redo.is_none() { Cause::RepeatedHint } else { Cause::RepeatedUnknown };
        }
        // Without full-page writes a later change would have had no image.
        if writes != Some(false) && self.facts.is_changed_later(record.start_lsn) {
            return Cause::HintThenChanged;
        }
        self.hints_only = self.hints_only.saturating_add(1);
        Cause::HintOnly
    }

    /// An image that was written because of the page's LSN, and because full-page writes were in force.
    fn first_touch(&mut self, record: &Record<'_>, old: Lsn, repeated: bool) -> Cause {
        if repeated {
            return if old.is_valid() { Cause::RepeatedUnknown } else { Cause::RepeatedReinitialised };
        }
        match (self.facts.page_writes.at(record.start_lsn), record.during_backup()) {
            (Some(true), _) | (None, Some(false)) => Cause::FirstTouch,
            (Some(false), Some(true)) => Cause::FirstTouchInBackup,
            (Some(false), Some(false) | None) => Cause::Unknown,
            (None, Some(true) | None) => self.unknown(),
        }
    }

    /// True of an image that is the first one of its block here, when the block may have had one before in the same
    /// interval: the redo point is not known, and the page was changed after the last one that is known before, or may have
    /// been: a split logs pages without an LSN. A page logged as a whole has none when it is new, and may be a copy, with
    /// the LSN that the original has: without such a redo point only a change in this run counts.
    fn may_be_repeated(&mut self, rmgr_id: u8, old_lsn: impl FnOnce(&mut Self) -> Option<Lsn>) -> bool {
        let Some(run) = self.run.filter(|_| self.redo.is_none()) else { return false };
        let before = self.facts.redo_points.partition_point(|redo| *redo <= run.first);
        let begins = match before.checked_sub(1).and_then(|last| self.facts.redo_points.get(last)) {
            Some(redo) => *redo,
            None if rmgr_id == RM_XLOG => run.first,
            None => Lsn::INVALID,
        };
        old_lsn(self).is_none_or(|old| old >= begins || (rmgr_id != RM_XLOG && !old.is_valid()))
    }

    /// An image of a record that forces it.
    fn forced(&mut self, rmgr_id: u8, old: Lsn, repeated: bool) -> Cause {
        match repeated {
            true => Cause::RepeatedForced,
            false if self.may_be_repeated(rmgr_id, |_| Some(old)) => self.unknown(),
            false => Cause::Forced,
        }
    }

    /// An image of a record that may force it or not.
    fn maybe_forced(&mut self, record: &Record<'_>, old: Lsn, repeated: bool) -> Cause {
        let (earliest, latest) = match (self.redo, self.run) {
            (Some(redo), _) => (redo.earliest, redo.latest),
            // Changed in this run, in which no redo point is known yet.
            (None, Some(run)) => (Lsn::INVALID, run.first),
            (None, None) => return self.unknown(),
        };
        if old > latest {
            return self.forced(record.header.rmgr_id, old, repeated);
        }
        match self.facts.page_writes.at(record.start_lsn) {
            Some(false) if record.during_backup() == Some(false) => self.forced(record.header.rmgr_id, old, repeated),
            Some(true) if old <= earliest => self.first_touch(record, old, repeated),
            _ => self.unknown(),
        }
    }

    fn unknown(&mut self) -> Cause {
        if self.redo.is_some() {
            return Cause::Unknown;
        }
        self.open.before_start = self.open.before_start.saturating_add(1);
        Cause::UnknownBeforeStart
    }
}

impl OldLsns {
    /// `block_size`: bytes of a page.
    pub fn new(block_size: u32) -> Self {
        Self { decoder: ImageDecoder::new(), page: vec![0; usize::try_from(block_size).unwrap_or_default()] }
    }

    /// The page's LSN before the record.
    ///
    /// # Errors
    /// When the image cannot be restored.
    pub fn of(&mut self, image: &BlockImage<'_>) -> Result<Lsn, ImageError> {
        let start = match image.compression() {
            None => image.bytes,
            Some(_) => {
                self.decoder.restore(image, &mut self.page)?;
                &self.page
            }
        };
        let too_short = |_| ImageError::Length { found: start.len(), expected: PageHeader::SIZE };
        PageHeader::decode(0, start).map(|header| header.lsn).map_err(too_short)
    }
}

/// True when a block reference of this record type has an image whatever the LSN of its page and whatever
/// `full_page_writes` says. Images that redo does not apply do not count here.
pub const fn always_images(kind: RecordKind, block_id: u8) -> bool {
    match kind.images() {
        Images::Always => true,
        Images::AlwaysBelow(first) => block_id < first,
        Images::First | Images::LocksFirst | Images::Hint | Images::Chosen => false,
    }
}

/// True when an image that redo applies, of a block reference of this record type, proves that the page's LSN was not
/// after the redo point then in force.
///
/// False for what may be either: `Generic`, custom resource managers, and `FPI_FOR_HINT` up to 14, which decides by the
/// LSN but copies the page after that, when another backend may have set a newer one.
pub fn never_forced(major: Major, kind: RecordKind, block_id: u8) -> bool {
    match kind.images() {
        Images::Chosen => false,
        Images::Hint => !major.facts().hints_force_images,
        Images::First | Images::LocksFirst | Images::Always | Images::AlwaysBelow(_) => !always_images(kind, block_id),
    }
}

/// True when a hint image exists only because full-page writes were in force: up to 14 it is written without them, too.
pub(crate) const fn hints_need_page_writes(major: Major) -> bool {
    !major.facts().hints_force_images
}

/// True when the page of a block reference of this record type is initialised again before it is logged, so that its LSN is 0
/// whatever changed it before: an overflow page of a hash index that is given up.
pub(crate) const fn initialises_before(kind: RecordKind, block_id: u8) -> bool {
    const FREED: u8 = 2;
    matches!(kind, RecordKind::HashSqueezePage) && block_id == FREED
}

/// True when a block reference of this record type never has an image that redo applies, because the page is not changed: a
/// bucket of a hash index that is only locked.
pub(crate) const fn never_images(kind: RecordKind, block_id: u8) -> bool {
    matches!(kind.images(), Images::LocksFirst) && block_id == 0
}
