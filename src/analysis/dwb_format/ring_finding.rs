//! What is found in a buffer with a control file, and what a server that starts does with it.

use strum::{IntoStaticStr, VariantNames};

use crate::analysis::page_check::PageCondition;
use crate::cluster::page_source::PageRead;
use crate::parsers::dwb::ring_control::ControlFault;
use crate::parsers::page::PageHeader;
use crate::types::{Lsn, PageId};

/// What is wrong with the buffer as a whole, or worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RingFinding {
    /// `pg_control` is of a server that is known from a description.
    RingServerNotSeen {
        /// Its version.
        control_version: u32,
    },
    /// The control file breaks a rule.
    RingControlFault(ControlFault),
    /// There is no control file.
    RingControlMissing,
    /// The control file ends too early.
    RingControlShort {
        /// Its bytes.
        found: u64,
    },
    /// The generation was guessed: the highest among the slots.
    RingGenerationGuessed {
        /// The guess; `None` when no slot gives one.
        generation: Option<u64>,
    },
    /// Slots of a later run than the control file knows.
    RingLaterGeneration {
        /// How many.
        slots: u64,
        /// The generation in the control file.
        generation: u64,
    },
    /// A batch file that the control file announces is missing.
    RingMissingBatch {
        /// Its number.
        number: u32,
    },
    /// A batch file beyond those that the control file announces.
    RingFurtherBatch {
        /// Batches that are announced.
        batches: u32,
    },
    /// A batch file whose size is not that of the control file's geometry.
    RingOtherSize {
        /// Its size.
        found: u64,
        /// The right one.
        expected: u64,
    },
    /// Images after the last slot that the header counts, which earlier fillings left.
    RingSlotsBeyondCount {
        /// Slots there that name a page.
        slots: u64,
        /// Slots that the header counts.
        counted: u32,
    },
    /// What a start of a server does.
    RingStart {
        /// In mode `double_writes`.
        double_writes: StartAction,
        /// In another mode.
        otherwise: StartAction,
    },
    /// Such a start writes images over whole pages, at whose LSNs no record of WAL ends.
    RingOfStrangers {
        /// How many.
        pages: usize,
        /// The first of them.
        page: PageId,
        /// LSN of its image.
        lsn: Lsn,
    },
    /// What a start in mode `double_writes` writes into data files.
    RingStartWrites {
        /// Pages, the first of them named.
        pages: Vec<PageId>,
        /// All of them.
        count: u64,
        /// Pages with a slot that it leaves as they are.
        left: u64,
        /// Slots that count.
        candidates: u64,
    },
}

impl RingFinding {
    /// Stable name for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

/// What a server that starts does with the buffer, before it replays WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAction {
    /// It empties the directory without applying anything: the data directory is a backup.
    Discards,
    /// It refuses: this mode needs data checksums.
    RefusesWithoutChecksums,
    /// It refuses: the control file is damaged or for later servers.
    RefusesControl,
    /// It refuses: the slots may be needed, and this mode does not apply them.
    RefusesPending,
    /// It stops at a batch file that is missing.
    FailsAtMissing {
        /// Number of the file.
        number: u32,
    },
    /// It stops at a batch file that ends before what it has to read.
    FailsAtShort {
        /// Number of the file.
        number: u32,
    },
    /// It makes the buffer anew and applies nothing: there is no control file.
    MakesAnew,
    /// It applies nothing: the last run stopped in order.
    AppliesNothing,
    /// It applies slots.
    Applies,
    /// It leaves the buffer alone.
    Ignores,
    /// Not known: something could not be read.
    Unknown,
}

impl StartAction {
    /// Stable name for programs.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Discards => "discards",
            Self::RefusesWithoutChecksums => "refuses_without_checksums",
            Self::RefusesControl => "refuses_control",
            Self::RefusesPending => "refuses_pending",
            Self::FailsAtMissing { .. } => "fails_at_missing_file",
            Self::FailsAtShort { .. } => "fails_at_short_file",
            Self::MakesAnew => "makes_anew",
            Self::AppliesNothing => "applies_nothing",
            Self::Applies => "applies",
            Self::Ignores => "ignores",
            Self::Unknown => "unknown",
        }
    }

    /// True when the server does not come up.
    pub(crate) const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::RefusesWithoutChecksums
                | Self::RefusesControl
                | Self::RefusesPending
                | Self::FailsAtMissing { .. }
                | Self::FailsAtShort { .. }
        )
    }
}

/// What a server that starts does with one page that has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageAction {
    /// Leaves it: the file is missing or ends before it.
    LeavesAbsent,
    /// Leaves it: it looks never initialised.
    LeavesNew,
    /// Leaves it: it is whole and not older.
    Leaves,
    /// Writes the image over it: it is whole and older.
    WritesOlder,
    /// Writes the image over it: it fails its checks.
    WritesDamaged,
}

impl PageAction {
    /// What becomes of a page with these bytes, `slot_lsn` being that of the slot that counts.
    #[must_use]
    pub fn of(read: PageRead, bytes: &[u8], page: PageId, slot_lsn: Lsn) -> Self {
        if read != PageRead::Whole {
            return Self::LeavesAbsent;
        }
        let Ok(header) = PageHeader::decode(0, bytes) else { return Self::LeavesAbsent };
        if header.is_new() {
            return Self::LeavesNew;
        }
        let condition = PageCondition::of(bytes, page.fork, page.block, true);
        if condition.damage().is_some_and(|damage| damage.server_rejects) {
            Self::WritesDamaged
        } else if header.lsn < slot_lsn {
            Self::WritesOlder
        } else {
            Self::Leaves
        }
    }

    /// True when the image is written.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::WritesOlder | Self::WritesDamaged)
    }
}
