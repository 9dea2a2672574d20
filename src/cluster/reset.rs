//! Whether `pg_resetwal` was run on a cluster.

use std::path::Path;

use super::open::{Links, ReadFile};
use crate::parsers::control::ControlFile;
use crate::parsers::control_layout::ControlLayout;
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::page::PageHeader;
use crate::parsers::wal::record::{RecordHeader, record_crc};
use crate::parsers::wal::timeline::WalSegment;
use crate::types::Lsn;

/// True when `pg_resetwal` wrote the control file and no server ran since.
///
/// A server that switches to a new segment just before it is shut down leaves the same control file if it runs with the
/// settings that `pg_resetwal` writes. The checkpoint record distinguishes them: that of a server names the record before it,
/// that of `pg_resetwal` none. While the record cannot be read, the worse is believed.
///
/// Source: `WriteEmptyXLOG`, `src/bin/pg_resetwal/pg_resetwal.c`.
#[must_use]
pub fn wal_was_reset(data_dir: &Path, control: &ControlFile) -> bool {
    control.looks_reset() && record_before_checkpoint(data_dir, control).is_none_or(|lsn| !lsn.is_valid())
}

/// Start of the record that the checkpoint record of the control file, the first of its segment, names as the one before
/// it; `None` when that record cannot be read or is not whole.
fn record_before_checkpoint(data_dir: &Path, control: &ControlFile) -> Option<Lsn> {
    let lsn = control.checkpoint_lsn;
    let segment_size = control.geometry.wal_segment_size;
    let number = lsn.0.checked_div(u64::from(segment_size))?;
    let name = WalSegment { tli: control.checkpoint.tli, number }.file_name(segment_size)?;
    let file = ReadFile::open(&data_dir.join("pg_wal").join(name), Links::Refuse).ok()?;
    let offset = lsn.0.checked_rem(u64::from(segment_size))?;
    let page_start = Lsn(lsn.0.checked_sub(offset)?);
    let page = PageHeader::decode(page_start, &file.bytes_at(0, PageHeader::LONG_SIZE).ok()??).ok()?;
    let is_own = page.long.is_some_and(|long| long.system_identifier == control.prefix.system_identifier);
    if page.page_addr != page_start || !is_own {
        return None;
    }
    let length = ControlLayout::of_version(control.prefix.pg_control_version)?.checkpoint_record_bytes();
    let record = file.bytes_at(offset, usize::try_from(length).ok()?).ok()??;
    let header = RecordHeader::decode(lsn, &record).ok()?;
    // The kind of a checkpoint at shutdown is 0.
    let is_shutdown = header.rmgr_id == RM_XLOG && header.info & 0xF0 == 0 && u64::from(header.tot_len) == length;
    (is_shutdown && header.crc == record_crc(&record)).then_some(header.prev)
}
