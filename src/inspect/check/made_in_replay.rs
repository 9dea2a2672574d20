//! What replay makes of things outside WAL: tablespaces in directories that somebody else keeps, databases copied from what is there now.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::{FindingKind, TablespaceFault};
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::analysis::verdict::check::CheckReport;
use crate::analysis::verdict::outlook::{Obstacle, Outlook, StartConditions};
use crate::analysis::verdict::replay::Recovery;
use crate::cluster::config_files::ConfigFault;
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationNames;
use crate::cluster::open::{AccessError, list, real_directory};
use crate::cluster::relation_path::RelationPaths;
use crate::cluster::server_files::is_missing;
use crate::cluster::settings::{Settings, is_true};
use crate::parsers::catalog::FIRST_NORMAL_OID;
use crate::parsers::wal::tablespace::TablespaceCreated;

/// Adds what comes of it to the outlook, and says what it is.
///
/// Sources: `dbase_redo`, `src/backend/commands/dbcommands.c`; `create_tablespace_directories` and `remove_tablespace_symlink`, `src/backend/commands/tablespace.c`;
/// `CheckTablespaceDirectory`, `src/backend/access/transam/xlogrecovery.c`; servers of 10 to 19 that were started so.
pub(super) fn settle_made(
    directory: &DataDir,
    settings: &Settings,
    (names, paths): (&RelationNames, &RelationPaths),
    report: &mut CheckReport,
) -> Vec<Finding> {
    let (replay, made) = (&report.replay, report.history.made());
    let Some(redo_lsn) = replay.redo_lsn.filter(|_| replay.recovery.replays()) else { return Vec::new() };
    if report.history.may_lack_copies(redo_lsn) {
        // Replay may overwrite rows that no record has, or cut them off.
        report.coverage.skip_once(SkippedPart::Wal, SkipReason::CopiesUnlogged);
    }
    if let Some(from) = made.left_out() {
        report.coverage.skip_once(SkippedPart::Wal, SkipReason::MadeNotFollowed { from });
    }
    let mut found: Vec<Finding> = Vec::new();
    for made in made.tablespaces(redo_lsn) {
        match fault_of(directory, made) {
            Ok(fault) => found.extend(fault),
            Err(error) => report.coverage.skip_once(SkippedPart::file(made.location.display().to_string()), &error),
        }
    }
    if matches!(replay.recovery, Recovery::Archive | Recovery::Backup) {
        found.extend(real_tablespaces(directory, settings));
    }
    let mut obstacle = (!found.is_empty()).then_some(Obstacle::Start);
    for copy in made.copies(redo_lsn) {
        let (from_db, from_spc) = copy.source;
        let from = paths.directory(from_spc, from_db);
        let is_missing = is_missing(directory, &from);
        // Nobody changes this one.
        if !is_missing && from_db < FIRST_NORMAL_OID && names.database(from_db) == Some("template0") {
            continue;
        }
        obstacle = obstacle.max(Some(if is_missing { Obstacle::Connections } else { Obstacle::Replay }));
        let source = from.display().to_string();
        let kind = FindingKind::DatabaseCopied { record_lsn: copy.record_lsn, source, is_missing };
        let (db_oid, spc_oid) = copy.made;
        found.push(Finding::problem(kind).in_file(&paths.directory(spc_oid, db_oid).display().to_string()));
    }
    if replay.fetches_wal && report.history.is_minimal_from(redo_lsn) {
        obstacle = obstacle.max(Some(Obstacle::Start));
        let kind = FindingKind::Configuration(ConfigFault::MinimalWal);
        found.push(Finding::problem(kind).in_file("pg_wal"));
    }
    if obstacle.is_some() {
        let given = report.outlook.given.clone();
        let obstacle = given.obstacle.max(obstacle);
        report.outlook = Outlook::of(&report.pages, &report.replay, StartConditions { obstacle, ..given });
    }
    found
}

/// What keeps a server from making it there.
fn fault_of(directory: &DataDir, made: &TablespaceCreated) -> Result<Option<Finding>, AccessError> {
    // One that lies in the data directory, as tests of the server have them, has no other place.
    if !made.location.is_absolute() {
        return Ok(None);
    }
    let examined = |path: &Path| path.metadata().map_err(|source| AccessError::io("examine", path, source));
    let path = Path::new("pg_tblspc").join(made.spc_oid.to_string());
    let link = directory.root().join(&path);
    let why = match examined(&made.location) {
        Err(error) if error.is_not_found() => TablespaceFault::Missing,
        Err(error) => return Err(error),
        Ok(found) if !found.is_dir() => TablespaceFault::NotADirectory,
        Ok(found) if found.uid() != examined(directory.root())?.uid() => {
            TablespaceFault::OtherOwner { uid: found.uid() }
        }
        Ok(_) if real_directory(&link).is_ok() && !list(&link)?.is_empty() => TablespaceFault::NoLink,
        Ok(_) => return Ok(None),
    };
    let location = made.location.display().to_string();
    let kind = FindingKind::TablespaceOfWal { record_lsn: made.record_lsn, location, why };
    Ok(Some(Finding::problem(kind).in_file(&path.display().to_string())))
}

/// Directories where servers have links: copies that followed them.
fn real_tablespaces(directory: &DataDir, settings: &Settings) -> Vec<Finding> {
    if settings.get("allow_in_place_tablespaces").is_some_and(is_true) {
        return Vec::new();
    }
    let of = Path::new("pg_tblspc");
    let is_number = |name: &OsString| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    // That it cannot be listed is said where relations are looked for.
    let held = list(&directory.root().join(of)).unwrap_or_default();
    let real = held.into_iter().filter(|(name, kind)| kind.is_dir() && is_number(name));
    real.map(|(name, _)| Finding::problem(FindingKind::TablespaceNoLink).in_file(&of.join(name).display().to_string()))
        .collect()
}
