//! Pages that fail their checks, and their images in the doublewrite buffer. Startup of the server is not predicted.
//! Also here: an image of the doublewrite buffer against the page in the data file.

use std::collections::BTreeSet;

use super::candidates::BufferContent;
use super::scan::{FoundPage, ScanReport};
use super::slot::{SlotAge, SlotFacts, SlotId};
use crate::analysis::changes::sectors::{MapImage, SectorMarks, TearMap, map_tear};
use crate::analysis::skipped::{Coverage, SkippedPart};
use crate::cluster::innodb::doublewrite::{Doublewrite, DoublewriteLayout};
use crate::cluster::innodb::redo_log::{Family, RedoEnd};
use crate::cluster::innodb::tablespace::{PageReader, Tablespace, Tablespaces};
use crate::parsers::innodb::checksum::Algorithm;
use crate::parsers::innodb::compressed::{FullCrc32Size, mariadb_length, unpack_mysql};
use crate::parsers::innodb::layout::{SpaceFlags, TRX_SYSTEM_PAGE};
use crate::parsers::innodb::page_check::{PageHeader, PageState, PageType, Unverifiable};
use crate::parsers::innodb::{InnodbLsn, InnodbPageId, stable_names};
use crate::types::Lsn;

/// Images that the sectors of a torn page are compared with, the newest ones.
const MAX_MAPPED: usize = 32;

/// Images of a page in the doublewrite buffer, compared by the LSN in the header of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "what each says is in its words")]
pub enum HeldImage {
    /// Unknown: the buffer was not found, not all of it was read, or an image does not show its tablespace.
    Unknown,
    #[strum(serialize = "no_image")]
    Missing,
    Unreadable,
    /// An encrypted image of a page with this number. Its tablespace is encrypted, too.
    Encrypted,
    Older,
    Same,
    Newer,
}

stable_names!(HeldImage);

impl HeldImage {
    /// An image that passes its checks, of whatever age.
    pub(crate) const fn is_whole(self) -> bool {
        matches!(self, Self::Older | Self::Same | Self::Newer)
    }
}

/// A slot that names a page, and how the page stands to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnodbCandidate {
    pub facts: SlotFacts,
    pub comparison: InnodbComparison,
    /// It is not older than the checkpoint; `None` when that is unknown.
    pub since_checkpoint: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct InnodbPage {
    pub page: InnodbPageId,
    pub space: usize,
    /// File, relative to the data directory.
    pub path: String,
    pub offset: u64,
    pub state: PageState,
    /// The page against its images: the word of the image that is chosen, else of the newest one.
    pub disk: InnodbComparison,
    pub disk_lsn: InnodbLsn,
    /// Slots that name it, whole or not, in the order in which a server meets them.
    pub candidates: Vec<InnodbCandidate>,
    pub entries: Vec<InnodbLsn>,
    /// Index of the candidate that the server takes by the order of its own search, if it uses an image at all.
    pub chosen: Option<usize>,
    pub held: HeldImage,
    /// The page is whole, and newer than the end of the redo log.
    pub is_newer_than_log: bool,
    /// Where the sectors of a torn page come from; indexes are those of `mapped`.
    pub tear: Option<TearMap>,
    /// Indexes of the candidates whose sectors were compared.
    pub mapped: Vec<usize>,
}

impl InnodbPage {
    pub fn first(&self) -> Option<&InnodbCandidate> {
        self.candidates.get(self.chosen?)
    }

    /// That candidate, else the newest whole one.
    fn best(&self) -> Option<&InnodbCandidate> {
        let sound = self.candidates.iter().filter(|candidate| candidate.facts.state.is_sound());
        self.first().or_else(|| sound.max_by_key(|candidate| candidate.facts.lsn))
    }

    fn is_torn(&self) -> bool {
        self.tear.is_some() || self.candidates.iter().any(|one| one.comparison == InnodbComparison::Torn)
    }

    /// True for one of these that is damaged or all zero, not merely newer than the log.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_wrong() && !self.is_newer_than_log
    }

    /// True for a damaged page, a whole one that is newer than the log, and a page of zeros with an image that is not known to be older
    /// than the checkpoint. Other pages of zeros are as a crash leaves them.
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
pub(crate) const TRX_SYSTEM: InnodbPageId = InnodbPageId { space_id: 0, page_no: TRX_SYSTEM_PAGE };

/// Whether what the doublewrite buffer holds is all that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferTrust {
    Complete,
    /// Files or slots are missing, or could not be read.
    Incomplete,
    NotFound,
    /// The option file turns it off: pages may have been written without it.
    SwitchedOff,
    /// Pages were written after the checkpoint, and nothing in the buffer is as new: it is another one that was in use, or none.
    NotInUse,
}

