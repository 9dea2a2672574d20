//! What the catalogs of a database say of its relations: rows that are there, and rows that only the indexes of the catalogs still name.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::keys::leaf_entries;
use super::layout::{Offsets, column_of, name_at, padded_name};
use super::rivals::Rival;
use super::rows::{has_right_checksum, sound_tuples};
use super::source::{DatabaseFiles, SegmentFiles, Source, mapped_number};
use super::xacts::{Visibility, Why, Xacts};
use crate::parsers::catalog::{FIRST_NORMAL_OID, PG_CLASS_OID, PG_INDEX_OID, PG_NAMESPACE_OID};
use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::heap::{TupleHeader, page_tuples};
use crate::parsers::page::{PageHeader, line_pointer_faults};
use crate::parsers::tuple::attribute::{MAX_COLUMNS, PG_ATTRIBUTE_OID, PG_TYPE_OID};
use crate::parsers::tuple::columns::ColumnShape;
use crate::parsers::tuple::index::Tid;
use crate::types::Oid;

/// `pg_authid`, `pg_largeobject_metadata` and `pg_enum`.
pub(crate) const PG_AUTHID_OID: Oid = 1260;
const LARGE_OBJECTS: Oid = 2995;
pub(crate) const PG_ENUM_OID: Oid = 3501;

/// Schema of TOAST tables.
pub(crate) const TOAST_SCHEMA: Oid = 99;

/// Indexes of `pg_attribute`: by name, by number.
const ATTRIBUTE_INDEXES: [Oid; 2] = [2658, 2659];

/// Indexes of `pg_type`: by OID, by name and schema; of `pg_namespace`: by OID, by name; of `pg_enum`: by OID, by label, by order.
const TYPE_INDEXES: [Oid; 2] = [2703, 2704];
const SCHEMA_INDEXES: [Oid; 2] = [2685, 2684];
const ENUM_INDEXES: [Oid; 3] = [3502, 3503, 3534];

/// Most rows of one catalog that are kept.
const MAX_ROWS: usize = 8_000_000;

/// A row of a catalog as it stands on disk.
#[derive(Clone, Debug)]
pub(crate) struct RawRow {
    pub tid: Tid,
    pub tuple: Vec<u8>,
    pub header: TupleHeader,
    /// Its page has the right checksum, or none is kept.
    pub is_proven: bool,
    /// Why it is not known whether it was inserted, replaced or deleted for good.
    pub doubt: Option<Why>,
}

impl RawRow {
    pub fn data(&self) -> &[u8] {
        self.header.user_data(&self.tuple)
    }
}

/// A column of a relation.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: Vec<u8>,
    /// `None` where the row of `pg_attribute` is lost: its name is known by an index alone.
    pub known: Option<KnownColumn>,
    /// Row of `pg_attribute`, where it is there.
    pub row: Option<Vec<u8>>,
    /// The type was not in the catalogs and is a guess, or the page that has it has a wrong checksum.
    pub is_guessed: bool,
}

/// What a row of `pg_attribute` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownColumn {
    pub type_oid: Oid,
    pub modifier: i32,
    pub shape: ColumnShape,
    pub by_value: bool,
    pub is_generated: bool,
    pub is_dropped: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Relation {
    pub oid: Oid,
    pub name: Vec<u8>,
    pub schema_oid: Oid,
    pub type_oid: Oid,
    pub kind: u8,
    pub filenode: u32,
    pub spc_oid: Oid,
    pub toast_oid: Oid,
    pub columns: BTreeMap<u16, Column>,
    /// Columns by rows of `pg_attribute` that may have been replaced, where pg_xact does not tell.
    pub older: BTreeMap<u16, Column>,
    /// Number of columns by `pg_class`.
    pub declared: Option<u16>,
    /// Pages that the table has at least, by `pg_class`.
    pub pages: u32,
    /// Row of `pg_class`; `None` where the indexes alone name the relation.
    pub row: Option<Vec<u8>>,
    /// Why it is not known whether this row counts.
    pub doubt: Option<Why>,
    /// The transaction that made the file, where its end is not known.
    pub made_by: Option<(u32, Why)>,
    /// Other files of it: it is not known which one counts.
    pub rivals: Vec<Rival>,
}

