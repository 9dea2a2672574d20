//! The buffer with a control file (`pg_dwb`): one file a batch, slot headers in front, images after them.
//!
//! Its bytes were seen on a server that was built from its published source: see [`Knowledge::SeenBuilt`].

use nom::Parser;
use nom::error::context;

use super::detect::{Detection, LayoutEvidence, ReadAt};
use super::ring_control::{MAX_BATCH_PAGES, RingControl, VERSION};
use super::{
    CrcPair, CrcVerdict, DwbDirectory, DwbLayout, FileHeader, FileRole, HeaderFault, Knowledge, Slot, SlotFault,
    SlotHeader, SlotIdRule, SlotRanges,
};
use crate::parsers::crc::crc32c;
use crate::parsers::decode::{ParseError, decode_at, le_i32, le_u16, le_u32, le_u64};
use crate::parsers::page::is_all_zero;
use crate::types::{Lsn, RelFileLocator};

/// Directory of the files, and name of the kind.
const DIRECTORY: &str = "pg_dwb";

const CONTROL_NAME: &str = "control";

/// Name that a new control file has until it is complete.
const CONTROL_TEMPORARY: &str = "control.tmp";

/// Magic number of a batch file; on disk "BBWD".
const BATCH_MAGIC: u32 = 0x4457_4242;

const BATCH_HEADER_BYTES: u64 = 24;

/// Bytes of a slot header.
const META_BYTES: u64 = 56;

/// Bytes of an image. Nothing in the files says it; the description is of servers with this page size.
const IMAGE_BYTES: u64 = 8192;

/// The slot headers end at a multiple of this.
const ALIGNMENT: u64 = 4096;

/// Slot flag: the writer died before it handed its image over.
const FLAG_ABORTED: u16 = 0x0001;

/// Slots of a file that are tried to find its layout.
const SAMPLES: u64 = 16;

/// Where the images of a batch of `pages` slots begin: after the slot headers, rounded up.
pub fn image_region(pages: u32) -> u64 {
    let metas = META_BYTES.saturating_mul(u64::from(pages));
    BATCH_HEADER_BYTES.saturating_add(metas).next_multiple_of(ALIGNMENT)
}

/// Bytes of a file of a batch of `pages` slots.
pub fn batch_file_bytes(pages: u32) -> u64 {
    image_region(pages).saturating_add(IMAGE_BYTES.saturating_mul(u64::from(pages)))
}

/// Slots of a batch whose file has this size; `None` for a size that no batch file has.
pub fn pages_of_size(file_size: u64) -> Option<u32> {
    (1..=MAX_BATCH_PAGES).find(|pages| batch_file_bytes(*pages) == file_size)
}

/// Number in a name `batch_NNNN`: four decimal digits, or more without a leading zero.
fn batch_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("batch_")?;
    let is_number = digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = digits.len() == 4 || !digits.starts_with('0');
    digits.parse().ok().filter(|_| is_number && is_short)
}

/// The buffer with a control file.
#[derive(Debug)]
pub struct RingDirectory;

impl DwbDirectory for RingDirectory {
    fn name(&self) -> &'static str {
        DIRECTORY
    }

    fn knowledge(&self) -> Knowledge {
        Knowledge::SeenBuilt
    }

    fn directory(&self) -> &'static str {
        DIRECTORY
    }

    fn may_be_linked(&self) -> bool {
        true
    }

    fn role_of(&self, name: &str) -> Option<FileRole> {
        match name {
            CONTROL_NAME => Some(FileRole::Control),
            CONTROL_TEMPORARY => Some(FileRole::Leftover),
            _ => batch_number(name).map(FileRole::Slots),
        }
    }

    fn control_bytes(&self) -> usize {
        RingControl::SIZE
    }

    /// The geometry is that of the control file, unless the file's size is that of another and its slots agree.
    fn detect(
        &self,
        file_size: u64,
        _block_size_hint: Option<u32>,
        control: Option<&[u8]>,
        read_at: ReadAt<'_>,
    ) -> Detection {
        let control = control.and_then(|bytes| RingControl::decode(bytes).ok());
        let control = control.filter(|control| control.is_whole() && control.has_geometry());
        let announced = control.map(|control| control.batch_pages);
        let by_size = pages_of_size(file_size);
        let mut geometries: Vec<u32> = announced.into_iter().chain(by_size).collect();
        if geometries.is_empty() {
            // As many slots as would fit in front of the images at each offset that these can begin at.
            geometries.extend(REGIONS.iter().map(|(most, _)| *most));
        }
        let mut best: Option<(LayoutEvidence, u32)> = None;
        for pages in geometries {
            let evidence = weigh(pages, file_size, read_at);
            let is_better = |strongest: &LayoutEvidence| evidence.verified_slots > strongest.verified_slots;
            if best.as_ref().is_none_or(|(strongest, _)| is_better(strongest)) {
                best = Some((evidence, pages));
            }
        }
        let nothing = LayoutEvidence { header_crc: false, verified_slots: 0, length_fits: false, plausible_slots: 0 };
        let (evidence, pages) = best.unwrap_or((nothing, 1));
        measure(pages, announced, evidence, file_size, read_at)
    }
}

