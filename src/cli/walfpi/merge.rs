//! `pg_walfpi merge`: adds up what `stats --partial` and `whatif --partial` have written.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::stats::{Extra, ShownRows, ShownStats, Sort};
use super::times::ShownTimes;
use super::whatif::{ReplayArgs, ShownWhatIf};
use crate::analysis::wal::group_key::GroupBy;
use crate::cli::context::OutputArgs;
use crate::cli::exit::{Outcome, Stop};
use crate::cli::usage::UsageError;
use crate::inspect::wal::merge::{Merged, MergedAnswer, merge};

/// Add up partial results of `stats --partial` or `whatif --partial`
///
/// Shows what `stats` or `whatif` would have shown of all parts in one process. Those of whatif keep the touches of blocks, and
/// any settings can be asked for here, again and again. Parts may be given in any order. A part that is given
/// twice is counted once; parts that overlap otherwise, or are of different clusters, are refused. WAL between two parts
/// that nobody has counted is a finding, and a record that nobody has counted ends with status 2; the sums are then "at
/// least" so much (certainty in JSON).
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub struct MergeArgs {
    /// Partial results
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Show only the first N rows
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Order of rows [default: as stats]
    #[arg(long, value_enum, value_name = "COLUMN")]
    sort: Option<Sort>,
    /// By time, show every row, and do not put neighbours together where they do not fit
    #[arg(long)]
    all: bool,
    /// Names of relations: a data directory of the cluster, or a list that `pg_dwbinspect names` wrote [default: those that
    /// the parts bring]
    #[arg(long, value_name = "PATH")]
    names: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten, next_help_heading = "Options for parts of whatif")]
    replay: ReplayArgs,
}

pub(super) fn run(args: &MergeArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let Merged { mut answer, findings, skipped, certainty } =
        merge(&args.files, args.names.as_deref(), &args.replay.plan()?)?;
    let is_what_if = matches!(answer, MergedAnswer::WhatIf(_));
    if !is_what_if && args.replay.asks() {
        return Err(UsageError::SettingsOfStats.into());
    }
    if is_what_if && (args.all || args.top.is_some() || args.sort.is_some() || args.names.is_some()) {
        return Err(UsageError::RowsOfWhatIf.into());
    }
    if let MergedAnswer::WhatIf(report) = &mut answer {
        if report.compression.is_none() && args.replay.asks_compression() {
            return Err(UsageError::CompressionOfParts.into());
        }
        report.compression.take_if(|_| !args.replay.shows_compression());
    }
    let paths = args.files.iter().map(|path| path.display().to_string()).collect();
    let extra = Extra { findings, skipped, certainty: Some(certainty) };
    let (command, output) = ("merge", &args.output);
    let each = args.all || args.top.is_some() || args.sort.is_some_and(|sort| sort != Sort::Key);
    let max_rows = if each { usize::MAX } else { output.rows_that_fit() };
    let rows = ShownRows { sort: args.sort, top: args.top, max_rows };
    match answer {
        MergedAnswer::Groups(by, _) if by.has(GroupBy::Table) && args.names.is_none() => {
            Err(UsageError::TablesWithoutNames.into())
        }
        MergedAnswer::Groups(by, stats) => {
            let shown = ShownStats { command, paths, by: Some(by), rows, output, extra };
            shown.write(*stats, out)
        }
        MergedAnswer::WhatIf(report) => {
            ShownWhatIf { command, paths, replay: &args.replay, output, extra }.write(*report, out)
        }
        MergedAnswer::Times(times) => ShownTimes { command, paths, rows, output, extra }.write(*times, out),
    }
}
