//! `check` and `repair` against a live server that tears its own pages, crashes, and is started again.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::crash::{Recovered, assert_many, assert_recovers, crash_in_a_checkpoint, look, recover};
use crate::common::live::Server;
use crate::common::tear::{BLOCK_SIZE, Plan, Tear, TearingServer};
use crate::common::{Ran, arg, dwbinspect};
use serde_json::Value;

/// A page as `check` and the list of tears both name it: segment file and place in it.
type Place = (PathBuf, u64);

fn check(data: &Path) -> (Ran, Vec<Value>, Value) {
    let ran = dwbinspect(&["check", arg(data), "--format", "ndjson"]);
    let pages = ran.of_type("page");
    let summary = ran.of_type("summary").pop().expect("summary");
    (ran, pages, summary)
}

fn place_of(page: &Value) -> Place {
    (PathBuf::from(page["path"].as_str().expect("path")), page["block"].as_u64().expect("block"))
}

/// Every page that fails its checksum is found, and nothing is reported that was not torn.
fn assert_found(data: &Path, tears: &[Tear], pages: &[Value]) {
    let reported: BTreeSet<Place> = pages.iter().map(place_of).collect();
    let torn: BTreeSet<Place> = tears.iter().map(|tear| (tear.path.clone(), u64::from(tear.block))).collect();
    for tear in tears.iter().filter(|tear| tear.fails_checksum(data)) {
        assert!(
            reported.contains(&(tear.path.clone(), u64::from(tear.block))),
            "{}:{}",
            tear.path.display(),
            tear.block
        );
    }
    for place in &reported {
        assert!(torn.contains(place), "false alarm: {} block {}", place.0.display(), place.1);
    }
}

