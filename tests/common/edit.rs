//! Copies of crashed clusters, and edits of them: pages, slots and the control file.
//!
//! Only crashed clusters of 19devel with slots of layout B are edited. Offsets are written out here, not taken from the
//! code under test.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use pgforensics::parsers::checksum::page_checksum;

use crate::common::{dwb_format, keep_mode};

/// Bytes of a page.
pub const PAGE: usize = 8192;
/// Bytes of the header of a file of the double write buffer, and of a slot's header.
const DWB_HEADER: u64 = 40;
/// Bytes from slot to slot.
const DWB_STRIDE: u64 = 40 + PAGE as u64;
/// The only file of the double write buffer in most clusters.
pub const DWB_FILE: &str = "pg_dwbuf/dwbuf_000";

/// A page, by the numbers that slots and WAL use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub spc: u32,
    pub db: u32,
    pub rel: u32,
    pub fork: u8,
    pub block: u32,
}

impl Key {
    /// A page of a relation in the default tablespace of database 5.
    pub const fn main(rel: u32, block: u32) -> Self {
        Self { spc: 1663, db: 5, rel, fork: 0, block }
    }

    /// The same of another fork: 1 free space map, 2 visibility map, 3 init.
    pub const fn of_fork(self, fork: u8) -> Self {
        Self { fork, ..self }
    }

    /// Another block of the same fork.
    pub const fn at(self, block: u32) -> Self {
        Self { block, ..self }
    }

    /// Path of the file that holds the page.
    pub fn file(self) -> String {
        format!("base/{}/{}{}", self.db, self.rel, ["", "_fsm", "_vm", "_init"][usize::from(self.fork)])
    }

    /// The relation as WAL holds it.
    pub fn locator(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        for (at, number) in [self.spc, self.db, self.rel].into_iter().enumerate() {
            bytes[at * 4..at * 4 + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

/// A copy of a cluster. Files are hard links until they are changed, so a copy costs little; every change goes through
/// the methods here, which part the file from the original first.
pub struct ClusterCopy {
    _keep: tempfile::TempDir,
    from: PathBuf,
    data: PathBuf,
}

impl ClusterCopy {
    /// A copy of the crashed cluster `case`, with its tablespace if it has one.
    pub fn of(case: &str) -> Self {
        Self::of_archive(&format!("dwb/{case}"))
    }

    /// A copy of the cluster in the archive `name`, such as `cases/brin`.
    pub fn of_archive(name: &str) -> Self {
        let case = name.rsplit('/').next().unwrap_or(name);
        let keep = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("temporary directory");
        let (from, data) = (super::unpack::data_dir(name).expect("unpack fixture"), keep.path().join(case));
        link_tree(&from, &data);
        let beside = from.with_file_name(format!("{case}.ts"));
        if beside.exists() {
            link_tree(&beside, &data.with_file_name(format!("{case}.ts")));
        }
        Self { _keep: keep, from, data }
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// A place beside the data directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.data.with_file_name(name)
    }

    pub fn exists(&self, name: &str) -> bool {
        self.data.join(name).symlink_metadata().is_ok()
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.data.join(name)).expect("read")
    }

    /// Replaces a file, or makes a new one.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.data.join(name);
        if self.exists(name) {
            fs::remove_file(&path).expect("part from the original");
        }
        fs::write(path, bytes).expect("write");
    }

    /// Changes some bytes of a file.
    pub fn patch(&self, name: &str, offset: u64, bytes: &[u8]) {
        let path = self.data.join(name);
        let old = path.metadata().expect("a file");
        assert!(offset + bytes.len() as u64 <= old.len(), "{name} is not made longer");
        if old.nlink() > 1 {
            let parted = path.with_extension("parted");
            fs::copy(&path, &parted).expect("part from the original");
            fs::rename(&parted, &path).expect("part from the original");
        }
        let file = fs::OpenOptions::new().write(true).open(&path).expect("open");
        file.write_all_at(bytes, offset).expect("write");
    }

    /// Some bytes of a file.
    fn read_at(&self, name: &str, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        fs::File::open(self.data.join(name)).expect("open").read_exact_at(&mut bytes, offset).expect("read");
        bytes
    }

    /// Cuts a file.
    pub fn cut(&self, name: &str, length: usize) {
        let content = self.read(name);
        self.write(name, &content[..length]);
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.data.join(name)).expect("remove");
    }

    /// Moves a file to a place outside.
    pub fn move_out(&self, name: &str, to: &Path) {
        fs::rename(self.data.join(name), to).expect("move");
    }

    /// Gives a file back what it had in the original.
    pub fn undo(&self, name: &str) {
        let (from, to) = (self.from.join(name), self.data.join(name));
        if self.exists(name) {
            self.remove(name);
        }
        if fs::hard_link(&from, &to).is_err() {
            fs::copy(from, to).expect("copy");
        }
    }

    /// Puts a link in the place of a file.
    pub fn replace_by_link(&self, name: &str, to: &Path) {
        self.remove(name);
        symlink(to, self.data.join(name)).expect("link");
    }

    /// Names of the files in a directory, in order.
    pub fn names_in(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.data.join(directory)).expect("list");
        let files = entries.map(|entry| entry.expect("list")).filter(|entry| entry.path().is_file());
        let mut names: Vec<String> = files.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }

