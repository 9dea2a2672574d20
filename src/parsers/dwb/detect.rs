//! Which layout a DWB file has: by where the header CRC verifies, then by what the slots say, then by the file's size.

use super::{CrcVerdict, DwbLayout, FileHeader, HeaderFault, LAYOUTS, MAX_SLOTS_PER_FILE, Slot};
use crate::parsers::decode::ParseError;
use crate::parsers::page::PageHeader;
use crate::types::{Geometry, MAX_BLOCK_SIZE, MIN_BLOCK_SIZE, is_block_size};

/// Bytes from the start of a file that cover the header of every layout.
fn probe_bytes() -> usize {
    LAYOUTS.iter().map(|layout| layout.header_bytes()).max().unwrap_or_default()
}

/// Slots that are tried per layout and page size, half of them from the start, half spread over the file.
const SAMPLES: u64 = 32;

/// Reads bytes of the file under test: offset and length in, `None` where the file ends earlier or cannot be read.
pub(crate) type ReadAt<'a> = &'a mut dyn FnMut(u64, usize) -> Option<Vec<u8>>;

/// How the layout of a file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LayoutEvidence {
    /// The header CRC verifies where this layout keeps it.
    pub header_crc: bool,
    /// Slots among the samples whose CRC verifies under this layout.
    pub verified_slots: u64,
    /// The file has the length that its header's slot count gives; without a sound header, any whole number of slots.
    pub length_fits: bool,
    /// Slots among the samples whose header and page header make sense under this layout.
    pub plausible_slots: u64,
}

/// Layout and geometry of a file.
#[derive(Clone, Debug)]
pub struct Detection {
    /// The layout.
    pub layout: &'static dyn DwbLayout,
    /// How it was found.
    pub evidence: LayoutEvidence,
    /// Bytes of a page image, and where that number comes from.
    pub block_size: u32,
    /// Header as decoded, or why it could not be.
    pub header: Result<FileHeader, ParseError>,
    /// Slots to read: as many as the file holds, or the header's count where a longer file is explained by it.
    pub slot_count: u64,
    /// Slots that the header announces and the file is too short for.
    pub missing_slots: u64,
    /// Slots beyond the most that any server makes; not read.
    pub excess_slots: u64,
    /// Bytes after the last whole slot.
    pub trailing_bytes: u64,
    /// The file is longer than its header's slot count gives, and no other layout explains the length.
    pub longer_than_header: bool,
}

impl Detection {
    /// Rules that the header breaks; empty when it is sound or could not be decoded.
    pub(crate) fn header_faults(&self) -> Vec<HeaderFault> {
        self.header.as_ref().map(|header| header.faults.clone()).unwrap_or_default()
    }

    /// False when nothing in the file belongs to a double write buffer: no header's CRC or magic number, and no slot.
    pub(crate) fn is_recognised(&self) -> bool {
        let evidence = &self.evidence;
        let slots = evidence.verified_slots > 0 || evidence.plausible_slots > 0;
        let is_magic = |fault: &HeaderFault| matches!(fault, HeaderFault::Magic { .. });
        let has_magic = |header: &FileHeader| header.magic != 0 && !header.faults.iter().any(is_magic);
        evidence.header_crc || slots || self.header.as_ref().is_ok_and(has_magic)
    }

    /// The header, if it breaks no rule.
    pub fn sound_header(&self) -> Option<&FileHeader> {
        self.header.as_ref().ok().filter(|header| header.faults.is_empty())
    }
}

