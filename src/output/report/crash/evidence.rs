//! Where images come from: the double write buffer, and WAL.

use super::super::more;
use super::CrashReport;
use crate::analysis::dwb::format::{RingFact, RingSummary};
use crate::output::document::{Blocks, Span};
use crate::output::json::{BatchJson, FileJson};

/// Files of the buffer that are listed.
const MAX_FILES: usize = 200;

const MAX_BATCHES: usize = 100;

const MAX_RUNS: usize = 100;

/// The double write buffer.
#[derive(Debug, Default)]
pub struct BufferShown {
    /// Summary.
    pub rings: Vec<RingSummary>,
    /// Its files.
    pub files: Vec<FileJson>,
    /// Its batches; `None`: unknown, because reading was interrupted.
    pub batches: Option<Vec<BatchJson>>,
    /// How images compare with their pages.
    pub compared: Option<String>,
}

/// WAL segments that follow each other without a gap.
#[derive(Clone, Debug)]
pub struct WalRun {
    /// Name of the first segment.
    pub first: String,
    /// Name of the last.
    pub last: String,
    /// How many.
    pub segments: usize,
    /// Where the first one begins.
    pub from: String,
    /// Where the last one ends.
    pub to: String,
    /// Where the first one is.
    pub found_at: String,
}

impl CrashReport<'_> {
    pub(super) fn write_buffer(&self, main: &mut Blocks) {
        let BufferShown { rings, files, batches, compared } = &self.buffer;
        main.section("buffer", "Double write buffer", |inner| {
            if files.is_empty() {
                return inner.paragraph("There are no files of one that could be read.");
            }
            let sum = |of: fn(&FileJson) -> u64| files.iter().map(of).sum::<u64>();
            let mut known = vec![
                ("slots", format!("{}, of which {} were ever written", sum(|file| file.slots), sum(|file| file.used))),
                (
                    "slot CRC",
                    format!(
                        "{} good, {} bad, {} unverifiable",
                        sum(|file| file.good),
                        sum(|file| file.bad),
                        sum(|file| file.unverifiable)
                    ),
                ),
                (
                    "batch",
                    format!(
                        "{} current, {} stale, {} undecided",
                        sum(|file| file.current),
                        sum(|file| file.stale),
                        sum(|file| file.undecided)
                    ),
                ),
            ];
            known.extend(compared.clone().map(|words| ("images and pages", words)));
            inner.facts(known);
            for ring in rings {
                let value = |fact: &RingFact| match fact {
                    RingFact::Number(number) => number.to_string(),
                    RingFact::Flag(true) => "yes".to_owned(),
                    RingFact::Flag(false) => "no".to_owned(),
                    RingFact::Code(code) => code.replace('_', " "),
                    RingFact::Unknown => "unknown".to_owned(),
                };
                inner.facts(ring.facts.iter().map(|(name, fact)| (name.replace('_', " "), value(fact))));
            }
            write_files(inner, files);
            more(inner, files.len(), MAX_FILES, "info");
            match batches {
                Some(batches) if !batches.is_empty() => {
                    write_batches(inner, batches);
                    more(inner, batches.len(), MAX_BATCHES, "batches");
                }
                Some(_) => {}
                None => inner.paragraph("Batches were not determined: reading was interrupted."),
            }
        });
    }

    pub(super) fn write_wal(&self, main: &mut Blocks) {
        let replay = &self.cluster.report.replay;
        main.section("wal", "WAL", |inner| {
            let unknown = || "unknown".to_owned();
            let known = [
                ("recovery", replay.recovery.name().replace('_', " ")),
                ("recovery begins at", replay.redo_lsn.map_or_else(unknown, |lsn| lsn.to_string())),
                ("valid WAL ends at", replay.end_lsn.map_or_else(unknown, |lsn| lsn.to_string())),
            ];
            inner.facts(known);
            if self.wal.is_empty() {
                return inner.paragraph("No WAL could be read.");
            }
            let row = |run: &WalRun| {
                [
                    Span::code(&run.first),
                    Span::code(&run.last),
                    Span::number(run.segments),
                    Span::code(&run.from),
                    Span::code(&run.to),
                    Span::code(&run.found_at),
                ]
            };
            let caption = match self.wal.len() {
                1 => "Existing segments, without a gap",
                _ => "Existing segments; between two rows some are missing",
            };
            let headings = ["first segment", "last segment", "segments", "from", "to", "the first one is"];
            inner.table(caption, headings, self.wal.iter().take(MAX_RUNS).map(row));
            more(inner, self.wal.len(), MAX_RUNS, "pg_walfpi verify");
        });
    }
}

fn write_files(parent: &mut Blocks, files: &[FileJson]) {
    let row = |file: &FileJson| {
        let unknown = if file.header == "good" { "-" } else { "header bad" };
        [
            Span::code(&file.file),
            Span::text(if file.layout_by == "guess" { format!("{}?", file.layout) } else { file.layout.to_owned() }),
            Span::text(file.batch_id.as_deref().unwrap_or("-")),
            Span::code(file.checkpoint_lsn.as_deref().unwrap_or(unknown)),
            Span::number(file.slots),
            Span::number(file.used),
            Span::number(if file.unverifiable > 0 { "?".to_owned() } else { file.bad.to_string() }),
            Span::number(file.current),
            Span::number(file.stale),
            Span::number(file.undecided),
        ]
    };
    let headings = ["file", "layout", "batch", "reset at", "slots", "used", "bad", "current", "stale", "undecided"];
    parent.table("Files", headings, files.iter().take(MAX_FILES).map(row));
}

fn write_batches(parent: &mut Blocks, batches: &[BatchJson]) {
    let row = |batch: &BatchJson| {
        let class = match batch.batch {
            "current" => "good",
            "stale" => "faint",
            _ => "doubt",
        };
        let rest = if batch.relations > batch.top_relations.len() { ", …" } else { "" };
        [
            Span::Mark(batch.batch.to_owned(), class),
            Span::text(batch.confidence),
            Span::number(batch.slots),
            Span::code(&batch.first_slot),
            Span::code(&batch.last_slot),
            Span::code(&batch.lowest_lsn),
            Span::code(&batch.highest_lsn),
            Span::text(format!("{}{rest}", batch.top_names.join(", "))),
        ]
    };
    parent.table(
        "Batches: what was written between two resets of the buffer",
        ["batch", "confidence", "slots", "first", "last", "lowest LSN", "highest LSN", "relations"],
        batches.iter().take(MAX_BATCHES).map(row),
    );
}
