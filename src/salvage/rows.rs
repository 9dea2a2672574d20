//! The rows of a table, each in a class: what belongs to the table, what may, what was deleted, and which pages tell nothing.

use std::collections::BTreeSet;

use roaring::RoaringBitmap;
use strum::IntoStaticStr;

use super::changes::WalTrust;
use super::fit::{Span, fit, fitting_bytes};
use super::keys::{LostItems, LostPlaces};
use super::source::{SegmentFiles, Source};
use super::toast::{Completeness, ToastValues};
use super::xacts::{Visibility, WalFacts, Why, Xacts};
use crate::cluster::open::AccessError;
use crate::parsers::checksum::page_checksum;
use crate::parsers::heap::{PageTuple, TupleHeader, page_tuples};
use crate::parsers::page::{PageHeader, is_all_zero, line_pointer_faults};
use crate::parsers::tuple::columns::ColumnShape;
use crate::types::{Lsn, Oid};

/// Most items of a page of 32 kB: no more tuples than this fit into it.
const MAX_ITEMS: u16 = 1200;

/// Most missing pages of a table that are listed: their number may come from an overwritten row of `pg_class`.
const MAX_MISSING: usize = 1 << 20;

/// Alignment of tuples.
const ALIGNMENT: usize = 8;

/// Least transaction that a user's row may have.
const FIRST_NORMAL_XID: u32 = 3;

/// Why a page gives no rows, or not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum PageLoss {
    /// All bytes are zero: never used, or overwritten.
    Zero,
    /// Its header or its line pointers are destroyed.
    Header,
    /// It is a page of another place.
    Misplaced,
    /// Tuples on it do not fit their columns.
    Tuples,
    /// No file has it: a file is missing, or ends before it.
    Missing,
    /// WAL has changes of it that could not be applied, perhaps new rows.
    Stale,
}

impl PageLoss {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// A tuple with a sound header.
pub(crate) struct SoundTuple<'a> {
    pub item: usize,
    pub offset: usize,
    pub header: TupleHeader,
    pub bytes: &'a [u8],
}

/// The tuples of a page whose header a server could have written.
pub(crate) fn sound_tuples(page: &[u8]) -> impl Iterator<Item = SoundTuple<'_>> {
    let header = PageHeader::decode(0, page).ok().filter(|header| header.faults(page.len()).is_empty());
    let tuples = header.into_iter().flat_map(|header| page_tuples(&header, page));
    tuples.filter_map(|PageTuple { item, offset, bytes }| {
        let header = TupleHeader::decode(0, bytes).ok()?;
        super::fit::is_sound(&header, bytes.len()).then_some(SoundTuple { item, offset, header, bytes })
    })
}

/// True when the page has the checksum of its bytes, or none is kept.
pub(crate) fn has_right_checksum(source: &Source, block: u32, page: &[u8]) -> bool {
    if !source.checksums {
        return true;
    }
    PageHeader::decode(0, page).is_ok_and(|header| header.is_new() || header.checksum == page_checksum(page, block))
}

/// The class of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// It belongs to the table.
    Row,
    Uncertain(Why),
    Dead,
}

/// A row of a table.
pub(crate) struct Row<'a> {
    pub block: u32,
    pub item: u16,
    pub header: TupleHeader,
    pub bytes: &'a [u8],
    pub spans: &'a [Span],
    pub class: Class,
    /// Columns, from 0, whose value in the TOAST table is not whole.
    pub lost: &'a [(usize, u32, u32)],
}

/// A table whose rows are read.
pub(crate) struct Table<'a> {
    /// Database and file number, as WAL names them.
    pub rel: (Oid, u32),
    pub files: &'a SegmentFiles,
    pub shapes: &'a [ColumnShape],
    /// Shapes are guesses: no row is certain.
    pub is_guessed: bool,
    /// Why it is not known whether the file counts.
    pub doubt: Option<Why>,
    /// The transaction that made the file, where its end is not known: its rows may be frozen.
    pub made_by: Option<(u32, Why)>,
    /// Rows with fewer columns lack a value that the lost row of `pg_attribute` had for them.
    pub least_columns: u16,
    /// Pages by `pg_class`.
    pub least_pages: u32,
}

impl<'a> Table<'a> {
    /// A table of which nothing else is known.
    pub const fn plain(rel: (Oid, u32), files: &'a SegmentFiles, shapes: &'a [ColumnShape]) -> Self {
        Self { rel, files, shapes, is_guessed: false, doubt: None, made_by: None, least_columns: 0, least_pages: 0 }
    }
}

/// What a scan of a table found beside rows.
#[derive(Debug, Default)]
pub(crate) struct ScanEnd {
    pub pages: u64,
    /// Pages that gave no row or not all, with the number of tuples that were rejected.
    pub lost: Vec<(u32, PageLoss, u64)>,
    /// Places where a row may have been.
    pub places: LostPlaces,
    pub failed: Vec<AccessError>,
}

