//! The DWB files of a data directory, and their slots one after the other.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::open::{AccessError, Links, ReadFile, linked_directory, real_directory};
use crate::parsers::dwb::detect::Detection;
use crate::parsers::dwb::{DwbDirectory, FileRole, Knowledge, Slot};

/// Entries with unknown names that are kept one by one.
const MAX_UNRECOGNIZED: usize = 20;

/// Most bytes that one read of a slot scan takes.
const WINDOW_BYTES: u64 = 256 * 1024;

/// A DWB file, opened, with its layout found.
#[derive(Debug)]
pub struct DwbFile {
    /// Name without directory.
    pub name: String,
    /// Number in the name, if the name has the form of its kind.
    pub number: Option<u32>,
    pub directory: &'static dyn DwbDirectory,
    pub detection: Detection,
    file: ReadFile,
}

impl DwbFile {
    /// Opens a file of a kind and finds its layout. `block_size_hint`: page size of the cluster, if known; `control`: the
    /// bytes of the buffer's control file, where it has one.
    ///
    /// # Errors
    /// When the file cannot be opened or is not regular.
    pub fn open(
        path: &Path,
        links: Links,
        directory: &'static dyn DwbDirectory,
        block_size_hint: Option<u32>,
        control: Option<&[u8]>,
    ) -> Result<Self, AccessError> {
        let file = ReadFile::open(path, links)?;
        Ok(Self::of(file, directory, block_size_hint, control))
    }

    fn of(
        file: ReadFile,
        directory: &'static dyn DwbDirectory,
        block_size_hint: Option<u32>,
        control: Option<&[u8]>,
    ) -> Self {
        let path = file.path();
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let detection = directory.detect(file.size_bytes(), block_size_hint, control, &mut |offset, length| {
            file.bytes_at(offset, length).ok().flatten()
        });
        let number = match directory.role_of(&name) {
            Some(FileRole::Slots(number)) => Some(number),
            _ => None,
        };
        Self { name, number, directory, detection, file }
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Size when the file was opened, in bytes.
    pub const fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    /// True when the file begins with something and nothing in it belongs to a double write buffer.
    pub(crate) fn is_of_another_kind(&self) -> bool {
        let first = self.file.bytes_at(0, usize::try_from(self.size_bytes().min(512)).unwrap_or_default());
        let has_content = first.ok().flatten().is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0));
        has_content && !self.detection.is_recognised()
    }

    /// Reads one slot, its header and image into `buf`.
    pub(crate) fn read_slot<'a>(&self, index: u64, buf: &'a mut Vec<u8>) -> Result<Slot<'a>, SlotReadError> {
        let detection = &self.detection;
        let ranges = detection.layout.slot_ranges(detection.block_size, index);
        let offset = ranges.header.start;
        let length = |range: &Range<u64>| usize::try_from(range.end.saturating_sub(range.start)).unwrap_or_default();
        let (header_length, image_length) = (length(&ranges.header), length(&ranges.image));
        buf.resize(header_length.saturating_add(image_length), 0);
        let parts: &mut [(&mut [u8], u64)] = if ranges.header.end == ranges.image.start {
            &mut [(buf.as_mut_slice(), ranges.header.start)]
        } else {
            let (header, image) = buf.split_at_mut(header_length);
            &mut [(header, ranges.header.start), (image, ranges.image.start)]
        };
        for (part, start) in parts {
            match self.file.read_at(part, *start) {
                Ok(filled) if filled == part.len() => {}
                Ok(_) => return Err(SlotReadError::Ends { index, offset }),
                Err(error) => return Err(SlotReadError::Access { index, offset, error }),
            }
        }
        let (header, image) = buf.split_at(header_length);
        Slot::decode(detection.layout, index, &ranges, header, image).map_err(|_| SlotReadError::Ends { index, offset })
    }

    pub fn slots(&self) -> SlotScan<'_> {
        let end = self.detection.slot_count;
        SlotScan { dwb: self, next: 0, end, header: ReadWindow::default(), image: ReadWindow::default() }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SlotReadError {
    /// The file has become shorter since it was opened.
    #[error("slot {index} at offset {offset:#X}: the file ends before the slot does")]
    Ends {
        index: u64,
        /// Offset of the part that is missing.
        offset: u64,
    },
    #[error("slot {index} at offset {offset:#X}: {error}")]
    Access {
        index: u64,
        /// Offset of the part that was asked for.
        offset: u64,
        error: AccessError,
    },
}

