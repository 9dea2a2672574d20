//! Rows that contradict counters and bounds: transactions and multixacts that, according to `pg_control`, were never assigned,
//! or that
//! according to `pg_class` no row contains any longer, and columns that do not fit into their row.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use crate::analysis::start::belonging::ROW_FAULT;
use crate::cluster::columns::{Shapes, table_shapes};
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationNames;
use crate::cluster::xact_files::XactTable;
use crate::parsers::control::ControlFile;
use crate::parsers::heap::{TupleHeader, infomask, page_tuples};
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::parsers::tuple::columns::{ColumnShape, first_misfit};
use crate::report::Finding;
use crate::types::{FIRST_NORMAL_XID, ForkNumber, PageId, RelFileLocator, is_newer_xid};

/// Relations whose rows are named one by one.
const MAX_NAMED: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAhead {
    /// Page of the first of them, in the order of files.
    pub page: PageId,
    /// Its item, from 1.
    pub item: usize,
    pub value: u32,
    pub newest: u32,
    pub rows: u64,
    pub relations: usize,
}

/// Damage of a single row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFault {
    /// It names a transaction from before `relfrozenxid`.
    FrozenXid {
        xid: u32,
        /// `relfrozenxid`.
        oldest: u32,
    },
    /// It names a multixact from before `relminmxid`.
    OldMultixact {
        multi: u32,
        /// `relminmxid`.
        oldest: u32,
    },
    /// It says that a transaction committed, and `pg_xact` says that it did not.
    Undone { xid: u32 },
    Column {
        /// Its number, from 1.
        number: usize,
    },
}

/// Rows of one relation that are wrong by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongRows {
    pub page: PageId,
    /// Its item, from 1.
    pub item: usize,
    pub fault: RowFault,
    pub rows: u64,
    /// Further relations with such rows that are not named one by one.
    pub further: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub xids: Option<RowAhead>,
    pub multis: Option<RowAhead>,
    /// Rows of several relations whose transactions committed, and not so by `pg_xact`.
    pub undone: Option<RowAhead>,
    /// Rows that are wrong by themselves, of the first relations in order.
    pub wrong: Vec<WrongRows>,
}

/// Looks at rows while pages are read.
#[derive(Debug)]
pub struct CounterWitness {
    /// The next transaction and multixact after a shutdown; later replay moves them on.
    next: Option<(u32, u32)>,
    /// How transactions ended, after a shutdown.
    ends: Option<XactTable>,
    /// Facts about each table whose pages are intact.
    tables: HashMap<RelFileLocator, TableBounds>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct TableBounds {
    /// `relfrozenxid` and `relminmxid`, where replay does not move them on.
    oldest: Option<(u32, u32)>,
    shapes: Vec<ColumnShape>,
}

#[derive(Debug, Default)]
struct Seen {
    ahead: [Tally; 2],
    undone: Tally,
    wrong: BTreeMap<RelFileLocator, WrongRows>,
}

#[derive(Debug, Default)]
struct Tally {
    first: Option<RowAhead>,
    relations: BTreeSet<RelFileLocator>,
}

impl Tally {
    fn add(&mut self, page: PageId, item: usize, value: u32) {
        self.relations.insert(page.rel);
        let new = RowAhead { page, item, value, newest: value, rows: 0, relations: 0 };
        let first = self.first.get_or_insert(new);
        if (page, item) < (first.page, first.item) {
            (first.page, first.item, first.value) = (page, item, value);
        }
        first.newest = if is_newer_xid(value, first.newest) { value } else { first.newest };
        first.rows = first.rows.saturating_add(1);
    }

