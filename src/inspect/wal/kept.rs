//! What keeps the segments in `pg_wal` of a data directory.

use std::path::Path;

use crate::analysis::error_words::ErrorWords;
use crate::analysis::plan::kept::{KeptWal, kept_wal};
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::cluster::data_dir::DataDir;
use crate::cluster::wal_keepers::{KeepSettings, WalKeepers};
use crate::inspect::error::{InspectError, open_data_dir};
use crate::report::{Finding, rules};
use crate::types::Lsn;

/// What was found.
#[derive(Debug)]
pub(crate) struct KeptReport {
    pub(crate) wal: KeptWal,
    pub(crate) settings: KeepSettings,
    /// When the first segment that waits for the archiver was marked, Unix seconds.
    pub(crate) ready_since_s: Option<i64>,
    pub(crate) redo_lsn: Option<Lsn>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) coverage: Coverage,
}

/// Reads what says who keeps segments. What of it cannot be read is part of the coverage: a slot may keep all of them.
///
/// # Errors
/// When the path is not a data directory.
pub(crate) fn kept(data_dir: &Path) -> Result<KeptReport, InspectError> {
    let directory = open_data_dir(data_dir)?;
    let (mut findings, mut coverage) = (Vec::new(), Coverage::default());
    let control = directory.control().trusted();
    // Without it nothing is known to be needless: all segments are kept.
    let (needed_from, segment_size) = match control {
        Some(control) => {
            (control.prev_checkpoint_lsn.unwrap_or(control.checkpoint.redo_lsn), control.geometry.wal_segment_size)
        }
        None => {
            let part = SkippedPart::File(crate::cluster::control_file::CONTROL_PATH.to_owned());
            coverage.skip(part, SkipReason::Unreadable(ErrorWords::of_other(&RedoUnknown)));
            (Lsn::INVALID, USUAL_SEGMENT_BYTES)
        }
    };
    let found = WalKeepers::read(&directory, segment_size);
    for (file, error) in &found.unread {
        let part = SkippedPart::File(file.display().to_string());
        coverage.skip(part, SkipReason::Unreadable(ErrorWords::of_other(error)));
    }
    if !found.settings.are_complete {
        let what = "wal_keep_size and max_slot_wal_keep_size may be set in files outside the data directory";
        findings.push(KEEP_SETTINGS_UNKNOWN.note(what));
    }
    let wal = kept_wal(&found, needed_from, segment_size);
    coverage.examined = wal.segments;
    let redo_lsn = control.map(|control| control.checkpoint.redo_lsn);
    Ok(KeptReport { wal, settings: found.settings, ready_since_s: found.ready_since_s, redo_lsn, findings, coverage })
}

/// `pg_control` cannot be read, or not trusted.
#[derive(Debug, thiserror::Error)]
#[error("the redo point of the last checkpoint is unknown")]
struct RedoUnknown;

/// The size that segments have unless initdb was told otherwise.
const USUAL_SEGMENT_BYTES: u32 = 16 << 20;

/// What keeps the WAL of the data directory, if one of these paths is one.
pub(super) fn kept_of_paths(paths: &[std::path::PathBuf]) -> Option<KeptReport> {
    let data_dir = paths.iter().find(|path| DataDir::open(path).is_ok())?;
    kept(data_dir).ok()
}

rules! {
    KEEP_SETTINGS_UNKNOWN: Wal "keep_settings_unknown",
        why: "where they are set elsewhere, more segments are kept than reported, or slots keep less",
        means: "Not all configuration files of the server are in the data directory: the defaults of `wal_keep_size` and \
            `max_slot_wal_keep_size` were taken",
        action: "Compare with `SHOW wal_keep_size` and `SHOW max_slot_wal_keep_size`";
}
