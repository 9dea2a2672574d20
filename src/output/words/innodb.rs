//! Words for what is found in a data directory of MySQL or MariaDB.

use std::fmt;

use crate::analysis::innodb::finding::InnodbFinding;
use crate::analysis::innodb::judge::InnodbVerdict;
use crate::analysis::innodb::recovery::{InnodbStart, OnStart, RecoveryReason};
use crate::cluster::innodb::redo_log::Family;
use crate::parsers::innodb::compressed::{PageCodec, Unpacked};
use crate::parsers::innodb::page_check::PageFault;

impl fmt::Display for InnodbFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InnodbDamagedPages { count, server_restores, no_image } => write!(
                f,
                "damaged pages: {count}; of these the server restores {server_restores} by its own rule; without a whole image: \
                 {no_image}"
            ),
            Self::InnodbBadPages { count, pages } => write!(f, "damaged pages: {count} of {pages}"),
            Self::InnodbZeroPages { count, wrong: 0 } => write!(f, "pages of zeros that have an image: {count}"),
            Self::InnodbZeroPages { count, wrong } => write!(
                f,
                "pages of zeros that have an image: {count}; {wrong} stay zero although an image since the checkpoint is there"
            ),
            Self::InnodbRefusesToStart { pages } => {
                write!(f, "pages because of which the server does not start: {pages}")
            }
            Self::InnodbDamagedSlots { count } => write!(f, "slots with a damaged image: {count}"),
            Self::InnodbDamagedEntries => f.write_str("a block of entries has a wrong checksum"),
            Self::InnodbPartialPage { have_bytes } => {
                write!(f, "the file ends inside a page, {have_bytes} bytes after its start")
            }
            Self::InnodbTwoFiles { space_id, other } => {
                write!(f, "tablespace {space_id} is claimed by {} too", super::super::escape::printable(other))
            }
            Self::InnodbEmptyFile => f.write_str("the file has no page with content"),
            Self::InnodbPageZero => f.write_str("page 0 is damaged; the tablespace is known from other pages"),
            Self::InnodbNoCheckpoint => f.write_str("the checkpoint of the redo log is unknown"),
            Self::InnodbDamagedCheckpoint => f.write_str("a checkpoint block has a wrong checksum"),
            Self::InnodbRedoHeader => {
                f.write_str("the header of this file of the redo log is damaged, or not all there")
            }
            Self::InnodbRedoDamaged { end_lsn, goes_on: true } => {
                write!(f, "the redo log is damaged after LSN {end_lsn}, and goes on after that")
            }
            Self::InnodbRedoDamaged { end_lsn, goes_on: false } => {
                write!(f, "the redo log ends at LSN {end_lsn} with bytes that no server wrote")
            }
            Self::InnodbRedoMissing { end_lsn } => {
                write!(f, "the redo log goes on after LSN {end_lsn} in a file that is missing or too short")
            }
            Self::InnodbRedoBehind { end_lsn, newest_lsn } => {
                write!(f, "the redo log ends at LSN {end_lsn}, and a page was written at LSN {newest_lsn}")
            }
            Self::InnodbNoDoublewrite { expects_files: true } => f.write_str("the doublewrite buffer was not found"),
            Self::InnodbNoDoublewrite { expects_files: false } => f.write_str("no doublewrite buffer is there"),
            Self::InnodbBufferNotInUse => {
                f.write_str("pages were written after the checkpoint, and nothing in the doublewrite buffer is as new")
            }
            Self::InnodbDoublewriteOff => f.write_str("the option file turns the doublewrite buffer off"),
            Self::InnodbBufferIncomplete => f.write_str("files or slots of the doublewrite buffer are missing"),
            Self::InnodbCheckpointUncertain => {
                f.write_str("a checkpoint block is damaged or missing that a newer checkpoint may have been in")
            }
            Self::InnodbUnknownRules => f.write_str("the rules of MariaDB before 10.5 are not known here"),
            Self::InnodbHeaderCopyUsed => {
                f.write_str("the first copy of the doublewrite header is damaged; the second was used")
            }
            Self::InnodbOtherPageSize { page_bytes } => {
                write!(f, "the file is of another page size than the instance ({page_bytes} bytes)")
            }
            Self::InnodbTrailingBytes { bytes } => write!(f, "{bytes} bytes after the last slot"),
            Self::InnodbServerRunning { pid } => {
                write!(f, "process {pid} holds a lock on the system tablespace, as a running server does")
            }
            Self::InnodbUnknownServer => f.write_str("which server wrote the directory is unknown"),
            Self::InnodbSinceCheckpoint { slots, newest_lsn } => {
                write!(f, "{slots} images are not older than the checkpoint, the newest at {newest_lsn}")
            }
        }
    }
}

