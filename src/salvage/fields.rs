//! Values in rows of catalogs and sequences, at the places that each major gives them.

use super::catalogs::{Column, KnownColumn, RawRow};
use super::layout::Offsets;
use super::rows::sound_tuples;
use crate::parsers::catalog::NAME_SIZE;
use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::heap::infomask;
use crate::parsers::tuple::attribute::MAX_COLUMNS;
use crate::parsers::tuple::columns::ColumnShape;
use crate::types::Oid;

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
