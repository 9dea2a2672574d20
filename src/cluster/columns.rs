//! The columns of a relation, from the catalogs of a stopped data directory: names and types for values on its pages. A help to
//! the reader, never the base of a decision.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::catalog::Reader;
use super::data_dir::DataDir;
use super::names::{NameDoubt, RelationNames, Trust};
use crate::parsers::catalog::RelKind;
use crate::parsers::tuple::attribute::{
    AttributeLayout, AttributeRow, MAX_COLUMNS, PG_ATTRIBUTE_OID, PG_TYPE_OID, TypeLayout, TypeRow, relation_of,
};
use crate::parsers::tuple::columns::ColumnShape;
use crate::parsers::tuple::value::type_name;
use crate::types::{Oid, RelFileLocator};

/// Most rows of `pg_attribute` that are kept: those of the relation, and of the two catalogs.
const MAX_ROWS: usize = 8192;

/// Most columns of one database whose shape is kept.
const MAX_SHAPES: usize = 4_000_000;

/// Longest row that is kept, in bytes.
const MAX_ROW_BYTES: usize = 4096;

/// Domains over domains that are followed.
const MAX_DOMAINS: usize = 8;

/// A column of a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name; as stored, not escaped.
    pub name: String,
    /// Name of its type; `None` where the catalog does not have it, and of a column that was dropped.
    pub type_name: Option<String>,
    /// The type that values are decoded as: of a domain the type that it is over.
    pub type_oid: Oid,
    /// `atttypmod`.
    pub modifier: i32,
    /// Length and alignment of values.
    pub shape: ColumnShape,
    /// The column was dropped; old rows still have it.
    pub is_dropped: bool,
    /// Rows from before the column was added have a value of it that is in the catalog alone.
    pub has_missing: bool,
}

/// The columns of a relation, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelationColumns {
    /// From the first one on without a gap.
    pub columns: Vec<Column>,
    /// Why they may be wrong.
    pub doubt: Option<NameDoubt>,
}

impl RelationColumns {
    /// Lengths and alignments.
    pub fn shapes(&self) -> Vec<ColumnShape> {
        self.columns.iter().map(|column| column.shape).collect()
    }
}

/// Why the columns of a relation are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoColumns {
    /// The catalogs do not have the relation, or were not read.
    Unnamed,
    /// No `pg_attribute` of its database is known.
    NoCatalog,
    /// `pg_attribute` does not say where its own columns stand.
    NoLayout,
    /// `pg_attribute` has no usable row of the relation.
    NoRows,
}

impl NoColumns {
    /// Stable name for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Unnamed => "relation_unknown",
            Self::NoCatalog => "no_catalog",
            Self::NoLayout => "catalog_unreadable",
            Self::NoRows => "no_rows",
        }
    }
}

impl fmt::Display for NoColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unnamed => "the catalogs do not name this relation",
            Self::NoCatalog => "pg_attribute of its database was not found",
            Self::NoLayout => "the rows of pg_attribute about pg_attribute cannot be read",
            Self::NoRows => "pg_attribute has no usable row about this relation",
        })
    }
}

/// A row and its reliability.
struct Found {
    data: Vec<u8>,
    trust: Trust,
}

