//! The WAL under other checkpoints and other guards against torn pages, and the cost of hint bits.

use super::{WalReport, exact};
use crate::analysis::plan::whatif::protection::{Guard, GuardColumn};
use crate::analysis::plan::whatif::{MIN_ASKED, NoKnee, Outcome, Spacing, SpacingRow, WhatIf, knee};
use crate::analysis::wal::likely_cause::HintImages;
use crate::analysis::wal::tally::Certainty;
use crate::output::document::{Blocks, Span};
use crate::output::figures::{duration, percent, size, size_words};
use crate::output::plot::{Chart, Plot, Unit, grouped};
use crate::output::whatif_text::{GUARD_HEADINGS, setting_name, setting_value};
use crate::output::words::cluster::ForSameWork;

const BROKEN_OFF: &str = "Other settings were not replayed: reading was interrupted.";

impl WalReport<'_> {
    /// Checkpoints that are closer or farther apart.
    pub(super) fn write_spacing(&self, to: &mut Blocks) {
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
    pub(super) fn write_protection(&self, to: &mut Blocks) {
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

    pub(super) fn write_hints(&self, to: &mut Blocks) {
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