/// Shows each row of a table.
pub(crate) fn scan(
    source: &Source,
    table: &Table<'_>,
    (xacts, wal, toast): (&mut Xacts<'_>, &WalFacts, &ToastValues),
    show: &mut dyn FnMut(&Row<'_>),
) -> ScanEnd {
    let mut end = ScanEnd::default();
    let mut scanner = Scanner { source, table, xacts, wal, toast, show, found: Vec::new() };
    let mut read = RoaringBitmap::new();
    end.failed = source.pages(table.files, &mut |block, page| {
        read.insert(block);
        end.pages = end.pages.saturating_add(1);
        end.places.end = end.places.end.max(block.saturating_add(1));
        if let Some((loss, rejected)) = scanner.page(block, page) {
            end.lost.push((block, loss, rejected));
            end.places.add(block, scanner.lost_items(loss, page));
        }
    });
    // A table seldom ends with a whole segment: the next one is missing.
    let is_cut = end.places.end > 0 && u64::from(end.places.end).is_multiple_of(source.segment_pages());
    let mut missing = RoaringBitmap::new();
    missing.insert_range(0..end.places.end.saturating_add(u32::from(is_cut)).max(table.least_pages));
    for block in (missing - read).into_iter().take(MAX_MISSING) {
        end.lost.push((block, PageLoss::Missing, 0));
        end.places.add(block, LostItems::AllBut(BTreeSet::new()));
    }
    end
}

struct Scanner<'a, 's> {
    source: &'a Source,
    table: &'a Table<'a>,
    xacts: &'a mut Xacts<'s>,
    wal: &'a WalFacts,
    toast: &'a ToastValues,
    show: &'a mut dyn FnMut(&Row<'_>),
    /// Items of the page that fit their columns.
    found: Vec<u16>,
}

impl Scanner<'_, '_> {
    /// Items of the page that was read last which are lost.
    fn lost_items(&mut self, loss: PageLoss, page: &[u8]) -> LostItems {
        let found: BTreeSet<u16> = self.found.drain(..).collect();
        let header = PageHeader::decode(0, page).ok().filter(|_| loss == PageLoss::Tuples);
        match header {
            Some(header) => {
                let items = page_tuples(&header, page).filter_map(|tuple| u16::try_from(tuple.item).ok());
                LostItems::These(items.filter(|item| !found.contains(item)).collect())
            }
            None => LostItems::AllBut(found),
        }
    }

    fn page(&mut self, block: u32, page: &[u8]) -> Option<(PageLoss, u64)> {
        self.found.clear();
        if is_all_zero(page) {
            let is_behind = self.source.is_behind(self.table.files, block, Lsn::INVALID);
            return Some((if is_behind { PageLoss::Stale } else { PageLoss::Zero }, 0));
        }
        let header = PageHeader::decode(0, page).ok();
        let header =
            header.filter(|header| header.faults(page.len()).is_empty() && usize::from(header.special) == page.len());
        let Some(header) = header else {
            self.carve(block, page, PageHeader::SIZE, &[]);
            return Some((PageLoss::Header, 0));
        };
        let proven = has_right_checksum(self.source, block, page);
        // The block is part of the checksum.
        let is_in_place = self.source.checksums && proven;
        let tuples: Vec<SoundTuple<'_>> = sound_tuples(page).collect();
        let pointers = page_tuples(&header, page).count();
        let untouched = tuples.iter().filter(|tuple| tuple.header.xmax == 0);
        let (mut here, mut elsewhere) = (0_usize, 0_usize);
        for tuple in untouched {
            // A frozen tuple may lead to the version that an aborted update made.
            if usize::from(tuple.header.ctid_item) == tuple.item {
                let count = if tuple.header.ctid_block == block { &mut here } else { &mut elsewhere };
                *count = count.saturating_add(1);
            }
        }
        if elsewhere > here && !is_in_place {
            return Some((PageLoss::Misplaced, pointers as u64));
        }
        let is_behind = self.source.is_behind(self.table.files, block, header.lsn);
        let changed = self.wal.changed.get(&(self.table.rel.0, self.table.rel.1, block));
        let doubt = if !proven {
            Some(Why::PageChecksum)
        } else if is_behind || changed.is_some_and(|lsn| header.lsn.0 < *lsn) {
            Some(Why::PageBehindWal)
        } else {
            self.doubt_by_wal(block, header.lsn)
        };
        let (mut fitting, mut dead) = (Vec::new(), 0_usize);
        for tuple in &tuples {
            let SoundTuple { item, header, bytes, .. } = tuple;
            let is_here = || header.ctid_block == block && usize::from(header.ctid_item) == *item;
            match fit(header, bytes, self.table.shapes) {
                Some(spans) => fitting.push((tuple, spans)),
                // An aborted transaction may have added columns.
                None if is_here() && self.xacts.insertion(header) == Visibility::Dead => dead = dead.saturating_add(1),
                None => {}
            }
        }
        let rejected = pointers.saturating_sub(fitting.len()).saturating_sub(dead);
        // A page with the right checksum is as a server wrote it, perhaps for another table; without, tuples may be overwritten.
        let is_strange = match self.source.checksums {
            true => rejected > 0,
            false => tuples.len().saturating_sub(fitting.len()).saturating_sub(dead) > fitting.len(),
        };
        let doubt = doubt.or_else(|| is_strange.then_some(Why::PageOfOtherTable));
        let mut taken = Vec::new();
        for (tuple, spans) in &fitting {
            taken.push((tuple.offset, tuple.offset.saturating_add(tuple.bytes.len())));
            let item = u16::try_from(tuple.item).unwrap_or(u16::MAX);
            self.row((block, item), tuple.header, tuple.bytes, spans, doubt);
        }
        let has_faults = !line_pointer_faults(&header, page).is_empty();
        if !proven || has_faults || (rejected > 0 && !self.source.checksums) || self.has_gap(&header, page, &taken) {
            self.carve(block, page, usize::from(header.upper), &taken);
        }
        let loss = match (has_faults, rejected) {
            (true, _) => PageLoss::Header,
            (false, 1..) => PageLoss::Tuples,
            (false, 0) => return is_behind.then_some((PageLoss::Stale, 0)),
        };
        Some((loss, rejected as u64))
    }

    /// The doubt about a page that applied WAL leaves.
    fn doubt_by_wal(&self, block: u32, lsn: Lsn) -> Option<Why> {
        let (start, end) = self.wal.range;
        if lsn <= start || lsn > end {
            return None;
        }
        match self.wal.trust {
            WalTrust::Likely => Some(Why::WalMayBeForeign),
            _ => (!self.source.has_record(self.table.files, block, lsn)).then_some(Why::PageNotInWal),
        }
    }

    /// True when bytes between tuples belong to none, of a page that no checksum proves.
    fn has_gap(&self, header: &PageHeader, page: &[u8], taken: &[(usize, usize)]) -> bool {
        let used: usize = taken.iter().map(|(from, to)| to.saturating_sub(*from).next_multiple_of(ALIGNMENT)).sum();
        !self.source.checksums
            && page.len().saturating_sub(usize::from(header.upper)) > used.saturating_add(TupleHeader::SIZE)
    }

    /// Finds tuples without line pointers: `t_ctid` of an untouched one names its place, and it fits its columns.
    fn carve(&mut self, block: u32, page: &[u8], from: usize, taken: &[(usize, usize)]) {
        let mut at = from.next_multiple_of(ALIGNMENT);
        while at.saturating_add(TupleHeader::SIZE) < page.len() {
            let next = at.saturating_add(ALIGNMENT);
            if let Some((_, end)) = taken.iter().find(|(from, to)| *from <= at && at < *to) {
                at = end.next_multiple_of(ALIGNMENT).max(next);
                continue;
            }
            let limit = taken.iter().map(|(from, _)| *from).filter(|from| *from > at).min().unwrap_or(page.len());
            let bytes = page.get(at..limit).unwrap_or_default();
            let length = TupleHeader::decode(0, bytes).ok().and_then(|header| {
                let is_here = header.ctid_block == block && (1..=MAX_ITEMS).contains(&header.ctid_item);
                let is_possible = is_here && header.xmin >= FIRST_NORMAL_XID && header.attribute_count() > 0;
                let length = is_possible.then(|| fitting_bytes(&header, bytes, self.table.shapes)).flatten()?;
                let tuple = bytes.get(..length)?;
                let spans = fit(&header, tuple, self.table.shapes)?;
                self.row((block, header.ctid_item), header, tuple, &spans, Some(Why::Carved));
                Some(length)
            });
            at = length.map_or(next, |length| at.saturating_add(length).next_multiple_of(ALIGNMENT));
        }
    }

    fn row(
        &mut self,
        (block, item): (u32, u16),
        header: TupleHeader,
        bytes: &[u8],
        spans: &[Span],
        doubt: Option<Why>,
    ) {
        self.found.push(item);
        let mut lost = Vec::new();
        let is_guessed = self.table.is_guessed || header.attribute_count() < self.table.least_columns;
        let made_by = self.table.made_by.filter(|(xid, _)| *xid == header.xmin).map(|(_, why)| why);
        let doubt = doubt.or(self.table.doubt).or(made_by);
        let mut doubt = doubt.or_else(|| is_guessed.then_some(Why::GuessedColumns));
        for (span, external) in spans.iter().filter_map(|span| Some((span, span.external?))) {
            match self.toast.of(&external) {
                Completeness::Whole => {}
                Completeness::Unproven => doubt = doubt.or(Some(Why::PageChecksum)),
                Completeness::Partial { chunks, expected } => lost.push((span.column, chunks, expected)),
            }
        }
        let class = match (self.xacts.visibility(&header), doubt) {
            (Visibility::Dead, _) => Class::Dead,
            (Visibility::Unsure(why), _) => Class::Uncertain(why),
            (Visibility::Live, Some(why)) => Class::Uncertain(why),
            (Visibility::Live, None) => Class::Row,
        };
        (self.show)(&Row { block, item, header, bytes, spans, class, lost: &lost });
    }
}
