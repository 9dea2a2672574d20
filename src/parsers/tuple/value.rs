//! Values of the types that most columns have.
//! Also here: values of type `numeric`.

use super::columns::{ColumnShape, Stored, columns};
use crate::parsers::catalog::NAME_SIZE;
use crate::parsers::decode::{u16_at, u32_at};
use crate::types::{BlockNumber, Lsn, Oid};

/// Most elements of an array that are decoded.
const MAX_ELEMENTS: usize = 10_000;

/// A decoded value. Texts are as stored: they may be in any encoding and hold any character.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `bool`.
    Bool(bool),
    /// `"char"`: one byte.
    Char(u8),
    /// Whole numbers with a sign.
    Integer(i64),
    /// OIDs, transaction numbers and so on.
    Unsigned(u64),
    /// `real`.
    Float4(f32),
    /// `double precision`.
    Float8(f64),
    /// `numeric`.
    Numeric(Numeric),
    /// Text in the encoding of the database.
    Text(&'a [u8]),
    /// `bytea`.
    Bytes(&'a [u8]),
    /// Days since 2000-01-01.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds of a day, and seconds west of Greenwich.
    TimeTz(i64, i32),
    /// Microseconds since 2000-01-01 00:00:00.
    Timestamp(i64),
    /// A timestamp in UTC.
    TimestampTz(i64),
    /// An interval.
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Microseconds.
        us: i64,
    },
    /// `uuid`.
    Uuid([u8; 16]),
    /// `inet` or `cidr`.
    Network {
        /// Four or sixteen bytes.
        address: &'a [u8],
        /// Bits of the network.
        bits: u8,
        /// `cidr`: the bits are always shown.
        is_cidr: bool,
    },
    /// `macaddr` and `macaddr8`.
    Mac(&'a [u8]),
    /// `bit` and `bit varying`: how many, and the bytes that hold them.
    Bits(usize, &'a [u8]),
    /// `tid`.
    Tid(BlockNumber, u16),
    /// `pg_lsn`.
    Lsn(Lsn),
    /// An array of one dimension; `None`: null.
    Array(Vec<Option<Self>>),
    /// `int2vector` and `oidvector`.
    Vector(Vec<Option<Self>>),
}

/// Name of a type and layout of its values.
struct TypeFacts {
    oid: Oid,
    name: &'static str,
    length: i16,
    alignment: usize,
    /// OID of the array type; 0 where arrays are not decoded.
    array_oid: Oid,
}

const fn facts(oid: Oid, name: &'static str, length: i16, alignment: usize, array_oid: Oid) -> TypeFacts {
    TypeFacts { oid, name, length, alignment, array_oid }
}

/// Types whose values are decoded.
///
/// Source: `src/include/catalog/pg_type.dat`.
const TYPES: &[TypeFacts] = &[
    facts(16, "boolean", 1, 1, 1000),
    facts(17, "bytea", -1, 4, 1001),
    facts(18, "\"char\"", 1, 1, 1002),
    facts(19, "name", 64, 1, 1003),
    facts(20, "bigint", 8, 8, 1016),
    facts(21, "smallint", 2, 2, 1005),
    facts(22, "int2vector", -1, 4, 0),
    facts(23, "integer", 4, 4, 1007),
    facts(24, "regproc", 4, 4, 1008),
    facts(25, "text", -1, 4, 1009),
    facts(26, "oid", 4, 4, 1028),
    facts(27, "tid", 6, 2, 1010),
    facts(28, "xid", 4, 4, 1011),
    facts(29, "cid", 4, 4, 1012),
    facts(30, "oidvector", -1, 4, 0),
    facts(114, "json", -1, 4, 199),
    facts(142, "xml", -1, 4, 143),
    facts(194, "pg_node_tree", -1, 4, 0),
    facts(650, "cidr", -1, 4, 651),
    facts(700, "real", 4, 4, 1021),
    facts(701, "double precision", 8, 8, 1022),
    facts(774, "macaddr8", 8, 4, 775),
    facts(829, "macaddr", 6, 4, 1040),
    facts(869, "inet", -1, 4, 1041),
    facts(1042, "character", -1, 4, 1014),
    facts(1043, "character varying", -1, 4, 1015),
    facts(1082, "date", 4, 4, 1182),
    facts(1083, "time", 8, 8, 1183),
    facts(1114, "timestamp", 8, 8, 1115),
    facts(1184, "timestamptz", 8, 8, 1185),
    facts(1186, "interval", 16, 8, 1187),
    facts(1266, "timetz", 12, 8, 1270),
    facts(1560, "bit", -1, 4, 1561),
    facts(1562, "bit varying", -1, 4, 1563),
    facts(1700, "numeric", -1, 4, 1231),
    facts(2202, "regprocedure", 4, 4, 2207),
    facts(2203, "regoper", 4, 4, 2208),
    facts(2204, "regoperator", 4, 4, 2209),
    facts(2205, "regclass", 4, 4, 2210),
    facts(2206, "regtype", 4, 4, 2211),
    facts(2275, "cstring", -2, 1, 1263),
    facts(2950, "uuid", 16, 1, 2951),
    facts(3220, "pg_lsn", 8, 8, 3221),
    facts(4089, "regnamespace", 4, 4, 4090),
    facts(4096, "regrole", 4, 4, 4097),
    facts(5069, "xid8", 8, 8, 271),
];

fn facts_of(type_oid: Oid) -> Option<&'static TypeFacts> {
    TYPES.iter().find(|facts| facts.oid == type_oid)
}

/// Name of a type of every cluster; an array ends with `[]`.
pub fn type_name(type_oid: Oid) -> Option<String> {
    let plain = || facts_of(type_oid).map(|facts| facts.name.to_owned());
    plain().or_else(|| element_of(type_oid).map(|facts| format!("{}[]", facts.name)))
}

fn element_of(array_oid: Oid) -> Option<&'static TypeFacts> {
    TYPES.iter().find(|facts| facts.array_oid == array_oid && array_oid > 0)
}

