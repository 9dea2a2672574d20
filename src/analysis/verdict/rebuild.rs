//! Whether a page can be rebuilt by replay of its records from an older copy of it, and from which. Pure evidence: nothing
//! is started, and nothing is written.

use strum::{IntoStaticStr, VariantNames};

use super::candidate::{Candidate, ImageSource, Judged};
use super::evidence::{EvidenceStep, Statement, Weight};
use crate::analysis::changes::events::{BlockEvent, FileEvent, Touch};
use crate::analysis::changes::history::WalHistory;
use crate::analysis::changes::page_chain::{InnerLsn, PossibleLsns, broken_at};
use crate::analysis::error_words::ErrorWords;
use crate::analysis::start::missing_wal::{MissingSegments, WalNames};
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::parsers::wal::names::{RmgrName, rmgr_name};
use crate::types::{ForkNumber, Lsn, PageId};

/// Base of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RebuildBase {
    /// A full-page image in WAL.
    Image {
        /// Start of its record.
        record_lsn: Lsn,
    },
    /// A record that builds the page without reading it.
    Init {
        /// Start of the record.
        record_lsn: Lsn,
    },
    /// A page of zeros: the visibility map did not reach this page then, and servers begin each page of it so.
    Empty {
        /// When that was.
        from: Lsn,
    },
    /// A copy of the page.
    Candidate {
        /// Index among the candidates.
        index: usize,
        /// Where the copy is.
        source: ImageSource,
        /// Its LSN.
        page_lsn: Lsn,
    },
}

impl RebuildBase {
    /// The word for JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Image { .. } => "image",
            Self::Init { .. } => "record",
            Self::Empty { .. } => "empty",
            Self::Candidate { source, .. } => source.name(),
        }
    }

    /// Start of its record, or the LSN of the copy.
    pub const fn lsn(&self) -> Lsn {
        match self {
            Self::Image { record_lsn } | Self::Init { record_lsn } => *record_lsn,
            Self::Empty { from } => *from,
            Self::Candidate { page_lsn, .. } => *page_lsn,
        }
    }
}

/// How a page can be built: each of these records is replayed on the base, and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuildPlan {
    /// The base.
    pub base: RebuildBase,
    /// Records that start at or after this ...
    pub from: Lsn,
    /// ... and end at or before this are replayed.
    pub until: Lsn,
    /// How many of them name the page.
    pub records: u64,
    /// Start of the first of these.
    pub first_lsn: Option<Lsn>,
    /// Start of the last.
    pub last_lsn: Option<Lsn>,
    /// LSNs that the page can have then: that of the last record that sets it. Not all records do, with all settings.
    pub lsns: PossibleLsns,
}

impl RebuildPlan {
    /// The newest LSN that the page can have then.
    pub(crate) fn expected_lsn(&self) -> Option<Lsn> {
        self.lsns.newest()
    }
}

/// Why a page cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NotRebuildable {
    /// Up to where the page would have to be built is unknown: the redo point is, or WAL there cannot be read.
    TargetUnknown,
    /// Some WAL between the base and the end is missing.
    MissingWal {
        /// The base that it would have been.
        base_lsn: Lsn,
        /// The segments.
        segments: MissingSegments,
    },
    /// All segments are there, and not all records could be read, or understood.
    UnreadableWal {
        /// Where it ends early.
        at: Lsn,
    },
    /// There are more records than are kept.
    TooManyRecords {
        /// The first for which there was no room.
        at: Lsn,
    },
    /// There is no older copy of the page: neither an image nor a record that builds it, nor a copy elsewhere.
    NoBase {
        /// WAL was examined from here on.
        wal_from: Lsn,
        /// The segment before that.
        before: Option<String>,
        /// Segments that are missing among those that were examined.
        segments: MissingSegments,
    },
    /// The page came with a copy of a whole database, of which WAL has no more than that.
    FileCopied {
        /// The record that says so.
        record_lsn: Lsn,
    },
    /// The page was recreated or removed after every copy of it.
    RemovedSince(FileEvent),
    /// Changes of the relation are not logged.
    NotLogged,
    /// The server wrote less into WAL than is needed (`wal_level` minimal).
    MinimalWal,
    /// A map page: the server recreates it from the table.
    PageOfMap {
        /// Which map.
        fork: ForkNumber,
    },
    /// The file ends before the page: there is nothing that could be overwritten.
    PageCutOff,
    /// An image shows that a record before it is not among those that were read.
    InnerLsnDiffers(InnerLsn),
    /// A record of the page belongs to an extension, which the server that replays would need too.
    ForeignRecord {
        /// Start of the record.
        record_lsn: Lsn,
        /// Id of its resource manager.
        rmgr_id: u8,
    },
    /// The page on disk is newer than all records of it that were read.
    DiskNewer {
        /// LSN on disk.
        disk_lsn: Lsn,
        /// The newest that the built page could have.
        newest: Lsn,
    },
}

