//! Findings about a buffer with a control file, and the effect of startup on it.

use crate::analysis::pages::page_check::PageCondition;
use crate::cluster::page_source::PageRead;
use crate::parsers::page::PageHeader;
use crate::report::rules;
use crate::types::{Lsn, PageId};

rules! {
    RING_CONTROL_FAULT: Ring "ring_control_fault",
        why: "it shows which server run the slots must belong to: without it the server applies none",
        means: "The control file breaks a rule",
        action: "Find an undamaged copy";
    RING_CONTROL_MISSING: Ring "ring_control_missing",
        why: "it shows which server run the slots must belong to: without it the server applies none",
        means: "The control file is missing",
        action: "Find it: without it the server applies no slot";
    RING_CONTROL_SHORT: Ring "ring_control_short",
        why: "it shows which server run the slots must belong to: without it the server applies none",
        means: "The control file ends too early",
        action: "Find a complete copy";
    RING_GENERATION_GUESSED: Ring "ring_generation_guessed",
        why: "the slots that the server would apply are unknown",
        means: "The server run that slots must belong to was guessed",
        action: "Do not rely on a prediction of which slots the server applies";
    RING_LATER_GENERATION: Ring "ring_later_generation",
        why: "the control file and the batches do not belong together: no image is safe to use",
        means: "Slots of a later run than the control file knows",
        action: "Control file and batches do not belong together";
    RING_MISSING_BATCH: Ring "ring_missing_batch",
        why: "its slots were not read, and a server that applies slots does not start",
        means: "A batch file is missing",
        action: "Find it: a server that applies slots does not start without it";
    RING_FURTHER_BATCH: Ring "ring_further_batch",
        why: "left over from a larger setting; the server does not read it",
        means: "A batch file beyond those announced",
        action: "Nothing: the server does not read it";
    RING_OTHER_SIZE: Ring "ring_other_size",
        why: "the write of its batch was interrupted, or it was created under another setting. A crash leaves up to \
            four such files, and no page needs them",
        means: "A batch file of another size than the control file gives",
        action: "Find a complete copy";
    RING_SLOTS_BEYOND_COUNT: Ring "ring_slots_beyond_count",
        why: "a write of the batch was cut short; the server does not read them, and their images may be from a later \
            use of the batch",
        means: "Images after the last slot that the header counts",
        action: "The server does not read them";
    RING_START: Ring "ring_start",
        why: "startup changes the buffer: copy it first. Add no backup_label to the data directory: with one, even a \
            damaged one, startup empties the buffer first",
        means: "How startup changes the buffer",
        action: "Work on a copy";
    RING_OF_STRANGERS: Ring "ring_of_strangers",
        why: "do not start the server: restore the pg_dwb that belongs to these files, or on a copy remove this one",
        means: "Startup would overwrite intact pages with images from another cluster or time: no WAL record ends at \
            their LSNs",
        action: "Do not start the server: restore the `pg_dwb` that belongs to the files, or on a copy remove this one";
    RING_START_WRITES: Ring "ring_start_writes",
        why: "startup in that mode writes them before it replays WAL, proven or not",
        means: "Pages that startup in mode `double_writes` overwrites before it replays WAL",
        action: "Compare them first, with `dump` and `page`";
}

/// Effect of startup on the buffer, before recovery.
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
    /// It recreates the buffer and applies nothing: the control file is missing.
    MakesAnew,
    /// It applies nothing: the last run was shut down cleanly.
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

/// Effect of startup on one page with a slot.
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
    /// Fate of a page with these bytes; `slot_lsn`: LSN of the slot that counts.
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
    pub const fn is_write(self) -> bool {
        matches!(self, Self::WritesOlder | Self::WritesDamaged)
    }
}
