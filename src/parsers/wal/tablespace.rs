//! Records that make tablespaces.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use nom::Parser;
use nom::error::context;

use super::record::Record;
use super::records::RecordKind;
use crate::parsers::decode::{decode_at, le_u32};
use crate::parsers::error::ParseError;
use crate::types::{Lsn, Oid};

/// Bytes of a path of which nothing is read after them.
///
/// Source: `MAXPGPATH`, `src/include/pg_config_manual.h`.
const MAX_PATH_BYTES: usize = 1024;

/// A tablespace that replay makes: Tablespace `CREATE`.
///
/// | bytes | field     | type          |
/// |---|---|---|
/// | 0..4  | `ts_id`   | `Oid`         |
/// | 4..   | `ts_path` | text and a NUL |
///
/// Source: `xl_tblspc_create_rec`, `src/include/commands/tablespace.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablespaceCreated {
    /// Start of the record.
    pub record_lsn: Lsn,
    /// The tablespace.
    pub spc_oid: Oid,
    /// Where it lies.
    pub location: PathBuf,
}

impl TablespaceCreated {
    /// The tablespace that `record` creates, if any.
    ///
    /// # Errors
    /// `Truncated` when the main data is not what its type says.
    pub fn of(record: &Record<'_>) -> Result<Option<Self>, ParseError> {
        if record.kind() != RecordKind::TblspcCreate {
            return Ok(None);
        }
        let base = record.main_data_lsn().0;
        let buf = record.main_data();
        let spc_oid = decode_at("xl_tblspc_create_rec", base, buf, |i| context("ts_id", le_u32).parse(i))?;
        let path = buf.iter().skip(4).take(MAX_PATH_BYTES).copied().take_while(|byte| *byte != 0).collect();
        let location = PathBuf::from(OsString::from_vec(path));
        Ok(Some(Self { record_lsn: record.start_lsn, spc_oid, location }))
    }
}
