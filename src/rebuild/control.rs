//! The checkpoint that never was: as the payload of its record, and in `pg_control`.

use super::error::ControlProblem;
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
#[path = "control_tests.rs"]
mod tests;
