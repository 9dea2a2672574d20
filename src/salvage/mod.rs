//! Rows out of a cluster that no server can start.
//!
//! `source`, `catalogs` and `xacts` read what is left; `rows` decides of each tuple whether it is a row. `templates`, `transplant`
//! and `pages` put the rows into a fresh cluster of the same major in a sandbox, and `print` has its server print them. That
//! server never sees the damaged cluster, and nothing of that cluster runs: no function, trigger, policy or default.

mod catalogs;
mod changes;
mod complete;
mod extract;
mod fit;
mod keys;
mod layout;
mod objects;
mod out;
mod pages;
#[cfg(feature = "parquet")]
mod parquet;
mod print;
mod rivals;
mod room;
mod rows;
mod schema;
mod source;
mod templates;
mod toast;
mod transplant;
mod xacts;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use self::changes::Changes;
use self::changes::{Compared, Interruption};
pub use self::changes::{Interrupt, WalTrust};
use self::extract::Work;
use self::layout::in_utf8;
use self::out::{Output, copy_file_name};
pub use self::room::{Beforehand, BetterWay, Room};
pub use self::rows::PageLoss;
use self::rows::{Class, Row, sound_tuples};
pub use self::source::NoSource;
use self::source::{DatabaseFiles, Source};
use self::xacts::Xacts;
pub use self::xacts::{WalFacts, Why};
use crate::analysis::wal::row_facts::PageLogs;
use crate::cluster::open::AccessError;
use crate::parsers::control::ControlFile;
use crate::parsers::wal::version::Major;
use crate::rebuild::{RebuildError, SandboxOptions, ServerProgram};
use crate::repair::outside::OutsideError;
use crate::types::Lsn;

/// Why nothing could be salvaged.
#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    /// There is nothing to read rows from.
    #[error(transparent)]
    Source(#[from] NoSource),
    /// Nothing is written there.
    #[error(transparent)]
    Outside(#[from] OutsideError),
    /// The sandbox or its server failed.
    #[error(transparent)]
    Sandbox(#[from] RebuildError),
    /// What `initdb` made is not a cluster of this major.
    #[error("the cluster that initdb made cannot be read")]
    NotFresh,
    /// The server is built for pages of another size.
    #[error(
        "the server is built for pages of {found} bytes; the pages here have {expected}: pass --pg-bin of a server that is built for them"
    )]
    OtherBlockSize {
        /// Bytes of a page of the server.
        found: usize,
        /// Bytes of a page of the cluster.
        expected: usize,
    },
    /// There is too little room for the rows or the sandbox.
    #[error(
        "{} has {} bytes free, and about {} are needed: pass another directory (-o, --sandbox) or fewer tables (--table)",
        .0.directory.display(), .0.available_bytes, .0.needed_bytes
    )]
    NoRoom(Room),
    /// A table of notes could not be written.
    #[error("cannot write notes: {0}")]
    Csv(#[from] csv::Error),
}

/// Why no rows of a table were salvaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSalvaged {
    /// Rows of `pg_attribute` about these columns are lost.
    ColumnsLost(Vec<Vec<u8>>),
    /// A column has a lost type of a length that no other type has.
    TypeLost,
    /// `pg_class` names no file.
    NoFile,
    /// The file is missing.
    FileMissing,
}

impl NotSalvaged {
    /// The codes of all.
    pub const CODES: [&str; 4] = ["columns_lost", "type_lost", "no_file", "file_missing"];

    /// Stable name for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ColumnsLost(_) => "columns_lost",
            Self::TypeLost => "type_lost",
            Self::NoFile => "no_file",
            Self::FileMissing => "file_missing",
        }
    }
}

