//! Counts of some relations alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::tally::Tally;
use crate::analysis::finding::Coverage;
use crate::analysis::select::RelationPattern;
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::parsers::portable::{BadState, Portable, StateReader};
use crate::parsers::wal::record::Record;
use crate::types::RelFileLocator;

/// What was asked for: one relation, which may have several files.
#[derive(Debug)]
struct Wanted {
    /// As it was asked for.
    text: String,
    patterns: Vec<RelationPattern>,
    /// A block of it was met.
    met: AtomicBool,
}

impl Wanted {
    fn new(text: String, patterns: Vec<RelationPattern>, met: bool) -> Self {
        Self { text, patterns, met: AtomicBool::new(met) }
    }

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
    #[must_use]
    pub fn new(wanted: Vec<(String, Vec<RelationPattern>)>) -> Self {
        let wanted = wanted.into_iter();
        Self { wanted: wanted.map(|(text, patterns)| Wanted::new(text, patterns, false)).collect() }
    }

    /// True when blocks of the relation are counted.
    #[must_use]
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
    #[must_use]
    pub fn part_of(&self, record: &Record<'_>) -> Option<Tally> {
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
}

impl RelationFilter {
    /// True when it takes the same relations, asked for in the same way.
    #[must_use]
    pub fn is_as(&self, other: &Self) -> bool {
        let same = |(one, other): (&Wanted, &Wanted)| one.text == other.text && one.patterns == other.patterns;
        self.wanted.len() == other.wanted.len() && self.wanted.iter().zip(other.wanted.iter()).all(same)
    }

    /// What another one has met, which takes the same relations.
    pub fn meet_as(&self, other: &Self) {
        let met = self.wanted.iter().zip(other.wanted.iter()).filter(|(_, other)| other.is_met());
        met.for_each(|(own, _)| own.met.store(true, Ordering::Relaxed));
    }

    /// Says of which relations no block was met: a number that was mistyped looks like a relation without images.
    pub fn note_unmet(&self, coverage: &mut Coverage) {
        for text in self.unmet() {
            let part = SkippedPart::Argument { option: "--relation", value: text.to_owned() };
            coverage.skip(part, SkipReason::NoRecordOfRelation);
        }
    }
}

impl Portable for RelationFilter {
    fn put(&self, out: &mut Vec<u8>) {
        (self.wanted.len() as u64).put(out);
        for one in self.wanted.iter() {
            one.text.put(out);
            one.patterns.put(out);
            one.is_met().put(out);
        }
    }

    fn get(from: &mut StateReader<'_>) -> Result<Self, BadState> {
        let mut wanted = Vec::new();
        for _ in 0..u64::get(from)? {
            let (text, patterns) = Portable::get(from)?;
            wanted.push(Wanted::new(text, patterns, bool::get(from)?));
        }
        Ok(Self { wanted: wanted.into() })
    }
}

impl Tally {
    /// Counts a record, or what `filter` takes of it.
    #[inline(always)]
    pub fn add_part(&mut self, record: &Record<'_>, filter: Option<&RelationFilter>) {
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
