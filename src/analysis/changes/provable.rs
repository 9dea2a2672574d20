//! Pages that WAL contains completely: those that a record up to their LSN recreates, so that replay from there shows what they
//! must be. Which lack a change that was on disk when the last checkpoint ended. And which have an LSN that no record of
//! them gave.
//! Also here: LSNs of pages as they are on disk: each is read once, however many records name the page.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rustc_hash::{FxHashMap, FxHasher};

use super::events::FileEvent;
use super::prepared_xacts::PreparedXacts;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::last_checkpoint::multixact_made;
use crate::analysis::wal::segment::{Stretch, Visitor, WatchRead};
use crate::cluster::page_source::{PageRead, PageSource};
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::control::WAL_LEVEL_MINIMAL;
use crate::parsers::page::PageHeader;
use crate::parsers::wal::block::{BlockHead, Keep};
use crate::parsers::wal::lifecycle::{LifeCycle, XactEnd};
use crate::parsers::wal::names::{RM_BTREE, RM_DBASE, RM_HEAP, RM_MULTIXACT, RM_SMGR, RM_XACT, RM_XLOG};
use crate::parsers::wal::payload::{ParameterChange, XlogPayload};
use crate::parsers::wal::record::Record;
use crate::parsers::wal::version::Major;
use crate::types::{FIRST_NORMAL_XID, ForkNumber, Lsn, PageId, RelFileLocator, is_newer_xid};

/// Pages that are kept; more are reported as not checked.
const MAX_PAGES: usize = 4_000_000;

/// Changes of files that are kept. After that, nothing is known of what came before.
const MAX_FILE_EVENTS: usize = 1_000_000;

/// Commits that are handed over of one segment of WAL; one of 16 MiB has no more, with subtransactions of 4 bytes each.
const MAX_COMMITS: usize = 4_000_000;

/// A transaction that a record before the redo point commits, or a subtransaction of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommittedXact {
    pub xid: u32,
    pub record_lsn: Lsn,
}

/// Shown the transactions of one segment after another, in no order.
pub(crate) type OnCommits<'a> = &'a mut dyn FnMut(&[CommittedXact]);

/// A page and what WAL says of it as it is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Provable {
    pub page: PageId,
    pub page_lsn: Lsn,
    /// Start of the newest record up to that LSN which builds the page without reading it.
    pub base_lsn: Option<Lsn>,
    /// Start of the newest record that ends after its LSN, yet not after the redo point, and moves its LSN.
    pub lacks: Option<Lsn>,
    /// The newest transaction with a record that a page past the end lacks; 0 if none.
    pub lacks_of: u32,
    /// WAL around its LSN was read, but no record that ends at it refers to the page: the LSN belongs to another page.
    pub is_foreign: bool,
    /// The file ends before it. Then any record up to the redo point that names it is one that it lacks: the block had been added to
    /// the file before that record was written.
    pub is_beyond_end: bool,
}

/// Facts about a page until all of WAL was read. An LSN of 0 means none.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    page_lsn: Lsn,
    base_lsn: Lsn,
    lacks: Lsn,
    lacks_of: u32,
    has_record: bool,
    is_beyond_end: bool,
    /// It has no LSN, and a record before the redo point changes it or holds an image of it.
    had_content: bool,
    is_in_replay: bool,
    /// The first of these neither has an image of it nor builds it.
    begins_without_image: bool,
    /// One of these makes it as the first page of a new file.
    is_made_in_replay: bool,
}