/// The salvaged rows of a table.
#[derive(Clone, Debug)]
pub struct TableReport {
    /// Name of the database, or its OID.
    pub database: String,
    /// Schema, or its OID.
    pub schema: String,
    /// Name.
    pub name: String,
    /// OID.
    pub oid: u32,
    /// Rows that belong to the table.
    pub rows: u64,
    /// Rows that may belong to it.
    pub uncertain: u64,
    /// Rows that were deleted, replaced or rolled back.
    pub deleted: u64,
    /// Why rows are uncertain, with their number.
    pub whys: BTreeMap<Why, u64>,
    /// Pages of the table.
    pub pages: u64,
    /// Pages that gave no row or not all of them, with the number of tuples that do not fit their columns.
    pub lost_pages: Vec<(u32, PageLoss, u64)>,
    /// Primary keys that lead to places where no row is left; rows among them may have been deleted.
    pub missing_keys: u64,
    /// There are more of them than are kept.
    pub has_more_keys: bool,
    /// Values whose TOAST chunks are not all there: they are NULL.
    pub toast_lost: u64,
    /// Files that could not be read.
    pub unreadable: u64,
    /// Rows that the server could not print.
    pub not_printed: u64,
    /// A type of a column is a guess.
    pub is_guessed: bool,
    /// Why there are no rows.
    pub problem: Option<NotSalvaged>,
    /// Files with rows, uncertain rows, deleted rows and keys of lost rows, below the output directory.
    pub files: [Option<PathBuf>; 4],
}

impl TableReport {
    fn file_name(&self) -> String {
        copy_file_name(self.schema.as_bytes(), self.name.as_bytes(), self.oid)
    }

    fn of(database: &DatabaseFiles, schema: &[u8], name: &[u8]) -> Self {
        Self {
            database: in_utf8(&database.label(), database.encoding),
            schema: in_utf8(schema, database.encoding),
            name: in_utf8(name, database.encoding),
            oid: 0,
            rows: 0,
            uncertain: 0,
            deleted: 0,
            whys: BTreeMap::new(),
            pages: 0,
            lost_pages: Vec::new(),
            missing_keys: 0,
            has_more_keys: false,
            toast_lost: 0,
            unreadable: 0,
            not_printed: 0,
            is_guessed: false,
            problem: None,
            files: [const { None }; 4],
        }
    }

    /// Tuples that do not fit their columns.
    pub fn rejected(&self) -> u64 {
        self.lost_pages.iter().map(|(_, _, rejected)| *rejected).sum()
    }

    fn add(&mut self, row: &Row<'_>) {
        let count = match row.class {
            Class::Row => &mut self.rows,
            Class::Uncertain(why) => {
                let count = self.whys.entry(why).or_default();
                *count = count.saturating_add(1);
                &mut self.uncertain
            }
            Class::Dead => &mut self.deleted,
        };
        *count = count.saturating_add(1);
        if row.class != Class::Dead {
            self.toast_lost = self.toast_lost.saturating_add(row.lost.len() as u64);
        }
    }

    fn move_to_uncertain(&mut self, why: Why) {
        let count = self.whys.entry(why).or_default();
        *count = count.saturating_add(1);
        self.rows = self.rows.saturating_sub(1);
        self.uncertain = self.uncertain.saturating_add(1);
    }

    fn not_printed(&mut self, kind: usize) {
        self.not_printed = self.not_printed.saturating_add(1);
        let count = match kind {
            0 => &mut self.rows,
            1 => &mut self.uncertain,
            2 => &mut self.deleted,
            _ => &mut self.missing_keys,
        };
        *count = count.saturating_sub(1);
    }
}

/// A file of a table or index that no catalog names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnnamedFile {
    /// Name of the database, or its OID.
    pub database: String,
    /// Its first segment, below the data directory.
    pub path: String,
    /// Bytes of all segments.
    pub bytes: u64,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowFormat {
    /// Text of COPY.
    #[default]
    Copy,
    /// CSV of COPY, without a header.
    Csv,
    /// Text of COPY, and Parquet made of it.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl RowFormat {
    /// End of the names of files with rows; notes on rows end in `.csv`.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Csv => "rows.csv",
            _ => "copy",
        }
    }

    /// False when rows are written in two formats.
    const fn has_one_file(self) -> bool {
        matches!(self, Self::Copy | Self::Csv)
    }

    fn row_ends(self, text: &[u8]) -> Vec<usize> {
        let mut is_quoted = false;
        let mut ends = Vec::new();
        for (at, byte) in text.iter().enumerate() {
            match byte {
                b'"' if self == Self::Csv => is_quoted = !is_quoted,
                b'\n' if !is_quoted => ends.push(at.saturating_add(1)),
                _ => {}
            }
        }
        ends
    }
}