impl<'a> Value<'a> {
    /// Decodes the bytes of a value, without the length before them; `None` for other types, and for bytes that are not of
    /// this type.
    pub fn decode(type_oid: Oid, bytes: &'a [u8]) -> Option<Self> {
        let facts = match facts_of(type_oid) {
            Some(facts) => facts,
            None => return array(bytes, element_of(type_oid)?).map(Self::Array),
        };
        if usize::try_from(facts.length).is_ok_and(|length| length != bytes.len()) {
            return None;
        }
        Some(match type_oid {
            16 => Self::Bool(*bytes.first()? != 0),
            17 => Self::Bytes(bytes),
            18 => Self::Char(*bytes.first()?),
            19 => Self::Text(bytes.get(..NAME_SIZE)?.split(|byte| *byte == 0).next()?),
            // Indexes hold names so.
            2275 => Self::Text(bytes.split(|byte| *byte == 0).next()?),
            20 => Self::Integer(i64_at(bytes, 0)?),
            21 => Self::Integer(i16::from_le_bytes(*bytes.first_chunk()?).into()),
            22 => Self::Vector(array(bytes, facts_of(21)?)?),
            23 => Self::Integer(i32_at(bytes, 0)?.into()),
            24 | 26 | 28 | 29 | 2202..=2206 | 4089 | 4096 => Self::Unsigned(u32_at(bytes, 0)?.into()),
            27 => {
                let [b0, b1, b2, b3, i0, i1] = *bytes.first_chunk()?;
                let (high, low) = (u16::from_le_bytes([b0, b1]), u16::from_le_bytes([b2, b3]));
                Self::Tid(u32::from(high) << 16 | u32::from(low), u16::from_le_bytes([i0, i1]))
            }
            30 => Self::Vector(array(bytes, facts_of(26)?)?),
            25 | 114 | 142 | 194 | 1042 | 1043 => Self::Text(bytes),
            650 | 869 => {
                let (family, bits, address) = (*bytes.first()?, *bytes.get(1)?, bytes.get(2..)?);
                let is_sound = matches!((family, address.len(), bits), (2, 4, 0..=32) | (3, 16, 0..=128));
                return is_sound.then_some(Self::Network { address, bits, is_cidr: type_oid == 650 });
            }
            700 => Self::Float4(f32::from_le_bytes(*bytes.first_chunk()?)),
            701 => Self::Float8(f64::from_le_bytes(*bytes.first_chunk()?)),
            774 | 829 => Self::Mac(bytes),
            1082 => Self::Date(i32_at(bytes, 0)?),
            1083 => Self::Time(i64_at(bytes, 0)?),
            1114 => Self::Timestamp(i64_at(bytes, 0)?),
            1184 => Self::TimestampTz(i64_at(bytes, 0)?),
            1186 => Self::Interval { us: i64_at(bytes, 0)?, days: i32_at(bytes, 8)?, months: i32_at(bytes, 12)? },
            1266 => Self::TimeTz(i64_at(bytes, 0)?, i32_at(bytes, 8)?),
            1560 | 1562 => {
                let (count, held) = (usize::try_from(i32_at(bytes, 0)?).ok()?, bytes.get(4..)?);
                return (count.div_ceil(8) == held.len()).then_some(Self::Bits(count, held));
            }
            1700 => Self::Numeric(Numeric::decode(bytes)?),
            2950 => Self::Uuid(*bytes.first_chunk()?),
            3220 => Self::Lsn(Lsn(i64_at(bytes, 0)?.cast_unsigned())),
            5069 => Self::Unsigned(i64_at(bytes, 0)?.cast_unsigned()),
            _ => return None,
        })
    }
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    u32_at(bytes, at).map(u32::cast_signed)
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    bytes.get(at..)?.first_chunk().map(|bytes| i64::from_le_bytes(*bytes))
}

