//! Header and line pointers of a data page.

use strum::IntoStaticStr;

use super::cpu_dispatch;
use super::decode::{ParseError, decode_at, field, le_u16, le_u32};
use crate::types::{Lsn, is_block_size};

/// Layout version of every page since major 8.3, in the low byte of `pd_pagesize_version`.
///
/// Source: `PG_PAGE_LAYOUT_VERSION`, `src/include/storage/bufpage.h`.
pub(crate) const LAYOUT_VERSION: u16 = 4;

/// Bits of `pd_flags` that have a meaning: free line pointers (hint), page full (hint), all visible.
///
/// Source: `PD_VALID_FLAG_BITS`, `src/include/storage/bufpage.h`.
pub(crate) const VALID_FLAGS: u16 = 0x0007;

/// `PD_ALL_VISIBLE`, the same file.
const ALL_VISIBLE: u16 = 0x0004;

/// Header of a data page: 24 bytes at offset 0, little-endian.
///
/// | bytes  | field                 | C type       | meaning                                        |
/// |--------|-----------------------|--------------|------------------------------------------------|
/// | 0..4   | `lsn`, high half      | `uint32`     | LSN after the last logged change; the two      |
/// | 4..8   | `lsn`, low half       | `uint32`     | halves stand high first, each little-endian    |
/// | 8..10  | `checksum`            | `uint16`     | set only on the copy that goes to disk         |
/// | 10..12 | `flags`               | `uint16`     | see `VALID_FLAGS`                            |
/// | 12..14 | `lower`               | `uint16`     | end of the line pointers                       |
/// | 14..16 | `upper`               | `uint16`     | start of the tuples; 0 on a new page           |
/// | 16..18 | `special`             | `uint16`     | start of the special space                     |
/// | 18..20 | `pagesize_version`    | `uint16`     | page size (low byte 0) or-ed with the version  |
/// | 20..24 | `prune_xid`           | `uint32`     | oldest xid that may be prunable (hint)         |
///
/// Source: `PageHeaderData`, `src/include/storage/bufpage.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// End of the last WAL record that changed the page; 0 never logged, 1 GiST build.
    pub lsn: Lsn,
    /// Stored checksum.
    pub checksum: u16,
    /// Flag bits, unknown ones included.
    pub flags: u16,
    /// End of the line pointers, bytes from the page start.
    pub lower: u16,
    /// Start of the tuples, bytes from the page start.
    pub upper: u16,
    /// Start of the special space, bytes from the page start.
    pub special: u16,
    /// Page size or-ed with the layout version.
    pub pagesize_version: u16,
    /// Oldest xid that may be prunable.
    pub prune_xid: u32,
}

impl PageHeader {
    /// On-disk size in bytes.
    pub const SIZE: usize = 24;

    /// Decodes without judging. `base` is the offset of `buf[0]` in the file, for error messages only.
    ///
    /// # Errors
    /// `Truncated` when `buf` is shorter than [`Self::SIZE`].
    pub fn decode(base: u64, buf: &[u8]) -> Result<Self, ParseError> {
        decode_at("PageHeaderData", base, buf, |i| {
            let (i, lsn_high) = field(i, "pd_lsn", le_u32)?;
            let (i, lsn_low) = field(i, "pd_lsn", le_u32)?;
            let (i, checksum) = field(i, "pd_checksum", le_u16)?;
            let (i, flags) = field(i, "pd_flags", le_u16)?;
            let (i, lower) = field(i, "pd_lower", le_u16)?;
            let (i, upper) = field(i, "pd_upper", le_u16)?;
            let (i, special) = field(i, "pd_special", le_u16)?;
            let (i, pagesize_version) = field(i, "pd_pagesize_version", le_u16)?;
            let (i, prune_xid) = field(i, "pd_prune_xid", le_u32)?;
            let lsn = Lsn(u64::from(lsn_high) << 32 | u64::from(lsn_low));
            Ok((i, Self { lsn, checksum, flags, lower, upper, special, pagesize_version, prune_xid }))
        })
    }

    /// True for a page that was never initialised (`pd_upper` is 0); such a page is valid only if all its bytes are 0.
    pub const fn is_new(&self) -> bool {
        self.upper == 0
    }

    /// True when the page says that all of its rows are visible to everybody (`PD_ALL_VISIBLE`). A bit of the visibility map is
    /// set only for such a page.
    ///
    /// Source: `visibilitymap_set`, `src/backend/access/heap/visibilitymap.c`.
    pub(crate) const fn is_all_visible(&self) -> bool {
        self.flags & ALL_VISIBLE != 0
    }

    /// Page size that the header names, in bytes.
    pub(crate) const fn page_size(&self) -> u16 {
        self.pagesize_version & 0xFF00
    }

