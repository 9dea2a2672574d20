//! The damage map: damaged pages by relation, by verdict or one by one, as the rows of a list.

use std::collections::{BTreeMap, BTreeSet};

use super::look::columns;
use crate::analysis::verdict::judge::Verdict;
use crate::types::{ForkNumber, PageId, RelFileLocator};

/// How a page that is not judged yet is called.
pub(crate) const PENDING: &str = "pending";

/// The letter that stands for a verdict; a question mark without one.
pub(crate) fn verdict_letter(verdict: Option<Verdict>) -> char {
    verdict.map_or('?', |verdict| verdict.facts().letter)
}

/// A verdict by name; [`PENDING`] without one.
pub(crate) fn verdict_name(verdict: Option<Verdict>) -> &'static str {
    verdict.map_or(PENDING, |verdict| verdict.facts().label)
}

/// Sorts the worst first: a page that is not judged yet may turn out to be the worst.
fn worst_first(verdict: Option<Verdict>) -> std::cmp::Reverse<Verdict> {
    std::cmp::Reverse(verdict.unwrap_or(Verdict::NoImage))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// A row for each relation and fork, the worst first.
    #[default]
    Relation,
    /// A row for each verdict, the worst first.
    Verdict,
    /// A row for each page, by relation, fork and block.
    Block,
}

impl Grouping {
    pub const ALL: [Self; 3] = [Self::Relation, Self::Verdict, Self::Block];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Relation => "relation",
            Self::Verdict => "verdict",
            Self::Block => "block",
        }
    }
}

/// A damaged page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapPage {
    pub page: PageId,
    /// The verdict; `None` while it is not judged.
    pub verdict: Option<Verdict>,
}

/// Meaning of a row with several pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    Relation(RelFileLocator, ForkNumber),
    /// A verdict; `None`: pages that are not judged yet.
    Verdict(Option<Verdict>),
}

/// Pages that share a relation or a verdict.
#[derive(Clone, Debug)]
pub struct Group {
    pub key: GroupKey,
    /// Indexes into the pages of the map, by relation, fork and block.
    pub pages: Vec<usize>,
    /// The worst verdict among them.
    pub worst: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A group, by its index.
    Group(usize),
    /// A page, by its index; below its group, where there are groups.
    Page(usize),
}

/// Subject of a row, whatever its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKey {
    Group(GroupKey),
    Page(PageId),
}

/// Options of the list.
#[derive(Clone, Debug, Default)]
pub struct MapOrder {
    pub grouping: Grouping,
    pub is_reversed: bool,
    pub opened: BTreeSet<GroupKey>,
}

/// Damaged pages as the rows of a list.
#[derive(Clone, Debug, Default)]
pub struct DamageMap {
    /// The pages that are listed, by relation, fork and block.
    pub pages: Vec<MapPage>,
    /// Groups, in the order of the list; none where pages are listed one by one.
    pub groups: Vec<Group>,
    pub rows: Vec<Row>,
    pub total: usize,
    pub name_columns: usize,
}

