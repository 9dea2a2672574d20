//! What replay makes of things outside WAL: tablespaces in directories that somebody else keeps, databases copied from what is there now.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::analysis::server_files::rules::CONFIGURATION;
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
            DATABASE_COPIED.problem(format!("{what}, which is not there")).because(SOURCE_MISSING)
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
        Err(error) if error.is_not_found() => "which is not there".to_owned(),
        Err(error) => return Err(error),
        Ok(found) if !found.is_dir() => "which is no directory".to_owned(),
        Ok(found) if found.uid() != examined(directory.root())?.uid() => {
            format!("which belongs to another user, {}", found.uid())
        }
        Ok(_) if real_directory(&link).is_ok() && !list(&link)?.is_empty() => {
            "and in place of its link there is a directory with files".to_owned()
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
    // That it cannot be listed is said where relations are looked for.
    let held = list(&directory.root().join(of)).unwrap_or_default();
    let real = held.into_iter().filter(|(name, kind)| kind.is_dir() && is_number(name));
    real.map(|(name, _)| {
        TABLESPACE_NO_LINK
            .problem("a directory, where servers have a link")
            .in_file(&of.join(name).display().to_string())
    })
    .collect()
}

const SOURCE_MISSING: &str = "the server starts, and the database is empty, without a word: bring the other directory back before the \
    start, or the whole cluster from a copy of one moment";

rules! {
    TABLESPACE_OF_WAL: ServerFiles "tablespace_of_wal",
        why: "replay ends there, and no server starts: make the directory, empty, for the user that the server runs as",
        means: "A record from the redo point on makes a tablespace in a directory that is not there, is none or belongs to \
            another user, or in place of its link there is a directory with files: replay ends there, and no server starts",
        action: "Make the directory, empty, for the user that the server runs as; move away what is in place of the link";
    TABLESPACE_NO_LINK: ServerFiles "tablespace_no_link",
        why: "a copy that followed the links: recovery from a backup or of a standby ends over it. Move it elsewhere and set a \
            link to it, or set allow_in_place_tablespaces",
        means: "In `pg_tblspc` a directory stands where servers have a link, as a copy makes it that follows links, and a backup \
            or a standby is recovered: a server ends over it unless `allow_in_place_tablespaces` is on",
        action: "Move it elsewhere and set a link to it";
    DATABASE_COPIED: ServerFiles "database_copied",
        why: "what the other one came to since, and damage in it, is in this one then; that pages of it heal in replay does not \
            help the copy, which is made before. Make a standby anew rather than start it over this",
        means: "A record from the redo point on has replay remove a database and copy it from the files of another one, as these \
            are now. Where the other one is gone (`start` is `not_usable`), the database is empty afterwards, without a word; \
            where it was changed or damaged since, so is the copy (`start` is `unknown`). Said of standbys, backups and crashes \
            just after `CREATE DATABASE` or `ALTER DATABASE SET TABLESPACE`; not where the other one is `template0`",
        action: "Make a standby anew, or restore a later backup";
}
