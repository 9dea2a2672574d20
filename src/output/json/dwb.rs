//! JSON of DWB files and batches.

use serde::Serialize;
use serde_json::{Map, Value};

use super::lsn_text;
use crate::analysis::batches::Batch;
use crate::analysis::dwb_format::{RingFact, RingSummary};
use crate::analysis::dwb_report::FileReport;
use crate::cluster::dwb_files::DwbFile;
use crate::types::RelFileLocator;

/// A DWB file.
#[derive(Clone, Debug, Serialize)]
pub struct FileJson {
    /// Name.
    pub file: String,
    /// Path.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Layout: A, B or C.
    pub layout: &'static str,
    /// How the layout was told: `header_crc`, `slot_crc`, `length`, or `guess`.
    pub layout_by: &'static str,
    /// `good`, `bad` or `missing`.
    pub header: &'static str,
    /// Bytes of a page.
    pub block_size: u32,
    /// Slots that the header announces.
    pub slots_per_file: Option<u32>,
    /// Slots that were read.
    pub slots: u64,
    /// Resets since server start.
    pub batch_id: Option<String>,
    /// LSN of the last reset.
    pub checkpoint_lsn: Option<String>,
    /// Written slots.
    pub used: u64,
    /// Slots that were never written.
    pub empty: u64,
    /// Used slots with a right CRC.
    pub good: u64,
    /// Used slots with a wrong CRC.
    pub bad: u64,
    /// Used slots whose CRC proves nothing.
    pub unverifiable: u64,
    /// Used slots of the current batch.
    pub current: u64,
    /// Used slots of earlier batches.
    pub stale: u64,
    /// Used slots of which that is unknown.
    pub undecided: u64,
    /// Images written by an eviction.
    pub from_eviction: u64,
    /// Images written by a checkpoint.
    pub from_checkpoint: u64,
    /// Slots that their writers gave up.
    pub aborted: u64,
    /// Where the description of the layout comes from: `seen_live` or `seen_built`.
    pub knowledge: &'static str,
}

