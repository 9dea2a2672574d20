//! Pages that fail their checks, and their images in the doublewrite buffer. Startup of the server is not predicted.

use std::collections::BTreeSet;
use std::path::Path;

use super::candidates::BufferContent;
use super::compare::{InnodbComparison, compare};
use super::scan::{FoundPage, ScanReport};
use super::slot::{SlotFacts, SlotId};
use crate::analysis::finding::Coverage;
use crate::analysis::skipped::SkippedPart;
use crate::analysis::verdict::sectors::{MapImage, SectorMarks, TearMap, map_tear};
use crate::cluster::innodb::doublewrite::{Doublewrite, DoublewriteLayout};
use crate::cluster::innodb::redo_end::RedoEnd;
use crate::cluster::innodb::redo_log::Family;
use crate::cluster::innodb::tablespace::{PageReader, Tablespace, Tablespaces};
use crate::parsers::innodb::checksum::Algorithm;
use crate::parsers::innodb::layout::TRX_SYSTEM_PAGE;
use crate::parsers::innodb::page::PageHeader;
use crate::parsers::innodb::page_check::{PageState, Unverifiable};
use crate::parsers::innodb::{InnodbLsn, InnodbPageId};
use crate::types::Lsn;

/// Images that the sectors of a torn page are compared with, the newest ones.
const MAX_MAPPED: usize = 32;

/// What the doublewrite buffer holds of a page, by the LSN in the header of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum HeldImage {
    /// Unknown: the buffer was not found, not all of it was read, or an image does not show its tablespace.
    Unknown,
    /// Nothing.
    #[strum(serialize = "no_image")]
    Missing,
    /// Images that fail their checks, or that cannot be tested here.
    Unreadable,
    /// An encrypted image of a page with this number. Its tablespace is encrypted, too.
    Encrypted,
    /// An older image.
    Older,
    /// An image with the same LSN.
    Same,
    /// A newer image.
    Newer,
}

impl HeldImage {
    /// Stable name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A slot that names a page, and how the page stands to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnodbCandidate {
    /// The slot.
    pub facts: SlotFacts,
    /// How the page on disk stands to it.
    pub comparison: InnodbComparison,
    /// It is not older than the checkpoint; `None` when that is unknown.
    pub since_checkpoint: Option<bool>,
}

/// A page and its images.
#[derive(Clone, Debug)]
pub struct InnodbPage {
    /// Which page.
    pub page: InnodbPageId,
    /// Index of its tablespace.
    pub space: usize,
    /// File, relative to the data directory.
    pub path: String,
    /// Offset in the file.
    pub offset: u64,
    /// What the page's own bytes say.
    pub state: PageState,
    /// The page against its images: the word of the image that is chosen, else of the newest one.
    pub disk: InnodbComparison,
    /// LSN in the header of the page.
    pub disk_lsn: InnodbLsn,
    /// Slots that name it, whole or not, in the order in which a server meets them.
    pub candidates: Vec<InnodbCandidate>,
    /// LSNs of entries without an image that name it.
    pub entries: Vec<InnodbLsn>,
    /// The slot that the server takes by the order of its own search, if it uses an image at all.
    pub taken: Option<SlotId>,
    /// What the doublewrite buffer holds of it.
    pub held: HeldImage,
    /// The page is whole, and newer than the end of the redo log.
    pub is_newer_than_log: bool,
    /// Where the sectors of a torn page come from; indexes are those of `mapped`.
    pub tear: Option<TearMap>,
    /// Indexes of the candidates whose sectors were compared.
    pub mapped: Vec<usize>,
}

impl InnodbPage {
    /// Index of the candidate that comes first in the order of the server.
    #[must_use]
    pub fn chosen(&self) -> Option<usize> {
        let taken = self.taken?;
        self.candidates.iter().position(|candidate| candidate.facts.slot == taken)
    }

    /// That candidate, else the newest whole one.
    fn best(&self) -> Option<&InnodbCandidate> {
        let sound = self.candidates.iter().filter(|candidate| candidate.facts.state.is_sound());
        let chosen = self.chosen().and_then(|chosen| self.candidates.get(chosen));
        chosen.or_else(|| sound.max_by_key(|candidate| candidate.facts.lsn))
    }

