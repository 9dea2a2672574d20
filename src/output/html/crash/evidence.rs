//! Where images come from: the double write buffer, and WAL.

use super::super::closing::more;
use super::super::parts::{Cell, Table, facts, paragraph, section, table};
use super::CrashReport;
use crate::analysis::dwb_format::{RingFact, RingSummary};
use crate::output::json::{BatchJson, FileJson};
use crate::output::markup::Markup;

/// Files of the buffer that are listed.
const MAX_FILES: usize = 200;

const MAX_BATCHES: usize = 100;

const MAX_RUNS: usize = 100;

/// The double write buffer.
#[derive(Debug, Default)]
pub struct BufferShown {
    /// What is known of it as a whole.
    pub rings: Vec<RingSummary>,
    /// Its files.
    pub files: Vec<FileJson>,
    /// Its batches; `None`: they were not told, since reading was broken off.
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
    pub(super) fn write_buffer(&self, main: &mut Markup) {
        let BufferShown { rings, files, batches, compared } = &self.buffer;
        section(main, "buffer", "Double write buffer", |inner| {
            if files.is_empty() {
                return paragraph(inner, "There are no files of one that could be read.");
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
            facts(inner, &known);
            for ring in rings {
                let value = |fact: &RingFact| match fact {
                    RingFact::Number(number) => number.to_string(),
                    RingFact::Flag(true) => "yes".to_owned(),
                    RingFact::Flag(false) => "no".to_owned(),
                    RingFact::Code(code) => code.replace('_', " "),
                    RingFact::Unknown => "unknown".to_owned(),
                };
                let known: Vec<_> =
                    ring.facts.iter().map(|(name, fact)| (name.replace('_', " "), value(fact))).collect();
                facts(inner, &known);
            }
            table(inner, &files_table(files));
            more(inner, files.len(), MAX_FILES, "info");
            match batches {
                Some(batches) if !batches.is_empty() => {
                    table(inner, &batches_table(batches));
                    more(inner, batches.len(), MAX_BATCHES, "batches");
                }
                Some(_) => {}
                None => paragraph(inner, "Batches were not told: the reading was broken off."),
            }
        });
    }

    pub(super) fn write_wal(&self, main: &mut Markup) {
        let replay = &self.cluster.report.replay;
        section(main, "wal", "WAL", |inner| {
            let unknown = || "unknown".to_owned();
            let known = [
                ("recovery", replay.recovery.name().replace('_', " ")),
                ("replay begins at", replay.redo_lsn.map_or_else(unknown, |lsn| lsn.to_string())),
                ("valid WAL ends at", replay.end_lsn.map_or_else(unknown, |lsn| lsn.to_string())),
            ];
            facts(inner, &known);
            if self.wal.is_empty() {
                return paragraph(inner, "No WAL could be read.");
            }
            let row = |run: &WalRun| {
                vec![
                    Cell::code(&run.first),
                    Cell::code(&run.last),
                    Cell::number(run.segments),
                    Cell::code(&run.from),
                    Cell::code(&run.to),
                    Cell::code(&run.found_at),
                ]
            };
            let caption = match self.wal.len() {
                1 => "Segments that are there, without a gap".to_owned(),
                _ => "Segments that are there; between two rows some are missing".to_owned(),
            };
            let headings = vec!["first segment", "last segment", "segments", "from", "to", "the first one is"];
            let rows = self.wal.iter().take(MAX_RUNS).map(row).collect();
            table(inner, &Table { caption, headings, rows });
            more(inner, self.wal.len(), MAX_RUNS, "pg_walfpi verify");
        });
    }
}

fn files_table(files: &[FileJson]) -> Table {
    let row = |file: &FileJson| {
        let unknown = if file.header == "good" { "-" } else { "header bad" };
        vec![
            Cell::code(&file.file),
            Cell::text(if file.layout_by == "guess" { format!("{}?", file.layout) } else { file.layout.to_owned() }),
            Cell::text(file.batch_id.as_deref().unwrap_or("-")),
            Cell::code(file.checkpoint_lsn.as_deref().unwrap_or(unknown)),
            Cell::number(file.slots),
            Cell::number(file.used),
            Cell::number(if file.unverifiable > 0 { "?".to_owned() } else { file.bad.to_string() }),
            Cell::number(file.current),
            Cell::number(file.stale),
            Cell::number(file.undecided),
        ]
    };
    Table {
        caption: "Files".to_owned(),
        headings: vec!["file", "layout", "batch", "reset at", "slots", "used", "bad", "current", "stale", "undecided"],
        rows: files.iter().take(MAX_FILES).map(row).collect(),
    }
}

fn batches_table(batches: &[BatchJson]) -> Table {
    let row = |batch: &BatchJson| {
        let class = match batch.batch {
            "current" => "good",
            "stale" => "faint",
            _ => "doubt",
        };
        let rest = if batch.relations > batch.top_relations.len() { ", …" } else { "" };
        vec![
            Cell::Mark(batch.batch.to_owned(), class),
            Cell::text(batch.confidence),
            Cell::number(batch.slots),
            Cell::code(&batch.first_slot),
            Cell::code(&batch.last_slot),
            Cell::code(&batch.lowest_lsn),
            Cell::code(&batch.highest_lsn),
            Cell::text(format!("{}{rest}", batch.top_names.join(", "))),
        ]
    };
    Table {
        caption: "Batches: what was written between two resets of the buffer".to_owned(),
        headings: vec!["batch", "sure", "slots", "first", "last", "lowest LSN", "highest LSN", "relations"],
        rows: batches.iter().take(MAX_BATCHES).map(row).collect(),
    }
}
