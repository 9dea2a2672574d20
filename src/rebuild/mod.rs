//! Builds pages by replay: the server's own redo, in a sandbox that is never the cluster that is examined.
//!
//! `choose` picks the records that the wanted pages need, `stream` writes them at their own addresses as WAL of which
//! nothing else is left, `control` and `sandbox` make a data directory around it with older states of the
//! pages, and `server` starts a server of the same major on it once. It replays, finds no catalog, and ends.
//! `attempt` says by what it wrote how far it came, and fetches the pages.
//! Also here: why pages are not built. Words for it: `output/words/replay.rs`.
//!
//! Apart from [`mod@crate::repair`] the only code that writes, and only below its own temporary directory.

mod attempt;
mod candidates;
mod choose;
mod control;
pub mod sandbox;
pub(crate) mod server;
mod stream;

use std::path::PathBuf;
use std::time::Duration;

use attempt::{Attempt, Outcome};
use control::ClusterControl;
use rustc_hash::FxHashSet;
use sandbox::Sandbox;
use strum::{IntoStaticStr, VariantNames};

use crate::analysis::pages::page_check::PageCondition;
use crate::analysis::wal::segment::WatchRead;
use crate::cluster::open::AccessError;
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::control::SizeFault;
use crate::parsers::decode::ParseError;
use crate::parsers::wal::version::Major;
use crate::repair::outside::OutsideError;
use crate::types::{Lsn, PageId};

pub use self::choose::{BaseBytes, WantedPage};
pub use self::sandbox::{Owner, SandboxOptions};
pub use self::server::{NoServer, ServerProgram, ServerVersion, find_server};

/// A server may hang so often before no page is tried without others any more.
const MAX_TIMEOUTS: usize = 3;

/// A request to rebuild pages.
#[derive(Debug)]
pub struct ReplayRequest<'a> {
    /// WAL of the cluster.
    pub wal: &'a WalSet,
    /// Bytes of the cluster's `pg_control`.
    pub control: &'a [u8],
    /// The pages. One that is asked for twice is built twice.
    pub pages: Vec<WantedPage>,
    /// Threads that read WAL.
    pub jobs: usize,
    /// The server, of the cluster's major.
    pub server: &'a ServerProgram,
    /// Where the sandbox is made.
    pub sandbox: &'a SandboxOptions,
}

/// A page that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltPage {
    /// Which page.
    pub page: PageId,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Records that were replayed and name it.
    pub records: u64,
    /// Start of the first of them.
    pub first_lsn: Option<Lsn>,
    /// Start of the last.
    pub last_lsn: Option<Lsn>,
    /// End of the last.
    pub end_lsn: Option<Lsn>,
}

/// Cost of the rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayStats {
    /// Records that were replayed, over all runs.
    pub records: u64,
    /// Bytes of WAL that were written for it.
    pub wal_bytes: u64,
    /// Starts of the server.
    pub runs: u64,
    /// Time in which records were chosen and written.
    pub choice_time: Duration,
    /// Time in which a server ran.
    pub server_time: Duration,
}

/// Result of the rebuild.
#[derive(Debug)]
pub struct ReplayReport {
    /// The pages in the order in which they were asked for.
    pub pages: Vec<(PageId, Result<BuiltPage, NotBuilt>)>,
    /// The server that replayed.
    pub server: ServerVersion,
    /// The sandbox, if it is kept.
    pub sandbox: Option<PathBuf>,
    /// Cost.
    pub stats: ReplayStats,
}

