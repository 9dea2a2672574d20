//! Counts by group.
//! Also here: rows of groups, with what names say of relations: kinds, and the tables that indexes belong to.
//! Also here: counts of some relations alone.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashMap;

use super::cause::Cause;
use super::group_key::{Grain, GroupBy, Grouping, Key, RelationKind, RowKey};
use super::hidden_redo::RedoInForce;
use super::likely_cause::LikelyCause;
use super::relation_use::{RelationUse, RelationUses};
use super::tally::Tally;
use crate::analysis::pages::select::RelationPattern;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::cluster::names::RelationNames;
use crate::parsers::image::Compression;
use crate::parsers::wal::block::BlockHead;
use crate::parsers::wal::lifecycle::SubXacts;
use crate::parsers::wal::names::type_key;
use crate::parsers::wal::record::Record;
use crate::types::RelFileLocator;

/// Tallies by group.
///
/// Where records are grouped by their blocks, the bytes of a block reference's data go to its block, header and main
/// data go to the first block, and a record counts once in each group that it touches. The byte columns of all groups
/// sum up to the total; the record column does not. Of two keys the finer one decides: with a relation and a cause, an
/// image goes to both, and what else a record says of a block goes to its relation and no cause.
#[derive(Clone, Debug)]
pub struct Groups {
    by: Grouping,
    /// By resource manager and type: `rmgr_id * 16 + key / 16`; empty when records are grouped otherwise.
    dense: Vec<Tally>,
    sparse: FxHashMap<Key, Tally>,
    pairs: FxHashMap<(Key, Key), Tally>,
    /// All records that are not in `dense`.
    others: Tally,
    segment_size: u64,
    /// Ascending; empty where nothing is grouped by them.
    redo_points: Arc<[RedoInForce]>,
    relations: Option<RelationFilter>,
    /// The transaction above each subtransaction, as far as the records tell.
    parents: FxHashMap<u32, u32>,
}

impl Groups {
    /// No records yet. `redo_points`: of all checkpoints, ascending, where they are a key.
    pub fn new(by: Grouping, segment_size: u32, redo_points: Arc<[RedoInForce]>) -> Self {
        let is_dense = by.second.is_none() && matches!(by.first, GroupBy::Rmgr | GroupBy::Record);
        let dense = if is_dense { vec![Tally::default(); 4096] } else { Vec::new() };
        Self {
            by,
            dense,
            sparse: FxHashMap::default(),
            pairs: FxHashMap::default(),
            others: Tally::default(),
            segment_size: u64::from(segment_size).max(1),
            redo_points,
            relations: None,
            parents: FxHashMap::default(),
        }
    }

    /// Counts these relations alone; `None`: all that records say.
    pub fn of(mut self, relations: Option<RelationFilter>) -> Self {
        self.relations = relations;
        self
    }

    /// True when blocks of a relation are counted.
    pub fn takes(&self, rel: RelFileLocator) -> bool {
        self.relations.as_ref().is_none_or(|filter| filter.takes(rel))
    }

    /// Counts a record. Causes are not known here: see `Self::add_with_causes`.
    #[inline(always)]
    pub fn add(&mut self, record: &Record<'_>) {
        let key = type_key(record.header.rmgr_id, record.header.info);
        match self
            .dense
            .get_mut(usize::from(record.header.rmgr_id).saturating_mul(16).saturating_add(usize::from(key >> 4)))
        {
            Some(tally) => tally.add_part(record, self.relations.as_ref()),
            // A copy, so that the record itself need not be in memory where this is not taken.
            None => self.add_with_causes(&{ *record }, &[]),
        }
    }

