//! Which server wrote a WAL page: the page magic, and what differs between majors.

use std::fmt;

use crate::parsers::image::Compression;

/// Major version of the server whose WAL format is in use. Ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Major {
    /// 10, magic `0xD097`.
    V10,
    /// 11, magic `0xD098`.
    V11,
    /// 12, magic `0xD101`.
    V12,
    /// 13, magic `0xD106`.
    V13,
    /// 14, magic `0xD10D`.
    V14,
    /// 15, magic `0xD110`.
    V15,
    /// 16, magic `0xD113`.
    V16,
    /// 17, magic `0xD116`.
    V17,
    /// 18, magic `0xD118`. The development tree of 19 used it too, until October 2025.
    V18,
    /// Development tree of 19 since January 2026, magic `0xD11B`.
    V19,
}

/// A page magic that belongs to no format read here. Its display says in words what is known about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnknownMagic(pub u16);

/// Bytes of block image flags that mean compression, by layout: flag and method, in the order the server tests them.
const COMPRESSION_SINCE_15: [(u8, Compression); 3] =
    [(0x04, Compression::Pglz), (0x08, Compression::Lz4), (0x10, Compression::Zstd)];
const COMPRESSION_TO_14: [(u8, Compression); 1] = [(0x02, Compression::Pglz)];

impl Major {
    /// All majors, oldest first.
    pub const ALL: [Self; 10] =
        [Self::V10, Self::V11, Self::V12, Self::V13, Self::V14, Self::V15, Self::V16, Self::V17, Self::V18, Self::V19];

    /// The major that wrote pages with this magic (`XLOG_PAGE_MAGIC`, `src/include/access/xlog_internal.h`).
    ///
    /// # Errors
    /// [`UnknownMagic`] when the magic is that of no release from 10 on nor of the current development tree of 19.
    pub fn from_magic(magic: u16) -> Result<Self, UnknownMagic> {
        Self::ALL.into_iter().find(|major| major.magic() == magic).ok_or(UnknownMagic(magic))
    }

    /// The magic in this major's page headers.
    #[must_use]
    pub const fn magic(self) -> u16 {
        match self {
            Self::V10 => 0xD097,
            Self::V11 => 0xD098,
            Self::V12 => 0xD101,
            Self::V13 => 0xD106,
            Self::V14 => 0xD10D,
            Self::V15 => 0xD110,
            Self::V16 => 0xD113,
            Self::V17 => 0xD116,
            Self::V18 => 0xD118,
            Self::V19 => 0xD11B,
        }
    }

    /// The number users know it by.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V10 => 10,
            Self::V11 => 11,
            Self::V12 => 12,
            Self::V13 => 13,
            Self::V14 => 14,
            Self::V15 => 15,
            Self::V16 => 16,
            Self::V17 => 17,
            Self::V18 => 18,
            Self::V19 => 19,
        }
    }

    /// True when a record may carry this resource manager id: 0 to 21, and from 15 on the custom ids 128 to 255.
    ///
    /// Source: `RmgrIdIsValid`, `src/include/access/rmgr.h`.
    #[must_use]
    pub fn has_rmgr(self, rmgr_id: u8) -> bool {
        rmgr_id <= 21 || (self >= Self::V15 && rmgr_id >= 128)
    }

    /// Longest record that this reader accepts, header included, in bytes. From 16 on the server states the limit
    /// (`XLogRecordMaxSize`, 1020 MiB); older servers cannot allocate more than 1 GiB - 1 to read one back.
    #[must_use]
    pub fn max_record_length(self) -> u32 {
        if self >= Self::V16 { 1020 << 20 } else { (1 << 30) - 1 }
    }

    /// Size of the `CheckPoint` struct, in bytes.
    #[must_use]
    pub fn checkpoint_size(self) -> usize {
        match self {
            Self::V10 | Self::V11 => 80,
            Self::V19 => 96,
            _ => 88,
        }
    }

    /// Bit of `bimg_info` that says whether redo puts the image into place (`BKPIMAGE_APPLY`).
    #[must_use]
    pub fn image_apply_flag(self) -> u8 {
        if self >= Self::V15 { 0x02 } else { 0x04 }
    }

    /// Compression that these `bimg_info` bits stand for. The server tests pglz, LZ4, zstd in this order.
    #[must_use]
    pub fn image_compression(self, bimg_info: u8) -> Option<Compression> {
        let table: &[_] = if self >= Self::V15 { &COMPRESSION_SINCE_15 } else { &COMPRESSION_TO_14 };
        table.iter().find(|(flag, _)| bimg_info & flag != 0).map(|&(_, method)| method)
    }
}

