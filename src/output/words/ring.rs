//! Words for what is found in a buffer with a control file.

use std::fmt;

use crate::analysis::dwb_format::ring_finding::{RingFinding, StartAction};
use crate::analysis::verdict::doubt::Doubt;
use crate::types::PageId;

impl fmt::Display for RingFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RingServerNotSeen { control_version } => {
                write!(f, "version {control_version}: {}", Doubt::LayoutNotSeen)
            }
            Self::RingControlFault(fault) => fault.fmt(f),
            Self::RingControlMissing => f.write_str("the control file is missing"),
            Self::RingControlShort { found } => write!(f, "the control file has {found} bytes, expected 40"),
            Self::RingGenerationGuessed { generation: Some(generation) } => {
                write!(f, "generation {generation} is a guess: the highest among the slots")
            }
            Self::RingGenerationGuessed { generation: None } => {
                f.write_str("the generation is unknown: neither the control file nor a slot gives one")
            }
            Self::RingLaterGeneration { slots, generation } => {
                write!(f, "{slots} slots are of a later generation than the {generation} of the control file")
            }
            Self::RingMissingBatch { number } => write!(f, "batch file {number} is missing"),
            Self::RingFurtherBatch { batches } => {
                write!(f, "not part of the ring: the control file announces {batches} batches")
            }
            Self::RingOtherSize { found, expected } => write!(f, "the file has {found} bytes, expected {expected}"),
            Self::RingSlotsBeyondCount { slots, counted } => {
                write!(f, "{slots} slots after the {counted} that the header counts")
            }
            Self::RingStart { double_writes, otherwise } => {
                write!(f, "a start in mode double_writes {double_writes}; in another mode it {otherwise}")
            }
            Self::RingOfStrangers { pages, page, lsn } => write!(
                f,
                "a start in mode double_writes overwrites {pages} whole pages with images of another cluster or time, the first: {} {} block {} \
                 by an image with LSN {lsn}, where no record ends",
                page.rel, page.fork, page.block
            ),
            Self::RingStartWrites { pages, count, left, candidates } => {
                write!(
                    f,
                    "a start in mode double_writes overwrites {count} pages from {candidates} slots that count and \
                     leaves {left} as they are"
                )?;
                name_pages(f, pages, *count)
            }
        }
    }
}

fn name_pages(f: &mut fmt::Formatter<'_>, pages: &[PageId], count: u64) -> fmt::Result {
    for (index, page) in pages.iter().enumerate() {
        let separator = if index == 0 { ": " } else { ", " };
        write!(f, "{separator}{} {} block {}", page.rel, page.fork, page.block)?;
    }
    match count.saturating_sub(pages.len() as u64) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}

impl RingFinding {
    /// Why it matters, in one line.
    #[must_use]
    pub const fn why(&self) -> &'static str {
        match self {
            Self::RingServerNotSeen { .. } => {
                "servers of this kind were never compared with what is said here, and their WAL is not read: no \
                 image counts as proven"
            }
            Self::RingControlFault(_) | Self::RingControlMissing | Self::RingControlShort { .. } => {
                "it says which server run the slots must be of: without it a server does not apply any"
            }
            Self::RingGenerationGuessed { .. } => "which slots a server would apply is unknown",
            Self::RingLaterGeneration { .. } => {
                "the control file and the batches do not belong together: no image is safe to use"
            }
            Self::RingMissingBatch { .. } => "its slots were not examined, and a start that applies slots fails there",
            Self::RingFurtherBatch { .. } => "left over from a larger setting; a server does not read it",
            Self::RingOtherSize { .. } => {
                "the write of its batch was broken off, or it was made under another setting. A crash leaves up to four such files, and no \
                 page needs them"
            }
            Self::RingSlotsBeyondCount { .. } => {
                "a write of the batch was cut off; a server does not read them, and their images may be from a later \
                 use of the batch"
            }
            Self::RingStart { .. } => {
                "a start changes the buffer: copy it first. With a backup_label in the data directory, even a broken one, a start empties the \
                 buffer before it looks at anything else: add none"
            }
            Self::RingOfStrangers { .. } => {
                "do not start: bring back the pg_dwb that belongs to these files, or take this one out of a copy"
            }
            Self::RingStartWrites { .. } => "such a start writes them before it replays WAL, proven or not",
        }
    }
}

impl fmt::Display for StartAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discards => f.write_str("empties the buffer without applying anything: this is a backup"),
            Self::RefusesWithoutChecksums => f.write_str("is refused: the mode needs data checksums"),
            Self::RefusesControl => f.write_str("is refused: the control file is damaged or of a later server version"),
            Self::RefusesPending => f.write_str("is refused: the slots may still be needed"),
            Self::FailsAtMissing { number } => write!(f, "fails: batch file {number} is missing"),
            Self::FailsAtShort { number } => write!(f, "fails: batch file {number} is too short"),
            Self::MakesAnew => f.write_str("creates the buffer anew and applies nothing: there is no control file"),
            Self::AppliesNothing => f.write_str("applies nothing: the last run stopped cleanly"),
            Self::Applies => f.write_str("applies the slots that count before it replays WAL"),
            Self::Ignores => f.write_str("leaves the buffer alone"),
            Self::Unknown => f.write_str("has an unknown result: something could not be read"),
        }
    }
}