/// The elements of an array of at most one dimension.
///
/// | bytes  | field        | meaning                                                       |
/// |--------|--------------|---------------------------------------------------------------|
/// | 0..4   | `ndim`       | dimensions                                                    |
/// | 4..8   | `dataoffset` | 0: no nulls; else where elements begin, from the length on    |
/// | 8..12  | `elemtype`   | OID of the type of elements                                   |
/// | 12..16 | dimension    | number of elements; after it the number of the first one      |
/// | 20..   | bitmap       | where there are nulls: a set bit is not null                  |
///
/// Source: `ArrayType`, `src/include/utils/array.h`. The length of 4 bytes that stands before it counts for alignment.
fn array<'a>(bytes: &'a [u8], element: &TypeFacts) -> Option<Vec<Option<Value<'a>>>> {
    let (dimensions, data_offset) = (u32_at(bytes, 0)?, usize::try_from(u32_at(bytes, 4)?).ok()?);
    if u32_at(bytes, 8)? != element.oid {
        return None;
    }
    let count = match dimensions {
        0 => return Some(Vec::new()),
        1 => usize::try_from(u32_at(bytes, 12)?).ok().filter(|count| *count <= MAX_ELEMENTS)?,
        _ => return None,
    };
    // Without nulls elements begin after 24 bytes, of which the length takes four.
    let (bitmap, begin) = match data_offset {
        0 => (None, 20),
        offset => (Some(bytes.get(20..)?), offset.checked_sub(4)?),
    };
    if bitmap.is_some_and(|bitmap| bitmap.len() < count.div_ceil(8)) {
        return None;
    }
    let is_null = |index: usize| {
        bitmap.is_some_and(|bitmap| bitmap.get(index / 8).is_none_or(|byte| byte >> (index % 8) & 1 == 0))
    };
    let shape = ColumnShape { length: element.length, alignment: element.alignment };
    let stored = columns(bytes.get(begin..)?, &vec![shape; count], count, &is_null);
    let value = |stored: Stored<'a>| match stored {
        Stored::Null => Some(None),
        Stored::Plain(bytes) => Value::decode(element.oid, bytes).map(Some),
        _ => None,
    };
    stored.into_iter().map(value).collect()
}

