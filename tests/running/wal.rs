//! WAL of a live server: its end moves while it is read, segments change their names, and a reset is told from a clean stop.

use std::path::Path;

use crate::common::live::Server;
use crate::common::{Ran, arg, dwbinspect, run};
use serde_json::Value;

/// Clients that write all the time, each row a transaction of its own.
const CLIENTS: usize = 4;
/// Runs of each command under load.
const RUNS: usize = 25;
/// Bytes of a segment of the test's servers.
const SEGMENT: u64 = 1 << 20;

fn findings(ran: &Ran, kind: &str) -> Vec<Value> {
    ran.of_type("finding").into_iter().filter(|finding| finding["kind"] == kind).collect()
}

/// Runs `pg_walfpi` until it was faster than the server, which under this load can rename segments, even all of them,
/// between listing and reading. Where all had another name, there is nothing to tell of.
fn run_before_wal_is_recycled(args: &[&str]) -> Ran {
    let was_faster = |ran: &Ran| {
        !ran.stdout.is_empty() && ran.of_type("skipped").iter().all(|skipped| skipped["cause"] != "recycled")
    };
    (0..RUNS).map(|_| run("pg_walfpi", args)).find(was_faster).expect("a run that was faster than the server")
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn wal_of_a_running_server_is_never_called_damaged() {
    // Little WAL is kept, so that segments are given new names all the time.
    let settings = "wal_keep_size = 0\nmax_wal_size = 4MB\nmin_wal_size = 2MB\nsynchronous_commit = on\n";
    let Some(server) = Server::start(settings) else { return };
    server.sql("CREATE TABLE filled (id bigserial PRIMARY KEY, text text)");
    let load = "DO $$ BEGIN FOR i IN 1..100000000 LOOP \
                INSERT INTO filled (text) VALUES (repeat(md5(i::text), 1 + i % 400)); COMMIT; \
                IF i % 2000 = 0 THEN TRUNCATE filled; COMMIT; END IF; \
                IF i % 40 = 0 THEN PERFORM pg_sleep(0.01); END IF; END LOOP; END $$";
    let clients: Vec<_> = (0..CLIENTS).map(|_| server.start_sql(load)).collect();
    let data = server.data();
    let position = || server.sql("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").trim().parse::<f64>().unwrap();
    let before = position();
    // There is something to meet once all of the WAL that is kept was written anew, however slow the machine.
    let written_anew = || position() - before > 5.0 * SEGMENT as f64;
    let mut round = 0;
    while round < RUNS || !written_anew() {
        assert!(round < 20 * RUNS, "the server hardly writes: {} bytes", position() - before);
        for command in [&["verify"][..], &["stats"], &["list", "--resync"]] {
            let ran = run_before_wal_is_recycled(&[command, &["--format", "ndjson", arg(&data)]].concat());
            assert!(ran.status == 0, "{command:?}, round {round}: {}\n{}", ran.status, ran.stdout);
        }
        round += 1;
    }
    server.stop("immediate");
    for mut client in clients {
        client.wait().unwrap();
    }
    let ran = run("pg_walfpi", &["verify", "--format", "ndjson", arg(&data)]);
    assert_eq!((ran.status, findings(&ran, "damage").len()), (0, 0), "{}", ran.stdout);
}

fn recovery_of(data: &Path) -> (String, Vec<Value>) {
    let ran = dwbinspect(&["check", "--format", "ndjson", arg(data)]);
    let summary = ran.of_type("summary").pop().expect("summary");
    let doubts = summary["doubt_codes"].as_array().expect("doubts").clone();
    (summary["recovery"].as_str().expect("recovery").to_owned(), doubts)
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn clean_stop_after_a_segment_switch_is_told_from_a_reset() {
    let Some(server) = Server::create("wal_level = minimal\nmax_wal_senders = 0\nwal_keep_size = 0\n") else { return };
    let was_reset = |server: &Server| {
        let data = server.data();
        let control = std::fs::read(data.join("global/pg_control")).unwrap();
        let checkpoint = u64::from_le_bytes(control[32..40].try_into().unwrap());
        // After the header of the segment's first page: the first record, whoever wrote it.
        assert_eq!(checkpoint % SEGMENT, 40, "{}", server.log());
        let info = dwbinspect(&["info", "--format", "ndjson", arg(&data)]);
        let told = !findings(&info, "wal_was_reset").is_empty();
        let (recovery, doubts) = recovery_of(&data);
        let expected = if told { ("after_reset", vec!["wal_was_reset".into()]) } else { ("none", Vec::new()) };
        assert_eq!((recovery.as_str(), doubts), expected);
        told
    };
    assert!(server.launch(&[]), "{}", server.log());
    server.sql("CREATE TABLE kept AS SELECT generate_series(1, 1000) id; CHECKPOINT; SELECT pg_switch_wal()");
    server.stop("fast");
    assert!(!was_reset(&server));
    // The same, with the checkpoint's record gone: the worse is believed.
    let spoiled = server.copy();
    let segment = std::fs::read_dir(spoiled.data().join("pg_wal")).unwrap().map(|entry| entry.unwrap().path());
    for path in segment.filter(|path| path.is_file()) {
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(recovery_of(&spoiled.data()).0, "after_reset");
    // And a real reset, of the same cluster.
    let reset = server.copy();
    reset.must("pg_resetwal", &["-D", arg(&reset.data())]);
    assert!(was_reset(&reset));
    // A server that ran since is a server as any other.
    assert!(reset.launch(&[]), "{}", reset.log());
    reset.sql("SELECT pg_switch_wal()");
    reset.stop("fast");
    let (recovery, doubts) = recovery_of(&reset.data());
    assert_eq!((recovery.as_str(), doubts), ("none", Vec::new()));
}
