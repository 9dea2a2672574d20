//! How transactions ended, by all that is left: `pg_xact`, WAL, prepared transactions, multixacts, and hint bits of other rows.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use strum::IntoStaticStr;

use super::changes::WalTrust;
use super::source::Source;
use crate::cluster::open::{Links, ReadFile, list, read_small};
use crate::parsers::decode::u32_at;
use crate::parsers::heap::{TupleHeader, XactStatus, infomask};
use crate::parsers::state_files::{MAX_STATE_BYTES, check_twophase, prepared_xids};
use crate::types::{Lsn, Oid};

/// Transactions in one byte of `pg_xact`.
const XACTS_PER_BYTE: u32 = 4;

/// Bytes of `pg_xact` in a row that are zero where they were lost: a crash seldom leaves so many transactions without an end.
const LOST_BYTES: usize = 8;

/// Bytes that a disk writes at once.
const SECTOR_BYTES: usize = 512;

/// Subtransactions of one sector that may wait for their parent.
const MAX_WAITING: u32 = 8;

/// Bytes before and after a subtransaction that waits: that is rare but for an overwritten byte, which has such neighbours.
const NEAR_BYTES: usize = 4;

/// Pages of status files that are kept.
const MAX_PAGES: usize = 4096;

/// Ends of transactions that are kept.
const MAX_ASKED: usize = 1 << 16;

/// Most members of a multixact that are looked at.
const MAX_MEMBERS: u64 = 4096;

/// Pages in one status file, where `pg_control` does not tell.
const PAGES_PER_SEGMENT: u64 = 32;

/// A group of members of multixacts: 4 bytes of flags, then 4 transactions.
///
/// Source: `MULTIXACT_MEMBERGROUP_SIZE`, `src/backend/access/transam/multixact.c`.
const GROUP_BYTES: u64 = 20;

/// The least status of a member that changed the row; lower ones locked it.
///
/// Source: `MultiXactStatusNoKeyUpdate`, `src/include/access/multixact.h`.
const FIRST_UPDATE: u8 = 4;

/// Why it is uncertain whether a row belongs to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Why {
    /// `pg_xact` does not tell whether the insertion was committed.
    NoPgXact,
    /// `pg_xact` does not tell whether the deletion was committed.
    DeleterUnknown,
    /// The multixact that may have deleted the row is lost.
    MultixactUnknown,
    /// A prepared transaction deleted the row.
    DeleterPrepared,
    /// A prepared transaction inserted the row.
    InserterPrepared,
    /// The transaction is open in `pg_xact`, and WAL, which may have its end, is missing.
    OpenAndWalMissing,
    /// The checksum of the page, or of a page with a part of a value, is wrong.
    PageChecksum,
    /// Other tuples of its page do not fit the columns: it may be a page of another table.
    PageOfOtherTable,
    /// Found without a line pointer.
    Carved,
    /// WAL changes rows of the page that the page on disk does not have yet.
    PageBehindWal,
    /// A type of a column is a guess.
    GuessedColumns,
    /// The text is not in the encoding of the database.
    NotInEncoding,
    /// WAL brought the page forward or has the end of the transaction, and may belong to another cluster.
    WalMayBeForeign,
    /// The page has an LSN inside WAL at which no record of it ends.
    PageNotInWal,
}

impl Why {
    /// Stable name for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Committed,
    /// Rolled back, or open at the crash: its changes never count.
    Undone,
    Prepared,
    /// `pg_xact` has no end of it, and WAL is missing.
    Open,
    /// Only WAL has its end, and may belong to another cluster.
    Foreign,
    Unknown,
}

/// Whether a row belongs to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    Live,
    Dead,
    Unsure(Why),
}

/// Facts from WAL, starting at the redo point.
#[derive(Clone, Debug, Default)]
pub struct WalFacts {
    /// Transactions that ended, and whether they were committed.
    pub ended: HashMap<u32, bool>,
    /// Transactions that were prepared and did not end.
    pub prepared: HashSet<u32>,
    /// Members of multixacts.
    pub multis: HashMap<u32, Vec<(u32, u8)>>,
    /// Pages (database, file number, block) whose rows it deletes or replaces, with the end of the last such record.
    pub changed: HashMap<(Oid, u32, u32), u64>,
    /// The next transaction at the checkpoint.
    pub next_xid: Option<u32>,
    /// WAL was read to its end, or none is needed: what has no end in it never ended.
    pub is_complete: bool,
    /// Whether it belongs to the pages.
    pub trust: WalTrust,
    /// Start and end of applied WAL.
    pub range: (Lsn, Lsn),
}

