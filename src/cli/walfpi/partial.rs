//! Partial results, which `stats --partial` and `whatif --partial` write for `merge`.

use std::collections::BTreeMap;
use std::io::Write;

use data_encoding::BASE64;

use super::stats::totals_row;
use crate::analysis::wal::group_key::Key;
use crate::analysis::wal::part_state::PartBody;
use crate::cli::exit::{Outcome, Stop};
use crate::inspect::wal::part::WalPart;
use crate::inspect::wal::read_wal::ReadWal;
use crate::inspect::wal::stats::WalCounts;
use crate::output::closing::{Closing, VERSION};
use crate::output::json::partial::{NameJson, PARTIAL_SCHEMA, PartialJson, RunJson, WalJson};

/// Writes a partial result. `by`: what it was counted by.
pub(super) fn write_partial(part: WalPart, by: String, out: &mut dyn Write) -> Result<Outcome, Stop> {
    let WalPart { state, runs, wal: ReadWal { origin, names, findings, coverage } } = part;
    let closing = Closing::new(findings, &coverage);
    let answer = closing.answer();
    let (mut relations, mut databases) = (BTreeMap::new(), BTreeMap::new());
    if let PartBody::Groups { groups, .. } | PartBody::Causes { groups, .. } = &state.body {
        for key in groups.keys() {
            match key {
                Key::Relation(rel) | Key::Table(rel) | Key::Block(rel, ..) => {
                    relations.extend(names.relation(*rel).map(|name| (*rel, name)));
                }
                Key::Database(oid) => databases.extend(names.database(*oid).map(|name| (*oid, name))),
                _ => {}
            }
        }
    }
    let (total, wal_bytes, from, to) = (state.total, state.wal_bytes, state.from, state.to);
    let counts = WalCounts { total, wal_bytes, from, to, ..WalCounts::default() };
    let partial = PartialJson {
        pgforensics_partial: PARTIAL_SCHEMA,
        version: VERSION.to_owned(),
        by,
        wal: WalJson::from(&origin),
        runs: runs.iter().map(RunJson::from).collect(),
        totals: totals_row(&counts, &origin),
        findings: closing.findings,
        skipped: closing.skipped,
        examined: coverage.examined,
        relations: relations.into_iter().map(|(rel, name)| NameJson::new(rel, name)).collect(),
        databases: databases.into_iter().collect(),
        state: BASE64.encode(&state.to_bytes()),
    };
    serde_json::to_writer(&mut *out, &partial).map_err(std::io::Error::from)?;
    writeln!(out)?;
    out.flush()?;
    Ok(answer.into())
}
