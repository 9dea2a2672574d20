//! Donors that a real server made: base backups in each form, a standby that follows and one that was promoted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::live::Server;
use crate::common::rebuild::{overwrite, page_of};
use crate::common::{arg, dwbinspect};

/// Tables that are filled and read once, of which `grows` is changed later.
const FILL: &str = "CREATE TABLE stays (id int PRIMARY KEY, t text);
    CREATE TABLE grows (id int PRIMARY KEY, t text);
    CREATE TABLE goes (id int, t text);
    CREATE UNLOGGED TABLE fleeting (id int);
    INSERT INTO stays SELECT n, repeat(md5(n::text), 4) FROM generate_series(1, 5000) n;
    INSERT INTO grows SELECT n, repeat(md5(n::text), 4) FROM generate_series(1, 5000) n;
    INSERT INTO goes SELECT n, repeat(md5(n::text), 4) FROM generate_series(1, 5000) n;
    INSERT INTO fleeting SELECT generate_series(1, 5000);
    VACUUM (FREEZE) stays, grows, goes;
    CHECKPOINT;";

/// What happens after the donor was made.
const CHANGE: &str = "UPDATE grows SET t = md5(t) WHERE id % 3 = 0;
    DELETE FROM goes WHERE id > 1000; VACUUM goes;
    INSERT INTO goes SELECT n, repeat('x', 100) FROM generate_series(1, 6000) n;";

/// Sums over what the tables hold.
const SUMS: &str = "SELECT md5(string_agg(id || t, ',' ORDER BY id, t)) FROM stays;
    SET enable_seqscan = off; SELECT count(*), sum(id) FROM stays WHERE id BETWEEN 100 AND 4900;";

fn path_of(server: &Server, relation: &str) -> String {
    server.sql(&format!("SELECT pg_relation_filepath('{relation}')")).trim().to_owned()
}

/// Flips a bit of the page.
fn rot(server: &Server, path: &str, block: u64) {
    let path = server.data().join(path);
    let mut bytes = page_of(&path, block);
    bytes[8000] ^= 4;
    overwrite(&path, block, &bytes);
}

fn rows(server: &Server, donor: &Path) -> Vec<Value> {
    let data = server.data();
    let ran = dwbinspect(&["check", arg(&data), "--donor", arg(donor), "--format", "ndjson"]);
    let rows = ran.of_type("page");
    assert!(!rows.is_empty(), "{}{}", ran.stdout, ran.stderr);
    rows
}

fn verdict<'a>(rows: &'a [Value], path: &str, block: u64) -> &'a str {
    let row = rows.iter().find(|row| row["path"] == path && row["block"] == block);
    row.unwrap_or_else(|| panic!("{path} block {block}"))["verdict"].as_str().unwrap()
}

/// A server that was filled, then changed and stopped; pages of each relation rot then.
struct Rotten {
    server: Server,
    sums: String,
    stays: String,
    index: String,
    grows: String,
    goes: String,
    fleeting: String,
}

impl Rotten {
    /// `donor` is made of the server before it changes.
    fn of<D>(donor: impl FnOnce(&Server) -> D) -> Option<(Self, D)> {
        let server = Server::start("")?;
        server.sql(FILL);
        let donor = donor(&server);
        server.sql(CHANGE);
        let path = |name| path_of(&server, name);
        let sums = server.sql(SUMS);
        let (stays, index, grows) = (path("stays"), path("stays_pkey"), path("grows"));
        let (goes, fleeting) = (path("goes"), path("fleeting"));
        server.stop("fast");
        let rotten = Self { server, sums, stays, index, grows, goes, fleeting };
        for (path, block) in rotten.pages() {
            rot(&rotten.server, path, block);
        }
        Some((rotten, donor))
    }

    fn pages(&self) -> [(&str, u64); 6] {
        [
            (&self.stays, 7),
            (&self.index, 3),
            (&self.grows, 5),
            // Cut off by VACUUM, then filled again.
            (&self.goes, 60),
            // In front of what was cut off.
            (&self.goes, 2),
            (&self.fleeting, 1),
        ]
    }

    /// What is the same in the donor comes back, the rest does not.
    fn judge(&self, donor: &Path) {
        let rows = rows(&self.server, donor);
        let found = self.pages().map(|(path, block)| verdict(&rows, path, block));
        let proven = |verdict: &str| verdict == "restore";
        assert_eq!(found.map(proven), [true, true, false, false, true, false], "{found:?} {rows:#?}");
    }

    /// Puts pages back and starts the server.
    fn repair(&self, donor: &Path) {
        let data = self.server.data();
        let words = ["repair", arg(&data), "--donor", arg(donor), "--apply", "--allow-shut-down", "--allow-other-user"];
        let ran = dwbinspect(&words);
        assert!(ran.stdout.contains("stays"), "{}{}", ran.stdout, ran.stderr);
        assert!(self.server.launch(&[]), "{}", self.server.log());
        assert_eq!(self.server.sql(SUMS), self.sums);
        self.server.stop("fast");
    }
}

/// Starts a standby and waits until it has replayed what the server has written.
fn follow(standby: &Server, server: &Server) {
    standby.configure("");
    assert!(standby.launch(&[]), "{}", standby.log());
    let lsn = server.sql("SELECT pg_current_wal_lsn()");
    let is_there = format!("SELECT pg_last_wal_replay_lsn() >= '{}'", lsn.trim());
    let waited = (0..600).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        standby.sql(&is_there).trim() == "t"
    });
    assert!(waited.is_some(), "{}", standby.log());
}

