//! The WAL that a check reads: that of the data directory, and that of an archive.
//! Also here: older copies of a cluster that the user named.

use std::path::{Path, PathBuf};

use super::error::InspectError;
use crate::analysis::skipped::{Coverage, SkippedPart};
use crate::analysis::wal::unreadable::{NeededWal, note_set};
use crate::cluster::data_dir::DataDir;
use crate::cluster::donor::{Donor, DonorHost};
use crate::cluster::wal::{DeniedFile, WalSet, WalSetError, WalSetOptions, WalSources, WatchOpen, holds_no_wal};
use crate::cluster::wal_marks::WalMarks;
use crate::parsers::control::ControlFile;
use crate::repair::export::scratch_file;
use crate::report::{Finding, Severity};
use crate::types::Lsn;

impl WalSources {
    /// Opens the WAL of `data_dir`, which is needed from `redo_lsn` on, and with it what `elsewhere` names. What is odd about it goes to `findings` and
    /// `coverage`.
    ///
    /// # Errors
    /// When a given path has no WAL of this cluster, and when `watch` interrupts comparing copies of segments.
    pub fn open(
        (data_dir, control, redo_lsn): (&Path, Option<&ControlFile>, Option<Lsn>),
        elsewhere: &[PathBuf],
        (findings, coverage): (&mut Vec<Finding>, &mut Coverage),
        watch: WatchOpen<'_>,
    ) -> Result<Self, InspectError> {
        let options = || {
            let mut options = WalSetOptions::new(&scratch_file);
            options.system_identifier = control.map(|control| control.prefix.system_identifier);
            options.timeline = control.map(ControlFile::timeline);
            options.watch = watch;
            options
        };
        let mut sources = Self::default();
        match WalSet::open(&[data_dir.to_owned()], WalSetOptions { as_server: true, ..options() }) {
            Ok(set) => {
                sources.unknown_versions = set.unknown_versions().to_vec();
                sources.denied = set.denied().to_vec();
                sources.own = Some(set);
            }
            Err(error @ (WalSetError::NoWal { .. } | WalSetError::Access(_))) => {
                coverage.skip(SkippedPart::PgWal, &error);
                match error {
                    WalSetError::NoWal { unknown_versions, denied, .. } => {
                        (sources.unknown_versions, sources.denied) = (unknown_versions, denied);
                    }
                    WalSetError::Access(error) if error.is_denied() => {
                        sources.denied.push(DeniedFile::directory(data_dir.join("pg_wal")));
                    }
                    _ => {}
                }
            }
            Err(error) => return Err(error.into()),
        }
        if let Some(set) = &sources.own {
            sources.marks = WalMarks::read(data_dir, set.timeline(), set.geometry().wal_segment_size);
            sources
                .marks
                .errors
                .iter()
                .for_each(|(directory, error)| coverage.skip(SkippedPart::file(*directory), error));
        }
        let leaves_out = sources.own.as_ref().is_some_and(WalSet::leaves_out);
        if leaves_out || !elsewhere.is_empty() {
            let mut paths = vec![data_dir.to_owned()];
            paths.extend_from_slice(elsewhere);
            let all = WalSet::open(&paths, WalSetOptions { undisputed: true, ..options() })?;
            sources.all = Some(all);
        }
        if let Some(set) = sources.most() {
            let mut told = Vec::new();
            note_set(set, NeededWal::by_replay(redo_lsn), &mut told, coverage);
            // Segments that wait to be written again and the like are in every pg_wal.
            findings.extend(told.into_iter().filter(|finding| finding.severity == Severity::Problem));
        }
        Ok(sources)
    }
}

/// Refuses directories that were named for their WAL and hold none: the answer would be one without them.
pub(crate) fn refuse_without_wal(named: &[PathBuf]) -> Result<(), InspectError> {
    match named.iter().find(|path| holds_no_wal(path)) {
        Some(path) => Err(WalSetError::NoneIn(path.clone()).into()),
        None => Ok(()),
    }
}

/// Opens donors of the cluster in `directory`; `control`: its control file, if that can be trusted.
pub(crate) fn open_donors(
    paths: &[PathBuf],
    directory: &DataDir,
    control: Option<&ControlFile>,
) -> Result<Vec<Donor>, InspectError> {
    let host = DonorHost { root: directory.root(), control, major: directory.major() };
    let open = |path: &PathBuf| Donor::open(path, &host).map_err(|why| InspectError::donor(path, why));
    paths.iter().map(open).collect()
}

/// Compares the donors' lines of history with that of the cluster, as far as its WAL tells.
pub(crate) fn follow_timelines(
    donors: &mut [Donor],
    control: Option<&ControlFile>,
    wal: &WalSources,
) -> Result<(), InspectError> {
    let Some(tli) = control.map(ControlFile::timeline) else { return Ok(()) };
    let history = wal.most().and_then(|set| set.history());
    for donor in donors {
        let path = donor.path().to_owned();
        donor.follow(tli, history).map_err(|why| InspectError::donor(&path, why))?;
    }
    Ok(())
}
