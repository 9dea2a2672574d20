//! Clusters whose files are of different times, histories or clusters: nothing is proven, and no answer is "clean".

use crate::common::{arg, dwbinspect, unpack};

/// Codes of findings and pages that are offered as free of loss, of a check; and the statuses of `check` and `verify`.
fn examined(case: &str) -> (Vec<String>, usize, [i32; 2], String) {
    let data = unpack::unpack(&format!("field/{case}")).expect("unpack fixture").join("data");
    let check = dwbinspect(&["check", "--format", "ndjson", arg(&data)]);
    let verify = dwbinspect(&["verify", "--format", "ndjson", arg(&data)]);
    let codes = check.of_type("finding").iter().map(|found| found["code"].as_str().unwrap().to_owned()).collect();
    let proven = |page: &&serde_json::Value| page["verdict"] == "restore" || page["verdict"] == "rebuild";
    let proven = check.of_type("page").iter().filter(proven).count();
    let start = check.of_type("summary").first().map(|found| found["startup"].to_string()).unwrap_or_default();
    (codes, proven, [check.status, verify.status], start)
}

fn assert_found(case: &str, code: &str, start: &str) {
    let (codes, proven, statuses, outlook) = examined(case);
    assert!(codes.iter().any(|found| found == code), "{case}: {codes:?}");
    assert_eq!(proven, 0, "{case}");
    assert!(statuses.iter().all(|status| *status != 0), "{case}: {statuses:?}");
    assert!(outlook.contains(start), "{case}: {outlook}");
}

#[test]
fn removed_label_is_named() {
    assert_found("backup_label_removed_manifest_left", "label_gone", "not_usable");
}

#[test]
fn databases_that_no_row_names_are_of_another_cluster() {
    assert_found("base_of_other_cluster", "database_unknown", "not_usable");
}

#[test]
fn pages_newer_than_a_shutdown_are_of_another_server() {
    assert_found("upgrade_link_old_cluster", "page_after_shutdown", "not_usable");
}

#[test]
fn rows_ahead_of_the_next_transaction_are_of_another_time() {
    assert_found("resetwal_f_then_started", "xids_ahead", "not_usable");
}

#[test]
fn timeline_that_forked_before_the_checkpoint_stops_a_standby() {
    assert_found("standby_forked_history_in_pg_wal", "timeline_forked", "cannot_begin");
}

/// The server, in `VACUUM`: "MultiXactId 3430008 has not been created yet". Block 3 begins at 24576.
#[test]
fn one_row_with_a_multixact_of_the_future_is_named_by_block_and_item() {
    let (codes, _, statuses, _) = examined("heap_tuple_multixact_future");
    assert!(codes.iter().any(|code| code == "row_multixact"), "{codes:?}");
    assert_eq!(statuses, [1, 1]);
    let data = unpack::unpack("field/heap_tuple_multixact_future").unwrap().join("data");
    let verify = dwbinspect(&["verify", "--format", "ndjson", arg(&data)]);
    let found = verify.of_type("finding").into_iter().find(|found| found["code"] == "row_multixact").unwrap();
    assert_eq!((found["file"].as_str(), found["offset"].as_u64()), (Some("base/5/16384"), Some(24_576)), "{found}");
    assert!(found["message"].to_string().contains("block 3 item 5 names 3430008"), "{found}");
}
