//! What can be said of one slot.

use std::ops::ControlFlow;

use crate::analysis::finding::Coverage;
use crate::analysis::in_order::in_order;
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::cluster::innodb::doublewrite::{Doublewrite, MAX_SLOTS};
use crate::cluster::innodb::tablespace::Tablespaces;
use crate::parsers::decode::be_u32_at;
use crate::parsers::innodb::compressed::{FullCrc32Size, unpack_full_crc32};
use crate::parsers::innodb::flags::SpaceFlags;
use crate::parsers::innodb::layout::SlotPart;
use crate::parsers::innodb::page::{PageHeader, PageType};
use crate::parsers::innodb::page_check::PageState;
use crate::parsers::innodb::{InnodbLsn, InnodbPageId, MIN_PAGE_BYTES};

/// Which slot: index of the file in the buffer, index of the slot in the file.
pub type SlotId = (usize, u64);

/// A slot that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotFacts {
    /// Which slot.
    pub slot: SlotId,
    /// Offset in its file.
    pub offset: u64,
    /// Which part of the file it is in.
    pub part: SlotPart,
    /// Tablespace that it names; `None` where that is inside a compressed page that cannot be unpacked.
    pub space_id: Option<u32>,
    /// The space id stands at its usual place: inside a compressed page with `full_crc32` it does not, and the server does
    /// not find it.
    pub has_plain_id: bool,
    /// Page that it names.
    pub page_no: u32,
    /// Kind of page.
    pub page_type: PageType,
    /// LSN of the image.
    pub lsn: InnodbLsn,
    /// Whether the image is whole.
    pub state: PageState,
    /// Bytes of the image, those after it in the slot left out.
    pub length: usize,
}

impl SlotFacts {
    /// The page that the slot names.
    #[must_use]
    pub fn page(&self) -> Option<InnodbPageId> {
        self.space_id.map(|space_id| InnodbPageId { space_id, page_no: self.page_no })
    }

    /// True for an image whose tablespace stands in what is encrypted. That of a compressed one may be inside of either.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.space_id.is_none() && self.page_type.0 & PageType::FULL_CRC32_COMPRESSED == 0
    }

    /// Judges the bytes of a slot; `None` when it was never written.
    #[must_use]
    pub fn of(slot: SlotId, offset: u64, part: SlotPart, bytes: &[u8], spaces: &Tablespaces) -> Option<Self> {
        if crate::parsers::page::is_all_zero(bytes) {
            return None;
        }
        let header = PageHeader::of(bytes)?;
        let named = Named::of(bytes, &header, spaces);
        Some(Self {
            slot,
            offset,
            part,
            space_id: named.space_id,
            has_plain_id: named.has_plain_id,
            page_no: header.page_no,
            page_type: header.page_type,
            lsn: header.lsn,
            state: named.state,
            length: named.length,
        })
    }
}

/// What an image is of. It names itself, and how to read it is known from its tablespace.
struct Named {
    space_id: Option<u32>,
    has_plain_id: bool,
    state: PageState,
    length: usize,
}

impl Named {
    fn of(bytes: &[u8], header: &PageHeader, spaces: &Tablespaces) -> Self {
        let has_full_crc32 = spaces.has_full_crc32();
        let full = SpaceFlags::full_crc32(bytes.len());
        let is_marked = header.page_type.0 & PageType::FULL_CRC32_COMPRESSED != 0;
        if has_full_crc32 && is_marked {
            let state = PageState::of(bytes, &full);
            let inner = match FullCrc32Size::of(bytes) {
                FullCrc32Size::Compressed(length) if state.is_sound() => unpack_full_crc32(bytes, length).ok(),
                _ => None,
            };
            let inner = inner.and_then(|plain| PageHeader::of(&plain));
            let space_id = inner.map(|inner| inner.space_id);
            return Self { space_id, has_plain_id: false, state, length: bytes.len() };
        }
        // The version of the key comes first, and everything after the type of the page is encrypted.
        if has_full_crc32 && be_u32_at(bytes, 0).is_some_and(|key_version| key_version != 0) {
            let state = PageState::of(bytes, &full);
            if state.is_sound() {
                return Self { space_id: None, has_plain_id: false, state, length: bytes.len() };
            }
        }
        let space_id = Some(header.space_id);
        let made = |state, length| Self { space_id, has_plain_id: true, state, length };
        if let Some(space) = spaces.get(header.space_id) {
            let length = space.flags.physical_bytes().min(bytes.len());
            let image = bytes.get(..length).unwrap_or(bytes);
            return made(PageState::of_image(image, &space.flags, true), length);
        }
        // A tablespace that was dropped: any form that fits is believed.
        let forms = [Some(SpaceFlags::plain(bytes.len())), has_full_crc32.then_some(full)];
        let fitting = |flags: &SpaceFlags| PageState::of_image(bytes, flags, true).is_sound();
        if let Some(flags) = forms.into_iter().flatten().find(fitting) {
            return made(PageState::of_image(bytes, &flags, true), bytes.len());
        }
        let mut length = MIN_PAGE_BYTES;
        while length < bytes.len() {
            let state = bytes.get(..length).map(PageState::of_zip);
            if let Some(state) = state.filter(|state| state.is_sound()) {
                return made(state, length);
            }
            length = length.saturating_mul(2);
        }
        made(PageState::of_image(bytes, &SpaceFlags::plain(bytes.len()), true), bytes.len())
    }
}

/// Reads every slot of every file in order, with so many threads, and shows each that is used: `visit` gets its bytes too.
/// Counts those that were never written.
pub fn read_slots(
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
                let facts = file.slot(index, &mut buf).map(|bytes| {
                    let offset = file.offset_of(index).unwrap_or_default();
                    let facts = |bytes| SlotFacts::of((number, index), offset, file.part_of(index), bytes, spaces);
                    bytes.map(facts)
                });
                (index, facts)
            }
        };
        let mut stopped = false;
        in_order(0..file.slots, (0..jobs.max(1)).map(|_| worker()).collect(), |(index, facts)| {
            let facts = match facts {
                Ok(Some(facts)) => facts,
                Ok(None) => {
                    let missing = file.slots.saturating_sub(index);
                    coverage.skip(
                        SkippedPart::file(&file.name),
                        SkipReason::CutShort { size_bytes: file.size_bytes(), missing_slots: missing },
                    );
                    return ControlFlow::Break(());
                }
                Err(error) => {
                    coverage.skip(SkippedPart::file(&file.name), error);
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
