//! A cluster and its double write buffer at a glance: what `info` shows.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::dwb_source::DwbSource;
use super::error::InspectError;
use crate::analysis::dwb::report::DwbReport;
use crate::analysis::skipped::SkippedPart;
use crate::analysis::start::cluster_condition::ClusterCondition;
use crate::cluster::data_dir::DataDir;
use crate::cluster::relation_walk::{RelationWalk, relations_of};
use crate::cluster::running::ServerSign;
use crate::report::Finding;
use crate::types::{DEFAULT_TABLESPACE_OID, GLOBAL_TABLESPACE_OID};

/// Facts at some paths.
#[derive(Debug)]
pub struct InfoReport {
    /// The directory, its settings and the files of its double write buffer.
    pub source: DwbSource,
    /// The cluster; `None` when the paths are not a data directory.
    pub cluster: Option<ClusterSummary>,
    /// The double write buffer, and what was not examined.
    pub dwb: DwbReport,
    /// Findings.
    pub findings: Vec<Finding>,
}

/// A cluster in a few values.
#[derive(Debug)]
pub struct ClusterSummary {
    /// Its condition.
    pub condition: ClusterCondition,
    /// Whether a server runs on it.
    pub server: ServerSign,
    /// Databases that have files.
    pub databases: u64,
    /// Files of relations.
    pub relation_files: u64,
    /// Bytes of these.
    pub relation_bytes: u64,
    /// Tablespaces beside the two that every cluster has.
    pub tablespaces: u64,
}

/// Examines a data directory, a directory of DWB files, or such files.
///
/// # Errors
/// When a path is neither a data directory nor holds DWB files, or several paths are not all files.
pub fn info(paths: &[PathBuf]) -> Result<InfoReport, InspectError> {
    let source = DwbSource::open(paths)?;
    let (mut dwb, findings) = source.examine();
    let walk = source.directory.as_ref().map(relations_of);
    for error in walk.iter().flat_map(|walk| &walk.skipped) {
        dwb.coverage.skip(SkippedPart::RelationFiles, error);
    }
    let cluster =
        source.directory.as_ref().zip(walk.as_ref()).map(|(directory, walk)| ClusterSummary::of(directory, walk));
    Ok(InfoReport { source, cluster, dwb, findings })
}

impl ClusterSummary {
    fn of(directory: &DataDir, walk: &RelationWalk) -> Self {
        let server = directory.server_sign();
        let databases: BTreeSet<u32> = walk.files.iter().map(|file| file.rel.db_oid).filter(|oid| *oid != 0).collect();
        let is_elsewhere = |oid: &u32| ![DEFAULT_TABLESPACE_OID, GLOBAL_TABLESPACE_OID].contains(oid);
        let tablespaces: BTreeSet<u32> = walk.files.iter().map(|file| file.rel.spc_oid).filter(is_elsewhere).collect();
        Self {
            condition: ClusterCondition::of(directory.control().trusted(), &server, &directory.recovery_signs()),
            server,
            databases: databases.len() as u64,
            relation_files: walk.files.len() as u64,
            relation_bytes: walk.files.iter().map(|file| file.size_bytes).sum(),
            tablespaces: tablespaces.len() as u64,
        }
    }
}
