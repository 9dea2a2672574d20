//! JSON of damaged pages and of comparisons.

use serde_json::{Map, Value, json};

use super::wal::Row;
use super::{fill_up, lsn_text};
use crate::analysis::verdict::candidate::{CandidateOutcome, ImageSource, Judged};
use crate::analysis::verdict::donor_images::PageOfNoDonor;
use crate::analysis::verdict::events::BlockEvent;
use crate::analysis::verdict::evidence::EvidenceStep;
use crate::analysis::verdict::judge::{OnStart, Reason};
use crate::analysis::verdict::outlook::{Outlook, Start};
use crate::analysis::verdict::rebuild::{BuildFailure, NotRebuildable, RebuildPlan};
use crate::analysis::verdict::sectors::TearMap;
use crate::analysis::verdict::slots::SlotRef;
use crate::analysis::verdict::survey::PageReport;
use crate::analysis::verdict::symptom::Symptom;
use crate::output::words::wal::touch_words;
use crate::parsers::wal::version::Major;
use crate::types::PageId;

/// Columns of a page in CSV, in order.
pub(crate) const PAGE_COLUMNS: &[&str] = &[
    "spc_oid",
    "db_oid",
    "rel_number",
    "relation",
    "fork",
    "block",
    "path",
    "disk",
    "strength",
    "verdict",
    "reasons",
    "reason_codes",
    "damage",
    "damage_codes",
];

/// Fields of a candidate that the chosen one is known by.
const CHOSEN: [&str; 12] = [
    "source",
    "file",
    "slot_index",
    "slot_id",
    "lsn",
    "donor",
    "redo_lsn",
    "page_lsn",
    "base",
    "base_lsn",
    "records",
    "server",
];

/// The file of a page and the name of its relation.
pub(crate) struct PageLocation<'a> {
    /// Path of its file, relative to the data directory.
    pub path: &'a str,
    /// Name of the relation, where it is known.
    pub relation: Option<&'a str>,
    /// Name of its database, where it is known.
    pub database: Option<&'a str>,
}

/// Which page a row is about, without names.
pub(super) fn put_page(row: &mut Row, page: PageId) {
    for (name, value) in [
        ("spc_oid", json!(page.rel.spc_oid)),
        ("db_oid", json!(page.rel.db_oid)),
        ("rel_number", json!(page.rel.rel_number)),
        ("fork", json!(page.fork.name())),
        ("block", json!(page.block)),
    ] {
        row.insert(name.to_owned(), value);
    }
}

pub(super) fn identity(row: &mut Row, page: PageId, location: &PageLocation<'_>) {
    put_page(row, page);
    row.insert("relation".to_owned(), json!(location.relation));
    row.insert("database".to_owned(), json!(location.database));
    row.insert("path".to_owned(), json!(location.path));
}

