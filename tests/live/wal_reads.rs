//! How often a check of a cluster without damage reads its WAL.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use pgforensics::inspect::check::{CheckRequest, Stage, Watch, check};

use crate::common::live::{Server, all_programs, version_of};

/// Bytes of WAL that are read: those of the last reading so far, and those of the readings before it.
#[derive(Default)]
struct WalRead(Mutex<(u64, u64)>);

impl Watch for WalRead {
    fn at(&self, stage: Stage, done: u64, _: u64) -> ControlFlow<()> {
        if stage == Stage::Wal {
            let mut read = self.0.lock().unwrap();
            let before = if done < read.0 { read.1 + read.0 } else { read.1 };
            *read = (done, before);
        }
        ControlFlow::Continue(())
    }
}

/// Bytes of WAL that a check reads, for each byte of `pg_wal`.
fn readings(data: &Path) -> f64 {
    let watch = WalRead::default();
    let examined = check(&CheckRequest { jobs: 1, ..CheckRequest::of(data) }, &watch).unwrap();
    assert_eq!(examined.report.pages.len(), 0);
    let (last, before) = watch.0.into_inner().unwrap();
    let segments = fs::read_dir(data.join("pg_wal")).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    let bytes: u64 = segments.filter(fs::Metadata::is_file).map(|file| file.len()).sum();
    #[allow(clippy::cast_precision_loss, reason = "a ratio")]
    let ratio = (last + before) as f64 / bytes as f64;
    ratio
}

#[test]
#[ignore = "long, with a live server: `cargo test-all` runs it"]
fn wal_is_read_once_and_twice_without_checksums() {
    let Some((bins, client)) = all_programs() else { return };
    let kinds = [(true, false), (false, false), (false, true)];
    for (bin, (has_checksums, keeps_wal)) in bins.iter().flat_map(|bin| kinds.map(|kind| (bin, kind))) {
        let denies = version_of(bin).first().is_none_or(|major| *major >= 18) && !has_checksums;
        let initdb = if has_checksums { vec!["-k"] } else { vec![] };
        let initdb = if denies { vec!["--no-data-checksums"] } else { initdb };
        // The WAL of `initdb` stays: it copied this database.
        let major = version_of(bin).first().copied().unwrap_or_default();
        let kept = match (keeps_wal, major >= 13) {
            (false, _) => "",
            (true, true) => "wal_keep_size = 2GB",
            (true, false) => "wal_keep_segments = 128",
        };
        let settings = format!("max_wal_size = 4GB\ncheckpoint_timeout = 1h\nautovacuum = off\n{kept}");
        let server = Server::create_with(bin.clone(), client.clone(), &initdb, &settings);
        assert!(server.launch(&[]), "{}", server.log());
        server.sql("create table t as select i, repeat('x', 200) v from generate_series(1, 200000) i; checkpoint;");
        server.sql("create index on t (i); update t set v = v || 'y' where i % 3 = 0;");
        server.stop("immediate");
        let crashed = readings(&server.data());
        assert!(server.launch(&[]), "{}", server.log());
        server.stop("fast");
        let closed = readings(&server.data());
        // Segments are read in pieces, and the last one twice.
        // Catalogs that nothing built since their database was copied are weighed record by record.
        let most = match (has_checksums, keeps_wal) {
            (true, _) => 1.3,
            (false, false) => 2.3,
            (false, true) => 3.3,
        };
        let what =
            format!("{}, checksums {has_checksums}, keeps WAL {keeps_wal}: {crashed:.2}, {closed:.2}", bin.display());
        assert!(crashed <= most && crashed > 0.4, "{what}");
        // Older WAL tells of writes that were lost before.
        assert!(closed <= if keeps_wal { 2.1 } else { 0.5 }, "{what}");
    }
}
