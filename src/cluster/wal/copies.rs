//! Copies of the same segment, as in `pg_wal` and an archive: compared byte by byte. Of two that differ the one is used whose
//! records hold further. Memory: some pieces of both copies for each thread.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::bytes::{SegmentBytes, StoredAt, WalReadError};
use super::choose::{Common, Numbered, WalAccess};
use super::notes::{NoteKind, NoteLevel, Notes, SetNote};
use crate::cluster::open::ReadFile;
use crate::parsers::wal::end::EndReason;
use crate::parsers::wal::page::PageHeader;
use crate::parsers::wal::reader::{Event, ReaderOptions, WalReader};
use crate::types::{Geometry, Lsn, TimelineId};

const MAX_THREADS: usize = 8;

/// Bytes that are the same in both copies after a difference, and not zero, when both were written there.
const SAME_BYTES: usize = 32;

/// Properties that all copies share, and the way to read them.
pub(super) struct Copies<'a> {
    common: Common,
    timelines: Vec<TimelineId>,
    access: WalAccess<'a>,
    progress: CopyProgress,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Interrupted;

#[derive(Default)]
struct CopyProgress {
    /// Bytes of all copies, each counted with the one that it is compared with.
    total: u64,
    done: AtomicU64,
    interrupted: AtomicBool,
}

#[derive(Default)]
struct Compared {
    /// Offset of the first byte that only one of them has, or that differs.
    differs_at: Option<u64>,
    used_failed: Option<String>,
    /// Why the second cannot.
    other_failed: Option<String>,
}

#[derive(Clone, Copy)]
struct Holds {
    to: Lsn,
    /// WAL before this may belong to a record that continues in a missing segment.
    unproven_to: Lsn,
}

/// The segments before and after.
#[derive(Clone, Copy)]
struct Neighbours<'n> {
    before: Option<&'n Numbered>,
    after: Option<&'n Numbered>,
}

impl<'a> Copies<'a> {
    /// `rivals`: the copies that will be compared with the better ones.
    pub(super) fn new(
        common: Common,
        timelines: Vec<TimelineId>,
        access: WalAccess<'a>,
        rivals: &BTreeMap<u64, Vec<Numbered>>,
    ) -> Self {
        let pairs: usize = rivals.values().map(Vec::len).sum();
        let total = u64::from(common.segment_size).saturating_mul(2).saturating_mul(pairs as u64);
        Self { common, timelines, access, progress: CopyProgress { total, ..CopyProgress::default() } }
    }