impl fmt::Display for Major {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V19 => f.pad("19devel"),
            other => fmt::Display::fmt(&other.number(), f),
        }
    }
}

impl UnknownMagic {
    /// What the magic is known to mean, if anything.
    #[must_use]
    pub fn meaning(self) -> String {
        let unreleased = |major: u32| format!("a development version of {major} that was never released");
        match self.0 {
            0 => "the page was never written".to_owned(),
            0xD093 => "9.6, which is not supported".to_owned(),
            0xD094..=0xD096 => unreleased(10),
            0xD099 | 0xD100 => unreleased(12),
            0xD102..=0xD105 => unreleased(13),
            0xD107..=0xD10C => unreleased(14),
            0xD10E | 0xD10F => unreleased(15),
            0xD111 | 0xD112 => unreleased(16),
            0xD114 => unreleased(17),
            0xD115 => "a beta of 17, before July 2024".to_owned(),
            0xD117 => unreleased(18),
            0xD119 | 0xD11A => "the development tree of 19 between October 2025 and January 2026".to_owned(),
            other if Major::from_magic(other.swap_bytes()).is_ok() => {
                "written on a machine with big-endian byte order, which is not supported".to_owned()
            }
            0xD011..=0xD092 => "a release before 9.6, which is not supported".to_owned(),
            0xD11C..=0xD1FF => "newer than the versions known here (10 to 19devel)".to_owned(),
            _ => "no WAL page of any version".to_owned(),
        }
    }
}

impl fmt::Display for UnknownMagic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page magic 0x{:04X}: {}", self.0, self.meaning())
    }
}

impl std::error::Error for UnknownMagic {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_magics_name_their_major() {
        let table = [
            (0xD097, 10),
            (0xD098, 11),
            (0xD101, 12),
            (0xD106, 13),
            (0xD10D, 14),
            (0xD110, 15),
            (0xD113, 16),
            (0xD116, 17),
            (0xD118, 18),
            (0xD11B, 19),
        ];
        for (magic, number) in table {
            assert_eq!(Major::from_magic(magic).map(Major::number), Ok(number));
        }
        assert_eq!((0..=u16::MAX).filter(|&magic| Major::from_magic(magic).is_ok()).count(), table.len());
    }

    #[test]
    fn unknown_magics_are_explained() {
        for (magic, words) in [
            (0, "never written"),
            (0xD093, "9.6"),
            (0xD095, "development version of 10"),
            (0xD100, "development version of 12"),
            (0xD104, "development version of 13"),
            (0xD10C, "development version of 14"),
            (0xD10F, "development version of 15"),
            (0xD112, "development version of 16"),
            (0xD114, "development version of 17"),
            (0xD115, "beta of 17"),
            (0xD117, "development version of 18"),
            (0xD11A, "development tree of 19"),
            (0x18D1, "big-endian"),
            (0xD120, "newer"),
            (0xD05E, "before 9.6"),
            (0x1234, "no WAL page"),
        ] {
            let said = UnknownMagic(magic).to_string();
            assert!(said.contains(words), "{said}");
            assert!(Major::from_magic(magic).is_err());
        }
    }

    #[test]
    fn image_flags_have_two_layouts() {
        // The same value 0x07 means the same in both, by different bits.
        for major in Major::ALL {
            assert_eq!(major.image_compression(0x07), Some(Compression::Pglz));
            assert_ne!(0x07 & major.image_apply_flag(), 0);
        }
        assert_eq!(Major::V14.image_compression(0x05), None);
        assert_eq!(Major::V15.image_compression(0x05), Some(Compression::Pglz));
        assert_eq!(Major::V15.image_compression(0x0B), Some(Compression::Lz4));
        assert_eq!(Major::V19.image_compression(0x13), Some(Compression::Zstd));
        assert_eq!(Major::V15.image_compression(0x1F), Some(Compression::Pglz));
    }

    #[test]
    fn custom_rmgrs_exist_from_15_on() {
        assert!(Major::V10.has_rmgr(21) && !Major::V19.has_rmgr(22) && !Major::V15.has_rmgr(127));
        assert!(!Major::V14.has_rmgr(128) && Major::V15.has_rmgr(128) && Major::V18.has_rmgr(255));
    }
}
