//! `pg_walfpi whatif`: what other settings would have made of some WAL.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::{Map, json};

use super::PROGRAM;
use super::args::{CommonArgs, Duration, Sample, Size, path_texts};
use crate::analysis::plan::whatif::spacing::MAX_SETTINGS;
use crate::analysis::plan::whatif::{NoKnee, Spacing, WhatIfPlan, knee};
use crate::cli::exit::{Outcome, Stop};
use crate::cli::usage::UsageError;
use crate::cli::work::{ByteBar, JobsArg, ProgressArg};
use crate::inspect::wal::source::ReadWal;
use crate::inspect::wal::whatif::{WhatIfReport, WhatIfRequest, usual_spacings, what_if};
use crate::output::closing::{Closing, begin};
use crate::output::json::whatif::{
    COMPRESSION_COLUMNS, CompressionJson, GUARD_COLUMNS, GuardJson, HINT_COLUMNS, HintJson, SPACING_COLUMNS,
    SpacingJson,
};
use crate::output::json::{Item, lsn_text};
use crate::output::sink::CsvShape;
use crate::output::whatif_text::{write_compression, write_hints, write_protection, write_spacing};
use crate::parsers::wal::version::Major;

/// Show the same WAL under other settings
///
/// The sequence in which records touch blocks is replayed under each setting: an image is written where the page was last
/// changed before the redo point. The work stays the same; a server under another setting may do other work at other
/// times, above all autovacuum.
///
/// Checkpoint spacing: each second, fourth and eighth checkpoint kept, then max_wal_size and checkpoint_timeout, each on
/// its own. Images that are kept or avoided are counted; added images have the mean size of those of their relation.
/// A server too busy to complete a checkpoint before the next one is due has fewer checkpoints, and writes fewer images
/// than predicted. With few checkpoints in the WAL, one more or less changes much. The price is the WAL that crash recovery
/// reads. The knee is the max_wal_size whose image bytes are farthest below the straight line from the first value to the
/// last, with sizes on a logarithmic scale. Settings with fewer than two checkpoints in this WAL show neither.
///
/// Torn page protection: full-page writes, a double write buffer, or neither. Pages of the buffer are counted once in each
/// checkpoint interval; a page that is evicted goes through it each time.
///
/// Hints: images for hint bits, which data checksums or wal_log_hints ask for, of pages that nothing else changed.
///
/// Compression: images compressed again as wal_compression asks for, all of them up to the number that --sample gives, else
/// an evenly spread sample, with its standard error. With pglz they are the bytes that a server on x86 stores; with LZ4 and
/// zstd other versions of the libraries differ by up to 1 percent in sum. CPU is what this program's compressors take for
/// 10^9 bytes of pages without their holes, by one processor of this machine; those of a server may be faster with LZ4.
#[derive(Debug, Args)]
#[command(after_help = crate::cli::exit::EXIT_STATUS)]
pub(crate) struct WhatIfArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    replay: ReplayArgs,
    /// Images to compress again: a number, or all
    #[arg(long, value_name = "N|all", default_value_t = Sample::default())]
    sample: Sample,
    #[command(flatten)]
    jobs: JobsArg,
    #[command(flatten)]
    progress: ProgressArg,
}

/// What is replayed, and what is shown of it.
#[derive(Debug, Default, Args)]
pub(super) struct ReplayArgs {
    /// Sections to show [default: all; with --format csv: spacing]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SECTION")]
    section: Vec<Section>,
    /// Values of max_wal_size, such as 4GB [default: 64MB to 64GB]
    #[arg(long, value_delimiter = ',', value_name = "SIZE")]
    max_wal_size: Vec<Size>,
    /// Values of checkpoint_timeout, such as 15min; with --max-wal-size: each together with each [default: 30s to 1h]
    #[arg(long, value_delimiter = ',', value_name = "TIME")]
    checkpoint_timeout: Vec<Duration>,
    /// checkpoint_completion_target, which WAL does not contain [default: 0.9; up to PostgreSQL 13: 0.5]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    completion_target: Option<f64>,
}

/// A part of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Checkpoints farther apart or closer
    Spacing,
    /// Full-page writes, a double write buffer, or neither
    Protection,
    /// Images for hint bits
    Hints,
    /// Images under each setting of wal_compression
    Compression,
}

/// A part of a whole.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

impl ReplayArgs {
    /// Settings that are replayed.
    pub(super) fn plan(&self) -> Result<WhatIfPlan, UsageError> {
        Ok(WhatIfPlan { spacings: self.spacings()?, completion_target: self.completion_target })
    }

