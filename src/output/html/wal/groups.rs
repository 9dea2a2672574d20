//! Of which relations images are, and why they were written.

use super::super::parts::{Cell, Table};
use super::{Figure, Part, RelationRow, WalReport, exact, share_of};
use crate::analysis::wal::tally::Tally;
use crate::output::figures::{percent, size};
use crate::output::plot::{RankedBar, ranked};
use crate::output::relation_columns::cells;

const MAX_BARS: usize = 15;

impl WalReport<'_> {
    /// Relations with the most image bytes.
    pub(super) fn by_relation(&self) -> Vec<Part> {
        if self.relations.is_empty() {
            return vec![Part::Absent("There are no images in this range.")];
        }
        let bars: Vec<RankedBar> =
            self.relations.iter().take(MAX_BARS).map(|row| self.bar(&row.name, &row.images)).collect();
        let plot = ranked("Relations with the most bytes of images", "Bytes of images as stored, by relation", &bars);
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
            vec![
                Cell::text(&row.name),
                exact(row.images.fpi_count),
                exact(row.images.fpi_bytes),
                share_of(row.images.fpi_bytes, self.total.fpi_bytes),
                Cell::Text(kind),
                Cell::Number(per_1000),
                Cell::Number(hot),
                Cell::Text(cause),
                Cell::Text(likely),
            ]
        };
        let (shown, all) = (self.relations.len(), self.relations_in_all);
        let caption = if shown < all {
            format!("The first {shown} of {all} relations with images; stats --by relation lists them all")
        } else {
            format!("All {all} relations with images")
        };
        let numbers = Some(Table {
            caption,
            headings: vec![
                "relation",
                "images",
                "image bytes",
                "%",
                "kind",
                "per 1000",
                "HOT %",
                "main cause",
                "likely cause",
            ],
            rows: self.relations.iter().map(row).collect(),
        });
        let notes = vec![
            "%: of all image bytes. Per 1000: images per 1000 changes. HOT: share of HOT updates in all updates, in percent. Main cause: that of most image bytes. The likely cause is left open where no rule clearly fits."
                .to_owned(),
        ];
        vec![Part::Figure(Box::new(Figure { name: "relations", plot, numbers, notes }))]
    }

    pub(super) fn by_cause(&self) -> Vec<Part> {
        if self.causes.is_empty() {
            return vec![Part::Absent("There are no images in this range.")];
        }
        let bars: Vec<RankedBar> = self.causes.iter().map(|(cause, tally)| self.bar(&spaced(cause), tally)).collect();
        let plot = ranked("Why images were written", "Bytes of images as stored, by cause", &bars);
        let row = |(cause, tally): &(&'static str, Tally)| {
            vec![
                Cell::Text(spaced(cause)),
                exact(tally.fpi_count),
                exact(tally.fpi_bytes),
                share_of(tally.fpi_bytes, self.total.fpi_bytes),
            ]
        };
        let numbers = Some(Table {
            caption: "All causes".to_owned(),
            headings: vec!["cause", "images", "image bytes", "% of images"],
            rows: self.causes.iter().map(row).collect(),
        });
        vec![Part::Figure(Box::new(Figure { name: "causes", plot, numbers, notes: Vec::new() }))]
    }

    fn bar(&self, label: &str, tally: &Tally) -> RankedBar {
        let share = tally.fpi_bytes as f64 / self.total.fpi_bytes.max(1) as f64;
        let figure = format!("{}  {} %", size(tally.fpi_bytes), percent(share));
        RankedBar { label: label.to_owned(), value: tally.fpi_bytes as f64, figure }
    }
}

fn spaced(code: &str) -> String {
    code.replace('_', " ")
}
