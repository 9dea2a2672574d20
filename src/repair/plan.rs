//! Plan of a repair, page by page. Pure: made from verdicts, saved and read as JSON, and checked again when
//! it is applied.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::analysis::verdict::candidate::{CandidateOutcome, ImageSource};
use crate::analysis::verdict::facts::RepairPlan;
use crate::analysis::verdict::judge::Reason;
use crate::analysis::verdict::survey::PageReport;
use crate::types::{ForkNumber, PageId, RelFileLocator};

pub(crate) const PLAN_SCHEMA: u32 = 1;

/// Longest plan that is saved, and read back, in bytes.
pub(crate) const PLAN_LIMIT_BYTES: u64 = 64 << 20;

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// See `PLAN_SCHEMA`.
    pub schema: u32,
    /// The cluster that it was made for.
    pub system_identifier: String,
    /// Where replay begins in that cluster.
    pub redo_lsn: String,
    /// Pages to be overwritten.
    pub steps: Vec<PlanStep>,
    /// Damaged pages that are left as they are.
    #[serde(default)]
    pub left: Vec<LeftPage>,
}

/// A page as a plan names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlanPage {
    /// Tablespace.
    pub spc_oid: u32,
    /// Database.
    pub db_oid: u32,
    /// File number.
    pub rel_number: u32,
    /// Fork.
    pub fork: String,
    /// Block within the fork.
    pub block: u32,
}

impl PlanPage {
    /// The page with this identity.
    pub fn of(page: PageId) -> Self {
        let RelFileLocator { spc_oid, db_oid, rel_number } = page.rel;
        Self { spc_oid, db_oid, rel_number, fork: page.fork.name().to_owned(), block: page.block }
    }

    /// The identity; `None` for a fork that does not exist.
    pub fn page_id(&self) -> Option<PageId> {
        let rel = RelFileLocator { spc_oid: self.spc_oid, db_oid: self.db_oid, rel_number: self.rel_number };
        Some(PageId { rel, fork: self.fork.parse::<ForkNumber>().ok()?, block: self.block })
    }
}

/// Where an image comes from, as a plan names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum PlanSource {
    /// A slot of the double write buffer.
    Dwb {
        /// File name.
        file: String,
        /// Place in the file.
        slot_index: u64,
    },
    /// A page of zeros, for one of a map.
    Blank,
    /// An image in WAL.
    Wal {
        /// Start of the record.
        lsn: String,
    },
    /// A page of a donor.
    Donor {
        /// Path of the donor.
        donor: String,
        /// Its redo point.
        redo_lsn: String,
    },
    /// A page that a server built by replay.
    Rebuilt {
        /// Its base.
        base: String,
        /// Start of that record, or LSN of that copy.
        base_lsn: String,
        /// Records that were replayed.
        records: u64,
        /// As of which LSN it was built.
        as_of: String,
        /// Version of the server.
        server: String,
    },
}

impl PlanSource {
    /// The index of a candidate.
    pub fn of(source: &ImageSource) -> Self {
        match source {
            ImageSource::Dwb { file, slot_index, .. } => Self::Dwb { file: file.clone(), slot_index: *slot_index },
            ImageSource::Wal { record_lsn } => Self::Wal { lsn: record_lsn.to_string() },
            ImageSource::Donor { path, redo_lsn, .. } => {
                Self::Donor { donor: path.clone(), redo_lsn: redo_lsn.to_string() }
            }
            ImageSource::Rebuilt(rebuilt) => Self::Rebuilt {
                base: rebuilt.base.name().to_owned(),
                base_lsn: rebuilt.base.lsn().to_string(),
                records: rebuilt.records,
                as_of: rebuilt.until.to_string(),
                server: rebuilt.server.clone(),
            },
        }
    }
}

impl std::fmt::Display for PlanSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dwb { file, slot_index } => write!(f, "{file} slot {slot_index}"),
            Self::Blank => f.write_str("a zero-filled page"),
            Self::Wal { lsn } => write!(f, "WAL image at {lsn}"),
            Self::Donor { donor, .. } => write!(f, "donor {donor}"),
            Self::Rebuilt { base, base_lsn, records, server, .. } => {
                let noun = if *records == 1 { "record" } else { "records" };
                let base = if base == "empty" { "an empty page" } else { &format!("the {base}") };
                write!(f, "page rebuilt by PostgreSQL {server} from {base} at {base_lsn} with {records} {noun}")
            }
        }
    }
}

