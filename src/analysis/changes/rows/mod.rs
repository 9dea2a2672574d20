//! The rows and entries of a page against WAL: what the records up to its LSN put there has to stand there, and what later
//! records find has to be what they need. A page of which that is not true is made up of two versions.
//!
//! `heap` and `list` follow what records do to the items of a page, each in its own way; `agreement` asks them.
//! [`layout`] examines the page alone.
//! Also here: content of a row of a heap page, as a page or a record has it.

pub mod heap;
pub mod layout;
pub(crate) mod list;

use std::borrow::Cow;
use std::ops::Range;

use strum::{IntoStaticStr, VariantNames};

use crate::analysis::changes::page_chain::PageChange;
use crate::analysis::changes::rows::heap::HeapItems;
use crate::analysis::changes::rows::list::{ListItems, early_entry, lost_entry};
use crate::parsers::decode::u16_at;
use crate::parsers::heap::TupleHeader;
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::types::{ForkNumber, Lsn};

/// Why the items of a page are not what WAL makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", prefix = "item_")]
pub enum Misfit {
    /// The item is not what the records up to the page's LSN left there.
    Differs {
        /// Item number, from 1.
        item: usize,
    },
    /// The item names a transaction that no record brought there.
    Unexplained {
        /// Item number, from 1.
        item: usize,
    },
    /// A later record needs a missing item.
    Missing {
        /// Item number, from 1.
        item: usize,
    },
    /// A later record puts something where there is something already.
    Taken {
        /// Item number, from 1.
        item: usize,
    },
}

impl Misfit {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

/// Changes that an image copied without a lock may be ahead of its LSN.
const MAX_AHEAD: usize = 3;

/// A record that the page does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The record.
    pub lsn: Lsn,
    /// The contradiction.
    pub misfit: Misfit,
}

/// How a page and its records fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Fits,
    /// A record was not followed, and the page shows a transaction that it may have brought.
    Unclear,
    Contradicts(Contradiction),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// With the records between them they are the same.
    Same,
    Differs,
    /// Unknown.
    Unclear,
}

/// The items of a page, by the way they are kept.
#[derive(Clone, Debug)]
enum Items<'a> {
    Heap(HeapItems<'a>),
    List(ListItems),
}

impl<'a> Items<'a> {
    fn of(page: &'a [u8]) -> Option<Self> {
        let header = PageHeader::decode(0, page).ok()?;
        match PageKind::of(&header, page, ForkNumber::Main) {
            PageKind::Heap => HeapItems::of(page).map(Self::Heap),
            _ => ListItems::of(page).map(Self::List),
        }
    }

    /// `None` when what the record does is not followed.
    fn apply(&mut self, change: &'a PageChange) -> Option<Result<(), Misfit>> {
        match self {
            Self::Heap(items) => Some(items.apply(change)),
            Self::List(items) => items.apply(change),
        }
    }

    fn difference(&self, other: &Items<'_>) -> Option<usize> {
        match (self, other) {
            (Items::Heap(one), Items::Heap(other)) => one.difference(other),
            (Items::List(one), Items::List(other)) => one.difference(other),
            _ => Some(0),
        }
    }
}

/// Compares a page with the records that touch it, in order of LSN: `before` those up to its LSN, as far back as they are
/// known without a gap, `after` those that replay will do. `is_new` is true for transactions all of whose records are among them,
/// if there are such.
pub(crate) fn against_records(
    page: &[u8],
    before: &[PageChange],
    after: &[PageChange],
    is_new: Option<&dyn Fn(u32) -> bool>,
) -> Fit {
    let Ok(header) = PageHeader::decode(0, page) else { return Fit::Fits };
    let after = match after.first() {
        // What replay begins with does not read the page.
        Some(first) if first.image.is_some() || first.is_init => &[],
        _ => after,
    };
    if PageKind::of(&header, page, ForkNumber::Main) == PageKind::Heap {
        let mut made = HeapItems::unknown();
        for change in before {
            // Only the resulting state matters.
            let _found = made.apply(change);
        }
        let lsn = before.last().map_or(Lsn::INVALID, |change| change.start_lsn);
        let Some(own) = made.same_of(page) else { return Fit::Fits };
        let differs = made.difference(&own).map(|item| Misfit::Differs { item });
        let unexplained = || Some(Misfit::Unexplained { item: made.unexplained(page, is_new?)? });
        if let Some(misfit) = differs.or_else(unexplained) {
            return Fit::Contradicts(Contradiction { lsn, misfit });
        }
        let misfit = if after.is_empty() { None } else { Items::of(page).and_then(|own| first_misfit(own, after)) };
        return match misfit {
            Some(misfit) => Fit::Contradicts(misfit),
            None if made.is_broken() && is_new.is_some() => Fit::Unclear,
            None => Fit::Fits,
        };
    }
    list_misfit(page, before, after).map_or(Fit::Fits, Fit::Contradicts)
}

