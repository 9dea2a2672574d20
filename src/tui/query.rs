//! Search in lists: terms that must all match. They are those of `dump`, and a few words more.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use super::look::columns;
use super::state::Column;
use crate::analysis::dwb::slot_facts::{Condition, SlotRow};
use crate::analysis::pages::select::{RelationPattern, Span};
use crate::analysis::verdict::survey::PageReport;
use crate::inspect::page_name::PageName;
use crate::inspect::page_target::RelationChoice;
use crate::output::escape::quoted;
use crate::types::{ForkNumber, Geometry, Lsn, PageId, RelFileLocator};

/// Names of terms, for the message about another one.
const NAMES: &str = "relation, fork, block, slots, file, lsn, state, batch, disk, by, verdict";

/// States of a slot, as `dump --state` has them.
const STATES: [&str; 6] = ["empty", "used", "good", "bad", "unverifiable", "torn"];

#[derive(Clone, Copy)]
pub struct Lists<'a> {
    pub names: &'a BTreeMap<RelFileLocator, String>,
    pub files: &'a [String],
    /// Damaged pages, by identity.
    pub pages: &'a [PageReport],
    pub slots: &'a [SlotRow],
    pub slot_index: &'a SlotIndex,
}

impl<'a> Lists<'a> {
    /// The damaged page with this identity.
    pub fn damaged(&self, page: PageId) -> Option<&'a PageReport> {
        self.pages.binary_search_by_key(&page, |report| report.page).ok().and_then(|index| self.pages.get(index))
    }
}

/// A relation as it is typed: numbers, or a part of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Relation {
    pattern: Option<RelationPattern>,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Relation(Relation),
    Block(Span<u32>),
    Slots(Span<u64>),
    File(String),
    Lsn(Span<Lsn>),
    State(String),
    Is(&'static str, String),
    Text(Relation),
}

/// Terms that must all fit; nothing fits an empty one.
///
/// `1259`, `5/1259`, `public.note` name a relation, `1259:7` or `:7` a block, `stale` or `torn` a word of the row. As in
/// `dump`: `batch=stale`, `block=0-9`, `lsn=0/1F00000-`, `state=bad`, or with the dashes of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    text: String,
    terms: Vec<Term>,
    /// The arguments of `dump` that take the same slots; `None` when a term is not one of that command.
    arguments: Option<String>,
}

fn relation(word: &str) -> Relation {
    Relation { pattern: word.parse().ok(), name: word.to_lowercase() }
}

/// A page or relation that a line or a path names, and the relation.
fn pasted(text: &str) -> Option<(PageName, Relation)> {
    const WORDS_OF_A_LINE: usize = 5;
    let is_path = ["base/", "global/", "pg_tblspc/"].iter().any(|root| text.contains(root));
    let is_pasted = is_path || text.split_whitespace().count() >= WORDS_OF_A_LINE;
    let mention = PageName::find(text).filter(|_| is_pasted)?;
    let relation = match mention.relation()? {
        RelationChoice::Numbers(pattern) => Relation { pattern: Some(*pattern), name: pattern.to_string() },
        RelationChoice::Name(name) => relation(name),
    };
    Some((mention, relation))
}

fn value<T: FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

