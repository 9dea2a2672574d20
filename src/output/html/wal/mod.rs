//! The report on some WAL: how much of it is full-page images, when they were written, of what, why, and what other
//! settings would have made of it. Every plot stands above its numbers.

mod dirtied;
mod groups;
mod settings;
mod time;
mod what_if;

use super::closing::{findings_section, origin, skipped_box};
use super::parts::{Cell, Table, facts, figure, note, paragraph, section, table};
use super::{Provenance, page};
use crate::analysis::verdict::answer::Answer;
use crate::analysis::wal::dwb_size::DirtiedInterval;
use crate::analysis::wal::group_rows::RelationFigures;
use crate::analysis::wal::interval::Interval;
use crate::analysis::wal::since_redo::SinceRedo;
use crate::analysis::wal::tally::Tally;
use crate::analysis::wal::whatif::WhatIf;
use crate::analysis::wal::whatif::compression::CompressionWhatIf;
use crate::output::closing::Closing;
use crate::output::figures::{percent, size};
use crate::output::markup::Markup;
use crate::output::plot::{Plot, grouped};

pub(crate) struct WalReport<'a> {
    pub made: &'a Provenance,
    pub paths: &'a str,
    pub origin: Vec<(&'static str, String)>,
    pub closing: &'a Closing,
    pub total: Tally,
    /// Bytes of WAL that they lie in.
    pub wal_bytes: u64,
    pub intervals: &'a [Interval],
    /// Images by how long after the redo point they were written.
    pub since_redo: &'a SinceRedo,
    /// Relations with images, the most image bytes first.
    pub relations: Vec<RelationRow>,
    pub relations_in_all: usize,
    /// Why images were written, by code, the most image bytes first.
    pub causes: Vec<(&'static str, Tally)>,
    /// What other settings of `wal_compression` would have stored.
    pub compression: Option<&'a CompressionWhatIf>,
    /// What other checkpoints and guards against torn pages would have made of the WAL.
    pub what_if: Option<&'a WhatIf>,
    /// Blocks that were dirtied in each checkpoint interval; `None`: they were not counted.
    pub dirtied: Option<&'a [DirtiedInterval]>,
    /// Bytes of a page.
    pub block_size: u32,
}

/// A cause of images by its code, and their bytes.
pub(crate) type MainCause = Option<(&'static str, u64)>;

#[derive(Clone, Debug)]
pub(crate) struct RelationRow {
    pub name: String,
    pub images: Tally,
    /// The cause of most of its image bytes, and these bytes.
    pub cause: MainCause,
    /// What was done with it, where that is known.
    pub figures: Option<RelationFigures>,
}

/// Names of all plots that a report may have.
pub(crate) const PLOT_NAMES: [&str; 11] = [
    "bytes",
    "share",
    "rate",
    "since_redo",
    "decay",
    "relations",
    "causes",
    "max_wal_size",
    "checkpoint_timeout",
    "protection",
    "compression",
];

struct Figure {
    /// Name of its file, without the ending.
    name: &'static str,
    plot: Plot,
    numbers: Option<Table>,
    notes: Vec<String>,
}

enum Part {
    Figure(Box<Figure>),
    /// Numbers without a plot, and how they are to be read.
    Table(Table, String),
    Absent(&'static str),
}

struct Chapter {
    id: &'static str,
    heading: &'static str,
    parts: Vec<Part>,
}

impl WalReport<'_> {
    fn chapters(&self) -> Vec<Chapter> {
        let chapter = |id, heading, parts| Chapter { id, heading, parts };
        vec![
            chapter("share", "Images over time", self.over_time()),
            chapter("decay", "After checkpoints", self.after_checkpoints()),
            chapter("relations", "Relations", self.by_relation()),
            chapter("causes", "Causes", self.by_cause()),
            chapter("spacing", "Other checkpoints", self.by_spacing()),
            chapter("protection", "Torn page protection", self.by_protection()),
            chapter("dwb_size", "Size of a double write buffer", self.by_dirtied()),
            chapter("hints", "Hint bits", self.by_hints()),
            chapter("compression", "Compression", self.by_compression()),
        ]
    }

    /// Each plot as a file of its own: name and content.
    #[must_use]
    pub fn plots(&self) -> Vec<(String, String)> {
        let parts = self.chapters().into_iter().flat_map(|chapter| chapter.parts);
        let file = |part| match part {
            Part::Figure(figure) => Some((plot_file(figure.name), figure.plot.file())),
            Part::Table(..) | Part::Absent(_) => None,
        };
        parts.filter_map(file).collect()
    }

    #[must_use]
    pub fn page(&self) -> String {
        let chapters = self.chapters();
        let first = [("summary", "Summary")];
        let last = [("findings", "Findings"), ("origin", "Origin")];
        let contents: Vec<(&str, &str)> =
            first.into_iter().chain(chapters.iter().map(|chapter| (chapter.id, chapter.heading))).chain(last).collect();
        let head = |header: &mut Markup| {
            header.leaf("h1", &[], "Full-page images in WAL");
            header.element("p", &[], |line| line.leaf("code", &[], self.paths));
            paragraph(header, &format!("Read {}", self.made.time));
        };
        page(&format!("Full-page images: {}", self.paths), "pg_walfpi", &contents, head, |main| {
            let meaning = "What follows says nothing about them.";
            skipped_box(main, self.closing, meaning, "stats");
            self.write_summary(main);
            for chapter in &chapters {
                section(main, chapter.id, chapter.heading, |inner| {
                    for part in &chapter.parts {
                        write_part(inner, part);
                    }
                });
            }
            findings_section(main, self.closing, "stats");
            section(main, "origin", "Origin", |inner| {
                origin(inner, self.made, "pg_walfpi", self.closing.answer());
            });
        })
    }

    fn write_summary(&self, main: &mut Markup) {
        let total = &self.total;
        section(main, "summary", "Summary", |inner| {
            let share = percent(total.fpi_share());
            let (images, stored) = (grouped(total.fpi_count), size(total.fpi_bytes));
            let mut known = vec![
                ("images", format!("{images}, {stored} as stored: {share} % of the bytes of all records")),
                ("pages in them", format!("{} before holes and compression", size(total.fpi_raw_bytes))),
                ("records", format!("{}, {} with their images", grouped(total.records), size(total.combined_bytes()))),
                ("WAL", format!("{} with page headers and padding", size(self.wal_bytes))),
                ("checkpoint intervals", grouped(self.intervals.len() as u64)),
            ];
            known.extend(self.origin.iter().cloned());
            facts(inner, &known);
            if self.closing.answer() == Answer::Wrong {
                note(inner, "Something is wrong with this WAL: see the findings.");
            }
        });
    }
}

pub(crate) fn plot_file(name: &str) -> String {
    format!("{name}.svg")
}

fn write_part(parent: &mut Markup, part: &Part) {
    match part {
        Part::Absent(why) => paragraph(parent, why),
        Part::Table(numbers, text) => {
            table(parent, numbers);
            note(parent, text);
        }
        Part::Figure(shown) => figure(parent, &shown.plot, |inner| {
            for text in &shown.notes {
                note(inner, text);
            }
            if let Some(numbers) = &shown.numbers {
                table(inner, numbers);
            }
        }),
    }
}

/// A number of bytes, exactly.
fn exact(bytes: u64) -> Cell {
    Cell::Number(grouped(bytes))
}

/// A share of a whole in percent; a dash where there is no whole.
fn share_of(part: u64, whole: u64) -> Cell {
    Cell::Number(if whole == 0 { "-".to_owned() } else { percent(part as f64 / whole as f64) })
}
