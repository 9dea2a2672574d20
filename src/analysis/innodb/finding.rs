//! What is found in a data directory of MySQL or MariaDB.

use strum::{IntoStaticStr, VariantNames};

use crate::parsers::innodb::InnodbLsn;

/// What is wrong, or worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum InnodbFinding {
    /// Pages that fail their checks, compared with the doublewrite buffer.
    InnodbDamagedPages {
        /// How many.
        count: usize,
        /// Those of which the buffer holds a whole image.
        with_image: usize,
    },
    /// Whole pages that are newer than the end of the redo log and have an older image: how many.
    InnodbOlderImages(usize),
    /// Pages that fail their checks, of a scan without images.
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
        /// Those with an image that is not known to be older than the checkpoint.
        wrong: usize,
    },
    /// Slots with a damaged image: how many.
    InnodbDamagedSlots(u64),
    /// A block of entries with a wrong checksum.
    InnodbDamagedEntries,
    /// A file ends inside a page, of which it has so many bytes.
    InnodbPartialPage(u64),
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
    /// The redo log has more after its checkpoint.
    InnodbNotShutDown {
        /// The checkpoint.
        checkpoint_lsn: InnodbLsn,
        /// End of the log.
        end_lsn: InnodbLsn,
    },
    /// The redo log continues in a file that is missing or too short.
    InnodbRedoMissing,
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
    /// A file of another page size than that of the instance.
    InnodbOtherPageSize(usize),
    /// So many bytes after the last slot.
    InnodbTrailingBytes(u64),
    /// The process with this number holds a lock on the system tablespace.
    InnodbServerRunning(i32),
    /// The server's family is unknown.
    InnodbUnknownServer,
}
