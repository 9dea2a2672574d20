//! All that the user named, read into candidates: no choice among them is made here.

use std::fs::File;
use std::path::PathBuf;

use super::candidates::Candidates;
use super::error::WalSetError;
use super::once::{OnceSource, STDIN_LABEL};
use super::options::WalSetOptions;
use super::paths::PathSource;
use super::scratch::Scratch;

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
