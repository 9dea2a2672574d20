//! Where columns of system catalogs stand in each major: what the catalogs of a damaged cluster may no longer tell themselves.
//! Also here: encodings of databases, by the numbers that `pg_database` has.
//! Also here: values in rows of catalogs and sequences, at the places that each major gives them.

use std::collections::HashMap;

use super::catalogs::{Column, KnownColumn, RawRow};
use super::rows::sound_tuples;
use crate::parsers::catalog::NAME_SIZE;
use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::heap::infomask;
use crate::parsers::tuple::attribute::MAX_COLUMNS;
use crate::parsers::tuple::columns::ColumnShape;
use crate::parsers::wal::version::Major;
use crate::types::Oid;

/// Offsets in the user data of rows of `pg_class`, `pg_attribute` and `pg_type`.
///
/// Source: `src/include/catalog/{pg_class,pg_attribute,pg_type}.h` of each major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// The OID stands in the header of the tuple, and what follows it 4 bytes earlier.
    pub oid_in_header: bool,
    /// `pg_class.relnamespace`; `reltype` follows.
    pub namespace: usize,
    /// `pg_class.relfilenode`; `reltablespace` follows.
    pub filenode: usize,
    /// `pg_class.reltoastrelid`; `relhasindex`, `relisshared`, `relpersistence`, `relkind`, `relnatts` and `relchecks` follow.
    pub toast: usize,
    /// `pg_attribute.attlen`; `attnum` follows.
    pub length: usize,
    pub modifier: usize,
    pub by_value: usize,
    pub alignment: usize,
    pub not_null: usize,
    /// `atthasmissing`, there since 11.
    pub has_missing: Option<usize>,
    /// `attgenerated`, there since 12.
    pub generated: Option<usize>,
    pub is_dropped: usize,
    /// `pg_type.typtype`; `typrelid` stands 5 bytes further on.
    pub type_kind: usize,
    /// `pg_type.typsubscript` stands before `typelem`: since 14.
    pub has_subscript: bool,
}

/// First major of each row, and its offsets.
const ROWS: [(u32, Offsets); 6] = [
    (18, since_12(112, [72, 76, 82, 83, 86, 88, 90, 91], true)),
    (16, since_12(108, [72, 80, 86, 87, 90, 92, 94, 95], true)),
    (14, since_12(108, [76, 88, 92, 93, 96, 98, 100, 101], true)),
    (12, since_12(108, [76, 88, 92, 94, 95, 97, 99, 100], false)),
    (11, to_11(Some(97), 99)),
    (0, to_11(None, 98)),
];

const fn since_12(toast: usize, attribute: [usize; 8], has_subscript: bool) -> Offsets {
    let [length, modifier, by_value, alignment, not_null, has_missing, generated, is_dropped] = attribute;
    Offsets {
        oid_in_header: false,
        namespace: 68,
        filenode: 88,
        toast,
        length,
        modifier,
        by_value,
        alignment,
        not_null,
        has_missing: Some(has_missing),
        generated: Some(generated),
        is_dropped,
        type_kind: 79,
        has_subscript,
    }
}

const fn to_11(has_missing: Option<usize>, is_dropped: usize) -> Offsets {
    Offsets {
        oid_in_header: true,
        namespace: 64,
        filenode: 84,
        toast: 104,
        has_missing,
        generated: None,
        type_kind: 75,
        ..since_12(104, [76, 88, 92, 94, 95, 97, 99, is_dropped], false)
    }
}

impl Offsets {
    /// Those of a major; of one without a row those of the newest.
    pub fn of(major: Major) -> Self {
        let number = major.number();
        ROWS.iter().find(|(first, _)| number >= *first).map_or(ROWS[0].1, |(_, offsets)| *offsets)
    }

    /// Where the name stands in rows of `pg_class`, `pg_type` and `pg_namespace`.
    pub const fn name(&self) -> usize {
        if self.oid_in_header { 0 } else { 4 }
    }
}

/// None, UTF-8, that of Emacs, and Latin-1.
pub(super) const SQL_ASCII: i32 = 0;
pub(super) const UTF8: i32 = 6;
const MULE_INTERNAL: i32 = 7;
const LATIN1: i32 = 8;

/// Names that `initdb` takes, in the order of their numbers.
///
/// Source: `pg_enc`, `src/include/mb/pg_wchar.h`.
const NAMES: &str = "SQL_ASCII EUC_JP EUC_CN EUC_KR EUC_TW EUC_JIS_2004 UTF8 MULE_INTERNAL LATIN1 LATIN2 LATIN3 LATIN4 \
    LATIN5 LATIN6 LATIN7 LATIN8 LATIN9 LATIN10 WIN1256 WIN1258 WIN866 WIN874 KOI8R WIN1251 WIN1252 \
    ISO_8859_5 ISO_8859_6 ISO_8859_7 ISO_8859_8 WIN1250 WIN1253 WIN1254 WIN1255 WIN1257 KOI8U";

