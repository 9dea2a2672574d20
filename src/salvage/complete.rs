//! Columns and types that the catalogs lost, from a schema of the user or an older copy; and shapes of lost columns, by the rows.
//! Also here: relations whose rows of `pg_class` are lost: by its indexes, else by their row types and columns.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::catalogs::{Catalogs, Column, Key, KnownColumn, RawRow, Reader, Relation, TOAST_SCHEMA};
use super::fit::fit;
use super::layout::{Offsets, name_at, padded_name};
use super::rows::sound_tuples;
use super::source::{DatabaseFiles, SegmentFiles, Source};
use super::templates::{PG_PROC_OID, raw, set};
use super::xacts::{Visibility, Why, Xacts};
use crate::cluster::open::{Links, ReadFile};
use crate::parsers::catalog::{FIRST_NORMAL_OID, NAME_SIZE, PG_CLASS_OID};
use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::page::PageHeader;
use crate::parsers::tuple::attribute::{MAX_COLUMNS, PG_TYPE_OID};
use crate::parsers::tuple::columns::ColumnShape;
use crate::types::Oid;

/// Beginning of the name of a column that was dropped.
const DROPPED: &[u8] = b"........pg.dropped.";

/// Schema and name.
type Name = (Vec<u8>, Vec<u8>);

/// Shapes that types of the server have, the most common first.
const SHAPES: [ColumnShape; 9] = [
    ColumnShape { length: -1, alignment: 4 },
    ColumnShape { length: 4, alignment: 4 },
    ColumnShape { length: 8, alignment: 8 },
    ColumnShape { length: 1, alignment: 1 },
    ColumnShape { length: 2, alignment: 2 },
    ColumnShape { length: 16, alignment: 1 },
    ColumnShape { length: -1, alignment: 8 },
    ColumnShape { length: 16, alignment: 8 },
    ColumnShape { length: 6, alignment: 4 },
];

/// Most lost columns of a table whose shapes are tried.
const MAX_TRIED: usize = 4;

/// Rows that shapes are tried on.
const SAMPLE: usize = 300;

fn schema_name(catalogs: &Catalogs, oid: Oid) -> Vec<u8> {
    catalogs.schemas.get(&oid).cloned().unwrap_or_default()
}

/// Types of users by name.
fn types_of(catalogs: &Catalogs, offsets: &Offsets) -> HashMap<Name, Oid> {
    let rows = catalogs.rows.get(&PG_TYPE_OID).into_iter().flatten();
    let name = |row: &RawRow| {
        let name = name_at(row.data(), offsets.name())?;
        let schema = u32_at(row.data(), offsets.name().saturating_add(64))?;
        let oid = if offsets.oid_in_header { row.header.row_oid(&row.tuple) } else { u32_at(row.data(), 0) };
        Some(((schema_name(catalogs, schema), name), oid?))
    };
    let lost =
        catalogs.lost_types.iter().map(|(oid, (name, schema))| ((schema_name(catalogs, *schema), name.clone()), *oid));
    rows.filter_map(name).chain(lost).collect()
}

