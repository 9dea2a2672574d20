//! References between pages of an index: a referenced page must exist and agree.
//!
//! Links are gathered while all pages are read for other reasons, and compared when an index ends: 32 bytes for each page
//! of the largest index.
//!
//! Startup replays WAL after the redo point, and until then pages of one index are from different points in time. So two pages
//! are compared only when neither was changed after the redo point: then both are as they were at that moment.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::parsers::page::PageHeader;
use crate::parsers::page_links::{HashBuckets, IndexFamily, PageLinks};
use crate::report::{Finding, Rule, rules};
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId, RelFileLocator};

/// Pages of one index that are compared, 512 GiB of it; a larger one is reported as not compared.
const MAX_INDEX_PAGES: usize = 1 << 26;

/// Stands for "none" in an [`Entry`] and for "any" in the group of a [`Child`].
const NONE: u32 = u32::MAX;

/// Broken links of each sort that are kept, of all indexes together; the others are counted.
const MAX_BROKEN_LINKS: usize = 10_000;

/// Broken links that are findings of their own; the others are counted in one.
const MAX_FINDINGS: usize = 100;

/// Of so many pages that are gone with whole files at least one is named by those that are left: a page of an index names hundreds.
const MAX_UNNAMED: u64 = 10_000;

/// Role of one page for the page that refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkRole {
    /// Its left sibling.
    Left,
    /// Its right sibling.
    Right,
    /// A page one level further down, or the root that a metapage names.
    Child,
    /// The page of the table that holds a row of it.
    Row,
    /// The page of the table that a bit of its visibility map stands for.
    Visible,
}

/// A page, and as what it names another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedBy {
    /// The page that names the other.
    pub page: PageId,
    /// Role of the other page.
    pub role: LinkRole,
}

/// Fault of a page that another one refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumIter)]
pub enum LinkFault {
    /// It is all zero.
    Zeroed,
    /// The file ends before it.
    BeyondEnd,
    /// It was deleted from the index.
    Deleted,
    /// It is a page of something else.
    OtherKind,
    /// It names another page, or none, on the side where that page should stand.
    OtherSibling {
        /// The page that it names.
        found: Option<BlockNumber>,
    },
    /// The visibility map has a bit of it, and it is not marked all-visible.
    NotAllVisible,
    /// It has another level, bucket or tree.
    OtherGroup {
        /// Value on the page.
        found: u32,
        /// Value on the referring page.
        expected: u32,
    },
}

impl LinkFault {
    /// Stable name for programs.
    pub const fn code(self) -> &'static str {
        self.rule().code
    }

    /// The rule of the finding about it.
    const fn rule(self) -> &'static Rule {
        match self {
            Self::Zeroed => &NAMED_PAGE_ZEROED,
            Self::BeyondEnd => &NAMED_PAGE_MISSING,
            Self::Deleted => &NAMED_PAGE_DELETED,
            Self::OtherKind => &NAMED_PAGE_OF_OTHER_KIND,
            Self::NotAllVisible => &MAP_AHEAD,
            Self::OtherSibling { .. } => &SIBLINGS_DISAGREE,
            Self::OtherGroup { .. } => &LEVELS_DISAGREE,
        }
    }
}

/// A page that is not what another page of its index says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenLink {
    /// The page that is named.
    pub page: PageId,
    /// By whom.
    pub by: NamedBy,
    /// The fault.
    pub fault: LinkFault,
    /// No replay changes the page that names it: what it says holds now. Without this, only WAL shows whether replay
    /// builds the named page.
    pub is_settled: bool,
    /// Whole files of the relation would have to be gone together with the named page, and hardly any of their pages is named.
    pub is_impossible: bool,
}

impl BrokenLink {
    /// The page that names the other.
    pub const fn namer(&self) -> PageId {
        self.by.page
    }
}

/// Facts from a scan about a page of a main fork, or about several consecutive pages.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// Pages that are all zero.
    Zeroed(Range<BlockNumber>),
    Unlinked(Range<BlockNumber>),
    Linked(BlockNumber, Box<PageLinks>, Lsn),
}

impl Seen {
    /// The next page of the same file, which is not damaged.
    pub(crate) fn of(page: &[u8], block: BlockNumber) -> Option<Self> {
        let header = PageHeader::decode(0, page).ok()?;
        let alone = block..block.saturating_add(1);
        Some(if header.is_new() {
            Self::Zeroed(alone)
        } else if let Some(links) = PageLinks::of(&header, page, ForkNumber::Main) {
            Self::Linked(block, Box::new(links), header.lsn)
        } else {
            Self::Unlinked(alone)
        })
    }

