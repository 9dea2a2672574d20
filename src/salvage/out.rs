//! The directory that the rows go to: one directory for each database, and names that no catalog can make a path of.
//! Also here: the rows that a server printed, as files of the output.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use super::catalogs::Relation;
use super::extract::Wanted;
use super::print::Session;
use super::rows::{Class, PageLoss, Row};
use super::source::DatabaseFiles;
use super::xacts::Why;
use super::{RowFormat, SalvageError, TableReport};
use crate::cluster::open::{AccessError, ReadFile};
use crate::parsers::tuple::index::Tid;
use crate::rebuild::RebuildError;
use crate::repair::export::{ExportDir, NewFile};
use crate::repair::outside::OutsideError;
use crate::types::Oid;

/// Longest part of a name of a file; with what follows it no file system refuses it.
const MAX_NAME_BYTES: usize = 180;

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// A new directory, or an empty one, outside of all data.
#[derive(Debug)]
pub(crate) struct Output {
    directory: ExportDir,
}

/// A name from a catalog as a part of a file name.
pub(crate) fn escaped(name: &[u8]) -> String {
    let mut text = String::new();
    for byte in name {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => text.push(char::from(*byte)),
            b'.' if !text.is_empty() => text.push('.'),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The beginning of the names of the files of a table.
pub(crate) fn copy_file_name(schema: &[u8], table: &[u8], oid: u32) -> String {
    let is_plain = !schema.contains(&b'.') && !table.contains(&b'.');
    let name = format!("{}.{}", escaped(schema), escaped(table));
    if name.len() > MAX_NAME_BYTES {
        return format!("table.{oid}");
    }
    // A dot inside a name could make two tables share a file.
    if is_plain { name } else { format!("{name}.{oid}") }
}

impl Output {
    pub fn create(path: &Path, protected: &[PathBuf]) -> Result<Self, OutsideError> {
        Ok(Self { directory: ExportDir::create_empty(path, protected)? })
    }

    /// Name of the directory of a database.
    pub fn directory(&self, database: &DatabaseFiles) -> String {
        let name = escaped(&database.label());
        if name.is_empty() || name.len() > MAX_NAME_BYTES { database.oid.to_string() } else { name }
    }

    pub fn begin(&self, database: &DatabaseFiles, name: &str) -> Result<NewFile, AccessError> {
        self.directory.begin(&[&self.directory(database)], name)
    }

    pub fn begin_in(&self, database: &DatabaseFiles, directory: &str, name: &str) -> Result<NewFile, AccessError> {
        self.directory.begin(&[&self.directory(database), directory], name)
    }

    pub fn write(&self, database: &DatabaseFiles, name: &str, bytes: &[u8]) -> Result<(), SalvageError> {
        let file = self.begin(database, name).map_err(RebuildError::from)?;
        write_whole(file, bytes)
    }

    /// Writes a file of the whole.
    pub fn write_top(&self, name: &str, bytes: &[u8]) -> Result<(), SalvageError> {
        self.directory.write_new(name, bytes).map_err(RebuildError::from)?;
        Ok(())
    }

    /// Notes on rows of a table.
    pub fn notes<'a>(&'a self, database: &'a DatabaseFiles, base: &str) -> Notes<'a> {
        Notes { output: self, database, base: base.to_owned(), files: [const { None }; 4] }
    }
}

fn write_whole(mut file: NewFile, bytes: &[u8]) -> Result<(), SalvageError> {
    let path = file.path().to_owned();
    file.write_all(bytes).map_err(|source| RebuildError::from(AccessError::io("write", &path, source)))?;
    file.finish().map_err(RebuildError::from)?;
    Ok(())
}

/// Names of files with notes, and their columns.
const NOTES: [(&str, &[&str]); 4] = [
    ("uncertain.csv", &["ctid", "why", "xmin", "xmax"]),
    ("deleted.csv", &["ctid", "xmin", "xmax"]),
    ("toast.csv", &["ctid", "class", "column", "chunks", "expected_chunks"]),
    ("missing.csv", &["ctid"]),
];

/// Files beside the rows of a table, made when the first note comes.
pub(crate) struct Notes<'a> {
    output: &'a Output,
    database: &'a DatabaseFiles,
    base: String,
    files: [Option<csv::Writer<NewFile>>; 4],
}

impl Notes<'_> {
    fn line(&mut self, which: usize, fields: &[&[u8]]) -> Result<(), SalvageError> {
        let Some((suffix, columns)) = NOTES.get(which) else { return Ok(()) };
        let Some(slot) = self.files.get_mut(which) else { return Ok(()) };
        let writer = match slot {
            Some(writer) => writer,
            None => {
                let file =
                    self.output.begin(self.database, &format!("{}.{suffix}", self.base)).map_err(RebuildError::from)?;
                let writer = slot.insert(csv::Writer::from_writer(file));
                writer.write_record(*columns)?;
                writer
            }
        };
        Ok(writer.write_record(fields)?)
    }

    /// Adds a row and its notes.
    pub fn add(&mut self, row: &Row<'_>, relation: &Relation) -> Result<(), SalvageError> {
        if row.class == Class::Row && row.lost.is_empty() {
            return Ok(());
        }
        let ctid = format!("({},{})", row.block, row.item);
        let (xmin, xmax) = (row.header.xmin.to_string(), row.header.xmax.to_string());
        let class = match row.class {
            Class::Row => "rows",
            Class::Uncertain(why) => {
                self.line(0, &[ctid.as_bytes(), why.code().as_bytes(), xmin.as_bytes(), xmax.as_bytes()])?;
                "uncertain"
            }
            Class::Dead => {
                self.line(1, &[ctid.as_bytes(), xmin.as_bytes(), xmax.as_bytes()])?;
                "deleted"
            }
        };
        for (column, chunks, expected) in row.lost {
            let number = u16::try_from(column.saturating_add(1)).unwrap_or_default();
            let name = relation.columns.get(&number).map(|column| column.name.as_slice()).unwrap_or_default();
            let (chunks, expected) = (chunks.to_string(), expected.to_string());
            self.line(2, &[ctid.as_bytes(), class.as_bytes(), name, chunks.as_bytes(), expected.as_bytes()])?;
        }
        Ok(())
    }

    /// Adds the place of a lost row whose key is known.
    pub fn missing(&mut self, (block, item): Tid) -> Result<(), SalvageError> {
        self.line(3, &[format!("({block},{item})").as_bytes()])
    }

    /// Writes the pages that gave no row or not all, and ends the files.
    pub fn finish(self, lost: &[(u32, PageLoss, u64)]) -> Result<(), SalvageError> {
        for writer in self.files.into_iter().flatten() {
            let file = writer.into_inner().map_err(|error| SalvageError::Csv(error.into_error().into()))?;
            file.finish().map_err(RebuildError::from)?;
        }
        if !lost.is_empty() {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(["block", "why", "rejected_tuples"])?;
            for (block, loss, rejected) in lost {
                writer.write_record([block.to_string().as_str(), loss.code(), rejected.to_string().as_str()])?;
            }
            let bytes = writer.into_inner().map_err(|error| SalvageError::Csv(error.into_error().into()))?;
            self.output.write(self.database, &format!("{}.lost.csv", self.base), &bytes)?;
        }
        Ok(())
    }
}

