//! The verdict on one damaged page: what happened to it, what replay will do with it, and which image may be put back.

use strum::{IntoStaticStr, VariantNames};

use super::candidate::{Candidate, CandidateEvidence, CandidateOutcome, ImageSource, Judged, judge};
use super::evidence::{NamedRecord, Statement, Weight};
use super::rebuild::{BuildFailure, NotRebuildable, RebuildPlan};
use crate::analysis::changes::events::{BlockEvent, FileEvent, Touch};
use crate::analysis::changes::needed::OnStart;
use crate::analysis::start::doubt::Doubt;
use crate::analysis::start::replay::Recovery;
use crate::types::{ForkNumber, Lsn, PageId};

/// Recommended action for a page, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Better left alone.
    Leave,
    /// Replay overwrites the page without reading it: nothing to do.
    HealsInReplay,
    /// An image can be put back, and nothing is lost.
    Restore,
    /// A page that was built by replay can be put there, and nothing is lost.
    Rebuild,
    /// An image could be put back, but a part of the proof is missing.
    RestoreUnproven,
    /// The images there are lack changes that replay does not repeat.
    LosesChanges,
    /// There is no image that can be used.
    NoImage,
}

/// Why a page got its verdict.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// Replay dies without the page, and removes it later.
    NeededAndRemoved,
    /// Recovery empties the relation.
    UnloggedRelation,
    /// Recovery recreates the file.
    FileMadeAnew(FileEvent),
    /// Replay removes the page before anything needs it.
    RemovedInReplay(FileEvent),
    /// Replay overwrites the page without reading it.
    OverwrittenInReplay {
        /// Where replay begins.
        redo_lsn: Lsn,
        /// The record that does it.
        record: NamedRecord,
        /// It has a full-page image; otherwise redo builds the page.
        has_image: bool,
    },
    /// The relation has no file: writing the page would make one.
    RelationHasNoFile,
    /// The file ends before the page does: writing it would make the file longer.
    FileEndsBeforePage,
    /// A server takes the page of a map for an empty one.
    MapTakenForEmpty {
        /// Which map.
        fork: ForkNumber,
    },
    /// Replay reads the page of a visibility map and stops at it.
    MapStopsReplay {
        /// A zero-filled page does not stop it, unless recovery must reach a consistent state first.
        may_be_blank: bool,
    },
    /// There is no image of the page.
    NoImageAnywhere,
    /// An image cannot be used.
    ImageUnusable {
        /// Which one.
        source: ImageSource,
        /// Why not.
        why: Vec<Statement>,
    },
    /// A statement about the chosen image, with its code.
    OfImage(Statement),
    /// Rebuilding it failed. Its code is that of the failure.
    NotBuilt(BuildFailure),
    /// The page can be rebuilt from an older copy of it and WAL.
    CanBeRebuilt(RebuildPlan),
    /// It cannot. Its code is that of what stands against it.
    CannotBeRebuilt(NotRebuildable),
    /// Nothing is wrong with the page.
    NothingWrong,
    /// Nothing is wrong with the page by itself, and a finding says that it is wrong in its place.
    SoundByItself,
    /// Nothing is wrong with the page: it equals an image whose CRC is right.
    EqualsImage {
        /// Which one.
        source: ImageSource,
    },
    /// Nothing contradicts the page, but nothing proves it intact.
    NotProvenWhole {
        /// Recovery empties the relation.
        is_unlogged: bool,
    },
}

