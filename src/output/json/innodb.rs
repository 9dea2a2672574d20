//! JSON of MySQL and MariaDB: every line has `engine`, and an LSN is a decimal number in a string, as these servers print it.

use serde_json::{Map, Value, json};

use super::page::tear_value;
use super::wal::Row;
use crate::analysis::innodb::candidates::{EntryFacts, InnodbBatch, SlotCounts};
use crate::analysis::innodb::judge::{InnodbCandidate, InnodbComparison, InnodbPage};
use crate::analysis::innodb::scan::{FoundPage, PageCounts};
use crate::analysis::innodb::slot::{SlotAge, SlotFacts, SlotId};
use crate::cluster::innodb::doublewrite::{Doublewrite, SlotFile};
use crate::cluster::innodb::redo_log::{Family, RedoLog};
use crate::cluster::innodb::tablespace::{Tablespace, Tablespaces};
use crate::parsers::innodb::InnodbLsn;
use crate::parsers::innodb::checksum::Algorithm;
use crate::parsers::innodb::page_check::PageState;

pub(crate) fn innodb_lsn_text(lsn: InnodbLsn) -> String {
    lsn.to_string()
}

/// Fields by their names.
pub fn named<const N: usize>(fields: [(&str, Value); N]) -> Row {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn row<const N: usize>(fields: [(&str, Value); N]) -> Row {
    let mut row = named([("engine", json!("innodb"))]);
    row.extend(named(fields));
    row
}

/// Counts of a scan, for the last line of machine formats.
pub(crate) fn scan_fields(counts: &PageCounts) -> Row {
    let unverifiable = counts.unverifiable.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let algorithms = counts.algorithms.iter().map(|(algorithm, count)| (algorithm.name(), *count)).collect::<Vec<_>>();
    let by_name = |counts: Vec<(&'static str, u64)>| {
        Value::Object(counts.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect())
    };
    named([
        ("pages", json!(counts.pages)),
        ("bytes", json!(counts.bytes)),
        ("sound", json!(counts.sound)),
        ("zeroed", json!(counts.empty)),
        ("damaged", json!(counts.damaged)),
        ("unverifiable", json!(unverifiable)),
        ("doublewrite_pages", json!(counts.slots)),
        ("algorithms", by_name(algorithms)),
        ("page_types", by_name(counts.by_type_name())),
    ])
}

#[rustfmt::skip]
pub(crate) const INNODB_SLOT_COLUMNS: &[&str] = &[
    "engine", "file", "slot_index", "part", "offset", "space_id", "tablespace", "page_no", "page_type",
    "page_kind", "page_lsn", "state", "page_checksum", "algorithm", "batch", "disk", "disk_lsn", "faults",
];

/// Context of the rows of slots and pages.
#[derive(Clone, Copy, Debug)]
pub struct SlotSetting<'a> {
    /// Whose rules count.
    pub family: Family,
    /// Redo log.
    pub log: &'a RedoLog,
    /// The doublewrite buffer.
    pub doublewrite: &'a Doublewrite,
    /// Tablespaces.
    pub spaces: &'a Tablespaces,
}

