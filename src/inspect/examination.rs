//! Result of a check of a cluster, and the answers that follow from it.

use std::collections::BTreeMap;

use super::dwb_source::DwbSource;
use super::rebuild::BuiltPages;
use crate::analysis::dwb::report::DwbReport;
use crate::analysis::dwb::slot_facts::SlotRow;
use crate::analysis::pages::checksum_witness::CHECKSUMS_CONTRADICT;
use crate::analysis::pages::page_scan::ScannedFiles;
use crate::analysis::skipped::Coverage;
use crate::analysis::start::cluster_condition::ClusterCondition;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::check::CheckReport;
use crate::analysis::verdict::images::ImageFiles;
use crate::analysis::verdict::outlook::Outlook;
use crate::analysis::verdict::rebuilt_proof::ProofReport;
use crate::analysis::verdict::survey::PageReport;
use crate::analysis::wal::last_checkpoint::LastCheckpoint;
use crate::cluster::data_dir::DirectoryLink;
use crate::cluster::donor::Donor;
use crate::cluster::names::RelationNames;
use crate::cluster::page_source::RelationPaths;
use crate::cluster::settings::is_true;
use crate::cluster::wal::WalSources;
use crate::parsers::control::{ChecksumState, WAL_LEVEL_MINIMAL};
use crate::repair::blocker::Blocker;
use crate::report::Finding;
use crate::types::{ForkNumber, Lsn, PageId, RelFileLocator};

/// A data directory, read and judged.
pub struct Examination {
    /// The directory and its double write buffer.
    pub source: DwbSource,
    /// Names of relations.
    pub names: RelationNames,
    /// Where pages are.
    pub paths: RelationPaths,
    /// WAL.
    pub wal: WalSources,
    /// Older copies of the cluster that were given.
    pub donors: Vec<Donor>,
    /// The verdicts.
    pub report: CheckReport,
    /// Additional evidence, as arguments of a command: ` --wal PATH --donor PATH`.
    pub evidence: String,
    /// The double write buffer by itself.
    pub dwb: DwbReport,
    /// Every slot, if that was asked for.
    pub rows: Vec<SlotRow>,
    /// Findings about everything.
    pub findings: Vec<Finding>,
    /// Coverage.
    pub coverage: Coverage,
    /// Bytes of a page.
    pub block_size: usize,
    /// Condition of the cluster.
    pub state: ClusterCondition,
    /// Links in the data directory; `None` where they could not be read.
    pub links: Option<Vec<DirectoryLink>>,
    /// Blockers of a repair without overrides, from when the cluster was checked.
    pub blockers: Vec<Blocker>,
    /// Blocks of each fork.
    pub blocks: BTreeMap<(RelFileLocator, ForkNumber), u64>,
    /// How much the page scan read, if it ran.
    pub scanned: Option<ScannedFiles>,
    /// How the proofs by replay went, if they were asked for.
    pub proof: Option<ProofReport>,
    /// Pages that were built by replay, where that was asked for.
    pub built: BuiltPages,
    /// The newest LSN of a sound page of a logged relation.
    pub newest_page: Option<Lsn>,
    /// The last checkpoint in `pg_wal`, where `pg_control` cannot be used.
    pub last_checkpoint: Option<LastCheckpoint>,
    /// From the redo point on pages were changed without an image of what they were, by WAL.
    pub lacks_images: bool,
}

/// Damaged pages that a repair leaves, and the prediction of startup with them.
#[derive(Clone, Debug)]
pub struct Remaining {
    /// The pages.
    pub pages: Vec<PageReport>,
    /// The start.
    pub outlook: Outlook,
}

impl Examination {
    /// Damage that remains after the pages of `is_repaired` are repaired, and the prediction of startup then.
    pub fn without(&self, is_repaired: impl Fn(PageId) -> bool) -> Remaining {
        let report = &self.report;
        let pages: Vec<PageReport> = report.pages.iter().filter(|page| !is_repaired(page.page)).cloned().collect();
        let mut given = report.outlook.given.clone();
        given.of_pages.retain(|(page, _)| !is_repaired(*page));
        let mut outlook = Outlook::of(&pages, &report.replay, given);
        outlook.refused_by = report.outlook.refused_by;
        Remaining { pages, outlook }
    }

