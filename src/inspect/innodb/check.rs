//! Pages of a directory: the damaged ones with their images in the doublewrite buffer, or every page by itself.

use std::ops::ControlFlow;

use super::source::{InnodbRequest, InnodbSource};
use crate::analysis::innodb::candidates::BufferContent;
use crate::analysis::innodb::judge::{BufferTrust, HeldImage, InnodbPage, TRX_SYSTEM};
use crate::analysis::innodb::rules;
use crate::analysis::innodb::scan::{ScanReport, scan};
use crate::analysis::skipped::{Coverage, Lacking, SkipReason, SkippedPart};
use crate::cluster::innodb::redo_log::{Family, NoEnd, RedoEnd};
use crate::cluster::innodb::tablespace::{PageReader, Tablespace};
use crate::inspect::error::InspectError;
use crate::parsers::innodb::page_check::{PageState, Unverifiable};
use crate::parsers::innodb::{InnodbLsn, InnodbPageId};
use crate::report::Finding;

/// Told the bytes done and in all (0: not known), and breaks the work off.
type Watch<'a> = &'a dyn Fn(u64, u64) -> ControlFlow<()>;

/// A directory, read and judged.
#[derive(Debug)]
pub struct InnodbExamination {
    /// The directory.
    pub source: InnodbSource,
    /// Content of the doublewrite buffer.
    pub content: BufferContent,
    /// The page scan.
    pub scan: ScanReport,
    /// Damaged pages, pages of zeros that have an image, and whole pages newer than the redo log that have an older one, in the order of
    /// tablespaces and pages.
    pub pages: Vec<InnodbPage>,
    /// Other pages that the doublewrite buffer names, if that was asked for.
    pub whole: Vec<InnodbPage>,
    /// End of the redo log, if that is known.
    pub end: Option<RedoEnd>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// Coverage.
    pub coverage: Coverage,
}

impl InnodbExamination {
    /// A directory of which nothing but its files is known.
    fn open(request: &InnodbRequest) -> Result<Self, InspectError> {
        let (source, findings, coverage) = InnodbSource::open(request)?;
        let (content, scan, end) = (BufferContent::default(), ScanReport::default(), None);
        Ok(Self { source, content, scan, pages: Vec::new(), whole: Vec::new(), end, findings, coverage })
    }

    /// The pages that were judged.
    pub fn all(&self) -> impl Iterator<Item = &InnodbPage> {
        self.pages.iter().chain(&self.whole)
    }

    /// True after a clean shutdown; `None` if the log does not show it.
    pub fn is_shut_down(&self) -> Option<bool> {
        let is_known = self.source.log.is_checkpoint_certain && self.source.log.has_whole_files();
        self.end.map(|end| end.is_clean).filter(|is_clean| !is_clean || is_known)
    }

    /// True for a whole page newer than the end of the log, which MariaDB 10.11.10 and later overwrite with older images.
    /// Source: `recv_dblwr_t::find_page`, `storage/innobase/log/log0recv.cc` of MariaDB.
    fn is_overwritten(&self, state: PageState, lsn: InnodbLsn) -> bool {
        let may_be = matches!(self.source.family, Family::Mariadb | Family::MariadbOld | Family::Unknown);
        may_be && state.is_sound() && self.end.is_some_and(|end| lsn > end.lsn)
    }

    /// Finds the end of the redo log, and reports what the log shows.
    fn find_end(&mut self, watch: Watch<'_>) {
        let source = &self.source;
        let found = RedoEnd::find(&source.root, &source.files, &source.log, &|| watch(0, 0));
        let reason = match (found, source.checkpoint()) {
            (Some(Ok(end)), Some(checkpoint_lsn)) => {
                if !end.is_clean {
                    self.findings.push(rules::NOT_SHUT_DOWN.problem(format!(
                        "the server was not shut down cleanly: checkpoint at LSN {checkpoint_lsn}, end of the redo \
                            log at {}",
                        end.lsn
                    )));
                }
                self.end = Some(end);
                return;
            }
            (Some(Err(NoEnd::Missing)), _) => {
                return self.findings.push(
                    rules::REDO_MISSING.problem("the redo log continues in a file that is missing or too short"),
                );
            }
            (Some(Err(NoEnd::NotTestable)), _) => SkipReason::RedoNotTestable,
            (Some(Err(NoEnd::Interrupted)), _) => SkipReason::Interrupted(Lacking::Pages),
            (Some(Err(NoEnd::Unreadable(error))), _) => SkipReason::from(&error),
            (Some(Ok(_)) | None, _) => SkipReason::CheckpointNotFound,
        };
        self.coverage.skip_once(SkippedPart::RedoLog, reason);
    }

