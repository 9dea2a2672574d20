//! The open view as JSON.

use serde_json::{Value, json};

use super::facts::Survey;
use super::query::slot_words;
use super::state::{State, View};
use crate::analysis::slot_row::SlotRow;
use crate::output::json::SCHEMA;
use crate::output::json::lsn_text;
use crate::output::json::wal::{Row, interval_row, put_tally};

/// What the open view shows, as a JSON document. Triage and Page are the documents of `check` and `page`.
#[must_use]
pub fn json_text(state: &State) -> String {
    let survey = state.survey();
    let items = match state.view {
        View::Triage => match survey {
            Some(survey) => return survey.json.clone(),
            None => json!({}),
        },
        View::Page => match state.page.sheet.as_deref() {
            Some(sheet) => return sheet.json.clone(),
            None => json!({}),
        },
        View::Batches => {
            let batches = survey.map_or(&[][..], |survey| &survey.batches);
            json!({"batches": batches.iter().map(|batch| json!(batch.json)).collect::<Vec<_>>()})
        }
        View::Slots => {
            let rows = survey.map_or_else(Vec::new, |survey| {
                let listed = state.slots.order.iter().filter_map(|at| survey.slots.get(*at));
                listed.map(|row| slot_value(survey, row)).collect()
            });
            json!({"slots": rows})
        }
        View::Wal => wal_value(state),
        View::Plan => json!({
            "plan": state.plan.sheet.as_ref().map(|plan| json!(plan.plan)),
            "guards": state.plan.sheet.as_ref().map(|plan| json!(plan.blockers)),
        }),
    };
    let document = json!({
        "tool": state.subject.program,
        "version": env!("CARGO_PKG_VERSION"),
        "schema": SCHEMA,
        "command": super::command_line::command_line(state),
        "path": state.subject.path,
        "view": state.view.name().to_lowercase(),
        "shown": items,
    });
    format!("{document:#}\n")
}

fn slot_value(survey: &Survey, row: &SlotRow) -> Value {
    let [crc, batch, disk, by, fork] = slot_words(row);
    json!({
        "file": survey.files.get(row.file),
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
    let groups = |groups: &Option<Vec<(String, crate::analysis::wal::tally::Tally)>>| -> Vec<Row> {
        let rows = groups.iter().flatten().map(|(name, tally)| {
            let mut row = Row::new();
            row.insert("name".to_owned(), json!(name));
            put_tally(&mut row, tally);
            row
        });
        rows.collect()
    };
    let mut total = Row::new();
    put_tally(&mut total, &wal.total);
    json!({
        "intervals": wal.intervals.iter().map(interval_row).collect::<Vec<_>>(),
        "total": total,
        "relations": groups(&wal.relations),
        "causes": groups(&wal.causes),
        "notes": wal.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
