//! A fresh cluster as the source of rows of catalogs: what a server of this major writes of tables, columns and TOAST tables.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::catalogs::{KnownColumn, LostLabel, PG_ENUM_OID, RawRow};
use super::layout::{Offsets, column_of, name_at};
use super::rows::sound_tuples;
use super::source::{DatabaseFiles, Source, mapped_number};
use crate::parsers::catalog::{PG_CLASS_OID, PG_INDEX_OID};
use crate::parsers::decode::u32_at;
use crate::parsers::tuple::attribute::{PG_ATTRIBUTE_OID, PG_TYPE_OID};
use crate::parsers::tuple::columns::{ColumnShape, Stored, row_columns};
use crate::types::Oid;

/// Catalogs whose rows serve as patterns: a table, a TOAST table, its index.
const PATTERN_TABLE: Oid = 2615;
const PATTERN_TOAST: Oid = 2840;
const PATTERN_TOAST_INDEX: Oid = 2841;

/// The function that prints the values of every enum; no type of a fresh cluster is one.
const ENUM_OUTPUT: &[u8] = b"enum_out";

/// `pg_proc`.
pub(crate) const PG_PROC_OID: Oid = 1255;

/// Rows of catalogs of a fresh cluster.
pub(crate) struct Templates {
    offsets: Offsets,
    /// File of each catalog in the directory of the database.
    pub files: HashMap<Oid, u32>,
    /// Columns of each catalog: name and shape.
    columns: HashMap<Oid, BTreeMap<u16, (Vec<u8>, ColumnShape)>>,
    classes: HashMap<Oid, RawRow>,
    attributes: HashMap<Oid, Vec<(i16, RawRow)>>,
    toast_index: Option<RawRow>,
    schema: Option<RawRow>,
    /// Types that every cluster has.
    pub types: HashSet<Oid>,
    /// Functions that print values, and their names.
    pub outputs: HashMap<Oid, Vec<u8>>,
}

/// A new row of a catalog.
pub(crate) type NewRow = (Oid, Vec<u8>);

impl Templates {
    /// Reads them; `None` when the cluster is not one that `initdb` makes.
    pub fn read(source: &Source, database: &DatabaseFiles) -> Option<Self> {
        let offsets = Offsets::of(source.major);
        let rows = |number: u32| {
            let mut rows = Vec::new();
            if let Some(files) = database.main_fork(0, number) {
                source.pages(files, &mut |block, page| {
                    for tuple in sound_tuples(page).filter(|tuple| tuple.header.was_never_deleted()) {
                        let tid = (block, u16::try_from(tuple.item).unwrap_or_default());
                        rows.push(RawRow {
                            tid,
                            tuple: tuple.bytes.to_vec(),
                            header: tuple.header,
                            is_proven: true,
                            doubt: None,
                        });
                    }
                });
            }
            rows
        };
        let oid_of = |row: &RawRow| match offsets.oid_in_header {
            true => row.header.row_oid(&row.tuple).unwrap_or_default(),
            false => u32_at(row.data(), 0).unwrap_or_default(),
        };
        let mapped = |oid| mapped_number(&database.directory, oid).unwrap_or(oid);
        let (mut files, mut classes) = (HashMap::new(), HashMap::new());
        for row in rows(mapped(PG_CLASS_OID)) {
            let number = u32_at(row.data(), offsets.filenode).unwrap_or_default();
            let oid = oid_of(&row);
            files.insert(oid, if number > 0 { number } else { mapped(oid) });
            if [PATTERN_TABLE, PATTERN_TOAST, PATTERN_TOAST_INDEX].contains(&oid) {
                classes.insert(oid, row);
            }
        }
        let (mut columns, mut attributes): (HashMap<Oid, BTreeMap<_, _>>, HashMap<Oid, Vec<_>>) = Default::default();
        for row in rows(*files.get(&PG_ATTRIBUTE_OID)?) {
            let Some(rel) = u32_at(row.data(), 0) else { continue };
            if let Some((_, number, column)) = column_of(&offsets, &row) {
                let shape = column.known.map(|known| known.shape);
                columns.entry(rel).or_default().extend(shape.map(|shape| (number, (column.name, shape))));
            }
            let number =
                crate::parsers::decode::u16_at(row.data(), offsets.length.saturating_add(2)).unwrap_or_default();
            if [PATTERN_TABLE, PATTERN_TOAST, PATTERN_TOAST_INDEX].contains(&rel) {
                attributes.entry(rel).or_default().push((number.cast_signed(), row));
            }
        }
        let toast_index =
            rows(*files.get(&PG_INDEX_OID)?).into_iter().find(|row| u32_at(row.data(), 0) == Some(PATTERN_TOAST_INDEX));
        let schema = rows(*files.get(&PATTERN_TABLE)?).into_iter().next();
        let mut templates = Self {
            offsets,
            files,
            columns,
            classes,
            attributes,
            toast_index,
            schema,
            types: HashSet::new(),
            outputs: HashMap::new(),
        };
        let type_rows = rows(*templates.files.get(&PG_TYPE_OID)?);
        let mut printers = HashSet::new();
        for row in &type_rows {
            templates.types.insert(oid_of(row));
            printers.extend(templates.number(PG_TYPE_OID, row, b"typoutput"));
        }
        for row in rows(*templates.files.get(&PG_PROC_OID)?) {
            let oid = oid_of(&row);
            let is_printer = |name: &Vec<u8>| printers.contains(&oid) || name == ENUM_OUTPUT;
            if let Some(name) = name_at(row.data(), offsets.name()).filter(is_printer) {
                templates.outputs.insert(oid, name);
            }
        }
        Some(templates)
    }