/// Slots whose images are in the file as a whole.
fn room(pages: u32, file_size: u64) -> u64 {
    let images = file_size.saturating_sub(image_region(pages));
    images.checked_div(IMAGE_BYTES).unwrap_or_default().min(u64::from(pages))
}

fn range(read_at: ReadAt<'_>, range: std::ops::Range<u64>) -> Option<Vec<u8>> {
    read_at(range.start, usize::try_from(range.end.saturating_sub(range.start)).ok()?)
}

fn weigh(pages: u32, file_size: u64, read_at: ReadAt<'_>) -> LayoutEvidence {
    let layout = layout_of(pages);
    let header = range(read_at, 0..BATCH_HEADER_BYTES).and_then(|bytes| layout.decode_header(&bytes).ok());
    let mut evidence = LayoutEvidence {
        header_crc: header.is_some_and(|header| header.magic == BATCH_MAGIC && header.crc_is_good()),
        verified_slots: 0,
        length_fits: batch_file_bytes(pages) == file_size,
        plausible_slots: 0,
    };
    for index in 0..room(pages, file_size).min(SAMPLES) {
        let ranges = layout.slot_ranges(8192, index);
        let (Some(meta), Some(image)) = (range(read_at, ranges.header.clone()), range(read_at, ranges.image.clone()))
        else {
            continue;
        };
        let Ok(slot) = Slot::decode(layout, index, &ranges, &meta, &image) else { continue };
        if !slot.is_empty && slot.crc_verdict() == CrcVerdict::Good {
            evidence.verified_slots = evidence.verified_slots.saturating_add(1);
            evidence.plausible_slots = evidence.plausible_slots.saturating_add(1);
        }
    }
    evidence
}

/// Bytes that are examined to distinguish a batch that was never written from one whose header is gone.
fn has_slots(pages: u32, read_at: ReadAt<'_>) -> bool {
    let end = BATCH_HEADER_BYTES.saturating_add(META_BYTES.saturating_mul(u64::from(pages)));
    range(read_at, BATCH_HEADER_BYTES..end).is_some_and(|bytes| !is_all_zero(&bytes))
}

fn measure(
    pages: u32,
    announced: Option<u32>,
    evidence: LayoutEvidence,
    file_size: u64,
    read_at: ReadAt<'_>,
) -> Detection {
    let layout = layout_of(pages);
    let probe = range(read_at, 0..BATCH_HEADER_BYTES.min(file_size)).unwrap_or_default();
    let mut header = layout.decode_header(&probe);
    if let Ok(header) = &mut header {
        let is_unused = is_all_zero(&probe) && !has_slots(pages, read_at);
        if is_unused {
            header.faults.clear();
        } else if header.slots_per_file > pages || header.slots_per_file == 0 {
            header.faults.push(HeaderFault::SlotCount { found: header.slots_per_file, most: pages });
        }
    }
    let slot_count = room(pages, file_size);
    let expected = batch_file_bytes(announced.unwrap_or(pages));
    let end = image_region(pages).saturating_add(slot_count.saturating_mul(IMAGE_BYTES));
    Detection {
        layout,
        evidence,
        block_size: 8192,
        header,
        slot_count,
        missing_slots: u64::from(pages).saturating_sub(slot_count),
        excess_slots: 0,
        trailing_bytes: file_size.saturating_sub(end),
        longer_than_header: announced.is_some() && announced != Some(pages) && file_size > expected,
    }
}

