//! Names of relations from the catalogs of a stopped data directory. Nothing is trusted: catalogs may be torn, old or
//! missing, so every name is a best effort and everything that could not be read is reported.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::catalog_file::CatalogFiles;
use super::data_dir::DataDir;
use super::name_gaps::{NameGap, append_bounded};
use super::names::{DatabaseHome, FIXED_SCHEMAS, MAX_RELATIONS, NameDoubt, RelationName, RelationNames, RowAge, Trust};
use super::open::{AccessError, kind_of};
use super::relation_path::{RelationPaths, tablespace_version_directory};
use super::server_files::read_map_bytes;
use super::xact_log::{SLRU_PAGES_PER_SEGMENT, XactLog};
use crate::parsers::catalog::{
    CatalogLayout, ClassRow, DatabaseRow, IndexRow, NamedRow, PG_CLASS_OID, PG_DATABASE_OID, PG_INDEX_OID,
    PG_NAMESPACE_OID, PG_TABLESPACE_OID, Persistence, RelKind, RowBytes,
};
use crate::parsers::decode::ParseError;
use crate::parsers::filenode_map::FilenodeMap;
use crate::parsers::heap::{Liveness, TupleHeader};
use crate::types::{DEFAULT_TABLESPACE_OID, GLOBAL_TABLESPACE_OID, Geometry, Oid, RelFileLocator};

/// Most databases, tablespaces and schemas of one database that are kept.
const MAX_LABELS: usize = 1 << 20;

/// Source: `HEAP_TABLE_AM_OID`, `src/include/catalog/pg_am.dat`.
const HEAP_METHOD_OID: Oid = 2;

impl RelationNames {
    /// Reads the names of all relations in all databases, and what stood in the way.
    ///
    /// A name is kept from a row that is live by its hint bits and `pg_xact`, on a page that is sane: header, line
    /// pointers and tuples. A page that is not sane gives no names. A page that is sane although its checksum fails does,
    /// and so do rows whose transaction cannot be judged: these names carry a [`NameDoubt`], and give way to any name
    /// without one. Rows of transactions that were unfinished at the end are used after a crash only.
    pub fn read(dir: &DataDir) -> (Self, Vec<NameGap>) {
        let mut gaps = Vec::new();
        let layout = dir.major().facts().catalog;
        let mut reader = Reader::new(dir, layout, &mut gaps);
        if let Some(control) = dir.control().trusted() {
            reader.names.set_system_identifier(control.prefix.system_identifier);
        }
        let shared_map = reader.map(Path::new("global"), &mut gaps);
        let databases = reader.databases(&shared_map, &mut gaps);
        let mut further = 0_u64;
        for database in databases {
            let mut found = Vec::new();
            reader.database(&database, &shared_map, &mut found);
            further = further.saturating_add(append_bounded(&mut gaps, &mut found));
        }
        reader.names.report_left_out(&mut gaps);
        if further > 0 {
            gaps.push(NameGap::Further { count: further });
        }
        (reader.names, gaps)
    }
}

/// `pg_filenode.map`, if it can be used.
struct UsableMap(Option<FilenodeMap>);

impl UsableMap {
    /// File number of a mapped catalog. Until it is rewritten it equals its OID; without a map that is the guess.
    fn rel_number(&self, oid: Oid) -> Option<(u32, Option<NameDoubt>)> {
        match &self.0 {
            Some(map) => map.rel_number(oid).map(|number| (number, None)),
            None => Some((oid, Some(NameDoubt::GuessedNumber))),
        }
    }

    /// Like [`Self::file`], but adds the catalog to those to read.
    fn to_read(&self, oid: Oid) -> u32 {
        self.rel_number(oid).map_or(oid, |(number, _)| number)
    }
}

#[derive(Clone)]
struct Label<T> {
    name: Arc<str>,
    trust: Trust,
    more: T,
}

/// Labels by OID; of two with the same OID the better one stays.
struct Labels<T> {
    by_oid: BTreeMap<Oid, Label<T>>,
    left_out: u64,
}

impl<T> Labels<T> {
    fn new() -> Self {
        Self { by_oid: BTreeMap::new(), left_out: 0 }
    }