impl Relation {
    pub const fn has_rows(&self) -> bool {
        matches!(self.kind, b'r' | b'm')
    }

    /// Numbers of columns whose types are lost, or `None` when not even the number of columns is known.
    pub fn lost_columns(&self) -> Option<Vec<u16>> {
        let last = self.declared.or_else(|| self.columns.keys().next_back().copied())?;
        let is_lost = |number: &u16| self.columns.get(number).is_none_or(|column| column.known.is_none());
        Some((1..=last).filter(is_lost).collect())
    }

    /// Shapes of all columns; `None` when one is lost.
    pub fn shapes(&self) -> Option<Vec<ColumnShape>> {
        if !self.lost_columns()?.is_empty() {
            return None;
        }
        self.columns.values().map(|column| column.known.map(|known| known.shape)).collect()
    }

    pub fn is_guessed(&self) -> bool {
        self.columns.values().any(|column| column.is_guessed)
    }

    /// The table whose TOAST table it is.
    pub(super) fn toast_owner(&self) -> Option<Oid> {
        let digits = self.name.strip_prefix(b"pg_toast_").filter(|_| self.kind == b't')?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

/// The tuples of a catalog.
#[derive(Default)]
pub(super) struct There {
    /// Sound ones by their places, each with its OID or its first column; overwritten ones with zero.
    pub tuples: HashMap<Tid, Oid>,
    /// Pages of which nothing is lost, with the number of their items: what an item does not have was deleted.
    sound: HashMap<u32, usize>,
}

impl There {
    /// True when damage took the tuple that an index names.
    pub fn lost(&self, tid: Tid, oid: Oid) -> bool {
        let is_deleted = || self.sound.get(&tid.0).is_some_and(|items| usize::from(tid.1) <= *items);
        self.tuples.get(&tid).map_or_else(|| !is_deleted(), |found| *found != oid)
    }
}

/// A label of an enum.
#[derive(Clone, Debug)]
pub(crate) struct LostLabel {
    pub oid: Oid,
    pub type_oid: Oid,
    /// Bits of the number by which labels are ordered.
    pub order: u32,
    pub label: Vec<u8>,
}

/// The catalogs of a database.
#[derive(Debug, Default)]
pub(crate) struct Catalogs {
    pub relations: BTreeMap<Oid, Relation>,
    pub schemas: HashMap<Oid, Vec<u8>>,
    /// Rows of `pg_authid`, which all databases share.
    pub roles: Vec<RawRow>,
    /// Large objects, by `pg_largeobject_metadata`.
    pub large_objects: Vec<Oid>,
    /// Rows with an OID of a user's object, by catalog.
    pub rows: BTreeMap<Oid, Vec<RawRow>>,
    /// Schemas that indexes of `pg_namespace` name and whose rows are lost.
    pub lost_schemas: HashMap<Oid, Vec<u8>>,
    /// Labels of enums that indexes of `pg_enum` name and whose rows are lost.
    pub lost_labels: Vec<LostLabel>,
    /// Types that indexes of `pg_type` name and whose rows are lost: name and schema.
    pub lost_types: HashMap<Oid, (Vec<u8>, Oid)>,
    /// Numbers of files of system catalogs and their indexes, by OID.
    pub system_files: HashMap<Oid, u32>,
}

/// Catalogs that are read, and where the OID stands by which a row is a user's.
const TAKEN: [(Oid, Key); 13] = [
    (PG_NAMESPACE_OID, Key::Own),
    (PG_TYPE_OID, Key::Own),
    (PG_ENUM_OID, Key::Own),
    (3541, Key::First),
    (1255, Key::Own),
    (3456, Key::Own),
    (2604, Key::Own),
    (2606, Key::Own),
    (PG_INDEX_OID, Key::First),
    (2224, Key::First),
    (2611, Key::First),
    (3350, Key::First),
    (3079, Key::Own),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// The OID of the row.
    Own,
    /// The first column.
    First,
}

/// Rows that are live, or of unknown transactions; those that may be replaced or deleted come first.
pub(super) fn rows_of(source: &Source, xacts: &mut Xacts<'_>, files: &SegmentFiles) -> Vec<RawRow> {
    let mut all: Vec<RawRow> = Vec::new();
    source.pages(files, &mut |block, page| {
        let proven = has_right_checksum(source, block, page);
        for tuple in sound_tuples(page) {
            if all.len() >= MAX_ROWS {
                break;
            }
            let doubt = match xacts.visibility(&tuple.header) {
                Visibility::Live => None,
                Visibility::Unsure(why) => Some(why),
                Visibility::Dead => continue,
            };
            let item = u16::try_from(tuple.item).unwrap_or_default();
            let (tid, tuple, header) = ((block, item), tuple.bytes.to_vec(), tuple.header);
            all.push(RawRow { tid, tuple, header, is_proven: proven, doubt });
        }
    });
    // What may have been replaced or deleted comes first: a newer row takes its place, and a certain one that of both.
    all.sort_by_cached_key(|row| if row.doubt.is_none() { 2 } else { u8::from(row.header.was_never_deleted()) });
    all
}

/// Reads the catalogs of a database.
pub(crate) struct Reader<'a, 'x, 's> {
    pub source: &'a Source,
    pub database: &'a DatabaseFiles,
    pub xacts: &'x mut Xacts<'s>,
    pub offsets: Offsets,
}

impl Reader<'_, '_, '_> {
    pub fn read(&mut self) -> Catalogs {
        let mut found = Catalogs::default();
        let number = mapped_number(&self.database.directory, PG_CLASS_OID).unwrap_or(PG_CLASS_OID);
        let classes = self.live_rows(number);
        for row in &classes {
            self.add_class(row, &mut found);
        }
        let classes: HashSet<Oid> = classes.iter().map(|row| self.key(row, Key::Own)).collect();
        for (catalog, key) in TAKEN {
            let number =
                found.system_files.get(&catalog).copied().or_else(|| mapped_number(&self.database.directory, catalog));
            let rows = self.live_rows(number.unwrap_or(catalog));
            let of_users = rows.into_iter().filter(|row| self.key(row, key) >= FIRST_NORMAL_OID);
            let mut rows: Vec<RawRow> = of_users.collect();
            if key == Key::Own || catalog == PG_INDEX_OID {
                let last: HashMap<Oid, Tid> = rows.iter().map(|row| (self.key(row, key), row.tid)).collect();
                rows.retain(|row| last.get(&self.key(row, key)) == Some(&row.tid));
            }
            found.rows.insert(catalog, rows);
        }
        let number = found.system_files.get(&LARGE_OBJECTS).copied().unwrap_or(LARGE_OBJECTS);
        found.large_objects = self.live_rows(number).iter().map(|row| self.key(row, Key::Own)).collect();
        found.roles = self.shared_rows(PG_AUTHID_OID);
        found.schemas.extend([(2200, b"public".to_vec()), (11, b"pg_catalog".to_vec())]);
        for row in found.rows.get(&PG_NAMESPACE_OID).into_iter().flatten() {
            if let Some(name) = name_at(row.data(), self.offsets.name()) {
                found.schemas.insert(self.key(row, Key::Own), name);
            }
        }
        found.lost_types = self.lost_rows(PG_TYPE_OID, TYPE_INDEXES, &found);
        let schemas = self.lost_rows(PG_NAMESPACE_OID, SCHEMA_INDEXES, &found);
        found.lost_schemas = schemas.into_iter().map(|(oid, (name, _))| (oid, name)).collect();
        found.schemas.extend(found.lost_schemas.clone());
        self.find_lost_labels(&mut found);
        self.rebuild_classes(&mut found);
        let number = mapped_number(&self.database.directory, PG_ATTRIBUTE_OID).unwrap_or(PG_ATTRIBUTE_OID);
        let attributes = self.live_rows(number);
        self.add_by_columns(&classes, &attributes, &mut found);
        // A table that `VACUUM FULL` of a catalog made and dropped left it its file.
        let mut of_catalogs = self.database.mapped_files();
        of_catalogs.extend(found.system_files.values());
        found.relations.retain(|_, relation| relation.row.is_some() || !of_catalogs.contains(&relation.filenode));
        self.add_columns(&attributes, &mut found);
        found
    }