    /// Bytes of a page.
    pub fn page(&self, key: Key) -> Vec<u8> {
        self.read_at(&key.file(), u64::from(key.block) * PAGE as u64, PAGE)
    }

    /// Overwrites a page as it is given, checksum and all.
    pub fn set_page(&self, key: Key, page: &[u8]) {
        self.patch(&key.file(), u64::from(key.block) * PAGE as u64, page);
    }

    /// A number in the control file, of at most 8 bytes.
    pub fn control(&self, field: ControlField) -> u64 {
        let (at, length) = field.place();
        let bytes = self.read("global/pg_control");
        let mut number = [0; 8];
        number[..length].copy_from_slice(&bytes[at..at + length]);
        u64::from_le_bytes(number)
    }

    /// Changes numbers in the control file and sets its CRC.
    pub fn set_control(&self, fields: &[(ControlField, u64)]) {
        let mut bytes = self.read("global/pg_control");
        for (field, number) in fields {
            let (at, length) = field.place();
            bytes[at..at + length].copy_from_slice(&number.to_le_bytes()[..length]);
        }
        let crc = ::crc32c::crc32c(&bytes[..304]);
        bytes[304..308].copy_from_slice(&crc.to_le_bytes());
        self.write("global/pg_control", &bytes);
    }

    /// Sets the checkpoint LSN in the header of the double write buffer.
    pub fn set_dwb_header_lsn(&self, lsn: u64) {
        let mut header = self.read_at(DWB_FILE, 0, 36);
        header[24..32].copy_from_slice(&lsn.to_le_bytes());
        let crc = ::crc32c::crc32c(&header[..32]);
        header[32..].copy_from_slice(&crc.to_le_bytes());
        self.patch(DWB_FILE, 0, &header);
    }

    /// Writes a slot with a right CRC: the page that it says it holds, its LSN, its number and the image.
    pub fn set_slot(&self, index: u32, slot_id: u32, key: Key, slot_lsn: u64, image: &[u8]) {
        self.patch(
            DWB_FILE,
            slot_offset(index),
            &dwb_format::slot(slot_id, key.locator(), key.fork, key.block, slot_lsn, image),
        );
    }

    /// Makes a slot one that was never written.
    pub fn clear_slot(&self, file: &str, index: u32) {
        self.patch(file, slot_offset(index), &[0; DWB_STRIDE as usize]);
    }

    /// Changes bytes of a slot and leaves its CRC as it was.
    pub fn spoil_slot(&self, index: u32) {
        self.patch(DWB_FILE, slot_offset(index) + 5000, b"spoiled");
    }

    /// Header fields and image of a slot.
    pub fn slot(&self, file: &str, index: u32) -> (Key, u64, Vec<u8>) {
        slot_at(&self.data.join(file), slot_offset(index))
    }
}