    /// Layout version that the header names.
    pub(crate) const fn layout_version(&self) -> u16 {
        self.pagesize_version & 0x00FF
    }

    /// Page size that a sound header with content names; `None` for any other header, which proves nothing of its page.
    pub(crate) fn named_page_size(&self) -> Option<u32> {
        let size = self.page_size();
        let sound =
            !self.is_new() && self.layout_version() == LAYOUT_VERSION && self.faults(usize::from(size)).is_empty();
        (is_block_size(u32::from(size)) && sound).then(|| u32::from(size))
    }

    /// Number of line pointers between the header and `lower`; 0 when `lower` lies inside the header.
    pub fn line_pointer_count(&self) -> usize {
        usize::from(self.lower).saturating_sub(Self::SIZE) / LinePointer::SIZE
    }

    /// The rules that the server requires of a page read from disk, and that this header breaks, in field order; empty
    /// when sound. A new page has no rules of its own.
    ///
    /// Source: `PageIsVerified`, `src/backend/storage/page/bufpage.c`.
    pub fn faults(&self, page_size: usize) -> Vec<PageFault> {
        let mut faults = Vec::new();
        if self.is_new() {
            return faults;
        }
        if self.flags & !VALID_FLAGS != 0 {
            faults.push(PageFault::UnknownFlags { found: self.flags & !VALID_FLAGS });
        }
        if self.lower > self.upper {
            faults.push(PageFault::LowerBeyondUpper { lower: self.lower, upper: self.upper });
        }
        if self.upper > self.special {
            faults.push(PageFault::UpperBeyondSpecial { upper: self.upper, special: self.special });
        }
        if usize::from(self.special) > page_size {
            faults.push(PageFault::SpecialBeyondPage { special: self.special });
        }
        if !self.special.is_multiple_of(8) {
            faults.push(PageFault::SpecialNotAligned { special: self.special });
        }
        faults
    }

    /// Rules that every page of a real server keeps but that the server does not check on reading.
    pub fn oddities(&self, page_size: usize) -> Vec<PageFault> {
        let mut odd = Vec::new();
        if self.is_new() {
            return odd;
        }
        if usize::from(self.lower) < Self::SIZE {
            odd.push(PageFault::LowerInsideHeader { lower: self.lower });
        }
        if usize::from(self.page_size()) != page_size || self.layout_version() != LAYOUT_VERSION {
            odd.push(PageFault::OtherPageSize { found: self.pagesize_version });
        }
        odd
    }
}

/// A broken rule of a page, with what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageFault {
    /// `pd_flags` has bits without a meaning.
    #[error("pd_flags has unknown bits {found:#06x}")]
    UnknownFlags {
        /// The unknown bits.
        found: u16,
    },
    /// `pd_lower` lies inside the page header.
    #[error("pd_lower {lower} is inside the page header")]
    LowerInsideHeader {
        /// `pd_lower`.
        lower: u16,
    },
    /// `pd_lower` > `pd_upper`.
    #[error("pd_lower {lower} is greater than pd_upper {upper}")]
    LowerBeyondUpper {
        /// `pd_lower`.
        lower: u16,
        /// `pd_upper`.
        upper: u16,
    },
    /// `pd_upper` > `pd_special`.
    #[error("pd_upper {upper} is greater than pd_special {special}")]
    UpperBeyondSpecial {
        /// `pd_upper`.
        upper: u16,
        /// `pd_special`.
        special: u16,
    },
    /// `pd_special` > page size.
    #[error("pd_special {special} is past the end of the page")]
    SpecialBeyondPage {
        /// `pd_special`.
        special: u16,
    },
    /// `pd_special` is not a multiple of 8.
    #[error("pd_special {special} is not a multiple of 8")]
    SpecialNotAligned {
        /// `pd_special`.
        special: u16,
    },
    /// The header names another page size or layout version.
    #[error("pd_pagesize_version is {found:#06x}, another page size or layout version")]
    OtherPageSize {
        /// `pd_pagesize_version`.
        found: u16,
    },
    /// `pd_upper` is 0, yet the page is not all zero.
    #[error("pd_upper is 0 but the page is not zero-filled")]
    NewPageNotZero,
    /// A line pointer with storage leaves the space between `pd_upper` and `pd_special`.
    #[error("line pointer {item} (offset {offset}, length {length}) leaves the tuple space")]
    LinePointerOutside {
        /// Item number, from 1.
        item: usize,
        /// Offset within the page.
        offset: u16,
        /// Length of the tuple.
        length: u16,
    },
    /// A redirecting line pointer names an item that does not exist.
    #[error("line pointer {item} redirects to item {target}, of {count}")]
    RedirectOutside {
        /// Item number, from 1.
        item: usize,
        /// Item number that it points to.
        target: u16,
        /// Number of line pointers on the page.
        count: usize,
    },
}

