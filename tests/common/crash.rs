//! Crashes of a live server that tears its own page writes, and what recovery makes of them.

use std::process::Child;
use std::time::{Duration, Instant};

use super::live::Server;
use super::tear::{BLOCK_SIZE, Plan, Tear, TearingServer};
use crate::common;

/// Rows of the table that the load changes.
pub const ROWS: u32 = 40_000;

/// A table and its indexes, of about as many pages; one in another tablespace that only grows; one that comes and goes.
const TABLES: &str = "
create table accounts(id int primary key, k int, filler text) with (fillfactor = 80);
insert into accounts select i, i % 997, repeat(md5(i::text), 2) from generate_series(1, 40000) i;
create index on accounts(k);
create index on accounts(filler);
set allow_in_place_tablespaces = on;
create tablespace elsewhere location '';
create table history(id bigserial primary key, account int, note text) tablespace elsewhere;
create table brief(note text);
vacuum freeze accounts;
checkpoint;
";

/// One client: small transactions without end, over all of the table.
const LOAD: &str = "
do $$ begin loop
  update accounts set k = k + 1 where id = 1 + floor(random() * 40000)::int;
  insert into history(account, note) values (floor(random() * 40000)::int, md5(random()::text));
  commit;
end loop; end $$";

/// Clients that run the load until they are dropped or lose the server.
pub struct Load(Vec<Child>);

impl Load {
    pub fn start(server: &Server, clients: usize) -> Self {
        Self((0..clients).map(|_| server.start_sql(LOAD)).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for client in &mut self.0 {
            // A client that has ended cannot be killed, which does not matter.
            drop(client.kill());
            client.wait().expect("client ends");
        }
    }
}

/// Longest time that a crash may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with the tables, on which the load has changed every page of one; and the load, which still runs.
pub fn start_under_load(settings: &str, plan: Plan) -> Option<(TearingServer, Load)> {
    let settings = format!("max_wal_size = 4GB\nlog_checkpoints = on\n{settings}");
    let tearing = TearingServer::start(&settings, plan)?;
    tearing.server.sql(TABLES);
    let load = Load::start(&tearing.server, 2);
    // How far the clients come by themselves depends on the machine.
    tearing.server.sql("update accounts set k = k + 1 where id % 10 = 0;");
    let start = Instant::now();
    while tearing.server.sql("select count(*) >= 1000 from history;").trim() != "t" {
        assert!(start.elapsed() < PATIENCE, "the load does not run: {}", tearing.server.log());
    }
    Some((tearing, load))
}

/// Runs statements, one after the other and again from the first, until there is no server left to run them.
pub fn repeat_until_crash(tearing: &TearingServer, statements: &[&str]) {
    let start = Instant::now();
    while !tearing.server.processes().is_empty() && start.elapsed() < PATIENCE {
        for statement in statements {
            tearing.server.start_sql(statement).wait().expect("client ends");
        }
    }
    tearing.wait_for_crash(Duration::ZERO);
}

/// A server that crashed in its first checkpoint after being armed, in the middle of it or at its end.
pub fn crash_in_a_checkpoint(settings: &str, plan: Plan) -> Option<TearingServer> {
    let (tearing, load) = start_under_load(&format!("shared_buffers = 64MB\n{settings}"), plan)?;
    tearing.arm();
    let mut checkpoint = tearing.server.start_sql("checkpoint");
    tearing.wait_for_crash(PATIENCE);
    checkpoint.wait().expect("client ends");
    drop(load);
    let log = tearing.server.log();
    let count = |text: &str| log.matches(text).count();
    assert_eq!(count("checkpoint starting"), count("checkpoint complete") + 1, "{log}");
    Some(tearing)
}

/// How many tears there are of each kind.
#[derive(Debug)]
pub struct Kinds {
    pub pages: usize,
    pub whole_later: usize,
    pub visible: usize,
    pub failing: usize,
}

/// Compares the list of tears with the disk.
pub fn look(tearing: &TearingServer) -> (Vec<Tear>, Kinds) {
    let (data, tears) = (tearing.server.data(), tearing.tears());
    for tear in &tears {
        let page = tear.on_disk(&data).expect("the page exists");
        let reached = tear.reached.clone();
        assert!(page[reached.clone()] == tear.intended[reached], "{}:{}", tear.path.display(), tear.block);
        assert!(tear.path.is_relative(), "{}", tear.path.display());
        if tear.reached.len() == BLOCK_SIZE {
            assert!(!tear.is_visible(&data) && !tear.fails_checksum(&data), "{}:{}", tear.path.display(), tear.block);
        }
    }
    let count = |is: &dyn Fn(&Tear) -> bool| tears.iter().filter(|tear| is(tear)).count();
    let kinds = Kinds {
        pages: tears.len(),
        whole_later: count(&|tear| tear.reached.len() == BLOCK_SIZE),
        visible: count(&|tear| tear.is_visible(&data)),
        failing: count(&|tear| tear.fails_checksum(&data)),
    };
    (tears, kinds)
}

/// Asserts that there are enough torn pages for a test to say something, and that most can be seen.
pub fn assert_many(kinds: &Kinds, pages: usize) {
    assert!(kinds.pages >= pages, "{kinds:?}");
    assert!(kinds.visible * 2 >= kinds.pages && kinds.failing * 3 >= kinds.pages, "{kinds:?}");
}

/// What a server makes of the data directory.
pub enum Recovered {
    /// It does not start.
    Not(Server),
    /// It does, and stops again; whether all checksums are right then.
    Started { server: Server, is_clean: bool },
}

/// Recovers a copy: the directory itself stays as the crash left it.
pub fn recover(crashed: &Server) -> Recovered {
    let server = crashed.copy();
    if !server.launch(&[]) {
        return Recovered::Not(server);
    }
    server.stop("fast");
    let data = server.data();
    let is_clean = server.run("pg_checksums", &["--check", "-D", common::arg(&data)]).status.success();
    Recovered::Started { server, is_clean }
}

/// Asserts that recovery repairs everything.
pub fn assert_recovers(crashed: &Server) {
    match recover(crashed) {
        Recovered::Not(server) => panic!("the server does not start: {}", server.log()),
        Recovered::Started { server, is_clean } => {
            assert!(is_clean, "pg_checksums finds damage");
            assert!(server.launch(&[]), "{}", server.log());
            let rows = server.sql("select count(filler) from accounts");
            assert_eq!(rows.trim(), ROWS.to_string());
        }
    }
}
