//! Damaged pages: all of them in a table, and the first ones each on a sheet with images, proofs, tear map and bytes.

use super::{CrashReport, tone_class};
use crate::analysis::changes::sectors::{SECTOR_BYTES, TearMap, WIDE_SECTOR_BYTES};
use crate::analysis::verdict::evidence::Weight;
use crate::analysis::verdict::survey::PageReport;
use crate::output::check_text::{
    EvidencePart, block_label, evidence_parts, image_words, letter, sector_line, tear_words,
};
use crate::output::document::{Blocks, Line, ListKind, Span};
use crate::output::escape::ascii_or_dot;
use crate::output::plot::{StripCell, strip};

const MAX_ROWS: usize = 5000;

/// Bytes in a row of an excerpt.
const ROW_BYTES: usize = 16;

const MAX_EXCERPT_ROWS: usize = 8;

/// Details of a page in addition to its report.
#[derive(Clone, Debug)]
pub struct PageSheet {
    /// Each version of the page that could be read: `disk` or the letter of an image, and its SHA-256.
    pub digests: Vec<(String, String)>,
    /// Some bytes.
    pub excerpt: Option<Excerpt>,
}

/// A few rows of a page in hex.
#[derive(Clone, Debug)]
pub struct Excerpt {
    /// The rows.
    pub rows: Vec<ExcerptRow>,
    /// The letter of the image that it is compared with.
    pub image: Option<char>,
    /// Rows that differ and are not shown.
    pub left_out: usize,
}

/// A row of an excerpt.
#[derive(Clone, Debug)]
pub struct ExcerptRow {
    /// Offset in the page.
    pub at: usize,
    /// The bytes on disk.
    pub disk: Vec<u8>,
    /// Those of the image.
    pub image: Option<Vec<u8>>,
}

impl Excerpt {
    /// The first rows in which the page and an image differ, or the beginning of the page where there is no image.
    pub fn of(disk: &[u8], image: Option<(char, &[u8])>) -> Self {
        let chunks = disk.chunks(ROW_BYTES).enumerate();
        let row = |(index, chunk): (usize, &[u8]), image: Option<&[u8]>| ExcerptRow {
            at: index * ROW_BYTES,
            disk: chunk.to_vec(),
            image: image.map(<[u8]>::to_vec),
        };
        let Some((letter, bytes)) = image else {
            let rows = chunks.take(MAX_EXCERPT_ROWS).map(|chunk| row(chunk, None)).collect();
            return Self { rows, image: None, left_out: 0 };
        };
        let mut rows: Vec<ExcerptRow> = Vec::new();
        let mut left_out = 0;
        for (chunk, other) in chunks.zip(bytes.chunks(ROW_BYTES)).filter(|((_, chunk), other)| chunk != other) {
            if rows.len() < MAX_EXCERPT_ROWS {
                rows.push(row(chunk, Some(other)));
            } else {
                left_out += 1;
            }
        }
        Self { rows, image: Some(letter), left_out }
    }
}

