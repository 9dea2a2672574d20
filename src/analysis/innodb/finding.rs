//! What is found in a data directory of MySQL or MariaDB.

use strum::{IntoStaticStr, VariantNames};

use crate::parsers::innodb::InnodbLsn;

/// What is wrong, or worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum InnodbFinding {
    InnodbDamagedPages { count: usize, with_image: usize },
    InnodbOlderImages(usize),
    InnodbBadPages { count: u64, pages: u64 },
    InnodbZeroPages { count: usize, wrong: usize },
    InnodbDamagedSlots(u64),
    InnodbDamagedEntries,
    InnodbPartialPage(u64),
    InnodbTwoFiles { space_id: u32, other: String },
    InnodbEmptyFile,
    InnodbPageZero,
    InnodbNoCheckpoint,
    InnodbDamagedCheckpoint,
    InnodbRedoHeader,
    InnodbNotShutDown { checkpoint_lsn: InnodbLsn, end_lsn: InnodbLsn },
    InnodbRedoMissing,
    InnodbRedoBehind { end_lsn: InnodbLsn, newest_lsn: InnodbLsn },
    InnodbNoDoublewrite { expects_files: bool },
    InnodbBufferNotInUse,
    InnodbDoublewriteOff,
    InnodbBufferIncomplete,
    InnodbCheckpointUncertain,
    InnodbUnknownRules,
    InnodbHeaderCopyUsed,
    InnodbOtherPageSize(usize),
    InnodbTrailingBytes(u64),
    InnodbServerRunning(i32),
    InnodbUnknownServer,
}
