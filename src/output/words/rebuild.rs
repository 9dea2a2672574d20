//! Whether and how a page can be rebuilt.
//! Also here: donors: older copies of a cluster that pages are taken from.
//! Also here: words for why pages are not built by replay.

use std::fmt;

use crate::analysis::start::missing_wal::MissingSegments;
use crate::analysis::verdict::donor_proof::PageOfNoDonor;
use crate::analysis::verdict::rebuild::{BuildFailure, NotRebuildable, RebuildBase, RebuildPlan};
use crate::cluster::donor::{DonorGap, DonorKind, DonorRefusal};
use crate::cluster::running::ServerSign;
use crate::parsers::wal::names::rmgr_name;
use crate::rebuild::server::{NoServer, ServerVersion};
use crate::rebuild::{ControlProblem, NotBuilt, RebuildError, ServerEnd, ServerFailure, StreamFault};
use crate::types::ForkNumber;

impl fmt::Display for RebuildBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image { record_lsn } => write!(f, "the WAL image at {record_lsn}"),
            Self::Init { record_lsn } => write!(f, "the record at {record_lsn}, which builds the page"),
            Self::Empty { from } => write!(f, "a zero-filled page, because the map did not reach it at {from}"),
            Self::Candidate { source, page_lsn, .. } => write!(f, "{source} with LSN {page_lsn}"),
        }
    }
}

impl fmt::Display for RebuildPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, until, records, .. } = self;
        let noun = if *records == 1 { "record" } else { "records" };
        write!(f, "the page can be rebuilt as it was at {until}: from {base}, with {records} {noun} of the page")?;
        match (self.first_lsn, self.last_lsn) {
            (Some(first), Some(last)) if first != last => write!(f, " from {first} to {last}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for MissingSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(", "))?;
        if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
    }
}

impl fmt::Display for NotRebuildable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TargetUnknown => f.write_str(
                "the page cannot be rebuilt: the LSN to rebuild it at is unknown, because the redo point is unknown \
                 or WAL there cannot be read",
            ),
            Self::MissingWal { base_lsn, segments } => {
                write!(f, "the page can be rebuilt from a copy at {base_lsn} if this WAL is found: {segments}")
            }
            Self::UnreadableWal { at } => {
                write!(f, "the page cannot be rebuilt: the WAL that it needs is damaged or unknown at {at}")
            }
            Self::TooManyRecords { at } => {
                write!(f, "the page cannot be rebuilt together with so many others: records after {at} were not kept")
            }
            Self::NoBase { wal_from, before, segments } => {
                write!(
                    f,
                    "to rebuild the page, provide an older copy (base backup, snapshot) or WAL before {wal_from}"
                )?;
                if let Some(before) = before {
                    write!(f, " (segment {before} and older)")?;
                }
                if segments.is_empty() { Ok(()) } else { write!(f, "; this WAL is missing as well: {segments}") }
            }
            Self::FileCopied { record_lsn } => write!(
                f,
                "the page cannot be rebuilt: it was created by a copy of the entire database at {record_lsn}, which \
                 WAL does not contain; a later base backup would help"
            ),
            Self::RemovedSince(event) => {
                write!(f, "the page cannot be rebuilt: {event}, and no copy of the page is newer than that")
            }
            Self::NotLogged => {
                f.write_str("the page cannot be rebuilt: changes of an unlogged relation are not in WAL")
            }
            Self::MinimalWal => {
                f.write_str("the page cannot be rebuilt: with wal_level = minimal not all changes of a page are in WAL")
            }
            Self::PageOfMap { fork } => {
                let map = if *fork == ForkNumber::Fsm { "free space map" } else { "visibility map" };
                write!(f, "{map} pages are not rebuilt: the server recreates them")
            }
            Self::PageCutOff => f.write_str("the page is not rebuilt: the file ends before it, or is missing"),
            Self::InnerLsnDiffers(inner) => write!(
                f,
                "the page cannot be rebuilt: the image at {} has LSN {} inside, the records before it leave {}, so a record \
                 is missing",
                inner.record_lsn, inner.found, inner.expected
            ),
            Self::ForeignRecord { record_lsn, rmgr_id } => write!(
                f,
                "the page cannot be rebuilt: the record at {record_lsn} belongs to an extension ({})",
                rmgr_name(*rmgr_id)
            ),
            Self::DiskNewer { disk_lsn, newest } => write!(
                f,
                "the page cannot be rebuilt: it has LSN {disk_lsn} on disk, and the records of it end at {newest}"
            ),
        }
    }
}

