//! Images that cannot be restored, as they are met.

use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::FindingKind;
use crate::analysis::finding_kind::WalDamage;
use crate::analysis::skipped::SkipReason;
use crate::analysis::skipped::Skipped;
use crate::analysis::skipped::SkippedPart;
use crate::analysis::wal::segment::Visitor;
use crate::cluster::wal::NoteKind;
use crate::cluster::wal::NoteLevel;
use crate::cluster::wal::SetNote;
use crate::parsers::image::ImageDecoder;
use crate::parsers::image::ImageError;
use crate::parsers::wal::record::Record;
use crate::types::BlockNumber;
use crate::types::Lsn;

/// Images that are kept one by one; more are only counted.
const MAX_IMAGES: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableImage {
    pub block: BlockNumber,
    pub record_lsn: Lsn,
    pub error: ImageError,
}

/// Images that cannot be restored, the first of them one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnreadableImages {
    images: Vec<UnreadableImage>,
    further: u64,
}

impl UnreadableImages {
    pub fn push(&mut self, image: UnreadableImage) {
        if self.images.len() < MAX_IMAGES {
            self.images.push(image);
        } else {
            self.further = self.further.saturating_add(1);
        }
    }

    pub fn append(&mut self, other: Self) {
        other.images.into_iter().for_each(|image| self.push(image));
        self.further = self.further.saturating_add(other.further);
    }

    /// What is said of them, in the order of their records.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut images = self.images.clone();
        images.sort_by_key(|image| image.record_lsn);
        let further = (self.further > 0).then_some(FindingKind::MoreImages { count: self.further });
        let kind = |UnreadableImage { block, record_lsn, error }| FindingKind::Image { block, record_lsn, error };
        images.into_iter().map(kind).chain(further).map(Finding::problem).collect()
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
    #[must_use]
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
