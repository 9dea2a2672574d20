//! `global/pg_control`, read until it is the same twice.
//! Also here: whether the least LSN that recovery must reach lies on the timeline that `pg_control` has it on; compares
//! `pg_control` with the record of the last checkpoint: was `pg_resetwal` run, and are both from the same time; the
//! page size that page headers name, asked of a few files: something to compare the control file with.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::backup_files::RecoverySigns;
use super::data_dir::DataDir;
use super::history_file::read_history;
use super::open::{AccessError, Links, ReadFile, real_directory};
use crate::parsers::control::{CONTROL_FILE_SIZE, ControlFile, ControlPrefix, SizeFault};
use crate::parsers::control_layout::ControlLayout;
use crate::parsers::crc::crc32c;
use crate::parsers::decode::ParseError;
use crate::parsers::page::PageHeader;
use crate::parsers::wal::checkpoint::CheckPoint;
use crate::parsers::wal::names::RM_XLOG;
use crate::parsers::wal::page as wal_page;
use crate::parsers::wal::record::{RecordHeader, record_crc};
use crate::parsers::wal::records::RecordKind;
use crate::parsers::wal::timeline::{TimelineHistory, WalSegment};
use crate::types::Lsn;

pub(crate) const CONTROL_PATH: &str = "global/pg_control";

/// Reads of a file whose CRC is wrong, before that is believed: a server may be writing it at this moment.
const ATTEMPTS: usize = 10;

const PAUSE: Duration = Duration::from_millis(10);

/// Result of reading the control file.
#[derive(Debug)]
pub enum ControlRead {
    /// Decoded; its CRC may still be wrong.
    Known(Box<ControlFile>),
    /// Decoded, with a right CRC, yet with sizes that no server has or that are not those of the pages.
    WrongSizes(Box<ControlFile>, Vec<SizeFault>),
    /// A version that this program does not know; only the fixed part could be decoded.
    UnknownVersion {
        /// The fixed part.
        prefix: ControlPrefix,
        /// Somewhere the CRC of all bytes before it follows: the file is as it was written.
        is_signed: bool,
    },
    /// The file ends inside the struct.
    Short(ParseError),
    /// The file could not be read.
    Unreadable(AccessError),
}

impl ControlRead {
    /// The decoded file if its CRC and its sizes are right: the only form in which its values may be built upon.
    pub fn trusted(&self) -> Option<&ControlFile> {
        match self {
            Self::Known(control) if control.crc_is_good() => Some(control),
            _ => None,
        }
    }

    /// The decoded file, right or wrong.
    pub fn known(&self) -> Option<&ControlFile> {
        match self {
            Self::Known(control) | Self::WrongSizes(control, _) => Some(control),
            _ => None,
        }
    }
}

/// Reads the control file of a data directory.
pub fn read_control(data_dir: &Path) -> ControlRead {
    let path = data_dir.join(CONTROL_PATH);
    let mut previous = None;
    for attempt in 0_usize.. {
        let directory = path.parent().map_or(Ok(()), real_directory);
        let bytes =
            match directory.and_then(|()| ReadFile::open(&path, Links::Refuse)).and_then(|file| read_prefix(&file)) {
                Ok(bytes) => bytes,
                Err(error) => return ControlRead::Unreadable(error),
            };
        let control = match decode(&bytes) {
            Ok(control) => control,
            Err(read) => return read,
        };
        let same_twice = previous == Some(control.computed_crc);
        if control.crc_is_good() {
            return compared_with_pages(control, || page_sizes_named(data_dir));
        }
        if same_twice || attempt.saturating_add(1) == ATTEMPTS {
            return ControlRead::Known(Box::new(control));
        }
        previous = Some(control.computed_crc);
        std::thread::sleep(PAUSE);
    }
    unreachable!("the loop returns at the latest after the last attempt")
}

/// Bytes of the file that a server writes at once: no version's struct is longer.
///
/// Source: `PG_CONTROL_MAX_SAFE_SIZE`, `src/include/catalog/pg_control.h`.
const MAX_STRUCT_BYTES: usize = 512;

/// True when a CRC-32C of all bytes before it ends the struct, as in every version, wherever that is.
fn is_signed(bytes: &[u8]) -> bool {
    (ControlPrefix::SIZE..MAX_STRUCT_BYTES).step_by(4).any(|at| {
        let Some((signed, rest)) = bytes.split_at_checked(at) else { return false };
        rest.first_chunk().is_some_and(|stored| u32::from_le_bytes(*stored) == crc32c(signed))
    })
}

