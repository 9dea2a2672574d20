//! Whether a page that was built by replay may be put back. It is judged like any image, but for what it lacks: nothing up to
//! the LSN as of which it was built.
//! Also here: proofs by replay of pages that no checksum protects.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::candidate::{Candidate, CandidateEvidence, Chain, ImageSource, Judged, MAX_NAMED_RECORDS, judge};
use super::check::CheckReport;
use super::evidence::{NamedRecord, Objection, Statement, Weight};
use super::identity::{Identity, identity_of};
use super::rebuild::{BuildFailure, RebuildBase, RebuildPlan};
use super::symptom::Symptom;
use crate::analysis::changes::events::{BlockEvent, FileEvent, Touch};
use crate::analysis::changes::sectors::SectorMarks;
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::dwb::staleness::Confidence;
use crate::analysis::pages::page_check::PageCondition;
use crate::analysis::start::belonging::Contradiction;
use crate::analysis::start::cluster_condition::Obstacle;
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

/// Bytes in which a page may differ from what it should be and still be called damaged, not torn.
const MAX_ROTTEN_BYTES: usize = 2;

/// Sign that a page differs from the result of WAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disproof {
    pub page_lsn: Lsn,
    /// Bytes in which it differs from what replay up to that LSN gives; empty where it does not, or was not built.
    pub differs: Vec<Range<usize>>,
    /// Start of a record that was on disk when the last checkpoint ended and that the page lacks.
    pub lacks: Option<Lsn>,
    /// No record that names the page gave it its LSN.
    pub is_foreign: bool,
    /// There is no page, or it is all zero: that is what it was found to be.
    pub absent: Option<Comparison>,
}

/// The proofs of pages.
#[derive(Clone, Debug, Default)]
pub struct Proofs {
    /// Pages that are what WAL makes of them.
    pub whole: FxHashSet<PageId>,
    pub wrong: BTreeMap<PageId, Disproof>,
    /// Pages without an LSN that records before the redo point change, or hold images of.
    pub emptied: Vec<PageId>,
    /// Where no checksum protects pages: those that are there and that records from the redo point on name.
    pub touched: Vec<PageId>,
    /// Start of the newest record up to the LSN of such a page that builds it without reading it.
    pub bases: FxHashMap<PageId, Lsn>,
    /// Function that fails because of findings other than pages.
    pub obstacle: Option<Obstacle>,
    /// WAL from elsewhere has another history.
    pub diverged: Option<Contradiction>,
    /// Pages have another history than WAL.
    pub strangers: Option<Contradiction>,
    /// From the redo point on pages were changed without an image of what they were, by WAL.
    pub lacks_images: bool,
}

/// How the proofs went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProofReport {
    /// Pages have checksums, and nothing was proven by replay.
    pub is_needless: bool,
    /// Pages that are what WAL makes of them.
    pub whole: u64,
    /// Pages that are not.
    pub wrong: u64,
    /// Pages that were built, which says nothing: a sequence names a value that it had not yet handed out, or a hint moved
    /// the LSN.
    pub undecided: u64,
    /// Pages that WAL names and that nothing is known of that they could be built on.
    pub without_base: u64,
    /// Pages that could not be built, by the code of the reason.
    pub not_built: BTreeMap<&'static str, u64>,
    /// Version of the server that replayed; `None` where none did.
    pub server: Option<String>,
    /// Records that it replayed.
    pub records: u64,
}

impl Disproof {
    /// Comparison of such a page, confidence, and reasons.
    pub(crate) fn judgement(&self) -> (Comparison, Confidence, Vec<Symptom>) {
        (self.comparison(), Confidence::Proven, self.symptoms())
    }

    fn comparison(&self) -> Comparison {
        if let Some(absent) = self.absent {
            return absent;
        }
        match self.bytes() {
            0 if self.is_foreign => Comparison::Damaged,
            0 => Comparison::DiskOlder,
            // No crash stops a write of sectors there.
            1..=MAX_ROTTEN_BYTES => Comparison::Damaged,
            _ => Comparison::Torn,
        }
    }

    /// In how many bytes it differs.
    fn bytes(&self) -> usize {
        self.differs.iter().map(Range::len).fold(0, usize::saturating_add)
    }

    fn symptoms(&self) -> Vec<Symptom> {
        let Self { page_lsn, differs, lacks, is_foreign, absent } = self;
        if let (Some(_), Some(record_lsn)) = (absent, lacks) {
            return vec![Symptom::LostContent { record_lsn: *record_lsn }];
        }
        if *is_foreign {
            // What another page lacks says nothing.
            return vec![Symptom::LsnOfNoRecord { page_lsn: *page_lsn }];
        }
        let differs = differs.first().map(|first| Symptom::DiffersFromReplay {
            page_lsn: *page_lsn,
            first: first.start,
            bytes: self.bytes(),
        });
        let lacks = lacks.map(|record_lsn| Symptom::LacksRecord { page_lsn: *page_lsn, record_lsn });
        differs.into_iter().chain(lacks).collect()
    }
}