/// Builds pages. `watch` gets the bytes of WAL that were read, from several threads, and may interrupt; it is also called
/// while the server runs.
///
/// All pages are built in one start of the server, unless one needs a record that must not touch another. When the server
/// dies, the pages are divided until the one is found of whose records it dies.
///
/// # Errors
/// When nothing could be built, whatever the pages.
pub fn replay(request: ReplayRequest<'_>, watch: WatchRead<'_>) -> Result<ReplayReport, RebuildError> {
    let control = ClusterControl::read(request.control).map_err(RebuildError::Control)?;
    let major = request.wal.major().ok_or(RebuildError::UnknownMajor)?;
    let found = request.server.version.major;
    if found != major {
        return Err(RebuildError::OtherMajor { found, expected: major });
    }
    let (own, wal) = (control.file.geometry, request.wal.geometry());
    if (own.wal_block_size, own.wal_segment_size) != (wal.wal_block_size, wal.wal_segment_size) {
        return Err(RebuildError::Control(ControlProblem::OtherWalSizes));
    }
    let mut sandbox = Sandbox::create(request.sandbox)?;
    let mut stats = ReplayStats::default();
    let mut results: Vec<Option<Result<BuiltPage, NotBuilt>>> = request.pages.iter().map(|_| None).collect();
    let mut groups = groups(&request, &mut results);
    let mut timeouts = 0_usize;
    while let Some((run, indexes)) = groups.pop() {
        let attempt =
            Attempt { request: &request, control: &control, major, run: run.clone(), indexes: &indexes, watch };
        let Outcome { settled, deferred, died } = attempt.carry_out(&mut sandbox, &mut stats)?;
        let mut left: Vec<usize> = Vec::new();
        for (index, result) in settled {
            if let Some(slot) = results.get_mut(index) {
                *slot = Some(result);
            }
        }
        if let Some(failure) = died {
            left = indexes
                .iter()
                .copied()
                .filter(|index| !deferred.contains(index) && results.get(*index).is_some_and(Option::is_none))
                .collect();
            let is_hanging = matches!(failure.end, ServerEnd::TimedOut(_));
            timeouts = timeouts.saturating_add(usize::from(is_hanging));
            if left.len() == 1 || timeouts >= MAX_TIMEOUTS {
                for index in left.drain(..) {
                    results[index] = Some(Err(NotBuilt::ServerDied(failure.clone())));
                }
            }
        }
        if !deferred.is_empty() {
            groups.push((run.clone(), deferred));
        }
        if left.len() > 1 {
            let later = left.split_off(left.len() / 2);
            groups.push((run.clone(), later));
            groups.push((run, left));
        }
    }
    let kept = sandbox.close(request.sandbox.keep)?;
    let pages = request.pages.iter().zip(results);
    let pages = pages.map(|(wanted, result)| (wanted.page, result.unwrap_or(Err(NotBuilt::NoPage)))).collect();
    Ok(ReplayReport { pages, server: request.server.version.clone(), sandbox: kept, stats })
}

/// Segments that follow each other, and pages whose records they hold.
type Group = (std::ops::Range<usize>, Vec<usize>);

/// The pages by the run of segments in which their ranges lie, none twice in one group.
fn groups(request: &ReplayRequest<'_>, results: &mut [Option<Result<BuiltPage, NotBuilt>>]) -> Vec<Group> {
    let segments = request.wal.segments();
    let size = u64::from(request.wal.geometry().wal_segment_size);
    let mut groups: Vec<(Group, FxHashSet<PageId>)> = Vec::new();
    let runs = request.wal.runs();
    for (index, wanted) in request.pages.iter().enumerate() {
        let holds = |run: &&std::ops::Range<usize>| {
            let first = segments.get(run.start).map(|file| file.start_lsn);
            let last = run.end.checked_sub(1).and_then(|last| segments.get(last)).map(|file| file.start_lsn);
            let (Some(first), Some(last)) = (first, last) else { return false };
            // One that ends where the next would begin needs nothing of the next.
            first <= wanted.from && wanted.from <= last.advanced_by(size)
        };
        let Some(run) = runs.iter().find(holds) else {
            let (from, until) = (wanted.from, wanted.until);
            if let Some(slot) = results.get_mut(index) {
                *slot = Some(Err(NotBuilt::ChainBroken { from, reached: from, until }));
            }
            continue;
        };
        let fits =
            |((other, _), pages): &&mut (Group, FxHashSet<PageId>)| other == run && !pages.contains(&wanted.page);
        match groups.iter_mut().find(fits) {
            Some(((_, indexes), pages)) => {
                indexes.push(index);
                pages.insert(wanted.page);
            }
            None => groups.push(((run.clone(), vec![index]), FxHashSet::from_iter([wanted.page]))),
        }
    }
    groups.into_iter().map(|(group, _)| group).rev().collect()
}

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
