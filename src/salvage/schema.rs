//! SQL around the rows: types and tables before they are loaded, constraints and indexes after, and the order of it all.

use std::collections::BTreeMap;

use super::catalogs::{Catalogs, Relation};
use super::layout::client_encoding;
use super::out::Output;
use super::print::Session;
use super::source::DatabaseFiles;
use super::{RowFormat, SalvageError, TableReport};
use crate::parsers::decode::u32_at;
use crate::types::Oid;

/// `pg_sequence`.
const PG_SEQUENCE_OID: Oid = 2224;

/// Says what the file is and lacks.
const HEAD: &str = "-- Made from what is left of the catalogs. Views, functions, triggers, policies, privileges and partitioning\n\
    -- are not in here; partitions are plain tables.\n";

/// A row of a query.
type Fields = Vec<Option<String>>;

/// Statements for texts that a deparser may fail over, each by itself.
fn each_in_turn(table: &str, rows: &str, values: &str) -> [String; 2] {
    let made = format!("CREATE TABLE public.{table} (a oid, b int, c text, d text)");
    let filled = format!(
        "DO $x$ DECLARE r record; BEGIN FOR r IN {rows} LOOP BEGIN INSERT INTO public.{table} SELECT {values}; \
         EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $x$"
    );
    [made, filled]
}

/// An identifier of SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn quoted_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// What is told of a database beside its rows.
pub(crate) struct Schema<'a> {
    pub database: &'a DatabaseFiles,
    pub catalogs: &'a Catalogs,
    /// Names in UTF-8.
    pub text: &'a dyn Fn(&[u8]) -> String,
    pub has_generated: bool,
    pub format: RowFormat,
}

