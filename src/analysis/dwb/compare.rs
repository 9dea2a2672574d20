//! One image against the page in the data file, where that page is sound.

use std::hash::Hasher as _;

use strum::IntoStaticStr;

use rustc_hash::FxHasher;

use crate::parsers::heap::{TupleHeader, page_tuples};
use crate::parsers::page::{LinePointer, PageHeader};
use crate::parsers::page_kind::PageKind;
use crate::types::ForkNumber;

/// How a page in the data file stands to an image of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Comparison {
    /// Equal bytes, except `pd_checksum`.
    Identical,
    /// Equal LSN, and different only where the server changes pages without WAL.
    HintBitsOnly,
    /// The page is the newer version.
    DiskNewer,
    /// The page is sound and the older version.
    DiskOlder,
    /// Part of the page is an image, the rest is not.
    Torn,
    /// The page fails its checks and has nothing in common with any image.
    Damaged,
    /// The page is all zero, the image is not.
    Zeroed,
    /// The relation has no file.
    MissingFile,
    /// The file is shorter.
    BeyondEnd,
    /// The relation was dropped.
    DroppedRelation,
    /// The relation is reset when recovery runs.
    Unlogged,
}

impl Comparison {
    /// All words, in the order of reports.
    pub const ALL: [Self; 11] = [
        Self::Torn,
        Self::Damaged,
        Self::Zeroed,
        Self::DiskOlder,
        Self::MissingFile,
        Self::BeyondEnd,
        Self::Identical,
        Self::HintBitsOnly,
        Self::DiskNewer,
        Self::Unlogged,
        Self::DroppedRelation,
    ];

