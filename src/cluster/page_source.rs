//! Pages of relations by their identity, read one at a time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::open::{AccessError, ReadFile, open_inside, real_directories};
use super::relation_path::RelationPaths;
use crate::types::{BlockNumber, ForkNumber, PageId, RelFileLocator};

/// State of the position of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRead {
    /// The whole page.
    Whole,
    /// The file ends inside the page.
    Partial {
        /// Bytes of the page that are there; the rest of the buffer is zero.
        have_bytes: usize,
    },
    /// The fork is shorter.
    BeyondEnd,
    /// The fork has no file.
    NoFile,
}

/// Something that pages of relations can be read from.
pub trait PageSource {
    /// Reads one page into `buf`, whose length is the block size. Missing bytes are zero.
    fn read_page(&self, page: PageId, buf: &mut [u8]) -> Result<PageRead, AccessError>;

    /// True when the fork has a file.
    fn has_fork(&self, rel: RelFileLocator, fork: ForkNumber) -> Result<bool, AccessError>;

    /// A source of the same pages for another thread.
    fn another(&self) -> Box<dyn PageSource + Send>;
}

const MAX_OPEN: usize = 8;

/// The relation files of a data directory. Those used last are kept open.
#[derive(Debug)]
pub struct RelationPages {
    root: PathBuf,
    paths: RelationPaths,
    open: RefCell<VecDeque<(PathBuf, Option<ReadFile>)>>,
}

impl RelationPages {
    /// `root`: the data directory.
    pub fn new(root: &Path, paths: RelationPaths) -> Self {
        Self { root: root.to_owned(), paths, open: RefCell::default() }
    }

    /// Where pages are.
    pub const fn paths(&self) -> &RelationPaths {
        &self.paths
    }

    /// Makes sure that `path`, relative to the data directory, is the first of those kept open; `None` instead of a file that
    /// does not exist.
    fn keep_open(&self, path: &Path) -> Result<(), AccessError> {
        let mut open = self.open.borrow_mut();
        if let Some(at) = open.iter().position(|(kept, _)| kept == path) {
            open.swap(0, at);
            return Ok(());
        }
        open.truncate(MAX_OPEN - 1);
        let file = match open_inside(&self.root, path) {
            Ok(file) => Some(file),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        open.push_front((path.to_owned(), file));
        Ok(())
    }

    fn read_kept(&self, at: BlockNumber, buf: &mut [u8]) -> Result<Option<usize>, AccessError> {
        let open = self.open.borrow();
        let Some((_, Some(file))) = open.front() else { return Ok(None) };
        let offset = u64::from(at).saturating_mul(buf.len() as u64);
        file.read_at(buf, offset).map(Some)
    }
}

impl PageSource for RelationPages {
    fn read_page(&self, page: PageId, buf: &mut [u8]) -> Result<PageRead, AccessError> {
        buf.fill(0);
        let (path, at) = self.paths.path_and_block(page);
        self.keep_open(&path)?;
        match self.read_kept(at, buf)? {
            Some(have) if have == buf.len() => Ok(PageRead::Whole),
            Some(0) => Ok(PageRead::BeyondEnd),
            Some(have_bytes) => {
                buf[have_bytes..].fill(0);
                Ok(PageRead::Partial { have_bytes })
            }
            None if self.has_fork(page.rel, page.fork)? => Ok(PageRead::BeyondEnd),
            None => Ok(PageRead::NoFile),
        }
    }

    fn has_fork(&self, rel: RelFileLocator, fork: ForkNumber) -> Result<bool, AccessError> {
        let relative = self.paths.segment_file(rel, fork, 0);
        let path = self.root.join(&relative);
        match real_directories(&self.root, &relative) {
            Ok(()) => {}
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        }
        match path.symlink_metadata() {
            Ok(_) => Ok(true),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(AccessError::io("examine", &path, source)),
        }
    }

    fn another(&self) -> Box<dyn PageSource + Send> {
        Box::new(Self::new(&self.root, self.paths.clone()))
    }
}