/// Facts in WAL about all existing pages.
#[derive(Debug, Default)]
pub(crate) struct WalPages {
    /// `None` for missing ones.
    touched: FxHashMap<PageId, Option<Touched>>,
    files: FxHashMap<RelFileLocator, Vec<FileEvent>>,
    databases: Vec<FileEvent>,
    file_events: usize,
    /// Start of the last record about files that was not understood, or not kept.
    unclear_lsn: Lsn,
    /// From the first record of each run to the end of the last.
    stretches: Vec<Range<Lsn>>,
    /// Transactions that were prepared and have not ended.
    prepared: PreparedXacts,
    commits: Vec<CommittedXact>,
    /// A commit could not be read, or there was no room for it.
    has_more_commits: bool,
    is_full: bool,
    /// Less was logged for a time than all changes of pages (`wal_level` minimal).
    is_minimal: bool,
    /// There is a record of changed settings: what was set before it is unknown.
    has_settings: bool,
    /// From the redo point on pages were changed without an image of what they were: a record says so, or shows it.
    pub lacks_images: bool,
    /// The newest transaction of a record that ends before the redo point, and the start of that record.
    pub newest: Option<(u32, Lsn)>,
    /// Multixacts that records before the redo point make, with where their members begin.
    pub multis: Vec<MultixactMade>,
    pub checkpoints: Vec<CheckpointSeen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MultixactMade {
    pub multi: u32,
    /// Where its members begin.
    pub offset: u64,
    pub record_lsn: Lsn,
}

/// Values of a checkpoint record that only grow in one history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSeen {
    pub record_lsn: Lsn,
    /// Seconds since 1970.
    pub time_s: i64,
    /// The next transaction, with its epoch.
    pub next_full_xid: u64,
}

/// How far WAL is read, and up to where pages must have what it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalBounds {
    /// Where replay begins: what came before it was on disk when the checkpoint ended.
    pub redo_lsn: Option<Lsn>,
    /// Start of replay, also if all of WAL is read as if it came before.
    pub replay_from: Option<Lsn>,
    /// Records that end after it are not read.
    pub end_lsn: Lsn,
    /// The server logs less than all changes of pages (`wal_level` minimal).
    pub is_minimal: bool,
}

