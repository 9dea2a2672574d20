//! References of an index page to other pages of its index: siblings, children, its level.

use super::decode::{le_u16, le_u32};
use super::page::{LinePointerState, PageHeader, line_pointers};
use super::page_kind::PageKind;
use crate::types::{BlockNumber, ForkNumber};

/// The block number that stands for "none" in every index but a B-tree.
const NO_BLOCK: u32 = 0xFFFF_FFFF;

/// `BTP_DELETED`, `BTP_LEAF`, `BTP_META`, `src/include/access/nbtree.h`.
const BTREE_LEAF: u16 = 0x01;
const BTREE_DELETED: u16 = 0x04;
const BTREE_META: u16 = 0x08;

/// `BTREE_MAGIC`, the same file.
const BTREE_MAGIC: u32 = 0x0005_3162;

/// `GIN_DATA`, `GIN_LEAF`, `GIN_DELETED`, `GIN_META`, `GIN_LIST`, `src/include/access/ginblock.h`.
const GIN_DATA: u16 = 0x01;
const GIN_LEAF: u16 = 0x02;
const GIN_DELETED: u16 = 0x04;
const GIN_META: u16 = 0x08;
const GIN_LIST: u16 = 0x10;

/// `F_LEAF`, `src/include/access/gist.h`.
const GIST_LEAF: u16 = 0x01;

/// `LH_OVERFLOW_PAGE`, `LH_META_PAGE`, `HASH_MAGIC`, `HASH_VERSION`, `HASH_MAX_SPLITPOINTS`,
/// `HASH_SPLITPOINT_GROUPS_WITH_ONE_PHASE`, `src/include/access/hash.h`.
const HASH_OVERFLOW: u16 = 0x01;
const HASH_META: u16 = 0x08;
const HASH_MAGIC: u32 = 0x0644_0640;
const HASH_VERSION: u32 = 4;
const HASH_SPARES: usize = 98;
const HASH_GROUPS_OF_ONE_PHASE: u32 = 10;

/// `SPGIST_LEAF`, `tupstate` and `SPGIST_LIVE`, `src/include/access/spgist_private.h`.
const SPGIST_LEAF: u16 = 0x04;
const SPGIST_STATE: u32 = 0x03;
const SPGIST_LIVE: u32 = 0;

/// `BRIN_PAGETYPE_META`, `src/include/access/brin_page.h`; `BRIN_META_MAGIC`, the same file.
const BRIN_META: u16 = 0xF091;
const BRIN_MAGIC: u32 = 0xA810_9CFA;

/// Bytes of an item pointer, and of the header of an index tuple.
const ITEM_POINTER_BYTES: usize = 6;
const INDEX_TUPLE_HEADER: usize = 8;

/// The access methods whose pages name each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexFamily {
    Btree,
    Gin,
    Gist,
    Hash,
    SpGist,
    Brin,
}

impl IndexFamily {
    /// True where a page and its right sibling name each other.
    pub(crate) const fn links_both_ways(self) -> bool {
        matches!(self, Self::Btree | Self::Hash)
    }