impl Reason {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OfImage(statement) => statement.code(),
            Self::CannotBeRebuilt(why) => why.code(),
            Self::NotBuilt(failure) => failure.code(),
            other => other.into(),
        }
    }

    /// The codes of all reasons that there can be, but for those of [`Statement`] and [`NotRebuildable`].
    pub fn codes() -> impl Iterator<Item = &'static str> {
        let by_part = ["of_image", "cannot_be_rebuilt", "not_built"];
        Self::VARIANTS.iter().copied().filter(move |code| !by_part.contains(code))
    }

    /// True when it states whether the page can be rebuilt.
    pub(crate) const fn is_of_rebuild(&self) -> bool {
        matches!(self, Self::CanBeRebuilt(_) | Self::CannotBeRebuilt(_) | Self::NotBuilt(_))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PageFacts {
    pub page: PageId,
    pub is_unlogged: bool,
    pub server_rejects: bool,
    /// The file ends inside the page, or before it: there is no whole page to be replaced.
    pub is_cut: bool,
    pub has_no_file: bool,
    /// The page is all zero, which is not damage unless it should have content.
    pub is_zero: bool,
}

/// The verdict and everything that it rests on.
#[derive(Clone, Debug)]
pub struct PageVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// Index of the image to be put back among the candidates.
    pub chosen: Option<usize>,
    /// Every image, judged.
    pub candidates: Vec<Judged>,
    /// Why.
    pub reasons: Vec<Reason>,
    /// Effect on startup without a repair.
    pub on_start: OnStart,
    /// Facts about the page, when an image was looked for; `None` when replay or its state settles the page.
    by_image: Option<PageFacts>,
    /// For a map page that stops recovery: whether a zero-filled page would not.
    can_be_blank: Option<bool>,
}

impl PageVerdict {
    /// Withdraws the verdict: nothing contradicts the page.
    pub(crate) fn settle_in_order(&mut self, reason: Reason) {
        self.verdict = Verdict::Leave;
        self.chosen = None;
        self.reasons = vec![reason];
        self.by_image = None;
    }

    /// True where an image was looked for and none is proven; of a visibility map also where servers do without.
    pub(crate) fn wants_rebuild(&self) -> bool {
        let is_map = self.by_image.is_some_and(|subject| subject.page.fork == ForkNumber::Vm);
        let is_unproven = matches!(self.verdict, Verdict::RestoreUnproven | Verdict::LosesChanges | Verdict::NoImage);
        self.by_image.is_some() && (is_unproven || is_map && self.verdict == Verdict::Leave)
    }

    pub(crate) fn add_candidate(&mut self, judged: Judged) {
        self.candidates.push(judged);
        if let Some(subject) = &self.by_image {
            (self.verdict, self.chosen, self.reasons) = choose(subject, self.can_be_blank, &self.candidates);
        }
    }

    /// True when this candidate is the chosen one.
    pub(crate) fn has_chosen(&self, index: usize) -> bool {
        self.chosen == Some(index)
    }

    pub(crate) fn add_build_failure(&mut self, failure: &BuildFailure) {
        self.reasons.push(Reason::NotBuilt(failure.clone()));
    }

    /// Where there is no image that would not lose changes, says whether the page can be built.
    pub(crate) fn add_rebuild(&mut self, rebuild: &Result<RebuildPlan, NotRebuildable>) {
        if matches!(self.verdict, Verdict::LosesChanges | Verdict::NoImage) {
            self.reasons.push(match rebuild {
                Ok(plan) => Reason::CanBeRebuilt(plan.clone()),
                Err(why) => Reason::CannotBeRebuilt(why.clone()),
            });
        }
    }

    /// Weighs what is doubtful about the whole cluster: with a doubt no image is safe.
    pub(crate) fn weigh(&mut self, doubts: &[Doubt]) {
        if doubts.is_empty() {
            return;
        }
        self.candidates.iter_mut().for_each(|judged| judged.weigh(doubts));
        if let Some(subject) = &self.by_image {
            (self.verdict, self.chosen, self.reasons) = choose(subject, self.can_be_blank, &self.candidates);
        }
    }
}

