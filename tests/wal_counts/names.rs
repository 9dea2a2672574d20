//! Names of relations from rows of catalogs in the WAL itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Ran, arg, run, unpack};

fn walfpi(args: &[&str]) -> Ran {
    run("pg_walfpi", args)
}

/// The workload of the fixtures calls each index after its access method, which the resource manager of its records tells.
#[test]
fn wal_names_the_relations_that_were_made_in_it() {
    for major in 10..=19 {
        let data = unpack::data_dir(&format!("wal/pg{major}")).unwrap();
        let ran = walfpi(&["stats", "--by", "relation,rmgr", "--names", "wal", "--format", "ndjson", arg(&data)]);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{major}");
        let mut rmgrs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in ran.of_type("group") {
            let name = row["relation"].as_str();
            if row["rel_number"].as_u64().is_some_and(|number| number >= 16_384) {
                assert!(name.is_some(), "{major}: all of them were made within this WAL: {row}");
            }
            if let Some(name) = name {
                assert!(name.ends_with('?'), "{major}: {name} is not certain");
                let rmgr = row["rmgr"].as_str().unwrap();
                if !["XLOG", "Transaction"].contains(&rmgr) {
                    rmgrs.entry(name.to_owned()).or_default().insert(rmgr.to_owned());
                }
            }
        }
        for (relation, rmgr) in [
            ("t_btree", "Btree"),
            ("t_btree2", "Btree"),
            ("t_heap_pkey", "Btree"),
            ("t_hash", "Hash"),
            ("t_gin", "Gin"),
            ("t_gist", "Gist"),
            ("t_spgist", "SPGist"),
            ("t_brin", "BRIN"),
            ("s1", "Sequence"),
        ] {
            let own = rmgrs.get(&format!("postgres.?.{relation}?")).cloned().unwrap_or_default();
            assert!(own.iter().all(|own| own == rmgr), "{major} {relation}: {own:?}");
            assert!(!own.is_empty() || relation == "t_btree2", "{major} {relation}");
        }
        assert!(rmgrs["postgres.?.t_heap?"].contains("Heap"), "{major}");
    }
}

#[test]
fn names_of_wal_select_relations_and_are_asked_for() {
    let data = unpack::data_dir("wal/pg16").unwrap();
    let images = |args: &[&str]| {
        let ran = walfpi(&[&["list", "--format", "ndjson"], args, &[arg(&data)]].concat());
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
        ran.of_type("image")
    };
    // By pg_waldump, 16429 is the table, as tests of rows show.
    let named = images(&["--names", "wal", "--relation", "t_heap"]);
    assert!(named.len() > 100 && named.iter().all(|image| image["relation"] == "postgres.?.t_heap?"));
    assert_eq!(named.len(), images(&["--relation", "16429"]).len());
    assert!(images(&[]).iter().all(|image| image["relation"].is_null()), "no names were asked for");
}