/// A page that something is wrong with, or that was examined on demand.
pub(crate) fn page_row(report: &PageReport, location: &PageLocation<'_>) -> Row {
    let mut row = Row::new();
    identity(&mut row, report.page, location);
    let verdict = &report.verdict;
    let candidates: Vec<Value> = verdict.candidates.iter().map(|judged| Value::Object(candidate(judged))).collect();
    let chosen = verdict.chosen.and_then(|at| {
        let mut object = candidate(verdict.candidates.get(at)?);
        object.retain(|name, _| CHOSEN.contains(&name.as_str()));
        object.insert("candidate".to_owned(), json!(at));
        Some(object)
    });
    for (name, value) in [
        ("disk", json!(report.disk.name())),
        ("strength", json!(report.strength.name())),
        ("damage", json!(report.damage.iter().map(ToString::to_string).collect::<Vec<_>>())),
        ("damage_codes", json!(report.damage.iter().map(Symptom::code).collect::<Vec<_>>())),
        ("disk_lsn", json!(report.disk_lsn.map(lsn_text))),
        ("tear", json!(tear(report))),
        ("candidates", json!(candidates)),
        ("verdict", json!(verdict.verdict.name())),
        ("chosen", json!(chosen)),
        ("reasons", json!(verdict.reasons.iter().map(ToString::to_string).collect::<Vec<_>>())),
        ("reason_codes", json!(verdict.reasons.iter().map(Reason::code).collect::<Vec<_>>())),
        ("on_start", json!(on_start(report))),
        ("rebuildable", json!(report.rebuild.as_ref().map(rebuildable))),
        ("build_failure", json!(report.build_failure.as_ref().map(BuildFailure::code))),
        ("stand_in", json!(report.stand_in.as_ref().map(|page| hex(&page.header)))),
        ("unlogged", json!(report.is_unlogged)),
        ("donor_gaps", json!(report.donor_gaps.iter().map(donor_gap).collect::<Vec<_>>())),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}

/// Whether and how a page can be built anew.
fn rebuildable(rebuild: &Result<RebuildPlan, NotRebuildable>) -> Value {
    let (plan, why) = (rebuild.as_ref().ok(), rebuild.as_ref().err());
    let segments = why.and_then(NotRebuildable::segments);
    json!({
        "possible": plan.is_some(),
        "code": why.map(NotRebuildable::code),
        "text": plan.map(ToString::to_string).or_else(|| why.map(ToString::to_string)),
        "base": plan.map(|plan| plan.base.name()),
        "base_lsn": plan.map(|plan| lsn_text(plan.base.lsn())),
        "records": plan.map(|plan| plan.records),
        "first_lsn": plan.and_then(|plan| plan.first_lsn).map(lsn_text),
        "last_lsn": plan.and_then(|plan| plan.last_lsn).map(lsn_text),
        "page_lsn": plan.and_then(RebuildPlan::expected_lsn).map(lsn_text),
        "as_of": plan.map(|plan| lsn_text(plan.until)),
        "missing_segments": segments.map_or(&[][..], |segments| &segments.names),
        "missing_more": segments.map_or(0, |segments| segments.more),
    })
}

fn tear(report: &PageReport) -> Option<Value> {
    let count = report.verdict.candidates.len();
    report.tear.as_ref().map(|map| tear_value(map, |at| if *at < count { json!(at) } else { json!("zero") }))
}

/// Where the sectors of a torn page come from. `label`: of an image by its index.
pub(super) fn tear_value(map: &TearMap, label: impl Fn(&usize) -> Value) -> Value {
    let sectors: Vec<Vec<Value>> = map.sources.iter().map(|list| list.iter().map(&label).collect()).collect();
    json!({
        "direction": map.direction.name(),
        "break_at": map.break_at(),
        "break_min": map.boundary.start,
        "break_max": map.boundary.end,
        "newer": map.newer.as_ref().map(&label),
        "older": map.older.as_ref().map(&label),
        "sectors": sectors,
    })
}

fn candidate(judged: &Judged) -> Map<String, Value> {
    let candidate = &judged.candidate;
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    put("source", json!(candidate.source.name()));
    match &candidate.source {
        ImageSource::Dwb { file, slot_index, slot_id, slot_lsn, batch, path, knowledge, .. } => {
            put("file", json!(file));
            put("slot_index", json!(slot_index));
            put("slot_id", json!(slot_id));
            put("slot_lsn", json!(lsn_text(*slot_lsn)));
            put("batch", json!(batch.map(|(verdict, _)| verdict.name())));
            put("written_by", json!(path.map(|path| path.name())));
            put("knowledge", json!(knowledge.code()));
        }
        ImageSource::Wal { record_lsn } => put("lsn", json!(lsn_text(*record_lsn))),
        ImageSource::Donor { path, kind, redo_lsn, .. } => {
            put("donor", json!(path));
            put("donor_kind", json!(kind.code()));
            put("redo_lsn", json!(lsn_text(*redo_lsn)));
        }
        ImageSource::Rebuilt(rebuilt) => {
            put("base", json!(rebuilt.base.name()));
            put("base_lsn", json!(lsn_text(rebuilt.base.lsn())));
            put("records", json!(rebuilt.records));
            put("first_lsn", json!(rebuilt.first_lsn.map(lsn_text)));
            put("last_lsn", json!(rebuilt.last_lsn.map(lsn_text)));
            put("as_of", json!(lsn_text(rebuilt.until)));
            put("server", json!(rebuilt.server));
        }
    }
    put("page_lsn", json!(lsn_text(candidate.page_lsn)));
    put("sectors_matching", json!(candidate.sectors_matching));
    put("outcome", json!(outcome_name(judged.outcome)));
    let evidence: Vec<Value> = judged.steps.iter().map(step_value).collect();
    put("evidence", json!(evidence));
    put("lost_lsns", json!(judged.lost.iter().map(|lsn| lsn_text(*lsn)).collect::<Vec<_>>()));
    fill_up(
        &mut object,
        &[
            "file",
            "slot_index",
            "slot_id",
            "slot_lsn",
            "batch",
            "written_by",
            "knowledge",
            "lsn",
            "donor",
            "donor_kind",
            "redo_lsn",
            "base",
            "base_lsn",
            "records",
            "first_lsn",
            "last_lsn",
            "as_of",
            "server",
        ],
    );
    object
}

fn step_value(step: &EvidenceStep) -> Value {
    let statement = &step.statement;
    json!({"weight": step.weight.name(), "code": statement.code(), "text": statement.to_string()})
}

pub(crate) const fn outcome_name(outcome: CandidateOutcome) -> &'static str {
    match outcome {
        CandidateOutcome::Safe => "safe",
        CandidateOutcome::Unproven => "unproven",
        CandidateOutcome::LosesChanges => "loses_changes",
        CandidateOutcome::Unusable => "unusable",
    }
}

