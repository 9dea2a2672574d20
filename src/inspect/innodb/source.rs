//! A data directory of MySQL or MariaDB, opened: its files, tablespaces, doublewrite buffer and redo log.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::request::link_target;
pub use super::request::{InnodbRequest, list_files};
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::finding_kind::FindingKind;
use crate::analysis::innodb::candidates::{BufferContent, EntryFacts};
use crate::analysis::innodb::compare::{InnodbComparison, compare_entry};
use crate::analysis::innodb::finding::InnodbFinding as Found;
use crate::analysis::innodb::judge::{BufferTrust, JudgeContext};
use crate::analysis::innodb::scan::{FoundPage, ScanReport, ScanRequest, WantedPages};
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::cluster::innodb::doublewrite::{Doublewrite, DoublewriteLayout};
use crate::cluster::innodb::files::InnodbFiles;
use crate::cluster::innodb::redo_end::RedoEnd;
use crate::cluster::innodb::redo_log::{Family, RedoLog};
use crate::cluster::innodb::tablespace::{NoSpace, PageReader, Tablespaces};
use crate::cluster::open::AccessError;
use crate::inspect::error::InspectError;
use crate::parsers::innodb::flags::declared_pages;
use crate::parsers::innodb::my_cnf::DirectorySettings;
use crate::parsers::innodb::page::PageHeader;
use crate::parsers::innodb::redo::RedoFormat;
use crate::parsers::innodb::{InnodbLsn, InnodbPageId};

/// A data directory that was opened.
#[derive(Debug)]
pub struct InnodbSource {
    /// Data directory.
    pub root: PathBuf,
    /// Its files by name.
    pub files: InnodbFiles,
    /// Tablespaces.
    pub spaces: Tablespaces,
    /// Redo log.
    pub log: RedoLog,
    /// The doublewrite buffer.
    pub doublewrite: Doublewrite,
    /// Whose rules count.
    pub family: Family,
    /// What the option file says.
    pub settings: DirectorySettings,
    /// The option file, if one was given.
    pub my_cnf: Option<PathBuf>,
}

/// True when the files of a directory are those of MySQL or MariaDB.
#[must_use]
pub fn is_innodb(path: &Path) -> bool {
    ["ibdata1", "mysql.ibd"].iter().any(|name| path.join(name).is_file())
}

impl InnodbSource {
    /// Opens a data directory.
    ///
    /// # Errors
    /// When it cannot be listed, or nothing of InnoDB is there.
    pub fn open(request: &InnodbRequest) -> Result<Self, InspectError> {
        let root = request.data_dir.clone();
        let files = list_files(request)?;
        let spaces = Tablespaces::find(&root, &files);
        let log = RedoLog::read(&root, &files);
        let family = Family::of(&files, &log, spaces.has_full_crc32());
        let doublewrite = Doublewrite::open(&root, &files, &spaces, family.has_buffer_files());
        let (settings, my_cnf) = (request.settings()?, request.my_cnf.clone());
        Ok(Self { root, files, spaces, log, doublewrite, family, settings, my_cnf })
    }

    /// Where recovery starts, if that is known.
    #[must_use]
    pub fn checkpoint(&self) -> Option<InnodbLsn> {
        self.log.checkpoint_lsn()
    }

    /// Reads the doublewrite buffer, until `watch` breaks it off.
    ///
    /// # Errors
    /// When it was broken off.
    pub fn read_buffer(
        &self,
        jobs: usize,
        coverage: &mut Coverage,
        watch: &dyn Fn() -> ControlFlow<()>,
    ) -> Result<BufferContent, InspectError> {
        let content = BufferContent::read(&self.doublewrite, &self.spaces, self.checkpoint(), jobs, coverage, watch);
        if matches!(self.doublewrite.layout, DoublewriteLayout::Elsewhere | DoublewriteLayout::Missing) {
            coverage.skip_once(SkippedPart::DoubleWriteBuffer, SkipReason::BufferNotFound);
        }
        if coverage.is_interrupted() { Err(InspectError::BufferInterrupted) } else { Ok(content) }
    }

