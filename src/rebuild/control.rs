//! The checkpoint that never was: as the payload of its record, and in `pg_control`.

use super::ControlProblem;
use super::stream::STREAM_TIMELINE;
use crate::parsers::control::{CONTROL_FILE_SIZE, ControlFile, DbState};
use crate::parsers::control_layout::{ControlLayout, Field};
use crate::parsers::crc::crc32c;
use crate::parsers::wal::version::XlogFormat;
use crate::types::Lsn;

/// Transactions whose state one byte of `pg_xact` holds.
///
/// Source: `CLOG_XACTS_PER_BYTE`, `src/backend/access/transam/clog.c`.
const XACTS_PER_BYTE: u64 = 4;

/// How far the oldest transaction lies before the next one.
const OLDEST_BEFORE_NEXT: u64 = 1000;

const NEXT_OID: u32 = 20_000;

/// Transaction ids below this have a meaning of their own (`FirstNormalTransactionId`).
const FIRST_NORMAL_XID: u64 = 3;

/// The database that holds the oldest transaction: any that can be.
const A_DATABASE: u32 = 1;

/// `pg_control` of a cluster that a sandbox is made from.
#[derive(Clone, Debug)]
pub struct ClusterControl {
    bytes: Vec<u8>,
    pub file: ControlFile,
    layout: &'static ControlLayout,
}

impl ClusterControl {
    /// Takes the bytes of a file.
    ///
    /// # Errors
    /// When a server would not take it, or its sizes are impossible.
    pub fn read(bytes: &[u8]) -> Result<Self, ControlProblem> {
        let file = ControlFile::decode(bytes).map_err(ControlProblem::Short)?.ok_or(ControlProblem::UnknownVersion)?;
        if !file.crc_is_good() {
            return Err(ControlProblem::WrongCrc);
        }
        if let Some(fault) = file.size_faults().into_iter().next() {
            return Err(ControlProblem::Size(fault));
        }
        let layout = ControlLayout::of_version(file.prefix.pg_control_version).ok_or(ControlProblem::UnknownVersion)?;
        let mut bytes = bytes.to_vec();
        bytes.resize(CONTROL_FILE_SIZE, 0);
        Ok(Self { bytes, file, layout })
    }

    /// Bytes of the payload of a checkpoint record.
    pub(crate) const fn checkpoint_bytes(&self) -> usize {
        self.layout.xlog.checkpoint_size()
    }

    /// True when pages have checksums in the sandbox.
    pub const fn has_checksums(&self) -> bool {
        self.file.checksums.is_written()
    }

    /// Id with epoch of a transaction that a record near the cluster's checkpoint carries.
    pub(crate) fn full_xid(&self, xid: u32) -> u64 {
        let known = self.file.checkpoint.next_full_xid;
        // Ids of 32 bits go around; those in WAL lie within half of them from the checkpoint.
        let low = u32::try_from(known & u64::from(u32::MAX)).unwrap_or_default();
        let ahead = i64::from(xid.wrapping_sub(low).cast_signed());
        known.saturating_add_signed(ahead)
    }

