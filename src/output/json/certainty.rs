//! How sure the numbers of a row are, as fields of the row.

use serde_json::json;

use super::wal::Row;
use crate::analysis::wal::certainty::Certainty;

/// Fields that [`put_certainty`] gives a row, in order.
pub(crate) const CERTAINTY_FIELDS: [&str; 3] = ["certainty", "sampled", "of"];

/// Says how sure the numbers of a row are. `sampled` and `of` are `null` unless it is a sample.
pub(crate) fn put_certainty(row: &mut Row, certainty: Certainty) {
    let (sampled, of) = match certainty {
        Certainty::Sample { taken, of } => (Some(taken), Some(of)),
        Certainty::Exact | Certainty::AtLeast | Certainty::Estimate => (None, None),
    };
    let values = [json!(certainty.code()), json!(sampled), json!(of)];
    row.extend(CERTAINTY_FIELDS.iter().map(|field| (*field).to_owned()).zip(values));
}
