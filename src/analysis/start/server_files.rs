//! Missing or damaged files that a server needs in addition to pages, WAL and `pg_control`, and what does not work
//! without them.

mod relation_files;
pub(crate) mod rules;

use std::path::Path;

use self::relation_files::{FirstPageLack, first_page_lack, init_fork_fault, more_files};
use super::cluster_condition::Obstacle;
use crate::analysis::pages::short_relations::short_relations;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::cluster::backup_files::{RecoverySigns, history_fault};
use crate::cluster::control_file::{CONTROL_PATH, is_on_other_timeline};
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::{RelationNames, RowAge};
use crate::cluster::page_source::RelationPaths;
use crate::cluster::relation_walk::RelationFile;
use crate::cluster::server_files::{
    FileFault, NotAFile, NotFiles, StateFile, StateFileFault, database_version, is_missing, lacking_room,
    not_databases, not_files, odd_modes, server_directory, state_faults, usable_map,
};
use crate::cluster::settings::{ConfigFault, config_faults};
use crate::cluster::xact_files::{SlruFault, continues_page_of_members, multixact_faults, xact_faults};
use crate::parsers::catalog::{FIRST_NORMAL_OID, PG_CLASS_OID, RelKind};
use crate::parsers::control::ControlFile;
use crate::parsers::control_layout::Field;
use crate::parsers::filenode_map::FilenodeMap;
use crate::report::{Finding, Rule};
use crate::types::{
    DEFAULT_TABLESPACE_OID, ForkNumber, GLOBAL_TABLESPACE_OID, Oid, PageId, RelFileLocator, is_newer_xid,
};

/// Missing files that are named one by one.
const MAX_NAMED: usize = 20;

/// Values of a server built without options: `RELSEG_SIZE` times `BLCKSZ`, `INDEX_MAX_KEYS`.
///
/// Source: `meson_options.txt`, `src/include/pg_config_manual.h`.
const USUAL_SEGMENT_BYTES: u32 = 1 << 30;
const USUAL_INDEX_KEYS: u32 = 32;

/// Directories without which servers of 10, 15 and 18 did not start, neither after a crash nor after a shutdown.
const NEEDED_TO_START: [&str; 6] =
    ["pg_notify", "pg_twophase", "pg_multixact/offsets", "pg_commit_ts", "pg_replslot", "pg_xact"];

/// Directories that checkpoints need, among them the one at the end of crash recovery.
const NEEDED_BY_CHECKPOINTS: [&str; 4] =
    ["pg_logical/snapshots", "pg_logical/mappings", "pg_subtrans", "pg_multixact/members"];

/// Directories that crash recovery lists, the last two by majors up to 14.
const NEEDED_BY_RECOVERY: [&str; 3] = ["pg_tblspc", "pg_stat", "pg_stat_tmp"];

/// Result.
#[derive(Debug, Default)]
pub struct ServerFiles {
    /// Missing and damaged files.
    pub findings: Vec<Finding>,
    /// The worst of what does not work for that.
    pub obstacle: Option<Obstacle>,
    /// Functions that fail without these pages.
    pub of_pages: Vec<(PageId, Obstacle)>,
    /// Missing files, unless WAL since the redo point removes them.
    pub unless_removed: Vec<UnlessRemoved>,
}

/// Something that is missing unless WAL since the redo point removes it.
#[derive(Debug)]
pub struct UnlessRemoved {
    /// Finding in that case.
    pub finding: Finding,
    /// Function that fails in that case.
    pub obstacle: Option<Obstacle>,
    /// A page of it; of a database any page.
    pub page: PageId,
    /// Nor is it where replay makes this page.
    pub or_made: bool,
}

