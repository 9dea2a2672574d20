//! Pages that look sound and that no checksum protects: torn only on positive evidence, which their sectors, their rows, WAL
//! and the images of them can give.

use std::ops::Range;

use super::candidate::{ImageSource, Judged};
use super::survey::{Context, Disk};
use super::symptom::Symptom;
use crate::analysis::changes::change_log::{ChangeLog, PageChange};
use crate::analysis::changes::content::Ahead;
use crate::analysis::changes::events::{FileEvent, Touch};
use crate::analysis::changes::rows::layout::layout_fault;
use crate::analysis::changes::rows::{Agreement, Fit, against_image, against_records};
use crate::analysis::changes::sectors::{SectorMarks, TearDirection, TearMap};
use crate::analysis::dwb::compare::{Comparison, compare_pages, same_but_checksum};
use crate::analysis::dwb::slots::SlotRef;
use crate::analysis::dwb::staleness::Confidence;
use crate::analysis::pages::page_check::PageCondition;
use crate::parsers::page::PageHeader;
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::types::{ForkNumber, Lsn, PageId, is_newer_xid};

/// Bytes in the hole of a page that cannot be there by chance.
const LEAST_FOREIGN_BYTES: usize = 8;

/// Bytes of a page's LSN, its first.
const LSN_BYTES: usize = 8;

/// Comparison of a page, confidence, and symptoms.
type DiskJudgement = (Comparison, Confidence, Vec<Symptom>);

/// Records of a page, and which of them are in it by its LSN.
struct Records<'a> {
    all: &'a [PageChange],
    /// Up to the page's LSN, as far back as WAL is known without a gap.
    before: Range<usize>,
    after: Range<usize>,
    /// All records from the redo point on are among them.
    since_redo: bool,
    /// Where the page's file was created, truncated or removed.
    files: Vec<Lsn>,
}

/// How a page stands to the images of it.
#[derive(Default)]
struct Images {
    same: usize,
    differing: Vec<u64>,
}

/// True when a page is the newer image of a tear but for its hole, which an image in WAL does not have: what an older image holds there
/// may be left in it. (In the hole of the older one may be rows of the newer.)
fn is_newer_image(disk: &Disk, own_lsn: Lsn, tear: &TearMap, candidates: &[Judged]) -> bool {
    let newer = tear.newer.and_then(|index| candidates.get(index)).map(|judged| &judged.candidate);
    let Some(image) =
        newer.filter(|image| image.page_lsn == own_lsn && matches!(image.source, ImageSource::Wal { .. }))
    else {
        return false;
    };
    let Ok(header) = PageHeader::decode(0, &disk.bytes) else { return false };
    let mut bytes = disk.bytes.clone();
    if let Some(hole) = bytes.get_mut(usize::from(header.lower)..usize::from(header.upper)) {
        hole.fill(0);
    }
    SectorMarks::of(&bytes) == image.marks
}

