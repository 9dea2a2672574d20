//! Everything that a report can find, as values. The words are in `output`.

use strum::{IntoStaticStr, VariantNames};

use super::belonging::{Contradiction, RowAhead, WrongRows};
use super::checksum_witness::ChecksumsContradict;
use super::dwb_format::ring_finding::RingFinding;
use super::error_words::ErrorWords;
use super::innodb::finding::InnodbFinding;
use super::page_links::{BrokenLink, LinkFault};
use super::verdict::fate::FateUnknown;
use super::verdict::outlook::Obstacle;
use super::wal::clock::SetBack;
use super::wal::hidden_redo::HiddenRedo;
use super::wal::walk::DamageReason;
use crate::cluster::config_files::ConfigFault;
use crate::cluster::state_files::StateFile;
use crate::cluster::wal::NoteKind;
use crate::parsers::control::{ChecksumState, DbState, SizeFault};
use crate::parsers::dwb::HeaderFault;
use crate::parsers::error::ParseError;
use crate::parsers::image::ImageError;
use crate::parsers::page_kind::PageKind;
use crate::parsers::wal::end::EndOfWal;
use crate::parsers::wal::payload::PgTimestamp;
use crate::parsers::wal::reader::Aborted;
use crate::types::{BlockNumber, Lsn, RelFileLocator, TimelineId};

