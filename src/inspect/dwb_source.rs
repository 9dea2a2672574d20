//! Meaning of a path on the command line: a data directory, a directory of DWB files, or such files.
//! Also here: batches of a double write buffer that can be distinguished.
//! Also here: a cluster and its double write buffer at a glance: what `info` shows.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::error::InspectError;
use crate::analysis::dwb::format::{directories, open_buffer};
use crate::analysis::dwb::report::{Batch, DwbReport, examine_slots, find_batches};
use crate::analysis::dwb::slot_facts::SlotFacts;
use crate::analysis::dwb::staleness::{BatchReason, BatchVerdict};
use crate::analysis::dwb::trace::ClusterFacts;
use crate::analysis::in_order::all_cores;
use crate::analysis::pages::select::RelationPattern;
use crate::analysis::skipped::{Coverage, SkippedPart};
use crate::analysis::start::cluster_condition::{ClusterCondition, inspect_directory};
use crate::cluster::data_dir::{DataDir, NotADataDir};
use crate::cluster::dwb_files::{DwbFile, DwbSet};
use crate::cluster::innodb::is_innodb;
use crate::cluster::names::RelationNames;
use crate::cluster::open::Links;
use crate::cluster::page_source::RelationPaths;
use crate::cluster::relation_walk::{RelationWalk, relations_of};
use crate::cluster::running::ServerSign;
use crate::cluster::settings::{Settings, is_true};
use crate::cluster::tar_backup::TarBackup;
use crate::parsers::dwb::Slot;
use crate::report::{Finding, Severity, rules};
use crate::types::{DEFAULT_TABLESPACE_OID, GLOBAL_TABLESPACE_OID};

/// Settings by which a server uses its double write buffer, of two revisions of the patch.
const DWB_SETTINGS: [&str; 2] = ["double_write_buffer", "io_torn_pages_protection"];

/// A slot as it is read again.
pub struct SeenSlot<'a> {
    /// Its file.
    pub file: &'a DwbFile,
    /// Its bytes.
    pub slot: Slot<'a>,
    /// Its facts.
    pub facts: SlotFacts,
    /// To which batch it belongs.
    pub batch: Option<(BatchVerdict, BatchReason)>,
}

/// DWB files together with what is known of their cluster.
#[derive(Debug)]
pub struct DwbSource {
    /// The data directory, when one was named.
    pub directory: Option<DataDir>,
    /// Facts for judging slots.
    pub facts: ClusterFacts,
    /// Settings of the cluster.
    pub settings: Settings,
    /// The files.
    pub set: DwbSet,
}

impl DwbSource {
    /// Opens what the paths stand for.
    ///
    /// # Errors
    /// When a path is neither a data directory nor holds DWB files, or several paths are not all files.
    pub fn open(paths: &[PathBuf]) -> Result<Self, InspectError> {
        if let [path] = paths
            && path.is_dir()
        {
            return match DataDir::open(path) {
                Ok(directory) => Ok(Self::of_data_dir(directory)),
                Err(error @ NotADataDir::NoVersion(_)) if TarBackup::find(path).is_some() || is_innodb(path) => {
                    Err(InspectError::not_a_data_dir(path, error))
                }
                Err(error @ (NotADataDir::NoVersion(_) | NotADataDir::Inside { .. })) => {
                    Self::of_dwb_directory(path, error)
                }
                Err(error) => Err(error.into()),
            };
        }
        let mut set = DwbSet::default();
        for path in paths {
            if path.is_dir() {
                return Err(InspectError::DirectoryAmongFiles(path.clone()));
            }
            set.add_file(path, Links::Follow, &directories(), None);
        }
        for file in &set.files {
            if file.is_of_another_kind() {
                return Err(InspectError::NotADwbFile(file.path().to_owned()));
            }
        }
        Ok(Self { directory: None, facts: ClusterFacts::default(), settings: Settings::default(), set })
    }

