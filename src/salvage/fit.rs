//! Whether a tuple fits its columns to the byte: what sorts out nearly all garbage before a server reads it.

use std::collections::BTreeMap;

use crate::parsers::decode::u16_at;
use crate::parsers::heap::TupleHeader;
use crate::parsers::tuple::columns::{ColumnShape, Placed, Stored, ToastPointer, placed};

/// Longest value (`MaxAllocSize`).
const MAX_VALUE_BYTES: u32 = 0x3FFF_FFFF;

/// `t_infomask`: the row has nulls.
const HAS_NULLS: u16 = 1;

/// A stored value: where it stands in the tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Column, from 0.
    pub column: usize,
    pub start: usize,
    pub end: usize,
    pub external: Option<ToastPointer>,
}

/// The stored values of a tuple that begins with `bytes` and may end before it; `None` when they do not fit.
fn walk(header: &TupleHeader, bytes: &[u8], shapes: &[ColumnShape]) -> Option<(Vec<Span>, usize)> {
    let shapes = shapes.get(..usize::from(header.attribute_count()))?;
    let base = usize::from(header.data_offset);
    let data = bytes.get(base..)?;
    let is_null = |column: usize| u16::try_from(column).is_ok_and(|column| header.is_null(bytes, column));
    let mut at = 0;
    let mut spans = Vec::with_capacity(shapes.len());
    for placed in placed(data, shapes, is_null) {
        // Padding is zero.
        if !is_written(data, &placed, shapes) || data.get(at..placed.start)?.iter().any(|byte| *byte != 0) {
            return None;
        }
        at = placed.end;
        let external = match placed.stored {
            Stored::External(pointer) => Some(pointer),
            _ => None,
        };
        let (start, end) = (base.checked_add(placed.start)?, base.checked_add(placed.end)?);
        spans.push(Span { column: placed.column, start, end, external });
    }
    Some((spans, base.checked_add(at)?))
}

/// True when a server writes a value in this way.
fn is_written(data: &[u8], placed: &Placed<'_>, shapes: &[ColumnShape]) -> bool {
    let is_aligned = || {
        let shape = shapes.get(placed.column);
        let is_short = data.get(placed.start).is_some_and(|first| first & 1 == 1);
        shape.is_some_and(|shape| shape.length != -1 || is_short || placed.start.is_multiple_of(shape.alignment.max(1)))
    };
    match placed.stored {
        Stored::Unreadable(_) => false,
        Stored::External(pointer) => {
            let raw_bytes = pointer.raw_bytes.saturating_add(4);
            raw_bytes <= MAX_VALUE_BYTES && pointer.stored_bytes <= raw_bytes && pointer.value_oid > 0
        }
        _ => is_aligned(),
    }
}

/// True when the header is one that a server writes.
pub(crate) fn is_sound(header: &TupleHeader, length: usize) -> bool {
    let offset = usize::from(header.data_offset);
    offset == header.min_data_offset().next_multiple_of(8) && offset <= length
}

/// The stored values of a whole tuple; `None` when it does not fit to the byte.
pub(crate) fn fit(header: &TupleHeader, tuple: &[u8], shapes: &[ColumnShape]) -> Option<Vec<Span>> {
    let (spans, end) = walk(header, tuple, shapes).filter(|_| is_sound(header, tuple.len()))?;
    (end == tuple.len()).then_some(spans)
}

/// Bytes of a tuple at the beginning of `bytes`, which continue after it; `None` when nothing fits there.
pub(crate) fn fitting_bytes(header: &TupleHeader, bytes: &[u8], shapes: &[ColumnShape]) -> Option<usize> {
    let (spans, end) = walk(header, bytes, shapes).filter(|_| is_sound(header, bytes.len()))?;
    (!spans.is_empty()).then_some(end)
}

/// The tuple with other values, or nulls, in these columns; none of them was null before.
pub(crate) fn with_values(
    header: &TupleHeader,
    tuple: &[u8],
    spans: &[Span],
    shapes: &[ColumnShape],
    values: &BTreeMap<usize, Option<Vec<u8>>>,
) -> Vec<u8> {
    let count = usize::from(header.attribute_count());
    let mut bitmap = vec![0_u8; count.div_ceil(8)];
    let has_oid = header.row_oid(tuple).is_some();
    let data_offset = TupleHeader::SIZE.saturating_add(bitmap.len()).saturating_add(if has_oid { 4 } else { 0 });
    let data_offset = data_offset.next_multiple_of(8);
    let mut data = Vec::with_capacity(tuple.len());
    for span in spans {
        let value = match values.get(&span.column) {
            Some(None) => continue,
            Some(Some(value)) => value.as_slice(),
            None => tuple.get(span.start..span.end).unwrap_or_default(),
        };
        if let Some(byte) = bitmap.get_mut(span.column / 8) {
            *byte |= 1 << (span.column % 8);
        }
        let shape = shapes.get(span.column);
        let is_short =
            shape.is_some_and(|shape| shape.length == -1) && value.first().is_some_and(|first| first & 1 == 1);
        if !is_short {
            data.resize(data.len().next_multiple_of(shape.map_or(1, |shape| shape.alignment).max(1)), 0);
        }
        data.extend_from_slice(value);
    }
    let mut formed = tuple.get(..TupleHeader::SIZE).unwrap_or_default().to_vec();
    let mask = u16_at(&formed, 20).unwrap_or_default() | HAS_NULLS;
    formed.splice(20..22, mask.to_le_bytes());
    formed.splice(22..23, [u8::try_from(data_offset).unwrap_or(u8::MAX)]);
    formed.extend(bitmap);
    formed.resize(data_offset, 0);
    if let Some(oid) = header.row_oid(tuple) {
        formed.splice(data_offset.saturating_sub(4)..data_offset, oid.to_le_bytes());
    }
    formed.extend(data);
    formed
}

