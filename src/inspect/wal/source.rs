//! The WAL that a request names, read run by run, and what is odd about it.
//! Also here: what every answer about some WAL comes with: whose it is, and what was met while it was read.

use std::collections::VecDeque;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use super::names::NameLookup;
use super::request::{WalRequest, WatchWal, Watched, is_segment_name, unwatched};
use super::times::{TimedRange, bytes_between, lsn_range};
use crate::analysis::changes::history::{Interest, WalHistory};
use crate::analysis::error_words::ErrorWords;
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::analysis::wal::group::RelationFilter;
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::tail::{Tail, judge_tail};
use crate::analysis::wal::unreadable::{NeededWal, Resync, WalDamage, lost_by_damage, lost_by_note, note_set};
use crate::analysis::wal::walk::{Damage, WalkEnd, walk_run};
use crate::cluster::wal::{NoteKind, WalOrigin, WalReadError, WalSet, WalSetError, WalSetOptions};
use crate::inspect::error::InspectError;
use crate::inspect::page_target::RelationChoice;
use crate::inspect::wal::rules;
use crate::parsers::control_layout::ControlLayout;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::timeline::WalSegment;
use crate::repair::export::scratch_file;
use crate::report::{Finding, Severity};
use crate::types::Lsn;

/// The set of segments, with what was odd about it.
pub struct WalSource {
    /// The segments.
    pub set: WalSet,
    /// Findings so far.
    pub findings: Vec<Finding>,
    /// What was read and what was not.
    pub coverage: Coverage,
    /// Whether reading continues after damage.
    pub resync: Resync,
    /// Bytes of WAL between good records that could not be read, where reading continued after them.
    pub damaged_bytes: u64,
    relations: Option<RelationFilter>,
    start: Option<Lsn>,
    end: Option<Lsn>,
    waiting: VecDeque<Range<usize>>,
}

impl WalSource {
    /// Opens what the paths stand for.
    ///
    /// # Errors
    /// When no path holds WAL, or the range is empty.
    pub fn open(request: &WalRequest) -> Result<Self, InspectError> {
        Self::open_for(request, Wanted::default(), &unwatched)
    }

    /// The same. `watch` is told how far copies of the same segments are compared, where there are any.
    ///
    /// # Errors
    /// As [`Self::open`], and when `watch` interrupts it.
    pub fn open_watched(request: &WalRequest, watch: WatchWal<'_>) -> Result<Self, InspectError> {
        Self::open_for(request, Wanted::default(), watch)
    }

    /// The same, of WAL that is `wanted`.
    pub(super) fn open_for(request: &WalRequest, wanted: Wanted, watch: WatchWal<'_>) -> Result<Self, InspectError> {
        if let (Some(start), Some(end)) = (request.start, request.end)
            && start > end
        {
            return Err(InspectError::RangeReversed { start, end });
        }
        let WalRequest { paths, span, .. } = request;
        let mut stdin = io::stdin();
        let mut options = WalSetOptions::new(&scratch_file);
        options.timeline = request.timeline.or_else(|| span.timeline());
        options.system_identifier = wanted.system_identifier;
        options.stdin = Some(&mut stdin);
        options.fifos = true;
        options.watch = watch;
        let set = WalSet::open(paths, options).map_err(|error| cannot_open(paths, error))?;
        let (first, last) = span.range(set.geometry().wal_segment_size)?;
        let TimedRange { start: since, end: until, leaves_out_unknown } =
            lsn_range(&set, request.since, request.until)?;
        // The narrowest of those that were asked for.
        let (start, end) =
            (request.start.max(first).max(since), [request.end, last, until].into_iter().flatten().min());
        if let (Some(_), Some(start), Some(end)) = (since.or(until), start, end)
            && start > end
        {
            return Err(InspectError::RangeReversed { start, end });
        }
        let mut source = Self {
            set,
            findings: Vec::new(),
            coverage: Coverage::default(),
            resync: Resync::default(),
            damaged_bytes: 0,
            relations: None,
            start,
            end,
            waiting: VecDeque::new(),
        };
        let (from, to) = (source.start, source.end);
        let needed = NeededWal { gaps_from: from, gaps_to: to, segments_from: wanted.from.or(from) };
        note_set(&source.set, needed, &mut source.findings, &mut source.coverage);
        let lost = source.set.notes().iter().filter_map(|note| lost_by_note(note, source.start, source.end));
        source.coverage.skipped.extend(lost);
        source.confirm_version();
        source.note_two_segments(paths);
        if let Some(since) = since.filter(|_| leaves_out_unknown) {
            let bytes = bytes_between(&source.set, request.start.max(first), since);
            if bytes > 0 {
                source.findings.push(rules::TIME_UNKNOWN_BEFORE.note(format!(
                    "{bytes} bytes of WAL before {since} are left out: when they were written is unknown"
                )));
            }
        }
        Ok(source)
    }

