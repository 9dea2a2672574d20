//! What the last checkpoint record in WAL says, and what came after it: the counters that a new `pg_control` has to begin with.

use super::collect::collect_run;
use super::segment::{Visitor, WatchRead};
use super::stretch::Stretch;
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::decode::u32_at;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::checkpoint::CheckPoint;
use crate::parsers::wal::names::{RM_MULTIXACT, RM_XLOG};
use crate::parsers::wal::payload::XlogPayload;
use crate::parsers::wal::record::Record;
use crate::parsers::wal::records::RecordKind;
use crate::parsers::wal::timeline::WalSegment;
use crate::parsers::wal::version::Major;
use crate::types::{FIRST_NORMAL_XID, Lsn, is_newer_xid};

/// The last checkpoint, and the counters after all records that follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastCheckpoint {
    pub record_lsn: Lsn,
    /// It is that of a shutdown, and no record follows.
    pub is_clean: bool,
    /// The checkpoint; next transaction, OID and multixact are those after the last record.
    pub checkpoint: CheckPoint,
    /// The first WAL file that no server has written yet.
    pub next_file: String,
    pub segment_bytes: u32,
    pub major: Option<Major>,
}

impl LastCheckpoint {
    /// Reads the last WAL without a gap. `newest_page`: the newest LSN of any page. `None` where there is no checkpoint record, and where WAL
    /// after it is not all there: what was handed out in it is unknown then.
    ///
    /// # Errors
    /// When a segment cannot be read.
    pub fn read(
        set: &WalSet,
        newest_page: Option<Lsn>,
        jobs: usize,
        watch: WatchRead<'_>,
    ) -> Result<Option<Self>, WalReadError> {
        let mut all = Seen::default();
        let Some(run) = set.runs().pop() else { return Ok(None) };
        let last_start = set.segments().get(run.clone()).and_then(<[_]>::last).map(|file| file.start_lsn);
        let stretch = Stretch { set, run, start_lsn: Lsn::INVALID, end_lsn: Lsn(u64::MAX), keep: Keep::Blocks };
        let walk = collect_run(
            &stretch,
            jobs,
            watch,
            |_| Seen::default(),
            |part| {
                all.append(std::mem::take(&mut part.found));
                Ok(())
            },
        )?;
        if let Some(error) = walk.error {
            return Err(error);
        }
        // A record before the last segment that is not whole, or pages that are newer, show that more had been written.
        let is_short = last_start.is_some_and(|start| all.end_lsn < start);
        if walk.interrupted || is_short || newest_page.is_some_and(|newest| newest > all.end_lsn) {
            return Ok(None);
        }
        let last = all.last.filter(|_| !all.is_unknown);
        let Some((record_lsn, mut checkpoint, is_shutdown)) = last else { return Ok(None) };
        let is_clean = is_shutdown && all.records_since == 0;
        if let Some(newest) = all.newest_xid.filter(|newest| !is_newer_xid(checkpoint.next_xid(), *newest)) {
            let ahead = u64::from(newest.wrapping_sub(checkpoint.next_xid())).saturating_add(1);
            checkpoint.next_full_xid = checkpoint.next_full_xid.saturating_add(ahead);
        }
        checkpoint.next_oid = checkpoint.next_oid.max(all.next_oid);
        if let Some((next_multi, next_offset)) = all.multis {
            (checkpoint.next_multi, checkpoint.next_multi_offset) = (next_multi, next_offset);
        }
        let segment_bytes = set.geometry().wal_segment_size;
        let last = WalSegment::holding(checkpoint.tli, all.end_lsn, segment_bytes);
        let next = last.map(|last| WalSegment { number: last.number.saturating_add(1), ..last });
        let Some(next_file) = next.and_then(|next| next.file_name(segment_bytes)) else { return Ok(None) };
        Ok(Some(Self { record_lsn, is_clean, checkpoint, next_file, segment_bytes, major: set.major() }))
    }

