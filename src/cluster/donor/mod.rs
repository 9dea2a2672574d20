//! Donors: older copies of the cluster that pages can be taken from: base backups, file system snapshots, stopped servers.
//! Says what a donor is and gives its pages; what a page is worth is for others to judge.
//! Also here: a donor that is a data directory; shared history of a donor and its cluster.
//! Also here: facts about a donor from its `pg_control` and `backup_label`; why something that was named as
//! a donor is not used; the words are in `output/words/`.

mod archive;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use archive::DonorArchive;
use strum::{IntoStaticStr, VariantNames};

use super::backup_files::{BackupLabel, read_history};
use super::control_file::{CONTROL_PATH, ControlRead, read_control};
use super::data_dir::{DataDir, NotADataDir};
use super::open::{AccessError, list};
use super::page_source::{PageRead, PageSource, RelationPages, RelationPaths};
use super::running::ServerSign;
use crate::parsers::control::{ChecksumState, ControlFile, DbState};
use crate::parsers::decode::ParseError;
use crate::parsers::wal::checkpoint::CheckPoint;
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

/// Kind of copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum DonorKind {
    /// A base backup: its label says which checkpoint came before all of its files were copied.
    BaseBackup,
    /// Its server was shut down cleanly, a primary or a standby: nothing was written after the last checkpoint that is not
    /// in its files.
    Stopped,
    /// Files of a running or crashed server. In a snapshot all are from the same point in time, in any other copy they are
    /// not, and nothing in the files shows which it is.
    Snapshot,
}

impl DonorKind {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }

    /// True when the donor itself shows that its pages have every change from before its redo point.
    pub(crate) const fn shows_redo(self) -> bool {
        matches!(self, Self::BaseBackup | Self::Stopped)
    }
}

/// Facts about a donor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DonorFacts {
    /// Kind of copy.
    pub kind: DonorKind,
    /// Changes from before this address are in its pages, if it is the copy that it seems to be.
    pub redo_lsn: Lsn,
    /// Start of the checkpoint record with that redo point.
    pub checkpoint_lsn: Lsn,
    /// The last checkpoint by its `pg_control`: where its record starts, and the copy of that record.
    pub control_checkpoint: (Lsn, CheckPoint),
    /// Timeline at the redo point.
    pub timeline: TimelineId,
    /// The newest timeline that its pages may be of.
    pub newest_timeline: TimelineId,
    /// Checksum state in its `pg_control`.
    pub checksums: ChecksumState,
    /// Server state in its `pg_control`.
    pub state: DbState,
}

fn trusted(read: ControlRead) -> Result<ControlFile, DonorRefusal> {
    match read {
        ControlRead::Known(control) if control.crc_is_good() => Ok(*control),
        ControlRead::Known(_) | ControlRead::WrongSizes(..) => Err(DonorRefusal::ControlDamaged),
        ControlRead::UnknownVersion { prefix, .. } => {
            Err(DonorRefusal::ControlOfUnknownVersion { version: prefix.pg_control_version })
        }
        ControlRead::Short(error) => Err(DonorRefusal::ControlShort(error)),
        ControlRead::Unreadable(error) => Err(DonorRefusal::Unreadable(error)),
    }
}

/// Makes sure that the donor is a copy of the cluster.
fn compare(control: &ControlFile, major: Major, host: &DonorHost<'_>) -> Result<(), DonorRefusal> {
    let cluster = host.control.ok_or(DonorRefusal::ClusterUnknown)?;
    let (found, expected) = (control.prefix.system_identifier, cluster.prefix.system_identifier);
    if found != expected {
        return Err(DonorRefusal::OtherSystem { found, expected });
    }
    if major != host.major {
        return Err(DonorRefusal::OtherMajor { found: major, expected: host.major });
    }
    let is_same_version = control.prefix.catalog_version_no == cluster.prefix.catalog_version_no
        && control.prefix.pg_control_version == cluster.prefix.pg_control_version;
    if control.geometry != cluster.geometry || !is_same_version {
        return Err(DonorRefusal::OtherSizes);
    }
    Ok(())
}