/// Judges a page that something is wrong with.
pub(crate) fn judge_page(
    subject: &PageFacts,
    candidates: Vec<Candidate>,
    evidence: &CandidateEvidence<'_>,
) -> PageVerdict {
    let page = subject.page;
    let candidates: Vec<Judged> = candidates.into_iter().map(|candidate| judge(page, candidate, evidence)).collect();
    let on_start = on_start(subject, evidence);
    let settled = if let OnStart::Dies { is_removed: true, .. } = on_start {
        Some((Verdict::Leave, Reason::NeededAndRemoved))
    } else if subject.is_unlogged && evidence.replay.recovery.replays() {
        Some((Verdict::Leave, Reason::UnloggedRelation))
    } else {
        in_replay(subject, evidence)
    };
    let by_image = settled.is_none().then_some(*subject);
    let stops = page.fork == ForkNumber::Vm && matches!(on_start, OnStart::Read { .. });
    let can_be_blank = stops.then_some(evidence.replay.recovery == Recovery::Crash);
    let (verdict, chosen, reasons) = match settled {
        Some((verdict, reason)) => (verdict, None, vec![reason]),
        None => choose(subject, can_be_blank, &candidates),
    };
    PageVerdict { verdict, chosen, candidates, reasons, on_start, by_image, can_be_blank }
}

/// The first record that replay will meet which overwrites or reads the page.
fn first_in_replay<'a>(evidence: &CandidateEvidence<'a>) -> Option<&'a BlockEvent> {
    let replay = evidence.replay;
    let redo_lsn = replay.redo_lsn.filter(|_| replay.recovery.replays() && replay.can_begin)?;
    evidence.events.iter().find(|event| event.start_lsn >= redo_lsn && (event.heals() || event.reads()))
}

/// The record that reads this visibility map page and stops at damage, before any other overwrites the page.
fn map_read_in_replay<'a>(subject: &PageFacts, evidence: &CandidateEvidence<'a>) -> Option<&'a BlockEvent> {
    let first = first_in_replay(evidence).filter(|_| subject.page.fork == ForkNumber::Vm)?;
    first.clears_map.then_some(first)
}

/// A verdict that replay gives by itself.
fn in_replay(subject: &PageFacts, evidence: &CandidateEvidence<'_>) -> Option<(Verdict, Reason)> {
    let replay = evidence.replay;
    let redo_lsn = replay.redo_lsn.filter(|_| replay.recovery.replays() && replay.can_begin)?;
    let first = first_in_replay(evidence);
    let page = subject.page;
    let mut ends = evidence.history.file_events(page).filter(|event| event.start_lsn >= redo_lsn && event.ends(page));
    // Recovery skips records of a missing page, if it finds later that the page was removed.
    let passed_over = subject.is_cut || subject.is_zero;
    let end = if passed_over {
        let changed_after =
            |end: Lsn| evidence.events.iter().find(|event| event.start_lsn > end && (event.heals() || event.reads()));
        ends.last().filter(|end| !changed_after(end.start_lsn).is_some_and(BlockEvent::reads))
    } else {
        ends.find(|end| first.is_none_or(|first| end.start_lsn < first.start_lsn))
    };
    // Where there was no room for all records of the page, one that reads it may be among the others.
    let end = end.filter(|end| evidence.history.covers(redo_lsn, end.start_lsn));
    let mut brought =
        evidence.history.file_events(page).filter(|event| event.start_lsn >= redo_lsn && event.brings(page));
    if let Some(event) = brought.next().filter(|_| passed_over) {
        return Some((Verdict::Leave, Reason::FileMadeAnew(event.clone())));
    }
    if let Some(end) = end {
        return Some((Verdict::Leave, Reason::RemovedInReplay(end.clone())));
    }
    let first = first.filter(|event| event.heals())?;
    let record = NamedRecord { name: first.name(evidence.history.major), lsn: first.start_lsn };
    let has_image = !matches!(first.touch, Touch::Init);
    Some((Verdict::HealsInReplay, Reason::OverwrittenInReplay { redo_lsn, record, has_image }))
}