/// The result of a salvage.
#[derive(Debug)]
pub struct SalvageReport {
    /// The tables, by database and OID.
    pub tables: Vec<TableReport>,
    /// Major version of the cluster.
    pub major: Major,
    /// Pages have checksums: a changed byte is seen.
    pub has_checksums: bool,
    /// `pg_control` can be trusted, and no check was run: other ways may lose less.
    pub may_start: bool,
    /// WAL since the last checkpoint was read to its end, or none is needed.
    pub has_wal: bool,
    /// Whether WAL belongs to the pages.
    pub wal_trust: WalTrust,
    /// Files that no catalog names; empty where only some tables were asked for.
    pub unnamed: Vec<UnnamedFile>,
    /// Directories that could not be listed, and tables with more keys of lost rows than are kept.
    pub skipped: Vec<String>,
}

/// The wanted rows.
#[derive(Debug, Default)]
pub struct SalvageOptions<'a> {
    /// Databases by name; all when empty.
    pub databases: &'a [String],
    /// Tables by name or pattern, with or without a schema; all when empty.
    pub tables: &'a [String],
    /// Deleted rows are wanted, too.
    pub deleted: bool,
    /// How rows are printed.
    pub format: RowFormat,
    /// A schema as `pg_dump --schema-only` writes it, for columns that the catalogs lost.
    pub schema: Option<&'a Path>,
    /// Older copies of the cluster, for columns that the catalogs lost.
    pub donors: &'a [PathBuf],
    /// A table (`schema.table`) whose columns the files of [`Salvage::add_file`] have.
    pub like: Option<&'a str>,
}

impl SalvageOptions<'_> {
    fn has(&self, database: &DatabaseFiles) -> bool {
        let name = String::from_utf8_lossy(&database.label()).into_owned();
        self.databases.is_empty() || self.databases.contains(&name)
    }
}

/// The first number for files that no catalog names.
const FIRST_FILE_NUMBER: u32 = 4_250_000_000;

/// A file that no catalog names: its number here, and its name.
#[derive(Clone, Debug)]
struct LooseFile {
    number: u32,
    name: String,
}