/// Fills gaps in `catalogs` with what `given` has under the same names.
pub(crate) fn complete(catalogs: &mut Catalogs, given: &Catalogs, offsets: &Offsets) {
    let known = types_of(catalogs, offsets);
    let types: HashMap<Oid, Oid> =
        types_of(given, offsets).into_iter().filter_map(|(name, oid)| Some((oid, *known.get(&name)?))).collect();
    let own_type = |oid: Oid| if oid < FIRST_NORMAL_OID { Some(oid) } else { types.get(&oid).copied() };
    let by_name: HashMap<Name, &Relation> = given
        .relations
        .values()
        .map(|relation| ((schema_name(given, relation.schema_oid), relation.name.clone()), relation))
        .collect();
    let schemas = catalogs.schemas.clone();
    let schema_oids: HashMap<&[u8], Oid> = schemas.iter().map(|(oid, name)| (name.as_slice(), *oid)).collect();
    let nameless = |relation: &&mut Relation| relation.row.is_none() && relation.name.starts_with(NAMELESS.as_bytes());
    for relation in catalogs.relations.values_mut().filter(nameless) {
        let mut alike = by_name.iter().filter(|(_, model)| has_same_columns(relation, model));
        if let (Some(((schema, name), _)), None) = (alike.next(), alike.next()) {
            relation.name.clone_from(name);
            relation.schema_oid = schema_oids.get(schema.as_slice()).copied().unwrap_or(relation.schema_oid);
        }
    }
    for relation in catalogs.relations.values_mut() {
        let schema = schemas.get(&relation.schema_oid).cloned().unwrap_or_default();
        let Some(model) = by_name.get(&(schema, relation.name.clone())) else { continue };
        fill(relation, model, &own_type);
        if relation.row.is_none() && relation.kind == b'r' && model.kind == b'm' {
            relation.kind = b'm';
        }
    }
    add_types(catalogs, given, offsets, &types);
}

/// True when both have the same columns that are left.
fn has_same_columns(relation: &Relation, model: &Relation) -> bool {
    let names = |relation: &Relation| -> Vec<Vec<u8>> {
        let is_left = |column: &&Column| column.known.is_none_or(|known| !known.is_dropped);
        relation.columns.values().filter(is_left).map(|column| column.name.clone()).collect()
    };
    names(relation) == names(model)
}

fn fill(relation: &mut Relation, model: &Relation, own_type: &dyn Fn(Oid) -> Option<Oid>) {
    let last = relation.declared.into_iter().chain(relation.columns.keys().next_back().copied()).max();
    let models: HashMap<&[u8], &Column> =
        model.columns.values().map(|column| (column.name.as_slice(), column)).collect();
    let taken: Vec<Vec<u8>> = relation.columns.values().map(|column| column.name.clone()).collect();
    // Numbers of which not even a name is left take the names that nothing else has, in order.
    let unnamed: Vec<u16> =
        (1..=last.unwrap_or_default()).filter(|number| !relation.columns.contains_key(number)).collect();
    let mut free: Vec<&Column> = model.columns.values().filter(|column| !taken.contains(&column.name)).collect();
    free.retain(|column| column.known.is_some_and(|known| !known.is_dropped));
    let unnamed = match last {
        Some(_) if unnamed.len() == free.len() => unnamed,
        Some(_) => Vec::new(),
        None => (1..=u16::try_from(free.len()).unwrap_or_default()).collect(),
    };
    for (number, column) in unnamed.into_iter().zip(free) {
        let column = Column { name: column.name.clone(), known: None, row: None, is_guessed: false };
        relation.columns.insert(number, column);
    }
    if last.is_none() && model.columns.is_empty() {
        relation.declared = Some(0);
    }
    for column in relation.columns.values_mut().filter(|column| column.known.is_none()) {
        let known = models.get(column.name.as_slice()).and_then(|model| model.known);
        column.known = known.and_then(|known| Some(KnownColumn { type_oid: own_type(known.type_oid)?, ..known }));
    }
}

