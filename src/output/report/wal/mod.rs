//! The report on some WAL: how much of it is full-page images, when they were written, of what, why, and what other
//! settings would have made of it.

mod time;

use super::{Provenance, findings_section, origin, skipped_box};
use crate::analysis::plan::dwb_size::{DirtiedInterval, DirtySummary, LARGEST_MB, needs};
use crate::analysis::plan::savings::{Saving, Savings};
use crate::analysis::plan::whatif::compression::{CompressionRow, CompressionWhatIf};
use crate::analysis::plan::whatif::protection::{Guard, GuardColumn};
use crate::analysis::plan::whatif::{MIN_ASKED, NoKnee, Outcome, Spacing, SpacingRow, WhatIf, knee};
use crate::analysis::verdict::answer::Answer;
use crate::analysis::wal::bill::{BillRow, WalBill};
use crate::analysis::wal::curve::Overview;
use crate::analysis::wal::group::RelationFigures;
use crate::analysis::wal::interval::Interval;
use crate::analysis::wal::likely_cause::{HintImages, LikelyCause};
use crate::analysis::wal::since_redo::SinceRedo;
use crate::analysis::wal::tally::{Certainty, Tally};
use crate::output::advise_text::{bill_words, how_sure, rates, why};
use crate::output::closing::Closing;
use crate::output::document::{Blocks, Document, Span};
use crate::output::figures::{duration, percent, remedy_words, size, size_words};
use crate::output::plot::{Chart, Plot, Unit, grouped};
use crate::output::relation_columns::{cells, likely_cause_words};
use crate::output::whatif_text::{GUARD_HEADINGS, certainty_words, setting_name, setting_value};
use crate::output::words::cluster::ForSameWork;

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

fn exact(bytes: u64) -> Span {
    Span::Number(grouped(bytes))
}

/// A share of a whole in percent; a dash where there is no whole.
fn share_of(part: u64, whole: u64) -> Span {
    Span::Number(if whole == 0 { "-".to_owned() } else { percent(part as f64 / whole as f64) })
}

impl WalReport<'_> {
    fn write_bill(&self, to: &mut Blocks) {
        let Some(bill) = self.bill.filter(|_| self.wal_bytes > 0) else {
            return to.paragraph("There are no records in this range.");
        };
        let mut rows: Vec<&BillRow> = bill.rows.iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        if let Some(most) = rows.first() {
            let share = percent(most.bytes as f64 / self.wal_bytes as f64);
            let mut words = format!("{share} % of the WAL: {}.", bill_words(most, bill.rhythm));
            if let Some(saving) = self.savings.rows.first() {
                let (remedy, saves) = (remedy_words(&saving.remedy), size(saving.wal_bytes.max(0).unsigned_abs()));
                let [_, a_day] = rates(&self.overview, saving.wal_bytes as f64);
                let a_day = if a_day.is_empty() { a_day } else { format!(", {a_day} GB a day") };
                words.push_str(&format!(" {remedy} would have saved {saves}{a_day} ({}).", how_sure(saving)));
            }
            to.paragraph(words);
        }
        let cells = |bytes: u64, words: String| {
            let [per_second, a_day] = rates(&self.overview, bytes as f64).map(Span::Number);
            [Span::Text(words), exact(bytes), share_of(bytes, self.wal_bytes), per_second, a_day]
        };
        let all = std::iter::once(cells(self.wal_bytes, "all".to_owned()));
        let parts = rows.iter().map(|row| cells(row.bytes, bill_words(row, bill.rhythm)));
        to.table("Every byte of the WAL", ["content", "bytes", "%", "MB/s", "GB a day"], parts.chain(all));
        let saved = |saving: &Saving| {
            let [per_second, a_day] = rates(&self.overview, saving.wal_bytes as f64).map(Span::Number);
            [
                Span::Text(remedy_words(&saving.remedy)),
                Span::Text(size(saving.wal_bytes.max(0).unsigned_abs())),
                per_second,
                a_day,
                Span::Text(how_sure(saving)),
                Span::Text(why(saving, self.block_size)),
            ]
        };
        let headings = ["setting", "saves", "MB/s", "GB a day", "confidence", "why and at what price"];
        if !self.savings.rows.is_empty() {
            to.table(
                "What would have saved some; savings do not add up",
                headings,
                self.savings.rows.iter().map(saved),
            );
        }
        let relation = |one: &CostlyRelation| {
            [
                Span::text(&one.name),
                exact(one.tally.combined_bytes()),
                share_of(one.tally.combined_bytes(), self.wal_bytes),
                exact(one.tally.fpi_bytes),
                Span::Text(one.main_record.clone().unwrap_or_default()),
                Span::text(one.likely_cause.as_ref().map_or("", likely_cause_words)),
            ]
        };
        let headings = ["relation", "bytes", "% of WAL", "of images", "mostly", "likely cause"];
        to.table("Relations with the most bytes", headings, self.costly.iter().map(relation));
    }
}