fn on_start(subject: &PageFacts, evidence: &CandidateEvidence<'_>) -> OnStart {
    let replay = evidence.replay;
    let is_map = matches!(subject.page.fork, ForkNumber::Fsm | ForkNumber::Vm);
    if !replay.recovery.replays() {
        return match replay.redo_lsn {
            Some(_) if is_map && subject.server_rejects => OnStart::TakenForEmpty,
            Some(_) => OnStart::Later,
            None => OnStart::Unknown,
        };
    }
    if !replay.can_begin {
        return OnStart::Unknown;
    }
    if let Some(dies) = dies_in_replay(subject, evidence) {
        return dies;
    }
    if subject.is_unlogged || in_replay(subject, evidence).is_some() {
        return OnStart::Harmless;
    }
    if let Some(clears) = map_read_in_replay(subject, evidence) {
        return match clears.start_lsn {
            // As good as an empty one, and without a backup replay does not ask for it at its end.
            _ if (subject.is_zero || subject.is_cut) && replay.recovery == Recovery::Crash => OnStart::Harmless,
            lsn if subject.is_zero || subject.is_cut => OnStart::PassedOver { lsn },
            lsn if subject.server_rejects => OnStart::Read { lsn },
            lsn => OnStart::Unnoticed { lsn },
        };
    }
    match first_in_replay(evidence) {
        // Unreadable map pages count as empty, and missing ones are created.
        Some(_) if is_map && (subject.server_rejects || subject.is_zero || subject.is_cut) => OnStart::Harmless,
        Some(first) if subject.is_zero || subject.is_cut => OnStart::PassedOver { lsn: first.start_lsn },
        Some(first) if subject.server_rejects => OnStart::Read { lsn: first.start_lsn },
        Some(first) => OnStart::Unnoticed { lsn: first.start_lsn },
        // A record of it may be among those that there was no room for.
        None if evidence.history.full_from().is_some() => OnStart::Unknown,
        None if is_map && subject.server_rejects => OnStart::TakenForEmpty,
        None => OnStart::Later,
    }
}

/// The first record that kills replay, because the page that it expects is missing at that point.
fn dies_in_replay(subject: &PageFacts, evidence: &CandidateEvidence<'_>) -> Option<OnStart> {
    let redo_lsn = evidence.replay.redo_lsn?;
    let major = evidence.history.major;
    let events = || evidence.events.iter().filter(|event| event.start_lsn >= redo_lsn);
    let deadly =
        events().find(|event| event.dies_without_page(major) && !stands_at(subject, evidence, redo_lsn, event))?;
    let ends = |event: &&FileEvent| event.start_lsn > deadly.start_lsn && event.ends(subject.page);
    let end = evidence.history.file_events(subject.page).filter(ends).last();
    let comes_back = |end: &FileEvent| events().any(|event| event.start_lsn > end.start_lsn);
    let is_removed = end.is_some_and(|end| !comes_back(end));
    Some(OnStart::Dies { lsn: deadly.start_lsn, record: deadly.name(major), is_removed })
}

/// True when the page exists when recovery reaches `at`: built before, or on disk and not removed before.
fn stands_at(subject: &PageFacts, evidence: &CandidateEvidence<'_>, redo_lsn: Lsn, at: &BlockEvent) -> bool {
    let is_before = |lsn: Lsn| redo_lsn <= lsn && lsn < at.start_lsn;
    let built = evidence.events.iter().filter(|event| is_before(event.start_lsn) && event.heals());
    let built = built.map(|event| event.start_lsn).max();
    let files = || evidence.history.file_events(subject.page).filter(|event| is_before(event.start_lsn));
    let ended = files().filter(|event| event.ends(subject.page)).map(|event| event.start_lsn).max();
    let brought = files().filter(|event| event.brings(subject.page)).map(|event| event.start_lsn).max();
    match (built.max(brought), ended) {
        (Some(built), Some(ended)) => built > ended,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => !(subject.is_cut || subject.is_zero),
    }
}