    /// The arguments of `pg_resetwal` that follow from it.
    ///
    /// Source: `main`, `src/bin/pg_resetwal/pg_resetwal.c`.
    pub(crate) fn reset_arguments(&self) -> String {
        let of = &self.checkpoint;
        let (xid, epoch) = (of.next_xid(), of.next_full_xid >> 32);
        let facts = self.major.map(Major::facts);
        let takes_oldest = facts.is_some_and(|facts| facts.reset_takes_oldest_xid);
        let oldest = if takes_oldest { format!(" -u {}", of.oldest_xid) } else { String::new() };
        let takes_size = facts.is_some_and(|facts| facts.reset_takes_size);
        let size = if takes_size { format!(" --wal-segsize={}", self.segment_bytes >> 20) } else { String::new() };
        let multis = format!("-m {},{} -O {}", of.next_multi, of.oldest_multi.max(1), of.next_multi_offset);
        format!("-f -l {} -x {xid} -e {epoch}{oldest} -o {} {multis}{size}", self.next_file, of.next_oid)
    }
}

/// What the records of one segment say.
#[derive(Debug, Default)]
struct Seen {
    last: Option<(Lsn, CheckPoint, bool)>,
    records_since: u64,
    newest_xid: Option<u32>,
    next_oid: u32,
    /// The next multixact and the next offset of members.
    multis: Option<(u32, u64)>,
    end_lsn: Lsn,
    is_unknown: bool,
}

impl Seen {
    fn append(&mut self, next: Self) {
        if next.last.is_some() {
            (self.last, self.records_since, self.multis) = (next.last, 0, None);
            self.next_oid = 0;
        }
        self.records_since = self.records_since.saturating_add(next.records_since);
        self.next_oid = self.next_oid.max(next.next_oid);
        self.multis = next.multis.or(self.multis);
        self.end_lsn = self.end_lsn.max(next.end_lsn);
        self.is_unknown |= next.is_unknown;
        if let Some(xid) = next.newest_xid {
            self.note_xid(xid);
        }
    }

    fn note_xid(&mut self, xid: u32) {
        if xid >= FIRST_NORMAL_XID && self.newest_xid.is_none_or(|newest| is_newer_xid(xid, newest)) {
            self.newest_xid = Some(xid);
        }
    }
}

impl Visitor for Seen {
    fn record(&mut self, record: &Record<'_>) {
        self.end_lsn = self.end_lsn.max(record.end_lsn);
        self.records_since = self.records_since.saturating_add(1);
        self.note_xid(record.header.xid);
        match record.header.rmgr_id {
            RM_XLOG => match XlogPayload::of(record) {
                Ok(Some(XlogPayload::CheckpointShutdown(found))) => {
                    (self.last, self.records_since) = (Some((record.start_lsn, found, true)), 0);
                    (self.next_oid, self.multis) = (0, None);
                }
                Ok(Some(XlogPayload::CheckpointOnline(found))) => {
                    self.last = Some((record.start_lsn, found, false));
                    (self.next_oid, self.multis) = (0, None);
                }
                Ok(Some(XlogPayload::NextOid(oid))) => self.next_oid = self.next_oid.max(oid),
                _ => {}
            },
            // One that cannot be read may have handed out more.
            RM_MULTIXACT if record.is_cut() => self.is_unknown = true,
            RM_MULTIXACT => {
                if let Some((multi, offset, count)) = multixact_made(record) {
                    self.multis = Some((multi.wrapping_add(1), offset.saturating_add(u64::from(count))));
                }
            }
            _ => {}
        }
    }
}

/// Number, first member and count of members of the multixact that a record makes; `None` where it makes none, or is cut.
///
/// Source: `xl_multixact_create`, `src/include/access/multixact.h`.
pub(crate) fn multixact_made(record: &Record<'_>) -> Option<(u32, u64, u32)> {
    if record.kind() != RecordKind::MultixactCreateId || record.is_cut() {
        return None;
    }
    let data = record.main_data();
    let multi = u32_at(data, 0)?;
    if record.major.facts().has_wide_multixacts {
        let offset = u64::from(u32_at(data, 8)?) | u64::from(u32_at(data, 12)?) << 32;
        return Some((multi, offset, u32_at(data, 16)?));
    }
    Some((multi, u64::from(u32_at(data, 4)?), u32_at(data, 8)?))
}
