//! How a user names relations: by number or by name.

use std::str::FromStr;

use super::error::InspectError;
use crate::analysis::select::{RelationPattern, TermError};
use crate::cluster::names::RelationNames;

/// One value of `--relation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelationChoice {
    /// `REL`, `DB/REL` or `SPC/DB/REL`.
    Numbers(RelationPattern),
    /// `relation`, `schema.relation` or `database.schema.relation`.
    Name(String),
}

impl FromStr for RelationChoice {
    type Err = TermError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.chars().all(|c| c.is_ascii_digit() || c == '/') {
            return text.parse().map(Self::Numbers);
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl std::fmt::Display for RelationChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Numbers(pattern) => pattern.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl RelationChoice {
    /// True when names of relations have to be known.
    #[must_use]
    pub fn needs_names(wanted: &[Self]) -> bool {
        wanted.iter().any(|one| matches!(one, Self::Name(_)))
    }

    /// What it stands for. `names`: those of the cluster, where there is one.
    ///
    /// # Errors
    /// When no relation has this name, or several have.
    pub fn resolve(&self, names: Option<&RelationNames>) -> Result<RelationPattern, InspectError> {
        let name = match self {
            Self::Numbers(pattern) => return Ok(*pattern),
            Self::Name(name) => name,
        };
        let Some(names) = names else {
            return Err(InspectError::NamesUnknown(name.clone()));
        };
        match names.find(name)[..] {
            [rel] => Ok(RelationPattern::of(rel)),
            [] => Err(InspectError::NoSuchRelation(name.clone())),
            ref several => Err(InspectError::ambiguous(name, several, names)),
        }
    }

    /// What all of them stand for.
    ///
    /// # Errors
    /// When one of them matches no relation or several.
    pub fn resolve_all(wanted: &[Self], names: Option<&RelationNames>) -> Result<Vec<RelationPattern>, InspectError> {
        wanted.iter().map(|one| one.resolve(names)).collect()
    }
}
