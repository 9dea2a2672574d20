//! What the recovery of a server does with a page that is not whole, by the rules of its family.

use super::slot::{SlotFacts, SlotId};
use crate::cluster::innodb::redo_log::Family;
use crate::parsers::innodb::InnodbLsn;
use crate::parsers::innodb::layout::TRX_SYSTEM_PAGE;
use crate::parsers::innodb::page_check::PageState;

/// What a start does with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnStart {
    /// Nothing: the page is whole.
    Untouched,
    /// It writes the image of a slot over the page.
    Restored,
    /// It leaves the page as it is.
    Kept,
    /// The server does not start.
    RefusesToStart,
    /// Unknown.
    Unknown,
}

impl OnStart {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Untouched, Self::Restored, Self::Kept, Self::RefusesToStart, Self::Unknown];

    /// Stable name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Untouched => "untouched",
            Self::Restored => "restored",
            Self::Kept => "kept",
            Self::RefusesToStart => "refuses_to_start",
            Self::Unknown => "unknown",
        }
    }
}

/// How sure a prediction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sureness {
    /// The rule of the server leaves nothing open.
    ByRule,
    /// It depends on something that was not read, and the other outcome is less probable.
    Likely,
}

impl Sureness {
    /// Stable name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ByRule => "by_rule",
            Self::Likely => "likely",
        }
    }
}

/// Why a start does what it does, or why that proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecoveryReason {
    /// No whole image is there.
    NoWholeImage,
    /// The image is older than the checkpoint: redo that would bring it up to date may not be read.
    ImageOlderThanCheckpoint,
    /// The server does not use images older than the checkpoint.
    OlderImagesIgnored,
    /// The server goes by the order of slots, and a newer image is there than the one that it takes.
    ServerTakesOlderImage,
    /// Nothing shows redo of the tablespace after the checkpoint, and without such redo the server does not examine it.
    TablespaceNotOpened,
    /// The server does not find the tablespace of an image that MariaDB compressed with `full_crc32`.
    CompressedImageNotUsed,
    /// A damaged slot names the page before a whole one does: the server gives up.
    DamagedSlotFirst,
    /// Entries without an image name the page: the server gives up.
    DetectedWithoutImage,
    /// Page 0 goes by other rules, and without it the tablespace is not opened.
    PageZero,
    /// The server reads the page before it puts any image back.
    ReadBeforeImages,
    /// Two files claim the tablespace.
    TwoFiles,
    /// The checkpoint of the redo log is unknown.
    CheckpointUnknown,
    /// The server's family is unknown.
    FamilyUnknown,
    /// The image has no checksum: whether it is whole is not known.
    ImageWithoutChecksum,
    /// The page in the file has a higher LSN than the image.
    ImageOlderThanPage,
    /// The page stays damaged. The server stops where replay, or the undoing of transactions, needs it.
    ReplayMayStop,
    /// The doublewrite buffer was not found.
    BufferNotFound,
    /// A whole compressed image of a page with this number does not tell its tablespace.
    ImageWithoutTablespace,
    /// A whole encrypted image of a page with this number is there: which tablespace it is of stands in what is encrypted.
    EncryptedImage,
    /// The page is newer than the end of the redo log: MariaDB 10.11.10 and later write older images over such pages.
    PageNewerThanLog,
    /// The doublewrite buffer is turned off.
    DoublewriteOff,
    /// Files or slots of the doublewrite buffer are missing.
    BufferIncomplete,
    /// Nothing in the doublewrite buffer is as new as the pages.
    BufferNotInUse,
    /// A checkpoint block is lost that a newer checkpoint may have been in.
    CheckpointUncertain,
    /// The redo log from the checkpoint on is not whole, or was not followed to its end.
    RedoNotWhole,
    /// The server does not see the damage: it is told to use no checksums, or, MariaDB, takes a page for one that was never written.
    DamageUnseen,
    /// The page is whole and has the number of another one.
    WrongPageNumber,
    /// Pages are encrypted or compressed in a way that cannot be tested here.
    NotVerifiable,
}

