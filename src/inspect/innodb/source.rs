//! A data directory of MySQL or MariaDB, opened: its files, tablespaces, doublewrite buffer and redo log.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::analysis::in_order::all_cores;
use crate::analysis::innodb::candidates::BufferContent;
use crate::analysis::innodb::judge::{BufferTrust, InnodbCandidate, InnodbComparison, JudgeContext, compare_entry};
use crate::analysis::innodb::rules;
use crate::analysis::innodb::scan::{FoundPage, ScanReport, ScanRequest, WantedPages};
use crate::analysis::innodb::slot::{SlotFacts, SlotId};
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::cluster::innodb::doublewrite::{Doublewrite, DoublewriteLayout};
use crate::cluster::innodb::redo_log::{Family, RedoEnd, RedoLog};
use crate::cluster::innodb::tablespace::{NoSpace, PageReader, Tablespaces};
use crate::cluster::innodb::{Elsewhere, InnodbFiles};
use crate::cluster::open::{AccessError, Links, read_small};
use crate::inspect::error::InspectError;
use crate::output::escape::{printable, quoted};
use crate::output::json::innodb::SlotSetting;
use crate::parsers::innodb::layout::declared_pages;
use crate::parsers::innodb::page_check::PageHeader;
use crate::parsers::innodb::redo::RedoFormat;
use crate::parsers::innodb::{DirectorySettings, InnodbLsn, InnodbPageId};
use crate::report::Finding;

/// Longest file with the path of a data file elsewhere.
const MAX_LINK_BYTES: u64 = 4096;

const MAX_CNF_BYTES: u64 = 1 << 20;

/// Request of a check.
#[derive(Clone, Debug)]
pub struct InnodbRequest {
    /// Data directory of a stopped server.
    pub data_dir: PathBuf,
    /// Directory of the doublewrite buffer, where it is another one.
    pub doublewrite_dir: Option<PathBuf>,
    /// Option file of the server, which tells where files are that are elsewhere, and whether images are used.
    pub my_cnf: Option<PathBuf>,
    /// Threads that read.
    pub jobs: usize,
}

impl InnodbRequest {
    /// A data directory with everything in it, and a thread for every core.
    pub fn of(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: data_dir.into(), doublewrite_dir: None, my_cnf: None, jobs: all_cores() }
    }

    /// Its paths as arguments of a command.
    pub(crate) fn arguments(&self) -> String {
        let Self { data_dir, doublewrite_dir, my_cnf, .. } = self;
        let named = [("--doublewrite-dir ", doublewrite_dir), ("--my-cnf ", my_cnf)];
        let named = named.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?)));
        let argument = |(name, path): (&str, &PathBuf)| format!("{name}{}", quoted(&path.display().to_string()));
        named.chain([("", data_dir)]).map(argument).collect::<Vec<_>>().join(" ")
    }

    /// Directories that belong to the server, so that nothing is written into them: the data directory, and every one with files of
    /// it elsewhere that an option of the command, the option file or an `.isl` file names.
    pub fn protected(&self) -> Result<Vec<PathBuf>, InspectError> {
        let settings = self.settings()?;
        let elsewhere = self.elsewhere(&settings);
        let files = list_files(self)?;
        let parent = |path: &Path| path.parent().map(|parent| self.data_dir.join(parent));
        let mut found = vec![self.data_dir.clone()];
        found.extend(elsewhere.doublewrite);
        let directories = elsewhere.undo.iter().chain(&elsewhere.redo).chain(&elsewhere.tablespaces);
        found.extend(directories.map(|directory| self.data_dir.join(directory)));
        found.extend(settings.data_home.map(|directory| self.data_dir.join(directory)));
        found.extend(elsewhere.system.iter().filter_map(|file| parent(file)));
        for link in &files.links {
            let target = link_target(&self.data_dir, link).map_err(InspectError::InnodbFiles)?;
            found.extend(parent(Path::new(&target)));
        }
        Ok(found)
    }

    /// Settings in the option file; empty without one.
    pub fn settings(&self) -> Result<DirectorySettings, InspectError> {
        let Some(path) = &self.my_cnf else { return Ok(DirectorySettings::default()) };
        let text = read_small(path, Links::Follow, MAX_CNF_BYTES).map_err(InspectError::InnodbFiles)?;
        Ok(DirectorySettings::parse(&String::from_utf8_lossy(&text)))
    }

    /// Directories outside the data directory. A given directory of the doublewrite buffer overrides the one in
    /// the option file.
    pub fn elsewhere(&self, settings: &DirectorySettings) -> Elsewhere {
        let named = settings.doublewrite.as_ref().map(|directory| self.data_dir.join(directory));
        let home_dir = settings.data_home.as_ref().map(|directory| self.data_dir.join(directory));
        // It may be the data directory by another name.
        let real = |path: &Path| path.canonicalize().ok();
        let is_other = |home: &PathBuf| real(home).is_none() || real(home) != real(&self.data_dir);
        let path = |text: &Option<String>| text.as_deref().map(PathBuf::from);
        let home = settings.data_home.as_deref().map(Path::new);
        let in_home = |file: &str| home.map_or_else(|| PathBuf::from(file), |home| home.join(file));
        let mut system: Vec<PathBuf> = settings.system_files.iter().map(|file| in_home(file)).collect();
        if system.is_empty() && home.is_some() {
            system.push(in_home("ibdata1"));
        }
        Elsewhere {
            doublewrite: self.doublewrite_dir.clone().or(named),
            data_home: home_dir.filter(is_other),
            system,
            undo: path(&settings.undo),
            redo: path(&settings.redo),
            tablespaces: settings.tablespaces.iter().map(PathBuf::from).collect(),
        }
    }
}

