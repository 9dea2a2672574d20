//! The facts in `pg_control` that people look for first.

use super::json::time_text;
use crate::parsers::control::ControlFile;

/// Labels and values, in the order in which they are read.
pub(crate) fn control_facts(control: &ControlFile) -> Vec<(&'static str, String)> {
    let (prefix, checkpoint, geometry) = (&control.prefix, &control.checkpoint, &control.geometry);
    let (block, segment) = (geometry.block_size, geometry.wal_segment_size);
    let mut facts = vec![
        ("state", format!("{} (written {})", prefix.state, time_text(control.time_s))),
        ("system identifier", prefix.system_identifier.to_string()),
        ("versions", format!("pg_control {}, catalog {}", prefix.pg_control_version, prefix.catalog_version_no)),
        ("checkpoint", format!("{} of {}", control.checkpoint_lsn, time_text(checkpoint.time_s))),
        ("redo point", format!("{}, timeline {}", checkpoint.redo_lsn, checkpoint.tli)),
    ];
    if control.min_recovery_lsn.is_valid() {
        facts.push(("consistent from", control.min_recovery_lsn.to_string()));
    }
    let full_page_writes = if checkpoint.full_page_writes != 0 { "on" } else { "off" };
    facts.extend([
        ("data checksums", control.checksums.to_string()),
        ("full_page_writes", full_page_writes.to_owned()),
        ("geometry", format!("pages of {block} bytes, WAL segments of {segment} bytes")),
    ]);
    facts
}
