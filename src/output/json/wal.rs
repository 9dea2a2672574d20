//! JSON of WAL statistics, images and verification. Rows are maps: their key fields depend on the grouping.
//! Also here: JSON of a full-page image; JSON of `kept`: who keeps which segments of `pg_wal`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::lsn_text;
use super::scalars::{
    CauseCode, DamageCode, EndKind as EndWord, ImageCompression, KeeperWord, LsnText, RunVerdictCode,
};
use crate::analysis::plan::kept::{Keeper, Kept};
use crate::analysis::wal::group::GroupRow;
use crate::analysis::wal::group_key::{GroupBy, Grouping, Key};
use crate::analysis::wal::hidden_redo::RedoInForce;
use crate::analysis::wal::relation_use::IndexMethod;
use crate::analysis::wal::tail::CheckedRun;
use crate::analysis::wal::walk::{Damage, DamageReason};
use crate::cluster::names::RelationNames;
use crate::cluster::wal::WalOrigin;
use crate::output::kept_words::release_words;
use crate::output::relation_columns::{put_relation, relation_fields};
use crate::output::wal_columns::{count_fields, interval_fields, put_tally};
use crate::parsers::wal::end::EndKind;
use crate::parsers::wal::names::{RecordTypeName, rmgr_name, type_key};
use crate::parsers::wal::records::record_type_name;
use crate::parsers::wal::timeline::WalSegment;
use crate::parsers::wal::version::Major;
use crate::types::{ForkNumber, RelFileLocator};

/// A row.
pub type Row = Map<String, Value>;

/// Lookup of names for numbers.
pub(crate) struct Naming<'a> {
    /// Major of the WAL, for record types.
    pub(crate) major: Option<Major>,
    /// Segment size, for file names.
    pub(crate) segment_size: u32,
    /// Names of relations and databases, where they were asked for.
    names: Option<&'a RelationNames>,
}

impl<'a> Naming<'a> {
    pub(crate) const fn new(origin: &WalOrigin, names: Option<&'a RelationNames>) -> Self {
        Self { major: origin.major, segment_size: origin.geometry.wal_segment_size, names }
    }

    fn relation(&self, rel: RelFileLocator) -> Option<String> {
        self.names.and_then(|names| names.full_name(rel))
    }

    fn database(&self, oid: u32) -> Option<&str> {
        self.names.and_then(|names| names.database(oid))
    }
}

/// Columns of a row in CSV, in order. `None`: by checkpoint.
pub(crate) fn stats_columns(by: Option<Grouping>) -> Vec<&'static str> {
    let Some(by @ Grouping { first, second }) = by else { return interval_fields().collect() };
    let mut columns = key_columns(first).to_vec();
    let further = second.map(key_columns).unwrap_or_default();
    columns.extend(further.iter().filter(|column| !key_columns(first).contains(column)));
    columns.extend(count_fields());
    if by.is_of_relations() {
        columns.extend(relation_fields());
    }
    columns
}

/// Columns that name a group in CSV, in order.
pub(crate) const fn key_columns(by: GroupBy) -> &'static [&'static str] {
    match by {
        GroupBy::Rmgr => &["rmgr"],
        GroupBy::Record => &["rmgr", "record"],
        GroupBy::Relation => &["spc_oid", "db_oid", "rel_number", "relation"],
        GroupBy::Fork => &["fork"],
        GroupBy::Block => &["spc_oid", "db_oid", "rel_number", "relation", "fork", "block"],
        GroupBy::Database => &["db_oid", "database"],
        GroupBy::Tablespace => &["spc_oid"],
        GroupBy::Compression => &["compression"],
        GroupBy::Segment => &["segment", "timeline"],
        GroupBy::Cause => &["cause"],
        GroupBy::Checkpoint => &["redo_lsn", "redo_after_lsn", "redo_before_lsn"],
        GroupBy::Xid => &["xid"],
        GroupBy::Kind => &["kind", "access_method"],
        GroupBy::Table => &["table"],
    }
}

/// Fields that name a group, whatever it is made by.
pub(in crate::output) const GROUP_KEYS: &[&str] = &[
    "by",
    "rmgr",
    "record",
    "spc_oid",
    "db_oid",
    "rel_number",
    "relation",
    "database",
    "fork",
    "block",
    "compression",
    "segment",
    "timeline",
    "cause",
    "redo_lsn",
    "redo_after_lsn",
    "redo_before_lsn",
    "xid",
    "table",
];

