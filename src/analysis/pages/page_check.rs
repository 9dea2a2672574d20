//! Condition of one page of a data file in isolation: valid, zero-filled, or damaged, and how.

use strum::{IntoStaticStr, VariantNames};

use crate::parsers::checksum::page_checksum;
use crate::parsers::heap::{TupleFault, first_tuple_fault};
use crate::parsers::page::{PageFault, PageHeader, line_pointer_faults, page_faults};
use crate::parsers::page_kind::PageKind;
use crate::types::{BlockNumber, ForkNumber};

/// Condition of one page on disk in isolation.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum PageCondition {
    /// Nothing is wrong with it.
    Sound,
    /// All its bytes are zero: added to the file and never filled, which every server accepts.
    Zeroed,
    /// Something is wrong.
    Damaged(Box<PageDamage>),
}

/// Everything that is wrong with a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageDamage {
    /// The checksums where they differ; `None` when they agree, when the cluster has none, and for a page that was never
    /// initialised, which has none.
    pub checksum: Option<ChecksumMismatch>,
    /// Rules of headers and line pointers that the page breaks.
    pub faults: Vec<PageFault>,
    /// The first broken rule among the tuples, with the item number. Looked for on heap pages only, and only where no
    /// checksum vouches for the bytes.
    pub tuple_fault: Option<(usize, TupleFault)>,
    /// A server that reads this page reports an error: checksum, header, or a page without header that is not all zero.
    /// It examines nothing else before it uses a page.
    ///
    /// Source: `PageIsVerified`, `src/backend/storage/page/bufpage.c`.
    pub server_rejects: bool,
}

/// A checksum that is not that of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumMismatch {
    /// Value of `pd_checksum`.
    pub stored: u16,
    /// Checksum computed from the bytes and the block number.
    pub computed: u16,
}

/// One thing that is wrong with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum PageFlaw {
    /// The checksum is not that of the bytes.
    Checksum(ChecksumMismatch),
    /// A rule of headers and line pointers is broken.
    PageRule(PageFault),
    /// A rule of tuples is broken.
    TupleRule {
        /// Item number, from 1.
        item: usize,
        /// Which rule.
        fault: TupleFault,
    },
}

impl PageFlaw {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

impl PageCondition {
    /// Judges a page by its bytes alone. `block` is the number within the fork; `checksums`: whether the server that
    /// wrote it sets page checksums.
    ///
    /// Line pointers and tuples are examined only below a header that makes sense, since it says where they are.
    pub fn of(page: &[u8], fork: ForkNumber, block: BlockNumber, checksums: bool) -> Self {
        Self::with_checksum(page, fork, || checksums.then(|| page_checksum(page, block)))
    }

    /// As [`Self::of`]; `computed` gives the checksum of the bytes where the server sets checksums. It is not asked for
    /// on a page without header.
    pub(crate) fn with_checksum(page: &[u8], fork: ForkNumber, computed: impl FnOnce() -> Option<u16>) -> Self {
        let Ok(header) = PageHeader::decode(0, page) else {
            // Too short to hold a header: no page at all. Callers hand over whole pages.
            return Self::Damaged(Box::new(PageDamage {
                checksum: None,
                faults: Vec::new(),
                tuple_fault: None,
                server_rejects: true,
            }));
        };
        let mut faults = page_faults(&header, page);
        if header.is_new() {
            if faults.is_empty() {
                return Self::Zeroed;
            }
            return Self::Damaged(Box::new(PageDamage {
                checksum: None,
                faults,
                tuple_fault: None,
                server_rejects: true,
            }));
        }
        let computed = computed();
        let checksum = computed
            .map(|computed| ChecksumMismatch { stored: header.checksum, computed })
            .filter(|sums| sums.stored != sums.computed);
        let header_is_sane = faults.is_empty();
        let server_rejects = checksum.is_some() || !header_is_sane;
        faults.extend(header.oddities(page.len()));
        let mut tuple_fault = None;
        if header_is_sane {
            let kind = PageKind::of(&header, page, fork);
            if kind.has_line_pointers() {
                faults.extend(line_pointer_faults(&header, page));
            }
            if kind == PageKind::Heap && (checksum.is_some() || computed.is_none()) {
                tuple_fault = first_tuple_fault(&header, page);
            }
        }
        if checksum.is_none() && faults.is_empty() && tuple_fault.is_none() {
            return Self::Sound;
        }
        Self::Damaged(Box::new(PageDamage { checksum, faults, tuple_fault, server_rejects }))
    }

