//! JSON of a slot.

use serde::Serialize;

use super::lsn_text;
use crate::analysis::slot_facts::{Condition, PageChecksum, SlotFacts, WritePath};
use crate::analysis::staleness::{BatchReason, BatchVerdict};
use crate::cluster::dwb_files::DwbFile;
use crate::parsers::dwb::{CrcVerdict, SlotIdRule};

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
