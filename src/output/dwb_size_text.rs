//! How large a double write buffer must be, as tables.

use std::io::{self, Write};

use super::figures::size;
use super::json::dwb_size::NeedFor;
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped};
use crate::analysis::plan::dwb_size::{BufferWrap, DirtySummary, LARGEST_MB, LayoutNeed, SizeTrial};

/// Writes how many blocks intervals dirty.
pub(crate) fn write_dirtied(
    out: &mut dyn Write,
    layout: Layout,
    summary: &DirtySummary,
    block_size: u32,
) -> io::Result<()> {
    writeln!(out, "{}", layout.paint.heading("blocks dirtied in a checkpoint interval"))?;
    let bytes = |blocks: u64| size(blocks.saturating_mul(u64::from(block_size)));
    for (name, blocks) in [("mean", summary.mean), ("95 of 100", summary.p95), ("peak", summary.peak)] {
        writeln!(out, "  {name:<10} {blocks:>10}  {:>7}", bytes(blocks))?;
    }
    let counted = format!(
        "Counted over {} intervals, each block once in each. An evicted page goes through the buffer each time; one that \
         is changed again before a checkpoint writes it goes through once for two intervals.",
        summary.intervals
    );
    wrapped(out, layout, "  ", 2, &counted)?;
    if summary.peak_of_partial > summary.peak {
        let blocks = summary.peak_of_partial;
        let words = format!("An incomplete interval has {blocks} blocks ({}) already.", bytes(blocks));
        wrapped(out, layout, "  ", 2, &words)?;
    }
    Ok(())
}

pub(crate) fn write_needs(out: &mut dyn Write, layout: Layout, needs: &[(NeedFor, LayoutNeed)]) -> io::Result<()> {
    writeln!(out, "{}", layout.paint.heading("double_write_buffer_size that holds them"))?;
    let mut table = plain_table(&["for", "blocks", "revision", "setting", "slots"]);
    for (of, need) in needs {
        let name = match of {
            NeedFor::Mean => "mean",
            NeedFor::P95 => "95 of 100",
            NeedFor::Peak => "peak",
        };
        table.add_row([
            name.to_owned(),
            need.blocks.to_string(),
            need.layout.to_owned(),
            need.setting_mb.map_or_else(|| format!("over {LARGEST_MB} MB"), |mb| format!("{mb} MB")),
            need.slots.to_string(),
        ]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..2).numbers(3..5))?;
    wrapped(
        out,
        layout,
        "  ",
        2,
        "The ring in pg_dwb never wraps: writers wait until pages of earlier batches are durable.",
    )
}

/// Writes how often sizes would have wrapped.
pub(crate) fn write_trials(out: &mut dyn Write, layout: Layout, trials: &[SizeTrial]) -> io::Result<()> {
    writeln!(out, "{}", layout.paint.heading("intervals with more blocks than a size has slots"))?;
    let mut table = plain_table(&["setting", "revision", "slots", "wrapped", "of"]);
    for trial in trials {
        table.add_row([
            format!("{} MB", trial.setting_mb),
            trial.layout.to_owned(),
            trial.slots.to_string(),
            trial.wrapped.to_string(),
            trial.of.to_string(),
        ]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(0..1).numbers(2..5))
}

/// Writes whether the buffer of the cluster has wrapped.
pub(crate) fn write_wrap(out: &mut dyn Write, layout: Layout, wrap: BufferWrap) -> io::Result<()> {
    wrapped(
        out,
        layout,
        "",
        0,
        match wrap {
            BufferWrap::NoBuffer => "The cluster has no double write buffer.",
            BufferWrap::Never => "The buffer of the cluster never wraps.",
            BufferWrap::Likely => {
                "The buffer of the cluster has very probably wrapped: older images of its current batch were \
                 overwritten."
            }
            BufferWrap::No => "The buffer of the cluster has not wrapped: its current batch ends before the last slot.",
            BufferWrap::Unknown => {
                "Whether the buffer of the cluster has wrapped is unknown: no slot is known to belong to the current batch."
            }
        },
    )
}
