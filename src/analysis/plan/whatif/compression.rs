//! What another setting of `wal_compression` would have stored, by compressing images again: all of them, or a sample.
//!
//! The sample does not depend on the number of threads. Each image has a number that is as good as random and made of its
//! position; those with the lowest numbers are the sample. The images of a small sample are kept as they are stored and
//! compressed when WAL has ended, so that WAL is read once and no image is compressed in vain. A large sample is compressed
//! as it is met, and sizes alone are kept.

use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::analysis::in_order::in_order;
use crate::analysis::wal::segment::Visitor;
use crate::analysis::wal::tally::{Certainty, Tally};
use crate::analysis::wal::unreadable::{UnreadableImage, UnreadableImages};
use crate::parsers::image::{BlockImage, Compression, ImageDecoder, ImageError};
use crate::parsers::image_encoder::{HOLE_LENGTH_SIZE, ImageEncoder};
use crate::parsers::wal::record::Record;
use crate::types::{BlockNumber, Lsn};

/// Images of a sample, unless another number is asked for.
pub(crate) const DEFAULT_SAMPLE: usize = 1_000;

/// Images of a sample that are kept until WAL has ended; of a larger one, sizes alone.
const MAX_KEPT: usize = DEFAULT_SAMPLE;

/// Images of one segment that are kept. A sample from few segments may take all of a segment's.
const MAX_KEPT_OF_SEGMENT: usize = 256;

/// Segments up to which each may keep as many images as the sample has.
const FEW_SEGMENTS: usize = 8;

/// Most images of a sample: sizes of each are kept.
pub(crate) const MAX_SAMPLE: usize = 1_000_000;

/// Images that are kept to measure how long compression takes.
pub(crate) const TIMED_IMAGES: usize = 64;

const METHODS: usize = Compression::ALL.len();

/// How many images are compressed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleSize {
    /// All.
    All,
    /// All up to so many, else a sample of so many.
    UpTo(usize),
}

impl Default for SampleSize {
    fn default() -> Self {
        Self::UpTo(DEFAULT_SAMPLE)
    }
}

/// A setting of `wal_compression`, or what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// As the WAL was written, whatever the setting was.
    AsWritten,
    /// Pages without their holes.
    Off,
    /// Compressed.
    On(Compression),
}

impl Setting {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        match self {
            Self::AsWritten => "as_written",
            Self::Off => "off",
            Self::On(method) => method.name(),
        }
    }

    /// Level of the method, where it has levels.
    pub const fn level(self) -> Option<i32> {
        match self {
            Self::AsWritten | Self::Off => None,
            Self::On(method) => method.level(),
        }
    }
}

/// What one setting makes of the images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompressionRow {
    /// The setting.
    pub setting: Setting,
    /// Images that were compressed again.
    pub sampled: u64,
    /// Images in all.
    pub of: u64,
    /// Bytes of all images before compression: pages without their holes.
    pub bytes_before: u64,
    /// Bytes of all images as they would be stored.
    pub bytes_after: u64,
    /// Standard error of `bytes_after` where it comes from a sample of two or more.
    pub standard_error: Option<u64>,
    /// Bytes of all records then.
    pub wal_bytes: u64,
    /// How sure `bytes_after` and `wal_bytes` are.
    pub certainty: Certainty,
    /// Seconds of one processor of this machine for 10^9 bytes of pages without their holes, as far as it was measured.
    pub seconds_per_gb: Option<f64>,
}

impl CompressionRow {
    /// How many times smaller images become; `None` without images.
    pub(crate) fn ratio(&self) -> Option<f64> {
        (self.bytes_after > 0).then(|| self.bytes_before as f64 / self.bytes_after as f64)
    }

    /// Bytes by which the WAL would be smaller than the `written` ones, or larger.
    pub fn saved(&self, written: &Tally) -> i64 {
        written.combined_bytes().cast_signed().saturating_sub(self.wal_bytes.cast_signed())
    }
}

