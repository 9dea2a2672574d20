//! Where columns of system catalogs stand in each major: what the catalogs of a damaged cluster may no longer tell themselves.

use crate::parsers::wal::version::Major;

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