/// The cluster to check.
#[derive(Clone, Copy)]
pub struct ServerFilesInput<'a> {
    pub directory: &'a DataDir,
    /// Names from the catalogs.
    pub names: &'a RelationNames,
    pub paths: &'a RelationPaths,
    /// All files of relations, in order.
    pub relations: &'a [RelationFile],
    /// Startup replays WAL.
    pub replays: bool,
    /// The files are those of a server that was stopped or crashed, not of a standby, a backup or a recovery that was cut off, whose
    /// catalogs may be older than their files.
    pub is_settled: bool,
    /// WAL tells what recovery did with files since the redo point.
    pub is_replayed: bool,
    /// Files that change what recovery does.
    pub signs: &'a RecoverySigns,
}

/// Examines modes, directories, maps, versions of databases, and whether each relation has its first file.
pub fn examine(input: ServerFilesInput<'_>, coverage: &mut Coverage) -> ServerFiles {
    let ServerFilesInput { directory, names, paths, relations, replays, is_settled, is_replayed, signs } = input;
    let mut files = ServerFiles::default();
    let control = directory.control().trusted();
    if let Some(odd) = odd_modes(directory, relations) {
        let file = odd.first.display().to_string();
        let ((uid, mode), (usual_uid, usual_mode)) = (odd.found, odd.usual);
        let mut what = format!("user {uid}, mode {mode:04o}; most have user {usual_uid}, mode {usual_mode:04o}");
        if odd.count > 1 {
            what.push_str(&format!(" ({} differ)", odd.count));
        }
        files.findings.push(rules::ODD_MODES.note(what).in_file(&file));
    }
    for (file, free_bytes, needed_bytes) in
        control.map(|control| lacking_room(directory.root(), control)).unwrap_or_default()
    {
        files.findings.push(
            rules::NO_ROOM
                .note(format!(
                    "its volume has {free_bytes} bytes free; startup needs at least {needed_bytes}, and more for the \
                files that recovery extends"
                ))
                .in_file(file),
        );
    }
    files.build(control, relations);
    if control.is_some_and(|control| !control.prefix.state.is_startable()) {
        // The finding about the state itself is made where `pg_control` is examined.
        files.hinder(Obstacle::Start);
    }
    if let Some(control) = control.filter(|control| is_on_other_timeline(directory, control, signs)) {
        files.hinder(Obstacle::Start);
        let (lsn, tli) = (control.min_recovery_lsn, control.min_recovery_timeline);
        files.findings.push(
            rules::MINIMUM_ELSEWHERE
                .problem(format!(
                    "recovery must reach {lsn} on timeline {tli}, and the history of its timeline does not have that \
                there"
                ))
                .in_file(CONTROL_PATH),
        );
    }
    if let Some((file, fault)) = control.and_then(|control| history_fault(directory, control)) {
        files.fault(&file, &fault, Some(Obstacle::Start), &rules::HISTORY_FILE, coverage);
    }
    files.directories(directory, replays, coverage);
    for StateFileFault { file, of, fault } in state_faults(directory, control, replays) {
        let is_removed = of == StateFile::Prepared && directory.major().facts().removes_bad_prepared;
        let why = match of {
            StateFile::Prepared => rules::STATE_FILE.why,
            StateFile::PreparedUnknown => rules::PREPARED_UNKNOWN,
            StateFile::Slot => rules::SLOT_DAMAGED,
            StateFile::Origins => rules::ORIGINS_DAMAGED,
        };
        let rule = (&rules::STATE_FILE, why);
        files.fault_because(&file, &fault, (!is_removed).then_some(Obstacle::Start), rule, coverage);
    }
    files.configuration(directory, &signs.signals, coverage);
    let shared = files.map(directory, Path::new("global"), coverage);
    let is_old = |age: RowAge| control.is_some_and(|control| is_before_redo(control, age));
    let was_stopped = control.is_some_and(ControlFile::was_shut_down);
    let mut maps = vec![(GLOBAL_TABLESPACE_OID, 0, shared)];
    for (oid, home) in names.homes().filter(|(_, home)| is_old(home.age)) {
        let of = paths.directory(home.spc_oid, oid);
        if is_missing(directory, &of) {
            // One that was dropped or moved away has a row that somebody tried to delete.
            if home.was_never_deleted || was_stopped {
                let name = names.database(oid).unwrap_or_default().to_owned();
                let finding = rules::DATABASE_MISSING.problem(format!("missing: the directory of database {name}"));
                let finding = finding.in_file(&of.display().to_string());
                if is_settled {
                    files.hinder(Obstacle::Connections);
                    files.findings.push(finding);
                } else if is_replayed {
                    let rel = RelFileLocator { spc_oid: home.spc_oid, db_oid: oid, rel_number: 0 };
                    files.unless_removed(finding, Some(Obstacle::Connections), rel);
                }
            }
            continue;
        }
        if replays
            && directory.major().facts().recovery_lists_databases
            && server_directory(directory, &of).is_err_and(|fault| !fault.is_denied())
        {
            files.hinder(Obstacle::Start);
        }
        maps.push((home.spc_oid, oid, files.map(directory, &of, coverage)));
        if let Err(fault) = database_version(directory, &of) {
            let file = of.join("PG_VERSION");
            files.fault(&file, &fault, Some(Obstacle::Connections), &rules::DATABASE_VERSION, coverage);
        }
    }
    if let Some(control) = control.filter(|_| is_settled || is_replayed) {
        files.transactions(directory, control, replays, coverage);
        files.relations((directory, names, paths), control, &maps, is_settled, coverage);
        if is_settled && was_stopped {
            let short = short_relations(names, paths, relations, control.geometry.block_size);
            let further = short.len().saturating_sub(MAX_NAMED);
            files.findings.extend(short.into_iter().take(MAX_NAMED));
            files.findings.extend(more_files(further));
        }
    }
    files.not_files(directory, replays, coverage);
    if replays && directory.major().facts().recovery_lists_databases {
        files.not_databases(directory, coverage);
    }
    files
}

