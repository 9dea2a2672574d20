//! Turns verdicts into a plan, and holds a saved plan against the verdicts of today.

use super::plan::{
    Choice, LeftPage, LeftReason, PLAN_SCHEMA, Permission, Plan, PlanPage, PlanSource, PlanStep, choose, crc_text,
};
use crate::analysis::verdict::candidate::{CandidateOutcome, ImageSource};
use crate::analysis::verdict::evidence::{Statement, Weight};
use crate::analysis::verdict::facts::RepairPlan;
use crate::analysis::verdict::fetch::FetchError;
use crate::analysis::verdict::survey::PageReport;
use crate::cluster::open::AccessError;
use crate::parsers::image::set_checksum;
use crate::parsers::page::PageHeader;
use crate::types::{Lsn, PageId, RelFileLocator};

/// Reads the bytes of an image.
pub(crate) type FetchImage<'a> = &'a dyn Fn(&ImageSource, PageId) -> Result<Vec<u8>, FetchError>;

/// Reads a page on disk; `None` when the file ends before it does.
pub(crate) type ReadDisk<'a> = &'a dyn Fn(PageId) -> Result<Option<Vec<u8>>, AccessError>;

pub(crate) struct Material<'a> {
    pub system_identifier: u64,
    /// Where replay begins.
    pub redo_lsn: Lsn,
    pub checksums: bool,
    pub pages: &'a [PageReport],
    pub fetch: FetchImage<'a>,
    pub disk: ReadDisk<'a>,
    /// Path of a page's file, relative to the data directory.
    pub path: &'a dyn Fn(PageId) -> String,
    pub name: &'a dyn Fn(RelFileLocator) -> Option<String>,
}

/// Why a step cannot be planned or confirmed.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The image cannot be read.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The page cannot be read.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The plan does not fit what is there.
    #[error("{path} block {block}: {what}")]
    Refused {
        /// File of the page.
        path: String,
        /// Block.
        block: u32,
        /// Why.
        what: String,
    },
    /// The plan is not for this cluster, or of another format.
    #[error("{0}")]
    OtherPlan(String),
}

/// The bytes that go to disk: the image with its page checksum where the cluster has them.
pub(crate) fn final_bytes(mut image: Vec<u8>, block: u32, checksums: bool) -> Vec<u8> {
    let is_new = PageHeader::decode(0, &image).is_ok_and(|header| header.is_new());
    if checksums && !is_new {
        set_checksum(&mut image, block);
    }
    image
}

