//! How sure a number is.

/// How sure a number is.
///
/// What is worked out of numbers that are sure to different degrees is as sure as the least sure of them: see `Self::and`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Certainty {
    /// Counted, or follows from what was counted without anything assumed.
    #[default]
    Exact,
    /// Part of it is sure, and more may be missing: never less than this.
    AtLeast,
    /// Rests on something that WAL does not say.
    Estimate,
    /// Measured on some of the things that it is about, and carried over to all of them.
    Sample {
        /// Things that were measured.
        taken: u64,
        /// Things that it is about.
        of: u64,
    },
}

impl Certainty {
    /// Stable name for programs.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::AtLeast => "at_least",
            Self::Estimate => "estimate",
            Self::Sample { .. } => "sample",
        }
    }

    /// The certainty of a sum when not all that it is about could be read.
    pub(crate) const fn of_part(self) -> Self {
        match self {
            Self::Exact => Self::AtLeast,
            other => other,
        }
    }

    /// The certainty of what is worked out of this number and another one. A lower bound and an estimate give an estimate;
    /// so do samples of different things.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Exact, only) | (only, Self::Exact) => only,
            (one, same) if one == same => one,
            _ => Self::Estimate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_is_as_sure_as_its_least_sure_part() {
        let sample = Certainty::Sample { taken: 2, of: 9 };
        for certainty in [Certainty::Exact, Certainty::AtLeast, Certainty::Estimate, sample] {
            assert_eq!(Certainty::Exact.and(certainty), certainty);
            assert_eq!(certainty.and(certainty), certainty);
            assert_eq!(certainty.and(Certainty::Estimate), Certainty::Estimate);
        }
        assert_eq!(Certainty::AtLeast.and(sample), Certainty::Estimate);
        assert_eq!(sample.and(Certainty::Sample { taken: 3, of: 9 }), Certainty::Estimate);
    }
}