/// What all settings make of the images of some WAL.
#[derive(Clone, Debug, Default)]
pub struct CompressionWhatIf {
    /// Records and images as they are.
    pub written: Tally,
    /// A row for each setting; the first is that of the WAL as it is.
    pub rows: Vec<CompressionRow>,
    /// Images of the sample that cannot be read.
    pub unreadable: UnreadableImages,
    /// Some images of the sample, pages without their holes, to measure how long compression takes.
    pub timed: Vec<Vec<u8>>,
}

/// Sizes of one image, or sums of them, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sizes {
    images: u64,
    /// Before compression, without the hole.
    raw: u64,
    stored: [u64; METHODS],
    headers: [u64; METHODS],
}

impl Sizes {
    fn of(encoder: &mut ImageEncoder, raw: &[u8], has_hole: bool) -> Self {
        let mut sizes = Self { images: 1, raw: raw.len() as u64, ..Self::default() };
        for (index, method) in Compression::ALL.into_iter().enumerate() {
            let compressed = encoder.compress(method, raw, has_hole).map(<[u8]>::len);
            sizes.stored[index] = compressed.unwrap_or(raw.len()) as u64;
            sizes.headers[index] = if compressed.is_some() && has_hole { HOLE_LENGTH_SIZE as u64 } else { 0 };
        }
        sizes
    }

    fn add(&mut self, other: &Self) {
        self.images = self.images.saturating_add(other.images);
        self.raw = self.raw.saturating_add(other.raw);
        for index in 0..METHODS {
            self.stored[index] = self.stored[index].saturating_add(other.stored[index]);
            self.headers[index] = self.headers[index].saturating_add(other.headers[index]);
        }
    }
}

/// What is known of all images by their headers alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Written {
    tally: Tally,
    /// Bytes before compression, without holes.
    raw: u64,
    /// Bytes by which compression made headers grow.
    headers: u64,
}

impl Written {
    fn add_image(&mut self, image: &BlockImage<'_>, block_size: u32) {
        self.raw = self.raw.saturating_add(u64::from(block_size).saturating_sub(u64::from(image.hole_length)));
        if image.compression().is_some() && image.hole_length > 0 {
            self.headers = self.headers.saturating_add(HOLE_LENGTH_SIZE as u64);
        }
    }

    fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.raw = self.raw.saturating_add(other.raw);
        self.headers = self.headers.saturating_add(other.headers);
    }
}

#[derive(Clone, Debug)]
struct Lowest<T> {
    room: usize,
    items: BinaryHeap<Numbered<T>>,
}

#[derive(Clone, Debug)]
struct Numbered<T> {
    number: u64,
    item: T,
}

impl<T> PartialEq for Numbered<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Numbered<T> {}

impl<T> PartialOrd for Numbered<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Numbered<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.number.cmp(&other.number)
    }
}

impl<T> Lowest<T> {
    const fn new(room: usize) -> Self {
        Self { room, items: BinaryHeap::new() }
    }

    /// No number from this on is among the lowest.
    fn limit(&self) -> u64 {
        match self.items.peek() {
            _ if self.room == 0 => 0,
            Some(highest) if self.items.len() >= self.room => highest.number,
            _ => u64::MAX,
        }
    }

    fn push(&mut self, item: Numbered<T>) {
        if item.number < self.limit() {
            self.items.push(item);
            if self.items.len() > self.room {
                self.items.pop();
            }
        }
    }

    fn append(&mut self, other: Self) {
        other.items.into_iter().for_each(|item| self.push(item));
    }
}

type Measured = Result<Sizes, Box<UnreadableImage>>;

/// An image of the sample.
#[derive(Clone, Debug)]
enum Sampled {
    Kept(KeptImage),
    Measured(Measured),
}

/// An image as it is stored.
#[derive(Clone, Debug)]
struct KeptImage {
    /// Without its bytes.
    image: BlockImage<'static>,
    bytes: Box<[u8]>,
    block: BlockNumber,
    record_lsn: Lsn,
}

impl KeptImage {
    fn of(image: &BlockImage<'_>, block: BlockNumber, record_lsn: Lsn) -> Self {
        Self { image: BlockImage { bytes: &[], ..*image }, bytes: image.bytes.into(), block, record_lsn }
    }

