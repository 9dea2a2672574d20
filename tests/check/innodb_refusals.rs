//! Files with which MySQL 9.7.4 and 5.6.24 and MariaDB 10.11.19 refused to start.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::innodb_variants::{copy_of, innodb, noise, write_at};

/// Kinds of findings that are problems, each with its file.
fn problems(data: &Path) -> Vec<(Value, Value)> {
    let findings = innodb("check", data).of_type("finding").into_iter();
    let problems = findings.filter(|finding| finding["severity"] == "problem");
    problems.map(|finding| (finding["kind"].clone(), finding["file"].clone())).collect()
}

fn has_problem(data: &Path, kind: &str) -> bool {
    problems(data).iter().any(|(found, _)| found == kind)
}

/// A fixture, the file that is damaged, the damage, and the kind of the problem that it must bring.
type Damaged<'a> = (&'a str, String, &'a dyn Fn(&Path), Option<&'a str>);

/// MySQL 9.7.4: "Invalid redo log header checksum", "Missing redo log file"; MariaDB 10.11.19: "Invalid log header checksum". It did start
/// without the first file, with an old body that was damaged, and with an empty spare file.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn damaged_header_or_missing_file_of_the_redo_log_is_a_problem() {
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
    let of_files = |found: &[(Value, Value)]| {
        found.iter().any(|(kind, _)| ["innodb_redo_header", "innodb_redo_missing"].iter().any(|one| kind == one))
    };
    let mut dirs = std::collections::BTreeMap::new();
    for (case, file, damage, kind) in &cases {
        let (_, data) = dirs.entry(*case).or_insert_with(|| copy_of(case));
        let path = data.join(file);
        let kept = fs::read(&path).ok();
        damage(&path);
        let found = problems(data);
        match kind {
            None => assert!(!of_files(&found), "{case}: {file}: {found:?}"),
            Some(kind) => assert!(found.iter().any(|(found, _)| found == kind), "{case}: {file}: {found:?}"),
        }
        match kept {
            Some(kept) => fs::write(&path, kept).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn two_files_of_a_tablespace_are_a_problem() {
    for case in ["mysql97", "mysql56", "mariadb1011"] {
        let (_kept, data) = copy_of(case);
        fs::copy(data.join("shop/archive.ibd"), data.join("shop/copy.ibd")).unwrap();
        assert!(has_problem(&data, "innodb_two_files"), "{case}");
    }
}
