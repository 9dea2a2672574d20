//! The columns of a tuple: where each begins and ends, and how its value is stored. No length of the tuple is trusted.

use crate::parsers::decode::u32_at;
use crate::parsers::heap::TupleHeader;

/// Longest value that is unpacked from its compressed form, in bytes.
pub const MAX_UNPACKED: usize = 1 << 20;

/// A column according to the catalog, with the facts needed to find it.
///
/// Source: `attlen` and `attalign`, `src/include/catalog/pg_attribute.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnShape {
    /// Bytes of a value; -1: a length stands before it, -2: it ends with a zero byte.
    pub length: i16,
    /// Alignment in bytes: 1, 2, 4 or 8.
    pub alignment: usize,
}

/// How a value was compressed in its tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// PostgreSQL's own.
    Pglz,
    /// LZ4.
    Lz4,
    /// A code without a meaning.
    Other(u8),
}

impl Method {
    const fn of(bits: u32) -> Self {
        match bits >> 30 {
            0 => Self::Pglz,
            1 => Self::Lz4,
            2 => Self::Other(2),
            _ => Self::Other(3),
        }
    }
}

/// A value outside of its tuple.
///
/// Source: `varatt_external`, `src/include/varatt.h` (before 16 `postgres.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToastPointer {
    /// Bytes of the value.
    pub raw_bytes: u32,
    /// Bytes that are stored.
    pub stored_bytes: u32,
    /// How it is compressed, where it is.
    pub method: Option<Method>,
    /// Number of the value in its TOAST table.
    pub value_oid: u32,
    /// OID of the TOAST table.
    pub toast_oid: u32,
}

/// One column of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'a> {
    /// Null.
    Null,
    /// The tuple is older than the column.
    Absent,
    /// The bytes of the value, without the length that stands before it.
    Plain(&'a [u8]),
    /// A value that is compressed in the tuple.
    Compressed {
        /// How.
        method: Method,
        /// Bytes of the value once unpacked.
        raw_bytes: u32,
        /// The stored bytes.
        bytes: &'a [u8],
    },
    /// A value that is in the TOAST table.
    External(ToastPointer),
    /// The column does not fit into the tuple, or a column before it did not: what is left of the tuple.
    Unreadable(&'a [u8]),
}

/// Size of a TOAST pointer in a tuple: a byte for its kind, one for what it points to, four numbers.
const TOAST_POINTER_SIZE: usize = 18;

/// Kind of a pointer to a value in a TOAST table.
///
/// Source: `VARTAG_ONDISK`, `src/include/varatt.h`.
const ON_DISK: u8 = 18;

/// The columns of a row. `shapes` are those of its table in order; columns that the row does not have are absent, and what
/// the row has more than those is left out.
pub fn row_columns<'a>(header: &TupleHeader, tuple: &'a [u8], shapes: &[ColumnShape]) -> Vec<Stored<'a>> {
    let count = header.attribute_count();
    let is_null = |index: usize| u16::try_from(index).is_ok_and(|index| header.is_null(tuple, index));
    columns(header.user_data(tuple), shapes, usize::from(count), &is_null)
}

/// The first column, from 0, that does not fit into the row; `None` when all do.
pub(crate) fn first_misfit(header: &TupleHeader, tuple: &[u8], shapes: &[ColumnShape]) -> Option<usize> {
    let stored = shapes.get(..usize::from(header.attribute_count())).unwrap_or(shapes);
    let is_null = |index: usize| u16::try_from(index).is_ok_and(|index| header.is_null(tuple, index));
    let mut there = placed(header.user_data(tuple), stored, is_null);
    there.find_map(|found| matches!(found.stored, Stored::Unreadable(_)).then_some(found.column))
}

/// The columns in `data`, of which the first `count` are there. Offsets in `data` are aligned as those in the tuple are:
/// it begins at a multiple of 8.
pub fn columns<'a>(
    data: &'a [u8],
    shapes: &[ColumnShape],
    count: usize,
    is_null: &dyn Fn(usize) -> bool,
) -> Vec<Stored<'a>> {
    let mut rest = Rest { data, at: 0, start: 0, is_lost: false };
    let column = |(index, shape): (usize, &ColumnShape)| {
        if index >= count {
            Stored::Absent
        } else if is_null(index) {
            Stored::Null
        } else {
            rest.take(*shape)
        }
    };
    shapes.iter().enumerate().map(column).collect()
}

/// A column that is not null, and where its bytes are in the data, the length before it included.
pub(crate) struct Placed<'a> {
    /// From 0.
    pub column: usize,
    pub start: usize,
    pub end: usize,
    pub stored: Stored<'a>,
}

