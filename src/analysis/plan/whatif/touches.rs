//! Touches: each block that a record refers to, and as little of it as replaying other settings needs.
//!
//! Segments are read by several threads. Each gives a list, which is bounded, and the lists are replayed in order.
//! Facts about a touched block take 8 bytes.

use rustc_hash::FxHashMap;

use crate::analysis::wal::cause::{always_images, initialises_before, never_images};
use crate::analysis::wal::hidden_redo::{heads_with_offsets, lsn_at_hand};
use crate::analysis::wal::segment::{Stretch, Visitor};
use crate::analysis::wal::tally::Tally;
use crate::parsers::decode::ParseError;
use crate::parsers::wal::block::BlockHead;
use crate::parsers::wal::lifecycle::{LifeCycle, record_time};
use crate::parsers::wal::names::{RM_SMGR, RM_XACT, RM_XLOG};
use crate::parsers::wal::payload::XlogPayload;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::RecordKind;
use crate::types::{BlockNumber, ForkNumber, Lsn, RelFileLocator};

/// Touches of one segment that are kept; with more, the segment is read again when it is its turn.
const MAX_TOUCHES: usize = if cfg!(test) { 200 } else { 150_000 };

/// Events of one segment that are kept.
const MAX_EVENTS: usize = if cfg!(test) { 20 } else { 100_000 };

/// Forks of one segment that are kept; a record names fewer than the rest of the numbers.
const MAX_FORKS: usize = 65_000;

/// Parts of a segment at whose borders a simulated redo point may lie.
const SLICES: u32 = 64;

/// Entries of the memory for blocks met of late; a power of two.
const RECENT: usize = 4096;

pub(crate) type ForkKey = (RelFileLocator, u8);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    /// Start of the record, from the start of the list.
    pub(crate) offset: u32,
    pub(crate) block: BlockNumber,
    /// Index in [`Touches::forks`].
    pub(crate) fork: u16,
    /// Bytes of the image that redo applies; 0: none.
    pub(crate) image_bytes: u16,
    /// Bytes of block data; of an image for hint bits, all the record's bytes but the image.
    pub(crate) data_bytes: u16,
    /// Index in [`Touches::kinds`].
    pub(crate) kind: u8,
    flags: u8,
}

const INIT: u8 = 1;
const HINT: u8 = 2;
const ALWAYS: u8 = 4;
const SURE: u8 = 8;
const BACKUP: u8 = 16;
const NEW_PAGE: u8 = 32;
const MARKS_VISIBLE: u8 = 64;
const NO_LSN: u8 = 128;

impl Touch {
    pub(crate) const fn has_image(&self) -> bool {
        self.image_bytes > 0
    }

    /// Redo builds the page without reading it.
    pub(crate) const fn is_init(&self) -> bool {
        self.flags & INIT != 0
    }

    /// An image of a page on which only hint bits changed.
    pub(crate) const fn is_hint(&self) -> bool {
        self.flags & HINT != 0
    }

    /// Its image is written whatever the LSN of the page.
    pub(crate) const fn is_always(&self) -> bool {
        self.flags & ALWAYS != 0
    }

    /// It is sure to set the LSN of the page.
    pub(crate) const fn is_sure(&self) -> bool {
        self.flags & SURE != 0
    }

    pub(crate) const fn in_backup(&self) -> bool {
        self.flags & BACKUP != 0
    }

    /// A page logged as a whole (`FPI`).
    pub(crate) const fn is_new_page(&self) -> bool {
        self.flags & NEW_PAGE != 0
    }

    /// Its page is known to have had no LSN, whatever changed it before.
    pub(crate) const fn had_no_lsn(&self) -> bool {
        self.flags & NO_LSN != 0
    }

    /// The page of a table that is marked as visible to all: its LSN is set exactly where hint bits are logged.
    pub(crate) const fn marks_visible(&self) -> bool {
        self.flags & MARKS_VISIBLE != 0
    }
}

/// What references of one kind of record, at one index, say about a block in addition to its image.
/// What a record is, and the index of a block in it.
pub(crate) type KindKey = (RecordKind, u8);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kind {
    /// Resource manager, type, and index of the reference.
    pub(crate) key: KindKey,
    /// References that have no image and do not build the page.
    pub(crate) count: u64,
    pub(crate) data_bytes: u64,
}

/// Facts from records in addition to touches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The clock of the server, in microseconds.
    Time(i64),
    Redo,
    Checkpoint {
        redo_lsn: Lsn,
        is_shutdown: bool,
    },
    Truncated {
        rel: RelFileLocator,
        keeps_blocks: BlockNumber,
    },
}

