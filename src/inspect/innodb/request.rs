//! Which directory of MySQL or MariaDB is examined, and what belongs to it elsewhere.

use std::path::{Path, PathBuf};

use crate::analysis::in_order::all_cores;
use crate::cluster::innodb::files::InnodbFiles;
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
    /// Option file of the server, which tells where the doublewrite buffer is if that is not given.
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

    /// Directories that belong to the server, so that nothing is written into them: the data directory, that of the doublewrite
    /// buffer, and those of data files that are elsewhere.
    ///
    /// # Errors
    /// When not all of them can be found out.
    pub fn protected(&self) -> Result<Vec<PathBuf>, InspectError> {
        let files = list_files(self)?;
        let mut found = vec![self.data_dir.clone()];
        found.extend(self.buffer_directory()?);
        for link in &files.links {
            let target = link_target(&self.data_dir, link).map_err(InspectError::InnodbFiles)?;
            found.extend(self.data_dir.join(target).parent().map(Path::to_owned));
        }
        Ok(found)
    }

    /// Directory of the doublewrite buffer, if one is named.
    fn buffer_directory(&self) -> Result<Option<PathBuf>, InspectError> {
        match (&self.doublewrite_dir, &self.my_cnf) {
            (Some(given), _) => Ok(Some(given.clone())),
            (None, Some(path)) => {
                let text = read_small(path, Links::Follow, MAX_CNF_BYTES).map_err(InspectError::InnodbFiles)?;
                let settings = DirectorySettings::parse(&String::from_utf8_lossy(&text));
                Ok(settings.directory().map(|directory| self.data_dir.join(directory)))
            }
            (None, None) => Ok(None),
        }
    }
}

/// Lists the files of a directory, before anything of it is read.
///
/// # Errors
/// When it cannot be listed, or nothing of InnoDB is there.
pub fn list_files(request: &InnodbRequest) -> Result<InnodbFiles, InspectError> {
    let root = &request.data_dir;
    let elsewhere = request.buffer_directory()?;
    let files = InnodbFiles::list(root, elsewhere.as_deref()).map_err(InspectError::InnodbFiles)?;
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
