//! How a user names relations: by number or by name.

use std::str::FromStr;

use super::exit::Stop;
use super::values::RelationPattern;
use crate::cluster::names::RelationNames;
use crate::types::RelFileLocator;

/// Relations that a message names one by one.
const MAX_NAMED: usize = 12;

/// One value of `--relation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelationArg {
    /// `REL`, `DB/REL` or `SPC/DB/REL`.
    Numbers(RelationPattern),
    /// `relation`, `schema.relation` or `database.schema.relation`.
    Name(String),
}

impl FromStr for RelationArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.chars().all(|c| c.is_ascii_digit() || c == '/') {
            return text.parse().map(Self::Numbers);
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl std::fmt::Display for RelationArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Numbers(pattern) => pattern.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl RelationArg {
    /// True when names of relations have to be known.
    #[must_use]
    pub fn needs_names(wanted: &[Self]) -> bool {
        wanted.iter().any(|one| matches!(one, Self::Name(_)))
    }

    /// What it stands for. `names`: those of the cluster, where there is one.
    ///
    /// # Errors
    /// When no relation has this name, or several have.
    pub fn resolve(&self, names: Option<&RelationNames>) -> Result<RelationPattern, Stop> {
        let name = match self {
            Self::Numbers(pattern) => return Ok(*pattern),
            Self::Name(name) => name,
        };
        let Some(names) = names else {
            return Err(Stop::Input(format!(
                "names are known only in a data directory: give \"{name}\" as numbers (REL, DB/REL or SPC/DB/REL)"
            )));
        };
        match names.find(name)[..] {
            [rel] => Ok(RelationPattern::of(rel)),
            [] => Err(Stop::Input(format!("no relation is called \"{name}\""))),
            ref several => Err(ambiguous(name, several, names)),
        }
    }

    /// What all of them stand for.
    ///
    /// # Errors
    /// When one of them stands for no relation, or for several.
    pub fn resolve_all(wanted: &[Self], names: Option<&RelationNames>) -> Result<Vec<RelationPattern>, Stop> {
        wanted.iter().map(|one| one.resolve(names)).collect()
    }
}

/// Several relations have this name: says which.
#[must_use]
pub fn ambiguous(text: &str, found: &[RelFileLocator], names: &RelationNames) -> Stop {
    let line = |rel: &RelFileLocator| match names.full_name(*rel) {
        Some(name) => format!("\n  {name} ({rel})"),
        None => format!("\n  {rel}"),
    };
    let list: String = found.iter().take(MAX_NAMED).map(line).collect();
    let more = match found.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    Stop::Input(format!("\"{text}\" stands for {} relations; say which:{list}{more}", found.len()))
}
