//! Images that cannot be restored, as they are met.
//! Also here: WAL that should be there and of which no record could be read: the one rule by which damage and missing
//! segments count as not examined, whatever is asked of the WAL; what was odd about a set of WAL segments, as findings.

use super::segment::Visitor;
use crate::analysis::skipped::{Coverage, SkipReason, Skipped, SkippedPart};
use crate::analysis::wal::walk::DamageReason;
use crate::cluster::wal::{NoteKind, NoteLevel, SetNote, WalSet};
use crate::parsers::image::{ImageDecoder, ImageError};
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::record::Record;
use crate::report::{Finding, rules};
use crate::types::{BlockNumber, Lsn};

/// Images that are kept one by one; more are only counted.
const MAX_IMAGES: usize = 200;

/// An image that cannot be decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableImage {
    /// The block.
    pub block: BlockNumber,
    /// Start of its record.
    pub record_lsn: Lsn,
    /// The reason.
    pub error: ImageError,
}

/// Images that cannot be restored, the first of them one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnreadableImages {
    images: Vec<UnreadableImage>,
    further: u64,
}

impl UnreadableImages {
    /// Counts one, and keeps it if there are few.
    pub fn push(&mut self, image: UnreadableImage) {
        if self.images.len() < MAX_IMAGES {
            self.images.push(image);
        } else {
            self.further = self.further.saturating_add(1);
        }
    }

    /// Adds those of the WAL that follows.
    pub fn append(&mut self, other: Self) {
        other.images.into_iter().for_each(|image| self.push(image));
        self.further = self.further.saturating_add(other.further);
    }

    /// Their findings, in the order of their records.
    pub fn findings(&self) -> Vec<Finding> {
        let mut images = self.images.clone();
        images.sort_by_key(|image| image.record_lsn);
        let of = |UnreadableImage { block, record_lsn, error }| {
            IMAGE.problem(format!("image of block {block} at {record_lsn}: {error}"))
        };
        let further = format!("more images that cannot be restored: {}", self.further);
        let further = (self.further > 0).then(|| MORE_IMAGES.problem(further));
        images.into_iter().map(of).chain(further).collect()
    }
}

/// Unpacks every compressed image of a segment. One without compression that cannot be restored has a header that the
/// reader refuses.
#[derive(Debug)]
pub(crate) struct ImageCheck {
    decoder: ImageDecoder,
    page: Vec<u8>,
    pub unreadable: UnreadableImages,
}

impl ImageCheck {
    /// None yet. `block_size`: bytes of a page.
    pub fn new(block_size: u32) -> Self {
        let page = vec![0; usize::try_from(block_size).unwrap_or_default()];
        Self { decoder: ImageDecoder::new(), page, unreadable: UnreadableImages::default() }
    }
}

impl Visitor for ImageCheck {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if record.layout.image_count == 0 {
            return;
        }
        for block in record.blocks() {
            let Some(image) = block.image.filter(|image| image.compression().is_some()) else { continue };
            if let Err(error) = self.decoder.restore(&image, &mut self.page) {
                let (block, record_lsn) = (block.block, record.start_lsn);
                self.unreadable.push(UnreadableImage { block, record_lsn, error });
            }
        }
    }
}

/// Says whether a segment has compressed images at all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HasCompressed(pub bool);

impl Visitor for HasCompressed {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if record.layout.image_count > 0 && !self.0 {
            let mut heads = record.block_heads().filter_map(|(_, block)| block.image);
            self.0 = heads.any(|image| record.major.image_compression(image.bimg_info).is_some());
        }
    }
}

rules! {
    IMAGE: Wal "image",
        why: "the record's checksum is right, so the server would fail on it too",
        means: "An image that cannot be restored: its bytes do not make up a page. Found by `verify`, and wherever images are \
            unpacked",
        action: "The server would fail on it too";
    MORE_IMAGES: Wal "more_unreadable_images",
        why: "the record's checksum is right, so the server would fail on it too",
        means: "More such images than are listed",
        action: "The same";
}

/// Whether reading continues after damage, at the next page that starts a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resync {
    /// It does not, and cannot be asked to.
    #[default]
    Never,
    /// It does not; it would if it was asked to.
    Off,
    /// It does.
    On,
}

impl Resync {
    /// A request for work that can continue.
    pub const fn of(asked: bool) -> Self {
        if asked { Self::On } else { Self::Off }
    }

