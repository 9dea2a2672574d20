//! A server in the sandbox prints rows. Where it fails or dies, the rows are divided until it is known over which.

use std::collections::{BTreeSet, HashMap};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::time::Duration;

use super::RowFormat;
use crate::cluster::open::{AccessError, Links, ReadFile};
use crate::parsers::wal::version::Major;
use crate::rebuild::sandbox::{Owner, Sandbox, SandboxRun};
use crate::rebuild::server::ServerRun;
use crate::rebuild::{RebuildError, ServerProgram};
use crate::types::Oid;

/// How long one run of the server may take.
const RUN_LIMIT: Duration = Duration::from_secs(6 * 3600);

/// Parts into which rows are divided over which the server fails.
const PARTS: u32 = 16;

/// Starts of the server over rows of one table that it does not print, before the rest of them is given up.
const MAX_RUNS: usize = 400;

/// Rows that are printed into one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Table in the sandbox.
    pub table: Oid,
    pub part: Part,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    All,
    Pages(Range<u32>),
    Items(u32, Range<u16>),
}

impl Part {
    /// The same rows in smaller parts; none when it is one row. `counts`: rows on each page.
    fn divided(&self, counts: &[u16]) -> Vec<Self> {
        let pages = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        match self {
            Self::All if pages > 0 => Self::Pages(0..pages).divided(counts),
            Self::All => Vec::new(),
            Self::Pages(range) if range.len() > 1 => {
                let step = range.end.saturating_sub(range.start).div_ceil(PARTS).max(1);
                let starts = range.clone().step_by(usize::try_from(step).unwrap_or(1));
                starts.map(|start| Self::Pages(start..start.saturating_add(step).min(range.end))).collect()
            }
            Self::Pages(range) => {
                let count =
                    usize::try_from(range.start).ok().and_then(|page| counts.get(page)).copied().unwrap_or_default();
                Self::Items(range.start, 1..count.saturating_add(1)).items()
            }
            Self::Items(..) => self.items(),
        }
    }

    fn items(&self) -> Vec<Self> {
        let Self::Items(page, range) = self else { return Vec::new() };
        if range.len() < 2 {
            return Vec::new();
        }
        let step = range.end.saturating_sub(range.start).div_ceil(8).max(1);
        let starts = range.clone().step_by(usize::from(step));
        starts.map(|start| Self::Items(*page, start..start.saturating_add(step).min(range.end))).collect()
    }

    /// The condition of a query for these rows.
    fn condition(&self) -> Option<String> {
        let (pages, items) = match self {
            Self::All => return None,
            Self::Pages(range) => (range.clone(), 1..1200),
            Self::Items(page, range) => (*page..page.saturating_add(1), range.clone()),
        };
        Some(format!(
            "ctid = ANY(ARRAY(SELECT (''('' || p || '','' || i || '')'')::tid FROM pg_catalog.generate_series({}, {}) p, pg_catalog.generate_series({}, {}) i))",
            pages.start,
            pages.end.saturating_sub(1),
            items.start,
            items.end.saturating_sub(1)
        ))
    }
}

/// A server on a cluster of its own.
pub(crate) struct Session<'a> {
    pub sandbox: &'a Sandbox,
    pub run: &'a SandboxRun,
    pub server: &'a ServerProgram,
    pub owner: Owner,
    pub watch: &'a dyn Fn() -> ControlFlow<()>,
    /// Rows are printed in UTF-8, from another encoding.
    pub to_utf8: bool,
    /// Columns may be generated: since 12.
    pub has_generated: bool,
    pub format: RowFormat,
    runs: usize,
}

impl<'a> Session<'a> {
    pub fn new(
        sandbox: &'a Sandbox,
        run: &'a SandboxRun,
        server: &'a ServerProgram,
        owner: Owner,
        watch: &'a dyn Fn() -> ControlFlow<()>,
    ) -> Self {
        Self {
            sandbox,
            run,
            server,
            owner,
            watch,
            to_utf8: false,
            has_generated: true,
            format: RowFormat::Copy,
            runs: 0,
        }
    }

