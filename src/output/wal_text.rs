//! Statistics as tables.

use std::io::{self, Write};

use serde_json::Value;

use super::escape::printable;
use super::json::time_text;
use super::json::wal::{Naming, group_row, stats_columns};
use super::table::{plain_table, right_align, write_table};
use super::text::Layout;
use crate::analysis::wal::group::{GroupBy, Key};
use crate::analysis::wal::interval::{Interval, IntervalKind};
use crate::analysis::wal::tally::Tally;

/// Width from which on a checkpoint row shows everything.
const WIDE: u16 = 130;

/// Width from which on groups show all shares.
const WIDE_GROUPS: u16 = 110;

/// Bars of a sparkline, from nothing to all.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Units of sizes, each 1024 of the one before.
const UNITS: [&str; 5] = ["B", "K", "M", "G", "T"];

/// Writes checkpoint intervals and their total.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_intervals(out: &mut dyn Write, layout: Layout, intervals: &[Interval], total: &Tally) -> io::Result<()> {
    let wide = layout.width >= WIDE;
    let narrow_header = ["redo", "time", "WAL", "records", "images", "stored", "share", "blocks", "decay"];
    let wide_header =
        ["redo", "checkpoint", "time", "kind", "WAL", "records", "images", "stored", "raw", "share", "blocks", "decay"];
    let header: &[&str] = if wide { &wide_header } else { &narrow_header };
    let mut table = plain_table(header);
    for interval in intervals {
        let redo = interval.redo_lsn.map_or_else(|| format!("<{}", interval.start_lsn), |lsn| lsn.to_string());
        let tally = &interval.tally;
        let wal = size(interval.end_lsn.bytes_since(interval.start_lsn).unwrap_or(0));
        let time = interval.checkpoint.map(|seen| time_text(seen.time_s));
        let counts = [tally.records.to_string(), tally.fpi_count.to_string(), size(tally.fpi_bytes)];
        let [records, images, stored] = counts;
        let tail = [percent(tally.fpi_share()), interval.distinct_blocks.to_string(), sparkline(&interval.decay)];
        let [share, blocks, decay] = tail;
        table.add_row(if wide {
            let checkpoint = interval.checkpoint.map_or_else(|| "-".to_owned(), |seen| seen.lsn.to_string());
            let time = time.unwrap_or_else(|| "-".to_owned());
            let kind = interval.kind.name().to_owned();
            vec![
                redo,
                checkpoint,
                time,
                kind,
                wal,
                records,
                images,
                stored,
                size(tally.fpi_raw_bytes),
                share,
                blocks,
                decay,
            ]
        } else {
            let clock = time.as_deref().and_then(|time| time.get(11..19)).map(str::to_owned);
            let time = clock.unwrap_or_else(|| match interval.kind {
                IntervalKind::Unfinished => "no end".to_owned(),
                _ => "-".to_owned(),
            });
            vec![redo, time, wal, records, images, stored, share, blocks, decay]
        });
    }
    let mut sum = vec![
        "total".to_owned(),
        String::new(),
        size(total.combined_bytes()),
        total.records.to_string(),
        total.fpi_count.to_string(),
        size(total.fpi_bytes),
        percent(total.fpi_share()),
    ];
    if wide {
        sum.splice(1..2, [String::new(), String::new(), String::new()]);
        sum.insert(8, size(total.fpi_raw_bytes));
    }
    table.add_row(sum);
    let counts = if wide { 4..11 } else { 2..8 };
    right_align(&mut table, counts);
    write_table(out, &table)
}