/// What was found. The variant gives the code, the fields what the words need.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "fields are named as the words that are made of them")]
pub enum FindingKind {
    /// `postmaster.pid` of a server that is gone.
    StalePidFile { pid: i32, holder: PidHolder },
    /// `postmaster.pid` names a process that is not a server of the directory and keeps one from starting.
    PidInUse { pid: i32, holder: PidHolder },
    /// A server may be running. `is_hidden`: by processes that cannot be examined, not by `postmaster.pid`.
    ServerUnclear { sign: String, is_hidden: bool },
    /// A server is running.
    ServerRunning { sign: String },
    /// `postmaster.pid` cannot be understood.
    PidFileUnclear { sign: String },
    /// A size in `pg_control` cannot be right.
    ControlSizes(SizeFault),
    /// The CRC of `pg_control` is wrong.
    ControlCrc { stored: u32, computed: u32 },
    /// Files do not belong together. The code is that of the cause.
    Belonging(Contradiction),
    /// Rows of one relation name transactions that were never handed out. `next`: the next one, by `pg_control`.
    RowXid { rows: RowAhead, next: u32 },
    /// Rows of one relation name multixacts that were never made. `next`: the next one, by `pg_control`.
    RowMultixact { rows: RowAhead, next: u32 },
    /// `pg_wal` does not hold the checkpoint that `pg_control` names.
    CheckpointMissing { lsn: Lsn },
    /// Rows of a relation that are wrong by themselves.
    RowFault { name: String, rows: WrongRows },
    /// `PG_VERSION` and `pg_control` are of different versions.
    VersionsDisagree { control_version: u32, major: u32 },
    /// The least LSN that recovery must reach, by `pg_control`, is not on the timeline that it has there.
    #[strum(serialize = "minimum_elsewhere")]
    MinimumElsewhere { lsn: Lsn, tli: TimelineId },
    /// A directory that the server needs is not there.
    #[strum(serialize = "server_directory")]
    ServerDirectory { needed_for: Obstacle, why: ErrorWords },
    /// Something else stands where recovery lists a directory.
    #[strum(serialize = "not_a_directory")]
    NotADirectory(ErrorWords),
    /// No server can read the history of its timeline.
    #[strum(serialize = "history_file")]
    HistoryFile(ErrorWords),
    /// A server refuses a `pg_filenode.map`.
    FilenodeMap(ErrorWords),
    /// `pg_xact` does not say how transactions ended.
    XactFile(ErrorWords),
    /// `pg_multixact` does not say which transactions multixacts stand for.
    MultixactFile(ErrorWords),
    /// Something has the name of a file that a server writes, and is none.
    NotAFile(ErrorWords),
    /// A server refuses a file that it reads at its start.
    #[strum(serialize = "state_file")]
    StateFile { of: StateFile, why: ErrorWords },
    /// Transactions that WAL committed before the redo point are not committed in `pg_xact`: how many, the first, its record.
    #[strum(serialize = "commits_lost")]
    CommitsLost { count: u64, xid: u32, record_lsn: Lsn },
    /// `pg_commit_ts` lacks times of transactions that WAL committed before the redo point.
    CommitTimesLost { count: u64, xid: u32, record_lsn: Lsn },
    /// `pg_multixact` lacks multixacts that WAL made before the redo point.
    MultixactsLost { count: u64, multi: u32, record_lsn: Lsn },
    /// A transaction was prepared before the redo point and not ended since, and its file is gone.
    #[strum(serialize = "prepared_missing")]
    PreparedMissing { record_lsn: Lsn },
    /// The configuration keeps a server from starting, or may be elsewhere.
    #[strum(serialize = "configuration")]
    Configuration(ConfigFault),
    /// Owners and permissions of a file and of some others differ from those of most.
    OddModes { found: (u32, u32), usual: (u32, u32), count: usize },
    /// A volume has no room for the next segment of WAL.
    NoRoom { free_bytes: u64, needed_bytes: u64 },
    /// `pg_control` is that of a server that was not built as usual, and nothing else shows that.
    UnusualBuild { field: &'static str, found: u32, usual: u32 },
    /// `PG_VERSION` of a database is missing or of another major.
    DatabaseVersion(ErrorWords),
    /// The directory of a database is missing.
    DatabaseMissing { name: String },
    /// What the server put into a tablespace is missing. `relations`: how many there the catalogs certainly have.
    TablespaceMissing { name: String, relations: u64 },
    /// Replay copies a database from the files of another one as they are now.
    #[strum(serialize = "database_copied")]
    DatabaseCopied { record_lsn: Lsn, source: String, is_missing: bool },
    /// The first file of an index or a sequence has no page.
    #[strum(serialize = "relation_file_empty")]
    RelationFileEmpty { name: String },
    /// A table has far fewer pages than the server counted, and its visibility map is gone.
    RelationShort { name: String, blocks: u64, counted: u64 },
    /// Archives are read page by page, and nothing is compared.
    NotCompared,
    /// A sound page is of another kind than its relation; `further`: more such pages than are named one by one.
    #[strum(serialize = "page_of_other_kind")]
    PageOfOtherKind { name: String, block: BlockNumber, kind: PageKind, further: usize },
    /// The first page of an index or of a sequence is all zero.
    #[strum(serialize = "first_page_zeroed")]
    FirstPageZeroed { name: String },
    /// Replay cannot make a tablespace of WAL.
    #[strum(serialize = "tablespace_of_wal")]
    TablespaceOfWal { record_lsn: Lsn, location: String, why: TablespaceFault },
    /// A directory stands where servers have the link of a tablespace, and recovery ends over it.
    TablespaceNoLink,
    /// The first file of a relation that the catalog has is missing.
    RelationFileMissing { name: String },
    /// The init fork of an unlogged relation is missing, or has no page, and an index has some.
    InitForkMissing { name: String, is_empty: bool },
    /// An init fork lies beside a permanent relation, which recovery empties for that.
    InitForkOfPermanent { name: String },
    /// More such files than are named one by one.
    MoreRelationFiles { count: u64 },
    /// A state in `pg_control` with which no server starts.
    UnknownState(DbState),
    /// A `data_checksum_version` that no server writes.
    UnknownChecksums { code: u32 },
    /// A restored backup before the end of the backup.
    RestoredBackup { start_lsn: Lsn },
    /// `pg_control` was written by `pg_resetwal`.
    WalWasReset,
    /// `backup_label` is there.
    BackupLabel { redo_lsn: Option<Lsn> },
    /// A signal file is there.
    RecoverySignal,
    /// An incremental backup that was not combined.
    IncrementalBackup,
    /// WAL ends before the backup does. `end_is_required`: the server insists on the end.
    BackupWalIncomplete { end_is_required: bool },
    /// Replay of a base backup cannot begin, or not be followed.
    ReplayCannotBegin(Box<FateUnknown>),

    /// Entries among the double write buffer's files that are not such files.
    #[strum(serialize = "stranger")]
    Unrecognized(Unrecognized),
    /// A file of the double write buffer is all zeros.
    AllZero,
    /// What is found in a buffer with a control file. The code is that of the part.
    Ring(RingFinding),
    /// The header of a file breaks a rule.
    HeaderFault(HeaderFault),
    /// Nothing proves the layout of a file.
    LayoutGuessed { layout: &'static str },
    /// Header and slots of a file are of different page sizes.
    HeaderBlockSize { header: u32, slots: u32 },
    /// A file is of another page size than the cluster.
    BlockSize { file: u32, cluster: u32 },
    /// A server of this layout never reads its buffer.
    NeverRead { layout: &'static str },
    /// A file ends before its slots do.
    CutShort { size_bytes: u64, missing_slots: u64 },
    /// Bytes after the last whole slot.
    TrailingBytes { bytes: u64 },
    /// A file holds more slots than its header says.
    LongerThanHeader,
    /// Slots that fail their CRC.
    BadSlots { bad: u64, used: u64 },
    /// Images that break rules of pages under a right slot CRC.
    ImplausibleImages { count: u64 },
    /// Slot headers that break rules under a right slot CRC.
    ImplausibleHeaders { count: u64 },
    /// Slots with another LSN than their image.
    LsnMismatch { slots: u64 },
    /// The newest header is older than `pg_control`.
    HeaderOlderThanControl { newest_lsn: Lsn, expected_lsn: Lsn },
    /// The newest header is newer than `pg_control`.
    HeaderNewerThanControl { newest_lsn: Lsn, expected_lsn: Lsn },
    /// A file of the buffer is missing before others.
    MissingFile { missing: u32, last: u32 },
    /// No checkpoint has ended since a file was made.
    NeverReset {
        /// The checkpoint of `pg_control` is known, and tells them instead.
        has_control: bool,
    },
    /// The header of a file is older than the newest one.
    #[strum(serialize = "header_behind")]
    HeaderOutdated { batch: u64, lsn: Lsn, newest_lsn: Lsn },
    /// Files of different layouts or page sizes.
    MixedLayouts { other: String },
    /// Slots of the first file with numbers that no server writes into it.
    SlotId { count: u64, slots_per_file: u64 },
    /// Slots of another number of slots a file.
    OtherGeometry { count: u64, slots_per_file: u64 },
    /// The configured size does not give the files that are there.
    OtherSize { files: u64, slots_per_file: u64 },
    /// The current batch fills the whole ring.
    Wrapped,
    /// The data directory has no double write buffer.
    NoDwb,
    /// Include lines of the configuration were not followed.
    Include { lines: usize },

    /// What is found in a data directory of MySQL or MariaDB. The code is that of the part.
    Innodb(InnodbFinding),

    /// Damaged pages of the cluster.
    DamagedPages(DamagedPages),
    /// Damaged pages of unlogged relations.
    Unlogged { count: u64 },
    /// Damaged pages that the crash did not tear.
    NotACrashTear { count: u64 },
    /// Pages were to be built by replay, and none was.
    NotRebuilt { pages: u64, why: ErrorWords },
    /// A file ends inside a page.
    PartialPage { have_bytes: usize, block: BlockNumber },
    /// A segment file is longer than a segment.
    SegmentTooLong { size_bytes: u64, full_bytes: u64 },
    /// Pages are missing before others of the same relation.
    MissingPages(MissingPages),
    /// The cluster was not shut down cleanly.
    NotShutDown,
    /// Data checksums are off.
    ChecksumsOff,
    /// Data checksums are off by `pg_control`, and pages have right ones.
    ChecksumsContradict(ChecksumsContradict),
    /// Data checksums are being turned on or off.
    ChecksumsChanging(ChecksumState),
    /// A gap in the names of relations.
    Names(ErrorWords),
    /// Gaps in the names of relations, all together.
    NamesIncomplete { gaps: usize, first: ErrorWords },

    /// A page of an index that is not what others say. Goes by the code of the first fault.
    Link { block: BlockNumber, fault: LinkFault, links: Vec<BrokenLink> },
    /// More such pages than are named one by one.
    BrokenLinks { further: u64 },
    /// Such pages in files that the catalog does not have.
    LinksUncertain { count: u64 },
    /// Named pages that only replay builds, more than were looked up.
    LinksNotLookedUp { count: u64 },
    /// An index too large to compare its pages.
    LinksNotFollowed { rel: RelFileLocator, max_pages: usize },
    /// Pages that only damaged pages contradict.
    LinksOfDamagedPages { count: usize },

    /// Something about the set of WAL segments. Goes by the code of the note.
    Wal(WalRemark),
    /// WAL pages and `pg_control` are of different versions.
    WalVersion { major: u32, control_version: u32 },
    /// Two segments were named, and those between them are not read.
    TwoSegments { between: u64 },
    /// A record tells an earlier time than one before it.
    ClockSetBack(SetBack),
    /// A record tells a time at which no server can have written it.
    ImpossibleTime { lsn: Lsn, time: PgTimestamp },
    /// A range that begins with a time leaves out what was written before the first time that WAL tells.
    TimeUnknownBefore { first_lsn: Lsn, bytes: u64 },
    /// Names of relations that do not say which cluster they are of.
    NamesOfUnknownCluster,
    /// WAL cannot be read up to its end.
    Damage(WalDamage),
    /// WAL changes while it is read.
    WalChanging(WalChange),
    /// In the page that was written last, sound records follow one that was not finished.
    WalUnfinished {
        /// Where that one would start.
        end: EndOfWal,
        /// The first of those that follow.
        first_lsn: Lsn,
    },
    /// A compressed or archived segment goes on after its end.
    #[strum(serialize = "behind_segment")]
    AfterSegment(ErrorWords),
    /// A record with a right checksum that cannot be decoded.
    Payload(ParseError),
    /// A record that a crash cut off and the server replaced.
    AbortedRecord(Aborted),
    /// An image that cannot be restored.
    Image { block: BlockNumber, record_lsn: Lsn, error: ImageError },
    /// More such images than are named one by one.
    #[strum(serialize = "more_unreadable_images")]
    MoreImages { count: u64 },
    /// Images that redo does not apply.
    NotApplied { count: u64 },
    /// A redo point that no record names, between these addresses: images show it.
    HiddenRedo { after: Lsn, before: Lsn },
    /// Images before the first known redo point whose cause depends on the one before them.
    BeforeFirstRedo { images: u64 },
    /// Images for hint bits alone in an interval that is not over.
    HintsSoFar { images: u64 },
}

/// Who has the number in `postmaster.pid` now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PidHolder {
    /// Nobody.
    Nobody,
    /// A process that is not a server of the directory.
    Other {
        /// What runs.
        command: String,
    },
    /// A process that has ended and was not collected.
    Zombie {
        /// What it was.
        command: String,
        /// Number and name of its parent.
        parent: Option<(i32, String)>,
    },
}

/// Entries that are not files of the double write buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unrecognized {
    /// One, by its path.
    Entry(String),
    /// Further ones, by their number.
    Further(u64),
}

/// Why replay cannot make a tablespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablespaceFault {
    /// There is nothing where it shall lie.
    Missing,
    /// What is there is no directory.
    NotADirectory,
    /// The directory belongs to another user than the cluster, who may not change its permissions.
    OtherOwner {
        /// The user.
        uid: u32,
    },
    /// In place of its link there is a directory with something in it.
    NoLink,
}

