//! What is looked for in lists: terms that must all fit.

use super::facts::{PageLine, Survey};
use crate::analysis::slot_facts::Condition;
use crate::analysis::slot_row::SlotRow;
use crate::types::{ForkNumber, Lsn};

/// One term.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    /// A block.
    Block(u32),
    /// A relation, by name or numbers, or the beginning of a word of the row.
    Text(String),
    /// A column with this very word.
    Is(String, String),
    /// LSN from here on.
    From(Lsn),
    /// LSN up to here.
    To(Lsn),
}

/// Terms that must all fit; nothing fits an empty one.
///
/// `1259`, `5/1259`, `public.note` name a relation, `1259:7` or `:7` a block, `stale` or `torn` a word of the row,
/// `batch=stale` a word of one column, `>=0/1F00000` and `<=0/1F00000` bounds of the image's LSN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    text: String,
    terms: Vec<Term>,
}

impl Query {
    /// Reads terms.
    ///
    /// # Errors
    /// When a bound is no LSN or a block no number: which term that is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for word in text.split_whitespace() {
            if let Some(bound) = word.strip_prefix(">=") {
                terms.push(Term::From(bound.parse().map_err(|error| format!("{error}"))?));
            } else if let Some(bound) = word.strip_prefix("<=") {
                terms.push(Term::To(bound.parse().map_err(|error| format!("{error}"))?));
            } else if let Some((column, value)) = word.split_once('=') {
                if !["relation", "fork", "block", "slot", "crc", "batch", "disk", "by"].contains(&column) {
                    return Err(format!(
                        "\"{column}\" is no column: there are relation, fork, block, slot, crc, batch, disk, by"
                    ));
                }
                terms.push(Term::Is(column.to_owned(), value.to_lowercase()));
            } else if let Some((relation, block)) = word.rsplit_once(':') {
                terms.push(Term::Block(block.parse().map_err(|_| format!("\"{word}\" names no block"))?));
                if !relation.is_empty() {
                    terms.push(Term::Text(relation.to_lowercase()));
                }
            } else {
                terms.push(Term::Text(word.to_lowercase()));
            }
        }
        Ok(Self { text: text.trim().to_owned(), terms })
    }

    /// What was typed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Nothing is looked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a slot fits.
    #[must_use]
    pub fn fits_slot(&self, row: &SlotRow, survey: &Survey) -> bool {
        !self.terms.is_empty()
            && self.terms.iter().all(|term| match term {
                Term::From(lsn) => row.condition != Condition::Empty && row.page_lsn >= *lsn,
                Term::To(lsn) => row.condition != Condition::Empty && row.page_lsn <= *lsn,
                Term::Block(block) => row.condition != Condition::Empty && row.block == *block,
                Term::Is(column, value) => slot_word(row, column, survey).is_some_and(|word| word == *value),
                Term::Text(text) => slot_has(row, text, survey),
            })
    }

    /// Whether a damaged page fits.
    #[must_use]
    pub fn fits_page(&self, line: &PageLine) -> bool {
        let words = [line.disk, line.strength, line.verdict.name(), line.page.fork.name()];
        let relation = line.relation.to_lowercase();
        !self.terms.is_empty()
            && self.terms.iter().all(|term| match term {
                Term::From(_) | Term::To(_) => false,
                Term::Block(block) => line.page.block == *block,
                Term::Is(column, value) => match column.as_str() {
                    "relation" => relation == *value,
                    "fork" => line.page.fork.name() == value,
                    "block" => line.page.block.to_string() == *value,
                    "disk" => line.disk == value,
                    _ => false,
                },
                Term::Text(text) => {
                    words.iter().any(|word| word.starts_with(text.as_str()))
                        || relation.contains(text.as_str())
                        || is_number_of(text, &line.page.rel.to_string())
                }
            })
    }
}

/// `1259` and `5/1259` name `1663/5/1259`.
fn is_number_of(text: &str, numbers: &str) -> bool {
    numbers == text || numbers.strip_suffix(text).is_some_and(|rest| rest.ends_with('/'))
}

/// Words of a slot: CRC, batch, page on disk, writer, fork.
#[must_use]
pub fn slot_words(row: &SlotRow) -> [&'static str; 5] {
    let crc = match row.condition {
        Condition::Empty => "empty",
        Condition::Sound => "good",
        Condition::Torn | Condition::Damaged => "bad",
        Condition::Unverifiable => "none",
    };
    [
        crc,
        row.batch.map_or("-", |(verdict, _)| verdict.name()),
        row.comparison.map_or("-", |word| word.name()),
        row.path.map_or("-", |path| path.name()),
        row.fork.map_or("-", ForkNumber::name),
    ]
}

fn slot_word(row: &SlotRow, column: &str, survey: &Survey) -> Option<String> {
    let [crc, batch, disk, by, fork] = slot_words(row);
    Some(match column {
        "crc" => crc.to_owned(),
        "batch" => batch.to_owned(),
        "disk" => disk.to_owned(),
        "by" => by.to_owned(),
        "fork" => fork.to_owned(),
        "slot" => row.index.to_string(),
        "block" => row.block.to_string(),
        _ => survey.relation(row.rel).to_lowercase(),
    })
}

fn slot_has(row: &SlotRow, text: &str, survey: &Survey) -> bool {
    if slot_words(row).iter().any(|word| word.starts_with(text)) {
        return true;
    }
    if row.condition == Condition::Empty {
        return false;
    }
    let named = survey.names.get(&row.rel).is_some_and(|name| name.to_lowercase().contains(text));
    named || (text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'/') && is_number_of(text, &row.rel.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::staleness::{BatchReason, BatchVerdict};
    use crate::types::RelFileLocator;

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

    #[test]
    fn all_terms_must_fit() {
        let mut survey = Survey::default();
        survey.names.insert(row().rel, "public.Note".to_owned());
        let fits = |text: &str| Query::parse(text).unwrap().fits_slot(&row(), &survey);
        for text in
            ["1259", "5/1259", "note", "1259:7", ":7", "stale", "batch=stale", "good >=0/1F00000", "<=0/1F00000", "slot=3"]
        {
            assert!(fits(text), "{text}");
        }
        for text in ["", "259", "1259:8", "current", "stale bad", ">=0/1F00001", "batch=st", "block=8"] {
            assert!(!fits(text), "{text}");
        }
    }

    #[test]
    fn wrong_terms_are_named() {
        for text in [">=x", "<=", "a:b", "x=y"] {
            assert!(Query::parse(text).is_err(), "{text}");
        }
    }
}