/// Facts about a buffer as a whole.
#[derive(Clone, Debug, Serialize)]
pub struct RingJson {
    /// Kind of buffer.
    pub format: &'static str,
    /// `seen_live` or `seen_built`.
    pub knowledge: &'static str,
    /// The facts, by name.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

impl RingJson {
    /// The facts with their values.
    pub fn new(summary: &RingSummary) -> Self {
        let value = |fact: &RingFact| match fact {
            RingFact::Number(number) => Value::String(number.to_string()),
            RingFact::Flag(flag) => Value::Bool(*flag),
            RingFact::Code(code) => Value::String((*code).to_owned()),
            RingFact::Unknown => Value::Null,
        };
        let facts = summary.facts.iter().map(|(name, fact)| ((*name).to_owned(), value(fact))).collect();
        Self { format: summary.format, knowledge: summary.knowledge.code(), facts }
    }
}

impl FileJson {
    /// Puts a file and its counts together.
    pub fn new(file: &DwbFile, report: &FileReport) -> Self {
        let detection = &file.detection;
        let evidence = &detection.evidence;
        let header = detection.sound_header();
        let counts = &report.counts;
        Self {
            file: file.name.clone(),
            path: file.path().display().to_string(),
            size: file.size_bytes(),
            layout: detection.layout.name(),
            layout_by: match evidence {
                e if e.header_crc => "header_crc",
                e if e.verified_slots > 0 => "slot_crc",
                e if e.length_fits => "length",
                _ => "guess",
            },
            header: match (&detection.header, header) {
                (_, Some(_)) => "good",
                (Ok(_), None) => "bad",
                (Err(_), _) => "missing",
            },
            block_size: detection.block_size,
            slots_per_file: header.map(|header| header.slots_per_file),
            slots: counts.total,
            batch_id: header.and_then(|header| header.batch_id).map(|id| id.to_string()),
            checkpoint_lsn: header.and_then(|header| header.checkpoint_lsn).map(lsn_text),
            used: counts.used(),
            empty: counts.empty,
            good: counts.good,
            bad: counts.bad(),
            unverifiable: counts.unverifiable,
            current: report.current,
            stale: report.stale,
            undecided: report.undecided,
            from_eviction: counts.from_eviction,
            from_checkpoint: counts.from_checkpoint,
            aborted: counts.aborted,
            knowledge: file.directory.knowledge().code(),
        }
    }
}

/// A batch.
#[derive(Clone, Debug, Serialize)]
pub struct BatchJson {
    /// `current`, `stale` or `undecided`.
    pub batch: &'static str,
    /// `proven`, `likely` or `possible`: that these slots are one batch with this verdict.
    pub confidence: &'static str,
    /// Reasons of the slots, the most frequent first.
    pub reasons: Vec<&'static str>,
    /// File and index of the first slot.
    pub first_slot: String,
    /// File and index of the last slot.
    pub last_slot: String,
    /// Slots.
    pub slots: u64,
    /// Lowest LSN.
    pub lowest_lsn: String,
    /// Highest LSN.
    pub highest_lsn: String,
    /// Number of relations.
    pub relations: usize,
    /// Relations with the most slots, as `spc/db/rel`.
    pub top_relations: Vec<String>,
    /// Their names, as far as known.
    pub top_names: Vec<String>,
    /// Slots written by an eviction.
    pub from_eviction: u64,
    /// Slots written by a checkpoint.
    pub from_checkpoint: u64,
    /// Longest run of slots written by a checkpoint.
    pub longest_checkpoint_run: u64,
    /// Longest run of slots that ascend by relation and block, as a checkpoint writes them; a load does too.
    pub longest_ascending_run: u64,
    /// `checkpoint`, `eviction`, `mixed`, or `unknown` where images carry no checksums.
    pub written_by: &'static str,
    /// Where the description of the layout comes from: `seen_live` or `seen_built`.
    pub knowledge: &'static str,
}

/// Columns of a batch in CSV, in order.
pub const BATCH_COLUMNS: &[&str] = &[
    "batch",
    "confidence",
    "reasons",
    "first_slot",
    "last_slot",
    "slots",
    "lowest_lsn",
    "highest_lsn",
    "relations",
    "top_relations",
    "top_names",
    "from_eviction",
    "from_checkpoint",
    "longest_checkpoint_run",
    "longest_ascending_run",
    "written_by",
    "knowledge",
];

/// Columns that every layout has: the first of [`BATCH_COLUMNS`].
pub const USUAL_BATCH_COLUMNS: usize = BATCH_COLUMNS.len() - 1;

/// Relations that are named of a batch.
pub const TOP_RELATIONS: usize = 3;

impl BatchJson {
    /// Puts a batch into words; `files` are those of its set, `name` gives names of relations.
    pub fn new(batch: &Batch, files: &[DwbFile], name: &dyn Fn(RelFileLocator) -> Option<String>) -> Self {
        let slot_name =
            |(file, index): (usize, u64)| format!("{}:{index}", files.get(file).map_or("?", |file| file.name.as_str()));
        let mut reasons: Vec<_> = batch.reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let top = batch.top_relations(TOP_RELATIONS);
        Self {
            batch: batch.verdict.name(),
            confidence: batch.confidence.name(),
            reasons: reasons.into_iter().map(|(reason, _)| reason.name()).collect(),
            first_slot: slot_name(batch.first),
            last_slot: slot_name(batch.last),
            slots: batch.slots,
            lowest_lsn: lsn_text(batch.lowest_lsn),
            highest_lsn: lsn_text(batch.highest_lsn),
            relations: batch.relations.len(),
            top_relations: top.iter().map(ToString::to_string).collect(),
            top_names: top.iter().map(|rel| name(*rel).unwrap_or_else(|| rel.to_string())).collect(),
            from_eviction: batch.from_eviction,
            from_checkpoint: batch.from_checkpoint,
            longest_checkpoint_run: batch.longest_checkpoint_run,
            longest_ascending_run: batch.longest_ascending_run,
            written_by: batch.writer().name(),
            knowledge: files.get(batch.first.0).map_or("", |file| file.directory.knowledge().code()),
        }
    }
}
