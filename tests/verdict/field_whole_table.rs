//! A table is put back as a whole: where a file ends before pages that WAL fills, no page of that table is called free of loss.

use crate::common::{arg, dwbinspect, unpack};

#[test]
fn pages_of_a_table_that_cannot_be_made_whole_are_not_called_rebuildable() {
    let place = unpack::unpack("field/old_base_new_wal_beyond_end").expect("unpack fixture");
    let (data, archive) = (place.join("data"), place.join("arch"));
    let ran = dwbinspect(&["check", "--format", "ndjson", "--wal", arg(&archive), arg(&data)]);
    assert_eq!(ran.status, 1);
    let pages = ran.of_type("page");
    let says = |page: &serde_json::Value, code: &str| {
        page["reason_codes"].as_array().into_iter().flatten().any(|reason| reason == code)
    };
    // File numbers of two tables and their indexes, from the catalog; the files of all but one end too early.
    for (table, numbers, outdated, missing) in
        [("acct", [16384, 16389, 16391].as_slice(), 70, 42), ("evt", [16462, 16469].as_slice(), 9, 8)]
    {
        let of_table = || pages.iter().filter(|page| numbers.iter().any(|number| page["rel_number"] == *number));
        let older = of_table().filter(|page| page["disk"] == "disk_older");
        assert!(older.clone().all(|page| says(page, "table_stays_behind")), "{table}");
        let cut = of_table().filter(|page| page["disk"] == "beyond_end");
        assert!(cut.clone().all(|page| says(page, "page_cut_off")), "{table}");
        assert_eq!((older.count(), cut.count()), (outdated, missing), "{table}");
    }
    // A table of which every page can be built is not held back by the others.
    let doc = || pages.iter().filter(|page| page["rel_number"] == 16393 || page["rel_number"] == 16397);
    assert!(doc().all(|page| says(page, "can_be_rebuilt") && !says(page, "table_stays_behind")));
    assert_eq!(doc().count(), 10);
}
