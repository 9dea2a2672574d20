//! JSON of a page as it was.

use std::path::Path;

use serde_json::{Value, json};

use super::lsn_text;
use super::page::{PageLocation, hex, identity};
use super::wal::Row;
use crate::analysis::verdict::rebuild::RebuildPlan;
use crate::parsers::page::{PageHeader, line_pointers};
use crate::parsers::page_kind::PageKind;
use crate::rebuild::{BuiltPage, ServerVersion};
use crate::types::Lsn;

pub(crate) const PAGE_AT_COLUMNS: &[&str] = &[
    "spc_oid",
    "db_oid",
    "rel_number",
    "relation",
    "fork",
    "block",
    "path",
    "at_lsn",
    "base",
    "base_lsn",
    "records",
    "first_lsn",
    "last_lsn",
    "page_lsn",
    "server",
    "sandbox",
    "file",
    "page",
];

#[derive(Clone, Copy)]
pub(crate) struct PageThen<'a> {
    pub lsn: Lsn,
    pub plan: &'a RebuildPlan,
    pub built: &'a BuiltPage,
    pub server: &'a ServerVersion,
    /// The sandbox, where it was kept.
    pub sandbox: Option<&'a Path>,
}

/// A page as it was. `file`: where it was written.
pub(crate) fn page_at_row(then: &PageThen<'_>, location: &PageLocation<'_>, file: Option<&str>) -> Row {
    let PageThen { lsn, plan, built, server, sandbox } = then;
    let mut row = Row::new();
    identity(&mut row, built.page, location);
    let header = PageHeader::decode(0, &built.bytes).ok();
    for (name, value) in [
        ("at_lsn", json!(lsn_text(*lsn))),
        ("base", json!(plan.base.name())),
        ("base_lsn", json!(lsn_text(plan.base.lsn()))),
        ("records", json!(built.records)),
        ("first_lsn", json!(built.first_lsn.map(lsn_text))),
        ("last_lsn", json!(built.last_lsn.map(lsn_text))),
        ("page_lsn", json!(header.map(|header| lsn_text(header.lsn)))),
        ("server", json!(server.number)),
        ("sandbox", json!(sandbox.map(|path| path.display().to_string()))),
        ("file", json!(file)),
        ("header", json!(header.map(|header| header_value(&header)))),
        ("items", json!(header.map(|header| items_value(&header, built)))),
        ("page", json!(hex(&built.bytes))),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}

fn header_value(header: &PageHeader) -> Value {
    json!({
        "pd_lsn": lsn_text(header.lsn),
        "pd_checksum": header.checksum,
        "pd_flags": header.flags,
        "pd_lower": header.lower,
        "pd_upper": header.upper,
        "pd_special": header.special,
        "pd_pagesize_version": header.pagesize_version,
        "pd_prune_xid": header.prune_xid,
    })
}

/// Line pointers, where the page has them.
fn items_value(header: &PageHeader, built: &BuiltPage) -> Vec<Value> {
    if !PageKind::of(header, &built.bytes, built.page.fork).has_line_pointers() {
        return Vec::new();
    }
    let pointers = line_pointers(header, &built.bytes).zip(1_u32..);
    pointers
        .map(|(pointer, item)| {
            json!({
                "item": item,
                "offset": pointer.offset(),
                "length": pointer.length(),
                "state": pointer.state().name(),
            })
        })
        .collect()
}
