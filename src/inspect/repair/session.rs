//! A repair in progress: from a cluster that was judged to a plan, and from a plan to a journal and the pages.
//! Also here: the lock on the data directory and the check of the blockers before every write.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::readiness::Readiness;
use super::replay::unfinished;
use super::{RepairRequest, Selection, Written, relations_of};
use crate::analysis::verdict::candidate::ImageSource;
use crate::analysis::verdict::images::{FetchError, fetch_image};
use crate::analysis::verdict::survey::PageReport;
use crate::cluster::data_dir::DataDir;
use crate::cluster::open::{AccessError, Links, read_small};
use crate::cluster::page_source::{PageRead, PageSource, RelationPages};
use crate::inspect::error::{InspectError, open_data_dir};
use crate::inspect::examination::Examination;
use crate::inspect::page_name::PageName;
use crate::parsers::control::ControlFile;
use crate::repair::apply::{Cluster, Direction, Order, carry_out};
use crate::repair::blocker::{Overrides, RepairLock, find_blockers};
use crate::repair::journal::{JournalError, NewJournal, beside, demand_short, examine_site};
use crate::repair::manifest::{DirectoryMark, JournalEntry, Manifest};
use crate::repair::plan::{PLAN_LIMIT_BYTES, Permission, Plan, PlanSource, PlanStep, crc_text};
use crate::repair::prepare::{Material, PrepareError, final_bytes};
use crate::repair::target::{DataRoot, TargetFile};
use crate::repair::witness::{ControlMark, WalMark, Witness};
use crate::types::PageId;

/// Space that a journal needs in addition to the pages, in bytes.
const JOURNAL_EXTRA_BYTES: u64 = 1 << 20;

/// Room that it needs for the words about each page: in the plan, in the manifest and in the log.
const WORDS_PER_PAGE_BYTES: u64 = 2 << 10;

pub(super) struct Session<'a> {
    examined: &'a Examination,
    root: &'a Path,
    control: &'a ControlFile,
    pages: RelationPages,
}

impl<'a> Session<'a> {
    pub(super) fn new(examined: &'a Examination) -> Result<Self, InspectError> {
        let directory = examined.source.directory.as_ref().ok_or(InspectError::NoDataDirectory)?;
        let control = directory.control().trusted().ok_or(InspectError::ControlUntrusted)?;
        let pages = RelationPages::new(directory.root(), examined.paths.clone());
        Ok(Self { examined, root: directory.root(), control, pages })
    }

