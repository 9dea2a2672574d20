//! From candidates to one file for each segment.
//! Also here: segments of other timelines than the one that is read: those that certainly are not part of it, and those
//! that may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Bound;
use std::path::Path;

use super::bytes::StoredAt;
use super::candidates::{Candidates, DeniedFile, SegmentCandidate, UnknownVersionSegment};
use super::codec::Codec;
use super::copies::{Copies, Interrupted};
use super::first_page::SegmentHeader;
use super::notes::{NoteKind, NoteLevel, Notes, SetNote};
use super::set::WatchOpen;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::{TimelineHistory, WalSegment};
use crate::parsers::wal::version::Major;
use crate::types::{Lsn, TimelineId};

/// Properties that all chosen segments share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub system_identifier: Option<u64>,
    pub major: Option<Major>,
    pub segment_size: u32,
    pub block_size: u32,
}

/// A segment and where its bytes are.
#[derive(Clone, Debug)]
pub struct WalSegmentFile {
    /// Path, or `archive:member`.
    pub label: String,
    /// Timeline and number.
    pub segment: WalSegment,
    /// Address of the first byte.
    pub start_lsn: Lsn,
    /// Plain bytes, at most those of a segment; `None` for a compressed file on disk, whose size shows when it is read.
    pub size_bytes: Option<u64>,
    /// Bytes as stored.
    pub stored_bytes: u64,
    /// Compression, outermost first.
    pub codecs: Vec<Codec>,
    /// A `.partial` file, which need not be written to its end.
    pub partial: bool,
    /// Named by the user as a file, not found in a directory or archive.
    pub named: bool,
    /// Found in the `pg_wal` of a server, which removes segments that it does not need any more.
    pub in_pg_wal: bool,
    /// The header that it begins with is damaged: no server reads any record of it.
    pub is_headless: bool,
    pub(super) stored_at: StoredAt,
}

impl WalSegmentFile {
    /// The file, if it is a whole segment and nothing else: not compressed, in no archive, not partial, `segment_size` bytes long.
    pub(crate) fn plain_path(&self, segment_size: u32) -> Option<&Path> {
        let size = u64::from(segment_size);
        match &self.stored_at {
            StoredAt::File { path, file_bytes, offset: 0, .. }
                if *file_bytes == size && self.codecs.is_empty() && !self.partial =>
            {
                Some(path.as_path())
            }
            StoredAt::File { .. } | StoredAt::Scratch { .. } => None,
        }
    }
}

/// A candidate with a known segment number.
pub(super) struct Numbered {
    pub candidate: SegmentCandidate,
    pub segment: WalSegment,
    wrong_name: bool,
    is_headless: bool,
}

impl Numbered {
    fn is_short(&self, segment_size: u32) -> bool {
        self.candidate.size_bytes.is_some_and(|size| size < u64::from(segment_size))
    }

    fn rank(&self, segment_size: u32) -> (bool, bool, bool, bool, bool) {
        let partial = self.is_partial();
        let damaged = self.candidate.header.is_none();
        (partial, self.is_short(segment_size), damaged, self.wrong_name, !self.candidate.codecs.is_empty())
    }

    fn is_partial(&self) -> bool {
        self.candidate.name.as_ref().is_some_and(|name| name.partial)
    }
}

/// The most frequent value, of several the one that came first.
fn most_frequent<T: Copy + Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, (u64, usize)> = BTreeMap::new();
    for (index, value) in values.enumerate() {
        let count = &mut counts.entry(value).or_insert((0, index)).0;
        *count = count.saturating_add(1);
    }
    let better = |&(_, (count, first)): &(T, (u64, usize))| (count, std::cmp::Reverse(first));
    counts.into_iter().max_by_key(better).map(|(value, _)| value)
}

pub(super) struct Chosen {
    /// Everything odd about the candidates and the choice.
    pub notes: Vec<SetNote>,
    /// The control file of the data directory that was given.
    pub control: Option<ControlFile>,
    pub unknown_versions: Vec<UnknownVersionSegment>,
    /// Files of `pg_wal` that the system does not let this user open.
    pub denied: Vec<DeniedFile>,
    /// `None` when no segment is left.
    pub set: Option<ChosenSet>,
}

/// Segments of one cluster and one timeline history.
pub(super) struct ChosenSet {
    pub common: Common,
    pub segments: Vec<WalSegmentFile>,
    pub timeline: TimelineId,
    pub history: Option<TimelineHistory>,
    pub later_histories: Vec<TimelineHistory>,
}

