//! Words for what is found in a data directory of MySQL or MariaDB.

use std::fmt;

use crate::analysis::innodb::finding::InnodbFinding;
use crate::analysis::innodb::judge::HeldImage;
use crate::cluster::innodb::redo_log::Family;
use crate::parsers::innodb::compressed::Unpacked;
use crate::parsers::innodb::page_check::PageFault;

impl fmt::Display for InnodbFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().0)
    }
}

impl InnodbFinding {
    pub fn why(&self) -> &'static str {
        self.words().1
    }

    /// What was found, and why it matters.
    fn words(&self) -> (String, &'static str) {
        let fixed = |what: &str, why| (what.to_owned(), why);
        match self {
            Self::DamagedPages { count, with_image } => (
                format!("damaged pages: {count}; the doublewrite buffer holds a whole image of {with_image}"),
                "which version of a page is the right one depends on the redo log, which is not replayed here",
            ),
            Self::OlderImages(count) => (
                format!(
                    "whole pages newer than the end of the redo log, with an older image in the doublewrite buffer: {count}"
                ),
                "MariaDB 10.11.10 and later write the older image over such a page at startup: start the server only on a copy",
            ),
            Self::BadPages { count, pages } => {
                (format!("damaged pages: {count} of {pages}"), "innodb check compares them with the doublewrite buffer")
            }
            Self::ZeroPages { count, wrong: 0 } => (
                format!("pages of zeros that have an image: {count}"),
                "a crash leaves pages that were allocated and not yet written; MariaDB makes zeros of freed pages of \
                 compressed tables",
            ),
            Self::ZeroPages { count, wrong } => (
                format!(
                    "pages of zeros that have an image: {count}; {wrong} of them were written after the checkpoint"
                ),
                "the pages had content: compare them with a backup",
            ),
            Self::DamagedSlots(count) => (
                format!("slots with a damaged image: {count}"),
                "a crash in the middle of a write of the buffer leaves one; the page itself was not being written then",
            ),
            Self::DamagedEntries => fixed(
                "a block of entries has a wrong checksum",
                "the list shows which pages were being written: part of it is lost",
            ),
            Self::PartialPage(have_bytes) => (
                format!("the file ends inside a page, {have_bytes} bytes after its start"),
                "the file was cut off, or its extension was interrupted",
            ),
            Self::TwoFiles { space_id, other } => (
                format!("tablespace {space_id} is claimed by {} too", super::super::escape::printable(other)),
                "one of them was copied in from elsewhere; slots are compared with the first alone",
            ),
            Self::EmptyFile => {
                fixed("the file has no page with content", "its table was being made, or the file was emptied")
            }
            Self::PageZero => fixed(
                "page 0 is damaged; the tablespace is known from other pages",
                "the server finds the tablespace by page 0",
            ),
            Self::NoCheckpoint => fixed(
                "the checkpoint of the redo log is unknown",
                "which images are older than the checkpoint is unknown",
            ),
            Self::DamagedCheckpoint => fixed(
                "a checkpoint block has a wrong checksum",
                "the other block was used; a crash in the middle of a checkpoint leaves one",
            ),
            Self::RedoHeader => fixed(
                "the header of this file of the redo log is damaged, or not all there",
                "the server tests it before it replays anything",
            ),
            Self::NotShutDown { checkpoint_lsn, end_lsn } => (
                format!(
                    "the server was not shut down cleanly: checkpoint at LSN {checkpoint_lsn}, end of the redo log at {end_lsn}"
                ),
                "recovery replays the redo log at startup, which is not done here; a server that runs shows the same",
            ),
            Self::RedoMissing => fixed(
                "the redo log continues in a file that is missing or too short",
                "changes after that are lost unless the file is found",
            ),
            Self::RedoBehind { end_lsn, newest_lsn } => (
                format!("the redo log ends at LSN {end_lsn}, and a page was written at LSN {newest_lsn}"),
                "servers write a page after the log of its changes: the end of the log is lost, or the pages are from a later time",
            ),
            Self::NoDoublewrite { expects_files: true } => fixed(
                "the doublewrite buffer was not found",
                "the server keeps images in files, which innodb_doublewrite_dir or innodb_data_home_dir may name elsewhere: \
                 give --doublewrite-dir or --my-cnf",
            ),
            Self::NoDoublewrite { expects_files: false } => {
                fixed("no doublewrite buffer is there", "no page can be compared with an image")
            }
            Self::BufferNotInUse => fixed(
                "pages were written after the checkpoint, and nothing in the doublewrite buffer is as new",
                "images may lie elsewhere, or the server ran with innodb_doublewrite=OFF: what is missing here proves nothing. \
                 Give --doublewrite-dir or --my-cnf",
            ),
            Self::DoublewriteOff => fixed(
                "the option file turns the doublewrite buffer off",
                "pages may have been written without an image",
            ),
            Self::BufferIncomplete => fixed(
                "files or slots of the doublewrite buffer are missing",
                "images may be in what is missing: what is not found proves nothing",
            ),
            Self::CheckpointUncertain => fixed(
                "a checkpoint block is damaged or missing that a newer checkpoint may have been in",
                "an image that counts as current may be older than the checkpoint",
            ),
            Self::UnknownRules => {
                fixed("the rules of MariaDB before 10.5 are not known here", "which image the server takes is unknown")
            }
            Self::HeaderCopyUsed => fixed(
                "the first copy of the doublewrite header is damaged; the second was used",
                "page 5 of the system tablespace is damaged",
            ),
            Self::OtherPageSize(page_bytes) => (
                format!("the file is of another page size than the instance ({page_bytes} bytes)"),
                "the server does not read it",
            ),
            Self::TrailingBytes(bytes) => {
                (format!("{bytes} bytes after the last slot"), "the file was cut off, or is of another server")
            }
            Self::ServerRunning(pid) => (
                format!("process {pid} holds a lock on the system tablespace, as a running server does"),
                "files change while they are read, and nothing here is certain: stop the server, or read a copy",
            ),
            Self::UnknownServer => {
                fixed("which server wrote the directory is unknown", "which image the server takes is unknown")
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

impl fmt::Display for HeldImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown: the buffer was not read completely, or an image does not show its tablespace",
            Self::Missing => "no image",
            Self::Unreadable => "only images that fail their checks or cannot be tested here",
            Self::Encrypted => "an encrypted image, which is not judged here",
            Self::Older => "a whole image, older than the page",
            Self::Same => "a whole image with the LSN of the page",
            Self::Newer => "a whole image, newer than the page",
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
