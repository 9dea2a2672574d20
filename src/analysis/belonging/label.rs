//! A base backup whose `backup_label` somebody removed.

use super::Contradiction;
use crate::cluster::backup_files::{RecoverySigns, read_label};
use crate::cluster::backup_manifest::BackupManifest;
use crate::cluster::data_dir::DataDir;
use crate::cluster::open::AccessError;
use crate::cluster::running::ServerSign;
use crate::parsers::control::{ControlFile, DbState};
use crate::parsers::wal::timeline::WalSegment;

/// By the manifest the backup came with a label, it is gone, and no server has run in the directory since.
pub(super) fn label_gone(
    directory: &DataDir,
    control: &ControlFile,
    signs: &RecoverySigns,
    server: &ServerSign,
) -> Result<Option<Contradiction>, AccessError> {
    // A base backup has no such file.
    let was_started =
        !matches!(server, ServerSign::NoPidFile) || directory.root().join("postmaster.opts").symlink_metadata().is_ok();
    if signs.backup_label.is_some() || control.prefix.state == DbState::SHUT_DOWN || was_started {
        return Ok(None);
    }
    let manifest = BackupManifest::read(directory.root())?.filter(|manifest| manifest.lists_label);
    let Some(manifest) = manifest else { return Ok(None) };
    let (start_lsn, timeline) = (manifest.start_lsn, manifest.timeline);
    // A server that recovered from the label renamed it, and its checkpoint came after the end of the backup. The old label of a cluster that
    // was itself restored comes with its backups.
    let old = read_label(&directory.root().join("backup_label.old")).ok().flatten();
    let was_renamed = old.is_some_and(|label| label.redo_lsn == Some(start_lsn));
    let is_of_backup =
        control.prefix.state == DbState::IN_PRODUCTION && control.checkpoint.redo_lsn <= manifest.end_lsn;
    if was_renamed && !is_of_backup {
        return Ok(None);
    }
    let size = control.geometry.wal_segment_size;
    let number = start_lsn.0.checked_div(u64::from(size));
    let wal_file = number.and_then(|number| WalSegment { tli: timeline, number }.file_name(size));
    let redo_lsn = control.checkpoint.redo_lsn;
    let of_standby = control.prefix.state == DbState::IN_ARCHIVE_RECOVERY;
    Ok(Some(Contradiction::LabelGone { start_lsn, timeline, redo_lsn, wal_file, of_standby }))
}
