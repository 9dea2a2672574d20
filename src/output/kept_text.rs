//! What keeps the segments of `pg_wal`, as a table, a line, and metrics of Prometheus.

use std::io::{self, Write};

use super::escape::printable;
use super::figures::{size, size_words};
use super::prometheus::{family, label_set};
use super::table::{Fit, plain_table, write_fitted};
use super::text::{Layout, wrapped, wrapping};
use crate::analysis::wal::kept::{Keeper, Kept, KeptWal};

/// Who keeps segments.
pub(crate) fn keeper_words(keeper: &Keeper) -> String {
    match keeper {
        Keeper::Checkpoint => "recovery from the last checkpoint".to_owned(),
        Keeper::Slot { name, is_logical, is_temporary, is_invalidated } => {
            let kind = if *is_logical { "logical" } else { "physical" };
            let temporary = if *is_temporary { ", temporary" } else { "" };
            let invalidated = if *is_invalidated { ", invalidated" } else { "" };
            format!("slot {} ({kind}{temporary}{invalidated})", printable(name))
        }
        Keeper::Archiver => "archiver (.ready)".to_owned(),
        Keeper::KeepSize => "wal_keep_size".to_owned(),
        Keeper::Summarizer => "WAL summarizer".to_owned(),
        Keeper::Recycled => "kept for reuse".to_owned(),
        Keeper::Nothing => "nothing".to_owned(),
    }
}

/// What makes it let go.
pub(crate) fn release_words(keeper: &Keeper) -> String {
    match keeper {
        Keeper::Checkpoint => "CHECKPOINT".to_owned(),
        Keeper::Slot { is_invalidated: true, .. } => "holds nothing; drop it".to_owned(),
        Keeper::Slot { name, is_temporary: true, .. } => format!("end the session that made slot {}", printable(name)),
        Keeper::Slot { .. } => {
            "let its consumer catch up; drop it only if pg_replication_slots shows active = f and no consumer needs it"
                .to_owned()
        }
        Keeper::Archiver => "make archive_command succeed: see pg_stat_archiver and the server log".to_owned(),
        Keeper::KeepSize => "set a lower wal_keep_size, reload, CHECKPOINT".to_owned(),
        Keeper::Summarizer => "let the summarizer catch up, or set summarize_wal = off".to_owned(),
        Keeper::Recycled => "set a lower min_wal_size; a few go with each checkpoint".to_owned(),
        Keeper::Nothing => "CHECKPOINT".to_owned(),
    }
}

fn drop_command(slot: &str) -> String {
    format!("SELECT pg_drop_replication_slot('{}');", printable(slot).replace('\'', "''"))
}

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

/// What keeps most of `pg_wal`, in one sentence.
pub(crate) fn kept_sentence(wal: &KeptWal) -> String {
    let all = format!("pg_wal has {} segments, {}", wal.segments, size_words(wal.bytes));
    match most(wal) {
        Some(row) => {
            let alone = size_words(row.alone_bytes);
            let what = match &row.keeper {
                Keeper::Nothing => format!("nothing keeps {alone} of it, which goes at the next checkpoint"),
                keeper => format!("{alone} for {} alone", keeper_words(keeper)),
            };
            format!("{all}: {what}. pg_walfpi kept shows all")
        }
        None if wal.rows.iter().any(|row| row.keeper != Keeper::Recycled && row.bytes > 0) => {
            let keepers = wal.rows.iter().filter(|row| row.keeper != Keeper::Recycled && row.bytes > 0);
            let names: Vec<String> = keepers.map(|row| keeper_words(&row.keeper)).collect();
            format!(
                "{all}, kept by {}; each old one by more than one of them. pg_walfpi kept shows all",
                names.join(", ")
            )
        }
        None => all,
    }
}

/// What keeps most alone, where anything does.
pub(crate) fn most(wal: &KeptWal) -> Option<&Kept> {
    wal.rows.iter().find(|row| row.alone_bytes > 0 && row.keeper != Keeper::Recycled)
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
