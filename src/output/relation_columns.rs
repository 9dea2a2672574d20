//! The columns of `pg_walfpi stats --by relation` that say what was done with each relation.

use serde_json::{Value, json};

use super::figures::percent;
use super::json::wal::Row;
use crate::analysis::wal::group::RelationFigures;
use crate::analysis::wal::group_key::RelationKind;
use crate::analysis::wal::likely_cause::LikelyCause;
use crate::analysis::wal::relation_use::IndexMethod;

/// A column: field of JSON and CSV, and its value.
type Column = (&'static str, fn(&RelationFigures) -> Value);

const COLUMNS: &[Column] = &[
    ("kind", |of| json!(of.kind.code())),
    ("access_method", |of| json!(of.kind.index_method().map(IndexMethod::name))),
    ("changes", |of| json!(of.activity.changes)),
    ("images_per_1000_changes", |of| json!(of.activity.images_per_1000_changes().map(|number| rounded(number, 10.0)))),
    ("distinct_blocks", |of| json!(of.distinct_blocks)),
    ("inserts", |of| json!(of.activity.inserts)),
    ("multi_inserts", |of| json!(of.activity.multi_inserts)),
    ("updates", |of| json!(of.activity.updates)),
    ("moved_updates", |of| json!(of.activity.moved_updates)),
    ("hot_updates", |of| json!(of.activity.hot_updates)),
    ("hot_share", |of| json!(of.activity.hot_share().map(|share| rounded(share, 1e6)))),
    ("deletes", |of| json!(of.activity.deletes)),
    ("hint_images", |of| json!(of.activity.hint_images)),
    ("whole_page_images", |of| json!(of.activity.whole_page_images)),
    ("vacuum_images", |of| json!(of.activity.vacuum_images)),
    ("old_rows", |of| json!(of.activity.all_old_rows().0)),
    ("old_row_bytes", |of| json!(of.activity.all_old_rows().1)),
    ("old_key_bytes", |of| json!(of.activity.old_key_bytes)),
    ("likely_cause", |of| json!(of.likely_cause.map(|cause| cause.code()))),
];

fn rounded(number: f64, parts: f64) -> f64 {
    (number * parts).round() / parts
}

/// Columns of a relation in CSV, in order.
pub(crate) fn relation_fields() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|(field, _)| *field)
}

/// Adds the columns of a relation to its row.
pub(crate) fn put_relation(row: &mut Row, figures: &RelationFigures) {
    row.extend(COLUMNS.iter().map(|(field, value)| ((*field).to_owned(), value(figures))));
}

/// Headings of the cells that wide screens show, numbers first.
pub(crate) const HEADINGS: [&str; 4] = ["per 1000", "HOT", "kind", "likely cause"];

/// How many of [`HEADINGS`] stand over numbers.
pub(crate) const NUMBERS: usize = 2;

/// The cells of a relation below [`HEADINGS`].
pub fn cells(figures: Option<&RelationFigures>) -> [String; 4] {
    let Some(figures) = figures else { return Default::default() };
    let per_1000 = figures.activity.images_per_1000_changes().map(|number| format!("{number:.0}"));
    [
        per_1000.unwrap_or_default(),
        figures.activity.hot_share().map(percent).unwrap_or_default(),
        kind_words(figures.kind),
        figures.likely_cause.map(|cause| likely_cause_words(&cause).to_owned()).unwrap_or_default(),
    ]
}

pub(crate) fn kind_words(kind: RelationKind) -> String {
    match kind {
        RelationKind::Table => "table".to_owned(),
        RelationKind::MaterializedView => "materialized view".to_owned(),
        RelationKind::Toast => "TOAST table".to_owned(),
        RelationKind::Index(None) => "index".to_owned(),
        RelationKind::Index(Some(method)) => format!("{} index", method.name()),
        RelationKind::Sequence => "sequence".to_owned(),
        RelationKind::Unknown => "unknown".to_owned(),
    }
}

/// Words for what images probably come from.
pub(crate) const fn likely_cause_words(cause: &LikelyCause) -> &'static str {
    match cause {
        LikelyCause::HintBits { .. } => "hint bits",
        LikelyCause::WholePages { .. } => "built or rewritten",
        LikelyCause::Vacuum { .. } => "vacuum",
        LikelyCause::Freeze { .. } => "freezing",
        LikelyCause::RandomKeys { .. } => "random keys",
        LikelyCause::HashIndex { .. } => "hash index",
        LikelyCause::GinIndex { .. } => "GIN index",
        LikelyCause::FullPages { .. } => "fillfactor",
        LikelyCause::IndexedColumns { .. } => "indexed columns updated",
    }
}

/// What helps against a cause, beginning with a verb.
pub(crate) const fn cure_words(cause: &LikelyCause) -> &'static str {
    match cause {
        LikelyCause::HintBits { .. } => {
            "run VACUUM (or COPY with FREEZE) right after a load, in the same checkpoint interval, so that later reads set no bits"
        }
        LikelyCause::WholePages { .. } => {
            "expected of CREATE INDEX, CLUSTER, VACUUM FULL and rewrites: run them less often, or when the archive has room"
        }
        LikelyCause::Vacuum { .. } => {
            "vacuum large tables less often in one go, or make checkpoints rarer while it runs"
        }
        LikelyCause::Freeze { .. } => {
            "freeze rows as they are loaded (COPY with FREEZE), or VACUUM (FREEZE) right after the load"
        }
        LikelyCause::RandomKeys { .. } => "use keys that grow (bigint identity, uuidv7), or make checkpoints rarer",
        LikelyCause::HashIndex { .. } => "use a btree index if keys grow, or make checkpoints rarer",
        LikelyCause::GinIndex { .. } => {
            "keep fastupdate on with a larger gin_pending_list_limit, or make checkpoints rarer"
        }
        LikelyCause::FullPages { .. } => {
            "set a lower fillfactor (such as 90), so that updates stay in their page and are HOT"
        }
        LikelyCause::IndexedColumns { .. } => {
            "drop the index on the updated column if no query needs it, or move the column to a separate table"
        }
    }
}
