//! Rows salvaged from a cluster that no server can start.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::check::{CheckRequest, Stage, Watch, check};
use super::cluster_wal::{WalSources, refuse_without_wal};
use super::error::InspectError;
use super::examination::Examination;
use super::replay_server::ReplayOptions;
use crate::analysis::coverage::Coverage;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::last_checkpoint::LastCheckpoint;
use crate::analysis::wal::row_facts::{PageLogs, RowFacts};
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::tail::ends_in_last_file;
use crate::output::salvage_text::{report_markdown, tables_csv};
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::version::Major;
use crate::rebuild::{Owner, SandboxOptions, find_server};
use crate::salvage::{Beforehand, BetterWay, Salvage, SalvageError, SalvageOptions, SalvageReport, WalFacts};
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

/// Whether a check finds a way that loses less; it is not asked where `pg_control` cannot be trusted.
fn better_way(opened: &Salvage, request: &SalvageRequest, watch: Interrupt<'_>) -> Option<BetterWay> {
    opened.control()?;
    let of_root = CheckRequest::of(opened.root()?);
    let asked = CheckRequest { wal: request.wal.clone(), jobs: request.jobs.max(1), ..of_root };
    let report = check(&asked, &Interrupted(watch));
    let Ok(Examination { report, .. }) = report else { return Some(BetterWay::Perhaps) };
    let damaged: Vec<_> = report.pages.iter().filter(|page| page.is_wrong).collect();
    let proven = damaged.iter().filter(|page| page.verdict.verdict == Verdict::Restore).count();
    if proven > 0 {
        return Some(BetterWay::Repair { proven, damaged: damaged.len() });
    }
    let is_clean = damaged.is_empty() && !report.coverage.is_interrupted() && report.coverage.skipped.is_empty();
    let starts = is_clean && Answer::of_start(&report.outlook) == Answer::Fine;
    Some(if starts { BetterWay::Start } else { BetterWay::Perhaps })
}

type Interrupt<'a> = &'a (dyn Fn() -> ControlFlow<()> + Sync);

struct Interrupted<'a>(Interrupt<'a>);

impl Watch for Interrupted<'_> {
    fn at(&self, _: Stage, _: u64, _: u64) -> ControlFlow<()> {
        self.0()
    }
}

/// Salvages rows, or counts them. `begin` gets better way and room before anything is written.
///
/// # Errors
/// When there is nothing to read rows from, no server prints them, nothing may be written there, or room is lacking.
pub fn salvage(
    request: &SalvageRequest,
    watch: Interrupt<'_>,
    begin: &mut dyn FnMut(&Beforehand),
) -> Result<SalvageReport, InspectError> {
    let mut opened = Salvage::open(&request.path, request.major)?;
    if let [name] = request.databases.as_slice() {
        opened.name_database(name);
    }
    for file in &request.files {
        opened.add_file(file)?;
    }
    refuse_without_wal(&request.wal)?;
    let (wal, pages) = wal_facts(&opened, request)?;
    opened.set_wal(pages);
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
    let room = opened.room((&wal, &options), &sandbox, output)?;
    if let Some(room) = room.iter().find(|room| room.available_bytes < room.needed_bytes) {
        return Err(SalvageError::NoRoom(room.clone()).into());
    }
    begin(&Beforehand { better: better_way(&opened, request, watch), room });
    let finish = |report: &SalvageReport| {
        vec![("tables.csv", tables_csv(report)), ("report.md", report_markdown(report).into_bytes())]
    };
    Ok(opened.extract((&wal, &options), (&server, &sandbox), output, watch, &finish)?)
}

/// What WAL from the redo point on tells of rows, and what brings pages forward.
fn wal_facts(opened: &Salvage, request: &SalvageRequest) -> Result<(WalFacts, PageLogs), InspectError> {
    let Some(root) = opened.root() else { return Ok(Default::default()) };
    let control = opened.control();
    let redo_lsn = control.map(|control| control.checkpoint.redo_lsn);
    let mut coverage = Coverage::default();
    let told = (&mut Vec::new(), &mut coverage);
    let go_on = |_: u64| ControlFlow::Continue(());
    let sources = WalSources::open((root, control, redo_lsn), &request.wal, told, &|_, _| ControlFlow::Continue(()));
    let sources = match sources {
        Ok(sources) => sources,
        Err(error) if !request.wal.is_empty() => return Err(error),
        // Without WAL more rows are uncertain.
        Err(_) => WalSources::default(),
    };
    let is_closed = control.is_some_and(|control| control.was_shut_down() && !control.looks_reset());
    let mut facts = WalFacts {
        is_complete: is_closed,
        next_xid: control.map(|control| control.checkpoint.next_xid()),
        ..WalFacts::default()
    };
    let Some(set) = sources.all.as_ref().or(sources.own.as_ref()) else { return Ok((facts, PageLogs::new())) };
    let jobs = request.jobs.max(1);
    // Where pg_control is lost, the last checkpoint record names the redo point.
    let last = match control {
        Some(_) => None,
        None => LastCheckpoint::read(set, None, jobs, &go_on).ok().flatten(),
    };
    if let Some(last) = &last {
        facts.next_xid = Some(last.checkpoint.next_xid());
    }
    let redo_lsn = redo_lsn.or_else(|| last.map(|last| last.checkpoint.redo_lsn));
    let size = u64::from(set.geometry().wal_segment_size);
    let holds = |run: &std::ops::Range<usize>| {
        let files = set.segments().get(run.clone()).unwrap_or_default();
        redo_lsn.is_none_or(|redo| {
            files.iter().any(|file| file.start_lsn <= redo && redo < file.start_lsn.advanced_by(size))
        })
    };
    let Some(run) = set.runs().into_iter().rev().find(holds) else { return Ok((facts, PageLogs::new())) };
    let start_lsn = redo_lsn.unwrap_or(Lsn::INVALID);
    let stretch = Stretch { set, run: run.clone(), start_lsn, end_lsn: Lsn(u64::MAX), keep: Keep::Blocks };
    let mut read = RowFacts::default();
    let walk = collect_run(
        &stretch,
        jobs,
        &go_on,
        |_| RowFacts::default(),
        |part| {
            read.append(std::mem::take(&mut part.found));
            Ok(())
        },
    );
    let Ok(walk) = walk else { return Ok((facts, PageLogs::new())) };
    let begins = redo_lsn.is_some() && walk.extent.first_lsn == redo_lsn;
    let ends = walk.error.is_none() && walk.end.as_ref().is_some_and(|end| ends_in_last_file(set, &run, end));
    // Pages that are newer than all WAL show that more was written.
    let has_all = walk.extent.last_end_lsn.is_some_and(|end| opened.newest_lsn() <= end);
    facts.is_complete = begins && ends && has_all && read.is_understood;
    facts.ended = read.ended.into_iter().collect();
    facts.prepared = read.prepared.into_iter().collect();
    facts.multis = read.multis.into_iter().collect();
    facts.changed = read.changed.into_iter().map(|(place, lsn)| (place, lsn.0)).collect();
    Ok((facts, read.pages))
}
