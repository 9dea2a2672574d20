//! The WAL that a command line names, and what all commands say about it.

use std::collections::VecDeque;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use super::PROGRAM;
use super::names::{NameArgs, Names};
use crate::analysis::finding::{Coverage, Finding, SkipReason};
use crate::analysis::finding_kind::{FindingKind, WalChange, WalDamage, WalRemark};
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::set_notes::tell_notes;
use crate::analysis::wal::tail::{Tail, judge_tail};
use crate::analysis::wal::walk::{Damage, WalkEnd, walk_run};
use crate::cli::context::{OutputArgs, begin};
use crate::cli::exit::Stop;
use crate::cli::work::ProgressArg;
use crate::cluster::data_dir::{DataDir, NotADataDir};
use crate::cluster::open::AccessError;
use crate::cluster::wal::{WalReadError, WalSet, WalSetError, WalSetOptions};
use crate::output::progress::Progress;
use crate::output::sink::{CsvShape, Machine, Sink};
use crate::parsers::control_layout::ControlLayout;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::timeline::WalSegment;
use crate::repair::scratch::scratch_file;
use crate::types::{Lsn, TimelineId};

/// Which WAL is read.
#[derive(Clone, Debug, Args)]
pub struct SourceArgs {
    /// Data directory, pg_wal or archive directory, segments, tar archives, a pattern in quotes, or "-"; with -p or -D
    /// STARTSEG and ENDSEG, as pg_waldump takes them [default: PGDATA of the environment]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Where to read; PATH may then name the first and the last segment
    #[arg(short = 'p', long = "path", value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Data directory to read, in place of -p
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR", conflicts_with = "path")]
    pub pgdata: Option<PathBuf>,
    /// Count no record that starts before this LSN
    #[arg(short = 's', long, value_name = "LSN", help_heading = "Range")]
    pub start: Option<Lsn>,
    /// Count no record that ends after this LSN
    #[arg(short = 'e', long, value_name = "LSN", help_heading = "Range")]
    pub end: Option<Lsn>,
    /// Follow this timeline [default: the newest there is, or that of STARTSEG]
    #[arg(short = 't', long, value_name = "TLI", help_heading = "Range", value_parser = clap::value_parser!(u32).range(1..))]
    pub timeline: Option<u32>,
}

impl SourceArgs {
    /// These paths, all of them.
    #[must_use]
    pub fn of_paths(paths: Vec<PathBuf>) -> Self {
        Self { paths, path: None, pgdata: None, start: None, end: None, timeline: None }
    }

    /// What is read, and the segments that limit it.
    ///
    /// # Errors
    /// When nothing is named, or something besides `-p` that is no segment.
    pub fn named(&self) -> Result<(Vec<PathBuf>, SegmentSpan), Stop> {
        let Some(base) = self.path.as_ref().or(self.pgdata.as_ref()) else {
            if !self.paths.is_empty() {
                return Ok((self.paths.clone(), SegmentSpan::default()));
            }
            let data_dir = std::env::var_os("PGDATA").filter(|value| !value.is_empty());
            let data_dir = data_dir.ok_or_else(|| {
                Stop::Input("no WAL is named: give PATH, -p PATH or -D DATADIR, or set PGDATA".to_owned())
            })?;
            return Ok((vec![data_dir.into()], SegmentSpan::default()));
        };
        let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        if let Some(other) = names.iter().find(|name| !is_segment_name(name)) {
            return Err(Stop::Input(format!(
                "with -p or -D, PATH is the name of the first segment and perhaps of the last, not \"{other}\""
            )));
        }
        let (first, last) = match &names[..] {
            [] => (None, None),
            [only] => (Some(only.clone()), Some(only.clone())),
            [first, last] => (Some(first.clone()), Some(last.clone())),
            _ => {
                let message = "with -p or -D, at most two segments are named: the first and the last";
                return Err(Stop::Input(message.to_owned()));
            }
        };
        Ok((vec![base.clone()], SegmentSpan { first, last }))
    }