impl Query {
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let mut query = Self { text: text.to_owned(), arguments: Some(String::new()), ..Self::default() };
        if let Some((mention, relation)) = pasted(text) {
            query.arguments = None;
            query.terms.push(Term::Relation(relation));
            query
                .terms
                .extend(mention.block(Geometry::USUAL.rel_segment_blocks).map(|block| Term::Block(Span::of(block))));
            return Ok(query);
        }
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            match word.strip_prefix("--") {
                // As on the command line: the value is after an equals sign or is the next word.
                Some(name) => match name.split_once('=') {
                    Some((name, value)) => query.named(name, value)?,
                    None => query.named(name, words.next().ok_or_else(|| format!("{word} needs a value"))?)?,
                },
                None => query.word(word)?,
            }
        }
        Ok(query)
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        if let Some(bound) = word.strip_prefix(">=") {
            return self.named("lsn", &format!("{bound}-"));
        }
        if let Some(bound) = word.strip_prefix("<=") {
            return self.named("lsn", &format!("-{bound}"));
        }
        if let Some((name, value)) = word.split_once('=') {
            return self.named(name, value);
        }
        let Some((rel, block)) = word.rsplit_once(':') else {
            self.arguments = None;
            self.terms.push(Term::Text(relation(word)));
            return Ok(());
        };
        if !rel.is_empty() {
            self.named("relation", rel)?;
        }
        self.named("block", block)
    }

    fn named(&mut self, name: &str, text: &str) -> Result<(), String> {
        let term = match name {
            "relation" => Term::Relation(relation(text)),
            "block" => Term::Block(value(text)?),
            "slots" => Term::Slots(value(text)?),
            "file" => Term::File(text.to_owned()),
            "lsn" => Term::Lsn(value(text)?),
            "state" if STATES.contains(&text) => Term::State(text.to_owned()),
            "state" => return Err(format!("\"{text}\" is not a state; the states are {}", STATES.join(", "))),
            "fork" => Term::Is("fork", text.to_lowercase()),
            "batch" => Term::Is("batch", text.to_lowercase()),
            "disk" => Term::Is("disk", text.to_lowercase()),
            "by" => Term::Is("by", text.to_lowercase()),
            "verdict" => Term::Is("verdict", text.to_lowercase()),
            _ => return Err(format!("\"{name}\" is not a term; the terms are {NAMES}")),
        };
        let is_of_dump = match &term {
            Term::Relation(relation) => relation.pattern.is_some(),
            Term::Is(name, _) => matches!(*name, "fork" | "batch"),
            _ => true,
        };
        self.arguments = self.arguments.take().filter(|_| is_of_dump).map(|mut arguments| {
            arguments.push_str(&format!(" --{name} {}", quoted(text)));
            arguments
        });
        self.terms.push(term);
        Ok(())
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The arguments of `dump` for the same slots, where it has them.
    pub fn arguments(&self) -> Option<&str> {
        self.arguments.as_deref()
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Tells for any slot whether it fits. Names are looked through once, not for every slot.
    pub fn slots<'a>(&'a self, lists: Lists<'a>) -> impl Fn(usize) -> bool + 'a {
        let of_relations = |term: &Term| match term {
            Term::Relation(relation) | Term::Text(relation) => {
                let names = named_by(term, lists);
                lists.slot_index.rels_that(|rel| fits(relation, rel, &names))
            }
            _ => Vec::new(),
        };
        let relations: Vec<Vec<bool>> = self.terms.iter().map(of_relations).collect();
        move |at| {
            let Some(row) = lists.slots.get(at) else { return false };
            let is_used = row.condition != Condition::Empty;
            let is_of = |fit: &Vec<bool>| is_used && fit.get(lists.slot_index.rel(at)).copied().unwrap_or(false);
            !self.terms.is_empty()
                && self.terms.iter().zip(&relations).all(|(term, fit)| match term {
                    Term::Relation(_) => is_of(fit),
                    Term::Text(word) => is_of(fit) || slot_words(row).iter().any(|own| own.starts_with(&word.name)),
                    Term::Block(span) => is_used && span.contains(&row.block),
                    Term::Lsn(span) => is_used && (span.contains(&row.slot_lsn) || span.contains(&row.page_lsn)),
                    Term::Slots(span) => span.contains(&row.index),
                    Term::File(name) => is_file(lists, row.file, name),
                    Term::State(state) => has_state(row, state),
                    Term::Is("verdict", word) => row
                        .page
                        .and_then(|page| lists.damaged(page))
                        .is_some_and(|report| report.verdict.verdict.name() == word),
                    Term::Is(name, word) => slot_word(row, name) == Some(word.as_str()),
                })
        }
    }

    /// Tells for any damaged page whether it fits. Terms of slots fit a page when one of its slots fits them.
    pub fn pages<'a>(&'a self, lists: Lists<'a>) -> impl Fn(&PageReport) -> bool + 'a {
        let fits_slot = self.slots(lists);
        let of_damaged = lists.slot_index.damaged().iter();
        let by_slot: BTreeSet<PageId> = of_damaged.filter(|(at, _)| fits_slot(*at)).map(|(_, page)| *page).collect();
        let named: Vec<BTreeSet<RelFileLocator>> = self.terms.iter().map(|term| named_by(term, lists)).collect();
        move |report| {
            let (disk, verdict) = (report.disk.name(), report.verdict.verdict.name());
            let label = report.verdict.verdict.facts().label;
            let words = [disk, report.strength.name(), verdict, label, report.page.fork.name()];
            let by_page = self.terms.iter().zip(&named).all(|(term, names)| match term {
                Term::Relation(relation) => fits(relation, report.page.rel, names),
                Term::Text(word) => {
                    fits(word, report.page.rel, names) || words.iter().any(|own| own.starts_with(&word.name))
                }
                Term::Block(span) => span.contains(&report.page.block),
                Term::Is("fork", word) => report.page.fork.name() == word,
                Term::Is("disk", word) => disk == word,
                Term::Is("verdict", word) => verdict == word,
                Term::Is(..) | Term::Slots(_) | Term::File(_) | Term::Lsn(_) | Term::State(_) => false,
            });
            !self.terms.is_empty() && (by_page || by_slot.contains(&report.page))
        }
    }

    /// Tells for a page that is known to be damaged and not judged yet, with the name of its relation, whether it fits.
    /// Nothing typed: every page fits. What only a judged page has fits none.
    pub(crate) fn found_pages(&self) -> impl Fn(PageId, &str) -> bool + '_ {
        move |page, called| {
            let is_of = |wanted: &Relation| {
                let by_number = wanted.pattern.is_some_and(|pattern| pattern.matches(page.rel));
                by_number || called.to_lowercase().contains(&wanted.name)
            };
            self.terms.iter().all(|term| match term {
                Term::Relation(relation) => is_of(relation),
                Term::Text(word) => is_of(word) || "pending".starts_with(&word.name) || page.fork.name() == word.name,
                Term::Block(span) => span.contains(&page.block),
                Term::Is("fork", word) => page.fork.name() == word,
                Term::Is(..) | Term::Slots(_) | Term::File(_) | Term::Lsn(_) | Term::State(_) => false,
            })
        }
    }
}

