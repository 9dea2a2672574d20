//! Actions of recovery outside WAL: tablespaces in external directories, databases copied from present files.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::analysis::start::cluster_condition::Obstacle;
use crate::analysis::start::replay::Recovery;
use crate::analysis::start::server_files::rules::CONFIGURATION;
use crate::analysis::verdict::check::CheckReport;
use crate::analysis::verdict::outlook::{Outlook, StartConditions};
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationNames;
use crate::cluster::open::{AccessError, list, real_directory};
use crate::cluster::relation_path::RelationPaths;
use crate::cluster::server_files::is_missing;
use crate::cluster::settings::{ConfigFault, Settings, is_true};
use crate::parsers::catalog::FIRST_NORMAL_OID;
use crate::parsers::wal::lifecycle::TablespaceCreated;
use crate::report::{Finding, rules};

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
        let what =
            format!("the record at {} has replay remove this database and copy it from {source}", copy.record_lsn);
        let finding = if is_missing {
            DATABASE_COPIED.problem(format!("{what}, which does not exist")).because(SOURCE_MISSING)
        } else {
            DATABASE_COPIED.problem(what)
        };
        let (db_oid, spc_oid) = copy.made;
        found.push(finding.in_file(&paths.directory(spc_oid, db_oid).display().to_string()));
    }
    if replay.fetches_wal && report.history.is_minimal_from(redo_lsn) {
        obstacle = obstacle.max(Some(Obstacle::Start));
        found.push(CONFIGURATION.problem(ConfigFault::MinimalWal.to_string()).in_file("pg_wal"));
    }
    if obstacle.is_some() {
        let given = report.outlook.given.clone();
        let obstacle = given.obstacle.max(obstacle);
        report.outlook = Outlook::of(&report.pages, &report.replay, StartConditions { obstacle, ..given });
    }
    found
}

/// Fault that keeps a server from creating it.
fn fault_of(directory: &DataDir, made: &TablespaceCreated) -> Result<Option<Finding>, AccessError> {
    // One that lies in the data directory, as tests of the server have them, has no other place.
    if !made.location.is_absolute() {
        return Ok(None);
    }
    let examined = |path: &Path| path.metadata().map_err(|source| AccessError::io("examine", path, source));
    let path = Path::new("pg_tblspc").join(made.spc_oid.to_string());
    let link = directory.root().join(&path);
    let why = match examined(&made.location) {
        Err(error) if error.is_not_found() => "which does not exist".to_owned(),
        Err(error) => return Err(error),
        Ok(found) if !found.is_dir() => "which is no directory".to_owned(),
        Ok(found) if found.uid() != examined(directory.root())?.uid() => {
            format!("which belongs to another user, {}", found.uid())
        }
        Ok(_) if real_directory(&link).is_ok() && !list(&link)?.is_empty() => {
            "and a directory with files is where its link should be".to_owned()
        }
        Ok(_) => return Ok(None),
    };
    let location = made.location.display().to_string();
    let what = format!("the record at {} makes this tablespace in {location}, {why}", made.record_lsn);
    Ok(Some(TABLESPACE_OF_WAL.problem(what).in_file(&path.display().to_string())))
}

/// Directories where servers have links: copies that followed them.
fn real_tablespaces(directory: &DataDir, settings: &Settings) -> Vec<Finding> {
    if settings.get("allow_in_place_tablespaces").is_some_and(is_true) {
        return Vec::new();
    }
    let of = Path::new("pg_tblspc");
    let is_number = |name: &OsString| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    // The search for relations reports a directory that cannot be listed.
    let held = list(&directory.root().join(of)).unwrap_or_default();
    let real = held.into_iter().filter(|(name, kind)| kind.is_dir() && is_number(name));
    real.map(|(name, _)| {
        TABLESPACE_NO_LINK
            .problem("a directory, where servers have a link")
            .in_file(&of.join(name).display().to_string())
    })
    .collect()
}

const SOURCE_MISSING: &str = "the server starts, and the database is silently empty: restore the other directory \
    before startup, or the whole cluster from one consistent copy";

rules! {
    TABLESPACE_OF_WAL: ServerFiles "tablespace_of_wal",
        why: "recovery ends there, and the server does not start: create the directory, empty, for the user who runs \
            the server",
        means: "A record after the redo point creates a tablespace, and recovery ends there: its directory is \
            missing, is not a directory or belongs to another user, or a directory with files is where its link \
            should be",
        action: "Create the directory, empty, for the user who runs the server; move away whatever is where its link \
            should be";
    TABLESPACE_NO_LINK: ServerFiles "tablespace_no_link",
        why: "a copy followed the links: recovery of a backup or standby fails here. Move the directory elsewhere and \
            link to it, or set allow_in_place_tablespaces",
        means: "`pg_tblspc` has a directory where servers have a link, as a copy that follows links creates it, and a \
            backup or standby is recovered: recovery fails unless `allow_in_place_tablespaces` is on",
        action: "Move it elsewhere and create a link to it";
    DATABASE_COPIED: ServerFiles "database_copied",
        why: "changes and damage in the source database since then are copied into this one. Pages of the source that \
            recovery fixes do not help: the copy is made before. Recreate a standby instead of starting it",
        means: "A record after the redo point has recovery remove a database and copy it from another database's \
            files as they are now. If the other database is missing (`start` is `not_usable`), the copy is silently \
            empty; if it was changed or damaged later, so is the copy (`start` is `unknown`). Reported for standbys, \
            backups and crashes just after `CREATE DATABASE` or `ALTER DATABASE SET TABLESPACE`, except from \
            `template0`",
        action: "Recreate the standby, or restore a later backup";
}
