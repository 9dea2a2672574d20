//! Rows salvaged from a cluster that no server can start.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;

use super::check::{CheckRequest, Stage, Watch, check};
use super::cluster_wal::refuse_without_wal;
use super::error::InspectError;
use super::examination::Examination;
use super::rebuild::ReplayOptions;
use crate::analysis::skipped::Coverage;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::last_checkpoint::LastCheckpoint;
use crate::analysis::wal::row_facts::{MAX_KEPT_BYTES, PageLogs, RowFacts, WantedPages};
use crate::analysis::wal::segment::Stretch;
use crate::analysis::wal::tail::ends_in_last_file;
use crate::analysis::wal::walk::WalkEnd;
use crate::cluster::wal::{WalSet, WalSources};
use crate::output::salvage_text::{report_markdown, tables_csv, write_salvage_machine};
use crate::output::sink::Machine;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::version::Major;
use crate::rebuild::{Owner, SandboxOptions, find_server};
use crate::salvage::{
    Beforehand, BetterWay, Changes, Interrupt, RowFormat, Salvage, SalvageError, SalvageOptions, SalvageReport,
    WalFacts, WalTrust,
};
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
    /// How rows are printed.
    pub format: RowFormat,
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
    /// Most bytes of WAL that stay in memory; others are read again when their page is. [default: 64 MiB]
    pub kept_wal_bytes: Option<usize>,
}

/// Bytes of WAL from before the checkpoint that are held against pages.
const MAX_COMPARED_BYTES: u64 = 64 << 20;

/// Whether a check finds a way that loses less; it is not asked where `pg_control` cannot be trusted.
fn better_way(opened: &Salvage, request: &SalvageRequest, watch: &Interrupt) -> Option<BetterWay> {
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

struct Interrupted<'a>(&'a Interrupt);

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
    interrupt: &Arc<Interrupt>,
    begin: &mut dyn FnMut(&Beforehand),
) -> Result<SalvageReport, InspectError> {
    let watch = interrupt.as_ref();
    let mut opened = Salvage::open(&request.path, request.major)?;
    opened.set_interrupt(interrupt);
    if let [name] = request.databases.as_slice() {
        opened.name_database(name);
    }
    for file in &request.files {
        opened.add_file(file)?;
    }
    refuse_without_wal(&request.wal)?;
    let wal = read_wal(&mut opened, request, interrupt)?;
    let options = SalvageOptions {
        databases: &request.databases,
        tables: &request.tables,
        deleted: request.deleted,
        format: request.format,
        schema: request.schema.as_deref(),
        donors: &request.donors,
        like: request.like.as_deref(),
    };
    let Some(output) = &request.output else { return Ok(opened.list(&wal, &options, watch)?) };
    begin(&Beforehand { better: better_way(&opened, request, watch), room: Vec::new() });
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
    begin(&Beforehand { better: None, room });
    let finish = |report: &SalvageReport| {
        let mut json = Vec::new();
        // Nothing that is written into memory fails.
        drop(write_salvage_machine(&mut json, (Machine::Json, &request.path), report));
        vec![
            ("tables.csv", tables_csv(report)),
            ("report.json", json),
            ("report.md", report_markdown(report).into_bytes()),
        ]
    };
    Ok(opened.extract((&wal, &options), (&server, &sandbox), output, watch, &finish)?)
}

