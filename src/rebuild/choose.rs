//! Chooses the records that wanted pages need, in one pass over WAL.
//!
//! Segments are read by several threads, which pick out all records of the relations concerned ([`candidates`]). What of
//! them is needed is decided in order: a record that is kept may build other pages too, and from there on their records
//! are needed as well, because redo dies of a page of which it knows only the beginning.
//!
//! [`candidates`]: super::candidates

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::{FxHashMap, FxHashSet};

use super::candidates::{Candidate, Candidates, Interest, Named};
use super::control::ClusterControl;
use super::sandbox::Extents;
use super::{NotBuilt, RebuildError};
use crate::analysis::wal::collect::collect_run;
use crate::analysis::wal::segment::{SegmentRead, Stretch, Visitor, WatchRead, read_segment};
use crate::cluster::wal::WalSet;
use crate::parsers::page::PageHeader;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::lifecycle::LifeCycle;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::RecordKind;
use crate::parsers::wal::scan::record_position;
use crate::types::{BlockNumber, ForkNumber, Lsn, PageId, RelFileLocator};

/// Bytes of a visibility map's page that hold no bits: its header.
const MAP_HEADER_BYTES: u32 = 24;

/// Blocks of a table whose bits one byte of the visibility map holds.
///
/// Source: `HEAPBLOCKS_PER_BYTE`, `src/backend/access/heap/visibilitymap.c`.
const BLOCKS_PER_MAP_BYTE: u32 = 4;

/// Takes the records that are kept, in order.
pub(crate) trait KeptSink {
    /// Takes the bytes of a record that starts here.
    fn keep(&mut self, start_lsn: Lsn, bytes: &[u8]) -> Result<(), RebuildError>;
}

#[derive(Clone, Copy)]
pub(crate) struct ChoiceRequest<'a> {
    pub wal: &'a WalSet,
    pub run: &'a Range<usize>,
    /// The cluster's `pg_control`.
    pub control: &'a ClusterControl,
    pub pages: &'a [&'a WantedPage],
    pub jobs: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub tracks: Vec<Track>,
    pub records: u64,
    pub bytes: u64,
    pub last: Option<(Lsn, Lsn)>,
    /// The newest transaction of the records that were kept, with epoch.
    pub newest_xid: u64,
    pub extents: Extents,
    /// Pages of main forks that they name before any record builds them.
    pub companions: BTreeSet<PageId>,
}

/// Reads WAL once, and again for each relation that turns out to be affected, and gives the records that are kept to
/// the sink that `begin` makes.
///
/// # Errors
/// When WAL cannot be read, the sink refuses, or `watch` interrupts.
pub(crate) fn choose<S: KeptSink>(
    request: ChoiceRequest<'_>,
    watch: WatchRead<'_>,
    mut begin: impl FnMut() -> Result<S, RebuildError>,
) -> Result<(Choice, S), RebuildError> {
    let mut interest = Interest::of(request.pages.iter().map(|wanted| wanted.page.rel));
    loop {
        let mut chooser = Chooser::new(request, &interest, begin()?);
        chooser.read_all(watch)?;
        if chooser.more_relations.is_empty() {
            return Ok((chooser.choice, chooser.sink));
        }
        let more = std::mem::take(&mut chooser.more_relations);
        interest.extend(more);
    }
}

#[derive(Clone, Copy, Debug)]
enum Known {
    /// It is wanted; index among the wanted pages.
    Wanted(usize),
    Live,
}

struct Chooser<'a, S> {
    request: ChoiceRequest<'a>,
    interest: &'a Interest,
    sink: S,
    choice: Choice,
    known: FxHashMap<PageId, Known>,
    /// Wanted pages of each relation, for records that concern the whole.
    by_relation: FxHashMap<RelFileLocator, Vec<usize>>,
    maps: FxHashMap<(RelFileLocator, BlockNumber), usize>,
    more_relations: FxHashSet<RelFileLocator>,
    heap_blocks_per_map: u32,
    error: Option<RebuildError>,
}

