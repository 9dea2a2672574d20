//! Pages that are in the wrong file, and a directory that is gone.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::innodb_variants::{copy_of, innodb, write_at};

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

/// MySQL 9.7.4 did not start without the directory `mysql`.
#[test]
fn lost_directory_of_mysql_is_named() {
    let (_kept, data) = copy_of("mysql97");
    fs::remove_dir_all(data.join("mysql")).unwrap();
    let check = innodb("check", &data);
    assert!(check.status == 2 && check.of_type("skipped").iter().any(|one| one["what"] == "mysql"), "{}", check.stdout);
}