/// A piece of a file kept in memory, so that small reads next to each other cost one system call.
#[derive(Debug, Default)]
struct ReadWindow {
    start: u64,
    bytes: Vec<u8>,
}

impl ReadWindow {
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
        let local =
            |offset: u64| usize::try_from(offset.saturating_sub(self.start)).unwrap_or_default().min(self.bytes.len());
        Ok(&self.bytes[local(range.start)..local(range.end)])
    }
}

/// A scan over slots of a file, in file order. Not an `Iterator`: each slot borrows the scan's buffer.
#[derive(Debug)]
pub struct SlotScan<'a> {
    dwb: &'a DwbFile,
    next: u64,
    end: u64,
    header: ReadWindow,
    image: ReadWindow,
}

impl SlotScan<'_> {
    /// Continues with the slots of another range, in the same buffers.
    pub(crate) fn go_to(&mut self, range: Range<u64>) {
        self.next = range.start;
        self.end = range.end.min(self.dwb.detection.slot_count);
    }

    /// The next slot; `None` after the last. After an error the scan is over: what follows cannot be read either.
    pub fn next_slot(&mut self) -> Option<Result<Slot<'_>, SlotReadError>> {
        let detection = &self.dwb.detection;
        let index = self.next;
        if index >= self.end {
            return None;
        }
        self.next = self.next.saturating_add(1);
        let ranges = detection.layout.slot_ranges(detection.block_size, index);
        let next = detection.layout.slot_ranges(detection.block_size, index.saturating_add(1));
        let header_length = usize::try_from(ranges.header.end.saturating_sub(ranges.header.start)).unwrap_or_default();
        let image_length = usize::try_from(ranges.image.end.saturating_sub(ranges.image.start)).unwrap_or_default();
        let offset = ranges.header.start;
        let file = &self.dwb.file;
        let (stride, count) = (next.header.start.saturating_sub(offset), self.end.saturating_sub(index));
        let stop = |next: &mut u64, error| {
            *next = u64::MAX;
            Some(Err(SlotReadError::Access { index, offset, error }))
        };
        let (header, image) = if ranges.header.end == ranges.image.start {
            match self.header.get(file, offset..ranges.image.end, stride, count) {
                Ok(bytes) => bytes.split_at(header_length.min(bytes.len())),
                Err(error) => return stop(&mut self.next, error),
            }
        } else {
            let image_stride = next.image.start.saturating_sub(ranges.image.start);
            let header = self.header.get(file, ranges.header.clone(), stride, count);
            match (header, self.image.get(file, ranges.image.clone(), image_stride, count)) {
                (Ok(header), Ok(image)) => (header, image),
                (Err(error), _) | (_, Err(error)) => return stop(&mut self.next, error),
            }
        };
        if header.len() < header_length || image.len() < image_length {
            self.next = u64::MAX;
            return Some(Err(SlotReadError::Ends { index, offset }));
        }
        match Slot::decode(detection.layout, index, &ranges, header, image) {
            Ok(slot) => Some(Ok(slot)),
            Err(_) => Some(Err(SlotReadError::Ends { index, offset })),
        }
    }
}

/// The control file of a buffer that has one.
#[derive(Debug)]
pub struct ControlPart {
    pub directory: &'static dyn DwbDirectory,
    /// The file, or the directory if no file exists.
    pub path: PathBuf,
    /// Its bytes, no more than a control file of the kind has, and its size; `None` when there is no such file.
    pub content: Result<Option<(Vec<u8>, u64)>, AccessError>,
}

impl ControlPart {
    /// Reads the control file in a directory; `None` for a kind without one.
    fn read(directory: &'static dyn DwbDirectory, path: &Path, name: Option<&str>) -> Option<Self> {
        let most = directory.control_bytes();
        if most == 0 {
            return None;
        }
        let content = match name {
            None => Ok(None),
            Some(name) => ReadFile::open(&path.join(name), Links::Refuse).and_then(|file| {
                let length = usize::try_from(file.size_bytes()).unwrap_or(usize::MAX).min(most);
                let mut bytes = vec![0; length];
                let filled = file.read_at(&mut bytes, 0)?;
                bytes.truncate(filled);
                Ok(Some((bytes, file.size_bytes())))
            }),
        };
        let path = name.map_or_else(|| path.to_owned(), |name| path.join(name));
        Some(Self { directory, path, content })
    }

    pub fn bytes(&self) -> Option<&[u8]> {
        self.content.as_ref().ok()?.as_ref().map(|(bytes, _)| bytes.as_slice())
    }
}

