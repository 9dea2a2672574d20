//! WAL under other settings.

use super::{WalReport, exact};
use crate::analysis::wal::whatif::compression::CompressionRow;
use crate::output::compression_text::certainty_words;
use crate::output::document::{Blocks, Span};
use crate::output::plot::{Chart, Unit, grouped};

impl WalReport<'_> {
    /// Other settings of `wal_compression`.
    pub(super) fn write_compression(&self, to: &mut Blocks) {
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
