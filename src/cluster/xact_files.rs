//! Whether the files of `pg_xact` and `pg_multixact` hold what a table may ask for: how every transaction ended, and which
//! transactions each multixact stands for.
//! Also here: files of pages that a server numbers by a counter that comes round.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use super::data_dir::DataDir;
use super::open::{Links, ReadFile, read_small};
use super::server_files::FileFault;
use super::xact_log::{SLRU_PAGES_PER_SEGMENT, XactLog};
use crate::parsers::control::ControlFile;
use crate::parsers::heap::XactStatus;

/// Transactions in one byte.
const XACTS_PER_BYTE: u64 = 4;

/// Ids that no transaction has: the server's own.
const OWN_XIDS: u64 = 3;

/// So many transactions in a row do not all run when a checkpoint comes.
const MANY_XACTS: u64 = 2048;

/// Bytes of the place in the files of members where those of one multixact begin, up to 18 and from 19 on.
///
/// Source: `MULTIXACT_OFFSETS_PER_PAGE`, `src/backend/access/transam/multixact.c`; of 19 `src/include/access/multixact_internal.h`.
const MULTI_BYTES_TO_18: u64 = 4;
const MULTI_BYTES: u64 = 8;

/// Bytes of the time of a commit and of where it came from.
///
/// Source: `CommitTimestampEntry`, `src/backend/access/transam/commit_ts.c`.
const TIME_BYTES: u64 = 10;

/// Members in a group, and bytes of the group: a byte of flags for each, then the transactions.
///
/// Source: `MULTIXACT_MEMBERS_PER_MEMBERGROUP` and `MULTIXACT_MEMBERGROUP_SIZE`, the same files.
const MEMBERS_PER_GROUP: u64 = 4;
const GROUP_BYTES: u64 = 20;

/// So many multixacts are not all being made when a checkpoint comes.
const MANY_MULTIS: u64 = 1024;

/// How transactions ended, by `pg_xact`.
#[derive(Debug)]
pub(crate) struct XactStates(XactLog);

impl XactStates {
    pub fn new(directory: &DataDir, control: &ControlFile) -> Self {
        let pages = control.slru_pages_per_segment.unwrap_or(SLRU_PAGES_PER_SEGMENT);
        Self(XactLog::new(directory.root(), control.geometry.block_size, pages))
    }

    /// The file, relative to the data directory, that says of a transaction that it did not commit; `None` where it did, and where
    /// nothing is known of it.
    pub(crate) fn not_committed(&mut self, xid: u32) -> Option<PathBuf> {
        let status = self.0.status(xid, &mut Vec::new());
        let is_committed = matches!(status, XactStatus::Committed | XactStatus::Unknown);
        (!is_committed).then(|| self.0.file_of(xid))
    }
}

/// Files of `pg_xact` that are held at once: those of the newest transactions.
const MAX_XACT_FILES: u32 = 256;

/// How transactions ended, by `pg_xact`, held in memory: 2 bits each of the newest 268 million.
#[derive(Debug)]
pub(crate) struct XactTable {
    files: HashMap<u32, Vec<u8>>,
    xacts_per_file: u32,
    oldest: u32,
    next: u32,
}

impl XactTable {
    /// Reads the files from the oldest transaction of a table to the last one before a shutdown.
    pub fn read(directory: &DataDir, control: &ControlFile) -> Self {
        let pages = control.slru_pages_per_segment.unwrap_or(SLRU_PAGES_PER_SEGMENT);
        let bytes = control.geometry.block_size.saturating_mul(pages);
        let xacts_per_file = bytes.saturating_mul(4).max(1);
        let (oldest, next) = (control.checkpoint.oldest_xid, control.checkpoint.next_xid());
        let mut files = HashMap::new();
        let last = next.wrapping_sub(1).checked_div(xacts_per_file).unwrap_or_default();
        for number in (0..MAX_XACT_FILES).filter_map(|back| last.checked_sub(back)) {
            let path = directory.root().join(format!("pg_xact/{number:04X}"));
            if let Ok(bytes) = read_small(&path, Links::Refuse, u64::from(bytes)) {
                files.insert(number, bytes);
            }
        }
        Self { files, xacts_per_file, oldest, next }
    }

