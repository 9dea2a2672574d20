//! Rows of `pg_class`, `pg_namespace` and `pg_database` in WAL, which name relations that are gone since, or have other files.

use std::collections::{HashMap, HashSet};

use super::segment::Visitor;
use super::unreadable::{UnreadableImage, UnreadableImages};
use crate::cluster::names::RelationNames;
use crate::parsers::catalog::{
    CatalogLayout, ClassRow, DatabaseRow, NamedRow, PG_CLASS_OID, PG_DATABASE_OID, PG_NAMESPACE_OID, RowBytes,
};
use crate::parsers::heap::{TupleHeader, page_tuples};
use crate::parsers::image::ImageDecoder;
use crate::parsers::page::{PageHeader, line_pointer_faults, page_faults};
use crate::parsers::wal::heap_row::{RowPlace, RowWrite};
use crate::parsers::wal::record::Record;
use crate::types::{GLOBAL_TABLESPACE_OID, Lsn, RelFileLocator};

/// Longest row that is kept, in bytes. One of `pg_class` takes about 200, its list of privileges included.
const MAX_ROW_BYTES: usize = 2048;

/// Most rows that are kept of a segment, and in all: further ones name nothing.
const MAX_ROWS: usize = 1 << 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Catalog {
    Class,
    Namespace,
    Database,
}

/// Which files hold these catalogs: those of their OIDs, which they have until they are rewritten, and those that names tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct CatalogFileNumbers {
    classes: HashSet<RelFileLocator>,
    namespaces: HashSet<RelFileLocator>,
    databases: HashSet<RelFileLocator>,
}

impl CatalogFileNumbers {
    /// Relations that `names` adds to the usual ones.
    pub fn of(names: &RelationNames) -> Self {
        let mut own = Self::default();
        for (rel, name) in names.iter() {
            match name.oid {
                Some(PG_CLASS_OID) => drop(own.classes.insert(rel)),
                Some(PG_NAMESPACE_OID) => drop(own.namespaces.insert(rel)),
                Some(PG_DATABASE_OID) => drop(own.databases.insert(rel)),
                _ => {}
            }
        }
        own
    }

    fn catalog(&self, rel: RelFileLocator) -> Option<Catalog> {
        let is = |known: &HashSet<RelFileLocator>, oid| rel.rel_number == oid || known.contains(&rel);
        if rel.spc_oid == GLOBAL_TABLESPACE_OID {
            return is(&self.databases, PG_DATABASE_OID).then_some(Catalog::Database);
        }
        if is(&self.classes, PG_CLASS_OID) {
            return Some(Catalog::Class);
        }
        is(&self.namespaces, PG_NAMESPACE_OID).then_some(Catalog::Namespace)
    }
}

/// What a record says about rows of a catalog.
#[derive(Debug)]
enum RowEvent {
    Stands(RowPlace, Vec<u8>),
    Written(RowWrite),
}

/// Keeps the rows of catalogs in one segment, in order.
pub(crate) struct CatalogRowReader<'a> {
    files: &'a CatalogFileNumbers,
    decoder: ImageDecoder,
    page: Vec<u8>,
    events: Vec<RowEvent>,
    pub unreadable: UnreadableImages,
}

impl<'a> CatalogRowReader<'a> {
    /// `block_size`: bytes of a page.
    pub fn new(files: &'a CatalogFileNumbers, block_size: u32) -> Self {
        let page = vec![0; usize::try_from(block_size).unwrap_or_default()];
        let (decoder, unreadable) = (ImageDecoder::new(), UnreadableImages::default());
        Self { files, decoder, page, events: Vec::new(), unreadable }
    }

    fn catalog_record(&mut self, record: &Record<'_>) {
        if let Some(write) = RowWrite::of(record)
            && self.events.len() < MAX_ROWS
        {
            self.events.push(RowEvent::Written(write));
        }
        for block in record.blocks() {
            let Some(image) = block.image.filter(|image| image.applies()) else { continue };
            if self.files.catalog(block.rel).is_none() {
                continue;
            }
            if let Err(error) = self.decoder.restore(&image, &mut self.page) {
                self.unreadable.push(UnreadableImage { block: block.block, record_lsn: record.start_lsn, error });
                continue;
            }
            let Ok(header) = PageHeader::decode(0, &self.page) else { continue };
            if !page_faults(&header, &self.page).is_empty() || !line_pointer_faults(&header, &self.page).is_empty() {
                continue;
            }
            for tuple in page_tuples(&header, &self.page) {
                let Ok(item) = u16::try_from(tuple.item) else { break };
                if self.events.len() < MAX_ROWS && tuple.bytes.len() <= MAX_ROW_BYTES {
                    let at = RowPlace { rel: block.rel, block: block.block, item };
                    self.events.push(RowEvent::Stands(at, tuple.bytes.to_vec()));
                }
            }
        }
    }
}

impl Visitor for CatalogRowReader<'_> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if record.layout.block_count > 0
            && record.block_heads().any(|(_, block)| block.fork_code() == 0 && self.files.catalog(block.rel).is_some())
        {
            self.catalog_record(&{ *record });
        }
    }
}

