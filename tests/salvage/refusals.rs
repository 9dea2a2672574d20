//! Nothing is written into the data, and what cannot be read is said.

use std::fs;

use crate::common::{arg, dwbinspect};
use crate::judge::case;

#[test]
fn output_inside_the_data_is_refused() {
    let data = case("15-heap");
    let ran = dwbinspect(&["salvage", arg(&data), "-o", arg(&data.join("rescue"))]);
    assert_eq!(ran.status, 2);
    assert!(!data.join("rescue").exists());
    let tablespace = data.join("pg_tblspc/16384/rescue");
    let ran = dwbinspect(&["salvage", arg(&data), "-o", arg(&tablespace)]);
    assert_eq!(ran.status, 2);
    assert!(!tablespace.exists());
}

#[test]
fn directory_with_files_in_it_is_refused() {
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("mine"), "x").unwrap();
    let ran = dwbinspect(&["salvage", arg(&case("15-heap")), "-o", arg(out.path())]);
    assert_eq!(ran.status, 2);
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1);
}

#[test]
fn directory_without_a_database_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let ran = dwbinspect(&["salvage", "--list", arg(empty.path())]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("neither a data directory nor the directory of a database"), "{}", ran.stderr);
}

#[test]
fn directory_of_one_database_is_enough() {
    let ran = dwbinspect(&["salvage", "--list", "--major", "15", arg(&case("15-heap").join("base/16385"))]);
    assert!(ran.stdout.contains("salv.app.t_num"), "{}{}", ran.stdout, ran.stderr);
}