    /// The word for reports and JSON.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// The damage; `None` for a page that a server accepts.
    pub fn damage(&self) -> Option<&PageDamage> {
        match self {
            Self::Damaged(damage) => Some(damage),
            Self::Sound | Self::Zeroed => None,
        }
    }
}

impl PageDamage {
    /// Everything that is wrong, the checksum first.
    pub(crate) fn flaws(&self) -> impl Iterator<Item = PageFlaw> {
        let rules = self.faults.iter().map(|fault| PageFlaw::PageRule(*fault));
        let tuple = self.tuple_fault.map(|(item, fault)| PageFlaw::TupleRule { item, fault });
        self.checksum.map(PageFlaw::Checksum).into_iter().chain(rules).chain(tuple)
    }

    /// Everything that is wrong apart from the checksum.
    pub(crate) fn structure_flaws(&self) -> impl Iterator<Item = PageFlaw> {
        self.flaws().filter(|flaw| !matches!(flaw, PageFlaw::Checksum(_)))
    }

    /// The codes of everything that is wrong apart from the checksum.
    pub(crate) fn structure_codes(&self) -> Vec<&'static str> {
        self.structure_flaws().map(|flaw| flaw.code()).collect()
    }

    /// True when the page has no header (`pd_upper` is 0) but is not all zero.
    pub(crate) fn is_new_not_zero(&self) -> bool {
        self.faults.contains(&PageFault::NewPageNotZero)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parsers::image::set_checksum;

    /// A heap page with these line pointers (offset, state, length), each tuple's data after a header of 24 bytes.
    fn heap_page(pointers: &[(u32, u32, u32)]) -> Vec<u8> {
        let mut page = vec![0; 8192];
        let lower = 24 + u16::try_from(pointers.len()).unwrap() * 4;
        page[12..14].copy_from_slice(&lower.to_le_bytes());
        page[14..16].copy_from_slice(&8000_u16.to_le_bytes());
        page[16..18].copy_from_slice(&8192_u16.to_le_bytes());
        page[18..20].copy_from_slice(&0x2004_u16.to_le_bytes());
        for (index, (offset, state, length)) in pointers.iter().enumerate() {
            let pointer = offset | state << 15 | length << 17;
            page[24 + index * 4..28 + index * 4].copy_from_slice(&pointer.to_le_bytes());
            if *state == 1 {
                page[*offset as usize + 22] = 24;
            }
        }
        page
    }

    fn judged(page: &[u8], checksums: bool) -> PageCondition {
        PageCondition::of(page, ForkNumber::Main, 7, checksums)
    }

    #[test]
    fn sound_and_empty_pages() {
        let mut page = heap_page(&[(8000, 1, 64), (0, 3, 0), (1, 2, 0)]);
        assert_eq!(judged(&page, false), PageCondition::Sound);
        set_checksum(&mut page, 7);
        assert_eq!(judged(&page, true), PageCondition::Sound);
        assert_eq!(judged(&[0; 8192], true), PageCondition::Zeroed);
    }

    #[test]
    fn checksum_alone_is_damage_only_where_there_are_checksums() {
        let mut page = heap_page(&[(8000, 1, 64)]);
        set_checksum(&mut page, 8);
        assert_eq!(judged(&page, false), PageCondition::Sound);
        let PageCondition::Damaged(damage) = judged(&page, true) else { panic!("another block's checksum") };
        let sums = damage.checksum.unwrap();
        assert_ne!(sums.stored, sums.computed);
        assert!(damage.server_rejects && damage.faults.is_empty() && damage.tuple_fault.is_none());
        assert_eq!(
            damage.to_string(),
            format!("stored checksum {:#06x}, computed {:#06x}", sums.stored, sums.computed)
        );
    }

    #[test]
    fn page_without_header_but_with_content_is_rejected() {
        let mut page = vec![0; 8192];
        page[8191] = 1;
        for checksums in [false, true] {
            let PageCondition::Damaged(damage) = judged(&page, checksums) else { panic!("not zero-filled") };
            assert_eq!(damage.faults, [PageFault::NewPageNotZero]);
            assert!(damage.server_rejects && damage.checksum.is_none());
        }
    }

    #[test]
    fn what_no_server_checks_is_damage_that_it_does_not_reject() {
        let mut page = heap_page(&[(8000, 1, 64)]);
        page[19] = 0x40;
        set_checksum(&mut page, 7);
        let PageCondition::Damaged(damage) = judged(&page, true) else { panic!("another page size") };
        assert_eq!(damage.faults, [PageFault::OtherPageSize { found: 0x4004 }]);
        assert!(!damage.server_rejects && damage.checksum.is_none());
        let mut page = heap_page(&[(8000, 1, 64)]);
        page[24..28].copy_from_slice(&(7000_u32 | 1 << 15 | 64 << 17).to_le_bytes());
        set_checksum(&mut page, 7);
        let PageCondition::Damaged(damage) = judged(&page, true) else { panic!("pointer into free space") };
        assert_eq!(damage.faults, [PageFault::LinePointerOutside { item: 1, offset: 7000, length: 64 }]);
        assert!(!damage.server_rejects);
    }

    #[test]
    fn tuples_are_looked_at_where_no_checksum_vouches_for_them() {
        let mut page = heap_page(&[(8000, 1, 64)]);
        page[8022] = 200;
        let fault = Some((1, TupleFault::DataBeyondTuple { data_offset: 200, length: 64 }));
        let tuple_fault =
            |page: &[u8], checksums| judged(page, checksums).damage().and_then(|damage| damage.tuple_fault);
        assert_eq!(tuple_fault(&page, false), fault);
        assert_eq!(tuple_fault(&page, true), fault, "the checksum is wrong too");
        set_checksum(&mut page, 7);
        assert_eq!(judged(&page, true), PageCondition::Sound);
    }

    #[test]
    fn nothing_is_read_below_a_header_that_makes_no_sense() {
        let mut page = heap_page(&[(3, 1, 9); 100]);
        page[16..18].copy_from_slice(&8190_u16.to_le_bytes());
        let PageCondition::Damaged(damage) = judged(&page, false) else { panic!("pd_special is not aligned") };
        assert_eq!(damage.faults, [PageFault::SpecialNotAligned { special: 8190 }]);
        assert!(damage.server_rejects);
    }

    #[test]
    fn long_lists_of_faults_are_cut_in_words() {
        let page = heap_page(&[(3, 2, 0), (3, 2, 0), (9, 2, 0), (9, 2, 0), (9, 2, 0), (9, 2, 0), (9, 2, 0)]);
        let condition = judged(&page, false);
        let text = condition.to_string();
        assert!(text.starts_with("damaged: line pointer 3 redirects") && text.ends_with("; and 1 more"), "{text}");
        assert_eq!(condition.damage().unwrap().sentences().len(), 5);
    }

    #[test]
    fn index_pages_with_maps_in_place_of_line_pointers_are_sound() {
        // A B-tree metapage: BTP_META, and 48 bytes of metadata where line pointers would stand.
        let mut page = heap_page(&[(0, 0, 0); 12]);
        page[14..16].copy_from_slice(&8176_u16.to_le_bytes());
        page[16..18].copy_from_slice(&8176_u16.to_le_bytes());
        page[24..72].fill(0xFF);
        page[8188..8190].copy_from_slice(&8_u16.to_le_bytes());
        assert_eq!(judged(&page, false), PageCondition::Sound);
        page[8188..8190].copy_from_slice(&1_u16.to_le_bytes());
        assert!(judged(&page, false).damage().is_some(), "a leaf page has line pointers there");
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer_with_words(page in proptest::collection::vec(any::<u8>(), 0..2048), block: u32) {
            for fork in ForkNumber::ALL {
                let condition = PageCondition::of(&page, fork, block, true);
                prop_assert!(!condition.to_string().is_empty());
                if let Some(damage) = condition.damage() {
                    prop_assert!(damage.checksum.is_none() || damage.server_rejects);
                    prop_assert!(!damage.to_string().is_empty());
                }
            }
        }

        #[test]
        fn one_flipped_bit_is_always_found_by_the_checksum(at in 0_usize..8192 * 8) {
            let mut page = heap_page(&[(8000, 1, 64)]);
            set_checksum(&mut page, 7);
            page[at / 8] ^= 1 << (at % 8);
            let condition = judged(&page, true);
            prop_assert!(condition.damage().is_some_and(|damage| damage.server_rejects), "{condition}");
        }
    }
}
