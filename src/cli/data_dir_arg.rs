//! Which data directory is meant, as PostgreSQL's own programs are told.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::Stop;
use super::usage::UsageError;

/// `-D` of a command that only reads.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PgData {
    /// Data directory, instead of DATADIR [default: $PGDATA]
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR")]
    pgdata: Option<PathBuf>,
}

/// `-D` of a command that may write.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PgDataToWrite {
    /// Data directory, instead of DATADIR; $PGDATA is not used
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR")]
    pgdata: Option<PathBuf>,
}

impl PgData {
    /// The directory to read: DATADIR, `-D`, or what the environment says.
    ///
    /// # Errors
    /// When none is given, or two are.
    pub fn choose(&self, data_dir: Option<&Path>) -> Result<PathBuf, Stop> {
        match spelled_out(data_dir, self.pgdata.as_deref())? {
            Some(path) => Ok(path),
            None => Ok(pgdata_of_environment().ok_or(UsageError::NoDataDir)?),
        }
    }

    /// Like [`Self::choose`], for a command that takes several paths.
    pub(crate) fn choose_all(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, Stop> {
        match paths {
            [] | [_] => Ok(vec![self.choose(paths.first().map(PathBuf::as_path))?]),
            _ if self.pgdata.is_some() => Err(UsageError::TwoDataDirs.into()),
            _ => Ok(paths.to_vec()),
        }
    }

    /// The directory to be written into, which the environment alone does not name.
    pub(crate) fn choose_to_write(&self, data_dir: Option<&Path>) -> Result<PathBuf, Stop> {
        to_write(data_dir, self.pgdata.as_deref())
    }
}

impl PgDataToWrite {
    /// True when it is spelled out.
    pub(crate) const fn is_given(&self) -> bool {
        self.pgdata.is_some()
    }

    /// The directory to be written into.
    ///
    /// # Errors
    /// When none is spelled out, or two are.
    pub fn choose(&self, data_dir: Option<&Path>) -> Result<PathBuf, Stop> {
        to_write(data_dir, self.pgdata.as_deref())
    }
}

fn to_write(data_dir: Option<&Path>, pgdata: Option<&Path>) -> Result<PathBuf, Stop> {
    Ok(spelled_out(data_dir, pgdata)?.ok_or(UsageError::NoDataDirToWrite)?)
}

fn spelled_out(data_dir: Option<&Path>, pgdata: Option<&Path>) -> Result<Option<PathBuf>, Stop> {
    match (data_dir, pgdata) {
        (Some(_), Some(_)) => Err(UsageError::TwoDataDirs.into()),
        (one, other) => Ok(one.or(other).map(Path::to_owned)),
    }
}

/// `PGDATA`, where it is set.
pub(crate) fn pgdata_of_environment() -> Option<PathBuf> {
    std::env::var_os("PGDATA").filter(|value: &OsString| !value.is_empty()).map(PathBuf::from)
}
