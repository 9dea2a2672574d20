//! Files and directories of the server that go missing or are damaged, on every major there is: what `check` foretells is what the server does.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::server_files::told;
use crate::common::live::{Server, all_programs};
use crate::common::{arg, dwbinspect};

/// A new cluster of every major, not started.
pub fn servers(settings: &str) -> impl Iterator<Item = Server> {
    let programs = all_programs().map(|(bins, client)| bins.into_iter().map(move |bin| (bin, client.clone())));
    let settings = settings.to_owned();
    programs.into_iter().flatten().map(move |(bin, client)| Server::create_with(bin, client, &["-k"], &settings))
}

pub fn connects(server: &Server, database: &str) -> bool {
    let host = arg(server.host());
    server.run("psql", &["-XAtq", "-h", host, "-U", "postgres", "-d", database, "-c", "select 1"]).status.success()
}

pub fn line(server: &Server, sql: &str) -> String {
    server.sql(sql).trim().to_owned()
}

/// Kills the server, and gives the cluster after recovery and a stop in order; both are found to be sound.
pub fn crash_and_stop(server: &Server) -> Server {
    server.stop("immediate");
    is_sound(&server.data(), "completes");
    let stopped = server.copy();
    assert!(stopped.launch(&[]), "{}", stopped.log());
    stopped.stop("fast");
    is_sound(&stopped.data(), "without_replay");
    stopped
}

/// A directory that the server may write into.
pub fn directory_of_server(server: &Server, name: &str) -> PathBuf {
    let path = server.host().join(name);
    fs::create_dir(&path).unwrap();
    let owner = fs::metadata(server.data()).unwrap();
    chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
    path
}

