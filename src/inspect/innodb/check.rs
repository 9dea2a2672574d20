//! Every damaged page of a directory against the doublewrite buffer, with a verdict each.

use std::ops::ControlFlow;

use super::dictionary::note_missing_files;
use super::redo::Redo;
use super::source::{InnodbRequest, InnodbSource, about};
use super::verify::note_scan;
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::innodb::candidates::BufferContent;
use crate::analysis::innodb::finding::InnodbFinding;
use crate::analysis::innodb::judge::{BufferTrust, InnodbPage, InnodbVerdict, JudgeContext};
use crate::analysis::innodb::opened::RedoFacts;
use crate::analysis::innodb::recovery::{InnodbStart, OnStart, RecoveryReason};
use crate::analysis::innodb::scan::{FoundPage, ScanReport, scan};
use crate::analysis::skipped::{Lacking, SkipReason, SkippedPart};
use crate::cluster::innodb::redo_log::Family;
use crate::cluster::innodb::tablespace::PageReader;
use crate::inspect::error::InspectError;
use crate::parsers::innodb::layout::TRX_SYSTEM_PAGE;
use crate::parsers::innodb::page_check::PageState;
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
    /// Damaged pages, and pages of zeros that have an image, in the order of tablespaces and pages.
    pub pages: Vec<InnodbPage>,
    /// Other pages that the doublewrite buffer names, if that was asked for.
    pub whole: Vec<InnodbPage>,
    /// The redo log from its checkpoint on.
    pub redo: RedoFacts,
    /// Whether the server starts.
    pub start: InnodbStart,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What was not examined.
    pub coverage: Coverage,
}

impl InnodbExamination {
    /// What its pages were judged by.
    #[must_use]
    pub fn context(&self) -> JudgeContext<'_> {
        self.source.context(&self.content, &self.scan, &self.redo)
    }

    /// Pages with a verdict.
    #[must_use]
    pub fn count(&self, verdict: InnodbVerdict) -> usize {
        self.pages.iter().chain(&self.whole).filter(|page| page.verdict == verdict).count()
    }
}

/// What an examination does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnodbStage {
    /// Reading the doublewrite buffer.
    Buffer,
    /// Checking every page.
    Scan,
    /// Judging damaged pages.
    Judge,
}

/// Somebody who is told how far an examination is, and can break it off while it reads.
pub trait InnodbWatch {
    /// So many of so many bytes of this stage are done; 0 in all: not known.
    fn at(&self, stage: InnodbStage, done: u64, total: u64) -> ControlFlow<()>;

    /// These pages are damaged, or of zeros with an image, which is known long before they are judged.
    fn found(&self, _: &InnodbSource, _: &[FoundPage]) {}
}

/// Who is told of the bytes alone that are read.
impl<F: Fn(u64, u64) -> ControlFlow<()>> InnodbWatch for F {
    fn at(&self, stage: InnodbStage, done: u64, total: u64) -> ControlFlow<()> {
        if stage == InnodbStage::Judge { ControlFlow::Continue(()) } else { self(done, total) }
    }
}

/// Reads and judges a directory, until `watch` breaks it off. `all`: also pages that are whole and that the doublewrite buffer
/// names.
///
/// # Errors
/// When the path is not a data directory of MySQL or MariaDB, or the buffer was not read to its end.
pub fn innodb_check(
    request: &InnodbRequest,
    all: bool,
    watch: &dyn InnodbWatch,
) -> Result<InnodbExamination, InspectError> {
    let source = InnodbSource::open(request)?;
    let (mut findings, mut coverage) = (Vec::new(), Coverage::default());
    source.notes(&mut findings, &mut coverage);
    let redo = Redo::of(&source, &mut findings, &mut coverage, &|| watch.at(InnodbStage::Buffer, 0, 0));
    note_missing_files(&source, &|| &redo, &mut coverage);
    let content = source.read_buffer(request.jobs, &mut coverage, &|| watch.at(InnodbStage::Buffer, 0, 0))?;
    note_buffer(&source, &content, &mut findings);
    let wants_zero = |page| content.names(page) || page == TRX_SYSTEM;
    let told = |done, total, found: &[FoundPage]| {
        watch.found(&source, found);
        watch.at(InnodbStage::Scan, done, total)
    };
    let scan = scan(&source.scan_request(&|_| true, &wants_zero, request.jobs), &mut coverage, &told);
    note_scan(&source, &scan, &mut findings, &mut coverage);
    let redo = redo.facts(&content, &scan.newest_lsn, &mut findings);
    let context = source.context(&content, &scan, &redo);
    note_trust(context.trust, &mut findings);
    let opened = context.opened_spaces(&scan);
    let mut reader = PageReader::new(&source.root);
    let mut judge = |found: &FoundPage, coverage: &mut Coverage| context.judge(found, &opened, &mut reader, coverage);
    let mut pages = Vec::new();
    let bytes_of = |pages: usize| (pages as u64).saturating_mul(source.doublewrite.page_bytes as u64);
    for (at, found) in scan.found.iter().enumerate() {
        if watch.at(InnodbStage::Judge, bytes_of(at), bytes_of(scan.found.len())).is_break() {
            coverage.skip_once(SkippedPart::RestOfTablespaces, SkipReason::Interrupted(Lacking::Pages));
            break;
        }
        pages.extend(judge(found, &mut coverage));
    }
    pages.sort_by_key(|page| (page.page, page.space));
    let mut whole = Vec::new();
    if all {
        let mut lookup = PageReader::new(&source.root);
        for page in content.pages() {
            let found = source.look_up(page, &mut lookup, &mut coverage);
            let is_whole = |found: &FoundPage| !found.state.is_damaged() && found.state != PageState::Empty;
            whole.extend(found.filter(is_whole).and_then(|found| judge(&found, &mut coverage)));
        }
    }
    let start = start_of(&source, &content, &context, &pages, &coverage);
    note_pages(&pages, damaged_on_both_sides(&source, &content), &mut findings);
    Ok(InnodbExamination { source, content, scan, pages, whole, redo, start, findings, coverage })
}