impl RecoveryReason {
    /// All of them.
    pub const ALL: [Self; 28] = [
        Self::NoWholeImage,
        Self::ImageOlderThanCheckpoint,
        Self::OlderImagesIgnored,
        Self::ServerTakesOlderImage,
        Self::TablespaceNotOpened,
        Self::CompressedImageNotUsed,
        Self::DamagedSlotFirst,
        Self::DetectedWithoutImage,
        Self::PageZero,
        Self::ReadBeforeImages,
        Self::TwoFiles,
        Self::CheckpointUnknown,
        Self::FamilyUnknown,
        Self::ImageWithoutChecksum,
        Self::ImageOlderThanPage,
        Self::ReplayMayStop,
        Self::BufferNotFound,
        Self::ImageWithoutTablespace,
        Self::EncryptedImage,
        Self::PageNewerThanLog,
        Self::DoublewriteOff,
        Self::BufferIncomplete,
        Self::BufferNotInUse,
        Self::CheckpointUncertain,
        Self::RedoNotWhole,
        Self::DamageUnseen,
        Self::WrongPageNumber,
        Self::NotVerifiable,
    ];

    /// Stable name for programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NoWholeImage => "no_whole_image",
            Self::ImageOlderThanCheckpoint => "image_older_than_checkpoint",
            Self::OlderImagesIgnored => "older_images_ignored",
            Self::ServerTakesOlderImage => "server_takes_older_image",
            Self::TablespaceNotOpened => "tablespace_not_opened",
            Self::CompressedImageNotUsed => "compressed_image_not_used",
            Self::DamagedSlotFirst => "damaged_slot_first",
            Self::DetectedWithoutImage => "detected_without_image",
            Self::PageZero => "page_zero",
            Self::ReadBeforeImages => "read_before_images",
            Self::TwoFiles => "two_files",
            Self::CheckpointUnknown => "checkpoint_unknown",
            Self::FamilyUnknown => "family_unknown",
            Self::ImageWithoutChecksum => "image_without_checksum",
            Self::ImageOlderThanPage => "image_older_than_page",
            Self::ReplayMayStop => "replay_may_stop",
            Self::BufferNotFound => "buffer_not_found",
            Self::ImageWithoutTablespace => "image_without_tablespace",
            Self::EncryptedImage => "encrypted_image",
            Self::PageNewerThanLog => "page_newer_than_log",
            Self::DoublewriteOff => "doublewrite_off",
            Self::BufferIncomplete => "buffer_incomplete",
            Self::BufferNotInUse => "buffer_not_in_use",
            Self::CheckpointUncertain => "checkpoint_uncertain",
            Self::RedoNotWhole => "redo_not_whole",
            Self::DamageUnseen => "damage_unseen",
            Self::WrongPageNumber => "wrong_page_number",
            Self::NotVerifiable => "not_verifiable",
        }
    }
}

/// Whether the server starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnodbStart {
    /// Nothing that was examined keeps it from starting.
    NothingAgainst,
    /// It may stop in replay, at a page that stays damaged.
    MayStop,
    /// It refuses.
    Refuses,
    /// Unknown.
    Unknown,
}

impl InnodbStart {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NothingAgainst, Self::MayStop, Self::Refuses, Self::Unknown];

    /// Stable name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NothingAgainst => "nothing_against",
            Self::MayStop => "may_stop",
            Self::Refuses => "refuses",
            Self::Unknown => "unknown",
        }
    }
}

/// What a tablespace is for, as far as rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceRole {
    /// The system tablespace.
    System,
    /// Undo logs.
    Undo,
    /// The dictionary of MySQL 8 and later.
    Dictionary,
    /// Anything else.
    Other,
}

/// What is known of a page that is damaged or all zero.
pub struct PageCase<'a> {
    /// Whose rules count.
    pub family: Family,
    /// Where recovery starts.
    pub checkpoint: Option<InnodbLsn>,
    /// Number in its tablespace.
    pub page_no: u32,
    /// What its tablespace is for.
    pub role: SpaceRole,
    /// The redo log writes the size of the tablespace.
    pub is_sized: bool,
    /// Page 0 of the tablespace is lost to MariaDB (see [`is_page_0_lost`]), and this is another page.
    pub is_page_0_lost: bool,
    /// Something shows that recovery opens the tablespace.
    pub is_opened: bool,
    /// The page is all zero.
    pub is_zero: bool,
    /// LSN in its header.
    pub disk_lsn: InnodbLsn,
    /// The server does not see the damage.
    pub is_unseen: bool,
    /// The page is whole and has the number of another one.
    pub is_misplaced: bool,
    /// Slots that name the page, whole or not, in the order of files and slots.
    pub slots: &'a [&'a SlotFacts],
    /// Newest LSN of entries without an image that name it.
    pub entry_lsn: Option<InnodbLsn>,
}

