//! Why a finding matters.

use crate::analysis::finding_kind::{DamagedPages, FindingKind, PidHolder, Resync, Unrecognized, WalDamage};
use crate::analysis::page_links::LinkFault;
use crate::analysis::verdict::outlook::Obstacle;
use crate::cluster::config_files::ConfigFault;
use crate::cluster::state_files::StateFile;

impl FindingKind {
    /// Why it matters, in one line.
    #[must_use]
    pub fn why(&self) -> &'static str {
        match self {
            Self::StalePidFile { holder: PidHolder::Nobody, .. } => {
                "left by the crash; the server removes it when it starts"
            }
            Self::StalePidFile { .. } => {
                "left by the crash; a process of another user does not keep the server from starting"
            }
            Self::PidInUse { .. } => {
                "no server runs here, but a start fails with \"lock file \"postmaster.pid\" already exists\" as long \
                 as a process of this user has this number: examine it (ps -fp), make sure that no server uses this \
                 directory, then remove postmaster.pid"
            }
            Self::ServerUnclear { is_hidden: false, .. } => {
                "a running server cannot be ruled out: examine the process (ps -fp), or stop it"
            }
            Self::ServerUnclear { is_hidden: true, .. } => "a running server cannot be ruled out",
            Self::ServerRunning { .. } => "files change while they are read: nothing here is certain",
            Self::PidFileUnclear { .. } => {
                "a running server cannot be ruled out; once you know that none runs, remove the file: no server \
                 starts while it is there"
            }
            Self::Belonging(cause) => cause.why(),
            Self::RowXid { .. } => {
                "the server takes the row for one that is not there yet, or VACUUM fails over it: the row is damaged"
            }
            Self::RowMultixact { .. } => {
                "VACUUM and updates of the row fail (\"has not been created yet\"): the row is damaged"
            }
            Self::CheckpointMissing { .. } => {
                "WAL is missing, or pg_wal and pg_control are of different times or clusters: `check` says more"
            }
            Self::RowFault { rows, .. } => rows.fault.why(),
            Self::ControlSizes(_) => "nothing in this file can be trusted; it is not used to judge pages, slots or WAL",
            Self::ControlCrc { .. } => "nothing in this file can be trusted; it is not used to judge slots",
            Self::VersionsDisagree { .. } => "PG_VERSION and pg_control do not belong together",
            Self::MinimumElsewhere { .. } => {
                "no server starts with it (\"does not contain minimum recovery point\"): the file, or a history in pg_wal, is of another moment"
            }
            Self::ServerDirectory { needed_for: Obstacle::Start, .. } => {
                "the server does not start without this directory"
            }
            Self::ServerDirectory { .. } => "the server starts, but no checkpoint ends without this directory",
            Self::NotADirectory(_) => {
                "a start that replays WAL lists whatever has the name of a database or lies in pg_tblspc, and fails: move it away"
            }
            Self::HistoryFile(_) => {
                "every start reads it, and fails: bring it back from the archive, a standby or a backup"
            }
            Self::FilenodeMap(_) => {
                "the server starts, but fails to open its catalogs: no connection works, in global to any database"
            }
            Self::XactFile(_) => {
                "what these transactions committed is lost with it: the server takes them for undone, or does not start"
            }
            Self::MultixactFile(_) => {
                "rows that several transactions locked or changed cannot be read, or are read wrongly; without the files of offsets no \
                 server starts"
            }
            Self::NotAFile(_) => {
                "a server fails where it comes to write a file of this name, at its start or in a checkpoint: move away what stands there"
            }
            Self::StateFile { of: StateFile::Prepared, .. } => {
                "a prepared transaction, which is lost with all that it changed when the file goes: servers of 10 and 11 remove it at the \
                 start, later ones refuse to start"
            }
            Self::StateFile { of: StateFile::PreparedUnknown, .. } => {
                "a start asks pg_xact how the transaction ended, and fails: bring back the file of pg_xact, or move this one away if it is a left-over from \
                 long ago"
            }
            Self::CommitTimesLost { .. } => {
                "the file, or a page of it, is older than the rest: times of commits are gone"
            }
            Self::MultixactsLost { .. } => {
                "the file, or a page of it, is older than the rest: rows that several transactions locked or changed are read wrongly"
            }
            Self::CommitsLost { .. } => {
                "the file, or a page of it, is older than the rest: a start takes their changes for undone, without a word"
            }
            Self::PreparedMissing { .. } => {
                "a start loses the transaction without a word: whoever prepared it can neither commit nor roll it back"
            }
            Self::StateFile { of: StateFile::Slot, .. } => {
                "no server starts with it: a replication slot; without its directory the server starts and the slot is gone, so that a standby \
                 or a subscriber may have to be made anew"
            }
            Self::StateFile { of: StateFile::Origins, .. } => {
                "no server starts with it: how far changes from elsewhere came; without it a subscriber applies changes again"
            }
            Self::Configuration(ConfigFault::RecoveryTarget { .. }) => {
                "what WAL has after that is not replayed, and a server may refuse to start where WAL ends before it"
            }
            Self::Configuration(_) => "a start changes nothing, and the server says so: put it right first",
            Self::OddModes { .. } => "a server may not be able to open it: it runs as the owner of the data directory",
            Self::NoRoom { .. } => {
                "make room outside of the data directory first, and remove nothing from pg_wal. A full volume can be why WAL ends with its last \
                 segment: nothing is missing then"
            }
            Self::UnusualBuild { .. } => {
                "no server starts that was built otherwise, and nothing else here shows that this one was built so"
            }
            Self::DatabaseVersion(_) => "the server starts, but no connection to this database works",
            Self::DatabaseMissing { .. } => {
                "the server starts without it, and no connection to this database works: all that is in it is lost, \
                 unless the directory is brought back"
            }
            Self::TablespaceMissing { relations: 0, .. } => {
                "nothing can be put into it; the catalogs know of nothing there that must be there, unless WAL made it"
            }
            Self::TablespaceMissing { .. } => {
                "a start does not notice; all relations in it fail when they are read: mount what is missing, or set the link anew"
            }
            Self::DatabaseCopied { is_missing: true, .. } => {
                "the server starts, and the database is empty, without a word: bring the other directory back before the start, or the whole \
                 cluster from a copy of one moment"
            }
            Self::DatabaseCopied { .. } => {
                "what the other one came to since, and damage in it, is in this one then; that pages of it heal in replay does not help the copy, which is made \
                 before. Make a standby anew rather than start it over this"
            }
            Self::PageOfOtherKind { .. } => {
                "a write went to the wrong file, or the file was copied over another one. Queries that read the page fail or return wrong rows. Rebuild an \
                 index with REINDEX; restore a table or a sequence from a backup"
            }
            Self::RelationShort { .. } => {
                "its files were cut off or replaced: queries find no row of the pages that are gone, without a word. Bring the files of this relation back from a \
                 copy of the same moment, or its rows from a backup"
            }
            Self::NotCompared => {
                "whether they are of the kind of their relation, agree with each other, and have all files beside them, is seen once the backup is unpacked: use check \
                 there"
            }
            Self::FirstPageZeroed { .. } => {
                "every use of the relation fails, and over a catalog index every connection. Rebuild an index with REINDEX (of a catalog: in single-user \
                 mode with ignore_system_indexes); the value of a sequence is lost: use setval"
            }
            Self::RelationFileEmpty { .. } => {
                "every index that a server reads and every sequence has a page: whoever uses it fails. REINDEX makes an index anew; of a sequence the value is \
                 lost"
            }
            Self::TablespaceOfWal { .. } => {
                "replay ends there, and no server starts: make the directory, empty, for the user that the server runs as"
            }
            Self::TablespaceNoLink => {
                "a copy that followed the links: recovery from a backup or of a standby ends over it. Move it elsewhere and set a link to it, or set \
                 allow_in_place_tablespaces"
            }
            Self::RelationFileMissing { .. } | Self::MoreRelationFiles { .. } => {
                "what it held is lost, unless the file is brought back: a start does not notice, only whoever reads it"
            }
            Self::InitForkMissing { is_empty: true, .. } => {
                "after a crash servers make an index without a page of it, and whoever uses its table fails: REINDEX makes both anew"
            }
            Self::InitForkMissing { is_empty: false, .. } => {
                "after a crash servers keep what is in its files, torn pages too, instead of emptying it: TRUNCATE or drop the table"
            }
            Self::InitForkOfPermanent { .. } => {
                "recovery takes it for unlogged, and empties it: move the init fork out of the data directory before the start"
            }
            Self::UnknownState(_) => "no server starts with this state",
            Self::UnknownChecksums { .. } => "no server writes this value",
            Self::RestoredBackup { .. } => "a restored backup that has not reached the end of the backup yet",
            Self::WalWasReset => {
                "what it says of the last checkpoint is not what the server left; slots are not judged by it"
            }
            Self::BackupLabel { .. } => {
                "a base backup, or a server that crashed during one: recovery needs this file; a double write buffer \
                 beside it belongs to the server that it was copied from"
            }
            Self::RecoverySignal => "the server will start as a standby or in archive recovery",
            Self::IncrementalBackup => {
                "pg_combinebackup makes a data directory of it and the backups that it builds on"
            }
            Self::BackupWalIncomplete { end_is_required: true } => {
                "recovery fails with \"WAL ends before end of online backup\": give it an archive (recovery.signal and \
                 restore_command), or put the missing segments into pg_wal"
            }
            Self::BackupWalIncomplete { end_is_required: false } => {
                "expected of the server itself, when it crashed during pg_start_backup(); a copy of it would start \
                 without an error although its files and WAL do not fit together"
            }
            Self::ReplayCannotBegin(_) => {
                "without WAL from its start to its end the backup is of no use: give it with --wal, or an archive when the \
                 server is started"
            }
            Self::Unrecognized(Unrecognized::Entry(_)) => "the server makes no such file there; it was not read",
            Self::Unrecognized(Unrecognized::Further(_)) => "the server makes no such files there; they were not read",
            Self::AllZero => "its header is gone; no slot was ever written",
            Self::HeaderFault(_) => {
                "the server ignores a file with such a header; slots are read in the layout that they fit"
            }
            Self::LayoutGuessed { .. } => "what is shown of this file may be meaningless",
            Self::HeaderBlockSize { .. } => "the slots were written under another header",
            Self::BlockSize { .. } => "the file is not of this cluster in its present state",
            Self::NeverRead { .. } => "a start does not put these images back, only a repair does",
            Self::CutShort { .. } => "images that the server wrote are lost",
            Self::TrailingBytes { .. } => "the file was cut off, or it is of another layout",
            Self::LongerThanHeader => "the server reads only as many as the header says",
            Self::BadSlots { .. } => "their images cannot be used; earlier images in these slots are lost too",
            Self::ImplausibleImages { .. } => "they may have been copied in the middle of a change",
            Self::ImplausibleHeaders { .. } => "no server writes such headers: which page each holds is unknown",
            Self::LsnMismatch { .. } => "the page changed while it was copied; such an image is doubtful",
            Self::HeaderOlderThanControl { .. } => {
                "the reset after the last checkpoint was interrupted, or the buffer has been off since: slots may be \
                 from before the redo point"
            }
            Self::HeaderNewerThanControl { .. } => {
                "the buffer and this data directory do not belong together: no image is safe to use"
            }
            Self::MissingFile { .. } => "its slots were not examined; batches are judged with caution",
            Self::NeverReset { has_control: true } => {
                "its header does not separate old slots from new ones; the checkpoint of pg_control is used instead"
            }
            Self::NeverReset { has_control: false } => {
                "its header does not separate old slots from new ones, and the checkpoint of pg_control is unknown"
            }
            Self::HeaderOutdated { .. } => {
                "the file is left over from a larger setting, or the last reset did not reach it"
            }
            Self::MixedLayouts { .. } => {
                "the files were not written by the same server; batches are judged with caution"
            }
            Self::SlotId { .. } => "no server writes such numbers into the first file",
            Self::OtherGeometry { .. } => {
                "left over from another setting, though the server's recovery still reads them"
            }
            Self::OtherSize { .. } => {
                "the size was changed, or the setting was not in force: leftover slots look valid"
            }
            Self::Wrapped => {
                "earlier images of this batch were very likely overwritten before their pages were safely on disk"
            }
            Self::NoDwb => "only servers with the double write buffer patch keep one",
            Self::Include { .. } => "the settings shown may not be those in force",
            Self::DamagedPages(DamagedPages::Judged { .. }) => "see the verdict on each",
            Self::DamagedPages(DamagedPages::Harmless { .. }) => "replay or the server itself repairs them",
            Self::DamagedPages(DamagedPages::Scanned { is_clean: true, .. }) => {
                "nothing repairs them: no replay will happen"
            }
            Self::DamagedPages(DamagedPages::Scanned { is_clean: false, .. }) => {
                "recovery may repair those that changed since the last checkpoint, not the others"
            }
            Self::DamagedPages(DamagedPages::Replayed { real_damage: 0, unknown: 0, .. }) => {
                "replay replaces or removes each of them before anything reads it, or the server does not need it"
            }
            Self::DamagedPages(DamagedPages::Replayed { unknown: 0, .. }) => {
                "replay does not heal all of them: see each page"
            }
            Self::DamagedPages(DamagedPages::Replayed { .. }) => {
                "WAL does not say of all of them whether replay heals them: see each page"
            }
            Self::Unlogged { .. } => "recovery after a crash empties these relations",
            Self::NotRebuilt { .. } => "their verdicts are as without --rebuild",
            Self::NotACrashTear { .. } => {
                "full_page_writes was on at the last checkpoint, so replay rewrites in full every page that was \
                 being written; storage, memory or a copy damaged these, and perhaps others"
            }
            Self::PartialPage { .. } => {
                "the server ignores a partial page: the file was cut off, or its extension was interrupted"
            }
            Self::SegmentTooLong { .. } => {
                "the server reads nothing past the end of a segment, and did not write this file"
            }
            Self::MissingPages(_) => "for the server the relation ends there: it does not see the later segments",
            Self::NotShutDown => {
                "pages that recovery restores from WAL or the double write buffer still count as damaged"
            }
            Self::ChecksumsOff => {
                "only headers, line pointers and tuples could be checked, and most damage shows in none of them"
            }
            Self::ChecksumsContradict(found) if found.are_most() => {
                "it was changed, or is of another cluster or time; a check of the whole cluster judges pages by their checksums all \
                 the same"
            }
            Self::ChecksumsContradict(_) => {
                "it was changed, or is of another cluster or time; too few pages have right ones to call the others damaged"
            }
            Self::ChecksumsChanging(_) => "pages may lack theirs: wrong checksums are counted but not judged",
            Self::Names(_) => "names of relations may be missing or outdated; verdicts on pages do not depend on them",
            Self::NamesIncomplete { .. } => "some relations are shown as numbers",
            Self::Link { fault: LinkFault::NotAllVisible, .. } => {
                "map and table are of different times: index-only scans show rows that are gone. Where the table is right, \
                 pg_truncate_visibility_map() and VACUUM rebuild the map"
            }
            Self::Link { .. } => "the index is damaged: searches through it miss rows or fail; REINDEX rebuilds it",
            Self::BrokenLinks { .. } => "amcheck tells more about each index",
            Self::LinksUncertain { .. } => {
                "an index build that a crash interrupted leaves such files, or the catalog could not be read"
            }
            Self::LinksNotLookedUp { .. } => {
                "replay creates such pages; whether it creates each of these was not examined"
            }
            Self::LinksNotFollowed { .. } => "its pages were checked one by one; amcheck shows whether they agree",
            Self::LinksOfDamagedPages { .. } => {
                "a torn page may show links that never existed: check again once the damaged pages are repaired"
            }
            Self::Wal(remark) => remark.kind().why(),
            Self::Ring(found) => found.why(),
            Self::Innodb(found) => found.why(),
            Self::WalVersion { .. } => "the two are of different versions; records are read by the page magic",
            Self::ImpossibleTime { .. } => {
                "times before 1970 and from 2100 on are not used: the bytes are damaged, or the clock was wrong"
            }
            Self::ClockSetBack(back) if back.is_wrong() => {
                "more than a year: the clock was wrong before or after it, and how long anything took is unknown"
            }
            Self::ClockSetBack(_) => {
                "the clock of the server was set back: until it tells a later time again, the latest time before that is used"
            }
            Self::TwoSegments { .. } => {
                "with -p DIRECTORY the two names stand for all from the first to the last, as in pg_waldump"
            }
            Self::TimeUnknownBefore { .. } => {
                "that record is the first that tells a time; --start with an LSN instead of --since reads what comes before it"
            }
            Self::NamesOfUnknownCluster => {
                "of another cluster they would be wrong; the query that `pg_walfpi names-query` prints today tells it"
            }
            Self::Damage(WalDamage::Gap { .. } | WalDamage::Further(_)) => {
                "records in between are lost; reading resumed at the start of a page"
            }
            Self::Damage(WalDamage::RecordsFollow { was_synced: true, resync: Resync::Off, .. }) => {
                "the WAL in between had been synced and is damaged; a server stops replay there, --resync reads on"
            }
            Self::Damage(WalDamage::RecordsFollow { was_synced: true, .. }) => {
                "the WAL in between had been synced and is damaged; a server stops replay there"
            }
            Self::Damage(WalDamage::RecordsFollow { was_synced: false, resync: Resync::Off, .. }) => {
                "the WAL in between is damaged, or the power failed before it was synced; a server stops replay there, \
                 --resync reads on"
            }
            Self::Damage(WalDamage::RecordsFollow { was_synced: false, .. }) => {
                "the WAL in between is damaged, or the power failed before it was synced; a server stops replay there"
            }
            Self::Damage(WalDamage::BeforeKnownEnd { .. }) => {
                "WAL that had been written is missing or damaged; a server cannot recover with what is left"
            }
            Self::WalChanging(_) => "a server is writing WAL: its newest records may be missing here",
            Self::WalUnfinished { .. } => {
                "a server that works or stopped under load leaves that in the last page: the record before them was not finished, \
                 so no commit among them was confirmed; replay ends there"
            }
            Self::AfterSegment(_) => "the segment itself is complete",
            Self::Payload(_) => {
                "its checksum is right, but it is not a valid record of its type: a checkpoint may be missing from the rows"
            }
            Self::AbortedRecord(_) => "the server crashed while writing it and continued after it; nothing is lost",
            Self::Image { .. } | Self::MoreImages { .. } => {
                "the record's checksum is right, so the server would fail on it too"
            }
            Self::NotApplied { .. } => "they serve consistency checks; --raw writes them too",
            Self::HiddenRedo { .. } => {
                "the images show it; a new interval is counted from the second address on, which may be a little late"
            }
            Self::BeforeFirstRedo { .. } => "start at a redo point, or read more WAL before it, to have their cause",
            Self::HintsSoFar { .. } => "a later change of the same page would make them hint_then_changed",
        }
    }
}
