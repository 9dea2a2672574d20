//! Several sets of WAL beside each other: before and after a change, one mode and another, two days.

use std::sync::Arc;

use super::counting::{Counting, Reading, RunStep};
use super::names::NameLookup;
use super::request::{WalRequest, WatchWal};
use super::source::{ReadWal, WalSource};
use crate::analysis::plan::compare::{Part, SetCounts, Work};
use crate::analysis::wal::group::Groups;
use crate::analysis::wal::group_key::{GroupBy, Grouping, Key, RowKey};
use crate::analysis::wal::partial::{Counter, ScanPlan};
use crate::analysis::wal::segment::Visitor;
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::tally::Tally;
use crate::inspect::error::InspectError;
use crate::parsers::wal::block::Keep;
use crate::parsers::wal::record::Record;
use crate::types::Lsn;

/// How often each set is read: for all that can be counted in any order, and in order for causes.
const PASSES: u64 = 2;

#[derive(Clone, Debug)]
pub(crate) struct NamedWal {
    pub name: String,
    pub wal: WalRequest,
}

#[derive(Debug)]
pub(crate) struct ComparedSet {
    pub counts: SetCounts,
    pub wal: ReadWal,
    pub range: (Option<Lsn>, Option<Lsn>),
    relations: Vec<(RowKey, Tally)>,
}

/// Reads all sets, one after the other. What could not be read is part of each set's coverage.
pub(crate) fn wal_compare(sets: &[NamedWal], watch: WatchWal<'_>) -> Result<Vec<ComparedSet>, InspectError> {
    // Unreadable inputs are reported before an hour is spent on the others.
    let open = |wal: &WalRequest| {
        let names = NameLookup::open(wal.names.as_deref())?;
        let mut source = WalSource::open_watched(wal, watch)?;
        source.take_names(&names)?;
        Ok((source, names, wal.jobs))
    };
    let of_set = |named: &NamedWal, error| InspectError::OfSet { name: named.name.clone(), error: Box::new(error) };
    let opened = sets.iter().map(|named| open(&named.wal).map_err(|error| of_set(named, error)));
    let opened = opened.collect::<Result<Vec<_>, _>>()?;
    let total = opened.iter().map(|(source, ..)| source.total_bytes().saturating_mul(PASSES)).sum();
    let (mut before, mut read) = (0_u64, Vec::new());
    for (source, names, jobs) in opened {
        let bytes = source.total_bytes();
        let watch_pass =
            |pass: u64, done| watch(before.saturating_add(bytes.saturating_mul(pass)).saturating_add(done), total);
        read.push(read_set(source, names, jobs, [&|done, _| watch_pass(0, done), &|done, _| watch_pass(1, done)]));
        before = before.saturating_add(bytes.saturating_mul(PASSES));
    }
    match_relations(&mut read);
    Ok(read)
}

/// Counts what can be counted in any order.
struct SetCounter<'a> {
    counter: Counter<'a>,
    work: Work,
    images: Groups,
}

impl Visitor for SetCounter<'_> {
    #[inline(always)]
    fn record(&mut self, record: &Record<'_>) {
        self.counter.record(record);
        self.work.record(record);
        if record.layout.image_count > 0 {
            self.images.add(&{ *record });
        }
    }
}

fn read_set(mut source: WalSource, names: NameLookup, jobs: usize, watch: [WatchWal<'_>; 2]) -> ComparedSet {
    let watched = source.watched(watch[0]);
    let plan = ScanPlan { blocks: true, ..source.plan() };
    let segment_size = source.set.geometry().wal_segment_size;
    let images = || {
        let by = Grouping::pair(GroupBy::Relation, GroupBy::Compression);
        Groups::new(by, segment_size, Arc::default())
    };
    let (mut counting, mut work, mut all) = (Counting::new(&plan, false), Work::default(), images());
    let reading = Reading { plan: &plan, keep: Keep::Blocks, jobs, watched: &watched };
    let begin = |stretch: &Stretch<'_>, index| SetCounter {
        counter: Counter::new(stretch.set, index, &plan, &[]),
        work: Work::default(),
        images: images(),
    };
    source.each_segment(&reading, begin, |stretch, step| match step {
        RunStep::Segment(part, end_lsn) => {
            work.append(&part.found.work);
            all.merge(&part.found.images);
            counting.take(stretch, (part.index, &part.extent), &mut part.found.counter.counts, end_lsn, &watched)
        }
        RunStep::End(_) => counting.end_run(stretch, &watched),
    });
    let found = counting.finish(&mut source.findings);
    let causes = source.once_more(|source| source.count(Some(GroupBy::Cause.into()), jobs, watch[1]));
    source.coverage.examined = found.total.records;
    source.note_range_without_wal();
    let mut counts = SetCounts::new(source.is_whole(), found.total, work, &found.intervals);
    let relations = all.rows();
    for (key, tally) in causes.iter().flat_map(|causes| causes.rows()).chain(relations.iter().copied()) {
        match (key.first, key.second) {
            (Key::Cause(cause), _) => counts.add(Part::Cause(cause), &tally),
            (_, Some(Key::Compression(method))) => counts.add(Part::Compression(method), &tally),
            _ => {}
        }
    }
    ComparedSet { counts, wal: ReadWal::of(source, names), range: (found.from, found.to), relations }
}

/// Gives the relations of all sets keys that mean the same in each of them. Sets of one cluster lend each other their names.
fn match_relations(sets: &mut [ComparedSet]) {
    let mut identifiers = sets.iter().map(|set| set.wal.origin.system_identifier);
    let first = identifiers.next().flatten();
    let same_cluster = first.is_some() && identifiers.all(|identifier| identifier == first);
    for index in 0..sets.len() {
        for (key, tally) in std::mem::take(&mut sets[index].relations) {
            let Key::Relation(rel) = key.first else { continue };
            let lenders = sets.iter().filter(|_| same_cluster);
            let name = std::iter::once(&sets[index]).chain(lenders).find_map(|set| set.wal.names.relation(rel));
            let part = match name {
                Some(name) => Part::Named(name),
                None if same_cluster => Part::Numbered(rel),
                None => Part::Unnamed,
            };
            sets[index].counts.add(part, &tally);
        }
    }
}
