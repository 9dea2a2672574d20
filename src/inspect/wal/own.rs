//! The segments that one of many exports of an archive is of: all other WAL that it reads is context.

use std::collections::BTreeSet;

use super::export::Known;
use crate::analysis::skipped::{Coverage, SkipReason, SkippedPart};
use crate::cluster::wal::WalSet;
use crate::inspect::error::InspectError;
use crate::parsers::wal::end::EndReason;
use crate::parsers::wal::timeline::WalSegment;
use crate::report::{Finding, rules};
use crate::types::Lsn;

/// The first and the last own segment, as they were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnRequest {
    pub(crate) first: String,
    pub(crate) last: String,
}

/// The numbers of own segments, on whatever timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnSegments {
    pub(crate) first: u64,
    pub(crate) last: u64,
    segment_size: u32,
}

impl OwnRequest {
    /// # Errors
    /// When one of them is no name of a segment, no number of one and no LSN, or the last comes before the first.
    pub(super) fn resolve(&self, segment_size: u32) -> Result<OwnSegments, InspectError> {
        let number = |text: &str| {
            let wrong = || InspectError::NotASegment { name: text.to_owned(), segment_size };
            if text.contains('/') {
                let lsn: Lsn = text.parse().map_err(|_| wrong())?;
                return Ok(lsn.0 / u64::from(segment_size.max(1)));
            }
            // Without a timeline, as partitions of exported files have it.
            let name = if text.len() == 16 { format!("00000001{text}") } else { text.to_owned() };
            WalSegment::from_file_name(&name, segment_size).map(|segment| segment.number).ok_or_else(wrong)
        };
        let (first, last) = (number(&self.first)?, number(&self.last)?);
        if last < first { Err(InspectError::SpanReversed) } else { Ok(OwnSegments { first, last, segment_size }) }
    }
}

impl OwnSegments {
    pub(crate) fn start_lsn(&self) -> Lsn {
        Lsn(self.first.saturating_mul(self.segment_size.into()))
    }

    /// Start of the segment after the last.
    pub(crate) fn end_lsn(&self) -> Lsn {
        Lsn(self.last.saturating_add(1).saturating_mul(self.segment_size.into()))
    }

    pub(super) fn holds(&self, number: u64) -> bool {
        (self.first..=self.last).contains(&number)
    }

    /// Says which own segments were not read, and whether the last own record is not whole. `ended`: why reading of the last
    /// segment ended; `to`: the end of the last record that was read.
    pub(super) fn note_missing(
        &self,
        set: &WalSet,
        known: &[Known],
        (ended, to): (Option<&EndReason>, Option<Lsn>),
        findings: &mut Vec<Finding>,
        coverage: &mut Coverage,
    ) {
        let numbers: BTreeSet<u64> = known.iter().map(|known| set.segments()[known.index].segment.number).collect();
        let all = self.last.saturating_sub(self.first).saturating_add(1);
        let missing = all.saturating_sub(numbers.range(self.first..=self.last).count() as u64);
        let first_missing =
            numbers.range(self.first..=self.last).zip(self.first..).find(|(found, wanted)| **found != *wanted);
        let part = |from: Lsn| SkippedPart::LsnRange { start: Some(from), end: Some(self.end_lsn()) };
        if missing > 0 {
            let read_through = || self.first.saturating_add(all.saturating_sub(missing));
            let number = first_missing.map_or_else(read_through, |(_, wanted)| wanted);
            let from = Lsn(number.saturating_mul(self.segment_size.into()));
            findings
                .push(OWN_MISSING.problem(format!("{missing} own segments were not read, the first begins at {from}")));
            coverage.skip(part(from), SkipReason::SegmentsMissing);
            return;
        }
        let input_ends = matches!(ended, Some(EndReason::Limit | EndReason::InputEnds | EndReason::CutShort { .. }));
        if let Some(to) = to.filter(|to| input_ends && *to < self.end_lsn()) {
            let what = format!(
                "the record at or after {to} starts in the last own segment and continues in the next one, which is missing"
            );
            findings.push(OWN_CUT.problem(what));
            coverage.skip(part(to), SkipReason::SegmentsMissing);
        }
    }
}

rules! {
    OWN_MISSING: Wal "own_segments_missing",
        why: "records that start there are missing from this export and from every other one",
        means: "With `export --own`: WAL of own segments was not read",
        action: "Give all own segments, and the one after the last";
    OWN_CUT: Wal "own_record_cut",
        why: "that record is missing from this export and from every other one",
        means: "With `export --own`: the last record that starts in own segments ends in the next one, which was not given",
        action: "Give the segment after the last as well; of the newest segment of a server that writes, wait for the next";
}