impl fmt::Display for BuildFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::NoServerProgram { .. } => "no server can rebuild it",
            Self::ReplayFailed { .. } => "no page could be rebuilt",
            Self::BaseUnreadable { .. } => "its source cannot be read",
            Self::PageNotBuilt { .. } => "the page was not rebuilt",
        };
        write!(f, "{what}: {}", self.why())
    }
}

impl fmt::Display for DonorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BaseBackup => "base backup",
            Self::Stopped => "copy of a stopped server",
            Self::Snapshot => "snapshot of a running or crashed server",
        })
    }
}

impl fmt::Display for DonorGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DonorHasNoFile => "has no such file",
            Self::DonorFileEndsBefore => "has no such page: its file ends before",
            Self::DonorFileNotPlain => "has the file in a form of the archive that is not read",
            Self::DonorPageNotKept => {
                "is an archive, and more of its pages are needed than fit in memory: check this page with the command \
                    page"
            }
            Self::DonorFileIsOfCluster => "has only a link to the file of the cluster here, which is not a copy",
        })
    }
}

impl fmt::Display for PageOfNoDonor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "donor {} {}", self.path, self.gap)
    }
}

impl fmt::Display for DonorRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::NotADataDirectory(error) => error.fmt(f),
            Self::ClusterUnknown => f.write_str(
                "pg_control of the cluster is missing, unreadable or damaged, so copies of it cannot be \
                    recognised",
            ),
            Self::ControlShort(error) => write!(f, "its pg_control ends early: {error}"),
            Self::ControlDamaged => f.write_str("its pg_control is damaged"),
            Self::ControlOfUnknownVersion { version } => {
                write!(f, "its pg_control has unknown version {version}")
            }
            Self::OtherSystem { found, expected } => {
                write!(f, "it belongs to another cluster: its system identifier is {found}, expected {expected}")
            }
            Self::OtherMajor { found, expected } => write!(f, "it has major version {found}, expected {expected}"),
            Self::UnknownMajor { found } => write!(f, "its PG_VERSION says {found:?}, which is unknown"),
            Self::OtherSizes => f.write_str("its page size, segment size or catalog version differs from the cluster"),
            Self::IsTheCluster => f.write_str("it is the cluster itself"),
            Self::InsideTheCluster => f.write_str("it is inside the data directory"),
            Self::Running(sign) => match sign {
                ServerSign::Running { why, .. } => write!(f, "a server runs in it: {why}"),
                ServerSign::MayRun { why, .. } | ServerSign::Unclear { why } | ServerSign::Hidden { why } => {
                    write!(f, "a server may run in it: {why}")
                }
                ServerSign::Unreadable(error) => write!(f, "a server may run in it: {error}"),
                _ => f.write_str("a server may run in it"),
            },
            Self::Incremental => {
                f.write_str("it is an incremental backup: combine it with the earlier ones with pg_combinebackup first")
            }
            Self::LabelWithoutStart => f.write_str("its backup_label does not say where the backup begins"),
            Self::LabelAfterControl { label_lsn, control_lsn } => write!(
                f,
                "its backup_label says that the backup begins at {label_lsn}, after the redo point {control_lsn} of \
                 its pg_control: the label belongs to another backup"
            ),
            Self::NoRedoPoint => f.write_str("its pg_control has no redo point"),
            Self::TimelineUnknown { donor, cluster } => write!(
                f,
                "it is on timeline {donor}, the cluster on timeline {cluster}, and no history file connects them: \
                 pass the WAL archive with --wal"
            ),
            Self::OtherTimeline { donor, redo_lsn, cluster } => {
                write!(f, "it begins at {redo_lsn} on timeline {donor}, where the cluster was on timeline {cluster}")
            }
            Self::OtherHistory { tli } => {
                write!(f, "its timeline {tli} differs from that of the cluster: their history files differ")
            }
        }
    }
}