    fn image(&self) -> BlockImage<'_> {
        BlockImage { bytes: &self.bytes, ..self.image }
    }
}

/// Compresses images with every method.
#[derive(Debug)]
struct Measure {
    decoder: ImageDecoder,
    encoder: ImageEncoder,
    page: Vec<u8>,
}

impl Measure {
    fn new(block_size: u32) -> Self {
        let page = vec![0; usize::try_from(block_size).unwrap_or_default()];
        Self { decoder: ImageDecoder::new(), encoder: ImageEncoder::new(), page }
    }

    /// The page without its hole.
    fn unpack(&mut self, image: &BlockImage<'_>) -> Result<&[u8], ImageError> {
        let length = self.decoder.unpack(image, &mut self.page)?;
        Ok(&self.page[..length])
    }

    fn sizes(&mut self, image: &BlockImage<'_>, block: BlockNumber, record_lsn: Lsn) -> Measured {
        let length = match self.decoder.unpack(image, &mut self.page) {
            Ok(length) => length,
            Err(error) => return Err(Box::new(UnreadableImage { block, record_lsn, error })),
        };
        let mut sizes = Sizes::of(&mut self.encoder, &self.page[..length], image.hole_length > 0);
        // What a server stored with a method is known better than what this program makes of it.
        if let Some(index) = Compression::ALL.iter().position(|method| image.compression() == Some(*method)) {
            sizes.stored[index] = image.bytes.len() as u64;
            sizes.headers[index] = if image.hole_length > 0 { HOLE_LENGTH_SIZE as u64 } else { 0 };
        }
        Ok(sizes)
    }

    fn measure(&mut self, sampled: Sampled) -> Measured {
        match sampled {
            Sampled::Kept(kept) => self.sizes(&kept.image(), kept.block, kept.record_lsn),
            Sampled::Measured(sizes) => sizes,
        }
    }
}

/// Numbers from which on no image is in the sample any more, known to all threads. They only fall, so that what a thread
/// leaves out because of them is left out in the end.
#[derive(Debug)]
pub(crate) struct SampleLimits {
    size: SampleSize,
    /// Images of a segment that may be in the sample.
    room: usize,
    block_size: u32,
    sampled: AtomicU64,
    timed: AtomicU64,
}

impl SampleLimits {
    /// Nothing is left out yet. `block_size`: bytes of a page; `segments`: how many there are.
    pub const fn new(size: SampleSize, block_size: u32, segments: usize) -> Self {
        let room = match size {
            SampleSize::All => 0,
            SampleSize::UpTo(room) if room > MAX_KEPT_OF_SEGMENT && room <= MAX_KEPT && segments > FEW_SEGMENTS => {
                MAX_KEPT_OF_SEGMENT
            }
            SampleSize::UpTo(room) => room,
        };
        Self { size, room, block_size, sampled: AtomicU64::new(u64::MAX), timed: AtomicU64::new(u64::MAX) }
    }

    /// What takes the images of one segment.
    pub fn segment(&self) -> SegmentSample<'_> {
        SegmentSample { limits: self, measure: Measure::new(self.block_size), found: Found::new(self.room) }
    }

    const fn keeps_images(&self) -> bool {
        matches!(self.size, SampleSize::UpTo(room) if room <= MAX_KEPT)
    }
}

#[derive(Debug)]
struct Found {
    written: Written,
    /// Totals of all images that were compressed again, without a sample.
    all: Sizes,
    unreadable: UnreadableImages,
    sample: Lowest<Sampled>,
    timed: Lowest<KeptImage>,
}

impl Found {
    fn new(room: usize) -> Self {
        Self {
            written: Written { tally: Tally::default(), raw: 0, headers: 0 },
            all: Sizes { images: 0, raw: 0, stored: [0; METHODS], headers: [0; METHODS] },
            unreadable: UnreadableImages::default(),
            sample: Lowest::new(room),
            timed: Lowest::new(TIMED_IMAGES),
        }
    }

