//! Any bytes as a page of a catalog: tuples stay on the page, errors inside the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::parsers::catalog::{ClassRow, DatabaseRow, NamedRow, RowBytes};
use pgforensics::parsers::heap::{TupleHeader, XactStatus, first_tuple_fault, page_tuples};
use pgforensics::parsers::page::PageHeader;
use pgforensics::parsers::wal::version::Major;

fuzz_target!(|data: &[u8]| {
    let Ok(page) = PageHeader::decode(0, data) else { return };
    assert!(first_tuple_fault(&page, data).is_none_or(|(item, _)| item * 4 <= data.len()));
    for tuple in page_tuples(&page, data) {
        assert!(tuple.offset + tuple.bytes.len() <= data.len());
        let Ok(header) = TupleHeader::decode(0, tuple.bytes) else { continue };
        header.liveness(|xid| XactStatus::from_bits((xid & 3) as u8));
        let row = RowBytes { catalog: "pg_class", base: 0, tuple: tuple.bytes, header, page_lsn: page.lsn };
        for major in Major::ALL {
            let layout = major.facts().catalog;
            let class = ClassRow::decode(layout, &row);
            assert!(class.is_err() || tuple.bytes.len() >= 112);
            drop((NamedRow::decode(layout, &row), DatabaseRow::decode(layout, &row)));
        }
    }
});