impl SlotSetting<'_> {
    fn tablespace(&self, space_id: Option<u32>) -> Option<String> {
        space_id.and_then(|id| self.spaces.get(id)).map(Tablespace::name)
    }

    /// A slot; `facts` are `None` for one that was never written.
    pub fn slot_row(
        &self,
        slot: SlotId,
        facts: Option<&SlotFacts>,
        disk: Option<(InnodbComparison, Option<InnodbLsn>)>,
    ) -> Row {
        let file = self.doublewrite.files.get(slot.0);
        let faults: Vec<String> = facts.and_then(|facts| damage(facts.state).1).into_iter().collect();
        let batch = facts.map(|facts| facts.age(self.log.checkpoint_lsn())).map(SlotAge::name);
        row([
            ("file", json!(file.map(|file| file.name.as_str()))),
            ("slot_index", json!(slot.1)),
            ("part", json!(file.map(|file| file.part_of(slot.1).name()))),
            ("offset", json!(file.and_then(|file| file.offset_of(slot.1)).map(|offset| format!("{offset:#X}")))),
            ("space_id", json!(facts.and_then(|facts| facts.space_id))),
            ("tablespace", json!(self.tablespace(facts.and_then(|facts| facts.space_id)))),
            ("page_no", json!(facts.map(|facts| facts.page_no))),
            ("page_type", json!(facts.map(|facts| facts.page_type.0))),
            ("page_kind", json!(facts.map(|facts| facts.page_type.name()))),
            ("page_lsn", json!(facts.map(|facts| innodb_lsn_text(facts.lsn)))),
            ("state", json!(if facts.is_some() { "used" } else { "empty" })),
            ("page_checksum", json!(facts.map(|facts| facts.state.name()))),
            ("algorithm", json!(facts.and_then(|facts| facts.state.algorithm()).map(Algorithm::name))),
            ("batch", json!(batch)),
            ("disk", json!(disk.map(|(word, _)| word.name()))),
            ("disk_lsn", json!(disk.and_then(|(_, lsn)| lsn).map(innodb_lsn_text))),
            ("faults", json!(faults)),
        ])
    }

    /// An entry without an image.
    pub(crate) fn entry_row(&self, entry: &EntryFacts, disk: (InnodbComparison, Option<InnodbLsn>)) -> Row {
        let file = self.doublewrite.entries.get(entry.file);
        row([
            ("file", json!(file.map(|file| file.name.as_str()))),
            ("block_index", json!(entry.block)),
            ("entry_index", json!(entry.index)),
            ("segment", json!(entry.segment)),
            ("flush_type", json!(if entry.flush_type == 0 { "lru" } else { "flush_list" })),
            ("block_checksum", json!(if entry.is_sound { "good" } else { "bad" })),
            ("space_id", json!(entry.page.space_id)),
            ("tablespace", json!(self.tablespace(Some(entry.page.space_id)))),
            ("page_no", json!(entry.page.page_no)),
            ("page_lsn", json!(innodb_lsn_text(entry.lsn))),
            ("disk", json!(disk.0.name())),
            ("disk_lsn", json!(disk.1.map(innodb_lsn_text))),
        ])
    }

    pub(crate) fn page_row(&self, page: &InnodbPage) -> Row {
        let space = self.spaces.all.get(page.space);
        let candidates: Vec<Value> = page.candidates.iter().map(|candidate| self.candidate(candidate)).collect();
        let (fault, damage) = damage(page.state);
        row([
            ("space_id", json!(page.page.space_id)),
            ("page_no", json!(page.page.page_no)),
            ("tablespace", json!(space.map(Tablespace::name))),
            ("path", json!(page.path)),
            ("offset", json!(format!("{:#X}", page.offset))),
            ("page_checksum", json!(page.state.name())),
            ("damage", json!(damage)),
            ("damage_code", json!(fault)),
            ("disk", json!(page.disk.name())),
            ("disk_lsn", json!(innodb_lsn_text(page.disk_lsn))),
            ("tear", json!(page.tear.as_ref().map(|map| tear_value(map, |at| json!(page.mapped.get(*at)))))),
            ("candidates", json!(candidates)),
            ("entries", json!(page.entries.iter().copied().map(innodb_lsn_text).collect::<Vec<_>>())),
            ("holds", json!(page.held.name())),
            ("chosen", json!(page.chosen)),
            ("newer_than_log", json!(page.is_newer_than_log)),
        ])
    }

    fn candidate(&self, candidate: &InnodbCandidate) -> Value {
        let facts = &candidate.facts;
        json!({
            "file": self.doublewrite.files.get(facts.slot.0).map(|file| file.name.as_str()),
            "slot_index": facts.slot.1,
            "page_lsn": innodb_lsn_text(facts.lsn),
            "page_checksum": facts.state.name(),
            "since_checkpoint": candidate.since_checkpoint,
            "disk": candidate.comparison.name(),
        })
    }

    pub(crate) fn batch_row(&self, batch: &InnodbBatch) -> Row {
        let file = self.doublewrite.files.get(batch.file);
        let spaces: Map<String, Value> =
            batch.spaces.iter().map(|(space, count)| (space.to_string(), json!(count))).collect();
        row([
            ("file", json!(file.map(|file| file.name.as_str()))),
            ("part", json!(batch.part.name())),
            ("batch", json!(batch.age.name())),
            ("first_slot", json!(batch.first)),
            ("last_slot", json!(batch.last)),
            ("slots", json!(batch.slots)),
            ("runs", json!(batch.runs)),
            ("lowest_lsn", json!(innodb_lsn_text(batch.lowest_lsn))),
            ("highest_lsn", json!(innodb_lsn_text(batch.highest_lsn))),
            ("spaces", json!(spaces)),
        ])
    }
    pub(crate) fn instance_row(&self, path: &str) -> Row {
        let checkpoint = self.log.checkpoint.as_ref();
        row([
            ("path", json!(path)),
            ("family", json!(self.family.name())),
            ("creator", json!(self.log.creator)),
            ("page_bytes", json!(self.doublewrite.page_bytes)),
            ("checkpoint_lsn", json!(checkpoint.map(|(found, _)| innodb_lsn_text(found.lsn)))),
            ("checkpoint_file", json!(checkpoint.map(|(_, file)| file.as_str()))),
            ("doublewrite", json!(self.doublewrite.layout.name())),
            ("detect_only_files", json!(self.doublewrite.entries.len())),
            ("tablespaces", json!(self.spaces.all.len())),
            ("data_bytes", json!(self.spaces.bytes())),
        ])
    }

    /// The files of the doublewrite buffer.
    pub(crate) fn file_rows(&self, counts: &[SlotCounts]) -> Vec<Row> {
        let files = self.doublewrite.files.iter().zip(counts);
        let row_of = |(file, counts): (&SlotFile, &SlotCounts)| {
            row([
                ("file", json!(file.name)),
                ("number", json!(file.number)),
                ("size_bytes", json!(file.size_bytes())),
                ("slots", json!(file.slots)),
                ("batch_slots", json!(file.batch_slots)),
                ("empty", json!(counts.empty)),
                ("good", json!(counts.sound)),
                ("bad", json!(counts.damaged)),
                ("unverifiable", json!(counts.unverifiable)),
                ("current", json!(counts.since_checkpoint)),
            ])
        };
        files.map(row_of).collect()
    }
}