    /// Runs statements; the end of what the server printed. Each statement is one element, without a semicolon.
    pub fn run(&mut self, statements: &[String]) -> Result<String, RebuildError> {
        let text: String = statements.iter().flat_map(|statement| [statement.as_str(), ";\n\n"]).collect();
        self.run_script("postgres", text.as_bytes())
    }

    /// Runs a script in a database; the end of what the server printed.
    pub fn run_script(&mut self, database: &str, text: &[u8]) -> Result<String, RebuildError> {
        let is_used = |number: usize| self.run.log().with_file_name(format!("script-{number}.sql")).exists();
        self.runs = (self.runs.saturating_add(1)..).find(|number| !is_used(*number)).unwrap_or_default();
        let script = self.run.write_beside(&format!("script-{}.sql", self.runs), text)?;
        let log = self.log_path("session");
        self.sandbox.hand_over(self.run)?;
        let ended =
            self.server.session((self.run.data(), database), &script, (&log, self.owner, RUN_LIMIT), self.watch)?;
        self.sandbox.take_back()?;
        match ended {
            ServerRun::BrokenOff => Err(RebuildError::Interrupted),
            ServerRun::Ended(failure) => Ok(failure.log),
        }
    }

    /// The rows of a query of which no text comes from the damaged cluster, as text in UTF-8; none where it fails.
    pub fn query(&mut self, preparation: &[String], query: &str) -> Result<Vec<Vec<Option<String>>>, RebuildError> {
        let name = format!("query-{}", self.runs);
        let encoding = if self.to_utf8 { " (ENCODING 'UTF8')" } else { "" };
        let path = self.run.out().join(&name).display().to_string().replace('\'', "''");
        let mut statements = preparation.to_vec();
        statements.push(format!("COPY ({query}) TO '{path}'{encoding}"));
        self.run(&statements)?;
        let Some(file) = self.out(&name) else { return Ok(Vec::new()) };
        let length = usize::try_from(file.size_bytes()).unwrap_or_default();
        let text = file.bytes_at(0, length)?.unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(|line| line.split(|byte| *byte == b'\t').map(text_of).collect()).collect())
    }

    /// Names in UTF-8 that are in the encoding of the database; those that it does not have are left out.
    pub fn names<'n>(
        &mut self,
        names: impl Iterator<Item = &'n [u8]>,
    ) -> Result<HashMap<Vec<u8>, String>, RebuildError> {
        let names: BTreeSet<&[u8]> = names.filter(|name| self.to_utf8 && !name.is_ascii()).collect();
        if names.is_empty() {
            return Ok(HashMap::new());
        }
        let hex = |name: &[u8]| name.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let made = "CREATE TABLE public.salvage_names (a text, b text)".to_owned();
        let convert = |name: &&[u8]| {
            let name = hex(name);
            format!(
                "DO $x$ BEGIN INSERT INTO public.salvage_names VALUES ('{name}', \
                 pg_catalog.convert_from('\\x{name}', pg_catalog.getdatabaseencoding())); EXCEPTION WHEN OTHERS THEN NULL; END $x$"
            )
        };
        let statements: Vec<String> = std::iter::once(made).chain(names.iter().map(convert)).collect();
        let rows = self.query(&statements, "SELECT a, b FROM public.salvage_names")?;
        let converted = |row: Vec<Option<String>>| {
            let [Some(of), Some(name)] = <[_; 2]>::try_from(row).ok()? else { return None };
            names.iter().find(|name| hex(name) == of).map(|of| (of.to_vec(), name))
        };
        Ok(rows.into_iter().filter_map(converted).collect())
    }

    pub fn log_path(&self, what: &str) -> PathBuf {
        self.run.log().with_file_name(format!("{what}-{}.log", self.runs))
    }

    /// A file that the server made of what it was asked for.
    pub fn out(&self, name: &str) -> Option<ReadFile> {
        ReadFile::open(&self.run.out().join(name), Links::Refuse).ok()
    }

    /// The path of a file that the server makes, as text in a text in a statement.
    fn quoted_out(&self, name: &str) -> String {
        self.run.out().join(name).display().to_string().replace('\'', "''''")
    }

    /// Statements that end in a file which says that all before it were run.
    pub fn marked(&self, statement: &str, mark: &str) -> String {
        let path = self.run.out().join(mark).display().to_string().replace('\'', "''");
        format!("{statement}; COPY (SELECT 1) TO '{path}'")
    }

    /// True when the server cannot unpack values that 14 and later may compress with LZ4.
    pub fn lacks_lz4(&mut self, major: Major) -> Result<bool, RebuildError> {
        let asked = self.marked("SET default_toast_compression = 'lz4'", "has-lz4");
        Ok(major.number() >= 14 && {
            self.run(&[asked])?;
            self.out("has-lz4").is_none()
        })
    }

    fn statements(&self, number: usize, unit: &Unit) -> [String; 2] {
        let copy = |query: &str, name: String| format!("EXECUTE 'COPY {query} TO ''{}'''", self.quoted_out(&name));
        let options = match (self.to_utf8, self.format) {
            (true, RowFormat::Csv) => " (FORMAT csv, ENCODING ''UTF8'')",
            (false, RowFormat::Csv) => " (FORMAT csv)",
            (true, _) => " (ENCODING ''UTF8'')",
            (false, _) => "",
        };
        let generated = if self.has_generated { " AND attgenerated = ''" } else { "" };
        let (oid, path) = (unit.table, self.quoted_out(&format!("{number}.rows")));
        let print = match unit.part.condition() {
            None => format!("EXECUTE 'COPY ' || {oid}::regclass || ' TO ''{path}''{options}';"),
            Some(condition) => format!(
                "SELECT pg_catalog.string_agg(pg_catalog.quote_ident(attname), ',' ORDER BY attnum) INTO c FROM pg_attribute WHERE attrelid = {oid} AND \
                 attnum > 0 AND NOT attisdropped{generated}; \
                 EXECUTE 'COPY (SELECT ' || coalesce(c, '') || ' FROM ONLY ' || {oid}::regclass || ' WHERE {condition}) TO ''{path}''{options}';"
            ),
        };
        let begin = format!("DO $x$ BEGIN {}; END $x$", copy("(SELECT 1)", format!("{number}.begin")));
        let done = copy("(SELECT 1)", format!("{number}.done"));
        [begin, format!("DO $x$ DECLARE c text; BEGIN {print} {done}; END $x$")]
    }

    /// Prints units, each into a file of its own; `None` for one that the server does not print.
    fn attempt(&mut self, units: &[Unit], first_number: usize) -> Result<Vec<Option<String>>, RebuildError> {
        let mut results: Vec<Option<String>> = vec![None; units.len()];
        let mut from = 0;
        while from < units.len() {
            let numbered = || units.iter().enumerate().skip(from);
            let statements: Vec<String> = numbered()
                .flat_map(|(index, unit)| self.statements(first_number.saturating_add(index), unit))
                .collect();
            self.run(&statements)?;
            let mut next = from;
            for (index, _) in units.iter().enumerate().skip(from) {
                let number = first_number.saturating_add(index);
                if self.out(&format!("{number}.begin")).is_none() {
                    break;
                }
                next = index.saturating_add(1);
                if self.out(&format!("{number}.done")).is_some()
                    && let Some(result) = results.get_mut(index)
                {
                    *result = Some(format!("{number}.rows"));
                }
            }
            if next == from {
                // The server does not even begin.
                break;
            }
            from = next;
        }
        Ok(results)
    }

    /// Prints all rows of tables. `counts`: rows on each page of the table of a unit. Calls `take` with each file in the order of
    /// the rows, and `lost` with each single row that the server does not print.
    pub fn print(
        &mut self,
        tables: &[(Oid, Vec<u16>)],
        take: &mut dyn FnMut(usize, ReadFile) -> Result<(), RebuildError>,
        lost: &mut dyn FnMut(usize, u32, u16),
    ) -> Result<(), RebuildError> {
        let units: Vec<Unit> = tables.iter().map(|(table, _)| Unit { table: *table, part: Part::All }).collect();
        let mut number = units.len();
        let printed = self.attempt(&units, 0)?;
        for (index, (unit, name)) in units.iter().zip(printed).enumerate() {
            let counts = tables.get(index).map(|(_, counts)| counts.as_slice()).unwrap_or_default();
            if let Some(file) = name.as_deref().and_then(|name| self.out(name)) {
                take(index, file)?;
                self.discard(name.as_deref())?;
                continue;
            }
            let runs = self.runs;
            let mut found: Vec<(Part, Option<String>)> = vec![(unit.part.clone(), None)];
            while let Some(at) =
                found.iter().position(|(part, name)| name.is_none() && !part.divided(counts).is_empty())
            {
                if self.runs.saturating_sub(runs) > MAX_RUNS {
                    break;
                }
                // All parts that failed are divided at once, so that a start of the server serves them all.
                let mut next: Vec<(Part, Option<String>)> = found.drain(..at).collect();
                let mut asked = Vec::new();
                for (part, name) in found.drain(..) {
                    let parts = if name.is_none() { part.divided(counts) } else { Vec::new() };
                    if parts.is_empty() {
                        next.push((part, name));
                    }
                    for part in parts {
                        asked.push((next.len(), Unit { table: unit.table, part: part.clone() }));
                        next.push((part, None));
                    }
                }
                let units: Vec<Unit> = asked.iter().map(|(_, unit)| unit.clone()).collect();
                let results = self.attempt(&units, number)?;
                number = number.saturating_add(units.len());
                for ((at, _), name) in asked.iter().zip(results) {
                    if let Some(entry) = next.get_mut(*at) {
                        entry.1 = name;
                    }
                }
                found = next;
            }
            for (part, name) in found {
                match name.as_deref().and_then(|name| self.out(name)) {
                    Some(file) => take(index, file)?,
                    None => each_row(&part, counts, &mut |page, item| lost(index, page, item)),
                }
                self.discard(name.as_deref())?;
            }
        }
        Ok(())
    }

    /// Removes what was taken, so that the sandbox needs no more room than what is printed at once.
    fn discard(&self, name: Option<&str>) -> Result<(), AccessError> {
        name.map_or(Ok(()), |name| self.run.remove_out(name))
    }
}

fn each_row(part: &Part, counts: &[u16], show: &mut dyn FnMut(u32, u16)) {
    let pages = match part {
        Part::All => 0..u32::try_from(counts.len()).unwrap_or(u32::MAX),
        Part::Pages(range) => range.clone(),
        Part::Items(page, items) => return items.clone().for_each(|item| show(*page, item)),
    };
    for page in pages {
        let count = usize::try_from(page).ok().and_then(|page| counts.get(page)).copied().unwrap_or_default();
        (1..=count).for_each(|item| show(page, item));
    }
}

fn text_of(field: &[u8]) -> Option<String> {
    Some(String::from_utf8_lossy(&unescaped(field)?).into_owned())
}

/// A value of COPY text (`copyto.c`); `None` for NULL.
pub(crate) fn unescaped(field: &[u8]) -> Option<Vec<u8>> {
    if field == b"\\N" {
        return None;
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'b' => 8,
                b'f' => 12,
                b'v' => 11,
                other => *other,
            },
            other => *other,
        });
    }
    Some(bytes)
}
