//! Prediction of recovery: the redo point, the end of WAL, and reasons that keep it
//! uncertain.

use std::ops::Range;

use strum::IntoStaticStr;

use super::backup::Backup;
use super::doubt::{Doubt, LsnWitness};
use crate::analysis::changes::history::{Interest, WalHistory};
use crate::analysis::error_words::ErrorWords;
use crate::analysis::wal::segment::WatchRead;
use crate::analysis::wal::tail::{Tail, ends_in_last_file, judge_tail};
use crate::analysis::wal::walk::WalkEnd;
use crate::cluster::backup_files::{RecoverySigns, asks_for_recovery};
use crate::cluster::control_file::ControlRead;
use crate::cluster::wal::{DeniedFile, UnknownVersionSegment, WalReadError, WalSegmentFile, WalSet};
use crate::parsers::control::ControlFile;
use crate::parsers::wal::end::{EndOfWal, EndReason};
use crate::parsers::wal::version::UnknownMagic;
use crate::types::Lsn;

/// Kind of recovery that a start will bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Recovery {
    /// The cluster was shut down cleanly: none.
    None,
    /// Replay of WAL from the last checkpoint's redo point to the end.
    Crash,
    /// A standby, or archive recovery that was cut off: replay from the restartpoint on, of WAL that may still come.
    Archive,
    /// A base backup: replay from where `backup_label` says.
    Backup,
    /// `pg_resetwal` was run: no recovery, and its changes are lost.
    AfterReset,
    /// Not known: `pg_control` cannot be trusted, or `backup_label` not be read.
    Unknown,
}

impl Recovery {
    /// The word for reports and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// True when WAL will be replayed, and with it unlogged relations be reset.
    pub const fn replays(self) -> bool {
        matches!(self, Self::Crash | Self::Archive | Self::Backup)
    }
}

/// Where replay begins and ends, as far as it is known.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Kind of recovery.
    pub recovery: Recovery,
    /// Where replay begins; on a clean shutdown the last checkpoint. `None` when it is not known.
    pub redo_lsn: Option<Lsn>,
    /// End of the last valid record that replay will meet.
    pub end_lsn: Option<Lsn>,
    /// Where reading of WAL stopped: the record or page there is missing or not valid. `None` when WAL was not read to its end.
    pub broken_at: Option<Lsn>,
    /// How reading of WAL ended; `None` as for `broken_at`.
    pub end: Option<EndOfWal>,
    /// Reading stopped because there were no more files, not at bytes that were never written.
    pub ends_with_files: bool,
    /// Replay can begin: the record at the redo point is in `pg_wal`.
    pub can_begin: bool,
    /// A signal file has the server fetch WAL from an archive, or from the server that it follows.
    pub fetches_wal: bool,
    /// The file that startup reads first has an unsupported version: whether recovery can begin is unknown.
    pub begins_in_unknown_version: bool,
    /// Next transaction at the checkpoint.
    pub next_xid: Option<u32>,
    /// Each of these that forbids it keeps the verdict "safe" from being given to any page.
    pub doubts: Vec<Doubt>,
    /// WAL that `backup_label` requires.
    pub backup: Option<Backup>,
}

impl Replay {
    /// Crash recovery between two addresses.
    #[cfg(test)]
    pub(crate) fn of_crash(redo_lsn: Lsn, end_lsn: Lsn) -> Self {
        Self {
            recovery: Recovery::Crash,
            redo_lsn: Some(redo_lsn),
            end_lsn: Some(end_lsn),
            broken_at: None,
            end: None,
            ends_with_files: false,
            can_begin: true,
            fetches_wal: false,
            begins_in_unknown_version: false,
            next_xid: None,
            backup: None,
            doubts: Vec::new(),
        }
    }