fn note_buffer(source: &InnodbSource, content: &BufferContent, findings: &mut Vec<Finding>) {
    let checkpoint = source.checkpoint();
    for (file, counts) in source.doublewrite.files.iter().zip(&content.counts) {
        if counts.damaged > 0 {
            let finding = InnodbFinding::InnodbDamagedSlots { count: counts.damaged };
            findings.push(about(Finding::note, finding, Some(&file.name)));
        }
    }
    for block in &content.damaged_blocks {
        let finding = about(Finding::problem, InnodbFinding::InnodbDamagedEntries, Some(&block.file));
        findings.push(finding.at(block.offset));
    }
    // After a clean shutdown the newest page has just the LSN of the checkpoint.
    let is_current = |lsn: &InnodbLsn| checkpoint.is_some_and(|checkpoint| *lsn > checkpoint);
    let sound = content.slots.iter().filter(|slot| slot.state.is_sound()).map(|slot| slot.lsn);
    let current: Vec<InnodbLsn> = sound.filter(is_current).collect();
    if let Some(newest_lsn) = current.iter().max() {
        let slots = current.len() as u64;
        let finding = InnodbFinding::InnodbSinceCheckpoint { slots, newest_lsn: *newest_lsn };
        findings.push(about(Finding::note, finding, None));
    }
}

/// Damaged slots that name themselves: the slots of the old buffer are pages of the system tablespace, and hold those until they are
/// used. To the server page and image are damaged then; MySQL 5.6.24 gave up.
fn damaged_on_both_sides(source: &InnodbSource, content: &BufferContent) -> usize {
    if !matches!(source.family, Family::Mysql56 | Family::Mysql57) {
        return 0;
    }
    let is_own = |page: InnodbPageId, offset: u64| {
        let system = source.spaces.get(page.space_id).filter(|space| space.id == 0);
        system.and_then(|space| space.find(page.page_no)).is_some_and(|(_, at)| at == offset)
    };
    let damaged = content.slots.iter().filter(|slot| slot.state.is_damaged());
    damaged.filter(|slot| slot.page().is_some_and(|page| is_own(page, slot.offset))).count()
}