/// Findings of [`against_records`] in a page of an index.
fn list_misfit(page: &[u8], before: &[PageChange], after: &[PageChange]) -> Option<Contradiction> {
    let own = ListItems::of(page)?;
    // Known after the last record that recreates the page, as long as all records are followed.
    let mut made: Option<ListItems> = None;
    for change in before {
        made = match made {
            _ if change.image.is_some() || change.is_init => ListItems::built_by(change),
            Some(mut items) => matches!(items.apply(change), Some(Ok(()))).then_some(items),
            None => None,
        };
    }
    let made = made.or_else(|| ListItems::keep_their_numbers(page).then(|| ListItems::told_by(before)));
    if let Some(item) = made.and_then(|made| made.difference(&own)) {
        let lsn = before.last().map_or(Lsn::INVALID, |change| change.start_lsn);
        return Some(Contradiction { lsn, misfit: Misfit::Differs { item } });
    }
    if let Some(change) = lost_entry(&own, before) {
        let item = change.main_u16(0).map_or(0, usize::from);
        return Some(Contradiction { lsn: change.start_lsn, misfit: Misfit::Differs { item } });
    }
    if let Some((change, item)) = early_entry(&own, after) {
        return Some(Contradiction { lsn: change.start_lsn, misfit: Misfit::Taken { item } });
    }
    first_misfit(Items::List(own), after)
}

/// The first record that the items do not fit, until one rebuilds the page or is not followed.
fn first_misfit<'a>(mut items: Items<'a>, after: &'a [PageChange]) -> Option<Contradiction> {
    for change in after {
        if change.image.is_some() || change.is_init {
            return None;
        }
        if let Err(misfit) = items.apply(change)? {
            return Some(Contradiction { lsn: change.start_lsn, misfit });
        }
    }
    None
}

/// Compares a page with an image of it: the older of the two, with all records between them, has to be the newer one.
/// `between` is the range of these records among the `changes` of the page.
pub(crate) fn against_image(
    page: &[u8],
    image: &[u8],
    image_is_older: bool,
    changes: &[PageChange],
    between: Range<usize>,
) -> Agreement {
    let (Some(own), Some(other)) = (Items::of(page), Items::of(image)) else { return Agreement::Unclear };
    let (older, newer) = if image_is_older { (&other, &own) } else { (&own, &other) };
    // An image that was copied without a lock may hold the next changes already.
    let attempts = (0..=MAX_AHEAD).filter_map(|ahead| {
        let range = if image_is_older {
            between.start.saturating_add(ahead)..between.end
        } else {
            between.start..between.end.saturating_add(ahead)
        };
        changes.get(range)
    });
    settle(attempts.map(|changes| {
        let made = follow(older, changes)?;
        Some(made.is_some_and(|made| made.difference(newer).is_none()))
    }))
}

/// The items after these changes: `None` when they cannot be followed, `Some(None)` when a change does not fit.
fn follow<'a>(items: &Items<'a>, changes: &'a [PageChange]) -> Option<Option<Items<'a>>> {
    let mut items = items.clone();
    for change in changes {
        if items.apply(change)?.is_err() {
            return Some(None);
        }
    }
    Some(Some(items))
}

/// One attempt that fits is enough; none that fits counts only when the first could be followed.
fn settle(attempts: impl Iterator<Item = Option<bool>>) -> Agreement {
    let attempts: Vec<Option<bool>> = attempts.collect();
    match attempts.first() {
        _ if attempts.contains(&Some(true)) => Agreement::Same,
        Some(Some(false)) if !attempts.contains(&None) => Agreement::Differs,
        _ => Agreement::Unclear,
    }
}

/// Bytes of `xl_heap_header` and what it stands for: number of attributes, flags, offset of the data.
pub(crate) const WAL_TUPLE_HEADER_BYTES: usize = 5;

/// Parts of a row that only an update changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored<'a> {
    /// Number of attributes, and the flags that say how they are stored.
    attributes: u16,
    flags: u16,
    /// `t_hoff`.
    data_offset: u8,
    /// Everything after the header.
    bytes: Cow<'a, [u8]>,
    /// Bytes that WAL does not hold: an update repeats only what it changes.
    unknown: Vec<Range<usize>>,
}

impl<'a> Stored<'a> {
    /// Flags for nulls, variable width, values out of line, OID.
    pub(crate) fn of(infomask2: u16, infomask: u16, data_offset: u8, bytes: Cow<'a, [u8]>) -> Self {
        Self { attributes: infomask2 & 0x07FF, flags: infomask & 0x000F, data_offset, bytes, unknown: Vec::new() }
    }

