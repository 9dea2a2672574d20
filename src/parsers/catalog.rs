//! Rows of the four catalogs that name relations: the columns up to the last one needed have a fixed width and are
//! never null, so each stands at a fixed offset of the user data.

use nom::Parser;
use nom::error::context;

use super::decode::{ParseError, ParseErrorKind, ParseStep, decode_at, le_u8, le_u32, take};
use super::heap::TupleHeader;
use crate::types::{Lsn, Oid};

/// OID of `pg_tablespace`, a shared catalog. Source: `src/include/catalog/pg_tablespace.h`.
pub(crate) const PG_TABLESPACE_OID: Oid = 1213;

/// OID of `pg_class`. Source: `src/include/catalog/pg_class.h`.
pub(crate) const PG_CLASS_OID: Oid = 1259;

/// OID of `pg_database`, a shared catalog. Source: `src/include/catalog/pg_database.h`.
pub(crate) const PG_DATABASE_OID: Oid = 1262;

/// OID of `pg_namespace`. Source: `src/include/catalog/pg_namespace.h`.
pub(crate) const PG_NAMESPACE_OID: Oid = 2615;

/// OID of `pg_index`. Source: `src/include/catalog/pg_index.h`.
pub(crate) const PG_INDEX_OID: Oid = 2610;

/// Lowest OID that is given out after `initdb`.
///
/// Source: `FirstNormalObjectId`, `src/include/access/transam.h`.
pub(crate) const FIRST_NORMAL_OID: Oid = 16_384;

/// Bytes of a column of type `name`, padded with zero bytes.
///
/// Source: `NAMEDATALEN`, `src/include/pg_config_manual.h`.
pub(crate) const NAME_SIZE: usize = 64;

/// Where the columns stand in the user data of a row, in bytes; it differs between majors.
///
/// | column                      | 10–11         | 12–17          | 18–19devel |
/// |-----------------------------|---------------|----------------|------------|
/// | `oid`, all four             | tuple header  | 0..4           | 0..4       |
/// | the name, all four          | 0..64         | 4..68          | 4..68      |
/// | `pg_class.relnamespace`     | 64..68        | 68..72         | 68..72     |
/// | `pg_class.relam`            | 80..84        | 84..88         | 84..88     |
/// | `pg_class.relfilenode`      | 84..88        | 88..92         | 88..92     |
/// | `pg_class.reltablespace`    | 88..92        | 92..96         | 92..96     |
/// | `pg_class.relpages`        | 92..96        | 96..100        | 96..100    |
/// | `pg_class.relallvisible`   | 100..104      | 104..108       | 104..108   |
/// | `pg_class.reltoastrelid`    | 104..108      | 108..112       | 112..116   |
/// | `pg_class.relisshared`      | 109           | 113            | 117        |
/// | `pg_class.relpersistence`   | 110           | 114            | 118        |
/// | `pg_class.relkind`          | 111           | 115            | 119        |
/// | `pg_class.relfrozenxid`     | 128; 132 in 11 | 132           | 136        |
/// | `pg_class.relminmxid`       | 132; 136 in 11 | 136           | 140        |
/// | `pg_index.indisready`      | 17; 19 in 11   | 12–14 19; since 15 20 ||
/// | `pg_database.dattablespace` | 220..224      | 12–14 224..228; since 15 92..96 ||
///
/// Source: `src/include/catalog/{pg_class,pg_namespace,pg_database,pg_tablespace,pg_index}.h` of each major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogLayout {
    /// The OID stands in the tuple header, not in a column.
    oid_in_header: bool,
    name: usize,
    namespace: usize,
    filenode: usize,
    tablespace: usize,
    is_shared: usize,
    frozen_xid: usize,
    database_tablespace: usize,
    index_ready: usize,
    /// Counts of pages in `pg_class` are what the server counted, not what a dump of another cluster brought along.
    ///
    /// Source: `pg_restore_relation_stats`, `src/backend/statistics/relation_stats.c`.
    has_own_counts: bool,
}

