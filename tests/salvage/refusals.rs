//! Nothing is written into the data, and what cannot be read is said.

use std::fs;
use std::path::Path;

use crate::cases::BIN;
use crate::common::unpack::unpack;
use crate::common::{arg, copy_tree, dwbinspect, skipped};
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

#[test]
fn major_that_the_files_contradict_is_refused() {
    let ran = dwbinspect(&["salvage", "--list", "--major", "18", arg(&case("15-heap"))]);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(ran.stderr.contains("is of PostgreSQL 15, not 18"), "{}", ran.stderr);
}

#[test]
fn a_name_that_no_table_has_is_no_good_news() {
    let ran = dwbinspect(&["salvage", "--list", "--table", "no_such_table", arg(&case("15-heap"))]);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(ran.stdout.contains("No table was found"), "{}", ran.stdout);
}

#[test]
fn too_little_room_is_said_before_anything_is_written() {
    if !Path::new(BIN).join("initdb").exists() {
        return skipped("no server of major 15 is installed here");
    }
    let place = tempfile::tempdir().unwrap();
    let (file, out) = (place.path().join("16727"), place.path().join("out"));
    fs::File::create(&file).unwrap().set_len(4 << 40).unwrap();
    let data = case("15-heap");
    let mut words = vec!["salvage", arg(&data), "-o", arg(&out), "--pg-bin", BIN, "--sandbox", arg(place.path())];
    words.extend(["--file", arg(&file), "--like", "app.t_num"]);
    let ran = dwbinspect(&words);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(ran.stderr.contains("bytes free, and about 13"), "{}", ran.stderr);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn better_way_is_said_before_a_server_is_looked_for() {
    let place = tempfile::tempdir().unwrap();
    let said = |name: &str| {
        let data = unpack(&format!("dwb/{name}")).unwrap().join(name);
        // No server is there.
        let out = place.path().join(name);
        dwbinspect(&["salvage", arg(&data), "-o", arg(&out), "--pg-bin", arg(place.path())]).stdout
    };
    // Recovery heals the seventh.
    let checkpoint = said("checkpoint");
    assert!(checkpoint.starts_with("repair has proven images for 6 of 7 damaged pages"), "{checkpoint}");
    let clean = said("clean");
    assert!(clean.starts_with("check predicts that the server starts, and finds no damaged page"), "{clean}");
}

/// Rows and uncertain rows that `--list` counts.
fn counted(data: &Path) -> (u64, u64) {
    let ran = dwbinspect(&["salvage", "--list", arg(data)]);
    let line = ran.stdout.lines().find(|line| line.contains(" rows, ")).unwrap_or_else(|| panic!("{}", ran.stdout));
    let numbers: Vec<u64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1])
}

#[test]
fn without_the_files_of_prepared_transactions_rows_are_uncertain_and_not_gone() {
    let place = tempfile::tempdir().unwrap();
    let copied = |name: &str| {
        let data = place.path().join(name);
        copy_tree(&case("15-heap"), &data);
        data
    };
    let sound = counted(&copied("sound"));
    for damage in ["gone", "cut"] {
        let data = copied(damage);
        match damage {
            "gone" => fs::remove_dir_all(data.join("pg_twophase")).unwrap(),
            _ => fs::write(data.join("pg_twophase/0000037C"), [0; 20]).unwrap(),
        }
        let found = counted(&data);
        assert!(found.0 <= sound.0 && found.1 >= sound.1, "{damage}: {found:?} instead of {sound:?}");
        assert!(found.0 + found.1 >= sound.0 + sound.1, "{damage}: {found:?} instead of {sound:?}");
    }
}

#[test]
fn list_for_programs_has_the_counts_of_the_list_for_people() {
    let data = case("15-heap");
    let (rows, uncertain) = counted(&data);
    let ran = dwbinspect(&["salvage", "--list", "--format", "json", arg(&data)]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let sum = |field: &str| -> u64 {
        document["salvaged_tables"].as_array().unwrap().iter().filter_map(|table| table[field].as_u64()).sum()
    };
    assert_eq!((sum("rows"), sum("uncertain")), (rows, uncertain));
    assert_eq!(document["summary"]["wal_trust"], "proven");
    let lines = dwbinspect(&["salvage", "--list", "--format", "csv", arg(&data)]).stdout.lines().count();
    assert_eq!(lines, document["salvaged_tables"].as_array().unwrap().len() + 1);
    // Rows have other formats than their list.
    assert_eq!(dwbinspect(&["salvage", "--list", "--format", "copy", arg(&data)]).status, 2);
    let out = tempfile::tempdir().unwrap();
    let ran = dwbinspect(&["salvage", "--format", "json", arg(&data), "-o", arg(out.path())]);
    assert!(ran.status == 2 && ran.stderr.contains("--format takes copy, csv or parquet here"), "{}", ran.stderr);
}