/// Finds layout and geometry of a file of `file_size` bytes. `block_size_hint` is the page size of the cluster, if
/// known; it is used where the header does not give one. The answer is a best guess even for garbage: see `evidence`.
pub fn detect(file_size: u64, block_size_hint: Option<u32>, read_at: ReadAt<'_>) -> Detection {
    let probe = read_at(0, probe_bytes()).or_else(|| read_at(0, usize::try_from(file_size).ok()?.min(probe_bytes())));
    let probe = probe.unwrap_or_default();
    let mut best: Option<(LayoutEvidence, &'static dyn DwbLayout, u32)> = None;
    for layout in LAYOUTS {
        let header = layout.decode_header(&probe).ok().filter(|header| header.faults.is_empty());
        for block_size in block_sizes(header.as_ref(), block_size_hint) {
            if header.is_some() && best.as_ref().is_some_and(|(strongest, ..)| strongest.verified_slots > 0) {
                break;
            }
            let evidence = weigh(layout, header.as_ref(), block_size, file_size, read_at);
            if best.as_ref().is_none_or(|(strongest, ..)| evidence > *strongest) {
                best = Some((evidence, layout, block_size));
            }
        }
    }
    let fallback: &'static dyn DwbLayout = LAYOUTS.first().copied().unwrap_or(&super::revision_b::REVISION_B);
    let nothing = LayoutEvidence { header_crc: false, verified_slots: 0, length_fits: false, plausible_slots: 0 };
    let (evidence, layout, block_size) = best.unwrap_or((
        nothing,
        fallback,
        block_size_hint.filter(|size| is_block_size(*size)).unwrap_or(Geometry::USUAL.block_size),
    ));
    measure(layout, evidence, block_size, file_size, &probe)
}

/// Page sizes to try, the likeliest first.
fn block_sizes(header: Option<&FileHeader>, hint: Option<u32>) -> Vec<u32> {
    if let Some(header) = header {
        // The header's own first; others only where its slots do not verify, for a header that is not theirs.
        let mut sizes = vec![header.block_size];
        sizes.extend(
            hint.into_iter()
                .chain([Geometry::USUAL.block_size])
                .filter(|size| is_block_size(*size) && *size != header.block_size),
        );
        sizes.dedup();
        return sizes;
    }
    let mut sizes: Vec<u32> = hint.into_iter().filter(|size| is_block_size(*size)).collect();
    let every = std::iter::successors(Some(MIN_BLOCK_SIZE), |size| size.checked_mul(2));
    for size in [Geometry::USUAL.block_size].into_iter().chain(every.take_while(|size| *size <= MAX_BLOCK_SIZE)) {
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    sizes
}

/// Whole slots that fit in the file, and the bytes after them.
fn room(layout: &dyn DwbLayout, block_size: u32, file_size: u64) -> (u64, u64) {
    let first = layout.slot_ranges(block_size, 0).header.start;
    let stride = layout.slot_ranges(block_size, 1).header.start.saturating_sub(first).max(1);
    let bytes = file_size.saturating_sub(first);
    (bytes.checked_div(stride).unwrap_or_default(), bytes.checked_rem(stride).unwrap_or_default())
}

fn weigh(
    layout: &'static dyn DwbLayout,
    header: Option<&FileHeader>,
    block_size: u32,
    file_size: u64,
    read_at: ReadAt<'_>,
) -> LayoutEvidence {
    let (slots, trailing) = room(layout, block_size, file_size);
    let whole = slots > 0 && trailing == 0;
    let length_fits = whole && header.is_none_or(|header| u64::from(header.slots_per_file) == slots);
    let mut evidence =
        LayoutEvidence { header_crc: header.is_some(), verified_slots: 0, length_fits, plausible_slots: 0 };
    let half = SAMPLES / 2;
    let spread = slots.checked_div(half).unwrap_or_default().max(1);
    let indexes = (0..half).chain((0..half).map(|sample| sample.saturating_mul(spread).saturating_add(half)));
    for index in indexes.filter(|index| *index < slots) {
        let ranges = layout.slot_ranges(block_size, index);
        let mut part = |range: std::ops::Range<u64>| {
            read_at(range.start, usize::try_from(range.end.saturating_sub(range.start)).ok()?)
        };
        let (Some(header_bytes), Some(image)) = (part(ranges.header.clone()), part(ranges.image.clone())) else {
            continue;
        };
        let Ok(slot) = Slot::decode(layout, index, &ranges, &header_bytes, &image) else { continue };
        if slot.is_empty {
            continue;
        }
        if slot.crc_verdict() == CrcVerdict::Good {
            evidence.verified_slots = evidence.verified_slots.saturating_add(1);
        }
        if is_plausible(&slot) {
            evidence.plausible_slots = evidence.plausible_slots.saturating_add(1);
        }
    }
    evidence
}

/// True when a slot header keeps all rules and the image begins like a page of its size.
fn is_plausible(slot: &Slot<'_>) -> bool {
    let page = PageHeader::decode(0, slot.image);
    slot.layout.slot_faults(&slot.header).is_empty()
        && page.is_ok_and(|page| page.faults(slot.image.len()).is_empty() && page.oddities(slot.image.len()).is_empty())
}

fn measure(
    layout: &'static dyn DwbLayout,
    evidence: LayoutEvidence,
    block_size: u32,
    file_size: u64,
    probe: &[u8],
) -> Detection {
    let header = layout.decode_header(probe);
    let announced =
        header.as_ref().ok().filter(|header| header.faults.is_empty()).map(|header| u64::from(header.slots_per_file));
    let (room_slots, trailing_bytes) = room(layout, block_size, file_size);
    // A file that another revision created keeps that revision's length and count when this one takes it over.
    let other_explains = announced.is_some_and(|count| {
        LAYOUTS.iter().any(|other| {
            room(*other, block_size, file_size) == (count, 0)
                && other.slot_ranges(block_size, count).header.start == file_size
        })
    });
    let slots = announced.filter(|count| other_explains && *count <= room_slots).unwrap_or(room_slots);
    let slot_count = slots.min(MAX_SLOTS_PER_FILE);
    Detection {
        layout,
        evidence,
        block_size,
        header,
        slot_count,
        missing_slots: announced.map_or(0, |count| count.saturating_sub(room_slots)),
        excess_slots: slots.saturating_sub(slot_count),
        trailing_bytes: if other_explains { 0 } else { trailing_bytes },
        longer_than_header: !other_explains && announced.is_some_and(|count| count < room_slots),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::crc::{crc32c, crc32c_append};

    fn page(block: u32) -> Vec<u8> {
        let mut page = vec![0; 8192];
        page[4..8].copy_from_slice(&(0x1000 + block).to_le_bytes());
        page[12..20].copy_from_slice(&[24, 0, 0, 32, 0, 32, 4, 32]);
        page[8000] = 7;
        page
    }

    fn file_header(slots: u32, layout: usize) -> Vec<u8> {
        let mut header = vec![0; 40];
        header[..16].copy_from_slice(&[0x46, 0x42, 0x57, 0x44, 1, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0]);
        header[12..16].copy_from_slice(&slots.to_le_bytes());
        let covered = if layout == 2 { 16 } else { 32 };
        let crc = crc32c(&header[..covered]);
        header[covered..covered + 4].copy_from_slice(&crc.to_le_bytes());
        header
    }

    fn slot(block: u32, layout: usize) -> Vec<u8> {
        let page = page(block);
        let mut header = Vec::new();
        let put = |header: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|word| header.extend(word.to_le_bytes()));
        if layout == 1 {
            put(&mut header, &[1663, 5, 100, 0, block, 0, 0x1000 + block, 0, 0xDEAD_BEEF, block, 1, 0]);
            return [header, page].concat();
        }
        put(&mut header, &[0, 1663, 5, 100, 0, block, 0x1000 + block, 0, block, 1]);
        let crc = crc32c_append(crc32c(&header[4..]), &page);
        header[..4].copy_from_slice(&crc.to_le_bytes());
        let mut slot = [header, page].concat();
        if layout == 2 {
            slot.resize(12_288, 0xEE);
        }
        slot
    }

    fn file(slots: u32, used: u32, layout: usize) -> Vec<u8> {
        let mut file = file_header(slots, layout);
        if layout == 2 {
            file.resize(4096, 0);
        }
        (0..used).for_each(|block| file.extend(slot(block, layout)));
        let end = LAYOUTS[layout].slot_ranges(8192, u64::from(slots)).header.start;
        file.resize(end as usize, 0);
        file
    }

    fn detect_in(file: &[u8]) -> Detection {
        detect(file.len() as u64, None, &mut |offset, length| {
            file.get(offset as usize..)?.get(..length).map(<[u8]>::to_vec)
        })
    }

    #[test]
    fn each_revision_is_found_by_its_own_file() {
        for (layout, expected) in LAYOUTS.iter().enumerate() {
            for used in [0, 1, 20] {
                let found = detect_in(&file(130, used, layout));
                assert_eq!(found.layout.name(), expected.name(), "used {used}");
                assert_eq!((found.slot_count, found.block_size, found.missing_slots), (130, 8192, 0));
                assert!(found.evidence.header_crc && found.evidence.length_fits && !found.longer_than_header);
            }
        }
    }

    #[test]
    fn damaged_header_still_yields_the_slots() {
        for (layout, expected) in LAYOUTS.iter().enumerate() {
            let mut file = file(130, 20, layout);
            file[..40].fill(0x55);
            let found = detect_in(&file);
            assert_eq!(found.layout.name(), expected.name());
            assert_eq!((found.slot_count, found.evidence.header_crc), (130, false));
            assert!(!found.header_faults().is_empty());
        }
    }

    #[test]
    fn file_taken_over_from_revision_a_is_read_at_the_stride_of_b() {
        let mut taken = file(2036, 0, 1);
        let new = file(10, 10, 0);
        taken[40..new.len()].copy_from_slice(&new[40..]);
        let found = detect_in(&taken);
        assert_eq!(found.layout.name(), "B");
        assert_eq!((found.slot_count, found.longer_than_header, found.trailing_bytes), (2036, false, 0));
    }

    #[test]
    fn count_of_four_billion_is_bounded_by_the_file() {
        let mut file = file(130, 20, 0);
        file[..40].copy_from_slice(&file_header(u32::MAX, 0));
        let found = detect_in(&file);
        assert_eq!((found.layout.name(), found.slot_count), ("B", 130));
        assert_eq!(found.missing_slots, u64::from(u32::MAX) - 130);
    }

    #[test]
    fn cut_file_counts_whole_slots_and_says_what_is_missing() {
        let file = file(130, 20, 0);
        let found = detect_in(&file[..40 + 8232 * 5 + 100]);
        assert_eq!((found.slot_count, found.missing_slots, found.trailing_bytes), (5, 125, 100));
        for length in [0, 1, 39, 40, 41] {
            assert_eq!(detect_in(&file[..length]).slot_count, 0, "length {length}");
        }
    }

    #[test]
    fn file_longer_than_its_header_says_is_read_to_its_end() {
        let mut file = file(130, 130, 0);
        file[..40].copy_from_slice(&file_header(100, 0));
        let found = detect_in(&file);
        assert_eq!((found.slot_count, found.longer_than_header), (130, true));
    }
}
