//! Images that a damaged page could be replaced by, and whether each may be used without losing a committed change.
//!
//! Replay starts at the redo point R and skips records that a page already has. So an image is complete when nothing
//! between its own LSN and R changed the page; from R on, replay brings it forward.

use super::content::Ahead;
use super::doubt::Doubt;
use super::events::{BlockEvent, FileEvent, Touch};
use super::history::WalHistory;
use super::replay::Replay;
use super::sectors::SectorMarks;
use crate::analysis::slot_facts::WritePath;
use crate::analysis::staleness::{BatchReason, BatchVerdict};
use crate::types::{ForkNumber, Lsn, PageId};

/// Records that are named one by one in a sentence.
const MAX_RECORDS_IN_WORDS: usize = 4;

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// A slot of the double write buffer.
    Dwb {
        /// Name of the file.
        file: String,
        /// Place of the file in the set.
        file_index: usize,
        /// Place of the slot in the file.
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
    },
    /// A full-page image in WAL.
    Wal {
        /// Start of the record.
        record_lsn: Lsn,
    },
}

impl ImageSource {
    /// The word for JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Dwb { .. } => "dwb",
            Self::Wal { .. } => "wal",
        }
    }
}

impl std::fmt::Display for ImageSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dwb { file, slot_index, .. } => f.pad(&format!("{file} slot {slot_index}")),
            Self::Wal { record_lsn } => f.pad(&format!("WAL image at {record_lsn}")),
        }
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
    pub faults: Vec<String>,
    /// Proof that its content does not fit its LSN.
    pub ahead: Option<Ahead>,
    /// Something else that speaks against it.
    pub objection: Option<String>,
    /// Questions about its content that nothing answers.
    pub unsettled: Vec<String>,
}

/// What a statement means for the use of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Part of the proof.
    Supports,
    /// Worth knowing, decides nothing.
    Notes,
    /// A part of the proof is missing.
    Missing,
    /// Changes would be lost.
    Loses,
    /// The image cannot be used.
    Against,
}

impl Weight {
    /// The word for reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Supports => "proof",
            Self::Notes => "note",
            Self::Missing => "missing",
            Self::Loses => "loses",
            Self::Against => "against",
        }
    }
}

/// One statement of a chain of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it means.
    pub weight: Weight,
    /// What was found, in a sentence.
    pub text: String,
}

/// What may be done with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CandidateOutcome {
    /// Proven: replay brings the page to where it was.
    Safe,
    /// Nothing speaks against it, but the proof has a gap.
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
    /// What may be done with it.
    pub outcome: CandidateOutcome,
    /// Why.
    pub steps: Vec<Step>,
    /// Ends of records whose changes the image lacks and replay does not repeat.
    pub lost: Vec<Lsn>,
}

/// What candidates are judged by.
#[derive(Clone, Copy, Debug)]
pub struct CandidateEvidence<'a> {
    /// What recovery will do.
    pub replay: &'a Replay,
    /// What WAL says.
    pub history: &'a WalHistory,
    /// Records that touch the page.
    pub events: &'a [BlockEvent],
    /// Lowest number that can be a WAL address.
    pub lowest_wal_lsn: Lsn,
    /// LSN in the first sector of the page on disk, where that sector makes sense.
    pub disk_lsn: Option<Lsn>,
    /// What keeps images of the double write buffer from being trusted.
    pub dwb_doubts: &'a [Doubt],
}

/// Collects the statements.
struct Chain {
    steps: Vec<Step>,
    lost: Vec<Lsn>,
}

impl Chain {
    fn add(&mut self, weight: Weight, text: impl Into<String>) {
        self.steps.push(Step { weight, text: text.into() });
    }
}