    /// Takes in what follows, if it is more of the same.
    pub(crate) fn join(&mut self, next: &Self) -> bool {
        match (self, next) {
            (Self::Zeroed(blocks), Self::Zeroed(more)) | (Self::Unlinked(blocks), Self::Unlinked(more))
                if blocks.end == more.start =>
            {
                blocks.end = more.end;
                true
            }
            _ => false,
        }
    }
}

/// One page of an index.
#[derive(Clone, Copy)]
struct Entry {
    block: BlockNumber,
    left: BlockNumber,
    right: BlockNumber,
    group: u32,
    family: IndexFamily,
    is_deleted: bool,
    is_settled: bool,
}

/// A page that another one names as its child.
#[derive(Clone, Copy)]
struct Child {
    block: BlockNumber,
    parent: BlockNumber,
    group: u32,
}

/// Gathers what the pages of one relation after the other say, and compares it at the end of each.
pub(crate) struct LinkCheck {
    redo_lsn: Lsn,
    file_blocks: BlockNumber,
    fork: Option<IndexFork>,
    pub report: LinkReport,
    /// Broken links in it that hold now, and those that only WAL can decide.
    settled: usize,
    open: usize,
}

struct IndexFork {
    rel: RelFileLocator,
    /// The block at which it ends, where that is known.
    end: Option<u64>,
    entries: Vec<Entry>,
    children: Vec<Child>,
    buckets: Option<(BlockNumber, Box<HashBuckets>)>,
    zeroed: Vec<Range<BlockNumber>>,
    unlinked: Vec<Range<BlockNumber>>,
    is_cut: bool,
}

impl LinkCheck {
    /// A check on a cluster whose replay begins at `redo_lsn`, or that needs none and had its last checkpoint there. `file_blocks`:
    /// pages of a file of a relation.
    pub(crate) const fn new(redo_lsn: Lsn, file_blocks: BlockNumber) -> Self {
        Self { redo_lsn, file_blocks, fork: None, report: LinkReport::new(), settled: 0, open: 0 }
    }

    /// The relation that the next pages are of. `end`: the block at which it ends, where that is known.
    pub(crate) fn begin(&mut self, rel: RelFileLocator, end: impl FnOnce() -> Option<u64>) {
        if self.fork.as_ref().is_some_and(|fork| fork.rel == rel) {
            return;
        }
        self.finish();
        self.fork = Some(IndexFork {
            rel,
            end: end(),
            entries: Vec::new(),
            children: Vec::new(),
            buckets: None,
            zeroed: Vec::new(),
            unlinked: Vec::new(),
            is_cut: false,
        });
    }

    pub(crate) fn add(&mut self, seen: Seen) {
        let Some(fork) = &mut self.fork else { return };
        let (block, links, lsn) = match seen {
            Seen::Zeroed(blocks) => return extend(&mut fork.zeroed, blocks),
            Seen::Unlinked(blocks) => return extend(&mut fork.unlinked, blocks),
            Seen::Linked(block, links, lsn) => (block, links, lsn),
        };
        if fork.entries.len() >= MAX_INDEX_PAGES || fork.children.len() >= MAX_INDEX_PAGES {
            fork.is_cut = true;
            return;
        }
        let &PageLinks { family, group, left, right, is_deleted, .. } = links.as_ref();
        let (left, right) = (left.unwrap_or(NONE), right.unwrap_or(NONE));
        let is_settled = lsn <= self.redo_lsn;
        fork.entries.push(Entry { block, left, right, group, family, is_deleted, is_settled });
        let group = links.child_group.unwrap_or(NONE);
        fork.children.extend(links.children.iter().map(|named| Child { block: *named, parent: block, group }));
        fork.buckets = fork.buckets.take().or(links.buckets.map(|buckets| (block, buckets)));
    }

