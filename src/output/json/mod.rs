//! The JSON that others may build on. Kept apart from the parsed structs, so that those may change.
//!
//! LSNs and 64-bit identifiers are strings; times are ISO 8601 in UTC.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::analysis::skipped::Skipped;
use crate::parsers::wal::payload::PgTimestamp;
use crate::report::{Finding, Severity};
use crate::types::Lsn;

pub(crate) mod bad_page;
mod dwb;
pub(crate) mod dwb_size;
pub mod export;
pub mod innodb;
pub mod page;
pub mod page_at;
pub(crate) mod salvage;
pub mod savings;
pub mod scalars;
pub mod wal;
pub mod whatif;

use bad_page::BadPageJson;
pub use dwb::{
    BATCH_COLUMNS, BatchJson, FileJson, RingJson, SLOT_COLUMNS, SlotJson, TOP_RELATIONS, USUAL_BATCH_COLUMNS,
};
use dwb_size::{BufferNeedJson, BufferTrialJson, DirtiedJson};
use export::ExportedFileJson;
use page::{ComparisonJson, EventJson, PageJson};
use page_at::{HistoryJson, PageAtJson, PageChangeJson, PageRowJson};
use salvage::{SalvagedTableJson, UnnamedFileJson};
use savings::{BillJson, SavingJson};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use wal::{DamageJson, ImageJson, KeptJson, RunJson};
use whatif::{CompressionJson, GuardJson, HintJson, SpacingJson};

/// Number of the schema; grows when a field changes its meaning or goes away.
pub const SCHEMA: u32 = 3;

/// An LSN as it is printed everywhere.
pub fn lsn_text(lsn: Lsn) -> String {
    lsn.to_string()
}

/// Unix seconds as ISO 8601 in UTC; the plain number where the calendar ends.
pub(crate) fn time_text(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// A time of the server as ISO 8601 in UTC, with the fraction of a second that it has.
pub(crate) fn time_words(time: PgTimestamp) -> String {
    let us = time.unix_microseconds();
    jiff::Timestamp::from_microsecond(us).map_or_else(|_| us.to_string(), |time| time.to_string())
}

/// One line of NDJSON; in JSON, one member of the array of its type.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Item {
    Cluster(ClusterJson),
    Ring(RingJson),
    File(FileJson),
    Slot(Box<SlotJson>),
    Batch(BatchJson),
    Page(Box<PageJson>),
    Event(EventJson),
    History(Box<HistoryJson>),
    PageAt(Box<PageAtJson>),
    PageChange(Box<PageChangeJson>),
    PageRow(PageRowJson),
    Comparison(ComparisonJson),
    DamagedPage(Box<BadPageJson>),
    #[serde(rename = "page")]
    InnodbPage(wal::Row),
    #[serde(rename = "damaged_page")]
    InnodbDamagedPage(wal::Row),
    Step(wal::Row),
    Left(wal::Row),
    Interval(wal::Row),
    Bucket(wal::Row),
    SinceRedo(wal::Row),
    Group(wal::Row),
    Image(Box<ImageJson>),
    Run(Box<RunJson>),
    Kept(KeptJson),
    Bill(BillJson),
    Saving(Box<SavingJson>),
    Spacing(Box<SpacingJson>),
    Guard(GuardJson),
    Hint(HintJson),
    BufferNeed(BufferNeedJson),
    BufferTrial(BufferTrialJson),
    Dirtied(DirtiedJson),
    Damage(DamageJson),
    Compression(CompressionJson),
    ExportedFile(ExportedFileJson),
    Set(wal::Row),
    Figure(wal::Row),
    Instance(wal::Row),
    Tablespace(wal::Row),
    #[serde(rename = "file")]
    InnodbFile(wal::Row),
    #[serde(rename = "slot")]
    InnodbSlot(wal::Row),
    #[serde(rename = "batch")]
    InnodbBatch(wal::Row),
    Entry(wal::Row),
    SalvagedTable(Box<SalvagedTableJson>),
    UnnamedFile(UnnamedFileJson),
    Finding(FindingJson),
    Skipped(SkippedJson),
}

impl Item {
    /// Name of the array that holds items of this type in a JSON document.
    pub(crate) const fn plural(&self) -> &'static str {
        match self {
            Self::Cluster(_) => "clusters",
            Self::Ring(_) => "rings",
            Self::File(_) | Self::InnodbFile(_) => "files",
            Self::Slot(_) | Self::InnodbSlot(_) => "slots",
            Self::Batch(_) | Self::InnodbBatch(_) => "batches",
            Self::Instance(_) => "instances",
            Self::Tablespace(_) => "tablespaces",
            Self::Entry(_) => "entries",
            Self::Page(_) | Self::InnodbPage(_) => "pages",
            Self::Event(_) => "events",
            Self::History(_) => "history",
            Self::PageAt(_) => "pages_at",
            Self::PageChange(_) => "page_changes",
            Self::PageRow(_) => "page_rows",
            Self::Comparison(_) => "comparisons",
            Self::DamagedPage(_) | Self::InnodbDamagedPage(_) => "damaged_pages",
            Self::Step(_) => "steps",
            Self::Left(_) => "left",
            Self::Interval(_) => "intervals",
            Self::Bucket(_) => "buckets",
            Self::SinceRedo(_) => "since_redo",
            Self::Group(_) => "groups",
            Self::Image(_) => "images",
            Self::Run(_) => "runs",
            Self::Kept(_) => "kept",
            Self::Bill(_) => "bill",
            Self::Saving(_) => "savings",
            Self::Spacing(_) => "spacings",
            Self::Guard(_) => "guards",
            Self::Hint(_) => "hints",
            Self::BufferNeed(_) => "buffer_needs",
            Self::BufferTrial(_) => "buffer_trials",
            Self::Dirtied(_) => "dirtied",
            Self::Damage(_) => "damage",
            Self::Compression(_) => "compressions",
            Self::ExportedFile(_) => "exported_files",
            Self::Set(_) => "sets",
            Self::Figure(_) => "figures",
            Self::SalvagedTable(_) => "salvaged_tables",
            Self::UnnamedFile(_) => "unnamed_files",
            Self::Finding(_) => "findings",
            Self::Skipped(_) => "skipped",
        }
    }
}

