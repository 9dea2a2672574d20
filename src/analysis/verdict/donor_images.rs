//! The page as donors have it.

use super::candidate::{Candidate, ImageSource};
use super::evidence::Objection;
use super::identity::{Identity, identity_of};
use super::images::not_a_map;
use super::sectors::SectorMarks;
use super::survey::{Context, Disk};
use crate::analysis::page_check::PageCondition;
use crate::analysis::skipped::SkippedPart;
use crate::cluster::donor::{Donor, DonorGap, DonorRead};
use crate::cluster::open::AccessError;
use crate::parsers::page::PageHeader;
use crate::types::{ForkNumber, Lsn, PageId};

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
    pub(super) fn donor_candidates(
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
            .or_else(|| not_a_map(page.fork, header.as_ref(), self.block_size))
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
