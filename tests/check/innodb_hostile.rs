//! `pg_dwbinspect innodb` on bytes that no server wrote: an answer with a status, and never a panic, a hang or memory by the input.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::{Ran, arg, copy_tree, dwbinspect, unpack};

const COMMANDS: [&str; 5] = ["info", "dump", "batches", "verify", "check"];

fn copy_of(case: &str) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().expect("temporary directory");
    let data = temporary.path().join("data");
    copy_tree(&unpack::data_dir(&format!("innodb/{case}")).expect("unpack"), &data);
    (temporary, data)
}

/// Runs all commands; each must end with a status of its own and a summary.
fn run_all(data: &Path, context: &str) -> Vec<Ran> {
    let begun = Instant::now();
    let ran: Vec<Ran> =
        COMMANDS.map(|command| dwbinspect(&["innodb", command, "--format", "ndjson", arg(data)])).into();
    for (command, ran) in COMMANDS.iter().zip(&ran) {
        assert!([0, 1, 2].contains(&ran.status), "{context} {command}: {} {}", ran.status, ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{context} {command}: {}", ran.stderr);
    }
    assert!(begun.elapsed() < Duration::from_secs(120), "{context}");
    ran
}

fn has_kind(ran: &Ran, kind: &str) -> bool {
    ran.of_type("finding").iter().any(|finding| finding["kind"] == kind)
}

fn skipped_for(ran: &Ran, cause: &str) -> bool {
    ran.of_type("skipped").iter().any(|skipped| skipped["cause"] == cause)
}

/// Numbers that look random and are the same in every run.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn bytes_overwritten_everywhere() {
    let mut state = 19;
    for case in ["mysql97-detect", "mariadb1011-compressed", "mysql56"] {
        let (_kept, data) = copy_of(case);
        let mut files = Vec::new();
        list(&data, &mut files);
        for path in &files {
            let mut bytes = fs::read(path).unwrap();
            if bytes.is_empty() {
                continue;
            }
            for _ in 0..200 {
                // Most of them in the first pages, where headers are.
                let within = if next(&mut state).is_multiple_of(2) { bytes.len().min(20_000) } else { bytes.len() };
                let at = next(&mut state) as usize % within;
                bytes[at] = [0, 0xFF, 0x80, next(&mut state) as u8][next(&mut state) as usize % 4];
            }
            fs::write(path, bytes).unwrap();
        }
        run_all(&data, case);
    }
}