/// State of a line pointer.
///
/// Source: `LP_UNUSED` and its neighbours, `src/include/storage/itemid.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum LinePointerState {
    /// Free for reuse.
    Unused,
    /// Points to a tuple.
    Normal,
    /// Points to another line pointer.
    Redirect,
    /// Dead, with or without storage.
    Dead,
}

impl LinePointerState {
    /// The word for reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A line pointer: 4 bytes, bits 0 to 14 offset, 15 to 16 state, 17 to 31 length.
///
/// Source: `ItemIdData`, `src/include/storage/itemid.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePointer(pub u32);

impl LinePointer {
    /// On-disk size in bytes.
    pub const SIZE: usize = 4;

    /// Offset of the tuple within the page; for a redirect, the number of the item that it points to.
    pub fn offset(self) -> u16 {
        u16::try_from(self.0 & 0x7FFF).unwrap_or_default()
    }

    /// State bits.
    pub const fn state(self) -> LinePointerState {
        match self.0 >> 15 & 3 {
            0 => LinePointerState::Unused,
            1 => LinePointerState::Normal,
            2 => LinePointerState::Redirect,
            _ => LinePointerState::Dead,
        }
    }

    /// Length of the tuple in bytes.
    pub fn length(self) -> u16 {
        u16::try_from(self.0 >> 17).unwrap_or_default()
    }
}

/// The line pointers that the header announces, as far as the page has bytes for them.
pub fn line_pointers<'a>(header: &PageHeader, page: &'a [u8]) -> impl Iterator<Item = LinePointer> + use<'a> {
    let (pointers, _) = page.get(PageHeader::SIZE..).unwrap_or_default().as_chunks::<{ LinePointer::SIZE }>();
    pointers.iter().take(header.line_pointer_count()).map(|bytes| LinePointer(u32::from_le_bytes(*bytes)))
}

/// Line pointers that point outside the tuple space, in item order. Only for pages that keep line pointers: see
/// [`super::page_kind::PageKind::has_line_pointers`].
pub fn line_pointer_faults(header: &PageHeader, page: &[u8]) -> Vec<PageFault> {
    if line_pointers_are_sound(header, page) { Vec::new() } else { faults_of_line_pointers(header, page) }
}

/// True when no line pointer has a fault. Which one has is not reported, so that the compiler can judge several at a time.
fn line_pointers_are_sound(header: &PageHeader, page: &[u8]) -> bool {
    let (pointers, _) = page.get(PageHeader::SIZE..).unwrap_or_default().as_chunks::<{ LinePointer::SIZE }>();
    let count = header.line_pointer_count();
    let pointers = pointers.get(..count.min(pointers.len())).unwrap_or_default();
    cpu_dispatch::all_inside(
        pointers,
        &PointerBounds {
            upper: i32::from(header.upper),
            special: i32::from(header.special),
            count: i32::try_from(count).unwrap_or(i32::MAX),
        },
    )
}

/// Valid targets of line pointers. Signed, because the oldest vector registers compare signed numbers.
pub(super) struct PointerBounds {
    upper: i32,
    special: i32,
    count: i32,
}

/// True when all these line pointers are sound. Inlined into each copy that `cpu_dispatch` compiles.
#[inline(always)]
pub(super) fn all_inside_body(pointers: &[[u8; LinePointer::SIZE]], bounds: &PointerBounds) -> bool {
    pointers.iter().fold(true, |sound, bytes| {
        let bits = i32::from_le_bytes(*bytes);
        let (offset, state, length) = (bits & 0x7FFF, bits >> 15 & 3, bits >> 17 & 0x7FFF);
        let inside = (offset >= bounds.upper) & (offset.wrapping_add(length) <= bounds.special);
        let is_sound = (state == 0)
            | ((state == 1) & (length > 0) & inside)
            | ((state == 2) & (offset > 0) & (offset <= bounds.count))
            | ((state == 3) & ((length == 0) | inside));
        sound & is_sound
    })
}

fn faults_of_line_pointers(header: &PageHeader, page: &[u8]) -> Vec<PageFault> {
    let count = header.line_pointer_count();
    let inside = |offset: u16, length: u16| {
        offset >= header.upper && u32::from(offset).saturating_add(u32::from(length)) <= u32::from(header.special)
    };
    line_pointers(header, page)
        .enumerate()
        .filter_map(|(index, pointer)| {
            let item = index.saturating_add(1);
            let (offset, length) = (pointer.offset(), pointer.length());
            match pointer.state() {
                LinePointerState::Redirect if offset == 0 || usize::from(offset) > count => {
                    Some(PageFault::RedirectOutside { item, target: offset, count })
                }
                LinePointerState::Normal if length == 0 || !inside(offset, length) => {
                    Some(PageFault::LinePointerOutside { item, offset, length })
                }
                LinePointerState::Dead if length > 0 && !inside(offset, length) => {
                    Some(PageFault::LinePointerOutside { item, offset, length })
                }
                _ => None,
            }
        })
        .collect()
}