/// Ends of transactions.
#[derive(Debug)]
pub(crate) struct Xacts<'a> {
    source: &'a Source,
    wal: &'a WalFacts,
    prepared: HashSet<u32>,
    /// All files of prepared transactions were read.
    knows_prepared: bool,
    witnesses: HashMap<u32, bool>,
    /// Files of `pg_xact` were filled by hand.
    is_filled: bool,
    pages: HashMap<PathBuf, HashMap<u64, Option<Vec<u8>>>>,
    kept: usize,
    /// Ends that were asked for.
    asked: HashMap<u32, Ended>,
}

impl<'a> Xacts<'a> {
    pub fn new(source: &'a Source, wal: &'a WalFacts) -> Self {
        let (prepared, knows_prepared) = prepared_of(source);
        let prepared = prepared.into_iter().filter(|xid| !wal.ended.contains_key(xid));
        let prepared = prepared.chain(wal.prepared.iter().copied()).collect();
        let (witnesses, is_filled) = (HashMap::new(), is_filled(source));
        Self {
            source,
            wal,
            prepared,
            knows_prepared,
            witnesses,
            is_filled,
            pages: HashMap::new(),
            kept: 0,
            asked: HashMap::new(),
        }
    }

    /// `pg_xact` tells of no transaction at all: other rows are asked.
    pub fn needs_witnesses(&mut self) -> bool {
        let has_any = |found: Option<Vec<u8>>| found.is_some_and(|page| page.iter().any(|byte| *byte != 0));
        let newest = self.wal.next_xid.map_or(3, |next| next.saturating_sub(1));
        let has_first = has_any(self.status_page(3).cloned());
        let has_newest = has_any(self.status_page(newest).cloned());
        let is_garbled = self
            .status_page(newest)
            .is_some_and(|page| (0..page.len()).step_by(SECTOR_BYTES).any(|at| is_garbled(page, at)));
        is_garbled
            || self.is_filled
            || !(has_first && has_newest && (self.wal.is_complete || self.wal.next_xid.is_some()))
    }

    /// Takes up what the hint bits of a row tell of its transactions.
    pub fn witness(&mut self, header: &TupleHeader) {
        self.asked.clear();
        let inserted = match (header.has(infomask::XMIN_COMMITTED), header.has(infomask::XMIN_INVALID)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        };
        if let Some(committed) = inserted {
            self.witnesses.insert(header.xmin, committed);
        }
        if header.has(infomask::XMAX_COMMITTED) && !header.has(infomask::XMAX_IS_MULTI) {
            self.witnesses.insert(header.xmax, true);
        }
    }

    fn status_page(&mut self, xid: u32) -> Option<&Vec<u8>> {
        let byte = u64::from(xid / XACTS_PER_BYTE);
        self.page("pg_xact", byte / self.source.block_size as u64)
    }

    /// A page of status files, as far as its file has it.
    fn page(&mut self, directory: &str, page: u64) -> Option<&Vec<u8>> {
        let root = self.source.root.as_ref()?;
        if self.kept > MAX_PAGES {
            self.pages.clear();
            self.kept = 0;
        }
        let size = self.source.block_size;
        let control = self.source.control.as_ref();
        let per_segment =
            control.and_then(|control| control.slru_pages_per_segment).map_or(PAGES_PER_SEGMENT, u64::from);
        let segment = page.checked_div(per_segment)?;
        let number = |width: usize| format!("{segment:0width$X}");
        let directory = root.join(directory);
        let known = self.pages.entry(directory.clone()).or_default();
        let kept = &mut self.kept;
        let read = known.entry(page).or_insert_with(|| {
            *kept = kept.saturating_add(1);
            // Names have more digits where numbers are 8 bytes wide.
            let names = [number(4), number(15)];
            let file = names.iter().find_map(|name| ReadFile::open(&directory.join(name), Links::Refuse).ok())?;
            let offset = page.checked_rem(per_segment)?.saturating_mul(size as u64);
            let mut bytes = vec![0; size];
            let filled = file.read_at(&mut bytes, offset).ok()?;
            bytes.truncate(filled);
            Some(bytes)
        });
        read.as_ref()
    }

    /// The two bits of a transaction; `None` where they were lost or never written.
    fn bits(&mut self, xid: u32) -> Option<XactStatus> {
        let size = self.source.block_size;
        let at = usize::try_from(xid / XACTS_PER_BYTE).ok()?.checked_rem(size)?;
        // Bytes up to that of the next transaction are zero because they were not written yet.
        let written = self
            .wal
            .next_xid
            .filter(|next| *next > xid)
            .map(|next| (next / XACTS_PER_BYTE).abs_diff(xid / XACTS_PER_BYTE));
        let ahead = written.and_then(|bytes| usize::try_from(bytes).ok()).map_or(LOST_BYTES, |bytes| bytes.max(1));
        let is_filled = self.is_filled;
        let page = self.status_page(xid)?;
        if is_garbled(page, at) || is_filled && is_uniform(page) {
            return None;
        }
        let status = XactStatus::from_bits(page.get(at)? >> ((xid % XACTS_PER_BYTE) * 2));
        let (before, after) = page.split_at_checked(at)?;
        let is_zero = |byte: &&u8| **byte == 0;
        let after = after.iter().take(ahead.min(LOST_BYTES)).take_while(is_zero).count();
        let before = before.iter().rev().take(LOST_BYTES).take_while(is_zero).count();
        (after == 0 || before.saturating_add(after) < LOST_BYTES).then_some(status)
    }

