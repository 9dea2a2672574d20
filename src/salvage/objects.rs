//! What a database has beside tables: sequences, large objects, and files that no catalog names.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use super::catalogs::{Catalogs, Relation};
use super::encoding::{Names, in_utf8};
use super::extract::{Work, schema_of};
use super::fields::sequence_value;
use super::out::Output;
use super::rows::{Class, Table, scan};
use super::schema::quoted;
use super::source::DatabaseFiles;
use super::toast::{TOAST_SHAPES, ToastValues};
use super::xacts::Xacts;
use super::{LooseFile, SalvageError};
use crate::cluster::open::AccessError;
use crate::parsers::decode::u32_at;
use crate::parsers::tuple::columns::{Stored, row_columns, unpack};
use crate::rebuild::RebuildError;
use crate::types::Oid;

/// `pg_largeobject`.
const PG_LARGEOBJECT_OID: Oid = 2613;

/// Longest hole of a large object that is written.
const MAX_HOLE_BYTES: usize = 64 << 20;

impl Work<'_> {
    /// The values of sequences, as statements that set them.
    pub(super) fn sequences(
        &self,
        database: &DatabaseFiles,
        catalogs: &Catalogs,
        (names, output): (&Names, &Output),
    ) -> Result<(), SalvageError> {
        let mut text = Vec::new();
        for relation in catalogs.relations.values().filter(|relation| relation.kind == b'S') {
            let Some(files) = database.main_fork(relation.spc_oid, relation.filenode) else { continue };
            let mut found = None;
            self.source.pages(files, &mut |_, page| found = found.or_else(|| sequence_value(page)));
            if let Some((value, is_called)) = found {
                let parts = [schema_of(catalogs, relation), relation.name.clone()].map(|name| names.text(&name));
                let name = parts.map(|name| quoted(&name)).join(".").replace('\'', "''");
                text.extend(format!("SELECT setval('{name}', {value}, {is_called});\n").into_bytes());
            }
        }
        output.write(database, "sequences.sql", &text)
    }

    /// Large objects, as statements that make them, and each in a file of its own. Returns a sentence if they may be incomplete.
    pub(super) fn large_objects(
        &self,
        database: &DatabaseFiles,
        catalogs: &Catalogs,
        (xacts, output): (&mut Xacts<'_>, &Output),
    ) -> Result<Option<String>, SalvageError> {
        let mut objects: BTreeMap<u32, BTreeMap<u32, Vec<u8>>> = BTreeMap::new();
        for row in catalogs.rows.get(&PG_LARGEOBJECT_OID).into_iter().flatten() {
            let columns = row_columns(&row.header, &row.tuple, &TOAST_SHAPES);
            let [Stored::Plain(oid), Stored::Plain(page), data] = columns.as_slice() else { continue };
            let data = match *data {
                Stored::Plain(bytes) => bytes.to_vec(),
                Stored::Compressed { method, raw_bytes, bytes } => unpack(method, raw_bytes, bytes).unwrap_or_default(),
                _ => continue,
            };
            if let Some((oid, page)) = u32_at(oid, 0).zip(u32_at(page, 0)) {
                objects.entry(oid).or_default().insert(page, data);
            }
        }
        let mut statements = Vec::new();
        for oid in &catalogs.large_objects {
            objects.entry(*oid).or_default();
        }
        let page_bytes = self.source.block_size / 4;
        for (oid, pages) in objects {
            let mut file =
                output.begin_in(database, "large_objects", &format!("{oid}.bin")).map_err(RebuildError::from)?;
            let failed = |source| {
                SalvageError::from(RebuildError::from(AccessError::io("write", Path::new("large_objects"), source)))
            };
            statements.extend(format!("SELECT lo_create({oid});\n").into_bytes());
            let mut at = 0_u64;
            for (page, data) in pages {
                let offset = u64::from(page).saturating_mul(page_bytes as u64);
                // What no page holds reads as zeros; a hostile page number makes no long file.
                let gap = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(MAX_HOLE_BYTES);
                file.write_all(&vec![0; gap]).and_then(|()| file.write_all(&data)).map_err(failed)?;
                at = offset.saturating_add(data.len() as u64);
                let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
                statements.extend(format!("SELECT lo_put({oid}, {offset}, '\\x{hex}');\n").into_bytes());
            }
            file.finish().map_err(RebuildError::from)?;
        }
        output.write(database, "large_objects.sql", &statements)?;
        Ok(self.doubtful_objects(database, catalogs, xacts))
    }

    /// A sentence if large objects may lack bytes or have wrong ones.
    fn doubtful_objects(&self, database: &DatabaseFiles, catalogs: &Catalogs, xacts: &mut Xacts<'_>) -> Option<String> {
        let number = catalogs.system_files.get(&PG_LARGEOBJECT_OID).copied().unwrap_or(PG_LARGEOBJECT_OID);
        let files = database.main_fork(0, number)?;
        let rel = (database.oid, number);
        let (mut uncertain, toast) = (0_u64, ToastValues::default());
        let end = scan(self.source, &Table::plain(rel, files, &TOAST_SHAPES), (xacts, self.wal, &toast), &mut |row| {
            uncertain = uncertain.saturating_add(u64::from(matches!(row.class, Class::Uncertain(_))));
        });
        let name = in_utf8(&database.label(), database.encoding);
        let pages = end.lost.len();
        (pages > 0 || uncertain > 0).then(|| {
            format!(
                "{name}: large objects may be incomplete: pg_largeobject has {pages} lossy pages and {uncertain} uncertain rows"
            )
        })
    }
}

/// Beginning of the names of tables whose rows are those of a file that no catalog names.
pub(super) const LOOSE: &str = "file_";

/// Adds a table for each file, with the columns of `like`.
pub(super) fn add_loose(catalogs: &mut Catalogs, like: &str, files: &[LooseFile]) {
    let full = |relation: &Relation| {
        let schema = schema_of(catalogs, relation);
        format!("{}.{}", String::from_utf8_lossy(&schema), String::from_utf8_lossy(&relation.name))
    };
    let model = catalogs.relations.values().find(|relation| relation.has_rows() && full(relation) == like).cloned();
    for file in files.iter().filter(|_| model.is_some()) {
        if let Some(model) = &model {
            let (name, oid) = (format!("{LOOSE}{}", file.name).into_bytes(), file.number);
            let mut table = Relation { oid, name, type_oid: 0, filenode: oid, spc_oid: 0, ..model.clone() };
            (table.pages, table.rivals) = (0, Vec::new());
            catalogs.relations.insert(oid, table);
        }
    }
}