    /// Rows of a catalog that all databases share.
    fn shared_rows(&mut self, catalog: Oid) -> Vec<RawRow> {
        let Some(global) = self.source.root.as_ref().map(|root| root.join("global")) else { return Vec::new() };
        let number = mapped_number(&global, catalog).unwrap_or(catalog);
        rows_of(self.source, self.xacts, &SegmentFiles::one((0, number), global.join(number.to_string())))
    }

    pub(super) fn key(&self, row: &RawRow, key: Key) -> Oid {
        let in_header = self.offsets.oid_in_header && key == Key::Own;
        let oid = if in_header { row.header.row_oid(&row.tuple) } else { u32_at(row.data(), 0) };
        oid.unwrap_or_default()
    }

    fn live_rows(&mut self, number: u32) -> Vec<RawRow> {
        let files = self.database.main_fork(0, number);
        files.map_or_else(Vec::new, |files| rows_of(self.source, self.xacts, files))
    }

    fn add_class(&mut self, row: &RawRow, found: &mut Catalogs) {
        let (data, offsets) = (row.data(), self.offsets);
        let oid = self.key(row, Key::Own);
        let number = |at: usize| u32_at(data, at).unwrap_or_default();
        let Some(name) = name_at(data, offsets.name()) else { return };
        let [persistence, kind] =
            [6, 7].map(|at| data.get(offsets.toast.saturating_add(at)).copied().unwrap_or_default());
        let filenode = number(offsets.filenode);
        if oid < FIRST_NORMAL_OID {
            if filenode > 0 {
                found.system_files.insert(oid, filenode);
            }
            return;
        }
        // Temporary tables end with their session.
        if persistence == b't' || !b"rmtSvcfpiI".contains(&kind) {
            return;
        }
        let relation = Relation {
            oid,
            name,
            schema_oid: number(offsets.namespace),
            type_oid: number(offsets.namespace.saturating_add(4)),
            kind,
            filenode,
            spc_oid: number(offsets.filenode.saturating_add(4)),
            toast_oid: number(offsets.toast),
            columns: BTreeMap::new(),
            older: BTreeMap::new(),
            declared: u16_at(data, offsets.toast.saturating_add(8)).filter(|count| *count <= MAX_COLUMNS),
            // `relpages`.
            pages: number(offsets.filenode.saturating_add(8)).cast_signed().max(0).unsigned_abs(),
            row: Some(row.tuple.clone()),
            doubt: row.doubt,
            made_by: match self.xacts.insertion(&row.header) {
                Visibility::Unsure(why) => Some((row.header.xmin, why)),
                Visibility::Live | Visibility::Dead => None,
            },
            rivals: Vec::new(),
        };
        let relation = match found.relations.remove(&oid) {
            Some(older) => relation.following(older, self.database),
            None => relation,
        };
        found.relations.insert(oid, relation);
    }

