//! What replay makes of things outside WAL: tablespaces in directories that somebody else keeps, databases copied from what is there now.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::analysis::finding::Finding;
use crate::analysis::finding_kind::{FindingKind, TablespaceFault};
use crate::analysis::verdict::check::CheckReport;
use crate::analysis::verdict::outlook::{Obstacle, Outlook, StartConditions};
use crate::analysis::verdict::replay::Recovery;
use crate::cluster::config_files::ConfigFault;
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationNames;
use crate::cluster::open::list;
use crate::cluster::relation_path::RelationPaths;
use crate::cluster::server_files::is_missing;
use crate::cluster::settings::{Settings, is_true};
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::parsers::wal::tablespace::TablespaceCreated;
use crate::types::{Lsn, Oid};

/// So many of each kind are named; of one more the same is to be said.
const MAX_NAMED: usize = 50;

/// Adds what comes of it to the outlook, and says what it is.
///
/// Sources: `dbase_redo`, `src/backend/commands/dbcommands.c`; `create_tablespace_directories` and `remove_tablespace_symlink`, `src/backend/commands/tablespace.c`;
/// `CheckTablespaceDirectory`, `src/backend/access/transam/xlogrecovery.c`; servers of 10 to 19 that were started so.
pub(super) fn settle_made(
    directory: &DataDir,
    (names, paths): (&RelationNames, &RelationPaths),
    report: &mut CheckReport,
) -> Vec<Finding> {
    let replay = &report.replay;
    let Some(redo_lsn) = replay.redo_lsn.filter(|_| replay.recovery.replays()) else { return Vec::new() };
    let made = report.history.tablespaces().iter().filter(|made| made.record_lsn >= redo_lsn);
    let mut found: Vec<Finding> = made.filter_map(|made| fault_of(directory, made)).take(MAX_NAMED).collect();
    if matches!(replay.recovery, Recovery::Archive | Recovery::Backup) {
        found.extend(real_tablespaces(directory));
    }
    let mut obstacle = (!found.is_empty()).then_some(Obstacle::Start);
    for copy in copies(report, redo_lsn) {
        let (from_db, from_spc) = copy.source;
        let from = paths.directory(from_spc, from_db);
        let is_missing = is_missing(directory, &from);
        // Nobody changes this one.
        if !is_missing && names.database(from_db) == Some("template0") {
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
        let given = report.outlook.given;
        let obstacle = given.obstacle.max(obstacle);
        report.outlook = Outlook::of(&report.pages, &report.replay, StartConditions { obstacle, ..given });
    }
    found
}

/// A database that replay copies and that stays, by its number and that of its tablespace.
struct Copy {
    record_lsn: Lsn,
    made: (Oid, Oid),
    source: (Oid, Oid),
}

/// Those whose source replay does not make itself.
fn copies(report: &CheckReport, redo_lsn: Lsn) -> Vec<Copy> {
    let mut made: BTreeSet<(Oid, Oid)> = BTreeSet::new();
    let mut copies: BTreeMap<(Oid, Oid), Copy> = BTreeMap::new();
    for event in report.history.databases().filter(|event| event.start_lsn >= redo_lsn) {
        match &event.what {
            LifeCycle::DatabaseCreated { db_oid, spc_oid, copied_from } => {
                let own = (*db_oid, *spc_oid);
                made.insert(own);
                if let Some(source) = copied_from.filter(|source| !made.contains(source)) {
                    copies.insert(own, Copy { record_lsn: event.start_lsn, made: own, source });
                }
            }
            LifeCycle::DatabaseDropped { db_oid, spc_oids } => {
                for spc_oid in spc_oids {
                    copies.remove(&(*db_oid, *spc_oid));
                }
            }
            _ => {}
        }
    }
    copies.into_values().take(MAX_NAMED).collect()
}

fn path_of(made: &TablespaceCreated) -> PathBuf {
    Path::new("pg_tblspc").join(made.spc_oid.to_string())
}

fn fault_of(directory: &DataDir, made: &TablespaceCreated) -> Option<Finding> {
    let path = path_of(made);
    // One that lies in the data directory, as tests of the server have them, has no other place.
    if !made.location.is_absolute() {
        return None;
    }
    let location = made.location.metadata();
    let owner = directory.root().metadata().map(|root| root.uid()).ok();
    let link = directory.root().join(&path);
    let is_in_use = || {
        fs::symlink_metadata(&link).is_ok_and(|link| link.is_dir()) && list(&link).is_ok_and(|held| !held.is_empty())
    };
    let why = match location {
        Err(error) if error.kind() == ErrorKind::NotFound => TablespaceFault::Missing,
        Ok(found) if !found.is_dir() => TablespaceFault::NotADirectory,
        Ok(found) if owner.is_some_and(|owner| owner != found.uid()) => {
            TablespaceFault::OtherOwner { uid: found.uid() }
        }
        _ if is_in_use() => TablespaceFault::NoLink,
        _ => return None,
    };
    let location = made.location.display().to_string();
    let kind = FindingKind::TablespaceOfWal { record_lsn: made.record_lsn, location, why };
    Some(Finding::problem(kind).in_file(&path.display().to_string()))
}

/// Directories where servers have links: copies that followed them.
fn real_tablespaces(directory: &DataDir) -> Vec<Finding> {
    let settings = Settings::read(directory.root());
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
