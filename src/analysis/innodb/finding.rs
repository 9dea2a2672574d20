//! What is found in a data directory of MySQL or MariaDB.

use strum::{IntoStaticStr, VariantNames};

use crate::parsers::innodb::InnodbLsn;

#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", prefix = "innodb_")]
pub enum InnodbFinding {
    DamagedPages { count: usize, with_image: usize },
    OlderImages(usize),
    BadPages { count: u64, pages: u64 },
    ZeroPages { count: usize, wrong: usize },
    DamagedSlots(u64),
    DamagedEntries,
    PartialPage(u64),
    TwoFiles { space_id: u32, other: String },
    EmptyFile,
    PageZero,
    NoCheckpoint,
    DamagedCheckpoint,
    RedoHeader,
    NotShutDown { checkpoint_lsn: InnodbLsn, end_lsn: InnodbLsn },
    RedoMissing,
    RedoBehind { end_lsn: InnodbLsn, newest_lsn: InnodbLsn },
    NoDoublewrite { expects_files: bool },
    BufferNotInUse,
    DoublewriteOff,
    BufferIncomplete,
    CheckpointUncertain,
    UnknownRules,
    HeaderCopyUsed,
    OtherPageSize(usize),
    TrailingBytes(u64),
    ServerRunning(i32),
    UnknownServer,
}
