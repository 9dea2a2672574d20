//! `pg_walfpi kept` against what a server says of its slots, its archiver and its segments.

use serde_json::Value;

use crate::common;
use crate::common::live::{Server, find_programs, version_of};
use crate::common::{arg, run};

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn slots_archiver_and_segments_are_those_of_the_server() {
    let Some(bin) = find_programs() else { return common::skipped("no PostgreSQL server is installed here") };
    if version_of(&bin).first() < Some(&13) {
        return common::skipped("wal_keep_size is a setting of 13 and later");
    }
    let settings = "wal_level = logical\narchive_mode = on\narchive_command = 'false'\nwal_keep_size = 48MB";
    let server = Server::create_with(bin.clone(), bin, &[], settings);
    assert!(server.launch(&[]), "{}", server.log());
    server.sql("SELECT pg_create_physical_replication_slot('behind', true)");
    server.sql("CREATE TABLE t (a int)");
    for _ in 0..6 {
        server.sql("INSERT INTO t SELECT generate_series(1, 100)");
        server.sql("SELECT pg_switch_wal()");
    }
    server.sql("SELECT pg_create_logical_replication_slot('new', 'test_decoding')");
    server.sql("CHECKPOINT");
    let number = |sql: &str| server.sql(sql).trim().parse::<u64>().unwrap();
    let segments = number("SELECT count(*) FROM pg_ls_waldir() WHERE length(name) = 24");
    let ready = number("SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name ~ '^[0-9A-F]{24}\\.ready$'");
    let restart = |slot: &str| {
        let sql = format!("SELECT restart_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{slot}'");
        number(&sql)
    };
    let restarts = ["behind", "new"].map(restart);
    let data = server.data();
    let ran = run("pg_walfpi", &["kept", "--format", "ndjson", arg(&data)]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let rows = ran.of_type("kept");
    let row = |field: &str, value: &str| -> Value {
        rows.iter().find(|row| row[field] == value).cloned().unwrap_or_else(|| panic!("{value}: {rows:?}"))
    };
    assert_eq!(ran.of_type("summary")[0]["segments"], segments);
    assert_eq!(row("keeper", "archiver")["segments"], ready);
    let lsn = |text: &str| {
        let (high, low) = text.split_once('/').unwrap();
        u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
    };
    for (slot, restart) in ["behind", "new"].into_iter().zip(restarts) {
        assert_eq!(lsn(row("slot", slot)["from_lsn"].as_str().unwrap()), restart, "{slot}");
    }
    assert_eq!(
        (&row("slot", "behind")["is_logical"], &row("slot", "new")["is_logical"]),
        (&false.into(), &true.into())
    );
    // What the server says it would remove without the slot stays no more once it is dropped.
    let alone = row("slot", "behind")["segments"].as_u64().unwrap();
    assert!(alone >= 6, "{rows:?}");
    server.sql("SELECT pg_drop_replication_slot('behind')");
    let ran = run("pg_walfpi", &["kept", "--format", "ndjson", arg(&data)]);
    assert!(ran.of_type("kept").iter().all(|row| row["slot"] != "behind"), "{}", ran.stdout);
    server.stop("fast");
}