fn named_by(term: &Term, lists: Lists<'_>) -> BTreeSet<RelFileLocator> {
    let (Term::Relation(wanted) | Term::Text(wanted)) = term else { return BTreeSet::new() };
    let named = lists.names.iter().filter(|(_, name)| name.to_lowercase().contains(&wanted.name));
    named.map(|(rel, _)| *rel).collect()
}

fn fits(wanted: &Relation, rel: RelFileLocator, names: &BTreeSet<RelFileLocator>) -> bool {
    wanted.pattern.is_some_and(|pattern| pattern.matches(rel)) || names.contains(&rel)
}

/// By name, or by the number at its end, as `dump --file`.
fn is_file(lists: Lists<'_>, file: usize, wanted: &str) -> bool {
    let Some(name) = lists.files.get(file) else { return false };
    let number = name.rsplit_once('_').and_then(|(_, digits)| digits.parse::<u64>().ok());
    name == wanted || wanted.parse().is_ok_and(|wanted: u64| number.unwrap_or(file as u64) == wanted)
}

fn has_state(row: &SlotRow, state: &str) -> bool {
    match state {
        "empty" => row.condition == Condition::Empty,
        "used" => row.condition != Condition::Empty,
        "torn" => row.condition == Condition::Torn,
        "unverifiable" => row.condition == Condition::Unverifiable,
        state => crc_word(row) == state,
    }
}

