//! What `whatif` foretells against what happens: the same seeded work done again under another setting.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::common;
use crate::common::live::{Server, all_programs, find_programs};
use crate::common::{arg, live, run};
use pgforensics::inspect::wal::images::{FoundImage, ImageSelection};
use pgforensics::inspect::wal::request::{WalRequest, unwatched};
use pgforensics::inspect::wal::source::WalSource;
use pgforensics::parsers::image::{Compression, ImageDecoder};
use pgforensics::parsers::pglz::PglzCompressor;
use serde_json::Value;

/// Bytes of a page.
const PAGE: u64 = 8192;
/// Tests whose servers go by the time that they are given run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// No checkpoint but those that `max_wal_size` asks for, and no work but that of the one client.
const QUIET: &str = "checkpoint_timeout = 1h\nmax_wal_size = 8GB\nbgwriter_lru_maxpages = 0\n\
                     shared_buffers = 256MB\n";

/// Twenty rows anywhere in the table, in a transaction that also writes to another one.
const SCRIPT: &str = "\\set a random(1, 10000)\n\\set b random(1, 10000)\nBEGIN;\n\
     UPDATE pgbench_accounts SET abalance = abalance + 1 \
     WHERE aid IN (SELECT (:a + i * 7 * :b) % (SELECT 100000 * count(*) FROM pgbench_branches) + 1 FROM generate_series(1, 20) i);\n\
     INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, :a, :b);\nEND;\n";

/// A server with pgbench's tables, not running, of which each run takes a copy.
fn prepared(bin: PathBuf, client: PathBuf, scale: u32) -> Server {
    let server = Server::create_with(bin, client, &["-k", "--wal-segsize=1"], &format!("wal_keep_size = 2GB\n{QUIET}"));
    assert!(server.launch(&[]), "{}", server.log());
    pgbench(&server, &["-i", "-q", "-s", &scale.to_string()]);
    server.stop("fast");
    server
}

fn pgbench(server: &Server, args: &[&str]) {
    server.must("pgbench", &[args, &["-h", arg(server.host()), "-U", "postgres", "postgres"]].concat());
}

/// Programs of the installed server; `None`, said loudly, without one that can do the work.
fn programs() -> Option<PathBuf> {
    let bin = find_programs().filter(|bin| bin.join("pgbench").exists());
    if bin.is_none() {
        common::skipped("no PostgreSQL server with pgbench is installed here");
    }
    bin
}

/// The work, done under some settings, and the redo point from which on it was done.
struct Work {
    server: Server,
    start: String,
}

impl Work {
    fn done(prepared: &Server, settings: &str, transactions: u32) -> Self {
        let server = prepared.copy();
        server.configure(settings);
        assert!(server.launch(&[]), "{settings}: {}", server.log());
        let start = server.sql("CHECKPOINT; SELECT redo_lsn FROM pg_control_checkpoint()").trim().to_owned();
        let script = server.host().join("work.sql");
        fs::write(&script, SCRIPT).unwrap();
        // Not as fast as it can, so that a checkpoint is begun soon after it is asked for.
        let (count, rate) = (transactions.to_string(), ["-R", "400"]);
        pgbench(
            &server,
            &[&["-n", "-c", "1", "-t", &count, "--random-seed=7", "-f", arg(&script)][..], &rate].concat(),
        );
        server.stop("immediate");
        Self { server, start }
    }

    /// Rows of one type that `whatif` shows of the work.
    fn whatif(&self, kind: &str, more: &[&str]) -> Vec<Value> {
        let data = self.server.data();
        let ran = run(
            "pg_walfpi",
            &[&["whatif", "--format", "ndjson", "--start", &self.start], more, &[arg(&data)]].concat(),
        );
        assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
        ran.of_type(kind)
    }

    /// How many images another setting has, and their bytes.
    fn spacing(&self, setting: &str, more: &[&str]) -> (f64, f64) {
        let rows = self.whatif("spacing", &[&["--section", "spacing"], more].concat());
        let row = rows.iter().find(|row| row["setting"] == setting).unwrap();
        (row["images"].as_f64().unwrap(), row["image_bytes"].as_f64().unwrap())
    }

    /// By how many percent redo points are farther apart than `bytes`, which the settings ask for: a server that is busy
    /// begins its checkpoints late.
    fn lateness(&self, bytes: f64) -> f64 {
        let data = self.server.data();
        let ran = run("pg_walfpi", &["stats", "--format", "ndjson", "--start", &self.start, arg(&data)]);
        let distances: Vec<f64> =
            ran.of_type("interval").iter().map(|interval| interval["wal_bytes"].as_f64().unwrap()).collect();
        // The last interval was broken off.
        let whole = &distances[..distances.len() - 1];
        (whole.iter().sum::<f64>() / whole.len() as f64 / bytes - 1.0).max(0.0) * 100.0
    }

    /// Bytes of images under each setting of `wal_compression`, as they were written and without.
    fn compressions(&self) -> impl Fn(&str) -> u64 + use<> {
        let rows = self.whatif("compression", &["--section", "compression", "--sample", "all"]);
        move |method: &str| {
            let row = rows.iter().find(|row| row["method"] == method);
            row.unwrap_or_else(|| panic!("{method}: {rows:?}"))["bytes_after"].as_u64().unwrap()
        }
    }
}