/// Copies rows; those that are not UTF-8, where that is asked, are returned instead.
pub(crate) fn copy_rows(
    file: ReadFile,
    target: &mut dyn Write,
    (format, checks): (RowFormat, bool),
) -> Result<Vec<Vec<u8>>, RebuildError> {
    let path = file.path().to_owned();
    let failed = |source| RebuildError::from(AccessError::io("copy", &path, source));
    let is_clean = !checks || is_utf8(&file)?;
    let mut reader = BufReader::with_capacity(CHUNK_BYTES, file.into_reader());
    if is_clean {
        io::copy(&mut reader, target).map_err(failed)?;
        return Ok(Vec::new());
    }
    let mut stray = Vec::new();
    let mut rest: Vec<u8> = Vec::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let filled = reader.read(&mut buffer).map_err(failed)?;
        rest.extend_from_slice(buffer.get(..filled).unwrap_or_default());
        let ends = format.row_ends(&rest);
        let later = rest.split_off(ends.last().copied().unwrap_or_default());
        let mut start = 0;
        for end in ends {
            let row = rest.get(start..end).unwrap_or_default();
            start = end;
            match std::str::from_utf8(row) {
                Ok(_) => target.write_all(row).map_err(failed)?,
                Err(_) => stray.push(row.to_vec()),
            }
        }
        rest = later;
        if filled == 0 {
            target.write_all(&rest).map_err(failed)?;
            return Ok(stray);
        }
    }
}

fn is_utf8(file: &ReadFile) -> Result<bool, AccessError> {
    let mut buffer = vec![0; CHUNK_BYTES];
    // A character that the chunk cut is read again with the next one.
    let (mut offset, mut carried) = (0_u64, 0);
    loop {
        let filled = file.read_at(buffer.get_mut(carried..).unwrap_or_default(), offset)?;
        let text = buffer.get(..carried.saturating_add(filled)).unwrap_or_default();
        if filled == 0 {
            return Ok(text.is_empty());
        }
        offset = offset.saturating_add(filled as u64);
        let valid = match std::str::from_utf8(text) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_some() => return Ok(false),
            Err(error) => error.valid_up_to(),
        };
        let end = text.len();
        carried = end.saturating_sub(valid);
        buffer.copy_within(valid..end, 0);
    }
}

