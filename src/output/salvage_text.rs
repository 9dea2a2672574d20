//! Words for salvaged rows: a table for people, `tables.csv`, `report.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use serde_json::json;

use super::closing::{Closing, begin};
use super::escape::printable;
use super::json::Item;
use super::json::salvage::SALVAGED_TABLE_COLUMNS;
use super::sink::{CsvShape, Machine};
#[cfg(feature = "tables")]
use super::table::{plain_table, right_align, write_table};
use crate::analysis::skipped::Coverage;
use crate::analysis::verdict::answer::Answer;
#[cfg(feature = "tables")]
use crate::salvage::{Beforehand, BetterWay};
use crate::salvage::{NotSalvaged, SalvageReport, TableReport, UnnamedFile, WalTrust, Why};

/// Names of the columns of `tables.csv`.
const TABLE_COLUMNS: [&str; 19] = [
    "database",
    "schema",
    "table",
    "rows_file",
    "uncertain_file",
    "deleted_file",
    "missing_file",
    "rows",
    "uncertain",
    "deleted",
    "pages",
    "pages_lost",
    "toast_lost",
    "rejected_tuples",
    "missing_keys",
    "not_printed",
    "unreadable_files",
    "guessed_columns",
    "problem",
];

/// A name from a catalog, safe for a terminal.
fn shown(name: &[u8]) -> String {
    printable(&String::from_utf8_lossy(name))
}

fn full_name(table: &TableReport) -> String {
    printable(&format!("{}.{}.{}", table.database, table.schema, table.name))
}

impl std::fmt::Display for NotSalvaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ColumnsLost(names) if names.is_empty() => f.pad("no row of pg_attribute about its columns is left"),
            Self::ColumnsLost(names) => {
                let names: Vec<String> = names.iter().map(|name| shown(name)).collect();
                f.pad(&format!("types of columns are lost: {}; pass --schema", names.join(", ")))
            }
            Self::TypeLost => f.pad("the type of a column is lost, and none of its length is known; pass --schema"),
            Self::NoFile => f.pad("its file is not in the catalogs"),
            Self::FileMissing => f.pad("its file is missing"),
        }
    }
}

const fn why_words(why: Why) -> &'static str {
    match why {
        Why::NoPgXact => "pg_xact does not show whether their insertion was committed",
        Why::DeleterUnknown => "pg_xact does not show whether their deletion was committed",
        Why::MultixactUnknown => "the multixact that may have deleted them is lost",
        Why::DeleterPrepared => "a prepared transaction deleted them",
        Why::InserterPrepared => "a prepared transaction inserted them",
        Why::OpenAndWalMissing => "pg_xact has no end of their transaction, and WAL is missing",
        Why::PageChecksum => "the checksum of a page is wrong",
        Why::PageOfOtherTable => "other tuples of their page do not fit the columns of the table",
        Why::Carved => "found without a line pointer",
        Why::PageBehindWal => "WAL changes rows of their page, and its records could not be applied to it",
        Why::GuessedColumns => "the type of a column is a guess",
        Why::WalMayBeForeign => "they or their transaction rest on WAL that may belong to another cluster",
        Why::PageNotInWal => "WAL has no record that ends at the LSN of their page",
        Why::NotInEncoding => "their text is not in the encoding of the database",
    }
}

/// The answer for the exit status: something uncertain, something missing, or neither.
pub fn answer(report: &SalvageReport) -> Answer {
    let is_uncertain = |table: &TableReport| {
        table.uncertain > 0 || table.problem.is_some() || table.is_guessed || table.unreadable > 0
    };
    let is_missing = |table: &TableReport| {
        !table.lost_pages.is_empty() || table.missing_keys > 0 || table.toast_lost > 0 || table.not_printed > 0
    };
    // Of no table at all nothing is known: its catalogs may be lost.
    let is_partial =
        report.tables.is_empty() || !report.has_wal || !report.skipped.is_empty() || !report.unnamed.is_empty();
    if is_partial || report.tables.iter().any(is_uncertain) {
        Answer::Uncertain
    } else if report.tables.iter().any(is_missing) {
        Answer::Wrong
    } else {
        Answer::Fine
    }
}

