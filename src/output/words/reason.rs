//! Why a page got its verdict.

use std::fmt;

use crate::analysis::verdict::judge::Reason;
use crate::types::ForkNumber;

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeededAndRemoved => f.write_str(
                "replay removes the page later, so its content is not needed, but the server crashes if \
                    there is no page at all",
            ),
            Self::UnloggedRelation => f.write_str("the relation is unlogged: recovery empties it from its init fork"),
            Self::FileMadeAnew(event) => write!(f, "replay creates the file anew: {event}"),
            Self::RemovedInReplay(event) => write!(f, "replay removes the page before anything needs it: {event}"),
            Self::OverwrittenInReplay { redo_lsn, record, has_image } => {
                let how = if *has_image { "restores a full-page image" } else { "initializes the page" };
                write!(
                    f,
                    "the first record of this page from the redo point {redo_lsn} on, {record}, {how} without reading it"
                )
            }
            Self::RelationHasNoFile => f.write_str("the relation has no file: putting the page back would create one"),
            Self::FileEndsBeforePage => {
                f.write_str("the file ends before the page does: putting it back would make the file longer")
            }
            Self::MapTakenForEmpty { fork } => {
                let map = if *fork == ForkNumber::Fsm { "free space map" } else { "visibility map" };
                write!(
                    f,
                    "a server treats an unreadable page of a {map} as empty, which loses nothing; until the page is \
                     rewritten, base backups and pg_checksums report it"
                )
            }
            Self::MapStopsReplay { may_be_blank } => {
                f.write_str("replay clears bits of this visibility map page, and stops where it cannot read it; ")?;
                f.write_str(if *may_be_blank {
                    "a page of zeros does not stop it, and costs no row"
                } else {
                    "nor does a page of zeros help: the backup would not become consistent"
                })
            }
            Self::NoImageAnywhere => f.write_str("neither the double write buffer nor WAL holds an image of this page"),
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
            Self::SoundByItself => {
                f.write_str("nothing is wrong with the page by itself, but with its place: see the findings")
            }
            Self::EqualsImage { source } => {
                write!(f, "nothing is wrong with the page: it equals {source}, whose CRC is right")
            }
            Self::NotProvenWhole { is_unlogged } => {
                f.write_str(
                    "not proven whole: nothing wrong was found with the page, but the cluster has no data checksums",
                )?;
                if *is_unlogged {
                    f.write_str("; the relation is unlogged, and recovery empties it")?;
                }
                Ok(())
            }
        }
    }
}