    /// Entries of leaves of a B-tree of the catalogs.
    pub(super) fn entries(&self, index: Oid, show: &mut dyn FnMut(Tid, &[u8])) {
        let number = mapped_number(&self.database.directory, index).unwrap_or(index);
        if let Some(files) = self.database.main_fork(0, number) {
            leaf_entries(self.source, files, show);
        }
    }

    /// Sound tuples of a catalog by their places, each with its OID or its first column.
    pub(super) fn tuples_there(&self, catalog: Oid, key: Key) -> There {
        let number = mapped_number(&self.database.directory, catalog).unwrap_or(catalog);
        let mut there = There::default();
        if let Some(files) = self.database.main_fork(0, number) {
            self.source.pages(files, &mut |block, page| {
                let header = PageHeader::decode(0, page)
                    .ok()
                    .filter(|header| !header.is_new() && header.faults(page.len()).is_empty());
                let header = header.filter(|header| line_pointer_faults(header, page).is_empty());
                if let Some(header) = header.filter(|_| has_right_checksum(self.source, block, page)) {
                    let items = usize::from(header.lower).saturating_sub(PageHeader::SIZE) / 4;
                    there.sound.insert(block, items);
                }
                let items = header.into_iter().flat_map(|header| page_tuples(&header, page)).map(|tuple| tuple.item);
                let tids = items.filter_map(|item| Some((block, u16::try_from(item).ok()?)));
                there.tuples.extend(tids.map(|tid| (tid, 0)));
                for tuple in sound_tuples(page) {
                    let tid = (block, u16::try_from(tuple.item).unwrap_or_default());
                    let row =
                        RawRow { tid, tuple: tuple.bytes.to_vec(), header: tuple.header, is_proven: true, doubt: None };
                    there.tuples.insert(tid, self.key(&row, key));
                }
            });
        }
        there
    }