    /// The double write buffer of a data directory.
    pub fn of_data_dir(directory: DataDir) -> Self {
        let settings = Settings::read(directory.root());
        let signs = directory.recovery_signs();
        let setting_mb = settings.double_write_buffer_size_mb();
        let facts = directory
            .control()
            .trusted()
            .map_or_else(ClusterFacts::default, |control| ClusterFacts::of(control, setting_mb, &signs));
        let set = open_buffer(directory.root(), facts.block_size);
        Self { directory: Some(directory), facts, settings, set }
    }

    /// A directory of DWB files: inside a data directory, or a copy somewhere else.
    fn of_dwb_directory(path: &Path, reason: NotADataDir) -> Result<Self, InspectError> {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_buffer = directories().iter().any(|kind| real.ends_with(kind.directory()));
        if is_buffer && let Some(Ok(directory)) = real.parent().map(DataDir::open) {
            return Ok(Self::of_data_dir(directory));
        }
        let mut set = DwbSet::default();
        set.add_directory(path, &directories(), None);
        if set.files.is_empty() && set.skipped.is_empty() {
            if matches!(reason, NotADataDir::Inside { .. }) {
                return Err(reason.into());
            }
            if let error @ InspectError::NotADataDir(NotADataDir::Above { .. }) =
                InspectError::not_a_data_dir(path, reason)
            {
                return Err(error);
            }
            return Err(InspectError::NothingToInspect(path.to_owned()));
        }
        Ok(Self { directory: None, facts: ClusterFacts::default(), settings: Settings::default(), set })
    }

    /// Directories that nothing is written into.
    ///
    /// # Errors
    /// When it cannot be found out which belong to the cluster: then nothing may be written anywhere.
    pub fn protected(&self) -> Result<Vec<PathBuf>, InspectError> {
        self.directory.as_ref().map_or_else(|| Ok(Vec::new()), protected_of)
    }

    /// Reads and judges everything: what every command starts with. Findings about the directory come first.
    pub fn examine(&self) -> (DwbReport, Vec<Finding>) {
        self.examine_slots(all_cores(), |_, _| ControlFlow::Continue(()))
    }

    /// Like [`Self::examine`], with this number of threads, and shows each slot in order, with the index of its file in the
    /// set, until `visit` interrupts.
    pub fn examine_slots(
        &self,
        jobs: usize,
        visit: impl FnMut(usize, &SlotFacts) -> ControlFlow<()>,
    ) -> (DwbReport, Vec<Finding>) {
        let mut report = examine_slots(&self.set, &self.facts, jobs, visit);
        let mut findings = Vec::new();
        if let Some(directory) = &self.directory {
            let (server, signs) = (directory.server_sign(), directory.recovery_signs());
            if signs.backup_label.is_some() {
                // Copied while a server was writing into it, and not used by recovery of the backup.
                for finding in &mut report.findings {
                    finding.severity = Severity::Note;
                }
            }
            findings.extend(inspect_directory(directory, &server, &signs, &mut report.coverage));
        }
        for error in &self.settings.skipped {
            report.coverage.skip(SkippedPart::Configuration, error);
        }
        if self.settings.includes > 0 {
            findings.push(
                INCLUDE
                    .note(format!("{} include lines in the configuration were not followed", self.settings.includes)),
            );
        }
        findings.append(&mut report.findings);
        findings.extend(self.note_if_empty());
        (report, findings)
    }

