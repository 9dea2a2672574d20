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

fn offset_of(line: &Value) -> u64 {
    let digits = line["offset"].as_str().expect("offset").trim_start_matches("0x");
    u64::from_str_radix(digits, 16).expect("hexadecimal")
}

pub fn start_of(data: &Path) -> Value {
    innodb("check", data).of_type("summary").remove(0)["start"].clone()
}

/// Damaged pages that no image gives back as it should be become zeros, which are a page that was never written.
pub fn forget_what_is_lost(data: &Path) {
    for page in innodb("check", data).of_type("page") {
        if page["verdict"] != "server_restores" {
            write_at(&data.join(page["path"].as_str().unwrap()), &[0; 16384], offset_of(&page));
            for candidate in page["candidates"].as_array().unwrap() {
                // Its images would be written over the zeros: of them a number that no tablespace has is made.
                let at = slot_offset(data, candidate);
                write_at(&data.join(candidate["file"].as_str().unwrap()), &[0x7F; 4], at + 34);
            }
        }
    }
}

fn slot_offset(data: &Path, candidate: &Value) -> u64 {
    let is_it = |slot: &&Value| slot["file"] == candidate["file"] && slot["slot_index"] == candidate["slot_index"];
    offset_of(innodb("dump", data).of_type("slot").iter().find(is_it).expect("a slot"))
}

/// The first write of a page was torn: its first and its last sectors are still zeros. To the checksum `innodb` that is a very old
/// page. MySQL 5.6, 5.7 and 9.7 restore it, and so does MariaDB with `full_crc32`. With `crc32` MariaDB takes it for one that was never
/// written, and stopped where replay needed it.
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
            let on_start = if case == "mariadb1011-crc32" { "kept" } else { "restored" };
            assert_eq!((&found["disk"], &found["on_start"]), (&"torn".into(), &on_start.into()), "{case}: {found}");
            torn += 1;
            if torn == 3 {
                break;
            }
        }
        assert_eq!(torn, 3, "{case}");
    }
}

/// MySQL 5.6 and 9.7 stop where replay needs a page that the file has no more.
#[test]
fn file_that_was_cut_short_may_stop_a_start() {
    for case in ["mysql97", "mysql56", "mariadb1011"] {
        let (_kept, data) = copy_of(case);
        forget_what_is_lost(&data);
        assert_eq!(start_of(&data), "nothing_against", "{case}");
        let info = innodb("info", &data);
        let is_table = |space: &&Value| space["tablespace"].as_str().unwrap().starts_with("shop/");
        let space = info
            .of_type("tablespace")
            .into_iter()
            .filter(|space| is_table(&space))
            .max_by_key(|space| space["pages"].as_u64());
        let path = data.join(space.unwrap()["tablespace"].as_str().unwrap());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(fs::metadata(&path).unwrap().len() - 3 * 16384).unwrap();
        assert_eq!(start_of(&data), "may_stop", "{case}");
    }
}

/// What is undone or replayed after an outdated page was written may not fit it: MySQL 5.6 and 9.7 were seen to stop then.
#[test]
fn image_from_before_the_checkpoint_may_stop_a_start() {
    for case in ["mysql97", "mysql56"] {
        let (_kept, data) = copy_of(case);
        let is_outdated = |page: &Value| {
            page["on_start"] == "restored"
                && page["reason_codes"].as_array().unwrap().contains(&"image_older_than_checkpoint".into())
        };
        let outdated = innodb("check", &data).of_type("page").into_iter().find(is_outdated).expect("a page");
        let path = data.join(outdated["path"].as_str().unwrap());
        let bytes = fs::read(&path).unwrap();
        let slots = fs::read(data.join("ibdata1")).unwrap();
        let buffers: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(&data)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "dblwr"))
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        forget_what_is_lost(&data);
        assert_eq!(start_of(&data), "nothing_against", "{case}");
        // That page alone is put back, with its images.
        let at = offset_of(&outdated) as usize;
        write_at(&path, &bytes[at..at + 16384], at as u64);
        for candidate in outdated["candidates"].as_array().unwrap() {
            let file = data.join(candidate["file"].as_str().unwrap());
            let at = slot_offset(&data, candidate) as usize;
            let before = buffers.iter().find(|(path, _)| *path == file).map_or(&slots, |(_, bytes)| bytes);
            write_at(&file, &before[at..at + 16384], at as u64);
        }
        assert_eq!(start_of(&data), "may_stop", "{case}");
    }
}

/// MySQL 8.4 gives up where redo names a tablespace whose page 0 is all zero, and no image of it is there.
#[test]
fn first_page_of_zeros_without_an_image_may_stop_a_start() {
    let (_kept, data) = copy_of("mysql97");
    forget_what_is_lost(&data);
    let dump = innodb("dump", &data);
    let named: Vec<Value> = dump.of_type("slot").into_iter().filter(|slot| slot["page_no"] == 0).collect();
    let has_no_image =
        |space: &&Value| named.iter().all(|slot| slot["space_id"] != space["space_id"]) && space["space_id"] != 0;
    let info = innodb("info", &data);
    let space = info.of_type("tablespace").iter().find(has_no_image).cloned().expect("a tablespace");
    write_at(&data.join(space["tablespace"].as_str().unwrap()), &[0; 16384], 0);
    assert_eq!(start_of(&data), "may_stop", "{space}");
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
            // MySQL 5.6 reads the page before anything else.
            let start = if case == "mysql56" && garbage > 0 { "refuses" } else { "unknown" };
            assert_eq!(start_of(&data), start, "{case}");
        }
    }
}