    /// What pages are judged by. `scan`: of the tablespaces that were read. `end`: of the redo log.
    #[must_use]
    pub fn context<'a>(
        &'a self,
        content: &'a BufferContent,
        scan: &ScanReport,
        end: Option<RedoEnd>,
    ) -> JudgeContext<'a> {
        JudgeContext {
            root: &self.root,
            spaces: &self.spaces,
            doublewrite: &self.doublewrite,
            content,
            family: self.family,
            checkpoint: self.checkpoint(),
            end_lsn: end.map(|end| end.lsn),
            trust: BufferTrust::of(
                &self.doublewrite,
                content,
                self.checkpoint(),
                (scan, end),
                self.settings.is_doublewrite_off,
            ),
        }
    }

    /// A scan of the tablespaces that `takes` names by index.
    pub fn scan_request<'a>(
        &'a self,
        takes: &'a (dyn Fn(usize) -> bool + Sync),
        wants: &'a WantedPages<'a>,
        jobs: usize,
    ) -> ScanRequest<'a> {
        ScanRequest { root: &self.root, spaces: &self.spaces, doublewrite: &self.doublewrite, takes, wants, jobs }
    }

    /// True when a file of a tablespace has no page with content, and the server writes page 0 when it makes a file. MySQL 9.7.4 did not
    /// start where its redo log named such a tablespace; MariaDB makes it anew.
    #[must_use]
    pub fn lacks_page_0(&self) -> bool {
        matches!(self.family, Family::Mysql8 | Family::Mysql57 | Family::Mysql56)
            && self.spaces.unknown.iter().any(|(_, why)| matches!(why, NoSpace::Empty))
    }

    /// What a page's own bytes say; `None` when there is no such page or it cannot be read.
    pub fn look_up(
        &self,
        page: InnodbPageId,
        reader: &mut PageReader<'_>,
        coverage: &mut Coverage,
    ) -> Option<FoundPage> {
        let index = self.spaces.index_of(page.space_id)?;
        let space = self.spaces.all.get(index)?;
        match reader.page(space, page.page_no) {
            Ok(bytes) => {
                let bytes = bytes?;
                let state = self.doublewrite.state_of(&bytes, space, page.page_no);
                let lsn = PageHeader::of(&bytes).map(|header| header.lsn).unwrap_or_default();
                Some(FoundPage { space: index, page_no: page.page_no, state, lsn })
            }
            Err(error) => {
                coverage.skip_once(SkippedPart::file(space.name()), error);
                None
            }
        }
    }

    /// The word for an entry without an image and the page that it names, with the LSN of that page.
    pub fn compare_entry(
        &self,
        entry: &EntryFacts,
        reader: &mut PageReader<'_>,
        coverage: &mut Coverage,
    ) -> (InnodbComparison, Option<InnodbLsn>) {
        let Some(space) = self.spaces.get(entry.page.space_id) else { return (InnodbComparison::NoTablespace, None) };
        if space.find(entry.page.page_no).is_none() {
            return (InnodbComparison::BeyondEnd, None);
        }
        match self.look_up(entry.page, reader, coverage) {
            Some(found) => (compare_entry(found.state, found.lsn, entry.lsn), Some(found.lsn)),
            None => (InnodbComparison::Unknown, None),
        }
    }

    /// Findings about files, before any page is judged.
    pub fn notes(&self, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
        let (note, problem): (Severity, Severity) = (Finding::note, Finding::problem);
        let mut add = |finding| findings.push(finding);
        if let Some(pid) = self.spaces.locked_by {
            add(about(note, Found::InnodbServerRunning(pid), None));
            coverage.skip(SkippedPart::DataFiles, SkipReason::ServerMayRun);
        }
        match self.family {
            Family::Unknown => add(about(note, Found::InnodbUnknownServer, None)),
            Family::MariadbOld => add(about(note, Found::InnodbUnknownRules, None)),
            _ => {}
        }
        if self.doublewrite.is_header_lost {
            coverage.skip_once(SkippedPart::DoubleWriteBuffer, SkipReason::BufferNotFound);
        }
        match self.doublewrite.layout {
            DoublewriteLayout::Missing => add(about(note, Found::InnodbNoDoublewrite { expects_files: false }, None)),
            DoublewriteLayout::Elsewhere => {
                add(about(problem, Found::InnodbNoDoublewrite { expects_files: true }, None))
            }
            DoublewriteLayout::Legacy(header) if header.is_from_copy => {
                add(about(problem, Found::InnodbHeaderCopyUsed, Some("ibdata1")));
            }
            _ => {}
        }
        for name in &self.doublewrite.other_sizes {
            add(about(note, Found::InnodbOtherPageSize(self.doublewrite.page_bytes), Some(name)));
        }
        for file in self.doublewrite.files.iter().filter(|file| file.trailing_bytes > 0) {
            add(about(note, Found::InnodbTrailingBytes(file.trailing_bytes), Some(&file.name)));
        }
        for file in &self.log.bad_headers {
            add(about(problem, Found::InnodbRedoHeader, Some(file)).at(0));
        }
        for file in &self.log.gaps {
            add(about(problem, Found::InnodbRedoMissing, Some(file)));
        }
        if self.log.checkpoint.is_none() {
            add(about(problem, Found::InnodbNoCheckpoint, None));
        } else if !self.log.is_checkpoint_certain {
            add(about(note, Found::InnodbCheckpointUncertain, None));
        }
        // Of the two blocks in a file of newer MySQL one is not used, and holds anything.
        let both_used = self.log.format != Some(RedoFormat::Directory);
        for (file, offset) in self.log.damaged.iter().filter(|_| both_used) {
            add(about(note, Found::InnodbDamagedCheckpoint, Some(file)).at(*offset));
        }
        self.notes_of_spaces(findings, coverage);
        if let Some(path) = self.my_cnf.as_ref().filter(|_| self.settings.has_includes) {
            coverage.skip(SkippedPart::file(path.display().to_string()), SkipReason::OptionFileIncludes);
        }
        if self.files.system.is_empty() {
            let lost = AccessError::io("find", &self.root.join("ibdata1"), std::io::ErrorKind::NotFound.into());
            coverage.skip(SkippedPart::file("ibdata1"), lost);
        }
        // Its tables of logs are files there in every server of this kind.
        let of_mysql = self.root.join("mysql");
        if self.family == Family::Mysql8 && !of_mysql.is_dir() {
            let lost = AccessError::io("find", &of_mysql, std::io::ErrorKind::NotFound.into());
            coverage.skip(SkippedPart::file("mysql"), lost);
        }
        let errors = self.files.skipped.iter().chain(&self.log.skipped);
        for error in errors {
            coverage.skip(SkippedPart::DataFiles, error);
        }
    }

    fn notes_of_spaces(&self, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
        let mut reader = PageReader::new(&self.root);
        for space in self.spaces.all.iter().filter(|space| space.page_0.is_sound()) {
            let page_0 = reader.page(space, 0).ok().flatten();
            let declared = page_0.as_deref().and_then(declared_pages).unwrap_or_default();
            if u64::from(declared) > space.pages() {
                let reason = SkipReason::TablespaceShort { pages: space.pages(), declared };
                coverage.skip(SkippedPart::file(space.name()), reason);
            }
        }
        for (index, space) in self.spaces.all.iter().enumerate() {
            let first = self.spaces.index_of(space.id).filter(|first| *first != index);
            if let Some(first) = first.and_then(|first| self.spaces.all.get(first)) {
                let finding = Found::InnodbTwoFiles { space_id: space.id, other: first.name() };
                findings.push(about(Finding::problem, finding, Some(&space.name())));
            }
            if space.page_0.is_damaged() {
                findings.push(about(Finding::problem, Found::InnodbPageZero, Some(&space.name())).at(0));
            }
        }
        for (path, why) in &self.spaces.unknown {
            let path = path.display().to_string();
            match why {
                NoSpace::Access(error) => coverage.skip(SkippedPart::file(path), error),
                NoSpace::Empty => {
                    let severity = if self.lacks_page_0() { Finding::problem } else { Finding::note };
                    findings.push(about(severity, Found::InnodbEmptyFile, Some(&path)));
                }
                NoSpace::Unknown => coverage.skip(SkippedPart::file(path), SkipReason::UnknownTablespace),
            }
        }
        for link in &self.files.links {
            let name = link.display().to_string();
            match link_target(&self.root, link) {
                Ok(path) => coverage.skip(SkippedPart::file(name), SkipReason::OutsideDataDirectory { path }),
                Err(error) => coverage.skip(SkippedPart::file(name), error),
            }
        }
    }
}

/// What makes a finding a note or a problem.
type Severity = fn(FindingKind) -> Finding;

/// A finding about a file, or about everything.
pub fn about(severity: Severity, found: Found, file: Option<&str>) -> Finding {
    let finding = severity(FindingKind::Innodb(found));
    match file {
        Some(file) => finding.in_file(file),
        None => finding,
    }
}
