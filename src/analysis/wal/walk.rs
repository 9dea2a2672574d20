//! Reads a run of segments in order and shows every record: for callers that need the order, or need to continue after
//! damage.
//! Also here: whether records end at given addresses: a page has no other LSN.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::collect::collect_run;
use super::segment::{FedEnd, Feed, Visitor, WatchRead, feed};
use super::stretch::{Extent, Shown, Stretch};
use super::tail::still_fails;
use crate::analysis::error_words::ErrorWords;
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::end::{EndOfWal, EndReason};
use crate::parsers::wal::reader::{Aborted, ReadStep, ReaderOptions, WalReader};
use crate::parsers::wal::record::Record;
use crate::types::Lsn;

/// How reading a stretch ended, and what was met on the way.
#[derive(Debug, Default)]
pub struct WalkEnd {
    /// How reading ended; `None` when it was interrupted or the end of the range was reached.
    pub end: Option<EndOfWal>,
    /// Why bytes could not be read.
    pub error: Option<WalReadError>,
    /// Files that have more bytes than belong to their segment.
    pub past_end: Vec<WalReadError>,
    /// Which records were shown.
    pub extent: Extent,
    /// Records that a crash cut off and that were replaced.
    pub aborted: Vec<Aborted>,
    /// A record ended after the end of the range.
    pub reached_end: bool,
    /// It was interrupted from outside.
    pub interrupted: bool,
    /// Damage after which reading continued, the first thousand of it.
    pub damage: Vec<Damage>,
    /// Further damage, only counted.
    pub further_damage: u64,
    /// An LSN at which WAL could not be read at first and could a moment later: a server is writing.
    pub written_since: Option<Lsn>,
    /// Bytes of WAL from the last good record before damage to the first one after it, of all damage.
    pub damaged_bytes: u64,
    /// End of the last good record, while reading continues after damage.
    damaged_from: Option<Lsn>,
}

/// Damaged stretches that are kept one by one.
const MAX_DAMAGE: usize = 1000;

/// So many damaged stretches, the last ones, are read again: a server may have been writing there.
const READ_AGAIN: usize = 20;

/// Where reading failed and continued later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The LSN at which reading failed.
    pub at: Lsn,
    /// End of the last good record before it.
    pub from: Lsn,
    /// The first good record after it, if any.
    pub resumed: Option<Lsn>,
    /// What was found.
    pub reason: DamageReason,
    /// Start of the last good record before it.
    pub last_record: Option<Lsn>,
}

/// What was found where reading failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageReason {
    /// WAL that is not sound.
    Wal(EndReason),
    /// Bytes of a segment cannot be had.
    Unreadable(ErrorWords),
    /// A segment has fewer bytes than it should.
    EndsEarly {
        /// The segment.
        segment: String,
    },
}

impl WalkEnd {
    /// Drops damage that later bytes explained.
    fn read_again(&mut self, stretch: &Stretch<'_>) {
        let mut first = self.damage.len().saturating_sub(READ_AGAIN);
        while let Some(damage) = self.damage.get(first) {
            if still_fails(stretch.set, &stretch.run, damage.at, damage.last_record) {
                first = first.saturating_add(1);
            } else {
                self.written_since = Some(damage.at);
                self.damage.remove(first);
            }
        }
    }

    fn add_damage(&mut self, at: Lsn, from: Option<Lsn>, last_record: Option<Lsn>, reason: DamageReason) {
        self.damaged_from.get_or_insert(from.unwrap_or(at));
        // While nothing good was found, it is the same damage.
        if self.damage.last().is_some_and(|last| last.resumed.is_none()) {
            return;
        }
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(Damage { at, from: from.unwrap_or(at), resumed: None, reason, last_record });
        } else {
            self.further_damage = self.further_damage.saturating_add(1);
        }
    }

    fn resume(&mut self, at: Lsn) {
        let lost = self.damaged_from.take().and_then(|from| at.bytes_since(from));
        self.damaged_bytes = self.damaged_bytes.saturating_add(lost.unwrap_or(0));
        if let Some(open) = self.damage.last_mut().filter(|last| last.resumed.is_none()) {
            open.resumed = Some(at);
        }
    }
}

