//! How a user names relations: by number or by name.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::error::InspectError;
use crate::analysis::select::{RelationPattern, TermError};
use crate::cluster::names::RelationNames;
use crate::types::RelFileLocator;

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
        if let Some(pattern) = RelationPattern::of_path(text) {
            return Ok(Self::Numbers(pattern));
        }
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
    pub(crate) fn needs_names(wanted: &[Self]) -> bool {
        wanted.iter().any(|one| matches!(one, Self::Name(_)))
    }

    /// Resolves it. `names`: those of the cluster, if one is given.
    pub(crate) fn resolve(&self, names: Option<&RelationNames>) -> Result<RelationPattern, InspectError> {
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

    /// Each with the files that it stands for: those of every relation with one full name, as before and after a rewrite, and
    /// those of a relation whose OID was given where no relation with a name has files of that number.
    ///
    /// # Errors
    /// When a name is that of no relation, or of several with other full names.
    pub fn files_of(
        wanted: &[Self],
        names: Option<&RelationNames>,
    ) -> Result<Vec<(String, Vec<RelationPattern>)>, InspectError> {
        let mut files = Vec::new();
        for one in wanted {
            let of_one: Vec<RelFileLocator> = match (one, names) {
                (Self::Name(name), None) => return Err(InspectError::NamesNotGiven(name.clone())),
                (Self::Name(name), Some(names)) => {
                    let found = names.find(name);
                    let full: BTreeSet<String> =
                        found.iter().filter_map(|rel| names.get(*rel)).map(ToString::to_string).collect();
                    if full.len() == 1 { found } else { Vec::new() }
                }
                (Self::Numbers(pattern), Some(names)) if !names.iter().any(|(rel, _)| pattern.matches(rel)) => {
                    pattern.number_alone().map(|oid| names.of_oid(oid)).unwrap_or_default()
                }
                _ => Vec::new(),
            };
            let patterns = match of_one[..] {
                [] => vec![one.resolve(names)?],
                ref several => several.iter().map(|rel| RelationPattern::of(*rel)).collect(),
            };
            files.push((one.to_string(), patterns));
        }
        Ok(files)
    }

    pub(crate) fn resolve_all(
        wanted: &[Self],
        names: Option<&RelationNames>,
    ) -> Result<Vec<RelationPattern>, InspectError> {
        wanted.iter().map(|one| one.resolve(names)).collect()
    }
}
