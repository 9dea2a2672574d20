//! The state machine that turns bytes of WAL into records.
//!
//! It takes bytes in pieces of any size, in the order of their addresses and without gaps, starting at a page boundary,
//! and never looks at one twice. A record that lies inside one page and one piece is borrowed from the piece; any other is
//! put together in one buffer, which grows only as bytes really come and is used again for the next. The buffer never holds
//! more than [`KEPT_RECORD_BYTES`]: what a record has beyond goes into its checksum and is counted, but not kept.
//!
//! [`WalReader::take_plain`] is the short way through records that are there as a whole and have nothing odd about them.
//!
//! ```
//! use pgforensics::parsers::wal::reader::{Event, ReaderOptions, WalReader};
//! # use pgforensics::types::{Geometry, Lsn};
//! # let geometry =
//! #     Geometry { block_size: 8192, rel_segment_blocks: 131_072, wal_block_size: 8192, wal_segment_size: 1 << 20 };
//! # let pieces: Vec<Vec<u8>> = Vec::new();
//! let mut reader = WalReader::new(ReaderOptions::new(geometry), Lsn(0x100_0000))?;
//! for piece in &pieces {
//!     let mut input = piece.as_slice();
//!     while let Some(event) = reader.next(&mut input) {
//!         if let Event::Record(record) = event {
//!             assert!(record.end_lsn > record.start_lsn);
//!         }
//!     }
//! }
//! let end = reader.finish();
//! # Ok::<(), pgforensics::parsers::wal::reader::ReaderError>(())
//! ```

mod buffer;
mod event;
mod options;
mod pages;
mod plain;
mod stop;

pub use buffer::{HEAD_RECORD_BYTES, KEPT_RECORD_BYTES};
pub use event::{Aborted, Event};
pub use options::{ReaderError, ReaderOptions};
pub use plain::Plain;

use self::buffer::RecordBuffer;
use super::block::BodyLayout;
use super::end::{EndOfWal, EndReason};
use super::page::{PageFault, PageHeader};
use super::payload;
use super::record::{PrevLink, Record, RecordHeader, record_crc};
use super::version::{Major, UnknownMagic};
use crate::types::{Geometry, Lsn, TimelineId};

/// As [`Event`], without the bytes of a record that lie in the reader's own buffer.
enum FoundEvent<'c> {
    Inside(Whole, &'c [u8]),
    Assembled(Whole),
    Aborted(Aborted),
    Damage(EndOfWal),
    End(EndOfWal),
}

/// A record that passed every check.
struct Sound {
    header: RecordHeader,
    layout: BodyLayout,
    major: Major,
}

/// What is known about a record besides its bytes.
struct Whole {
    start_lsn: Lsn,
    end_lsn: Lsn,
    data_end_lsn: Lsn,
    sound: Sound,
    tli: TimelineId,
    page_info: u16,
}

enum Flow<'c> {
    Again,
    NeedMore,
    Found(FoundEvent<'c>),
}

#[derive(Clone, Copy, Debug)]
enum ReaderState {
    /// At the start of a page.
    Page,
    /// In a page, where a record may start.
    Record,
    /// In a page, inside a record that is put together in the buffer.
    Collect,
    /// Not looking at bytes before this address.
    Pass(Lsn),
    /// Behind the end.
    Stopped,
}

/// The record that is put together.
#[derive(Clone, Copy, Debug)]
struct Collecting {
    start_lsn: Lsn,
    tli: TimelineId,
    page_info: u16,
    tot_len: u32,
}

/// Reads WAL; see the module's description.
#[derive(Debug)]
pub struct WalReader {
    options: ReaderOptions,
    /// Address of the next byte of input.
    lsn: Lsn,
    state: ReaderState,
    /// Header of the current page.
    page: PageHeader,
    /// Timelines of the first and of the last page before the limit.
    timelines: Option<(TimelineId, TimelineId)>,
    /// Whether the first page says that it begins with the rest of a record, and where that lies.
    continues: Option<Option<Lsn>>,
    /// Bytes of a page header that came in pieces.
    staged: Vec<u8>,
    collecting: Option<Collecting>,
    buffer: RecordBuffer,
    /// Start of the record before, once one was read in order.
    link: Option<Lsn>,
    /// Start of a record that was given up just now.
    aborted: Option<Lsn>,
    last_record: Option<Lsn>,
    end_of_last: Option<Lsn>,
    /// Skipping damage: no record was found since.
    searching: bool,
    recovered: bool,
    end: Option<EndOfWal>,
}