/// Writes groups and their total.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_groups(
    out: &mut dyn Write,
    layout: Layout,
    by: GroupBy,
    rows: &[(Key, Tally)],
    total: &Tally,
    naming: &Naming<'_>,
) -> io::Result<()> {
    let wide = layout.width >= WIDE_GROUPS;
    let all = [title(by), "records", "%", "bytes", "%", "images", "image bytes", "%", "together", "%"];
    // On a narrow screen names need the room of the shares, all but the last.
    let shown = |column: usize| wide || ![2, 4, 7].contains(&column);
    let header: Vec<&str> = (0..).zip(all).filter(|(column, _)| shown(*column)).map(|(_, name)| name).collect();
    let mut table = plain_table(&header);
    let mut add = |name: String, tally: &Tally| {
        let of = |part: u64, whole: u64| percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 });
        let cells = [
            name,
            tally.records.to_string(),
            of(tally.records, total.records),
            tally.record_bytes.to_string(),
            of(tally.record_bytes, total.record_bytes),
            tally.fpi_count.to_string(),
            tally.fpi_bytes.to_string(),
            of(tally.fpi_bytes, total.fpi_bytes),
            tally.combined_bytes().to_string(),
            of(tally.combined_bytes(), total.combined_bytes()),
        ];
        let cells = (0..).zip(cells).filter(|(column, _)| shown(*column)).map(|(_, cell)| cell);
        table.add_row(cells.collect::<Vec<_>>());
    };
    for (key, tally) in rows {
        add(name_of(by, key, tally, naming), tally);
    }
    add("total".to_owned(), total);
    right_align(&mut table, 1..header.len());
    write_table(out, &table)
}

const fn title(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Rmgr => "rmgr",
        GroupBy::Record => "record",
        GroupBy::Relation => "relation",
        GroupBy::Fork => "fork",
        GroupBy::Block => "block",
        GroupBy::Database => "database",
        GroupBy::Tablespace => "tablespace",
        GroupBy::Compression => "compression",
        GroupBy::Segment => "segment",
        GroupBy::Cause => "cause",
    }
}

/// Words of a group: what its row says, joined.
#[must_use]
pub fn name_of(by: GroupBy, key: &Key, tally: &Tally, naming: &Naming<'_>) -> String {
    if *key == Key::None {
        return match by {
            GroupBy::Cause | GroupBy::Compression => "(no image)".to_owned(),
            _ => "(no block)".to_owned(),
        };
    }
    let row = group_row(key, tally, naming);
    let keys: Vec<&str> = stats_columns(Some(by)).iter().copied().take_while(|column| *column != "records").collect();
    let named = ["relation", "database"].into_iter().find(|name| row.get(*name).is_some_and(Value::is_string));
    let text = |column: &&str| {
        let hidden = match named {
            Some("relation") => ["spc_oid", "db_oid", "rel_number"].contains(column),
            Some(_) => *column == "db_oid",
            None => *column == "relation" || *column == "database",
        };
        match row.get(*column) {
            Some(Value::String(text)) if !hidden => Some(printable(text)),
            Some(value) if !hidden && !value.is_null() => Some(value.to_string()),
            _ => None,
        }
    };
    let keys: Vec<&str> = keys.into_iter().filter(|column| *column != "timeline").collect();
    keys.iter().filter_map(text).collect::<Vec<_>>().join("/")
}

/// A size in at most 6 characters.
#[must_use]
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { bytes.to_string() } else { format!("{value:.1}{}", UNITS[unit]) }
}

/// A share, 0 to 1, in percent with one decimal.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn sparkline(shares: &[Option<f64>]) -> String {
    let bar = |share: &Option<f64>| match share {
        None => ' ',
        Some(share) => BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)],
    };
    shares.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_short() {
        for (bytes, text) in [(0, "0"), (999, "999"), (1000, "1.0K"), (1 << 20, "1.0M"), (26_907_443, "25.7M")] {
            assert_eq!(size(bytes), text);
        }
        assert!(size(u64::MAX).len() <= 11);
    }

    #[test]
    fn sparkline_shows_nothing_as_a_blank() {
        assert_eq!(sparkline(&[Some(1.0), Some(0.5), Some(0.0), None]), "█▅▁ ");
    }
}
