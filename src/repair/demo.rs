//! The crashed cluster that the program carries with it, unpacked where everything can be tried on it.
#![allow(clippy::disallowed_methods, reason = "this module writes files; that is what repair/ is for")]

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::export::ExportDir;
use super::outside::OutsideError;
use crate::cluster::open::AccessError;

/// A server with a double write buffer that was killed in the middle of a checkpoint, and seven of whose pages are torn.
const ARCHIVE: &[u8] = include_bytes!("../../fixtures/dwb/checkpoint.tar.zst");

/// The directory in it that is the data directory.
const IN_ARCHIVE: &str = "checkpoint";

/// Name of the unpacked data directory.
const DATA: &str = "data";

/// Window of the archive, as a power of two: it was packed with `zstd --long=27`.
const WINDOW_LOG: u32 = 27;

/// More than any process number: Linux stops at 4,194,304.
const NO_PROCESS: &str = "4999999";

#[derive(Debug)]
pub(crate) struct DemoCluster {
    temporary: Option<TempDir>,
    data_dir: PathBuf,
}

impl DemoCluster {
    /// Unpacks it into a new directory for temporary files, which goes away with the value.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn temporary() -> Result<Self, OutsideError> {
        let above = std::env::temp_dir();
        let made = tempfile::Builder::new().prefix("pg_dwbinspect-demo-").tempdir_in(&above);
        let temporary = made.map_err(|source| AccessError::io("make a directory in", &above, source))?;
        let data_dir = unpack_into(temporary.path())?;
        Ok(Self { temporary: Some(temporary), data_dir })
    }

    /// Unpacks it into an empty or new directory, where it stays.
    ///
    /// # Errors
    /// When something is in the directory, it is a link, it lies inside a data directory, or the system refuses.
    pub fn at(directory: &Path) -> Result<Self, OutsideError> {
        // Without the slash at its end, which would follow the link.
        let itself: PathBuf = directory.components().collect();
        if itself.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            return Err(
                AccessError::io("unpack the demo into", directory, io::Error::other("it is a symbolic link")).into()
            );
        }
        drop(ExportDir::create_empty(directory, &[])?);
        Ok(Self { temporary: None, data_dir: unpack_into(directory)? })
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Takes a temporary one away.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(self) -> Result<(), AccessError> {
        let Some(temporary) = self.temporary else { return Ok(()) };
        let path = temporary.path().to_owned();
        temporary.close().map_err(|source| AccessError::io("remove", &path, source))
    }
}

/// Unpacks the cluster below `directory`; returns where its data directory is.
fn unpack_into(directory: &Path) -> Result<PathBuf, OutsideError> {
    let data_dir = directory.join(DATA);
    let unpacked = unpack_clusters(ARCHIVE, directory).and_then(|()| fs::rename(directory.join(IN_ARCHIVE), &data_dir));
    unpacked.map_err(|source| AccessError::io("unpack the demo into", directory, source))?;
    Ok(data_dir)
}

/// Unpacks a tar archive, compressed with zstd, of clusters whose servers were killed. The process number that is left in
/// each belongs to somebody else on another machine, sooner or later, and a server refuses to start then: one that no
/// process can have takes its place.
///
/// # Errors
/// When the archive is damaged, or the directory cannot be written to.
pub fn unpack_clusters(archive: impl Read, directory: &Path) -> io::Result<()> {
    let mut decoder = zstd::Decoder::new(archive)?;
    decoder.window_log_max(WINDOW_LOG)?;
    tar::Archive::new(decoder).unpack(directory)?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path().join("postmaster.pid");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        if let Some((_, rest)) = text.split_once('\n') {
            fs::write(&path, format!("{NO_PROCESS}\n{rest}"))?;
        }
    }
    Ok(())
}
