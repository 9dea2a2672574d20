//! The images of a page, from the double write buffer and from WAL, with all that their content says about them.
//! Also here: the bytes of an image, read again where it was found.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::candidate::{Candidate, ImageSource};
use super::evidence::{NamedRecord, Objection, OpenQuestion};
use super::identity::{Identity, identity_of};
use super::survey::{Context, Disk};
use crate::analysis::changes::content::{Ahead, XidFacts, ahead_of_lsn};
use crate::analysis::changes::events::{BlockEvent, Touch};
use crate::analysis::changes::next_change::ChangePresence;
use crate::analysis::changes::sectors::SectorMarks;
use crate::analysis::dwb::format::HeldSlot;
use crate::analysis::dwb::slot_facts::WritePath;
use crate::analysis::dwb::slots::SlotRef;
use crate::analysis::pages::page_check::PageCondition;
use crate::analysis::start::replay::run_of;
use crate::analysis::wal::partial::ScanPlan;
use crate::analysis::wal::walk::walk_run;
use crate::cluster::donor::{Donor, DonorRead};
use crate::cluster::dwb_files::{DwbSet, SlotReadError};
use crate::cluster::open::AccessError;
use crate::cluster::page_source::{PageRead, PageSource};
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::dwb::CrcVerdict;
use crate::parsers::image::{ImageDecoder, ImageError, ready_page};
use crate::parsers::page::PageHeader;
use crate::parsers::wal::block::Keep;
use crate::types::{ForkNumber, Lsn, PageId};

/// Blocks with the same LSN that are named.
const MAX_NAMED_BLOCKS: usize = 4;

