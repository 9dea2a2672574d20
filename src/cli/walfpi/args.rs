//! Arguments that say which WAL is read and what its relations are called.

use std::path::PathBuf;

use clap::Args;

use super::time_args::time_bound;
use crate::cli::context::OutputArgs;
use crate::cli::data_dir_arg::pgdata_of_environment;
use crate::cli::usage::UsageError;
use crate::cli::work::JobsArg;
use crate::inspect::wal::request::{SegmentSpan, TimeBound, WalRequest, is_segment_name};
use crate::types::{Lsn, TimelineId};

/// Which WAL is read.
#[derive(Clone, Debug, Args)]
pub(crate) struct SourceArgs {
    /// Data directory, pg_wal or archive directory, segments, tar archives, a pattern in quotes, or "-"; with -p or -D:
    /// first and last segment, as for pg_waldump [default: $PGDATA]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Directory with the segments; PATH may be the first and the last
    #[arg(short = 'p', long = "path", value_name = "PATH")]
    path: Option<PathBuf>,
    /// Data directory to read, instead of -p
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR", conflicts_with = "path")]
    pgdata: Option<PathBuf>,
    /// Count no record that starts before this LSN
    #[arg(short = 's', long, value_name = "LSN", help_heading = "Range")]
    start: Option<Lsn>,
    /// Count no record that ends after this LSN
    #[arg(short = 'e', long, value_name = "LSN", help_heading = "Range")]
    end: Option<Lsn>,
    /// Count nothing written before this time
    ///
    /// 2026-11-21, "2026-11-21 14:00" (both in UTC), 2026-11-21T14:00:00+02:00, or 2h: so long before the last time in
    /// this WAL. Commits, aborts and checkpoints have a time; the records between them count at the time before them.
    /// Records before the first time are left out, and a note shows their bytes.
    #[arg(long, value_name = "TIME", help_heading = "Range", value_parser = time_bound)]
    since: Option<TimeBound>,
    /// Count nothing written at this time or later
    #[arg(long, value_name = "TIME", help_heading = "Range", value_parser = time_bound)]
    until: Option<TimeBound>,
    /// Follow this timeline [default: newest, or that of the first segment named]
    #[arg(short = 't', long, value_name = "TLI", help_heading = "Range", value_parser = clap::value_parser!(u32).range(1..))]
    timeline: Option<u32>,
}

impl SourceArgs {
    /// What is asked for, without names of relations.
    ///
    /// # Errors
    /// When no path is given, or `-p` with a path that is not a segment.
    pub fn request(&self, jobs: JobsArg) -> Result<WalRequest, UsageError> {
        let (paths, span) = self.named()?;
        Ok(WalRequest {
            paths,
            span,
            start: self.start,
            end: self.end,
            since: self.since,
            until: self.until,
            timeline: self.timeline.map(TimelineId),
            names: None,
            jobs: jobs.count(),
        })
    }

    /// What is read, and the segments that limit it.
    fn named(&self) -> Result<(Vec<PathBuf>, SegmentSpan), UsageError> {
        let Some(base) = self.path.as_ref().or(self.pgdata.as_ref()) else {
            if !self.paths.is_empty() {
                return Ok((self.paths.clone(), SegmentSpan::default()));
            }
            let data_dir = pgdata_of_environment().ok_or(UsageError::NoWal)?;
            return Ok((vec![data_dir], SegmentSpan::default()));
        };
        let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        if let Some(other) = names.iter().find(|name| !is_segment_name(name)) {
            return Err(UsageError::NotASegmentName(other.clone()));
        }
        let (first, last) = match &names[..] {
            [] => (None, None),
            [only] => (Some(only.clone()), Some(only.clone())),
            [first, last] => (Some(first.clone()), Some(last.clone())),
            _ => return Err(UsageError::ManySegments),
        };
        Ok((vec![base.clone()], SegmentSpan { first, last }))
    }
}

/// Names that replace numbers.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Show names of relations: from a stopped data directory, from a file (see --help), or from the WAL alone: wal
    ///
    /// A file is a JSON array of objects with spc_oid, db_oid, rel_number, database, schema and relation. `pg_walfpi
    /// names-query` prints the query that makes it: run it in each database and write all outputs one after the other. Names of
    /// another cluster than that of the WAL are refused.
    ///
    /// Relations without a name there, which were dropped or rewritten since, are looked up in rows of pg_class in the WAL,
    /// which is read again for that. "wal" takes all names from there. A question mark follows such a name: the row may
    /// never have been committed. A directory of that name is ./wal.
    #[arg(long, value_name = "DATADIR|FILE|wal")]
    pub names: Option<PathBuf>,
}

/// Arguments that every command takes.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl CommonArgs {
    /// What is asked for.
    ///
    /// # Errors
    /// When no path is given, or `-p` with a path that is not a segment.
    pub fn request(&self, jobs: JobsArg) -> Result<WalRequest, UsageError> {
        Ok(WalRequest { names: self.names.names.clone(), ..self.source.request(jobs)? })
    }
}

/// The paths that are read, for the beginning of an output.
pub(crate) fn path_texts(request: &WalRequest) -> Vec<String> {
    request.paths.iter().map(|path| path.display().to_string()).collect()
}
