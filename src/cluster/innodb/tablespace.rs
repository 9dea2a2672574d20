//! Tablespaces: which file holds which, and where a page lies in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::InnodbFiles;
use crate::cluster::open::{AccessError, Links, ReadFile};
use crate::parsers::decode::be_u32_at;
use crate::parsers::innodb::compressed::{FullCrc32Size, unpack_full_crc32};
use crate::parsers::innodb::layout::{SPACE_ID_AT, SpaceFlags};
use crate::parsers::innodb::page_check::{PageHeader, PageState};
use crate::parsers::innodb::{DEFAULT_PAGE_BYTES, InnodbPageId};

/// Pages after the first that are asked for the space id where page 0 is damaged.
const MAX_VOTERS: u64 = 64;

/// The page sizes that an instance can have, the usual one first.
const INSTANCE_PAGE_BYTES: [usize; 5] = [DEFAULT_PAGE_BYTES, 4096, 8192, 32768, 65536];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceFile {
    pub path: PathBuf,
    pub size_bytes: u64,
    pub pages: u64,
    pub first_page: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tablespace {
    pub id: u32,
    pub flags: SpaceFlags,
    pub page_0: PageState,
    pub files: Vec<SpaceFile>,
    pub has_rival: bool,
}

impl Tablespace {
    /// Its name: the path of its first file.
    pub fn name(&self) -> String {
        self.files.first().map_or_else(String::new, |file| file.path.display().to_string())
    }

    pub fn pages(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.pages))
    }

    /// The file that a page is in, and the offset there; `None` past the end.
    pub fn find(&self, page_no: u32) -> Option<(&SpaceFile, u64)> {
        let page_no = u64::from(page_no);
        let file = self.files.iter().find(|file| page_no < file.first_page.saturating_add(file.pages))?;
        let offset = page_no.saturating_sub(file.first_page).saturating_mul(self.flags.physical_bytes() as u64);
        Some((file, offset))
    }

    fn of_files(id: u32, flags: SpaceFlags, page_0: PageState, files: Vec<(PathBuf, u64)>) -> Self {
        let bytes = flags.physical_bytes() as u64;
        let mut first_page: u64 = 0;
        let files = files
            .into_iter()
            .map(|(path, size_bytes)| {
                let pages = size_bytes.checked_div(bytes).unwrap_or_default();
                let file = SpaceFile { path, size_bytes, pages, first_page };
                first_page = first_page.saturating_add(pages);
                file
            })
            .collect();
        Self { id, flags, page_0, files, has_rival: false }
    }
}

#[derive(Debug)]
pub enum NoSpace {
    Access(AccessError),
    /// It is shorter than the smallest page 0 of a server, or all zero.
    Empty,
    /// Page 0 is damaged and no other page tells its number, or its flags are impossible.
    Unknown,
}

#[derive(Debug, Default)]
pub struct Tablespaces {
    /// All of them; the first is the system tablespace where there is one.
    pub all: Vec<Tablespace>,
    /// Indexes by number; of several files that claim one, the first.
    by_id: BTreeMap<u32, usize>,
    pub unknown: Vec<(PathBuf, NoSpace)>,
    pub page_bytes: usize,
    /// A process that holds a lock on the first file of the system tablespace: a server locks it while it runs.
    pub locked_by: Option<i32>,
}

impl Tablespaces {
    /// Reads page 0 of each file. The page size is that of the system tablespace where its page 0 is whole, else that of the names of
    /// the doublewrite buffer's files.
    pub fn find(data_dir: &Path, files: &InnodbFiles) -> Self {
        let mut found = Self { page_bytes: DEFAULT_PAGE_BYTES, ..Self::default() };
        let named = files.doublewrite.first().map(|(name, _)| name.page_bytes);
        found.add_system(data_dir, files, named);
        let is_told = found.get(0).is_some_and(|system| system.page_0.is_sound());
        if let Some(page_bytes) = named.filter(|_| !is_told) {
            found.page_bytes = page_bytes;
        }
        for path in &files.spaces {
            match found.space_of(&data_dir.join(path), path) {
                Ok(space) => found.add(space),
                Err(why) => found.unknown.push((path.clone(), why)),
            }
        }
        found
    }

    pub fn get(&self, id: u32) -> Option<&Tablespace> {
        self.index_of(id).and_then(|index| self.all.get(index))
    }

    pub fn index_of(&self, id: u32) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    pub fn files(&self) -> impl Iterator<Item = (&Tablespace, &SpaceFile)> {
        self.all.iter().flat_map(|space| space.files.iter().map(move |file| (space, file)))
    }