    /// Shapes of the columns of a catalog.
    pub fn shapes(&self, catalog: Oid) -> Vec<ColumnShape> {
        self.columns.get(&catalog).into_iter().flat_map(|columns| columns.values().map(|(_, shape)| *shape)).collect()
    }

    /// The bytes of a column of a row of a catalog.
    pub fn column<'r>(&self, catalog: Oid, row: &'r RawRow, name: &[u8]) -> Option<&'r [u8]> {
        let index = self.columns.get(&catalog)?.values().position(|(other, _)| other == name)?;
        match row_columns(&row.header, &row.tuple, &self.shapes(catalog)).into_iter().nth(index)? {
            Stored::Plain(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn number(&self, catalog: Oid, row: &RawRow, name: &[u8]) -> Option<u32> {
        u32_at(self.column(catalog, row, name)?, 0)
    }

    /// The row of `pg_class` of a table with rows, or of a relation of which only name and columns count.
    pub fn class(
        &self,
        oid: Oid,
        name: &[u8],
        schema_oid: Oid,
        type_oid: Oid,
        columns: u16,
        has_rows: bool,
    ) -> Option<NewRow> {
        let (offsets, mut row) = (self.offsets, self.classes.get(&PATTERN_TABLE)?.clone());
        self.set_oid(&mut row, oid);
        set(&mut row, offsets.name(), &padded(name));
        set(&mut row, offsets.namespace, &schema_oid.to_le_bytes());
        set(&mut row, offsets.namespace.saturating_add(4), &type_oid.to_le_bytes());
        // Before 12 a server looks for the file of a composite type, too.
        set(&mut row, offsets.filenode, &oid.to_le_bytes());
        // `reltoastrelid`, `relhasindex`.
        set(&mut row, offsets.toast, &[0; 5]);
        set(&mut row, offsets.toast.saturating_add(8), &columns.to_le_bytes());
        if !has_rows {
            set(&mut row, offsets.filenode.saturating_sub(4), &[0; 4]);
            set(&mut row, offsets.toast.saturating_add(7), b"c");
        }
        Some((PG_CLASS_OID, row.tuple))
    }

    /// The row of `pg_attribute` of a column: its own with another relation, or a new one.
    pub fn attribute(
        &self,
        rel_oid: Oid,
        number: u16,
        name: &[u8],
        own: Option<&[u8]>,
        known: &KnownColumn,
    ) -> Option<NewRow> {
        let offsets = self.offsets;
        let mut row = match own.and_then(raw) {
            Some(row) => row,
            None => self.attributes.get(&PATTERN_TABLE)?.iter().find(|(number, _)| *number == 1)?.1.clone(),
        };
        let generated = if known.is_generated { self.generated_flag(own) } else { 0 };
        set(&mut row, 0, &rel_oid.to_le_bytes());
        set(&mut row, 4, &padded(name));
        set(&mut row, 68, &known.type_oid.to_le_bytes());
        set(&mut row, offsets.length, &known.shape.length.to_le_bytes());
        set(&mut row, offsets.length.saturating_add(2), &number.to_le_bytes());
        set(&mut row, offsets.modifier, &known.modifier.to_le_bytes());
        set(&mut row, offsets.by_value, &[u8::from(known.by_value)]);
        let alignment = match known.shape.alignment {
            1 => b'c',
            2 => b's',
            4 => b'i',
            _ => b'd',
        };
        set(&mut row, offsets.alignment, &[alignment]);
        // `attnotnull` and `atthasdef`: a server may rely on the one, and looks for the other.
        set(&mut row, offsets.not_null, &[0, 0]);
        if own.is_none() {
            if let Some(at) = offsets.has_missing {
                set(&mut row, at, &[0]);
            }
            set(&mut row, offsets.is_dropped, &[u8::from(known.is_dropped)]);
        }
        if let Some(at) = offsets.generated {
            set(&mut row, at, &[generated]);
        }
        Some((PG_ATTRIBUTE_OID, row.tuple))
    }

    /// `attgenerated` of the row; `s` where the row is new.
    fn generated_flag(&self, own: Option<&[u8]>) -> u8 {
        let row = own.and_then(raw);
        let flag = row.and_then(|row| row.data().get(self.offsets.generated?).copied());
        flag.unwrap_or(b's')
    }

    /// Rows of the columns that the server gives each table, of which `ctid` is asked for.
    pub fn system_attributes(&self, rel_oid: Oid) -> Vec<NewRow> {
        self.patterns(PATTERN_TABLE, rel_oid, |number| number == -1)
    }

    fn patterns(&self, pattern: Oid, rel_oid: Oid, is_wanted: impl Fn(i16) -> bool) -> Vec<NewRow> {
        let rows = self.attributes.get(&pattern).into_iter().flatten().filter(|(number, _)| is_wanted(*number));
        rows.map(|(_, row)| {
            let mut row = row.clone();
            set(&mut row, 0, &rel_oid.to_le_bytes());
            (PG_ATTRIBUTE_OID, row.tuple)
        })
        .collect()
    }

    /// Rows of a TOAST table and its index.
    pub fn toast(&self, toast_oid: Oid, index_oid: Oid) -> Option<Vec<NewRow>> {
        let offsets = self.offsets;
        let mut rows = Vec::new();
        let classes = [(PATTERN_TOAST, toast_oid, ""), (PATTERN_TOAST_INDEX, index_oid, "_index")];
        for (pattern, oid, suffix) in classes {
            let mut row = self.classes.get(&pattern)?.clone();
            self.set_oid(&mut row, oid);
            set(&mut row, offsets.name(), &padded(format!("pg_toast_salvage_{toast_oid}{suffix}").as_bytes()));
            set(&mut row, offsets.namespace.saturating_add(4), &[0; 4]);
            set(&mut row, offsets.filenode, &oid.to_le_bytes());
            rows.push((PG_CLASS_OID, row.tuple));
            rows.extend(self.patterns(pattern, oid, |_| true));
        }
        let mut index = self.toast_index.clone()?;
        set(&mut index, 0, &index_oid.to_le_bytes());
        set(&mut index, 4, &toast_oid.to_le_bytes());
        rows.push((PG_INDEX_OID, index.tuple));
        Some(rows)
    }

    /// The row of `pg_namespace` of a schema.
    pub fn schema(&self, oid: Oid, name: &[u8]) -> Option<NewRow> {
        let mut row = self.schema.clone()?;
        self.set_oid(&mut row, oid);
        set(&mut row, self.offsets.name(), &padded(name));
        Some((PATTERN_TABLE, row.tuple))
    }

    /// The row of `pg_enum` of a label. Before 12 the OID stands in the header.
    pub fn label(&self, label: &LostLabel) -> NewRow {
        /// `HEAP_HASOID`.
        const HAS_OID: u8 = 8;
        let in_header = self.offsets.oid_in_header;
        let mut tuple = vec![0; 18];
        tuple.extend([if in_header { 3 } else { 4 }, 0, if in_header { HAS_OID } else { 0 }, 0]);
        let data_offset = if in_header { 32 } else { 24 };
        tuple.push(data_offset);
        tuple.resize(usize::from(data_offset), 0);
        let oid = label.oid.to_le_bytes();
        match in_header {
            true => drop(tuple.splice(28..32, oid)),
            false => tuple.extend(oid),
        }
        tuple.extend(label.type_oid.to_le_bytes());
        tuple.extend(label.order.to_le_bytes());
        tuple.extend(padded(&label.label));
        (PG_ENUM_OID, tuple)
    }

    fn set_oid(&self, row: &mut RawRow, oid: Oid) {
        match self.offsets.oid_in_header {
            true => {
                let at = usize::from(row.header.data_offset).saturating_sub(4);
                row.tuple.splice(at..at.saturating_add(4), oid.to_le_bytes());
            }
            false => set(row, 0, &oid.to_le_bytes()),
        }
    }
}

/// A tuple with its header.
pub(crate) fn raw(tuple: &[u8]) -> Option<RawRow> {
    let header = crate::parsers::heap::TupleHeader::decode(0, tuple).ok()?;
    super::fit::is_sound(&header, tuple.len()).then(|| RawRow {
        tid: (0, 0),
        tuple: tuple.to_vec(),
        header,
        is_proven: true,
        doubt: None,
    })
}

/// Writes into the user data of a row, as far as it reaches.
pub(crate) fn set(row: &mut RawRow, at: usize, bytes: &[u8]) {
    let at = usize::from(row.header.data_offset).saturating_add(at);
    if let Some(field) = row.tuple.get_mut(at..at.saturating_add(bytes.len())) {
        field.copy_from_slice(bytes);
    }
}

fn padded(name: &[u8]) -> [u8; 64] {
    let mut field = [0; 64];
    let length = name.len().min(63);
    if let (Some(field), Some(name)) = (field.get_mut(..length), name.get(..length)) {
        field.copy_from_slice(name);
    }
    field
}