/// The transaction was over when replay starts, or its row was on disk by then, so that replay does not make the files of its relations.
fn is_before_redo(control: &ControlFile, RowAge { xmin: xid, page_lsn }: RowAge) -> bool {
    // Ids up to 2 belong to the server itself.
    let oldest = control.checkpoint.oldest_active_xid;
    let next = control.checkpoint.next_xid();
    let bound = if oldest > 2 { oldest } else { next };
    // What a row names was made before the row.
    let was_there = page_lsn.is_valid() && page_lsn <= control.checkpoint.redo_lsn;
    xid <= 2 || was_there || is_newer_xid(bound, xid)
}

/// Made by `initdb`.
fn is_of_system(oid: Option<Oid>) -> bool {
    oid.is_some_and(|oid| oid < FIRST_NORMAL_OID)
}

impl ServerFiles {
    fn hinder(&mut self, obstacle: Obstacle) {
        self.obstacle = self.obstacle.max(Some(obstacle));
    }

    fn fault(
        &mut self,
        file: &Path,
        fault: &FileFault,
        obstacle: Option<Obstacle>,
        rule: &'static Rule,
        coverage: &mut Coverage,
    ) {
        self.fault_because(file, fault, obstacle, (rule, rule.why), coverage);
    }

    fn fault_because(
        &mut self,
        file: &Path,
        fault: &FileFault,
        obstacle: Option<Obstacle>,
        (rule, why): (&'static Rule, &'static str),
        coverage: &mut Coverage,
    ) {
        let file = file.display().to_string();
        if let FileFault::Access(error) = fault
            && fault.is_denied()
        {
            return coverage.skip_once(SkippedPart::file(file), error);
        }
        self.obstacle = self.obstacle.max(obstacle);
        self.findings.push(rule.problem(fault.to_string()).because(why).in_file(&file));
    }