impl Context<'_> {
    pub(crate) fn dwb_candidates(
        &self,
        page: PageId,
        disk: &Disk,
        slots: &[SlotRef],
    ) -> (Vec<Candidate>, Option<usize>) {
        let mut candidates = Vec::new();
        // The slot of each candidate.
        let mut held: Vec<HeldSlot> = Vec::new();
        let mut all_read = true;
        let mut buf = Vec::new();
        for slot in slots {
            let Some(file) = self.case.dwb_set.files.get(slot.file) else { continue };
            let Some(read) = self.read_slot(slot, &mut buf) else {
                all_read = false;
                continue;
            };
            if read.image.len() != self.case.files.block_size {
                continue;
            }
            let header = PageHeader::decode(0, read.image).ok();
            let condition = PageCondition::of(read.image, page.fork, page.block, false);
            let flaws = condition.damage().map_or_else(Vec::new, |damage| damage.flaws().collect());
            let objection = (condition == PageCondition::Zeroed)
                .then_some(Objection::ImageAllZero)
                .or_else(|| not_a_map(page.fork, header.as_ref(), self.case.files.block_size))
                .or_else(|| self.other_kind(page, header.as_ref()));
            // Under its lock a page gets its checksum: an image without was not written by such a server.
            let is_unsigned = read.layout.copies_under_lock() && self.case.has_checksums && slot.path.is_none();
            let objection = objection.or_else(|| {
                let is_wrong = is_unsigned && !header.as_ref().is_some_and(PageHeader::is_new);
                is_wrong.then_some(Objection::ChecksumWrong)
            });
            let identity = identity_of(read.image, page.fork, page.block, self.record_at(page, slot.page_lsn));
            let mut open = Vec::new();
            // Under its lock a page is what its LSN says, and its own checksum says which block it is; only copies
            // without one need the look into their content.
            let is_locked = slot.path.is_some_and(WritePath::is_locked);
            let (objection, is_identified) = match &identity {
                Identity::Other(why) => (objection.or(Some(Objection::OtherBlock(*why))), false),
                Identity::Own => (objection, true),
                Identity::Silent => (objection, is_locked),
            };
            let ahead = match is_locked {
                true => None,
                false => self.ahead(page, read.image, slot.page_lsn, &mut open),
            };
            open.extend(self.mistakable(page, slot.page_lsn).filter(|_| !is_identified));
            if !(is_locked && slot.is_verified) {
                open.extend(self.other_fork(page, slot.page_lsn, header.as_ref()));
            }
            let marks = SectorMarks::of(read.image);
            let rejected = PageCondition::of(read.image, page.fork, page.block, self.case.has_checksums);
            held.push(HeldSlot {
                file: slot.file,
                index: slot.index,
                slot_lsn: slot.slot_lsn,
                slot_id: slot.slot_id,
                is_sound: !rejected.damage().is_some_and(|damage| damage.server_rejects),
            });
            candidates.push(Candidate {
                source: ImageSource::Dwb {
                    file: file.name.clone(),
                    file_index: slot.file,
                    slot_index: slot.index,
                    slot_id: slot.slot_id,
                    slot_lsn: slot.slot_lsn,
                    batch: self.case.dwb.staleness.verdict(slot.file, slot.index),
                    path: slot.path,
                    is_verified: slot.is_verified,
                    knowledge: file.directory.knowledge(),
                },
                page_lsn: slot.page_lsn,
                sectors_matching: marks.matching(&disk.marks),
                marks,
                flaws,
                ahead,
                objection,
                open,
            });
        }
        // Where one of its slots cannot be read, nobody knows which the server would take.
        let taken = self.case.dwb.staleness.server_choice(&held).filter(|_| all_read);
        (candidates, taken)
    }

    pub(crate) fn wal_candidates(&self, page: PageId, disk: &Disk) -> Vec<Candidate> {
        let Some(index) = self.interest.index_of(page) else { return Vec::new() };
        let events = self.history.events(index).iter();
        let images = events.filter_map(|event| match &event.touch {
            Touch::Image { marks, .. } => Some((event, marks.as_deref())),
            _ => None,
        });
        images
            .map(|(event, marks)| {
                let objection = marks.is_none().then_some(Objection::TooManyImages);
                let marks = marks.cloned().unwrap_or_else(|| SectorMarks::zero(0));
                Candidate {
                    source: ImageSource::Wal { record_lsn: event.start_lsn },
                    page_lsn: event.end_lsn,
                    sectors_matching: marks.matching(&disk.marks),
                    marks,
                    flaws: Vec::new(),
                    ahead: None,
                    objection,
                    open: Vec::new(),
                }
            })
            .collect()
    }

    /// The first transaction in a page that proves it to be ahead of its LSN.
    pub(crate) fn early_transaction(&self, page: PageId, bytes: &[u8], lsn: Lsn) -> Option<Ahead> {
        let index = self.interest.index_of(page)?;
        let next_at_redo = self.replay.next_xid.filter(|_| self.replay.can_begin)?;
        let facts = XidFacts { events: self.history.events(index), next_at_redo, newest: self.history.newest_xid };
        ahead_of_lsn(bytes, page.fork, lsn, &facts)
    }

    /// Whether an image that was copied without a lock is ahead of its LSN; what is unknown goes to `open`.
    pub(crate) fn ahead(&self, page: PageId, bytes: &[u8], lsn: Lsn, open: &mut Vec<OpenQuestion>) -> Option<Ahead> {
        if let Some(ahead) = self.early_transaction(page, bytes, lsn) {
            return Some(ahead);
        }
        let index = self.interest.index_of(page)?;
        let next = self.history.next_change(index, lsn)?;
        let at = next.start_lsn;
        match next.standing(bytes, page.fork, page.block) {
            ChangePresence::Absent => None,
            ChangePresence::Present => Some(Ahead::HoldsNextChange { lsn: at }),
            ChangePresence::Unclear => {
                open.push(OpenQuestion::MayHoldNextChange(NamedRecord { name: next.name(), lsn: at }));
                None
            }
        }
    }

    /// The record that the LSN of an image names, if WAL has it.
    pub(crate) fn record_at(&self, page: PageId, lsn: Lsn) -> Option<&BlockEvent> {
        let index = self.interest.index_of(page)?;
        self.history.events(index).iter().find(|event| event.end_lsn == lsn && event.touch != Touch::MapBits)
    }

    /// Says so when the record that an image's LSN names gave other blocks of the relation the same LSN.
    fn mistakable(&self, page: PageId, lsn: Lsn) -> Option<OpenQuestion> {
        let event = self.record_at(page, lsn).filter(|event| !event.partners.is_empty())?;
        let blocks = event.partners.iter().take(MAX_NAMED_BLOCKS).map(|(_, block)| *block).collect();
        Some(OpenQuestion::SameLsnAsBlocks { lsn: event.start_lsn, blocks })
    }

    /// Says so when the record that an image's LSN names changed a page of another fork or relation too, and the image may
    /// belong to that one: a copy without a lock can have the name of the page that took the buffer over, and some
    /// slots have no CRC that covers the name. Heap records also change maps, which have no line pointers.
    fn other_fork(&self, page: PageId, lsn: Lsn, header: Option<&PageHeader>) -> Option<OpenQuestion> {
        let event = self.record_at(page, lsn).filter(|event| event.has_other_fork)?;
        let has_items = header.is_some_and(|header| usize::from(header.lower) > PageHeader::SIZE);
        let is_distinct = event.record.is_heap() && (page.fork != ForkNumber::Main || has_items);
        (!is_distinct).then_some(OpenQuestion::SameLsnAsOtherFork { lsn: event.start_lsn })
    }

    /// Objection to an image whose special space is not that of the other pages of its fork.
    pub(crate) fn other_kind(&self, page: PageId, header: Option<&PageHeader>) -> Option<Objection> {
        let own = self.case.files.block_size.checked_sub(usize::from(header?.special))?;
        let expected = self.special_of(page)?;
        (own != expected).then_some(Objection::OtherSpecialSpace { own, expected })
    }

    /// Size of the special space of pages near `page`.
    fn special_of(&self, page: PageId) -> Option<usize> {
        if let Some(known) = self.specials.borrow().get(&(page.rel, page.fork)) {
            return *known;
        }
        let mut buf = vec![0; self.case.files.block_size];
        let near = [0, page.block.wrapping_sub(1), page.block.saturating_add(1), page.block.saturating_add(2)];
        let found = near.into_iter().filter(|block| *block != page.block).find_map(|block| {
            let other = PageId { block, ..page };
            let read = self.case.pages.read_page(other, &mut buf).map_err(|error| {
                self.unread.borrow_mut().skip_once(PageId { block, ..page }, error);
            });
            let whole = read == Ok(PageRead::Whole);
            let sound =
                whole && PageCondition::of(&buf, page.fork, block, self.case.has_checksums) == PageCondition::Sound;
            let header = PageHeader::decode(0, &buf).ok().filter(|_| sound)?;
            self.case.files.block_size.checked_sub(usize::from(header.special))
        });
        self.specials.borrow_mut().insert((page.rel, page.fork), found);
        found
    }
}

