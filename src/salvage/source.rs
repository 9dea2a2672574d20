//! The files that rows are read from: a data directory, or what is left of one. Nothing of it is trusted, and little of it is needed.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::catalogs::rows_of;
use super::changes::{Changes, Interruption};
use super::keys::leaf_entries;
use super::layout::{Offsets, in_utf8, name_at, padded_name};
use super::rows::has_right_checksum;
use super::xacts::{WalFacts, Xacts};
use crate::cluster::data_dir::DataDir;
use crate::cluster::open::{AccessError, Links, ReadFile, list, read_small};
use crate::cluster::page_source::RelationFileName;
use crate::parsers::checksum::page_checksum;
use crate::parsers::control::ControlFile;
use crate::parsers::decode::{u16_at, u32_at};
use crate::parsers::filenode_map::FilenodeMap;
use crate::parsers::page::PageHeader;
use crate::parsers::wal::version::Major;
use crate::types::{ForkNumber, Lsn, MAX_BLOCK_NUMBER, Oid, is_block_size};

/// Databases without rows of users.
const TEMPLATES: [&[u8]; 2] = [b"template0", b"template1"];

/// Indexes of `pg_database`: by name, by OID.
const DATABASE_INDEXES: [Oid; 2] = [2671, 2672];

/// The least file number of a user's relation (`FirstNormalObjectId`).
pub(crate) const FIRST_USER_NUMBER: u32 = 16_384;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of one segment file of a relation, as servers are built.
const SEGMENT_BYTES: u64 = 1 << 30;

/// Pages that are looked at to find out whether the cluster has checksums.
const SAMPLED_PAGES: usize = 64;

/// Tablespace `pg_default`: `base`.
const DEFAULT_SPACE: Oid = 1663;

/// Longest `pg_filenode.map`.
const MAX_MAP_BYTES: u64 = 4096;

/// Why there is nothing to read rows from.
#[derive(Debug, thiserror::Error)]
pub enum NoSource {
    /// The system refused.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Neither a data directory nor the directory of a database.
    #[error("{} is neither a data directory nor the directory of a database: it has neither base/ nor pg_class (1259)", .0.display())]
    NotADatabase(PathBuf),
    /// No file names the major.
    #[error("the major version is unknown: {} has no PG_VERSION; pass --major", .0.display())]
    UnknownMajor(PathBuf),
    /// Files name another major than was asked for.
    #[error("{} is of PostgreSQL {}, not {}", .path.display(), .found.number(), .said.number())]
    OtherMajor {
        /// Where it is.
        path: PathBuf,
        /// What a file says.
        found: Major,
        /// What was asked for.
        said: Major,
    },
}

/// The main fork of a relation.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentFiles {
    /// Database and file number, as WAL names them; zeros for a file that no relation has.
    rel: (Oid, u32),
    /// Files by the number of the segment.
    files: BTreeMap<u32, PathBuf>,
}

impl SegmentFiles {
    /// A relation of one file.
    pub fn one(rel: (Oid, u32), path: PathBuf) -> Self {
        Self { rel, files: BTreeMap::from([(0, path)]) }
    }

    /// Database and file number, as WAL names them.
    pub const fn rel(&self) -> (Oid, u32) {
        self.rel
    }

    /// The file with its first page.
    pub fn first(&self) -> Option<&PathBuf> {
        self.files.get(&0)
    }
}

/// A database whose files are there.
#[derive(Debug)]
pub(crate) struct DatabaseFiles {
    pub oid: Oid,
    /// As stored; `None` where `pg_database` does not tell.
    pub name: Option<Vec<u8>>,
    /// Number of its encoding (`pg_enc`), where `pg_database` tells.
    pub encoding: Option<i32>,
    /// Directory with its catalogs, in `base` or in a tablespace.
    pub directory: PathBuf,
    /// Files of main forks, by tablespace (0: that of the database) and file number.
    relations: BTreeMap<(Oid, u32), SegmentFiles>,
}

impl DatabaseFiles {
    /// The main fork of a relation; of another tablespace where the named one does not have it.
    pub fn main_fork(&self, spc_oid: Oid, rel_number: u32) -> Option<&SegmentFiles> {
        let at = |spc| self.relations.get(&(spc, rel_number));
        at(spc_oid).or_else(|| at(0)).or_else(|| {
            let mut others = self.relations.iter().filter(|((_, number), _)| *number == rel_number);
            others.next().map(|(_, files)| files)
        })
    }

