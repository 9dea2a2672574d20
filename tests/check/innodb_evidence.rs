//! Missing evidence makes answers about MySQL and MariaDB more careful, and never safer: pieces of real directories are removed,
//! cut and overwritten with zeros one by one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::Value;

use crate::common::{Ran, arg, dwbinspect};
use crate::innodb_variants::copy_of;

const CASES: [&str; 6] =
    ["mysql97", "mysql97-detect", "mysql56", "mariadb1011", "mariadb1011-crc32", "mariadb1011-compressed"];

fn check(data: &Path, more: &[&str]) -> Ran {
    let mut args = vec!["innodb", "check", "--format", "ndjson", arg(data)];
    args.extend(more);
    dwbinspect(&args)
}

type Pages = BTreeMap<(u64, u64), Value>;

fn pages(ran: &Ran) -> Pages {
    let key = |page: &Value| (page["space_id"].as_u64().expect("space"), page["page_no"].as_u64().expect("page"));
    ran.of_type("page").into_iter().map(|page| (key(&page), page)).collect()
}

fn has_kind(ran: &Ran, kind: &str) -> bool {
    ran.of_type("finding").iter().any(|finding| finding["kind"] == kind)
}

/// The more of a promise, the higher.
fn promise(page: &Value) -> usize {
    match page["holds"].as_str().expect("a word") {
        "unknown" | "encrypted" => 0,
        "no_image" | "unreadable" => 1,
        "older" | "same" | "newer" => 2,
        other => panic!("{other}"),
    }
}

fn assert_not_safer(context: &str, whole: (&Ran, &Pages), ran: &Ran) {
    let found = pages(ran);
    assert!((whole.0.status..=2).contains(&ran.status), "{context}: {} {}", ran.status, ran.stderr);
    if ran.of_type("summary").is_empty() {
        return assert_eq!(ran.status, 2, "{context}: {}", ran.stderr);
    }
    let shut_down = |ran: &Ran| ran.of_type("summary").remove(0)["shut_down_cleanly"].clone();
    assert!(shut_down(ran) == shut_down(whole.0) || shut_down(ran).is_null(), "{context}");
    for (key, before) in whole.1 {
        let Some(after) = found.get(key) else {
            assert_eq!(
                ran.status, 2,
                "{context}: page {key:?} is not listed, and nothing says that something was not examined"
            );
            continue;
        };
        assert!(promise(after) <= promise(before), "{context}: {key:?}: {} was {}", after["holds"], before["holds"]);
    }
}

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
enum Edit {
    Remove,
    Half,
    Zero,
    ZeroAt(usize, usize),
}

impl Edit {
    fn apply(self, path: &Path, bytes: &[u8]) {
        match self {
            Self::Remove => fs::remove_file(path).expect("remove"),
            Self::Half => fs::write(path, &bytes[..bytes.len() / 2]).expect("write"),
            Self::Zero => fs::write(path, vec![0; bytes.len()]).expect("write"),
            Self::ZeroAt(from, length) => {
                let mut bytes = bytes.to_vec();
                bytes[from..from + length].fill(0);
                fs::write(path, bytes).expect("write");
            }
        }
    }
}