impl<'a, S: KeptSink> Chooser<'a, S> {
    fn new(request: ChoiceRequest<'a>, interest: &'a Interest, sink: S) -> Self {
        let mut by_relation = FxHashMap::<_, Vec<usize>>::default();
        let (mut known, mut maps) = (FxHashMap::default(), FxHashMap::default());
        let mut extents: Extents = BTreeMap::new();
        for (index, wanted) in request.pages.iter().enumerate() {
            let page = wanted.page;
            known.insert(page, Known::Wanted(index));
            by_relation.entry(page.rel).or_default().push(index);
            if page.fork == ForkNumber::Vm {
                maps.insert((page.rel, page.block), index);
            }
            extend(&mut extents, page);
        }
        let bits = request.control.file.geometry.block_size.saturating_sub(MAP_HEADER_BYTES);
        let tracks = request.pages.iter().map(|wanted| Track::new(wanted)).collect();
        Self {
            request,
            interest,
            sink,
            choice: Choice { tracks, extents, ..Choice::default() },
            known,
            by_relation,
            maps,
            more_relations: FxHashSet::default(),
            heap_blocks_per_map: bits.saturating_mul(BLOCKS_PER_MAP_BYTE).max(1),
            error: None,
        }
    }

    fn read_all(&mut self, watch: WatchRead<'_>) -> Result<(), RebuildError> {
        let ChoiceRequest { wal, run, pages, jobs, .. } = self.request;
        let start_lsn = pages.iter().map(|wanted| wanted.from).min().unwrap_or_default();
        let end_lsn = pages.iter().map(|wanted| wanted.until).max().unwrap_or_default();
        let stretch = Stretch { set: wal, run: run.clone(), start_lsn, end_lsn, keep: Keep::Blocks };
        let enough = AtomicBool::new(false);
        let watched = |bytes| if enough.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { watch(bytes) };
        let interest = self.interest;
        let walked = collect_run(
            &stretch,
            jobs,
            &watched,
            |_| Candidates::new(interest),
            |part| {
                self.take_up(&stretch, part, &watched)?;
                if self.error.is_some() || !self.more_relations.is_empty() {
                    enough.store(true, Ordering::Relaxed);
                }
                Ok(())
            },
        );
        let walked = walked.map_err(RebuildError::Wal)?;
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if !self.more_relations.is_empty() {
            return Ok(());
        }
        if walked.interrupted {
            return Err(RebuildError::Interrupted);
        }
        let files = stretch.touched();
        let first = wal.segments().get(files.start).filter(|_| !files.is_empty()).map(|file| file.start_lsn);
        let read_to = match walked.extent.last_end_lsn {
            _ if walked.reached_end => Lsn(u64::MAX),
            Some(end) => end,
            // Nothing ends in the range: it lies inside one record, or has not begun when WAL ends.
            None => walked.end.map_or(start_lsn, |end| end.at),
        };
        let reached = record_position(self.request.control.file.geometry, read_to);
        for (track, wanted) in self.choice.tracks.iter_mut().zip(pages) {
            let begins = first.is_some_and(|first| wanted.from >= first);
            if !begins || record_position(self.request.control.file.geometry, wanted.until) > reached {
                let reached = if begins { read_to.max(wanted.from) } else { wanted.from };
                track.fail(NotBuilt::ChainBroken { from: wanted.from, reached, until: wanted.until });
            }
        }
        Ok(())
    }

    fn take_up(
        &mut self,
        stretch: &Stretch<'_>,
        part: &mut SegmentRead<Candidates<'_>>,
        watch: WatchRead<'_>,
    ) -> Result<(), crate::cluster::wal::WalReadError> {
        if self.error.is_some() || !self.more_relations.is_empty() {
            return Ok(());
        }
        if part.found.is_overfull() {
            // Too much to hold for each thread: this segment is read again, record by record.
            let quiet = |_| watch(0);
            let one = Candidates::new(self.interest);
            let direct = Direct { chooser: self, one };
            return read_segment(stretch, part.index, part.from, direct, &quiet, &mut Vec::new()).map(drop);
        }
        for candidate in part.found.iter() {
            self.decide(candidate);
        }
        part.found.clear();
        Ok(())
    }

    /// Decides about one record of the relations concerned.
    fn decide(&mut self, candidate: Candidate<'_>) {
        if self.error.is_some() {
            return;
        }
        if let Some(LifeCycle::Truncated { rel, keeps_blocks, flags }) = candidate.life_cycle() {
            return self.decide_truncation(candidate, rel, keeps_blocks, flags);
        }
        if !self.is_needed(&candidate) {
            return;
        }
        if candidate.record.kind == RecordKind::Custom {
            let why = NotBuilt::CustomRmgr { rmgr_id: candidate.record.rmgr_id, lsn: candidate.start_lsn };
            return self.fail_all_named(&candidate, &why);
        }
        if candidate.is_cut() {
            let why = NotBuilt::RecordTooLong { lsn: candidate.start_lsn, length: candidate.tot_len };
            return self.fail_all_named(&candidate, &why);
        }
        for named in candidate.blocks {
            self.note_block(&candidate, named);
        }
        for index in self.maps_of(&candidate) {
            self.note_map(&candidate, index);
        }
        self.keep(&candidate);
    }

