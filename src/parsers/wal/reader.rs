//! The state machine that turns bytes of WAL into records.
//!
//! It takes bytes in pieces of any size, in the order of their addresses and without gaps, starting at a page boundary,
//! and never examines one twice. A record that lies inside one page and one piece is borrowed from the piece; any other is
//! put together in one buffer, which grows only as bytes really come and is used again for the next. The buffer never holds
//! more than [`KEPT_RECORD_BYTES`]: what a record has beyond goes into its checksum and is counted, but not kept.
//!
//! [`WalReader::read`] shows all records, most of them by the fast path: those that are there as a whole and have nothing
//! odd about them. [`WalReader::next`] gives one at a time, always by the full path. Both find the same.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use pgforensics::parsers::wal::reader::{ReaderOptions, ReadStep, WalReader};
//! # use pgforensics::types::{Geometry, Lsn};
//! # let geometry =
//! #     Geometry { block_size: 8192, rel_segment_blocks: 131_072, wal_block_size: 8192, wal_segment_size: 1 << 20 };
//! # let pieces: Vec<Vec<u8>> = Vec::new();
//! let mut reader = WalReader::new(ReaderOptions::new(geometry), Lsn(0x100_0000))?;
//! let mut records = 0;
//! for piece in &pieces {
//!     let mut input = piece.as_slice();
//!     let count = |record: &pgforensics::parsers::wal::record::Record<'_>| {
//!         assert!(record.end_lsn > record.start_lsn);
//!         records += 1;
//!         ControlFlow::Continue(())
//!     };
//!     if matches!(reader.read(&mut input, count), ReadStep::End(_)) {
//!         break;
//!     }
//! }
//! let end = reader.finish();
//! # Ok::<(), pgforensics::parsers::wal::reader::ReaderError>(())
//! ```

mod buffer;
mod cursor;
mod event;
mod fast;
mod options;
mod pages;
mod rules;
mod state;

use std::ops::ControlFlow;

pub use buffer::{HEAD_RECORD_BYTES, KEPT_RECORD_BYTES};
pub use event::{Aborted, Event, ReadStep};
pub use fast::FastCount;
pub(super) use fast::FastRun;
pub use options::{ReaderError, ReaderOptions};

use self::buffer::RecordBuffer;
use self::cursor::Cursor;
use self::fast::FastStart;
use self::pages::Pages;
use self::rules::{RecordRules, Sound};
use self::state::{Collecting, Flow, FoundEvent, ReaderState, Whole};
use super::end::{EndOfWal, EndReason};
use super::page::{FIRST_IS_CONTRECORD, PageHeader};
use super::record::{Record, RecordHeader, record_crc};
use super::version::Major;
use crate::types::{Geometry, Lsn, TimelineId};

/// Result of [`WalReader::read`]: records that took the fast path, or anything else.
pub(super) enum Taken<'t, 'a> {
    Fast(FastRun),
    Event(&'t Event<'a>),
}

/// Reads WAL; see the module's description.
#[derive(Debug)]
pub struct WalReader {
    options: ReaderOptions,
    at: Cursor,
    pages: Pages,
    state: ReaderState,
    collecting: Option<Collecting>,
    buffer: RecordBuffer,
    /// Start of the record before, once one was read in order.
    link: Option<Lsn>,
    aborted: Option<Lsn>,
    last_record: Option<Lsn>,
    end_of_last: Option<Lsn>,
    searching: bool,
    recovered: bool,
    end: Option<EndOfWal>,
    fast: FastCount,
}

impl WalReader {
    /// A reader whose first byte of input has the address `first`, which must be the start of a page. A record that begins
    /// before it is passed over.
    ///
    /// # Errors
    /// [`ReaderError`] when the sizes are impossible or `first` is not a page boundary.
    pub fn new(options: ReaderOptions, first: Lsn) -> Result<Self, ReaderError> {
        options.check(first)?;
        Ok(Self {
            at: Cursor::new(first, options.geometry.wal_block_size),
            pages: Pages::new(&options, first),
            buffer: RecordBuffer::new(options.keep),
            options,
            state: ReaderState::Page,
            collecting: None,
            link: None,
            aborted: None,
            last_record: None,
            end_of_last: None,
            searching: false,
            recovered: false,
            end: None,
            fast: FastCount::default(),
        })
    }

