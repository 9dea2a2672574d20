//! Values of a TOAST table: which chunks of each are there.

use std::collections::{HashMap, HashSet};

use super::fit::fit;
use super::rows::{has_right_checksum, sound_tuples};
use super::source::{SegmentFiles, Source};
use crate::parsers::decode::u32_at;
use crate::parsers::tuple::columns::{ColumnShape, ToastPointer};
use crate::types::Oid;

/// The columns of each TOAST table: value, number of the chunk, data.
pub(crate) const TOAST_SHAPES: [ColumnShape; 3] = [
    ColumnShape { length: 4, alignment: 4 },
    ColumnShape { length: 4, alignment: 4 },
    ColumnShape { length: -1, alignment: 4 },
];

/// What is there of a value: chunks that are all different, unless the sums say otherwise.
#[derive(Clone, Copy, Debug, Default)]
struct Chunks {
    count: u32,
    bytes: u32,
    /// Sum of the numbers of the chunks.
    numbers: u64,
    highest: u32,
    is_unproven: bool,
}

/// Whether a value is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completeness {
    Whole,
    /// Whole, but a page of it has a wrong checksum.
    Unproven,
    Partial {
        chunks: u32,
        expected: u32,
    },
}

/// The values of all TOAST tables of one table.
#[derive(Debug, Default)]
pub(crate) struct ToastValues {
    values: HashMap<(Oid, u32), Chunks>,
    chunk_bytes: u32,
}

/// Bytes of data in one chunk.
///
/// Source: `TOAST_MAX_CHUNK_SIZE`, `src/include/access/heaptoast.h`: four tuples on a page.
pub(crate) fn chunk_bytes(block_size: usize) -> u32 {
    let per_tuple = block_size.saturating_sub(24 + 4 * 4).checked_div(4).unwrap_or_default();
    let per_tuple = per_tuple.saturating_sub(per_tuple % 8);
    u32::try_from(per_tuple.saturating_sub(24 + 4 + 4 + 4)).unwrap_or_default()
}

/// A chunk of a value, as its tuple has it.
pub(crate) struct Chunk<'a> {
    pub value_oid: u32,
    pub number: u32,
    pub bytes: &'a [u8],
}

/// Is shown a chunk, its tuple, and whether its page is proven.
type ShowChunk<'a> = dyn FnMut(&Chunk<'_>, &[u8], bool) + 'a;

/// Shows the chunks of a TOAST table that are not known to belong elsewhere, in any state. A rewrite copies values to another file
/// under the same numbers: the first file that has one counts.
pub(crate) fn chunks(source: &Source, files: &[&SegmentFiles], show: &mut ShowChunk<'_>) {
    let mut earlier: HashSet<u32> = HashSet::new();
    for segments in files {
        let mut own: HashSet<u32> = HashSet::new();
        source.pages(segments, &mut |block, page| {
            let proven = has_right_checksum(source, block, page);
            for tuple in sound_tuples(page) {
                let Some(spans) = fit(&tuple.header, tuple.bytes, &TOAST_SHAPES) else { continue };
                let [value, number, data] = spans.as_slice() else { continue };
                let at = |start| u32_at(tuple.bytes, start).unwrap_or_default();
                let value_oid = at(value.start);
                if earlier.contains(&value_oid) {
                    continue;
                }
                if files.len() > 1 {
                    own.insert(value_oid);
                }
                let head = if tuple.bytes.get(data.start).is_some_and(|first| first & 1 == 1) { 1 } else { 4 };
                let bytes = tuple.bytes.get(data.start.saturating_add(head)..data.end).unwrap_or_default();
                show(&Chunk { value_oid, number: at(number.start), bytes }, tuple.bytes, proven);
            }
        });
        earlier.extend(own);
    }
}

impl ToastValues {
    /// Adds the values of a TOAST table. A value is stored once; only an aborted rewrite in the same file leaves chunks twice.
    pub fn add(&mut self, source: &Source, toast_oid: Oid, files: &[&SegmentFiles]) {
        self.chunk_bytes = chunk_bytes(source.block_size);
        chunks(source, files, &mut |chunk, _, proven| {
            let value = self.values.entry((toast_oid, chunk.value_oid)).or_default();
            value.count = value.count.saturating_add(1);
            value.bytes = value.bytes.saturating_add(u32::try_from(chunk.bytes.len()).unwrap_or(u32::MAX));
            value.numbers = value.numbers.saturating_add(u64::from(chunk.number));
            value.highest = value.highest.max(chunk.number);
            value.is_unproven |= !proven;
        });
    }

    pub fn of(&self, external: &ToastPointer) -> Completeness {
        let expected = external.stored_bytes.div_ceil(self.chunk_bytes.max(1));
        let value = self.values.get(&(external.toast_oid, external.value_oid)).copied().unwrap_or_default();
        let count = u64::from(value.count);
        let is_whole = value.bytes == external.stored_bytes
            && value.count == expected
            && value.highest.saturating_add(1) == expected
            && value.numbers == count.saturating_mul(count.saturating_sub(1)) / 2;
        match (is_whole, value.is_unproven) {
            (true, false) => Completeness::Whole,
            (true, true) => Completeness::Unproven,
            (false, _) => Completeness::Partial { chunks: value.count.min(expected), expected },
        }
    }
}