/// What a start does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// With the page.
    pub on_start: OnStart,
    /// How sure that is.
    pub sureness: Sureness,
    /// The slot that is written over the page.
    pub chosen: Option<SlotId>,
    /// Why.
    pub reasons: Vec<RecoveryReason>,
}

impl Prediction {
    fn new(on_start: OnStart, chosen: Option<&SlotFacts>, reasons: &[RecoveryReason]) -> Self {
        let chosen = chosen.map(|slot| slot.slot);
        Self { on_start, sureness: Sureness::ByRule, chosen, reasons: reasons.to_vec() }
    }

    fn likely(self) -> Self {
        Self { sureness: Sureness::Likely, ..self }
    }

    /// What a start does with a page that is damaged or all zero.
    #[must_use]
    pub fn of(case: &PageCase<'_>) -> Self {
        let mut prediction = match case.family {
            _ if case.is_misplaced => Self::new(OnStart::Unknown, None, &[RecoveryReason::WrongPageNumber]).likely(),
            Family::Mysql8 | Family::Mysql57 | Family::Mysql56 | Family::Mariadb if case.is_unseen => {
                // How it is told to start next is not known.
                Self::new(OnStart::Kept, None, &[RecoveryReason::DamageUnseen]).likely()
            }
            Family::Mysql8 | Family::Mysql57 | Family::Mysql56 => Self::of_mysql(case),
            Family::Mariadb => Self::of_mariadb(case),
            Family::MariadbOld | Family::Unknown => {
                Self::new(OnStart::Unknown, None, &[RecoveryReason::FamilyUnknown]).likely()
            }
        };
        // A table that is not opened has no redo that would need the page. Any start reads undo logs and the dictionary.
        let is_opened =
            case.role != SpaceRole::Other || !prediction.reasons.contains(&RecoveryReason::TablespaceNotOpened);
        // A page of zeros that was never written needs no image. One that a slot names was written, or was being written.
        let is_read_early = prediction.reasons.contains(&RecoveryReason::ReadBeforeImages);
        let is_lost = !case.is_zero || !case.slots.is_empty() || is_read_early;
        if prediction.on_start == OnStart::Kept && is_lost && is_opened {
            prediction.reasons.push(RecoveryReason::ReplayMayStop);
        }
        prediction
    }

    /// MySQL reads all slots in order, whatever their LSN: the first that names the page decides.
    fn of_mysql(case: &PageCase<'_>) -> Self {
        if case.role == SpaceRole::System && case.page_no == TRX_SYSTEM_PAGE {
            let reason = [RecoveryReason::ReadBeforeImages];
            // What others do with it, and MySQL 5.6 with one of zeros, nobody has seen.
            return match case.family {
                Family::Mysql8 => Self::new(OnStart::RefusesToStart, None, &reason),
                Family::Mysql56 if !case.is_zero => Self::new(OnStart::RefusesToStart, None, &reason),
                _ => Self::new(OnStart::Kept, None, &reason).likely(),
            };
        }
        let opens_all = case.family == Family::Mysql56;
        if !case.is_opened && !opens_all {
            let has_any = !case.slots.is_empty() || case.entry_lsn.is_some();
            let reason = if has_any { RecoveryReason::TablespaceNotOpened } else { RecoveryReason::NoWholeImage };
            let kept = Self::new(OnStart::Kept, None, &[reason]);
            return if has_any { kept.likely() } else { kept };
        }
        let newest = case.slots.iter().filter(|slot| slot.state.is_sound()).max_by_key(|slot| slot.lsn).copied();
        if case.page_no == 0 && case.family == Family::Mysql8 {
            // Found when files are looked through, where the newest image is taken.
            return match newest {
                Some(slot) => Self::new(OnStart::Restored, Some(slot), &[RecoveryReason::PageZero]).likely(),
                None => {
                    Self::new(OnStart::Kept, None, &[RecoveryReason::PageZero, RecoveryReason::NoWholeImage]).likely()
                }
            };
        }
        // A page of zeros is not damage to the server: it is written over by an image, and left alone by a damaged slot.
        let first = case.slots.iter().find(|slot| slot.state.is_sound() || !case.is_zero).copied();
        let prediction = match first {
            Some(slot) if slot.state.is_sound() => {
                let is_older = newest.is_some_and(|newest| newest.lsn > slot.lsn);
                let reason = [RecoveryReason::ServerTakesOlderImage];
                Self::new(OnStart::Restored, Some(slot), if is_older { &reason } else { &[] })
            }
            Some(slot) if slot.state.is_damaged() => {
                Self::new(OnStart::RefusesToStart, None, &[RecoveryReason::DamagedSlotFirst])
            }
            Some(_) => Self::new(OnStart::Unknown, None, &[RecoveryReason::NotVerifiable]).likely(),
            None => Self::new(OnStart::Kept, None, &[RecoveryReason::NoWholeImage]),
        };
        let restored = prediction.chosen.and_then(|chosen| case.slots.iter().find(|slot| slot.slot == chosen));
        match case.entry_lsn {
            Some(entry) if restored.is_none_or(|slot| slot.lsn < entry) => {
                Self::new(OnStart::RefusesToStart, None, &[RecoveryReason::DetectedWithoutImage])
            }
            _ => prediction,
        }
    }

