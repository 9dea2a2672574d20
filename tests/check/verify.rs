//! `pg_dwbinspect verify` on real crashed clusters, and on copies that a test damages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::{DWB_CASES, Ran, arg, cluster, copy_tree, dwbinspect, packed_rows, skipped, unpack};
use serde_json::Value;

const BLOCK: usize = 8192;

/// A copy of a cluster, to be damaged.
fn copy(case: &str) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let data = temporary.path().join("data");
    copy_tree(&cluster(case), &data);
    (temporary, data)
}

/// A small copy of `clean`: shared catalogs and database 5, of which `base/5/1259` and its like are enough.
fn small_clean() -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let (from, data) = (cluster("clean"), temporary.path().join("data"));
    for directory in ["global", "pg_xact"] {
        copy_tree(&from.join(directory), &data.join(directory));
    }
    fs::create_dir_all(data.join("base/5")).unwrap();
    fs::create_dir(data.join("pg_tblspc")).unwrap();
    fs::copy(from.join("PG_VERSION"), data.join("PG_VERSION")).unwrap();
    for name in ["pg_filenode.map", "1249", "1249_fsm", "1249_vm", "1259", "2615", "2662"] {
        fs::copy(from.join("base/5").join(name), data.join("base/5").join(name)).unwrap();
    }
    (temporary, data)
}

fn verify(data: &Path, more: &[&str]) -> Ran {
    dwbinspect(&[&["verify", "--format", "ndjson", arg(data)], more].concat())
}

fn summary(ran: &Ran) -> Value {
    ran.of_type("summary").remove(0)
}

fn kinds(ran: &Ran) -> BTreeSet<String> {
    ran.of_type("finding").iter().map(|finding| finding["kind"].as_str().unwrap().to_owned()).collect()
}

fn place(page: &Value) -> (String, u64) {
    (page["path"].as_str().unwrap().to_owned(), page["block"].as_u64().unwrap())
}