    fn is_needed(&self, candidate: &Candidate<'_>) -> bool {
        let takes = |index: usize| {
            self.request.pages.get(index).is_some_and(|wanted| wanted.takes(candidate.start_lsn, candidate.end_lsn))
        };
        let by_block = candidate.blocks.iter().any(|named| match self.known.get(&named.page) {
            Some(Known::Wanted(index)) => {
                takes(*index) || self.choice.tracks.get(*index).is_some_and(|track| track.is_live_before())
            }
            Some(Known::Live) => true,
            None => false,
        });
        by_block || self.maps_of(candidate).into_iter().any(takes)
    }

    /// Wanted pages of the visibility map in which a record of the table may clear bits, which it does not name.
    fn maps_of(&self, candidate: &Candidate<'_>) -> Vec<usize> {
        if self.maps.is_empty() || !candidate.record.is_heap() {
            return Vec::new();
        }
        let mains = candidate.blocks.iter().filter(|named| named.page.fork == ForkNumber::Main);
        let mut found: Vec<usize> = mains
            .filter_map(|named| {
                let block = named.page.block.checked_div(self.heap_blocks_per_map)?;
                self.maps.get(&(named.page.rel, block)).copied()
            })
            .collect();
        found.dedup();
        found
    }

    fn fail_all_named(&mut self, candidate: &Candidate<'_>, why: &NotBuilt) {
        for named in candidate.blocks {
            if let Some(Known::Wanted(index)) = self.known.get(&named.page)
                && let (Some(track), Some(wanted)) =
                    (self.choice.tracks.get_mut(*index), self.request.pages.get(*index))
                && wanted.takes(candidate.start_lsn, candidate.end_lsn)
            {
                track.fail(why.clone());
            }
        }
    }

    /// Notes what a record that is kept does to one of its blocks.
    fn note_block(&mut self, candidate: &Candidate<'_>, named: &Named) {
        let page = named.page;
        extend(&mut self.choice.extents, page);
        let mut may_be_missing = false;
        match self.known.get(&page) {
            Some(Known::Wanted(index)) => {
                let (Some(track), Some(wanted)) = (self.choice.tracks.get_mut(*index), self.request.pages.get(*index))
                else {
                    return;
                };
                may_be_missing = wanted.base == BaseBytes::Nothing && !track.is_built();
                track.note(wanted, candidate, named);
            }
            Some(Known::Live) => {}
            None if named.builds => {
                // Maps are not followed: nothing dies of an old one.
                if page.fork == ForkNumber::Main {
                    self.known.insert(page, Known::Live);
                    if !self.interest.has(page.rel) {
                        self.more_relations.insert(page.rel);
                    }
                }
            }
            None => may_be_missing = true,
        }
        if may_be_missing && !named.builds && page.fork == ForkNumber::Main {
            self.choice.companions.insert(page);
        }
    }

    /// Notes that a record may clear bits in a wanted page of a visibility map.
    fn note_map(&mut self, candidate: &Candidate<'_>, index: usize) {
        if let (Some(track), Some(wanted)) = (self.choice.tracks.get_mut(index), self.request.pages.get(index))
            && !wanted.takes(candidate.start_lsn, candidate.end_lsn)
            && (candidate.start_lsn >= wanted.from || wanted.base != BaseBytes::Nothing)
        {
            track.conflict();
        }
    }

