//! What a part of some WAL keeps so that the causes of its images can be told later, together with the parts before and
//! after it: the facts, and of every record with an image its headers and the LSNs that its pages had before.
//!
//! All else is counted at once. So a part takes some 30 to 50 bytes for each image, and 10 for each distinct block.

use super::block_set::{BlockSet, RecentBlocks};
use super::cause::{Cause, CauseClassifier, OldLsns};
use super::cause_facts::SegmentFacts;
use super::forced::always_images;
use super::group::Groups;
use super::relation_use::RelationUses;
use super::segment::Visitor;
use super::tally::Tally;
use super::unreadable::{UnreadableImage, UnreadableImages};
use crate::parsers::image::BlockImage;
use crate::parsers::portable::{BadState, Portable, StateReader, Wrong};
use crate::parsers::wal::block::{BlockHead, BlockRef, BodyLayout, Keep};
use crate::parsers::wal::record::{Record, RecordHeader};
use crate::parsers::wal::version::Major;
use crate::types::{Lsn, TimelineId};

/// Bytes of zeros after the headers, without which the last of them is not believed to be whole.
const ROOM: usize = 32;

/// Bytes from the first record of a stretch to the end of the last, page headers and padding between them included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordChain {
    /// Bytes.
    pub bytes: u64,
    /// Start of the first record, and the record that it names before it.
    pub first: Option<(Lsn, Lsn)>,
    /// Start and end of the last record.
    pub last: Option<(Lsn, Lsn)>,
}

crate::parsers::portable::portable!(RecordChain { bytes, first, last });

impl RecordChain {
    /// Adds what follows.
    pub fn append(&mut self, next: &Self) {
        self.bytes = self.bytes.saturating_add(next.bytes);
        if let (Some((start, prev)), Some((before, end))) = (next.first, self.last)
            && prev == before
        {
            self.bytes = self.bytes.saturating_add(start.bytes_since(end).unwrap_or(0));
        }
        self.first = self.first.or(next.first);
        self.last = next.last.or(self.last);
    }

    fn push(&mut self, record: &Record<'_>) {
        let (start, end) = (record.start_lsn, record.end_lsn);
        self.append(&Self {
            bytes: end.bytes_since(start).unwrap_or(0),
            first: Some((start, record.header.prev)),
            last: Some((start, end)),
        });
    }
}

/// Records with images, without the bytes of anything but their headers.
#[derive(Clone, Debug, Default)]
pub struct ImageLog {
    before: Lsn,
    bytes: Vec<u8>,
}

impl Portable for ImageLog {
    fn put(&self, out: &mut Vec<u8>) {
        (self.bytes.len() as u64).put(out);
        out.extend_from_slice(&self.bytes);
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let length = u64::get(from)?;
        Ok(Self { before: Lsn::INVALID, bytes: from.take(length)?.to_vec() })
    }
}

impl ImageLog {
    /// Adds a record.
    fn push(&mut self, record: &Record<'_>, old_lsns: &mut OldLsns, unreadable: &mut UnreadableImages) {
        let heads = usize::try_from(record.layout.headers_length()).unwrap_or_default();
        let heads = record.body().get(..heads).unwrap_or_default();
        let out = &mut self.bytes;
        record.start_lsn.bytes_since(self.before).unwrap_or_default().put(out);
        self.before = record.start_lsn;
        (record.tli, record.page_info).put(out);
        (record.header.tot_len, record.header.xid).put(out);
        (record.header.info, record.header.rmgr_id).put(out);
        (heads.len() as u64).put(out);
        out.extend_from_slice(heads);
        for block in record.blocks() {
            let Some(image) = block.image else { continue };
            // Those that nobody asks for are not restored.
            let (rmgr_id, info) = (record.header.rmgr_id, record.header.info);
            let old = image.applies().then(|| old_lsns.of(&image)).transpose().unwrap_or_else(|error| {
                let (block_id, block, record_lsn) = (block.block_id, block.block, record.start_lsn);
                // Of those that are forced the LSN matters before the first redo point alone.
                if !always_images(record.major, rmgr_id, info, block_id) {
                    unreadable.push(UnreadableImage { block, record_lsn, error });
                }
                None
            });
            old.map(|old| record.start_lsn.0.wrapping_sub(old.0).cast_signed()).put(out);
        }
    }