/// Rows of `pg_type` that are lost, with the OIDs that this database uses.
fn add_types(catalogs: &mut Catalogs, given: &Catalogs, offsets: &Offsets, types: &HashMap<Oid, Oid>) {
    // Where `typrelid` stands: the category, two flags and the delimiter are between.
    let rel_at = offsets.type_kind.saturating_add(5);
    let element_at = rel_at.saturating_add(if offsets.has_subscript { 8 } else { 4 });
    let [array_at, output_at, base_at] = [4, 12, 40].map(|bytes| element_at.saturating_add(bytes));
    let mut added = Vec::new();
    let named = |catalogs: &Catalogs| -> Vec<(Oid, Vec<u8>)> {
        let rows = catalogs.rows.get(&PG_PROC_OID).into_iter().flatten();
        rows.filter_map(|row| Some((u32_at(row.data(), 0)?, name_at(row.data(), offsets.name())?))).collect()
    };
    let given_names: HashMap<Oid, Vec<u8>> = named(given).into_iter().collect();
    let functions: HashMap<Vec<u8>, Oid> = named(catalogs).into_iter().map(|(oid, name)| (name, oid)).collect();
    for row in given.rows.get(&PG_TYPE_OID).into_iter().flatten() {
        let number = |at| u32_at(row.data(), at).unwrap_or_default();
        let given_oid =
            if offsets.oid_in_header { row.header.row_oid(&row.tuple).unwrap_or_default() } else { number(0) };
        let Some(oid) = types.get(&given_oid).copied() else { continue };
        let Some((name, schema)) = catalogs.lost_types.get(&oid) else { continue };
        let own = |oid: Oid| if oid < FIRST_NORMAL_OID { oid } else { types.get(&oid).copied().unwrap_or_default() };
        let relation =
            catalogs.relations.values().find(|relation| relation.name == *name && relation.schema_oid == *schema);
        let Some(mut row) = raw(&row.tuple) else { continue };
        let (element, base) = (own(number(element_at)), own(number(base_at)));
        // The function that prints the values has an OID of its own here, too.
        let output = match number(output_at) {
            oid if oid < FIRST_NORMAL_OID => Some(oid),
            oid => given_names.get(&oid).and_then(|name| functions.get(name)).copied(),
        };
        let Some(output) = output.filter(|_| !offsets.oid_in_header) else { continue };
        set(&mut row, output_at, &output.to_le_bytes());
        set(&mut row, 0, &oid.to_le_bytes());
        set(&mut row, offsets.name().saturating_add(64), &schema.to_le_bytes());
        set(&mut row, rel_at, &relation.map_or(0, |relation| relation.oid).to_le_bytes());
        set(&mut row, element_at, &element.to_le_bytes());
        set(&mut row, array_at, &[0; 4]);
        set(&mut row, base_at, &base.to_le_bytes());
        added.push(row);
    }
    catalogs.rows.entry(PG_TYPE_OID).or_default().extend(added);
}

/// Finds out how many columns tables have whose rows of `pg_class` are lost: as many as one row in ten has, or more.
pub(crate) fn count_columns(source: &Source, database: &DatabaseFiles, catalogs: &mut Catalogs, xacts: &mut Xacts<'_>) {
    let is_unknown = |relation: &&mut Relation| relation.has_rows() && relation.declared.is_none();
    for relation in catalogs.relations.values_mut().filter(is_unknown) {
        let Some(files) = database.main_fork(relation.spc_oid, relation.filenode) else { continue };
        let mut rows = sample(source, files);
        // An aborted transaction may have added columns.
        rows.retain(|row| xacts.insertion(&row.header) != Visibility::Dead);
        let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
        for row in &rows {
            let count = counts.entry(row.header.attribute_count()).or_default();
            *count = count.saturating_add(1);
        }
        let is_usual = |(_, count): &(&u16, &usize)| count.saturating_mul(10) >= rows.len();
        let most = counts.iter().rev().find(is_usual).map(|(number, _)| *number).filter(|most| *most <= MAX_COLUMNS);
        relation.declared = most.max(relation.columns.keys().next_back().copied());
    }
}

