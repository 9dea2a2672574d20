//! What WAL tells of rows: ends of transactions, multixacts, and pages whose rows it deletes or replaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::segment::Visitor;
use crate::parsers::decode::u32_at;
use crate::parsers::state_files::prepared_xids;
use crate::parsers::wal::heap_redo::RowRecord;
use crate::parsers::wal::heap_row::PruneLists;
use crate::parsers::wal::lifecycle::{LifeCycle, XactEnd};
use crate::parsers::wal::page_log::PageLog;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::{RecordKind, Work};
use crate::types::{BlockNumber, ForkNumber, Lsn, Oid};

/// Most bytes of changes of pages that are kept.
pub(crate) const MAX_KEPT_BYTES: usize = 64 << 20;

/// Changes of pages, by database and file number, then block.
pub(crate) type PageLogs = BTreeMap<(Oid, u32), BTreeMap<BlockNumber, PageLog>>;

/// Pages whose changes are asked for.
pub(crate) type WantedPages = BTreeSet<((Oid, u32), BlockNumber)>;

/// Most bytes of changes of pages that are asked for.
const MAX_WANTED_BYTES: usize = 128 << 20;

/// Most transactions, multixacts and pages of each kind that are kept.
const MAX_KEPT: usize = 16 << 20;

/// What records tell of rows.
#[derive(Debug)]
pub(crate) struct RowFacts {
    /// Transactions that ended, and whether they were committed.
    pub ended: BTreeMap<u32, bool>,
    /// Transactions that were prepared and did not end.
    pub prepared: BTreeSet<u32>,
    /// Members of multixacts, with their status.
    pub multis: BTreeMap<u32, Vec<(u32, u8)>>,
    /// Pages (database, file number, block) whose rows are deleted, replaced or removed, with the end of the last such record.
    pub changed: BTreeMap<(Oid, u32, u32), Lsn>,
    /// Changes of pages.
    pub pages: PageLogs,
    kept_bytes: usize,
    max_kept_bytes: usize,
    /// Nothing but the changes of these pages is taken up.
    wanted: Option<Arc<WantedPages>>,
    /// Main forks that lost their ends, and the blocks that they keep.
    cuts: Vec<((Oid, u32), BlockNumber)>,
    /// All ends of transactions were decoded and kept.
    pub is_understood: bool,
}

impl RowFacts {
    /// Takes up all, and keeps so many bytes of changes of pages.
    pub const fn with_room(max_kept_bytes: usize) -> Self {
        Self {
            ended: BTreeMap::new(),
            prepared: BTreeSet::new(),
            multis: BTreeMap::new(),
            changed: BTreeMap::new(),
            pages: BTreeMap::new(),
            kept_bytes: 0,
            max_kept_bytes,
            wanted: None,
            cuts: Vec::new(),
            is_understood: true,
        }
    }

    /// Takes up the changes of these pages alone.
    pub fn of_pages(wanted: Arc<WantedPages>) -> Self {
        let mut facts = Self::with_room(MAX_WANTED_BYTES);
        facts.wanted = Some(wanted);
        facts
    }

    /// Adds what the next records tell.
    pub fn append(&mut self, next: Self) {
        self.prepared.retain(|xid| !next.ended.contains_key(xid));
        self.prepared.extend(next.prepared);
        self.ended.extend(next.ended);
        self.multis.extend(next.multis);
        next.cuts.iter().for_each(|(rel, keeps)| self.cut(*rel, *keeps));
        self.changed.extend(next.changed);
        for (rel, pages) in next.pages {
            let known = self.pages.entry(rel).or_default();
            for (block, log) in pages {
                let held = known.entry(block).or_default();
                let before = held.bytes();
                held.append(log);
                if self.kept_bytes > self.max_kept_bytes {
                    held.shorten(held.last_end_lsn, true);
                }
                self.kept_bytes = self.kept_bytes.saturating_sub(before).saturating_add(held.bytes());
            }
        }
        self.is_understood &= next.is_understood;
    }

    /// A main fork lost its end: what was written there before is gone.
    fn cut(&mut self, rel: (Oid, u32), keeps: BlockNumber) {
        self.pages.entry(rel).or_default().split_off(&keeps);
        self.changed.retain(|(db, number, block), _| (*db, *number) != rel || *block < keeps);
    }