/// The schema of each type of line that has one made of its fields here, by the name of the type.
pub fn schemas(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
    fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
    type SchemaOf = fn(&mut SchemaGenerator) -> Schema;
    let all: [(&'static str, SchemaOf); 24] = [
        ("page", of::<PageJson>),
        ("event", of::<EventJson>),
        ("history", of::<HistoryJson>),
        ("page_at", of::<PageAtJson>),
        ("page_change", of::<PageChangeJson>),
        ("page_row", of::<PageRowJson>),
        ("comparison", of::<ComparisonJson>),
        ("damaged_page", of::<BadPageJson>),
        ("image", of::<ImageJson>),
        ("run", of::<RunJson>),
        ("damage", of::<DamageJson>),
        ("kept", of::<KeptJson>),
        ("bill", of::<BillJson>),
        ("saving", of::<SavingJson>),
        ("spacing", of::<SpacingJson>),
        ("guard", of::<GuardJson>),
        ("hint", of::<HintJson>),
        ("compression", of::<CompressionJson>),
        ("buffer_need", of::<BufferNeedJson>),
        ("buffer_trial", of::<BufferTrialJson>),
        ("dirtied", of::<DirtiedJson>),
        ("exported_file", of::<ExportedFileJson>),
        ("salvaged_table", of::<SalvagedTableJson>),
        ("unnamed_file", of::<UnnamedFileJson>),
    ];
    all.into_iter().map(|(name, of)| (name, of(generator))).collect()
}

/// First line of every output.
#[derive(Clone, Debug, Serialize)]
pub struct BeginJson {
    /// Program.
    pub tool: &'static str,
    /// Its version.
    pub version: &'static str,
    /// See [`SCHEMA`].
    pub schema: u32,
    /// Subcommand.
    pub command: &'static str,
    /// Paths as given.
    pub paths: Vec<String>,
}

/// Last line of every output.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SummaryJson {
    /// Items that were examined.
    pub examined: u64,
    /// Items that were shown.
    pub shown: u64,
    /// Things that were not examined.
    pub skipped: usize,
    /// Findings that are problems.
    pub problems: usize,
    /// Exit status that this run ends with.
    pub exit_status: u8,
    /// Further counts of the command.
    #[serde(flatten)]
    pub counts: Map<String, Value>,
}

/// A data directory.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterJson {
    /// Path as given.
    pub path: String,
    /// Major version by `PG_VERSION`.
    pub major: u32,
    /// Meaning of the state, in one sentence; `null` if the control file is missing or damaged.
    pub state_in_words: Option<String>,
    /// The state as a code.
    pub state_code: &'static str,
    /// `none`, `gone`, `other_process`, `running`, `zombie`, `unclear` or `unreadable`.
    pub server: &'static str,
    /// Every field of the control file; `null` when it could not be decoded.
    pub control: Option<Map<String, Value>>,
    /// Settings of the double write buffer in the configuration files.
    pub settings: Map<String, Value>,
    /// Databases with files.
    pub databases: u64,
    /// Relation files.
    pub relation_files: u64,
    /// Their size in bytes.
    pub relation_bytes: u64,
    /// Tablespaces outside the data directory.
    pub tablespaces: u64,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingJson {
    /// `problem` or `note`.
    pub severity: Cow<'static, str>,
    /// Stable name.
    pub kind: Cow<'static, str>,
    /// File, where there is one.
    pub file: Option<String>,
    /// Offset in it, hexadecimal.
    pub offset: Option<String>,
    /// The finding.
    pub what: String,
    /// Why it matters.
    pub why: Cow<'static, str>,
}

impl From<&Finding> for FindingJson {
    fn from(finding: &Finding) -> Self {
        Self {
            severity: if finding.severity == Severity::Problem { "problem" } else { "note" }.into(),
            kind: finding.rule.code.into(),
            file: finding.file.clone(),
            offset: finding.offset.map(|offset| format!("{offset:#X}")),
            what: finding.to_string(),
            why: finding.why.into(),
        }
    }
}

/// Something that was not examined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedJson {
    /// File or part of the input.
    pub what: String,
    /// The part as a code.
    pub part: Cow<'static, str>,
    /// Why.
    pub reason: String,
    /// Kind of reason: `interrupted`, `unreadable` or `not_examined`.
    pub code: Cow<'static, str>,
    /// The reason as a word for programs.
    pub cause: Cow<'static, str>,
}

impl From<&Skipped> for SkippedJson {
    fn from(skipped: &Skipped) -> Self {
        Self {
            what: skipped.what.to_string(),
            part: skipped.what.code().into(),
            reason: skipped.why(),
            code: skipped.reason.class().code().into(),
            cause: skipped.reason.code().into(),
        }
    }
}
