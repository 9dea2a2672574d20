//! Coverage of a check.

use super::skipped::{ByteRange, SkipClass, SkipReason, Skipped, SkippedPart};

/// Checked and skipped parts; part of every report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Items that were examined: slots, pages or records, as the report says.
    pub examined: u64,
    /// Skipped parts.
    pub skipped: Vec<Skipped>,
}

impl Coverage {
    /// Counts something that was not examined.
    pub fn skip(&mut self, what: impl Into<SkippedPart>, reason: impl Into<SkipReason>) {
        self.skipped.push(Skipped { what: what.into(), bytes: None, reason: reason.into() });
    }

    /// Counts bytes of a file that were not examined.
    pub(crate) fn skip_bytes(&mut self, what: impl Into<SkippedPart>, bytes: ByteRange, reason: impl Into<SkipReason>) {
        self.skipped.push(Skipped { what: what.into(), bytes: Some(bytes), reason: reason.into() });
    }

    /// Counts something that was not examined, unless the same was counted before.
    pub(crate) fn skip_once(&mut self, what: impl Into<SkippedPart>, reason: impl Into<SkipReason>) {
        self.add_once(Skipped { what: what.into(), bytes: None, reason: reason.into() });
    }

    /// Takes over what another part did not examine, without what was counted before.
    pub(crate) fn append_once(&mut self, other: Self) {
        other.skipped.into_iter().for_each(|skipped| self.add_once(skipped));
    }

    fn add_once(&mut self, skipped: Skipped) {
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }

    /// The user interrupted it: the result is partial.
    pub fn is_interrupted(&self) -> bool {
        self.skipped.iter().any(|skipped| skipped.reason.class() == SkipClass::Interrupted)
    }
}
