//! Whether a page of a donor may be put back.
//!
//! A donor has all changes from before its redo point D, so its page needs no record from before D, and may have any LSN up
//! to there. What changed the page since D, or since its own LSN where that is later, it lacks. D counts only when the donor
//! shows it, and WAL has the checkpoint that it was taken from; else the page is judged like any image, by its LSN alone.
//! Also here: the images of a page that donors have.

use super::candidate::{Candidate, CandidateEvidence, Chain, ImageSource, MAX_NAMED_RECORDS};
use super::evidence::{NamedRecord, Objection, Statement, Weight};
use super::identity::{Identity, identity_of};
use super::images::not_a_map;
use super::survey::{Context, Disk};
use crate::analysis::changes::events::{BlockEvent, Touch};
use crate::analysis::changes::sectors::SectorMarks;
use crate::analysis::pages::page_check::PageCondition;
use crate::analysis::skipped::SkippedPart;
use crate::cluster::donor::{Donor, DonorGap, DonorKind, DonorRead};
use crate::cluster::open::AccessError;
use crate::parsers::page::PageHeader;
use crate::parsers::wal::checkpoint::CheckPoint;
use crate::parsers::wal::records::RecordKind;
use crate::types::{ForkNumber, Lsn, PageId};

/// Facts about a donor and the page in it.
#[derive(Clone, Copy)]
struct DonorPage {
    page_lsn: Lsn,
    kind: DonorKind,
    redo_lsn: Lsn,
    checkpoint_lsn: Lsn,
    control_checkpoint: (Lsn, CheckPoint),
}

impl DonorPage {
    fn of(candidate: &Candidate) -> Option<Self> {
        let ImageSource::Donor { kind, redo_lsn, checkpoint_lsn, ref control_checkpoint, .. } = candidate.source else {
            return None;
        };
        Some(Self {
            page_lsn: candidate.page_lsn,
            kind,
            redo_lsn,
            checkpoint_lsn,
            control_checkpoint: **control_checkpoint,
        })
    }

    /// True when the page is older than the donor, so that only the donor says what is in it.
    fn is_before_redo(self) -> bool {
        self.page_lsn < self.redo_lsn
    }

    /// Changes of records that start before this are in the page, although they end after its LSN.
    fn holds_until(self) -> Lsn {
        if self.kind.shows_redo() && self.is_before_redo() { self.redo_lsn } else { Lsn::INVALID }
    }
}

impl Candidate {
    /// Where the records begin of which the image may lack a change: its own LSN, or the redo point of the donor that it is
    /// from where that is later and the donor shows it.
    pub(crate) fn holds_until(&self) -> Lsn {
        self.page_lsn.max(DonorPage::of(self).map_or(Lsn::INVALID, DonorPage::holds_until))
    }
}

/// The bytes of the page by themselves.
pub(crate) fn judge_donor_copy(is_checked: bool, chain: &mut Chain) {
    match is_checked {
        true => chain.add(Weight::Supports, Statement::DonorChecksumRight),
        false => chain.add(Weight::Missing, Statement::DonorWithoutChecksum),
    }
}

/// The LSN of the page in the stream of WAL.
pub(crate) fn judge_donor_lsn(candidate: &Candidate, evidence: &CandidateEvidence<'_>, chain: &mut Chain) {
    let Some(donor) = DonorPage::of(candidate) else { return };
    let page_lsn = donor.page_lsn;
    let Some(end_lsn) = evidence.replay.end_lsn else {
        return chain.add(Weight::Missing, Statement::WalEndUnknown);
    };
    if page_lsn > end_lsn {
        return chain.add(Weight::Against, Statement::ImageAfterWalEnd { page_lsn, end_lsn });
    }
    if let Some(disk_lsn) = evidence.disk_lsn.filter(|disk| *disk > end_lsn) {
        chain.add(Weight::Missing, Statement::DiskAfterWalEnd { disk_lsn, end_lsn });
    }
    let sets_lsn = |event: &&BlockEvent| event.touch != Touch::MapBits;
    let is_named = evidence.events.iter().filter(sets_lsn).any(|event| event.end_lsn == page_lsn);
    let is_read =
        evidence.history.stretches().iter().any(|stretch| stretch.start < page_lsn && page_lsn <= stretch.end);
    match (is_named, is_read) {
        (true, _) => chain.add(Weight::Supports, Statement::RecordOfPage { page_lsn }),
        // Databases that were copied file by file have pages with LSNs of the other database.
        (false, true) if donor.is_before_redo() => {
            chain.add(Weight::Missing, Statement::DonorLsnWithoutRecord { page_lsn });
        }
        (false, true) => chain.add(Weight::Against, Statement::NoRecordOfPage { page_lsn }),
        (false, false) if donor.is_before_redo() => {}
        (false, false) => chain.add(Weight::Missing, Statement::WalAroundImageMissing { page_lsn }),
    }
}