/// Tables of the sandbox that hold the rows of one table, by what they are.
pub(super) struct Copies {
    pub oids: [Oid; 4],
    pub counts: [Vec<u16>; 4],
}

/// The kinds of rows (the last: keys of lost ones), and what is put before the format in the names of their files.
const KINDS: [&str; 4] = ["", ".uncertain", ".deleted", ".missing"];

/// Has the server print the rows of tables of the sandbox. `checks`: certain rows that are not UTF-8 become uncertain.
pub(super) fn hand_out(
    database: &DatabaseFiles,
    copies: &[(Wanted<'_>, Copies)],
    (session, reports, output): (&mut Session<'_>, &mut [TableReport], &Output),
    checks: bool,
) -> Result<(), SalvageError> {
    let mut asked: Vec<(usize, usize)> = Vec::new();
    let mut tables: Vec<(Oid, Vec<u16>)> = Vec::new();
    for (index, (_, copies)) in copies.iter().enumerate() {
        for (kind, (oid, counts)) in copies.oids.iter().zip(&copies.counts).enumerate() {
            if kind == 0 || !counts.is_empty() {
                asked.push((index, kind));
                tables.push((*oid, counts.clone()));
            }
        }
    }
    let format = session.format;
    let mut files: HashMap<(usize, usize), NewFile> = HashMap::new();
    let mut lost: Vec<(usize, usize, u64)> = Vec::new();
    let mut strays: Vec<(usize, Vec<u8>)> = Vec::new();
    let name_of = |reports: &[TableReport], index: usize, kind: usize| {
        let report = copies.get(index).and_then(|(table, _)| reports.get(table.report))?;
        let base = report.file_name();
        Some(format!("{base}{}.{}", KINDS.get(kind)?, format.suffix()))
    };
    let mut take = |at: usize, file: ReadFile| -> Result<(), RebuildError> {
        let Some((index, kind)) = asked.get(at).copied() else { return Ok(()) };
        if let Entry::Vacant(entry) = files.entry((index, kind)) {
            let Some(name) = name_of(reports, index, kind) else { return Ok(()) };
            entry.insert(output.begin(database, &name)?);
        }
        let Some(target) = files.get_mut(&(index, kind)) else { return Ok(()) };
        let stray = copy_rows(file, target, (format, checks && kind == 0))?;
        strays.extend(stray.into_iter().map(|line| (index, line)));
        Ok(())
    };
    session.print(&tables, &mut take, &mut |at, page, item| {
        if let Some((index, kind)) = asked.get(at) {
            let counts = tables.get(at).map(|(_, counts)| counts.as_slice()).unwrap_or_default();
            let before: u64 =
                counts.iter().take(usize::try_from(page).unwrap_or(usize::MAX)).map(|count| u64::from(*count)).sum();
            lost.push((*index, *kind, before.saturating_add(u64::from(item)).saturating_sub(1)));
        }
    })?;
    for (index, line) in strays {
        let key = (index, 1);
        if let Entry::Vacant(entry) = files.entry(key) {
            let Some(name) = name_of(reports, index, 1) else { continue };
            entry.insert(output.begin(database, &name).map_err(RebuildError::from)?);
        }
        if let Some(file) = files.get_mut(&key) {
            file.write_all(&line).map_err(|source| {
                SalvageError::from(RebuildError::from(AccessError::io("write", file.path(), source)))
            })?;
        }
        if let Some(report) = copies.get(index).and_then(|(table, _)| reports.get_mut(table.report)) {
            report.move_to_uncertain(Why::NotInEncoding);
        }
    }
    for ((index, kind), file) in files {
        let name = name_of(reports, index, kind);
        file.finish().map_err(RebuildError::from)?;
        let Some((table, _)) = copies.get(index) else { continue };
        let Some(report) = reports.get_mut(table.report) else { continue };
        let path = PathBuf::from(output.directory(database)).join(name.unwrap_or_default());
        if let Some(slot) = report.files.get_mut(kind) {
            *slot = Some(path);
        }
    }
    for (index, kind, _) in lost {
        if let Some(report) = copies.get(index).and_then(|(table, _)| reports.get_mut(table.report)) {
            report.not_printed(kind);
        }
    }
    Ok(())
}
