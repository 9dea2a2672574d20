//! Images that a damaged page could be replaced by, and whether each may be used without losing a committed change.
//!
//! Replay starts at the redo point R and skips records that a page already has. So an image is complete when nothing
//! between its own LSN and R changed the page; from R on, replay brings it forward.

use strum::IntoStaticStr;

use super::donor_proof::{judge_donor_change, judge_donor_copy, judge_donor_lsn};
use super::evidence::{EvidenceStep, NamedRecord, Objection, OpenQuestion, Statement, Weight};
use super::rebuilt_proof::{RebuiltFrom, judge_rebuilt, judge_rebuilt_change};
use crate::analysis::changes::content::Ahead;
use crate::analysis::changes::events::{BlockEvent, FileEvent, Touch};
use crate::analysis::changes::history::WalHistory;
use crate::analysis::changes::sectors::SectorMarks;
use crate::analysis::dwb::slot_facts::WritePath;
use crate::analysis::dwb::staleness::{BatchReason, BatchVerdict};
use crate::analysis::pages::page_check::PageFlaw;
use crate::analysis::start::doubt::Doubt;
use crate::analysis::start::replay::Replay;
use crate::cluster::donor::DonorKind;
use crate::parsers::dwb::Knowledge;
use crate::parsers::wal::checkpoint::CheckPoint;
use crate::parsers::wal::names::RM_SEQUENCE;
use crate::types::{ForkNumber, Lsn, PageId};

/// Records that an image lacks and that are named one by one; the others are counted.
pub(crate) const MAX_NAMED_RECORDS: usize = 4;

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ImageSource {
    /// A slot of the double write buffer.
    Dwb {
        /// Name of the file.
        file: String,
        /// Index of the file in the set.
        file_index: usize,
        /// Index of the slot in the file.
        slot_index: u64,
        /// Stored number.
        slot_id: u32,
        /// LSN in the slot header.
        slot_lsn: Lsn,
        /// Whether the slot was written since the last checkpoint.
        batch: Option<(BatchVerdict, BatchReason)>,
        /// Who wrote it.
        path: Option<WritePath>,
        /// The layout's CRC proves the slot whole.
        is_verified: bool,
        /// Where the description of the buffer comes from.
        knowledge: Knowledge,
    },
    /// A full-page image in WAL.
    Wal {
        /// Start of the record.
        record_lsn: Lsn,
    },
    /// A page of a donor: an older copy of the cluster.
    Donor {
        /// Index of the donor among those that were given.
        donor: usize,
        /// Its path, as given.
        path: String,
        /// Kind of copy.
        kind: DonorKind,
        /// Changes from before this address are in its pages, if it is the copy that it seems to be.
        redo_lsn: Lsn,
        /// Start of the checkpoint record with that redo point.
        checkpoint_lsn: Lsn,
        /// The last checkpoint by the donor's `pg_control`: where its record starts, and the copy of that record.
        control_checkpoint: Box<(Lsn, CheckPoint)>,
        /// Its pages have checksums, so that a page of it is as a server wrote it.
        is_checked: bool,
    },
    /// A page that a server built by replay.
    Rebuilt(Box<RebuiltFrom>),
}

impl ImageSource {
    /// The word for JSON.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// True for a page of a donor.
    pub(crate) const fn is_donor(&self) -> bool {
        matches!(self, Self::Donor { .. })
    }
}

/// An image of one page.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where it comes from.
    pub source: ImageSource,
    /// LSN of the page: what the image carries, or what redo sets for one from WAL.
    pub page_lsn: Lsn,
    /// Its sectors.
    pub marks: SectorMarks,
    /// Sectors that equal those on disk.
    pub sectors_matching: usize,
    /// Rules of pages that it breaks.
    pub flaws: Vec<PageFlaw>,
    /// Proof that its content does not fit its LSN.
    pub ahead: Option<Ahead>,
    /// Another objection.
    pub objection: Option<Objection>,
    /// Questions about its content that nothing answers.
    pub open: Vec<OpenQuestion>,
}