    /// True where a page never names a deleted one. A GiST page keeps its right link after the page there was deleted.
    pub(crate) const fn forgets_deleted(self) -> bool {
        !matches!(self, Self::Gist)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageLinks {
    pub family: IndexFamily,
    /// The property that siblings share: the level of a B-tree page, the bucket of a hash page, the flags of a GIN page.
    pub group: u32,
    pub left: Option<BlockNumber>,
    pub right: Option<BlockNumber>,
    /// Pages one level further down; of a metapage, the root.
    pub children: Vec<BlockNumber>,
    /// The group of the children, where it follows from what the page is.
    pub child_group: Option<u32>,
    /// Where the first pages of all buckets are, by the metapage of a hash index.
    pub buckets: Option<Box<HashBuckets>>,
    /// The page was deleted: nothing names it, and what it names may be gone.
    pub is_deleted: bool,
}

impl PageLinks {
    const fn none(family: IndexFamily, group: u32) -> Self {
        Self {
            family,
            group,
            left: None,
            right: None,
            children: Vec::new(),
            child_group: None,
            buckets: None,
            is_deleted: false,
        }
    }

    /// A page that names these one level further down, and no siblings; `None` where it names none.
    fn naming(family: IndexFamily, children: Vec<BlockNumber>) -> Option<Self> {
        (!children.is_empty()).then(|| Self { children, ..Self::none(family, 0) })
    }

    /// Reads them from a sound page of a main fork; `None` for pages that name no others.
    ///
    /// | access method | special space                                                                      |
    /// |---------------|------------------------------------------------------------------------------------|
    /// | B-tree        | 0..4 left, 4..8 right (0: none), 8..12 level, 12..14 flags                         |
    /// | hash          | 0..4 left (overflow pages only), 4..8 right, 8..12 bucket, 12..14 flags            |
    /// | GiST          | 8..12 right, 12..14 flags                                                          |
    /// | GIN           | 0..4 right, 6..8 flags                                                             |
    /// | SP-GiST       | 0..2 flags                                                                         |
    /// | BRIN          | 6..8 kind of page                                                                  |
    ///
    /// Source: `BTPageOpaqueData`, `HashPageOpaqueData`, `GISTPageOpaqueData`, `GinPageOpaqueData`, `SpGistPageOpaqueData`,
    /// `BrinSpecialSpace` below `src/include/access/`. Children are the block numbers of the items' first six bytes, but for
    /// SP-GiST and BRIN.
    pub fn of(header: &PageHeader, page: &[u8], fork: ForkNumber) -> Option<Self> {
        let special = page.get(usize::from(header.special)..).filter(|special| [8, 16].contains(&special.len()))?;
        let u32_at = |at: usize| special.get(at..).and_then(|bytes| le_u32(bytes).ok()).map_or(0, |(_, value)| value);
        let u16_at = |at: usize| special.get(at..).and_then(|bytes| le_u16(bytes).ok()).map_or(0, |(_, value)| value);
        let some = |block: u32| Some(block).filter(|block| *block != NO_BLOCK);
        match PageKind::of(header, page, fork) {
            PageKind::Btree | PageKind::BtreeOther => {
                let (left, right, level, flags) = (u32_at(0), u32_at(4), u32_at(8), u16_at(12));
                if flags & BTREE_META != 0 {
                    return btree_root(page);
                }
                if flags & BTREE_DELETED != 0 {
                    return Some(Self { is_deleted: true, ..Self::none(IndexFamily::Btree, NO_BLOCK) });
                }
                let is_some = |block: &u32| *block != 0;
                let (left, right) = (Some(left).filter(is_some), Some(right).filter(is_some));
                let child_group = if flags & BTREE_LEAF == 0 { level.checked_sub(1) } else { None };
                // The first item of a page with a right sibling is the upper bound of its keys.
                let skipped = usize::from(right.is_some());
                let children = child_group.map_or_else(Vec::new, |_| children(header, page, skipped));
                Some(Self { left, right, children, child_group, ..Self::none(IndexFamily::Btree, level) })
            }
            PageKind::Hash => {
                let left = if u16_at(12) & HASH_OVERFLOW == 0 { None } else { some(u32_at(0)) };
                Some(Self { left, right: some(u32_at(4)), ..Self::none(IndexFamily::Hash, u32_at(8)) })
            }
            PageKind::HashOther if u16_at(12) & HASH_META != 0 => {
                Some(Self { buckets: HashBuckets::of(page).map(Box::new), ..Self::none(IndexFamily::Hash, NO_BLOCK) })
            }
            PageKind::GistDeleted => Some(Self { is_deleted: true, ..Self::none(IndexFamily::Gist, 0) }),
            PageKind::Gist => {
                let children = if u16_at(12) & GIST_LEAF == 0 { children(header, page, 0) } else { Vec::new() };
                let child_group = (!children.is_empty()).then_some(0);
                Some(Self { right: some(u32_at(8)), children, child_group, ..Self::none(IndexFamily::Gist, 0) })
            }
            PageKind::GinEntry | PageKind::GinOther => {
                let flags = u16_at(6);
                if flags & GIN_META != 0 {
                    return gin_pending_list(page);
                }
                if flags & GIN_DELETED != 0 {
                    return Some(Self { is_deleted: true, ..Self::none(IndexFamily::Gin, NO_BLOCK) });
                }
                let group = u32::from(flags & (GIN_DATA | GIN_LEAF | GIN_LIST));
                let children = match flags & (GIN_DATA | GIN_LEAF | GIN_LIST) {
                    0 => children(header, page, 0),
                    GIN_LEAF => posting_trees(header, page),
                    GIN_DATA => posting_children(page, usize::from(u16_at(4))),
                    _ => Vec::new(),
                };
                Some(Self { right: some(u32_at(0)), children, ..Self::none(IndexFamily::Gin, group) })
            }
            PageKind::SpGist if u16_at(0) & SPGIST_LEAF == 0 => {
                // Items that share bytes cannot name more than fit on a page.
                let most = page.len() / INDEX_TUPLE_HEADER;
                let children = items(header, page, 0).flat_map(spgist_children).take(most);
                Self::naming(IndexFamily::SpGist, children.collect())
            }
            PageKind::BrinOther if u16_at(6) == BRIN_META => {
                Self::naming(IndexFamily::Brin, brin_last_map(page).into_iter().collect())
            }
            PageKind::BrinOther => {
                let end = usize::from(header.special);
                Self::naming(IndexFamily::Brin, brin_summaries(page.get(..end).unwrap_or_default()))
            }
            _ => None,
        }
    }
}

/// The root that a B-tree's metapage names: 24..28 magic, 32..36 root, 36..40 its level.
///
/// Source: `BTMetaPageData`, `src/include/access/nbtree.h`.
fn btree_root(page: &[u8]) -> Option<PageLinks> {
    let u32_at = |at: usize| page.get(at..).and_then(|bytes| le_u32(bytes).ok()).map_or(0, |(_, value)| value);
    (u32_at(24) == BTREE_MAGIC && u32_at(32) != 0).then(|| PageLinks {
        children: vec![u32_at(32)],
        child_group: Some(u32_at(36)),
        ..PageLinks::none(IndexFamily::Btree, NO_BLOCK)
    })
}

/// The pages that a GIN metapage names: 24..28 the first and 28..32 the last of the pending list.
///
/// Source: `GinMetaPageData`, `src/include/access/ginblock.h`.
fn gin_pending_list(page: &[u8]) -> Option<PageLinks> {
    let u32_at = |at: usize| page.get(at..).and_then(|bytes| le_u32(bytes).ok()).map_or(NO_BLOCK, |(_, value)| value);
    let mut children: Vec<u32> = [u32_at(24), u32_at(28)].into_iter().filter(|block| *block != NO_BLOCK).collect();
    children.dedup();
    (!children.is_empty()).then(|| PageLinks {
        children,
        child_group: Some(u32::from(GIN_LIST)),
        ..PageLinks::none(IndexFamily::Gin, NO_BLOCK)
    })
}

/// Bytes of the items with a tuple after the first `skipped`.
fn items<'a>(header: &PageHeader, page: &'a [u8], skipped: usize) -> impl Iterator<Item = &'a [u8]> {
    let normal = line_pointers(header, page).skip(skipped).filter(|item| item.state() == LinePointerState::Normal);
    normal.filter_map(|item| page.get(usize::from(item.offset())..))
}

