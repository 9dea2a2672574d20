//! What hundreds of crashes of servers with torn pages brought to light, on directories that are at hand: each answer is what those
//! servers did.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{Ran, arg, copy_tree, dwbinspect, unpack};

const SECTOR: usize = 512;

pub fn copy_of(case: &str) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let data = temporary.path().join("data");
    copy_tree(&unpack::data_dir(&format!("innodb/{case}")).expect("unpack"), &data);
    (temporary, data)
}

pub fn innodb(command: &str, data: &Path) -> Ran {
    dwbinspect(&["innodb", command, "--format", "ndjson", arg(data)])
}

pub fn write_at(path: &Path, bytes: &[u8], offset: u64) {
    OpenOptions::new().write(true).open(path).expect("open").write_all_at(bytes, offset).expect("write");
}

/// The first write of a page was torn: its first and its last sectors are still zeros. To the checksum `innodb` that is a very old
/// page.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn page_that_was_torn_between_zeros_is_damaged() {
    for case in ["mysql97", "mysql56", "mariadb1011", "mariadb1011-crc32"] {
        let (_kept, data) = copy_of(case);
        let info = innodb("info", &data);
        let mut torn = 0;
        for slot in innodb("dump", &data).of_type("slot") {
            let is_plain = |space: &&Value| {
                space["space_id"] == slot["space_id"]
                    && space["zip_bytes"].is_null()
                    && space["page_compression"] == false
            };
            if slot["batch"] != "current" || slot["disk"] != "identical" || slot["page_kind"] != "index" {
                continue;
            }
            let Some(space) = info.of_type("tablespace").into_iter().find(|space| is_plain(&space)) else { continue };
            let path = data.join(space["tablespace"].as_str().unwrap());
            let at = slot["page_no"].as_u64().unwrap() * 16384;
            let mut page = vec![0; 16384];
            OpenOptions::new().read(true).open(&path).unwrap().read_exact_at(&mut page, at).unwrap();
            let middle = 2 * SECTOR..20 * SECTOR;
            if page[middle.clone()].iter().all(|byte| *byte == 0) {
                continue;
            }
            page[..middle.start].fill(0);
            page[middle.end..].fill(0);
            write_at(&path, &page, at);
            let check = innodb("check", &data);
            let is_it = |page: &&Value| (&page["space_id"], &page["page_no"]) == (&slot["space_id"], &slot["page_no"]);
            let found = check.of_type("page").iter().find(is_it).cloned().unwrap_or_else(|| panic!("{case}: {slot}"));
            assert_eq!(found["disk"], "torn", "{case}: {found}");
            torn += 1;
            if torn == 3 {
                break;
            }
        }
        assert_eq!(torn, 3, "{case}");
    }
}

/// With its header lost, what lies in the usual area of slots is not taken for damaged data.
#[test]
fn slots_are_no_damaged_pages_where_their_header_is_lost() {
    for case in ["mysql56", "mariadb1011", "mariadb1011-crc32", "mariadb1011-compressed"] {
        let (_kept, data) = copy_of(case);
        let damaged = |ran: &Ran| -> Vec<Value> {
            let listed = ran.of_type("damaged_page").into_iter();
            listed.filter(|page| (&page["space_id"], &page["page_no"]) != (&0.into(), &5.into())).collect()
        };
        let before = innodb("verify", &data);
        assert!(innodb("dump", &data).of_type("slot").iter().any(|slot| slot["page_checksum"] == "bad"), "{case}");
        for garbage in [0, 0x5A] {
            write_at(&data.join("ibdata1"), &[garbage; 16384], 5 * 16384);
            let after = innodb("verify", &data);
            assert_eq!(damaged(&after), damaged(&before), "{case}");
            assert_eq!(after.status, 2, "{case}: the slots were not examined");
            assert_eq!(after.of_type("summary")[0]["doublewrite_pages"], 128, "{case}");
        }
    }
}

/// Bytes that nothing was ever written from.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// The pages of a file that nothing of is left, not even its number, are missing to replay as those that were cut off.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn file_of_noise_is_not_checked() {
    for case in ["mysql97", "mysql56", "mariadb1011"] {
        let (_kept, data) = copy_of(case);
        let table = data.join("shop/archive.ibd");
        fs::write(&table, noise(fs::metadata(&table).unwrap().len() as usize)).unwrap();
        let check = innodb("check", &data);
        let skipped = check.of_type("skipped");
        assert!(skipped.iter().any(|one| one["cause"] == "unknown_tablespace"), "{case}: {skipped:?}");
        assert_eq!(check.status, 2, "{case}");
    }
}

/// MySQL 9.7.4 did not start where its redo log named a file of which nothing but zeros was left; MariaDB makes it anew.
#[test]
fn emptied_file_of_mysql_is_a_problem() {
    for (case, status, severity) in [("mysql97", 1, "problem"), ("mysql56", 1, "problem"), ("mariadb1011", 1, "note")] {
        let (_kept, data) = copy_of(case);
        let table = data.join("shop/archive.ibd");
        let length = fs::metadata(&table).unwrap().len() as usize;
        for left in [vec![0; length], Vec::new()] {
            fs::write(&table, left).unwrap();
            let check = innodb("check", &data);
            let found = check.of_type("finding");
            let is_it = |one: &&Value| one["kind"] == "innodb_empty_file" && one["severity"] == severity;
            assert_eq!(found.iter().filter(is_it).count(), 1, "{case}: {found:?}");
            assert_eq!(check.status, status, "{case}");
        }
    }
}

/// MySQL 9.7.4 makes four blocks of 8192 bytes in the file without images, the first two of LRU batches and the others of the flush list.
#[test]
fn file_without_images_that_was_cut_is_incomplete() {
    let (_kept, data) = copy_of("mysql97-detect");
    let path = data.join("#ib_16384_0.bdblwr");
    let kept = fs::read(&path).unwrap();
    let is_incomplete = || {
        let found = innodb("check", &data).of_type("finding");
        found.iter().any(|finding| finding["kind"] == "innodb_buffer_incomplete")
    };
    assert!(kept.len() == 4 * 8192 && !is_incomplete());
    for bytes in [0, 100, 8192, 2 * 8192, 3 * 8192, 4 * 8192 - 1] {
        fs::write(&path, &kept[..bytes]).unwrap();
        assert!(is_incomplete(), "{bytes}");
    }
    // A server with more buffer pools made more of both, and the blocks of the flush list are gone.
    let lru: Vec<u8> = kept.chunks(8192).find(|block| block[8..11] != [0; 3]).unwrap().to_vec();
    let flush_type = lru[10];
    assert!(flush_type <= 1);
    fs::write(&path, lru.repeat(4)).unwrap();
    assert!(is_incomplete());
}
