//! A file of rows in one of the formats.

use std::io::{self, BufWriter, Write};

#[cfg(feature = "parquet")]
use super::parquet::ParquetFile;
use super::rows::Table;
use super::{Cell, csv, ndjson};

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// An object a line.
    Ndjson {
        /// Compressed with zstd.
        zstd: bool,
    },
    /// A line of names, then a line for each row.
    Csv {
        /// Compressed with zstd.
        zstd: bool,
    },
    /// Parquet, whose pages are compressed with zstd.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl FileFormat {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ndjson { .. } => "ndjson",
            Self::Csv { .. } => "csv",
            #[cfg(feature = "parquet")]
            Self::Parquet => "parquet",
        }
    }

    /// How its files' names end.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Ndjson { zstd: false } => "ndjson",
            Self::Ndjson { zstd: true } => "ndjson.zst",
            Self::Csv { zstd: false } => "csv",
            Self::Csv { zstd: true } => "csv.zst",
            #[cfg(feature = "parquet")]
            Self::Parquet => "parquet",
        }
    }
}

/// Bytes, compressed or not.
enum Stream<W: Write> {
    Plain(BufWriter<W>),
    Zstd(BufWriter<zstd::Encoder<'static, W>>),
}

impl<W: Write> Stream<W> {
    fn new(out: W, zstd: bool) -> io::Result<Self> {
        if !zstd {
            return Ok(Self::Plain(BufWriter::new(out)));
        }
        let mut encoder = zstd::Encoder::new(out, 0)?;
        encoder.include_checksum(true)?;
        Ok(Self::Zstd(BufWriter::new(encoder)))
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(out) => out,
            Self::Zstd(out) => out,
        }
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(out) => out.into_inner().map_err(io::IntoInnerError::into_error),
            Self::Zstd(out) => out.into_inner().map_err(io::IntoInnerError::into_error)?.finish(),
        }
    }
}

enum Kind<W: Write + Send> {
    Ndjson {
        out: Stream<W>,
        openings: Vec<String>,
    },
    Csv(Stream<W>),
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetFile<W>>),
}

/// A file of rows that is being written.
pub struct TableFile<W: Write + Send> {
    kind: Kind<W>,
    rows: u64,
}

impl<W: Write + Send> TableFile<W> {
    /// Starts a file.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn begin(out: W, format: FileFormat, table: Table) -> io::Result<Self> {
        let columns = table.columns();
        let kind = match format {
            FileFormat::Ndjson { zstd } => {
                Kind::Ndjson { out: Stream::new(out, zstd)?, openings: ndjson::openings(columns) }
            }
            FileFormat::Csv { zstd } => {
                let mut out = Stream::new(out, zstd)?;
                csv::write_header(out.writer(), columns)?;
                Kind::Csv(out)
            }
            #[cfg(feature = "parquet")]
            FileFormat::Parquet => {
                let program = format!("pgforensics {}", crate::output::closing::VERSION);
                Kind::Parquet(Box::new(ParquetFile::begin(out, columns, &program)?))
            }
        };
        Ok(Self { kind, rows: 0 })
    }

    /// Writes a row: a cell for each column of the table.
    ///
    /// # Errors
    /// When the file cannot be written to.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        self.rows = self.rows.saturating_add(1);
        match &mut self.kind {
            Kind::Ndjson { out, openings } => ndjson::write_row(out.writer(), openings, cells),
            Kind::Csv(out) => csv::write_row(out.writer(), cells),
            #[cfg(feature = "parquet")]
            Kind::Parquet(file) => file.row(cells),
        }
    }

    /// Rows so far.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn finish(self) -> io::Result<W> {
        match self.kind {
            Kind::Ndjson { out, .. } | Kind::Csv(out) => out.finish(),
            #[cfg(feature = "parquet")]
            Kind::Parquet(file) => file.finish(),
        }
    }
}
