//! What a finding says.

use std::fmt;

use crate::analysis::checksum_witness::ChecksumsContradict;
use crate::analysis::finding_kind::{FindingKind, TablespaceFault, Unrecognized, WalChange, WalRemark};
use crate::analysis::wal::clock::SetBack;
use crate::parsers::wal::payload::PgTimestamp;

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StalePidFile { pid, holder } | Self::PidInUse { pid, holder } => {
                write!(f, "names process {pid}{holder}")
            }
            Self::ServerUnclear { sign, .. } | Self::ServerRunning { sign } | Self::PidFileUnclear { sign } => {
                f.write_str(sign)
            }
            Self::Belonging(cause) => cause.fmt(f),
            Self::RowXid { rows, next } => write!(f, "{rows}, and pg_control has {next} as the next transaction"),
            Self::CheckpointMissing { lsn } => {
                write!(f, "the checkpoint that pg_control names, at {lsn}, is not there")
            }
            Self::RowFault { name, rows } => write!(f, "{name}: {rows}"),
            Self::RowMultixact { rows, next } => write!(f, "{rows}, and pg_control has {next} as the next multixact"),
            Self::ControlSizes(fault) => fault.fmt(f),
            Self::ControlCrc { stored, computed } => {
                write!(f, "CRC is {stored:#010x}, the bytes give {computed:#010x}")
            }
            Self::VersionsDisagree { control_version, major } => {
                write!(f, "version {control_version} is not what major {major} writes")
            }
            Self::MinimumElsewhere { lsn, tli } => {
                write!(
                    f,
                    "recovery must reach {lsn} on timeline {tli}, and the history of its timeline does not have that there"
                )
            }
            Self::ServerDirectory { why, .. }
            | Self::NotADirectory(why)
            | Self::HistoryFile(why)
            | Self::FilenodeMap(why)
            | Self::XactFile(why)
            | Self::MultixactFile(why)
            | Self::NotAFile(why)
            | Self::StateFile { why, .. }
            | Self::DatabaseVersion(why) => why.fmt(f),
            Self::DatabaseCopied { record_lsn, source, is_missing } => {
                write!(f, "the record at {record_lsn} has replay remove this database and copy it from {source}")?;
                if *is_missing { f.write_str(", which is not there") } else { Ok(()) }
            }
            Self::PageOfOtherKind { name, block, kind, further } => {
                let kind = kind.name();
                write!(f, "block {block} of {name} holds a page of another kind of relation ({kind})")?;
                if *further > 0 { write!(f, "; {further} more such pages are not listed") } else { Ok(()) }
            }
            Self::RelationShort { name, blocks, counted } => {
                write!(
                    f,
                    "{name}: pages {blocks}, pages that the server counted {counted}, and its visibility map is gone"
                )
            }
            Self::NotCompared => f.write_str("the pages of archives were checked one by one"),
            Self::FirstPageZeroed { name } => write!(f, "the first page of {name} is all zero"),
            Self::RelationFileEmpty { name } => write!(f, "the first file of {name} has no page"),
            Self::TablespaceOfWal { record_lsn, location, why } => {
                write!(f, "the record at {record_lsn} makes this tablespace in {location}, ")?;
                match why {
                    TablespaceFault::Missing => f.write_str("which is not there"),
                    TablespaceFault::NotADirectory => f.write_str("which is no directory"),
                    TablespaceFault::OtherOwner { uid } => write!(f, "which belongs to another user, {uid}"),
                    TablespaceFault::NoLink => f.write_str("and in place of its link there is a directory with files"),
                }
            }
            Self::TablespaceNoLink => f.write_str("a directory, where servers have a link"),
            Self::CommitTimesLost { count, xid, record_lsn } => write!(
                f,
                "commits without a time that WAL has before the redo point: {count}, the first: {xid}, by the record at {record_lsn}"
            ),
            Self::MultixactsLost { count, multi, record_lsn } => write!(
                f,
                "multixacts that WAL made before the redo point and that are not here: {count}, the first: {multi}, by the record at \
                 {record_lsn}"
            ),
            Self::CommitsLost { count, xid, record_lsn } => {
                write!(
                    f,
                    "transactions that WAL committed before the redo point and that are not committed here: {count}, the first: \
                     {xid}, by the record at {record_lsn}"
                )
            }
            Self::PreparedMissing { record_lsn } => {
                write!(
                    f,
                    "missing, though the record at {record_lsn} prepared its transaction, and nothing in the WAL at hand ended it"
                )
            }
            Self::Configuration(fault) => fault.fmt(f),
            Self::OddModes { found: (uid, mode), usual: (usual_uid, usual_mode), count } => {
                write!(f, "user {uid}, mode {mode:04o}; most have user {usual_uid}, mode {usual_mode:04o}")?;
                if *count > 1 { write!(f, " ({count} differ)") } else { Ok(()) }
            }
            Self::NoRoom { free_bytes, needed_bytes } => {
                write!(
                    f,
                    "its volume has {free_bytes} bytes free; a start needs {needed_bytes} at least, and what replay adds to files"
                )
            }
            Self::UnusualBuild { field, found, usual } => write!(f, "{field} is {found}, usually {usual}"),
            Self::DatabaseMissing { name } => write!(f, "missing: the directory of database {name}"),
            Self::TablespaceMissing { name, relations: 0 } => {
                write!(f, "tablespace {name}: its directory is missing, or the link leads nowhere")
            }
            Self::TablespaceMissing { name, relations } => {
                write!(
                    f,
                    "tablespace {name}: its directory is missing, or the link leads nowhere; relations in it: {relations}"
                )
            }
            Self::InitForkMissing { name, is_empty: true } => {
                write!(f, "empty: the init fork of the unlogged index {name}")
            }
            Self::InitForkMissing { name, is_empty: false } => {
                write!(f, "missing: the init fork of the unlogged {name}")
            }
            Self::InitForkOfPermanent { name } => write!(f, "an init fork lies beside {name}, which is permanent"),
            Self::RelationFileMissing { name } => write!(f, "missing: the first file of {name}"),
            Self::MoreRelationFiles { count } => {
                write!(f, "further relations in the catalog whose first file is missing: {count}")
            }
            Self::UnknownState(state) => state.fmt(f),
            Self::UnknownChecksums { code } => write!(f, "data_checksum_version {code}"),
            Self::RestoredBackup { start_lsn } => write!(f, "backup start point {start_lsn}"),
            Self::WalWasReset => {
                f.write_str("written by pg_resetwal: its checkpoint is the first record of all WAL, settings reset")
            }
            Self::BackupLabel { redo_lsn: Some(lsn) } => {
                write!(f, "recovery starts at {lsn}, not at the redo point of pg_control")
            }
            Self::BackupLabel { redo_lsn: None } => {
                f.write_str("recovery starts at an LSN that cannot be read, not at the redo point of pg_control")
            }
            Self::RecoverySignal => f.write_str("present"),
            Self::IncrementalBackup => {
                f.write_str("an incremental backup, which holds only changes: no server starts from it")
            }
            Self::BackupWalIncomplete { .. } => f.write_str("the WAL here ends before the end of the backup"),
            Self::ReplayCannotBegin(unknown) => unknown.fmt(f),
            Self::Unrecognized(Unrecognized::Entry(path)) => {
                write!(f, "{path} is not a double write buffer file")
            }
            Self::Unrecognized(Unrecognized::Further(count)) => {
                write!(f, "{count} further entries are not double write buffer files")
            }
            Self::Ring(found) => found.fmt(f),
            Self::AllZero => f.write_str("the file holds nothing but zeros"),
            Self::HeaderFault(fault) => fault.fmt(f),
            Self::LayoutGuessed { layout } => {
                write!(f, "layout {layout} is a guess: neither header nor slot CRCs verify")
            }
            Self::HeaderBlockSize { header, slots } => {
                write!(f, "header says pages of {header} bytes, slots verify at {slots}")
            }
            Self::BlockSize { file, cluster } => write!(f, "pages of {file} bytes; the cluster has pages of {cluster}"),
            Self::NeverRead { layout } => write!(f, "a server of layout {layout} never reads its buffer"),
            Self::CutShort { size_bytes, missing_slots } => {
                write!(f, "ends at {size_bytes:#X}, {missing_slots} slots before the end that its header gives")
            }
            Self::TrailingBytes { bytes } => write!(f, "{bytes} bytes after the last whole slot"),
            Self::LongerThanHeader => f.write_str("holds more slots than its header says"),
            Self::BadSlots { bad, used } => write!(f, "{bad} of {used} used slots fail their CRC"),
            Self::ImplausibleImages { count } => {
                write!(f, "{count} images break rules of pages although their slot CRC is right")
            }
            Self::ImplausibleHeaders { count } => {
                write!(f, "{count} slots break rules of slot headers although their CRC is right")
            }
            Self::LsnMismatch { slots } => write!(f, "{slots} slot headers have another LSN than their image"),
            Self::HeaderOlderThanControl { newest_lsn, expected_lsn }
            | Self::HeaderNewerThanControl { newest_lsn, expected_lsn } => {
                write!(f, "the newest file header says {newest_lsn}, pg_control says {expected_lsn}")
            }
            Self::MissingFile { missing, last } => {
                write!(f, "file {missing} of the buffer is missing, but file {last} is there")
            }
            Self::NeverReset { .. } => {
                f.write_str("no checkpoint has completed since this file was created or extended")
            }
            Self::HeaderOutdated { batch, lsn, newest_lsn } => {
                write!(f, "its header says batch {batch} at {lsn}, the newest header {newest_lsn}")
            }
            Self::MixedLayouts { other } => write!(f, "another layout or page size than {other}"),
            Self::SlotId { count, slots_per_file } | Self::OtherGeometry { count, slots_per_file } => {
                write!(f, "{count} slots belong to another number of slots than the {slots_per_file} in use")
            }
            Self::OtherSize { files, slots_per_file } => {
                write!(
                    f,
                    "the configured size gives {files} files of {slots_per_file} slots, which is not what is there"
                )
            }
            Self::Wrapped => f.write_str("the current batch fills the whole ring"),
            Self::NoDwb => f.write_str("this data directory has no double write buffer"),
            Self::Include { lines } => write!(f, "{lines} include lines in the configuration were not followed"),
            Self::DamagedPages(pages) => pages.fmt(f),
            Self::Unlogged { count } => write!(f, "{count} of the damaged pages belong to unlogged relations"),
            Self::NotRebuilt { pages, why } => write!(f, "pages that could not be rebuilt: {pages}: {why}"),
            Self::NotACrashTear { count } => write!(f, "damaged pages that the crash did not tear: {count}"),
            Self::PartialPage { have_bytes, block } => write!(f, "ends with {have_bytes} bytes of block {block}"),
            Self::SegmentTooLong { size_bytes, full_bytes } => {
                write!(f, "{size_bytes} bytes, a segment has at most {full_bytes}")
            }
            Self::MissingPages(pages) => pages.fmt(f),
            Self::NotShutDown => f.write_str("the cluster was not shut down cleanly"),
            Self::ChecksumsOff => f.write_str("data checksums are off"),
            Self::ChecksumsContradict(ChecksumsContradict { right, newer }) => write!(
                f,
                "says that data checksums are off, but {right} of {newer} pages that were changed since the redo point carry right ones"
            ),
            Self::ChecksumsChanging(state) => write!(f, "data checksums are {state}"),
            Self::Names(error) => error.fmt(f),
            Self::NamesIncomplete { gaps, first } => {
                write!(f, "gaps in the names of relations: {gaps}, the first: {first}")
            }
            Self::Link { block, links, .. } => {
                write!(f, "block {block}: ")?;
                for (index, link) in links.iter().enumerate() {
                    write!(f, "{}{link}", if index == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::BrokenLinks { further } => {
                write!(f, "further index pages that contradict others: {further}")
            }
            Self::LinksUncertain { count } => {
                write!(f, "index pages that contradict others, in files that the catalog does not confirm: {count}")
            }
            Self::LinksNotLookedUp { count } => {
                write!(f, "further index pages that others link to and that are not there yet: {count}")
            }
            Self::LinksNotFollowed { rel, max_pages } => {
                write!(f, "links between the pages of {rel} were not followed: more than {max_pages} pages")
            }
            Self::LinksOfDamagedPages { count } => {
                write!(f, "index pages that only damaged pages contradict: {count}")
            }
            Self::Innodb(found) => found.fmt(f),
            Self::Wal(WalRemark::Note { what, .. }) => f.write_str(what),
            Self::Wal(WalRemark::Recycled { segment }) => {
                write!(f, "{segment} was there when the directory was listed, and was then renamed or removed")
            }
            Self::WalVersion { major, control_version } => {
                write!(f, "page magic of major {major}, pg_control version {control_version}")
            }
            Self::TwoSegments { between } => {
                write!(f, "two files were named and these two are read, not the {between} segments between them")
            }
            Self::ClockSetBack(SetBack { lsn, back_us }) => {
                write!(f, "the record at {lsn} tells a time {} s before one told earlier", back_us / 1_000_000)
            }
            Self::ImpossibleTime { lsn, time } => {
                write!(f, "the record at {lsn} tells a time that cannot be right: {}", time_or_year(*time))
            }
            Self::TimeUnknownBefore { first_lsn, bytes } => {
                write!(f, "{bytes} bytes of WAL before {first_lsn} are left out: when they were written is unknown")
            }
            Self::NamesOfUnknownCluster => f.write_str("the names given do not say which cluster they are of"),
            Self::Damage(damage) => damage.fmt(f),
            Self::WalChanging(WalChange::ReadLater { at }) => {
                write!(f, "WAL could not be read at {at} at first, and could a moment later")
            }
            Self::WalChanging(WalChange::EndMoves { end_lsn }) => {
                write!(f, "WAL changed while it was read; the last reading reached {end_lsn}")
            }
            Self::WalUnfinished { end, first_lsn } => {
                write!(
                    f,
                    "{end}; the same page of WAL holds valid records from {first_lsn} on, and no later page was written"
                )
            }
            Self::AfterSegment(error) => error.fmt(f),
            Self::Payload(error) => error.fmt(f),
            Self::AbortedRecord(aborted) => write!(
                f,
                "record at {} was cut off at {} and replaced: {} of {} bytes were there",
                aborted.start_lsn, aborted.missing_lsn, aborted.have, aborted.tot_len
            ),
            Self::Image { block, record_lsn, error } => write!(f, "image of block {block} at {record_lsn}: {error}"),
            Self::MoreImages { count } => write!(f, "further images that cannot be restored: {count}"),
            Self::NotApplied { count } => write!(f, "{count} images that redo does not apply were left out"),
            Self::HiddenRedo { after, before } => {
                write!(f, "a checkpoint began between {after} and {before}, and no record here names its redo point")
            }
            Self::BeforeFirstRedo { images } => {
                write!(f, "{images} images before the first known redo point are unknown_before_start")
            }
            Self::HintsSoFar { images } => {
                write!(f, "{images} images are hint_only as far as WAL was read: their interval is not over")
            }
        }
    }
}

/// A time in words, or its year where the calendar ends.
fn time_or_year(time: PgTimestamp) -> String {
    const SECONDS_OF_A_YEAR: i64 = 31_556_952;
    let seconds = time.unix_seconds();
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.to_string(),
        Err(_) => format!("about the year {}", seconds.div_euclid(SECONDS_OF_A_YEAR).saturating_add(1970)),
    }
}
