//! The section of `pg_walfpi whatif` about `wal_compression`.

use crate::common::{Ran, run};
use serde_json::Value;

fn whatif(args: &[&str]) -> Ran {
    let archive = format!("{}/fixtures/wal/pg16.tar.zst", env!("CARGO_MANIFEST_DIR"));
    run("pg_walfpi", &[&["whatif"], args, &[&archive]].concat())
}

fn row(ran: &Ran, method: &str) -> Value {
    ran.of_type("compression").into_iter().find(|row| row["method"] == method).unwrap()
}

/// `expected/stats.txt` of the archive ends with 1657400 bytes of images and 2878912 in all; `records.txt` has 399 images.
#[test]
fn section_is_there_by_default_and_alone_when_asked_for() {
    let ran = whatif(&["--format", "ndjson"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let written = row(&ran, "as_written");
    let said = |field: &str| written[field].as_u64().unwrap();
    assert_eq!((said("images"), said("bytes_after"), said("wal_bytes")), (399, 1_657_400, 2_878_912));
    assert!(!ran.of_type("spacing").is_empty());
    for method in ["off", "pglz", "lz4", "zstd"] {
        let row = row(&ran, method);
        assert_eq!(row["bytes_before"], written["bytes_before"]);
        let saved = said("wal_bytes") as i64 - row["wal_bytes"].as_i64().unwrap();
        assert_eq!(row["saved_wal_bytes"].as_i64(), Some(saved), "{method}");
        assert_eq!(row["certainty"], if ["lz4", "zstd"].contains(&method) { "estimate" } else { "exact" });
    }
    assert_eq!(row(&ran, "zstd")["level"], 3);
    let alone = whatif(&["--section", "compression", "--format", "ndjson"]);
    assert!(alone.of_type("spacing").is_empty() && alone.of_type("compression").len() == 5);
    assert!(whatif(&["--section", "hints", "--format", "ndjson"]).of_type("compression").is_empty());
}

#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn sample_says_how_many_and_how_far_off_it_may_be() {
    let ran = whatif(&["--section", "compression", "--sample", "100", "--format", "ndjson"]);
    let pglz = row(&ran, "pglz");
    assert_eq!((&pglz["certainty"], &pglz["sampled"], &pglz["of"]), (&"sample".into(), &100.into(), &399.into()));
    assert!(pglz["standard_error_bytes"].as_u64().unwrap() > 0);
    let all = whatif(&["--section", "compression", "--sample", "all", "--format", "ndjson"]);
    assert_eq!(row(&all, "pglz")["standard_error_bytes"], Value::Null);
    let text = whatif(&["--section", "compression", "--sample", "100"]).stdout;
    assert!(text.contains("sample of 100 out of 399"), "{text}");
    let csv = whatif(&["--section", "compression", "--format", "csv"]).stdout;
    assert_eq!((csv.lines().count(), csv.starts_with("method,level,images,")), (6, true), "{csv}");
    for wrong in ["0", "some", "99999999"] {
        let ran = whatif(&["--sample", wrong]);
        assert!(ran.status == 2 && ran.stderr.contains("expected 1 to 1000000, or all"), "{wrong}: {}", ran.stderr);
    }
}