/// Writes bytes into a page or a tuple that has them.
pub(crate) fn put(target: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(field) = target.get_mut(at..at.saturating_add(bytes.len())) {
        field.copy_from_slice(bytes);
    }
}

/// Makes a tuple one that was inserted for good and deleted by nobody, at this place.
pub(crate) fn freeze(tuple: &mut [u8], block: u32, item: u16) {
    /// Bits that stay: nulls, variable length, external values, OID.
    const KEPT: u16 = 0x000F;
    /// Committed and invalid together: frozen; and no deleter.
    const FROZEN: u16 = 0x0B00;
    let mask = u16_at(tuple, 20).unwrap_or_default() & KEPT | FROZEN;
    let count = u16_at(tuple, 18).unwrap_or_default() & 0x07FF;
    let [low, high] = [block & 0xFFFF, block >> 16].map(|half| u16::try_from(half).unwrap_or_default());
    put(tuple, 4, &[0; 8]);
    for (at, field) in [(12, high), (14, low), (16, item), (18, count), (20, mask)] {
        put(tuple, at, &field.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHAPES: [ColumnShape; 3] = [
        ColumnShape { length: 4, alignment: 4 },
        ColumnShape { length: -1, alignment: 4 },
        ColumnShape { length: 8, alignment: 8 },
    ];

    /// An integer, a short text of two bytes and a bigint, as a server writes them.
    fn tuple() -> Vec<u8> {
        let mut bytes = vec![0; 24];
        bytes[18] = 3;
        bytes[22] = 24;
        bytes.extend([7, 0, 0, 0, 7, b'a', b'b', 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    fn header(bytes: &[u8]) -> TupleHeader {
        TupleHeader::decode(0, bytes).unwrap()
    }

    #[test]
    fn tuple_fits_to_the_byte_or_not_at_all() {
        let bytes = tuple();
        let spans = fit(&header(&bytes), &bytes, &SHAPES).unwrap();
        let places: Vec<(usize, usize)> = spans.iter().map(|span| (span.start, span.end)).collect();
        assert_eq!(places, [(24, 28), (28, 31), (32, 40)]);
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(fit(&header(&bytes), &longer, &SHAPES), None);
        assert_eq!(fitting_bytes(&header(&bytes), &longer, &SHAPES), Some(40), "another tuple follows");
        let mut padded = bytes.clone();
        padded[31] = 1;
        assert_eq!(fit(&header(&bytes), &padded, &SHAPES), None, "padding is zero");
        assert_eq!(fit(&header(&bytes), &bytes, &SHAPES[..2]), None, "more columns than the table has");
    }

    #[test]
    fn lost_value_becomes_null_and_the_others_stay() {
        let bytes = tuple();
        let spans = fit(&header(&bytes), &bytes, &SHAPES).unwrap();
        let formed = with_values(&header(&bytes), &bytes, &spans, &SHAPES, &[(1, None)].into());
        let found = fit(&header(&formed), &formed, &SHAPES).unwrap();
        let values: Vec<(usize, &[u8])> =
            found.iter().map(|span| (span.column, &formed[span.start..span.end])).collect();
        assert_eq!(values, [(0, &bytes[24..28]), (2, &bytes[32..40])]);
        assert!(header(&formed).is_null(&formed, 1));
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 23..120), nulls in proptest::collection::vec(0..3_usize, 0..3)) {
            let head = header(&bytes);
            if let Some(spans) = fit(&head, &bytes, &SHAPES) {
                prop_assert!(spans.iter().all(|span| span.start <= span.end && span.end <= bytes.len()));
                let nulls = nulls.iter().map(|column| (*column, None)).collect();
                let formed = with_values(&head, &bytes, &spans, &SHAPES, &nulls);
                prop_assert!(fit(&header(&formed), &formed, &SHAPES).is_some());
            }
            if let Some(length) = fitting_bytes(&head, &bytes, &SHAPES) {
                prop_assert!(length <= bytes.len());
            }
            let mut frozen = bytes.clone();
            freeze(&mut frozen, 1, 1);
            prop_assert_eq!(&frozen[22..], &bytes[22..]);
        }
    }
}