impl WalReport<'_> {
    /// Blocks dirtied in a checkpoint interval, and the setting that holds them.
    fn write_dirtied(&self, to: &mut Blocks) {
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

impl WalReport<'_> {
    /// Relations with the most image bytes.
    fn write_relations(&self, to: &mut Blocks) {
        if self.relations.is_empty() {
            return to.paragraph("There are no images in this range.");
        }
        let row = |row: &RelationRow| {
            let cause = row.cause.map_or_else(
                || "-".to_owned(),
                |(cause, bytes)| {
                    let share = bytes as f64 / row.images.fpi_bytes.max(1) as f64;
                    format!("{} ({} %)", spaced(cause), percent(share))
                },
            );
            let [per_1000, hot, kind, likely] = cells(row.figures.as_ref()).map(|cell| match cell.as_str() {
                "" => "-".to_owned(),
                _ => cell,
            });
            [
                Span::text(&row.name),
                exact(row.images.fpi_count),
                exact(row.images.fpi_bytes),
                share_of(row.images.fpi_bytes, self.total.fpi_bytes),
                Span::Text(kind),
                Span::Number(per_1000),
                Span::Number(hot),
                Span::Text(cause),
                Span::Text(likely),
            ]
        };
        let (shown, all) = (self.relations.len(), self.relations_in_all);
        let caption = if shown < all {
            format!("The first {shown} of {all} relations with images; stats --by relation lists them all")
        } else {
            format!("All {all} relations with images")
        };
        to.note(
            "%: share of all image bytes. Per 1000: images per 1000 changes. HOT: share of HOT updates in all \
            updates, in percent. Main cause: the cause of most image bytes. The likely cause is left open if no rule \
            clearly fits.",
        );
        let headings =
            ["relation", "images", "image bytes", "%", "kind", "per 1000", "HOT %", "main cause", "likely cause"];
        to.table(caption, headings, self.relations.iter().map(row));
    }

    fn write_causes(&self, to: &mut Blocks) {
        if self.causes.is_empty() {
            return to.paragraph("There are no images in this range.");
        }
        let row = |(cause, tally): &(&'static str, Tally)| {
            [
                Span::Text(spaced(cause)),
                exact(tally.fpi_count),
                exact(tally.fpi_bytes),
                share_of(tally.fpi_bytes, self.total.fpi_bytes),
            ]
        };
        to.table("All causes", ["cause", "images", "image bytes", "% of images"], self.causes.iter().map(row));
    }
}

fn spaced(code: &str) -> String {
    code.replace('_', " ")
}

impl WalReport<'_> {
    /// Other settings of `wal_compression`.
    fn write_compression(&self, to: &mut Blocks) {
        let Some(what_if) = self.compression else {
            return to.paragraph(
                "The images were not compressed again: reading was interrupted, or --no-compression was given.",
            );
        };
        if what_if.written.fpi_count == 0 {
            return to.paragraph("There are no images in this range.");
        }
        let rows = &what_if.rows;
        let plot = Chart {
            name: "compression",
            title: "Bytes of images by setting of wal_compression",
            description: "Bytes of all images as stored under each setting",
            unit: Unit::Bytes,
            left: "bytes",
            below: "setting of wal_compression",
            places: rows.iter().map(|row| row.setting.to_string()).collect(),
            series: vec![("images", rows.iter().map(|row| Some(row.bytes_after as f64)).collect())],
        };
        let row = |row: &CompressionRow| {
            [
                Span::text(row.setting),
                exact(row.bytes_after),
                Span::number_or_dash(row.standard_error.map(grouped)),
                Span::number_or_dash(row.ratio().map(|ratio| format!("{ratio:.2}"))),
                exact(row.wal_bytes),
                Span::number_or_dash(row.seconds_per_gb.map(|seconds| format!("{seconds:.1}"))),
                Span::Text(certainty_words(row)),
            ]
        };
        to.figure(plot.bars(), |figure| {
            figure.note(
                "Ratio: page bytes without holes / stored bytes. CPU: seconds of one \
                processor of the machine that made this report, for 10^9 bytes of such pages.",
            );
            let headings =
                ["setting", "image bytes", "standard error", "ratio", "bytes of records", "CPU s/GB", "confidence"];
            figure.table("Settings of wal_compression", headings, rows.iter().map(row));
        });
    }
}