    fn add(&mut self, oid: Oid, label: Label<T>) {
        match self.by_oid.get(&oid) {
            Some(held) if !label.trust.is_better_than(held.trust) => {}
            None if self.by_oid.len() >= MAX_LABELS => self.left_out = self.left_out.saturating_add(1),
            _ => drop(self.by_oid.insert(oid, label)),
        }
    }

    fn finish(self, what: &'static str, gaps: &mut Vec<NameGap>) -> BTreeMap<Oid, Label<T>> {
        if self.left_out > 0 {
            gaps.push(NameGap::TooMany { what, count: self.left_out, limit: MAX_LABELS });
        }
        self.by_oid
    }
}

struct Database {
    oid: Oid,
    spc_oid: Oid,
    name: Option<Arc<str>>,
    doubt: Option<NameDoubt>,
}

/// A relation whose schema is not known yet. Small: there may be millions.
struct Pending {
    rel: RelFileLocator,
    oid: Oid,
    namespace_oid: Oid,
    name: Box<str>,
    kind: RelKind,
    access_method_oid: Oid,
    toast_oid: Oid,
    persistence: Persistence,
    oldest: (u32, u32),
    mapped_pages: u32,
    trust: Trust,
}

pub(super) struct Reader {
    files: CatalogFiles,
    layout: &'static CatalogLayout,
    xacts: XactLog,
    /// Shut down cleanly: transactions that are unfinished in `pg_xact` never were committed.
    stopped_in_order: bool,
    /// Name of the server's directory inside a tablespace.
    version_directory: Option<String>,
    names: RelationNames,
}

impl Reader {
    pub(super) fn new(dir: &DataDir, layout: &'static CatalogLayout, gaps: &mut Vec<NameGap>) -> Self {
        let control = dir.control().trusted();
        let Geometry { block_size, rel_segment_blocks, .. } =
            control.map_or(Geometry::USUAL, |control| control.geometry);
        if control.is_none() {
            gaps.push(NameGap::Control { block_size });
        }
        let catalog_version = control.map(|control| control.prefix.catalog_version_no);
        let slru_pages = control.and_then(|control| control.slru_pages_per_segment).unwrap_or(SLRU_PAGES_PER_SEGMENT);
        Self {
            files: CatalogFiles {
                data_dir: dir.root().to_owned(),
                paths: RelationPaths::new(dir.major(), catalog_version.unwrap_or_default(), rel_segment_blocks),
                block_size,
                rel_segment_blocks,
                checksums_enforced: control.is_some_and(|control| control.checksums.is_enforced()),
            },
            layout,
            xacts: XactLog::new(dir.root(), block_size, slru_pages),
            stopped_in_order: control.is_some_and(|control| control.prefix.state.is_stopped_in_order()),
            version_directory: catalog_version.map(|version| tablespace_version_directory(dir.major(), version)),
            names: RelationNames::default(),
        }
    }

    /// The map of a directory, relative to the data directory.
    fn map(&self, directory: &Path, gaps: &mut Vec<NameGap>) -> UsableMap {
        let path = self.files.data_dir.join(directory).join("pg_filenode.map");
        let bytes = match read_map_bytes(&self.files.data_dir, directory) {
            Ok(bytes) => bytes,
            Err(error) => {
                gaps.push(error.into());
                return UsableMap(None);
            }
        };
        match FilenodeMap::decode(0, &bytes) {
            Ok(map) => {
                let faults = map.faults();
                if faults.is_empty() {
                    return UsableMap(Some(map));
                }
                gaps.push(NameGap::Map { path, faults });
            }
            Err(error) => gaps.push(NameGap::Short { path, error }),
        }
        UsableMap(None)
    }

