//! Fate of a damaged page in recovery by WAL alone: it is replaced before anything reads it, or it is damage that stays.
//! Images from anywhere but WAL do not count.

use strum::{IntoStaticStr, VariantNames};

use super::candidate::CandidateEvidence;
use super::evidence::NamedRecord;
use super::judge::{PageFacts, Reason, judge_page};
use crate::analysis::changes::events::BlockEvent;
use crate::analysis::changes::history::WalHistory;
use crate::analysis::changes::needed::OnStart;
use crate::analysis::start::backup::{Backup, BackupEnd};
use crate::analysis::start::doubt::Doubt;
use crate::analysis::start::replay::{Recovery, Replay};
use crate::parsers::wal::timeline::{TimelineHistory, WalSegment};
use crate::types::{Lsn, TimelineId};

/// Fate of a damaged page.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ReplayFate {
    /// Nobody has to act: replay replaces or removes the page before anything reads it, or the server does not need what
    /// it held.
    Healed(Reason),
    /// It stays damaged, or replay reads it as it is.
    RealDamage(Damage),
    /// The evidence does not say.
    Unknown(FateUnknown),
}

/// Why a page stays damaged.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Damage {
    /// The cluster was shut down cleanly, or WAL was reset.
    NothingReplays,
    /// The first record of the page that replay meets reads it.
    ReadInReplay(NamedRecord),
    /// No record that replay meets replaces the page.
    NotInReplay {
        /// Where replay begins.
        redo_lsn: Lsn,
        /// Where WAL ends.
        end_lsn: Lsn,
    },
}

/// Reason why the fate of a page is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FateUnknown {
    /// The reason.
    pub why: UnknownReason,
    /// File name of the segment of WAL that is missing, damaged, or ends too early, where it is one.
    pub segment: Option<String>,
}

/// The reason.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum UnknownReason {
    /// Something is doubtful about the cluster or its WAL. Its code is that of the doubt.
    Doubt(Doubt),
    /// WAL ends before the end of the base backup.
    BackupEndMissing {
        /// Where WAL ends.
        end_lsn: Lsn,
    },
    /// WAL ends where its files do, so that more may have been written.
    WalEndsWithFiles {
        /// Where WAL ends.
        end_lsn: Lsn,
    },
    /// There was no room for all records of the damaged pages.
    NoRoomForRecords,
    /// So many damaged pages were compared with WAL already.
    TooManyDamaged {
        /// The limit.
        limit: usize,
    },
}

impl ReplayFate {
    /// The word for reports and JSON.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// Stable name of the reason, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Healed(reason) => reason.code(),
            Self::RealDamage(damage) => damage.into(),
            Self::Unknown(unknown) => unknown.why.code(),
        }
    }

    /// Its own codes, without those of reasons and doubts.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        let unknown = UnknownReason::VARIANTS.iter().filter(|code| **code != "doubt");
        Damage::VARIANTS.iter().chain(unknown).copied()
    }

    /// Start of the record that replaces, removes or reads the page.
    pub const fn record_lsn(&self) -> Option<Lsn> {
        match self {
            Self::Healed(Reason::OverwrittenInReplay { record, .. })
            | Self::RealDamage(Damage::ReadInReplay(record)) => Some(record.lsn),
            Self::Healed(Reason::RemovedInReplay(event) | Reason::FileMadeAnew(event)) => Some(event.start_lsn),
            _ => None,
        }
    }

    /// File name of the segment of WAL that would tell.
    pub(crate) fn missing_segment(&self) -> Option<&str> {
        match self {
            Self::Unknown(unknown) => unknown.segment.as_deref(),
            Self::Healed(_) | Self::RealDamage(_) => None,
        }
    }
}

impl UnknownReason {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Doubt(doubt) => doubt.code(),
            other => other.into(),
        }
    }
}

/// Parts of the file names of segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentNames<'a> {
    /// The timelines that replay follows, where their history is known.
    pub history: Option<&'a TimelineHistory>,
    /// The timeline without one.
    pub timeline: TimelineId,
    /// Bytes of a segment.
    pub segment_size: u32,
}

