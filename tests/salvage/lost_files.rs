//! Files that are missing or elsewhere: databases in tablespaces, databases without a directory, pages without a file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cases::BIN;
use crate::common::{Ran, arg, copy_tree, dwbinspect, skipped};
use crate::judge::case;

/// Directory of the database in a tablespace.
const SHOP: &str = "pg_tblspc/16384/PG_15_202209061/16385";

/// A copy of the case `15-space`, and its data directory.
fn space() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    copy_tree(&case("15-space"), &data);
    (place, data)
}

/// Numbers of a table: rows, uncertain and deleted ones, pages, lossy pages, lost values.
fn numbers(ran: &Ran, table: &str) -> Option<Vec<u64>> {
    let line = ran.stdout.lines().find(|line| line.split_whitespace().next() == Some(table))?;
    Some(line.split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect())
}

/// Its name is the committed one, whatever a rolled back transaction called it.
#[test]
fn database_in_a_tablespace_has_its_rows_and_its_name() {
    let ran = dwbinspect(&["salvage", "--list", arg(&case("15-space"))]);
    assert_eq!(numbers(&ran, "shop.public.cut"), Some(vec![21, 0, 0, 3, 0, 0]), "{}", ran.stdout);
}

/// A frozen row still leads to the version that a rolled back update made.
#[test]
fn frozen_rows_of_a_rolled_back_update_are_in_their_place() {
    let ran = dwbinspect(&["salvage", "--list", arg(&case("15-space").join(SHOP)), "--major", "15"]);
    assert_eq!(numbers(&ran, "16385.public.frozen"), Some(vec![40, 0, 0, 1, 0, 0]), "{}", ran.stdout);
}

#[test]
fn rows_of_a_rolled_back_transaction_with_more_columns_are_no_loss() {
    let ran = dwbinspect(&["salvage", "--list", arg(&case("15-space"))]);
    assert_eq!(numbers(&ran, "shop.public.widened"), Some(vec![40, 0, 0, 1, 0, 0]), "{}", ran.stdout);
}

/// Its number of columns is that of its rows, of which 10 are those of the rolled back transaction.
#[test]
fn rows_of_a_rolled_back_transaction_do_not_count_columns() {
    let (_place, data) = space();
    let classes = data.join(SHOP).join("1259");
    let length = fs::metadata(&classes).unwrap().len();
    fs::write(&classes, vec![0; usize::try_from(length).unwrap()]).unwrap();
    let ran = dwbinspect(&["salvage", "--list", arg(&data)]);
    assert_eq!(numbers(&ran, "shop.public.widened"), Some(vec![40, 0, 0, 1, 0, 0]), "{}", ran.stdout);
}

/// `VACUUM FULL` leaves `pg_attribute` the file of a table that it drops; without `pg_class`, that table seems to be lost.
#[test]
fn file_of_a_catalog_is_not_that_of_a_lost_table() {
    let (_place, data) = space();
    let file = |name: &str| data.join(SHOP).join(name);
    fs::copy(file("1249"), file("16388")).unwrap();
    for name in ["1259", "2662", "2663"] {
        let length = fs::metadata(file(name)).unwrap().len();
        fs::write(file(name), vec![0; usize::try_from(length).unwrap()]).unwrap();
    }
    let is_listed = || {
        let ran = dwbinspect(&["salvage", "--list", arg(&data), "--database", "shop"]);
        numbers(&ran, "shop.public.frozen").is_some()
    };
    assert!(is_listed());
    let mut map = fs::read(file("pg_filenode.map")).unwrap();
    let at = map.chunks_exact(4).position(|word| word == 1249_u32.to_le_bytes()).unwrap() * 4 + 4;
    map[at..at + 4].copy_from_slice(&16_388_u32.to_le_bytes());
    let crc = crc32c::crc32c(&map[..504]);
    map[504..508].copy_from_slice(&crc.to_le_bytes());
    fs::write(file("pg_filenode.map"), map).unwrap();
    assert!(!is_listed());
}

#[test]
fn database_without_a_directory_is_named() {
    let ran = dwbinspect(&["salvage", "--list", arg(&case("15-space"))]);
    assert_eq!(ran.status, 2);
    assert!(ran.stdout.contains("not checked: database absent: directory 16387 is missing"), "{}", ran.stdout);
    let ran = dwbinspect(&["salvage", "--list", arg(&case("15-space")), "--database", "shop"]);
    assert!(ran.status == 0 && !ran.stdout.contains("absent"), "{}", ran.stdout);
}

