//! Values of a TOAST table: which chunks of each are there.
//! Also here: the TOAST tables of a sandbox, and LZ4 values for a server that was built without LZ4: they are stored
//! uncompressed.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use super::fit::{Span, fit, with_values};
use super::pages::HeapWriter;
use super::rows::{Row, has_right_checksum, sound_tuples};
use super::source::{SegmentFiles, Source};
use crate::cluster::open::AccessError;
use crate::parsers::decode::u32_at;
use crate::parsers::heap::TupleHeader;
use crate::parsers::tuple::columns::{ColumnShape, Method, Stored, ToastPointer, columns, unpack_within};
use crate::parsers::tuple::index::Tid;
use crate::rebuild::sandbox::SandboxRun;
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

/// Longest value, in bytes.
const MAX_VALUE_BYTES: usize = 1 << 30;

/// Most bytes that one byte of LZ4 stands for.
const MAX_RATIO: usize = 256;

/// Values that are stored again get numbers from here down.
const FIRST_VALUE_OID: u32 = 4_294_000_000;

/// Bytes of a page header and one line pointer.
const PAGE_OVERHEAD: usize = 32;

/// Places of the chunks of a value in the sandbox, with the number of each.
type Places = Vec<(u32, Tid)>;

/// A TOAST table of the sandbox.
struct Copy<'a> {
    writer: HeapWriter<'a>,
    places: HashMap<u32, Places>,
}

/// The TOAST tables of a sandbox while they are written.
pub(crate) struct ToastCopies<'a> {
    source: &'a Source,
    run: &'a SandboxRun,
    /// The server cannot unpack LZ4.
    pub lacks_lz4: bool,
    tables: BTreeMap<Oid, Copy<'a>>,
    last_oid: u32,
}

impl<'a> ToastCopies<'a> {
    pub fn new(source: &'a Source, run: &'a SandboxRun, lacks_lz4: bool) -> Self {
        Self { source, run, lacks_lz4, tables: BTreeMap::new(), last_oid: FIRST_VALUE_OID }
    }

    /// Copies the chunks of a TOAST table.
    pub fn copy(&mut self, toast_oid: Oid, files: &[&SegmentFiles], relative: &Path) -> Result<(), AccessError> {
        let writer = HeapWriter::create(self.run, relative, self.source.block_size)?;
        let mut copy = Copy { writer, places: HashMap::new() };
        let (mut failed, lacks_lz4) = (Ok(()), self.lacks_lz4);
        chunks(self.source, files, &mut |chunk, tuple, _| {
            if failed.is_err() {
                return;
            }
            match copy.writer.add(tuple) {
                Ok(Some(place)) if lacks_lz4 => {
                    copy.places.entry(chunk.value_oid).or_default().push((chunk.number, place));
                }
                added => failed = added.map(drop),
            }
        });
        failed?;
        self.tables.insert(toast_oid, copy);
        Ok(())
    }

    /// Ends the files.
    pub fn finish(self) -> Result<(), AccessError> {
        self.tables.into_values().try_for_each(|copy| copy.writer.finish().map(drop))
    }