    /// Shows the records in order, with the LSNs that the pages of their images had before.
    ///
    /// # Errors
    /// When the bytes are not such records.
    pub fn each(
        &self,
        major: Major,
        block_size: u32,
        mut show: impl FnMut(&Record<'_>, &[Option<Lsn>]),
    ) -> Result<(), BadState> {
        let (mut from, mut start_lsn) = (StateReader::new(&self.bytes), Lsn::INVALID);
        let (mut bytes, mut old_lsns) = (Vec::new(), Vec::new());
        while !from.is_at_end() {
            let at = from;
            start_lsn = Lsn(start_lsn.0.saturating_add(u64::get(&mut from)?));
            let (tli, page_info): (TimelineId, u16) = Portable::get(&mut from)?;
            let (tot_len, xid): (u32, u32) = Portable::get(&mut from)?;
            let (info, rmgr_id) = Portable::get(&mut from)?;
            let length = u64::get(&mut from)?;
            let heads = from.take(length)?;
            let wrong = || at.wrong(Wrong::Record);
            let body_bytes = usize::try_from(tot_len).ok().and_then(|length| length.checked_sub(RecordHeader::SIZE));
            let body_bytes = body_bytes.filter(|length| *length >= heads.len()).ok_or_else(wrong)?;
            bytes.clear();
            bytes.resize(RecordHeader::SIZE, 0);
            bytes.extend_from_slice(heads);
            let kept = heads.len().saturating_add(ROOM).min(body_bytes);
            bytes.resize(RecordHeader::SIZE.saturating_add(kept), 0);
            let beyond = body_bytes.saturating_sub(kept) as u64;
            let body = bytes.get(RecordHeader::SIZE..).unwrap_or_default();
            let layout = BodyLayout::decode_cut(start_lsn, major, block_size, body, (beyond, Keep::Heads));
            let layout = layout.map_err(|_| wrong())?;
            if usize::try_from(layout.headers_length()) != Ok(heads.len()) {
                return Err(wrong());
            }
            let end_lsn = start_lsn.advanced_by(u64::from(tot_len));
            let record = Record {
                start_lsn,
                end_lsn,
                data_end_lsn: end_lsn,
                header: RecordHeader { tot_len, xid, prev: Lsn::INVALID, info, rmgr_id, crc: 0 },
                layout,
                bytes: &bytes,
                major,
                block_size,
                tli,
                page_info,
                recovered: false,
            };
            old_lsns.clear();
            for _ in 0..layout.image_count {
                let back: Option<i64> = Portable::get(&mut from)?;
                old_lsns.push(back.map(|back| Lsn(start_lsn.0.wrapping_sub(back.cast_unsigned()))));
            }
            show(&record, &old_lsns);
        }
        Ok(())
    }
}

/// What one segment keeps and counts.
#[derive(Debug)]
pub struct SegmentImages {
    /// What the causes of images depend on.
    pub facts: SegmentFacts,
    /// Records with images.
    pub log: ImageLog,
    /// Records without.
    pub groups: Groups,
    /// What was done with each relation, if that is counted.
    pub uses: Option<RelationUses>,
    /// Which records there were.
    pub chain: RecordChain,
    /// All records.
    pub total: Tally,
    /// Images that cannot be restored.
    pub unreadable: UnreadableImages,
    recent: RecentBlocks,
    old_lsns: OldLsns,
}

impl SegmentImages {
    /// Begins a segment.
    #[must_use]
    pub fn new(groups: Groups, counts_uses: bool, block_size: u32) -> Self {
        Self {
            facts: SegmentFacts::default(),
            log: ImageLog::default(),
            groups,
            uses: counts_uses.then(RelationUses::default),
            chain: RecordChain::default(),
            total: Tally::default(),
            unreadable: UnreadableImages::default(),
            recent: RecentBlocks::default(),
            old_lsns: OldLsns::new(block_size),
        }
    }
}

impl Visitor for SegmentImages {
    fn record(&mut self, record: &Record<'_>) {
        self.facts.record(record);
        self.chain.push(record);
        self.total.add_part(record, self.groups.relations());
        if let Some(uses) = &mut self.uses {
            uses.add(record, &mut self.recent);
        }
        if record.layout.image_count == 0 {
            self.groups.add_with_causes(record, &[]);
        } else {
            self.log.push(record, &mut self.old_lsns, &mut self.unreadable);
        }
    }
}

/// What a run of segments keeps.
#[derive(Debug, Default)]
pub struct RunImages {
    /// By segment.
    pub segments: Vec<(SegmentFacts, ImageLog)>,
    /// Which records there were.
    pub chain: RecordChain,
    seen: BlockSet,
}

impl Portable for RunImages {
    fn put(&self, out: &mut Vec<u8>) {
        self.segments.put(out);
        self.chain.put(out);
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        Ok(Self { segments: Portable::get(from)?, chain: Portable::get(from)?, seen: BlockSet::default() })
    }
}

impl RunImages {
    /// Takes the next segment.
    pub fn push(&mut self, segment: &mut SegmentImages) {
        let mut facts = std::mem::take(&mut segment.facts);
        facts.narrow(&mut self.seen);
        self.segments.push((facts, std::mem::take(&mut segment.log)));
        self.chain.append(&segment.chain);
    }
}

/// Counts records of a log by the causes of their images.
pub struct CauseCounter {
    classifier: CauseClassifier,
    causes: Vec<Cause>,
    /// What was counted.
    pub groups: Groups,
}

impl CauseCounter {
    /// `groups`: empty, with causes as one of the keys.
    #[must_use]
    pub const fn new(classifier: CauseClassifier, groups: Groups) -> Self {
        Self { classifier, causes: Vec::new(), groups }
    }

