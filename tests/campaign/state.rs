//! What a started server holds: rows of all tables, entries of all indexes, checksums of all pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pgforensics::parsers::checksum::page_checksum;

use super::crash::text;
use super::faults::{PAGE, Place};
use crate::common::live::Server;

/// Rows, by number and sum of their hashes; entries of B-trees; what an index finds.
const QUESTIONS: &str = r"
set client_min_messages = error;
select format('select %L, count(*), sum((''x'' || substr(md5(whole_row_::text), 1, 12))::bit(48)::bigint) from %s whole_row_',
    c.oid::regclass, c.oid::regclass)
  from pg_class c where relkind in ('r', 'm') and relispopulated and (relpersistence = 'p' or relpersistence = 'u' and not pg_is_in_recovery())
  order by c.oid \gexec
select format('select ''entries of %s'', %s(%s%s)', c.oid::regclass, p.oid::regproc, c.oid, case when p.pronargs > 1 then ', true' end)
  from pg_class c join pg_am a on a.oid = c.relam join pg_index i on i.indexrelid = c.oid,
    (select oid, pronargs from pg_proc where proname = 'bt_index_check' order by pronargs desc limit 1) p
  where a.amname = 'btree' and indisvalid and relpersistence = 'p' order by c.oid \gexec
select 'prepared', gid from pg_prepared_xacts order by gid;
select 'sequence', c.oid::regclass from pg_class c where relkind = 'S';
";

/// Seconds for one database: a server in an endless loop does not see that the time of a statement is up.
const LONGEST_QUESTIONS: u32 = 150;

/// What an index finds, asked of each database that has the tables.
const LOOKUPS: [(&str, &str); 9] = [
    ("account", "select k, count(*) from account where k in (1, 7, 50, 500, 996) group by 1 order by 1"),
    ("account", "select count(*), sum(k) from account where id between 100 and 900"),
    ("document", "select count(*), sum(id) from document where tags @> array[3]"),
    ("document", "select count(*), sum(id) from document where words @@ 'w7'"),
    ("spot", "select count(*), sum(id) from spot where at <@ box(point(0, 0), point(20, 20))"),
    ("spot", "select count(*), sum(id) from spot where area && box(point(5, 5), point(9, 9))"),
    ("spot", "select count(*), sum(id) from spot where name like 'n1%' or name = 'n' || md5('5')"),
    ("part", "select count(*), sum(id) from part where v between '1' and '7'"),
    ("far", "select count(*), sum(id) from far where v between '1' and '7'"),
];

/// What was asked, and the answers; errors are answers, too.
pub fn ask(server: &Server) -> String {
    wait_for_replay(server);
    let mut all = String::new();
    let databases = psql(
        server,
        "postgres",
        "select datname from pg_database where datallowconn and datconnlimit <> -2 order by 1;",
    );
    for database in databases.lines() {
        all.push_str(&format!("database {database}\n"));
        all.push_str(&psql(server, database, QUESTIONS));
    }
    let mut lookups = String::from("set enable_seqscan = off;\n");
    for (_, lookup) in LOOKUPS {
        lookups.push_str(&format!("{lookup};\n"));
    }
    all.push_str(&psql(server, "postgres", &lookups));
    all
}

/// A standby has come to the end of the WAL that there is when it comes no further.
fn wait_for_replay(server: &Server) {
    let ask = || psql(server, "postgres", "select pg_last_wal_replay_lsn() where pg_is_in_recovery();");
    let (start, mut last, mut same) = (Instant::now(), ask(), 0);
    while !last.trim().is_empty() && same < 12 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(250));
        let next = ask();
        same = if next == last { same + 1 } else { 0 };
        last = next;
    }
}

fn psql(server: &Server, database: &str, questions: &str) -> String {
    let file = server.host().join("questions.sql");
    if let Err(error) = fs::write(&file, questions) {
        return error.to_string();
    }
    let (host, file) = (text(server.host()), text(&file));
    let output = server.run_within(
        LONGEST_QUESTIONS,
        "psql",
        &["-XAtq", "-h", host, "-U", "postgres", "-d", database, "-f", file],
    );
    let all = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Errors name the directory, which is another one for each copy.
    all.replace(text(server.host()), "HERE")
}

/// Pages of relations of which the checksum is wrong. The check of it is the one that is compared with `pg_checksums`.
pub fn wrong_checksums(data: &Path) -> BTreeSet<Place> {
    let mut wrong = BTreeSet::new();
    for directory in ["base", "global", "pg_tblspc"] {
        examine(data, &PathBuf::from(directory), &mut wrong);
    }
    wrong
}

fn examine(data: &Path, directory: &Path, wrong: &mut BTreeSet<Place>) {
    for entry in fs::read_dir(data.join(directory)).into_iter().flatten().filter_map(Result::ok) {
        let path = directory.join(entry.file_name());
        let name = entry.file_name().to_string_lossy().into_owned();
        if data.join(&path).is_dir() {
            if name != "pgsql_tmp" {
                examine(data, &path, wrong);
            }
            continue;
        }
        if !name.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        let bytes = fs::read(data.join(&path)).unwrap_or_default();
        for (block, page) in bytes.chunks_exact(PAGE).enumerate() {
            if is_wrong(page, block as u64) {
                wrong.insert((path.clone(), block as u64));
            }
        }
    }
}

/// A page without a header has no checksum, and may hold nothing else.
pub fn is_wrong(page: &[u8], block: u64) -> bool {
    if page[14..16] == [0, 0] {
        return page.iter().any(|byte| *byte != 0);
    }
    page_checksum(page, block as u32).to_le_bytes() != page[8..10]
}
