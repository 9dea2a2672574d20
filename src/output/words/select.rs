//! Errors of a typed term.

use std::fmt;

use crate::analysis::select::TermError;

impl fmt::Display for TermError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARange(text) => {
                write!(f, "\"{text}\" is not a valid range: expected N, FIRST-LAST, FIRST- or -LAST")
            }
            Self::BackwardRange(text) => write!(f, "range \"{text}\" ends before it begins"),
            Self::NotARelation(text) => write!(
                f,
                "\"{text}\" is not a valid relation: expected REL, DB/REL or SPC/DB/REL, numbers up to {}",
                u32::MAX
            ),
        }
    }
}
