//! Facts about one slot.

use std::ops::ControlFlow;

use crate::analysis::in_order::in_order;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::cluster::innodb::doublewrite::{Doublewrite, MAX_SLOTS};
use crate::cluster::innodb::tablespace::Tablespaces;
use crate::parsers::decode::be_u32_at;
use crate::parsers::innodb::compressed::{FullCrc32Size, unpack_full_crc32};
use crate::parsers::innodb::flags::SpaceFlags;
use crate::parsers::innodb::layout::SlotPart;
use crate::parsers::innodb::page_check::{PageHeader, PageState, PageType};
use crate::parsers::innodb::{InnodbLsn, InnodbPageId, MIN_PAGE_BYTES, stable_names};

/// Which slot: index of the file in the buffer, index of the slot in the file.
pub(crate) type SlotId = (usize, u64);

/// How an image stands to the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SlotAge {
    /// Not older: written since, so that recovery may need it.
    Current,
    /// Older: its page was safely in the data files at the checkpoint.
    Stale,
    /// The image is damaged, or the checkpoint is unknown.
    Undecided,
}

stable_names!(SlotAge);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotFacts {
    pub slot: SlotId,
    pub part: SlotPart,
    /// Tablespace that it names; `None` where that is inside a compressed page that cannot be unpacked.
    pub space_id: Option<u32>,
    /// The space id stands at its usual place: inside a compressed page with `full_crc32` it does not, and the server does
    /// not find it.
    pub has_plain_id: bool,
    pub page_no: u32,
    pub page_type: PageType,
    pub lsn: InnodbLsn,
    pub state: PageState,
    /// Bytes of the image, those after it in the slot left out.
    pub length: usize,
}

impl SlotFacts {
    pub fn page(&self) -> Option<InnodbPageId> {
        self.space_id.map(|space_id| InnodbPageId { space_id, page_no: self.page_no })
    }

    pub fn age(&self, checkpoint: Option<InnodbLsn>) -> SlotAge {
        match checkpoint {
            Some(checkpoint) if self.state.is_sound() && self.lsn >= checkpoint => SlotAge::Current,
            Some(_) if self.state.is_sound() => SlotAge::Stale,
            _ => SlotAge::Undecided,
        }
    }

    /// True for an image whose tablespace stands in what is encrypted. That of a compressed one may be inside of either.
    pub const fn is_encrypted(&self) -> bool {
        self.space_id.is_none() && self.page_type.0 & PageType::FULL_CRC32_COMPRESSED == 0
    }

    /// Judges the bytes of a slot; `None` when it was never written. An image names itself, and how to read it is known from its
    /// tablespace.
    pub fn of(slot: SlotId, part: SlotPart, bytes: &[u8], spaces: &Tablespaces) -> Option<Self> {
        if crate::parsers::page::is_all_zero(bytes) {
            return None;
        }
        let PageHeader { page_no, page_type, lsn, space_id } = PageHeader::of(bytes)?;
        let hidden = |space_id, state| {
            let length = bytes.len();
            Some(Self { slot, part, space_id, has_plain_id: false, page_no, page_type, lsn, state, length })
        };
        let has_full_crc32 = spaces.has_full_crc32();
        let full = SpaceFlags::full_crc32(bytes.len());
        if has_full_crc32 && page_type.0 & PageType::FULL_CRC32_COMPRESSED != 0 {
            let state = PageState::of(bytes, &full);
            let inner = match FullCrc32Size::of(bytes) {
                FullCrc32Size::Compressed(length) if state.is_sound() => unpack_full_crc32(bytes, length).ok(),
                _ => None,
            };
            return hidden(inner.and_then(|plain| PageHeader::of(&plain)).map(|inner| inner.space_id), state);
        }
        // The version of the key comes first, and everything after the type of the page is encrypted.
        if has_full_crc32 && be_u32_at(bytes, 0).is_some_and(|key_version| key_version != 0) {
            let state = PageState::of(bytes, &full);
            if state.is_sound() {
                return hidden(None, state);
            }
        }
        let made = |state, length| {
            let space_id = Some(space_id);
            Some(Self { slot, part, space_id, has_plain_id: true, page_no, page_type, lsn, state, length })
        };
        if let Some(space) = spaces.get(space_id) {
            let length = space.flags.physical_bytes().min(bytes.len());
            let image = bytes.get(..length).unwrap_or(bytes);
            return made(PageState::of_image(image, &space.flags, true), length);
        }
        // A tablespace that was dropped: any form that fits is believed.
        let plain = PageState::of_image(bytes, &SpaceFlags::plain(bytes.len()), true);
        if plain.is_sound() {
            return made(plain, bytes.len());
        }
        let full = PageState::of_image(bytes, &full, true);
        if has_full_crc32 && full.is_sound() {
            return made(full, bytes.len());
        }
        let mut length = MIN_PAGE_BYTES;
        while length < bytes.len() {
            let state = bytes.get(..length).map(PageState::of_zip);
            if let Some(state) = state.filter(|state| state.is_sound()) {
                return made(state, length);
            }
            length = length.saturating_mul(2);
        }
        made(plain, bytes.len())
    }
}

/// Reads every slot of every file in order, with so many threads, and shows each that is used: `visit` gets its bytes too.
/// Counts those that were never written.
pub(crate) fn read_slots(
    doublewrite: &Doublewrite,
    spaces: &Tablespaces,
    jobs: usize,
    coverage: &mut Coverage,
    mut visit: impl FnMut(Option<SlotFacts>, SlotId) -> ControlFlow<()>,
) {
    for (number, file) in doublewrite.files.iter().enumerate() {
        let worker = || {
            let mut buf = Vec::new();
            move |index: u64| {
                if file.is_hole(index) {
                    return (index, Ok(Some(None)));
                }
                let facts = |bytes| SlotFacts::of((number, index), file.part_of(index), bytes, spaces);
                (index, file.slot(index, &mut buf).map(|bytes| bytes.map(facts)))
            }
        };
        let mut stopped = false;
        in_order(0..file.slots, (0..jobs.max(1)).map(|_| worker()).collect(), |(index, facts)| {
            let missing_slots = file.slots.saturating_sub(index);
            let short = SkipReason::CutShort { size_bytes: file.size_bytes(), missing_slots };
            let facts = match facts.map_err(SkipReason::from).and_then(|facts| facts.ok_or(short)) {
                Ok(facts) => facts,
                Err(reason) => {
                    coverage.skip(SkippedPart::file(&file.name), reason);
                    return ControlFlow::Break(());
                }
            };
            coverage.examined = coverage.examined.saturating_add(1);
            let flow = visit(facts, (number, index));
            stopped = flow.is_break();
            flow
        });
        if stopped {
            return;
        }
        if file.further_slots > 0 {
            let reason = SkipReason::TooManySlots { excess: file.further_slots, max: MAX_SLOTS };
            coverage.skip(SkippedPart::file(&file.name), reason);
        }
    }
    for error in &doublewrite.skipped {
        coverage.skip(SkippedPart::DoubleWriteBuffer, error);
    }
}