    /// Servers that were built as usual refuse other values. A relation of several files shows that a server had such a segment size.
    fn build(&mut self, control: Option<&ControlFile>, relations: &[RelationFile]) {
        let Some(control) = control else { return };
        let (block_size, blocks) = (control.geometry.block_size, control.geometry.rel_segment_blocks);
        let segment_bytes = u64::from(blocks).saturating_mul(u64::from(block_size));
        let follows = |pair: &[RelationFile]| match pair {
            [file, next] => {
                let of = |file: &RelationFile| (file.rel, file.name.fork);
                file.size_bytes == segment_bytes
                    && of(file) == of(next)
                    && next.name.rel_segment > file.name.rel_segment
            }
            _ => false,
        };
        let usual_blocks = USUAL_SEGMENT_BYTES.checked_div(block_size).unwrap_or_default();
        let has_shown = || relations.windows(2).any(follows);
        for (field, found, usual) in [
            (
                Field::RelsegSize.name(),
                blocks,
                if blocks == usual_blocks || has_shown() { blocks } else { usual_blocks },
            ),
            (Field::IndexMaxKeys.name(), control.index_max_keys, USUAL_INDEX_KEYS),
            (Field::Float4ByVal.name(), control.float4_by_val.map_or(1, u32::from), 1),
            (Field::Float8ByVal.name(), u32::from(control.float8_by_val), 1),
        ] {
            if found != usual {
                self.hinder(Obstacle::Build);
                self.findings.push(
                    rules::UNUSUAL_BUILD.problem(format!("{field} is {found}, usually {usual}")).in_file(CONTROL_PATH),
                );
            }
        }
    }

    /// Settings that change what data is there after a start. The server judges all others when it starts.
    fn configuration(&mut self, directory: &DataDir, signals: &[&str], coverage: &mut Coverage) {
        let found = config_faults(directory, signals);
        for error in &found.skipped {
            coverage.skip_once(SkippedPart::file(error.to_string()), error);
        }
        for (file, fault) in found.faults {
            let finding = rules::CONFIGURATION.problem(fault.to_string());
            let finding = if let ConfigFault::RecoveryTarget { .. } = fault {
                self.hinder(Obstacle::Target);
                finding.because(rules::ENDS_AT_TARGET)
            } else {
                self.hinder(Obstacle::Start);
                finding
            };
            self.findings.push(finding.in_file(&file.display().to_string()));
        }
    }

    fn directories(&mut self, directory: &DataDir, replays: bool, coverage: &mut Coverage) {
        let resets_stats = directory.major().facts().resets_stats_files;
        let at_checkpoints = if replays { Obstacle::Start } else { Obstacle::Checkpoints };
        let to_start = NEEDED_TO_START.map(|name| (name, Obstacle::Start));
        // A server of 10 got through recovery without it, and then through no checkpoint.
        let of_checkpoint = |name| match name {
            "pg_subtrans" if resets_stats => (name, Obstacle::Checkpoints),
            _ => (name, at_checkpoints),
        };
        let by_recovery = NEEDED_BY_RECOVERY
            .into_iter()
            .filter(|name| replays && (*name == "pg_tblspc" || resets_stats))
            .map(|name| (name, Obstacle::Start));
        let all = to_start.into_iter().chain(NEEDED_BY_CHECKPOINTS.map(of_checkpoint)).chain(by_recovery);
        for (name, needed_for) in all {
            if let Err(fault) = server_directory(directory, name) {
                let rule = &rules::SERVER_DIRECTORY;
                let why = if needed_for == Obstacle::Start { rule.why } else { rules::NO_CHECKPOINT };
                self.fault_because(Path::new(name), &fault, Some(needed_for), (rule, why), coverage);
            }
        }
    }

