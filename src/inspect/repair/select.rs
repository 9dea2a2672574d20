//! Selection of pages and images of a plan.

use crate::analysis::pages::select::RelationPattern;
use crate::analysis::verdict::survey::PageReport;
use crate::cluster::relation_walk;
use crate::inspect::error::InspectError;
use crate::inspect::examination::Examination;
use crate::inspect::page_name::PageName;
use crate::inspect::page_target::RelationChoice;
use crate::repair::plan::{LeftPage, LeftReason, Plan, PlanSource, PlanStep, SourceKind};
use crate::types::PageId;

/// The request; everything if empty.
pub(super) struct Selection<'a> {
    pub pages: Vec<(PageId, &'a PageName)>,
    pub relations: Vec<RelationPattern>,
    /// Source of images.
    pub source: Option<SourceKind>,
}

impl Selection<'_> {
    /// True when the page was asked for, by itself or with its relation.
    pub(super) fn takes(&self, page: PageId) -> bool {
        let by_page = self.pages.iter().any(|(wanted, _)| *wanted == page);
        let by_relation = self.relations.iter().any(|pattern| pattern.matches(page.rel));
        by_page || by_relation || (self.pages.is_empty() && self.relations.is_empty())
    }

    /// True when the page of a report was asked for.
    pub(super) fn takes_report(&self, report: &PageReport) -> bool {
        self.takes(report.page)
    }

    fn takes_step(&self, step: &PlanStep) -> bool {
        let by_source = match (self.source, &step.image) {
            (None, _) => true,
            (Some(SourceKind::Dwb), image) => matches!(image, PlanSource::Dwb { .. }),
            (Some(SourceKind::Wal), image) => matches!(image, PlanSource::Wal { .. }),
            (Some(SourceKind::Donor), image) => matches!(image, PlanSource::Donor { .. }),
            (Some(SourceKind::Rebuilt), image) => matches!(image, PlanSource::Rebuilt { .. }),
        };
        // A page that does not exist is refused when the plan is confirmed.
        by_source && step.page.page_id().is_none_or(|page| self.takes(page))
    }

    /// Takes the other steps out of a plan that was read from a file.
    pub(super) fn narrow(&self, plan: &mut Plan) -> Result<(), InspectError> {
        let (taken, others): (Vec<PlanStep>, Vec<PlanStep>) =
            std::mem::take(&mut plan.steps).into_iter().partition(|step| self.takes_step(step));
        let has = |wanted: &dyn Fn(PageId) -> bool| taken.iter().filter_map(|step| step.page.page_id()).any(wanted);
        let missing = |what: &dyn std::fmt::Display| InspectError::NotInPlan(what.to_string());
        for (page, name) in &self.pages {
            if !has(&|planned| planned == *page) {
                return Err(missing(&format_args!("--page {name}")));
            }
        }
        for pattern in &self.relations {
            if !has(&|planned| pattern.matches(planned.rel)) {
                return Err(missing(&format_args!("--relation {pattern}")));
            }
        }
        if let Some(source) = self.source.filter(|_| taken.is_empty()) {
            return Err(missing(&format_args!("--source {}", source.name())));
        }
        plan.steps = taken;
        let not_selected =
            |step: PlanStep| LeftPage::new(step.page, step.relation, step.verdict, &[LeftReason::NotSelected]);
        plan.left.extend(others.into_iter().map(not_selected));
        Ok(())
    }
}

/// The requested relations. One without a file would look undamaged.
pub(super) fn relations_of(
    examined: &Examination,
    wanted: &[RelationChoice],
) -> Result<Vec<RelationPattern>, InspectError> {
    let patterns = RelationChoice::resolve_all(wanted, Some(&examined.names))?;
    let Some(directory) = examined.source.directory.as_ref().filter(|_| !patterns.is_empty()) else {
        return Ok(patterns);
    };
    let files = relation_walk::relations_of(directory).files;
    for (wanted, pattern) in wanted.iter().zip(&patterns) {
        let is_damaged = || examined.report.pages.iter().any(|report| pattern.matches(report.page.rel));
        if !files.iter().any(|file| pattern.matches(file.rel)) && !is_damaged() {
            return Err(InspectError::NoFileOfRelation(wanted.to_string()));
        }
    }
    Ok(patterns)
}
