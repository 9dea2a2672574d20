//! Why a page got its verdict.
//! Also here: its fate in recovery, proofs without checksums, references between pages of an index, and pages that a
//! repair leaves or writes.
//! Also here: damage of a page.

use std::fmt;

use crate::analysis::changes::rows::Misfit;
use crate::analysis::changes::rows::layout::LayoutFault;
use crate::analysis::pages::page_check::{ChecksumMismatch, PageCondition, PageDamage, PageFlaw};
use crate::analysis::pages::page_links::{BrokenLink, LinkFault, LinkRole, NamedBy};
use crate::analysis::verdict::fate::{Damage, FateUnknown, ReplayFate, UnknownReason};
use crate::analysis::verdict::judge::Reason;
use crate::analysis::verdict::rebuilt_proof::ProofReport;
use crate::analysis::verdict::symptom::{ImpossibleLinks, Symptom};
use crate::repair::journal_seen::JournalState;
use crate::repair::plan::LeftReason;
use crate::types::{ForkNumber, PageId};

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeededAndRemoved => f.write_str(
                "recovery removes the page later, so its content is not needed, but the server crashes if the page \
                    does not exist",
            ),
            Self::UnloggedRelation => f.write_str("the relation is unlogged: recovery empties it from its init fork"),
            Self::FileMadeAnew(event) => write!(f, "recovery recreates the file: {event}"),
            Self::RemovedInReplay(event) => write!(f, "recovery removes the page before anything reads it: {event}"),
            Self::OverwrittenInReplay { redo_lsn, record, has_image } => {
                let how = if *has_image { "overwrites it with a full-page image" } else { "initialises it" };
                write!(
                    f,
                    "the first record for this page after the redo point {redo_lsn} ({record}) {how} without reading \
                        it"
                )
            }
            Self::RelationHasNoFile => f.write_str("the relation has no file: restoring the page would create one"),
            Self::FileEndsBeforePage => {
                f.write_str("the file ends before the page does: restoring it would extend the file")
            }
            Self::MapTakenForEmpty { fork } => {
                let map = if *fork == ForkNumber::Fsm { "free space map" } else { "visibility map" };
                write!(
                    f,
                    "the server treats an unreadable {map} page as empty, and no data is lost; until the page is \
                     rewritten, base backups fail and pg_checksums reports it"
                )
            }
            Self::MapStopsReplay { may_be_blank } => {
                f.write_str("recovery clears bits of this visibility map page, and stops if it cannot read it; ")?;
                f.write_str(if *may_be_blank {
                    "a zero-filled page does not stop it, and no row is lost"
                } else {
                    "a zero-filled page does not help: the backup would not become consistent"
                })
            }
            Self::NoImageAnywhere => f.write_str("no image of this page in WAL or in the double write buffer"),
            Self::ImageUnusable { source, why } => {
                write!(f, "{source} cannot be used: ")?;
                for (index, statement) in why.iter().enumerate() {
                    write!(f, "{}{statement}", if index == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::OfImage(statement) => statement.fmt(f),
            Self::NotBuilt(failure) => failure.fmt(f),
            Self::CanBeRebuilt(plan) => plan.fmt(f),
            Self::CannotBeRebuilt(why) => why.fmt(f),
            Self::NothingWrong => f.write_str("nothing is wrong with the page"),
            Self::SoundByItself => f.write_str("the page is intact, but in the wrong place: see the findings"),
            Self::EqualsImage { source } => {
                write!(f, "nothing is wrong with the page: it equals {source}, whose CRC is valid")
            }
            Self::NotProvenWhole { is_unlogged } => {
                f.write_str(
                    "not proven intact: no fault was found on the page, but the cluster has no data checksums",
                )?;
                if *is_unlogged {
                    f.write_str("; the relation is unlogged, and recovery empties it")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for ReplayFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healed(reason) => reason.fmt(f),
            Self::RealDamage(damage) => damage.fmt(f),
            Self::Unknown(unknown) => unknown.fmt(f),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingReplays => f.write_str("startup replays no WAL"),
            Self::ReadInReplay(record) => {
                write!(f, "the first record of this page in recovery, {record}, reads it")
            }
            Self::NotInReplay { redo_lsn, end_lsn } => {
                write!(f, "no record from the redo point {redo_lsn} to the end of WAL at {end_lsn} replaces the page")
            }
        }
    }
}

impl fmt::Display for FateUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)?;
        match &self.segment {
            Some(segment) => write!(f, "; look for {segment}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Doubt(doubt) => doubt.fmt(f),
            Self::BackupEndMissing { end_lsn } => {
                write!(f, "WAL ends at {end_lsn}, before the end of the base backup")
            }
            Self::WalEndsWithFiles { end_lsn } => {
                write!(f, "WAL ends at {end_lsn} because no file follows: more may have been written")
            }
            Self::NoRoomForRecords => {
                f.write_str("there was no room for all records of the damaged pages: choose fewer pages")
            }
            Self::TooManyDamaged { limit } => {
                write!(f, "only {limit} damaged pages were compared with WAL: choose fewer pages")
            }
        }
    }
}

