//! Which pages can be rebuilt, by evidence alone, compared with what is true of clusters whose pages were overwritten.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{arg, copy_tree, dwbinspect, unpack};

/// A cluster and what is true of it.
struct Case {
    root: PathBuf,
    truth: Value,
}

impl Case {
    fn load(name: &str) -> Self {
        let root = unpack::data_dir(&format!("rebuild/{name}")).unwrap();
        let truth = serde_json::from_slice(&fs::read(root.join("truth.json")).unwrap()).unwrap();
        Self { root, truth }
    }

    /// What the truth says of each page, by path and block.
    fn pages(&self) -> BTreeMap<(String, u64), &Value> {
        let key = |page: &Value| (page["path"].as_str().unwrap().to_owned(), page["block"].as_u64().unwrap());
        self.truth["pages"].as_array().unwrap().iter().map(|page| (key(page), page)).collect()
    }

    fn check(&self, cluster: &Path, wal: Option<&Path>) -> Checked {
        self.check_with(cluster, wal, None)
    }

    fn check_with(&self, cluster: &Path, wal: Option<&Path>, donor: Option<&Path>) -> Checked {
        let mut args = vec!["check", "--format", "ndjson", arg(cluster)];
        args.extend(wal.into_iter().flat_map(|wal| ["--wal", arg(wal)]));
        args.extend(donor.into_iter().flat_map(|donor| ["--donor", arg(donor)]));
        let ran = dwbinspect(&args);
        let key = |row: &Value| (row["path"].as_str().unwrap().to_owned(), row["block"].as_u64().unwrap());
        let rows = ran.of_type("page").into_iter().map(|row| (key(&row), row)).collect();
        Checked { status: ran.status, rows, summary: ran.of_type("summary").remove(0) }
    }

    fn check_all(&self) -> Checked {
        self.check(&self.root.join("cluster"), Some(&self.root.join("archive")))
    }
}

struct Checked {
    status: i32,
    rows: BTreeMap<(String, u64), Value>,
    summary: Value,
}

/// LSNs as numbers: servers and this program pad them differently.
fn lsn(text: &Value) -> u64 {
    let (high, low) = text.as_str().unwrap().split_once('/').unwrap();
    u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
}

fn has_base(page: &Value, base: &str) -> bool {
    page["base_available"].as_array().unwrap().iter().any(|one| one == base)
}

#[test]
fn pages_with_a_record_that_builds_them_can_be_rebuilt() {
    let case = Case::load("pg15_fpwoff");
    let checked = case.check_all();
    assert_eq!(checked.status, 1);
    let (mut possible, mut without) = (0, 0);
    for (key, truth) in case.pages() {
        let Some(row) = checked.rows.get(&key) else {
            // All zero, as a page that was never used, and no record but one of hint bits names it.
            assert_eq!((truth["damage"].as_str(), truth["records"].as_u64()), (Some("zeroed"), Some(1)), "{key:?}");
            continue;
        };
        let plan = &row["rebuildable"];
        if truth["fork"] == 2 {
            // Servers do without it, and no copy of the cluster shows that the map did not reach it.
            assert_eq!((&row["verdict"], &plan["code"]), (&"leave".into(), &"no_base".into()), "{key:?}");
        } else if row["verdict"] == "restore" {
            assert_eq!(plan, &Value::Null, "{key:?}");
            assert_eq!(lsn(&row["chosen"]["page_lsn"]), lsn(&truth["last_lsn"]), "{key:?}");
        } else if has_base(truth, "wal_image_or_init") {
            possible += 1;
            assert_eq!((&plan["possible"], &plan["code"]), (&true.into(), &Value::Null), "{key:?}");
            assert_eq!(lsn(&plan["page_lsn"]), lsn(&truth["last_lsn"]), "{key:?}");
            assert!(plan["records"].as_u64() <= truth["records"].as_u64(), "{key:?}: {plan}");
            assert_eq!(row["reason_codes"], serde_json::json!(["no_image_anywhere", "can_be_rebuilt"]), "{key:?}");
        } else {
            without += 1;
            assert_eq!((&plan["possible"], &plan["code"]), (&false.into(), &"no_base".into()), "{key:?}");
            assert_eq!(row["reason_codes"], serde_json::json!(["no_image_anywhere", "no_base"]), "{key:?}");
        }
    }
    assert_eq!((possible, without), (8, 10));
}

#[test]
fn what_a_gap_in_the_archive_forbids_is_refused_by_the_name_of_the_segment() {
    let case = Case::load("pg15_fpwon_gap");
    let missing = &case.truth["missing_segment"];
    let checked = case.check_all();
    let (mut possible, mut restored, mut refused) = (0, 0, 0);
    for (key, truth) in case.pages() {
        let row = &checked.rows[&key];
        let plan = &row["rebuildable"];
        match row["verdict"].as_str().unwrap() {
            "leave" => {
                assert_eq!((&truth["fork"], &truth["solvable"]), (&2.into(), &false.into()), "{key:?}");
                assert_eq!((&plan["possible"], &plan["code"]), (&false.into(), &"missing_wal".into()), "{key:?}");
            }
            "restore" => {
                restored += 1;
                assert_eq!(truth["solvable"], true, "{key:?}");
                assert_eq!(lsn(&row["chosen"]["page_lsn"]), lsn(&truth["last_lsn"]), "{key:?}");
            }
            _ if truth["solvable"] == true => {
                possible += 1;
                assert_eq!((&plan["possible"], &plan["base"]), (&true.into(), &"image".into()), "{key:?}");
                assert_eq!(lsn(&plan["page_lsn"]), lsn(&truth["last_lsn"]), "{key:?}");
            }
            _ => {
                refused += 1;
                assert_eq!((&plan["possible"], &plan["code"]), (&false.into(), &"missing_wal".into()), "{key:?}");
                assert_eq!(plan["missing_segments"], serde_json::json!([missing]), "{key:?}");
                assert!(row["reason_codes"].as_array().unwrap().contains(&"missing_wal".into()), "{key:?}");
            }
        }
    }
    assert_eq!((possible, restored, refused), (11, 5, 3));
}

