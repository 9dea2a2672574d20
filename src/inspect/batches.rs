//! Batches of a double write buffer that can be distinguished.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::dwb_source::DwbSource;
use super::error::InspectError;
use crate::analysis::batches::{Batch, find_batches};
use crate::analysis::in_order::all_cores;
use crate::analysis::skipped::Coverage;
use crate::cluster::names::RelationNames;
use crate::report::Finding;

/// Batches at some paths.
#[derive(Debug)]
pub struct BatchesReport {
    /// The files of the double write buffer.
    pub source: DwbSource,
    /// The batches, in the order of their slots.
    pub batches: Vec<Batch>,
    /// Names of relations; `None` when the paths are not a data directory.
    pub names: Option<RelationNames>,
    /// Findings.
    pub findings: Vec<Finding>,
    /// Coverage.
    pub coverage: Coverage,
}

/// Tells the batches of a data directory, a directory of DWB files, or such files.
///
/// # Errors
/// When a path is neither a data directory nor holds DWB files, several paths are not all files, or `watch`, asked at each
/// slot, interrupts.
pub fn batches(paths: &[PathBuf], watch: &dyn Fn() -> ControlFlow<()>) -> Result<BatchesReport, InspectError> {
    let source = DwbSource::open(paths)?;
    let (report, findings) = source.examine_slots(all_cores(), |_, _| watch());
    if report.coverage.is_interrupted() {
        return Err(InspectError::BufferInterrupted);
    }
    // What the second pass cannot read, the first has reported already, unless the file changed in between.
    let (mut coverage, mut second) = (report.coverage, Coverage::default());
    let batches = find_batches(&source.set, &report.staleness, &source.facts, all_cores(), &mut second, watch);
    let batches = batches.ok_or(InspectError::BufferInterrupted)?;
    coverage.append_once(second);
    let names = source.directory.as_ref().map(|directory| RelationNames::read(directory).0);
    Ok(BatchesReport { source, batches, names, findings, coverage })
}