const fn to_11(frozen_xid: usize, index_ready: usize) -> CatalogLayout {
    CatalogLayout {
        oid_in_header: true,
        name: 0,
        namespace: 64,
        filenode: 84,
        tablespace: 88,
        is_shared: 109,
        frozen_xid,
        database_tablespace: 220,
        index_ready,
        has_own_counts: true,
    }
}

const fn since_12(is_shared: usize, database_tablespace: usize, index_ready: usize) -> CatalogLayout {
    CatalogLayout {
        oid_in_header: false,
        name: 4,
        namespace: 68,
        filenode: 88,
        tablespace: 92,
        is_shared,
        // Nine flags, two counts and `relrewrite` stand between.
        frozen_xid: is_shared.saturating_add(19),
        database_tablespace,
        index_ready,
        has_own_counts: true,
    }
}

/// Rows of major 10.
pub(crate) static IN_10: CatalogLayout = to_11(128, 17);

/// Rows of major 11.
pub(crate) static IN_11: CatalogLayout = to_11(132, 19);

/// Rows of majors 12 to 14.
pub(crate) static TO_14: CatalogLayout = since_12(113, 224, 19);

/// Rows of majors 15 to 17.
pub(crate) static TO_17: CatalogLayout = since_12(113, 92, 20);

/// Rows of majors from 18 on.
pub(crate) static SINCE_18: CatalogLayout = CatalogLayout { has_own_counts: false, ..since_12(117, 92, 20) };

impl CatalogLayout {
    fn oid(&self, row: &RowBytes<'_>) -> Result<Oid, ParseError> {
        if !self.oid_in_header {
            return row.u32_at("oid", 0);
        }
        row.header.row_oid(row.tuple).ok_or_else(|| {
            let found = u64::from(row.header.infomask);
            let kind = ParseErrorKind::Invalid { found, expected: "expected a row with an OID (bit 0x0008)" };
            ParseError { structure: row.catalog, field: "t_infomask", offset: row.base.saturating_add(20), kind }
        })
    }
}

/// A sane tuple of a catalog, with what is needed to say where it was.
#[derive(Clone, Copy, Debug)]
pub struct RowBytes<'a> {
    /// The server's name of the catalog, for error messages.
    pub catalog: &'static str,
    /// Offset of the tuple in its file, for error messages.
    pub base: u64,
    /// The tuple, header included.
    pub tuple: &'a [u8],
    /// Its decoded header.
    pub header: TupleHeader,
    /// LSN of its page.
    pub page_lsn: Lsn,
}

impl<'a> RowBytes<'a> {
    fn field<T>(
        &self,
        field: &'static str,
        at: usize,
        parser: impl FnMut(&'a [u8]) -> ParseStep<'a, T>,
    ) -> Result<T, ParseError> {
        let data = self.header.user_data(self.tuple);
        let bytes = data.get(at..).unwrap_or_default();
        let start = usize::from(self.header.data_offset).saturating_add(at.min(data.len()));
        let base = self.base.saturating_add(u64::try_from(start).unwrap_or(u64::MAX));
        let mut parser = context(field, parser);
        decode_at(self.catalog, base, bytes, |i| parser.parse(i))
    }

    fn u32_at(&self, field: &'static str, at: usize) -> Result<u32, ParseError> {
        self.field(field, at, le_u32)
    }

    fn u8_at(&self, field: &'static str, at: usize) -> Result<u8, ParseError> {
        self.field(field, at, le_u8)
    }

    fn name_at(&self, field: &'static str, at: usize) -> Result<Name, ParseError> {
        let bytes = self.field(field, at, take(NAME_SIZE))?;
        Ok(Name(bytes.try_into().unwrap_or([0; NAME_SIZE])))
    }
}

/// A value of type `name`: 64 bytes in the encoding of its database, padded with zero bytes.
///
/// Source: `NameData`, `src/include/c.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(pub [u8; NAME_SIZE]);

impl Name {
    /// The bytes before the padding.
    pub fn bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The name as text; bytes that are not UTF-8 become U+FFFD. Not escaped for a terminal.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// Kind of a relation; unknown codes are kept.
///
/// Source: `RELKIND_RELATION` and its neighbours, `src/include/catalog/pg_class.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelKind(pub u8);

impl RelKind {
    /// Ordinary table.
    pub const TABLE: Self = Self(b'r');
    /// Index.
    pub const INDEX: Self = Self(b'i');
    pub(crate) const SEQUENCE: Self = Self(b'S');
    pub(crate) const TOAST: Self = Self(b't');
    pub(crate) const MATERIALIZED_VIEW: Self = Self(b'm');