/// With an early copy of the cluster every page can be rebuilt, or can be restored from the copy.
#[test]
fn with_a_donor_every_page_can_be_rebuilt() {
    let case = Case::load("pg15_fpwoff");
    let (cluster, archive, donor) = (case.root.join("cluster"), case.root.join("archive"), case.root.join("donor"));
    let checked = case.check_with(&cluster, Some(&archive), Some(&donor));
    let mut bases: BTreeMap<String, usize> = BTreeMap::new();
    for (key, truth) in case.pages() {
        let row = &checked.rows[&key];
        let plan = &row["rebuildable"];
        match row["verdict"].as_str().unwrap() {
            "leave" => {
                // The map did not reach it yet, and one record sets its first bits.
                assert_eq!((&truth["fork"], &plan["base"], &plan["records"]), (&2.into(), &"empty".into(), &1.into()));
                assert_eq!(lsn(&plan["page_lsn"]), lsn(&truth["last_lsn"]), "{key:?}");
            }
            "restore" => *bases.entry("image itself".to_owned()).or_default() += 1,
            _ => {
                assert_eq!((&plan["possible"], &plan["code"]), (&true.into(), &Value::Null), "{key:?}");
                assert_eq!(lsn(&plan["page_lsn"]), lsn(&truth["last_lsn"]), "{key:?}");
                *bases.entry(plan["base"].as_str().unwrap().to_owned()).or_default() += 1;
                if plan["base"] == "donor" {
                    assert_eq!(plan["records"], truth["records"], "{key:?}");
                    assert!(has_base(truth, "donor") && !has_base(truth, "wal_image_or_init"), "{key:?}");
                }
            }
        }
    }
    let expected = [("donor", 9), ("image itself", 2), ("record", 8)].map(|(base, count)| (base.to_owned(), count));
    assert_eq!(bases, BTreeMap::from(expected));
}

/// Taking a segment away never makes a plan that was not there, and never one that claims another end.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn a_missing_segment_never_makes_a_page_rebuildable() {
    let case = Case::load("pg15_fpwon_gap");
    let whole = case.check_all();
    let cluster = case.root.join("cluster");
    let temporary = tempfile::tempdir().unwrap();
    let archive = temporary.path().join("archive");
    copy_tree(&case.root.join("archive"), &archive);
    let mut segments: Vec<PathBuf> = fs::read_dir(&archive).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.file_name().unwrap().len() == 24);
    segments.sort();
    let away = temporary.path().join("away");
    for segment in &segments {
        fs::rename(segment, &away).unwrap();
        let name = segment.file_name().unwrap().to_str().unwrap();
        let checked = case.check(&cluster, Some(&archive));
        fs::rename(&away, segment).unwrap();
        for (key, row) in &checked.rows {
            let before = &whole.rows[key];
            let (now, then) = (&row["rebuildable"], &before["rebuildable"]);
            let safe = ["restore", "heals_in_replay"];
            let is_safe = |row: &Value| safe.contains(&row["verdict"].as_str().unwrap());
            assert!(!is_safe(row) || is_safe(before), "{key:?} without {name}");
            if now["possible"] == true {
                assert_eq!((then, is_safe(before)), (now, false), "{key:?} without {name}");
            }
            if then["possible"] == true && now["code"] == "missing_wal" {
                assert!(
                    now["missing_segments"].as_array().unwrap().contains(&name.into()),
                    "{key:?} without {name}: {now}"
                );
            }
        }
    }
}

/// Without `pg_control`, or with less of it, nothing is known of the end up to which a page would be rebuilt.
#[test]
#[ignore = "long: `cargo test-all` runs it"]
fn without_pg_control_nothing_is_rebuildable() {
    let case = Case::load("pg15_fpwoff");
    let temporary = tempfile::tempdir().unwrap();
    let cluster = temporary.path().join("cluster");
    copy_tree(&case.root.join("cluster"), &cluster);
    let control = fs::read(cluster.join("global/pg_control")).unwrap();
    for length in [0, 24, 100, 200, 290] {
        fs::write(cluster.join("global/pg_control"), &control[..length]).unwrap();
        let checked = case.check(&cluster, Some(&case.root.join("archive")));
        for (key, row) in &checked.rows {
            assert_ne!(row["verdict"], "restore", "{key:?} with {length} bytes");
            assert!(matches!(&row["rebuildable"]["possible"], Value::Null | Value::Bool(false)), "{key:?}: {length}");
        }
        assert_eq!(checked.status, 2, "{length} bytes: {}", checked.summary);
    }
}
