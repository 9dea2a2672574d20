//! The catalogs of a fresh cluster, with the relations of the damaged one: nothing of it runs, and no row of it is read unchecked.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::catalogs::{Catalogs, KnownColumn, PG_AUTHID_OID, PG_ENUM_OID, RawRow, Relation};
use super::fit::fit;
use super::layout::Offsets;
use super::pages::HeapWriter;
use super::templates::{NewRow, PG_PROC_OID, Templates, raw, set};
use crate::cluster::open::AccessError;
use crate::parsers::catalog::{FIRST_NORMAL_OID, PG_CLASS_OID, PG_INDEX_OID, PG_NAMESPACE_OID};
use crate::parsers::decode::u32_at;
use crate::parsers::tuple::attribute::{PG_ATTRIBUTE_OID, PG_TYPE_OID};
use crate::parsers::tuple::columns::ColumnShape;
use crate::rebuild::sandbox::SandboxRun;
use crate::types::Oid;

/// Catalogs, except those of types, whose rows are copied unchanged.
const PG_RANGE_OID: Oid = 3541;
const PG_COLLATION_OID: Oid = 3456;

/// Catalogs of which the server only prints text: expressions, constraints, indexes.
const PG_ATTRDEF_OID: Oid = 2604;
const PG_CONSTRAINT_OID: Oid = 2606;

/// Languages of functions: built in, and C.
const INTERNAL: u32 = 12;
const LANGUAGE_C: u32 = 13;

/// `bytea`, as which values of a lost type are printed.
const BYTEA: Oid = 17;

/// Types whose values are printed as names: of functions, operators, relations, types, schemas and the like; and of roles.
const REG_TYPES: [Oid; 10] = [24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4191];
const REG_ROLE: Oid = 4096;

/// Schema `public`.
const PUBLIC: Oid = 2200;

/// OIDs that the sandbox gives out go down from here.
const FIRST_MADE_OID: Oid = 4_200_000_000;

/// What is written into the catalogs of the sandbox.
pub(crate) struct Transplant<'a> {
    templates: &'a Templates,
    catalogs: &'a Catalogs,
    offsets: Offsets,
    rows: BTreeMap<Oid, Vec<Vec<u8>>>,
    types: HashSet<Oid>,
    used: HashSet<Oid>,
    made: Oid,
    names: HashSet<(Oid, Vec<u8>)>,
    /// Roles of the damaged cluster are known.
    has_roles: bool,
}

/// The library of a function in C, below `$libdir`; `None` when it is another one.
pub(crate) fn library(probin: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(probin).ok()?.strip_prefix("$libdir/")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (!name.is_empty() && name.bytes().all(is_plain)).then(|| name.to_owned())
}

/// Libraries that functions of the damaged cluster need to print values.
pub(crate) fn libraries(templates: &Templates, catalogs: &Catalogs) -> HashSet<String> {
    let rows = catalogs.rows.get(&PG_PROC_OID).into_iter().flatten();
    rows.filter(|row| prints(templates, row))
        .filter_map(|row| library(templates.column(PG_PROC_OID, row, b"probin")?))
        .collect()
}

/// A function in C that prints values, by its name.
fn prints(templates: &Templates, row: &RawRow) -> bool {
    let shapes = templates.shapes(PG_PROC_OID);
    let source = || templates.column(PG_PROC_OID, row, b"prosrc");
    fit(&row.header, &row.tuple, &shapes).is_some()
        && templates.number(PG_PROC_OID, row, b"prolang") == Some(LANGUAGE_C)
        && source().is_some_and(|source| source.to_ascii_lowercase().ends_with(b"out"))
}