/// The touches of a stretch of WAL, in order.
#[derive(Debug, Default)]
pub(crate) struct Touches {
    /// Base of offsets.
    pub(crate) base: Lsn,
    pub(crate) touches: Vec<Touch>,
    /// Events with their offsets.
    pub(crate) events: Vec<(u32, Event)>,
    pub(crate) forks: Vec<ForkKey>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) tally: Tally,
    /// Records whose payload is not that of their type.
    pub(crate) undecoded: Option<ParseError>,
}

/// What is done with a list that is full.
pub(crate) trait Full {
    /// Takes a full list; the next one follows it. `false`: nothing further is kept.
    fn full(&mut self, list: &Touches) -> bool;
}

/// Keeps nothing of a segment that has too much.
#[derive(Debug, Default)]
pub(crate) struct GiveUp;

impl Full for GiveUp {
    fn full(&mut self, _list: &Touches) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) struct TouchList<F> {
    pub(crate) list: Touches,
    /// Too much was met: the list is not whole.
    pub(crate) is_incomplete: bool,
    fork_indexes: FxHashMap<ForkKey, u16>,
    last_fork: Option<(ForkKey, u16)>,
    kind_indexes: FxHashMap<KindKey, u8>,
    last_kind: Option<(KindKey, u8)>,
    /// Blocks whose further touches in this slice say nothing new, with whether the touch that was kept is sure.
    recent: Box<[u64]>,
    slice_bytes: u64,
    slice: u64,
    last_time: Option<i64>,
    full: F,
}

/// Bytes between the LSNs at which a simulated redo point may lie.
pub(crate) const fn slice_bytes(segment_size: u32) -> u64 {
    (segment_size / SLICES) as u64
}

/// Whether a time says more than one told before: a second later, or long before it, when one of the two is wrong.
const fn is_news(last: i64, time: i64) -> bool {
    const SECOND_US: i64 = 1_000_000;
    const DAY_US: i64 = 86_400 * SECOND_US;
    let passed = time.saturating_sub(last);
    passed >= SECOND_US || passed <= DAY_US.saturating_neg()
}

impl<F: Full> TouchList<F> {
    pub(crate) fn new(base: Lsn, segment_size: u32, full: F) -> Self {
        Self {
            list: Touches { base, ..Touches::default() },
            is_incomplete: false,
            fork_indexes: FxHashMap::default(),
            last_fork: None,
            kind_indexes: FxHashMap::default(),
            last_kind: None,
            recent: vec![0; RECENT].into_boxed_slice(),
            slice_bytes: slice_bytes(segment_size).max(1),
            slice: 0,
            last_time: None,
            full,
        }
    }

    /// For segment `index` of a stretch.
    pub(crate) fn of_segment(stretch: &Stretch<'_>, index: usize, full: F) -> Self {
        let start_lsn = stretch.set.segments()[index].start_lsn.max(stretch.start_lsn);
        Self::new(start_lsn, stretch.set.geometry().wal_segment_size, full)
    }

    /// The list, and what it is handed to when it is full.
    pub(crate) fn into_parts(self) -> (Touches, F) {
        (self.list, self.full)
    }

    fn offset(&self, record: &Record<'_>) -> u32 {
        u32::try_from(record.start_lsn.bytes_since(self.list.base).unwrap_or(0)).unwrap_or(u32::MAX)
    }

    fn event(&mut self, offset: u32, event: Event) {
        self.list.events.push((offset, event));
        // A setting may start again at this point, so later changes count again.
        self.recent.fill(0);
    }

    /// Notes what other records than changes of pages say.
    #[inline(never)]
    fn note(&mut self, record: &Record<'_>) {
        let offset = self.offset(record);
        if let Some(time) = record_time(record).map(|time| time.0)
            && self.last_time.is_none_or(|last| is_news(last, time))
        {
            self.last_time = Some(time);
            self.event(offset, Event::Time(time));
        }
        let noted = match record.header.rmgr_id {
            RM_XLOG => XlogPayload::of(record).map(|payload| self.note_xlog(offset, payload)),
            RM_SMGR => LifeCycle::of(record).map(|change| {
                if let Some(LifeCycle::Truncated { rel, keeps_blocks, flags }) = change
                    && LifeCycle::cuts(flags, ForkNumber::Main)
                {
                    self.event(offset, Event::Truncated { rel, keeps_blocks });
                }
            }),
            _ => Ok(()),
        };
        if let Err(error) = noted {
            self.list.undecoded.get_or_insert(error);
        }
    }

    fn note_xlog(&mut self, offset: u32, payload: Option<XlogPayload>) {
        let (checkpoint, is_shutdown) = match payload {
            Some(XlogPayload::CheckpointRedo { .. }) => return self.event(offset, Event::Redo),
            Some(XlogPayload::CheckpointShutdown(checkpoint)) => (checkpoint, true),
            Some(XlogPayload::CheckpointOnline(checkpoint)) => (checkpoint, false),
            _ => return,
        };
        self.event(offset, Event::Checkpoint { redo_lsn: checkpoint.redo_lsn, is_shutdown });
    }