    /// True for a damaged page, a whole one that is newer than the log, and a page of zeros with an image that is not known to be older
    /// than the checkpoint. Other pages of zeros are as a crash leaves them.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        match self.state {
            PageState::Damaged(_) => true,
            PageState::Empty => {
                let is_current = |one: &InnodbCandidate| one.since_checkpoint != Some(false);
                self.candidates.iter().any(is_current) || !self.entries.is_empty() || self.page == TRX_SYSTEM
            }
            PageState::Sound(_) | PageState::Unverifiable(_) => self.is_newer_than_log,
        }
    }
}

/// The page of transactions, which every server writes: filled with zeros, it is lost even without an image.
pub const TRX_SYSTEM: InnodbPageId = InnodbPageId { space_id: 0, page_no: TRX_SYSTEM_PAGE };

/// Whether what the doublewrite buffer holds is all that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferTrust {
    /// Nothing rules it out.
    Complete,
    /// Files or slots are missing, or could not be read.
    Incomplete,
    /// The buffer was not found.
    NotFound,
    /// The option file turns it off: pages may have been written without it.
    SwitchedOff,
    /// Pages were written after the checkpoint, and nothing in the buffer is as new: it is another one that was in use, or none.
    NotInUse,
}

impl BufferTrust {
    /// The state of a buffer. `scan`: of the data files. `end`: of the redo log.
    #[must_use]
    pub fn of(
        doublewrite: &Doublewrite,
        content: &BufferContent,
        checkpoint: Option<InnodbLsn>,
        (scan, end): (&ScanReport, Option<RedoEnd>),
        is_off: bool,
    ) -> Self {
        let has_current = checkpoint.is_none_or(|checkpoint| content.newest_lsn() >= Some(checkpoint));
        let newest_on_disk = scan.newest_lsn.iter().copied().max().unwrap_or_default();
        // After a clean shutdown nothing has to be in the buffer.
        let is_clean = end.is_some_and(|end| end.is_clean && newest_on_disk <= end.lsn);
        let is_written_since = checkpoint.is_some_and(|checkpoint| newest_on_disk > checkpoint);
        if matches!(doublewrite.layout, DoublewriteLayout::Elsewhere | DoublewriteLayout::Missing) {
            Self::NotFound
        } else if is_off {
            Self::SwitchedOff
        } else if !content.is_complete {
            Self::Incomplete
        } else if !is_clean && (content.newest_lsn().is_none() || (is_written_since && !has_current)) {
            Self::NotInUse
        } else {
            Self::Complete
        }
    }
}

/// What pages are judged by.
pub struct JudgeContext<'a> {
    /// Data directory.
    pub root: &'a Path,
    /// Tablespaces.
    pub spaces: &'a Tablespaces,
    /// The doublewrite buffer.
    pub doublewrite: &'a Doublewrite,
    /// What it holds.
    pub content: &'a BufferContent,
    /// Whose rules count.
    pub family: Family,
    /// Where recovery starts.
    pub checkpoint: Option<InnodbLsn>,
    /// End of the redo log, if that is known.
    pub end_lsn: Option<InnodbLsn>,
    /// Whether the buffer is all that the server has.
    pub trust: BufferTrust,
}

