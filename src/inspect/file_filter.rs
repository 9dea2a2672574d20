//! Which relation files are read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::error::InspectError;
use super::page_target::RelationChoice;
use crate::analysis::pages::select::RelationPattern;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::cluster::names::RelationNames;
use crate::cluster::relation_walk::RelationFile;
use crate::types::{ForkNumber, Oid};

/// Filters. All kinds must match; an empty one matches everything.
#[derive(Clone, Debug, Default)]
pub struct FileFilter {
    /// Databases by OID or name; 0 stands for the shared catalogs.
    pub databases: Vec<String>,
    /// Relations.
    pub relations: Vec<RelationChoice>,
    /// Forks.
    pub forks: Vec<ForkNumber>,
    /// Files or directories below the data directory, or patterns for them.
    pub paths: Vec<PathPattern>,
}

impl FileFilter {
    /// True when it lets everything pass.
    pub(crate) const fn takes_all(&self) -> bool {
        self.databases.is_empty() && self.relations.is_empty() && self.forks.is_empty() && self.paths.is_empty()
    }

    /// True when names are needed.
    pub(crate) fn needs_names(&self) -> bool {
        let is_name = |wanted: &String| wanted.parse::<Oid>().is_err();
        self.databases.iter().any(is_name) || RelationChoice::needs_names(&self.relations)
    }

    /// Refuses names that match no relation or several.
    pub(crate) fn confirm(&self, names: &RelationNames) -> Result<(), InspectError> {
        RelationChoice::resolve_all(&self.relations, Some(names))?;
        Ok(())
    }
}

/// A path below the data directory, or a pattern for such paths.
#[derive(Clone, Debug)]
pub struct PathPattern(String);

impl FromStr for PathPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match glob::Pattern::new(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => Err(format!("\"{text}\" is not a valid pattern: {error}")),
        }
    }
}

impl PathPattern {
    /// The pattern without the data directory in front, if it was named too.
    fn below(&self, root: &Path) -> glob::Pattern {
        let path = Path::new(&self.0);
        // Collecting the components drops "./" in front and "/" at the end.
        let relative: PathBuf = path.strip_prefix(root).unwrap_or(path).components().collect();
        let relative = relative.strip_prefix(".").unwrap_or(&relative);
        let text = relative.to_string_lossy();
        glob::Pattern::new(&text)
            .unwrap_or_else(|_| glob::Pattern::new(&glob::Pattern::escape(&text)).unwrap_or_default())
    }
}

pub(super) struct Selection<'a> {
    filter: &'a FileFilter,
    databases: BTreeSet<Oid>,
    relations: Vec<RelationPattern>,
    paths: Vec<glob::Pattern>,
}

impl<'a> Selection<'a> {
    /// Resolves names. A filter that nothing fits is reported as something that was not examined.
    pub(super) fn new(
        filter: &'a FileFilter,
        root: &Path,
        files: &[RelationFile],
        names: Option<&RelationNames>,
        coverage: &mut Coverage,
    ) -> Result<Self, InspectError> {
        let known: BTreeSet<Oid> = files.iter().map(|file| file.rel.db_oid).collect();
        let unfit = coverage.skipped.len();
        let mut databases = BTreeSet::new();
        for wanted in &filter.databases {
            let fits =
                |oid: &Oid| wanted.parse() == Ok(*oid) || names.and_then(|names| names.database(*oid)) == Some(wanted);
            databases.extend(known.iter().copied().filter(fits));
            if !known.iter().any(fits) {
                let what = SkippedPart::Argument { option: "--database", value: wanted.clone() };
                coverage.skip(what, SkipReason::NoSuchDatabase);
            }
        }
        let relations = RelationChoice::resolve_all(&filter.relations, names)?;
        for (wanted, pattern) in filter.relations.iter().zip(&relations) {
            if !files.iter().any(|file| pattern.matches(file.rel)) {
                let what = SkippedPart::Argument { option: "--relation", value: wanted.to_string() };
                coverage.skip(what, SkipReason::NoSuchRelation);
            }
        }
        let paths: Vec<glob::Pattern> = filter.paths.iter().map(|path| path.below(root)).collect();
        for (wanted, pattern) in filter.paths.iter().zip(&paths) {
            if !files.iter().any(|file| fits_path(pattern, &file.path)) {
                let what = SkippedPart::Argument { option: "--path", value: wanted.0.clone() };
                coverage.skip(what, SkipReason::NoPathFits);
            }
        }
        let selection = Self { filter, databases, relations, paths };
        if coverage.skipped.len() == unfit && !files.is_empty() && !files.iter().any(|file| selection.takes(file)) {
            coverage.skip(SkippedPart::RelationFiles, SkipReason::NoFileFitsAll);
        }
        Ok(selection)
    }

    /// A filter before the files are known, by numbers alone.
    pub(super) fn ahead(filter: &'a FileFilter, root: &Path) -> Result<Self, InspectError> {
        let number = |wanted: &String| wanted.parse().map_err(|_| InspectError::NamesUnknown(wanted.clone()));
        Ok(Self {
            filter,
            databases: filter.databases.iter().map(number).collect::<Result<_, _>>()?,
            relations: RelationChoice::resolve_all(&filter.relations, None)?,
            paths: filter.paths.iter().map(|path| path.below(root)).collect(),
        })
    }

    /// True when the file must be read.
    pub(super) fn takes(&self, file: &RelationFile) -> bool {
        let filter = self.filter;
        (filter.databases.is_empty() || self.databases.contains(&file.rel.db_oid))
            && (self.relations.is_empty() || self.relations.iter().any(|pattern| pattern.matches(file.rel)))
            && (filter.forks.is_empty() || filter.forks.contains(&file.name.fork))
            && (self.paths.is_empty() || self.paths.iter().any(|pattern| fits_path(pattern, &file.path)))
    }
}

/// True when the pattern fits the path or a directory that it lies in.
fn fits_path(pattern: &glob::Pattern, path: &Path) -> bool {
    path.ancestors().any(|part| !part.as_os_str().is_empty() && pattern.matches_path(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_below_the_data_directory() {
        let fits = |text: &str, path: &str| {
            let pattern: PathPattern = text.parse().unwrap();
            fits_path(&pattern.below(Path::new("/data [1]")), Path::new(path))
        };
        assert!(fits("base/5/16384", "base/5/16384") && !fits("base/5/16384", "base/5/16384.1"));
        assert!(fits("base/5/16384*", "base/5/16384_fsm.1"));
        assert!(fits("/data [1]/base/5/", "base/5/16384") && fits("./base", "base/5/16384"));
        assert!(fits("base/?/*_vm", "base/5/7_vm") && !fits("base/?/*_vm", "base/15/7"));
        assert!(!fits("bas", "base/5/16384") && !fits("base/5", "base/55/1"));
        assert!("base/[".parse::<PathPattern>().is_err());
    }
}
