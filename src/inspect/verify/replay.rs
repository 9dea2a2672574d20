//! Fate in recovery of the damaged pages that a scan found.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{WatchBytes, rules};
use crate::analysis::changes::history::{Interest, WalHistory};
use crate::analysis::changes::provable::{PageHeads, WalBounds, WalPages};
use crate::analysis::error_words::ErrorWords;
use crate::analysis::pages::page_check::PageDamage;
use crate::analysis::pages::page_scan::PageCounts;
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::analysis::start::backup::{Backup, BackupEnd};
use crate::analysis::start::doubt::{Doubt, LsnWitness};
use crate::analysis::start::replay::{Recovery, Replay, run_of};
use crate::analysis::start::server_files::ServerFiles;
use crate::analysis::verdict::fate::{FateEvidence, FateUnknown, ReplayFate, SegmentNames, UnknownReason};
use crate::analysis::verdict::judge::PageFacts;
use crate::analysis::wal::segment::WatchRead;
use crate::analysis::wal::unreadable::{NeededWal, note_set};
use crate::cluster::backup_files::RecoverySigns;
use crate::cluster::control_file::ControlRead;
use crate::cluster::wal::{DeniedFile, UnknownVersionSegment, WalSet, WalSetError, WalSetOptions};
use crate::inspect::cluster_wal::refuse_without_wal;
use crate::inspect::error::InspectError;
use crate::parsers::control::{ControlFile, WAL_LEVEL_MINIMAL};
use crate::parsers::page::PageHeader;
use crate::repair::export::scratch_file;
use crate::report::{Finding, Severity};
use crate::types::{Lsn, PageId};

/// Damaged pages that are compared with WAL. The fate of the others is unknown.
pub(super) const MAX_DAMAGED: usize = 1 << 20;

/// Fates of the damaged pages, in figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Kind of recovery at startup.
    pub recovery: Recovery,
    /// Where replay begins; on a clean shutdown the last checkpoint.
    pub redo_lsn: Option<Lsn>,
    /// Where WAL ends, as far as it was read.
    pub end_lsn: Option<Lsn>,
    /// For a base backup: whether WAL reaches its end.
    pub backup_end: Option<BackupEnd>,
    /// Damaged and partial pages that nobody has to act about.
    pub healed: u64,
    /// Those that stay damaged.
    pub real_damage: u64,
    /// Those of which that is unknown.
    pub unknown: u64,
}

/// A damaged page that waits for what WAL says of it.
#[derive(Debug)]
pub(super) struct HeldPage {
    pub(super) file: usize,
    pub(super) page: PageId,
    pub(super) offset: u64,
    pub(super) damage: PageDamage,
    /// Bytes that are there of a page that the file ends inside of.
    pub(super) have_bytes: Option<usize>,
    /// LSN in its header, where the header makes sense.
    pub(super) lsn: Option<Lsn>,
    pub(super) is_zero: bool,
    pub(super) is_unlogged: bool,
}

pub(super) struct ReplayWal {
    set: Option<WalSet>,
    unknown_versions: Vec<UnknownVersionSegment>,
    denied: Vec<DeniedFile>,
}

/// Facts about the cluster before WAL is read.
pub(super) struct ReplayCluster<'a> {
    pub(super) control: &'a ControlRead,
    pub(super) signs: &'a RecoverySigns,
    pub(super) may_be_running: bool,
    /// The newest LSN of a sound page of a logged relation, and which page in which file.
    pub(super) newest: Option<(Lsn, LsnWitness)>,
    pub(super) jobs: usize,
    /// It lies in archives, so that WAL does not come with a data directory.
    pub(super) is_archived: bool,
}

