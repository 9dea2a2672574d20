//! Facts about one slot in isolation.
//! Also here: a slot as one row of a long table: small, and without its image.

use strum::IntoStaticStr;

use super::compare::{Comparison, digest_but_checksum};
use super::slots::SlotRef;
use super::staleness::{BatchReason, BatchVerdict, Staleness};
use crate::analysis::changes::sectors::SECTOR_BYTES;
use crate::parsers::checksum::page_checksum;
use crate::parsers::dwb::{CrcPair, CrcVerdict, Slot, SlotFault, SlotHeader};
use crate::parsers::page::{PageFault, PageHeader, is_all_zero, line_pointer_faults, page_faults};
use crate::parsers::page_kind::PageKind;
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId, RelFileLocator};

/// Result of checking the image's `pd_checksum`. A checkpoint copies pages without setting it, so only `Good` proves
/// anything, and `Stale` and `Zero` are normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum PageChecksum {
    /// The one of these bytes at this block.
    Good,
    /// Another one.
    Stale,
    /// Never set.
    Zero,
    /// The cluster has no data checksums, so the field may hold anything.
    Off,
}

impl PageChecksum {
    /// The word for reports and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Which writer made a slot, as far as the image shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum WritePath {
    /// A backend or the background writer: the page was copied with a fresh checksum.
    Eviction,
    /// A checkpoint's first phase: the page was copied as it stood in memory.
    Checkpoint,
    /// Whoever it was: in this kind of buffer every page is copied under a lock, with a fresh checksum.
    Locked,
}

impl WritePath {
    /// The word for reports and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// True when the page was copied under a lock, with a fresh checksum: its LSN is that of its content.
    pub(crate) const fn is_locked(self) -> bool {
        matches!(self, Self::Eviction | Self::Locked)
    }
}

/// Whether a slot holds what was written into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Condition {
    /// Never written.
    Empty,
    /// CRC right.
    Sound,
    /// CRC wrong under a header that makes sense: a write of the slot that was cut, or later damage. In a layout whose CRC
    /// proves nothing, the image's own checksum counts instead.
    Torn,
    /// A used slot with an invalid header.
    Damaged,
    /// The layout's CRC proves nothing, and the image's own checksum does not prove the slot damaged.
    Unverifiable,
    /// CRC right, but the writer gave the slot up: its image is that of another page.
    Aborted,
}

impl Condition {
    /// The word for reports and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Everything about a slot but the image's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotFacts {
    /// Index in the file, from 0.
    pub index: u64,
    /// Offset of the slot header in the file.
    pub offset: u64,
    /// Decoded header.
    pub header: SlotHeader,
    /// Result of checking the CRC; `None` for an empty slot.
    pub crc: Option<CrcVerdict>,
    /// The computed CRC, if the layout's can be computed.
    pub computed_crc: Option<u32>,
    /// The CRC of the image alone, where the layout has one.
    pub image_crc: Option<CrcPair>,
    /// Whether the slot holds what was written.
    pub condition: Condition,
    /// Header of the image.
    pub page: PageHeader,
    /// Kind of page of the image.
    pub page_kind: PageKind,
    /// Result of checking the image's checksum; `None` for an empty slot.
    pub page_checksum: Option<PageChecksum>,
    /// The checksum that the image would carry in the data file.
    pub computed_page_checksum: u16,
    /// Digest of the image without its checksum; 0 for an empty slot.
    pub digest: u64,
    /// Who wrote the slot; `None` where the checksum does not show it.
    pub path: Option<WritePath>,
    /// Rules that the slot header breaks.
    pub slot_faults: Vec<SlotFault>,
    /// Rules that the image breaks as a page, line pointers included.
    pub page_faults: Vec<PageFault>,
    /// For a slot that fails its CRC: first sector from which on the image is all zero.
    pub zero_from_sector: Option<usize>,
}

