//! Changes of pages in WAL. Those that memory does not hold are read again when a page asks for them.
//! Also here: whether WAL belongs to the pages: where `pg_control` is lost, no file tells, and WAL of another cluster
//! may name the same relations.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use strum::IntoStaticStr;

use super::rows::has_right_checksum;
use super::source::{DatabaseFiles, FIRST_USER_NUMBER, Source};
use crate::analysis::wal::row_facts::{PageLogs, WantedPages};
use crate::parsers::page::PageHeader;
use crate::parsers::wal::page_log::PageLog;
use crate::types::{BlockNumber, Lsn, Oid};

/// Pages whose changes are read again at once.
const WAVE_PAGES: usize = 2048;

/// A page of a main fork: database and file number, as WAL names them, and block.
type Place = ((Oid, u32), u32);

/// Whether to continue. Once it says no, it does so each time.
pub type Interrupt = dyn Fn() -> ControlFlow<()> + Send + Sync;

/// Ends reading early, if it is set. What was read is then not used.
#[derive(Clone, Default)]
pub(crate) struct Interruption(pub Option<Arc<Interrupt>>);

impl Interruption {
    pub fn has_come(&self) -> bool {
        self.0.as_ref().is_some_and(|interrupt| interrupt().is_break())
    }
}

impl fmt::Debug for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interruption({})", self.has_come())
    }
}

/// Reads the changes of these pages from this part of WAL.
type ReadChanges = Box<dyn Fn(Arc<WantedPages>, (Lsn, Lsn)) -> PageLogs>;

/// Changes of pages.
#[derive(Default)]
pub(crate) struct Changes {
    logs: PageLogs,
    read: Option<ReadChanges>,
    /// What was read again, the last two times: a table and its TOAST table are read by turns.
    waves: RefCell<Vec<PageLogs>>,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("relations", &self.logs.len()).finish_non_exhaustive()
    }
}

fn held(logs: &PageLogs, (rel, block): Place) -> Option<&PageLog> {
    logs.get(&rel)?.get(&block)
}

impl Changes {
    /// `read`: gives changes that `logs` forgot.
    pub fn new(logs: PageLogs, read: ReadChanges) -> Self {
        Self { logs, read: Some(read), waves: RefCell::default() }
    }

    /// Blocks of a main fork that WAL changes.
    pub fn blocks(&self, rel: (Oid, u32)) -> BTreeSet<u32> {
        self.logs.get(&rel).into_iter().flat_map(|pages| pages.keys().copied()).collect()
    }

    /// End of the last record of a page.
    pub fn last_end(&self, place: Place) -> Option<Lsn> {
        held(&self.logs, place).map(|log| log.last_end_lsn)
    }

    /// Shows what WAL did to a page.
    pub fn of<R>(&self, place: Place, take: impl FnOnce(&PageLog) -> R) -> Option<R> {
        let log = held(&self.logs, place)?;
        let Some(read) = self.read.as_ref().filter(|_| log.is_forgotten) else { return Some(take(log)) };
        let mut waves = self.waves.borrow_mut();
        if waves.iter().all(|wave| held(wave, place).is_none()) {
            let (wanted, range) = self.forgotten_from(place);
            let wanted = Arc::new(wanted);
            waves.truncate(1);
            let mut wave = read(Arc::clone(&wanted), range);
            // What WAL no longer has is not asked for again.
            for (rel, block) in wanted.iter() {
                wave.entry(*rel).or_default().entry(*block).or_insert_with(|| log.clone());
            }
            waves.insert(0, wave);
        }
        Some(take(waves.iter().find_map(|wave| held(wave, place)).unwrap_or(log)))
    }

