//! What the screen shows of a cluster: the findings of `check`, `page` and `batches`, in the same words.

use std::collections::BTreeMap;
use std::path::Path;

use super::check;
use super::page::{self, events_of, title_of, versions_of};
use crate::analysis::batches::tell_batches;
use crate::analysis::finding::{Coverage, Finding, Severity};
use crate::analysis::in_order::all_cores;
use crate::analysis::slot_facts::SECTOR_BYTES;
use crate::analysis::staleness::Confidence;
use crate::analysis::verdict::sectors::SectorMarks;
use crate::analysis::verdict::survey::PageReport;
use crate::cli::context::Closing;
use crate::cli::exit::Stop;
use crate::inspect::examination::Examination;
use crate::inspect::next::{step_context, steps_of};
use crate::output::check_text::{
    block_label, compared_words, image_words, page_title, replay_words, start_sentence, tear_words, write_evidence,
};
use crate::output::colour::Paint;
use crate::output::json::BatchJson;
use crate::output::next_step_text::steps_sentence;
use crate::output::page_text::{Version, write_headers, write_history, write_items};
use crate::output::sink::Machine;
use crate::output::text::Layout;
use crate::tui::facts::{BatchLine, PageLine, PageSheet, Survey};
use crate::types::PageId;

/// Lines as long as they are: the screen breaks them where it ends.
const ENDLESS: Layout = Layout { width: u16::MAX, paint: Paint::new(false) };

/// Everything about a cluster that the screen shows at once.
///
/// # Errors
/// When the result cannot be put into JSON.
pub(super) fn survey_of(examined: &Examination, data_dir: &Path) -> Result<Survey, Stop> {
    let report = &examined.report;
    let label = |page: PageId| page_title(&examined.called(page), page);
    let shown = data_dir.display().to_string();
    let closing = || Closing::new(examined.findings.clone(), &examined.coverage).answering(examined.answer());
    let outcome = closing().outcome();
    let mut json = Vec::new();
    check::write_machine(examined, closing(), false, Machine::Json, data_dir, &mut json)?;
    let mut names = BTreeMap::new();
    for page in report.pages.iter().map(|page| page.page).chain(report.slots.iter().map(|slot| slot.page)) {
        names.entry(page.rel).or_insert_with(|| examined.called(page));
    }
    Ok(Survey {
        state: examined.state.clone(),
        checksums: examined.checksums(),
        replay: replay_words(&report.replay).unwrap_or_else(|| "where it begins is not known".to_owned()),
        start: start_sentence(&report.replay, &report.outlook, &report.pages, &label),
        doubts: report.replay.doubts.iter().map(ToString::to_string).collect(),
        next: steps_sentence(&steps_of(examined), step_context(examined, &shown)),
        scanned: examined.scanned.clone(),
        pages: report.pages.iter().map(|page| page_line(examined, page)).collect(),
        findings: findings_of(&examined.findings),
        skipped: examined.coverage.skipped.iter().map(|one| format!("{}: {}", one.what, one.reason)).collect(),
        names,
        files: examined.source.set.files.iter().map(|file| file.name.clone()).collect(),
        slots: examined.rows.clone(),
        batches: batches_of(examined),
        compared: compared_words(&report.slots),
        exit_status: outcome.status(),
        json: String::from_utf8_lossy(&json).into_owned(),
    })
}

fn page_line(examined: &Examination, report: &PageReport) -> PageLine {
    let page = report.page;
    let image = report.verdict.chosen.and_then(|place| report.verdict.candidates.get(place));
    PageLine {
        page,
        relation: examined.called(page),
        block: block_label(page),
        disk: report.disk.name(),
        strength: report.strength.name(),
        tear: tear_words(report),
        verdict: report.verdict.verdict,
        image: image.map_or_else(|| "-".to_owned(), image_words),
        argument: argument_of(examined, page),
    }
}

/// How the command line calls a page.
fn argument_of(examined: &Examination, page: PageId) -> String {
    format!("{}:{}", examined.path_of(page), page.block)
}

