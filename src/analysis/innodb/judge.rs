//! Verdicts on pages: what the images in the doublewrite buffer are worth, and what a start makes of the page.

use std::collections::BTreeSet;
use std::path::Path;

use super::candidates::BufferContent;
use super::compare::{InnodbComparison, compare};
use super::opened::{OpenedSpaces, RedoFacts, opening};
use super::recovery::{OnStart, PageCase, Prediction, RecoveryReason, SpaceRole, Sureness, is_page_0_lost};
use super::scan::{FoundPage, ScanReport};
use super::slot::{SlotFacts, SlotId};
use crate::analysis::finding::Coverage;
use crate::analysis::skipped::SkippedPart;
use crate::analysis::verdict::sectors::{MapImage, SectorMarks, TearMap, map_tear};
use crate::cluster::innodb::doublewrite::{Doublewrite, DoublewriteLayout};
use crate::cluster::innodb::redo_log::Family;
use crate::cluster::innodb::tablespace::{DICTIONARY_SPACE, PageReader, Tablespace, Tablespaces};
use crate::parsers::innodb::checksum::Algorithm;
use crate::parsers::innodb::page::PageHeader;
use crate::parsers::innodb::page_check::PageState;
use crate::parsers::innodb::{InnodbLsn, InnodbPageId};
use crate::types::Lsn;

/// Images that the sectors of a torn page are compared with, the newest ones.
const MAX_MAPPED: usize = 32;

/// What can be said of a page. Nothing is ever proven: whether an image is the version that the page needs is known only to
/// who replays the redo log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InnodbVerdict {
    /// Whether an image is there is unknown: the doublewrite buffer was not found, or not all of it was read.
    Unknown,
    /// No whole image is there.
    NoImage,
    /// A whole image is there, and the server does not use it, or it may not be the right one.
    RestoreUnproven,
    /// By its own rule the server writes this image over the page, and it is whole and not older than the checkpoint.
    ServerRestores,
    /// The page is whole.
    Whole,
}

impl InnodbVerdict {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Unknown, Self::NoImage, Self::RestoreUnproven, Self::ServerRestores, Self::Whole];

    /// Stable name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::NoImage => "no_image",
            Self::RestoreUnproven => "restore_unproven",
            Self::ServerRestores => "server_restores",
            Self::Whole => "whole",
        }
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

/// A page and its verdict.
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
    /// What a start does.
    pub prediction: Prediction,
    /// The verdict.
    pub verdict: InnodbVerdict,
    /// Where the sectors of a torn page come from; indexes are those of `mapped`.
    pub tear: Option<TearMap>,
    /// Indexes of the candidates whose sectors were compared.
    pub mapped: Vec<usize>,
}

impl InnodbPage {
    /// Index of the candidate that the server takes.
    #[must_use]
    pub fn chosen(&self) -> Option<usize> {
        let chosen = self.prediction.chosen?;
        self.candidates.iter().position(|candidate| candidate.facts.slot == chosen)
    }

    /// True when something must be done or decided: a page of zeros that the server fills, or that only images from before the
    /// checkpoint are of, is as a crash leaves it.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        match self.state {
            PageState::Damaged(_) => true,
            PageState::Empty => match self.prediction.on_start {
                OnStart::RefusesToStart | OnStart::Unknown => true,
                OnStart::Restored | OnStart::Untouched => false,
                OnStart::Kept => self.candidates.iter().any(|candidate| candidate.since_checkpoint == Some(true)),
            },
            PageState::Sound(_) | PageState::Unverifiable(_) => false,
        }
    }
}

/// Whether what the doublewrite buffer holds is all that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferTrust {
    /// Nothing speaks against it.
    Complete,
    /// Files or slots are missing, or could not be read.
    Incomplete,
    /// The buffer was not found.
    NotFound,
    /// The option file turns it off: a start may not read it, and pages may have been written without it.
    SwitchedOff,
    /// Pages were written after the checkpoint, and nothing in the buffer is as new: it is another one that was in use, or none.
    NotInUse,
}