    /// Counts the next run of segments, or the next part of one.
    ///
    /// # Errors
    /// When the bytes are not such records.
    pub fn push(&mut self, run: &RunImages, major: Major, block_size: u32) -> Result<(), BadState> {
        for (_, log) in &run.segments {
            log.each(major, block_size, |record, old_lsns| {
                self.causes.clear();
                let mut old_lsns = old_lsns.iter();
                for (block_id, head) in record.block_heads() {
                    if let Some((block, image)) = without_bytes(block_id, &head, major) {
                        let old = old_lsns.next().copied().flatten();
                        self.causes.push(self.classifier.cause(record, &block, &image, old));
                    }
                }
                self.groups.add_with_causes(record, &self.causes);
            })?;
        }
        if let Some((last, _)) = run.chain.last {
            self.classifier.pass(last);
        }
        Ok(())
    }

    /// What found the causes.
    #[must_use]
    pub const fn classifier(&self) -> &CauseClassifier {
        &self.classifier
    }
}

/// A block reference and its image, all but the bytes.
fn without_bytes(block_id: u8, head: &BlockHead, major: Major) -> Option<(BlockRef<'static>, BlockImage<'static>)> {
    let image = head.image?;
    let BlockHead { fork_flags, rel, block, .. } = *head;
    let (hole_offset, hole_length, bimg_info) = (image.hole_offset, image.hole_length, image.bimg_info);
    Some((
        BlockRef { block_id, fork_flags, rel, block, image: None, data: &[] },
        BlockImage { bytes: &[], hole_offset, hole_length, bimg_info, major },
    ))
}
