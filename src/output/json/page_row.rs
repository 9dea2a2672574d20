//! JSON of a row of a page, or an entry of an index.

use serde_json::json;

use super::page::put_page;
use super::wal::Row;
use crate::output::page_rows::{RowDetail, RowsOf};
use crate::types::PageId;

/// The item at `index` on disk and in an image; `candidate` is the index of that image among the candidates of the page.
pub(crate) fn page_row_row(page: PageId, of: &RowsOf<'_>, candidate: Option<usize>, index: usize) -> Row {
    let mut row = Row::new();
    put_page(&mut row, page);
    let pair = of.rows.pairs.get(index);
    let details = of
        .details(index)
        .into_iter()
        .map(|RowDetail { name, disk, image }| json!({"name": name, "disk": disk, "image": image}));
    for (name, value) in [
        ("candidate", json!(candidate)),
        ("kind", json!(of.rows.kind.name())),
        ("item", json!(pair.map(|pair| pair.number()))),
        ("disk_item", json!(pair.and_then(|pair| pair.disk.as_ref()).map(|item| item.number))),
        ("image_item", json!(pair.and_then(|pair| pair.image.as_ref()).map(|item| item.number))),
        ("fate", json!(pair.map(|pair| pair.fate.code()))),
        ("columns", json!(of.columns.as_ref().err().map_or("known", |why| why.code()))),
        ("details", json!(details.collect::<Vec<_>>())),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}