impl RelationColumns {
    /// Reads the columns of the relation that these files belong to. Reads `pg_attribute` of its database, and `pg_type` where a
    /// type is not one of those that every cluster has.
    ///
    /// # Errors
    /// When the catalogs do not tell.
    pub fn read(dir: &DataDir, names: &RelationNames, rel: RelFileLocator) -> Result<Self, NoColumns> {
        let name = names.get(rel).ok_or(NoColumns::Unnamed)?;
        let oid = name.oid.ok_or(NoColumns::Unnamed)?;
        // The columns of relations that all databases share are in each of them.
        let catalog = |catalog_oid: Oid| {
            let is_it = |(at, name): &(RelFileLocator, &super::names::RelationName)| {
                name.oid == Some(catalog_oid)
                    && name.kind == Some(RelKind::TABLE)
                    && (at.db_oid == rel.db_oid || rel.db_oid == 0)
            };
            names.iter().filter(is_it).map(|(at, _)| at).min()
        };
        let pg_attribute = catalog(PG_ATTRIBUTE_OID).ok_or(NoColumns::NoCatalog)?;
        let mut reader = Reader::new(dir, dir.major().facts().catalog, &mut Vec::new());
        let wanted =
            |data: &[u8]| relation_of(data).is_some_and(|of| of == oid || of == PG_ATTRIBUTE_OID || of == PG_TYPE_OID);
        let rows = kept_rows(&mut reader, pg_attribute, "pg_attribute", &wanted);
        let bytes: Vec<&[u8]> = rows.iter().map(|row| row.data.as_slice()).collect();
        let layout = AttributeLayout::of(&bytes).ok_or(NoColumns::NoLayout)?;
        let (attributes, doubt) = attributes_of(&layout, &rows, oid);
        if attributes.is_empty() {
            return Err(NoColumns::NoRows);
        }
        let types = layout.types(&bytes).zip(catalog(PG_TYPE_OID));
        let types = types.map_or_else(BTreeMap::new, |(layout, pg_type)| {
            further_types(&mut reader, (&layout, pg_type), &attributes)
        });
        let columns = attributes.iter().map(|row| column(row, &types)).collect();
        Ok(Self { columns, doubt: doubt.max(name.doubt) })
    }
}

/// Lengths and alignments of the columns of many relations, each from the first column on without a gap.
pub(crate) type Shapes = HashMap<RelFileLocator, Vec<ColumnShape>>;

/// Reads those of all certain tables, from the certain rows of `pg_attribute` of each database.
pub(crate) fn table_shapes(dir: &DataDir, names: &RelationNames) -> Shapes {
    let mut reader = Reader::new(dir, dir.major().facts().catalog, &mut Vec::new());
    let mut shapes = Shapes::new();
    let tables = || names.iter().filter(|(_, name)| name.is_heap && name.is_certain());
    let catalogs: BTreeMap<Oid, RelFileLocator> =
        tables().filter(|(_, name)| name.oid == Some(PG_ATTRIBUTE_OID)).map(|(rel, _)| (rel.db_oid, rel)).collect();
    // The columns of relations that all databases share are in each of them.
    let shared_in = catalogs.keys().next().copied();
    for (db_oid, pg_attribute) in catalogs {
        let of_itself = kept_rows(&mut reader, pg_attribute, "pg_attribute", &|data| {
            relation_of(data).is_some_and(|of| of == PG_ATTRIBUTE_OID)
        });
        let of_itself: Vec<&[u8]> = of_itself.iter().map(|row| row.data.as_slice()).collect();
        let Some(layout) = AttributeLayout::of(&of_itself) else { continue };
        let mut by_oid: HashMap<Oid, BTreeMap<u16, ColumnShape>> = HashMap::new();
        let mut room = MAX_SHAPES;
        reader.live_rows(pg_attribute, "pg_attribute", &mut Vec::new(), &mut |row, trust| {
            let decoded = AttributeRow::decode(&layout, row.header.user_data(row.tuple));
            let number = decoded.and_then(|row| u16::try_from(row.head.number).ok()).filter(|number| *number > 0);
            if let Some((row, number)) = decoded.zip(number).filter(|_| trust.doubt.is_none() && room > 0) {
                room = room.saturating_sub(1);
                by_oid.entry(row.head.rel_oid).or_default().insert(number, row.shape);
            }
            Ok(())
        });
        let is_here = |rel: RelFileLocator| rel.db_oid == db_oid || rel.db_oid == 0 && shared_in == Some(db_oid);
        for (rel, name) in tables().filter(|(rel, _)| is_here(*rel)) {
            let Some(columns) = name.oid.and_then(|oid| by_oid.get(&oid)) else { continue };
            let whole = columns.iter().zip(1_u16..).take_while(|((number, _), expected)| **number == *expected);
            shapes.insert(rel, whole.map(|((_, shape), _)| *shape).collect());
        }
    }
    shapes
}