    /// Adds what was found elsewhere.
    fn append(&mut self, other: Self) {
        self.written.add(&other.written);
        self.all.add(&other.all);
        self.unreadable.append(other.unreadable);
        self.sample.append(other.sample);
        self.timed.append(other.timed);
    }
}

#[derive(Debug)]
pub(crate) struct SegmentSample<'a> {
    limits: &'a SampleLimits,
    measure: Measure,
    found: Found,
}

impl Visitor for SegmentSample<'_> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.found.written.tally.add_record(record);
        if record.layout.image_count > 0 {
            self.images(&{ *record });
        }
    }
}

impl SegmentSample<'_> {
    #[inline(never)]
    fn images(&mut self, record: &Record<'_>) {
        for block in record.blocks() {
            let Some(image) = block.image else { continue };
            self.found.written.add_image(&image, record.block_size);
            let number = number_of(record.start_lsn, block.block_id);
            let is_taken = match self.limits.size {
                SampleSize::All => true,
                SampleSize::UpTo(_) => {
                    number < self.limits.sampled.load(Ordering::Relaxed).min(self.found.sample.limit())
                }
            };
            if is_taken {
                self.take(number, &image, block.block, record.start_lsn);
            }
        }
    }

    fn take(&mut self, number: u64, image: &BlockImage<'_>, block: BlockNumber, record_lsn: Lsn) {
        if number < self.limits.timed.load(Ordering::Relaxed).min(self.found.timed.limit()) {
            self.found.timed.push(Numbered { number, item: KeptImage::of(image, block, record_lsn) });
        }
        if self.limits.keeps_images() {
            let item = Sampled::Kept(KeptImage::of(image, block, record_lsn));
            return self.found.sample.push(Numbered { number, item });
        }
        let sizes = self.measure.sizes(image, block, record_lsn);
        match (self.limits.size, sizes) {
            (SampleSize::UpTo(_), sizes) => self.found.sample.push(Numbered { number, item: Sampled::Measured(sizes) }),
            (SampleSize::All, Ok(sizes)) => self.found.all.add(&sizes),
            (SampleSize::All, Err(unreadable)) => self.found.unreadable.push(*unreadable),
        }
    }
}

impl CompressionWhatIf {
    /// Not all WAL of the range could be read: what was counted is part of it.
    pub(crate) fn mark_part(&mut self) {
        self.rows.iter_mut().for_each(|row| row.certainty = row.certainty.of_part());
    }
}

/// A number that looks random, another one for each image.
const fn number_of(record_lsn: Lsn, block_id: u8) -> u64 {
    // Records begin at multiples of 8, and there are at most 33 blocks in one: their numbers stand in the high bits, which
    // no LSN uses. What follows takes each value to another one (the last step of SplitMix64).
    let mut mixed = record_lsn.0 ^ (block_id as u64).rotate_right(8);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[derive(Debug)]
pub(crate) struct CompressionSampler<'a> {
    limits: &'a SampleLimits,
    found: Found,
}

impl<'a> CompressionSampler<'a> {
    pub fn new(limits: &'a SampleLimits) -> Self {
        let room = match limits.size {
            SampleSize::All => 0,
            SampleSize::UpTo(room) => room,
        };
        Self { limits, found: Found::new(room) }
    }

    /// Adds a segment, which is empty then. The order of segments does not matter.
    pub fn add(&mut self, segment: &mut SegmentSample<'_>) {
        let other = std::mem::replace(&mut segment.found, Found::new(0));
        // What the segment had no room for is left out of the others, too.
        self.limits.sampled.fetch_min(other.sample.limit(), Ordering::Relaxed);
        let own = &mut self.found;
        own.append(other);
        self.limits.sampled.fetch_min(own.sample.limit(), Ordering::Relaxed);
        self.limits.timed.fetch_min(own.timed.limit(), Ordering::Relaxed);
    }