/// Whether recovery reapplies everything that the page lacks. For a free space map, which WAL does not log, only changes of its
/// file count.
pub(crate) fn judge_donor_change(
    page: PageId,
    candidate: &Candidate,
    evidence: &CandidateEvidence<'_>,
    chain: &mut Chain,
) {
    let Some(donor) = DonorPage::of(candidate) else { return };
    let (checkpoint_lsn, copy) = donor.control_checkpoint;
    if evidence.history.contradicts_checkpoint(checkpoint_lsn, &copy) {
        return chain.add(Weight::Against, Statement::DonorCheckpointDiffers { checkpoint_lsn });
    }
    let Some(redo_lsn) = evidence.replay.redo_lsn else {
        return chain.add(Weight::Missing, Statement::RedoPointUnknown);
    };
    if !evidence.replay.can_begin {
        return chain.add(Weight::Missing, Statement::RedoPointUnreadable { redo_lsn });
    }
    let is_map = page.fork == ForkNumber::Fsm;
    let page_lsn = donor.page_lsn;
    let replays = evidence.replay.recovery.replays();
    if replays && page_lsn >= redo_lsn && !is_map {
        return chain.add(Weight::Supports, Statement::NotBeforeRedo { page_lsn, redo_lsn });
    }
    // What the page on disk had before the redo point of the donor, the donor should have.
    let is_lacking = |disk: &Lsn| page_lsn < *disk && *disk <= donor.holds_until();
    if let Some(disk_lsn) = evidence.disk_lsn.filter(is_lacking) {
        return chain
            .add(Weight::Against, Statement::DonorOlderThanDisk { page_lsn, disk_lsn, donor_lsn: donor.redo_lsn });
    }
    judge_redo(donor, evidence, chain);
    let held = donor.holds_until();
    let is_later = |start_lsn: Lsn, end_lsn: Lsn| end_lsn > page_lsn && !(replays && start_lsn >= redo_lsn);
    // Changes before the redo point should be in the donor, if its files are from the same point in time.
    let is_before = |start_lsn: Lsn| donor.is_before_redo() && start_lsn < donor.redo_lsn;
    let files = || {
        let of_page = evidence.history.file_events(page);
        of_page.filter(|event| event.start_lsn >= held && is_later(event.start_lsn, event.end_lsn))
    };
    if let Some(event) = files().find(|event| !is_before(event.start_lsn)) {
        chain.add(Weight::Against, Statement::ImageOfOlderPage(event.clone()));
    } else if let Some(event) = files().next() {
        chain.add(Weight::Missing, Statement::DonorMayBeOlder(event.clone()));
    }
    let major = evidence.history.major;
    let named = |event: &&BlockEvent| NamedRecord { name: event.name(major), lsn: event.start_lsn };
    let events = || evidence.events.iter().filter(|_| !is_map);
    let is_in_donor = |event: &&BlockEvent| is_before(event.start_lsn);
    let later = || events().filter(|event| event.matters() && is_later(event.start_lsn, event.end_lsn));
    let lost: Vec<&BlockEvent> = later().filter(|event| !is_in_donor(event)).collect();
    let is_unseen = |event: &&BlockEvent| !donor.kind.shows_redo() || moves_lsn(event, page);
    if let Some(event) = later().filter(is_in_donor).find(is_unseen) {
        chain.add(Weight::Missing, Statement::DonorMayLackRecord(named(&event)));
    }
    let from = page_lsn.max(held);
    if !lost.is_empty() {
        let records = lost.iter().take(MAX_NAMED_RECORDS).map(named).collect();
        let more = lost.len().saturating_sub(MAX_NAMED_RECORDS);
        chain.add(Weight::Loses, Statement::LacksChanges { redo_lsn: replays.then_some(redo_lsn), records, more });
        chain.lost = lost.iter().map(|event| event.end_lsn).collect();
    } else if held >= redo_lsn {
        chain.add(Weight::Supports, Statement::DonorNotBeforeRedo { donor_lsn: held, redo_lsn });
    } else if evidence.history.covers(from, redo_lsn) {
        chain.add(Weight::Supports, Statement::UnchangedSince { from_lsn: from, redo_lsn });
    } else {
        chain.add(Weight::Missing, Statement::WalSinceMissing { from_lsn: from, redo_lsn });
    }
}

/// Whether the redo point of the donor can be relied on, where its page is older.
fn judge_redo(donor: DonorPage, evidence: &CandidateEvidence<'_>, chain: &mut Chain) {
    if !donor.is_before_redo() {
        return;
    }
    let DonorPage { page_lsn, redo_lsn: donor_lsn, checkpoint_lsn, .. } = donor;
    if !donor.kind.shows_redo() {
        return chain.add(Weight::Notes, Statement::DonorOfOneMomentUnknown { page_lsn, donor_lsn });
    }
    if evidence.history.has_checkpoint(checkpoint_lsn, donor_lsn) {
        chain.add(Weight::Supports, Statement::DonorHoldsEarlierChanges { donor_lsn });
    } else if evidence.history.stretches().iter().any(|stretch| stretch.contains(&checkpoint_lsn)) {
        chain.add(Weight::Against, Statement::DonorCheckpointDiffers { checkpoint_lsn });
    } else {
        chain.add(Weight::Missing, Statement::DonorCheckpointMissing { checkpoint_lsn });
    }
}