/// Permitted use of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CandidateOutcome {
    /// Proven: replay brings the page to where it was.
    Safe,
    /// Nothing rules it out, but the proof has a gap.
    Unproven,
    /// Changes in WAL that replay does not repeat would be lost.
    LosesChanges,
    /// Not an image of this page as it was.
    Unusable,
}

/// A candidate with its evidence.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The image.
    pub candidate: Candidate,
    /// Its permitted use.
    pub outcome: CandidateOutcome,
    /// Why.
    pub steps: Vec<EvidenceStep>,
    /// Ends of records whose changes the image lacks and replay does not repeat.
    pub lost: Vec<Lsn>,
}

/// Context for judging candidates.
#[derive(Clone, Copy, Debug)]
pub struct CandidateEvidence<'a> {
    /// The prediction of recovery.
    pub replay: &'a Replay,
    /// History from WAL.
    pub history: &'a WalHistory,
    /// Records that touch the page.
    pub events: &'a [BlockEvent],
    /// Lowest number that can be a WAL address.
    pub lowest_wal_lsn: Lsn,
    /// LSN in the first sector of the page on disk, where that sector makes sense.
    pub disk_lsn: Option<Lsn>,
    /// Doubts about images of the double write buffer.
    pub dwb_doubts: &'a [Doubt],
}

pub(crate) struct Chain {
    pub(crate) steps: Vec<EvidenceStep>,
    pub(crate) lost: Vec<Lsn>,
}

impl Chain {
    pub(crate) fn add(&mut self, weight: Weight, statement: Statement) {
        self.steps.push(EvidenceStep { weight, statement });
    }
}

/// Judges one image of `page` by itself; what is doubtful about the whole cluster is for `Judged::weigh`.
pub fn judge(page: PageId, candidate: Candidate, evidence: &CandidateEvidence<'_>) -> Judged {
    let mut chain = Chain { steps: Vec::new(), lost: Vec::new() };
    judge_image(&candidate, evidence, &mut chain);
    if candidate.marks.is_sequence() && !is_set_later(&candidate, evidence) {
        chain.add(Weight::Missing, Statement::Open(OpenQuestion::SequenceValue));
    }
    if page.fork == ForkNumber::Main && evidence.history.may_lack_copies(candidate.page_lsn) {
        chain.add(Weight::Missing, Statement::CopiesUnlogged { page_lsn: candidate.page_lsn });
    }
    if page.fork == ForkNumber::Fsm {
        chain.add(Weight::Supports, Statement::FreeSpaceMap);
        if matches!(candidate.source, ImageSource::Dwb { is_verified: false, .. }) {
            chain.add(Weight::Missing, Statement::FreeSpaceMapUnproven);
        }
    } else if candidate.source.is_donor() {
        judge_donor_lsn(&candidate, evidence, &mut chain);
    } else {
        judge_lsn(&candidate, evidence, &mut chain);
        match &candidate.source {
            ImageSource::Rebuilt(rebuilt) => judge_rebuilt_change(page, rebuilt, evidence, &mut chain),
            _ => judge_completeness(page, &candidate, evidence, &mut chain),
        }
    }
    if candidate.source.is_donor() {
        judge_donor_change(page, &candidate, evidence, &mut chain);
    }
    let outcome = outcome_of(&chain.steps);
    Judged { candidate, outcome, steps: chain.steps, lost: chain.lost }
}

impl Judged {
    /// Adds what keeps every image from being called safe.
    pub(crate) fn weigh(&mut self, doubts: &[Doubt]) {
        let is_said = |doubt: &&Doubt| {
            self.statements(&|_| true).any(|said| matches!(said, Statement::Doubt(said) if said == *doubt))
        };
        let unsaid: Vec<&Doubt> = doubts.iter().filter(|doubt| !is_said(doubt)).collect();
        let steps = unsaid.into_iter().map(|doubt| {
            let weight = if doubt.forbids_restore() { Weight::Missing } else { Weight::Notes };
            EvidenceStep { weight, statement: Statement::Doubt(doubt.clone()) }
        });
        self.steps.extend(steps);
        self.outcome = outcome_of(&self.steps);
    }

