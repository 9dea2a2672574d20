//! Parsers of argument values: a wrong one fails before any file is opened.

use std::str::FromStr;

use clap::Args;

use crate::parsers::dwb::Slot;
use crate::types::{BlockNumber, ForkNumber, Lsn, RelFileLocator};

/// `N`, `FIRST-LAST`, `FIRST-` or `-LAST`; both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<T> {
    first: Option<T>,
    last: Option<T>,
}

impl<T: PartialOrd> Span<T> {
    /// True when the value lies inside.
    pub fn contains(&self, value: &T) -> bool {
        self.first.as_ref().is_none_or(|first| first <= value) && self.last.as_ref().is_none_or(|last| value <= last)
    }
}

impl<T: FromStr + PartialOrd + Copy> FromStr for Span<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("\"{text}\" is no range: expected N, FIRST-LAST, FIRST- or -LAST");
        let part = |part: &str| match part {
            "" => Ok(None),
            part => part.parse().map(Some).map_err(|_| wrong()),
        };
        let span = match text.split_once('-') {
            Some((first, last)) => Self { first: part(first)?, last: part(last)? },
            None => Self { first: part(text)?, last: part(text)? },
        };
        match (span.first, span.last) {
            (None, None) => Err(wrong()),
            (Some(first), Some(last)) if first > last => Err(format!("range \"{text}\" ends before it begins")),
            _ => Ok(span),
        }
    }
}

/// `REL`, `DB/REL` or `SPC/DB/REL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationPattern {
    spc_oid: Option<u32>,
    db_oid: Option<u32>,
    rel_number: u32,
}

impl RelationPattern {
    /// True when the relation fits.
    #[must_use]
    pub fn matches(&self, rel: RelFileLocator) -> bool {
        rel.rel_number == self.rel_number
            && self.db_oid.is_none_or(|oid| oid == rel.db_oid)
            && self.spc_oid.is_none_or(|oid| oid == rel.spc_oid)
    }
}

impl RelationPattern {
    /// The one relation that it stands for, when all three numbers were given.
    #[must_use]
    pub fn exact(&self) -> Option<RelFileLocator> {
        Some(RelFileLocator { spc_oid: self.spc_oid?, db_oid: self.db_oid?, rel_number: self.rel_number })
    }
}

impl std::fmt::Display for RelationPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in [self.spc_oid, self.db_oid].into_iter().flatten() {
            write!(f, "{part}/")?;
        }
        write!(f, "{}", self.rel_number)
    }
}

impl FromStr for RelationPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("\"{text}\" is no relation: expected REL, DB/REL or SPC/DB/REL as numbers");
        let mut numbers = Vec::new();
        for part in text.split('/') {
            numbers.push(part.parse::<u32>().map_err(|_| wrong())?);
        }
        match numbers[..] {
            [rel_number] => Ok(Self { spc_oid: None, db_oid: None, rel_number }),
            [db_oid, rel_number] => Ok(Self { spc_oid: None, db_oid: Some(db_oid), rel_number }),
            [spc_oid, db_oid, rel_number] => Ok(Self { spc_oid: Some(spc_oid), db_oid: Some(db_oid), rel_number }),
            _ => Err(wrong()),
        }
    }
}

/// Which pages are shown.
#[derive(Clone, Debug, Args)]
pub struct PageFilter {
    /// Relations: REL, DB/REL or SPC/DB/REL as numbers
    #[arg(long, value_name = "REL", value_delimiter = ',')]
    relation: Vec<RelationPattern>,
    /// Forks: main, fsm, vm, init
    #[arg(long, value_name = "FORK", value_delimiter = ',')]
    fork: Vec<ForkNumber>,
    /// Blocks: N, FIRST-LAST, FIRST- or -LAST
    #[arg(long, value_name = "RANGE")]
    block: Option<Span<BlockNumber>>,
}

impl PageFilter {
    /// True when anything was asked for.
    #[must_use]
    pub fn is_set(&self) -> bool {
        !self.relation.is_empty() || !self.fork.is_empty() || self.block.is_some()
    }

    /// True when the page fits; `fork` is `None` for a code without a meaning.
    #[must_use]
    pub fn takes(&self, rel: RelFileLocator, fork: Option<ForkNumber>, block: BlockNumber) -> bool {
        (self.relation.is_empty() || self.relation.iter().any(|pattern| pattern.matches(rel)))
            && (self.fork.is_empty() || self.fork.iter().any(|wanted| Some(*wanted) == fork))
            && self.block.is_none_or(|span| span.contains(&block))
    }
}

/// Name under which an image is saved: the one that `pg_waldump` gives its saved pages, then file and slot, since one
/// page can stand in several slots.
#[must_use]
pub fn image_file_name(timeline: u32, page_lsn: Lsn, file: &str, slot: &Slot<'_>) -> String {
    let header = &slot.header;
    let fork = header.fork().map_or_else(|| header.fork_code.to_string(), |fork| fork.to_string());
    let file: String = file.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    format!(
        "{timeline:08X}-{:08X}-{:08X}.{}.{}.{}.{}_{fork}.{file}-{}",
        page_lsn.0 >> 32,
        page_lsn.0 & 0xFFFF_FFFF,
        header.rel.spc_oid,
        header.rel.db_oid,
        header.rel.rel_number,
        header.block,
        slot.index
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_belong_to_a_range() {
        let span: Span<u64> = "3-5".parse().unwrap();
        assert_eq!((2..7).filter(|value| span.contains(value)).collect::<Vec<_>>(), [3, 4, 5]);
        let open: Span<u64> = "3-".parse().unwrap();
        assert!(open.contains(&u64::MAX) && !open.contains(&2));
        let lsn: Span<Lsn> = "0/1000-0/02000".parse().unwrap();
        assert!(lsn.contains(&Lsn(0x2000)) && !lsn.contains(&Lsn(0x2001)));
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for text in ["", "-", "a", "1-b", "5-3", "1-2-3"] {
            assert!(text.parse::<Span<u64>>().is_err(), "{text}");
        }
    }

    #[test]
    fn relation_patterns() {
        let rel = RelFileLocator { spc_oid: 1663, db_oid: 5, rel_number: 16_384 };
        for text in ["16384", "5/16384", "1663/5/16384"] {
            let pattern: RelationPattern = text.parse().unwrap();
            assert!(pattern.matches(rel) && pattern.to_string() == text);
        }
        assert!(!"6/16384".parse::<RelationPattern>().unwrap().matches(rel));
        for text in ["", "a", "1/2/3/4", "1/", "-1"] {
            assert!(text.parse::<RelationPattern>().is_err(), "{text}");
        }
    }
}
