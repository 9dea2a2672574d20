//! Files of tablespaces that are lost without a trace but in the dictionary.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::source::InnodbSource;
use crate::analysis::finding::Coverage;
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::cluster::innodb::dictionary::{DictionaryFault, named_files};
use crate::cluster::innodb::redo_log::Family;
use crate::cluster::innodb::tablespace::{DICTIONARY_SPACE, NoSpace, PageReader, Tablespace};
use crate::parsers::innodb::dictionary::NamedFile;
use crate::parsers::innodb::layout::{TRX_SYSTEM_PAGE, rollback_spaces};

/// Files that are named one by one.
const MAX_NAMED: usize = 1000;

/// How tables begin, after the database, that exist only while a table is changed.
const INTERMEDIATE: &str = "#sql";

/// Reports files that the dictionary lists and that were not found, and pages of it that could not be read. The dictionary in its file may
/// be older than the redo log, which is not read: a table that was dropped is reported too.
pub fn note_missing_files(source: &InnodbSource, coverage: &mut Coverage) {
    let mut missing: Vec<NamedFile> = Vec::new();
    let mut takes = |file: NamedFile| {
        let is_found = match file.space_id {
            Some(id) => source.spaces.get(id).is_some(),
            None => is_examined(source, &file.path),
        };
        if missing.len() <= MAX_NAMED && !is_found && !is_intermediate(&file.path) {
            missing.push(file);
        }
    };
    let read = named_files(&source.root, &source.spaces, &source.doublewrite, &mut takes);
    let is_cut = missing.len() > MAX_NAMED;
    for file in missing.into_iter().take(MAX_NAMED) {
        let at = source.root.join(&file.path);
        // A file that is there, whatever is in it, and one to which a link leads, are spoken of elsewhere.
        let path = file.path.strip_prefix("./").unwrap_or(&file.path);
        let is_empty = |(name, why): &(PathBuf, NoSpace)| name == Path::new(path) && matches!(why, NoSpace::Empty);
        let is_emptied = source.spaces.unknown.iter().any(is_empty);
        let is_inside = at.strip_prefix(&source.root).is_ok_and(|inside| !leads_out(inside));
        let is_known = is_inside && at.symlink_metadata().is_ok() && !is_emptied;
        if is_known || at.with_extension("isl").symlink_metadata().is_ok() {
            continue;
        }
        let reason = match at.symlink_metadata() {
            Ok(_) if !is_emptied => SkipReason::OutsideDataDirectory { path: file.path.clone() },
            _ => SkipReason::NamedFileMissing { space_id: file.space_id },
        };
        coverage.skip(SkippedPart::file(path), reason);
    }
    if is_cut {
        coverage.skip(SkippedPart::RestOfTablespaces, SkipReason::TooManyMissing { limit: MAX_NAMED });
    }
    note_missing_undo(source, coverage);
    let name = source.spaces.get(DICTIONARY_SPACE).or_else(|| source.spaces.get(0)).map(Tablespace::name);
    let part = SkippedPart::file(name.as_deref().unwrap_or("ibdata1"));
    match read {
        Ok(()) => {}
        Err(DictionaryFault::Page(page_no)) => {
            coverage.skip(part, SkipReason::DictionaryNotRead { page_no: Some(page_no) });
        }
        Err(DictionaryFault::NotFound) => coverage.skip(part, SkipReason::DictionaryNotRead { page_no: None }),
        Err(DictionaryFault::Access(error)) => coverage.skip_once(part, error),
    }
}

/// Says which files of undo logs rollback segments name that are not there. In MySQL 8 and later the dictionary names them.
fn note_missing_undo(source: &InnodbSource, coverage: &mut Coverage) {
    if source.family == Family::Mysql8 {
        return;
    }
    let Some(system) = source.spaces.get(0) else { return };
    let page = PageReader::new(&source.root).page(system, TRX_SYSTEM_PAGE).ok().flatten().unwrap_or_default();
    if !source.doublewrite.state_of(&page, system, TRX_SYSTEM_PAGE).is_sound() {
        let reason = SkipReason::DictionaryNotRead { page_no: Some(TRX_SYSTEM_PAGE) };
        return coverage.skip(SkippedPart::file(system.name()), reason);
    }
    // In MySQL 5.7 the first ones after that of the system tablespace are of temporary tables.
    let ignored = if source.family == Family::Mysql57 { 1..=32 } else { 128..=128 };
    let named = rollback_spaces(&page, ignored);
    for space_id in named.into_iter().filter(|id| source.spaces.get(*id).is_none()) {
        // Servers make them first of all, and name each by its number.
        let name = format!("undo{space_id:03}");
        let reason = SkipReason::NamedFileMissing { space_id: Some(space_id) };
        coverage.skip(SkippedPart::file(name), reason);
    }
}

/// True for the file of a tablespace that was found, by its path as the server has it. Of a path out of the data directory the name
/// alone counts where the option file told the directory: a copy of it may be examined.
fn is_examined(source: &InnodbSource, path: &str) -> bool {
    let path = path.strip_prefix("./").unwrap_or(path);
    let is_elsewhere = leads_out(path);
    let real = is_elsewhere.then(|| fs::canonicalize(source.root.join(path)).ok()).flatten();
    let is_it = |found: &Path| {
        let is_named = is_elsewhere && leads_out(found) && found.file_name() == Path::new(path).file_name();
        found == Path::new(path)
            || (real.is_some() && fs::canonicalize(source.root.join(found)).ok() == real)
            || (real.is_none() && is_named)
    };
    source.spaces.all.iter().flat_map(|space| &space.files).any(|file| is_it(&file.path))
}

/// True for a path that may lead out of the data directory.
fn leads_out(path: impl AsRef<Path>) -> bool {
    path.as_ref().components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
}

fn is_intermediate(path: &str) -> bool {
    let name = Path::new(path).file_name().unwrap_or_default();
    name.to_string_lossy().starts_with(INTERMEDIATE)
}
