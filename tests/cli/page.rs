//! `pg_dwbinspect page`: how a page is named, and what is shown of it.

use std::path::Path;

use crate::common::edit::{ClusterCopy, DWB_FILE, Key, PAGE, page_lsn, same_page, slot_at, slot_offset};
use crate::common::truth::{check, page_of};
use crate::common::{Ran, arg, before_findings, cluster, dwbinspect};
use serde_json::Value;

fn page(data: &Path, more: &[&str]) -> Ran {
    let mut args = vec!["page", "--format", "ndjson", arg(data)];
    args.extend(more);
    dwbinspect(&args)
}

/// The only page of a run.
fn row(ran: &Ran) -> Value {
    let pages = ran.of_type("page");
    assert_eq!(pages.len(), 1, "{}{}", ran.stdout, ran.stderr);
    pages[0].clone()
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn relation_goes_by_name_numbers_or_path() {
    let data = cluster("checkpoint");
    let inside = data.join("base/5/1259");
    let expected = row(&page(&data, &["base/5/1259", "0"]));
    assert_eq!(
        (&expected["path"], &expected["fork"], &expected["block"]),
        (&"base/5/1259".into(), &"main".into(), &0.into())
    );
    for name in ["postgres.pg_catalog.pg_class", "5/1259", "1663/5/1259", arg(&inside)] {
        assert_eq!(row(&page(&data, &[name, "0"])), expected, "{name}");
    }
    // One database alone has these.
    let data = cluster("evict");
    for name in ["pgbench_accounts", "public.pgbench_accounts", "16399", "5/16399"] {
        let row = row(&page(&data, &[name, "3"]));
        assert_eq!((&row["path"], &row["block"]), (&"base/5/16399".into(), &3.into()), "{name}");
    }
    // The tablespace is found through its link.
    let row = row(&page(&cluster("tablespace"), &["pgbench_accounts", "1409"]));
    assert_eq!(row["path"], "pg_tblspc/16384/PG_19_202602051/5/16400");
}

#[test]
fn fork_is_that_of_the_path_unless_it_is_given() {
    let data = cluster("checkpoint");
    for (args, fork, path) in [
        (&["base/5/1249_vm", "0"][..], "vm", "base/5/1249_vm"),
        (&["base/5/1249_fsm", "2"], "fsm", "base/5/1249_fsm"),
        (&["base/5/1249_vm", "0", "--fork", "main"], "main", "base/5/1249"),
        (&["5/1249", "0", "--fork", "vm"], "vm", "base/5/1249_vm"),
    ] {
        let row = row(&page(&data, args));
        assert_eq!((&row["fork"], &row["path"]), (&fork.into(), &path.into()), "{args:?}");
    }
    // The init fork of a table is empty.
    let ran = page(&data, &["scratch", "0", "--fork", "init"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("postgres.public.scratch (base/5/16418_init): the init fork has no"), "{}", ran.stderr);
}

#[test]
fn options_may_stand_between_the_arguments() {
    let data = cluster("checkpoint");
    let expected = row(&page(&data, &["base/5/1259", "0"]));
    let between = ["page", arg(&data), "--fork", "main", "base/5/1259", "--format", "ndjson", "0"];
    assert_eq!(row(&dwbinspect(&between)), expected);
    let images = data.join("../images");
    let ran = page(&data, &["base/5/1259", "0", "--images", arg(&images)]);
    assert_eq!((ran.status, images.exists()), (2, false));
}

#[test]
fn a_page_is_found_as_logs_and_outputs_show_it() {
    let data = cluster("checkpoint");
    let expected = row(&page(&data, &["base/5/1259", "0"]));
    for name in [
        "base/5/1259:0",
        "5/1259:0",
        "postgres.pg_catalog.pg_class:0",
        "postgres.pg_catalog.pg_class block 0",
        "ERROR:  invalid page in block 0 of relation base/5/1259",
        "WARNING:  checksum verification failed in file \"./base/5/1259\", block 0: calculated checksum 1 but expected 2",
        "CONTEXT:  WAL redo at 0/7FBEB8 for Heap/INSERT: off: 5; blkref #0: rel 1663/5/1259, blk 0",
    ] {
        assert_eq!(row(&page(&data, &[name])), expected, "{name}");
        assert_eq!(row(&dwbinspect(&["page", "--format", "ndjson", "-D", arg(&data), name])), expected, "{name}");
    }
    let in_segment = "checksum verification failed in file \"./base/5/1259.1\", block 3: calculated";
    assert!(page(&data, &[in_segment]).stderr.contains("has no such block (131075)"));
}

#[test]
fn wrong_input_is_refused() {
    let data = cluster("checkpoint");
    for (args, words) in [
        (&["no_such_table", "0"][..], "no relation named \"no_such_table\""),
        (&["base/5/999999", "0"], "has no such file"),
        (&["5/999999", "0"], "no relation"),
        (&["base/5", "0"], "no relation"),
        (&["../../etc/passwd", "0"], "no relation"),
        (&["a/b/c/d/e", "0"], "no relation"),
        (&["", "0"], "\"\" is not a valid relation"),
        (
            &["pg_class", "0"],
            "matches 3 relations; pass one:\n  template1.pg_catalog.pg_class (1663/1/1259)\n  template0.pg_catalog.pg_class (1663/4/1259)\n  postgres.pg_catalog.pg_class (1663/5/1259)\n",
        ),
        (&["pg_catalog.pg_class", "0"], "matches 3 relations"),
        (&["1259", "0"], "postgres.pg_catalog.pg_class (1663/5/1259)"),
        (&["5/1259", "--", "-1"], "\"-1\" is not a valid block: expected 0 to 4294967294"),
        (&["5/1259", "-1"], "unexpected argument '-1'"),
        (&["5/1259", "4294967296"], "expected 0 to 4294967294"),
        (&["5/1259", "first"], "\"first\" is not a valid block"),
        (&["5/1259", "0", "--fork", "side"], "expected main, fsm, vm or init"),
        (&["5/1259"], "\"5/1259\" is not a valid page: expected RELATION:BLOCK"),
        (&["all"], "\"all\" is not one page"),
    ] {
        let ran = page(&data, args);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{args:?}");
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    }
    let ran = dwbinspect(&["page", "/no/such/directory", "5/1259", "0"]);
    assert!(ran.status == 2 && ran.stderr.contains("No such file"), "{}", ran.stderr);
}

#[test]
fn block_past_the_end_is_reported() {
    let data = cluster("checkpoint");
    let length = data.join("base/5/1259").metadata().unwrap().len() / PAGE as u64;
    for block in [length, 131_072, 4_294_967_294] {
        for format in ["text", "ndjson"] {
            let ran = dwbinspect(&["page", "--format", format, arg(&data), "5/1259", &block.to_string()]);
            assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
            assert!(ran.stderr.contains(&format!("has no such block ({block})")), "{}", ran.stderr);
        }
    }
}

#[test]
fn page_in_order_is_no_finding() {
    let data = cluster("checkpoint");
    let ran = page(&data, &["5/1249", "0"]);
    let row = row(&ran);
    assert_eq!((&row["verdict"], &row["chosen"]), (&"leave".into(), &Value::Null));
    assert_eq!(row["reason_codes"], serde_json::json!(["nothing_wrong"]));
    assert!(ran.of_type("finding").iter().all(|finding| finding["severity"] != "problem"), "{}", ran.stdout);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let ran = dwbinspect(&["page", arg(&data), "5/1249", "0"]);
    assert!(!ran.stdout.contains("without repair"), "{}", ran.stdout);
}

#[test]
fn page_without_checksum_is_proven_whole_only_by_an_image() {
    let data = cluster("nochecksums");
    // A page of the function catalog, of which neither a slot nor WAL has an image.
    let ran = page(&data, &["5/1255", "9"]);
    let row = row(&ran);
    assert_eq!((&row["candidates"], &row["strength"]), (&serde_json::json!([]), &"possible".into()));
    assert_eq!(row["reason_codes"], serde_json::json!(["not_proven_whole"]));
    let equal = (0..1019).map(|index| slot_at(&data.join(DWB_FILE), slot_offset(index))).find(|(key, _, image)| {
        key.db == 5 && key.fork == 0 && same_page(&page_of(&data, &key.file(), key.block), image)
    });
    let (key, ..) = equal.unwrap();
    let ran = page(&data, &[&key.file(), &key.block.to_string()]);
    let row = self::row(&ran);
    assert_eq!((&row["disk"], &row["strength"]), (&"identical".into(), &"proven".into()));
    assert_eq!(row["reason_codes"], serde_json::json!(["equals_image"]));
    let reason = row["reasons"][0].as_str().unwrap();
    assert!(reason.contains("dwbuf_000 slot"), "{reason}");
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn verdict_is_that_of_check() {
    for case in ["checkpoint", "evict", "tablespace", "nochecksums"] {
        let data = cluster(case);
        for expected in check(&data).pages {
            let (path, block) = (expected["path"].as_str().unwrap(), expected["block"].to_string());
            let ran = page(&data, &[path, &block]);
            let row = row(&ran);
            // Replay or the server itself puts some in order.
            let in_order = ["heals_in_replay", "leave"].contains(&expected["verdict"].as_str().unwrap());
            assert_eq!(ran.status, if in_order { 0 } else { 1 }, "{expected}");
            assert_eq!(row, expected, "{case}");
        }
    }
}

#[test]
fn fields_of_a_torn_page() {
    // By truth.json: 2560 bytes of block 117 arrived, slot 26 holds the page, its LSN is 0/21A7420.
    let data = cluster("evict");
    let ran = page(&data, &["pgbench_accounts", "117"]);
    let row = row(&ran);
    for (name, value) in [
        ("spc_oid", Value::from(1663)),
        ("db_oid", 5.into()),
        ("rel_number", 16_399.into()),
        ("relation", "postgres.public.pgbench_accounts".into()),
        ("fork", "main".into()),
        ("block", 117.into()),
        ("path", "base/5/16399".into()),
        ("disk", "torn".into()),
        ("disk_lsn", "0/021A7420".into()),
        ("verdict", "restore".into()),
        ("unlogged", false.into()),
    ] {
        assert_eq!(row[name], value, "{name}");
    }
    let (chosen, candidate) = (&row["chosen"], &row["candidates"][0]);
    for image in [chosen, candidate] {
        assert_eq!(
            (&image["source"], &image["file"], &image["slot_index"]),
            (&"dwb".into(), &"dwbuf_000".into(), &26.into())
        );
        assert_eq!((&image["slot_id"], &image["page_lsn"]), (&26.into(), &"0/021A7420".into()));
    }
    assert_eq!((&candidate["outcome"], &candidate["slot_lsn"]), (&"safe".into(), &"0/021A7420".into()));
    assert!(candidate["evidence"].as_array().unwrap().iter().any(|step| step["weight"] == "proof"));
    let history = ran.of_type("event");
    // The record that ends at the page's LSN is the one that changed it last before it was written.
    assert!(history.iter().any(|record| record["end_lsn"] == "0/021A7420" && record["effect_code"] == "change"));
    for pair in history.windows(2) {
        assert!(pair[0]["lsn"].as_str() < pair[1]["lsn"].as_str(), "in order of LSN: {history:?}");
    }
}

#[test]
fn text_of_a_torn_page() {
    let data = cluster("checkpoint");
    let ran = dwbinspect(&["page", "--width", "120", arg(&data), "base/5/1259", "0"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (1, ""));
    insta::assert_snapshot!("page_torn", before_findings(&ran.stdout));
}

#[test]
fn page_without_image_is_shown_as_it_is() {
    let copy = ClusterCopy::of("wrapped");
    let key = Key::main(16_409, 5);
    let old = copy.page(key);
    let mut spoiled = old.clone();
    spoiled[4096..].fill(0x11);
    copy.set_page(key, &spoiled);
    let row = row(&page(copy.data(), &["note", "5"]));
    assert_eq!((&row["disk"], &row["verdict"]), (&"damaged".into(), &"no_image".into()), "{row:#}");
    assert_eq!((&row["candidates"], &row["tear"]), (&Value::Array(Vec::new()), &Value::Null));
    assert_eq!(row["damage_codes"][0], "checksum", "{row:#}");
    assert!(page_lsn(&old) > 0);
}

#[test]
fn image_of_a_sound_page_is_not_called_safe_without_reading_the_cluster() {
    let data = cluster("evict");
    let damaged = check(&data).pages;
    let ran = dwbinspect(&["check", "--all", "--format", "ndjson", arg(&data)]);
    let is_sound = |slot: &&Value| {
        slot["disk"] == "identical"
            && !damaged
                .iter()
                .any(|page| (&page["rel_number"], &page["block"]) == (&slot["rel_number"], &slot["block"]))
    };
    let slots = ran.of_type("comparison");
    let mut images = 0;
    for slot in slots.iter().filter(is_sound).step_by(97) {
        let ran = page(&data, &[slot["path"].as_str().unwrap(), &slot["block"].to_string()]);
        let found = row(&ran);
        assert!(ran.status == 0 && found["verdict"] == "leave", "{found}");
        for image in found["candidates"].as_array().unwrap() {
            assert_ne!(image["outcome"], "safe", "{found}");
            images += 1;
        }
    }
    assert!(images >= 5, "{images}");
}
