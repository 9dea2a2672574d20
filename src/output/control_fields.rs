//! Every field of `pg_control` with a name for programs and the label that `pg_controldata` prints.
//! Also here: the facts in `pg_control` that people look for first.

use serde_json::{Map, Value, json};

use super::json::{lsn_text, time_text};
use crate::parsers::control::ControlFile;
use crate::parsers::control_layout::{ControlLayout, Field};

/// One field, ready to print.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlField {
    /// Name for programs.
    pub key: &'static str,
    /// Label of the server's own tool; `None` for a field that it does not print.
    pub label: Option<&'static str>,
    /// Value for programs.
    pub value: Value,
    /// Value for people, as the server's own tool words it (times apart).
    pub text: String,
}

/// All fields, in the order of the server's own tool.
pub fn control_fields(control: &ControlFile) -> Vec<ControlField> {
    let checkpoint = &control.checkpoint;
    let geometry = &control.geometry;
    let xid = checkpoint.next_full_xid;
    let mut list = List(Vec::new());
    list.number("pg_control_version", "pg_control version number", control.prefix.pg_control_version);
    list.number("catalog_version_no", "Catalog version number", control.prefix.catalog_version_no);
    list.text("system_identifier", "Database system identifier", control.prefix.system_identifier.to_string());
    list.text("state", "Database cluster state", control.prefix.state.to_string());
    list.text("time", "pg_control last modified", time_text(control.time_s));
    list.text("checkpoint_lsn", "Latest checkpoint location", lsn_text(control.checkpoint_lsn));
    if let Some(lsn) = control.prev_checkpoint_lsn {
        list.text("prev_checkpoint_lsn", "Prior checkpoint location", lsn_text(lsn));
    }
    list.text("redo_lsn", "Latest checkpoint's REDO location", lsn_text(checkpoint.redo_lsn));
    list.text("redo_wal_file", "Latest checkpoint's REDO WAL file", redo_wal_file(control));
    list.number("timeline", "Latest checkpoint's TimeLineID", checkpoint.tli.0);
    list.number("prev_timeline", "Latest checkpoint's PrevTimeLineID", checkpoint.prev_tli.0);
    list.switch("full_page_writes", "Latest checkpoint's full_page_writes", checkpoint.full_page_writes != 0);
    list.text("next_xid", "Latest checkpoint's NextXID", format!("{}:{}", xid >> 32, xid & 0xFFFF_FFFF));
    list.number("next_oid", "Latest checkpoint's NextOID", checkpoint.next_oid);
    list.number("next_multi", "Latest checkpoint's NextMultiXactId", checkpoint.next_multi);
    list.text("next_multi_offset", "Latest checkpoint's NextMultiOffset", checkpoint.next_multi_offset.to_string());
    list.number("oldest_xid", "Latest checkpoint's oldestXID", checkpoint.oldest_xid);
    list.number("oldest_xid_db", "Latest checkpoint's oldestXID's DB", checkpoint.oldest_xid_db);
    list.number("oldest_active_xid", "Latest checkpoint's oldestActiveXID", checkpoint.oldest_active_xid);
    list.number("oldest_multi", "Latest checkpoint's oldestMultiXid", checkpoint.oldest_multi);
    list.number("oldest_multi_db", "Latest checkpoint's oldestMulti's DB", checkpoint.oldest_multi_db);
    list.number("oldest_commit_ts_xid", "Latest checkpoint's oldestCommitTsXid", checkpoint.oldest_commit_ts_xid);
    list.number("newest_commit_ts_xid", "Latest checkpoint's newestCommitTsXid", checkpoint.newest_commit_ts_xid);
    list.text("checkpoint_time", "Time of latest checkpoint", time_text(checkpoint.time_s));
    list.text("unlogged_lsn", "Fake LSN counter for unlogged rels", lsn_text(crate::types::Lsn(control.unlogged_lsn)));
    list.text("min_recovery_lsn", "Minimum recovery ending location", lsn_text(control.min_recovery_lsn));
    list.number("min_recovery_timeline", "Min recovery ending loc's timeline", control.min_recovery_timeline.0);
    list.text("backup_start_lsn", "Backup start location", lsn_text(control.backup_start_lsn));
    list.text("backup_end_lsn", "Backup end location", lsn_text(control.backup_end_lsn));
    let yes_no = if control.backup_end_required { "yes" } else { "no" };
    list.add("backup_end_required", Some("End-of-backup record required"), json!(control.backup_end_required), yes_no);
    list.text("wal_level", "wal_level setting", wal_level(control.wal_level));
    list.switch("wal_log_hints", "wal_log_hints setting", control.wal_log_hints);
    list.number("max_connections", "max_connections setting", control.max_connections);
    list.number("max_worker_processes", "max_worker_processes setting", control.max_worker_processes);
    if let Some(senders) = control.max_wal_senders {
        list.number("max_wal_senders", "max_wal_senders setting", senders);
    }
    list.number("max_prepared_xacts", "max_prepared_xacts setting", control.max_prepared_xacts);
    list.number("max_locks_per_xact", "max_locks_per_xact setting", control.max_locks_per_xact);
    list.switch("track_commit_timestamp", "track_commit_timestamp setting", control.track_commit_timestamp);
    if let Some(protection) = control.torn_pages_protection {
        list.text("io_torn_pages_protection", "io_torn_pages_protection setting", protection_name(protection));
    }
    list.number("max_align", "Maximum data alignment", control.max_align);
    list.number("block_size", "Database block size", geometry.block_size);
    list.number("rel_segment_blocks", "Blocks per segment of large relation", geometry.rel_segment_blocks);
    if let Some(pages) = control.slru_pages_per_segment {
        list.number("slru_pages_per_segment", "Pages per SLRU segment", pages);
    }
    list.number("wal_block_size", "WAL block size", geometry.wal_block_size);
    list.number("wal_segment_size", "Bytes per WAL segment", geometry.wal_segment_size);
    list.number("name_data_len", "Maximum length of identifiers", control.name_data_len);
    list.number("index_max_keys", "Maximum columns in an index", control.index_max_keys);
    list.number("toast_max_chunk_size", "Maximum size of a TOAST chunk", control.toast_max_chunk_size);
    list.number("lo_block_size", "Size of a large-object chunk", control.lo_block_size);
    if let Some(by_value) = control.float4_by_val {
        list.passing("float4_by_val", "Float4 argument passing", by_value);
    }
    list.passing("float8_by_val", "Float8 argument passing", control.float8_by_val);
    list.number("data_checksum_version", "Data page checksum version", control.checksums.code());
    if let Some(signed) = control.default_char_signedness {
        let text = if signed { "signed" } else { "unsigned" };
        list.add("default_char_signedness", Some("Default char data signedness"), json!(text), text);
    }
    let nonce: String = control.mock_authentication_nonce.iter().map(|byte| format!("{byte:02x}")).collect();
    list.text("mock_authentication_nonce", "Mock authentication nonce", nonce);
    if let Some(level) = checkpoint.wal_level {
        list.add("checkpoint_wal_level", None, json!(wal_level(level)), &wal_level(level));
    }
    if let Some(on) = checkpoint.logical_decoding_enabled {
        // The development tree of 19 did not print it.
        let layout = ControlLayout::of_version(control.prefix.pg_control_version);
        let is_printed = layout.is_some_and(|layout| layout.offset(Field::DataChecksumVersionInit).is_some());
        let label = is_printed.then_some("Latest checkpoint's logical decoding");
        list.add("logical_decoding_enabled", label, json!(on != 0), if on != 0 { "on" } else { "off" });
    }
    list.add("float_format", None, json!(f64::from_bits(control.float_format_bits)), "");
    let crc = if control.crc_is_good() { "good" } else { "bad" };
    list.add("crc", None, json!(crc), crc);
    list.0
}

