//! The DWB files of a data directory, and their slots one after the other.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::open::{AccessError, Links, ReadFile, real_directory};
use crate::parsers::dwb::detect::{Detection, detect};
use crate::parsers::dwb::{LAYOUTS, Slot};

/// Entries with unknown names that are kept one by one.
const MAX_UNRECOGNIZED: usize = 20;

/// Most bytes that one read of a slot scan takes.
const WINDOW_BYTES: u64 = 256 * 1024;

/// A DWB file, opened, with its layout told.
#[derive(Debug)]
pub struct DwbFile {
    /// Name without directory.
    pub name: String,
    /// Number in the name, if the name has the layout's form.
    pub number: Option<u32>,
    /// Layout and geometry.
    pub detection: Detection,
    file: ReadFile,
}

impl DwbFile {
    /// Opens a file and tells its layout. `block_size_hint`: page size of the cluster, if known.
    ///
    /// # Errors
    /// When the file cannot be opened or is not regular.
    pub fn open(path: &Path, links: Links, block_size_hint: Option<u32>) -> Result<Self, AccessError> {
        let file = ReadFile::open(path, links)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let detection = detect(file.size_bytes(), block_size_hint, &mut |offset, length| {
            file.bytes_at(offset, length).ok().flatten()
        });
        let number = detection.layout.file_number(&name);
        Ok(Self { name, number, detection, file })
    }

    /// Path that the file was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Size when the file was opened, in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    /// True when the file begins with something and nothing in it is of a double write buffer.
    #[must_use]
    pub fn is_of_another_kind(&self) -> bool {
        let first = self.file.bytes_at(0, usize::try_from(self.size_bytes().min(512)).unwrap_or_default());
        let has_content = first.ok().flatten().is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0));
        has_content && !self.detection.is_recognised()
    }

    /// Reads one slot, its header and image into `buf`.
    ///
    /// # Errors
    /// When the slot cannot be read or is not there any more.
    pub fn read_slot<'a>(&self, index: u64, buf: &'a mut Vec<u8>) -> Result<Slot<'a>, SlotReadError> {
        let detection = &self.detection;
        let place = detection.layout.slot_place(detection.block_size, index);
        let offset = place.header.start;
        let length = |range: &Range<u64>| usize::try_from(range.end.saturating_sub(range.start)).unwrap_or_default();
        let (header_length, image_length) = (length(&place.header), length(&place.image));
        buf.resize(header_length.saturating_add(image_length), 0);
        let parts: &mut [(&mut [u8], u64)] = if place.header.end == place.image.start {
            &mut [(buf.as_mut_slice(), place.header.start)]
        } else {
            let (header, image) = buf.split_at_mut(header_length);
            &mut [(header, place.header.start), (image, place.image.start)]
        };
        for (part, start) in parts {
            match self.file.read_at(part, *start) {
                Ok(filled) if filled == part.len() => {}
                Ok(_) => return Err(SlotReadError::Ends { index, offset }),
                Err(error) => return Err(SlotReadError::Access { index, offset, error }),
            }
        }
        let (header, image) = buf.split_at(header_length);
        Slot::decode(detection.layout, index, &place, header, image).map_err(|_| SlotReadError::Ends { index, offset })
    }

    /// Starts a scan of all slots.
    #[must_use]
    pub fn slots(&self) -> SlotScan<'_> {
        let end = self.detection.slot_count;
        SlotScan { dwb: self, next: 0, end, header: Window::default(), image: Window::default() }
    }
}

/// A slot could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SlotReadError {
    /// The file has become shorter since it was opened.
    #[error("slot {index} at offset {offset:#X}: the file ends before the slot does")]
    Ends {
        /// The slot.
        index: u64,
        /// Offset of the part that is missing.
        offset: u64,
    },
    /// The system cannot read.
    #[error("slot {index} at offset {offset:#X}: {error}")]
    Access {
        /// The slot.
        index: u64,
        /// Offset of the part that was asked for.
        offset: u64,
        /// Why.
        error: AccessError,
    },
}

/// A piece of a file kept in memory, so that small reads next to each other cost one system call.
#[derive(Debug, Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes of `range`, or fewer where the file ends. Where they are not held, `count` ranges of this length, `stride`
    /// bytes from one to the next, are read as far as they fit.
    fn get(&mut self, file: &ReadFile, range: Range<u64>, stride: u64, count: u64) -> Result<&[u8], AccessError> {
        let length = range.end.saturating_sub(range.start);
        let held = range.start >= self.start && range.end <= self.start.saturating_add(self.bytes.len() as u64);
        if !held {
            let further = WINDOW_BYTES
                .saturating_sub(length)
                .checked_div(stride)
                .unwrap_or_default()
                .min(count.saturating_sub(1));
            self.bytes
                .resize(usize::try_from(length.saturating_add(further.saturating_mul(stride))).unwrap_or_default(), 0);
            let filled = file.read_at(&mut self.bytes, range.start)?;
            self.bytes.truncate(filled);
            self.start = range.start;
        }
        let place =
            |offset: u64| usize::try_from(offset.saturating_sub(self.start)).unwrap_or_default().min(self.bytes.len());
        Ok(&self.bytes[place(range.start)..place(range.end)])
    }
}

