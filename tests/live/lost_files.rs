//! Files and directories of the server that go missing or are damaged, on every major there is: what `check` foretells is what the server does.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::server_files::told;
use crate::common::arg;
use crate::common::live::{Server, all_programs};

/// A new cluster of every major, not started.
fn servers(settings: &str) -> impl Iterator<Item = Server> {
    let programs = all_programs().map(|(bins, client)| bins.into_iter().map(move |bin| (bin, client.clone())));
    let settings = settings.to_owned();
    programs.into_iter().flatten().map(move |(bin, client)| Server::create_with(bin, client, &["-k"], &settings))
}

fn connects(server: &Server, database: &str) -> bool {
    let host = arg(server.host());
    server.run("psql", &["-XAtq", "-h", host, "-U", "postgres", "-d", database, "-c", "select 1"]).status.success()
}

fn line(server: &Server, sql: &str) -> String {
    server.sql(sql).trim().to_owned()
}

/// A directory that the server may write into.
fn directory_of_server(server: &Server, name: &str) -> PathBuf {
    let path = server.host().join(name);
    fs::create_dir(&path).unwrap();
    let owner = fs::metadata(server.data()).unwrap();
    chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
    path
}

fn is_sound(data: &Path, start: &str) {
    let found = told(data);
    assert_eq!((found.0, found.1.as_str(), found.2.len()), (0, start, 0), "{found:?}");
}

#[test]
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
        server.stop("immediate");
        is_sound(&server.data(), "completes");
        let stopped = server.copy();
        assert!(stopped.launch(&[]), "{}", stopped.log());
        stopped.stop("fast");
        is_sound(&stopped.data(), "without_replay");

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