impl ReplayWal {
    /// Opens the WAL in `own`, the data directory or archives of a backup, together with that in `elsewhere`. What is odd
    /// about it goes to `findings` and `coverage`.
    pub(super) fn open(
        own: &[PathBuf],
        elsewhere: &[PathBuf],
        cluster: &ReplayCluster<'_>,
        findings: &mut Vec<Finding>,
        coverage: &mut Coverage,
    ) -> Result<Self, InspectError> {
        refuse_without_wal(elsewhere)?;
        let control = cluster.control.trusted();
        let open = |paths: &[PathBuf], as_server: bool| {
            let mut options = WalSetOptions::new(&scratch_file);
            options.system_identifier = control.map(|control| control.prefix.system_identifier);
            options.timeline = control.map(ControlFile::timeline);
            options.control = control.filter(|_| cluster.is_archived).cloned();
            options.as_server = as_server;
            options.undisputed = !as_server;
            WalSet::open(paths, options)
        };
        // Without WAL from elsewhere a start reads what it finds.
        let opened = match open(own, elsewhere.is_empty() && !cluster.is_archived) {
            Ok(set) if elsewhere.is_empty() => Ok(set),
            Err(error @ (WalSetError::NoWal { .. } | WalSetError::Access(_))) if elsewhere.is_empty() => Err(error),
            Ok(_) | Err(WalSetError::NoWal { .. }) => Ok(open(&[own, elsewhere].concat(), false)?),
            Err(error @ WalSetError::Access(_)) => {
                coverage.skip(SkippedPart::PgWal, &error);
                Ok(open(elsewhere, false)?)
            }
            Err(error) => return Err(error.into()),
        };
        let set = match opened {
            Ok(set) => set,
            Err(error) => {
                coverage.skip(SkippedPart::PgWal, &error);
                let (unknown_versions, denied) = match error {
                    WalSetError::NoWal { unknown_versions, denied, .. } => (unknown_versions, denied),
                    WalSetError::Access(error) if error.is_denied() => {
                        (Vec::new(), own.iter().map(|path| DeniedFile::directory(path.join("pg_wal"))).collect())
                    }
                    _ => (Vec::new(), Vec::new()),
                };
                return Ok(Self { set: None, unknown_versions, denied });
            }
        };
        let mut told = Vec::new();
        let needed = NeededWal::by_replay(Replay::of(cluster.control, cluster.signs).redo_lsn);
        note_set(&set, needed, &mut told, coverage);
        // Segments that wait to be written again and the like are in every pg_wal.
        findings.extend(told.into_iter().filter(|finding| finding.severity == Severity::Problem));
        let (unknown_versions, denied) = (set.unknown_versions().to_vec(), set.denied().to_vec());
        Ok(Self { set: Some(set), unknown_versions, denied })
    }

    /// Bytes that are read from the redo point on, about.
    pub(super) fn bytes_from(&self, redo_lsn: Option<Lsn>) -> u64 {
        let Some((set, run)) = self.set.as_ref().zip(redo_lsn).and_then(|(set, lsn)| Some((set, run_of(set, lsn)?)))
        else {
            return 0;
        };
        let size = u64::from(set.geometry().wal_segment_size);
        let from = redo_lsn.unwrap_or_default();
        let is_read = |index: &usize| set.segments()[*index].start_lsn.advanced_by(size) > from;
        run.filter(is_read).count() as u64 * size
    }

    /// Reads WAL from the redo point to its end, and determines the fate of each page. `path_of` returns the path of a file.
    pub(super) fn judge(
        &self,
        cluster: &ReplayCluster<'_>,
        held: &[HeldPage],
        path_of: &dyn Fn(usize) -> String,
        (done_bytes, total_bytes): (u64, u64),
        watch: WatchBytes<'_>,
        coverage: &mut Coverage,
    ) -> Judged {
        let control = cluster.control.trusted();
        let mut replay = Replay::of(cluster.control, cluster.signs);
        if cluster.may_be_running {
            replay.doubts.push(Doubt::MayBeRunning);
        }
        if coverage.is_interrupted() {
            replay.doubts.push(Doubt::BrokenOff);
        }
        let mut interest = Interest::default();
        for page in held {
            interest.add(page.page);
        }
        let mut history = WalHistory::new(&interest);
        let is_wanted = (!held.is_empty() || replay.backup.is_some()) && replay.recovery.replays();
        if is_wanted && !coverage.is_interrupted() {
            let read = AtomicU64::new(0);
            let at = |bytes: u64| {
                let read = read.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
                watch(done_bytes.saturating_add(read).min(total_bytes), total_bytes)
            };
            self.read(&mut replay, control, &mut history, &interest, cluster.jobs, &at, coverage);
        }
        // After a crash even a damaged page may be the only one to show that WAL is missing. A base backup names its end.
        let is_witness = |page: &&HeldPage| !page.is_unlogged && replay.backup.is_none();
        let damaged = held.iter().filter(is_witness).filter_map(|page| {
            Some((page.lsn?, LsnWitness::InFile { path: path_of(page.file), block: page.page.block }))
        });
        let newest = cluster.newest.iter().cloned().chain(damaged).max_by_key(|(lsn, _)| *lsn);
        replay.doubts.extend(newest.and_then(|(lsn, witness)| replay.doubt_of_page(lsn, witness)));
        let label = cluster.signs.backup_label.as_ref().and_then(|label| label.as_ref().ok());
        let names = SegmentNames {
            history: self.set.as_ref().and_then(WalSet::history),
            timeline: self
                .set
                .as_ref()
                .map(WalSet::timeline)
                .or(label.and_then(|label| label.timeline))
                .or(control.map(ControlFile::timeline))
                .unwrap_or_default(),
            segment_size: control.map_or(0, |control| control.geometry.wal_segment_size),
        };
        let evidence = FateEvidence::new(&replay, &history, &names);
        let fates = held.iter().map(|page| {
            let events = interest.index_of(page.page).map_or(&[][..], |index| history.events(index));
            evidence.judge(&page.facts(), events)
        });
        let fates: Vec<ReplayFate> = fates.collect();
        let cannot_begin = evidence.nothing_known().filter(|_| replay.recovery.replays()).cloned();
        Judged { replay, fates, cannot_begin }
    }