impl WalReader {
    /// A reader whose first byte of input has the address `first`, which must be the start of a page. A record that begins
    /// before it is passed over.
    ///
    /// # Errors
    /// [`ReaderError`] when the sizes are impossible or `first` is no page boundary.
    pub fn new(options: ReaderOptions, first: Lsn) -> Result<Self, ReaderError> {
        options.check(first)?;
        let page = PageHeader { magic: 0, info: 0, tli: TimelineId(0), page_addr: first, rem_len: 0, long: None };
        Ok(Self {
            buffer: RecordBuffer::new(options.keep),
            options,
            lsn: first,
            state: ReaderState::Page,
            page,
            timelines: None,
            continues: None,
            staged: Vec::with_capacity(PageHeader::LONG_SIZE),
            collecting: None,
            link: None,
            aborted: None,
            last_record: None,
            end_of_last: None,
            searching: false,
            recovered: false,
            end: None,
        })
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
        Some(match found {
            FoundEvent::Inside(whole, bytes) => Event::Record(self.record(whole, bytes)),
            FoundEvent::Assembled(whole) => Event::Record(self.record(whole, self.buffer.kept())),
            FoundEvent::Aborted(aborted) => Event::Aborted(aborted),
            FoundEvent::Damage(end) => Event::Damage(end),
            FoundEvent::End(end) => Event::End(end),
        })
    }

    /// Address of the next byte of input that the reader takes.
    #[must_use]
    pub const fn position(&self) -> Lsn {
        self.lsn
    }

