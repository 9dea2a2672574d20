//! Changes of pages in WAL. Those that memory does not hold are read again when a page asks for them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::analysis::wal::row_facts::{PageLogs, WantedPages};
use crate::parsers::wal::page_log::PageLog;
use crate::types::{Lsn, Oid};

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
