//! Which relation files `verify` reads.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

use crate::analysis::finding::Coverage;
use crate::analysis::skipped::{SkipReason, SkippedPart};
use crate::cli::exit::Stop;
use crate::cli::values::RelationPattern;
use crate::cluster::names::RelationNames;
use crate::cluster::relation_walk::RelationFile;
use crate::inspect::relation_name::RelationChoice;
use crate::types::{ForkNumber, Oid};

/// What is asked for. Of several kinds of filter all must fit.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub struct SelectArgs {
    /// Databases by OID or name; 0 stands for the shared catalogs
    #[arg(long, value_name = "OID|NAME", value_delimiter = ',')]
    database: Vec<String>,
    /// Relations by name (relation, schema.relation, database.schema.relation) or numbers (REL, DB/REL, SPC/DB/REL)
    #[arg(long, value_name = "REL", value_delimiter = ',')]
    relation: Vec<RelationChoice>,
    /// Forks: main, fsm, vm, init
    #[arg(long, value_name = "FORK", value_delimiter = ',')]
    fork: Vec<ForkNumber>,
    /// Files or directories below DATADIR, or a pattern in quotes
    #[arg(long, value_name = "PATH")]
    path: Vec<PathPattern>,
}

impl SelectArgs {
    /// Refuses names that stand for no relation, or for several.
    ///
    /// # Errors
    /// Which one.
    pub fn confirm(&self, names: &RelationNames) -> Result<(), Stop> {
        RelationChoice::resolve_all(&self.relation, Some(names))?;
        Ok(())
    }
}

/// A path below the data directory, or a pattern for such paths.
#[derive(Clone, Debug)]
struct PathPattern(String);

impl FromStr for PathPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match glob::Pattern::new(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => Err(format!("\"{text}\" is no pattern: {error}")),
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

/// The answer to what was asked for.
pub struct Selection<'a> {
    args: &'a SelectArgs,
    databases: BTreeSet<Oid>,
    relations: Vec<RelationPattern>,
    paths: Vec<glob::Pattern>,
}

impl<'a> Selection<'a> {
    /// Resolves names. A filter that nothing fits is reported as something that was not looked at.
    ///
    /// # Errors
    /// When a name stands for no relation, or for several.
    pub fn new(
        args: &'a SelectArgs,
        root: &Path,
        files: &[RelationFile],
        names: Option<&RelationNames>,
        coverage: &mut Coverage,
    ) -> Result<Self, Stop> {
        let known: BTreeSet<Oid> = files.iter().map(|file| file.rel.db_oid).collect();
        let unfit = coverage.skipped.len();
        let mut databases = BTreeSet::new();
        for wanted in &args.database {
            let fits =
                |oid: &Oid| wanted.parse() == Ok(*oid) || names.and_then(|names| names.database(*oid)) == Some(wanted);
            databases.extend(known.iter().copied().filter(fits));
            if !known.iter().any(fits) {
                let what = SkippedPart::Argument { option: "--database", value: wanted.clone() };
                coverage.skip(what, SkipReason::NoSuchDatabase);
            }
        }
        let relations = RelationChoice::resolve_all(&args.relation, names)?;
        for (wanted, pattern) in args.relation.iter().zip(&relations) {
            if !files.iter().any(|file| pattern.matches(file.rel)) {
                let what = SkippedPart::Argument { option: "--relation", value: wanted.to_string() };
                coverage.skip(what, SkipReason::NoSuchRelation);
            }
        }
        let paths: Vec<glob::Pattern> = args.path.iter().map(|path| path.below(root)).collect();
        for (wanted, pattern) in args.path.iter().zip(&paths) {
            if !files.iter().any(|file| fits_path(pattern, &file.path)) {
                let what = SkippedPart::Argument { option: "--path", value: wanted.0.clone() };
                coverage.skip(what, SkipReason::NoPathFits);
            }
        }
        let selection = Self { args, databases, relations, paths };
        if coverage.skipped.len() == unfit && !files.is_empty() && !files.iter().any(|file| selection.takes(file)) {
            coverage.skip(SkippedPart::RelationFiles, SkipReason::NoFileFitsAll);
        }
        Ok(selection)
    }

    /// True when names are needed.
    pub fn needs_names(args: &SelectArgs) -> bool {
        args.database.iter().any(|wanted| wanted.parse::<Oid>().is_err()) || RelationChoice::needs_names(&args.relation)
    }

    /// True when the file is to be read.
    pub fn takes(&self, file: &RelationFile) -> bool {
        let args = self.args;
        (args.database.is_empty() || self.databases.contains(&file.rel.db_oid))
            && (self.relations.is_empty() || self.relations.iter().any(|pattern| pattern.matches(file.rel)))
            && (args.fork.is_empty() || args.fork.contains(&file.name.fork))
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