    fn kind(&mut self, key: KindKey) -> u8 {
        if let Some((last, index)) = self.last_kind
            && last == key
        {
            return index;
        }
        let next = u8::try_from(self.list.kinds.len()).unwrap_or(u8::MAX);
        let index = *self.kind_indexes.entry(key).or_insert(next);
        // More kinds than can be counted share the last index.
        if usize::from(index) == self.list.kinds.len() {
            self.list.kinds.push(Kind { key, ..Kind::default() });
        }
        self.last_kind = Some((key, index));
        index
    }

    fn fork(&mut self, key: ForkKey) -> u16 {
        if let Some((last, index)) = self.last_fork
            && last == key
        {
            return index;
        }
        let next = u16::try_from(self.list.forks.len()).unwrap_or(u16::MAX);
        let index = *self.fork_indexes.entry(key).or_insert(next);
        if index == next {
            self.list.forks.push(key);
        }
        self.last_fork = Some((key, index));
        index
    }

    /// Hands a full list over and begins the next.
    fn hand_over(&mut self) {
        self.is_incomplete = !self.full.full(&self.list);
        let undecoded = self.list.undecoded.take();
        self.list = Touches { base: self.list.base, undecoded, ..Touches::default() };
        self.fork_indexes.clear();
        self.kind_indexes.clear();
        (self.last_fork, self.last_kind) = (None, None);
        self.recent.fill(0);
    }

    /// Keeps the touches of a record with images.
    #[inline(never)]
    fn touch_with_images(&mut self, record: &Record<'_>) {
        let kind = record.kind();
        for (block_id, head, offset) in heads_with_offsets(record) {
            let no_lsn = head.image.is_some()
                && (initialises_before(kind, block_id)
                    || lsn_at_hand(record, &head, offset).is_some_and(|lsn| !lsn.is_valid()));
            self.touch(record, block_id, &head, no_lsn);
        }
    }

    /// Keeps a touch, unless one of the same block in the same slice says as much.
    #[inline(always)]
    fn touch(&mut self, record: &Record<'_>, block_id: u8, head: &BlockHead, no_lsn: bool) {
        let image_bytes = match head.image {
            Some(image) if head.has_image_to_apply(record.major) => image.length,
            _ => 0,
        };
        let flags = flags_of(record, block_id, head, image_bytes > 0) | if no_lsn { NO_LSN } else { 0 };
        let kind = self.kind((record.kind(), block_id));
        let is_plain = image_bytes == 0 && flags & INIT == 0;
        if is_plain && let Some(kind) = self.list.kinds.get_mut(usize::from(kind)) {
            kind.count = kind.count.saturating_add(1);
            kind.data_bytes = kind.data_bytes.saturating_add(u64::from(head.data_length));
        }
        let fork = self.fork((head.rel, head.fork_code()));
        let is_sure = flags & SURE != 0;
        const KNOWN: u64 = 1 << 62;
        const KNOWN_SURE: u64 = 1 << 63;
        const SPREAD: u32 = 0x9E37_79B1;
        let mixed = (u32::from(fork).rotate_left(20) ^ head.block).wrapping_mul(SPREAD);
        let at = usize::try_from(mixed >> u32::BITS.saturating_sub(RECENT.ilog2())).unwrap_or(0);
        let block = KNOWN | u64::from(fork) << 32 | u64::from(head.block);
        if let Some(known) = self.recent.get_mut(at) {
            if is_plain && (*known == block | KNOWN_SURE || (*known == block && !is_sure)) {
                return;
            }
            // Whether a page changes after its hint bits is wanted to be known.
            *known = match (flags & HINT != 0, is_sure) {
                (true, _) => 0,
                (false, true) => block | KNOWN_SURE,
                (false, false) => block,
            };
        }
        let data_bytes = if flags & HINT != 0 {
            u16::try_from(record.header.tot_len.saturating_sub(u32::from(image_bytes))).unwrap_or(u16::MAX)
        } else {
            head.data_length
        };
        let offset = self.offset(record);
        self.list.touches.push(Touch { offset, block: head.block, fork, image_bytes, data_bytes, kind, flags });
    }
}

