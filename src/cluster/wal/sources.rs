//! All that the user named, read into candidates: no choice among them is made here.

use std::fs::File;
use std::path::PathBuf;

use crate::cluster::wal::candidates::Candidates;
use crate::cluster::wal::error::WalSetError;
use crate::cluster::wal::once::OnceSource;
use crate::cluster::wal::once::STDIN_LABEL;
use crate::cluster::wal::options::WalSetOptions;
use crate::cluster::wal::paths::PathSource;
use crate::cluster::wal::scratch::Scratch;
use crate::cluster::wal::set::WalSet;
use crate::parsers::wal::version::Major;
use crate::types::Geometry;

/// Path that stands for standard input.
const STDIN_PATH: &str = "-";

/// Examines all paths: data directories, directories of segments, segments, archives, patterns, and `-`. Gives what was
/// found, and the scratch file if there was need for one.
pub(super) fn read_sources(
    paths: &[PathBuf],
    options: WalSetOptions<'_>,
) -> Result<(Candidates, Option<File>), WalSetError> {
    let mut found = Candidates::new(options.timeline);
    found.control = options.control;
    let mut scratch = Scratch::new(options.scratch, options.spill_bytes);
    let window_bytes = options.window_bytes;
    let mut stdin = options.stdin;
    for path in paths {
        if path.as_os_str() == STDIN_PATH {
            let input = stdin.take().ok_or(WalSetError::Stdin)?;
            let source = OnceSource { label: STDIN_LABEL, found: &mut found, scratch: &mut scratch, window_bytes };
            source.read(Box::new(input))?;
        } else {
            let fifos = options.fifos;
            PathSource { found: &mut found, scratch: &mut scratch, window_bytes, fifos }.read(path)?;
        }
    }
    Ok((found, scratch.into_file()))
}

/// Whose some WAL is, and how it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalOrigin {
    /// Major of the server that wrote it, by the page magic.
    pub major: Option<Major>,
    /// The cluster that it belongs to.
    pub system_identifier: Option<u64>,
    /// Sizes of pages and segments.
    pub geometry: Geometry,
}

impl WalSet {
    /// Whose it is.
    #[must_use]
    pub fn origin(&self) -> WalOrigin {
        WalOrigin { major: self.major(), system_identifier: self.system_identifier(), geometry: self.geometry() }
    }
}