/// Offset of a slot in layout B.
pub const fn slot_offset(index: u32) -> u64 {
    DWB_HEADER + index as u64 * DWB_STRIDE
}

/// Page, LSN and image of the slot at an offset of a file.
pub fn slot_at(file: &Path, offset: u64) -> (Key, u64, Vec<u8>) {
    let mut slot = vec![0; DWB_STRIDE as usize];
    fs::File::open(file).expect("open").read_exact_at(&mut slot, offset).expect("read");
    let number = |at: usize| u32::from_le_bytes(slot[at..at + 4].try_into().expect("4 bytes"));
    let lsn = u64::from_le_bytes(slot[24..32].try_into().expect("8 bytes"));
    let fork = u8::try_from(number(16)).unwrap_or(u8::MAX);
    let key = Key { spc: number(4), db: number(8), rel: number(12), fork, block: number(20) };
    (key, lsn, slot[40..].to_vec())
}

/// Numbers of the control file (version 1901) that tests change.
#[derive(Clone, Copy, Debug)]
pub enum ControlField {
    SystemIdentifier,
    State,
    Checkpoint,
    Redo,
    NextXid,
    MinRecoveryPoint,
    MinRecoveryTimeline,
    BackupStartPoint,
    WalLevel,
    WalLogHints,
    MaxConnections,
    MaxWorkerProcesses,
    ChecksumVersion,
}

impl ControlField {
    const fn place(self) -> (usize, usize) {
        match self {
            Self::SystemIdentifier => (0, 8),
            Self::State => (16, 4),
            Self::Checkpoint => (32, 8),
            Self::Redo => (40, 8),
            Self::NextXid => (72, 8),
            Self::MinRecoveryPoint => (144, 8),
            Self::MinRecoveryTimeline => (152, 4),
            Self::BackupStartPoint => (160, 8),
            Self::WalLevel => (180, 4),
            Self::WalLogHints => (184, 1),
            Self::MaxConnections => (188, 4),
            Self::MaxWorkerProcesses => (192, 4),
            Self::ChecksumVersion => (264, 4),
        }
    }
}

/// LSN of a page.
pub fn page_lsn(page: &[u8]) -> u64 {
    let half = |at: usize| u64::from(u32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes")));
    half(0) << 32 | half(4)
}

pub fn set_page_lsn(page: &mut [u8], lsn: u64) {
    page[..4].copy_from_slice(&((lsn >> 32) as u32).to_le_bytes());
    page[4..8].copy_from_slice(&(lsn as u32).to_le_bytes());
}

/// The page as it goes to disk.
pub fn sealed(page: &[u8], block: u32) -> Vec<u8> {
    let mut page = page.to_vec();
    let checksum = page_checksum(&page, block);
    page[8..10].copy_from_slice(&checksum.to_le_bytes());
    page
}

/// The page as a checkpoint copies it: without a checksum of its own.
pub fn unsealed(page: &[u8]) -> Vec<u8> {
    let mut page = page.to_vec();
    page[8..10].fill(0);
    page
}

/// True when the checksum is that of the bytes.
pub fn is_sealed(page: &[u8], block: u32) -> bool {
    page[8..10] == page_checksum(page, block).to_le_bytes()
}

/// The first `at` bytes of one page and the rest of another: what a cut write of `newer` over `older` leaves.
pub fn torn(newer: &[u8], older: &[u8], at: usize) -> Vec<u8> {
    [&newer[..at], &older[at..]].concat()
}

/// Equal but for the checksum.
pub fn same_page(one: &[u8], other: &[u8]) -> bool {
    one[..8] == other[..8] && one[10..] == other[10..]
}

fn link_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("make directory");
    for entry in fs::read_dir(from).expect("list") {
        let entry = entry.expect("list");
        let kind = entry.file_type().expect("type");
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            link_tree(&entry.path(), &target);
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path()).expect("link"), target).expect("link");
        } else if fs::hard_link(entry.path(), &target).is_err() {
            fs::copy(entry.path(), target).expect("copy");
        }
    }
    keep_mode(from, to);
}
