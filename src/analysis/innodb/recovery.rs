//! What the recovery of a server does with a page that is not whole, by the rules of its family.

use super::slot::{SlotFacts, SlotId};
use crate::cluster::innodb::redo_log::Family;
use crate::parsers::innodb::InnodbLsn;

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
    /// The server takes the first image in the order of slots, and a newer one is there.
    ServerTakesOlderImage,
    /// Nothing shows redo of the tablespace after the checkpoint, and without such redo the server does not examine it.
    TablespaceNotOpened,
    /// The server does not find the tablespace of an image that MariaDB compressed with `full_crc32`.
    CompressedImageNotUsed,
    /// A damaged slot names the page before a whole one does: the server gives up.
    DamagedSlotFirst,
    /// Entries without an image name the page: the server gives up.
    DetectedWithoutImage,
    /// Page 0 goes by other rules.
    PageZero,
    /// Two files claim the tablespace.
    TwoFiles,
    /// The checkpoint of the redo log is unknown.
    CheckpointUnknown,
    /// The server's family is unknown.
    FamilyUnknown,
    /// The page in the file has a higher LSN than the image.
    ImageOlderThanPage,
    /// Replay may need the page: then the server stops there.
    ReplayMayStop,
    /// Pages are encrypted or compressed in a way that cannot be tested here.
    NotVerifiable,
}

impl RecoveryReason {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::NoWholeImage,
        Self::ImageOlderThanCheckpoint,
        Self::OlderImagesIgnored,
        Self::ServerTakesOlderImage,
        Self::TablespaceNotOpened,
        Self::CompressedImageNotUsed,
        Self::DamagedSlotFirst,
        Self::DetectedWithoutImage,
        Self::PageZero,
        Self::TwoFiles,
        Self::CheckpointUnknown,
        Self::FamilyUnknown,
        Self::ImageOlderThanPage,
        Self::ReplayMayStop,
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
            Self::TwoFiles => "two_files",
            Self::CheckpointUnknown => "checkpoint_unknown",
            Self::FamilyUnknown => "family_unknown",
            Self::ImageOlderThanPage => "image_older_than_page",
            Self::ReplayMayStop => "replay_may_stop",
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

/// What is known of a page that is damaged or all zero.
pub struct PageCase<'a> {
    /// Whose rules count.
    pub family: Family,
    /// Where recovery starts.
    pub checkpoint: Option<InnodbLsn>,
    /// Number in its tablespace.
    pub page_no: u32,
    /// Something shows that recovery opens the tablespace.
    pub is_opened: bool,
    /// The page is all zero.
    pub is_zero: bool,
    /// LSN in its header.
    pub disk_lsn: InnodbLsn,
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
        match case.family {
            Family::Mysql8 | Family::Mysql57 | Family::Mysql56 => Self::of_mysql(case),
            Family::Mariadb => Self::of_mariadb(case),
            Family::Unknown => Self::new(OnStart::Unknown, None, &[RecoveryReason::FamilyUnknown]).likely(),
        }
    }

    /// MySQL reads all slots in order, whatever their LSN: the first that names the page decides.
    fn of_mysql(case: &PageCase<'_>) -> Self {
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

    /// MariaDB loads images from the checkpoint on, and takes the newest.
    fn of_mariadb(case: &PageCase<'_>) -> Self {
        let Some(checkpoint) = case.checkpoint else {
            return Self::new(OnStart::Unknown, None, &[RecoveryReason::CheckpointUnknown]).likely();
        };
        let mut reasons = Vec::new();
        let is_loaded = |slot: &&&SlotFacts| slot.state.is_sound() && slot.lsn >= checkpoint;
        let loaded: Vec<&SlotFacts> = case.slots.iter().filter(is_loaded).copied().collect();
        // Of equal LSNs the first counts.
        let usable = loaded.iter().filter(|slot| slot.has_plain_id).rev().max_by_key(|slot| slot.lsn).copied();
        if let Some(slot) = usable {
            if case.page_no == 0 {
                // Seen in one case only: it was not restored.
                return Self::new(OnStart::Kept, None, &[RecoveryReason::PageZero]).likely();
            }
            return Self::new(OnStart::Restored, Some(slot), &[]);
        }
        if !loaded.is_empty() {
            reasons.push(RecoveryReason::CompressedImageNotUsed);
        } else if case.slots.iter().any(|slot| slot.state.is_sound()) {
            reasons.push(RecoveryReason::OlderImagesIgnored);
        } else {
            reasons.push(RecoveryReason::NoWholeImage);
        }
        let kept = Self::new(OnStart::Kept, None, &reasons);
        if !case.is_zero && case.disk_lsn >= checkpoint {
            reasons.push(RecoveryReason::ReplayMayStop);
            return Self { reasons, ..kept }.likely();
        }
        kept
    }
}
