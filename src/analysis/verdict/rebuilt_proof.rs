//! Whether a page that was built by replay may be put back. It is judged like any image, but for what it lacks: nothing up to
//! the LSN as of which it was built.

use super::candidate::{Candidate, CandidateEvidence, Chain, ImageSource, Judged, MAX_NAMED_RECORDS, judge};
use super::check::CheckReport;
use super::evidence::{NamedRecord, Objection, Statement, Weight};
use super::identity::{Identity, identity_of};
use super::rebuild::{BuildFailure, RebuildBase, RebuildPlan};
use crate::analysis::changes::events::{BlockEvent, FileEvent, Touch};
use crate::analysis::changes::sectors::SectorMarks;
use crate::analysis::pages::page_check::PageCondition;
use crate::parsers::page::PageHeader;
use crate::types::{Lsn, PageId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuiltFrom {
    pub base: RebuildBase,
    pub from: Lsn,
    pub until: Lsn,
    pub records: u64,
    pub first_lsn: Option<Lsn>,
    pub last_lsn: Option<Lsn>,
    pub server: String,
}

impl RebuiltFrom {
    /// True when no record moved the LSN: that of the built page is the LSN of the copy that it was built from.
    pub(crate) fn has_lsn_of_base(&self, page_lsn: Lsn) -> bool {
        matches!(self.base, RebuildBase::Candidate { page_lsn: of_base, .. } if of_base == page_lsn)
    }
}

/// A page that a server built, and what was on disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltImage<'a> {
    pub bytes: &'a [u8],
    /// Bytes of the page on disk.
    pub disk: &'a [u8],
    pub records: u64,
    pub server: &'a str,
    pub checksums: bool,
    pub lowest_wal_lsn: Lsn,
}

impl CheckReport {
    /// Judges the page that was built for the damaged page with this index, by the same evidence and the same doubts as its
    /// other images.
    pub(crate) fn add_built(&mut self, index: usize, built: &BuiltImage<'_>) {
        let Some(report) = self.pages.get_mut(index) else { return };
        let Some(Ok(plan)) = report.rebuild.clone() else { return };
        let page = report.page;
        let events = self.interest.index_of(page).map_or(&[][..], |index| self.history.events(index));
        let evidence = CandidateEvidence {
            replay: &self.replay,
            history: &self.history,
            events,
            lowest_wal_lsn: built.lowest_wal_lsn,
            disk_lsn: report.disk_lsn,
            dwb_doubts: &[],
        };
        let mut judged = judge(page, candidate(page, &plan, built, events), &evidence);
        judged.weigh(&self.replay.doubts);
        judged.weigh(report.left_beside.as_slice());
        let count = report.verdict.candidates.len();
        if let Some(tear) = &mut report.tear {
            tear.make_room(count);
        }
        report.verdict.add_candidate(judged);
        if let Some(rebuild) = report.rebuild.as_ref().filter(|_| !report.verdict.has_chosen(count)) {
            report.verdict.add_rebuild(rebuild);
        }
    }

    /// Says why a damaged page was not built.
    pub(crate) fn add_build_failure(&mut self, index: usize, failure: BuildFailure) {
        if let Some(report) = self.pages.get_mut(index) {
            report.verdict.add_build_failure(&failure);
            report.build_failure = Some(failure);
        }
    }
}