/// Encodings that are printed byte by byte: UTF-8, and one that is not converted to it.
const UNCONVERTED: [&str; 2] = ["UTF8", "MULE_INTERNAL"];

/// The encoding of the database in which the server prints rows: that of the rows where it has to convert them.
pub(super) fn encoding_name(number: i32) -> &'static str {
    let name = usize::try_from(number).ok().and_then(|number| NAMES.split(' ').nth(number));
    name.filter(|name| !UNCONVERTED.contains(name)).unwrap_or("SQL_ASCII")
}

/// The encoding of printed rows, as clients know it; that of bytes of an unknown one is not converted.
pub(super) fn client_encoding(number: Option<i32>) -> &'static str {
    match number {
        None | Some(SQL_ASCII) => "SQL_ASCII",
        Some(MULE_INTERNAL) => "MULE_INTERNAL",
        Some(_) => "UTF8",
    }
}

/// Names of a database in UTF-8, as far as its server converted them.
pub(super) struct Names {
    pub encoding: Option<i32>,
    pub converted: HashMap<Vec<u8>, String>,
}

impl Names {
    pub fn text(&self, name: &[u8]) -> String {
        self.converted.get(name).cloned().unwrap_or_else(|| in_utf8(name, self.encoding))
    }
}

/// A name from a catalog in UTF-8; bytes that are not of the encoding become U+FFFD.
pub(super) fn in_utf8(name: &[u8], encoding: Option<i32>) -> String {
    match encoding {
        Some(LATIN1) => name.iter().map(|byte| char::from(*byte)).collect(),
        _ => String::from_utf8_lossy(name).into_owned(),
    }
}

/// A column by its row of `pg_attribute`: relation and number.
pub(crate) fn column_of(offsets: &Offsets, row: &RawRow) -> Option<(Oid, u16, Column)> {
    let data = row.data();
    let number = u16_at(data, offsets.length.checked_add(2)?).filter(|number| (1..=MAX_COLUMNS).contains(number))?;
    let alignment = match data.get(offsets.alignment)? {
        b'c' => 1,
        b's' => 2,
        b'i' => 4,
        b'd' => 8,
        _ => return None,
    };
    let flag = |at: usize| data.get(at).map(|byte| *byte != 0);
    let length = u16_at(data, offsets.length)?.cast_signed();
    let known = KnownColumn {
        type_oid: u32_at(data, 68)?,
        modifier: u32_at(data, offsets.modifier)?.cast_signed(),
        shape: ColumnShape { length, alignment },
        by_value: flag(offsets.by_value)?,
        is_generated: offsets.generated.map_or(Some(false), flag)?,
        is_dropped: flag(offsets.is_dropped)?,
    };
    if length < -2 || length == 0 {
        return None;
    }
    let name = name_at(data, 4)?;
    let column = Column { name, known: Some(known), row: Some(row.tuple.clone()), is_guessed: !row.is_proven };
    Some((u32_at(data, 0)?, number, column))
}

/// The last value of a sequence, and whether it was given out, by the one tuple of its page.
pub(crate) fn sequence_value(page: &[u8]) -> Option<(i64, bool)> {
    let tuple = sound_tuples(page).next().filter(|tuple| !tuple.header.has(infomask::HAS_NULLS))?;
    let data = tuple.header.user_data(tuple.bytes);
    let value = i64::from_le_bytes(*data.first_chunk()?);
    Some((value, *data.get(16)? != 0))
}

/// A name of 64 bytes, without its padding; `None` for other bytes.
pub(crate) fn name_at(data: &[u8], at: usize) -> Option<Vec<u8>> {
    let field = data.get(at..)?.get(..NAME_SIZE)?;
    let length = field.iter().position(|byte| *byte == 0)?;
    let (name, padding) = field.split_at(length);
    (!name.is_empty() && padding.iter().all(|byte| *byte == 0)).then(|| name.to_vec())
}

/// A name in an entry of an index: without padding, with a zero byte at its end.
pub(crate) fn padded_name(data: &[u8], at: usize) -> Option<Vec<u8>> {
    let rest = data.get(at..)?;
    let length = rest.iter().position(|byte| *byte == 0).filter(|length| (1..NAME_SIZE).contains(length))?;
    rest.get(..length).map(<[u8]>::to_vec)
}