/// The columns in `data` that are not null, in order.
pub(crate) fn placed<'a>(
    data: &'a [u8],
    shapes: &[ColumnShape],
    is_null: impl Fn(usize) -> bool,
) -> impl Iterator<Item = Placed<'a>> {
    let mut rest = Rest { data, at: 0, start: 0, is_lost: false };
    shapes.iter().enumerate().filter(move |(column, _)| !is_null(*column)).map(move |(column, shape)| {
        let stored = rest.take(*shape);
        Placed { column, start: rest.start, end: rest.at, stored }
    })
}

/// The remaining data of a tuple.
struct Rest<'a> {
    data: &'a [u8],
    at: usize,
    /// Start of the last column.
    start: usize,
    /// A column did not fit: where the next one begins is unknown.
    is_lost: bool,
}

impl<'a> Rest<'a> {
    fn left(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    fn align(&mut self, alignment: usize) {
        self.at = self.at.checked_next_multiple_of(alignment.max(1)).unwrap_or(usize::MAX);
        self.start = self.at;
    }

    fn take(&mut self, shape: ColumnShape) -> Stored<'a> {
        if self.is_lost {
            return Stored::Unreadable(&[]);
        }
        self.start = self.at;
        let found = match usize::try_from(shape.length) {
            Ok(length) => {
                self.align(shape.alignment);
                self.bytes(length).map(Stored::Plain)
            }
            Err(_) if shape.length == -2 => self.zero_ended(shape.alignment),
            Err(_) => self.varlena(shape.alignment),
        };
        found.unwrap_or_else(|| {
            self.is_lost = true;
            Stored::Unreadable(self.left())
        })
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let bytes = self.data.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn zero_ended(&mut self, alignment: usize) -> Option<Stored<'a>> {
        self.align(alignment);
        let length = self.left().iter().position(|byte| *byte == 0)?;
        let bytes = self.bytes(length)?;
        self.at = self.at.checked_add(1)?;
        Some(Stored::Plain(bytes))
    }

    /// A value with its length before it. A first byte that is zero is padding: lengths of one byte are not aligned.
    ///
    /// Source: `att_align_pointer`, `src/include/access/tupmacs.h`; `varattrib_4b` and its neighbours, `varatt.h`.
    fn varlena(&mut self, alignment: usize) -> Option<Stored<'a>> {
        if self.left().first() == Some(&0) {
            self.align(alignment);
        }
        let first = *self.left().first()?;
        if first == 1 {
            return self.external();
        }
        if first & 1 == 1 {
            let value = self.bytes(usize::from(first >> 1))?;
            return Some(Stored::Plain(value.get(1..)?));
        }
        let word = u32_at(self.left(), 0)?;
        let whole = self.bytes(usize::try_from(word >> 2).ok()?)?;
        if first & 2 == 0 {
            return Some(Stored::Plain(whole.get(4..)?));
        }
        let info = u32_at(whole, 4)?;
        Some(Stored::Compressed { method: Method::of(info), raw_bytes: info & 0x3FFF_FFFF, bytes: whole.get(8..)? })
    }

    fn external(&mut self) -> Option<Stored<'a>> {
        if self.left().get(1) != Some(&ON_DISK) {
            return None;
        }
        let pointer = self.bytes(TOAST_POINTER_SIZE)?;
        let number = |at: usize| u32_at(pointer, at);
        let (raw_bytes, stored) = (number(2)?, number(6)?);
        let stored_bytes = stored & 0x3FFF_FFFF;
        // The length of the value counts the four bytes before it, that of what is stored does not.
        let is_compressed = raw_bytes.checked_sub(4).is_some_and(|raw| stored_bytes < raw);
        let method = is_compressed.then(|| Method::of(stored));
        let raw_bytes = raw_bytes.saturating_sub(4);
        Some(Stored::External(ToastPointer {
            raw_bytes,
            stored_bytes,
            method,
            value_oid: number(10)?,
            toast_oid: number(14)?,
        }))
    }
}

/// The bytes of a value that is compressed in its tuple; `None` when they cannot be unpacked, or are more than
/// [`MAX_UNPACKED`].
pub fn unpack(method: Method, raw_bytes: u32, bytes: &[u8]) -> Option<Vec<u8>> {
    unpack_within(MAX_UNPACKED, method, raw_bytes, bytes)
}