    /// The main forks of these tablespaces and file numbers that are there.
    pub fn forks(&self, files: &[(Oid, u32)]) -> Vec<&SegmentFiles> {
        files.iter().filter_map(|(spc_oid, number)| self.main_fork(*spc_oid, *number)).collect()
    }

    /// Adds a file under a number that no relation has.
    pub fn add_file(&mut self, number: u32, path: PathBuf) {
        self.relations.insert((0, number), SegmentFiles::one((0, 0), path));
    }

    /// Numbers of files of users' relations.
    pub fn user_files(&self) -> impl Iterator<Item = (Oid, u32)> {
        self.relations.keys().copied().filter(|(_, number)| *number >= FIRST_USER_NUMBER)
    }

    /// Numbers of files of catalogs that `pg_filenode.map` names.
    pub fn mapped_files(&self) -> HashSet<u32> {
        let map = filenode_map(&self.directory);
        map.iter().flat_map(|map| &map.entries).map(|entry| entry.rel_number).collect()
    }

    pub fn all_forks(&self) -> impl Iterator<Item = &SegmentFiles> {
        self.relations.values()
    }

    /// Files of users' relations whose numbers are not among these: the first of each, and their bytes.
    pub fn unnamed(&self, known: &HashSet<u32>) -> Vec<(&Path, u64)> {
        let mapped = self.mapped_files();
        let unknown =
            |number: u32| number >= FIRST_USER_NUMBER && !known.contains(&number) && !mapped.contains(&number);
        let forks = self.relations.iter().filter(|((_, number), _)| unknown(*number));
        let found =
            forks.filter_map(|(_, files)| Some((files.files.values().next()?.as_path(), Self::fork_bytes(files))));
        found.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Bytes of a main fork.
    pub fn fork_bytes(files: &SegmentFiles) -> u64 {
        files.files.values().filter_map(|path| path.metadata().ok()).map(|found| found.len()).sum()
    }

    /// Name of its directory in the output.
    pub fn label(&self) -> Vec<u8> {
        self.name.clone().unwrap_or_else(|| self.oid.to_string().into_bytes())
    }
}

/// The remains of a cluster.
#[derive(Debug)]
pub(crate) struct Source {
    /// Data directory; `None` for the directory of one database alone.
    pub root: Option<PathBuf>,
    pub major: Major,
    pub block_size: usize,
    /// Pages have checksums.
    pub checksums: bool,
    /// `pg_control`, where it can be trusted.
    pub control: Option<ControlFile>,
    pub databases: Vec<DatabaseFiles>,
    /// Databases that `pg_database` names and that have no directory.
    pub lost: BTreeMap<Oid, String>,
    /// It is a data directory: no directory of a database is left out.
    is_whole: bool,
    /// Directories that could not be listed.
    pub skipped: Vec<AccessError>,
    /// Directories that nothing is written into.
    pub protected: Vec<PathBuf>,
    /// The newest LSN that two pages of catalogs have reached.
    pub newest_lsn: Lsn,
    /// Changes in WAL.
    changes: Changes,
    pub interrupt: Interruption,
}

impl Source {
    /// Opens a data directory, what is left of one, or the directory of a database. `major`: what the user says it is.
    pub fn open(path: &Path, major: Option<Major>) -> Result<Self, NoSource> {
        let mut source = Self::with_templates(path, major)?;
        source.databases.retain(|database| database.name.as_deref().is_none_or(|name| !TEMPLATES.contains(&name)));
        Ok(source)
    }

