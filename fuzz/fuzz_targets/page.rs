//! Any bytes as a page: faults are listed, and pointers never lead outside the page.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgforensics::parsers::checksum::page_checksum;
use pgforensics::parsers::page::{PageHeader, line_pointer_faults, line_pointers, page_faults};
use pgforensics::parsers::page_kind::PageKind;
use pgforensics::types::ForkNumber;

fuzz_target!(|data: &[u8]| {
    let Ok(header) = PageHeader::decode(0, data) else { return };
    assert!(line_pointers(&header, data).count() * 4 <= data.len());
    assert!(page_checksum(data, 7) > 0);
    drop((
        page_faults(&header, data),
        line_pointer_faults(&header, data),
        PageKind::of(&header, data, ForkNumber::Main),
    ));
});
