//! JSON of `dwb-size`.

use strum::IntoStaticStr;

use schemars::JsonSchema;
use serde::Serialize;

use super::scalars::{CertaintyWord, Layout, LsnText, NeedWord};
use crate::analysis::plan::dwb_size::{DirtiedInterval, LayoutNeed, SizeTrial};
use crate::analysis::wal::tally::Certainty;

/// Fields of a row about what a layout needs, in the order of CSV.
pub(crate) const NEED_COLUMNS: &[&str] = &["for", "blocks", "layout", "setting_mb", "slots", "certainty"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum NeedFor {
    Mean,
    /// That of 95 of 100 intervals.
    P95,
    Peak,
}

impl NeedFor {
    pub fn code(self) -> &'static str {
        self.into()
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct BufferNeedJson {
    /// `mean`, `p95` (so many or fewer in 95 of 100 intervals) or `peak`, and the blocks
    r#for: NeedWord,
    blocks: u64,
    /// Revision of the buffer: `A`, `B`, `C`
    layout: Layout,
    /// The smallest `double_write_buffer_size` of 16 MB or more with as many slots, and its slots; absent where the largest has too few, and the slots of that
    setting_mb: Option<u32>,
    slots: u64,
    /// `estimate`: an evicted page goes through the buffer each time, and one that is changed again before a checkpoint writes it once for two intervals
    certainty: CertaintyWord,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct BufferTrialJson {
    /// The buffer
    layout: Layout,
    setting_mb: u32,
    slots: u64,
    /// Intervals with more blocks than slots, and all intervals
    wrapped: u64,
    intervals: u64,
    /// `estimate`, as in `buffer_need`
    certainty: CertaintyWord,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct DirtiedJson {
    /// Extent; absent: it began before the WAL that was read, or at a redo point that is hidden
    redo_lsn: Option<LsnText>,
    end_lsn: LsnText,
    /// The redo point is between these addresses. The interval before it ends at the earlier one, its own begins at the later one: what was changed between them belongs to neither for sure
    redo_after_lsn: Option<LsnText>,
    redo_before_lsn: Option<LsnText>,
    /// Distinct blocks that records refer to; pages logged as a whole are left out
    blocks: u64,
    /// Both its ends are redo points whose places are known; else it has so many blocks at least
    is_whole: bool,
}

impl BufferNeedJson {
    pub(crate) fn new(need: &LayoutNeed, of: NeedFor) -> Self {
        Self {
            r#for: of.code().into(),
            blocks: need.blocks,
            layout: need.layout.into(),
            setting_mb: need.setting_mb,
            slots: need.slots,
            certainty: Certainty::Estimate.code().into(),
        }
    }
}

impl From<&SizeTrial> for BufferTrialJson {
    fn from(trial: &SizeTrial) -> Self {
        Self {
            layout: trial.layout.into(),
            setting_mb: trial.setting_mb,
            slots: trial.slots,
            wrapped: trial.wrapped,
            intervals: trial.of,
            certainty: Certainty::Estimate.code().into(),
        }
    }
}

impl From<&DirtiedInterval> for DirtiedJson {
    fn from(interval: &DirtiedInterval) -> Self {
        Self {
            redo_lsn: interval.redo_lsn.map(LsnText::from),
            redo_after_lsn: interval.hidden.map(|hidden| hidden.after.into()),
            redo_before_lsn: interval.hidden.map(|hidden| hidden.before.into()),
            end_lsn: interval.end_lsn.into(),
            blocks: interval.blocks,
            is_whole: interval.is_whole,
        }
    }
}