    /// The same with the databases that others are copies of.
    pub fn with_templates(path: &Path, major: Option<Major>) -> Result<Self, NoSource> {
        let path = std::fs::canonicalize(path).map_err(|source| AccessError::io("open", path, source))?;
        let is_root = path.join("base").is_dir();
        if !is_root && !path.join("1259").is_file() {
            return Err(NoSource::NotADatabase(path));
        }
        let base = path.parent().filter(|parent| parent.file_name().is_some_and(|name| name == "base"));
        let root = if is_root { Some(path.clone()) } else { base.and_then(Path::parent).map(Path::to_owned) };
        let directory = root.as_deref().and_then(|root| DataDir::open(root).ok());
        let control = directory.as_ref().and_then(|directory| directory.control().trusted().cloned());
        let of_files = directory.as_ref().map(DataDir::major).or_else(|| major_of(&path));
        let found = of_files.or_else(|| databases_in(&path.join("base")).find_map(|(_, path)| major_of(&path)));
        let major = match (major, found) {
            (Some(said), Some(found)) if said.number() != found.number() => {
                return Err(NoSource::OtherMajor { path, found, said });
            }
            (said, found) => found.or(said).ok_or_else(|| NoSource::UnknownMajor(path.clone()))?,
        };
        let mut source = Self {
            root: root.clone(),
            is_whole: is_root,
            major,
            block_size: 8192,
            checksums: false,
            control,
            databases: Vec::new(),
            lost: BTreeMap::new(),
            skipped: Vec::new(),
            protected: protected(directory.as_ref(), root.as_deref().unwrap_or(&path), major),
            newest_lsn: Lsn::INVALID,
            changes: Changes::default(),
            interrupt: Interruption::default(),
        };
        let mut found: BTreeMap<Oid, Vec<(Oid, PathBuf)>> = BTreeMap::new();
        if is_root {
            let base = path.join("base");
            source.skipped.extend(list(&base).err());
            found.extend(databases_in(&base).map(|(oid, directory)| (oid, vec![(DEFAULT_SPACE, directory)])));
        } else {
            let oid = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            found.insert(oid.unwrap_or_default(), vec![(DEFAULT_SPACE, path.clone())]);
        }
        let links = source.root.as_ref().map(|root| list(&root.join("pg_tblspc")));
        source.skipped.extend(links.and_then(Result::err).filter(|error| !error.is_not_found()));
        for (spc_oid, version) in root.iter().flat_map(|root| tablespaces(root, major)) {
            for (oid, directory) in
                databases_in(&version).filter(|(oid, _)| is_root || found.contains_key(oid)).collect::<Vec<_>>()
            {
                found.entry(oid).or_default().push((spc_oid, directory));
            }
        }
        for (oid, directories) in found {
            let database = source.database(oid, &directories);
            source.databases.push(database);
        }
        source.measure();
        source.name_databases(&WalFacts::default());
        Ok(source)
    }

    /// Brings pages forward by WAL from now on.
    pub fn set_wal(&mut self, changes: Changes, wal: &WalFacts) {
        self.changes = changes;
        self.name_databases(wal);
    }

    /// True when WAL has a later record of this page, which could not be applied to it.
    pub fn is_behind(&self, files: &SegmentFiles, block: u32, lsn: Lsn) -> bool {
        self.changes.last_end((files.rel, block)).is_some_and(|end| end > lsn)
    }

    /// False when WAL has no record of this page that ends at this LSN.
    pub fn has_record(&self, files: &SegmentFiles, block: u32, lsn: Lsn) -> bool {
        self.changes.of((files.rel, block), |log| log.has_end(lsn).unwrap_or(true)).unwrap_or(false)
    }

    fn name_databases(&mut self, wal: &WalFacts) {
        let known = self.named_databases(wal);
        for database in &mut self.databases {
            if let Some((name, encoding)) = known.get(&database.oid) {
                (database.name, database.encoding) = (Some(name.clone()), *encoding);
            }
        }
        let has_directory = |oid: &Oid| self.databases.iter().any(|found| found.oid == *oid);
        let lost = known.into_iter().filter(|(oid, (name, encoding))| {
            self.is_whole && encoding.is_some() && !TEMPLATES.contains(&name.as_slice()) && !has_directory(oid)
        });
        self.lost = lost.map(|(oid, (name, encoding))| (oid, in_utf8(&name, encoding))).collect();
    }

