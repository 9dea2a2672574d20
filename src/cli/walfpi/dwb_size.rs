//! `pg_walfpi dwb-size`: how large a double write buffer must be.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::PROGRAM;
use super::args::{CommonArgs, Size, path_texts};
use crate::analysis::plan::dwb_size::{DirtySummary, LARGEST_MB, needs, trials};
use crate::cli::exit::{Outcome, Stop};
use crate::cli::usage::UsageError;
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::inspect::wal::dwb_size::{DwbSizeReport, dwb_size};
use crate::inspect::wal::source::ReadWal;
use crate::output::closing::{Closing, begin};
use crate::output::dwb_size_text::{write_dirtied, write_needs, write_trials, write_wrap};
use crate::output::json::Item;
use crate::output::json::dwb_size::{BufferNeedJson, NEED_COLUMNS, NeedFor};
use crate::output::sink::CsvShape;

/// Show how large a double write buffer must be
///
/// Distinct blocks that records dirty in each checkpoint interval go through the buffer before it wraps: peak, 95 of
/// 100 intervals, and mean, and the double_write_buffer_size that has as many slots. With fewer slots, the first
/// images are overwritten while their pages may not have reached the disk. Blocks are counted once in each interval; a page
/// that is evicted and changed again goes through each time, and one that is changed again before a checkpoint writes it goes
/// through once for two intervals, so these are estimates, mostly too low. Pages logged as a whole are left out:
/// bulk writes pass the buffer by.
///
/// With a data directory: whether its buffer has overwritten images of its current batch.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct DwbSizeArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Sizes to try, such as 64MB [default: 64MB, 128MB, 256MB, 512MB and 1GB]
    #[arg(long, value_delimiter = ',', value_name = "SIZE")]
    size: Vec<Size>,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
}

impl DwbSizeArgs {
    /// The sizes in MB.
    fn sizes_mb(&self) -> Result<Vec<u32>, UsageError> {
        /// The default of the server, and those that double it.
        const USUAL_MB: [u32; 5] = [64, 128, 256, 512, 1024];
        if self.size.is_empty() {
            return Ok(USUAL_MB.to_vec());
        }
        let mb = |size: &Size| u32::try_from(size.0 >> 20).ok().filter(|mb| (1..=LARGEST_MB).contains(mb));
        self.size.iter().map(|size| mb(size).ok_or(UsageError::NotABufferSize)).collect()
    }
}

pub(super) fn run(args: &DwbSizeArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let sizes_mb = args.sizes_mb()?;
    let request = args.common.request(args.jobs)?;
    let bar = ByteBar::new(args.progress);
    let report = dwb_size(&request, &|done, total| bar.at(done, total))?;
    drop(bar);
    let DwbSizeReport { intervals, buffer, wal: ReadWal { origin, findings, coverage, .. } } = report;
    let block_size = origin.geometry.block_size;
    let summary = DirtySummary::of(&intervals);
    let wanted = [(NeedFor::Mean, summary.mean), (NeedFor::P95, summary.p95), (NeedFor::Peak, summary.peak)];
    let needs: Vec<_> = wanted
        .into_iter()
        .flat_map(|(of, blocks)| needs(blocks, block_size).into_iter().map(move |need| (of, need)))
        .collect();
    let trials = trials(&intervals, &sizes_mb, block_size);
    let closing = Closing::new(findings, &coverage);
    if let Some(format) = args.common.output.machine() {
        let shape = CsvShape::Rows { plural: "buffer_needs", columns: NEED_COLUMNS };
        let mut sink = begin(format, shape, out, (PROGRAM, "dwb-size"), path_texts(&request))?;
        let items = needs.iter().map(|(of, need)| Item::BufferNeed(BufferNeedJson::new(need, *of)));
        let items = items.chain(trials.iter().map(|trial| Item::BufferTrial(trial.into())));
        let mut shown = 0;
        for item in items.chain(intervals.iter().map(|interval| Item::Dirtied(interval.into()))) {
            sink.item(&item)?;
            shown += 1;
        }
        let totals = [
            ("intervals", json!(summary.intervals)),
            ("peak_blocks", json!(summary.peak)),
            ("p95_blocks", json!(summary.p95)),
            ("mean_blocks", json!(summary.mean)),
            ("peak_blocks_of_partial", json!(summary.peak_of_partial)),
            ("buffer_wrapped", json!(buffer.map(|wrap| wrap.code()))),
            ("block_size", json!(block_size)),
        ];
        let totals = totals.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        return Ok(closing.end(sink, shown, totals)?.into());
    }
    let layout = args.common.output.layout();
    write_dirtied(out, layout, &summary, block_size)?;
    writeln!(out)?;
    write_needs(out, layout, &needs)?;
    writeln!(out)?;
    write_trials(out, layout, &trials)?;
    if let Some(wrap) = buffer {
        writeln!(out)?;
        write_wrap(out, layout, wrap)?;
    }
    Ok(closing.end_text(out, layout)?.into())
}