/// MariaDB 11.8 and MySQL 5.6 read id and flags of the system tablespace before any image, and gave up.
#[test]
fn damaged_first_page_of_the_system_tablespace_may_stop_a_start() {
    let (_kept, data) = copy_of("mysql56");
    forget_what_is_lost(&data);
    // Its image is put into a slot of another page, so that it is there and current.
    let slots = innodb("dump", &data).of_type("slot");
    let is_free = |slot: &&Value| slot["batch"] == "current" && slot["disk"] == "identical";
    let slot = slots.iter().find(is_free).expect("a slot");
    let mut page = vec![0; 16384];
    OpenOptions::new().read(true).open(data.join("ibdata1")).unwrap().read_exact_at(&mut page, 0).unwrap();
    write_at(&data.join("ibdata1"), &page, offset_of(slot));
    assert_eq!(start_of(&data), "nothing_against");
    write_at(&data.join("ibdata1"), &[0x5A; 512], 0);
    let check = innodb("check", &data);
    let is_it = |page: &&Value| page["space_id"] == 0 && page["page_no"] == 0;
    let found = check.of_type("page").iter().find(is_it).cloned().expect("the page");
    assert_eq!(found["on_start"], "restored", "{found}");
    assert_eq!(start_of(&data), "may_stop");
}

