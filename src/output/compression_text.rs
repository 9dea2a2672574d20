//! Sizes under other settings of `wal_compression`, as a table.

use std::io::{self, Write};

use super::figures::{percent, signed_size, size};
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped};
use super::words::cluster::ForSameWork;
use crate::analysis::wal::whatif::compression::{CompressionRow, CompressionWhatIf, Setting};

/// Writes a row for each setting, and what the figures mean.
pub(crate) fn write_compression(out: &mut dyn Write, layout: Layout, what_if: &CompressionWhatIf) -> io::Result<()> {
    writeln!(out, "{}", layout.paint.heading("wal_compression"))?;
    let header = ["setting", "images", "+/- %", "ratio", "WAL", "saves", "CPU s/GB", "confidence"];
    let mut table = plain_table(&header);
    for row in &what_if.rows {
        table.add_row([
            row.setting.to_string(),
            size(row.bytes_after),
            error_percent(row),
            row.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            size(row.wal_bytes),
            signed_size(row.saved(&what_if.written)),
            row.seconds_per_gb.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}")),
            certainty_words(row),
        ]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..header.len() - 1))?;
    wrapped(out, layout, "  ", 2, "ratio: page bytes without holes / stored bytes")?;
    if what_if.rows.iter().all(|row| row.seconds_per_gb.is_none()) {
        return Ok(());
    }
    let cpu = "CPU: one processor of this machine, with this program's compressors, for 10^9 bytes of such pages";
    wrapped(out, layout, "  ", 2, cpu)
}

/// How sure a row is: what is stored is counted, the rest is supposed.
pub(super) fn certainty_words(row: &CompressionRow) -> String {
    match row.setting {
        Setting::AsWritten => row.certainty.to_string(),
        Setting::Off | Setting::On(_) => ForSameWork(row.certainty).to_string(),
    }
}

/// Standard error in percent of the bytes stored.
fn error_percent(row: &CompressionRow) -> String {
    match row.standard_error {
        Some(error) if row.bytes_after > 0 => percent(error as f64 / row.bytes_after as f64),
        _ => "-".to_owned(),
    }
}
