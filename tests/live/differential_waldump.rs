//! WAL of a server that the test runs itself, read by `pg_walfpi` and by that server's pg_waldump.

use std::collections::BTreeMap;
use std::fs;

use crate::common;
use crate::common::live::Server;
use crate::common::{arg, run};
use serde_json::Value;

/// A workload that touches every kind of index, twice between checkpoints, with and without compression.
const WORKLOAD: &str = "
create table t(id int primary key, k int, v text, p point, a int[]);
create index on t using hash(k);
create index on t using gin(a);
create index on t using gist(p);
create index on t using brin(id);
insert into t select i, i % 977, repeat(md5(i::text), 4), point(i % 100, i % 37), array[i % 50, i % 7]
  from generate_series(1, 12000) i;
checkpoint;
update t set k = k + 1 where id % 3 = 0;
set wal_compression = on;
checkpoint;
update t set v = v || 'x' where id % 5 = 0;
delete from t where id % 11 = 0;
select count(*) from t where k > 3;
vacuum t;
select pg_logical_emit_message(false, 'test', repeat('x', 3000000));
select pg_switch_wal();
checkpoint;
insert into t select i, i, md5(i::text), point(1, 1), array[i] from generate_series(20001, 22000) i;
";

/// Rows of `pg_waldump --stats`: records, record bytes, FPI bytes, combined bytes.
fn waldump_rows(text: &str) -> BTreeMap<String, [u64; 4]> {
    text.lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once("  ")?;
            let plain = |part: &str| part.split(['(', '[']).next().unwrap_or_default().trim().to_owned();
            let parts: Vec<String> = rest.split([')', ']']).map(plain).collect();
            let numbers: Vec<u64> =
                parts.iter().flat_map(|part| part.split_whitespace()).filter_map(|word| word.parse().ok()).collect();
            Some((name.trim().to_owned(), numbers.try_into().ok()?))
        })
        .filter(|(name, _)| name != "Total")
        .collect()
}

fn own_rows(ran: &common::Ran) -> BTreeMap<String, [u64; 4]> {
    let rows = ran.of_types(&["group", "interval"]);
    let numbers = |row: &Value| {
        ["records", "record_bytes", "fpi_bytes", "combined_bytes"].map(|name| row[name].as_u64().unwrap())
    };
    rows.iter()
        .map(|row| {
            let name = [&row["rmgr"], &row["record"]].into_iter().filter_map(Value::as_str);
            (name.collect::<Vec<_>>().join("/"), numbers(row))
        })
        .collect()
}

fn lsn(text: &str) -> u64 {
    let (high, low) = text.split_once('/').unwrap();
    u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
}