/// Counts of pages as findings: damaged ones are problems, zeros often are as a crash leaves them.
fn note_pages(pages: &[InnodbPage], own_slots: usize, findings: &mut Vec<Finding>) {
    let count = |takes: &dyn Fn(&InnodbPage) -> bool| pages.iter().filter(|page| takes(page)).count();
    let refusing = count(&|page| page.prediction.on_start == OnStart::RefusesToStart).saturating_add(own_slots);
    if refusing > 0 {
        let finding = InnodbFinding::InnodbRefusesToStart { pages: refusing };
        findings.push(about(Finding::problem, finding, None));
    }
    let damaged = count(&|page| page.state.is_damaged());
    if damaged > 0 {
        let of = |verdict| count(&|page: &InnodbPage| page.state.is_damaged() && page.verdict == verdict);
        let finding = InnodbFinding::InnodbDamagedPages {
            count: damaged,
            server_restores: of(InnodbVerdict::ServerRestores),
            no_image: of(InnodbVerdict::NoImage),
        };
        findings.push(about(Finding::problem, finding, None));
    }
    let has_image = |page: &InnodbPage| !page.candidates.is_empty() || !page.entries.is_empty();
    let zero = count(&|page| page.state == PageState::Empty && has_image(page));
    if zero > 0 {
        let wrong = count(&|page| page.state == PageState::Empty && has_image(page) && page.is_wrong());
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

/// What of a page replay may stop at: it stays damaged, or becomes one from before the checkpoint, to which what comes after does
/// not fit, or one that nothing shows to be whole.
const MAY_STOP: [RecoveryReason; 3] =
    [RecoveryReason::ReplayMayStop, RecoveryReason::ImageOlderThanCheckpoint, RecoveryReason::ImageWithoutChecksum];

/// The first page of the system tablespace.
const SYSTEM_PAGE_0: InnodbPageId = InnodbPageId { space_id: 0, page_no: 0 };

/// The page of transactions, which every server writes: also where no image names it, one of zeros is lost.
const TRX_SYSTEM: InnodbPageId = InnodbPageId { space_id: 0, page_no: TRX_SYSTEM_PAGE };

/// True when pages are missing that replay may need.
const fn lacks_pages(reason: &SkipReason) -> bool {
    matches!(reason, SkipReason::TablespaceShort { .. } | SkipReason::UnknownTablespace)
}

/// True when pages, or where replay begins, were not examined, so that what replay meets is not known.
const fn hides_replay(reason: &SkipReason) -> bool {
    matches!(
        reason,
        SkipReason::Unreadable(_)
            | SkipReason::CheckpointNotFound
            | SkipReason::NamedFileMissing { .. }
            | SkipReason::DictionaryNotRead { .. }
            | SkipReason::OutsideDataDirectory { .. }
            | SkipReason::Interrupted(Lacking::Pages)
            | SkipReason::Encrypted { .. }
            | SkipReason::UnknownCodec { .. }
    )
}

/// Whether the server starts, as far as pages and the doublewrite buffer decide it.
fn start_of(
    source: &InnodbSource,
    content: &BufferContent,
    context: &JudgeContext<'_>,
    pages: &[InnodbPage],
    coverage: &Coverage,
) -> InnodbStart {
    let trust = context.trust;
    let any = |takes: &dyn Fn(&InnodbPage) -> bool| pages.iter().any(takes);
    let is_page_0_restored = |space_id: u32| {
        let page_0 = InnodbPageId { space_id, page_no: 0 };
        any(&|page| page.page == page_0 && page.prediction.on_start == OnStart::Restored)
    };
    let has_bad_entries = source.family == Family::Mysql8 && !content.damaged_blocks.is_empty();
    let has_damaged_entries_or_slots = has_bad_entries || damaged_on_both_sides(source, content) > 0;
    if (has_damaged_entries_or_slots && trust != BufferTrust::SwitchedOff)
        || any(&|page| page.prediction.on_start == OnStart::RefusesToStart)
        || source.log.is_refused()
        || (source.family == Family::Mysql8 && source.has_two_files())
    {
        InnodbStart::Refuses
    } else if matches!(source.family, Family::MariadbOld | Family::Unknown)
        || trust != BufferTrust::Complete
        || !context.redo.is_whole
        || any(&|page| page.prediction.on_start == OnStart::Unknown)
    {
        InnodbStart::Unknown
    } else if any(&|page| page.prediction.reasons.iter().any(|reason| MAY_STOP.contains(reason)))
        // Its id and its flags are read before any image is.
        || any(&|page| page.page == SYSTEM_PAGE_0 && page.state.is_damaged())
        || coverage.skipped.iter().any(|skipped| lacks_pages(&skipped.reason))
        || source.lacks_page_0()
        // MariaDB takes one of them.
        || (source.family != Family::Mariadb && source.spaces.all.iter().any(|space| space.has_rival))
        || source.spaces.all.iter().any(|space| space.page_0 == PageState::Empty && !is_page_0_restored(space.id))
    {
        InnodbStart::MayStop
    } else if coverage.skipped.iter().any(|skipped| hides_replay(&skipped.reason)) {
        InnodbStart::Unknown
    } else {
        InnodbStart::NothingAgainst
    }
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
    let redo = Redo::of(&source, &mut findings, &mut coverage, &|| watch(0, 0));
    note_missing_files(&source, &|| &redo, &mut coverage);
    let wanted = source.space_named(space).ok_or_else(|| InspectError::NoSuchTablespace(space.to_owned()))?;
    let Some(space_id) = source.spaces.all.get(wanted).map(|space| space.id) else {
        return Err(InspectError::NoSuchTablespace(space.to_owned()));
    };
    let page = InnodbPageId { space_id, page_no };
    let content = source.read_buffer(request.jobs, &mut coverage, &|| watch(0, 0))?;
    // Without a current image, whether the buffer was in use at all shows in other tablespaces.
    let is_stale = source.checkpoint().is_some_and(|checkpoint| content.newest_lsn() < Some(checkpoint));
    let takes = |index| index == wanted || is_stale;
    let scan =
        scan(&source.scan_request(&takes, &|_| false, request.jobs), &mut coverage, &|done, total, _: &[FoundPage]| {
            watch(done, total)
        });
    let redo = redo.facts(&content, &scan.newest_lsn, &mut findings);
    let context = source.context(&content, &scan, &redo);
    note_trust(context.trust, &mut findings);
    let opened = context.opened_spaces(&scan);
    let mut reader = PageReader::new(&source.root);
    let found = source.look_up(page, &mut reader, &mut coverage);
    let found = found.ok_or(InspectError::NoSuchInnodbPage(page))?;
    let judged = context.judge(&found, &opened, &mut reader, &mut coverage);
    let pages: Vec<InnodbPage> = judged.into_iter().collect();
    let start = start_of(&source, &content, &context, &pages, &coverage);
    note_pages(&pages, damaged_on_both_sides(&source, &content), &mut findings);
    Ok(InnodbExamination { source, content, scan, pages, whole: Vec::new(), redo, start, findings, coverage })
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
