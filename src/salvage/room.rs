//! Room that is needed and free, before anything is written.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::extract::{CLUSTER_BYTES, Work};
use super::xacts::{WalFacts, Xacts};
use super::{Salvage, SalvageError, SalvageOptions};
use crate::cluster::open::AccessError;
use crate::rebuild::sandbox::free_bytes;
use crate::rebuild::{RebuildError, SandboxOptions};

/// Room in a directory.
#[derive(Clone, Debug)]
pub struct Room {
    /// Directory that exists.
    pub directory: PathBuf,
    /// Bytes that are needed in it, about.
    pub needed_bytes: u64,
    /// Bytes that are free for this user.
    pub available_bytes: u64,
}

/// A way that loses less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetterWay {
    /// The server starts by a check's prediction, and no page is damaged.
    Start,
    /// Repair has proven images.
    Repair {
        /// Pages with a proven image.
        proven: usize,
        /// Damaged pages.
        damaged: usize,
    },
    /// Nothing is certain but that `pg_control` can be trusted.
    Perhaps,
}

/// Better way and room, before anything is written.
#[derive(Debug)]
pub struct Beforehand {
    /// A way that loses less.
    pub better: Option<BetterWay>,
    /// Room that is needed and free.
    pub room: Vec<Room>,
}

impl Salvage {
    /// The room that rows and sandbox need: one entry where both are on the same file system, else two.
    ///
    /// # Errors
    /// When a directory cannot be examined.
    pub fn room(
        &self,
        (wal, options): (&WalFacts, &SalvageOptions<'_>),
        sandbox: &SandboxOptions,
        output: &Path,
    ) -> Result<Vec<Room>, SalvageError> {
        let (mut needed_by_sandbox, mut needed_by_rows) = (CLUSTER_BYTES, 0_u64);
        let watch = || ControlFlow::Continue(());
        let work = Work {
            source: &self.source,
            donors: &[],
            wal,
            server: None,
            output: None,
            tables: options.tables,
            loose: self.loose(options),
            format: options.format,
            deleted: options.deleted,
            schema: None,
            watch: &watch,
        };
        let mut xacts = Xacts::new(&self.source, wal);
        for database in self.source.databases.iter().filter(|database| options.has(database)) {
            let (heap, toast) = work.table_bytes(database, &mut xacts);
            let bytes = heap.saturating_add(toast);
            // The sandbox holds one database at a time: its pages, and the text of a table before it is taken over.
            needed_by_sandbox = needed_by_sandbox.max(CLUSTER_BYTES.saturating_add(bytes).saturating_add(heap));
            let copies = if options.format.has_one_file() { 1 } else { 2 };
            needed_by_rows = needed_by_rows.saturating_add(bytes.saturating_mul(copies));
        }
        let parent = sandbox.parent.clone().unwrap_or_else(std::env::temp_dir);
        let mut rows = room_in(existing(output), needed_by_rows)?;
        let sandbox = room_in(parent, needed_by_sandbox)?;
        let device = |room: &Room| fs::metadata(&room.directory).ok().map(|found| found.dev());
        if device(&rows) == device(&sandbox) {
            rows.needed_bytes = rows.needed_bytes.saturating_add(needed_by_sandbox);
            return Ok(vec![rows]);
        }
        Ok(vec![rows, sandbox])
    }
}

/// The directory, or the nearest one above it that exists.
fn existing(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors().find(|path| path.is_dir()).unwrap_or(&path).to_owned()
}

fn room_in(directory: PathBuf, needed_bytes: u64) -> Result<Room, SalvageError> {
    let free = free_bytes(&directory).map_err(|error: AccessError| RebuildError::from(error))?;
    Ok(Room { directory, needed_bytes, available_bytes: free })
}