    /// The statements whose weight `keep` accepts.
    pub fn statements<'a>(&'a self, keep: &'a dyn Fn(Weight) -> bool) -> impl Iterator<Item = &'a Statement> {
        self.steps.iter().filter(|step| keep(step.weight)).map(|step| &step.statement)
    }
}

fn outcome_of(steps: &[EvidenceStep]) -> CandidateOutcome {
    match steps.iter().map(|step| step.weight).max() {
        Some(Weight::Against) => CandidateOutcome::Unusable,
        Some(Weight::Loses) => CandidateOutcome::LosesChanges,
        Some(Weight::Missing) => CandidateOutcome::Unproven,
        _ => CandidateOutcome::Safe,
    }
}

/// The image in isolation: complete, plausible, consistent.
fn judge_image(candidate: &Candidate, evidence: &CandidateEvidence<'_>, chain: &mut Chain) {
    let page_lsn = candidate.page_lsn;
    match &candidate.source {
        ImageSource::Dwb { slot_lsn, is_verified, batch, path, .. } => {
            if *is_verified {
                chain.add(Weight::Supports, Statement::SlotCrcRight);
            } else if path.is_some_and(WritePath::is_locked) {
                chain.add(Weight::Supports, Statement::OwnChecksumRight);
            } else {
                chain.add(Weight::Missing, Statement::NoChecksumAtAll);
            }
            if *slot_lsn != page_lsn {
                chain.add(Weight::Missing, Statement::SlotLsnDiffers { slot_lsn: *slot_lsn, page_lsn });
            }
            match path {
                Some(WritePath::Eviction | WritePath::Locked) => {
                    chain.add(Weight::Supports, Statement::CopiedUnderLock { with_checksum: *is_verified });
                }
                Some(WritePath::Checkpoint) => chain.add(Weight::Notes, Statement::CopiedWithoutLock),
                None => {}
            }
            if let Some((verdict, reason)) = *batch {
                chain.add(Weight::Notes, Statement::WrittenSinceCheckpoint { verdict, reason });
            }
            for doubt in evidence.dwb_doubts {
                chain.add(Weight::Missing, Statement::Doubt(doubt.clone()));
            }
        }
        ImageSource::Wal { .. } => chain.add(Weight::Supports, Statement::WalCrcRight),
        ImageSource::Donor { is_checked, .. } => judge_donor_copy(*is_checked, chain),
        ImageSource::Rebuilt(rebuilt) => judge_rebuilt(candidate, rebuilt, chain),
    }
    for flaw in &candidate.flaws {
        chain.add(Weight::Against, Statement::BreaksPageRule(*flaw));
    }
    if let Some(ahead) = candidate.ahead {
        chain.add(Weight::Against, Statement::CopiedInChange { page_lsn, ahead });
    }
    if let Some(objection) = &candidate.objection {
        chain.add(Weight::Against, Statement::Objection(objection.clone()));
    }
    for question in &candidate.open {
        chain.add(Weight::Missing, Statement::Open(question.clone()));
    }
}

/// True when a record after the image sets the sequence: to a value that has not been handed out by then, and replay writes it, or wrote it. All
/// that is handed out between two records changes the page without a record, and without a new LSN.
///
/// Source: `nextval_internal` and `seq_redo`, `src/backend/commands/sequence.c`.
fn is_set_later(candidate: &Candidate, evidence: &CandidateEvidence<'_>) -> bool {
    let mut sets = evidence.events.iter().filter(|event| event.record.rmgr_id == RM_SEQUENCE);
    let redo_lsn = evidence.replay.redo_lsn.filter(|_| evidence.replay.recovery.replays());
    let is_replayed = |event: &BlockEvent| redo_lsn.is_some_and(|redo_lsn| event.start_lsn >= redo_lsn);
    match &candidate.source {
        ImageSource::Rebuilt(rebuilt) => sets.any(|event| event.start_lsn >= rebuilt.from || is_replayed(event)),
        _ => sets.any(is_replayed),
    }
}