    /// Settles which files are missing though WAL from `redo_lsn` on does not remove them; false if WAL is missing, or reading
    /// it was interrupted. `heads`: those of the pages.
    pub(super) fn settle(
        &self,
        files: &mut ServerFiles,
        cluster: &ReplayCluster<'_>,
        (redo_lsn, heads): (Lsn, &PageHeads),
        (watch, total_bytes): (WatchBytes<'_>, u64),
        coverage: &mut Coverage,
    ) -> bool {
        let set = self.set.as_ref().filter(|set| run_of(set, redo_lsn).is_some() && !coverage.is_interrupted());
        let Some(set) = set else { return false };
        let is_minimal = cluster.control.trusted().is_none_or(|control| control.wal_level == WAL_LEVEL_MINIMAL);
        let end_lsn = Lsn(u64::MAX);
        let bounds = WalBounds { redo_lsn: Some(end_lsn), replay_from: Some(redo_lsn), end_lsn, is_minimal };
        let is_broken_off = AtomicBool::new(false);
        let at: WatchRead<'_> = &|_| {
            let flow = watch(total_bytes, total_bytes);
            is_broken_off.fetch_or(flow.is_break(), Ordering::Relaxed);
            flow
        };
        match WalPages::read(set, bounds, heads, cluster.jobs, (SkippedPart::Wal, at), (&mut |_| {}, coverage)) {
            Ok(_) if is_broken_off.load(Ordering::Relaxed) => {
                coverage.skip(SkippedPart::RestOfWal, SkipReason::Interrupted(Lacking::Pages));
                false
            }
            Ok(known) => {
                let before_redo = Lsn(redo_lsn.0.saturating_sub(1));
                let is_removed = |page| known.removes_since(page, before_redo, redo_lsn);
                files.settle(is_removed, |page| known.is_made_in_replay(page));
                true
            }
            Err(error) => {
                coverage.skip_once(SkippedPart::Wal, error);
                false
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "everything that reading WAL needs, one by one")]
    fn read(
        &self,
        replay: &mut Replay,
        control: Option<&ControlFile>,
        history: &mut WalHistory,
        interest: &Interest,
        jobs: usize,
        at: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
        coverage: &mut Coverage,
    ) {
        match &self.set {
            Some(set) => {
                if let Err(error) = replay.read_to_end(set, control, history, interest, jobs, at) {
                    replay.doubts.push(Doubt::WalUnreadable { error: ErrorWords::from(&error) });
                    coverage.skip(SkippedPart::Wal, error);
                }
            }
            None => replay.doubts.push(Doubt::NoWal),
        }
        replay.weigh_left_out(&self.unknown_versions, &self.denied, control);
        if replay.doubts.contains(&Doubt::WalBrokenOff) {
            coverage.skip(SkippedPart::RestOfWal, SkipReason::Interrupted(Lacking::Pages));
        }
    }
}

/// Facts in WAL about the damaged pages.
pub(super) struct Judged {
    pub(super) replay: Replay,
    /// Fates of the pages, in order.
    pub(super) fates: Vec<ReplayFate>,
    /// Why replay cannot be followed from its beginning.
    pub(super) cannot_begin: Option<FateUnknown>,
}

impl Judged {
    /// Problems of a base backup apart from its pages.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let of_backup = self.replay.backup.as_ref().map(Backup::findings).unwrap_or_default();
        let cannot_begin = self.cannot_begin.clone().filter(|_| self.replay.backup.is_some());
        let of_begin = cannot_begin.map(|unknown| rules::REPLAY_CANNOT_BEGIN.problem(unknown.to_string()));
        of_backup.into_iter().chain(of_begin).collect()
    }
}

