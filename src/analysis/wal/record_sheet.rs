//! Records one by one: a line for each of many, and all about one of them.

use super::cause::Cause;
use super::page_action::PageAction;
use crate::analysis::error_words::ErrorWords;
use crate::cluster::wal::WalReadError;
use crate::parsers::image::Compression;
use crate::parsers::wal::block::BlockHead;
use crate::parsers::wal::checkpoint::CheckPoint;
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::lifecycle::{LifeCycle, XactEnd};
use crate::parsers::wal::payload::XlogPayload;
use crate::parsers::wal::record::{Record, RecordHeader};
use crate::parsers::wal::version::Major;
use crate::types::{BlockNumber, Lsn, PageId, RelFileLocator};

pub(crate) const MAX_LISTED: usize = 4096;

/// Bytes of a record that are kept to be shown.
pub(crate) const MAX_SHOWN_BYTES: usize = 64 << 10;

/// Why no more records can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoppedAt {
    /// WAL ends, or is damaged.
    End(EndOfWal),
    /// No segment holds this address.
    NoSegment {
        /// The address.
        at: Lsn,
    },
    /// No record starts there.
    NoRecord {
        /// The address.
        at: Lsn,
    },
    /// A segment cannot be read.
    Unreadable(ErrorWords),
}

impl StoppedAt {
    pub(crate) fn unreadable(error: WalReadError) -> Self {
        Self::Unreadable(ErrorWords::of_other(&error))
    }
}

/// One record of a list.
#[derive(Clone, Copy, Debug)]
pub struct RecordLine {
    /// Its start.
    pub start_lsn: Lsn,
    /// Its header.
    pub header: RecordHeader,
    /// Whose record types these are.
    pub major: Major,
    /// Its first block reference.
    pub first: Option<(RelFileLocator, u8, BlockNumber)>,
    /// Block references.
    pub blocks: u8,
    /// Images.
    pub images: u8,
    /// Their bytes as stored.
    pub image_bytes: u32,
    /// Why the first image was written, where that is known.
    pub cause: Option<Cause>,
}

impl RecordLine {
    /// The line of a record.
    pub fn of(record: &Record<'_>, cause: Option<Cause>) -> Self {
        let head = |(_, block): (u8, BlockHead)| (block.rel, block.fork_code(), block.block);
        Self {
            start_lsn: record.start_lsn,
            header: record.header,
            major: record.major,
            first: record.block_heads().map(|(id, block)| head((id, block))).next(),
            blocks: record.layout.block_count,
            images: record.layout.image_count,
            image_bytes: record.fpi_length(),
            cause,
        }
    }
}

/// Some records in order.
#[derive(Clone, Debug)]
pub struct RecordList {
    /// Where it begins.
    pub from: Lsn,
    /// The records.
    pub lines: Vec<RecordLine>,
    /// Images in them.
    pub images: usize,
    /// Where the next list begins, when there are more.
    pub next: Option<Lsn>,
    /// Why reading stopped, if it did so by itself.
    pub stopped: Option<StoppedAt>,
}

impl RecordList {
    /// Nothing yet.
    pub const fn from(from: Lsn) -> Self {
        Self { from, lines: Vec::new(), images: 0, next: None, stopped: None }
    }
}

/// What the main data of a record says.
#[derive(Clone, Debug, PartialEq)]
pub enum MainData {
    /// A checkpoint, and whether it is one at shutdown.
    Checkpoint(Box<CheckPoint>, bool),
    /// Something else about WAL itself.
    Xlog(Box<XlogPayload>),
    /// The end of a transaction.
    XactEnd(XactEnd),
    /// Files that the record creates, truncates or removes.
    Files(LifeCycle),
    /// What is done inside pages: see the block references.
    Pages,
    /// It breaks the rules of its type: what was found.
    Wrong(ErrorWords),
    /// No more is known of it than its length.
    Other,
}

