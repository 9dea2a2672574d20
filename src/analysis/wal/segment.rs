//! Reads one segment on its own, from its first record start to the end of the last record that starts in it.
//! Also here: the bytes of a run of segments in order, piece by piece; records with a right checksum that are not valid
//! records of their type.

use std::ops::{ControlFlow, Range};

use super::stretch::{Extent, Shown, Stretch};
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::decode::ParseError;
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::payload::XlogPayload;
use crate::parsers::wal::reader::{Aborted, ReadStep};
use crate::parsers::wal::record::Record;
use crate::parsers::wal::scan::{ScanSummary, SegmentScan};

/// Takes the records of one segment as they come.
pub(crate) trait Visitor {
    /// Takes a record of the range. Inlined where it is called for most records: what is not asked for of a record need not
    /// be put together then.
    fn record(&mut self, record: &Record<'_>);
}

/// Both take each record, so that several things are counted while the bytes are read and checked once.
impl<A: Visitor, B: Visitor> Visitor for (A, B) {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.0.record(record);
        self.1.record(record);
    }
}

/// One that is taken out when it is done.
impl<V: Visitor> Visitor for Option<V> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if let Some(visitor) = self {
            visitor.record(record);
        }
    }
}

/// Given the bytes that were read; breaks reading off. Called from all threads.
pub(crate) type WatchRead<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

#[derive(Debug)]
pub(crate) struct SegmentRead<V> {
    /// Index of the segment in the set.
    pub index: usize,
    /// The segment at which reading started, this one or an earlier.
    pub from: usize,
    pub summary: ScanSummary,
    pub extent: Extent,
    /// Records that a crash cut off and that were replaced.
    pub aborted: Vec<Aborted>,
    /// A record ended after the end of the range: nothing further is shown.
    pub reached_end: bool,
    pub interrupted: bool,
    /// Why the segment's bytes could not be read to the end.
    pub error: Option<WalReadError>,
    /// The segment's file has more bytes than belong to it.
    pub past_end: Option<WalReadError>,
    pub found: V,
}

impl<V> SegmentRead<V> {
    /// Nothing of segment `index` was read yet; reading starts at segment `from`.
    pub(crate) fn new(index: usize, from: usize, summary: ScanSummary, found: V) -> Self {
        Self {
            index,
            from,
            summary,
            extent: Extent::default(),
            aborted: Vec::new(),
            reached_end: false,
            interrupted: false,
            error: None,
            past_end: None,
            found,
        }
    }
}

