//! What a part of some WAL counted, in a form to which the parts before and after it can be added.

use serde::{Deserialize, Serialize};

use super::wal::Row;
use super::{FindingJson, SkippedJson};
use crate::analysis::wal::seam::PartRun;
use crate::cluster::wal::WalOrigin;
use crate::types::{Geometry, Lsn, RelFileLocator};

/// Number of the schema of partial results.
pub const PARTIAL_SCHEMA: u32 = 3;

/// A partial result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartialJson {
    /// See [`PARTIAL_SCHEMA`].
    pub pgforensics_partial: u32,
    /// Version of the program that wrote it.
    pub version: String,
    /// What rows are grouped by, or `whatif`: touches of blocks are kept.
    pub by: String,
    /// Facts of the WAL that all parts share.
    pub wal: WalJson,
    /// Runs of segments.
    pub runs: Vec<RunJson>,
    /// Sums.
    pub totals: Row,
    /// What looks wrong or is worth knowing.
    pub findings: Vec<FindingJson>,
    /// What was not examined.
    pub skipped: Vec<SkippedJson>,
    /// Records that were examined.
    pub examined: u64,
    /// Names of relations in the state.
    pub relations: Vec<NameJson>,
    /// Names of databases in the state, by OID.
    pub databases: Vec<(u32, String)>,
    /// All that was counted, base64: [`crate::analysis::wal::part_state::PartState::to_bytes`].
    pub state: String,
}

/// Name of a relation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NameJson {
    spc_oid: u32,
    db_oid: u32,
    rel_number: u32,
    name: String,
}

impl NameJson {
    /// The name of these files.
    #[must_use]
    pub const fn new(rel: RelFileLocator, name: String) -> Self {
        let RelFileLocator { spc_oid, db_oid, rel_number } = rel;
        Self { spc_oid, db_oid, rel_number, name }
    }

    /// The files, and their name.
    #[must_use]
    pub fn named(&self) -> (RelFileLocator, String) {
        let Self { spc_oid, db_oid, rel_number, .. } = *self;
        (RelFileLocator { spc_oid, db_oid, rel_number }, self.name.clone())
    }
}

/// Of which WAL a partial result is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalJson {
    /// The cluster.
    pub system_identifier: Option<u64>,
    /// Its major; of a format that no release writes the magic of its pages.
    pub major: Option<u32>,
    /// Bytes of a data page.
    pub block_size: u32,
    /// Blocks in a segment file of a relation.
    pub rel_segment_blocks: u32,
    /// Bytes of a WAL page.
    pub wal_block_size: u32,
    /// Bytes of a WAL segment.
    pub wal_segment_size: u32,
}

impl From<&WalOrigin> for WalJson {
    fn from(origin: &WalOrigin) -> Self {
        let WalOrigin { major, system_identifier, geometry } = *origin;
        let Geometry { block_size, rel_segment_blocks, wal_block_size, wal_segment_size } = geometry;
        let major =
            major.map(|major| if major.facts().is_released { major.number() } else { u32::from(major.magic()) });
        Self { system_identifier, major, block_size, rel_segment_blocks, wal_block_size, wal_segment_size }
    }
}

impl WalJson {
    /// The sizes; `None` where a server cannot have such.
    #[must_use]
    pub fn geometry(&self) -> Option<Geometry> {
        let Self { block_size, rel_segment_blocks, wal_block_size, wal_segment_size, .. } = *self;
        let is_one = |size: u32, (least, most): (u32, u32)| size.is_power_of_two() && (least..=most).contains(&size);
        let fits = is_one(block_size, (1 << 10, 1 << 15))
            && is_one(wal_block_size, (1 << 10, 1 << 16))
            && is_one(wal_segment_size, (1 << 20, 1 << 30));
        fits.then_some(Geometry { block_size, rel_segment_blocks, wal_block_size, wal_segment_size })
    }
}

/// A [`PartRun`]; LSNs are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunJson {
    start_lsn: u64,
    limit_lsn: u64,
    first_lsn: Option<u64>,
    first_prev: Option<u64>,
    last_lsn: Option<u64>,
    next_lsn: Option<u64>,
    is_whole: bool,
    unfinished: Option<u64>,
}

impl From<&PartRun> for RunJson {
    fn from(run: &PartRun) -> Self {
        let number = |lsn: Option<Lsn>| lsn.map(|lsn| lsn.0);
        Self {
            start_lsn: run.start_lsn.0,
            limit_lsn: run.limit_lsn.0,
            first_lsn: number(run.first_lsn),
            first_prev: number(run.first_prev),
            last_lsn: number(run.last_lsn),
            next_lsn: number(run.next_lsn),
            is_whole: run.is_whole,
            unfinished: number(run.unfinished),
        }
    }
}

impl From<&RunJson> for PartRun {
    fn from(run: &RunJson) -> Self {
        Self {
            start_lsn: Lsn(run.start_lsn),
            limit_lsn: Lsn(run.limit_lsn),
            first_lsn: run.first_lsn.map(Lsn),
            first_prev: run.first_prev.map(Lsn),
            last_lsn: run.last_lsn.map(Lsn),
            next_lsn: run.next_lsn.map(Lsn),
            is_whole: run.is_whole,
            unfinished: run.unfinished.map(Lsn),
        }
    }
}
