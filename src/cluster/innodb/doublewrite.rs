//! The doublewrite buffer: its slots, wherever they lie, and the entries of the file without images.

use std::path::{Path, PathBuf};

use super::InnodbFiles;
use super::tablespace::{Tablespace, Tablespaces};
use crate::cluster::open::{AccessError, Links, ReadFile};
use crate::parsers::innodb::layout::{
    DetectBlock, LegacyHeader, SlotPart, TRX_SYSTEM_PAGE, are_all_files, batch_slots, extent_pages,
};
use crate::parsers::innodb::page_check::PageState;
use crate::parsers::innodb::{InnodbPageId, stable_names};

/// Slots of a file that are read; servers make at most some ten thousand.
pub(crate) const MAX_SLOTS: u64 = 1 << 17;

/// Blocks of a file without images that are read; servers make at most some hundred.
pub(crate) const MAX_DETECT_BLOCKS: u64 = 4096;

/// Blocks of a file without images that servers make at least: two for each buffer pool, and never fewer.
const LEAST_DETECT_BLOCKS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum DoublewriteLayout {
    Files,
    Legacy(LegacyHeader),
    /// In files of their own, none of which was found: they are in another directory, or lost.
    #[strum(serialize = "not_found")]
    Elsewhere,
    Missing,
}

stable_names!(DoublewriteLayout);

#[derive(Debug)]
pub struct SlotFile {
    pub name: String,
    pub number: u32,
    pub slots: u64,
    pub further_slots: u64,
    pub trailing_bytes: u64,
    pub batch_slots: Option<u64>,
    file: ReadFile,
    legacy: Option<LegacyHeader>,
    page_bytes: usize,
}

impl SlotFile {
    pub const fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    /// Offset of a slot in the file; `None` for one whose page number no file can have.
    pub fn offset_of(&self, index: u64) -> Option<u64> {
        let at = match &self.legacy {
            None => index,
            Some(header) => header.page_of_slot(self.page_bytes, u32::try_from(index).ok()?)?.into(),
        };
        at.checked_mul(self.page_bytes as u64)
    }

    pub(crate) fn part_of(&self, index: u64) -> SlotPart {
        match self.batch_slots {
            Some(batch) if index < batch => SlotPart::Batch,
            Some(_) => SlotPart::Single,
            None => SlotPart::Unknown,
        }
    }

    /// True for a slot that lies in a hole of the file: it is all zero, and need not be read.
    pub(crate) fn is_hole(&self, index: u64) -> bool {
        let end = |offset: u64| offset.saturating_add(self.page_bytes as u64);
        self.offset_of(index).is_some_and(|offset| self.file.is_hole(offset, end(offset)))
    }

    /// Reads a slot; `None` where the file ends before it.
    pub fn slot<'a>(&self, index: u64, buf: &'a mut Vec<u8>) -> Result<Option<&'a [u8]>, AccessError> {
        let Some(offset) = self.offset_of(index) else { return Ok(None) };
        buf.resize(self.page_bytes, 0);
        let filled = self.file.read_at(buf, offset)?;
        Ok((filled == self.page_bytes).then_some(buf.as_slice()))
    }
}

#[derive(Debug)]
pub struct EntryFile {
    pub name: String,
    pub blocks: u64,
    pub is_whole: bool,
    file: ReadFile,
}

impl EntryFile {
    /// Reads a block; `None` where it is all zero or the file ends before it.
    pub fn block(&self, index: u64) -> Result<Option<DetectBlock>, AccessError> {
        let offset = index.saturating_mul(DetectBlock::SIZE as u64);
        let bytes = self.file.bytes_at(offset, DetectBlock::SIZE)?;
        let used = bytes.filter(|bytes| bytes.iter().any(|byte| *byte != 0));
        Ok(used.and_then(|bytes| DetectBlock::decode(&bytes)))
    }
}

#[derive(Debug)]
pub struct Doublewrite {
    pub layout: DoublewriteLayout,
    /// Page size of the instance: bytes of a slot.
    pub page_bytes: usize,
    /// Files with slots, in the order in which a server reads them.
    pub files: Vec<SlotFile>,
    pub entries: Vec<EntryFile>,
    /// Files of another page size, which a server does not read.
    pub other_sizes: Vec<String>,
    /// The page with that header is damaged or all zero: slots may be where every server puts them.
    pub is_header_lost: bool,
    pub skipped: Vec<AccessError>,
}

