//! Errors of a command line that its parser does not see.

use crate::output::escape::quoted;

/// The command line does not say what to do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// A format of rows for a list, or of a list for rows.
    #[error("--format takes {0} here")]
    OtherFormat(&'static str),
    /// No WAL to read.
    #[error("no WAL given: pass PATH, -p PATH or -D DATADIR, or set PGDATA")]
    NoWal,
    /// `-p` with something that is not a segment.
    #[error("with -p or -D, PATH is the first segment, and optionally the last one; \"{0}\" is not a segment name")]
    NotASegmentName(String),
    /// `-p` with more than two segments.
    #[error("with -p or -D, name at most two segments: the first and the last")]
    ManySegments,
    /// Rows can have one key or two.
    #[error("--by takes one key, or two with a comma between them, such as relation,cause; there are {0}")]
    ManyKeys(usize),
    /// Two keys that are the same.
    #[error("--by has the same key twice: pass it once, or with another key")]
    SameKeys,
    /// A key that cannot be combined with another.
    #[error(
        "--by since-redo takes no second key, and --by time only relation, rmgr, record, fork, database or tablespace"
    )]
    LoneKey,
    /// Rows that are always the same.
    #[error("--by since-redo has the same five rows in the same order for any WAL: leave out --top and --sort")]
    FixedRows,
    /// The length of periods, without periods.
    #[error("--bucket is the length of a period: add --by time")]
    BucketWithoutTime,
    /// Only what comes one after the other is printed line by line.
    #[error(
        "--follow prints checkpoint intervals or, with --by time, periods of time; by other keys there are no lines that end"
    )]
    FollowedByOther,
    /// The last segment of what has no end.
    #[error("--follow continues after the last segment: pass only the first one with -p or -D")]
    FollowedToSegment,
    /// An input that can be read only once.
    #[error("--follow reads its input again and again: {0} can be read only once")]
    FollowedOnce(String),
    /// Endless input has no sums.
    #[error(
        "--format prometheus writes sums at an end, which --follow has not: run stats without --follow from time to time"
    )]
    FollowedForPrometheus,
    /// A size that a double write buffer cannot have.
    #[error("a double write buffer has 1MB to {max}MB", max = crate::analysis::plan::dwb_size::LARGEST_MB)]
    NotABufferSize,
    /// More settings than are replayed at once.
    #[error("{0} settings were asked for; at most {max} are replayed at once", max = crate::analysis::plan::whatif::spacing::MAX_SETTINGS)]
    ManySettings(usize),
    /// Which index belongs to which table is not in WAL.
    #[error("--by table needs --names: which index belongs to which table is not in the WAL")]
    TablesWithoutNames,
    /// A set of WAL has no name or no path.
    #[error("\"{0}\" is not a valid set: expected NAME=PATH")]
    NotASet(String),
    /// Fewer than two sets.
    #[error("nothing to compare: pass at least two sets, NAME=PATH NAME=PATH")]
    OneSet,
    /// Two sets of the same name.
    #[error("two sets are called \"{0}\": give each another name")]
    SetTwice(String),
    /// No data directory to read.
    #[error("no data directory given: pass DATADIR or -D DATADIR, or set PGDATA")]
    NoDataDir,
    /// No data directory to write into.
    #[error("no data directory given: a command that writes takes it from DATADIR or -D DATADIR, never from PGDATA")]
    NoDataDirToWrite,
    /// With only one path, `undo` treats it as the journal.
    #[error(
        "only one path given, \"{0}\", which is the journal: undo takes DATADIR and JOURNAL_DIR, \
         DATADIR never from PGDATA alone"
    )]
    OnlyJournal(String),
    /// Flags about journals without a journal.
    #[error("--skip-changed, --allow-old-journal and --moved need --resume, or the command undo")]
    NoJournal,
    /// Which server replays, where nothing is replayed.
    #[error("--pg-bin, --sandbox and --keep-sandbox are about a server that replays WAL: add {0}")]
    NoReplay(&'static str),
    /// A program built without the terminal UI shows no demo.
    #[cfg(not(feature = "tui"))]
    #[error("this program was built without the terminal UI: pass a directory for the demo")]
    DemoNeedsDirectory,
    /// A hex dump in a machine format.
    #[error("--hex works with --format text only")]
    HexIsText,
    /// A compression of what is compressed.
    #[error("--zstd is for --as ndjson and --as csv: Parquet is compressed with zstd anyway")]
    ZstdOfParquet,
    /// Sums and groups are what Prometheus is given.
    #[error("--format prometheus is not for --by time and --by since-redo: Prometheus keeps the time itself")]
    NotForPrometheus,
    /// A manual page of nothing.
    #[error("no manual page of \"{0}\": pass a command of this program, or none for the program itself")]
    NotACommand(String),
    /// A block is not a number.
    #[error("\"{0}\" is not a valid block: expected 0 to {max}", max = crate::types::MAX_BLOCK_NUMBER)]
    NotABlock(String),
    /// A page cannot be read from its name.
    #[error("{0}")]
    NotAPage(String),
    /// The terminal UI was requested where no answer would be reliable.
    #[error(
        "{0}: pg_control is missing or damaged, so no answer of the terminal UI would be reliable; `pg_dwbinspect \
         info {plain}` and `pg_dwbinspect check {plain}` show what is still known",
        plain = quoted(.0)
    )]
    NothingCertain(String),
    /// Two data directories.
    #[error("the data directory was given twice: pass DATADIR or -D DATADIR, not both")]
    TwoDataDirs,
    /// The terminal UI was requested without a terminal. The command that prints the same.
    #[cfg(feature = "tui")]
    #[error("the terminal UI needs a terminal, and standard output is not one; use {0}")]
    NoTerminal(&'static str),
    /// The terminal can only print.
    #[cfg(feature = "tui")]
    #[error("this terminal (TERM=dumb) cannot show a screen; use {0}")]
    DumbTerminal(&'static str),
}
