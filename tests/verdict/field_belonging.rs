//! Clusters whose files are of different times, histories or clusters: nothing is proven, and no answer is "clean".

use crate::common::edit::ClusterCopy;
use crate::common::{arg, dwbinspect, unpack};

/// Codes of findings and pages that are offered as free of loss, of a check; and the statuses of `check` and `verify`.
fn examined(case: &str) -> (Vec<String>, usize, [i32; 2], String) {
    let data = unpack::unpack(&format!("field/{case}")).expect("unpack fixture").join("data");
    let check = dwbinspect(&["check", "--format", "ndjson", arg(&data)]);
    let verify = dwbinspect(&["verify", "--format", "ndjson", arg(&data)]);
    let codes = check.of_type("finding").iter().map(|found| found["kind"].as_str().unwrap().to_owned()).collect();
    let proven = |page: &&serde_json::Value| page["verdict"] == "restore" || page["verdict"] == "rebuild";
    let proven = check.of_type("page").iter().filter(proven).count();
    let start =
        check.of_type("summary").first().map(|found| found["on_start"]["start"].to_string()).unwrap_or_default();
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
    let found = verify.of_type("finding").into_iter().find(|found| found["kind"] == "row_multixact").unwrap();
    assert_eq!((found["file"].as_str(), found["offset"].as_str()), (Some("base/5/16384"), Some("0x6000")), "{found}");
    assert!(found["what"].to_string().contains("block 3 item 5 has 3430008"), "{found}");
}

/// `page` of this block: findings with a file and what is said of the page.
fn examined_page(case: &str, file: &str, block: &str, code: &str) {
    let data = unpack::unpack(&format!("field/{case}")).expect("unpack fixture").join("data");
    let ran = dwbinspect(&["page", "--format", "ndjson", arg(&data), file, block]);
    let findings = ran.of_type("finding");
    assert!(findings.iter().any(|found| found["kind"] == code && found["file"] == file), "{findings:?}");
    assert_eq!(ran.status, 1, "{findings:?}");
    assert_eq!(ran.of_type("page")[0]["reason_codes"], serde_json::json!(["sound_by_itself"]));
    // A page beside it is not blamed.
    let ran = dwbinspect(&["page", "--format", "ndjson", arg(&data), file, "1"]);
    assert_eq!(ran.of_type("page")[0]["reason_codes"], serde_json::json!(["nothing_wrong"]));
    assert!(ran.of_type("finding").iter().all(|found| found["kind"] != "page_of_other_kind"), "{}", ran.stdout);
}

#[test]
fn page_of_a_table_in_an_index_is_damage() {
    let (codes, proven, statuses, _) = examined("misplaced_write_other_kind");
    assert!(codes.iter().any(|code| code == "page_of_other_kind"), "{codes:?}");
    assert_eq!((proven, statuses), (0, [1, 1]));
    examined_page("misplaced_write_other_kind", "base/5/16387", "0", "page_of_other_kind");
}

#[test]
fn zeroed_metapage_of_an_index_is_damage() {
    let (codes, proven, statuses, _) = examined("zero_metapage_catalog_index");
    assert!(codes.iter().any(|code| code == "first_page_zeroed"), "{codes:?}");
    assert_eq!((proven, statuses), (0, [1, 1]));
    examined_page("zero_metapage_catalog_index", "base/5/2662", "0", "first_page_zeroed");
}

#[test]
fn encrypted_relations_are_not_examined_and_nothing_is_proven() {
    let place = unpack::unpack("field/pg_tde_encrypted_relation").expect("unpack fixture");
    let (data, archive) = (place.join("data"), place.join("arch"));
    let ran = dwbinspect(&["check", "--format", "ndjson", "--wal", arg(&archive), arg(&data)]);
    assert_eq!(ran.status, 2);
    let pages = ran.of_type("page");
    assert!(!pages.iter().any(|page| page["verdict"] == "restore" || page["verdict"] == "rebuild"), "{pages:?}");
    for file in ["base/5/16384", "base/5/16390"] {
        let skipped = ran.of_type("skipped");
        assert!(skipped.iter().any(|skip| skip.to_string().contains(file)), "{file}: {skipped:?}");
    }
}