/// How the bytes of segments are read.
#[derive(Clone, Copy)]
pub(super) struct WalAccess<'a> {
    pub scratch: Option<&'a File>,
    pub window_bytes: u32,
    pub watch: WatchOpen<'a>,
    /// A segment under the name of another is left out: see [`WalSetOptions::as_server`].
    pub by_name: bool,
    /// Copies that contradict each other are left out: see [`WalSetOptions::undisputed`].
    pub undisputed: bool,
}

/// Chooses one file for each segment. `system_identifier`: of the wanted cluster; `timeline`: the wanted one.
pub(super) fn choose(
    candidates: Candidates,
    access: WalAccess<'_>,
    system_identifier: Option<u64>,
    timeline: Option<TimelineId>,
) -> Result<Chosen, Interrupted> {
    let Candidates { notes, list, histories, control, data_major, unknown_versions, denied, .. } = candidates;
    let mut chooser = Chooser { notes, candidates: list, histories, unknown_versions, denied, access };
    let common = chooser.agree(control.as_ref(), data_major, system_identifier);
    let chosen = common.map(|common| chooser.choose(&common, timeline)).transpose()?.flatten();
    let set = common.zip(chosen).filter(|(_, (segments, ..))| !segments.is_empty());
    let set = set.map(|(common, (segments, timeline, history))| {
        let later = std::mem::take(&mut chooser.histories).into_iter().filter(|(tli, _)| *tli > timeline);
        let later_histories = later.map(|(_, (_, history))| history).collect();
        ChosenSet { common, segments, timeline, history, later_histories }
    });
    let Chooser { notes, unknown_versions, denied, .. } = chooser;
    Ok(Chosen { notes: notes.finish(), control, unknown_versions, denied, set })
}

type OfTimeline = (Vec<WalSegmentFile>, TimelineId, Option<TimelineHistory>);

/// Candidates that are still in question.
struct Chooser<'a> {
    notes: Notes,
    candidates: Vec<SegmentCandidate>,
    histories: BTreeMap<TimelineId, (String, TimelineHistory)>,
    unknown_versions: Vec<UnknownVersionSegment>,
    denied: Vec<DeniedFile>,
    access: WalAccess<'a>,
}

