//! Temporary files without a name, for input that cannot be read twice.

use std::fs::File;
use std::io;

/// Makes a file in the system's temporary directory that goes away with its handle. No other program can find it.
pub(crate) fn scratch_file() -> io::Result<File> {
    tempfile::tempfile()
}