    /// Takes bytes off the front of `input` and shows all records to `visit`, until it stops, something else is found,
    /// or the input is used up. Called again, it continues where it was.
    #[inline]
    pub fn read(&mut self, input: &mut &[u8], visit: impl FnMut(&Record<'_>) -> ControlFlow<()>) -> ReadStep {
        self.read_noting(input, visit, |_| {})
    }

    /// As [`Self::read`]; `note` is called for everything that was taken.
    #[inline]
    pub(super) fn read_noting(
        &mut self,
        input: &mut &[u8],
        mut visit: impl FnMut(&Record<'_>) -> ControlFlow<()>,
        mut note: impl FnMut(Taken<'_, '_>),
    ) -> ReadStep {
        loop {
            let mut flow = ControlFlow::Continue(());
            let inside = self.take_inside(input, |record| {
                flow = visit(record);
                flow
            });
            if let Some(run) = inside {
                note(Taken::Fast(run));
                if flow.is_break() {
                    return ReadStep::BrokenOff;
                }
            }
            if let Some(run) = self.take_single(input, |record| flow = show(&mut visit, record)) {
                note(Taken::Fast(run));
                if flow.is_break() {
                    return ReadStep::BrokenOff;
                }
                continue;
            }
            let Some(event) = self.next(input) else { return ReadStep::NeedMore };
            note(Taken::Event(&event));
            match event {
                Event::Record(record) => {
                    if show(&mut visit, &record).is_break() {
                        return ReadStep::BrokenOff;
                    }
                }
                Event::Aborted(aborted) => return ReadStep::Aborted(aborted),
                Event::Damage(end) => return ReadStep::Damage(end),
                Event::End(end) => return ReadStep::End(end),
            }
        }
    }

    /// Where a record starts to which the fast path applies, padding before it taken off `input`. It costs next to nothing
    /// to ask.
    #[inline]
    fn fast_start(&mut self, input: &mut &[u8]) -> Option<FastStart> {
        if let ReaderState::Pass(until) = self.state {
            // The padding after the record before, unless it reaches the end of the page or of the input.
            let missing = usize::try_from(until.bytes_since(self.at.lsn)?).ok()?;
            if self.at.at_page_boundary() || missing >= self.at.left_in_page() || missing >= input.len() {
                return None;
            }
            self.at.consume(input, missing);
            self.state = ReaderState::Record;
        }
        let (ReaderState::Record, None, false) = (self.state, self.aborted, self.searching) else { return None };
        Some(FastStart {
            lsn: self.at.lsn,
            link: self.link?,
            major: self.pages.major?,
            rules: self.rules(),
            page: self.pages.current,
            left_in_page: self.at.left_in_page(),
            limit: self.options.limit,
            recovered: self.recovered,
        })
    }

    #[inline]
    fn take_inside(&mut self, input: &mut &[u8], visit: impl FnMut(&Record<'_>) -> ControlFlow<()>) -> Option<FastRun> {
        let run = self.fast_start(input)?.take_inside(input, visit)?;
        self.at.lsn = run.end_lsn;
        self.link = Some(run.last_record);
        self.last_record = Some(run.last_record);
        self.end_of_last = Some(run.end_lsn);
        self.state = if self.at.at_page_boundary() { ReaderState::Page } else { ReaderState::Record };
        self.fast.inside = self.fast.inside.saturating_add(run.records);
        Some(run)
    }

    #[inline(never)]
    fn take_single(&mut self, input: &mut &[u8], visit: impl FnOnce(&Record<'_>)) -> Option<FastRun> {
        // Padding waits for what follows it.
        let ReaderState::Record = self.state else { return None };
        let start = self.fast_start(input)?;
        let single = start.single(input, &self.pages, &mut self.buffer)?;
        *input = single.rest;
        self.at.lsn = single.data_end_lsn;
        self.pages.go_on(single.page);
        let whole = self.accept(start.lsn, single.sound, start.page.tli, start.page.info);
        let end_lsn = whole.end_lsn;
        let bytes = single.borrowed.unwrap_or(self.buffer.kept());
        visit(&whole.with_bytes(bytes, self.options.geometry.block_size, self.recovered));
        self.fast.single = self.fast.single.saturating_add(1);
        Some(FastRun { records: 1, last_record: start.lsn, end_lsn })
    }

    /// Takes bytes off the front of `input` up to the next thing found. `None`: all of `input` is used up and more is
    /// needed, or the end was found before.
    pub fn next<'a, 'c: 'a>(&'a mut self, input: &mut &'c [u8]) -> Option<Event<'a>> {
        let found = loop {
            let flow = match self.state {
                ReaderState::Stopped => return None,
                ReaderState::Page => self.read_page(input),
                ReaderState::Record => self.read_record(input),
                ReaderState::Collect => self.collect(input),
                ReaderState::Pass(until) => self.pass(input, until),
            };
            match flow {
                Flow::Again => {}
                Flow::NeedMore => return None,
                Flow::Found(found) => break found,
            }
        };
        let block_size = self.options.geometry.block_size;
        Some(match found {
            FoundEvent::Inside(whole, bytes) => Event::Record(whole.with_bytes(bytes, block_size, self.recovered)),
            FoundEvent::Assembled(whole) => {
                Event::Record(whole.with_bytes(self.buffer.kept(), block_size, self.recovered))
            }
            FoundEvent::Aborted(aborted) => Event::Aborted(aborted),
            FoundEvent::Damage(end) => Event::Damage(end),
            FoundEvent::End(end) => Event::End(end),
        })
    }

    /// Address of the next byte of input that the reader takes.
    pub const fn position(&self) -> Lsn {
        self.at.lsn
    }

    /// How many records took the fast path.
    pub const fn fast_count(&self) -> FastCount {
        self.fast
    }

    /// True once the end was found: more input changes nothing.
    pub const fn is_stopped(&self) -> bool {
        matches!(self.state, ReaderState::Stopped)
    }

    /// Version of the pages read so far, or `None` before the first.
    pub const fn major(&self) -> Option<Major> {
        self.pages.major
    }

    /// System identifier, once a long header was read.
    pub const fn system_identifier(&self) -> Option<u64> {
        self.pages.system_identifier
    }

    /// Timelines of the first and of the last sound page read before the limit.
    pub const fn timelines(&self) -> Option<(TimelineId, TimelineId)> {
        self.pages.timelines
    }

    /// Where the rest of a record lies with which the first page says that it begins.
    pub(crate) fn continues(&self) -> Option<Lsn> {
        self.pages.continues()
    }

    /// Sizes of the cluster, as given.
    pub const fn geometry(&self) -> Geometry {
        self.options.geometry
    }

    /// Says that no more input comes, and how reading ended.
    pub fn finish(&mut self) -> EndOfWal {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let (reason, at) = match self.collecting.filter(|_| !matches!(self.state, ReaderState::Stopped)) {
            Some(collecting) => (cut_short("record", self.buffer.len()), collecting.start_lsn),
            None if self.pages.staged_bytes() == 0 => (EndReason::InputEnds, self.at.lsn),
            None => (cut_short("page header", self.pages.staged_bytes()), self.at.page_start()),
        };
        let end = self.end_at(reason, at);
        self.state = ReaderState::Stopped;
        self.end = Some(end.clone());
        end
    }

    const fn rules(&self) -> RecordRules {
        RecordRules {
            major: self.pages.major,
            magic: self.pages.current.magic,
            link: self.link,
            aborted: self.aborted,
            block_size: self.options.geometry.block_size,
            keep: self.options.keep,
        }
    }

    fn at_limit(&self) -> bool {
        self.collecting.is_none() && self.options.limit.is_some_and(|limit| self.at.lsn >= limit)
    }

    fn read_page<'c>(&mut self, input: &mut &'c [u8]) -> Flow<'c> {
        if self.at_limit() {
            return self.fail(EndReason::Limit, self.at.lsn);
        }
        let page_start = self.at.page_start();
        let header = match self.pages.take(&mut self.at, input) {
            None => return Flow::NeedMore,
            Some(Ok(header)) => header,
            Some(Err(error)) => return self.fail(EndReason::Body(error), page_start),
        };
        let is_before_limit = self.options.limit.is_none_or(|limit| page_start < limit);
        match self.pages.judge(header, page_start, is_before_limit) {
            Ok(()) => self.enter_page(header, page_start),
            Err(reason) => self.fail_page(reason, page_start, None),
        }
    }

    fn enter_page<'c>(&mut self, header: PageHeader, page_start: Lsn) -> Flow<'c> {
        let Some(Collecting { start_lsn, tot_len, .. }) = self.collecting else {
            if !header.has(FIRST_IS_CONTRECORD) {
                self.state = ReaderState::Record;
            } else if self.link.is_none() {
                self.state = ReaderState::Pass(self.pages.first_record_position(&self.at));
            } else {
                let reason = EndReason::UnexpectedContinuation { rem_len: header.rem_len };
                return self.fail_page(reason, page_start, Some(header));
            }
            return Flow::Again;
        };
        let have = u64::try_from(self.buffer.len()).unwrap_or(u64::MAX);
        if header.overwrites() {
            self.aborted = Some(start_lsn);
            self.collecting = None;
            self.state = ReaderState::Record;
            return Flow::Found(FoundEvent::Aborted(Aborted { start_lsn, missing_lsn: page_start, have, tot_len }));
        }
        if !header.has(FIRST_IS_CONTRECORD) {
            return self.fail_page(EndReason::ContinuationMissing, page_start, Some(header));
        }
        let expected = tot_len.saturating_sub(u32::try_from(have).unwrap_or(u32::MAX));
        if header.rem_len != expected {
            let reason = EndReason::ContinuationLength { found: header.rem_len, expected };
            return self.fail_page(reason, page_start, Some(header));
        }
        self.state = ReaderState::Collect;
        Flow::Again
    }

    fn pass<'c>(&mut self, input: &mut &'c [u8], until: Lsn) -> Flow<'c> {
        let missing = until.bytes_since(self.at.lsn).unwrap_or(0);
        self.at.consume(input, usize::try_from(missing).unwrap_or(usize::MAX));
        if self.at_limit() {
            return self.fail(EndReason::Limit, self.at.lsn);
        }
        if self.at.lsn < until {
            return Flow::NeedMore;
        }
        self.state = if self.at.at_page_boundary() { ReaderState::Page } else { ReaderState::Record };
        Flow::Again
    }