pub(crate) fn control_object(control: &ControlFile) -> Map<String, Value> {
    control_fields(control).into_iter().map(|field| (field.key.to_owned(), field.value)).collect()
}

struct List(Vec<ControlField>);

impl List {
    fn add(&mut self, key: &'static str, label: Option<&'static str>, value: Value, text: &str) {
        self.0.push(ControlField { key, label, value, text: text.to_owned() });
    }

    fn number(&mut self, key: &'static str, label: &'static str, number: impl Into<i64>) {
        let number = number.into();
        self.add(key, Some(label), json!(number), &number.to_string());
    }

    fn text(&mut self, key: &'static str, label: &'static str, text: String) {
        self.add(key, Some(label), json!(text), &text);
    }

    fn switch(&mut self, key: &'static str, label: &'static str, on: bool) {
        self.add(key, Some(label), json!(on), if on { "on" } else { "off" });
    }

    fn passing(&mut self, key: &'static str, label: &'static str, by_value: bool) {
        self.add(key, Some(label), json!(by_value), if by_value { "by value" } else { "by reference" });
    }
}

/// `io_torn_pages_protection` by its number.
fn protection_name(code: i32) -> String {
    match code {
        0 => "off".to_owned(),
        1 => "full_pages".to_owned(),
        2 => "double_writes".to_owned(),
        other => format!("unrecognised value {other}"),
    }
}

fn wal_level(level: i32) -> String {
    match level {
        0 => "minimal".to_owned(),
        1 => "replica".to_owned(),
        2 => "logical".to_owned(),
        other => format!("unrecognised wal_level {other}"),
    }
}

/// Name of the segment that holds the redo point; empty when the segment size makes no sense.
fn redo_wal_file(control: &ControlFile) -> String {
    let size = u64::from(control.geometry.wal_segment_size);
    let Some(segment) = control.checkpoint.redo_lsn.0.checked_div(size) else { return String::new() };
    let per_high = 0x1_0000_0000 / size;
    if per_high == 0 {
        return String::new();
    }
    format!("{:08X}{:08X}{:08X}", control.checkpoint.tli.0, segment / per_high, segment % per_high)
}

/// Labels and values, in the order in which they are read.
pub(crate) fn control_facts(control: &ControlFile) -> Vec<(&'static str, String)> {
    let (prefix, checkpoint, geometry) = (&control.prefix, &control.checkpoint, &control.geometry);
    let (block, segment) = (geometry.block_size, geometry.wal_segment_size);
    let mut facts = vec![
        ("state", format!("{} (written {})", prefix.state, time_text(control.time_s))),
        ("system identifier", prefix.system_identifier.to_string()),
        ("versions", format!("pg_control {}, catalog {}", prefix.pg_control_version, prefix.catalog_version_no)),
        ("checkpoint", format!("{} of {}", control.checkpoint_lsn, time_text(checkpoint.time_s))),
        ("redo point", format!("{}, timeline {}", checkpoint.redo_lsn, checkpoint.tli)),
    ];
    if control.min_recovery_lsn.is_valid() {
        facts.push(("consistent from", control.min_recovery_lsn.to_string()));
    }
    let full_page_writes = if checkpoint.full_page_writes != 0 { "on" } else { "off" };
    facts.extend([
        ("data checksums", control.checksums.to_string()),
        ("full_page_writes", full_page_writes.to_owned()),
        ("geometry", format!("pages of {block} bytes, WAL segments of {segment} bytes")),
    ]);
    facts
}