pub fn is_sound(data: &Path, start: &str) {
    let found = told(data);
    assert_eq!((found.0, found.1.as_str(), found.2.len()), (0, start, 0), "{found:?}");
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn database_and_tablespace_that_are_gone_are_named() {
    for server in servers("") {
        assert!(server.launch(&[]), "{}", server.log());
        let (used, empty) = (directory_of_server(&server, "used"), directory_of_server(&server, "empty"));
        server.sql(&format!(
            "create database other; create database dropped; create database moved; create tablespace used location '{}';
             create tablespace empty location '{}'; create table t tablespace used as select 1; checkpoint;",
            used.display(),
            empty.display()
        ));
        let other = line(&server, "select 'base/' || oid from pg_database where datname = 'other'");
        let tablespace = line(&server, "select 'pg_tblspc/' || oid from pg_tablespace where spcname = 'used'");
        let nothing_in = line(&server, "select 'pg_tblspc/' || oid from pg_tablespace where spcname = 'empty'");
        // Both take directories away before their own commit is on disk.
        server.sql("drop database dropped; alter database moved set tablespace used; create database late;");
        let stopped = crash_and_stop(&server);

        for (of, sound) in [(&server, "completes"), (&stopped, "without_replay")] {
            let copy = of.copy();
            fs::remove_dir_all(copy.data().join(&other)).unwrap();
            let (status, start, problems, steps) = told(&copy.data());
            assert_eq!((status, start.as_str()), (1, "not_usable"), "{problems:?}");
            assert_eq!(problems, [("database_missing".to_owned(), other.clone())]);
            assert!(steps.contains("bring_files"), "{steps}");
            assert!(copy.launch(&[]), "{}", copy.log());
            assert!(connects(&copy, "postgres") && !connects(&copy, "other"), "{}", copy.log());
            copy.stop("fast");

            // A file in its place stops recovery, but that of 10.
            let major: u32 = fs::read_to_string(of.data().join("PG_VERSION")).unwrap().trim().parse().unwrap();
            let copy = of.copy();
            fs::remove_dir_all(copy.data().join(&other)).unwrap();
            fs::write(copy.data().join(&other), "x").unwrap();
            let (status, start, problems, _) = told(&copy.data());
            let stops = sound == "completes" && major > 10;
            assert_eq!(
                (status, start.as_str()),
                (2, if stops { "cannot_begin" } else { "not_usable" }),
                "{problems:?}"
            );
            assert_eq!(copy.launch(&[]), !stops, "{}", copy.log());
            assert!(stops || connects(&copy, "postgres") && !connects(&copy, "other"), "{}", copy.log());

            for leads_nowhere in [false, true] {
                let copy = of.copy();
                let link = copy.data().join(&tablespace);
                fs::remove_file(&link).unwrap();
                if leads_nowhere {
                    symlink(copy.host().join("nowhere"), &link).unwrap();
                }
                let (status, start, problems, _) = told(&copy.data());
                let named =
                    problems.iter().any(|(kind, file)| kind == "tablespace_missing" && file.contains(&tablespace));
                assert!(status > 0 && named, "{status} {start}: {problems:?}");
                // The database in it is certain once a checkpoint came after it moved.
                let has_database = problems.iter().any(|(kind, _)| kind == "database_missing");
                assert!(has_database || sound == "completes", "{problems:?}");
                let expected = if has_database { "not_usable" } else { sound };
                assert!(start == expected || leads_nowhere && start == "unknown", "{start}: {problems:?}");
            }

            let copy = of.copy();
            fs::remove_file(copy.data().join(&nothing_in)).unwrap();
            let (status, start, ..) = told(&copy.data());
            assert_eq!((status, start.as_str()), (i32::from(sound == "without_replay"), sound));
        }
    }
}

/// What each page that `check` calls damaged shows, by file.
fn damaged(data: &Path) -> (i32, Vec<(String, u64, String)>) {
    let ran = dwbinspect(&["check", arg(data), "--format", "ndjson"]);
    let pages = ran.of_type("page").into_iter().map(|page| {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        (text(&page["path"]), page["block"].as_u64().unwrap(), text(&page["disk"]))
    });
    (ran.status, pages.collect())
}

/// Problems that `verify` finds with this file.
fn verified(data: &Path, file: &str) -> (i32, Vec<String>) {
    let ran = dwbinspect(&["verify", arg(data), "--format", "ndjson"]);
    let of_file = ran.of_type("finding").into_iter().filter(|finding| finding["file"] == file);
    (ran.status, of_file.map(|finding| finding["kind"].as_str().unwrap().to_owned()).collect())
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn entries_and_bits_of_pages_that_are_gone_are_evidence() {
    for server in servers("max_wal_size = 2GB\ncheckpoint_timeout = 1h") {
        assert!(server.launch(&[]), "{}", server.log());
        let tables = ["keyed", "hashed", "placed", "seen", "cut", "emptied", "rewritten", "indexed", "dropped"];
        for table in tables {
            server.sql(&format!(
                "create table {table} (i int, v text); insert into {table} select i, repeat('x', 200) from generate_series(1, 8000) i;"
            ));
        }
        server.sql(
            "alter table keyed add primary key (i); create index on keyed ((i % 7)); create index on hashed using hash (i);
             create index on placed using gist (point(i, i)); create index on cut (i); create index on emptied (i);
             create index on rewritten (i); create index on indexed (i); create index on dropped (i);
             create table long (i int primary key, v text); alter table long alter v set storage external;
             insert into long select i, repeat(md5(i::text), 100) from generate_series(1, 300) i;
             vacuum; checkpoint;",
        );
        let path = |table: &str| line(&server, &format!("select pg_relation_filepath('{table}')"));
        let toast = line(&server, "select pg_relation_filepath(reltoastrelid) from pg_class where relname = 'long'");
        let files = ["keyed", "hashed", "placed", "seen"].map(path);
        // After the checkpoint all of this is done to files at once, and to catalogs, maps and indexes in memory alone.
        server.sql(
            "delete from cut where i > 3000; vacuum cut; truncate emptied; vacuum full rewritten; reindex table indexed; drop table dropped;
             insert into keyed select i, repeat('z', 250) from generate_series(8001, 9000) i; delete from keyed where i = 5;
             begin; insert into seen select i, repeat('y', 300) from generate_series(1, 4000) i; rollback;",
        );
        let stopped = crash_and_stop(&server);

        let evident = files.iter().chain([&toast]);
        for file in evident {
            for (of, was_stopped) in [(&server, false), (&stopped, true)] {
                for is_cut in [true, false] {
                    let copy = of.copy();
                    let data = copy.data();
                    let open = fs::OpenOptions::new().write(true).open(data.join(file)).unwrap();
                    // Before all blocks that replay builds.
                    let first = if is_cut { 70 } else { 20 };
                    if is_cut { open.set_len(first * 8192) } else { open.write_all_at(&[0; 3 * 8192], first * 8192) }
                        .unwrap();
                    let (status, pages) = damaged(&data);
                    let word = if is_cut { "beyond_end" } else { "zeroed" };
                    let found = pages.iter().any(|page| page.0 == *file && page.1 == first && page.2 == word);
                    assert!(status > 0 && found, "{file} {was_stopped} {is_cut}: {status} {:?}", pages.first());
                    if was_stopped {
                        let kind = if is_cut { "named_page_missing" } else { "named_page_zeroed" };
                        let (status, kinds) = verified(&data, file);
                        assert!(status == 1 && kinds.contains(&kind.to_owned()), "{file}: {status} {kinds:?}");
                    }
                }
            }
        }
        // Pages that were added and never filled, as several sessions that extend a table leave them.
        for file in &files {
            let open = fs::OpenOptions::new().append(true).open(stopped.data().join(file)).unwrap();
            let bytes = open.metadata().unwrap().len();
            open.set_len(bytes + 20 * 8192).unwrap();
        }
        is_sound(&stopped.data(), "without_replay");
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn lists_of_rows_are_evidence_of_every_page() {
    for server in servers("max_wal_size = 2GB\ncheckpoint_timeout = 1h") {
        assert!(server.launch(&[]), "{}", server.log());
        // Short lists and trees, rows that wait to be put into either, and leaves of another tree. No map says anything of these tables.
        for (table, index) in [
            ("worded", "gin ((array[i, i % 3])) with (fastupdate = off)"),
            ("waiting", "gin ((array[i, i % 3])) with (fastupdate = on)"),
            ("quartered", "spgist (point(i, i))"),
        ] {
            server.sql(&format!(
                "create table {table} (i int, v text); create index on {table} using {index};
                 insert into {table} select i, repeat('x', 200) from generate_series(1, 8000) i;
                 delete from {table} where i % 50 = 0;"
            ));
        }
        let files = ["worded", "waiting", "quartered"]
            .map(|table| line(&server, &format!("select pg_relation_filepath('{table}')")));
        server.stop("fast");
        is_sound(&server.data(), "without_replay");
        for file in &files {
            let copy = server.copy();
            let open = fs::OpenOptions::new().write(true).open(copy.data().join(file)).unwrap();
            let blocks = open.metadata().unwrap().len() / 8192;
            open.set_len(70 * 8192).unwrap();
            let (status, pages) = damaged(&copy.data());
            let named: Vec<u64> =
                pages.iter().filter(|page| page.0 == *file && page.2 == "beyond_end").map(|page| page.1).collect();
            assert_eq!((status > 0, named), (true, (70..blocks).collect()), "{file}");
        }
        // What VACUUM cuts off nothing leads to any more.
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("delete from worded where i > 3000; delete from waiting where i > 3000; delete from quartered where i > 3000; vacuum;");
        server.stop("immediate");
        is_sound(&server.data(), "completes");
        assert!(server.launch(&[]), "{}", server.log());
        server.stop("fast");
        is_sound(&server.data(), "without_replay");
    }
}

/// Makes a file shorter, or changes a byte of it.
fn spoil(path: &Path, how: &str) {
    let mut bytes = fs::read(path).unwrap();
    match how {
        "byte" => bytes[40] ^= 1,
        "magic" => bytes[0] ^= 1,
        "short" => bytes.truncate(20),
        "page" => bytes.truncate(100),
        "gone" => return fs::remove_file(path).unwrap(),
        _ => bytes.extend(how.as_bytes()),
    }
    fs::write(path, bytes).unwrap();
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn state_that_the_server_refuses_is_named() {
    for server in servers("max_prepared_transactions = 2\nwal_level = replica\nmax_replication_slots = 3") {
        assert!(server.launch(&[]), "{}", server.log());
        server.sql(
            "create table t as select 1 i; select pg_create_physical_replication_slot('standby');
             select pg_replication_origin_create('there'); select pg_replication_origin_advance('there', '0/1000000');
             begin; insert into t values (2); prepare transaction 'both';
             begin; select * from t for share; savepoint s; select * from t for update; commit;
             begin; select * from t for share; savepoint s; select * from t for update; commit;
             begin; select * from t for share; savepoint s; select * from t for update; commit; checkpoint;
             begin; insert into t values (3); prepare transaction 'late';",
        );
        let major = server.major();
        let prepared = fs::read_dir(server.data().join("pg_twophase")).unwrap().next().unwrap().unwrap().file_name();
        let prepared = format!("pg_twophase/{}", prepared.to_str().unwrap());
        let stopped = crash_and_stop(&server);
        let (slot, origins) = ("pg_replslot/standby/state", "pg_logical/replorigin_checkpoint");
        let cases = [
            (prepared.as_str(), &["byte", "magic", "short"][..], "state_file"),
            (slot, &["byte", "magic", "short", "gone"], "state_file"),
            (origins, &["magic", "short"], "state_file"),
            ("pg_multixact/offsets/0000", &["gone", "page"], "multixact_file"),
        ];
        for (of, sound) in [(&server, "completes"), (&stopped, "without_replay")] {
            for (file, damages, kind) in cases {
                for damage in damages {
                    let copy = of.copy();
                    spoil(&copy.data().join(file), damage);
                    let (status, start, problems, steps) = told(&copy.data());
                    // Old servers remove it, and the transaction is lost.
                    let is_removed = major < 12 && file == prepared;
                    let may_be_made = kind == "multixact_file" && *damage == "gone" && sound == "completes";
                    let expected = match () {
                        () if is_removed => (1, sound),
                        () if may_be_made => (2, "unknown"),
                        () => (1, "cannot_begin"),
                    };
                    assert_eq!((status, start.as_str()), expected, "{file} {damage}: {problems:?}");
                    assert_eq!(problems, [(kind.to_owned(), file.to_owned())], "{damage}");
                    assert!(steps.contains("bring_files"), "{steps}");
                    assert_eq!(copy.launch(&[]), is_removed, "{file} {damage}: {}", copy.log());
                    if is_removed {
                        assert!(copy.log().contains("removing corrupt two-phase state file"), "{}", copy.log());
                        copy.stop("fast");
                    }
                }
            }
            // A start goes on in the page where the members end.
            for damage in ["gone", "page"] {
                let copy = of.copy();
                let members = copy.data().join("pg_multixact/members");
                spoil(&fs::read_dir(members).unwrap().next().unwrap().unwrap().path(), damage);
                let (status, start, problems, _) = told(&copy.data());
                let expected = match damage == "gone" && sound == "completes" {
                    true => (2, "unknown", 1),
                    false => (1, "cannot_begin", 1),
                };
                assert_eq!((status, start.as_str(), problems.len()), expected, "{damage}: {problems:?}");
                assert!(!copy.launch(&[]), "{damage}: {}", copy.log());
            }
        }
        // Also where no multixact is in use any more.
        let frozen = stopped.copy();
        assert!(frozen.launch(&[]), "{}", frozen.log());
        frozen.sql("rollback prepared 'both'");
        frozen.sql("rollback prepared 'late'");
        for database in ["postgres", "template1"] {
            frozen.must("vacuumdb", &["--freeze", "-h", arg(frozen.host()), "-U", "postgres", "-d", database]);
        }
        frozen.sql("checkpoint");
        frozen.stop("fast");
        is_sound(&frozen.data(), "without_replay");
        for file in fs::read_dir(frozen.data().join("pg_multixact/members")).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        let (status, start, problems, _) = told(&frozen.data());
        assert_eq!((status, start.as_str(), problems.len()), (1, "cannot_begin", 1), "{problems:?}");
        assert!(!frozen.launch(&[]), "{}", frozen.log());
        // What the server removes or does not need.
        for (directory, replays) in [(&server, true), (&stopped, false)] {
            let copy = directory.copy();
            let data = copy.data();
            fs::create_dir(data.join("pg_replslot/half.tmp")).unwrap();
            fs::write(data.join("pg_replslot/note"), "x").unwrap();
            // Of a transaction that is yet to come.
            let later = format!("{:0width$X}", 20_000, width = prepared.len() - "pg_twophase/".len());
            fs::write(data.join("pg_twophase").join(later), "x").unwrap();
            fs::remove_file(data.join(origins)).unwrap();
            assert_eq!(told(&data).0, 0, "{:?}", told(&data));
            assert!(copy.launch(&[]), "{}", copy.log());
            // Nothing says how this one ended; where 19 replays, that is as good as not ended, and it is one to come.
            let copy = directory.copy();
            let unknown = format!("{:0width$X}", 0xFFFF_FFF0_u32, width = prepared.len() - "pg_twophase/".len());
            fs::write(copy.data().join("pg_twophase").join(unknown), "x").unwrap();
            let (status, start, problems, _) = told(&copy.data());
            let is_refused = major < 19 || !replays;
            assert_eq!((status > 0, start == "cannot_begin"), (is_refused, is_refused), "{problems:?}");
            assert_eq!(copy.launch(&[]), !is_refused, "{}", copy.log());
        }
    }
}

/// Puts something in the place of a file, made or not.
fn replace(path: &Path, how: &str) {
    let owner = fs::metadata(path.parent().unwrap()).unwrap();
    if path.symlink_metadata().is_ok() {
        fs::remove_file(path).unwrap();
    }
    match how {
        "directory" => fs::create_dir(path).unwrap(),
        "leads nowhere" => return symlink("/nonexistent/file", path).unwrap(),
        _ => fs::write(path, how).unwrap(),
    }
    chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
}

/// What stands where the server would write a file stops its start, its replay or its checkpoints; `check` never says then that all is well.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn what_is_not_the_file_that_the_server_writes_is_named() {
    for server in servers("track_commit_timestamp = on\nmax_prepared_transactions = 2") {
        assert!(server.launch(&[]), "{}", server.log());
        server.sql(
            "create table t as select 1 i; checkpoint;
             begin; select * from t for share; savepoint s; select * from t for update; commit; insert into t values (2);",
        );
        server.stop("immediate");
        is_sound(&server.data(), "completes");
        let segment = |name: &str| {
            let files = fs::read_dir(server.data().join(name)).into_iter().flatten().flatten();
            let mut names: Vec<_> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
            names.retain(|name| {
                name.len() == 24 || name.len() < 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
            });
            names.sort();
            format!("{name}/{}", names.first().map_or("0000", String::as_str))
        };
        let numbered = ["pg_commit_ts", "pg_multixact/members", "pg_subtrans", "pg_notify"].map(segment);
        let mut cases: Vec<(String, &str)> =
            numbered.iter().flat_map(|file| ["directory", "leads nowhere"].map(|how| (file.clone(), how))).collect();
        cases.extend([
            ("base/1234567".to_owned(), "leads nowhere"),
            ("base/1234567".to_owned(), "a note"),
            ("pg_tblspc/note".to_owned(), "a note"),
            (segment("pg_wal"), "directory"),
        ]);
        for (file, how) in cases {
            let copy = server.copy();
            replace(&copy.data().join(&file), how);
            let (status, start, problems, _) = told(&copy.data());
            let starts = copy.launch(&[]);
            // 10 passes over notes where later ones list databases.
            let is_foretold = status > 0 && start != "completes";
            let is_passed_over = starts && how == "a note";
            assert!(is_foretold || is_passed_over, "{file} {how}: {status} {start} {problems:?} {}", copy.log());
            assert!(start != "cannot_begin" || !starts, "{file} {how}: {problems:?}");
            if starts {
                copy.stop("immediate");
            }
        }
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn init_forks_of_unlogged_relations_are_missed() {
    for server in servers("") {
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create unlogged table u (i serial primary key, v text); insert into u (v) select 'x' from generate_series(1, 500);");
        server.sql("create unlogged table turned (i int); alter table turned set logged; create table t (i int); alter table t set unlogged;");
        server.sql("create unlogged table dropped (i int); drop table dropped; create view w as select 1; checkpoint; checkpoint");
        let [table, index] =
            ["u", "u_pkey"].map(|name| line(&server, &format!("select pg_relation_filepath('{name}')")));
        server.stop("fast");
        is_sound(&server.data(), "without_replay");
        let crashed = server.copy();
        assert!(crashed.launch(&[]), "{}", crashed.log());
        crashed.sql("checkpoint");
        crashed.stop("immediate");
        is_sound(&crashed.data(), "completes");

        for (of, start) in [(&server, "without_replay"), (&crashed, "completes")] {
            let expected = |path: &str| (1, start.to_owned(), vec![("init_fork_missing".to_owned(), path.to_owned())]);
            let told = |data: &Path| {
                let (status, start, problems, _) = told(data);
                (status, start, problems)
            };
            let copy = of.copy();
            let file = format!("{table}_init");
            fs::remove_file(copy.data().join(&file)).unwrap();
            assert_eq!(told(&copy.data()), expected(&file));
            assert!(copy.launch(&[]), "{}", copy.log());
            // An empty table is what a crash leaves of it.
            assert_eq!(line(&copy, "select count(*) from u"), "500");

            let copy = of.copy();
            let file = format!("{index}_init");
            fs::write(copy.data().join(&file), []).unwrap();
            assert_eq!(told(&copy.data()), expected(&file));
            assert!(copy.launch(&[]), "{}", copy.log());
            let add = ["-XAtq", "-h", arg(copy.host()), "-U", "postgres", "-c", "insert into u (v) values ('y')"];
            assert_eq!(copy.run("psql", &add).status.success(), start == "without_replay", "{}", copy.log());
        }

        let copy = server.copy();
        fs::remove_file(copy.data().join(&table)).unwrap();
        assert_eq!(told(&copy.data()).2, [("relation_file_missing".to_owned(), table.clone())]);
    }
}