    fn decide_truncation(&mut self, candidate: Candidate<'_>, rel: RelFileLocator, keeps: BlockNumber, flags: i32) {
        let Some(indexes) = self.by_relation.get(&rel) else { return };
        let takes = |index: &usize| {
            self.request.pages.get(*index).is_some_and(|wanted| wanted.takes(candidate.start_lsn, candidate.end_lsn))
        };
        if !indexes.iter().any(takes) {
            return;
        }
        for index in indexes {
            let (Some(track), Some(wanted)) = (self.choice.tracks.get_mut(*index), self.request.pages.get(*index))
            else {
                continue;
            };
            let block = wanted.page.block;
            let is_cut_fork = LifeCycle::cuts(flags, wanted.page.fork);
            let (is_changed, is_cut) = match wanted.page.fork {
                ForkNumber::Main => (is_cut_fork && block >= keeps, true),
                ForkNumber::Vm => {
                    let first = keeps / self.heap_blocks_per_map;
                    let is_whole = keeps.is_multiple_of(self.heap_blocks_per_map);
                    (is_cut_fork && block >= first, block > first || is_whole)
                }
                // Which blocks of the free space map go depends on its shape.
                ForkNumber::Fsm => (is_cut_fork, true),
                ForkNumber::Init => (false, false),
            };
            if !is_changed {
                continue;
            }
            if wanted.takes(candidate.start_lsn, candidate.end_lsn) {
                if is_cut {
                    track.cut_off(candidate.start_lsn);
                }
            } else if candidate.start_lsn >= wanted.from || wanted.base != BaseBytes::Nothing {
                track.conflict();
            }
        }
        let is_cut = |page: &PageId| page.rel == rel && page.fork == ForkNumber::Main && page.block >= keeps;
        self.known.retain(|page, known| !(matches!(known, Known::Live) && is_cut(page)));
        self.keep(&candidate);
    }

    fn keep(&mut self, candidate: &Candidate<'_>) {
        let choice = &mut self.choice;
        choice.records = choice.records.saturating_add(1);
        choice.bytes = choice.bytes.saturating_add(candidate.bytes.len() as u64);
        choice.last = Some((candidate.start_lsn, candidate.end_lsn));
        if candidate.xid != 0 {
            choice.newest_xid = choice.newest_xid.max(self.request.control.full_xid(candidate.xid));
        }
        if let Err(error) = self.sink.keep(candidate.start_lsn, candidate.bytes) {
            self.error = Some(error);
        }
    }
}

fn extend(extents: &mut Extents, page: PageId) {
    let last = extents.entry((page.rel, page.fork)).or_insert(page.block);
    *last = (*last).max(page.block);
}

/// Decides about the records of a segment as they are read.
struct Direct<'c, 'a, S> {
    chooser: &'c mut Chooser<'a, S>,
    one: Candidates<'a>,
}

impl<S: KeptSink> Visitor for Direct<'_, '_, S> {
    fn record(&mut self, record: &Record<'_>) {
        self.one.record(record);
        for candidate in self.one.iter() {
            self.chooser.decide(candidate);
        }
        self.one.reset();
    }
}

/// Base of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseBytes {
    /// Nothing: a record of the range builds the page without reading it.
    Nothing,
    /// An older state of the page, of the size of a page.
    Page(Vec<u8>),
}

/// A page to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPage {
    /// Which page.
    pub page: PageId,
    /// Its base.
    pub base: BaseBytes,
    /// Records that start here or after ...
    pub from: Lsn,
    /// ... and end here or before are replayed.
    pub until: Lsn,
}

impl WantedPage {
    /// True for a record that must be replayed into this page.
    pub fn takes(&self, start_lsn: Lsn, end_lsn: Lsn) -> bool {
        start_lsn >= self.from && end_lsn <= self.until
    }
}

/// Ends of records that may or may not set the LSN of a page that are remembered, the last ones.
const MAX_OPEN_ENDS: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) struct Track {
    pub records: u64,
    pub first_lsn: Option<Lsn>,
    pub last_lsn: Option<Lsn>,
    pub end_lsn: Option<Lsn>,
    /// The page must go into a run of its own: a record that other pages need would change it outside of its range.
    pub is_in_conflict: bool,
    failure: Option<NotBuilt>,
    is_built: bool,
    /// A record before the range has built the page, and those of it that follow are kept too.
    is_live_before: bool,
    /// The last record that is sure to set the LSN restores an image: of a page that is all zero it sets none.
    may_be_zero: bool,
    cut_off: Option<Lsn>,
    /// End of the last record that is sure to set the LSN, or the LSN of the base.
    surely: Lsn,
    /// Ends of those after it that may.
    perhaps: Vec<Lsn>,
}

