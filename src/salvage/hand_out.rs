//! The rows that a server printed, as files of the output.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write;
use std::path::PathBuf;

use super::extract::Wanted;
use super::out::{Output, copy_rows};
use super::print::Session;
use super::source::DatabaseFiles;
use super::xacts::Why;
use super::{SalvageError, TableReport};
use crate::cluster::open::{AccessError, ReadFile};
use crate::rebuild::RebuildError;
use crate::repair::export::NewFile;
use crate::types::Oid;

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