const BROKEN_OFF: &str = "Other settings were not replayed: reading was interrupted.";

impl WalReport<'_> {
    /// Checkpoints that are closer or farther apart.
    fn write_spacing(&self, to: &mut Blocks) {
        let Some(what_if) = self.what_if else { return to.paragraph(BROKEN_OFF) };
        let Some(from) = what_if.replayed_from else {
            return to.paragraph("This WAL contains no redo point, so other distances cannot be replayed.");
        };
        let before = match what_if.not_replayed_bytes {
            0 => String::new(),
            bytes => format!("; {} of WAL before that and after gaps stay as they are", size_words(bytes)),
        };
        let mut notes = vec![format!(
            "Replayed from the redo point {from}{before}. The work is taken to be the same; autovacuum and others may do other work at other times. What recovery reads assumes checkpoint_completion_target = {}.",
            what_if.completion_target
        )];
        match knee(&what_if.spacing) {
            Ok(bytes) => {
                let value = setting_value(Spacing::MaxWalSize { bytes });
                notes.push(format!("The knee of the curve is max_wal_size = {value}: larger values save little more."));
            }
            Err(NoKnee::FewCheckpoints) => notes
                .push("No knee is shown: too few values of max_wal_size request checkpoints in this WAL.".to_owned()),
            Err(NoKnee::FewValues | NoKnee::NoBend) => {}
        }
        if what_if.spacing.iter().any(|row| row.outcome.replay_bytes_max.is_none()) {
            notes.push(format!(
                "Where fewer than {MIN_ASKED} checkpoints fall into this WAL, what recovery would read is unknown."
            ));
        }
        let of = |takes: fn(Spacing) -> bool| -> Vec<&SpacingRow> {
            what_if.spacing.iter().filter(|row| takes(row.spacing)).collect()
        };
        let sizes = of(|spacing| matches!(spacing, Spacing::MaxWalSize { .. }));
        let timeouts = of(|spacing| matches!(spacing, Spacing::Timeout { .. }));
        for (setting, rows) in [("max_wal_size", sizes), ("checkpoint_timeout", timeouts)] {
            if rows.len() > 1 {
                to.figure(curve(setting, &rows), |figure| figure.note("The numbers are in the table below."));
            }
        }
        write_spacing_table(to, what_if);
        to.note(notes.join(" "));
    }

    /// Full-page writes, a double write buffer, or neither.
    fn write_protection(&self, to: &mut Blocks) {
        let Some(what_if) = self.what_if else { return to.paragraph(BROKEN_OFF) };
        let columns = &what_if.protection.columns;
        let name = |guard: Guard| match guard {
            Guard::FullPageWrites => "full-page writes",
            Guard::DoubleWrite => "double write buffer",
            Guard::Off => "off",
        };
        let values = |value: fn(&GuardColumn) -> u64| columns.iter().map(|column| Some(value(column) as f64)).collect();
        let plot = Chart {
            name: "protection",
            title: "WAL under each guard against torn pages",
            description: "Bytes of images and of the rest of the records under each guard",
            unit: Unit::Bytes,
            left: "bytes",
            below: "guard",
            places: columns.iter().map(|column| name(column.guard).to_owned()).collect(),
            series: vec![
                ("images", values(|column| column.image_bytes)),
                ("other bytes of records", values(|column| column.wal_bytes.saturating_sub(column.image_bytes))),
            ],
        };
        let row = |column: &GuardColumn| {
            let pages = column.buffer_pages;
            let bytes = pages.map(|pages| pages.saturating_mul(u64::from(self.block_size)));
            [
                Span::text(name(column.guard)),
                exact(column.wal_bytes),
                exact(column.images),
                exact(column.image_bytes),
                Span::Number(percent(column.share())),
                Span::Text(if column.is_actual {
                    "as it is".to_owned()
                } else {
                    ForSameWork(column.certainty).to_string()
                }),
                Span::number_or_dash(pages.map(grouped)),
                Span::number_or_dash(bytes.map(grouped)),
            ]
        };
        let always = what_if.protection.always;
        to.figure(plot.bars(), |figure| {
            figure.note(format!(
                "{} images ({}) are written whatever the guard: records require them, or they log a full page.",
                grouped(always.images),
                size(always.image_bytes)
            ));
            figure.table("Guards against torn pages", GUARD_HEADINGS, columns.iter().map(row));
        });
    }

    fn write_hints(&self, to: &mut Blocks) {
        let Some(what_if) = self.what_if else { return to.paragraph(BROKEN_OFF) };
        let hints = &what_if.hints;
        if hints.all.images == 0 {
            return to.paragraph("There are no images for hint bits in this range.");
        }
        let row = |name: &str, images: HintImages, certainty: Certainty| {
            [Span::text(name), exact(images.images), exact(images.image_bytes), Span::text(certainty)]
        };
        let rows = [
            row("all", hints.all, hints.all_certainty),
            row("pages that nothing else changed", hints.only, hints.certainty),
            row("pages that were changed later in the interval", hints.then_changed, hints.certainty),
            row("an interval that is not complete", hints.undecided, hints.certainty),
        ];
        to.table("Images for hint bits", ["part", "images", "image bytes", "confidence"], rows);
        to.note(
            "Data checksums or wal_log_hints ask for them. On pages that were changed later that change would \
            have had the image.",
        );
    }
}

