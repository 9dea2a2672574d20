//! Which block of its relation an image is of, as far as its content shows. A record that changes several blocks gives
//! all of them one LSN, so where an image has the LSN of such a record the LSN does not distinguish them.

use strum::{IntoStaticStr, VariantNames};

use crate::analysis::changes::events::BlockEvent;
use crate::parsers::heap::{TupleHeader, infomask, page_tuples};
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::parsers::wal::records::RecordKind;
use crate::types::{BlockNumber, ForkNumber};

/// Evidence about its block in the content of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It refers to the expected block of the image.
    Own,
    /// It is that of another block.
    Other(OtherBlock),
    /// It says nothing.
    Silent,
}

/// Sign that an image belongs to another block of its relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
#[allow(clippy::enum_variant_names, reason = "the names are codes in JSON")]
pub enum OtherBlock {
    /// It is a metapage, and the block is not block 0.
    IsMetapage,
    /// It is not a metapage, and the block is block 0.
    IsNotMetapage,
    /// It is a leaf, and by the record that its LSN names the block is above the leaves.
    IsLeaf,
    /// It is not a leaf, and by the record that its LSN names the block is one.
    IsNotLeaf,
    /// None of its rows names the block.
    RowsNameOtherBlock {
        /// The expected block.
        block: BlockNumber,
        /// The block that its first row refers to.
        found: BlockNumber,
    },
    /// It links to its own expected block.
    LinksToItself { block: BlockNumber },
    /// The split that its LSN names links the block to another one than it does.
    SplitLinksDiffer {
        /// The expected block.
        block: BlockNumber,
        /// Where the split links it to.
        expected: BlockNumber,
        /// Where the image links to.
        found: BlockNumber,
    },
}