/// The rows of catalogs of all segments, in order.
#[derive(Debug)]
pub(crate) struct CatalogRows {
    layout: &'static CatalogLayout,
    files: CatalogFileNumbers,
    /// Rows by where they stand, for those that follow and are stored in part.
    standing: HashMap<RowPlace, Vec<u8>>,
    classes: Vec<(RelFileLocator, ClassRow)>,
    schemas: Vec<(u32, NamedRow)>,
    databases: Vec<DatabaseRow>,
}

impl CatalogRows {
    pub fn new(layout: &'static CatalogLayout, files: CatalogFileNumbers) -> Self {
        Self {
            layout,
            files,
            standing: HashMap::new(),
            classes: Vec::new(),
            schemas: Vec::new(),
            databases: Vec::new(),
        }
    }

    pub fn push(&mut self, part: &mut CatalogRowReader<'_>) {
        for event in part.events.drain(..) {
            let (at, tuple) = match event {
                RowEvent::Stands(at, tuple) => (at, Some(tuple)),
                RowEvent::Written(write) => {
                    let old = write.like.and_then(|(old, ..)| self.standing.get(&old));
                    (write.at, write.tuple(old.map(Vec::as_slice)))
                }
            };
            let Some(tuple) = tuple.filter(|tuple| tuple.len() <= MAX_ROW_BYTES) else {
                // What stood there before does not stand there any more.
                self.standing.remove(&at);
                continue;
            };
            self.row(at.rel, &tuple);
            if self.standing.len() < MAX_ROWS || self.standing.contains_key(&at) {
                self.standing.insert(at, tuple);
            }
        }
    }

    /// Keeps what a row says. One that cannot be decoded says nothing.
    fn row(&mut self, rel: RelFileLocator, tuple: &[u8]) {
        let (Some(catalog), Ok(header)) = (self.files.catalog(rel), TupleHeader::decode(0, tuple)) else { return };
        if !header.faults(tuple.len()).is_empty() {
            return;
        }
        let name = match catalog {
            Catalog::Class => "pg_class",
            Catalog::Namespace => "pg_namespace",
            Catalog::Database => "pg_database",
        };
        let row = RowBytes { catalog: name, base: 0, tuple, header, page_lsn: Lsn::INVALID };
        match catalog {
            Catalog::Class => {
                let class = ClassRow::decode(self.layout, &row).ok();
                let class = class.filter(|class| class.kind.may_have_storage() && class.kind.name().is_some());
                if let Some(class) = class.filter(|class| class.filenode > 0 && !class.is_shared)
                    && self.classes.len() < MAX_ROWS
                {
                    let spc_oid = if class.spc_oid > 0 { class.spc_oid } else { rel.spc_oid };
                    let of = RelFileLocator { spc_oid, db_oid: rel.db_oid, rel_number: class.filenode };
                    // A page has the same rows each time that it is logged.
                    if self.classes.last().is_none_or(|last| *last != (of, class)) {
                        self.classes.push((of, class));
                    }
                }
            }
            Catalog::Namespace => {
                if let Some(row) = NamedRow::decode(self.layout, &row).ok().filter(|_| self.schemas.len() < MAX_ROWS) {
                    self.schemas.push((rel.db_oid, row));
                }
            }
            Catalog::Database => {
                if let Some(row) =
                    DatabaseRow::decode(self.layout, &row).ok().filter(|_| self.databases.len() < MAX_ROWS)
                {
                    self.databases.push(row);
                }
            }
        }
    }

    /// Adds names of relations without one. The last of several names for the same files wins.
    pub fn name(&self, names: &mut RelationNames) {
        for row in self.databases.iter().rev() {
            names.add_database_of_wal(row);
        }
        for (db_oid, row) in self.schemas.iter().rev() {
            names.add_schema_of_wal(*db_oid, row);
        }
        let is_transient = |row: &ClassRow| rewritten_oid(row).is_some();
        for (rel, row) in self.classes.iter().rev().filter(|(_, row)| !is_transient(row)) {
            names.add_relation_of_wal(*rel, row);
        }
        // What a rewrite leaves over has the files of the table that was rewritten, and is that table to whoever reads WAL.
        let by_oid: HashMap<(u32, u32), RelFileLocator> =
            names.iter().filter_map(|(rel, name)| Some(((rel.db_oid, name.oid?), rel))).collect();
        for (rel, row) in self.classes.iter().rev() {
            let table = rewritten_oid(row).and_then(|oid| by_oid.get(&(rel.db_oid, oid)));
            if let Some(table) = table {
                names.add_files_of_wal(*rel, *table);
            }
        }
    }
}

/// OID of the table whose rewrite made this row, which has the old or the new files for a moment and then goes away.
///
/// Source: `make_new_heap`, `src/backend/commands/cluster.c` (`repack.c` later): `pg_temp_` and the OID.
fn rewritten_oid(row: &ClassRow) -> Option<u32> {
    std::str::from_utf8(row.name.bytes()).ok()?.strip_prefix("pg_temp_")?.parse().ok()
}