    /// Counts a record whose images have these causes, in the order of the block references that have one.
    #[inline(never)]
    pub(crate) fn add_with_causes(&mut self, record: &Record<'_>, causes: &[Cause]) {
        // Who is above whom, records of other relations tell as well.
        if self.by.has(GroupBy::Xid) {
            self.add_parents(record);
        }
        let own = self.relations.as_ref().map(|filter| filter.part_of(record));
        let part = match own {
            None => None,
            Some(None) => return,
            Some(part) => part,
        };
        match &part {
            Some(part) => self.others.add(part),
            None => self.others.add_record(record),
        }
        let (first, second) = (self.by.first, self.by.second);
        let takes = self.relations.as_ref().zip(part.as_ref());
        let of_record = |by| self.key_of_record(by, record);
        match second {
            None => {
                let whole = of_record(first);
                let key_of = |part: Option<&Part<'_>>| key_of(first, whole, part);
                count(&mut self.sparse, (record, takes), causes, first.grain(), key_of);
            }
            Some(second) => {
                let wholes = (of_record(first), of_record(second));
                let key_of = |part: Option<&Part<'_>>| (key_of(first, wholes.0, part), key_of(second, wholes.1, part));
                // Blocks without an image count for their relation even where images have a key of their own.
                let has_blocks = first.grain() == Grain::Block || second.grain() == Grain::Block;
                let grain = if has_blocks { Grain::Block } else { first.grain().max(second.grain()) };
                count(&mut self.pairs, (record, takes), causes, grain, key_of);
            }
        }
    }

    /// The group of a record as a whole; `Key::None` where only its blocks or images have one.
    fn key_of_record(&self, by: GroupBy, record: &Record<'_>) -> Key {
        let (rmgr_id, info) = (record.header.rmgr_id, record.header.info);
        match by {
            GroupBy::Rmgr => Key::Rmgr(rmgr_id),
            GroupBy::Record => Key::Record(rmgr_id, type_key(rmgr_id, info)),
            GroupBy::Segment => {
                Key::Segment(record.tli, record.start_lsn.0.checked_div(self.segment_size).unwrap_or_default())
            }
            GroupBy::Checkpoint => {
                let passed = self.redo_points.partition_point(|redo| redo.latest <= record.start_lsn);
                Key::Checkpoint(passed.checked_sub(1).and_then(|index| self.redo_points.get(index)).copied())
            }
            GroupBy::Xid if record.header.xid > 0 => Key::Xid(record.header.xid),
            _ => Key::None,
        }
    }

    /// Notes what a record tells of subtransactions.
    fn add_parents(&mut self, record: &Record<'_>) {
        let own = record.header.xid;
        if let Some(top) = record.layout.top_xid.filter(|top| *top != own) {
            self.parents.insert(own, top);
        }
        // What cannot be decoded leaves its subtransactions on their own.
        if let Ok(Some(SubXacts { xid, subxids })) = SubXacts::of(record) {
            for subxid in subxids {
                self.parents.entry(subxid).or_insert(xid);
            }
        }
    }

    /// What rows stand for.
    pub const fn by(&self) -> Grouping {
        self.by
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (own, other) in self.dense.iter_mut().zip(&other.dense).filter(|(_, other)| other.records > 0) {
            own.add(other);
        }
        for (key, tally) in &other.sparse {
            self.sparse.entry(*key).or_default().add(tally);
        }
        for (keys, tally) in &other.pairs {
            self.pairs.entry(*keys).or_default().add(tally);
        }
        self.parents.extend(&other.parents);
        self.others.add(&other.others);
    }

    /// All records that were counted, whatever their group.
    pub fn total(&self) -> Tally {
        let mut total = self.others;
        self.dense.iter().for_each(|tally| total.add(tally));
        total
    }

    /// Every group with something in it; by resource manager, every one that is built in.
    pub fn rows(&self) -> Vec<(RowKey, Tally)> {
        self.rows_as(&|key| key)
    }

