//! `innodb check` against a live MariaDB that is killed under load and whose pages are torn then: what is found, and what its
//! own recovery does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Ran, arg, copy_tree, dwbinspect, skipped};

const SECTOR: usize = 512;

/// Space id and page number.
type PageId = (u64, u64);

fn server_program() -> Option<PathBuf> {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&places).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    let found: Vec<PathBuf> = places.collect();
    let program = |name: &str| found.iter().map(|place| place.join(name)).find(|path| path.is_file());
    program("mariadb")?;
    program("mariadbd")
}

/// A server of its own, in a directory that is gone with it.
struct Mariadb {
    program: PathBuf,
    directory: TempDir,
    page_bytes: usize,
    options: Vec<String>,
    child: Option<Child>,
}

impl Mariadb {
    fn new(page_bytes: usize, options: &[&str]) -> Option<Self> {
        let Some(program) = server_program() else {
            skipped("no MariaDB server is installed here (mariadb-server)");
            return None;
        };
        let directory = tempfile::tempdir().expect("temporary directory");
        fs::create_dir(directory.path().join("data")).expect("make directory");
        let mut options: Vec<String> = options.iter().map(ToString::to_string).collect();
        options.push(format!("--innodb-page-size={page_bytes}"));
        if geteuid().is_root() {
            // The server refuses to run as root.
            let given = Command::new("chown").arg("-R").arg("mysql:").arg(directory.path()).status().expect("chown");
            assert!(given.success(), "there is no user mysql");
            options.push("--user=mysql".to_owned());
        }
        Some(Self { program, directory, page_bytes, options, child: None })
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).expect("log")
    }

    /// Starts the server; false when it ends instead.
    fn start(&mut self) -> bool {
        let log = fs::File::create(self.directory.path().join("log")).expect("log");
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        let mut command = Command::new(&self.program);
        command.args(["--no-defaults", "--skip-grant-tables", "--skip-networking"]).args(&self.options);
        command.args([format!("--datadir={}", path("data")), format!("--socket={}", path("socket"))]);
        command.args([format!("--tmpdir={}", path("")), format!("--pid-file={}", path("pid"))]);
        // Dirty pages stay in memory until they are let loose.
        command.args(["--innodb-buffer-pool-size=24M", "--innodb-log-file-size=48M", "--innodb-io-capacity=10000"]);
        command.args(["--innodb-io-capacity-max=20000", "--innodb-flush-log-at-trx-commit=2"]);
        command.stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().expect("start mariadbd"));
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            if self.child.as_mut().is_some_and(|child| child.try_wait().expect("wait").is_some()) {
                self.child = None;
                return false;
            }
            if self.log().contains("ready for connections") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server neither starts nor ends: {}", self.log());
    }

    fn client(&self, sql: &str) -> Child {
        let socket = format!("--socket={}", self.directory.path().join("socket").display());
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--batch", &socket]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut client = client.stderr(Stdio::null()).spawn().expect("start mariadb");
        client.stdin.take().expect("pipe").write_all(sql.as_bytes()).expect("send");
        client
    }

    fn sql(&self, sql: &str) {
        assert!(self.client(sql).wait().expect("wait").success(), "{sql}: {}", self.log());
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill");
            child.wait().expect("wait");
        }
    }

    /// Shuts the server down cleanly, if it runs.
    fn shut_down(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.client("shutdown;").wait().expect("wait");
            child.wait().expect("wait");
        }
    }

    /// LSNs of the slots of the doublewrite buffer, as they are in the file now.
    fn slot_lsns(&self) -> Vec<[u8; 8]> {
        let file = fs::File::open(self.data().join("ibdata1")).expect("open");
        let mut header = [0; 8];
        let page = self.page_bytes as u64;
        file.read_exact_at(&mut header, 6 * page - 200 + 14).expect("read");
        let first = u32::from_be_bytes(header[..4].try_into().expect("4 bytes"));
        let slots = (1 << 20) / self.page_bytes.min(16384) as u64;
        let lsn = |slot| {
            let mut lsn = [0; 8];
            file.read_exact_at(&mut lsn, (u64::from(first) + slot) * page + 16).expect("read");
            lsn
        };
        (0..slots).map(lsn).collect()
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        self.kill();
    }
}

