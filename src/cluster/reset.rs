//! Compares `pg_control` with the record of the last checkpoint: was `pg_resetwal` run, and are both from the same time.

use std::path::Path;

use super::open::{Links, ReadFile};
use crate::parsers::control::ControlFile;
use crate::parsers::control_layout::ControlLayout;
use crate::parsers::wal::checkpoint::CheckPoint;
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::page::PageHeader;
use crate::parsers::wal::record::{RecordHeader, record_crc};
use crate::parsers::wal::records::RecordKind;
use crate::parsers::wal::timeline::WalSegment;
use crate::types::Lsn;

/// True when `pg_resetwal` wrote the control file and no server ran since.
///
/// A server that switches to a new segment just before it is shut down leaves the same control file if it runs with the
/// settings that `pg_resetwal` writes. The checkpoint record distinguishes them: that of a server names the record before it,
/// that of `pg_resetwal` none. While the record cannot be read, the worse is believed.
///
/// Source: `WriteEmptyXLOG`, `src/bin/pg_resetwal/pg_resetwal.c`.
pub(crate) fn wal_was_reset(data_dir: &Path, control: &ControlFile) -> bool {
    control.looks_reset() && record_before_checkpoint(data_dir, control).is_none_or(|lsn| !lsn.is_valid())
}

/// Start of the record that the checkpoint record of the control file, the first of its segment, names as the one before
/// it; `None` when that record cannot be read or is not whole.
fn record_before_checkpoint(data_dir: &Path, control: &ControlFile) -> Option<Lsn> {
    let Ok(Some((header, _))) = checkpoint_record(data_dir, control) else { return None };
    (header.kind_in_all_majors() == RecordKind::XlogCheckpointShutdown).then_some(header.prev)
}

/// Whether `pg_wal` has the checkpoint that the control file names; `None` where that cannot be read here.
pub fn has_checkpoint(data_dir: &Path, control: &ControlFile) -> Option<bool> {
    let Ok(record) = checkpoint_record(data_dir, control) else { return None };
    let Some((_, found)) = record else { return Some(false) };
    let key = |of: &CheckPoint| (of.redo_lsn, of.tli, of.time_s, of.next_full_xid, of.next_multi);
    Some(key(&found) == key(&control.checkpoint))
}

/// The record at the address that the control file has for the last checkpoint; none where the file, its header or the record is not
/// that of such a one. An error if it cannot be read, or continues on another page.
fn checkpoint_record(data_dir: &Path, control: &ControlFile) -> Result<Option<(RecordHeader, CheckPoint)>, ()> {
    let lsn = control.checkpoint_lsn;
    let (segment_size, page_size) = (control.geometry.wal_segment_size, u64::from(control.geometry.wal_block_size));
    let number = lsn.0.checked_div(u64::from(segment_size)).ok_or(())?;
    let name = WalSegment { tli: control.checkpoint.tli, number }.file_name(segment_size).ok_or(())?;
    let file = match ReadFile::open(&data_dir.join("pg_wal").join(name), Links::Refuse) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(_) => return Err(()),
    };
    let offset = lsn.0.checked_rem(u64::from(segment_size)).ok_or(())?;
    let segment_start = Lsn(lsn.0.saturating_sub(offset));
    let first = file.bytes_at(0, PageHeader::LONG_SIZE).map_err(|_| ())?.unwrap_or_default();
    let Ok(page) = PageHeader::decode(segment_start, &first) else { return Ok(None) };
    let is_own = page.long.is_some_and(|long| long.system_identifier == control.prefix.system_identifier);
    if page.page_addr != segment_start || !is_own {
        return Ok(None);
    }
    let layout = ControlLayout::of_version(control.prefix.pg_control_version).ok_or(())?;
    let length = layout.checkpoint_record_bytes();
    if offset.checked_rem(page_size).ok_or(())?.saturating_add(length) > page_size {
        return Err(());
    }
    let record = file.bytes_at(offset, usize::try_from(length).map_err(|_| ())?).map_err(|_| ())?.unwrap_or_default();
    let Ok(header) = RecordHeader::decode(lsn, &record) else { return Ok(None) };
    let is_checkpoint = header.rmgr_id == RM_XLOG && u64::from(header.tot_len) == length;
    if !is_checkpoint || header.crc != record_crc(&record) {
        return Ok(None);
    }
    // The header and two bytes before the main data.
    let data = record.get(RecordHeader::SIZE.saturating_add(2)..).unwrap_or_default();
    let checkpoint = CheckPoint::decode(layout.xlog, lsn.0, data);
    Ok(checkpoint.ok().map(|checkpoint| (header, checkpoint)))
}
