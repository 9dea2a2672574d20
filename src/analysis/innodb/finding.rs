//! What is found in a data directory of MySQL or MariaDB.

use strum::{IntoStaticStr, VariantNames};

use crate::parsers::innodb::InnodbLsn;

/// What is wrong, or worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum InnodbFinding {
    /// Pages that fail their checks, with verdicts.
    InnodbDamagedPages {
        /// How many.
        count: usize,
        /// Of them those that the server restores by its own rule.
        server_restores: usize,
        /// Of them those without a whole image.
        no_image: usize,
    },
    /// Pages that fail their checks, of a scan without verdicts.
    InnodbBadPages {
        /// How many.
        count: u64,
        /// Of how many.
        pages: u64,
    },
    /// Pages of zeros that have an image.
    InnodbZeroPages {
        /// How many.
        count: usize,
        /// Of them those that stay zero although an image since the checkpoint is there.
        wrong: usize,
    },
    /// The server does not start.
    InnodbRefusesToStart {
        /// Pages because of which.
        pages: usize,
    },
    /// Slots with a damaged image.
    InnodbDamagedSlots {
        /// How many.
        count: u64,
    },
    /// A block of entries with a wrong checksum.
    InnodbDamagedEntries,
    /// A file ends inside a page.
    InnodbPartialPage {
        /// Bytes of that page.
        have_bytes: u64,
    },
    /// Two files claim one tablespace.
    InnodbTwoFiles {
        /// The tablespace.
        space_id: u32,
        /// The other file.
        other: String,
    },
    /// A file of a tablespace that has no page yet.
    InnodbEmptyFile,
    /// Page 0 of a tablespace is damaged.
    InnodbPageZero,
    /// The checkpoint of the redo log is unknown.
    InnodbNoCheckpoint,
    /// A checkpoint block of the redo log has a wrong checksum.
    InnodbDamagedCheckpoint,
    /// The header of a file of the redo log is damaged, or not all there.
    InnodbRedoHeader,
    /// The redo log ends with bytes that no server wrote, or has more after its end.
    InnodbRedoDamaged {
        /// LSN up to which it is whole.
        end_lsn: InnodbLsn,
        /// More of it follows.
        goes_on: bool,
    },
    /// The redo log goes on in a file that is missing or too short.
    InnodbRedoMissing {
        /// LSN up to which it is there.
        end_lsn: InnodbLsn,
    },
    /// Pages or images are newer than the end of the redo log.
    InnodbRedoBehind {
        /// LSN up to which the log is there.
        end_lsn: InnodbLsn,
        /// LSN of the newest page or image.
        newest_lsn: InnodbLsn,
    },
    /// There is no doublewrite buffer.
    InnodbNoDoublewrite {
        /// The server keeps it in files, which may be in another directory.
        expects_files: bool,
    },
    /// Pages were written after the checkpoint, and nothing in the doublewrite buffer is as new.
    InnodbBufferNotInUse,
    /// The option file turns the doublewrite buffer off.
    InnodbDoublewriteOff,
    /// Files or slots of the doublewrite buffer are missing.
    InnodbBufferIncomplete,
    /// A checkpoint block is lost that a newer checkpoint may have been in.
    InnodbCheckpointUncertain,
    /// The rules of the server, a MariaDB before 10.5, are not known here.
    InnodbUnknownRules,
    /// The first copy of the header of the legacy doublewrite buffer is damaged.
    InnodbHeaderCopyUsed,
    /// A file of another page size.
    InnodbOtherPageSize {
        /// The page size of the instance.
        page_bytes: usize,
    },
    /// Bytes after the last slot.
    InnodbTrailingBytes {
        /// How many.
        bytes: u64,
    },
    /// A process holds a lock on the system tablespace.
    InnodbServerRunning {
        /// Its number.
        pid: i32,
    },
    /// The server's family is unknown.
    InnodbUnknownServer,
    /// Images are newer than the checkpoint: the server was not shut down cleanly, or is running.
    InnodbSinceCheckpoint {
        /// Slots.
        slots: u64,
        /// The newest LSN of them.
        newest_lsn: InnodbLsn,
    },
}