impl SlotFacts {
    /// Judges a slot. `checksums_written`: whether the server sets page checksums; `None` when it is not known.
    pub fn of(slot: &Slot<'_>, checksums_written: Option<bool>) -> Self {
        // The content of an aborted slot belongs to another page and time: none of it is shown.
        let image = if slot.is_aborted { &[] } else { slot.image };
        let page = PageHeader::decode(0, image).unwrap_or(PageHeader {
            lsn: Lsn::INVALID,
            checksum: 0,
            flags: 0,
            lower: 0,
            upper: 0,
            special: 0,
            pagesize_version: 0,
            prune_xid: 0,
        });
        let has_image = !slot.is_empty && !slot.is_aborted;
        let crc = (!slot.is_empty).then(|| slot.crc_verdict());
        let slot_faults = if slot.is_empty { Vec::new() } else { slot.layout.slot_faults(&slot.header) };
        let computed = if has_image { page_checksum(image, slot.header.block) } else { 0 };
        let page_checksum = match checksums_written {
            _ if !has_image => None,
            Some(false) => Some(PageChecksum::Off),
            _ if page.checksum == 0 => Some(PageChecksum::Zero),
            _ if page.checksum == computed => Some(PageChecksum::Good),
            _ => Some(PageChecksum::Stale),
        };
        // Where nobody can verify the slot's CRC, no image was ever copied without setting its checksum.
        let needs_checksum = crc == Some(CrcVerdict::Unverifiable);
        let is_failed = match crc {
            Some(CrcVerdict::Bad) => true,
            _ => {
                needs_checksum
                    && checksums_written == Some(true)
                    && page_checksum == Some(PageChecksum::Stale)
                    && !page.is_new()
            }
        };
        let condition = match crc {
            None => Condition::Empty,
            _ if slot.is_aborted => Condition::Aborted,
            _ if is_failed && slot_faults.is_empty() => Condition::Torn,
            _ if is_failed => Condition::Damaged,
            Some(CrcVerdict::Unverifiable) => Condition::Unverifiable,
            Some(CrcVerdict::Good | CrcVerdict::Bad) => Condition::Sound,
        };
        let path = match page_checksum {
            Some(PageChecksum::Good) if slot.layout.copies_under_lock() => Some(WritePath::Locked),
            _ if slot.layout.copies_under_lock() => None,
            Some(PageChecksum::Good) => Some(WritePath::Eviction),
            Some(PageChecksum::Stale | PageChecksum::Zero) if !page.is_new() && !needs_checksum => {
                Some(WritePath::Checkpoint)
            }
            _ => None,
        };
        let page_kind = PageKind::of(&page, image, slot.header.fork().unwrap_or(ForkNumber::Main));
        let mut page_faults = if slot.is_aborted { Vec::new() } else { page_faults(&page, image) };
        if !page.is_new() {
            page_faults.extend(page.oddities(image.len()));
            if page_kind.has_line_pointers() {
                page_faults.extend(line_pointer_faults(&page, image));
            }
        }
        let failed = matches!(condition, Condition::Torn | Condition::Damaged);
        Self {
            index: slot.index,
            offset: slot.offset,
            header: if slot.is_aborted {
                SlotHeader { lsn: Lsn::INVALID, ..slot.header.clone() }
            } else {
                slot.header.clone()
            },
            crc,
            computed_crc: slot.computed_crc,
            image_crc: slot.image_crc,
            condition,
            page,
            page_kind,
            page_checksum,
            computed_page_checksum: computed,
            digest: if has_image { digest_but_checksum(image) } else { 0 },
            path,
            slot_faults,
            page_faults,
            zero_from_sector: failed.then(|| zero_tail(image)).flatten(),
        }
    }

    /// The newer of the two LSNs that a slot carries.
    pub(crate) fn newest_lsn(&self) -> Lsn {
        self.header.lsn.max(self.page.lsn)
    }

    /// True when the slot's content may be built upon: it was written, and nothing proves it damaged.
    pub(crate) fn is_usable(&self) -> bool {
        match self.condition {
            Condition::Sound => true,
            Condition::Unverifiable => self.slot_faults.is_empty() && self.page_faults.is_empty(),
            Condition::Empty | Condition::Torn | Condition::Damaged | Condition::Aborted => false,
        }
    }
}

/// First sector of the run of zero sectors at the end of an image, if there is one and the image is not all zero.
fn zero_tail(image: &[u8]) -> Option<usize> {
    let last = image.chunks(SECTOR_BYTES).rposition(|sector| !is_all_zero(sector))?;
    (last.saturating_add(1) < image.len().div_ceil(SECTOR_BYTES)).then_some(last.saturating_add(1))
}

/// A slot, used or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRow {
    /// Index of the file in the set.
    pub file: usize,
    /// Index of the slot in the file.
    pub index: u64,
    /// Stored number.
    pub slot_id: u32,
    /// Stored relation.
    pub rel: RelFileLocator,
    /// Stored fork; `None` for a code that no fork has.
    pub fork: Option<ForkNumber>,
    /// Stored block.
    pub block: BlockNumber,
    /// LSN in the slot header.
    pub slot_lsn: Lsn,
    /// LSN in the image.
    pub page_lsn: Lsn,
    /// Whether it holds what was written.
    pub condition: Condition,
    /// Result of checking the image's checksum.
    pub page_checksum: Option<PageChecksum>,
    /// Who wrote it.
    pub path: Option<WritePath>,
    /// The page, where the slot may be built upon.
    pub page: Option<PageId>,
    /// Whether it was written since the last checkpoint.
    pub batch: Option<(BatchVerdict, BatchReason)>,
    /// How its image stands to the page on disk.
    pub comparison: Option<Comparison>,
}

impl SlotRow {
    /// The row of a slot; batch and comparison come later.
    pub fn of(file: usize, facts: &SlotFacts) -> Self {
        Self {
            file,
            index: facts.index,
            slot_id: facts.header.slot_id,
            rel: facts.header.rel,
            fork: facts.header.fork(),
            block: facts.header.block,
            slot_lsn: facts.header.lsn,
            page_lsn: facts.page.lsn,
            condition: facts.condition,
            page_checksum: facts.page_checksum,
            path: facts.path,
            page: facts.header.page_id().filter(|_| facts.is_usable()),
            batch: None,
            comparison: None,
        }
    }
}

/// Fills in what is known only when everything was examined. `rows` is in the order of file and slot index.
pub(crate) fn fill_in_verdicts(rows: &mut [SlotRow], staleness: &Staleness, compared: &[SlotRef]) {
    for row in rows.iter_mut().filter(|row| row.condition != Condition::Empty) {
        row.batch = staleness.verdict(row.file, row.index);
    }
    for slot in compared {
        if let Ok(at) = rows.binary_search_by_key(&(slot.file, slot.index), |row| (row.file, row.index))
            && let Some(row) = rows.get_mut(at)
        {
            row.comparison = slot.comparison;
        }
    }
}
