//! Counts over records and images.
//! Also here: the certainty of a number.

use strum::IntoStaticStr;

use crate::parsers::wal::record::Record;

/// Sums over some records. All but `records` and `fpi_count` are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records.
    pub records: u64,
    /// Bytes of the records without their images (`pg_waldump --stats`: record size).
    pub record_bytes: u64,
    /// Images, whether redo applies them or not.
    pub fpi_count: u64,
    /// Bytes of the images as stored (`pg_waldump --stats`: FPI size).
    pub fpi_bytes: u64,
    /// Bytes of the pages that the images hold: before hole removal and compression.
    pub fpi_raw_bytes: u64,
    /// WAL from the start of each record to its end, with page headers, padding and what a segment switch leaves unused. Of
    /// a record of which a part is counted, in the first of its parts.
    pub span_bytes: u64,
}

impl Tally {
    /// Bytes of the records with their images.
    pub const fn combined_bytes(&self) -> u64 {
        self.record_bytes.saturating_add(self.fpi_bytes)
    }

    /// Part of the combined bytes that is images, 0 to 1; 0 when there are no bytes.
    pub(crate) fn fpi_share(&self) -> f64 {
        match self.combined_bytes() {
            0 => 0.0,
            bytes => self.fpi_bytes as f64 / bytes as f64,
        }
    }

    /// Counts one record with all its images.
    #[inline]
    pub(crate) fn add_record(&mut self, record: &Record<'_>) {
        let images = u64::from(record.layout.image_count);
        self.records = self.records.saturating_add(1);
        self.span_bytes = self.span_bytes.saturating_add(record.end_lsn.bytes_since(record.start_lsn).unwrap_or(0));
        self.record_bytes = self.record_bytes.saturating_add(u64::from(record.length_without_images()));
        if images > 0 {
            self.fpi_count = self.fpi_count.saturating_add(images);
            self.fpi_bytes = self.fpi_bytes.saturating_add(u64::from(record.fpi_length()));
            self.fpi_raw_bytes = self.fpi_raw_bytes.saturating_add(images.saturating_mul(u64::from(record.block_size)));
        }
    }

    /// Counts one image of `stored` bytes that stands for a page of `raw` bytes.
    pub(crate) fn add_image(&mut self, stored: u16, raw: u32) {
        self.fpi_count = self.fpi_count.saturating_add(1);
        self.fpi_bytes = self.fpi_bytes.saturating_add(u64::from(stored));
        self.fpi_raw_bytes = self.fpi_raw_bytes.saturating_add(u64::from(raw));
    }

    /// What was counted since it was `before`.
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            records: self.records.saturating_sub(before.records),
            record_bytes: self.record_bytes.saturating_sub(before.record_bytes),
            fpi_count: self.fpi_count.saturating_sub(before.fpi_count),
            fpi_bytes: self.fpi_bytes.saturating_sub(before.fpi_bytes),
            fpi_raw_bytes: self.fpi_raw_bytes.saturating_sub(before.fpi_raw_bytes),
            span_bytes: self.span_bytes.saturating_sub(before.span_bytes),
        }
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.records = self.records.saturating_add(other.records);
        self.record_bytes = self.record_bytes.saturating_add(other.record_bytes);
        self.fpi_count = self.fpi_count.saturating_add(other.fpi_count);
        self.fpi_bytes = self.fpi_bytes.saturating_add(other.fpi_bytes);
        self.fpi_raw_bytes = self.fpi_raw_bytes.saturating_add(other.fpi_raw_bytes);
        self.span_bytes = self.span_bytes.saturating_add(other.span_bytes);
    }
}

/// How sure a number is.
///
/// What is worked out of numbers that are sure to different degrees is as sure as the least sure of them: see `Self::and`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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
    pub fn code(self) -> &'static str {
        self.into()
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