pub(crate) const fn group_by_name(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Rmgr => "rmgr",
        GroupBy::Record => "record",
        GroupBy::Relation => "relation",
        GroupBy::Fork => "fork",
        GroupBy::Block => "block",
        GroupBy::Database => "database",
        GroupBy::Tablespace => "tablespace",
        GroupBy::Compression => "compression",
        GroupBy::Segment => "segment",
        GroupBy::Cause => "cause",
        GroupBy::Checkpoint => "checkpoint",
        GroupBy::Xid => "xid",
        GroupBy::Kind => "kind",
        GroupBy::Table => "table",
    }
}

/// The words for what rows are grouped by, with a comma between two.
pub(crate) fn grouping_name(by: Grouping) -> String {
    std::iter::once(by.first).chain(by.second).map(group_by_name).collect::<Vec<_>>().join(",")
}

pub(crate) fn group_row(by: Grouping, group: &GroupRow, naming: &Naming<'_>) -> Row {
    let GroupRow { key, tally, figures } = group;
    let mut row = key_row(&key.first, naming);
    let by = match (by.second, key.second) {
        (Some(_), Some(second)) => {
            row.append(&mut key_row(&second, naming));
            json!(grouping_name(by))
        }
        _ => json!((key.first != Key::None).then(|| group_by_name(by.first))),
    };
    row.insert("by".to_owned(), by);
    put_tally(&mut row, tally);
    if let Some(figures) = figures {
        put_relation(&mut row, figures);
    }
    row
}

pub(crate) fn key_row(key: &Key, naming: &Naming<'_>) -> Row {
    let mut row = Row::new();
    let mut put = |name: &str, value: Value| row.insert(name.to_owned(), value);
    let relation = |put: &mut dyn FnMut(&str, Value) -> Option<Value>, rel: &RelFileLocator| {
        put("spc_oid", json!(rel.spc_oid));
        put("db_oid", json!(rel.db_oid));
        put("rel_number", json!(rel.rel_number));
        put("relation", json!(naming.relation(*rel)));
    };
    match key {
        Key::Rmgr(id) => drop(put("rmgr", json!(rmgr_name(*id).to_string()))),
        Key::Record(id, info) => {
            put("rmgr", json!(rmgr_name(*id).to_string()));
            let name = naming
                .major
                .map_or(RecordTypeName::Unknown(type_key(*id, *info)), |major| record_type_name(major, *id, *info));
            put("record", json!(name.to_string()));
        }
        Key::Relation(rel) => relation(&mut put, rel),
        Key::Block(rel, fork, block) => {
            relation(&mut put, rel);
            put("fork", json!(fork_name(*fork)));
            put("block", json!(block));
        }
        Key::Fork(fork) => drop(put("fork", json!(fork_name(*fork)))),
        Key::Database(oid) => {
            put("db_oid", json!(oid));
            put("database", json!(naming.database(*oid)));
        }
        Key::Tablespace(oid) => drop(put("spc_oid", json!(oid))),
        Key::Compression(method) => {
            put("compression", json!(method.map_or("none", crate::parsers::image::Compression::name)));
        }
        Key::Segment(tli, number) => {
            let segment = WalSegment { tli: *tli, number: *number };
            put("segment", json!(segment.file_name(naming.segment_size)));
            put("timeline", json!(tli.0));
        }
        Key::Cause(cause) => drop(put("cause", json!(cause.name()))),
        Key::Checkpoint(redo) => {
            let hidden = redo.and_then(RedoInForce::hidden);
            put("redo_lsn", json!(redo.and_then(RedoInForce::lsn).map(lsn_text)));
            put("redo_after_lsn", json!(hidden.map(|hidden| lsn_text(hidden.after))));
            put("redo_before_lsn", json!(hidden.map(|hidden| lsn_text(hidden.before))));
        }
        Key::Xid(xid) => drop(put("xid", json!(xid))),
        Key::Table(rel) => drop(put("table", json!(naming.relation(*rel).unwrap_or_else(|| rel.to_string())))),
        Key::Kind(kind) => {
            put("kind", json!(kind.code()));
            put("access_method", json!(kind.index_method().map(IndexMethod::name)));
        }
        Key::KindOfFork(code) | Key::RelationFork(_, code) => drop(put("kind", json!(kind_of_fork(*code)))),
        Key::None => {}
    }
    row
}