impl JudgeContext<'_> {
    /// The word for a slot and the page that it names, with the LSN of that page.
    ///
    /// `image`: bytes of the slot.
    pub fn compare_slot(
        &self,
        facts: &SlotFacts,
        image: &[u8],
        reader: &mut PageReader<'_>,
        coverage: &mut Coverage,
    ) -> (InnodbComparison, Option<InnodbLsn>) {
        let Some(page) = facts.page() else { return (InnodbComparison::Unknown, None) };
        let Some(space) = self.spaces.get(page.space_id) else { return (InnodbComparison::NoTablespace, None) };
        match reader.page(space, page.page_no) {
            Ok(None) => (InnodbComparison::BeyondEnd, None),
            Ok(Some(disk)) => {
                let state = self.doublewrite.state_of(&disk, space, page.page_no);
                let lsn = PageHeader::of(&disk).map(|header| header.lsn);
                let image = image.get(..disk.len()).unwrap_or(image);
                let word = compare(image, &disk, state, &space.flags);
                let is_torn = word == InnodbComparison::Damaged && self.shares_sectors(page, &disk, state, coverage);
                (if is_torn { InnodbComparison::Torn } else { word }, lsn)
            }
            Err(error) => {
                coverage.skip_once(SkippedPart::file(space.name()), error);
                (InnodbComparison::Unknown, None)
            }
        }
    }

    /// True when a damaged page has sectors of any of its newest images.
    fn shares_sectors(&self, page: InnodbPageId, disk: &[u8], state: PageState, coverage: &mut Coverage) -> bool {
        let Some(space) = self.spaces.get(page.space_id) else { return false };
        let slots: Vec<&SlotFacts> = self.content.slots_of(page).collect();
        let newest = newest_of(&slots);
        let mut buf = Vec::new();
        slots.iter().filter(|slot| newest.contains(&slot.slot)).any(|slot| {
            let image = self.image(slot, &mut buf, coverage);
            let image = image.map(|image| image.get(..disk.len()).unwrap_or(image));
            image.is_some_and(|image| compare(image, disk, state, &space.flags) == InnodbComparison::Torn)
        })
    }

    /// Compares a page with its images.
    pub fn judge(&self, found: &FoundPage, reader: &mut PageReader<'_>, coverage: &mut Coverage) -> Option<InnodbPage> {
        let space = self.spaces.all.get(found.space)?;
        let page = InnodbPageId { space_id: space.id, page_no: found.page_no };
        let (file, offset) = space.find(found.page_no)?;
        let disk = match reader.page(space, found.page_no) {
            Ok(disk) => disk?,
            Err(error) => {
                coverage.skip_once(SkippedPart::file(space.name()), error);
                return None;
            }
        };
        let is_first = self.spaces.index_of(space.id) == Some(found.space);
        let slots: Vec<&SlotFacts> = if is_first { self.content.slots_of(page).collect() } else { Vec::new() };
        let entries: Vec<InnodbLsn> =
            if is_first { self.content.entries_of(page).map(|entry| entry.lsn).collect() } else { Vec::new() };
        let mut marks: Vec<(usize, SectorMarks)> = Vec::new();
        let mut candidates = Vec::new();
        let newest = newest_of(&slots);
        let mut buf = Vec::new();
        for (index, facts) in slots.iter().enumerate() {
            let image = self.image(facts, &mut buf, coverage);
            let image = image.map(|image| image.get(..disk.len()).unwrap_or(image));
            let comparison = match image {
                Some(image) => compare(image, &disk, found.state, &space.flags),
                None => InnodbComparison::Unknown,
            };
            if let Some(image) = image.filter(|_| newest.contains(&facts.slot)) {
                marks.push((index, SectorMarks::of_all_bytes(image)));
            }
            let since_checkpoint = self.checkpoint.map(|checkpoint| facts.lsn >= checkpoint);
            candidates.push(InnodbCandidate { facts: **facts, comparison, since_checkpoint });
        }
        // What is torn is the page, whichever of its images shows it.
        if candidates.iter().any(|candidate: &InnodbCandidate| candidate.comparison == InnodbComparison::Torn) {
            let damaged = |candidate: &&mut InnodbCandidate| candidate.comparison == InnodbComparison::Damaged;
            let torn = candidates.iter_mut().filter(damaged);
            torn.for_each(|candidate| candidate.comparison = InnodbComparison::Torn);
        }
        let tear = if found.state.is_damaged() { tear(&disk, found.lsn, &marks, &slots) } else { None };
        let mut judged = InnodbPage {
            page,
            space: found.space,
            path: file.path.display().to_string(),
            offset,
            state: found.state,
            disk: InnodbComparison::Unknown,
            disk_lsn: found.lsn,
            candidates,
            entries,
            taken: self.taken(found, &slots).map(|slot| slot.slot),
            held: HeldImage::Unknown,
            is_newer_than_log: found.state.is_sound() && self.end_lsn.is_some_and(|end| found.lsn > end),
            tear,
            mapped: marks.into_iter().map(|(index, _)| index).collect(),
        };
        judged.disk = disk_word(&judged);
        judged.held = self.held(&judged, space);
        Some(judged)
    }

    /// The bytes of a slot once more.
    fn image<'b>(&self, facts: &SlotFacts, buf: &'b mut Vec<u8>, coverage: &mut Coverage) -> Option<&'b [u8]> {
        let file = self.doublewrite.files.get(facts.slot.0)?;
        match file.slot(facts.slot.1, buf) {
            Ok(bytes) => bytes,
            Err(error) => {
                coverage.skip_once(SkippedPart::file(&file.name), error);
                None
            }
        }
    }

    /// The image that the search of the server reaches first. MySQL reads slots in order, and takes the newest of page 0; MariaDB takes
    /// the last one that is not older than the checkpoint, and does not find the tablespace of compressed images with `full_crc32`.
    ///
    /// Source: `recv::Pages::recover`, `storage/innobase/buf/buf0dblwr.cc` of MySQL; `recv_dblwr_t::find_page`,
    /// `storage/innobase/log/log0recv.cc` of MariaDB.
    fn taken<'s>(&self, found: &FoundPage, slots: &[&'s SlotFacts]) -> Option<&'s SlotFacts> {
        let mut sound = slots.iter().copied().filter(|slot| slot.state.is_sound());
        match self.family {
            Family::Mysql8 if found.page_no == 0 => sound.max_by_key(|slot| slot.lsn),
            Family::Mysql8 | Family::Mysql57 | Family::Mysql56 => {
                // The server does not treat a page of zeros as damaged, and passes over damaged images of it.
                let is_zero = found.state == PageState::Empty;
                let first = slots.iter().copied().find(|slot| slot.state.is_sound() || !is_zero);
                first.filter(|slot| slot.state.is_sound())
            }
            Family::Mariadb => {
                let checkpoint = self.checkpoint?;
                sound.rfind(|slot| slot.lsn >= checkpoint && slot.has_plain_id)
            }
            Family::MariadbOld | Family::Unknown => None,
        }
    }

    /// What the buffer holds: the image that the server takes counts, else the newest whole one.
    fn held(&self, page: &InnodbPage, space: &Tablespace) -> HeldImage {
        if let Some(image) = page.best() {
            // Nothing shows that an image without a checksum is whole.
            if matches!(image.facts.state.algorithm(), Some(Algorithm::None | Algorithm::ZipNone)) {
                return HeldImage::Unreadable;
            }
            return match image.facts.lsn.cmp(&page.disk_lsn) {
                std::cmp::Ordering::Less => HeldImage::Older,
                std::cmp::Ordering::Equal => HeldImage::Same,
                std::cmp::Ordering::Greater => HeldImage::Newer,
            };
        }
        let page_no = page.page.page_no;
        let is_encrypted = |one: &InnodbCandidate| one.facts.state == PageState::Unverifiable(Unverifiable::Encrypted);
        let is_full = space.flags.is_full_crc32;
        if page.candidates.iter().any(is_encrypted) || (is_full && self.content.has_encrypted(page_no)) {
            HeldImage::Encrypted
        } else if (is_full && self.content.has_unnamed(page_no))
            || space.has_rival
            || self.trust != BufferTrust::Complete
        {
            HeldImage::Unknown
        } else if page.candidates.is_empty() {
            HeldImage::Missing
        } else {
            HeldImage::Unreadable
        }
    }
}