fn change(path: &Path, at: usize, bytes: &[u8]) {
    let mut content = fs::read(path).unwrap();
    content[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(path, content).unwrap();
}

/// Changes bytes of the control file and makes its CRC right again.
fn change_control(data: &Path, at: usize, bytes: &[u8]) {
    let path = data.join("global/pg_control");
    change(&path, at, bytes);
    let crc = pgforensics::parsers::crc::crc32c(&fs::read(&path).unwrap()[..304]);
    change(&path, 304, &crc.to_le_bytes());
}

/// Offset of `blcksz` in the control file of these clusters.
const BLOCK_SIZE_AT: usize = 224;

/// Offset of `data_checksum_version`.
const CHECKSUMS_AT: usize = 264;

/// Nothing but relation files: the rest of the directory is not that of a whole cluster.
const ONE_DATABASE: [&str; 2] = ["--database", "5"];

#[test]
fn damaged_pages_are_those_of_the_independent_reader_and_of_the_fault_injector() {
    let expected_failures = BTreeMap::from([
        ("aligned", 11),
        ("checkpoint", 7),
        ("clean", 0),
        ("evict", 11),
        ("tablespace", 9),
        ("wrapped", 20),
    ]);
    for case in DWB_CASES {
        let data = cluster(case);
        let ran = verify(&data, &[]);
        let (pages, summary) = (ran.of_type("damaged_page"), summary(&ran));
        assert_eq!(ran.status, i32::from(case != "clean"), "{case}: {}", ran.stderr);
        if let Some(count) = expected_failures.get(case) {
            assert_eq!(summary["checksum_failures"], *count, "{case}");
        }
        // What the reader in Python found: pages and wrong checksums of each file.
        let rows = packed_rows(&unpack::fixtures().join(format!("dwb/expected/{case}.relations.tsv.zst")));
        let all: u64 = rows.iter().map(|row| row["pages"].parse::<u64>().unwrap()).sum();
        assert_eq!((&summary["pages"], &summary["files"]), (&all.into(), &rows.len().into()), "{case}");
        for row in rows.iter().filter(|row| row["bad_checksum_count"] != "-") {
            let of_file = pages.iter().filter(|page| page["path"] == row["path"] && !page["checksum_stored"].is_null());
            assert_eq!(of_file.count().to_string(), row["bad_checksum_count"], "{case} {}", row["path"]);
        }
        // Pages without header that are not all zero, which checksums say nothing of.
        let mut without_header = BTreeSet::new();
        for row in &rows {
            let content = fs::read(data.join(&row["path"])).unwrap();
            for (block, page) in content.chunks_exact(BLOCK).enumerate() {
                if page[14..16] == [0, 0] && page.iter().any(|byte| *byte != 0) {
                    without_header.insert((row["path"].clone(), block as u64));
                }
            }
        }
        let is_new = |page: &&Value| page["faults"][0] == "pd_upper is 0 but the page is not zero-filled";
        assert_eq!(pages.iter().filter(is_new).map(place).collect::<BTreeSet<_>>(), without_header, "{case}");
        assert_eq!(summary["new_not_zero"], without_header.len(), "{case}");
        // Nothing but what the fault injector tore is damaged.
        let truth = fs::read_to_string(data.parent().unwrap().join("truth/truth.json"));
        let truth: Value = truth.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
        let torn: BTreeSet<_> = truth["torn"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|page| page["disk_equals_intended"] == false)
            .map(|page| (page["file"].as_str().unwrap().to_owned(), page["block"].as_u64().unwrap()))
            .collect();
        for page in pages.iter().map(place) {
            assert!(torn.contains(&page), "{case}: {page:?} was not torn");
        }
        assert!(case == "nochecksums" || torn.len() >= pages.len(), "{case}");
    }
}

#[test]
fn text_of_each_case() {
    for case in ["clean", "tablespace", "nochecksums", "checkpoint"] {
        let path = cluster(case);
        let ran = dwbinspect(&["verify", arg(&path)]);
        assert_eq!(ran.stderr, "", "{case}");
        let mut text = String::new();
        let mut dropping = false;
        for line in ran.stdout.lines() {
            let varies = ["postmaster.pid: ", "/"].iter().any(|lead| line.starts_with(&format!("  - {lead}")));
            dropping = varies || (dropping && line.starts_with("    "));
            if !dropping && !line.starts_with("  data directory") {
                text.push_str(&line.replace(arg(&path), "[DATADIR]"));
                text.push('\n');
            }
        }
        insta::assert_snapshot!(format!("verify_{case}"), text);
    }
}

#[test]
fn rows_carry_everything_that_leads_to_the_page() {
    let ran = verify(&cluster("tablespace"), &[]);
    let pages = ran.of_type("damaged_page");
    let page = pages.iter().find(|page| page["block"] == 1409).unwrap();
    let expected = serde_json::json!({
        "type": "damaged_page", "spc_oid": 16384, "db_oid": 5, "rel_number": 16400,
        "relation": "postgres.public.pgbench_accounts", "database": "postgres", "fork": "main", "block": 1409,
        "path": "pg_tblspc/16384/PG_19_202602051/5/16400", "offset": "0xB02000", "disk": "damaged",
        "checksum_stored": 0xF945, "checksum_computed": 0x9451, "server_rejects": true, "unlogged": false, "faults": [],
        "fault_codes": [],
    });
    assert_eq!(*page, expected);
    let partial: Vec<Value> =
        ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == "partial_page").collect();
    assert_eq!(partial.len(), 1);
    assert_eq!(
        (partial[0]["file"].as_str().unwrap(), partial[0]["offset"].as_str().unwrap()),
        ("pg_tblspc/16384/PG_19_202602051/5/16422", "0x12000")
    );
    let aligned = verify(&cluster("aligned"), &["--path", "base/5/16421"]);
    assert!(aligned.stdout.contains("ends with 5120 bytes of block 10"), "{}", aligned.stdout);
    let csv = dwbinspect(&["verify", "--format", "csv", arg(&cluster("tablespace"))]);
    assert_eq!(csv.stdout.lines().count(), 12, "a header line and 11 pages");
    let json = dwbinspect(&["verify", "--format", "json", arg(&cluster("tablespace"))]);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(document["damaged_pages"].as_array().unwrap().len(), 11);
    assert_eq!((&document["summary"]["shown"], &document["summary"]["exit_status"]), (&11.into(), &1.into()));
}

