//! Of which relations images are, and why they were written.

use super::{RelationRow, WalReport, exact, share_of};
use crate::analysis::wal::tally::Tally;
use crate::output::document::{Blocks, Span};
use crate::output::figures::percent;
use crate::output::relation_columns::cells;

impl WalReport<'_> {
    /// Relations with the most image bytes.
    pub(super) fn write_relations(&self, to: &mut Blocks) {
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

    pub(super) fn write_causes(&self, to: &mut Blocks) {
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