fn lsn_text(lsn: u64) -> String {
    format!("{:X}/{:X}", lsn >> 32, lsn & 0xFFFF_FFFF)
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn statistics_over_random_ranges_and_intervals() {
    let Some(server) = Server::start("wal_level = logical") else { return };
    let first = lsn(server.sql("select pg_current_wal_insert_lsn()").trim());
    server.sql(WORKLOAD);
    let last = lsn(server.sql("select pg_current_wal_insert_lsn()").trim());
    server.stop("immediate");
    let (data, wal) = (server.data(), server.data().join("pg_wal"));
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for round in 0..24 {
        let mut ends = [first + random(last - first), first + random(last - first)];
        ends.sort_unstable();
        if round % 3 == 0 {
            ends = ends.map(|end| end - end % 8192); // page boundaries
        }
        let (start, end) = (lsn_text(ends[0]), lsn_text(ends[1]));
        let waldump = server.run("pg_waldump", &["--stats=record", "-p", arg(&wal), "-s", &start, "-e", &end]);
        let expected = waldump_rows(&String::from_utf8_lossy(&waldump.stdout));
        let ran = run(
            "pg_walfpi",
            &["stats", "--by", "record", "--start", &start, "--end", &end, "--format", "ndjson", arg(&data)],
        );
        assert_eq!(own_rows(&ran), expected, "{start} to {end}");
    }
    let intervals = run("pg_walfpi", &["stats", "--format", "ndjson", arg(&data)]).of_types(&["group", "interval"]);
    assert!(intervals.len() >= 4);
    for interval in intervals.iter().filter(|interval| lsn(interval["start_lsn"].as_str().unwrap()) >= first) {
        let (start, end) = (interval["start_lsn"].as_str().unwrap(), interval["end_lsn"].as_str().unwrap());
        let waldump = server.run("pg_waldump", &["--stats", "-p", arg(&wal), "-s", start, "-e", end]);
        let mut sum = [0; 4];
        for row in waldump_rows(&String::from_utf8_lossy(&waldump.stdout)).values() {
            sum.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
        }
        let own =
            ["records", "record_bytes", "fpi_bytes", "combined_bytes"].map(|name| interval[name].as_u64().unwrap());
        assert_eq!(own, sum, "interval {start} to {end}");
        // Blocks by pg_waldump's own list of references.
        let records = server.run("pg_waldump", &["-p", arg(&wal), "-s", start, "-e", end]);
        let mut blocks: Vec<String> = String::from_utf8_lossy(&records.stdout)
            .split("blkref #")
            .skip(1)
            .map(|part| {
                let words: Vec<&str> = part.split([' ', ',']).collect();
                let at = |name: &str| words.iter().position(|word| *word == name).map(|at| words[at + 1].trim());
                let fork = at("fork").unwrap_or("main");
                format!("{} {fork} {}", at("rel").unwrap(), at("blk").unwrap().trim_end_matches([';', '\n']))
            })
            .map(|block| block.lines().next().unwrap_or_default().to_owned())
            .collect();
        blocks.sort();
        blocks.dedup();
        assert_eq!(interval["distinct_blocks"].as_u64(), Some(blocks.len() as u64), "blocks of {start} to {end}");
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn ready_pages_are_what_the_server_wrote() {
    let Some(server) = Server::start("full_page_writes = on") else { return };
    server.sql(
        "create table t as select i, repeat('x', 80) v from generate_series(1, 40000) i; vacuum freeze t; checkpoint;",
    );
    // Each page is changed once after the checkpoint, so that its image is what the server ends up writing.
    server.sql("update t set v = v where i % 95 = 1");
    server.stop("fast");
    let out = tempfile::tempdir().unwrap();
    let pages = out.path().join("pages");
    let ran = run("pg_walfpi", &["extract", "--format", "ndjson", arg(&pages), arg(&server.data())]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let (mut same_lsn, mut equal) = (0, 0);
    for image in ran.of_type("image") {
        let path = match (image["spc_oid"].as_u64(), image["db_oid"].as_u64()) {
            (Some(1664), _) => "global".to_owned(),
            (_, db) => format!("base/{}", db.unwrap()),
        };
        let fork = match image["fork"].as_str().unwrap() {
            "main" => String::new(),
            fork => format!("_{fork}"),
        };
        let file = server.data().join(path).join(format!("{}{fork}", image["rel_number"]));
        let Ok(bytes) = fs::read(file) else { continue };
        let at = image["block"].as_u64().unwrap() as usize * 8192;
        let Some(disk) = bytes.get(at..at + 8192) else { continue };
        let page = fs::read(pages.join(image["file"].as_str().unwrap())).unwrap();
        if page[..8] == disk[..8] {
            same_lsn += 1;
            equal += usize::from(page == disk);
        }
    }
    // Where hint bits were set since, bytes differ; everywhere else image and page are the same to the byte.
    assert!(same_lsn >= 40, "{same_lsn} images are the last change of their page");
    assert!(equal * 2 > same_lsn, "{equal} of {same_lsn} are equal to the byte, checksum included");
}

/// Peak memory of a finished child would need another process; the address space limit says it as well: with far less
/// than the record's length to use, a record of 60 MB is still counted.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn very_long_records_do_not_need_their_length_in_memory() {
    let Some(server) = Server::start("wal_level = logical") else { return };
    server.sql("select pg_logical_emit_message(false, 'test', repeat('x', 60000000));");
    server.stop("fast");
    let script = "ulimit -v 60000; \"$0\" stats --by record --jobs 1 --format ndjson \"$1\"";
    let program = env!("CARGO_BIN_EXE_pg_walfpi");
    let output =
        std::process::Command::new("bash").args(["-c", script, program, arg(&server.data())]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let row = text.lines().find(|line| line.contains("LogicalMessage")).expect("the message is counted");
    let row: Value = serde_json::from_str(row).unwrap();
    assert!(row["record_bytes"].as_u64().unwrap() > 60_000_000, "{row}");
}
