//! What every answer about some WAL comes with: whose it is, and what was met while it was read.

use super::names::NameLookup;
use super::source::WalSource;
use crate::analysis::skipped::Coverage;
use crate::cluster::wal::WalOrigin;
use crate::report::Finding;

#[derive(Debug)]
pub struct ReadWal {
    pub origin: WalOrigin,
    /// Names of relations, where they were asked for.
    pub names: NameLookup,
    pub findings: Vec<Finding>,
    /// What was read and what was not; empty `skipped`: all of it was.
    pub coverage: Coverage,
}

impl ReadWal {
    /// What is left of a source when all questions to it were answered.
    pub(super) fn of(source: WalSource, names: NameLookup) -> Self {
        let WalSource { set, findings, coverage, .. } = source;
        Self { origin: set.origin(), names, findings, coverage }
    }
}