/// The word of the image that is chosen, else of the newest whole one, else what the page itself says.
fn disk_word(page: &InnodbPage) -> InnodbComparison {
    match page.state {
        PageState::Empty => InnodbComparison::Zeroed,
        // A page that shares sectors with any image is torn, whichever is chosen.
        PageState::Damaged(_) => {
            let is_torn = page.tear.is_some()
                || page.candidates.iter().any(|candidate| candidate.comparison == InnodbComparison::Torn);
            if is_torn { InnodbComparison::Torn } else { InnodbComparison::Damaged }
        }
        PageState::Sound(_) | PageState::Unverifiable(_) => {
            page.best().map_or(InnodbComparison::Unknown, |candidate| candidate.comparison)
        }
    }
}

/// The newest whole images, as many as are compared sector by sector.
fn newest_of(slots: &[&SlotFacts]) -> BTreeSet<SlotId> {
    let mut sound: Vec<&SlotFacts> = slots.iter().filter(|slot| slot.state.is_sound()).copied().collect();
    sound.sort_by_key(|slot| std::cmp::Reverse(slot.lsn));
    sound.into_iter().take(MAX_MAPPED).map(|slot| slot.slot).collect()
}

/// Which sectors of a damaged page are those of which image.
fn tear(disk: &[u8], disk_lsn: InnodbLsn, marks: &[(usize, SectorMarks)], slots: &[&SlotFacts]) -> Option<TearMap> {
    let images: Vec<MapImage<'_>> = marks
        .iter()
        .filter_map(|(index, marks)| Some(MapImage { marks, lsn: Some(Lsn(slots.get(*index)?.lsn.0)) }))
        .collect();
    map_tear(&SectorMarks::of_all_bytes(disk), Lsn(disk_lsn.0), &images)
}