fn crc_word(row: &SlotRow) -> &'static str {
    match row.condition {
        Condition::Empty => "empty",
        Condition::Sound => "good",
        Condition::Torn | Condition::Damaged => "bad",
        Condition::Unverifiable => "none",
        Condition::Aborted => "aborted",
    }
}

/// Words of a slot: CRC, batch, page on disk, writer, fork.
pub(crate) fn slot_words(row: &SlotRow) -> [&'static str; 5] {
    [
        crc_word(row),
        row.batch.map_or("-", |(verdict, _)| verdict.name()),
        row.comparison.map_or("-", |word| word.name()),
        row.path.map_or("-", |path| path.name()),
        row.fork.map_or("-", ForkNumber::name),
    ]
}

fn slot_word(row: &SlotRow, column: &str) -> Option<&'static str> {
    let [_, batch, disk, by, fork] = slot_words(row);
    match column {
        "batch" => Some(batch),
        "disk" => Some(disk),
        "by" => Some(by),
        "fork" => Some(fork),
        _ => None,
    }
}

/// Facts about slots for searching and sorting, collected once: an answer to a key has no time for it.
///
/// The relations of slots, by number, and the slots of damaged pages.
#[derive(Clone, Debug, Default)]
pub struct SlotIndex {
    rels: Vec<RelFileLocator>,
    /// For each slot the place of its relation among them.
    rel_of: Vec<usize>,
    damaged: Vec<(usize, PageId)>,
    /// All slots by each column, smallest first; equal ones by position.
    orders: Vec<(Column, Vec<usize>)>,
}

/// Slots by a key, smallest first; equal ones by position.
fn sorted<K: Ord>(slots: &[SlotRow], key: impl Fn(&SlotRow) -> K) -> Vec<usize> {
    let mut order: Vec<usize> = (0..slots.len()).collect();
    order.sort_by_cached_key(|at| slots.get(*at).map(&key));
    order
}

impl SlotIndex {
    /// Builds the index of these slots and damaged pages, which are sorted.
    pub fn of(slots: &[SlotRow], pages: &[PageReport]) -> Self {
        let mut rels: Vec<RelFileLocator> = slots.iter().map(|row| row.rel).collect();
        rels.sort_unstable();
        rels.dedup();
        let rel_of = slots.iter().map(|row| rels.binary_search(&row.rel).unwrap_or(usize::MAX)).collect();
        let is_damaged = |page: &PageId| pages.binary_search_by_key(page, |report| report.page).is_ok();
        let orders = vec![
            (Column::Slot, (0..slots.len()).collect()),
            (Column::Page, sorted(slots, |row| (row.rel, row.fork, row.block))),
            (Column::PageLsn, sorted(slots, |row| row.page_lsn)),
            (Column::Condition, sorted(slots, |row| row.condition)),
            (Column::Batch, sorted(slots, |row| row.batch)),
            (Column::Disk, sorted(slots, |row| slot_words(row)[2])),
        ];
        let damaged = (0..).zip(slots).filter_map(|(at, row)| Some((at, row.page.filter(is_damaged)?))).collect();
        Self { rels, rel_of, damaged, orders }
    }

    pub(crate) fn rels_that(&self, fits: impl Fn(RelFileLocator) -> bool) -> Vec<bool> {
        self.rels.iter().map(|rel| fits(*rel)).collect()
    }

    /// All slots by a column, smallest first.
    pub fn by(&self, column: Column) -> &[usize] {
        self.orders.iter().find(|(one, _)| *one == column).map_or(&[], |(_, order)| order)
    }

    pub fn rel(&self, slot: usize) -> usize {
        self.rel_of.get(slot).copied().unwrap_or(usize::MAX)
    }