/// One page to be overwritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// Which page.
    #[serde(flatten)]
    pub page: PlanPage,
    /// Name of its relation, for readers.
    #[serde(default)]
    pub relation: Option<String>,
    /// Its file, relative to the data directory, for readers.
    #[serde(default)]
    pub path: String,
    /// The image.
    pub image: PlanSource,
    /// LSN that the page will have, for readers.
    #[serde(default)]
    pub page_lsn: String,
    /// CRC-32C of the page as it was on disk, eight hexadecimal digits.
    pub before_crc: String,
    /// CRC-32C of the page as it will be written.
    pub after_crc: String,
    /// The verdict at the time, for readers.
    #[serde(default)]
    pub verdict: String,
    /// Possible losses, if the verdict is not "restore".
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The code of each.
    #[serde(default)]
    pub warning_codes: Vec<String>,
}

/// How sure it is that what a step writes is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepKind {
    /// An image that is proven.
    Proven,
    /// A page that was built by replay, and is proven.
    Rebuilt,
    /// Zeros over a page of a map.
    Blank,
    /// An image whose proof has a gap.
    Unproven,
    /// An image that lacks committed changes.
    LosesChanges,
}

impl StepKind {
    /// The kind of a step for the page of `report`. A source that the report does not know proves nothing.
    pub fn of(report: Option<&PageReport>, step: &PlanStep) -> Self {
        if step.image == PlanSource::Blank {
            return Self::Blank;
        }
        let candidates = report.map_or(&[][..], |report| &report.verdict.candidates);
        let judged = candidates.iter().find(|judged| PlanSource::of(&judged.candidate.source) == step.image);
        match judged.map(|judged| (judged.outcome, judged.rebuilt().is_some())) {
            Some((CandidateOutcome::Safe, false)) => Self::Proven,
            Some((CandidateOutcome::Safe, true)) => Self::Rebuilt,
            Some((CandidateOutcome::LosesChanges, _)) => Self::LosesChanges,
            Some((CandidateOutcome::Unproven | CandidateOutcome::Unusable, _)) | None => Self::Unproven,
        }
    }

    /// Something may be lost by writing it.
    pub const fn may_lose(self) -> bool {
        matches!(self, Self::Unproven | Self::LosesChanges)
    }
}

/// One page that is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftPage {
    /// Which page.
    #[serde(flatten)]
    pub page: PlanPage,
    /// Name of its relation.
    #[serde(default)]
    pub relation: Option<String>,
    /// The verdict.
    pub verdict: String,
    /// Why it is left.
    pub reasons: Vec<String>,
    /// The code of each reason.
    #[serde(default)]
    pub reason_codes: Vec<String>,
}

/// Why a plan leaves a page as it is.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum LeftReason {
    /// The verdict. Its code is that of the reason for it.
    Verdict(Reason),
    /// It was not selected.
    NotSelected,
    /// It can be overwritten with zeros, which is not allowed.
    NeedsBlankMaps,
    /// It can be overwritten with an unproven image, which is not allowed.
    NeedsAllowUnproven,
    /// It can be overwritten with an image that lacks changes, which is not allowed.
    NeedsLoseChanges,
    /// The file ends before the page.
    NoPageToOverwrite,
    /// No image of the chosen source may be used.
    NoImageOfSource,
}

impl LeftReason {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Verdict(reason) => reason.code(),
            other => other.into(),
        }
    }

    /// The codes of all reasons that there can be, but for those of [`Reason`].
    pub fn codes() -> impl Iterator<Item = &'static str> {
        Self::VARIANTS.iter().copied().filter(|code| *code != "verdict")
    }
}

impl LeftPage {
    /// A page that is left for these reasons.
    pub fn new(page: PlanPage, relation: Option<String>, verdict: String, reasons: &[LeftReason]) -> Self {
        let reason_codes = reasons.iter().map(|reason| reason.code().to_owned()).collect();
        Self { page, relation, verdict, reasons: reasons.iter().map(ToString::to_string).collect(), reason_codes }
    }
}