/// Damaged pages, and what becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamagedPages {
    /// Pages with a verdict each, of which some need something.
    Judged {
        /// How many.
        count: usize,
    },
    /// Pages that replay or the server repairs.
    Harmless {
        /// How many.
        count: usize,
    },
    /// Pages of a scan without verdicts.
    Scanned {
        /// How many.
        count: u64,
        /// Of how many.
        pages: u64,
        /// The cluster was shut down cleanly.
        is_clean: bool,
    },
    /// Pages of a scan that were compared with WAL.
    Replayed {
        /// How many.
        count: u64,
        /// Of how many.
        pages: u64,
        /// How many of them stay damaged.
        real_damage: u64,
        /// Of how many that is unknown.
        unknown: u64,
    },
}

/// Pages that are missing before others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingPages {
    /// Whole segment files.
    Segments {
        /// The first.
        first: u32,
        /// The last.
        last: u32,
        /// A file after them.
        later: String,
        /// Its size.
        size_bytes: u64,
    },
    /// The end of a segment file.
    EndOfSegment {
        /// Its size.
        size_bytes: u64,
        /// Bytes that it lacks.
        missing_bytes: u64,
    },
}

/// What is odd about a set of WAL segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalRemark {
    /// A note of the set.
    Note {
        /// What it is about.
        kind: NoteKind,
        /// What was found, as the set words it.
        what: String,
    },
    /// A running server gave a listed segment another name, or removed it.
    Recycled {
        /// The segment.
        segment: String,
    },
}