/// Block numbers that items begin with.
fn children(header: &PageHeader, page: &[u8], skipped: usize) -> Vec<BlockNumber> {
    items(header, page, skipped).filter_map(block_id).collect()
}

/// A block number in two halves of 16 bits, the high one first.
///
/// Source: `BlockIdData`, `src/include/storage/block.h`.
fn block_id(bytes: &[u8]) -> Option<BlockNumber> {
    let (rest, high) = le_u16(bytes).ok()?;
    let (_, low) = le_u16(rest).ok()?;
    Some(u32::from(high) << 16 | u32::from(low))
}

/// Roots of the posting trees that the items of an entry leaf name: those with 0xFFFF in bytes 4..6.
///
/// Source: `GinIsPostingTree`, `src/include/access/ginblock.h`.
fn posting_trees(header: &PageHeader, page: &[u8]) -> Vec<BlockNumber> {
    let names_tree = |item: &&[u8]| item.get(4..6) == Some(&[0xFF, 0xFF]);
    items(header, page, 0).filter(names_tree).filter_map(block_id).collect()
}

/// Children of an inner page of a posting tree: `count` items of 10 bytes from byte 32 on, block number first.
///
/// Source: `PostingItem` and `GinDataPageGetPostingItem`, `src/include/access/ginblock.h`.
fn posting_children(page: &[u8], count: usize) -> Vec<BlockNumber> {
    page.get(32..).unwrap_or_default().chunks_exact(10).take(count).filter_map(block_id).collect()
}

