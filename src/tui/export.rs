//! The open view as JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::facts::{PageSheet, Survey};
use super::query::slot_words;
use super::state::{PagePart, State, View};
use super::view::wal_notes;
use crate::analysis::dwb::slot_facts::SlotRow;
use crate::analysis::skipped::Coverage;
use crate::analysis::wal::group_key::GroupBy;
use crate::analysis::wal::tally::Tally;
use crate::inspect::next::judged_cluster;
use crate::output::closing::{Closing, VERSION};
use crate::output::json::wal::{KeptJson, Row};
use crate::output::json::{BatchJson, SCHEMA, lsn_text};
use crate::output::sink::Machine;
use crate::output::wal_columns::{interval_row, put_tally};

/// The open view as a JSON document. Triage and Page are the documents of `check` and `page`.
pub fn json_text(state: &State) -> String {
    let survey = state.survey();
    let items = match state.view {
        View::Triage | View::Findings | View::Steps | View::Map | View::Pages | View::InnodbPage => {
            match (survey, state.innodb.survey.as_deref()) {
                (Some(survey), _) => return check_document(state, survey),
                (None, Some(survey)) => super::innodb::page_rows(state, survey),
                (None, None) => json!({}),
            }
        }
        View::Page => match state.page.sheet.as_deref() {
            Some(sheet) => return page_document(state, sheet),
            None => json!({}),
        },
        View::Batches => {
            let batches = survey.map_or_else(Vec::new, |survey| {
                let files = &survey.examined.source.set.files;
                let name = |rel| survey.examined.relation_name(rel);
                survey.batches.iter().map(|listed| BatchJson::new(&listed.batch, files, &name)).collect()
            });
            json!({"batches": batches})
        }
        View::Slots => {
            let rows = survey.map_or_else(Vec::new, |survey| {
                let listed = state.slots.order.iter().filter_map(|index| survey.slots().get(*index));
                listed.map(|row| slot_value(survey, row)).collect()
            });
            json!({"slots": rows})
        }
        View::Wal | View::Relations | View::Causes | View::WhatIf | View::Kept => wal_value(state),
        View::Undo => json!({
            "journal": state.journal_in_force().map(|journal| journal.display().to_string()),
            "refused": state.plan.undo.as_ref().and_then(|sheet| sheet.found.as_ref().err()),
            "pages": state.plan.undo.as_ref().and_then(|sheet| sheet.found.as_ref().ok()).map(|found| found.back),
        }),
        View::Plan | View::Apply => json!({
            "plan": state.plan.sheet.as_ref().map(|sheet| json!(sheet.plan)),
            "blockers": state.plan.sheet.as_ref().map(|sheet| {
                sheet.blockers.iter().map(ToString::to_string).collect::<Vec<_>>()
            }),
        }),
    };
    let document = json!({
        "tool": state.subject.program,
        "version": VERSION,
        "schema": SCHEMA,
        "command": super::command_line::command_line(state),
        "path": state.subject.path,
        "view": state.view.name().to_lowercase(),
        "shown": items,
    });
    format!("{document:#}\n")
}

fn check_document(state: &State, survey: &Survey) -> String {
    let examined = &survey.examined;
    let closing = Closing::new(examined.findings.clone(), &examined.coverage).answering(examined.answer());
    let cluster = judged_cluster(examined, state.subject.program, &state.subject.path);
    text_of(|out| cluster.write_check(out, Machine::Json, &survey.steps, false, closing))
}

fn page_document(state: &State, sheet: &PageSheet) -> String {
    let closing = Closing::new(Vec::new(), &Coverage::default());
    let cluster = judged_cluster(&sheet.examined, state.subject.program, &state.subject.path);
    let with_rows = state.page.part == PagePart::Rows;
    let rows = if with_rows { sheet.rows.json(sheet.report.page, &sheet.versions) } else { Vec::new() };
    text_of(|out| cluster.write_pages(out, Machine::Json, &[&sheet.report], rows, closing))
}

pub(super) fn text_of<T>(write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> String {
    let mut text = Vec::new();
    match write(&mut text) {
        Ok(_) => String::from_utf8_lossy(&text).into_owned(),
        // Memory takes everything; if it ever does not, the file says why it is not what it should be.
        Err(error) => error.to_string(),
    }
}

fn slot_value(survey: &Survey, row: &SlotRow) -> Value {
    let [crc, batch, disk, by, fork] = slot_words(row);
    json!({
        "file": survey.file_name(row.file),
        "slot_index": row.index,
        "slot_id": row.slot_id,
        "spc_oid": row.rel.spc_oid,
        "db_oid": row.rel.db_oid,
        "rel_number": row.rel.rel_number,
        "relation": survey.names.get(&row.rel),
        "fork": fork,
        "block": row.block,
        "slot_lsn": lsn_text(row.slot_lsn),
        "page_lsn": lsn_text(row.page_lsn),
        "crc": crc,
        "batch": batch,
        "disk": disk,
        "written_by": by,
    })
}

fn wal_value(state: &State) -> Value {
    let Some(wal) = state.wal.survey.as_deref() else { return json!({}) };
    let row = |name: &str, tally: &Tally| {
        let mut row = Row::new();
        row.insert("name".to_owned(), json!(name));
        put_tally(&mut row, tally);
        row
    };
    let whole = wal.whole.iter();
    let relations = whole.clone().flat_map(|whole| whole.rows(GroupBy::Relation));
    let causes = whole.flat_map(|whole| &whole.window.causes);
    let mut total = Row::new();
    put_tally(&mut total, &wal.total);
    json!({
        "intervals": wal.intervals.iter().map(interval_row).collect::<Vec<_>>(),
        "total": total,
        "relations": relations.map(|(name, tally)| row(name, tally)).collect::<Vec<_>>(),
        "causes": causes.map(|(key, tally)| row(&wal.names.name_of(GroupBy::Cause, key), tally)).collect::<Vec<_>>(),
        "kept": wal.kept.iter().flatten().flat_map(|kept| &kept.wal.rows).map(KeptJson::from).collect::<Vec<_>>(),
        "notes": wal_notes(wal),
    })
}