    /// True once the end was found: more input changes nothing.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        matches!(self.state, ReaderState::Stopped)
    }

    /// Version of the pages read so far, or `None` before the first.
    #[must_use]
    pub const fn major(&self) -> Option<Major> {
        self.options.major
    }

    /// System identifier, once a long header was read.
    #[must_use]
    pub const fn system_identifier(&self) -> Option<u64> {
        self.options.system_identifier
    }

    /// Timelines of the first and of the last sound page read before the limit.
    #[must_use]
    pub const fn timelines(&self) -> Option<(TimelineId, TimelineId)> {
        self.timelines
    }

    /// Where the rest of a record lies with which the first page says that it begins.
    #[must_use]
    pub fn continues(&self) -> Option<Lsn> {
        self.continues.flatten()
    }

    /// Sizes of the cluster, as given.
    #[must_use]
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
            None if self.staged.is_empty() => (EndReason::InputEnds, self.lsn),
            None => (cut_short("page header", self.staged.len()), self.page_start()),
        };
        let end = self.end_at(reason, at);
        self.state = ReaderState::Stopped;
        self.end = Some(end.clone());
        end
    }

    fn record<'a>(&self, whole: Whole, bytes: &'a [u8]) -> Record<'a> {
        let Whole { start_lsn, end_lsn, data_end_lsn, sound: Sound { header, layout, major }, tli, page_info } = whole;
        Record {
            start_lsn,
            end_lsn,
            data_end_lsn,
            header,
            layout,
            bytes,
            major,
            block_size: self.options.geometry.block_size,
            tli,
            page_info,
            recovered: self.recovered,
        }
    }

    /// Address of the current page; at a boundary, of the page that starts there.
    fn page_start(&self) -> Lsn {
        let staged = u64::try_from(self.staged.len()).unwrap_or(0);
        let block = u64::from(self.options.geometry.wal_block_size);
        Lsn(self.lsn.0.saturating_sub(staged) & !block.wrapping_sub(1))
    }

    /// Bytes from here to the end of the page; a whole page at a boundary.
    fn left_in_page(&self) -> usize {
        let block = u64::from(self.options.geometry.wal_block_size);
        let inside = self.lsn.0 & block.wrapping_sub(1);
        usize::try_from(block.saturating_sub(inside)).unwrap_or(usize::MAX)
    }

    fn at_page_boundary(&self) -> bool {
        self.lsn.0.is_multiple_of(u64::from(self.options.geometry.wal_block_size))
    }

    fn at_limit(&self) -> bool {
        self.collecting.is_none() && self.options.limit.is_some_and(|limit| self.lsn >= limit)
    }

    /// Takes up to `count` bytes off `input`.
    fn consume<'c>(&mut self, input: &mut &'c [u8], count: usize) -> &'c [u8] {
        let (taken, rest) = input.split_at_checked(count).unwrap_or((*input, &[]));
        *input = rest;
        self.lsn = self.lsn.advanced_by(u64::try_from(taken.len()).unwrap_or(u64::MAX));
        taken
    }

    fn pass<'c>(&mut self, input: &mut &'c [u8], until: Lsn) -> Flow<'c> {
        let missing = until.bytes_since(self.lsn).unwrap_or(0);
        self.consume(input, usize::try_from(missing).unwrap_or(usize::MAX));
        if self.at_limit() {
            return self.fail(EndReason::Limit, self.lsn);
        }
        if self.lsn < until {
            return Flow::NeedMore;
        }
        self.state = if self.at_page_boundary() { ReaderState::Page } else { ReaderState::Record };
        Flow::Again
    }

    fn read_record<'c>(&mut self, input: &mut &'c [u8]) -> Flow<'c> {
        if self.at_limit() {
            return self.fail(EndReason::Limit, self.lsn);
        }
        if input.is_empty() {
            return Flow::NeedMore;
        }
        let start_lsn = self.lsn;
        let (tli, page_info) = (self.page.tli, self.page.info);
        if let Some(&length) = input.first_chunk::<4>() {
            let tot_len = u32::from_le_bytes(length);
            let length = usize::try_from(tot_len).unwrap_or(usize::MAX);
            if length >= RecordHeader::SIZE
                && length <= self.left_in_page()
                && let Some(bytes) = input.get(..length)
            {
                let judged = self.judge_header(start_lsn, bytes);
                let judged = judged.and_then(|header| self.judge_body(start_lsn, header, bytes, record_crc(bytes)));
                return match judged {
                    Ok(sound) => {
                        self.consume(input, length);
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
        let available = input.get(..self.left_in_page()).unwrap_or(input);
        if available.len() < RecordHeader::SIZE {
            return;
        }
        if let Ok(header) = self.judge_header(start_lsn, available)
            && let Some(collecting) = &mut self.collecting
        {
            collecting.tot_len = header.tot_len;
            let wanted = usize::try_from(header.tot_len).unwrap_or(usize::MAX);
            let piece = self.consume(input, wanted.min(available.len()));
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
            if self.at_page_boundary() {
                self.state = ReaderState::Page;
                return Flow::Again;
            }
            let piece = self.consume(input, wanted.saturating_sub(have).min(self.left_in_page()));
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
                if collecting.tot_len == 0 {
                    return self.fail(EndReason::ZeroLength, start_lsn);
                }
                let length = self
                    .page_major()
                    .and_then(|major| RecordHeader::check_length(collecting.tot_len, major).map_err(EndReason::Header));
                if let Err(reason) = length {
                    return self.fail(reason, start_lsn);
                }
                continue;
            }
            // Each is done once: when the header is whole, and when the record is.
            let bytes = self.buffer.kept();
            let judged = self.judge_header(start_lsn, bytes);
            let whole = u32::try_from(self.buffer.len()).unwrap_or(u32::MAX) >= collecting.tot_len;
            let judged = match judged {
                Ok(_) if !whole => continue,
                Ok(header) => self.judge_body(start_lsn, header, bytes, self.buffer.crc()),
                Err(reason) => Err(reason),
            };
            return match judged {
                Ok(sound) => Flow::Found(FoundEvent::Assembled(self.accept(start_lsn, sound, tli, page_info))),
                Err(reason) => self.fail(reason, start_lsn),
            };
        }
    }

    /// Version of the current page. Nothing is read of a page before that is known.
    #[inline]
    fn page_major(&self) -> Result<Major, EndReason> {
        self.options.major.ok_or(EndReason::Page(PageFault::UnknownMagic(UnknownMagic(self.page.magic))))
    }

    /// Checks the header at the start of `bytes`.
    #[inline]
    fn judge_header(&self, start_lsn: Lsn, bytes: &[u8]) -> Result<RecordHeader, EndReason> {
        let header = RecordHeader::decode(start_lsn, bytes).map_err(EndReason::Body)?;
        let link = self.link.map_or(PrevLink::Below(start_lsn), PrevLink::Exactly);
        match header.faults(self.page_major()?, link).first() {
            Some(&fault) => Err(EndReason::Header(fault)),
            None => Ok(header),
        }
    }

    /// Checks everything behind the header of a whole record: its checksum, `computed` over all of it, and what its first
    /// `bytes` say; those that `header` counts beyond them were not kept.
    #[inline]
    fn judge_body(
        &self,
        start_lsn: Lsn,
        header: RecordHeader,
        bytes: &[u8],
        computed: u32,
    ) -> Result<Sound, EndReason> {
        if computed != header.crc {
            return Err(EndReason::Checksum { found: header.crc, computed });
        }
        let body = bytes.get(RecordHeader::SIZE..).unwrap_or_default();
        let major = self.page_major()?;
        let block_size = self.options.geometry.block_size;
        let beyond = u64::from(header.tot_len).saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let layout = BodyLayout::decode_cut(start_lsn, major, block_size, body, (beyond, self.options.keep))
            .map_err(EndReason::Body)?;
        if let Some(expected) = self.aborted
            && let Some(found) = payload::overwritten_lsn(&header, layout.main_data(body))
            && found != expected
        {
            return Err(EndReason::Overwritten { found, expected });
        }
        Ok(Sound { header, layout, major })
    }

    /// Takes the record that ends here as good.
    #[inline]
    fn accept(&mut self, start_lsn: Lsn, sound: Sound, tli: TimelineId, page_info: u16) -> Whole {
        let data_end_lsn = self.lsn;
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
}

fn cut_short(structure: &'static str, have: usize) -> EndReason {
    EndReason::CutShort { structure, have: u64::try_from(have).unwrap_or(u64::MAX) }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
