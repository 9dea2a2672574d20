//! Everything about one page as text: for the command, and for what the screen exports.

use std::io::{self, Write};

use super::check_text::write_evidence;
use super::documents::{JudgedCluster, events_of};
use super::page_rows::{RowsOf, write_rows};
use super::page_text::{version_title, write_difference, write_headers, write_history, write_items};
use super::text::Layout;
use crate::analysis::verdict::fetch::{PageVersion, VersionOf};
use crate::analysis::verdict::survey::PageReport;

/// Writes evidence and verdict, the page on disk beside its images, its rows against those of each image where they are
/// given, and its records in WAL. `hex`: also the bytes that differ.
pub(crate) fn write_page_text(
    out: &mut dyn Write,
    layout: Layout,
    (cluster, title): (JudgedCluster<'_>, &str),
    found: &PageReport,
    versions: &[PageVersion],
    rows: &[RowsOf<'_>],
    hex: bool,
) -> io::Result<()> {
    let page = found.page;
    write_evidence(out, layout, found, title)?;
    if !versions.is_empty() {
        write_headers(out, layout, page, versions)?;
        write_items(out, layout, page, versions)?;
    }
    let disk_first = versions.split_first().filter(|(first, _)| first.of == VersionOf::Disk);
    for (index, of) in rows.iter().enumerate() {
        let title = match disk_first {
            Some((_, images)) => images.get(index).map_or("Rows on disk".to_owned(), |image| {
                format!("Rows on disk compared with {}", version_title(image))
            }),
            None => versions.get(index).map_or_else(String::new, |image| format!("Rows of {}", version_title(image))),
        };
        write_rows(out, layout, &title, of)?;
    }
    if let Some((disk, images)) = disk_first {
        for image in images {
            write_difference(out, layout, disk, image, hex)?;
        }
    }
    let report = cluster.report;
    write_history(out, layout, events_of(report, page), report.history.major, report.replay.redo_lsn)
}
