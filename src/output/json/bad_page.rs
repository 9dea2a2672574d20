//! JSON of a page that `verify` found damaged.

use serde_json::json;

use super::lsn_text;
use super::wal::Row;
use crate::analysis::page_check::PageDamage;
use crate::analysis::verdict::fate::ReplayFate;
use crate::types::PageId;

/// Columns of a damaged page in CSV, in order.
pub const BAD_PAGE_COLUMNS: &[&str] = &[
    "spc_oid",
    "db_oid",
    "rel_number",
    "relation",
    "fork",
    "block",
    "path",
    "offset",
    "disk",
    "checksum_stored",
    "checksum_computed",
    "server_rejects",
    "unlogged",
    "faults",
    "fault_codes",
    "replay",
    "replay_code",
    "record_lsn",
    "missing_segment",
    "reason",
];

/// Which page it is.
#[derive(Clone, Copy, Debug)]
pub struct BadPageLocation<'a> {
    /// Its identity.
    pub page: PageId,
    /// Name of its relation, where it is known.
    pub relation: Option<&'a str>,
    /// Name of its database, where it is known.
    pub database: Option<&'a str>,
    /// Its file, relative to the data directory.
    pub path: &'a str,
    /// Where it starts in that file.
    pub offset: u64,
    /// Bytes that are there of a page that the file ends inside of.
    pub have_bytes: Option<usize>,
}

/// A damaged page as a row. `fate`: what replay makes of it, where that was asked for.
#[must_use]
pub fn bad_page_row(location: &BadPageLocation<'_>, damage: &PageDamage, fate: Option<&ReplayFate>) -> Row {
    let mut row = Row::new();
    let page = location.page;
    for (name, value) in [
        ("spc_oid", json!(page.rel.spc_oid)),
        ("db_oid", json!(page.rel.db_oid)),
        ("rel_number", json!(page.rel.rel_number)),
        ("relation", json!(location.relation)),
        ("database", json!(location.database)),
        ("fork", json!(page.fork.name())),
        ("block", json!(page.block)),
        ("path", json!(location.path)),
        ("offset", json!(format!("{:#X}", location.offset))),
        ("disk", json!(if location.have_bytes.is_some() { "cut" } else { "damaged" })),
        ("checksum_stored", json!(damage.checksum.map(|sums| sums.stored))),
        ("checksum_computed", json!(damage.checksum.map(|sums| sums.computed))),
        ("server_rejects", json!(damage.server_rejects)),
        ("faults", json!(damage.structure())),
        ("fault_codes", json!(damage.structure_codes())),
        ("replay", json!(fate.map(ReplayFate::name))),
        ("replay_code", json!(fate.map(ReplayFate::code))),
        ("record_lsn", json!(fate.and_then(ReplayFate::record_lsn).map(lsn_text))),
        ("missing_segment", json!(fate.and_then(ReplayFate::missing_segment))),
        ("reason", json!(fate.map(ToString::to_string))),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}