impl Chooser<'_> {
    /// Leaves out segments from another cluster, version or size. `None` when nothing gives the sizes.
    fn agree(
        &mut self,
        control: Option<&ControlFile>,
        data_major: Option<Major>,
        expected_system: Option<u64>,
    ) -> Option<Common> {
        let known = expected_system.or(control.map(|control| control.prefix.system_identifier));
        let headers = |candidates: &[SegmentCandidate]| -> Vec<SegmentHeader> {
            candidates.iter().filter_map(|candidate| candidate.header).collect()
        };
        let of_all = headers(&self.candidates);
        let system = known.or_else(|| most_frequent(of_all.iter().map(|header| header.system_identifier)));
        self.leave_out(NoteKind::ForeignSystem, |candidate| {
            let (found, expected) = (candidate.header?.system_identifier, system?);
            (found != expected).then(|| format!("system identifier {found}, expected {expected}; left out"))
        });
        let of_system = headers(&self.candidates);
        let major = data_major.or_else(|| most_frequent(of_system.iter().map(|header| header.major)));
        self.leave_out(NoteKind::ForeignVersion, |candidate| {
            let found = candidate.header.map(|header| header.major).or(candidate.second.map(|second| second.major))?;
            let expected = major.filter(|&expected| expected != found)?;
            Some(format!("written by major {found}, expected {expected}; left out"))
        });
        let of_major = headers(&self.candidates);
        let sizes = match control {
            Some(control) => Some((control.geometry.wal_segment_size, control.geometry.wal_block_size)),
            None => most_frequent(of_major.iter().map(|header| (header.segment_size, header.block_size))),
        };
        let (segment_size, block_size) = sizes.filter(|&(segment, block)| segment > 0 && block > 0)?;
        self.leave_out(NoteKind::ForeignSize, |candidate| {
            let header = candidate.header?;
            let differs = (header.segment_size, header.block_size) != (segment_size, block_size);
            differs.then(|| {
                format!(
                    "segment size {} and page size {}, expected {segment_size} and {block_size}; left out",
                    header.segment_size, header.block_size
                )
            })
        });
        Some(Common { system_identifier: system, major, segment_size, block_size })
    }

    fn leave_out(&mut self, kind: NoteKind, why: impl Fn(&SegmentCandidate) -> Option<String>) {
        let notes = &mut self.notes;
        self.candidates.retain(|candidate| match why(candidate) {
            Some(what) => {
                notes.add(NoteLevel::Problem, kind, &candidate.label, what);
                false
            }
            None => true,
        });
    }

    /// Finds which segment every candidate is, leaving out those of which that is not known.
    fn number(&mut self, common: &Common) -> Vec<Numbered> {
        let candidates = std::mem::take(&mut self.candidates);
        candidates.into_iter().filter_map(|candidate| self.number_one(candidate, common)).collect()
    }

    fn number_one(&mut self, candidate: SegmentCandidate, common: &Common) -> Option<Numbered> {
        let size = common.segment_size;
        let named = candidate.name.as_ref().and_then(|name| name.segment(size));
        let notes = &mut self.notes;
        let mut problem = |what: String| notes.add(NoteLevel::Problem, NoteKind::WrongName, &candidate.label, what);
        let Some(header) = candidate.header else {
            let second = candidate.second?;
            let start = named.and_then(|segment| segment.start_lsn(size));
            let fits = start == Some(second.first_lsn) && second.block_size == common.block_size;
            let Some(segment) = named.filter(|_| fits) else {
                problem(format!("its second page is that of a segment at {}; left out", second.first_lsn));
                return None;
            };
            return Some(Numbered { candidate, segment, wrong_name: false, is_headless: true });
        };
        let content = WalSegment { tli: header.tli, number: header.number() };
        let Some(name) = &candidate.name else {
            return Some(Numbered { candidate, segment: content, wrong_name: false, is_headless: false });
        };
        let fits = named.is_some_and(|named| named.number == content.number && named.tli >= content.tli);
        if let Some(named) = named.filter(|_| fits) {
            if name.lower_case {
                let what = "name in lower case, which a server does not find; used";
                notes.add(NoteLevel::Note, NoteKind::WrongName, &candidate.label, what);
            }
            return Some(Numbered { candidate, segment: named, wrong_name: false, is_headless: false });
        }
        // No file holds WAL of a later timeline than its name says: the first page is damaged, the name is not.
        if let Some(named) = named.filter(|named| named.number == content.number) {
            let what =
                format!("its first page is on timeline {}, later than its name says; the name is used", header.tli);
            notes.add(NoteLevel::Problem, NoteKind::FirstPageDamaged, &candidate.label, what);
            return Some(Numbered { candidate, segment: named, wrong_name: false, is_headless: true });
        }
        let holds = format!("holds WAL from {} of timeline {}", header.start_lsn, header.tli);
        if candidate.origin.in_pg_wal && named.is_some_and(|named| content.number < named.number) {
            let what = format!("renamed for later use and not written since: still {holds}; left out");
            notes.add(NoteLevel::Note, NoteKind::Leftover, &candidate.label, what);
            return None;
        }
        if self.access.by_name {
            problem(format!("its name is that of other WAL: {holds}; no server reads it as such, left out"));
            return None;
        }
        problem(format!("its name is that of other WAL: {holds}, and is used as such"));
        Some(Numbered { candidate, segment: content, wrong_name: true, is_headless: false })
    }

    /// One file for each segment of the timeline, in order; `None` without any.
    fn choose(&mut self, common: &Common, wanted: Option<TimelineId>) -> Result<Option<OfTimeline>, Interrupted> {
        let numbered = self.number(common);
        let present = numbered.iter().map(|numbered| numbered.segment.tli).max();
        let Some(target) = wanted.or(present) else { return Ok(None) };
        let history = self.history_of(target);
        let size = common.segment_size;
        let mut best: BTreeMap<u64, Numbered> = BTreeMap::new();
        let mut rivals: BTreeMap<u64, Vec<Numbered>> = BTreeMap::new();
        let mut left_out = Vec::new();
        for numbered in numbered {
            let WalSegment { tli, number } = numbered.segment;
            let wanted = match &history {
                Some(history) => history.candidates(number, size).first().copied(),
                None => Some(target),
            };
            if wanted != Some(tli) {
                left_out.push(numbered.segment);
                continue;
            }
            let Some(before) = best.remove(&number) else {
                best.insert(number, numbered);
                continue;
            };
            let (used, left) =
                if numbered.rank(size) < before.rank(size) { (numbered, before) } else { (before, numbered) };
            best.insert(number, used);
            rivals.entry(number).or_default().push(left);
        }
        if !rivals.is_empty() {
            let timelines = history.as_ref().map(TimelineHistory::timelines).unwrap_or_default();
            let copies = Copies::new(*common, timelines, self.access, &rivals);
            let disputed_from = copies.settle(&mut best, rivals, &mut self.notes)?;
            if let Some(from) = disputed_from.filter(|_| self.access.undisputed) {
                best.retain(|number, copy| *number < from || copy.candidate.origin.is_of_cluster);
            }
        }
        let first_used = best.keys().next().copied().unwrap_or(u64::MAX);
        let other_timelines = OtherTimelines { target, history: history.as_ref(), size };
        for note in other_timelines.notes(&left_out, first_used, |number| best.contains_key(&number)) {
            self.notes.push(note);
        }
        let files: Vec<_> = best.into_values().filter_map(|numbered| self.segment_file(numbered, size)).collect();
        self.note_gaps(&files, size);
        Ok(Some((files, target, history)))
    }

    fn history_of(&mut self, target: TimelineId) -> Option<TimelineHistory> {
        if let Some((_, history)) = self.histories.remove(&target) {
            return Some(history);
        }
        if target.0 == 1 {
            return Some(TimelineHistory::root(target));
        }
        let what = format!("without the history of timeline {target} only segments of that timeline itself are used");
        let name = TimelineHistory::file_name(target);
        self.notes.add(NoteLevel::Note, NoteKind::MissingHistory, &name, what);
        None
    }

    fn segment_file(&mut self, numbered: Numbered, size: u32) -> Option<WalSegmentFile> {
        let partial = numbered.is_partial();
        let Numbered { candidate, segment, is_headless, .. } = numbered;
        let start_lsn: Lsn = segment.start_lsn(size)?;
        let expected = u64::from(size);
        let label = &candidate.label;
        if partial {
            let what = "the only file of its segment, which may not have been written to the end; used";
            self.notes.add(NoteLevel::Note, NoteKind::PartialUsed, label, what);
        }
        match candidate.size_bytes {
            Some(found) if found < expected => {
                let level = if partial { NoteLevel::Note } else { NoteLevel::Problem };
                let what = format!("ends after {found} of the {expected} bytes of a segment; used as far as it goes");
                self.notes.add(level, NoteKind::WrongSize, label, what);
            }
            Some(found) if found > expected => {
                let what = format!("continues after the {expected} bytes of a segment; the rest is not read");
                self.notes.add(NoteLevel::Problem, NoteKind::TrailingData, label, what);
            }
            _ => {}
        }
        Some(WalSegmentFile {
            segment,
            start_lsn,
            size_bytes: candidate.size_bytes.map(|found| found.min(expected)),
            stored_bytes: candidate.stored_at.size_bytes(),
            codecs: candidate.codecs,
            partial,
            named: candidate.origin.named,
            in_pg_wal: candidate.origin.in_pg_wal,
            is_headless,
            stored_at: candidate.stored_at,
            label: candidate.label,
        })
    }

    fn note_gaps(&mut self, files: &[WalSegmentFile], size: u32) {
        let unknown = self.unknown_versions.iter().filter_map(|left| Some(left.segment(size)?.number));
        let denied = self.denied.iter().filter_map(|left| Some(left.segment(size)?.number));
        let unknown: BTreeSet<u64> = unknown.chain(denied).collect();
        for pair in files.windows(2) {
            let [before, after] = pair else { continue };
            let between = (Bound::Excluded(before.segment.number), Bound::Excluded(after.segment.number));
            let missing = after.segment.number.saturating_sub(before.segment.number).saturating_sub(1);
            // What is there and was not read has a note of its own.
            let not_read = if missing == 0 { 0 } else { unknown.range(between).count() as u64 };
            let missing = missing.saturating_sub(not_read);
            if missing == 0 {
                continue;
            }
            let first = WalSegment { tli: after.segment.tli, number: before.segment.number.saturating_add(1) };
            let from = first.start_lsn(size).unwrap_or_default();
            let noun = if missing == 1 { "segment" } else { "segments" };
            let what = format!("{missing} {noun} missing before it, WAL from {from} to {}", after.start_lsn);
            let note = SetNote::new(NoteKind::Gap, NoteLevel::Problem, Some(&after.label), what);
            self.notes.push(SetNote { wal_start: Some(from), wal_end: Some(after.start_lsn), ..note });
        }
    }
}