/// Brings pages forward by WAL that belongs to them, and returns what it tells of rows.
fn read_wal(
    opened: &mut Salvage,
    request: &SalvageRequest,
    interrupt: &Arc<Interrupt>,
) -> Result<WalFacts, InspectError> {
    let watch = interrupt.as_ref();
    let Some(root) = opened.root() else { return Ok(WalFacts::default()) };
    let control = opened.control();
    let has_control = control.is_some();
    let redo_lsn = control.map(|control| control.checkpoint.redo_lsn);
    let mut coverage = Coverage::default();
    let told = (&mut Vec::new(), &mut coverage);
    let sources = WalSources::open((root, control, redo_lsn), &request.wal, told, &|_, _| watch());
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
    let Some(set) = sources.most() else { return Ok(facts) };
    let kept_bytes = request.kept_wal_bytes.unwrap_or(MAX_KEPT_BYTES);
    let walk = WalWalk { set, jobs: request.jobs.max(1), kept_bytes, watch };
    // Where pg_control is lost, the last checkpoint record names the redo point.
    let last = match control {
        Some(_) => None,
        None => LastCheckpoint::read(set, None, walk.jobs, &|_| watch()).ok().flatten(),
    };
    if let Some(last) = &last {
        facts.next_xid = Some(last.checkpoint.next_xid());
    }
    let redo_lsn = redo_lsn.or_else(|| last.map(|last| last.checkpoint.redo_lsn));
    let Some(run) = walk.run_with(redo_lsn) else { return Ok(facts) };
    let Some((mut read, end)) = walk.rows(&run, (redo_lsn.unwrap_or(Lsn::INVALID), Lsn(u64::MAX))) else {
        return Ok(facts);
    };
    let Some(last_end_lsn) = end.extent.last_end_lsn else { return Ok(facts) };
    let begins = redo_lsn.is_some() && end.extent.first_lsn == redo_lsn;
    let ends = end.error.is_none() && end.end.as_ref().is_some_and(|end| ends_in_last_file(set, &run, end));
    // Pages that are newer than all WAL show that more was written.
    let has_all = opened.newest_lsn() <= last_end_lsn;
    facts.is_complete = begins && ends && has_all && read.is_understood;
    facts.ended = read.ended.into_iter().collect();
    facts.prepared = read.prepared.into_iter().collect();
    facts.multis = read.multis.into_iter().collect();
    facts.range = (end.extent.first_lsn.unwrap_or_default(), last_end_lsn);
    facts.changed = read.changed.into_iter().map(|(place, lsn)| (place, lsn.0)).collect();
    let mut compared = opened.compare(&read.pages, last_end_lsn);
    if let Some(redo) = redo_lsn
        && let Some((before, _)) = walk.rows(&walk.last_of(&run), (Lsn::INVALID, redo))
    {
        if !compared.has_rows_of_users() {
            // Nothing since the checkpoint is on disk, or nothing was changed.
            compared.add(opened.compare(&before.pages, redo));
        }
        // A checkpoint wrote these changes: a page that is older lost them. Of too many changes some are not kept.
        facts.is_complete &= before.is_understood;
        for (place, lsn) in before.changed {
            facts.changed.entry(place).or_insert(lsn.0);
        }
    }
    facts.trust = compared.trust(has_control);
    if matches!(facts.trust, WalTrust::Unproven | WalTrust::Contradicted) {
        // Rows that it deletes, if it belongs here, are doubtful.
        let changed = if facts.trust == WalTrust::Unproven { facts.changed } else { HashMap::new() };
        return Ok(WalFacts { trust: facts.trust, changed, ..WalFacts::default() });
    }
    if facts.trust == WalTrust::Likely {
        // Rows on disk would be hidden by those of another cluster.
        for (rel, block) in compared.strangers {
            read.pages.get_mut(&rel).and_then(|pages| pages.remove(&block));
        }
    }
    facts.is_complete &= compared.newer == 0 && facts.trust == WalTrust::Proven;
    let (jobs, start_lsn, interrupt) = (walk.jobs, redo_lsn.unwrap_or_default(), Arc::clone(interrupt));
    let read_again = move |wanted: Arc<WantedPages>, (from_lsn, end_lsn): (Lsn, Lsn)| {
        let Some(set) = sources.most() else { return PageLogs::new() };
        let walk = WalWalk { set, jobs, kept_bytes: 0, watch: interrupt.as_ref() };
        let read = walk.read(&run, (start_lsn.max(from_lsn), end_lsn), &|| RowFacts::of_pages(Arc::clone(&wanted)));
        // WAL that ends earlier than before would leave pages at an older state.
        let is_whole = |(_, end): &(RowFacts, WalkEnd)| end.extent.last_end_lsn == Some(end_lsn);
        read.filter(is_whole).map(|(read, _)| read.pages).unwrap_or_default()
    };
    opened.set_wal(Changes::new(read.pages, Box::new(read_again)), &facts);
    Ok(facts)
}

/// Reads what WAL tells of rows.
struct WalWalk<'a> {
    set: &'a WalSet,
    jobs: usize,
    kept_bytes: usize,
    watch: &'a Interrupt,
}

impl WalWalk<'_> {
    fn segment_bytes(&self) -> u64 {
        u64::from(self.set.geometry().wal_segment_size)
    }

    /// The last segments without a gap, which have the redo point if that is known.
    fn run_with(&self, redo_lsn: Option<Lsn>) -> Option<Range<usize>> {
        let holds = |run: &Range<usize>| {
            let files = self.set.segments().get(run.clone()).unwrap_or_default();
            let has = |redo| {
                files
                    .iter()
                    .any(|file| file.start_lsn <= redo && redo < file.start_lsn.advanced_by(self.segment_bytes()))
            };
            redo_lsn.is_none_or(has)
        };
        self.set.runs().into_iter().rev().find(holds)
    }

    /// The end of a run.
    fn last_of(&self, run: &Range<usize>) -> Range<usize> {
        let most = MAX_COMPARED_BYTES.checked_div(self.segment_bytes()).unwrap_or_default().max(2);
        run.end.saturating_sub(usize::try_from(most).unwrap_or_default()).max(run.start)..run.end
    }

    fn rows(&self, run: &Range<usize>, range: (Lsn, Lsn)) -> Option<(RowFacts, WalkEnd)> {
        self.read(run, range, &|| RowFacts::with_room(self.kept_bytes))
    }

    fn read(
        &self,
        run: &Range<usize>,
        (start_lsn, end_lsn): (Lsn, Lsn),
        begin: &(dyn Fn() -> RowFacts + Sync),
    ) -> Option<(RowFacts, WalkEnd)> {
        let (set, run) = (self.set, run.clone());
        let stretch = Stretch { set, run, start_lsn, end_lsn, keep: Keep::Blocks };
        let mut read = begin();
        let end = collect_run(
            &stretch,
            self.jobs,
            &|_| (self.watch)(),
            |_| begin(),
            |part| {
                read.append(std::mem::replace(&mut part.found, begin()));
                Ok(())
            },
        );
        Some((read, end.ok()?))
    }
}
