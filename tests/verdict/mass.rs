//! Many pages at once: pages that lie on disk as a slot holds them are damaged, and must get back what they were.

use std::collections::BTreeMap;

use super::scene::{Row, lsn};
use crate::common::edit::{ClusterCopy, DWB_FILE, Key, is_sealed, page_lsn, same_page};
use crate::common::truth::check;

/// Main-fork pages of database 5 whose bytes on disk are those of a slot, as they were before their second half was
/// overwritten.
fn damage_what_slots_hold(copy: &ClusterCopy, slots: u32) -> BTreeMap<Key, Vec<u8>> {
    let mut damaged = BTreeMap::new();
    for index in 0..slots {
        let (key, _, image) = copy.slot(DWB_FILE, index);
        if key.db != 5 || key.spc != 1663 || key.fork != 0 || damaged.contains_key(&key) {
            continue;
        }
        let page = copy.page(key);
        if same_page(&page, &image) && is_sealed(&page, key.block) {
            damaged.insert(key, page);
        }
    }
    for (key, page) in &damaged {
        // Shifted by a sector.
        copy.set_page(*key, &[&page[..4096], &page[4608..], &page[..512]].concat());
    }
    damaged
}

#[test]
fn every_page_of_a_clean_shutdown_gets_back_what_it_was() {
    let copy = ClusterCopy::of("clean");
    let damaged = damage_what_slots_hold(&copy, 382);
    let checked = check(copy.data());
    let mut restored = 0;
    for (key, page) in &damaged {
        let row = Row::of(&checked, *key);
        if page_lsn(page) == 0 {
            // An unlogged table: no WAL vouches for its image.
            assert_ne!(row.verdict(), "restore", "{row}");
            continue;
        }
        // The server was shut down in order, so nothing changed a page after its LSN on disk, and all that WAL is there.
        row.assert_verdict("restore");
        let slot = u32::try_from(row.chosen_slot().expect("a slot")).unwrap();
        assert!(same_page(&copy.slot(DWB_FILE, slot).2, page), "{row}");
        restored += 1;
    }
    assert!(restored > 300, "{restored} of {}", damaged.len());
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn every_page_of_a_crashed_cluster_gets_back_what_it_was_or_newer() {
    for (case, slots) in [("evict", 1019), ("checkpoint", 3057), ("wrapped", 127)] {
        let copy = ClusterCopy::of(case);
        let damaged = damage_what_slots_hold(&copy, slots);
        let checked = check(copy.data());
        let mut restored = 0;
        for (key, page) in &damaged {
            let row = Row::of(&checked, *key);
            if page_lsn(page) == 0 {
                row.assert_verdict("leave");
                continue;
            }
            // What was changed before the redo point is on disk, so an image that equals it lacks none of that.
            assert!(["restore", "restore_unproven", "heals_in_replay"].contains(&row.verdict()), "{case}: {row}");
            if row.verdict() == "restore" {
                restored += 1;
                match row.chosen_slot() {
                    Some(slot) => {
                        let (_, _, image) = copy.slot(DWB_FILE, u32::try_from(slot).unwrap());
                        assert!(same_page(&image, page) || page_lsn(&image) > page_lsn(page), "{case}: {row}");
                    }
                    // An image in WAL that replay would bring.
                    None => {
                        assert!(lsn(row.0["chosen"]["page_lsn"].as_str().unwrap()) >= page_lsn(page), "{case}: {row}")
                    }
                }
            }
        }
        assert!(restored > 10, "{case}: {restored} of {}", damaged.len());
    }
}