    /// Prediction from `pg_control` and the recovery files, before WAL is read.
    pub fn of(control: &ControlRead, signs: &RecoverySigns) -> Self {
        let mut replay = Self {
            recovery: Recovery::Unknown,
            redo_lsn: None,
            end_lsn: None,
            broken_at: None,
            end: None,
            ends_with_files: false,
            can_begin: false,
            fetches_wal: false,
            begins_in_unknown_version: false,
            next_xid: None,
            backup: None,
            doubts: Vec::new(),
        };
        let control = match (control, control.trusted()) {
            (_, Some(control)) => control,
            (read, None) => {
                replay.doubts.push(doubt_of_control(read));
                return replay;
            }
        };
        if control.is_from_description() {
            replay.doubts.push(Doubt::LayoutNotSeen);
        }
        replay.next_xid = Some(control.checkpoint.next_xid());
        replay.redo_lsn = Some(control.checkpoint.redo_lsn);
        let asked_for = asks_for_recovery(&signs.signals);
        replay.fetches_wal = asked_for;
        replay.recovery = match &signs.backup_label {
            Some(Ok(label)) if label.is_complete() => {
                replay.redo_lsn = label.redo_lsn;
                replay.backup = Some(Backup::of(label, asked_for));
                replay.doubts.push(Doubt::BaseBackup);
                Recovery::Backup
            }
            Some(_) => {
                replay.redo_lsn = None;
                replay.doubts.push(Doubt::BackupLabelUnreadable);
                Recovery::Unknown
            }
            None if signs.wal_was_reset => {
                replay.doubts.push(Doubt::WalWasReset);
                Recovery::AfterReset
            }
            None if control.is_in_archive_recovery() || asked_for => Recovery::Archive,
            None if control.was_shut_down() => Recovery::None,
            None => Recovery::Crash,
        };
        if control.backup_start_lsn.is_valid() {
            replay.doubts.push(Doubt::BackupEndNotReached);
        }
        // Tablespaces are made as the map says, whether it fits what is here or not.
        let changes = |name: &&&str| !asked_for || **name == "tablespace_map";
        let names: Vec<&'static str> = signs.signals.iter().filter(changes).copied().collect();
        let has_later_history = signs.has_later_history;
        if !names.is_empty() || has_later_history {
            replay.doubts.push(Doubt::OtherSignals { names, has_later_history });
        }
        replay
    }

    /// Reads WAL from the redo point to its end: sets the end, and adds to `history`.
    ///
    /// # Errors
    /// When a segment that is there cannot be read.
    pub fn read_to_end(
        &mut self,
        set: &WalSet,
        control: Option<&ControlFile>,
        history: &mut WalHistory,
        interest: &Interest,
        jobs: usize,
        watch: WatchRead<'_>,
    ) -> Result<(), WalReadError> {
        let Some(redo_lsn) = self.redo_lsn else { return Ok(()) };
        let Some(run) = run_of(set, redo_lsn) else {
            self.doubts.push(Doubt::NoWalAtRedo { redo_lsn });
            return Ok(());
        };
        let part = history.read(set, &run, (redo_lsn, Lsn(u64::MAX)), interest, jobs, watch)?;
        // Wherever in a segment a server begins, it looks at the header of the segment first.
        let files = set.segments().get(run.clone()).unwrap_or_default();
        let holding = files.iter().take_while(|file| file.start_lsn <= redo_lsn).last();
        let is_headless = holding.is_some_and(|file| file.is_headless);
        if is_headless || part.extent.first_lsn != Some(redo_lsn) {
            self.doubts.push(Doubt::NoRecordAtRedo { redo_lsn, is_headless });
            return Ok(());
        }
        self.can_begin = true;
        self.end_lsn = part.extent.last_end_lsn;
        self.judge_end(set, &run, &part)?;
        self.compare_with_control(control, history);
        if self.recovery == Recovery::None && part.extent.first_end_lsn < part.extent.last_end_lsn {
            let end_lsn = part.extent.last_end_lsn.unwrap_or_default();
            self.doubts.push(Doubt::WalAfterShutdown { redo_lsn, end_lsn });
        }
        Ok(())
    }

    /// Withdraws doubts about missing WAL that exists but was not read. `unknown`: segments of `pg_wal` in versions
    /// that are not read here; `denied`: files of it that this user may not open; `control`: the control file, if it can be
    /// trusted.
    pub(crate) fn weigh_left_out(
        &mut self,
        unknown: &[UnknownVersionSegment],
        denied: &[DeniedFile],
        control: Option<&ControlFile>,
    ) {
        let size = control.map_or(0, |control| control.geometry.wal_segment_size);
        let number_of = |lsn: Lsn| lsn.0.checked_div(u64::from(size));
        let first_needed = self.redo_lsn.and_then(number_of);
        // By their names the server finds them. Without the redo point any of them may be needed.
        let needed: Vec<(Option<u64>, UnknownMagic)> = unknown
            .iter()
            .map(|left| (left.segment(size).map(|segment| segment.number), left.magic))
            .filter(|(number, _)| match (number, first_needed) {
                (Some(number), Some(first)) => *number >= first,
                (None, Some(_)) => false,
                (_, None) => true,
            })
            .collect();
        // What has no name of a segment may be a directory of them, or say which of them are read.
        let denied: Vec<(Option<u64>, &DeniedFile)> = denied
            .iter()
            .map(|left| (left.segment(size).map(|segment| segment.number), left))
            .filter(|(number, _)| number.zip(first_needed).is_none_or(|(number, first)| number >= first))
            .collect();
        if needed.is_empty() && denied.is_empty() {
            return;
        }
        self.doubts.retain(|doubt| !matches!(doubt, Doubt::NoWal));
        if let Some((_, magic)) = needed.first().copied() {
            self.doubts.push(Doubt::WalOfUnknownVersion { magic, segments: needed.len() });
        }
        if let Some((_, first)) = denied.first() {
            let more = denied.len().saturating_sub(1);
            self.doubts.push(Doubt::WalDenied { first: first.path.clone(), more });
        }
        let numbers = || needed.iter().map(|(found, _)| *found).chain(denied.iter().map(|(found, _)| *found));
        let holds = |number: u64| numbers().any(|found| found == Some(number));
        if !self.can_begin
            && let Some(first) = first_needed
        {
            let checkpoint_lsn = match &self.backup {
                Some(backup) => backup.checkpoint_lsn,
                None => control.map(|control| control.checkpoint_lsn),
            };
            // A record may continue in the segment after the one that it begins in.
            let last = checkpoint_lsn.and_then(number_of).unwrap_or(first).max(first).saturating_add(1);
            self.begins_in_unknown_version = needed.iter().any(|(found, _)| found.is_some_and(|found| found <= last));
        }
        let begins_unknown = self.begins_in_unknown_version || !denied.is_empty();
        self.doubts.retain(|doubt| match doubt {
            Doubt::NoWalAtRedo { .. }
            | Doubt::NoRecordAtRedo { .. }
            | Doubt::EndsBeforeCheckpoint { .. }
            | Doubt::NotTheCheckpointOfTheLabel => !begins_unknown,
            Doubt::SegmentMissing { end } => {
                !number_of(end.at).is_some_and(|number| holds(number) || holds(number.saturating_add(1)))
            }
            _ => true,
        });
    }

