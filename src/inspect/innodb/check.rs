//! Pages of a directory: the damaged ones with their images in the doublewrite buffer, or every page by itself.

use std::ops::ControlFlow;

use super::source::{InnodbRequest, InnodbSource, about};
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::innodb::candidates::BufferContent;
use crate::analysis::innodb::finding::InnodbFinding;
use crate::analysis::innodb::judge::{BufferTrust, HeldImage, InnodbPage, TRX_SYSTEM};
use crate::analysis::innodb::scan::{FoundPage, ScanReport, scan};
use crate::analysis::skipped::{Lacking, SkipReason, SkippedPart};
use crate::cluster::innodb::redo_end::{NoEnd, RedoEnd};
use crate::cluster::innodb::redo_log::Family;
use crate::cluster::innodb::tablespace::PageReader;
use crate::inspect::error::InspectError;
use crate::parsers::innodb::page_check::{PageState, Unverifiable};
use crate::parsers::innodb::{InnodbLsn, InnodbPageId};

/// A directory, read and judged.
#[derive(Debug)]
pub struct InnodbExamination {
    /// The directory.
    pub source: InnodbSource,
    /// What the doublewrite buffer holds.
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
    /// What was found.
    pub findings: Vec<Finding>,
    /// What was not examined.
    pub coverage: Coverage,
}

impl InnodbExamination {
    /// Pages of which the buffer holds such an image.
    #[must_use]
    pub fn count(&self, held: HeldImage) -> usize {
        self.pages.iter().chain(&self.whole).filter(|page| page.held == held).count()
    }

    /// True after a clean shutdown; `None` if the log does not show it.
    #[must_use]
    pub fn is_shut_down(&self) -> Option<bool> {
        let is_known = self.source.log.is_checkpoint_certain && self.source.log.has_whole_files();
        self.end.map(|end| end.is_clean).filter(|is_clean| !is_clean || is_known)
    }
}

/// Reads and judges a directory, until `watch`, told the bytes done and in all, breaks it off; 0 in all: not known. `all`: also pages
/// that are whole and that the doublewrite buffer names.
///
/// # Errors
/// When the path is not a data directory of MySQL or MariaDB, or the buffer was not read to its end.
pub fn innodb_check(
    request: &InnodbRequest,
    all: bool,
    watch: &dyn Fn(u64, u64) -> ControlFlow<()>,
) -> Result<InnodbExamination, InspectError> {
    let source = InnodbSource::open(request)?;
    let (mut findings, mut coverage) = (Vec::new(), Coverage::default());
    source.notes(&mut findings, &mut coverage);
    let end = end_of_log(&source, &mut findings, &mut coverage, &|| watch(0, 0));
    let content = source.read_buffer(request.jobs, &mut coverage, &|| watch(0, 0))?;
    note_buffer(&source, &content, &mut findings, &mut coverage);
    let wants = |page, state: PageState, lsn| match state {
        PageState::Empty => content.names(page) || page == TRX_SYSTEM,
        _ => is_overwritten(&source, state, lsn, end) && content.has_older(page, lsn),
    };
    let scan = scan(&source.scan_request(&|_| true, &wants, request.jobs), &mut coverage, watch);
    note_scan(&source, &scan, &mut findings, &mut coverage);
    note_newest(end, &content, &scan, &mut findings);
    let context = source.context(&content, &scan, end);
    note_trust(context.trust, &mut findings);
    let mut reader = PageReader::new(&source.root);
    let mut judge = |found: &FoundPage, coverage: &mut Coverage| context.judge(found, &mut reader, coverage);
    let mut pages: Vec<_> = scan.found.iter().filter_map(|found| judge(found, &mut coverage)).collect();
    pages.sort_by_key(|page| (page.page, page.space));
    let mut whole = Vec::new();
    if all {
        let mut lookup = PageReader::new(&source.root);
        for page in content.pages() {
            let found = source.look_up(page, &mut lookup, &mut coverage);
            let is_listed = |page| pages.binary_search_by_key(&page, |listed: &InnodbPage| listed.page).is_ok();
            let is_whole =
                |found: &FoundPage| !found.state.is_damaged() && found.state != PageState::Empty && !is_listed(page);
            whole.extend(found.filter(is_whole).and_then(|found| judge(&found, &mut coverage)));
        }
    }
    note_pages(&pages, &mut findings);
    Ok(InnodbExamination { source, content, scan, pages, whole, end, findings, coverage })
}

/// True for a whole page newer than the end of the log, which MariaDB 10.11.10 and later overwrite with older images.
///
/// Source: `recv_dblwr_t::find_page`, `storage/innobase/log/log0recv.cc` of MariaDB.
fn is_overwritten(source: &InnodbSource, state: PageState, lsn: InnodbLsn, end: Option<RedoEnd>) -> bool {
    let may_be = matches!(source.family, Family::Mariadb | Family::MariadbOld | Family::Unknown);
    may_be && state.is_sound() && end.is_some_and(|end| lsn > end.lsn)
}

