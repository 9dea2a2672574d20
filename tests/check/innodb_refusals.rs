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