impl WalPages {
    /// Reads the records of a set, with `jobs` threads. `part` names what was not examined where there is no room for all pages.
    ///
    /// # Errors
    /// When the first segment of a run cannot be opened.
    pub fn read(
        set: &WalSet,
        bounds: WalBounds,
        heads: &PageHeads,
        jobs: usize,
        (part, watch): (SkippedPart, WatchRead<'_>),
        (on_commits, coverage): (OnCommits<'_>, &mut Coverage),
    ) -> Result<Self, WalReadError> {
        let mut all = Self::default();
        for run in set.runs() {
            let start_lsn = set.segments().get(run.start).map_or(Lsn::INVALID, |file| file.start_lsn);
            // What happened to files in a gap is unknown.
            all.unclear_lsn = start_lsn;
            all.prepared.forget();
            all.is_minimal |= bounds.is_minimal;
            if start_lsn >= bounds.end_lsn {
                break;
            }
            for touched in all.touched.values_mut().flatten() {
                (touched.base_lsn, touched.lacks) = (Lsn::INVALID, Lsn::INVALID);
            }
            let stretch = Stretch { set, run, start_lsn, end_lsn: bounds.end_lsn, keep: Keep::Blocks };
            let begin = |_| PartOfWal {
                heads: heads.reader(),
                redo_lsn: bounds.redo_lsn.unwrap_or_default(),
                replay_from: bounds.replay_from.unwrap_or_default(),
                found: Self::default(),
            };
            let walk = collect_run(&stretch, jobs, watch, begin, |part| {
                on_commits(&std::mem::take(&mut part.found.found.commits));
                all.append(std::mem::take(&mut part.found.found));
                Ok(())
            })?;
            all.stretches.extend(walk.extent.first_lsn.zip(walk.extent.last_end_lsn).map(|(first, end)| first..end));
            if let Some(error) = walk.error {
                coverage.skip_once(SkippedPart::Wal, error);
            }
        }
        all.lacks_images |= all.touched.values().flatten().any(|touched| touched.begins_without_image);
        if all.is_full || all.touched.len() >= MAX_PAGES {
            all.is_full = true;
            coverage.skip_once(part.clone(), SkipReason::TooManyToProve { limit: MAX_PAGES });
        }
        if all.has_more_commits {
            coverage.skip_once(part, SkipReason::CommitsNotLookedUp);
        }
        Ok(all)
    }

    /// Adds what the records after these said.
    fn append(&mut self, next: Self) {
        self.is_full |= next.is_full;
        self.is_minimal |= next.is_minimal;
        self.has_settings |= next.has_settings;
        self.lacks_images |= next.lacks_images;
        self.has_more_commits |= extend_to(&mut self.checkpoints, next.checkpoints);
        self.has_more_commits |= extend_to(&mut self.multis, next.multis);
        if let Some((xid, lsn)) = next.newest {
            self.note_newest(xid, lsn);
        }
        for (page, touched) in next.touched {
            if self.touched.len() >= MAX_PAGES && !self.touched.contains_key(&page) {
                self.is_full = true;
                continue;
            }
            match (self.touched.entry(page).or_insert(touched), touched) {
                (Some(known), Some(later)) => {
                    known.base_lsn = known.base_lsn.max(later.base_lsn);
                    known.lacks = known.lacks.max(later.lacks);
                    if later.lacks_of != 0 {
                        known.lacks_of = later.lacks_of;
                    }
                    known.has_record |= later.has_record;
                    known.had_content |= later.had_content;
                    known.is_made_in_replay |= later.is_made_in_replay;
                    if !known.is_in_replay {
                        known.is_in_replay = later.is_in_replay;
                        known.begins_without_image = later.begins_without_image;
                    }
                }
                // It went away meanwhile.
                (known, _) => *known = known.and(touched),
            }
        }
        for (rel, events) in next.files {
            self.files.entry(rel).or_default().extend(events);
        }
        self.databases.extend(next.databases);
        self.prepared.append(next.prepared);
        self.has_more_commits |= next.has_more_commits;
        self.file_events = self.file_events.saturating_add(next.file_events);
        self.unclear_lsn = self.unclear_lsn.max(next.unclear_lsn);
    }

    fn note_newest(&mut self, xid: u32, lsn: Lsn) {
        if self.newest.is_none_or(|(newest, _)| is_newer_xid(xid, newest)) {
            self.newest = Some((xid, lsn));
        }
    }

    /// True when rows may be in pages without a record, and without a new LSN: see [`WalHistory::may_lack_copies`].
    ///
    /// [`WalHistory::may_lack_copies`]: super::history::WalHistory::may_lack_copies
    pub(crate) fn may_lack_copies(&self, major: Option<Major>) -> bool {
        let is_old = major.is_none_or(|major| major.facts().copies_without_wal);
        is_old && (self.is_minimal || self.has_settings)
    }

    /// Transactions that were prepared and have not ended.
    pub const fn prepared(&self) -> &PreparedXacts {
        &self.prepared
    }

    /// True when the page that a record at `lsn` changed may be another one now, or none.
    pub(crate) fn is_removed_since(&self, page: PageId, lsn: Lsn) -> bool {
        lsn < self.unclear_lsn || self.removals_of(page).any(|event| event.start_lsn > lsn)
    }

    /// True when a record after `lsn` removed the page before the redo point, or a record that replay from there reaches
    /// removes it: WAL after a gap removes nothing.
    pub(crate) fn removes_since(&self, page: PageId, lsn: Lsn, redo_lsn: Lsn) -> bool {
        let replayed = self.stretches.iter().find(|stretch| stretch.start <= redo_lsn && redo_lsn <= stretch.end);
        let end_lsn = replayed.map_or(redo_lsn, |stretch| stretch.end);
        self.removals_of(page).any(|event| event.start_lsn > lsn && event.start_lsn < end_lsn)
    }

    /// True when a record from the redo point on builds the page without regard to what it was, as those do that fill a new file. An image in the
    /// record of a change shows that the page was there before.
    pub(crate) fn is_made_in_replay(&self, page: PageId) -> bool {
        self.touched.get(&page).copied().flatten().is_some_and(|touched| touched.is_made_in_replay)
    }

    /// True when a record after the redo point refers to the page. `is_whole`: a record that recreates it, at first.
    pub(crate) fn is_in_replay(&self, page: PageId, is_whole: bool) -> bool {
        let touched = self.touched.get(&page).copied().flatten();
        touched.is_some_and(|touched| touched.is_in_replay && !(is_whole && touched.begins_without_image))
    }

    fn removals_of(&self, page: PageId) -> impl Iterator<Item = &FileEvent> {
        let own = self.files.get(&page.rel).into_iter().flatten();
        own.chain(&self.databases).filter(move |event| event.removes(page))
    }

    /// True for a page with an LSN inside the WAL that was read that no record assigned. False for one that
    /// is older than its file, or than a copy of its database.
    fn is_foreign(&self, page: PageId, touched: &Touched) -> bool {
        let lsn = touched.page_lsn;
        let around = self.stretches.iter().find(|stretch| stretch.start < lsn && lsn <= stretch.end);
        let is_settled = |event: &FileEvent| event.end_lsn < lsn;
        let is_known = page.fork == ForkNumber::Main && !touched.has_record && !self.is_full && !self.is_minimal;
        is_known
            && around.is_some_and(|stretch| self.unclear_lsn <= stretch.start)
            && self.removals_of(page).all(is_settled)
    }

    /// The pages without an LSN that records before the redo point name, by identity. Most such pages were never used, and no record names them.
    pub fn emptied(&self) -> Vec<PageId> {
        let emptied = self.touched.iter().filter(|(_, touched)| touched.is_some_and(|touched| touched.had_content));
        let mut pages: Vec<PageId> = emptied.map(|(page, _)| *page).collect();
        pages.sort_unstable();
        pages
    }

    /// The pages that are there and that a record names, by identity.
    pub fn pages(&self) -> Vec<Provable> {
        let still = |page: PageId, lsn: Lsn| (lsn.is_valid() && !self.is_removed_since(page, lsn)).then_some(lsn);
        let known = self.touched.iter().filter_map(|(page, touched)| Some((*page, (*touched)?)));
        let mut pages: Vec<Provable> = known
            .map(|(page, touched)| Provable {
                page,
                page_lsn: touched.page_lsn,
                base_lsn: still(page, touched.base_lsn),
                lacks: still(page, touched.lacks),
                lacks_of: touched.lacks_of,
                is_foreign: self.is_foreign(page, &touched),
                is_beyond_end: touched.is_beyond_end,
            })
            .collect();
        pages.sort_unstable_by_key(|provable| provable.page);
        pages
    }
}

/// Facts from the records of one segment.
struct PartOfWal<'a> {
    heads: HeadReader<'a>,
    redo_lsn: Lsn,
    replay_from: Lsn,
    found: WalPages,
}

impl PartOfWal<'_> {
    #[inline]
    fn add_block(&mut self, record: &Record<'_>, head: &BlockHead) {
        let Some(page) = head.page_id().filter(|page| page.fork != ForkNumber::Fsm) else { return };
        let is_known = self.found.touched.contains_key(&page);
        if !is_known && self.found.touched.len() >= MAX_PAGES {
            self.found.is_full = true;
            return;
        }
        let heads = &mut self.heads;
        let known = self.found.touched.entry(page).or_insert_with(|| match heads.head(page) {
            PageHead::Lsn(page_lsn) => Some(Touched { page_lsn, ..Touched::default() }),
            PageHead::BeyondEnd => Some(Touched { is_beyond_end: true, ..Touched::default() }),
            PageHead::Nothing => None,
        });
        let Some(known) = known else { return };
        let has_image = head.has_image_to_apply(record.major);
        let builds = head.will_init() || has_image;
        if record.start_lsn < self.replay_from {
            let is_empty = page.fork == ForkNumber::Main && !known.is_beyond_end && !known.page_lsn.is_valid();
            known.had_content |= is_empty && (has_image || !record.kind().is_hint());
        } else {
            let rmgr_id = record.header.rmgr_id;
            known.is_made_in_replay |= head.will_init() || builds && rmgr_id == RM_XLOG && !record.kind().is_hint();
            if !std::mem::replace(&mut known.is_in_replay, true) {
                known.begins_without_image = !known.is_beyond_end && !builds && takes_image(rmgr_id, page.fork);
            }
        }
        if known.is_beyond_end {
            if record.end_lsn <= self.redo_lsn {
                known.lacks = record.start_lsn;
                if record.header.xid != 0 {
                    known.lacks_of = record.header.xid;
                }
            }
            return;
        }
        known.has_record |= record.end_lsn == known.page_lsn;
        if record.end_lsn <= known.page_lsn {
            if builds {
                known.base_lsn = record.start_lsn;
            }
        } else if record.end_lsn <= self.redo_lsn && is_change(record, page.fork, builds) {
            known.lacks = record.start_lsn;
        }
    }

