//! The WAL that a command line names, and what all commands say about it.

use std::collections::VecDeque;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use super::PROGRAM;
use super::names::{NameArgs, Names};
use crate::analysis::finding::{Coverage, Finding, SkipReason};
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::set_notes::tell_notes;
use crate::analysis::wal::tail::{Tail, judge_tail};
use crate::analysis::wal::walk::{Damage, WalkEnd, walk_run};
use crate::cli::context::{OutputArgs, begin};
use crate::cli::exit::Stop;
use crate::cluster::wal::{WalReadError, WalSet, WalSetOptions};
use crate::output::progress::Progress;
use crate::output::sink::{CsvShape, Machine, Sink};
use crate::parsers::control_layout::ControlLayout;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::record::Record;
use crate::repair::scratch::scratch_file;
use crate::types::{Lsn, TimelineId};

/// Which WAL is read.
#[derive(Debug, Args)]
pub struct SourceArgs {
    /// Data directory, pg_wal or archive directory, segments, tar archives, a pattern in quotes, or "-"
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Count no record that starts before this LSN
    #[arg(long, value_name = "LSN", help_heading = "Range")]
    pub start: Option<Lsn>,
    /// Count no record that ends behind this LSN
    #[arg(long, value_name = "LSN", help_heading = "Range")]
    pub end: Option<Lsn>,
    /// Follow this timeline [default: the newest there is]
    #[arg(long, value_name = "TLI", help_heading = "Range", value_parser = clap::value_parser!(u32).range(1..))]
    pub timeline: Option<u32>,
}

/// The set of segments, with what was odd about it.
pub struct Source {
    /// The segments.
    pub set: WalSet,
    /// Findings so far.
    pub findings: Vec<Finding>,
    /// What was read and what was not.
    pub coverage: Coverage,
    paths: Vec<String>,
    watch: Option<WatchBytes>,
    /// Runs that are still to be read.
    waiting: VecDeque<Range<usize>>,
}

/// Told how many bytes are done.
pub type WatchBytes = Arc<dyn Fn(u64) + Send + Sync>;

impl Source {
    /// Opens what the paths stand for.
    ///
    /// # Errors
    /// When no path holds WAL, or the range is empty.
    pub fn open(args: &SourceArgs) -> Result<Self, Stop> {
        if let (Some(start), Some(end)) = (args.start, args.end)
            && start > end
        {
            return Err(Stop::Input(format!("--start {start} lies behind --end {end}")));
        }
        let mut stdin = io::stdin();
        let mut options = WalSetOptions::new(&scratch_file);
        options.timeline = args.timeline.map(TimelineId);
        options.stdin = Some(&mut stdin);
        let set = WalSet::open(&args.paths, options).map_err(|error| Stop::Input(error.to_string()))?;
        let mut source = Self {
            set,
            findings: Vec::new(),
            coverage: Coverage::default(),
            paths: args.paths.iter().map(|path| path.display().to_string()).collect(),
            watch: None,
            waiting: VecDeque::new(),
        };
        tell_notes(&source.set, &mut source.findings, &mut source.coverage);
        source.confirm_version();
        Ok(source)
    }

    /// Holds the version that the page magic tells against `pg_control`.
    fn confirm_version(&mut self) {
        let Some((control, major)) = self.set.control().zip(self.set.major()) else { return };
        let version = control.prefix.pg_control_version;
        let known = ControlLayout::of_version(version);
        if known.is_none_or(|layout| !layout.majors.contains(&major)) {
            let what = format!("page magic of major {}, pg_control version {version}", major.number());
            let why = "the two do not belong together; records are read by the page magic";
            self.findings.push(Finding::problem("wal_version", what, why));
        }
    }

    /// Adds what could not be read of the names.
    pub fn add_name_notes(&mut self, names: &Names) {
        for gap in names.gaps() {
            self.coverage.skip("names of relations", gap);
        }
    }