    fn finish(&self) -> Option<RowAhead> {
        self.first.map(|rows| RowAhead { relations: self.relations.len(), ..rows })
    }
}

impl CounterWitness {
    /// Nothing was seen yet. `is_whole`: pages that pass their checks are as the server wrote them.
    pub fn of(dir: &DataDir, control: Option<&ControlFile>, names: &RelationNames, is_whole: bool) -> Self {
        let stopped = control.filter(|control| control.was_shut_down());
        let next = stopped.map(|control| (control.checkpoint.next_xid(), control.checkpoint.next_multi));
        let mut tables: HashMap<RelFileLocator, TableBounds> = HashMap::new();
        if is_whole {
            let shapes: Shapes = table_shapes(dir, names);
            for (rel, shapes) in shapes {
                let oldest = names.get(rel).map(|name| name.oldest).filter(|_| stopped.is_some());
                tables.insert(rel, TableBounds { oldest, shapes });
            }
        }
        let ends = stopped.map(|control| XactTable::read(dir, control));
        Self { next, ends, tables, seen: Mutex::default() }
    }

    /// Looks at a sound page of a logged relation, from any thread.
    pub fn look(&self, page: PageId, bytes: &[u8]) {
        let table = self.tables.get(&page.rel);
        if page.fork != ForkNumber::Main || self.next.is_none() && table.is_none() {
            return;
        }
        let Ok(header) = PageHeader::decode(0, bytes) else { return };
        if PageKind::of(&header, bytes, page.fork) != PageKind::Heap {
            return;
        }
        for tuple in page_tuples(&header, bytes) {
            let Ok(row) = TupleHeader::decode(0, tuple.bytes) else { continue };
            if let Some((next_xid, next_multi)) = self.next {
                let is_ahead = |xid: &u32| *xid >= FIRST_NORMAL_XID && !is_newer_xid(next_xid, *xid);
                for xid in [xmin_of(&row), xmax_of(&row)].into_iter().flatten().filter(is_ahead) {
                    self.add(0, page, tuple.item, xid);
                }
                if let Some(multi) = multi_of(&row).filter(|multi| !is_newer_xid(next_multi, *multi)) {
                    self.add(1, page, tuple.item, multi);
                }
            }
            if let Some(xid) = self.ends.as_ref().and_then(|ends| undone_of(&row, ends)) {
                self.add_undone(page, tuple.item, xid);
            }
            if let Some(fault) = table.and_then(|table| table.fault_of(&row, tuple.bytes)) {
                self.add_wrong(page, tuple.item, fault);
            }
        }
    }

    fn add(&self, which: usize, page: PageId, item: usize, value: u32) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tally) = seen.ahead.get_mut(which) {
            tally.add(page, item, value);
        }
    }

    fn add_undone(&self, page: PageId, item: usize, xid: u32) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).undone.add(page, item, xid);
    }

    fn add_wrong(&self, page: PageId, item: usize, fault: RowFault) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let new = WrongRows { page, item, fault, rows: 0, further: 0 };
        let first = seen.wrong.entry(page.rel).or_insert(new);
        if (page, item) < (first.page, first.item) {
            (first.page, first.item, first.fault) = (page, item, fault);
        }
        first.rows = first.rows.saturating_add(1);
    }

    pub fn finish(&self) -> Counters {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let [xids, multis] = &seen.ahead;
        let undone = seen.undone.finish();
        let further = seen.wrong.len().saturating_sub(MAX_NAMED);
        let wrong = seen.wrong.values().take(MAX_NAMED).map(|rows| WrongRows { further, ..*rows });
        // Rows of one relation alone are damaged themselves.
        let single = undone.filter(|rows| rows.relations == 1).map(|RowAhead { page, item, value, rows, .. }| {
            WrongRows { page, item, fault: RowFault::Undone { xid: value }, rows, further: 0 }
        });
        let wrong = wrong.chain(single).collect();
        let undone = undone.filter(|rows| rows.relations > 1);
        Counters { xids: xids.finish(), multis: multis.finish(), undone, wrong }
    }
}

