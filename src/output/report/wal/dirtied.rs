//! How large a double write buffer must be.

use super::{WalReport, exact};
use crate::analysis::wal::dwb_size::{DirtySummary, LARGEST_MB, needs};
use crate::output::document::{Blocks, Span};
use crate::output::figures::size;

impl WalReport<'_> {
    /// Blocks dirtied in a checkpoint interval, and the setting that holds them.
    pub(super) fn write_dirtied(&self, to: &mut Blocks) {
        let Some(intervals) = self.dirtied else {
            return to.paragraph("Reading was interrupted before these blocks were counted.");
        };
        if intervals.is_empty() {
            return to.paragraph("No block was changed in this range.");
        }
        let summary = DirtySummary::of(intervals);
        let mut rows = Vec::new();
        for (name, blocks) in [("mean", summary.mean), ("95 of 100", summary.p95), ("peak", summary.peak)] {
            for need in needs(blocks, self.block_size) {
                let setting =
                    need.setting_mb.map_or_else(|| format!("over {LARGEST_MB} MB"), |mb| format!("≥ {mb} MB"));
                rows.push([
                    Span::Text(name.to_owned()),
                    exact(blocks),
                    Span::Number(size(blocks.saturating_mul(u64::from(self.block_size)))),
                    Span::Text(need.layout.to_owned()),
                    Span::Number(setting),
                    exact(need.slots),
                ]);
            }
        }
        let caption = "double_write_buffer_size that holds the blocks of a checkpoint interval";
        to.table(caption, ["interval", "blocks", "bytes", "revision", "setting", "slots"], rows);
        let mut note = format!(
            "Counted over {} intervals, each block once in each. The settings are an estimate: an evicted page goes through the buffer each time. A page that is changed again before a checkpoint writes it goes through once for two intervals.",
            summary.intervals
        );
        if summary.peak_of_partial > summary.peak {
            note.push_str(&format!(" An incomplete interval has {} blocks already.", summary.peak_of_partial));
        }
        to.note(note);
    }
}
