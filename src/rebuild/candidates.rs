//! The records of one segment that name relations concerned, copied: what of them is needed is known only in order.

use crate::parsers::wal::records::RecordType;
use rustc_hash::FxHashSet;

use crate::analysis::wal::segment::Visitor;
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::parsers::wal::names::RM_SMGR;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::version::Major;
use crate::types::{Lsn, PageId, RelFileLocator};

/// Bytes of records that are held for one segment. Where there are more, the segment is read again.
const MAX_HELD_BYTES: usize = 20 << 20;

/// Relations whose records may be needed.
#[derive(Clone, Debug, Default)]
pub struct Interest {
    relations: FxHashSet<RelFileLocator>,
}

impl Interest {
    pub fn of(relations: impl Iterator<Item = RelFileLocator>) -> Self {
        Self { relations: relations.collect() }
    }

    pub fn extend(&mut self, relations: impl IntoIterator<Item = RelFileLocator>) {
        self.relations.extend(relations);
    }

    /// True for one of them.
    #[inline]
    pub fn has(&self, rel: RelFileLocator) -> bool {
        self.relations.contains(&rel)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    pub page: PageId,
    /// The record restores it from an image or recreates it: its previous content does not matter.
    pub builds: bool,
    pub is_image: bool,
}

/// Where a record's parts lie.
#[derive(Clone, Copy, Debug)]
struct Held {
    start_lsn: Lsn,
    end_lsn: Lsn,
    xid: u32,
    tot_len: u32,
    record: RecordType,
    major: Major,
    bytes_end: usize,
    main_data: usize,
    blocks_end: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub start_lsn: Lsn,
    pub end_lsn: Lsn,
    /// Its transaction, 0 if none.
    pub xid: u32,
    /// Its length in bytes.
    pub tot_len: u32,
    pub record: RecordType,
    pub major: Major,
    main_data: usize,
    /// Its bytes, page headers removed, as far as they were kept.
    pub bytes: &'a [u8],
    pub blocks: &'a [Named],
}

impl Candidate<'_> {
    /// True when its bytes were not kept to the end.
    pub fn is_cut(&self) -> bool {
        u32::try_from(self.bytes.len()).is_ok_and(|length| length < self.tot_len)
    }

    /// The change of files by the record; `None` if it cannot be decoded.
    pub(crate) fn life_cycle(&self) -> Option<LifeCycle> {
        if self.record.rmgr_id != RM_SMGR {
            return None;
        }
        let data = self.bytes.get(self.main_data..).unwrap_or_default();
        LifeCycle::decode(self.major, self.record.rmgr_id, self.record.info, self.start_lsn.0, data).ok().flatten()
    }
}

#[derive(Debug)]
pub(crate) struct Candidates<'i> {
    interest: &'i Interest,
    held: Vec<Held>,
    bytes: Vec<u8>,
    blocks: Vec<Named>,
    /// The relation that was met last, and whether it is concerned: records of one come together.
    last: Option<(RelFileLocator, bool)>,
    is_overfull: bool,
}

impl<'i> Candidates<'i> {
    /// None yet.
    pub fn new(interest: &'i Interest) -> Self {
        Self { interest, held: Vec::new(), bytes: Vec::new(), blocks: Vec::new(), last: None, is_overfull: false }
    }

    /// True when there are more than can be held: those that are here are not all.
    pub(crate) fn is_overfull(&self) -> bool {
        self.is_overfull
    }

    pub fn clear(&mut self) {
        (self.held, self.bytes, self.blocks) = (Vec::new(), Vec::new(), Vec::new());
    }

    /// Forgets all and keeps the memory for more.
    pub fn reset(&mut self) {
        self.held.clear();
        self.bytes.clear();
        self.blocks.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = Candidate<'_>> {
        let (mut bytes_start, mut blocks_start) = (0, 0);
        self.held.iter().map(move |held| {
            let bytes = self.bytes.get(bytes_start..held.bytes_end).unwrap_or_default();
            let blocks = self.blocks.get(blocks_start..held.blocks_end).unwrap_or_default();
            (bytes_start, blocks_start) = (held.bytes_end, held.blocks_end);
            Candidate {
                start_lsn: held.start_lsn,
                end_lsn: held.end_lsn,
                xid: held.xid,
                tot_len: held.tot_len,
                record: held.record,
                major: held.major,
                main_data: held.main_data,
                bytes,
                blocks,
            }
        })
    }

    #[inline]
    fn is_concerned(&mut self, rel: RelFileLocator) -> bool {
        match self.last {
            Some((last, is_concerned)) if last == rel => is_concerned,
            _ => {
                let is_concerned = self.interest.has(rel);
                self.last = Some((rel, is_concerned));
                is_concerned
            }
        }
    }

    #[inline(never)]
    fn hold(&mut self, record: &Record<'_>) {
        if self.bytes.len().saturating_add(record.bytes.len()) > MAX_HELD_BYTES {
            self.is_overfull = true;
            self.clear();
            return;
        }
        self.bytes.extend_from_slice(record.bytes);
        for (_, head) in record.block_heads() {
            if let Some(page) = head.page_id() {
                let is_image = head.has_image_to_apply(record.major);
                self.blocks.push(Named { page, builds: is_image || head.will_init(), is_image });
            }
        }
        self.held.push(Held {
            start_lsn: record.start_lsn,
            end_lsn: record.end_lsn,
            xid: record.header.xid,
            tot_len: record.header.tot_len,
            record: record.record_type(),
            major: record.major,
            bytes_end: self.bytes.len(),
            main_data: record.bytes.len().saturating_sub(record.main_data().len()),
            blocks_end: self.blocks.len(),
        });
    }
}

impl Visitor for Candidates<'_> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if self.is_overfull {
            return;
        }
        let is_concerned =
            record.header.rmgr_id == RM_SMGR || record.block_heads().any(|(_, head)| self.is_concerned(head.rel));
        if is_concerned {
            self.hold(record);
        }
    }
}
