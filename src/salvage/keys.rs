//! Keys of rows that are lost: entries of the primary key that lead to places where no row is left.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use roaring::RoaringBitmap;

use super::catalogs::{Catalogs, Relation};
use super::extract::{Wanted, Work};
use super::fit::{Span, with_values};
use super::rows::{Class, PageLoss, ScanEnd, has_right_checksum};
use super::source::{DatabaseFiles, SegmentFiles, Source};
use super::xacts::Xacts;
use super::{SalvageError, TableReport};
use crate::parsers::catalog::PG_INDEX_OID;
use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::heap::{TupleHeader, page_tuples};
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::parsers::tuple::columns::{ColumnShape, Stored, placed};
use crate::parsers::tuple::index::{IndexEntry, Target, Tid};
use crate::parsers::wal::version::Major;

/// Most keys of one table that are kept.
pub(crate) const MAX_KEYS: usize = 1 << 20;

/// Bytes of an `int2vector` before its numbers.
const VECTOR_HEAD: usize = 24;

/// Where the first page of a B-tree has its root.
const META_ROOT: usize = 32;

/// Bytes of a `name`, which an index stores with another length.
const NAME_BYTES: i16 = 64;

/// Places of a table at which no row was found.
#[derive(Debug, Default)]
pub(crate) struct LostPlaces {
    /// Pages that gave no row.
    whole: RoaringBitmap,
    /// Pages that gave not all.
    pages: HashMap<u32, LostItems>,
    /// Pages that were read.
    pub end: u32,
}

/// Items of a page that are lost.
#[derive(Debug)]
pub(crate) enum LostItems {
    AllBut(BTreeSet<u16>),
    These(BTreeSet<u16>),
}

impl LostPlaces {
    pub fn add(&mut self, block: u32, items: LostItems) {
        match items {
            LostItems::AllBut(found) if found.is_empty() => drop(self.whole.insert(block)),
            items => drop(self.pages.insert(block, items)),
        }
    }

    fn has(&self, (block, item): Tid) -> bool {
        match self.pages.get(&block) {
            Some(LostItems::AllBut(found)) => !found.contains(&item),
            Some(LostItems::These(lost)) => lost.contains(&item),
            None => block >= self.end || self.whole.contains(block),
        }
    }
}

/// The primary key of a table.
pub(crate) struct PrimaryKey<'a> {
    index: &'a Relation,
    /// Its columns in the table, from 0, in the order of the key, and their shapes.
    columns: Vec<(usize, ColumnShape)>,
}

/// Stored values of a key.
type Key = Vec<Vec<u8>>;

impl<'a> PrimaryKey<'a> {
    /// Source: `FormData_pg_index`, `src/include/catalog/pg_index.h`.
    pub fn of(catalogs: &'a Catalogs, table: &Relation, shapes: &[ColumnShape], major: Major) -> Option<Self> {
        let (primary_at, key_at) = match major.number() {
            0..=10 => (11, 20),
            11..=14 => (13, 24),
            _ => (14, 24),
        };
        let rows = catalogs.rows.get(&PG_INDEX_OID)?.iter().map(|row| row.data());
        let is_its = |data: &&[u8]| u32_at(data, 4) == Some(table.oid) && data.get(primary_at) == Some(&1);
        let data = rows.into_iter().find(is_its)?;
        let index = catalogs.relations.get(&u32_at(data, 0)?)?;
        let count = u16_at(data, if major.number() > 10 { 10 } else { 8 })?;
        let columns = (0..usize::from(count)).map(|number| {
            let at = number.checked_mul(2)?.checked_add(key_at + VECTOR_HEAD)?;
            let column = usize::from(u16_at(data, at)?.checked_sub(1)?);
            let shape = shapes.get(column).filter(|shape| shape.length != NAME_BYTES)?;
            Some((column, *shape))
        });
        Some(Self { index, columns: columns.collect::<Option<_>>()? })
    }

    /// Keys whose entries lead to lost places, and whether there are more of them.
    pub fn lost(&self, source: &Source, database: &DatabaseFiles, places: &LostPlaces) -> (BTreeMap<Key, Tid>, bool) {
        let (mut lost, mut has_more) = (BTreeMap::new(), false);
        let Some(files) = database.main_fork(self.index.spc_oid, self.index.filenode) else { return (lost, has_more) };
        let shapes: Vec<ColumnShape> = self.columns.iter().map(|(_, shape)| *shape).collect();
        leaf_entries(source, files, &mut |tid, data| {
            if !places.has(tid) {
                return;
            }
            if lost.len() >= MAX_KEYS {
                has_more = true;
                return;
            }
            let values = placed(data, &shapes, |_| false);
            let bytes = values.map(|value| match value.stored {
                Stored::Plain(_) => data.get(value.start..value.end).map(<[u8]>::to_vec),
                // An index may compress a value that the table does not.
                _ => None,
            });
            lost.extend(bytes.collect::<Option<Key>>().map(|key| (key, tid)));
        });
        (lost, has_more)
    }

    /// The key of a row that has one as an index stores it.
    pub fn of_row(&self, tuple: &[u8], spans: &[Span]) -> Option<Key> {
        let value = |(column, _): &(usize, ColumnShape)| {
            let span = spans.iter().find(|span| span.column == *column)?;
            tuple.get(span.start..span.end).map(<[u8]>::to_vec)
        };
        self.columns.iter().map(value).collect()
    }