    fn ended(&mut self, xid: u32) -> Ended {
        if let Some(ended) = self.asked.get(&xid) {
            return *ended;
        }
        let ended = self.find_end(xid);
        if self.asked.len() > MAX_ASKED {
            self.asked.clear();
        }
        self.asked.insert(xid, ended);
        ended
    }

    fn find_end(&mut self, xid: u32) -> Ended {
        match xid {
            0 => return Ended::Undone,
            1 | 2 => return Ended::Committed,
            _ => {}
        }
        if let Some(committed) = self.wal.ended.get(&xid).filter(|_| self.wal.trust == WalTrust::Proven) {
            return if *committed { Ended::Committed } else { Ended::Undone };
        }
        if self.prepared.contains(&xid) {
            return Ended::Prepared;
        }
        let is_later = self.wal.next_xid.is_some_and(|next| xid.wrapping_sub(next).cast_signed() >= 0);
        let bits = self.bits(xid);
        let witness =
            self.witnesses.get(&xid).map(|committed| if *committed { Ended::Committed } else { Ended::Undone });
        match bits {
            Some(XactStatus::Committed) => Ended::Committed,
            Some(XactStatus::Aborted) => Ended::Undone,
            _ if self.wal.is_complete && self.knows_prepared && (is_later || bits.is_some()) => Ended::Undone,
            _ if witness.is_none() && self.wal.ended.contains_key(&xid) => Ended::Foreign,
            Some(_) => witness.unwrap_or(Ended::Open),
            None => witness.unwrap_or(Ended::Unknown),
        }
    }

    /// Whether the row was inserted for good.
    pub fn insertion(&mut self, header: &TupleHeader) -> Visibility {
        let inserted = match (header.has(infomask::XMIN_COMMITTED), header.has(infomask::XMIN_INVALID)) {
            (true, _) => Ended::Committed,
            (false, true) => return Visibility::Dead,
            (false, false) => self.ended(header.xmin),
        };
        match inserted {
            Ended::Committed => Visibility::Live,
            Ended::Undone => Visibility::Dead,
            Ended::Prepared => Visibility::Unsure(Why::InserterPrepared),
            Ended::Open => Visibility::Unsure(Why::OpenAndWalMissing),
            Ended::Foreign => Visibility::Unsure(Why::WalMayBeForeign),
            Ended::Unknown => Visibility::Unsure(Why::NoPgXact),
        }
    }

    /// Whether the row belongs to its table.
    pub fn visibility(&mut self, header: &TupleHeader) -> Visibility {
        let inserted = self.insertion(header);
        if inserted == Visibility::Dead || header.was_never_deleted() {
            return inserted;
        }
        let is_multi = header.has(infomask::XMAX_IS_MULTI);
        if header.xmin == header.xmax && !is_multi && inserted != Visibility::Live {
            // One transaction inserted and deleted it: however that ended, the row does not exist.
            return Visibility::Dead;
        }
        let deleter = match is_multi {
            true => match self.updater(header.xmax) {
                Some(xid) => xid,
                None => return unsure(inserted, Why::MultixactUnknown),
            },
            false if header.has(infomask::XMAX_COMMITTED) => return Visibility::Dead,
            false => header.xmax,
        };
        match self.ended(deleter) {
            Ended::Committed => Visibility::Dead,
            Ended::Undone => inserted,
            Ended::Prepared => unsure(inserted, Why::DeleterPrepared),
            Ended::Open => unsure(inserted, Why::OpenAndWalMissing),
            Ended::Foreign => unsure(inserted, Why::WalMayBeForeign),
            Ended::Unknown => unsure(inserted, Why::DeleterUnknown),
        }
    }

    /// The member of a multixact that changed the row; `None` where it is lost: that of a row that was only locked is not asked for.
    fn updater(&mut self, multi: u32) -> Option<u32> {
        let members = match self.wal.multis.get(&multi).filter(|_| self.wal.trust == WalTrust::Proven) {
            Some(members) => members.clone(),
            None => self.members(multi)?,
        };
        members.iter().find(|(_, status)| *status >= FIRST_UPDATE).map(|(xid, _)| *xid)
    }