    /// MariaDB loads images from the checkpoint on, and takes the last of them in the order of slots.
    fn of_mariadb(case: &PageCase<'_>) -> Self {
        let Some(checkpoint) = case.checkpoint else {
            return Self::new(OnStart::Unknown, None, &[RecoveryReason::CheckpointUnknown]).likely();
        };
        if case.is_page_0_lost {
            return Self::new(OnStart::Kept, None, &[RecoveryReason::PageZero]).likely();
        }
        if let Some(slot) = usable_by_mariadb(case.slots, checkpoint) {
            if case.page_no == 0 {
                let of_page_0 = |on_start, slot| Self::new(on_start, slot, &[RecoveryReason::PageZero]).likely();
                return match (case.role, case.is_zero) {
                    (SpaceRole::Undo, true) => of_page_0(OnStart::RefusesToStart, None),
                    (SpaceRole::Other | SpaceRole::Dictionary, false) if !case.is_sized => {
                        of_page_0(OnStart::Kept, None)
                    }
                    _ => of_page_0(OnStart::Restored, Some(slot)),
                };
            }
            let newest = case.slots.iter().filter(|slot| is_loaded_by_mariadb(slot, checkpoint)).map(|slot| slot.lsn);
            let is_older = newest.max().is_some_and(|newest| newest > slot.lsn);
            let reason = [RecoveryReason::ServerTakesOlderImage];
            return Self::new(OnStart::Restored, Some(slot), if is_older { &reason } else { &[] });
        }
        let any = |takes: &dyn Fn(&SlotFacts) -> bool| case.slots.iter().any(|slot| takes(slot));
        let reason = if any(&|slot| slot.state.is_sound() && slot.lsn >= checkpoint) {
            RecoveryReason::CompressedImageNotUsed
        } else if any(&|slot| slot.state.is_sound()) {
            RecoveryReason::OlderImagesIgnored
        } else {
            RecoveryReason::NoWholeImage
        };
        let kept = Self::new(OnStart::Kept, None, &[reason]);
        // Where redo names the page, replay may take a compressed image into memory. Of page 0, which is read before the log is,
        // MariaDB 10.6.7 was seen to restore an image from before the checkpoint.
        let is_early = case.page_no == 0 && reason == RecoveryReason::OlderImagesIgnored;
        let may_change = is_early || reason == RecoveryReason::CompressedImageNotUsed || case.disk_lsn >= checkpoint;
        if !case.is_zero && may_change { kept.likely() } else { kept }
    }
}

/// True for an image that MariaDB can put back: whole, not older than the checkpoint, and with its space id in plain sight.
fn is_loaded_by_mariadb(slot: &SlotFacts, checkpoint: InnodbLsn) -> bool {
    slot.state.is_sound() && slot.lsn >= checkpoint && slot.has_plain_id
}

/// The image of a page that MariaDB takes: the last in the order of slots, as 10.11.19 was seen to. A batch overwrites the
/// first slots, so that the last is the oldest as a rule.
fn usable_by_mariadb<'a>(slots: &[&'a SlotFacts], checkpoint: InnodbLsn) -> Option<&'a SlotFacts> {
    slots.iter().rfind(|slot| is_loaded_by_mariadb(slot, checkpoint)).copied()
}

