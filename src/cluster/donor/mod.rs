//! Donors: older copies of the cluster that pages can be taken from: base backups, file system snapshots, stopped servers.
//! Says what a donor is and gives its pages; what a page is worth is for others to judge.
//! Also here: shared history of a donor and its cluster.

mod archive;
mod directory;
pub mod facts;
pub(crate) mod refusal;

pub use self::facts::{DonorFacts, DonorKind};
pub use self::refusal::DonorRefusal;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use self::archive::DonorArchive;
use self::directory::DonorDirectory;
use super::open::AccessError;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::timeline::TimelineHistory;
use crate::parsers::wal::version::Major;
use crate::types::{ForkNumber, Lsn, PageId, RelFileLocator, TimelineId};

/// The cluster that a donor must belong to.
#[derive(Clone, Copy, Debug)]
pub struct DonorHost<'a> {
    /// Its data directory.
    pub root: &'a Path,
    /// Its control file, if that can be trusted.
    pub control: Option<&'a ControlFile>,
    /// Its major.
    pub major: Major,
}

/// State of a page in a donor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DonorRead {
    /// The whole page.
    Page(Vec<u8>),
    /// No page.
    Gap(DonorGap),
}

/// Why a donor has no page of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum DonorGap {
    /// The relation has no such file in the donor.
    DonorHasNoFile,
    /// The file of the donor ends before the page, or inside it.
    DonorFileEndsBefore,
    /// The file is that of the cluster itself, by a link.
    DonorFileIsOfCluster,
    /// The archive has the file as something other than plain bytes.
    DonorFileNotPlain,
    /// More pages of the archive are wanted than are kept.
    DonorPageNotKept,
}

impl DonorGap {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }

    /// All codes.
    pub const CODES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;
}

#[derive(Debug)]
enum DonorFiles {
    Directory(DonorDirectory),
    Archive(DonorArchive),
}

/// A donor of the cluster, opened for reading.
#[derive(Debug)]
pub struct Donor {
    path: PathBuf,
    facts: DonorFacts,
    files: DonorFiles,
    /// Pages with a later LSN have a different history.
    usable_until: Option<Lsn>,
}

impl Donor {
    /// Opens a donor and compares it with its cluster. The timeline is compared by [`Self::follow`], since the cluster's
    /// history may come with WAL.
    ///
    /// # Errors
    /// Why it cannot be a donor of this cluster.
    pub fn open(path: &Path, host: &DonorHost<'_>) -> Result<Self, DonorRefusal> {
        let (files, facts) = if DonorArchive::is_one(path) {
            let (archive, facts) = DonorArchive::open(path, host)?;
            (DonorFiles::Archive(archive), facts)
        } else {
            let (directory, facts) = DonorDirectory::open(path, host)?;
            (DonorFiles::Directory(directory), facts)
        };
        Ok(Self { path: path.to_owned(), facts, files, usable_until: None })
    }

    /// Compares the donor's line of history with that of the cluster, whose newest timeline is `tli`.
    ///
    /// # Errors
    /// When the donor has a different history, or that is unknown.
    pub fn follow(&mut self, tli: TimelineId, history: Option<&TimelineHistory>) -> Result<(), DonorRefusal> {
        let own = |tli| match &self.files {
            DonorFiles::Directory(directory) => directory.history(tli),
            DonorFiles::Archive(archive) => archive.history(tli),
        };
        self.usable_until = usable_until(&self.facts, tli, history, &own)?;
        Ok(())
    }

    /// The path that was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Facts about the donor.
    pub const fn facts(&self) -> &DonorFacts {
        &self.facts
    }

    /// The LSN after which pages of the donor have a different history, if any.
    pub(crate) const fn usable_until(&self) -> Option<Lsn> {
        self.usable_until
    }

    /// WAL that came with the donor, as a path that a set of WAL can be opened with.
    pub(crate) fn wal_path(&self) -> Option<PathBuf> {
        match &self.files {
            DonorFiles::Directory(directory) => directory.wal_path(),
            DonorFiles::Archive(archive) => archive.wal_path(),
        }
    }

    /// Makes sure that [`Self::read_page`] can give these pages, and no others where the donor is in archives.
    pub(crate) fn gather(&mut self, wanted: &BTreeSet<PageId>) -> Result<(), AccessError> {
        match &mut self.files {
            DonorFiles::Directory(_) => Ok(()),
            DonorFiles::Archive(archive) => archive.gather(wanted),
        }
    }

    /// Reads a page.
    ///
    /// # Errors
    /// When the file cannot be opened or read for another reason than that it does not exist.
    pub fn read_page(&self, page: PageId) -> Result<DonorRead, AccessError> {
        match &self.files {
            DonorFiles::Directory(directory) => directory.read_page(page),
            DonorFiles::Archive(archive) => Ok(archive.read_page(page)),
        }
    }

    /// True when the donor has an init fork of the relation, so that it is unlogged there.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub fn is_unlogged(&self, rel: RelFileLocator) -> Result<bool, AccessError> {
        match &self.files {
            DonorFiles::Directory(directory) => directory.has_fork(rel, ForkNumber::Init),
            DonorFiles::Archive(archive) => Ok(archive.is_unlogged(rel)),
        }
    }
}

/// The LSN after which donor and cluster have different histories; `None` if all pages share one.
/// `tli`, `history`: the newest timeline of the cluster and its history, where there is one; `own`: reads a history file of
/// the donor.
fn usable_until(
    donor: &DonorFacts,
    tli: TimelineId,
    history: Option<&TimelineHistory>,
    own: &dyn Fn(TimelineId) -> Option<TimelineHistory>,
) -> Result<Option<Lsn>, DonorRefusal> {
    let read = if history.is_none() { own(tli) } else { None };
    let history = history.or(read.as_ref()).filter(|history| history.tli == tli);
    let from = donor.timeline;
    let Some(history) = history else {
        // A timeline is its own history, from where it begins.
        if from != tli {
            return Err(DonorRefusal::TimelineUnknown { donor: from, cluster: tli });
        }
        return Ok((donor.newest_timeline != tli).then_some(donor.redo_lsn));
    };
    let cluster = history.tli_at(donor.redo_lsn);
    if cluster != from {
        return Err(DonorRefusal::OtherTimeline { donor: from, redo_lsn: donor.redo_lsn, cluster });
    }
    if let Some(of_donor) = own(from)
        && !is_same_past(&of_donor, history)
    {
        return Err(DonorRefusal::OtherHistory { tli: from });
    }
    let end_of = |tli: TimelineId| history.ancestors.iter().find(|one| one.tli == tli).map(|one| one.switch_lsn);
    let newest = donor.newest_timeline;
    // The donor may have gone on to another timeline after its redo point; the number alone does not show which.
    let is_of_cluster = newest == tli || end_of(newest).is_some();
    let is_known = newest == from || is_of_cluster && own(newest).is_some_and(|own| is_same_past(&own, history));
    if is_known {
        return Ok(end_of(newest));
    }
    Ok(Some(donor.redo_lsn))
}

/// True when the timelines before that of `donor` ended where they did in `cluster`.
fn is_same_past(donor: &TimelineHistory, cluster: &TimelineHistory) -> bool {
    let ends = |history: &TimelineHistory| -> Vec<(TimelineId, Lsn)> {
        let before = history.ancestors.iter().filter(|one| one.tli < donor.tli);
        before.map(|one| (one.tli, one.switch_lsn)).collect()
    };
    ends(donor) == ends(cluster)
}