/// Files of tables whose rows of `pg_class` are lost and whose files have other numbers: the one that no relation has and that all
/// rows fit. What is found so is a guess. Their TOAST tables: the ones that their rows name.
pub(crate) fn find_files(source: &Source, database: &DatabaseFiles, catalogs: &mut Catalogs) {
    let has_file = |relation: &Relation| database.main_fork(relation.spc_oid, relation.filenode).is_some();
    let taken: HashSet<u32> = catalogs.relations.values().flat_map(Relation::files).map(|file| file.filenode).collect();
    let free: Vec<(Oid, u32)> = database.user_files().filter(|(_, number)| !taken.contains(number)).collect();
    let files = |(spc, number): (Oid, u32)| database.main_fork(spc, number);
    let is_rowless = |relation: &&Relation| relation.row.is_none() && relation.has_rows();
    let mut claims: BTreeMap<(Oid, u32), Vec<Oid>> = BTreeMap::new();
    for relation in catalogs.relations.values().filter(is_rowless).filter(|relation| !has_file(relation)) {
        let Some(shapes) = relation.shapes() else { continue };
        let mut fitting = free.iter().filter(|file| {
            let rows = files(**file).map(|files| sample(source, files)).unwrap_or_default();
            !rows.is_empty() && rows.iter().all(|row| fit(&row.header, &row.tuple, &shapes).is_some())
        });
        if let (Some(file), None) = (fitting.next(), fitting.next()) {
            claims.entry(*file).or_default().push(relation.oid);
        }
    }
    for (file, oids) in claims {
        if let [oid] = oids.as_slice()
            && let Some(relation) = catalogs.relations.get_mut(oid)
        {
            (relation.spc_oid, relation.filenode) = file;
            relation.columns.values_mut().for_each(|column| column.is_guessed = true);
        }
    }
    let mut toast: Vec<(Oid, Oid)> = Vec::new();
    for relation in catalogs.relations.values().filter(is_rowless).filter(|relation| relation.toast_oid == 0) {
        let (Some(shapes), Some(files)) = (relation.shapes(), files((relation.spc_oid, relation.filenode))) else {
            continue;
        };
        let rows = sample(source, files);
        let spans = rows.iter().filter_map(|row| fit(&row.header, &row.tuple, &shapes)).flatten();
        toast.extend(spans.filter_map(|span| Some((relation.oid, span.external?.toast_oid))).next());
    }
    for (oid, toast_oid) in toast {
        catalogs.relations.get_mut(&oid).into_iter().for_each(|relation| relation.toast_oid = toast_oid);
    }
}

fn sample(source: &Source, files: &SegmentFiles) -> Vec<RawRow> {
    let mut sample = Vec::new();
    source.pages(files, &mut |_, page| {
        let room = SAMPLE.saturating_sub(sample.len());
        sample.extend(sound_tuples(page).take(room).filter_map(|tuple| raw(tuple.bytes)));
    });
    sample
}

/// Takes columns as they were before a change that may have been rolled back, where more rows fit them. They are a guess.
pub(crate) fn choose_columns(source: &Source, files: &SegmentFiles, relation: &mut Relation) {
    if relation.older.is_empty() {
        return;
    }
    let tuples = sample(source, files);
    let fitting = |relation: &Relation| {
        let shapes = relation.shapes().unwrap_or_default();
        tuples.iter().filter(|row| fit(&row.header, &row.tuple, &shapes).is_some()).count()
    };
    let older = std::mem::take(&mut relation.older);
    let is_other = |(number, older): &(&u16, &Column)| {
        relation.columns.get(number).is_none_or(|column| column.known != older.known || column.name != older.name)
    };
    let differing: Vec<u16> = older.iter().filter(is_other).map(|(number, _)| *number).collect();
    let mut before = relation.clone();
    before.columns.extend(older);
    let (old, new) = (fitting(&before), fitting(relation));
    // Of a change that may have been rolled back, the old file comes first.
    if old > new || old == new && !relation.rivals.is_empty() {
        *relation = before;
    }
    let columns = relation.columns.iter_mut().filter(|(number, _)| differing.contains(number));
    columns.for_each(|(_, column)| column.is_guessed |= old >= new);
}