/// Objection to an image of a free space or visibility map that holds what no page of a map does. WAL does not show whose
/// content it is: a free space map is not logged.
pub(crate) fn not_a_map(fork: ForkNumber, header: Option<&PageHeader>, block_size: usize) -> Option<Objection> {
    let header = header.filter(|_| matches!(fork, ForkNumber::Fsm | ForkNumber::Vm))?;
    let is_bare = usize::from(header.lower) == PageHeader::SIZE
        && usize::from(header.upper) == block_size
        && usize::from(header.special) == block_size;
    (!is_bare).then_some(Objection::NotAMapPage)
}

/// Why an image could not be read again.
#[derive(Debug)]
pub enum FetchError {
    Slot(SlotReadError),
    SlotChanged {
        file: String,
        /// Index of the slot in the file.
        slot_index: u64,
    },
    Wal(WalReadError),
    NoRecord(Lsn),
    Image(ImageError),
    Donor(AccessError),
    NoPageInDonor {
        path: String,
    },
    NotBuilt,
}

#[derive(Clone, Copy)]
pub(crate) struct ImageFiles<'a> {
    pub dwb: &'a DwbSet,
    pub wal: Option<&'a WalSet>,
    pub donors: &'a [Donor],
    pub built: &'a BTreeMap<PageId, Vec<u8>>,
    /// Bytes of a page.
    pub block_size: usize,
}