#[test]
fn pages_that_the_catalog_counts_and_no_file_has_are_missing() {
    let (_place, data) = space();
    let file = data.join(SHOP).join("16398");
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(8192).unwrap();
    let ran = dwbinspect(&["salvage", "--list", arg(&data), "--table", "cut"]);
    assert_eq!(numbers(&ran, "shop.public.cut"), Some(vec![7, 0, 0, 1, 2, 0]), "{}", ran.stdout);
}

/// The first segment is missing, and the second is one page.
#[test]
fn pages_of_a_missing_segment_are_missing() {
    let (_place, data) = space();
    fs::remove_file(data.join(SHOP).join("16398")).unwrap();
    fs::write(data.join(SHOP).join("16398.1"), [0; 8192]).unwrap();
    let ran = dwbinspect(&["salvage", "--list", arg(&data), "--table", "cut"]);
    assert_eq!(numbers(&ran, "shop.public.cut"), Some(vec![0, 0, 0, 1, 131_073, 0]), "{}", ran.stdout);
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn large_objects_need_no_table_and_their_lost_pages_are_said() {
    if !Path::new(BIN).join("initdb").exists() {
        return skipped("no server of major 15 is installed here");
    }
    let (place, data) = space();
    let salvaged = |name: &str| {
        let out = place.path().join(name);
        let ran = dwbinspect(&["salvage", arg(&data), "-o", arg(&out), "--pg-bin", BIN, "--database", "objects"]);
        (ran, out.join("objects/large_objects/50001.bin"))
    };
    let (ran, file) = salvaged("whole");
    assert_eq!(fs::read(file).unwrap(), [0, 255].repeat(3000), "{}", ran.stderr);
    assert!(!ran.stdout.contains("incomplete"), "{}", ran.stdout);
    let objects = data.join("base/16386/2613");
    let length = fs::metadata(&objects).unwrap().len();
    fs::write(&objects, vec![0; usize::try_from(length).unwrap()]).unwrap();
    let listed = dwbinspect(&["salvage", "--list", arg(&data), "--database", "objects"]);
    for ran in [salvaged("lost").0, listed] {
        assert!(ran.status == 2 && ran.stdout.contains("objects: large objects may be incomplete"), "{}", ran.stdout);
    }
}

/// A server that crashes leaves pages by which it had extended a file. They are a loss unless an intact primary key, under
/// checksums and with all of WAL, shows that no row was on them.
#[test]
fn pages_of_zeros_at_the_end_are_no_loss_if_nothing_used_them() {
    let place = tempfile::tempdir().unwrap();
    copy_tree(case("15-heap").parent().unwrap(), place.path());
    let data = place.path().join("data");
    let lossy = |table: &str| {
        let ran = dwbinspect(&["salvage", "--list", arg(&data), "--table", table]);
        numbers(&ran, &format!("salv.app.{table}")).unwrap_or_else(|| panic!("{}", ran.stdout))[4]
    };
    let [doc, big, keyless] = ["16692", "16885", "16820"].map(|name| data.join("base/16385").join(name));
    let tables = ["t_doc", "big", "evolve"];
    let before = tables.map(lossy);
    for file in [&doc, &big, &keyless] {
        let length = fs::metadata(file).unwrap().len();
        fs::OpenOptions::new().write(true).open(file).unwrap().set_len(length + 3 * 8192).unwrap();
    }
    assert_eq!(tables.map(lossy), [before[0], before[1], before[2] + 3]);
    let zero_from = |file: &Path, blocks: u64| {
        let file = fs::OpenOptions::new().write(true).open(file).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(blocks * 8192).unwrap();
        file.set_len(length).unwrap();
    };
    // A damaged index may have led there.
    let index = fs::read(data.join("base/16385/16697")).unwrap();
    fs::write(data.join("base/16385/16697"), &index[..8192]).unwrap();
    assert_eq!(lossy("t_doc"), before[0] + 3);
    fs::write(data.join("base/16385/16697"), index).unwrap();
    // The index of `t_doc` leads to its sixth page.
    zero_from(&doc, 5);
    assert_eq!(lossy("t_doc"), before[0] + 4);
    fs::remove_dir_all(data.join("pg_wal")).unwrap();
    assert_eq!(lossy("big"), before[1] + 3);
    // 13 has no checksums.
    copy_tree(&case("13-whole"), &place.path().join("13"));
    let data = place.path().join("13");
    let file = data.join("base/16385/16688");
    let lossy =
        || numbers(&dwbinspect(&["salvage", "--list", arg(&data), "--table", "t_doc"]), "salv.app.t_doc").unwrap()[4];
    let before = lossy();
    let length = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(file).unwrap().set_len(length + 3 * 8192).unwrap();
    assert_eq!(lossy(), before + 3);
}
