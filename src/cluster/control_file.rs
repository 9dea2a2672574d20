//! `global/pg_control`, read until it is the same twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::open::{AccessError, Links, ReadFile, real_directory};
use super::page_sizes::page_sizes_named;
use crate::parsers::control::{CONTROL_FILE_SIZE, ControlFile, ControlPrefix, SizeFault};
use crate::parsers::crc::crc32c;
use crate::parsers::error::ParseError;

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
