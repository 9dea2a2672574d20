//! Directories of MySQL and MariaDB from reports, with what servers made of them (`fixtures/field/README.md`).

use std::path::PathBuf;

use serde_json::Value;

use crate::common::{Ran, arg, dwbinspect, unpack};
use crate::innodb_variants::innodb;

fn field(case: &str) -> PathBuf {
    unpack::data_dir(&format!("field/{case}")).expect("unpack")
}

fn kinds(ran: &Ran) -> Vec<Value> {
    ran.of_type("finding").into_iter().map(|finding| finding["kind"].clone()).collect()
}

/// `sys/sys_config.ibd` is not in these archives, and nothing else is missing.
fn assert_only_sys_config_is_missing(ran: &Ran) {
    let skipped = ran.of_type("skipped");
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert_eq!(skipped[0]["cause"], "named_file_missing");
    assert_eq!(skipped[0]["what"], "sys/sys_config.ibd");
}

#[test]
fn clean_shutdown_raises_no_alarm() {
    let ran = innodb("check", &field("mysql97-clean-shutdown-false-alarm"));
    assert!(kinds(&ran).is_empty(), "{:?}", kinds(&ran));
    assert!(ran.of_type("page").is_empty());
    assert_only_sys_config_is_missing(&ran);
}

/// The server restored both pages from the first file.
#[test]
fn second_file_that_was_never_used_is_not_lost() {
    let ran = innodb("check", &field("mysql97-second-dblwr-never-used"));
    assert!(!kinds(&ran).contains(&"innodb_buffer_incomplete".into()));
    assert_only_sys_config_is_missing(&ran);
    let pages = ran.of_type("page");
    let found: Vec<(u64, &Value)> =
        pages.iter().map(|page| (page["page_no"].as_u64().expect("number"), &page["verdict"])).collect();
    assert_eq!(found, [(5, &"server_restores".into()), (6, &"server_restores".into())]);
}

/// The server, with its key, restored the pages of the encrypted table too.
#[test]
fn pages_with_an_encrypted_image_are_not_judged() {
    let data = field("mariadb-encrypted-torn");
    let ran = innodb("check", &data);
    assert_eq!(ran.status, 1);
    let pages = ran.of_type("page");
    assert_eq!(pages.len(), 6);
    for page in &pages {
        let is_encrypted = page["path"] == "e/enc.ibd";
        let reasons = page["reason_codes"].as_array().expect("reasons");
        assert_eq!(reasons.contains(&"encrypted_image".into()), is_encrypted, "{page}");
        if is_encrypted {
            assert_eq!((&page["verdict"], &page["on_start"]), (&"unknown".into(), &"unknown".into()), "{page}");
        } else {
            assert_ne!(page["verdict"], "no_image", "{page}");
        }
    }
    for slot in innodb("dump", &data)
        .of_type("slot")
        .iter()
        .filter(|slot| [3, 4].map(Value::from).contains(&slot["slot_index"]))
    {
        assert!(slot["space_id"].is_null(), "{slot}");
    }
}

/// The server wrote older images over 43 whole pages, this one among them.
#[test]
fn whole_page_that_is_newer_than_the_log_is_no_matter_of_nothing_to_do() {
    let data = field("mariadb-newer-than-log");
    let ran = innodb("check", &data);
    assert_eq!((ran.status, kinds(&ran).contains(&"innodb_redo_behind".into())), (1, true));
    let ran = dwbinspect(&["innodb", "page", "--format", "ndjson", arg(&data), "s/o", "10"]);
    let page = ran.of_type("page").remove(0);
    assert_eq!(page["on_start"], "unknown", "{page}");
    assert_eq!(page["reason_codes"], serde_json::json!(["page_newer_than_log"]));
}