impl WalRemark {
    /// What it is about.
    #[must_use]
    pub const fn kind(&self) -> NoteKind {
        match self {
            Self::Note { kind, .. } => *kind,
            Self::Recycled { .. } => NoteKind::Recycled,
        }
    }
}

/// Whether reading goes on after damage, at the next page that starts a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resync {
    /// It does not, and cannot be asked to.
    #[default]
    Never,
    /// It does not; it would if it was asked to.
    Off,
    /// It does.
    On,
}

impl Resync {
    /// What was asked for of work that can go on.
    #[must_use]
    pub const fn of(asked: bool) -> Self {
        if asked { Self::On } else { Self::Off }
    }

    /// True when reading goes on.
    #[must_use]
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// WAL that cannot be read up to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalDamage {
    /// Reading failed and went on later.
    Gap {
        /// What was found.
        reason: DamageReason,
        /// Where.
        at: Lsn,
        /// End of the last good record before it.
        from: Lsn,
        /// The first good record after it.
        resumed: Option<Lsn>,
    },
    /// More such findings than are kept.
    Further(u64),
    /// Sound records follow the end.
    RecordsFollow {
        /// The end.
        end: EndOfWal,
        /// The first of them.
        first_lsn: Lsn,
        /// WAL between was on disk once.
        was_synced: bool,
        /// Whether they can be read all the same.
        resync: Resync,
    },
    /// `pg_control` knows of later WAL.
    BeforeKnownEnd {
        /// The end.
        end: EndOfWal,
        /// What `pg_control` knows of.
        known_lsn: Lsn,
    },
}

