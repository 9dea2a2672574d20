//! Words for what is found in a data directory of MySQL or MariaDB.

use std::fmt;

use crate::analysis::innodb::judge::HeldImage;
use crate::cluster::innodb::redo_log::Family;
use crate::parsers::innodb::compressed::Unpacked;
use crate::parsers::innodb::page_check::PageFault;

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mysql8 => "MySQL 8.0.20 or later",
            Self::Mysql57 => "MySQL 5.7 to 8.0.19",
            Self::Mysql56 => "MySQL 5.6 or earlier",
            Self::Mariadb => "MariaDB 10.5 or later",
            Self::MariadbOld => "MariaDB before 10.5",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for HeldImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown: the buffer was not read completely, or an image does not show its tablespace",
            Self::Missing => "no image",
            Self::Unreadable => "only images that fail their checks or cannot be tested here",
            Self::Encrypted => "an encrypted image, which is not judged",
            Self::Older => "an intact image, older than the page",
            Self::Same => "an intact image with the LSN of the page",
            Self::Newer => "an intact image, newer than the page",
        })
    }
}

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum { stored, computed } if stored == computed => {
                write!(f, "checksum {stored:#010x} is valid in the header, but the trailer has another one")
            }
            Self::Checksum { stored, computed } => {
                write!(f, "stored checksum {stored:#010x}, computed crc32 {computed:#010x}")
            }
            Self::TrailerLsn { header, trailer } => {
                write!(f, "low half of the LSN is {header:#010x} in the header and {trailer:#010x} in the trailer")
            }
            Self::CompressedSize { bytes } => write!(f, "a compressed page cannot have {bytes} bytes"),
            Self::Packed(Unpacked::UnknownCodec { codec }) => write!(f, "{codec} is not supported"),
            Self::Packed(Unpacked::Length { length }) => {
                write!(f, "the compressed length {length} exceeds the page")
            }
            Self::Packed(Unpacked::Damaged) => f.write_str("the compressed content is damaged"),
            Self::Packed(Unpacked::OtherPage) => f.write_str("the compressed content belongs to another page"),
            Self::NotEncryptedHere => f.write_str("the type is an encrypted page, but the tablespace is not encrypted"),
            Self::WrongPageNumber { found, expected } => {
                write!(f, "its header has page {found}, but this is page {expected}")
            }
            Self::WrongTablespace { found, expected } => {
                write!(f, "its header has tablespace {found}, but the file belongs to tablespace {expected}")
            }
        }
    }
}