#[test]
fn filters_choose_files() {
    let data = cluster("evict");
    let files = |more: &[&str]| {
        let ran = verify(&data, more);
        (ran.status, summary(&ran)["files"].as_u64().unwrap(), summary(&ran)["damaged"].as_u64().unwrap())
    };
    let count = |directory: &str, fits: &dyn Fn(&str) -> bool| {
        let names = fs::read_dir(data.join(directory)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(|c: char| c.is_ascii_digit()) && fits(name)).count() as u64
    };
    let all = count("base/5", &|_| true);
    assert_eq!(files(&["--database", "5"]), (1, all, 11));
    assert_eq!(files(&["--database", "postgres"]), (1, all, 11));
    assert_eq!(files(&["--database", "5,postgres"]), (1, all, 11));
    assert_eq!(files(&["--database", "0"]), (0, count("global", &|_| true), 0));
    assert_eq!(
        files(&["--database", "template1", "--fork", "vm"]),
        (0, count("base/1", &|name| name.ends_with("_vm")), 0)
    );
    assert_eq!(files(&["--relation", "16418"]), (1, count("base/5", &|name| name.starts_with("16418")), 3));
    assert_eq!(files(&["--relation", "1663/5/16399", "--fork", "main"]), (1, 1, 8));
    assert_eq!(files(&["--path", "base/5/16399*", "--path", "global"]), (1, 3 + count("global", &|_| true), 8));
    let absolute = data.join("base/5");
    assert_eq!(files(&["--path", arg(&absolute)]), (1, all, 11));
    for nothing in [
        ["--database", "nosuch"],
        ["--database", "77"],
        ["--relation", "1663/5/77"],
        ["--path", "base/77"],
        ["--path", "PG_VERSION"],
    ] {
        let ran = verify(&data, &nothing);
        assert_eq!((ran.status, ran.of_type("skipped").len()), (2, 1), "{nothing:?}");
    }
    let ran = verify(&data, &["--database", "1", "--path", "base/5"]);
    assert_eq!((ran.status, ran.of_type("skipped").len()), (2, 1), "no file fits both");
    assert_eq!(verify(&data, &["--path", "base/[", "--fork", "main"]).status, 2);
}

#[test]
fn cut_files_and_lost_segments_are_found() {
    let (_keep, data) = small_clean();
    assert_eq!(verify(&data, &ONE_DATABASE).status, 0);
    let path = data.join("base/5/1249");
    let content = fs::read(&path).unwrap();
    fs::write(&path, &content[..content.len() - 3000]).unwrap();
    let ran = verify(&data, &ONE_DATABASE);
    // Of a catalog: also names are missing.
    assert_eq!((ran.status, kinds(&ran)), (1, BTreeSet::from(["names", "partial_page"].map(str::to_owned))));
    // A segment file after one that is not full.
    fs::write(&path, &content).unwrap();
    fs::write(data.join("base/5/1249.2"), vec![0; BLOCK]).unwrap();
    let ran = verify(&data, &ONE_DATABASE);
    assert_eq!((ran.status, kinds(&ran)), (1, BTreeSet::from(["missing_pages", "names"].map(str::to_owned))));
    let missing = ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == "missing_pages");
    assert_eq!(missing.count(), 2, "the first is short, the second is missing");
    assert_eq!(verify(&data, &["--relation", "1259"]).status, 0, "another relation was asked for");
    fs::write(data.join("base/5/1249.2"), "").unwrap();
    assert_eq!(verify(&data, &ONE_DATABASE).status, 0, "an empty segment is what a truncation leaves");
}