impl Track {
    pub fn new(wanted: &WantedPage) -> Self {
        let surely = match &wanted.base {
            BaseBytes::Nothing => Lsn::INVALID,
            BaseBytes::Page(bytes) => PageHeader::decode(0, bytes).map_or(Lsn::INVALID, |header| header.lsn),
        };
        Self {
            records: 0,
            first_lsn: None,
            last_lsn: None,
            end_lsn: None,
            is_in_conflict: false,
            failure: None,
            is_built: false,
            is_live_before: false,
            may_be_zero: false,
            cut_off: None,
            surely,
            perhaps: Vec::new(),
        }
    }

    /// True once a record has recreated the page.
    pub(crate) const fn is_built(&self) -> bool {
        self.is_built
    }

    /// True while the page is there before its range begins.
    pub(crate) const fn is_live_before(&self) -> bool {
        self.is_live_before
    }

    /// The first reason why the page cannot be built; nothing changes it any more.
    pub(crate) fn fail(&mut self, why: NotBuilt) {
        self.failure.get_or_insert(why);
    }

    /// The page goes into a run of its own.
    pub(crate) fn conflict(&mut self) {
        self.is_in_conflict = true;
    }

    /// A record cuts the page off with the end of its file.
    pub(crate) fn cut_off(&mut self, lsn: Lsn) {
        self.cut_off = Some(lsn);
        self.is_built = false;
    }

    /// A record that is kept names the page.
    pub fn note(&mut self, wanted: &WantedPage, candidate: &Candidate<'_>, named: &Named) {
        if !wanted.takes(candidate.start_lsn, candidate.end_lsn) {
            if candidate.end_lsn > wanted.until {
                self.conflict();
            }
            if candidate.start_lsn < wanted.from {
                self.note_before(wanted, named);
            }
            return;
        }
        self.is_live_before = false;
        self.records = self.records.saturating_add(1);
        self.first_lsn.get_or_insert(candidate.start_lsn);
        self.last_lsn = Some(candidate.start_lsn);
        self.end_lsn = Some(candidate.end_lsn);
        if named.builds {
            (self.is_built, self.cut_off) = (true, None);
        } else if wanted.base == BaseBytes::Nothing && !self.is_built {
            self.fail(NotBuilt::NoBase { lsn: Some(candidate.start_lsn) });
        }
        if named.builds || candidate.record.surely_sets_lsn(candidate.major, named.page.fork) {
            // Redo skips what the base has already.
            if named.builds || candidate.end_lsn > self.surely {
                self.surely = candidate.end_lsn;
                self.may_be_zero = named.is_image;
                self.perhaps.clear();
            }
        } else {
            // The last of them is the likeliest.
            if self.perhaps.len() >= MAX_OPEN_ENDS {
                self.perhaps.drain(..MAX_OPEN_ENDS / 2);
            }
            self.perhaps.push(candidate.end_lsn);
        }
    }

    /// A record before the range that is kept names the page.
    fn note_before(&mut self, wanted: &WantedPage, named: &Named) {
        match wanted.base {
            BaseBytes::Nothing => self.is_live_before |= named.builds,
            // Redo leaves alone what is newer than the record; but an image is restored over anything, and bits of maps are
            // set and cleared whatever the LSN.
            BaseBytes::Page(_) if named.builds || wanted.page.fork == ForkNumber::Vm => self.conflict(),
            BaseBytes::Page(_) => {}
        }
    }

    /// Why the page cannot be built, as far as WAL says.
    pub(crate) fn failure(&self, wanted: &WantedPage) -> Option<NotBuilt> {
        let no_base = wanted.base == BaseBytes::Nothing && !self.is_built && self.cut_off.is_none();
        let cut_off = self.cut_off.map(|lsn| NotBuilt::CutOff { lsn });
        let failure = self.failure.clone().or(cut_off);
        failure.or_else(|| no_base.then_some(NotBuilt::NoBase { lsn: self.first_lsn }))
    }

    /// Whether the page that came out may have this LSN; else the one that it should have. `is_zeroed`: all of it is zero,
    /// as redo leaves a page that it found missing.
    pub(crate) fn judge_lsn(&self, found: Lsn, is_zeroed: bool) -> Result<(), Lsn> {
        let is_zero = self.may_be_zero && is_zeroed;
        if is_zeroed && self.records > 0 && !is_zero {
            return Err(self.end_lsn.unwrap_or(self.surely));
        }
        let is_right = is_zero || found == self.surely || (found > self.surely && self.perhaps.contains(&found));
        if is_right { Ok(()) } else { Err(self.surely) }
    }
}