/// Why segments of another timeline are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    NotInHistory,
    /// The history says that the timeline was left before.
    LeftBefore,
    /// Without a history: the timeline that is read has a segment of the same number or an earlier one, or is older.
    Covered,
    /// Without a history: whether they come before the timeline that is read is unknown.
    NoHistory,
    /// They hold WAL up to the switch to a timeline whose own segment in that place is missing.
    UpToSwitch,
}

impl Why {
    /// True when there may be WAL of the timeline that is read in them.
    const fn may_belong(self) -> bool {
        matches!(self, Self::NoHistory | Self::UpToSwitch)
    }
}

/// Segments that are left out for the same reason.
struct Group {
    count: u64,
    first: WalSegment,
    last: WalSegment,
}

/// Facts about the timeline that is read.
pub(super) struct OtherTimelines<'a> {
    pub target: TimelineId,
    pub history: Option<&'a TimelineHistory>,
    pub size: u32,
}

impl OtherTimelines<'_> {
    /// Says of all segments that were left out how many there are of each timeline, and why. `first_used`: number of the
    /// first segment that is read; `is_used`: whether one of this number is.
    pub(super) fn notes(
        &self,
        left_out: &[WalSegment],
        first_used: u64,
        is_used: impl Fn(u64) -> bool,
    ) -> Vec<SetNote> {
        let mut groups: BTreeMap<(TimelineId, Why), Group> = BTreeMap::new();
        for segment in left_out {
            let why = self.why(*segment, first_used, &is_used);
            let group = groups.entry((segment.tli, why)).or_insert(Group { count: 0, first: *segment, last: *segment });
            group.count = group.count.saturating_add(1);
            group.first = group.first.min(*segment);
            group.last = group.last.max(*segment);
        }
        groups.into_iter().map(|((tli, why), group)| self.note(tli, why, &group)).collect()
    }

    fn why(&self, segment: WalSegment, first_used: u64, is_used: impl Fn(u64) -> bool) -> Why {
        match self.history {
            Some(history) if !history.timelines().contains(&segment.tli) => Why::NotInHistory,
            Some(history) => {
                let start = segment.start_lsn(self.size);
                let is_part = start.is_some_and(|start| history.tli_at(start) == segment.tli);
                if is_part && !is_used(segment.number) { Why::UpToSwitch } else { Why::LeftBefore }
            }
            // The first segment of a timeline begins with what its ancestor had written of it.
            None if segment.tli < self.target && segment.number < first_used => Why::NoHistory,
            None => Why::Covered,
        }
    }

    fn note(&self, tli: TimelineId, why: Why, group: &Group) -> SetNote {
        let target = self.target;
        let name = |segment: &WalSegment| segment.file_name(self.size).unwrap_or_default();
        let which = match group.count {
            1 => format!("1 segment ({})", name(&group.first)),
            count => format!("{count} segments ({} to {})", name(&group.first), name(&group.last)),
        };
        let what = match why {
            Why::NotInHistory => {
                format!("{which} left out: timeline {tli} is not in the history of timeline {target}")
            }
            Why::LeftBefore => format!(
                "{which} left out: not part of the history of timeline {target}, which left timeline {tli} before their end"
            ),
            Why::Covered => format!("{which} left out: timeline {tli} is not the one that is read, {target}"),
            Why::NoHistory => format!(
                "{which} not checked: whether timeline {target} continues timeline {tli} is unknown without {}",
                TimelineHistory::file_name(target)
            ),
            Why::UpToSwitch => format!(
                "{which} not checked: the history of timeline {target} leaves timeline {tli} inside, and the segment \
                 of the next timeline, which is read instead, is missing"
            ),
        };
        let level = if why.may_belong() { NoteLevel::Skipped } else { NoteLevel::Note };
        let note = SetNote::new(NoteKind::OtherTimeline, level, None, what);
        SetNote { wal_end: self.end_of(group.last).filter(|_| why.may_belong()), ..note }
    }

    fn end_of(&self, segment: WalSegment) -> Option<Lsn> {
        segment.start_lsn(self.size).map(|start| start.advanced_by(u64::from(self.size)))
    }
}