    pub fn bytes(&self) -> u64 {
        self.files().fold(0, |sum, (_, file)| sum.saturating_add(file.size_bytes))
    }

    pub(crate) fn has_full_crc32(&self) -> bool {
        self.all.iter().any(|space| space.flags.is_full_crc32)
    }

    fn add(&mut self, mut space: Tablespace) {
        let index = self.all.len();
        match self.by_id.get(&space.id) {
            None => drop(self.by_id.insert(space.id, index)),
            Some(first) => {
                space.has_rival = true;
                if let Some(first) = self.all.get_mut(*first) {
                    first.has_rival = true;
                }
            }
        }
        self.all.push(space);
    }

    fn add_system(&mut self, data_dir: &Path, files: &InnodbFiles, named: Option<usize>) {
        let mut parts = Vec::new();
        let mut first = None;
        for path in &files.system {
            match ReadFile::open(&data_dir.join(path), Links::Refuse) {
                Ok(file) => {
                    parts.push((path.clone(), file.size_bytes()));
                    first = first.or(Some(file));
                }
                // The numbers of later pages would be wrong.
                Err(error) => {
                    self.unknown.push((path.clone(), NoSpace::Access(error)));
                    break;
                }
            }
        }
        let Some(file) = first else { return };
        let head = file.bytes_at(0, 128).ok().flatten().unwrap_or_default();
        let flags = SpaceFlags::of_page_0(&head).filter(SpaceFlags::is_possible);
        let mut flags = flags.unwrap_or(SpaceFlags::plain(named.unwrap_or(DEFAULT_PAGE_BYTES)));
        let page_0_of = |flags: &SpaceFlags| {
            let page = file.bytes_at(0, flags.physical_bytes()).ok().flatten().unwrap_or_default();
            PageState::of(&page, flags)
        };
        if !page_0_of(&flags).is_sound() {
            let sizes = named.map_or(INSTANCE_PAGE_BYTES.to_vec(), |bytes| vec![bytes]);
            let forms = sizes.into_iter().flat_map(|bytes| [SpaceFlags::full_crc32(bytes), SpaceFlags::plain(bytes)]);
            flags = fitting(&file, std::iter::once(flags).chain(forms)).unwrap_or(flags);
        }
        self.page_bytes = flags.page_bytes;
        self.locked_by = file.locked_by();
        let page = file.bytes_at(0, flags.physical_bytes()).ok().flatten().unwrap_or_default();
        let page_0 = PageState::at(&page, &flags, InnodbPageId { space_id: 0, page_no: 0 });
        self.add(Tablespace::of_files(0, flags, page_0, parts));
    }

    fn space_of(&self, path: &Path, relative: &Path) -> Result<Tablespace, NoSpace> {
        let file = ReadFile::open(path, Links::Refuse).map_err(NoSpace::Access)?;
        let head = file.bytes_at(0, 128).map_err(NoSpace::Access)?;
        let Some(head) = head.filter(|_| file.size_bytes() >= 4096) else { return Err(NoSpace::Empty) };
        let stored = SpaceFlags::of_page_0(&head).filter(SpaceFlags::is_possible);
        // Flags of zeros are those of old tables; in a page 0 that is damaged they tell nothing.
        let usual = self.get(0).map_or(SpaceFlags::plain(self.page_bytes), |system| system.flags);
        let mut flags = stored.unwrap_or(usual);
        let page_of = |flags: &SpaceFlags| {
            Ok(file.bytes_at(0, flags.physical_bytes()).map_err(NoSpace::Access)?.unwrap_or_default())
        };
        let page_0_of = |flags: &SpaceFlags| {
            let page = page_of(flags)?;
            Ok(if page.is_empty() { PageState::Empty } else { PageState::of(&page, flags) })
        };
        let mut page_0 = page_0_of(&flags)?;
        if page_0 == PageState::Empty || page_0.is_damaged() {
            let plain = [SpaceFlags::full_crc32(self.page_bytes), SpaceFlags::plain(self.page_bytes)];
            let zip = (1..=5).map(|size| SpaceFlags { page_bytes: self.page_bytes, ..SpaceFlags::of(size << 1) });
            let forms = stored.into_iter().filter(|_| page_0.is_damaged()).chain([usual]).chain(plain).chain(zip);
            if let Some(better) = fitting(&file, forms.filter(SpaceFlags::is_possible)) {
                flags = better;
                page_0 = page_0_of(&flags)?;
            }
        }
        let stored_id = PageHeader::of(&head).map(|header| header.space_id);
        let second_id = be_u32_at(&head, SPACE_ID_AT);
        let page = page_of(&flags)?;
        let made = |space_id| {
            let at = InnodbPageId { space_id, page_no: 0 };
            let page_0 = if page.is_empty() { PageState::Empty } else { PageState::at(&page, &flags, at) };
            Tablespace::of_files(space_id, flags, page_0, vec![(relative.to_owned(), file.size_bytes())])
        };
        match (page_0, stored_id) {
            (PageState::Sound(_) | PageState::Unverifiable(_), Some(id))
                if stored.is_some() && second_id == Some(id) =>
            {
                Ok(made(id))
            }
            _ => {
                let voted = vote(&file, &flags).map_err(NoSpace::Access)?;
                // The older checksums cover the second number in page 0, and not of the first.
                let is_summed = !page_0.is_damaged() && page_0 != PageState::Empty;
                let second =
                    second_id.filter(|id| *id > 0 && stored.is_some() && (is_summed || stored_id == Some(*id)));
                match voted.or(second) {
                    Some(id) => Ok(made(id)),
                    None if page_0 == PageState::Empty => Err(NoSpace::Empty),
                    None => Err(NoSpace::Unknown),
                }
            }
        }
    }
}