    /// Directories that nothing is written into: those that were named, and all that belongs to a data directory.
    ///
    /// # Errors
    /// When it cannot be found out what belongs to one of them.
    pub fn protected(&self) -> Result<Vec<PathBuf>, Stop> {
        let mut protected = Vec::new();
        for path in &self.named()?.0 {
            let failed = |error: AccessError| Stop::Input(format!("what belongs to it cannot be told: {error}"));
            match path.metadata() {
                Ok(metadata) if metadata.is_dir() => {
                    let opened = match DataDir::open(path) {
                        // As `pg_wal`: all of the data that it is a part of.
                        Err(NotADataDir::Inside { data_dir, .. }) => DataDir::open(&data_dir),
                        opened => opened,
                    };
                    match opened {
                        Ok(directory) => protected.extend(directory.own_directories().map_err(failed)?),
                        Err(NotADataDir::NoVersion(_)) => protected.push(path.clone()),
                        Err(error) => return Err(Stop::Input(error.to_string())),
                    }
                }
                Ok(_) => {}
                // A pattern or standard input.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(failed(AccessError::io("look at", path, source))),
            }
        }
        Ok(protected)
    }
}

/// Names of the first and last segment to be read, each without a directory.
#[derive(Clone, Debug, Default)]
pub struct SegmentSpan {
    first: Option<String>,
    last: Option<String>,
}

impl SegmentSpan {
    /// Timeline of the first segment.
    fn timeline(&self) -> Option<TimelineId> {
        let digits = self.first.as_ref()?.get(..8)?;
        u32::from_str_radix(digits, 16).ok().map(TimelineId)
    }

    /// From the start of the first segment to the end of the last.
    fn range(&self, segment_size: u32) -> Result<(Option<Lsn>, Option<Lsn>), Stop> {
        let place = |name: &Option<String>| {
            let Some(name) = name else { return Ok(None) };
            let segment = WalSegment::from_file_name(name, segment_size);
            let wrong = || Stop::Input(format!("no segment of {segment_size} bytes is called {name}"));
            segment.and_then(|segment| segment.start_lsn(segment_size)).map(Some).ok_or_else(wrong)
        };
        let (first, last) = (place(&self.first)?, place(&self.last)?);
        if let (Some(start), Some(end)) = (first, last)
            && start > end
        {
            return Err(Stop::Input("the last segment comes before the first".to_owned()));
        }
        Ok((first, last.map(|lsn| lsn.advanced_by(u64::from(segment_size)))))
    }
}

