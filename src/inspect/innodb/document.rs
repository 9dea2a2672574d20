//! What `innodb check` prints of a directory that was examined: the screen exports the same.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use strum::VariantArray;

use super::check::InnodbExamination;
use super::source::InnodbSource;
use crate::analysis::innodb::compare::InnodbComparison;
use crate::analysis::innodb::judge::{HeldImage, InnodbPage};
use crate::analysis::innodb::scan::ScanReport;
use crate::analysis::verdict::answer::Answer;
use crate::output::closing::{Closing, begin};
use crate::output::innodb_text::{
    NOT_PREDICTED, write_held, write_innodb_page, write_instance, write_judged, write_scanned,
};
use crate::output::json::Item;
use crate::output::json::innodb::{INNODB_PAGE_COLUMNS, SlotSetting, innodb_lsn_text};
use crate::output::sink::{CsvShape, Machine};
use crate::output::text::Layout;

impl InnodbSource {
    /// What slots and pages are shown by.
    #[must_use]
    pub fn setting(&self) -> SlotSetting<'_> {
        SlotSetting { doublewrite: &self.doublewrite, spaces: &self.spaces, checkpoint: self.checkpoint() }
    }
}

/// Writes an examination for programs. `tool`: the name of the program, `shown`: the path as it was given.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_check(
    out: &mut dyn Write,
    format: Machine,
    (tool, shown): (&'static str, &str),
    examined: &InnodbExamination,
    closing: Closing,
) -> io::Result<Answer> {
    let shape = CsvShape::Rows { plural: "pages", columns: INNODB_PAGE_COLUMNS };
    let mut sink = begin(format, shape, out, (tool, "innodb check"), vec![shown.to_owned()])?;
    let setting = examined.source.setting();
    let mut count = 0;
    for page in examined.pages.iter().chain(&examined.whole) {
        sink.item(&Item::Page(setting.page_row(page)))?;
        count += 1;
    }
    closing.end(sink, count, fields(examined))
}

/// Writes an examination for people. `explain`: with the evidence for every page.
///
/// # Errors
/// When the output cannot be written to.
pub fn write_check_text(
    out: &mut dyn Write,
    layout: Layout,
    shown: &str,
    examined: &InnodbExamination,
    explain: bool,
    closing: &Closing,
) -> io::Result<()> {
    let source = &examined.source;
    let pages: Vec<&InnodbPage> = examined.pages.iter().chain(&examined.whole).collect();
    let buffer = (&source.doublewrite, examined.content.counts.as_slice());
    write_instance(out, layout, shown, (source.family, &source.log), buffer, &source.spaces)?;
    writeln!(out)?;
    write_scanned(out, layout, &examined.scan.counts)?;
    write_judged(out, layout, source.setting(), &pages)?;
    if explain {
        for page in &pages {
            write_innodb_page(out, layout, source.setting(), page)?;
        }
    }
    closing.write_text(out, layout)?;
    write_held(out, layout, &pages, (examined.end, examined.is_shut_down()))
}

/// Fields of the last line of machine formats.
fn fields(examined: &InnodbExamination) -> Map<String, Value> {
    let holds: Map<String, Value> =
        HeldImage::VARIANTS.iter().map(|held| (held.name().to_owned(), json!(examined.count(*held)))).collect();
    let by_word = |word: InnodbComparison| {
        let all = examined.pages.iter().chain(&examined.whole);
        all.filter(|page| page.disk == word).count()
    };
    let words: Map<String, Value> =
        InnodbComparison::VARIANTS.iter().map(|word| (word.name().to_owned(), json!(by_word(*word)))).collect();
    let source = &examined.source;
    let mut fields = scan_fields(&examined.scan);
    for (name, value) in [
        ("family", json!(source.family.name())),
        ("checkpoint_lsn", json!(source.checkpoint().map(innodb_lsn_text))),
        ("end_lsn", json!(examined.end.map(|end| innodb_lsn_text(end.lsn)))),
        ("shut_down_cleanly", json!(examined.is_shut_down())),
        ("holds", Value::Object(holds)),
        ("disk", Value::Object(words)),
        ("startup", json!(NOT_PREDICTED)),
    ] {
        fields.insert(name.to_owned(), value);
    }
    fields
}

/// What a scan read, for the last line of machine formats.
#[must_use]
pub fn scan_fields(scan: &ScanReport) -> Map<String, Value> {
    let counts = &scan.counts;
    let algorithms: Map<String, Value> =
        counts.algorithms.iter().map(|(algorithm, count)| (algorithm.name().to_owned(), json!(count))).collect();
    let types: Map<String, Value> =
        counts.by_type_name().into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    let unverifiable = counts.unverifiable.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    [
        ("pages", json!(counts.pages)),
        ("bytes", json!(counts.bytes)),
        ("sound", json!(counts.sound)),
        ("zeroed", json!(counts.empty)),
        ("damaged", json!(counts.damaged)),
        ("unverifiable", json!(unverifiable)),
        ("doublewrite_pages", json!(counts.slots)),
        ("algorithms", Value::Object(algorithms)),
        ("page_types", Value::Object(types)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