/// The image in the stream of WAL: of this page, and not from past its end.
fn judge_lsn(candidate: &Candidate, evidence: &CandidateEvidence<'_>, chain: &mut Chain) {
    let page_lsn = candidate.page_lsn;
    if page_lsn < evidence.lowest_wal_lsn {
        return chain.add(Weight::Missing, Statement::NoPageLsn { page_lsn });
    }
    let Some(end_lsn) = evidence.replay.end_lsn else {
        return chain.add(Weight::Missing, Statement::WalEndUnknown);
    };
    if page_lsn > end_lsn {
        return chain.add(Weight::Against, Statement::ImageAfterWalEnd { page_lsn, end_lsn });
    }
    if let Some(disk_lsn) = evidence.disk_lsn.filter(|disk| *disk > end_lsn) {
        chain.add(Weight::Missing, Statement::DiskAfterWalEnd { disk_lsn, end_lsn });
    }
    match &candidate.source {
        ImageSource::Wal { .. } => return,
        // The LSN is still that of the copy, which was judged by itself.
        ImageSource::Rebuilt(rebuilt) if rebuilt.has_lsn_of_base(page_lsn) => return,
        _ => {}
    }
    // Clearing bits of a map does not move its LSN.
    let sets_lsn = |event: &&BlockEvent| event.touch != Touch::MapBits;
    if evidence.events.iter().filter(sets_lsn).any(|event| event.end_lsn == page_lsn) {
        chain.add(Weight::Supports, Statement::RecordOfPage { page_lsn });
    } else if evidence.history.stretches().iter().any(|stretch| stretch.start < page_lsn && page_lsn <= stretch.end) {
        chain.add(Weight::Against, Statement::NoRecordOfPage { page_lsn });
    } else {
        chain.add(Weight::Missing, Statement::WalAroundImageMissing { page_lsn });
    }
}

/// Whether replay repeats everything that the image lacks.
fn judge_completeness(page: PageId, candidate: &Candidate, evidence: &CandidateEvidence<'_>, chain: &mut Chain) {
    let page_lsn = candidate.page_lsn;
    let Some(redo_lsn) = evidence.replay.redo_lsn else {
        return chain.add(Weight::Missing, Statement::RedoPointUnknown);
    };
    if !evidence.replay.can_begin {
        return chain.add(Weight::Missing, Statement::RedoPointUnreadable { redo_lsn });
    }
    let replays = evidence.replay.recovery.replays();
    if replays && page_lsn >= redo_lsn {
        return chain.add(Weight::Supports, Statement::NotBeforeRedo { page_lsn, redo_lsn });
    }
    // Without replay nothing is repeated, not even what WAL holds after the checkpoint.
    let is_repeated = |start_lsn: Lsn| replays && start_lsn >= redo_lsn;
    let inside = |event: &&BlockEvent| event.end_lsn > page_lsn && !is_repeated(event.start_lsn) && event.matters();
    let lost: Vec<&BlockEvent> = evidence.events.iter().filter(inside).collect();
    let removed: Option<&FileEvent> =
        evidence.history.file_events(page).find(|event| event.end_lsn > page_lsn && !is_repeated(event.start_lsn));
    if let Some(event) = removed {
        chain.add(Weight::Against, Statement::ImageOfOlderPage(event.clone()));
    }
    if !lost.is_empty() {
        let major = evidence.history.major;
        let named = lost.iter().take(MAX_NAMED_RECORDS);
        let records = named.map(|event| NamedRecord { name: event.name(major), lsn: event.start_lsn }).collect();
        let more = lost.len().saturating_sub(MAX_NAMED_RECORDS);
        let redo_lsn = replays.then_some(redo_lsn);
        chain.add(Weight::Loses, Statement::LacksChanges { redo_lsn, records, more });
        chain.lost = lost.iter().map(|event| event.end_lsn).collect();
    } else if evidence.history.covers(page_lsn, redo_lsn) {
        chain.add(Weight::Supports, Statement::UnchangedUntilRedo { page_lsn, redo_lsn });
    } else {
        chain.add(Weight::Missing, Statement::WalUntilRedoMissing { page_lsn, redo_lsn });
    }
}
