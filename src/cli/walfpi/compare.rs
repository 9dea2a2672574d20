//! `pg_walfpi compare`: sets of WAL beside each other.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, json};

use super::PROGRAM;
use crate::analysis::plan::compare::{SetCounts, compare};
use crate::analysis::verdict::answer::Answer;
use crate::cli::context::OutputArgs;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::usage::UsageError;
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::inspect::wal::compare::{ComparedSet, NamedWal, wal_compare};
use crate::inspect::wal::request::WalRequest;
use crate::output::closing::{Closing, begin};
use crate::output::compare::{FIGURE_COLUMNS, figure_row, write_comparison};
use crate::output::json::wal::Row;
use crate::output::json::{Item, lsn_text};
use crate::output::sink::CsvShape;
use crate::parsers::wal::version::Major;

/// Compare sets of WAL: before and after a change, one mode and another, two days
///
/// The first set is what the others are compared with, in percent. A set that was not read whole, or in which something is
/// wrong, has a question mark: its figures are what was found, no percentage is shown for them, and the exit status is 2.
///
/// Seconds go from the earliest to the latest time in the records. Intervals count where the set holds them from their
/// redo point to the next one. Commits are the records COMMIT and COMMIT_PREPARED. Relations are matched by name where
/// --names provides one, and by number between sets of one cluster. In sets of different clusters all others are (unnamed).
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct CompareArgs {
    /// A name for the set, and its data directory, pg_wal or archive directory, segment, tar archive, pattern, or "-"; several
    /// with commas between them
    #[arg(value_name = "NAME=PATH", required = true)]
    sets: Vec<OsString>,
    /// Show names of relations: from a stopped data directory, or from a file (see `pg_walfpi stats --help`); with NAME= for
    /// one set, else for all
    #[arg(long, value_name = "[NAME=]DATADIR|FILE")]
    names: Vec<OsString>,
    /// Show the N relations whose image bytes differ most
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
    #[command(flatten)]
    output: OutputArgs,
}

impl CompareArgs {
    fn sets(&self) -> Result<Vec<NamedWal>, UsageError> {
        let mut sets = Vec::new();
        for text in &self.sets {
            let not_a_set = || UsageError::NotASet(text.display().to_string());
            let (name, path) = split_name(text).ok_or_else(not_a_set)?;
            let name = String::from_utf8(name.to_vec()).map_err(|_| not_a_set())?;
            let paths = paths_of(path);
            if name.is_empty() || paths.iter().any(|path| path.as_os_str().is_empty()) {
                return Err(not_a_set());
            }
            sets.push(NamedWal { name, wal: WalRequest { jobs: self.jobs.count(), ..WalRequest::of_paths(paths) } });
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = sets.iter().find(|set| !names.insert(set.name.clone())) {
            return Err(UsageError::SetTwice(twice.name.clone()));
        }
        if sets.len() < 2 {
            return Err(UsageError::OneSet);
        }
        for text in &self.names {
            let of_one = split_name(text).and_then(|(name, path)| {
                let set = sets.iter().position(|set| set.name.as_bytes() == name)?;
                Some((set, path_of(path)))
            });
            match of_one {
                Some((set, path)) => sets[set].wal.names = Some(path),
                None => sets.iter_mut().for_each(|set| {
                    set.wal.names.get_or_insert_with(|| PathBuf::from(text));
                }),
            }
        }
        Ok(sets)
    }
}

/// The parts before and after the first `=`.
fn split_name(text: &OsString) -> Option<(&[u8], &[u8])> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// The path, or those between commas. A comma may be part of a name.
fn paths_of(bytes: &[u8]) -> Vec<PathBuf> {
    let whole = path_of(bytes);
    if Path::exists(&whole) { vec![whole] } else { bytes.split(|byte| *byte == b',').map(path_of).collect() }
}

pub(super) fn run(args: &CompareArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let request = args.sets()?;
    let bar = ByteBar::new(args.progress);
    let mut sets = wal_compare(&request, &|done, total| bar.at(done, total))?;
    drop(bar);
    let closings = request.iter().zip(&mut sets).map(|(named, set)| {
        let findings = std::mem::take(&mut set.wal.findings);
        (named.name.clone(), Closing::new(findings, &set.wal.coverage))
    });
    let closing = Closing::of_several(closings.collect());
    let is_whole = sets.iter().all(|set| set.counts.is_whole);
    let closing = closing.answering(if is_whole { Answer::Fine } else { Answer::Uncertain });
    let columns: Vec<(&str, &SetCounts)> =
        request.iter().zip(&sets).map(|(named, set)| (named.name.as_str(), &set.counts)).collect();
    let lines = compare(&columns.iter().map(|(_, counts)| *counts).collect::<Vec<_>>(), args.top);
    if let Some(format) = args.output.machine() {
        let shape = CsvShape::Rows { plural: "figures", columns: &FIGURE_COLUMNS };
        let paths = args.sets.iter().map(|set| set.display().to_string()).collect();
        let mut sink = begin(format, shape, out, (PROGRAM, "compare"), paths)?;
        for (named, set) in request.iter().zip(&sets) {
            sink.item(&Item::Set(set_row(named, set)))?;
        }
        for line in &lines {
            for ((name, counts), cell) in columns.iter().zip(&line.cells) {
                sink.item(&Item::Figure(figure_row(name, counts.is_whole, line, cell)))?;
            }
        }
        let shown = lines.iter().map(|line| line.cells.len() as u64).sum();
        let totals = Map::from_iter([("sets".to_owned(), json!(sets.len()))]);
        return Ok(closing.end(sink, shown, totals)?.into());
    }
    let layout = args.output.layout();
    write_comparison(out, layout, &columns, &lines)?;
    Ok(closing.end_text(out, layout)?.into())
}

/// A set as a row.
fn set_row(named: &NamedWal, set: &ComparedSet) -> Row {
    let paths: Vec<String> = named.wal.paths.iter().map(|path| path.display().to_string()).collect();
    let (origin, (from, to)) = (&set.wal.origin, set.range);
    let fields = [
        ("name", json!(named.name)),
        ("paths", json!(paths)),
        ("is_whole", json!(set.counts.is_whole)),
        ("major", json!(origin.major.map(Major::number))),
        ("system_identifier", json!(origin.system_identifier.map(|id| id.to_string()))),
        ("start_lsn", json!(from.map(lsn_text))),
        ("end_lsn", json!(to.map(lsn_text))),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
