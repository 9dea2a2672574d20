//! WAL that is followed while a server writes it counts what its archive does afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use crate::common::live::{Server, all_programs, version_of};
use crate::common::{arg, run};
use serde_json::Value;

const SUMMED: [&str; 5] = ["records", "record_bytes", "fpi_count", "fpi_bytes", "wal_bytes"];

fn sums(rows: &[Value]) -> Vec<u64> {
    let sum =
        |field: &&str| rows.iter().map(|row| row[*field].as_u64().unwrap_or_else(|| panic!("{field}: {row}"))).sum();
    SUMMED.iter().map(sum).collect()
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn lines_of_a_followed_server_add_up_to_its_archive() {
    let Some((bins, client)) = all_programs() else { return };
    for bin in bins {
        if version_of(&bin).first().is_some_and(|major| *major < 13) {
            continue;
        }
        let major = version_of(&bin);
        let archive = tempfile::tempdir().unwrap();
        fs::set_permissions(archive.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let settings = format!(
            "max_wal_size = 4MB\nmin_wal_size = 2MB\ncheckpoint_completion_target = 0.3\narchive_mode = on\n\
             archive_command = 'cp %p {}/%f'\n",
            archive.path().display()
        );
        let server = Server::create_with(bin, client.clone(), &["-k", "--wal-segsize=1"], &settings);
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("CREATE TABLE filled (id bigserial PRIMARY KEY, text text)");
        let load = "DO $$ BEGIN FOR i IN 1..100000000 LOOP \
                    INSERT INTO filled (text) VALUES (repeat(md5(i::text), 1 + i % 40)); COMMIT; \
                    IF i % 50 = 0 THEN PERFORM pg_sleep(0.02); END IF; END LOOP; END $$";
        let mut clients = [server.start_sql(load), server.start_sql(load)];
        let start = server.sql("SELECT pg_current_wal_insert_lsn()").trim().to_owned();
        let data = server.data();
        let follow = ["stats", "--follow", "--for", "12s", "--poll", "200ms", "--format", "ndjson", "--start", &start];
        let followed = run("pg_walfpi", &[&follow[..], &[arg(&data)]].concat());
        assert_eq!(followed.status, 0, "{major:?}: {}", followed.stdout);
        server.sql("SELECT pg_switch_wal()");
        server.stop("immediate");
        for client in &mut clients {
            client.wait().unwrap();
        }
        assert!(server.launch(&[]), "{}", server.log());
        server.stop("fast");
        let summary = followed.of_type("summary").pop().expect("summary");
        let text = |field: &str| summary[field].as_str().expect("an LSN").to_owned();
        let range = ["stats", "--format", "ndjson", "--start", &text("start_lsn"), "--end", &text("end_lsn")];
        let archived = run("pg_walfpi", &[&range[..], &[arg(archive.path())]].concat());
        assert_eq!(archived.status, 0, "{major:?}: {}", archived.stdout);
        let (lines, rows) = (followed.of_type("interval"), archived.of_type("interval"));
        assert!(lines.len() >= 3, "{major:?}: {}", followed.stdout);
        let of = |rows: &[Value]| -> Vec<Value> {
            rows.iter()
                .map(|row| serde_json::json!([row["redo_lsn"], row["distinct_blocks"], row["fpi_count"]]))
                .collect()
        };
        assert_eq!(of(&lines), of(&rows), "{major:?}");
        assert_eq!(sums(&lines), sums(&rows), "{major:?}");
        let whole = archived.of_type("summary");
        assert_eq!(sums(&[summary]), sums(&whole), "{major:?}");
        assert_eq!(sums(&lines), sums(&whole), "{major:?}");
    }
}

/// A standby is promoted while it is followed: what is counted goes from its first timeline into the second, without a record
/// twice or lost, and over files that were recycled.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn promotion_is_followed_into_the_new_timeline() {
    let Some((bins, client)) = all_programs() else { return };
    for bin in bins {
        if version_of(&bin).first().is_some_and(|major| *major < 13) {
            continue;
        }
        let major = version_of(&bin);
        let settings = "max_wal_size = 4MB\nmin_wal_size = 2MB\ncheckpoint_completion_target = 0.3\nwal_keep_size = 2GB\n\
                        checkpoint_timeout = 30s\n";
        let primary = Server::create_with(bin, client.clone(), &["-k", "--wal-segsize=1"], settings);
        assert!(primary.launch(&[]), "{}", primary.log());
        primary.sql("CREATE TABLE filled (id bigserial PRIMARY KEY, text text)");
        // A copy, since a pg_basebackup of another version may be the only one here.
        primary.stop("fast");
        let standby = primary.copy();
        assert!(primary.launch(&[]), "{}", primary.log());
        let archive = standby.keep_archive();
        let source = format!("host={} user=postgres", primary.host().display());
        standby.configure(&format!("archive_mode = always\nprimary_conninfo = '{source}'\n"));
        fs::write(standby.data().join("standby.signal"), "").unwrap();
        assert!(standby.launch(&[]), "{}", standby.log());
        let load = "DO $$ BEGIN FOR i IN 1..100000000 LOOP \
                    INSERT INTO filled (text) VALUES (repeat(md5(i::text), 1 + i % 40)); COMMIT; \
                    IF i % 50 = 0 THEN PERFORM pg_sleep(0.02); END IF; END LOOP; END $$";
        let mut before = primary.start_sql(load);
        let received = "SELECT pg_last_wal_replay_lsn()";
        let first = standby.sql(received).trim().to_owned();
        let until = Instant::now() + Duration::from_secs(60);
        while standby.sql(received).trim() == first {
            assert!(Instant::now() < until, "{major:?}: nothing is replayed: {}", standby.log());
            sleep(Duration::from_millis(50));
        }
        let start = standby.sql(received).trim().to_owned();
        let data = standby.data();
        let follow = ["stats", "--follow", "--for", "20s", "--poll", "200ms", "--format", "ndjson", "--start", &start];
        let (args, path) = (follow.map(str::to_owned), data.clone());
        let following =
            spawn(move || run("pg_walfpi", &args.iter().map(String::as_str).chain([arg(&path)]).collect::<Vec<_>>()));
        sleep(Duration::from_secs(7));
        primary.stop("immediate");
        before.wait().unwrap();
        standby.sql("SELECT pg_promote()");
        let mut after = standby.start_sql(load);
        let followed = following.join().unwrap();
        standby.sql("SELECT pg_switch_wal()");
        standby.stop("immediate");
        after.wait().unwrap();
        assert!(standby.launch(&[]), "{}", standby.log());
        let timeline = standby.sql("SELECT timeline_id FROM pg_control_checkpoint()");
        standby.stop("fast");
        assert_eq!(timeline.trim(), "2", "{major:?}");
        assert_eq!(followed.status, 0, "{major:?}: {}", followed.stdout);
        let summary = followed.of_type("summary").pop().expect("summary");
        let text = |field: &str| summary[field].as_str().expect("an LSN").to_owned();
        let range = ["stats", "--format", "ndjson", "--start", &text("start_lsn"), "--end", &text("end_lsn")];
        let archived = run("pg_walfpi", &[&range[..], &[arg(&archive)]].concat());
        assert_eq!(archived.status, 0, "{major:?}: {}", archived.stdout);
        let (lines, whole) = (followed.of_type("interval"), archived.of_type("summary"));
        assert!(lines.len() >= 3, "{major:?}: {}", followed.stdout);
        assert_eq!(sums(&[summary]), sums(&whole), "{major:?}");
        assert_eq!(sums(&lines), sums(&whole), "{major:?}");
        // The range does reach into the second timeline.
        let listed = run("pg_walfpi", &[&["verify", "--format", "ndjson"], &range[3..], &[arg(&archive)]].concat());
        let timelines: Vec<Value> = listed.of_type("run").iter().map(|run| run["timelines"].clone()).collect();
        assert!(timelines.iter().any(|own| own.to_string().contains('2')), "{major:?}: {timelines:?}");
    }
}
