//! Proofs by replay of pages that no checksum protects.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashSet;

use super::symptom::Symptom;
use crate::analysis::dwb::compare::Comparison;
use crate::analysis::dwb::staleness::Confidence;
use crate::analysis::start::belonging::Contradiction;
use crate::analysis::start::cluster_condition::Obstacle;
use crate::types::{Lsn, PageId};

/// Bytes in which a page may differ from what it should be and still be called damaged, not torn.
const MAX_ROTTEN_BYTES: usize = 2;

/// Sign that a page differs from the result of WAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disproof {
    /// LSN of the page.
    pub page_lsn: Lsn,
    /// Bytes in which it differs from what replay up to that LSN gives; empty where it does not, or was not built.
    pub differs: Vec<Range<usize>>,
    /// Start of a record that was on disk when the last checkpoint ended and that the page lacks.
    pub lacks: Option<Lsn>,
    /// No record that names the page gave it its LSN.
    pub is_foreign: bool,
    /// There is no page, or it is all zero: that is what it was found to be.
    pub absent: Option<Comparison>,
}

/// The proofs of pages.
#[derive(Clone, Debug, Default)]
pub struct Proofs {
    /// Pages that are what WAL makes of them.
    pub whole: FxHashSet<PageId>,
    /// Pages that are not.
    pub wrong: BTreeMap<PageId, Disproof>,
    /// Function that fails because of findings other than pages.
    pub obstacle: Option<Obstacle>,
    /// WAL from elsewhere has another history.
    pub diverged: Option<Contradiction>,
    /// Pages have another history than WAL.
    pub strangers: Option<Contradiction>,
    /// From the redo point on pages were changed without an image of what they were, by WAL.
    pub lacks_images: bool,
}

/// How the proofs went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProofReport {
    /// Pages have checksums, and nothing was proven by replay.
    pub is_needless: bool,
    /// Pages that are what WAL makes of them.
    pub whole: u64,
    /// Pages that are not.
    pub wrong: u64,
    /// Pages that were built, which says nothing: a sequence names a value that it had not yet handed out, or a hint moved
    /// the LSN.
    pub undecided: u64,
    /// Pages that WAL names and that nothing is known of that they could be built on.
    pub without_base: u64,
    /// Pages that could not be built, by the code of the reason.
    pub not_built: BTreeMap<&'static str, u64>,
    /// Version of the server that replayed; `None` where none did.
    pub server: Option<String>,
    /// Records that it replayed.
    pub records: u64,
}

impl Disproof {
    /// Comparison of such a page, confidence, and reasons.
    pub(crate) fn judgement(&self) -> (Comparison, Confidence, Vec<Symptom>) {
        (self.comparison(), Confidence::Proven, self.symptoms())
    }

    fn comparison(&self) -> Comparison {
        if let Some(absent) = self.absent {
            return absent;
        }
        match self.bytes() {
            0 if self.is_foreign => Comparison::Damaged,
            0 => Comparison::DiskOlder,
            // No crash stops a write of sectors there.
            1..=MAX_ROTTEN_BYTES => Comparison::Damaged,
            _ => Comparison::Torn,
        }
    }

    /// In how many bytes it differs.
    fn bytes(&self) -> usize {
        self.differs.iter().map(Range::len).fold(0, usize::saturating_add)
    }

    fn symptoms(&self) -> Vec<Symptom> {
        let Self { page_lsn, differs, lacks, is_foreign, absent } = self;
        if let (Some(_), Some(record_lsn)) = (absent, lacks) {
            return vec![Symptom::LostContent { record_lsn: *record_lsn }];
        }
        if *is_foreign {
            // What another page lacks says nothing.
            return vec![Symptom::LsnOfNoRecord { page_lsn: *page_lsn }];
        }
        let differs = differs.first().map(|first| Symptom::DiffersFromReplay {
            page_lsn: *page_lsn,
            first: first.start,
            bytes: self.bytes(),
        });
        let lacks = lacks.map(|record_lsn| Symptom::LacksRecord { page_lsn: *page_lsn, record_lsn });
        differs.into_iter().chain(lacks).collect()
    }
}
