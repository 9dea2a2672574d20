//! Printed rows as Parquet. Numbers and truth values keep their types; everything else is the text that the server printed.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::catalogs::Relation;
use super::layout::Names;
use super::out::Output;
use super::print::unescaped;
use super::source::DatabaseFiles;
use super::{SalvageError, TableReport};
use crate::cluster::open::{AccessError, Links, ReadFile};
use crate::rebuild::RebuildError;
use crate::types::Oid;

/// Most rows of a row group.
const ROWS_PER_GROUP: usize = 122_880;

/// Bytes of values in memory from which a row group is written. Bounds the memory, but for a single row.
const BYTES_PER_GROUP: usize = 32 << 20;

/// How values of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Int32,
    Int64,
    Float,
    Double,
    Text,
    /// Text that is not UTF-8.
    Bytes,
}

impl Kind {
    /// By the OID of the type (`pg_type.dat`).
    const fn of(type_oid: Oid) -> Self {
        match type_oid {
            16 => Self::Bool,
            21 | 23 => Self::Int32,
            20 | 26 => Self::Int64,
            700 => Self::Float,
            701 => Self::Double,
            _ => Self::Text,
        }
    }

    fn fits(self, value: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(value) else { return self == Self::Bytes };
        match self {
            Self::Bool => matches!(text, "t" | "f"),
            Self::Int32 => text.parse::<i32>().is_ok(),
            Self::Int64 => text.parse::<i64>().is_ok(),
            Self::Float => text.parse::<f32>().is_ok(),
            Self::Double => text.parse::<f64>().is_ok(),
            Self::Text | Self::Bytes => true,
        }
    }

    const fn physical(self) -> PhysicalType {
        match self {
            Self::Bool => PhysicalType::BOOLEAN,
            Self::Int32 => PhysicalType::INT32,
            Self::Int64 => PhysicalType::INT64,
            Self::Float => PhysicalType::FLOAT,
            Self::Double => PhysicalType::DOUBLE,
            Self::Text | Self::Bytes => PhysicalType::BYTE_ARRAY,
        }
    }
}

/// A column: its name, how it is stored, and the values that wait for their row group.
struct Waiting {
    name: String,
    kind: Kind,
    values: Vec<Option<Vec<u8>>>,
}

impl Waiting {
    fn write(&mut self, group: &mut SerializedRowGroupWriter<'_, impl Write + Send>) -> Result<(), ParquetError> {
        let levels: Vec<i16> = self.values.iter().map(|value| i16::from(value.is_some())).collect();
        let values = self.values.drain(..).flatten();
        let Some(column) = group.next_column()? else { return Ok(()) };
        match self.kind {
            Kind::Bool => write::<BoolType>(column, values.map(|value| value == b"t").collect(), &levels),
            Kind::Int32 => write::<Int32Type>(column, parsed(values), &levels),
            Kind::Int64 => write::<Int64Type>(column, parsed(values), &levels),
            Kind::Float => write::<FloatType>(column, parsed(values), &levels),
            Kind::Double => write::<DoubleType>(column, parsed(values), &levels),
            Kind::Text | Kind::Bytes => write::<ByteArrayType>(column, values.map(ByteArray::from).collect(), &levels),
        }
    }
}

fn write<T: DataType>(
    mut column: SerializedColumnWriter<'_>,
    values: Vec<T::T>,
    levels: &[i16],
) -> Result<(), ParquetError> {
    column.typed::<T>().write_batch(&values, Some(levels), None)?;
    column.close()
}

fn parsed<T: std::str::FromStr>(values: impl Iterator<Item = Vec<u8>>) -> Vec<T> {
    values.filter_map(|value| std::str::from_utf8(&value).ok()?.parse().ok()).collect()
}