    /// Before a checkpoint writes `pg_xact` it waits for commits whose record is older than its redo point.
    ///
    /// Source: `DELAY_CHKPT_START`, `src/include/storage/proc.h`.
    #[inline(never)]
    fn add_commits(&mut self, record: &Record<'_>) {
        if record.end_lsn > self.redo_lsn {
            return;
        }
        let (xid, subxids) = match XactEnd::of(record) {
            Ok(Some(XactEnd { committed: true, xid: Some(xid), subxids, .. })) => (xid, subxids),
            Ok(_) => return,
            Err(_) => {
                self.found.has_more_commits = true;
                return;
            }
        };
        let room = MAX_COMMITS.saturating_sub(self.found.commits.len());
        self.found.has_more_commits |= subxids.len() >= room;
        let record_lsn = record.start_lsn;
        let all = [xid].into_iter().chain(subxids).take(room);
        self.found.commits.extend(all.map(|xid| CommittedXact { xid, record_lsn }));
    }

    #[inline(never)]
    fn add_files(&mut self, record: &Record<'_>) {
        let what = match LifeCycle::of(record) {
            Ok(None) => return,
            Ok(Some(what)) if !record.is_cut() && self.found.file_events < MAX_FILE_EVENTS => what,
            Ok(Some(_)) | Err(_) => {
                self.found.unclear_lsn = record.end_lsn;
                return;
            }
        };
        let (start_lsn, end_lsn) = (record.start_lsn, record.end_lsn);
        let event = |what| FileEvent { start_lsn, end_lsn, what };
        let rels = match &what {
            LifeCycle::Created { rel, .. } | LifeCycle::Truncated { rel, .. } => vec![*rel],
            LifeCycle::Dropped { rels, .. } => rels.clone(),
            LifeCycle::DatabaseCreated { .. } | LifeCycle::DatabaseDropped { .. } => {
                self.found.databases.push(event(what));
                self.found.file_events = self.found.file_events.saturating_add(1);
                return;
            }
        };
        for rel in rels {
            let what = match &what {
                LifeCycle::Dropped { committed, time, .. } => {
                    LifeCycle::Dropped { committed: *committed, time: *time, rels: vec![rel] }
                }
                other => other.clone(),
            };
            self.found.files.entry(rel).or_default().push(event(what));
            self.found.file_events = self.found.file_events.saturating_add(1);
        }
    }
}