/// An image in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheetImage {
    /// Bytes as stored.
    pub stored_bytes: usize,
    /// Where the hole begins in the page.
    pub hole_offset: u16,
    /// Bytes of the hole.
    pub hole_length: u16,
    /// How it is compressed.
    pub compression: Option<Compression>,
    /// Flags as stored.
    pub bimg_info: u8,
    /// Redo replaces the page with it.
    pub is_applied: bool,
    /// Why it was written, where that is known.
    pub cause: Option<Cause>,
}

/// A block reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetBlock {
    /// Its number in the record.
    pub block_id: u8,
    /// The relation.
    pub rel: RelFileLocator,
    /// Code of the fork.
    pub fork_code: u8,
    /// The block.
    pub block: BlockNumber,
    /// The page, where the fork is known.
    pub page: Option<PageId>,
    /// Bytes of its data.
    pub data_bytes: usize,
    /// Redo builds the page from scratch.
    pub will_init: bool,
    /// Its image.
    pub image: Option<SheetImage>,
    /// What is done inside the page.
    pub action: Option<PageAction>,
}

/// All about one record.
#[derive(Clone, Debug)]
pub struct RecordSheet {
    /// Its start.
    pub start_lsn: Lsn,
    /// Its end.
    pub end_lsn: Lsn,
    /// Whose record types these are.
    pub major: Major,
    /// Its header.
    pub header: RecordHeader,
    /// The transaction above it, where the record names it.
    pub top_xid: Option<u32>,
    /// Its block references.
    pub blocks: Vec<SheetBlock>,
    /// Bytes of its main data.
    pub main_bytes: usize,
    /// What they say.
    pub main: MainData,
    /// Its bytes, the first `MAX_SHOWN_BYTES` of them.
    pub bytes: Vec<u8>,
}

impl RecordSheet {
    /// All about a record whose images have these causes.
    pub fn of(record: &Record<'_>, causes: &[Cause]) -> Self {
        let mut causes = causes.iter();
        let blocks: Vec<SheetBlock> = record
            .blocks()
            .zip(record.block_heads())
            .map(|(block, (_, head))| SheetBlock {
                block_id: block.block_id,
                rel: block.rel,
                fork_code: block.fork_code(),
                block: block.block,
                page: block.page_id(),
                data_bytes: block.data.len(),
                will_init: block.will_init(),
                image: block.image.map(|image| SheetImage {
                    stored_bytes: image.bytes.len(),
                    hole_offset: image.hole_offset,
                    hole_length: image.hole_length,
                    compression: image.compression(),
                    bimg_info: image.bimg_info,
                    is_applied: head.has_image_to_apply(record.major),
                    cause: causes.next().copied(),
                }),
                action: PageAction::of(record, &block),
            })
            .collect();
        let acts = blocks.iter().any(|block| block.action.is_some());
        Self {
            start_lsn: record.start_lsn,
            end_lsn: record.end_lsn,
            major: record.major,
            header: record.header,
            top_xid: record.layout.top_xid,
            main_bytes: record.main_data().len(),
            main: MainData::of(record, acts),
            blocks,
            bytes: record.bytes.get(..record.bytes.len().min(MAX_SHOWN_BYTES)).unwrap_or_default().to_vec(),
        }
    }
}

impl MainData {
    fn of(record: &Record<'_>, acts: bool) -> Self {
        let wrong = |error| Self::Wrong(ErrorWords::of_other(&error));
        match XlogPayload::of(record) {
            Ok(Some(XlogPayload::CheckpointShutdown(checkpoint))) => {
                return Self::Checkpoint(Box::new(checkpoint), true);
            }
            Ok(Some(XlogPayload::CheckpointOnline(checkpoint))) => {
                return Self::Checkpoint(Box::new(checkpoint), false);
            }
            Ok(Some(payload)) => return Self::Xlog(Box::new(payload)),
            Ok(None) => {}
            Err(error) => return wrong(error),
        }
        match XactEnd::of(record) {
            Ok(Some(end)) => return Self::XactEnd(end),
            Ok(None) => {}
            Err(error) => return wrong(error),
        }
        match LifeCycle::of(record) {
            Ok(Some(what)) => Self::Files(what),
            Ok(None) if acts => Self::Pages,
            Ok(None) => Self::Other,
            Err(error) => wrong(error),
        }
    }
}