    /// Rows of a catalog that are part of it, with their reliability.
    pub(super) fn live_rows(
        &mut self,
        rel: RelFileLocator,
        catalog: &'static str,
        gaps: &mut Vec<NameGap>,
        on_row: &mut dyn FnMut(&RowBytes<'_>, Trust) -> Result<(), ParseError>,
    ) {
        let Self { files, xacts, stopped_in_order, .. } = self;
        files.for_each_row(rel, catalog, gaps, &mut |row, bad_checksum, gaps| {
            let Some(doubt) = judge(&row.header, xacts, *stopped_in_order, gaps) else { return Ok(()) };
            let doubt = doubt.max(bad_checksum.then_some(NameDoubt::PageChecksum));
            on_row(row, Trust { doubt, age: RowAge { xmin: row.header.xmin, page_lsn: row.page_lsn } })
        });
    }

    fn named_rows(
        &mut self,
        rel: RelFileLocator,
        catalog: &'static str,
        gaps: &mut Vec<NameGap>,
    ) -> BTreeMap<Oid, Label<()>> {
        let layout = self.layout;
        let mut labels = Labels::new();
        self.live_rows(rel, catalog, gaps, &mut |row, trust| {
            let NamedRow { oid, name } = NamedRow::decode(layout, row)?;
            labels.add(oid, Label { name: name.text().into(), trust, more: () });
            Ok(())
        });
        labels.finish(catalog, gaps)
    }

    /// Names of databases and tablespaces, and the databases to read: those of `pg_database`, then directories that it
    /// does not name.
    fn databases(&mut self, shared_map: &UsableMap, gaps: &mut Vec<NameGap>) -> Vec<Database> {
        let layout = self.layout;
        let shared =
            |oid| RelFileLocator { spc_oid: GLOBAL_TABLESPACE_OID, db_oid: 0, rel_number: shared_map.to_read(oid) };
        for (oid, label) in self.named_rows(shared(PG_TABLESPACE_OID), "pg_tablespace", gaps) {
            self.names.add_tablespace(oid, label.name, label.trust);
        }
        let mut labels = Labels::new();
        self.live_rows(shared(PG_DATABASE_OID), "pg_database", gaps, &mut |row, trust| {
            let was_never_deleted = row.header.was_never_deleted();
            let row = DatabaseRow::decode(layout, row)?;
            labels.add(row.oid, Label { name: row.name.text().into(), trust, more: (row.spc_oid, was_never_deleted) });
            Ok(())
        });
        let mut databases = Vec::new();
        for (oid, label) in labels.finish("databases", gaps) {
            self.names.add_database(oid, Arc::clone(&label.name));
            let (spc_oid, was_never_deleted) = label.more;
            if label.trust.doubt.is_none() {
                self.names.add_home(oid, DatabaseHome { spc_oid, age: label.trust.age, was_never_deleted });
            }
            databases.push(Database { oid, spc_oid, name: Some(label.name), doubt: label.trust.doubt });
        }
        let unnamed = self.unnamed_databases(&databases, gaps);
        databases.extend(unnamed);
        databases
    }

    /// Directories that look like that of a database and have no row in `pg_database`.
    fn unnamed_databases(&self, known: &[Database], gaps: &mut Vec<NameGap>) -> Vec<Database> {
        let mut directories = vec![(DEFAULT_TABLESPACE_OID, PathBuf::from("base"))];
        if let Some(version_directory) = &self.version_directory {
            let tablespaces = self.numbers_in(Path::new("pg_tblspc"), gaps);
            let directory_of = |spc_oid: Oid| Path::new("pg_tblspc").join(spc_oid.to_string()).join(version_directory);
            directories.extend(tablespaces.into_iter().map(|spc_oid| (spc_oid, directory_of(spc_oid))));
        }
        let mut found = Vec::new();
        for (spc_oid, directory) in directories {
            for oid in self.numbers_in(&directory, gaps) {
                // Only the directory in the database's own tablespace has a map.
                let map = self.files.data_dir.join(&directory).join(oid.to_string()).join("pg_filenode.map");
                let is_known = known.binary_search_by_key(&oid, |database| database.oid).is_ok();
                if !is_known && map.symlink_metadata().is_ok() && found.len() < MAX_LABELS {
                    gaps.push(NameGap::UnnamedDatabase { db_oid: oid });
                    found.push(Database { oid, spc_oid, name: None, doubt: None });
                }
            }
        }
        found
    }

    /// Entries of a directory whose names are numbers.
    fn numbers_in(&self, directory: &Path, gaps: &mut Vec<NameGap>) -> Vec<Oid> {
        let path = self.files.data_dir.join(directory);
        let mut numbers = Vec::new();
        match fs::read_dir(&path) {
            Ok(entries) => {
                for entry in entries {
                    match entry {
                        Ok(entry) => {
                            numbers.extend(entry.file_name().to_str().and_then(|name| name.parse::<Oid>().ok()))
                        }
                        Err(source) => gaps.push(AccessError::io("list", &path, source).into()),
                    }
                }
            }
            Err(source) => gaps.push(AccessError::io("list", &path, source).into()),
        }
        numbers.sort_unstable();
        numbers
    }

    fn database(&mut self, database: &Database, shared_map: &UsableMap, gaps: &mut Vec<NameGap>) {
        let directory = self.files.paths.directory(database.spc_oid, database.oid);
        let path = self.files.data_dir.join(&directory);
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) => {
                let kind = kind_of(metadata.file_type()).unwrap_or("file");
                return gaps.push(AccessError::NotADirectory { path, kind }.into());
            }
            Err(source) => return gaps.push(AccessError::io("examine", &path, source).into()),
        }
        let local_map = self.map(&directory, gaps);
        let at = |rel_number| RelFileLocator { spc_oid: database.spc_oid, db_oid: database.oid, rel_number };
        let (pending, namespace) =
            self.classes(database, at(local_map.to_read(PG_CLASS_OID)), (&local_map, shared_map), gaps);
        let namespace = namespace.unwrap_or_else(|| at(PG_NAMESPACE_OID));
        let mut schemas: HashMap<_, _> = self.named_rows(namespace, "pg_namespace", gaps).into_iter().collect();
        for (oid, name) in FIXED_SCHEMAS {
            schemas.entry(oid).or_insert_with(|| Label { name: name.into(), trust: Trust::default(), more: () });
        }
        for (oid, label) in &schemas {
            self.names.add_schema(database.oid, *oid, Arc::clone(&label.name));
        }
        let called: Arc<str> = database.name.clone().unwrap_or_else(|| database.oid.to_string().into());
        let (owners, unfilled) = self.indexes(&pending);
        let mut unknown = 0_u64;
        for Pending {
            rel,
            oid,
            namespace_oid,
            name,
            kind,
            access_method_oid,
            persistence,
            oldest,
            trust,
            mapped_pages,
            ..
        } in pending
        {
            let schema = schemas.get(&namespace_oid);
            unknown = unknown.saturating_add(u64::from(schema.is_none()));
            let doubts = [trust.doubt, database.doubt, schema.and_then(|label| label.trust.doubt)];
            let name = RelationName {
                database: Some(called.clone()).filter(|_| rel.db_oid != 0),
                schema: schema.map(|label| Arc::clone(&label.name)),
                relation: name,
                oid: Some(oid),
                kind: Some(kind),
                access_method_oid: Some(access_method_oid).filter(|_| kind == RelKind::INDEX),
                // 11 and older have no access methods of tables, and 0 there.
                is_heap: kind != RelKind::INDEX && [0, HEAP_METHOD_OID].contains(&access_method_oid),
                owner_oid: owners.get(&oid).copied(),
                is_unfilled: unfilled.contains(&oid),
                mapped_pages,
                persistence: Some(persistence),
                oldest,
                doubt: doubts.into_iter().max().flatten(),
                age: trust.age,
            };
            self.names.add(rel, name, gaps);
        }
        if unknown > 0 {
            gaps.push(NameGap::UnknownSchemas { db_oid: database.oid, count: unknown });
        }
    }

    /// Which table each index and each TOAST table is of, by OID, and the indexes that no server reads yet or any more. What cannot be
    /// read of `pg_index` is silently left out, names stay complete.
    fn indexes(&mut self, pending: &[Pending]) -> (HashMap<Oid, Oid>, HashSet<Oid>) {
        let layout = self.layout;
        let mut unfilled = HashSet::new();
        let mut owners: HashMap<Oid, Oid> =
            pending.iter().filter(|one| one.toast_oid > 0).map(|one| (one.toast_oid, one.oid)).collect();
        if let Some(pg_index) = pending.iter().find(|one| one.oid == PG_INDEX_OID).map(|one| one.rel) {
            let mut others = HashSet::new();
            self.live_rows(pg_index, "pg_index", &mut Vec::new(), &mut |row, trust| {
                let IndexRow { index_oid, table_oid, is_ready } = IndexRow::decode(layout, row)?;
                if owners.len() < MAX_RELATIONS {
                    owners.insert(index_oid, table_oid);
                    let of_state = if is_ready || trust.doubt.is_some() { &mut others } else { &mut unfilled };
                    of_state.insert(index_oid);
                }
                Ok(())
            });
            unfilled.retain(|oid| !others.contains(oid));
        }
        (owners, unfilled)
    }

    /// The relations of a database that have files, and where its `pg_namespace` is, if `pg_class` says so.
    fn classes(
        &mut self,
        database: &Database,
        pg_class: RelFileLocator,
        (local_map, shared_map): (&UsableMap, &UsableMap),
        gaps: &mut Vec<NameGap>,
    ) -> (Vec<Pending>, Option<RelFileLocator>) {
        let layout = self.layout;
        let mut pending = Vec::new();
        let mut namespace: Option<(RelFileLocator, Trust)> = None;
        let (mut unmapped, mut left_out) = (0_u64, 0_u64);
        self.live_rows(pg_class, "pg_class", gaps, &mut |row, mut trust| {
            let row = ClassRow::decode(layout, row)?;
            if !row.kind.may_have_storage() {
                return Ok(());
            }
            let map = if row.is_shared { shared_map } else { local_map };
            let number = if row.filenode > 0 { Some((row.filenode, None)) } else { map.rel_number(row.oid) };
            let Some((rel_number, doubt)) = number else {
                unmapped = unmapped.saturating_add(1);
                return Ok(());
            };
            trust.doubt = trust.doubt.max(doubt);
            let spc_oid = if row.spc_oid > 0 { row.spc_oid } else { database.spc_oid };
            let is_shared = row.is_shared || spc_oid == GLOBAL_TABLESPACE_OID;
            let rel = RelFileLocator { spc_oid, db_oid: if is_shared { 0 } else { database.oid }, rel_number };
            if row.oid == PG_NAMESPACE_OID && namespace.is_none_or(|(_, held)| trust.is_better_than(held)) {
                namespace = Some((rel, trust));
            }
            if pending.len() < MAX_RELATIONS {
                let ClassRow {
                    oid, namespace_oid, kind, access_method_oid, toast_oid, persistence, mapped_pages, ..
                } = row;
                pending.push(Pending {
                    rel,
                    oid,
                    namespace_oid,
                    name: row.name.text().into(),
                    kind,
                    access_method_oid,
                    toast_oid,
                    persistence,
                    oldest: (row.frozen_xid, row.min_multi),
                    mapped_pages,
                    trust,
                });
            } else {
                left_out = left_out.saturating_add(1);
            }
            Ok(())
        });
        if unmapped > 0 {
            gaps.push(NameGap::Unmapped { db_oid: database.oid, count: unmapped });
        }
        if left_out > 0 {
            gaps.push(NameGap::TooMany { what: "rows of pg_class", count: left_out, limit: MAX_RELATIONS });
        }
        (pending, namespace.map(|(rel, _)| rel))
    }
}

/// Whether a row is used, and with which doubt: `None` when it is not.
fn judge(
    header: &TupleHeader,
    xacts: &mut XactLog,
    stopped_in_order: bool,
    gaps: &mut Vec<NameGap>,
) -> Option<Option<NameDoubt>> {
    match header.liveness(|xid| xacts.status(xid, gaps)) {
        Liveness::Live => Some(None),
        Liveness::PerhapsDeleted => Some(Some(NameDoubt::PerhapsDeleted)),
        Liveness::InsertionUnknown => Some(Some(NameDoubt::InsertionUnknown)),
        Liveness::InsertionOpen if !stopped_in_order => Some(Some(NameDoubt::InsertionOpen)),
        Liveness::InsertionOpen | Liveness::Dead => None,
    }
}