/// A batch file whose images begin at one of the few offsets that the number of slots allows.
#[derive(Debug)]
struct BatchLayout {
    image_region: u64,
}

/// The layouts by the most slots that fit in front of the images.
static REGIONS: [(u32, BatchLayout); 4] = [
    (72, BatchLayout { image_region: 4096 }),
    (145, BatchLayout { image_region: 8192 }),
    (219, BatchLayout { image_region: 12_288 }),
    (MAX_BATCH_PAGES, BatchLayout { image_region: 16_384 }),
];

fn layout_of(pages: u32) -> &'static BatchLayout {
    let [(_, first), .., (_, last)] = &REGIONS;
    let region = image_region(pages);
    let fits = REGIONS.iter().map(|(_, layout)| layout).find(|layout| layout.image_region == region);
    fits.unwrap_or(if region < ALIGNMENT { first } else { last })
}

impl DwbLayout for BatchLayout {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn header_bytes(&self) -> usize {
        24
    }

    /// Decodes a batch header: 24 bytes at offset 0, little-endian.
    ///
    /// | bytes  | field      | C type      | meaning                                  |
    /// |--------|------------|-------------|------------------------------------------|
    /// | 0..4   | `magic`    | `uint32`    | `0x44574242`                             |
    /// | 4..8   | `version`  | `uint32`    | 1                                        |
    /// | 8..16  | `batch_id` | `uint64`    | number of this filling since server start |
    /// | 16..20 | `n_slots`  | `uint32`    | slots that it wrote                      |
    /// | 20..24 | `crc`      | `pg_crc32c` | CRC-32C of bytes 0..20                   |
    fn decode_header(&self, buf: &[u8]) -> Result<FileHeader, ParseError> {
        decode_at("pg_dwb batch header", 0, buf, |i| {
            let (i, magic) = context("magic", le_u32).parse(i)?;
            let (i, version) = context("version", le_u32).parse(i)?;
            let (i, batch_id) = context("batch_id", le_u64).parse(i)?;
            let (i, n_slots) = context("n_slots", le_u32).parse(i)?;
            let (i, crc) = context("crc", le_u32).parse(i)?;
            let computed_crc = crc32c(buf.get(..20).unwrap_or_default());
            let mut faults = Vec::new();
            if magic != BATCH_MAGIC {
                faults.push(HeaderFault::Magic { found: magic, expected: BATCH_MAGIC });
            }
            if version != VERSION {
                faults.push(HeaderFault::Version { found: version, expected: VERSION });
            }
            if crc != computed_crc {
                faults.push(HeaderFault::Crc { found: crc, expected: computed_crc });
            }
            let header = FileHeader {
                magic,
                version,
                block_size: 8192,
                slots_per_file: n_slots,
                batch_id: Some(batch_id),
                checkpoint_lsn: None,
                crc,
                computed_crc,
                faults,
            };
            Ok((i, header))
        })
    }

    fn slot_ranges(&self, _block_size: u32, index: u64) -> SlotRanges {
        let meta = BATCH_HEADER_BYTES.saturating_add(index.saturating_mul(META_BYTES));
        let image = self.image_region.saturating_add(index.saturating_mul(IMAGE_BYTES));
        SlotRanges { header: meta..meta.saturating_add(META_BYTES), image: image..image.saturating_add(IMAGE_BYTES) }
    }