/// Pages that the nodes of an inner tuple of SP-GiST lead to.
///
/// 0..4 bits: 0..2 state, 3..16 number of nodes, 16..32 bytes of the prefix, which is stored padded to 8; 4..6 bytes of the tuple;
/// from 8 on the prefix and the nodes, each an index tuple: 0..6 item pointer (offset 0: no target), 6..8 bytes in its lowest
/// 13 bits.
///
/// Source: `SpGistInnerTupleData` and `SGITITERATE`, `src/include/access/spgist_private.h`.
fn spgist_children(tuple: &[u8]) -> Vec<BlockNumber> {
    let Ok((_, bits)) = le_u32(tuple) else { return Vec::new() };
    if bits & SPGIST_STATE != SPGIST_LIVE {
        return Vec::new();
    }
    let nodes = (bits >> 3 & 0x1FFF) as usize;
    let prefix = ((bits >> 16) as usize).next_multiple_of(8);
    let size = tuple.get(4..).and_then(|bytes| le_u16(bytes).ok()).map_or(0, |(_, size)| usize::from(size));
    let mut rest = tuple.get(..size).and_then(|tuple| tuple.get(8..)?.get(prefix..)).unwrap_or_default();
    let mut children = Vec::new();
    for _ in 0..nodes {
        let Some(info) = rest.get(ITEM_POINTER_BYTES..).and_then(|bytes| le_u16(bytes).ok()) else { break };
        children.extend(item_pointer(rest));
        let bytes = usize::from(info.1 & 0x1FFF);
        rest = rest.get(bytes.max(INDEX_TUPLE_HEADER)..).unwrap_or_default();
    }
    children
}

/// The block of an item pointer that leads somewhere: its offset is not 0.
fn item_pointer(bytes: &[u8]) -> Option<BlockNumber> {
    let (_, offset) = le_u16(bytes.get(4..)?).ok()?;
    block_id(bytes).filter(|block| offset != 0 && *block != NO_BLOCK)
}

/// The last page of the range map, which the metapage of BRIN names: 24..28 magic, 36..40 block.
///
/// Source: `BrinMetaPageData`, `src/include/access/brin_page.h`.
fn brin_last_map(page: &[u8]) -> Option<BlockNumber> {
    let u32_at = |at: usize| page.get(at..).and_then(|bytes| le_u32(bytes).ok()).map(|(_, value)| value);
    u32_at(36).filter(|block| u32_at(24) == Some(BRIN_MAGIC) && *block != 0)
}

/// Pages with the summaries of ranges, by a page of the range map: item pointers from byte 24 on.
///
/// Source: `RevmapContents`, `src/include/access/brin_page.h`.
fn brin_summaries(page: &[u8]) -> Vec<BlockNumber> {
    let mut named: Vec<BlockNumber> =
        page.get(24..).unwrap_or_default().chunks_exact(ITEM_POINTER_BYTES).filter_map(item_pointer).collect();
    named.dedup();
    named
}

/// Where the first page of each bucket of a hash index is.
///
/// From byte 24 of the metapage: 0..4 magic, 24..28 highest bucket, 52.. 98 counts of overflow pages that were allocated
/// before each phase of growth.
///
/// Source: `HashMetaPageData` and `BUCKET_TO_BLKNO`, `src/include/access/hash.h`; `_hash_spareindex`,
/// `src/backend/access/hash/hashutil.c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HashBuckets {
    highest: u32,
    spares: Vec<u32>,
}

impl HashBuckets {
    fn of(page: &[u8]) -> Option<Self> {
        let u32_at = |at: usize| page.get(at..).and_then(|bytes| le_u32(bytes).ok()).map(|(_, value)| value);
        if u32_at(24)? != HASH_MAGIC || u32_at(28)? != HASH_VERSION {
            return None;
        }
        let spares = page.get(76..)?.chunks_exact(4).take(HASH_SPARES).filter_map(|bytes| le_u32(bytes).ok());
        Some(Self { highest: u32_at(48)?, spares: spares.map(|(_, count)| count).collect() })
    }

    /// Number of the highest bucket, as stored.
    pub const fn highest(&self) -> u32 {
        self.highest
    }