/// All about a reference that one bit says.
#[inline(always)]
fn flags_of(record: &Record<'_>, block_id: u8, head: &BlockHead, has_image: bool) -> u8 {
    let of = record.record_type();
    let is_visible = of.kind == RecordKind::Heap2Visible;
    let fork = head.fork();
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    let changes =
        || !never_images(of.kind, block_id) && fork.is_some_and(|fork| of.surely_sets_lsn(record.major, fork));
    let sets_lsn = has_image || head.will_init() || changes() || (is_visible && fork == Some(ForkNumber::Vm));
    bit(head.will_init(), INIT)
        | bit(of.kind.is_hint(), HINT)
        | bit(has_image && always_images(of.kind, block_id), ALWAYS)
        | bit(sets_lsn, SURE)
        | bit(record.during_backup() == Some(true), BACKUP)
        | bit(of.kind == RecordKind::XlogFpi, NEW_PAGE)
        | bit(is_visible && fork == Some(ForkNumber::Main), MARKS_VISIBLE)
}

impl<F: Full> Visitor for TouchList<F> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.list.tally.add_record(record);
        if self.is_incomplete {
            return;
        }
        let rmgr_id = record.header.rmgr_id;
        let is_images = record.header.is_images();
        if matches!(rmgr_id, RM_XLOG | RM_XACT | RM_SMGR) && !is_images {
            // A copy, so that other records need not be in memory as a whole.
            self.note(&{ *record });
        }
        if record.layout.block_count > 0 {
            let slice = record.start_lsn.0.checked_div(self.slice_bytes).unwrap_or_default();
            if slice != self.slice {
                self.slice = slice;
                self.recent.fill(0);
            }
            if record.layout.image_count > 0 {
                self.touch_with_images(&{ *record });
            } else {
                for (block_id, head) in record.block_heads() {
                    self.touch(record, block_id, &head, false);
                }
            }
        }
        let list = &self.list;
        if list.touches.len() > MAX_TOUCHES || list.events.len() > MAX_EVENTS || list.forks.len() > MAX_FORKS {
            self.hand_over();
        }
    }
}

/// Bits of an LSN that are always 0: records start at multiples of 8.
const ALIGNED_BITS: u32 = 3;
/// Bits that an LSN takes: enough for the first 128 TiB of WAL.
const LSN_BITS: u32 = 44;
const LSN_MASK: u64 = (1 << LSN_BITS) - 1;
/// Bits that the bytes of an image take.
const IMAGE_MASK: u64 = (1 << 16) - 1;
const MAYBE: u64 = 1 << 60;
const WHOLE: u64 = 1 << 61;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockState(u64);

impl BlockState {
    /// Start of the last record that is sure to have set the page's LSN.
    pub(crate) const fn touched_at(self) -> Option<Lsn> {
        match self.0 & LSN_MASK {
            0 => None,
            lsn => Some(Lsn(lsn << ALIGNED_BITS)),
        }
    }

    /// A record after that may have set the LSN too.
    pub(crate) const fn maybe_later(self) -> bool {
        self.0 & MAYBE != 0
    }

    /// Bytes of an image for hint bits, after which nothing else is known to have changed the page.
    pub(crate) fn hint_bytes(self) -> Option<u64> {
        Some(self.0 >> LSN_BITS & IMAGE_MASK).filter(|bytes| *bytes > 0)
    }

    /// A record at `lsn` is sure to have set the page's LSN.
    pub(crate) const fn touched(lsn: Lsn) -> Self {
        let lsn = lsn.0 >> ALIGNED_BITS;
        Self(if lsn > LSN_MASK { LSN_MASK } else { lsn })
    }

    /// So many bytes of image were written for hint bits.
    pub(crate) fn with_hint(self, bytes: u16) -> Self {
        Self(self.0 | u64::from(bytes) << LSN_BITS)
    }

    /// It was changed by nothing but records that log it as a whole, since the redo point before the last of them.
    pub(crate) const fn is_logged_whole(self) -> bool {
        self.0 & WHOLE != 0
    }

    pub(crate) const fn logged_whole(self) -> Self {
        Self(self.0 | WHOLE)
    }

    /// A record may have set the page's LSN.
    pub(crate) const fn maybe_touched(self) -> Self {
        Self(self.0 | MAYBE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_keeps_what_it_is_told() {
        let none = BlockState::default();
        assert_eq!((none.touched_at(), none.hint_bytes(), none.maybe_later()), (None, None, false));
        let state = BlockState::touched(Lsn(0x7FFF_FFFF_FFF8)).with_hint(32_768);
        assert_eq!((state.touched_at(), state.hint_bytes()), (Some(Lsn(0x7FFF_FFFF_FFF8)), Some(32_768)));
        let maybe = state.maybe_touched();
        assert!(maybe.maybe_later() && maybe.touched_at() == state.touched_at());
        assert_eq!(none.maybe_touched().touched_at(), None);
        let whole = maybe.logged_whole();
        assert!(whole.is_logged_whole() && !maybe.is_logged_whole() && whole.maybe_later());
        assert_eq!((whole.touched_at(), whole.hint_bytes()), (state.touched_at(), state.hint_bytes()));
    }
}