impl fmt::Display for ProofReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_needless, whole, wrong, undecided, without_base, not_built, server, records } = self;
        if *is_needless {
            return f.write_str(
                "nothing: checksums show every torn page. A lost write leaves an older page intact: WAL before the \
                 redo point shows it (see --wal)",
            );
        }
        write!(f, "{whole} pages intact, {wrong} not")?;
        if let Some(server) = server {
            write!(f, "; server {server} replayed {records} records")?;
        }
        let not_built: u64 = not_built.values().sum();
        for (count, what) in [
            (*without_base, "in WAL have no older state to begin with"),
            (not_built, "could not be built"),
            (*undecided, "were built, which proves nothing about them"),
        ] {
            if count > 0 {
                write!(f, "; {count} {what}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for LinkRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Left => "left sibling",
            Self::Right => "right sibling",
            Self::Child => "child",
            Self::Row => "page of a row",
            Self::Visible => "page with a bit in the map",
        })
    }
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PageId { rel, block, .. } = self.page;
        match self.role {
            LinkRole::Row => write!(f, "an entry in block {block} of its index {rel} points to a row in it"),
            LinkRole::Visible => write!(f, "its bit in block {block} of the visibility map is set"),
            role => write!(f, "block {block} links to it as its {role}"),
        }
    }
}

impl fmt::Display for LinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeroed => f.write_str("it is zero-filled"),
            Self::BeyondEnd => f.write_str("the file ends before it"),
            Self::Deleted => f.write_str("it is a deleted page"),
            Self::OtherKind => f.write_str("it is a page of another kind"),
            Self::NotAllVisible => f.write_str("it is not marked all-visible"),
            Self::OtherSibling { found: Some(found) } => write!(f, "it links to block {found} on that side"),
            Self::OtherSibling { found: None } => f.write_str("it links to no page on that side"),
            Self::OtherGroup { found, expected } => {
                write!(f, "its level, bucket or kind is {found:#X}, not {expected:#X}")
            }
        }
    }
}

impl fmt::Display for BrokenLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, but {}", self.by, self.fault)
    }
}

impl fmt::Display for JournalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.compared < self.pages {
            write!(f, "among the first {}: ", self.compared)?;
        }
        let (new, old, other, unread) = (self.new, self.old, self.other, self.unread);
        write!(
            f,
            "{new} as the repair wrote them, {old} as they were before it, {other} changed since by something else, \
                {unread} not readable"
        )
    }
}

impl fmt::Display for LeftReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verdict(reason) => reason.fmt(f),
            Self::NotSelected => f.write_str("not selected"),
            Self::NeedsBlankMaps => f.write_str("--blank-maps zeroes it"),
            Self::NeedsAllowUnproven => f.write_str("--allow-unproven restores the image anyway"),
            Self::NeedsLoseChanges => f.write_str("--lose-changes with the page's name restores the image"),
            Self::NoPageToOverwrite => f.write_str("the file ends before the page does: no page to overwrite"),
            Self::NoImageOfSource => f.write_str("no image of the chosen source may be used"),
        }
    }
}

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
