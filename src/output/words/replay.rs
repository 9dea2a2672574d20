//! Words for why pages are not built by replay.

use std::fmt;

use crate::rebuild::error::{ControlProblem, NotBuilt, RebuildError, ServerEnd, ServerFailure, StreamFault};
use crate::rebuild::server::{NoServer, ServerVersion};

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