    /// A start that replays reads a file that is missing as zeros, one without replay refuses; no start reads one that ends too soon.
    fn transactions(&mut self, directory: &DataDir, control: &ControlFile, replays: bool, coverage: &mut Coverage) {
        for SlruFault { file, fault } in xact_faults(directory, control) {
            let obstacle = match &fault {
                FileFault::XactsZero { .. } => Obstacle::Commits,
                FileFault::Access(error) if error.is_not_found() && replays => Obstacle::Commits,
                _ => Obstacle::Start,
            };
            self.fault(&file, &fault, Some(obstacle), &rules::XACT_FILE, coverage);
        }
        let (offsets, members) = multixact_faults(directory, control);
        // Replay makes a file that is missing, if a record of it comes.
        let of_start = |found: &SlruFault| match &found.fault {
            FileFault::Access(error) if error.is_not_found() && replays => Obstacle::Replay,
            _ => Obstacle::Start,
        };
        // A start looks up where the members of the next multixact begin.
        let offsets = offsets.into_iter().map(|found| {
            let is_refused = !matches!(found.fault, FileFault::PageZero { .. });
            let obstacle = is_refused.then(|| of_start(&found));
            (found, obstacle)
        });
        // It continues in the page of the next members.
        let is_read = continues_page_of_members(control);
        let members = members.into_iter().map(|found| {
            // Replay writes into them where a multixact comes.
            let obstacle = if is_read { Some(of_start(&found)) } else { replays.then_some(Obstacle::Replay) };
            (found, obstacle)
        });
        for (SlruFault { file, fault }, obstacle) in offsets.chain(members) {
            self.fault(&file, &fault, obstacle, &rules::MULTIXACT_FILE, coverage);
        }
    }

    /// Recovery lists whatever has the name of the directory of a database.
    ///
    /// Source: `ResetUnloggedRelationsInTablespaceDir`, `src/backend/storage/file/reinit.c`.
    fn not_databases(&mut self, directory: &DataDir, coverage: &mut Coverage) {
        for (name, fault) in not_databases(directory) {
            self.fault(&name, &fault, Some(Obstacle::Start), &rules::NOT_A_DIRECTORY, coverage);
        }
    }

    /// Whether a server writes them, at startup or later, is known only if it needs their content, which is
    /// examined before.
    fn not_files(&mut self, directory: &DataDir, replays: bool, coverage: &mut Coverage) {
        let NotFiles { found, skipped } = not_files(directory, replays);
        for (path, error) in &skipped {
            coverage.skip_once(SkippedPart::file(path.display().to_string()), error);
        }
        for NotAFile { path, fault, stops_start } in found {
            let name = path.display().to_string();
            if !self.findings.iter().any(|finding| finding.file.as_ref() == Some(&name)) {
                self.fault(&path, &fault, stops_start.then_some(Obstacle::Replay), &rules::NOT_A_FILE, coverage);
            }
        }
    }

    fn map(&mut self, directory: &DataDir, of: &Path, coverage: &mut Coverage) -> Option<FilenodeMap> {
        match usable_map(directory, of) {
            Ok(map) => Some(map),
            Err(fault) => {
                let file = of.join("pg_filenode.map");
                self.fault(&file, &fault, Some(Obstacle::Connections), &rules::FILENODE_MAP, coverage);
                None
            }
        }
    }