impl CrashReport<'_> {
    pub(super) fn write_pages(&self, main: &mut Blocks) {
        let pages = &self.cluster.report.pages;
        main.section("pages", "Damaged pages", |inner| {
            if pages.is_empty() {
                return inner.paragraph("None was found on the pages that were checked.");
            }
            let rows = pages.iter().take(MAX_ROWS).enumerate().map(|(index, page)| self.row(index, page));
            let caption = match (pages.len() > MAX_ROWS, pages.len() > self.sheets.len()) {
                (true, _) => format!(
                    "The first {MAX_ROWS} of {} damaged pages; the first {} are shown in full below. check --format json lists all.",
                    pages.len(),
                    self.sheets.len()
                ),
                (false, true) => format!(
                    "All {} damaged pages; the first {} are shown in full below",
                    pages.len(),
                    self.sheets.len()
                ),
                (false, false) => format!("All {} damaged pages; each is shown in full below", pages.len()),
            };
            let headings = ["relation", "block", "file", "on disk", "confidence", "torn", "verdict", "image"];
            inner.table(caption, headings, rows);
            for (index, (page, sheet)) in pages.iter().zip(&self.sheets).enumerate() {
                self.write_sheet(inner, index, page, sheet);
            }
        });
    }

    fn row(&self, index: usize, page: &PageReport) -> [Span; 8] {
        let chosen = page.verdict.chosen.and_then(|index| page.verdict.candidates.get(index));
        let called = self.called(page.page);
        let verdict = page.verdict.verdict;
        [
            if index < self.sheets.len() { Span::Link(called, sheet_id(index)) } else { Span::Text(called) },
            Span::Number(block_label(page.page)),
            Span::code(self.cluster.paths.path_and_block(page.page).0.display()),
            Span::text(page.disk.name()),
            Span::text(page.strength.name()),
            Span::Text(tear_words(page)),
            Span::Mark(verdict.facts().label.to_owned(), tone_class(verdict.facts().tone)),
            Span::Text(chosen.map_or_else(|| "-".to_owned(), image_words)),
        ]
    }

    fn write_sheet(&self, parent: &mut Blocks, index: usize, page: &PageReport, sheet: &PageSheet) {
        parent.section(sheet_id(index), self.titled(page.page), |inner| {
            let path = self.cluster.paths.path_and_block(page.page).0.display().to_string();
            inner.paragraph([Span::Code(path), Span::Text(format!(", relation {}", page.page.rel))]);
            write_evidence_parts(inner, page);
            if let Some(tear) = &page.tear {
                write_tear(inner, page, tear);
            }
            for gap in &page.donor_gaps {
                inner.note(format!("Donor {}: {}", gap.path, gap.gap));
            }
            if !sheet.digests.is_empty() {
                let row = |(version, digest): &(String, String)| [Span::text(version), Span::Digest(digest.clone())];
                let caption = "SHA-256 of the page on disk and of each image that could be read";
                inner.table(caption, ["version", "SHA-256"], sheet.digests.iter().map(row));
            }
            if let Some(excerpt) = &sheet.excerpt {
                write_excerpt(inner, excerpt);
            }
        });
    }
}

fn sheet_id(index: usize) -> String {
    format!("page-{}", index + 1)
}

/// Facts, the verdict, and each image with the steps of its proof, in the order of `check --explain`.
fn write_evidence_parts(parent: &mut Blocks, page: &PageReport) {
    let mut parts = evidence_parts(page).into_iter().peekable();
    let mut facts: Vec<(&str, Line)> = Vec::new();
    while let Some(part) = parts.next_if(|part| !matches!(part, EvidencePart::Image(_))) {
        match part {
            // The map below shows it.
            EvidencePart::Fact("sectors of 512 bytes", _) => {}
            EvidencePart::Fact(name, value) => facts.push((name, value.into())),
            EvidencePart::Verdict(verdict, source) => {
                let source = source.map_or_else(String::new, |source| format!(": {source}"));
                let mark = Span::Mark(format!("{}{source}", verdict.facts().label), tone_class(verdict.facts().tone));
                facts.push(("verdict", [mark].into()));
            }
            EvidencePart::Image(words) | EvidencePart::Step(_, words) => facts.push(("", words.into())),
        }
    }
    parent.facts(facts);
    while let Some(part) = parts.next() {
        let EvidencePart::Image(words) = part else { continue };
        parent.subheading(format!("Image {words}"));
        let mut steps = Vec::new();
        while let Some(EvidencePart::Step(weight, words)) = parts.next_if(|part| matches!(part, EvidencePart::Step(..)))
        {
            let (word, class) = weight_word(weight);
            let line = [Span::Mark(word.to_owned(), class), Span::Text(format!(" {words}"))];
            steps.push((line.into(), Blocks::default()));
        }
        parent.items(ListKind::Proof, steps);
    }
}

/// Weight of a statement in the proof.
const fn weight_word(weight: Weight) -> (&'static str, &'static str) {
    match weight {
        Weight::Supports => ("proof", "good"),
        Weight::Notes => ("note", "faint"),
        Weight::Missing => ("missing", "doubt"),
        Weight::Loses => ("loses changes", "bad"),
        Weight::Against => ("against", "bad"),
    }
}