/// Shows the records that start in segment `index` to `visitor`.
///
/// `from`: segment at which reading starts, normally `index` itself. Reading from an earlier one checks the link
/// between them as reading in order does; its records are not shown. `buffer` is of any content; it is taken into use and
/// given back, so that the next segment needs no memory of its own.
pub(crate) fn read_segment<V: Visitor>(
    stretch: &Stretch<'_>,
    index: usize,
    from: usize,
    visitor: V,
    watch: WatchRead<'_>,
    buffer: &mut Vec<u8>,
) -> Result<SegmentRead<V>, WalReadError> {
    let set = stretch.set;
    let segment_start = set.segments()[index].start_lsn;
    let limit_lsn = segment_start.advanced_by(u64::from(set.geometry().wal_segment_size));
    let (first_page, skip) = stretch.first_page(from);
    let mut scan = SegmentScan::new(stretch.reader_options(), first_page, limit_lsn).map_err(WalReadError::Sizes)?;
    let mut shown = Shown::new(stretch.start_lsn.max(segment_start), stretch.end_lsn);
    let mut read = SegmentRead::new(index, from, scan.summary().clone(), visitor);
    let mut reading = from;
    let fed = feed(set, from..stretch.run.end, skip, index, buffer, |fed| {
        let mut input = match fed {
            Feed::File(file) => {
                reading = file;
                // What an own file holds after the end of WAL is read too: it may be unreadable.
                let enough = file > index && scan.is_finished();
                return if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            }
            Feed::Piece(piece) => piece,
        };
        let own_bytes = if reading == index { input.len() as u64 } else { 0 };
        if watch(own_bytes).is_break() {
            read.interrupted = true;
            return ControlFlow::Break(());
        }
        loop {
            let step = scan.read(&mut input, |record| {
                shown.show(record, |record| {
                    read.found.record(record);
                    ControlFlow::Continue(())
                })
            });
            match step {
                ReadStep::BrokenOff => return ControlFlow::Break(()),
                ReadStep::Aborted(aborted) if aborted.start_lsn >= segment_start => read.aborted.push(aborted),
                ReadStep::Aborted(_) | ReadStep::Damage(_) | ReadStep::End(_) => {}
                ReadStep::NeedMore => break,
            }
        }
        if reading > index && scan.is_finished() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    // Of a file before or after its own, those say it that read it as their own.
    read.past_end = fed.past_end.into_iter().find_map(|(file, error)| (file == index).then_some(error));
    match fed.how {
        FedEnd::Closed(error) if fed.file == from => return Err(error),
        FedEnd::Closed(error) | FedEnd::Short(Some(error)) => read.error = Some(error),
        FedEnd::Short(None) | FedEnd::Enough | FedEnd::Whole => {}
    }
    (read.extent, read.reached_end) = (shown.extent, shown.reached_end);
    read.summary = scan.finish();
    Ok(read)
}

#[derive(Debug)]
pub(crate) struct Fed {
    pub(crate) file: usize,
    pub(crate) how: FedEnd,
    /// Files that have more bytes than belong to their segment, all of which were delivered.
    pub(crate) past_end: Vec<(usize, WalReadError)>,
}

pub(crate) enum Feed<'p> {
    /// The bytes of this segment are next.
    File(usize),
    Piece(&'p [u8]),
}

#[derive(Debug)]
pub(crate) enum FedEnd {
    Whole,
    Enough,
    /// The segment has fewer bytes than belong to it: what follows in the next file does not follow in WAL. The error says
    /// why, unless the set has said so.
    Short(Option<WalReadError>),
    Closed(WalReadError),
}

/// Gives the bytes of the segments `files` to `receive`, without the first `skip` bytes, until it stops. Of segments
/// after `last` probably little is needed. `buffer` is of any content; it is taken into use and given back, so that the
/// next segment needs no memory of its own.
pub(crate) fn feed(
    set: &WalSet,
    files: Range<usize>,
    mut skip: u64,
    last: usize,
    buffer: &mut Vec<u8>,
    mut receive: impl FnMut(Feed<'_>) -> ControlFlow<()>,
) -> Fed {
    let mut past_end = Vec::new();
    for file in files.clone() {
        if receive(Feed::File(file)).is_break() {
            return Fed { file, how: FedEnd::Enough, past_end };
        }
        let reader = match set.reader_into(file, std::mem::take(buffer)) {
            Ok(reader) => reader,
            Err(error) => return Fed { file, how: FedEnd::Closed(error), past_end },
        };
        let mut reader = if file > last { reader.into_small_pieces() } else { reader };
        let how = loop {
            let piece = match reader.next_piece() {
                Ok(Some(piece)) => piece,
                Ok(None) => break None,
                Err(error) if error.is_past_the_segment() => {
                    past_end.push((file, error));
                    break None;
                }
                Err(error) => break Some(FedEnd::Short(Some(error).filter(|error| !error.is_short()))),
            };
            let passed = skip.min(piece.len() as u64);
            skip = skip.saturating_sub(passed);
            let rest = &piece[usize::try_from(passed).unwrap_or(piece.len())..];
            if receive(Feed::Piece(rest)).is_break() {
                break Some(FedEnd::Enough);
            }
        };
        *buffer = reader.into_buffer();
        if let Some(how) = how {
            return Fed { file, how, past_end };
        }
    }
    Fed { file: files.end, how: FedEnd::Whole, past_end }
}

/// The first such record of a segment, of those of the resource manager XLOG.
#[derive(Clone, Debug, Default)]
pub(crate) struct Undecoded(pub Option<ParseError>);

impl Visitor for Undecoded {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        if record.header.rmgr_id == RM_XLOG && !record.header.is_images() && self.0.is_none() {
            // A copy, so that other records need not be in memory as a whole.
            self.0 = XlogPayload::of(&{ *record }).err();
        }
    }
}
