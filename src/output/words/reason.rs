//! Why a page got its verdict.
//! Also here: its fate in recovery, proofs without checksums, references between pages of an index, and pages that a
//! repair leaves or writes.

use std::fmt;

use crate::analysis::pages::page_links::{BrokenLink, LinkFault, LinkRole, NamedBy};
use crate::analysis::verdict::fate::{Damage, FateUnknown, ReplayFate, UnknownReason};
use crate::analysis::verdict::judge::Reason;
use crate::analysis::verdict::rebuilt_proof::ProofReport;
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