    /// True for a transaction that a table may name and that did not commit; false too where that is not known.
    pub(crate) fn is_undone(&self, xid: u32) -> bool {
        // Numbers come round, so this is about distance.
        let is_before = |other: u32| xid.wrapping_sub(other).cast_signed() < 0;
        if u64::from(xid) < OWN_XIDS || is_before(self.oldest) || !is_before(self.next) {
            return false;
        }
        let (number, rest) = (xid.checked_div(self.xacts_per_file), xid.checked_rem(self.xacts_per_file));
        let bits = number
            .and_then(|number| self.files.get(&number))
            .zip(rest)
            .and_then(|(bytes, rest)| Some(bytes.get(usize::try_from(rest / 4).ok()?)? >> ((rest & 3) << 1)));
        bits.is_some_and(|bits| matches!(XactStatus::from_bits(bits), XactStatus::Aborted | XactStatus::InProgress))
    }
}

/// Entries of `pg_multixact/offsets` and `pg_commit_ts`, looked up one by one.
#[derive(Debug)]
pub(crate) struct SlruEntries {
    root: PathBuf,
    of: &'static str,
    page_bytes: u64,
    entry_bytes: u64,
    open: Option<(PathBuf, Option<ReadFile>)>,
}

impl SlruEntries {
    /// Where the members of each multixact begin.
    pub(crate) fn of_multis(directory: &DataDir, control: &ControlFile) -> Self {
        let is_wide = directory.major().facts().has_wide_multixacts;
        let entry_bytes = if is_wide { MULTI_BYTES } else { MULTI_BYTES_TO_18 };
        Self::new(directory, control, "pg_multixact/offsets", entry_bytes)
    }

    /// When each transaction committed.
    pub(crate) fn of_times(directory: &DataDir, control: &ControlFile) -> Self {
        Self::new(directory, control, "pg_commit_ts", TIME_BYTES)
    }

    fn new(directory: &DataDir, control: &ControlFile, of: &'static str, entry_bytes: u64) -> Self {
        let page_bytes = u64::from(control.geometry.block_size);
        Self { root: directory.root().to_owned(), of, page_bytes, entry_bytes, open: None }
    }

    /// The first bytes of an entry, at most 8, as a number, and its file; `None` where it cannot be read.
    pub fn entry(&mut self, value: u32) -> Option<(u64, PathBuf)> {
        let per_page = self.page_bytes.checked_div(self.entry_bytes).filter(|per_page| *per_page > 0)?;
        let page = u64::from(value).checked_div(per_page)?;
        let in_page = u64::from(value).checked_rem(per_page)?.saturating_mul(self.entry_bytes);
        let pages = u64::from(SLRU_PAGES_PER_SEGMENT);
        let path = Path::new(self.of).join(format!("{:04X}", page.checked_div(pages)?));
        if self.open.as_ref().is_none_or(|(open, _)| *open != path) {
            self.open = Some((path.clone(), ReadFile::open(&self.root.join(&path), Links::Refuse).ok()));
        }
        let at = page.checked_rem(pages)?.saturating_mul(self.page_bytes).saturating_add(in_page);
        let bytes = usize::try_from(self.entry_bytes.min(8)).ok()?;
        let read = self.open.as_ref()?.1.as_ref()?.bytes_at(at, bytes).ok()??;
        Some((read.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)), path))
    }
}