/// Lists the files of a directory, before anything of it is read.
pub fn list_files(request: &InnodbRequest) -> Result<InnodbFiles, InspectError> {
    let root = &request.data_dir;
    let elsewhere = request.elsewhere(&request.settings()?);
    let files = InnodbFiles::list(root, &elsewhere).map_err(InspectError::InnodbFiles)?;
    if files.is_empty() { Err(InspectError::NotInnodb(root.clone())) } else { Ok(files) }
}

/// The path in an `.isl` file, which names a data file elsewhere.
pub(crate) fn link_target(data_dir: &Path, link: &Path) -> Result<String, AccessError> {
    let bytes = read_small(&data_dir.join(link), Links::Refuse, MAX_LINK_BYTES)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

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
    /// Settings in the option file.
    pub settings: DirectorySettings,
    /// The option file, if one was given.
    pub my_cnf: Option<PathBuf>,
}

impl InnodbSource {
    /// Opens a data directory, and reports what its files alone show.
    ///
    /// # Errors
    /// When it cannot be listed, or nothing of InnoDB is there.
    pub fn open(request: &InnodbRequest) -> Result<(Self, Vec<Finding>, Coverage), InspectError> {
        let root = request.data_dir.clone();
        let files = list_files(request)?;
        let spaces = Tablespaces::find(&root, &files);
        let log = RedoLog::read(&root, &files);
        let family = Family::of(&files, &log, spaces.has_full_crc32());
        let doublewrite = Doublewrite::open(&root, &files, &spaces, family == Family::Mysql8);
        let (settings, my_cnf) = (request.settings()?, request.my_cnf.clone());
        let source = Self { root, files, spaces, log, doublewrite, family, settings, my_cnf };
        let (mut findings, mut coverage) = (Vec::new(), Coverage::default());
        source.notes(&mut findings, &mut coverage);
        source.notes_of_spaces(&mut findings, &mut coverage);
        source.notes_of_files(&mut coverage);
        Ok((source, findings, coverage))
    }