    /// As [`Self::rows`], with the groups of one name put together: `name` says which they are.
    pub(crate) fn rows_as(&self, name: &dyn Fn(Key) -> Key) -> Vec<(RowKey, Tally)> {
        let mut rows: FxHashMap<RowKey, Tally> = FxHashMap::default();
        let mut add = |first: &Key, second: Option<&Key>, tally: &Tally| {
            let name = |key: &Key| name(self.at_top(*key));
            let key = RowKey { first: name(first), second: second.map(name) };
            rows.entry(key).or_default().add(tally);
        };
        self.sparse.iter().for_each(|(key, tally)| add(key, None, tally));
        self.pairs.iter().for_each(|((first, second), tally)| add(first, Some(second), tally));
        for (rmgr_id, types) in (0_u8..=255).zip(self.dense.chunks(16)) {
            match self.by.first {
                GroupBy::Rmgr => {
                    let mut sum = Tally::default();
                    types.iter().for_each(|tally| sum.add(tally));
                    if sum.records > 0 || rmgr_id < 22 {
                        add(&Key::Rmgr(rmgr_id), None, &sum);
                    }
                }
                _ => (0_u8..16)
                    .zip(types)
                    .filter(|(_, tally)| tally.records > 0)
                    .for_each(|(key, tally)| add(&Key::Record(rmgr_id, key << 4), None, tally)),
            }
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        rows
    }

    /// The group that a subtransaction counts for.
    fn at_top(&self, key: Key) -> Key {
        let Key::Xid(mut xid) = key else { return key };
        // Parents of damaged WAL may form a circle.
        for _ in 0..=self.parents.len() {
            match self.parents.get(&xid) {
                Some(parent) => xid = *parent,
                None => return Key::Xid(xid),
            }
        }
        key
    }
}

/// A block reference, with the cause and the compression of its image.
struct Part<'a> {
    block: &'a BlockHead,
    cause: Option<Cause>,
    compression: Option<Compression>,
}

/// The group of a part of a record; `None`: of what belongs to no part. `whole`: the group of the record as a whole.
fn key_of(by: GroupBy, whole: Key, part: Option<&Part<'_>>) -> Key {
    let Some(Part { block, cause, compression }) = part else { return whole };
    match by {
        GroupBy::Relation => Key::Relation(block.rel),
        GroupBy::Table => Key::Table(block.rel),
        GroupBy::Kind => Key::RelationFork(block.rel, block.fork_code()),
        GroupBy::Fork => Key::Fork(block.fork_code()),
        GroupBy::Block => Key::Block(block.rel, block.fork_code(), block.block),
        GroupBy::Database => Key::Database(block.rel.db_oid),
        GroupBy::Tablespace => Key::Tablespace(block.rel.spc_oid),
        GroupBy::Compression if block.image.is_some() => Key::Compression(*compression),
        GroupBy::Cause => cause.map_or(Key::None, Key::Cause),
        _ => whole,
    }
}

