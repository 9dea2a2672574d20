//! Age of each slot of a double write buffer: whether it was written after the last completed checkpoint, and why.
//! Each kind of buffer has its own method: see [`super::format`].

use strum::IntoStaticStr;

use super::format::{
    BatchPart, DwbFormat, FORMATS, HeldSlot, Horizon, RingInput, RingJudgement, RingSummary, StartWrites,
};
use super::trace::{ClusterFacts, FileTrace, SlotClass};
use crate::analysis::skipped::Coverage;
use crate::analysis::start::doubt::Doubt;
use crate::cluster::dwb_files::{DwbFile, DwbSet};
use crate::cluster::page_source::PageSource;
use crate::parsers::control::DbState;
use crate::report::Finding;
use crate::types::Lsn;

/// Answer for one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum BatchVerdict {
    /// Written since the last completed checkpoint.
    Current,
    /// Unknown; to be treated like a stale one.
    Undecided,
    /// Left over from before it.
    Stale,
}

impl BatchVerdict {
    /// The word for reports and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Why a slot got its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BatchReason {
    /// Its LSN is higher than that of the last checkpoint.
    NewerThanCheckpoint,
    /// Its position lies below slots whose LSN does.
    BelowNewer,
    /// Written after a slot whose LSN is newer, in a layout that never starts over.
    AfterNewer,
    /// Its LSN is higher than that of the last checkpoint, but it stands apart: it may have been written just before the reset.
    PossibleWindow,
    /// Nothing shows it.
    NoEvidence,
    /// The slot's CRC is wrong, so its LSN proves nothing.
    Unreliable,
    /// Neither a file header nor `pg_control` gives the last checkpoint.
    NoCheckpointKnown,
    /// The file header is newer than `pg_control`: the two do not belong together.
    ForeignControl,
    /// On a standby images newer than the restartpoint may come from before it.
    Standby,
    /// A restored backup: its buffer was copied from a server that continued to write.
    Backup,
    /// `pg_resetwal` wrote the control file: what it says of the last checkpoint is not what the server left.
    WalWasReset,
    /// Only a file header gives the last checkpoint: a later one may have passed the buffer by.
    HeaderOnly,
    /// The header of its file is one reset older than the newest: the reset may have been cut off.
    HeaderOneResetOld,
    /// The cluster was shut down cleanly: every page reached its data file.
    ShutDown,
    /// Its `slot_id` belongs to another number of slots.
    OtherGeometry,
    /// Its file has not taken part in the newest resets.
    FileNotInUse,
    /// Its number in the sequence belongs to an earlier round: a later one has passed its position.
    EarlierRound,
    /// A reason that only one kind of buffer has.
    OfFormat {
        /// Stable name for programs.
        code: &'static str,
        /// How sure the answer is.
        confidence: Confidence,
    },
}

impl BatchReason {
    /// Stable name for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewerThanCheckpoint => "newer_than_checkpoint",
            Self::BelowNewer => "below_newer",
            Self::AfterNewer => "after_newer",
            Self::PossibleWindow => "possible_window",
            Self::NoEvidence => "no_evidence",
            Self::Unreliable => "unreliable",
            Self::NoCheckpointKnown => "no_checkpoint_known",
            Self::ForeignControl => "foreign_control",
            Self::Standby => "standby",
            Self::Backup => "backup",
            Self::WalWasReset => "wal_was_reset",
            Self::HeaderOnly => "header_only",
            Self::HeaderOneResetOld => "header_one_behind",
            Self::ShutDown => "shut_down",
            Self::OtherGeometry => "other_geometry",
            Self::FileNotInUse => "file_not_in_use",
            Self::EarlierRound => "earlier_round",
            Self::OfFormat { code, .. } => code,
        }
    }

    pub(crate) const fn confidence(self) -> Confidence {
        match self {
            Self::OfFormat { confidence, .. } => confidence,
            Self::OtherGeometry | Self::EarlierRound => Confidence::Proven,
            Self::NewerThanCheckpoint | Self::BelowNewer | Self::AfterNewer | Self::FileNotInUse | Self::ShutDown => {
                Confidence::Likely
            }
            _ => Confidence::Possible,
        }
    }
}