/// True when a page that has the change of this record has its LSN, too. Marking a heap page all visible need not move it.
fn moves_lsn(event: &BlockEvent, page: PageId) -> bool {
    let is_visible = event.record.kind == RecordKind::Heap2Visible;
    event.touch != Touch::MapBits && !(is_visible && page.fork == ForkNumber::Main)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOfNoDonor {
    pub path: String,
    pub gap: DonorGap,
}

/// Redo point and checkpoint of those donors whose file ends before the page, or that have no such file.
pub(crate) fn donors_without(donors: &[Donor], gaps: &[PageOfNoDonor]) -> Vec<(Lsn, Lsn)> {
    let is_absent = |donor: &&Donor| {
        let path = donor.path().display().to_string();
        let is_without =
            |gap: &PageOfNoDonor| matches!(gap.gap, DonorGap::DonorHasNoFile | DonorGap::DonorFileEndsBefore);
        gaps.iter().any(|gap| gap.path == path && is_without(gap))
    };
    let facts = donors.iter().filter(is_absent).map(Donor::facts);
    facts.map(|facts| (facts.redo_lsn, facts.checkpoint_lsn)).collect()
}

impl Context<'_> {
    /// A candidate from each donor that has the page; why it has none from the others.
    pub(crate) fn donor_candidates(
        &self,
        page: PageId,
        disk: &Disk,
        is_unlogged: bool,
    ) -> (Vec<Candidate>, Vec<PageOfNoDonor>) {
        let (mut candidates, mut gaps) = (Vec::new(), Vec::new());
        // Without its records nobody knows what a donor lacks.
        if self.interest.index_of(page).is_none() {
            return (candidates, gaps);
        }
        for (index, donor) in self.donors.iter().enumerate() {
            match self.donor_candidate(page, disk, is_unlogged, index, donor) {
                Ok(Ok(candidate)) => candidates.push(candidate),
                Ok(Err(gap)) => gaps.push(PageOfNoDonor { path: donor.path().display().to_string(), gap }),
                Err(error) => self.unread.borrow_mut().skip_once(SkippedPart::from(page), error),
            }
        }
        (candidates, gaps)
    }

    fn donor_candidate(
        &self,
        page: PageId,
        disk: &Disk,
        is_unlogged: bool,
        index: usize,
        donor: &Donor,
    ) -> Result<Result<Candidate, DonorGap>, AccessError> {
        let bytes = match donor.read_page(page)? {
            DonorRead::Page(bytes) => bytes,
            DonorRead::Gap(gap) => return Ok(Err(gap)),
        };
        let facts = donor.facts();
        let is_checked = facts.checksums.is_enforced();
        let header = PageHeader::decode(0, &bytes).ok();
        let page_lsn = header.map(|header| header.lsn).unwrap_or_default();
        let condition = PageCondition::of(&bytes, page.fork, page.block, is_checked);
        let flaws: Vec<_> = condition.damage().map_or_else(Vec::new, |damage| damage.flaws().collect());
        let is_unlogged = is_unlogged || page.fork != ForkNumber::Init && donor.is_unlogged(page.rel)?;
        let other_block = || match identity_of(&bytes, page.fork, page.block, self.record_at(page, page_lsn)) {
            Identity::Other(why) => Some(Objection::OtherBlock(why)),
            Identity::Own | Identity::Silent => None,
        };
        let switch_lsn = donor.usable_until().filter(|switch_lsn| page_lsn > *switch_lsn);
        let objection = (condition == PageCondition::Zeroed)
            .then_some(Objection::ImageAllZero)
            .or_else(|| is_unlogged.then_some(Objection::UnloggedInDonor))
            .or_else(|| switch_lsn.map(|switch_lsn| Objection::DonorAfterSwitch { page_lsn, switch_lsn }))
            .or_else(|| not_a_map(page.fork, header.as_ref(), self.case.files.block_size))
            .or_else(|| self.other_kind(page, header.as_ref()))
            .or_else(other_block);
        // What is damaged itself says nothing of where the sectors on disk come from.
        let marks = if flaws.is_empty() { SectorMarks::of(&bytes) } else { SectorMarks::zero(0) };
        let source = ImageSource::Donor {
            donor: index,
            path: donor.path().display().to_string(),
            kind: facts.kind,
            redo_lsn: facts.redo_lsn,
            checkpoint_lsn: facts.checkpoint_lsn,
            control_checkpoint: Box::new(facts.control_checkpoint),
            is_checked,
        };
        let sectors_matching = marks.matching(&disk.marks);
        let (ahead, open) = (None, Vec::new());
        Ok(Ok(Candidate { source, page_lsn, sectors_matching, marks, flaws, ahead, objection, open }))
    }
}