impl<'a> Transplant<'a> {
    /// Takes over types and what they need. `loaded`: libraries that the server has.
    pub fn new(templates: &'a Templates, catalogs: &'a Catalogs, offsets: Offsets, loaded: &HashSet<String>) -> Self {
        let mut transplant = Self {
            templates,
            catalogs,
            offsets,
            rows: BTreeMap::new(),
            types: templates.types.clone(),
            used: catalogs.relations.keys().copied().collect(),
            made: FIRST_MADE_OID,
            names: HashSet::new(),
            has_roles: !catalogs.roles.is_empty(),
        };
        for catalog in
            [PG_NAMESPACE_OID, PG_ENUM_OID, PG_COLLATION_OID, PG_ATTRDEF_OID, PG_CONSTRAINT_OID, PG_INDEX_OID]
        {
            transplant.take_all(catalog);
        }
        for (oid, name) in &catalogs.lost_schemas {
            templates.schema(*oid, name).into_iter().for_each(|row| transplant.put(row));
        }
        for label in &catalogs.lost_labels {
            transplant.put(templates.label(label));
        }
        let printers = transplant.take_functions(loaded);
        transplant.take_types(&printers);
        transplant.take_ranges();
        while transplant.drop_types_of_lost_ones() {}
        transplant
    }

    /// Types that are made of others print right only with these: elements, bases of domains, columns. True when one was dropped.
    fn drop_types_of_lost_ones(&mut self) -> bool {
        let mut is_any = false;
        for row in self.fitting(PG_TYPE_OID) {
            let oid = self.oid_of(row);
            let part = |name: &[u8]| self.templates.number(PG_TYPE_OID, row, name).unwrap_or_default();
            let is_known = |oid: Oid| oid == 0 || self.types.contains(&oid);
            let has_columns = match part(b"typrelid") {
                0 => true,
                rel => self.catalogs.relations.get(&rel).is_some_and(|relation| self.is_printable(relation)),
            };
            let is_whole = has_columns && is_known(part(b"typelem")) && is_known(part(b"typbasetype"));
            is_any |= !is_whole && self.types.remove(&oid);
        }
        is_any
    }

    fn is_printable(&self, relation: &Relation) -> bool {
        let is_known = |known: &KnownColumn| known.is_dropped || self.types.contains(&known.type_oid);
        relation.lost_columns().is_some_and(|lost| lost.is_empty())
            && relation.columns.values().all(|column| column.known.as_ref().is_some_and(is_known))
    }

