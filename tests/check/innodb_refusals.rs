//! What MySQL 9.7.4 and 5.6.24 and MariaDB 10.11.19 refused to start with, on directories that are otherwise sound.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::innodb_variants::{copy_of, forget_what_is_lost, innodb, noise, start_of, write_at};

fn sound(case: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let (kept, data) = copy_of(case);
    forget_what_is_lost(&data);
    assert_eq!(start_of(&data), "nothing_against", "{case}");
    (kept, data)
}

/// Kinds of findings that are problems, each with its file.
fn problems(data: &Path) -> Vec<(Value, Value)> {
    let findings = innodb("check", data).of_type("finding").into_iter();
    let problems = findings.filter(|finding| finding["severity"] == "problem");
    problems.map(|finding| (finding["kind"].clone(), finding["file"].clone())).collect()
}

fn has_problem(data: &Path, kind: &str) -> bool {
    problems(data).iter().any(|(found, _)| found == kind)
}

/// "Unable to read page [page id: space=0, page number=5]", and of zeros "Failed to initialize the doublewrite extents".
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn damaged_page_of_transactions_stops_mysql() {
    for (case, torn, zero) in
        [("mysql97", "refuses", "refuses"), ("mysql56", "refuses", "unknown"), ("mariadb1011", "may_stop", "unknown")]
    {
        let (_kept, data) = sound(case);
        let ibdata = data.join("ibdata1");
        write_at(&ibdata, &noise(600), 5 * 16384 + 3000);
        assert_eq!((start_of(&data), innodb("check", &data).status > 0), (torn.into(), true), "{case}");
        assert_eq!(has_problem(&data, "innodb_refuses_to_start"), torn == "refuses", "{case}");
        write_at(&ibdata, &[0; 16384], 5 * 16384);
        assert_eq!((start_of(&data), innodb("check", &data).status > 0), (zero.into(), true), "{case}");
    }
}

/// A fixture, the file that is damaged, the damage, and the kind of the problem that it must bring.
type Damaged<'a> = (&'a str, String, &'a dyn Fn(&Path), Option<&'a str>);

/// MySQL 9.7.4: "Invalid redo log header checksum", "Missing redo log file"; MariaDB 10.11.19: "Invalid log header checksum". It did start
/// without the first file, with an old body that was damaged, and with an empty spare file.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn damaged_header_or_missing_file_of_the_redo_log_stops_a_start() {
    // The checkpoint of MySQL is in `#ib_redo76`; the files are 64 to 88.
    let redo = |number: u32| format!("#innodb_redo/#ib_redo{number}");
    let cases: [Damaged<'_>; 11] = [
        ("mysql97", redo(64), &|path| write_at(path, &[0x5A; 4], 100), Some("innodb_redo_header")),
        ("mysql97", redo(88), &|path| write_at(path, &[0x5A; 4], 100), Some("innodb_redo_header")),
        ("mysql97", redo(64), &|path| write_at(path, &[0; 2048], 0), Some("innodb_redo_header")),
        (
            "mysql97",
            redo(64),
            &|path| fs::write(path, &fs::read(path).unwrap()[..2048]).unwrap(),
            Some("innodb_redo_missing"),
        ),
        ("mysql97", redo(9999), &|path| fs::write(path, []).unwrap(), Some("innodb_redo_header")),
        ("mysql97", redo(9999), &|path| fs::write(path, noise(65536)).unwrap(), Some("innodb_redo_header")),
        ("mysql97", redo(70), &|path| fs::remove_file(path).unwrap(), Some("innodb_redo_missing")),
        ("mariadb1011", "ib_logfile0".to_owned(), &|path| write_at(path, &[0x5A; 4], 100), Some("innodb_redo_header")),
        ("mysql97", redo(64), &|path| fs::remove_file(path).unwrap(), None),
        ("mysql97", redo(70), &|path| write_at(path, &noise(5000), 8192), None),
        ("mysql97", format!("{}_tmp", redo(9999)), &|path| fs::write(path, []).unwrap(), None),
    ];
    let mut dirs = std::collections::BTreeMap::new();
    for (case, file, damage, kind) in &cases {
        let (_, data) = dirs.entry(*case).or_insert_with(|| sound(case));
        let path = data.join(file);
        let kept = fs::read(&path).ok();
        damage(&path);
        let found = problems(data);
        match kind {
            None => assert_eq!(start_of(data), "nothing_against", "{case}: {file}"),
            Some(kind) => {
                // What the server makes of a file that is too short by its size alone is not known.
                let start = if file == &redo(64) && *kind == "innodb_redo_missing" { "unknown" } else { "refuses" };
                assert_eq!(start_of(data), start, "{case}: {file} {kind}");
                assert!(found.iter().any(|(found, _)| found == kind), "{case}: {file}: {found:?}");
                assert!(!innodb("check", data).of_type("page").iter().any(|page| page["verdict"] == "server_restores"));
            }
        }
        match kept {
            Some(kept) => fs::write(&path, kept).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        assert_eq!(start_of(data), "nothing_against", "{case}: {file}: as before");
    }
}

/// MySQL 9.7.4 and 5.6.24 did not start, MariaDB 10.11.19 did.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn two_files_of_a_tablespace_stop_mysql() {
    for (case, start) in [("mysql97", "refuses"), ("mysql56", "may_stop"), ("mariadb1011", "nothing_against")] {
        let (_kept, data) = sound(case);
        fs::copy(data.join("shop/archive.ibd"), data.join("shop/copy.ibd")).unwrap();
        assert_eq!(start_of(&data), start, "{case}");
        assert!(has_problem(&data, "innodb_two_files"), "{case}");
    }
}
