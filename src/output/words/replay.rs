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
                f.write_str("the version of the WAL is unknown, since no segment begins with a sound page")
            }
            Self::OtherMajor { found, expected } => {
                write!(f, "the server is of major {}, WAL is of {}", found.facts().name, expected.facts().name)
            }
            Self::NoRoom { directory, needed_bytes, available_bytes } => write!(
                f,
                "the sandbox needs {needed_bytes} bytes, and {} has {available_bytes} free",
                directory.display()
            ),
            Self::NotReachable { directory, uid } => {
                write!(
                    f,
                    "the server runs as user {uid}, who may not enter {}: name another with --sandbox",
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
                write!(f, "replay cannot begin at {lsn}: there is no space for a checkpoint before it")
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
            Self::WrongCrc => f.write_str("its checksum is wrong"),
            Self::Size(fault) => write!(f, "{fault}"),
            Self::OtherWalSizes => f.write_str("its sizes of WAL are not those of the segments"),
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
                write!(f, "WAL from {from} to {until} is needed, and can be read up to {reached}")
            }
            Self::NoBase { lsn: Some(lsn) } => {
                write!(f, "there is no older state of the page, and the record at {lsn} does not build it anew")
            }
            Self::NoBase { lsn: None } => {
                f.write_str("there is no older state of the page, and no record of the range names it")
            }
            Self::CutOff { lsn } => {
                write!(f, "the record at {lsn} cut the page off with the end of its file, and none brought it back")
            }
            Self::CustomRmgr { rmgr_id, lsn } => {
                write!(f, "the record at {lsn} is of resource manager {rmgr_id}, which an extension brings")
            }
            Self::RecordTooLong { lsn, length } => {
                write!(f, "the record at {lsn} has {length} bytes, more than are kept of one")
            }
            Self::ServerDied(failure) => write!(f, "the server died of the records of this page: {failure}"),
            Self::NoPage => f.write_str("the server left no such page"),
            Self::Unsound(condition) => write!(f, "what came out is not a sound page: {condition}"),
            Self::OtherLsn { found, expected } => {
                write!(f, "what came out has LSN {found}, and the last record that sets it ends at {expected}")
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
            Self::NotThere { path } => write!(f, "there is no server program {}", path.display()),
            Self::OtherMajor { path, found, expected } => write!(
                f,
                "{} is PostgreSQL {found}, and major {expected} is needed: name its directory with --pg-bin",
                path.display()
            ),
            Self::NoVersion { path } => write!(f, "{} does not say which version it is", path.display()),
            Self::NotFound { expected, not_trusted } => {
                let number = expected.number();
                write!(
                    f,
                    "no server of major {number} was found: install the package of the PostgreSQL {number} server \
                     (no cluster is needed), or name the directory of its programs with --pg-bin"
                )?;
                match not_trusted {
                    Some(path) => write!(
                        f,
                        "; {}, which postmaster.opts names, is not run, since others than root and you can change it",
                        path.display()
                    ),
                    None => Ok(()),
                }
            }
        }
    }
}