    /// The payload of the checkpoint at `lsn`. `newest_xid`: with epoch, of all records that follow.
    ///
    /// The next transaction is the first of a page of `pg_xact`: a server initialises that page and needs no file.
    pub fn checkpoint(&self, lsn: Lsn, newest_xid: u64) -> Vec<u8> {
        let in_page = XACTS_PER_BYTE.saturating_mul(u64::from(self.file.geometry.block_size));
        let first_of = |page: u64| page.saturating_mul(in_page);
        let mut page = newest_xid / in_page + 1;
        // Neither the next transaction nor the oldest may be one of those with a meaning, at the start of each epoch.
        while first_of(page) & u64::from(u32::MAX) < OLDEST_BEFORE_NEXT + FIRST_NORMAL_XID {
            page += 1;
        }
        let next_xid = first_of(page);
        let low = |xid: u64| u32::try_from(xid & u64::from(u32::MAX)).unwrap_or_default();
        let mut payload = Payload(vec![0; self.checkpoint_bytes()]);
        payload.set(0, &lsn.0.to_le_bytes());
        payload.set(8, &STREAM_TIMELINE.to_le_bytes());
        payload.set(12, &STREAM_TIMELINE.to_le_bytes());
        let (xid, oid, multi, oldest_xid, oldest_multi) = match self.layout.xlog {
            XlogFormat::To11 => (20, 28, 32, 40, 48),
            XlogFormat::To16 | XlogFormat::To18 => (24, 32, 36, 44, 52),
            XlogFormat::Since19 => (32, 40, 44, 56, 64),
        };
        if self.layout.xlog == XlogFormat::To11 {
            payload.set(xid, &u32::try_from(next_xid >> 32).unwrap_or(u32::MAX).to_le_bytes());
            payload.set(xid + 4, &low(next_xid).to_le_bytes());
        } else {
            payload.set(xid, &next_xid.to_le_bytes());
        }
        payload.set(oid, &NEXT_OID.to_le_bytes());
        payload.set(multi, &1_u32.to_le_bytes());
        payload.set(oldest_xid, &low(next_xid - OLDEST_BEFORE_NEXT).to_le_bytes());
        payload.set(oldest_xid + 4, &A_DATABASE.to_le_bytes());
        payload.set(oldest_multi, &1_u32.to_le_bytes());
        payload.set(oldest_multi + 4, &A_DATABASE.to_le_bytes());
        payload.0
    }

    /// The file for a sandbox whose WAL begins with the checkpoint at `lsn`.
    pub(crate) fn for_sandbox(&self, lsn: Lsn, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Payload(self.bytes.clone());
        let mut set = |field, value: &[u8]| {
            if let Some(offset) = self.layout.offset(field) {
                bytes.set(offset, value);
            }
        };
        set(Field::CheckPoint, &lsn.0.to_le_bytes());
        set(Field::PrevCheckPoint, &lsn.0.to_le_bytes());
        set(Field::CheckPointCopy, payload);
        for field in [Field::MinRecoveryPoint, Field::BackupStartPoint, Field::BackupEndPoint] {
            set(field, &[0; 8]);
        }
        set(Field::MinRecoveryPointTli, &[0; 4]);
        set(Field::BackupEndRequired, &[0]);
        // A server that is about to switch checksums on or off would continue that.
        set(Field::DataChecksumVersion, &u32::from(self.has_checksums()).to_le_bytes());
        bytes.set(16, &DbState::IN_PRODUCTION.0.to_le_bytes());
        if let Some(offset) = self.layout.offset(Field::Crc) {
            let crc = crc32c(bytes.0.get(..offset).unwrap_or_default());
            bytes.set(offset, &crc.to_le_bytes());
        }
        bytes.0
    }
}

/// Bytes with fields.
struct Payload(Vec<u8>);