    /// The server's words, or `None` for a code without a meaning.
    pub const fn name(self) -> Option<&'static str> {
        match self.0 {
            b'r' => Some("table"),
            b'i' => Some("index"),
            b'S' => Some("sequence"),
            b't' => Some("toast table"),
            b'm' => Some("materialized view"),
            b'v' => Some("view"),
            b'c' => Some("composite type"),
            b'f' => Some("foreign table"),
            b'p' => Some("partitioned table"),
            b'I' => Some("partitioned index"),
            _ => None,
        }
    }

    /// False for the kinds that never have files. Majors 10 and 11 still give views a file number.
    pub(crate) const fn may_have_storage(self) -> bool {
        !matches!(self.0, b'v' | b'c' | b'f' | b'p' | b'I')
    }
}

impl std::fmt::Display for RelKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "unrecognised kind {:#04x}", self.0),
        }
    }
}

/// How long a relation lives and whether it is logged.
///
/// Source: `RELPERSISTENCE_PERMANENT` and its neighbours, `src/include/catalog/pg_class.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Persistence {
    /// `p`.
    Permanent,
    /// `u`: not in WAL, emptied after a crash.
    Unlogged,
    /// `t`: its files are named `t<N>_<number>`.
    Temporary,
    /// A code without a meaning.
    Other(u8),
}

impl Persistence {
    /// Reads the code.
    pub const fn from_code(code: u8) -> Self {
        match code {
            b'p' => Self::Permanent,
            b'u' => Self::Unlogged,
            b't' => Self::Temporary,
            other => Self::Other(other),
        }
    }

    /// The code on disk.
    pub const fn code(self) -> u8 {
        match self {
            Self::Permanent => b'p',
            Self::Unlogged => b'u',
            Self::Temporary => b't',
            Self::Other(code) => code,
        }
    }
}

impl std::fmt::Display for Persistence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Permanent => f.pad("permanent"),
            Self::Unlogged => f.pad("unlogged"),
            Self::Temporary => f.pad("temporary"),
            Self::Other(code) => write!(f, "unrecognised persistence {code:#04x}"),
        }
    }
}

/// A row of `pg_class`. Offsets: [`CatalogLayout`].
///
/// Source: `FormData_pg_class`, `src/include/catalog/pg_class.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassRow {
    /// OID of the relation.
    pub oid: Oid,
    /// Its name.
    pub name: Name,
    /// OID of its schema.
    pub namespace_oid: Oid,
    /// Access method; 0 if it has none, and for tables before 12.
    pub access_method_oid: Oid,
    /// OID of its TOAST table; 0 if it has none.
    pub toast_oid: Oid,
    /// File number; 0 for relations without storage and for mapped catalogs.
    pub filenode: u32,
    /// Tablespace; 0 means that of the database.
    pub spc_oid: Oid,
    /// Shared between databases.
    pub is_shared: bool,
    /// Permanent, unlogged or temporary.
    pub persistence: Persistence,
    /// Kind.
    pub kind: RelKind,
    /// Transactions before this one are no longer named by rows; 0 where that means nothing.
    pub frozen_xid: u32,
    /// `relminmxid`.
    pub min_multi: u32,
    /// Pages that the server counted when it counted some of them in the visibility map, too; 0 where it did not, and for relations
    /// whose row is not the only one that tells: shared and mapped ones.
    pub mapped_pages: u32,
}