    /// The tuple of a row as the server can print it: lost values null, LZ4 values uncompressed where it lacks LZ4.
    pub fn printable<'r>(
        &mut self,
        row: &Row<'r>,
        shapes: &[ColumnShape],
        toast_oid: Oid,
    ) -> Result<Cow<'r, [u8]>, AccessError> {
        let mut values: BTreeMap<usize, Option<Vec<u8>>> =
            row.lost.iter().map(|(column, ..)| (*column, None)).collect();
        let mut unpacked: Vec<(usize, Vec<u8>)> = Vec::new();
        let packed = if self.lacks_lz4 { row.spans } else { &[] };
        for span in packed {
            if !values.contains_key(&span.column)
                && let Some(value) = self.unpacked(span, row.bytes, shapes)?
            {
                unpacked.push((span.column, value));
            }
        }
        let mut inside = values.clone();
        for (column, value) in unpacked.iter().filter(|(_, value)| value.len() < self.source.block_size) {
            let length = u32::try_from(value.len().saturating_add(4)).unwrap_or_default() << 2;
            inside.insert(*column, Some([length.to_le_bytes().as_slice(), value].concat()));
        }
        if inside.is_empty() && unpacked.is_empty() {
            return Ok(row.bytes.into());
        }
        let whole = with_values(&row.header, row.bytes, row.spans, shapes, &inside);
        let has_all = inside.len() == values.len().saturating_add(unpacked.len());
        if has_all && whole.len() <= self.source.block_size.saturating_sub(PAGE_OVERHEAD) {
            return Ok(whole.into());
        }
        for (column, value) in unpacked {
            if let Some(pointer) = self.store(toast_oid, &value)? {
                values.insert(column, Some(pointer));
            }
        }
        Ok(with_values(&row.header, row.bytes, row.spans, shapes, &values).into())
    }

    /// An LZ4 value, uncompressed; `None` for any other, and for one that is damaged.
    fn unpacked(&mut self, span: &Span, tuple: &[u8], shapes: &[ColumnShape]) -> Result<Option<Vec<u8>>, AccessError> {
        let shape = shapes.get(span.column).filter(|shape| shape.length == -1);
        let Some((shape, bytes)) = shape.zip(tuple.get(span.start..span.end)) else { return Ok(None) };
        let (raw_bytes, packed) = match (columns(bytes, &[*shape], 1, &|_| false).first(), span.external) {
            (Some(Stored::Compressed { method: Method::Lz4, raw_bytes, bytes }), _) => (*raw_bytes, bytes.to_vec()),
            (Some(Stored::External(pointer)), Some(external)) if pointer.method == Some(Method::Lz4) => {
                // The stored value begins with its uncompressed length.
                let stored = self.stored(&external)?.unwrap_or_default();
                (pointer.raw_bytes, stored.get(4..).unwrap_or_default().to_vec())
            }
            _ => return Ok(None),
        };
        let limit = packed.len().saturating_mul(MAX_RATIO).min(MAX_VALUE_BYTES);
        Ok(unpack_within(limit, Method::Lz4, raw_bytes, &packed))
    }

    /// The bytes of a value that is stored in chunks.
    fn stored(&mut self, external: &ToastPointer) -> Result<Option<Vec<u8>>, AccessError> {
        let Some(copy) = self.tables.get_mut(&external.toast_oid) else { return Ok(None) };
        let mut places = copy.places.get(&external.value_oid).cloned().unwrap_or_default();
        places.sort_unstable();
        let mut bytes = Vec::new();
        for (_, place) in places {
            let tuple = copy.writer.tuple(place)?;
            bytes.extend_from_slice(tuple.as_deref().and_then(chunk_data).unwrap_or_default());
        }
        Ok((usize::try_from(external.stored_bytes) == Ok(bytes.len())).then_some(bytes))
    }

    /// Stores a value in chunks; the pointer to it. `None` where the table has no TOAST table.
    ///
    /// Source: `toast_save_datum`, `src/backend/access/common/toast_internals.c`.
    fn store(&mut self, toast_oid: Oid, value: &[u8]) -> Result<Option<Vec<u8>>, AccessError> {
        let size = usize::try_from(chunk_bytes(self.source.block_size)).unwrap_or(1).max(1);
        let Some(copy) = self.tables.get_mut(&toast_oid) else { return Ok(None) };
        while copy.places.contains_key(&self.last_oid) {
            self.last_oid = self.last_oid.saturating_sub(1);
        }
        for (number, data) in (0_u32..).zip(value.chunks(size)) {
            copy.writer.add(&chunk_tuple(self.last_oid, number, data))?;
        }
        let length = u32::try_from(value.len()).unwrap_or_default();
        let mut pointer = vec![1, 18];
        let fields = [length.saturating_add(4), length, self.last_oid, toast_oid];
        fields.iter().for_each(|field| pointer.extend(field.to_le_bytes()));
        self.last_oid = self.last_oid.saturating_sub(1);
        Ok(Some(pointer))
    }
}

/// The bytes of a chunk, without the length before them.
fn chunk_data(tuple: &[u8]) -> Option<&[u8]> {
    let spans = fit(&TupleHeader::decode(0, tuple).ok()?, tuple, &TOAST_SHAPES)?;
    let data = tuple.get(spans.get(2)?.start..spans.get(2)?.end)?;
    data.get(if data.first()? & 1 == 1 { 1 } else { 4 }..)
}

fn chunk_tuple(value_oid: u32, number: u32, data: &[u8]) -> Vec<u8> {
    /// Three columns, of which one has a length of its own.
    const HEAD: [u8; 6] = [3, 0, 2, 0, 24, 0];
    let mut tuple = vec![0; TupleHeader::SIZE.saturating_sub(5)];
    tuple.extend(HEAD);
    let length = u32::try_from(data.len().saturating_add(4)).unwrap_or_default() << 2;
    [value_oid, number, length].iter().for_each(|field| tuple.extend(field.to_le_bytes()));
    tuple.extend_from_slice(data);
    tuple
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_fits_the_columns_of_a_toast_table() {
        let tuple = chunk_tuple(77, 3, b"abc");
        let header = TupleHeader::decode(0, &tuple).unwrap();
        let spans = fit(&header, &tuple, &TOAST_SHAPES).unwrap();
        let values: Vec<&[u8]> = spans.iter().map(|span| &tuple[span.start..span.end]).collect();
        assert_eq!(values, [&[77, 0, 0, 0][..], &[3, 0, 0, 0], &[28, 0, 0, 0, b'a', b'b', b'c']]);
    }
}
