//! Arguments that all commands for MySQL and MariaDB share.

use std::path::PathBuf;

use clap::Args;

use crate::analysis::finding::{Coverage, Finding};
use crate::cli::work::JobsArg;
use crate::inspect::error::InspectError;
use crate::inspect::innodb::source::{InnodbRequest, InnodbSource};

/// Which directory is examined.
#[derive(Clone, Debug, Args)]
pub(super) struct DirectoryArgs {
    /// Data directory of a stopped server: the one with ibdata1
    #[arg(value_name = "DATADIR")]
    data_dir: PathBuf,
    #[command(flatten)]
    of_buffer: BufferArgs,
}

/// Where the doublewrite buffer is, and how it is read.
#[derive(Clone, Debug, Args)]
pub(super) struct BufferArgs {
    /// Directory of the doublewrite buffer, where innodb_doublewrite_dir names another one
    #[arg(long, value_name = "DIR")]
    doublewrite_dir: Option<PathBuf>,
    /// Option file of the server (my.cnf), which names directories outside the data directory
    #[arg(long, value_name = "FILE")]
    my_cnf: Option<PathBuf>,
    #[command(flatten)]
    jobs: JobsArg,
}

impl BufferArgs {
    /// What is to be examined.
    pub(super) fn request(&self, data_dir: PathBuf) -> InnodbRequest {
        InnodbRequest {
            data_dir,
            doublewrite_dir: self.doublewrite_dir.clone(),
            my_cnf: self.my_cnf.clone(),
            jobs: self.jobs.count(),
        }
    }
}

impl DirectoryArgs {
    /// What is to be examined.
    pub(super) fn request(&self) -> InnodbRequest {
        self.of_buffer.request(self.data_dir.clone())
    }

    /// The path as it was given.
    pub(super) fn shown(&self) -> String {
        self.data_dir.display().to_string()
    }

    /// The directory, opened, and what its files alone show.
    pub(super) fn open(&self) -> Result<(InnodbSource, Vec<Finding>, Coverage), InspectError> {
        let source = InnodbSource::open(&self.request())?;
        let (mut findings, mut coverage) = (Vec::new(), Coverage::default());
        source.notes(&mut findings, &mut coverage);
        Ok((source, findings, coverage))
    }
}