/// The DWB files of one directory.
#[derive(Debug, Default)]
pub struct DwbSet {
    /// Files that could be opened, by number.
    pub files: Vec<DwbFile>,
    /// Control files of the buffers that have one.
    pub controls: Vec<ControlPart>,
    /// Files with the right name that could not be opened.
    pub skipped: Vec<AccessError>,
    /// Entries of the directory that no layout knows, the first of them.
    pub unrecognized: Vec<PathBuf>,
    /// Further such entries, only counted.
    pub further_unrecognized: u64,
}

impl DwbSet {
    /// Opens the DWB files of a data directory, of any of these kinds: empty without files.
    pub fn of_data_dir(data_dir: &Path, kinds: &[&'static dyn DwbDirectory], block_size_hint: Option<u32>) -> Self {
        let mut set = Self::default();
        for kind in kinds {
            let path = data_dir.join(kind.directory());
            let is_there = if kind.may_be_linked() { linked_directory(&path) } else { real_directory(&path) };
            match is_there {
                Ok(()) => set.add_kind(&path, *kind, block_size_hint),
                Err(error) if error.is_not_found() => {}
                Err(error) => set.skipped.push(error),
            }
        }
        set
    }

    /// True when a buffer of the set belongs to a kind of server that must be built.
    pub(crate) fn is_of_built_server(&self) -> bool {
        let files = self.files.iter().map(|file| file.directory);
        let mut kinds = files.chain(self.controls.iter().map(|control| control.directory));
        kinds.any(|kind| kind.knowledge() == Knowledge::SeenBuilt)
    }

    /// Opens the DWB files of a directory, of the kind that most of its names are of; the first of `kinds` where none is.
    pub(crate) fn add_directory(
        &mut self,
        directory: &Path,
        kinds: &[&'static dyn DwbDirectory],
        block_size_hint: Option<u32>,
    ) {
        let known = |kind: &&'static dyn DwbDirectory| {
            let Ok(entries) = fs::read_dir(directory) else { return 0 };
            let is_known = |name: &str| kind.role_of(name).is_some();
            entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_known)).count()
        };
        if let Some(kind) = kinds.iter().rev().copied().max_by_key(known) {
            self.add_kind(directory, kind, block_size_hint);
        }
    }

    fn add_kind(&mut self, directory: &Path, kind: &'static dyn DwbDirectory, block_size_hint: Option<u32>) {
        let listing = match fs::read_dir(directory) {
            Ok(listing) => listing,
            Err(source) => return self.skipped.push(AccessError::io("list", directory, source)),
        };
        let mut paths = Vec::new();
        let mut control = None;
        for entry in listing {
            let path = match entry {
                Ok(entry) => entry.path(),
                Err(source) => {
                    self.skipped.push(AccessError::io("list", directory, source));
                    continue;
                }
            };
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            match kind.role_of(name) {
                Some(FileRole::Slots(_)) => paths.push(path),
                Some(FileRole::Control) => control = Some(name.to_owned()),
                Some(FileRole::Leftover) => {}
                None if self.unrecognized.len() < MAX_UNRECOGNIZED => self.unrecognized.push(path),
                None => self.further_unrecognized = self.further_unrecognized.saturating_add(1),
            }
        }
        paths.sort();
        self.unrecognized.sort();
        let control = ControlPart::read(kind, directory, control.as_deref());
        for path in paths {
            let bytes = control.as_ref().and_then(ControlPart::bytes);
            match DwbFile::open(&path, Links::Refuse, kind, block_size_hint, bytes) {
                Ok(file) => self.files.push(file),
                Err(error) => self.skipped.push(error),
            }
        }
        self.controls.extend(control);
    }

    /// Opens one file, whatever its name, as the first of `kinds` that recognises it by its content, else by its name.
    pub(crate) fn add_file(
        &mut self,
        path: &Path,
        links: Links,
        kinds: &[&'static dyn DwbDirectory],
        block_size_hint: Option<u32>,
    ) {
        let mut files = Vec::new();
        for kind in kinds {
            match DwbFile::open(path, links, *kind, block_size_hint, None) {
                Ok(file) => files.push(file),
                Err(error) => return self.skipped.push(error),
            }
        }
        let by_content = files.iter().position(|file| file.detection.is_recognised());
        let best = by_content.or_else(|| files.iter().position(|file| file.number.is_some())).unwrap_or_default();
        self.files.extend(files.into_iter().nth(best));
    }
}
