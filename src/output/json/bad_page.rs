//! JSON of a page that `verify` found damaged.

use schemars::JsonSchema;
use serde::Serialize;

use super::page::{PageLocation, PlacedPageJson};
use super::scalars::{BadPageDisk, FateCode, FaultCode, Hex, LsnText, ReplayWord};
use crate::analysis::pages::page_check::PageDamage;
use crate::analysis::verdict::fate::ReplayFate;
use crate::types::PageId;

/// Columns of a damaged page in CSV, in order.
pub const BAD_PAGE_COLUMNS: &[&str] = &[
    "spc_oid",
    "db_oid",
    "rel_number",
    "relation",
    "fork",
    "block",
    "path",
    "offset",
    "disk",
    "checksum_stored",
    "checksum_computed",
    "server_rejects",
    "unlogged",
    "faults",
    "fault_codes",
    "replay",
    "replay_code",
    "record_lsn",
    "missing_segment",
    "reason",
];

/// Which page it is.
pub(crate) struct BadPageLocation<'a> {
    pub page: PageId,
    pub place: PageLocation<'a>,
    /// Where it starts in its file.
    pub offset: u64,
    /// The file ends inside it.
    pub is_cut: bool,
    pub is_unlogged: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct BadPageJson {
    #[serde(flatten)]
    page: PlacedPageJson,
    /// Offset of the page in that file
    offset: Hex,
    /// `damaged`; with `--replay` or `--wal` also `cut`: the file ends inside the page
    disk: BadPageDisk,
    /// Where they differ
    checksum_stored: Option<u16>,
    checksum_computed: Option<u16>,
    /// A server reports an error when it reads the page
    server_rejects: bool,
    /// The relation is unlogged
    unlogged: bool,
    /// Rules that the page breaks, in sentences and as codes: `page_rule`, `tuple_rule`
    faults: Vec<String>,
    fault_codes: Vec<FaultCode>,
    /// With `--replay` or `--wal`: `healed`, `real_damage` or `unknown`: see [codes.md](codes.md)
    replay: Option<ReplayWord>,
    /// Why, as a code and in words
    replay_code: Option<FateCode>,
    reason: Option<String>,
    /// The record that replaces, removes or reads the page
    record_lsn: Option<LsnText>,
    /// File name of the WAL segment that is missing, damaged, or ends too early
    missing_segment: Option<String>,
}

impl BadPageJson {
    /// A damaged page. `fate`: what replay makes of it, where that was asked for.
    pub(crate) fn new(location: &BadPageLocation<'_>, damage: &PageDamage, fate: Option<&ReplayFate>) -> Self {
        Self {
            page: PlacedPageJson::new(location.page, &location.place),
            offset: format!("{:#X}", location.offset).into(),
            disk: if location.is_cut { "cut" } else { "damaged" }.into(),
            checksum_stored: damage.checksum.map(|sums| sums.stored),
            checksum_computed: damage.checksum.map(|sums| sums.computed),
            server_rejects: damage.server_rejects,
            unlogged: location.is_unlogged,
            faults: damage.structure(),
            fault_codes: damage.structure_codes().into_iter().map(FaultCode).collect(),
            replay: fate.map(|fate| fate.name().into()),
            replay_code: fate.map(|fate| fate.code().into()),
            reason: fate.map(ToString::to_string),
            record_lsn: fate.and_then(ReplayFate::record_lsn).map(LsnText::from),
            missing_segment: fate.and_then(ReplayFate::missing_segment).map(ToString::to_string),
        }
    }
}