    /// A database of these directories, one in a tablespace; one of them has its catalogs.
    fn database(&mut self, oid: Oid, directories: &[(Oid, PathBuf)]) -> DatabaseFiles {
        let has_catalogs = |(_, directory): &(Oid, PathBuf)| {
            ["pg_filenode.map", "1259", "1249"].iter().any(|name| directory.join(name).exists())
        };
        let home = directories.iter().position(has_catalogs).unwrap_or_default();
        let mut relations = BTreeMap::new();
        for (index, (spc_oid, directory)) in directories.iter().enumerate() {
            let spc_oid = if index == home { 0 } else { *spc_oid };
            self.list_into((directory, oid), spc_oid, &mut relations);
        }
        let directory = directories.get(home).map(|(_, directory)| directory.clone()).unwrap_or_default();
        DatabaseFiles { oid, name: None, encoding: None, directory, relations }
    }

    fn list_into(
        &mut self,
        (directory, db_oid): (&Path, Oid),
        spc_oid: Oid,
        found: &mut BTreeMap<(Oid, u32), SegmentFiles>,
    ) {
        let entries = match list(directory) {
            Ok(entries) => entries,
            Err(error) => return self.skipped.push(error),
        };
        for (name, _) in entries.into_iter().filter(|(_, kind)| kind.is_file()) {
            let Some(file) = name.to_str().and_then(RelationFileName::parse) else { continue };
            if file.fork == ForkNumber::Main {
                let relation = found.entry((spc_oid, file.rel_number)).or_default();
                relation.rel = (db_oid, file.rel_number);
                relation.files.insert(file.rel_segment, directory.join(&name));
            }
        }
    }

    /// Finds out the size of pages, and whether they have checksums, by `pg_control` or else by pages. A `pg_control` that the pages
    /// contradict belongs to another cluster or is older.
    fn measure(&mut self) {
        let catalogs =
            self.databases.iter().flat_map(|database| [1249, 1255, 1259].map(|number| database.main_fork(0, number)));
        let first_pages =
            |files: &SegmentFiles| files.first().and_then(|path| ReadFile::open(path, Links::Refuse).ok());
        let files: Vec<ReadFile> = catalogs.flatten().filter_map(first_pages).collect();
        let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
        for file in &files {
            let head = file.bytes_at(0, 24).ok().flatten().unwrap_or_default();
            let size = u32::from(u16_at(&head, 18).unwrap_or_default() & 0xFF00);
            if is_block_size(size) {
                let count = sizes.entry(size).or_default();
                *count = count.saturating_add(1);
            }
        }
        let size = sizes.into_iter().max_by_key(|(_, count)| *count).map(|(size, _)| size);
        let told = self.control.as_ref().map(|control| control.geometry.block_size);
        self.block_size = size.or(told).and_then(|size| usize::try_from(size).ok()).unwrap_or(8192);
        let (mut good, mut newest) = (0_usize, [Lsn::INVALID; 2]);
        for file in &files {
            for block in 0..u32::try_from(SAMPLED_PAGES).unwrap_or_default() {
                let offset = u64::from(block).saturating_mul(self.block_size as u64);
                let Ok(Some(page)) = file.bytes_at(offset, self.block_size) else { break };
                let header = PageHeader::decode(0, &page).ok().filter(|header| !header.is_new());
                let Some(header) = header.filter(|header| header.faults(page.len()).is_empty()) else { continue };
                let is_good = header.checksum == page_checksum(&page, block);
                good = good.saturating_add(usize::from(is_good));
                if is_good || header.checksum == 0 {
                    newest = [newest[0].max(header.lsn), newest[1].max(newest[0].min(header.lsn))];
                }
            }
        }
        self.newest_lsn = newest[1];
        let newest_lsn = self.newest_lsn;
        let is_refuted = |control: &ControlFile| {
            let is_closed = control.was_shut_down() && !control.looks_reset();
            size.is_some_and(|size| size != control.geometry.block_size)
                || is_closed && newest_lsn > control.checkpoint_lsn
        };
        self.control = self.control.take().filter(|control| !is_refuted(control));
        // By chance one page in 65,536 has the right checksum. Where any has, pages without one are doubtful.
        self.checksums = self.control.as_ref().map_or(good > 0, |control| control.checksums.is_written());
    }