fn list(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { list(&path, found) } else { found.push(path) }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn files_cut_at_every_odd_length() {
    for (case, name) in [("mysql97", "#ib_16384_1.dblwr"), ("mysql56", "ibdata1"), ("mariadb1011", "shop/orders.ibd")] {
        for length in [0, 1, 37, 54, 127, 16_383, 16_385, 90_000, 1_100_000] {
            let (_kept, data) = copy_of(case);
            fs::OpenOptions::new().write(true).open(data.join(name)).unwrap().set_len(length).unwrap();
            let ran = run_all(&data, &format!("{name} cut to {length}"));
            assert!(ran.iter().any(|ran| ran.status > 0), "{name} cut to {length}");
        }
    }
}

#[test]
fn file_that_ends_inside_a_page_is_a_finding_at_its_offset() {
    let (_kept, data) = copy_of("mariadb1011");
    let path = data.join("shop/archive.ibd");
    let length = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 100).unwrap();
    let verify = dwbinspect(&["innodb", "verify", "--format", "ndjson", arg(&data)]);
    let finding =
        verify.of_type("finding").into_iter().find(|finding| finding["kind"] == "innodb_partial_page").unwrap();
    let offset = format!("{:#X}", length - 16_384);
    assert_eq!((&finding["file"], &finding["offset"]), (&"shop/archive.ibd".into(), &offset.into()));
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn huge_files_of_holes_end_soon() {
    let (_kept, data) = copy_of("mysql97");
    for name in ["#ib_16384_0.dblwr", "shop/orders.ibd", "undo_001"] {
        fs::OpenOptions::new().write(true).open(data.join(name)).unwrap().set_len(40 << 30).unwrap();
    }
    let ran = run_all(&data, "holes");
    assert!(skipped_for(&ran[4], "too_many_slots"), "{}", ran[4].stdout.lines().last().unwrap_or_default());
}

#[test]
fn header_of_the_legacy_buffer_may_say_anything() {
    let (_kept, data) = copy_of("mysql56");
    let path = data.join("ibdata1");
    let clean = fs::read(&path).unwrap();
    let at = 6 * 16_384 - 200;
    for blocks in [[0xFF; 8], [0; 8], [0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 5], [0, 0, 3, 0x7F, 0, 0, 3, 0x80]] {
        let mut bytes = clean.clone();
        bytes[at + 14..at + 22].copy_from_slice(&blocks);
        fs::write(&path, bytes).unwrap();
        run_all(&data, &format!("blocks {blocks:?}"));
    }
    let mut bytes = clean.clone();
    bytes[at + 10] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let copy = dwbinspect(&["innodb", "check", "--format", "ndjson", arg(&data)]);
    assert!(has_kind(&copy, "innodb_header_copy_used"));
    assert_eq!(copy.of_type("page").len(), 17, "page 5 is damaged, and all others are judged as before");
    bytes[at + 22] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let without = dwbinspect(&["innodb", "check", "--format", "ndjson", arg(&data)]);
    assert!(has_kind(&without, "innodb_no_doublewrite"));
    assert!(without.of_type("page").iter().all(|page| page["holds"] == "unknown"));
}

#[test]
fn redo_log_that_is_missing_or_damaged_makes_answers_more_careful() {
    for (case, file) in [("mysql97", "#innodb_redo"), ("mysql56", "ib_logfile0"), ("mariadb1011", "ib_logfile0")] {
        let (_kept, data) = copy_of(case);
        let path = data.join(file);
        if path.is_dir() {
            for entry in fs::read_dir(&path).unwrap() {
                fs::write(entry.unwrap().path(), [7; 4096]).unwrap();
            }
        } else {
            let mut bytes = fs::read(&path).unwrap();
            for at in [512, 1536, 4096, 8192] {
                bytes[at + 9] ^= 0x40;
            }
            fs::write(&path, bytes).unwrap();
        }
        let check = dwbinspect(&["innodb", "check", "--format", "ndjson", arg(&data)]);
        assert!(has_kind(&check, "innodb_no_checkpoint"), "{case}");
        let pages = check.of_type("page");
        assert!(pages.len() > 10 && check.of_type("summary")[0]["shut_down_cleanly"].is_null(), "{case}");
    }
}

#[test]
fn two_files_of_one_tablespace_leave_everything_in_doubt() {
    let (_kept, data) = copy_of("mysql97");
    fs::copy(data.join("shop/orders.ibd"), data.join("shop/orders_copy.ibd")).unwrap();
    let check = dwbinspect(&["innodb", "check", "--format", "ndjson", arg(&data)]);
    assert!(has_kind(&check, "innodb_two_files"));
    let orders: Vec<_> = check.of_type("page").into_iter().filter(|page| page["space_id"] == 2).collect();
    assert!(orders.len() > 20 && orders.iter().all(|page| page["holds"] != "no_image"));
}

#[test]
fn damaged_page_zero_does_not_hide_a_tablespace() {
    for case in ["mysql97", "mariadb1011", "mariadb1011-compressed"] {
        let (_kept, data) = copy_of(case);
        let before = dwbinspect(&["innodb", "verify", "--format", "ndjson", arg(&data)]);
        let path = data.join("shop/orders.ibd");
        let mut bytes = fs::read(&path).unwrap();
        bytes[34..42].fill(0x5A);
        bytes[9000..9100].fill(0x5A);
        fs::write(&path, bytes).unwrap();
        let after = dwbinspect(&["innodb", "verify", "--format", "ndjson", arg(&data)]);
        assert!(has_kind(&after, "innodb_page_zero"), "{case}");
        let count = |ran: &Ran| ran.of_type("damaged_page").len();
        assert_eq!(count(&after), count(&before) + 1, "{case}");
    }
}

/// No older checksum is of the bytes with the first number of the tablespace in page 0. MySQL 9.7.4 and MariaDB 10.11.19 did not start with
/// another one in `ibdata1`.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn page_zero_with_two_numbers_alone_is_damaged() {
    for (case, file) in [
        ("mysql97", "mysql.ibd"),
        ("mysql97", "shop/orders.ibd"),
        ("mysql97", "ibdata1"),
        ("mysql56", "shop/orders.ibd"),
        ("mysql56", "ibdata1"),
        ("mariadb1011-crc32", "shop/orders.ibd"),
        ("mariadb1011-crc32", "ibdata1"),
    ] {
        let (_kept, data) = copy_of(case);
        let verify = || dwbinspect(&["innodb", "verify", "--format", "ndjson", arg(&data)]);
        let before = verify().of_type("damaged_page");
        let mut bytes = fs::read(data.join(file)).unwrap();
        bytes[37] ^= 4;
        fs::write(data.join(file), bytes).unwrap();
        let after = verify();
        let found = after.of_type("damaged_page");
        let more: Vec<_> = found.iter().filter(|page| !before.contains(page)).collect();
        assert_eq!(more.len(), 1, "{case} {file}: {more:?}");
        assert_eq!((&more[0]["path"], &more[0]["page_no"]), (&file.into(), &0.into()), "{case} {file}");
        assert_eq!(more[0]["damage_code"], "wrong_tablespace", "{case} {file}");
        assert!(has_kind(&after, "innodb_page_zero"), "{case} {file}");
    }
}

