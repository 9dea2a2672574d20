//! Rows salvaged from a cluster that no server can start.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::cluster_wal::{WalSources, refuse_without_wal};
use super::error::InspectError;
use super::replay_server::ReplayOptions;
use crate::analysis::coverage::Coverage;
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::row_facts::RowFacts;
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::tail::ends_in_last_file;
use crate::output::salvage_text::{report_markdown, tables_csv};
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::version::Major;
use crate::rebuild::{Owner, SandboxOptions, find_server};
use crate::salvage::{Salvage, SalvageOptions, SalvageReport, WalFacts};
use crate::types::Lsn;

/// A salvage: its source and its output directory.
#[derive(Clone, Debug, Default)]
pub struct SalvageRequest {
    /// Data directory, what is left of one, or the directory of a database.
    pub path: PathBuf,
    /// Major version, where no file names it.
    pub major: Option<Major>,
    /// Directory of the rows; `None`: rows are only counted.
    pub output: Option<PathBuf>,
    /// Databases by name; all when empty.
    pub databases: Vec<String>,
    /// Tables by name or pattern; all when empty.
    pub tables: Vec<String>,
    /// Deleted rows are wanted, too.
    pub deleted: bool,
    /// A schema for columns that the catalogs lost.
    pub schema: Option<PathBuf>,
    /// Older copies of the cluster, for columns that the catalogs lost.
    pub donors: Vec<PathBuf>,
    /// Files that no catalog names.
    pub files: Vec<PathBuf>,
    /// The table whose columns they have.
    pub like: Option<String>,
    /// WAL from elsewhere.
    pub wal: Vec<PathBuf>,
    /// The server that prints rows, and its sandbox.
    pub server: ReplayOptions,
    /// Threads that read WAL.
    pub jobs: usize,
}

/// Salvages rows, or counts them.
///
/// # Errors
/// When there is nothing to read rows from, no server prints them, or nothing may be written there.
pub fn salvage(request: &SalvageRequest, watch: &dyn Fn() -> ControlFlow<()>) -> Result<SalvageReport, InspectError> {
    let mut opened = Salvage::open(&request.path, request.major)?;
    if let [name] = request.databases.as_slice() {
        opened.name_database(name);
    }
    for file in &request.files {
        opened.add_file(file)?;
    }
    refuse_without_wal(&request.wal)?;
    let wal = wal_facts(&opened, request)?;
    let options = SalvageOptions {
        databases: &request.databases,
        tables: &request.tables,
        deleted: request.deleted,
        schema: request.schema.as_deref(),
        donors: &request.donors,
        like: request.like.as_deref(),
    };
    let Some(output) = &request.output else { return Ok(opened.list(&wal, &options, watch)?) };
    let root = opened.root().unwrap_or(&request.path);
    let server = find_server(opened.major(), request.server.pg_bin.as_deref(), root)?;
    let sandbox = SandboxOptions {
        parent: request.server.sandbox.clone(),
        keep: request.server.keep_sandbox,
        owner: Owner::of(root),
        protected: opened.protected().to_vec(),
    };
    let finish = |report: &SalvageReport| {
        vec![("tables.csv", tables_csv(report)), ("report.md", report_markdown(report).into_bytes())]
    };
    Ok(opened.extract((&wal, &options), (&server, &sandbox), output, watch, &finish)?)
}

/// What WAL from the redo point on tells of rows.
fn wal_facts(opened: &Salvage, request: &SalvageRequest) -> Result<WalFacts, InspectError> {
    let (Some(root), Some(control)) = (opened.root(), opened.control()) else { return Ok(WalFacts::default()) };
    let redo_lsn = control.checkpoint.redo_lsn;
    let mut coverage = Coverage::default();
    let told = (&mut Vec::new(), &mut coverage);
    let go_on = |_: u64| ControlFlow::Continue(());
    let sources =
        WalSources::open((root, Some(control), Some(redo_lsn)), &request.wal, told, &|_, _| ControlFlow::Continue(()));
    let sources = match sources {
        Ok(sources) => sources,
        Err(error) if !request.wal.is_empty() => return Err(error),
        // Without WAL more rows are uncertain.
        Err(_) => WalSources::default(),
    };
    let mut facts = WalFacts { is_complete: control.was_shut_down() && !control.looks_reset(), ..WalFacts::default() };
    let Some(set) = sources.all.as_ref().or(sources.own.as_ref()) else { return Ok(facts) };
    let size = u64::from(set.geometry().wal_segment_size);
    let holds = |run: &std::ops::Range<usize>| {
        let files = set.segments().get(run.clone()).unwrap_or_default();
        files.iter().any(|file| file.start_lsn <= redo_lsn && redo_lsn < file.start_lsn.advanced_by(size))
    };
    let Some(run) = set.runs().into_iter().find(holds) else { return Ok(facts) };
    let stretch = Stretch { set, run: run.clone(), start_lsn: redo_lsn, end_lsn: Lsn(u64::MAX), keep: Keep::Blocks };
    let mut read = RowFacts::default();
    let walk = collect_run(
        &stretch,
        request.jobs.max(1),
        &go_on,
        |_| RowFacts::default(),
        |part| {
            read.append(std::mem::take(&mut part.found));
            Ok(())
        },
    );
    let Ok(walk) = walk else { return Ok(facts) };
    let begins = walk.extent.first_lsn == Some(redo_lsn);
    let ends = walk.error.is_none() && walk.end.as_ref().is_some_and(|end| ends_in_last_file(set, &run, end));
    facts.is_complete = begins && ends && read.is_understood;
    facts.ended = read.ended.into_iter().collect();
    facts.prepared = read.prepared.into_iter().collect();
    facts.multis = read.multis.into_iter().collect();
    facts.changed = read.changed.into_iter().map(|(place, lsn)| (place, lsn.0)).collect();
    Ok(facts)
}