/// Gives lost columns of a table the shapes that all rows fit, where few are lost. A column that is not a dropped one is a guess.
pub(crate) fn guess_shapes(source: &Source, files: &SegmentFiles, relation: &mut Relation) {
    let Some(lost) = relation.lost_columns().filter(|lost| (1..=MAX_TRIED).contains(&lost.len())) else { return };
    if lost.iter().any(|number| !relation.columns.contains_key(number)) {
        return;
    }
    let tuples = sample(source, files);
    let known: BTreeMap<u16, Option<ColumnShape>> =
        relation.columns.iter().map(|(number, column)| (*number, column.known.map(|known| known.shape))).collect();
    let combinations = SHAPES.len().checked_pow(u32::try_from(lost.len()).unwrap_or(u32::MAX)).unwrap_or_default();
    let mut best: Option<(usize, Vec<ColumnShape>)> = None;
    for combination in 0..combinations {
        let mut rest = combination;
        let shapes: Vec<ColumnShape> = known
            .values()
            .map(|shape| {
                shape.unwrap_or_else(|| {
                    let chosen = SHAPES[rest % SHAPES.len()];
                    rest /= SHAPES.len();
                    chosen
                })
            })
            .collect();
        let fitting = tuples.iter().filter(|row| fit(&row.header, &row.tuple, &shapes).is_some()).count();
        if best.as_ref().is_none_or(|(most, _)| fitting > *most) {
            best = Some((fitting, shapes));
        }
    }
    let Some((_, shapes)) = best.filter(|(fitting, _)| *fitting > 0 || tuples.is_empty()) else { return };
    for (column, shape) in relation.columns.values_mut().zip(shapes).filter(|(column, _)| column.known.is_none()) {
        let is_dropped = column.name.starts_with(DROPPED);
        column.is_guessed = !is_dropped;
        column.known = Some(KnownColumn {
            type_oid: 0,
            modifier: -1,
            shape,
            by_value: matches!(shape.length, 1 | 2 | 4 | 8),
            is_generated: false,
            is_dropped,
        });
    }
}

/// Indexes of `pg_class`: by OID, by name and schema, by tablespace and file number.
const CLASS_INDEXES: [Oid; 3] = [2662, 2663, 3455];

/// Bytes of the special space of the one page of a sequence.
const SEQUENCE_SPECIAL: usize = 8;

/// Pages that are tried for a sound one.
const TRIED_PAGES: u64 = 64;

/// Schema `public`.
const PUBLIC: Oid = 2200;

/// Beginning of the names of tables whose names are lost.
pub(super) const NAMELESS: &str = "oid_";

/// The row type of a relation.
#[derive(Clone)]
struct RowType {
    type_oid: Oid,
    name: Vec<u8>,
    schema_oid: Oid,
    is_unsure: bool,
}

impl RowType {
    /// That of a relation of which only the OID is known.
    fn nameless(oid: Oid) -> Self {
        Self { type_oid: 0, name: format!("{NAMELESS}{oid}").into_bytes(), schema_oid: PUBLIC, is_unsure: true }
    }
}

impl Relation {
    /// A relation whose row of `pg_class` is lost: OID and name, schema and row type, kind, tablespace and file.
    fn without_row(
        (oid, name): (Oid, Vec<u8>),
        (schema_oid, type_oid): (Oid, Oid),
        kind: u8,
        (spc_oid, filenode): (Oid, u32),
    ) -> Self {
        Self {
            oid,
            name,
            schema_oid,
            type_oid,
            kind,
            filenode,
            spc_oid,
            toast_oid: 0,
            columns: BTreeMap::new(),
            older: BTreeMap::new(),
            declared: None,
            row: None,
            // Which of several files counts, its row would tell.
            doubt: Some(Why::DeleterUnknown),
            made_by: None,
            pages: 0,
            rivals: Vec::new(),
        }
    }
}

