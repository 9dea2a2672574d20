//! Where the WAL goes, and what would have saved some of it.

use super::{CostlyRelation, WalReport, exact, share_of};
use crate::analysis::wal::bill::BillRow;
use crate::analysis::wal::savings::Saving;
use crate::output::advise_text::{bill_words, how_sure, rates, why};
use crate::output::document::{Blocks, Span};
use crate::output::figures::{percent, size};
use crate::output::relation_columns::likely_cause_words;
use crate::output::remedy_words::remedy_words;

impl WalReport<'_> {
    pub(super) fn write_bill(&self, to: &mut Blocks) {
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