/// Examines `pg_xact` from the oldest transaction of a table to the last one before the checkpoint, in order.
///
/// Sources: `TransactionIdToPage` and `TruncateCLOG`, `src/backend/access/transam/clog.c`.
pub(crate) fn xact_faults(directory: &DataDir, control: &ControlFile) -> Vec<SlruFault> {
    let page_bytes = u64::from(control.geometry.block_size);
    let Some(per_page) = NonZeroU64::new(page_bytes.saturating_mul(XACTS_PER_BYTE)) else { return Vec::new() };
    let checkpoint = &control.checkpoint;
    let Some(last) = checkpoint.next_full_xid.checked_sub(1).filter(|last| *last >= OWN_XIDS) else {
        return Vec::new();
    };
    let back_to = |xid: u32| {
        let low = u32::try_from(last & u64::from(u32::MAX)).unwrap_or_default();
        last.saturating_sub(u64::from(low.wrapping_sub(xid)))
    };
    let oldest = back_to(checkpoint.oldest_xid).max(OWN_XIDS);
    // What ran at the checkpoint may never have ended; where the server does not say, all of the last may have run.
    let ended = match checkpoint.oldest_active_xid {
        0..=2 if control.prefix.state.is_stopped_in_order() => Some(last),
        0..=2 => None,
        running => back_to(running).checked_sub(1),
    };
    let judge = |what: SlruPage, page: u64, offset: u64| {
        let first_xid = page.saturating_mul(per_page.get());
        let page_last = first_xid.saturating_add(per_page.get()).saturating_sub(1);
        let last_ended = page_last.min(ended.unwrap_or_default());
        let count = last_ended.saturating_add(1).saturating_sub(first_xid.max(OWN_XIDS));
        match what {
            SlruPage::Cut => Some(FileFault::XactsCut { last_xid: page_last.min(last), offset }),
            // The first page holds those that made the cluster.
            SlruPage::Zero if count >= MANY_XACTS || page == 0 => {
                Some(FileFault::XactsZero { first_xid: first_xid.max(OWN_XIDS), offset })
            }
            SlruPage::Zero => None,
        }
    };
    let files = SlruFiles { of: Path::new("pg_xact"), per_page, values: (oldest, last), is_wide: false };
    files.faults(directory, control, &judge)
}

/// Places of members on one page of `pg_multixact/offsets`.
fn multis_per_page(directory: &DataDir, control: &ControlFile) -> Option<NonZeroU64> {
    let is_wide = directory.major().facts().has_wide_multixacts;
    let multi_bytes = if is_wide { MULTI_BYTES } else { MULTI_BYTES_TO_18 };
    NonZeroU64::new(u64::from(control.geometry.block_size).checked_div(multi_bytes)?)
}

/// True when the next members come after others in their page, so that a start reads the page.
///
/// Source: `TrimMultiXact`, `src/backend/access/transam/multixact.c`.
pub(crate) fn continues_page_of_members(control: &ControlFile) -> bool {
    let groups_per_page = u64::from(control.geometry.block_size) / GROUP_BYTES;
    let group = control.checkpoint.next_multi_offset / MEMBERS_PER_GROUP;
    group.checked_rem(groups_per_page).is_some_and(|group| group > 0)
}

/// Examines the files of `pg_multixact`: first where the members of each multixact begin, then, as far as that is known, the
/// members.
///
/// Sources: `MultiXactIdToOffsetPage`, `MXOffsetToMemberPage` and `TrimMultiXact`, `src/backend/access/transam/multixact.c`.
pub(crate) fn multixact_faults(directory: &DataDir, control: &ControlFile) -> (Vec<SlruFault>, Vec<SlruFault>) {
    let page_bytes = u64::from(control.geometry.block_size);
    let members_per_page = page_bytes.checked_div(GROUP_BYTES).unwrap_or_default().saturating_mul(MEMBERS_PER_GROUP);
    let is_wide = directory.major().facts().has_wide_multixacts;
    let (Some(per_page), Some(members_per_page)) =
        (multis_per_page(directory, control), NonZeroU64::new(members_per_page))
    else {
        return Default::default();
    };
    let checkpoint = &control.checkpoint;
    // Numbers are unfolded, so that they do not come round in between.
    let next = (1_u64 << 32).saturating_add(u64::from(checkpoint.next_multi));
    let oldest = next.saturating_sub(u64::from(checkpoint.next_multi.wrapping_sub(checkpoint.oldest_multi)));
    let judge = |what: SlruPage, page: u64, offset: u64| {
        let first = page.saturating_mul(per_page.get());
        let count = next.min(first.saturating_add(per_page.get())).saturating_sub(first.max(oldest));
        match what {
            SlruPage::Cut => Some(FileFault::PageCut { offset }),
            SlruPage::Zero => (count >= MANY_MULTIS).then_some(FileFault::PageZero { offset }),
        }
    };
    let values = (oldest, next.saturating_sub(1));
    let offsets = SlruFiles { of: Path::new("pg_multixact/offsets"), per_page, values, is_wide: false };
    let offsets = offsets.faults(directory, control, &judge);
    // Of the members only the last file is certain: where those of the oldest multixact begin stands in the other files.
    let last = checkpoint.next_multi_offset.checked_sub(1);
    // Startup continues in its page even if no multixact is in use.
    let is_needed = |_: &u64| oldest < next || continues_page_of_members(control);
    let Some(last) = last.filter(is_needed) else { return (offsets, Vec::new()) };
    let cut = |what: SlruPage, _: u64, offset: u64| match what {
        SlruPage::Cut => Some(FileFault::PageCut { offset }),
        SlruPage::Zero => None,
    };
    let values = (last, last);
    let members = SlruFiles { of: Path::new("pg_multixact/members"), per_page: members_per_page, values, is_wide };
    (offsets, members.faults(directory, control, &cut))
}