#[test]
fn structure_is_checked_where_the_checksum_is_right() {
    let (_keep, data) = small_clean();
    let path = data.join("base/5/1259");
    let mut content = fs::read(&path).unwrap();
    let page = &mut content[BLOCK..2 * BLOCK];
    let pointer = u32::from_le_bytes(page[24..28].try_into().unwrap());
    assert_eq!(pointer >> 15 & 3, 1, "item 1 is in use");
    page[24..28].copy_from_slice(&(pointer & !0x7FFF | 40).to_le_bytes());
    pgforensics::parsers::image::set_checksum(page, 1);
    fs::write(&path, content).unwrap();
    let ran = verify(&data, &[]);
    let pages = ran.of_type("damaged_page");
    assert_eq!((ran.status, pages.len()), (1, 1));
    assert_eq!((place(&pages[0]), &pages[0]["server_rejects"]), (("base/5/1259".to_owned(), 1), &Value::Bool(false)));
    assert!(pages[0]["checksum_stored"].is_null());
    assert_eq!(pages[0]["fault_codes"], serde_json::json!(["page_rule"]), "{}", pages[0]);
    assert_eq!(summary(&ran)["rejected"], 0);
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_is_checked() {
    let (_keep, data) = small_clean();
    change(&data.join("base/5/1259"), BLOCK + 5000, b"damage");
    fs::remove_file(data.join("base/5/2662")).unwrap();
    symlink("1259", data.join("base/5/2662")).unwrap();
    let ran = verify(&data, &[]);
    assert_eq!(
        (ran.status, ran.of_type("damaged_page").len(), ran.of_type("skipped").len()),
        (2, 1, 1),
        "{}",
        ran.stdout
    );
    let unread = &ran.of_type("skipped")[0];
    assert_eq!((&unread["what"], &unread["cause"]), (&"relation files".into(), &"unreadable".into()));
    assert!(unread["reason"].as_str().unwrap().contains("symbolic link"));
    if rustix::process::geteuid().is_root() {
        return skipped("root can read every file");
    }
    fs::set_permissions(data.join("base/5/2615"), fs::Permissions::from_mode(0o000)).unwrap();
    let ran = verify(&data, &[]);
    assert_eq!(
        (ran.status, ran.of_type("damaged_page").len(), ran.of_type("skipped").len()),
        (2, 1, 2),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("Permission denied"), "{}", ran.stdout);
}

#[test]
fn control_file_that_cannot_be_trusted_leaves_checksums_open() {
    let (_keep, data) = small_clean();
    change(&data.join("base/5/1259"), BLOCK + 5000, b"only the checksum sees this");
    change(&data.join("base/5/2615"), 16, &[0xFF, 0xFF]);
    let sound_control = fs::read(data.join("global/pg_control")).unwrap();
    for control in ["damaged", "missing", "short", "zero"] {
        let path = data.join("global/pg_control");
        match control {
            "damaged" => change(&path, 60, &[0xAA]),
            "missing" => fs::remove_file(&path).unwrap(),
            "short" => fs::write(&path, &sound_control[..100]).unwrap(),
            _ => fs::write(&path, [0; 8192]).unwrap(),
        }
        let ran = verify(&data, &[]);
        let (pages, summary) = (ran.of_type("damaged_page"), summary(&ran));
        assert_eq!((ran.status, pages.len()), (2, 1), "{control}: {}", ran.stdout);
        assert_eq!(place(&pages[0]), ("base/5/2615".to_owned(), 0), "{control}");
        assert!(pages[0]["checksum_stored"].is_null(), "{control}: not judged");
        let counts = [&summary["damaged"], &summary["checksums_not_judged"], &summary["checksum_failures"]];
        assert_eq!(counts, [&Value::from(1), &Value::from(2), &Value::from(0)], "{control}");
        let sum: u64 = ["damaged", "sound", "zeroed"].iter().map(|name| summary[*name].as_u64().unwrap()).sum();
        assert_eq!(summary["pages"], sum, "{control}");
        assert_eq!(
            (&summary["checksums"], &summary["state_in_words"]),
            (&"not known".into(), &Value::Null),
            "{control}"
        );
        let skipped = ran.of_type("skipped");
        assert!(skipped.iter().any(|skipped| skipped["cause"] == "sizes_by_headers"), "{control}: {}", ran.stdout);
    }
}

#[test]
fn page_size_is_not_guessed_from_headers_that_disagree() {
    let (_keep, data) = small_clean();
    fs::remove_file(data.join("global/pg_control")).unwrap();
    change(&data.join("base/5/2615"), 18, &0x4004_u16.to_le_bytes());
    let ran = verify(&data, &[]);
    assert_eq!((ran.status, &summary(&ran)["pages"]), (2, &0.into()));
    assert!(ran.of_type("skipped").iter().any(|skipped| skipped["cause"] == "no_page_size"), "{}", ran.stdout);
    assert!(ran.stdout.contains("different page sizes: 8192 in"), "{}", ran.stdout);
}

#[test]
fn control_file_with_another_page_size_is_not_trusted() {
    let (_keep, data) = small_clean();
    let control = fs::read(data.join("global/pg_control")).unwrap();
    assert_eq!(control[BLOCK_SIZE_AT..BLOCK_SIZE_AT + 4], 8192_u32.to_le_bytes());
    // Sizes that a server can have, and sizes that none has: the pages' own is used, and nothing is taken for granted.
    for size in [4096, 16_384, 0, 3000, 0x7FFF_FFFF, 1 << 31] {
        change_control(&data, BLOCK_SIZE_AT, &u32::to_le_bytes(size));
        let ran = verify(&data, &[]);
        assert_eq!((ran.status, &summary(&ran)["damaged"]), (2, &0.into()), "{size}: {}", ran.stdout);
        assert!(ran.stdout.contains("wrong sizes"), "{size}: {}", ran.stdout);
        let findings = ran.of_type("finding");
        let finding = findings.iter().find(|finding| finding["kind"] == "control_sizes").expect("finding");
        assert_eq!(finding["offset"], "0xE0", "{size}");
        assert!(finding["what"].as_str().unwrap().contains(&format!("blcksz is {size}")), "{size}: {finding}");
    }
}

#[test]
fn checksums_count_as_damage_only_while_they_are_on() {
    let (_keep, data) = small_clean();
    // A byte of the LSN: only the checksum sees it.
    change(&data.join("base/5/1249"), BLOCK + 4, &[0xFF]);
    for (code, status, kind, damaged, not_judged) in [
        (1_u32, 1, "damaged_pages", 1, Value::Null),
        (0, 0, "checksums_off", 0, Value::Null),
        (2, 0, "checksums_changing", 0, 1.into()),
        (3, 0, "checksums_changing", 0, 1.into()),
        (9, 2, "unknown_checksums", 0, 1.into()),
    ] {
        change_control(&data, CHECKSUMS_AT, &code.to_le_bytes());
        let ran = verify(&data, &ONE_DATABASE);
        let summary = summary(&ran);
        assert_eq!((ran.status, &summary["damaged"]), (status, &damaged.into()), "{code}: {}", ran.stdout);
        assert_eq!(summary["checksums_not_judged"], not_judged, "{code}");
        assert!(kinds(&ran).contains(kind), "{code}: {:?}", kinds(&ran));
    }
}

#[test]
fn blocks_of_later_segments_are_counted_on() {
    let (_keep, data) = small_clean();
    // Segments of as many pages as the file has, so that a second one can follow.
    let pages = fs::metadata(data.join("base/5/1259")).unwrap().len() / BLOCK as u64;
    change_control(&data, BLOCK_SIZE_AT + 4, &u32::try_from(pages).unwrap().to_le_bytes());
    let mut page = fs::read(data.join("base/5/1259")).unwrap()[..BLOCK].to_vec();
    pgforensics::parsers::image::set_checksum(&mut page, u32::try_from(pages).unwrap());
    fs::write(data.join("base/5/1259.1"), &page).unwrap();
    let ran = verify(&data, &["--relation", "1259"]);
    assert_eq!((ran.status, &summary(&ran)["pages"]), (0, &(pages + 1).into()), "{}", ran.stdout);
    page[8000] ^= 1;
    fs::write(data.join("base/5/1259.1"), &page).unwrap();
    let page = verify(&data, &["--relation", "1259"]).of_type("damaged_page").remove(0);
    assert_eq!((place(&page), &page["offset"]), (("base/5/1259.1".to_owned(), pages), &"0x0".into()));
}

#[test]
fn directory_without_relations() {
    let empty = tempfile::tempdir().unwrap();
    let ran = verify(empty.path(), &[]);
    assert!(ran.status == 2 && ran.stderr.contains("not a PostgreSQL data directory"), "{}", ran.stderr);
    fs::write(empty.path().join("PG_VERSION"), "19\n").unwrap();
    let ran = verify(empty.path(), &[]);
    assert_eq!((ran.status, &summary(&ran)["pages"]), (2, &0.into()));
    assert!(ran.of_type("skipped").len() >= 3, "control file, global, base: {}", ran.stdout);
    assert_eq!(verify(&empty.path().join("PG_VERSION"), &[]).status, 2);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn lists_are_cut_in_text_and_whole_in_json() {
    let (_keep, data) = copy("evict");
    let path = data.join("base/5/16399");
    let mut content = fs::read(&path).unwrap();
    for page in content.chunks_exact_mut(BLOCK).skip(1000).take(100) {
        page[6000] ^= 1;
    }
    fs::write(&path, content).unwrap();
    let text = dwbinspect(&["verify", arg(&data)]);
    assert!(text.stdout.contains("and 88 pages more; --format json lists all"), "{}", text.stdout);
    let pages = verify(&data, &[]).of_type("damaged_page");
    assert_eq!(pages.len(), 111);
    for jobs in ["1", "3"] {
        assert_eq!(verify(&data, &["--jobs", jobs]).of_type("damaged_page"), pages, "{jobs}");
    }
}

#[test]
fn running_server_is_said() {
    let (_keep, data) = copy("clean");
    // A process that works in the directory looks like its server.
    let mut child = std::process::Command::new("sleep").arg("60").current_dir(&data).spawn().unwrap();
    fs::write(data.join("postmaster.pid"), format!("{}\n{}\n", child.id(), arg(&data))).unwrap();
    change(&data.join("base/5/1259"), 5000, b"damage");
    let started = std::time::Instant::now();
    let ran = verify(&data, &[]);
    let took = started.elapsed();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(kinds(&ran).contains("server_running") && !kinds(&ran).contains("not_shut_down"), "{:?}", kinds(&ran));
    assert_eq!((ran.status, ran.of_type("damaged_page").len()), (2, 1), "what was read may have changed since");
    assert!(took.as_millis() >= 100, "the page was read again, with pauses: {took:?}");
}

/// Gives a cluster 256 GiB to read, which is one file of zeros by many names; returns its size.
fn much_to_read(data: &Path) -> u64 {
    let (first, length, count) = (data.join("base/5/100000"), 64_u64 << 20, 4096);
    fs::write(&first, vec![0; usize::try_from(length).unwrap()]).unwrap();
    for number in 1..count {
        fs::hard_link(&first, data.join(format!("base/5/{}", 100_000 + number))).unwrap();
    }
    length * count
}

#[test]
fn interruption_gives_partial_counts() {
    let (_keep, data) = small_clean();
    let size = much_to_read(&data);
    for delay_ms in [400, 1500, 5000] {
        let child = std::process::Command::new(env!("CARGO_BIN_EXE_pg_dwbinspect"))
            .args(["verify", "--format", "ndjson", arg(&data)])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay_ms));
        assert!(std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().is_ok());
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // Too early the signal ends the program, or no page was read yet.
        if output.status.code() == Some(2) {
            assert!(text.contains("interrupted: the figures are partial"), "{text}");
            let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
            let pages = summary["pages"].as_u64().unwrap();
            assert!(pages < size / BLOCK as u64, "{summary}");
            if pages > 0 {
                return;
            }
        }
    }
    panic!("no delay met the program while it was reading");
}

#[test]
fn closed_pipe_ends_the_run_at_once() {
    let (_keep, data) = small_clean();
    fs::write(data.join("base/5/8888"), vec![1; 2000 * BLOCK]).unwrap();
    // Reading all of it would take far longer than the test waits.
    much_to_read(&data);
    let output = std::process::Command::new("bash")
        .args(["-c", "timeout 30 \"$0\" verify --format ndjson \"$1\" | head -n 0; exit ${PIPESTATUS[0]}"])
        .args([env!("CARGO_BIN_EXE_pg_dwbinspect"), arg(&data)])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(141), "{}", String::from_utf8_lossy(&output.stderr));
}
