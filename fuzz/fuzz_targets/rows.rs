//! Any bytes as rows: as rows of `pg_attribute`, as a page of a table or of an index with columns of any shape, and as values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::analysis::pages::page_rows::PageRows;
use pgforensics::parsers::heap::{TupleHeader, page_tuples};
use pgforensics::parsers::page::PageHeader;
use pgforensics::parsers::page_kind::PageKind;
use pgforensics::parsers::tuple::attribute::{AttributeLayout, AttributeRow};
use pgforensics::parsers::tuple::columns::{ColumnShape, MAX_UNPACKED, Stored, row_columns, unpack};
use pgforensics::parsers::tuple::index::IndexEntry;
use pgforensics::parsers::tuple::value::Value;
use pgforensics::types::{ForkNumber, PageId, RelFileLocator};

fuzz_target!(|data: &[u8]| {
    let (shapes, page) = data.split_at(data.len().min(16));
    let shapes: Vec<ColumnShape> = shapes
        .iter()
        .map(|byte| ColumnShape { length: i16::from(*byte as i8 >> 1), alignment: 1 << (byte & 3) })
        .collect();
    let rows: Vec<&[u8]> = page.chunks(112).collect();
    if let Some(layout) = AttributeLayout::of(&rows) {
        for row in &rows {
            let _ = AttributeRow::decode(&layout, row);
        }
        let _ = layout.types(&rows);
    }
    let Ok(header) = PageHeader::decode(0, page) else { return };
    let kind = PageKind::of(&header, page, ForkNumber::Main);
    for tuple in page_tuples(&header, page) {
        let mut found = Vec::new();
        if let Ok(head) = TupleHeader::decode(0, tuple.bytes) {
            found.extend(row_columns(&head, tuple.bytes, &shapes));
        }
        if let Some(entry) = IndexEntry::decode(&header, page, kind, tuple.item, tuple.bytes) {
            assert!(entry.data.len() <= tuple.bytes.len());
            found.extend(entry.stored(&shapes));
        }
        for (column, type_oid) in found.into_iter().zip((16..).chain(650..)) {
            match column {
                Stored::Plain(bytes) => {
                    assert!(bytes.len() <= tuple.bytes.len());
                    for type_oid in [type_oid, 23, 25, 869, 1007, 1009, 1186, 1231, 1562, 1700] {
                        let _ = Value::decode(type_oid, bytes);
                    }
                }
                Stored::Compressed { method, raw_bytes, bytes } => {
                    assert!(unpack(method, raw_bytes, bytes).is_none_or(|found| found.len() <= MAX_UNPACKED));
                }
                _ => {}
            }
        }
    }
    let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16_384 };
    let id = PageId { rel, fork: ForkNumber::Main, block: 0 };
    let (front, back) = page.split_at(page.len() / 2);
    for (disk, image) in [(page, page), (front, back), (back, page)] {
        let rows = PageRows::compare(id, Some(disk), Some(image));
        let items = rows.pairs.iter().flat_map(|pair| [&pair.disk, &pair.image]).flatten();
        assert!(items.filter_map(|item| item.tuple.as_ref()).all(|range| range.end <= page.len()));
    }
});