/// How sure a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Confidence {
    /// Not excluded.
    Possible,
    /// Very probable, not proven.
    Likely,
    /// Follows from the bytes.
    Proven,
}

impl Confidence {
    /// The word for reports and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Facts from `pg_control` with a valid CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlFacts {
    /// State of the cluster.
    pub state: DbState,
    /// Where replay starts.
    pub redo_lsn: Lsn,
    /// First byte after the latest completed checkpoint record: what a reset writes into the file headers.
    pub checkpoint_end_lsn: Lsn,
    /// A standby or a backup being restored: resets follow restartpoints there.
    pub in_archive_recovery: bool,
    /// There is a `backup_label`: the files were copied while a server was writing.
    pub is_backup: bool,
    /// The control file carries the traces of `pg_resetwal`.
    pub wal_was_reset: bool,
}

/// Judgement of all slots of a set of files: of each kind of buffer by its own rules.
#[derive(Debug)]
pub struct Staleness {
    rings: Vec<JudgedRing>,
    /// For each file of the set: index of its ring, and its index within that.
    files: Vec<Option<(usize, usize)>>,
    classes: Vec<Vec<SlotClass>>,
}

#[derive(Debug)]
struct JudgedRing {
    /// Index of each of its files in the set.
    files: Vec<usize>,
    judgement: Box<dyn RingJudgement>,
}

impl Staleness {
    /// Judges a set of files, by what their bytes and `pg_control` say; configuration files prove nothing. `traces` are of
    /// the files of the set, in its order.
    pub fn judge(set: &DwbSet, traces: Vec<FileTrace>, facts: &ClusterFacts) -> Self {
        let classes = traces.iter().map(|trace| trace.slots.iter().map(|slot| slot.class).collect()).collect();
        let mut traces: Vec<Option<FileTrace>> = traces.into_iter().map(Some).collect();
        let mut judged = Self { rings: Vec::new(), files: vec![None; traces.len()], classes };
        let is_kept = |format: &&dyn DwbFormat| {
            let name = format.directory().name();
            set.files.iter().any(|file| file.directory.name() == name)
                || set.controls.iter().any(|part| part.directory.name() == name)
        };
        let kept: Vec<&dyn DwbFormat> = FORMATS.into_iter().filter(is_kept).collect();
        // Without any buffer, the boundary that its slots would be judged by is still known.
        let is_unread = !set.skipped.is_empty();
        for format in if kept.is_empty() { FORMATS.get(..1).unwrap_or_default().to_vec() } else { kept } {
            let name = format.directory().name();
            let control = set.controls.iter().find(|part| part.directory.name() == name);
            let is_own = |(_, file): &(usize, &DwbFile)| file.directory.name() == name;
            let (own, files): (Vec<usize>, Vec<&DwbFile>) = set.files.iter().enumerate().filter(is_own).unzip();
            let ring = judged.rings.len();
            for (index, file) in own.iter().enumerate() {
                if let Some(known) = judged.files.get_mut(*file) {
                    *known = Some((ring, index));
                }
            }
            let own_traces = own.iter().filter_map(|file| traces.get_mut(*file).and_then(Option::take)).collect();
            let judgement = format.judge(RingInput { files: &files, traces: own_traces, control, is_unread, facts });
            judged.rings.push(JudgedRing { files: own, judgement });
        }
        judged
    }

    /// Answer for slot `index` of the file at `file` in the set; `None` for an empty slot.
    pub fn verdict(&self, file: usize, index: u64) -> Option<(BatchVerdict, BatchReason)> {
        match self.classes.get(file)?.get(usize::try_from(index).ok()?)? {
            SlotClass::Empty => None,
            SlotClass::Unreliable => Some((BatchVerdict::Undecided, BatchReason::Unreliable)),
            SlotClass::Usable => {
                let (ring, own) = (*self.files.get(file)?)?;
                self.rings.get(ring)?.judgement.verdict(own, index)
            }
        }
    }