/// Chooses among the images: of the safe ones the newest, else the best of the others.
///
/// `can_be_blank`: of a map page that stops replay, whether a page of zeros there does not.
fn choose(
    subject: &PageFacts,
    can_be_blank: Option<bool>,
    candidates: &[Judged],
) -> (Verdict, Option<usize>, Vec<Reason>) {
    let newest = |outcome: CandidateOutcome| {
        let fits = candidates.iter().enumerate().filter(|(_, judged)| judged.outcome == outcome);
        fits.max_by_key(|(index, judged)| (judged.candidate.page_lsn, nearness(judged), *index)).map(|(index, _)| index)
    };
    let is_map = matches!(subject.page.fork, ForkNumber::Fsm | ForkNumber::Vm);
    let of = |index: usize, keep: &dyn Fn(Weight) -> bool| -> Vec<Reason> {
        let statements = candidates.get(index).into_iter().flat_map(|judged| judged.statements(keep));
        statements.cloned().map(Reason::OfImage).collect()
    };
    if let Some(index) = newest(CandidateOutcome::Safe) {
        if subject.is_cut {
            let reason = if subject.has_no_file { Reason::RelationHasNoFile } else { Reason::FileEndsBeforePage };
            return (Verdict::RestoreUnproven, Some(index), vec![reason]);
        }
        let is_rebuilt = candidates.get(index).is_some_and(|judged| judged.rebuilt().is_some());
        let verdict = if is_rebuilt { Verdict::Rebuild } else { Verdict::Restore };
        return (verdict, Some(index), of(index, &|weight| weight == Weight::Supports));
    }
    if let Some(may_be_blank) = can_be_blank {
        return (Verdict::NoImage, None, vec![Reason::MapStopsReplay { may_be_blank }]);
    }
    if is_map && subject.server_rejects {
        return (Verdict::Leave, None, vec![Reason::MapTakenForEmpty { fork: subject.page.fork }]);
    }
    if let Some(index) = newest(CandidateOutcome::Unproven) {
        return (Verdict::RestoreUnproven, Some(index), of(index, &|weight| weight == Weight::Missing));
    }
    if let Some(index) = newest(CandidateOutcome::LosesChanges) {
        return (Verdict::LosesChanges, Some(index), of(index, &|weight| weight >= Weight::Missing));
    }
    let mut reasons: Vec<Reason> = Vec::new();
    if candidates.is_empty() {
        reasons.push(Reason::NoImageAnywhere);
    }
    reasons.extend(candidates.iter().map(|judged| Reason::ImageUnusable {
        source: judged.candidate.source.clone(),
        why: judged.statements(&|weight| weight == Weight::Against).cloned().collect(),
    }));
    (Verdict::NoImage, None, reasons)
}

/// How near to the page itself an image is, among those with the same LSN.
fn nearness(judged: &Judged) -> u8 {
    match judged.candidate.source {
        ImageSource::Dwb { .. } => 2,
        ImageSource::Wal { .. } => 1,
        ImageSource::Donor { .. } | ImageSource::Rebuilt(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::changes::history::WalHistory;
    use crate::analysis::start::replay::Replay;
    use crate::types::RelFileLocator;

    /// A check of a large cluster said that replay does not touch pages whose records it had no room for.
    #[test]
    fn page_without_a_known_record_is_not_beyond_replay_where_records_were_left_out() {
        let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16_384 };
        let page = PageId { rel, fork: ForkNumber::Main, block: 7 };
        let subject = PageFacts {
            page,
            is_unlogged: false,
            server_rejects: false,
            is_cut: false,
            has_no_file: false,
            is_zero: true,
        };
        let (redo_lsn, end_lsn) = (Lsn(0x100_0000), Lsn(0x200_0000));
        let replay = Replay::of_crash(redo_lsn, end_lsn);
        for (history, expected) in
            [(WalHistory::default(), OnStart::Later), (WalHistory::full(Lsn(0x180_0000)), OnStart::Unknown)]
        {
            let evidence = CandidateEvidence {
                replay: &replay,
                history: &history,
                events: &[],
                lowest_wal_lsn: Lsn::INVALID,
                disk_lsn: None,
                dwb_doubts: &[],
            };
            assert_eq!(judge_page(&subject, Vec::new(), &evidence).on_start, expected);
        }
    }
}
