//! Counts the WAL of a running server as it is written: a round reads what is new since the one before.
//!
//! A round begins where the last whole record ended, so that no record is counted twice or lost. A fault at the end of WAL
//! may be a record that is being written, and a short file may still be arriving: both are reported only when they remain,
//! see `sightings`.

mod lines;
mod sightings;

use std::ops::{ControlFlow, Range};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::request::{SegmentSpan, WalRequest, Watched, unwatched};
use super::source::{WalSource, Wanted};
use super::stats::WalCounts;
use crate::analysis::error_words::ErrorWords;
use crate::analysis::skipped::{Coverage, Lacking, SkipClass, SkipReason, Skipped, SkippedPart};
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::tail::Tail;
use crate::analysis::wal::unreadable::{NeededWal, note_all};
use crate::analysis::wal::walk::WalkEnd;
use crate::cluster::wal::{NoteKind, WalOrigin, WalReadError, WalSet, WalSetError};
use crate::inspect::error::InspectError;
use crate::inspect::wal::rules;
use crate::parsers::wal::block::Keep;
use crate::report::Finding;
use crate::types::{Lsn, TimelineId};
use lines::Lines;
pub use lines::{FollowBy, FollowedLine, FollowedRow};
pub use sightings::Oddity;
use sightings::{MIN_LOOKS, Sightings};

/// Looks that must find segments of a server gone until that is believed: waiting would only make the gap longer.
const MIN_LOOKS_AT_GAP: u32 = 2;

/// Between the looks at the end that show what stays wrong.
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// What is followed, and how.
#[derive(Clone, Debug)]
pub struct FollowRequest {
    /// Which WAL, and how it is read. It has no end.
    pub wal: WalRequest,
    /// What lines stand for.
    pub by: FollowBy,
    /// How long what looks wrong must stay as it is until that is believed.
    pub patience: Duration,
}

/// WAL that is followed.
#[derive(Debug)]
pub struct WalFollow {
    request: FollowRequest,
    lines: Lines,
    sightings: Sightings,
    telling: Vec<Oddity>,
    stall: Option<Stall>,
    source: Option<WalOrigin>,
    timeline: Option<TimelineId>,
    caught_up: bool,
    is_over: bool,
}

/// What a round found.
#[derive(Debug)]
pub struct Round {
    /// The lines of which all is known.
    pub lines: Vec<FollowedLine>,
    /// Findings that were not reported before.
    pub told: Vec<Oddity>,
    /// WAL cannot be read any further.
    pub is_last: bool,
}

/// Everything, at the end.
#[derive(Debug)]
pub struct Followed {
    /// The lines that no round gave, the last as far as it was read.
    pub lines: Vec<FollowedLine>,
    /// Findings that were not reported before.
    pub told: Vec<Oddity>,
    /// All that was counted, without its intervals.
    pub counts: WalCounts,
    /// Whose WAL it is; `None` when no round could open it.
    pub source: Option<WalOrigin>,
}

/// What keeps counting from continuing, as the last look found it.
#[derive(Debug)]
struct Stall {
    mark: StallMark,
    since: Instant,
    looks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StallMark {
    at: Option<Lsn>,
    /// Where WAL continues.
    gap: Option<Lsn>,
    /// Bytes of the files that may still be arriving.
    bytes: u64,
}

/// What comes after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Again,
    /// Another after a while.
    Wait,
    End,
}

#[derive(Debug, Default)]
struct Wrong {
    blocking: Vec<Oddity>,
    gaps: Vec<Finding>,
}

impl WalFollow {
    /// Nothing was read yet.
    pub fn new(request: FollowRequest) -> Self {
        Self {
            lines: Lines::new(request.by),
            request,
            sightings: Sightings::default(),
            telling: Vec::new(),
            stall: None,
            source: None,
            timeline: None,
            caught_up: false,
            is_over: false,
        }
    }

    /// Reads what is new, until `is_over`.
    ///
    /// # Errors
    /// The first time, when there is no such WAL. Later failures are findings.
    pub fn round(&mut self, is_over: &(dyn Fn() -> bool + Sync)) -> Result<Round, InspectError> {
        let mut after = After::Again;
        while after == After::Again {
            after = self.look(is_over)?;
            if is_over() {
                break;
            }
        }
        self.is_over |= after == After::End;
        let undecoded = self.lines.take_undecoded().into_iter();
        self.telling.extend(undecoded.map(|error| Oddity::Finding(rules::PAYLOAD.problem(error.to_string()))));
        self.telling.extend(self.lines.take_wrong_clock().into_iter().map(Oddity::Finding));
        if let Some(error) = self.lines.take_lost_redo() {
            self.tell_skipped(SkippedPart::WalBeforeRedo, error);
        }
        let lines = self.lines.take_settled();
        self.telling.extend(hidden_redo_points(&lines));
        Ok(Round { lines, told: std::mem::take(&mut self.telling), is_last: self.is_over })
    }

