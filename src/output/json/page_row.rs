//! JSON of a row of a page, or an entry of an index.

use schemars::JsonSchema;
use serde::Serialize;

use super::page::PageIdJson;
use super::scalars::{ColumnsKnown, PageKind, RowFateCode};
#[cfg(feature = "tables")]
use crate::output::page_rows::{RowDetail, RowsOf};
#[cfg(feature = "tables")]
use crate::types::PageId;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PageRowJson {
    #[serde(flatten)]
    page: PageIdJson,
    /// Index of the image among the `candidates` of the page; absent without an image
    candidate: Option<usize>,
    /// Kind of the page: `heap`, `btree`, `hash`, `gist`, ...
    kind: PageKind,
    /// Number of the item: in the image, else on disk
    item: Option<usize>,
    /// Its number on disk and in the image; absent if it is missing
    disk_item: Option<usize>,
    image_item: Option<usize>,
    /// Its fate if the image is restored: see [codes.md](codes.md#rows)
    fate: Option<RowFateCode>,
    /// `known`, or why the columns of the relation are unknown: `relation_unknown`, `no_catalog`, `catalog_unreadable`, `no_rows`
    columns: ColumnsKnown,
    /// Its line pointer, head and columns: see `page_row.details[]`
    details: Vec<DetailJson>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "page_row.details")]
struct DetailJson {
    /// `line pointer`, `xmin`, `xmax`, `cid`, `ctid`, `flags`, `columns`, `oid`, `leads to`, `item`, `bytes`, or name and type of a column
    name: String,
    /// Value on disk and in the image, as text; absent where it has none
    disk: Option<String>,
    image: Option<String>,
}

#[cfg(feature = "tables")]
impl PageRowJson {
    /// The item at `index` on disk and in an image; `candidate` is the index of that image among the candidates of the page.
    pub(crate) fn new(page: PageId, of: &RowsOf<'_>, candidate: Option<usize>, index: usize) -> Self {
        let pair = of.rows.pairs.get(index);
        let detail = |RowDetail { name, disk, image }| DetailJson { name, disk, image };
        Self {
            page: page.into(),
            candidate,
            kind: of.rows.kind.name().into(),
            item: pair.map(|pair| pair.number()),
            disk_item: pair.and_then(|pair| pair.disk.as_ref()).map(|item| item.number),
            image_item: pair.and_then(|pair| pair.image.as_ref()).map(|item| item.number),
            fate: pair.map(|pair| pair.fate.code().into()),
            columns: of.columns.as_ref().err().map_or("known", |why| why.code()).into(),
            details: of.details(index).into_iter().map(detail).collect(),
        }
    }
}