    /// Compares the pages of the relation that was read last.
    pub(crate) fn finish(&mut self) {
        let Some(fork) = self.fork.take() else { return };
        if fork.is_cut {
            self.report.too_large.push(fork.rel);
            return;
        }
        let far = fork.impossible(self.file_blocks);
        let mut broken = |block, by, role, fault: Option<(LinkFault, bool)>| {
            let Some((fault, is_settled)) = fault else { return };
            let kept = if is_settled { &mut self.settled } else { &mut self.open };
            if *kept < MAX_BROKEN_LINKS {
                *kept = kept.saturating_add(1);
                let page = PageId { rel: fork.rel, fork: ForkNumber::Main, block };
                let by = NamedBy { page: PageId { block: by, ..page }, role };
                let is_impossible = fault == LinkFault::BeyondEnd && far.contains(&block);
                self.report.broken.push(BrokenLink { page, by, fault, is_settled, is_impossible });
            } else if is_settled {
                self.report.further = self.report.further.saturating_add(1);
            } else {
                self.report.further_open = self.report.further_open.saturating_add(1);
            }
        };
        for entry in fork.entries.iter().filter(|entry| !entry.is_deleted) {
            for (role, block) in [(LinkRole::Left, entry.left), (LinkRole::Right, entry.right)] {
                if block != NONE {
                    broken(block, entry.block, role, fork.sibling_fault(entry, role, block));
                }
            }
        }
        for child in &fork.children {
            broken(child.block, child.parent, LinkRole::Child, fork.child_fault(child));
        }
        let Some((parent, buckets)) = &fork.buckets else { return };
        for bucket in 0..=buckets.highest() {
            let Some(block) = buckets.block(bucket) else { break };
            let fault = fork.child_fault(&Child { block, parent: *parent, group: bucket });
            broken(block, *parent, LinkRole::Child, fault);
            // The metapage may say any number; what lies past the end of the file is missing from here on.
            if fork.entries.last().is_none_or(|last| last.block < block) && !holds(&fork.zeroed, block) {
                break;
            }
        }
    }
}

/// Of blocks that are named, those past the end of a relation of files of so many blocks that cannot have been: with them
/// whole files would have to be gone, and hardly any page of those is named.
pub(crate) fn impossible_blocks(named: Vec<BlockNumber>, end: u64, file_blocks: BlockNumber) -> BTreeSet<BlockNumber> {
    let mut beyond = named;
    beyond.retain(|block| u64::from(*block) >= end);
    beyond.sort_unstable();
    beyond.dedup();
    let is_impossible = |block: &BlockNumber| {
        let file_start = block.checked_div(file_blocks).unwrap_or_default().saturating_mul(file_blocks);
        let Some(gone) = u64::from(file_start).checked_sub(end).filter(|gone| *gone > 0) else { return false };
        beyond.partition_point(|named| *named < file_start) as u64 <= gone / MAX_UNNAMED
    };
    beyond.iter().copied().filter(is_impossible).collect()
}

impl IndexFork {
    /// Fault of the page that `entry` refers to, and whether it holds now.
    fn sibling_fault(&self, entry: &Entry, role: LinkRole, block: BlockNumber) -> Option<(LinkFault, bool)> {
        if let Some(fault) = self.absent(block) {
            return Some((fault, entry.is_settled));
        }
        if entry.is_settled && holds(&self.unlinked, block) {
            return Some((LinkFault::OtherKind, true));
        }
        let other = self.find(block).filter(|other| entry.is_settled && other.is_settled)?;
        let back = if role == LinkRole::Left { other.right } else { other.left };
        let fault = if other.family != entry.family {
            LinkFault::OtherKind
        } else if other.is_deleted {
            return entry.family.forgets_deleted().then_some((LinkFault::Deleted, true));
        } else if other.group != entry.group {
            LinkFault::OtherGroup { found: other.group, expected: entry.group }
        } else if entry.family.links_both_ways() && back != entry.block {
            LinkFault::OtherSibling { found: Some(back).filter(|back| *back != NONE) }
        } else {
            return None;
        };
        Some((fault, true))
    }

    fn child_fault(&self, child: &Child) -> Option<(LinkFault, bool)> {
        let is_settled = self.find(child.parent).is_some_and(|parent| parent.is_settled);
        if let Some(fault) = self.absent(child.block) {
            return Some((fault, is_settled));
        }
        let other = self.find(child.block).filter(|other| is_settled && other.is_settled)?;
        let (found, expected) = (other.group, child.group);
        let fault = if other.is_deleted {
            other.family.forgets_deleted().then_some(LinkFault::Deleted)
        } else {
            (expected != NONE && found != expected).then_some(LinkFault::OtherGroup { found, expected })
        };
        fault.map(|fault| (fault, true))
    }

    /// Pages past the end that are named and cannot have been: see [`BrokenLink::is_impossible`].
    fn impossible(&self, file_blocks: BlockNumber) -> BTreeSet<BlockNumber> {
        let Some(end) = self.end else { return BTreeSet::new() };
        let siblings =
            self.entries.iter().filter(|entry| !entry.is_deleted).flat_map(|entry| [entry.left, entry.right]);
        let named = siblings.filter(|block| *block != NONE).chain(self.children.iter().map(|child| child.block));
        impossible_blocks(named.collect(), end, file_blocks)
    }