    /// Relations whose catalog row is older than replay, and catalogs that a map names, without their first file.
    fn relations(
        &mut self,
        (directory, names, paths): (&DataDir, &RelationNames, &RelationPaths),
        control: &ControlFile,
        maps: &[(Oid, Oid, Option<FilenodeMap>)],
        is_settled: bool,
        coverage: &mut Coverage,
    ) {
        let mut missing: Vec<(RelFileLocator, String, bool)> = Vec::new();
        let is_gone = |rel| is_missing(directory, &paths.segment_file(rel, ForkNumber::Main, 0));
        let of_file = |rel, name| {
            let file = paths.segment_file(rel, ForkNumber::Main, 0).display().to_string();
            rules::RELATION_FILE_MISSING.problem(format!("missing: the first file of {name}")).in_file(&file)
        };
        let was_stopped = control.was_shut_down();
        for (spc_oid, db_oid, map) in maps {
            let entries = map.iter().flat_map(|map| &map.entries);
            for entry in entries {
                let rel = RelFileLocator { spc_oid: *spc_oid, db_oid: *db_oid, rel_number: entry.rel_number };
                if !is_gone(rel) {
                    continue;
                }
                let name = names.full_name(rel).unwrap_or_else(|| entry.oid.to_string());
                if was_stopped || entry.oid == entry.rel_number {
                    missing.push((rel, name, true));
                } else {
                    // One that was rewritten may have its file from WAL alone.
                    self.unless_removed(of_file(rel, name), Some(Obstacle::Connections), rel);
                }
            }
        }
        let certain = names.certain();
        for (spc_oid, db_oid, map) in maps.iter().filter(|(_, db_oid, _)| *db_oid != 0) {
            // Every database has some, and without any nothing is known of its files.
            if names.iter().any(|(rel, _)| rel.db_oid == *db_oid) {
                continue;
            }
            let entry = map.iter().flat_map(|map| &map.entries).find(|entry| entry.oid == PG_CLASS_OID);
            let rel_number = entry.map_or(PG_CLASS_OID, |entry| entry.rel_number);
            let rel = RelFileLocator { spc_oid: *spc_oid, db_oid: *db_oid, rel_number };
            let file = paths.segment_file(rel, ForkNumber::Main, 0);
            // Pages of zeros are those of a database that is being made, until replay fills them.
            let has_bytes = directory.root().join(&file).metadata().is_ok_and(|metadata| metadata.len() > 0);
            if was_stopped || !has_bytes {
                coverage.skip_once(SkippedPart::file(file.display().to_string()), SkipReason::NoRowRead);
            }
        }
        let (mut with_init, mut empty) = (Vec::new(), Vec::new());
        for (rel, name, age) in certain {
            // A database that no committed row names is being made or was given up.
            let is_known = rel.db_oid == 0 || maps.iter().any(|(_, db_oid, _)| *db_oid == rel.db_oid);
            let is_named = missing.iter().any(|(other, ..)| *other == rel)
                || self.unless_removed.iter().any(|found| found.page.rel == rel);
            if is_known && !is_named && is_before_redo(control, age) && is_gone(rel) {
                missing.push((rel, name.to_string(), is_of_system(name.oid)));
            }
            let main = paths.segment_file(rel, ForkNumber::Main, 0);
            let has_pages = matches!(name.kind, Some(RelKind::INDEX | RelKind::SEQUENCE));
            if is_known
                && has_pages
                && is_before_redo(control, age)
                && let Some(lack) = first_page_lack(&directory.root().join(&main), control.geometry.block_size)
            {
                let name_of = name.to_string();
                let finding = match lack {
                    FirstPageLack::NoPage => {
                        rules::RELATION_FILE_EMPTY.problem(format!("the first file of {name_of} has no page"))
                    }
                    FirstPageLack::Zero => {
                        rules::FIRST_PAGE_ZEROED.problem(format!("the first page of {name_of} is zeroed")).at(0)
                    }
                };
                let finding = finding.in_file(&main.display().to_string());
                let obstacle = is_of_system(name.oid).then_some(Obstacle::Connections);
                let page = PageId { rel, fork: ForkNumber::Main, block: 0 };
                // Until the next checkpoint one that was dropped has an empty file.
                if was_stopped {
                    self.of_pages.extend(obstacle.map(|obstacle| (page, obstacle)));
                    empty.push(finding);
                } else {
                    // `CREATE INDEX CONCURRENTLY` fills the file in a later transaction.
                    self.unless_removed.push(UnlessRemoved { finding, obstacle, page, or_made: true });
                }
            }
            let init = paths.segment_file(rel, ForkNumber::Init, 0);
            if !was_stopped && !is_missing(directory, &init) {
                with_init.push(
                    rules::INIT_FORK_OF_PERMANENT
                        .problem(format!("an init fork exists for {name}, which is permanent"))
                        .in_file(&init.display().to_string()),
                );
            }
        }
        let mut without_init = Vec::new();
        // After a clean shutdown the main fork exists too. After a crash it is recreated.
        for (rel, name, age) in names.unlogged() {
            let is_known = maps.iter().any(|(_, db_oid, _)| *db_oid == rel.db_oid);
            if !is_known || !is_before_redo(control, age) {
                continue;
            }
            if was_stopped && is_gone(rel) {
                missing.push((rel, name.to_string(), false));
            }
            without_init.extend(init_fork_fault(directory, &paths.segment_file(rel, ForkNumber::Init, 0), name));
        }
        if is_settled && missing.iter().any(|(.., is_catalog)| *is_catalog) {
            self.hinder(Obstacle::Connections);
        }
        for (spc_oid, row) in names.certain_tablespaces().filter(|(_, row)| is_before_redo(control, row.age)) {
            let is_own = [DEFAULT_TABLESPACE_OID, GLOBAL_TABLESPACE_OID].contains(&spc_oid);
            if is_own || !is_missing(directory, &paths.tablespace(spc_oid)) {
                continue;
            }
            let before = missing.len();
            missing.retain(|(rel, ..)| rel.spc_oid != spc_oid);
            let relations = u64::try_from(before.saturating_sub(missing.len())).unwrap_or(u64::MAX);
            // An empty one may have been dropped since, which only WAL tells.
            let mut what = format!("tablespace {}: its directory is missing, or the link is dangling", row.name);
            if relations > 0 {
                what.push_str(&format!("; relations in it: {relations}"));
            }
            let rule = &rules::TABLESPACE_MISSING;
            let found = if was_stopped || relations > 0 { rule.problem(what) } else { rule.note(what) };
            let found = if relations > 0 { found } else { found.because(rules::TABLESPACE_EMPTY) };
            self.findings.push(found.in_file(&paths.tablespace(spc_oid).display().to_string()));
        }
        if !is_settled {
            for (rel, name, is_catalog) in std::mem::take(&mut missing) {
                self.unless_removed(of_file(rel, name), is_catalog.then_some(Obstacle::Connections), rel);
            }
        }
        let further = [missing.len(), without_init.len(), with_init.len(), empty.len()]
            .map(|count| count.saturating_sub(MAX_NAMED))
            .into_iter()
            .sum::<usize>();
        if !with_init.is_empty() {
            self.hinder(Obstacle::Contents);
        }
        self.findings.extend(without_init.into_iter().take(MAX_NAMED));
        self.findings.extend(with_init.into_iter().take(MAX_NAMED));
        self.findings.extend(empty.into_iter().take(MAX_NAMED));
        self.findings.extend(missing.into_iter().take(MAX_NAMED).map(|(rel, name, _)| of_file(rel, name)));
        self.findings.extend(more_files(further));
    }

    fn unless_removed(&mut self, finding: Finding, obstacle: Option<Obstacle>, rel: RelFileLocator) {
        let page = PageId { rel, fork: ForkNumber::Main, block: 0 };
        self.unless_removed.push(UnlessRemoved { finding, obstacle, page, or_made: false });
    }

    /// Says what of it is missing for certain, of many files so many one by one.
    pub(crate) fn settle(&mut self, is_removed: impl Fn(PageId) -> bool, is_made: impl Fn(PageId) -> bool) {
        let missing = std::mem::take(&mut self.unless_removed);
        let is_excused = |found: &UnlessRemoved| is_removed(found.page) || found.or_made && is_made(found.page);
        let missing: Vec<UnlessRemoved> = missing.into_iter().filter(|found| !is_excused(found)).collect();
        for UnlessRemoved { obstacle, page, or_made, .. } in &missing {
            match obstacle {
                Some(obstacle) if *or_made => self.of_pages.push((*page, *obstacle)),
                _ => self.obstacle = self.obstacle.max(*obstacle),
            }
        }
        let further = missing.len().saturating_sub(MAX_NAMED);
        self.findings.extend(missing.into_iter().take(MAX_NAMED).map(|found| found.finding));
        self.findings.extend(more_files(further));
    }
}
