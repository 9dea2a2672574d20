//! JSON of a page that `verify` found damaged.

use serde_json::json;

use super::wal::Row;
use crate::analysis::page_check::PageDamage;
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
];

/// A damaged page as a row. `path` is relative to the data directory, `offset` where it starts in that file.
#[must_use]
pub fn bad_page_row(page: PageId, damage: &PageDamage, relation: Option<&str>, path: &str, offset: u64) -> Row {
    let mut row = Row::new();
    for (name, value) in [
        ("spc_oid", json!(page.rel.spc_oid)),
        ("db_oid", json!(page.rel.db_oid)),
        ("rel_number", json!(page.rel.rel_number)),
        ("relation", json!(relation)),
        ("fork", json!(page.fork.name())),
        ("block", json!(page.block)),
        ("path", json!(path)),
        ("offset", json!(format!("{offset:#X}"))),
        ("disk", json!("damaged")),
        ("checksum_stored", json!(damage.checksum.map(|sums| sums.stored))),
        ("checksum_computed", json!(damage.checksum.map(|sums| sums.computed))),
        ("server_rejects", json!(damage.server_rejects)),
        ("faults", json!(damage.structure())),
        ("fault_codes", json!(damage.structure_codes())),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}