    fn judge_end(&mut self, set: &WalSet, run: &Range<usize>, part: &WalkEnd) -> Result<(), WalReadError> {
        if let Some(error) = &part.error {
            self.doubts.push(Doubt::WalEndUnreadable { error: ErrorWords::from(error) });
        }
        let Some(end) = &part.end else {
            self.doubts.push(Doubt::WalBrokenOff);
            return Ok(());
        };
        // A record that continues in a missing segment begins before it.
        let size = u64::from(set.geometry().wal_segment_size);
        let is_whole = |file: &&WalSegmentFile| file.size_bytes.is_none_or(|bytes| bytes == size);
        let last = run.clone().last().and_then(|index| set.segments().get(index)).filter(is_whole);
        self.end = Some(end.clone());
        let is_input_end = matches!(end.reason, EndReason::InputEnds | EndReason::CutShort { .. });
        self.ends_with_files = is_input_end;
        // A file cut short before the last one lacks its own rest, not what comes after the last one.
        let next = last.filter(|_| is_input_end && part.error.is_none() && ends_in_last_file(set, run, end));
        self.broken_at = Some(next.map_or(end.at, |file| file.start_lsn.advanced_by(size)));
        match judge_tail(set, run, end)? {
            Tail::RecordsFollow { first_lsn, was_synced: true } => {
                self.doubts.push(Doubt::RecordsFollow { end: end.clone(), first_lsn });
            }
            Tail::RecordsFollow { first_lsn, was_synced: false } | Tail::UnfinishedPage { first_lsn } => {
                self.doubts.push(Doubt::HoleAtEnd { end: end.clone(), first_lsn });
            }
            Tail::Changing { end_lsn } => self.doubts.push(Doubt::WalChanging { end_lsn }),
            Tail::BeforeKnownEnd { known_lsn } => {
                self.doubts.push(Doubt::BeforeKnownEnd { end: end.clone(), known_lsn });
            }
            Tail::Gap => self.doubts.push(Doubt::SegmentMissing { end: end.clone() }),
            Tail::Complete | Tail::EndOfWal => {}
        }
        Ok(())
    }

    /// Addresses that `pg_control` knows to have been written.
    fn compare_with_control(&mut self, control: Option<&ControlFile>, history: &WalHistory) {
        if let Some((backup, end_lsn)) = self.backup.as_mut().zip(self.end_lsn) {
            backup.settle(control, history, end_lsn);
            let checkpoint = backup.checkpoint_lsn.zip(backup.redo_lsn);
            if !checkpoint.is_some_and(|(checkpoint, redo)| history.has_checkpoint(checkpoint, redo)) {
                // The server reads that record before it replays anything.
                self.can_begin = false;
                self.doubts.push(Doubt::NotTheCheckpointOfTheLabel);
            }
        }
        let (Some(control), Some(end_lsn)) = (control, self.end_lsn) else { return };
        if control.checkpoint_lsn >= end_lsn && self.recovery != Recovery::Backup {
            let checkpoint_lsn = control.checkpoint_lsn;
            // The server reads that record before it replays anything.
            self.can_begin = false;
            self.doubts.push(Doubt::EndsBeforeCheckpoint { end_lsn, checkpoint_lsn });
        } else if self.recovery != Recovery::Backup
            && !history.has_checkpoint(control.checkpoint_lsn, control.checkpoint.redo_lsn)
        {
            let checkpoint_lsn = control.checkpoint_lsn;
            self.can_begin = false;
            self.doubts.push(Doubt::NotTheCheckpoint { checkpoint_lsn });
        }
        if control.min_recovery_lsn > end_lsn {
            let least_lsn = control.min_recovery_lsn;
            self.doubts.push(Doubt::EndsBeforeConsistency { end_lsn, least_lsn });
        }
        if self.recovery == Recovery::None && !history.has_shutdown(control.checkpoint_lsn) {
            self.doubts.push(Doubt::NotAShutdownCheckpoint);
        }
    }

