//! Clusters of a server that the test runs itself, checked by `pg_dwbinspect verify` and by that server's pg_checksums.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::live::Server;
use crate::common::{Ran, arg, dwbinspect};
use pgforensics::cluster::relation_walk::walk_relations;
use serde_json::Value;

const BLOCK: u64 = 8192;

/// Every kind of relation, index and fork, with what deletions, splits, vacuum and open transactions leave.
const WORKLOAD: &str = "
create table t(id int primary key, k int, v text, p point, a int[], r int4range);
insert into t select i, i % 977, repeat(md5(i::text), 1 + i % 9), point(i % 100, i % 37), array[i % 50, i % 7],
  int4range(i, i + 9) from generate_series(1, 9000) i;
create index on t using hash(k);
create index on t using gin(a);
create index on t using gist(p);
create index on t using gist(r);
create index on t using spgist(v);
create index on t using spgist(p);
create index on t using brin(id) with (pages_per_range = 2);
create index on t(v);
create unlogged table u as select * from t where id < 2000;
create index on u(k);
create index on u using hash(k);
create index on u using gin(a);
create index on u using gist(p);
create index on u using spgist(p);
create index on u using brin(id);
create unlogged table empty(id serial primary key, v text);
create table toasted(v text, w text);
alter table toasted alter w set storage external;
insert into toasted select string_agg(md5(i::text), ''), repeat('x', 9000) from generate_series(1, 4000) i group by i % 9;
create table dead(id int primary key, v text);
insert into dead select i, repeat('x', 100) from generate_series(1, 4000) i;
delete from dead;
select count(*) from dead;
create table pruned(id int primary key, v text);
insert into pruned select i, repeat('x', 100) from generate_series(1, 4000) i;
delete from pruned where id > 10;
vacuum (index_cleanup off, truncate off) pruned;
create table hot(id int primary key, n int) with (fillfactor = 50);
insert into hot select i, 0 from generate_series(1, 3000) i;
update hot set n = 1;
update hot set n = 2;
select count(*) from hot;
create table split(id int primary key);
insert into split select i from generate_series(1, 60000) i;
delete from split where id between 2000 and 58000;
vacuum split;
insert into split select i from generate_series(100001, 110000) i;
create materialized view m as select k, count(*) from t group by k;
create sequence s;
select nextval('s');
create sequence unused;
checkpoint;
update t set v = v || 'y' where id % 3 = 0;
delete from t where id % 4 = 0;
vacuum t;
insert into t select i, i, 'z', point(1, i), array[i], null from generate_series(20001, 23000) i;
create database other;
vacuum freeze hot;
create table short(id int);
insert into short select i from generate_series(1, 20000) i;
delete from short where id > 5;
vacuum short;
";

fn verify(data: &Path, more: &[&str]) -> Ran {
    dwbinspect(&[&["verify", "--format", "ndjson", arg(data)], more].concat())
}

fn summary(ran: &Ran) -> Value {
    ran.of_type("summary").remove(0)
}

