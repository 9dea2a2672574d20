//! Which directory of MySQL or MariaDB is examined, and what belongs to it elsewhere.

use std::path::{Path, PathBuf};

use crate::analysis::in_order::all_cores;
use crate::cluster::innodb::files::{Elsewhere, InnodbFiles};
use crate::cluster::open::{AccessError, Links, read_small};
use crate::inspect::error::InspectError;
use crate::parsers::innodb::my_cnf::DirectorySettings;

/// Longest file with the path of a data file elsewhere.
const MAX_LINK_BYTES: u64 = 4096;

/// Longest option file.
const MAX_CNF_BYTES: u64 = 1 << 20;

/// What is to be examined.
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
    #[must_use]
    pub fn of(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: data_dir.into(), doublewrite_dir: None, my_cnf: None, jobs: all_cores() }
    }

    /// Directories that belong to the server, so that nothing is written into them: the data directory, and every one with files of
    /// it elsewhere that an option of the command, the option file or an `.isl` file names.
    ///
    /// # Errors
    /// When not all of them can be found out.
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

    /// What the option file says; without one, nothing.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn settings(&self) -> Result<DirectorySettings, InspectError> {
        let Some(path) = &self.my_cnf else { return Ok(DirectorySettings::default()) };
        let text = read_small(path, Links::Follow, MAX_CNF_BYTES).map_err(InspectError::InnodbFiles)?;
        Ok(DirectorySettings::parse(&String::from_utf8_lossy(&text)))
    }

    /// What of the data directory is elsewhere. The directory of the doublewrite buffer that was given counts more than the one in
    /// the option file.
    #[must_use]
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
///
/// # Errors
/// When it cannot be listed, or nothing of InnoDB is there.
pub fn list_files(request: &InnodbRequest) -> Result<InnodbFiles, InspectError> {
    let root = &request.data_dir;
    let elsewhere = request.elsewhere(&request.settings()?);
    let files = InnodbFiles::list(root, &elsewhere).map_err(InspectError::InnodbFiles)?;
    if files.is_empty() { Err(InspectError::NotInnodb(root.clone())) } else { Ok(files) }
}

/// The path in an `.isl` file, which names a data file elsewhere.
///
/// # Errors
/// When it cannot be read.
pub fn link_target(data_dir: &Path, link: &Path) -> Result<String, AccessError> {
    let bytes = read_small(&data_dir.join(link), Links::Refuse, MAX_LINK_BYTES)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