/// Where each sector of the page comes from.
fn write_tear(parent: &mut Blocks, page: &PageReport, tear: &TearMap) {
    let candidates = page.verdict.candidates.len();
    let letters: Vec<char> = sector_line(page).chars().collect();
    let is = |version: Option<usize>, at: usize| {
        version.is_some_and(|version| tear.sources.get(at).is_some_and(|sources| sources.contains(&version)))
    };
    let name =
        |version: usize| if version < candidates { format!("image {}", letter(version)) } else { "zeros".to_owned() };
    let cells: Vec<StripCell> = letters
        .iter()
        .enumerate()
        .map(|(at, mark)| {
            let (from, to) = (at * SECTOR_BYTES, (at + 1) * SECTOR_BYTES - 1);
            let equal: Vec<String> = tear.sources.get(at).into_iter().flatten().map(|version| name(*version)).collect();
            let words = if equal.is_empty() { "no known version".to_owned() } else { equal.join(", ") };
            let class = match (mark, is(tear.newer, at), is(tear.older, at)) {
                ('.', ..) => "none",
                ('0', ..) => "zero",
                (_, true, true) => "zero",
                (_, true, false) => "new",
                (_, false, true) => "old",
                _ => "other",
            };
            let text = if is(tear.newer, at) && is(tear.older, at) { "=".to_owned() } else { mark.to_string() };
            StripCell { text, class, tooltip: format!("bytes {from} to {to}: {words}") }
        })
        .collect();
    let bytes = letters.len() * SECTOR_BYTES;
    let parts = (0..=bytes).step_by(WIDE_SECTOR_BYTES);
    let marks: Vec<(f64, String)> = parts.map(|at| (at as f64 / bytes.max(1) as f64, at.to_string())).collect();
    let description = format!("Which version each of {} sectors of 512 bytes equals", letters.len());
    let title = "Tear map: where each sector of 512 bytes comes from".to_owned();
    parent.figure(strip(title, &description, &cells, &marks), |figure| {
        let side = |version: Option<usize>| version.map_or_else(|| "unknown".to_owned(), name);
        let lead = format!("Newer version: {}; older version: {}. ", side(tear.newer), side(tear.older));
        figure.note(format!(
            "{lead}A letter is the image that the sector equals, = both versions, 0 zeros, . no known \
            version; marks are at each 4096 bytes."
        ));
    });
}

fn write_excerpt(parent: &mut Blocks, excerpt: &Excerpt) {
    let Excerpt { rows, image, left_out } = excerpt;
    parent.note(match image {
        Some(_) if rows.is_empty() => return parent.paragraph("No byte on disk differs from the image."),
        Some(letter) => format!("The first bytes that differ: on disk, and below it in image {letter}"),
        None => "The first bytes of the page on disk".to_owned(),
    });
    let mut lines = Vec::new();
    for row in rows {
        let other = row.image.as_deref();
        lines.push(hex_line(format!("{:04x}  ", row.at), &row.disk, other));
        lines.extend(other.map(|bytes| hex_line("      ".to_owned(), bytes, Some(&row.disk))));
    }
    parent.lines(lines);
    if *left_out > 0 {
        parent.note(format!("{left_out} more rows of {ROW_BYTES} bytes differ."));
    }
}

/// Bytes in hex and as text; those that differ from `other` are marked.
fn hex_line(lead: String, bytes: &[u8], other: Option<&[u8]>) -> Line {
    let mut spans = vec![Span::Text(lead)];
    for (index, byte) in bytes.iter().enumerate() {
        let differs = other.is_some_and(|other| other.get(index) != Some(byte));
        spans.push(if differs { Span::Strong } else { Span::Text }(format!("{byte:02x}")));
        spans.push(Span::text(" "));
    }
    spans.push(Span::Text(
        bytes.iter().map(|byte| ascii_or_dot(*byte)).fold(" ".to_owned(), |text, c| text + &c.to_string()),
    ));
    spans.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpt_shows_what_differs_and_counts_the_rest() {
        let disk = vec![0_u8; 512];
        let mut image = disk.clone();
        image[17] = 1;
        image[200] = 1;
        let excerpt = Excerpt::of(&disk, Some(('A', &image)));
        let at: Vec<usize> = excerpt.rows.iter().map(|row| row.at).collect();
        assert_eq!((at.as_slice(), excerpt.left_out, excerpt.image), (&[16, 192][..], 0, Some('A')));
        let other = Excerpt::of(&disk, Some(('A', &[1; 512])));
        assert_eq!((other.rows.len(), other.left_out), (8, 24));
        let alone = Excerpt::of(&disk, None);
        assert_eq!((alone.rows.len(), alone.left_out), (8, 0));
    }
}
