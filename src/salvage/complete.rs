//! Columns and types that the catalogs lost, from a schema of the user or an older copy; and shapes of lost columns, by the rows.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::catalogs::{Catalogs, Column, KnownColumn, RawRow, Relation};
use super::fields::name_at;
use super::fit::fit;
use super::layout::Offsets;
use super::lost_classes::NAMELESS;
use super::rows::sound_tuples;
use super::source::{DatabaseFiles, SegmentFiles, Source};
use super::templates::{PG_PROC_OID, raw, set};
use super::xacts::{Visibility, Xacts};
use crate::parsers::catalog::FIRST_NORMAL_OID;
use crate::parsers::decode::u32_at;
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
