//! How sure the numbers of a row are, as fields of the row.

use schemars::JsonSchema;
use serde::Serialize;

use super::scalars::CertaintyWord;
use crate::analysis::wal::certainty::Certainty;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct CertaintyJson {
    /// Certainty: `exact`, `at_least` (part of the WAL could not be read), `estimate` (of a method of compression: another version of its library may differ by up to 1 percent in sum), `sample`
    certainty: CertaintyWord,
    /// For a sample: images examined, and all images
    sampled: Option<u64>,
    of: Option<u64>,
}

impl From<Certainty> for CertaintyJson {
    fn from(certainty: Certainty) -> Self {
        let (sampled, of) = match certainty {
            Certainty::Sample { taken, of } => (Some(taken), Some(of)),
            Certainty::Exact | Certainty::AtLeast | Certainty::Estimate => (None, None),
        };
        Self { certainty: certainty.code().into(), sampled, of }
    }
}
