//! What `check` advises when evidence is gone: each command is carried out on a copy by the server of this machine.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use crate::common::live::Server;
use crate::common::{arg, dwbinspect};

/// Entries of `next` of a check.
fn next(data: &Path) -> Vec<Value> {
    let ran = dwbinspect(&["check", "--format", "ndjson", arg(data)]);
    ran.of_type("summary")[0]["next"].as_array().expect("steps").clone()
}

fn step<'a>(steps: &'a [Value], code: &str) -> &'a Value {
    steps.iter().find(|step| step["step"] == code).unwrap_or_else(|| panic!("{code}: {steps:?}"))
}

fn table(settings: &str) -> Option<Server> {
    let server = Server::start(settings)?;
    server.sql("create table note (id int, words text); insert into note select n, repeat('x', 200) from generate_series(1, 2000) n; checkpoint;");
    Some(server)
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn without_wal_a_cluster_that_was_shut_down_loses_nothing_by_a_reset() {
    let Some(server) = table("") else { return };
    server.sql("update note set words = 'y' where id % 7 = 0");
    let before = server.sql("select count(*), count(*) filter (where words = 'y') from note");
    server.stop("fast");
    let copy = server.copy();
    for entry in fs::read_dir(copy.data().join("pg_wal")).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let steps = next(&copy.data());
    assert_eq!(step(&steps, "reset_after_shutdown")["commands"][0], "pg_resetwal -D COPY");
    assert!(!copy.copy().launch(&[]), "the server starts without WAL");
    copy.must("pg_resetwal", &["-D", arg(&copy.data())]);
    assert!(copy.launch(&[]), "{}", copy.log());
    assert_eq!(copy.sql("select count(*), count(*) filter (where words = 'y') from note"), before);
    // After a crash changes are in WAL alone.
    assert!(server.launch(&[]));
    server.stop("immediate");
    for entry in fs::read_dir(server.data().join("pg_wal")).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    assert!(next(&server.data()).iter().all(|step| step["step"] != "reset_after_shutdown"));
}

/// Carries out what is printed for a cluster whose `pg_control` is empty.
fn reset_by_wal(copy: &Server) -> String {
    fs::write(copy.data().join("global/pg_control"), b"").unwrap();
    let steps = next(&copy.data());
    let step = step(&steps, "reset_by_wal");
    let command = step["commands"][1].as_str().unwrap();
    let data = copy.data();
    let words: Vec<&str> =
        command.split(' ').skip(1).map(|word| if word == "COPY" { arg(&data) } else { word }).collect();
    copy.must("pg_resetwal", &words);
    assert!(copy.launch(&[]), "{command}: {}", copy.log());
    step["sentence"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn without_pg_control_the_last_checkpoint_gives_the_arguments_of_a_reset() {
    let Some(server) = table("") else { return };
    server.sql("begin; select * from note where id = 1 for share; savepoint a; select * from note where id = 1 for update; update note set words = 'z' where id = 1; commit;");
    let rows = "select count(*), sum(hashtext(words)::bigint) from note";
    let before = server.sql(rows);
    let next_xid: u64 = server.sql("select txid_current()").trim().parse().unwrap();
    server.stop("fast");
    let copy = server.copy();
    assert!(reset_by_wal(&copy).contains("no change is lost"));
    assert_eq!(copy.sql(rows), before);
    assert!(copy.sql("select txid_current()").trim().parse::<u64>().unwrap() > next_xid);
    copy.sql("vacuum (freeze) note; create table later (id int); insert into later select 1");
    // After a crash the counters are those after the last record, and changes since the redo point are given up.
    assert!(server.launch(&[]));
    server.sql(
        "checkpoint; insert into note select n, 'late' from generate_series(1, 50) n; create table newest (id int);",
    );
    // A number that nothing was logged of may be handed out again.
    let next_xid: u64 = server.sql("select max(xmin::text::bigint) from pg_class").trim().parse().unwrap();
    server.stop("immediate");
    let copy = server.copy();
    assert!(reset_by_wal(&copy).contains("is discarded"));
    assert!(copy.sql("select txid_current()").trim().parse::<u64>().unwrap() > next_xid);
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn printed_statement_reads_every_row_of_whole_pages() {
    let Some(server) = table("") else { return };
    let of_page = server.sql("select count(*) from note where ctid >= '(3,0)' and ctid < '(4,0)'");
    let path = server.sql("select pg_relation_filepath('note')");
    server.sql("select pg_switch_wal(); checkpoint; select pg_switch_wal(); checkpoint;");
    server.stop("fast");
    let copy = server.copy();
    let file = fs::OpenOptions::new().write(true).open(copy.data().join(path.trim())).unwrap();
    file.write_all_at(&[0xEE; 64], 3 * 8192).unwrap();
    // The segment of the checkpoint alone is needed, and an older one would give the page back.
    let last = copy.must("pg_controldata", &[arg(&copy.data())]);
    let last = last.lines().find_map(|line| line.strip_prefix("Latest checkpoint's REDO WAL file:")).unwrap().trim();
    for entry in fs::read_dir(copy.data().join("pg_wal")).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() && entry.file_name().to_str().unwrap() < last {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let steps = next(&copy.data());
    let commands = step(&steps, "salvage_table")["commands"].as_array().unwrap();
    let statement = commands.iter().find_map(|command| command.as_str()?.split_once(" -c ")).expect("a statement");
    let statement = statement.1.trim_matches('\'').replace("'\\''", "'");
    assert!(copy.launch(&[]), "{}", copy.log());
    let rows = copy.sql(&format!("{statement};")).lines().count();
    assert_eq!(rows, 2000 - of_page.trim().parse::<usize>().unwrap());
}

/// "invalid page in block 3": the table comes back to the last row from the cluster's own `pg_wal`.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn page_without_a_header_is_rebuilt_though_a_doubt_stays() {
    let Some(bin) = crate::common::live::find_programs() else {
        return crate::common::skipped("no PostgreSQL server is installed here");
    };
    let server = Server::create_with(bin.clone(), bin, &["--wal-segsize=1"], "wal_keep_size = 2GB");
    assert!(server.launch(&[]), "{}", server.log());
    server.sql("create table note (id int, words text); insert into note select n, repeat('x', 200) from generate_series(1, 2000) n; checkpoint; update note set words = 'y' where id % 7 = 0; update note set words = 'y' where id % 5 = 0;");
    let before = server.sql("select sum(id), count(*) filter (where words = 'y') from note");
    let path = server.sql("select pg_relation_filepath('note')");
    server.stop("fast");
    let copy = server.copy();
    let file = fs::OpenOptions::new().write(true).open(copy.data().join(path.trim())).unwrap();
    file.write_all_at(&[0xEE; 24], 3 * 8192).unwrap();
    let steps = next(&copy.data());
    let found = steps.iter().find(|step| step["step"] == "rebuild_doubtful" || step["step"] == "rebuild_pages");
    let command = found.unwrap_or_else(|| panic!("{steps:?}"))["commands"].as_array().unwrap().last().unwrap().clone();
    let (owner, words) = command.as_str().unwrap().split_once("pg_dwbinspect ").unwrap();
    // The tests of root have no sudo.
    let user = (!owner.is_empty()).then_some("--allow-other-user");
    let ran = dwbinspect(&words.split(' ').chain(user).collect::<Vec<_>>());
    assert_eq!(ran.status, 0, "{command}: {}{}", ran.stdout, ran.stderr);
    assert!(copy.launch(&[]), "{}", copy.log());
    assert_eq!(copy.sql("select sum(id), count(*) filter (where words = 'y') from note"), before);
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn pages_newer_than_all_wal_are_dumped_after_a_reset_past_them() {
    let settings = "shared_buffers = '128kB'\nfull_page_writes = off\ncheckpoint_timeout = '1h'\nautovacuum = off\n";
    let Some(server) = table(settings) else { return };
    server.sql("insert into note select n, 'late' from generate_series(2001, 9000) n");
    server.sql("select pg_switch_wal(); insert into note select n, 'lost' from generate_series(9001, 30000) n; select count(*) from note;");
    server.stop("immediate");
    let copy = server.copy();
    let control = copy.must("pg_controldata", &[arg(&copy.data())]);
    let value =
        |name: &str| control.lines().find_map(|line| line.strip_prefix(name)).expect("a line").trim().to_owned();
    let redo_file = value("Latest checkpoint's REDO WAL file:");
    for entry in fs::read_dir(copy.data().join("pg_wal")).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() && *entry.file_name().to_string_lossy() > *redo_file {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let steps = next(&copy.data());
    let first = steps.iter().find(|step| step["step"] != "copy_first");
    assert_eq!(first.unwrap()["step"], "bring_rest_of_wal", "{steps:?}");
    let command = step(&steps, "reset_past_pages")["commands"][2].as_str().unwrap().to_owned();
    assert!(copy.launch(&[]), "{}", copy.log());
    copy.stop("fast");
    let data = copy.data();
    let words: Vec<&str> =
        command.split(' ').skip(1).map(|word| if word == "COPY" { arg(&data) } else { word }).collect();
    copy.must("pg_resetwal", &words);
    assert!(copy.launch(&[]), "{}", copy.log());
    copy.sql("update note set words = 'z'; checkpoint");
    assert!(!copy.log().contains("is not satisfied"), "{}", copy.log());
    assert!(copy.sql("select count(*) from note where id <= 2000").trim() == "2000");
}

/// The lines of the label that stand in the finding are those that the server wrote.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn label_of_a_backup_of_a_standby_is_told_as_it_was() {
    let Some(primary) = Server::start("") else { return };
    primary.sql("create table t as select 1 i");
    let standby = primary.base_backup(&["-R", "-X", "stream"]);
    standby.configure(&format!("primary_conninfo = 'host={} user=postgres'\n", primary.host().display()));
    assert!(standby.launch(&[]), "{}", standby.log());
    for (server, from) in [(&primary, "primary"), (&standby, "standby")] {
        let backup = server.base_backup(&["-X", "stream"]);
        let label = fs::read_to_string(backup.data().join("backup_label")).unwrap();
        assert!(label.contains(&format!("BACKUP FROM: {from}\n")), "{label}");
        let gone = backup.data().join("backup_label.gone");
        fs::rename(backup.data().join("backup_label"), &gone).unwrap();
        // That of the backup that the standby was made of comes with its own backups.
        assert_eq!(backup.data().join("backup_label.old").exists(), from == "standby");
        let ran = dwbinspect(&["check", arg(&backup.data()), "--format", "ndjson"]);
        let findings = ran.of_type("finding");
        let found =
            findings.iter().find(|found| found["kind"] == "label_gone").unwrap_or_else(|| panic!("{findings:?}"));
        let what = found["what"].as_str().unwrap();
        for name in ["START WAL LOCATION", "BACKUP METHOD", "BACKUP FROM", "START TIMELINE"] {
            let line = label.lines().find(|line| line.starts_with(name)).unwrap();
            // Numbers are written with leading zeros here.
            let told = what.replace("/0", "/").replace("/0", "/");
            assert!(what.contains(line) || told.contains(line), "{line}: {what}");
        }
        assert_ne!(ran.status, 0, "{}", ran.stdout);
        let is_named = |data: &Path| {
            let ran = dwbinspect(&["check", arg(data), "--format", "ndjson"]);
            ran.of_type("finding").iter().any(|found| found["kind"] == "label_gone")
        };
        if from == "primary" {
            // Renamed by hand, as a server renames it that recovers from it.
            fs::rename(&gone, backup.data().join("backup_label.old")).unwrap();
            assert!(is_named(&backup.data()));
            fs::rename(backup.data().join("backup_label.old"), backup.data().join("backup_label")).unwrap();
            backup.configure("");
            assert!(backup.launch(&[]), "{}", backup.log());
            backup.sql("checkpoint");
            backup.stop("immediate");
            fs::remove_file(backup.data().join("postmaster.opts")).unwrap();
            assert!(!is_named(&backup.data()));
        }
    }
}