fn is_segment_name(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The set of segments, with what was odd about it.
pub struct WalSource {
    /// The segments.
    pub set: WalSet,
    /// Findings so far.
    pub findings: Vec<Finding>,
    /// What was read and what was not.
    pub coverage: Coverage,
    paths: Vec<String>,
    start: Option<Lsn>,
    end: Option<Lsn>,
    watch: Option<WatchBytes>,
    shows_progress: bool,
    /// Runs that are still to be read.
    waiting: VecDeque<Range<usize>>,
}

/// Told how many bytes are done.
pub type WatchBytes = Arc<dyn Fn(u64) + Send + Sync>;

impl WalSource {
    /// Opens what the paths stand for.
    ///
    /// # Errors
    /// When no path holds WAL, or the range is empty.
    pub fn open(args: &SourceArgs) -> Result<Self, Stop> {
        if let (Some(start), Some(end)) = (args.start, args.end)
            && start > end
        {
            return Err(Stop::Input(format!("--start {start} is after --end {end}")));
        }
        let (paths, span) = args.named()?;
        let mut stdin = io::stdin();
        let mut options = WalSetOptions::new(&scratch_file);
        options.timeline = args.timeline.map(TimelineId).or_else(|| span.timeline());
        options.stdin = Some(&mut stdin);
        let set = WalSet::open(&paths, options).map_err(|error| cannot_open(&paths, &error))?;
        let (first, last) = span.range(set.geometry().wal_segment_size)?;
        let mut source = Self {
            set,
            findings: Vec::new(),
            coverage: Coverage::default(),
            paths: paths.iter().map(|path| path.display().to_string()).collect(),
            // The narrower of the two that were asked for.
            start: args.start.max(first),
            end: [args.end, last].into_iter().flatten().min(),
            watch: None,
            shows_progress: false,
            waiting: VecDeque::new(),
        };
        tell_notes(&source.set, None, &mut source.findings, &mut source.coverage);
        source.confirm_version();
        source.note_two_segments(&paths);
        Ok(source)
    }

    /// Holds the version that the page magic tells against `pg_control`.
    fn confirm_version(&mut self) {
        let Some((control, major)) = self.set.control().zip(self.set.major()) else { return };
        let version = control.prefix.pg_control_version;
        let known = ControlLayout::of_version(version);
        if known.is_none_or(|layout| !layout.is_written_by(major)) {
            let kind = FindingKind::WalVersion { major: major.number(), control_version: version };
            self.findings.push(Finding::problem(kind));
        }
    }

    /// Two segments with others between them, which `pg_waldump` would read as well.
    fn note_two_segments(&mut self, paths: &[PathBuf]) {
        let [first, last] = paths else { return };
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let (Some(first_name), Some(last_name)) = (name(first), name(last)) else { return };
        let size = self.set.geometry().wal_segment_size;
        let number = |name: &str| WalSegment::from_file_name(name, size).map(|segment| segment.number);
        let (Some(one), Some(other)) = (number(&first_name), number(&last_name)) else { return };
        let between = other.saturating_sub(one).saturating_sub(1);
        if between > 0 {
            self.findings.push(Finding::note(FindingKind::TwoSegments { between }));
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
    pub fn plan(&self) -> ScanPlan {
        ScanPlan {
            start_lsn: self.start.unwrap_or_default(),
            end_lsn: self.end.unwrap_or(Lsn(u64::MAX)),
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
    pub fn note_empty_range(&mut self) {
        if self.coverage.examined > 0 || (self.start.is_none() && self.end.is_none()) {
            return;
        }
        let bound = |lsn: Option<Lsn>, open: &str| lsn.map_or_else(|| open.to_owned(), |lsn| lsn.to_string());
        let range = format!("{} to {}", bound(self.start, "the start"), bound(self.end, "the end"));
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

    /// Progress is shown also where standard error is not a terminal, if that was asked for.
    #[must_use]
    pub fn telling(self, progress: ProgressArg) -> Self {
        Self { shows_progress: progress.progress, ..self }
    }

    /// Progress over all bytes.
    #[must_use]
    pub fn progress(&self) -> Progress {
        match &self.watch {
            Some(watch) => Progress::told(Arc::clone(watch)),
            None => Progress::bytes(self.total_bytes(), self.shows_progress),
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

    /// Goes on after the segments of a run that are not there any more; false when no segment at all comes after them.
    fn go_on_after_recycled(&mut self, run: &Range<usize>) -> bool {
        let is_gone = |index: &usize| self.set.reader(*index).is_err_and(|error| error.is_gone());
        let segments = self.set.segments().len();
        let Some(last) = run.clone().rev().find(is_gone).filter(|last| last + 1 < segments) else { return false };
        let segment = self.set.segments()[last].label.clone();
        self.findings.push(Finding::note(FindingKind::Wal(WalRemark::Recycled { segment })));
        if last + 1 < run.end {
            self.waiting.push_front(last + 1..run.end);
        }
        true
    }

    /// Says what a walk over a run met: damage, and how it ended.
    pub fn judge_walk(&mut self, run: &Range<usize>, walked: WalkEnd) -> Option<Tail> {
        for damage in walked.damage {
            let Damage { at, from, resumed, reason, .. } = damage;
            self.note_damage(WalDamage::Gap { reason, at, from, resumed });
        }
        if walked.further_damage > 0 {
            self.note_damage(WalDamage::Further(walked.further_damage));
        }
        if let Some(at) = walked.written_since {
            self.note_changing(WalChange::ReadLater { at });
        }
        for error in &walked.behind {
            self.findings.push(Finding::problem(FindingKind::AfterSegment(error.into())));
        }
        if let Some(error) = walked.error {
            self.note_unread(run, error);
        }
        self.judge_end(run, walked.end.as_ref()?)
    }

    fn note_damage(&mut self, damage: WalDamage) {
        self.findings.push(Finding::problem(FindingKind::Damage(damage)));
    }

    fn note_changing(&mut self, change: WalChange) {
        self.findings.push(Finding::note(FindingKind::WalChanging(change)));
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
                match tail {
                    Tail::RecordsFollow { first_lsn, was_synced } => {
                        self.note_damage(WalDamage::RecordsFollow { end: end.clone(), first_lsn, was_synced });
                    }
                    Tail::Changing { end_lsn } => self.note_changing(WalChange::EndMoves { end_lsn }),
                    Tail::BeforeKnownEnd { known_lsn } => {
                        self.note_damage(WalDamage::BeforeKnownEnd { end: end.clone(), known_lsn });
                    }
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

/// A bare segment name that is no file here is probably meant as `pg_waldump` takes it.
fn cannot_open(paths: &[PathBuf], error: &WalSetError) -> Stop {
    let is_bare = |path: &PathBuf| path.to_str().is_some_and(is_segment_name) && !path.exists();
    let hint = if paths.iter().any(is_bare) { "; -p DIRECTORY says where segments are" } else { "" };
    Stop::Input(format!("{error}{hint}"))
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
