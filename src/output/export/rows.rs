//! The tables and their columns, and the rows that a record gives. The byte columns of each table add up to what `stats`
//! says: see `docs/export.md`.

use std::io;

use strum::IntoStaticStr;

use rustc_hash::FxHashMap;

use super::Cell;
use crate::analysis::wal::interval::Interval;
use crate::output::json::wal::fork_name;
use crate::parsers::image::{BlockImage, Compression};
use crate::parsers::wal::block::BlockRef;
use crate::parsers::wal::lifecycle::record_time;
use crate::parsers::wal::names::{RM_XLOG, rmgr_name, type_key};
use crate::parsers::wal::payload::XlogPayload;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::timeline::WalSegment;
use crate::types::{Lsn, RelFileLocator, TimelineId};

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Table {
    /// A row for each record.
    Records,
    /// A row for each block that a record refers to.
    Blocks,
    /// A row for each full-page image.
    Images,
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Signed 64-bit numbers.
    Int,
    /// Yes or no.
    Bool,
    /// Text.
    Text,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: ColumnType,
    /// It can be without a value.
    pub nullable: bool,
    /// Values never fall from row to row.
    pub ascends: bool,
}

impl Column {
    /// True when most values are not those of other rows.
    #[cfg(feature = "parquet")]
    pub(super) fn varies(&self) -> bool {
        self.ascends || ["xid", "block", "time_us"].contains(&self.name)
    }
}

const fn column(name: &'static str, kind: ColumnType) -> Column {
    Column { name, kind, nullable: false, ascends: false }
}

const fn int(name: &'static str) -> Column {
    column(name, ColumnType::Int)
}

const fn text(name: &'static str) -> Column {
    column(name, ColumnType::Text)
}

const fn lsn(name: &'static str) -> Column {
    Column { ascends: true, ..int(name) }
}

const fn maybe(column: Column) -> Column {
    Column { nullable: true, ..column }
}

const RECORDS: &[Column] = &[
    lsn("lsn"),
    lsn("end_lsn"),
    int("tli"),
    text("segment"),
    text("rmgr"),
    text("record"),
    int("xid"),
    int("tot_len"),
    int("record_bytes"),
    int("fpi_count"),
    int("fpi_bytes"),
    int("fpi_raw_bytes"),
    int("blocks"),
    maybe(int("time_us")),
    maybe(int("checkpoint_redo_lsn")),
    maybe(column("full_page_writes", ColumnType::Bool)),
    maybe(int("interval_lsn")),
    maybe(int("redo_lsn")),
];

const BLOCKS: &[Column] = &[
    lsn("lsn"),
    int("tli"),
    text("segment"),
    text("rmgr"),
    text("record"),
    int("xid"),
    int("block_id"),
    int("spc_oid"),
    int("db_oid"),
    int("rel_number"),
    maybe(text("relation")),
    text("fork"),
    int("block"),
    column("will_init", ColumnType::Bool),
    int("data_bytes"),
    int("record_bytes"),
    maybe(int("stored_bytes")),
    maybe(int("raw_bytes")),
    maybe(int("hole_offset")),
    maybe(int("hole_bytes")),
    maybe(text("compression")),
    maybe(column("applied", ColumnType::Bool)),
    maybe(int("interval_lsn")),
    maybe(int("redo_lsn")),
];

const IMAGES: &[Column] = &[
    lsn("lsn"),
    lsn("end_lsn"),
    int("tli"),
    text("segment"),
    text("rmgr"),
    text("record"),
    int("xid"),
    int("block_id"),
    int("spc_oid"),
    int("db_oid"),
    int("rel_number"),
    maybe(text("relation")),
    text("fork"),
    int("block"),
    int("record_bytes"),
    int("stored_bytes"),
    int("raw_bytes"),
    int("hole_offset"),
    int("hole_bytes"),
    text("compression"),
    column("applied", ColumnType::Bool),
    text("cause"),
    maybe(int("old_lsn")),
    maybe(int("interval_lsn")),
    maybe(int("redo_lsn")),
];

impl Table {
    /// The word for it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Its columns, in order.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Self::Records => RECORDS,
            Self::Blocks => BLOCKS,
            Self::Images => IMAGES,
        }
    }
}

/// Context of rows in addition to the record.
#[derive(Clone, Copy)]
pub(crate) struct RowFacts<'a> {
    pub intervals: &'a [Interval],
    /// Bytes of a WAL segment.
    pub segment_size: u32,
    /// Name of a relation, where it is known.
    pub relation: &'a (dyn Fn(RelFileLocator) -> Option<String> + Sync),
}

/// Resource manager and type of a record.
type TypeNames = (String, String);

/// Makes rows. Names are looked up once.
pub(crate) struct RowMaker<'a> {
    facts: RowFacts<'a>,
    types: FxHashMap<(u8, u8), TypeNames>,
    forks: Vec<String>,
    relations: FxHashMap<RelFileLocator, Option<String>>,
    segment: (TimelineId, u64, String),
    /// Index of the interval of the record before.
    interval: usize,
}