    /// Names and schemas of rows of a catalog that are lost, by its two indexes: by OID, by name (and schema).
    fn lost_rows(&self, catalog: Oid, [by_oid, by_name]: [Oid; 2], found: &Catalogs) -> HashMap<Oid, (Vec<u8>, Oid)> {
        let rows = found.rows.get(&catalog).into_iter().flatten();
        let taken: HashSet<Oid> = rows.map(|row| self.key(row, Key::Own)).collect();
        let tuples = self.tuples_there(catalog, Key::Own);
        let mut oids = HashMap::new();
        self.entries(by_oid, &mut |tid, data| {
            let is_lost = |oid: &Oid| *oid >= FIRST_NORMAL_OID && !taken.contains(oid) && tuples.lost(tid, *oid);
            oids.extend(u32_at(data, 0).filter(is_lost).map(|oid| (tid, oid)));
        });
        let mut lost = HashMap::new();
        self.entries(by_name, &mut |tid, data| {
            if let Some((oid, name)) = oids.get(&tid).zip(padded_name(data, 0)) {
                let schema = u32_at(data, name.len().saturating_add(1).next_multiple_of(4)).unwrap_or_default();
                lost.insert(*oid, (name, schema));
            }
        });
        lost
    }

    /// Labels of enums whose rows are lost, by the indexes of `pg_enum`.
    fn find_lost_labels(&self, found: &mut Catalogs) {
        let rows = found.rows.get(&PG_ENUM_OID).into_iter().flatten();
        let taken: HashSet<Oid> = rows.map(|row| self.key(row, Key::Own)).collect();
        let tuples = self.tuples_there(PG_ENUM_OID, Key::Own);
        let [by_oid, by_label, by_order] = ENUM_INDEXES;
        let (mut oids, mut labels, mut orders) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        self.entries(by_oid, &mut |tid, data| {
            let is_lost = |oid: &Oid| *oid >= FIRST_NORMAL_OID && !taken.contains(oid) && tuples.lost(tid, *oid);
            oids.extend(u32_at(data, 0).filter(is_lost).map(|oid| (tid, oid)));
        });
        self.entries(by_label, &mut |tid, data| {
            labels.extend(u32_at(data, 0).zip(padded_name(data, 4)).map(|label| (tid, label)))
        });
        self.entries(by_order, &mut |tid, data| orders.extend(u32_at(data, 4).map(|order| (tid, order))));
        for (tid, oid) in oids {
            if let Some((type_oid, label)) = labels.get(&tid).cloned() {
                let order = orders.get(&tid).copied().unwrap_or_default();
                found.lost_labels.push(LostLabel { oid, type_oid, order, label });
            }
        }
    }