impl DamageMap {
    /// Lists `pages`, which are ordered by identity. `total`: how many there are with those that are not listed; `called`:
    /// how a relation is called.
    pub fn of(pages: Vec<MapPage>, total: usize, order: &MapOrder, called: &dyn Fn(RelFileLocator) -> String) -> Self {
        let key = |one: &MapPage| match order.grouping {
            Grouping::Relation => Some(GroupKey::Relation(one.page.rel, one.page.fork)),
            Grouping::Verdict => Some(GroupKey::Verdict(one.verdict)),
            Grouping::Block => None,
        };
        let mut names: BTreeMap<RelFileLocator, String> = BTreeMap::new();
        let mut gathered: BTreeMap<GroupKey, Vec<usize>> = BTreeMap::new();
        for (at, one) in pages.iter().enumerate() {
            names.entry(one.page.rel).or_insert_with(|| called(one.page.rel));
            if let Some(key) = key(one) {
                gathered.entry(key).or_default().push(at);
            }
        }
        let name_columns = pages.iter().map(|one| name_width(&names, one.page)).max().unwrap_or(0);
        let verdict = |at: &usize| pages.get(*at).and_then(|one| one.verdict);
        let worst = |pages: &[usize]| pages.iter().map(verdict).min_by_key(|one| worst_first(*one)).flatten();
        let group = |(key, pages): (GroupKey, Vec<usize>)| Group { worst: worst(&pages), key, pages };
        let mut groups: Vec<Group> = gathered.into_iter().map(group).collect();
        // Relations of the same kind of damage stand by number of pages, then by name: databases side by side.
        groups.sort_by_cached_key(|group| {
            let name = match group.key {
                GroupKey::Relation(rel, _) => names.get(&rel).cloned().unwrap_or_default(),
                GroupKey::Verdict(_) => String::new(),
            };
            (worst_first(group.worst), std::cmp::Reverse(group.pages.len()), name)
        });
        if order.is_reversed {
            groups.reverse();
        }
        let mut rows = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            rows.push(Row::Group(at));
            if order.opened.contains(&group.key) && !group.is_page() {
                rows.extend(group.pages.iter().map(|page| Row::Page(*page)));
            }
        }
        if order.grouping == Grouping::Block {
            rows.extend((0..pages.len()).map(Row::Page));
            if order.is_reversed {
                rows.reverse();
            }
        }
        Self { pages, groups, rows, total, name_columns }
    }

    pub fn group(&self, row: usize) -> Option<&Group> {
        match self.rows.get(row)? {
            Row::Group(at) => self.groups.get(*at),
            Row::Page(_) => None,
        }
    }

    /// The one page that a row stands for: also that of a relation with one damaged page.
    pub fn page(&self, row: usize) -> Option<MapPage> {
        let at = match self.rows.get(row)? {
            Row::Group(at) => self.groups.get(*at).filter(|group| group.is_page())?.pages.first()?,
            Row::Page(at) => at,
        };
        self.pages.get(*at).copied()
    }

    /// The page of a row; of a group the first one with its worst verdict.
    pub(crate) fn worst_page(&self, row: usize) -> Option<PageId> {
        let of_group = || {
            let group = self.group(row)?;
            group.pages.iter().filter_map(|at| self.pages.get(*at)).find(|one| one.verdict == group.worst).copied()
        };
        self.page(row).or_else(of_group).map(|one| one.page)
    }

    pub fn key(&self, row: usize) -> Option<RowKey> {
        match self.rows.get(row)? {
            Row::Group(at) => self.groups.get(*at).map(|group| RowKey::Group(group.key)),
            Row::Page(at) => self.pages.get(*at).map(|one| RowKey::Page(one.page)),
        }
    }

    /// The row of this page, else of the group that holds it.
    pub fn row_of(&self, page: PageId) -> Option<usize> {
        let is_page = |at: &usize| self.pages.get(*at).is_some_and(|one| one.page == page);
        let by_page = self.rows.iter().position(|row| matches!(row, Row::Page(at) if is_page(at)));
        by_page.or_else(|| {
            let group = self.groups.iter().position(|group| group.pages.iter().any(&is_page))?;
            self.rows.iter().position(|row| *row == Row::Group(group))
        })
    }

    /// The row that is about this, else the one that comes closest.
    pub(crate) fn row_of_key(&self, key: RowKey) -> Option<usize> {
        match key {
            RowKey::Page(page) => self.row_of(page),
            RowKey::Group(key) => (0..self.rows.len()).find(|row| self.key(*row) == Some(RowKey::Group(key))),
        }
    }

    /// The group whose pages a row stands among.
    pub fn parent(&self, row: usize) -> Option<usize> {
        (0..row).rev().find(|at| matches!(self.rows.get(*at), Some(Row::Group(_))))
    }
}

impl Group {
    /// A relation with one damaged page: the row stands for the page.
    pub const fn is_page(&self) -> bool {
        self.pages.len() == 1 && matches!(self.key, GroupKey::Relation(..))
    }
}

/// A relation and its fork, where that is not the main one.
pub(crate) fn with_fork(name: &str, fork: ForkNumber) -> String {
    if fork == ForkNumber::Main { name.to_owned() } else { format!("{name} {fork}") }
}

fn name_width(names: &BTreeMap<RelFileLocator, String>, page: PageId) -> usize {
    let fork = if page.fork == ForkNumber::Main { 0 } else { 1 + page.fork.name().len() };
    names.get(&page.rel).map_or(0, |name| columns(name)) + fork
}

/// Some neighbouring blocks of a fork.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StripCell {
    /// The worst verdict; `None`: no damage here.
    pub worst: Option<Option<Verdict>>,
    pub damaged: u64,
    pub blocks: u64,
}

impl StripCell {
    /// The letter of the worst verdict, small where less than half is damaged; `None` without damage.
    pub fn letter(&self) -> Option<char> {
        let letter = verdict_letter(self.worst?);
        Some(if self.damaged * 2 < self.blocks { letter.to_ascii_lowercase() } else { letter })
    }
}

