//! What a database has beside tables: sequences, large objects, and files that no catalog names.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::catalogs::{Catalogs, Relation};
use super::extract::{Work, schema_of};
use super::layout::{Names, in_utf8, sequence_value};
use super::out::Output;
use super::pages::HeapWriter;
use super::rows::{Class, Table, scan};
use super::schema::quoted;
use super::source::{DatabaseFiles, SegmentFiles, mapped_number};
use super::toast::{TOAST_SHAPES, ToastValues};
use super::xacts::Xacts;
use super::{LooseFile, SalvageError};
use crate::cluster::open::AccessError;
use crate::parsers::decode::u32_at;
use crate::parsers::heap::TupleHeader;
use crate::parsers::tuple::columns::{Stored, row_columns, unpack};
use crate::parsers::tuple::index::Tid;
use crate::rebuild::RebuildError;
use crate::rebuild::sandbox::SandboxRun;
use crate::types::Oid;

/// `pg_largeobject`.
const PG_LARGEOBJECT_OID: Oid = 2613;

/// Longest hole of a large object that is written.
const MAX_HOLE_BYTES: usize = 64 << 20;

/// Row of `pg_largeobject`: object, page of it, whether the row is certain, and the place of its copy. The certain row of a page
/// comes last.
type ObjectPage = (Oid, u32, bool, Tid);

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

    /// Main fork of `pg_largeobject`, as WAL names it, and its files.
    fn large_object_files<'d>(
        &self,
        database: &'d DatabaseFiles,
        catalogs: &Catalogs,
    ) -> Option<((Oid, u32), &'d SegmentFiles)> {
        let mapped = || mapped_number(&database.directory, PG_LARGEOBJECT_OID);
        let number = catalogs.system_files.get(&PG_LARGEOBJECT_OID).copied().or_else(mapped);
        let number = number.unwrap_or(PG_LARGEOBJECT_OID);
        Some(((database.oid, number), database.main_fork(0, number)?))
    }

    /// Bytes of `pg_largeobject`; at least 1 where there are large objects without bytes.
    pub(super) fn object_bytes(&self, database: &DatabaseFiles, catalogs: &Catalogs) -> u64 {
        let files = self.large_object_files(database, catalogs);
        let bytes = files.map_or(0, |(_, files)| DatabaseFiles::fork_bytes(files));
        bytes.max(u64::from(!catalogs.large_objects.is_empty()))
    }

    /// The rows of `pg_largeobject`, and a sentence if some are lost or uncertain. `keep`: the place of the copy of a row.
    pub(super) fn object_pages(
        &self,
        database: &DatabaseFiles,
        catalogs: &Catalogs,
        xacts: &mut Xacts<'_>,
        keep: &mut dyn FnMut(&[u8]) -> Option<Tid>,
    ) -> (Vec<ObjectPage>, Option<String>) {
        let mut pages = Vec::new();
        let Some((rel, files)) = self.large_object_files(database, catalogs) else { return (pages, None) };
        let (table, toast) = (Table::plain(rel, files, &TOAST_SHAPES), ToastValues::default());
        let mut uncertain = 0_u64;
        let end = scan(self.source, &table, (xacts, self.wal, &toast), &mut |row| {
            let is_certain = row.class == Class::Row;
            uncertain = uncertain.saturating_add(u64::from(matches!(row.class, Class::Uncertain(_))));
            let number = |column: usize| u32_at(row.bytes, row.spans.get(column)?.start);
            if let Some((oid, page)) = number(0).zip(number(1)).filter(|_| row.class != Class::Dead)
                && let Some(place) = keep(row.bytes)
            {
                pages.push((oid, page, is_certain, place));
            }
        });
        pages.sort_unstable();
        let name = in_utf8(&database.label(), database.encoding);
        let lossy = end.lost.len();
        let doubt = format!(
            "{name}: large objects may be incomplete: pg_largeobject has {lossy} lossy pages and {uncertain} uncertain rows"
        );
        (pages, (lossy > 0 || uncertain > 0).then_some(doubt))
    }

    /// Large objects, as statements that make them, and each in a file of its own. Returns a sentence if they may be incomplete.
    pub(super) fn large_objects(
        &self,
        database: &DatabaseFiles,
        catalogs: &Catalogs,
        (xacts, output): (&mut Xacts<'_>, &Output),
        run: &SandboxRun,
    ) -> Result<Option<String>, SalvageError> {
        // Objects that were written by turns lie mixed: their rows are copied first, then read object by object.
        let mut copy =
            HeapWriter::create(run, Path::new("large_objects"), self.source.block_size).map_err(RebuildError::from)?;
        let mut copied = Ok(());
        let (pages, doubt) = self.object_pages(database, catalogs, xacts, &mut |row| {
            let added = if copied.is_ok() { copy.add(row) } else { Ok(None) };
            added.unwrap_or_else(|error| {
                copied = Err(error);
                None
            })
        });
        copied.map_err(RebuildError::from)?;
        let mut oids: BTreeSet<Oid> = catalogs.large_objects.iter().copied().collect();
        oids.extend(pages.iter().map(|(oid, ..)| *oid));
        let name = "large_objects.sql";
        let mut script = BufWriter::new(output.begin(database, name).map_err(RebuildError::from)?);
        let failed = |source| SalvageError::from(RebuildError::from(AccessError::io("write", Path::new(name), source)));
        for oid in oids {
            let file = format!("{oid}.bin");
            let mut file = output.begin_in(database, "large_objects", &file).map_err(RebuildError::from)?;
            writeln!(script, "SELECT lo_create({oid});").map_err(failed)?;
            let first = pages.partition_point(|(other, ..)| *other < oid);
            let own = pages.get(first..).unwrap_or_default().iter().take_while(|(other, ..)| *other == oid);
            let mut own = own.peekable();
            let mut at = 0_u64;
            while let Some((_, page, _, place)) = own.next() {
                if own.peek().is_some_and(|next| next.1 == *page) {
                    continue;
                }
                let row = copy.tuple(*place).map_err(RebuildError::from)?;
                let Some(data) = row.as_deref().and_then(object_bytes) else { continue };
                let offset = u64::from(*page).saturating_mul(self.source.block_size as u64 / 4);
                // What no page holds reads as zeros; a hostile page number makes no long file.
                let gap = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(MAX_HOLE_BYTES);
                file.write_all(&vec![0; gap]).and_then(|()| file.write_all(&data)).map_err(failed)?;
                at = offset.saturating_add(data.len() as u64);
                let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or_default();
                let hex: String = data.iter().flat_map(|byte| [byte >> 4, byte & 0xF].map(digit)).collect();
                writeln!(script, "SELECT lo_put({oid}, {offset}, '\\x{hex}');").map_err(failed)?;
            }
            file.finish().map_err(RebuildError::from)?;
        }
        let script = script.into_inner().map_err(|error| failed(error.into_error()))?;
        script.finish().map_err(RebuildError::from)?;
        Ok(doubt)
    }
}

/// The bytes of a page of a large object.
///
/// Source: `FormData_pg_largeobject`, `src/include/catalog/pg_largeobject.h`.
fn object_bytes(row: &[u8]) -> Option<Vec<u8>> {
    let header = TupleHeader::decode(0, row).ok()?;
    match *row_columns(&header, row, &TOAST_SHAPES).get(2)? {
        Stored::Plain(bytes) => Some(bytes.to_vec()),
        Stored::Compressed { method, raw_bytes, bytes } => unpack(method, raw_bytes, bytes),
        _ => None,
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