/// Like [`unpack`], with another limit.
pub(crate) fn unpack_within(limit: usize, method: Method, raw_bytes: u32, bytes: &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(raw_bytes).ok().filter(|length| *length <= limit)?;
    let mut unpacked = vec![0; length];
    match method {
        Method::Pglz => crate::parsers::pglz::decompress(bytes, &mut unpacked, length).ok()?,
        Method::Lz4 => {
            let written = lz4_flex::block::decompress_into(bytes, &mut unpacked).ok()?;
            if written != length {
                return None;
            }
        }
        Method::Other(_) => return None,
    }
    Some(unpacked)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INT4: ColumnShape = ColumnShape { length: 4, alignment: 4 };
    const INT8: ColumnShape = ColumnShape { length: 8, alignment: 8 };
    const TEXT: ColumnShape = ColumnShape { length: -1, alignment: 4 };
    const CSTRING: ColumnShape = ColumnShape { length: -2, alignment: 1 };

    fn all<'a>(data: &'a [u8], shapes: &[ColumnShape]) -> Vec<Stored<'a>> {
        columns(data, shapes, shapes.len(), &|_| false)
    }

    #[test]
    fn short_lengths_are_not_aligned_and_long_ones_are() {
        // A text of two letters with a length of one byte, then a number at the next multiple of four.
        assert_eq!(all(b"\x07ab\0\x2a\0\0\0", &[TEXT, INT4]), [Stored::Plain(b"ab"), Stored::Plain(&[42, 0, 0, 0])]);
        // Four numbers before a text whose length has four bytes: padding is zero.
        let data = b"\x05x\0\0\x18\0\0\0ab";
        assert_eq!(all(data, &[TEXT, TEXT])[1], Stored::Plain(b"ab"));
        assert_eq!(all(b"ab\0c\0", &[CSTRING, CSTRING]), [Stored::Plain(b"ab"), Stored::Plain(b"c")]);
    }

    #[test]
    fn nulls_take_no_room_and_later_columns_are_absent() {
        let stored = columns(&[1, 0, 0, 0], &[INT8, INT4, INT4], 2, &|index| index == 0);
        assert_eq!(stored, [Stored::Null, Stored::Plain(&[1, 0, 0, 0]), Stored::Absent]);
    }

    #[test]
    fn value_that_ends_past_its_tuple_is_unreadable_and_so_are_those_after_it() {
        let stored = all(&[0x41, b'a', b'b'], &[TEXT, INT4]);
        assert_eq!(stored, [Stored::Unreadable(&[0x41, b'a', b'b']), Stored::Unreadable(&[])]);
    }

    #[test]
    fn pointers_to_other_tables_and_compressed_values_are_told_apart() {
        let mut pointer = vec![1, 18];
        for number in [5004_u32, 1000 | 1 << 30, 16_500, 16_400] {
            pointer.extend(number.to_le_bytes());
        }
        let [Stored::External(found)] = all(&pointer, &[TEXT])[..] else { panic!("a pointer") };
        assert_eq!((found.raw_bytes, found.stored_bytes, found.method), (5000, 1000, Some(Method::Lz4)));
        assert_eq!((found.value_oid, found.toast_oid), (16_500, 16_400));
        // Three letters that are repeated: one literal run and one match.
        let packed = [0b1000_u8, b'a', b'b', b'c', 0x0F, 0x03, 0x00];
        let mut data = (u32::try_from(8 + packed.len()).unwrap() << 2 | 2).to_le_bytes().to_vec();
        data.extend(21_u32.to_le_bytes());
        data.extend(packed);
        let [Stored::Compressed { method, raw_bytes, bytes }] = all(&data, &[TEXT])[..] else { panic!("compressed") };
        assert_eq!((method, raw_bytes, bytes), (Method::Pglz, 21, &packed[..]));
        assert_eq!(unpack(method, raw_bytes, bytes).unwrap(), b"abcabcabcabcabcabcabc");
        assert_eq!(unpack(method, u32::MAX, bytes), None, "no buffer of a size that a page makes up");
    }

    proptest! {
        #[test]
        fn any_bytes_stay_inside_the_tuple(
            data in proptest::collection::vec(any::<u8>(), 0..200),
            lengths in proptest::collection::vec((-3_i16..70, prop::sample::select(vec![0_usize, 1, 2, 4, 8])), 0..20),
        ) {
            let shapes: Vec<ColumnShape> =
                lengths.into_iter().map(|(length, alignment)| ColumnShape { length, alignment }).collect();
            let stored = columns(&data, &shapes, shapes.len(), &|index| index % 5 == 4);
            prop_assert_eq!(stored.len(), shapes.len());
            for column in stored {
                if let Stored::Compressed { method, raw_bytes, bytes } = column {
                    prop_assert!(bytes.len() <= data.len());
                    let unpacked = unpack(method, raw_bytes, bytes);
                    prop_assert!(unpacked.is_none_or(|unpacked| unpacked.len() <= MAX_UNPACKED));
                }
            }
        }
    }
}
