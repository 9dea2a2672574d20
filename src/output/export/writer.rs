//! A file of rows in one of the formats.
//! CSV: after a line of names; what does not apply is empty; characters that control something or mislead are written
//! as escapes. NDJSON: an object a line.

use std::io::{self, BufWriter, Write};

use super::rows::Table;
use super::{Cell, Column};
use crate::output::escape::printable;

#[cfg(feature = "parquet")]
use super::parquet::ParquetFile;

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
            FileFormat::Ndjson { zstd } => Kind::Ndjson { out: Stream::new(out, zstd)?, openings: openings(columns) },
            FileFormat::Csv { zstd } => {
                let mut out = Stream::new(out, zstd)?;
                write_header(out.writer(), columns)?;
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
            Kind::Ndjson { out, openings } => write_object(out.writer(), openings, cells),
            Kind::Csv(out) => write_line(out.writer(), cells),
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

pub(super) fn write_header(out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    writeln!(out, "{}", names.join(","))
}

fn write_line(out: &mut dyn Write, cells: &[Cell<'_>]) -> io::Result<()> {
    for (at, cell) in (0..).zip(cells) {
        if at > 0 {
            out.write_all(b",")?;
        }
        match cell {
            Cell::Null => {}
            Cell::Int(number) => write!(out, "{number}")?,
            Cell::Bool(value) => write!(out, "{value}")?,
            Cell::Text(text) => {
                let text = printable(text);
                match text.contains(['"', ',']) {
                    true => write!(out, "\"{}\"", text.replace('"', "\"\""))?,
                    false => out.write_all(text.as_bytes())?,
                }
            }
        }
    }
    out.write_all(b"\n")
}

/// The beginning of each member, its name included.
pub(super) fn openings(columns: &[Column]) -> Vec<String> {
    (0..).zip(columns).map(|(at, column)| format!("{}\"{}\":", if at == 0 { '{' } else { ',' }, column.name)).collect()
}

fn write_object(out: &mut dyn Write, openings: &[String], cells: &[Cell<'_>]) -> io::Result<()> {
    for (opening, cell) in openings.iter().zip(cells) {
        out.write_all(opening.as_bytes())?;
        match cell {
            Cell::Null => out.write_all(b"null")?,
            Cell::Int(number) => write!(out, "{number}")?,
            Cell::Bool(value) => write!(out, "{value}")?,
            Cell::Text(text) => serde_json::to_writer(&mut *out, text)?,
        }
    }
    out.write_all(b"}\n")
}
