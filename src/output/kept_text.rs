//! What keeps the segments of `pg_wal`, as a table, a line, and metrics of Prometheus.

use std::io::{self, Write};

use super::figures::{size, size_words};
use super::kept_words::{drop_command, keeper_words, release_words};
use super::prometheus::{family, label_set};
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped, wrapping};
use crate::analysis::plan::kept::{Keeper, Kept, KeptWal};

/// Writes all that keeps segments. `ready_since`: when the archiver stopped, in words.
pub(crate) fn write_kept(
    out: &mut dyn Write,
    layout: Layout,
    wal: &KeptWal,
    ready_since: Option<&str>,
) -> io::Result<()> {
    let last = wal.last.as_ref().map_or_else(String::new, |last| format!(", written up to {last}"));
    let heading = format!("pg_wal: {} segments, {}{last}", wal.segments, size_words(wal.bytes));
    for line in textwrap::wrap(&heading, wrapping(usize::from(layout.width))) {
        writeln!(out, "{}", layout.paint.heading(&line))?;
    }
    writeln!(out)?;
    let mut table = plain_table(&["kept by", "keeps", "alone", "back", "oldest segment"]);
    for row in &wal.rows {
        let mut who = keeper_words(&row.keeper);
        if row.keeper == Keeper::Archiver {
            who.push_str(&format!(", {} segments{}", row.segments, since(ready_since)));
        }
        table.add_row([
            who,
            size(row.bytes),
            size(row.alone_bytes),
            row.back_bytes.map(size).unwrap_or_default(),
            row.oldest.clone().unwrap_or_default(),
        ]);
    }
    write_fitted(out, layout, table, &Fit::default().numbers(1..4))?;
    writeln!(out, "\nTo let go")?;
    for row in &wal.rows {
        wrapped(out, layout, "  ", 4, &format!("{}: {}", keeper_words(&row.keeper), release_words(&row.keeper)))?;
        if let Keeper::Slot { name, is_temporary: false, .. } = &row.keeper {
            writeln!(out, "    {}", drop_command(name))?;
        }
    }
    writeln!(out)?;
    let words = "alone: what nothing else keeps, so that it goes at the next checkpoint once this lets go. back: from the oldest \
        WAL that is needed to the end of the last segment";
    wrapped(out, layout, "", 0, words)
}

fn since(ready_since: Option<&str>) -> String {
    ready_since.map_or_else(String::new, |time| format!(" since {time}"))
}

/// Writes metrics for Prometheus.
pub(crate) fn write_kept_metrics(out: &mut dyn Write, wal: &KeptWal) -> io::Result<()> {
    let labels = |row: &Kept| match &row.keeper {
        Keeper::Slot { name, .. } => label_set(&[("keeper", "slot".into()), ("slot", name.as_str().into())]),
        other => label_set(&[("keeper", other.code().into())]),
    };
    let of = |value: &dyn Fn(&Kept) -> Option<u64>| -> Vec<(String, String)> {
        wal.rows.iter().filter_map(|row| Some((labels(row), value(row)?.to_string()))).collect()
    };
    family(out, "pg_wal_bytes", "Bytes of segment files in pg_wal", &[(String::new(), wal.bytes.to_string())])?;
    family(out, "kept_bytes", "Bytes of segment files that this keeps", &of(&|row| Some(row.bytes)))?;
    let alone = of(&|row| Some(row.alone_bytes));
    family(out, "kept_alone_bytes", "Bytes of segment files that nothing else keeps", &alone)?;
    let back = of(&|row| row.back_bytes);
    family(out, "kept_back_bytes", "Bytes from the oldest WAL that this needs to the end of the last segment", &back)
}