    /// Names and encodings by `pg_database`.
    fn named_databases(&self, wal: &WalFacts) -> BTreeMap<Oid, (Vec<u8>, Option<i32>)> {
        let Some(root) = &self.root else { return BTreeMap::new() };
        let global = root.join("global");
        let number = mapped_number(&global, 1262).unwrap_or(1262);
        let path = global.join(number.to_string());
        let mut found = BTreeMap::new();
        let files = SegmentFiles::one((0, number), path);
        let offsets = Offsets::of(self.major);
        let index = |oid: Oid| {
            let number = mapped_number(&global, oid).unwrap_or(oid);
            SegmentFiles::one((0, number), global.join(number.to_string()))
        };
        let mut by_place = BTreeMap::new();
        let [by_name, by_oid] = DATABASE_INDEXES;
        leaf_entries(self, &index(by_name), &mut |tid, data| {
            by_place.extend(padded_name(data, 0).map(|name| (tid, name)))
        });
        leaf_entries(self, &index(by_oid), &mut |tid, data| {
            let oid = u32_at(data, 0).filter(|oid| *oid >= FIRST_USER_NUMBER);
            found.extend(oid.zip(by_place.get(&tid)).map(|(oid, name)| (oid, (name.clone(), None))));
        });
        for row in rows_of(self, &mut Xacts::new(self, wal), &files) {
            let data = row.data();
            let oid = if offsets.oid_in_header { row.header.row_oid(&row.tuple) } else { u32_at(data, 0) };
            let encoding = u32_at(data, offsets.name().saturating_add(68)).map(u32::cast_signed);
            if let (Some(oid), Some(name), Some(encoding)) = (oid, name_at(data, offsets.name()), encoding) {
                found.insert(oid, (name, Some(encoding)));
            }
        }
        found
    }

    /// Shows the pages of a fork as WAL leaves them; the last one filled up with zeros where the file ends inside it. Returns what
    /// could not be read.
    pub fn pages(&self, files: &SegmentFiles, show: &mut dyn FnMut(u32, &[u8])) -> Vec<AccessError> {
        let mut failed = Vec::new();
        let mut unseen = self.changes.blocks(files.rel);
        let mut show = |block: u32, page: &[u8]| match self.after_wal(files, block, Some(page)) {
            Some(page) => show(block, &page),
            None => show(block, page),
        };
        for (segment, path) in &files.files {
            let first = u64::from(*segment).saturating_mul(self.segment_pages());
            let shown = self.pages_of_file(path, first, &mut |block, page| {
                unseen.remove(&block);
                show(block, page);
            });
            if let Err(error) = shown {
                failed.push(error);
            }
        }
        let blank = vec![0; self.block_size];
        unseen.into_iter().for_each(|block| show(block, &blank));
        failed
    }

    /// Pages of a whole segment file.
    pub fn segment_pages(&self) -> u64 {
        SEGMENT_BYTES.checked_div(self.block_size as u64).unwrap_or_default()
    }

    /// A page after the changes that WAL has; `None` where the page on disk is all there is.
    fn after_wal(&self, files: &SegmentFiles, block: u32, page: Option<&[u8]>) -> Option<Vec<u8>> {
        let is_sound = |page: &&[u8]| {
            let header = PageHeader::decode(0, page).ok();
            header.is_some_and(|header| !header.is_new() && header.faults(page.len()).is_empty())
                && has_right_checksum(self, block, page)
        };
        let page = self.changes.of((files.rel, block), |log| log.page(page.filter(is_sound), self.block_size));
        let mut page = page.flatten()?;
        let checksum = if self.checksums { page_checksum(&page, block) } else { 0 };
        page.splice(8..10, checksum.to_le_bytes());
        Some(page)
    }

    /// One page of a fork without WAL; `None` where it cannot be read.
    pub fn page_on_disk(&self, files: &SegmentFiles, block: u32) -> Option<Vec<u8>> {
        let segment = u64::from(block).checked_div(self.segment_pages())?;
        let file = ReadFile::open(files.files.get(&u32::try_from(segment).ok()?)?, Links::Refuse).ok()?;
        let in_segment = u64::from(block).checked_rem(self.segment_pages())?;
        file.bytes_at(in_segment.checked_mul(self.block_size as u64)?, self.block_size).ok().flatten()
    }