impl DonorFacts {
    /// Derives the facts from the files. `was_reset`: `pg_resetwal` was run on the donor.
    fn of(control: &ControlFile, label: Option<&BackupLabel>, was_reset: bool) -> Result<Self, DonorRefusal> {
        let control_lsn = control.checkpoint.redo_lsn;
        if !control_lsn.is_valid() {
            return Err(DonorRefusal::NoRedoPoint);
        }
        let newest = control.checkpoint.tli.max(control.min_recovery_timeline);
        let (kind, redo_lsn, checkpoint_lsn, timeline) = match label {
            Some(label) if label.incremental_from_lsn.is_some() => return Err(DonorRefusal::Incremental),
            Some(label) => {
                let begin = label.redo_lsn.filter(|lsn| lsn.is_valid()).zip(label.checkpoint_lsn).zip(label.timeline);
                let ((label_lsn, checkpoint_lsn), timeline) = begin.ok_or(DonorRefusal::LabelWithoutStart)?;
                // The control file is copied after the checkpoint of the label.
                if label_lsn > control_lsn {
                    return Err(DonorRefusal::LabelAfterControl { label_lsn, control_lsn });
                }
                (DonorKind::BaseBackup, label_lsn, checkpoint_lsn, timeline)
            }
            None => {
                let kind = if !was_reset && is_stopped(control) { DonorKind::Stopped } else { DonorKind::Snapshot };
                (kind, control_lsn, control.checkpoint_lsn, control.checkpoint.tli)
            }
        };
        Ok(Self {
            kind,
            redo_lsn,
            checkpoint_lsn,
            control_checkpoint: (control.checkpoint_lsn, control.checkpoint),
            timeline,
            newest_timeline: newest.max(timeline),
            checksums: control.checksums,
            state: control.prefix.state,
        })
    }
}

/// True when the server was shut down cleanly and the other fields agree: a single wrong bit must not lead to this answer.
fn is_stopped(control: &ControlFile) -> bool {
    match control.prefix.state {
        DbState::SHUT_DOWN => control.was_shut_down(),
        // A primary sets no such address.
        DbState::SHUT_DOWN_IN_RECOVERY => {
            control.min_recovery_lsn.is_valid() && control.min_recovery_lsn >= control.checkpoint.redo_lsn
        }
        _ => false,
    }
}

/// Why a donor is refused.
#[derive(Debug, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum DonorRefusal {
    /// The system refused.
    Unreadable(AccessError),
    /// It is not a data directory.
    NotADataDirectory(NotADataDir),
    /// Nothing says which cluster the donor would have to be of.
    ClusterUnknown,
    /// Its `pg_control` ends early.
    ControlShort(ParseError),
    /// The checksum of its `pg_control` is wrong, or its sizes are impossible or not those of its pages.
    ControlDamaged,
    /// Its `pg_control` has a version that this program does not know.
    ControlOfUnknownVersion {
        /// The version.
        version: u32,
    },
    /// It belongs to another cluster.
    OtherSystem {
        /// Its system identifier.
        found: u64,
        /// That of the cluster.
        expected: u64,
    },
    /// It has another major version.
    OtherMajor {
        /// Its major.
        found: Major,
        /// That of the cluster.
        expected: Major,
    },
    /// Its `PG_VERSION` names no major that is known.
    UnknownMajor {
        /// Content of the file.
        found: String,
    },
    /// Its pages or segment files have other sizes.
    OtherSizes,
    /// It is the data directory itself.
    IsTheCluster,
    /// It lies inside the data directory.
    InsideTheCluster,
    /// A server runs on it, or that cannot be ruled out.
    Running(ServerSign),
    /// It is an incremental backup.
    Incremental,
    /// Its `backup_label` does not say where the backup begins.
    LabelWithoutStart,
    /// Its `backup_label` belongs to another backup: it begins after the checkpoint of `pg_control`.
    LabelAfterControl {
        /// Where the backup begins by the label.
        label_lsn: Lsn,
        /// Redo point of `pg_control`.
        control_lsn: Lsn,
    },
    /// Its `pg_control` names no redo point.
    NoRedoPoint,
    /// Whether its timeline is an ancestor of the cluster's is unknown: there is no history file.
    TimelineUnknown {
        /// Timeline of the donor.
        donor: TimelineId,
        /// Timeline of the cluster.
        cluster: TimelineId,
    },
    /// At its redo point the cluster was on another timeline.
    OtherTimeline {
        /// Timeline of the donor.
        donor: TimelineId,
        /// Where the donor begins.
        redo_lsn: Lsn,
        /// Timeline of the cluster there.
        cluster: TimelineId,
    },
    /// Its timeline has the number of one of the cluster's and another history.
    OtherHistory {
        /// The timeline.
        tli: TimelineId,
    },
}

impl DonorRefusal {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

impl From<AccessError> for DonorRefusal {
    fn from(error: AccessError) -> Self {
        Self::Unreadable(error)
    }
}

impl std::error::Error for DonorRefusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(error) => error.source(),
            Self::NotADataDirectory(error) => error.source(),
            _ => None,
        }
    }
}

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
