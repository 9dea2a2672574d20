//! What other settings would have made of the same WAL.

use super::super::parts::{Cell, Table};
use super::{Figure, Part, WalReport, exact};
use crate::analysis::wal::whatif::compression::CompressionRow;
use crate::output::compression_text::certainty_words;
use crate::output::figures::size;
use crate::output::plot::{RankedBar, grouped, ranked};

impl WalReport<'_> {
    /// Other settings of `wal_compression`.
    pub(super) fn by_compression(&self) -> Vec<Part> {
        let Some(what_if) = self.compression else {
            return vec![Part::Absent(
                "The images were not compressed again: the reading was broken off, or --no-compression was given.",
            )];
        };
        if what_if.written.fpi_count == 0 {
            return vec![Part::Absent("There are no images in this range.")];
        }
        let bar = |row: &CompressionRow| {
            let ratio = row.ratio().map_or_else(String::new, |ratio| format!("  {ratio:.2} : 1"));
            RankedBar {
                label: row.setting.to_string(),
                value: row.bytes_after as f64,
                figure: format!("{}{ratio}", size(row.bytes_after)),
            }
        };
        let bars: Vec<RankedBar> = what_if.rows.iter().map(bar).collect();
        let plot = ranked(
            "Bytes of images by setting of wal_compression",
            "Bytes of all images as stored under each setting",
            &bars,
        );
        let row = |row: &CompressionRow| {
            vec![
                Cell::text(row.setting),
                exact(row.bytes_after),
                Cell::Number(row.standard_error.map_or_else(|| "-".to_owned(), grouped)),
                Cell::Number(row.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))),
                exact(row.wal_bytes),
                Cell::Number(row.seconds_per_gb.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}"))),
                Cell::Text(certainty_words(row)),
            ]
        };
        let numbers = Some(Table {
            caption: "Settings of wal_compression".to_owned(),
            headings: vec![
                "setting",
                "image bytes",
                "standard error",
                "ratio",
                "bytes of records",
                "CPU s/GB",
                "how sure",
            ],
            rows: what_if.rows.iter().map(row).collect(),
        });
        let notes = vec!["Ratio: bytes of pages without their holes, divided by the bytes stored. CPU: seconds of one processor of the machine that made this report, for 10^9 bytes of such pages.".to_owned()];
        vec![Part::Figure(Box::new(Figure { name: "compression", plot, numbers, notes }))]
    }
}