impl NotRebuildable {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// The codes of all reasons that there can be.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        Self::VARIANTS.iter().copied()
    }

    /// Segments of WAL that would help.
    pub const fn segments(&self) -> Option<&MissingSegments> {
        match self {
            Self::MissingWal { segments, .. } | Self::NoBase { segments, .. } => Some(segments),
            _ => None,
        }
    }
}

/// Why a page that could be built was not.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum BuildFailure {
    /// There is no server program to replay with.
    NoServerProgram {
        /// The reason.
        why: ErrorWords,
    },
    /// Nothing could be replayed.
    ReplayFailed {
        /// Why not.
        why: ErrorWords,
    },
    /// The base, or what is on disk, could not be read again.
    BaseUnreadable {
        /// Why not.
        why: ErrorWords,
    },
    /// Replay built other pages, not this one.
    PageNotBuilt {
        /// Why not.
        why: ErrorWords,
    },
}

impl BuildFailure {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }

    /// The codes of all failures that there can be.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        Self::VARIANTS.iter().copied()
    }

    /// It kept every page from being built: the server program or the sandbox is missing, or the replay ended early.
    pub(crate) const fn is_of_all(&self) -> bool {
        matches!(self, Self::NoServerProgram { .. } | Self::ReplayFailed { .. })
    }

    /// The failure.
    pub const fn why(&self) -> &ErrorWords {
        match self {
            Self::NoServerProgram { why }
            | Self::ReplayFailed { why }
            | Self::BaseUnreadable { why }
            | Self::PageNotBuilt { why } => why,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RebuildEvidence<'a> {
    pub candidates: &'a [Judged],
    pub events: &'a [BlockEvent],
    pub history: &'a WalHistory,
    pub names: &'a WalNames,
    /// LSN of the page on disk, where its header makes sense.
    pub disk_lsn: Option<Lsn>,
    /// For a visibility map page: points where the map certainly did not reach it ([`empty_since`]).
    pub empty_at: &'a [Lsn],
}

/// When a page of a visibility map is known not to have been there: when the relation was made, and at the redo points of
/// those copies of the cluster, given with the address of their checkpoints, that do not have it. For other pages nothing is
/// known that way: their first record builds them.
pub(crate) fn empty_since(page: PageId, history: &WalHistory, copies_without: &[(Lsn, Lsn)]) -> Vec<Lsn> {
    if page.fork != ForkNumber::Vm {
        return Vec::new();
    }
    let proven = copies_without.iter().filter(|(redo, checkpoint)| history.has_checkpoint(*checkpoint, *redo));
    proven.map(|(redo, _)| *redo).chain(history.created(page.rel)).collect()
}

/// A copy of the page that could be the base.
struct Base {
    base: RebuildBase,
    from: Lsn,
    /// Changes of its file that end after this spoil it.
    copied_at: Lsn,
    /// The LSN that it has before anything is replayed.
    lsn: Option<Lsn>,
}

/// Whether the page can be built as it was at `until`, and how. Call it before the candidates are weighed by what is
/// doubtful about the whole cluster: that weighs on the built page.
pub(crate) fn plan_rebuild(
    page: PageId,
    evidence: &RebuildEvidence<'_>,
    until: Lsn,
) -> Result<RebuildPlan, NotRebuildable> {
    if page.fork == ForkNumber::Fsm {
        return Err(NotRebuildable::PageOfMap { fork: page.fork });
    }
    let mut bases = bases(evidence, until);
    // Records before copies, which have more to be believed; of each the newest first.
    bases.sort_by_key(|base| (base.lsn.is_some(), std::cmp::Reverse(base.from)));
    let mut refused: Option<(Lsn, NotRebuildable)> = None;
    for base in &bases {
        match plan_from(page, base, evidence, until) {
            Ok(plan) => return Ok(plan),
            Err(why) if refused.as_ref().is_none_or(|(from, _)| *from < base.from) => {
                refused = Some((base.from, why));
            }
            Err(_) => {}
        }
    }
    Err(refused.map_or_else(|| without_base(page, evidence, until), |(_, why)| why))
}

/// Every copy of the page that is whole.
fn bases(evidence: &RebuildEvidence<'_>, until: Lsn) -> Vec<Base> {
    let records = evidence.events.iter().filter(|event| event.heals() && event.end_lsn <= until);
    let of_record = |event: &BlockEvent| {
        let record_lsn = event.start_lsn;
        let is_image = matches!(event.touch, Touch::Image { .. });
        Base {
            base: if is_image { RebuildBase::Image { record_lsn } } else { RebuildBase::Init { record_lsn } },
            from: record_lsn,
            copied_at: record_lsn,
            lsn: None,
        }
    };
    let copies = evidence.candidates.iter().enumerate().filter(|(_, judged)| is_sound(judged));
    let of_copy = |(index, judged): (usize, &Judged)| {
        let lsn = judged.candidate.page_lsn;
        let from = holds_until(&judged.candidate)?;
        let source = judged.candidate.source.clone();
        let base = RebuildBase::Candidate { index, source, page_lsn: lsn };
        Some(Base { base, from, copied_at: from, lsn: Some(lsn) }).filter(|base| base.from <= until)
    };
    let of_zeros = |from: &Lsn| {
        let from = *from;
        Base { base: RebuildBase::Empty { from }, from, copied_at: from, lsn: None }
    };
    let zeros = evidence.empty_at.iter().filter(|at| **at <= until).map(of_zeros);
    records.map(of_record).chain(zeros).chain(copies.filter_map(of_copy)).collect()
}

/// The LSN before which a copy holds all that was logged; `None` for images in WAL, which are found by their records.
fn holds_until(copy: &Candidate) -> Option<Lsn> {
    match copy.source {
        ImageSource::Dwb { .. } | ImageSource::Donor { .. } => Some(copy.holds_until()),
        ImageSource::Wal { .. } | ImageSource::Rebuilt(_) => None,
    }
}

/// True when the only objection to a copy is that changes came after it.
fn is_sound(judged: &Judged) -> bool {
    let is_of_later = |statement: &Statement| {
        matches!(
            statement,
            Statement::LacksChanges { .. }
                | Statement::WalUntilRedoMissing { .. }
                | Statement::CopiesUnlogged { .. }
                | Statement::WalSinceMissing { .. }
                | Statement::DonorCheckpointMissing { .. }
                | Statement::ImageOfOlderPage(_)
                | Statement::RedoPointUnknown
                | Statement::RedoPointUnreadable { .. }
        )
    };
    let speaks_against = |step: &EvidenceStep| step.weight >= Weight::Missing && !is_of_later(&step.statement);
    !judged.steps.iter().any(speaks_against)
}

fn plan_from(
    page: PageId,
    base: &Base,
    evidence: &RebuildEvidence<'_>,
    until: Lsn,
) -> Result<RebuildPlan, NotRebuildable> {
    let history = evidence.history;
    let since =
        |event: &&FileEvent| event.end_lsn > base.copied_at && event.start_lsn < until && !event.is_replayed_on(page);
    if let Some(removed) = history.file_events(page).filter(since).last() {
        return Err(removed_by(removed));
    }
    if !history.covers(base.from, until) {
        return Err(uncovered(base.from, evidence, until));
    }
    if let Some(checkpoint_lsn) = missing_checkpoint(&base.base, history) {
        return Err(NotRebuildable::UnreadableWal { at: checkpoint_lsn });
    }
    if history.is_minimal_between(base.from, until) || history.may_lack_copies(base.from) {
        return Err(NotRebuildable::MinimalWal);
    }
    if let Some(inner) = broken_chain(page, base.from, evidence, until) {
        return Err(NotRebuildable::InnerLsnDiffers(inner));
    }
    let mut lsns = base.lsn.map_or_else(PossibleLsns::default, PossibleLsns::only);
    let (mut records, mut first_lsn, mut last_lsn) = (0_u64, None, None);
    let replayed = evidence.events.iter().filter(|event| event.start_lsn >= base.from && event.end_lsn <= until);
    // Records that clear bits of a map do not name the page.
    for event in replayed.filter(|event| event.touch != Touch::MapBits) {
        if !matches!(rmgr_name(event.record.rmgr_id), RmgrName::BuiltIn(_)) {
            return Err(NotRebuildable::ForeignRecord { record_lsn: event.start_lsn, rmgr_id: event.record.rmgr_id });
        }
        lsns.pass(event, history.major);
        records = records.saturating_add(1);
        first_lsn = first_lsn.or(Some(event.start_lsn));
        last_lsn = Some(event.start_lsn);
    }
    if records == 0 && matches!(base.base, RebuildBase::Empty { .. }) {
        return Err(without_base(page, evidence, until));
    }
    let newest = lsns.newest().unwrap_or_default();
    if let Some(disk_lsn) = evidence.disk_lsn.filter(|disk| *disk <= until && *disk > newest) {
        return Err(NotRebuildable::DiskNewer { disk_lsn, newest });
    }
    Ok(RebuildPlan { base: base.base.clone(), from: base.from, until, records, first_lsn, last_lsn, lsns })
}

/// The checkpoint that shows what a donor holds, where WAL does not have it.
fn missing_checkpoint(base: &RebuildBase, history: &WalHistory) -> Option<Lsn> {
    let RebuildBase::Candidate {
        source: ImageSource::Donor { redo_lsn, checkpoint_lsn, control_checkpoint, .. },
        page_lsn,
        ..
    } = base
    else {
        return None;
    };
    let (control_lsn, copy) = &**control_checkpoint;
    if history.contradicts_checkpoint(*control_lsn, copy) {
        return Some(*control_lsn);
    }
    (page_lsn < redo_lsn && !history.has_checkpoint(*checkpoint_lsn, *redo_lsn)).then_some(*checkpoint_lsn)
}

fn removed_by(event: &FileEvent) -> NotRebuildable {
    match event.what {
        LifeCycle::DatabaseCreated { .. } => NotRebuildable::FileCopied { record_lsn: event.start_lsn },
        _ => NotRebuildable::RemovedSince(event.clone()),
    }
}

/// Why not all records between two addresses are known.
fn uncovered(from: Lsn, evidence: &RebuildEvidence<'_>, until: Lsn) -> NotRebuildable {
    let history = evidence.history;
    let known = history.stretches().iter().find(|stretch| stretch.start <= from && from <= stretch.end);
    let at = known.map_or(from, |stretch| stretch.end);
    if let Some(full_from) = history.full_from().filter(|full| *full <= until) {
        return NotRebuildable::TooManyRecords { at: full_from };
    }
    let segments = evidence.names.missing(from, until);
    match segments.is_empty() {
        true => NotRebuildable::UnreadableWal { at },
        false => NotRebuildable::MissingWal { base_lsn: from, segments },
    }
}

fn without_base(page: PageId, evidence: &RebuildEvidence<'_>, until: Lsn) -> NotRebuildable {
    let history = evidence.history;
    if let Some(event) = history.file_events(page).filter(|event| event.start_lsn < until).last() {
        let is_known = history.covers(event.start_lsn, until);
        return if is_known { removed_by(event) } else { uncovered(event.start_lsn, evidence, until) };
    }
    if let Some(at) = history.full_from().filter(|full| *full <= until) {
        return NotRebuildable::TooManyRecords { at };
    }
    let wal_from = history.stretches().first().map_or(until, |stretch| stretch.start);
    let segments = evidence.names.missing(wal_from, until);
    NotRebuildable::NoBase { wal_from, before: evidence.names.before(wal_from), segments }
}

/// The first image of the page that shows a record to be missing, in the stretch of WAL that holds all from `from` to
/// `until`.
fn broken_chain(page: PageId, from: Lsn, evidence: &RebuildEvidence<'_>, until: Lsn) -> Option<InnerLsn> {
    let history = evidence.history;
    let holds = |lsn: Lsn| history.covers(lsn, from) && history.covers(lsn, until);
    let events = evidence.events.iter().filter(|event| event.end_lsn <= until && holds(event.start_lsn));
    let is_new = |after: Lsn, before: Lsn| {
        history.file_events(page).any(|event| after < event.start_lsn && event.start_lsn < before)
    };
    broken_at(events, history.major, &is_new)
}