    /// Decodes a slot header: 56 bytes, little-endian.
    ///
    /// | bytes  | field        | C type       | meaning                                     |
    /// |--------|--------------|--------------|---------------------------------------------|
    /// | 0..4   | `spcOid`     | `Oid`        | tablespace                                  |
    /// | 4..8   | `dbOid`      | `Oid`        | database, 0 for shared relations            |
    /// | 8..12  | `relNumber`  | `uint32`     | file number                                 |
    /// | 12..16 | `forkNum`    | `int32`      | 0 main, 1 fsm, 2 vm, 3 init                 |
    /// | 16..20 | `blockNum`   | `uint32`     | block within the fork                       |
    /// | 20..24 | padding      |              |                                             |
    /// | 24..32 | `page_lsn`   | `XLogRecPtr` | plain 64-bit number, unlike `pd_lsn`        |
    /// | 32..40 | `generation` | `uint64`     | number of the server run that wrote it      |
    /// | 40..42 | `flags`      | `uint16`     | 0x0001 aborted                              |
    /// | 42..44 | padding      |              |                                             |
    /// | 44..48 | `image_crc`  | `pg_crc32c`  | CRC-32C of the image                        |
    /// | 48..52 | `meta_crc`   | `pg_crc32c`  | CRC-32C of bytes 0..48                      |
    /// | 52..56 | padding      |              |                                             |
    fn decode_slot_header(&self, base: u64, buf: &[u8]) -> Result<SlotHeader, ParseError> {
        decode_at("pg_dwb slot header", base, buf, |i| {
            let (i, spc_oid) = context("spcOid", le_u32).parse(i)?;
            let (i, db_oid) = context("dbOid", le_u32).parse(i)?;
            let (i, rel_number) = context("relNumber", le_u32).parse(i)?;
            let (i, fork_code) = context("forkNum", le_i32).parse(i)?;
            let (i, block) = context("blockNum", le_u32).parse(i)?;
            let (i, _) = context("padding", le_u32).parse(i)?;
            let (i, lsn) = context("page_lsn", le_u64).parse(i)?;
            let (i, generation) = context("generation", le_u64).parse(i)?;
            let (i, flags) = context("flags", le_u16).parse(i)?;
            let (i, _) = context("padding", le_u16).parse(i)?;
            let (i, _) = context("image_crc", le_u32).parse(i)?;
            let (i, crc) = context("meta_crc", le_u32).parse(i)?;
            let (i, _) = context("padding", le_u32).parse(i)?;
            let rel = RelFileLocator { spc_oid, db_oid, rel_number };
            let header = SlotHeader {
                crc,
                rel,
                fork_code,
                block,
                lsn: Lsn(lsn),
                slot_id: 0,
                generation: Some(generation),
                flags,
                checksum: 0,
            };
            Ok((i, header))
        })
    }

    fn slot_fields(&self) -> &'static [(&'static str, usize, usize)] {
        &[
            ("spcOid", 0, 4),
            ("dbOid", 4, 8),
            ("relNumber", 8, 12),
            ("forknum", 12, 16),
            ("blkno", 16, 20),
            ("lsn", 24, 32),
            ("generation", 32, 40),
            ("flags", 40, 42),
            ("image_crc", 44, 48),
            ("crc", 48, 52),
        ]
    }

    fn slot_crc(&self, header: &[u8], _image: &[u8]) -> Option<u32> {
        header.get(..48).map(crc32c)
    }

    fn image_crc(&self, header: &[u8], image: &[u8]) -> Option<CrcPair> {
        let stored = header.get(44..48).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)?;
        Some(CrcPair { stored, computed: crc32c(image) })
    }

    /// An image without a slot header is what an earlier filling left: nothing says whose it is.
    fn is_empty(&self, header: &[u8], _image: &[u8]) -> bool {
        is_all_zero(header)
    }

    fn is_aborted(&self, header: &SlotHeader) -> bool {
        header.flags & FLAG_ABORTED != 0
    }

    fn slot_faults(&self, header: &SlotHeader) -> Vec<SlotFault> {
        let mut faults = header.identity_faults();
        if header.flags & !FLAG_ABORTED != 0 {
            faults.push(SlotFault::Flags { found: header.flags & !FLAG_ABORTED });
        }
        faults
    }

    fn copies_under_lock(&self) -> bool {
        true
    }

    fn slot_id_rule(&self) -> SlotIdRule {
        SlotIdRule::NotStored
    }

    fn restarts_at_checkpoint(&self) -> bool {
        false
    }

    fn is_read_in_recovery(&self) -> bool {
        true
    }
}