/// WAL that changes while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalChange {
    /// What failed could be read a moment later.
    ReadLater {
        /// Where.
        at: Lsn,
    },
    /// The end moved each time.
    EndMoves {
        /// The end in the last reading.
        end_lsn: Lsn,
    },
}

impl From<HiddenRedo> for FindingKind {
    fn from(HiddenRedo { after, before }: HiddenRedo) -> Self {
        Self::HiddenRedo { after, before }
    }
}

impl FindingKind {
    /// Stable name for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Link { fault, .. } => fault.code(),
            Self::Wal(remark) => remark.kind().name(),
            Self::Ring(found) => found.code(),
            Self::Innodb(found) => found.into(),
            Self::Belonging(found) => found.code(),
            _ => self.into(),
        }
    }

    /// A file or directory of the server is missing or damaged, other than those with pages and WAL.
    #[must_use]
    pub(crate) const fn is_of_server_files(&self) -> bool {
        matches!(
            self,
            Self::ServerDirectory { .. }
                | Self::NotADirectory(_)
                | Self::HistoryFile(_)
                | Self::FilenodeMap(_)
                | Self::XactFile(_)
                | Self::MultixactFile(_)
                | Self::NotAFile(_)
                | Self::StateFile { .. }
                | Self::PreparedMissing { .. }
                | Self::CommitsLost { .. }
                | Self::CommitTimesLost { .. }
                | Self::MultixactsLost { .. }
                | Self::DatabaseVersion(_)
                | Self::DatabaseMissing { .. }
                | Self::TablespaceMissing { .. }
                | Self::DatabaseCopied { .. }
                | Self::RelationFileEmpty { .. }
                | Self::RelationShort { .. }
                | Self::TablespaceOfWal { .. }
                | Self::TablespaceNoLink
                | Self::RelationFileMissing { .. }
                | Self::InitForkMissing { .. }
                | Self::InitForkOfPermanent { .. }
                | Self::MoreRelationFiles { .. }
        )
    }

    /// The codes of all findings that there can be.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        use strum::IntoEnumIterator;
        let by_part = ["link", "wal", "ring", "innodb", "belonging"];
        let own = Self::VARIANTS.iter().copied().filter(move |name| !by_part.contains(name));
        own.chain(LinkFault::iter().map(LinkFault::code))
            .chain(NoteKind::iter().map(NoteKind::name))
            .chain(RingFinding::VARIANTS.iter().copied())
            .chain(InnodbFinding::VARIANTS.iter().copied())
            .chain(Contradiction::VARIANTS.iter().copied())
    }
}
