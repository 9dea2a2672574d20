//! The images of a page, from the double write buffer and from WAL, with all that their content says about them.

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
use crate::cluster::page_source::PageRead;
use crate::parsers::page::PageHeader;
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
            let Some(file) = self.dwb.files.get(slot.file) else { continue };
            let Some(read) = self.read_slot(slot, &mut buf) else {
                all_read = false;
                continue;
            };
            if read.image.len() != self.block_size {
                continue;
            }
            let header = PageHeader::decode(0, read.image).ok();
            let condition = PageCondition::of(read.image, page.fork, page.block, false);
            let flaws = condition.damage().map_or_else(Vec::new, |damage| damage.flaws().collect());
            let objection = (condition == PageCondition::Zeroed)
                .then_some(Objection::ImageAllZero)
                .or_else(|| not_a_map(page.fork, header.as_ref(), self.block_size))
                .or_else(|| self.other_kind(page, header.as_ref()));
            // Under its lock a page gets its checksum: an image without was not written by such a server.
            let is_unsigned = read.layout.copies_under_lock() && self.checksums && slot.path.is_none();
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
            let rejected = PageCondition::of(read.image, page.fork, page.block, self.checksums);
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
                    batch: self.staleness.verdict(slot.file, slot.index),
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
        let taken = self.staleness.server_choice(&held).filter(|_| all_read);
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
        let own = self.block_size.checked_sub(usize::from(header?.special))?;
        let expected = self.special_of(page)?;
        (own != expected).then_some(Objection::OtherSpecialSpace { own, expected })
    }

    /// Size of the special space of pages near `page`.
    fn special_of(&self, page: PageId) -> Option<usize> {
        if let Some(known) = self.specials.borrow().get(&(page.rel, page.fork)) {
            return *known;
        }
        let mut buf = vec![0; self.block_size];
        let near = [0, page.block.wrapping_sub(1), page.block.saturating_add(1), page.block.saturating_add(2)];
        let found = near.into_iter().filter(|block| *block != page.block).find_map(|block| {
            let other = PageId { block, ..page };
            let read = self.pages.read_page(other, &mut buf).map_err(|error| {
                self.unread.borrow_mut().skip_once(PageId { block, ..page }, error);
            });
            let whole = read == Ok(PageRead::Whole);
            let sound = whole && PageCondition::of(&buf, page.fork, block, self.checksums) == PageCondition::Sound;
            let header = PageHeader::decode(0, &buf).ok().filter(|_| sound)?;
            self.block_size.checked_sub(usize::from(header.special))
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