    fn fitting(&self, catalog: Oid) -> Vec<&'a RawRow> {
        let shapes = self.templates.shapes(catalog);
        let rows = self.catalogs.rows.get(&catalog).into_iter().flatten();
        let has_all_inside = |row: &&RawRow| {
            fit(&row.header, &row.tuple, &shapes).is_some_and(|spans| spans.iter().all(|span| span.external.is_none()))
        };
        rows.filter(has_all_inside).collect()
    }

    fn put(&mut self, (catalog, tuple): NewRow) {
        self.rows.entry(catalog).or_default().push(tuple);
    }

    fn take_all(&mut self, catalog: Oid) {
        for row in self.fitting(catalog) {
            // Indexes of TOAST tables are created again.
            let table = u32_at(row.data(), 4).and_then(|table| self.catalogs.relations.get(&table));
            if catalog != PG_INDEX_OID || table.is_some_and(Relation::has_rows) {
                self.put((catalog, row.tuple.clone()));
            }
        }
    }

    fn oid_of(&self, row: &RawRow) -> Oid {
        let oid = if self.offsets.oid_in_header { row.header.row_oid(&row.tuple) } else { u32_at(row.data(), 0) };
        oid.unwrap_or_default()
    }

    /// Functions that print values: in C from a library of the server, or built in under another name.
    fn take_functions(&mut self, loaded: &HashSet<String>) -> HashSet<Oid> {
        let templates = self.templates;
        let built_in: HashSet<&[u8]> = templates.outputs.values().map(Vec::as_slice).collect();
        let mut printers: HashSet<Oid> = templates.outputs.keys().copied().collect();
        for row in self.fitting(PG_PROC_OID) {
            let column = |name: &[u8]| templates.column(PG_PROC_OID, row, name);
            let is_loaded = || column(b"probin").and_then(library).is_some_and(|library| loaded.contains(&library));
            let is_taken = match templates.number(PG_PROC_OID, row, b"prolang") {
                Some(INTERNAL) => column(b"prosrc").is_some_and(|source| built_in.contains(source)),
                _ => prints(templates, row) && is_loaded(),
            };
            if is_taken {
                printers.insert(self.oid_of(row));
            }
            // Of the others only names are printed: nothing that is taken over calls them.
            self.put((PG_PROC_OID, row.tuple.clone()));
        }
        printers
    }

    /// Types whose values one of these functions prints. An enum without labels prints nothing, nor does a range without its row.
    fn take_types(&mut self, printers: &HashSet<Oid>) {
        let labels = self
            .fitting(PG_ENUM_OID)
            .into_iter()
            .filter_map(|row| self.templates.number(PG_ENUM_OID, row, b"enumtypid"));
        let labelled: HashSet<Oid> =
            labels.chain(self.catalogs.lost_labels.iter().map(|label| label.type_oid)).collect();
        let ranges: HashSet<Oid> = self
            .fitting(PG_RANGE_OID)
            .into_iter()
            .flat_map(|row| [0, 8].into_iter().filter_map(|at| u32_at(row.data(), at)))
            .collect();
        for row in self.fitting(PG_TYPE_OID) {
            let output = self.templates.number(PG_TYPE_OID, row, b"typoutput");
            let has_parts = match row.data().get(self.offsets.type_kind) {
                Some(b'e') => labelled.contains(&self.oid_of(row)),
                Some(b'r' | b'm') => ranges.contains(&self.oid_of(row)),
                _ => true,
            };
            if has_parts && output.is_some_and(|output| printers.contains(&output)) {
                self.types.insert(self.oid_of(row));
                self.put((PG_TYPE_OID, row.tuple.clone()));
            }
        }
    }

    /// Ranges, without the functions of the user that compare them.
    fn take_ranges(&mut self) {
        for row in self.fitting(PG_RANGE_OID) {
            let mut row = row.clone();
            let at = row.data().len().saturating_sub(8);
            set(&mut row, at, &[0; 8]);
            self.put((PG_RANGE_OID, row.tuple));
        }
    }

    /// An OID that nothing has.
    pub fn make_oid(&mut self) -> Oid {
        loop {
            self.made = self.made.saturating_sub(1);
            if self.used.insert(self.made) {
                return self.made;
            }
        }
    }

    /// What a column is printed as, and whether that is a guess; `None` when a value of its length cannot be printed.
    pub fn printed(&self, known: &KnownColumn) -> Option<(KnownColumn, bool)> {
        if known.is_dropped || self.types.contains(&known.type_oid) {
            return Some((*known, false));
        }
        let type_oid = match (known.shape.length, known.shape.alignment) {
            (-1, _) => BYTEA,
            (1, 1) => 18,
            (2, 2) => 21,
            (4, 4) => 26,
            (8, 8) => 20,
            (16, 1) => 2950,
            (6, _) => 829,
            (64, 1) => 19,
            _ => return None,
        };
        Some((
            KnownColumn { type_oid, modifier: -1, by_value: matches!(known.shape.length, 1 | 2 | 4 | 8), ..*known },
            true,
        ))
    }

    /// A table of this OID with the columns of a relation. True when a type is a guess; `None` when it cannot be printed.
    pub fn add_table(&mut self, relation: &Relation, oid: Oid) -> Option<bool> {
        let is_own = relation.oid == oid;
        let schema =
            if self.catalogs.schemas.contains_key(&relation.schema_oid) { relation.schema_oid } else { PUBLIC };
        let mut name = if is_own { relation.name.clone() } else { format!("salvage_{oid}").into_bytes() };
        if !self.names.insert((schema, name.clone())) {
            name = format!("salvage_{oid}").into_bytes();
        }
        let type_oid = if is_own { relation.type_oid } else { 0 };
        let count = u16::try_from(relation.columns.len()).ok()?;
        let mut rows = vec![self.templates.class(oid, &name, schema, type_oid, count, relation.has_rows())?];
        let mut is_guessed = relation.is_guessed() || self.prints_lost_names(relation);
        for (number, column) in &relation.columns {
            let (known, guessed) = self.printed(column.known.as_ref()?)?;
            is_guessed |= guessed;
            rows.push(self.templates.attribute(oid, *number, &column.name, column.row.as_deref(), &known)?);
        }
        rows.extend(self.templates.system_attributes(oid));
        rows.into_iter().for_each(|row| self.put(row));
        Some(is_guessed)
    }

    /// Values of some types are printed as names of other objects, and of those that are lost as numbers.
    fn prints_lost_names(&self, relation: &Relation) -> bool {
        let rows = self.catalogs.rows.get(&PG_TYPE_OID).into_iter().flatten().map(|row| self.oid_of(row));
        let is_lost = rows.chain(self.catalogs.lost_types.keys().copied()).any(|oid| !self.types.contains(&oid));
        let is_name = |known: &KnownColumn| {
            REG_ROLE == known.type_oid && !self.has_roles || is_lost && REG_TYPES.contains(&known.type_oid)
        };
        relation.columns.values().any(|column| column.known.as_ref().is_some_and(is_name))
    }

    /// A relation without rows of its own: its name, and the columns of composite types.
    pub fn add_name(&mut self, relation: &Relation) {
        if self.add_table(relation, relation.oid).is_none() {
            let schema = relation.schema_oid;
            let row = self.templates.class(relation.oid, &relation.name, schema, relation.type_oid, 0, false);
            row.into_iter().for_each(|row| self.put(row));
        }
    }

    /// An index as it stands: no table of the sandbox has one, so that only its text is printed.
    pub fn add_index(&mut self, relation: &Relation) {
        let shapes = [PG_CLASS_OID, PG_ATTRIBUTE_OID].map(|catalog| self.templates.shapes(catalog));
        let class = relation.row.as_ref().map(|row| (PG_CLASS_OID, row));
        let columns = relation.columns.values().filter_map(|column| Some((PG_ATTRIBUTE_OID, column.row.as_ref()?)));
        for ((catalog, row), shapes) in
            class.into_iter().chain(columns).map(|row| (row, &shapes[usize::from(row.0 == PG_ATTRIBUTE_OID)]))
        {
            let is_fit = raw(row).is_some_and(|row| {
                fit(&row.header, &row.tuple, shapes)
                    .is_some_and(|spans| spans.iter().all(|span| span.external.is_none()))
            });
            if is_fit {
                self.put((catalog, row.clone()));
            }
        }
    }

    /// A TOAST table, with an index that is yet to be built. Returns the index.
    pub fn add_toast(&mut self, toast_oid: Oid) -> Option<Oid> {
        let index = self.make_oid();
        let rows = self.templates.toast(toast_oid, index)?;
        rows.into_iter().for_each(|row| self.put(row));
        Some(index)
    }

    /// Writes the catalogs of the sandbox. `roles`: the file of `pg_authid`.
    pub fn write(self, run: &SandboxRun, directory: &Path, roles: &Path, block_size: usize) -> Result<(), AccessError> {
        let mut writer = HeapWriter::append(run, roles, block_size)?;
        let shapes = self.templates.shapes(PG_AUTHID_OID);
        for row in self.catalogs.roles.iter().filter(|row| fit(&row.header, &row.tuple, &shapes).is_some()) {
            if self.oid_of(row) >= FIRST_NORMAL_OID {
                writer.add(&row.tuple)?;
            }
        }
        writer.finish()?;
        for (catalog, rows) in self.rows {
            let Some(number) = self.templates.files.get(&catalog) else { continue };
            let mut writer = HeapWriter::append(run, &relation_file(directory, *number), block_size)?;
            for row in rows {
                if let Some(row) = raw(&row) {
                    writer.add(&row.tuple)?;
                }
            }
            writer.finish()?;
        }
        Ok(())
    }
}

/// File of a relation in the directory of the database.
pub(crate) fn relation_file(directory: &Path, number: u32) -> PathBuf {
    directory.join(number.to_string())
}

/// Shapes by which rows of a relation are read; guesses do not change them.
pub(crate) fn shapes_of(relation: &Relation) -> Option<Vec<ColumnShape>> {
    relation.shapes().filter(|shapes| shapes.len() == relation.columns.len())
}
