//! The machine output of `check` and `page`: which items stand in it, and what the summary counts.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::closing::{Closing, begin};
use super::json::page::{ComparisonJson, EventJson, PAGE_COLUMNS, PageJson, PageLocation};
use super::json::page_at::PageRowJson;
use super::json::{Item, lsn_text};
use super::next_step_text::{StepContext, steps_value};
use super::sink::{CsvShape, Machine};
use crate::analysis::changes::events::BlockEvent;
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::dwb::slots::slots_of;
use crate::analysis::start::doubt::Doubt;
use crate::analysis::verdict::answer::Answer;
use crate::analysis::verdict::check::CheckReport;
use crate::analysis::verdict::judge::Verdict;
use crate::analysis::verdict::next_step::NextStep;
use crate::analysis::verdict::outlook::{Outlook, Start};
use crate::analysis::verdict::rebuilt_proof::ProofReport;
use crate::analysis::verdict::survey::PageReport;
use crate::cluster::dwb_files::DwbSet;
use crate::cluster::names::RelationNames;
use crate::cluster::page_source::RelationPaths;
use crate::report::OtherProblems;
use crate::types::PageId;

/// A judged cluster: its report, and what gives its pages and slots their names.
#[derive(Clone, Copy)]
pub struct JudgedCluster<'a> {
    /// Program that made the report.
    pub program: &'static str,
    /// The report.
    pub report: &'a CheckReport,
    /// Where pages are.
    pub paths: &'a RelationPaths,
    /// Names of relations.
    pub names: &'a RelationNames,
    /// The double write buffer.
    pub dwb: &'a DwbSet,
    /// Pages that nothing proves to be whole, for want of checksums, if all pages were read.
    pub unproven_pages: Option<u64>,
    /// Problems other than damaged pages.
    pub problems: OtherProblems,
    /// How the proofs by replay went, if they were asked for.
    pub proof: Option<&'a ProofReport>,
    /// Context of the words about steps, such as the data directory.
    pub context: StepContext<'a>,
}