/// Shows the records of a stretch in order, until `visit` or `watch` interrupts it. `resynchronise` continues after damage.
///
/// # Errors
/// When the first segment cannot be opened.
pub fn walk_run(
    stretch: &Stretch<'_>,
    resynchronise: bool,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
    mut visit: impl FnMut(&Record<'_>) -> ControlFlow<()>,
) -> Result<WalkEnd, WalReadError> {
    let Stretch { set, run, .. } = stretch;
    let range = stretch.touched();
    let mut result = WalkEnd::default();
    if range.is_empty() {
        return Ok(result);
    }
    let (first, mut skip) = stretch.first_page(range.start);
    let options = ReaderOptions { resynchronise, ..stretch.reader_options() };
    let mut reader = WalReader::new(options.clone(), first).map_err(WalReadError::Sizes)?;
    let mut shown = Shown::new(stretch.start_lsn, stretch.end_lsn);
    let mut open: Option<EndOfWal> = None;
    let (mut file, mut buffer) = (range.start, Vec::new());
    let (mut last_end, mut enough) = (None, false);
    loop {
        // A record may reach over the last touched segment.
        let fed = feed(set, file..run.end, skip, run.end, &mut buffer, |fed| {
            let mut input = match fed {
                Feed::File(_) if reader.is_stopped() => return ControlFlow::Break(()),
                Feed::File(_) => return ControlFlow::Continue(()),
                Feed::Piece(piece) => piece,
            };
            if watch(input.len() as u64).is_break() {
                result.interrupted = true;
                enough = true;
                return ControlFlow::Break(());
            }
            loop {
                let step = reader.read(&mut input, |record| {
                    last_end = Some(record.end_lsn);
                    result.resume(record.start_lsn);
                    open = None;
                    shown.show(record, &mut visit)
                });
                match step {
                    ReadStep::NeedMore => return ControlFlow::Continue(()),
                    ReadStep::BrokenOff => {
                        enough = true;
                        return ControlFlow::Break(());
                    }
                    ReadStep::Damage(end) => {
                        let from = end.end_of_last.or(last_end);
                        result.add_damage(end.at, from, end.last_record, DamageReason::Wal(end.reason.clone()));
                        open.get_or_insert(end);
                    }
                    ReadStep::Aborted(aborted) => result.aborted.push(aborted),
                    ReadStep::End(_) => {}
                }
            }
        });
        result.past_end.extend(fed.past_end.into_iter().map(|(_, error)| error));
        (result.extent, result.reached_end) = (shown.extent, shown.reached_end);
        if enough {
            return Ok(result);
        }
        match fed.how {
            FedEnd::Closed(error) if fed.file == range.start => return Err(error),
            FedEnd::Short(why) if resynchronise && fed.file.saturating_add(1) < run.end => {
                file = fed.file.saturating_add(1);
                let reason = why.as_ref().map_or_else(
                    || DamageReason::EndsEarly { segment: set.segments()[fed.file].label.clone() },
                    |why| DamageReason::Unreadable(why.into()),
                );
                result.add_damage(reader.position(), last_end, None, reason);
                let next = set.segments()[file].start_lsn;
                reader = WalReader::new(options.clone(), next).map_err(WalReadError::Sizes)?;
                skip = 0;
                continue;
            }
            FedEnd::Closed(error) | FedEnd::Short(Some(error)) => result.error = Some(error),
            FedEnd::Short(None) | FedEnd::Whole | FedEnd::Enough => {}
        }
        break;
    }
    // A failure that no good record followed is where this WAL ends; whether that is damage is judged like any end.
    result.end = match open.filter(|_| result.damage.last().is_some_and(|last| last.resumed.is_none())) {
        Some(mut end) => {
            result.damage.pop();
            end.end_of_last = end.end_of_last.or(last_end);
            Some(end)
        }
        None => Some(reader.finish()),
    };
    result.read_again(stretch);
    Ok(result)
}

/// Those of `wanted` at which a record of the set ends; fewer where `watch` interrupts it.
pub(crate) fn ends_among(
    set: &WalSet,
    wanted: &BTreeSet<Lsn>,
    jobs: usize,
    watch: WatchRead<'_>,
) -> Result<BTreeSet<Lsn>, WalReadError> {
    let mut found = BTreeSet::new();
    let size = u64::from(set.geometry().wal_segment_size);
    for run in set.runs() {
        let starts = set.segments().get(run.clone()).unwrap_or_default();
        let holds =
            |lsn: &Lsn| starts.iter().any(|file| file.start_lsn < *lsn && *lsn <= file.start_lsn.advanced_by(size));
        if !wanted.iter().any(holds) {
            continue;
        }
        let stretch = Stretch { set, run, start_lsn: Lsn::INVALID, end_lsn: Lsn(u64::MAX), keep: Keep::Heads };
        let begin = |_| Ends { wanted, found: BTreeSet::new() };
        let walk = collect_run(&stretch, jobs, watch, begin, |part| {
            found.append(&mut part.found.found);
            Ok(())
        })?;
        if let Some(error) = walk.error {
            return Err(error);
        }
    }
    Ok(found)
}

struct Ends<'a> {
    wanted: &'a BTreeSet<Lsn>,
    found: BTreeSet<Lsn>,
}

impl Visitor for Ends<'_> {
    fn record(&mut self, record: &Record<'_>) {
        if self.wanted.contains(&record.end_lsn) {
            self.found.insert(record.end_lsn);
        }
    }
}
