//! Pages and damaged pages of each tablespace file as `innochecksum` counts them, where MariaDB's is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{arg, copy_tree, dwbinspect, skipped, unpack};

/// All but MySQL 5.6: the program of MariaDB 10.11 does not know the checksum `innodb` any more.
const CASES: [&str; 5] = ["mysql97", "mysql97-detect", "mariadb1011", "mariadb1011-crc32", "mariadb1011-compressed"];

/// Standard output and error of the program.
fn innochecksum(options: &[&str], file: &Path) -> Option<String> {
    let ran = Command::new("innochecksum").args(options).arg(file).output().ok()?;
    Some(String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr))
}

#[test]
fn pages_and_damaged_pages_are_those_of_innochecksum() {
    let (mut files, mut damaged_pages) = (0, 0);
    for case in CASES {
        let data = unpack::data_dir(&format!("innodb/{case}")).expect("unpack");
        let info = dwbinspect(&["innodb", "info", "--format", "ndjson", arg(&data)]);
        let verify = dwbinspect(&["innodb", "verify", "--format", "ndjson", arg(&data)]);
        let damaged = verify.of_type("damaged_page");
        let is_legacy = case.starts_with("mariadb");
        for space in info.of_type("tablespace") {
            let name = space["tablespace"].as_str().expect("a path");
            let file = data.join(name);
            let Some(count) = innochecksum(&["--count"], &file) else { return skipped("no innochecksum here") };
            let pages = count.lines().find_map(|line| line.strip_prefix("Number of pages:"));
            assert_eq!(pages.map(str::to_owned), Some(space["pages"].to_string()), "{case} {name}: {count}");
            let listed = innochecksum(&["--allow-mismatches=1000000"], &file).expect("as before");
            let number = |line: &str| line.strip_prefix("Fail: page::")?.strip_suffix(" invalid")?.parse::<u64>().ok();
            // To that program slots in the system tablespace are pages.
            let is_page = |page: &u64| !(is_legacy && space["space_id"] == 0 && (64..192).contains(page));
            let wanted: BTreeSet<u64> = listed.lines().filter_map(number).filter(is_page).collect();
            // It does not unpack pages of the older page compression, which have no checksum.
            let is_tested = |page: &&Value| page["damage_code"] != "compressed_content";
            let of_file = damaged.iter().filter(|page| page["path"] == name).filter(is_tested);
            let found: BTreeSet<u64> = of_file.map(|page| page["page_no"].as_u64().expect("a number")).collect();
            assert_eq!(found, wanted, "{case} {name}");
            files += 1;
            damaged_pages += found.len();
        }
    }
    assert!(files > 20 && damaged_pages > 50, "{files} files, {damaged_pages} damaged pages");
}

/// A write that went to the wrong place leaves a page that is whole, with a right checksum.
#[test]
fn page_with_the_number_of_another_is_damaged_as_for_innochecksum() {
    for case in ["mysql97", "mariadb1011", "mariadb1011-crc32"] {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        copy_tree(&unpack::data_dir(&format!("innodb/{case}")).expect("unpack"), &data);
        let damaged = || -> BTreeSet<(String, u64, String)> {
            let verify = dwbinspect(&["innodb", "verify", "--format", "ndjson", arg(&data)]);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let of =
                |page: &Value| (text(&page["path"]), page["page_no"].as_u64().unwrap(), text(&page["damage_code"]));
            verify.of_type("damaged_page").iter().map(of).collect()
        };
        let before = damaged();
        assert!(before.iter().all(|(.., code)| code != "wrong_page_number"), "{case}: {before:?}");
        let info = dwbinspect(&["innodb", "info", "--format", "ndjson", arg(&data)]);
        let size = info.of_type("tablespace")[0]["page_bytes"].as_u64().unwrap_or(16384) as usize;
        // The first table with two pages of rows of which neither is damaged.
        let spaces = info.of_type("tablespace");
        let is_whole = |name: &str, page: u64| !before.iter().any(|(path, no, _)| path == name && *no == page);
        let name = spaces.iter().map(|space| space["tablespace"].as_str().unwrap()).find(|name| {
            let bytes = fs::read(data.join(name)).unwrap_or_default();
            let is_index = |page: usize| bytes.get(page * size + 24..page * size + 26) == Some(&[0x45, 0xBF]);
            name.ends_with(".ibd") && is_index(5) && is_index(6) && is_whole(name, 5) && is_whole(name, 6)
        });
        let name = name.unwrap_or_else(|| panic!("{case}: no table")).to_owned();
        let path = data.join(&name);
        let mut bytes = fs::read(&path).unwrap();
        bytes.copy_within(5 * size..6 * size, 6 * size);
        fs::write(&path, &bytes).unwrap();

        let more: Vec<_> = damaged().difference(&before).cloned().collect();
        assert_eq!(more, [(name.clone(), 6, "wrong_page_number".to_owned())], "{case}");
        let check = dwbinspect(&["innodb", "check", "--format", "ndjson", arg(&data)]);
        let summary = check.of_type("summary").remove(0);
        assert!(check.status > 0 && summary["start"] != "nothing_against", "{case}: {summary}");
        let Some(listed) = innochecksum(&["--allow-mismatches=1000000"], &path) else {
            return skipped("no innochecksum here");
        };
        if case.starts_with("mariadb") {
            assert!(listed.contains("page::6 invalid"), "{case}: {listed}");
        }
    }
}