    fn spacings(&self) -> Result<Vec<Spacing>, UsageError> {
        let (sizes, times) = (&self.max_wal_size, &self.checkpoint_timeout);
        let spacings: Vec<Spacing> = match (sizes.is_empty(), times.is_empty()) {
            (true, true) => usual_spacings(),
            (false, true) => sizes.iter().map(|size| Spacing::MaxWalSize { bytes: size.0 }).collect(),
            (true, false) => times.iter().map(|time| Spacing::Timeout { seconds: time.0 }).collect(),
            (false, false) => sizes
                .iter()
                .flat_map(|size| times.iter().map(|time| Spacing::Both { bytes: size.0, seconds: time.0 }))
                .collect(),
        };
        if spacings.len() > MAX_SETTINGS {
            return Err(UsageError::ManySettings(spacings.len()));
        }
        Ok(spacings)
    }

    /// True when a section is shown.
    fn shows(&self, section: Section) -> bool {
        self.section.is_empty() || self.section.contains(&section)
    }

    /// The section whose rows CSV shows.
    fn csv_shape(&self) -> CsvShape<'static> {
        let (plural, columns) = match self.section.first() {
            None | Some(Section::Spacing) => ("spacings", SPACING_COLUMNS),
            Some(Section::Protection) => ("guards", GUARD_COLUMNS),
            Some(Section::Hints) => ("hints", HINT_COLUMNS),
            Some(Section::Compression) => ("compressions", COMPRESSION_COLUMNS),
        };
        CsvShape::Rows { plural, columns }
    }
}

pub(super) fn run(args: &WhatIfArgs, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let wal = args.common.request(args.jobs)?;
    let compression = args.replay.shows(Section::Compression).then_some(args.sample.0);
    let request = WhatIfRequest { wal, plan: args.replay.plan()?, compression };
    let bar = ByteBar::new(args.progress);
    let report = what_if(&request, &|done, total| bar.at(done, total))?;
    drop(bar);
    let (replay, output) = (&args.replay, &args.common.output);
    let WhatIfReport { what_if, compression, wal: ReadWal { origin, findings, coverage, .. } } = report;
    let block_size = origin.geometry.block_size;
    let closing = Closing::new(findings, &coverage);
    if let Some(format) = output.machine() {
        let mut sink = begin(format, replay.csv_shape(), out, (PROGRAM, "whatif"), path_texts(&request.wal))?;
        let spacing = SpacingJson::all(&what_if).into_iter().map(|row| Item::Spacing(Box::new(row)));
        let guards = what_if.protection.columns.iter().map(|guard| Item::Guard(GuardJson::new(guard, block_size)));
        let hints = HintJson::all(&what_if.hints).into_iter().map(Item::Hint);
        let settings = compression.iter().flat_map(|compression| {
            compression.rows.iter().map(|row| Item::Compression(CompressionJson::new(row, &compression.written)))
        });
        let mut shown = 0;
        for item in spacing
            .filter(|_| replay.shows(Section::Spacing))
            .chain(guards.filter(|_| replay.shows(Section::Protection)))
            .chain(hints.filter(|_| replay.shows(Section::Hints)))
            .chain(settings)
        {
            sink.item(&item)?;
            shown += 1;
        }
        let totals: Map<_, _> = [
            ("replayed_from", json!(what_if.replayed_from.map(lsn_text))),
            ("not_replayed_bytes", json!(what_if.not_replayed_bytes)),
            ("completion_target", json!(what_if.completion_target)),
            ("seconds", json!(what_if.seconds)),
            ("distinct_blocks", json!(what_if.distinct_blocks)),
            ("knee_max_wal_size_bytes", json!(knee(&what_if.spacing).ok())),
            ("knee_unknown", json!(knee(&what_if.spacing).err().map(NoKnee::code))),
            ("images_always", json!(what_if.protection.always.images)),
            ("image_bytes_always", json!(what_if.protection.always.image_bytes)),
            ("images_in_backup", json!(what_if.protection.in_backup.images)),
            ("images_missing", json!(what_if.protection.missing)),
            ("major", json!(origin.major.map(Major::number))),
            ("system_identifier", json!(origin.system_identifier.map(|id| id.to_string()))),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        return Ok(closing.end(sink, shown, totals)?.into());
    }
    let layout = output.layout();
    let mut is_first = true;
    let mut separate = |out: &mut dyn Write| {
        let blank = if std::mem::take(&mut is_first) { "" } else { "\n" };
        out.write_all(blank.as_bytes())
    };
    if replay.shows(Section::Spacing) {
        separate(out)?;
        write_spacing(out, layout, &what_if)?;
    }
    if replay.shows(Section::Protection) {
        separate(out)?;
        write_protection(out, layout, &what_if.protection, block_size)?;
    }
    if replay.shows(Section::Hints) {
        separate(out)?;
        write_hints(out, layout, &what_if.hints)?;
    }
    if let Some(compression) = &compression {
        separate(out)?;
        write_compression(out, layout, compression)?;
    }
    Ok(closing.end_text(out, layout)?.into())
}