/// Most decimal digits before or after the point that are written out; a page can claim 131072 in six bytes.
const MAX_DIGITS: usize = 2000;

/// Bits of the first two bytes.
///
/// Source: `NUMERIC_SHORT` and its neighbours, `src/backend/utils/adt/numeric.c`.
const SIGN_MASK: u16 = 0xC000;
const NEGATIVE: u16 = 0x4000;
const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xC000;
const SPECIAL_MASK: u16 = 0xF000;

/// A number, or what stands for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numeric {
    /// `NaN`.
    NotANumber,
    /// Infinity, negative or not (since 14).
    Infinity {
        /// Below all numbers.
        is_negative: bool,
    },
    /// A number in decimal digits, as the server prints it.
    Number(String),
}

impl Numeric {
    /// Decodes the bytes after the length; `None` when they are not a number of a size that is written out.
    ///
    /// | bytes | field          | meaning                                                              |
    /// |-------|----------------|----------------------------------------------------------------------|
    /// | 0..2  | `n_header`     | two bits 10: sign, 6 bits of digits after the point, 7 bits of weight |
    /// |       | or `n_sign_dscale` | sign, 14 bits of digits after the point; the weight follows        |
    /// | ..    | digits         | `int16` each, to the base of 10000; the first one times 10000 to the power of the weight |
    ///
    /// Source: `NumericChoice`, `src/backend/utils/adt/numeric.c`.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let header = u16_at(bytes, 0)?;
        let (is_negative, scale, weight, digits_at) = match header & SIGN_MASK {
            SPECIAL => {
                return Some(match header & SPECIAL_MASK {
                    0xD000 => Self::Infinity { is_negative: false },
                    0xF000 => Self::Infinity { is_negative: true },
                    _ => Self::NotANumber,
                });
            }
            SHORT => {
                let low = (header & 0x003F).cast_signed();
                let weight = if header & 0x0040 == 0 { low } else { low | !0x003F };
                (header & 0x2000 != 0, (header & 0x1F80) >> 7, weight, 2)
            }
            sign => (sign == NEGATIVE, header & 0x3FFF, u16_at(bytes, 2)?.cast_signed(), 4),
        };
        let (groups, _) = bytes.get(digits_at..)?.as_chunks::<2>();
        let groups: Vec<u16> = groups.iter().map(|group| u16::from_le_bytes(*group)).collect();
        if groups.iter().any(|group| *group >= 10_000) {
            return None;
        }
        let (scale, weight) = (usize::from(scale), i32::from(weight));
        let whole = usize::try_from(weight.checked_add(1)?).unwrap_or(0);
        if scale > MAX_DIGITS || whole.checked_mul(4)? > MAX_DIGITS {
            return None;
        }
        let group = |index: i32| {
            let at = usize::try_from(index).ok();
            at.and_then(|at| groups.get(at)).copied().unwrap_or(0)
        };
        let mut text = String::new();
        for index in 0..=weight {
            if text.is_empty() {
                let first = group(index);
                if first > 0 {
                    text.push_str(&first.to_string());
                }
            } else {
                text.push_str(&format!("{:04}", group(index)));
            }
        }
        if text.is_empty() {
            text.push('0');
        }
        if scale > 0 {
            let mut fraction = String::new();
            let mut index = weight.checked_add(1)?;
            // Groups between the point and the first digit that is stored are zero: their index is negative.
            if weight < -1 {
                for _ in 0..weight.checked_add(1)?.unsigned_abs() {
                    if fraction.len() >= scale {
                        break;
                    }
                    fraction.push_str("0000");
                }
                index = 0;
            }
            while fraction.len() < scale {
                fraction.push_str(&format!("{:04}", group(index)));
                index = index.checked_add(1)?;
            }
            fraction.truncate(scale);
            text.push('.');
            text.push_str(&fraction);
        }
        let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
        Some(Self::Number(if is_negative && !is_zero { format!("-{text}") } else { text }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_of_another_length_are_not_of_the_type() {
        assert_eq!(Value::decode(23, &[1, 0, 0, 0]), Some(Value::Integer(1)));
        assert_eq!(Value::decode(23, &[1, 0, 0]), None);
        assert_eq!(Value::decode(869, &[2, 33, 1, 2, 3, 4]), None, "33 bits of 32");
        assert_eq!(Value::decode(1560, &[9, 0, 0, 0, 0xFF]), None, "nine bits in one byte");
        assert_eq!(Value::decode(600, &[0; 16]), None, "a type that is not decoded");
    }

    #[test]
    fn array_with_a_null() {
        let words = [1_u32, 28, 23, 3, 1, 0b101, 7, 9];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let expected = vec![Some(Value::Integer(7)), None, Some(Value::Integer(9))];
        assert_eq!(Value::decode(1007, &bytes), Some(Value::Array(expected)));
        let mut huge = bytes;
        huge[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Value::decode(1007, &huge), None);
    }

    #[test]
    fn names_of_types_are_unique() {
        let mut oids: Vec<Oid> = TYPES.iter().flat_map(|facts| [facts.oid, facts.array_oid]).collect();
        oids.retain(|oid| *oid > 0);
        let count = oids.len();
        oids.sort_unstable();
        oids.dedup();
        assert_eq!(oids.len(), count);
    }

    proptest! {
        #[test]
        fn any_bytes_of_any_type_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            at in 0..TYPES.len(),
            cut in 0_u32..4,
        ) {
            // Heads of arrays that fit are rare among random bytes.
            let mut headed = [1_u32, 0, TYPES[at].oid, cut * 3, 1].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
            headed.extend(&bytes);
            for (oid, bytes) in [(TYPES[at].oid, &bytes), (TYPES[at].array_oid, &headed), (TYPES[at].array_oid, &bytes)] {
                if let Some(Value::Array(elements)) = Value::decode(oid, bytes) {
                    prop_assert!(elements.len() <= bytes.len() * 8);
                }
            }
        }
    }

    fn number(words: &[u16]) -> Option<Numeric> {
        Numeric::decode(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
    }

    #[test]
    fn forms_that_the_server_writes() {
        let text = |words: &[u16]| match number(words) {
            Some(Numeric::Number(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(text(&[0x8000]), "0");
        assert_eq!(text(&[0x8000 | 2 << 7]), "0.00");
        assert_eq!(text(&[0x8000 | 2 << 7 | 1, 1, 2345, 6700]), "12345.67");
        assert_eq!(text(&[0xA000 | 4 << 7 | 0x7F, 12]), "-0.0012", "weight -1");
        assert_eq!(text(&[0x8000 | 10 << 7 | 0x7E, 1230]), "0.0000123000", "weight -2: one zero group before it");
        assert_eq!(text(&[0x4000, 2, 1]), "-100000000", "the long form");
        assert_eq!(number(&[0xC000]), Some(Numeric::NotANumber));
        assert_eq!(number(&[0xF000]), Some(Numeric::Infinity { is_negative: true }));
    }

    #[test]
    fn numbers_that_only_a_page_could_claim_are_left_alone() {
        assert_eq!(number(&[0x0000, 0x7FFF, 1]), None, "131072 digits");
        assert_eq!(number(&[0x3FFF, 0]), None, "16383 digits after the point");
        assert_eq!(number(&[0x8000, 10_000]), None, "a digit of more than 9999");
        assert_eq!(Numeric::decode(&[1]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_give_short_text(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(Numeric::Number(text)) = Numeric::decode(&bytes) {
                prop_assert!(text.len() <= 2 * MAX_DIGITS + 8);
                prop_assert!(text.parse::<f64>().is_ok());
            }
        }
    }
}