impl fmt::Display for RebuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(error) => write!(f, "the sandbox: {error}"),
            Self::Outside(error) => write!(f, "{error}"),
            Self::Wal(error) => write!(f, "WAL: {error}"),
            Self::Control(problem) => write!(f, "no sandbox can be made from this pg_control: {problem}"),
            Self::UnknownMajor => {
                f.write_str("the version of the WAL is unknown, because no segment begins with a valid page")
            }
            Self::OtherMajor { found, expected } => {
                write!(
                    f,
                    "the server is PostgreSQL {}, but WAL is from PostgreSQL {}",
                    found.facts().name,
                    expected.facts().name
                )
            }
            Self::NoRoom { directory, needed_bytes, available_bytes } => write!(
                f,
                "the sandbox needs {needed_bytes} bytes, and {} has {available_bytes} free",
                directory.display()
            ),
            Self::NotReachable { directory, uid } => {
                write!(
                    f,
                    "the server runs as uid {uid}, who may not enter {}: pass another directory with --sandbox",
                    directory.display()
                )
            }
            Self::Stream(fault) => write!(f, "{fault}"),
            Self::Server(failure) => write!(f, "the server ended before it replayed anything: {failure}"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for RebuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Access(error) => Some(error),
            Self::Outside(error) => Some(error),
            Self::Wal(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoomBefore { lsn } => {
                write!(f, "replay cannot begin at {lsn}: no space for a checkpoint before it")
            }
            Self::NoRecordFits { from, to } => {
                write!(f, "the space from {from} to the record at {to} cannot be filled with records")
            }
        }
    }
}

impl fmt::Display for ControlProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short(error) => write!(f, "{error}"),
            Self::UnknownVersion => f.write_str("its version is unknown"),
            Self::WrongCrc => f.write_str("its checksum is invalid"),
            Self::Size(fault) => write!(f, "{fault}"),
            Self::OtherWalSizes => f.write_str("its WAL sizes do not match the segments"),
        }
    }
}

impl fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.end)?;
        let mut said: Vec<&str> =
            self.log.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(2).collect();
        said.reverse();
        match said.is_empty() {
            true => f.write_str("; it said nothing"),
            false => write!(f, "; it said \"{}\"", said.join(" ")),
        }
    }
}

impl fmt::Display for ServerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(status) => write!(f, "exit status {status}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::TimedOut(seconds) => write!(f, "not ended after {seconds} s"),
        }
    }
}

impl fmt::Display for NotBuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChainBroken { from, reached, until } => {
                write!(f, "WAL from {from} to {until} is needed, but is readable only to {reached}")
            }
            Self::NoBase { lsn: Some(lsn) } => {
                write!(f, "no older state of the page exists, and the record at {lsn} does not rebuild it")
            }
            Self::NoBase { lsn: None } => {
                f.write_str("no older state of the page exists, and no record of the range belongs to it")
            }
            Self::CutOff { lsn } => {
                write!(f, "the record at {lsn} truncated the page with the end of its file, and no record recreated it")
            }
            Self::CustomRmgr { rmgr_id, lsn } => {
                write!(f, "the record at {lsn} belongs to resource manager {rmgr_id} of an extension")
            }
            Self::RecordTooLong { lsn, length } => {
                write!(f, "the record at {lsn} has {length} bytes, more than are kept of one")
            }
            Self::ServerDied(failure) => write!(f, "the server crashed on the records of this page: {failure}"),
            Self::NoPage => f.write_str("the server produced no such page"),
            Self::Unsound(condition) => write!(f, "the result is not a valid page: {condition}"),
            Self::OtherLsn { found, expected } => {
                write!(f, "the result has LSN {found}, but the last record that sets it ends at {expected}")
            }
        }
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {}", self.number)
    }
}

impl std::error::Error for NoServer {}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere { path } => write!(f, "server binary {} does not exist", path.display()),
            Self::OtherMajor { path, found, expected } => write!(
                f,
                "{} is PostgreSQL {found}, but PostgreSQL {expected} is needed: pass its directory with --pg-bin",
                path.display()
            ),
            Self::NoVersion { path } => write!(f, "{} does not report its version", path.display()),
            Self::NotFound { expected, not_trusted } => {
                let number = expected.number();
                write!(
                    f,
                    "no PostgreSQL {number} server was found: install its server package (no cluster is needed), or \
                     pass the directory of its binaries with --pg-bin"
                )?;
                match not_trusted {
                    Some(path) => write!(
                        f,
                        "; {} from postmaster.opts is not run, because users other than root and you can change it",
                        path.display()
                    ),
                    None => Ok(()),
                }
            }
        }
    }
}
