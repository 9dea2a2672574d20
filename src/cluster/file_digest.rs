//! A file as others can recognise it: size and SHA-256.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::open::{AccessError, Links, ReadFile};
use crate::parsers::sha256::Sha256Sum;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileDigest {
    pub path: PathBuf,
    /// Bytes that were read.
    pub size_bytes: u64,
    /// SHA-256 of them, in hexadecimal digits.
    pub sha256: String,
}

/// Reads a whole file, while `go_on`, called after each piece, allows it. `None`: interrupted.
pub(crate) fn digest_file(
    path: &Path,
    links: Links,
    go_on: &dyn Fn(u64) -> ControlFlow<()>,
) -> Result<Option<FileDigest>, AccessError> {
    let file = ReadFile::open(path, links)?;
    let mut piece = vec![0; PIECE_BYTES];
    let (mut sum, mut size_bytes) = (Sha256Sum::default(), 0_u64);
    loop {
        let read = file.read_at(&mut piece, size_bytes)?;
        sum.add(piece.get(..read).unwrap_or_default());
        size_bytes = size_bytes.saturating_add(read as u64);
        if read < PIECE_BYTES {
            return Ok(Some(FileDigest { path: path.to_owned(), size_bytes, sha256: sum.text() }));
        }
        if go_on(read as u64).is_break() {
            return Ok(None);
        }
    }
}
