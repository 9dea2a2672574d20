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

#[test]
fn clean_shutdown_raises_no_alarm() {
    let ran = innodb("check", &field("mysql97-clean-shutdown-false-alarm"));
    assert!(kinds(&ran).is_empty(), "{:?}", kinds(&ran));
    assert!(ran.of_type("page").is_empty());
    let summary = ran.of_type("summary").remove(0);
    assert_eq!((&summary["end_lsn"], &summary["shut_down_cleanly"]), (&"20764554".into(), &true.into()));
    assert!(ran.of_type("skipped").is_empty(), "{}", ran.stdout);
}

/// The server restored both pages from the first file.
#[test]
fn second_file_that_was_never_used_is_not_lost() {
    let ran = innodb("check", &field("mysql97-second-dblwr-never-used"));
    assert!(!kinds(&ran).contains(&"innodb_buffer_incomplete".into()));
    assert!(ran.of_type("skipped").is_empty(), "{}", ran.stdout);
    let pages = ran.of_type("page");
    let numbers: Vec<u64> = pages.iter().map(|page| page["page_no"].as_u64().expect("number")).collect();
    assert_eq!(numbers, [5, 6]);
    assert!(pages.iter().all(|page| page["chosen"].is_u64()), "{pages:?}");
    assert_eq!(ran.of_type("summary")[0]["shut_down_cleanly"], false);
}

/// The server, with its key, restored the pages of the encrypted table too.
#[test]
fn pages_with_an_encrypted_image_are_not_judged() {
    let data = field("mariadb-encrypted-torn");
    let ran = innodb("check", &data);
    assert_eq!(ran.status, 2, "images were not read");
    assert!(ran.of_type("skipped").iter().any(|one| one["cause"] == "encrypted"), "{}", ran.stdout);
    let pages = ran.of_type("page");
    assert_eq!(pages.len(), 6);
    for page in &pages {
        let is_encrypted = page["path"] == "e/enc.ibd";
        assert_eq!(page["holds"] == "encrypted", is_encrypted, "{page}");
        assert_ne!(page["holds"], "no_image", "{page}");
        assert!(!is_encrypted || page["chosen"].is_null(), "{page}");
    }
    for slot in innodb("dump", &data)
        .of_type("slot")
        .iter()
        .filter(|slot| [3, 4].map(Value::from).contains(&slot["slot_index"]))
    {
        assert!(slot["space_id"].is_null(), "{slot}");
    }
}

/// The server wrote older images over 43 whole pages, page 10 among them.
#[test]
fn whole_pages_newer_than_the_log_are_listed_with_their_older_images() {
    let data = field("mariadb-newer-than-log");
    let ran = innodb("check", &data);
    assert_eq!(ran.status, 1);
    for kind in ["innodb_redo_behind", "innodb_older_images"] {
        assert!(kinds(&ran).contains(&kind.into()), "{:?}", kinds(&ran));
    }
    let is_older = |page: &&Value| page["newer_than_log"] == true && page["holds"] == "older";
    assert_eq!(ran.of_type("page").iter().filter(is_older).count(), 43);
    let ran = dwbinspect(&["innodb", "page", "--format", "ndjson", arg(&data), "s/o", "10"]);
    let page = ran.of_type("page").remove(0);
    assert_eq!((&page["holds"], &page["page_checksum"]), (&"older".into(), &"good".into()), "{page}");
}