    /// Source: `MultiXactIdToOffsetPage` and its neighbours, `src/backend/access/transam/multixact.c`.
    fn members(&mut self, multi: u32) -> Option<Vec<(u32, u8)>> {
        let begin = self.member_offset(multi).filter(|offset| *offset > 0)?;
        let end = self.member_offset(multi.wrapping_add(1)).filter(|end| *end > begin);
        let limit = end.unwrap_or(u64::MAX).min(begin.saturating_add(MAX_MEMBERS));
        let per_page = (self.source.block_size as u64).checked_div(GROUP_BYTES)?.checked_mul(4)?;
        let mut members = Vec::new();
        for member in begin..limit {
            let page = self.page("pg_multixact/members", member.checked_div(per_page)?)?;
            let in_page = member.checked_rem(per_page)?;
            let group = usize::try_from((in_page / 4).saturating_mul(GROUP_BYTES)).ok()?;
            let index = usize::try_from(in_page % 4).ok()?;
            let status = *page.get(group.saturating_add(index))?;
            let xid = u32_at(page, group.saturating_add(4).saturating_add(index.saturating_mul(4)))?;
            // Where the next multixact does not tell the end, what was never written does.
            if xid == 0 {
                break;
            }
            members.push((xid, status));
        }
        Some(members)
    }

    fn member_offset(&mut self, multi: u32) -> Option<u64> {
        let width: u64 = if self.source.major.facts().has_wide_multixacts { 8 } else { 4 };
        let per_page = (self.source.block_size as u64).checked_div(width)?;
        let page = self.page("pg_multixact/offsets", u64::from(multi).checked_div(per_page)?)?;
        let at = usize::try_from(u64::from(multi).checked_rem(per_page)?.saturating_mul(width)).ok()?;
        let bytes = page.get(at..)?.get(..usize::try_from(width).ok()?)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}

/// True when more subtransactions wait for their parent than a crash leaves, in the sector of this byte or close to it: it was
/// overwritten.
fn is_garbled(page: &[u8], at: usize) -> bool {
    let waiting = |first: usize, count: usize| {
        let bytes = page.iter().skip(first).take(count);
        bytes.map(|byte| (byte & byte >> 1 & 0x55).count_ones()).fold(0, u32::saturating_add)
    };
    waiting(at.saturating_sub(at % SECTOR_BYTES), SECTOR_BYTES) > MAX_WAITING
        || waiting(at.saturating_sub(NEAR_BYTES), NEAR_BYTES.saturating_mul(2).saturating_add(1)) > 0
}

/// True when the last page of `pg_xact` has the end of every transaction: of those that were never begun a server has none. Some fill
/// a lost file with 0x55, by which all were committed.
fn is_filled(source: &Source) -> bool {
    let Some(directory) = source.root.as_ref().map(|root| root.join("pg_xact")) else { return false };
    let entries = list(&directory).unwrap_or_default();
    let numbered = |name: &str| u64::from_str_radix(name, 16).ok();
    let last = entries.iter().filter_map(|(name, _)| numbered(name.to_str()?).map(|number| (number, name))).max();
    let page = last.and_then(|(_, name)| {
        let path = directory.join(name);
        let size = source.block_size as u64;
        let start = path.metadata().ok()?.len().saturating_sub(1).checked_div(size)?.checked_mul(size)?;
        let mut page = vec![0; source.block_size];
        let filled = ReadFile::open(&path, Links::Refuse).ok()?.read_at(&mut page, start).ok()?;
        page.truncate(filled);
        Some(page)
    });
    page.is_some_and(|page| is_uniform(&page))
}

/// True when all bytes are the same and not zero.
fn is_uniform(page: &[u8]) -> bool {
    page.first().is_some_and(|first| *first != 0 && page.iter().all(|byte| byte == first))
}

fn unsure(inserted: Visibility, why: Why) -> Visibility {
    if inserted == Visibility::Live { Visibility::Unsure(why) } else { inserted }
}

/// Transactions of the files in `pg_twophase`, with their subtransactions, and whether all of these files were read.
fn prepared_of(source: &Source) -> (HashSet<u32>, bool) {
    let Some(directory) = source.root.as_ref().map(|root| root.join("pg_twophase")) else {
        return (HashSet::new(), false);
    };
    let Ok(entries) = list(&directory) else { return (HashSet::new(), false) };
    let (mut found, mut is_complete) = (HashSet::new(), true);
    for (name, _) in entries {
        let Some(number) = name.to_str().and_then(|name| u64::from_str_radix(name, 16).ok()) else { continue };
        found.insert(u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default());
        match read_small(&directory.join(&name), Links::Refuse, MAX_STATE_BYTES) {
            Ok(bytes) if check_twophase(&bytes).is_ok() => found.extend(prepared_xids(&bytes, source.major.number())),
            _ => is_complete = false,
        }
    }
    (found, is_complete)
}