    /// As of which LSN a page has to be whole: replay does the rest. `None` when that is not known.
    pub(crate) fn rebuild_target(&self) -> Option<Lsn> {
        let is_known = !matches!(self.recovery, Recovery::Unknown | Recovery::AfterReset);
        self.redo_lsn.filter(|_| is_known && self.can_begin)
    }

    /// True when the server was shut down, WAL ends with the checkpoint of that, and nothing read until now contradicts
    /// it. A server that is started says so in `pg_control` before it writes a page: no page can be newer.
    pub(crate) fn ends_in_shutdown(&self) -> bool {
        self.recovery == Recovery::None && self.can_begin && !self.doubts.iter().any(Doubt::forbids_restore)
    }

    /// Doubt from a page with this LSN on disk, when WAL ends before it: the server had written WAL up to there first.
    pub(crate) fn doubt_of_page(&self, page_lsn: Lsn, witness: LsnWitness) -> Option<Doubt> {
        let end_lsn = self.end_lsn.filter(|end| page_lsn > *end)?;
        Some(Doubt::PageAfterEnd { witness, page_lsn, end_lsn })
    }
}

fn doubt_of_control(read: &ControlRead) -> Doubt {
    match read {
        ControlRead::UnknownVersion { prefix, .. } if prefix.is_byte_swapped() => Doubt::ControlOfOtherByteOrder,
        // A right CRC, or a number that can be that of a later major: else the version itself may be what is damaged.
        ControlRead::UnknownVersion { prefix, is_signed } if *is_signed || prefix.is_newer() => {
            Doubt::ControlOfUnknownVersion { version: prefix.pg_control_version, is_signed: *is_signed }
        }
        _ => Doubt::ControlNotTrusted,
    }
}

/// The run of segments that holds an address.
pub fn run_of(set: &WalSet, lsn: Lsn) -> Option<Range<usize>> {
    let size = u64::from(set.geometry().wal_segment_size);
    set.runs().into_iter().find(|run| {
        set.segments()[run.clone()].iter().any(|file| file.start_lsn <= lsn && lsn < file.start_lsn.advanced_by(size))
    })
}

/// Reads everything before the redo point, and all runs that do not hold it, into `history`. Lower addresses first, so
/// call it before [`Replay::read_to_end`]. Returns what could not be read.
pub(crate) fn read_before(
    set: &WalSet,
    redo_lsn: Option<Lsn>,
    history: &mut WalHistory,
    interest: &Interest,
    jobs: usize,
    watch: WatchRead<'_>,
) -> Vec<WalReadError> {
    let mut errors = Vec::new();
    let own_run = redo_lsn.and_then(|lsn| run_of(set, lsn));
    for run in set.runs() {
        let is_after = own_run.as_ref().is_some_and(|own| own.start < run.start);
        if is_after {
            // Nothing after a gap is replayed.
            continue;
        }
        let limit = if own_run.as_ref() == Some(&run) { redo_lsn.unwrap_or(Lsn(u64::MAX)) } else { Lsn(u64::MAX) };
        match history.read(set, &run, (Lsn::INVALID, limit), interest, jobs, watch) {
            Ok(part) => {
                if let Some((end, redo)) = part.extent.last_end_lsn.zip(redo_lsn)
                    && record_starts_at(set, end, redo)
                {
                    history.extend(end, redo);
                }
            }
            Err(error) => errors.push(error),
        }
    }
    errors
}

/// True when a record that starts at `start` follows directly on one that ends at `end`: between them there is nothing,
/// or the header of a page.
fn record_starts_at(set: &WalSet, end: Lsn, start: Lsn) -> bool {
    let geometry = set.geometry();
    let at_page_start = end.0.is_multiple_of(u64::from(geometry.wal_block_size.max(1)));
    let long = end.0.is_multiple_of(u64::from(geometry.wal_segment_size.max(1)));
    end == start || at_page_start && end.advanced_by(if long { 40 } else { 24 }) == start
}
