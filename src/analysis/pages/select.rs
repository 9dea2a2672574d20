//! Terms that pages and slots are chosen by, as they are typed.

use std::str::FromStr;

use crate::types::{BlockNumber, DEFAULT_TABLESPACE_OID, ForkNumber, GLOBAL_TABLESPACE_OID, RelFileLocator};

/// A term that cannot be understood. Holds what was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermError {
    /// Not a valid range.
    NotARange(String),
    /// A range that ends before it begins.
    BackwardRange(String),
    /// Not a valid relation.
    NotARelation(String),
}

impl std::error::Error for TermError {}

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

impl<T: Copy> Span<T> {
    /// One value.
    pub(crate) const fn of(value: T) -> Self {
        Self { first: Some(value), last: Some(value) }
    }

    /// Its first and last value, where both were given.
    pub fn bounds(&self) -> Option<(T, T)> {
        self.first.zip(self.last)
    }
}

impl<T: FromStr + PartialOrd + Copy> FromStr for Span<T> {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || TermError::NotARange(text.to_owned());
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
            (Some(first), Some(last)) if first > last => Err(TermError::BackwardRange(text.to_owned())),
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
    pub fn matches(&self, rel: RelFileLocator) -> bool {
        rel.rel_number == self.rel_number
            && self.db_oid.is_none_or(|oid| oid == rel.db_oid)
            && self.spc_oid.is_none_or(|oid| oid == rel.spc_oid)
    }
}

impl RelationPattern {
    /// Fits this relation alone.
    pub const fn of(rel: RelFileLocator) -> Self {
        Self { spc_oid: Some(rel.spc_oid), db_oid: Some(rel.db_oid), rel_number: rel.rel_number }
    }

    /// The relation whose files have this path in a data directory: `base/DB/REL`, `global/REL` or
    /// `pg_tblspc/SPC/PG_…/DB/REL`.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        let (spc_oid, db_oid, rel_number) = match parts[..] {
            ["base", db, rel] => (DEFAULT_TABLESPACE_OID, db.parse().ok()?, rel),
            ["global", rel] => (GLOBAL_TABLESPACE_OID, 0, rel),
            ["pg_tblspc", spc, version, db, rel] if version.starts_with("PG_") => {
                (spc.parse().ok()?, db.parse().ok()?, rel)
            }
            _ => return None,
        };
        Some(Self::of(RelFileLocator { spc_oid, db_oid, rel_number: rel_number.parse().ok()? }))
    }

    /// Its number, when no other was given.
    pub(crate) fn number_alone(&self) -> Option<u32> {
        (self.spc_oid.is_none() && self.db_oid.is_none()).then_some(self.rel_number)
    }

    /// The one relation that it stands for, when all three numbers were given.
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
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || TermError::NotARelation(text.to_owned());
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

/// Which pages are wanted; the default is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSelection {
    /// These relations; empty: any.
    pub relations: Vec<RelationPattern>,
    /// These forks; empty: any.
    pub forks: Vec<ForkNumber>,
    /// These blocks; `None`: any.
    pub blocks: Option<Span<BlockNumber>>,
}

impl PageSelection {
    /// True when the page fits; `fork` is `None` for a code without a meaning.
    pub fn takes(&self, rel: RelFileLocator, fork: Option<ForkNumber>, block: BlockNumber) -> bool {
        (self.relations.is_empty() || self.relations.iter().any(|pattern| pattern.matches(rel)))
            && (self.forks.is_empty() || self.forks.iter().any(|wanted| Some(*wanted) == fork))
            && self.blocks.is_none_or(|span| span.contains(&block))
    }
}
