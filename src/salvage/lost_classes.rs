//! Relations whose rows of `pg_class` are lost: by its indexes, else by their row types and columns.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::catalogs::{Catalogs, Key, RawRow, Reader, Relation, TOAST_SCHEMA};
use super::fields::{name_at, padded_name};
use super::xacts::Why;
use crate::cluster::open::{Links, ReadFile};
use crate::parsers::catalog::{FIRST_NORMAL_OID, NAME_SIZE, PG_CLASS_OID};
use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::page::PageHeader;
use crate::parsers::tuple::attribute::PG_TYPE_OID;
use crate::types::Oid;

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