    /// Part of the slots with one verdict that each slot of each file belongs to. Parts of different buffers differ.
    pub fn split(&self) -> Vec<Vec<BatchPart>> {
        let mut parts = vec![Vec::new(); self.files.len()];
        let mut first = 0_usize;
        for ring in &self.rings {
            let split = ring.judgement.split();
            let last = split.iter().flatten().map(|part| part.number).max().unwrap_or_default();
            for (file, own) in ring.files.iter().zip(split) {
                let moved = |part: BatchPart| BatchPart { number: part.number.saturating_add(first), ..part };
                if let Some(known) = parts.get_mut(*file) {
                    *known = own.into_iter().map(moved).collect();
                }
            }
            first = first.saturating_add(last).saturating_add(1);
        }
        parts
    }

    /// The line between before and after the last completed checkpoint, if there is one.
    pub(crate) fn horizon(&self) -> Option<Horizon> {
        self.rings.iter().find_map(|ring| ring.judgement.horizon())
    }

    /// Doubts about every image of the double write buffer.
    pub fn doubts(&self) -> Vec<Doubt> {
        self.rings.iter().flat_map(|ring| ring.judgement.doubts()).collect()
    }

    /// The slot that startup chooses for a page, among all slots with the page: its index in `held`. `None` also when
    /// slots of several buffers hold it: no server reads more than one.
    pub(crate) fn server_choice(&self, held: &[HeldSlot]) -> Option<usize> {
        let own = |slot: &HeldSlot| self.files.get(slot.file).copied().flatten();
        let (ring, _) = own(held.first()?)?;
        let local = |slot: &HeldSlot| {
            let (_, file) = own(slot).filter(|(other, _)| *other == ring)?;
            Some(HeldSlot { file, ..*slot })
        };
        let held: Vec<HeldSlot> = held.iter().map(local).collect::<Option<_>>()?;
        self.rings.get(ring)?.judgement.server_choice(&held)
    }

    /// A server that starts in mode `double_writes` writes images over every page that fails its checks, before it replays anything.
    pub(crate) fn applies_first(&self) -> bool {
        self.rings.iter().any(|ring| ring.judgement.applies_first())
    }

    /// True for a file of a buffer of which so few files are unfinished that a crash can have left them so.
    pub(crate) fn is_unfinished(&self, file: usize) -> bool {
        self.rings.iter().any(|ring| ring.files.contains(&file) && ring.judgement.is_unfinished())
    }

    /// A server does not start because of a buffer, in mode `double_writes` or another.
    pub(crate) fn fails_at_start(&self, double_writes: bool) -> bool {
        self.rings.iter().any(|ring| ring.judgement.fails_at_start(double_writes))
    }

    /// Findings about the buffers as a whole.
    pub fn findings(&self, set: &DwbSet, facts: &ClusterFacts) -> Vec<Finding> {
        let of = |ring: &JudgedRing| {
            let files: Vec<&DwbFile> = ring.files.iter().filter_map(|file| set.files.get(*file)).collect();
            ring.judgement.findings(&files, facts)
        };
        self.rings.iter().flat_map(of).collect()
    }

    /// Writes of startup into data files before recovery; see `RingJudgement::start_writes`.
    pub fn start_writes(&self, pages: &dyn PageSource, page_bytes: usize, coverage: &mut Coverage) -> Vec<StartWrites> {
        self.rings.iter().map(|ring| ring.judgement.start_writes(pages, page_bytes, coverage)).collect()
    }

    /// Facts about each buffer as a whole that its files do not show one by one.
    pub fn summaries(&self) -> Vec<RingSummary> {
        self.rings.iter().filter_map(|ring| ring.judgement.summary()).collect()
    }
}
