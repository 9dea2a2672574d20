//! Counts of some relations alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::tally::Tally;
use crate::analysis::pages::select::RelationPattern;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::parsers::wal::record::Record;
use crate::types::RelFileLocator;

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
