//! Why a page got its verdict.

use std::fmt;

use crate::analysis::verdict::judge::Reason;
use crate::types::ForkNumber;

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