impl SegmentNames<'_> {
    /// Name of the segment that holds an address.
    pub(crate) fn holding(&self, lsn: Lsn) -> Option<String> {
        let of = |tli| WalSegment::holding(tli, lsn, self.segment_size);
        let number = of(self.timeline)?.number;
        let known = self.history.and_then(|history| history.candidates(number, self.segment_size).first().copied());
        of(known.unwrap_or(self.timeline))?.file_name(self.segment_size)
    }
}

/// WAL from the redo point to its end, as evidence on damaged pages.
#[derive(Debug)]
pub(crate) struct FateEvidence<'a> {
    replay: &'a Replay,
    history: &'a WalHistory,
    nothing_known: Option<FateUnknown>,
    /// Why a page may still be replaced by WAL after the end.
    open_end: Option<FateUnknown>,
}

impl<'a> FateEvidence<'a> {
    /// Weighs how far the evidence reaches. `replay` was [read to its end](Replay::read_to_end) into `history`, and knows
    /// what else is doubtful: that a server may be running, that a page has an LSN past the end of WAL.
    pub fn new(replay: &'a Replay, history: &'a WalHistory, names: &SegmentNames<'_>) -> Self {
        Self { replay, history, nothing_known: nothing_known(replay, names), open_end: open_end(replay, names) }
    }

    /// Why replay cannot be followed at all; `None` when it can, or when no recovery runs.
    pub(crate) const fn nothing_known(&self) -> Option<&FateUnknown> {
        self.nothing_known.as_ref()
    }

    /// Fate of a damaged page. `events`: the records that touch it.
    pub fn judge(&self, subject: &PageFacts, events: &[BlockEvent]) -> ReplayFate {
        if let Some(unknown) = &self.nothing_known {
            return ReplayFate::Unknown(unknown.clone());
        }
        let (replay, history) = (self.replay, self.history);
        let Some(redo_lsn) = replay.redo_lsn.filter(|_| replay.recovery.replays()) else {
            return ReplayFate::RealDamage(Damage::NothingReplays);
        };
        let evidence = CandidateEvidence {
            replay,
            history,
            events,
            lowest_wal_lsn: Lsn::INVALID,
            disk_lsn: None,
            dwb_doubts: &[],
        };
        let judged = judge_page(subject, Vec::new(), &evidence);
        if let OnStart::Dies { lsn, record, .. } = judged.on_start {
            return ReplayFate::RealDamage(Damage::ReadInReplay(NamedRecord { name: record, lsn }));
        }
        if judged.verdict.needs_nothing()
            && let Some(reason) = judged.reasons.into_iter().next()
        {
            return ReplayFate::Healed(reason);
        }
        let first = events.iter().find(|event| event.start_lsn >= redo_lsn && event.reads());
        if let Some(event) = first {
            let record = NamedRecord { name: event.name(history.major), lsn: event.start_lsn };
            return ReplayFate::RealDamage(Damage::ReadInReplay(record));
        }
        if let Some(unknown) = &self.open_end {
            return ReplayFate::Unknown(unknown.clone());
        }
        match replay.end_lsn.filter(|end_lsn| history.covers(redo_lsn, *end_lsn)) {
            Some(end_lsn) => ReplayFate::RealDamage(Damage::NotInReplay { redo_lsn, end_lsn }),
            None => ReplayFate::Unknown(FateUnknown { why: UnknownReason::NoRoomForRecords, segment: None }),
        }
    }
}