    /// A row of the table with this key and nulls.
    pub fn row(&self, key: &Key, shapes: &[ColumnShape]) -> Option<Vec<u8>> {
        let mut head = vec![0; TupleHeader::SIZE];
        head.splice(18..20, u16::try_from(shapes.len()).ok()?.to_le_bytes());
        let header = TupleHeader::decode(0, &head).ok()?;
        let values: BTreeMap<usize, Option<Vec<u8>>> =
            self.columns.iter().zip(key).map(|((column, _), value)| (*column, Some(value.clone()))).collect();
        let spans: Vec<Span> =
            values.keys().map(|column| Span { column: *column, start: 0, end: 0, external: None }).collect();
        Some(with_values(&header, &head, &spans, shapes, &values))
    }
}

impl Work<'_> {
    /// Takes pages of zeros at the end of a table off its lost pages if an intact primary key leads to none of them: a server that
    /// crashes leaves pages by which it had just extended the file.
    ///
    /// Source: `RelationAddBlocks`, `src/backend/access/heap/hio.c`.
    pub fn forget_unused(
        &self,
        (database, catalogs): (&DatabaseFiles, &Catalogs),
        table: &Wanted<'_>,
        end: &mut ScanEnd,
    ) {
        let mut first = end.places.end;
        for (block, ..) in end.lost.iter().rev().filter(|(_, loss, _)| *loss == PageLoss::Zero) {
            if block.saturating_add(1) != first {
                break;
            }
            first = *block;
        }
        let is_missing = end.lost.iter().any(|(_, loss, _)| *loss == PageLoss::Missing);
        // Without WAL they may be what a lost write left; without checksums an index may have lost entries.
        if is_missing || first == end.places.end || !self.wal.is_complete || !self.source.checksums {
            return;
        }
        let key = PrimaryKey::of(catalogs, table.relation, &table.shapes, self.source.major);
        let files = key.and_then(|key| database.main_fork(key.index.spc_oid, key.index.filenode));
        let mut leads_there = false;
        let mut show = |(block, _): Tid, _: &[u8]| leads_there |= block >= first;
        let is_intact = files.is_some_and(|files| leaf_entries(self.source, files, &mut show));
        if is_intact && !leads_there {
            end.lost.retain(|(block, loss, _)| *block < first || *loss != PageLoss::Zero);
        }
    }
}

/// Takes the place of a lost row, and a row with its key.
type ShowRow<'a> = dyn FnMut(Tid, &[u8]) -> Result<(), SalvageError> + 'a;

impl Work<'_> {
    /// Shows a row for each key of a lost row, with nulls in the other columns.
    pub fn missing(
        &self,
        database: &DatabaseFiles,
        catalogs: &Catalogs,
        table: &Wanted<'_>,
        (xacts, report): (&mut Xacts<'_>, &mut TableReport),
        places: &LostPlaces,
        show: &mut ShowRow<'_>,
    ) -> Result<(), SalvageError> {
        let Some(key) = PrimaryKey::of(catalogs, table.relation, &table.shapes, self.source.major) else {
            return Ok(());
        };
        let (mut lost, has_more) = key.lost(self.source, database, places);
        report.has_more_keys = has_more;
        if !lost.is_empty() {
            // A newer version of the row may be elsewhere.
            let seen = &mut report.clone();
            self.rows(database, catalogs, table, (xacts, seen), &mut |row| {
                if row.class != Class::Dead {
                    key.of_row(row.bytes, row.spans).and_then(|key| lost.remove(&key));
                }
            });
        }
        let mut lost: Vec<(Key, Tid)> = lost.into_iter().collect();
        lost.sort_unstable_by_key(|(_, tid)| *tid);
        for (values, tid) in lost {
            if let Some(tuple) = key.row(&values, &table.shapes) {
                show(tid, &tuple)?;
                report.missing_keys = report.missing_keys.saturating_add(1);
            }
        }
        Ok(())
    }
}

/// Shows the entries of leaves of a B-tree; true when all its pages are there and sound.
///
/// Source: `BTMetaPageData` and `BTPageOpaqueData`, `src/include/access/nbtree.h`.
pub(crate) fn leaf_entries(source: &Source, files: &SegmentFiles, show: &mut dyn FnMut(Tid, &[u8])) -> bool {
    let (mut is_sound, mut pages, mut last) = (true, 0, 0);
    let failed = source.pages(files, &mut |block, page| {
        let header = PageHeader::decode(0, page).ok().filter(|header| header.faults(page.len()).is_empty());
        let is_btree = |header: &PageHeader| usize::from(header.special).saturating_add(16) == page.len();
        let header = header.filter(is_btree);
        is_sound &= header.is_some() && has_right_checksum(source, block, page);
        pages = pages.max(block.saturating_add(1));
        let Some(header) = header else { return };
        // The root, or the next page of the level.
        let next = if block == 0 { META_ROOT } else { usize::from(header.special).saturating_add(4) };
        last = u32_at(page, next).unwrap_or(u32::MAX).max(last);
        if block == 0 {
            return;
        }
        let is_leaf = u16_at(page, usize::from(header.special).saturating_add(12)).is_some_and(|flags| flags & 1 == 1);
        for tuple in page_tuples(&header, page).filter(|_| is_leaf) {
            match IndexEntry::decode(&header, page, PageKind::Btree, tuple.item, tuple.bytes) {
                Some(IndexEntry { target: Target::Row(tid), data, .. }) => show(tid, data),
                Some(IndexEntry { target: Target::Rows { rows, .. }, data, .. }) => {
                    rows.into_iter().for_each(|tid| show(tid, data));
                }
                _ => {}
            }
        }
    });
    is_sound && last < pages && failed.is_empty()
}