    /// Columns by rows of `pg_attribute`, and those that only its indexes name.
    fn add_columns(&mut self, rows: &[RawRow], found: &mut Catalogs) {
        let offsets = self.offsets;
        let mut made_by: HashMap<Oid, (u32, Option<Why>)> = HashMap::new();
        for row in rows {
            let made = (row.header.xmin, row.doubt);
            let first = made_by.entry(u32_at(row.data(), 0).unwrap_or_default()).or_insert(made);
            *first = if made.0 < first.0 { made } else { *first };
        }
        for relation in found.relations.values_mut().filter(|relation| relation.row.is_none()) {
            relation.made_by = made_by.get(&relation.oid).and_then(|(xid, why)| Some((*xid, (*why)?)));
        }
        for row in rows {
            let Some((rel, number, mut column)) = column_of(&offsets, row) else { continue };
            // Added later, by a transaction that may have been rolled back.
            let is_later = made_by.get(&rel).is_some_and(|(first, _)| row.header.xmin > *first);
            column.is_guessed |= row.doubt.is_some() && is_later && number > 1;
            let Some(relation) = found.relations.get_mut(&rel) else { continue };
            // Added by a change that the row of pg_class does not have.
            if row.doubt.is_some() && relation.declared.is_some_and(|last| number > last) {
                continue;
            }
            if let Some(older) = relation.columns.insert(number, column) {
                relation.older.insert(number, older);
            }
        }
        let needs_more = |relation: &Relation| relation.lost_columns().is_none_or(|lost| !lost.is_empty());
        let wanted: HashSet<Oid> = found
            .relations
            .values()
            .filter(|relation| needs_more(relation) || relation.row.is_none())
            .map(|relation| relation.oid)
            .collect();
        if wanted.is_empty() {
            return;
        }
        let there = self.tuples_there(PG_ATTRIBUTE_OID, Key::First);
        let [by_name, by_number] = ATTRIBUTE_INDEXES;
        let (mut names, mut numbers, mut has_system_columns) = (HashMap::new(), Vec::new(), HashSet::new());
        self.entries(by_name, &mut |tid, data| {
            if u32_at(data, 0).is_some_and(|rel| wanted.contains(&rel)) {
                names.extend(padded_name(data, 4).map(|name| (tid, name)));
            }
        });
        self.entries(by_number, &mut |tid, data| {
            let (rel, number) = (u32_at(data, 0).unwrap_or_default(), u16_at(data, 4).unwrap_or_default());
            if number.cast_signed() < 0 {
                has_system_columns.insert(rel);
            }
            if wanted.contains(&rel) && (1..=MAX_COLUMNS).contains(&number) && there.lost(tid, rel) {
                numbers.push((tid, rel, number));
            }
        });
        for (tid, rel, number) in numbers {
            let Some(name) = names.get(&tid).cloned() else { continue };
            if let Some(relation) = found.relations.get_mut(&rel) {
                let column = Column { name, known: None, row: None, is_guessed: false };
                relation.columns.entry(number).or_insert(column);
            }
        }
        let chunks: [&[u8]; 3] = [b"chunk_id", b"chunk_seq", b"chunk_data"];
        for relation in found.relations.values_mut().filter(|relation| relation.row.is_none() && relation.kind == b'r')
        {
            if relation.columns.values().map(|column| column.name.as_slice()).eq(chunks) {
                relation.kind = b't';
            }
        }
        // A table without columns has those of the system alone.
        for relation in found.relations.values_mut().filter(|relation| relation.declared.is_none()) {
            if relation.columns.is_empty() && has_system_columns.contains(&relation.oid) {
                relation.declared = Some(0);
            }
        }
    }
}