/// The pieces of evidence of a directory, and what is done to each.
fn edits(data: &Path) -> Vec<(PathBuf, Edit)> {
    let mut files = Vec::new();
    let mut directories = vec![data.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("list") {
            let path = entry.expect("entry").path();
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut edits = Vec::new();
    for path in files {
        let name = path.file_name().expect("name").to_str().expect("name").to_owned();
        let bytes = fs::read(&path).expect("read");
        let whole = [Edit::Remove, Edit::Half, Edit::Zero];
        if name.ends_with("dblwr") {
            edits.extend(whole.map(|edit| (path.clone(), edit)));
        } else if name == "ibdata1" {
            edits.extend(whole.map(|edit| (path.clone(), edit)));
            edits.extend([0, 5].map(|page| (path.clone(), Edit::ZeroAt(page * 16_384, 16_384))));
        } else if name.ends_with(".ibd") || name.starts_with("undo") {
            edits.push((path, Edit::ZeroAt(0, 16_384)));
        } else if name.starts_with("ib_logfile") || (name.starts_with("#ib_redo") && !name.ends_with("_tmp")) {
            // In MySQL 8 most of the redo files have no checkpoint.
            let at = [512, 1536, 4096, 8192];
            let is_used = |at: &usize| {
                (name.starts_with("ib_logfile") || *at < 4096) && bytes[*at..*at + 64].iter().any(|byte| *byte != 0)
            };
            let blocks: Vec<usize> = at.into_iter().filter(is_used).collect();
            if blocks.is_empty() {
                edits.push((path.clone(), Edit::Remove));
            } else {
                edits.extend(whole.map(|edit| (path.clone(), edit)));
                edits.push((path.clone(), Edit::ZeroAt(0, 512)));
            }
            edits.extend(blocks.into_iter().map(|at| (path.clone(), Edit::ZeroAt(at, 64))));
        }
    }
    edits
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn missing_evidence_makes_no_answer_safer() {
    thread::scope(|scope| {
        for case in CASES {
            scope.spawn(move || {
                let (_kept, data) = copy_of(case);
                let whole = check(&data, &[]);
                let listed = pages(&whole);
                let edits = edits(&data);
                assert!(edits.len() > 10 && listed.len() > 2, "{case}: {}", edits.len());
                for (path, edit) in edits {
                    let bytes = fs::read(&path).expect("read");
                    edit.apply(&path, &bytes);
                    let context = format!("{case} {} {edit:?}", path.strip_prefix(&data).expect("inside").display());
                    assert_not_safer(&context, (&whole, &listed), &check(&data, &[]));
                    fs::write(&path, bytes).expect("write");
                }
            });
        }
    });
}

/// The files of the doublewrite buffer are where `innodb_doublewrite_dir` says, and the old area in `ibdata1` is empty.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn files_elsewhere_are_not_taken_for_an_empty_buffer() {
    for case in ["mysql97", "mysql97-detect"] {
        let (kept, data) = copy_of(case);
        let whole = pages(&check(&data, &[]));
        let elsewhere = kept.path().join("fast disk");
        fs::create_dir(&elsewhere).unwrap();
        for entry in fs::read_dir(&data).unwrap() {
            let path = entry.unwrap().path();
            if path.to_str().unwrap().ends_with("dblwr") {
                fs::rename(&path, elsewhere.join(path.file_name().unwrap())).unwrap();
            }
        }
        // With each of what else tells that the server keeps files, and without any of the others.
        for removed in [None, Some("#innodb_redo"), Some("mysql.ibd")] {
            let hidden = removed.map(|name| (data.join(name), kept.path().join("hidden")));
            if let Some((path, hidden)) = &hidden {
                fs::rename(path, hidden).unwrap();
            }
            let ran = check(&data, &[]);
            assert_eq!(ran.status, 2, "{case} {removed:?}");
            assert!(has_kind(&ran, "innodb_no_doublewrite"), "{case} {removed:?}");
            assert!(ran.of_type("skipped").iter().any(|skipped| skipped["cause"] == "buffer_not_found"), "{case}");
            let found = pages(&ran);
            assert!(found.len() >= 2, "{case} {removed:?}");
            for page in found.values() {
                assert_eq!(page["holds"], "unknown", "{page}");
            }
            if let Some((path, hidden)) = &hidden {
                fs::rename(hidden, path).unwrap();
            }
        }
        let text = dwbinspect(&["innodb", "check", arg(&data)]);
        assert!(text.stdout.contains("--doublewrite-dir or --my-cnf"), "{}", text.stdout);
        let given = check(&data, &["--doublewrite-dir", arg(&elsewhere)]);
        assert_eq!(pages(&given), whole, "{case}");
        let cnf = kept.path().join("my.cnf");
        fs::write(&cnf, format!("[client]\nport=1\n[mysqld]\ninnodb-doublewrite-dir = \"{}\"\n", elsewhere.display()))
            .unwrap();
        let named = check(&data, &["--my-cnf", arg(&cnf)]);
        assert_eq!((pages(&named), named.status), (whole.clone(), given.status), "{case}");
        fs::write(&cnf, "[mysqld]\ninnodb_data_home_dir=../fast disk\n").unwrap();
        fs::rename(data.join("ibdata1"), elsewhere.join("ibdata1")).unwrap();
        assert_eq!(check(&data, &["--my-cnf", arg(&cnf)]).status, given.status, "{case}");
        // MySQL 9.7.4 leaves the buffer in the data directory then.
        for entry in fs::read_dir(&elsewhere).unwrap().map(Result::unwrap) {
            if entry.file_name() != "ibdata1" {
                fs::rename(entry.path(), data.join(entry.file_name())).unwrap();
            }
        }
        let at_home = check(&data, &["--my-cnf", arg(&cnf)]);
        assert_eq!((pages(&at_home).len(), at_home.status), (whole.len(), given.status), "{case}");
        assert!(!has_kind(&at_home, "innodb_no_doublewrite"), "{case}");
    }
}

/// Nothing is written into a directory that belongs to the server, whoever named it.
#[test]
fn images_are_not_written_into_directories_of_the_server() {
    let (kept, data) = copy_of("mysql97");
    let elsewhere = kept.path().join("dw");
    let linked = kept.path().join("other disk");
    for directory in [&elsewhere, &linked] {
        fs::create_dir(directory).unwrap();
    }
    for number in 0..2 {
        let name = format!("#ib_16384_{number}.dblwr");
        fs::rename(data.join(&name), elsewhere.join(&name)).unwrap();
    }
    let cnf = kept.path().join("my.cnf");
    fs::write(&cnf, format!("[mysqld]\ninnodb_doublewrite_dir={}\n", elsewhere.display())).unwrap();
    fs::create_dir_all(data.join("shop")).unwrap();
    fs::write(data.join("shop/far.isl"), format!("{}/far.ibd\n", linked.display())).unwrap();
    for (option, value) in [("--doublewrite-dir", arg(&elsewhere)), ("--my-cnf", arg(&cnf))] {
        let dump = |images: &Path| dwbinspect(&["innodb", "dump", option, value, "--images", arg(images), arg(&data)]);
        for inside in [&data, &elsewhere, &elsewhere.join("new"), &linked, &linked.join("new")] {
            let ran = dump(inside);
            assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{option} {}", inside.display());
            assert!(ran.stderr.contains("Choose a directory outside"), "{}", ran.stderr);
        }
        assert!(fs::read_dir(&linked).unwrap().next().is_none() && fs::read_dir(&elsewhere).unwrap().count() == 2);
        let outside = kept.path().join(option);
        assert_eq!(dump(&outside).status, 2, "the linked file is not examined");
        assert!(fs::read_dir(&outside).unwrap().count() > 100, "{option}");
    }
}

/// What an option file says is used; what it hides in other files is said.
#[test]
fn option_file_that_includes_others_is_not_all_that_the_server_reads() {
    let (kept, data) = copy_of("mysql97");
    let whole = check(&data, &[]);
    let cnf = kept.path().join("my.cnf");
    for (text, status, skipped) in [
        ("[mysqld]\nport=1\n", whole.status, 0),
        ("[mysqld]\nport=1\n!includedir /etc/none/\n", 2, 1),
        ("!include /etc/none.cnf\n", 2, 1),
    ] {
        fs::write(&cnf, text).unwrap();
        let ran = check(&data, &["--my-cnf", arg(&cnf)]);
        let said = ran.of_type("skipped").iter().filter(|one| one["cause"] == "option_file_includes").count();
        assert_eq!((ran.status, said), (status, skipped), "{text}");
        assert_eq!(pages(&ran), pages(&whole), "{text}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn start_without_doublewrite_promises_no_image() {
    for case in CASES {
        let (kept, data) = copy_of(case);
        let whole = check(&data, &[]);
        let cnf = kept.path().join("my.cnf");
        fs::write(&cnf, "[mysqld]\ninnodb_doublewrite=OFF\n").unwrap();
        let ran = check(&data, &["--my-cnf", arg(&cnf)]);
        let listed = pages(&ran);
        assert_not_safer(case, (&whole, &pages(&whole)), &ran);
        assert!(has_kind(&ran, "innodb_doublewrite_off"), "{case}");
        assert_eq!(listed.len(), pages(&whole).len(), "{case}");
        assert!(listed.values().all(|page| page["holds"] != "no_image"), "{case}");
        fs::write(&cnf, "[mysqld]\ninnodb_doublewrite=DETECT_AND_RECOVER\n").unwrap();
        assert_eq!(pages(&check(&data, &["--my-cnf", arg(&cnf)])), pages(&whole), "{case}");
    }
}

/// The same pages, checkpoint and verdicts wherever the option file says that the files are.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn files_that_the_option_file_names_elsewhere_are_examined() {
    for case in CASES {
        let (kept, data) = copy_of(case);
        let listed = pages(&check(&data, &[]));
        let facts = |ran: &Ran| {
            let summary = ran.of_type("summary").remove(0);
            ["checkpoint_lsn", "end_lsn", "family", "sound", "damaged", "holds"].map(|name| summary[name].clone())
        };
        let whole = facts(&check(&data, &[]));
        let [home, undo, redo, more] = ["home", "undo files", "redo", "more"].map(|name| {
            fs::create_dir(kept.path().join(name)).unwrap();
            kept.path().join(name)
        });
        let mut moved = 0;
        for entry in fs::read_dir(&data).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let to = match name.as_str() {
                "ibdata1" => Some(home.join("system one")),
                "shop" => Some(more.join(&name)),
                "ib_logfile0" | "ib_logfile1" | "#innodb_redo" => Some(redo.join(&name)),
                name if name.starts_with("undo") => Some(undo.join(name)),
                _ => None,
            };
            if let Some(to) = to {
                fs::rename(&path, to).unwrap();
                moved += 1;
            }
        }
        assert!(moved >= 3, "{case}: {moved}");
        let cnf = kept.path().join("my.cnf");
        // Directories named twice are read once.
        let text = format!(
            "[mysqld]\ninnodb_data_home_dir={}\ninnodb_data_file_path=system one:12M:autoextend\ninnodb_undo_directory=../undo files\n\
             innodb_log_group_home_dir={}\ninnodb_doublewrite_dir=.\ninnodb_directories='{};../more;{}'\n",
            home.display(),
            redo.display(),
            more.display(),
            data.display(),
        );
        fs::write(&cnf, &text).unwrap();
        let ran = check(&data, &["--my-cnf", arg(&cnf)]);
        assert_eq!(facts(&ran), whole, "{case}: {}", ran.stdout);
        let what = |pages: &Pages| -> Vec<_> {
            let fields = ["holds", "chosen", "disk", "offset"];
            pages.iter().map(|(key, page)| (*key, fields.map(|name| page[name].clone()))).collect()
        };
        // A slot of the old buffer is named by the file that it is in.
        assert_eq!(what(&pages(&ran)), what(&listed), "{case}");
        for (directory, name) in [(&home, "home"), (&undo, "undo"), (&redo, "redo"), (&more, "more")] {
            let ran = dwbinspect(&[
                "innodb",
                "dump",
                "--my-cnf",
                arg(&cnf),
                "--images",
                arg(&directory.join("images")),
                arg(&data),
            ]);
            assert!(
                ran.status == 2 && ran.stderr.contains("Choose a directory outside"),
                "{case} {name}: {}",
                ran.stderr
            );
        }
        fs::remove_file(home.join("system one")).unwrap();
        fs::remove_dir_all(&undo).unwrap();
        let ran = check(&data, &["--my-cnf", arg(&cnf)]);
        assert_eq!(ran.status, 2, "{case}: what is missing is said");
    }
}

/// A whole image whose tablespace stands in what cannot be unpacked may be of any page with its number.
#[test]
fn image_that_does_not_tell_its_tablespace_may_be_of_the_page() {
    let (_kept, data) = copy_of("mariadb1011-compressed");
    let listed = pages(&check(&data, &[]));
    let dump = dwbinspect(&["innodb", "dump", "--format", "ndjson", arg(&data)]).of_type("slot");
    let system = data.join("ibdata1");
    let mut bytes = fs::read(&system).unwrap();
    let mut changed = Vec::new();
    for (key, page) in &listed {
        let candidates = page["candidates"].as_array().unwrap();
        let index_of = |slot: &Value| slot["slot_index"].as_u64().unwrap() as usize;
        let type_of = |slot: &Value| dump[index_of(slot)]["page_type"].as_u64().unwrap() as usize;
        let is_compressed = |slot: &Value| type_of(slot) > 0x8000 && slot["page_checksum"] == "good";
        if candidates.is_empty() || !candidates.iter().all(is_compressed) {
            continue;
        }
        for slot in candidates {
            let at = (64 + index_of(slot)) * 16_384;
            let length = (type_of(slot) & 0x7FFF) * 256;
            // Of no codec that is known here, under a right checksum.
            bytes[at + 26..at + length - 4].fill(0xA7);
            let crc = crc32c::crc32c(&bytes[at..at + length - 4]);
            bytes[at + length - 4..at + length].copy_from_slice(&crc.to_be_bytes());
        }
        changed.push(*key);
    }
    assert!(changed.len() > 2, "{changed:?}");
    fs::write(&system, bytes).unwrap();
    let found = pages(&check(&data, &[]));
    for key in changed.iter().filter(|key| listed[key]["disk"] != "zeroed") {
        let page = &found[key];
        assert_eq!(page["holds"], "unknown", "{page}");
    }
}

/// Servers fill slots from the first on, so that zeros before images are of somebody else.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn slots_of_zeros_before_images_leave_the_buffer_in_doubt() {
    for case in CASES {
        let (_kept, data) = copy_of(case);
        let whole = check(&data, &[]);
        assert!(!has_kind(&whole, "innodb_buffer_incomplete"), "{case}");
        let (path, first) = match case.starts_with("mysql97") {
            true => (data.join("#ib_16384_0.dblwr"), 0),
            false => (data.join("ibdata1"), 64),
        };
        let bytes = fs::read(&path).unwrap();
        for (from, count) in [(0, 1), (0, 60), (17, 1), (30, 9), (60, 5)] {
            Edit::ZeroAt((first + from) * 16_384, count * 16_384).apply(&path, &bytes);
            let ran = check(&data, &[]);
            let context = format!("{case}: {count} slots from {from} on");
            assert!(has_kind(&ran, "innodb_buffer_incomplete"), "{context}");
            assert_not_safer(&context, (&whole, &pages(&whole)), &ran);
            for page in pages(&ran).values() {
                assert_ne!(page["holds"], "no_image", "{context}: {page}");
            }
        }
    }
}

/// A buffer without anything as new as the pages was not in use.
#[test]
fn outdated_buffer_says_nothing_of_pages_without_an_image() {
    let (_kept, data) = copy_of("mysql97-detect");
    fs::remove_file(data.join("#ib_16384_0.bdblwr")).unwrap();
    let ran = check(&data, &[]);
    assert!(has_kind(&ran, "innodb_buffer_not_in_use"));
    let found = pages(&ran);
    let (key, page) = found.iter().find(|(_, page)| page["holds"] == "unknown").expect("a page without an image");
    let one = dwbinspect(&["innodb", "page", "--format", "ndjson", arg(&data), &key.0.to_string(), &key.1.to_string()]);
    assert_eq!(&one.of_type("page")[0], page, "as check");
}

/// Rules of MariaDB before 10.5 are not guessed from those of later ones.
#[test]
fn older_mariadb_has_no_known_order() {
    let (_kept, data) = copy_of("mariadb1011-crc32");
    let path = data.join("ib_logfile0");
    let mut log = fs::read(&path).unwrap();
    log[..4].copy_from_slice(&104_u32.to_be_bytes());
    log[16..48].fill(0);
    log[16..31].copy_from_slice(b"MariaDB 10.4.34");
    fs::write(&path, log).unwrap();
    let ran = check(&data, &[]);
    assert!(has_kind(&ran, "innodb_unknown_rules"));
    assert_eq!(ran.of_type("summary")[0]["family"], "mariadb_before_10_5");
    for page in pages(&ran).values() {
        assert!(page["chosen"].is_null(), "{page}");
    }
}

/// A file of another page size, which MySQL does not read, hides no images.
#[test]
fn file_of_another_page_size_hides_nothing() {
    let (_kept, data) = copy_of("mysql97");
    let whole = pages(&check(&data, &[]));
    fs::write(data.join("#ib_4096_0.dblwr"), []).unwrap();
    let ran = check(&data, &[]);
    assert!(has_kind(&ran, "innodb_other_page_size"), "{}", ran.stdout);
    assert_eq!(pages(&ran), whole);
}

/// The first four of the last eight bytes of a page repeat its checksum.
#[test]
fn trailer_with_another_checksum_is_told_as_such() {
    let (_kept, data) = copy_of("mysql97");
    let path = data.join("shop/archive.ibd");
    let mut bytes = fs::read(&path).unwrap();
    bytes[4 * 16384 - 8] ^= 1;
    fs::write(&path, bytes).unwrap();
    let check = check(&data, &[]);
    let page =
        check.of_type("page").into_iter().find(|page| page["path"] == "shop/archive.ibd" && page["page_no"] == 3);
    let page = page.expect("the page");
    assert!(page["damage"].as_str().unwrap().contains("the trailer has another one"), "{page}");
}
