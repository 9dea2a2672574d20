//! `pg_filenode.map`: file numbers of the catalogs whose `pg_class` row cannot hold them.

use nom::Parser;
use nom::error::context;

use super::crc::crc32c;
use super::decode::{ParseError, decode_at, le_i32, le_u32, take};
use crate::types::Oid;

/// Magic number in bytes 0 to 4.
///
/// Source: `RELMAPPER_FILEMAGIC`, `src/backend/utils/cache/relmapper.c`.
pub(crate) const FILENODE_MAP_MAGIC: u32 = 0x0059_2717;

/// The two lengths of the file; the length distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapLayout {
    /// Majors 10 to 15: 62 entries, CRC in bytes 504 to 508, 4 bytes of padding.
    Bytes512,
    /// Since major 16: 64 entries, CRC in bytes 520 to 524.
    Bytes524,
}

impl MapLayout {
    /// Length of the file in bytes.
    pub(crate) const fn file_size(self) -> usize {
        match self {
            Self::Bytes512 => 512,
            Self::Bytes524 => 524,
        }
    }

    /// Entries that there is room for (`MAX_MAPPINGS`).
    pub const fn max_entries(self) -> usize {
        match self {
            Self::Bytes512 => 62,
            Self::Bytes524 => 64,
        }
    }

    /// Offset of the CRC, and number of bytes that it covers.
    pub const fn crc_offset(self) -> usize {
        match self {
            Self::Bytes512 => 504,
            Self::Bytes524 => 520,
        }
    }
}

/// One entry: bytes 0 to 4 the catalog's OID, bytes 4 to 8 its file number.
///
/// Source: `RelMapping`, `src/backend/utils/cache/relmapper.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilenodeMapping {
    /// OID of the catalog, its index or its toast table.
    pub oid: Oid,
    /// File number.
    pub rel_number: u32,
}

/// `pg_filenode.map`, little-endian.
///
/// | bytes    | field         | C type                | meaning                                     |
/// |----------|---------------|-----------------------|---------------------------------------------|
/// | 0..4     | `magic`       | `int32`               | `FILENODE_MAP_MAGIC`                      |
/// | 4..8     | `entry_count` | `int32`               | entries in use                              |
/// | 8..504   | `entries`     | `RelMapping[62]`      | majors 10 to 15; unused ones are zero       |
/// | 504..508 | `crc`         | `pg_crc32c`           | of bytes 0..504; then 4 bytes of padding    |
/// | 8..520   | `entries`     | `RelMapping[64]`      | since 16                                    |
/// | 520..524 | `crc`         | `pg_crc32c`           | of bytes 0..520                             |
///
/// Source: `RelMapFile`, `src/backend/utils/cache/relmapper.c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilenodeMap {
    /// Which of the two lengths this is.
    pub layout: MapLayout,
    /// Stored magic number.
    pub magic: u32,
    /// Stored number of entries, right or wrong.
    pub entry_count: i32,
    /// The entries that the count announces, as far as the file has room for them.
    pub entries: Vec<FilenodeMapping>,
    /// Stored CRC.
    pub crc: u32,
    /// CRC-32C of the bytes before the stored one.
    pub computed_crc: u32,
}

impl FilenodeMap {
    /// Decodes without judging. Takes the longer layout when the bytes suffice for it. `base` is the offset of `buf[0]`
    /// in the file, for error messages only.
    ///
    /// # Errors
    /// `Truncated` when `buf` is shorter than the shorter layout.
    pub fn decode(base: u64, buf: &[u8]) -> Result<Self, ParseError> {
        let long = buf.len() >= MapLayout::Bytes524.file_size();
        let layout = if long { MapLayout::Bytes524 } else { MapLayout::Bytes512 };
        decode_at("RelMapFile", base, buf, |i| {
            let whole = i;
            let (i, magic) = context("magic", le_u32).parse(i)?;
            let (i, entry_count) = context("num_mappings", le_i32).parse(i)?;
            let in_use = usize::try_from(entry_count).unwrap_or_default().min(layout.max_entries());
            let mut entries = Vec::with_capacity(in_use);
            let mut rest = i;
            for index in 0..layout.max_entries() {
                let (i, oid) = context("mappings.mapoid", le_u32).parse(rest)?;
                let (i, rel_number) = context("mappings.mapfilenumber", le_u32).parse(i)?;
                if index < in_use {
                    entries.push(FilenodeMapping { oid, rel_number });
                }
                rest = i;
            }
            let (i, crc) = context("crc", le_u32).parse(rest)?;
            let padding = if layout == MapLayout::Bytes512 { 4 } else { 0 };
            let (i, _) = context("pad", take(padding)).parse(i)?;
            let computed_crc = crc32c(whole.get(..layout.crc_offset()).unwrap_or_default());
            Ok((i, Self { layout, magic, entry_count, entries, crc, computed_crc }))
        })
    }

