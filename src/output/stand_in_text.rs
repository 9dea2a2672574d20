//! How to get replay past records that need a page which is missing: commands of every Unix, one a page.

use std::io::{self, Write};
use std::path::PathBuf;

use super::check_text::Label;
use super::escape::{printable, quoted};
use super::text::{Layout, wrapped};
use crate::analysis::verdict::step_risk::StandIn;
use crate::analysis::verdict::survey::PageReport;
use crate::types::{BlockNumber, PageId};

/// Pages that replay needs, each with the command that makes an empty one. `location_of`: the file and
/// the number of the block in it.
pub(crate) fn write_stand_ins(
    out: &mut dyn Write,
    layout: Layout,
    pages: &[PageReport],
    label: Label<'_>,
    location_of: &dyn Fn(PageId) -> (PathBuf, BlockNumber),
) -> io::Result<()> {
    let found: Vec<(PageId, &StandIn)> =
        pages.iter().filter_map(|report| Some((report.page, report.stand_in.as_ref()?))).collect();
    if found.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", layout.paint.heading("Pages that recovery needs"))?;
    let why = "An empty page with the LSN of the end of WAL lets recovery pass: recovery treats all records of the \
        page as applied. A zero-filled page does not help. Keep a copy of the data directory, then run, as the user \
        that owns it:";
    wrapped(out, layout, "  ", 2, why)?;
    for (page, stand_in) in found {
        let after = if stand_in.is_removed {
            "recovery removes it again; no data is lost"
        } else {
            "REINDEX the index at once after the start: what recovery would have put into this page is missing"
        };
        wrapped(out, layout, "  ", 2, &printable(&format!("{}: {after}", label(page))))?;
        let (path, block) = location_of(page);
        writeln!(out, "    {}", printable(&command(stand_in, &path.display().to_string(), block)))?;
    }
    Ok(())
}

/// `printf` gives the header, `dd` fills up with zeros and writes it there.
fn command(stand_in: &StandIn, path: &str, block: BlockNumber) -> String {
    let header: String = stand_in.header.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let (path, bytes) = (quoted(path), stand_in.page_bytes);
    format!("printf '{header}' | dd of={path} bs={bytes} seek={block} conv=notrunc,sync status=none")
}