    /// The first page of a bucket; `None` for numbers that no index has.
    pub fn block(&self, bucket: u32) -> Option<BlockNumber> {
        let spare = match bucket {
            0 => 0,
            _ => *self.spares.get(usize::try_from(spare_index(bucket)?.checked_sub(1)?).ok()?)?,
        };
        bucket.checked_add(spare)?.checked_add(1)
    }
}

/// The phase of growth that makes `bucket`: up to the tenth doubling each is one, then each has four.
fn spare_index(bucket: u32) -> Option<u32> {
    // Doublings until there are bucket + 1 buckets.
    let group = u32::BITS.checked_sub(bucket.leading_zeros())?;
    let Some(late) = group.checked_sub(HASH_GROUPS_OF_ONE_PHASE) else { return Some(group) };
    let quarter = bucket.checked_shr(group.checked_sub(3)?)? & 3;
    HASH_GROUPS_OF_ONE_PHASE.checked_add(late.checked_mul(4)?)?.checked_add(quarter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A page of an index with this special space and items whose first bytes name these blocks.
    fn index_page(special: &[u8], items: &[u32]) -> Vec<u8> {
        let mut page = vec![0; 8192];
        let start = 8192 - special.len();
        page[start..].copy_from_slice(special);
        let mut upper = start;
        for (index, block) in items.iter().enumerate() {
            upper -= 16;
            page[upper..upper + 2].copy_from_slice(&u16::try_from(block >> 16).unwrap().to_le_bytes());
            page[upper + 2..upper + 4].copy_from_slice(&u16::try_from(block & 0xFFFF).unwrap().to_le_bytes());
            let pointer = u32::try_from(upper).unwrap() | 1 << 15 | 16 << 17;
            page[24 + index * 4..28 + index * 4].copy_from_slice(&pointer.to_le_bytes());
        }
        for (at, value) in [(12, 24 + items.len() * 4), (14, upper), (16, start), (18, 0x2004)] {
            page[at..at + 2].copy_from_slice(&u16::try_from(value).unwrap().to_le_bytes());
        }
        page
    }

    fn links(page: &[u8]) -> Option<PageLinks> {
        PageLinks::of(&PageHeader::decode(0, page).unwrap(), page, ForkNumber::Main)
    }

    fn special(words: [u32; 3], flags: u16, trailer: u16) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(flags.to_le_bytes());
        bytes.extend(trailer.to_le_bytes());
        bytes
    }

    #[test]
    fn inner_btree_page_names_siblings_and_children_but_not_the_bound() {
        let found = links(&index_page(&special([3, 9, 2], 0, 0), &[77, 0x1_0002, 5])).unwrap();
        assert_eq!((found.left, found.right, found.group), (Some(3), Some(9), 2));
        assert_eq!((found.children, found.child_group), (vec![0x1_0002, 5], Some(1)));
        let last = links(&index_page(&special([3, 0, 2], 0, 0), &[77, 5])).unwrap();
        assert_eq!((last.right, last.children), (None, vec![77, 5]));
        let leaf = links(&index_page(&special([0, 0, 0], 1, 0), &[77, 5])).unwrap();
        assert_eq!((leaf.left, leaf.children, leaf.child_group), (None, vec![], None));
    }

    /// A page of SP-GiST with one inner tuple of this state, which has a prefix of 5 bytes and leads to these blocks and offsets.
    fn spgist_page(state: u32, flags: u16, nodes: &[(u32, u16)]) -> Vec<u8> {
        let mut tuple = (state | u32::try_from(nodes.len()).unwrap() << 3 | 5 << 16).to_le_bytes().to_vec();
        let size = 16 + nodes.len() * 16;
        tuple.extend(u16::try_from(size).unwrap().to_le_bytes());
        tuple.resize(16, 0);
        for (block, offset) in nodes {
            tuple.extend(u16::try_from(block >> 16).unwrap().to_le_bytes());
            tuple.extend(u16::try_from(block & 0xFFFF).unwrap().to_le_bytes());
            tuple.extend(offset.to_le_bytes());
            tuple.extend(16_u16.to_le_bytes());
            tuple.extend([0; 8]);
        }
        let mut page = index_page(&[flags.to_le_bytes(), [0; 2], [0; 2], [0x82, 0xFF]].concat(), &[]);
        let at = 8184 - size;
        page[at..8184].copy_from_slice(&tuple);
        let pointer = u32::try_from(at).unwrap() | 1 << 15 | u32::try_from(size).unwrap() << 17;
        page[24..28].copy_from_slice(&pointer.to_le_bytes());
        page[12..14].copy_from_slice(&28_u16.to_le_bytes());
        page[14..16].copy_from_slice(&u16::try_from(at).unwrap().to_le_bytes());
        page
    }

    #[test]
    fn items_of_spgist_that_share_their_bytes_name_no_more_than_fit_on_a_page() {
        let mut page = spgist_page(0, 0, &[(5, 1); 300]);
        let pointer = page[24..28].to_vec();
        for index in 0..500 {
            page[24 + 4 * index..28 + 4 * index].copy_from_slice(&pointer);
        }
        page[12..14].copy_from_slice(&(24_u16 + 4 * 500).to_le_bytes());
        assert_eq!(links(&page).unwrap().children.len(), 8192 / 8);
    }

    #[test]
    fn inner_tuple_of_spgist_names_where_its_nodes_lead() {
        let nodes = [(7, 1), (NO_BLOCK, 0), (0x1_0002, 9)];
        let found = links(&spgist_page(0, 0, &nodes)).unwrap();
        assert_eq!((found.family, found.children), (IndexFamily::SpGist, vec![7, 0x1_0002]));
        assert_eq!(links(&spgist_page(3, 0, &nodes)), None, "a placeholder");
        assert_eq!(links(&spgist_page(0, 4, &nodes)), None, "a leaf");
    }

    #[test]
    fn brin_names_the_end_of_its_map_and_the_pages_with_summaries() {
        let special = |kind: u16| [[0; 6].as_slice(), &kind.to_le_bytes()].concat();
        let mut meta = index_page(&special(0xF091), &[]);
        meta[24..28].copy_from_slice(&BRIN_MAGIC.to_le_bytes());
        meta[36..40].copy_from_slice(&3_u32.to_le_bytes());
        assert_eq!(links(&meta).unwrap().children, vec![3]);
        meta[24] = 0;
        assert_eq!(links(&meta), None);
        let mut map = index_page(&special(0xF092), &[]);
        // Twice block 5, an entry without a target, block 0x10006.
        map[24..48].copy_from_slice(&[0, 0, 5, 0, 1, 0, 0, 0, 5, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 6, 0, 1, 0]);
        assert_eq!(links(&map).unwrap().children, vec![5, 0x1_0006]);
        assert_eq!(links(&index_page(&special(0xF093), &[])), None, "summaries");
    }

    #[test]
    fn deleted_pages_and_heap_pages_name_nothing() {
        assert!(links(&index_page(&special([3, 9, 2], 4, 0), &[])).unwrap().is_deleted);
        assert_eq!(links(&index_page(&[], &[])), None);
    }

    #[test]
    fn first_pages_of_buckets_follow_the_phases_of_growth() {
        // Worked by hand from the macro: bucket b lies after b buckets, the metapage and the overflow pages before it.
        let buckets = HashBuckets { highest: 2000, spares: (0..98).map(|phase| phase * 100).collect() };
        let phase = |bucket: u32| (buckets.block(bucket).unwrap() - bucket - 1) / 100;
        for (bucket, expected) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (511, 8), (512, 9), (640, 10), (767, 10)] {
            assert_eq!(phase(bucket), expected, "bucket {bucket}");
        }
        for (bucket, expected) in [(768, 11), (896, 12), (1023, 12), (1024, 13), (1280, 14)] {
            assert_eq!(phase(bucket), expected, "bucket {bucket}");
        }
        assert_eq!(buckets.block(u32::MAX), None);
    }

    #[test]
    fn primary_hash_page_keeps_another_number_where_others_have_their_left_link() {
        let bucket = links(&index_page(&special([7, 40, 3], 2, 0xFF80), &[])).unwrap();
        assert_eq!((bucket.left, bucket.right, bucket.group), (None, Some(40), 3));
        let overflow = links(&index_page(&special([7, NO_BLOCK, 3], 1, 0xFF80), &[])).unwrap();
        assert_eq!((overflow.left, overflow.right), (Some(7), None));
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(page in proptest::collection::vec(any::<u8>(), 24..2048), fork in 0_usize..4) {
            if let Ok(header) = PageHeader::decode(0, &page) {
                let found = PageLinks::of(&header, &page, ForkNumber::ALL[fork]);
                prop_assert!(found.is_none_or(|links| links.children.len() <= page.len() / 4));
            }
        }
    }
}
