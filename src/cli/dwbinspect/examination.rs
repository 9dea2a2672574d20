//! Everything that `check`, `page` and what builds on them start with: the data directory opened, read and judged.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::source::Source;
use super::wal::WalSources;
use crate::analysis::cluster_report::state_in_words;
use crate::analysis::dwb_report::DwbReport;
use crate::analysis::finding::{Coverage, Finding};
use crate::analysis::verdict::check::{CheckInput, CheckReport, Stage, check};
use crate::analysis::verdict::replay::Replay;
use crate::analysis::verdict::slots::{SlotRef, Suspicion};
use crate::cli::exit::Stop;
use crate::cluster::data_dir::DataDir;
use crate::cluster::names::RelationNames;
use crate::cluster::page_source::RelationPages;
use crate::cluster::relation_path::RelationPaths;
use crate::types::{PageId, RelFileLocator};

/// Page size of servers as they are delivered, in bytes; taken where nothing says otherwise.
const USUAL_BLOCK_SIZE: u32 = 8192;

/// Pages in a segment file of such servers.
const USUAL_SEGMENT_BLOCKS: u32 = 131_072;

/// What is looked at.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Leave relation files alone but for pages that the double write buffer holds.
    pub dwb_only: bool,
    /// Only this page.
    pub page: Option<PageId>,
    /// WAL from elsewhere.
    pub wal: Vec<PathBuf>,
    /// Threads for the page scan.
    pub jobs: usize,
}

/// A data directory, read and judged.
pub struct Examination {
    /// The directory and its double write buffer.
    pub source: Source,
    /// Judgement of the buffer.
    pub dwb: DwbReport,
    /// Names of relations.
    pub names: RelationNames,
    /// Where pages are.
    pub paths: RelationPaths,
    /// WAL.
    pub wal: WalSources,
    /// The verdicts.
    pub report: CheckReport,
    /// Findings about everything.
    pub findings: Vec<Finding>,
    /// What was not looked at.
    pub coverage: Coverage,
    /// Bytes of a page.
    pub block_size: usize,
    /// What happened to the cluster, in a sentence.
    pub state: String,
    /// What the page scan looked at, in words, if it ran.
    pub scanned: Option<String>,
}

impl Examination {
    /// Opens and judges a data directory.
    ///
    /// # Errors
    /// When the path is no data directory, or WAL that was named is none.
    pub fn run(
        data_dir: &Path,
        request: &Request,
        progress: &dyn Fn(Stage, u64) -> ControlFlow<()>,
    ) -> Result<Self, Stop> {
        let directory = DataDir::open(data_dir).map_err(|error| Stop::Input(error.to_string()))?;
        let source = Source::of_data_dir(directory);
        let Some(directory) = source.directory.as_ref() else {
            return Err(Stop::Input(format!("{} is no data directory", data_dir.display())));
        };
        let mut slots = Vec::new();
        let (mut dwb, mut findings) = source.examine_slots(|file, facts| {
            let wanted = |slot: &SlotRef| request.page.is_none_or(|page| page == slot.page);
            slots.extend(SlotRef::of(file, facts).filter(wanted));
        });
        let mut coverage = std::mem::take(&mut dwb.coverage);
        let control = directory.control().trusted();
        let block_size = source.facts.block_size.or(source.set.files.first().map(|file| file.detection.block_size));
        let block_size = usize::try_from(block_size.unwrap_or(USUAL_BLOCK_SIZE)).unwrap_or_default();
        let paths =
            source.relation_paths().unwrap_or_else(|| RelationPaths::new(directory.major(), 0, USUAL_SEGMENT_BLOCKS));
        let (names, gaps) = RelationNames::read(directory);
        if !gaps.is_empty() {
            let first = gaps.first().map(ToString::to_string).unwrap_or_default();
            let what = format!("gaps in the names of relations: {}, the first: {first}", gaps.len());
            findings.push(Finding::note("names_incomplete", what, "some relations are shown by their numbers"));
        }
        let wal = WalSources::open(data_dir, control, &request.wal, &mut findings, &mut coverage)?;
        let server = directory.server_sign();
        let pages = RelationPages::new(directory.root(), paths.clone());
        let mut suspects = BTreeMap::new();
        if let Some(page) = request.page {
            suspects.insert(page, Suspicion::Differs);
        }
        let signs = directory.recovery_signs();
        let state = control.map_or_else(
            || "pg_control cannot be trusted, so it is not known what state the cluster is in.".to_owned(),
            |control| state_in_words(control, &server, &signs),
        );
        let input = CheckInput {
            control,
            replay: Replay::of(control, &signs),
            facts: &source.facts,
            pages: &pages,
            block_size,
            dwb: &source.set,
            staleness: &dwb.staleness,
            slots,
            suspects,
            newest_page: None,
            own_wal: wal.own.as_ref(),
            all_wal: wal.all.as_ref(),
            may_be_running: server.may_be_running(),
            keep_all: request.page.is_some(),
            uses_dwb: uses_dwb(&source),
        };
        let mut report = check(input, progress);
        if !report.pages.is_empty() {
            let what = format!("{} pages are damaged", report.pages.len());
            findings.push(Finding::problem("damaged_pages", what, "see the verdict on each"));
        }
        findings.append(&mut report.findings);
        coverage.skipped.append(&mut report.coverage.skipped);
        Ok(Self { source, dwb, names, paths, wal, report, findings, coverage, block_size, state, scanned: None })
    }

    /// `database.schema.relation`, where known; a question mark follows a name that may be wrong.
    #[must_use]
    pub fn relation_name(&self, rel: RelFileLocator) -> Option<String> {
        let name = self.names.get(rel)?;
        Some(if name.doubt.is_some() { format!("{name}?") } else { name.to_string() })
    }

    /// Name of a page's relation without its database where there is one, else its path.
    #[must_use]
    pub fn short_name(&self, page: PageId) -> String {
        let Some(name) = self.names.get(page.rel) else {
            return page.rel.to_string();
        };
        let doubt = if name.doubt.is_some() { "?" } else { "" };
        match name.schema.as_deref() {
            Some("pg_catalog") | None => format!("{}{doubt}", name.relation),
            Some(schema) => format!("{schema}.{}{doubt}", name.relation),
        }
    }

    /// Name of a file of the double write buffer.
    #[must_use]
    pub fn file_name(&self, file: usize) -> String {
        self.source.set.files.get(file).map_or_else(String::new, |file| file.name.clone())
    }

    /// Whether pages carry checksums, in words.
    #[must_use]
    pub fn checksums(&self) -> String {
        let control = self.source.directory.as_ref().and_then(|directory| directory.control().trusted());
        control.map_or_else(|| "not known".to_owned(), |control| control.checksums.to_string())
    }

    /// The configuration says that the server uses a double write buffer.
    #[must_use]
    pub fn uses_dwb(&self) -> bool {
        uses_dwb(&self.source)
    }

    /// Path of the file that holds a page, relative to the data directory.
    #[must_use]
    pub fn path_of(&self, page: PageId) -> String {
        self.paths.place(page).0.display().to_string()
    }
}

/// The configuration says that the server writes pages into the double write buffer first.
fn uses_dwb(source: &Source) -> bool {
    let is_on = |name| {
        let value = source.settings.get(name).unwrap_or_default();
        ["on", "true", "yes", "1", "double_writes"].contains(&value)
    };
    !source.set.files.is_empty() && (is_on("double_write_buffer") || is_on("io_torn_pages_protection"))
}