    /// Answer about the cluster after the pages of `is_repaired` are repaired, with skipped parts
    /// counted in; findings may be about those pages and do not count.
    pub fn answer_without(&self, is_repaired: impl Fn(PageId) -> bool) -> Answer {
        let Remaining { pages, outlook } = self.without(is_repaired);
        let of_left = Answer::of(&pages, &self.report.replay.doubts, Some(&outlook), self.has_unseen_tears());
        of_left.max(Answer::of_findings(&[], &self.coverage))
    }

    /// Answer about the cluster as it is, including findings and skipped parts: the exit status of
    /// `check` says the same.
    pub fn answer(&self) -> Answer {
        let report = &self.report;
        let of_cluster =
            Answer::of(&report.pages, &report.replay.doubts, Some(&report.outlook), self.has_unseen_tears());
        of_cluster.max(Answer::of_findings(&self.findings, &self.coverage))
    }

    /// Answer about the requested pages, including findings and skipped parts; others may
    /// keep a start from working.
    pub fn answer_of_pages(&self) -> Answer {
        let of_pages = Answer::of(&self.report.pages, &self.report.replay.doubts, None, false);
        of_pages.max(Answer::of_findings(&self.findings, &self.coverage))
    }

    /// A crash can have torn pages that show no sign of it: they have no checksums, and WAL has no image of each page that
    /// was changed since the redo point. A server with a double write buffer writes none.
    fn has_unseen_tears(&self) -> bool {
        let control = self.source.directory.as_ref().and_then(|directory| directory.control().trusted());
        // With wal_level minimal a start with another setting leaves no record, and the settings alone tell.
        let settings = &self.source.settings;
        let is_minimal = control.is_none_or(|control| control.wal_level == WAL_LEVEL_MINIMAL);
        let is_off = settings.get("full_page_writes").is_some_and(|value| !is_true(value))
            || is_minimal && !settings.is_complete();
        let by_control = control.is_some_and(|control| control.checkpoint.full_page_writes != 0);
        let has_images = !self.source.may_use_dwb() && by_control && !is_off && !self.lacks_images;
        self.unproven_pages().is_some_and(|pages| pages > 0) && !has_images && self.report.replay.recovery.replays()
    }

    /// `database.schema.relation`, where known; a question mark follows a name that may be wrong.
    pub(crate) fn relation_name(&self, rel: RelFileLocator) -> Option<String> {
        self.names.full_name(rel)
    }

    /// The user interrupted it: the result is partial.
    pub fn interrupted(&self) -> bool {
        self.coverage.is_interrupted()
    }

    /// How a page's relation is called: by name where there is one, else by its numbers.
    pub fn called(&self, page: PageId) -> String {
        self.relation_name(page.rel).unwrap_or_else(|| page.rel.to_string())
    }

    /// Name of a file of the double write buffer.
    pub fn file_name(&self, file: usize) -> String {
        self.source.set.files.get(file).map_or_else(String::new, |file| file.name.clone())
    }

    /// Data checksums according to `pg_control`; `None` if it is missing or damaged.
    pub fn checksums(&self) -> Option<ChecksumState> {
        let control = self.source.directory.as_ref().and_then(|directory| directory.control().trusted());
        control.map(|control| control.checksums)
    }

    /// Pages get checksums when they are written: a server computes them by `pg_control`, or pages have them although it denies
    /// that. A valid one is fine in either case.
    pub(crate) fn writes_checksums(&self) -> bool {
        let is_denied = |finding: &Finding| finding.is(&CHECKSUMS_CONTRADICT);
        self.checksums().is_some_and(ChecksumState::is_written) || self.findings.iter().any(is_denied)
    }

    /// Pages that nothing proves to be whole, for want of checksums, if all pages were read.
    pub fn unproven_pages(&self) -> Option<u64> {
        self.scanned.as_ref().and_then(|scanned| scanned.unproven)
    }

    /// Where the images of pages are.
    pub(crate) fn image_files(&self) -> ImageFiles<'_> {
        let wal = self.wal.most();
        let built = &self.built.bytes;
        ImageFiles { dwb: &self.source.set, wal, donors: &self.donors, built, block_size: self.block_size }
    }

    /// Path of the file that holds a page, relative to the data directory.
    pub fn path_of(&self, page: PageId) -> String {
        self.paths.path_and_block(page).0.display().to_string()
    }
}
