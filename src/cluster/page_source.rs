//! Pages of relations by their identity, read one at a time.
//! Also here: where the pages of a relation are: directories, file names, forks and segment files.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::open::{AccessError, ReadFile, open_inside, real_directories};
use crate::parsers::wal::version::Major;
use crate::types::{
    BlockNumber, DEFAULT_TABLESPACE_OID, ForkNumber, GLOBAL_TABLESPACE_OID, Oid, PageId, RelFileLocator,
};

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

/// A relation's file by its name: `REL[_FORK][.SEG]`.
///
/// Source: `GetRelationPath`, `src/common/relpath.c`; `_mdfd_segpath`, `src/backend/storage/smgr/md.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelationFileName {
    /// File number of the relation.
    pub rel_number: u32,
    /// Fork.
    pub fork: ForkNumber,
    /// Number of the segment file, from 0.
    pub rel_segment: u32,
}

impl RelationFileName {
    /// Reads a name; `None` for names that the server does not give to permanent relations.
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, rel_segment) = match name.split_once('.') {
            Some((stem, digits)) => (stem, decimal(digits).filter(|number| *number > 0)?),
            None => (name, 0),
        };
        let (digits, fork) = match stem.split_once('_') {
            Some((digits, fork)) => (digits, fork.parse().ok().filter(|fork| *fork != ForkNumber::Main)?),
            None => (stem, ForkNumber::Main),
        };
        Some(Self { rel_number: decimal(digits).filter(|number| *number > 0)?, fork, rel_segment })
    }
}

impl std::fmt::Display for RelationFileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.rel_number)?;
        if self.fork != ForkNumber::Main {
            write!(f, "_{}", self.fork)?;
        }
        if self.rel_segment > 0 {
            write!(f, ".{}", self.rel_segment)?;
        }
        Ok(())
    }
}

/// A decimal number without sign or leading zero.
fn decimal(digits: &str) -> Option<u32> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| plain)
}

/// Name of the directory that a server makes in each tablespace: `PG_15_202209061`.
///
/// Source: `TABLESPACE_VERSION_DIRECTORY`, `src/include/common/relpath.h`.
pub fn tablespace_version_directory(major: Major, catalog_version_no: u32) -> String {
    format!("PG_{}_{catalog_version_no}", major.number())
}

/// Maps identities of relations to paths below the data directory.
#[derive(Clone, Debug)]
pub struct RelationPaths {
    version_directory: String,
    rel_segment_blocks: u32,
}

impl RelationPaths {
    /// `rel_segment_blocks`: pages in one segment file, from the control file.
    pub fn new(major: Major, catalog_version_no: u32, rel_segment_blocks: u32) -> Self {
        let version_directory = tablespace_version_directory(major, catalog_version_no);
        Self { version_directory, rel_segment_blocks: rel_segment_blocks.max(1) }
    }

    /// Pages in one segment file.
    pub const fn rel_segment_blocks(&self) -> u32 {
        self.rel_segment_blocks
    }

    /// Directory of a relation, relative to the data directory; the link of a tablespace is part of it.
    pub fn directory(&self, spc_oid: Oid, db_oid: Oid) -> PathBuf {
        match spc_oid {
            GLOBAL_TABLESPACE_OID => PathBuf::from("global"),
            DEFAULT_TABLESPACE_OID => PathBuf::from(format!("base/{db_oid}")),
            _ => self.tablespace(spc_oid).join(db_oid.to_string()),
        }
    }

    /// Directory of this server in a tablespace, relative to the data directory.
    pub fn tablespace(&self, spc_oid: Oid) -> PathBuf {
        PathBuf::from(format!("pg_tblspc/{spc_oid}/{}", self.version_directory))
    }

    /// Path of one segment file, relative to the data directory.
    pub fn segment_file(&self, rel: RelFileLocator, fork: ForkNumber, rel_segment: u32) -> PathBuf {
        let name = RelationFileName { rel_number: rel.rel_number, fork, rel_segment };
        self.directory(rel.spc_oid, rel.db_oid).join(name.to_string())
    }

    /// File of a page, and the page's number in that file.
    pub fn path_and_block(&self, page: PageId) -> (PathBuf, BlockNumber) {
        // No segment holds a page where none has a length.
        let rel_segment = page.block.checked_div(self.rel_segment_blocks).unwrap_or_default();
        let at = page.block.checked_rem(self.rel_segment_blocks).unwrap_or(page.block);
        (self.segment_file(page.rel, page.fork, rel_segment), at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_server_round_trip() {
        for name in ["16384", "16384_fsm", "16384_vm.1", "16384_init", "2619.12", "4294967295"] {
            assert_eq!(RelationFileName::parse(name).map(|file| file.to_string()).as_deref(), Some(name));
        }
    }

    #[test]
    fn other_names_are_not_taken_for_relations() {
        for name in [
            "",
            "0",
            "016384",
            "16384_main",
            "16384_",
            "16384.",
            "16384.0",
            "16384.01",
            "16384_vm.x",
            "t3_16384",
            "pg_filenode.map",
            "PG_VERSION",
            "16384.1.2",
            "+16384",
            "4294967296",
            "16384_fsm_vm",
            "16384.bak",
        ] {
            assert_eq!(RelationFileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn pages_map_to_files_as_the_server_does() {
        let paths = RelationPaths::new(Major::V15, 202_209_061, 131_072);
        let page = |spc_oid, db_oid, block| {
            let rel = RelFileLocator { spc_oid, db_oid, rel_number: 16_384 };
            let (path, at) = paths.path_and_block(PageId { rel, fork: ForkNumber::Vm, block });
            (path.to_str().unwrap().to_owned(), at)
        };
        assert_eq!(page(1664, 0, 3), ("global/16384_vm".into(), 3));
        assert_eq!(page(1663, 5, 131_072), ("base/5/16384_vm.1".into(), 0));
        assert_eq!(page(20_000, 5, 262_150), ("pg_tblspc/20000/PG_15_202209061/5/16384_vm.2".into(), 6));
    }
}