/// True when MariaDB does not open a tablespace because of its page 0, so that none of its pages is restored.
///
/// `slots`: those that name page 0. `is_sized`: the redo log writes the size of the tablespace; 10.11.19 was seen to open such a one, and no
/// other, with a damaged page 0 whose image it had.
#[must_use]
pub fn is_page_0_lost(
    role: SpaceRole,
    page_0: PageState,
    is_sized: bool,
    slots: &[&SlotFacts],
    checkpoint: Option<InnodbLsn>,
) -> bool {
    let has_image = checkpoint.is_some_and(|checkpoint| usable_by_mariadb(slots, checkpoint).is_some());
    match (role, page_0) {
        (_, PageState::Sound(_) | PageState::Unverifiable(_)) => false,
        (SpaceRole::System, _) | (SpaceRole::Undo, PageState::Damaged(_)) => !has_image,
        (SpaceRole::Undo, PageState::Empty) => true,
        (SpaceRole::Dictionary | SpaceRole::Other, PageState::Empty) => !has_image,
        (SpaceRole::Dictionary | SpaceRole::Other, PageState::Damaged(_)) => !(has_image && is_sized),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::innodb::checksum::Algorithm;
    use crate::parsers::innodb::layout::SlotPart;
    use crate::parsers::innodb::page::PageType;

    fn slot(index: u64, lsn: u64) -> SlotFacts {
        SlotFacts {
            slot: (0, index),
            offset: 0,
            part: SlotPart::Unknown,
            space_id: Some(5),
            has_plain_id: true,
            page_no: 7,
            page_type: PageType(17855),
            lsn: InnodbLsn(lsn),
            state: PageState::Sound(Algorithm::Crc32),
            length: 4096,
        }
    }

    fn case<'a>(slots: &'a [&'a SlotFacts], page_no: u32, checkpoint: u64) -> PageCase<'a> {
        PageCase {
            family: Family::Mariadb,
            checkpoint: Some(InnodbLsn(checkpoint)),
            page_no,
            role: SpaceRole::Other,
            is_sized: false,
            is_page_0_lost: false,
            is_opened: true,
            is_zero: false,
            disk_lsn: InnodbLsn(0),
            is_unseen: false,
            is_misplaced: false,
            slots,
            entry_lsn: None,
        }
    }

    /// As MySQL 9.7.4 and 5.6.24 did with page 5 of the system tablespace, torn or of zeros, although a whole image was there.
    #[test]
    fn mysql_reads_the_page_of_transactions_before_it_restores_it() {
        use OnStart::{Kept, RefusesToStart, Restored};
        let image = slot(3, 500);
        let slots = [&image];
        let of = |family, is_zero, page_no| {
            let role = SpaceRole::System;
            Prediction::of(&PageCase { family, role, is_zero, ..case(&slots, page_no, 400) })
        };
        for (family, torn, zero) in [
            (Family::Mysql8, RefusesToStart, RefusesToStart),
            (Family::Mysql57, Kept, Kept),
            (Family::Mysql56, RefusesToStart, Kept),
            (Family::Mariadb, Restored, Restored),
        ] {
            assert_eq!((of(family, false, 5).on_start, of(family, true, 5).on_start), (torn, zero), "{family:?}");
            assert_eq!(of(family, false, 6).on_start, Restored, "{family:?}");
            let may_stop = |prediction: Prediction| prediction.reasons.contains(&RecoveryReason::ReplayMayStop);
            assert_eq!((may_stop(of(family, false, 5)), may_stop(of(family, true, 5))), (torn == Kept, zero == Kept));
        }
    }

    /// What MariaDB 10.11.19 did with these very slots, the checkpoint lying between the second and the third; and with two
    /// slots whose images had been swapped.
    #[test]
    fn mariadb_takes_the_last_slot_since_the_checkpoint() {
        let all = [slot(8, 76_356_370), slot(76, 76_046_244), slot(108, 75_697_988), slot(120, 73_847_389)];
        let slots: Vec<&SlotFacts> = all.iter().collect();
        let prediction = Prediction::of(&case(&slots, 7, 76_000_000));
        assert_eq!((prediction.on_start, prediction.chosen), (OnStart::Restored, Some((0, 76))));
        assert_eq!(prediction.reasons, [RecoveryReason::ServerTakesOlderImage]);
        let all = [slot(35, 85_302_564), slot(72, 85_437_802), slot(233, 79_917_473)];
        let slots: Vec<&SlotFacts> = all.iter().collect();
        let prediction = Prediction::of(&case(&slots, 7, 85_000_000));
        assert_eq!((prediction.on_start, prediction.chosen), (OnStart::Restored, Some((0, 72))));
        assert!(prediction.reasons.is_empty());
    }

    /// As MariaDB 10.11.19 was seen to do with page 0, torn or zeroed, whose image was newer than the checkpoint.
    #[test]
    fn mariadb_goes_by_other_rules_for_page_0() {
        let image = slot(3, 500);
        for (role, is_zero, is_sized, on_start, loses_others) in [
            (SpaceRole::System, false, false, OnStart::Restored, false),
            (SpaceRole::System, true, false, OnStart::Restored, false),
            (SpaceRole::Undo, false, false, OnStart::Restored, false),
            (SpaceRole::Undo, true, false, OnStart::RefusesToStart, true),
            (SpaceRole::Other, false, false, OnStart::Kept, true),
            (SpaceRole::Other, false, true, OnStart::Restored, false),
            (SpaceRole::Other, true, false, OnStart::Restored, false),
        ] {
            let what = format!("{role:?} {is_zero} {is_sized}");
            let slots = [&image];
            let prediction = Prediction::of(&PageCase { role, is_zero, is_sized, ..case(&slots, 0, 400) });
            assert_eq!((prediction.on_start, prediction.sureness), (on_start, Sureness::Likely), "{what}");
            let fault = crate::parsers::innodb::page_check::PageFault::CompressedSize { bytes: 0 };
            let page_0 = if is_zero { PageState::Empty } else { PageState::Damaged(fault) };
            let is_lost = |checkpoint| is_page_0_lost(role, page_0, is_sized, &slots, Some(InnodbLsn(checkpoint)));
            assert_eq!(is_lost(400), loses_others, "{what}");
            let other = Prediction::of(&PageCase { is_page_0_lost: loses_others, ..case(&slots, 7, 400) });
            let expected = if loses_others { OnStart::Kept } else { OnStart::Restored };
            assert_eq!(other.on_start, expected, "{what}");
            // Without an image that counts nothing is restored, whatever the tablespace is.
            assert!(is_lost(600), "{what}");
        }
    }

    #[test]
    fn damaged_page_that_stays_may_stop_a_start() {
        for family in [Family::Mariadb, Family::Mysql8, Family::Mysql56] {
            let prediction = Prediction::of(&PageCase { family, ..case(&[], 7, 400) });
            assert_eq!(prediction.on_start, OnStart::Kept, "{family:?}");
            assert!(prediction.reasons.contains(&RecoveryReason::ReplayMayStop), "{family:?}");
            let zero = Prediction::of(&PageCase { family, is_zero: true, ..case(&[], 7, 400) });
            assert_eq!(zero.reasons, [RecoveryReason::NoWholeImage], "{family:?}");
        }
        // MariaDB 10.11.19 stopped at a page of zeros whose image it ignored.
        let image = slot(90, 300);
        let prediction = Prediction::of(&PageCase { is_zero: true, ..case(&[&image], 7, 400) });
        let reasons = [RecoveryReason::OlderImagesIgnored, RecoveryReason::ReplayMayStop];
        assert_eq!((prediction.on_start, prediction.reasons.as_slice()), (OnStart::Kept, reasons.as_slice()));
    }

    /// As MySQL 5.6.24 and 8.0.36 did with `innodb_checksum_algorithm=none`, and MariaDB 10.11.19 with a page torn between zeros.
    #[test]
    fn damage_that_a_server_does_not_see_stays() {
        let image = slot(3, 500);
        let slots = [&image];
        for family in [Family::Mysql56, Family::Mysql8, Family::Mariadb] {
            let prediction = Prediction::of(&PageCase { family, is_unseen: true, ..case(&slots, 7, 400) });
            assert_eq!(prediction.on_start, OnStart::Kept, "{family:?}");
            let seen = Prediction::of(&PageCase { family, ..case(&slots, 7, 400) });
            assert_eq!(seen.on_start, OnStart::Restored, "{family:?}");
        }
    }

    /// MySQL 9.7.4 left the pages of what it did not examine, and stopped all the same where one of undo logs or of the dictionary was damaged.
    #[test]
    fn what_mysql_does_not_examine_stays() {
        for role in [SpaceRole::System, SpaceRole::Undo, SpaceRole::Dictionary, SpaceRole::Other] {
            let is_opened = role == SpaceRole::System;
            let image = slot(3, 300);
            let slots = [&image];
            let prediction =
                Prediction::of(&PageCase { family: Family::Mysql8, role, is_opened, ..case(&slots, 7, 400) });
            assert_eq!(prediction.on_start == OnStart::Restored, is_opened, "{role:?}");
            let may_stop = prediction.reasons.contains(&RecoveryReason::ReplayMayStop);
            assert_eq!(may_stop, matches!(role, SpaceRole::Undo | SpaceRole::Dictionary), "{role:?}");
        }
    }
}