/// Judges one image of `page` by itself; what is doubtful about the whole cluster is for [`Judged::weigh`].
#[must_use]
pub fn judge(page: PageId, candidate: Candidate, evidence: &CandidateEvidence<'_>) -> Judged {
    let mut chain = Chain { steps: Vec::new(), lost: Vec::new() };
    judge_image(&candidate, evidence, &mut chain);
    if page.fork == ForkNumber::Fsm {
        chain.add(Weight::Supports, "a free space map corrects itself: any whole page of it will do");
        if matches!(candidate.source, ImageSource::Dwb { is_verified: false, .. }) {
            let text = "nothing but the slot's header says whose page it is: the slot's CRC does not prove it, and WAL does \
                        not log free space maps";
            chain.add(Weight::Missing, text);
        }
    } else {
        judge_place(&candidate, evidence, &mut chain);
        judge_completeness(page, &candidate, evidence, &mut chain);
    }
    let outcome = outcome_of(&chain.steps);
    Judged { candidate, outcome, steps: chain.steps, lost: chain.lost }
}

impl Judged {
    /// Adds what keeps every image from being called safe.
    pub fn weigh(&mut self, doubts: &[Doubt]) {
        let steps = doubts.iter().map(|doubt| {
            let weight = if doubt.forbids_restore() { Weight::Missing } else { Weight::Notes };
            Step { weight, text: doubt.to_string() }
        });
        self.steps.extend(steps);
        self.outcome = outcome_of(&self.steps);
    }
}

fn outcome_of(steps: &[Step]) -> CandidateOutcome {
    match steps.iter().map(|step| step.weight).max() {
        Some(Weight::Against) => CandidateOutcome::Unusable,
        Some(Weight::Loses) => CandidateOutcome::LosesChanges,
        Some(Weight::Missing) => CandidateOutcome::Unproven,
        _ => CandidateOutcome::Safe,
    }
}

/// The image by itself: whole, plausible, of one moment.
fn judge_image(candidate: &Candidate, evidence: &CandidateEvidence<'_>, chain: &mut Chain) {
    match &candidate.source {
        ImageSource::Dwb { slot_lsn, is_verified, batch, path, .. } => {
            if *is_verified {
                chain.add(Weight::Supports, "the slot's CRC is right");
            } else if *path == Some(WritePath::Eviction) {
                let text = "the slot's CRC proves nothing in this layout, but the image's own checksum is right, which covers \
                            its bytes and the number of its block";
                chain.add(Weight::Supports, text);
            } else {
                let text = "this layout's CRC proves nothing, and the image has no checksum of its own: the slot may be \
                            damaged";
                chain.add(Weight::Missing, text);
            }
            if *slot_lsn != candidate.page_lsn {
                let (slot, image) = (slot_lsn, candidate.page_lsn);
                chain.add(
                    Weight::Missing,
                    format!("the slot says LSN {slot}, its image {image}: the page changed while it was copied"),
                );
            }
            match path {
                Some(WritePath::Eviction) if *is_verified => {
                    chain.add(Weight::Supports, "the image's own checksum is right: it was copied under a lock");
                }
                Some(WritePath::Eviction) => chain.add(Weight::Supports, "it was copied under a lock"),
                Some(WritePath::Checkpoint) => chain.add(
                    Weight::Notes,
                    "copied by a checkpoint without a lock, so it carries no checksum of its own; its structure is sound",
                ),
                None => {}
            }
            if let Some((verdict, reason)) = batch {
                let how = reason.confidence().name();
                let text = format!("written since the last checkpoint: {} ({how})", verdict.name());
                chain.add(Weight::Notes, text);
            }
            for doubt in evidence.dwb_doubts {
                chain.add(Weight::Missing, doubt.to_string());
            }
        }
        ImageSource::Wal { .. } => chain.add(Weight::Supports, "the WAL record's CRC is right"),
    }
    for fault in &candidate.faults {
        chain.add(Weight::Against, format!("the image breaks a rule of pages: {fault}"));
    }
    if let Some(ahead) = candidate.ahead {
        let lsn = candidate.page_lsn;
        chain.add(Weight::Against, format!("copied in the middle of a change: its LSN is {lsn}, yet {ahead}"));
    }
    if let Some(objection) = &candidate.objection {
        chain.add(Weight::Against, objection.clone());
    }
    for question in &candidate.unsettled {
        chain.add(Weight::Missing, question.clone());
    }
}