/// Counts a record in the groups of its parts: see [`Groups`]. `takes`: the relations that are counted alone, and what they
/// have of the record.
fn count<K: Copy + Eq + Hash>(
    groups: &mut FxHashMap<K, Tally>,
    (record, takes): (&Record<'_>, Option<(&RelationFilter, &Tally)>),
    causes: &[Cause],
    grain: Grain,
    key_of: impl Fn(Option<&Part<'_>>) -> K,
) {
    if grain == Grain::Record {
        let tally = groups.entry(key_of(None)).or_default();
        return match takes {
            None => tally.add_record(record),
            Some((_, part)) => tally.add(part),
        };
    }
    let mut rest = takes.map_or_else(|| u64::from(record.length_without_images()), |(_, part)| part.record_bytes);
    let mut causes = causes.iter();
    // Most records have one group, which is looked up once.
    let (mut first, mut others): (Option<(K, Tally)>, Vec<K>) = (None, Vec::new());
    // Most records without an image are not worth a walk over their blocks where only images have groups.
    let blocks = (grain == Grain::Block || record.layout.image_count > 0).then(|| record.block_heads());
    for (_, block) in blocks.into_iter().flatten() {
        if grain == Grain::Image && block.image.is_none() {
            continue;
        }
        let cause = block.image.and_then(|_| causes.next()).copied();
        if takes.is_some_and(|(filter, _)| !filter.takes(block.rel)) {
            continue;
        }
        let compression = block.image.and_then(|image| record.major.image_compression(image.bimg_info));
        let key = key_of(Some(&Part { block: &block, cause, compression }));
        let (first_key, own) = first.get_or_insert_with(|| (key, Tally { records: 1, ..Tally::default() }));
        let tally = if *first_key == key { own } else { groups.entry(key).or_default() };
        if grain == Grain::Block {
            let data = u64::from(block.data_length);
            rest = rest.saturating_sub(data);
            tally.record_bytes = tally.record_bytes.saturating_add(data);
        }
        if let Some(image) = block.image {
            tally.add_image(image.length, record.block_size);
        }
        if *first_key != key && !others.contains(&key) {
            tally.records = tally.records.saturating_add(1);
            others.push(key);
        }
    }
    let (key, mut own) = first.unwrap_or_else(|| (key_of(None), Tally { records: 1, ..Tally::default() }));
    own.record_bytes = own.record_bytes.saturating_add(rest);
    if takes.is_none() {
        own.span_bytes = own.span_bytes.saturating_add(record.end_lsn.bytes_since(record.start_lsn).unwrap_or(0));
    }
    groups.entry(key).or_default().add(&own);
}

/// A group as a row of a table.
#[derive(Clone, Debug)]
pub struct GroupRow {
    pub key: RowKey,
    /// Its counts.
    pub tally: Tally,
    /// What was done with it, where the row stands for a relation or for a table with its indexes.
    pub figures: Option<RelationFigures>,
}

/// What was done with a relation, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationFigures {
    /// What it is; of a table with its indexes, what the table is.
    pub kind: RelationKind,
    /// Kinds of changes, by which an unnamed relation is recognised.
    pub activity: RelationUse,
    /// Blocks with an image, each counted once.
    pub distinct_blocks: u64,
    /// What its images probably come from; `None` of a table with its indexes, each of which has its own.
    pub likely_cause: Option<LikelyCause>,
}

impl RelationFigures {
    pub(crate) fn new(
        rel: RelFileLocator,
        uses: &RelationUses,
        distinct_blocks: u64,
        names: Option<&RelationNames>,
    ) -> Self {
        let activity = uses.of(rel);
        let kind = kind_of(rel, &activity, names);
        Self { kind, activity, distinct_blocks, likely_cause: LikelyCause::of(kind, &activity, distinct_blocks) }
    }

    fn add(&mut self, other: &Self) {
        self.activity.add(&other.activity);
        self.distinct_blocks = self.distinct_blocks.saturating_add(other.distinct_blocks);
        self.likely_cause = None;
    }
}

/// What a relation is, by its name and by what was done with it.
fn kind_of(rel: RelFileLocator, activity: &RelationUse, names: Option<&RelationNames>) -> RelationKind {
    let name = names.and_then(|names| names.get(rel));
    RelationKind::new(name.and_then(|name| name.kind), name.and_then(|name| name.access_method_oid), activity)
}

/// The rows of `groups` in the order of their keys. `uses`: what was done with the relations, where rows need it.
pub(crate) fn group_rows(groups: &Groups, uses: Option<&RelationUses>, names: Option<&RelationNames>) -> Vec<GroupRow> {
    let by = groups.by();
    let tables = names.filter(|_| by.has(GroupBy::Table)).map(RelationNames::tables).unwrap_or_default();
    let table_of = |rel: RelFileLocator| tables.get(&rel).copied().unwrap_or(rel);
    let name = |key: Key| match key {
        Key::Table(rel) => Key::Table(table_of(rel)),
        Key::RelationFork(rel, 0) => {
            let activity = uses.map(|uses| uses.of(rel)).unwrap_or_default();
            Key::Kind(kind_of(rel, &activity, names))
        }
        Key::RelationFork(_, fork_code) => Key::KindOfFork(fork_code),
        other => other,
    };
    let mut figures: FxHashMap<RelFileLocator, RelationFigures> = FxHashMap::default();
    if let Some(uses) = uses.filter(|_| by.is_of_relations()) {
        for (rel, blocks) in uses.distinct_blocks().into_iter().filter(|(rel, _)| groups.takes(*rel)) {
            let own = RelationFigures::new(rel, uses, blocks, names);
            figures.entry(table_of(rel)).and_modify(|sum| sum.add(&own)).or_insert(own);
        }
        for (rel, figures) in &mut figures {
            figures.kind = kind_of(*rel, &uses.of(*rel), names);
        }
    }
    let rows = groups.rows_as(&name).into_iter();
    rows.map(|(key, tally)| {
        let figures = match key.first {
            Key::Relation(rel) | Key::Table(rel) => figures.get(&rel).copied(),
            _ => None,
        };
        GroupRow { key, tally, figures }
    })
    .collect()
}

/// What was asked for: one relation, which may have several files.
#[derive(Debug)]
struct Wanted {
    text: String,
    patterns: Vec<RelationPattern>,
    met: AtomicBool,
}

impl Wanted {
    fn is_met(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }
}

/// Which relations are counted. Clones share what was met.
#[derive(Clone, Debug)]
pub struct RelationFilter {
    wanted: Arc<[Wanted]>,
}

impl RelationFilter {
    /// Those that fit a pattern of one of these, each as it was asked for and with its patterns.
    pub fn new(wanted: Vec<(String, Vec<RelationPattern>)>) -> Self {
        let one = |(text, patterns)| Wanted { text, patterns, met: AtomicBool::new(false) };
        Self { wanted: wanted.into_iter().map(one).collect() }
    }

    /// True when blocks of the relation are counted.
    pub fn takes(&self, rel: RelFileLocator) -> bool {
        let mut taken = false;
        for one in self.wanted.iter().filter(|one| one.patterns.iter().any(|pattern| pattern.matches(rel))) {
            taken = true;
            if !one.is_met() {
                one.met.store(true, Ordering::Relaxed);
            }
        }
        taken
    }

    /// What of a record is counted, as where records are grouped by relation: images and data of its blocks, and the rest of
    /// the record with its first block. `None`: nothing.
    pub(crate) fn part_of(&self, record: &Record<'_>) -> Option<Tally> {
        if record.layout.block_count == 0 {
            return None;
        }
        let mut part: Option<Tally> = None;
        let mut rest = u64::from(record.length_without_images());
        let mut takes_first = None;
        for (_, block) in record.block_heads() {
            let data = u64::from(block.data_length);
            rest = rest.saturating_sub(data);
            let taken = self.takes(block.rel);
            takes_first.get_or_insert(taken);
            if !taken {
                continue;
            }
            let tally = part.get_or_insert(Tally { records: 1, ..Tally::default() });
            tally.record_bytes = tally.record_bytes.saturating_add(data);
            if let Some(image) = block.image {
                tally.add_image(image.length, record.block_size);
            }
        }
        if let Some(tally) = part.as_mut().filter(|_| takes_first == Some(true)) {
            tally.record_bytes = tally.record_bytes.saturating_add(rest);
        }
        part
    }

    /// Those of which no block was met so far, as they were asked for.
    fn unmet(&self) -> impl Iterator<Item = &str> {
        self.wanted.iter().filter(|one| !one.is_met()).map(|one| one.text.as_str())
    }

    /// Says of which relations no block was met: a number that was mistyped looks like a relation without images.
    pub(crate) fn note_unmet(&self, coverage: &mut Coverage) {
        for text in self.unmet() {
            let part = SkippedPart::Argument { option: "--relation", value: text.to_owned() };
            coverage.skip(part, SkipReason::NoRecordOfRelation);
        }
    }
}

impl Tally {
    /// Counts a record, or what `filter` takes of it.
    #[inline(always)]
    pub(crate) fn add_part(&mut self, record: &Record<'_>, filter: Option<&RelationFilter>) {
        match filter {
            None => self.add_record(record),
            Some(filter) => {
                if let Some(part) = filter.part_of(&{ *record }) {
                    self.add(&part);
                }
            }
        }
    }
}