/// Judges the bytes of a control file outside a directory. `named`: page sizes, with the number of page headers that have them.
pub(super) fn control_of_bytes(bytes: &[u8], named: &BTreeMap<u32, u64>) -> ControlRead {
    match decode(bytes) {
        Ok(control) if control.crc_is_good() => compared_with_pages(control, || named.clone()),
        Ok(control) => ControlRead::Known(Box::new(control)),
        Err(read) => read,
    }
}

fn decode(bytes: &[u8]) -> Result<ControlFile, ControlRead> {
    match ControlFile::decode(bytes) {
        Ok(Some(control)) => Ok(control),
        Ok(None) => Err(match ControlPrefix::decode(bytes) {
            Ok(prefix) => ControlRead::UnknownVersion { prefix, is_signed: is_signed(bytes) },
            Err(error) => ControlRead::Short(error),
        }),
        Err(error) => Err(ControlRead::Short(error)),
    }
}

/// A right CRC says that the file is as it was written, not that it is the one of these pages. `named`: how many page headers
/// name which page size.
fn compared_with_pages(control: ControlFile, named: impl FnOnce() -> BTreeMap<u32, u64>) -> ControlRead {
    let mut faults = control.size_faults();
    if faults.is_empty() {
        let named = named();
        let votes = |size: u32| named.get(&size).copied().unwrap_or_default();
        let most = named.iter().max_by_key(|(_, pages)| **pages);
        if let Some((size, pages)) = most.filter(|(_, pages)| **pages > votes(control.geometry.block_size)) {
            faults.push(control.page_size_fault(*size, *pages));
        }
    }
    match faults.is_empty() {
        true => ControlRead::Known(Box::new(control)),
        false => ControlRead::WrongSizes(Box::new(control), faults),
    }
}

fn read_prefix(file: &ReadFile) -> Result<Vec<u8>, AccessError> {
    let mut buf = vec![0; CONTROL_FILE_SIZE];
    let filled = file.read_at(&mut buf, 0)?;
    buf.truncate(filled);
    Ok(buf)
}

/// True when a server refuses `pg_control` for that. Where a backup or a standby may follow another timeline, only a timeline of 0 is certain
/// to be refused; where a history cannot be read, nothing is.
///
/// Source: `InitWalRecovery`, `src/backend/access/transam/xlogrecovery.c`.
pub(crate) fn is_on_other_timeline(directory: &DataDir, control: &ControlFile, signs: &RecoverySigns) -> bool {
    let (lsn, tli) = (control.min_recovery_lsn, control.min_recovery_timeline);
    if !lsn.is_valid() || tli.0 == 0 {
        return lsn.is_valid();
    }
    let follows_own = signs.signals.is_empty() && signs.backup_label.is_none();
    let target = control.timeline();
    let history = read_history(directory.root(), target);
    // Without one the server knows of no other timeline.
    let history = history.map(|found| found.unwrap_or_else(|| TimelineHistory::root(target)));
    let before = Lsn(lsn.0.saturating_sub(1));
    follows_own && history.is_ok_and(|history| history.tli_at(before) != tli)
}

/// True when `pg_resetwal` wrote the control file and no server ran since.
///
/// A server that switches to a new segment just before it is shut down leaves the same control file if it runs with the
/// settings that `pg_resetwal` writes. The checkpoint record distinguishes them: that of a server names the record before it,
/// that of `pg_resetwal` none. While the record cannot be read, the worse is believed.
///
/// Source: `WriteEmptyXLOG`, `src/bin/pg_resetwal/pg_resetwal.c`.
pub(crate) fn wal_was_reset(data_dir: &Path, control: &ControlFile) -> bool {
    control.looks_reset() && record_before_checkpoint(data_dir, control).is_none_or(|lsn| !lsn.is_valid())
}

/// Start of the record that the checkpoint record of the control file, the first of its segment, names as the one before
/// it; `None` when that record cannot be read or is not whole.
fn record_before_checkpoint(data_dir: &Path, control: &ControlFile) -> Option<Lsn> {
    let Ok(Some((header, _))) = checkpoint_record(data_dir, control) else { return None };
    (header.kind_in_all_majors() == RecordKind::XlogCheckpointShutdown).then_some(header.prev)
}

/// Whether `pg_wal` has the checkpoint that the control file names; `None` where that cannot be read here.
pub fn has_checkpoint(data_dir: &Path, control: &ControlFile) -> Option<bool> {
    let Ok(record) = checkpoint_record(data_dir, control) else { return None };
    let Some((_, found)) = record else { return Some(false) };
    let key = |of: &CheckPoint| (of.redo_lsn, of.tli, of.time_s, of.next_full_xid, of.next_multi);
    Some(key(&found) == key(&control.checkpoint))
}