#[derive(Clone, Copy)]
struct Common<'a> {
    lsn: Cell<'a>,
    end_lsn: Cell<'a>,
    tli: Cell<'a>,
    segment: Cell<'a>,
    rmgr: Cell<'a>,
    record: Cell<'a>,
    xid: Cell<'a>,
    interval_lsn: Cell<'a>,
    redo_lsn: Cell<'a>,
}

/// An image, its cause, and the bytes of its record that count for it.
#[derive(Clone, Copy)]
pub(crate) struct ImageOfRow<'a> {
    pub block: &'a BlockRef<'a>,
    pub image: &'a BlockImage<'a>,
    pub stored_bytes: usize,
    pub cause: &'static str,
    /// LSN that the page had before, where it could be read.
    pub old_lsn: Option<Lsn>,
    /// It is the first image of its record: the record's other bytes count for it.
    pub is_first: bool,
}

pub(crate) type WriteRow<'w> = &'w mut dyn FnMut(&[Cell<'_>]) -> io::Result<()>;

impl<'a> RowMaker<'a> {
    pub fn new(facts: RowFacts<'a>) -> Self {
        Self {
            facts,
            types: FxHashMap::default(),
            forks: (0..16).map(fork_name).collect(),
            relations: FxHashMap::default(),
            segment: (TimelineId(0), 0, String::new()),
            interval: 0,
        }
    }

    /// The row of a record.
    ///
    /// # Errors
    /// Of `write`.
    pub fn record(&mut self, record: &Record<'_>, write: WriteRow<'_>) -> io::Result<()> {
        self.meet(record);
        let common = self.common(record);
        let images = u64::from(record.layout.image_count);
        let (redo_lsn, full_page_writes) = checkpoint_cells(record);
        write(&[
            common.lsn,
            common.end_lsn,
            common.tli,
            common.segment,
            common.rmgr,
            common.record,
            common.xid,
            Cell::Int(record.header.tot_len.into()),
            Cell::Int(record.length_without_images().into()),
            Cell::of_u64(images),
            Cell::Int(record.fpi_length().into()),
            Cell::of_u64(images.saturating_mul(record.block_size.into())),
            Cell::Int(record.layout.block_count.into()),
            record_time(record).map_or(Cell::Null, |time| Cell::Int(time.unix_microseconds())),
            redo_lsn.map_or(Cell::Null, |lsn| Cell::of_u64(lsn.0)),
            full_page_writes.map_or(Cell::Null, Cell::Bool),
            common.interval_lsn,
            common.redo_lsn,
        ])
    }

    /// The rows of a record's blocks.
    ///
    /// # Errors
    /// Of `write`.
    pub fn blocks(&mut self, record: &Record<'_>, write: WriteRow<'_>) -> io::Result<()> {
        if record.layout.block_count == 0 {
            return Ok(());
        }
        self.meet(record);
        // What belongs to no block counts for the first.
        let data = record.block_heads().map(|(_, block)| u64::from(block.data_length));
        let mut rest = data.fold(u64::from(record.length_without_images()), u64::saturating_sub);
        for (block_id, block) in record.block_heads() {
            self.meet_relation(block.rel);
            let common = self.common(record);
            let data_bytes = u64::from(block.data_length);
            let image = |cell: &dyn Fn(crate::parsers::wal::block::ImageHead) -> Cell<'static>| {
                block.image.map_or(Cell::Null, cell)
            };
            write(&[
                common.lsn,
                common.tli,
                common.segment,
                common.rmgr,
                common.record,
                common.xid,
                Cell::Int(block_id.into()),
                Cell::Int(block.rel.spc_oid.into()),
                Cell::Int(block.rel.db_oid.into()),
                Cell::Int(block.rel.rel_number.into()),
                self.relation(block.rel),
                self.fork(block.fork_code()),
                Cell::Int(block.block.into()),
                Cell::Bool(block.will_init()),
                Cell::of_u64(data_bytes),
                Cell::of_u64(data_bytes.saturating_add(std::mem::take(&mut rest))),
                image(&|image| Cell::Int(image.length.into())),
                image(&|_| Cell::Int(record.block_size.into())),
                image(&|image| Cell::Int(image.hole_offset.into())),
                image(&|image| Cell::Int(image.hole_length.into())),
                image(&|image| compression_cell(record.major.image_compression(image.bimg_info))),
                image(&|_| Cell::Bool(block.has_image_to_apply(record.major))),
                common.interval_lsn,
                common.redo_lsn,
            ])?;
        }
        Ok(())
    }

    /// The row of an image.
    ///
    /// # Errors
    /// Of `write`.
    pub fn image(&mut self, record: &Record<'_>, found: ImageOfRow<'_>, write: WriteRow<'_>) -> io::Result<()> {
        let ImageOfRow { block, image, stored_bytes, cause, old_lsn, is_first } = found;
        self.meet(record);
        self.meet_relation(block.rel);
        let common = self.common(record);
        let record_bytes = if is_first { record.length_without_images() } else { 0 };
        write(&[
            common.lsn,
            common.end_lsn,
            common.tli,
            common.segment,
            common.rmgr,
            common.record,
            common.xid,
            Cell::Int(block.block_id.into()),
            Cell::Int(block.rel.spc_oid.into()),
            Cell::Int(block.rel.db_oid.into()),
            Cell::Int(block.rel.rel_number.into()),
            self.relation(block.rel),
            self.fork(block.fork_code()),
            Cell::Int(block.block.into()),
            Cell::Int(record_bytes.into()),
            Cell::of_u64(stored_bytes as u64),
            Cell::Int(record.block_size.into()),
            Cell::Int(image.hole_offset.into()),
            Cell::Int(image.hole_length.into()),
            compression_cell(image.compression()),
            Cell::Bool(image.applies()),
            Cell::Text(cause),
            old_lsn.map_or(Cell::Null, |lsn| Cell::of_u64(lsn.0)),
            common.interval_lsn,
            common.redo_lsn,
        ])
    }

    /// Looks up what the rows of a record name.
    fn meet(&mut self, record: &Record<'_>) {
        let (rmgr_id, info) = (record.header.rmgr_id, record.header.info);
        self.types
            .entry((rmgr_id, type_key(rmgr_id, info)))
            .or_insert_with(|| (rmgr_name(rmgr_id).to_string(), record.type_name().to_string()));
        let size = self.facts.segment_size;
        let number = record.start_lsn.0.checked_div(u64::from(size)).unwrap_or_default();
        if (self.segment.0, self.segment.1) != (record.tli, number) || self.segment.2.is_empty() {
            let segment = WalSegment { tli: record.tli, number };
            self.segment = (record.tli, number, segment.file_name(size).unwrap_or_default());
        }
        let holds = |interval: &Interval| (interval.start_lsn..interval.end_lsn).contains(&record.start_lsn);
        if !self.facts.intervals.get(self.interval).is_some_and(holds) {
            let next = self.facts.intervals.partition_point(|interval| interval.start_lsn <= record.start_lsn);
            self.interval = next.saturating_sub(1);
        }
    }

    fn meet_relation(&mut self, rel: RelFileLocator) {
        self.relations.entry(rel).or_insert_with(|| (self.facts.relation)(rel));
    }

    fn relation(&self, rel: RelFileLocator) -> Cell<'_> {
        self.relations.get(&rel).and_then(Option::as_ref).map_or(Cell::Null, |name| Cell::Text(name))
    }

    fn fork(&self, code: u8) -> Cell<'_> {
        self.forks.get(usize::from(code)).map_or(Cell::Null, |name| Cell::Text(name))
    }

    fn common(&self, record: &Record<'_>) -> Common<'_> {
        let key = type_key(record.header.rmgr_id, record.header.info);
        let names = self.types.get(&(record.header.rmgr_id, key));
        let name = |pick: fn(&TypeNames) -> &String| names.map_or(Cell::Null, |names| Cell::Text(pick(names)));
        let interval = self.facts.intervals.get(self.interval);
        let lsn_cell = |lsn: Option<Lsn>| lsn.map_or(Cell::Null, |lsn| Cell::of_u64(lsn.0));
        Common {
            lsn: Cell::of_u64(record.start_lsn.0),
            end_lsn: Cell::of_u64(record.end_lsn.0),
            tli: Cell::Int(record.tli.0.into()),
            segment: Cell::Text(&self.segment.2),
            rmgr: name(|names| &names.0),
            record: name(|names| &names.1),
            xid: Cell::Int(record.header.xid.into()),
            interval_lsn: lsn_cell(interval.map(|interval| interval.start_lsn)),
            redo_lsn: lsn_cell(interval.and_then(|interval| interval.redo_lsn)),
        }
    }
}

/// The redo point that a record names or marks, and the setting `full_page_writes` that it tells.
fn checkpoint_cells(record: &Record<'_>) -> (Option<Lsn>, Option<bool>) {
    if record.header.rmgr_id != RM_XLOG {
        return (None, None);
    }
    match XlogPayload::of(record) {
        Ok(Some(XlogPayload::CheckpointShutdown(checkpoint) | XlogPayload::CheckpointOnline(checkpoint))) => {
            (Some(checkpoint.redo_lsn), Some(checkpoint.full_page_writes != 0))
        }
        Ok(Some(XlogPayload::CheckpointRedo { .. })) => (Some(record.start_lsn), None),
        Ok(Some(XlogPayload::FullPageWritesChange(setting))) => (None, Some(setting != 0)),
        // What cannot be decoded is a finding of the first reading.
        _ => (None, None),
    }
}

fn compression_cell(method: Option<Compression>) -> Cell<'static> {
    Cell::Text(method.map_or("none", Compression::name))
}