fn check(data: &Path) -> (Ran, Vec<Value>, Value) {
    let ran = dwbinspect(&["innodb", "check", "--format", "ndjson", arg(data)]);
    let summary = ran.of_type("summary").pop().unwrap_or_else(|| panic!("{}", ran.stderr));
    let pages = ran.of_type("page");
    (ran, pages, summary)
}

fn id_of(line: &Value) -> PageId {
    (line["space_id"].as_u64().expect("space"), line["page_no"].as_u64().expect("page"))
}

/// Fills tables, keeps a copy of the files, changes rows, and kills the server while their pages are written.
fn crash_under_load(server: &mut Mariadb, tables: &[(&str, &str)]) -> PathBuf {
    assert!(server.start(), "{}", server.log());
    let mut sql = "create database shop;".to_owned();
    for (name, options) in tables {
        sql += &format!(
            "create table shop.{name} (id int primary key, k int, v varchar(400), pad char(32), key (k)) engine=innodb {options};\n\
             use shop; insert into {name} select seq, seq * 7919 % 10007, repeat(md5(seq), 3 + seq % 8), md5(seq + 1) from seq_1_to_4000;\n"
        );
    }
    server.sql(&sql);
    let change = |round: u32| -> String {
        let one = |(name, _): &(&str, &str)| {
            format!(
                "update shop.{name} set v = repeat(md5(id * {round}), 3 + (id + {round}) % 8), k = k + {round} where id % 3 = {};\n",
                round % 3
            )
        };
        tables.iter().map(one).collect()
    };
    server.sql("set global innodb_max_dirty_pages_pct_lwm = 0; set global innodb_max_dirty_pages_pct = 0; do sleep(1)");
    let before = server.directory.path().join("before");
    copy_tree(&server.data(), &before);
    server.sql("set global innodb_max_dirty_pages_pct = 99; set global innodb_max_dirty_pages_pct_lwm = 98");
    server.sql(&change(3));
    server.sql(&change(4));
    let slots = server.slot_lsns();
    let mut client =
        server.client("set global innodb_max_dirty_pages_pct_lwm = 0; set global innodb_max_dirty_pages_pct = 0");
    let end = Instant::now() + Duration::from_secs(10);
    let is_written = |now: Vec<[u8; 8]>| now.iter().zip(&slots).filter(|(now, then)| now != then).count() >= 24;
    while Instant::now() < end && !is_written(server.slot_lsns()) {}
    server.kill();
    drop(client.wait());
    before
}

/// Bytes of a page that carry something; those after the payload of a compressed one are left over.
fn payload_bytes(page: &[u8]) -> usize {
    let field = |at: usize| usize::from(u16::from_be_bytes(page[at..at + 2].try_into().expect("2 bytes")));
    match field(24) {
        34354 => 40 + field(38),
        kind if kind & 0x8000 != 0 => ((kind & 0x7FFF) << 8).min(page.len()),
        _ => page.len(),
    }
}