    fn look(&mut self, is_over: &(dyn Fn() -> bool + Sync)) -> Result<After, InspectError> {
        let from = self.lines.next();
        let wal = &self.request.wal;
        let request = WalRequest { start: from.or(wal.start), ..wal.clone() };
        let system_identifier = self.source.and_then(|source| source.system_identifier);
        let mut source = match WalSource::open_for(&request, Wanted { system_identifier, from: wal.start }, &unwatched)
        {
            Ok(source) => source,
            Err(error) if self.source.is_some() => return Ok(self.closed(error)),
            Err(error) => return Err(error),
        };
        self.take_source(&source);
        if self.follow_timeline(&source.set) {
            return Ok(After::Again);
        }
        let watch = |_, _| if is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let watched = source.watched(&watch);
        let plan = ScanPlan { blocks: true, ..source.plan() };
        let opened = (std::mem::take(&mut source.findings), std::mem::take(&mut source.coverage));
        let mut gap = None;
        source.each_run(
            &watched,
            |set, run, _| (self.read_run(set, run, &plan, &watched, &mut gap), self.lines.next()),
            |set, run, judged, next| {
                let is_enough = judged.tail != Some(Tail::Gap) && reaches_past(set, run, next);
                if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        let met = (std::mem::take(&mut source.findings), std::mem::take(&mut source.coverage));
        let wrong = self.sight(opened, met);
        if self.lines.next() != from {
            self.stall = None;
            self.caught_up |= !watched.is_interrupted();
            return Ok(After::Wait);
        }
        if watched.is_interrupted() {
            return Ok(After::Wait);
        }
        self.caught_up = true;
        Ok(self.judge(&source.set, gap, wrong))
    }

    /// Keeps in mind what the first look found out about what is asked for.
    fn take_source(&mut self, source: &WalSource) {
        let set = &source.set;
        if self.source.is_none() {
            let wal = &mut self.request.wal;
            wal.start = Some(source.plan().start_lsn).filter(|start| *start > Lsn::default());
            wal.timeline = wal.timeline.or_else(|| wal.span.timeline());
            (wal.since, wal.span) = (None, SegmentSpan::default());
        }
        let (before, now) = (self.source, set.origin());
        let known = before.and_then(|before| before.system_identifier);
        self.source = Some(WalOrigin { system_identifier: known.or(now.system_identifier), ..now });
    }

    /// Continues where a new timeline leaves the one that was read. True when that is before what was counted already.
    fn follow_timeline(&mut self, set: &WalSet) -> bool {
        let now = set.timeline();
        let before = self.timeline.replace(now).filter(|before| *before < now);
        let Some((before, next)) = before.zip(self.lines.next()) else { return false };
        let ancestors = set.history().map(|history| &history.ancestors[..]).unwrap_or_default();
        let left = ancestors.iter().find(|ancestor| ancestor.tli == before).map(|ancestor| ancestor.switch_lsn);
        let Some(left) = left.filter(|left| *left < next) else { return false };
        let what = format!(
            "timeline {now} begins at {left}, but timeline {before} was counted up to {next}: what it has after {left} is \
             counted too"
        );
        self.telling.push(Oddity::Finding(NoteKind::OtherTimeline.rule().note(what).in_file("WAL")));
        self.lines.go_on_at(left, set);
        true
    }

    /// Counts the whole records of a run, unless WAL before it was removed.
    fn read_run(
        &mut self,
        set: &WalSet,
        run: &Range<usize>,
        plan: &ScanPlan,
        watched: &Watched<'_>,
        gap: &mut Option<Lsn>,
    ) -> Result<WalkEnd, WalReadError> {
        let starts = set.segments()[run.start].start_lsn;
        if self.lines.next().is_some_and(|next| starts > next) {
            *gap = gap.or(Some(starts));
            return Ok(WalkEnd::default());
        }
        let stretch = plan.stretch(set, run, Keep::Heads);
        self.lines.read(&stretch, self.request.wal.jobs, &|bytes| watched.advance(bytes), plan)
    }

    /// Sorts what a look found when it opened the set, and what it met when it read.
    fn sight(&mut self, opened: (Vec<Finding>, Coverage), met: (Vec<Finding>, Coverage)) -> Wrong {
        let mut wrong = Wrong::default();
        let mut seen = Vec::new();
        for finding in opened.0 {
            if finding.is(NoteKind::Gap.rule()) {
                wrong.gaps.push(finding);
            } else if !finding.is(NoteKind::Recycled.rule()) {
                // What is left out is what a server does with segments that it does not need.
                seen.push(Oddity::Finding(finding));
            }
        }
        // Reported once nothing can fill the gap.
        let skipped = opened.1.skipped.into_iter().filter(|skipped| skipped.reason != SkipReason::SegmentsMissing);
        seen.extend(skipped.map(Oddity::Skipped));
        for finding in met.0 {
            if finding.is(&rules::DAMAGE) {
                wrong.blocking.push(Oddity::Finding(finding));
            } else if !finding.is(&rules::WAL_CHANGING) && !finding.is(NoteKind::Recycled.rule()) {
                // What is left out is being written: the next look shows what comes of it.
                seen.push(Oddity::Finding(finding));
            }
        }
        let skipped = met.1.skipped.into_iter().filter(|skipped| skipped.reason.class() != SkipClass::Interrupted);
        wrong.blocking.extend(skipped.map(Oddity::Skipped));
        let told = self.sightings.look(seen, self.request.patience);
        self.telling.extend(told);
        wrong
    }

    /// What comes after a look that counted nothing.
    fn judge(&mut self, set: &WalSet, gap: Option<Lsn>, wrong: Wrong) -> After {
        let at = self.lines.next();
        let Some(goes_on) = gap else {
            if wrong.blocking.is_empty() {
                self.stall = None;
                return After::Wait;
            }
            let mark = StallMark { at, gap: None, bytes: arriving(set, at) };
            if !self.is_believed(mark, MIN_LOOKS, self.request.patience) {
                return After::Wait;
            }
            self.telling.extend(wrong.blocking);
            return After::End;
        };
        // A server removes what it does not need, in an archive the missing segment may still arrive.
        let of_server = set.segments().iter().any(|file| file.in_pg_wal);
        let mark = StallMark { at, gap, bytes: arriving(set, at) };
        let is_believed = match of_server {
            true => self.is_believed(mark, MIN_LOOKS_AT_GAP, Duration::ZERO),
            false => self.is_believed(mark, MIN_LOOKS, self.request.patience),
        };
        match is_believed {
            true => {
                self.stall = None;
                self.tell_gap(set, at.unwrap_or(goes_on)..goes_on, (of_server, &wrong.gaps));
                self.lines.skip_to(goes_on, set);
                After::Again
            }
            false if of_server => After::Again,
            false => After::Wait,
        }
    }

    /// Reports missing segments, and segments that exist but were left out of the set.
    fn tell_gap(&mut self, set: &WalSet, gap: Range<Lsn>, (of_server, noted): (bool, &[Finding])) {
        let after = set.segments().iter().position(|file| file.start_lsn == gap.end);
        let label = after.and_then(|index| set.segments().get(index)).map(|file| file.label.as_str());
        let noted = noted.iter().find(|finding| finding.file.as_deref() == label);
        match noted {
            Some(finding) if !of_server => {
                self.telling.push(Oddity::Finding(finding.clone()));
                let part = SkippedPart::LsnRange { start: Some(gap.start), end: Some(gap.end) };
                self.tell_skipped(part, SkipReason::SegmentsMissing);
            }
            // Those between are there, and cannot be read.
            None if after.is_some_and(|index| index > 0) => {}
            _ => {
                let bytes = gap.end.bytes_since(gap.start).unwrap_or(0);
                let part = SkippedPart::LsnRange { start: Some(gap.start), end: Some(gap.end) };
                self.tell_skipped(part, SkipReason::RemovedBeforeRead { bytes });
            }
        }
    }

    /// Counts one more look that found the same: whether that is enough.
    fn is_believed(&mut self, mark: StallMark, looks: u32, patience: Duration) -> bool {
        let now = Instant::now();
        let mark = StallMark { bytes: mark.bytes.saturating_add(self.sightings.waiting_bytes()), ..mark };
        if self.stall.as_ref().is_none_or(|stall| stall.mark != mark) {
            self.stall = Some(Stall { mark, since: now, looks: 0 });
        }
        self.stall.as_mut().is_some_and(|stall| {
            stall.looks = stall.looks.saturating_add(1);
            stall.looks >= looks && now.duration_since(stall.since) >= patience
        })
    }

    /// The WAL cannot be opened any more. A server may just be giving a segment its new name.
    fn closed(&mut self, error: InspectError) -> After {
        let mark = StallMark { at: self.lines.next(), gap: None, bytes: 0 };
        if !self.is_believed(mark, MIN_LOOKS, self.request.patience) {
            return After::Wait;
        }
        let reason = match error {
            InspectError::Wal(error) | InspectError::SegmentWithoutDirectory(error) => {
                if let WalSetError::NoWal { notes, .. } = &error {
                    let (mut findings, mut coverage) = (Vec::new(), Coverage::default());
                    note_all(notes, NeededWal::default(), &mut findings, &mut coverage);
                    self.telling.extend(findings.into_iter().map(Oddity::Finding));
                    self.telling.extend(coverage.skipped.into_iter().map(Oddity::Skipped));
                }
                SkipReason::from(error)
            }
            other => SkipReason::Unreadable(ErrorWords::of_other(&other)),
        };
        self.tell_skipped(SkippedPart::RestOfWal, reason);
        After::End
    }

    fn tell_skipped(&mut self, what: SkippedPart, reason: impl Into<SkipReason>) {
        self.telling.push(Oddity::Skipped(Skipped { what, bytes: None, reason: reason.into() }));
    }

    /// A checkpoint that is under way at the end has a redo point that no record names yet.
    fn look_for_hidden_redo(&mut self) {
        let Some(source) = self.source.filter(|_| self.lines.next().is_some()) else { return };
        let wanted = Wanted { system_identifier: source.system_identifier, from: self.request.wal.start };
        // Files that no longer open were reported before.
        if let Ok(source) = WalSource::open_for(&self.request.wal, wanted, &unwatched) {
            self.lines.end_run(&source.set);
        }
        if let Some(error) = self.lines.take_lost_redo() {
            self.tell_skipped(SkippedPart::WalBeforeRedo, error);
        }
    }

    /// Ends it. Possible faults are checked a few more times; those that remain are reported.
    pub fn finish(mut self) -> Followed {
        let (mut given, mut told) = (Vec::new(), Vec::new());
        self.request.patience = Duration::ZERO;
        let mut looks = 0;
        // What blocks a round that counted something is seen in the next one.
        while self.caught_up && !self.is_over && looks <= MIN_LOOKS {
            if looks > 0 {
                if self.stall.is_none() && !self.sightings.is_waiting() {
                    break;
                }
                sleep(LAST_PAUSE);
            }
            looks = looks.saturating_add(1);
            // Only the first round can fail, and that was another one.
            let Ok(round) = self.round(&|| false) else { break };
            given.extend(round.lines);
            told.extend(round.told);
        }
        if !self.caught_up {
            self.tell_skipped(SkippedPart::RestOfWal, SkipReason::Interrupted(Lacking::Counts));
        }
        self.look_for_hidden_redo();
        told.append(&mut self.telling);
        told.extend(self.sightings.further());
        let (lines, counts, odd_times) = self.lines.finish();
        told.extend(hidden_redo_points(&lines));
        given.extend(lines);
        told.extend(odd_times.into_iter().map(Oddity::Finding));
        Followed { lines: given, told, counts, source: self.source }
    }
}

/// Says which lines begin at a redo point that no record names.
fn hidden_redo_points(lines: &[FollowedLine]) -> impl Iterator<Item = Oddity> {
    let hidden = lines.iter().filter_map(|line| match &line.row {
        FollowedRow::Interval(interval) => interval.hidden,
        FollowedRow::Bucket(_) => None,
    });
    hidden.map(|hidden| Oddity::Finding(rules::hidden_redo(hidden)))
}

/// True when a run has WAL after `next`.
fn reaches_past(set: &WalSet, run: &Range<usize>, next: Option<Lsn>) -> bool {
    let size = u64::from(set.geometry().wal_segment_size);
    let end = set.segments()[run.end - 1].start_lsn.advanced_by(size);
    next.is_some_and(|next| end > next)
}

/// Bytes, as they are stored, of the segment in which reading stopped and of the one after it.
fn arriving(set: &WalSet, at: Option<Lsn>) -> u64 {
    let size = u64::from(set.geometry().wal_segment_size);
    let files = set.segments().iter().filter(|file| at.is_none_or(|at| file.start_lsn.advanced_by(size) > at));
    files.take(2).map(|file| file.stored_bytes).sum()
}
