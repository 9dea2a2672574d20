//! Whether the files of `pg_xact` hold how every transaction ended that a table may name.

use std::num::NonZeroU64;
use std::path::PathBuf;

use super::data_dir::DataDir;
use super::open::{Links, ReadFile};
use super::server_files::FileFault;
use super::xact_log::SLRU_PAGES_PER_SEGMENT;
use crate::parsers::control::ControlFile;

/// Transactions in one byte.
const XACTS_PER_BYTE: u64 = 4;

/// Ids that no transaction has: the server's own.
const OWN_XIDS: u64 = 3;

/// So many transactions in a row do not all run when a checkpoint comes.
const MANY_XACTS: u64 = 2048;

/// Something is wrong with a file of `pg_xact`.
#[derive(Debug)]
pub struct XactFault {
    /// The file, relative to the data directory.
    pub file: PathBuf,
    /// What.
    pub fault: FileFault,
}

/// Examines the files from the oldest transaction of a table to the last one before the checkpoint, in order. After a segment at the
/// beginning that is missing nothing is said of those before it: a server may have removed them since.
///
/// Sources: `TransactionIdToPage` and `TruncateCLOG`, `src/backend/access/transam/clog.c`.
#[must_use]
pub fn xact_faults(directory: &DataDir, control: &ControlFile) -> Vec<XactFault> {
    let page_bytes = u64::from(control.geometry.block_size);
    let per_segment = u64::from(control.slru_pages_per_segment.unwrap_or(SLRU_PAGES_PER_SEGMENT));
    let (Some(per_page), Some(per_segment)) =
        (NonZeroU64::new(page_bytes.saturating_mul(XACTS_PER_BYTE)), NonZeroU64::new(per_segment))
    else {
        return Vec::new();
    };
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

    let mut faults = Vec::new();
    // Numbers of transactions come round after 2^32.
    let Some(per_round) = NonZeroU64::new((1_u64 << 32).div_ceil(per_page.get())) else { return faults };
    let (mut page, last_page) = (oldest / per_page, last / per_page);
    let mut has_begun = false;
    let mut buf = vec![0; usize::try_from(page_bytes).unwrap_or_default()];
    while page <= last_page {
        let in_round = page % per_round;
        let segment = in_round / per_segment;
        let segment_end = page.saturating_sub(in_round % per_segment).saturating_add(per_segment.get());
        let file = PathBuf::from("pg_xact").join(format!("{segment:04X}"));
        let read = match ReadFile::open(&directory.root().join(&file), Links::Refuse) {
            Ok(read) => read,
            Err(error) => {
                if has_begun || segment_end > last_page || !error.is_not_found() {
                    faults.push(XactFault { file, fault: error.into() });
                }
                page = segment_end;
                continue;
            }
        };
        has_begun = true;
        let end = segment_end.min(last_page.saturating_add(1));
        if let Some(fault) = pages_fault(&read, page..end, &mut buf, (per_page, per_segment), (last, ended)) {
            faults.push(XactFault { file, fault });
        }
        page = segment_end;
    }
    faults
}

/// The first thing that is wrong with these pages of one file.
fn pages_fault(
    file: &ReadFile,
    pages: std::ops::Range<u64>,
    buf: &mut [u8],
    (per_page, per_segment): (NonZeroU64, NonZeroU64),
    (last, ended): (u64, Option<u64>),
) -> Option<FileFault> {
    let page_bytes = u64::try_from(buf.len()).unwrap_or(u64::MAX);
    for page in pages {
        let offset = (page % per_segment).saturating_mul(page_bytes);
        match file.read_at(buf, offset) {
            Ok(filled) if filled == buf.len() => {}
            Ok(_) => {
                let last_xid = page.saturating_add(1).saturating_mul(per_page.get()).saturating_sub(1).min(last);
                return Some(FileFault::XactsCut { last_xid, offset });
            }
            Err(error) => return Some(error.into()),
        }
        let first_xid = page.saturating_mul(per_page.get());
        let last_ended = first_xid.saturating_add(per_page.get()).saturating_sub(1).min(ended.unwrap_or_default());
        let count = last_ended.saturating_add(1).saturating_sub(first_xid.max(OWN_XIDS));
        // The first page holds those that made the cluster.
        let is_needed = count >= MANY_XACTS || page == 0;
        if is_needed && buf.iter().all(|byte| *byte == 0) {
            return Some(FileFault::XactsZero { first_xid: first_xid.max(OWN_XIDS), offset });
        }
    }
    None
}