    /// Compares the version that the page magic tells with `pg_control`.
    fn confirm_version(&mut self) {
        let Some((control, major)) = self.set.control().zip(self.set.major()) else { return };
        let version = control.prefix.pg_control_version;
        let known = ControlLayout::of_version(version);
        if known.is_none_or(|layout| !layout.is_written_by(major)) {
            self.findings.push(
                rules::WAL_VERSION
                    .problem(format!("page magic of PostgreSQL {}, pg_control version {version}", major.number())),
            );
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
            self.findings.push(rules::TWO_SEGMENTS.note(format!(
                "two files were given and only these two are read, not the {between} segments between them"
            )));
        }
    }

    /// Compares the cluster of the names with that of the WAL, and counts what could not be read of them as not examined.
    pub(crate) fn take_names(&mut self, names: &NameLookup) -> Result<(), InspectError> {
        if let Some((known, wal)) = names.known().zip(self.set.system_identifier()) {
            match known.system_identifier() {
                Some(names) if names != wal => return Err(InspectError::NamesOfOtherCluster { names, wal }),
                Some(_) => {}
                None if names.is_of_wal_alone() => {}
                None => self
                    .findings
                    .push(rules::NAMES_OF_UNKNOWN_CLUSTER.note("the names given do not say which cluster they are of")),
            }
        }
        for gap in names.gaps() {
            self.coverage.skip(SkippedPart::RelationNames, SkipReason::NameGap(ErrorWords::of_other(gap)));
        }
        Ok(())
    }

    /// Adds names that the WAL itself tells, where names were asked for.
    pub(crate) fn find_names(&mut self, names: &mut NameLookup, jobs: usize) {
        for finding in names.add_from_wal(&self.set, jobs) {
            // Whoever looks for causes meets the same image.
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
    }

    /// The range that was asked for.
    pub fn plan(&self) -> ScanPlan {
        ScanPlan {
            start_lsn: self.start.unwrap_or_default(),
            end_lsn: self.end.unwrap_or(Lsn(u64::MAX)),
            relations: self.relations.clone(),
            ..ScanPlan::totals()
        }
    }

    /// Counts these relations alone, where there are any. Names that are not known are looked up in the WAL.
    pub(super) fn take_relations(
        &mut self,
        wanted: &[RelationChoice],
        names: &mut NameLookup,
        jobs: usize,
    ) -> Result<(), InspectError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let patterns = RelationChoice::files_of(wanted, names.known());
        let patterns = match patterns {
            Err(InspectError::NoSuchRelation(_)) => {
                self.find_names(names, jobs);
                RelationChoice::files_of(wanted, names.known())?
            }
            patterns => patterns?,
        };
        self.relations = Some(RelationFilter::new(patterns));
        Ok(())
    }

    /// Says so when a relation was asked for that no record refers to.
    pub(super) fn note_unmet_relations(&mut self) {
        self.relations.iter().for_each(|filter| filter.note_unmet(&mut self.coverage));
    }

    /// Ends the range at `end`, or where it ends already.
    pub(super) fn end_at(&mut self, end: Lsn) {
        self.end = Some(self.end.map_or(end, |before| before.min(end)));
    }

    /// Says so when a range was asked for in which no record lies, or which begins before all WAL that is there or continues
    /// after it.
    pub(crate) fn note_range_without_wal(&mut self) {
        let (start, end) = (self.start, self.end);
        if self.coverage.examined == 0 {
            if start.is_some() || end.is_some() {
                self.coverage.skip(SkippedPart::LsnRange { start, end }, SkipReason::NoRecordInRange);
            }
            return;
        }
        let size = u64::from(self.set.geometry().wal_segment_size);
        let (first, last) = (self.set.segments().first(), self.set.segments().last());
        let first = first.map(|first| first.start_lsn);
        if start.is_some_and(|start| first.is_some_and(|first| start < first)) {
            self.coverage.skip(SkippedPart::LsnRange { start, end: first }, SkipReason::NoSegmentInRange);
        }
        let last_end = last.map(|last| last.start_lsn.advanced_by(size));
        if end.is_some_and(|end| last_end.is_some_and(|last| end > last)) {
            self.coverage.skip(SkippedPart::LsnRange { start: last_end, end }, SkipReason::NoSegmentInRange);
        }
    }

    /// True when all that was asked for was read, and nothing is wrong with it. Names do not change what is counted.
    pub fn is_whole(&self) -> bool {
        let lacks_wal = self.coverage.skipped.iter().any(|skipped| skipped.what != SkippedPart::RelationNames);
        !lacks_wal && !self.findings.iter().any(|finding| finding.severity == Severity::Problem)
    }