/// Finds the end of the redo log, and reports what the log shows.
fn end_of_log(
    source: &InnodbSource,
    findings: &mut Vec<Finding>,
    coverage: &mut Coverage,
    watch: &dyn Fn() -> ControlFlow<()>,
) -> Option<RedoEnd> {
    let reason = match (RedoEnd::find(&source.root, &source.files, &source.log, watch), source.checkpoint()) {
        (Some(Ok(end)), Some(checkpoint_lsn)) => {
            if !end.is_clean {
                let finding = InnodbFinding::InnodbNotShutDown { checkpoint_lsn, end_lsn: end.lsn };
                findings.push(about(Finding::problem, finding, None));
            }
            return Some(end);
        }
        (Some(Err(NoEnd::Missing)), _) => {
            findings.push(about(Finding::problem, InnodbFinding::InnodbRedoMissing, None));
            return None;
        }
        (Some(Err(NoEnd::NotTestable)), _) => SkipReason::RedoNotTestable,
        (Some(Err(NoEnd::Interrupted)), _) => SkipReason::Interrupted(Lacking::Pages),
        (Some(Err(NoEnd::Unreadable(error))), _) => SkipReason::from(&error),
        (Some(Ok(_)) | None, _) => SkipReason::CheckpointNotFound,
    };
    coverage.skip_once(SkippedPart::RedoLog, reason);
    None
}

/// Reports pages and images that are newer than the end of the log. Servers write both after the log of their changes.
fn note_newest(end: Option<RedoEnd>, content: &BufferContent, scan: &ScanReport, findings: &mut Vec<Finding>) {
    let Some(RedoEnd { lsn: end_lsn, .. }) = end else { return };
    let newest = scan.newest_lsn.iter().copied().chain(content.newest_lsn()).max();
    if let Some(newest_lsn) = newest.filter(|newest| *newest > end_lsn) {
        findings.push(about(Finding::problem, InnodbFinding::InnodbRedoBehind { end_lsn, newest_lsn }, None));
    }
}

fn note_buffer(source: &InnodbSource, content: &BufferContent, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
    let encrypted = content.encrypted_images();
    if encrypted > 0 {
        coverage.skip(SkippedPart::DoubleWriteBuffer, SkipReason::Encrypted { pages: encrypted });
    }
    for (file, counts) in source.doublewrite.files.iter().zip(&content.counts) {
        if counts.damaged > 0 {
            let finding = InnodbFinding::InnodbDamagedSlots(counts.damaged);
            findings.push(about(Finding::note, finding, Some(&file.name)));
        }
    }
    for block in &content.damaged_blocks {
        let finding = about(Finding::problem, InnodbFinding::InnodbDamagedEntries, Some(&block.file));
        findings.push(finding.at(block.offset));
    }
}

/// Reports pages that fail their checks, pages of zeros with an image, and whole pages newer than the log.
fn note_pages(pages: &[InnodbPage], findings: &mut Vec<Finding>) {
    let count = |takes: &dyn Fn(&InnodbPage) -> bool| pages.iter().filter(|page| takes(page)).count();
    let damaged = count(&|page| page.state.is_damaged());
    if damaged > 0 {
        let has_image = |page: &InnodbPage| page.candidates.iter().any(|candidate| candidate.facts.state.is_sound());
        let with_image = count(&|page| page.state.is_damaged() && has_image(page));
        findings.push(about(Finding::problem, InnodbFinding::InnodbDamagedPages { count: damaged, with_image }, None));
    }
    let newer = count(&|page| page.is_newer_than_log && page.held == HeldImage::Older);
    if newer > 0 {
        findings.push(about(Finding::problem, InnodbFinding::InnodbOlderImages(newer), None));
    }
    let is_known = |page: &InnodbPage| !page.candidates.is_empty() || page.is_wrong();
    let zero = count(&|page| page.state == PageState::Empty && is_known(page));
    if zero > 0 {
        let wrong = count(&|page| page.state == PageState::Empty && page.is_wrong());
        let severity = if wrong > 0 { Finding::problem } else { Finding::note };
        findings.push(about(severity, InnodbFinding::InnodbZeroPages { count: zero, wrong }, None));
    }
}

fn note_trust(trust: BufferTrust, findings: &mut Vec<Finding>) {
    let finding = match trust {
        // What was not found is said where files are listed.
        BufferTrust::Complete | BufferTrust::NotFound => return,
        BufferTrust::SwitchedOff => InnodbFinding::InnodbDoublewriteOff,
        BufferTrust::Incomplete => InnodbFinding::InnodbBufferIncomplete,
        BufferTrust::NotInUse => InnodbFinding::InnodbBufferNotInUse,
    };
    findings.push(about(Finding::problem, finding, None));
}