/// A file of the output directory that is about all databases: its name and its bytes.
pub type TopFile = (&'static str, Vec<u8>);

/// The remains of a cluster, opened.
#[derive(Debug)]
pub struct Salvage {
    source: Source,
    files: Vec<LooseFile>,
}

impl Salvage {
    /// Opens a data directory, what is left of one, or the directory of one database. `major`: what the user says it is.
    ///
    /// # Errors
    /// When there is nothing to read rows from.
    pub fn open(path: &Path, major: Option<Major>) -> Result<Self, SalvageError> {
        Ok(Self { source: Source::open(path, major)?, files: Vec::new() })
    }

    /// Takes a file that no catalog names: a path, or the number of a file in the directory of the database.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn add_file(&mut self, path: &Path) -> Result<(), SalvageError> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let own: Option<u32> = path.to_str().and_then(|text| text.parse().ok()).filter(|_| !path.exists());
        let number = match own {
            Some(number) => number,
            None => {
                let path = std::fs::canonicalize(path)
                    .map_err(|source| NoSource::from(AccessError::io("open", path, source)))?;
                let number = FIRST_FILE_NUMBER.saturating_add(u32::try_from(self.files.len()).unwrap_or_default());
                self.source.databases.iter_mut().for_each(|database| database.add_file(number, path.clone()));
                number
            }
        };
        self.files.push(LooseFile { number, name });
        Ok(())
    }

    /// Names the one database that is there, where no catalog does.
    pub fn name_database(&mut self, name: &str) {
        if let [database] = self.source.databases.as_mut_slice()
            && database.name.is_none()
        {
            database.name = Some(name.as_bytes().to_vec());
        }
    }

    /// The newest LSN that two pages have reached.
    pub(crate) const fn newest_lsn(&self) -> Lsn {
        self.source.newest_lsn
    }

    /// Has reading of pages end early when it is interrupted.
    pub fn set_interrupt(&mut self, interrupt: &Arc<Interrupt>) {
        self.source.interrupt = Interruption(Some(Arc::clone(interrupt)));
    }

    /// Brings pages forward by WAL.
    pub(crate) fn set_wal(&mut self, changes: Changes, wal: &WalFacts) {
        self.source.set_wal(changes, wal);
    }

    /// Holds pages against WAL that ends there.
    pub(crate) fn compare(&self, logs: &PageLogs, wal_end: Lsn) -> Compared {
        changes::compare(&self.source, logs, wal_end)
    }

    /// Major version of the cluster.
    pub const fn major(&self) -> Major {
        self.source.major
    }

    /// The data directory.
    pub fn root(&self) -> Option<&Path> {
        self.source.root.as_deref()
    }

    /// `pg_control`, where it can be trusted.
    pub const fn control(&self) -> Option<&ControlFile> {
        self.source.control.as_ref()
    }

    /// Directories that nothing is written into.
    pub fn protected(&self) -> &[PathBuf] {
        &self.source.protected
    }

    /// Counts rows; writes nothing.
    ///
    /// # Errors
    /// When it is interrupted.
    pub fn list(
        &self,
        wal: &WalFacts,
        options: &SalvageOptions<'_>,
        watch: &dyn Fn() -> ControlFlow<()>,
    ) -> Result<SalvageReport, SalvageError> {
        self.work(wal, options, (None, None), watch)
    }

    /// Has a server print the rows into a new directory. `finish` is given the report and writes what belongs to all databases.
    ///
    /// # Errors
    /// When nothing may be written there, or the sandbox fails.
    pub fn extract(
        &self,
        (wal, options): (&WalFacts, &SalvageOptions<'_>),
        (server, sandbox): (&ServerProgram, &SandboxOptions),
        directory: &Path,
        watch: &dyn Fn() -> ControlFlow<()>,
        finish: &dyn Fn(&SalvageReport) -> Vec<TopFile>,
    ) -> Result<SalvageReport, SalvageError> {
        let output = Output::create(directory, &self.source.protected)?;
        let report = self.work(wal, options, (Some((server, sandbox)), Some(&output)), watch)?;
        for (name, bytes) in finish(&report) {
            output.write_top(name, &bytes)?;
        }
        Ok(report)
    }

    fn loose<'a>(&'a self, options: &SalvageOptions<'a>) -> Option<(&'a str, &'a [LooseFile])> {
        options.like.map(|like| (like, self.files.as_slice()))
    }

    fn work(
        &self,
        wal: &WalFacts,
        options: &SalvageOptions<'_>,
        (server, output): (Option<(&ServerProgram, &SandboxOptions)>, Option<&Output>),
        watch: &dyn Fn() -> ControlFlow<()>,
    ) -> Result<SalvageReport, SalvageError> {
        let source = &self.source;
        let mut xacts = Xacts::new(source, wal);
        if xacts.needs_witnesses() {
            self.hear_witnesses(&mut xacts);
        }
        let donors: Result<Vec<Source>, NoSource> =
            options.donors.iter().map(|path| Source::open(path, Some(source.major))).collect();
        let donors = donors?;
        let SalvageOptions { tables, deleted, format, schema, .. } = *options;
        let loose = self.loose(options);
        let work = Work { source, donors: &donors, wal, server, output, tables, loose, deleted, format, schema, watch };
        let mut report = SalvageReport {
            tables: Vec::new(),
            major: source.major,
            has_checksums: source.checksums,
            may_start: source.control.is_some() && output.is_none(),
            has_wal: wal.is_complete,
            wal_trust: wal.trust,
            unnamed: Vec::new(),
            skipped: source.skipped.iter().map(ToString::to_string).collect(),
        };
        for database in &source.databases {
            if options.has(database) {
                report.tables.extend(work.database(
                    database,
                    &mut xacts,
                    (&mut report.unnamed, &mut report.skipped),
                )?);
            }
            if watch().is_break() {
                return Err(RebuildError::Interrupted.into());
            }
        }
        let is_asked = |name: &&String| options.databases.is_empty() || options.databases.contains(name);
        let lost = source.lost.iter().filter(|(_, name)| is_asked(name));
        report.skipped.extend(lost.map(|(oid, name)| format!("database {name}: directory {oid} is missing")));
        for table in report.tables.iter().filter(|table| table.has_more_keys) {
            let TableReport { database, schema, name, .. } = table;
            report
                .skipped
                .push(format!("{database}.{schema}.{name}: keys of lost rows after the first {}", keys::MAX_KEYS));
        }
        Ok(report)
    }

    /// Takes up what the hint bits of all rows tell of transactions.
    fn hear_witnesses(&self, xacts: &mut Xacts<'_>) {
        for database in &self.source.databases {
            for files in database.all_forks() {
                self.source.pages(files, &mut |_, page| {
                    sound_tuples(page).for_each(|tuple| xacts.witness(&tuple.header));
                });
            }
        }
    }
}
