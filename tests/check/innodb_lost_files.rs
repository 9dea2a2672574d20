//! Files of tablespaces that are gone, and pages that are in the wrong one: servers say so when they open the table, or do not start where the redo log names it. The
//! fixtures have `shop/orders`, `shop/archive` and mostly `shop/items`, MySQL 9.7.4 also `sys/sys_config` and two files of undo logs.

use std::fs;
use std::path::Path;

use pgforensics::parsers::innodb::checksum::page_crc32;
use serde_json::Value;

use crate::common::{arg, dwbinspect};
use crate::innodb_variants::{copy_of, innodb, noise, write_at};

const CASES: [&str; 6] =
    ["mysql97", "mysql97-detect", "mysql56", "mariadb1011", "mariadb1011-crc32", "mariadb1011-compressed"];

/// Parts that were not examined for a reason, and their names.
fn skipped(data: &Path, cause: &str) -> Vec<Value> {
    let skipped = innodb("check", data).of_type("skipped");
    skipped.into_iter().filter(|one| one["cause"] == cause).map(|one| one["what"].clone()).collect()
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn file_that_the_dictionary_names_and_that_is_gone_is_named() {
    for case in CASES {
        let (_kept, data) = copy_of(case);
        assert!(skipped(&data, "named_file_missing").is_empty(), "{case}");
        assert!(skipped(&data, "dictionary_not_read").is_empty(), "{case}");
        let mut names = vec!["shop/orders.ibd", "shop/archive.ibd"];
        if case.starts_with("mysql97") {
            names.extend(["sys/sys_config.ibd", "undo_001"]);
        }
        for name in &names {
            let away = data.join("away");
            fs::rename(data.join(name), &away).unwrap();
            assert_eq!(skipped(&data, "named_file_missing"), [*name], "{case}");
            assert_eq!(innodb("check", &data).status, 2, "{case}: {name}");
            let verified = innodb("verify", &data);
            let is_named = |one: &Value| one["cause"] == "named_file_missing" && one["what"] == *name;
            assert!(verified.status == 2 && verified.of_type("skipped").iter().any(is_named), "{case}: {name}");
            fs::rename(&away, data.join(name)).unwrap();
        }
        let mut gone = vec!["shop/archive.ibd", "shop/items.ibd", "shop/orders.ibd"];
        gone.retain(|name| data.join(name).exists());
        fs::remove_dir_all(data.join("shop")).unwrap();
        let mut found = skipped(&data, "named_file_missing");
        found.sort_by_key(Value::to_string);
        assert_eq!(found, gone, "{case}: a database");
        let text = dwbinspect(&["innodb", "check", arg(&data)]).stdout;
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("shop/archive.ibd") && words.contains("it is not there"), "{case}: {text}");
    }
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn file_that_the_dictionary_names_is_missed_until_a_link_replaces_it() {
    for (case, dictionary, page_no) in
        [("mysql97", "mysql.ibd", 93), ("mysql56", "ibdata1", 8), ("mariadb1011", "ibdata1", 8)]
    {
        let (_kept, data) = copy_of(case);
        let (name, away) = (data.join("shop/archive.ibd"), data.join("away"));
        fs::rename(&name, &away).unwrap();
        // Behind a link the file is elsewhere, which is said of the link.
        fs::write(name.with_extension("isl"), "/elsewhere/archive.ibd").unwrap();
        assert!(skipped(&data, "named_file_missing").is_empty(), "{case}");
        fs::remove_file(name.with_extension("isl")).unwrap();
        fs::rename(&away, &name).unwrap();
        // The page that names it is damaged: then nobody knows what there should be.
        let mut kept = vec![0; 16384];
        let path = data.join(dictionary);
        let at = page_no * 16384;
        std::os::unix::fs::FileExt::read_exact_at(&fs::File::open(&path).unwrap(), &mut kept, at).unwrap();
        write_at(&path, &noise(600), at + 200);
        assert_eq!(skipped(&data, "dictionary_not_read"), [dictionary], "{case}");
        write_at(&path, &kept, at);
    }
}

/// A write that went into the file of another table leaves a page that is whole, with the right number.
#[test]
fn page_of_another_tablespace_is_damaged() {
    for case in ["mysql97", "mysql56", "mariadb1011"] {
        let (_kept, data) = copy_of(case);
        let damaged = |data: &Path| innodb("verify", data).of_type("damaged_page");
        let before = damaged(&data);
        let is_whole = |path: &str, page: u64| !before.iter().any(|one| one["path"] == path && one["page_no"] == page);
        let of = |name: &str, page: u64| {
            let bytes = fs::read(data.join(name)).unwrap();
            bytes[page as usize * 16384..][..16384].to_vec()
        };
        let (from, to) = ("shop/archive.ibd", "shop/orders.ibd");
        let is_index = |bytes: &[u8]| bytes[24..26] == [0x45, 0xBF];
        let page = (4..30).find(|page| {
            is_whole(from, *page) && is_whole(to, *page) && is_index(&of(from, *page)) && is_index(&of(to, *page))
        });
        let page = page.unwrap_or_else(|| panic!("{case}: no page"));
        write_at(&data.join(to), &of(from, page), page * 16384);
        let found = damaged(&data);
        let more: Vec<&Value> = found.iter().filter(|one| !before.contains(one)).collect();
        assert_eq!(more.len(), 1, "{case}: {more:?}");
        assert_eq!((&more[0]["path"], &more[0]["page_no"]), (&to.into(), &page.into()), "{case}");
        assert_eq!(more[0]["damage_code"], "wrong_tablespace", "{case}");
    }
}

/// Writes a page with the checksum `crc32`, which every server of these takes.
fn write_page(path: &Path, mut page: Vec<u8>, at: u64) {
    let sum = page_crc32(&page).to_be_bytes();
    page[..4].copy_from_slice(&sum);
    page[16384 - 8..16384 - 4].copy_from_slice(&sum);
    write_at(path, &page, at);
}

/// Of general tablespaces and undo logs made by hand MySQL 9.7.4 names the path alone, and it did not start without them.
#[test]
fn lost_file_is_named_where_its_row_has_no_number() {
    let (_kept, data) = copy_of("mysql97");
    // The row of a table becomes one without a number: the bit of a null, in the byte after the one with the length of the path.
    let (dictionary, at) = (data.join("mysql.ibd"), 93 * 16384);
    let mut page = fs::read(&dictionary).unwrap()[at..][..16384].to_vec();
    let path = page.windows(20).position(|bytes| bytes == b"./sys/sys_config.ibd").expect("the row");
    page[path - 25 - 5 - 1] |= 1;
    write_page(&dictionary, page, at as u64);
    assert!(skipped(&data, "named_file_missing").is_empty());
    let (name, away) = (data.join("sys/sys_config.ibd"), data.join("away"));
    fs::rename(&name, &away).unwrap();
    assert_eq!(skipped(&data, "named_file_missing"), ["sys/sys_config.ibd"]);
}

/// Before MySQL 8 no dictionary names files of undo logs: MySQL 5.6.24 and MariaDB 10.11.19 did not start without one.
#[test]
fn lost_file_of_undo_logs_is_known_from_rollback_segments() {
    for case in ["mysql56", "mariadb1011-crc32"] {
        let (_kept, data) = copy_of(case);
        let ibdata = data.join("ibdata1");
        let mut page = fs::read(&ibdata).unwrap()[5 * 16384..][..16384].to_vec();
        // The fifth rollback segment is in the system tablespace.
        assert_eq!(page[56 + 4 * 8..][..4], [0; 4], "{case}");
        page[56 + 4 * 8 + 3] = 77;
        write_page(&ibdata, page, 5 * 16384);
        assert_eq!(skipped(&data, "named_file_missing"), ["undo077"], "{case}");
    }
}

/// MySQL 9.7.4 did not start without the directory `mysql`, of which the dictionary names no tablespace.
#[test]
fn lost_directory_of_mysql_is_named() {
    let (_kept, data) = copy_of("mysql97");
    fs::remove_dir_all(data.join("mysql")).unwrap();
    let check = innodb("check", &data);
    assert!(check.status == 2 && check.of_type("skipped").iter().any(|one| one["what"] == "mysql"), "{}", check.stdout);
}