impl ClassRow {
    /// Decodes without judging.
    ///
    /// # Errors
    /// `Truncated` when the row is too short; `Invalid` when majors 10 and 11 lack the OID.
    pub fn decode(layout: &CatalogLayout, row: &RowBytes<'_>) -> Result<Self, ParseError> {
        // Persistence and kind follow the flag byte by byte.
        let after_shared = |bytes: usize| layout.is_shared.saturating_add(bytes);
        // The counts follow the tablespace.
        let pages = row.u32_at("relpages", layout.tablespace.saturating_add(4))?;
        let all_visible = row.u32_at("relallvisible", layout.tablespace.saturating_add(12))?;
        let filenode = row.u32_at("relfilenode", layout.filenode)?;
        let is_shared = row.u8_at("relisshared", layout.is_shared)? != 0;
        let has_count = layout.has_own_counts && all_visible > 0 && filenode > 0 && !is_shared;
        Ok(Self {
            oid: layout.oid(row)?,
            name: row.name_at("relname", layout.name)?,
            namespace_oid: row.u32_at("relnamespace", layout.namespace)?,
            // Access method and file number stand side by side, and so do TOAST table, `relhasindex` and the flag.
            access_method_oid: row.u32_at("relam", layout.filenode.saturating_sub(4))?,
            toast_oid: row.u32_at("reltoastrelid", layout.is_shared.saturating_sub(5))?,
            filenode,
            spc_oid: row.u32_at("reltablespace", layout.tablespace)?,
            is_shared,
            persistence: Persistence::from_code(row.u8_at("relpersistence", after_shared(1))?),
            kind: RelKind(row.u8_at("relkind", after_shared(2))?),
            frozen_xid: row.u32_at("relfrozenxid", layout.frozen_xid)?,
            min_multi: row.u32_at("relminmxid", layout.frozen_xid.saturating_add(4))?,
            mapped_pages: if has_count { pages } else { 0 },
        })
    }
}

/// A row of `pg_namespace` or `pg_tablespace`. Offsets: [`CatalogLayout`].
///
/// Source: `FormData_pg_namespace`, `src/include/catalog/pg_namespace.h`; `FormData_pg_tablespace`,
/// `src/include/catalog/pg_tablespace.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedRow {
    /// OID of the schema or tablespace.
    pub oid: Oid,
    /// Its name.
    pub name: Name,
}

impl NamedRow {
    /// Decodes without judging.
    ///
    /// # Errors
    /// `Truncated` when the row is too short; `Invalid` when majors 10 and 11 lack the OID.
    pub fn decode(layout: &CatalogLayout, row: &RowBytes<'_>) -> Result<Self, ParseError> {
        Ok(Self { oid: layout.oid(row)?, name: row.name_at("name", layout.name)? })
    }
}

/// A row of `pg_index`: bytes 0..4 `indexrelid`, 4..8 `indrelid`; the flag as [`CatalogLayout`] says.
///
/// Source: `FormData_pg_index`, `src/include/catalog/pg_index.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexRow {
    pub index_oid: Oid,
    pub table_oid: Oid,
    /// The server writes to it. One that is not was never filled, or is about to be dropped: no server reads its pages.
    ///
    /// Source: `index_set_state_flags`, `src/backend/catalog/index.c`; `vac_open_indexes`, `src/backend/commands/vacuum.c`.
    pub is_ready: bool,
}

impl IndexRow {
    /// Decodes without judging.
    ///
    /// # Errors
    /// `Truncated` when the row is too short.
    pub fn decode(layout: &CatalogLayout, row: &RowBytes<'_>) -> Result<Self, ParseError> {
        let is_ready = row.u8_at("indisready", layout.index_ready)? != 0;
        Ok(Self { index_oid: row.u32_at("indexrelid", 0)?, table_oid: row.u32_at("indrelid", 4)?, is_ready })
    }
}

/// A row of `pg_database`. Offsets: [`CatalogLayout`].
///
/// Source: `FormData_pg_database`, `src/include/catalog/pg_database.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseRow {
    /// OID of the database.
    pub oid: Oid,
    /// Its name.
    pub name: Name,
    /// Tablespace of its catalogs, and of relations that name none.
    pub spc_oid: Oid,
}