/// One page, whatever it is, and the same of its directory as [`innodb_check`] needs for it: its tablespace alone is scanned.
///
/// # Errors
/// When the path is not a data directory of MySQL or MariaDB, or there is no such page.
pub fn innodb_page(
    request: &InnodbRequest,
    space: &str,
    page_no: u32,
    watch: &dyn Fn(u64, u64) -> ControlFlow<()>,
) -> Result<InnodbExamination, InspectError> {
    let source = InnodbSource::open(request)?;
    let (mut findings, mut coverage) = (Vec::new(), Coverage::default());
    source.notes(&mut findings, &mut coverage);
    let end = end_of_log(&source, &mut findings, &mut coverage, &|| watch(0, 0));
    let unknown = || InspectError::NoSuchTablespace(space.to_owned());
    let wanted = source.space_named(space).ok_or_else(unknown)?;
    let space_id = source.spaces.all.get(wanted).ok_or_else(unknown)?.id;
    let page = InnodbPageId { space_id, page_no };
    let content = source.read_buffer(request.jobs, &mut coverage, &|| watch(0, 0))?;
    // Without a current image, whether the buffer was in use at all shows in other tablespaces.
    let is_stale = source.checkpoint().is_some_and(|checkpoint| content.newest_lsn() < Some(checkpoint));
    let takes = |index| index == wanted || is_stale;
    let scan = scan(&source.scan_request(&takes, &|_, _, _| false, request.jobs), &mut coverage, watch);
    note_newest(end, &content, &scan, &mut findings);
    let context = source.context(&content, &scan, end);
    note_trust(context.trust, &mut findings);
    let mut reader = PageReader::new(&source.root);
    let found = source.look_up(page, &mut reader, &mut coverage);
    let found = found.ok_or(InspectError::NoSuchInnodbPage(page))?;
    let pages: Vec<InnodbPage> = context.judge(&found, &mut reader, &mut coverage).into_iter().collect();
    note_pages(&pages, &mut findings);
    Ok(InnodbExamination { source, content, scan, pages, whole: Vec::new(), end, findings, coverage })
}

/// What a scan of a directory says.
#[derive(Debug)]
pub struct InnodbVerification {
    /// The directory.
    pub source: InnodbSource,
    /// The pages.
    pub scan: ScanReport,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What was not examined.
    pub coverage: Coverage,
}

/// Reads every page, until `watch`, told the bytes done and in all, breaks it off.
///
/// # Errors
/// When the path is not a data directory of MySQL or MariaDB.
pub fn innodb_verify(
    request: &InnodbRequest,
    watch: &dyn Fn(u64, u64) -> ControlFlow<()>,
) -> Result<InnodbVerification, InspectError> {
    let source = InnodbSource::open(request)?;
    let (mut findings, mut coverage) = (Vec::new(), Coverage::default());
    source.notes(&mut findings, &mut coverage);
    let scan = scan(&source.scan_request(&|_| true, &|_, _, _| false, request.jobs), &mut coverage, watch);
    note_scan(&source, &scan, &mut findings, &mut coverage);
    if scan.counts.damaged > 0 {
        let finding = InnodbFinding::InnodbBadPages { count: scan.counts.damaged, pages: scan.counts.pages };
        findings.push(about(Finding::problem, finding, None));
    }
    Ok(InnodbVerification { source, scan, findings, coverage })
}

/// What a scan says besides damaged pages: files that end inside a page, and pages that cannot be judged.
fn note_scan(source: &InnodbSource, scan: &ScanReport, findings: &mut Vec<Finding>, coverage: &mut Coverage) {
    for partial in &scan.partial {
        let finding = InnodbFinding::InnodbPartialPage(partial.have_bytes);
        findings.push(about(Finding::problem, finding, Some(&partial.path)).at(partial.offset));
    }
    for (space, counts) in source.spaces.all.iter().zip(&scan.by_space) {
        for (reason, pages) in &counts.unverifiable {
            let pages = *pages;
            let reason = match reason {
                Unverifiable::Encrypted => SkipReason::Encrypted { pages },
                Unverifiable::Codec { codec } => SkipReason::UnknownCodec { pages, codec: *codec },
            };
            coverage.skip(SkippedPart::file(space.name()), reason);
        }
    }
}

impl InnodbSource {
    /// Index of the tablespace with this number, or with this path, with or without its ending.
    #[must_use]
    pub fn space_named(&self, name: &str) -> Option<usize> {
        let by_number = name.parse().ok().and_then(|id| self.spaces.index_of(id));
        by_number.or_else(|| {
            self.spaces.all.iter().position(|space| {
                let own = space.name();
                own == name || own.strip_suffix(".ibd") == Some(name)
            })
        })
    }
}
