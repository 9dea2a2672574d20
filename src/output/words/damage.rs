//! What is wrong with a page.

use std::fmt;

use crate::analysis::page_check::{ChecksumMismatch, PageCondition, PageDamage, PageFlaw};
use crate::analysis::verdict::rows::Misfit;
use crate::analysis::verdict::rows::layout::LayoutFault;
use crate::analysis::verdict::symptom::{ImpossibleLinks, Symptom};

/// Faults of one page that a sentence names; the others are counted.
const MAX_FAULTS_IN_WORDS: usize = 4;

impl PageDamage {
    /// Everything that is wrong, one sentence each, the checksum first.
    #[must_use]
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
            Self::Zeroed => f.pad("all zero"),
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
        write!(f, "checksum is {:#06x}, the bytes give {:#06x}", self.stored, self.computed)
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
                f.write_str("the file ends before this page, which replay or an image shows to have been there")
            }
            Self::FileMissing => f.write_str(
                "the relation has no file, so all of its pages are gone; replay or an image shows that there should be one",
            ),
            Self::FileMissingByCatalog => f.write_str(
                "the relation has no file, so all of its pages are gone; the catalog has it, and WAL does not say \
                 that it was dropped",
            ),
            Self::ZeroedContent => {
                f.write_str("the page is all zero, although replay or an image shows that it had content")
            }
            Self::LostContent { record_lsn } => write!(
                f,
                "nothing is left of the page, yet the record at {record_lsn} from before the redo point changed it, and nothing \
                 in WAL removed it since"
            ),
            Self::LostWrite => {
                f.write_str("a change from before the redo point is missing on disk: a write was lost")
            }
            Self::EqualsButChecksum { source } => write!(f, "it equals {source} in all but its checksum"),
            Self::ChecksumOfImage { source } => {
                write!(f, "it has the checksum of {source}, but only a part of that version was written")
            }
            Self::FlippedBits { source, bits } => {
                let count = if *bits == 1 { "one bit" } else { "two bits" };
                write!(f, "it differs from {source} in {count}")
            }
            Self::TwoVersions => f.write_str("its first and its last sectors are of two different versions of the page"),
            Self::LaterTransaction { page_lsn, xid, first_lsn } => write!(
                f,
                "its LSN is {page_lsn}, yet it shows transaction {xid}, whose first record for this page ends at \
                 {first_lsn}"
            ),
            Self::Contradiction { page_lsn, found } => {
                let (at, misfit) = (found.lsn, found.misfit);
                match misfit {
                    Misfit::Differs { .. } | Misfit::Unexplained { .. } => {
                        write!(f, "its LSN is {page_lsn}, yet {misfit}; the last record up to there is at {at}")
                    }
                    Misfit::Missing { .. } | Misfit::Taken { .. } => write!(
                        f,
                        "its LSN is {page_lsn}, and the record at {at} comes later, yet the page does not have what that \
                         record needs: {misfit}"
                    ),
                }
            }
            Self::Layout(fault) => write!(f, "{fault}; no server leaves a page in this state"),
            Self::ImpossibleLinks(ImpossibleLinks { first, count }) => write!(
                f,
                "it names {} whose files would have to be gone together with all files before them, and hardly anything names \
                 pages of those: {first}{}",
                if *count == 1 { "a page".to_owned() } else { format!("{count} pages") },
                if *count == 1 { "" } else { " and others" }
            ),
            Self::OtherRows { slot, images: 1 } => write!(
                f,
                "its rows are not those of slot {slot}, and the records between them do not explain the difference"
            ),
            Self::OtherRows { slot, images } => write!(
                f,
                "its rows are not those of {images} images, slot {slot} among them, and the records between them do not \
                 explain the difference"
            ),
            Self::SameLsnOtherContent { slot } => {
                write!(f, "it has the LSN of slot {slot} and differs from it in more than hint bits")
            }
            Self::DiffersFromReplay { page_lsn, first, bytes } => write!(
                f,
                "its LSN is {page_lsn}, yet {bytes} bytes, from offset {first} on, are not what replay up to there makes \
                 of the page"
            ),
            Self::LacksRecord { page_lsn, record_lsn } => write!(
                f,
                "its LSN is {page_lsn}, yet the record at {record_lsn} from before the redo point changes it: a write \
                 was lost"
            ),
            Self::LsnOfNoRecord { page_lsn } => write!(
                f,
                "its LSN is {page_lsn}, yet no record that ends there changes this page: what is here is another page, or the \
                 LSN is damaged"
            ),
            Self::RowsInHole { page_lsn, bytes, source } => write!(
                f,
                "by its LSN {page_lsn} this part of the page should be empty, yet it holds {bytes} bytes of rows \
                 that only {source} has"
            ),
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs { item } => write!(f, "item {item} is not as WAL left it"),
            Self::Unexplained { item } => write!(f, "item {item} names a transaction that no record brought there"),
            Self::Missing { item } => write!(f, "item {item} is not there"),
            Self::Taken { item } => write!(f, "item {item} is there already"),
        }
    }
}

impl fmt::Display for LayoutFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { used, space } => write!(f, "its items take {used} of the {space} bytes that they should fill"),
            Self::Overlap { item, other } => write!(f, "items {item} and {other} share bytes"),
            Self::Length { item, pointer, own } => {
                write!(f, "entry {item} is {own} bytes long by itself and {pointer} by its line pointer")
            }
            Self::Duplicate { item, other } => {
                write!(f, "entries {item} and {other} are the same and lead to the same row")
            }
            Self::Special { bytes } => {
                write!(f, "the last {bytes} bytes, which say of which sort the page is, are all zero")
            }
            Self::Marks { counted, found } => {
                write!(f, "the page counts {counted} marks of entries that are gone, and holds {found}")
            }
            Self::Chain { item, next } => {
                write!(f, "entry {item} leads on to item {next}, which is not an entry, or to which another leads, too")
            }
            Self::Rows { item } => {
                write!(f, "entry {item} leads to what cannot be a row, or holds a broken list of rows")
            }
            Self::Misplaced { count } => {
                write!(f, "{count} rows point to the location of another such row as their own")
            }
        }
    }
}