    /// A row as WAL has it: `xl_heap_header`, the null bitmap, then the data.
    pub(crate) fn of_record(data: &'a [u8]) -> Option<Self> {
        let after = data.get(WAL_TUPLE_HEADER_BYTES..)?;
        let stored = Self::of(u16_at(data, 0)?, u16_at(data, 2)?, *data.get(4)?, Cow::Borrowed(after));
        let is_whole = usize::from(stored.data_offset) >= TupleHeader::SIZE && stored.data_at() <= after.len();
        is_whole.then_some(stored)
    }

    /// The row of an update, whose data lack as many bytes at the start and at the end as it shares with the row before.
    pub(crate) fn of_update(
        data: &'a [u8],
        (prefix, suffix): (usize, usize),
        old: Option<&Stored<'_>>,
    ) -> Option<Self> {
        let stored = Self::of_record(data)?;
        if prefix == 0 && suffix == 0 {
            return Some(stored);
        }
        let (bitmap, own) = stored.bytes.split_at_checked(stored.data_at())?;
        let old = old.filter(|old| prefix.max(suffix) <= old.data().len());
        let mut bytes = Vec::with_capacity(stored.bytes.len().saturating_add(prefix).saturating_add(suffix));
        let mut unknown = Vec::new();
        bytes.extend_from_slice(bitmap);
        share(old, 0..prefix, &mut bytes, &mut unknown);
        bytes.extend_from_slice(own);
        let end = old.map_or(suffix, |old| old.data().len());
        share(old, end.saturating_sub(suffix)..end, &mut bytes, &mut unknown);
        Some(Self { bytes: Cow::Owned(bytes), unknown, ..stored })
    }

    /// Where the data begin, after the null bitmap.
    fn data_at(&self) -> usize {
        usize::from(self.data_offset).saturating_sub(TupleHeader::SIZE)
    }

    fn data(&self) -> &[u8] {
        self.bytes.get(self.data_at()..).unwrap_or_default()
    }

    /// True when all data are known, and are these.
    pub(crate) fn has_data(&self, data: &[u8]) -> bool {
        self.data() == data && self.unknown.iter().all(|range| range.end <= self.data_at())
    }

    /// True when the data may be these.
    pub(crate) fn may_have_data(&self, data: &[u8]) -> bool {
        are_same(self.data(), data, self.unknown.iter().map(|range| below(range, self.data_at())))
    }

    /// The row with other data; `None` when it is too short to have any.
    pub(crate) fn with_data(self, data: &[u8]) -> Option<Self> {
        let at = self.data_at();
        let bytes = [self.bytes.get(..at)?, data].concat();
        let unknown = self.unknown.into_iter().filter(|range| range.end <= at).collect();
        Some(Self { bytes: Cow::Owned(bytes), unknown, ..self })
    }

    pub(crate) fn may_be(&self, other: &Stored<'_>) -> bool {
        let head = |of: &Stored<'_>| (of.attributes, of.flags, of.data_offset);
        head(self) == head(other)
            && are_same(&self.bytes, &other.bytes, self.unknown.iter().chain(&other.unknown).cloned())
    }
}

/// The part of a range from `at` on, counted from there.
fn below(range: &Range<usize>, at: usize) -> Range<usize> {
    range.start.saturating_sub(at)..range.end.saturating_sub(at)
}

/// Adds a part of the data of the row before, unknown where it is.
fn share(old: Option<&Stored<'_>>, part: Range<usize>, bytes: &mut Vec<u8>, unknown: &mut Vec<Range<usize>>) {
    let at = bytes.len();
    let end = at.saturating_add(part.len());
    let Some(old) = old else {
        bytes.resize(end, 0);
        unknown.extend((!part.is_empty()).then_some(at..end));
        return;
    };
    bytes.extend_from_slice(old.data().get(part.clone()).unwrap_or_default());
    let of_part = old.unknown.iter().map(|range| below(&below(range, old.data_at()), part.start));
    let moved = of_part.map(|range| range.start.saturating_add(at)..range.end.saturating_add(at).min(end));
    unknown.extend(moved.filter(|range| !range.is_empty()));
}

/// True when two rows are of one length and the same but for bytes that are not known.
fn are_same(one: &[u8], other: &[u8], unknown: impl Iterator<Item = Range<usize>> + Clone) -> bool {
    let is_known = |at: usize| !unknown.clone().any(|range| range.contains(&at));
    one.len() == other.len()
        && (one == other || one.iter().zip(other).enumerate().all(|(at, (one, other))| one == other || !is_known(at)))
}