impl BufferTrust {
    /// The state of a buffer. `scan`: of the data files. `end`: of the redo log.
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

pub struct JudgeContext<'a> {
    pub spaces: &'a Tablespaces,
    pub doublewrite: &'a Doublewrite,
    pub content: &'a BufferContent,
    pub family: Family,
    pub checkpoint: Option<InnodbLsn>,
    pub end_lsn: Option<InnodbLsn>,
    pub trust: BufferTrust,
}

impl JudgeContext<'_> {
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
        // Images count for the first of the files that claim a tablespace.
        let named = (self.spaces.index_of(space.id) == Some(found.space)).then_some(page);
        let slots: Vec<&SlotFacts> = named.into_iter().flat_map(|page| self.content.slots_of(page)).collect();
        let entries = named.into_iter().flat_map(|page| self.content.entries_of(page)).map(|entry| entry.lsn).collect();
        let (mut marks, mut mapped, mut candidates) = (Vec::new(), Vec::new(), Vec::new());
        let newest = newest_of(&slots);
        let mut buf = Vec::new();
        for (index, facts) in slots.iter().enumerate() {
            let image = self.image(facts, &mut buf, coverage).map(|image| image.get(..disk.len()).unwrap_or(image));
            let word = |image| compare(image, &disk, found.state, &space.flags);
            let comparison = image.map_or(InnodbComparison::Unknown, word);
            if let Some(image) = image.filter(|_| newest.contains(&facts.slot)) {
                marks.push((SectorMarks::of_all_bytes(image), Lsn(facts.lsn.0)));
                mapped.push(index);
            }
            let since_checkpoint = self.checkpoint.map(|checkpoint| facts.lsn >= checkpoint);
            candidates.push(InnodbCandidate { facts: **facts, comparison, since_checkpoint });
        }
        let images: Vec<_> = marks.iter().map(|(marks, lsn)| MapImage { marks, lsn: Some(*lsn) }).collect();
        let map = || map_tear(&SectorMarks::of_all_bytes(&disk), Lsn(found.lsn.0), &images);
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
            chosen: self.taken(found, &slots),
            held: HeldImage::Unknown,
            is_newer_than_log: found.state.is_sound() && self.end_lsn.is_some_and(|end| found.lsn > end),
            tear: found.state.is_damaged().then(map).flatten(),
            mapped,
        };
        judged.disk = match found.state {
            PageState::Empty => InnodbComparison::Zeroed,
            // A page that shares sectors with any image is torn, whichever is chosen.
            PageState::Damaged(_) if judged.is_torn() => InnodbComparison::Torn,
            PageState::Damaged(_) => InnodbComparison::Damaged,
            PageState::Sound(_) | PageState::Unverifiable(_) => {
                judged.best().map_or(InnodbComparison::Unknown, |candidate| candidate.comparison)
            }
        };
        // What is torn is the page, whichever of its images shows it.
        if judged.candidates.iter().any(|one| one.comparison == InnodbComparison::Torn) {
            let damaged = judged.candidates.iter_mut().filter(|one| one.comparison == InnodbComparison::Damaged);
            damaged.for_each(|one| one.comparison = InnodbComparison::Torn);
        }
        judged.held = self.held(&judged, space);
        Some(judged)
    }

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
    /// Source: `recv::Pages::recover`, `storage/innobase/buf/buf0dblwr.cc` of MySQL; `recv_dblwr_t::find_page`,
    /// `storage/innobase/log/log0recv.cc` of MariaDB.
    fn taken(&self, found: &FoundPage, slots: &[&SlotFacts]) -> Option<usize> {
        let is_sound = |at: &usize| slots.get(*at).is_some_and(|slot| slot.state.is_sound());
        match self.family {
            Family::Mysql8 if found.page_no == 0 => {
                (0..slots.len()).filter(is_sound).max_by_key(|at| slots.get(*at).map(|slot| slot.lsn))
            }
            Family::Mysql8 | Family::Mysql57 | Family::Mysql56 => {
                // The server does not treat a page of zeros as damaged, and passes over damaged images of it.
                let is_zero = found.state == PageState::Empty;
                slots.iter().position(|slot| slot.state.is_sound() || !is_zero).filter(is_sound)
            }
            Family::Mariadb => {
                slots.iter().rposition(|slot| slot.age(self.checkpoint) == SlotAge::Current && slot.has_plain_id)
            }
            Family::MariadbOld | Family::Unknown => None,
        }
    }

    /// State of the image: the one that the server chooses, else the newest intact one.
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
        if page.candidates.iter().any(is_encrypted) || (is_full && self.content.encrypted.contains(&page_no)) {
            HeldImage::Encrypted
        } else if (is_full && self.content.unnamed.contains(&page_no))
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