impl InnodbFinding {
    /// Why it matters, in one line.
    #[must_use]
    pub const fn why(&self) -> &'static str {
        match self {
            Self::InnodbDamagedPages { .. } => {
                "nothing here is proven: whether an image is the version that a page needs is known only after replay of \
                 the redo log"
            }
            Self::InnodbBadPages { .. } => "innodb check compares them with the doublewrite buffer",
            Self::InnodbZeroPages { wrong: 0, .. } => {
                "a crash leaves pages that were allocated and not yet written; MariaDB makes zeros of freed pages of \
                 compressed tables"
            }
            Self::InnodbZeroPages { .. } => "the server does not use these images: what the pages held is lost to it",
            Self::InnodbRefusesToStart { .. } => "the server gives up before it replays the redo log: see each page",
            Self::InnodbDamagedSlots { .. } => {
                "a crash in the middle of a write of the buffer leaves one; the page itself was not being written then"
            }
            Self::InnodbDamagedEntries => "the server refuses to load the file, and does not start",
            Self::InnodbPartialPage { .. } => "the file was cut off, or its extension was interrupted",
            Self::InnodbTwoFiles { .. } => {
                "one of them was copied in from elsewhere; slots are compared with the first, and nothing is certain of either"
            }
            Self::InnodbEmptyFile => "its table was being made, or the file was emptied",
            Self::InnodbPageZero => "the server finds the tablespace by page 0",
            Self::InnodbNoCheckpoint => {
                "which images are current is unknown, and so is what a start does with most of them"
            }
            Self::InnodbDamagedCheckpoint => {
                "the other block was used; a crash in the middle of a checkpoint leaves one"
            }
            Self::InnodbRedoHeader => "the server tests it before it replays anything, and does not start",
            Self::InnodbRedoDamaged { goes_on: true, .. } | Self::InnodbRedoMissing { .. } => {
                "a start replays nothing from there on, if it begins at all: what was committed after is lost"
            }
            Self::InnodbRedoDamaged { goes_on: false, .. } => {
                "a start takes this for the end of the log and says nothing: whether anything was committed after is unknown"
            }
            Self::InnodbRedoBehind { .. } => {
                "servers write a page after the log of its changes: the end of the log is lost, or the pages are from a later time. \
                 MariaDB 10.11.10 and later write older images over such pages: start only on a copy"
            }
            Self::InnodbNoDoublewrite { expects_files: true } => {
                "the server keeps images in files, which innodb_doublewrite_dir or innodb_data_home_dir may name elsewhere: \
                 give --doublewrite-dir or --my-cnf"
            }
            Self::InnodbNoDoublewrite { expects_files: false } => "no page can be compared with an image",
            Self::InnodbBufferNotInUse => {
                "images may lie elsewhere, or the server ran with innodb_doublewrite=OFF: what is missing here proves nothing. \
                 Give --doublewrite-dir or --my-cnf"
            }
            Self::InnodbDoublewriteOff => {
                "whether a start uses images is unknown; pages were perhaps written without any"
            }
            Self::InnodbBufferIncomplete => "images may be in what is missing: what is not found proves nothing",
            Self::InnodbCheckpointUncertain => "an image that counts as current may be older than the checkpoint",
            Self::InnodbUnknownRules => "what a start does is unknown",
            Self::InnodbHeaderCopyUsed => "page 5 of the system tablespace is damaged",
            Self::InnodbOtherPageSize { .. } => "the server does not read it",
            Self::InnodbTrailingBytes { .. } => "the file was cut off, or is of another server",
            Self::InnodbServerRunning { .. } => {
                "files change while they are read, and nothing here is certain: stop the server, or read a copy"
            }
            Self::InnodbUnknownServer => "what a start does is unknown",
            Self::InnodbSinceCheckpoint { .. } => {
                "the server was not shut down cleanly, or it is running: files that change while they are read give wrong answers"
            }
        }
    }
}

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

impl fmt::Display for OnStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Untouched => "nothing to do",
            Self::Restored => "the server writes the image over the page",
            Self::Kept => "the server leaves the page as it is",
            Self::RefusesToStart => "the server does not start",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for InnodbStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingAgainst => "nothing that was examined keeps it from starting",
            Self::MayStop => "replay may stop at a page that is damaged, missing or outdated",
            Self::Refuses => "it refuses to start",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for InnodbVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => {
                "whether an image is there is unknown: not all of the doublewrite buffer was found and read, or an image does not tell its page"
            }
            Self::NoImage => "no whole image is there",
            Self::RestoreUnproven => {
                "a whole image is there; the server does not use it, or it may not be the right one"
            }
            Self::ServerRestores => {
                "the server restores the page from an image that is whole and not older than the checkpoint"
            }
            Self::Whole => "the page is whole",
        })
    }
}

