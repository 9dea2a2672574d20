//! `pg_control` of majors 10 to 19devel, against what the server's own tools say of the same files.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::common::{DWB_CASES, cluster, unpack};
use pgforensics::output::control_fields::control_fields;
use pgforensics::parsers::control::{ChecksumState, ControlFile};
use pgforensics::types::Lsn;
use serde_json::Value;

fn control(path: PathBuf) -> ControlFile {
    ControlFile::decode(&fs::read(path).unwrap()).unwrap().expect("a known version")
}

fn captured(major: u32) -> PathBuf {
    unpack::fixtures().join(format!("control/{major}"))
}

/// Compares every line that `pg_controldata` printed. Its times are in words, so they are compared as numbers.
fn compare_with_controldata(control: &ControlFile, text: &str, case: &str) {
    let fields = control_fields(control);
    let mut compared = 0;
    for line in text.lines() {
        let (label, value) = line.split_once(':').expect("label: value");
        let value = value.trim();
        if label == "Date/time type storage" {
            assert_eq!(value, "64-bit integers", "the same in every server");
            continue;
        }
        let field = fields.iter().find(|field| field.label == Some(label));
        let field = field.unwrap_or_else(|| panic!("{case}: {label} is not printed"));
        let same = match (field.text.parse::<Lsn>(), value.parse::<Lsn>()) {
            (Ok(own), Ok(theirs)) => own == theirs,
            _ if label.contains("modified") || label.starts_with("Time of") => {
                let time = jiff::fmt::strtime::parse("%a %b %d %H:%M:%S %Y", value).unwrap().to_datetime().unwrap();
                let theirs = time.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
                field.text.parse::<jiff::Timestamp>().unwrap() == theirs
            }
            _ => field.text == value,
        };
        assert!(same, "{case}: {label}: ours {:?}, pg_controldata {value:?}", field.text);
        compared += 1;
    }
    let labelled = fields.iter().filter(|field| field.label.is_some()).count();
    assert_eq!(compared, labelled, "{case}: we print a line that pg_controldata does not");
}

#[test]
fn every_line_of_pg_controldata_of_the_release_candidate() {
    let mut seen = 0;
    for entry in fs::read_dir(unpack::fixtures().join("control/19rc1")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let Some(state) = name.strip_prefix("pg_controldata").and_then(|rest| rest.strip_suffix(".txt")) else {
            continue;
        };
        let control = control(entry.path().with_file_name(format!("pg_control{state}")));
        assert!(control.crc_is_good(), "{name}");
        compare_with_controldata(&control, &fs::read_to_string(entry.path()).unwrap(), &name);
        seen += 1;
    }
    assert_eq!(seen, 15);
}

#[test]
fn every_line_of_pg_controldata() {
    for major in [15, 16, 18, 19] {
        for (file, text) in [("pg_control", "pg_controldata.txt"), ("pg_control_running", "pg_controldata_running.txt")]
        {
            let control = control(captured(major).join(file));
            assert!(control.crc_is_good(), "{major} {file}");
            let text = fs::read_to_string(captured(major).join(text)).unwrap();
            compare_with_controldata(&control, &text, &format!("{major} {file}"));
        }
    }
    for case in DWB_CASES {
        let text = fs::read_to_string(unpack::fixtures().join(format!("control/dwb/{case}.txt"))).unwrap();
        compare_with_controldata(&control(cluster(case).join("global/pg_control")), &text, case);
    }
}