    /// The range that was asked for.
    #[must_use]
    pub fn plan(args: &SourceArgs) -> ScanPlan {
        ScanPlan {
            start_lsn: args.start.unwrap_or_default(),
            end_lsn: args.end.unwrap_or(Lsn(u64::MAX)),
            ..ScanPlan::totals()
        }
    }

    /// Starts a machine output.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn begin<'a>(
        &self,
        format: Machine,
        shape: CsvShape,
        out: &'a mut dyn io::Write,
        command: &'static str,
    ) -> io::Result<Sink<'a>> {
        begin(format, shape, out, (PROGRAM, command), self.paths.clone())
    }

    /// Says so when a range was asked for in which nothing is.
    pub fn note_empty_range(&mut self, args: &SourceArgs) {
        if self.coverage.examined > 0 || (args.start.is_none() && args.end.is_none()) {
            return;
        }
        let bound = |lsn: Option<Lsn>, open: &str| lsn.map_or_else(|| open.to_owned(), |lsn| lsn.to_string());
        let range = format!("{} to {}", bound(args.start, "the start"), bound(args.end, "the end"));
        self.coverage.skip(range, "no record lies in this range");
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        let size = u64::from(self.set.geometry().wal_segment_size);
        self.set.segments().len() as u64 * size
    }

    /// Has somebody else told about progress: there will be no bar.
    pub fn watched_by(&mut self, watch: WatchBytes) {
        self.watch = Some(watch);
    }

    /// Progress over all bytes.
    #[must_use]
    pub fn progress(&self) -> Progress {
        match &self.watch {
            Some(watch) => Progress::told(Arc::clone(watch)),
            None => Progress::bytes(self.total_bytes()),
        }
    }

    /// Shows every record of the plan in order, with a progress bar, until `visit` or the user breaks off.
    pub fn each_record(
        &mut self,
        plan: &ScanPlan,
        resynchronise: bool,
        interrupted: &AtomicBool,
        mut visit: impl FnMut(&mut Notes<'_>, &Record<'_>) -> ControlFlow<()>,
    ) {
        let progress = self.progress();
        self.begin_runs();
        while let Some(run) = self.next_run() {
            let mut notes = Notes { findings: &mut self.findings, coverage: &mut self.coverage };
            let mut stopped = false;
            let stretch = plan.stretch(&self.set, &run, Keep::Blocks);
            let mut watch = |bytes| heard(interrupted, Some(&progress), bytes);
            let walked = walk_run(&stretch, resynchronise, &mut watch, |record| {
                let visited = visit(&mut notes, record);
                stopped = visited.is_break();
                visited
            });
            match walked {
                Ok(walked) => {
                    self.judge_walk(&run, walked);
                }
                Err(error) => self.note_unread(&run, error),
            }
            if interrupted.load(Ordering::Relaxed) {
                return note_interruption(&mut self.coverage);
            }
            if stopped {
                return;
            }
        }
    }

    /// Begins with the first run.
    pub fn begin_runs(&mut self) {
        self.waiting = self.set.runs().into();
    }

    /// The next run to be read. Call [`Self::judge_walk`] or [`Self::note_unread`] for each.
    pub fn next_run(&mut self) -> Option<Range<usize>> {
        self.waiting.pop_front()
    }

    /// Says that a run could not be read. What a running server has left of it is read next.
    pub fn note_unread(&mut self, run: &Range<usize>, error: WalReadError) {
        if !(error.is_gone() && self.go_on_after_recycled(run)) {
            self.coverage.skip("WAL", error);
        }
    }

    /// Goes on after the segments of a run that are not there any more; false when there is nothing after them.
    fn go_on_after_recycled(&mut self, run: &Range<usize>) -> bool {
        let is_gone = |index: &usize| self.set.reader(*index).is_err_and(|error| error.is_gone());
        let Some(last) = run.clone().rev().find(is_gone).filter(|last| last + 1 < run.end) else { return false };
        let label = &self.set.segments()[last].label;
        let what = format!("{label} was there when the directory was listed and has another name now, or is gone");
        let why = "a running server gives old segments the names of future ones, or removes them";
        self.findings.push(Finding::note("wal_recycled", what, why));
        self.waiting.push_front(last + 1..run.end);
        true
    }

    /// Says what a walk over a run met: damage, and how it ended.
    pub fn judge_walk(&mut self, run: &Range<usize>, walked: WalkEnd) -> Option<Tail> {
        let why = "records between are lost; those behind were found again at the start of a page";
        for damage in &walked.damage {
            let Damage { at, from, resumed, reason } = damage;
            let what = match resumed {
                Some(resumed) => format!("{reason} at {at}; nothing could be read from {from} to {resumed}"),
                None => format!("{reason} at {at}; nothing could be read from {from} on"),
            };
            self.findings.push(Finding::problem("damage", what, why));
        }
        if walked.further_damage > 0 {
            let what = format!("{} further places of damage", walked.further_damage);
            self.findings.push(Finding::problem("damage", what, why));
        }
        for error in walked.behind {
            let why = "the bytes of the segment itself are all there";
            self.findings.push(Finding::problem("behind_segment", error.to_string(), why));
        }
        if let Some(error) = walked.error {
            self.note_unread(run, error);
        }
        self.judge_end(run, walked.end.as_ref()?)
    }

    /// Says how a run ended: nothing for the usual end, a finding for damage.
    fn judge_end(&mut self, run: &Range<usize>, end: &EndOfWal) -> Option<Tail> {
        match judge_tail(&self.set, run, end) {
            Ok(tail) => {
                if matches!(tail, Tail::Changing { .. })
                    && self.waiting.front().is_none_or(|next| next.start >= run.end)
                {
                    self.go_on_after_recycled(run);
                }
                match &tail {
                    Tail::RecordsFollow { first_lsn, was_synced } => self.findings.push(Finding::problem(
                        "damage",
                        format!("{end}; sound records go on at {first_lsn}"),
                        match was_synced {
                            true => "WAL between had been synced and is damaged; a server stops replay there",
                            false => {
                                "WAL between is damaged, or a power cut came before it was synced; a server stops \
                                      replay there"
                            }
                        },
                    )),
                    Tail::Changing { end_lsn } => self.findings.push(Finding::note(
                        "wal_changing",
                        format!("WAL changed while it was read; it was there up to {end_lsn} at the last look"),
                        "a server is at work: its newest records may be missing here",
                    )),
                    Tail::BeforeKnownEnd { known_lsn } => self.findings.push(Finding::problem(
                        "damage",
                        format!("{end}; pg_control knows of WAL at {known_lsn}"),
                        "WAL that had been written is missing or damaged; a server cannot recover from it",
                    )),
                    Tail::Complete | Tail::EndOfWal | Tail::Gap => {}
                }
                Some(tail)
            }
            Err(error) => {
                self.coverage.skip("WAL behind the end", error);
                None
            }
        }
    }
}

/// Where a visitor says what is wrong.
pub struct Notes<'a> {
    /// Findings.
    pub findings: &'a mut Vec<Finding>,
    /// What was not looked at.
    pub coverage: &'a mut Coverage,
}

/// Tells `progress` what was read, and whether to go on.
pub fn heard(interrupted: &AtomicBool, progress: Option<&Progress>, bytes: u64) -> ControlFlow<()> {
    if let Some(progress) = progress {
        progress.advance(bytes);
    }
    if interrupted.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Says that a result is partial.
pub fn note_interruption(coverage: &mut Coverage) {
    coverage.skip("the rest of the WAL", SkipReason::Interrupted("the figures are partial"));
}

/// Arguments that every command takes.
#[derive(Debug, Args)]
pub struct CommonArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub names: NameArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
