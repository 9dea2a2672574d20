//! What an error says of itself, as evidence: it can be copied and compared, which errors of the system cannot.

use std::error::Error;
use std::fmt;

/// The words of an error. Made of errors alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorWords(String);

impl<E: Error> From<&E> for ErrorWords {
    fn from(error: &E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for ErrorWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
