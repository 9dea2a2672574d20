//! A donor that is a data directory.

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{DonorFacts, DonorGap, DonorHost, DonorRead, DonorRefusal, compare, trusted};
use crate::cluster::backup_files::read_history;
use crate::cluster::control_file::{CONTROL_PATH, read_control};
use crate::cluster::data_dir::{DataDir, NotADataDir};
use crate::cluster::open::{AccessError, list};
use crate::cluster::page_source::{PageRead, PageSource, RelationPages, RelationPaths};
use crate::parsers::wal::timeline::TimelineHistory;
use crate::types::{ForkNumber, PageId, RelFileLocator, TimelineId};

/// How the name of a file begins that has changed blocks only.
///
/// Source: `INCREMENTAL_PREFIX`, `src/include/backup/basebackup_incremental.h`.
pub(super) const INCREMENTAL_PREFIX: &str = "INCREMENTAL.";

/// A data directory that pages are taken from.
#[derive(Debug)]
pub(super) struct DonorDirectory {
    root: PathBuf,
    host: PathBuf,
    paths: RelationPaths,
    block_size: usize,
}

impl DonorDirectory {
    /// Opens a directory, and says what it is.
    pub(super) fn open(path: &Path, host: &DonorHost<'_>) -> Result<(Self, DonorFacts), DonorRefusal> {
        refuse_own(path, host.root)?;
        let directory = DataDir::open(path).map_err(|error| match error {
            NotADataDir::Access(error) | NotADataDir::Denied { error, .. } => DonorRefusal::Unreadable(error),
            error => DonorRefusal::NotADataDirectory(error),
        })?;
        let control = trusted(read_control(path))?;
        compare(&control, directory.major(), host)?;
        let sign = directory.server_sign();
        if sign.may_be_running() {
            return Err(DonorRefusal::Running(sign));
        }
        let signs = directory.recovery_signs();
        let label = signs.backup_label.transpose()?;
        let facts = DonorFacts::of(&control, label.as_ref(), signs.wal_was_reset)?;
        if has_incremental_files(path)? {
            return Err(DonorRefusal::Incremental);
        }
        let geometry = control.geometry;
        let catalog = control.prefix.catalog_version_no;
        let paths = RelationPaths::new(directory.major(), catalog, geometry.rel_segment_blocks);
        let block_size = usize::try_from(geometry.block_size).unwrap_or_default();
        Ok((Self { root: path.to_owned(), host: host.root.to_owned(), paths, block_size }, facts))
    }

    pub(super) fn wal_path(&self) -> Option<PathBuf> {
        let path = self.root.join("pg_wal");
        path.is_dir().then_some(path)
    }

    pub(super) fn history(&self, tli: TimelineId) -> Option<TimelineHistory> {
        read_history(&self.root, tli).ok()?
    }

    pub(super) fn read_page(&self, page: PageId) -> Result<DonorRead, AccessError> {
        let (relative, _) = self.paths.path_and_block(page);
        let examined = |path: &Path| -> Result<Option<Metadata>, AccessError> {
            match path.metadata() {
                Ok(metadata) => Ok(Some(metadata)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(AccessError::io("examine", path, error)),
            }
        };
        // A hard link, or a tablespace that both reach by the same link: a copy of nothing.
        let own = examined(&self.root.join(&relative))?;
        if let Some((own, other)) = own.zip(examined(&self.host.join(&relative))?)
            && is_same(&own, &other)
        {
            return Ok(DonorRead::Gap(DonorGap::DonorFileIsOfCluster));
        }
        let mut bytes = vec![0; self.block_size];
        let pages = RelationPages::new(&self.root, self.paths.clone());
        Ok(match pages.read_page(page, &mut bytes)? {
            PageRead::Whole => DonorRead::Page(bytes),
            PageRead::Partial { .. } | PageRead::BeyondEnd => DonorRead::Gap(DonorGap::DonorFileEndsBefore),
            PageRead::NoFile => DonorRead::Gap(DonorGap::DonorHasNoFile),
        })
    }

    pub(super) fn has_fork(&self, rel: RelFileLocator, fork: ForkNumber) -> Result<bool, AccessError> {
        RelationPages::new(&self.root, self.paths.clone()).has_fork(rel, fork)
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Refuses the data directory itself, under whatever name, and what lies inside it.
pub(super) fn refuse_own(path: &Path, host: &Path) -> Result<(), DonorRefusal> {
    let examine = |path: &Path| path.metadata().map_err(|source| AccessError::io("examine", path, source));
    let (own, cluster) = (examine(path)?, examine(host)?);
    // A bind mount may show the same files in a directory of another number.
    let control = |root: &Path| root.join(CONTROL_PATH).metadata().ok();
    let has_same_control = || control(path).zip(control(host)).is_some_and(|(own, other)| is_same(&own, &other));
    if is_same(&own, &cluster) || own.is_dir() && has_same_control() {
        return Err(DonorRefusal::IsTheCluster);
    }
    let real = path.canonicalize().map_err(|source| AccessError::io("examine", path, source))?;
    for above in real.ancestors().skip(1) {
        if examine(above).is_ok_and(|above| is_same(&above, &cluster)) {
            return Err(DonorRefusal::InsideTheCluster);
        }
    }
    Ok(())
}

/// True when some file has changed blocks only. In an incremental backup that is so of all but new relations.
fn has_incremental_files(root: &Path) -> Result<bool, AccessError> {
    let mut directories = vec![root.join("global")];
    let base = root.join("base");
    directories.extend(list(&base)?.into_iter().map(|(name, _)| base.join(name)));
    for directory in directories.iter().filter(|directory| directory.is_dir()) {
        let is_incremental = |name: &OsString| name.as_encoded_bytes().starts_with(INCREMENTAL_PREFIX.as_bytes());
        if list(directory)?.iter().any(|(name, _)| is_incremental(name)) {
            return Ok(true);
        }
    }
    Ok(false)
}