/// File, block in the file, computed and stored checksum of every page that pg_checksums reports, and the blocks that it
/// read.
fn pg_checksums(server: &Server) -> (BTreeSet<(String, u64, u64, u64)>, u64) {
    let output = server.run("pg_checksums", &["--check", "-D", arg(&server.data())]);
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let blocks = text.lines().find_map(|line| line.strip_prefix("Blocks scanned:")).expect("a result");
    let prefix = format!("{}/", arg(&server.data()));
    let failed = errors
        .lines()
        .filter_map(|line| line.split_once("checksum verification failed in file \""))
        .map(|(_, rest)| {
            let (path, rest) = rest.split_once("\", block ").expect("a block");
            let words: Vec<&str> = rest.split([':', ' ']).filter(|word| !word.is_empty()).collect();
            let hex = |at: usize| u64::from_str_radix(words[at], 16).expect("a checksum");
            let path = path.strip_prefix(&prefix).expect("below the data directory").to_owned();
            (path, words[0].parse().expect("a number"), hex(3), hex(words.len() - 1))
        })
        .collect();
    (failed, blocks.trim().parse().expect("a number"))
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn damage_is_found_where_pg_checksums_finds_it() {
    let Some(server) = Server::start("") else { return };
    server.sql(WORKLOAD);
    server.stop("fast");
    let data = server.data();
    let clean = verify(&data, &[]);
    assert_eq!((clean.status, clean.of_type("damaged_page").len()), (0, 0), "{}", clean.stdout);
    let (failed, blocks) = pg_checksums(&server);
    assert_eq!((failed.len(), &summary(&clean)["pages"]), (0, &blocks.into()));

    let files: Vec<_> = walk_relations(&data, "none").files.into_iter().filter(|file| file.size_bytes > 0).collect();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut damaged = BTreeSet::new();
    for round in 0..300 {
        let file = &files[random(files.len() as u64) as usize];
        let block = random(file.size_bytes / BLOCK);
        let opened = fs::File::options().read(true).write(true).open(data.join(&file.path)).unwrap();
        let mut page = vec![0; BLOCK as usize];
        opened.read_exact_at(&mut page, block * BLOCK).unwrap();
        if !damaged.insert((file.path.display().to_string(), block)) {
            continue;
        }
        match round % 5 {
            0 => page[random(BLOCK) as usize] ^= 1 << random(8),
            1 => {
                // Torn: the rest of the page is from another one.
                let from = 512 * (1 + random(15)) as usize;
                page[from..].fill(random(255) as u8 + 1);
            }
            2 => page[random(24) as usize] ^= 1 << random(8),
            3 => page[14..16].fill(0),
            _ => page[..4096].fill(0),
        }
        opened.write_all_at(&page, block * BLOCK).unwrap();
    }
    let (failed, blocks) = pg_checksums(&server);
    let ran = verify(&data, &[]);
    let pages = ran.of_type("damaged_page");
    assert_eq!((ran.status, &summary(&ran)["pages"]), (1, &blocks.into()));
    let number = |page: &Value, name: &str| page[name].as_u64();
    let place = |page: &Value| (page["path"].as_str().unwrap().to_owned(), number(page, "block").unwrap());
    let own: BTreeSet<_> = pages
        .iter()
        .filter_map(|page| {
            let (path, block) = place(page);
            Some((path, block, number(page, "checksum_computed")?, number(page, "checksum_stored")?))
        })
        .collect();
    assert_eq!(own, failed);
    assert!(failed.len() > 100, "{} pages", failed.len());
    // What pg_checksums passes: pages whose pd_upper is 0. Apart from them, and from halves that were zero before,
    // whatever was damaged is found, and nothing else.
    let found: BTreeSet<_> = pages.iter().map(place).collect();
    assert!(found.is_subset(&damaged), "{:?}", found.difference(&damaged).collect::<Vec<_>>());
    for (path, block) in damaged.difference(&found) {
        let mut page = vec![0; BLOCK as usize];
        fs::File::open(data.join(path)).unwrap().read_exact_at(&mut page, block * BLOCK).unwrap();
        assert!(page.iter().all(|byte| *byte == 0), "{path} block {block}");
    }
    assert!(found.len() > failed.len() + 20, "pages without header: {} and {}", found.len(), failed.len());

    // Without checksums only structure counts, and tuples are examined: no false alarm on what was not damaged.
    server.must("pg_checksums", &["--disable", "-D", arg(&data)]);
    let ran = verify(&data, &[]);
    let found: BTreeSet<_> = ran.of_type("damaged_page").iter().map(place).collect();
    // A visibility map that is overwritten may name more pages behind its table than are listed.
    let skipped = ran.of_type("skipped");
    assert!(skipped.iter().all(|skipped| skipped["cause"] == "too_many_missing"), "{skipped:?}");
    let status = if skipped.is_empty() { 1 } else { 2 };
    assert_eq!((ran.status, &summary(&ran)["checksums"]), (status, &"off".into()));
    assert!(found.is_subset(&damaged) && found.len() > 50, "{}", found.len());
}

/// Pages that a crash leaves are whole, since the system did not go down.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn crashed_and_running_clusters_give_no_false_alarm() {
    let Some(server) = Server::start("shared_buffers = 2MB\nbgwriter_delay = 10ms\ncheckpoint_timeout = 30s") else {
        return;
    };
    server.sql(WORKLOAD);
    let data = server.data();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..12 {
                server.sql("update t set k = k + 1; checkpoint; vacuum t;");
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut runs = 0;
        while !done.load(Ordering::Relaxed) || runs == 0 {
            let ran = verify(&data, &[]);
            let found = ran.of_type("finding");
            assert!(found.iter().any(|finding| finding["kind"] == "server_running"), "{}", ran.stdout);
            assert_eq!(ran.of_type("damaged_page"), Vec::<Value>::new(), "{}", ran.stdout);
            assert!(ran.status >= 1);
            runs += 1;
        }
    });
    server.sql(
        "begin; create table open as select i, repeat('o', 300) v from generate_series(1, 20000) i; create sequence so;
         create index on open(i); select pg_backend_pid();",
    );
    server.stop("immediate");
    let ran = verify(&data, &[]);
    assert_eq!((ran.status, &summary(&ran)["damaged"]), (0, &0.into()), "{}", ran.stdout);
    assert!(ran.of_type("finding").iter().any(|finding| finding["kind"] == "not_shut_down"), "{}", ran.stdout);
}