    fn reports(&self) -> &'a [PageReport] {
        &self.examined.report.pages
    }

    fn find(&self, name: &PageName) -> Result<PageId, InspectError> {
        let matches = |report: &&PageReport| {
            let page = report.page;
            name.matches(page, &self.examined.paths, self.examined.relation_name(page.rel).as_deref())
        };
        let found: Vec<PageId> = self.reports().iter().filter(matches).map(|report| report.page).collect();
        match found[..] {
            [page] => Ok(page),
            [] => Err(InspectError::NoDamagedPage(name.clone())),
            _ => {
                let rels: Vec<_> = found.iter().map(|page| page.rel).collect();
                Err(InspectError::ambiguous(&name.to_string(), &rels, &self.examined.names))
            }
        }
    }

    /// Permissions of the request, with pages instead of their names.
    pub(super) fn permission(&self, request: &RepairRequest) -> Result<Permission, InspectError> {
        let (all, named): (Vec<&PageName>, Vec<&PageName>) =
            request.allow_unproven.iter().partition(|name| name.is_all());
        let find = |names: &[&PageName]| names.iter().map(|name| self.find(name)).collect::<Result<Vec<_>, _>>();
        Ok(Permission {
            source: request.source,
            all_unproven: !all.is_empty(),
            unproven: find(&named)?,
            lose_changes: find(&request.lose_changes.iter().collect::<Vec<_>>())?,
            blank_maps: request.blank_maps,
        })
    }

    /// Selection of the request, with pages instead of their names.
    pub(super) fn selection<'r>(&self, request: &'r RepairRequest) -> Result<Selection<'r>, InspectError> {
        let pages =
            request.pages.iter().map(|name| Ok((self.find(name)?, name))).collect::<Result<Vec<_>, InspectError>>()?;
        let relations = relations_of(self.examined, &request.relations)?;
        Ok(Selection { pages, relations, source: request.source })
    }

    /// Has something done with all that plans are made from.
    fn with_material<T>(&self, work: impl FnOnce(&Material<'_>) -> Result<T, PrepareError>) -> Result<T, InspectError> {
        let fetch = |source: &ImageSource, page: PageId| self.fetch(source, page);
        let disk = |page: PageId| {
            let mut bytes = vec![0; self.examined.block_size];
            let read = self.pages.read_page(page, &mut bytes)?;
            Ok((read == PageRead::Whole).then_some(bytes))
        };
        let path = |page: PageId| self.examined.path_of(page);
        let name = |rel| self.examined.relation_name(rel);
        let material = Material {
            system_identifier: self.control.prefix.system_identifier,
            redo_lsn: self.control.checkpoint.redo_lsn,
            checksums: self.examined.writes_checksums(),
            pages: self.reports(),
            fetch: &fetch,
            disk: &disk,
            path: &path,
            name: &name,
        };
        Ok(work(&material)?)
    }

    /// The steps of a plan as they are planned today; every one of them must be one that could be.
    pub(super) fn confirm(&self, plan: &Plan, permission: &Permission) -> Result<Vec<PlanStep>, InspectError> {
        self.with_material(|material| material.confirm(plan, permission))
    }

    pub(super) fn plan(&self, permission: &Permission, selection: &Selection<'_>) -> Result<Plan, InspectError> {
        self.with_material(|material| material.plan(permission, &|report| selection.takes_report(report)))
    }

    /// Selection of a saved plan by the request, confirmed.
    pub(super) fn confirm_saved(&self, request: &RepairRequest, file: &Path) -> Result<Plan, InspectError> {
        let (permission, selection) = (self.permission(request)?, self.selection(request)?);
        let text = read_small(file, Links::Follow, PLAN_LIMIT_BYTES)?;
        let mut plan: Plan =
            serde_json::from_slice(&text).map_err(|source| InspectError::NotAPlan { path: file.to_owned(), source })?;
        selection.narrow(&mut plan)?;
        plan.steps = self.confirm(&plan, &permission)?;
        Ok(plan)
    }

    fn fetch(&self, source: &ImageSource, page: PageId) -> Result<Vec<u8>, FetchError> {
        fetch_image(source, page, &self.examined.image_files())
    }

    /// Tests requirements of applying a plan other than its pages and images: where the journal goes, and the files.
    pub(super) fn ready(&self, plan: &Plan, journal: Option<&Path>) -> Result<Readiness, InspectError> {
        let each = (self.examined.block_size as u64 * 2).saturating_add(WORDS_PER_PAGE_BYTES);
        let needed_bytes = (plan.steps.len() as u64).saturating_mul(each).saturating_add(JOURNAL_EXTRA_BYTES);
        let directory = journal.map_or_else(|| beside(self.root), |journal| Ok(journal.to_owned()))?;
        let site = examine_site(&directory, &self.examined.source.protected()?, needed_bytes);
        let root = DataRoot::open(self.root)?;
        let paths: BTreeSet<PathBuf> = plan
            .steps
            .iter()
            .filter_map(|step| Some(self.examined.paths.path_and_block(step.page.page_id()?).0))
            .collect();
        let files = paths.len();
        let closed = paths.iter().filter_map(|path| TargetFile::open(&root, path).err()).collect();
        Ok(Readiness { journal: directory, site, needed_bytes, files, closed })
    }

    /// Everything that comes before the first write, without writing: the journal is not made, and no file is changed.
    pub(super) fn rehearse(&self, plan: &Plan, locked: &Locked, journal: Option<&Path>) -> Result<(), InspectError> {
        self.ready(plan, journal)?.demand()?;
        self.witness(locked)?;
        let filled: Result<Vec<JournalEntry>, FillError> =
            plan.steps.iter().map(|step| Ok(self.bytes_of_step(step)?.0)).collect();
        let entries = filled.map_err(InspectError::Unfit)?;
        demand_short(&entries).map_err(InspectError::JournalNotBegun)
    }

    /// Writes the journal, then the pages.
    pub(super) fn apply(&self, plan: &Plan, locked: &Locked, journal: Option<&Path>) -> Result<Written, InspectError> {
        let (system, block_size) = (self.control.prefix.system_identifier, self.examined.block_size);
        // What fails now leaves nothing.
        let Readiness { journal: directory, needed_bytes: needed, .. } = self.ready(plan, journal)?.demand()?;
        let protected = self.examined.source.protected()?;
        let manifest = Manifest::new(DirectoryMark::of(locked.lock.root())?, system, self.witness(locked)?, block_size);
        let mut journal = NewJournal::create(&directory, &protected, manifest, plan, needed)
            .map_err(InspectError::JournalNotBegun)?;
        if let Err(source) = self.fill(&mut journal, plan) {
            return Err(InspectError::JournalNotFilled { journal: journal.directory().to_owned(), source });
        }
        let journal = journal.finish().map_err(InspectError::JournalNotBegun)?;
        let cluster =
            Cluster { lock: &locked.lock, system_identifier: system, block_size, paths: &self.examined.paths };
        match carry_out(cluster, &journal, &Order::whole(Direction::Forward), |_| true) {
            Ok(applied) => Ok(Written { journal, applied }),
            Err(stopped) => Err(unfinished(stopped, self.root, &journal, locked.overrides)),
        }
    }

    /// Proof for later that no server was started: `pg_control` as it was before anything was judged, and the end of
    /// WAL.
    fn witness(&self, locked: &Locked) -> Result<Witness, InspectError> {
        let end_lsn = self.examined.report.replay.end_lsn.unwrap_or(self.control.checkpoint_lsn);
        let wal_end = WalMark::read(locked.lock.root(), self.control, end_lsn)?;
        let witness = Witness::now(locked.control.clone(), wal_end);
        match witness.control_contradicted_by(locked.lock.root())? {
            None => Ok(witness),
            Some(sign) => Err(InspectError::ServerWasStarted(sign)),
        }
    }

    /// Puts the old and the new bytes of every step into the journal.
    fn fill(&self, journal: &mut NewJournal, plan: &Plan) -> Result<(), FillError> {
        for step in &plan.steps {
            let (entry, before, after) = self.bytes_of_step(step)?;
            journal.add(entry, &before, &after)?;
        }
        Ok(())
    }

    /// Content of a journal for a step: its entry, the old and the new bytes, read now.
    fn bytes_of_step(&self, step: &PlanStep) -> Result<(JournalEntry, Vec<u8>, Vec<u8>), FillError> {
        let block_size = self.examined.block_size;
        let checksums = self.examined.writes_checksums();
        let changed = |change| FillError::Changed { path: step.path.clone(), block: step.page.block, change };
        let page = step.page.page_id().ok_or_else(|| changed(StepChange::NoSuchFork))?;
        let report = self.reports().iter().find(|report| report.page == page);
        let candidates = report.map_or(&[][..], |report| &report.verdict.candidates);
        let mut sources = candidates.iter().map(|judged| &judged.candidate.source);
        let image = if step.image == PlanSource::Blank {
            vec![0; block_size]
        } else {
            let source = sources.find(|source| PlanSource::of(source) == step.image);
            self.fetch(source.ok_or_else(|| changed(StepChange::ImageGone))?, page)?
        };
        let after = final_bytes(image, page.block, checksums);
        let mut before = vec![0; block_size];
        let read = self.pages.read_page(page, &mut before)?;
        if read != PageRead::Whole || crc_text(&before) != step.before_crc {
            return Err(changed(StepChange::PageChanged));
        }
        if crc_text(&after) != step.after_crc {
            return Err(changed(StepChange::ImageChanged));
        }
        let (path, at) = self.examined.paths.path_and_block(page);
        let entry = JournalEntry {
            page: step.page.clone(),
            path: path.display().to_string(),
            offset: u64::from(at) * block_size as u64,
            before_crc: step.before_crc.clone(),
            after_crc: step.after_crc.clone(),
        };
        Ok((entry, before, after))
    }
}