/// What its summary calls each type, and the types of ours that are in it.
const TYPES: [(&str, &[&str]); 10] = [
    ("Index page", &["index"]),
    ("Undo log page", &["undo_log"]),
    ("Inode page", &["inode"]),
    ("Insert buffer free list page", &["ibuf_free_list"]),
    ("Insert buffer bitmap", &["ibuf_bitmap"]),
    ("System page", &["system"]),
    ("Transaction system page", &["trx_system"]),
    ("File Space Header", &["space_header"]),
    ("Extent descriptor page", &["extent_descriptor"]),
    ("BLOB page", &["blob"]),
];

/// Each file by itself, as that program reads it. It counts pages of zeros as freshly allocated, and does not name types of MySQL 8.
#[test]
fn pages_by_type_are_those_of_innochecksum() {
    let (mut files, mut pages) = (0, 0);
    for case in CASES {
        let data = unpack::data_dir(&format!("innodb/{case}")).expect("unpack");
        let info = dwbinspect(&["innodb", "info", "--format", "ndjson", arg(&data)]);
        let damaged = dwbinspect(&["innodb", "verify", "--format", "ndjson", arg(&data)]).of_type("damaged_page");
        for space in info.of_type("tablespace") {
            let name = space["tablespace"].as_str().expect("a path");
            // It gives types of damaged pages too, and of the slots in the system tablespace.
            if damaged.iter().any(|page| page["path"] == name) || space["space_id"] == 0 {
                continue;
            }
            let Some(summary) = innochecksum(&["-S"], &data.join(name)) else {
                return skipped("no innochecksum here");
            };
            let alone = tempfile::tempdir().expect("temporary directory");
            let file = alone.path().join(Path::new(name).file_name().expect("a name"));
            std::fs::copy(data.join(name), &file).expect("copy");
            let verify = dwbinspect(&["innodb", "verify", "--format", "ndjson", arg(alone.path())]);
            let counts = verify.of_type("summary").remove(0);
            let theirs_of = |name: &str| {
                let of_line = |line: &str| line.trim().strip_suffix(name)?.trim().parse::<u64>().ok();
                summary.lines().find_map(of_line).unwrap_or_else(|| panic!("{name}: {summary}"))
            };
            let unused = counts["zeroed"].as_u64().unwrap() + counts["page_types"]["allocated"].as_u64().unwrap_or(0);
            assert_eq!(unused, theirs_of("Freshly allocated page"), "{case} {name}: {counts} {summary}");
            for (theirs, ours) in TYPES {
                let wanted = theirs_of(theirs);
                let found: u64 = ours.iter().filter_map(|name| counts["page_types"][name].as_u64()).sum();
                assert_eq!(found, wanted, "{case} {name}: {theirs}: {counts} {summary}");
                pages += found;
            }
            files += 1;
        }
    }
    assert!(files > 5 && pages > 1000, "{files} files, {pages} pages");
}