fn donor_gap(donor: &PageOfNoDonor) -> Value {
    json!({"donor": donor.path, "code": donor.gap.code(), "text": donor.gap.to_string()})
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn on_start(report: &PageReport) -> Value {
    let (what, lsn, record, removed) = match &report.verdict.on_start {
        _ if report.is_overwritten => ("overwritten", None, None, None),
        OnStart::Harmless => ("harmless", None, None, None),
        OnStart::Read { lsn } => ("read", Some(lsn), None, None),
        OnStart::Unnoticed { lsn } => ("unnoticed", Some(lsn), None, None),
        OnStart::PassedOver { lsn } => ("passed_over", Some(lsn), None, None),
        OnStart::Dies { lsn, record, is_removed } => ("dies", Some(lsn), Some(record), Some(is_removed)),
        OnStart::TakenForEmpty => ("taken_for_empty", None, None, None),
        OnStart::Later => ("later", None, None, None),
        OnStart::Unknown => ("unknown", None, None, None),
    };
    json!({"what": what, "lsn": lsn.map(|lsn| lsn_text(*lsn)), "record": record, "removed": removed})
}

pub(crate) fn event_row(page: PageId, event: &BlockEvent, major: Option<Major>) -> Row {
    let mut row = Row::new();
    put_page(&mut row, page);
    for (name, value) in [
        ("lsn", json!(lsn_text(event.start_lsn))),
        ("end_lsn", json!(lsn_text(event.end_lsn))),
        ("record", json!(event.name(major))),
        ("xid", json!(event.xid)),
        ("effect", json!(touch_words(&event.touch))),
        ("effect_code", json!(event.touch.code())),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}

/// A page in order, with the slots that hold it.
pub(crate) fn compared_row(
    page: PageId,
    slots: &[SlotRef],
    file_name: &dyn Fn(usize) -> String,
    location: &PageLocation<'_>,
) -> Row {
    let mut row = Row::new();
    identity(&mut row, page, location);
    let candidates: Vec<Value> = slots
        .iter()
        .map(|slot| {
            json!({
                "source": "dwb",
                "file": file_name(slot.file),
                "slot_index": slot.index,
                "slot_id": slot.slot_id,
                "page_lsn": lsn_text(slot.page_lsn),
                "comparison": slot.comparison.map(crate::analysis::verdict::compare::Comparison::name),
            })
        })
        .collect();
    let newest = slots.last().and_then(|slot| slot.comparison);
    for (name, value) in [
        ("disk", json!(newest.map(crate::analysis::verdict::compare::Comparison::name))),
        ("candidates", json!(candidates)),
        ("verdict", json!("leave")),
    ] {
        row.insert(name.to_owned(), value);
    }
    row
}

/// The prediction of a start, for the summary.
pub(crate) fn outlook_value(outlook: &Outlook) -> Value {
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