/// Adds to a list up to its limit; true if something did not fit.
fn extend_to<T>(list: &mut Vec<T>, more: impl IntoIterator<Item = T>) -> bool {
    let mut more = more.into_iter();
    list.extend(more.by_ref().take(MAX_COMMITS.saturating_sub(list.len())));
    more.next().is_some()
}

/// True for a record that is sure to change the page and its LSN. An image alone may be one of a page that is all zero, or
/// of hint bits.
fn is_change(record: &Record<'_>, fork: ForkNumber, builds: bool) -> bool {
    let is_table = fork == ForkNumber::Main && record.header.rmgr_id != RM_XLOG;
    is_table && (builds || record.record_type().surely_sets_lsn(record.major, fork))
}

/// True for a record that takes an image of a page when it is the first one since the redo point, unless `full_page_writes` is off or a double
/// write buffer stands in for images.
///
/// Sources: `XLogRecordAssemble`, `src/backend/access/transam/xloginsert.c`; `XLogRegisterBuffer` in `src/backend/access/heap/heapam.c` and
/// `src/backend/access/nbtree/`.
const fn takes_image(rmgr_id: u8, fork: ForkNumber) -> bool {
    matches!((rmgr_id, fork), (RM_HEAP | RM_BTREE, ForkNumber::Main))
}

