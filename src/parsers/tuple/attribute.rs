//! Rows of `pg_attribute` and `pg_type`. Where their columns stand differs between majors, and `pg_attribute` has rows about
//! itself: so where its columns stand is taken from the cluster, not from a table of majors.

use super::columns::ColumnShape;
use crate::parsers::catalog::{NAME_SIZE, Name};
use crate::parsers::decode::{u16_at, u32_at};
use crate::types::Oid;

/// OID of `pg_attribute`. Source: `src/include/catalog/pg_attribute.h`.
pub(crate) const PG_ATTRIBUTE_OID: Oid = 1249;

/// OID of `pg_type`. Source: `src/include/catalog/pg_type.h`.
pub(crate) const PG_TYPE_OID: Oid = 1247;

/// Most columns of a relation.
///
/// Source: `MaxHeapAttributeNumber`, `src/include/access/htup_details.h`.
pub(crate) const MAX_COLUMNS: u16 = 1600;

/// The first columns of `pg_attribute`: the relation, the name of the column, its type. So in all majors.
const NAME_AT: usize = 4;
const TYPE_AT: usize = 68;

/// The two places where `attlen` has been; `attnum` follows it. From 16 on `attstattarget` no longer stands before it.
const LENGTH_AT: [usize; 2] = [72, 76];

/// A column of a relation, by the head of its row, which needs no more than the place of `attlen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeHead {
    /// OID of the relation.
    pub rel_oid: Oid,
    /// Name of the column.
    pub name: Name,
    /// OID of its type; 0 of a column that was dropped.
    pub type_oid: Oid,
    /// `attlen`.
    pub length: i16,
    /// Number, from 1; columns of the system have negative ones.
    pub number: i16,
}

fn name_at(data: &[u8], at: usize) -> Option<Name> {
    let bytes: &[u8; NAME_SIZE] = data.get(at..)?.first_chunk()?;
    Some(Name(*bytes))
}

fn i16_at(data: &[u8], at: usize) -> Option<i16> {
    u16_at(data, at).map(u16::cast_signed)
}

/// The relation that a row of `pg_attribute` is about. `data`: the user data of the row.
pub fn relation_of(data: &[u8]) -> Option<Oid> {
    u32_at(data, 0)
}

impl AttributeHead {
    fn decode(data: &[u8], length_at: usize) -> Option<Self> {
        Some(Self {
            rel_oid: relation_of(data)?,
            name: name_at(data, NAME_AT)?,
            type_oid: u32_at(data, TYPE_AT)?,
            length: i16_at(data, length_at)?,
            number: i16_at(data, length_at.checked_add(2)?)?,
        })
    }
}

/// Where a column of a catalog stands in the user data of a row.
fn offset_in(heads: &[AttributeHead], wanted: &str) -> Option<usize> {
    let mut at = 0_usize;
    for head in heads {
        let length = usize::try_from(head.length).ok()?;
        // Columns of catalogs before the first one of variable length are numbers, flags and names.
        let alignment = if length == NAME_SIZE { 1 } else { length };
        at = at.checked_next_multiple_of(alignment.max(1))?;
        if head.name.bytes() == wanted.as_bytes() {
            return Some(at);
        }
        at = at.checked_add(length)?;
    }
    None
}

/// Where the columns of `pg_attribute` stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeLayout {
    length: usize,
    modifier: usize,
    alignment: usize,
    is_dropped: usize,
    /// There since 11.
    has_missing: Option<usize>,
}

impl AttributeLayout {
    /// Takes it from the rows of `pg_attribute` that are about `pg_attribute`; `None` when they do not fit together.
    pub fn of(rows: &[&[u8]]) -> Option<Self> {
        LENGTH_AT.into_iter().find_map(|length| {
            let heads = heads_of(rows, length, PG_ATTRIBUTE_OID);
            // The row about `attlen` must confirm what was assumed to read it.
            let found = offset_in(&heads, "attlen").filter(|found| *found == length)?;
            let at = |name| offset_in(&heads, name);
            at("attnum").filter(|number| Some(*number) == found.checked_add(2))?;
            Some(Self {
                length,
                modifier: at("atttypmod")?,
                alignment: at("attalign")?,
                is_dropped: at("attisdropped")?,
                has_missing: at("atthasmissing"),
            })
        })
    }

    /// Where the columns of `pg_type` stand, by the rows of `pg_attribute` that are about it.
    pub fn types(&self, rows: &[&[u8]]) -> Option<TypeLayout> {
        let heads = heads_of(rows, self.length, PG_TYPE_OID);
        let at = |name| offset_in(&heads, name);
        Some(TypeLayout {
            oid: at("oid"),
            name: at("typname")?,
            kind: at("typtype")?,
            element: at("typelem")?,
            base: at("typbasetype")?,
        })
    }
}

/// The columns of a relation from the first one on, in order and without a gap.
fn heads_of(rows: &[&[u8]], length_at: usize, rel_oid: Oid) -> Vec<AttributeHead> {
    let heads = rows.iter().filter_map(|row| AttributeHead::decode(row, length_at));
    let mut heads: Vec<AttributeHead> = heads.filter(|head| head.rel_oid == rel_oid && head.number > 0).collect();
    heads.sort_by_key(|head| head.number);
    heads.dedup_by_key(|head| head.number);
    let whole = heads.iter().zip(1_i16..).take_while(|(head, number)| head.number == *number).count();
    heads.truncate(whole);
    heads
}

/// A row of `pg_attribute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeRow {
    /// The part that does not depend on the major version.
    pub head: AttributeHead,
    /// `atttypmod`.
    pub modifier: i32,
    /// Length and alignment of values.
    pub shape: ColumnShape,
    /// The column was dropped; old rows still have it.
    pub is_dropped: bool,
    /// Rows from before the column was added have a value of it that is in the catalog alone.
    pub has_missing: bool,
}