    /// Sizes of the images under all settings. Those that were kept are compressed by several threads.
    pub fn finish(self, jobs: usize) -> CompressionWhatIf {
        let Found { written, mut all, mut unreadable, sample, timed } = self.found;
        let limit = self.limits.sampled.load(Ordering::Relaxed);
        let mut measure = Measure::new(self.limits.block_size);
        let raw = |kept: Numbered<KeptImage>| measure.unpack(&kept.item.image()).ok().map(<[u8]>::to_vec);
        let timed = timed.items.into_sorted_vec().into_iter().filter_map(raw).collect();
        let kept = sample.items.into_sorted_vec().into_iter().take_while(|one| one.number <= limit);
        let kept: Vec<Sampled> = kept.map(|one| one.item).collect();
        let workers = (0..jobs.clamp(1, kept.len().max(1))).map(|_| {
            let mut measure = Measure::new(self.limits.block_size);
            move |sampled| measure.measure(sampled)
        });
        let mut sampled = Vec::new();
        in_order(kept.into_iter(), workers.collect(), |sizes| {
            match sizes {
                Ok(sizes) => {
                    all.add(&sizes);
                    sampled.push(sizes);
                }
                Err(image) => unreadable.push(*image),
            }
            ControlFlow::Continue(())
        });
        let (of, before) = (written.tally.fpi_count, written.tally.combined_bytes());
        // Without images, their bytes and what compression added to headers.
        let rest = before.saturating_sub(written.tally.fpi_bytes).saturating_sub(written.headers);
        let row = |setting, sampled, bytes_after, wal_bytes| CompressionRow {
            setting,
            sampled,
            of,
            bytes_before: written.raw,
            bytes_after,
            standard_error: None,
            wal_bytes,
            certainty: Certainty::Exact,
            seconds_per_gb: None,
        };
        let mut rows = vec![
            row(Setting::AsWritten, of, written.tally.fpi_bytes, before),
            row(Setting::Off, of, written.raw, rest.saturating_add(written.raw)),
        ];
        for (index, method) in Compression::ALL.into_iter().enumerate() {
            let scaled = |part: u64| scale(part, all.raw, written.raw);
            let bytes_after = scaled(all.stored[index]);
            let wal_bytes = rest.saturating_add(bytes_after).saturating_add(scaled(all.headers[index]));
            let is_whole = all.images == of;
            rows.push(CompressionRow {
                standard_error: if is_whole { None } else { standard_error(&sampled, index, &all, &written) },
                certainty: match method {
                    _ if !is_whole => Certainty::Sample { taken: all.images, of },
                    Compression::Pglz => Certainty::Exact,
                    // Made by another implementation or version than that of the server.
                    Compression::Lz4 | Compression::Zstd => Certainty::Estimate,
                },
                ..row(Setting::On(method), all.images, bytes_after, wal_bytes)
            });
        }
        CompressionWhatIf { written: written.tally, rows, unreadable, timed }
    }
}

/// `part` of `sampled` bytes, carried over to `all` bytes.
fn scale(part: u64, sampled: u64, all: u64) -> u64 {
    let product = u128::from(part).saturating_mul(u128::from(all)).saturating_add(u128::from(sampled / 2));
    u64::try_from(product.checked_div(u128::from(sampled)).unwrap_or_default()).unwrap_or(u64::MAX)
}

/// Standard error of the bytes after compression by the method `index`: that of a ratio of two sums over a random sample
/// without replacement, times the bytes before.
fn standard_error(sample: &[Sizes], index: usize, sums: &Sizes, written: &Written) -> Option<u64> {
    let taken = sample.len() as f64;
    if sample.len() < 2 || sums.raw == 0 {
        return None;
    }
    let ratio = sums.stored[index] as f64 / sums.raw as f64;
    let squares: f64 = sample.iter().map(|sizes| (sizes.stored[index] as f64 - ratio * sizes.raw as f64).powi(2)).sum();
    let variance = squares / (taken - 1.0);
    let left_out = 1.0 - taken / written.tally.fpi_count as f64;
    let mean = sums.raw as f64 / taken;
    Some(((left_out.max(0.0) * variance / taken).sqrt() / mean * written.raw as f64).round() as u64)
}

#[cfg(test)]
#[path = "compression_tests.rs"]
mod tests;