fn verdicts<'a>(pages: &'a [Value], verdict: &str) -> Vec<&'a Value> {
    pages.iter().filter(|page| page["verdict"] == verdict).collect()
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn with_full_page_writes_replay_heals_every_torn_page() {
    let Some(tearing) = crash_in_a_checkpoint("full_page_writes = on", Plan { seed: 11, tears: 450 }) else { return };
    let data = tearing.server.data();
    let (tears, kinds) = look(&tearing);
    assert_many(&kinds, 400);
    let (_, pages, summary) = check(&data);
    assert_found(&data, &tears, &pages);
    for page in &pages {
        let verdict = page["verdict"].as_str().expect("verdict");
        assert!(["heals_in_replay", "leave"].contains(&verdict), "{page}");
    }
    assert_eq!(summary["on_start"]["start"], "completes");
    let plan = dwbinspect(&["repair", arg(&data), "--format", "ndjson"]);
    assert!(plan.of_type("step").is_empty(), "there is nothing to repair");
    assert_recovers(&tearing.server);
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn without_full_page_writes_the_record_that_stops_replay_is_foretold() {
    let Some(tearing) = crash_in_a_checkpoint("full_page_writes = off", Plan { seed: 12, tears: 450 }) else { return };
    let data = tearing.server.data();
    let (tears, kinds) = look(&tearing);
    assert_many(&kinds, 400);
    let (_, pages, summary) = check(&data);
    assert_found(&data, &tears, &pages);
    match recover(&tearing.server) {
        Recovered::Not(server) => {
            assert_eq!(summary["on_start"]["start"], "stops");
            // The server prints LSNs without leading zeros.
            let (high, low) = summary["on_start"]["stops_at"].as_str().expect("LSN").split_once('/').expect("LSN");
            let low = u32::from_str_radix(low, 16).expect("LSN");
            let at = format!("WAL redo at {high}/{low:X}");
            assert!(server.log().contains(&at), "{at}: {}", server.log());
        }
        // With a double write buffer that depends on how much of it replay overwrites.
        Recovered::Started { .. } => {
            assert!(["completes", "depends_on_dwb"].contains(&summary["on_start"]["start"].as_str().expect("word")));
        }
    }
    // Where `check` says that replay heals, the torn page is left; where it has an image, that is put back; all others get
    // what the server meant to write.
    let copy = tearing.server.copy();
    let journal = copy.data().parent().expect("parent").join("undo");
    let ran = dwbinspect(&["repair", arg(&copy.data()), "--apply", "--allow-other-user", "--journal", arg(&journal)]);
    assert!(ran.status < 2, "{}{}", ran.stdout, ran.stderr);
    fill(&copy, &tears, &[verdicts(&pages, "heals_in_replay"), verdicts(&pages, "restore")].concat());
    assert!(copy.launch(&[]), "{}", copy.log());
    copy.stop("fast");
    assert!(copy.run("pg_checksums", &["--check", "-D", arg(&copy.data())]).status.success());
}

/// Writes what the server meant to write over every torn page but those that a claim was made of.
fn fill(server: &Server, tears: &[Tear], claimed: &[&Value]) {
    let claimed: BTreeSet<Place> = claimed.iter().map(|page| place_of(page)).collect();
    for tear in tears.iter().filter(|tear| !claimed.contains(&(tear.path.clone(), u64::from(tear.block)))) {
        let file = fs::OpenOptions::new().write(true).open(server.data().join(&tear.path)).expect("open");
        file.write_all_at(&tear.intended, u64::from(tear.block) * BLOCK_SIZE as u64).expect("write");
    }
}

/// A table of which one row a page was changed under full-page images, and then, after the redo point, another without.
fn crash_with_images_from_before() -> Option<TearingServer> {
    let settings = "shared_buffers = 64MB\nmax_wal_size = 4GB\nfull_page_writes = on";
    let tearing = TearingServer::start(settings, Plan { seed: 13, tears: 120 })?;
    let server = &tearing.server;
    server.sql(
        "create extension amcheck;
         create table quiet(id int primary key, balance int, filler text) with (fillfactor = 50);
         insert into quiet select i, 100, repeat('x', 400) from generate_series(1, 4000) i;
         create table first as select (ctid::text::point)[0]::int as page, min(id) as one, max(id) as other
           from quiet group by 1;
         vacuum freeze;",
    );
    server.sql("checkpoint");
    server.sql("update quiet set balance = balance - 30 where id in (select one from first);");
    server.sql("alter system set full_page_writes = off; select pg_reload_conf();");
    std::thread::sleep(Duration::from_millis(300));
    server.sql("checkpoint");
    server.sql("update quiet set balance = balance + 30 where id in (select other from first);");
    tearing.arm();
    let mut checkpoint = server.start_sql("checkpoint");
    tearing.wait_for_crash(Duration::from_secs(60));
    checkpoint.wait().expect("client ends");
    Some(tearing)
}

fn is_sound(server: &Server) {
    assert!(server.launch(&[]), "{}", server.log());
    let sum = server.sql("select sum(balance), count(*) from quiet");
    assert_eq!(sum.trim(), "400000|4000");
    server.sql("select bt_index_check('quiet_pkey', true); select verify_heapam('quiet');");
    assert_eq!(server.sql("select count(*) from verify_heapam('quiet')").trim(), "0");
    server.stop("fast");
    assert!(server.run("pg_checksums", &["--check", "-D", arg(&server.data())]).status.success());
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn pages_are_repaired_from_images_in_wal_where_nothing_is_lost() {
    let Some(tearing) = crash_with_images_from_before() else { return };
    let copy = tearing.server.copy();
    let data = copy.data();
    let (tears, _) = look(&tearing);
    let (_, pages, _) = check(&data);
    assert_found(&data, &tears, &pages);
    let restore = verdicts(&pages, "restore");
    assert!(restore.len() >= 20, "{} of {}", restore.len(), pages.len());
    for page in &restore {
        assert_eq!(page["chosen"]["source"], "wal", "{page}");
    }
    let journal = data.parent().expect("parent").join("undo");
    let before: Vec<Vec<u8>> = tears.iter().map(|tear| tear.on_disk(&data).expect("page")).collect();
    let ran = dwbinspect(&["repair", arg(&data), "--apply", "--allow-other-user", "--journal", arg(&journal)]);
    assert!(ran.status < 2, "{}{}", ran.stdout, ran.stderr);
    // What cannot be repaired, pages of catalogs with new hint bits, gets what the server meant to write.
    let repaired: BTreeSet<Place> = restore.iter().map(|page| place_of(page)).collect();
    let failing = |tear: &&Tear| tear.fails_checksum(&data);
    let others =
        tears.iter().filter(failing).filter(|tear| !repaired.contains(&(tear.path.clone(), u64::from(tear.block))));
    let others = others.count();
    assert!(others < repaired.len(), "{others} others, {} repaired", repaired.len());
    let whole = copy.copy();
    fill(&whole, &tears, &restore);
    is_sound(&whole);
    // And back again.
    let ran = dwbinspect(&["undo", arg(&data), arg(&journal), "--allow-other-user"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let after: Vec<Vec<u8>> = tears.iter().map(|tear| tear.on_disk(&data).expect("page")).collect();
    assert!(before == after, "every byte is back");
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn a_server_that_runs_keeps_repair_away() {
    let Some(server) = Server::start("") else { return };
    let ran = dwbinspect(&["repair", arg(&server.data()), "--apply", "--allow-other-user"]);
    assert!(ran.status == 2 && ran.stderr.contains("stop the server"), "{}", ran.stderr);
    let (ran, pages, summary) = check(&server.data());
    assert!(pages.is_empty(), "{}", ran.stdout);
    assert_eq!(summary["on_start"]["start"], "running");
}
