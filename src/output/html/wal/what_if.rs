//! What other checkpoints would have made of the WAL, what other guards against torn pages, and what hint bits cost.

use super::super::parts::{Cell, Table};
use super::{Figure, Part, WalReport, exact};
use crate::analysis::wal::certainty::Certainty;
use crate::analysis::wal::whatif::HintImages;
use crate::analysis::wal::whatif::protection::{Guard, GuardColumn};
use crate::analysis::wal::whatif::{MIN_ASKED, NoKnee, Outcome, Spacing, SpacingRow, WhatIf, knee};
use crate::output::figures::{duration, percent, size, size_words};
use crate::output::plot::{Bar, Bars, Line, LineShape, Lines, Unit, grouped};
use crate::output::whatif_text::GUARD_HEADINGS;
use crate::output::whatif_text::{setting_name, setting_value};
use crate::output::words::certainty::ForSameWork;

const BROKEN_OFF: &str = "Other settings were not replayed: the reading was broken off.";

impl WalReport<'_> {
    /// Checkpoints that are closer or farther apart.
    pub(super) fn by_spacing(&self) -> Vec<Part> {
        let Some(what_if) = self.what_if else { return vec![Part::Absent(BROKEN_OFF)] };
        let Some(from) = what_if.replayed_from else {
            return vec![Part::Absent("No redo point lies in this WAL, so other distances cannot be replayed.")];
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
                .push("No knee is named: too few values of max_wal_size ask for checkpoints in this WAL.".to_owned()),
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
        let mut parts = Vec::new();
        for (name, setting, rows) in
            [("max_wal_size", "max_wal_size", sizes), ("checkpoint_timeout", "checkpoint_timeout", timeouts)]
        {
            if rows.len() > 1 {
                let plot = curve(setting, &rows).draw();
                let notes = vec!["The numbers are in the table below.".to_owned()];
                parts.push(Part::Figure(Box::new(Figure { name, plot, numbers: None, notes })));
            }
        }
        parts.push(Part::Table(spacing_table(what_if), notes.join(" ")));
        parts
    }

    /// Full-page writes, a double write buffer, or neither.
    pub(super) fn by_protection(&self) -> Vec<Part> {
        let Some(what_if) = self.what_if else { return vec![Part::Absent(BROKEN_OFF)] };
        let columns = &what_if.protection.columns;
        let name = |guard: Guard| match guard {
            Guard::FullPageWrites => "full-page writes",
            Guard::DoubleWrite => "double write buffer",
            Guard::Off => "off",
        };
        let plot = Bars {
            title: "WAL under each guard against torn pages".to_owned(),
            description: "Bytes of images and of the rest of the records under each guard".to_owned(),
            series: vec!["images".to_owned(), "other bytes of records".to_owned()],
            bars: columns
                .iter()
                .map(|column| Bar {
                    label: name(column.guard).to_owned(),
                    values: vec![column.image_bytes as f64, column.wal_bytes.saturating_sub(column.image_bytes) as f64],
                })
                .collect(),
            unit: Unit::Bytes,
            left: "bytes".to_owned(),
            below: "guard".to_owned(),
        };
        let row = |column: &GuardColumn| {
            let pages = column.buffer_pages;
            let bytes = pages.map(|pages| pages.saturating_mul(u64::from(self.block_size)));
            vec![
                Cell::text(name(column.guard)),
                exact(column.wal_bytes),
                exact(column.images),
                exact(column.image_bytes),
                Cell::Number(percent(column.share())),
                Cell::Text(if column.is_actual {
                    "as it is".to_owned()
                } else {
                    ForSameWork(column.certainty).to_string()
                }),
                Cell::Number(pages.map_or_else(|| "-".to_owned(), grouped)),
                Cell::Number(bytes.map_or_else(|| "-".to_owned(), grouped)),
            ]
        };
        let numbers = Table {
            caption: "Guards against torn pages".to_owned(),
            headings: GUARD_HEADINGS.to_vec(),
            rows: columns.iter().map(row).collect(),
        };
        let always = what_if.protection.always;
        let notes = vec![format!(
            "{} images ({}) are written whatever the guard: records demand them, or they log a page as a whole.",
            grouped(always.images),
            size(always.image_bytes)
        )];
        let numbers = Some(numbers);
        vec![Part::Figure(Box::new(Figure { name: "protection", plot: plot.draw(), numbers, notes }))]
    }

    pub(super) fn by_hints(&self) -> Vec<Part> {
        let Some(what_if) = self.what_if else { return vec![Part::Absent(BROKEN_OFF)] };
        let hints = &what_if.hints;
        if hints.all.images == 0 {
            return vec![Part::Absent("There are no images for hint bits in this range.")];
        }
        let row = |name: &str, images: HintImages, certainty: Certainty| {
            vec![Cell::text(name), exact(images.images), exact(images.image_bytes), Cell::text(certainty)]
        };
        let numbers = Table {
            caption: "Images for hint bits".to_owned(),
            headings: vec!["part", "images", "image bytes", "how sure"],
            rows: vec![
                row("all", hints.all, hints.all_certainty),
                row("of pages that nothing else changed", hints.only, hints.certainty),
                row("of pages that were changed later in the interval", hints.then_changed, hints.certainty),
                row("of an interval that is not over", hints.undecided, hints.certainty),
            ],
        };
        let text = "Data checksums or wal_log_hints ask for them. Of pages that were changed later that change would have had the image.";
        vec![Part::Table(numbers, text.to_owned())]
    }
}

fn curve(setting: &str, rows: &[&SpacingRow]) -> Lines {
    let line = |name: &str, value: fn(&Outcome) -> Option<u64>| Line {
        name: name.to_owned(),
        values: rows.iter().map(|row| value(&row.outcome).map(|value| value as f64)).collect(),
    };
    Lines {
        title: format!("What other values of {setting} would have written, and what recovery would have read"),
        description: format!(
            "Bytes of images, bytes of all records, and what crash recovery reads at most, for values of {setting}"
        ),
        places: rows.iter().map(|row| setting_value(row.spacing)).collect(),
        lines: vec![
            line("images", |outcome| Some(outcome.image_bytes)),
            line("all records", |outcome| Some(outcome.wal_bytes)),
            line("recovery reads at most", |outcome| outcome.replay_bytes_max),
        ],
        shape: LineShape::Straight,
        unit: Unit::Bytes,
        left: "bytes".to_owned(),
        below: setting.to_owned(),
    }
}

fn spacing_table(what_if: &WhatIf) -> Table {
    let cells = |name: String, outcome: &Outcome, certainty: String, is_least: bool| {
        let read = |bytes: u64| format!("{}{}", if is_least { "≥ " } else { "" }, grouped(bytes));
        vec![
            Cell::Text(name),
            exact(outcome.checkpoints),
            exact(outcome.images),
            exact(outcome.image_bytes),
            exact(outcome.wal_bytes),
            Cell::Text(certainty),
            Cell::Number(outcome.replay_bytes_max.map_or_else(|| "-".to_owned(), read)),
            Cell::Number(outcome.replay_bytes_mean.map_or_else(|| "-".to_owned(), grouped)),
            Cell::Number(outcome.replay_seconds_max.map_or_else(|| "-".to_owned(), duration)),
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
    Table {
        caption: "Checkpoints at other distances".to_owned(),
        headings: vec![
            "setting",
            "checkpoints",
            "images",
            "image bytes",
            "bytes of records",
            "how sure",
            "recovery reads",
            "mean",
            "written in",
        ],
        rows: std::iter::once(actual).chain(rows).collect(),
    }
}