impl std::error::Error for FetchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Slot(error) => error.source(),
            Self::Wal(error) => error.source(),
            Self::Image(error) => error.source(),
            Self::Donor(error) => error.source(),
            Self::SlotChanged { .. } | Self::NoRecord(_) | Self::NoPageInDonor { .. } | Self::NotBuilt => None,
        }
    }
}

impl From<SlotReadError> for FetchError {
    fn from(error: SlotReadError) -> Self {
        Self::Slot(error)
    }
}

impl From<WalReadError> for FetchError {
    fn from(error: WalReadError) -> Self {
        Self::Wal(error)
    }
}

impl From<ImageError> for FetchError {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

/// Where a version of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionOf {
    Disk,
    /// In the image with this index among the candidates.
    Image(usize),
    /// Nowhere: it was built as it was at this LSN.
    Then(Lsn),
}

/// The bytes of a page, as they are on disk or as an image has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageVersion {
    pub of: VersionOf,
    pub bytes: Vec<u8>,
}

/// Reads the bytes of an image of `page`: those of a slot or a donor as they stand there, those of WAL with the LSN that redo
/// sets and without checksum.
pub(crate) fn fetch_image(source: &ImageSource, page: PageId, files: &ImageFiles<'_>) -> Result<Vec<u8>, FetchError> {
    let &ImageFiles { dwb, wal, donors, built, block_size } = files;
    match source {
        ImageSource::Dwb { file: name, file_index, slot_index, .. } => {
            let changed = || FetchError::SlotChanged { file: name.clone(), slot_index: *slot_index };
            let file = dwb.files.get(*file_index).ok_or_else(changed)?;
            let mut buf = Vec::new();
            let slot = file.read_slot(*slot_index, &mut buf)?;
            let sound = slot.crc_verdict() != CrcVerdict::Bad && slot.header.page_id() == Some(page);
            if sound && slot.image.len() == block_size { Ok(slot.image.to_vec()) } else { Err(changed()) }
        }
        ImageSource::Donor { donor, path, .. } => {
            let gone = || FetchError::NoPageInDonor { path: path.clone() };
            match donors.get(*donor).ok_or_else(gone)?.read_page(page).map_err(FetchError::Donor)? {
                DonorRead::Page(bytes) => Ok(bytes),
                DonorRead::Gap(_) => Err(gone()),
            }
        }
        ImageSource::Rebuilt(_) => built.get(&page).cloned().ok_or(FetchError::NotBuilt),
        ImageSource::Wal { record_lsn } => {
            let set = wal.ok_or(FetchError::NoRecord(*record_lsn))?;
            let run = run_of(set, *record_lsn).ok_or(FetchError::NoRecord(*record_lsn))?;
            let plan = ScanPlan { start_lsn: *record_lsn, ..ScanPlan::totals() };
            let mut found = Err(FetchError::NoRecord(*record_lsn));
            let stretch = plan.stretch(set, &run, Keep::Blocks);
            walk_run(&stretch, false, &mut |_| ControlFlow::Continue(()), |record| {
                if record.start_lsn == *record_lsn {
                    let image =
                        record.blocks().find(|block| block.page_id() == Some(page)).and_then(|block| block.image);
                    if let Some(image) = image {
                        let mut bytes = vec![0; block_size];
                        found = ImageDecoder::new().restore(&image, &mut bytes).map_err(FetchError::from).map(|()| {
                            ready_page(&mut bytes, record.end_lsn, page.block, false);
                            bytes
                        });
                    }
                }
                ControlFlow::Break(())
            })?;
            found
        }
    }
}