    /// Reports pages and images that are newer than the end of the log, as servers write both after the log of their changes, and why
    /// images may be missing.
    fn note_newest(&mut self, trust: BufferTrust) {
        let newest = self.scan.newest_lsn.iter().copied().chain(self.content.newest_lsn()).max();
        if let (Some(RedoEnd { lsn: end_lsn, .. }), Some(newest_lsn)) = (self.end, newest)
            && newest_lsn > end_lsn
        {
            self.findings
                .push(rules::REDO_BEHIND.problem(format!(
                    "the redo log ends at LSN {end_lsn}, and a page was written at LSN {newest_lsn}"
                )));
        }
        self.findings.push(match trust {
            // The listing reports missing files.
            BufferTrust::Complete | BufferTrust::NotFound => return,
            BufferTrust::SwitchedOff => {
                rules::DOUBLEWRITE_OFF.problem("the option file turns the doublewrite buffer off")
            }
            BufferTrust::Incomplete => {
                rules::BUFFER_INCOMPLETE.problem("files or slots of the doublewrite buffer are missing")
            }
            BufferTrust::NotInUse => rules::BUFFER_NOT_IN_USE
                .problem("pages were written after the checkpoint, and nothing in the doublewrite buffer is as new"),
        });
    }

    fn note_buffer(&mut self) {
        if !self.content.encrypted.is_empty() {
            let reason = SkipReason::Encrypted { pages: self.content.encrypted.len() as u64 };
            self.coverage.skip(SkippedPart::DoubleWriteBuffer, reason);
        }
        for (file, counts) in self.source.doublewrite.files.iter().zip(&self.content.counts) {
            if counts.damaged > 0 {
                self.findings.push(
                    rules::DAMAGED_SLOTS
                        .note(format!("slots with a damaged image: {}", counts.damaged))
                        .in_file(&file.name),
                );
            }
        }
        let blocks = self.content.damaged_blocks.iter();
        self.findings.extend(blocks.map(|(file, at)| {
            rules::DAMAGED_ENTRIES.problem("a block of entries has a wrong checksum").in_file(file).at(*at)
        }));
    }

    /// Reports pages that fail their checks, pages of zeros with an image, and whole pages newer than the log.
    fn note_pages(&mut self) {
        let count = |takes: &dyn Fn(&InnodbPage) -> bool| self.pages.iter().filter(|page| takes(page)).count();
        let damaged = count(&|page| page.state.is_damaged());
        let has_image = |page: &InnodbPage| page.candidates.iter().any(|candidate| candidate.facts.state.is_sound());
        let with_image = count(&|page| page.state.is_damaged() && has_image(page));
        let newer = count(&|page| page.is_newer_than_log && page.held == HeldImage::Older);
        let is_known = |page: &InnodbPage| !page.candidates.is_empty() || page.is_wrong();
        let zero = count(&|page| page.state == PageState::Empty && is_known(page));
        let wrong = count(&|page| page.state == PageState::Empty && page.is_wrong());
        if damaged > 0 {
            self.findings.push(rules::DAMAGED_PAGES.problem(format!(
                "damaged pages: {damaged}; the doublewrite buffer has an intact image of {with_image}"
            )));
        }
        if newer > 0 {
            self.findings.push(rules::OLDER_IMAGES.problem(format!(
                "intact pages newer than the end of the redo log, with an older image in the doublewrite buffer: \
                    {newer}"
            )));
        }
        if zero > 0 {
            let what = format!("zero-filled pages that have an image: {zero}");
            self.findings.push(if wrong > 0 {
                rules::ZERO_PAGES.problem(format!("{what}; {wrong} of them were written after the checkpoint"))
            } else {
                rules::ZERO_PAGES.note(what).because(rules::ZEROS_OF_CRASH)
            });
        }
    }

    /// Findings of a scan other than damaged pages: files that end inside a page, and pages that cannot be judged.
    fn note_scan(&mut self) {
        for (space, file) in self.source.spaces.files() {
            let have_bytes = file.size_bytes.checked_rem(space.flags.physical_bytes() as u64).unwrap_or_default();
            if have_bytes > 0 {
                let finding = rules::PARTIAL_PAGE
                    .problem(format!("the file ends inside a page, {have_bytes} bytes after its start"))
                    .in_file(&file.path.display().to_string());
                self.findings.push(finding.at(file.size_bytes.saturating_sub(have_bytes)));
            }
        }
        for (space, counts) in self.source.spaces.all.iter().zip(&self.scan.by_space) {
            for (reason, pages) in &counts.unverifiable {
                let pages = *pages;
                let reason = match reason {
                    Unverifiable::Encrypted => SkipReason::Encrypted { pages },
                    Unverifiable::Codec { codec } => SkipReason::UnknownCodec { pages, codec: *codec },
                };
                self.coverage.skip(SkippedPart::file(space.name()), reason);
            }
        }
    }
}