/// Rows of `psql` in expanded form, all records of the capture together.
fn sql_rows(major: u32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(captured(major).join("sql.txt")).unwrap();
    let rows = text.lines().filter_map(|line| line.split_once('|'));
    rows.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

/// Columns of `pg_control_system()` and its sisters, and our names for them.
const COLUMNS: [(&str, &str); 33] = [
    ("pg_control_version", "pg_control_version"),
    ("catalog_version_no", "catalog_version_no"),
    ("system_identifier", "system_identifier"),
    ("checkpoint_lsn", "checkpoint_lsn"),
    ("redo_lsn", "redo_lsn"),
    ("redo_wal_file", "redo_wal_file"),
    ("timeline_id", "timeline"),
    ("prev_timeline_id", "prev_timeline"),
    ("full_page_writes", "full_page_writes"),
    ("next_xid", "next_xid"),
    ("next_oid", "next_oid"),
    ("next_multixact_id", "next_multi"),
    ("next_multi_offset", "next_multi_offset"),
    ("oldest_xid", "oldest_xid"),
    ("oldest_xid_dbid", "oldest_xid_db"),
    ("oldest_active_xid", "oldest_active_xid"),
    ("oldest_multi_xid", "oldest_multi"),
    ("oldest_multi_dbid", "oldest_multi_db"),
    ("oldest_commit_ts_xid", "oldest_commit_ts_xid"),
    ("newest_commit_ts_xid", "newest_commit_ts_xid"),
    ("min_recovery_end_lsn", "min_recovery_lsn"),
    ("min_recovery_end_timeline", "min_recovery_timeline"),
    ("backup_start_lsn", "backup_start_lsn"),
    ("backup_end_lsn", "backup_end_lsn"),
    ("end_of_backup_record_required", "backup_end_required"),
    ("max_data_alignment", "max_align"),
    ("database_block_size", "block_size"),
    ("blocks_per_segment", "rel_segment_blocks"),
    ("wal_block_size", "wal_block_size"),
    ("bytes_per_wal_segment", "wal_segment_size"),
    ("max_identifier_length", "name_data_len"),
    ("max_index_columns", "index_max_keys"),
    ("data_page_checksum_version", "data_checksum_version"),
];

#[test]
fn every_column_that_a_live_server_shows() {
    for major in 10..=19 {
        let control = control(captured(major).join("pg_control_running"));
        assert!(control.crc_is_good(), "{major}");
        let rows = sql_rows(major);
        let fields: BTreeMap<_, _> =
            control_fields(&control).into_iter().map(|field| (field.key, field.value)).collect();
        for (column, key) in COLUMNS {
            let theirs = rows.get(column).unwrap_or_else(|| panic!("{major}: no {column}"));
            let ours = match &fields[key] {
                Value::Bool(on) => (if *on { "t" } else { "f" }).to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let same = match (ours.parse::<Lsn>(), theirs.parse::<Lsn>()) {
                (Ok(ours), Ok(theirs)) => ours == theirs,
                _ => ours == *theirs,
            };
            assert!(same, "{major} {column}: ours {ours}, server {theirs}");
        }
    }
}

#[test]
fn clean_stop_is_told_from_running() {
    for major in 10..=19 {
        assert_eq!(control(captured(major).join("pg_control")).prefix.state.name(), Some("shut down"), "{major}");
        let running = control(captured(major).join("pg_control_running"));
        assert_eq!(running.prefix.state.name(), Some("in production"), "{major}");
        assert_eq!(running.checksums, ChecksumState::On);
    }
}

#[test]
fn every_flipped_bit_under_the_crc_is_found() {
    for major in [10, 15, 19] {
        let bytes = fs::read(captured(major).join("pg_control")).unwrap();
        let version_bytes = 8..12;
        for at in (0..312).filter(|at| !version_bytes.contains(at)) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let control = ControlFile::decode(&damaged).unwrap().unwrap();
            let covered = control != ControlFile::decode(&bytes).unwrap().unwrap();
            assert!(!covered || !control.crc_is_good(), "{major} byte {at}");
        }
    }
}

#[test]
fn truncated_or_foreign_files_are_told_and_never_panic() {
    let bytes = fs::read(captured(18).join("pg_control")).unwrap();
    for length in 0..296 {
        let error = ControlFile::decode(&bytes[..length]).expect_err("too short");
        assert!(error.offset <= length as u64, "{error}");
    }
    let mut unknown = bytes.clone();
    unknown[8..12].copy_from_slice(&1902_u32.to_le_bytes());
    assert_eq!(ControlFile::decode(&unknown).unwrap(), None);
}