    fn read_record<'c>(&mut self, input: &mut &'c [u8]) -> Flow<'c> {
        if self.at_limit() {
            return self.fail(EndReason::Limit, self.at.lsn);
        }
        if input.is_empty() {
            return Flow::NeedMore;
        }
        let start_lsn = self.at.lsn;
        let (tli, page_info) = (self.pages.current.tli, self.pages.current.info);
        if let Some(&length) = input.first_chunk::<4>() {
            let tot_len = u32::from_le_bytes(length);
            let length = usize::try_from(tot_len).unwrap_or(usize::MAX);
            if length >= RecordHeader::SIZE
                && length <= self.at.left_in_page()
                && let Some(bytes) = input.get(..length)
            {
                let judged = self.rules().judge_header(start_lsn, bytes);
                let judged =
                    judged.and_then(|header| self.rules().judge_body(start_lsn, header, bytes, record_crc(bytes)));
                return match judged {
                    Ok(sound) => {
                        self.at.consume(input, length);
                        let whole = self.accept(start_lsn, sound, tli, page_info);
                        Flow::Found(FoundEvent::Inside(whole, bytes))
                    }
                    Err(reason) => self.fail(reason, start_lsn),
                };
            }
        }
        self.buffer.clear();
        self.collecting = Some(Collecting { start_lsn, tli, page_info, tot_len: 0 });
        self.state = ReaderState::Collect;
        self.collect_sound_start(input, start_lsn);
        Flow::Again
    }

    /// Takes all that this page and `input` have of a record whose header is there and sound, in one go. Anything else is
    /// left to [`Self::collect`].
    fn collect_sound_start(&mut self, input: &mut &[u8], start_lsn: Lsn) {
        let available = input.get(..self.at.left_in_page()).unwrap_or(input);
        if available.len() < RecordHeader::SIZE {
            return;
        }
        if let Ok(header) = self.rules().judge_header(start_lsn, available)
            && let Some(collecting) = &mut self.collecting
        {
            collecting.tot_len = header.tot_len;
            let wanted = usize::try_from(header.tot_len).unwrap_or(usize::MAX);
            let piece = self.at.consume(input, wanted.min(available.len()));
            self.buffer.push(piece);
        }
    }

    fn collect<'c>(&mut self, input: &mut &'c [u8]) -> Flow<'c> {
        let Some(mut collecting) = self.collecting else {
            self.state = ReaderState::Record;
            return Flow::Again;
        };
        let Collecting { start_lsn, tli, page_info, .. } = collecting;
        loop {
            let have = self.buffer.len();
            let wanted = match have {
                0..4 => 4,
                4..RecordHeader::SIZE => RecordHeader::SIZE,
                _ => usize::try_from(collecting.tot_len).unwrap_or(usize::MAX),
            };
            if self.at.at_page_boundary() {
                self.state = ReaderState::Page;
                return Flow::Again;
            }
            let piece = self.at.consume(input, wanted.saturating_sub(have).min(self.at.left_in_page()));
            if piece.is_empty() {
                return Flow::NeedMore;
            }
            self.buffer.push(piece);
            if self.buffer.len() < wanted {
                continue;
            }
            if wanted == 4
                && let Some(&length) = self.buffer.kept().first_chunk::<4>()
            {
                collecting.tot_len = u32::from_le_bytes(length);
                self.collecting = Some(collecting);
                if let Err(reason) = self.rules().judge_length(collecting.tot_len) {
                    return self.fail(reason, start_lsn);
                }
                continue;
            }
            // Each is done once: when the header is whole, and when the record is.
            let bytes = self.buffer.kept();
            let judged = self.rules().judge_header(start_lsn, bytes);
            let whole = u32::try_from(self.buffer.len()).unwrap_or(u32::MAX) >= collecting.tot_len;
            let judged = match judged {
                Ok(_) if !whole => continue,
                Ok(header) => self.rules().judge_body(start_lsn, header, bytes, self.buffer.crc()),
                Err(reason) => Err(reason),
            };
            return match judged {
                Ok(sound) => Flow::Found(FoundEvent::Assembled(self.accept(start_lsn, sound, tli, page_info))),
                Err(reason) => self.fail(reason, start_lsn),
            };
        }
    }

    /// Takes the record that ends here as good.
    #[inline]
    fn accept(&mut self, start_lsn: Lsn, sound: Sound, tli: TimelineId, page_info: u16) -> Whole {
        let data_end_lsn = self.at.lsn;
        let mut end_lsn = data_end_lsn.aligned();
        if sound.header.is_switch() {
            let segment = u64::from(self.options.geometry.wal_segment_size);
            end_lsn = Lsn(data_end_lsn.0.checked_next_multiple_of(segment).unwrap_or(u64::MAX));
        }
        self.state = ReaderState::Pass(end_lsn);
        self.collecting = None;
        self.aborted = None;
        self.searching = false;
        self.link = Some(start_lsn);
        self.last_record = Some(start_lsn);
        self.end_of_last = Some(end_lsn);
        Whole { start_lsn, end_lsn, data_end_lsn, sound, tli, page_info }
    }
    fn end_at(&self, reason: EndReason, at: Lsn) -> EndOfWal {
        let unfinished = self.collecting.map(|collecting| collecting.start_lsn).filter(|&start| start != at);
        EndOfWal { reason, at, unfinished, last_record: self.last_record, end_of_last: self.end_of_last }
    }

    /// Stops at a record, or continues after it.
    #[cold]
    fn fail<'c>(&mut self, reason: EndReason, at: Lsn) -> Flow<'c> {
        let end = self.end_at(reason, at);
        if !self.options.resynchronise || end.reason == EndReason::Limit {
            self.state = ReaderState::Stopped;
            self.end = Some(end.clone());
            return Flow::Found(FoundEvent::End(end));
        }
        self.forget();
        // A page that continues another record says where the next one starts, if reading was not past that.
        let first = self.pages.first_record_position(&self.at);
        self.state = match self.at.at_page_boundary() {
            true => ReaderState::Page,
            false if first > at => ReaderState::Pass(first),
            false => ReaderState::Pass(self.at.page_end()),
        };
        Flow::Found(FoundEvent::Damage(end))
    }

    /// Stops at a page, or continues: in this page when its header is `sound`, else in the next. While looking for a page
    /// to continue with, more bad ones are part of the same damage.
    #[cold]
    fn fail_page<'c>(&mut self, reason: EndReason, at: Lsn, sound: Option<PageHeader>) -> Flow<'c> {
        if !self.options.resynchronise {
            return self.fail(reason, at);
        }
        let end = self.end_at(reason, at);
        let quiet = self.searching;
        self.forget();
        let page_end = at.advanced_by(u64::from(self.options.geometry.wal_block_size));
        self.state = match sound {
            Some(header) if header.has(FIRST_IS_CONTRECORD) => {
                ReaderState::Pass(self.pages.first_record_position(&self.at))
            }
            Some(_) => ReaderState::Record,
            None => {
                // A timeline that was wrong on one page must not rule out all that follow.
                self.pages.current.tli = TimelineId(0);
                ReaderState::Pass(page_end)
            }
        };
        if quiet { Flow::Again } else { Flow::Found(FoundEvent::Damage(end)) }
    }

    fn forget(&mut self) {
        self.collecting = None;
        self.link = None;
        self.aborted = None;
        self.searching = true;
        self.recovered = true;
    }
}

/// Shows a record to `visit`: not inlined, where there are fewer records.
#[inline(never)]
fn show(visit: &mut impl FnMut(&Record<'_>) -> ControlFlow<()>, record: &Record<'_>) -> ControlFlow<()> {
    visit(record)
}

fn cut_short(structure: &'static str, have: usize) -> EndReason {
    EndReason::CutShort { structure, have: u64::try_from(have).unwrap_or(u64::MAX) }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