/// A scan over slots of a file, in file order. Not an `Iterator`: each slot borrows the scan's buffer.
#[derive(Debug)]
pub struct SlotScan<'a> {
    dwb: &'a DwbFile,
    next: u64,
    end: u64,
    header: Window,
    image: Window,
}

impl SlotScan<'_> {
    /// Goes on with the slots of another range, in the same buffers.
    pub fn go_to(&mut self, range: Range<u64>) {
        self.next = range.start;
        self.end = range.end.min(self.dwb.detection.slot_count);
    }

    /// The next slot; `None` behind the last. After an error the scan is over: what follows cannot be read either.
    pub fn next_slot(&mut self) -> Option<Result<Slot<'_>, SlotReadError>> {
        let detection = &self.dwb.detection;
        let index = self.next;
        if index >= self.end {
            return None;
        }
        self.next = self.next.saturating_add(1);
        let place = detection.layout.slot_place(detection.block_size, index);
        let behind = detection.layout.slot_place(detection.block_size, index.saturating_add(1));
        let header_length = usize::try_from(place.header.end.saturating_sub(place.header.start)).unwrap_or_default();
        let image_length = usize::try_from(place.image.end.saturating_sub(place.image.start)).unwrap_or_default();
        let offset = place.header.start;
        let file = &self.dwb.file;
        let (stride, count) = (behind.header.start.saturating_sub(offset), self.end.saturating_sub(index));
        let stop = |next: &mut u64, error| {
            *next = u64::MAX;
            Some(Err(SlotReadError::Access { index, offset, error }))
        };
        let (header, image) = if place.header.end == place.image.start {
            match self.header.get(file, offset..place.image.end, stride, count) {
                Ok(bytes) => bytes.split_at(header_length.min(bytes.len())),
                Err(error) => return stop(&mut self.next, error),
            }
        } else {
            let image_stride = behind.image.start.saturating_sub(place.image.start);
            let header = self.header.get(file, place.header.clone(), stride, count);
            match (header, self.image.get(file, place.image.clone(), image_stride, count)) {
                (Ok(header), Ok(image)) => (header, image),
                (Err(error), _) | (_, Err(error)) => return stop(&mut self.next, error),
            }
        };
        if header.len() < header_length || image.len() < image_length {
            self.next = u64::MAX;
            return Some(Err(SlotReadError::Ends { index, offset }));
        }
        match Slot::decode(detection.layout, index, &place, header, image) {
            Ok(slot) => Some(Ok(slot)),
            Err(_) => Some(Err(SlotReadError::Ends { index, offset })),
        }
    }
}

/// The DWB files of one place.
#[derive(Debug, Default)]
pub struct DwbSet {
    /// Files that could be opened, by number.
    pub files: Vec<DwbFile>,
    /// Files with the right name that could not be opened.
    pub skipped: Vec<AccessError>,
    /// Entries of the directory that no layout knows, the first of them.
    pub unrecognized: Vec<PathBuf>,
    /// Further such entries, only counted.
    pub further_strangers: u64,
}

impl DwbSet {
    /// Opens the DWB files of a data directory: empty when there are none.
    #[must_use]
    pub fn of_data_dir(data_dir: &Path, block_size_hint: Option<u32>) -> Self {
        let mut directories: Vec<&str> = LAYOUTS.iter().map(|layout| layout.directory()).collect();
        directories.dedup();
        let mut set = Self::default();
        for directory in directories {
            let path = data_dir.join(directory);
            match real_directory(&path) {
                Ok(()) => set.add_directory(&path, block_size_hint),
                Err(error) if error.is_not_found() => {}
                Err(error) => set.skipped.push(error),
            }
        }
        set
    }

    /// Opens the DWB files of a directory.
    pub fn add_directory(&mut self, directory: &Path, block_size_hint: Option<u32>) {
        let listing = match fs::read_dir(directory) {
            Ok(listing) => listing,
            Err(source) => return self.skipped.push(AccessError::io("list", directory, source)),
        };
        let mut paths = Vec::new();
        for entry in listing {
            let path = match entry {
                Ok(entry) => entry.path(),
                Err(source) => {
                    self.skipped.push(AccessError::io("list", directory, source));
                    continue;
                }
            };
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if LAYOUTS.iter().any(|layout| layout.file_number(name).is_some()) {
                paths.push(path);
            } else if self.unrecognized.len() < MAX_UNRECOGNIZED {
                self.unrecognized.push(path);
            } else {
                self.further_strangers = self.further_strangers.saturating_add(1);
            }
        }
        paths.sort();
        self.unrecognized.sort();
        for path in paths {
            self.add_file(&path, Links::Refuse, block_size_hint);
        }
    }

    /// Opens one file, whatever its name.
    pub fn add_file(&mut self, path: &Path, links: Links, block_size_hint: Option<u32>) {
        match DwbFile::open(path, links, block_size_hint) {
            Ok(file) => self.files.push(file),
            Err(error) => self.skipped.push(error),
        }
    }
}