impl Material<'_> {
    /// Makes a plan for the pages that `wanted` takes.
    ///
    /// # Errors
    /// When a page or an image that was just judged can no longer be read.
    pub fn plan(&self, permission: &Permission, wanted: &dyn Fn(&PageReport) -> bool) -> Result<Plan, PrepareError> {
        let (mut steps, mut left) = (Vec::new(), Vec::new());
        for report in self.pages {
            let chosen = match wanted(report) {
                true => choose(report, permission),
                false => Err(vec![LeftReason::NotSelected]),
            };
            match chosen {
                Ok(choice) => steps.push(self.step(report, choice)?),
                Err(reasons) => left.push(LeftPage::new(
                    PlanPage::of(report.page),
                    (self.name)(report.page.rel),
                    report.verdict.verdict.name().to_owned(),
                    &reasons,
                )),
            }
        }
        let (system_identifier, redo_lsn) = (self.system_identifier.to_string(), self.redo_lsn.to_string());
        Ok(Plan { schema: PLAN_SCHEMA, system_identifier, redo_lsn, steps, left })
    }

    fn step(&self, report: &PageReport, choice: Choice) -> Result<PlanStep, PrepareError> {
        let page = report.page;
        let refused =
            |what: &str| PrepareError::Refused { path: (self.path)(page), block: page.block, what: what.to_owned() };
        let index = match choice {
            Choice::Candidate(index) => index,
            Choice::Blank => {
                let before = (self.disk)(page)?.ok_or_else(|| refused("the file ends before the page does"))?;
                return Ok(PlanStep {
                    page: PlanPage::of(page),
                    relation: (self.name)(page.rel),
                    path: (self.path)(page),
                    image: PlanSource::Blank,
                    page_lsn: Lsn::INVALID.to_string(),
                    before_crc: crc_text(&before),
                    after_crc: crc_text(&vec![0; before.len()]),
                    verdict: report.verdict.verdict.name().to_owned(),
                    warnings: Vec::new(),
                    warning_codes: Vec::new(),
                });
            }
        };
        let judged = report.verdict.candidates.get(index).ok_or_else(|| refused("the image no longer exists"))?;
        let before = (self.disk)(page)?.ok_or_else(|| refused("the file ends before the page does"))?;
        let image = (self.fetch)(&judged.candidate.source, page)?;
        let after = final_bytes(image, page.block, self.checksums);
        let warns = |weight: Weight| matches!(weight, Weight::Missing | Weight::Loses);
        let warnings: Vec<&Statement> = match judged.outcome {
            CandidateOutcome::Safe => Vec::new(),
            _ => judged.statements(&warns).collect(),
        };
        Ok(PlanStep {
            page: PlanPage::of(page),
            relation: (self.name)(page.rel),
            path: (self.path)(page),
            image: PlanSource::of(&judged.candidate.source),
            page_lsn: judged.candidate.page_lsn.to_string(),
            before_crc: crc_text(&before),
            after_crc: crc_text(&after),
            verdict: report.verdict.verdict.name().to_owned(),
            warnings: warnings.iter().map(ToString::to_string).collect(),
            warning_codes: warnings.iter().map(|warning| warning.code().to_owned()).collect(),
        })
    }

    /// Holds a saved plan against what is there now: every step must be one that could be planned today. Gives the steps
    /// as they are planned today, so that nothing the file says of them is taken at its word.
    pub(crate) fn confirm(&self, plan: &Plan, permission: &Permission) -> Result<Vec<PlanStep>, PrepareError> {
        if plan.schema != PLAN_SCHEMA {
            return Err(PrepareError::OtherPlan(format!("the plan has format {}, not {PLAN_SCHEMA}", plan.schema)));
        }
        if plan.system_identifier != self.system_identifier.to_string() {
            let (theirs, ours) = (&plan.system_identifier, self.system_identifier);
            return Err(PrepareError::OtherPlan(format!(
                "the plan is for the cluster with system identifier {theirs}, this one has {ours}"
            )));
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut steps = Vec::with_capacity(plan.steps.len());
        for step in &plan.steps {
            let refused = |what: String| PrepareError::Refused {
                path: step.page.page_id().map_or_else(|| step.path.clone(), |page| (self.path)(page)),
                block: step.page.block,
                what,
            };
            let page = step.page.page_id().ok_or_else(|| refused(format!("there is no fork {:?}", step.page.fork)))?;
            if !seen.insert(page) {
                return Err(refused("the plan names this page twice".to_owned()));
            }
            let report = self.pages.binary_search_by_key(&page, |report| report.page).ok();
            let report = report.and_then(|at| self.pages.get(at));
            let report = report.ok_or_else(|| refused("nothing is wrong with this page now".to_owned()))?;
            if step.image == PlanSource::Blank {
                if !report.can_be_blank() || !permission.blank_maps {
                    let what = "only damaged map pages are zeroed, and only with --blank-maps";
                    return Err(refused(what.to_owned()));
                }
                let now = self.step(report, Choice::Blank)?;
                if (&now.before_crc, &now.after_crc) != (&step.before_crc, &step.after_crc) {
                    return Err(refused("the page has changed since the plan was made".to_owned()));
                }
                steps.push(now);
                continue;
            }
            let word = report.verdict.verdict.name();
            if report.is_cut
                || matches!(report.verdict.verdict.facts().plan, RepairPlan::NotNeeded | RepairPlan::NoImage)
            {
                return Err(refused(format!("the verdict on this page is {word}: nothing to restore")));
            }
            let index = report
                .verdict
                .candidates
                .iter()
                .position(|judged| PlanSource::of(&judged.candidate.source) == step.image)
                .ok_or_else(|| refused(format!("{} holds no image of this page", step.image)))?;
            let outcome =
                report.verdict.candidates.get(index).map_or(CandidateOutcome::Unusable, |judged| judged.outcome);
            if !permission.allows(page, outcome) {
                let flag = match outcome {
                    CandidateOutcome::Unproven => "; --allow-unproven restores it anyway",
                    CandidateOutcome::LosesChanges => "; --lose-changes with the name of the page restores it anyway",
                    CandidateOutcome::Safe | CandidateOutcome::Unusable => "",
                };
                return Err(refused(format!("{} is not proven to be safe{flag}", step.image)));
            }
            let now = self.step(report, Choice::Candidate(index))?;
            if now.before_crc != step.before_crc {
                return Err(refused("the page has changed since the plan was made".to_owned()));
            }
            if now.after_crc != step.after_crc {
                return Err(refused(format!("{} has changed since the plan was made", step.image)));
            }
            steps.push(now);
        }
        Ok(steps)
    }
}