    /// True when reading continues.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// WAL that cannot be read up to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalDamage {
    /// Reading failed and continued later.
    Gap {
        /// What was found.
        reason: DamageReason,
        /// Where.
        at: Lsn,
        /// End of the last good record before it.
        from: Lsn,
        /// The first good record after it.
        resumed: Option<Lsn>,
    },
    /// More such findings than are kept.
    Further(u64),
    /// Sound records follow the end.
    RecordsFollow {
        /// The end.
        end: EndOfWal,
        /// The first of them.
        first_lsn: Lsn,
        /// WAL between was on disk once.
        was_synced: bool,
    },
    /// `pg_control` knows of later WAL.
    BeforeKnownEnd {
        /// The end.
        end: EndOfWal,
        /// What `pg_control` knows of.
        known_lsn: Lsn,
    },
}

/// What was not read because of damage. `run_end`: the end of the segments that follow each other there.
pub(crate) fn lost_by_damage(damage: &WalDamage, run_end: Lsn) -> Skipped {
    let range = |start: Lsn, end: Option<Lsn>| SkippedPart::LsnRange { start: Some(start), end };
    let what = match damage {
        WalDamage::Gap { from, resumed, .. } => range(*from, Some(resumed.unwrap_or(run_end))),
        WalDamage::Further(_) => SkippedPart::Wal,
        WalDamage::RecordsFollow { end, .. } => range(end.end_of_last.unwrap_or(end.at), Some(run_end)),
        WalDamage::BeforeKnownEnd { end, known_lsn } => range(end.end_of_last.unwrap_or(end.at), Some(*known_lsn)),
    };
    Skipped { what, bytes: None, reason: SkipReason::DamagedWal }
}

/// What is missing by a note of the set, if it says that: segments between others, or the rest of a file. `from`, `to`: where
/// the range begins and ends that is read.
pub(crate) fn lost_by_note(note: &SetNote, from: Option<Lsn>, to: Option<Lsn>) -> Option<Skipped> {
    let lacks_wal = matches!(note.kind, NoteKind::Gap | NoteKind::WrongSize | NoteKind::Truncated | NoteKind::Empty);
    let ends_before = note.wal_end.zip(from).is_some_and(|(end, from)| end <= from);
    let starts_after = note.wal_start.zip(to).is_some_and(|(start, to)| start >= to);
    if note.level != NoteLevel::Problem || !lacks_wal || ends_before || starts_after {
        return None;
    }
    let range = SkippedPart::LsnRange { start: note.wal_start, end: note.wal_end };
    if note.wal_start.is_some() {
        return Some(Skipped { what: range, bytes: None, reason: SkipReason::SegmentsMissing });
    }
    let what = note.file.as_ref().map_or(SkippedPart::Wal, SkippedPart::file);
    Some(Skipped { what, bytes: None, reason: SkipReason::Wal { kind: note.kind, what: note.what.clone() } })
}

/// Which WAL is needed; `None`: no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NeededWal {
    /// A gap that ends before is a note.
    pub gaps_from: Option<Lsn>,
    /// A gap that starts here or after is a note.
    pub gaps_to: Option<Lsn>,
    /// Segments that end before and were left out are a note.
    pub segments_from: Option<Lsn>,
}

impl NeededWal {
    /// Needed from where replay begins. What is missing before is a note: servers remove old segments one by one in any
    /// order, and a crash stops them in between.
    pub(crate) const fn by_replay(redo_lsn: Option<Lsn>) -> Self {
        Self { gaps_from: redo_lsn, gaps_to: None, segments_from: redo_lsn }
    }
}

/// Turns the notes of a set into findings, and what was left out of it into gaps of the coverage.
pub(crate) fn note_set(set: &WalSet, needed: NeededWal, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
    note_all(set.notes(), needed, findings, coverage);
}

/// The same of notes of which there may be no set.
pub(crate) fn note_all(notes: &[SetNote], needed: NeededWal, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
    for note in notes {
        let ends_before = |needed: Option<Lsn>| note.wal_end.zip(needed).is_some_and(|(end, needed)| end <= needed);
        let starts_after = note.wal_start.zip(needed.gaps_to).is_some_and(|(start, needed)| start >= needed);
        let part = note.file.as_ref().map_or(SkippedPart::Wal, SkippedPart::file);
        let what = note.what.clone();
        let finding = match note.level {
            NoteLevel::Skipped if !ends_before(needed.segments_from) => {
                coverage.skip(part, SkipReason::Wal { kind: note.kind, what });
                continue;
            }
            NoteLevel::Problem if !ends_before(needed.gaps_from) && !starts_after => note.kind.rule().problem(what),
            NoteLevel::Skipped | NoteLevel::Problem | NoteLevel::Note => note.kind.rule().note(what),
        };
        let finding = finding.in_file(note.file.as_deref().unwrap_or("WAL"));
        findings.push(match note.offset {
            Some(offset) => finding.at(offset),
            None => finding,
        });
    }
}