/// Something is wrong with such a file.
#[derive(Debug)]
pub(crate) struct SlruFault {
    /// The file, relative to the data directory.
    pub file: PathBuf,
    pub fault: FileFault,
}

/// The server made it, not somebody who left a note.
pub(super) fn is_numbered(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit)
}

pub(super) struct SlruFiles<'a> {
    /// The directory, relative to the data directory.
    pub(super) of: &'a Path,
    pub(super) per_page: NonZeroU64,
    /// The oldest value that may be looked up, and the last one.
    pub(super) values: (u64, u64),
    /// Values have 64 bits and never come round; names of files have 15 digits.
    pub(super) is_wide: bool,
}

pub(super) enum SlruPage {
    /// The file ends before it is complete.
    Cut,
    Zero,
}

impl SlruFiles<'_> {
    fn file(&self, segment: u64) -> PathBuf {
        let digits = if self.is_wide { 15 } else { 4 };
        self.of.join(format!("{segment:0digits$X}"))
    }

    /// Number of a page since numbers last came round.
    fn in_round(&self, page: u64) -> u64 {
        // Other numbers come round after 2^32.
        let values = if self.is_wide { u64::MAX } else { 1 << 32 };
        page.checked_rem(values.div_ceil(self.per_page.get())).unwrap_or_default()
    }

    /// Examines the files in order. Files before a missing one at the beginning are not reported: a server may
    /// have removed them since. `judge` checks a page of this number at this offset, if anything is.
    pub(super) fn faults(
        &self,
        directory: &DataDir,
        control: &ControlFile,
        judge: &dyn Fn(SlruPage, u64, u64) -> Option<FileFault>,
    ) -> Vec<SlruFault> {
        let mut faults = Vec::new();
        let page_bytes = u64::from(control.geometry.block_size);
        let per_segment = u64::from(control.slru_pages_per_segment.unwrap_or(SLRU_PAGES_PER_SEGMENT));
        let Some(per_segment) = NonZeroU64::new(per_segment) else { return faults };
        let (oldest, last) = self.values;
        let (mut page, last_page) = (oldest / self.per_page, last / self.per_page);
        let mut has_begun = false;
        let mut buf = vec![0; usize::try_from(page_bytes).unwrap_or_default()];
        while page <= last_page {
            let in_round = self.in_round(page);
            let segment = in_round / per_segment;
            let segment_end = page.saturating_sub(in_round % per_segment).saturating_add(per_segment.get());
            let file = self.file(segment);
            let read = match ReadFile::open(&directory.root().join(&file), Links::Refuse) {
                Ok(read) => read,
                Err(error) => {
                    if has_begun || segment_end > last_page || !error.is_not_found() {
                        faults.push(SlruFault { file, fault: error.into() });
                    }
                    page = segment_end;
                    continue;
                }
            };
            has_begun = true;
            let pages = page..segment_end.min(last_page.saturating_add(1));
            let fault = pages.into_iter().find_map(|page| {
                let offset = (self.in_round(page) % per_segment).saturating_mul(page_bytes);
                match read.read_at(&mut buf, offset) {
                    Ok(filled) if filled < buf.len() => judge(SlruPage::Cut, page, offset),
                    Ok(_) if buf.iter().all(|byte| *byte == 0) => judge(SlruPage::Zero, page, offset),
                    Ok(_) => None,
                    Err(error) => Some(error.into()),
                }
            });
            faults.extend(fault.map(|fault| SlruFault { file, fault }));
            page = segment_end;
        }
        faults
    }
}