impl OtherBlock {
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

/// Judges `page`, said to be block `block`; `event`: the record that its LSN names.
pub(crate) fn identity_of(page: &[u8], fork: ForkNumber, block: BlockNumber, event: Option<&BlockEvent>) -> Identity {
    let Some(header) = PageHeader::decode(0, page).ok().filter(|_| fork == ForkNumber::Main) else {
        return Identity::Silent;
    };
    let special = page.get(usize::from(header.special)..).unwrap_or_default();
    let kind = PageKind::of(&header, page, fork);
    if let Some(is_meta) = is_metapage(kind, special)
        && is_meta != (block == 0)
    {
        return Identity::Other(if is_meta { OtherBlock::IsMetapage } else { OtherBlock::IsNotMetapage });
    }
    match kind {
        PageKind::Heap => by_rows(&header, page, block),
        PageKind::Btree => match by_links(special, block, event) {
            Identity::Silent => by_kind(kind, special, block, event),
            known => known,
        },
        _ if block == 0 && is_metapage(kind, special) == Some(true) => Identity::Own,
        _ => by_kind(kind, special, block, event),
    }
}

/// A page that is not a metapage where the record also changed a metapage, and the level of a page where the record
/// changed one leaf and one page above.
///
/// Sources: `SPGIST_LEAF`, `src/include/access/spgist_private.h`; blocks of `spgxlogAddLeaf` and `spgxlogMoveLeafs`,
/// `spgxlog.h`; `F_LEAF`, `gist.h`; `gistXLogUpdate`, `src/backend/access/gist/gistxlog.c`; `BTP_LEAF`, `nbtree.h`;
/// `_bt_insertonpg`, `src/backend/access/nbtree/nbtinsert.c`.
fn by_kind(kind: PageKind, special: &[u8], block: BlockNumber, event: Option<&BlockEvent>) -> Identity {
    let Some(event) = event.filter(|event| block != 0 && !event.partners.is_empty()) else { return Identity::Silent };
    let is_bucket = kind == PageKind::Hash && event.partners.iter().all(|(_, other)| *other == 0);
    if is_bucket {
        return Identity::Own;
    }
    // The index in the record of the page that is above the others.
    let (above, flags_at, leaf_flag) = match (event.record.kind, kind) {
        (RecordKind::SpgistAddLeaf, PageKind::SpGist) => (1, 0, 0x04),
        (RecordKind::SpgistMoveLeafs, PageKind::SpGist) => (2, 0, 0x04),
        (RecordKind::GistPageUpdate, PageKind::Gist) => (0, 12, 0x01),
        (RecordKind::BtreeInsertUpper, PageKind::Btree) => (0, 12, 0x01),
        _ => return Identity::Silent,
    };
    let flags = special.get(flags_at..).and_then(|bytes| bytes.first_chunk()).map(|bytes| u16::from_le_bytes(*bytes));
    let Some(is_leaf) = flags.map(|flags| flags & leaf_flag != 0) else { return Identity::Silent };
    let is_above = event.block_id == above;
    if is_leaf && is_above {
        return Identity::Other(OtherBlock::IsLeaf);
    }
    // The lower page is always a leaf in SP-GiST, elsewhere it can be any.
    let are_leaves = kind == PageKind::SpGist;
    let is_alone = is_above || event.partners.iter().all(|(id, _)| *id == above);
    match (is_leaf, are_leaves) {
        (false, true) if !is_above => Identity::Other(OtherBlock::IsNotLeaf),
        (true, _) | (false, true) if is_alone => Identity::Own,
        _ => Identity::Silent,
    }
}

/// Whether a page is a metapage; `None` for access methods without one, and where its kind does not show it.
///
/// Sources: `BTP_META`, `src/include/access/nbtree.h`; `LH_META_PAGE`, `hash.h`; `GIN_META`, `ginblock.h`;
/// `SPGIST_META`, `spgist_private.h`; `BRIN_PAGETYPE_META`, `brin_page.h`.
fn is_metapage(kind: PageKind, special: &[u8]) -> Option<bool> {
    let flags_at = |at: usize| special.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
    match kind {
        PageKind::Btree | PageKind::Hash | PageKind::SpGist | PageKind::GinEntry | PageKind::BrinRegular => Some(false),
        PageKind::SpGistMeta => Some(true),
        PageKind::BtreeOther | PageKind::HashOther => Some(flags_at(12)? & 0x08 != 0),
        PageKind::GinOther => Some(flags_at(6)? & 0x08 != 0),
        PageKind::BrinOther => Some(flags_at(6)? == 0xF091),
        _ => None,
    }
}

/// Rows that nobody replaced name their own block.
fn by_rows(header: &PageHeader, page: &[u8], block: BlockNumber) -> Identity {
    let tuples = page_tuples(header, page).filter_map(|tuple| TupleHeader::decode(0, tuple.bytes).ok());
    let named: Vec<BlockNumber> =
        tuples.filter(|tuple| tuple.has(infomask::XMAX_INVALID)).map(|tuple| tuple.ctid_block).collect();
    match named.first() {
        None => Identity::Silent,
        Some(_) if named.contains(&block) => Identity::Own,
        Some(found) => Identity::Other(OtherBlock::RowsNameOtherBlock { block, found: *found }),
    }
}

/// A B-tree page never links to itself, and the pages of a split link to each other.
fn by_links(special: &[u8], block: BlockNumber, event: Option<&BlockEvent>) -> Identity {
    let link = |at: usize| special.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let (left, right) = (link(0), link(4));
    if left == Some(block) || right == Some(block) {
        return Identity::Other(OtherBlock::LinksToItself { block });
    }
    let is_split = |kind| matches!(kind, RecordKind::BtreeSplitL | RecordKind::BtreeSplitR);
    let split = event.filter(|event| is_split(event.record.kind));
    let Some(event) = split else { return Identity::Silent };
    let partner = |id: u8| event.partners.iter().find(|(block_id, _)| *block_id == id).map(|(_, block)| *block);
    // Block 0 is split, block 1 is its new right half, block 2 the neighbour to the right of both.
    let (found, expected) = match event.block_id {
        0 => (right, partner(1)),
        1 => (left, partner(0)),
        2 => (left, partner(1)),
        _ => return Identity::Silent,
    };
    match (found, expected) {
        (Some(found), Some(expected)) if found == expected => Identity::Own,
        (Some(found), Some(expected)) => Identity::Other(OtherBlock::SplitLinksDiffer { block, expected, found }),
        _ => Identity::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::wal::records::RecordType;
    use crate::types::Lsn;

    fn put(page: &mut [u8], fields: &[(usize, u16)]) {
        for (at, value) in fields {
            page[*at..*at + 2].copy_from_slice(&value.to_le_bytes());
        }
    }

    fn judge(page: &[u8], block: BlockNumber) -> Identity {
        identity_of(page, ForkNumber::Main, block, None)
    }

    /// A heap page with one row that says it stands in block 7; `replaced`: it has a newer version.
    fn heap(replaced: bool) -> Vec<u8> {
        let mut page = vec![0; 8192];
        put(&mut page, &[(12, 28), (14, 8160), (16, 8192), (18, 0x2004)]);
        page[24..28].copy_from_slice(&(8160_u32 | 1 << 15 | 32 << 17).to_le_bytes());
        let mask = if replaced { 0 } else { infomask::XMAX_INVALID };
        put(&mut page, &[(8160 + 14, 7), (8160 + 16, 1), (8160 + 20, mask)]);
        page
    }

    /// A B-tree page with these neighbours.
    fn btree(left: u16, right: u16, flags: u16) -> Vec<u8> {
        let mut page = vec![0; 8192];
        put(&mut page, &[(12, 24), (14, 8176), (16, 8176), (18, 0x2004), (8176, left), (8180, right), (8188, flags)]);
        page
    }

    #[test]
    fn rows_name_their_block() {
        assert_eq!(judge(&heap(false), 7), Identity::Own);
        assert!(matches!(judge(&heap(false), 8), Identity::Other(_)));
        // A row that was replaced names the location of its successor.
        assert_eq!(judge(&heap(true), 8), Identity::Silent);
    }

    #[test]
    fn btree_page_never_links_to_itself() {
        assert_eq!(judge(&btree(4, 5, 1), 9), Identity::Silent);
        for block in [4, 5] {
            assert!(matches!(judge(&btree(4, 5, 1), block), Identity::Other(_)));
        }
    }

    #[test]
    fn pages_of_a_split_link_to_each_other() {
        // Block 10 is split into 10 and 30; its neighbour was 20.
        let event = |block_id, partners: &[(u8, BlockNumber)]| BlockEvent {
            end_lsn: Lsn(8),
            record: of(RecordKind::BtreeSplitR),
            block_id,
            partners: partners.into(),
            ..BlockEvent::default()
        };
        let (half, new, next) = (btree(9, 30, 1), btree(10, 20, 1), btree(30, 21, 1));
        let events = [event(0, &[(1, 30), (2, 20)]), event(1, &[(0, 10), (2, 20)]), event(2, &[(0, 10), (1, 30)])];
        for (own, block) in [10, 30, 20].into_iter().enumerate() {
            for (image, page) in [&half, &new, &next].into_iter().enumerate() {
                let found = identity_of(page, ForkNumber::Main, block, Some(&events[own]));
                match own == image {
                    true => assert_eq!(found, Identity::Own, "block {block}"),
                    false => assert!(matches!(found, Identity::Other(_)), "image {image} as block {block}: {found:?}"),
                }
            }
        }
    }

    /// A page of 8 kB with this special space, and the record that its LSN names: block 9 at this index, beside others.
    fn special_page(special: &[u8]) -> Vec<u8> {
        let start = 8192 - special.len();
        let mut page = vec![0; 8192];
        page[start..].copy_from_slice(special);
        let start = u16::try_from(start).unwrap();
        put(&mut page, &[(12, 24), (14, start), (16, start), (18, 0x2004)]);
        page
    }

    fn of(kind: RecordKind) -> RecordType {
        RecordType { kind, ..RecordType::default() }
    }

    fn among(page: &[u8], kind: RecordKind, block_id: u8, partners: &[(u8, BlockNumber)]) -> Identity {
        let event = BlockEvent { record: of(kind), block_id, partners: partners.into(), ..BlockEvent::default() };
        identity_of(page, ForkNumber::Main, 9, Some(&event))
    }

    #[test]
    fn level_of_a_page_distinguishes_it_from_the_other_of_its_record() {
        let spgist = |flags: u8| special_page(&[flags, 0, 0, 0, 0, 0, 0x82, 0xFF]);
        let (leaf, inner) = (spgist(4), spgist(0));
        // ADD_LEAF: block 0 is the leaf, block 1 is above it.
        assert_eq!(among(&leaf, RecordKind::SpgistAddLeaf, 0, &[(1, 3)]), Identity::Own);
        assert_eq!(among(&inner, RecordKind::SpgistAddLeaf, 1, &[(0, 3)]), Identity::Own);
        assert!(matches!(among(&inner, RecordKind::SpgistAddLeaf, 0, &[(1, 3)]), Identity::Other(_)));
        assert!(matches!(among(&leaf, RecordKind::SpgistAddLeaf, 1, &[(0, 3)]), Identity::Other(_)));
        // MOVE_LEAFS: two leaves, and block 2 above them.
        let others: [(u8, BlockNumber); 2] = [(1, 3), (2, 4)];
        assert_eq!(among(&leaf, RecordKind::SpgistMoveLeafs, 0, &others), Identity::Silent);
        assert_eq!(among(&inner, RecordKind::SpgistMoveLeafs, 2, &[(0, 3), (1, 4)]), Identity::Own);
        // GiST and B-trees: block 1 is below block 0, and need not be a leaf.
        let gist = |flags: u8| special_page(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, flags, 0, 0x81, 0xFF]);
        for (kind, leaf, inner) in [
            (RecordKind::GistPageUpdate, gist(1), gist(0)),
            (RecordKind::BtreeInsertUpper, btree(4, 5, 1), btree(4, 5, 0)),
        ] {
            assert_eq!(among(&leaf, kind, 1, &[(0, 3)]), Identity::Own);
            assert!(matches!(among(&leaf, kind, 0, &[(1, 3)]), Identity::Other(_)));
            assert_eq!(among(&inner, kind, 1, &[(0, 3)]), Identity::Silent);
        }
        // A bucket beside the metapage; two buckets.
        let bucket = special_page(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0x80, 0xFF]);
        assert_eq!(among(&bucket, RecordKind::HashInsert, 0, &[(1, 0)]), Identity::Own);
        assert_eq!(among(&bucket, RecordKind::HashSqueezePage, 0, &[(1, 0), (2, 8)]), Identity::Silent);
    }

    #[test]
    fn metapage_is_block_0_and_nothing_else() {
        let meta = btree(0, 0, 0x08);
        assert_eq!(judge(&meta, 0), Identity::Own);
        assert!(matches!(judge(&meta, 1), Identity::Other(_)));
        assert!(matches!(judge(&btree(1, 2, 1), 0), Identity::Other(_)));
        // A deleted page is not a metapage.
        assert_eq!(judge(&btree(4, 5, 0x04), 6), Identity::Silent);
    }
}