/// Writes each file with rows of a table also as Parquet, unless the table has no columns.
pub(crate) fn write_beside(
    relation: &Relation,
    report: &TableReport,
    (names, database, output): (&Names, &DatabaseFiles, &Output),
) -> Result<(), SalvageError> {
    let columns = relation.columns.values().filter_map(|column| Some((names.text(&column.name), column.known?)));
    let printed = columns.filter(|(_, known)| !known.is_dropped && !known.is_generated);
    let columns: Vec<(String, Oid)> = printed.map(|(name, known)| (name, known.type_oid)).collect();
    for file in report.files.iter().flatten().filter(|_| !columns.is_empty()) {
        let name = file.with_extension("parquet");
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        let mut target = output.begin(database, &name).map_err(RebuildError::from)?;
        let text = target.path().with_extension("copy");
        convert(&text, &columns, &mut target)?;
        target.finish().map_err(RebuildError::from)?;
    }
    Ok(())
}

/// Writes the rows of a file with COPY text as Parquet. `columns`: name and type of each. A column of which a value does not have
/// its type is text; one with text that is not UTF-8 is bytes.
fn convert(from: &Path, columns: &[(String, Oid)], target: &mut (impl Write + Send)) -> Result<(), RebuildError> {
    let failed = |source| RebuildError::from(AccessError::io("convert", from, source));
    let mut waiting: Vec<Waiting> = columns
        .iter()
        .map(|(name, type_oid)| Waiting { name: name.clone(), kind: Kind::of(*type_oid), values: Vec::new() })
        .collect();
    each_row(from, columns.len(), &mut |fields| {
        for (column, field) in waiting.iter_mut().zip(fields) {
            if let Some(value) = unescaped(field) {
                let kinds = [column.kind, Kind::Text, Kind::Bytes];
                column.kind = kinds.into_iter().find(|kind| kind.fits(&value)).unwrap_or(Kind::Bytes);
            }
        }
        Ok(())
    })?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(format!("pgforensics {}", env!("CARGO_PKG_VERSION")));
    let schema = schema(&waiting).map_err(|error| failed(io::Error::other(error)))?;
    let mut writer = SerializedFileWriter::new(target, schema, Arc::new(properties.build()))
        .map_err(|error| failed(io::Error::other(error)))?;
    let (mut rows, mut bytes) = (0_usize, 0_usize);
    each_row(from, columns.len(), &mut |fields| {
        for (column, field) in waiting.iter_mut().zip(fields) {
            bytes = bytes.saturating_add(field.len()).saturating_add(size_of::<Option<Vec<u8>>>());
            column.values.push(unescaped(field));
        }
        rows = rows.saturating_add(1);
        if rows < ROWS_PER_GROUP && bytes < BYTES_PER_GROUP {
            return Ok(());
        }
        (rows, bytes) = (0, 0);
        write_group(&mut writer, &mut waiting)
    })?;
    if rows > 0 {
        write_group(&mut writer, &mut waiting).map_err(failed)?;
    }
    writer.close().map_err(|error| failed(io::Error::other(error)))?;
    Ok(())
}

fn write_group<W: Write + Send>(writer: &mut SerializedFileWriter<W>, columns: &mut [Waiting]) -> io::Result<()> {
    let mut written = || {
        let mut group = writer.next_row_group()?;
        columns.iter_mut().try_for_each(|column| column.write(&mut group))?;
        group.close()
    };
    written().map(drop).map_err(io::Error::other)
}

fn schema(columns: &[Waiting]) -> Result<TypePtr, ParquetError> {
    let field = |column: &Waiting| {
        let field = Type::primitive_type_builder(&column.name, column.kind.physical());
        let field = field
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type((column.kind == Kind::Text).then_some(LogicalType::String));
        field.build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder("schema").with_fields(fields).build().map(Arc::new)
}

/// Shows the fields of each row of COPY text, in which a line is a row.
fn each_row(from: &Path, count: usize, show: &mut dyn FnMut(&[&[u8]]) -> io::Result<()>) -> Result<(), RebuildError> {
    let failed = |source| RebuildError::from(AccessError::io("convert", from, source));
    let mut reader = BufReader::with_capacity(1 << 20, ReadFile::open(from, Links::Refuse)?.into_reader());
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).map_err(failed)? > 0 {
        let fields: Vec<&[u8]> = line.strip_suffix(b"\n").unwrap_or(&line).split(|byte| *byte == b'\t').collect();
        if fields.len() != count {
            return Err(failed(io::ErrorKind::InvalidData.into()));
        }
        show(&fields).map_err(failed)?;
        line.clear();
    }
    Ok(())
}
