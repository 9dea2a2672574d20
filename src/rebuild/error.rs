//! Why pages are not built. Words for it: `output/words/replay.rs`.

use std::path::PathBuf;

use strum::{IntoStaticStr, VariantNames};

use crate::analysis::pages::page_check::PageCondition;
use crate::cluster::open::AccessError;
use crate::cluster::wal::WalReadError;
use crate::parsers::control::SizeFault;
use crate::parsers::decode::ParseError;
use crate::parsers::wal::version::Major;
use crate::repair::outside::OutsideError;
use crate::types::Lsn;

/// Nothing could be built at all.
#[derive(Debug, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RebuildError {
    /// A file of the sandbox could not be made, written or read.
    Access(AccessError),
    /// The sandbox would lie inside data that is being examined.
    Outside(OutsideError),
    /// WAL could not be read.
    Wal(WalReadError),
    /// A sandbox cannot be made from this `pg_control`.
    Control(ControlProblem),
    /// The version of the WAL is unknown.
    UnknownMajor,
    /// The server has another major version than the WAL.
    OtherMajor {
        /// Major of the server.
        found: Major,
        /// Major of the WAL.
        expected: Major,
    },
    /// The sandbox does not fit.
    NoRoom {
        /// Directory of the sandbox.
        directory: PathBuf,
        /// Bytes that it needs.
        needed_bytes: u64,
        /// Bytes that are free.
        available_bytes: u64,
    },
    /// The server's user may not enter the directory in which the sandbox is made.
    NotReachable {
        /// The directory that is closed to the user.
        directory: PathBuf,
        /// The user.
        uid: u32,
    },
    /// The records cannot be written as WAL.
    Stream(StreamFault),
    /// The server ended before it replayed anything.
    Server(ServerFailure),
    /// It was asked for by a signal or by the user.
    Interrupted,
}

/// Why records cannot be written as WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// There is no space for a checkpoint before the first record, and no segment before its own.
    NoRoomBefore {
        /// The first record.
        lsn: Lsn,
    },
    /// No record fits into the space before a record.
    NoRecordFits {
        /// Start of the space.
        from: Lsn,
        /// The record.
        to: Lsn,
    },
}

/// Why a sandbox cannot be made from a `pg_control`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlProblem {
    /// It ends too early.
    Short(ParseError),
    /// Its version is unknown.
    UnknownVersion,
    /// Its checksum is wrong.
    WrongCrc,
    /// It names sizes that are impossible.
    Size(SizeFault),
    /// Its sizes of WAL are not those of the WAL.
    OtherWalSizes,
}

/// How a server ended that did not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// How it ended.
    pub end: ServerEnd,
    /// The end of what it printed.
    pub log: String,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEnd {
    /// With this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// It ran longer than it may, in seconds, and was killed.
    TimedOut(u64),
}

/// Why one page was not built.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NotBuilt {
    /// WAL is missing from where replay begins to where it ends, or is damaged between.
    ChainBroken {
        /// Where replay begins.
        from: Lsn,
        /// The last address that is reached from there without a gap; the start where there is nothing.
        reached: Lsn,
        /// Where replay ends.
        until: Lsn,
    },
    /// No older state of the page exists, and the first record does not recreate it.
    NoBase {
        /// That record; `None` when no record of the range names the page.
        lsn: Option<Lsn>,
    },
    /// The page was cut off with the end of its file, and nothing brought it back.
    CutOff {
        /// The record that cut it off.
        lsn: Lsn,
    },
    /// A record belongs to a resource manager of an extension.
    CustomRmgr {
        /// Its id.
        rmgr_id: u8,
        /// The record.
        lsn: Lsn,
    },
    /// A record is longer than what is kept of one.
    RecordTooLong {
        /// The record.
        lsn: Lsn,
        /// Its length in bytes.
        length: u32,
    },
    /// The server died of the records of this page.
    ServerDied(ServerFailure),
    /// The server left no such page.
    NoPage,
    /// The result breaks rules of pages.
    Unsound(PageCondition),
    /// The LSN of what came out is not that of the last record that sets it.
    OtherLsn {
        /// The LSN in the page.
        found: Lsn,
        /// End of the last record that sets it.
        expected: Lsn,
    },
}

impl RebuildError {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

impl NotBuilt {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

impl From<AccessError> for RebuildError {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}