impl JudgedCluster<'_> {
    /// Writes what `check` says. `all`: also pages that are not damaged and that the double write buffer holds.
    pub(crate) fn write_check(
        &self,
        out: &mut dyn Write,
        format: Machine,
        steps: &[NextStep],
        all: bool,
        closing: Closing,
    ) -> io::Result<Answer> {
        let report = self.report;
        let shape = CsvShape::Rows { plural: "pages", columns: PAGE_COLUMNS };
        let mut sink = begin(format, shape, out, (self.program, "check"), vec![self.context.data_dir.to_owned()])?;
        let mut shown = 0;
        for page in &report.pages {
            sink.item(&Item::Page(Box::new(self.page_row(page))))?;
            shown += 1;
        }
        if all {
            let file_name = |file: usize| self.dwb.files.get(file).map_or_else(String::new, |file| file.name.clone());
            for group in report.slots.chunk_by(|one, other| one.page == other.page) {
                let Some(page) = group.first().map(|slot| slot.page) else { continue };
                if report.pages.binary_search_by_key(&page, |report| report.page).is_ok() {
                    continue;
                }
                let slots = slots_of(&report.slots, page);
                let row = self.named(page, |names| ComparisonJson::new(page, slots, &file_name, names));
                sink.item(&Item::Comparison(row))?;
                shown += 1;
            }
        }
        let mut counts = self.counts();
        counts.insert("next".to_owned(), steps_value(steps, self.context));
        closing.end(sink, shown, counts)
    }

    /// Writes what `page` says of these pages, and of their rows where they were asked for.
    pub(crate) fn write_pages(
        &self,
        out: &mut dyn Write,
        format: Machine,
        pages: &[&PageReport],
        rows: Vec<PageRowJson>,
        closing: Closing,
    ) -> io::Result<Answer> {
        let shape = CsvShape::Rows { plural: "pages", columns: PAGE_COLUMNS };
        let mut sink = begin(format, shape, out, (self.program, "page"), vec![self.context.data_dir.to_owned()])?;
        for found in pages {
            sink.item(&Item::Page(Box::new(self.page_row(found))))?;
        }
        for found in pages {
            for event in events_of(self.report, found.page) {
                sink.item(&Item::Event(EventJson::new(found.page, event, self.report.history.major)))?;
            }
        }
        for row in rows {
            sink.item(&Item::PageRow(row))?;
        }
        closing.end(sink, pages.len() as u64, Map::new())
    }

    fn page_row(&self, found: &PageReport) -> PageJson {
        self.named(found.page, |names| PageJson::new(found, names))
    }

    fn named<T>(&self, page: PageId, make: impl FnOnce(&PageLocation<'_>) -> T) -> T {
        let (path, _) = self.paths.path_and_block(page);
        let relation = self.names.full_name(page.rel);
        make(&PageLocation {
            path: &path.display().to_string(),
            relation: relation.as_deref(),
            database: self.names.database_of(page.rel),
        })
    }

    fn counts(&self) -> Map<String, Value> {
        let report = self.report;
        let by_verdict = |verdict: Verdict| report.pages.iter().filter(|page| page.verdict.verdict == verdict).count();
        let by_word = |word: Comparison| report.slots.iter().filter(|slot| slot.comparison == Some(word)).count();
        let verdicts: Map<String, Value> =
            Verdict::ALL.into_iter().map(|verdict| (verdict.name().to_owned(), json!(by_verdict(verdict)))).collect();
        let words: Map<String, Value> =
            Comparison::ALL.into_iter().map(|word| (word.name().to_owned(), json!(by_word(word)))).collect();
        let doubts = &report.replay.doubts;
        let sentences: Vec<String> = doubts.iter().map(ToString::to_string).collect();
        let codes: Vec<&str> = doubts.iter().map(Doubt::code).collect();
        let mut counts = Map::new();
        for (name, value) in [
            ("damaged_pages", json!(report.pages.len())),
            ("verdicts", Value::Object(verdicts)),
            ("slots", Value::Object(words)),
            ("unproven_pages", json!(self.unproven_pages)),
            ("proven_whole", json!(self.proof.map(|proof| proof.whole))),
            ("proof", json!(self.proof.map(proof_value))),
            ("recovery", json!(report.replay.recovery.name())),
            ("redo_lsn", json!(report.replay.redo_lsn.map(lsn_text))),
            ("end_lsn", json!(report.replay.end_lsn.map(lsn_text))),
            ("backup_end", json!(report.replay.backup.as_ref().map(|backup| backup.end.name()))),
            ("doubts", json!(sentences)),
            ("doubt_codes", json!(codes)),
            ("on_start", outlook_value(&report.outlook)),
        ] {
            counts.insert(name.to_owned(), value);
        }
        counts
    }
}

fn proof_value(proof: &ProofReport) -> Value {
    let ProofReport { is_needless, whole, wrong, undecided, without_base, not_built, server, records } = proof;
    json!({
        "needless": is_needless,
        "whole": whole,
        "wrong": wrong,
        "undecided": undecided,
        "without_base": without_base,
        "not_built": not_built,
        "server": server.as_deref().unwrap_or_default(),
        "records": records,
    })
}

/// The prediction of a start, for the summary.
fn outlook_value(outlook: &Outlook) -> Value {
    let lsn = match &outlook.start {
        Start::Stops { lsn, .. } | Start::MayStop { lsn, .. } => Some(lsn_text(*lsn)),
        _ => None,
    };
    json!({
        "start": outlook.start.name(),
        "stops_at": lsn,
        "may_stop_before": matches!(outlook.start, Start::Stops { may_stop_before: true, .. }),
        "server_restores": outlook.server_restores.len(),
        "server_guesses": outlook.server_guesses.len(),
        "server_loses": outlook.server_loses.len(),
        "unnoticed": outlook.unnoticed.len(),
        "refused_by_pid": outlook.refused_by,
        "passed_over": outlook.passed_over.len(),
        "maps_damaged": outlook.maps.len(),
        "stay_damaged": outlook.stay.len(),
    })
}

/// Records of a page in WAL.
pub fn events_of(report: &CheckReport, page: PageId) -> &[BlockEvent] {
    report.interest.index_of(page).map_or(&[][..], |index| report.history.events(index))
}
