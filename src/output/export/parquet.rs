//! Rows as Parquet: row groups of a bounded number of rows, pages compressed with zstd, statistics of each column.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use rustc_hash::FxHashMap;

use super::{Cell, Column, ColumnType};

/// Rows of a row group; what readers that work on several at a time like best. Bounds the memory of a file.
const ROWS_PER_GROUP: usize = if cfg!(test) { 10 } else { 122_880 };

/// Values of a column that wait for their row group.
#[derive(Debug, Default)]
struct Waiting {
    /// 0 for a value that does not apply, else 1.
    levels: Vec<i16>,
    ints: Vec<i64>,
    bools: Vec<bool>,
    texts: Vec<ByteArray>,
}

pub(super) struct ParquetFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: &'static [Column],
    waiting: Vec<Waiting>,
    rows: usize,
    /// Texts that were met: there are few, and many rows share them.
    texts: FxHashMap<Box<str>, ByteArray>,
}

impl<W: Write + Send> ParquetFile<W> {
    /// Starts a file. `created_by`: the program.
    pub(super) fn begin(out: W, columns: &'static [Column], created_by: &str) -> io::Result<Self> {
        let writer = SerializedFileWriter::new(out, schema(columns).map_err(failed)?, properties(columns, created_by));
        let waiting = columns.iter().map(|_| Waiting::default()).collect();
        Ok(Self { writer: writer.map_err(failed)?, columns, waiting, rows: 0, texts: FxHashMap::default() })
    }

    pub(super) fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for (waiting, cell) in self.waiting.iter_mut().zip(cells) {
            waiting.levels.push(i16::from(*cell != Cell::Null));
            match cell {
                Cell::Null => {}
                Cell::Int(number) => waiting.ints.push(*number),
                Cell::Bool(value) => waiting.bools.push(*value),
                Cell::Text(text) => {
                    // Mostly that of the row before.
                    let before = waiting.texts.last().filter(|before| before.data() == text.as_bytes());
                    let value = match before.or_else(|| self.texts.get(*text)) {
                        Some(known) => known.clone(),
                        None => {
                            let value = ByteArray::from(*text);
                            self.texts.insert((*text).into(), value.clone());
                            value
                        }
                    };
                    waiting.texts.push(value);
                }
            }
        }
        self.rows += 1;
        if self.rows == ROWS_PER_GROUP { self.write_group() } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.write_group()?;
        self.writer.into_inner().map_err(failed)
    }

    fn write_group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for (column, waiting) in self.columns.iter().zip(&mut self.waiting) {
            if let Some(writer) = group.next_column().map_err(failed)? {
                write_column(writer, column, waiting).map_err(failed)?;
            }
        }
        group.close().map_err(failed)?;
        self.rows = 0;
        // Names of relations may be many; those of the next row group are met again.
        self.texts.clear();
        Ok(())
    }
}

fn write_column(
    mut writer: SerializedColumnWriter<'_>,
    column: &Column,
    waiting: &mut Waiting,
) -> Result<(), ParquetError> {
    let levels = column.nullable.then_some(waiting.levels.as_slice());
    match column.kind {
        ColumnType::Int => drop(writer.typed::<Int64Type>().write_batch(&waiting.ints, levels, None)?),
        ColumnType::Bool => drop(writer.typed::<BoolType>().write_batch(&waiting.bools, levels, None)?),
        ColumnType::Text => drop(writer.typed::<ByteArrayType>().write_batch(&waiting.texts, levels, None)?),
    }
    waiting.levels.clear();
    waiting.ints.clear();
    waiting.bools.clear();
    waiting.texts.clear();
    writer.close()
}

fn schema(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| {
        let physical = match column.kind {
            ColumnType::Int => PhysicalType::INT64,
            ColumnType::Bool => PhysicalType::BOOLEAN,
            ColumnType::Text => PhysicalType::BYTE_ARRAY,
        };
        let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(column.name, physical)
            .with_repetition(repetition)
            .with_logical_type((column.kind == ColumnType::Text).then_some(LogicalType::String))
            .build()
            .map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder("schema").with_fields(fields).build().map(Arc::new)
}

fn properties(columns: &[Column], created_by: &str) -> WriterPropertiesPtr {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(created_by.to_owned());
    // Few values come twice: a dictionary would not help, and differences are small where they ascend.
    for column in columns.iter().filter(|column| column.varies()) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Arc::new(properties.build())
}

/// The I/O error inside, so that a full disk is called that.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::output::export::Table;

    #[test]
    fn row_groups_are_bounded_and_hold_what_was_written() {
        let columns = Table::Blocks.columns();
        let mut file = ParquetFile::begin(tempfile::tempfile().unwrap(), columns, "a program").unwrap();
        for number in 0..25 {
            let cells: Vec<Cell<'_>> = columns
                .iter()
                .map(|column| match column.kind {
                    _ if column.nullable && number % 3 == 0 => Cell::Null,
                    ColumnType::Int => Cell::of_u64(u64::MAX - number),
                    ColumnType::Bool => Cell::Bool(number % 2 == 0),
                    ColumnType::Text => Cell::Text(if number < 12 { "early" } else { "late" }),
                })
                .collect();
            file.row(&cells).unwrap();
        }
        let reader = SerializedFileReader::new(file.finish().unwrap()).unwrap();
        let groups = reader.metadata().row_groups();
        assert_eq!(groups.iter().map(|group| group.num_rows()).collect::<Vec<_>>(), [10, 10, 5]);
        assert!(groups.iter().all(|group| group.columns().iter().all(|column| column.statistics().is_some())));
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 25);
        for (number, row) in (0_i64..).zip(&rows) {
            assert_eq!(row.get_long(0).unwrap(), -1 - number);
            assert_eq!(row.get_string(2).unwrap(), if number < 12 { "early" } else { "late" });
            let will_init = columns.iter().position(|column| column.name == "will_init").unwrap();
            assert_eq!(row.get_bool(will_init).unwrap(), number % 2 == 0);
            let stored = columns.iter().position(|column| column.name == "stored_bytes").unwrap();
            assert_eq!(row.get_long(stored).ok(), (number % 3 != 0).then_some(-1 - number));
        }
    }
}