fn candidate(page: PageId, plan: &RebuildPlan, built: &BuiltImage<'_>, events: &[BlockEvent]) -> Candidate {
    let bytes = built.bytes;
    let page_lsn = PageHeader::decode(0, bytes).map_or(Lsn::INVALID, |header| header.lsn);
    let condition = PageCondition::of(bytes, page.fork, page.block, built.checksums);
    let flaws = condition.damage().map_or_else(Vec::new, |damage| damage.flaws().collect());
    let record = events.iter().find(|event| event.end_lsn == page_lsn && event.touch != Touch::MapBits);
    let other_block = || match identity_of(bytes, page.fork, page.block, record) {
        Identity::Other(why) => Some(Objection::OtherBlock(why)),
        Identity::Own | Identity::Silent => None,
    };
    let expected = plan.expected_lsn().unwrap_or_default();
    let objection = (condition == PageCondition::Zeroed)
        .then_some(Objection::ImageAllZero)
        .or_else(|| {
            let (expected, found) = (plan.records, built.records);
            (expected != found).then_some(Objection::OtherRecordsReplayed { expected, found })
        })
        .or_else(|| {
            (!plan.lsns.allow(page_lsn)).then_some(Objection::OtherLsnThanPlanned { expected, found: page_lsn })
        })
        .or_else(other_block);
    let marks = SectorMarks::of(bytes);
    let source = RebuiltFrom {
        base: plan.base.clone(),
        from: plan.from,
        until: plan.until,
        records: built.records,
        first_lsn: plan.first_lsn,
        last_lsn: plan.last_lsn,
        server: built.server.to_owned(),
    };
    Candidate {
        source: ImageSource::Rebuilt(Box::new(source)),
        page_lsn,
        sectors_matching: marks.matching(&SectorMarks::of(built.disk)),
        marks,
        flaws,
        ahead: None,
        objection,
        open: Vec::new(),
    }
}

pub(crate) fn judge_rebuilt(candidate: &Candidate, rebuilt: &RebuiltFrom, chain: &mut Chain) {
    let RebuiltFrom { records, ref server, .. } = *rebuilt;
    chain.add(Weight::Supports, Statement::RebuiltByServer { records, server: server.clone() });
    let (equal, of) = (candidate.sectors_matching, candidate.marks.len());
    if equal > 0 {
        chain.add(Weight::Notes, Statement::SectorsSurvived { equal, of });
    }
}

/// Whether replay repeats everything that came after the built page.
pub(crate) fn judge_rebuilt_change(
    page: PageId,
    rebuilt: &RebuiltFrom,
    evidence: &CandidateEvidence<'_>,
    chain: &mut Chain,
) {
    let Some(redo_lsn) = evidence.replay.redo_lsn else {
        return chain.add(Weight::Missing, Statement::RedoPointUnknown);
    };
    if !evidence.replay.can_begin {
        return chain.add(Weight::Missing, Statement::RedoPointUnreadable { redo_lsn });
    }
    let replays = evidence.replay.recovery.replays();
    let (from, until) = (rebuilt.from, rebuilt.until);
    let is_repeated = |start_lsn: Lsn| replays && start_lsn >= redo_lsn;
    let is_lacked = |event: &&BlockEvent| event.start_lsn >= until && !is_repeated(event.start_lsn) && event.matters();
    let lost: Vec<&BlockEvent> = evidence.events.iter().filter(is_lacked).collect();
    let is_done = |event: &FileEvent| event.end_lsn <= until && event.is_replayed_on(page);
    let spoils = |event: &&FileEvent| event.end_lsn > from && !is_repeated(event.start_lsn) && !is_done(event);
    if let Some(event) = evidence.history.file_events(page).find(spoils) {
        chain.add(Weight::Against, Statement::ImageOfOlderPage(event.clone()));
    }
    if !lost.is_empty() {
        let major = evidence.history.major;
        let named = lost.iter().take(MAX_NAMED_RECORDS);
        let records = named.map(|event| NamedRecord { name: event.name(major), lsn: event.start_lsn }).collect();
        let more = lost.len().saturating_sub(MAX_NAMED_RECORDS);
        chain.add(Weight::Loses, Statement::LacksChanges { redo_lsn: replays.then_some(redo_lsn), records, more });
        chain.lost = lost.iter().map(|event| event.end_lsn).collect();
    } else if until >= redo_lsn && evidence.history.covers(from, redo_lsn) {
        chain.add(Weight::Supports, Statement::ReplayedUntilRedo { from_lsn: from, redo_lsn });
    } else {
        chain.add(Weight::Missing, Statement::WalSinceMissing { from_lsn: from, redo_lsn });
    }
}

impl Judged {
    /// How the page was built, where it was.
    pub fn rebuilt(&self) -> Option<&RebuiltFrom> {
        match &self.candidate.source {
            ImageSource::Rebuilt(rebuilt) => Some(rebuilt),
            _ => None,
        }
    }
}