/// As MySQL 8.0.20 and later and MySQL 5.6 do it: page 0 of zeros comes back from an image since the checkpoint, and nothing is lost.
#[test]
fn first_page_of_zeros_with_an_image_stops_no_start() {
    for case in ["mysql97", "mysql56"] {
        let (_kept, data) = copy_of(case);
        forget_what_is_lost(&data);
        let info = innodb("info", &data);
        let spaces = info.of_type("tablespace");
        let of_table = |slot: &Value| {
            let is_it = |space: &&Value| space["space_id"] == slot["space_id"] && space["space_id"] != 0;
            spaces.iter().find(is_it).map(|space| space["tablespace"].as_str().unwrap().to_owned())
        };
        let is_first = |slot: &Value| {
            slot["page_no"] == 0
                && slot["batch"] == "current"
                && slot["disk"] == "identical"
                && of_table(slot).is_some()
        };
        let slot = innodb("dump", &data).of_type("slot").into_iter().find(is_first);
        let slot = slot.unwrap_or_else(|| panic!("{case}: no image of a page 0"));
        write_at(&data.join(of_table(&slot).unwrap()), &[0; 16384], 0);
        let check = innodb("check", &data);
        let is_it = |page: &&Value| page["page_no"] == 0 && page["space_id"] == slot["space_id"];
        let found = check.of_type("page").iter().find(is_it).cloned().expect("the page");
        assert_eq!(found["on_start"], "restored", "{case}: {found}");
        assert_eq!(start_of(&data), "nothing_against", "{case}");
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
fn file_of_noise_may_stop_a_start() {
    for case in ["mysql97", "mysql56", "mariadb1011"] {
        let (_kept, data) = copy_of(case);
        forget_what_is_lost(&data);
        assert_eq!(start_of(&data), "nothing_against", "{case}");
        let table = data.join("shop/archive.ibd");
        fs::write(&table, noise(fs::metadata(&table).unwrap().len() as usize)).unwrap();
        let check = innodb("check", &data);
        let skipped = check.of_type("skipped");
        assert!(skipped.iter().any(|one| one["cause"] == "unknown_tablespace"), "{case}: {skipped:?}");
        assert_eq!((start_of(&data), check.status), ("may_stop".into(), 2), "{case}");
    }
}

/// MySQL 9.7.4 did not start where its redo log named a file of which nothing but zeros was left.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn emptied_file_is_a_lost_table() {
    for case in ["mysql97", "mysql56", "mariadb1011"] {
        let (_kept, data) = copy_of(case);
        forget_what_is_lost(&data);
        let table = data.join("shop/archive.ibd");
        let length = fs::metadata(&table).unwrap().len() as usize;
        for left in [vec![0; length], Vec::new()] {
            fs::write(&table, left).unwrap();
            let check = innodb("check", &data);
            let skipped = check.of_type("skipped");
            let is_named = |one: &&Value| one["cause"] == "named_file_missing" && one["what"] == "shop/archive.ibd";
            assert_eq!(skipped.iter().filter(is_named).count(), 1, "{case}: {skipped:?}");
            assert_eq!(check.status, 2, "{case}");
            assert_ne!(start_of(&data), "nothing_against", "{case}");
        }
    }
}

/// A slot that was never used is the page of the system tablespace that its place is: damaged, it has no other side. MySQL 5.6.24 gave
/// up over one ("also the page in the doublewrite buffer is corrupt").
#[test]
fn damaged_slot_that_names_itself_stops_a_start() {
    let (_kept, data) = copy_of("mysql56");
    forget_what_is_lost(&data);
    assert_eq!(start_of(&data), "nothing_against");
    let slots = innodb("dump", &data).of_type("slot");
    let at = slots.iter().find(|slot| slot["page_checksum"] == "good").map(offset_of).expect("a slot");
    let system = data.join("ibdata1");
    let number = u32::try_from(at / 16384).unwrap();
    write_at(&system, &number.to_be_bytes(), at + 4);
    write_at(&system, &[0; 4], at + 34);
    let check = innodb("check", &data);
    assert_eq!((start_of(&data), check.status), ("refuses".into(), 1));
    let is_told = |one: &Value| one["kind"] == "innodb_refuses_to_start";
    assert!(check.of_type("finding").iter().any(is_told), "{}", check.stdout);
}

/// Where files cannot be read, or are not there at all, a start is not foretold from the rest.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn start_is_unknown_where_pages_could_not_be_examined() {
    for case in ["mysql97", "mysql56", "mariadb1011"] {
        let (_kept, data) = copy_of(case);
        forget_what_is_lost(&data);
        assert_eq!(start_of(&data), "nothing_against", "{case}");
        // A link that leads to itself can be read by nobody.
        for name in ["shop/archive.ibd", "shop"] {
            let (path, away) = (data.join(name), data.with_extension("away"));
            fs::rename(&path, &away).unwrap();
            std::os::unix::fs::symlink(&path, &path).unwrap();
            assert_eq!((start_of(&data), innodb("check", &data).status), ("unknown".into(), 2), "{case}: {name}");
            fs::remove_file(&path).unwrap();
            fs::rename(&away, &path).unwrap();
        }
        fs::write(data.join("shop/far.isl"), "/elsewhere/shop/far.ibd").unwrap();
        assert_eq!(start_of(&data), "unknown", "{case}: a file elsewhere");
        fs::remove_file(data.join("shop/far.isl")).unwrap();
        let (redo, edits) = match case {
            "mysql97" => ("#innodb_redo", &["missing"][..]),
            _ => ("ib_logfile0", &["missing", "zeros", "noise"][..]),
        };
        for what in edits {
            let (path, away) = (data.join(redo), data.with_extension("away"));
            fs::rename(&path, &away).unwrap();
            if *what != "missing" {
                let mut log = fs::read(&away).unwrap();
                let head = if *what == "zeros" { vec![0; 3 * 4096] } else { noise(3 * 4096) };
                log[..head.len()].copy_from_slice(&head);
                fs::write(&path, log).unwrap();
            }
            let check = innodb("check", &data);
            assert_eq!((start_of(&data), check.status), ("unknown".into(), 2), "{case}: redo log {what}");
            let skipped = check.of_type("skipped");
            assert!(skipped.iter().any(|one| one["cause"] == "checkpoint_not_found"), "{case}: {what}: {skipped:?}");
            if path.exists() {
                fs::remove_file(&path).unwrap();
            }
            fs::rename(&away, &path).unwrap();
            assert_eq!(start_of(&data), "nothing_against", "{case}: as before");
        }
        fs::remove_file(data.join("ibdata1")).unwrap();
        let check = innodb("check", &data);
        assert_eq!((start_of(&data), check.status), ("unknown".into(), 2), "{case}: no system tablespace");
        assert!(check.of_type("skipped").iter().any(|one| one["what"] == "ibdata1"), "{case}: and nothing says so");
    }
}

/// MySQL 9.7.4 with `innodb_checksum_algorithm=none` wrote images over pages that were damaged themselves: nothing in them shows that.
#[test]
fn image_without_a_checksum_is_no_proof() {
    for case in ["mysql97", "mysql56", "mariadb1011-crc32"] {
        let (_kept, data) = copy_of(case);
        let before = innodb("check", &data);
        let restored = |page: &Value| page["verdict"] == "server_restores";
        let page = before.of_type("page").into_iter().find(restored).expect("a page");
        let chosen = &page["candidates"][page["chosen"].as_u64().unwrap() as usize];
        let at = slot_offset(&data, chosen);
        let buffer = data.join(chosen["file"].as_str().unwrap());
        for place in [0, 16384 - 8] {
            write_at(&buffer, &0xDEAD_BEEF_u32.to_be_bytes(), at + place);
        }
        write_at(&buffer, &noise(200), at + 5000);
        let after = innodb("check", &data);
        let is_it = |other: &&Value| (&other["space_id"], &other["page_no"]) == (&page["space_id"], &page["page_no"]);
        let found = after.of_type("page").iter().find(is_it).cloned().expect("the page");
        assert_eq!((&found["verdict"], &found["on_start"]), (&"restore_unproven".into(), &"restored".into()), "{case}");
        assert!(found["reason_codes"].as_array().unwrap().contains(&"image_without_checksum".into()), "{found}");
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
