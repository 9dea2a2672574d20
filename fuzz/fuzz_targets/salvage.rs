//! Any bytes as what is left of a cluster: catalogs, transaction status and a table. Rows are counted, and no more than fit into the pages.
#![no_main]

use std::fs;
use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use pgforensics::salvage::{Salvage, SalvageOptions, WalFacts};

/// Most tuples of a page of 8 kB: those with line pointers, and those found without.
const MAX_ROWS: u64 = 2 * 8192 / 24;

/// Files, in the order of the parts of the input.
const FILES: [&str; 4] = ["base/5/1259", "base/5/1249", "pg_xact/0000", "base/5/16384"];

fuzz_target!(|data: &[u8]| {
    let root = pgforensics_fuzz::directory().join("cluster");
    for (file, bytes) in FILES.iter().zip(pgforensics_fuzz::parts::<4>(data)) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    fs::write(root.join("PG_VERSION"), "15").unwrap();
    let counted = || {
        let opened = Salvage::open(&root, None);
        let list = |found: Salvage| {
            found.list(&WalFacts::default(), &SalvageOptions::default(), &|| ControlFlow::Continue(()))
        };
        opened.and_then(list).map(|report| {
            let numbers = report.tables.iter().map(|table| [table.rows, table.uncertain, table.deleted, table.pages]);
            numbers.collect::<Vec<_>>()
        })
    };
    if let Ok(counts) = counted() {
        for [rows, uncertain, deleted, pages] in &counts {
            assert!(rows + uncertain + deleted <= pages * MAX_ROWS);
        }
        assert_eq!(counted().ok(), Some(counts));
    }
});