    /// The next pages whose changes were forgotten, and the part of WAL with these changes: its start, and the end of its last record.
    fn forgotten_from(&self, from: Place) -> (WantedPages, (Lsn, Lsn)) {
        let relations = self.logs.range(from.0..);
        let pages = relations.flat_map(|(rel, pages)| pages.iter().map(move |(block, log)| ((*rel, *block), log)));
        let later = pages.filter(|(place, log)| *place >= from && log.is_forgotten);
        let mut range = (Lsn(u64::MAX), Lsn::INVALID);
        let wanted = later.take(WAVE_PAGES).map(|(place, log)| {
            range = (range.0.min(log.from_lsn), range.1.max(log.last_end_lsn));
            place
        });
        (wanted.collect(), range)
    }
}

/// Most pages that are held against WAL.
const MAX_PAGES: usize = 16_384;

/// How far WAL can be trusted to belong to the pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum WalTrust {
    /// No WAL could be applied.
    #[default]
    Missing,
    /// The pages it changes are its own.
    Proven,
    /// Most of the pages it changes are its own, or none with rows of users: what it gives is uncertain.
    Likely,
    /// No page shows that it belongs here: it was not applied.
    Unproven,
    /// Pages contradict it: it was not applied.
    Contradicted,
}

impl WalTrust {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// Pages on disk, held against the records that change them.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// In a state that WAL gives them.
    pub agree: usize,
    /// Those of them with rows of users: system catalogs may be alike in all clusters of a major.
    pub agree_of_users: usize,
    /// In another state.
    pub strangers: Vec<((Oid, u32), BlockNumber)>,
    /// Newer than all WAL.
    pub newer: usize,
}

impl Compared {
    pub const fn has_rows_of_users(&self) -> bool {
        self.agree_of_users > 0
    }

    /// Adds pages held against the WAL before.
    pub fn add(&mut self, before: Self) {
        self.agree = self.agree.saturating_add(before.agree);
        self.agree_of_users = self.agree_of_users.saturating_add(before.agree_of_users);
        self.strangers.extend(before.strangers);
    }

    /// `has_control`: WAL has the system identifier of `pg_control`.
    pub const fn trust(&self, has_control: bool) -> WalTrust {
        match (self.agree, self.strangers.len()) {
            (agree, strangers) if strangers > agree => WalTrust::Contradicted,
            _ if has_control => WalTrust::Proven,
            (0, _) => WalTrust::Unproven,
            (_, 0) if self.has_rows_of_users() => WalTrust::Proven,
            _ => WalTrust::Likely,
        }
    }
}

/// Holds pages of tables against WAL that ends at `wal_end`.
pub(crate) fn compare(source: &Source, logs: &PageLogs, wal_end: Lsn) -> Compared {
    let mut compared = Compared::default();
    let forks = source.databases.iter().flat_map(DatabaseFiles::all_forks);
    let pages = forks.filter_map(|files| Some((files, logs.get(&files.rel())?)));
    let pages = pages.flat_map(|(files, logs)| logs.iter().map(move |(block, log)| (files, *block, log)));
    for (files, block, log) in pages.take(MAX_PAGES) {
        let Some(page) = source.page_on_disk(files, block) else { continue };
        let Some(header) = PageHeader::decode(0, &page).ok().filter(|header| !header.is_new()) else { continue };
        // Pages of indexes and sequences have a special space; their other records are not kept.
        let is_table = header.faults(page.len()).is_empty() && usize::from(header.special) == page.len();
        if !is_table || !has_right_checksum(source, block, &page) {
            continue;
        }
        let is_of_user = files.rel().1 >= FIRST_USER_NUMBER && usize::from(header.lower) > PageHeader::SIZE;
        let count = match log.agrees(&page, wal_end) {
            Some(true) => {
                compared.agree_of_users = compared.agree_of_users.saturating_add(usize::from(is_of_user));
                &mut compared.agree
            }
            Some(false) => {
                compared.strangers.push((files.rel(), block));
                continue;
            }
            None if header.lsn > wal_end => &mut compared.newer,
            None => continue,
        };
        *count = count.saturating_add(1);
    }
    compared
}
