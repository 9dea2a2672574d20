//! JSON of DWB files and batches.
//! Also here: JSON of a slot.

use serde::Serialize;
use serde_json::{Map, Value};

use super::lsn_text;
use crate::analysis::dwb::batches::Batch;
use crate::analysis::dwb::format::{RingFact, RingSummary};
use crate::analysis::dwb::report::FileReport;
use crate::analysis::dwb::slot_facts::{Condition, PageChecksum, SlotFacts, WritePath};
use crate::analysis::dwb::staleness::{BatchReason, BatchVerdict};
use crate::cluster::dwb_files::DwbFile;
use crate::parsers::dwb::{CrcVerdict, SlotIdRule};
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

/// A slot.
#[derive(Clone, Debug, Serialize)]
pub struct SlotJson {
    /// Name of the file.
    pub file: String,
    /// Index in the file, from 0.
    pub slot_index: u64,
    /// Stored field; `null` in a layout without it.
    pub slot_id: Option<u32>,
    /// Tablespace.
    pub spc_oid: u32,
    /// Database.
    pub db_oid: u32,
    /// File number.
    pub rel_number: u32,
    /// Name of the relation, where it is known.
    pub relation: Option<String>,
    /// Name of its database, where it is known.
    pub database: Option<String>,
    /// `main`, `fsm`, `vm` or `init`; the number for another code; `null` for an empty slot.
    pub fork: Option<String>,
    /// Block within the fork.
    pub block: u32,
    /// LSN in the slot header.
    pub slot_lsn: String,
    /// LSN in the image.
    pub page_lsn: String,
    /// Flag bits.
    pub flags: u16,
    /// `good`, `bad` or `unverifiable`; `null` for an empty slot.
    pub crc: Option<&'static str>,
    /// `empty` or `used`.
    pub state: &'static str,
    /// `good`, `stale`, `zero` or `off`; `null` for an empty slot.
    pub page_checksum: Option<&'static str>,
    /// `current`, `stale` or `undecided`; `null` for an empty slot.
    pub batch: Option<&'static str>,
    /// Why the batch is that.
    pub batch_reason: Option<&'static str>,
    /// `empty`, `sound`, `torn`, `damaged` or `unverifiable`.
    pub condition: &'static str,
    /// Offset of the slot in its file, hexadecimal.
    pub offset: String,
    /// File of the page, relative to the data directory, where that is known.
    pub path: Option<String>,
    /// `eviction` or `checkpoint`, where that is known.
    pub written_by: Option<&'static str>,
    /// Kind of page; `null` for an empty slot.
    pub page_kind: Option<&'static str>,
    /// Stored checksum of the image.
    pub pd_checksum: u16,
    /// Flags of the image.
    pub pd_flags: u16,
    /// End of its line pointers.
    pub pd_lower: u16,
    /// Start of its tuples.
    pub pd_upper: u16,
    /// Start of its special space.
    pub pd_special: u16,
    /// Its page size and version.
    pub pd_pagesize_version: u16,
    /// Its prune xid.
    pub pd_prune_xid: u32,
    /// Line pointers that it announces.
    pub line_pointers: usize,
    /// Rules that slot header or image break.
    pub faults: Vec<String>,
    /// Number of the server run that wrote the slot; `null` in a layout without it.
    pub generation: Option<String>,
    /// Where the description of the layout comes from: `seen_live` or `seen_built`.
    pub knowledge: &'static str,
}

/// Columns of a slot in CSV, in order.
pub const SLOT_COLUMNS: &[&str] = &[
    "file",
    "slot_index",
    "slot_id",
    "spc_oid",
    "db_oid",
    "rel_number",
    "relation",
    "database",
    "fork",
    "block",
    "slot_lsn",
    "page_lsn",
    "flags",
    "crc",
    "state",
    "page_checksum",
    "batch",
    "batch_reason",
    "condition",
    "offset",
    "path",
    "written_by",
    "page_kind",
    "pd_checksum",
    "pd_flags",
    "pd_lower",
    "pd_upper",
    "pd_special",
    "pd_pagesize_version",
    "pd_prune_xid",
    "line_pointers",
    "faults",
    "generation",
    "knowledge",
];

impl SlotJson {
    /// Puts a slot's facts and its batch together. `path`: file of the page, `relation` and `database`: their names, where known.
    pub fn new(
        file: &DwbFile,
        facts: &SlotFacts,
        batch: Option<(BatchVerdict, BatchReason)>,
        path: Option<String>,
        relation: Option<String>,
        database: Option<String>,
    ) -> Self {
        let header = &facts.header;
        let mut faults: Vec<String> = Vec::new();
        let failed = matches!(facts.condition, Condition::Torn | Condition::Damaged);
        if let Some(computed) = facts.computed_crc.filter(|computed| failed && *computed != header.crc) {
            faults.push(format!("slot CRC: stored {:#010x}, computed {computed:#010x}", header.crc));
        }
        if let Some(crc) = facts.image_crc.filter(|crc| !crc.is_good()) {
            faults.push(format!("image CRC: stored {:#010x}, computed {:#010x}", crc.stored, crc.computed));
        }
        if let Some(sector) = facts.zero_from_sector {
            faults.push(format!("the image is zero starting at sector {sector}"));
        }
        faults.extend(facts.slot_faults.iter().map(ToString::to_string));
        if facts.condition != Condition::Empty {
            faults.extend(facts.page_faults.iter().map(ToString::to_string));
            if facts.condition == Condition::Aborted {
                faults.push(
                    "its writer discarded it: the bytes where the image should be belong to another page".to_owned(),
                );
            }
            if header.lsn != facts.page.lsn {
                faults.push("the slot header has another LSN than its image".to_owned());
            }
        }
        let used = facts.crc.is_some();
        Self {
            file: file.name.clone(),
            slot_index: facts.index,
            slot_id: has_slot_id(file).then_some(header.slot_id),
            spc_oid: header.rel.spc_oid,
            db_oid: header.rel.db_oid,
            rel_number: header.rel.rel_number,
            relation,
            database,
            fork: used.then(|| header.fork().map_or_else(|| header.fork_code.to_string(), |fork| fork.to_string())),
            block: header.block,
            slot_lsn: lsn_text(header.lsn),
            page_lsn: lsn_text(facts.page.lsn),
            flags: header.flags,
            crc: facts.crc.map(CrcVerdict::name),
            state: if facts.crc.is_none() { "empty" } else { "used" },
            page_checksum: facts.page_checksum.map(PageChecksum::name),
            batch: batch.map(|(verdict, _)| verdict.name()),
            batch_reason: batch.map(|(_, reason)| reason.name()),
            condition: facts.condition.name(),
            offset: format!("{:#X}", facts.offset),
            path,
            written_by: facts.path.map(WritePath::name),
            page_kind: used.then(|| facts.page_kind.name()),
            pd_checksum: facts.page.checksum,
            pd_flags: facts.page.flags,
            pd_lower: facts.page.lower,
            pd_upper: facts.page.upper,
            pd_special: facts.page.special,
            pd_pagesize_version: facts.page.pagesize_version,
            pd_prune_xid: facts.page.prune_xid,
            line_pointers: if facts.page_kind.has_line_pointers() { facts.page.line_pointer_count() } else { 0 },
            faults,
            generation: header.generation.map(|generation| generation.to_string()),
            knowledge: file.directory.knowledge().code(),
        }
    }
}

fn has_slot_id(file: &DwbFile) -> bool {
    file.detection.layout.slot_id_rule() != SlotIdRule::NotStored
}