impl Reader<'_, '_, '_> {
    /// Rows of `pg_class` that are gone, by its three indexes.
    pub(super) fn rebuild_classes(&self, found: &mut Catalogs) {
        let [by_oid, by_name, by_file] = CLASS_INDEXES;
        let (mut oids, mut names, mut files) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        self.entries(by_oid, &mut |tid, data| oids.extend(u32_at(data, 0).map(|oid| (tid, oid))));
        self.entries(by_name, &mut |tid, data| {
            if let Some(name) = padded_name(data, 0) {
                let schema = u32_at(data, name.len().saturating_add(1).next_multiple_of(4)).unwrap_or_default();
                names.insert(tid, (name, schema));
            }
        });
        self.entries(by_file, &mut |tid, data| {
            if let (Some(spc), Some(number)) = (u32_at(data, 0), u32_at(data, 4)) {
                files.insert(tid, (spc, number));
            }
        });
        let there: HashSet<Oid> = found.relations.keys().copied().collect();
        let tuples = self.tuples_there(PG_CLASS_OID, Key::Own);
        let types = self.row_types(found);
        for (tid, oid) in oids.iter().filter(|(_, oid)| **oid >= FIRST_NORMAL_OID && !there.contains(oid)) {
            // A tuple that is there and was not taken is dead: the relation was dropped.
            if !tuples.lost(*tid, *oid) {
                continue;
            }
            let file = files.get(tid).copied();
            let (spc_oid, filenode) = file.unwrap_or((0, *oid));
            let of = types.get(oid).cloned().unwrap_or_else(|| RowType::nameless(*oid));
            let named = names.get(tid).cloned();
            let is_named = named.is_some();
            let (name, schema_oid) = named.unwrap_or((of.name, of.schema_oid));
            let kind = self.kind_by_file((spc_oid, filenode), (&name, schema_oid), types.contains_key(oid));
            if !is_named && !matches!(kind, Some(b'r' | b't')) {
                continue;
            }
            // A rewrite of a table drops what it made under such a name.
            if kind.is_none() && (file.is_none() || name.starts_with(b"pg_temp_")) {
                continue;
            }
            let is_known = found.relations.get(oid).is_some_and(|held| held.kind != 0);
            if is_known && kind.is_none() {
                continue;
            }
            let kind = kind.unwrap_or(if types.contains_key(oid) { b'c' } else { b'I' });
            let type_oid = types.get(oid).map_or(0, |of| of.type_oid);
            let relation = Relation::without_row((*oid, name), (schema_oid, type_oid), kind, (spc_oid, filenode));
            let held = found.relations.remove(oid).filter(|held| held.kind == kind);
            let relation = match held {
                Some(held) => relation.following(held, self.database),
                None => relation,
            };
            found.relations.insert(*oid, relation);
        }
    }

    /// Row types of users' relations that are there, by relation.
    fn row_types(&self, found: &Catalogs) -> BTreeMap<Oid, RowType> {
        let kind = self.offsets.type_kind;
        let rows = found.rows.get(&PG_TYPE_OID).into_iter().flatten();
        let of_relations = rows.filter_map(|row| {
            let data = row.data();
            let rel = u32_at(data, kind.saturating_add(5)).filter(|rel| *rel >= FIRST_NORMAL_OID)?;
            let name = name_at(data, self.offsets.name()).filter(|_| data.get(kind) == Some(&b'c'))?;
            let schema_oid = u32_at(data, self.offsets.name().saturating_add(NAME_SIZE))?;
            Some((rel, RowType { type_oid: self.key(row, Key::Own), name, schema_oid, is_unsure: row.doubt.is_some() }))
        });
        of_relations.collect()
    }

    /// Relations that no index of `pg_class` names either: a row type has name and OID, a row of `pg_attribute` the OID. The file of a
    /// table has the number of its OID until the table is rewritten. `classes`: relations whose rows are there.
    pub(super) fn add_by_columns(&self, classes: &HashSet<Oid>, attributes: &[RawRow], found: &mut Catalogs) {
        let number_at = self.offsets.length.saturating_add(2);
        let types = self.row_types(found);
        let dead: HashSet<Oid> = self.tuples_there(PG_CLASS_OID, Key::Own).tuples.into_values().collect();
        let is_lost = |rel: Oid, is_unsure: bool| {
            rel >= FIRST_NORMAL_OID && !classes.contains(&rel) && !(is_unsure && dead.contains(&rel))
        };
        // Composite types and views have no system columns.
        let has_storage: BTreeSet<Oid> = attributes
            .iter()
            .filter(|row| u16_at(row.data(), number_at).is_some_and(|number| number.cast_signed() < 0))
            .filter_map(|row| u32_at(row.data(), 0).filter(|rel| is_lost(*rel, row.doubt.is_some())))
            .collect();
        let typed = types.iter().filter(|(rel, of)| is_lost(**rel, of.is_unsure)).map(|(rel, _)| *rel);
        let candidates: BTreeSet<Oid> = typed.chain(has_storage.iter().copied()).collect();
        for oid in candidates.into_iter().filter(|oid| !found.relations.contains_key(oid)).collect::<Vec<_>>() {
            let of = types.get(&oid).cloned();
            let is_named = of.is_some();
            let RowType { type_oid, name, schema_oid, .. } = of.unwrap_or_else(|| RowType::nameless(oid));
            let schema = found.schemas.get(&schema_oid).map(Vec::as_slice).unwrap_or_default();
            if schema.starts_with(b"pg_temp_") || schema.starts_with(b"pg_toast_temp_") {
                continue;
            }
            let kind = self.kind_by_file((0, oid), (&name, schema_oid), is_named);
            let filenode = if kind.is_some() { oid } else { 0 };
            let is_table = has_storage.contains(&oid) && schema_oid != TOAST_SCHEMA;
            let kind = kind.unwrap_or(if is_table { b'r' } else { b'c' });
            if is_named || kind == b'r' {
                let relation = Relation::without_row((oid, name), (schema_oid, type_oid), kind, (0, filenode));
                found.relations.insert(oid, relation);
            }
        }
        let toast: Vec<(Oid, Oid)> =
            found.relations.values().filter_map(|relation| Some((relation.toast_owner()?, relation.oid))).collect();
        for (owner, oid) in toast {
            if let Some(relation) = found.relations.get_mut(&owner).filter(|relation| relation.toast_oid == 0) {
                relation.toast_oid = oid;
            }
        }
    }

    /// The kind of a relation according to the first sound page of its file, if it has one. `is_typed`: it has a row type.
    fn kind_by_file(
        &self,
        (spc_oid, filenode): (Oid, u32),
        (name, schema_oid): (&[u8], Oid),
        is_typed: bool,
    ) -> Option<u8> {
        let path = self.database.main_fork(spc_oid, filenode).filter(|_| filenode > 0)?.first()?;
        let is_index = name.ends_with(b"_index");
        let in_toast = schema_oid == TOAST_SCHEMA && name.starts_with(b"pg_toast_");
        let file = ReadFile::open(path, Links::Refuse).ok()?;
        let size = self.source.block_size;
        let page = |block: u64| file.bytes_at(block.saturating_mul(size as u64), size).ok().flatten();
        let special = (0..TRIED_PAGES).map_while(page).find_map(|page| {
            let header = PageHeader::decode(0, &page).ok().filter(|header| !header.is_new())?;
            header.faults(page.len()).is_empty().then(|| size.saturating_sub(usize::from(header.special)))
        });
        Some(match special {
            _ if in_toast && is_index => b'i',
            _ if in_toast => b't',
            // An empty table has no page.
            Some(0) | None => b'r',
            Some(SEQUENCE_SPECIAL) => b'S',
            _ if is_typed => b'r',
            _ => b'i',
        })
    }
}