    /// Bytes of all segments.
    pub(crate) fn total_bytes(&self) -> u64 {
        let size = u64::from(self.set.geometry().wal_segment_size);
        self.set.segments().len() as u64 * size
    }

    /// A watch over all bytes.
    pub(super) fn watched<'a>(&self, watch: WatchWal<'a>) -> Watched<'a> {
        Watched::new(watch, self.total_bytes())
    }

    /// Has each run read by `read` in order, says what it met, and shows that to `judged`, until `judged` or the user
    /// interrupts it. What a running server has taken away meanwhile is left out.
    pub(super) fn each_run<T>(
        &mut self,
        watched: &Watched<'_>,
        mut read: impl FnMut(&WalSet, &Range<usize>, &mut Notes<'_>) -> (Result<WalkEnd, WalReadError>, T),
        mut judged: impl FnMut(&WalSet, &Range<usize>, JudgedRun<'_>, T) -> ControlFlow<()>,
    ) {
        self.waiting = self.set.runs().into();
        while let Some(run) = self.waiting.pop_front() {
            let mut notes = Notes { findings: &mut self.findings, coverage: &mut self.coverage };
            let (walked, found) = read(&self.set, &run, &mut notes);
            let flow = match walked {
                Ok(mut walked) => {
                    self.damaged_bytes = self.damaged_bytes.saturating_add(walked.damaged_bytes);
                    let tail = self.judge_walk(&run, &mut walked);
                    judged(&self.set, &run, JudgedRun { walked: &walked, tail }, found)
                }
                Err(error) => {
                    self.note_unread(&run, error);
                    ControlFlow::Continue(())
                }
            };
            if watched.is_interrupted() {
                self.coverage.skip(SkippedPart::RestOfWal, SkipReason::Interrupted(Lacking::Counts));
                return;
            }
            if flow.is_break() {
                return;
            }
        }
    }

    /// Reads the same WAL for another question, without repeating its findings. `None`: the reading was interrupted, now or
    /// before.
    pub(crate) fn once_more<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.coverage.is_interrupted() {
            return None;
        }
        let findings = std::mem::take(&mut self.findings);
        let coverage = std::mem::take(&mut self.coverage);
        let done = work(self);
        let again = std::mem::replace(&mut self.findings, findings);
        for finding in again {
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
        let coverage_again = std::mem::replace(&mut self.coverage, coverage);
        self.coverage.append_once(coverage_again);
        (!self.coverage.is_interrupted()).then_some(done)
    }

    /// Shows every record of the plan in order, until `visit` or the user ends it.
    pub(super) fn each_record(
        &mut self,
        plan: &ScanPlan,
        watched: &Watched<'_>,
        mut visit: impl FnMut(&mut Notes<'_>, &Record<'_>) -> ControlFlow<()>,
    ) {
        let resync = self.resync;
        self.each_run(
            watched,
            |set, run, notes| {
                let mut visited = ControlFlow::Continue(());
                let stretch = plan.stretch(set, run, Keep::Blocks);
                let walked = walk_run(&stretch, resync.is_on(), &mut |bytes| watched.advance(bytes), |record| {
                    visited = visit(notes, record);
                    visited
                });
                (walked, visited)
            },
            |_, _, _, visited| visited,
        );
    }

    /// Adds what all runs say of the pages of `interest` to `history`, until the user ends it.
    pub(in crate::inspect) fn each_history(
        &mut self,
        history: &mut WalHistory,
        interest: &Interest,
        jobs: usize,
        watch: WatchWal<'_>,
    ) {
        let watched = self.watched(watch);
        let plan = self.plan();
        self.each_run(
            &watched,
            |set, run, _| {
                let range = (plan.start_lsn, plan.end_lsn);
                (history.read(set, run, range, interest, jobs, &|bytes| watched.advance(bytes)), ())
            },
            |_, _, _, ()| ControlFlow::Continue(()),
        );
    }

    /// Says that a run could not be read. What a running server has left of it is read next.
    fn note_unread(&mut self, run: &Range<usize>, error: WalReadError) {
        if !error.is_gone() {
            self.coverage.skip(SkippedPart::Wal, error);
        } else if !self.go_on_after_recycled(run) {
            self.coverage.skip(SkippedPart::Wal, SkipReason::Recycled);
        }
    }

    /// Continues after removed segments of a run; false when no segment follows them.
    fn go_on_after_recycled(&mut self, run: &Range<usize>) -> bool {
        let is_gone = |index: &usize| self.set.reader(*index).is_err_and(|error| error.is_gone());
        let segments = self.set.segments().len();
        let Some(last) = run.clone().rev().find(is_gone).filter(|last| last + 1 < segments) else { return false };
        let segment = self.set.segments()[last].label.clone();
        let what = format!("{segment} was there when the directory was listed, and was then renamed or removed");
        self.findings.push(NoteKind::Recycled.rule().note(what));
        if last + 1 < run.end {
            self.waiting.push_front(last + 1..run.end);
        }
        true
    }

    /// Says what a walk over a run met: damage, and how it ended.
    fn judge_walk(&mut self, run: &Range<usize>, walked: &mut WalkEnd) -> Option<Tail> {
        for damage in &walked.damage {
            let Damage { at, from, resumed, reason, .. } = damage.clone();
            self.note_damage(run, WalDamage::Gap { reason, at, from, resumed });
        }
        if walked.further_damage > 0 {
            self.note_damage(run, WalDamage::Further(walked.further_damage));
        }
        if let Some(at) = walked.written_since {
            self.note_changing(format!("WAL could not be read at {at} at first, and could a moment later"));
        }
        for error in &walked.past_end {
            self.findings.push(rules::AFTER_SEGMENT.problem(error.to_string()));
        }
        if let Some(error) = walked.error.take() {
            self.note_unread(run, error);
        }
        self.judge_end(run, walked.end.as_ref()?)
    }

    fn note_damage(&mut self, run: &Range<usize>, damage: WalDamage) {
        let segment_size = u64::from(self.set.geometry().wal_segment_size);
        let last = self.set.segments().get(run.end.saturating_sub(1));
        let run_end = last.map_or(Lsn(u64::MAX), |last| last.start_lsn.advanced_by(segment_size));
        self.coverage.skipped.push(lost_by_damage(&damage, run_end.min(self.end.unwrap_or(run_end))));
        self.findings.push(rules::damage(&damage, self.resync));
    }

    fn note_changing(&mut self, what: String) {
        self.findings.push(rules::WAL_CHANGING.note(what));
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
                        self.note_damage(run, WalDamage::RecordsFollow { end: end.clone(), first_lsn, was_synced });
                    }
                    Tail::Changing { end_lsn } => {
                        self.note_changing(format!("WAL changed while it was read; the last reading reached {end_lsn}"))
                    }
                    Tail::BeforeKnownEnd { known_lsn } => {
                        self.note_damage(run, WalDamage::BeforeKnownEnd { end: end.clone(), known_lsn });
                    }
                    Tail::UnfinishedPage { first_lsn } => {
                        self.findings.push(rules::WAL_UNFINISHED.note(format!(
                            "{end}; the same page of WAL holds valid records at {first_lsn} and after it, and no later page \
                                was written"
                        )));
                    }
                    Tail::Complete | Tail::EndOfWal | Tail::Gap => {}
                }
                Some(tail)
            }
            Err(error) => {
                self.coverage.skip(SkippedPart::WalAfterEnd, error);
                None
            }
        }
    }
}

