//! Machine formats: one item after the other into JSON, NDJSON or CSV, nothing kept in memory.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value};

use super::json::{BeginJson, Item, SummaryJson};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    Json,
    /// One object a line, with `type`.
    Ndjson,
    Csv,
}

#[derive(Clone, Copy, Debug)]
pub enum CsvShape<'a> {
    Rows {
        /// Name of the array that items of the type stand in.
        plural: &'static str,
        columns: &'a [&'static str],
    },
    /// Every field of every item as a `name,value` row.
    Pairs,
}

/// Writes items in one of the machine formats.
pub struct Sink<'a> {
    kind: Kind<'a>,
}

enum Kind<'a> {
    Json { out: &'a mut dyn Write, open: Option<&'static str>, unseen: Option<&'static str> },
    Ndjson(&'a mut dyn Write),
    Csv { writer: Box<csv::Writer<&'a mut dyn Write>>, shape: CsvShape<'a> },
}

#[derive(Serialize)]
struct Tagged<'a, T: Serialize> {
    r#type: &'static str,
    #[serde(flatten)]
    value: &'a T,
}

impl<'a> Sink<'a> {
    /// Starts an output.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn begin(format: Machine, shape: CsvShape<'a>, out: &'a mut dyn Write, begin: &BeginJson) -> io::Result<Self> {
        let kind = match format {
            Machine::Json => {
                out.write_all(b"{\"begin\":")?;
                serde_json::to_writer(&mut *out, begin)?;
                // The array of rows exists even if it is empty.
                let unseen = match shape {
                    CsvShape::Rows { plural, .. } => Some(plural),
                    CsvShape::Pairs => None,
                };
                Kind::Json { out, open: None, unseen }
            }
            Machine::Ndjson => {
                line(out, &Tagged { r#type: "begin", value: begin })?;
                Kind::Ndjson(out)
            }
            Machine::Csv => {
                let mut writer = Box::new(csv::Writer::from_writer(out));
                match shape {
                    CsvShape::Rows { columns, .. } => writer.write_record(columns).map_err(csv_error)?,
                    CsvShape::Pairs => writer.write_record(["name", "value"]).map_err(csv_error)?,
                }
                Kind::Csv { writer, shape }
            }
        };
        Ok(Self { kind })
    }

    /// Writes one item. In a JSON document, items of one type must follow each other.
    pub(crate) fn item(&mut self, item: &Item) -> io::Result<()> {
        match &mut self.kind {
            Kind::Json { out, open, unseen } => {
                let plural = item.plural();
                unseen.take_if(|rows| *rows == plural);
                match open {
                    Some(current) if *current == plural => out.write_all(b",\n")?,
                    Some(_) => write!(out, "],\n\"{plural}\":[\n")?,
                    None => write!(out, ",\n\"{plural}\":[\n")?,
                }
                *open = Some(plural);
                Ok(serde_json::to_writer(&mut **out, &without_nulls(item)?)?)
            }
            Kind::Ndjson(out) => line(*out, &without_nulls(item)?),
            Kind::Csv { writer, shape } => csv_item(writer, *shape, item),
        }
    }

    /// Hands over what was written so far.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Json { out, .. } | Kind::Ndjson(out) => out.flush(),
            Kind::Csv { writer, .. } => writer.flush(),
        }
    }

    /// Ends the output.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn end(self, summary: &SummaryJson) -> io::Result<()> {
        match self.kind {
            Kind::Json { out, open, unseen } => {
                let open = match unseen {
                    Some(rows) => {
                        write!(out, "{},\n\"{rows}\":[", if open.is_some() { "]" } else { "" })?;
                        Some(rows)
                    }
                    None => open,
                };
                out.write_all(if open.is_some() { b"],\n\"summary\":" } else { b",\n\"summary\":" })?;
                serde_json::to_writer(&mut *out, &without_nulls(summary)?)?;
                out.write_all(b"}\n")?;
                out.flush()
            }
            Kind::Ndjson(out) => {
                line(out, &without_nulls(&Tagged { r#type: "summary", value: summary })?)?;
                out.flush()
            }
            Kind::Csv { mut writer, .. } => writer.flush(),
        }
    }
}

fn line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// The value without the fields that do not apply. An array keeps its members.
fn without_nulls(value: &impl Serialize) -> io::Result<Value> {
    fn drop_nulls(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|_, field| !field.is_null());
                fields.values_mut().for_each(drop_nulls);
            }
            Value::Array(members) => members.iter_mut().for_each(drop_nulls),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(value)?;
    drop_nulls(&mut value);
    Ok(value)
}

fn csv_item(writer: &mut csv::Writer<&mut dyn Write>, shape: CsvShape<'_>, item: &Item) -> io::Result<()> {
    let Value::Object(object) = serde_json::to_value(item)? else { return Ok(()) };
    match shape {
        CsvShape::Rows { plural, columns } if plural == item.plural() => {
            let cells = columns.iter().map(|column| object.get(*column).map(cell).unwrap_or_default());
            writer.write_record(cells).map_err(csv_error)?;
        }
        CsvShape::Rows { .. } => {}
        CsvShape::Pairs => {
            let label = object.get("file").or_else(|| object.get("kind")).map(cell);
            let prefix = match label.filter(|label| !label.is_empty()) {
                Some(label) => format!("{}.{label}", item.plural()),
                None => item.plural().to_owned(),
            };
            pairs(writer, &prefix, &object)?;
        }
    }
    Ok(())
}

fn pairs(writer: &mut csv::Writer<&mut dyn Write>, prefix: &str, object: &Map<String, Value>) -> io::Result<()> {
    for (name, value) in object.iter().filter(|(name, _)| *name != "type") {
        let name = format!("{prefix}.{name}");
        match value {
            Value::Object(inner) => pairs(writer, &name, inner)?,
            other => writer.write_record([name, cell(other)]).map_err(csv_error)?,
        }
    }
    Ok(())
}

/// The I/O error inside, so that a closed pipe is still told from other failures.
fn csv_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// A JSON value as one cell; lists are joined.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(cell).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}