#[test]
fn what_lies_elsewhere_is_said_and_not_followed() {
    let (kept, data) = copy_of("mariadb1011");
    let outside = kept.path().join("outside.ibd");
    fs::rename(data.join("shop/archive.ibd"), &outside).unwrap();
    fs::write(data.join("shop/archive.isl"), outside.display().to_string()).unwrap();
    let isl = dwbinspect(&["innodb", "check", "--format", "ndjson", arg(&data)]);
    assert!(isl.status == 2 && skipped_for(&isl, "outside_data_directory"), "{}", isl.stdout);
    fs::remove_file(data.join("shop/archive.isl")).unwrap();
    symlink(&outside, data.join("shop/archive.ibd")).unwrap();
    symlink("/", data.join("other")).unwrap();
    let linked = dwbinspect(&["innodb", "check", "--format", "ndjson", arg(&data)]);
    let unread = linked.of_type("skipped").iter().filter(|skipped| skipped["code"] == "unreadable").count();
    assert_eq!((linked.status, unread), (2, 2), "{}", linked.stdout);
}

#[test]
fn doublewrite_files_may_be_in_another_directory() {
    let (kept, data) = copy_of("mysql97");
    let before = dwbinspect(&["innodb", "check", "--format", "ndjson", arg(&data)]).of_type("page");
    let elsewhere = kept.path().join("dblwr");
    fs::create_dir(&elsewhere).unwrap();
    for name in ["#ib_16384_0.dblwr", "#ib_16384_1.dblwr"] {
        fs::rename(data.join(name), elsewhere.join(name)).unwrap();
    }
    let there = ["innodb", "check", "--doublewrite-dir", arg(&elsewhere), "--format", "ndjson", arg(&data)];
    assert_eq!(dwbinspect(&there).of_type("page"), before);
    let missing = dwbinspect(&["innodb", "check", "--format", "ndjson", arg(&data)]);
    // The header in the system tablespace is still there, and its pages hold no images.
    assert!(missing.of_type("page").iter().all(|page| page["holds"] == "unknown"));
}

#[test]
fn damaged_entries_are_a_problem_at_their_offset() {
    let (_kept, data) = copy_of("mysql97-detect");
    let path = data.join("#ib_16384_0.bdblwr");
    let mut bytes = fs::read(&path).unwrap();
    bytes[8192 + 40] ^= 1;
    fs::write(&path, bytes).unwrap();
    let check = dwbinspect(&["innodb", "check", "--format", "ndjson", arg(&data)]);
    let finding =
        check.of_type("finding").into_iter().find(|finding| finding["kind"] == "innodb_damaged_entries").unwrap();
    assert_eq!(finding["offset"], "0x2000");
}

#[test]
fn slots_that_all_name_one_page_take_no_longer() {
    let (_kept, data) = copy_of("mysql97");
    let path = data.join("#ib_16384_1.dblwr");
    let bytes = fs::read(&path).unwrap();
    // The image of a page that is torn, as it stands in slot 94.
    let image = bytes[94 * 16_384..95 * 16_384].to_vec();
    fs::write(&path, image.repeat(2000)).unwrap();
    let ran = run_all(&data, "one page in every slot");
    let page = ran[4].of_type("page").into_iter().find(|page| page["page_no"] == 163).unwrap();
    assert_eq!(page["candidates"].as_array().unwrap().len(), 2001);
}

#[test]
fn running_server_is_seen_by_its_lock() {
    let (_kept, data) = copy_of("mariadb1011");
    // As the servers lock the system tablespace while they run.
    let script = "import fcntl, sys, time\nf = open(sys.argv[1], 'r+b')\nfcntl.lockf(f, fcntl.LOCK_EX)\nprint('locked', flush=True)\ntime.sleep(60)";
    let child = Command::new("python3").args(["-c", script, arg(&data.join("ibdata1"))]).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return common::skipped("no python3 here") };
    let mut said = child.stdout.take().unwrap();
    said.read_exact(&mut [0; 7]).unwrap();
    let held = dwbinspect(&["innodb", "verify", "--format", "ndjson", arg(&data)]);
    child.kill().unwrap();
    child.wait().unwrap();
    let free = dwbinspect(&["innodb", "verify", "--format", "ndjson", arg(&data)]);
    assert!(has_kind(&held, "innodb_server_running") && skipped_for(&held, "server_may_run"), "{}", held.stdout);
    assert_eq!((held.status, free.status), (2, 1));
    assert!(!has_kind(&free, "innodb_server_running"));
}