/// A bare segment name that is not a file here is probably meant as `pg_waldump` takes it.
fn cannot_open(paths: &[PathBuf], error: WalSetError) -> InspectError {
    let is_bare = |path: &PathBuf| path.to_str().is_some_and(is_segment_name) && !path.exists();
    if paths.iter().any(is_bare) { InspectError::SegmentWithoutDirectory(error) } else { error.into() }
}

/// Which WAL is wanted of that which the paths stand for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// That of this cluster alone; `None`: of the one that most is of.
    pub(super) system_identifier: Option<u64>,
    /// What ends before is left out without a loss; `None`: before the range that is read.
    pub(super) from: Option<Lsn>,
}

/// Where a visitor says what is wrong.
pub struct Notes<'a> {
    /// Findings.
    pub findings: &'a mut Vec<Finding>,
    /// What was not examined.
    pub coverage: &'a mut Coverage,
}

pub(super) struct JudgedRun<'a> {
    /// What was met, without the errors.
    pub(super) walked: &'a WalkEnd,
    /// How its end was judged, where it was.
    pub(super) tail: Option<Tail>,
}

/// Context of every answer about WAL.
#[derive(Debug)]
pub struct ReadWal {
    /// The cluster that wrote it.
    pub origin: WalOrigin,
    /// Names of relations, where they were asked for.
    pub names: NameLookup,
    /// Findings.
    pub findings: Vec<Finding>,
    /// What was read and what was not; empty `skipped`: all of it was.
    pub coverage: Coverage,
}

impl ReadWal {
    /// What is left of a source when all questions to it were answered.
    pub(super) fn of(source: WalSource, names: NameLookup) -> Self {
        let WalSource { set, findings, coverage, .. } = source;
        Self { origin: set.origin(), names, findings, coverage }
    }
}