/// A line for each table.
pub fn tables_csv(report: &SalvageReport) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer.write_record(TABLE_COLUMNS).and_then(|()| {
        report.tables.iter().try_for_each(|table| {
            let files = table
                .files
                .each_ref()
                .map(|file| file.as_ref().map_or_else(String::new, |path| path.display().to_string()));
            let numbers = [
                table.rows,
                table.uncertain,
                table.deleted,
                table.pages,
                table.lost_pages.len() as u64,
                table.toast_lost,
                table.rejected(),
                table.missing_keys,
                table.not_printed,
                table.unreadable,
            ];
            let mut fields = vec![table.database.clone(), table.schema.clone(), table.name.clone()];
            fields.extend(files);
            fields.extend(numbers.map(|number| number.to_string()));
            fields.push(table.is_guessed.to_string());
            fields.push(table.problem.as_ref().map_or_else(String::new, ToString::to_string));
            writer.write_record(fields)
        })
    });
    // Nothing that is written into memory fails.
    written.ok().and_then(|()| writer.into_inner().ok()).unwrap_or_default()
}

/// Writes the report for programs.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_salvage_machine(
    out: &mut dyn Write,
    (format, path): (Machine, &Path),
    report: &SalvageReport,
) -> io::Result<Answer> {
    let shape = CsvShape::Rows { plural: "salvaged_tables", columns: SALVAGED_TABLE_COLUMNS };
    let mut sink = begin(format, shape, out, ("pg_dwbinspect", "salvage"), vec![path.display().to_string()])?;
    for table in &report.tables {
        sink.item(&Item::SalvagedTable(Box::new(table.into())))?;
    }
    for file in &report.unnamed {
        sink.item(&Item::UnnamedFile(file.into()))?;
    }
    let [rows, uncertain, deleted] = totals(report);
    let fields = json!({
        "rows": rows,
        "uncertain": uncertain,
        "deleted": deleted,
        "major": report.major.number(),
        "has_checksums": report.has_checksums,
        "has_wal": report.has_wal,
        "wal_trust": report.wal_trust.code(),
        "not_listed": report.skipped.len(),
    });
    let fields = fields.as_object().cloned().unwrap_or_default();
    let closing = Closing::new(Vec::new(), &Coverage::default()).answering(answer(report));
    closing.end(sink, report.tables.len() as u64, fields)
}

fn unnamed_words(file: &UnnamedFile) -> String {
    printable(&format!("{}: {} ({} bytes)", file.database, file.path, file.bytes))
}

fn totals(report: &SalvageReport) -> [u64; 3] {
    report.tables.iter().fold([0; 3], |[rows, uncertain, deleted], table| {
        [
            rows.saturating_add(table.rows),
            uncertain.saturating_add(table.uncertain),
            deleted.saturating_add(table.deleted),
        ]
    })
}

fn all_whys(report: &SalvageReport) -> BTreeMap<Why, u64> {
    let mut whys: BTreeMap<Why, u64> = BTreeMap::new();
    for (why, count) in report.tables.iter().flat_map(|table| &table.whys) {
        let sum = whys.entry(*why).or_default();
        *sum = sum.saturating_add(*count);
    }
    whys
}

/// Heading of files without a name.
const UNNAMED: &str = "Files that no catalog names";

/// Files without a name that are listed.
#[cfg(feature = "tables")]
const MAX_UNNAMED: usize = 20;

/// Limits without checksums.
const NO_CHECKSUMS: &str = "The cluster has no data checksums: a changed byte inside a value cannot be seen.";

/// Limits without WAL.
const NO_WAL: &str =
    "WAL since the last checkpoint is missing or incomplete: tables are as they were last written to disk.";

/// Limits by WAL that may not belong to the pages.
const fn wal_limit(trust: WalTrust) -> Option<&'static str> {
    match trust {
        WalTrust::Missing | WalTrust::Proven => None,
        WalTrust::Likely => Some(
            "pg_control is lost, and pages do not prove that WAL belongs to them: rows that rest on WAL are uncertain.",
        ),
        WalTrust::Unproven => {
            Some("pg_control is lost, and no page shows that WAL belongs to this cluster: it was not applied.")
        }
        WalTrust::Contradicted => {
            Some("Pages contradict WAL: it belongs to another cluster or another time, and was not applied.")
        }
    }
}

/// Sentences about the whole: what cannot be seen, and why.
fn limits(report: &SalvageReport) -> impl Iterator<Item = &'static str> {
    let checksums = (!report.has_checksums).then_some(NO_CHECKSUMS);
    let wal = (!report.has_wal).then_some(NO_WAL);
    let none = report.tables.is_empty().then_some(NO_TABLES);
    [none, checksums, wal, wal_limit(report.wal_trust)].into_iter().flatten()
}

const NO_TABLES: &str = "No table was found: --table, --database or --like match none, or the catalogs are lost (pass --schema or --donor).";