/// Verdicts of the pages of a check with a donor and an archive, and what is said of them.
fn with_donor(case: &str, archive: &str) -> (i32, Vec<serde_json::Value>, Vec<serde_json::Value>) {
    let place = unpack::unpack(&format!("field/{case}")).expect("unpack fixture");
    let (data, donor, archive) = (place.join("data"), place.join("donor"), place.join(archive));
    let args = ["check", "--format", "ndjson", "--donor", arg(&donor), "--wal", arg(&archive), arg(&data)];
    let ran = dwbinspect(&args);
    (ran.status, ran.of_type("page"), ran.of_type("finding"))
}

#[test]
fn donor_that_went_its_own_way_proves_nothing() {
    let (status, pages, findings) = with_donor("diverged_clone_proven", "archprod");
    assert_ne!(status, 0);
    assert!(pages.iter().all(|page| page["verdict"] != "restore" && page["verdict"] != "rebuild"), "{pages:?}");
    // Copies of a segment differ, and records of both hold after that: none of them proves anything.
    assert!(findings.iter().any(|found| found["kind"] == "wal_copies_differ"), "{findings:?}");
}

/// The table b2 is whole: production never had the record that the clone's archive has of it.
#[test]
fn archive_of_a_clone_is_not_of_this_history() {
    let place = unpack::unpack("field/diverged_clone_proven").expect("unpack fixture");
    let (data, archive) = (place.join("data"), place.join("archtest"));
    let ran = dwbinspect(&["check", "--format", "ndjson", "--wal", arg(&archive), arg(&data)]);
    let findings = ran.of_type("finding");
    assert_eq!(ran.status, 2, "{findings:?}");
    assert!(findings.iter().any(|found| found["kind"] == "wal_diverged"), "{findings:?}");
    assert!(findings.iter().all(|found| found["kind"] != "commits_lost"), "{findings:?}");
    let pages = ran.of_type("page");
    assert!(pages.iter().all(|page| page["rel_number"] != 16389), "{pages:?}");
    assert!(pages.iter().all(|page| page["verdict"] == "no_image"), "{pages:?}");
}

#[test]
fn donor_that_is_not_of_one_moment_proves_nothing() {
    let (status, pages, _) = with_donor("donor_rsync_stopped_midway", "arch");
    assert_ne!(status, 0);
    assert!(pages.iter().all(|page| page["verdict"] != "restore" && page["verdict"] != "rebuild"), "{pages:?}");
    assert!(pages.iter().any(|page| page.to_string().contains("donor_older_than_disk")), "{pages:?}");
}

/// A manifest that cannot be read may have listed a label.
#[test]
fn manifest_that_cannot_be_read_is_not_passed_over() {
    let case = ClusterCopy::of_archive("field/backup_label_removed_manifest_left");
    let text = case.read("backup_manifest");
    for length in [0, text.len() / 2] {
        case.write("backup_manifest", &text[..length]);
        for command in ["check", "verify"] {
            let ran = dwbinspect(&[command, "--format", "ndjson", arg(case.data())]);
            assert_eq!(ran.status, 2, "{command}: {}", ran.stdout);
            assert!(ran.of_type("skipped").iter().any(|skipped| skipped["what"] == "backup_manifest"), "{command}");
        }
    }
}

/// Whoever renames the label by hand does what a server does that recovers from it: only `pg_control` tells, by the end of the backup.
#[test]
fn label_that_was_renamed_by_hand_is_gone_too() {
    let case = ClusterCopy::of_archive("field/backup_label_removed_manifest_left");
    case.write(
        "backup_label.old",
        b"START WAL LOCATION: 0/1100028 (file 000000010000000000000011)\nSTART TIMELINE: 1\n",
    );
    let text = String::from_utf8(case.read("backup_manifest")).expect("text");
    for end in ["0/1F00100", "not an LSN"] {
        case.write("backup_manifest", text.replace("0/1F00100", end).as_bytes());
        for command in ["check", "verify"] {
            let ran = dwbinspect(&[command, "--format", "ndjson", arg(case.data())]);
            assert!(ran.of_type("finding").iter().any(|found| found["kind"] == "label_gone"), "{end}: {}", ran.stdout);
        }
    }
}