fn nothing_known(replay: &Replay, names: &SegmentNames<'_>) -> Option<FateUnknown> {
    let unknown = |doubt: &Doubt, lsn: Option<Lsn>| FateUnknown {
        why: UnknownReason::Doubt(doubt.clone()),
        segment: lsn.and_then(|lsn| names.holding(lsn)),
    };
    let of_cluster = |doubt: &&Doubt| {
        matches!(
            doubt,
            Doubt::MayBeRunning
                | Doubt::BrokenOff
                | Doubt::ControlNotTrusted
                | Doubt::ControlOfUnknownVersion { .. }
                | Doubt::ControlOfOtherByteOrder
                | Doubt::BackupLabelUnreadable
                | Doubt::LayoutNotSeen
        )
    };
    if let Some(doubt) = replay.doubts.iter().find(of_cluster) {
        return Some(unknown(doubt, None));
    }
    let can_tell = match replay.recovery {
        Recovery::None | Recovery::AfterReset => true,
        Recovery::Unknown => false,
        Recovery::Crash | Recovery::Archive | Recovery::Backup => replay.can_begin,
    };
    if can_tell {
        return None;
    }
    let redo_lsn = replay.redo_lsn;
    let of_begin = replay.doubts.iter().find_map(|doubt| match doubt {
        Doubt::NoWal | Doubt::NoWalAtRedo { .. } | Doubt::NoRecordAtRedo { .. } => Some(unknown(doubt, redo_lsn)),
        Doubt::WalOfUnknownVersion { .. }
        | Doubt::WalDenied { .. }
        | Doubt::WalUnreadable { .. }
        | Doubt::NotTheCheckpoint { .. } => Some(unknown(doubt, None)),
        Doubt::EndsBeforeCheckpoint { .. } => Some(unknown(doubt, replay.broken_at)),
        Doubt::NotTheCheckpointOfTheLabel => {
            // WAL may just not reach that far.
            let checkpoint_lsn = replay.backup.as_ref().and_then(|backup| backup.checkpoint_lsn);
            Some(unknown(doubt, replay.broken_at.filter(|at| checkpoint_lsn.is_some_and(|lsn| lsn >= *at))))
        }
        _ => None,
    });
    // A label without a redo point is as good as unreadable.
    Some(of_begin.unwrap_or_else(|| unknown(&Doubt::BackupLabelUnreadable, None)))
}

/// Why a page that no record replaces may still be replaced by WAL that was not read.
fn open_end(replay: &Replay, names: &SegmentNames<'_>) -> Option<FateUnknown> {
    let segment = || replay.broken_at.and_then(|at| names.holding(at));
    let is_reached = |backup: &Backup| matches!(backup.end, BackupEnd::Reached { .. });
    match &replay.backup {
        // From there on the cluster is consistent: what replaces the page later comes too late.
        Some(backup) if is_reached(backup) => {
            let past_end = replay.doubts.iter().find(|doubt| matches!(doubt, Doubt::PageAfterEnd { .. }));
            return past_end.map(|doubt| FateUnknown { why: UnknownReason::Doubt(doubt.clone()), segment: segment() });
        }
        Some(backup) if backup.end_is_required => {
            let why = UnknownReason::BackupEndMissing { end_lsn: replay.end_lsn.unwrap_or_default() };
            return Some(FateUnknown { why, segment: segment() });
        }
        _ => {}
    }
    let of_end = |doubt: &&Doubt| {
        matches!(
            doubt,
            Doubt::WalUnreadable { .. }
                | Doubt::WalEndUnreadable { .. }
                | Doubt::WalBrokenOff
                | Doubt::WalOfUnknownVersion { .. }
                | Doubt::WalDenied { .. }
                | Doubt::RecordsFollow { .. }
                | Doubt::HoleAtEnd { .. }
                | Doubt::WalChanging { .. }
                | Doubt::BeforeKnownEnd { .. }
                | Doubt::SegmentMissing { .. }
                | Doubt::EndMissing { .. }
                | Doubt::EndCutOff { .. }
                | Doubt::EndsBeforeConsistency { .. }
                | Doubt::BackupEndNotReached
                | Doubt::PageAfterEnd { .. }
        )
    };
    let why = match replay.doubts.iter().find(of_end) {
        Some(doubt) => UnknownReason::Doubt(doubt.clone()),
        // A server writes into files that are there: where there are no more, some may be missing.
        None if replay.ends_with_files => {
            UnknownReason::WalEndsWithFiles { end_lsn: replay.end_lsn.unwrap_or_default() }
        }
        None => return None,
    };
    Some(FateUnknown { why, segment: segment() })
}
