//! What a path on the command line stands for: a data directory, a directory of DWB files, or such files.

use std::path::{Path, PathBuf};

use crate::analysis::dwb_report::ClusterFacts;
use crate::analysis::finding::{Coverage, Finding};
use crate::cli::exit::Stop;
use crate::cluster::data_dir::{DataDir, NotADataDir};
use crate::cluster::dwb_files::DwbSet;
use crate::cluster::open::Links;
use crate::cluster::relation_path::RelationPaths;
use crate::cluster::settings::Settings;

/// DWB files together with what is known of their cluster.
#[derive(Debug)]
pub struct Source {
    /// The data directory, when one was named.
    pub directory: Option<DataDir>,
    /// Facts for judging slots.
    pub facts: ClusterFacts,
    /// The files.
    pub set: DwbSet,
    /// Places that nothing is written into.
    pub protected: Vec<PathBuf>,
}

impl Source {
    /// Opens what the paths stand for.
    ///
    /// # Errors
    /// When a path is neither a data directory nor holds DWB files, or several paths are not all files.
    pub fn open(paths: &[PathBuf]) -> Result<Self, Stop> {
        let protected = paths.iter().map(|path| directory_of(path)).collect();
        if let [path] = paths
            && path.is_dir()
        {
            return match DataDir::open(path) {
                Ok(directory) => Ok(Self::of_data_dir(directory, protected)),
                Err(NotADataDir::NoVersion(_)) => Self::of_dwb_directory(path, protected),
                Err(error) => Err(Stop::Input(error.to_string())),
            };
        }
        let mut set = DwbSet::default();
        for path in paths {
            if path.is_dir() {
                let path = path.display();
                return Err(Stop::Input(format!("{path} is a directory: several paths must all be files")));
            }
            set.add_file(path, Links::Follow, None);
        }
        Ok(Self { directory: None, facts: ClusterFacts::default(), set, protected })
    }

    fn of_data_dir(directory: DataDir, protected: Vec<PathBuf>) -> Self {
        let setting_mb = Settings::read(directory.root()).double_write_buffer_size_mb();
        let facts = directory
            .control()
            .trusted()
            .map_or_else(ClusterFacts::default, |control| ClusterFacts::of(control, setting_mb));
        let set = DwbSet::of_data_dir(directory.root(), facts.block_size);
        Self { directory: Some(directory), facts, set, protected }
    }

    fn of_dwb_directory(path: &Path, protected: Vec<PathBuf>) -> Result<Self, Stop> {
        let mut set = DwbSet::default();
        set.add_directory(path, None);
        if set.files.is_empty() && set.skipped.is_empty() {
            let path = path.display();
            return Err(Stop::Input(format!(
                "{path} is neither a data directory (it has no PG_VERSION) nor does it hold double write buffer files"
            )));
        }
        Ok(Self { directory: None, facts: ClusterFacts::default(), set, protected })
    }

    /// Where pages of the cluster are, when that is known.
    #[must_use]
    pub fn relation_paths(&self) -> Option<RelationPaths> {
        let directory = self.directory.as_ref()?;
        let control = directory.control().trusted()?;
        let blocks = control.geometry.rel_segment_blocks;
        Some(RelationPaths::new(directory.major(), control.prefix.catalog_version_no, blocks))
    }

    /// A note for a data directory without DWB files: nothing is wrong, but nothing was shown either.
    #[must_use]
    pub fn note_if_empty(&self) -> Option<Finding> {
        let empty = self.set.files.is_empty() && self.set.skipped.is_empty();
        empty.then(|| {
            let what = "this data directory has no double write buffer".to_owned();
            Finding::note("no_dwb", what, "only servers with the double write buffer patch keep one")
        })
    }

    /// Adds what was wrong with the control file, for commands that judge slots by it.
    pub fn check_control(&self, coverage: &mut Coverage, findings: &mut Vec<Finding>) {
        let Some(directory) = &self.directory else { return };
        let server = directory.server_sign();
        let signs = directory.recovery_signs();
        findings.extend(crate::analysis::cluster_report::inspect_directory(directory, &server, &signs, coverage));
    }
}

/// The directory that a path is or lies in.
fn directory_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.to_owned();
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