fn findings_of(findings: &[Finding]) -> Vec<(bool, String)> {
    let words = |finding: &Finding| {
        let place = finding.file.as_ref().map_or_else(String::new, |file| format!("{file}: "));
        format!("{place}{}; {}", finding.kind, finding.kind.why())
    };
    findings.iter().map(|finding| (finding.severity == Severity::Problem, words(finding))).collect()
}

fn batches_of(examined: &Examination) -> Vec<BatchLine> {
    let set = &examined.source.set;
    // What cannot be read was said when the buffer was read first.
    let mut again = Coverage::default();
    let told = tell_batches(set, &examined.dwb.staleness, &examined.source.facts, all_cores(), &mut again);
    let line = |batch| {
        let json = BatchJson::new(batch, &set.files, &|rel| examined.relation_name(rel));
        BatchLine { json, verdict: batch.verdict, first: batch.first, last: batch.last }
    };
    told.iter().map(line).collect()
}

/// One page with its images. `found`: the page in the report of `examined`.
///
/// # Errors
/// When the result cannot be put into text or JSON.
pub(super) fn sheet_of(examined: &Examination, found: &PageReport, data_dir: &Path) -> Result<PageSheet, Stop> {
    let page = found.page;
    let versions = versions_of(examined, found);
    let title = title_of(examined, page);
    let report = &examined.report;
    let (mut evidence, mut headers, mut history, mut json) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    write_evidence(&mut evidence, ENDLESS, found, &title)?;
    if !versions.is_empty() {
        write_headers(&mut headers, ENDLESS, page, &versions)?;
        write_items(&mut headers, ENDLESS, page, &versions)?;
    }
    let events = events_of(examined, page);
    write_history(&mut history, ENDLESS, events, report.history.major, report.replay.redo_lsn)?;
    let closing = Closing::new(Vec::new(), &Coverage::default());
    page::write_machine(examined, closing, &[found], Machine::Json, data_dir, &mut json)?;
    let chosen = found.verdict.chosen;
    let legend = found.verdict.candidates.iter().enumerate().map(|(place, judged)| {
        let mark = if chosen == Some(place) { ", chosen" } else { "" };
        let letter = crate::output::check_text::letter(place);
        format!("{letter}  {}, LSN {}{mark}", judged.candidate.source, judged.candidate.page_lsn)
    });
    Ok(PageSheet {
        page,
        title,
        argument: argument_of(examined, page),
        verdict: found.is_wrong.then_some(found.verdict.verdict),
        is_proven: found.strength == Confidence::Proven,
        sectors: sectors_of(&versions),
        legend: legend.collect(),
        // The heading stands above already.
        evidence: lines_of(&evidence, 2),
        headers: lines_of(&headers, 1),
        history: lines_of(&history, 1),
        versions,
        json: String::from_utf8_lossy(&json).into_owned(),
    })
}

fn lines_of(text: &[u8], skip: usize) -> Vec<String> {
    String::from_utf8_lossy(text).lines().skip(skip).map(str::to_owned).collect()
}

/// For each sector on disk, the letters of the images that it equals; `0` all zero, `.` of none.
fn sectors_of(versions: &[Version]) -> Vec<String> {
    let Some((disk, images)) = versions.split_first().filter(|(disk, _)| disk.title == "disk") else {
        return Vec::new();
    };
    let marks = SectorMarks::of(&disk.bytes);
    let of_images: Vec<(&str, SectorMarks)> =
        images.iter().map(|image| (image.title.as_str(), SectorMarks::of(&image.bytes))).collect();
    let letters = |sector: usize| {
        let equal = of_images.iter().filter(|(_, image)| marks.same(image, sector));
        let letters: String = equal.map(|(title, _)| *title).collect();
        match letters.as_str() {
            "" if marks.is_zero(sector) => "0".to_owned(),
            "" => ".".to_owned(),
            _ => letters,
        }
    };
    (0..disk.bytes.len().div_ceil(SECTOR_BYTES)).map(letters).collect()
}