/// True when every byte is zero.
pub fn is_all_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|word| *word == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

/// Everything that is wrong with a page apart from its checksum: header rules, and a "new" page with content. Line
/// pointers are judged apart, since only some kinds of page have them.
pub fn page_faults(header: &PageHeader, page: &[u8]) -> Vec<PageFault> {
    if header.is_new() {
        return if is_all_zero(page) { Vec::new() } else { vec![PageFault::NewPageNotZero] };
    }
    header.faults(page.len())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const SOUND: PageHeader = PageHeader {
        lsn: Lsn(0x1_0000_0028),
        checksum: 0,
        flags: 4,
        lower: 32,
        upper: 8000,
        special: 8176,
        pagesize_version: 0x2004,
        prune_xid: 0,
    };

    fn page_with(pointers: &[u32]) -> Vec<u8> {
        let mut page = vec![0; 8192];
        for (index, pointer) in pointers.iter().enumerate() {
            page[24 + index * 4..28 + index * 4].copy_from_slice(&pointer.to_le_bytes());
        }
        page
    }

    #[test]
    fn halves_of_the_lsn_stand_high_first() {
        let bytes = [1, 0, 0, 0, 0x28, 0, 0, 0, 0x34, 0x12, 4, 0, 24, 0, 0, 32, 0, 32, 4, 32, 9, 0, 0, 0];
        let header = PageHeader::decode(0, &bytes).unwrap();
        assert_eq!(header.lsn, Lsn(0x1_0000_0028));
        assert_eq!((header.checksum, header.lower, header.upper, header.prune_xid), (0x1234, 24, 8192, 9));
        assert_eq!((header.page_size(), header.layout_version()), (8192, 4));
    }

    #[test]
    fn every_truncation_is_an_error_inside_the_input() {
        for length in 0..PageHeader::SIZE {
            let error = PageHeader::decode(0x4000, &[0; PageHeader::SIZE][..length]).unwrap_err();
            assert!(error.offset >= 0x4000 && error.offset <= 0x4000 + length as u64, "{error}");
        }
    }

    #[test]
    fn broken_order_of_the_header_is_a_fault() {
        assert_eq!(SOUND.faults(8192), []);
        let header = PageHeader { flags: 0x18, lower: 8100, special: 8193, ..SOUND };
        let faults = header.faults(8192);
        assert_eq!(faults.len(), 4, "{faults:?}");
        assert_eq!(faults[0], PageFault::UnknownFlags { found: 0x18 });
    }

    #[test]
    fn line_pointer_outside_the_tuple_space_is_a_fault() {
        let normal = |offset: u32, length: u32| offset | 1 << 15 | length << 17;
        let page = page_with(&[normal(8000, 176), normal(7992, 8)]);
        assert_eq!(
            line_pointer_faults(&SOUND, &page),
            [PageFault::LinePointerOutside { item: 2, offset: 7992, length: 8 }]
        );
        let page = page_with(&[normal(8000, 177), 3 | 2 << 15]);
        assert_eq!(line_pointer_faults(&SOUND, &page).len(), 2);
    }

    proptest! {
        #[test]
        fn quick_look_at_line_pointers_agrees_with_the_slow_one(
            pointers in vec((7990_u32..8200, 0_u32..4, 0_u32..190), 0..9),
            small in vec((0_u32..10, 2_u32..4, 0_u32..2), 0..3),
            (upper, special) in (7990_u16..8010, 8170_u16..8192),
        ) {
            let bits: Vec<u32> =
                pointers.iter().chain(&small).map(|(offset, state, length)| offset | state << 15 | length << 17).collect();
            let lower = 24 + 4 * bits.len() as u16;
            let header = PageHeader { lower, upper, special, ..SOUND };
            let faults = faults_of_line_pointers(&header, &page_with(&bits));
            prop_assert_eq!(line_pointers_are_sound(&header, &page_with(&bits)), faults.is_empty());
        }
    }

    #[test]
    fn header_that_announces_more_pointers_than_the_page_holds_is_cut_there() {
        let header = PageHeader { lower: u16::MAX, upper: u16::MAX, ..SOUND };
        assert_eq!(line_pointers(&header, &[0; 1024]).count(), 250);
    }

    #[test]
    fn new_page_with_content_is_a_fault() {
        let mut page = vec![0; 8192];
        let header = PageHeader::decode(0, &page).unwrap();
        assert_eq!(page_faults(&header, &page), []);
        page[8191] = 1;
        assert_eq!(page_faults(&header, &page), [PageFault::NewPageNotZero]);
    }
}
