//! Which block of its relation an image is of, as far as its content tells. A record that changes several blocks gives
//! them all the same LSN, so where an image has the LSN of such a record the LSN does not tell them apart.

use super::events::BlockEvent;
use crate::parsers::heap::{TupleHeader, infomask, page_tuples};
use crate::parsers::page::PageHeader;
use crate::parsers::page_kind::PageKind;
use crate::types::{BlockNumber, ForkNumber};

/// Resource manager of B-trees, and its two kinds of splits.
const RM_BTREE: u8 = 11;
const SPLIT_L: u8 = 0x30;
const SPLIT_R: u8 = 0x40;

/// What the content of an image says about its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It names the block that the image is said to be of.
    Own,
    /// It is that of another block; why, in words.
    Other(String),
    /// It says nothing.
    Silent,
}

/// Judges `page`, said to be block `block`; `event`: the record that its LSN names.
#[must_use]
pub fn identity_of(page: &[u8], fork: ForkNumber, block: BlockNumber, event: Option<&BlockEvent>) -> Identity {
    let Some(header) = PageHeader::decode(0, page).ok().filter(|_| fork == ForkNumber::Main) else {
        return Identity::Silent;
    };
    let special = page.get(usize::from(header.special)..).unwrap_or_default();
    let kind = PageKind::of(&header, page, fork);
    if let Some(is_meta) = is_metapage(kind, special)
        && is_meta != (block == 0)
    {
        let what = if is_meta { "a metapage, which only block 0 is" } else { "no metapage, which block 0 is" };
        return Identity::Other(format!("it is {what}"));
    }
    match kind {
        PageKind::Heap => by_rows(&header, page, block),
        PageKind::Btree => by_links(special, block, event),
        _ if block == 0 && is_metapage(kind, special) == Some(true) => Identity::Own,
        _ => Identity::Silent,
    }
}

/// Whether a page is a metapage; `None` for access methods without one, and where its kind does not tell.
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
        Some(other) => {
            Identity::Other(format!("none of its rows says that it stands in block {block}; the first says {other}"))
        }
    }
}

/// A B-tree page never links to itself, and the pages of a split link to each other.
fn by_links(special: &[u8], block: BlockNumber, event: Option<&BlockEvent>) -> Identity {
    let link = |at: usize| special.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let (left, right) = (link(0), link(4));
    if left == Some(block) || right == Some(block) {
        return Identity::Other(format!("it links to block {block} as its neighbour, so it is not that block"));
    }
    let split = event.filter(|event| event.rmgr_id == RM_BTREE && matches!(event.info & 0xF0, SPLIT_L | SPLIT_R));
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
        (Some(found), Some(expected)) => Identity::Other(format!(
            "the split that its LSN names links block {block} to block {expected}, but it links to {found}"
        )),
        _ => Identity::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        // A row that was replaced names the place of its successor.
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
            rmgr_id: RM_BTREE,
            info: SPLIT_R,
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