    fn page_changes(&mut self, record: &Record<'_>) {
        if record.kind() == RecordKind::SmgrTruncate
            && let Ok(Some(LifeCycle::Truncated { rel, keeps_blocks, flags })) = LifeCycle::of(record)
            && flags & 1 == 1
        {
            self.cut((rel.db_oid, rel.rel_number), keeps_blocks);
            self.cuts.push(((rel.db_oid, rel.rel_number), keeps_blocks));
        }
        // An image is not unpacked for nothing.
        if !record.block_heads().any(|(_, head)| self.wants((head.rel.db_oid, head.rel.rel_number), head.block)) {
            return;
        }
        let writes = record.kind().writes_rows();
        let changes = RowRecord::all_of(record);
        if writes && changes.is_none() {
            // Pages that lack one change are not brought forward.
            for (_, block) in record.block_heads() {
                let rel = (block.rel.db_oid, block.rel.rel_number);
                if self.wants(rel, block.block) {
                    self.pages.entry(rel).or_default().entry(block.block).or_default().shorten(record.end_lsn, false);
                }
            }
        }
        for (page, change) in changes.into_iter().flatten() {
            let rel = (page.rel.db_oid, page.rel.rel_number);
            if !self.wants(rel, page.block) {
                continue;
            }
            let log = self.pages.entry(rel).or_default().entry(page.block).or_default();
            let before = log.bytes();
            log.push(change, record.start_lsn);
            if self.kept_bytes > self.max_kept_bytes {
                log.shorten(log.last_end_lsn, true);
            }
            self.kept_bytes = self.kept_bytes.saturating_sub(before).saturating_add(log.bytes());
        }
    }

    fn wants(&self, rel: (Oid, u32), block: BlockNumber) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&(rel, block)))
    }

    fn end(&mut self, record: &Record<'_>) {
        match XactEnd::of(record) {
            Ok(Some(XactEnd { committed, xid: Some(xid), subxids, .. })) if self.ended.len() < MAX_KEPT => {
                for xid in subxids.into_iter().chain([xid]) {
                    self.prepared.remove(&xid);
                    self.ended.insert(xid, committed);
                }
            }
            _ => self.is_understood = false,
        }
    }

    /// Source: `xl_multixact_create`, `src/include/access/multixact.h`.
    fn multixact(&mut self, record: &Record<'_>) -> Option<()> {
        let main = record.main_data();
        let count_at = if record.major.facts().has_wide_multixacts { 16 } else { 8 };
        let multi = u32_at(main, 0)?;
        let count = usize::try_from(u32_at(main, count_at)?).ok()?;
        // The members follow at a multiple of 4 bytes.
        let members = main.get(count_at.checked_add(4)?..)?.as_chunks::<8>().0.get(..count)?;
        let member = |bytes: &[u8; 8]| Some((u32_at(bytes, 0)?, *bytes.get(4)?));
        self.multis.insert(multi, members.iter().filter_map(member).collect());
        Some(())
    }
}

impl Visitor for RowFacts {
    fn record(&mut self, record: &Record<'_>) {
        let kind = record.kind();
        self.page_changes(record);
        if self.wanted.is_some() {
            return;
        }
        if kind.ends_xact() {
            self.end(record);
        }
        match kind {
            RecordKind::XactPrepare => self.prepared.extend(prepared_xids(record.main_data(), record.major.number())),
            RecordKind::MultixactCreateId if self.multis.len() < MAX_KEPT => {
                self.is_understood &= self.multixact(record).is_some();
            }
            _ => {}
        }
        if matches!(kind.work(), Work::Delete | Work::Update | Work::HotUpdate) || removes_rows(record) {
            for (_, block) in record.block_heads() {
                let Some(page) = block.page_id().filter(|page| page.fork == ForkNumber::Main) else { continue };
                if self.changed.len() < MAX_KEPT {
                    self.changed.insert((page.rel.db_oid, page.rel.rel_number, page.block), record.end_lsn);
                } else {
                    self.is_understood = false;
                }
            }
        }
    }
}

/// True for a record that removes rows whose deletion may be in older WAL. An image hides what it removes.
fn removes_rows(record: &Record<'_>) -> bool {
    let kind = record.kind();
    let is_vacuum = matches!(kind, RecordKind::Heap2Prune | RecordKind::Heap2Vacuum);
    let Some(block) = record.blocks().next().filter(|_| is_vacuum || kind.is_prune_and_freeze()) else { return false };
    let lists = PruneLists::of(record.major, kind, record.main_data(), block.data).filter(|_| block.image.is_none());
    lists.is_none_or(|lists| !lists.redirected.is_empty() || !lists.dead.is_empty() || !lists.unused.is_empty())
}