impl AttributeRow {
    /// Decodes the user data of a row; `None` when it is too short, or an alignment is not one of those that there are.
    pub fn decode(layout: &AttributeLayout, data: &[u8]) -> Option<Self> {
        let head = AttributeHead::decode(data, layout.length)?;
        let flag = |at: usize| data.get(at).map(|byte| *byte != 0);
        let alignment = match data.get(layout.alignment)? {
            b'c' => 1,
            b's' => 2,
            b'i' => 4,
            b'd' => 8,
            _ => return None,
        };
        Some(Self {
            head,
            modifier: u32_at(data, layout.modifier)?.cast_signed(),
            shape: ColumnShape { length: head.length, alignment },
            is_dropped: flag(layout.is_dropped)?,
            has_missing: layout.has_missing.map_or(Some(false), flag)?,
        })
    }
}

/// Where the columns of `pg_type` stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeLayout {
    /// `None`: before 12 the OID is in the header of the tuple.
    oid: Option<usize>,
    name: usize,
    kind: usize,
    element: usize,
    base: usize,
}

/// A row of `pg_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeRow {
    pub oid: Oid,
    pub name: Name,
    /// `typtype`: `b` base, `d` domain, `e` enum, `c` composite, `r` range.
    pub kind: u8,
    pub element_oid: Oid,
    /// The type that a domain is over; else 0.
    pub base_oid: Oid,
}

impl TypeRow {
    /// Decodes the user data of a row; `header_oid` is the OID that its header has, where it has one.
    pub fn decode(layout: &TypeLayout, data: &[u8], header_oid: Option<Oid>) -> Option<Self> {
        Some(Self {
            oid: layout.oid.map_or(header_oid, |at| u32_at(data, at))?,
            name: name_at(data, layout.name)?,
            kind: *data.get(layout.kind)?,
            element_oid: u32_at(data, layout.element)?,
            base_oid: u32_at(data, layout.base)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Columns of `pg_attribute` up to the last one that is needed, with their lengths, as the headers of majors have them.
    const OF_10: &[(&str, i16)] = &[
        ("attrelid", 4),
        ("attname", 64),
        ("atttypid", 4),
        ("attstattarget", 4),
        ("attlen", 2),
        ("attnum", 2),
        ("attndims", 4),
        ("attcacheoff", 4),
        ("atttypmod", 4),
        ("attbyval", 1),
        ("attstorage", 1),
        ("attalign", 1),
        ("attnotnull", 1),
        ("atthasdef", 1),
        ("attidentity", 1),
        ("attisdropped", 1),
    ];
    const OF_18: &[(&str, i16)] = &[
        ("attrelid", 4),
        ("attname", 64),
        ("atttypid", 4),
        ("attlen", 2),
        ("attnum", 2),
        ("atttypmod", 4),
        ("attndims", 2),
        ("attbyval", 1),
        ("attalign", 1),
        ("attstorage", 1),
        ("attcompression", 1),
        ("attnotnull", 1),
        ("atthasdef", 1),
        ("atthasmissing", 1),
        ("attidentity", 1),
        ("attgenerated", 1),
        ("attisdropped", 1),
    ];

    fn rows(columns: &[(&str, i16)], length_at: usize) -> Vec<Vec<u8>> {
        let row = |(index, (name, length)): (usize, &(&str, i16))| {
            let mut data = vec![0; 112];
            data[..4].copy_from_slice(&PG_ATTRIBUTE_OID.to_le_bytes());
            data[4..4 + name.len()].copy_from_slice(name.as_bytes());
            data[length_at..length_at + 2].copy_from_slice(&length.to_le_bytes());
            data[length_at + 2..length_at + 4].copy_from_slice(&i16::try_from(index + 1).unwrap().to_le_bytes());
            data
        };
        columns.iter().enumerate().map(row).collect()
    }

    fn layout(columns: &[(&str, i16)], length_at: usize) -> Option<AttributeLayout> {
        let rows = rows(columns, length_at);
        AttributeLayout::of(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn catalog_says_where_its_own_columns_stand() {
        let of_10 = AttributeLayout { length: 76, modifier: 88, alignment: 94, is_dropped: 98, has_missing: None };
        assert_eq!(layout(OF_10, 76), Some(of_10));
        let of_18 = AttributeLayout { length: 72, modifier: 76, alignment: 83, is_dropped: 91, has_missing: Some(88) };
        assert_eq!(layout(OF_18, 72), Some(of_18));
    }

    #[test]
    fn catalog_that_contradicts_itself_is_not_used() {
        assert_eq!(layout(&OF_10[..4], 76), None, "the row about attlen is missing");
        assert_eq!(layout(OF_10, 72), None, "lengths stand where the rows say that others do");
        let holed: Vec<_> = OF_18.iter().copied().filter(|(name, _)| *name != "attndims").collect();
        assert_ne!(layout(&holed, 72), layout(OF_18, 72));
    }

    proptest! {
        #[test]
        fn any_rows_never_panic(rows in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..150), 0..20)) {
            let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            let known = AttributeLayout { length: 72, modifier: 76, alignment: 83, is_dropped: 91, has_missing: Some(88) };
            prop_assert!(AttributeLayout::of(&rows).is_none_or(|layout| layout.length == 72 || layout.length == 76));
            for row in &rows {
                let decoded = AttributeRow::decode(&known, row);
                prop_assert!(decoded.is_none_or(|row| [1, 2, 4, 8].contains(&row.shape.alignment)));
            }
            let types = known.types(&rows);
            prop_assert!(types.is_none());
        }
    }
}