impl Counters {
    /// Rows that are wrong by themselves, as findings. `path_of` gives the file of a page, and its offset there.
    pub fn findings(&self, names: &RelationNames, path_of: &dyn Fn(PageId) -> (String, u64)) -> Vec<Finding> {
        let of = |rows: &WrongRows| {
            let (path, offset) = path_of(rows.page);
            let name = names.full_name(rows.page.rel).unwrap_or_else(|| rows.page.rel.to_string());
            ROW_FAULT.problem(format!("{name}: {rows}")).because(rows.fault.why()).in_file(&path).at(offset)
        };
        self.wrong.iter().map(of).collect()
    }
}

impl TableBounds {
    /// The first fault of a row. Rows of transactions that were given up may have columns that the table never got.
    ///
    /// Source: `heap_prepare_freeze_tuple`, `src/backend/access/heap/heapam.c`; `check_tuple_attribute`,
    /// `contrib/amcheck/verify_heapam.c`.
    fn fault_of(&self, row: &TupleHeader, tuple: &[u8]) -> Option<RowFault> {
        if let Some((oldest, oldest_multi)) = self.oldest.filter(|_| !row.has(infomask::XMIN_INVALID)) {
            let is_older = |xid: &u32| oldest >= FIRST_NORMAL_XID && is_newer_xid(oldest, *xid);
            let mut named = [xmin_of(row), xmax_of(row)].into_iter().flatten().filter(|xid| *xid >= FIRST_NORMAL_XID);
            if let Some(xid) = named.find(is_older) {
                return Some(RowFault::FrozenXid { xid, oldest });
            }
            let is_older = |multi: &u32| oldest_multi > 0 && is_newer_xid(oldest_multi, *multi);
            if let Some(multi) = multi_of(row).filter(is_older) {
                return Some(RowFault::OldMultixact { multi, oldest: oldest_multi });
            }
        }
        if usize::from(row.attribute_count()) > self.shapes.len() {
            return None;
        }
        first_misfit(row, tuple, &self.shapes).map(|index| RowFault::Column { number: index.saturating_add(1) })
    }
}

/// A transaction that committed by the hint bits of a row, and did not by `pg_xact`.
fn undone_of(row: &TupleHeader, ends: &XactTable) -> Option<u32> {
    let xmin = (row.has(infomask::XMIN_COMMITTED) && !row.has(infomask::XMIN_INVALID)).then_some(row.xmin);
    let is_deleted = row.has(infomask::XMAX_COMMITTED) && !row.has(infomask::XMAX_IS_MULTI);
    let xmax = (is_deleted && !row.has(infomask::XMAX_INVALID)).then_some(row.xmax);
    xmin.into_iter().chain(xmax).find(|xid| ends.is_undone(*xid))
}

/// The transaction that inserted a row, unless the row is frozen.
const fn xmin_of(row: &TupleHeader) -> Option<u32> {
    if row.has(infomask::XMIN_COMMITTED | infomask::XMIN_INVALID) { None } else { Some(row.xmin) }
}

/// The transaction that deleted or locked a row.
const fn xmax_of(row: &TupleHeader) -> Option<u32> {
    let is_none = row.has(infomask::XMAX_INVALID) || row.has(infomask::XMAX_IS_MULTI);
    if is_none { None } else { Some(row.xmax) }
}

/// The multixact that deleted or locked a row. Nobody looks up those of a server up to 9.2.
///
/// Source: `HEAP_LOCKED_UPGRADED`, `src/include/access/htup_details.h`.
const fn multi_of(row: &TupleHeader) -> Option<u32> {
    let is_upgraded =
        row.has(infomask::XMAX_IS_MULTI | infomask::XMAX_LOCK_ONLY) && row.infomask & infomask::LOCK_MASK == 0;
    let is_multi = row.has(infomask::XMAX_IS_MULTI) && !row.has(infomask::XMAX_INVALID);
    if is_multi && !is_upgraded { Some(row.xmax) } else { None }
}