impl Doublewrite {
    /// Opens the doublewrite buffer. Where it has files of its own, which `expects_files` says also of files that were not
    /// found, the area in the system tablespace holds no images, although MySQL still makes it.
    pub fn open(data_dir: &Path, files: &InnodbFiles, spaces: &Tablespaces, expects_files: bool) -> Self {
        let mut found = Self {
            layout: DoublewriteLayout::Missing,
            page_bytes: spaces.page_bytes,
            files: Vec::new(),
            entries: Vec::new(),
            other_sizes: Vec::new(),
            is_header_lost: false,
            skipped: Vec::new(),
        };
        for (name, path) in &files.doublewrite {
            let label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.page_bytes != found.page_bytes {
                found.other_sizes.push(label);
                continue;
            }
            match ReadFile::open(path, Links::Refuse) {
                Ok(file) if !name.has_entries => found.add_file(label, name.number, file, None),
                Ok(file) => {
                    let blocks = file.size_bytes().div_ceil(DetectBlock::SIZE as u64);
                    let is_whole = file.size_bytes().is_multiple_of(DetectBlock::SIZE as u64)
                        && (LEAST_DETECT_BLOCKS..=MAX_DETECT_BLOCKS).contains(&blocks)
                        && blocks.is_multiple_of(2);
                    let blocks = blocks.min(MAX_DETECT_BLOCKS);
                    found.entries.push(EntryFile { name: label, blocks, is_whole, file });
                }
                Err(error) => found.skipped.push(error),
            }
        }
        if files.doublewrite.is_empty() && expects_files {
            found.layout = DoublewriteLayout::Elsewhere;
        } else if files.doublewrite.is_empty() {
            found.open_legacy(data_dir, files.system.first(), spaces);
        } else {
            found.layout = DoublewriteLayout::Files;
            let sizes: Vec<(u32, u64)> = found.files.iter().map(|file| (file.number, file.slots)).collect();
            for file in &mut found.files {
                file.batch_slots = batch_slots(&sizes, file.number);
            }
        }
        found
    }

    /// Every slot that the server has can be read: no file is missing or cut off, as far as names and sizes show it.
    pub(crate) fn is_complete(&self) -> bool {
        let is_readable = self.skipped.is_empty()
            && self.files.iter().all(|file| file.further_slots == 0)
            && self.entries.iter().all(|file| file.is_whole);
        is_readable
            && match self.layout {
                DoublewriteLayout::Files => {
                    let sizes: Vec<(u32, u64)> = self.files.iter().map(|file| (file.number, file.slots)).collect();
                    self.files.iter().all(|file| file.trailing_bytes == 0) && are_all_files(&sizes)
                }
                DoublewriteLayout::Legacy(_) => true,
                DoublewriteLayout::Elsewhere | DoublewriteLayout::Missing => false,
            }
    }

    fn add_file(&mut self, name: String, number: u32, file: ReadFile, legacy: Option<LegacyHeader>) {
        let page_bytes = self.page_bytes;
        let in_file = file.size_bytes().checked_div(page_bytes as u64).unwrap_or_default();
        let all = legacy.map_or(in_file, |_| u64::from(extent_pages(page_bytes)).saturating_mul(2));
        let slots = all.min(MAX_SLOTS);
        let trailing_bytes = file.size_bytes().checked_rem(page_bytes as u64).filter(|_| legacy.is_none());
        self.files.push(SlotFile {
            name,
            number,
            slots,
            further_slots: all.saturating_sub(slots),
            trailing_bytes: trailing_bytes.unwrap_or_default(),
            batch_slots: None,
            file,
            legacy,
            page_bytes,
        });
    }

    fn open_legacy(&mut self, data_dir: &Path, system: Option<&PathBuf>, spaces: &Tablespaces) {
        let Some(path) = system else { return };
        let file = match ReadFile::open(&data_dir.join(path), Links::Refuse) {
            Ok(file) => file,
            Err(error) => return self.skipped.push(error),
        };
        let offset = u64::from(TRX_SYSTEM_PAGE).saturating_mul(self.page_bytes as u64);
        let page = match file.bytes_at(offset, self.page_bytes) {
            Ok(page) => page.unwrap_or_default(),
            Err(error) => return self.skipped.push(error),
        };
        let Some(header) = LegacyHeader::decode(&page) else {
            self.is_header_lost = spaces.get(0).is_some_and(|system| !PageState::of(&page, &system.flags).is_sound());
            return;
        };
        self.layout = DoublewriteLayout::Legacy(header);
        self.add_file(path.display().to_string(), 0, file, Some(header));
    }

    /// State of a page at this position. Slots, and pages where every server had its slots once, hold pages of other numbers.
    pub(crate) fn state_of(&self, page: &[u8], space: &Tablespace, page_no: u32) -> PageState {
        let was_slot = || space.id == 0 && LegacyHeader::usual(self.page_bytes).is_slot(self.page_bytes, page_no);
        match self.is_slot_page(space.id, page_no) || was_slot() {
            true => PageState::of(page, &space.flags),
            false => PageState::at(page, &space.flags, InnodbPageId { space_id: space.id, page_no }),
        }
    }

    /// True for a page of the system tablespace that is a slot, not data; where the header is lost, for one that would be a slot.
    pub(crate) fn is_slot_page(&self, space_id: u32, page_no: u32) -> bool {
        match self.layout {
            DoublewriteLayout::Legacy(header) => space_id == 0 && header.is_slot(self.page_bytes, page_no),
            DoublewriteLayout::Missing if self.is_header_lost => {
                space_id == 0 && LegacyHeader::usual(self.page_bytes).is_slot(self.page_bytes, page_no)
            }
            _ => false,
        }
    }
}
