//! Words for salvaged rows: a table for people, `tables.csv`, `report.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
#[cfg(feature = "tables")]
use std::io::{self, Write};

use super::escape::printable;
#[cfg(feature = "tables")]
use super::table::{plain_table, right_align, write_table};
use crate::analysis::verdict::answer::Answer;
use crate::salvage::{Beforehand, BetterWay, NotSalvaged, SalvageReport, TableReport, Why};

/// Names of the columns of `tables.csv`.
const TABLE_COLUMNS: [&str; 17] = [
    "database",
    "schema",
    "table",
    "rows_file",
    "uncertain_file",
    "deleted_file",
    "rows",
    "uncertain",
    "deleted",
    "pages",
    "pages_lost",
    "toast_lost",
    "rejected_tuples",
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
            Self::NoFile => f.pad("pg_class has no file for it"),
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
        Why::Carved => "found without a line pointer",
        Why::PageBehindWal => "WAL changes rows of their page, and its records could not be applied to it",
        Why::GuessedColumns => "the type of a column is a guess",
        Why::NotInEncoding => "their text is not in the encoding of the database",
    }
}

/// The answer for the exit status: something uncertain, something missing, or neither.
#[must_use]
pub fn answer(report: &SalvageReport) -> Answer {
    let is_uncertain = |table: &TableReport| {
        table.uncertain > 0 || table.problem.is_some() || table.is_guessed || table.unreadable > 0
    };
    let is_missing =
        |table: &TableReport| !table.lost_pages.is_empty() || table.toast_lost > 0 || table.not_printed > 0;
    // Of no table at all nothing is known: its catalogs may be lost.
    if report.tables.is_empty() || report.tables.iter().any(is_uncertain) || !report.skipped.is_empty() {
        Answer::Uncertain
    } else if report.tables.iter().any(is_missing) {
        Answer::Wrong
    } else {
        Answer::Fine
    }
}

fn rejected(table: &TableReport) -> u64 {
    table.lost_pages.iter().map(|(_, _, rejected)| *rejected).sum()
}

/// A line for each table.
#[must_use]
pub fn tables_csv(report: &SalvageReport) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer.write_record(TABLE_COLUMNS).and_then(|()| {
        report.tables.iter().try_for_each(|table| {
            let [rows, uncertain, deleted] = table
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
                rejected(table),
                table.not_printed,
                table.unreadable,
            ];
            let mut fields =
                vec![table.database.clone(), table.schema.clone(), table.name.clone(), rows, uncertain, deleted];
            fields.extend(numbers.map(|number| number.to_string()));
            fields.push(table.is_guessed.to_string());
            fields.push(table.problem.as_ref().map_or_else(String::new, ToString::to_string));
            writer.write_record(fields)
        })
    });
    // Nothing that is written into memory fails.
    written.ok().and_then(|()| writer.into_inner().ok()).unwrap_or_default()
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

/// Limits without checksums.
const NO_CHECKSUMS: &str = "The cluster has no data checksums: a changed byte inside a value cannot be seen.";

/// Limits without WAL.
const NO_WAL: &str =
    "WAL since the last checkpoint is missing or incomplete: tables are as they were last written to disk.";

const NO_TABLES: &str =
    "No table was found: --table or --database match none, or the catalogs are lost (pass --schema or --donor).";

/// The report as a document.
#[must_use]
pub fn report_markdown(report: &SalvageReport) -> String {
    let [rows, uncertain, deleted] = totals(report);
    let mut text = format!(
        "# Salvaged rows\n\nPostgreSQL {}. {rows} rows, {uncertain} uncertain, {deleted} deleted.\n",
        report.major.number()
    );
    if !report.has_checksums {
        text.push_str(&format!("\n{NO_CHECKSUMS}\n"));
    }
    if !report.has_wal {
        text.push_str(&format!("\n{NO_WAL}\n"));
    }
    if report.tables.is_empty() {
        text.push_str(&format!("\n{NO_TABLES}\n"));
    }
    let whys = all_whys(report);
    if !whys.is_empty() {
        text.push_str("\n## Uncertain rows\n\n| why | rows | meaning |\n|---|--:|---|\n");
        for (why, count) in whys {
            writeln!(text, "| `{}` | {count} | {} |", why.code(), why_words(why)).unwrap_or_default();
        }
    }
    text.push_str("\n## Tables\n\n| table | rows | uncertain | deleted | pages | pages with losses | TOAST values lost | problem |\n|---|--:|--:|--:|--:|--:|--:|---|\n");
    for table in &report.tables {
        let problem = table.problem.as_ref().map_or_else(String::new, ToString::to_string);
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            full_name(table).replace('|', "\\|"),
            table.rows,
            table.uncertain,
            table.deleted,
            table.pages,
            table.lost_pages.len(),
            table.toast_lost,
            problem.replace('|', "\\|")
        )
        .unwrap_or_default();
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
///
/// # Errors
/// When the output cannot be written to.
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
///
/// # Errors
/// When the output cannot be written to.
#[cfg(feature = "tables")]
pub fn write_salvage(out: &mut dyn Write, report: &SalvageReport) -> io::Result<()> {
    let [rows, uncertain, deleted] = totals(report);
    if report.may_start {
        writeln!(out, "{MAY_START}")?;
    }
    writeln!(out, "{rows} rows, {uncertain} uncertain, {deleted} deleted, in {} tables", report.tables.len())?;
    if report.tables.is_empty() {
        writeln!(out, "{NO_TABLES}")?;
    }
    if !report.has_checksums {
        writeln!(out, "{NO_CHECKSUMS}")?;
    }
    if !report.has_wal {
        writeln!(out, "{NO_WAL}")?;
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
    for skipped in &report.skipped {
        writeln!(out, "  not checked: {}", printable(skipped))?;
    }
    Ok(())
}