/// The record at the address that the control file has for the last checkpoint; none where the file, its header or the record is not
/// that of such a one. An error if it cannot be read, or continues on another page.
fn checkpoint_record(data_dir: &Path, control: &ControlFile) -> Result<Option<(RecordHeader, CheckPoint)>, ()> {
    let lsn = control.checkpoint_lsn;
    let (segment_size, page_size) = (control.geometry.wal_segment_size, u64::from(control.geometry.wal_block_size));
    let number = lsn.0.checked_div(u64::from(segment_size)).ok_or(())?;
    let name = WalSegment { tli: control.checkpoint.tli, number }.file_name(segment_size).ok_or(())?;
    let file = match ReadFile::open(&data_dir.join("pg_wal").join(name), Links::Refuse) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(_) => return Err(()),
    };
    let offset = lsn.0.checked_rem(u64::from(segment_size)).ok_or(())?;
    let segment_start = Lsn(lsn.0.saturating_sub(offset));
    let first = file.bytes_at(0, wal_page::PageHeader::LONG_SIZE).map_err(|_| ())?.unwrap_or_default();
    let Ok(page) = wal_page::PageHeader::decode(segment_start, &first) else { return Ok(None) };
    let is_own = page.long.is_some_and(|long| long.system_identifier == control.prefix.system_identifier);
    if page.page_addr != segment_start || !is_own {
        return Ok(None);
    }
    let layout = ControlLayout::of_version(control.prefix.pg_control_version).ok_or(())?;
    let length = layout.checkpoint_record_bytes();
    if offset.checked_rem(page_size).ok_or(())?.saturating_add(length) > page_size {
        return Err(());
    }
    let record = file.bytes_at(offset, usize::try_from(length).map_err(|_| ())?).map_err(|_| ())?.unwrap_or_default();
    let Ok(header) = RecordHeader::decode(lsn, &record) else { return Ok(None) };
    let is_checkpoint = header.rmgr_id == RM_XLOG && u64::from(header.tot_len) == length;
    if !is_checkpoint || header.crc != record_crc(&record) {
        return Ok(None);
    }
    // The header and two bytes before the main data.
    let data = record.get(RecordHeader::SIZE.saturating_add(2)..).unwrap_or_default();
    let checkpoint = CheckPoint::decode(layout.xlog, lsn.0, data);
    Ok(checkpoint.ok().map(|checkpoint| (header, checkpoint)))
}

const ENOUGH_HEADERS: u64 = 64;

/// Files of one directory that are asked at most.
const MAX_FILES: usize = 128;

/// Directories of databases that are asked at most.
const MAX_DATABASES: usize = 4;

/// Sizes that the first pages of shared catalogs and of some databases name, and the number of pages that name each.
/// Pages without content, and those whose header breaks a rule, have no say; nor have files that cannot be read, since
/// reading their pages will report that.
pub(super) fn page_sizes_named(data_dir: &Path) -> BTreeMap<u32, u64> {
    let mut named = BTreeMap::<u32, u64>::new();
    let base = data_dir.join("base");
    let databases = entries_with_numbers(&base, usize::MAX);
    let directories = [data_dir.join("global")].into_iter().chain(databases.into_iter().take(MAX_DATABASES));
    for directory in directories {
        for file in entries_with_numbers(&directory, MAX_FILES) {
            if named.values().sum::<u64>() >= ENOUGH_HEADERS {
                return named;
            }
            if let Some(size) = size_named_by(&file) {
                let count = named.entry(size).or_default();
                *count = count.saturating_add(1);
            }
        }
    }
    named
}

/// Up to `most` entries whose names begin with a digit, in order.
fn entries_with_numbers(directory: &Path, most: usize) -> Vec<PathBuf> {
    let list = real_directory(directory).ok().and_then(|()| fs::read_dir(directory).ok());
    let numbered = list.into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_name().as_encoded_bytes().first()?.is_ascii_digit().then(|| entry.path())
    });
    let mut paths: Vec<PathBuf> = numbered.take(most).collect();
    paths.sort_unstable();
    paths
}

fn size_named_by(path: &Path) -> Option<u32> {
    let file = ReadFile::open(path, Links::Refuse).ok()?;
    let bytes = file.bytes_at(0, PageHeader::SIZE).ok()??;
    PageHeader::decode(0, &bytes).ok()?.named_page_size()
}