impl Schema<'_> {
    fn name(&self, relation: &Relation) -> String {
        let schema = self.catalogs.schemas.get(&relation.schema_oid);
        let schema = schema.map_or_else(|| relation.schema_oid.to_string(), |schema| (self.text)(schema));
        format!("{}.{}", quoted(&schema), quoted(&(self.text)(&relation.name)))
    }

    /// Writes the files of a database. `tables`: those whose rows were printed.
    pub fn write(
        &self,
        session: &mut Session<'_>,
        tables: &[&TableReport],
        output: &Output,
    ) -> Result<(), SalvageError> {
        let types = self.types(session)?;
        let columns = self.columns(session)?;
        let defaults = self.defaults(session)?;
        let after = self.after(session)?;
        let mut before = HEAD.to_owned();
        let mut schemas: Vec<String> = self
            .catalogs
            .schemas
            .iter()
            .filter(|(oid, _)| **oid >= 16_384)
            .map(|(_, name)| (self.text)(name))
            .collect();
        schemas.sort();
        for schema in schemas.iter().filter(|schema| !schema.starts_with("pg_")) {
            before.push_str(&format!("CREATE SCHEMA IF NOT EXISTS {};\n", quoted(schema)));
        }
        for row in self.catalogs.rows.get(&3079).into_iter().flatten() {
            let at = usize::from(row.header.row_oid(&row.tuple).is_none()).saturating_mul(4);
            if let Some(name) =
                super::layout::name_at(row.data(), at).map(|name| (self.text)(&name)).filter(|name| name != "plpgsql")
            {
                before.push_str(&format!("CREATE EXTENSION IF NOT EXISTS {};\n", quoted(&name)));
            }
        }
        types.iter().for_each(|statement| before.push_str(statement));
        for relation in self.catalogs.relations.values().filter(|relation| relation.kind == b'S') {
            before.push_str(&format!("CREATE SEQUENCE {}{};\n", self.name(relation), self.sequence_options(relation)));
        }
        // The schema is in UTF-8, rows may not be.
        let encoding = client_encoding(self.database.encoding);
        let mut load = "\\set ON_ERROR_STOP off\nSET client_encoding = 'UTF8';\n\\ir schema-before.sql\n".to_owned();
        load.push_str(&format!("SET client_encoding = '{encoding}';\n"));
        for table in tables {
            let Some(relation) = self.catalogs.relations.get(&table.oid) else { continue };
            before.push_str(&self.table(relation, &columns, &defaults));
            load.push_str(&self.copy(relation, table, &columns));
        }
        for relation in self.catalogs.relations.values().filter(|relation| matches!(relation.kind, b'r' | b'm')) {
            for ((rel, number), text) in &defaults {
                let is_plain =
                    *rel == relation.oid && !columns.get(&(*rel, *number)).is_some_and(|column| column.is_generated);
                if let Some(column) = relation.columns.get(number).filter(|_| is_plain) {
                    let column = quoted(&(self.text)(&column.name));
                    before.push_str(&format!(
                        "ALTER TABLE {} ALTER COLUMN {column} SET DEFAULT {text};\n",
                        self.name(relation)
                    ));
                }
            }
        }
        load.push_str("\\ir sequences.sql\n\\ir large_objects.sql\n\\ir schema-after.sql\n");
        output.write(self.database, "schema-before.sql", before.as_bytes())?;
        output.write(self.database, "schema-after.sql", format!("{HEAD}{after}").as_bytes())?;
        output.write(self.database, "load.sql", load.as_bytes())
    }

    /// How a sequence counts, by its row of `pg_sequence`.
    fn sequence_options(&self, relation: &Relation) -> String {
        let mut rows = self.catalogs.rows.get(&PG_SEQUENCE_OID).into_iter().flatten();
        let row = rows.find(|row| u32_at(row.data(), 0) == Some(relation.oid));
        let options = row.and_then(|row| {
            let number = |at: usize| Some(i64::from_le_bytes(*row.data().get(at..)?.first_chunk()?));
            let [start, increment, max, min, cache] =
                [number(8)?, number(16)?, number(24)?, number(32)?, number(40)?.max(1)];
            let cycle = if *row.data().get(48)? == 1 { " CYCLE" } else { "" };
            let is_possible = increment != 0 && min < max && (min..=max).contains(&start);
            is_possible.then(|| {
                format!(" INCREMENT {increment} MINVALUE {min} MAXVALUE {max} START {start} CACHE {cache}{cycle}")
            })
        });
        options.unwrap_or_default()
    }

    /// Types in the order of their OIDs: each is older than those that use it.
    fn types(&self, session: &mut Session<'_>) -> Result<Vec<String>, SalvageError> {
        let rows = session.query(
            &[],
            "SELECT t.oid, t.typtype, pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(t.typname), \
             CASE t.typtype WHEN 'd' THEN pg_catalog.format_type(t.typbasetype, t.typtypmod) \
             WHEN 'e' THEN (SELECT pg_catalog.string_agg(pg_catalog.quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid) \
             WHEN 'r' THEN (SELECT pg_catalog.format_type(rngsubtype, NULL) FROM pg_range WHERE rngtypid = t.oid) \
             WHEN 'c' THEN (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(attname) || ' ' || pg_catalog.format_type(atttypid, atttypmod), ', ' ORDER BY attnum) \
             FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped) END, t.typrelid \
             FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid >= 16384 AND t.typtype IN ('d','e','r','c') ORDER BY t.oid",
        )?;
        let statement = |fields: &Fields| {
            let field = |at: usize| fields.get(at).cloned().flatten();
            let (kind, name, body) = (field(1)?, field(2)?, field(3).unwrap_or_default());
            let rel: Oid = field(4)?.parse().ok()?;
            let is_own = self.catalogs.relations.get(&rel).is_some_and(|relation| relation.kind == b'c');
            Some(match kind.as_str() {
                "d" => format!("CREATE DOMAIN {name} AS {body};\n"),
                "e" => format!("CREATE TYPE {name} AS ENUM ({body});\n"),
                "r" => format!("CREATE TYPE {name} AS RANGE (SUBTYPE = {body});\n"),
                _ if is_own => format!("CREATE TYPE {name} AS ({body});\n"),
                _ => return None,
            })
        };
        Ok(rows.iter().filter_map(statement).collect())
    }

    fn columns(&self, session: &mut Session<'_>) -> Result<BTreeMap<(Oid, u16), PrintedColumn>, SalvageError> {
        let generated = if self.has_generated { "attgenerated" } else { "''" };
        let query = format!(
            "SELECT attrelid, attnum, pg_catalog.format_type(atttypid, atttypmod), {generated} FROM pg_attribute \
             WHERE attrelid >= 16384 AND attnum > 0 AND NOT attisdropped"
        );
        let column = |fields: Fields| {
            let mut fields = fields.into_iter();
            let mut field = || fields.next().flatten();
            let key = (field()?.parse().ok()?, field()?.parse().ok()?);
            Some((
                key,
                PrintedColumn { type_name: field()?, is_generated: field().is_some_and(|flag| !flag.is_empty()) },
            ))
        };
        Ok(session.query(&[], &query)?.into_iter().filter_map(column).collect())
    }

    /// Expressions of defaults and generated columns.
    fn defaults(&self, session: &mut Session<'_>) -> Result<BTreeMap<(Oid, u16), String>, SalvageError> {
        let rows = "SELECT adrelid, adnum, adbin FROM pg_attrdef WHERE adrelid >= 16384";
        let statements = each_in_turn(
            "salvage_defaults",
            rows,
            "r.adrelid, r.adnum, pg_catalog.pg_get_expr(r.adbin, r.adrelid), NULL",
        );
        let text = |fields: Fields| {
            let mut fields = fields.into_iter();
            let mut field = || fields.next().flatten();
            Some(((field()?.parse().ok()?, field()?.parse().ok()?), field()?))
        };
        Ok(session
            .query(&statements, "SELECT a, b, c FROM public.salvage_defaults ORDER BY 1, 2")?
            .into_iter()
            .filter_map(text)
            .collect())
    }

    /// Constraints and indexes.
    fn after(&self, session: &mut Session<'_>) -> Result<String, SalvageError> {
        let rows = "SELECT oid, conrelid, conname, contype FROM pg_constraint WHERE conrelid >= 16384 AND contype IN ('p','u','c','f','x')";
        let order = "CASE r.contype WHEN 'p' THEN 1 WHEN 'u' THEN 1 WHEN 'f' THEN 4 ELSE 3 END";
        let values =
            format!("r.conrelid, {order}, pg_catalog.pg_get_constraintdef(r.oid), pg_catalog.quote_ident(r.conname)");
        let mut statements = each_in_turn("salvage_after", rows, &values).to_vec();
        let rows = "SELECT indexrelid, indrelid FROM pg_index WHERE indexrelid >= 16384 AND indexrelid < 4000000000 AND \
                    NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p','u','x'))";
        statements.extend(each_in_turn(
            "salvage_index",
            rows,
            "r.indrelid, 2, pg_catalog.pg_get_indexdef(r.indexrelid), NULL",
        ));
        let query = "SELECT a, b, c, d FROM public.salvage_after UNION ALL SELECT a, b, c, d FROM public.salvage_index ORDER BY 2, 1, 3";
        let mut text = String::new();
        for fields in session.query(&statements, query)? {
            let field = |at: usize| fields.get(at).cloned().flatten();
            let relation =
                field(0).and_then(|oid| oid.parse().ok()).and_then(|oid: Oid| self.catalogs.relations.get(&oid));
            let Some((relation, body)) = relation.filter(|relation| matches!(relation.kind, b'r' | b'm')).zip(field(2))
            else {
                continue;
            };
            match field(3) {
                Some(name) => {
                    text.push_str(&format!("ALTER TABLE ONLY {} ADD CONSTRAINT {name} {body};\n", self.name(relation)))
                }
                None => text.push_str(&format!("{body};\n")),
            }
        }
        Ok(text)
    }

    fn table(
        &self,
        relation: &Relation,
        columns: &BTreeMap<(Oid, u16), PrintedColumn>,
        defaults: &BTreeMap<(Oid, u16), String>,
    ) -> String {
        let column = |(number, column): (&u16, &super::catalogs::Column)| {
            let printed = columns.get(&(relation.oid, *number))?;
            let name = quoted(&(self.text)(&column.name));
            let generated = defaults.get(&(relation.oid, *number)).filter(|_| printed.is_generated);
            let generated = generated.map_or_else(String::new, |text| format!(" GENERATED ALWAYS AS ({text}) STORED"));
            Some(format!("\n    {name} {}{generated}", printed.type_name))
        };
        let columns: Vec<String> = relation.columns.iter().filter_map(column).collect();
        format!("CREATE TABLE {} ({}\n);\n", self.name(relation), columns.join(","))
    }

    /// The line that loads a table. A name that would end the line is left to the user.
    fn copy(&self, relation: &Relation, table: &TableReport, columns: &BTreeMap<(Oid, u16), PrintedColumn>) -> String {
        let Some(file) = table.files.first().and_then(Option::as_ref).and_then(|path| path.file_name()) else {
            return String::new();
        };
        let is_loaded = |number: &u16| columns.get(&(relation.oid, *number)).is_some_and(|column| !column.is_generated);
        let names = relation.columns.iter().filter(|(number, _)| is_loaded(number));
        let names: Vec<String> = names.map(|(_, column)| quoted(&(self.text)(&column.name))).collect();
        let list = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        let options = if self.format == RowFormat::Csv { " (FORMAT csv)" } else { "" };
        let file_name = quoted_literal(&file.to_string_lossy());
        let line = format!("\\copy {}{list} FROM {file_name}{options}", self.name(relation));
        match line.chars().any(char::is_control) {
            true => format!("-- a name with control characters: load {} yourself\n", file.to_string_lossy()),
            false => format!("{line}\n"),
        }
    }
}

/// A column as the server prints it.
struct PrintedColumn {
    type_name: String,
    is_generated: bool,
}
