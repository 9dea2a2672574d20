//! WAL of another cluster, which names the same relations, makes no row certain.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::common::live::{Server, find_programs};
use crate::common::{arg, copy_tree, dwbinspect, skipped};
use crate::judge::case;

/// Names of the tables, whose rows differ in every cluster.
const TABLES: [&str; 3] = ["t", "u", "big"];

/// A cluster that crashed, and the rows that its own recovery gives. Clusters with other seeds have the same OIDs, file numbers and nearly
/// the same LSNs.
struct Crashed {
    server: Server,
    truth: HashMap<&'static str, Vec<String>>,
}

fn crashed(seed: u32, shared_buffers: &str) -> Option<Crashed> {
    let bin = find_programs().or_else(|| {
        skipped("no PostgreSQL server is installed here");
        None
    })?;
    let settings = format!("shared_buffers = {shared_buffers}\ncheckpoint_timeout = 1h\nmax_wal_size = 200MB");
    let server = Server::create_with(bin.clone(), bin, &["-k", "--wal-segsize=1"], &settings);
    assert!(server.launch(&[]), "{}", server.log());
    let insert = |from: u32, to: u32| {
        format!("INSERT INTO t SELECT i, md5('{seed}' || i)::char(20), {seed} FROM generate_series({from}, {to}) i;")
    };
    let before = format!(
        "CREATE TABLE t (id int PRIMARY KEY, v char(20), n int); CREATE TABLE u (id int, v text); CREATE TABLE big (id int, v text);\n{}\n\
         INSERT INTO u SELECT i, md5('{seed}' || i) FROM generate_series(1, 300) i;\nCHECKPOINT;\n",
        insert(1, 2000)
    );
    server.sql(&before);
    server.sql(&format!(
        "{}\nUPDATE u SET v = md5(v) WHERE id % 5 = 1;\nBEGIN;\nDELETE FROM u WHERE id < 50;\nROLLBACK;\n\
         INSERT INTO big SELECT i, repeat(md5('{seed}' || i), 10) FROM generate_series(1, 2000) i;\n",
        insert(2001, 2500)
    ));
    server.stop("immediate");
    let recovered = server.copy();
    assert!(recovered.launch(&[]), "{}", recovered.log());
    let rows = |table: &str| recovered.sql(&format!("COPY {table} TO stdout")).lines().map(str::to_owned).collect();
    let truth = TABLES.map(|table| (table, rows(table))).into();
    recovered.stop("immediate");
    Some(Crashed { server, truth })
}

/// Rows in the file of rows that are not true, and true ones in neither file.
fn judged(crashed: &Crashed, data: &Path, out: &Path) -> (usize, usize) {
    let ran = dwbinspect(&["salvage", arg(data), "-o", arg(out), "--pg-bin", arg(crashed.server.bin())]);
    assert!(ran.status <= 2, "{}", ran.stderr);
    let (mut false_rows, mut missed) = (0, 0);
    for table in TABLES {
        let lines = |kind: &str| {
            fs::read_to_string(out.join(format!("postgres/public.{table}{kind}.copy"))).unwrap_or_default()
        };
        let (certain, uncertain) = (lines(""), lines(".uncertain"));
        let truth = &crashed.truth[table];
        false_rows += certain.lines().filter(|line| !truth.iter().any(|row| row == line)).count();
        missed += truth.iter().filter(|row| !certain.lines().chain(uncertain.lines()).any(|line| line == *row)).count();
    }
    (false_rows, missed)
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn without_pg_control_wal_is_applied_only_where_pages_show_that_it_belongs_to_them() {
    for buffers in ["512kB", "64MB"] {
        let Some((own, other)) = crashed(1, buffers).zip(crashed(2, buffers)) else { return };
        let place = tempfile::tempdir().unwrap();
        let changed = |name: &str, wal: Option<&Path>, control: Option<&Path>| {
            let data = place.path().join(name);
            copy_tree(&own.server.data(), &data);
            fs::remove_file(data.join("global/pg_control")).unwrap();
            if let Some(wal) = wal {
                fs::remove_dir_all(data.join("pg_wal")).unwrap();
                copy_tree(wal, &data.join("pg_wal"));
            }
            if let Some(control) = control {
                fs::copy(control, data.join("global/pg_control")).unwrap();
            }
            let found = judged(&own, &data, &place.path().join(format!("{name}.out")));
            let report = fs::read_to_string(place.path().join(format!("{name}.out/report.md"))).unwrap();
            (found, report)
        };
        let none = place.path().join("none");
        fs::create_dir(&none).unwrap();
        assert_eq!(changed("own", None, None).0, (0, 0), "{buffers}");
        let without = changed("without", Some(&none), None).0;
        let (theirs, control) = (other.server.data().join("pg_wal"), other.server.data().join("global/pg_control"));
        for (name, control) in [("wal", None), ("both", Some(control.as_path()))] {
            let (found, report) = changed(name, Some(&theirs), control);
            assert_eq!(found, without, "{buffers}, {name}: as if there were none");
            assert!(report.contains("Pages contradict WAL"), "{buffers}, {name}: {report}");
        }
    }
}

#[test]
fn own_wal_is_applied_without_pg_control() {
    let listed = |data: &Path| dwbinspect(&["salvage", "--list", arg(data)]);
    let place = tempfile::tempdir().unwrap();
    // In the second nothing that WAL changes since the checkpoint is on disk yet.
    for name in ["13-whole", "15-heap"] {
        let data = place.path().join(name);
        copy_tree(&case(name), &data);
        let lines = |ran: &str| {
            ran.lines().filter(|line| line.trim().starts_with("salv.")).map(str::to_owned).collect::<Vec<_>>()
        };
        let whole = lines(&listed(&data).stdout);
        fs::remove_file(data.join("global/pg_control")).unwrap();
        let ran = listed(&data);
        assert_eq!(lines(&ran.stdout), whole, "{name}: {}", ran.stdout);
        assert!(!whole.is_empty() && !ran.stdout.contains("WAL since"), "{name}: {}", ran.stdout);
    }
}