    /// Every rule that this map breaks, in field order; empty when sound.
    pub fn faults(&self) -> Vec<FilenodeMapFault> {
        let mut faults = Vec::new();
        if self.magic != FILENODE_MAP_MAGIC {
            faults.push(FilenodeMapFault::Magic { found: self.magic });
        }
        let max = self.layout.max_entries();
        if usize::try_from(self.entry_count).map_or(true, |count| count > max) {
            faults.push(FilenodeMapFault::EntryCount { found: self.entry_count, max });
        }
        if self.crc != self.computed_crc {
            faults.push(FilenodeMapFault::Crc { found: self.crc, expected: self.computed_crc });
        }
        faults
    }

    /// File number of a catalog, `None` when it is not mapped.
    pub fn rel_number(&self, oid: Oid) -> Option<u32> {
        self.entries.iter().find(|entry| entry.oid == oid).map(|entry| entry.rel_number).filter(|number| *number > 0)
    }
}

/// A broken rule of `pg_filenode.map`, with what was found. The server refuses a map that breaks any of them.
///
/// Source: `read_relmap_file`, `src/backend/utils/cache/relmapper.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilenodeMapFault {
    /// Another magic number.
    #[error("magic is {found:#010X}, expected {FILENODE_MAP_MAGIC:#010X}")]
    Magic {
        /// Stored value.
        found: u32,
    },
    /// Less than none, or more entries than there is room for.
    #[error("number of entries is {found}, expected 0 to {max}")]
    EntryCount {
        /// Stored value.
        found: i32,
        /// Room in the file.
        max: usize,
    },
    /// The CRC is not that of the bytes.
    #[error("CRC is {found:#010X}, expected {expected:#010X}")]
    Crc {
        /// Stored value.
        found: u32,
        /// Computed value.
        expected: u32,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sound(size: usize, entries: &[(u32, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; size];
        bytes[..4].copy_from_slice(&[0x17, 0x27, 0x59, 0]);
        bytes[4] = u8::try_from(entries.len()).unwrap();
        for (index, (oid, number)) in entries.iter().enumerate() {
            bytes[8 + index * 8..][..4].copy_from_slice(&oid.to_le_bytes());
            bytes[12 + index * 8..][..4].copy_from_slice(&number.to_le_bytes());
        }
        let at = if size == 512 { 504 } else { 520 };
        let crc = crc32c(&bytes[..at]);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn both_lengths_are_read_and_sound() {
        for size in [512, 524] {
            let map = FilenodeMap::decode(0, &sound(size, &[(1259, 16_909), (1249, 1249)])).unwrap();
            assert_eq!(map.faults(), [], "{size}");
            assert_eq!(
                (map.rel_number(1259), map.rel_number(1249), map.rel_number(2615)),
                (Some(16_909), Some(1249), None)
            );
        }
    }

    #[test]
    fn broken_rules_are_named() {
        let mut bytes = sound(512, &[(1259, 1259)]);
        bytes[3] = 1;
        bytes[4..8].copy_from_slice(&63_i32.to_le_bytes());
        let map = FilenodeMap::decode(0, &bytes).unwrap();
        let faults = map.faults();
        assert!(matches!(
            faults[..],
            [
                FilenodeMapFault::Magic { found: 0x0159_2717 },
                FilenodeMapFault::EntryCount { found: 63, max: 62 },
                FilenodeMapFault::Crc { .. }
            ]
        ));
        assert_eq!(map.entries.len(), 62, "a count that is too high is cut");
        bytes[4..8].copy_from_slice(&(-1_i32).to_le_bytes());
        let map = FilenodeMap::decode(0, &bytes).unwrap();
        assert!(map.entries.is_empty() && map.faults().contains(&FilenodeMapFault::EntryCount { found: -1, max: 62 }));
    }

    #[test]
    fn every_truncation_is_an_error_inside_the_input() {
        let bytes = sound(512, &[(1259, 1259)]);
        for length in 0..512 {
            let error = FilenodeMap::decode(0x100, &bytes[..length]).unwrap_err();
            assert!(error.offset >= 0x100 && error.offset <= 0x100 + length as u64, "{error}");
        }
    }

    proptest! {
        #[test]
        fn one_flipped_bit_is_found(long: bool, at in 0_usize..512 * 8) {
            let mut bytes = sound(if long { 524 } else { 512 }, &[(1259, 16_909), (1249, 1249)]);
            bytes[at / 8] ^= 1 << (at % 8);
            // The padding of the shorter layout, 4 bytes from 508 on, is under no CRC.
            let covered = long || at / 8 < 508;
            prop_assert_eq!(FilenodeMap::decode(0, &bytes).unwrap().faults().is_empty(), !covered);
        }

        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(map) = FilenodeMap::decode(0, &bytes) {
                prop_assert!(map.entries.len() <= map.layout.max_entries());
                prop_assert!(!map.faults().is_empty());
            }
        }
    }
}