/// Plain, tar and compressed tar, with the WAL of the backup in another archive or inside.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn base_backups_in_each_form() {
    let forms: [&[&str]; 5] = [
        &["-Fp", "-X", "stream"],
        &["-Ft", "-X", "stream"],
        &["-Ft", "-z", "-X", "stream"],
        &["-Ft", "-X", "fetch"],
        &["-Ft", "-X", "none", "--compress=client-lz4"],
    ];
    let backups = |server: &Server| forms.map(|form| server.base_backup(form));
    let Some((rotten, backups)) = Rotten::of(backups) else { return };
    for backup in &backups {
        rotten.judge(&backup.data());
    }
    // The archive itself, as well as its directory.
    rotten.judge(&backups[1].data().join("base.tar"));
    rotten.judge(&backups[2].data().join("base.tar.gz"));
    rotten.repair(&backups[2].data());
}

/// A standby that follows, stopped in order: what it replayed after its last restartpoint is in its pages, too.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn a_stopped_standby() {
    let standby = |server: &Server| {
        let standby = server.base_backup(&["-R", "-X", "stream"]);
        server.sql("INSERT INTO grows SELECT n, 'x' FROM generate_series(5001, 6000) n; CHECKPOINT;");
        follow(&standby, server);
        standby.stop("fast");
        standby
    };
    let Some((rotten, standby)) = Rotten::of(standby) else { return };
    let rows = rows(&rotten.server, &standby.data());
    let candidates = rows.iter().flat_map(|row| row["candidates"].as_array().unwrap());
    let kinds: Vec<_> = candidates.filter(|one| one["source"] == "donor").map(|one| &one["donor_kind"]).collect();
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == "stopped"), "{kinds:?}");
    rotten.judge(&standby.data());
    rotten.repair(&standby.data());
}

/// One that was promoted went on to another timeline, on which the cluster never was.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn a_promoted_standby_is_of_another_timeline() {
    let promoted = |server: &Server| {
        let standby = server.base_backup(&["-R", "-X", "stream"]);
        follow(&standby, server);
        standby.sql("SELECT pg_promote()");
        standby.sql("UPDATE stays SET t = 'of another line' WHERE id < 500; CHECKPOINT;");
        standby.stop("fast");
        standby
    };
    let Some((rotten, promoted)) = Rotten::of(promoted) else { return };
    let data = rotten.server.data();
    let ran = dwbinspect(&["check", arg(&data), "--donor", arg(&promoted.data())]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("timeline 2"), "{}", ran.stderr);
}

/// The other way round: the donor is of the timeline that the cluster came from.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn a_backup_from_before_a_promotion() {
    let Some(primary) = Server::start("") else { return };
    primary.sql(FILL);
    let donor = primary.base_backup(&["-X", "stream"]);
    let server = primary.base_backup(&["-R", "-X", "stream"]);
    follow(&server, &primary);
    server.sql("SELECT pg_promote()");
    server.sql(CHANGE);
    let (stays, grows) = (path_of(&server, "stays"), path_of(&server, "grows"));
    server.stop("fast");
    primary.stop("fast");
    rot(&server, &stays, 7);
    rot(&server, &grows, 5);
    let (data, archive) = (server.data(), primary.data().join("pg_wal"));
    let donor = donor.data();
    let words = ["check", arg(&data), "--donor", arg(&donor), "--wal", arg(&archive), "--format", "ndjson"];
    let ran = dwbinspect(&words);
    let found = ran.of_type("page");
    assert_eq!((verdict(&found, &stays, 7), verdict(&found, &grows, 5)), ("restore", "loses_changes"), "{found:#?}");
    // Without the history nobody knows how the timelines belong together.
    for name in fs::read_dir(data.join("pg_wal")).unwrap().map(|entry| entry.unwrap().path()) {
        if name.extension().is_some_and(|extension| extension == "history") {
            fs::remove_file(name).unwrap();
        }
    }
    let ran = dwbinspect(&["check", arg(&data), "--donor", arg(&donor)]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
}

/// Files that were copied while the server wrote them, without a label: proven only as far as WAL goes. While its server runs,
/// a directory is not used at all.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn a_copy_of_a_running_server() {
    let copied = |server: &Server| -> PathBuf {
        let copy = server.host().join("copy");
        let status = Command::new("cp").arg("-a").arg(server.data()).arg(&copy).status().expect("cp runs");
        assert!(status.success());
        fs::remove_file(copy.join("postmaster.pid")).unwrap();
        let ran = dwbinspect(&["check", arg(&copy), "--donor", arg(&server.data())]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
        assert!(ran.stderr.contains("a server runs in it"), "{}", ran.stderr);
        copy
    };
    let Some((rotten, copy)) = Rotten::of(copied) else { return };
    let found = rows(&rotten.server, &copy);
    // All WAL is still there, from before the tables were made: it proves the pages by itself.
    assert_eq!(verdict(&found, &rotten.stays, 7), "restore", "{found:#?}");
    assert_ne!(verdict(&found, &rotten.grows, 5), "restore");
    // A page that was last changed by initdb, of which there is no WAL.
    rot(&rotten.server, "base/5/2618", 3);
    let found = rows(&rotten.server, &copy);
    assert_eq!(verdict(&found, "base/5/2618", 3), "restore_unproven");
}