fn percent(one: f64, other: f64) -> f64 {
    (one / other - 1.0).abs() * 100.0
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn images_under_another_max_wal_size_are_those_of_a_server_with_it() {
    let Some(bin) = programs() else { return };
    let _alone = alone();
    let prepared = prepared(bin.clone(), bin, 8);
    // A checkpoint is over soon, so that it does not put off the next one.
    let work = |size: &str| {
        Work::done(&prepared, &format!("max_wal_size = {size}\ncheckpoint_completion_target = 0.1\n"), 4000)
    };
    let (small, large) = (work("18MB"), work("74MB"));
    let actual = [&small, &large].map(|work| work.spacing("actual", &[]));
    // The larger one saves so much that no guess hits it by chance.
    assert!(actual[0].0 > 1.25 * actual[1].0, "{actual:?}");
    // Segments of 1 MB in `max_wal_size` divided by 1.1, whole ones.
    let late = [(&small, 16.0), (&large, 67.0)].map(|(work, segments)| work.lateness(segments * f64::from(1 << 20)));
    let foretell =
        |work: &Work, size: &str| work.spacing("max_wal_size", &["--max-wal-size", size, "--completion-target", "0.1"]);
    for (foretold, other) in
        [(foretell(&small, "74MB"), 1), (foretell(&large, "18MB"), 0), (foretell(&small, "18MB"), 0)]
    {
        let (actual, late) = (actual[other], late[other]);
        let (images, bytes) = (percent(foretold.0, actual.0), percent(foretold.1, actual.1));
        // At a distance four times as long two thirds of the images are left: half of the lateness is more than it takes.
        assert!(
            images < 2.0 + late / 2.0 && bytes < 4.0 + late / 2.0,
            "{foretold:?} {actual:?}: {images:.2} %, {bytes:.2} %, {late:.2} % late"
        );
    }
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn images_under_another_compression_take_what_a_server_with_it_stores() {
    let Some(bin) = programs() else { return };
    let _alone = alone();
    let prepared = prepared(bin.clone(), bin, 2);
    let work = |method: &str| Work::done(&prepared, &format!("wal_compression = {method}\n"), 200);
    let off = work("off").compressions();
    let raw = off("off");
    assert!(raw > 400 * PAGE && off("as_written") == raw, "{raw}");
    for (method, most_percent) in [("pglz", 0.0), ("lz4", 1.0), ("zstd", 1.0)] {
        let copy = prepared.copy();
        copy.configure(&format!("wal_compression = {method}\n"));
        if !copy.launch(&[]) {
            common::skipped(&format!("the installed server has no {method}"));
            continue;
        }
        copy.stop("fast");
        let own = work(method).compressions();
        let (stored, again) = (own("as_written") as f64, own(method) as f64);
        assert!(percent(again, stored) <= most_percent, "{method}: {again} {stored}");
        // Other transactions and times stand on the pages, so that they are not the same to the byte.
        let foretold = off(method) as f64;
        assert!(percent(foretold, stored) < 1.0, "{method}: {foretold} {stored}");
        assert!(percent(own("off") as f64, raw as f64) < 1.0, "{method}");
        assert!(stored < 0.8 * raw as f64, "{method}: {stored} {raw}");
    }
}

/// Each image that a server compresses with pglz comes out of our compressor with the same bytes.
#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn pglz_images_of_a_live_server_come_out_byte_for_byte() {
    let Some((bins, client)) = all_programs() else { return };
    let _alone = alone();
    for bin in bins {
        let version = live::version_of(&bin);
        let has_pgbench = |bin: &PathBuf| bin.join("pgbench").exists();
        if version < vec![13] || !(has_pgbench(&bin) || has_pgbench(&client)) {
            continue;
        }
        let prepared = prepared(bin, client.clone(), 2);
        // Up to 14 it can only be on.
        let work = Work::done(&prepared, "wal_compression = on\n", 100);
        let mut source = WalSource::open(&WalRequest::of_paths(vec![work.server.data().join("pg_wal")])).unwrap();
        let (mut decoder, mut compressor) = (ImageDecoder::new(), PglzCompressor::new());
        let (mut page, mut again, mut same) = (vec![0; PAGE as usize], Vec::new(), 0);
        let mut compare = |found: &FoundImage<'_>| {
            if found.image.compression() != Some(Compression::Pglz) {
                return;
            }
            let length = decoder.unpack(found.image, &mut page).unwrap();
            assert!(compressor.compress(&page[..length], &mut again), "{version:?} {}", found.record.start_lsn);
            assert!(again == found.image.bytes, "{version:?} {}", found.record.start_lsn);
            same += 1;
        };
        let selection = ImageSelection::default();
        let shown = source.each_image(&selection, 1, &unwatched, |_, found| -> Result<(), ()> {
            compare(found);
            Ok(())
        });
        assert_eq!(shown, Ok(()));
        assert!(same > 300, "{version:?}: {same}");
    }
}
