//! Whether records end at given addresses: a page has no other LSN.

use std::collections::BTreeSet;

use super::collect::collect_run;
use super::segment::{Visitor, WatchRead};
use super::stretch::Stretch;
use crate::cluster::wal::{WalReadError, WalSet};
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::record::Record;
use crate::types::Lsn;

/// Those of `wanted` at which a record of the set ends; fewer where `watch` interrupts it.
pub(crate) fn ends_among(
    set: &WalSet,
    wanted: &BTreeSet<Lsn>,
    jobs: usize,
    watch: WatchRead<'_>,
) -> Result<BTreeSet<Lsn>, WalReadError> {
    let mut found = BTreeSet::new();
    let size = u64::from(set.geometry().wal_segment_size);
    for run in set.runs() {
        let starts = set.segments().get(run.clone()).unwrap_or_default();
        let holds =
            |lsn: &Lsn| starts.iter().any(|file| file.start_lsn < *lsn && *lsn <= file.start_lsn.advanced_by(size));
        if !wanted.iter().any(holds) {
            continue;
        }
        let stretch = Stretch { set, run, start_lsn: Lsn::INVALID, end_lsn: Lsn(u64::MAX), keep: Keep::Heads };
        let begin = |_| Ends { wanted, found: BTreeSet::new() };
        let walk = collect_run(&stretch, jobs, watch, begin, |part| {
            found.append(&mut part.found.found);
            Ok(())
        })?;
        if let Some(error) = walk.error {
            return Err(error);
        }
    }
    Ok(found)
}

struct Ends<'a> {
    wanted: &'a BTreeSet<Lsn>,
    found: BTreeSet<Lsn>,
}

impl Visitor for Ends<'_> {
    fn record(&mut self, record: &Record<'_>) {
        if self.wanted.contains(&record.end_lsn) {
            self.found.insert(record.end_lsn);
        }
    }
}