/// A CRC as a plan spells it.
pub fn crc_text(bytes: &[u8]) -> String {
    format!("{:08x}", crate::parsers::crc::crc32c(bytes))
}

/// Which sources may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// The double write buffer.
    Dwb,
    /// WAL.
    Wal,
    /// Donors.
    Donor,
    /// Pages that were built by replay.
    Rebuilt,
}

impl SourceKind {
    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dwb => "dwb",
            Self::Wal => "wal",
            Self::Donor => "donor",
            Self::Rebuilt => "rebuilt",
        }
    }
}

/// Permissions of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permission {
    /// Images of one kind of source only.
    pub source: Option<SourceKind>,
    /// Put back images whose proof has a gap, for all pages.
    pub all_unproven: bool,
    /// Unproven images of these pages.
    pub unproven: Vec<PageId>,
    /// Put back images although changes are lost, for these pages.
    pub lose_changes: Vec<PageId>,
    /// Overwrite damaged pages of maps with zeros.
    pub blank_maps: bool,
}

/// Source of the new content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The candidate with this index in the verdict.
    Candidate(usize),
    /// Zeros.
    Blank,
}

impl Permission {
    /// True when an image of `page` with this outcome may be written.
    pub(crate) fn allows(&self, page: PageId, outcome: CandidateOutcome) -> bool {
        match outcome {
            CandidateOutcome::Safe => true,
            CandidateOutcome::Unproven => self.all_unproven || self.unproven.contains(&page),
            CandidateOutcome::LosesChanges => self.lose_changes.contains(&page),
            CandidateOutcome::Unusable => false,
        }
    }
}

/// The candidate that would be put back, by the verdict and what the user allows; or why none is.
///
/// # Errors
/// Each reason why the page is left as it is.
pub fn choose(report: &PageReport, permission: &Permission) -> Result<Choice, Vec<LeftReason>> {
    let verdict = &report.verdict;
    let reasons = || verdict.reasons.iter().cloned().map(LeftReason::Verdict);
    if report.can_be_blank() {
        let reasons = || reasons().chain([LeftReason::NeedsBlankMaps]).collect();
        return if permission.blank_maps { Ok(Choice::Blank) } else { Err(reasons()) };
    }
    if matches!(verdict.verdict.facts().plan, RepairPlan::NotNeeded | RepairPlan::NoImage) {
        return Err(reasons().collect());
    }
    if report.is_cut {
        return Err(vec![LeftReason::NoPageToOverwrite]);
    }
    let of_source = |source: &ImageSource| match permission.source {
        None => true,
        Some(SourceKind::Dwb) => matches!(source, ImageSource::Dwb { .. }),
        Some(SourceKind::Wal) => matches!(source, ImageSource::Wal { .. }),
        Some(SourceKind::Donor) => source.is_donor(),
        Some(SourceKind::Rebuilt) => matches!(source, ImageSource::Rebuilt(_)),
    };
    let usable = |index: &usize| {
        verdict
            .candidates
            .get(*index)
            .is_some_and(|judged| of_source(&judged.candidate.source) && permission.allows(report.page, judged.outcome))
    };
    if let Some(index) = verdict.chosen.filter(usable) {
        return Ok(Choice::Candidate(index));
    }
    let best = (0..verdict.candidates.len()).filter(usable).min_by_key(|index| {
        verdict.candidates.get(*index).map(|judged| (judged.outcome, std::cmp::Reverse(judged.candidate.page_lsn)))
    });
    best.map(Choice::Candidate).ok_or_else(|| {
        let last = match verdict.verdict.facts().plan {
            RepairPlan::IfUnprovenAllowed => LeftReason::NeedsAllowUnproven,
            RepairPlan::IfLossAllowed => LeftReason::NeedsLoseChanges,
            RepairPlan::Write | RepairPlan::NoImage | RepairPlan::NotNeeded => LeftReason::NoImageOfSource,
        };
        reasons().chain([last]).collect()
    })
}