    /// Context of the rows of slots and pages.
    pub fn setting(&self) -> SlotSetting<'_> {
        SlotSetting { family: self.family, log: &self.log, doublewrite: &self.doublewrite, spaces: &self.spaces }
    }

    /// Where recovery starts, if that is known.
    pub fn checkpoint(&self) -> Option<InnodbLsn> {
        self.log.checkpoint_lsn()
    }

    /// Reads the doublewrite buffer, until `watch` interrupts.
    pub(crate) fn read_buffer(
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

    /// Context for judging pages. `scan`: of the tablespaces that were read. `end`: of the redo log.
    pub fn context<'a>(
        &'a self,
        content: &'a BufferContent,
        scan: &ScanReport,
        end: Option<RedoEnd>,
    ) -> JudgeContext<'a> {
        let is_off = self.settings.is_doublewrite_off;
        JudgeContext {
            spaces: &self.spaces,
            doublewrite: &self.doublewrite,
            content,
            family: self.family,
            checkpoint: self.checkpoint(),
            end_lsn: end.map(|end| end.lsn),
            trust: BufferTrust::of(&self.doublewrite, content, self.checkpoint(), (scan, end), is_off),
        }
    }

    /// A scan of the tablespaces that `takes` names by index.
    pub(crate) fn scan_request<'a>(
        &'a self,
        takes: &'a (dyn Fn(usize) -> bool + Sync),
        wants: &'a WantedPages<'a>,
        jobs: usize,
    ) -> ScanRequest<'a> {
        ScanRequest { root: &self.root, spaces: &self.spaces, doublewrite: &self.doublewrite, takes, wants, jobs }
    }

    /// State of a page according to its bytes; `None` when there is no such page or it cannot be read.
    pub(crate) fn look_up(
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
    pub(crate) fn compare_entry(
        &self,
        (page, lsn): (InnodbPageId, InnodbLsn),
        reader: &mut PageReader<'_>,
        coverage: &mut Coverage,
    ) -> (InnodbComparison, Option<InnodbLsn>) {
        match self.find(page, reader, coverage) {
            Ok(found) => (compare_entry(found.state, found.lsn, lsn), Some(found.lsn)),
            Err(word) => (word, None),
        }
    }

    /// Compares every slot with the page of this slot.
    pub(crate) fn compare_slots(
        &self,
        facts: &SlotFacts,
        context: &JudgeContext<'_>,
        reader: &mut PageReader<'_>,
        coverage: &mut Coverage,
    ) -> Vec<(SlotId, (InnodbComparison, Option<InnodbLsn>))> {
        let named = facts.page().ok_or(InnodbComparison::Unknown);
        let found = named.and_then(|page| self.find(page, reader, coverage));
        let found = found.and_then(|found| context.judge(&found, reader, coverage).ok_or(InnodbComparison::Unknown));
        match found {
            Ok(page) => {
                let word = |one: &InnodbCandidate| (one.facts.slot, (one.comparison, Some(page.disk_lsn)));
                page.candidates.iter().map(word).collect()
            }
            Err(word) => vec![(facts.slot, (word, None))],
        }
    }

    /// As [`Self::look_up`], with the word for a missing page.
    fn find(
        &self,
        page: InnodbPageId,
        reader: &mut PageReader<'_>,
        coverage: &mut Coverage,
    ) -> Result<FoundPage, InnodbComparison> {
        let space = self.spaces.get(page.space_id).ok_or(InnodbComparison::NoTablespace)?;
        space.find(page.page_no).ok_or(InnodbComparison::BeyondEnd)?;
        self.look_up(page, reader, coverage).ok_or(InnodbComparison::Unknown)
    }

    /// Findings about the doublewrite buffer and the redo log.
    fn notes(&self, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
        let mut add = |finding| findings.push(finding);
        if let Some(pid) = self.spaces.locked_by {
            add(rules::SERVER_RUNNING
                .note(format!("process {pid} holds a lock on the system tablespace, as a running server does")));
            coverage.skip(SkippedPart::DataFiles, SkipReason::ServerMayRun);
        }
        match self.family {
            Family::Unknown => add(rules::UNKNOWN_SERVER.note("which server wrote the directory is unknown")),
            Family::MariadbOld => add(rules::UNKNOWN_RULES.note("the rules of MariaDB before 10.5 are not known here")),
            _ => {}
        }
        if self.doublewrite.is_header_lost {
            coverage.skip_once(SkippedPart::DoubleWriteBuffer, SkipReason::BufferNotFound);
        }
        match self.doublewrite.layout {
            DoublewriteLayout::Missing => {
                add(rules::NO_DOUBLEWRITE.note("no doublewrite buffer is there"));
            }
            DoublewriteLayout::Elsewhere => {
                let missing = rules::NO_DOUBLEWRITE.problem("the doublewrite buffer was not found");
                add(missing.because(rules::DOUBLEWRITE_ELSEWHERE));
            }
            DoublewriteLayout::Legacy(header) if header.is_from_copy => {
                add(rules::HEADER_COPY_USED
                    .problem("the first copy of the doublewrite header is damaged; the second was used")
                    .in_file("ibdata1"));
            }
            _ => {}
        }
        for name in &self.doublewrite.other_sizes {
            add(rules::OTHER_PAGE_SIZE
                .note(format!(
                    "the file has another page size than the instance ({} bytes)",
                    self.doublewrite.page_bytes
                ))
                .in_file(name));
        }
        for file in self.doublewrite.files.iter().filter(|file| file.trailing_bytes > 0) {
            add(rules::TRAILING_BYTES
                .note(format!("{} bytes after the last slot", file.trailing_bytes))
                .in_file(&file.name));
        }
        for file in &self.log.bad_headers {
            add(rules::REDO_HEADER
                .problem("the header of this file of the redo log is damaged, or not all there")
                .in_file(file)
                .at(0));
        }
        for file in &self.log.gaps {
            add(rules::REDO_MISSING
                .problem("the redo log continues in a file that is missing or too short")
                .in_file(file));
        }
        if self.log.checkpoint.is_none() {
            add(rules::NO_CHECKPOINT.problem("the checkpoint of the redo log is unknown"));
        } else if !self.log.is_checkpoint_certain {
            add(rules::CHECKPOINT_UNCERTAIN
                .note("a checkpoint block is damaged or missing that a newer checkpoint may have been in"));
        }
        // Of the two blocks in a file of newer MySQL one is not used, and holds anything.
        let both_used = self.log.format != Some(RedoFormat::Directory);
        for (file, offset) in self.log.damaged.iter().filter(|_| both_used) {
            add(rules::DAMAGED_CHECKPOINT.note("a checkpoint block has a wrong checksum").in_file(file).at(*offset));
        }
    }

    fn notes_of_files(&self, coverage: &mut Coverage) {
        if let Some(path) = self.my_cnf.as_ref().filter(|_| self.settings.has_includes) {
            coverage.skip(SkippedPart::file(path.display().to_string()), SkipReason::OptionFileIncludes);
        }
        let mut lost = |name| {
            let error = AccessError::io("find", &self.root.join(name), std::io::ErrorKind::NotFound.into());
            coverage.skip(SkippedPart::file(name), error);
        };
        if self.files.system.is_empty() {
            lost("ibdata1");
        }
        // Its tables of logs are files there in every server of this kind.
        if self.family == Family::Mysql8 && !self.root.join("mysql").is_dir() {
            lost("mysql");
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
                let what = format!("tablespace {} is claimed by {} too", space.id, printable(&first.name()));
                findings.push(rules::TWO_FILES.problem(what).in_file(&space.name()));
            }
            if space.page_0.is_damaged() {
                findings.push(
                    rules::PAGE_ZERO
                        .problem("page 0 is damaged; the tablespace is known from other pages")
                        .in_file(&space.name())
                        .at(0),
                );
            }
        }
        for (path, why) in &self.spaces.unknown {
            let path = path.display().to_string();
            match why {
                NoSpace::Access(error) => coverage.skip(SkippedPart::file(path), error),
                NoSpace::Empty => {
                    // MySQL writes page 0 when it makes a file: 9.7.4 did not start where its redo log named such a tablespace.
                    // MariaDB recreates it.
                    let of_mysql = matches!(self.family, Family::Mysql8 | Family::Mysql57 | Family::Mysql56);
                    let what = "the file has no page with content";
                    let empty = if of_mysql { rules::EMPTY_FILE.problem(what) } else { rules::EMPTY_FILE.note(what) };
                    findings.push(empty.in_file(&path));
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