impl BufferTrust {
    /// What speaks against a buffer. `scan`: of the data files.
    #[must_use]
    pub fn of(
        doublewrite: &Doublewrite,
        content: &BufferContent,
        checkpoint: Option<InnodbLsn>,
        scan: &ScanReport,
        is_off: bool,
    ) -> Self {
        let has_current = checkpoint.is_none_or(|checkpoint| content.newest_lsn() >= Some(checkpoint));
        let newest_on_disk = scan.newest_lsn.iter().copied().max().unwrap_or_default();
        let is_written_since = checkpoint.is_some_and(|checkpoint| newest_on_disk > checkpoint);
        if matches!(doublewrite.layout, DoublewriteLayout::Elsewhere | DoublewriteLayout::Missing) {
            Self::NotFound
        } else if is_off {
            Self::SwitchedOff
        } else if !content.is_complete {
            Self::Incomplete
        } else if content.newest_lsn().is_none() || (is_written_since && !has_current) {
            Self::NotInUse
        } else {
            Self::Complete
        }
    }

    /// Why nothing is certain, as a reason of each page.
    const fn reason(self) -> Option<RecoveryReason> {
        match self {
            Self::Complete => None,
            Self::Incomplete => Some(RecoveryReason::BufferIncomplete),
            Self::SwitchedOff => Some(RecoveryReason::DoublewriteOff),
            Self::NotFound => Some(RecoveryReason::BufferNotFound),
            Self::NotInUse => Some(RecoveryReason::BufferNotInUse),
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
    /// No newer checkpoint can be lost.
    pub is_checkpoint_certain: bool,
    /// The redo log from there on.
    pub redo: &'a RedoFacts,
    /// Whether the buffer is all that the server has.
    pub trust: BufferTrust,
}

/// What a tablespace is for.
fn role_of(space: &Tablespace) -> SpaceRole {
    match space.id {
        0 => SpaceRole::System,
        DICTIONARY_SPACE => SpaceRole::Dictionary,
        _ if space.is_undo() => SpaceRole::Undo,
        _ => SpaceRole::Other,
    }
}

impl JudgeContext<'_> {
    /// Tablespaces that recovery opens. `scan`: of the data files.
    #[must_use]
    pub fn opened_spaces(&self, scan: &ScanReport) -> OpenedSpaces {
        OpenedSpaces::find(self.spaces, self.content, self.redo, self.checkpoint, &scan.newest_lsn)
    }

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
                let lsn = PageHeader::decode(0, &disk).ok().map(|header| header.lsn);
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

    /// Judges a page. `opened`: tablespaces that recovery opens.
    pub fn judge(
        &self,
        found: &FoundPage,
        opened: &OpenedSpaces,
        reader: &mut PageReader<'_>,
        coverage: &mut Coverage,
    ) -> Option<InnodbPage> {
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
        let is_unseen = match self.family {
            Family::Mysql8 | Family::Mysql57 | Family::Mysql56 => {
                self.content.is_without_checksums && !PageState::has_two_lsns(&disk, &space.flags)
            }
            // MariaDB 10.11.19 leaves such a page as it is, and stops where replay needs it.
            _ => PageState::is_begun(&disk, &space.flags),
        };
        let prediction = self.predict(found, space, opened, (&slots, &entries), is_unseen);
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
            prediction,
            verdict: InnodbVerdict::Whole,
            tear,
            mapped: marks.into_iter().map(|(index, _)| index).collect(),
        };
        judged.disk = disk_word(&judged);
        judged.verdict = self.verdict(&judged, space);
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

    fn predict(
        &self,
        found: &FoundPage,
        space: &Tablespace,
        opened: &OpenedSpaces,
        (slots, entries): (&[&SlotFacts], &[InnodbLsn]),
        is_unseen: bool,
    ) -> Prediction {
        if !found.state.is_damaged() && found.state != PageState::Empty {
            let is_newer = self.redo.end_lsn.is_some_and(|end| found.lsn > end);
            if is_newer && matches!(self.family, Family::Mariadb | Family::MariadbOld | Family::Unknown) {
                let (on_start, sureness) = (OnStart::Unknown, Sureness::Likely);
                return Prediction {
                    on_start,
                    sureness,
                    chosen: None,
                    reasons: vec![RecoveryReason::PageNewerThanLog],
                };
            }
            let (on_start, sureness) = (OnStart::Untouched, Sureness::ByRule);
            return Prediction { on_start, sureness, chosen: None, reasons: Vec::new() };
        }
        let role = role_of(space);
        let first = InnodbPageId { space_id: space.id, page_no: 0 };
        let of_page_0: Vec<&SlotFacts> = self.content.slots_of(first).collect();
        let is_sized = self.redo.sized.contains(&space.id);
        let is_page_0_lost =
            found.page_no != 0 && is_page_0_lost(role, space.page_0, is_sized, &of_page_0, self.checkpoint);
        let by_rule = self.checkpoint.is_none().then_some(Sureness::ByRule);
        let opening = by_rule.or_else(|| opening(self.family, role, space.id, opened));
        let case = PageCase {
            family: self.family,
            checkpoint: self.checkpoint,
            page_no: found.page_no,
            role,
            is_sized,
            is_page_0_lost,
            is_opened: opening.is_some(),
            is_zero: found.state == PageState::Empty,
            disk_lsn: found.lsn,
            is_unseen: is_unseen && found.state.is_damaged(),
            is_misplaced: found.state.is_misplaced(),
            slots,
            entry_lsn: entries.iter().max().copied(),
        };
        let mut prediction = Prediction::of(&case);
        // What a server opens without a whole page 0 is known from its behaviour alone.
        let needs_page_0 = self.family == Family::Mariadb && role == SpaceRole::Other && space.page_0.is_damaged();
        if opening == Some(Sureness::Likely) || needs_page_0 {
            prediction.sureness = Sureness::Likely;
        }
        if space.has_rival {
            prediction.reasons.push(RecoveryReason::TwoFiles);
            prediction.sureness = Sureness::Likely;
        }
        if self.checkpoint.is_none() && !prediction.reasons.contains(&RecoveryReason::CheckpointUnknown) {
            prediction.reasons.push(RecoveryReason::CheckpointUnknown);
            prediction.sureness = Sureness::Likely;
        }
        if self.checkpoint.is_some() && !self.is_checkpoint_certain {
            prediction.reasons.push(RecoveryReason::CheckpointUncertain);
            prediction.sureness = Sureness::Likely;
        }
        if self.checkpoint.is_some() && !self.redo.is_whole {
            prediction.reasons.push(RecoveryReason::RedoNotWhole);
            prediction.sureness = Sureness::Likely;
        }
        // Such an image tells the number of its page alone.
        let may_have_other = space.flags.is_full_crc32 && self.content.has_unnamed(found.page_no);
        if may_have_other && prediction.chosen.is_none() {
            prediction.reasons.retain(|known| *known != RecoveryReason::NoWholeImage);
            prediction.reasons.push(RecoveryReason::ImageWithoutTablespace);
            prediction.sureness = Sureness::Likely;
        }
        // A server that has the key was seen to restore the page. A tablespace of which a plain image is there is not encrypted.
        let has_plain = slots.iter().any(|slot| slot.state.is_sound());
        let may_be_encrypted = space.flags.is_full_crc32 && self.content.has_encrypted(found.page_no);
        if may_be_encrypted && !has_plain && prediction.on_start == OnStart::Kept {
            let rests_on_buffer = [RecoveryReason::NoWholeImage, RecoveryReason::ReplayMayStop];
            prediction.reasons.retain(|known| !rests_on_buffer.contains(known));
            prediction.reasons.push(RecoveryReason::EncryptedImage);
            (prediction.on_start, prediction.sureness) = (OnStart::Unknown, Sureness::Likely);
        }
        if let Some(reason) = self.trust.reason() {
            // MariaDB 10.11.19 was seen to take images also where it is told to write none.
            let may_ignore = self.trust == BufferTrust::SwitchedOff && self.family != Family::Mariadb;
            if prediction.on_start == OnStart::Kept || may_ignore {
                (prediction.on_start, prediction.chosen) = (OnStart::Unknown, None);
                let rests_on_buffer = [RecoveryReason::NoWholeImage, RecoveryReason::ReplayMayStop];
                prediction.reasons.retain(|known| !rests_on_buffer.contains(known));
            }
            prediction.reasons.push(reason);
            prediction.sureness = Sureness::Likely;
        }
        let chosen = prediction.chosen.and_then(|chosen| slots.iter().find(|slot| slot.slot == chosen));
        if let Some(chosen) = chosen {
            if self.checkpoint.is_some_and(|checkpoint| chosen.lsn < checkpoint) {
                prediction.reasons.push(RecoveryReason::ImageOlderThanCheckpoint);
            }
            if matches!(chosen.state.algorithm(), Some(Algorithm::None | Algorithm::ZipNone)) {
                prediction.reasons.push(RecoveryReason::ImageWithoutChecksum);
                prediction.sureness = Sureness::Likely;
            }
            if found.state.is_damaged() && found.lsn > chosen.lsn {
                prediction.reasons.push(RecoveryReason::ImageOlderThanPage);
            }
        }
        prediction
    }

    fn verdict(&self, page: &InnodbPage, space: &Tablespace) -> InnodbVerdict {
        if !page.state.is_damaged() && page.state != PageState::Empty {
            return InnodbVerdict::Whole;
        }
        if !page.candidates.iter().any(|candidate| candidate.facts.state.is_sound()) {
            let unnamed = [RecoveryReason::ImageWithoutTablespace, RecoveryReason::EncryptedImage];
            let is_unnamed = page.prediction.reasons.iter().any(|reason| unnamed.contains(reason));
            let is_certain = self.trust == BufferTrust::Complete && !is_unnamed;
            return if is_certain { InnodbVerdict::NoImage } else { InnodbVerdict::Unknown };
        }
        let chosen = page.chosen().and_then(|chosen| page.candidates.get(chosen));
        let is_current = chosen.is_some_and(|chosen| chosen.since_checkpoint == Some(true));
        let is_ruled = page.prediction.sureness == Sureness::ByRule && page.prediction.on_start == OnStart::Restored;
        if is_ruled && is_current && !space.has_rival {
            InnodbVerdict::ServerRestores
        } else {
            InnodbVerdict::RestoreUnproven
        }
    }
}

/// The word of the image that is chosen, else of the newest whole one, else what the page itself says.
fn disk_word(page: &InnodbPage) -> InnodbComparison {
    let sound = page.candidates.iter().filter(|candidate| candidate.facts.state.is_sound());
    let newest = sound.max_by_key(|candidate| candidate.facts.lsn);
    let chosen = page.chosen().and_then(|chosen| page.candidates.get(chosen));
    match page.state {
        PageState::Empty => InnodbComparison::Zeroed,
        // A page that shares sectors with any image is torn, whichever is chosen.
        PageState::Damaged(_) => {
            let is_torn = page.tear.is_some()
                || page.candidates.iter().any(|candidate| candidate.comparison == InnodbComparison::Torn);
            if is_torn { InnodbComparison::Torn } else { InnodbComparison::Damaged }
        }
        PageState::Sound(_) | PageState::Unverifiable(_) => {
            chosen.or(newest).map_or(InnodbComparison::Unknown, |candidate| candidate.comparison)
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