impl Visitor for PartOfWal<'_> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if record.header.xid >= FIRST_NORMAL_XID && record.end_lsn <= self.redo_lsn {
            self.found.note_newest(record.header.xid, record.start_lsn);
        }
        if matches!(record.header.rmgr_id, RM_SMGR | RM_XACT | RM_DBASE) {
            self.add_files(record);
        }
        if record.header.rmgr_id == RM_XACT {
            self.found.prepared.add(record);
            self.add_commits(record);
        }
        if record.header.rmgr_id == RM_MULTIXACT
            && record.end_lsn <= self.redo_lsn
            && let Some((multi, offset, _)) = multixact_made(record)
        {
            let made = MultixactMade { multi, offset, record_lsn: record.start_lsn };
            self.found.has_more_commits |= extend_to(&mut self.found.multis, [made]);
        }
        if record.header.rmgr_id == RM_XLOG {
            // One that is not understood may say so.
            let payload = XlogPayload::of(&{ *record });
            let is_after_redo = record.start_lsn >= self.redo_lsn;
            if let Ok(Some(XlogPayload::CheckpointShutdown(found) | XlogPayload::CheckpointOnline(found))) = payload {
                let (time_s, next_full_xid) = (found.time_s, found.next_full_xid);
                let seen = CheckpointSeen { record_lsn: record.start_lsn, time_s, next_full_xid };
                self.found.has_more_commits |= extend_to(&mut self.found.checkpoints, [seen]);
            }
            let (is_minimal, has_settings) = match payload {
                Ok(Some(XlogPayload::ParameterChange(ParameterChange { wal_level, .. }))) => {
                    (wal_level == WAL_LEVEL_MINIMAL, true)
                }
                Ok(_) => (false, false),
                Err(_) => (true, true),
            };
            self.found.is_minimal |= is_minimal;
            self.found.has_settings |= has_settings;
            self.found.lacks_images |=
                is_after_redo && matches!(payload, Err(_) | Ok(Some(XlogPayload::FullPageWritesChange(0))));
        }
        for (_, head) in record.block_heads() {
            self.add_block(record, &head);
        }
    }
}

/// Parts of the table, each with a lock of its own.
const PARTS: usize = 64;

/// Pages that are kept in a part; those beyond are read again.
const MAX_HEADS: usize = 65_536;

/// Pages of a part that are kept before WAL names them.
const MAX_NOTED: usize = 4096;

/// State on disk of the page of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageHead {
    Lsn(Lsn),
    /// The file ends before it.
    BeyondEnd,
    /// No file, a part of a page, or something that cannot be read, which is reported where all pages are read.
    Nothing,
}

/// The table of a cluster, for all threads.
pub(crate) struct PageHeads {
    pages: Mutex<Box<dyn PageSource + Send>>,
    block_size: usize,
    parts: [Mutex<FxHashMap<PageId, PageHead>>; PARTS],
}

impl PageHeads {
    /// An empty table of pages of `block_size` bytes.
    pub fn new(pages: Box<dyn PageSource + Send>, block_size: usize) -> Self {
        Self { pages: Mutex::new(pages), block_size, parts: std::array::from_fn(|_| Mutex::default()) }
    }

    pub fn reader(&self) -> HeadReader<'_> {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner).another();
        HeadReader { heads: self, pages, buffer: vec![0; self.block_size] }
    }

    /// Keeps the LSN of a whole page that was read anyway.
    pub fn note(&self, page: PageId, bytes: &[u8]) {
        if let (Some(part), Ok(header)) = (self.part(page), PageHeader::decode(0, bytes))
            && let Some(mut known) = part.lock().ok().filter(|known| known.len() < MAX_NOTED)
        {
            known.insert(page, PageHead::Lsn(header.lsn));
        }
    }

    fn part(&self, page: PageId) -> Option<&Mutex<FxHashMap<PageId, PageHead>>> {
        let mut hasher = FxHasher::default();
        page.hash(&mut hasher);
        let bits = usize::try_from(hasher.finish() >> 58).unwrap_or_default();
        self.parts.get(bits % PARTS)
    }
}

pub(crate) struct HeadReader<'a> {
    heads: &'a PageHeads,
    pages: Box<dyn PageSource + Send>,
    buffer: Vec<u8>,
}

impl HeadReader<'_> {
    /// State of `page` on disk.
    pub fn head(&mut self, page: PageId) -> PageHead {
        let part = self.heads.part(page);
        let locked = || part.and_then(|part| part.lock().ok());
        if let Some(head) = locked().and_then(|known| known.get(&page).copied()) {
            return head;
        }
        let head = match self.pages.read_page(page, &mut self.buffer) {
            Ok(PageRead::Whole) => {
                PageHeader::decode(0, &self.buffer).map_or(PageHead::Nothing, |header| PageHead::Lsn(header.lsn))
            }
            Ok(PageRead::BeyondEnd) => PageHead::BeyondEnd,
            Ok(PageRead::Partial { .. } | PageRead::NoFile) | Err(_) => PageHead::Nothing,
        };
        if let Some(mut known) = locked().filter(|known| known.len() < MAX_HEADS) {
            known.insert(page, head);
        }
        head
    }
}