/// Tears pages: the first sectors as they were at the copy, the rest as they are, or the other way round. `takes`: whether a
/// page that has an image since the checkpoint, or none, is to be torn.
fn tear(server: &Mariadb, before: &Path, takes: impl Fn(Option<bool>) -> bool, most: usize) -> BTreeSet<PageId> {
    let data = server.data();
    let dump = dwbinspect(&["innodb", "dump", "--format", "ndjson", arg(&data)]);
    // Whether an image is since the checkpoint, and the newest one: the page itself may not have been written any more.
    let mut images: BTreeMap<PageId, (bool, Vec<u8>)> = BTreeMap::new();
    let system = fs::File::open(data.join("ibdata1")).expect("open");
    for slot in dump.of_type("slot").iter().filter(|slot| slot["page_checksum"] == "good" && slot["space_id"].is_u64())
    {
        let offset = slot["offset"].as_str().expect("offset").trim_start_matches("0x");
        let mut bytes = vec![0; server.page_bytes];
        system.read_exact_at(&mut bytes, u64::from_str_radix(offset, 16).expect("hex")).expect("read");
        let image = images.entry(id_of(slot)).or_default();
        image.0 |= slot["batch"] == "current";
        if image.1.get(16..24) < bytes.get(16..24) {
            image.1 = bytes;
        }
    }
    let info = dwbinspect(&["innodb", "info", "--format", "ndjson", arg(&data)]);
    let mut torn = BTreeSet::new();
    for space in info.of_type("tablespace").iter().filter(|space| space["tablespace"] != "ibdata1") {
        let path = space["tablespace"].as_str().expect("path");
        let bytes = space["zip_bytes"].as_u64().or(space["page_bytes"].as_u64()).expect("size") as usize;
        let (now, then) = (fs::read(data.join(path)).expect("read"), fs::read(before.join(path)).unwrap_or_default());
        let mut in_this = 0;
        for (number, (new, old)) in now.chunks_exact(bytes).zip(then.chunks_exact(bytes)).enumerate().skip(1) {
            let page = (space["space_id"].as_u64().expect("space"), number as u64);
            let image = images.get(&page);
            let new = if new == old { image.and_then(|(_, image)| image.get(..bytes)).unwrap_or(new) } else { new };
            let (head, tail) = (..SECTOR, SECTOR..2 * SECTOR);
            let differs = new[head] != old[head] && new[tail.clone()] != old[tail];
            let is_used = |page: &[u8]| page.iter().any(|byte| *byte != 0) && payload_bytes(page) >= 2 * SECTOR;
            if in_this >= most
                || !differs
                || !is_used(new)
                || !is_used(old)
                || !takes(image.map(|(is_current, _)| *is_current))
            {
                continue;
            }
            let split = (1 + number % (bytes / SECTOR - 1)) * SECTOR;
            let split = split.min(payload_bytes(new).min(payload_bytes(old)) / SECTOR * SECTOR).max(SECTOR) - SECTOR;
            let split = split.max(SECTOR);
            let mixed = if number % 2 == 0 { [&old[..split], &new[split..]] } else { [&new[..split], &old[split..]] };
            let file = fs::OpenOptions::new().write(true).open(data.join(path)).expect("open");
            file.write_all_at(&mixed.concat(), (number * bytes) as u64).expect("write");
            torn.insert(page);
            in_this += 1;
        }
    }
    torn
}

/// Pages that recovery says it has written over with an image.
fn recovered(log: &str) -> BTreeSet<PageId> {
    let number =
        |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("number");
    let lines = log.lines().filter_map(|line| line.split("Recovered page [page id: space=").nth(1));
    lines.map(|rest| (number(rest), number(rest.split("page number=").nth(1).expect("page number")))).collect()
}

fn assert_found(page_bytes: usize, options: &[&str], tables: &[(&str, &str)], with_others: bool) {
    let Some(mut server) = Mariadb::new(page_bytes, options) else { return };
    let before = crash_under_load(&mut server, tables);
    let data = server.data();
    let (ran, pages, _) = check(&data);
    let not_zero = |pages: &[Value]| -> BTreeSet<PageId> {
        pages.iter().filter(|page| page["disk"] != "zeroed").map(id_of).collect()
    };
    assert!(not_zero(&pages).is_empty() && ran.status < 2, "a crash alone tears nothing: {}", ran.stdout);
    let mut torn = tear(&server, &before, |image| image == Some(true), 8);
    if with_others {
        torn.extend(tear(&server, &before, |image| image != Some(true), 2));
    }
    assert!(torn.len() >= 4, "{torn:?}: {}", ran.stdout);
    let (_, pages, summary) = check(&data);
    assert_eq!(not_zero(&pages), torn);
    let first: BTreeSet<PageId> = pages.iter().filter(|page| page["chosen"].is_u64()).map(id_of).collect();
    assert_eq!(summary["shut_down_cleanly"], false, "{summary}");
    let starts = server.start();
    let log = server.log();
    assert!(first.is_subset(&recovered(&log)), "{first:?}: {log}");
    if starts {
        server.shut_down();
        let (_, _, summary) = check(&data);
        assert_eq!(summary["shut_down_cleanly"], true, "{summary}");
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn pages_with_full_crc32_are_found() {
    let tables = [("orders", ""), ("items", "row_format=compact")];
    assert_found(16384, &["--innodb-checksum-algorithm=full_crc32"], &tables, false);
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn small_pages_in_each_form_are_found() {
    let tables = [("orders", ""), ("packed", "page_compressed=1"), ("zip", "row_format=compressed key_block_size=2")];
    assert_found(4096, &["--innodb-checksum-algorithm=crc32", "--innodb-undo-tablespaces=2"], &tables, false);
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn large_pages_without_an_image_are_found() {
    let tables = [("orders", ""), ("packed", "page_compressed=1")];
    assert_found(65536, &["--innodb-checksum-algorithm=strict_full_crc32"], &tables, true);
}