impl fmt::Display for RecoveryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoWholeImage => "no whole image names the page",
            Self::ImageOlderThanCheckpoint => {
                "the image is older than the checkpoint: changes between the two may not be in the redo log any more"
            }
            Self::OlderImagesIgnored => "MariaDB does not use images older than the checkpoint",
            Self::ServerTakesOlderImage => "the server goes by the order of slots, and a newer image is there than the one that it takes",
            Self::TablespaceNotOpened => {
                "nothing shows a change of the tablespace after the checkpoint, and MySQL examines only tablespaces that \
                 the redo log names"
            }
            Self::CompressedImageNotUsed => {
                "MariaDB does not find the tablespace of a compressed image with full_crc32, and does not use it"
            }
            Self::DamagedSlotFirst => "a damaged slot names the page: the server gives up where page and slot are damaged",
            Self::DetectedWithoutImage => "the page is listed as being written, without an image (DETECT_ONLY)",
            Self::PageZero => "page 0 is restored by other rules, when files are opened, and without it no page of the tablespace is restored",
            Self::ReadBeforeImages => "MySQL reads this page before it puts any image back, and stops where it is not whole",
            Self::TwoFiles => "two files claim the tablespace",
            Self::CheckpointUnknown => "the checkpoint of the redo log is unknown",
            Self::FamilyUnknown => "which server wrote the directory is unknown",
            Self::ImageWithoutChecksum => "the image has no checksum (innodb_checksum_algorithm=none): whether it is whole is not known",
            Self::ImageOlderThanPage => "the header of the page has a higher LSN than the image: another version was being written",
            Self::ReplayMayStop => "the page stays as it is: the server does not start if replay needs it, or the undoing of transactions",
            Self::BufferNotFound => {
                "the doublewrite buffer was not found: give --doublewrite-dir or --my-cnf, if it is elsewhere"
            }
            Self::ImageWithoutTablespace => {
                "a whole compressed image of a page with this number does not tell its tablespace: it may be of this page"
            }
            Self::EncryptedImage => {
                "a whole encrypted image of a page with this number is there: whether it is of this page only a server with the key can tell"
            }
            Self::PageNewerThanLog => {
                "the page is newer than the end of the redo log: MariaDB 10.11.10 and later write an older image over such a page"
            }
            Self::DoublewriteOff => "the option file turns the doublewrite buffer off: a start may not use images",
            Self::BufferIncomplete => "files or slots of the doublewrite buffer are missing",
            Self::BufferNotInUse => {
                "pages were written after the checkpoint, and nothing in the doublewrite buffer is as new: images may lie \
                 elsewhere"
            }
            Self::DamageUnseen => {
                "the server does not see this damage: it is told to use no checksums, or the page looks as if it was never written"
            }
            Self::CheckpointUncertain => "a checkpoint block is damaged or missing that a newer checkpoint may have been in",
            Self::RedoNotWhole => "the redo log is not whole, or was not read to its end",
            Self::WrongPageNumber => "the page is whole and is one of another place: what recovery does with such a page is not known here",
            Self::NotVerifiable => "the image cannot be tested here",
        })
    }
}

impl fmt::Display for PageCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zlib => "zlib",
            Self::Lz4 => "LZ4",
            Self::Lzma => "LZMA",
            Self::Bzip2 => "bzip2",
            Self::Snappy => "Snappy",
            Self::Lzo => "LZO",
            Self::Other(number) => return write!(f, "algorithm {number}"),
        })
    }
}

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum { stored, computed } if stored == computed => {
                write!(f, "checksum {stored:#010x} is right in the header, and the trailer has another one")
            }
            Self::Checksum { stored, computed } => {
                write!(f, "checksum {stored:#010x} is wrong, crc32 gives {computed:#010x}")
            }
            Self::TrailerLsn { header, trailer } => {
                write!(f, "low half of the LSN is {header:#010x} in the header and {trailer:#010x} in the trailer")
            }
            Self::CompressedSize { bytes } => write!(f, "a compressed page cannot have {bytes} bytes"),
            Self::Packed(Unpacked::UnknownCodec { codec }) => write!(f, "{codec} cannot be unpacked here"),
            Self::Packed(Unpacked::Length { length }) => {
                write!(f, "the compressed length {length} leads out of the page")
            }
            Self::Packed(Unpacked::Damaged) => f.write_str("the compressed content is damaged"),
            Self::Packed(Unpacked::OtherPage) => f.write_str("the compressed content is of another page"),
            Self::NotEncryptedHere => {
                f.write_str("the type is that of an encrypted page, and the tablespace is not encrypted")
            }
            Self::WrongPageNumber { found, expected } => {
                write!(f, "its header names page {found}, and this is the place of page {expected}")
            }
            Self::WrongTablespace { found, expected } => {
                write!(f, "its header names tablespace {found}, and this is a file of tablespace {expected}")
            }
        }
    }
}

impl PageFault {
    /// Stable name for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Checksum { .. } => "checksum",
            Self::TrailerLsn { .. } => "trailer_lsn",
            Self::CompressedSize { .. } => "compressed_size",
            Self::Packed(_) => "compressed_content",
            Self::NotEncryptedHere => "not_encrypted_here",
            Self::WrongPageNumber { .. } => "wrong_page_number",
            Self::WrongTablespace { .. } => "wrong_tablespace",
        }
    }
}
