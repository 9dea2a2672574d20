//! Damage of a page.

use std::fmt;

use crate::analysis::changes::rows::Misfit;
use crate::analysis::changes::rows::layout::LayoutFault;
use crate::analysis::pages::page_check::{ChecksumMismatch, PageCondition, PageDamage, PageFlaw};
use crate::analysis::verdict::symptom::{ImpossibleLinks, Symptom};

/// Faults of one page that a sentence names; the others are counted.
const MAX_FAULTS_IN_WORDS: usize = 4;

impl PageDamage {
    /// Everything that is wrong, one sentence each, the checksum first.
    pub fn sentences(&self) -> Vec<String> {
        self.flaws().map(|flaw| flaw.to_string()).collect()
    }

    /// Everything that is wrong apart from the checksum, one sentence each.
    pub(crate) fn structure(&self) -> Vec<String> {
        self.structure_flaws().map(|flaw| flaw.to_string()).collect()
    }
}

impl fmt::Display for PageCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sound => f.pad("sound"),
            Self::Zeroed => f.pad("zero-filled"),
            Self::Damaged(damage) => write!(f, "damaged: {damage}"),
        }
    }
}

impl fmt::Display for PageDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sentences = self.sentences();
        let all = sentences.len();
        if all == 0 {
            return f.write_str("too short for a page header");
        }
        if all > MAX_FAULTS_IN_WORDS {
            sentences.truncate(MAX_FAULTS_IN_WORDS);
            sentences.push(format!("and {} more", all - MAX_FAULTS_IN_WORDS));
        }
        f.write_str(&sentences.join("; "))
    }
}

impl fmt::Display for ChecksumMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stored checksum {:#06x}, computed {:#06x}", self.stored, self.computed)
    }
}

impl fmt::Display for PageFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum(mismatch) => mismatch.fmt(f),
            Self::PageRule(fault) => fault.fmt(f),
            Self::TupleRule { item, fault } => write!(f, "item {item}: {fault}"),
        }
    }
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flaw(flaw) => flaw.fmt(f),
            Self::BrokenLink(link) => link.fmt(f),
            Self::NamingPageMayBeDamaged { block } => {
                write!(f, "without checksums it may be block {block} that is damaged")
            }
            Self::FileEndsInside { have_bytes } => write!(f, "the file ends {have_bytes} bytes into the page"),
            Self::FileEndsBefore => {
                f.write_str("the file ends before this page, but recovery or an image shows that the page existed")
            }
            Self::FileMissing => f.write_str(
                "the relation has no file, so all of its pages are missing; recovery or an image shows that it should \
                    have one",
            ),
            Self::FileMissingByCatalog => f.write_str(
                "the relation has no file, so all of its pages are missing; the catalog has it, and WAL has no record \
                 that dropped it",
            ),
            Self::ZeroedContent => f.write_str("the page is zeroed: recovery or an image shows that it had content"),
            Self::LostContent { record_lsn } => write!(
                f,
                "the page has no content, but the record at {record_lsn} before the redo point changed it, and no \
                 later record removed it"
            ),
            Self::LostWrite => f.write_str("lost write: a change before the redo point is missing on disk"),
            Self::EqualsButChecksum { source } => write!(f, "it equals {source} except for its checksum"),
            Self::ChecksumOfImage { source } => {
                write!(f, "its checksum matches {source}: the write of that version was torn")
            }
            Self::FlippedBits { source, bits } => {
                let count = if *bits == 1 { "one bit" } else { "two bits" };
                write!(f, "it differs from {source} in {count}")
            }
            Self::TwoVersions => f.write_str("its first and last sectors are from different versions of the page"),
            Self::LaterTransaction { page_lsn, xid, first_lsn } => write!(
                f,
                "its LSN is {page_lsn}, but it has transaction {xid}, whose first record for this page ends at \
                 {first_lsn}"
            ),
            Self::Contradiction { page_lsn, found } => {
                let (at, misfit) = (found.lsn, found.misfit);
                match misfit {
                    Misfit::Differs { .. } | Misfit::Unexplained { .. } => {
                        write!(f, "its LSN is {page_lsn}, but {misfit}; the last record before that LSN is at {at}")
                    }
                    Misfit::Missing { .. } | Misfit::Taken { .. } => write!(
                        f,
                        "its LSN is {page_lsn}, but the page lacks what the later record at {at} needs: {misfit}"
                    ),
                }
            }
            Self::Layout(fault) => write!(f, "{fault}; no server leaves a page in this state"),
            Self::ImpossibleLinks(ImpossibleLinks { first, count }) => write!(
                f,
                "it refers to {} in files that do not exist, and almost nothing refers to pages of those or earlier \
                 files: {first}{}",
                if *count == 1 { "a page".to_owned() } else { format!("{count} pages") },
                if *count == 1 { "" } else { " and others" }
            ),
            Self::OtherRows { slot, images: 1 } => {
                write!(f, "its rows differ from slot {slot}, and no records between them explain the difference")
            }
            Self::OtherRows { slot, images } => write!(
                f,
                "its rows differ from {images} images (slot {slot} is one), and no records between them explain the \
                 difference"
            ),
            Self::SameLsnOtherContent { slot } => {
                write!(f, "it has the LSN of slot {slot} and differs from it in more than hint bits")
            }
            Self::DiffersFromReplay { page_lsn, first, bytes } => write!(
                f,
                "its LSN is {page_lsn}, but {bytes} bytes, the first at offset {first}, differ from the page that \
                 recovery produces at that LSN"
            ),
            Self::LacksRecord { page_lsn, record_lsn } => write!(
                f,
                "lost write: its LSN is {page_lsn}, but the record at {record_lsn} before the redo point changes it"
            ),
            Self::LsnOfNoRecord { page_lsn } => write!(
                f,
                "its LSN is {page_lsn}, but no record that ends there changes this page: another page is here, or the \
                 LSN is damaged"
            ),
            Self::RowsInHole { page_lsn, bytes, source } => write!(
                f,
                "at LSN {page_lsn} this part of the page should be empty, but it has {bytes} bytes of rows that only \
                 {source} has"
            ),
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs { item } => write!(f, "item {item} is not as WAL left it"),
            Self::Unexplained { item } => write!(f, "item {item} has a transaction that no record added"),
            Self::Missing { item } => write!(f, "item {item} is missing"),
            Self::Taken { item } => write!(f, "item {item} exists already"),
        }
    }
}

impl fmt::Display for LayoutFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { used, space } => write!(f, "its items take {used} of the {space} bytes that they should fill"),
            Self::Overlap { item, other } => write!(f, "items {item} and {other} share bytes"),
            Self::Length { item, pointer, own } => {
                write!(f, "entry {item} has length {own}, but its line pointer says {pointer}")
            }
            Self::Duplicate { item, other } => {
                write!(f, "entries {item} and {other} are equal and point to the same row")
            }
            Self::Special { bytes } => {
                write!(f, "the last {bytes} bytes, which contain the kind of the page, are zero")
            }
            Self::Marks { counted, found } => {
                write!(f, "the page counts {counted} marks of removed entries, but has {found}")
            }
            Self::Chain { item, next } => {
                write!(
                    f,
                    "entry {item} points to item {next}, which is not an entry, or has another entry pointing \
                    to it"
                )
            }
            Self::Rows { item } => {
                write!(f, "entry {item} points to something that is not a row, or has a damaged list of rows")
            }
            Self::Misplaced { count } => {
                write!(f, "{count} rows point to the location of another such row as their own")
            }
        }
    }
}