/// The newest whole images, as many as are compared sector by sector.
fn newest_of(slots: &[&SlotFacts]) -> BTreeSet<SlotId> {
    let mut sound: Vec<&SlotFacts> = slots.iter().filter(|slot| slot.state.is_sound()).copied().collect();
    sound.sort_by_key(|slot| std::cmp::Reverse(slot.lsn));
    sound.into_iter().take(MAX_MAPPED).map(|slot| slot.slot).collect()
}

/// How the page in the data file stands to an image of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the names are documented in docs/json.md")]
pub enum InnodbComparison {
    /// Part of the page is the image, the rest is not.
    Torn,
    /// The page fails its checks and has no sector in common with the image.
    Damaged,
    Zeroed,
    DiskOlder,
    DiskNewer,
    /// Both have the same LSN, and different bytes.
    SameLsn,
    Identical,
    BeyondEnd,
    NoTablespace,
    /// The page could not be read, or the image names no tablespace that can be known.
    Unknown,
}

stable_names!(InnodbComparison);

const SECTOR_BYTES: usize = 512;

/// Compares an image with the page in the data file, both of one tablespace with these flags.
pub fn compare(image: &[u8], disk: &[u8], disk_state: PageState, flags: &SpaceFlags) -> InnodbComparison {
    if is_same(image, disk, flags) {
        return InnodbComparison::Identical;
    }
    if disk_state == PageState::Empty {
        return InnodbComparison::Zeroed;
    }
    if disk_state.is_damaged() {
        let shares = |(one, other): (&[u8], &[u8])| one == other && one.iter().any(|byte| *byte != 0);
        let shared = image.chunks(SECTOR_BYTES).zip(disk.chunks(SECTOR_BYTES)).any(shares);
        return if shared { InnodbComparison::Torn } else { InnodbComparison::Damaged };
    }
    match (PageHeader::of(image), PageHeader::of(disk)) {
        (Some(in_image), Some(on_disk)) => by_lsn(on_disk.lsn, in_image.lsn),
        _ => InnodbComparison::Unknown,
    }
}

/// The word for a page in a data file and an LSN that was written down of it without an image.
pub(crate) fn compare_entry(disk_state: PageState, disk_lsn: InnodbLsn, entry_lsn: InnodbLsn) -> InnodbComparison {
    match disk_state {
        PageState::Empty => InnodbComparison::Zeroed,
        PageState::Damaged(_) => InnodbComparison::Damaged,
        PageState::Sound(_) | PageState::Unverifiable(_) => by_lsn(disk_lsn, entry_lsn),
    }
}

fn by_lsn(disk: InnodbLsn, image: InnodbLsn) -> InnodbComparison {
    match disk.cmp(&image) {
        std::cmp::Ordering::Greater => InnodbComparison::DiskNewer,
        std::cmp::Ordering::Less => InnodbComparison::DiskOlder,
        std::cmp::Ordering::Equal => InnodbComparison::SameLsn,
    }
}

/// True when both hold the same page. What comes after the payload of a page that MariaDB compressed is left over from
/// others; a page that MySQL compressed stands as it was before in the doublewrite buffer.
fn is_same(image: &[u8], disk: &[u8], flags: &SpaceFlags) -> bool {
    let length = payload_length(image, flags);
    if image.get(..length).is_some_and(|image| disk.get(..length) == Some(image)) {
        return true;
    }
    let is_packed =
        |page: &[u8]| PageHeader::of(page).is_some_and(|header| header.page_type == PageType::MYSQL_COMPRESSED);
    if is_packed(image) == is_packed(disk) {
        return false;
    }
    let plain = |page: &[u8]| if is_packed(page) { unpack_mysql(page).ok() } else { Some(page.to_vec()) };
    let parts = |page: &[u8]| Some((page.get(..26)?.to_vec(), page.get(34..)?.to_vec()));
    let (image, disk) = (plain(image).and_then(|image| parts(&image)), plain(disk).and_then(|disk| parts(&disk)));
    image.is_some() && image == disk
}

fn payload_length(page: &[u8], flags: &SpaceFlags) -> usize {
    let is_packed = PageHeader::of(page).is_some_and(|header| header.page_type == PageType::MARIADB_COMPRESSED);
    let length = match FullCrc32Size::of(page) {
        FullCrc32Size::Compressed(length) if flags.is_full_crc32 => Some(length),
        _ => mariadb_length(page).filter(|_| is_packed && !flags.is_full_crc32 && flags.zip_bytes.is_none()),
    };
    length.unwrap_or(page.len())
}