    /// Reports the bytes that were read: continue or not. Once interrupted, always interrupted.
    fn advance(&self, bytes: u64) -> ControlFlow<()> {
        let CopyProgress { total, done, interrupted } = &self.progress;
        if interrupted.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let done = done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes).min(*total);
        let flow = (self.access.watch)(done, *total);
        interrupted.fetch_or(flow.is_break(), Ordering::Relaxed);
        flow
    }

    /// Settles which copy of each segment is used. `best`: the better one by appearance; `rivals`: all others. Gives the first
    /// segment of which two copies from elsewhere contradict each other.
    pub(super) fn settle(
        &self,
        best: &mut BTreeMap<u64, Numbered>,
        rivals: BTreeMap<u64, Vec<Numbered>>,
        notes: &mut Notes,
    ) -> Result<Option<u64>, Interrupted> {
        let mut disputed_from = None;
        let mut compared = self.compare_all(best, &rivals);
        for (number, others) in rivals {
            for (index, other) in others.into_iter().enumerate() {
                let Some(used) = best.remove(&number) else { continue };
                let beside = compared.remove(&(number, index)).unwrap_or_else(|| self.compare(&used, &other));
                let neighbours = Neighbours {
                    before: number.checked_sub(1).and_then(|before| best.get(&before)),
                    after: number.checked_add(1).and_then(|after| best.get(&after)),
                };
                let label = used.candidate.label.clone();
                let (used, is_disputed) = self.better(used, other, &beside, neighbours, notes);
                if is_disputed && !used.candidate.origin.is_of_cluster {
                    disputed_from.get_or_insert(number);
                }
                if self.advance(0).is_break() {
                    return Err(Interrupted);
                }
                if used.candidate.label != label {
                    // The copies that are left were compared with the other one.
                    compared.retain(|(of, _), _| *of != number);
                }
                best.insert(number, used);
            }
        }
        Ok(disputed_from)
    }

    /// Compares each of `rivals` with the one in `best`, several at a time.
    fn compare_all(
        &self,
        best: &BTreeMap<u64, Numbered>,
        rivals: &BTreeMap<u64, Vec<Numbered>>,
    ) -> BTreeMap<(u64, usize), Compared> {
        let mut pairs = Vec::new();
        for (number, others) in rivals {
            let Some(used) = best.get(number) else { continue };
            pairs.extend(others.iter().enumerate().map(|(index, other)| ((*number, index), used, other)));
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(pairs.len());
        let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some((key, used, other)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let compared = self.compare(used, other);
                        found.lock().unwrap_or_else(PoisonError::into_inner).insert(*key, compared);
                    }
                });
            }
        });
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, copy: &Numbered) -> Result<SegmentBytes<'_>, WalReadError> {
        let candidate = &copy.candidate;
        let size = u64::from(self.common.segment_size);
        SegmentBytes::open(
            &candidate.label,
            &candidate.stored_at,
            self.access.scratch,
            size,
            self.access.window_bytes,
            Vec::new(),
        )
    }

    /// The first difference. The result after an interruption is meaningless.
    fn compare(&self, used: &Numbered, other: &Numbered) -> Compared {
        let both = u64::from(self.common.segment_size).saturating_mul(2);
        let (compared, bytes) = self.compare_bytes(used, other);
        // The rest of them is not read.
        match self.advance(both.saturating_sub(bytes)) {
            ControlFlow::Continue(()) => compared,
            ControlFlow::Break(()) => Compared::default(),
        }
    }

    /// The first difference, and the number of bytes reported.
    fn compare_bytes(&self, used: &Numbered, other: &Numbered) -> (Compared, u64) {
        if is_same_file(&used.candidate.stored_at, &other.candidate.stored_at) {
            return (Compared::default(), 0);
        }
        let (mut used_bytes, mut other_bytes) = match (self.open(used), self.open(other)) {
            (Ok(used), Ok(other)) => (used, other),
            (used, other) => {
                let compared = Compared {
                    differs_at: Some(0),
                    used_failed: used.err().map(|error| error.to_string()),
                    other_failed: other.err().map(|error| error.to_string()),
                };
                return (compared, 0);
            }
        };
        let mut compared = Compared::default();
        let mut offset = 0_u64;
        loop {
            // Both come in pieces of the same length, but for the last one of a copy that ends early.
            let (one, two) = (next_piece(&mut used_bytes), next_piece(&mut other_bytes));
            let (one, two) = match (one, two) {
                (Ok(one), Ok(two)) => (one, two),
                (one, two) => {
                    compared.used_failed = one.err();
                    compared.other_failed = two.err();
                    compared.differs_at = Some(offset);
                    return (compared, offset.saturating_mul(2));
                }
            };
            let pieces = (one.len() as u64).saturating_add(two.len() as u64);
            if pieces == 0 || self.advance(pieces).is_break() {
                return (compared, offset.saturating_mul(2));
            }
            if one != two {
                let same = one.iter().zip(two).take_while(|(one, two)| one == two).count();
                let (one_ends, two_ends) = (same == one.len(), same == two.len());
                compared.differs_at = Some(offset.saturating_add(same as u64));
                compared.used_failed = next_piece(&mut used_bytes).err().filter(|_| one_ends);
                compared.other_failed = next_piece(&mut other_bytes).err().filter(|_| two_ends);
                return (compared, offset.saturating_mul(2).saturating_add(pieces));
            }
            offset = offset.saturating_add(one.len() as u64);
        }
    }

    /// The better of two copies, and whether records of both hold where they differ; says how they differ, if they do inside WAL.
    /// Where both hold, that of the cluster is the better one.
    fn better(
        &self,
        used: Numbered,
        other: Numbered,
        compared: &Compared,
        neighbours: Neighbours<'_>,
        notes: &mut Notes,
    ) -> (Numbered, bool) {
        let Some(offset) = compared.differs_at else { return (used, false) };
        let size = self.common.segment_size;
        let start = used.segment.start_lsn(size).unwrap_or_default();
        let at = start.advanced_by(offset);
        let (used_holds, other_holds) = (self.holds(&used, neighbours), self.holds(&other, neighbours));
        let both_hold = used_holds.to > at && other_holds.to > at;
        let is_of_cluster = |copy: &Numbered| copy.candidate.origin.is_of_cluster;
        let other_wins = match (is_of_cluster(&used), is_of_cluster(&other)) {
            (true, false) if both_hold => false,
            (false, true) if both_hold => true,
            _ => match other_holds.to.cmp(&used_holds.to) {
                std::cmp::Ordering::Greater => true,
                std::cmp::Ordering::Less => false,
                std::cmp::Ordering::Equal => compared.used_failed.is_some() && compared.other_failed.is_none(),
            },
        };
        let (used, left, used_holds, left_holds, left_failed) = if other_wins {
            (other, used, other_holds, used_holds, &compared.used_failed)
        } else {
            (used, other, used_holds, other_holds, &compared.other_failed)
        };
        let label = &used.candidate.label;
        let mut say = |level, kind, what: String| {
            let is_plain = left.candidate.codecs.is_empty() && kind == NoteKind::CopiesDiffer;
            let offset = is_plain.then_some(offset);
            notes.push(SetNote { offset, ..SetNote::new(kind, level, Some(&left.candidate.label), what) });
        };
        if let Some(error) = left_failed {
            say(NoteLevel::Problem, NoteKind::CopiesDiffer, format!("{error}; {label}, a complete copy, is used"));
        } else if at < used_holds.to {
            if left_holds.to > at {
                let what = format!(
                    "differs from {label} at {at}, where records of both hold: here up to {}, there up to {}; that one \
                     is used",
                    left_holds.to, used_holds.to
                );
                say(NoteLevel::Problem, NoteKind::CopiesDiffer, what);
            } else if self.was_written_past(&left, &used, offset) {
                let what = format!(
                    "differs from {label} at {at}, and its records hold only up to {}; those of {label} hold up to {}, \
                     and it is used",
                    left_holds.to, used_holds.to
                );
                say(NoteLevel::Problem, NoteKind::CopiesDiffer, what);
            } else {
                let what = format!("an earlier state of {label}, which is used: its WAL ends at {}", left_holds.to);
                say(NoteLevel::Note, NoteKind::Duplicate, what);
            }
        } else if at < used_holds.unproven_to.max(left_holds.unproven_to) {
            let what = format!(
                "differs from {label}, which is used, at {at}, inside a record that continues in a missing segment: \
                 which of the two is right is unknown"
            );
            say(NoteLevel::Problem, NoteKind::CopiesDiffer, what);
        }
        (used, both_hold)
    }

    /// How far the records of a copy hold, read with its neighbours: the first and the last record may reach into them.
    fn holds(&self, copy: &Numbered, neighbours: Neighbours<'_>) -> Holds {
        let start = copy.segment.start_lsn(self.common.segment_size).unwrap_or_default();
        let with_before = neighbours.before.and_then(|before| self.holds_from(Some(before), copy, neighbours.after));
        let alone = || self.holds_from(None, copy, neighbours.after);
        with_before.or_else(alone).unwrap_or(Holds { to: start, unproven_to: start })
    }

    /// `None` when WAL ends in the segment before.
    fn holds_from(&self, before: Option<&Numbered>, copy: &Numbered, after: Option<&Numbered>) -> Option<Holds> {
        let size = self.common.segment_size;
        let start = copy.segment.start_lsn(size)?;
        let limit = start.advanced_by(u64::from(size));
        let geometry = Geometry { wal_block_size: self.common.block_size, wal_segment_size: size, ..Geometry::USUAL };
        let options = ReaderOptions {
            limit: Some(limit),
            major: self.common.major,
            system_identifier: self.common.system_identifier,
            timelines: self.timelines.clone(),
            ..ReaderOptions::new(geometry)
        };
        let first = before.map_or(Some(start), |before| before.segment.start_lsn(size))?;
        let mut reader = WalReader::new(options, first).ok()?;
        let mut to = start;
        'files: for file in [before, Some(copy), after].into_iter().flatten() {
            let Ok(mut bytes) = self.open(file) else { break };
            let mut delivered = 0_u64;
            while let Ok(piece) = next_piece(&mut bytes) {
                let mut input = piece;
                if input.is_empty() {
                    break;
                }
                delivered = delivered.saturating_add(input.len() as u64);
                while let Some(event) = reader.next(&mut input) {
                    if let Event::Record(record) = event {
                        to = to.max(record.data_end_lsn);
                    }
                }
                if reader.is_stopped() {
                    break 'files;
                }
            }
            if delivered < u64::from(size) {
                break;
            }
        }
        if before.is_some() && reader.position() < start {
            return None;
        }
        let end = reader.finish();
        let goes_on =
            end.unfinished.is_some() && matches!(end.reason, EndReason::InputEnds | EndReason::CutShort { .. });
        Some(Holds { to, unproven_to: if goes_on { limit } else { to } })
    }

    /// True when `left` was written after `offset`, where it differs from `used`: what it has there is damage then, not a
    /// state from before.
    fn was_written_past(&self, left: &Numbered, used: &Numbered, offset: u64) -> bool {
        let block = u64::from(self.common.block_size).max(1);
        let page = offset.saturating_sub(offset.checked_rem(block).unwrap_or_default());
        let start = left.segment.start_lsn(self.common.segment_size).unwrap_or_default();
        let (mut in_page, mut is_written) = (Vec::new(), false);
        self.each_block(left, |at, bytes| {
            if at == page {
                in_page = bytes.to_vec();
            } else if at > page {
                let header = PageHeader::decode(start.advanced_by(at), bytes);
                is_written |= header.is_ok_and(|header| header.page_addr == start.advanced_by(at));
            }
            !is_written
        });
        if is_written {
            return true;
        }
        let after = usize::try_from(offset.saturating_sub(page)).unwrap_or(usize::MAX).saturating_add(8) & !7;
        self.each_block(used, |at, bytes| {
            if at == page {
                let windows = (after..in_page.len()).step_by(8).filter_map(|from| {
                    let range = from..from.checked_add(SAME_BYTES)?;
                    Some((in_page.get(range.clone())?, bytes.get(range)?))
                });
                is_written = windows.into_iter().any(|(one, two)| one == two && one.iter().any(|&byte| byte != 0));
            }
            at < page
        });
        is_written
    }

    /// Shows the pages of a copy with their offsets while `visit` wants more.
    fn each_block(&self, copy: &Numbered, mut visit: impl FnMut(u64, &[u8]) -> bool) {
        let Ok(mut bytes) = self.open(copy) else { return };
        let block = usize::try_from(self.common.block_size).unwrap_or(usize::MAX).max(1);
        let mut offset = 0_u64;
        while let Ok(piece) = next_piece(&mut bytes) {
            for page in piece.chunks(block) {
                if !visit(offset, page) {
                    return;
                }
                offset = offset.saturating_add(page.len() as u64);
            }
            if piece.is_empty() {
                return;
            }
        }
    }
}

/// True when two candidates are one and the same file: named twice, or reached by a link.
fn is_same_file(one: &StoredAt, other: &StoredAt) -> bool {
    match (one, other) {
        (
            StoredAt::File { path: one, links: one_links, offset: one_offset, .. },
            StoredAt::File { path: other, links: other_links, offset: other_offset, .. },
        ) => {
            let identity = |path, links| ReadFile::open(path, links).and_then(|file| file.identity()).ok();
            one_offset == other_offset
                && identity(one, *one_links).zip(identity(other, *other_links)).is_some_and(|(one, other)| one == other)
        }
        _ => false,
    }
}

/// The next bytes; none at the end, also at one that comes early. An error that says why the bytes cannot be had.
fn next_piece<'b>(bytes: &'b mut SegmentBytes<'_>) -> Result<&'b [u8], String> {
    match bytes.next_piece() {
        Ok(piece) => Ok(piece.unwrap_or_default()),
        Err(error) if error.is_short() || error.is_past_the_segment() => Ok(&[]),
        Err(error) => Err(error.to_string()),
    }
}