    fn pages_of_file(&self, path: &Path, first: u64, show: &mut dyn FnMut(u32, &[u8])) -> Result<(), AccessError> {
        let file = ReadFile::open(path, Links::Refuse)?;
        let per_read = CHUNK_BYTES.max(self.block_size);
        let mut buffer = vec![0; per_read];
        let mut offset = 0_u64;
        loop {
            let filled = file.read_at(&mut buffer, offset)?;
            if filled == 0 || self.interrupt.has_come() {
                return Ok(());
            }
            let whole = filled.next_multiple_of(self.block_size).min(buffer.len());
            buffer.get_mut(filled..whole).unwrap_or_default().fill(0);
            if let Some(cut) = filled.checked_rem(self.block_size).filter(|cut| *cut > 0) {
                let first = filled.saturating_sub(cut);
                break_pointers(buffer.get_mut(first..whole).unwrap_or_default(), cut);
            }
            let mut block = first.saturating_add(offset.checked_div(self.block_size as u64).unwrap_or_default());
            for page in buffer.get(..whole).unwrap_or_default().chunks_exact(self.block_size) {
                if let Some(number) = u32::try_from(block).ok().filter(|block| *block <= MAX_BLOCK_NUMBER) {
                    show(number, page);
                }
                block = block.saturating_add(1);
            }
            offset = offset.saturating_add(filled as u64);
        }
    }
}

/// File number of a mapped relation, by `pg_filenode.map` of the directory.
pub(crate) fn mapped_number(directory: &Path, oid: Oid) -> Option<u32> {
    filenode_map(directory)?.rel_number(oid)
}

fn filenode_map(directory: &Path) -> Option<FilenodeMap> {
    let bytes = read_small(&directory.join("pg_filenode.map"), Links::Refuse, MAX_MAP_BYTES).ok()?;
    FilenodeMap::decode(0, &bytes).ok().filter(|map| map.faults().is_empty())
}

/// Directories of databases in `base`, by OID.
fn databases_in(base: &Path) -> impl Iterator<Item = (Oid, PathBuf)> + use<> {
    let base = base.to_owned();
    let entries = list(&base).unwrap_or_default();
    entries.into_iter().filter(|(_, kind)| kind.is_dir()).filter_map(move |(name, _)| {
        let oid = name.to_str()?.parse().ok()?;
        Some((oid, base.join(name)))
    })
}

/// The major that `PG_VERSION` in a directory names.
fn major_of(directory: &Path) -> Option<Major> {
    let text = read_small(&directory.join("PG_VERSION"), Links::Refuse, 64).ok()?;
    let text = String::from_utf8(text).ok()?;
    Major::from_files(text.trim().parse().ok()?, None)
}

/// Directories of servers of this major in tablespaces, by the OID of the tablespace.
fn tablespaces(root: &Path, major: Major) -> Vec<(Oid, PathBuf)> {
    let own = format!("PG_{}_", major.number());
    let links = root.join("pg_tblspc");
    let mut found = Vec::new();
    for (name, _) in list(&links).unwrap_or_default() {
        let Some(oid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let space = links.join(&name);
        for (version, kind) in list(&space).unwrap_or_default() {
            if kind.is_dir() && version.to_str().is_some_and(|version| version.starts_with(&own)) {
                found.push((oid, space.join(version)));
            }
        }
    }
    found
}

fn protected(directory: Option<&DataDir>, path: &Path, major: Major) -> Vec<PathBuf> {
    let mut protected = directory.and_then(|directory| directory.own_directories().ok()).unwrap_or_default();
    protected.push(path.to_owned());
    protected.extend(tablespaces(path, major).into_iter().map(|(_, directory)| directory));
    protected
}

/// Has line pointers of a page that ends at `cut` lead out of it where the item is cut: nothing may read the filling.
fn break_pointers(page: &mut [u8], cut: usize) {
    const OFFSET: u32 = 0x7FFF;
    let Some(header) = PageHeader::decode(0, page).ok().filter(|header| header.faults(page.len()).is_empty()) else {
        return;
    };
    let pointers = page.get_mut(PageHeader::SIZE..usize::from(header.lower)).unwrap_or_default();
    for pointer in pointers.chunks_exact_mut(4) {
        let value = u32_at(pointer, 0).unwrap_or_default();
        let end = (value & OFFSET).saturating_add(value >> 17);
        if usize::try_from(end).is_ok_and(|end| end > cut) {
            pointer.copy_from_slice(&(value | OFFSET).to_le_bytes());
        }
    }
}
