//! The server that replays records in a sandbox: which program, and where.

use std::path::PathBuf;

use super::error::InspectError;
use crate::cluster::data_dir::DataDir;
use crate::output::shell::quoted;
use crate::parsers::wal::version::Major;
use crate::rebuild::{Owner, SandboxOptions, ServerProgram, find_server};

/// Which server is started to replay records, and where.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Directory of its programs; `None`: the one that ran last on the data directory, or one in the usual directories.
    pub pg_bin: Option<PathBuf>,
    /// Directory in which the sandbox is made; `None`: that for temporary files.
    pub sandbox: Option<PathBuf>,
    /// The sandbox is left there.
    pub keep_sandbox: bool,
}

impl ReplayOptions {
    /// Arguments of a command that rebuilds pages with this server, each after a space.
    pub(crate) fn rebuild_arguments(&self) -> String {
        let path = |flag: &str, path: &Option<PathBuf>| {
            path.as_ref().map_or_else(String::new, |path| format!(" {flag} {}", quoted(&path.display().to_string())))
        };
        let keep = if self.keep_sandbox { " --keep-sandbox" } else { "" };
        format!(" --rebuild{}{}{keep}", path("--pg-bin", &self.pg_bin), path("--sandbox", &self.sandbox))
    }

    /// The program of this major for the cluster in `directory`, and its sandbox.
    ///
    /// # Errors
    /// When no such program exists, or the directories of the cluster are unknown.
    pub fn prepare(&self, directory: &DataDir, major: Major) -> Result<(ServerProgram, SandboxOptions), InspectError> {
        let server = find_server(major, self.pg_bin.as_deref(), directory.root())?;
        let sandbox = SandboxOptions {
            parent: self.sandbox.clone(),
            keep: self.keep_sandbox,
            owner: Owner::of(directory.root()),
            protected: directory.own_directories().map_err(InspectError::OwnDirectories)?,
        };
        Ok((server, sandbox))
    }
}