/// Some damaged pages of a fork with so many blocks in so many parts.
pub(super) fn strip_of(pages: impl Iterator<Item = MapPage>, blocks: u64, cells: usize) -> Vec<StripCell> {
    let end = |at: usize| (at as u64 * blocks).div_ceil(cells.max(1) as u64);
    let cell = |at| StripCell { blocks: end(at + 1) - end(at), ..StripCell::default() };
    let mut strip: Vec<StripCell> = (0..cells).map(cell).collect();
    for one in pages {
        let at = u64::from(one.page.block) * cells as u64 / blocks.max(1);
        if let Some(cell) = usize::try_from(at).ok().and_then(|at| strip.get_mut(at)) {
            cell.damaged += 1;
            if cell.worst.is_none_or(|shown| worst_first(one.verdict) < worst_first(shown)) {
                cell.worst = Some(one.verdict);
            }
        }
    }
    strip
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rel_number: u32, block: u32, verdict: Verdict) -> MapPage {
        let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number };
        MapPage { page: PageId { rel, fork: ForkNumber::Main, block }, verdict: Some(verdict) }
    }

    fn pages() -> Vec<MapPage> {
        vec![
            page(1, 4, Verdict::Restore),
            page(2, 0, Verdict::HealsInReplay),
            page(2, 9, Verdict::NoImage),
            page(3, 1, Verdict::Restore),
            page(3, 2, Verdict::Restore),
        ]
    }

    fn map(order: &MapOrder) -> DamageMap {
        DamageMap::of(pages(), 5, order, &|rel| format!("r{}", rel.rel_number))
    }

    fn numbers(map: &DamageMap) -> Vec<(u32, u32)> {
        (0..map.rows.len())
            .filter_map(|row| map.worst_page(row))
            .map(|page| (page.rel.rel_number, page.block))
            .collect()
    }

    #[test]
    fn the_worst_relation_comes_first_then_the_one_with_more_pages() {
        let mut order = MapOrder::default();
        assert_eq!(numbers(&map(&order)), [(2, 9), (3, 1), (1, 4)]);
        order.is_reversed = true;
        assert_eq!(numbers(&map(&order)), [(1, 4), (3, 1), (2, 9)]);
    }

    #[test]
    fn pages_stand_below_a_group_that_is_open() {
        let first = map(&MapOrder::default());
        let Some(RowKey::Group(key)) = first.key(0) else { panic!("a group") };
        let order = MapOrder { opened: BTreeSet::from([key]), ..MapOrder::default() };
        let opened = map(&order);
        assert_eq!(numbers(&opened), [(2, 9), (2, 0), (2, 9), (3, 1), (1, 4)]);
        assert_eq!((opened.page(0), opened.page(2).map(|one| one.page.block)), (None, Some(9)));
        assert_eq!((opened.parent(2), opened.row_of(pages()[2].page)), (Some(0), Some(2)));
        assert_eq!(first.row_of(pages()[2].page), Some(0), "a closed group holds the page");
        assert_eq!(first.page(2).map(|one| one.page.block), Some(4), "one damaged page: the row is the page");
    }

    #[test]
    fn by_verdict_and_one_by_one() {
        let by_verdict = map(&MapOrder { grouping: Grouping::Verdict, ..MapOrder::default() });
        let worst: Vec<_> = by_verdict.groups.iter().map(|group| verdict_name(group.worst)).collect();
        assert_eq!(worst, ["no image", "restore", "fixed by recovery"]);
        let single = map(&MapOrder { grouping: Grouping::Block, ..MapOrder::default() });
        assert_eq!((single.rows.len(), numbers(&single)[2]), (5, (2, 9)));
    }

    #[test]
    fn a_cell_of_the_strip_shows_the_worst_of_its_blocks() {
        let letters = |cells: usize, blocks: u64| -> String {
            let pages = pages().into_iter().filter(|one| one.page.rel.rel_number == 2);
            let strip = strip_of(pages, blocks, cells);
            strip.into_iter().map(|cell| cell.letter().unwrap_or('.')).collect()
        };
        assert_eq!(letters(10, 10), "H........N");
        assert_eq!(letters(5, 10), "H...N");
        assert_eq!(letters(1, 10), "n", "2 of 10");
        assert_eq!(letters(3, 10), "h.n");
        assert_eq!(letters(10, 100), "n.........");
    }
}