    pub fn damaged(&self) -> &[(usize, PageId)] {
        &self.damaged
    }

    /// Columns of the longest name that a relation of these slots has; of its numbers, where it has none.
    pub(crate) fn name_columns(&self, slots: &[usize], names: &BTreeMap<RelFileLocator, String>) -> usize {
        let mut is_seen = vec![false; self.rels.len()];
        for slot in slots {
            if let Some(seen) = is_seen.get_mut(self.rel(*slot)) {
                *seen = true;
            }
        }
        let seen = self.rels.iter().zip(is_seen).filter(|(_, is_seen)| *is_seen).map(|(rel, _)| rel);
        let of = |rel: &RelFileLocator| names.get(rel).map_or_else(|| columns(&rel.to_string()), |name| columns(name));
        seen.map(of).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::dwb::staleness::{BatchReason, BatchVerdict};

    fn row() -> SlotRow {
        SlotRow {
            file: 0,
            index: 3,
            slot_id: 3,
            rel: RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 1259 },
            fork: Some(ForkNumber::Main),
            block: 7,
            slot_lsn: Lsn(0x1F0_0000),
            page_lsn: Lsn(0x1F0_0000),
            condition: Condition::Sound,
            page_checksum: None,
            path: None,
            page: None,
            batch: Some((BatchVerdict::Stale, BatchReason::NoEvidence)),
            comparison: None,
        }
    }

    /// A path that names no relation is read as words, or refused: what is typed is never an empty search.
    #[test]
    fn path_without_a_relation_is_no_empty_search() {
        for text in [":57/pg_tblspc/ase/c/;sn:-95-8@ :6 \n:l_", "a b c d :7", "base/x y z :8"] {
            assert!(Query::parse(text).is_ok_and(|query| !query.is_empty()) || Query::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn all_terms_must_fit() {
        let names = BTreeMap::from([(row().rel, "public.Note".to_owned())]);
        let (slots, files) = ([row()], ["dwbuf_004".to_owned()]);
        let slot_index = SlotIndex::of(&slots, &[]);
        let lists = Lists { names: &names, files: &files, pages: &[], slots: &slots, slot_index: &slot_index };
        let fits = |text: &str| Query::parse(text).unwrap().slots(lists)(0);
        for text in [
            "1259",
            "5/1259",
            "note",
            "1259:7",
            ":7",
            "stale",
            "batch=stale",
            "good >=0/1F00000",
            "<=0/1F00000",
            "slots=3",
            "slots=0-9",
            "file=4",
            "file=dwbuf_004",
            "state=used state=good",
            "--relation 5/1259 --batch=stale",
            "lsn=0/1F00000-0/1F00001",
            "base/5/1259",
            "base/5/1259:7",
            "ERROR:  invalid page in block 7 of relation base/5/1259",
        ] {
            assert!(fits(text), "{text}");
        }
        for text in [
            "",
            "259",
            "1259:8",
            "current",
            "stale bad",
            ">=0/1F00001",
            "batch=st",
            "block=8",
            "file=0",
            "state=empty",
            "slots=4-",
            "verdict=restore",
            "ERROR:  invalid page in block 8 of relation base/5/1259",
        ] {
            assert!(!fits(text), "{text}");
        }
    }

    #[test]
    fn wrong_terms_are_named() {
        for text in [">=x", "<=", "a:b", "x=y", "state=x", "--batch", "block=9-1"] {
            assert!(Query::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn terms_of_the_command_line_are_given_back() {
        let arguments = |text: &str| Query::parse(text).unwrap().arguments().map(str::to_owned);
        assert_eq!(arguments("5/1259:7 batch=stale").as_deref(), Some(" --relation 5/1259 --block 7 --batch stale"));
        assert_eq!(arguments("note"), None, "dump knows no names");
        assert_eq!(arguments("disk=torn"), None);
    }
}