impl ReplaySummary {
    pub(super) fn of(replay: &Replay) -> Self {
        Self {
            recovery: replay.recovery,
            redo_lsn: replay.redo_lsn,
            end_lsn: replay.end_lsn,
            backup_end: replay.backup.as_ref().map(|backup| backup.end),
            healed: 0,
            real_damage: 0,
            unknown: 0,
        }
    }

    pub(super) const fn add(&mut self, fate: &ReplayFate) {
        let count = match fate {
            ReplayFate::Healed(_) => &mut self.healed,
            ReplayFate::RealDamage(_) => &mut self.real_damage,
            ReplayFate::Unknown(_) => &mut self.unknown,
        };
        *count = count.saturating_add(1);
    }
}

impl HeldPage {
    /// LSN in the header of a damaged page, where the header makes sense.
    pub(super) fn lsn_in(bytes: &[u8]) -> Option<Lsn> {
        let header = PageHeader::decode(0, bytes).ok()?;
        let is_sane = header.faults(bytes.len()).is_empty() && header.oddities(bytes.len()).is_empty();
        is_sane.then_some(header.lsn)
    }

    fn facts(&self) -> PageFacts {
        PageFacts {
            page: self.page,
            is_unlogged: self.is_unlogged,
            server_rejects: self.damage.server_rejects,
            is_cut: self.have_bytes.is_some(),
            has_no_file: false,
            is_zero: self.is_zero,
        }
    }
}

/// Fate of a page beyond the limit.
pub(super) const fn beyond_room() -> ReplayFate {
    let why = UnknownReason::TooManyDamaged { limit: MAX_DAMAGED };
    ReplayFate::Unknown(FateUnknown { why, segment: None })
}

/// Damaged pages of a scan, and what `replay` makes of them where it was followed.
pub(super) fn damaged_pages(
    replay: Option<&ReplaySummary>,
    counts: &PageCounts,
    (is_clean, has_checksums): (bool, bool),
) -> Option<Finding> {
    let pages = counts.pages;
    let Some(&ReplaySummary { healed, real_damage, unknown, .. }) = replay else {
        let least = if has_checksums { "" } else { "at least " };
        let what = format!("{least}{} of {pages} pages {} damaged", counts.damaged, is_or_are(counts.damaged));
        let finding = rules::DAMAGED_PAGES.problem(what);
        return (counts.damaged > 0).then(|| finding.because(if is_clean { NO_REPLAY } else { REPLAY_AHEAD }));
    };
    let count = healed.saturating_add(real_damage).saturating_add(unknown);
    let what = format!(
        "{count} of {pages} pages {} damaged: {healed} fixed by recovery, {real_damage} real damage, {unknown} unknown",
        is_or_are(count)
    );
    let finding = match (real_damage, unknown) {
        (0, 0) => rules::DAMAGED_PAGES.note(what).because(ALL_HEALED),
        (_, 0) => rules::DAMAGED_PAGES.problem(what).because(NOT_ALL_HEALED),
        _ => rules::DAMAGED_PAGES.problem(what).because(HEALING_UNKNOWN),
    };
    (count > 0).then_some(finding)
}

const fn is_or_are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

const NO_REPLAY: &str = "nothing repairs them: no replay will happen";
const REPLAY_AHEAD: &str = "recovery may repair those that changed since the last checkpoint, not the others";
const ALL_HEALED: &str =
    "replay replaces or removes each of them before anything reads it, or the server does not need it";
const NOT_ALL_HEALED: &str = "recovery does not fix all of them: see each page";
const HEALING_UNKNOWN: &str = "WAL does not show whether recovery fixes all of them: see each page";
