//! Several sets of WAL beside each other: before and after a change, one mode and another, two days.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::counting::Counting;
use super::names::NameLookup;
use super::read_wal::ReadWal;
use super::request::WalRequest;
use super::segments::{Reading, RunStep};
use super::source::WalSource;
use super::stats::WalCounts;
use super::watch::WatchWal;
use crate::analysis::wal::compare::{IntervalExtent, Part, RelationKey, SetCounter, SetFigures};
use crate::analysis::wal::group_key::{GroupBy, Key, RowKey};
use crate::analysis::wal::partial::{Counter, ScanPlan};
use crate::analysis::wal::stretch::Stretch;
use crate::analysis::wal::tally::Tally;
use crate::inspect::error::InspectError;
use crate::parsers::wal::block::Keep;
use crate::types::{Lsn, RelFileLocator};

/// How often each set is read: for all that can be counted in any order, and in order for causes.
const PASSES: u64 = 2;

/// Some WAL with a name.
#[derive(Clone, Debug)]
pub struct NamedWal {
    /// What it is called.
    pub name: String,
    /// Which WAL, and how it is read.
    pub wal: WalRequest,
}

/// A set that was read.
#[derive(Debug)]
pub struct ComparedSet {
    /// What it is called.
    pub name: String,
    /// What was read.
    pub paths: Vec<PathBuf>,
    /// Its figures.
    pub figures: SetFigures,
    /// The WAL that was read.
    pub wal: ReadWal,
    /// Start of the first record.
    pub from: Option<Lsn>,
    /// End of the last.
    pub to: Option<Lsn>,
}

/// What was read of one set, before relations are matched with those of the others.
struct ReadSet {
    set: ComparedSet,
    relations: Vec<(RowKey, Tally)>,
}

/// Reads all sets, one after the other. What could not be read is part of each set's coverage.
///
/// # Errors
/// When there is no such WAL, or names were asked for that cannot be read; the error says of which set.
pub fn wal_compare(sets: &[NamedWal], watch: WatchWal<'_>) -> Result<Vec<ComparedSet>, InspectError> {
    let of_set = |named: &NamedWal, error| InspectError::OfSet { name: named.name.clone(), error: Box::new(error) };
    // What cannot be opened is said before an hour is spent on reading the others.
    let mut opened = Vec::new();
    for named in sets {
        let names = NameLookup::open(named.wal.names.as_deref()).map_err(|error| of_set(named, error))?;
        let mut source = WalSource::open_watched(&named.wal, watch).map_err(|error| of_set(named, error))?;
        source.take_names(&names).map_err(|error| of_set(named, error))?;
        opened.push((named, names, source));
    }
    let total: u64 = opened.iter().map(|(_, _, source)| source.total_bytes().saturating_mul(PASSES)).sum();
    let mut done_before = 0_u64;
    let mut read = Vec::new();
    for (named, names, source) in opened {
        let bytes = source.total_bytes();
        let set = read_set(named, names, source, &mut |pass| {
            let base = done_before.saturating_add(bytes.saturating_mul(pass));
            move |done, _| watch(base.saturating_add(done), total)
        });
        done_before = done_before.saturating_add(bytes.saturating_mul(PASSES));
        read.push(set);
    }
    match_relations(&mut read);
    Ok(read.into_iter().map(|read| read.set).collect())
}

/// Reads one set. `watch_of`: what watches which pass over it.
fn read_set<W: Fn(u64, u64) -> ControlFlow<()> + Sync>(
    named: &NamedWal,
    names: NameLookup,
    mut source: WalSource,
    watch_of: &mut dyn FnMut(u64) -> W,
) -> ReadSet {
    let jobs = named.wal.jobs;
    let (counts, counter) = count_set(&mut source, jobs, &watch_of(0));
    let causes = source.once_more(|source| source.count(Some(GroupBy::Cause.into()), jobs, &watch_of(1)));
    source.coverage.examined = counts.total.records;
    source.note_range_without_wal();
    let mut figures = SetFigures { is_whole: source.is_whole(), ..SetFigures::default() };
    let intervals: Vec<IntervalExtent> = counts.intervals.iter().map(IntervalExtent::from).collect();
    figures.put_totals(&counts.total, &intervals, &counter.times);
    figures.put_groups(&causes.map_or_else(Vec::new, |causes| causes.rows()), |key| match key {
        Key::Cause(cause) => Some(Part::Cause(*cause)),
        _ => None,
    });
    figures.put_groups(&counter.compressions.rows(), |key| match key {
        Key::Compression(method) => Some(Part::Compression(*method)),
        _ => None,
    });
    let set = ComparedSet {
        name: named.name.clone(),
        paths: named.wal.paths.clone(),
        figures,
        wal: ReadWal::of(source, names),
        from: counts.from,
        to: counts.to,
    };
    ReadSet { set, relations: counter.relations.rows() }
}

/// Counts by interval, relation and compression.
fn count_set(source: &mut WalSource, jobs: usize, watch: WatchWal<'_>) -> (WalCounts, SetCounter) {
    let watched = source.watched(watch);
    let plan = ScanPlan { blocks: true, ..source.plan() };
    let segment_size = source.set.geometry().wal_segment_size;
    let (mut counting, mut counter) = (Counting::new(&plan, false), SetCounter::new(segment_size));
    let reading = Reading { plan: &plan, keep: Keep::Blocks, jobs, watched: &watched };
    let begin =
        |stretch: &Stretch<'_>, index| (Counter::new(stretch.set, index, &plan, &[]), SetCounter::new(segment_size));
    source.each_segment(&reading, begin, |stretch, step| match step {
        RunStep::Segment(part, end_lsn) => {
            let (counts, own) = &mut part.found;
            counter.merge(own);
            counting.take(stretch, (part.index, &part.extent), &mut counts.counts, end_lsn, &watched)
        }
        RunStep::End(_) => counting.end_run(stretch, &watched),
    });
    (counting.finish(&mut source.findings), counter)
}

/// Gives the relations of all sets keys that mean the same in each of them.
fn match_relations(read: &mut [ReadSet]) {
    let identifiers: Vec<Option<u64>> = read.iter().map(|read| read.set.wal.origin.system_identifier).collect();
    let same_cluster = identifiers.iter().all(|one| one.is_some() && *one == identifiers[0]);
    let keys: Vec<Vec<(Part, (RowKey, Tally))>> = read
        .iter()
        .map(|own| {
            let key_of = |(key, tally): &(RowKey, Tally)| {
                let Key::Relation(rel) = key.first else { return None };
                let part = Part::Relation(relation_key(rel, own, read, same_cluster));
                Some((part, (*key, *tally)))
            };
            own.relations.iter().filter_map(key_of).collect()
        })
        .collect();
    for (read, keys) in read.iter_mut().zip(keys) {
        for (part, row) in keys {
            read.set.figures.put_groups(&[row], |_| Some(part.clone()));
        }
    }
}

/// What a relation of `own` is found by in the other sets. Sets of one cluster lend each other their names.
fn relation_key(rel: RelFileLocator, own: &ReadSet, all: &[ReadSet], same_cluster: bool) -> RelationKey {
    let lenders = all.iter().filter(|_| same_cluster);
    let name = std::iter::once(own).chain(lenders).find_map(|read| read.set.wal.names.relation(rel));
    match name {
        Some(name) => RelationKey::Name(name),
        None if same_cluster => RelationKey::Numbers(rel),
        None => RelationKey::Unnamed,
    }
}