    /// The word for reports and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Compares two pages of the same identity, both long enough for a header. `None` when they carry the same LSN but
/// differ where only a logged change makes a difference: then one of them is not what its LSN says.
pub(crate) fn compare_pages(disk: &[u8], image: &[u8], fork: ForkNumber) -> Option<Comparison> {
    if same_but_checksum(disk, image) {
        return Some(Comparison::Identical);
    }
    let (Ok(on_disk), Ok(in_image)) = (PageHeader::decode(0, disk), PageHeader::decode(0, image)) else { return None };
    if on_disk.lsn != in_image.lsn {
        let newer = on_disk.lsn > in_image.lsn;
        return Some(if newer { Comparison::DiskNewer } else { Comparison::DiskOlder });
    }
    without_hints(disk, fork).zip(without_hints(image, fork)).and_then(|(disk, image)| {
        // What else differs is the hole, which holds nothing.
        (disk == image).then_some(Comparison::HintBitsOnly)
    })
}

/// True when nothing but `pd_checksum` (bytes 8 and 9) differs.
pub(crate) fn same_but_checksum(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.get(..8) == other.get(..8) && one.get(10..) == other.get(10..)
}

/// A number that two pages share when [`same_but_checksum`] holds, and else with a chance of 2^-64.
pub(crate) fn digest_but_checksum(page: &[u8]) -> u64 {
    let lsn = page.first_chunk().map_or(0, |lsn| u64::from_le_bytes(*lsn));
    let mut hasher = FxHasher::default();
    hasher.write_u64(lsn);
    hasher.write(page.get(10..).unwrap_or_default());
    hasher.finish()
}

/// The page with everything masked that a server changes without WAL: checksum, flags and `pd_prune_xid` of the page
/// header, hint bits of heap tuples, the counters of a sequence, "dead" marks of index entries, bits of the maps, the free
/// pages that an SP-GiST metapage remembers, and the hole between line pointers and tuples. `None` when the header makes no
/// sense.
///
/// Source: `MarkBufferDirtyHint`, `src/backend/storage/buffer/bufmgr.c`, and its callers; `bufmask.c` in
/// `src/backend/access/common/`; `nextval_internal`, `src/backend/commands/sequence.c`: WAL has a value for many calls.
fn without_hints(page: &[u8], fork: ForkNumber) -> Option<Vec<u8>> {
    let header = PageHeader::decode(0, page).ok()?;
    if !header.faults(page.len()).is_empty() {
        return None;
    }
    let mut masked = page.to_vec();
    masked.get_mut(8..12)?.fill(0);
    masked.get_mut(20..24)?.fill(0);
    if header.is_new() {
        return Some(masked);
    }
    masked.get_mut(usize::from(header.lower)..usize::from(header.upper))?.fill(0);
    if matches!(fork, ForkNumber::Fsm | ForkNumber::Vm) {
        masked.get_mut(PageHeader::SIZE..)?.fill(0);
        return Some(masked);
    }
    let kind = PageKind::of(&header, page, fork);
    if kind == PageKind::SpGistMeta {
        // It only remembers where there was room last.
        masked.get_mut(PageHeader::SIZE..usize::from(header.lower))?.fill(0);
    }
    if matches!(kind, PageKind::Heap | PageKind::Sequence) {
        for tuple in page_tuples(&header, page) {
            mask_tuple(masked.get_mut(tuple.offset..)?);
            if kind == PageKind::Sequence {
                let end = tuple.offset.saturating_add(tuple.bytes.len());
                masked.get_mut(tuple.offset.saturating_add(TupleHeader::SIZE).min(end)..end)?.fill(0);
            }
        }
    } else if kind.has_line_pointers() {
        let pointers = masked.get_mut(PageHeader::SIZE..usize::from(header.lower))?;
        for pointer in pointers.chunks_exact_mut(LinePointer::SIZE) {
            // The state lies in bits 15 and 16: an entry that leads to no live row is marked dead in passing.
            pointer[1] &= 0x7F;
            pointer[2] &= 0xFE;
        }
        // That there are such entries is a flag after 12 bytes of the special space: btree, hash and GiST alike.
        if let Some(flags) = masked.get_mut(usize::from(header.special)..)?.get_mut(12..14) {
            flags.fill(0);
        }
    }
    Some(masked)
}

/// Masks what replay leaves different in a heap tuple: whether its transactions are known to have committed or failed
/// (bits 0x0F00 of `t_infomask`, bytes 20 and 21), and the command number (bytes 8 to 12 and bit 0x0020), which means
/// nothing once its transaction is over.
fn mask_tuple(tuple: &mut [u8]) {
    let Some(header) = tuple.get_mut(..TupleHeader::SIZE) else { return };
    if let Some(command) = header.get_mut(8..12) {
        command.fill(0);
    }
    if let Some([low, high]) = header.get_mut(20..22) {
        *low &= 0xDF;
        *high &= 0xF0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A heap page with one tuple of 32 bytes at the end.
    fn heap_page(lsn: u32) -> Vec<u8> {
        let mut page = vec![0; 8192];
        page[4..8].copy_from_slice(&lsn.to_le_bytes());
        for (at, value) in [(12, 28_u16), (14, 8160), (16, 8192), (18, 0x2004)] {
            page[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        page[24..28].copy_from_slice(&(8160_u32 | 1 << 15 | 32 << 17).to_le_bytes());
        page[8160..8164].copy_from_slice(&700_u32.to_le_bytes());
        page[8182] = 24;
        page
    }

    fn compare(disk: &[u8], image: &[u8]) -> Option<Comparison> {
        compare_pages(disk, image, ForkNumber::Main)
    }

    #[test]
    fn checksum_alone_is_no_difference() {
        let (mut disk, image) = (heap_page(8), heap_page(8));
        disk[8] = 77;
        assert_eq!(compare(&disk, &image), Some(Comparison::Identical));
    }

    #[test]
    fn hint_bits_are_distinguished_from_changes() {
        let (mut disk, image) = (heap_page(8), heap_page(8));
        disk[8160 + 21] |= 0x01;
        disk[10] |= 0x02;
        disk[20] = 9;
        assert_eq!(compare(&disk, &image), Some(Comparison::HintBitsOnly));
        // The transaction that deleted a row is not a hint.
        disk[8160 + 4] = 9;
        assert_eq!(compare(&disk, &image), None);
    }

    #[test]
    fn value_of_a_sequence_moves_on_without_wal() {
        // The header of the tuple takes 24 bytes, its values the rest; the special space holds the mark of a sequence.
        let page = |value: u8| {
            let mut page = heap_page(8);
            page[16..18].copy_from_slice(&8184_u16.to_le_bytes());
            page[14..16].copy_from_slice(&8136_u16.to_le_bytes());
            page[24..28].copy_from_slice(&(8136_u32 | 1 << 15 | 41 << 17).to_le_bytes());
            page[8136..8160].fill(0);
            page[8158] = 24;
            page[8160] = value;
            page[8168] = 32 - value;
            page[8184..8192].copy_from_slice(&0x1717_u64.to_le_bytes());
            page
        };
        assert_eq!(compare(&page(7), &page(3)), Some(Comparison::HintBitsOnly));
        let mut other = page(7);
        other[8136] = 9;
        assert_eq!(compare(&other, &page(3)), None, "the transaction of the tuple is logged");
        let (mut heap, mut image) = (page(7), page(3));
        (heap[8184], image[8184]) = (0, 0);
        assert_eq!(compare(&heap, &image), None, "without the mark it is not a sequence");
    }

    #[test]
    fn newer_and_older_go_by_lsn() {
        assert_eq!(compare(&heap_page(16), &heap_page(8)), Some(Comparison::DiskNewer));
        assert_eq!(compare(&heap_page(8), &heap_page(16)), Some(Comparison::DiskOlder));
    }

    #[test]
    fn bytes_in_the_hole_mean_nothing() {
        let (mut disk, image) = (heap_page(8), heap_page(8));
        disk[4000] = 1;
        assert_eq!(compare(&disk, &image), Some(Comparison::HintBitsOnly));
        disk[8190] = 1;
        assert_eq!(compare(&disk, &image), None);
    }

    #[test]
    fn header_without_sense_is_not_compared_by_hints() {
        let (mut disk, image) = (heap_page(8), heap_page(8));
        disk[13] = 0xFF;
        assert_eq!(compare(&disk, &image), None);
    }
}
