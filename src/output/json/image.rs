//! JSON of a full-page image.

use schemars::JsonSchema;
use serde::Serialize;

use super::scalars::{CauseCode, ImageCompression, LsnText};

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ImageJson {
    /// The record, and the index of the block reference in it
    pub lsn: LsnText,
    pub end_lsn: LsnText,
    pub timeline: u32,
    pub xid: u32,
    pub rmgr: String,
    pub record: String,
    pub block_id: u8,
    /// The page
    pub spc_oid: u32,
    pub db_oid: u32,
    pub rel_number: u32,
    pub relation: Option<String>,
    pub fork: String,
    pub block: u32,
    /// Bytes in WAL; bytes before compression
    pub stored_bytes: usize,
    pub raw_bytes: u32,
    /// Bytes that were left out in the middle
    pub hole_offset: u16,
    pub hole_bytes: u16,
    /// `none`, `pglz`, `lz4`, `zstd`
    pub compression: ImageCompression,
    /// Redo puts it in place
    pub applied: bool,
    /// Why it was written: `first_touch`, `first_touch_in_backup`, `hint_only`, `hint_then_changed`, `hint_in_backup`, `new_page`, `map_truncation`, `forced`, `consistency_check`, `repeated_forced`, `repeated_new_page`, `repeated_reinitialised`, `repeated_hint`, `repeated_unknown`, `unknown_before_start`, `unknown`, `unreadable`; see [pg_walfpi.md](pg_walfpi.md)
    pub cause: CauseCode,
    /// Of `extract`: the file it was written to
    pub file: Option<String>,
}