    /// Reads the files that `takes` accepts again, after they were examined, and shows each slot until `visit` fails.
    ///
    /// # Errors
    /// The error of `visit`.
    pub fn visit_slots<E>(
        &self,
        report: &mut DwbReport,
        takes: impl Fn(usize, &DwbFile) -> bool,
        mut visit: impl FnMut(&SeenSlot<'_>, &mut Coverage) -> Result<(), E>,
    ) -> Result<(), E> {
        for (index, file) in self.set.files.iter().enumerate().filter(|(index, file)| takes(*index, file)) {
            let mut scan = file.slots();
            while let Some(slot) = scan.next_slot() {
                let slot = match slot {
                    Ok(slot) => slot,
                    Err(error) => {
                        // The first pass has reported this, unless the file changed since.
                        report.coverage.skip_once(SkippedPart::file(&file.name), error);
                        continue;
                    }
                };
                let facts = SlotFacts::of(&slot, self.facts.checksums_written);
                let batch = report.staleness.verdict(index, facts.index);
                visit(&SeenSlot { file, slot, facts, batch }, &mut report.coverage)?;
            }
        }
        Ok(())
    }

    /// True when the cluster has a file of such a relation.
    pub(crate) fn has_file_of(&self, pattern: &RelationPattern) -> bool {
        let has_file = |directory| relations_of(directory).files.iter().any(|file| pattern.matches(file.rel));
        self.directory.as_ref().is_some_and(has_file)
    }

    /// Where pages of the cluster are, when that is known.
    pub(crate) fn relation_paths(&self) -> Option<RelationPaths> {
        let directory = self.directory.as_ref()?;
        let control = directory.control().trusted()?;
        let blocks = control.geometry.rel_segment_blocks;
        Some(RelationPaths::new(directory.major(), control.prefix.catalog_version_no, blocks))
    }

    /// The configuration says that the server writes pages into the double write buffer first.
    pub(crate) fn uses_dwb(&self) -> bool {
        !self.set.files.is_empty() && self.is_dwb_set()
    }

    /// Startup uses the mode `double_writes`: it is configured, or nothing is configured and it was the last mode.
    pub(crate) fn is_in_double_writes(&self) -> bool {
        const DOUBLE_WRITES: i32 = 2;
        let control = self.directory.as_ref().and_then(|directory| directory.control().trusted());
        let was_last = control.is_some_and(|control| control.torn_pages_protection == Some(DOUBLE_WRITES));
        self.settings.get("io_torn_pages_protection").map_or(was_last, |mode| mode == "double_writes")
    }

    /// It may have done so: the configuration says so, whatever became of the buffer, or says nothing of it where there are files of one.
    pub(crate) fn may_use_dwb(&self) -> bool {
        let says_nothing = DWB_SETTINGS.iter().all(|name| self.settings.get(name).is_none());
        self.is_dwb_set() || !self.set.files.is_empty() && says_nothing
    }

    fn is_dwb_set(&self) -> bool {
        let values = DWB_SETTINGS.iter().filter_map(|name| self.settings.get(name));
        values.into_iter().any(|value| is_true(value) || value == "double_writes")
    }

    /// A note for a directory without DWB files. A server without the patch keeps none, so it needs no note.
    fn note_if_empty(&self) -> Option<Finding> {
        let empty = self.set.files.is_empty() && self.set.skipped.is_empty();
        (empty && (self.directory.is_none() || self.is_dwb_set()))
            .then(|| NO_DWB.note("this data directory has no double write buffer"))
    }
}

/// Directories of a cluster that nothing is written into.
pub(crate) fn protected_of(directory: &DataDir) -> Result<Vec<PathBuf>, InspectError> {
    directory.own_directories().map_err(InspectError::OwnDirectories)
}

rules! {
    INCLUDE: Cluster "include",
        why: "the settings shown may not be those in effect",
        means: "Include lines of the configuration were not followed",
        action: "Check the included files for settings of the double write buffer";
    NO_DWB: DoubleWriteBuffer "no_dwb",
        why: "only servers with the double write buffer patch keep one",
        means: "The directory has no double write buffer",
        action: "Nothing";
}

/// Batches at some paths.
#[derive(Debug)]
pub struct BatchesReport {
    /// The files of the double write buffer.
    pub source: DwbSource,
    /// The batches, in the order of their slots.
    pub batches: Vec<Batch>,
    /// Names of relations; `None` when the paths are not a data directory.
    pub names: Option<RelationNames>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// Coverage.
    pub coverage: Coverage,
}

/// Tells the batches of a data directory, a directory of DWB files, or such files.
///
/// # Errors
/// When a path is neither a data directory nor holds DWB files, several paths are not all files, or `watch`, asked at each
/// slot, interrupts.
pub fn batches(paths: &[PathBuf], watch: &dyn Fn() -> ControlFlow<()>) -> Result<BatchesReport, InspectError> {
    let source = DwbSource::open(paths)?;
    let (report, findings) = source.examine_slots(all_cores(), |_, _| watch());
    if report.coverage.is_interrupted() {
        return Err(InspectError::BufferInterrupted);
    }
    // What the second pass cannot read, the first has reported already, unless the file changed in between.
    let (mut coverage, mut second) = (report.coverage, Coverage::default());
    let batches = find_batches(&source.set, &report.staleness, &source.facts, all_cores(), &mut second, watch);
    let batches = batches.ok_or(InspectError::BufferInterrupted)?;
    coverage.append_once(second);
    let names = source.directory.as_ref().map(|directory| RelationNames::read(directory).0);
    Ok(BatchesReport { source, batches, names, findings, coverage })
}

/// Facts at some paths.
#[derive(Debug)]
pub struct InfoReport {
    /// The directory, its settings and the files of its double write buffer.
    pub source: DwbSource,
    /// The cluster; `None` when the paths are not a data directory.
    pub cluster: Option<ClusterSummary>,
    /// The double write buffer, and what was not examined.
    pub dwb: DwbReport,
    /// Findings.
    pub findings: Vec<Finding>,
}

/// A cluster in a few values.
#[derive(Debug)]
pub struct ClusterSummary {
    /// Its condition.
    pub condition: ClusterCondition,
    /// Whether a server runs on it.
    pub server: ServerSign,
    /// Databases that have files.
    pub databases: u64,
    /// Files of relations.
    pub relation_files: u64,
    /// Bytes of these.
    pub relation_bytes: u64,
    /// Tablespaces beside the two that every cluster has.
    pub tablespaces: u64,
}

/// Examines a data directory, a directory of DWB files, or such files.
///
/// # Errors
/// When a path is neither a data directory nor holds DWB files, or several paths are not all files.
pub fn info(paths: &[PathBuf]) -> Result<InfoReport, InspectError> {
    let source = DwbSource::open(paths)?;
    let (mut dwb, findings) = source.examine();
    let walk = source.directory.as_ref().map(relations_of);
    for error in walk.iter().flat_map(|walk| &walk.skipped) {
        dwb.coverage.skip(SkippedPart::RelationFiles, error);
    }
    let cluster =
        source.directory.as_ref().zip(walk.as_ref()).map(|(directory, walk)| ClusterSummary::of(directory, walk));
    Ok(InfoReport { source, cluster, dwb, findings })
}

impl ClusterSummary {
    fn of(directory: &DataDir, walk: &RelationWalk) -> Self {
        let server = directory.server_sign();
        let databases: BTreeSet<u32> = walk.files.iter().map(|file| file.rel.db_oid).filter(|oid| *oid != 0).collect();
        let is_elsewhere = |oid: &u32| ![DEFAULT_TABLESPACE_OID, GLOBAL_TABLESPACE_OID].contains(oid);
        let tablespaces: BTreeSet<u32> = walk.files.iter().map(|file| file.rel.spc_oid).filter(is_elsewhere).collect();
        Self {
            condition: ClusterCondition::of(directory.control().trusted(), &server, &directory.recovery_signs()),
            server,
            databases: databases.len() as u64,
            relation_files: walk.files.len() as u64,
            relation_bytes: walk.files.iter().map(|file| file.size_bytes).sum(),
            tablespaces: tablespaces.len() as u64,
        }
    }
}