    fn absent(&self, block: BlockNumber) -> Option<LinkFault> {
        if self.end.is_some_and(|end| u64::from(block) >= end) {
            return Some(LinkFault::BeyondEnd);
        }
        holds(&self.zeroed, block).then_some(LinkFault::Zeroed)
    }

    fn find(&self, block: BlockNumber) -> Option<&Entry> {
        let at = self.entries.binary_search_by_key(&block, |entry| entry.block).ok()?;
        self.entries.get(at)
    }
}

/// Adds blocks that lie after all others.
fn extend(ranges: &mut Vec<Range<BlockNumber>>, blocks: Range<BlockNumber>) {
    match ranges.last_mut() {
        Some(last) if last.end == blocks.start => last.end = blocks.end,
        _ => ranges.push(blocks),
    }
}

fn holds(ranges: &[Range<BlockNumber>], block: BlockNumber) -> bool {
    let after = ranges.partition_point(|range| range.start <= block);
    after.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|range| range.contains(&block))
}

/// Result of following links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// Pages that are not what another page of their index says, by relation.
    pub broken: Vec<BrokenLink>,
    /// How many more of these there are.
    pub further: u64,
    /// How many more there are that hold only if replay does not build the named page.
    pub further_open: u64,
    /// Indexes whose pages were not compared, for their size.
    pub too_large: Vec<RelFileLocator>,
}

impl LinkReport {
    const fn new() -> Self {
        Self { broken: Vec::new(), further: 0, further_open: 0, too_large: Vec::new() }
    }

    /// Findings about the links that `is_reported` takes, one a page; `locate` gives the path of a page's file and the offset
    /// in it. `exists`: the catalog has the relation beyond doubt. Files of others may be what an index build left
    /// that never finished.
    pub fn findings(
        &self,
        is_reported: &dyn Fn(&BrokenLink) -> bool,
        exists: &dyn Fn(RelFileLocator) -> bool,
        locate: &dyn Fn(PageId) -> (String, u64),
    ) -> Vec<Finding> {
        let mut reported: Vec<&BrokenLink> = self.broken.iter().filter(|link| is_reported(link)).collect();
        reported.sort_by_key(|link| link.page);
        let (mut findings, mut further, mut uncertain) = (Vec::new(), self.further, 0_u64);
        for links in reported.chunk_by(|one, other| one.page == other.page) {
            let Some(first) = links.first() else { continue };
            if !exists(first.page.rel) {
                uncertain = uncertain.saturating_add(1);
            } else if findings.len() < MAX_FINDINGS {
                let (path, offset) = locate(first.page);
                let faults: Vec<String> = links.iter().map(ToString::to_string).collect();
                let what = format!("block {}: {}", first.page.block, faults.join("; "));
                findings.push(first.fault.rule().problem(what).in_file(&path).at(offset));
            } else {
                further = further.saturating_add(1);
            }
        }
        if further > 0 {
            findings.push(BROKEN_LINKS.problem(format!("further index pages that contradict others: {further}")));
        }
        if uncertain > 0 {
            findings.push(LINKS_UNCERTAIN.note(format!(
                "index pages that contradict others, in files that the catalog does not confirm: {uncertain}"
            )));
        }
        if self.further_open > 0 {
            findings.push(LINKS_NOT_LOOKED_UP.note(format!(
                "more index pages that others link to and that do not exist yet: {}",
                self.further_open
            )));
        }
        for rel in &self.too_large {
            findings.push(LINKS_NOT_FOLLOWED.note(format!(
                "links between the pages of {rel} were not followed: more than {} pages",
                MAX_INDEX_PAGES
            )));
        }
        findings
    }
}

const INDEX_IS_DAMAGED: &str = "the index is damaged: searches through it miss rows or fail; REINDEX rebuilds it";

