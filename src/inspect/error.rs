//! Why an inspection could not be made. What is wrong with the data is a finding; this says that nobody could look.

use std::path::{Path, PathBuf};

use super::page_name::PageName;
use super::repair::session::FillError;
use crate::analysis::changes::events::FileEvent;
use crate::analysis::pages::select::TermError;
use crate::analysis::verdict::images::FetchError;
use crate::analysis::verdict::page_history::WalGap;
use crate::analysis::verdict::rebuild::NotRebuildable;
use crate::cluster::data_dir::{DataDir, NotADataDir, data_dirs_below};
use crate::cluster::donor::DonorRefusal;
use crate::cluster::innodb::is_innodb;
use crate::cluster::names::RelationNames;
use crate::cluster::names_file::NamesFileError;
use crate::cluster::open::AccessError;
use crate::cluster::tar_backup::TarBackup;
use crate::cluster::wal::WalSetError;
use crate::output::json::time_words;
use crate::output::last_resorts::{tar_backup_words, ways_on};
use crate::parsers::innodb::InnodbPageId;
use crate::parsers::wal::payload::PgTimestamp;
use crate::rebuild::{NoServer, NotBuilt, RebuildError};
use crate::repair::apply::Stopped;
use crate::repair::blocker::{Blocker, Overrides};
use crate::repair::journal::JournalError;
use crate::repair::outside::OutsideError;
use crate::repair::prepare::PrepareError;
use crate::repair::witness::StartSign;
use crate::salvage::SalvageError;
use crate::types::{Lsn, PageId, RelFileLocator};

/// Relations that a message names one by one.
const MAX_NAMED: usize = 12;

