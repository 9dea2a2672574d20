//! Free space of the volumes that a start writes to.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::parsers::control::ControlFile;

/// Directories of a data directory whose volumes have no room for one more segment of WAL, each with its free bytes and the bytes that a start
/// needs at least.
///
/// Source: `XLogFileInitInternal`, `src/backend/access/transam/xlog.c`.
pub(crate) fn lacking_room(root: &Path, control: &ControlFile) -> Vec<(&'static str, u64, u64)> {
    let needed_bytes = u64::from(control.geometry.wal_segment_size);
    let free = |name: &'static str| {
        let room = rustix::fs::statvfs(root.join(name)).ok()?;
        let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
        (free_bytes < needed_bytes).then_some((name, free_bytes, needed_bytes))
    };
    let volume = |name: &str| root.join(name).metadata().map(|found| found.dev()).ok();
    let is_one_volume = volume("pg_wal") == volume(".");
    let names = if is_one_volume { &["pg_wal"][..] } else { &["pg_wal", "."] };
    names.iter().copied().filter_map(free).collect()
}