rules! {
    NAMED_PAGE_ZEROED: Pages "named_page_zeroed",
        why: INDEX_IS_DAMAGED,
        means: "A zeroed page is referenced by another page of the index, an index entry, or a bit of the visibility \
            map",
        action: "An index: `REINDEX`. A table: rows are lost; find the file, or the rows in a backup";
    NAMED_PAGE_MISSING: Pages "named_page_missing",
        why: INDEX_IS_DAMAGED,
        means: "The file ends before a page that is referenced as above",
        action: "An index: `REINDEX`. A table: rows are lost; find the file, or the rows in a backup";
    NAMED_PAGE_DELETED: Pages "named_page_deleted",
        why: INDEX_IS_DAMAGED,
        means: "A deleted page is referenced by another page of the index",
        action: "`REINDEX`";
    NAMED_PAGE_OF_OTHER_KIND: Pages "named_page_of_other_kind",
        why: INDEX_IS_DAMAGED,
        means: "A page of another kind is referenced by another page of the index",
        action: "`REINDEX`";
    MAP_AHEAD: Pages "map_ahead",
        why: "map and table are from different times: index-only scans return deleted rows. If the table is right, \
            pg_truncate_visibility_map() and VACUUM rebuild the map",
        means: "After a clean shutdown: the visibility map has a bit for a page that is not marked all-visible, so \
            page and map are from different times",
        action: "Check for lost writes: rows of the page may be outdated. `VACUUM (DISABLE_PAGE_SKIPPING)` fixes the \
            map";
    SIBLINGS_DISAGREE: Pages "siblings_disagree",
        why: INDEX_IS_DAMAGED,
        means: "Two neighbours in an index do not link to each other",
        action: "`REINDEX`";
    LEVELS_DISAGREE: Pages "levels_disagree",
        why: INDEX_IS_DAMAGED,
        means: "An index page has another level, bucket or tree than the page that refers to it says",
        action: "`REINDEX`";
    BROKEN_LINKS: Pages "broken_links",
        why: "amcheck reports more about each index",
        means: "More such pages than are listed individually",
        action: "Run amcheck";
    LINKS_UNCERTAIN: Pages "links_uncertain",
        why: "an index build that a crash interrupted leaves such files, or the catalog could not be read",
        means: "Such pages in files that are not in the catalog",
        action: "Check the gaps in the catalog first";
    LINKS_NOT_LOOKED_UP: Pages "links_not_looked_up",
        why: "recovery creates such pages; whether it creates each of these was not checked",
        means: "References to pages that only recovery creates, more than were checked",
        action: "Check again after recovery";
    LINKS_NOT_FOLLOWED: Pages "links_not_followed",
        why: "its pages were checked individually; amcheck shows whether they agree",
        means: "An index too large to compare its pages with each other",
        action: "Run amcheck";
    LINKS_OF_DAMAGED_PAGES: Pages "links_of_damaged_pages",
        why: "a torn page may contain links that never existed: check again after the repair",
        means: "Pages that only damaged pages contradict",
        action: "Check again after the repair";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links of an index of `end` pages, whose files hold four each, that are called impossible: its page 1 names these as children.
    fn impossible(end: u64, children: &[BlockNumber]) -> Vec<BlockNumber> {
        let mut check = LinkCheck::new(Lsn(100), 4);
        check.begin(RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 2658 }, || Some(end));
        let links = PageLinks {
            family: IndexFamily::Gist,
            group: 0,
            left: None,
            right: None,
            children: children.to_vec(),
            child_group: None,
            buckets: None,
            is_deleted: false,
        };
        check.add(Seen::Linked(1, Box::new(links), Lsn(50)));
        check.finish();
        let absent: Vec<&BrokenLink> = check.report.broken.iter().collect();
        assert!(absent.iter().all(|link| link.fault == LinkFault::BeyondEnd && link.namer().block == 1));
        absent.iter().filter(|link| link.is_impossible).map(|link| link.page.block).collect()
    }

    const NO_BLOCKS: [BlockNumber; 0] = [];

    #[test]
    fn page_can_be_gone_with_the_end_of_its_file_and_with_its_whole_file() {
        assert_eq!(impossible(3, &[2, 3]), NO_BLOCKS, "the file was cut");
        assert_eq!(impossible(4, &[2, 4, 7]), NO_BLOCKS, "the file after the last is missing");
        assert_eq!(impossible(3, &[2, 6]), [6], "a file was cut, and nothing refers to the rest of it");
        assert_eq!(impossible(3, &[2, 3, 6]), NO_BLOCKS, "something does");
    }

    #[test]
    fn page_whose_files_nothing_else_names_cannot_have_been() {
        assert_eq!(impossible(4, &[2, 8_388_608]), [8_388_608]);
        assert_eq!(impossible(4, &[4, 5, 8_388_608, 2_147_483_664]), [8_388_608, 2_147_483_664], "two of 8 million");
        let garbage: Vec<BlockNumber> = (4..).step_by(20_000).take(200_000).collect();
        assert_eq!(impossible(4, &garbage).len(), MAX_BROKEN_LINKS - 1, "the first of those that are kept");
        let lost: Vec<BlockNumber> = (4..40_000).step_by(300).collect();
        assert_eq!(impossible(4, &lost), NO_BLOCKS, "an index of 10,000 files of which the first is left");
    }
}