/// The first of these flags by which any of the first pages after page 0 is whole and where it says it is: how to read a
/// tablespace whose page 0 is lost.
fn fitting(file: &ReadFile, forms: impl Iterator<Item = SpaceFlags>) -> Option<SpaceFlags> {
    let mut page = Vec::new();
    let mut fits = |flags: &SpaceFlags| {
        page.resize(flags.physical_bytes(), 0);
        (1..MAX_VOTERS).any(|number| {
            let offset = number.saturating_mul(page.len() as u64);
            let is_read = file.read_at(&mut page, offset).is_ok_and(|filled| filled == page.len());
            let named = PageHeader::of(&page).map(|header| u64::from(header.page_no));
            is_read && named == Some(number) && PageState::of(&page, flags).is_sound()
        })
    };
    let mut forms = forms;
    forms.find(|flags| fits(flags))
}

/// The number that most of the first pages name that are whole.
fn vote(file: &ReadFile, flags: &SpaceFlags) -> Result<Option<u32>, AccessError> {
    let mut votes: BTreeMap<u32, u64> = BTreeMap::new();
    let bytes = flags.physical_bytes();
    for number in 1..MAX_VOTERS {
        let Some(page) = file.bytes_at(number.saturating_mul(bytes as u64), bytes)? else { break };
        if !PageState::of(&page, flags).is_sound() {
            continue;
        }
        let named = space_id_of(&page, flags).filter(|(_, page_no)| u64::from(*page_no) == number);
        if let Some((id, _)) = named {
            let count = votes.entry(id).or_default();
            *count = count.saturating_add(1);
        }
    }
    Ok(votes.into_iter().max_by_key(|(id, count)| (*count, std::cmp::Reverse(*id))).map(|(id, _)| id))
}

/// Space id and page number that a whole page names. Inside a compressed page of MariaDB with `full_crc32` the space id is
/// compressed too.
pub(crate) fn space_id_of(page: &[u8], flags: &SpaceFlags) -> Option<(u32, u32)> {
    let header = PageHeader::of(page)?;
    match FullCrc32Size::of(page) {
        FullCrc32Size::Compressed(length) if flags.is_full_crc32 => {
            let plain = unpack_full_crc32(page, length).ok()?;
            let inner = PageHeader::of(&plain)?;
            Some((inner.space_id, header.page_no))
        }
        _ => Some((header.space_id, header.page_no)),
    }
}

/// Data files that are read page by page, opened as they are needed; one is kept open.
#[derive(Debug)]
pub struct PageReader<'a> {
    root: &'a Path,
    open: Option<(PathBuf, Arc<ReadFile>)>,
}

impl<'a> PageReader<'a> {
    pub const fn new(root: &'a Path) -> Self {
        Self { root, open: None }
    }

    /// Opens a file of a tablespace, or gives the one that is open.
    pub fn file(&mut self, file: &SpaceFile) -> Result<Arc<ReadFile>, AccessError> {
        match &self.open {
            Some((path, open)) if *path == file.path => Ok(Arc::clone(open)),
            _ => {
                let opened = Arc::new(ReadFile::open(&self.root.join(&file.path), Links::Refuse)?);
                self.open = Some((file.path.clone(), Arc::clone(&opened)));
                Ok(opened)
            }
        }
    }

    /// Reads a page; `None` past the end of the tablespace.
    pub fn page(&mut self, space: &Tablespace, page_no: u32) -> Result<Option<Vec<u8>>, AccessError> {
        let Some((file, offset)) = space.find(page_no) else { return Ok(None) };
        self.file(file)?.bytes_at(offset, space.flags.physical_bytes())
    }
}