/// The live rows of a catalog that are wanted.
fn kept_rows(
    reader: &mut Reader,
    catalog: RelFileLocator,
    called: &'static str,
    is_wanted: &dyn Fn(&[u8]) -> bool,
) -> Vec<Found> {
    let mut rows = Vec::new();
    // What cannot be read of it was reported with the names of relations; here it only leaves columns without names.
    reader.live_rows(catalog, called, &mut Vec::new(), &mut |row, trust| {
        let data = row.header.user_data(row.tuple);
        if data.len() <= MAX_ROW_BYTES && rows.len() < MAX_ROWS && is_wanted(data) {
            rows.push(Found { data: data.to_vec(), trust });
        }
        Ok(())
    });
    rows
}

/// The columns of the relation from the first one on, up to the first that has no row; and the worst doubt about a row.
fn attributes_of(layout: &AttributeLayout, rows: &[Found], oid: Oid) -> (Vec<AttributeRow>, Option<NameDoubt>) {
    let mut by_number: BTreeMap<u16, (Trust, AttributeRow)> = BTreeMap::new();
    for found in rows {
        let Some(row) = AttributeRow::decode(layout, &found.data).filter(|row| row.head.rel_oid == oid) else {
            continue;
        };
        let Some(number) = u16::try_from(row.head.number).ok().filter(|number| (1..=MAX_COLUMNS).contains(number))
        else {
            continue;
        };
        if by_number.get(&number).is_none_or(|(held, _)| found.trust.is_better_than(*held)) {
            by_number.insert(number, (found.trust, row));
        }
    }
    let in_order = by_number.into_iter().zip(1_u16..).take_while(|((number, _), expected)| number == expected);
    let mut doubt = None;
    let rows = in_order.map(|((_, (trust, row)), _)| {
        doubt = trust.doubt.max(doubt);
        row
    });
    let rows = rows.collect();
    (rows, doubt)
}

/// Rows of the types that not every cluster has, and of the types that domains are over.
fn further_types(
    reader: &mut Reader,
    (layout, pg_type): (&TypeLayout, RelFileLocator),
    attributes: &[AttributeRow],
) -> BTreeMap<Oid, TypeRow> {
    if attributes.iter().all(|row| row.head.type_oid == 0 || type_name(row.head.type_oid).is_some()) {
        return BTreeMap::new();
    }
    let mut found = BTreeMap::new();
    reader.live_rows(pg_type, "pg_type", &mut Vec::new(), &mut |row, _| {
        let data = row.header.user_data(row.tuple);
        if let Some(row) = TypeRow::decode(layout, data, row.header.row_oid(row.tuple)) {
            // Any type may be the base of a domain. Only those are kept that could be asked for.
            let is_asked = attributes.iter().any(|attribute| attribute.head.type_oid == row.oid);
            if found.len() < MAX_ROWS && (is_asked || row.kind == b'd') {
                found.insert(row.oid, row);
            }
        }
        Ok(())
    });
    found
}

fn column(row: &AttributeRow, types: &BTreeMap<Oid, TypeRow>) -> Column {
    let own = row.head.type_oid;
    let mut type_oid = own;
    for _ in 0..MAX_DOMAINS {
        match types.get(&type_oid).filter(|row| row.kind == b'd' && row.base_oid > 0) {
            Some(domain) => type_oid = domain.base_oid,
            None => break,
        }
    }
    // An array type is called like its elements, with a line in front.
    let named = |row: &TypeRow| match row.name.text().strip_prefix('_').filter(|_| row.element_oid > 0) {
        Some(element) => format!("{element}[]"),
        None => row.name.text(),
    };
    Column {
        name: row.head.name.text(),
        type_name: type_name(own).or_else(|| types.get(&own).map(named)).filter(|_| !row.is_dropped),
        type_oid,
        modifier: row.modifier,
        shape: row.shape,
        is_dropped: row.is_dropped,
        has_missing: row.has_missing,
    }
}