/// A data directory that is locked, and what was in its `pg_control` before it was judged.
pub(super) struct Locked {
    pub lock: RepairLock,
    /// `pg_control`.
    pub control: ControlMark,
    pub overrides: Overrides,
}

impl Locked {
    /// Takes the lock, then reads `pg_control`.
    pub(super) fn take(data_dir: &Path, overrides: Overrides) -> Result<Self, InspectError> {
        let (lock, _) = guarded(data_dir, overrides)?;
        let control = ControlMark::read(lock.root())?;
        Ok(Self { lock, control, overrides })
    }
}

/// Takes the lock, then looks whether anything forbids writing.
pub(super) fn guarded(data_dir: &Path, overrides: Overrides) -> Result<(RepairLock, DataDir), InspectError> {
    // Says what is wrong with a path that is not a data directory before anything is locked.
    open_data_dir(data_dir)?;
    let lock = RepairLock::take(data_dir).map_err(|blocker| InspectError::Refused(vec![blocker]))?;
    let directory = open_data_dir(data_dir)?;
    let blockers = find_blockers(&directory, overrides);
    if blockers.is_empty() { Ok((lock, directory)) } else { Err(InspectError::Refused(blockers)) }
}

/// Why the old and new bytes of a page could not be put into a journal.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// The page or its image is no longer what the plan says.
    #[error("{path} block {block}: {change}")]
    Changed {
        /// File of the page.
        path: String,
        block: u32,
        /// In what way.
        change: StepChange,
    },
    /// The image cannot be read.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The page cannot be read.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// In what way a step no longer fits what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepChange {
    /// It names a fork that does not exist.
    #[error("no such fork")]
    NoSuchFork,
    /// Its image no longer exists.
    #[error("its image no longer exists")]
    ImageGone,
    /// The page is another.
    #[error("the page has changed")]
    PageChanged,
    /// The image is another.
    #[error("its image has changed")]
    ImageChanged,
}