/// The image in the stream of WAL: of this page, and not from behind its end.
fn judge_place(candidate: &Candidate, evidence: &CandidateEvidence<'_>, chain: &mut Chain) {
    let lsn = candidate.page_lsn;
    if lsn < evidence.lowest_wal_lsn {
        return chain.add(Weight::Missing, format!("the image has no LSN ({lsn}), so WAL cannot vouch for it"));
    }
    let Some(end_lsn) = evidence.replay.end_lsn else {
        return chain.add(Weight::Missing, "the end of WAL is not known");
    };
    if lsn > end_lsn {
        return chain.add(
            Weight::Against,
            format!("its LSN {lsn} lies behind the end of valid WAL, {end_lsn}: a future that replay cannot reach"),
        );
    }
    if let Some(disk_lsn) = evidence.disk_lsn.filter(|disk| *disk > end_lsn) {
        chain.add(
            Weight::Missing,
            format!("the page on disk names LSN {disk_lsn}, behind the end of valid WAL, {end_lsn}: WAL is missing"),
        );
    }
    if matches!(candidate.source, ImageSource::Wal { .. }) {
        return;
    }
    // Clearing bits of a map does not move its LSN.
    let sets_lsn = |event: &&BlockEvent| event.touch != Touch::MapBits;
    if evidence.events.iter().filter(sets_lsn).any(|event| event.end_lsn == lsn) {
        chain.add(Weight::Supports, format!("the WAL record that ends at its LSN {lsn} is of this page"));
    } else if evidence.history.stretches().iter().any(|stretch| stretch.start < lsn && lsn <= stretch.end) {
        chain.add(
            Weight::Against,
            format!("no WAL record of this page ends at its LSN {lsn}: it is an image of something else"),
        );
    } else {
        chain.add(Weight::Missing, format!("WAL around its LSN {lsn} is not there, so it may be of another page"));
    }
}

/// Whether replay repeats everything that the image lacks.
fn judge_completeness(page: PageId, candidate: &Candidate, evidence: &CandidateEvidence<'_>, chain: &mut Chain) {
    let lsn = candidate.page_lsn;
    let Some(redo_lsn) = evidence.replay.redo_lsn else {
        return chain.add(Weight::Missing, "the redo point is not known");
    };
    if !evidence.replay.can_begin {
        return chain.add(Weight::Missing, format!("WAL from the redo point {redo_lsn} on cannot be read"));
    }
    let replays = evidence.replay.recovery.replays();
    if replays && lsn >= redo_lsn {
        return chain.add(
            Weight::Supports,
            format!("its LSN {lsn} is not older than the redo point {redo_lsn}: replay repeats all that came later"),
        );
    }
    // Without replay nothing is repeated, not even what WAL holds behind the checkpoint.
    let is_repeated = |start_lsn: Lsn| replays && start_lsn >= redo_lsn;
    let inside = |event: &&BlockEvent| event.end_lsn > lsn && !is_repeated(event.start_lsn) && event.matters();
    let lost: Vec<&BlockEvent> = evidence.events.iter().filter(inside).collect();
    let removed: Option<&FileEvent> =
        evidence.history.file_events(page).find(|event| event.end_lsn > lsn && !is_repeated(event.start_lsn));
    if let Some(event) = removed {
        chain.add(Weight::Against, format!("{}, so the image is of an older page", event.words()));
    }
    if !lost.is_empty() {
        let major = evidence.history.major;
        let named: Vec<String> = lost
            .iter()
            .take(MAX_RECORDS_IN_WORDS)
            .map(|event| format!("{} at {}", event.name(major), event.start_lsn))
            .collect();
        let more = match lost.len().saturating_sub(MAX_RECORDS_IN_WORDS) {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let named = named.join(", ");
        let text = if replays {
            format!("replay from {redo_lsn} does not repeat what it lacks of before: {named}{more}")
        } else {
            format!("no replay repeats what it lacks: {named}{more}")
        };
        chain.add(Weight::Loses, text);
        chain.lost = lost.iter().map(|event| event.end_lsn).collect();
    } else if evidence.history.covers(lsn, redo_lsn) {
        chain.add(
            Weight::Supports,
            format!("no record between its LSN {lsn} and the redo point {redo_lsn} changes the page"),
        );
    } else {
        chain.add(
            Weight::Missing,
            format!("its LSN {lsn} is older than the redo point {redo_lsn}, and WAL between them is not all there"),
        );
    }
}
