//! The report on some WAL: how much of it is full-page images, when they were written, of what, why, and what other
//! settings would have made of it.

mod bill;
mod dirtied;
mod groups;
mod settings;
mod time;
mod what_if;

use super::Provenance;
use super::closing::{findings_section, origin, skipped_box};
use crate::analysis::verdict::answer::Answer;
use crate::analysis::wal::bill::WalBill;
use crate::analysis::wal::dwb_size::DirtiedInterval;
use crate::analysis::wal::group::RelationFigures;
use crate::analysis::wal::interval::Interval;
use crate::analysis::wal::likely_cause::LikelyCause;
use crate::analysis::wal::overview::Overview;
use crate::analysis::wal::savings::Savings;
use crate::analysis::wal::since_redo::SinceRedo;
use crate::analysis::wal::tally::Tally;
use crate::analysis::wal::whatif::WhatIf;
use crate::analysis::wal::whatif::compression::CompressionWhatIf;
use crate::output::closing::Closing;
use crate::output::document::{Blocks, Document, Span};
use crate::output::figures::{percent, size};
use crate::output::plot::grouped;

pub(crate) struct WalReport<'a> {
    pub made: &'a Provenance,
    pub paths: &'a str,
    pub origin: Vec<(&'static str, String)>,
    pub closing: &'a Closing,
    pub total: Tally,
    pub overview: Overview,
    /// Every byte by what it is.
    pub bill: Option<&'a WalBill>,
    /// What each remedy would have saved.
    pub savings: &'a Savings,
    /// Relations with the most bytes, images and others.
    pub costly: Vec<CostlyRelation>,
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
    /// Sizes under other settings of `wal_compression`.
    pub compression: Option<&'a CompressionWhatIf>,
    /// The WAL under other checkpoints and guards against torn pages.
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
    /// Its usage, if known.
    pub figures: Option<RelationFigures>,
}

/// A relation by all its bytes.
#[derive(Clone, Debug)]
pub(crate) struct CostlyRelation {
    pub name: String,
    pub tally: Tally,
    /// The type of record that most of its bytes are in.
    pub main_record: Option<String>,
    pub likely_cause: Option<LikelyCause>,
}

/// Names of all plots that a report may have.
pub(crate) const PLOT_NAMES: [&str; 9] = [
    "bytes",
    "share",
    "rate",
    "since_redo",
    "decay",
    "max_wal_size",
    "checkpoint_timeout",
    "protection",
    "compression",
];

impl WalReport<'_> {
    pub fn document(&self) -> Document {
        let body = Blocks::of(|main| {
            skipped_box(main, self.closing, "The rest of the report does not cover them.", "stats");
            main.section("bill", "Content of the WAL, and what to do", |inner| self.write_bill(inner));
            self.write_summary(main);
            main.section("share", "Images over time", |inner| self.write_intervals(inner));
            main.section("decay", "After checkpoints", |inner| {
                self.write_seconds(inner);
                self.write_parts(inner);
            });
            main.section("relations", "Relations", |inner| self.write_relations(inner));
            main.section("causes", "Causes", |inner| self.write_causes(inner));
            main.section("spacing", "Other checkpoints", |inner| self.write_spacing(inner));
            main.section("protection", "Torn page protection", |inner| self.write_protection(inner));
            main.section("dwb_size", "Size of a double write buffer", |inner| self.write_dirtied(inner));
            main.section("hints", "Hint bits", |inner| self.write_hints(inner));
            main.section("compression", "Compression", |inner| self.write_compression(inner));
            findings_section(main, self.closing, "stats");
            main.section("origin", "Origin", |inner| origin(inner, self.made, "pg_walfpi", self.closing.answer()));
        });
        Document {
            title: format!("Full-page images: {}", self.paths),
            program: "pg_walfpi",
            heading: "Full-page images in WAL",
            lead: vec![[Span::code(self.paths)].into(), format!("Read {}", self.made.time).into()],
            body,
        }
    }

    fn write_summary(&self, main: &mut Blocks) {
        let total = &self.total;
        main.section("summary", "Summary", |inner| {
            let share = percent(total.fpi_share());
            let (images, stored) = (grouped(total.fpi_count), size(total.fpi_bytes));
            let known = [
                ("images", format!("{images}, {stored} as stored: {share} % of the bytes of all records")),
                ("pages in them", format!("{} before holes and compression", size(total.fpi_raw_bytes))),
                ("records", format!("{}, {} with their images", grouped(total.records), size(total.combined_bytes()))),
                ("WAL", format!("{} with page headers and padding", size(self.wal_bytes))),
                ("checkpoint intervals", grouped(self.intervals.len() as u64)),
            ];
            inner.facts(known.into_iter().chain(self.origin.iter().cloned()));
            if self.closing.answer() == Answer::Wrong {
                inner.note("Something is wrong with this WAL: see the findings.");
            }
        });
    }
}

pub(crate) fn plot_file(name: &str) -> String {
    format!("{name}.svg")
}

/// A number of bytes, exactly.
fn exact(bytes: u64) -> Span {
    Span::Number(grouped(bytes))
}

/// A share of a whole in percent; a dash where there is no whole.
fn share_of(part: u64, whole: u64) -> Span {
    Span::Number(if whole == 0 { "-".to_owned() } else { percent(part as f64 / whole as f64) })
}