fn curve(setting: &'static str, rows: &[&SpacingRow]) -> Plot {
    let line = |name, value: fn(&Outcome) -> Option<u64>| {
        (name, rows.iter().map(|row| value(&row.outcome).map(|value| value as f64)).collect())
    };
    let chart = Chart {
        name: setting,
        title: &format!("What other values of {setting} would have written, and what recovery would have read"),
        description: &format!(
            "Bytes of images, bytes of all records, and what crash recovery reads at most, for values of {setting}"
        ),
        unit: Unit::Bytes,
        left: "bytes",
        below: setting,
        places: rows.iter().map(|row| setting_value(row.spacing)).collect(),
        series: vec![
            line("images", |outcome| Some(outcome.image_bytes)),
            line("all records", |outcome| Some(outcome.wal_bytes)),
            line("recovery reads at most", |outcome| outcome.replay_bytes_max),
        ],
    };
    chart.steps()
}

fn write_spacing_table(to: &mut Blocks, what_if: &WhatIf) {
    let cells = |name: String, outcome: &Outcome, certainty: String, is_least: bool| {
        let read = |bytes: u64| format!("{}{}", if is_least { "≥ " } else { "" }, grouped(bytes));
        [
            Span::Text(name),
            exact(outcome.checkpoints),
            exact(outcome.images),
            exact(outcome.image_bytes),
            exact(outcome.wal_bytes),
            Span::Text(certainty),
            Span::number_or_dash(outcome.replay_bytes_max.map(read)),
            Span::number_or_dash(outcome.replay_bytes_mean.map(grouped)),
            Span::number_or_dash(outcome.replay_seconds_max.map(duration)),
        ]
    };
    let actual = cells(
        "as it is".to_owned(),
        &what_if.actual,
        what_if.certainty.to_string(),
        what_if.replay_certainty == Certainty::AtLeast,
    );
    let rows = what_if.spacing.iter().map(|row| {
        let is_least = row.replay_certainty == Certainty::AtLeast;
        cells(setting_name(row.spacing), &row.outcome, ForSameWork(row.certainty).to_string(), is_least)
    });
    let headings = [
        "setting",
        "checkpoints",
        "images",
        "image bytes",
        "bytes of records",
        "confidence",
        "recovery reads",
        "mean",
        "written in",
    ];
    to.table("Checkpoints at other distances", headings, std::iter::once(actual).chain(rows));
}