impl Payload {
    fn set(&mut self, offset: usize, value: &[u8]) {
        if let Some(field) = self.0.get_mut(offset..offset.saturating_add(value.len())) {
            field.copy_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::parsers::wal::checkpoint::CheckPoint;
    use crate::parsers::wal::version::Major;
    use crate::types::TimelineId;

    /// `pg_control` of a server of this major that was killed while running.
    fn control_of(major: Major) -> ClusterControl {
        let name = if major == Major::V19 { "19rc1".to_owned() } else { major.number().to_string() };
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/control/{name}/pg_control_running"));
        ClusterControl::read(&fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn control_of_every_major_begins_replay_at_the_checkpoint_that_never_was() {
        for major in Major::ALL {
            let cluster = control_of(major);
            let lsn = Lsn(0x7_0010_0028);
            let payload = cluster.checkpoint(lsn, cluster.full_xid(800));
            assert_eq!(payload.len(), major.facts().xlog.checkpoint_size(), "{major}");
            let bytes = cluster.for_sandbox(lsn, &payload);
            let made = ControlFile::decode(&bytes).unwrap().unwrap();
            assert!(made.crc_is_good() && bytes.len() == CONTROL_FILE_SIZE, "{major}");
            assert_eq!((made.prefix.state, made.checkpoint_lsn, made.checkpoint.redo_lsn), (DbState(6), lsn, lsn));
            assert_eq!(made.checkpoint, CheckPoint::decode(major.facts().xlog, 0, &payload).unwrap());
            assert_eq!((made.checkpoint.tli, made.checkpoint.prev_tli), (TimelineId(1), TimelineId(1)));
            assert_eq!((made.checkpoint.next_full_xid, made.checkpoint.oldest_xid), (32_768, 31_768), "{major}");
            assert_eq!((made.checkpoint.next_multi, made.checkpoint.oldest_multi), (1, 1));
            assert_eq!((made.checkpoint.oldest_xid_db, made.checkpoint.oldest_multi_db), (1, 1));
            assert_eq!((made.checkpoint.full_page_writes, made.checkpoint.oldest_active_xid), (0, 0));
            assert!(!made.is_in_archive_recovery() && !made.backup_end_required && !made.backup_end_lsn.is_valid());
            // All else is the cluster's.
            let own = &cluster.file;
            assert_eq!(made.prefix.system_identifier, own.prefix.system_identifier);
            assert_eq!(
                (made.geometry, made.checksums, made.wal_log_hints),
                (own.geometry, own.checksums, own.wal_log_hints)
            );
            assert_eq!(made.mock_authentication_nonce, own.mock_authentication_nonce);
            assert_eq!(made.prev_checkpoint_lsn.unwrap_or(lsn), lsn);
        }
    }

    #[test]
    fn transactions_keep_their_epoch() {
        let mut cluster = control_of(Major::NEWEST);
        cluster.file.checkpoint.next_full_xid = 5 << 32 | 1000;
        assert_eq!(cluster.full_xid(999), 5 << 32 | 999);
        assert_eq!(cluster.full_xid(1200), 5 << 32 | 1200);
        // From before the numbers went around.
        assert_eq!(cluster.full_xid(u32::MAX - 9), (5 << 32) - 10);
        let next = |newest| {
            let payload = cluster.checkpoint(Lsn(40), newest);
            let made = CheckPoint::decode(Major::NEWEST.facts().xlog, 0, &payload).unwrap();
            (made.next_full_xid, made.oldest_xid)
        };
        assert_eq!(next(5 << 32 | 999), (5 << 32 | 32_768, 31_768));
        assert_eq!(next(5 << 32 | 32_767), (5 << 32 | 32_768, 31_768));
        assert_eq!(next(5 << 32 | 32_768), (5 << 32 | 65_536, 64_536));
        // The first page of an epoch holds numbers that mean something else.
        assert_eq!(next((5 << 32) - 10), (5 << 32 | 32_768, 31_768));
        assert_eq!(next(0), (32_768, 31_768));
    }

    #[test]
    fn epoch_is_a_field_of_its_own_before_12() {
        let mut cluster = control_of(Major::OLDEST);
        cluster.file.checkpoint.next_full_xid = 3 << 32 | 700;
        let payload = cluster.checkpoint(Lsn(40), cluster.full_xid(600));
        assert_eq!((payload[20..24].to_vec(), payload[24..28].to_vec()), (vec![3, 0, 0, 0], vec![0, 0x80, 0, 0]));
    }

    #[test]
    fn control_that_a_server_would_not_take_is_refused() {
        let good = control_of(Major::NEWEST).bytes;
        let problem = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            ClusterControl::read(&bytes).err()
        };
        assert_eq!(problem(&|_| {}), None);
        assert_eq!(problem(&|bytes| bytes[40] ^= 1), Some(ControlProblem::WrongCrc));
        assert_eq!(problem(&|bytes| bytes[8..12].fill(0x11)), Some(ControlProblem::UnknownVersion));
        assert!(matches!(problem(&|bytes| bytes.truncate(100)), Some(ControlProblem::Short(_))));
    }
}