/// The word for a fork beside kinds of relations.
fn kind_of_fork(code: u8) -> String {
    match ForkNumber::from_code(i32::from(code)) {
        Some(ForkNumber::Fsm) => "free_space_map".to_owned(),
        Some(ForkNumber::Vm) => "visibility_map".to_owned(),
        Some(ForkNumber::Init) => "init_fork".to_owned(),
        _ => format!("fork_{code}"),
    }
}

/// Name of a fork by its code; the number for another code.
pub fn fork_name(code: u8) -> String {
    ForkNumber::from_code(i32::from(code)).map_or_else(|| code.to_string(), |fork| fork.name().to_owned())
}

pub(crate) const RUN_COLUMNS: &[&str] = &[
    "first_segment",
    "last_segment",
    "segments",
    "start_lsn",
    "end_lsn",
    "records",
    "recovered_records",
    "timelines",
    "end_kind",
    "end_reason",
    "end_at",
    "verdict",
    "verdict_code",
];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct RunJson {
    /// Its segments
    first_segment: Option<String>,
    last_segment: Option<String>,
    segments: usize,
    /// First and last record
    start_lsn: Option<LsnText>,
    end_lsn: Option<LsnText>,
    /// Records, and those found after damage
    records: u64,
    recovered_records: u64,
    /// Timelines it goes through
    timelines: Vec<u32>,
    /// `complete`, `unwritten`, `stale`, `torn`, `damaged`
    end_kind: Option<EndWord>,
    /// Why it ends there, and where
    end_reason: Option<String>,
    end_at: Option<LsnText>,
    /// Meaning: `damage`, `complete`, `end_of_wal`, `changing`, `gap`, `not_judged`
    verdict: String,
    verdict_code: RunVerdictCode,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct DamageJson {
    /// Address of the damage
    lsn: LsnText,
    /// Range that could not be read
    from_lsn: LsnText,
    to_lsn: Option<LsnText>,
    bytes: Option<u64>,
    /// Why, in words and as a code: how WAL ends there (`complete`, `unwritten`, `stale`, `torn`, `damaged`), `unreadable` or `ends_early`
    reason: String,
    reason_code: DamageCode,
}

impl From<&CheckedRun> for RunJson {
    fn from(run: &CheckedRun) -> Self {
        let end = run.end.as_ref();
        Self {
            first_segment: run.first_segment.clone(),
            last_segment: run.last_segment.clone(),
            segments: run.segments,
            start_lsn: run.extent.first_lsn.map(LsnText::from),
            end_lsn: run.extent.last_end_lsn.map(LsnText::from),
            records: run.records,
            recovered_records: run.recovered,
            timelines: run.timelines.iter().map(|tli| tli.0).collect(),
            end_kind: end.map(|end| end_kind(end.reason.kind()).into()),
            end_reason: end.map(|end| end.reason.to_string()),
            end_at: end.map(|end| end.at.into()),
            verdict: run.verdict.to_string(),
            verdict_code: run.verdict.code().into(),
        }
    }
}

/// Damage after which reading continued.
impl From<&Damage> for DamageJson {
    fn from(damage: &Damage) -> Self {
        Self {
            lsn: damage.at.into(),
            from_lsn: damage.from.into(),
            to_lsn: damage.resumed.map(LsnText::from),
            bytes: damage.resumed.map(|to| to.bytes_since(damage.from).unwrap_or(0)),
            reason: damage.reason.to_string(),
            reason_code: damage_code(&damage.reason).into(),
        }
    }
}

/// Why reading failed, as a word: how WAL ends there, or what is wrong with the segment.
fn damage_code(reason: &DamageReason) -> &'static str {
    match reason {
        DamageReason::Wal(reason) => end_kind(reason.kind()),
        DamageReason::Unreadable(_) => "unreadable",
        DamageReason::EndsEarly { .. } => "ends_early",
    }
}