/// The report as a document.
pub fn report_markdown(report: &SalvageReport) -> String {
    let [rows, uncertain, deleted] = totals(report);
    let mut text = format!(
        "# Salvaged rows\n\nPostgreSQL {}. {rows} rows, {uncertain} uncertain, {deleted} deleted.\n",
        report.major.number()
    );
    limits(report).for_each(|limit| text.push_str(&format!("\n{limit}\n")));
    let whys = all_whys(report);
    if !whys.is_empty() {
        text.push_str("\n## Uncertain rows\n\n| why | rows | meaning |\n|---|--:|---|\n");
        for (why, count) in whys {
            writeln!(text, "| `{}` | {count} | {} |", why.code(), why_words(why)).unwrap_or_default();
        }
    }
    text.push_str("\n## Tables\n\n| table | rows | uncertain | deleted | pages | pages with losses | keys of lost rows | TOAST values lost | problem |\n|---|--:|--:|--:|--:|--:|--:|--:|---|\n");
    for table in &report.tables {
        let problem = table.problem.as_ref().map_or_else(String::new, ToString::to_string);
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            full_name(table).replace('|', "\\|"),
            table.rows,
            table.uncertain,
            table.deleted,
            table.pages,
            table.lost_pages.len(),
            table.missing_keys,
            table.toast_lost,
            problem.replace('|', "\\|")
        )
        .unwrap_or_default();
    }
    if !report.unnamed.is_empty() {
        writeln!(text, "\n## {UNNAMED}\n").unwrap_or_default();
    }
    for file in &report.unnamed {
        writeln!(text, "- {}", unnamed_words(file)).unwrap_or_default();
    }
    for skipped in &report.skipped {
        writeln!(text, "\nNot checked: {}", printable(skipped)).unwrap_or_default();
    }
    text
}

/// Another way may lose less.
const MAY_START: &str =
    "pg_control is intact: startup, or a repair first, may lose less. Run pg_dwbinspect check on a copy.";

/// Writes better way and room.
#[cfg(feature = "tables")]
pub fn write_beforehand(out: &mut dyn Write, known: &Beforehand) -> io::Result<()> {
    match known.better {
        Some(BetterWay::Start) => {
            writeln!(
                out,
                "check predicts that the server starts, and finds no damaged page: start a copy first, that loses less."
            )?;
        }
        Some(BetterWay::Repair { proven, damaged }) => writeln!(
            out,
            "repair has proven images for {proven} of {damaged} damaged pages: run it on a copy first, that loses less."
        )?,
        Some(BetterWay::Perhaps) => writeln!(out, "{MAY_START}")?,
        None => {}
    }
    for room in &known.room {
        let directory = printable(&room.directory.display().to_string());
        writeln!(out, "Room in {directory}: about {} bytes needed, {} free", room.needed_bytes, room.available_bytes)?;
    }
    out.flush()
}

/// Writes the report for people.
#[cfg(feature = "tables")]
pub fn write_salvage(out: &mut dyn Write, report: &SalvageReport) -> io::Result<()> {
    let [rows, uncertain, deleted] = totals(report);
    writeln!(out, "{rows} rows, {uncertain} uncertain, {deleted} deleted, in {} tables", report.tables.len())?;
    if report.may_start {
        writeln!(out, "{MAY_START}")?;
    }
    for limit in limits(report) {
        writeln!(out, "{limit}")?;
    }
    let mut table = plain_table(&["table", "rows", "uncertain", "deleted", "pages", "lossy pages", "TOAST lost"]);
    right_align(&mut table, 1..7);
    for found in &report.tables {
        let numbers =
            [found.rows, found.uncertain, found.deleted, found.pages, found.lost_pages.len() as u64, found.toast_lost];
        table.add_row(std::iter::once(full_name(found)).chain(numbers.map(|number| number.to_string())));
    }
    write_table(out, &table)?;
    for (why, count) in all_whys(report) {
        writeln!(out, "  {} ({count}): {}", why.code(), why_words(why))?;
    }
    for table in &report.tables {
        if let Some(problem) = &table.problem {
            writeln!(out, "  {}: {problem}", full_name(table))?;
        }
        if table.not_printed > 0 {
            writeln!(out, "  {}: the server cannot print {} rows", full_name(table), table.not_printed)?;
        }
    }
    if !report.unnamed.is_empty() {
        writeln!(out, "{UNNAMED} (pass --file and --like):")?;
    }
    for file in report.unnamed.iter().take(MAX_UNNAMED) {
        writeln!(out, "  {}", unnamed_words(file))?;
    }
    if report.unnamed.len() > MAX_UNNAMED {
        writeln!(out, "  and {} more; --format json lists all", report.unnamed.len().saturating_sub(MAX_UNNAMED))?;
    }
    for skipped in &report.skipped {
        writeln!(out, "  not checked: {}", printable(skipped))?;
    }
    Ok(())
}