impl DatabaseRow {
    /// Decodes without judging.
    ///
    /// # Errors
    /// `Truncated` when the row is too short; `Invalid` when majors 10 and 11 lack the OID.
    pub fn decode(layout: &CatalogLayout, row: &RowBytes<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            oid: layout.oid(row)?,
            name: row.name_at("datname", layout.name)?,
            spc_oid: row.u32_at("dattablespace", layout.database_tablespace)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parsers::wal::version::Major;

    fn row(tuple: &[u8]) -> RowBytes<'_> {
        RowBytes {
            catalog: "pg_class",
            base: 0x4000,
            tuple,
            header: TupleHeader::decode(0, tuple).unwrap(),
            page_lsn: Lsn(0),
        }
    }

    fn tuple(data_offset: u8, infomask: u16, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        bytes[20..22].copy_from_slice(&infomask.to_le_bytes());
        bytes[22] = data_offset;
        bytes
    }

    #[test]
    fn row_of_pg_class_in_18() {
        let mut bytes = tuple(32, 0, 32 + 144);
        bytes[32..36].copy_from_slice(&16_384_u32.to_le_bytes());
        bytes[36..41].copy_from_slice(b"t\xC3\xA9\xFF\0");
        bytes[32 + 88..32 + 92].copy_from_slice(&16_390_u32.to_le_bytes());
        bytes[32 + 117..32 + 120].copy_from_slice(b"\x01ui");
        bytes[32 + 136..32 + 140].copy_from_slice(&731_u32.to_le_bytes());
        bytes[32 + 96..32 + 100].copy_from_slice(&1000_u32.to_le_bytes());
        bytes[32 + 104..32 + 108].copy_from_slice(&7_u32.to_le_bytes());
        let decoded = ClassRow::decode(&SINCE_18, &row(&bytes)).unwrap();
        assert_eq!((decoded.oid, decoded.filenode, decoded.is_shared), (16_384, 16_390, true));
        assert_eq!((decoded.persistence, decoded.kind.to_string().as_str()), (Persistence::Unlogged, "index"));
        assert_eq!(decoded.name.text(), "t\u{e9}\u{fffd}");
        assert_eq!(decoded.frozen_xid, 731);
        assert_eq!(decoded.mapped_pages, 0, "a dump may have brought the counts");
        let counted = |bytes: &[u8]| ClassRow::decode(&TO_17, &row(bytes)).unwrap().mapped_pages;
        assert_eq!(counted(&bytes), 1000);
        bytes[32 + 104] = 0;
        assert_eq!(counted(&bytes), 0, "none in the map");
    }

    #[test]
    fn oid_of_majors_10_and_11_is_in_the_header() {
        let mut bytes = tuple(32, 0x0008, 32 + 112);
        bytes[28..32].copy_from_slice(&16_384_u32.to_le_bytes());
        bytes[32] = b't';
        let layout = &IN_11;
        let decoded = NamedRow::decode(layout, &row(&bytes)).unwrap();
        assert_eq!((decoded.oid, decoded.name.text().as_str()), (16_384, "t"));
        bytes[20] = 0;
        let error = NamedRow::decode(layout, &row(&bytes)).unwrap_err();
        assert_eq!((error.offset, error.field), (0x4000 + 20, "t_infomask"));
    }

    #[test]
    fn every_truncation_is_an_error_inside_the_input() {
        for major in Major::ALL {
            let layout = major.facts().catalog;
            for length in 32..32 + 112 {
                let bytes = tuple(32, 0x0008, length);
                let errors = [
                    (length < 32 + layout.is_shared + 3).then(|| ClassRow::decode(layout, &row(&bytes)).unwrap_err()),
                    (length < 32 + layout.name + 64).then(|| NamedRow::decode(layout, &row(&bytes)).unwrap_err()),
                ];
                for error in errors.into_iter().flatten() {
                    assert!(error.offset >= 0x4000 && error.offset <= 0x4000 + length as u64, "{major}: {error}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 23..400), major in prop::sample::select(Major::ALL.to_vec())) {
            let layout = major.facts().catalog;
            let row = row(&bytes);
            for error in [
                ClassRow::decode(layout, &row).err(),
                NamedRow::decode(layout, &row).err(),
                DatabaseRow::decode(layout, &row).err(),
            ].into_iter().flatten() {
                prop_assert!(error.offset <= 0x4000 + 255 + 400);
            }
        }
    }
}