/// Reads and judges a directory, until `watch`, called with the bytes done and in total, interrupts; a total of 0: unknown.
/// `all`: also pages that are intact and have an image in the doublewrite buffer.
///
/// # Errors
/// When the path is not a data directory of MySQL or MariaDB, or the buffer was not read to its end.
pub fn innodb_check(request: &InnodbRequest, all: bool, watch: Watch<'_>) -> Result<InnodbExamination, InspectError> {
    let mut it = InnodbExamination::open(request)?;
    it.find_end(watch);
    it.content = it.source.read_buffer(request.jobs, &mut it.coverage, &|| watch(0, 0))?;
    it.note_buffer();
    let mut coverage = std::mem::take(&mut it.coverage);
    let wants = |page, state: PageState, lsn| match state {
        PageState::Empty => it.content.names(page) || page == TRX_SYSTEM,
        _ => it.is_overwritten(state, lsn) && it.content.has_older(page, lsn),
    };
    it.scan = scan(&it.source.scan_request(&|_| true, &wants, request.jobs), &mut coverage, watch);
    it.coverage = coverage;
    it.note_scan();
    let context = it.source.context(&it.content, &it.scan, it.end);
    let mut reader = PageReader::new(&it.source.root);
    for found in &it.scan.found {
        it.pages.extend(context.judge(found, &mut reader, &mut it.coverage));
    }
    it.pages.sort_by_key(|page| (page.page, page.space));
    for page in it.content.pages().into_iter().filter(|_| all) {
        let found = it.source.look_up(page, &mut reader, &mut it.coverage);
        let is_listed = it.pages.binary_search_by_key(&page, |listed| listed.page).is_ok();
        let found = found.filter(|found| !found.state.is_damaged() && found.state != PageState::Empty && !is_listed);
        it.whole.extend(found.and_then(|found| context.judge(&found, &mut reader, &mut it.coverage)));
    }
    let trust = context.trust;
    it.note_newest(trust);
    it.note_pages();
    Ok(it)
}

/// One page, whatever it is, and the same of its directory as [`innodb_check`] needs for it: its tablespace alone is scanned.
pub(crate) fn innodb_page(
    request: &InnodbRequest,
    space: &str,
    page_no: u32,
    watch: Watch<'_>,
) -> Result<InnodbExamination, InspectError> {
    let mut it = InnodbExamination::open(request)?;
    it.find_end(watch);
    let spaces = &it.source.spaces;
    let unknown = || InspectError::NoSuchTablespace(space.to_owned());
    let by_number = space.parse().ok().and_then(|id| spaces.index_of(id));
    let is_named = |own: &Tablespace| own.name() == space || own.name().strip_suffix(".ibd") == Some(space);
    let wanted = by_number.or_else(|| spaces.all.iter().position(is_named)).ok_or_else(unknown)?;
    let page = InnodbPageId { space_id: spaces.all.get(wanted).ok_or_else(unknown)?.id, page_no };
    it.content = it.source.read_buffer(request.jobs, &mut it.coverage, &|| watch(0, 0))?;
    // Without a current image, whether the buffer was in use at all shows in other tablespaces.
    let is_stale = it.source.checkpoint().is_some_and(|checkpoint| it.content.newest_lsn() < Some(checkpoint));
    let takes = |index| index == wanted || is_stale;
    it.scan = scan(&it.source.scan_request(&takes, &|_, _, _| false, request.jobs), &mut it.coverage, watch);
    let context = it.source.context(&it.content, &it.scan, it.end);
    let mut reader = PageReader::new(&it.source.root);
    let found = it.source.look_up(page, &mut reader, &mut it.coverage);
    let found = found.ok_or(InspectError::NoSuchInnodbPage(page))?;
    it.pages.extend(context.judge(&found, &mut reader, &mut it.coverage));
    let trust = context.trust;
    it.note_newest(trust);
    it.note_pages();
    Ok(it)
}

/// Reads every page, but not the doublewrite buffer, until `watch`, called with the bytes done and in total, interrupts.
///
/// # Errors
/// When the path is not a data directory of MySQL or MariaDB.
pub fn innodb_verify(request: &InnodbRequest, watch: Watch<'_>) -> Result<InnodbExamination, InspectError> {
    let mut it = InnodbExamination::open(request)?;
    let wanted = it.source.scan_request(&|_| true, &|_, _, _| false, request.jobs);
    it.scan = scan(&wanted, &mut it.coverage, watch);
    it.note_scan();
    let counts = &it.scan.counts;
    if counts.damaged > 0 {
        it.findings.push(rules::BAD_PAGES.problem(format!("damaged pages: {} of {}", counts.damaged, counts.pages)));
    }
    Ok(it)
}