/// Columns of a group of slots in CSV.
#[rustfmt::skip]
pub(crate) const INNODB_BATCH_COLUMNS: &[&str] = &[
    "engine", "file", "part", "batch", "first_slot", "last_slot", "slots", "runs", "lowest_lsn",
    "highest_lsn", "spaces",
];

#[rustfmt::skip]
pub(crate) const INNODB_PAGE_COLUMNS: &[&str] = &[
    "engine", "space_id", "page_no", "tablespace", "path", "offset", "page_checksum", "damage", "damage_code",
    "disk", "disk_lsn", "holds", "chosen", "newer_than_log",
];

/// Columns of a damaged page of a scan in CSV.
#[rustfmt::skip]
pub(crate) const INNODB_BAD_PAGE_COLUMNS: &[&str] = &[
    "engine", "space_id", "page_no", "tablespace", "path", "offset", "page_lsn", "damage", "damage_code",
];

/// Name and words of the fault of a damaged page.
fn damage(state: PageState) -> (Option<&'static str>, Option<String>) {
    match state {
        PageState::Damaged(fault) => (Some(fault.name()), Some(fault.to_string())),
        _ => (None, None),
    }
}

pub(crate) fn innodb_bad_page_row(spaces: &Tablespaces, found: &FoundPage) -> Row {
    let space = spaces.all.get(found.space);
    let location = space.and_then(|space| space.find(found.page_no));
    let (fault, damage) = damage(found.state);
    row([
        ("space_id", json!(space.map(|space| space.id))),
        ("page_no", json!(found.page_no)),
        ("tablespace", json!(space.map(Tablespace::name))),
        ("path", json!(location.map(|(file, _)| file.path.display().to_string()))),
        ("offset", json!(location.map(|(_, offset)| format!("{offset:#X}")))),
        ("page_lsn", json!(innodb_lsn_text(found.lsn))),
        ("damage", json!(damage)),
        ("damage_code", json!(fault)),
    ])
}

pub(crate) fn tablespace_row(space: &Tablespace) -> Row {
    let flags = &space.flags;
    row([
        ("space_id", json!(space.id)),
        ("tablespace", json!(space.name())),
        ("files", json!(space.files.iter().map(|file| file.path.display().to_string()).collect::<Vec<_>>())),
        ("pages", json!(space.pages())),
        ("page_bytes", json!(flags.physical_bytes())),
        ("zip_bytes", json!(flags.zip_bytes)),
        ("flags", json!(format!("{:#x}", flags.raw))),
        ("full_crc32", json!(flags.is_full_crc32)),
        ("page_compression", json!(flags.has_page_compression)),
        ("encrypted", json!(flags.is_mysql_encrypted)),
        ("page_0", json!(space.page_0.name())),
        ("has_rival", json!(space.has_rival)),
    ])
}