const fn end_kind(kind: EndKind) -> &'static str {
    match kind {
        EndKind::Complete => "complete",
        EndKind::Unwritten => "unwritten",
        EndKind::Stale => "stale",
        EndKind::Torn => "torn",
        EndKind::Damaged => "damaged",
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ImageJson {
    /// The record, and the index of the block reference in it
    pub lsn: LsnText,
    pub end_lsn: LsnText,
    pub timeline: u32,
    pub xid: u32,
    pub rmgr: String,
    pub record: String,
    pub block_id: u8,
    /// The page
    pub spc_oid: u32,
    pub db_oid: u32,
    pub rel_number: u32,
    pub relation: Option<String>,
    pub fork: String,
    pub block: u32,
    /// Bytes in WAL; bytes before compression
    pub stored_bytes: usize,
    pub raw_bytes: u32,
    /// Bytes that were left out in the middle
    pub hole_offset: u16,
    pub hole_bytes: u16,
    /// `none`, `pglz`, `lz4`, `zstd`
    pub compression: ImageCompression,
    /// Redo puts it in place
    pub applied: bool,
    /// Why it was written: `first_touch`, `first_touch_in_backup`, `hint_only`, `hint_then_changed`, `hint_in_backup`, `new_page`, `map_truncation`, `forced`, `consistency_check`, `repeated_forced`, `repeated_new_page`, `repeated_reinitialised`, `repeated_hint`, `repeated_unknown`, `unknown_before_start`, `unknown`, `unreadable`; see [pg_walfpi.md](pg_walfpi.md)
    pub cause: CauseCode,
    /// Of `extract`: the file it was written to
    pub file: Option<String>,
}

/// Fields of a row, in the order of CSV.
pub(crate) const KEPT_COLUMNS: &[&str] = &[
    "keeper",
    "slot",
    "is_logical",
    "is_temporary",
    "is_invalidated",
    "segments",
    "bytes",
    "alone_segments",
    "alone_bytes",
    "oldest_segment",
    "from_lsn",
    "back_bytes",
    "release",
];

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct KeptJson {
    /// `checkpoint`: recovery from the last one; `slot`; `archiver`: segments that wait for it; `wal_keep_size` (`wal_keep_segments` up to 12); `summarizer`; `recycled`: old files under new names, to be written later; `nothing`: the next checkpoint removes or recycles them; `unknown`: nothing that could be read
    keeper: KeeperWord,
    /// For a slot: its name, and whether it is logical, ends with its session, or no longer holds WAL
    slot: Option<String>,
    is_logical: Option<bool>,
    is_temporary: Option<bool>,
    is_invalidated: Option<bool>,
    /// Segments that it keeps, and bytes of their files
    segments: u64,
    bytes: u64,
    /// Those of them that nothing else keeps: they go when it lets go and a checkpoint follows
    alone_segments: u64,
    alone_bytes: u64,
    /// The oldest of its segments
    oldest_segment: Option<String>,
    /// The oldest WAL that it needs, where it says so, and bytes from there to the end of the last segment written
    from_lsn: Option<LsnText>,
    back_bytes: Option<u64>,
    /// What makes it let go
    release: String,
}

impl From<&Kept> for KeptJson {
    fn from(kept: &Kept) -> Self {
        let slot = match &kept.keeper {
            Keeper::Slot { name, is_logical, is_temporary, is_invalidated } => {
                Some((name.clone(), *is_logical, *is_temporary, *is_invalidated))
            }
            _ => None,
        };
        let (name, [is_logical, is_temporary, is_invalidated]) = match slot {
            Some((name, logical, temporary, invalidated)) => {
                (Some(name), [Some(logical), Some(temporary), Some(invalidated)])
            }
            None => (None, [None; 3]),
        };
        Self {
            keeper: kept.keeper.code().into(),
            slot: name,
            is_logical,
            is_temporary,
            is_invalidated,
            segments: kept.segments,
            bytes: kept.bytes,
            alone_segments: kept.alone_segments,
            alone_bytes: kept.alone_bytes,
            oldest_segment: kept.oldest.clone(),
            from_lsn: kept.from_lsn.map(LsnText::from),
            back_bytes: kept.back_bytes,
            release: release_words(&kept.keeper),
        }
    }
}
