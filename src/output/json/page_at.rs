//! JSON of a page as it was.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::page::{PageLocation, PlacedPageJson, hex};
use super::scalars::{BuiltOn, HexBytes, LsnText, PointerState};
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

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PageAtJson {
    #[serde(flatten)]
    page_id: PlacedPageJson,
    /// The moment: no record that ends later was replayed
    at_lsn: LsnText,
    /// Its base: `image` or `record` in WAL, `empty`, `dwb`, `donor`
    base: BuiltOn,
    /// Start of that record, or LSN of that copy
    base_lsn: LsnText,
    /// How many records of the page were replayed
    records: u64,
    /// Start of the first and of the last of them
    first_lsn: Option<LsnText>,
    last_lsn: Option<LsnText>,
    /// LSN of the page
    page_lsn: Option<LsnText>,
    /// Version of the server that replayed
    server: String,
    /// Directory that was left, with `--keep-sandbox`
    sandbox: Option<String>,
    /// File that the page was written to, with `--images`
    file: Option<String>,
    /// Header of the page: see `page_at.header`
    header: Option<PageHeaderJson>,
    /// Its line pointers, where it has them: see `page_at.items[]`
    items: Option<Vec<PageItemJson>>,
    /// Its bytes in hex
    page: HexBytes,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page_at.header")]
struct PageHeaderJson {
    /// Fields of the page header
    pd_lsn: LsnText,
    pd_checksum: u16,
    pd_flags: u16,
    pd_lower: u16,
    pd_upper: u16,
    pd_special: u16,
    pd_pagesize_version: u16,
    pd_prune_xid: u32,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page_at.items")]
struct PageItemJson {
    /// Number of the item
    item: u32,
    /// Offset of its tuple; for a redirected item, the number of another item
    offset: u16,
    length: u16,
    /// `unused`, `normal`, `redirect`, `dead`
    state: PointerState,
}

impl PageAtJson {
    /// A page as it was. `file`: where it was written.
    pub(crate) fn new(then: &PageThen<'_>, location: &PageLocation<'_>, file: Option<&str>) -> Self {
        let PageThen { lsn, plan, built, server, sandbox } = then;
        let header = PageHeader::decode(0, &built.bytes).ok();
        Self {
            page_id: PlacedPageJson::new(built.page, location),
            at_lsn: lsn.into(),
            base: plan.base.name().into(),
            base_lsn: plan.base.lsn().into(),
            records: built.records,
            first_lsn: built.first_lsn.map(LsnText::from),
            last_lsn: built.last_lsn.map(LsnText::from),
            page_lsn: header.map(|header| header.lsn.into()),
            server: server.number.clone(),
            sandbox: sandbox.map(|path| path.display().to_string()),
            file: file.map(str::to_owned),
            header: header.as_ref().map(PageHeaderJson::from),
            items: header.map(|header| items(&header, built)),
            page: hex(&built.bytes),
        }
    }
}

impl From<&PageHeader> for PageHeaderJson {
    fn from(header: &PageHeader) -> Self {
        Self {
            pd_lsn: header.lsn.into(),
            pd_checksum: header.checksum,
            pd_flags: header.flags,
            pd_lower: header.lower,
            pd_upper: header.upper,
            pd_special: header.special,
            pd_pagesize_version: header.pagesize_version,
            pd_prune_xid: header.prune_xid,
        }
    }
}

/// Line pointers, where the page has them.
fn items(header: &PageHeader, built: &BuiltPage) -> Vec<PageItemJson> {
    if !PageKind::of(header, &built.bytes, built.page.fork).has_line_pointers() {
        return Vec::new();
    }
    let pointers = line_pointers(header, &built.bytes).zip(1_u32..);
    let json = |(pointer, item): (crate::parsers::page::LinePointer, u32)| PageItemJson {
        item,
        offset: pointer.offset(),
        length: pointer.length(),
        state: pointer.state().name().into(),
    };
    pointers.map(json).collect()
}