/// The input is not what the work needs, or the system refused it.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The path is not a data directory.
    #[error(transparent)]
    NotADataDir(#[from] NotADataDir),
    /// The path holds a base backup in tar format.
    #[error("{}", tar_backup_words(.0))]
    TarBackup(Box<TarBackup>),
    /// A directory stands among several paths.
    #[error("{} is a directory: where several paths are given, all must be files", .0.display())]
    DirectoryAmongFiles(PathBuf),
    /// A file whose header and slots are not those of a double write buffer.
    #[error("{} is not a double write buffer file: neither its header nor its slots are those of one", .0.display())]
    NotADwbFile(PathBuf),
    /// A directory with neither `PG_VERSION` nor DWB files.
    #[error("{} is not a data directory (it has no PG_VERSION) and holds no double write buffer files", .0.display())]
    NothingToInspect(PathBuf),
    /// A data directory of MySQL or MariaDB, given to a command for PostgreSQL.
    #[error(
        "{path} is a data directory of MySQL or MariaDB, not of PostgreSQL; use \"pg_dwbinspect innodb check {path}\"",
        path = .0.display()
    )]
    InnodbDirectory(PathBuf),
    /// A directory without a file of InnoDB.
    #[error(
        "{} is not a data directory of MySQL or MariaDB: it has no system tablespace (ibdata1), no tablespaces (.ibd) and no \
         doublewrite buffer", .0.display()
    )]
    NotInnodb(PathBuf),
    /// A directory of InnoDB cannot be listed.
    #[error(transparent)]
    InnodbFiles(AccessError),
    /// No tablespace has this number or path.
    #[error("no tablespace {0} exists: pass its number, or its path in the data directory, as in shop/orders.ibd")]
    NoSuchTablespace(String),
    /// The tablespace ends before the page.
    #[error("{0} is past the end of the tablespace, or cannot be read")]
    NoSuchInnodbPage(InnodbPageId),
    /// One of several sets of WAL.
    #[error("set {name}: {error}")]
    OfSet {
        /// Its name.
        name: String,
        /// The error.
        error: Box<InspectError>,
    },
    /// The WAL that was named cannot be opened, or is not of this cluster.
    #[error(transparent)]
    Wal(#[from] WalSetError),
    /// The given donor is refused.
    #[error("{} is not used as a donor: {why}", path.display())]
    Donor {
        /// The given path.
        path: PathBuf,
        /// Why not.
        #[source]
        why: Box<DonorRefusal>,
    },
    /// As before, where a bare segment name was given.
    #[error("{0}; pass the directory of the segments with -p DIRECTORY")]
    SegmentWithoutDirectory(#[source] WalSetError),
    /// A range of WAL ends before it begins.
    #[error("the start {start} is after the end {end}")]
    RangeReversed {
        /// Requested start.
        start: Lsn,
        /// Requested end.
        end: Lsn,
    },
    /// A range of time was asked for, and nothing says what was written when.
    #[error("this WAL contains no timestamps (no commit, abort or checkpoint): use --start and --end with LSNs")]
    NoTimes,
    /// All WAL is older than what was asked for.
    #[error("nothing was written at {} or later: the last timestamp in this WAL is {}", time_words(*time), time_words(*last))]
    AllBefore {
        /// From when on.
        time: PgTimestamp,
        /// The last time that is told.
        last: PgTimestamp,
    },
    /// All WAL is newer than what was asked for.
    #[error("nothing is known to be written before {}: the first timestamp in this WAL is {}", time_words(*time), time_words(*first))]
    AllAfter {
        /// Before when.
        time: PgTimestamp,
        /// The first time that is told.
        first: PgTimestamp,
    },
    /// No segment has this name.
    #[error("{name} is not a valid name of a segment of {segment_size} bytes")]
    NotASegment {
        /// The given name.
        name: String,
        /// Bytes of a segment.
        segment_size: u32,
    },
    /// Of two segments the second is the earlier one.
    #[error("the last segment named comes before the first one")]
    SpanReversed,
    /// Names of relations of one cluster, WAL of another.
    #[error(
        "--names belongs to another cluster: its system identifier is {names}, that of the WAL is {wal}; there the \
         numbers identify other relations"
    )]
    NamesOfOtherCluster {
        /// System identifier of the names.
        names: u64,
        /// System identifier of the WAL.
        wal: u64,
    },
    /// A file that was to hold names of relations.
    #[error(transparent)]
    NamesFile(#[from] NamesFileError),
    /// Which directories belong to the cluster is unknown, so nothing may be written anywhere.
    #[error("the directories of the cluster are unknown: {0}")]
    OwnDirectories(#[source] AccessError),
    /// The system refused.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// An image that was there before cannot be read.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Names of relations were given, and there is no catalog to look them up in.
    #[error("names can be looked up only in a data directory: pass \"{0}\" as numbers (REL, DB/REL or SPC/DB/REL)")]
    NamesUnknown(String),
    /// Names of relations were given for WAL without names.
    #[error("\"{0}\" is a name, but names are unknown: add --names, or pass numbers (REL, DB/REL or SPC/DB/REL)")]
    NamesNotGiven(String),
    /// No relation has this name.
    #[error("no relation named \"{0}\" (names are DATABASE.SCHEMA.RELATION or SCHEMA.RELATION)")]
    NoSuchRelation(String),
    /// Several relations have this name.
    #[error("\"{text}\" matches {} relations; pass one:{}", found.len(), lines_of(found))]
    AmbiguousRelation {
        /// The given text.
        text: String,
        /// Each relation, and its full name where that is known.
        found: Vec<(RelFileLocator, Option<String>)>,
    },
    /// `--relation` names something of which no file exists.
    #[error("--relation {0}: no such relation has a file here")]
    NoFileOfRelation(String),
    /// A saved plan lacks what was selected of it.
    #[error("the plan has no step for {0}")]
    NotInPlan(String),
    /// The examination was interrupted, so nothing is written.
    #[error("interrupted: nothing was written")]
    Interrupted,
    /// The reading of a double write buffer was interrupted before it had a result.
    #[error("interrupted: only a part of the double write buffer was read, so nothing is shown")]
    BufferInterrupted,
    /// Files were given where a data directory is needed.
    #[error("a data directory is needed, not single files")]
    NoDataDirectory,
    /// Without `pg_control` no image is proven.
    #[error("refused: pg_control cannot be trusted, so no image can be proven safe")]
    ControlUntrusted,
    /// Something forbids writing.
    #[error("{}", refusals(.0))]
    Refused(Vec<Blocker>),
    /// A name stands for every page, or for a block that no fork can have.
    #[error("\"{0}\" is not one page: pass RELATION BLOCK or RELATION:BLOCK")]
    NotOnePage(PageName),
    /// A name matches no page of the report.
    #[error("no damaged page is called {0}; `check` lists them")]
    NoDamagedPage(PageName),
    /// A plan cannot be made, or a saved one does not fit what is there.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// A file is not a plan.
    #[error("{} is not a valid plan: {source}", path.display())]
    NotAPlan {
        /// The file.
        path: PathBuf,
        /// The error.
        source: serde_json::Error,
    },
    /// A server was started after the cluster was judged.
    #[error("a server was started while the cluster was being judged: {0}; no page was written")]
    ServerWasStarted(#[source] StartSign),
    /// Reading a journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A journal cannot be made.
    #[error("{0}\nno page was written")]
    JournalNotBegun(#[source] JournalError),
    /// A page or an image is no longer what a plan says.
    #[error("{0}\nno page was written")]
    Unfit(#[source] FillError),
    /// Files of pages cannot be written.
    #[error("{}\nno page was written", files_closed(.0))]
    FilesClosed(Vec<AccessError>),
    /// A journal was begun and not finished.
    #[error("{source}\nno page was written; {} holds an unfinished journal", journal.display())]
    JournalNotFilled {
        /// Its directory.
        journal: PathBuf,
        /// Why.
        source: FillError,
    },
    /// Not all pages were written.
    #[error(transparent)]
    Unfinished(Box<Unfinished>),
    /// A name matches no page of the journal.
    #[error("the journal holds no page {0}")]
    NotInJournal(PageName),
    /// A name stands for several pages of the journal.
    #[error("{0} matches several pages: pass the path of the file")]
    SeveralPages(PageName),
    /// A relation was named in a form that none has.
    #[error(transparent)]
    NotARelation(#[from] TermError),
    /// The cluster has no such relation.
    #[error("no relation \"{text}\" in {}", data_dir.display())]
    NoRelationInCluster {
        /// The given text.
        text: String,
        /// The cluster.
        data_dir: PathBuf,
    },
    /// A relation of which neither a slot nor a file is there.
    #[error("--relation {0}: no such relation has a slot or a file here")]
    NoSlotOfRelation(String),
    /// A missing page that nothing else refers to.
    #[error(
        "{title}: the {} fork has no such {} ({}), and neither an image nor WAL knows of it",
        page.fork, if *has_file { "block" } else { "file" }, page.block
    )]
    PageNowhere {
        /// Name and path of the page.
        title: String,
        /// The page.
        page: PageId,
        /// The file is there, but not the block.
        has_file: bool,
    },
    /// There is no server that could replay records.
    #[error(transparent)]
    NoServer(#[from] NoServer),
    /// Records could not be replayed.
    #[error(transparent)]
    Rebuild(#[from] RebuildError),
    /// A page cannot be shown as it was.
    #[error("{title}: {why}")]
    NotThen {
        /// Name and path of the page.
        title: String,
        /// Why.
        why: Box<NotThen>,
    },
    /// Pages are built only for a cluster.
    #[error(
        "pages can be rebuilt as they were only for a data directory: pass it as PATH, before archives, or with -D"
    )]
    AtNeedsDataDir,
    /// Pages are built one by one.
    #[error("pass the pages to rebuild: --relation, and --block with a first and a last block")]
    AtNeedsPages,
    /// Too many pages were asked for at once.
    #[error("{pages} pages are more than are built at once: at most {limit}")]
    TooManyPagesAt {
        /// How many.
        pages: u64,
        /// The most that are.
        limit: u64,
    },
    /// WAL was not read to its end, so no page is built.
    #[error("interrupted: no page was built")]
    ReplayBrokenOff,
    /// No rows could be salvaged.
    #[error(transparent)]
    Salvage(#[from] SalvageError),
    /// Nothing is written there, as it may belong to a cluster.
    #[error(transparent)]
    Outside(#[from] OutsideError),
}

/// An incomplete repair or undo. Displays the written pages and the ways to continue.
#[derive(Debug, thiserror::Error)]
#[error("{}", ways_on(stopped, data_dir, journal, *overrides))]
pub struct Unfinished {
    /// Why, and what was written until then.
    #[source]
    pub stopped: Stopped,
    /// The data directory.
    pub data_dir: PathBuf,
    /// Directory of the journal, which holds the old bytes.
    pub journal: PathBuf,
    /// The overrides of the run, which continuing needs too.
    pub overrides: Overrides,
}

impl InspectError {
    /// Several relations are called `text`.
    pub(crate) fn ambiguous(text: &str, found: &[RelFileLocator], names: &RelationNames) -> Self {
        let found = found.iter().map(|rel| (*rel, names.full_name(*rel))).collect();
        Self::AmbiguousRelation { text: text.to_owned(), found }
    }

    /// The given donor is refused.
    pub fn donor(path: &Path, why: DonorRefusal) -> Self {
        Self::Donor { path: path.to_owned(), why: Box::new(why) }
    }

    /// `path` is not a data directory; a backup in tar format is recognised as such.
    pub(crate) fn not_a_data_dir(path: &Path, error: NotADataDir) -> Self {
        if matches!(error, NotADataDir::NoVersion(_)) && is_innodb(path) {
            return Self::InnodbDirectory(path.to_owned());
        }
        let backup = TarBackup::find(path).filter(|_| matches!(error, NotADataDir::NoVersion(_)));
        if let Some(backup) = backup {
            return Self::TarBackup(Box::new(backup));
        }
        match error {
            NotADataDir::NoVersion(path) => match data_dirs_below(&path) {
                none if none.is_empty() => Self::NotADataDir(NotADataDir::NoVersion(path)),
                data_dirs => Self::NotADataDir(NotADataDir::Above { path, data_dirs }),
            },
            error => Self::NotADataDir(error),
        }
    }
}

pub(crate) fn open_data_dir(path: &Path) -> Result<DataDir, InspectError> {
    DataDir::open(path).map_err(|error| InspectError::not_a_data_dir(path, error))
}

fn files_closed(errors: &[AccessError]) -> String {
    let named: Vec<String> = errors.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    match errors.len().saturating_sub(MAX_NAMED) {
        0 => named.join("\n"),
        more => format!("{}\nand {more} more files", named.join("\n")),
    }
}

fn refusals(blockers: &[Blocker]) -> String {
    let lines: Vec<String> = blockers.iter().map(|blocker| format!("refused: {blocker}")).collect();
    lines.join("\n")
}

fn lines_of(found: &[(RelFileLocator, Option<String>)]) -> String {
    let line = |(rel, name): &(RelFileLocator, Option<String>)| match name {
        Some(name) => format!("\n  {name} ({rel})"),
        None => format!("\n  {rel}"),
    };
    let list: String = found.iter().take(MAX_NAMED).map(line).collect();
    match found.len().saturating_sub(MAX_NAMED) {
        0 => list,
        more => format!("{list}\n  and {more} more"),
    }
}

/// Why a page cannot be shown as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotThen {
    /// There is no WAL so late.
    #[error("{lsn} is after the end of the WAL that was read, {end_lsn}")]
    AfterEnd {
        /// The moment.
        lsn: Lsn,
        /// Where WAL ends.
        end_lsn: Lsn,
    },
    /// There is no WAL so early.
    #[error(
        "{lsn} is before the WAL that was read, which begins at {first_lsn}: add an archive that reaches further back"
    )]
    BeforeWal {
        /// The moment.
        lsn: Lsn,
        /// Where WAL begins.
        first_lsn: Lsn,
    },
    /// WAL is missing there.
    #[error("{lsn} is in a gap from {} to {}: {gap}", gap.range.start, gap.range.end)]
    InGap {
        /// The moment.
        lsn: Lsn,
        /// The gap.
        gap: WalGap,
    },
    /// No record of the page has this number.
    #[error("there is no record {number} of this page: the WAL that was read has {records}")]
    NoSuchRecord {
        /// The number.
        number: u64,
        /// How many records the page has.
        records: u64,
    },
    /// The page did not exist at this point.
    #[error("the page did not exist at {lsn}: {event}")]
    NotThere {
        /// The moment.
        lsn: Lsn,
        /// Since this it was gone, or its file was there and it not yet; or, when it comes later, before this.
        event: FileEvent,
    },
    /// It cannot be built.
    #[error("{_0}")]
    NotRebuildable(NotRebuildable),
    /// Rebuilding it failed.
    #[error("the page could not be rebuilt: {_0}")]
    NotBuilt(NotBuilt),
}

impl NotThen {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::AfterEnd { .. } => "after_end",
            Self::BeforeWal { .. } => "before_wal",
            Self::InGap { .. } => "in_gap",
            Self::NoSuchRecord { .. } => "no_such_record",
            Self::NotThere { .. } => "not_there",
            Self::NotRebuildable(why) => why.code(),
            Self::NotBuilt(why) => why.code(),
        }
    }
}