impl Context<'_> {
    /// Judgement of a valid page of a cluster without checksums; `None` when nothing contradicts it.
    pub(crate) fn judge_unchecked(
        &self,
        page: PageId,
        disk: &Disk,
        tear: Option<&TearMap>,
        slots: &[SlotRef],
        candidates: &[Judged],
    ) -> Option<DiskJudgement> {
        let own_lsn = disk.lsn?;
        if let Some(disproof) = self.proofs.wrong.get(&page) {
            return Some(disproof.judgement());
        }
        if self.proofs.whole.contains(&page) {
            return None;
        }
        let mut buf = Vec::new();
        let mut same_lsn = None;
        for slot in slots.iter().filter(|slot| slot.page_lsn == own_lsn) {
            let Some(read) = self.read_slot(slot, &mut buf) else { continue };
            if same_but_checksum(&disk.bytes, read.image) {
                return None;
            }
            if compare_pages(&disk.bytes, read.image, page.fork).is_some() {
                // An image of the same LSN is the page but for hint bits and what lies in the hole.
                return self.judge_by_hole(page, disk, own_lsn, read.image, tear, candidates);
            }
            // An image copied in the middle of a change says nothing about the page.
            if self.ahead(page, read.image, slot.page_lsn, &mut Vec::new()).is_none() {
                same_lsn = Some(slot);
            }
        }
        if tear.is_some()
            && let Some(image) =
                self.image_in_wal(page, disk, own_lsn).or_else(|| self.image_of_donor(page, disk, own_lsn, candidates))
        {
            return self.judge_by_hole(page, disk, own_lsn, &image, tear, candidates);
        }
        if tear.is_some_and(|tear| is_newer_image(disk, own_lsn, tear, candidates)) {
            return None;
        }
        let proven = |what: Symptom| Some((Comparison::Torn, Confidence::Proven, vec![what]));
        if tear.is_some_and(|tear| tear.is_explained) {
            return proven(Symptom::TwoVersions);
        }
        if let Some(Ahead::FirstRecordLater { xid, first_lsn }) = self.early_transaction(page, &disk.bytes, own_lsn) {
            return proven(Symptom::LaterTransaction { page_lsn: own_lsn, xid, first_lsn });
        }
        let records = self.records_of(page, own_lsn);
        if let Some(records) = &records {
            let before = records.all.get(records.before.clone()).unwrap_or_default();
            let after = records.all.get(records.after.clone()).unwrap_or_default();
            let next = self.replay.next_xid;
            let is_new = |xid| next.is_some_and(|next| !is_newer_xid(next, xid));
            let is_new = records.since_redo.then_some(&is_new as &dyn Fn(u32) -> bool);
            if let Fit::Contradicts(found) = against_records(&disk.bytes, before, after, is_new) {
                return proven(Symptom::Contradiction { page_lsn: own_lsn, found });
            }
        }
        let images =
            records.map(|records| self.against_images(page, disk, own_lsn, slots, &records)).unwrap_or_default();
        let likely = |what: Symptom| Some((Comparison::Torn, Confidence::Likely, vec![what]));
        if let Some(fault) = layout_fault(&disk.bytes, page.block).filter(|_| page.fork == ForkNumber::Main) {
            return likely(Symptom::Layout(fault));
        }
        // Rows are not all that a page says: where the image of its own LSN differs, others that agree do not help.
        if let Some(slot) = same_lsn.filter(|_| tear.is_some()) {
            return likely(Symptom::SameLsnOtherContent { slot: slot.index });
        }
        if images.same > 0 {
            return None;
        }
        if let Some(links) = self.impossible.get(&page) {
            return likely(Symptom::ImpossibleLinks(*links));
        }
        let slot = images.differing.first()?;
        likely(Symptom::OtherRows { slot: *slot, images: images.differing.len() })
    }

    /// The image in WAL that gave the page its LSN, if the page is that image but for hint bits and what lies in the hole.
    fn image_in_wal(&self, page: PageId, disk: &Disk, own_lsn: Lsn) -> Option<Vec<u8>> {
        let changes = self.history.changes.as_ref()?.changes(self.interest.index_of(page)?);
        let image = changes.iter().find(|change| change.end_lsn == own_lsn)?.image.as_deref()?;
        let mut image = image.to_vec();
        image.get_mut(..LSN_BYTES)?.copy_from_slice(disk.bytes.get(..LSN_BYTES)?);
        compare_pages(&disk.bytes, &image, page.fork).is_some().then_some(image)
    }

    /// The page of an older copy of the cluster that has the LSN of this one and is this one but for hint bits and what lies in the hole.
    fn image_of_donor(&self, page: PageId, disk: &Disk, own_lsn: Lsn, candidates: &[Judged]) -> Option<Vec<u8>> {
        candidates
            .iter()
            .map(|judged| &judged.candidate)
            .filter(|candidate| candidate.page_lsn == own_lsn && candidate.source.is_donor())
            .filter_map(|candidate| self.image_of(&candidate.source, page))
            .find(|image| compare_pages(&disk.bytes, image, page.fork).is_some())
    }

    /// A page that an image of its LSN equals but for bytes that mean nothing is torn nevertheless when the hole holds rows that
    /// only a newer image has. Replay of what is missing overwrites them.
    fn judge_by_hole(
        &self,
        page: PageId,
        disk: &Disk,
        own_lsn: Lsn,
        image: &[u8],
        tear: Option<&TearMap>,
        candidates: &[Judged],
    ) -> Option<DiskJudgement> {
        let tear = tear.filter(|tear| tear.is_explained && tear.direction == TearDirection::Tail)?;
        let is_newer = |judged: &&Judged| judged.candidate.page_lsn > own_lsn && !judged.candidate.source.is_donor();
        let newer = candidates.get(tear.newer?).filter(is_newer)?;
        let newer_bytes = self.image_of(&newer.candidate.source, page)?;
        let (own, other) = (PageHeader::decode(0, &disk.bytes).ok()?, PageHeader::decode(0, &newer_bytes).ok()?);
        // What is a hole on disk and rows in the newer image, within the part that arrived.
        let rows = usize::from(own.lower.max(other.upper)).max(tear.boundary.end)..usize::from(own.upper);
        let mut bytes = disk.bytes.get(rows.clone())?.iter().zip(image.get(rows.clone())?).zip(newer_bytes.get(rows)?);
        let count = bytes.by_ref().filter(|((own, old), new)| own != old && own == new).count();
        let what = Symptom::RowsInHole { page_lsn: own_lsn, bytes: count, source: newer.candidate.source.clone() };
        (count >= LEAST_FOREIGN_BYTES).then(|| (Comparison::Torn, Confidence::Proven, vec![what]))
    }

    /// The records that a page can be compared with; `None` when the page is older than a file that was gone at the redo point.
    fn records_of(&self, page: PageId, own_lsn: Lsn) -> Option<Records<'_>> {
        let log = self.history.changes.as_ref().filter(|_| page.fork == ForkNumber::Main)?;
        let all = log.changes(self.interest.index_of(page)?);
        let files: Vec<&FileEvent> =
            self.history.file_events(page).filter(|event| !matches!(event.what, LifeCycle::Created { .. })).collect();
        let up_to = |lsn: Lsn| all.partition_point(|change| change.end_lsn <= lsn);
        let from = |lsn: Lsn| all.partition_point(|change| change.start_lsn < lsn);
        let known = self.history.stretches().iter().find(|stretch| stretch.start <= own_lsn && own_lsn <= stretch.end);
        let is_kept = log.cut().is_none_or(|cut| own_lsn <= cut);
        let replay = self.replay;
        let redo = replay.redo_lsn.filter(|_| replay.can_begin && replay.recovery.replays());
        // What an older file of this name held is gone: only records after that made this one.
        let last_before = files.iter().rev().find(|event| event.end_lsn <= own_lsn).map(|event| event.end_lsn);
        let next = files.iter().find(|event| event.end_lsn > own_lsn);
        let is_outdated = |event: &FileEvent| event.ends(page) && redo.is_none_or(|redo| event.start_lsn < redo);
        if next.is_some_and(|event| is_outdated(event)) {
            return None;
        }
        let before = known.filter(|_| is_kept).map_or(0..0, |stretch| {
            from(last_before.map_or(stretch.start, |event| event.max(stretch.start)))..up_to(own_lsn)
        });
        let after = match redo.filter(|_| is_kept) {
            Some(redo) => {
                let end = files.iter().find(|event| event.end_lsn > own_lsn.max(redo));
                let start = from(redo).max(up_to(own_lsn));
                start..end.map_or(all.len(), |event| from(event.start_lsn)).max(start)
            }
            None => 0..0,
        };
        // Rows of a database that was copied are in no record.
        let is_copied = |event: &&FileEvent| event.brings(page) && redo.is_some_and(|redo| event.end_lsn > redo);
        let since_redo =
            redo.is_some_and(|redo| self.history.covers(redo, own_lsn) && is_kept) && !files.iter().any(is_copied);
        let files = files.iter().map(|event| event.start_lsn).collect();
        Some(Records { all, before, after, since_redo, files })
    }

    /// Compares a page with every image of it that WAL confirms.
    fn against_images(
        &self,
        page: PageId,
        disk: &Disk,
        own_lsn: Lsn,
        slots: &[SlotRef],
        records: &Records<'_>,
    ) -> Images {
        let mut found = Images::default();
        let mut buf = Vec::new();
        let events = self.interest.index_of(page).map_or(&[][..], |index| self.history.events(index));
        for slot in slots {
            let lsn = slot.page_lsn;
            let is_older = lsn <= own_lsn;
            let is_known = match is_older {
                true => self.history.covers(lsn, own_lsn),
                // What came before the redo point was on disk when the checkpoint ended.
                false => self.replay.redo_lsn.is_some_and(|redo| self.history.covers(own_lsn.max(redo), lsn)),
            };
            let is_confirmed = events.iter().any(|event| event.end_lsn == lsn && event.touch != Touch::MapBits);
            let is_kept =
                self.history.changes.as_ref().and_then(ChangeLog::cut).is_none_or(|cut| lsn.max(own_lsn) <= cut);
            let between = lsn.min(own_lsn)..lsn.max(own_lsn);
            let is_of_other_file = records.files.iter().any(|file| between.contains(file));
            if !is_known || !is_kept || is_of_other_file || !is_confirmed && lsn != own_lsn {
                continue;
            }
            let Some(read) = self.read_slot(slot, &mut buf) else { continue };
            if PageCondition::of(read.image, page.fork, page.block, false) != PageCondition::Sound {
                continue;
            }
            let up_to = |lsn: Lsn| records.all.partition_point(|change| change.end_lsn <= lsn);
            let between =
                if is_older { up_to(lsn)..up_to(own_lsn) } else { records.after.start.min(up_to(lsn))..up_to(lsn) };
            match against_image(&disk.bytes, read.image, is_older, records.all, between) {
                Agreement::Same => found.same = found.same.saturating_add(1),
                Agreement::Differs => found.differing.push(slot.index),
                Agreement::Unclear => {}
            }
        }
        found
    }
}
