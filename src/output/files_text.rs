//! Files of a double write buffer as a table.

use std::io::{self, Write};

use super::escape::printable;
use super::json::FileJson;
use super::table::{plain_table, right_align, write_table};

/// Content of each file, a row each.
pub(crate) fn write_files(out: &mut dyn Write, files: &[FileJson]) -> io::Result<()> {
    let header = ["file", "layout", "batch", "reset at", "slots", "used", "bad", "current", "stale", "undecided"];
    let mut table = plain_table(&header);
    for file in files {
        let unknown = if file.header == "good" { "-" } else { "header bad" };
        table.add_row(vec![
            printable(&file.file),
            if file.layout_by == "guess" { format!("{}?", file.layout) } else { file.layout.to_owned() },
            file.batch_id.clone().unwrap_or_else(|| "-".to_owned()),
            file.checkpoint_lsn.clone().unwrap_or_else(|| unknown.to_owned()),
            file.slots.to_string(),
            file.used.to_string(),
            if file.unverifiable > 0 { "?".to_owned() } else { file.bad.to_string() },
            file.current.to_string(),
            file.stale.to_string(),
            file.undecided.to_string(),
        ]);
    }
    right_align(&mut table, 2..header.len());
    write_table(out, &table)
}
